// The tables of a dataset's history: regressions and improvements, one filter for all; the others are folded.
spillscan.view("history", ({ summary, tables }, id, box) => {
  const state = controls.state({ q: "" });
  const shown = tables.filter(({ rows }) => rows.length);
  controls.listed(box, h("header", { class: "headline" }, h("h1", {}, summary[0]), summary.slice(1).map((line) => h("p", { class: "quiet" }, line))),
    state, [], (fits) => shown.map((each) => {
      const rows = each.rows.filter((row) => fits(row.join(" ").toLowerCase()));
      const made = rows.length ? table.made({ ...each, rows }) : h("p", { class: "quiet" }, "no match");
      return each.folded ? h("details", { class: "tables" }, h("summary", {}, `${each.title} (${number(rows.length)})`), made) : h("section", {}, h("h2", {}, each.title), made);
    }));
});
