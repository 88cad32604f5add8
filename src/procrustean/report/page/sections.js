// The parts of the page. Each is a function of the data and of what the reader has chosen.

// Of the axis of results, in percent.
const LEAST_POINTS = 2;

function resultSection(page) {
  const { setting, methods, width } = page;
  const values = methods.flatMap(({ method }) => Object.values(method.selections).filter(Boolean).flatMap(({ mean, sd, runs }) =>
    [mean - (sd ?? 0), mean + (sd ?? 0), ...runs.map((run) => run.value)]));
  const domain = percentSpan(values, LEAST_POINTS);
  const columns = width >= 820 ? 3 : 1;
  const panel = Math.floor((width - (columns - 1) * GAP) / columns);
  return section("result", "Result",
    `Test ${setting.headline} in %, one dot per seed, mean and standard deviation. ${imagesText(setting)}`,
    element("div", { class: "selections" }, page.data.selections.map(({ key }) =>
      selectionPlot(key, methods, domain, panel, setting.headline))),
    setting.remarks.length ? sentenceList(setting.remarks) : null,
    table(setting.tables.comparison),
    setting.tables.intervals ? table(setting.tables.intervals) : null,
    setting.tables.trials ? table(setting.tables.trials) : null,
    setting.tables.calibration ? table(setting.tables.calibration) : null);
}

function imagesText(setting) {
  const test = setting.test === null ? "" : `, ${whole(setting.test)} test images`;
  const sizes = [Math.max(...setting.counts), Math.min(...setting.counts)].map(whole);
  return `${setting.classes.length} classes of ${sizes[0]} to ${sizes[1]} training images${test}.`;
}

function verdictSection(page) {
  const told = page.methods.filter(({ method }) => method.verdicts.length);
  if (!told.length) return null;
  const { columns } = evenColumns(page.width, told.length, 264);
  return section("verdict", "What the curves say", "Drawn from the measured curves, with the numbers it rests on.",
    element("div", { class: "panels", style: { "--columns": String(columns) } }, told.map(({ method, look, number }) => element("div", { class: "verdict" },
      methodHeading(method, look, seedsText(method.verdicts[0].seeds)),
      sentenceList(method.verdicts[0].sentences),
      method.verdicts[0].more.length
        ? details(`verdict-more-${number}`, `${method.verdicts[0].more.length} more`, page, () => sentenceList(method.verdicts[0].more))
        : null,
      method.verdicts.length > 1
        ? details(`verdict-${number}`, method.verdicts[0].seeds.length > 1 ? "Seed by seed" : "The other seeds", page, () => method.verdicts.slice(1).map(({ seeds, sentences, more }) => [
          element("h4", {}, seedsText(seeds)), sentenceList([...sentences, ...more])]))
        : null))));
}

function seedsText(seeds) {
  return seeds.length > 1 ? `mean of ${seeds.length} seeds` : `seed ${seeds[0]}`;
}

function sentenceList(sentences) {
  return element("ul", {}, sentences.map((sentence) => element("li", {}, sentence)));
}

function classesSection(page) {
  const { setting, methods, width, state, look } = page;
  const order = look.order;
  const marked = order.length <= MOST_MARKS;
  const lines = methods
    .filter(({ method }) => method.selections[state.selection])
    .map(({ method, look: { colour, mark, dash } }) => {
      const { recall, recallSd } = method.selections[state.selection];
      return {
        label: method.label, colour, mark: marked ? mark : null, dash, x: order.map((_, position) => position),
        y: order.map((index) => recall[index]), sd: recallSd ? order.map((index) => recallSd[index]) : null,
      };
    });
  const chart = lines.length
    ? element("figure", { class: "panel" }, lineChart({
      width, height: 340, lines, title: "Test recall of every class", unit: "%", show: oneDecimal, domain: [0, 103],
      names: order.map((index) => setting.classes[index]),
      bars: { values: order.map((index) => setting.counts[index]), label: "images" },
      heading: (position) => `${setting.classes[order[position]]}: ${whole(setting.counts[order[position]])} training images`,
    }), marked ? legend(methods) : legendOfLines(methods))
    : element("p", { class: "empty" }, "No run has this selection: no images were held out.");
  const { sizes, classes, precision } = setting.tables;
  const everyClass = () => table(classes[state.selection]);
  return section("classes", "Large and small classes",
    "Test recall from the largest class to the smallest; the bars below are training images, on a logarithmic scale.",
    selectionChoice(page, "classes"), chart,
    setting.unfolded ? everyClass() : null,
    table(sizes[state.selection]),
    setting.unfolded ? null : details("per-class", "Every class as a table", page, everyClass),
    precision ? details("precision", "Precision of every class as a table", page, () => table(precision[state.selection])) : null);
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
      examples?.runs.length ? element("p", { class: "note" }, ...exampleRuns(examples.runs)) : null);
  });
  return section("confusion", "Confusions",
    (setting.matrix ? "Shares of the test images of a class in %, over all seeds. " : "With this many classes only the worst pairs are shown. ")
    + "A worst confusion is one that takes the largest share of a class.",
    selectionChoice(page, "confusion"),
    element("div", { class: "panels", style: { "--columns": String(columns) } }, drawn),
    methods.every(({ method }) => method.examples === null)
      ? element("p", { class: "note" }, "Example images were not asked for.")
      : null);
}

function exampleRuns(runs) {
  const named = runs.flatMap((run, number) => [number ? ", " : "", element("code", {}, run)]);
  return [`Example images confused by the run${runs.length > 1 ? "s" : ""} `, ...named, "."];
}

function mistakesSection(page) {
  const told = page.methods.filter(({ method }) => method.mistakes.length);
  if (!told.length) return null;
  return section("mistakes", "Worst mistakes",
    "Test images that are answered wrongly, those with the largest loss first, of the first run. Some may have a wrong label. predictions.csv in the folder of the run has all.",
    told.map(({ method, look }) => element("div", {},
      methodHeading(method, look),
      element("ol", { class: "mistakes" }, method.mistakes.map((mistake) => element("li", {},
        mistake.picture ? element("img", { src: mistake.picture, alt: `test image ${mistake.file}` }) : null,
        element("strong", {}, mistake.label), " → ", element("strong", {}, mistake.answer), ` ${oneDecimal(mistake.probability)} %`,
        element("code", {}, mistake.file)))))));
}

function alikeSection({ setting }) {
  if (!setting.alike.length) return null;
  return section("alike", "Images to look at",
    "A few images that may be the same, or of the same thing. procrustean inspect names more of them.",
    setting.alike.map(({ title, sets }) => element("div", {},
      element("h3", {}, title),
      element("div", { class: "sets" }, sets.map((images) => element("ol", { class: "mistakes" }, images.map((image) => element("li", {},
        element("img", { src: image.picture, alt: `${image.side} image ${image.file}` }),
        element("strong", {}, image.label), ` in ${image.side}`,
        element("code", {}, image.file)))))))));
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
