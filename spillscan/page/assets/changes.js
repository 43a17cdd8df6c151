// Two builds: what got worse first, each figure before and after.
(() => {
  const { h, number, count } = spillscan;
  const PAGE = 100;
  const SEVERITIES = ["error", "warning", "note", ""];
  const TITLES = { error: "Errors", warning: "Warnings", note: "Notes", "": "Other changes" };

  spillscan.view("changes", (payload, id, box) => {
    const { changes, verdict } = payload;
    const params = spillscan.route.params;
    const state = { q: params.get("q") || "", state: params.get("state") || "" };
    const list = h("div", {});
    const search = h("input", { type: "search", id: "cq", value: state.q, placeholder: "part of a name", autocomplete: "off", spellcheck: "false", oninput: () => { state.q = search.value; apply(); } });
    const states = changes.states.map(([name, n]) => h("button", { type: "button", "data-state": name, onclick: () => { state.state = state.state === name ? "" : name; apply(); } }, `${number(n)} ${name}`));
    spillscan.add(box, headline(payload), totals(changes), spillscan.unknown(verdict),
      changes.rows.length ? h("form", { class: "controls", role: "search", onsubmit: (event) => event.preventDefault() },
        h("div", { class: "field wide" }, h("label", { for: "cq" }, "Kernel"), search),
        h("div", { class: "chips", role: "group", "aria-label": "What became of it" }, states)) : null,
      list);
    apply(true);

    function apply(first) {
      if (!first) spillscan.remember(state);
      for (const each of states) each.setAttribute("aria-pressed", String(each.dataset.state === state.state));
      const wanted = state.q.trim().toLowerCase();
      const shown = changes.rows.filter((row) => (!state.state || row.state === state.state) &&
        (!wanted || row.name.toLowerCase().includes(wanted) || (row.old_name || "").toLowerCase().includes(wanted)));
      list.replaceChildren(...SEVERITIES.map((severity) => {
        const rows = shown.filter((row) => (row.severity || "") === severity);
        return rows.length ? group(payload, severity, rows, rows[0] === shown[0] && first) : null;
      }).filter(Boolean));
      if (!shown.length && changes.rows.length) list.append(h("p", { class: "quiet" }, "No change fits."));
    }
  });

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
  const signed = (n) => `${n > 0 ? "+" : n < 0 ? "−" : "±"}${number(Math.abs(n))}`;

  function totals(changes) {
    if (!changes.total.length) return null;
    return h("dl", { class: "figures totals" }, changes.total.slice(0, 8).map((each) => {
      const delta = each.after - each.before;
      const moves = [each.up ? `${number(each.up)} ↑` : "", each.down ? `${number(each.down)} ↓` : ""].filter(Boolean).join("  ");
      const kernels = each.up + each.down === 1 ? "kernel" : "kernels";
      if (!each.unit) return h("div", {}, h("dt", {}, each.label), h("dd", {}, moves), h("dd", { class: "sub" }, kernels));
      return h("div", {}, h("dt", {}, each.label), h("dd", { class: delta > 0 ? "bad" : delta < 0 ? "good" : "" }, signed(delta), h("small", {}, ` ${each.unit}`)),
        h("dd", { class: "sub" }, `${moves} ${kernels}`));
    }));
  }

  function group(payload, severity, rows, open) {
    const list = h("ol", { class: "changes" });
    const more = h("button", { type: "button", onclick: () => grow() });
    let shown = 0;
    const grow = () => {
      list.append(...rows.slice(shown, shown + PAGE).map((row, at) => change(payload, row, open && shown + at === 0)));
      shown = Math.min(rows.length, shown + PAGE);
      more.hidden = shown === rows.length;
      more.textContent = `Show ${number(Math.min(PAGE, rows.length - shown))} more of ${number(rows.length)}`;
    };
    grow();
    return h("section", {}, h("h2", { class: severity ? `sev-${severity}` : "" }, `${TITLES[severity]} `, h("span", { class: "quiet" }, number(rows.length))), list, more);
  }

  function change(payload, row, open) {
    const { metrics } = payload.changes;
    const name = row.kernel === null ? row.name : store.anchor(row.kernel);
    const figures = [...row.figures, ...(row.unknown || [])];
    return h("li", {},
      h("div", { class: "who" }, h("p", {}, h("b", {}, name), " ", h("span", { class: "quiet" }, row.arch || "arch unknown")),
        row.state === "renamed" ? renamed(row) : row.state === "changed" ? null : h("p", { class: "quiet" }, row.state)),
      h("div", { class: "what" },
        !figures.length && row.registers !== undefined ? h("p", { class: "quiet" }, row.registers === null ? "registers not reported" : `${number(row.registers)} registers`,
          row.spills && row.spills[0] + row.spills[1] ? h("span", { class: "bad" }, `, spills ${number(row.spills[0])} B stores, ${number(row.spills[1])} B loads`) : "") : null,
        figures.map(([at, before, after]) => pair(metrics[at], before, after)),
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

  // Two bars on one scale, before and after, with their figures.
  function pair(metric, before, after) {
    const most = Math.max(before || 0, after || 0, 1);
    const kind = tone(metric, before, after);
    const bar = (value, shade) => h("span", { class: `bar ${shade}`, style: { width: `${(100 * (value || 0)) / most}%` } });
    return h("div", { class: "pair" }, h("span", { class: "quiet" }, metric.label),
      h("span", { class: "two", "aria-hidden": "true" }, bar(before, "old"), bar(after, kind ? `new-${kind}` : "old")),
      h("span", { class: "num" }, number(before)), h("span", { class: "quiet" }, "→"), h("span", { class: `num ${kind}` }, number(after)),
      h("span", { class: "quiet" }, metric.unit),
      h("span", { class: `num ${kind}` }, before === null || after === null ? "" : signed(after - before)));
  }
})();
