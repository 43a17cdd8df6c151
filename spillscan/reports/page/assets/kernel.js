// The what-if calculator, alone (`spillscan occupancy --html`) and as the picture of one kernel.
const calculator = (() => {
  const { h, number, count, remember } = spillscan;
  const NUMBERS = ["threads", "registers", "static", "dynamic", "barriers"];
  const SETTLE_MS = 150;
  let serial = 0;

  const ORDER = ["device", "threads", "registers", "fixed", "dynamic", "optin", "carveout", "barriers"];
  const settingOf = (figures) => Object.fromEntries(ORDER.map((name, place) => [name, figures[place]]));

  // ---- settings in the address ------------------------------------------------------------------------------------

  const FIELD = { static: "fixed" };
  const field = (name) => FIELD[name] || name;
  const LIMITS = { threads: [1, 1024], registers: [0, 255], static: [0, 1 << 20], dynamic: [0, 1 << 20], barriers: [0, 16] };

  function whole(text, [least, most]) {
    return /^\d{1,9}$/.test(text || "") && Number(text) >= least && Number(text) <= most ? Number(text) : null;
  }

  function read(tables, start, params) {
    const setting = { ...start };
    if (params.has("device") && Object.hasOwn(tables.devices, params.get("device"))) setting.device = params.get("device");
    for (const name of NUMBERS) setting[field(name)] = whole(params.get(name), LIMITS[name]) ?? setting[field(name)];
    const optin = params.get("optin");
    if (optin === "no") setting.optin = null;
    else if (optin === "max") setting.optin = "max";
    else setting.optin = whole(optin, [0, 1 << 20]) ?? setting.optin;
    const carveout = params.get("carveout");
    setting.carveout = carveout === "no" ? null : whole(carveout, [0, 100]) ?? setting.carveout;
    return setting;
  }

  function write(setting, start) {
    const params = {};
    if (setting.device !== start.device) params.device = setting.device;
    for (const name of NUMBERS) if (setting[field(name)] !== start[field(name)]) params[name] = setting[field(name)];
    for (const name of ["optin", "carveout"]) if (setting[name] !== start[name]) params[name] = setting[name] ?? "no";
    return params;
  }

  // ---- controls ---------------------------------------------------------------------------------------------------

  // A slider for the usual figures and a box for any; both are the same setting.
  function amount(name, label, { unit, says, range }, change) {
    const id = `set-${name}-${(serial += 1)}`;
    const slider = h("input", { type: "range", id: `${id}-slider`, min: 0, "aria-labelledby": `${id}-label`, oninput: () => change(Number(slider.value) * size()) });
    const box = h("input", { type: "number", id, inputmode: "numeric", step: 1, min: LIMITS[name][0], max: LIMITS[name][1], "aria-describedby": `${id}-hint`, oninput: () => {
      const figure = whole(box.value, LIMITS[name]);
      box.setAttribute("aria-invalid", String(figure === null));
      if (figure !== null) change(figure);
    } });
    const hint = h("span", { class: "hint quiet", id: `${id}-hint` });
    let step = 1;
    const size = () => step;
    const node = h("div", { class: `control ${name}` },
      h("label", { for: id, id: `${id}-label` }, label, unit ? h("span", { class: "quiet" }, `, ${unit}`) : null), box, slider, hint);
    const show = (tables, setting) => {
      const on = tables.devices[setting.device];
      const figure = setting[field(name)];
      const [least, most, by] = range(on, setting);
      step = by;
      slider.min = Math.ceil(least / by);
      slider.max = Math.max(Math.floor(most / by), 0);
      slider.value = Math.ceil(figure / by);
      const text = says(on, setting, figure);
      slider.setAttribute("aria-valuetext", `${number(figure)} ${unit || label.toLowerCase()}${text ? `, ${text}` : ""}`);
      hint.textContent = text;
      if (document.activeElement !== box || whole(box.value, LIMITS[name]) !== figure) { box.value = figure; box.removeAttribute("aria-invalid"); }
    };
    return { node, show };
  }

  function choice(name, label, options, change) {
    const id = `set-${name}-${(serial += 1)}`;
    const select = h("select", { id, onchange: () => change(select.value) });
    const node = h("div", { class: `control ${name}` }, h("label", { for: id }, label), select);
    let shown = "";
    const show = (tables, setting) => {
      const { groups, value } = options(tables, setting);
      node.hidden = groups.length === 0;
      const text = JSON.stringify(groups);
      if (text !== shown) {
        shown = text;
        select.replaceChildren(...groups.map(([head, list]) => {
          const items = list.map(([key, words]) => h("option", { value: key }, words));
          return head ? h("optgroup", { label: head }, items) : items;
        }).flat());
      }
      select.value = value;
    };
    return { node, show };
  }

  function deviceOptions(tables, setting) {
    const families = new Map();
    for (const [target, on] of Object.entries(tables.devices)) {
      const family = on.name.split(" ")[0];
      if (!families.has(family)) families.set(family, []);
      const gpus = on.gpus.slice(0, 3).join(", ") || on.name;
      families.get(family).push([target, `${target} · ${gpus}`]);
    }
    return { groups: [...families].reverse(), value: setting.device };
  }

  function optinOptions(tables, setting) {
    const on = tables.devices[setting.device];
    if (on.shared_per_block_optin <= on.shared_per_block) return { groups: [], value: "no" };
    const list = [["no", `${on.shared_per_block / 1024} KB a block, not opted in`],
      ["max", `opted in, up to ${on.shared_per_block_optin / 1024} KB a block`]];
    const own = setting.optin !== null && setting.optin !== "max";
    if (own) list.push([String(setting.optin), `opted in, up to ${number(setting.optin)} B dynamic`]);
    return { groups: [["", list]], value: setting.optin === null ? "no" : String(setting.optin) };
  }

  function carveoutOptions(tables, setting) {
    const on = tables.devices[setting.device];
    if (on.carveout === null) return { groups: [], value: "no" };
    const list = [["no", `no preference: ${on.carveout_steps[on.carveout_steps.length - 1] / 1024} KB`]];
    let first = 0;
    let value = "no";
    for (let at = 0; at < on.carveout.length; at += 2) {
      const end = first + on.carveout[at + 1];
      const inside = setting.carveout !== null && setting.carveout >= first && setting.carveout < end;
      const share = inside ? setting.carveout : first;
      list.push([String(share), `${share} %: ${on.carveout[at] / 1024} KB`]);
      if (inside) value = String(share);
      first = end;
    }
    return { groups: [["", list]], value };
  }

  const SLIDERS = {
    threads: ["Block size", { unit: "threads", range: (on) => [32, on.threads, 32],
      says: (on, setting, figure) => count(lookup.warpsOf(figure), "warp") }],
    registers: ["Registers", { unit: "a thread", range: () => [1, 255, 1],
      says: (on, setting, figure) => {
        const taken = Math.ceil(figure / 8) * 8;
        if (figure > on.registers_per_thread) return `${setting.device} addresses ${on.registers_per_thread}`;
        return taken === figure ? "" : `${taken} allocated`;
      } }],
    static: ["Static shared", { unit: "bytes", range: (on) => [0, on.shared_per_block, on.shared_unit], says: (on, setting, figure) => kilo(figure) }],
    dynamic: ["Dynamic shared", { unit: "bytes", range: (on, setting) => [0, setting.optin === null ? on.shared_per_block : on.shared_per_block_optin, on.shared_unit],
      says: (on, setting, figure) => kilo(figure) }],
    barriers: ["Named barriers", { unit: "", range: (on) => [0, on.barriers_per_block, 1],
      says: (on) => (on.barriers === null ? "no limit here" : "") }],
  };

  function kilo(bytes) { return bytes ? `${Math.round((bytes / 1024) * 100) / 100} KB` : ""; }

  // ---- the whole --------------------------------------------------------------------------------------------------

  // start: the setting at first; built: the kernel's own, which curves mark, or null; bound: it is not known how it is
  // launched, so that the start is only a bound.
  // before: what it was in the older build.
  function draw(tables, start, { built = null, bound = false, before = null }) {
    let setting = read(tables, start, spillscan.route.params);
    // Browsers refuse addresses that change as fast as a slider.
    let timer = 0;
    const settle = () => {
      clearTimeout(timer);
      timer = setTimeout(() => { if (node.isConnected) remember(write(setting, start)); }, SETTLE_MS);
    };
    const change = (figures) => {
      setting = { ...setting, ...figures };
      settle();
      paint();
    };
    const controls = [
      choice("device", "Device", deviceOptions, (device) => change({ device })),
      ...NUMBERS.map((name) => amount(name, ...SLIDERS[name], (figure) => change({ [field(name)]: figure }))),
      choice("optin", "Shared memory limit", optinOptions, (value) => change({ optin: value === "no" ? null : value === "max" ? "max" : Number(value) })),
      choice("carveout", "Carve-out", carveoutOptions, (value) => change({ carveout: value === "no" ? null : Number(value) })),
    ];
    const reset = h("button", { type: "button", onclick: () => change(start) }, built && !bound ? "As built" : "Start again");
    const figures = h("div", { class: "answer", "aria-hidden": "true" });
    const line = h("p", { class: "result-line", role: "status", "aria-live": "polite" });
    const shares = h("ul", { class: "budget" });
    const steps = h("ul", { class: "steps" });
    const pick = (name, figure) => change(name === "shared" ? lookup.moved(tables, setting, "shared", figure) : { [name]: figure });
    const graphs = curves.NAMES.map((name) => curves.figure(name, pick));
    const past = before && lookup.answer(tables, before);
    const was = past ? h("p", { class: "quiet" }, `before: ${lookup.result(tables, past)}`) : null;

    function paint() {
      const found = lookup.answer(tables, setting);
      const own = JSON.stringify(setting) === JSON.stringify(start);
      const mark = bound && own ? "≤ " : "";
      for (const control of controls) control.show(tables, setting);
      reset.disabled = own;
      line.textContent = (mark ? "at the best block size: " : "") + lookup.result(tables, found);
      const fits = found.blocks > 0;
      figures.replaceChildren(
        big(mark + (fits ? found.percent : "0 %"), "occupancy", fits),
        big(number(found.blocks), found.blocks === 1 ? "block an SM" : "blocks an SM", fits),
        big(mark + number(found.warps), `of ${found.on.warps} warps`, fits));
      shares.replaceChildren(...budget.draw(found, past));
      shares.setAttribute("aria-label", `What one SM of ${found.on.title} has, and what each block takes`);
      steps.replaceChildren(...lookup.nextSteps(tables, setting).map((text) => h("li", {}, text)));
      for (const graph of graphs) graph.draw(tables, setting, { built, before });
    }

    const big = (figure, words, fits) => h("div", { class: fits ? "figure" : "figure bad" }, h("b", {}, figure), h("span", {}, words));
    const node = h("div", { class: "calculator" },
      h("form", { class: "card whatif", "aria-label": "What if", onsubmit: (event) => event.preventDefault() },
        h("div", { class: "head" }, h("h2", {}, "What if"), reset), controls.map((control) => control.node)),
      h("div", { class: "reading" }, figures, line, was),
      h("div", { class: "outcome" }, shares, h("h2", {}, "Next steps"), steps),
      h("section", { class: "graphs", "aria-label": "Occupancy curves" }, graphs.map((graph) => graph.node), before ? curves.key() : null));
    paint();
    return node;
  }

  return { draw, settingOf };
})();

// Makes a function that draws the kernel of a number on the occupancy curves, before and after; null where the older build
// has nothing else to show.
const comparison = (() => {
  const { h, printable, view } = spillscan;

  view("calculator", (payload, id, container) => {
    container.append(h("h1", {}, "Occupancy of one SM"),
      calculator.draw(payload.devices, calculator.settingOf(payload.start), {}),
      h("section", { class: "about" }, h("h2", {}, "What this shows"), payload.about.map((line) => h("p", {}, line))));
  });

  function words({ advice, verdict }) {
    if (!verdict) return null;
    return h("section", { class: "advice" }, h("h2", {}, "What binds, as built"),
      h("div", { class: "entries" }, (advice || []).map(([limit, finding, remedy, price]) => h("div", { class: "entry" },
        h("h3", {}, limit), h("p", {}, finding),
        remedy ? h("p", {}, h("b", {}, "To reduce: "), remedy) : null,
        price ? h("p", {}, h("b", {}, "Trade-off: "), price) : null))),
      h("p", { class: "quiet" }, verdict));
  }

  const UNKNOWN_LAUNCH = "The input does not say how this kernel is launched. The sliders stand at the block size that fills an SM best, " +
    "without dynamic shared memory: what it reaches is at most this. Set them to your launch.";

  const NO_ROOM = "This page holds the spill maps of the worst kernels only; `spillscan show` prints any.";

  const pastOf = (payload, index) => {
    const number = payload.before && payload.before[index];
    return number === undefined || number === null ? null : calculator.settingOf(payload.subjects[number].setting);
  };

  function residency(payload, subject, past, container) {
    if (!subject.setting) {
      container.append(h("section", { class: "unknown" }, h("h2", {}, "Occupancy unknown"), h("p", {}, `There is nothing to draw: ${printable(subject.unknown)}.`)));
      return;
    }
    const setting = calculator.settingOf(subject.setting);
    container.append(h("section", { class: "residency" }, h("h2", {}, `One SM of ${payload.devices.devices[setting.device].title}`),
      subject.assumed ? h("p", { class: "notice" }, UNKNOWN_LAUNCH) : null,
      (subject.notes || []).map((note) => h("p", { class: "quiet" }, printable(note))),
      calculator.draw(payload.devices, setting, { built: setting, bound: Boolean(subject.assumed || subject.at_most), before: past })));
    const said = words(subject);
    if (said) container.append(said);
  }

  function compared(payload, index) {
    const number = payload.details ? payload.details[index][0] : -1;
    const before = pastOf(payload, index);
    const subject = number >= 0 ? payload.subjects[number] : null;
    if (!before || !subject || !subject.setting) return null;
    const setting = calculator.settingOf(subject.setting);
    return () => h("div", { class: "graphs" }, curves.NAMES.map((name) => {
      const figure = curves.figure(name, null);
      figure.draw(payload.devices, setting, { built: setting, before });
      return figure.node;
    }), curves.key());
  }

  function local(payload, index, map, container) {
    const code = (payload.code && payload.code[index]) || null;
    container.append(h("section", { class: "local" }, h("h2", {}, "Local memory in its code"), map ? spillmap.draw(map, code) : h("p", { class: "quiet" }, NO_ROOM)));
  }

  // payload.details[index]: the number of its subject (-1: never launched), and its spill map where it has one
  view("kernel", (payload, index, container) => {
    const [number, map] = payload.details[index];
    const spills = map && map.totals.spill; // what is to be mended first stands first
    if (spills) local(payload, index, map, container);
    if (number >= 0) residency(payload, payload.subjects[number], pastOf(payload, index), container);
    if (map !== undefined && !spills) local(payload, index, map, container);
  });

  return compared;
})();
