// What is added up in groups of groups (bytes of files, time of compilations): areas are the first measure; a group opens
// to the groups in it, here and in the table below.
(() => {
  const { h, number, bytes, link } = spillscan;
  const ROWS = 200;

  spillscan.view("size", (payload, id, box) => {
    const { measures, compared } = payload;
    const text = (amount, at) => (measures[at].bytes ? bytes(amount) : fixed(amount, measures[at].digits));
    const value = (node, at) => text(node.values[at], at);
    const change = (node, at) => `${node.values[at] < node.before[at] ? "−" : "+"}${text(Math.abs(node.values[at] - node.before[at]), at)}`;
    const said = (node) => (node.values ? measures : []).map((each, at) =>
      [value(node, at), each.head, ...(compared ? [`(${change(node, at)})`] : [])].join(" ")).join(", ");
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
    const tiles = node.groups.map((each, at) => ({ size: each.values[0], label: each.label, value: words.value(each, 0), title: `${each.label}: ${words.said(each)}`,
      tone: at, open: each.groups.length ? () => spillscan.go("size", inside(at)) : null }));
    return treemap.figure(tiles, `${words.first} of ${node.label}, as areas; the table below has the figures`, "img");
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
