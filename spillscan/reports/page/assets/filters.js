// Filters and groups of the lists of kernels and changes.
const filters = (() => {
  const { columns } = store;
  const FIELDS = [["arch", "Arch"], ["limiter", "Limited by"], ["severity", "Finding"], ["family", "Family"], ["file", "File"], ["object", "Object"]];
  const FIRST = ["arch", "limiter"]; // the others are folded
  const ORDER = ["error", "warning", "note", "none"];
  const collator = new Intl.Collator("en", { numeric: true });

  // The worst open finding of each kernel.
  const worst = new Array(columns.count).fill("none");
  for (const { kernel, severity, accepted } of payload.findings || [])
    if (!accepted && kernel !== null && ORDER.indexOf(severity) < ORDER.indexOf(worst[kernel])) worst[kernel] = severity;

  const of = {
    arch: store.arch,
    limiter: store.limiter,
    severity: (i) => worst[i],
    kernel: store.name,
    family: store.family,
    namespace: (i) => columns.namespaces[columns.namespace[columns.symbol[i]]],
    file: (i) => columns.files[columns.file[i]],
    object: store.unit,
  };
  // The distinct texts of a field over all kernels.
  const LISTS = { kernel: columns.names, arch: columns.arches, family: columns.families, limiter: store.limiters, namespace: columns.namespaces, file: columns.files, object: columns.units };
  const all = (field) => LISTS[field] || columns.id.map((_, i) => of[field](i));

  // The state of a list: grouped and ordered as the report was asked to, else by `by`; "none" does not group.
  const asked = payload.asked || {};
  function state(view, kinds, by, others) {
    const known = ["none", ...kinds.map(([kind]) => kind)];
    return controls.state({ ...others, sort: asked.sort?.[view] ?? "", by: known.includes(asked.by) ? asked.by : by }, { by: known });
  }

  // The distinct texts what(field, row) of a field in rows; empty if all rows have the same.
  function texts(field, rows, what) {
    const found = new Set(rows ? rows.map((row) => what(field, row)) : all(field));
    if (found.size < 2) return [];
    const known = [...found].filter(Boolean);
    return field === "severity" ? ORDER.filter((each) => found.has(each)) : known.sort(collator.compare);
  }
  const several = (field) => new Set(all(field)).size > 1;

  // Fields that choose among the values of rows.
  function chooser(state, fields, rows, what) {
    const field = ([name, label]) => {
      if (!fields.includes(name)) return null;
      const found = texts(name, rows, what);
      if (!found.length && !state[name]) return null;
      return controls.select(state, name, label, [["", name === "limiter" ? "anything" : "all"], ...(found.length ? found : [state[name]]).map((each) => [each, each])]);
    };
    const [first, rest] = [true, false].map((front) => FIELDS.filter(([name]) => FIRST.includes(name) === front));
    const more = rest.map(field).filter(Boolean);
    return [first.map(field), more.length ? fold("filters", "more", "More filters", () => h("div", { class: "controls" }, more), rest.some(([name]) => state[name])) : null];
  }

  const summed = (values) => values.reduce((sum, value) => sum + (value || 0), 0);

  // Rows grouped by a text, in the order of first appearance: [text, rows].
  const grouped = (rows, text) => [...Map.groupBy(rows, (row) => text(row) || "")];

  // Groups by their total spills, largest first; equal ones keep their order.
  const heaviest = (groups) => groups.map((group) => [summed(group[1].map(store.spilled)), group]).sort((a, b) => b[0] - a[0]).map(([, group]) => group);

  // The label of an instance under its family's heading: its arguments only.
  const under = (name, family) => (name.startsWith(family) && name.length > family.length ? name.slice(family.length) : name);

  return { of, several, chooser, state, grouped, heaviest, summed, under, collator };
})();
