// Filters and orders of views: form fields, each of which sets the text of its name in the view's state, writes it
// to the address and calls apply().
const controls = (() => {
  // The state of the address over the default `usual`; `known`: the texts that a name may have.
  function state(usual, known = {}) {
    const { params } = spillscan.route;
    const given = Object.keys(usual).filter((name) => params.has(name) && (known[name]?.includes(params.get(name)) ?? true));
    return Object.assign(Object.create(usual), Object.fromEntries(given.map((name) => [name, params.get(name)])));
  }

  function change(state, texts, apply) {
    spillscan.remember(Object.assign(state, texts), Object.getPrototypeOf(state));
    apply();
  }

  function form(state, apply, ...fields) {
    const set = ({ target: { name, type, value, checked } }) => {
      const text = type === "checkbox" && !checked ? "" : value;
      if (name && state[name] !== text) change(state, { [name]: text }, apply);
    };
    return h("form", { class: "controls", onsubmit: (event) => event.preventDefault(), oninput: set, onchange: set }, fields);
  }

  const field = (id, label, control, kind = "") => h("div", { class: `field ${kind}` }, h("label", { for: id }, label), control);
  const search = (state) => field("q", "Kernel", h("input", { type: "search", id: "q", name: "q", value: state.q, placeholder: "name or glob: gemm*<8>", autocomplete: "off", spellcheck: "false" }), "wide");
  const check = (state, name, label) => h("label", { class: "field check" }, h("input", { type: "checkbox", name, value: "1", checked: state[name] === "1" }), label);

  // options: [value, label]
  const select = (state, name, label, options, kind) => field(name, label, h("select", { id: name, name },
    options.map(([value, words]) => h("option", { value, selected: value === state[name] }, words))), kind);

  // The same as radio buttons.
  const chips = (state, name, label, options) => h("fieldset", { class: "field" }, h("legend", {}, label), h("div", { class: "chips" },
    options.map(([value, words]) => h("label", { class: "choice" }, h("input", { type: "radio", name, value, checked: value === state[name] }), words))));

  // A test of lower-case texts: `words` is a part, or, with * and ?, all but the namespaces.
  function fits(words) {
    const wanted = words.trim().toLowerCase();
    if (!/[*?]/.test(wanted)) return (text) => text.includes(wanted);
    const expression = new RegExp(`^(?:(?:[^<(]|\\(anonymous namespace\\))*::)?${wanted.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".")}$`, "su");
    return (text) => expression.test(text);
  }

  // A view of a heading, filters and results: make(fits) fills the container below, now and at each change.
  function listed(box, head, state, fields, make) {
    const place = h("div", {});
    const draw = () => fill(place, make(fits(state.q)));
    add(box, head, form(state, draw, search(state), fields), place);
    draw();
  }

  return { state, change, listed, form, search, check, select, chips, fits };
})();
