// What happened to families in builds, the worst first: each leads to its trend, and its build to what it changed.
const turns = (() => {
  const { builds, tables } = payload;
  const tablesOf = tables.filter(({ heads }) => heads.includes("family") && heads.includes("first build"));

  // Rows that fit(cell), where cell(head) is what stands below a head.
  function fitting(fit) {
    return tablesOf.map((each) => {
      const kept = each.rows.map((row, at) => [row, each.ends[at]]).filter(([row]) => fit((head) => row[each.heads.indexOf(head)]));
      return listing({ ...each, rows: kept.map(([row]) => row), ends: kept.map(([, ends]) => ends), empty: each.rows.length ? "none fits" : each.empty });
    });
  }

  function listing({ title, heads, words, rows, ends, empty }) {
    const linked = { "first build": (cell, at) => (ends.length ? between(cell, ends[at]) : cell), family: trend };
    const cells = rows.map((row, at) => row.map((cell, place) => linked[heads[place]]?.(cell, at) ?? cell));
    return h("section", {}, h("h2", {}, title), rows.length ? table.made({ title, heads, words, rows: cells }) : h("p", { class: "quiet" }, empty));
  }

  const trend = (family) => h("a", { href: link("trend", "", { q: `${family}*` }), title: `the trend of ${family}` }, family);
  const outside = (build, text, name = null) => h("a", { href: build.link, rel: "noreferrer", "aria-label": name }, text);

  // Where builds can be compared, the build leads to that, and besides to its commit.
  function between(text, [before, after]) {
    const build = builds[after];
    if (!payload.courses) return build.link ? outside(build, text) : text;
    return [h("a", { href: link("history", "", { a: builds[before].label, b: build.label }), title: "compare with the build before" }, text),
      build.link ? [" ", outside(build, "↗", `commit of ${build.label}`)] : null];
  }

  // What a column of runs, an index and what is from there on, holds for a build.
  const valueAt = (runs, i) => runs[runs.findLastIndex((from, at) => at % 2 === 0 && from <= i) + 1];

  return { tables: tablesOf, fitting, listing, outside, valueAt };
})();
