// Two builds: what got worse first, each figure before and after.
(() => {
  const { h, number, bytes, amount, count } = spillscan;
  const PAGE = 100;
  const SEVERITIES = ["error", "warning", "note", ""];
  const TITLES = { error: "Errors", warning: "Warnings", note: "Notes", "": "Other changes" };

  const FAMILY = 4; // changes of one family and severity that share a row, which opens
  const FIELDS = ["severity", "arch", "family", "file", "object"];
  const GROUPS = [["kernel", "kernels"], ["family", "families"], ["namespace", "namespaces"], ["file", "files"], ["object", "objects"]];
  const of = (field, row) => (field === "kernel" ? row.name : field === "severity" ? row.severity || "none" : field === "arch" ? row.arch : row.kernel === null ? row[field] : filters.of[field](row.kernel));

  spillscan.view("changes", (payload, id, box) => {
    const { changes, verdict } = payload;
    const params = spillscan.route.params;
    const [by, usual] = filters.grouping(GROUPS, "family");
    const state = { q: params.get("q") || "", state: params.get("state") || "", sort: filters.order("changes"), by, ...Object.fromEntries(FIELDS.map((name) => [name, params.get(name) || ""])) };
    const list = h("div", {});
    const search = h("input", { type: "search", id: "cq", value: state.q, placeholder: "name or glob: gemm*<8>", autocomplete: "off", spellcheck: "false", oninput: () => { state.q = search.value; apply(); } });
    const states = changes.states.map(([name, n]) => h("button", { type: "button", "data-state": name, onclick: () => { state.state = state.state === name ? "" : name; apply(); } }, `${number(n)} ${name}`));
    const orders = [["", "worst first"], ["name", "kernel"], ...changes.metrics.flatMap(({ label }) => [[`-${label}`, `${label}: grew most`], [label, `${label}: shrank most`]])];
    const sorts = h("select", { id: "sort", onchange: () => { state.sort = sorts.value; apply(); } }, orders.map(([value, label]) => h("option", { value, selected: state.sort === value }, label)));
    const groups = h("select", { id: "by", onchange: () => { state.by = groups.value; apply(); } }, h("option", { value: "none" }, "changes"),
      GROUPS.filter(([name]) => name === state.by || new Set(changes.rows.map((row) => of(name, row))).size > 1).map(([name, label]) => h("option", { value: name, selected: state.by === name }, label)));
    const letters = h("div", {});
    const rows = alike(changes.rows);
    const scale = scales(changes);
    spillscan.add(box, headline(payload), totals(changes), spillscan.unknown(verdict),
      changes.rows.length ? h("form", { class: "controls", role: "search", onsubmit: (event) => event.preventDefault() },
        h("div", { class: "field wide" }, h("label", { for: "cq" }, "Kernel"), search),
        h("div", { class: "field" }, h("label", { for: "by" }, "Show"), groups),
        filters.chooser(state, changes.rows, of, FIELDS, () => apply()),
        h("div", { class: "field" }, h("label", { for: "sort" }, "Order"), sorts),
        h("div", { class: "chips", role: "group", "aria-label": "What became of it" }, states)) : null,
      letters, list);
    apply(true);

    function apply(first) {
      if (!first) spillscan.remember({ ...state, by: state.by === usual ? "" : state.by });
      for (const each of states) each.setAttribute("aria-pressed", String(each.dataset.state === state.state));
      const fits = filters.fits(state.q);
      const chosen = FIELDS.filter((name) => state[name]);
      const shown = sorted(rows.filter((row) => (!state.state || row.state === state.state)
        && chosen.every((name) => (name === "arch" ? row.archs.some(({ arch }) => arch === state.arch) : of(name, row) === state[name]))
        && (!fits || fits(row.name.toLowerCase()) || fits((row.old_name || "").toLowerCase()))), changes, state.sort);
      const parts = state.sort ? [[null, shown]] : SEVERITIES.map((severity) => [severity, shown.filter((row) => (row.severity || "") === severity)]);
      letters.replaceChildren(...[spillscan.legend(shown.map((row) => of("family", row)))].filter(Boolean));
      list.replaceChildren(...parts.filter(([, rows]) => rows.length).map(([severity, rows]) => group(payload, severity, rows, rows[0] === shown[0] && first, scale, state.by)));
      if (!shown.length && changes.rows.length) list.append(h("p", { class: "quiet" }, "No change fits."));
    }
  });

  // What changed alike for several archs of one kernel is one row.
  function alike(rows) {
    const found = new Map();
    for (const row of rows) {
      const key = JSON.stringify([row.name, row.state, row.severity, row.figures, row.unknown, row.registers, row.spills, row.old, row.appeared, of("object", row)]);
      const first = found.get(key);
      if (first) first.archs.push(row);
      else found.set(key, { ...row, archs: [row] });
    }
    return [...found.values()];
  }

  // The largest value of each figure: bars of one figure are on one scale.
  function scales(changes) {
    const most = changes.metrics.map(() => 1);
    for (const row of changes.rows) for (const [at, before, after] of [...row.figures, ...(row.unknown || [])]) most[at] = Math.max(most[at], before || 0, after || 0);
    return most;
  }

  function sorted(rows, changes, sort) {
    if (sort === "name") return [...rows].sort((a, b) => filters.collator.compare(a.name, b.name));
    const at = changes.metrics.findIndex(({ label }) => label === sort.replace(/^-/, ""));
    if (!sort || at < 0) return rows;
    const way = sort.startsWith("-") ? 1 : -1;
    const delta = (row) => { const found = row.figures.find(([metric]) => metric === at); return found ? way * (found[2] - found[1]) : 0; };
    return rows.filter((row) => delta(row) > 0).sort((a, b) => delta(b) - delta(a));
  }

  function headline(payload) {
    const { changes, verdict } = payload;
    const bad = changes.rows.map(({ severity }) => severity).filter((severity) => severity === "error" || severity === "warning");
    const worst = bad.includes("error") ? "error" : "warning";
    const worse = bad.length;
    const headline = !changes.rows.length ? "Nothing changed"
      : worse ? [h("b", { class: `sev-${worst}` }, number(worse)), ` kernel${worse === 1 ? "" : "s"} got worse`]
      : "No kernel got worse";
    const parts = [...verdict.counts.map(([severity, n]) => count(n, severity)), ...changes.states.map(([name, n]) => `${number(n)} ${name}`), `${number(changes.equal)} unchanged`];
    if (changes.unsettled) parts.push(`${number(changes.unsettled)} that one build does not report in full`);
    if (verdict.baseline.length) parts.push(`against the baseline ${verdict.baseline.map(([state, n]) => `${number(n)} ${state}`).join(", ")}`);
    return h("header", { class: "headline" }, h("h1", {}, headline), h("p", {}, parts.join(" · ")));
  }

  // Fewer registers alone are no gain: they may be the price of spills.
  function tone(metric, before, after) {
    if (before === null || after === null || before === after) return "";
    if ((after > before) === metric.grows) return "bad";
    return metric.label === "registers" ? "" : "good";
  }
  const signed = (n, text = number) => `${n > 0 ? "+" : n < 0 ? "−" : "±"}${text(Math.abs(n))}`;

  function totals(changes) {
    if (!changes.total.length) return null;
    return h("dl", { class: "figures totals" }, changes.total.slice(0, 8).map((each) => {
      const delta = each.after - each.before;
      const moves = [each.up ? `${number(each.up)} ↑` : "", each.down ? `${number(each.down)} ↓` : ""].filter(Boolean).join("  ");
      const kernels = each.up + each.down === 1 ? "kernel" : "kernels";
      if (!each.unit) return h("div", {}, h("dt", {}, each.label), h("dd", {}, moves), h("dd", { class: "sub" }, kernels));
      return h("div", {}, h("dt", {}, each.label), h("dd", { class: delta > 0 ? "bad" : delta < 0 ? "good" : "" }, (([text, unit]) => [signed(delta, () => text), h("small", {}, ` ${unit}`)])(amount(Math.abs(delta), each.unit))),
        h("dd", { class: "sub" }, `${moves} ${kernels}`));
    }));
  }

  function group(payload, severity, rows, open, scale, by) {
    const total = rows.reduce((sum, row) => sum + row.archs.length, 0);
    const items = by === "none" || (severity === null && by === "family") ? rows.map((row) => [row]) : together(rows, by);
    const list = h("ol", { class: "changes" });
    const more = h("button", { type: "button", onclick: () => grow() });
    let shown = 0;
    const grow = () => {
      list.append(...items.slice(shown, shown + PAGE).map((some, at) => (some.length > 1 ? opening(payload, some, open && shown + at === 0, scale, by) : change(payload, some[0], open && shown + at === 0, scale))));
      shown = Math.min(items.length, shown + PAGE);
      more.hidden = shown === items.length;
      more.textContent = `Show ${number(Math.min(PAGE, items.length - shown))} more of ${number(items.length)}`;
    };
    grow();
    return h("section", {}, h("h2", { class: severity ? `sev-${severity}` : "" }, `${severity === null ? "Changes" : TITLES[severity]} `, h("span", { class: "quiet" }, number(total))), list, more);
  }

  // The rows, those of a family (or what else they are shown by) together where they are many.
  function together(rows, by) {
    const found = new Map();
    for (const row of rows) (found.get(of(by, row)) || found.set(of(by, row), []).get(of(by, row))).push(row);
    return [...found.values()].flatMap((some) => (some.length < FAMILY ? some.map((row) => [row]) : [some]));
  }

  // A family: what its figures did, and its changes when it is opened.
  function opening(payload, rows, open, scale, by) {
    const { metrics } = payload.changes;
    const kernels = rows.flatMap((row) => row.archs);
    const moves = metrics.map((metric, at) => {
      const deltas = kernels.flatMap((row) => row.figures.filter(([each]) => each === at).map(([, before, after]) => after - before));
      return { metric, up: deltas.filter((delta) => delta > 0).length, down: deltas.filter((delta) => delta < 0).length, most: deltas.reduce((most, delta) => (Math.abs(delta) > Math.abs(most) ? delta : most), 0) };
    }).filter(({ up, down }) => up + down);
    const list = h("ol", { class: "changes inner" });
    const more = h("button", { type: "button", onclick: () => grow() });
    let shown = 0;
    const grow = () => {
      list.append(...rows.slice(shown, shown + PAGE).map((row) => change(payload, row, false, scale, by === "family" ? of(by, row) : "")));
      shown = Math.min(rows.length, shown + PAGE);
      more.hidden = shown === rows.length;
      more.textContent = `Show ${number(Math.min(PAGE, rows.length - shown))} more of ${number(rows.length)}`;
    };
    const states = new Map();
    for (const row of kernels) states.set(row.state, (states.get(row.state) || 0) + 1);
    const details = h("details", { class: "family", open, ontoggle: () => { if (details.open && !shown) grow(); } },
      h("summary", {}, h("b", {}, of(by, rows[0]) || "not said"), " ", h("span", { class: "quiet" }, [...states].map(([state, n]) => `${number(n)} ${state}`).join(", ")),
        h("span", { class: "moves" }, moves.slice(0, 4).map(({ metric, up, down, most }) => h("span", { class: tone(metric, 0, most) }, `${metric.label} ${[up ? `${number(up)} ↑` : "", down ? `${number(down)} ↓` : ""].filter(Boolean).join(" ")}, most ${signed(most, (n) => amount(n, metric.unit).join(" ").trim())}`)))),
      list, more);
    if (open) grow();
    return h("li", { class: "whole" }, details);
  }

  function change(payload, row, open, scale, within) {
    const { metrics } = payload.changes;
    const words = within ? filters.under(row.name, within) : row.name;
    const name = row.kernel === null ? words : h("a", { href: store.link(row.kernel), title: row.name }, words);
    const archs = row.archs.map((each, at) => [at ? ", " : "", at && each.kernel !== null ? h("a", { href: store.link(each.kernel) }, each.arch || "arch unknown") : each.arch || "arch unknown"]);
    const figures = [...row.figures, ...(row.unknown || [])];
    return h("li", {},
      h("div", { class: "who" }, h("p", {}, h("b", {}, name), " ", h("span", { class: "quiet" }, archs)),
        row.state === "renamed" ? renamed(row) : row.state === "changed" ? null : h("p", { class: "quiet" }, row.state)),
      h("div", { class: "what" },
        !figures.length && row.registers !== undefined ? h("p", { class: "quiet" }, row.registers === null ? "registers not reported" : `${number(row.registers)} registers`,
          row.spills && row.spills[0] + row.spills[1] ? h("span", { class: "bad" }, `, spills ${number(row.spills[0])} B stores, ${number(row.spills[1])} B loads`) : "") : null,
        figures.map(([at, before, after]) => pair(metrics[at], before, after, scale[at])),
        row.state === "renamed" && !figures.length ? h("p", { class: "quiet" }, "the same figures") : null,
        row.appeared ? h("p", { class: "quiet" }, `new messages: ${row.appeared.join(", ").replace(/_/g, " ")}`) : null),
      row.kernel === null ? null : onCurves(payload, row.kernel, open));
  }

  // The kernel's point before and after on the curves of its residency; drawn when it is opened.
  function onCurves(payload, index, open) {
    const draw = comparison(payload, index);
    if (!draw) return null;
    const place = h("div", {});
    const details = h("details", { class: "full curves", open, ontoggle: () => fill() }, h("summary", {}, "On the occupancy curves"), place);
    const fill = () => {
      if (!details.open || place.firstChild) return;
      if (store.flag(index, store.ASSUMED)) place.append(h("p", { class: "quiet" }, "At the best block size of each, as it is not known how it is launched (--launch does)."));
      place.append(draw());
    };
    fill();
    return details;
  }

  function renamed(row) {
    return [h("p", { class: "quiet" }, "renamed, ", h("b", {}, `${Math.round(100 * row.score)} % alike`)),
      h("details", { class: "full" }, h("summary", {}, `was ${row.old_name}`), h("div", { class: "names" }, h("code", {}, row.old), h("code", {}, row.new)))];
  }

  // Two bars, before and after, on the scale of all of the figure, with their figures.
  function pair(metric, before, after, most) {
    const kind = tone(metric, before, after);
    const large = metric.unit === "B" && Math.max(before || 0, after || 0) >= 2 ** 20;
    const text = large ? (n) => (n === null ? number(n) : bytes(n)) : number;
    const bar = (value, shade) => h("span", { class: `bar ${shade}`, style: { width: `${(100 * (value || 0)) / most}%` } });
    return h("div", { class: "pair" }, h("span", { class: "quiet" }, metric.label),
      h("span", { class: "two", "aria-hidden": "true" }, bar(before, "old"), bar(after, kind ? `new-${kind}` : "old")),
      h("span", { class: "num" }, text(before)), h("span", { class: "quiet" }, "→"), h("span", { class: `num ${kind}` }, text(after)),
      h("span", { class: "quiet" }, large ? "" : metric.unit),
      h("span", { class: `num ${kind}` }, before === null || after === null ? "" : signed(after - before, text)));
  }
})();
