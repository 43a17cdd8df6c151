// One kernel: names, metrics, other archs, findings; how it fits its SM; its local memory.

spillscan.view("kernel", (payload, id, box) => {
  const { columns } = store;
  const UNKNOWN_LAUNCH = "Block size unknown: values are upper bounds. Set it with --launch.";
  const i = store.find(id);
  if (i === undefined) {
    add(box, h("h1", {}, "No such kernel"), h("p", {}, "The link matches no kernel of this page. ", h("a", { href: link("table") }, "All kernels")));
    return;
  }
  const arch = store.arch(i);
  const [subject, map] = payload.details[i];
  spillscan.title(store.name(i));
  const spills = map && map.totals.spill; // what to fix comes first
  add(box, heading(), spills ? local() : null, first.grown(payload, i), findings(), fullName(), others());
  if (subject >= 0) residency(payload.subjects[subject]);
  if (map !== undefined && !spills) add(box, local());

  function heading() {
    const shown = columns.metrics.filter(({ key }) => columns[key][i] || ["registers", ...store.SPILLS].includes(key));
    const metrics = shown.map(({ key, label, unit }) => {
      const [text, its] = amount(columns[key][i], unit);
      return [key === "shared_bytes" ? "static shared" : label, key === "registers" ? store.registers(i) : text, its, store.SPILLS.includes(key) && columns[key][i] ? "bad" : ""];
    });
    const notes = [store.role(i), store.unit(i), store.flag(i, store.AMBIGUOUS) ? "ambiguous: output was interleaved" : "",
      store.flag(i, store.NOT_FINAL) ? "* registers final only after the link" : "",
      store.subject(i)?.mark].filter(Boolean);
    return [h("p", { class: "trail" }, h("a", { href: link("table") }, "Kernels"), " / ", arch || "arch unknown"),
      h("h1", {}, store.name(i), " ", h("span", { class: "quiet" }, arch || "")),
      notes.length ? h("p", { class: "quiet" }, notes.join(" · ")) : null,
      h("dl", { class: "metrics" }, [...metrics, ["occupancy", store.occupancy(i) || "–"], ["limited by", store.limiter(i) || "–"]].map(([label, value, unit, kind]) =>
        h("div", {}, h("dt", {}, label), h("dd", { class: kind }, value, unit ? h("small", {}, ` ${unit}`) : null))))
    ];
  }

  function fullName() {
    return fold("full", "full", "Full name", () => {
      const names = h("div", { class: "names" });
      store.names().then((full) => add(names, [["demangled", full.names[columns.symbol[i]]], ["symbol", full.symbols[columns.symbol[i]]]].filter(([, text]) => text).map(([label, text]) => h("div", {},
        h("div", { class: "names-head" }, h("span", { class: "quiet" }, label), h("button", { type: "button", onclick: () => copy(text, label) }, `Copy ${label}`)),
        h("code", { tabindex: "0", role: "group", "aria-label": label }, text)))));
      return names;
    });
  }

  function findings() {
    const mine = (payload.findings || []).filter(({ kernel }) => kernel === i);
    return mine.length ? h("ol", { class: "findings" }, mine.map((each, at) => h("li", {}, h("span", { class: `tag sev-${each.severity}` }, each.severity),
      h("p", { class: "all" }, marked(each.message)), h("p", { class: "quiet" }, [each.rule, each.state, each.place].filter(Boolean).join(" · ")), first.explained(payload, each.rule, at)))) : null;
  }

  function others() {
    const found = columns.symbol.flatMap((symbol, at) => (symbol === columns.symbol[i] && at !== i ? [at] : []));
    return found.length ? h("p", { class: "others" }, "Also for ", found.slice(0, 24).map((at, n) => [n ? ", " : "", store.anchor(at, store.arch(at) || "an unknown arch"), store.unit(at) !== store.unit(i) ? ` (${store.unit(at)})` : ""]),
      found.length > 24 ? ` and ${number(found.length - 24)} more` : "") : null;
  }

  function residency({ title, launch, result, limits = [], unknown, assumed, notes = [] }) {
    if (!result) {
      add(box, h("section", { class: "unknown" }, h("h2", {}, "Occupancy unknown"), h("p", {}, `${printable(unknown)}.`)));
      return;
    }
    const old = payload.subjects[payload.before?.[i]];
    add(box, h("section", { class: "residency" }, h("h2", {}, `One SM of ${title}`), assumed ? h("p", { class: "notice" }, UNKNOWN_LAUNCH) : null,
      h("p", {}, h("b", {}, printable(result))), old ? h("p", { class: "quiet" }, `before: ${printable(old.result)}`) : null,
      h("p", { class: "quiet" }, printable(launch)),
      h("table", { class: "limits" }, h("thead", {}, h("tr", {}, ["resource", "blocks per SM"].map((head) => h("th", { scope: "col" }, head)))),
        h("tbody", {}, limits.map(([label, blocks, limits]) => h("tr", { class: limits ? "limiter" : "" }, h("th", { scope: "row" }, label), h("td", {}, blocks, limits ? " ← limiter" : ""))))),
      notes.map((note) => h("p", { class: "quiet" }, printable(note)))));
  }

  function local() {
    return h("section", { class: "local" }, h("h2", {}, "Local memory accesses"), map ? spillmap.draw(map, (payload.code && payload.code[i]) || null)
      : h("p", { class: "quiet" }, marked("This page has spill maps of the worst kernels only; `spillscan show` prints the accesses of any kernel.")));
  }
});
