// Figures over builds: the lines that moved most in colour and named at their ends, all others grey; below, all in figures.
(() => {
  const { h, svg, number, count } = spillscan;
  const NAMED = 6, DRAWN = 500, ROWS = 100;
  const HUES = ["store", "load", "warps", "blocks", "shared", "barriers"];

  spillscan.view("trend", (payload, id, box) => {
    const params = spillscan.route.params;
    const state = { metric: params.get("metric") || "", q: params.get("q") || "" };
    if (!payload.metrics.some(({ name }) => name === state.metric)) state.metric = payload.metrics[0]?.name || "";
    const place = h("div", {});
    const head = h("header", { class: "headline" });
    const chips = payload.metrics.map(({ name, label }) => h("button", { type: "button", "data-name": name, onclick: () => { state.metric = name; apply(); } }, label));
    const search = h("input", { type: "search", id: "tq", value: state.q, placeholder: "part of a name", autocomplete: "off", spellcheck: "false", oninput: () => { state.q = search.value; apply(); } });
    spillscan.add(box, head,
      h("form", { class: "controls", role: "search", onsubmit: (event) => event.preventDefault() },
        h("div", { class: "field wide" }, h("label", { for: "tq" }, "Kernel"), search),
        h("div", { class: "field" }, h("span", { class: "label" }, "Figure"), h("div", { class: "chips", role: "group", "aria-label": "Figure" }, chips))),
      place);
    apply(true);

    function apply(first) {
      if (!first) spillscan.remember(state);
      for (const each of chips) each.setAttribute("aria-pressed", String(each.dataset.name === state.metric));
      const metric = payload.metrics.find(({ name }) => name === state.metric);
      const wanted = state.q.trim().toLowerCase();
      const lines = payload.series.filter((line) => line.metric === state.metric && (!wanted || line.name.toLowerCase().includes(wanted)))
        .map((line) => { const known = line.values.filter((value) => value !== null);
          return { ...line, first: known[0] ?? null, last: known.at(-1) ?? null, spread: known.length ? Math.max(...known) - Math.min(...known) : 0 }; });
      lines.sort((a, b) => Math.abs(b.last - b.first) - Math.abs(a.last - a.first) || b.spread - a.spread || b.last - a.last);
      const moved = lines.filter(({ spread }) => spread);
      head.replaceChildren(h("h1", {}, metric ? `${number(moved.length)} of ${count(lines.length, "line")} moved` : "Nothing to draw"),
        h("p", {}, metric ? `${metric.label}${metric.unit ? `, ${metric.unit}` : ""}, over ${count(payload.builds.length, "build")}${lines.length > NAMED ? `; the ${NAMED} largest moves are named` : ""}${lines.length > DRAWN ? `, ${number(lines.length - DRAWN)} lines are not drawn` : ""}${payload.left_out ? `; ${count(payload.left_out, "kernel")} left out (-f json has all)` : ""}` : ""));
      place.replaceChildren();
      if (lines.length) spillscan.add(place, spillscan.legend(), drawn((width) => chart(payload.builds, lines, metric, width, payload.turns)), table(payload.builds, lines));
      const turns = payload.turns.filter((turn) => (turn.metric === null || turn.metric === state.metric) && (!wanted || turn.name.toLowerCase().includes(wanted)));
      if (turns.length) spillscan.add(place, h("section", {}, h("h2", {}, `What happened, worst first${payload.turns_left_out ? `; ${number(payload.turns_left_out)} more are left out (bisect has all)` : ""}`),
        grid("What happened", ["kernel", "arch", "what", "before", "after", "first build", "last build before"], [true, true, true, false, false, true, true],
          turns.map(({ name, arch, what, before, after, first, last: until, worse }) => [name, arch || "–", worse ? h("span", { class: "bad" }, what) : what, number(before), number(after), build(first), build(until)]))));
    }

    function build(i) {
      return payload.links[i] ? h("a", { href: payload.links[i], rel: "noreferrer" }, payload.builds[i]) : payload.builds[i];
    }
  });

  const label = (line) => `${line.name}${line.arch ? ` ${line.arch}` : ""}`;
  const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

  function path(values, x, y) {
    let pen = "M";
    return values.map((value, i) => {
      if (value === null) { pen = "M"; return ""; }
      const step = `${pen}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
      return step;
    }).join("");
  }

  function chart(builds, lines, metric, width, turns) {
    const narrow = width < 600;
    const height = narrow ? 280 : 380;
    const most = Math.max(1, ...lines.slice(0, 2000).flatMap(({ values }) => values.map((value) => value || 0)));
    const marks = ticks(most, 5);
    const left = 12 + 8 * number(marks.at(-1)).length, right = narrow ? 12 : 275, top = 14, bottom = 34;
    const x = (i) => left + (builds.length > 1 ? (i * (width - left - right)) / (builds.length - 1) : (width - left - right) / 2);
    const y = (value) => top + (height - top - bottom) * (1 - value / marks.at(-1));
    const named = lines.slice(0, NAMED);
    // Where a named line changed, or its kernel came, went or got another name.
    const rings = (line) => turns.filter((turn) => turn.name === line.name && turn.arch === line.arch && (turn.metric === null || turn.metric === metric.name))
      .map((turn) => ({ ...turn, at: line.values[turn.first] === null ? turn.last : turn.first })).filter(({ at }) => line.values[at] !== null);
    const room = Math.max(1, Math.floor((width - left - right) / 76));
    const every = Math.ceil(builds.length / room);
    // Names at the ends of their lines, pushed apart where they would meet.
    const ends = named.map((line, at) => ({ line, at, y: line.last === null ? top : y(line.last) + 4 })).sort((a, b) => a.y - b.y);
    ends.forEach((end, at) => { if (at) end.y = Math.max(end.y, ends[at - 1].y + 16); });
    const over = ends.length ? Math.max(0, ends.at(-1).y - (height - bottom + 4)) : 0;
    ends.forEach((end) => { end.y -= over; });
    return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", class: "trend",
      "aria-label": `${metric.label} of ${count(lines.length, "kernel")} over ${count(builds.length, "build")}; the table below has the figures` },
      marks.map((value) => [svg("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: value ? "grid-line" : "axis" }),
        svg("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, number(value))]),
      builds.map((build, i) => ((builds.length - 1 - i) % every ? null : svg("text", { x: x(i), y: height - bottom + 20, "text-anchor": i === 0 && builds.length > 1 ? "start" : i === builds.length - 1 && narrow ? "end" : "middle" }, short(build, 12)))),
      lines.slice(NAMED, DRAWN).map(({ values }) => svg("path", { d: path(values, x, y), class: "other" })),
      named.map((line, at) => svg("g", { class: `hue-${HUES[at]}` }, svg("title", {}, label(line)), svg("path", { d: path(line.values, x, y), class: "named" }),
        line.values.map((value, i) => (value === null || builds.length > 40 ? null : svg("circle", { cx: x(i), cy: y(value), r: 3 }, svg("title", {}, `${label(line)}, ${builds[i]}: ${number(value)}`)))),
        rings(line).map(({ at, what, before, after, first, last }) => svg("circle", { class: "event", cx: x(at), cy: y(line.values[at]), r: 4 },
          svg("title", {}, `${label(line)}, ${builds[last]} to ${builds[first]}: ${what}${before === null && after === null ? "" : ` ${number(before)} → ${number(after)}`}`))))),
      narrow ? null : ends.map(({ line, at, y: place }) => svg("text", { x: width - right + 12, y: place, class: `name hue-${HUES[at]}` }, `${number(line.last)}  ${line.brief ? `${line.brief}${line.arch ? ` ${line.arch}` : ""}` : short(label(line), 24)}`)));
  }

  function table(builds, lines) {
    const body = h("tbody", {});
    const more = h("button", { type: "button", onclick: () => grow() });
    let shown = 0;
    const grow = () => {
      body.append(...lines.slice(shown, shown + ROWS).map(row));
      shown = Math.min(lines.length, shown + ROWS);
      more.hidden = shown === lines.length;
      more.textContent = `Show ${number(Math.min(ROWS, lines.length - shown))} more of ${number(lines.length)}`;
    };
    const row = (line, at) => {
      const delta = line.last - line.first;
      const most = Math.max(1, ...line.values.map((value) => value || 0));
      const x = (i) => 2 + (builds.length > 1 ? (i * 96) / (builds.length - 1) : 48);
      return h("tr", {}, h("th", { scope: "row" }, shown === 0 && at < NAMED ? h("i", { class: `fill fill-${HUES[at]}` }) : null, line.name), h("td", {}, line.arch || "–"),
        h("td", { class: "spark" }, svg("svg", { width: 100, height: 22, "aria-hidden": "true" }, svg("path", { d: path(line.values, x, (value) => 20 - (18 * value) / most), class: "named" }))),
        h("td", { class: "num" }, number(line.first)), h("td", { class: "num" }, number(line.last)),
        h("td", { class: `num ${delta > 0 ? "bad" : delta < 0 ? "good" : "quiet"}` }, line.first === null ? "–" : delta ? `${delta > 0 ? "+" : "−"}${number(Math.abs(delta))}` : "0"));
    };
    grow();
    const head = (text, num) => h("th", { scope: "col", class: num ? "num" : null }, text);
    return h("section", {}, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "All lines" }, h("table", { class: "worst lines" },
      h("thead", {}, h("tr", {}, head("kernel"), head("arch"), head("course"), head("first", true), head("last", true), head("change", true))), body)), more);
  }
})();
