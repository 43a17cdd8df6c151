// A sweep: what each register cap costs in spills and gives in resident blocks, kernel by kernel.
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
    spillscan.add(box, h("header", { class: "headline" }, h("h1", {}, all.length ? [h("b", {}, number(gains)), ` of ${count(all.length, "kernel")} ${gains === 1 ? "gains" : "gain"} by another register cap`] : "Nothing was swept"),
      h("p", {}, "Each point is one compilation: what it spills, and how many blocks fit on an SM. Fewer spilled bytes and more blocks are better: bottom right.")),
      all.length > 3 ? h("form", { class: "controls", role: "search", onsubmit: (event) => event.preventDefault() }, h("div", { class: "field wide" }, h("label", { for: "sq" }, "Kernel"), search)) : null,
      place, more);
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

  const cap = (point) => (point.cap === null ? "no cap" : `cap ${point.cap}`);

  function card(kernel) {
    const placed = kernel.points.some(({ blocks }) => blocks !== null);
    return h("section", { class: "sweep" },
      h("h2", {}, kernel.name, " ", h("span", { class: "quiet" }, kernel.arch || "")),
      h("div", { class: "pair-up" },
        drawn((width) => chart(kernel, placed, width)),
        h("div", { class: "scroll" }, h("table", {},
          h("thead", {}, h("tr", {}, ["cap", "registers", "spills, B", "blocks/SM"].map((text) => h("th", { scope: "col", class: "num" }, text)), h("td", {}))),
          h("tbody", {}, kernel.points.map((point) => h("tr", { class: point.best ? "best" : null },
            h("td", { class: "num" }, point.cap === null ? "none" : number(point.cap)), h("td", { class: "num" }, number(point.registers)),
            h("td", { class: point.spill_bytes ? "num bad" : "num" }, number(point.spill_bytes)), h("td", { class: "num" }, number(point.blocks)),
            h("td", {}, point.best ? "best" : ""))))))));
  }

  // Spilled bytes over blocks per SM (over registers where no launch tells the blocks), in the order of the caps.
  function chart(kernel, placed, width) {
    const across = (point) => (placed ? point.blocks : point.registers);
    const points = kernel.points.filter((point) => across(point) !== null && point.spill_bytes !== null);
    const height = 260, right = 28, top = 20, bottom = 44;
    const marks = ticks(Math.max(1, ...points.map(({ spill_bytes: spill }) => spill)), 4);
    const left = 12 + 8 * number(marks.at(-1)).length;
    const steps = ticks(Math.max(1, ...points.map(across)), Math.min(8, Math.max(2, Math.floor(width / 70))));
    const x = (value) => left + ((width - left - right) * value) / steps.at(-1);
    const y = (value) => top + (height - top - bottom) * (1 - value / marks.at(-1));
    let last = -1e9;
    return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", class: "tradeoff",
      "aria-label": `Spilled bytes over ${placed ? "blocks per SM" : "registers per thread"} of ${count(points.length, "compilation")}; the table has the figures` },
      marks.map((value) => [svg("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: value ? "grid-line" : "axis" }), svg("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, number(value))]),
      steps.map((value) => svg("text", { x: x(value), y: height - bottom + 18, "text-anchor": "middle" }, number(value))),
      svg("text", { x: left, y: 11 }, "spilled B per thread"),
      svg("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, placed ? "resident blocks per SM" : "registers per thread"),
      svg("path", { d: points.map((point, at) => `${at ? "L" : "M"}${x(across(point)).toFixed(1)} ${y(point.spill_bytes).toFixed(1)}`).join(""), class: "course" }),
      points.map((point) => svg("circle", { cx: x(across(point)), cy: y(point.spill_bytes), r: point.best ? 7 : 4, class: point.best ? "dot best" : "dot" },
        svg("title", {}, `${cap(point)}: ${number(point.registers)} registers, ${number(point.spill_bytes)} B spilled, ${number(point.blocks)} blocks`))),
      points.map((point) => {
        const at = x(across(point)) + 10;
        const crowded = Math.abs(at - last) < 52 && !point.best;
        if (crowded) return null;
        last = at;
        const flip = at + 70 > width;
        return svg("text", { x: flip ? at - 20 : at, y: y(point.spill_bytes) - 8, "text-anchor": flip ? "end" : "start", class: point.best ? "name best" : "name" }, cap(point) + (point.best ? ", best" : ""));
      }));
  }
})();
