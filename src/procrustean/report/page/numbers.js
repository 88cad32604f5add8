// Numbers as people read them, and scales.

function oneDecimal(value) {
  return value === null || value === undefined ? "—" : value.toFixed(1);
}

function significant(value) {
  if (value === null || value === undefined) return "—";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 100000)) return value.toExponential(2);
  return String(Number(value.toPrecision(3)));
}

// The spread has as many decimals as the value.
function withSpread(value, spread, show) {
  const text = show(value);
  if (spread === null || spread === undefined || value === null) return text;
  const decimals = text.includes("e") ? null : (text.split(".")[1] ?? "").length;
  return `${text} ± ${decimals === null ? significant(spread) : spread.toFixed(decimals)}`;
}

function whole(value) {
  return value.toLocaleString("en");
}

function scale([low, high], [from, to]) {
  const span = high - low || 1;
  return (value) => from + ((value - low) / span) * (to - from);
}

// Ticks with their texts, which have the decimals of the step: 102.5 beside 100.0 is not 103. Very small and very large
// numbers are written as elsewhere.
function labelledTicks(low, high, count) {
  const values = ticks(low, high, count);
  const shown = values.map(significant);
  if (shown.some((text) => text.includes("e"))) return values.map((value, index) => ({ value, text: shown[index] }));
  const decimals = Math.max(0, ...values.map((value) => (String(value).split(".")[1] ?? "").length));
  return values.map((value) => ({ value, text: value.toFixed(decimals) }));
}

// Round numbers that cover an interval with about `count` steps.
function ticks(low, high, count) {
  const raw = (high - low) / Math.max(1, count) || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw * 0.999);
  const found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-9; value += step) {
    found.push(Number(value.toPrecision(12)));
  }
  return found;
}

// An interval that holds all values, with a little room.
function span(values, floor = null) {
  const known = values.filter((value) => value !== null && Number.isFinite(value));
  if (!known.length) return [0, 1];
  let low = known.reduce((a, b) => Math.min(a, b));
  let high = known.reduce((a, b) => Math.max(a, b));
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  low -= room;
  high += room;
  return [floor === null ? low : Math.max(floor, low), high];
}

// The part of an interval in which shares in % can be.
function withinPercent([low, high]) {
  return [Math.max(0, low), Math.min(100, high)];
}

// An interval of shares in % that holds all values and is at least so wide: a tenth of a point must not look like a gap.
function percentSpan(values, least) {
  const [low, high] = span(values);
  const missing = Math.max(0, least - (high - low)) / 2;
  return withinPercent([Math.min(low - missing, 100 - least), Math.max(high + missing, least)]);
}

// The position of the nearest number in a sorted list.
function nearest(sorted, value) {
  let low = 0;
  let high = sorted.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle;
    else high = middle;
  }
  return Math.abs(sorted[high] - value) < Math.abs(sorted[low] - value) ? high : low;
}
