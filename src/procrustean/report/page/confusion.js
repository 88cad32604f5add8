// Which classes are taken for which others: the whole matrix for few classes, the worst pairs for any number.

function confusionMatrix(matrix, classes, width, title) {
  const longest = Math.min(9, Math.max(...classes.map((name) => [...name].length)));
  const label = 12 + 6 * longest;
  const below = 26 + 4.2 * longest;
  const cell = Math.min(44, (width - label - 6) / classes.length);
  const size = cell * classes.length;
  const totals = matrix.map((row) => row.reduce((a, b) => a + b, 0));
  const share = (row, column) => (totals[row] ? (100 * matrix[row][column]) / totals[row] : null);
  const cursor = shape("rect", { class: "cell-cursor", width: cell, height: cell, hidden: true });
  const svg = shape("svg", {
    class: "chart matrix", viewBox: `0 0 ${label + size + 4} ${size + below}`, tabindex: 0, role: "img",
    style: { "max-width": `${label + size + 4}px` },
    "aria-label": `${title}. Rows are true classes, columns predictions. Arrow keys read the cells.`,
  },
    matrix.map((row, r) => row.map((images, c) => matrixCell(share(r, c), images, r, c, cell, label))),
    classes.map((name, index) => [
      shape("text", { class: "cell-name", x: label - 6, y: index * cell + cell / 2 + 4, "text-anchor": "end" }, shortened(name, 9)),
      shape("text", { class: "cell-name", "text-anchor": "end", transform: `translate(${label + index * cell + cell / 2 + 4} ${size + 12}) rotate(-45)` }, shortened(name, 9)),
    ]),
    shape("text", { class: "axis-title", x: label + size, y: size + below - 2, "text-anchor": "end" }, "rows true, columns predicted"),
    cursor);

  let at = [0, 0];
  function read(clientX, clientY) {
    const [row, column] = at;
    cursor.setAttribute("x", label + column * cell);
    cursor.setAttribute("y", row * cell);
    cursor.removeAttribute("hidden");
    const verdict = row === column ? "recognised" : `taken for ${classes[column]}`;
    showTip(clientX, clientY, `${classes[row]} ${verdict}`, [{
      sample: "", label: totals[row] ? `${whole(matrix[row][column])} of ${whole(totals[row])}` : "no test images",
      value: totals[row] ? `${oneDecimal(share(row, column))} %` : "",
    }]);
  }
  function leave() {
    cursor.setAttribute("hidden", "");
    hideTip();
  }
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const zoom = (label + size + 4) / box.width;
    const column = Math.floor(((event.clientX - box.left) * zoom - label) / cell);
    const row = Math.floor(((event.clientY - box.top) * zoom) / cell);
    if (column < 0 || row < 0 || column >= classes.length || row >= classes.length) return leave();
    at = [row, column];
    read(event.clientX, event.clientY);
  });
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key === "Escape") leave();
    if (!step) return;
    event.preventDefault();
    at = at.map((value, axis) => Math.min(classes.length - 1, Math.max(0, value + step[axis])));
    const box = svg.getBoundingClientRect();
    const zoom = box.width / (label + size + 4);
    read(box.left + (label + at[1] * cell) * zoom, box.top + (at[0] + 0.5) * cell * zoom);
  });
  return svg;
}

function matrixCell(share, images, row, column, cell, label) {
  const strength = share === null ? 0 : 100 * Math.sqrt(share / 100);
  const hue = row === column ? "var(--right)" : "var(--wrong)";
  const number = cell >= 25 && share !== null && share >= 0.5
    ? shape("text", {
      class: strength > 72 ? "cell-value strong" : "cell-value", "text-anchor": "middle",
      x: label + (column + 0.5) * cell, y: (row + 0.5) * cell + 4,
    }, share.toFixed(0))
    : null;
  return [
    shape("rect", {
      class: "cell", x: label + column * cell + 0.5, y: row * cell + 0.5, width: cell - 1, height: cell - 1,
      style: { fill: images ? `color-mix(in oklab, ${hue} ${strength.toFixed(1)}%, var(--cell))` : "var(--cell)" },
    }),
    number,
  ];
}

function worstConfusions(method, selection, classes, shown) {
  const pairs = method.worst[selection].slice(0, shown);
  if (!pairs.length) {
    return element("p", { class: "empty" }, "No confusion matrix is kept for this selection (none beyond 1000 classes, none without held-out images).");
  }
  const examples = selection === "last" ? method.examples : null;
  return element("ol", { class: "confusions" }, pairs.map((pair) => {
    const pictures = examples?.pictures[`${pair.true}-${pair.predicted}`] ?? [];
    const text = `${classes[pair.true]}, taken for ${classes[pair.predicted]}`;
    return element("li", {},
      element("div", { class: "pair" },
        element("span", { class: "pair-names" },
          element("strong", {}, classes[pair.true]), element("span", { class: "arrow", "aria-label": "taken for" }, " → "), element("strong", {}, classes[pair.predicted])),
        element("span", { class: "pair-share" }, `${oneDecimal((100 * pair.images) / pair.of)} %`,
          element("span", { class: "pair-count" }, ` ${whole(pair.images)} of ${whole(pair.of)}`))),
      element("div", { class: "meter", style: { "--share": `${(100 * pair.images) / pair.of}%` } }),
      pictures.length
        ? element("div", { class: "pictures" }, pictures.map((source) => element("img", { src: source, alt: `test image of ${text}` })))
        : null);
  }));
}
