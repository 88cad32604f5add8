// Which classes the curves are drawn for.

const FEW_CLASSES = 12;
const FILTER_FROM = 24;

function firstPick(counts, order) {
  if (counts.length <= FEW_CLASSES) return new Set(order);
  const middle = Math.floor(order.length / 2) - 1;
  return new Set([...order.slice(0, 3), ...order.slice(middle, middle + 3), ...order.slice(-3)]);
}

// Few classes keep their colours; of many, those that are shown share the whole range.
function pickedColours(counts, order, picked) {
  return classColours(counts, counts.length <= FEW_CLASSES ? order : order.filter((index) => picked.has(index)));
}

function classPicker(setting, look, picked, filter, pick, search) {
  const { classes, counts } = setting;
  const wanted = filter.trim().toLowerCase();
  const shown = look.order.filter((index) => !wanted || classes[index].toLowerCase().includes(wanted));
  const few = Math.min(5, Math.ceil(classes.length / 2));
  const shortcuts = [
    ["All", () => pick(new Set(look.order))],
    [`${few} largest`, () => pick(new Set(look.order.slice(0, few)))],
    [`${few} smallest`, () => pick(new Set(look.order.slice(-few)))],
    ["None", () => pick(new Set())],
  ];
  const toggle = (index) => () => {
    const changed = new Set(picked);
    if (!changed.delete(index)) changed.add(index);
    pick(changed);
  };
  return element("div", { class: "picker", role: "group", "aria-label": "Classes shown" },
    element("div", { class: "picker-bar" },
      element("span", { class: "choice-label" }, `Classes (${picked.size} of ${classes.length})`),
      shortcuts.map(([text, press], number) => element("button", { type: "button", class: "link", id: `classes-${number}`, onclick: press }, text)),
      classes.length >= FILTER_FROM
        ? element("input", {
          type: "search", id: "class-filter", placeholder: "Find a class", "aria-label": "Find a class", value: filter,
          oninput: (event) => search(event.target.value),
        })
        : null),
    element("div", { class: "chips" }, shown.map((index) => chip(
      `class-${index}`, classes[index], whole(counts[index]), picked.has(index), swatch(look.colours[index] ?? "var(--muted)"), toggle(index)))),
    shown.length ? null : element("p", { class: "empty" }, "No class is called so."));
}
