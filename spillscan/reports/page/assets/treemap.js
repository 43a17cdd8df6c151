// Tiles whose areas are sizes.
const treemap = (() => {
  const HEIGHT = 320;
  const TONES = 5, CHARACTER = 7.5, LINE = 16;

  // Each tile is {size, label, value, title, href}; `tone`: number of its colour.
  function figure(tiles, label) {
    const shown = tiles.filter((each) => each.size > 0).sort((one, other) => other.size - one.size);
    return h("figure", { class: "treemap" }, chart.drawn((width) => {
      const found = [];
      squarify(shown, { x: 0, y: 0, w: width, h: HEIGHT }, (each, area) => found.push(tile(each, area)));
      return svg("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "group", "aria-label": label }, found);
    }).node);
  }

  // The title names the link: the label in the tile may be cut.
  function tile({ label, value, title, tone, href }, { x, y, w, h: height }) {
    const letters = Math.floor((w - 10) / CHARACTER);
    const fits = letters >= 3 && height >= LINE + 6;
    const cut = (text) => (text.length > letters ? `${text.slice(0, letters - 1)}…` : text);
    return svg(href ? "a" : "g", { class: href ? "opens" : "", href },
      svg("title", {}, title),
      svg("rect", { x, y, width: Math.max(w, 0), height: Math.max(height, 0), class: `tone-${tone % TONES}` }),
      fits ? svg("text", { "aria-hidden": "true", x: x + 5, y: y + LINE }, cut(label)) : null,
      fits && height >= 2 * LINE + 6 ? svg("text", { "aria-hidden": "true", x: x + 5, y: y + 2 * LINE, class: "bytes" }, cut(value)) : null);
  }

  // Rows of tiles along the shorter side, as long as that makes them more square (Bruls, Huizing and van Wijk, 2000).
  function squarify(tiles, area, draw) {
    let rest = tiles, { x, y, w, h: height } = area;
    while (rest.length) {
      const scale = (w * height) / rest.reduce((total, each) => total + each.size, 0), side = Math.min(w, height);
      let row = 1;
      while (row < rest.length && worst(rest.slice(0, row + 1), side, scale) <= worst(rest.slice(0, row), side, scale)) row += 1;
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
