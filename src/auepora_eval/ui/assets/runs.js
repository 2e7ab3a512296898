// The list of runs: filters without a new page, tags, and the choice of runs to compare.

import { announce, clickedLink, onKey, postForm, replaceFragment } from "/assets/shell.js";

const list = document.getElementById("runs");
const filters = document.getElementById("filters");
const SETTING = "auepora-compare";

// --- filters ---------------------------------------------------------------------------------------------------------

function filterUrl() {
  const params = new URLSearchParams(new FormData(filters));
  for (const [name, value] of [...params]) if (!value) params.delete(name);
  return params.size ? `/runs?${params}` : "/runs";
}

async function loadList() {
  const address = new URL(location.href);
  address.searchParams.set("fragment", "list");
  if (await replaceFragment(list, address.pathname + address.search)) announce(document.getElementById("run-count").textContent);
}

/** Show other runs. The back button returns to the runs before, but not to every letter of a search. */
function showList(url, { isNew = true } = {}) {
  if (isNew) history.pushState(null, "", url);
  else history.replaceState(null, "", url);
  return loadList();
}

let timer = 0;

function searchSoon() {
  clearTimeout(timer);
  timer = setTimeout(() => showList(filterUrl(), { isNew: false }), 150);
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

/** Show the chosen runs in the order of time, and send those that are not in the list. */
function showChoice() {
  const chosen = [...choice].sort(([, one], [, other]) => one.time.localeCompare(other.time));
  const shown = new Set(boxes().map((box) => box.value));
  for (const hidden of compareForm.querySelectorAll('input[name="run"]')) hidden.remove();
  for (const box of boxes()) {
    box.checked = choice.has(box.value);
    box.closest("tr").classList.toggle("selected", box.checked);
  }
  for (const [id] of chosen.filter(([id]) => !shown.has(id))) {
    const hidden = document.createElement("input");
    hidden.type = "hidden";
    hidden.name = "run";
    hidden.value = id;
    compareForm.append(hidden);
  }
  const names = chosen.map(([, run], place) => `${letter(place)}: ${run.name}`);
  const text = document.getElementById("chosen");
  text.textContent = names.length ? names.join(", ") : "Tick two or more runs to compare them. The oldest is A.";
  if (names.length === 1) text.textContent += ". Tick at least one more.";
  document.getElementById("compare-button").disabled = names.length < 2;
  document.getElementById("clear-choice").hidden = names.length === 0;
  compareForm.classList.toggle("floating", names.length > 0);
}

function choose(box) {
  if (box.checked) choice.set(box.value, { name: box.dataset.name, time: box.dataset.time });
  else choice.delete(box.value);
  saveChoice();
  showChoice();
  announce(document.getElementById("chosen").textContent);
}

// --- the trend, which stays open or closed while the list changes ----------------------------------------------------

let isTrendOpen = null; // null: as the server decides

function showTrend() {
  const trend = document.getElementById("trend");
  if (trend && isTrendOpen !== null) trend.open = isTrendOpen;
}

// --- tags ------------------------------------------------------------------------------------------------------------

async function changeTags(form) {
  const cell = form.closest("td");
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

if (filters) {
  filters.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    showList(filterUrl());
  });
  filters.addEventListener("input", searchSoon);
  list.addEventListener("change", (event) => {
    if (event.target.name === "run") choose(event.target);
    else if (event.target.form === filters) {
      if (event.target.name === "metric") isTrendOpen = null;
      showList(filterUrl());
    }
  });
  list.addEventListener("click", (event) => {
    if (event.target.closest("#trend > summary")) isTrendOpen = !document.getElementById("trend").open;
    const link = clickedLink(event, "a[data-list]");
    if (!link) return;
    event.preventDefault();
    showList(link.href).then(() => list.querySelector(".runs")?.scrollIntoView({ block: "nearest" }));
  });
  list.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-tags]")) return;
    event.preventDefault();
    changeTags(event.target);
  });
  list.addEventListener("fragment", (event) => {
    if (event.target !== list) return;
    showChoice();
    showTrend();
  });
  window.addEventListener("popstate", () => {
    document.getElementById("search").value = new URLSearchParams(location.search).get("q") ?? "";
    loadList();
  });
  document.getElementById("clear-choice").addEventListener("click", () => {
    choice.clear();
    saveChoice();
    showChoice();
    announce("No run is chosen");
  });
  onKey("/", "Search runs", () => document.getElementById("search").focus());
  onKey("c", "Compare the chosen runs", () => document.getElementById("compare-button").click());
  showChoice();
}
