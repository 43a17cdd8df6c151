// The builds of a dataset: when what turned, the worst first; totals as charts with their jumps, and any two builds side
// by side.
spillscan.view("history", ({ builds, courses, metrics, since, said, tables, kernels }, id, box) => {
  const HEIGHT = 170, SPARSE = 40;
  const labels = new Map(builds.map(({ label }, i) => [label, i]));
  const last = builds.length - 1;
  const { params } = spillscan.route;
  const state = controls.state({ q: "", figure: "", arch: "", a: builds[Math.max(0, last - 1)].label, b: builds[last].label }, { a: [...labels.keys()], b: [...labels.keys()] });
  const now = (name) => labels.get(state[name]);
  const [newest, spilling] = courses.map(({ values }) => values[last]);
  const figuresOf = (what) => what.split(", ").flatMap((part) => part.match(/^[a-z_]+/) || []);
  const WORDS = ["got worse", "got better", "came, went or got other names"];
  const turned = turns.tables;
  const figures = [...new Set(turned.flatMap(({ heads, rows }) => rows.flatMap((row) => figuresOf(row[heads.indexOf("what")]))))].sort();
  const archs = [...new Set(turned.flatMap(({ heads, rows }) => rows.map((row) => row[heads.indexOf("arch")])))].sort();
  const charts = courses.filter(({ values }) => values.some((value) => value !== null)).map(course);
  const result = h("div", {}), choices = h("div", {}), happened = h("div", {});
  const compared = h("section", { class: "compared", id: "compared", tabindex: "-1" }, h("h2", {}, "Two builds side by side"), choices, result);
  add(box, h("header", { class: "headline" },
    h("h1", {}, spilling === null ? `${count(newest ?? 0, "kernel")} in ${builds[last].label}` : [h("b", {}, number(spilling)), ` of ${count(newest, "kernel")} in ${builds[last].label} ${spilling === 1 ? "spills" : "spill"}`]),
    h("p", {}, `${count(builds.length, "build")}, ${turned.map(({ rows }, at) => `${number(rows.length)} ${WORDS[at]}`).join("; ")}.`)),
  turned.length ? controls.form(state, list, controls.search(state), figures.length > 1 ? controls.select(state, "figure", "What", [["", "anything"], ...figures.map((each) => [each, each])]) : null,
    archs.length > 1 ? controls.select(state, "arch", "Arch", [["", "all"], ...archs.map((each) => [each, each])]) : null) : null,
  happened, spillscan.legend(), h("section", {}, h("h2", {}, "All builds"), h("p", { class: "quiet" }, `A ring is a jump: ${said}. A click on a chart compares that build with the one before, with Shift with the one compared already.`),
    h("div", { class: "courses" }, charts.map(({ figure }) => figure))), compared, tables.filter((each) => !turned.includes(each)).map(turns.listing));
  list();
  draw();
  if (params.get("a") || params.get("b")) compared.scrollIntoView();

  const apply = (a, b) => controls.change(state, { a: builds[a].label, b: builds[b].label }, anew);
  function anew() {
    draw();
    spillscan.say(`${state.a} and ${state.b} are compared`);
  }

  // The turns that fit what is asked for.
  function list() {
    const fits = controls.fits(state.q);
    fill(happened, turns.fitting((cell) => fits(cell("family").toLowerCase())
      && (!state.figure || figuresOf(cell("what")).includes(state.figure)) && (!state.arch || cell("arch") === state.arch)));
  }

  function draw() {
    const options = builds.map(({ label, date }) => [label, `${label}  ${date}`]);
    choices.replaceChildren(controls.form(state, anew, controls.select(state, "a", "From", options), controls.select(state, "b", "To", options),
      h("button", { type: "button", onclick: () => apply(now("b"), now("a")) }, "Swap")));
    for (const { paint } of charts) paint();
    fill(result, comparison(now("a"), now("b")));
  }

  function course({ label, values, unknown, jumps: places }) {
    const text = (i) => `${builds[i].label} ${builds[i].date}: ${values[i] !== null && unknown[i] ? "≥" : ""}${number(values[i])}`;
    const shown = h("output", {}, text(last));
    const most = values.reduce((one, other) => Math.max(one, other || 0), 1);
    const { node, paint } = chart.drawn((width) => {
      let at = () => 0;
      const line = (name, x) => svg("line", { class: name, x1: x, x2: x, y1: 10, y2: HEIGHT - 27 });
      const hair = line("hair", -9);
      const move = (x) => { for (const side of ["x1", "x2"]) hair.setAttribute(side, x); };
      return chart.axes(width, { height: HEIGHT, top: 10, label: `${label} over ${count(builds.length, "build")}, ${count(places.length, "jump")}; the tables below have the figures`,
        up: { most, wanted: 3 }, across: { most: last || 1, ticks: last ? [0, last] : [0], text: (i) => builds[i].date },
        onpointermove: (event) => { const [i, x] = at(event); move(x); shown.textContent = text(i); },
        onpointerleave: () => { move(-9); shown.textContent = text(last); },
        onclick: (event) => { const [i] = at(event); apply(event.shiftKey ? now("a") : Math.max(0, i - 1), i); },
        parts: ({ x, y, low, high }) => {
          at = (event) => {
            const across = event.clientX - event.currentTarget.getBoundingClientRect().left;
            const i = Math.min(last, Math.max(0, Math.round(((across - low) / (high - low)) * last)));
            return [i, x(i)];
          };
          const points = values.map((value, i) => (value === null ? null : [x(i), y(value)]));
          return [line("chosen-build", x(now("a"))), line("chosen-build", x(now("b"))), hair, svg("path", { d: chart.path(points), class: "course" }),
            builds.length > SPARSE ? null : points.map((point) => point && svg("circle", { class: "course-point", cx: point[0], cy: point[1], r: 2.5 })),
            places.map(([before, after, threshold]) => chart.titled("circle", { class: "jump", cx: x(after), cy: y(values[after]), r: 5 },
              `${builds[after].label}: ${number(values[before])} → ${number(values[after])}, threshold ${number(Math.round(threshold))}`))];
        } });
    });
    return { paint, figure: h("figure", {}, h("figcaption", {}, h("b", {}, label), places.length ? h("span", { class: "quiet" }, count(places.length, "jump")) : null, shown), node) };
  }

  function commit(build) {
    const name = [build.label, build.commit, build.date].filter(Boolean).join("  ");
    return build.link ? turns.outside(build, name) : h("span", {}, name);
  }

  function comparison(a, b) {
    const sums = courses.map(({ label, values, unknown }) => [label, ...[a, b].map((i) => (values[i] !== null && unknown[i] ? `≥${number(values[i])}` : number(values[i]))),
      unknown[a] === unknown[b] ? delta(values[a], values[b], values[b] < values[a] ? 0 : 1) : "–"]);
    const made = (title, words, heads, rows) => table.made({ title, heads, rows, words: heads.map((_, at) => at < words) });
    const parts = [h("p", { class: "ends" }, commit(builds[a]), "→", commit(builds[b])), made("Totals", 1, ["total", "from", "to", "change"], sums)];
    if (Math.min(a, b) < since) return [parts, h("p", { class: "quiet" }, `Kernels are followed from ${builds[since].label} on; spillscan diff compares older builds.`)];
    const rows = differences(a - since, b - since);
    const worse = rows.filter(({ grown }) => grown > 0).length;
    return [parts, h("h3", {}, rows.length ? `${count(rows.length, "kernel")} ${rows.length === 1 ? "differs" : "differ"}, ${number(worse)} for the worse` : "No kernel is known to differ"),
      rows.length ? made("Kernels that differ, worst first", 3, ["kernel", "arch", "what", "from", "to", "change"], rows.map(({ cells }) => cells)) : null];
  }

  // One row a kernel: the worst figure that is known to differ, how many others do, worse ones first.
  function differences(a, b) {
    const rows = [];
    for (const [name, arch, there, ...columns] of kernels) {
      const [had, has] = [turns.valueAt(there, a), turns.valueAt(there, b)];
      const both = had && has;
      const found = had || has ? columns.map((runs, at) => ({ at, before: turns.valueAt(runs, a), after: turns.valueAt(runs, b) }))
        .filter(({ before, after }) => (both ? before !== null && after !== null && before !== after : before || after))
        .map((each) => ({ ...each, grown: both ? metrics[each.at].sign * (each.after - each.before) : !had && metrics[each.at].sign > 0 ? each.after : 0 })) : [];
      if (had === has && !found.length) continue;
      const top = (both ? found.find(({ grown }) => grown > 0) || found[0] : found.find(({ at }) => at === 0)) || null;
      const what = [had ? (has ? "" : "gone") : "new", top ? metrics[top.at].label : "", both && found.length > 1 ? `and ${number(found.length - 1)} more` : ""].filter(Boolean).join(" ");
      rows.push({ grown: top ? top.grown : 0, rank: top ? top.at : metrics.length, size: top ? Math.abs((top.after || 0) - (top.before || 0)) : 0,
        cells: [name, arch || "–", what, number(had && top ? top.before : null), number(has && top ? top.after : null), top && both ? delta(top.before, top.after, metrics[top.at].sign) : "–"] });
    }
    return rows.sort((one, other) => (other.grown > 0) - (one.grown > 0) || one.rank - other.rank || other.size - one.size);
  }
});
