// A sweep: what each register cap costs in spills, gives in resident blocks and, where the program was run,
// takes; kernel by kernel.
(() => {
  const { h, svg, number, count } = spillscan;
  const SHOWN = 12;

  spillscan.view("sweep", (payload, id, box) => {
    const params = spillscan.route.params;
    const state = { q: params.get("q") || "" };
    const all = payload.swept;
    const gains = all.filter(({ points }) => points.some(({ best }, at) => best && at)).length;
    const place = h("div", { class: "sweeps" });
    const more = h("button", { type: "button", onclick: () => grow() });
    const search = h("input", { type: "search", id: "sq", value: state.q, placeholder: "part of a name", autocomplete: "off", spellcheck: "false", oninput: () => { state.q = search.value; spillscan.remember(state); apply(); } });
    let fits = [];
    let shown = 0;
    spillscan.add(box, h("header", { class: "headline" }, h("h1", {}, all.length ? [h("b", {}, number(gains)), ` of ${count(all.length, "kernel")} ${gains === 1 ? "has" : "have"} best points other than as built`] : "Nothing was swept"),
      h("p", {}, "Each point is one compilation: what it spills, and how much of it an SM holds at once. Fewer spilled bytes and more warps are better: bottom right.")),
      all.length > 3 ? h("form", { class: "controls", role: "search", onsubmit: (event) => event.preventDefault() }, h("div", { class: "field wide" }, h("label", { for: "sq" }, "Kernel"), search)) : null,
      spillscan.legend(), place, more);
    apply();

    function apply() {
      const wanted = state.q.trim().toLowerCase();
      fits = all.filter(({ name }) => !wanted || name.toLowerCase().includes(wanted));
      shown = 0;
      place.replaceChildren();
      grow();
    }
    function grow() {
      place.append(...fits.slice(shown, shown + SHOWN).map(card));
      shown = Math.min(fits.length, shown + SHOWN);
      more.hidden = shown === fits.length;
      more.textContent = `Show ${number(Math.min(SHOWN, fits.length - shown))} more of ${count(fits.length, "kernel")}`;
    }
  });

  function card(kernel) {
    const across = [WARPS, BLOCKS, REGISTERS].find(({ x }) => kernel.points.every((point) => point.registers === null || x(point) !== null)) || REGISTERS;
    const timed = kernel.points.some(({ time_text: text }) => text);
    const measured = kernel.points.filter(({ time, cap }) => time !== null && cap !== null);
    const placed = kernel.points.every(({ registers, blocks }) => registers === null || blocks !== null);
    const heads = ["registers", "spills, B", placed ? "blocks/SM" : "warps/SM", ...(timed ? ["time"] : [])];
    return h("section", { class: "sweep" },
      h("h2", {}, kernel.name, " ", h("span", { class: "quiet" }, kernel.arch || "")),
      kernel.facts.map((fact) => h("p", {}, fact)),
      h("div", { class: "pair-up" },
        h("div", {}, drawn((width) => chart(kernel.points, width, across)), measured.length > 1 ? drawn((width) => chart(measured, width, times(kernel.time_unit))) : null),
        h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Points of ${kernel.name}` }, h("table", {},
          h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "point"), heads.map((text) => h("th", { scope: "col", class: "num" }, text)), h("td", {}))),
          h("tbody", {}, kernel.points.map((point) => h("tr", { class: point.best ? "best" : null },
            h("td", {}, point.label), h("td", { class: "num" }, number(point.registers)),
            h("td", { class: point.spill_bytes ? "num bad" : "num" }, number(point.spill_bytes)), h("td", { class: "num" }, placed ? number(point.blocks) : point.warps === null ? "–" : `≤${number(point.warps)}`),
            timed ? h("td", { class: "num" }, point.time_text || "–") : null,
            h("td", {}, [point.best ? "best" : "", point.fastest ? "fastest" : "", point.failure ? "failed" : ""].filter(Boolean).join(", ")))))))));
  }

  const described = (point) => `${point.label}: ${number(point.registers)} registers, ${number(point.spill_bytes)} B spilled, ${number(point.blocks)} blocks${point.time_text ? `, ${point.time_text}` : ""}`;
  const spills = { y: ({ spill_bytes: spill }) => spill, up: "spilled B per thread", marked: ({ best }) => best, mark: "best" };
  const WARPS = { ...spills, x: ({ warps }) => warps, across: "resident warps per SM" };
  const BLOCKS = { ...spills, x: ({ blocks }) => blocks, across: "resident blocks per SM" };
  const REGISTERS = { ...spills, x: ({ registers }) => registers, across: "registers per thread" };
  const times = (unit) => ({ x: ({ cap }) => cap, across: "register cap", y: ({ time }) => time, up: unit ? `time measured, ${unit}` : "time measured", marked: ({ fastest }) => fastest, mark: "fastest", fine: true });

  // Round figures from 0 to at least `most`, which may be far below 1.
  function fine(most, wanted) {
    const unit = 10 ** Math.floor(Math.log10(most || 1)) / 10;
    return ticks(most / unit, wanted).map((value) => Number((value * unit).toPrecision(6)));
  }

  // Points from left to right, joined by a line; `axes` says what stands across and up.
  function chart(all, width, axes) {
    const points = all.filter((point) => axes.x(point) !== null && axes.y(point) !== null)
      .sort((one, other) => axes.x(one) - axes.x(other) || axes.y(one) - axes.y(other));
    const plainFirst = [...points].sort((one, other) => axes.marked(one) - axes.marked(other));
    const height = 260, right = 28, top = 20, bottom = 44;
    const most = Math.max(...points.map(axes.y), 0);
    const marks = axes.fine ? fine(most, 4) : ticks(Math.max(1, most), 4);
    const written = marks.map((value) => (Number.isInteger(value) ? number(value) : String(value)));
    const left = 12 + 8 * Math.max(...written.map(({ length }) => length));
    const steps = ticks(Math.max(1, ...points.map(axes.x)), Math.min(8, Math.max(2, Math.floor(width / 70))));
    const x = (value) => left + ((width - left - right) * value) / steps.at(-1);
    const y = (value) => top + (height - top - bottom) * (1 - value / marks.at(-1));
    const named = [];
    return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", class: "tradeoff",
      "aria-label": `${axes.up} over ${axes.across} of ${count(points.length, "compilation")}; the table has the figures` },
      marks.map((value, at) => [svg("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: value ? "grid-line" : "axis" }), svg("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, written[at])]),
      steps.map((value) => svg("text", { x: x(value), y: height - bottom + 18, "text-anchor": "middle" }, number(value))),
      svg("text", { x: left, y: 11 }, axes.up),
      svg("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, axes.across),
      svg("path", { d: points.map((point, at) => `${at ? "L" : "M"}${x(axes.x(point)).toFixed(1)} ${y(axes.y(point)).toFixed(1)}`).join(""), class: "course" }),
      [...plainFirst].reverse().map((point) => {
        const name = point.label + (axes.marked(point) ? `, ${axes.mark}` : "");
        const long = 8 * name.length, at = x(axes.x(point)), above = y(axes.y(point)) - 8;
        const flip = at + 10 + long > width;
        const from = flip ? at - 10 - long : at + 10;
        if (named.some((other) => Math.abs(other.above - above) < 15 && from < other.from + other.long && other.from < from + long)) return null;
        named.push({ from, long, above });
        return svg("text", { x: flip ? at - 10 : at + 10, y: above, "text-anchor": flip ? "end" : "start", class: axes.marked(point) ? "name best" : "name" }, name);
      }),
      plainFirst.map((point) => svg("circle", { cx: x(axes.x(point)), cy: y(axes.y(point)), r: axes.marked(point) ? 7 : 4, class: axes.marked(point) ? "dot best" : "dot" }, svg("title", {}, described(point)))));
  }
})();
