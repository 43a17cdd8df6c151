// Builds or archs side by side: a row a kernel, a column a build or arch, coloured by value or by change.
(() => {
  const ROWS = 200;
  const differs = (row, at) => new Set(row.values[at].filter((_, column) => row.there[column])).size > 1;

  spillscan.view("heat", ({ heat }, id, box) => {
    const several = heat.builds.length > 1;
    const state = controls.state({ metric: heat.metrics[0].name, by: several ? "change" : "value", all: "", q: "" }, { metric: heat.metrics.map(({ name }) => name) });
    const differing = heat.rows.filter((row) => heat.metrics.some((_, at) => differs(row, at))).length;
    const over = heat.by === "build" ? count(heat.builds.length, "build") : count(new Set(heat.columns.map(({ arch }) => arch)).size, "arch");
    controls.listed(box, h("header", { class: "headline" }, h("h1", {}, h("b", {}, number(differing)), ` of ${count(heat.rows.length, "kernel")} ${differing === 1 ? "differs" : "differ"}`),
      h("p", {}, `over ${over}: ${heat.builds.join(" → ")}`)),
    state, [controls.chips(state, "metric", "Figure", heat.metrics.map(({ name, label }) => [name, label])),
      heat.columns.length > 1 ? controls.chips(state, "by", "Colour", [["change", several ? "against the first build" : "against the first arch"], ["value", "by value"]]) : null,
      controls.check(state, "all", "equal rows too")], (fits) => {
      const at = heat.metrics.findIndex(({ name }) => name === state.metric);
      const rows = heat.rows.filter((row) => (state.all || differs(row, at)) && fits(row.name.toLowerCase()));
      return rows.length ? [spillscan.legend(), side(heat, rows, at, state.by)] : h("p", { class: "quiet" }, "No kernel differs in it.");
    });
  });

  function side(heat, rows, at, by) {
    const metric = heat.metrics[at];
    const archs = heat.by === "arch", two = archs && heat.builds.length > 1;
    // What a value is held against: the first that is known, of several archs in several builds that of its arch.
    const base = (row, column) => row.values[at].find((value, other) => value !== null && (!two || heat.columns[other].arch === heat.columns[column].arch)) ?? 0;
    const part = by === "value" ? (row, column) => row.values[at][column] : (row, column) => row.values[at][column] - base(row, column);
    let most = 1;
    for (const row of rows) row.values[at].forEach((value, column) => { if (value !== null) most = Math.max(most, Math.abs(part(row, column))); });
    const known = (row, column) => row.values[at][column] !== null;
    const columns = heat.columns.map(({ build, arch }, column) => ({
      num: true, label: archs && !two ? arch || "arch unknown" : h("bdi", {}, heat.builds[build]), title: archs && !two ? null : heat.builds[build],
      cell: (row) => (known(row, column) || row.there[column] ? number(row.values[at][column]) : "·"),
      tone: (row) => (known(row, column) ? `tone${row.values[at][column] === 0 ? " zero" : ""}` : "quiet"),
      style: (row) => {
        const share = known(row, column) ? part(row, column) : 0;
        return { "--tone": by === "value" || share > 0 ? "var(--bad-fill)" : "var(--registers)", "--share": `${share ? Math.round(6 + (44 * Math.abs(share)) / most) : 0}%` };
      } }));
    const over = two ? filters.grouped(heat.columns, ({ arch }) => arch).map(([arch, some]) => [arch || "arch unknown", some.length]) : null;
    const fixed = [{ label: "kernel", cell: (row) => store.anchor(row.kernel, row.name) }, ...(archs ? [] : [{ label: "arch", tone: () => "arch", cell: (row) => row.arch || "–" }])];
    return table({ title: `${metric.label} side by side`, kind: "heat", step: ROWS, rows, over, columns: [...fixed, ...columns],
      caption: [`${metric.label}${metric.unit ? `, ${metric.unit}` : ""}; `, by === "change" ? "orange is more than before, blue less" : "the darker, the more", ". – not reported, · no such kernel."],
      foot: metric.summed && rows.length > 1 ? ["total", ...(archs ? [] : [""]), ...heat.columns.map((_, column) => total(metric, filters.summed(rows.map((row) => row.values[at][column]))))] : null });
  }

  // The unit stands above; where it is another here, beside the figure.
  function total(metric, sum) {
    const [text, unit] = amount(sum, metric.unit);
    return unit === metric.unit ? text : `${text} ${unit}`;
  }
})();
