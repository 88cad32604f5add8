// Putting the page together, and keeping what the reader has chosen.

const state = {
  setting: null, hidden: new Set(), selection: "last", overall: null, quantity: null, layout: "methods",
  picked: new Map(), filter: "", open: new Set(),
};
const data = JSON.parse(document.getElementById("data").textContent);

function currentSetting() {
  return data.settings.find(({ name }) => name === state.setting) ?? data.settings[0];
}

// Methods keep their looks in all settings of the page.
function looks() {
  const labels = [...new Set(data.settings.flatMap(({ methods }) => methods.map(({ label }) => label)))];
  return new Map(labels.map((label, number) => [label, methodLook(number)]));
}

function redraw() {
  const focused = document.activeElement?.id;
  const caret = document.activeElement?.selectionStart;
  hideTip();
  document.title = data.title;
  document.getElementById("top").replaceChildren(...header());
  document.getElementById("report").replaceChildren(...content());
  document.getElementById("bottom").replaceChildren(`Made by procrustean ${data.version}, ${data.made}. This page needs no network.`);
  const again = focused ? document.getElementById(focused) : null;
  if (again) {
    again.focus({ preventScroll: true });
    if (caret !== undefined && caret !== null && again.type === "search") again.setSelectionRange(caret, caret);
  }
}

function header() {
  const setting = currentSetting();
  const runs = `${data.runs} run${data.runs === 1 ? "" : "s"}`;
  return [
    element("div", { class: "title-row" },
      element("h1", {}, data.title),
      element("button", { type: "button", id: "theme", class: "theme", onclick: switchTheme }, darkNow() ? "Light" : "Dark")),
    element("p", { class: "subtitle" }, `${runs}. ${setting.name}.`),
    element("nav", { class: "toolbar", "aria-label": "What is shown" }, settingChoice(setting), methodChips(setting)),
  ];
}

function settingChoice(setting) {
  if (data.settings.length < 2) return null;
  const choices = data.settings.map(({ name }) => ({ key: name, title: name }));
  const choose = (name) => {
    state.setting = name;
    redraw();
  };
  return data.settings.length <= 3
    ? choice("setting", "Data", choices, setting.name, choose)
    : dropdown("setting", "Data", choices, setting.name, choose);
}

function methodChips(setting) {
  if (setting.methods.length < 2) return null;
  const known = looks();
  return element("div", { class: "choice", role: "group", "aria-label": "Methods shown" },
    element("span", { class: "choice-label", "aria-hidden": "true" }, "Methods"),
    element("div", { class: "chips" }, setting.methods.map(({ label, seeds }, number) => chip(
      `method-${number}`, label, `${seeds.length} seed${seeds.length === 1 ? "" : "s"}`, !state.hidden.has(label), markSwatch(known.get(label)),
      () => {
        if (!state.hidden.delete(label)) state.hidden.add(label);
        redraw();
      }))));
}

function content() {
  const setting = currentSetting();
  const known = looks();
  const all = setting.methods.map((method, number) => ({ method, number, look: known.get(method.label) }));
  const methods = all.filter(({ method }) => !state.hidden.has(method.label));
  if (!methods.length) return [element("p", { class: "notice" }, "All methods are switched off above.")];
  const order = bySize(setting.counts);
  if (!state.picked.has(setting.name)) state.picked.set(setting.name, firstPick(setting.counts, order));
  const look = { order, colours: pickedColours(setting.counts, order, state.picked.get(setting.name)) };
  const width = Math.max(280, document.getElementById("report").clientWidth);
  const page = { data, state, setting, methods, look, width, redraw };
  return [resultSection, verdictSection, classesSection, epochsSection, classCurvesSection, confusionSection, mistakesSection, alikeSection, settingsSection]
    .map((part) => part(page)).filter(Boolean);
}

function darkNow() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
}

function switchTheme() {
  document.documentElement.dataset.theme = darkNow() ? "light" : "dark";
  redraw();
}

let resizing = 0;
let drawnWidth = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === drawnWidth) return;
  clearTimeout(resizing);
  resizing = setTimeout(() => {
    drawnWidth = window.innerWidth;
    redraw();
  }, 120);
});
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
let closedForPrint = [];
window.addEventListener("beforeprint", () => {
  closedForPrint = [...document.querySelectorAll("details:not([open])")];
  for (const box of closedForPrint) box.open = true;
});
window.addEventListener("afterprint", () => {
  for (const box of closedForPrint) box.open = false;
});

redraw();
