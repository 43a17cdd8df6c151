// What views are filtered and arranged by: fields of a form, each of which sets one text of a state, has the address hold
// it, and calls apply().
const controls = (() => {

  const usuals = new WeakMap();

  // The state that the address says, where it says nothing as given; `known`: of a name the texts that it may have.
  function state(usual, known = {}) {
    const { params } = spillscan.route;
    const said = (name) => (params.has(name) && (known[name]?.includes(params.get(name)) ?? true) ? params.get(name) : usual[name]);
    const held = Object.fromEntries(Object.keys(usual).map((name) => [name, said(name)]));
    usuals.set(held, usual);
    return held;
  }

  function change(held, texts, apply) {
    spillscan.remember(Object.assign(held, texts), usuals.get(held));
    apply();
  }

  const form = (...fields) => h("form", { class: "controls", role: "search", onsubmit: (event) => event.preventDefault() }, fields);
  const labelled = (id, label, control, kind = "") => h("div", { class: `field ${kind}` }, h("label", { for: id }, label), control);

  function search(held, apply) {
    const box = h("input", { type: "search", id: "q", value: held.q, placeholder: "name or glob: gemm*<8>", autocomplete: "off", spellcheck: "false",
      oninput: () => change(held, { q: box.value }, apply) });
    return labelled("q", "Kernel", box, "wide");
  }

  function check(held, name, label, apply) {
    const box = h("input", { type: "checkbox", id: name, checked: held[name] === "1", onchange: () => change(held, { [name]: box.checked ? "1" : "" }, apply) });
    return h("div", { class: "field check" }, box, h("label", { for: name }, label));
  }

  // options: [value, words]
  function select(held, name, label, options, apply, kind) {
    const box = h("select", { id: name, onchange: () => change(held, { [name]: box.value }, apply) },
      options.map(([value, words]) => h("option", { value, selected: value === held[name] }, words)));
    return labelled(name, label, box, kind);
  }

  // Buttons of which one is pressed; `none`: or none.
  function chips(held, name, label, options, apply, none = false) {
    const paint = () => buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(options[at][0] === held[name])));
    const buttons = options.map(([value, words]) => h("button", { type: "button", onclick: () => {
      change(held, { [name]: none && held[name] === value ? "" : value }, apply);
      paint();
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

  return { state, change, form, search, check, select, chips, fits };
})();
