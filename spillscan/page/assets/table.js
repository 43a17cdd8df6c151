// All kernels: a grid that draws only the rows in sight, so that 100,000 open, sort, filter and scroll at once.
(() => {
  const { h, number, count } = spillscan;
  const { columns } = store;
  const PRINTED = 200; // rows on paper
  const FORMULA = /^\s*[=+\-@\t\r＝＋－＠]/;

  const figure = (key, label, short, title) => ({ key, label, short, title, num: true, value: (i) => columns[key][i], text: (i) => number(columns[key][i]) });
  const SHORT = { registers: "regs", stores: "st", loads: "ld" }; // where a screen is narrow
  const ALL = [
    { key: "name", label: "kernel", value: store.name, text: store.name },
    { key: "arch", label: "arch", value: store.arch, text: (i) => store.arch(i) || "–" },
    ...columns.figures.map(({ key, label, about }) => ({ ...figure(key, label, SHORT[key] || label, about[0].toUpperCase() + about.slice(1)), ...(key === "registers" ? { text: store.registers } : {}) })),
    { ...figure("occupancy", "occupancy", null, "Resident warps of the SM's; ≤ at the best block size, where it is not known how it is launched"), text: (i) => store.occupancy(i) || "–" },
    { key: "limiter", label: "limited by", value: store.limiter, text: (i) => store.limiter(i) || "–" },
  ];
  const reported = (column) => !column.num || columns[column.key].some((value) => value !== null);

  // ---- order and filter: lists of kernel numbers ------------------------------------------------------------------

  const collator = new Intl.Collator("en", { numeric: true });
  const orders = new Map();

  // All kernels in the order of "key" or "-key" (largest first); what is not known comes last. "" is worst first.
  function ordered(sort) {
    if (orders.has(sort)) return orders.get(sort);
    const order = Int32Array.from({ length: columns.count }, (_, i) => i);
    const down = sort.startsWith("-");
    const column = ALL.find(({ key }) => key === sort.replace("-", ""));
    if (column) {
      const rank = new Float64Array(columns.count);
      if (column.num) for (let i = 0; i < rank.length; i++) { const value = column.value(i); rank[i] = value === null ? Infinity : down ? -value : value; }
      else {
        const texts = [...new Set(Array.from(order, column.value))];
        const sorted = texts.filter((text) => text !== null).sort(collator.compare);
        const place = new Map(sorted.map((text, at) => [text, down ? -at : at]));
        for (let i = 0; i < rank.length; i++) { const at = place.get(column.value(i)); rank[i] = at === undefined ? Infinity : at; }
      }
      order.sort((a, b) => (rank[a] === rank[b] ? a - b : rank[a] - rank[b]));
    }
    if (orders.size > 4) orders.clear();
    orders.set(sort, order);
    return order;
  }

  // A test of symbols by number: part of a name, or with * and ? all of one; upper and lower case are alike.
  let lower = columns.names.map((name) => [name.toLowerCase()]);
  function tester(words) {
    const wanted = words.trim().toLowerCase();
    if (!wanted) return null;
    const glob = /[*?]/.test(wanted);
    const expression = glob && new RegExp(`^${wanted.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".")}$`, "su");
    const fits = glob ? (text) => expression.test(text) : (text) => text.includes(wanted);
    return (symbol) => lower[symbol].some(fits);
  }

  function filtered(state) {
    const test = tester(state.q);
    const fitting = test && Uint8Array.from(columns.names, (_, symbol) => (test(symbol) ? 1 : 0));
    const arch = state.arch ? columns.arches.indexOf(state.arch) : null;
    const bound = state.limiter ? spillscan.payload.overview.limiters.indexOf(state.limiter) : null;
    return ordered(state.sort).filter((i) => (!fitting || fitting[columns.symbol[i]]) && (arch === null || columns.arch[i] === arch)
      && (bound === null || columns.bound[i] === bound) && (!state.spills || columns.stores[i] > 0 || columns.loads[i] > 0));
  }

  // RFC 4180; what a spreadsheet would take for a formula begins with a quote.
  function csv(shown, visible, full) {
    const cell = (value) => {
      if (typeof value === "number") return String(value);
      let text = value === null || value === undefined ? "" : String(value);
      if (FORMULA.test(text)) text = `'${text}`;
      return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
    };
    const heads = [...visible.map(({ label }) => label), "object", "symbol", "full name"];
    const lines = [heads.map(cell).join(",")];
    for (const i of shown) {
      const symbol = columns.symbol[i];
      const names = [full.symbols[symbol], full.names[symbol] || full.symbols[symbol]];
      const values = visible.map((column) => (column.key === "occupancy" && columns.occupancy[i] !== null ? columns.occupancy[i] / 1000 : column.value(i)));
      lines.push([...values, store.unit(i), ...names].map(cell).join(","));
    }
    return `${lines.join("\r\n")}\r\n`;
  }

  // Full and mangled names join the search as soon as they are unpacked.
  let unpacked = null;
  function unpack() {
    unpacked ||= store.names().then((full) => {
      lower = lower.map((names, symbol) => [...names, full.names[symbol].toLowerCase(), full.symbols[symbol].toLowerCase()]);
    });
    return unpacked;
  }

  // ---- the view ---------------------------------------------------------------------------------------------------

  let left = { address: null, kernel: -1 }; // who comes back finds the row that was opened

  spillscan.view("table", (payload, id, box) => {
    const params = spillscan.route.params;
    const state = { q: params.get("q") || "", arch: params.get("arch") || "", limiter: params.get("limiter") || "",
      spills: params.get("spills") === "1", sort: params.get("sort") || "" };
    const visible = ALL.filter(reported);
    let shown = [];
    let active = 0;
    let drawnFrom = -1;
    const narrow = matchMedia("(max-width: 40rem)");
    const paper = matchMedia("print");

    const search = h("input", { type: "search", id: "q", value: state.q, placeholder: "name or glob: gemm*<8>", autocomplete: "off", spellcheck: "false", oninput: () => { state.q = search.value; apply(); } });
    const select = (name, label, all, options) => {
      const box = h("select", { id: name, onchange: () => { state[name] = box.value; apply(); } },
        h("option", { value: "" }, all), options.map((each) => h("option", { value: each, selected: state[name] === each }, each)));
      return h("div", { class: "field" }, h("label", { for: name }, label), box);
    };
    const spills = h("input", { type: "checkbox", id: "spills", checked: state.spills, onchange: () => { state.spills = spills.checked; apply(); } });
    const tally = h("output", { class: "tally", for: "q" });
    const button = h("button", { type: "button", onclick: async () => copy(csv(shown, visible, await store.names()), count(shown.length, "row")) }, "Copy as CSV");
    const sorts = h("select", { id: "sort", onchange: () => { state.sort = sorts.value; apply(); } },
      h("option", { value: "" }, "worst first"), visible.map(({ key, label, num }) => h("option", { value: (num ? "-" : "") + key, selected: state.sort === (num ? "-" : "") + key }, label)));
    const bounds = payload.overview.limiters.filter((_, at) => columns.bound.includes(at));

    const heads = visible.map((column) => {
      const press = h("button", { type: "button", title: column.title || null, onclick: () => {
        const first = column.num ? "-" : "";
        const second = column.num ? "" : "-";
        state.sort = state.sort === first + column.key ? second + column.key : first + column.key;
        apply();
      } }, column.label);
      return h("div", { role: "columnheader", class: `cell cell-${column.key}${column.num ? " num" : ""}` }, press);
    });
    const body = h("div", { role: "rowgroup", class: "rows" });
    const grid = h("div", { role: "grid", class: "table", tabindex: "0", "aria-label": "Kernels", "aria-colcount": visible.length, onscroll: () => draw(), onkeydown: keys },
      h("div", { role: "rowgroup", class: "heads" }, h("div", { role: "row", "aria-rowindex": 1, class: "row" }, heads)), body);
    const widths = visible.map(width);
    grid.style.setProperty("--columns", `minmax(12rem, 1fr) ${widths.slice(1).join(" ")}`);
    grid.style.setProperty("--least", `calc(12rem + ${widths.slice(1).join(" + ")})`);

    spillscan.add(box, 
      h("h1", { class: "hidden" }, "Kernels"),
      h("form", { class: "controls", role: "search", onsubmit: (event) => event.preventDefault() },
        h("div", { class: "field wide" }, h("label", { for: "q" }, "Kernel"), search),
        columns.arches.length > 1 ? select("arch", "Arch", "all", [...columns.arches].sort(collator.compare)) : null,
        bounds.length > 1 ? select("limiter", "Limited by", "anything", bounds) : null,
        h("div", { class: "field narrow-only" }, h("label", { for: "sort" }, "Order"), sorts),
        h("div", { class: "field check" }, spills, h("label", { for: "spills" }, "spills only")),
        h("div", { class: "field end" }, tally, button)),
      grid);
    for (const media of [narrow, paper]) media.addEventListener("change", () => draw(true));
    new ResizeObserver(() => draw(true)).observe(grid);
    apply(true);
    const opened = left.address === String(spillscan.route.params) ? shown.indexOf(left.kernel) : -1;
    if (opened >= 0) {
      grid.setAttribute("data-returned", "");
      requestAnimationFrame(() => reach(opened));
    }
    unpack().then(() => { if (state.q && box.isConnected) apply(true); }, () => {});

    function width(column) {
      let longest = 0.75 * column.label.length + 0.8;
      if (column.num) {
        let most = 0;
        if (column.key !== "occupancy") for (const value of columns[column.key]) if (value > most) most = value;
        longest = Math.max(longest, number(most).length);
      } else for (const text of column.key === "arch" ? columns.arches : columns.limiters) longest = Math.max(longest, 1.1 * text.length);
      return `calc(${Math.min(longest, 16).toFixed(1)}ch + ${column.key === "occupancy" ? 3.5 : 1.25}rem)`;
    }

    function apply(first) {
      shown = filtered(state);
      active = 0;
      heads.forEach((head, at) => {
        const { key } = visible[at];
        head.setAttribute("aria-sort", state.sort === key ? "ascending" : state.sort === `-${key}` ? "descending" : "none");
      });
      grid.setAttribute("aria-rowcount", shown.length + 1);
      const all = count(columns.count, payload.overview.functions.count ? "row" : "kernel"); // device functions are no kernels
      tally.textContent = shown.length === columns.count ? all : `${number(shown.length)} of ${all}`;
      if (!first) {
        grid.scrollTop = 0;
        spillscan.remember({ ...state, spills: state.spills ? "1" : "" });
      }
      draw(true);
    }

    function draw(anew) {
      const high = narrow.matches ? 56 : 34;
      const from = paper.matches ? 0 : Math.max(0, Math.floor(grid.scrollTop / high) - 8);
      if (!anew && Math.abs(from - drawnFrom) < 4) return;
      drawnFrom = from;
      const sight = paper.matches ? PRINTED : Math.ceil(Math.max(grid.clientHeight, 400) / high) + 20;
      const until = Math.min(shown.length, from + sight);
      body.style.setProperty("height", `${shown.length * high}px`);
      const rows = [];
      for (let at = from; at < until; at++) rows.push(row(at, high));
      body.replaceChildren(...rows, ...(shown.length ? [] : [h("div", { role: "row", class: "row none", "aria-rowindex": 2 }, h("div", { role: "gridcell" }, "No kernel fits."))]));
      mark();
    }

    function row(at, high) {
      const i = shown[at];
      return h("div", { role: "row", id: `row-${at}`, class: "row", "aria-rowindex": at + 2, style: { transform: `translateY(${at * high}px)` },
        onclick: (event) => {
          if (event.target.closest("a")) leave(i);
          else if (!String(getSelection())) open(i);
        } },
        visible.map((column) => cell(column, i)));
    }

    function cell(column, i) {
      const value = column.value(i);
      const names = ["cell", `cell-${column.key}`, column.num ? "num" : "", value === 0 || value === null ? "quiet" : ""];
      if ((column.key === "stores" || column.key === "loads") && value) names.push("bad");
      const attributes = { role: "gridcell", class: names.filter(Boolean).join(" "), "data-label": column.short || null };
      if (column.key === "name") {
        const more = [store.role(i), store.flag(i, store.AMBIGUOUS) ? "ambiguous" : "", store.unit(i)].filter(Boolean).join(" · ");
        return h("div", attributes, store.anchor(i, { tabindex: "-1" }), more ? h("span", { class: "quiet", title: more }, more) : null);
      }
      if (column.key === "occupancy" && value !== null)
        return h("div", attributes, h("span", { class: "meter", "aria-hidden": "true", style: { "--part": `${value / 10}%` } }), h("b", {}, column.text(i)));
      return h("div", attributes, column.text(i));
    }

    function mark() {
      body.querySelector(".active")?.classList.remove("active");
      const current = body.querySelector(`#row-${active}`);
      current?.classList.add("active");
      if (current) grid.setAttribute("aria-activedescendant", current.id);
      else grid.removeAttribute("aria-activedescendant");
    }

    function keys(event) {
      if (event.target !== grid) return;
      const page = Math.max(1, Math.floor((grid.clientHeight - grid.firstChild.offsetHeight) / (narrow.matches ? 56 : 34)) - 1);
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -shown.length, End: shown.length }[event.key];
      if (event.key === "Enter" && shown.length) open(shown[active]);
      if (step === undefined || !shown.length) return;
      event.preventDefault();
      reach(Math.min(shown.length - 1, Math.max(0, active + step)));
    }

    function leave(i) { left = { address: String(spillscan.route.params), kernel: i }; }

    function open(i) {
      leave(i);
      location.hash = store.link(i);
    }

    // Makes a row the active one, and brings it into sight.
    function reach(at) {
      const high = narrow.matches ? 56 : 34;
      const head = grid.firstChild.offsetHeight;
      active = at;
      const top = active * high;
      if (top < grid.scrollTop) grid.scrollTop = top;
      else if (top + high + head > grid.scrollTop + grid.clientHeight) grid.scrollTop = top + high + head - grid.clientHeight;
      draw(true);
    }
  });
})();
