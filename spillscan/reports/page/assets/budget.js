// One SM as a budget: a bar for each resource, divided into what the resident blocks take, with what is left over; in a
// comparison of builds a thin bar below it for what they took before.
const budget = (() => {

  // Of each resource what the SM has, what a block takes, of which `parts` are no use of its own, and what is left.
  function rows({ on, setting, blocks, warpsPerBlock, registersPerBlock, sharedPerBlock, sharedPerSm, limits, limiters }) {
    const exact = setting.registers * 32 * warpsPerBlock, user = setting.static + setting.dynamic, reserve = on.shared_reserve;
    return [
      { key: "registers", hue: "registers", label: "Registers", unit: "", whole: on.registers_per_sm, each: registersPerBlock, parts: [["rounding", exact, registersPerBlock - exact]],
        why: ` · ${count(warpsPerBlock, "warp")} of ${number(registersPerBlock / warpsPerBlock)} a block` },
      { key: "shared_memory", hue: "shared", label: "Shared memory", unit: " B", whole: sharedPerSm, each: sharedPerBlock,
        parts: [["reserve", user, reserve], ["rounding", user + reserve, sharedPerBlock - user - reserve]], why: reserve ? ` · ${number(reserve)} B of each block the driver's` : "" },
      { key: "warps", hue: "warps", label: "Warp slots", unit: "", whole: on.warps, each: warpsPerBlock },
      { key: "blocks", hue: "blocks", label: "Block slots", unit: "", whole: on.blocks, each: 1 },
      ...(on.barriers === null ? [] : [{ key: "barriers", hue: "barriers", label: "Named barriers", unit: "", whole: on.barriers_per_sm, each: setting.barriers }]),
    ].map((row) => ({ parts: [], why: "", ...row, blocks, limit: limits[row.key], binds: limiters.includes(row.key), left: row.whole - blocks * row.each }));
  }

  // What is left over, in words.
  function rest({ each, left, whole, unit, limit, binds, blocks }, { on, warpsPerBlock }) {
    const what = (figure) => `${number(figure)}${unit}`;
    if (each === 0) return "none used";
    if (blocks === 0) return `a block takes ${what(each)}${limit === 0 ? ": more than one block can be given" : ""}`;
    if (left === 0) return "all in use";
    if (!binds) return `${what(left)} left over${limit === null ? "; no limit" : `, enough for ${count(limit - blocks, "more block")}`}`;
    return left < each ? `${what(left)} left over, ${what(each - left)} too few for another block`
      : `${what(left)} left over, but no partition of ${on.partitions} has them for the ${count(warpsPerBlock, "warp")} of another block`;
  }

  // A piece a block, each `of` its place, as shares of the bar.
  const share = (figure, whole) => `${(100 * Math.min(figure, whole)) / whole}%`;
  const pieces = ({ blocks, each, whole }, kind, inside) => (each ? Array.from({ length: blocks }, (_, block) =>
    h("div", { class: kind, style: { left: share(block * each, whole), width: share(each, whole) } }, inside && inside(block))) : []);

  function bar(row) {
    const { blocks, each, whole, parts, left, limit, binds } = row;
    const inside = (block) => [parts.map(([kind, from, size]) => (size ? h("i", { class: kind, style: { left: share(from, each), width: share(size, each) } }) : null)),
      each / whole >= 0.04 ? h("span", {}, String(block + 1)) : null];
    return h("div", { class: "budget-bar", "aria-hidden": "true" }, pieces(row, "piece", inside),
      blocks === 0 ? pieces({ ...row, blocks: 1 }, limit === 0 ? "piece refused" : "piece")
        : binds && each && left > 0 ? h("div", { class: "next", style: { left: share(whole - left, whole), width: share(left, whole) } }) : null);
  }

  // past: the answer of the older build, or null. Both are of one device, else they are not drawn on one scale.
  function draw(found, past) {
    const old = past && past.on === found.on ? rows(past) : [];
    return rows(found).map((row, at) => {
      const { hue, label, unit, each, whole, limit, binds, why } = row;
      const before = old[at];
      return h("li", { class: `share ${hue}${binds ? " binds" : ""}` },
        h("div", { class: "name" }, h("b", {}, label), h("span", { class: "quiet" }, `${number(each)}${unit} a block`)), bar(row),
        before ? [h("div", { class: "budget-before", "aria-hidden": "true" }, pieces({ ...before, whole }, "was")), h("span", { class: "allows-before quiet" }, `before ${number(before.each)}${unit} × ${number(before.blocks)}`)] : null,
        h("div", { class: "allows" }, h("b", {}, limit === null ? "no limit" : count(limit, "block")), binds ? h("span", { class: "badge" }, "binds") : null),
        h("p", { class: "rest" }, rest(row, found), h("span", { class: "quiet" }, ` · ${number(whole)}${unit} in all${why}`)));
    });
  }

  return { draw };
})();
