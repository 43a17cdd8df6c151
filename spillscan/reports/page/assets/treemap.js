// Tiles whose areas are sizes.
const treemap = (() => {
  const { h, svg } = spillscan;
  const WIDTH = 1000, HEIGHT = 520;
  const TONES = 5, CHARACTER = 7.5, LINE = 16;

  // Of each tile {size, label, value, title}: and where it leads, `href`, or what it does, `open`. `tone`: its colour's number.
  function figure(tiles, label, role, height = HEIGHT, width = WIDTH) {
    const shown = tiles.filter((each) => each.size > 0).sort((one, other) => other.size - one.size);
    const drawn = [];
    squarify(shown, { x: 0, y: 0, w: width, h: height }, (each, area) => drawn.push(tile(each, area)));
    return h("figure", { class: "weights" }, svg("svg", { viewBox: `0 0 ${width} ${height}`, role, "aria-label": label }, drawn));
  }

  function tile({ label, value, title, tone, href, open }, { x, y, w, h: height }) {
    const letters = Math.floor((w - 10) / CHARACTER);
    const fits = letters >= 3 && height >= LINE + 6;
    return svg(href ? "a" : "g", { class: href || open ? "opens" : "", href: href || null, "aria-label": href ? title : null, onclick: open || null },
      svg("title", {}, title),
      svg("rect", { x, y, width: Math.max(w, 0), height: Math.max(height, 0), class: `tone-${tone % TONES}` }),
      fits ? svg("text", { x: x + 5, y: y + LINE }, label.length > letters ? `${label.slice(0, letters - 1)}…` : label) : null,
      fits && height >= 2 * LINE + 6 ? svg("text", { x: x + 5, y: y + 2 * LINE, class: "bytes" }, value.slice(0, letters)) : null);
  }

  // Rows of tiles along the shorter side, as long as that makes them more square (Bruls, Huizing and van Wijk, 2000).
  function squarify(tiles, area, draw) {
    let rest = tiles, { x, y, w, h: height } = area;
    while (rest.length) {
      const total = rest.reduce((sum, each) => sum + each.size, 0);
      const side = Math.min(w, height), scale = (w * height) / total;
      let row = 1, best = worst(rest.slice(0, 1), side, scale);
      while (row < rest.length) {
        const next = worst(rest.slice(0, row + 1), side, scale);
        if (next > best) break;
        best = next;
        row += 1;
      }
      const taken = rest.slice(0, row), sum = taken.reduce((all, each) => all + each.size, 0);
      const thick = side ? (sum * scale) / side : 0;
      let along = 0;
      for (const each of taken) {
        const long = side * (each.size / sum);
        draw(each, w >= height ? { x, y: y + along, w: thick, h: long } : { x: x + along, y, w: long, h: thick });
        along += long;
      }
      if (w >= height) { x += thick; w -= thick; } else { y += thick; height -= thick; }
      rest = rest.slice(row);
    }
  }

  function worst(row, side, scale) {
    const areas = row.map((each) => each.size * scale), sum = areas.reduce((all, each) => all + each, 0);
    return Math.max((side * side * Math.max(...areas)) / (sum * sum), (sum * sum) / (side * side * Math.min(...areas)));
  }

  return { figure };
})();
