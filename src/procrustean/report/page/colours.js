// Colours are variables of the style sheet, so light, dark and print need no drawing anew.

const METHOD_COLOURS = 8;
const DASHES = ["", "7 4", "2 3", "10 3 2 3", "14 4", "6 2 2 2 2 2"];
const MARKS = [
  (r) => `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`,
  (r) => `M${-r * 0.9} ${-r * 0.9}H${r * 0.9}V${r * 0.9}H${-r * 0.9}Z`,
  (r) => `M0 ${-r * 1.2}L${r * 1.1} ${r * 0.8}H${-r * 1.1}Z`,
  (r) => `M0 ${-r * 1.3}L${r * 1.3} 0L0 ${r * 1.3}L${-r * 1.3} 0Z`,
  (r) => `M0 ${r * 1.2}L${r * 1.1} ${-r * 0.8}H${-r * 1.1}Z`,
];

// Colour, dash and mark of a method: the same wherever its name appears on the page.
// Each round of colours has another dash, and every other one a shade nearer to the ink, which stands out all the more;
// after all dashes the shades change places. So 96 lines, and 48 marks, differ in what is drawn.
function methodLook(number) {
  const round = Math.floor(number / METHOD_COLOURS);
  const hue = `var(--method-${number % METHOD_COLOURS})`;
  const shaded = (round + Math.floor(round / DASHES.length)) % 2 === 1;
  return {
    colour: shaded ? `color-mix(in oklab, ${hue} 70%, var(--ink))` : hue,
    dash: DASHES[round % DASHES.length],
    mark: MARKS[number % MARKS.length],
  };
}

// The dash of the second quantity of a method in one chart.
function secondDash(dash) {
  return dash ? `${dash} 1 4` : "4 3";
}

// The classes from the largest to the smallest.
function bySize(counts) {
  return counts.map((_, index) => index).sort((a, b) => counts[b] - counts[a] || a - b);
}

// Colours from the largest class to the smallest: by rank, which keeps equal classes apart, and by size.
function classColours(counts, order) {
  const logs = order.map((index) => Math.log(Math.max(1, counts[index])));
  const range = logs[0] - logs[logs.length - 1];
  const colours = [];
  order.forEach((index, position) => {
    const rank = order.length > 1 ? position / (order.length - 1) : 0;
    const size = range > 0 ? (logs[0] - logs[position]) / range : rank;
    colours[index] = between(0.6 * rank + 0.4 * size);
  });
  return colours;
}

function between(share) {
  const [from, to, part] = share < 0.5 ? ["large", "middle", share * 2] : ["middle", "small", share * 2 - 1];
  return `color-mix(in oklab, var(--class-${to}) ${(100 * part).toFixed(1)}%, var(--class-${from}))`;
}

function swatch(colour, dash = "") {
  const length = dash ? 34 : 18; // a dash needs room to be recognised
  return shape("svg", { class: "swatch", viewBox: `0 0 ${length} 8`, width: length, height: 8, "aria-hidden": "true" },
    shape("line", { x1: 1, y1: 4, x2: length - 1, y2: 4, "stroke-dasharray": dash, style: { stroke: colour } }));
}

function markSwatch({ colour, mark }) {
  return shape("svg", { class: "swatch", viewBox: "-6 -6 12 12", width: 12, height: 12, "aria-hidden": "true" },
    shape("path", { d: mark(4), style: { fill: colour } }));
}
