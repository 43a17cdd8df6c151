// Occupancy over one figure, all else held: steps with each cliff marked, the setting's point, the kernel's own, and in a
// comparison of builds that of the kernel before, hollow, with its own curve where other figures changed too.
const curves = (() => {
  const { h, svg, number, count } = spillscan;
  const HEIGHT = 236;
  const EDGE = { left: 46, right: 14, top: 36, bottom: 40 };
  const CHARACTER = 6.6;

  const KINDS = {
    threads: { title: "Block size", axis: "threads per block", hue: "warps", figures: (on) => range(32, on.threads, 32), bars: true, show: number },
    registers: { title: "Registers", axis: "registers per thread", hue: "registers", figures: () => range(1, 255, 1), show: number },
    shared: { title: "Shared memory", axis: "shared memory per block, KB, static + dynamic", hue: "shared", figures: (on) => range(0, on.shared_per_block_optin, on.shared_unit), show: kilo },
  };

  function range(first, last, step) {
    return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, place) => first + place * step);
  }

  // Beyond 48 KB the curve is that of a kernel that opts in.
  const beyond = (on, setting, name, figure) => name === "shared" && setting.optin === null && figure > on.shared_per_block;

  function at(tables, setting, name, figure) {
    const on = tables.devices[setting.device];
    return lookup.at(tables, beyond(on, setting, name, figure) ? { ...setting, optin: "max" } : setting, name, figure);
  }

  // Exact for multiples of 128 B, as all steps are.
  function kilo(bytes) { return String(Math.round((bytes / 1024) * 1000) / 1000); }

  // [first, last, answer] of each run of figures with the same blocks and warps
  function steps(tables, setting, name) {
    const on = tables.devices[setting.device];
    const now = lookup.current(setting, name);
    const figures = [...new Set([...KINDS[name].figures(on, setting), now])].sort((one, other) => one - other);
    const found = [];
    for (const figure of figures) {
      const answer = at(tables, setting, name, figure);
      const before = found[found.length - 1];
      if (before && !KINDS[name].bars && beyond(on, setting, name, before[0]) === beyond(on, setting, name, figure) && before[2].blocks === answer.blocks && before[2].warps === answer.warps) before[1] = figure;
      else found.push([figure, figure, answer]);
    }
    return found;
  }

  const says = (answer) => (answer.blocks ? `${count(answer.blocks, "block")}, ${answer.percent}` : "cannot launch");

  // Labels that would lie on others are left out; the table has them all.
  function placer(width) {
    const taken = [];
    return (x, y, text, anchor = "middle") => {
      const wide = text.length * CHARACTER + 4;
      const left = Math.min(Math.max(anchor === "middle" ? x - wide / 2 : anchor === "end" ? x - wide : x, 1), width - wide);
      const box = [left, y - 11, left + wide, y + 3];
      if (taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) return null;
      taken.push(box);
      return left + wide / 2;
    };
  }

  // The point of the kernel before, hollow, with its label above that of the setting; and its curve, where it is another.
  function earlier(tables, setting, before, name, { x, y, up, free, most, shown, own }) {
    const on = tables.devices[before.device];
    const figure = lookup.current(before, name);
    if (figure > most || !shown(figure)) return [];
    const found = lookup.answer(tables, before);
    const level = y(found.fraction);
    const text = `before ${KINDS[name].show(figure)}: ${says(found)}`;
    const parts = [];
    if (!KINDS[name].bars) {
      const runs = steps(tables, before, name);
      const line = path(runs, runs, x, (answer) => y(answer.warps / on.warps));
      if (line !== own) parts.push(svg("path", { class: "line earlier", d: `M${line}` }, svg("title", {}, "before")));
    }
    return [...parts, svg("line", { class: "drop", x1: x(figure), x2: x(figure), y1: up + 19, y2: level }),
      svg("circle", { class: "point before", cx: x(figure), cy: level, r: 5.5 }, svg("title", {}, text)),
      svg("text", { class: "cliff", x: free(x(figure), up, text), y: up, "text-anchor": "middle" }, text)];
  }

  // The corners of a stretch of a curve as a path, without its first letter.
  function path(runs, some, x, y) {
    return some.flatMap((run) => {
      const [first, last, answer] = run;
      const index = runs.indexOf(run);
      const end = index + 1 < runs.length ? (last + runs[index + 1][0]) / 2 : last;
      const start = index ? (runs[index - 1][1] + first) / 2 : first;
      return [start, end].map((figure) => `${x(figure).toFixed(1)} ${y(answer).toFixed(1)}`);
    }).join("L");
  }

  function chart(tables, setting, { built, before }, name, width, pick) {
    const kind = KINDS[name];
    const on = tables.devices[setting.device];
    const runs = steps(tables, setting, name);
    const now = lookup.current(setting, name);
    const here = lookup.answer(tables, setting);
    const most = Math.max(runs[runs.length - 1][1], now);
    const after = before && built && JSON.stringify(setting) === JSON.stringify(built) ? "after " : "";
    const [low, high] = [EDGE.left, width - EDGE.right];
    const slot = (high - low) / (kind.bars ? runs.length : 1);
    const place = (figure) => runs.findIndex(([first, last]) => figure >= first && figure <= last);
    const x = kind.bars ? (figure) => low + (place(figure) + 0.5) * slot : (figure) => low + ((high - low) * figure) / most;
    const top = EDGE.top + (before ? 14 : 0);
    const y = (warps) => top + (HEIGHT - top - EDGE.bottom) * (1 - warps / on.warps);
    const free = placer(width);
    const parts = [];

    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      const level = y(share * on.warps);
      parts.push(svg("line", { class: "level", x1: low, x2: high, y1: level, y2: level }),
        svg("text", { class: "tick", x: low - 6, y: level + 4, "text-anchor": "end" }, `${100 * share} %`));
    }

    if (kind.bars) {
      const best = Math.max(...runs.map(([, , answer]) => answer.warps));
      for (const [figure, , answer] of runs) {
        const mark = [figure === now ? "now" : "", answer.warps === best && best ? "best" : "", answer.blocks ? "" : "fails"];
        parts.push(svg("rect", { class: `column ${mark.join(" ")}`, x: x(figure) - slot * 0.38, width: slot * 0.76,
          y: answer.blocks ? y(answer.warps) : y(0) - 3, height: answer.blocks ? y(0) - y(answer.warps) : 3 },
          svg("title", {}, `${kind.show(figure)}: ${says(answer)}`)));
      }
    } else {
      const corners = (some) => path(runs, some, x, (answer) => y(answer.warps));
      const plain = runs.filter(([first]) => !beyond(on, setting, name, first));
      const wide = runs.filter(([first]) => beyond(on, setting, name, first));
      parts.push(svg("path", { class: "area", d: `M${x(runs[0][0])} ${y(0)}L${corners(plain)}L${x(plain[plain.length - 1][1])} ${y(0)}Z` }),
        svg("path", { class: "line", d: `M${corners(plain)}` }));
      if (wide.length) {
        const edge = x(wide[0][0]);
        parts.push(svg("path", { class: "line optin", d: `M${corners(wide)}` }),
          svg("line", { class: "optin-from", x1: edge, x2: edge, y1: y(on.warps), y2: y(0) }),
          svg("text", { class: "tick", x: edge + 5, y: y(on.warps) + 12 }, "opted in"));
        free(edge + 30, y(on.warps) + 12, "opted in ");
      }
    }

    // the setting's point takes its label's place first
    const [px, py] = [x(now), y(here.warps)];
    const text = `${after}${kind.show(now)}: ${says(here)}`;
    const up = top - 14;
    const middle = free(px, up, text);
    const isBuilt = built && lookup.current(built, name) === now;
    parts.push(svg("line", { class: "drop", x1: px, x2: px, y1: up + 5, y2: y(0) }));
    if (built && !isBuilt) {
      const own = lookup.current(built, name);
      if (own <= most && (!kind.bars || place(own) >= 0)) {
        const level = y(at(tables, setting, name, own).warps);
        parts.push(svg("path", { class: "built", d: `M${x(own)} ${level - 7}l7 7l-7 7l-7 -7z` }, svg("title", {}, `as built: ${kind.show(own)}`)));
        const labelled = free(x(own), level - 12, "as built");
        if (labelled !== null) parts.push(svg("text", { class: "cliff", x: labelled, y: level - 12, "text-anchor": "middle" }, "as built"));
      }
    }
    const own = kind.bars ? "" : path(runs, runs, x, (answer) => y(answer.warps));
    const past = before ? earlier(tables, setting, before, name, { x, y: (share) => y(share * on.warps), up: top - 28, free, most, own,
      shown: (figure) => !kind.bars || place(figure) >= 0 }) : [];
    parts.push(past, svg("circle", { class: "point", cx: px, cy: py, r: 5.5 }));

    const ticks = [];
    if (kind.bars) {
      const best = runs.filter(([, , answer]) => answer.blocks && answer.warps === Math.max(...runs.map((run) => run[2].warps)));
      for (const [figure, , answer] of best) {
        const at = free(x(figure), y(answer.warps) - 5, kind.show(figure));
        if (at !== null) parts.push(svg("text", { class: "cliff", x: x(figure), y: y(answer.warps) - 5, "text-anchor": "middle" }, kind.show(figure)));
      }
      const wanted = name === "threads" ? [128, 256, 384, 512, 640, 768, 896, 1024] : [0, 4, 8, 12, 16];
      ticks.push(...wanted.filter((figure) => place(figure) >= 0));
    } else {
      const cliffs = runs.slice(0, -1).map(([first, last, answer], index) => ({ last, answer, near: Math.abs(place(now) - index), wide: last - first }))
        .filter(({ answer }, index) => answer.warps !== runs[index + 1][2].warps);
      for (const { last, answer } of cliffs) parts.push(svg("circle", { class: "edge", cx: x(last), cy: y(answer.warps), r: 2.4 },
        svg("title", {}, `up to ${kind.show(last)}: ${says(answer)}`)));
      const order = [...cliffs].sort((one, other) => (one.near <= 1 ? 0 : 1) - (other.near <= 1 ? 0 : 1) || other.wide - one.wide);
      for (const { last, answer } of order) {
        const label = kind.show(last);
        const level = y(answer.warps);
        for (const [right, down, anchor] of [[x(last) + 3, level - 6, "middle"], [x(last) + 6, level + 4, "start"]]) {
          const spot = free(right, down, label, anchor);
          if (spot === null) continue;
          parts.push(svg("text", { class: "cliff", x: spot, y: down, "text-anchor": "middle" }, label));
          break;
        }
      }
      const step = [16, 32, 64, 128].find((size) => (name === "registers" ? most : most / 1024) / size <= width / 52) || 128;
      const unit = name === "registers" ? 1 : 1024;
      for (let figure = 0; figure <= most; figure += step * unit) ticks.push(figure);
    }
    for (const figure of ticks) parts.push(
      svg("line", { class: "tick", x1: x(figure), x2: x(figure), y1: y(0), y2: y(0) + 4 }),
      svg("text", { class: "tick", x: x(figure), y: y(0) + 17, "text-anchor": "middle" }, kind.show(figure)));
    parts.push(svg("text", { class: "axis-name", x: (low + high) / 2, y: HEIGHT - 5, "text-anchor": "middle" }, kind.axis));
    parts.push(svg("text", { class: "here", x: middle, y: up, "text-anchor": "middle" }, text));

    const compared = before ? ` Before: ${kind.show(lookup.current(before, name))}, ${says(lookup.answer(tables, before))}.` : "";
    const choose = !pick ? null : (event) => {
      const box = event.currentTarget.getBoundingClientRect();
      const at = ((event.clientX - box.left) / box.width) * width;
      const figure = kind.bars ? runs[Math.min(Math.max(Math.floor((at - low) / slot), 0), runs.length - 1)][0]
        : Math.round((most * Math.min(Math.max((at - low) / (high - low), 0), 1)) / (name === "shared" ? on.shared_unit : 1)) * (name === "shared" ? on.shared_unit : 1);
      pick(name, Math.max(figure, name === "registers" ? 1 : 0));
    };
    return svg("svg", { class: pick ? "chart chosen" : "chart", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img",
      "aria-label": `Occupancy over ${kind.axis}: now ${text}.${compared} The table below has every step.`, ...(choose ? { onclick: choose } : {}) }, parts);
  }

  function table(tables, setting, name) {
    const kind = KINDS[name];
    const on = tables.devices[setting.device];
    const rows = [];
    for (const [first, last, answer] of steps(tables, setting, name)) {
      const before = rows[rows.length - 1];
      if (before && !beyond(on, setting, name, first) && before[2].blocks === answer.blocks && before[2].warps === answer.warps) before[1] = last;
      else rows.push([first, last, answer]);
    }
    return h("table", {},
      h("caption", { class: "hidden" }, `Occupancy over ${kind.axis}`),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, kind.axis), ["blocks", "warps", "occupancy"].map((head) => h("th", { class: "num", scope: "col" }, head)))),
      h("tbody", {}, rows.map(([first, last, answer]) => h("tr", {},
        h("td", {}, first === last ? kind.show(first) : `${kind.show(first)}–${kind.show(last)}`, beyond(on, setting, name, first) ? " (opted in)" : ""),
        h("td", { class: "num" }, number(answer.blocks)), h("td", { class: "num" }, number(answer.warps)),
        h("td", { class: "num" }, answer.blocks ? answer.percent : "cannot launch")))));
  }

  // A figure that draws itself anew in whatever width it has; pick(name, figure) sets what is clicked, if anything is.
  function figure(name, pick) {
    const kind = KINDS[name];
    const canvas = h("div", { class: "canvas" });
    const listing = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Steps over ${kind.axis}` });
    const details = h("details", {}, h("summary", {}, "Every step as a table"), listing);
    const node = h("figure", { class: `curve ${kind.hue}` }, h("figcaption", {}, kind.title), canvas, details);
    let given = null;
    let width = 0;
    let waiting = false;
    const paint = () => {
      waiting = false;
      if (!given || !width) return;
      canvas.replaceChildren(chart(given.tables, given.setting, given.points, name, width, pick));
      if (details.open) listing.replaceChildren(table(given.tables, given.setting, name));
    };
    details.addEventListener("toggle", paint);
    new ResizeObserver(([entry]) => {
      const size = Math.floor(entry.contentRect.width);
      if (size && size !== width) { width = size; paint(); }
    }).observe(canvas);
    const soon = () => { if (!waiting) { waiting = true; requestAnimationFrame(paint); } };
    return { node, draw: (tables, setting, points) => { given = { tables, setting, points }; soon(); } };
  }

  const NAMES = Object.keys(KINDS);
  // What the marks of a comparison mean.
  const key = () => h("p", { class: "quiet small curve-key" }, "○ before, ● after; a dashed grey line is the curve as it was before.");

  return { figure, key, NAMES };
})();
