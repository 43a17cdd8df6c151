// Occupancy over one figure, all else held: steps with each cliff marked, the setting's point, the kernel's own, and in a
// comparison of builds that of the kernel before, hollow, with its own curve where other figures changed too.
const curves = (() => {

  const KINDS = {
    threads: { title: "Block size", axis: "threads per block", hue: "warps", figures: (on) => range(32, on.threads, 32), bars: true, show: number },
    registers: { title: "Registers", axis: "registers per thread", hue: "registers", figures: () => range(1, 255, 1), show: number },
    shared: { title: "Shared memory, static and dynamic", axis: "shared memory per block, KB", hue: "shared", figures: (on) => range(0, on.shared_per_block_optin, on.shared_unit), show: kilo },
  };
  function range(first, last, step) { return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, place) => first + place * step); }
  // Exact for multiples of 128 B, as all steps are.
  function kilo(bytes) { return String(Math.round((bytes / 1024) * 1000) / 1000); }

  // Beyond 48 KB the curve is that of a kernel that opts in.
  const beyond = (on, setting, name, figure) => name === "shared" && setting.optin === null && figure > on.shared_per_block;

  // {first, last, answer, wide} of each run of figures with the same blocks and warps; of block sizes of each.
  function steps(tables, setting, name, apart = KINDS[name].bars) {
    const on = tables.devices[setting.device];
    const figures = [...new Set([...KINDS[name].figures(on), lookup.current(setting, name)])].sort((one, other) => one - other);
    const found = [];
    for (const figure of figures) {
      const wide = beyond(on, setting, name, figure);
      const answer = lookup.at(tables, wide ? { ...setting, optin: "max" } : setting, name, figure);
      const before = found.at(-1);
      if (before && !apart && before.wide === wide && before.answer.blocks === answer.blocks && before.answer.warps === answer.warps) before.last = figure;
      else found.push({ first: figure, last: figure, answer, wide });
    }
    return found;
  }

  const says = (answer) => (answer.blocks ? `${count(answer.blocks, "block")}, ${answer.percent}` : "cannot launch");

  function draw(tables, setting, { built, before }, name, width, pick) {
    const { bars, show, axis, figures } = KINDS[name];
    const on = tables.devices[setting.device];
    const runs = steps(tables, setting, name);
    const now = lookup.current(setting, name);
    const here = lookup.answer(tables, setting);
    const most = runs.at(-1).last;
    const slot = (figure) => runs.findIndex(({ last }) => figure <= last);
    const shown = (figure) => figure <= most && (!bars || runs[slot(figure)].first <= figure);
    const unit = name === "shared" ? 1024 : 1;
    const step = [16, 32, 64, 128].find((size) => most / unit / size <= width / 52) || 128;
    const text = `${before && built && JSON.stringify(setting) === JSON.stringify(built) ? "after " : ""}${show(now)}: ${says(here)}`;
    const compared = before ? ` Before: ${show(lookup.current(before, name))}, ${says(lookup.answer(tables, before))}.` : "";
    let place = null;
    const choose = (event) => {
      const box = event.currentTarget.getBoundingClientRect();
      const part = Math.min(Math.max(((event.clientX - box.left) / box.width * width - place.low) / (place.high - place.low), 0), 1);
      const grain = name === "shared" ? on.shared_unit : 1;
      pick(name, bars ? runs[Math.min(Math.floor(part * runs.length), runs.length - 1)].first : Math.max(Math.round((most * part) / grain) * grain, name === "registers" ? 1 : 0));
    };
    return chart.axes(width, { height: 236, top: before ? 50 : 36, class: pick ? "chart chosen" : "chart", label: `Occupancy over ${axis}: now ${text}.${compared} The table below has every step.`, onclick: pick ? choose : null,
      up: { ticks: range(0, 4, 1).map((part) => (part * on.warps) / 4), text: (warps) => `${(100 * warps) / on.warps} %` },
      across: { most, name: axis, text: show, place: bars ? (figure) => (slot(figure) + 0.5) / runs.length : null, ticks: bars ? figures(on).filter((figure) => figure % 128 === 0) : range(0, most, step * unit) },
      parts: (made) => {
        place = made;
        const { x, y, write, top, low, high } = made;
        const label = (figure, text, up, kind = "cliff") => write(x(figure), up, text, { class: kind });
        // The setting's point takes its label's place first, then that of the kernel before.
        const own = label(now, text, top - 14, "here");
        const points = [point(now, here, top - 9, "point", text)];
        if (before && shown(lookup.current(before, name))) points.unshift(...earlier());
        if (built && lookup.current(built, name) !== now && shown(lookup.current(built, name))) points.push(asBuilt());
        return [bars ? columns() : curve(runs), points, cliffs(), own];

        function point(figure, answer, from, kind, title) {
          return [svg("line", { class: "drop", x1: x(figure), x2: x(figure), y1: from, y2: y(answer.warps) }), chart.titled("circle", { class: kind, cx: x(figure), cy: y(answer.warps), r: 5.5 }, title)];
        }

        function earlier() {
          const figure = lookup.current(before, name), answer = lookup.answer(tables, before);
          const text = `before ${show(figure)}: ${says(answer)}`;
          const line = bars ? null : corners(steps(tables, before, name), tables.devices[before.device].warps / on.warps);
          return [line && line !== corners(runs) ? svg("path", { class: "line earlier", d: line }, svg("title", {}, "before")) : null,
            point(figure, { warps: answer.fraction * on.warps }, top - 9, "point before", text), label(figure, text, top - 28)];
        }

        function asBuilt() {
          const figure = lookup.current(built, name), level = y(runs[slot(figure)].answer.warps);
          return [chart.titled("path", { class: "built", d: `M${x(figure)} ${level - 7}l7 7l-7 7l-7 -7z` }, `as built: ${show(figure)}`), label(figure, "as built", level - 12)];
        }

        // Of a stretch of a curve its steps, each from halfway to the one before to halfway to the next.
        function corners(some, scale = 1) {
          return chart.path(some.flatMap(({ first, last, answer }, at) => [at ? (some[at - 1].last + first) / 2 : first, at + 1 < some.length ? (last + some[at + 1].first) / 2 : last]
            .map((figure) => [x(figure), y(answer.warps / scale)])));
        }

        function curve(all) {
          const [plain, wide] = [false, true].map((kind) => all.filter((run) => run.wide === kind));
          const from = wide.length ? x(wide[0].first) : 0;
          return [svg("path", { class: "area", d: `${corners(plain)}V${y(0)}H${low}Z` }), svg("path", { class: "line", d: corners(plain) }),
            wide.length ? [svg("path", { class: "line optin", d: corners(wide) }), svg("line", { class: "optin-from", x1: from, x2: from, y1: y(on.warps), y2: y(0) }), write(from + 5, y(on.warps) + 12, "opted in", { class: "tick" }, "start")] : null];
        }

        function columns() {
          const best = Math.max(...runs.map(({ answer }) => answer.warps)), wide = (high - low) / runs.length;
          return runs.map(({ first, answer: { blocks, warps }, answer }) => {
            const kind = [first === now ? "now" : "", warps === best && best ? "best" : "", blocks ? "" : "fails"].join(" ");
            return [chart.titled("rect", { class: `column ${kind}`, x: x(first) - wide * 0.38, width: wide * 0.76, y: blocks ? y(warps) : y(0) - 3, height: blocks ? y(0) - y(warps) : 3 }, `${show(first)}: ${says(answer)}`),
              blocks && warps === best && first !== now ? label(first, show(first), y(warps) - 5) : null];
          });
        }

        // Where one register or byte more costs warps: those beside the setting first, then the widest steps.
        function cliffs() {
          if (bars) return null;
          const found = runs.slice(0, -1).map((run, at) => ({ ...run, near: Math.abs(slot(now) - at) <= 1, falls: run.answer.warps !== runs[at + 1].answer.warps })).filter(({ falls }) => falls)
            .sort((one, other) => other.near - one.near || (other.last - other.first) - (one.last - one.first));
          return found.map(({ last, answer }) => [chart.titled("circle", { class: "edge", cx: x(last), cy: y(answer.warps), r: 2.4 }, `up to ${show(last)}: ${says(answer)}`),
            write(x(last) + 3, y(answer.warps) - 6, show(last), { class: "cliff" }) || write(x(last) + 6, y(answer.warps) + 4, show(last), { class: "cliff" }, "start")]);
        }
      } });
  }

  function listed(tables, setting, name) {
    const { axis, show } = KINDS[name];
    return table({ title: `Steps over ${axis}`, step: Infinity, rows: steps(tables, setting, name, false), columns: [
      { label: axis, cell: ({ first, last, wide }) => `${first === last ? show(first) : `${show(first)}–${show(last)}`}${wide ? " (opted in)" : ""}` },
      { label: "blocks", num: true, cell: ({ answer }) => number(answer.blocks) }, { label: "warps", num: true, cell: ({ answer }) => number(answer.warps) },
      { label: "occupancy", num: true, cell: ({ answer }) => (answer.blocks ? answer.percent : "cannot launch") }] });
  }

  // A figure that draws itself anew in whatever width it has; pick(name, figure) sets what is clicked, if anything is; `of`
  // tells it from others of its name.
  function figure(name, pick, of = "") {
    let given = null;
    const { node: canvas, paint } = chart.drawn((width) => draw(given.tables, given.setting, given.points, name, width, pick), "canvas");
    const listing = h("div", {});
    const again = () => {
      paint();
      if (given && details.open) listing.replaceChildren(listed(given.tables, given.setting, name));
    };
    const details = fold(`steps ${name}${of}`, null, "Every step as a table", () => listing);
    details.addEventListener("toggle", again);
    const node = h("figure", { class: `curve ${KINDS[name].hue}` }, h("figcaption", {}, KINDS[name].title), canvas, details);
    return { node, draw: (tables, setting, points) => { given = { tables, setting, points }; again(); } };
  }

  // The figures of all resources: their nodes, and what draws them anew.
  function drawn(tables, setting, points, pick, of) {
    const figures = Object.keys(KINDS).map((name) => figure(name, pick, of));
    const draw = (...anew) => figures.forEach((each) => each.draw(...anew));
    draw(tables, setting, points);
    return { nodes: figures.map(({ node }) => node), draw };
  }

  // What the marks of a comparison mean.
  const key = () => h("p", { class: "quiet small curve-key" }, "○ before, ● after; a dashed grey line is the curve as it was before.");

  return { drawn, key };
})();
