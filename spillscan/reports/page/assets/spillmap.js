// The code of a kernel as a strip: accesses to local memory in lanes, the loops around them as nested bands.
const spillmap = (() => {
  const { h, svg, number, count, printable } = spillscan;
  const LANES = [
    { key: "S", label: "spill stores", kind: "store" },
    { key: "s", label: "spill reloads", kind: "load" },
    { key: "Aa", label: "local arrays", kind: "array" },
    { key: "Ff", label: "call frames", kind: "frame" },
    { key: "Uu", label: "not known", kind: "unknown" },
  ];
  const NAMES = { spill: "spills", array: "local arrays", frame: "call frames", unknown: "not known" };
  const EVIDENCE = {
    annotation: "ptxas marked each spill",
    "last-use+log": "by the last-use rule, and the build log counts the same bytes",
    log: "the slots whose bytes are those that the build log counts",
    "last-use": "by the last-use rule alone",
    none: "nothing to judge",
  };
  const LANE = 30;
  const BAND = 16;
  const CURVE = 96;

  // Marks with their places, out of the columns of the payload.
  function unpack({ marks }) {
    let at = 0;
    return marks.at.map((step, place) => {
      at += step;
      return { at: at * marks.unit, what: marks.what[place], depth: marks.depth[place], count: marks.count[place],
        slot: marks.slot[place], line: marks.line[place] };
    });
  }

  const percent = (share) => (share < 0.005 ? "<1 %" : `${Math.round(share * 100)} %`);
  const hex = (address) => `0x${address.toString(16).padStart(4, "0")}`;

  function describe(map, mark) {
    const store = mark.what !== mark.what.toLowerCase();
    const what = { s: store ? "spill store" : "spill reload", a: `local array ${store ? "store" : "load"}`,
      f: `call frame ${store ? "store" : "load"}`, u: `local ${store ? "store" : "load"}` }[mark.what.toLowerCase()];
    const words = [mark.count === 1 ? `${what} at ${hex(mark.at)}` : `${mark.count} × ${what} from ${hex(mark.at)}`];
    if (mark.slot >= 0) words.push(map.slots[mark.slot][0]);
    words.push(mark.depth === "?" ? "loop depth unknown" : mark.depth === "0" ? "outside of loops" : `loop depth ${mark.depth}`);
    if (mark.line >= 0) words.push(printable(map.lines[mark.line]));
    return words.join(", ");
  }

  // The curve of live registers above the lanes, on the same axis of the code.
  function curve(code, x, top) {
    const most = Math.max(code.peak, code.allocated || 0, 1);
    const y = (registers) => top + CURVE - 14 - ((CURVE - 26) * registers) / most;
    const steps = code.curve.map((registers, at) => `H${x(at * code.unit).toFixed(1)}V${y(registers).toFixed(1)}H${x(Math.min((at + 1) * code.unit, code.bytes)).toFixed(1)}`);
    const said = `${code.at_least ? "at least " : ""}${number(code.peak)} registers live at ${hex(code.at)}`;
    return [
      svg("path", { class: "live", d: `M${x(0)} ${y(0)}${steps.join("")}V${y(0)}Z` }, svg("title", {}, said)),
      code.allocated ? svg("line", { class: "allocated", x1: x(0), x2: x(code.bytes), y1: y(code.allocated), y2: y(code.allocated) }, svg("title", {}, code.held)) : null,
      svg("circle", { class: "peak", cx: x(code.at), cy: y(code.peak), r: 3 }, svg("title", {}, said)),
    ].filter(Boolean);
  }

  function strip(map, marks, chosen, width, code) {
    const lanes = LANES.filter(({ key }) => marks.some((mark) => key.includes(mark.what)));
    const narrow = width < 560;
    const [left, right] = [narrow ? 4 : 104, width - 8];
    const deepest = Math.max(0, ...map.bands.map(([depth]) => depth));
    const high = code ? CURVE : 0;
    const top = 8 + deepest * BAND + high;
    const each = narrow ? LANE + 14 : LANE;
    const bottom = top + lanes.length * each;
    const x = (address) => left + ((right - left) * address) / Math.max(map.bytes, 1);
    const parts = [];
    for (const [depth, from, to] of map.bands) {
      const [begin, wide] = [x(from), Math.max(x(to) - x(from), 2)];
      parts.push(svg("rect", { class: `loop depth${Math.min(depth, 4)}`, x: begin, y: 6 + (depth - 1) * BAND, width: wide, height: bottom - 6 - (depth - 1) * BAND },
        svg("title", {}, `loop depth ${depth}: ${hex(from)} to ${hex(to)}`)));
      if (wide > 52) parts.push(svg("text", { class: "depth", x: begin + 5, y: 6 + depth * BAND - 4 }, `loop depth ${depth}`));
    }
    if (code) {
      parts.push(...curve(code, x, 8 + deepest * BAND));
      parts.push(svg("text", { class: "lane", x: narrow ? left : left - 10, y: top - 16, "text-anchor": narrow ? "start" : "end" }, "live registers"));
    }
    lanes.forEach((lane, row) => {
      const base = top + (row + 1) * each - 5;
      parts.push(svg("line", { class: "lane", x1: left, x2: right, y1: base, y2: base }),
        svg("text", { class: "lane", x: narrow ? left : left - 10, y: narrow ? base - LANE + 5 : base - 6, "text-anchor": narrow ? "start" : "end" }, lane.label));
      for (const mark of marks) {
        if (!lane.key.includes(mark.what)) continue;
        const store = mark.what !== mark.what.toLowerCase();
        const tall = LANE - 11;
        const at = x(mark.at);
        const faded = chosen !== null && mark.line !== chosen;
        // stores hang from above and end in a foot, loads stand on the line: distinct without colour
        parts.push(svg("path", { class: `mark ${lane.kind}${faded ? " faded" : ""}`,
          d: store ? `M${at.toFixed(1)} ${base - tall}v${tall}m-2.5 0h5` : `M${at.toFixed(1)} ${base}v${-tall}m-2.5 0h5` },
          svg("title", {}, describe(map, mark))));
      }
    });
    for (let tick = 0; tick <= 4; tick += 1) {
      const address = Math.round((map.bytes * tick) / 4 / 16) * 16;
      parts.push(svg("line", { class: "tick", x1: x(address), x2: x(address), y1: bottom, y2: bottom + 4 }),
        svg("text", { class: "tick", x: x(address), y: bottom + 17, "text-anchor": tick === 4 ? "end" : tick ? "middle" : "start" }, hex(address)));
    }
    return svg("svg", { class: "strip", viewBox: `0 0 ${width} ${bottom + 22}`, width, height: bottom + 22, role: "img",
      "aria-label": `The kernel's ${number(map.instructions)} instructions from left to right. ${summary(map)}` }, parts);
  }

  function summary(map) {
    return Object.entries(map.totals).map(([kind, [stores, loads, stored, loaded]]) =>
      `${NAMES[kind]}: ${count(stores, "store")} (${number(stored)} B), ${count(loads, "load")} (${number(loaded)} B)`).join("; ");
  }

  function totals(map) {
    return h("div", { class: "scroll" }, h("table", { class: "local-totals" },
      h("thead", {}, h("tr", {}, ["local memory", "stores", "bytes", "loads", "bytes"].map((head, place) => h("th", { scope: "col", class: place ? "num" : null }, head)))),
      h("tbody", {}, Object.entries(map.totals).map(([kind, [stores, loads, stored, loaded]]) => h("tr", {},
        h("th", { scope: "row" }, NAMES[kind]), [stores, stored, loads, loaded].map((figure) => h("td", { class: "num" }, number(figure))))))));
  }

  function depths(map) {
    return h("div", { class: "scroll" }, h("table", { class: "local-totals" },
      h("thead", {}, h("tr", {}, ["loop depth", "spills", "arrays", "frames", "not known"].map((head, place) => h("th", { scope: "col", class: place ? "num" : null }, head)))),
      h("tbody", {}, map.depths.map(([depth, ...counts]) => h("tr", {},
        h("th", { scope: "row" }, depth === null ? "unknown" : depth === 0 ? "outside of loops" : String(depth)),
        counts.map((figure) => h("td", { class: "num" }, number(figure))))))));
  }

  // What the curve says, in words; what ptxas was allowed, and how many values wait in slots.
  function pressure(code) {
    return [`${code.at_least ? "At least " : ""}${number(code.peak)} registers are live at once (at ${hex(code.at)})`,
      code.held ? `; the dashed line: ${code.held}` : "", code.cap ? `; ptxas was allowed ${number(code.cap)}` : "",
      code.demand && code.demand > code.peak ? `; ${number(code.demand)} values are live with those that wait in spill slots` : "", "."].join("");
  }

  // The lines that weigh most and those at which most is live, with their text where the page holds it.
  function sources(code) {
    if (!code.lines.length) return null;
    return h("div", { class: "sources" }, h("h3", {}, "Lines"), code.lines.map(([place, live, share, own, start, text]) =>
      h("figure", {}, h("figcaption", {}, h("code", {}, printable(place)),
        h("span", { class: "quiet" }, ` ${[share ? `${percent(share)} of the spills` : "", live === null ? "" : `${number(live)} live`].filter(Boolean).join(", ")}`)),
      text.length ? h("pre", { tabindex: "0" }, text.map((line, at) => h("span", { class: start + at === own ? "own" : null }, `${String(start + at).padStart(5)}  ${line}\n`))) : null)));
  }

  // Each instruction, made when it is asked for.
  function listing(code) {
    const place = h("div", { class: "scroll listing", tabindex: "0", role: "region", "aria-label": "Machine code" });
    const details = h("details", { ontoggle: () => {
      if (!details.open || place.firstChild) return;
      const { opcodes, places, opcode, live, place: from, more } = code.code;
      place.append(h("table", {}, h("thead", {}, h("tr", {}, ["address", "instruction", "live", "line"].map((head, at) => h("th", { scope: "col", class: at === 2 ? "num" : null }, head)))),
        h("tbody", {}, opcode.map((name, row) => h("tr", { class: /\(spill\)$/.test(opcodes[name]) ? "bad" : null }, h("td", {}, h("code", {}, hex(row * 16))), h("td", {}, h("code", {}, opcodes[name])),
          h("td", { class: "num" }, number(live[row])), h("td", {}, h("code", {}, printable(places[from[row]]))))))));
      if (more) place.append(h("p", { class: "quiet" }, `… ${count(more, "more instruction")}`));
    } }, h("summary", {}, "Machine code: instructions, live registers, lines"), h("p", { class: "quiet small" }, "Operands: ", h("code", {}, "spillscan show NAME FILE --sass"), "."), place);
    return details;
  }

  function draw(map, code = null) {
    const marks = map.marks ? unpack(map) : [];
    const canvas = h("div", { class: "canvas" });
    let chosen = null;
    let width = 0;
    const paint = () => { if (width) canvas.replaceChildren(strip(map, marks, chosen, width, code)); };
    new ResizeObserver(([entry]) => {
      const size = Math.floor(entry.contentRect.width);
      if (size && size !== width) { width = size; paint(); }
    }).observe(canvas);

    const buttons = map.lines.map((place, number_) => {
      const own = marks.filter((mark) => mark.line === number_ && mark.what.toLowerCase() === "s");
      const amount = own.reduce((sum, mark) => sum + mark.count, 0);
      const depth = Math.max(-1, ...own.map((mark) => (mark.depth === "?" ? -1 : Number(mark.depth))));
      return { place, number: number_, amount, depth, share: map.shares[number_] };
    }).filter(({ share }) => share).sort((one, other) => other.share - one.share);
    const pressed = (map.marks ? buttons : []).slice(0, 12).map(({ place, number: line, amount, depth, share }) => {
      const button = h("button", { type: "button", "aria-pressed": "false", onclick: () => {
        chosen = chosen === line ? null : line;
        for (const [other, its] of pressed) other.setAttribute("aria-pressed", String(its === chosen));
        paint();
      } }, h("code", {}, printable(place)), h("span", { class: "quiet" }, ` ${percent(share)}: ${count(amount, "spill")}${depth > 0 ? `, depth ${depth}` : ""}`));
      return [button, line];
    });

    const per = map.marks && map.marks.unit > Math.floor(map.bytes / Math.max(map.instructions, 1));
    return h("div", { class: "spillmap" },
      code ? h("p", {}, pressure(code), code.relief ? ` ${code.relief[0].toUpperCase()}${code.relief.slice(1)}.` : "") : null,
      map.marks ? canvas : h("p", { class: "quiet" }, "The snapshot keeps how many accesses there are, not where they stand: scan the dump or the binary itself for the strip."),
      map.marks ? h("p", { class: "quiet small" },
        `Code from left to right, ${number(map.bytes)} bytes.`,
        map.bands.length ? " Bands reach from the first to the last local access inside of loops; a loop may reach further." : "",
        per ? ` A mark stands for all accesses within ${number(map.marks.unit)} bytes.` : "",
        ` Classes: ${EVIDENCE[map.evidence]}${map.flow === "guessed" ? "; some branch targets are inferred" : ""}.`) : null,
      buttons.length ? h("p", { class: "quiet small" }, "Source lines by weight: spilled bytes, ten times as many for each loop around them.") : null,
      map.marks ? null : h("ol", {}, buttons.slice(0, 12).map(({ place, share }) => h("li", {}, h("code", {}, printable(place)), h("span", { class: "quiet" }, ` ${percent(share)}`)))),
      pressed.length ? h("div", { class: "lines", role: "group", "aria-label": "Show the spills of one source line" }, pressed.map(([button]) => button)) : null,
      code ? sources(code) : null,
      code && code.code ? listing(code) : null,
      h("div", { class: "grid" },
        h("div", {}, h("h3", {}, "By class"), totals(map)),
        h("div", {}, h("h3", {}, "By loop depth"), depths(map))),
      map.sentences.length ? h("details", {}, h("summary", {}, "Spills by depth and source line, worst first"),
        h("ul", {}, map.sentences.map((line) => h("li", {}, printable(line))), map.more_sentences ? h("li", { class: "quiet" }, `… ${number(map.more_sentences)} more`) : null)) : null,
      map.slots.length ? h("details", {}, h("summary", {}, "Slots"), h("div", { class: "scroll" }, h("table", {},
        h("thead", {}, h("tr", {}, ["slot", "class", "stores", "loads", "deepest loop"].map((head, place) => h("th", { scope: "col", class: place > 1 ? "num" : null }, head)))),
        h("tbody", {}, map.slots.map(([name, kind, stores, loads, depth]) => h("tr", {}, h("td", {}, h("code", {}, name)), h("td", {}, kind),
          h("td", { class: "num" }, number(stores)), h("td", { class: "num" }, number(loads)), h("td", { class: "num" }, depth < 0 ? "unknown" : depth)))))),
        map.more_slots ? h("p", { class: "quiet" }, `… ${number(map.more_slots)} more slots`) : null) : null);
  }

  return { draw };
})();
