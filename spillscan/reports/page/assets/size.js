// What is added up in groups of groups (bytes of files, time of compilations): areas are the first measure; a group opens
// to the groups in it, here and in the table below.
spillscan.view("size", ({ title, measures, compared, tree }, id, box) => {
  const ROWS = 200;
  const fixed = (value, digits) => (digits ? value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }) : number(value));
  const text = (amount, at) => (measures[at].bytes ? bytes(amount) : fixed(amount, measures[at].digits));
  const value = (node, at) => text(node.values[at], at);
  const change = (node, at) => `${node.values[at] < node.before[at] ? "−" : "+"}${text(Math.abs(node.values[at] - node.before[at]), at)}`;
  const said = (node) => (node.values ? measures : []).map((each, at) => [value(node, at), each.head, ...(compared ? [`(${change(node, at)})`] : [])].join(" ")).join(", ");
  const path = [];
  const trail = [tree];
  for (const at of id ? id.split(".") : []) {
    const inner = trail.at(-1).groups[Number(at)];
    if (!inner) break;
    path.push(at);
    trail.push(inner);
  }
  const node = trail.at(-1);
  const whole = tree.values ? tree.values[0] : 0;
  const inside = (at) => link("size", [...path, at].join("."));
  const tiles = node.groups.map((each, at) => ({ size: each.values[0], label: each.label, value: value(each, 0), title: `${each.label}: ${said(each)}`, tone: at, href: each.groups.length ? inside(at) : null }));
  const columns = measures.flatMap(({ head }, at) => [{ label: head, num: true, cell: (each) => value(each, at) },
    compared ? { label: "change", num: true, cell: (each) => change(each, at) }
      : { label: "of all", num: true, cell: (each) => (whole ? `${(100 * each.values[0] / whole).toFixed(1)} %` : "–") }].slice(0, compared || !at ? 2 : 1));
  add(box, h("h1", {}, title),
    h("p", {}, trail.map((each, at) => [at ? " › " : "", each === node ? h("b", {}, each.label) : h("a", { href: link("size", path.slice(0, at).join(".")) }, each.label)]), node.values ? ` · ${said(node)}` : ""),
    node.groups.length ? [treemap.figure(tiles, `${measures[0].head} of ${node.label}, as areas; the table below has the figures`),
      table({ title: "Groups", kind: "weights", step: ROWS, rows: node.groups, columns: [{ label: "what", cell: (each, at) => (each.groups.length ? h("a", { href: inside(at) }, each.label) : each.label) }, ...columns] })] : null);
});
