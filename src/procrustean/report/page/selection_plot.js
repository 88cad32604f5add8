// The headline of every method under one way to choose the epoch: a dot per run, mean and spread.

const SELECTION_TEXTS = {
  last: { title: "Last epoch", remark: "The headline: nothing was chosen." },
  held_out: { title: "Chosen on held-out images", remark: "The epoch that did best on the held-out images." },
  oracle: { title: "Oracle: chosen on the test set", remark: "A bound, not a fair estimate." },
};

function selectionPlot(key, methods, domain, width, headline) {
  const { title, remark } = SELECTION_TEXTS[key];
  const known = methods.filter(({ method }) => method.selections[key]);
  const heading = [element("h3", {}, title), element("p", { class: "remark" }, remark)];
  if (!known.length) {
    return element("div", { class: `selection ${key}` }, heading,
      element("p", { class: "empty" }, "No run held images out (--hold-out), so there is no such choice."));
  }
  const row = 46;
  const height = known.length * row + 26;
  const xAt = scale(domain, [10, width - 10]);
  const svg = shape("svg", { class: "chart selection-chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": summary(title, known, key, headline) },
    labelledTicks(domain[0], domain[1], Math.min(5, width / 70)).map(({ value, text }) => [
      shape("line", { class: "grid", x1: xAt(value), x2: xAt(value), y1: 4, y2: height - 20 }),
      shape("text", { x: xAt(value), y: height - 5, "text-anchor": "middle" }, text),
    ]),
    known.map(({ method, look }, number) => methodRow(method, look, key, number * row, xAt, width)));
  return element("div", { class: `selection ${key}` }, heading, svg);
}

function methodRow(method, look, key, top, xAt, width) {
  const { mean, sd, runs } = method.selections[key];
  const y = top + 31;
  const [from, to] = withinPercent([mean - (sd ?? 0), mean + (sd ?? 0)]).map(xAt);
  const value = withSpread(mean, sd, oneDecimal);
  const hover = (event) => showTip(event.clientX, event.clientY, `${method.label}: ${value} %`, runs.map((run) => ({
    sample: markSwatch(look), label: `seed ${run.seed}, epoch ${run.epoch}`, value: `${oneDecimal(run.value)} %`,
  })));
  return shape("g", { class: "selection-row", onpointermove: hover, onpointerleave: hideTip },
    shape("rect", { class: "hit", x: 0, y: top, width, height: 46 }),
    shape("text", { class: "row-label", x: 2, y: top + 16 }, shortened(method.label, Math.floor((width - 90) / 7))),
    shape("text", { class: "row-value", x: width - 2, y: top + 16, "text-anchor": "end" }, value),
    shape("line", { class: "track", x1: 2, x2: width - 2, y1: y, y2: y }),
    sd === null ? null : shape("line", { class: "whisker", x1: from, x2: to, y1: y, y2: y, style: { stroke: look.colour } }),
    runs.length > 1 ? runs.map((run) => shape("circle", { class: "seed", cx: xAt(run.value), cy: y, r: 3, style: { fill: look.colour } })) : null,
    shape("path", { class: "mean", d: look.mark(6), transform: `translate(${xAt(mean)} ${y})`, style: { fill: look.colour } }));
}

function summary(title, known, key, headline) {
  const values = known.map(({ method }) => {
    const { mean, sd } = method.selections[key];
    return `${method.label} ${withSpread(mean, sd, oneDecimal)} percent`;
  });
  return `${title}, test ${headline}: ${values.join(", ")}.`;
}
