// What to do first: what fails, with the way on; families by weight, each with line, cause and remedy; what a rule's name means; why a kernel grew.
const first = (() => {

  // Headings that repeat stand once.
  const facts = (list) => h("dl", { class: "facts" }, filters.grouped(list, ([heading]) => heading).map(([heading, some]) =>
    h("div", {}, h("dt", {}, heading), some.map(([, text]) => h("dd", {}, marked(text))))));

  function entry(each) {
    return h("li", {},
      h("p", { class: "who" }, h("b", {}, store.anchor(each.kernel, each.name)), " ",
        h("span", { class: "quiet" }, `${each.arch || "arch unknown"} · ${each.why}`)),
      facts(each.facts));
  }

  // The list of the first page; null where there is nothing to do.
  function section(payload) {
    const found = payload.first || [];
    if (!found.length) return null;
    const part = (about) => found.filter((each) => each.about === about);
    const [fails, spills, others] = [part("found"), part("spills"), part("occupancy")];
    const list = (entries, start) => h("ol", { class: "first", start }, entries.map(entry));
    return h("section", { "aria-labelledby": "first" }, h("h2", { id: "first" }, "What to do first"),
      fails.length ? list(fails, 1) : null,
      spills.length ? [h("p", { class: "quiet" }, "By the weight of their spills: bytes, ten times as many for each loop around them."), list(spills, fails.length + 1)] : null,
      others.length ? fold("others", null, "No spills, limited by occupancy", () => list(others, fails.length + spills.length + 1), !spills.length && !fails.length) : null);
  }

  // What `explain` says of a rule; null where the page has no text of it.
  function explained(payload, rule, at) {
    const text = payload.explained && Object.hasOwn(payload.explained, rule) ? payload.explained[rule] : null;
    if (!text) return null;
    const [title, parts] = text;
    return fold(`finding ${at + 1}`, "explained", `What ${rule} means`, () => [h("p", {}, `${title}.`), parts.map(([heading, words]) => h("p", {}, h("b", {}, `${heading}. `), marked(words)))]);
  }

  // Why a kernel's registers or spills grew, and what became of its code; null where nothing says.
  function grown(payload, index) {
    const sections = [["why", "Why it grew"], ["became", "What became of its code"]].filter(([name]) => payload[name] && payload[name][index]);
    return sections.length ? h("div", {}, sections.map(([name, title]) => listed(payload[name][index], name, title))) : null;
  }

  function listed(lines, name, title) {
    const open = (line) => line.startsWith("not known: ") || line.startsWith("not proven ");
    return h("section", { class: "why", "aria-labelledby": name }, h("h2", { id: name }, title),
      h("ol", {}, lines.filter((line) => !open(line)).map((line) => h("li", {}, printable(line)))), lines.filter(open).map((line) => h("p", { class: "quiet" }, printable(line))));
  }

  return { section, explained, grown };
})();
