// What views are filtered and arranged by: fields of a form, each of which sets one text of a state and calls apply().
// An address holds the state: "" is what nobody asked for.
const controls = (() => {
  const { h } = spillscan;

  // The state that the address says, where it says nothing as given.
  function state(usual) {
    const { params } = spillscan.route;
    return Object.fromEntries(Object.entries(usual).map(([name, text]) => [name, params.get(name) ?? text]));
  }

  const form = (...fields) => h("form", { class: "controls", role: "search", onsubmit: (event) => event.preventDefault() }, fields);
  const labelled = (id, label, control, kind = "") => h("div", { class: `field ${kind}` }, h("label", { for: id }, label), control);

  function search(held, apply) {
    const box = h("input", { type: "search", id: "q", value: held.q, placeholder: "name or glob: gemm*<8>", autocomplete: "off", spellcheck: "false",
      oninput: () => { held.q = box.value; apply(); } });
    return labelled("q", "Kernel", box, "wide");
  }

  function check(held, name, label, apply) {
    const box = h("input", { type: "checkbox", id: name, checked: held[name] === "1", onchange: () => { held[name] = box.checked ? "1" : ""; apply(); } });
    return h("div", { class: "field check" }, box, h("label", { for: name }, label));
  }

  // options: [value, words]
  function select(held, name, label, options, apply, kind) {
    const box = h("select", { id: name, onchange: () => { held[name] = box.value; apply(); } },
      options.map(([value, words]) => h("option", { value, selected: value === held[name] }, words)));
    return labelled(name, label, box, kind);
  }

  // Buttons of which one is pressed; `none`: or none.
  function chips(held, name, label, options, apply, none = false) {
    const paint = () => buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(options[at][0] === held[name])));
    const buttons = options.map(([value, words]) => h("button", { type: "button", onclick: () => {
      held[name] = none && held[name] === value ? "" : value;
      paint();
      apply();
    } }, words));
    paint();
    return h("div", { class: "field" }, h("span", { class: "label" }, label), h("div", { class: "chips", role: "group", "aria-label": label }, buttons));
  }

  // A test of lower-case texts: part of one, or with * and ? all of it.
  function fits(words) {
    const wanted = words.trim().toLowerCase();
    if (!/[*?]/.test(wanted)) return (text) => text.includes(wanted);
    const expression = new RegExp(`^${wanted.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".")}$`, "su");
    return (text) => expression.test(text);
  }

  return { state, form, labelled, search, check, select, chips, fits };
})();
