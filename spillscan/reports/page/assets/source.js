// Source and machine code side by side: two scrolling lists, linked by line, by click and by keys. Without line
// information there is only machine code.
const source = (() => {
  const TINTS = 6, HIGH = 24, SHOWN = 12, LONGEST = 200;
  const KINDS = { S: "spill store", s: "spill reload", A: "array store", a: "array load", F: "frame store", f: "frame load", H: "helper's store", h: "helper's load", U: "local store", u: "local load" };
  const addressOf = (row) => hex(row * 16);
  const keyOf = ([file, line]) => `${file}:${line}`;

  // Source lines with their sums: {file, line, text, share, rows, live, stores, loads, depth}, by key.
  function linesOf({ files, places, place, live, kind, depth }) {
    const lines = new Map(files.flatMap(([, own], file) => own.map(([line, share, text]) => [keyOf([file, line]), { file, line, share, text, rows: [], live: 0, stores: 0, loads: 0, depth: 0 }])));
    place.forEach((at, row) => places[at].forEach((one) => {
      const line = lines.get(keyOf(one));
      line.rows.push(row);
      line.live = Math.max(line.live, live[row]);
      if (kind[row] === "S") line.stores += 1;
      if (kind[row] === "s") line.loads += 1;
      if (/s/i.test(kind[row])) line.depth = Math.max(line.depth, depth[row] || 0);
    }));
    return lines;
  }

  function draw(code, advice = {}) {
    const lines = linesOf(code);
    const { params } = spillscan.route;
    const inner = (row) => (code.places[code.place[row]][0] ? keyOf(code.places[code.place[row]][0]) : null);
    const tints = new Map([...lines].filter(([, { rows }]) => rows.length).map(([key], at) => [key, at % TINTS]));
    const nameOf = (key) => { const { file, line } = lines.get(key); return `${code.files[file][0]}:${line}`; };
    const helps = (key) => (key === null ? [] : advice[nameOf(key)] || []);
    const heaviest = [...lines].filter(([, { rows }]) => rows.length).sort(([, a], [, b]) => b.share - a.share || b.live - a.live).map(([key]) => key)[0] ?? null;
    const worst = (rows) => rows.reduce((best, row) => (rank(row) > rank(best) ? row : best), rows[0] ?? 0);
    const rank = (row) => (/s/i.test(code.kind[row]) ? 1000 * (1 + (code.depth[row] || 0)) : 0) + code.live[row] / 1000;
    const asked = [...lines.keys()].find((key) => lines.get(key).rows.length && nameOf(key) === params.get("line"));
    const at = /^0x[0-9a-f]{4,}$/.test(params.get("at") || "") ? Number(params.get("at")) / 16 : -1;
    let row = at in code.op ? at : worst(lines.get(asked ?? heaviest)?.rows ?? code.op.map((_, i) => i));
    let chosen = at in code.op ? inner(row) : asked ?? heaviest;
    // Files other than the kernel's own are open only if something in them spills.
    const usual = code.files.map((_, file) => !file || [...lines.values()].some((line) => line.file === file && line.stores + line.loads));
    const open = (file) => spillscan.opened(`file ${code.files[file][0]}`, usual[file]);
    const toggle = (file, way) => spillscan.toggle(`file ${code.files[file][0]}`, way, usual[file]);
    const status = h("output", { class: "status" });

    const widest = Math.max(9, ...[...lines.values()].map(({ text }) => Math.min((text || "").length, LONGEST) * .52)); // a character of code is about half a rem
    const columnsOf = (list, titles) => list.map(([key, label, width, num = false]) => ({ key, label, width, num, title: titles[key] }));
    const columns = columnsOf([["line", "line", "minmax(3rem, 3.5rem)", 1], ["share", "share", "3.5rem", 1], ["live", "live", "3.2rem", 1], ["spills", "st/ld", "4.2rem", 1], ["text", "source", `minmax(${widest}rem, 1fr)`]],
      { live: "most live registers at this line", share: "share of the spill cost", spills: "spill stores and reloads" });
    const left = grid({ name: "source", title: "Source lines", high: HIGH, printed: Infinity, columns, empty: "", sorted: () => {}, fold, made: lineRow, open: (item) => (typeof item === "number" ? fold(item) : choose(item, null)) });
    const heads = columnsOf([["address", "address", "4.2rem"], ["depth", "loop", "2.6rem", 1], ["live", "live", "4.6rem", 1], ["code", "instruction", "minmax(10rem, 1fr)"], ["slot", "local memory", "10.5rem"]], { depth: "loop depth", live: "live registers", slot: "local-memory access: kind and slot" });
    const right = grid({ name: "code", title: "Machine code", high: HIGH, printed: Infinity, columns: heads, empty: "", sorted: () => {}, made: codeRow, open: (item) => choose(inner(item), item) });
    const most = code.live.reduce((one, other) => Math.max(one, other), 1);
    const node = h("div", { class: lines.size ? "sidebyside" : "sidebyside alone" }, lines.size ? left.node : null, right.node);
    const machine = code.op.map((_, i) => i);
    requestAnimationFrame(() => { paint(); reveal(); });

    function lineRow(item) {
      if (typeof item === "number") {
        return { kind: "file", level: 1, expanded: open(item), cells: [[""], [""], [""], [""], [h("b", { class: open(item) ? "fold open" : "fold" }, printable(code.files[item][0]))]] };
      }
      const { line, text, share, live, stores, loads, rows } = lines.get(item);
      return { kind: `${rows.length ? `tint-${tints.get(item)}` : "idle"}${item === chosen ? " chosen" : ""}`, level: 2, cells: [[number(line)], [share ? percent(share) : "", "bad"], [rows.length ? number(live) : "", "quiet"], [stores + loads ? `${stores}/${loads}` : "", "bad"],
        [h("code", { title: text }, text === null ? (rows.length ? count(rows.length, "instruction") : "") : printable(text) || " ")]] };
    }

    function codeRow(i) {
      const key = inner(i), kind = code.kind[i], depth = code.depth[i];
      const kin = chosen !== null && code.places[code.place[i]].some((one) => keyOf(one) === chosen);
      return { kind: `${key === null ? "" : `tint-${tints.get(key)}`}${i === row ? " chosen" : kin ? " kin" : ""}`, cells: [[h("code", {}, addressOf(i)), "quiet"], [depth === null ? "?" : depth || "", depth ? `deep deep-${Math.min(depth, 3)}` : "quiet"],
        [[h("span", { class: "meter", "aria-hidden": "true", style: { "--part": `${(100 * code.live[i]) / most}%` } }), number(code.live[i])]], [h("code", {}, code.text[code.op[i]])],
        [kind ? `${KINDS[kind]}${code.slot[i] >= 0 ? ` ${slotOf(code.slot[i])}` : ""}` : "", kind === "S" ? "store" : kind === "s" ? "load" : "quiet"]] };
    }

    // A computed address names no slot.
    function slotOf(slot) { return /^R1\b/.test(code.slots[slot]) ? code.slots[slot] : ""; }

    function fold(file) {
      toggle(file, !open(file));
      paint();
    }

    function paint() {
      if (lines.size) left.show(shown(), "", true, false);
      right.show(machine, "", false, false);
      const line = lines.get(chosen), chain = code.places[code.place[row]] || [];
      status.textContent = [line ? `${printable(nameOf(chosen))}: ${count(line.rows.length, "instruction")}${line.share ? `, ${percent(line.share)} of the spill cost` : ""}${line.stores + line.loads ? `, ${count(line.stores, "spill store")} and ${count(line.loads, "reload")}${line.depth ? ` at loop depth up to ${line.depth}` : ""}` : ""}, at most ${count(line.live, "register")} live` : "",
        `${addressOf(row)}: ${code.text[code.op[row]]}${chain.length > 1 ? `, inlined at ${chain.slice(1).map((one) => printable(nameOf(keyOf(one)))).join(", ")}` : ""}`,
        ...helps(chosen).map(([, text]) => printable(text[0].toUpperCase() + text.slice(1)))].filter(Boolean).join(". ");
    }

    const shown = () => code.files.flatMap((_, file) => [file, ...(open(file) ? [...lines.keys()].filter((key) => lines.get(key).file === file) : [])]);

    // Selects a line and one of its instructions: by default the spill in most loops.
    function choose(key, instruction) {
      if (key !== null && !lines.get(key).rows.length) return;
      chosen = key;
      row = instruction ?? worst(lines.get(key).rows);
      if (key !== null) toggle(lines.get(key).file, true);
      spillscan.remember(instruction === null ? { line: nameOf(key), at: "" } : { line: "", at: addressOf(row) }, { line: "", at: "" });
      paint();
      reveal(instruction === null ? "code" : "source");
      spillscan.say(status.textContent);
    }

    const jump = (i) => choose(inner(i), i);

    function reveal(which = "both") {
      const place = chosen === null ? -1 : shown().indexOf(chosen);
      if (which !== "source") right.reach(row, true);
      if (which !== "code" && place >= 0) left.reach(place, true);
    }

    return { node: h("div", { class: "sourceview" }, node, status, h("p", { class: "quiet small" }, `${count(code.op.length, "instruction")}${lines.size ? "; select a line or an instruction to see its counterpart" : "; no line information: compile with -lineinfo"}.`,
      code.more ? ` ${count(code.more, "more instruction")} not shown.` : ""), slots(code, jump)), jump };
  }

  // Each spilled value: where it is stored and reloaded, and how many registers are live there.
  function slots(code, jump) {
    const found = code.slots.map((name, slot) => ({ name, stores: [], loads: [] }));
    code.kind.forEach((kind, row) => { if (kind === "S") found[code.slot[row]]?.stores.push(row); else if (kind === "s") found[code.slot[row]]?.loads.push(row); });
    const rows = found.filter(({ stores, loads }) => stores.length + loads.length);
    if (!rows.length) return null;
    const links = (some) => [some.slice(0, SHOWN).map((row, at) => [at ? " " : "", h("button", { type: "button", class: "jump-to", onclick: () => jump(row) }, addressOf(row)), h("span", { class: "quiet" }, ` ${number(code.live[row])}${code.depth[row] ? `/${code.depth[row]}` : ""}`)]), some.length > SHOWN ? ` +${number(some.length - SHOWN)}` : ""];
    return fold("slots", "slots", `Slots: ${count(rows.length, "spilled value")}, with store and reload addresses`, () => [
      h("p", { class: "quiet small" }, "Numbers after an address: live registers / loop depth."),
      table({ title: "Slots", kind: "past", rows, columns: [{ label: "slot", cell: ({ name }) => h("code", {}, name) }, { label: "stored", cell: ({ stores }) => links(stores) }, { label: "reloaded", cell: ({ loads }) => links(loads) }] })]);
  }

  return { draw };
})();
