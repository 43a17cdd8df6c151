// What stands around the view of one kernel: its names, its figures, its other archs, its findings.
spillscan.around("kernel", (payload, id, box, render) => {
  const { h, amount } = spillscan;
  const { columns } = store;
  const i = store.find(id);
  if (i === undefined) {
    spillscan.add(box, h("h1", {}, "No such kernel"), h("p", {}, "This page holds no kernel of that address. ", h("a", { href: spillscan.link("table") }, "All kernels")));
    return;
  }
  spillscan.title(store.name(i));
  const figures = [
    ...columns.figures.map(({ key, label, unit }) => [key === "shared" ? "static shared" : label,
      ...(([text, its]) => [key === "registers" ? store.registers(i) : text, (key === "stores" || key === "loads") && columns[key][i] ? "bad" : "", its])(amount(columns[key][i], unit))]),
    ["occupancy", store.occupancy(i) || "–", ""],
    ["limited by", store.limiter(i) || "–", ""],
  ];
  const notes = [store.role(i), store.unit(i),
    store.flag(i, store.AMBIGUOUS) ? "ambiguous: interleaved output does not decide all figures" : "",
    store.flag(i, store.NOT_FINAL) ? "* final only after the link" : "",
    store.flag(i, store.ASSUMED) ? "≤ at the best block size"
      : store.flag(i, store.AT_MOST) ? "≤ without its dynamic shared memory, which is not known" : "",
    store.flag(i, store.BY_BOUNDS) ? "~ at the block size of its launch bounds" : ""].filter(Boolean);
  const others = columns.symbol.reduce((found, symbol, at) => (symbol === columns.symbol[i] && at !== i ? [...found, at] : found), []);
  const mine = (payload.findings || []).filter((each) => each.kernel === i);

  spillscan.add(box, 
    h("p", { class: "trail" }, h("a", { href: spillscan.link("table") }, "Kernels"), " / ", store.arch(i) || "arch unknown"),
    h("h1", {}, store.name(i), " ", h("span", { class: "quiet" }, store.arch(i) || "")),
    notes.length ? h("p", { class: "quiet" }, notes.join(" · ")) : null,
    h("dl", { class: "figures" }, figures.map(([label, value, kind, unit]) => h("div", {}, h("dt", {}, label),
      h("dd", { class: kind }, value, unit && value !== "–" ? h("small", {}, ` ${unit}`) : null)))),
    spillscan.legend([filters.of.family(i)]),
    fullName(),
    mine.length ? h("ol", { class: "findings" }, mine.map((each) => h("li", {}, h("span", { class: `tag sev-${each.severity}` }, each.severity),
      h("p", { class: "all" }, each.message), h("p", { class: "quiet" }, [each.rule, each.state, each.place].filter(Boolean).join(" · ")),
      first.explained(payload, each.rule)))) : null,
    first.grown(payload, i),
    others.length ? h("p", { class: "others" }, "Also for ", others.slice(0, 24).map((at, n) => [n ? ", " : "",
      h("a", { href: store.link(at) }, store.arch(at) || "an unknown arch"), store.unit(at) ? ` (${store.unit(at)})` : ""]),
      others.length > 24 ? ` and ${number(others.length - 24)} more` : "") : null);
  if (render && payload.details && payload.details[i]) {
    const detail = h("div", { class: "detail" });
    spillscan.add(box, detail);
    render(payload, i, detail);
  }

  function fullName() {
    const place = h("div", { class: "names" });
    const details = h("details", { class: "full", ontoggle: async () => {
      if (!details.open || place.firstChild) return;
      const full = await store.names();
      const symbol = full.symbols[columns.symbol[i]];
      const name = full.names[columns.symbol[i]];
      place.replaceChildren(...[["demangled", name], ["symbol", symbol]].filter(([, text]) => text).map(([label, text]) =>
        h("div", {}, h("div", { class: "names-head" }, h("span", { class: "quiet" }, label),
          h("button", { type: "button", onclick: () => copy(text, label) }, `Copy ${label}`)), h("code", { tabindex: "0", role: "group", "aria-label": label }, text))));
    } }, h("summary", {}, "Full name"), place);
    return details;
  }
});
