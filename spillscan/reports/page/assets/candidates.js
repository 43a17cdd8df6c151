// Candidates of a tuner: of each tuned kernel a table, a row a candidate; of two builds each figure before and after.
spillscan.view("candidates", ({ candidates: { heads, rows } }, id, box) => {
  const GROUPS = 20;
  const state = controls.state({ q: "", unbeaten: "" });
  const unbeaten = (row) => row.cells.some((cell) => cell && cell.at(-1) === "yes");
  const best = rows.filter(unbeaten).length;
  controls.listed(box, h("header", { class: "headline" }, h("h1", {}, h("b", {}, number(best)), ` of ${count(rows.length, "candidate")} ${best === 1 ? "is" : "are"} unbeaten`),
    h("p", {}, "No other candidate of the same tile has as few registers, spills and bytes of shared memory, as many resident warps, and one of them better.")),
  state, controls.check(state, "unbeaten", "only what no other beats"), (fits) => {
    const shown = filters.grouped(rows.filter((row) => (!state.unbeaten || unbeaten(row)) && fits(row.name.toLowerCase())), ({ name, arch }) => `${name} ${arch}`);
    return shown.length ? growing("candidates", h("div", {}), shown, ([, some]) => of(some), GROUPS) : h("p", { class: "quiet" }, "No candidate fits.");
  });

  function of(some) {
    const { name, arch } = some[0];
    const columns = heads.map((label, at) => ({ label, num: true, cell: ({ cells }) => {
      const texts = cells.map((each) => (each ? each[at] : "·"));
      return new Set(texts).size === 1 ? texts[0] : texts.join(" → ");
    } }));
    return h("section", {}, h("h2", {}, name, " ", h("span", { class: "quiet" }, arch || "arch unknown")),
      table({ title: `Candidates of ${name}`, kind: "heat", rows: some, columns: [{ label: "configuration", cell: (row) => row.configuration }, ...columns] }));
  }
});
