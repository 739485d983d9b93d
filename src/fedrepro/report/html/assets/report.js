// Search over all pages, and the filter of claims: what needs scripts is made by them.
"use strict";

document.querySelector("header").insertAdjacentHTML("beforeend", `
<form role="search" onsubmit="return false">
<label for="search">Search numbers, claims and runs</label>
<input id="search" type="search" autocomplete="off" aria-controls="found" placeholder="emd table2 1.44, deviates, a run id">
<ul id="found" aria-live="polite"></ul>
</form>`);
const input = document.getElementById("search");
const found = document.getElementById("found");
const top_ = document.body.dataset.top;
const SHOWN = 30;

input.addEventListener("input", () => {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = [];
  for (const [kind, text, address, verdict] of words.length ? ENTRIES : []) {
    const all = `${kind} ${text} ${verdict}`.toLowerCase();
    if (words.every((word) => all.includes(word))) matches.push([kind, text, address, verdict]);
    if (matches.length > SHOWN) break;
  }
  const more = matches.length > SHOWN;
  found.replaceChildren(...matches.slice(0, SHOWN).map(([kind, text, address, verdict]) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = top_ + address;
    link.textContent = text;
    item.append(`${kind} `, link, verdict ? ` ${verdict}` : "");
    return item;
  }));
  if (more) {
    const item = document.createElement("li");
    item.textContent = `The first ${SHOWN}; further words narrow them down.`;
    found.append(item);
  }
  if (words.length && !matches.length) found.textContent = "Nothing has all of these words.";
});

input.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    input.value = "";
    found.replaceChildren();
  }
});

for (const filter of document.querySelectorAll(".filter")) {
  filter.hidden = false;
  const buttons = filter.querySelectorAll("button");
  for (const button of buttons) {
    button.addEventListener("click", () => {
      const wanted = button.dataset.filter;
      for (const other of buttons) other.setAttribute("aria-pressed", other === button);
      for (const row of document.querySelectorAll(".claims [data-verdict], .undecided")) {
        row.hidden = wanted !== "all" && !row.dataset.verdict.split(",").includes(wanted);
      }
    });
  }
}

// Where a table is wider than the window, the keyboard can scroll it.
for (const wide of document.querySelectorAll(".scroll")) {
  if (wide.scrollWidth > wide.clientWidth) wide.tabIndex = 0;
}

// A link closes the list it may be in; one to a claim shows it, whatever the filter hides or is
// folded away, and opens its evidence.
function openTarget() {
  found.replaceChildren();
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.closest("[hidden]")) document.querySelector("[data-filter='all']").click();
  const folded = target && target.closest(".undecided");
  if (folded && !folded.open) {
    folded.open = true;
    target.scrollIntoView();
  }
  const evidence = target && target.matches(".claims tr") && target.querySelector("details");
  if (evidence) evidence.open = true;
}
window.addEventListener("hashchange", openTarget);
openTarget();
