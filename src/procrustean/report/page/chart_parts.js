// The parts a chart of lines is drawn from.

function drawnLine(line, xAt, yAt, lines, marked) {
  let path = "";
  let pen = "M";
  line.x.forEach((x, index) => {
    if (line.y[index] === null) pen = "M";
    else {
      path += `${pen}${xAt(x).toFixed(1)} ${yAt(line.y[index]).toFixed(1)}`;
      pen = "L";
    }
  });
  const style = { stroke: line.colour };
  const marks = marked || line.x.length === 1
    ? line.x.map((x, index) => line.y[index] === null ? null
      : shape("path", { d: (line.mark ?? MARKS[0])(4), transform: `translate(${xAt(x)} ${yAt(line.y[index])})`, style: { fill: line.colour } }))
    : [];
  return shape("g", {},
    shape("path", { class: "line", d: path, "stroke-dasharray": line.dash, "stroke-width": lines > 20 ? 1 : 1.7, style }), marks);
}

function band(line, xAt, yAt, domain) {
  if (!line.sd || line.x.length < 2) return null;
  const within = (value) => yAt(Math.min(domain[1], Math.max(domain[0], value))).toFixed(1);
  const upper = [];
  const lower = [];
  line.x.forEach((x, index) => {
    if (line.y[index] === null || line.sd[index] === null) return;
    upper.push(`${xAt(x).toFixed(1)} ${within(line.y[index] + line.sd[index])}`);
    lower.unshift(`${xAt(x).toFixed(1)} ${within(line.y[index] - line.sd[index])}`);
  });
  return upper.length ? shape("path", { class: "band", d: `M${[...upper, ...lower].join("L")}Z`, style: { fill: line.colour } }) : null;
}

function yAxis(domain, yAt, right, left, unit) {
  return shape("g", { class: "axis" }, labelledTicks(domain[0], domain[1], Math.max(4, (yAt(domain[0]) - yAt(domain[1])) / 42)).map(({ value, text }) => [
    shape("line", { class: "grid", x1: left, x2: right, y1: yAt(value), y2: yAt(value) }),
    shape("text", { x: left - 6, y: yAt(value) + 4, "text-anchor": "end" }, `${text}${unit === "%" ? " %" : ""}`),
  ]));
}

function epochAxis(domain, xAt, bottom, width) {
  const shown = ticks(domain[0], domain[1], Math.min(8, width / 70)).filter(Number.isInteger);
  return shape("g", { class: "axis" },
    shown.map((value) => shape("text", { x: xAt(value), y: bottom + 16, "text-anchor": "middle" }, String(value))),
    shape("text", { class: "axis-title", x: (xAt(domain[0]) + xAt(domain[1])) / 2, y: bottom + 30, "text-anchor": "middle" }, "epoch"));
}

const MOST_NAMES = 40;
const LONGEST_NAME = 13;

function namesTooWide(names, width) {
  const longest = Math.min(LONGEST_NAME, Math.max(...names.map((name) => [...name].length)));
  return names.length <= MOST_NAMES && longest * 7 > (width - 80) / names.length;
}

function nameAxis(names, xAt, bottom, rotated) {
  if (names.length > MOST_NAMES) {
    return shape("g", { class: "axis" }, shape("text", {
      class: "axis-title", x: (xAt(0) + xAt(names.length - 1)) / 2, y: bottom + 18, "text-anchor": "middle",
    }, `${names.length} classes, from the largest to the smallest`));
  }
  return shape("g", { class: "axis" }, names.map((name, index) => shape("text", {
    "text-anchor": rotated ? "end" : "middle",
    transform: `translate(${xAt(index) + (rotated ? 3 : 0)} ${bottom + 14})${rotated ? " rotate(-38)" : ""}`,
  }, shortened(name, LONGEST_NAME))));
}

// Bars of the logarithm, for class sizes span several powers of ten.
function barStrip({ values, label }, xAt, top, height, inset, left) {
  const largest = Math.log(Math.max(...values) + 1);
  const width = Math.max(1, Math.min(26, Math.max(1, inset * 1.2)));
  return shape("g", { class: "bars" },
    shape("text", { class: "axis-title", x: left - 6, y: top + height / 2 + 4, "text-anchor": "end" }, label),
    values.map((value, index) => {
      const tall = Math.max(1, (Math.log(value + 1) / largest) * height);
      return shape("rect", { x: xAt(index) - width / 2, y: top + height - tall, width, height: tall });
    }));
}

function referenceLine(value, yAt, left, right, domain) {
  if (value < domain[0] || value > domain[1]) return null;
  return shape("line", { class: "reference", x1: left, x2: right, y1: yAt(value), y2: yAt(value) });
}

// Names at the ends of the lines, moved apart where they would overlap.
function endLabels(lines, xAt, yAt, width) {
  const placed = lines
    .map((line) => ({ line, index: line.y.findLastIndex((value) => value !== null) }))
    .filter(({ index }) => index >= 0)
    .map(({ line, index }) => ({ line, x: xAt(line.x[index]), y: yAt(line.y[index]) }))
    .sort((a, b) => a.y - b.y);
  placed.forEach((one, number) => {
    if (number > 0) one.y = Math.max(one.y, placed[number - 1].y + 13);
  });
  return shape("g", { class: "end-labels" }, placed.map(({ line, x, y }) =>
    shape("text", { x: Math.min(x + 6, width - 78), y: y + 4, style: { fill: line.colour } }, shortened(line.label, 12))));
}

function shortened(text, longest) {
  const letters = [...text];
  return letters.length <= longest ? text : letters.slice(0, longest - 1).join("") + "…";
}
