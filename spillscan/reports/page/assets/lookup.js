// Occupancy by look-up: every limit stands in a table that the Python model made (page/lookup.py); what is left
// to do here is to find the place and to take the least. Sentences are those of `spillscan occupancy`.
//
// A setting: {device, threads, registers, static, dynamic, optin, carveout, barriers}; `static` is shared memory,
// `optin` null (not opted in), "max" or bytes, `carveout` null (no preference) or percent.
const lookup = (() => {
  const WARP = 32;

  const ORDER = ["device", "threads", "registers", "static", "dynamic", "optin", "carveout", "barriers"];
  const settingOf = (figures) => Object.fromEntries(ORDER.map((name, place) => [name, figures[place]]));

  function inRuns(runs, place) {
    let at = 0;
    for (; place >= runs[at + 1]; at += 2) place -= runs[at + 1];
    return runs[at];
  }

  const warpsOf = (threads) => Math.ceil(threads / WARP);

  // The kernel's attribute for dynamic shared memory, and what the SM is set to.
  function attribute(on, { optin, static: fixed }) {
    return optin === "max" ? Math.max(on.shared_per_block_optin - fixed, 0) : optin;
  }

  function preferred(on, carveout) {
    return on.carveout === null || carveout === null ? on.carveout_steps.at(-1) : inRuns(on.carveout, carveout);
  }

  // [blocks (null: no limit), what the SM is set to, why 0]
  function byShared(tables, on, setting, allocated) {
    const wish = attribute(on, setting);
    const user = setting.static + setting.dynamic;
    const perSm = preferred(on, setting.carveout);
    const [most, plain] = [on.shared_per_block_optin, on.shared_per_block];
    const wide = setting.static > plain || (wish !== null && setting.static + on.shared_reserve + wish > plain);
    if (wish !== null && setting.dynamic > wish) return [0, perSm, `${number(setting.dynamic)} B dynamic shared memory: the kernel's attribute allows ${number(wish)} B`];
    if (allocated > (wide ? on.shared_limit_optin : on.shared_limit)) return [0, perSm, `${number(user)} B shared memory: a block has at most ${user > most ? `${number(most)} B`
      : `${number(plain)} B unless the kernel opts in (MaxDynamicSharedMemorySize, up to ${number(most - setting.static)} B here)`}`];
    if (allocated === 0) return [null, perSm, ""];
    const set = perSm < allocated ? on.carveout_steps.find((step) => step >= allocated) : perSm;
    const row = tables.shared[on.shared][set];
    let at = 0;
    while (allocated / on.shared_unit > row[at + 1]) at += 2;
    return [row[at], set, ""];
  }

  // [blocks, registers a warp, why 0]
  function byRegisters(tables, on, registers, warps, threads) {
    const table = tables.registers[on.registers];
    const step = Math.ceil(registers / table.step);
    const perWarp = step * table.step * WARP;
    const found = inRuns(table.rows[table.of_step[step]], warps - 1);
    if (found === null || found > 0) return [found, perWarp, ""];
    const need = number(perWarp * warps);
    const most = number(on.registers_per_block);
    const taken = perWarp === WARP * registers ? "" : ` (${perWarp / WARP} allocated)`;
    const whole = threads === WARP * warps ? "" : ` (${warps} whole warps)`;
    return [0, perWarp, {
      "-1": `${registers} registers${taken} × ${number(WARP * warps)} threads${whole} = ${need} > ${most}`,
      "-2": `${warps} warps of ${number(perWarp)} registers: the ${on.partitions_checked} partitions hold ${table.fit[step]} of them`,
      "-3": `${need} registers: not spread over ${on.partitions_checked} partitions within ${most} a block`,
    }[found]];
  }

  function answer(tables, setting) {
    const on = tables.devices[setting.device];
    const warps = warpsOf(setting.threads);
    const [registers, perWarp, noRegisters] = byRegisters(tables, on, setting.registers, warps, setting.threads);
    const allocated = Math.ceil((setting.static + setting.dynamic + on.shared_reserve) / on.shared_unit) * on.shared_unit;
    const [shared, perSm, noShared] = byShared(tables, on, setting, allocated);
    const limits = {
      warps: inRuns(tables.warps[on.warps], warps - 1),
      registers,
      shared_memory: shared,
      blocks: on.blocks,
      barriers: on.barriers === null ? null : on.barriers[setting.barriers],
      virtual_resources: null,
    };
    const known = Object.values(limits).filter((limit) => limit !== null);
    const blocks = Math.min(...known);
    return {
      on, setting, limits, blocks, warpsPerBlock: warps,
      warps: blocks * warps,
      fraction: (blocks * warps) / on.warps,
      limiters: tables.limiters.filter(([name]) => limits[name] === blocks).map(([name]) => name),
      reasons: [noRegisters, noShared].filter((why) => why && blocks === 0),
      registersPerBlock: perWarp * warps,
      sharedPerBlock: allocated,
      sharedPerSm: perSm,
      percent: tables.percent[on.warps][blocks * warps],
    };
  }

  function result(tables, { blocks, reasons, limiters, warps, on, percent }) {
    if (blocks === 0) return `cannot launch: ${reasons.join("; ")}`;
    const binding = tables.limiters.filter(([name]) => limiters.includes(name)).map(([, label]) => label).join(", ");
    return `${count(blocks, "block")}/SM, ${warps} of ${on.warps} warps, occupancy ${percent}, limited by ${binding}`;
  }

  // Dynamic shared memory changes where there is some, else static; an opted-in kernel stays opted in for it.
  function moved(tables, setting, resource, figure) {
    if (resource !== "shared") return { ...setting, [resource]: figure };
    const on = tables.devices[setting.device];
    let { static: fixed } = setting, optin = attribute(on, setting);
    if (setting.dynamic === 0 || figure < fixed) fixed = Math.min(figure, fixed > on.shared_per_block ? on.shared_per_block_optin : on.shared_per_block);
    if (optin !== null && figure - fixed > setting.dynamic) optin = Math.max(optin, on.shared_per_block_optin - fixed);
    return { ...setting, static: fixed, dynamic: figure - fixed, optin };
  }

  const at = (tables, setting, resource, figure) => answer(tables, moved(tables, setting, resource, figure));
  const current = (setting, resource) => (resource === "shared" ? setting.static + setting.dynamic : setting[resource]);

  // The largest of low..high for which it holds, where it holds up to some point and not after; else null.
  function last(low, high, holds) {
    if (!holds(low)) return null;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (holds(middle)) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  const NAMES = { registers: "registers", shared: "shared memory", barriers: "barriers" };

  // How far the next step of a resource is each way.
  function headroom(tables, setting, found, resource) {
    const { on, blocks } = found;
    const now = current(setting, resource), unit = resource === "shared" ? " B" : "";
    const most = { registers: on.registers_per_thread, shared: on.shared_per_block_optin + 1, barriers: on.barriers_per_block }[resource];
    const blocksAt = (figure) => at(tables, setting, resource, figure).blocks;
    const parts = [];
    const less = last(0, now, (figure) => blocksAt(figure) > blocks);
    if (less !== null) parts.push(`${number(now)} -> ${number(less)}${unit}${resource === "shared" ? ` (${number(now - less)} B less)` : ""}: ${blocks} -> ${count(blocksAt(less), "block")}`);
    if (blocks) {
      const end = last(now, Math.max(now, most), (figure) => blocksAt(figure) >= blocks), free = end - now;
      if (free) parts.push(`${number(free)}${unit} more ${free === 1 ? "is" : "are"} free`);
      else if (end < most) parts.push("none free");
      if (end < most) parts.push(`${number(end + 1)}${unit}: ${blocksAt(end + 1) ? count(blocksAt(end + 1), "block") : "cannot launch"}`);
    }
    return parts.length ? `${NAMES[resource]} ${parts.join("; ")}` : null;
  }

  // The register cap of launch bounds; null where ptxas ignores the number of blocks.
  function cap(on, threads, blocks) {
    if (blocks * threads > on.warps * WARP || blocks > on.blocks) return null;
    const warps = warpsOf(threads);
    return Math.min(inRuns(on.cap_by_sm, Math.min(warps * blocks, on.warps) - 1), inRuns(on.cap_by_block, warps - 1));
  }

  // Launch bounds that bring the next block; null where fewer registers bring none.
  function bounds(tables, setting, { on, blocks }) {
    const { threads } = setting;
    const registers = cap(on, threads, blocks + 1);
    if (registers === null || registers < 8 || registers >= setting.registers) return null;
    const reached = answer(tables, { ...setting, registers }).blocks;
    if (reached <= blocks) return null;
    const brought = cap(on, threads, reached) === registers ? reached : blocks + 1; // the same cap may bring several
    return `__launch_bounds__(${threads}, ${brought}) caps registers at ${registers} (${setting.registers - registers} fewer) for ${count(brought, "block")}`;
  }

  // The block sizes with the most resident threads, largest first.
  function bestSizes(tables, setting) {
    const sizes = Array.from({ length: tables.devices[setting.device].threads / WARP }, (_, place) => WARP * (place + 1)).reverse();
    const found = sizes.map((size) => ({ size, ...answer(tables, { ...setting, threads: size }) })).map((each) => ({ ...each, threads: each.size * each.blocks }));
    const most = Math.max(...found.map(({ threads }) => threads));
    const best = found.filter(({ threads }) => threads === most);
    return most ? `best block sizes: ${best.map(({ size }) => size).join(", ")} threads (${best[0].percent})` : null;
  }

  // Dynamic shared memory per block that still leaves so many blocks resident; null: they do not fit at all.
  function freeDynamic(tables, setting, { on, blocks }) {
    if (answer(tables, { ...setting, dynamic: 0 }).blocks < blocks) return null;
    const wish = attribute(on, setting);
    const large = setting.static > on.shared_per_block;
    const limit = wish === null && !large ? on.shared_limit : on.shared_limit_optin;
    let share = Math.floor(limit / on.shared_unit) * on.shared_unit;
    if (blocks > 1) {
      const row = tables.shared[on.shared][preferred(on, setting.carveout) || on.carveout_steps[0]];
      let units = 0;
      for (let place = 0; place < row.length && row[place] >= blocks; place += 2) units = row[place + 1];
      share = Math.min(units * on.shared_unit, limit);
    }
    return Math.min(share - setting.static - on.shared_reserve, wish ?? Math.max((large ? on.shared_per_block_optin : on.shared_per_block) - setting.static, 0));
  }

  function nextSteps(tables, setting) {
    const found = answer(tables, setting), { blocks, on } = found;
    const free = blocks ? freeDynamic(tables, setting, found) : null;
    return [...Object.keys(NAMES).filter((resource) => resource !== "barriers" || on.barriers !== null).map((resource) => headroom(tables, setting, found, resource)),
      bounds(tables, setting, found), bestSizes(tables, setting),
      blocks ? `dynamic shared memory per block that ${count(blocks, "block")} ${blocks === 1 ? "leaves" : "leave"} room for: ${free === null ? "none, they do not fit" : `${number(free)} B`}` : null].filter(Boolean);
  }

  return { settingOf, answer, result, moved, at, current, nextSteps, warpsOf };
})();
