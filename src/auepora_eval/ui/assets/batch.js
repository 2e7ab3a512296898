// The organiser's pages: the forecast of a new batch while its form changes, and progress that follows the labels.

import { replaceFragment } from "/assets/shell.js";

const DELAY_MS = 300;
const PROGRESS_MS = 3000;
const UNUSED = ["csrf_token", "instructions", "title", "created_by"]; // by the forecast and the lists of the form

// --- a new batch -----------------------------------------------------------------------------------------------------

const form = document.getElementById("batch-form");
const entered = new Map(); // by id, since the last request for the fields
let timer = 0;

function formUrl(path) {
  const params = new URLSearchParams(new FormData(form));
  for (const name of UNUSED) params.delete(name);
  return `${path}?${params}`;
}

let isForecasting = false;
let isChanged = false;

/** Show the forecast of the form. One is computed at a time: that of a large run takes seconds. */
async function showForecast() {
  clearTimeout(timer);
  isChanged = true;
  if (isForecasting) return;
  isForecasting = true;
  while (isChanged) {
    isChanged = false;
    await replaceFragment(document.getElementById("forecast"), formUrl("/batches/forecast"));
  }
  isForecasting = false;
}

if (form) {
  document.getElementById("show-forecast").hidden = true; // it is shown after every change
  form.addEventListener("input", (event) => {
    if (UNUSED.includes(event.target.name)) return;
    if (event.target.type !== "checkbox") entered.set(event.target.id, event.target.value);
    clearTimeout(timer);
    timer = setTimeout(showForecast, DELAY_MS);
  });
  form.addEventListener("change", async (event) => {
    if (!("reload" in event.target.dataset)) return;
    entered.clear();
    await replaceFragment(document.getElementById("batch-fields"), formUrl("/batches/fields")); // metrics of the run
    for (const [id, value] of entered) document.getElementById(id).value = value; // while they were loaded
    showForecast();
  });
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "1"; // a second click sends nothing
  });
  window.addEventListener("pageshow", () => { delete form.dataset.sent; });
  showForecast();
}

// --- progress of a batch -------------------------------------------------------------------------------------------------

const progress = document.getElementById("batch-progress");

function stateOf() {
  return progress.querySelector(".batch-state")?.dataset.state;
}

async function followProgress() {
  if (!document.hidden && !progress.contains(document.activeElement)) {
    const before = stateOf();
    const isFilled = await replaceFragment(progress, progress.dataset.source);
    const isBusy = document.getElementById("close-batch")?.open;
    if (isFilled && stateOf() !== before && !isBusy) location.reload(); // results or agreement have become possible
  }
  setTimeout(followProgress, PROGRESS_MS);
}

if (progress && !("closed" in progress.dataset)) setTimeout(followProgress, PROGRESS_MS);
