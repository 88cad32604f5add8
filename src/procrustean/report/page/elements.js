// Everything shown is made of elements and text nodes, never of markup: no name from the data can become code.

function element(name, properties = {}, ...children) {
  return filled(document.createElement(name), properties, children);
}

function shape(name, properties = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), properties, children);
}

function filled(made, properties, children) {
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [name, text] of Object.entries(value)) made.style.setProperty(name, text);
    else made.setAttribute(key, value === true ? "" : String(value));
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

// A row of buttons of which one is chosen. `choices` are {key, title}.
function choice(id, label, choices, chosen, choose) {
  const buttons = choices.map(({ key, title, hint }, number) =>
    element("button", {
      type: "button",
      id: `${id}-${number}`,
      "aria-pressed": String(key === chosen),
      title: hint,
      onclick: () => choose(key),
    }, title));
  return element("div", { class: "choice", role: "group", "aria-label": label },
    element("span", { class: "choice-label", "aria-hidden": "true" }, label),
    element("div", { class: "segments" }, buttons));
}

// A drop-down list for choices that are too many for a row of buttons.
function dropdown(id, label, choices, chosen, choose) {
  const options = choices.map(({ key, title }) =>
    element("option", { value: key, selected: key === chosen }, title));
  return element("label", { class: "choice" },
    element("span", { class: "choice-label" }, label),
    element("select", { id, onchange: (event) => choose(event.target.value) }, options));
}

// A button that stays pressed, with a sample of the colour it stands for.
function chip(id, text, detail, pressed, sample, press) {
  return element("button", { type: "button", class: "chip", id, "aria-pressed": String(pressed), onclick: press },
    sample,
    element("span", { class: "chip-text" }, text),
    detail ? element("span", { class: "chip-detail" }, detail) : null);
}
