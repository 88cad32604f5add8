// Lines along the epochs, or along the classes, with the values of a position under pointer or keyboard.

const MOST_BANDS = 6; // more of them hide the lines
const MOST_MARKS = 60;
const MOST_END_LABELS = 12; // more of them are pushed away from their lines

// lines: {label, colour, dash, mark, x: [], y: [], sd: [] or null}; values may be null.
// names: what the positions on the x axis are called, where these are no epochs.
// bars: {values, label}: a strip of bars below, one per position.
// linked: charts that show the cursor at the same position.
function lineChart(options) {
  const { width, lines, title, unit = "", show = significant, names = null, bars = null, linked = [] } = options;
  const height = options.height ?? 250;
  const rotated = names !== null && namesTooWide(names, width);
  const below = (rotated ? 58 : 34) + (bars ? 46 : 0);
  const labelled = options.endLabels && lines.length <= MOST_END_LABELS;
  const edge = { left: 44, right: labelled ? 84 : 14, top: 12, bottom: below };
  const positions = [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b);
  const xDomain = positions.length > 1
    ? [positions[0], positions[positions.length - 1]]
    : [(positions[0] ?? 0) - 1, (positions[0] ?? 0) + 1];
  const shares = unit === "%";
  const covered = span(lines.flatMap((line) => line.y), options.floor ?? null);
  const yDomain = options.domain ?? (shares ? withinPercent(covered) : covered);
  const limits = shares ? withinPercent(yDomain) : yDomain;
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
    labelled ? endLabels(lines, xAt, yAt, width) : null,
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
