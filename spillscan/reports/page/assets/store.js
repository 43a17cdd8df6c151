// The kernels as columns: kernel i is row i of every list. Full names are unpacked when they are asked for.
const store = (() => {
  const { payload, number, h } = spillscan;
  const columns = payload.kernels || { count: 0, id: [], names: [], arches: [], units: [], limiters: [], figures: [], full: { plain: [[], []] } };
  const FUNCTION = 1, UNKNOWN_ROLE = 2, AMBIGUOUS = 4, NOT_FINAL = 8, ASSUMED = 16, AT_MOST = 32, BY_BOUNDS = 64;
  let numbers = null;
  let full = null;

  const name = (i) => columns.names[columns.symbol[i]];
  const arch = (i) => (columns.arch[i] === null ? null : columns.arches[columns.arch[i]]);
  const unit = (i) => columns.units[columns.unit[i]];
  const flag = (i, bit) => (columns.flags[i] & bit) !== 0;
  const limiter = (i) => (columns.limiter[i] === null ? null : columns.limiters[columns.limiter[i]]);
  const bound = (i) => (columns.bound[i] === null ? null : payload.overview.limiters[columns.bound[i]]);
  const occupancy = (i) => {
    const share = columns.occupancy[i];
    if (share === null) return null;
    const most = flag(i, ASSUMED | AT_MOST); // a bound, never shown below what it bounds
    const up = most ? share % 10 : share % 10 > 5 || (share % 10 === 5 && Math.floor(share / 10) % 2); // halves to even, as the text report's
    return `${flag(i, BY_BOUNDS) ? "~" : ""}${most ? "≤" : ""}${Math.floor(share / 10) + (up ? 1 : 0)} %`;
  };
  const registers = (i) => number(columns.registers[i]) + (flag(i, NOT_FINAL) && columns.registers[i] !== null ? "*" : "");
  const role = (i) => (flag(i, FUNCTION) ? "device function" : flag(i, UNKNOWN_ROLE) ? "role unknown" : "");

  // The number of the kernel with this id; undefined where there is none.
  function find(id) {
    if (!numbers) numbers = new Map(columns.id.map((each, i) => [each, i]));
    return numbers.get(id);
  }

  async function unpack(chunk) {
    const bytes = Uint8Array.from(atob(chunk), (sign) => sign.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  // Promise of {symbols, names}: the symbol and the demangled name ("" where it is the same), by number.
  function names() {
    if (!full) full = (columns.full.plain ? Promise.resolve(columns.full.plain)
      : Promise.all(columns.full.packed.map((chunks) => Promise.all(chunks.map(unpack)).then((lists) => lists.flat()))))
      .then(([symbols, names]) => ({ symbols, names }));
    return full;
  }

  const link = (i) => spillscan.link("kernel", columns.id[i]);
  const anchor = (i, attributes) => h("a", { href: link(i), ...attributes }, name(i));

  return { columns, name, arch, unit, flag, limiter, bound, occupancy, registers, role, find, names, link, anchor,
    FUNCTION, UNKNOWN_ROLE, AMBIGUOUS, NOT_FINAL, ASSUMED, AT_MOST, BY_BOUNDS };
})();

// Text that goes to the clipboard; the address bar of a file has no secure context everywhere.
async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = spillscan.h("textarea", { class: "hidden", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  spillscan.say(`${what} copied`);
}

// A drawing as wide as its place: draw(width) makes it, again where the width changes.
function drawn(draw) {
  const box = spillscan.h("div", { class: "drawn" });
  let width = 0;
  new ResizeObserver(() => {
    if (!box.isConnected || box.clientWidth === width || !box.clientWidth) return;
    width = box.clientWidth;
    box.replaceChildren(draw(width));
  }).observe(box);
  return box;
}

// Round figures for an axis from 0 to at least `most`, about `wanted` of them.
function ticks(most, wanted) {
  const rough = Math.max(1, most) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough));
  return Array.from({ length: Math.ceil(Math.max(1, most) / step) + 1 }, (_, i) => i * step);
}

// A table whose first rows stand at once; words: which columns hold no figures.
function grid(title, heads, words, rows) {
  const { h, number } = spillscan;
  const body = h("tbody", {});
  const more = h("button", { type: "button", onclick: () => grow() });
  const kind = (at) => (words[at] ? null : "num");
  let shown = 0;
  const grow = () => {
    body.append(...rows.slice(shown, shown + 50).map((row) => h("tr", {}, row.map((cell, at) => h(at ? "td" : "th", { class: kind(at), scope: at ? null : "row" }, cell)))));
    shown = Math.min(rows.length, shown + 50);
    more.hidden = shown === rows.length;
    more.textContent = `Show ${number(Math.min(50, rows.length - shown))} more of ${number(rows.length)}`;
  };
  grow();
  return h("div", {}, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
    h("table", { class: "worst past" }, h("thead", {}, h("tr", {}, heads.map((head, at) => h("th", { scope: "col", class: kind(at) }, head)))), body)), more);
}
