// What is added up in groups of groups (bytes of files, time of compilations): areas are the first measure; a group opens
// to the groups in it, here and in the table below.
(() => {
  const { h, svg, number, link } = spillscan;
  const WIDTH = 1000, HEIGHT = 520;
  const TONES = 5, CHARACTER = 7.5, LINE = 16, ROWS = 200;

  spillscan.view("size", (payload, id, box) => {
    const { measures, compared } = payload;
    const value = (node, at) => fixed(node.values[at], measures[at].digits);
    const change = (node, at) => `${node.values[at] < node.before[at] ? "−" : "+"}${fixed(Math.abs(node.values[at] - node.before[at]), measures[at].digits)}`;
    const said = (node) => (node.values ? measures : []).map((each, at) => {
      const words = each.head.split(" ");
      return [value(node, at), words.pop(), ...words, ...(compared ? [`(${change(node, at)})`] : [])].join(" ");
    }).join(", ");
    const path = [];
    const trail = [payload.tree];
    for (const at of id ? id.split(".") : []) {
      const inner = trail[trail.length - 1].groups[Number(at)];
      if (!inner) break;
      path.push(at);
      trail.push(inner);
    }
    const node = trail[trail.length - 1];
    const inside = (at) => [...path, at].join(".");
    spillscan.add(box,
      h("h1", {}, payload.title),
      h("p", {}, trail.map((each, at) => [at ? " › " : "",
        at === trail.length - 1 ? h("b", {}, each.label) : h("a", { href: link("size", path.slice(0, at).join(".")) }, each.label)]),
        node.values ? ` · ${said(node)}` : ""),
      node.groups.length ? [map(node, inside, { value, said, first: measures[0].head }), list(node, inside, { measures, compared, value, change, whole: payload.tree.values ? payload.tree.values[0] : 0 })] : null);
  });

  function fixed(value, digits) {
    return digits ? value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }) : number(value);
  }

  function map(node, inside, words) {
    const tiles = node.groups.map((each, at) => ({ each, at, size: each.values[0] })).filter((tile) => tile.size > 0)
      .sort((one, other) => other.size - one.size);
    const drawn = [];
    treemap.squarify(tiles, { x: 0, y: 0, w: WIDTH, h: HEIGHT }, ({ each, at }, area) => drawn.push(tile(each, at, area, inside, words)));
    return h("figure", { class: "weights" }, svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
      "aria-label": `${words.first} of ${node.label}, as areas; the table below has the figures` }, drawn));
  }

  function tile(each, at, { x, y, w, h: height }, inside, words) {
    const opens = each.groups.length > 0;
    const letters = Math.floor((w - 10) / CHARACTER);
    const fits = letters >= 3 && height >= LINE + 6;
    return svg("g", { class: opens ? "opens" : "", onclick: opens ? () => spillscan.go("size", inside(at)) : null },
      svg("title", {}, `${each.label}: ${words.said(each)}`),
      svg("rect", { x, y, width: Math.max(w, 0), height: Math.max(height, 0), class: `tone-${at % TONES}` }),
      fits ? svg("text", { x: x + 5, y: y + LINE }, each.label.length > letters ? `${each.label.slice(0, letters - 1)}…` : each.label) : null,
      fits && height >= 2 * LINE + 6 ? svg("text", { x: x + 5, y: y + 2 * LINE, class: "bytes" }, words.value(each, 0).slice(0, letters)) : null);
  }

  function list(node, inside, { measures, compared, value, change, whole }) {
    const share = (each) => (whole ? `${(100 * each.values[0] / whole).toFixed(1)} %` : "–");
    const cells = (each) => measures.flatMap((_, at) => [value(each, at), ...(compared ? [change(each, at)] : at ? [] : [share(each)])]);
    const heads = measures.flatMap((each, at) => [each.head, ...(compared ? ["change"] : at ? [] : ["of all"])]);
    const row = (each, at) => h("tr", {},
      h("th", { scope: "row" }, each.groups.length ? h("a", { href: link("size", inside(at)) }, each.label) : each.label),
      cells(each).map((cell) => h("td", {}, cell)));
    const more = node.groups.length - ROWS;
    return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Groups" }, h("table", { class: "weights" },
      h("thead", {}, h("tr", {}, ["what", ...heads].map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, node.groups.slice(0, ROWS).map(row))),
      more > 0 ? h("p", { class: "quiet" }, `… ${number(more)} smaller ones`) : null);
  }
})();
