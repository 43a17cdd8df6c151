// The frame of every page: DOM helpers, the router, the registry of views. Text is never parsed as markup: the content
// security policy forbids markup from strings and style attributes; styles are set property by property.
async function unpack(text) {
  const signs = atob(text), bytes = new Uint8Array(signs.length);
  for (let at = 0; at < signs.length; at++) bytes[at] = signs.charCodeAt(at);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
}

const payload = JSON.parse(document.getElementById("payload").textContent);
for (const [name, value] of Object.entries(payload)) if (value?.deflated) payload[name] = await unpack(value.deflated);

const spillscan = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const views = new Map();
  let route = { view: "", id: "", params: new URLSearchParams() };
  let origin = ""; // the address of the list from which a kernel was opened

  function build(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
      else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value === true ? "" : value);
    }
    add(element, children);
    return element;
  }

  // Appends nodes, texts and lists of them; null and false are skipped.
  const nodes = (children) => children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  const add = (element, ...children) => element.append(...nodes(children));
  const fill = (element, ...children) => element.replaceChildren(...nodes(children));
  // h("p", {class: "note", onclick: open, style: {"--x": "3"}}, "text", [nodes], null)
  const h = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) => build(document.createElementNS(SVG, tag), attributes, children);

  const grouped = new Intl.NumberFormat("en-US");
  // 12,345; a dash if unknown.
  const number = (value) => (value === null || value === undefined ? "–" : grouped.format(value));
  const digits = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3, roundingMode: "halfEven" });
  const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0, roundingMode: "halfEven" });
  // Readable bytes: exact below 1 MiB, else three digits, as `size` in occupancy/text.py.
  function bytes(value) {
    const [unit, name] = Math.abs(value) >= 2 ** 30 ? [2 ** 30, "GiB"] : [2 ** 20, "MiB"];
    const amount = value / unit;
    return Math.abs(amount) < 1 ? `${number(value)} B` : `${(Math.abs(amount) < 999.5 ? digits : whole).format(amount)} ${name}`;
  }
  // [12,345, B], [94.9, MiB], [17, ms]: a value and its unit; a dash has none.
  function amount(value, unit) {
    if (value === null || value === undefined) return ["–", ""];
    return unit === "B" ? bytes(value).split(" ") : [number(value), unit];
  }
  // The change of a metric: worse if it has the sign `sign`; a dash if either value is unknown.
  function delta(before, after, sign) {
    if (before === null || after === null) return "–";
    const moved = after - before;
    return h("span", { class: moved * sign > 0 ? "bad" : moved * sign < 0 ? "good" : "quiet" }, moved ? `${moved > 0 ? "+" : "−"}${number(Math.abs(moved))}` : "0");
  }
  // A share as the terminal prints it: only 0 is shown as 0, and only all as 100.
  const percent = (share) => (share > 0 && share <= .005 ? "<1%" : `${Math.min(Math.round(100 * share), share > .9999 ? 100 : 99)}%`);
  const hex = (address) => `0x${address.toString(16).padStart(4, "0")}`;
  const count = (value, noun, plural = `${noun}s`) => `${number(value)} ${value === 1 ? noun : plural}`;

  // Makes control, format and bidirectional characters of a log visible: they could reorder the text around them.
  const printable = (text) => text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, "\uFFFD");

  // A text with `code` between backticks.
  const marked = (text) => text.split("`").map((part, at) => (at % 2 ? h("code", {}, printable(part)) : printable(part)));

  // The gaps of a check: open ones, and those that the policy accepts.
  function unknown(verdict) {
    const band = (title, lines) => (lines.length ? h("div", { class: "band warn-band" }, h("b", {}, title), h("ul", {}, lines.map((line) => h("li", {}, marked(line))))) : null);
    return [band("Incomplete input", verdict.gaps), band("Accepted gaps", verdict.accepted)];
  }

  // Addresses are #/view/id?key=value.
  function parse(hash) {
    const [path, query] = hash.replace(/^#\/?/, "").split("?", 2);
    const [view, ...rest] = path.split("/");
    const params = new URLSearchParams(query || "");
    try { return { view, params, id: decodeURIComponent(rest.join("/")) }; } catch { return { view, params, id: "" }; }
  }

  function link(view, id, params) {
    const query = new URLSearchParams(params || {}).toString();
    return `#/${view}${id === undefined || id === null || id === "" ? "" : `/${encodeURIComponent(id)}`}${query ? `?${query}` : ""}`;
  }

  // Writes the view's state to the address, without a history entry and without a redraw: only what differs from the
  // default; parameters of other parts of the view stay.
  function remember(state, usual) {
    for (const name of Object.keys(usual)) {
      route.params.delete(name);
      for (const each of [state[name]].flat()) if (String(each) !== String(usual[name])) route.params.append(name, each);
    }
    history.replaceState(null, "", link(route.view, route.id, route.params));
  }

  // Whether the part of a view with this name is open; `usual` if the address does not name it.
  const opened = (name, usual = false) => route.params.getAll(usual ? "shut" : "open").includes(name) !== usual;
  function toggle(name, open, usual = false) {
    const list = usual ? "shut" : "open", others = route.params.getAll(list).filter((each) => each !== name);
    if (opened(name, usual) !== open) remember({ [list]: open === usual ? others : [...others, name] }, { [list]: "" });
  }

  // A part that opens; fill() makes its content when it is first opened.
  function fold(name, kind, summary, fill, usual = false) {
    const details = h("details", { class: kind, open: opened(name, usual), ontoggle: () => {
      if (!details.isConnected) return;
      toggle(name, details.open, usual);
      make();
    } }, h("summary", {}, summary));
    const make = () => { if (details.open && details.children.length < 2) add(details, fill()); };
    make();
    return details;
  }

  // render(payload, argument, container) draws a view; the argument is the route's id.
  const view = (name, render) => views.set(name, render);
  const live = h("div", { class: "hidden", role: "status", "aria-live": "polite" });
  const say = (text) => { live.textContent = text; };
  const title = (...parts) => { document.title = [...parts, payload.title].filter(Boolean).join(" · "); };

  const pages = payload.views;
  const links = pages.map(({ name, label }) => h("a", { href: link(name) }, label));
  const main = h("main", { id: "main", tabindex: "-1" });

  function show(first) {
    const left = route;
    route = parse(location.hash);
    if (left.view && left.view !== "kernel" && route.view === "kernel") origin = link(left.view, left.id, left.params);
    if (!views.has(route.view)) route = parse(pages[0].name);
    pages.forEach(({ name }, at) => { links[at].ariaCurrent = name === (route.view === "kernel" ? "table" : route.view) ? "page" : null; });
    title(pages.slice(1).find(({ name }) => name === route.view)?.label);
    const container = h("div", { class: `view view-${route.view}` });
    main.replaceChildren(container);
    window.scrollTo(0, 0); // a view may scroll to a part of it
    views.get(route.view)(payload, route.id, container);
    // Back from a kernel, focus returns to where it was opened: the row that the view marked, or the kernel's link.
    const address = CSS.escape(link("kernel", left.id));
    const back = left.view === "kernel" && route.view !== "kernel" && (container.querySelector("[data-returned]") || container.querySelector(`a[href=${address}]`));
    if (back) back.focus();
    else if (!first) main.focus({ preventScroll: true });
  }

  // Escape leaves a kernel, unless something on it can be closed.
  function leave(event) {
    if (event.key !== "Escape" || route.view !== "kernel" || event.defaultPrevented || event.target.closest("select, input")) return;
    location.hash = origin || link("table");
  }

  function theme() {
    const root = document.documentElement;
    const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
    return h("button", { class: "theme", type: "button", title: "Light or dark colors", onclick: () => { root.dataset.theme = dark() ? "light" : "dark"; } },
      svg("svg", { viewBox: "0 0 20 20", width: 18, height: 18, "aria-hidden": "true" },
        svg("circle", { cx: 10, cy: 10, r: 7, fill: "none", stroke: "currentColor", "stroke-width": 1.5 }), svg("path", { d: "M10 3a7 7 0 0 1 0 14z", fill: "currentColor" })));
  }

  function start() {
    const skip = h("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); main.focus(); } }, "Skip to content");
    const header = h("header", { class: "top" },
      h("a", { class: "brand", href: "#/" }, h("b", {}, "spillscan"), payload.title ? h("span", {}, printable(payload.title)) : null),
      links.length > 1 ? h("nav", { "aria-label": "Pages" }, links) : null,
      theme());
    document.getElementById("page").replaceChildren(skip, header, main, live);
    window.addEventListener("hashchange", () => show(false));
    window.addEventListener("keydown", leave);
    show(true);
  }

  return { payload, h, svg, add, fill, number, bytes, amount, delta, count, percent, hex, printable, link, marked, remember, opened, toggle, fold, view, say, title, start, unknown,
    get route() { return route; } };
})();
const { h, svg, add, fill, number, bytes, amount, delta, count, percent, hex, printable, marked, link, fold } = spillscan;
