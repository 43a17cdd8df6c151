// Figures over builds: the lines that moved most in colour and named at their ends, all others grey; below, all in figures.
spillscan.view("trend", (payload, id, box) => {
  const NAMED = 6, DRAWN = 500, ROWS = 100;
  const HUES = ["store", "load", "warps", "blocks", "shared", "barriers"];
  const builds = payload.builds.map(({ label }) => label);
  const metrics = payload.metrics.map((each) => ({ name: each.label, ...each }));
  const state = controls.state({ metric: metrics[0]?.name || "", q: "" }, { metric: metrics.map(({ name }) => name) });
  const head = h("header", { class: "headline" });
  controls.listed(box, head, state, controls.chips(state, "metric", "Figure", metrics.map(({ name, label }) => [name, label])), drawn);

  // Of a history, whose kernels are runs: those that are asked for, as lines.
  function followed({ metric }, fits) {
    const at = metrics.findIndex(({ name }) => name === metric);
    const spread = (runs) => builds.map((_, i) => (i < payload.since ? null : turns.valueAt(runs, i - payload.since)));
    return payload.kernels.filter(([name]) => fits(name.toLowerCase())).map(([name, arch, , ...columns]) => ({ name, arch, metric, values: spread(columns[at]) })).filter(({ values }) => values.some((value) => value !== null));
  }

  function drawn(fits) {
    const metric = metrics.find(({ name }) => name === state.metric);
    const of = (each) => (each.metric === null || each.metric === state.metric) && fits(each.name.toLowerCase());
    const lines = (payload.series || followed(state, fits)).filter(of).map((line) => {
      const known = line.values.filter((value) => value !== null);
      return { ...line, first: known[0] ?? null, last: known.at(-1) ?? null, spread: known.length ? Math.max(...known) - Math.min(...known) : 0 };
    });
    lines.sort((a, b) => Math.abs(b.last - b.first) - Math.abs(a.last - a.first) || b.spread - a.spread || b.last - a.last);
    const parts = metric ? [`${metric.label}${metric.unit ? `, ${metric.unit}` : ""}, over ${count(builds.length, "build")}`, lines.length > NAMED ? `the ${NAMED} largest moves are named` : "",
      lines.length > DRAWN ? `${number(lines.length - DRAWN)} lines are not drawn` : "", payload.left_out ? `${count(payload.left_out, "kernel")} left out (-f json has all)` : ""] : [];
    fill(head, h("h1", {}, metric ? `${number(lines.filter(({ spread }) => spread).length)} of ${count(lines.length, "line")} moved` : "Nothing to draw"), h("p", {}, parts.filter(Boolean).join("; ")));
    return [lines.length ? [spillscan.legend(), chart.drawn((width) => over(lines, metric, width)).node] : null,
      turns.tables.some(({ rows }) => rows.length) ? turns.fitting((cell) => fits(cell("family").toLowerCase())) : null, lines.length ? h("section", {}, listed(lines)) : null];
  }

  function over(lines, metric, width) {
    const narrow = width < 600;
    const height = narrow ? 280 : 380;
    const label = ({ name, arch }) => `${name}${arch ? ` ${arch}` : ""}`;
    const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
    const most = lines.slice(0, 2000).reduce((sum, { values }) => values.reduce((one, other) => Math.max(one, other || 0), sum), 1);
    return chart.axes(width, { height, right: narrow ? 12 : 275, class: "trend", label: `${metric.label} of ${count(lines.length, "kernel")} over ${count(builds.length, "build")}; the table below has the figures`,
      up: { most, wanted: 5 }, across: { most: builds.length - 1 || 1, ticks: builds.map((_, i) => i), text: (i) => short(builds[i], 12) },
      parts: ({ x, y, high, floor }) => {
        const path = ({ values }) => chart.path(values.map((value, i) => (value === null ? null : [x(i), y(value)])));
        const named = lines.slice(0, NAMED);
        // Where a line changed, began or ended: [build, the one before].
        const rings = ({ values }) => values.map((value, i) => [i, i - 1]).filter(([i, last]) => i && values[i] !== values[last]);
        // Names at the ends of their lines, pushed apart where they would meet.
        const ends = named.map((line, at) => ({ line, at, y: y(line.last || 0) + 4 })).sort((a, b) => a.y - b.y);
        ends.forEach((end, at) => { if (at) end.y = Math.max(end.y, ends[at - 1].y + 16); });
        const beyond = ends.length ? Math.max(0, ends.at(-1).y - (floor + 4)) : 0;
        return [lines.slice(NAMED, DRAWN).map((line) => svg("path", { d: path(line), class: "other" })),
          named.map((line, at) => svg("g", { class: `hue-${HUES[at]}` }, svg("title", {}, label(line)), svg("path", { d: path(line), class: "named" }),
            line.values.map((value, i) => (value === null || builds.length > 40 ? null : chart.titled("circle", { cx: x(i), cy: y(value), r: 3 }, `${label(line)}, ${builds[i]}: ${number(value)}`))),
            rings(line).map(([i, last]) => chart.titled("circle", { class: "event", cx: x(line.values[i] === null ? last : i), cy: y(line.values[i] ?? line.values[last]), r: 4 },
              `${label(line)}, ${builds[last]} to ${builds[i]}: ${number(line.values[last])} → ${number(line.values[i])}`)))),
          narrow ? null : ends.map(({ line, at, y: place }) => svg("text", { x: high + 12, y: place - beyond, class: `name hue-${HUES[at]}` }, `${number(line.last)}  ${line.brief ? `${line.brief}${line.arch ? ` ${line.arch}` : ""}` : short(label(line), 24)}`))];
      } });
  }

  function listed(lines) {
    const spark = ({ values }) => {
      const most = values.reduce((one, other) => Math.max(one, other || 0), 1);
      return svg("svg", { class: "spark", width: 100, height: 22, "aria-hidden": "true" }, svg("path", { d: chart.path(values.map((value, i) => (value === null ? null : [2 + (96 * i) / (builds.length - 1 || 1), 20 - (18 * value) / most]))) }));
    };
    return table({ title: "All lines", kind: "lines", step: ROWS, rows: lines, columns: [
      { label: "kernel", cell: ({ name }, at) => [at < NAMED ? h("i", { class: `fill fill-${HUES[at]}` }) : null, name] }, { label: "arch", cell: ({ arch }) => arch || "–" },
      { label: "course", cell: spark }, { label: "first", num: true, cell: ({ first }) => number(first) }, { label: "last", num: true, cell: ({ last }) => number(last) },
      { label: "change", num: true, cell: ({ first, last }) => delta(first, last, 1) }] });
  }
});
