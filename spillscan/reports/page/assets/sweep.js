// A sweep: spills and resident warps of each setting, kernel by kernel.
(() => {
  const SHOWN = 12;

  spillscan.view("sweep", ({ swept }, id, box) => {
    const state = controls.state({ q: "" });
    const gains = swept.filter(({ points: [asIs, ...others] }) => !asIs.best && others.some(({ best }) => best)).length;
    controls.listed(box, [h("header", { class: "headline" }, h("h1", {}, swept.length ? [h("b", {}, number(gains)), ` of ${count(swept.length, "kernel")} ${gains === 1 || swept.length === 1 ? "improves" : "improve"} with another setting`] : "No kernels"),
      h("p", {}, "Best trade-offs: fewer spills would cost resident warps, and more warps would cost spills. Better is toward the bottom right."))],
    state, null, (fits) => growing("sweep", h("div", {}), swept.filter(({ name }) => fits(name.toLowerCase())), card, SHOWN));
  });

  const spills = { y: ({ spill_bytes: spill }) => spill, up: "spills, B per thread" };
  const WARPS = { ...spills, x: ({ warps }) => warps, across: "resident warps per SM" };
  const BLOCKS = { ...spills, x: ({ blocks }) => blocks, across: "resident blocks per SM" };
  const REGISTERS = { ...spills, x: ({ registers }) => registers, across: "registers per thread" };

  function card({ name, arch, facts, points }) {
    const across = [WARPS, BLOCKS].find(({ x }) => points.every((point) => point.registers === null || x(point) !== null)) || REGISTERS;
    const placed = points.every(({ registers, blocks }) => registers === null || blocks !== null);
    const columns = [
      { label: "setting", cell: ({ label }) => label },
      { label: "registers", num: true, cell: ({ registers }) => number(registers) },
      { label: "spills, B", num: true, cell: ({ spill_bytes: spill }) => number(spill), tone: ({ spill_bytes: spill }) => (spill ? "bad" : "") },
      { label: placed ? "blocks/SM" : "warps/SM", num: true, cell: ({ blocks, warps }) => (placed ? number(blocks) : warps === null ? "–" : `≤${number(warps)}`) },
      { cell: ({ best, failure }) => (best ? "best" : failure ? "failed" : "") },
    ];
    return h("section", { class: "sweep" }, h("h2", {}, name, " ", h("span", { class: "quiet" }, arch || "")), facts.map((fact) => h("p", {}, fact)),
      h("div", { class: "pair-up" },
        points.some((point) => across.x(point) !== null && across.y(point) !== null) ? h("div", {}, drawn(points, across)) : null,
        table({ title: `Settings of ${name}`, rows: points, columns, mark: ({ best }) => (best ? "best" : null) })));
  }

  const described = (point) => `${point.label}: ${number(point.registers)} registers, ${number(point.spill_bytes)} B spilled, ${number(point.blocks)} blocks`;

  // Points from left to right, joined by a line; `of` names the two axes.
  function drawn(all, of) {
    const points = all.filter((point) => of.x(point) !== null && of.y(point) !== null).sort((one, other) => of.x(one) - of.x(other) || of.y(one) - of.y(other));
    const plainFirst = [...points].sort((one, other) => one.best - other.best);
    const ups = chart.ticks(Math.max(...points.map(of.y), 0), 4);
    const acrosses = (width) => chart.ticks(Math.max(1, ...points.map(of.x)), Math.min(8, Math.max(2, Math.floor(width / 70))));
    return chart.drawn((width) => chart.axes(width, { height: 260, top: 24, right: 28, class: "tradeoff", label: `${of.up} over ${of.across} of ${count(points.length, "compilation")}; the table has the values`,
      across: { most: acrosses(width).at(-1), ticks: acrosses(width), name: of.across }, up: { ticks: ups, name: of.up },
      parts: ({ x, y, write }) => {
        const names = [...plainFirst].reverse().map((point) => write(x(of.x(point)) + 8, y(of.y(point)) - 8, point.label + (point.best ? ", best" : ""), { class: point.best ? "name best" : "name" }, "start"));
        return [svg("path", { d: chart.path(points.map((point) => [x(of.x(point)), y(of.y(point))])), class: "course" }), names,
          plainFirst.map((point) => chart.titled("circle", { cx: x(of.x(point)), cy: y(of.y(point)), r: point.best ? 7 : 4, class: point.best ? "dot best" : "dot" }, described(point)))];
      } })).node;
  }
})();
