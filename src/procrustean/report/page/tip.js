// The box with the values under the pointer or the keyboard's cursor; there is one for the whole page.

const MOST_ROWS = 12;

function showTip(x, y, heading, rows, more = 0) {
  const tip = document.getElementById("tip");
  tip.replaceChildren(
    element("p", { class: "tip-heading" }, heading),
    element("table", {}, element("tbody", {}, rows.map(({ sample, label, value, near }) =>
      element("tr", { class: near ? "near" : null },
        element("td", {}, sample),
        element("th", { scope: "row" }, label),
        element("td", { class: "number" }, value))))),
    more > 0 ? element("p", { class: "tip-more" }, `and ${more} more`) : null ?? "");
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const edge = 8;
  const right = x + 16 + box.width + edge <= document.documentElement.clientWidth;
  const left = right ? x + 16 : Math.max(edge, x - 16 - box.width);
  const top = Math.min(Math.max(edge, y - box.height / 2), window.innerHeight - box.height - edge);
  tip.style.setProperty("left", `${left}px`);
  tip.style.setProperty("top", `${Math.max(edge, top)}px`);
}

function hideTip() {
  document.getElementById("tip").hidden = true;
}
