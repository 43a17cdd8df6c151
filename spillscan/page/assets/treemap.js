// Tiles whose areas are sizes.
const treemap = (() => {
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

  return { squarify };
})();
