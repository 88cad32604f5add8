// Lines along the epochs, or along the classes, with the values of a position under pointer or keyboard.

const MOST_BANDS = 6; // more of them hide the lines
const MOST_MARKS = 60;

// lines: {label, colour, dash, mark, x: [], y: [], sd: [] or null}; values may be null.
// names: what the positions on the x axis are called, where these are no epochs.
// bars: {values, label}: a strip of bars below, one per position.
// linked: charts that show the cursor at the same position.
function lineChart(options) {
  const { width, lines, title, unit = "", show = significant, names = null, bars = null, linked = [] } = options;
  const height = options.height ?? 250;
  const rotated = names !== null && names.length <= 40;
  const below = (rotated ? 58 : 34) + (bars ? 46 : 0);
  const edge = { left: 44, right: options.endLabels ? 84 : 14, top: 12, bottom: below };
  const positions = [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b);
  const xDomain = positions.length > 1
    ? [positions[0], positions[positions.length - 1]]
    : [(positions[0] ?? 0) - 1, (positions[0] ?? 0) + 1];
  const yDomain = options.domain ?? span(lines.flatMap((line) => line.y), options.floor ?? null);
  const limits = unit === "%" ? [Math.max(0, yDomain[0]), Math.min(100, yDomain[1])] : yDomain;
  const inset = names ? Math.min(24, (width - edge.left - edge.right) / (2 * Math.max(1, names.length))) : 0;
  const xAt = scale(xDomain, [edge.left + inset, width - edge.right - inset]);
  const yAt = scale(yDomain, [height - edge.bottom, edge.top]);

  const cursor = shape("g", { class: "cursor", hidden: true });
  const svg = shape("svg", {
    class: "chart", viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "img",
    "aria-label": `${title}. ${lines.length} lines. Arrow keys move along the axis and read the values.`,
  },
    yAxis(yDomain, yAt, width - edge.right, edge.left, unit),
    names ? nameAxis(names, xAt, height - edge.bottom + (bars ? 46 : 0), rotated) : epochAxis(xDomain, xAt, height - edge.bottom, width),
    bars ? barStrip(bars, xAt, height - edge.bottom + 8, 34, inset, edge.left) : null,
    options.reference !== undefined ? referenceLine(options.reference, yAt, edge.left, width - edge.right, yDomain) : null,
    lines.length <= MOST_BANDS ? lines.map((line) => band(line, xAt, yAt, limits)) : null,
    lines.map((line) => drawnLine(line, xAt, yAt, lines.length, names !== null && names.length <= MOST_MARKS)),
    options.endLabels ? endLabels(lines, xAt, yAt, width) : null,
    cursor);

  const chart = {
    mark(position) {
      cursor.replaceChildren(...(position === null ? [] : cursorShapes(position)));
      cursor.toggleAttribute("hidden", position === null);
    },
  };
  linked.push(chart);
  const chartsTogether = linked;

  function cursorShapes(position) {
    const x = xAt(position);
    const dots = valuesAt(lines, position).map(({ line, index }) =>
      shape("circle", { cx: xAt(line.x[index]), cy: yAt(line.y[index]), r: 3.2, style: { fill: line.colour } }));
    return [shape("line", { x1: x, x2: x, y1: edge.top, y2: height - edge.bottom, class: "cursor-line" }), ...dots];
  }

  function showAt(position, pointerY, clientX, clientY) {
    for (const other of chartsTogether) other.mark(position);
    const found = valuesAt(lines, position);
    const distance = ({ line, index }) => Math.abs(yAt(line.y[index]) - pointerY);
    const closest = found.length ? found.reduce((a, b) => (distance(a) <= distance(b) ? a : b)) : null;
    svg.querySelectorAll(".line").forEach((path, number) =>
      path.classList.toggle("near", closest !== null && lines[number] === closest.line));
    const chosen = [...found].sort((a, b) => distance(a) - distance(b)).slice(0, MOST_ROWS);
    chosen.sort((a, b) => b.line.y[b.index] - a.line.y[a.index]);
    const rows = chosen.map((one) => ({
      sample: one.line.mark ? markSwatch(one.line) : swatch(one.line.colour, one.line.dash),
      label: one.line.label + (one.line.x[one.index] === position ? "" : ` (epoch ${one.line.x[one.index]})`),
      value: withSpread(one.line.y[one.index], one.line.sd?.[one.index], show) + (unit ? ` ${unit}` : ""),
      near: one === closest,
    }));
    showTip(clientX, clientY, options.heading ? options.heading(position) : `Epoch ${position}`, rows, found.length - chosen.length);
  }

  function leave() {
    for (const other of chartsTogether) other.mark(null);
    svg.querySelectorAll(".near").forEach((path) => path.classList.remove("near"));
    hideTip();
  }

  function point(event) {
    const box = svg.getBoundingClientRect();
    const zoom = width / box.width;
    const x = (event.clientX - box.left) * zoom;
    const inDomain = scale([xAt(xDomain[0]), xAt(xDomain[1])], xDomain)(x);
    keyboardAt = nearest(positions, inDomain);
    showAt(positions[keyboardAt], (event.clientY - box.top) * zoom, event.clientX, event.clientY);
  }

  let keyboardAt = positions.length - 1;
  function readByKeyboard() {
    const box = svg.getBoundingClientRect();
    const x = box.left + (xAt(positions[keyboardAt]) * box.width) / width;
    showAt(positions[keyboardAt], height / 2, x, box.top + box.height / 2);
  }
  if (positions.length) {
    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (event) => {
      const last = positions.length - 1;
      const moved = { ArrowLeft: keyboardAt - 1, ArrowRight: keyboardAt + 1, Home: 0, End: last }[event.key];
      if (event.key === "Escape") leave();
      if (moved === undefined) return;
      event.preventDefault();
      keyboardAt = Math.min(last, Math.max(0, moved));
      readByKeyboard();
    });
  }
  return svg;
}

// The lines that have a value at a position, or beside it no further than they were measured apart.
function valuesAt(lines, position) {
  const found = [];
  for (const line of lines) {
    if (!line.x.length) continue;
    const index = nearest(line.x, position);
    const gap = line.x.length > 1 ? Math.abs(line.x[Math.max(1, index)] - line.x[Math.max(1, index) - 1]) : 0;
    if (line.y[index] !== null && Math.abs(line.x[index] - position) <= gap) found.push({ line, index });
  }
  return found;
}

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
  return shape("g", { class: "axis" }, ticks(domain[0], domain[1], Math.max(4, (yAt(domain[0]) - yAt(domain[1])) / 42)).map((value) => [
    shape("line", { class: "grid", x1: left, x2: right, y1: yAt(value), y2: yAt(value) }),
    shape("text", { x: left - 6, y: yAt(value) + 4, "text-anchor": "end" }, `${significant(value)}${unit === "%" ? " %" : ""}`),
  ]));
}

function epochAxis(domain, xAt, bottom, width) {
  const shown = ticks(domain[0], domain[1], Math.min(8, width / 70)).filter(Number.isInteger);
  return shape("g", { class: "axis" },
    shown.map((value) => shape("text", { x: xAt(value), y: bottom + 16, "text-anchor": "middle" }, String(value))),
    shape("text", { class: "axis-title", x: (xAt(domain[0]) + xAt(domain[1])) / 2, y: bottom + 30, "text-anchor": "middle" }, "epoch"));
}

function nameAxis(names, xAt, bottom, rotated) {
  if (!rotated) {
    return shape("g", { class: "axis" }, shape("text", {
      class: "axis-title", x: (xAt(0) + xAt(names.length - 1)) / 2, y: bottom + 18, "text-anchor": "middle",
    }, `${names.length} classes, from the largest to the smallest`));
  }
  return shape("g", { class: "axis" }, names.map((name, index) => shape("text", {
    "text-anchor": "end", transform: `translate(${xAt(index) + 3} ${bottom + 14}) rotate(-38)`,
  }, shortened(name, 13))));
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
