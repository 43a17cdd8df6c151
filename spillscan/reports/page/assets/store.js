// The kernels as columns: kernel i is row i of every list. Full names are unpacked on demand.
const store = (() => {
  const columns = payload.kernels;
  const FUNCTION = 1, UNKNOWN_ROLE = 2, AMBIGUOUS = 4, NOT_FINAL = 8;
  let numbers = null;
  let full = null;

  const name = (i) => columns.names[columns.symbol[i]];
  const arch = (i) => (columns.arch[i] === null ? null : columns.arches[columns.arch[i]]);
  const unit = (i) => columns.units[columns.unit[i]];
  const family = (i) => columns.families[columns.family[columns.symbol[i]]];
  const flag = (i, bit) => (columns.flags[i] & bit) !== 0;
  // Residency of a kernel; undefined for a device function, which is never launched.
  const subject = (i) => payload.subjects[payload.details[i][0]];
  columns.occupancy = columns.id.map((_, i) => subject(i)?.share ?? null);
  const limiter = (i) => subject(i) && (subject(i).limiter || "unknown");
  const limiters = [...new Set((payload.subjects || []).map((each) => each.limiter || "unknown"))];
  const occupancy = (i) => subject(i)?.occupancy ?? null;
  const SPILLS = ["spill_store_bytes", "spill_load_bytes"];
  const spilled = (i) => (columns.spill_store_bytes[i] || 0) + (columns.spill_load_bytes[i] || 0);
  const registers = (i) => number(columns.registers[i]) + (flag(i, NOT_FINAL) && columns.registers[i] !== null ? "*" : "");
  const role = (i) => (flag(i, FUNCTION) ? `device function${columns.callers[columns.caller[i]] && ` in ${columns.callers[columns.caller[i]]}`}` : flag(i, UNKNOWN_ROLE) ? "role unknown" : "");

  // The number of the kernel with this id; undefined if there is none.
  function find(id) {
    if (!numbers) numbers = new Map(columns.id.map((each, i) => [each, i]));
    return numbers.get(id);
  }

  // Promise of {symbols, names}: the symbol and the demangled name ("" if equal), by number.
  function names() {
    const { plain, packed } = columns.full;
    return (full ||= Promise.all(plain || packed.map(unpack)).then(([symbols, names]) => ({ symbols, names })));
  }

  const link = (i) => spillscan.link("kernel", columns.id[i]);
  // A link to a kernel; plain text for a kernel of the older build only, which has no view here.
  const anchor = (i, text) => (i === null ? text : h("a", { href: link(i), title: name(i) }, text ?? name(i)));

  return { columns, name, arch, unit, family, flag, subject, limiter, limiters, occupancy, spilled, registers, role, find, names, link, anchor,
    FUNCTION, AMBIGUOUS, NOT_FINAL, SPILLS };
})();

// Copies text to the clipboard, which pages from a server without TLS cannot reach.
async function copy(text, what) {
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else {
    document.addEventListener("copy", (event) => { event.clipboardData.setData("text/plain", text); event.preventDefault(); }, { once: true });
    document.execCommand("copy");
  }
  spillscan.say(`${what} copied`);
}
