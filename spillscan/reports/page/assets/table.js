// All kernels: a grid that draws only the rows in sight, so that 100,000 open, sort, filter and scroll at once.
(() => {
  const { h, number, bytes, count } = spillscan;
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
  const MAIN = ["name", "arch", "registers", "stores", "loads", "occupancy"]; // what every table shows
  const NEXT = ["limiter", "stack", "shared"]; // what most show
  const EQUAL = 4; // rows of which equal columns are worth a note
  const equal = (column) => !MAIN.includes(column.key) && column.num && columns.count >= EQUAL && columns[column.key].every((value) => value === columns[column.key][0]);
  const NAME_REM = 22; // what a name should have

  // ---- order and filter: lists of kernel numbers ------------------------------------------------------------------

  const { collator } = filters;
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
    const fits = filters.fits(words);
    return fits && ((symbol) => lower[symbol].some(fits));
  }

  function filtered(state) {
    const test = tester(state.q);
    const fitting = test && Uint8Array.from(columns.names, (_, symbol) => (test(symbol) ? 1 : 0));
    const chosen = CHOSEN.filter((name) => state[name]).map((name) => filters.tester(name, state[name]));
    const [least, most] = range(state.registers) || [];
    return ordered(state.sort).filter((i) => (!fitting || fitting[columns.symbol[i]]) && chosen.every((fits) => fits(i))
      && (least === undefined || (columns.registers[i] !== null && columns.registers[i] >= least && columns.registers[i] <= most))
      && (!state.spills || columns.stores[i] > 0 || columns.loads[i] > 0));
  }

  const CHOSEN = ["arch", "limiter", "severity", "family", "namespace", "file", "object"];
  const GROUPS = [["kernel", "kernels, archs together"], ["family", "families"], ["namespace", "namespaces"], ["file", "files"], ["object", "objects"], ["arch", "archs"]];

  // [33, 40] of "33-40"; null of what is no range.
  function range(text) {
    const found = /^(\d{1,3})-(\d{1,3})$/.exec(text);
    return found && found.slice(1).map(Number);
  }

  // The kernels in groups that have a text in common, in the order of their first; of a group its worst figures.
  function grouped(shown, by) {
    const found = new Map();
    for (const i of shown) {
      const label = filters.of[by](i) || "";
      const group = found.get(label);
      if (group) group.kernels.push(i);
      else found.set(label, { label, kernels: [i] });
    }
    return [...found.values()];
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

  // How wide a column is: characters and rem.
  function width(column) {
    let longest = 0.75 * column.label.length + 0.8;
    if (column.num) {
      let most = 0;
      if (column.key !== "occupancy") for (const value of columns[column.key]) if (value > most) most = value;
      longest = Math.max(longest, number(most).length);
    } else for (const text of column.key === "arch" ? columns.arches : columns.limiters) longest = Math.max(longest, 1.1 * text.length);
    return [Math.min(longest, 16), column.key === "occupancy" ? 3.5 : 1.25];
  }

  // The columns that leave names their room; the others can be asked for.
  function fitting(known, box, all) {
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    let room = (box.clientWidth || innerWidth - 5 * rem) - NAME_REM * rem;
    const taken = ([ch, more]) => ch * 0.56 * rem + more * rem;
    const rank = ({ key }) => (MAIN.includes(key) ? 0 : NEXT.includes(key) ? 1 : 2);
    const order = [...known].sort((a, b) => rank(a) - rank(b));
    const kept = new Set();
    for (const column of order) {
      if (column.key === "name") { kept.add(column); continue; }
      const wide = taken(width(column));
      if (all || MAIN.includes(column.key) || room >= wide) { kept.add(column); room -= wide; }
    }
    return known.filter((column) => kept.has(column));
  }

  // ---- the view ---------------------------------------------------------------------------------------------------

  let left = { address: null, kernel: -1, unfolded: [] }; // who comes back finds the row that was opened

  spillscan.view("table", (payload, id, box) => {
    const params = spillscan.route.params;
    const [by, usual] = filters.grouping(GROUPS, "none");
    const state = { q: params.get("q") || "", ...Object.fromEntries(CHOSEN.map((name) => [name, params.get(name) || ""])),
      registers: range(params.get("registers") || "") ? params.get("registers") : "", spills: params.get("spills") === "1",
      by, sort: filters.order("table") };
    const known = ALL.filter(reported);
    const alike = known.filter(equal);
    const visible = fitting(known.filter((column) => !alike.includes(column)), box, params.get("columns") === "all");
    const spared = known.length - alike.length - visible.length;
    const unfolded = new Set(left.address === String(params) ? left.unfolded : []);
    let shown = [];
    let items = []; // what stands in the rows: kernels, or groups and the kernels in those that are open
    let active = 0;
    let drawnFrom = -1;
    const narrow = matchMedia("(max-width: 48rem)");
    const paper = matchMedia("print");

    const search = h("input", { type: "search", id: "q", value: state.q, placeholder: "name or glob: gemm*<8>", autocomplete: "off", spellcheck: "false", oninput: () => { state.q = search.value; apply(); } });
    const spills = h("input", { type: "checkbox", id: "spills", checked: state.spills, onchange: () => { state.spills = spills.checked; apply(); } });
    const tally = h("output", { class: "tally", for: "q" });
    const button = h("button", { type: "button", onclick: async () => copy(csv(shown, known, await store.names()), count(shown.length, "row")) }, "Copy as CSV");
    const sorts = h("select", { id: "sort", onchange: () => { state.sort = sorts.value; apply(); } },
      h("option", { value: "" }, "worst first"), visible.map(({ key, label, num }) => h("option", { value: (num ? "-" : "") + key, selected: state.sort === (num ? "-" : "") + key }, label)));
    const kinds = GROUPS.filter(([name]) => filters.several(name === "kernel" ? "arch" : name) || name === state.by);
    const groups = h("select", { id: "by", onchange: () => { state.by = groups.value; unfolded.clear(); apply(); } },
      h("option", { value: "none" }, "kernels"), kinds.map(([name, label]) => h("option", { value: name, selected: state.by === name }, label)));
    const within = h("button", { type: "button", class: "chip", onclick: () => { state.registers = state.namespace = ""; apply(); } });
    const wider = h("button", { type: "button", hidden: !spared, onclick: () => { spillscan.remember({ ...Object.fromEntries(spillscan.route.params), columns: "all" }); location.reload(); } }, `${count(spared, "more column")}`);
    const about = h("p", { class: "note", hidden: !alike.length }, `In all rows: ${alike.map((column) => `${column.label} ${column.text(0)}`).join(", ")}.`);
    const letters = h("div", {});
    const most = h("p", { class: "note" }, "The row of a group shows the most that any of its kernels has, and the least occupancy.");

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
    const widths = visible.map((column) => { const [ch, rem] = width(column); return `calc(${ch.toFixed(1)}ch + ${rem}rem)`; });
    grid.style.setProperty("--columns", `minmax(16rem, 1fr) ${widths.slice(1).join(" ")}`);
    grid.style.setProperty("--least", `calc(16rem + ${widths.slice(1).join(" + ")})`);

    spillscan.add(box, 
      h("h1", { class: "hidden" }, "Kernels"),
      h("form", { class: "controls", role: "search", onsubmit: (event) => event.preventDefault() },
        h("div", { class: "field wide" }, h("label", { for: "q" }, "Kernel"), search),
        kinds.length ? h("div", { class: "field" }, h("label", { for: "by" }, "Show"), groups) : null,
        filters.chooser(state, null, null, CHOSEN, () => apply()),
        h("div", { class: "field narrow-only" }, h("label", { for: "sort" }, "Order"), sorts),
        h("div", { class: "field check" }, spills, h("label", { for: "spills" }, "spills only")), within,
        h("div", { class: "field end" }, tally, wider, button)),
      about, most, letters, grid);
    for (const media of [narrow, paper]) media.addEventListener("change", () => draw(true));
    new ResizeObserver(() => draw(true)).observe(grid);
    apply(true);
    const opened = left.address === String(spillscan.route.params) ? items.indexOf(left.kernel) : -1;
    if (opened >= 0) {
      grid.setAttribute("data-returned", "");
      requestAnimationFrame(() => reach(opened));
    }
    unpack().then(() => { if (state.q && box.isConnected) apply(true); }, () => {});

    function apply(first) {
      shown = filtered(state);
      arrange();
      active = 0;
      heads.forEach((head, at) => {
        const { key } = visible[at];
        head.setAttribute("aria-sort", state.sort === key ? "ascending" : state.sort === `-${key}` ? "descending" : "none");
      });
      const all = count(columns.count, payload.overview.functions.count ? "row" : "kernel"); // device functions are no kernels
      tally.textContent = shown.length === columns.count ? all : `${number(shown.length)} of ${all}`;
      if (!first) {
        grid.scrollTop = 0;
        remembered();
      }
      draw(true);
    }

    // The rows: kernels, or groups with the kernels of those that are open below them.
    function arrange() {
      const labels = state.by === "none" ? null : grouped(shown, state.by);
      letters.replaceChildren(...[legend()].filter(Boolean));
      items = labels ? labels.flatMap((group) => [group, ...(unfolded.has(group.label) ? group.kernels : [])]) : shown;
      most.hidden = !labels;
      within.hidden = !state.registers && !state.namespace;
      within.textContent = `${[state.namespace, state.registers ? `${state.registers.replace("-", " to ")} registers` : ""].filter(Boolean).join(", ")} ✕`;
      within.setAttribute("aria-label", `${within.textContent.slice(0, -2)}: remove this filter`);
      grid.setAttribute("role", labels ? "treegrid" : "grid");
      grid.setAttribute("aria-rowcount", items.length + 1);
    }

    // Of the families that are shown, what letters in their names stand for.
    function legend() {
      if (shown.length === columns.count) return spillscan.legend();
      const found = new Set();
      for (const i of shown) found.add(columns.family[columns.symbol[i]]);
      return spillscan.legend([...found].map((family) => columns.families[family]));
    }

    function remembered() {
      const { spills: only, ...rest } = state;
      const pairs = Object.entries({ ...rest, spills: only ? "1" : "", by: state.by === usual ? "" : state.by });
      const order = ["q", "arch", "limiter", "spills", "sort"];
      if (params.get("columns") === "all") pairs.push(["columns", "all"]);
      pairs.sort((a, b) => order.indexOf(a[0]) - order.indexOf(b[0]));
      spillscan.remember(Object.fromEntries(pairs));
    }

    function toggle(group) {
      if (!unfolded.delete(group.label)) unfolded.add(group.label);
      arrange();
      draw(true);
    }

    function draw(anew) {
      const high = narrow.matches ? 56 : 34;
      const from = paper.matches ? 0 : Math.max(0, Math.floor(grid.scrollTop / high) - 8);
      if (!anew && Math.abs(from - drawnFrom) < 4) return;
      drawnFrom = from;
      const sight = paper.matches ? PRINTED : Math.ceil(Math.max(grid.clientHeight, 400) / high) + 20;
      const until = Math.min(items.length, from + sight);
      body.style.setProperty("height", `${items.length * high}px`);
      const rows = [];
      for (let at = from; at < until; at++) rows.push(row(at, high));
      body.replaceChildren(...rows, ...(items.length ? [] : [h("div", { role: "row", class: "row none", "aria-rowindex": 2 }, h("div", { role: "gridcell" }, "No kernel fits."))]));
      mark();
    }

    // The row of a group: what it is called, how many spill and how much, and the most that any of its kernels has.
    function heading(group, at, high) {
      const { kernels, label } = group;
      const spilling = kernels.filter((i) => columns.stores[i] > 0 || columns.loads[i] > 0);
      const size = filters.summed(spilling.map((i) => (columns.stores[i] || 0) + (columns.loads[i] || 0)));
      const said = spilling.length ? `${number(spilling.length)} of ${number(kernels.length)} spill, ${bytes(size)}` : count(kernels.length, "kernel");
      const open = unfolded.has(label);
      const cells = visible.map((column) => {
        const attributes = { role: "gridcell", class: `cell cell-${column.key}${column.num ? " num" : ""}`, "data-label": column.short || null };
        if (column.key === "name") return h("div", attributes, h("b", { class: open ? "fold open" : "fold" }, label || "not said"), h("span", { class: "quiet" }, said));
        if (column.key === "occupancy") {
          const known = kernels.filter((i) => columns.occupancy[i] !== null);
          const least = known.reduce((best, i) => (best === null || columns.occupancy[i] < columns.occupancy[best] ? i : best), null);
          return h("div", attributes, h("b", {}, least === null ? "–" : column.text(least)));
        }
        if (column.num) return h("div", attributes, number(kernels.reduce((most, i) => (column.value(i) === null ? most : Math.max(most ?? 0, column.value(i))), null)));
        const texts = new Set(kernels.map(column.text));
        return h("div", attributes, texts.size === 1 ? [...texts][0] : h("span", { class: "quiet" }, column.key === "arch" ? count(texts.size, "arch") : number(texts.size)));
      });
      return h("div", { role: "row", id: `row-${at}`, class: "row group", "aria-rowindex": at + 2, "aria-level": 1, "aria-expanded": String(open), style: { transform: `translateY(${at * high}px)` },
        onclick: () => toggle(group) }, cells);
    }

    function row(at, high) {
      const i = items[at];
      if (typeof i === "object") return heading(i, at, high);
      return h("div", { role: "row", id: `row-${at}`, class: state.by === "none" ? "row" : "row under", "aria-rowindex": at + 2, "aria-level": state.by === "none" ? null : 2, style: { transform: `translateY(${at * high}px)` },
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
        const name = state.by === "family" ? filters.under(store.name(i), filters.of.family(i)) : store.name(i);
        return h("div", attributes, h("a", { href: store.link(i), tabindex: "-1", title: store.name(i) }, name), more ? h("span", { class: "quiet", title: more }, more) : null);
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
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -items.length, End: items.length }[event.key];
      const at = items[active];
      const group = typeof at === "object";
      if (event.key === "Enter" && items.length) group ? toggle(at) : open(at);
      if (group && event.key === (unfolded.has(at.label) ? "ArrowLeft" : "ArrowRight")) toggle(at);
      if (step === undefined || !items.length) return;
      event.preventDefault();
      reach(Math.min(items.length - 1, Math.max(0, active + step)));
    }

    function leave(i) { left = { address: String(spillscan.route.params), kernel: i, unfolded: [...unfolded] }; }

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
