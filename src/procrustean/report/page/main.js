// Putting the page together, keeping what the reader has chosen, and following a run that goes on.

const REFRESH_MILLISECONDS = 2000;

const state = {
  setting: null, hidden: new Set(), selection: "last", overall: null, quantity: null, layout: "methods",
  picked: new Map(), filter: "", open: new Set(),
};
let data = JSON.parse(document.getElementById("data").textContent);

function currentSetting() {
  return data.settings.find(({ name }) => name === state.setting) ?? data.settings[0] ?? null;
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
    element("p", { class: "subtitle" }, setting ? `${runs}. ${setting.name}.` : runs),
    data.live ? liveStatus() : null,
    ...(data.leftOut ?? []).map((text) => element("p", { class: "note" }, `Left out: ${text}`)),
    data.ongoing.length ? element("ul", { class: "ongoing" }, data.ongoing.map(progress)) : null,
    setting ? element("nav", { class: "toolbar", "aria-label": "What is shown" }, settingChoice(setting), methodChips(setting)) : null,
  ].filter(Boolean);
}

function progress({ label, done, epochs }) {
  return element("li", {},
    element("span", {}, label),
    element("progress", { max: epochs, value: done, "aria-label": `${label}: epochs done` }),
    element("span", { class: "number" }, `epoch ${done} of ${epochs}`));
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
  if (!setting) return [element("p", { class: "notice" }, "No epoch has been tested yet. The page fills itself as the training goes on.")];
  const known = looks();
  const all = setting.methods.map((method, number) => ({ method, number, look: known.get(method.label) }));
  const methods = all.filter(({ method }) => !state.hidden.has(method.label));
  if (!methods.length) return [element("p", { class: "notice" }, "All methods are switched off above.")];
  const order = bySize(setting.counts);
  if (!state.picked.has(setting.name)) state.picked.set(setting.name, firstPick(setting.counts, order));
  const look = { order, colours: pickedColours(setting.counts, order, state.picked.get(setting.name)) };
  const width = Math.max(280, document.getElementById("report").clientWidth);
  const page = { data, state, setting, methods, look, width, redraw };
  return [resultSection, verdictSection, classesSection, epochsSection, classCurvesSection, confusionSection, settingsSection]
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

let live = { text: "Following the training", stale: false };

function liveStatus() {
  return element("p", { class: live.stale ? "live stale" : "live", role: "status" }, live.text);
}

function setLive(text, stale) {
  live = { text, stale };
  document.querySelector(".live")?.replaceWith(liveStatus());
}

let version = null;

async function follow() {
  if (!document.hidden) {
    try {
      const answer = await fetch("data.json", { cache: "no-store", headers: version ? { "If-None-Match": version } : {} });
      if (answer.status === 200) {
        version = answer.headers.get("ETag");
        data = await answer.json();
        live = { text: `Following the training, last change ${new Date().toLocaleTimeString("en-GB")}`, stale: false };
        redraw();
      } else if (answer.status === 304) {
        if (live.stale) setLive("Following the training", false);
      } else setLive(`Cannot be brought up to date: ${await answer.text()}`, true);
    } catch {
      setLive("The program that serves this page has ended. This is its last state.", true);
    }
  }
  setTimeout(follow, REFRESH_MILLISECONDS);
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
if (data.live) follow();
