// Two builds: regressions first, each changed metric before and after.
(() => {
  const PAGE = 100;
  const TITLES = { error: "Errors", warning: "Warnings", note: "Notes", "": "Other changes" };
  const FAMILY = 4; // changes of one family and severity share a row that opens
  const FIELDS = ["severity", "arch", "family", "file", "object"];
  const GROUPS = [["kernel", "kernels"], ["family", "families"], ["namespace", "namespaces"], ["file", "files"], ["object", "objects"]];
  const of = (field, row) => (field === "kernel" ? row.name : field === "severity" ? row.severity || "none" : field === "arch" ? row.arch : row.kernel === null ? row[field] : filters.of[field](row.kernel));

  spillscan.view("changes", (payload, id, box) => {
    const { changes, verdict } = payload;
    const state = filters.state("changes", GROUPS, "family", { q: "", state: "", severity: "", arch: "", family: "", file: "", object: "" });
    const rows = alike(changes.rows);
    // The largest value of each metric, so that its bars share one scale.
    const scale = changes.metrics.map((_, at) => changes.rows.flatMap((row) => [...row.deltas, ...row.unknown]).reduce((most, [metric, before, after]) => (metric === at ? Math.max(most, before || 0, after || 0) : most), 1));
    const orders = changes.metrics.flatMap(({ label }) => [[`-${label}`, `${label}: grew most`], [label, `${label}: shrank most`]]);
    const groups = GROUPS.filter(([name]) => name === state.by || new Set(changes.rows.map((row) => of(name, row))).size > 1);
    const list = h("div", {});
    add(box, headline(payload), totals(changes), spillscan.unknown(verdict),
      rows.length ? controls.form(state, draw, controls.search(state), controls.select(state, "by", "Show", [["none", "changes"], ...groups]),
        filters.chooser(state, FIELDS, changes.rows, of), controls.select(state, "sort", "Order", [["", "worst first"], ["name", "kernel"], ...orders]),
        controls.chips(state, "state", "Change", [["", "all"], ...changes.states.map(([name, n]) => [name, `${number(n)} ${name}`])])) : null,
      list);
    draw();

    function draw() {
      const fits = controls.fits(state.q);
      const chosen = FIELDS.filter((name) => state[name]);
      const shown = sorted(rows.filter((row) => (!state.state || row.state === state.state)
        && chosen.every((name) => (name === "arch" ? row.archs.some(({ arch }) => arch === state.arch) : of(name, row) === state[name]))
        && [row.name, row.old_name || ""].some((name) => fits(name.toLowerCase()))), changes, state.sort);
      const parts = state.sort ? [[null, shown]] : Object.keys(TITLES).map((severity) => [severity, shown.filter((row) => (row.severity || "") === severity)]);
      fill(list, parts.filter(([, some]) => some.length).map(([severity, some]) => section(payload, severity, some, some[0] === shown[0], scale, state.by)), !shown.length && rows.length ? h("p", { class: "quiet" }, "No change matches.") : null);
    }
  });

  // A kernel that changed in the same way on several archs is one row.
  function alike(rows) {
    const key = (row) => JSON.stringify([row.name, row.state, row.severity, row.deltas, row.unknown, row.about, row.symbols, row.appeared, of("object", row)]);
    return filters.grouped(rows, key).map(([, archs]) => ({ ...archs[0], archs }));
  }

  function sorted(rows, { metrics }, sort) {
    if (sort === "name") return [...rows].sort((a, b) => filters.collator.compare(a.name, b.name));
    const at = metrics.findIndex(({ label }) => label === sort.replace(/^-/, ""));
    if (!sort || at < 0) return rows;
    const delta = ({ deltas }) => deltas.reduce((sum, [metric, before, after]) => (metric === at ? (sort.startsWith("-") ? 1 : -1) * (after - before) : sum), 0);
    return rows.filter((row) => delta(row) > 0).sort((a, b) => delta(b) - delta(a));
  }

  function headline({ changes, verdict }) {
    const bad = changes.rows.map(({ severity }) => severity).filter((severity) => severity === "error" || severity === "warning");
    const headline = !changes.rows.length ? "Nothing changed" : !bad.length ? "No kernel regressed"
      : [h("b", { class: `sev-${bad.includes("error") ? "error" : "warning"}` }, count(bad.length, "kernel")), " regressed"];
    const parts = [...verdict.counts.map(([severity, n]) => count(n, severity)), ...changes.states.map(([name, n]) => `${number(n)} ${name}`), `${number(changes.equal)} with the same metrics`];
    if (changes.unsettled) parts.push(`${number(changes.unsettled)} with values missing in one build`);
    parts.push(...verdict.baseline);
    return h("header", { class: "headline" }, h("h1", {}, headline), h("p", {}, parts.join(" · ")));
  }

  // Fewer registers alone are no improvement: spills may have replaced them.
  function tone(metric, before, after) {
    if (before === null || after === null || before === after) return "";
    if ((after > before) === metric.grows) return "bad";
    return metric.label === "registers" ? "" : "good";
  }
  const signed = (n, text = number) => `${n > 0 ? "+" : n < 0 ? "−" : "±"}${text(Math.abs(n))}`;
  const moved = (up, down) => [up ? `${number(up)} ↑` : "", down ? `${number(down)} ↓` : ""].filter(Boolean).join("  ");

  // Sums over all kernels; for a metric without a sum, how many kernels changed. Less counts as better only if kernels
  // improved: what disappeared with a kernel is no improvement.
  function totals({ total }) {
    const shown = total.filter(({ main, unit, up, down }) => main && (unit || up + down));
    return shown.length ? h("dl", { class: "metrics totals" }, shown.map(({ label, unit, before, after, up, down, kept }) => {
      const delta = after - before, moves = moved(up, down);
      const kernels = moves ? `${moves} ${up + down === 1 ? "kernel" : "kernels"}` : delta < 0 ? "of removed kernels" : "of new kernels";
      const [text, its] = amount(Math.abs(delta), unit);
      const kind = delta > 0 ? "bad" : delta < 0 && kept < 0 ? "good" : "";
      return h("div", {}, h("dt", {}, label), unit ? h("dd", { class: kind }, signed(delta, () => text), h("small", {}, ` ${its}`)) : h("dd", {}, moves),
        h("dd", { class: "sub" }, unit ? kernels : up + down === 1 ? "kernel" : "kernels"));
    })) : null;
  }

  function section(payload, severity, rows, open, scale, by) {
    const items = by === "none" || (severity === null && by === "family") ? rows.map((row) => [row])
      : filters.grouped(rows, (row) => of(by, row)).flatMap(([, some]) => (some.length < FAMILY ? some.map((row) => [row]) : [some]));
    const list = growing(severity ?? "all", h("ol", { class: "changes" }), items, (some, at) => (some.length > 1 ? opening : change)(payload, some.length > 1 ? some : some[0], open && at === 0, scale, by), PAGE);
    return h("section", {}, h("h2", { class: severity ? `sev-${severity}` : "" }, `${severity === null ? "Changes" : TITLES[severity]} `, h("span", { class: "quiet" }, number(filters.summed(rows.map(({ archs }) => archs.length))))), list);
  }

  // A family: its metrics, and its changes once it is opened.
  function opening(payload, rows, open, scale, by) {
    const kernels = rows.flatMap(({ archs }) => archs);
    const moves = payload.changes.metrics.map((metric, at) => {
      const deltas = kernels.flatMap(({ deltas }) => deltas.filter(([each]) => each === at).map(([, before, after]) => after - before));
      return { metric, up: deltas.filter((delta) => delta > 0).length, down: deltas.filter((delta) => delta < 0).length, most: deltas.reduce((most, delta) => (Math.abs(delta) > Math.abs(most) ? delta : most), 0) };
    }).filter(({ up, down }) => up + down);
    const label = of(by, rows[0]);
    const name = [by, label, rows[0].severity].filter(Boolean).join(" ");
    const inner = () => growing(name, h("ol", { class: "changes inner" }), rows, (row) => change(payload, row, false, scale, by, by === "family" ? label : ""), PAGE);
    return h("li", { class: "whole" }, fold(name, "family",
      [h("b", {}, label || "unknown"), " ", h("span", { class: "quiet" }, filters.grouped(kernels, ({ state }) => state).map(([state, some]) => `${number(some.length)} ${state}`).join(", ")),
        h("span", { class: "moves" }, moves.slice(0, 4).map(({ metric, up, down, most }) => h("span", { class: tone(metric, 0, most) }, `${metric.label} ${moved(up, down)}, largest ${signed(most, (n) => amount(n, metric.unit).join(" ").trim())}`)))], inner, open));
  }

  function change(payload, row, open, scale, by, within = "") {
    const { metrics } = payload.changes;
    const archs = row.archs.map(({ arch, kernel }, at) => [at ? ", " : "", at ? store.anchor(kernel, arch || "arch unknown") : arch || "arch unknown"]);
    const deltas = [...row.deltas, ...row.unknown];
    const rest = deltas.filter(([at]) => !metrics[at].main);
    const pairs = (some) => some.map(([at, before, after]) => pair(metrics[at], before, after, scale[at]));
    return h("li", {},
      h("div", { class: "who" }, h("p", {}, h("b", {}, store.anchor(row.kernel, within ? filters.under(row.name, within) : row.name)), " ", h("span", { class: "quiet" }, archs, row.library ? ` in ${row.library}` : null)),
        row.state === "renamed" ? renamed(row) : row.state !== "changed" ? h("p", { class: "quiet" }, row.state) : null),
      h("div", { class: "what" },
        row.state === "added" || row.state === "removed" ? h("p", { class: "quiet" }, row.about) : null,
        rest.length < deltas.length ? pairs(deltas.filter(([at]) => metrics[at].main)) : null,
        rest.length === deltas.length ? pairs(rest) : rest.length ? fold(`others ${row.name} ${row.arch}`, null, count(rest.length, "other metric"), () => h("div", {}, pairs(rest))) : null,
        row.kernel !== null && payload.why?.[row.kernel] ? h("p", { class: "quiet" }, printable(payload.why[row.kernel][0])) : null,
        row.state === "renamed" && !deltas.length ? h("p", { class: "quiet" }, "same metrics") : null,
        row.appeared ? h("p", { class: "quiet" }, `new messages: ${row.appeared.join(", ").replace(/_/g, " ")}`) : null));
  }

  function renamed(row) {
    return [h("p", { class: "quiet" }, "renamed: ", h("b", {}, row.about)),
      fold(`was ${row.symbols[0]}`, "full", `was ${row.old_name}`, () => h("div", { class: "names" }, row.symbols.map((each) => h("code", {}, each))))];
  }

  // Two bars with their values, before and after, on the metric's scale.
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
