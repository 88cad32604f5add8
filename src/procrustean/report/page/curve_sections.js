// Curves along the epochs: of the methods, and of the classes one by one.

const OVERALL = [
  { key: "test_accuracy", title: "Test accuracy", unit: "%" },
  { key: "test_balanced_accuracy", title: "Test balanced accuracy", unit: "%" },
  { key: "held_out_balanced_accuracy", title: "Held-out balanced accuracy", unit: "%" },
  { key: "many", title: "Test recall, many", unit: "%" },
  { key: "medium", title: "Test recall, medium", unit: "%" },
  { key: "few", title: "Test recall, few", unit: "%" },
  { key: "major", title: "Test recall, major classes", unit: "%" },
  { key: "minor", title: "Test recall, minor classes", unit: "%" },
  { key: "loss", title: "Training loss", unit: "" },
  { key: "lr", title: "Learning rate", unit: "" },
];

function epochsSection(page) {
  const { methods, width, state, setting } = page;
  const present = OVERALL.filter(({ key }) => methods.some(({ method }) => method.overall[key]));
  if (!present.length) return null;
  const preferred = setting.headline === "accuracy" ? "test_accuracy" : "test_balanced_accuracy";
  const chosen = present.find(({ key }) => key === state.overall) ?? present.find(({ key }) => key === preferred) ?? present[0];
  const drawn = methods.filter(({ method }) => method.overall[chosen.key]);
  const lines = drawn.map(({ method, look: { colour, dash } }) => {
    const curve = method.overall[chosen.key];
    return {
      label: method.label, colour, dash, x: curve.epochs, y: curve.mean.map(([value]) => value),
      sd: curve.sd?.map(([value]) => value) ?? null,
    };
  });
  return section("epochs", "Along the epochs", "Mean over the seeds. The band, drawn for up to six lines, is one standard deviation.",
    element("div", { class: "controls" }, dropdown("overall", "Quantity", present, chosen.key, (key) => {
      state.overall = key;
      page.redraw();
    })),
    element("figure", { class: "panel" },
      lineChart({ width, height: 340, lines, title: chosen.title, unit: chosen.unit, show: chosen.unit === "%" ? oneDecimal : significant, floor: 0, endLabels: width > 560 }),
      legendOfLines(drawn)));
}

function classCurvesSection(page) {
  const { state, setting, methods, data, look } = page;
  const present = data.quantities.filter(({ parts }) => parts.some(({ key }) => methods.some(({ method }) => method.perClass[key])));
  if (!present.length) return null;
  const quantity = present.find(({ title }) => title === state.quantity) ?? present[0];
  const picked = [...state.picked.get(setting.name)].sort((a, b) => look.order.indexOf(a) - look.order.indexOf(b));
  const panels = state.layout === "methods"
    ? panelsByMethod(page, quantity, picked)
    : panelsByClass(page, quantity, picked);
  const missing = methods.filter(({ method }) => !quantity.parts.some(({ key }) => method.perClass[key])).map(({ method }) => method.label);
  return section("class-curves", "Class by class along the epochs",
    "Colours run from the largest class to the smallest. Pick classes, and compare the methods side by side, or within one class.",
    element("div", { class: "controls" },
      dropdown("quantity", "Quantity", present.map(({ title }) => ({ key: title, title })), quantity.title, (key) => {
        state.quantity = key;
        page.redraw();
      }),
      choice("layout", "One panel per", [{ key: "methods", title: "Method" }, { key: "classes", title: "Class" }], state.layout, (key) => {
        state.layout = key;
        page.redraw();
      })),
    classPicker(setting, look, state.picked.get(setting.name), state.filter, (classes) => {
      state.picked.set(setting.name, classes);
      page.redraw();
    }, (text) => {
      state.filter = text;
      page.redraw();
    }),
    panels.length ? panelGrid(page, quantity, panels) : element("p", { class: "empty" }, "Pick a class to see its curves."),
    missing.length ? element("p", { class: "note" }, `Not measured: ${missing.join(", ")}.`) : null,
    quantity.title === "Gradient norm" ? layerNote(methods) : null,
    thinnedNote(methods, quantity));
}

function panelsByMethod(page, quantity, picked) {
  if (!picked.length) return [];
  return page.methods.flatMap(({ method, look }) => quantity.parts.filter(({ key }) => method.perClass[key]).map((part) => ({
    heading: [markSwatch(look), method.label, part.title ? element("span", { class: "remark" }, part.title) : null],
    title: `${quantity.title}, ${method.label}${part.title ? `, ${part.title}` : ""}`,
    lines: picked.map((index) => classLine(method.perClass[part.key], index, {
      label: page.setting.classes[index], colour: page.look.colours[index], dash: "",
    })),
  })));
}

function panelsByClass(page, quantity, picked) {
  return picked.map((index) => ({
    heading: [swatch(page.look.colours[index]), page.setting.classes[index], element("span", { class: "remark" }, `${whole(page.setting.counts[index])} images`)],
    title: `${quantity.title}, class ${page.setting.classes[index]}`,
    lines: page.methods.flatMap(({ method, look }) => quantity.parts.filter(({ key }) => method.perClass[key]).map((part, number) =>
      classLine(method.perClass[part.key], index, {
        label: method.label + (part.title ? `, ${part.title}` : ""), colour: look.colour, dash: number ? secondDash(look.dash) : look.dash,
      }))),
  }));
}

function classLine(curve, index, look) {
  return { ...look, x: curve.epochs, y: curve.mean.map((row) => row[index]), sd: curve.sd?.map((row) => row[index]) ?? null };
}

function panelGrid(page, quantity, panels) {
  const { columns, width } = evenColumns(page.width, panels.length, 264);
  const shares = quantity.unit === "%";
  const domain = shares ? [0, 103] : span(panels.flatMap(({ lines }) => lines.flatMap(({ y }) => y)), 0);
  const linked = [];
  const few = Math.max(...panels.map(({ lines }) => lines.length)) <= 5 && width > 360;
  return element("div", { class: "panels", style: { "--columns": String(columns) } }, panels.map(({ heading, title, lines }) =>
    element("figure", { class: "panel" },
      element("figcaption", { class: "method-heading" }, heading),
      lineChart({
        width, height: 230, lines, title, unit: quantity.unit, show: shares ? oneDecimal : significant, domain, linked,
        endLabels: few, reference: quantity.title === "Classification ratio" ? 1 : undefined,
      }))),
    page.state.layout === "classes" ? legendOfLines(page.methods) : null);
}

function layerNote(methods) {
  const measured = methods.filter(({ method }) => method.gradientsAt.length);
  if (!measured.length) return null;
  const layers = new Set(measured.flatMap(({ method }) => method.gradientsAt.map(({ layer }) => layer)));
  if (layers.size === 1) return element("p", { class: "note" }, `Measured at ${[...layers][0]}.`);
  const named = measured.map(({ method }) => `${method.label} at ${method.gradientsAt.map(({ layer, epochs }) =>
    layer + (method.gradientsAt.length > 1 ? ` (${epochs})` : "")).join(" and ")}`);
  return element("p", { class: "note" }, `Measured: ${named.join("; ")}. Lengths at different layers do not compare.`);
}

function thinnedNote(methods, quantity) {
  const thinned = methods.flatMap(({ method }) => quantity.parts.map(({ key }) => method.perClass[key])).filter((curve) => curve && curve.measured > curve.epochs.length);
  if (!thinned.length) return null;
  return element("p", { class: "note" }, `${thinned[0].epochs.length} of the ${thinned[0].measured} measured epochs are drawn, for there are many classes.`);
}
