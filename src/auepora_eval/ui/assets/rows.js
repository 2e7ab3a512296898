// Rows of lists by keyboard: j and k move, e opens the documents of a row, o opens its page. The row with the focus is
// the current one. Tables name themselves with data-rows, rows with data-row, and the link of a row with data-open.

import { announce, onKey, replaceFragment } from "/assets/shell.js";

const rows = () => [...document.querySelectorAll("[data-rows] [data-row]")].filter((one) => one.checkVisibility());
const linkOf = (row) => row?.querySelector("[data-open]");

/** The row with the focus, or the one that was current last. */
export function currentRow() {
  return document.activeElement?.closest("[data-row]") ?? document.querySelector("[data-row][aria-current]");
}

function move(step) {
  const listed = rows();
  const place = listed.indexOf(currentRow());
  const next = listed[place < 0 ? (step > 0 ? 0 : listed.length - 1) : Math.min(Math.max(place + step, 0), listed.length - 1)];
  linkOf(next)?.focus();
}

/** Mark the row with the focus. */
function mark(row) {
  for (const one of document.querySelectorAll("[data-row][aria-current]")) if (one !== row) setCurrent(one, false);
  setCurrent(row, true);
}

function setCurrent(row, isCurrent) {
  row.classList.toggle("current", isCurrent);
  if (isCurrent) row.setAttribute("aria-current", "true");
  else row.removeAttribute("aria-current");
}

document.addEventListener("focusin", (event) => {
  const row = event.target.closest("[data-row]");
  if (row) mark(row);
});

/** Open the documents of a row below it, or close them. */
async function toggleDocuments(row) {
  if (!row?.dataset.documents) return;
  const opened = row.nextElementSibling?.matches(".opened") ? row.nextElementSibling : null;
  if (opened) {
    opened.remove();
    announce("The documents are closed");
    return;
  }
  const below = document.createElement("tr");
  below.className = "opened";
  below.setAttribute("role", "row");
  const cell = below.appendChild(document.createElement("td"));
  cell.colSpan = row.children.length;
  cell.setAttribute("role", "cell");
  row.after(below);
  if (await replaceFragment(cell, row.dataset.documents)) announce(cell.querySelector("h3")?.textContent ?? "");
}

document.addEventListener("click", (event) => {
  if (event.defaultPrevented || !event.target.closest?.("[data-documents]") || event.target.closest("a, button, input, summary, label")) return;
  if (String(getSelection())) return; // a text was selected
  toggleDocuments(event.target.closest("[data-documents]"));
});

onKey("j", "Next row", () => move(1));
onKey("k", "Previous row", () => move(-1));
onKey("e", "Documents of the row", () => toggleDocuments(currentRow()));
onKey("o", "Open the row", () => linkOf(currentRow())?.click());
