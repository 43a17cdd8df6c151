// One SM as a budget: a bar for each resource, divided into what the resident blocks take, with what is left over; in a
// comparison of builds a thin bar below it for what they took before.
const budget = (() => {
  const { h, number, count } = spillscan;

  function rows(found) {
    const { on, setting, blocks } = found;
    const reserve = on.shared_reserve;
    const user = setting.fixed + setting.dynamic;
    const exact = setting.registers * 32 * found.warpsPerBlock;
    const list = [
      { key: "registers", hue: "registers", label: "Registers", unit: "", whole: on.registers_per_sm, each: found.registersPerBlock,
        parts: [[exact, "used"], [found.registersPerBlock - exact, "rounding"]] },
      { key: "shared_memory", hue: "shared", label: "Shared memory", unit: " B", whole: found.sharedPerSm, each: found.sharedPerBlock,
        parts: [[user, "used"], [reserve, "reserve"], [found.sharedPerBlock - user - reserve, "rounding"]] },
      { key: "warps", hue: "warps", label: "Warp slots", unit: "", whole: on.warps, each: found.warpsPerBlock, parts: [] },
      { key: "blocks", hue: "blocks", label: "Block slots", unit: "", whole: on.blocks, each: 1, parts: [] },
    ];
    if (on.barriers !== null) list.push({ key: "barriers", hue: "barriers", label: "Named barriers", unit: "", whole: on.barriers_per_sm,
      each: setting.barriers, parts: [] });
    for (const row of list) {
      row.limit = found.limits[row.key];
      row.binds = found.limiters.includes(row.key);
      row.left = row.whole - blocks * row.each;
    }
    return list;
  }

  // How a block comes to what it takes, where that is more than it asked for.
  function why(row, found) {
    const { on } = found;
    if (row.key === "registers") return ` · ${count(found.warpsPerBlock, "warp")} of ${number(row.each / found.warpsPerBlock)} a block`;
    if (row.key === "shared_memory" && on.shared_reserve) return ` · ${number(on.shared_reserve)} B of each block the driver's`;
    return "";
  }

  // What is left over, in words.
  function rest(row, found) {
    const what = (figure) => `${number(figure)}${row.unit}`;
    if (row.each === 0) return "none used";
    if (found.blocks === 0) return `a block takes ${what(row.each)}` + (row.limit === 0 ? ": more than one block can be given" : "");
    if (row.left === 0) return "all in use";
    const left = `${what(row.left)} left over`;
    if (!row.binds) return row.limit === null ? `${left}; no limit` : `${left}, enough for ${count(row.limit - found.blocks, "more block")}`;
    if (row.left < row.each) return `${left}, ${what(row.each - row.left)} too few for another block`;
    const { on } = found;
    return `${left}, but no partition of ${on.partitions} has them for the ${count(found.warpsPerBlock, "warp")} of another block`;
  }

  function bar(row, found) {
    const share = (figure) => `${(100 * Math.min(figure, row.whole)) / row.whole}%`;
    const pieces = [];
    for (let block = 0; block < found.blocks && row.each; block += 1) {
      const piece = h("div", { class: "piece", style: { left: share(block * row.each), width: share(row.each) } });
      const wide = row.each / row.whole >= 0.04;
      let from = 0;
      for (const [size, kind] of row.parts) {
        if (kind !== "used" && size) piece.append(h("i", { class: kind, style: { left: `${(100 * from) / row.each}%`, width: `${(100 * size) / row.each}%` } }));
        from += size;
      }
      if (wide) piece.append(h("span", {}, String(block + 1)));
      pieces.push(piece);
    }
    if (found.blocks === 0 && row.each) pieces.push(h("div", { class: row.limit === 0 ? "piece refused" : "piece", style: { left: "0%", width: share(row.each) } }));
    else if (row.binds && row.each && row.left > 0) pieces.push(h("div", { class: "next", style: { left: share(row.whole - row.left), width: share(row.left) } }));
    return h("div", { class: "budget-bar", "aria-hidden": "true" }, pieces);
  }

  // What the blocks took in the older build, as outlines on the same scale.
  function earlier(row, old) {
    const share = (figure) => `${(100 * Math.min(figure, row.whole)) / row.whole}%`;
    const blocks = old.each ? Array.from({ length: old.blocks }, (_, block) => block) : [];
    return [h("div", { class: "budget-before", "aria-hidden": "true" },
      blocks.map((block) => h("div", { class: "was", style: { left: share(block * old.each), width: share(old.each) } }))),
    h("span", { class: "allows-before quiet" }, `before ${number(old.each)}${row.unit} × ${number(old.blocks)}`)];
  }

  // past: the answer of the older build, or null. Both are of one device, else they are not drawn on one scale.
  function draw(found, past) {
    const old = past && past.on === found.on ? rows(past).map((row) => ({ ...row, blocks: past.blocks })) : null;
    return rows(found).map((row, place) => {
      const limit = row.limit === null ? "no limit" : `${count(row.limit, "block")}`;
      return h("li", { class: `share ${row.hue}${row.binds ? " binds" : ""}` },
        h("div", { class: "name" }, h("b", {}, row.label), h("span", { class: "quiet" }, `${number(row.each)}${row.unit} a block`)),
        bar(row, found),
        old ? earlier(row, old[place]) : null,
        h("div", { class: "allows" }, h("b", {}, limit), row.binds ? h("span", { class: "badge" }, "binds") : null),
        h("p", { class: "rest" }, rest(row, found), h("span", { class: "quiet" }, ` · ${number(row.whole)}${row.unit} in all${why(row, found)}`)));
    });
  }

  return { draw };
})();
