// Tables: `table` shows rows and grows by a button; `grid` draws only visible rows, so that 100,000 open at once.
// Columns are {label, num, title, cell(row, at), tone(row)}; without `cell` a row is the list of its cells.

// A list that draws its first items by make(item, at), and a button that shows more; the address keeps the number of
// presses under the list's name.
function growing(name, list, items, make, step = 50, first = step) {
  const key = `more ${name}`;
  const grown = () => Math.floor(Number(spillscan.route.params.get(key))) || 0;
  const more = h("button", { type: "button", onclick: () => { spillscan.remember({ [key]: grown() + 1 }, { [key]: 0 }); grow(); } });
  let shown = 0;
  const grow = () => {
    const end = step === Infinity ? items.length : first + step * grown();
    add(list, items.slice(shown, end).map((item, at) => make(item, shown + at)));
    shown = Math.min(items.length, end);
    more.hidden = shown === items.length;
    more.textContent = `Show ${number(Math.min(step, items.length - shown))} more of ${number(items.length)}`;
  };
  grow();
  return [list, more];
}

// `mark(row)`: a class of the row.
function table({ title, columns, rows, kind = null, step = 50, mark = () => null }) {
  const tone = (column, row) => [column.num ? "num" : "", column.tone && row !== undefined ? column.tone(row) : ""].filter(Boolean).join(" ") || null;
  const cell = (row, line) => (column, at) => h(at ? "td" : "th", { scope: at ? null : "row", class: tone(column, row) },
    column.cell ? column.cell(row, line) : row[at]);
  const [body, more] = growing(title, h("tbody", {}), rows, (row, line) => h("tr", { class: mark(row) }, columns.map(cell(row, line))), step);
  return h("div", {}, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, h("table", { class: kind },
    h("thead", {}, h("tr", {}, columns.map((column) => h(column.label ? "th" : "td", { scope: column.label ? "col" : null, class: tone(column), title: column.title || null }, column.label)))),
    body)), more);
}

// A table made in Python: {title, heads, words, rows}; `words` are the columns of text.
table.made = ({ title, heads, words, rows }) => table({ title, kind: "past", rows, columns: heads.map((label, at) => ({ label, num: !words[at] })) });

// made(item): {cells, kind, level, expanded}; a click or Enter calls open(item), arrow keys call fold(item) if the
// item has `expanded`, a column heading calls sorted(key). Columns also have {key, sort, width: CSS}. `name`: prefix of
// row ids; `high`: pixels per row; `printed`: rows on paper.
function grid({ name = "row", title, columns, empty, made, open, fold, sorted, high: own = 0, printed: PRINTED = 200 }) {
  const [narrow, paper] = [matchMedia("screen and (max-width: 48rem)"), matchMedia("print")];
  const onPaper = () => printing || paper.matches;
  const high = () => own || (!narrow.matches ? 34 : columns.some(({ key }) => key === "object") ? 78 : 56);
  const kind = ({ key, num }) => `cell cell-${key}${num ? " num" : ""}`;
  const heads = columns.map((column) => h("div", { role: "columnheader", class: kind(column) },
    h("button", { type: "button", title: column.title || null, onclick: () => sorted(column) }, column.label)));
  const body = h("div", { role: "rowgroup", class: "rows" });
  const unprinted = h("p", { class: "note", "aria-hidden": "true" });
  const head = h("div", { role: "rowgroup", class: "heads" }, h("div", { role: "row", "aria-rowindex": 1, class: "row" }, heads));
  const node = h("div", { class: "table", tabindex: "0", "aria-label": title, "aria-colcount": columns.length, onscroll: () => draw(), onkeydown: keys,
    style: { "--wide": columns.map(({ width }) => width).join(" "), "--printed": columns.map(({ key, num }) => `minmax(0, ${key === "name" ? 6 : key === "object" ? 3 : num ? 1.3 : 2}fr)`).join(" "), "--least": `calc(${columns.map(({ width }) => width.replace(/^minmax\((.*),.*/, "$1")).join(" + ")})` } }, head, body, unprinted);
  let items = [], active = 0, from = -1, drawn = new Map();
  let printing = false; // while a browser lays out paper, media queries may still say screen
  for (const media of [narrow, paper]) media.addEventListener("change", () => draw(true));
  for (const [event, state] of [["beforeprint", true], ["afterprint", false]]) window.addEventListener(event, () => { printing = state; if (node.isConnected) draw(true); });
  new ResizeObserver(() => draw(true)).observe(node);

  function show(shown, sort, nested, reset = true) {
    items = shown;
    if (reset) { active = 0; node.scrollTop = 0; }
    columns.forEach(({ key }, at) => heads[at].setAttribute("aria-sort", sort === key ? "ascending" : sort === `-${key}` ? "descending" : "none"));
    node.setAttribute("role", nested ? "treegrid" : "grid");
    node.setAttribute("aria-rowcount", items.length + 1);
    draw(true);
  }

  function draw(reset) {
    const start = onPaper() ? 0 : Math.max(0, Math.floor(node.scrollTop / high()) - 8);
    if (!reset && Math.abs(start - from) < 6) return;
    from = start;
    const sight = onPaper() ? PRINTED : Math.ceil(Math.max(node.clientHeight, 400) / high()) + 20;
    body.style.setProperty("height", `${items.length * high()}px`);
    const left = onPaper() ? items.length - PRINTED : 0;
    unprinted.textContent = left > 0 ? `… ${count(left, "more row")}: see this page on a screen, or use -f csv.` : "";
    // Rows that stay visible are reused.
    const previous = reset ? new Map() : drawn;
    drawn = new Map(items.slice(from, from + sight).map((item, at) => [from + at, previous.get(from + at) || row(item, from + at)]));
    if (!previous.size) body.replaceChildren(...(items.length ? drawn.values() : [h("div", { role: "row", class: "row none", "aria-rowindex": 2 }, h("div", { role: "gridcell" }, empty))]));
    else {
      const fresh = [...drawn].filter(([at]) => !previous.has(at)).map(([, each]) => each);
      for (const [at, each] of previous) if (!drawn.has(at)) each.remove();
      if (fresh.length && !previous.has(from)) body.prepend(...fresh);
      else body.append(...fresh);
    }
    mark();
  }

  function row(item, at) {
    const { cells, kind: own = "", level = null, expanded = null } = made(item);
    return h("div", { role: "row", id: `${name}-${at}`, class: `row ${own}`, "aria-rowindex": at + 2, "aria-level": level, "aria-expanded": expanded === null ? null : String(expanded),
      style: { transform: `translateY(${at * high()}px)` }, onclick: (event) => { if (!String(getSelection())) open(item, event.target.closest("a")); } },
      columns.map((column, place) => h("div", { role: "gridcell", class: `${kind(column)} ${cells[place][1] || ""}`, "data-label": column.short || null }, cells[place][0])));
  }

  function mark() {
    body.querySelector(".active")?.classList.remove("active");
    const current = body.querySelector(`#${name}-${active}`);
    current?.classList.add("active");
    if (current) node.setAttribute("aria-activedescendant", current.id);
    else node.removeAttribute("aria-activedescendant");
  }

  function keys(event) {
    if (event.target !== node || !items.length) return;
    const page = Math.max(1, Math.floor((node.clientHeight - head.offsetHeight) / high()) - 1);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -items.length, End: items.length }[event.key];
    const { expanded = null } = made(items[active]);
    if (event.key === "Enter") open(items[active]);
    if (expanded !== null && event.key === (expanded ? "ArrowLeft" : "ArrowRight")) fold(items[active]);
    if (step === undefined) return;
    event.preventDefault();
    reach(Math.min(items.length - 1, Math.max(0, active + step)));
  }

  // Makes a row active and scrolls to it; `middle`: with rows above it.
  function reach(at, middle = false) {
    active = at;
    const top = at * high(), behind = top + high() + head.offsetHeight;
    if (middle) node.scrollTop = Math.max(0, top - node.clientHeight / 3);
    else if (top < node.scrollTop) node.scrollTop = top;
    else if (behind > node.scrollTop + node.clientHeight) node.scrollTop = behind - node.clientHeight;
    draw(true);
  }

  return { node, show, reach };
}
