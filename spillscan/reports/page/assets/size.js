// Bytes in nested groups: areas are stored bytes; a group opens here and in the table below.
spillscan.view("size", ({ title, tree }, id, box) => {
  const ROWS = 200;
  const compared = "base_bytes" in tree;
  const measures = [["stored", "stored_bytes"], ["unpacked", "bytes"]];
  const inner = (node) => node.groups ?? [];
  const change = (node, key) => `${node[key] < node[`base_${key}`] ? "−" : "+"}${bytes(Math.abs(node[key] - node[`base_${key}`]))}`;
  const sizesOf = (node) => measures.map(([head, key]) => [bytes(node[key]), head, ...(compared ? [`(${change(node, key)})`] : [])].join(" ")).join(", ");
  const path = [];
  const trail = [tree];
  for (const at of id ? id.split(".") : []) {
    const next = inner(trail.at(-1))[Number(at)];
    if (!next) break;
    path.push(at);
    trail.push(next);
  }
  const node = trail.at(-1), groups = inner(node);
  const inside = (each, at) => (inner(each).length ? link("size", [...path, at].join(".")) : null);
  const tiles = groups.map((each, at) => ({ size: each.stored_bytes, label: each.label, value: bytes(each.stored_bytes), title: `${each.label}: ${sizesOf(each)}`, tone: at, href: inside(each, at) }));
  const columns = [
    { label: "part", cell: (each, at) => (inside(each, at) ? h("a", { href: inside(each, at) }, each.label) : each.label) },
    ...measures.flatMap(([head, key]) => [{ label: head, num: true, cell: (each) => bytes(each[key]) }, ...(compared ? [{ label: "change", num: true, cell: (each) => change(each, key) }] : [])]),
  ];
  if (!compared) columns.splice(2, 0, { label: "share", num: true, cell: (each) => `${(100 * each.stored_bytes / (tree.stored_bytes || 1)).toFixed(1)}%` });
  add(box, h("h1", {}, title),
    h("p", {}, trail.map((each, at) => [at ? " › " : "", each === node ? h("b", {}, each.label) : h("a", { href: link("size", path.slice(0, at).join(".")) }, each.label)]), ` · ${sizesOf(node)}`),
    groups.length ? [groups.length > 1 ? treemap.figure(tiles, `stored bytes of ${node.label}, as areas; values are in the table below`) : null,
      table({ title: "Groups", kind: "sizes", step: ROWS, rows: groups, columns })] : null);
});
