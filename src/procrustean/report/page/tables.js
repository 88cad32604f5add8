// Tables, and their numbers as files: made in the page, not fetched.

function table(content, { caption = true } = {}) {
  const head = element("tr", {}, content.columns.map(({ heading, numeric }) =>
    element("th", { scope: "col", class: numeric ? "number" : null }, heading)));
  const body = content.rows.map((row) => element("tr", {}, row.map((cell, index) => {
    const numeric = content.columns[index].numeric;
    const shown = cell.best ? element("strong", { title: "best of its column or row" }, cell.text) : element("span", {}, cell.text);
    return index === 0
      ? element("th", { scope: "row" }, shown)
      : element("td", { class: numeric ? "number" : null }, shown);
  })));
  return element("figure", { class: "table" },
    element("div", { class: "table-bar" },
      caption ? element("p", { class: "table-title" }, content.title) : null,
      content.csv ? element("div", { class: "downloads" },
        download("CSV", `${content.name}.csv`, "text/csv", content.csv, content.title),
        download("LaTeX", `${content.name}.tex`, "application/x-tex", content.latex, content.title)) : null),
    element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": content.title },
      element("table", {}, element("thead", {}, head), element("tbody", {}, body))),
    content.note ? element("p", { class: "note" }, content.note) : null);
}

function download(text, file, type, content, title) {
  const save = () => {
    const address = URL.createObjectURL(new Blob([content], { type: `${type};charset=utf-8` }));
    element("a", { href: address, download: file }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  };
  return element("button", { type: "button", class: "download", onclick: save, "aria-label": `Download as ${text}: ${title}` }, text);
}

// A table of plain texts.
function textTable(title, columns, rows, options = {}) {
  return table({
    title,
    columns: columns.map((heading) => ({ heading, numeric: false })),
    rows: rows.map((row) => row.map((text) => ({ text, best: false }))),
  }, options);
}
