// The list of runs: conditions without a new page, columns, tags, and the choice of runs to compare.

import { announce, clickedLink, onKey, postForm, replaceFragment } from "/assets/shell.js";
import { currentRow } from "/assets/rows.js";

const list = document.getElementById("runs");
const SETTING = "auepora-compare";
const COLUMNS = "auepora-runs";
const filters = () => document.getElementById("filters");

// --- conditions and columns: they are in the address, columns and baseline in the browser, too ------------------------------

function filterUrl({ columns = new URLSearchParams(location.search).getAll("col") } = {}) {
  const params = new URLSearchParams(new FormData(filters()));
  params.delete("col");
  for (const one of columns) params.append("col", one);
  if (!new URLSearchParams(location.search).has("baseline") && !changed.has("baseline")) params.delete("baseline");
  if (!new URLSearchParams(location.search).has("metric") && !changed.has("metric")) params.delete("metric");
  for (const [name, value] of [...params]) if (!value) params.delete(name, value);
  return params.size ? `/runs?${params}` : "/runs";
}

const changed = new Set(); // the menus that were used: others keep what the page chose

/** Show the runs of the address: all of the page, or while words are typed the results alone. */
async function loadList(part = "list") {
  const address = new URL(location.href);
  address.searchParams.set("fragment", part);
  const element = part === "list" ? list : document.getElementById("run-results");
  if (!await replaceFragment(element, address.pathname + address.search)) return;
  const state = document.getElementById("run-state");
  document.getElementById("run-count").textContent = state.dataset.count;
  announce(state.dataset.count);
}

/** Show other runs. The back button returns to the runs before, but not to every letter of a search. */
function showList(url, { isNew = true, part = "list" } = {}) {
  if (isNew) history.pushState(null, "", url);
  else history.replaceState(null, "", url);
  return loadList(part);
}

let timer = 0;

function searchSoon(field) {
  clearTimeout(timer);
  if (/[:<>=!"]/.test(field.value)) return; // a condition: it is read when it is complete, with Enter
  timer = setTimeout(() => showList(filterUrl(), { isNew: false, part: "results" }), 150);
}

function saveColumns() {
  const saved = new URLSearchParams();
  for (const [name, value] of new URLSearchParams(location.search)) if (["col", "baseline"].includes(name)) saved.append(name, value);
  try { localStorage.setItem(COLUMNS, saved); } catch { /* it lasts as long as the page */ }
}

/** The columns of the last visit; the address wins. */
function restoreColumns() {
  const address = new URL(location.href);
  let saved = "";
  try { saved = localStorage.getItem(COLUMNS) ?? ""; } catch { return; }
  if (!saved || address.searchParams.has("col") || address.searchParams.has("baseline")) return;
  for (const [name, value] of new URLSearchParams(saved)) address.searchParams.append(name, value);
  showList(address.pathname + address.search, { isNew: false });
}

// --- the choice of runs, which stays while the list changes --------------------------------------------------------------

const compareForm = document.getElementById("compare");
const choice = new Map(readChoice());

function readChoice() {
  try { return JSON.parse(sessionStorage.getItem(SETTING)) ?? []; } catch { return []; }
}

function saveChoice() {
  try { sessionStorage.setItem(SETTING, JSON.stringify([...choice])); } catch { /* it lasts as long as the page */ }
}

function boxes() {
  return [...list.querySelectorAll('input[name="run"]')];
}

function letter(place) {
  return place < 26 ? String.fromCharCode(65 + place) : String(place + 1);
}

let isSwapped = false;

/** The chosen runs in the order of time, or swapped. */
function chosenRuns() {
  const chosen = [...choice].sort(([, one], [, other]) => one.time.localeCompare(other.time));
  return isSwapped ? chosen.reverse() : chosen;
}

function badge(place) {
  const element = document.createElement("span");
  element.className = place === 1 ? "letter b" : "letter";
  element.textContent = letter(place);
  return element;
}

function describeChoice(chosen) {
  const text = document.getElementById("chosen");
  text.replaceChildren(...chosen.slice(0, 4).flatMap(([, run], place) => {
    const name = document.createElement("bdi");
    name.textContent = run.name;
    return [badge(place), name, " "];
  }));
  if (chosen.length > 4) text.append(`and ${chosen.length - 4} more`);
  if (chosen.length < 2) text.append(chosen.length ? "Tick at least one more." : "Tick two or more runs to compare them. The oldest is A.");
}

/** Show the chosen runs; the form sends them in this order. */
function showChoice() {
  const chosen = chosenRuns();
  for (const hidden of compareForm.querySelectorAll('input[type="hidden"]:not([name="compare"])')) hidden.remove();
  for (const box of boxes()) {
    box.checked = choice.has(box.value);
    const row = box.closest("tr");
    row.classList.toggle("selected", box.checked);
    row.querySelector(".runname > .letter")?.remove();
    const place = chosen.findIndex(([id]) => id === box.value);
    if (place >= 0) row.querySelector(".runname").prepend(badge(place));
    box.removeAttribute("form"); // the hidden fields have the order
  }
  for (const [name, value] of [...chosen.map(([id]) => ["run", id]), ...(isSwapped ? [["ordered", "1"]] : [])]) {
    const hidden = document.createElement("input");
    Object.assign(hidden, { type: "hidden", name, value });
    compareForm.append(hidden);
  }
  describeChoice(chosen);
  document.getElementById("compare-button").disabled = chosen.length < 2;
  for (const id of ["clear-choice", "tag-choice"]) document.getElementById(id).hidden = !chosen.length;
  document.getElementById("swap-choice").hidden = chosen.length !== 2;
  compareForm.classList.toggle("floating", chosen.length > 0);
  const all = document.getElementById("choose-all");
  if (all) {
    all.hidden = false;
    all.checked = boxes().length > 0 && boxes().every((box) => box.checked);
  }
}

function keep(box) {
  if (box.checked) choice.set(box.value, { name: box.dataset.name, time: box.dataset.time, tags: box.dataset.tags });
  else choice.delete(box.value);
}

let lastBox = null;

/** With Shift the rows from the last ticked one to this are ticked. */
function chooseRange(box) {
  const listed = boxes();
  const ends = [listed.indexOf(box), listed.indexOf(lastBox)];
  if (ends.includes(-1)) return;
  for (const one of listed.slice(Math.min(...ends), Math.max(...ends) + 1)) {
    one.checked = box.checked;
    keep(one);
  }
}

function choose(box, isRange = false) {
  if (isRange && lastBox) chooseRange(box);
  keep(box);
  lastBox = box;
  saveChoice();
  showChoice();
  announce(document.getElementById("chosen").textContent);
}

function clearChoice() {
  choice.clear();
  isSwapped = false;
  saveChoice();
  showChoice();
  announce("No run is chosen");
}

async function tagChosen(field) {
  const tag = field.value.trim();
  if (!tag) return;
  try {
    for (const [, run] of choice) await postForm(run.tags, { add: tag, fragment: "1" });
    announce(`Added the tag ${tag} to ${choice.size} runs`);
  } catch (error) {
    announce(error.message);
  }
  field.value = "";
  field.closest("details").open = false;
  loadList();
}

// --- tags ------------------------------------------------------------------------------------------------------------

async function changeTags(form) {
  const cell = form.closest(".tags");
  const fields = new FormData(form);
  fields.set("fragment", "1");
  let message;
  try {
    const content = await postForm(form.getAttribute("action"), fields);
    cell.replaceChildren(content);
    const editor = cell.querySelector("[data-editor]");
    editor.open = true;
    editor.querySelector('input[name="add"]').focus();
    message = fields.has("remove") ? `Removed the tag ${fields.get("remove")}` : `Added the tag ${fields.get("add")}`;
  } catch (error) {
    message = error.message;
    const alert = cell.querySelector(".error") ?? form.appendChild(document.createElement("p"));
    alert.className = "error";
    alert.textContent = message;
  }
  announce(message);
}

// --- events ----------------------------------------------------------------------------------------------------------

function changeList(event) {
  const { target } = event;
  if (target.id === "choose-all") {
    for (const box of boxes()) { box.checked = target.checked; keep(box); }
    saveChoice();
    showChoice();
  } else if (target.name === "run") {
    choose(target, isShift);
  } else if (target.form === filters() && target.id !== "search") {
    changed.add(target.name);
    const columns = [...filters().elements.col].filter((box) => box.checked).map((box) => box.value);
    showList(target.name === "col" ? filterUrl({ columns }) : filterUrl());
    if (target.name !== "metric") saveColumns();
  }
}

let isShift = false;

if (list) {
  let isMenuOpen = false;
  list.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    if (event.target.matches("[data-tags]")) changeTags(event.target);
    else showList(filterUrl()).then(() => { document.getElementById("search").value = document.getElementById("run-state").dataset.q; });
  });
  list.addEventListener("input", (event) => { if (event.target.id === "search") searchSoon(event.target); });
  list.addEventListener("change", changeList);
  list.addEventListener("click", (event) => {
    isShift = event.shiftKey;
    const link = clickedLink(event, "a[data-list]");
    if (!link) return;
    event.preventDefault();
    showList(link.href).then(() => { if ("reset" in link.dataset) saveColumns(); });
  });
  list.addEventListener("toggle", (event) => { if (event.target.id === "columns" && event.target.isConnected) isMenuOpen = event.target.open; }, true);
  list.addEventListener("fragment", (event) => {
    if (event.target !== list && event.target.id !== "run-results") return;
    showChoice();
    if (isMenuOpen) document.getElementById("columns").open = true;
  });
  window.addEventListener("popstate", () => loadList());
  document.getElementById("clear-choice").addEventListener("click", clearChoice);
  document.getElementById("swap-choice").addEventListener("click", () => { isSwapped = !isSwapped; showChoice(); });
  document.getElementById("tag-chosen").addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    tagChosen(event.target);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.defaultPrevented && !document.querySelector("dialog[open]") && choice.size) clearChoice();
    if (event.key !== " " || !event.target.matches?.("[data-open]")) return;
    event.preventDefault();
    currentRow().querySelector('input[name="run"], .fold').click();
  });
  onKey("/", "Search runs", () => document.getElementById("search").focus());
  onKey("c", "Compare the chosen runs", () => document.getElementById("compare-button").click());
  showChoice();
  restoreColumns();
}
