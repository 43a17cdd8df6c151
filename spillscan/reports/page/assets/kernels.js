// All kernels, or groups of them that open: sorted, filtered, and copied as CSV.
(() => {
  const { columns } = store;
  const FORMULA = /^\s*[=+\-@\t\r＝＋－＠]/;
  const CHOSEN = ["arch", "limiter", "severity", "family", "namespace", "file", "object"];
  const GROUPS = [["kernel", "kernels, archs together"], ["family", "families"], ["namespace", "namespaces"], ["file", "files"], ["object", "objects"], ["arch", "archs"]];

  const MAIN = ["name", "arch", "registers", ...store.SPILLS, "occupancy"]; // of which nothing is left out
  const USUAL = [...MAIN, "stack_bytes", "shared_bytes", "limiter", "object"]; // the others can be asked for
  const EQUAL = 4; // from this many rows on, columns with one value are noted
  const metric = (key, label, title, text = (i) => number(columns[key][i])) => ({ key, label, title, num: true, value: (i) => columns[key][i], text });
  const words = (key, label, value, texts) => ({ key, label, value, texts, text: (i) => value(i) || "–" });
  const ALL = [
    words("name", "kernel", store.name),
    words("arch", "arch", store.arch, columns.arches),
    ...columns.metrics.map(({ key, label, about }) => metric(key, label, about[0].toUpperCase() + about.slice(1), key === "registers" ? store.registers : undefined)),
    metric("occupancy", "occupancy", "Resident warps as a share of the SM's maximum; ≤ upper bound, block size or dynamic shared memory unknown", (i) => store.occupancy(i) || "–"),
    words("limiter", "limited by", store.limiter, store.limiters),
    ...(filters.several("object") ? [words("object", "object", store.unit, columns.units)] : []),
  ].map((column) => ({ ...column, short: { registers: "regs", spill_store_bytes: "st", spill_load_bytes: "ld" }[column.key] || (column.num && column.key !== "occupancy" ? column.label : null), width: width(column) }));
  const reported = ALL.filter((column) => !column.num || columns[column.key].some((value) => value !== null));
  const alike = reported.filter(({ key, num }) => !MAIN.includes(key) && num && columns.count >= EQUAL && columns[key].every((value) => value === columns[key][0]));
  const differing = reported.filter((column) => !alike.includes(column));

  // Characters of the longest text, plus padding.
  function width({ key, label, num, texts }) {
    if (key === "name") return `minmax(${filters.several("object") ? 14 : 18}rem, 1fr)`;
    if (key === "object") return `minmax(${Math.min(21, Math.max(10, ...texts.map(({ length }) => length)))}ch, .5fr)`;
    const most = key === "occupancy" ? 8 : num ? number(columns[key].reduce((one, other) => Math.max(one, other || 0), 0)).length : Math.max(8, ...texts.map(({ length }) => length));
    return `calc(${Math.min(Math.max(0.75 * label.length + 0.8, most), 22).toFixed(1)}ch + ${key === "occupancy" ? 4.3 : 1.25}rem)`;
  }

  let latest = [null, []];
  // All kernels ordered by "key" or "-key" (largest first), unknown values last. "" is worst first.
  function ordered(sort) {
    if (latest[0] !== sort) latest = [sort, order(sort)];
    return latest[1];
  }
  function order(sort) {
    const found = Array.from({ length: columns.count }, (_, i) => i);
    const column = ALL.find(({ key }) => key === sort.replace("-", ""));
    if (!column) return found;
    const way = sort.startsWith("-") ? -1 : 1;
    const texts = column.num ? null : [...new Set(found.map(column.value))].sort((one, other) => filters.collator.compare(one || "", other || ""));
    const places = texts && new Map(texts.map((text, at) => [text, at]));
    const rank = found.map((i) => { const value = column.value(i); return value === null ? Infinity : way * (texts ? places.get(value) : value); });
    return found.sort((a, b) => (rank[a] === rank[b] ? a - b : rank[a] - rank[b]));
  }

  // Full and mangled names can be searched once they are unpacked.
  let searched = columns.names.map((name) => [name.toLowerCase()]);
  let unpacked = null;
  function unpack() {
    unpacked ||= store.names().then((full) => { searched = searched.map((names, symbol) => [...names, full.names[symbol].toLowerCase(), full.symbols[symbol].toLowerCase()]); });
    return unpacked;
  }

  function filtered(state) {
    const fits = controls.fits(state.q);
    const fitting = searched.map((names) => names.some(fits));
    const chosen = CHOSEN.filter((name) => state[name]);
    const [least, most] = range(state.registers);
    return ordered(state.sort).filter((i) => fitting[columns.symbol[i]] && chosen.every((name) => filters.of[name](i) === state[name])
      && (!state.registers || (columns.registers[i] !== null && columns.registers[i] >= least && columns.registers[i] <= most)) && (!state.spills || store.spilled(i)));
  }

  // [33, 40] for "33-40"; undefined if the text is no range.
  const range = (text) => (/^(\d{1,3})-(\d{1,3})$/.exec(text) || []).slice(1).map(Number);

  // RFC 4180; a text that a spreadsheet would take for a formula gets a leading quote.
  function csv(shown, full) {
    const cell = (value) => {
      if (typeof value === "number") return String(value);
      const text = value === null || value === undefined ? "" : `${FORMULA.test(value) ? "'" : ""}${value}`;
      return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
    };
    const written = reported.filter(({ key }) => key !== "object"); // which a cell shortens
    const lines = shown.map((i) => {
      const symbol = columns.symbol[i];
      const values = written.map(({ key, value }) => (key === "occupancy" && value(i) !== null ? value(i) / 1000 : value(i)));
      return [...values, store.unit(i), full.symbols[symbol], full.names[symbol] || full.symbols[symbol]];
    });
    return [[...written.map(({ label }) => label), "object", "symbol", "full name"], ...lines].map((line) => `${line.map(cell).join(",")}\r\n`).join("");
  }

  let left = { address: null, kernel: -1 }; // on the way back, the row that was opened is active

  spillscan.view("table", (payload, id, box) => {
    const state = filters.state("table", GROUPS, "none", { q: "", arch: "", limiter: "", spills: "", severity: "", family: "", namespace: "", file: "", object: "", registers: "", columns: "" });
    const visible = state.columns === "all" ? differing : differing.filter(({ key }) => USUAL.includes(key));
    const spared = differing.length - visible.length;
    if (!range(state.registers).length) state.registers = "";
    const name = (label) => `${state.by} ${label}`; // a group's name in the address
    let shown = [];
    let items = []; // the rows: kernels, or groups [label, kernels] with the kernels of open ones

    const tally = h("output", { class: "tally", for: "q" });
    const within = h("button", { type: "button", class: "chip", onclick: () => controls.change(state, { registers: "", namespace: "" }, draw) });
    const one = h("p", { class: "note" });
    const kinds = GROUPS.filter(([name]) => filters.several(name === "kernel" ? "arch" : name) || name === state.by);
    const rows = grid({ title: "Kernels", columns: visible, empty: "No kernel matches.", made: (item) => (Array.isArray(item) ? heading(item) : line(item)),
      fold: toggle,
      open: (item, anchor) => {
        if (Array.isArray(item)) return toggle(item);
        left = { address: location.hash, kernel: item };
        if (!anchor) location.hash = store.link(item);
      },
      sorted: ({ key, num }) => {
        const [first, second] = num ? ["-", ""] : ["", "-"];
        controls.change(state, { sort: state.sort === first + key ? second + key : first + key }, draw);
        box.querySelector("#sort").value = state.sort; // narrow screens have no column headings
      } });
    add(box, h("h1", { class: "hidden" }, "Kernels"),
      controls.form(state, draw, controls.search(state),
        kinds.length ? controls.select(state, "by", "Show", [["none", "kernels"], ...kinds]) : null,
        filters.chooser(state, CHOSEN),
        controls.select(state, "sort", "Order", [["", "worst first"], ...visible.flatMap(({ key, label, num }) => [[(num ? "-" : "") + key, label], [(num ? "" : "-") + key, `${label}, ${num ? "smallest" : "last"} first`]])], "narrow-only"),
        controls.check(state, "spills", "spills only"), within,
        h("div", { class: "field end" }, tally, spared ? h("button", { type: "button", onclick: () => { location.hash = link("table", "", [...spillscan.route.params, ["columns", "all"]]); } }, count(spared, "more column")) : null,
          h("button", { type: "button", onclick: async () => copy(csv(shown, await store.names()), count(shown.length, "row")) }, "Copy as CSV"))),
      alike.length ? h("p", { class: "note" }, `In all rows: ${alike.map((column) => `${column.label} ${column.text(0)}`).join(", ")}.`) : null, one, rows.node);
    const returned = left.address === location.hash ? left.kernel : -1;
    draw();
    if (items.includes(returned)) {
      rows.node.setAttribute("data-returned", "");
      requestAnimationFrame(() => rows.reach(items.indexOf(returned)));
    }
    unpack().then(() => { if (state.q && box.isConnected) draw(); }, () => {});

    function draw() {
      shown = filtered(state);
      const everything = count(columns.count, payload.overview.functions.count ? "row" : "kernel"); // device functions are not kernels
      tally.textContent = shown.length === columns.count ? everything : `${number(shown.length)} of ${everything}`;
      one.hidden = state.by === "none";
      one.textContent = `A group shows the metrics of its ${state.sort ? "first" : "worst"} kernel; next to its name are the spills of all its kernels.`;
      within.hidden = !state.registers && !state.namespace;
      within.textContent = `${[state.namespace, state.registers ? `${state.registers.replace("-", " to ")} registers` : ""].filter(Boolean).join(", ")} ✕`;
      within.setAttribute("aria-label", `${within.textContent.slice(0, -2)}: remove this filter`);
      arrange(true);
    }

    function arrange(reset) {
      const groups = state.by === "none" ? [] : filters.grouped(shown, filters.of[state.by]);
      items = state.by === "none" ? shown : (state.sort ? groups : filters.heaviest(groups)).flatMap((group) => [group, ...(spillscan.opened(name(group[0])) ? group[1] : [])]);
      rows.show(items, state.sort, state.by !== "none", reset);
    }

    function toggle([label]) {
      spillscan.toggle(name(label), !spillscan.opened(name(label)));
      arrange(false);
    }

    // The row of a group: how many of its kernels spill and how much, and the metrics of the first.
    function heading([label, kernels]) {
      const spilling = kernels.filter(store.spilled);
      const summary = spilling.length && kernels.length === 1 ? `spills, ${bytes(store.spilled(kernels[0]))}` : spilling.length ? `${number(spilling.length)} of ${number(kernels.length)} ${spilling.length === 1 ? "spills" : "spill"}, ${bytes(filters.summed(spilling.map(store.spilled)))}` : count(kernels.length, "kernel");
      const expanded = spillscan.opened(name(label));
      const several = ({ key }) => (key === "arch" || key === "object" ? new Set(kernels.map(filters.of[key])).size : 1);
      return { kind: "group", level: 1, expanded, cells: visible.map((column) => (
        column.key === "name" ? [[h("b", { class: expanded ? "fold open" : "fold" }, label || "unknown"), " ", h("span", { class: "quiet" }, summary)]]
          : several(column) > 1 ? [h("bdi", { class: "quiet" }, count(several(column), column.key))] : cell(column, kernels[0]))) };
    }

    function line(i) {
      const under = state.by !== "none";
      return { kind: under ? "under" : "", level: under ? 2 : null, cells: visible.map((column) => cell(column, i)) };
    }

    function cell(column, i) {
      const value = column.value(i);
      if (column.key === "name") {
        const more = [store.role(i), store.flag(i, store.AMBIGUOUS) ? "ambiguous" : ""].filter(Boolean).join(" · ");
        const shown = more.replace(/^device function in /, "in ");
        const name = state.by === "family" ? filters.under(value, store.family(i)) : value;
        return [[h("a", { href: store.link(i), tabindex: "-1", title: value }, name), " ", more ? h("span", { class: "quiet", title: more }, shown) : null]];
      }
      if (column.key === "object") return [h("bdi", { title: store.unit(i) }, column.text(i)), "quiet"];
      if (column.key === "occupancy" && value !== null)
        return [[h("span", { class: "meter", "aria-hidden": "true", style: { "--part": `${value / 10}%` } }), h("b", {}, column.text(i))]];
      return [column.text(i), value === 0 || value === null ? "quiet" : store.SPILLS.includes(column.key) ? "bad" : ""];
    }
  });
})();
