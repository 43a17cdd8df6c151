// What the lists of kernels and of changes are filtered by. A row is asked by number: what(field, row) is its text.
const filters = (() => {
  const { h, number } = spillscan;
  const { columns } = store;
  const FIELDS = [["arch", "Arch"], ["limiter", "Limited by"], ["severity", "Finding"], ["family", "Family"], ["file", "File"], ["object", "Object"]];
  const FIRST = ["arch", "limiter"]; // the others stand behind a summary
  const ORDER = ["error", "warning", "note", "none"];
  const collator = new Intl.Collator("en", { numeric: true });

  // The gravest open finding of each kernel; null where there is none.
  const gravest = (() => {
    const found = new Array(columns.count).fill(null);
    for (const each of spillscan.payload.findings || [])
      if (!each.excused && each.kernel !== null && (found[each.kernel] === null || ORDER.indexOf(each.severity) < ORDER.indexOf(found[each.kernel]))) found[each.kernel] = each.severity;
    return found;
  })();

  const of = {
    arch: store.arch,
    limiter: store.bound,
    severity: (i) => gravest[i] || "none",
    kernel: store.name,
    family: (i) => columns.families[columns.family[columns.symbol[i]]],
    namespace: (i) => columns.namespaces[columns.namespace[columns.symbol[i]]],
    file: (i) => columns.files[columns.file[i]],
    object: store.unit,
  };

  // A test of lower-case texts: part of one, or with * and ? all of it; null where nothing is asked.
  function fits(words) {
    const wanted = words.trim().toLowerCase();
    if (!wanted) return null;
    if (!/[*?]/.test(wanted)) return (text) => text.includes(wanted);
    const expression = new RegExp(`^${wanted.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".")}$`, "su");
    return (text) => expression.test(text);
  }

  const SHARED = { arch: ["arch", "arches"], object: ["unit", "units"], file: ["file", "files"] };

  // A test of kernels by number for one field, quick where the field has numbered texts.
  function tester(field, wanted) {
    if (field === "family") {
      const at = columns.families.indexOf(wanted);
      const fitting = Uint8Array.from(columns.family, (family) => (family === at ? 1 : 0));
      return (i) => fitting[columns.symbol[i]];
    }
    if (!SHARED[field]) return (i) => of[field](i) === wanted;
    const [numbers, texts] = SHARED[field].map((name) => columns[name]);
    const at = texts.indexOf(wanted);
    return (i) => numbers[i] === at;
  }

  // Of all kernels: what a field may be.
  const LISTS = { kernel: () => columns.names, arch: () => columns.arches, family: () => columns.families, namespace: () => columns.namespaces, file: () => columns.files, object: () => columns.units,
    severity: () => new Set(gravest.map((each) => each || "none")), limiter: () => new Set(columns.bound.map((_, i) => store.bound(i))) };
  const ASKED = spillscan.payload.asked || {};

  // What a list is grouped by: as the report was asked for, else `usual`, and as its address says; "none" is not at all.
  function grouping(kinds, usual) {
    const known = (name) => name === "none" || kinds.some(([kind]) => kind === name);
    const first = known(ASKED.by) ? ASKED.by : usual;
    const wanted = spillscan.route.params.get("by");
    return [known(wanted) ? wanted : first, first];
  }
  const order = (view) => spillscan.route.params.get("sort") ?? (ASKED.sort ? ASKED.sort[view] : "");

  const several = (field) => new Set(LISTS[field]()).size > 1;

  // The texts that a field may be filtered by: those that rows have, of kernels all have, if they are several.
  function options(rows, what, field) {
    const found = new Set(rows ? rows.map((row) => what(field, row)) : LISTS[field]());
    const texts = [...found].filter((text) => text !== null && text !== undefined && text !== "");
    if (found.size < 2 || !texts.length) return null;
    return field === "severity" ? ORDER.filter((each) => found.has(each)) : texts.sort(collator.compare);
  }

  // Fields that choose; `state` holds what is chosen, `apply` is called when it changes.
  function chooser(state, rows, what, fields, apply) {
    const field = ([name, label]) => {
      if (!fields.includes(name)) return null;
      const texts = options(rows, what, name);
      if (!texts && !state[name]) return null;
      const box = h("select", { id: name, onchange: () => { state[name] = box.value; apply(); } },
        h("option", { value: "" }, name === "limiter" ? "anything" : "all"),
        (texts || [state[name]]).map((each) => h("option", { value: each, selected: state[name] === each }, each)));
      return h("div", { class: "field" }, h("label", { for: name }, label), box);
    };
    const first = FIELDS.filter(([name]) => FIRST.includes(name)).map(field);
    const rest = FIELDS.filter(([name]) => !FIRST.includes(name)).map(field).filter(Boolean);
    const chosen = FIELDS.some(([name]) => !FIRST.includes(name) && state[name]);
    return [first, rest.length ? h("details", { class: "more", open: chosen }, h("summary", {}, "More filters"), h("div", { class: "controls" }, rest)) : null];
  }

  const summed = (values) => values.reduce((sum, value) => sum + (value || 0), 0);

  // An instance under its family's heading: its arguments alone.
  const under = (name, family) => (name.startsWith(family) && name.length > family.length ? name.slice(family.length) : name);

  return { of, fits, several, tester, chooser, grouping, order, summed, under, collator };
})();
