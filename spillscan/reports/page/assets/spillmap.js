// The code of a kernel as a strip: accesses to local memory in lanes, and above them how many
// registers are live.
const spillmap = (() => {
  const LANES = [
    { key: "S", label: "spill stores", kind: "store" },
    { key: "s", label: "spill reloads", kind: "load" },
    { key: "Aa", label: "local arrays", kind: "array" },
    { key: "Ff", label: "call frames", kind: "frame" },
    { key: "Hh", label: "ptxas's helpers", kind: "helper" },
    { key: "Uu", label: "unknown", kind: "unknown" },
  ];
  const NAMES = { spill: "spills", array: "local arrays", frame: "call frames", helper: "ptxas's helpers", unknown: "unknown" };
  const EVIDENCE = {
    annotation: "from ptxas annotations",
    "last-use": "inferred from the last use of each slot",
    none: "no local-memory access",
  };
  const LANE = 30, CURVE = 96, LINES = 12;

  // Marks with their positions, from the columns of the payload.
  function unpack({ marks }) {
    let at = 0;
    return marks ? marks.at.map((step, place) => {
      at += step;
      return { at: at * marks.unit, what: marks.what[place], depth: marks.depth[place], count: marks.count[place], slot: marks.slot[place], line: marks.line[place] };
    }) : [];
  }

  const stores = ({ what }) => what !== what.toLowerCase();

  function describe(map, mark) {
    const way = stores(mark) ? "store" : "load";
    const what = { s: stores(mark) ? "spill store" : "spill reload", a: `local array ${way}`, f: `call frame ${way}`, h: `${way} of a helper of ptxas`, u: `local ${way}` }[mark.what.toLowerCase()];
    return [mark.count === 1 ? `${what} at ${hex(mark.at)}` : `${mark.count} × ${what} from ${hex(mark.at)}`, mark.slot >= 0 ? map.slots[mark.slot][0] : "",
      mark.depth === "?" ? "loop depth unknown" : mark.depth === "0" ? "outside of loops" : `loop depth ${mark.depth}`, mark.line >= 0 ? printable(map.lines[mark.line]) : ""].filter(Boolean).join(", ");
  }

  // The curve of live registers above the lanes, on the same axis of the code.
  function curve(code, x, top) {
    const most = Math.max(code.peak, code.allocated || 0, 1);
    const y = (registers) => top + CURVE - 14 - ((CURVE - 26) * registers) / most;
    const steps = code.curve.map((registers, at) => `H${x(at * code.unit).toFixed(1)}V${y(registers).toFixed(1)}H${x(Math.min((at + 1) * code.unit, code.bytes)).toFixed(1)}`);
    const peak = `peak: ${code.at_least ? "at least " : ""}${number(code.peak)} registers live at ${hex(code.at)}`;
    return [chart.titled("path", { class: "live", d: `M${x(0)} ${y(0)}${steps.join("")}V${y(0)}Z` }, peak),
      code.allocated ? chart.titled("line", { class: "allocated", x1: x(0), x2: x(code.bytes), y1: y(code.allocated), y2: y(code.allocated) }, code.allocation) : null,
      chart.titled("circle", { class: "peak", cx: x(code.at), cy: y(code.peak), r: 3 }, peak)];
  }

  function strip(map, marks, width, code, both) {
    const lanes = LANES.filter(({ key }) => marks.some(({ what }) => key.includes(what)));
    const narrow = width < 560, each = narrow ? LANE + 14 : LANE;
    const top = 8 + (code ? CURVE : 0), bottom = top + lanes.length * each;
    const named = (text, y, aside) => svg("text", { class: "lane", x: narrow ? 4 : 94, y: narrow ? y : aside, "text-anchor": narrow ? "start" : "end" }, text);
    return chart.axes(width, { height: bottom + 27, left: narrow ? 4 : 104, right: 8, class: "strip", label: `The kernel's ${number(map.instructions)} instructions from left to right. ${summary(map)}`,
      up: null, across: { most: map.bytes, ticks: [0, 1, 2, 3, 4].map((part) => Math.round((map.bytes * part) / 64) * 16), text: hex },
      parts: ({ x, low, high }) => [
        code ? [curve(code, x, 8), named("live registers", top - 16, top - 16)] : null,
        lanes.map(({ key, kind, label }, row) => {
          const base = top + (row + 1) * each - 5, tall = LANE - 11;
          return [svg("line", { class: "lane", x1: low, x2: high, y1: base, y2: base }), named(label, base - LANE + 5, base - 6),
            // Stores are drawn from the top down, loads from the line up: distinct without color.
            marks.filter(({ what }) => key.includes(what)).map((mark) => chart.titled("path", { class: `mark ${kind}${both ? " opens" : ""}`, onclick: both ? () => both.jump(Math.floor(mark.at / 16)) : null,
              d: `M${x(mark.at).toFixed(1)} ${stores(mark) ? base - tall : base}v${stores(mark) ? tall : -tall}m-2.5 0h5` }, describe(map, mark)))];
        }),
        [0, 1, 2, 3, 4].map((part) => svg("line", { class: "tick", x1: x((map.bytes * part) / 4), x2: x((map.bytes * part) / 4), y1: bottom, y2: bottom + 4 }))] });
  }

  function summary({ totals }) {
    return Object.entries(totals).map(([kind, [stores, loads, stored, loaded]]) =>
      `${NAMES[kind]}: ${count(stores, "store")} (${number(stored)} B), ${count(loads, "load")} (${number(loaded)} B)`).join("; ");
  }

  // A table of names and values.
  const totals = (title, heads, rows) => table({ title, kind: "local-totals", rows, columns: heads.map((label, at) => ({ label, num: at > 0, cell: (row) => (at && typeof row[at] === "number" ? number(row[at]) : row[at]) })) });

  // The curve in words, with the register limit of ptxas and the number of spilled values.
  function pressure(code) {
    return [code.within ? `In the code of ${printable(code.within)}, which contains it: ` : "", `${code.at_least ? "at least " : ""}${number(code.peak)} registers are live at once (at ${hex(code.at)})`,
      code.allocation ? `; dashed line: ${code.allocation}` : "", code.limit ? `; register limit ${number(code.limit)}` : "",
      code.demand && code.demand > code.peak ? `; ${number(code.demand)} values are live, including those in spill slots` : "", ".",
      code.relief ? ` ${code.relief[0].toUpperCase()}${code.relief.slice(1)}.` : ""].join("");
  }

  function draw(found, code = null) {
    const map = code ? { ...found, bytes: Math.max(found.bytes, code.bytes) } : found;
    const marks = unpack(map);
    const both = code && code.code ? source.draw(code.code, code.advice) : null;
    const { node } = chart.drawn((width) => strip(map, marks, width, code, both), "canvas");
    const lines = map.lines.map((place, line) => ({ place, share: map.shares[line] })).filter(({ share }) => share).sort((one, other) => other.share - one.share).slice(0, LINES);
    const coarse = map.marks && map.marks.unit > Math.floor(map.bytes / Math.max(map.instructions, 1));
    return h("div", { class: "spillmap" },
      map.marks ? node : h("p", { class: "quiet" }, "No chart: the input has the number of accesses, but not their addresses. Scan the disassembly or the binary."),
      both ? both.node : null,
      code ? h("p", {}, pressure(code)) : null,
      map.marks ? h("p", { class: "quiet small" }, `Code from left to right, ${number(map.bytes)} bytes.`,
        coarse ? ` A mark covers all accesses within ${number(map.marks.unit)} bytes.` : "",
        ` Access classes: ${EVIDENCE[map.evidence]}${map.flow === "guessed" ? "; some branch targets are inferred" : ""}.`) : null,
      lines.length ? h("p", { class: "quiet small" }, "Source lines by spill cost: bytes × 10 per enclosing loop.") : null,
      lines.length ? h("ol", {}, lines.map(({ place, share }) => h("li", {}, h("code", {}, printable(place)), h("span", { class: "quiet" }, ` ${percent(share)}`)))) : null,
      h("div", { class: "grid" },
        h("div", {}, h("h3", {}, "By class"), totals("By class", ["local memory", "stores", "bytes", "loads", "bytes"], Object.entries(map.totals).map(([kind, [stores, loads, stored, loaded]]) => [NAMES[kind], stores, stored, loads, loaded]))),
        h("div", {}, h("h3", {}, "By loop depth"), totals("By loop depth", ["loop depth", "spills", "arrays", "frames", "unknown"], map.depths.map(([depth, ...counts]) => [depth === null ? "unknown" : depth === 0 ? "outside of loops" : String(depth), ...counts])))),
      map.slots.length && !both ? fold("slots", null, "Slots", () => [
        totals("Slots", ["slot", "stores", "loads", "deepest loop", "class"], map.slots.map(([name, kind, stores, loads, depth]) => [h("code", {}, name), stores, loads, depth < 0 ? "unknown" : depth, kind])),
        map.more_slots ? h("p", { class: "quiet" }, `… ${count(map.more_slots, "more slot")}`) : null]) : null);
  }

  return { draw };
})();
