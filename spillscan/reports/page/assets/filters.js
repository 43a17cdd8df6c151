// What the lists of kernels and of changes are filtered and grouped by.
const filters = (() => {
  const { columns } = store;
  const FIELDS = [["arch", "Arch"], ["limiter", "Limited by"], ["severity", "Finding"], ["family", "Family"], ["file", "File"], ["object", "Object"]];
  const FIRST = ["arch", "limiter"]; // the others stand behind a summary
  const ORDER = ["error", "warning", "note", "none"];
  const collator = new Intl.Collator("en", { numeric: true });

  // The worst open finding of each kernel.
  const worst = new Array(columns.count).fill("none");
  for (const { kernel, severity, excused } of payload.findings || [])
    if (!excused && kernel !== null && ORDER.indexOf(severity) < ORDER.indexOf(worst[kernel])) worst[kernel] = severity;

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
  // Of all kernels: the texts of a field, as the columns have each once.
  const LISTS = { kernel: columns.names, arch: columns.arches, family: columns.families, limiter: store.limiters, namespace: columns.namespaces, file: columns.files, object: columns.units };
  const all = (field) => LISTS[field] || columns.id.map((_, i) => of[field](i));

  // The state of a list: grouped and in the order that the report was asked for, else by `by`; "none" is not at all.
  const asked = payload.asked || {};
  function state(view, kinds, by, others) {
    const known = ["none", ...kinds.map(([kind]) => kind)];
    return controls.state({ ...others, sort: asked.sort?.[view] ?? "", by: known.includes(asked.by) ? asked.by : by }, { by: known });
  }

  // The texts that a field has in rows, of which what(field, row) is one; nothing where all have the same.
  function texts(field, rows, what) {
    const found = new Set(rows ? rows.map((row) => what(field, row)) : all(field));
    if (found.size < 2) return [];
    const known = [...found].filter(Boolean);
    return field === "severity" ? ORDER.filter((each) => found.has(each)) : known.sort(collator.compare);
  }
  const several = (field) => new Set(all(field)).size > 1;

  // Fields that choose among what rows have.
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

  // Rows that have a text in common, in the order of their first: [text, rows].
  const grouped = (rows, text) => [...Map.groupBy(rows, (row) => text(row) || "")];

  // Groups, those first that spill most together; else in their order.
  const heaviest = (groups) => groups.map((group) => [summed(group[1].map(store.spilled)), group]).sort((a, b) => b[0] - a[0]).map(([, group]) => group);

  // An instance under its family's heading: its arguments alone.
  const under = (name, family) => (name.startsWith(family) && name.length > family.length ? name.slice(family.length) : name);

  return { of, several, chooser, state, grouped, heaviest, summed, under, collator };
})();
