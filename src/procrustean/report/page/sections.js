// The parts of the page. Each is a function of the data and of what the reader has chosen.

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

const GAP = 28; // between panels, as in the style sheet

function section(id, title, intro, ...content) {
  return element("section", { id, "aria-labelledby": `${id}-title` },
    element("h2", { id: `${id}-title` }, title),
    intro ? element("p", { class: "intro" }, intro) : null,
    ...content);
}

function resultSection(page) {
  const { setting, methods, width } = page;
  const values = methods.flatMap(({ method }) => Object.values(method.selections).filter(Boolean).flatMap(({ mean, sd, runs }) =>
    [mean - (sd ?? 0), mean + (sd ?? 0), ...runs.map((run) => run.value)]));
  const domain = span(values, 0);
  const columns = width >= 820 ? 3 : 1;
  const panel = Math.floor((width - (columns - 1) * GAP) / columns);
  return section("result", "Result",
    `Test ${setting.headline} in %, one dot per seed, mean and standard deviation. ${imagesText(setting)}`,
    element("div", { class: "selections" }, page.data.selections.map(({ key }) =>
      selectionPlot(key, methods, domain, panel, setting.headline))),
    table(setting.tables.comparison));
}

function imagesText(setting) {
  const test = setting.test === null ? "" : `, ${whole(setting.test)} test images`;
  const sizes = [Math.max(...setting.counts), Math.min(...setting.counts)].map(whole);
  return `${setting.classes.length} classes of ${sizes[0]} to ${sizes[1]} training images${test}.`;
}

function verdictSection(page) {
  const told = page.methods.filter(({ method }) => method.verdicts.length);
  if (!told.length) return null;
  return section("verdict", "What the curves say", "Drawn from the measured curves, with the numbers it rests on.",
    element("div", { class: "panels" }, told.map(({ method, look, number }) => element("div", { class: "verdict" },
      methodHeading(method, look, `seed ${method.verdicts[0].seed}`),
      sentenceList(method.verdicts[0]),
      method.verdicts.length > 1
        ? details(`verdict-${number}`, "The other seeds", page, () => method.verdicts.slice(1).map((verdict) => [
          element("h4", {}, `Seed ${verdict.seed}`), sentenceList(verdict)]))
        : null))));
}

function sentenceList({ sentences }) {
  return element("ul", {}, sentences.map((sentence) => element("li", {}, sentence)));
}

function methodHeading(method, look, remark = "") {
  const seeds = method.seeds.length;
  return element("h3", { class: "method-heading" }, markSwatch(look), method.label,
    element("span", { class: "remark" }, remark || `${seeds} seed${seeds === 1 ? "" : "s"}`));
}

function classesSection(page) {
  const { setting, methods, width, state, look } = page;
  const order = look.order;
  const lines = methods
    .filter(({ method }) => method.selections[state.selection])
    .map(({ method, look: { colour, mark } }) => {
      const { recall, recallSd } = method.selections[state.selection];
      return {
        label: method.label, colour, mark, dash: "", x: order.map((_, position) => position),
        y: order.map((index) => recall[index]), sd: recallSd[0] === null && recallSd.every((one) => one === null) ? null : order.map((index) => recallSd[index]),
      };
    });
  const chart = lines.length
    ? element("figure", { class: "panel" }, lineChart({
      width, height: 340, lines, title: "Test recall of every class", unit: "%", show: oneDecimal, domain: [0, 103],
      names: order.map((index) => setting.classes[index]),
      bars: { values: order.map((index) => setting.counts[index]), label: "images" },
      heading: (position) => `${setting.classes[order[position]]}: ${whole(setting.counts[order[position]])} training images`,
    }), legend(methods))
    : element("p", { class: "empty" }, "No run has this selection: no images were held out.");
  return section("classes", "Large and small classes",
    "Test recall from the largest class to the smallest; the bars below are training images, on a logarithmic scale.",
    selectionChoice(page, "classes"), chart,
    table(setting.tables.sizes[state.selection]),
    details("per-class", "Recall of every class as a table", page, () => table(setting.tables.classes[state.selection])));
}

function selectionChoice(page, where) {
  return element("div", { class: "controls" }, choice(`${where}-selection`, "Epoch", page.data.selections.map(({ key }) =>
    ({ key, title: { last: "Last", held_out: "Held-out", oracle: "Oracle (chosen on test)" }[key] })), page.state.selection, (key) => {
    page.state.selection = key;
    page.redraw();
  }));
}

function legend(methods) {
  return element("ul", { class: "legend" }, methods.map(({ method, look }) =>
    element("li", {}, markSwatch(look), method.label)));
}

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

function legendOfLines(methods) {
  return element("ul", { class: "legend" }, methods.map(({ method, look }) =>
    element("li", {}, swatch(look.colour, look.dash), method.label)));
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
        label: method.label + (part.title ? `, ${part.title}` : ""), colour: look.colour, dash: number ? "4 3" : look.dash,
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

// As many columns as fit, but no more than fill their rows evenly.
function evenColumns(width, panels, narrowest) {
  const most = Math.max(1, Math.floor((width + GAP) / (narrowest + GAP)));
  const columns = Math.ceil(panels / Math.ceil(panels / most));
  return { columns, width: Math.floor((width - GAP * (columns - 1)) / columns) };
}

function thinnedNote(methods, quantity) {
  const thinned = methods.flatMap(({ method }) => quantity.parts.map(({ key }) => method.perClass[key])).filter((curve) => curve && curve.measured > curve.epochs.length);
  if (!thinned.length) return null;
  return element("p", { class: "note" }, `${thinned[0].epochs.length} of the ${thinned[0].measured} measured epochs are drawn, for there are many classes.`);
}

function confusionSection(page) {
  const { setting, methods, width, state } = page;
  const { columns, width: panel } = evenColumns(width, methods.length, 340);
  const drawn = methods.map(({ method, look }) => {
    const matrix = method.confusion[state.selection];
    const examples = state.selection === "last" ? method.examples : null;
    return element("div", { class: "panel" },
      methodHeading(method, look),
      matrix ? confusionMatrix(matrix, setting.classes, panel, `Confusion matrix of ${method.label}`) : null,
      element("h4", {}, "Worst confusions"),
      worstConfusions(method, state.selection, setting.classes, matrix ? 6 : 12),
      examples?.reason ? element("p", { class: "note" }, `No example images. ${examples.reason}`) : null,
      examples?.runs.length ? element("p", { class: "note" }, `Example images confused by ${examples.runs.join(", ")}.`) : null);
  });
  return section("confusion", "Confusions",
    (setting.matrix ? "Shares of the test images of a class in %, over all seeds. " : "With this many classes only the worst pairs are shown. ")
    + "A worst confusion is one that takes the largest share of a class.",
    selectionChoice(page, "confusion"),
    element("div", { class: "panels", style: { "--columns": String(columns) } }, drawn),
    methods.every(({ method }) => method.examples === null)
      ? element("p", { class: "note" }, page.data.live ? "Example images are shown by a report without --watch." : "Example images were not asked for.")
      : null);
}

function settingsSection(page) {
  const { setting, methods } = page;
  const numbers = methods.map(({ number }) => number);
  const labels = methods.map(({ method }) => method.label);
  const rows = setting.configuration.map(({ part, name, values }) => ({ part, name, values: numbers.map((number) => values[number]) }));
  const same = rows.filter(({ values }) => values.every((value) => value === values[0]));
  const differing = rows.filter(({ values }) => values.some((value) => value !== values[0]));
  const columns = Object.keys(setting.provenance[0] ?? {});
  const runs = setting.provenance.filter((run) => labels.includes(run.method));
  const used = columns.filter((column) => runs.some((run) => run[column]));
  return section("settings", "Settings and provenance", null,
    differing.length
      ? textTable("Settings that differ", ["", "setting", ...labels], differing.map(({ part, name, values }) => [part, name, ...values.map((value) => value ?? "—")]))
      : null,
    details("same-settings", methods.length > 1 ? "Settings that all share" : "All settings", page,
      () => textTable("Shared settings", ["", "setting", "value"], same.map(({ part, name, values }) => [part, name, values[0] ?? ""]), { caption: false })),
    details("runs", `Runs (${runs.length}): machine, time, versions, files`, page,
      () => textTable("Runs", used, runs.map((run) => used.map((column) => run[column])), { caption: false })));
}

function details(id, title, page, content) {
  const box = element("details", { id, open: page.state.open.has(id), ontoggle: (event) => {
    if (event.target.open) page.state.open.add(id);
    else page.state.open.delete(id);
  } }, element("summary", {}, title), content());
  return box;
}
