// First fixes: failing findings with their next step, then families by spill cost; rules explained; causes of growth.
const first = (() => {

  // A heading that repeats is shown once.
  const facts = (list) => h("dl", { class: "facts" }, filters.grouped(list, ([heading]) => heading).map(([heading, some]) =>
    h("div", {}, h("dt", {}, heading), some.map(([, text]) => h("dd", {}, marked(text))))));

  function entry(each) {
    return h("li", {},
      h("p", { class: "who" }, h("b", {}, store.anchor(each.kernel, each.name)), " ",
        h("span", { class: "quiet" }, `${each.arch || "arch unknown"} · ${each.why}`)),
      facts(each.facts));
  }

  // The list on the first page; null if there is nothing to do.
  function section({ first }) {
    if (!first.length) return null;
    const [fails, spills, others] = ["found", "spills", "occupancy"].map((about) => first.filter((each) => each.about === about));
    const list = (entries, start) => h("ol", { class: "first", start }, entries.map(entry));
    return h("section", { "aria-labelledby": "first" }, h("h2", { id: "first" }, "First fixes"),
      fails.length ? list(fails, 1) : null,
      spills.length ? [h("p", { class: "quiet" }, "By spill cost: bytes × 10 per enclosing loop."), list(spills, fails.length + 1)] : null,
      others.length ? fold("others", null, "No spills, but occupancy can be higher", () => list(others, fails.length + spills.length + 1), !spills.length && !fails.length) : null);
  }

  // The text of `explain` for a rule.
  function explained(payload, rule, at) {
    const [title, parts] = payload.explained[rule];
    return fold(`finding ${at + 1}`, "explained", `What ${rule} means`, () => [h("p", {}, `${title}.`), parts.map(([heading, words]) => h("p", {}, h("b", {}, `${heading}. `), marked(words)))]);
  }

  // Why a kernel's registers or spills grew and how its code changed, if known.
  const grown = (payload, index) => [listed(payload.why?.[index], "why", "Causes of growth"), listed(payload.became?.[index], "became", "Code changes")];

  function listed(lines, name, title) {
    const open = (line) => line.startsWith("unknown: ");
    return lines && h("section", { class: "why", "aria-labelledby": name }, h("h2", { id: name }, title),
      h("ol", {}, lines.filter((line) => !open(line)).map((line) => h("li", {}, printable(line)))), lines.filter(open).map((line) => h("p", { class: "quiet" }, printable(line))));
  }

  return { section, explained, grown };
})();
