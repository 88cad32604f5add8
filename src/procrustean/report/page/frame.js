// What the sections of the page have in common.

const GAP = 28; // between panels, as in the style sheet

function section(id, title, intro, ...content) {
  return element("section", { id, "aria-labelledby": `${id}-title` },
    element("h2", { id: `${id}-title` }, title),
    intro ? element("p", { class: "intro" }, intro) : null,
    ...content);
}

function methodHeading(method, look, remark = "") {
  const seeds = method.seeds.length;
  return element("h3", { class: "method-heading" }, markSwatch(look), method.label,
    element("span", { class: "remark" }, remark || `${seeds} seed${seeds === 1 ? "" : "s"}`));
}

function selectionChoice(page, where) {
  const titles = { last: "Last", held_out: "Held-out", oracle: "Oracle (chosen on test)" };
  const choices = page.data.selections.map(({ key }) => ({ key, title: titles[key] }));
  const choose = (key) => {
    page.state.selection = key;
    page.redraw();
  };
  return element("div", { class: "controls" }, choice(`${where}-selection`, "Epoch", choices, page.state.selection, choose));
}

function legend(methods) {
  return element("ul", { class: "legend" }, methods.map(({ method, look }) =>
    element("li", {}, markSwatch(look), method.label)));
}

function legendOfLines(methods) {
  return element("ul", { class: "legend" }, methods.map(({ method, look }) =>
    element("li", {}, swatch(look.colour, look.dash), method.label)));
}

// As many columns as fit, but no more than fill their rows evenly.
function evenColumns(width, panels, narrowest) {
  const most = Math.max(1, Math.floor((width + GAP) / (narrowest + GAP)));
  const columns = Math.ceil(panels / Math.ceil(panels / most));
  return { columns, width: Math.floor((width - GAP * (columns - 1)) / columns) };
}

// A part that is closed until the reader opens it, and stays as the reader leaves it.
function details(id, title, page, content) {
  const remember = (event) => {
    if (event.target.open) page.state.open.add(id);
    else page.state.open.delete(id);
  };
  return element("details", { id, open: page.state.open.has(id), ontoggle: remember },
    element("summary", {}, title), content());
}
