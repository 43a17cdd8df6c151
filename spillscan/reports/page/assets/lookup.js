// Occupancy by look-up: every limit stands in a table that the Python model made (page/lookup.py); what is left
// to do here is to find the place and to take the least. Sentences are those of `spillscan occupancy`.
//
// A setting: {device, threads, registers, fixed, dynamic, optin, carveout, barriers}; `fixed` is static shared memory,
// `optin` null (not opted in), "max" or bytes, `carveout` null (no preference) or percent.
const lookup = (() => {
  const WARP = 32;
  const { number, count } = spillscan;

  function inRuns(runs, place) {
    for (let at = 0; at < runs.length; at += 2) {
      if (place < runs[at + 1]) return runs[at];
      place -= runs[at + 1];
    }
    throw new RangeError(`no place ${place} in a table`);
  }

  const unitsFor = (bytes, unit) => Math.ceil(bytes / unit);
  const warpsOf = (threads) => Math.ceil(threads / WARP);

  function attribute(on, setting) {
    if (setting.optin === null) return null;
    return setting.optin === "max" ? Math.max(on.shared_per_block_optin - setting.fixed, 0) : setting.optin;
  }

  function preferred(on, carveout) {
    const steps = on.carveout_steps;
    return on.carveout === null || carveout === null ? steps[steps.length - 1] : inRuns(on.carveout, carveout);
  }

  const sharedRow = (tables, on, bytes) => tables.shared[on.shared][bytes];

  // [blocks (null: no limit), what the SM is set to, why 0]
  function byShared(tables, on, setting, allocated) {
    const wish = attribute(on, setting);
    const user = setting.fixed + setting.dynamic;
    let perSm = preferred(on, setting.carveout);
    const large = setting.fixed > on.shared_per_block;
    const wide = large || (wish !== null && setting.fixed + on.shared_reserve + wish > on.shared_per_block);
    const tooMuch = allocated > (wide ? on.shared_limit_optin : on.shared_limit);
    if (wish !== null && setting.dynamic > wish) return [0, perSm,
      `${number(setting.dynamic)} B dynamic shared memory: the kernel's attribute allows ${number(wish)} B`];
    if (tooMuch) return [0, perSm, whyShared(on, setting, user)];
    if (allocated === 0) return [null, perSm, ""];
    if (perSm < allocated) perSm = on.carveout_steps.find((step) => step >= allocated);
    const row = sharedRow(tables, on, perSm);
    const units = allocated / on.shared_unit;
    let at = 0;
    while (units > row[at + 1]) at += 2;
    return [row[at], perSm, ""];
  }

  function whyShared(on, setting, user) {
    const [most, plain] = [on.shared_per_block_optin, on.shared_per_block];
    if (user > most) return `${number(user)} B shared memory: a block has at most ${number(most)} B`;
    return `${number(user)} B shared memory: a block has at most ${number(plain)} B unless the kernel opts in ` +
      `(MaxDynamicSharedMemorySize, up to ${number(most - setting.fixed)} B here)`;
  }

  // [blocks, registers a warp, why 0]
  function byRegisters(tables, on, registers, warps) {
    const table = tables.registers[on.registers];
    const step = unitsFor(registers, table.step);
    const perWarp = step * table.step * WARP;
    const found = inRuns(table.rows[table.of_step[step]], warps - 1);
    if (found === null || found > 0) return [found, perWarp, ""];
    const need = number(perWarp * warps);
    const most = number(on.registers_per_block);
    return [0, perWarp, {
      "-1": `${need} registers: a block has at most ${most}`,
      "-2": `${warps} warps of ${number(perWarp)} registers: the ${on.partitions_checked} partitions hold ${table.fit[step]} of them`,
      "-3": `${need} registers: not spread over ${on.partitions_checked} partitions within ${most} a block`,
    }[found]];
  }

  function answer(tables, setting) {
    const on = tables.devices[setting.device];
    const warps = warpsOf(setting.threads);
    const [registers, perWarp, noRegisters] = byRegisters(tables, on, setting.registers, warps);
    const allocated = unitsFor(setting.fixed + setting.dynamic + on.shared_reserve, on.shared_unit) * on.shared_unit;
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

  const label = (tables, name) => tables.limiters.find(([known]) => known === name)[1];

  function result(tables, found) {
    if (found.blocks === 0) return `cannot launch: ${found.reasons.join("; ")}`;
    const binding = found.limiters.map((name) => label(tables, name)).join(", ");
    return `${found.blocks} blocks/SM, ${found.warps} of ${found.on.warps} warps, occupancy ${found.percent}, limited by ${binding}`;
  }

  // ---- one figure moved, all else held ----------------------------------------------------------------------------

  // Dynamic shared memory changes where there is some, else static; an opted-in kernel stays opted in for it.
  function withShared(on, setting, bytes) {
    let fixed = setting.fixed;
    if (setting.dynamic === 0 || bytes < fixed) fixed = Math.min(bytes, fixed > on.shared_per_block ? on.shared_per_block_optin : on.shared_per_block);
    let optin = attribute(on, setting);
    if (optin !== null && bytes - fixed > setting.dynamic) optin = Math.max(optin, on.shared_per_block_optin - fixed);
    return { ...setting, fixed, dynamic: bytes - fixed, optin };
  }

  function moved(tables, setting, resource, figure) {
    const on = tables.devices[setting.device];
    return resource === "shared" ? withShared(on, setting, figure) : { ...setting, [resource]: figure };
  }

  const at = (tables, setting, resource, figure) => answer(tables, moved(tables, setting, resource, figure));

  const current = (setting, resource) => (resource === "shared" ? setting.fixed + setting.dynamic : setting[resource]);

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

  // How far the next step is each way: {more: {after, blocks}, free, fewer: {after, blocks}}
  function headroom(tables, setting, resource) {
    const found = answer(tables, setting);
    const now = current(setting, resource);
    const on = found.on;
    const most = { registers: on.registers_per_thread, shared: on.shared_per_block_optin + 1, barriers: on.barriers_per_block }[resource];
    const blocksAt = (figure) => at(tables, setting, resource, figure).blocks;
    const step = (after) => ({ after, blocks: blocksAt(after) });
    const fewer = last(0, now, (figure) => blocksAt(figure) > found.blocks);
    const more = fewer === null ? null : step(fewer);
    if (found.blocks === 0) return { resource, now, blocks: 0, more, free: 0, fewer: null };
    const free = last(now, Math.max(now, most), (figure) => blocksAt(figure) >= found.blocks) - now;
    return { resource, now, blocks: found.blocks, more, free, fewer: now + free < most ? step(now + free + 1) : null };
  }

  // The register cap of launch bounds; null where ptxas ignores the number of blocks.
  function cap(on, threads, blocks) {
    if (blocks * threads > on.warps * WARP || blocks > on.blocks) return null;
    const warps = warpsOf(threads);
    return Math.min(inRuns(on.cap_by_sm, Math.min(warps * blocks, on.warps) - 1), inRuns(on.cap_by_block, warps - 1));
  }

  // Launch bounds that bring the next block; null where fewer registers bring none.
  function bounds(tables, setting) {
    const found = answer(tables, setting);
    const threads = setting.threads;
    const registers = cap(found.on, threads, found.blocks + 1);
    if (registers === null || registers < 8 || registers >= setting.registers) return null;
    const reached = answer(tables, { ...setting, registers }).blocks;
    if (reached <= found.blocks) return null;
    const same = cap(found.on, threads, reached) === registers; // the same cap may bring several
    return { threads, blocks: same ? reached : found.blocks + 1, registers, shed: setting.registers - registers };
  }

  // The block sizes with the most resident threads, largest first.
  function bestSizes(tables, setting) {
    const on = tables.devices[setting.device];
    let best = { threads: 0, sizes: [], answer: null };
    for (let size = on.threads; size > 0; size -= WARP) {
      const found = answer(tables, { ...setting, threads: size });
      const threads = size * found.blocks;
      if (threads > best.threads) best = { threads, sizes: [size], answer: found };
      else if (threads && threads === best.threads) best.sizes.push(size);
    }
    return best;
  }

  // Dynamic shared memory per block that still leaves so many blocks resident; null: they do not fit at all.
  function freeDynamic(tables, setting, blocks) {
    const on = tables.devices[setting.device];
    if (blocks < 1 || answer(tables, { ...setting, dynamic: 0 }).blocks < blocks) return null;
    const wish = attribute(on, setting);
    const large = setting.fixed > on.shared_per_block;
    const limit = wish === null && !large ? on.shared_limit : on.shared_limit_optin;
    let share = Math.floor(limit / on.shared_unit) * on.shared_unit;
    if (blocks > 1) {
      const row = sharedRow(tables, on, preferred(on, setting.carveout) || on.carveout_steps[0]);
      let units = 0;
      for (let place = 0; place < row.length && row[place] >= blocks; place += 2) units = row[place + 1];
      share = Math.min(units * on.shared_unit, limit);
    }
    const most = wish ?? Math.max((large ? on.shared_per_block_optin : on.shared_per_block) - setting.fixed, 0);
    return Math.min(share - setting.fixed - on.shared_reserve, most);
  }

  // ---- in words ---------------------------------------------------------------------------------------------------

  const NAMES = { registers: "registers", shared: "shared memory", barriers: "barriers" };

  function headroomLine({ resource, now, blocks, more, free, fewer }) {
    const unit = resource === "shared" ? " B" : "";
    const parts = [];
    if (more) {
      const less = resource === "shared" ? ` (${number(now - more.after)} B less)` : "";
      parts.push(`${number(now)} -> ${number(more.after)}${unit}${less}: ${blocks} -> ${count(more.blocks, "block")}`);
    }
    if (free) parts.push(`${number(free)}${unit} more ${free === 1 ? "is" : "are"} free`);
    else if (fewer) parts.push("none free");
    if (fewer) parts.push(`${number(fewer.after)}${unit}: ${fewer.blocks ? count(fewer.blocks, "block") : "cannot launch"}`);
    return parts.length ? `${NAMES[resource]} ${parts.join("; ")}` : null;
  }

  function nextSteps(tables, setting) {
    const found = answer(tables, setting);
    const resources = found.on.barriers === null ? ["registers", "shared"] : ["registers", "shared", "barriers"];
    const lines = resources.map((resource) => headroomLine(headroom(tables, setting, resource)));
    const wanted = bounds(tables, setting);
    if (wanted) lines.push(`__launch_bounds__(${wanted.threads}, ${wanted.blocks}) caps registers at ${wanted.registers} (${wanted.shed} fewer) for ${count(wanted.blocks, "block")}`);
    const best = bestSizes(tables, setting);
    if (best.answer) lines.push(`best block sizes: ${best.sizes.join(", ")} threads (${best.answer.percent})`);
    if (found.blocks) {
      const free = freeDynamic(tables, setting, found.blocks);
      lines.push(`dynamic shared memory per block that ${count(found.blocks, "block")} leave room for: ` +
        (free === null ? "none, they do not fit" : `${number(free)} B`));
    }
    return lines.filter(Boolean);
  }

  return { answer, result, label, moved, at, current, headroom, bounds, bestSizes, nextSteps, attribute, preferred, warpsOf };
})();
