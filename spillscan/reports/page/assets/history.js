// The builds of a dataset: totals as charts with their jumps, any two builds side by side, and what happened, in tables.
(() => {
  const { h, svg, number, count } = spillscan;
  const HEIGHT = 170, SPARSE = 40;

  spillscan.view("history", (payload, id, box) => {
    const { builds, courses, metrics, since } = payload;
    const labels = new Map(builds.map(({ label }, i) => [label, i]));
    const params = spillscan.route.params;
    const last = builds.length - 1;
    const state = { a: labels.get(params.get("a")) ?? Math.max(0, last - 1), b: labels.get(params.get("b")) ?? last };
    const newest = courses[0].values[last], spilling = courses[1].values[last];
    const jumps = courses.reduce((sum, { jumps: each }) => sum + each.length, 0);
    const charts = courses.filter(({ values }) => values.some((value) => value !== null)).map(chart);
    const result = h("div", {});
    const choice = (name, text) => h("div", { class: "field" }, h("label", { for: `build-${name}` }, text),
      h("select", { id: `build-${name}`, onchange: (event) => { state[name] = Number(event.target.value); apply(); } },
        builds.map(({ label, date }, i) => h("option", { value: i }, `${label}  ${date}`))));
    const selects = { a: choice("a", "From"), b: choice("b", "To") };
    const compared = h("section", { class: "compared", id: "compared", tabindex: "-1" }, h("h2", {}, "Two builds side by side"),
      h("form", { class: "controls", onsubmit: (event) => event.preventDefault() }, selects.a, selects.b,
        h("button", { type: "button", onclick: () => { [state.a, state.b] = [state.b, state.a]; apply(); } }, "Swap")), result);
    spillscan.add(box, h("header", { class: "headline" },
      h("h1", {}, spilling === null ? `${count(newest ?? 0, "kernel")} in ${builds[last].label}` : [h("b", {}, number(spilling)), ` of ${count(newest, "kernel")} in ${builds[last].label} ${spilling === 1 ? "spills" : "spill"}`]),
      h("p", {}, `${count(builds.length, "build")}, ${count(jumps, "jump")} of totals: ${payload.said}. A click on a chart compares that build with the one before, with Shift with the one compared already.`)),
      h("div", { class: "courses" }, charts.map(({ figure }) => figure)), spillscan.legend(), compared, payload.tables.map(listing));
    if (params.get("a") || params.get("b")) compared.scrollIntoView();
    apply(true);

    function apply(first) {
      if (!first) spillscan.remember({ a: builds[state.a].label, b: builds[state.b].label });
      for (const name of ["a", "b"]) selects[name].querySelector("select").value = String(state[name]);
      for (const { mark } of charts) mark();
      result.replaceChildren(...comparison());
      if (!first) spillscan.say(`${builds[state.a].label} and ${builds[state.b].label} are compared`);
    }

    // ---- charts -----------------------------------------------------------------------------------------------------

    function chart({ label, values, unknown, jumps: places }) {
      const text = (i) => `${builds[i].label} ${builds[i].date}: ${values[i] !== null && unknown[i] ? "≥" : ""}${number(values[i])}`;
      const shown = h("output", {}, text(last));
      let marked = () => {};
      const draw = (width) => {
        const most = Math.max(1, ...values.map((value) => value || 0));
        const marks = ticks(most, 3);
        const left = 14 + 7.5 * number(marks.at(-1)).length, right = 10, top = 10, bottom = 26;
        const x = (i) => (last ? left + (i * (width - left - right)) / last : (left + width - right) / 2);
        const y = (value) => top + (HEIGHT - top - bottom) * (1 - value / marks.at(-1));
        const line = (name) => svg("line", { class: name, x1: -9, x2: -9, y1: top, y2: HEIGHT - bottom });
        const hair = line("hair"), chosen = [line("chosen-build"), line("chosen-build")];
        const move = (each, i) => { for (const side of ["x1", "x2"]) each.setAttribute(side, x(i)); };
        const at = (event) => {
          const frame = event.currentTarget.getBoundingClientRect();
          return Math.min(last, Math.max(0, last ? Math.round(((event.clientX - frame.left - left) / (width - left - right)) * last) : 0));
        };
        let pen = "M";
        const path = values.map((value, i) => {
          if (value === null) { pen = "M"; return ""; }
          const step = `${pen}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
          pen = "L";
          return step;
        }).join("");
        marked = () => { move(chosen[0], state.a); move(chosen[1], state.b); };
        marked();
        return svg("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img",
          "aria-label": `${label} over ${count(builds.length, "build")}, ${count(places.length, "jump")}; the tables below have the figures`,
          onpointermove: (event) => { const i = at(event); move(hair, i); shown.textContent = text(i); },
          onpointerleave: () => { for (const side of ["x1", "x2"]) hair.setAttribute(side, -9); shown.textContent = text(last); },
          onclick: (event) => { state.b = at(event); if (!event.shiftKey) state.a = Math.max(0, state.b - 1); apply(); } },
          marks.map((value) => [svg("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: value ? "grid-line" : "axis" }),
            svg("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, number(value))]),
          svg("text", { x: left, y: HEIGHT - 6 }, builds[0].date), last ? svg("text", { x: width - right, y: HEIGHT - 6, "text-anchor": "end" }, builds[last].date) : null,
          chosen, hair, svg("path", { d: path, class: "course" }),
          builds.length > SPARSE ? null : values.map((value, i) => (value === null ? null : svg("circle", { class: "course-point", cx: x(i), cy: y(value), r: 2.5 }))),
          places.map(([before, after, threshold]) => svg("circle", { class: "jump", cx: x(after), cy: y(values[after]), r: 5 },
            svg("title", {}, `${builds[after].label}: ${number(values[before])} → ${number(values[after])}, threshold ${number(Math.round(threshold))}`))));
      };
      const figure = h("figure", {}, h("figcaption", {}, h("b", {}, label), places.length ? h("span", { class: "quiet" }, count(places.length, "jump")) : null, shown), drawn(draw));
      return { figure, mark: () => marked() };
    }

    // ---- two builds -------------------------------------------------------------------------------------------------

    // What a column of runs, an index and what is from there on, holds for a build.
    function valueAt(runs, i) {
      let low = 0, high = runs.length / 2;
      while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (runs[2 * middle] <= i) low = middle; else high = middle;
      }
      return runs[2 * low + 1];
    }

    function commit(i) {
      const { label, commit: text, date, link } = builds[i];
      const name = [label, text, date].filter(Boolean).join("  ");
      return link ? h("a", { href: link, rel: "noreferrer" }, name) : h("span", {}, name);
    }

    function comparison() {
      const { a, b } = state;
      const sums = courses.map(({ label, values, unknown }) => [label, ...[a, b].map((i) => (values[i] !== null && unknown[i] ? `≥${number(values[i])}` : number(values[i]))),
        unknown[a] === unknown[b] ? change(values[a], values[b], 1) : "–"]);
      const ends = h("p", { class: "ends" }, commit(a), "→", commit(b));
      const totals = grid("Totals", ["total", "from", "to", "change"], [true, false, false, false], sums);
      if (Math.min(a, b) < since) return [ends, totals, h("p", { class: "quiet" }, `Kernels are followed from ${builds[since].label} on; spillscan diff compares older builds.`)];
      const rows = differences(a - since, b - since);
      const worse = rows.filter(({ grown }) => grown > 0).length;
      return [ends, totals, h("h3", {}, rows.length ? `${count(rows.length, "kernel")} ${rows.length === 1 ? "differs" : "differ"}, ${number(worse)} for the worse` : "No kernel is known to differ"),
        rows.length ? grid("Kernels that differ, worst first", ["kernel", "arch", "what", "from", "to", "change"], [true, true, true, false, false, false], rows.map(({ cells }) => cells)) : null].filter(Boolean);
    }

    // One row a kernel: the gravest figure that is known to differ, how many others do, worse ones first.
    function differences(a, b) {
      const rows = [];
      for (const [name, arch, there, ...columns] of payload.kernels) {
        const [had, has] = [valueAt(there, a), valueAt(there, b)];
        if (!had && !has) continue;
        const found = columns.map((runs, at) => ({ at, before: valueAt(runs, a), after: valueAt(runs, b) }))
          .filter(({ before, after }) => (had && has ? before !== null && after !== null && before !== after : Boolean(before || after)))
          .map((each) => ({ ...each, grown: had && has ? metrics[each.at].sign * (each.after - each.before) : !had && metrics[each.at].sign > 0 ? each.after : 0 }));
        if (had && has && !found.length) continue;
        const top = had && has ? found.find(({ grown }) => grown > 0) || found[0] : found.find(({ at }) => at === 0) || null;
        const others = had && has ? found.length - 1 : 0;
        const what = [had ? (has ? "" : "gone") : "new", top ? metrics[top.at].label : "", others ? `and ${number(others)} more` : ""].filter(Boolean).join(" ");
        rows.push({ grown: top ? top.grown : 0, rank: top ? top.at : metrics.length, size: top ? Math.abs((top.after || 0) - (top.before || 0)) : 0,
          cells: [name, arch || "–", what, number(had && top ? top.before : null), number(has && top ? top.after : null), top && had && has ? change(top.before, top.after, metrics[top.at].sign) : "–"] });
      }
      return rows.sort((one, other) => (other.grown > 0) - (one.grown > 0) || one.rank - other.rank || other.size - one.size);
    }

    function change(before, after, sign) {
      if (before === null || after === null) return "–";
      const delta = after - before;
      return h("span", { class: delta * sign > 0 ? "bad" : delta * sign < 0 ? "good" : "quiet" }, delta ? `${delta > 0 ? "+" : "−"}${number(Math.abs(delta))}` : "0");
    }

    // ---- tables -----------------------------------------------------------------------------------------------------

    function listing({ title, heads, words, rows, ends, empty }) {
      const linked = rows.map((row, at) => (ends.length ? row.map((cell, column) => {
        if (heads[column] !== "first build") return cell;
        const [before, after] = ends[at];
        const page = builds[after].link;
        return [h("a", { href: spillscan.link("history", "", { a: builds[before].label, b: builds[after].label }), title: "compare with the build before" }, cell),
          page ? [" ", h("a", { href: page, rel: "noreferrer", "aria-label": `commit of ${builds[after].label}` }, "↗")] : null];
      }) : row));
      return h("section", {}, h("h2", {}, title), rows.length ? grid(title, heads, words, linked) : h("p", { class: "quiet" }, empty));
    }
  });
})();
