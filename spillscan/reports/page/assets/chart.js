// Charts: a drawing as wide as its container, axes with round values, lines with gaps, labels that do not overlap.
const chart = (() => {
  const CHARACTER = 7.2; // pixels, bold ones too

  // A container and the function that draws in it, now and whenever the width changes: {node, paint}.
  function drawn(draw, kind = "drawn") {
    const node = h("div", { class: kind });
    let width = 0;
    const paint = () => { if (width) node.replaceChildren(draw(width)); };
    new ResizeObserver(() => {
      const wide = Math.floor(node.clientWidth);
      if (wide && wide !== width) { width = wide; paint(); }
    }).observe(node);
    return { node, paint };
  }

  // About `wanted` round values from 0 to at least `most`.
  function ticks(most, wanted) {
    const rough = Math.max(1, most) / wanted;
    const power = 10 ** Math.floor(Math.log10(rough));
    const round = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
    const step = Math.max(1, round);
    return Array.from({ length: Math.ceil(Math.max(1, most) / step - 1e-9) + 1 }, (_, i) => i * step);
  }

  // write(x, y, text, attributes, anchor): a label within the width; null if it would overlap an earlier one.
  function writer(width) {
    const taken = [];
    return (x, y, text, attributes = {}, anchor = "middle") => {
      const wide = text.length * CHARACTER + 4;
      const left = Math.max(1, Math.min(anchor === "middle" ? x - wide / 2 : anchor === "end" ? x - wide : x, width - wide));
      const box = [left, y - 11, left + wide, y + 3];
      if (taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) return null;
      taken.push(box);
      return svg("text", { x: left + wide / 2, y, "text-anchor": "middle", ...attributes }, text);
    };
  }

  // A line through points [x, y]; null is a gap.
  const path = (points) => points.map((at, i) => (at ? `${i && points[i - 1] ? "L" : "M"}${at[0].toFixed(1)} ${at[1].toFixed(1)}` : "")).join("");
  const titled = (tag, attributes, title) => svg(tag, attributes, svg("title", {}, title));

  // A chart with axes. `across`: {most, ticks, text, name}, `up` the same, or null; parts({x, y, write, low, high, top,
  // floor, width}) draws in it. Further properties are attributes.
  function axes(width, { height, label, across, up, parts, top = 14, right = 10, left: fixed, role = "img", ...attributes }) {
    const marks = up ? up.ticks || ticks(up.most, up.wanted || 4) : [];
    const labels = marks.map((up && up.text) || number);
    const low = fixed ?? 14 + 7.2 * Math.max(1, ...labels.map(({ length }) => length));
    const high = width - right, floor = height - (across.name ? 42 : 27);
    const x = across.place ? (value) => low + (high - low) * across.place(value) : (value) => low + ((high - low) * value) / Math.max(across.most, 1e-9);
    const y = (value) => top + (floor - top) * (1 - value / marks.at(-1));
    const write = writer(width);
    const inside = parts({ x, y, write, low, high, top, floor, width });
    return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role, "aria-label": label, ...attributes },
      marks.map((value, at) => [svg("line", { x1: low, x2: high, y1: y(value), y2: y(value), class: value ? "grid-line" : "axis" }),
        svg("text", { class: "tick", x: low - 7, y: y(value) + 4, "text-anchor": "end" }, labels[at])]),
      [...across.ticks].reverse().map((value) => write(x(value), floor + 18, String((across.text || number)(value)), { class: "tick" })),
      up && up.name ? svg("text", { x: low, y: 11 }, up.name) : null,
      across.name ? svg("text", { class: "axis-name", x: (low + high) / 2, y: height - 5, "text-anchor": "middle" }, across.name) : null,
      inside);
  }

  return { drawn, ticks, axes, path, titled };
})();
