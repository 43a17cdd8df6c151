// The first page: how many kernels spill, what limits them, the worst, the findings, and what was not understood.
(() => {
  const { h, svg, number, count, bytes } = spillscan;
  const WORST = 10;
  const FIRST = 6, MORE = 100;
  const TILES = 40; // of a treemap; the rest is one
  const COLORS = { "registers": "registers", "shared memory": "shared", "block slots": "blocks", "barriers": "barriers",
    "several": "several", "warp slots": "warps", "cannot launch": "bad", "unknown": "unknown" };
  const PLACES = { "several": "several at once", "unknown": "not known" };

  spillscan.view("overview", (payload, id, box) => {
    const all = payload.overview;
    spillscan.add(box, headline(payload, all), first.section(payload));
    if (payload.findings && payload.kind !== "matrix") spillscan.add(box, findings(payload));
    if (all.kernels.count) {
      const said = all.registers.quiet.some(Boolean) || all.registers.spill.some(Boolean);
      spillscan.add(box, said ? h("div", { class: "grid pictures" }, limits(all), histogram(all), scatter()) : silent(all));
      spillscan.add(box, worst(payload, all), areas());
    }
    spillscan.add(box, understood(all));
  });

  function headline(payload, all) {
    const { count: total, spilling, stores, loads, silent } = all.kernels;
    const said = !total ? "The input names no kernel"
      : spilling ? [h("b", { class: "bad" }, number(spilling)), ` of ${number(total)} ${total === 1 ? "kernel spills" : "kernels spill"}`]
      : silent === total ? `No kernel of ${number(total)} says whether it spills`
      : silent ? `No kernel is known to spill` : `None of ${count(total, "kernel")} spills`;
    const parts = [];
    if (spilling) parts.push(`${bytes(stores)} stored and ${bytes(loads)} reloaded per thread, counted once per instruction`);
    if (silent) parts.push(`${count(silent, "kernel")} ${silent === 1 ? "does" : "do"} not say`);
    const functions = all.functions;
    if (functions.count) parts.push(count(functions.count, "device function") + (functions.spilling ? `, ${number(functions.spilling)} with spills` : ""));
    if (all.ambiguous) parts.push(`${number(all.ambiguous)} ambiguous`);
    if (all.not_final) parts.push(`registers of ${count(all.not_final, "kernel")} are final only after the link (*)`);
    return h("header", { class: "headline" }, h("h1", {}, said), h("p", {}, parts.join(" · ")));
  }

  // ---- findings ---------------------------------------------------------------------------------------------------

  function findings(payload) {
    const { verdict, findings: found } = payload;
    const section = h("section", { "aria-labelledby": "findings" }, h("h2", { id: "findings" }, tally(verdict)));
    const unknown = spillscan.unknown(verdict);
    if (unknown) section.append(unknown);
    if (verdict.baseline.length) section.append(h("p", { class: "quiet" }, `Against the baseline: ${verdict.baseline.map(([state, n]) => `${number(n)} ${state}`).join(", ")}.`));
    const list = h("ol", { class: "findings" });
    const more = h("button", { type: "button", onclick: () => grow() });
    let shown = 0;
    const grow = () => {
      const until = Math.min(found.length, shown + (shown ? MORE : FIRST));
      list.append(...found.slice(shown, until).map(finding));
      shown = until;
      more.hidden = shown === found.length;
      more.textContent = `Show ${number(Math.min(MORE, found.length - shown))} more of ${count(found.length, "finding")}`;
    };
    grow();
    section.append(list, more);
    return section;
  }

  const tally = (verdict) => verdict.counts.length
    ? verdict.counts.map(([severity, n], at) => [at ? ", " : "", h("span", { class: `sev-${severity}` }, count(n, severity))])
    : "No findings";

  function finding(each) {
    const kernel = each.kernel === null ? each.name : store.anchor(each.kernel);
    return h("li", { class: each.excused ? "excused" : "" },
      h("span", { class: `tag sev-${each.severity}` }, each.severity),
      h("p", { class: "who" }, h("b", {}, kernel), " ", h("span", { class: "quiet" }, each.arch || "arch unknown")),
      h("p", {}, each.message),
      h("p", { class: "quiet" }, [each.rule, each.state, each.place].filter(Boolean).join(" · ")));
  }

  // Nothing to draw of occupancy.
  function silent(all) {
    return h("section", { "aria-labelledby": "limits" }, h("h2", { id: "limits" }, "What limits occupancy"),
      h("p", {}, `Not known: the input reports no registers of ${all.registers.unreported === 1 ? "its kernel" : `its ${number(all.registers.unreported)} kernels`}. Build logs (nvcc -Xptxas -v) and binaries do.`),
      h("p", { class: "quiet" }, all.arches.map((each) => `${each.arch || "arch unknown"}: ${count(each.count, "kernel")}`).join(" · ")));
  }

  // ---- what limits ------------------------------------------------------------------------------------------------

  function limits(all) {
    const assumed = all.arches.some((each) => each.assumed);
    return h("section", { "aria-labelledby": "limits" }, h("h2", { id: "limits" }, "What limits occupancy"),
      all.arches.map((each) => {
        const parts = all.limiters.map((name, at) => ({ name, n: each.bound[at] })).filter(({ n }) => n);
        const arch = each.arch || "arch unknown";
        return h("div", { class: "limit" },
          h("div", { class: "limit-head" }, h("b", {}, arch), h("span", { class: "quiet" }, count(each.count, "kernel"))),
          h("div", { class: "stack", "aria-hidden": "true" }, parts.map(({ name, n }) =>
            h("span", { class: `fill fill-${COLORS[name]}`, style: { "flex-grow": n } }))),
          h("ul", { class: "keys" }, parts.map(({ name, n }) => h("li", {},
            h("i", { class: `fill fill-${COLORS[name]}` }),
            h("a", { href: spillscan.link("table", "", { ...(each.arch ? { arch: each.arch } : {}), limiter: name }) }, PLACES[name] || name), ` ${number(n)}`))));
      }),
      assumed ? h("p", { class: "note" }, "At the best block size where it is not known how a kernel is launched (", h("code", {}, "--launch"), " does).") : null);
  }

  // ---- registers --------------------------------------------------------------------------------------------------

  function histogram(all) {
    const { step, quiet, spill, unreported } = all.registers;
    const spills = spill.some(Boolean);
    const most = Math.max(1, ...quiet.map((n, i) => n + spill[i]));
    const total = quiet.reduce((sum, n, i) => sum + n + spill[i], 0);
    const draw = (width) => {
      const height = 230, left = 8 + 8 * number(ticks(most, 4).at(-1)).length, right = 8, top = 12, bottom = 40;
      const marks = ticks(most, 4);
      const y = (n) => top + (height - top - bottom) * (1 - n / marks.at(-1));
      const wide = (width - left - right) / quiet.length;
      const x = (i) => left + i * wide;
      const bars = quiet.flatMap((n, i) => {
        const label = `${number(i * step + 1)} to ${number((i + 1) * step)} registers: ${count(n + spill[i], "kernel")}${spill[i] ? `, ${number(spill[i])} spill` : ""}`;
        const open = () => spillscan.go("table", "", { registers: `${i * step + 1}-${(i + 1) * step}` });
        return [
          n ? svg("rect", { onclick: open, x: x(i) + 1, width: Math.max(1, wide - 2), y: y(n), height: y(0) - y(n), class: "fill-registers opens" }, svg("title", {}, label)) : null,
          spill[i] ? svg("rect", { onclick: open, x: x(i) + 1, width: Math.max(1, wide - 2), y: y(n + spill[i]), height: y(0) - y(spill[i]), class: "fill-spill opens" }, svg("title", {}, label)) : null,
        ];
      });
      return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
        "aria-label": `Registers per thread of ${count(total, "kernel")}, by steps of ${step}; the fullest step has ${number(most)}` },
        marks.map((n) => [svg("line", { x1: left, x2: width - right, y1: y(n), y2: y(n), class: n ? "grid-line" : "axis" }),
          svg("text", { x: left - 6, y: y(n) + 4, "text-anchor": "end" }, number(n))]),
        bars,
        [0, 32, 64, 96, 128, 160, 192, 224, 256].filter((r) => width > 420 || r % 64 === 0).map((r) =>
          svg("text", { x: x(r / step), y: height - bottom + 18, "text-anchor": r === 256 ? "end" : "middle" }, r)),
        svg("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, "registers per thread"));
    };
    return h("section", { "aria-labelledby": "registers" }, h("h2", { id: "registers" }, "Registers per thread"),
      h("ul", { class: "keys" }, h("li", {}, h("i", { class: "fill fill-registers" }), spills ? "no spills" : "kernels"),
        spills ? h("li", {}, h("i", { class: "fill fill-spill" }), "spills") : null),
      drawn(draw),
      unreported ? h("p", { class: "note" }, `${count(unreported, "kernel")} without registers in the input.`) : null);
  }

  // ---- registers against occupancy --------------------------------------------------------------------------------

  // A disc a step of registers and an occupancy, its area the number of kernels; it leads to those registers.
  function scatter() {
    const { columns } = store;
    const STEP = 8;
    const found = new Map();
    for (let i = 0; i < columns.count; i++) {
      const registers = columns.registers[i], share = columns.occupancy[i];
      if (registers === null || share === null) continue;
      const step = Math.max(0, Math.ceil(registers / STEP) - 1);
      const key = step * 2000 + share;
      const disc = found.get(key) || { step, share, n: 0, spill: 0 };
      disc.n += 1;
      disc.spill += columns.stores[i] > 0 || columns.loads[i] > 0;
      found.set(key, disc);
    }
    if (found.size < 2) return null;
    const discs = [...found.values()].sort((a, b) => b.n - a.n);
    const draw = (width) => {
      const height = 254, left = 44, right = 8, top = 16, bottom = 40;
      const x = (registers) => left + ((width - left - right) * registers) / 256;
      const y = (share) => top + (height - top - bottom) * (1 - share / 1000);
      const radius = (n) => Math.max(2.5, 14 * Math.sqrt(n / discs[0].n));
      return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Registers per thread against occupancy; each disc leads to its kernels" },
        [0, 250, 500, 750, 1000].map((share) => [svg("line", { x1: left, x2: width - right, y1: y(share), y2: y(share), class: share ? "grid-line" : "axis" }),
          svg("text", { x: left - 6, y: y(share) + 4, "text-anchor": "end" }, `${share / 10} %`)]),
        discs.map(({ step, share, n, spill }) => {
          const said = `${number(step * STEP + 1)} to ${number((step + 1) * STEP)} registers, occupancy ${share / 10} %: ${count(n, "kernel")}${spill ? `, ${number(spill)} spill` : ""}`;
          return svg("a", { href: spillscan.link("table", "", { registers: `${step * STEP + 1}-${(step + 1) * STEP}` }), "aria-label": said },
            svg("circle", { cx: x((step + .5) * STEP), cy: y(share), r: radius(n), class: spill ? "fill-spill disc" : "fill-registers disc" }, svg("title", {}, said)));
        }),
        [0, 64, 128, 192, 256].map((r) => svg("text", { x: x(r), y: height - bottom + 18, "text-anchor": r === 256 ? "end" : "middle" }, r)),
        svg("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, "registers per thread"));
    };
    return h("section", { "aria-labelledby": "scatter" }, h("h2", { id: "scatter" }, "Occupancy by registers"),
      h("ul", { class: "keys" }, h("li", {}, h("i", { class: "fill fill-registers" }), "none spills"), h("li", {}, h("i", { class: "fill fill-spill" }), "some spill")),
      drawn(draw));
  }

  // ---- where the bytes are ----------------------------------------------------------------------------------------

  // Spilled bytes, or bytes of code, as areas: a tile a family, file or namespace, which leads to its kernels.
  function areas() {
    const { columns } = store;
    const spills = Array.from({ length: columns.count }, (_, i) => (columns.stores[i] || 0) + (columns.loads[i] || 0));
    const sizes = [["spilled bytes", spills], ["code bytes", columns.code || []]].filter(([, values]) => values.some((value) => value > 0));
    const kinds = [["family", "family"], ["file", "source file"], ["namespace", "namespace"]].filter(([field]) => filters.several(field));
    if (!sizes.length || !kinds.length) return null;
    let size = 0, kind = 0;
    const place = h("div", {});
    const chips = (names, chosen, label) => h("div", { class: "chips", role: "group", "aria-label": label }, names.map((name, at) =>
      h("button", { type: "button", "aria-pressed": String(at === chosen()), onclick: (event) => { label === "Of" ? (size = at) : (kind = at);
        for (const each of event.currentTarget.parentNode.children) each.setAttribute("aria-pressed", String(each === event.currentTarget)); fill(); } }, name)));
    function fill() {
      const [label, values] = sizes[size];
      const [field] = kinds[kind];
      const sums = new Map();
      values.forEach((value, i) => { if (value) sums.set(filters.of[field](i), (sums.get(filters.of[field](i)) || 0) + value); });
      const ranked = [...sums].sort((a, b) => b[1] - a[1]);
      const total = ranked.reduce((sum, [, each]) => sum + each, 0);
      const words = (each) => `${bytes(each)}, ${((100 * each) / total).toFixed(1)} %`;
      const tiles = ranked.slice(0, TILES).map(([text, each], at) => ({ size: each, label: text || "not said", value: words(each), title: `${text || "not said"}: ${words(each)}`, tone: at,
        href: text ? spillscan.link("table", "", { [field]: text, ...(label === "spilled bytes" ? { spills: "1" } : {}) }) : null }));
      const rest = ranked.slice(TILES).reduce((sum, [, each]) => sum + each, 0);
      if (rest) tiles.push({ size: rest, label: `${number(ranked.length - TILES)} more`, value: words(rest), title: `${number(ranked.length - TILES)} more: ${words(rest)}`, tone: 4 });
      place.replaceChildren(drawn((width) => treemap.figure(tiles, `${label} by ${kinds[kind][1]}, as areas; each leads to its kernels`, "group", 320, width)));
    }
    fill();
    return h("section", { "aria-labelledby": "areas" }, h("h2", { id: "areas" }, "Where the bytes are"),
      h("div", { class: "controls" }, sizes.length > 1 ? chips(sizes.map(([name]) => name), () => size, "Of") : h("span", { class: "quiet" }, sizes[0][0]),
        chips(kinds.map(([, name]) => `by ${name}`), () => kind, "By")), place);
  }

  // ---- the worst --------------------------------------------------------------------------------------------------

  function worst(payload, all) {
    const { columns } = store;
    const shown = Math.min(WORST, columns.count);
    const most = Math.max(1, ...Array.from({ length: shown }, (_, i) => (columns.stores[i] || 0) + (columns.loads[i] || 0)));
    const spills = all.kernels.spilling + all.functions.spilling > 0;
    const rows = Array.from({ length: shown }, (_, i) => {
      const sides = [["store", columns.stores[i]], ["load", columns.loads[i]]];
      return h("tr", {},
        h("th", { scope: "row" }, store.anchor(i), " ", h("span", { class: "quiet" }, store.role(i))),
        h("td", {}, store.arch(i) || "–"),
        h("td", { class: "num" }, store.registers(i)),
        sides.map(([, n]) => h("td", { class: n ? "num bad" : "num quiet" }, number(n))),
        spills ? h("td", { class: "bars", "aria-hidden": "true" }, sides.map(([way, n]) =>
          n ? h("span", { class: `fill fill-${way}`, style: { width: `${(100 * n) / most}%` } }) : null)) : null,
        h("td", { class: "num" }, store.occupancy(i) || "–"),
        h("td", { class: "wide" }, store.limiter(i) || "–"));
    });
    const key = (way, label) => [h("i", { class: `fill fill-${way}` }), label];
    return h("section", { "aria-labelledby": "worst" },
      h("h2", { id: "worst" }, "Worst first"),
      h("div", { class: "scroll" }, h("table", { class: "worst" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "kernel"), h("th", { scope: "col" }, "arch"), h("th", { scope: "col", class: "num" }, "registers"),
          h("th", { scope: "col", class: "num" }, key("store", "stores, B")), h("th", { scope: "col", class: "num" }, key("load", "loads, B")),
          spills ? h("td", { class: "bars" }) : null,
          h("th", { scope: "col", class: "num" }, "occupancy"), h("th", { scope: "col", class: "wide" }, "limited by"))),
        h("tbody", {}, rows))),
      spillscan.legend(Array.from({ length: shown }, (_, i) => filters.of.family(i))),
      columns.count > shown ? h("p", {}, h("a", { href: spillscan.link("table") }, `All ${number(columns.count)} kernels${all.functions.count ? " and device functions" : ""}`),
        filters.several("family") ? [", ", h("a", { href: spillscan.link("table", "", { by: "family" }) }, "by family")] : null) : null);
  }

  // ---- what was not understood ------------------------------------------------------------------------------------

  function understood(all) {
    const { read, issues } = all;
    const unknown = [
      read.unknown_lines ? `${count(read.unknown_lines, "line")} of the tools` : "",
      read.unknown_clauses ? `${count(read.unknown_clauses, "clause")} of known lines` : "",
    ].filter(Boolean).join(" and ");
    const said = read.inputs ? `Read ${count(read.inputs, "input")}${read.lines ? `, ${count(read.lines, "line")}` : ""}. ` : "";
    return h("section", { "aria-labelledby": "issues" },
      h("h2", { id: "issues" }, issues.shown.length || unknown ? "Not understood, or in doubt" : "What was read"),
      h("p", {}, said, unknown ? h("b", {}, `Not understood: ${unknown}.`) : issues.shown.length ? "" : "Nothing in it was left open."),
      issues.shown.length ? h("ol", { class: "findings" }, issues.shown.map((each) => h("li", {},
        h("span", { class: `tag sev-${each.severity}` }, each.severity),
        h("p", { class: "all" }, each.message), h("p", { class: "quiet" }, [each.code, each.place].filter(Boolean).join(" · "))))) : null,
      more(issues));
  }

  function more(issues) {
    const total = issues.counts.reduce((sum, [, n]) => sum + n, 0);
    return total > issues.shown.length ? h("p", { class: "quiet" }, `${number(total - issues.shown.length)} more, less severe; -f json lists all.`) : null;
  }
})();
