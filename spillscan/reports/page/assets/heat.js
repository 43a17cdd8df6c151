// Builds or archs side by side: a row a kernel, a column a build or arch, coloured by value or by change.
(() => {
  const { h, number, amount, count } = spillscan;
  const ROWS = 200;

  spillscan.view("heat", (payload, id, box) => {
    const { heat } = payload;
    const params = spillscan.route.params;
    const several = heat.columns.length > 1;
    const state = { metric: params.get("metric") || heat.metrics[0].name, by: params.get("by") || (heat.builds.length > 1 ? "change" : "value"),
      all: params.get("all") === "1", q: params.get("q") || "" };
    if (!heat.metrics.some(({ name }) => name === state.metric)) state.metric = heat.metrics[0].name;
    let most = ROWS;
    const place = h("div", {});
    const chips = heat.metrics.map(({ name, label }) => h("button", { type: "button", "data-name": name, onclick: () => { state.metric = name; apply(); } }, label));
    const shades = [["change", heat.builds.length > 1 ? "against the first build" : "against the first arch"], ["value", "by value"]].map(([name, label]) =>
      h("button", { type: "button", "data-name": name, onclick: () => { state.by = name; apply(); } }, label));
    const equal = h("input", { type: "checkbox", id: "all", checked: state.all, onchange: () => { state.all = equal.checked; apply(); } });
    const search = h("input", { type: "search", id: "hq", value: state.q, placeholder: "part of a name", autocomplete: "off", spellcheck: "false", oninput: () => { state.q = search.value; apply(); } });
    spillscan.add(box, headline(heat),
      h("form", { class: "controls", role: "search", onsubmit: (event) => event.preventDefault() },
        h("div", { class: "field wide" }, h("label", { for: "hq" }, "Kernel"), search),
        h("div", { class: "field" }, h("span", { class: "label" }, "Figure"), h("div", { class: "chips", role: "group", "aria-label": "Figure" }, chips)),
        several ? h("div", { class: "field" }, h("span", { class: "label" }, "Colour"), h("div", { class: "chips", role: "group", "aria-label": "Colour" }, shades)) : null,
        h("div", { class: "field check" }, equal, h("label", { for: "all" }, "equal rows too"))),
      place);
    apply(true);

    function apply(first) {
      if (!first) spillscan.remember({ ...state, all: state.all ? "1" : "" });
      for (const each of [...chips, ...shades]) each.setAttribute("aria-pressed", String(each.dataset.name === state.metric || each.dataset.name === state.by));
      const at = heat.metrics.findIndex(({ name }) => name === state.metric);
      const wanted = state.q.trim().toLowerCase();
      const fits = heat.rows.filter((row) => (state.all || differs(row, at)) && (!wanted || row.name.toLowerCase().includes(wanted)));
      place.replaceChildren();
      spillscan.add(place, fits.length ? [spillscan.legend(), table(heat, fits.slice(0, most), at, state.by, fits)] : h("p", { class: "quiet" }, "No kernel differs in it."));
      if (fits.length > most) place.append(h("button", { type: "button", onclick: () => { most += ROWS; apply(true); } }, `Show ${number(Math.min(ROWS, fits.length - most))} more of ${number(fits.length)}`));
    }
  });

  // Without the words that all labels begin with, and their suffix: neither says anything at the head of a column.
  function shortened(labels) {
    const first = labels[0];
    let alike = 0;
    while (labels.every((text) => alike < text.length && text[alike] === first[alike])) alike += 1;
    const front = first.slice(0, alike).search(/[^/_ -]*$/);
    const suffix = /\.[a-z]+$/i.exec(first)?.[0] || "";
    const short = labels.map((text) => (suffix && text.endsWith(suffix) ? text.slice(front, -suffix.length) : text.slice(front)));
    return labels.length > 1 && short.every(Boolean) && new Set(short).size === new Set(labels).size ? short : labels;
  }

  const differs = (row, at) => new Set(row.values[at].filter((_, column) => row.there[column])).size > 1;

  function headline(heat) {
    const differing = heat.rows.filter((row) => heat.metrics.some((_, at) => differs(row, at))).length;
    const over = heat.by === "build" ? count(heat.builds.length, "build") : `${count(new Set(heat.columns.map(({ arch }) => arch)).size, "arch")}`;
    return h("header", { class: "headline" }, h("h1", {}, h("b", {}, number(differing)), ` of ${count(heat.rows.length, "kernel")} ${differing === 1 ? "differs" : "differ"}`),
      h("p", {}, `over ${over}: ${heat.builds.join(" → ")}`));
  }

  function table(heat, rows, at, by, all) {
    const metric = heat.metrics[at];
    const known = rows.flatMap((row) => row.values[at]).filter((value) => value !== null);
    const most = known.reduce((sum, value) => Math.max(sum, value), 1);
    const archs = heat.by === "arch";
    const alike = heat.columns.map(({ arch }) => heat.columns.map((column) => !archs || heat.builds.length === 1 || column.arch === arch));
    const base = (row, column) => row.values[at].find((value, other) => value !== null && alike[column][other]) ?? 0;
    let spread = 1;
    for (const row of rows) row.values[at].forEach((value, column) => { if (value !== null) spread = Math.max(spread, Math.abs(value - base(row, column))); });
    const groups = [];
    heat.columns.forEach(({ arch }) => (groups.length && groups.at(-1).arch === arch && archs ? groups.at(-1).wide++ : groups.push({ arch, wide: 1 })));
    const two = archs && heat.builds.length > 1;
    const labels = shortened(heat.builds);
    const title = (build) => (labels[build] === heat.builds[build] ? null : heat.builds[build]);
    const heads = two
      ? [h("tr", {}, h("td", {}), groups.map(({ arch, wide }) => h("th", { scope: "colgroup", colspan: wide, class: "num" }, arch || "arch unknown"))),
        h("tr", {}, h("th", { scope: "col" }, "kernel"), heat.columns.map(({ build }) => h("th", { scope: "col", class: "num", title: title(build) }, labels[build])))]
      : h("tr", {}, h("th", { scope: "col" }, "kernel"), archs ? null : h("th", { scope: "col" }, "arch"),
        heat.columns.map(({ build, arch }) => h("th", { scope: "col", class: "num", title: archs ? null : title(build) }, archs ? arch || "arch unknown" : labels[build])));
    return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${metric.label} side by side` }, h("table", { class: "heat" },
      h("caption", { class: "quiet" }, `${metric.label}${metric.unit ? `, ${metric.unit}` : ""}; `, by === "change" ? "orange is more than before, blue less" : "the darker, the more", ". – not reported, · no such kernel."),
      h("thead", {}, heads),
      h("tbody", {}, rows.map((row) => h("tr", {}, h("th", { scope: "row" }, row.kernel === null ? row.name : h("a", { href: store.link(row.kernel) }, row.name)), archs ? null : h("td", { class: "arch" }, row.arch || "–"),
        row.values[at].map((value, column) => cell(row, value, column, { by, most, spread, first: base(row, column) }))))),
      metric.summed && rows.length > 1 ? h("tfoot", {}, h("tr", {}, h("th", { scope: "row" }, "total"), archs ? null : h("td", {}),
        heat.columns.map((_, column) => h("td", { class: "num" }, total(metric, filters.summed(all.map((row) => row.values[at][column]))))))) : null));
  }

  // The unit stands above; where it is another here, beside the figure.
  function total(metric, sum) {
    const [text, unit] = amount(sum, metric.unit);
    return unit === metric.unit ? text : `${text} ${unit}`;
  }

  function cell(row, value, column, { by, most, spread, first }) {
    if (value === null) return h("td", { class: "num quiet" }, row.there[column] ? "–" : "·");
    const delta = value - first;
    const part = by === "value" ? value / most : Math.abs(delta) / spread;
    const hue = by === "value" || delta > 0 ? "var(--bad-fill)" : "var(--registers)";
    const share = part ? Math.round(6 + 44 * part) : 0;
    return h("td", { class: `num tone${value === 0 ? " zero" : ""}`, style: { "--tone": hue, "--share": `${share}%` } }, number(value));
  }
})();
