// The what-if calculator, alone (`spillscan occupancy -f html`) and as the picture of one kernel.
const calculator = (() => {
  const SETTLE_MS = 150;
  const kilo = (bytes) => (bytes ? `${Math.round((bytes / 1024) * 100) / 100} KB` : "");

  // Figures with a slider: what addresses call them, their label and unit, what may be typed, the slider's range, and
  // what is said of a figure.
  const NUMBERS = {
    threads: { label: "Block size", unit: "threads", limits: [1, 1024], range: (on) => [32, on.threads, 32], says: (on, setting, figure) => count(lookup.warpsOf(figure), "warp") },
    registers: { label: "Registers", unit: "a thread", limits: [0, 255], range: () => [1, 255, 1], says: (on, setting, figure) => {
      const taken = Math.ceil(figure / 8) * 8;
      return figure > on.registers_per_thread ? `${setting.device} addresses ${on.registers_per_thread}` : taken === figure ? "" : `${taken} allocated`;
    } },
    static: { label: "Static shared", unit: "bytes", limits: [0, 1 << 20], range: (on) => [0, on.shared_per_block, on.shared_unit], says: (on, setting, figure) => kilo(figure) },
    dynamic: { label: "Dynamic shared", unit: "bytes", limits: [0, 1 << 20], says: (on, setting, figure) => kilo(figure),
      range: (on, setting) => [0, setting.optin === null ? on.shared_per_block : on.shared_per_block_optin, on.shared_unit] },
    barriers: { label: "Named barriers", unit: "", limits: [0, 16], range: (on) => [0, on.barriers_per_block, 1], says: (on) => (on.barriers === null ? "no limit here" : "") },
  };
  // Figures that are chosen: `no` is none of them.
  const CHOICES = { optin: { label: "Shared memory limit", limits: [0, 1 << 20], options: optins }, carveout: { label: "Carve-out", limits: [0, 100], options: carveouts } };

  const whole = (text, [least, most]) => (/^\d{1,9}$/.test(text || "") && Number(text) >= least && Number(text) <= most ? Number(text) : null);
  const chosen = (name, text) => (text === "no" ? null : name === "optin" && text === "max" ? "max" : whole(text, CHOICES[name].limits) ?? undefined);

  function read(tables, start, params) {
    const setting = { ...start };
    if (Object.hasOwn(tables.devices, params.get("device"))) setting.device = params.get("device");
    for (const [name, { limits }] of Object.entries(NUMBERS)) setting[name] = whole(params.get(name), limits) ?? start[name];
    for (const name of Object.keys(CHOICES)) if (params.has(name) && chosen(name, params.get(name)) !== undefined) setting[name] = chosen(name, params.get(name));
    return setting;
  }

  const written = (setting) => Object.fromEntries(Object.entries(setting).map(([name, figure]) => [name, figure ?? "no"]));

  // A slider for the usual figures and a box for any; both are the same setting.
  function amount(name, { label, unit, limits, range, says }, change) {
    const id = `set-${name}`;
    let step = 1;
    const slider = h("input", { type: "range", min: 0, "aria-labelledby": `${id}-label`, oninput: () => change({ [name]: Number(slider.value) * step }) });
    const box = h("input", { type: "number", id, inputmode: "numeric", step: 1, min: limits[0], max: limits[1], "aria-describedby": `${id}-hint`, oninput: () => {
      const figure = whole(box.value, limits);
      box.setAttribute("aria-invalid", String(figure === null));
      if (figure !== null) change({ [name]: figure });
    } });
    const hint = h("span", { class: "hint quiet", id: `${id}-hint` });
    const node = h("div", { class: `control ${name}` }, h("label", { for: id, id: `${id}-label` }, label, unit ? h("span", { class: "quiet" }, `, ${unit}`) : null), box, slider, hint);
    const show = (on, setting) => {
      const figure = setting[name], [least, most, by] = range(on, setting), text = says(on, setting, figure);
      step = by;
      Object.assign(slider, { min: Math.ceil(least / by), max: Math.max(Math.floor(most / by), 0), value: Math.ceil(figure / by) });
      slider.setAttribute("aria-valuetext", `${number(figure)} ${unit || label.toLowerCase()}${text ? `, ${text}` : ""}`);
      hint.textContent = text;
      if (document.activeElement !== box || whole(box.value, limits) !== figure) { box.value = figure; box.removeAttribute("aria-invalid"); }
    };
    return { node, show };
  }

  // A list of options [value, words], made anew for each device; hidden where there is no choice.
  function choice(name, label, options, change) {
    const select = h("select", { id: `set-${name}`, onchange: () => change(name === "device" ? { device: select.value } : { [name]: chosen(name, select.value) }) });
    const node = h("div", { class: `control ${name}` }, h("label", { for: `set-${name}` }, label), select);
    let shown = "";
    const show = (on, setting) => {
      const [list, value] = options(on, setting), text = JSON.stringify(list);
      node.hidden = !list.length;
      if (text !== shown) select.replaceChildren(...list.map(([key, words]) => h("option", { value: key }, words)));
      shown = text;
      select.value = value;
    };
    return { node, show };
  }

  function optins(on, { optin }) {
    if (on.shared_per_block_optin <= on.shared_per_block) return [[], "no"];
    const list = [["no", `${on.shared_per_block / 1024} KB a block, not opted in`], ["max", `opted in, up to ${on.shared_per_block_optin / 1024} KB a block`]];
    if (typeof optin === "number") list.push([String(optin), `opted in, up to ${number(optin)} B dynamic`]);
    return [list, String(optin ?? "no")];
  }

  function carveouts(on, { carveout }) {
    if (on.carveout === null) return [[], "no"];
    const list = [["no", `no preference: ${on.carveout_steps.at(-1) / 1024} KB`]];
    let value = "no";
    for (let at = 0, first = 0; at < on.carveout.length; first += on.carveout[at + 1], at += 2) {
      const inside = carveout !== null && carveout >= first && carveout < first + on.carveout[at + 1];
      const share = inside ? carveout : first;
      list.push([String(share), `${share} %: ${on.carveout[at] / 1024} KB`]);
      if (inside) value = String(share);
    }
    return [list, value];
  }

  // start: the setting at first; built: the kernel's own, which curves mark, or null; bound: it is not known how it is
  // launched, so that the start is only a bound; before: what it was in the older build.
  function draw(tables, start, { built = null, bound = false, before = null }) {
    let setting = read(tables, start, spillscan.route.params);
    let timer = 0;
    const change = (figures) => {
      setting = { ...setting, ...figures };
      clearTimeout(timer); // browsers refuse addresses that change as fast as a slider
      timer = setTimeout(() => { if (node.isConnected) spillscan.remember(written(setting), written(start)); }, SETTLE_MS);
      paint();
    };
    const devices = Object.entries(tables.devices).reverse().map(([target, on]) => [target, `${target} · ${on.gpus.slice(0, 3).join(", ") || on.name}`]);
    const fields = [choice("device", "Device", () => [devices, setting.device], change), ...Object.entries(NUMBERS).map(([name, each]) => amount(name, each, change)),
      ...Object.entries(CHOICES).map(([name, { label, options }]) => choice(name, label, options, change))];
    const reset = h("button", { type: "button", onclick: () => change(start) }, built && !bound ? "As built" : "Start again");
    const figures = h("div", { class: "answer", "aria-hidden": "true" });
    const line = h("p", { class: "result-line", role: "status", "aria-live": "polite" });
    const shares = h("ul", { class: "budget" }), steps = h("ul", { class: "steps" });
    const graphs = curves.drawn(tables, setting, { built, before }, (resource, figure) => change(lookup.moved(tables, setting, resource, figure)));
    const past = before && lookup.answer(tables, before);
    const big = (figure, words, fits) => h("div", { class: fits ? "figure" : "figure bad" }, h("b", {}, figure), h("span", {}, words));

    function paint() {
      const found = lookup.answer(tables, setting), fits = found.blocks > 0;
      const own = JSON.stringify(setting) === JSON.stringify(start);
      const mark = bound && own ? "≤ " : "";
      for (const each of fields) each.show(found.on, setting);
      reset.disabled = own;
      line.textContent = (mark ? "at the best block size: " : "") + lookup.result(tables, found);
      figures.replaceChildren(big(mark + (fits ? found.percent : "0 %"), "occupancy", fits), big(number(found.blocks), found.blocks === 1 ? "block an SM" : "blocks an SM", fits),
        big(mark + number(found.warps), `of ${found.on.warps} warps`, fits));
      shares.replaceChildren(...budget.draw(found, past));
      shares.setAttribute("aria-label", `What one SM of ${found.on.title} has, and what each block takes`);
      steps.replaceChildren(...lookup.nextSteps(tables, setting).map((text) => h("li", {}, text)));
      graphs.draw(tables, setting, { built, before });
    }

    const node = h("div", { class: "calculator" },
      h("form", { class: "card whatif", "aria-label": "What if", onsubmit: (event) => event.preventDefault() }, h("div", { class: "head" }, h("h2", {}, "What if"), reset), fields.map((each) => each.node)),
      h("div", { class: "reading" }, figures, line, past ? h("p", { class: "quiet" }, `before: ${lookup.result(tables, past)}`) : null),
      h("div", { class: "outcome" }, shares, h("h2", {}, "Next steps"), steps),
      h("section", { class: "graphs", "aria-label": "Occupancy curves" }, graphs.nodes, before ? curves.key() : null));
    paint();
    return node;
  }

  spillscan.view("calculator", (payload, id, container) => {
    container.append(h("h1", {}, "Occupancy of one SM"), draw(payload.devices, lookup.settingOf(payload.start), {}),
      h("section", { class: "about" }, h("h2", {}, "What this shows"), payload.about.map((text) => h("p", {}, text))));
  });

  return { draw };
})();
