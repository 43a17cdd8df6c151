// The first page: how many kernels spill, what limits them, the worst kernels, findings and gaps.
(() => {
  const WORST = 10, FIRST = 6, MORE = 100;
  const TILES = 40; // tiles of a treemap; the rest shares one
  const COLORS = { "registers": "registers", "shared memory": "shared", "block slots": "blocks", "barriers": "barriers", "warp slots": "warps", "cannot launch": "bad", "unknown": "unknown" };
  const MOST_BARS = 8; // families whose limits are drawn
  const section = (id, title, ...parts) => h("section", { "aria-labelledby": id }, h("h2", { id }, title), parts);
  const keys = (...pairs) => h("ul", { class: "keys" }, pairs.map(([hue, text]) => h("li", {}, h("i", { class: `fill fill-${hue}` }), text)));

  spillscan.view("overview", (payload, id, box) => {
    const all = payload.overview;
    const known = store.columns.occupancy.some((share) => share !== null);
    const drawn = all.kernels.count > 1;
    add(box, headline(all), all.kernels.count ? worst(all) : null, first.section(payload), payload.findings ? findings(payload) : null,
      known ? drawn && h("div", { class: "grid pictures" }, limits(), scatter()) : all.kernels.count ? silent(all) : null,
      drawn && areas(), understood(all, payload.verdict));
  });

  function headline({ kernels: { count: total, spilling, stores, loads, silent }, functions }) {
    const flagged = (bit) => store.columns.flags.filter((flags) => flags & bit).length;
    const ambiguous = flagged(store.AMBIGUOUS), open = flagged(store.NOT_FINAL);
    const spill = (some, all, noun) => [h("b", { class: "bad" }, number(some)), ` of ${count(all, noun)} ${some === 1 ? "spills" : "spill"}`];
    const called = !spilling && !silent && functions.spilling; // a kernel spills when it calls one
    const headline = !total ? "The input contains no kernel"
      : spilling ? spill(spilling, total, "kernel") : called ? spill(functions.spilling, functions.count, "device function")
      : silent === total ? `Spills unknown for ${count(total, "kernel")}`
      : silent ? "No kernel is known to spill" : `None of ${count(total, "kernel")} spills`;
    const parts = [spilling ? `${bytes(stores)} stored and ${bytes(loads)} reloaded per thread, counted once per instruction` : "",
      silent ? `spills of ${count(silent, "kernel")} unknown` : "",
      called ? `no kernel of ${number(total)} spills itself` : functions.count ? count(functions.count, "device function") + (functions.spilling ? `, ${number(functions.spilling)} with spills` : "") : "",
      ambiguous ? `${number(ambiguous)} ambiguous` : "",
      open ? `registers of ${count(open, "kernel")} are final only after the link (*)` : ""];
    return h("header", { class: "headline" }, h("h1", {}, headline), h("p", {}, parts.filter(Boolean).join(" · ")));
  }

  function findings({ verdict, findings: found }) {
    const item = (each, some = []) => h("li", { class: each.accepted ? "accepted" : "" },
      h("span", { class: `tag sev-${each.severity}` }, each.severity),
      h("p", { class: "who" }, h("b", {}, store.anchor(each.kernel, each.name)), " ", h("span", { class: "quiet" }, each.arch || "arch unknown")),
      h("div", {}, h("p", {}, marked(each.message)), some.length ? alike(some) : null),
      h("p", { class: "quiet" }, [each.rule, each.state, each.place].filter(Boolean).join(" · ")));
    const key = ({ rule, severity, state, kernel }) => [rule, severity, state, store.family(kernel)].join(" ");
    const alike = (some) => fold(key(some[0]), null, `${number(some.length)} more of ${store.family(some[0].kernel)}`, 
      () => growing(key(some[0]), h("ol", { class: "findings" }), some, (each) => item(each), MORE));
    // The findings of one rule and family share a row that opens.
    const groups = filters.grouped(found, (each) => (each.kernel === null ? {} : key(each)));
    const list = growing("findings", h("ol", { class: "findings" }), groups, ([, [each, ...some]]) => item(each, some), MORE, FIRST);
    const counts = verdict.counts.map(([severity, n], at) => [at ? ", " : "", h("span", { class: `sev-${severity}` }, count(n, severity))]);
    return section("findings", counts.length ? counts : "No findings", spillscan.unknown(verdict),
      verdict.baseline.map((line) => h("p", { class: "quiet" }, line)), list);
  }

  // Shown if no occupancy is known.
  function silent({ kernels }) {
    return section("limits", "Limiters", h("p", {}, `Unknown: the input has no registers of ${kernels.count === 1 ? "its kernel" : `its ${number(kernels.count)} kernels`}. Build logs (nvcc -Xptxas -v) and binaries have them.`),
      h("p", { class: "quiet" }, filters.grouped(launched(), store.arch).map(([arch, some]) => `${arch || "arch unknown"}: ${count(some.length, "kernel")}`).join(" · ")));
  }

  const launched = () => store.columns.id.map((_, i) => i).filter((i) => !store.flag(i, store.FUNCTION));

  // By arch, or by the largest families.
  function limits() {
    const state = controls.state({ limits: "arch" }, { limits: ["arch", "family"] });
    const bar = ([label, some]) => {
      const parts = filters.grouped(some, store.limiter).sort((a, b) => b[1].length - a[1].length);
      return h("div", { class: "limit" },
        h("div", { class: "limit-head" }, h("b", {}, label || `${state.limits} unknown`), h("span", { class: "quiet" }, count(some.length, "kernel"))),
        h("div", { class: "stack", "aria-hidden": "true" }, parts.map(([name, { length }]) => h("span", { class: `fill fill-${COLORS[name] || "several"}`, style: { "flex-grow": length } }))),
        keys(...parts.map(([name, { length }]) => [COLORS[name] || "several", [h("a", { href: link("table", "", { ...(label ? { [state.limits]: label } : {}), limiter: name }) }, name), ` ${number(length)}`]])));
    };
    const place = h("div", {});
    const fill = () => {
      const groups = filters.grouped(launched(), filters.of[state.limits]);
      if (state.limits === "family") groups.sort((a, b) => b[1].length - a[1].length);
      else groups.sort((a, b) => filters.collator.compare(a[0], b[0]));
      place.replaceChildren(...groups.slice(0, MOST_BARS).map(bar));
      if (groups.length > MOST_BARS) place.append(h("p", { class: "note" }, h("a", { href: link("table", "", { by: state.limits }) }, `${number(groups.length - MOST_BARS)} more`)));
    };
    fill();
    const choice = filters.several("family") ? controls.form(state, fill, controls.chips(state, "limits", "By", [["arch", "arch"], ["family", "family"]])) : null;
    return section("limits", "Limiters", choice, place, payload.subjects.some(({ assumed }) => assumed) ? h("p", { class: "note" }, "Upper bounds if the block size is unknown (set ", h("code", {}, "--launch"), ").") : null);
  }

  const across = { most: 256, ticks: [0, 32, 64, 96, 128, 160, 192, 224, 256], name: "registers per thread" };
  const within = (step, at) => `${at * step + 1}-${(at + 1) * step}`;
  const summary = (n, spill) => `${count(n, "kernel")}${spill ? `, of which ${number(spill)} ${spill === 1 ? "spills" : "spill"}` : ""}`;

  // One disc per register step and occupancy; its area is the number of kernels, and it links to them.
  function scatter() {
    const STEP = 8;
    const { registers, occupancy } = store.columns;
    const known = registers.map((_, i) => i).filter((i) => registers[i] !== null && occupancy[i] !== null);
    const step = (i) => Math.max(0, Math.ceil(registers[i] / STEP) - 1);
    const discs = filters.grouped(known, (i) => [step(i), occupancy[i], store.occupancy(i)].join())
      .map(([, some]) => [some[0], some.length, some.filter(store.spilled).length]).sort((a, b) => b[1] - a[1]);
    if (discs.length < 2) return null;
    const { node } = chart.drawn((width) => chart.axes(width, { height: 254, role: "group", label: "Registers per thread against occupancy; each dot links to its kernels",
      across, up: { ticks: [0, 250, 500, 750, 1000], text: (share) => `${share / 10}%` },
      parts: ({ x, y }) => discs.map(([i, n, spill]) => svg("a", { href: link("table", "", { registers: within(STEP, step(i)) }) },
        svg("title", {}, `${within(STEP, step(i)).replace("-", " to ")} registers, occupancy ${store.occupancy(i)}: ${summary(n, spill)}`),
        svg("circle", { cx: x((step(i) + .5) * STEP), cy: y(occupancy[i]), r: Math.max(2.5, 14 * Math.sqrt(n / discs[0][1])), class: `fill-${spill ? "spill" : "registers"} disc` }))) }));
    return section("scatter", "Occupancy by registers", keys(["registers", "no spills"], ["spill", "spills"]), node);
  }

  // Spilled bytes or bytes of code as areas: one tile per family, file or namespace, which links to its kernels.
  function areas() {
    const { columns } = store;
    const sizes = [["spilled bytes", columns.id.map((_, i) => store.spilled(i))], ["code bytes", columns.code || []]].filter(([, values]) => values.some(Boolean));
    const sized = columns.id.map((_, i) => i).filter((i) => sizes.every(([, values]) => values[i]));
    const kinds = [["family", "family"], ["file", "source file"], ["namespace", "namespace"]].filter(([field]) => filters.grouped(sized, filters.of[field]).length > 1);
    if (!sizes.length || !kinds.length) return null;
    const state = controls.state({ of: sizes[0][0], by: kinds[0][0] }, { of: sizes.map(([name]) => name), by: kinds.map(([field]) => field) });
    const place = h("div", {});
    const fill = () => {
      const values = new Map(sizes).get(state.of);
      const ranked = filters.grouped(values.map((_, i) => i).filter((i) => values[i]), filters.of[state.by]).map(([label, some]) => [label, filters.summed(some.map((i) => values[i]))]).sort((a, b) => b[1] - a[1]);
      const total = filters.summed(ranked.map(([, size]) => size));
      const tile = (label, size, tone, href) => { const value = `${bytes(size)}, ${((100 * size) / total).toFixed(1)}%`; return { size, label, value, title: `${label}: ${value}`, tone, href }; };
      const tiles = ranked.slice(0, TILES).map(([label, size], at) => tile(label || "unknown", size, at, label ? link("table", "", { [state.by]: label, ...(state.of === "spilled bytes" ? { spills: "1" } : {}) }) : null));
      if (ranked.length > TILES) tiles.push(tile(`${number(ranked.length - TILES)} more`, filters.summed(ranked.slice(TILES).map(([, size]) => size)), 4, null));
      place.replaceChildren(treemap.figure(tiles, `${state.of} by ${new Map(kinds).get(state.by)}, as areas; each links to its kernels`));
    };
    fill();
    return section("areas", "Sizes", controls.form(state, fill,
      sizes.length > 1 ? controls.chips(state, "of", "Of", sizes.map(([name]) => [name, name])) : null, kinds.length > 1 ? controls.chips(state, "by", "By", kinds) : null),
    sizes.length + kinds.length > 2 ? null : h("p", { class: "quiet" }, `${state.of} by ${kinds[0][1]}`), place);
  }

  // The worst kernel of each family, families with most spills first.
  function worst({ functions }) {
    const { columns } = store;
    const families = filters.heaviest(filters.grouped(columns.id.map((_, i) => i), store.family)).slice(0, WORST);
    const rows = families.map(([, [i]]) => i), sizes = new Map(families.map(([, some]) => [some[0], some]));
    const of = (i) => { const some = sizes.get(i), spilling = some.filter(store.spilled).length; return some.length > 1 ? `${number(some.length)}${spilling ? `, ${number(spilling)} spilling` : ""}` : "–"; };
    const most = rows.reduce((sum, i) => Math.max(sum, store.spilled(i)), 1);
    const bytesOf = (way) => { const values = columns[`spill_${way}_bytes`]; return { label: [h("i", { class: `fill fill-${way}` }), `${way}s, B`], num: true, cell: (i) => number(values[i]), tone: (i) => (values[i] ? "bad" : "quiet") }; };
    const bars = (i) => h("span", { class: "bars", "aria-hidden": "true" }, [["store", "spill_store_bytes"], ["load", "spill_load_bytes"]].map(([way, key]) => (columns[key][i] ? h("span", { class: `fill fill-${way}`, style: { width: `${(100 * columns[key][i]) / most}%` } }) : null)));
    return section("worst", "Worst first", table({ title: "The worst kernel of each family", kind: "worst", rows, columns: [
      { label: "kernel", cell: (i) => [store.anchor(i), " ", h("span", { class: "quiet" }, store.role(i))] }, { label: "arch", cell: (i) => store.arch(i) || "–" },
      { label: "registers", num: true, cell: store.registers }, bytesOf("store"), bytesOf("load"),
      ...(rows.some(store.spilled) ? [{ cell: bars, tone: () => "wide" }] : []),
      { label: "occupancy", num: true, cell: (i) => store.occupancy(i) || "–" }, { label: "limited by", cell: (i) => store.limiter(i) || "–" },
      ...(rows.some((i) => sizes.get(i).length > 1) ? [{ label: "in family", num: true, cell: of }] : [])] }),
    columns.count > rows.length ? h("p", {}, h("a", { href: link("table") }, `All ${number(columns.count)} kernels${functions.count ? " and device functions" : ""}`),
      filters.several("family") ? [", ", h("a", { href: link("table", "", { by: "family" }) }, "by family")] : null) : null);
  }

  function understood({ read, issues, note }, verdict) {
    const unknown = [read.unknown_lines ? `${count(read.unknown_lines, "compiler line")}` : "",
      read.unknown_clauses ? `${count(read.unknown_clauses, "part")} of recognized lines` : ""].filter(Boolean).join(" and ");
    const all = payload.overview;
    const open = all.kernels.silent + all.functions.silent + store.columns.flags.filter((flags) => flags & (store.AMBIGUOUS | store.NOT_FINAL)).length + (verdict ? verdict.gaps.length + verdict.accepted.length : 0);
    const more = filters.summed(issues.counts.map(([, n]) => n)) - issues.shown.length;
    const understands = read.lines ? "Every compiler line was understood" : "The whole input was read";
    const doubt = unknown || issues.shown.some(({ severity }) => severity !== "note");
    return section("issues", doubt ? "Input issues" : "Input",
      h("p", {}, read.inputs ? `Read ${count(read.inputs, "input")}${read.lines ? `, ${count(read.lines, "line")}` : ""}. ` : "",
        unknown ? h("b", {}, `Not understood: ${unknown}.`) : doubt ? "" : `${understands}${open ? "; unknown values are listed above" : ""}.`),
      note ? h("p", { class: "note" }, marked(note)) : null,
      issues.shown.length ? h("ol", { class: "findings" }, issues.shown.map((each) => h("li", {}, h("span", { class: `tag sev-${each.severity}` }, each.severity),
        h("p", { class: "all" }, marked(each.message)), h("p", { class: "quiet" }, [each.code, each.place].filter(Boolean).join(" · "))))) : null,
      more > 0 ? h("p", { class: "quiet" }, `${count(more, "less severe issue")} not shown; -f json lists all.`) : null);
  }
})();
