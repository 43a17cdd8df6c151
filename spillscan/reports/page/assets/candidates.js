// Candidates of a tuner: of each tuned kernel a table, a row a candidate; of two builds each figure before and after.
(() => {
  const { h, number, count } = spillscan;
  const ROWS = 200;

  spillscan.view("candidates", (payload, id, box) => {
    const { candidates } = payload;
    const params = spillscan.route.params;
    const state = { q: params.get("q") || "", unbeaten: params.get("unbeaten") === "1" };
    let most = ROWS;
    const place = h("div", {});
    const search = h("input", { type: "search", id: "kq", value: state.q, placeholder: "part of a name", autocomplete: "off", spellcheck: "false", oninput: () => { state.q = search.value; apply(); } });
    const only = h("input", { type: "checkbox", id: "unbeaten", checked: state.unbeaten, onchange: () => { state.unbeaten = only.checked; apply(); } });
    spillscan.add(box, headline(candidates),
      h("form", { class: "controls", role: "search", onsubmit: (event) => event.preventDefault() },
        h("div", { class: "field wide" }, h("label", { for: "kq" }, "Kernel"), search),
        h("div", { class: "field check" }, only, h("label", { for: "unbeaten" }, "only what no other beats"))),
      place);
    apply(true);

    function apply(first) {
      if (!first) spillscan.remember({ q: state.q, unbeaten: state.unbeaten ? "1" : "" });
      const wanted = state.q.trim().toLowerCase();
      const fits = candidates.rows.filter((row) => (!state.unbeaten || unbeaten(row)) && (!wanted || row.name.toLowerCase().includes(wanted)));
      place.replaceChildren(...groups(fits.slice(0, most)).map((rows) => table(candidates.heads, rows)));
      if (!fits.length) place.append(h("p", { class: "quiet" }, "No candidate fits."));
      if (fits.length > most) place.append(h("button", { type: "button", onclick: () => { most += ROWS; apply(true); } }, `Show ${number(Math.min(ROWS, fits.length - most))} more of ${number(fits.length)}`));
    }
  });

  const unbeaten = (row) => row.cells.some((cell) => cell && cell.at(-1) === "yes");

  function headline({ rows }) {
    const best = rows.filter(unbeaten).length;
    return h("header", { class: "headline" }, h("h1", {}, h("b", {}, number(best)), ` of ${count(rows.length, "candidate")} ${best === 1 ? "is" : "are"} unbeaten`),
      h("p", {}, "No other candidate of the same tile has as few registers, spills and bytes of shared memory, as many resident warps, and one of them better."));
  }

  function groups(rows) {
    const found = [];
    for (const row of rows) {
      const last = found.at(-1);
      if (last && last[0].name === row.name && last[0].arch === row.arch) last.push(row);
      else found.push([row]);
    }
    return found;
  }

  function table(heads, rows) {
    const { name, arch } = rows[0];
    return h("section", {}, h("h2", {}, name, " ", h("span", { class: "quiet" }, arch || "arch unknown")),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Candidates of ${name}` }, h("table", { class: "heat" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "configuration"), heads.map((head) => h("th", { scope: "col", class: "num" }, head)))),
        h("tbody", {}, rows.map((row) => h("tr", {}, h("th", { scope: "row" }, row.configuration),
          heads.map((_, at) => cell(row.cells.map((each) => (each ? each[at] : "·"))))))))));
  }

  const cell = (texts) => h("td", { class: "num" }, new Set(texts).size === 1 ? texts[0] : texts.join(" → "));
})();
