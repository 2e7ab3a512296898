// The pages of annotators: saves labels without loading the page, and keeps a label until the server has it.
//
// A label that was sent is stored in this tab with its submission id until the server answers. It is sent again with the
// same id, so that it is saved once. Comments are stored by item until the batch ends.

import { announce, clickedLink, onKey, postForm, replaceFragment } from "/assets/shell.js";

const RETRY_MS = [500, 1000, 2000, 4000, 8000];
const RENEW_MS = 4 * 60 * 1000;
const LOOK_MS = 15 * 1000;

const part = (id) => document.getElementById(id);
const frame = part("label");
const { batch, annotator } = frame.dataset;
const isAdjudication = new URLSearchParams(location.search).has("adjudicate");
const storeKey = (name) => `auepora-label:${batch}:${annotator}:${name}`;
let isBusy = false;
let retryNow = null;
let lastMessage = "";
let shownState = part("label-item").dataset.state;

// --- what this tab stores --------------------------------------------------------------------------------------------

function read(name) {
  try { return JSON.parse(sessionStorage.getItem(storeKey(name))); } catch { return null; }
}

function write(name, value) {
  try {
    if (value === null) sessionStorage.removeItem(storeKey(name));
    else sessionStorage.setItem(storeKey(name), JSON.stringify(value));
  } catch { /* it lasts as long as the page */ }
}

// --- the parts of the page -------------------------------------------------------------------------------------------

const itemNumber = () => part("label-item")?.dataset.item ?? "";
const commentField = () => frame.querySelector("textarea[name=comment]");

const isNarrow = () => matchMedia("(max-width: 60rem)").matches; // the instructions are below the texts

function itemUrl(number) {
  const url = new URL(location.pathname, location.href);
  url.searchParams.set("as", annotator);
  if (isAdjudication) url.searchParams.set("adjudicate", "1");
  if (number) url.searchParams.set("item", number);
  return url;
}

function showStatus(text, kind = "") {
  const status = part("label-status");
  if (!status) return;
  status.className = `label-status ${kind}`;
  status.textContent = text;
}

/** A message above the labels, with buttons; null removes it. */
function showProblem(text, actions = []) {
  const shown = part("label-problem");
  if (shown && shown.firstChild.textContent === text) return; // it is not announced again, and keeps the focus
  shown?.remove();
  if (text === null) return;
  const box = document.createElement("div");
  box.id = "label-problem";
  box.className = "banner bad label-problem";
  box.setAttribute("role", "alert");
  const paragraph = document.createElement("p");
  paragraph.textContent = text;
  box.append(paragraph);
  for (const [name, action] of actions) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet";
    button.textContent = name;
    button.addEventListener("click", action);
    box.append(button);
  }
  (part("label-form") ?? frame).prepend(box);
}

function setBusy(busy) {
  isBusy = busy;
  for (const control of frame.querySelectorAll("#label-form button:not(#label-problem button), #label-form input, .label-reason button")) {
    if (busy && !control.disabled) control.dataset.paused = "";
    if ("paused" in control.dataset) control.disabled = busy;
    if (!busy) delete control.dataset.paused;
  }
  if (commentField()) commentField().readOnly = busy;
}

/** Mark the chosen label as long as it is not saved. */
function markChoice(fields) {
  for (const button of frame.querySelectorAll(".choice")) {
    if (fields && button.value === (fields.value ?? fields.answer)) button.setAttribute("aria-pressed", "true");
    else button.removeAttribute("aria-pressed");
  }
}

// --- sending ---------------------------------------------------------------------------------------------------------

/** Send a form until the server answers; returns its answer, or throws its refusal. */
async function send(pending) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      const reply = await postForm(pending.url, { ...pending.fields, csrf_token: csrfToken(), fragment: "1" });
      showProblem(null);
      return reply;
    } catch (error) {
      if (error.status !== undefined && error.status !== 403 && error.status !== 503) throw error;
      if (error.status === 403 && (await renewToken())) continue;
      showStatus("Not saved yet", "bad");
      showProblem(problemText(error), [["Try now", () => retryNow?.()]]);
      await pause(RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)]);
    }
  }
}

function problemText(error) {
  if (error.status === 403) {
    return "The server was started again. Ask for its new address and open it in another tab. Your input is kept here and is saved then.";
  }
  if (error.status === 503) return `${error.message} Your input is kept here and is sent again.`;
  return "The connection to the server is lost. Your input is kept here and is sent again. If this takes long, ask whether auepora ui is running.";
}

function pause(time) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, time);
    retryNow = () => { clearTimeout(timer); resolve(); };
  });
}

function csrfToken() {
  return document.querySelector('meta[name="csrf-token"]').content;
}

/** Take the token of the present server into this page; false where this browser has no access yet, or the token is not new. */
async function renewToken() {
  let text;
  try {
    const response = await fetch(itemUrl(itemNumber()), { credentials: "same-origin" });
    if (response.status === 403) return false;
    text = await response.text();
  } catch { return false; }
  const found = new DOMParser().parseFromString(text, "text/html").querySelector('meta[name="csrf-token"]')?.content;
  if (!found || found === csrfToken()) return false;
  document.querySelector('meta[name="csrf-token"]').content = found;
  for (const field of document.querySelectorAll("input[name=csrf_token]")) field.value = found;
  return true;
}

/** Send a form, then show the next item. */
async function submit(pending) {
  if (isBusy) return;
  setBusy(true);
  write("pending", pending);
  markChoice(pending.fields);
  showProblem(null);
  showStatus("Saving …");
  let reply;
  try {
    reply = await send(pending);
  } catch (error) {
    write("pending", null);
    setBusy(false);
    markChoice(null);
    showStatus("Not saved", "bad");
    const next = error.status === 409 || error.status === 404;
    showProblem(error.message, next ? [["Next item", () => showItem("")]] : []);
    part("label-problem").querySelector("button")?.focus();
    return;
  }
  write("pending", null);
  if (pending.action === "label") write(`comment:${pending.fields.item}`, pending.fields.comment || null);
  await showItem(reply.item ? String(reply.item) : "", reply.message);
}

/** Show an item, the next one where no number is given, after a message. An error is shown with a button that tries again. */
async function showItem(number, message = "") {
  setBusy(true);
  lastMessage = message;
  const url = itemUrl(number);
  url.searchParams.set("fragment", "1");
  await replaceFragment(frame, url.href);
}

frame.addEventListener("fragment", (event) => {
  if (event.target !== frame) return; // a whole text
  isBusy = false;
  prepareItem();
  const before = shownState;
  shownState = part("label-item").dataset.state;
  if (before === "waiting" && shownState === "waiting") return; // nothing has changed
  scrollTo({ top: 0, behavior: "instant" });
  part("label-heading").focus({ preventScroll: true });
  if (lastMessage) showStatus(lastMessage, "good");
  announce([lastMessage, part("label-heading").textContent].filter(Boolean).join(". "));
  lastMessage = "";
});

// --- an item ---------------------------------------------------------------------------------------------------------

function prepareItem() {
  document.title = document.title.replace(/^.*(?= – )/, part("label-heading").textContent.split(" of ")[0]);
  const field = commentField();
  const draft = read(`comment:${itemNumber()}`);
  if (field && !field.value && draft) {
    field.value = draft;
    part("label-comment").open = true;
  }
  const guide = read("guide"); // what this person chose; until then they are open beside the first item
  if (part("label-guide") && (guide !== null || isNarrow())) part("label-guide").open = guide ?? false;
  if (part("label-documents")) part("label-documents").hidden = false;
  if (part("label-reference") && read("reference")) part("label-reference").open = true;
  activateGrade();
  for (const box of frame.querySelectorAll(".choices.two fieldset:first-of-type input")) {
    onKey(box.value, `Grade ${box.value}: the first answer, then the second one`, () => gradeByKey(box.value));
  }
}

/** The fields of a form as an object. */
function fieldsOf(form, submitter) {
  const data = new FormData(form);
  if (submitter?.name) data.append(submitter.name, submitter.value); // submitters of a click have a name and a value
  return Object.fromEntries(data);
}

frame.addEventListener("submit", (event) => {
  event.preventDefault();
  const form = event.target;
  const url = event.submitter?.getAttribute("formaction") ?? form.getAttribute("action");
  const action = url.split("/").at(-1);
  const comment = commentField()?.value ?? "";
  if (action !== "label") write(`comment:${itemNumber()}`, comment || null);
  submit({ url, action, fields: fieldsOf(form, event.submitter) });
});

frame.addEventListener("input", (event) => {
  if (event.target === commentField()) write(`comment:${itemNumber()}`, event.target.value || null);
});

frame.addEventListener("toggle", (event) => {
  const { id, open } = event.target;
  if (id === "label-reference") write("reference", open);
}, true);

// A comment or a reason: its field has the focus at once, so that the next key is not a shortcut. A click closes it again.
frame.addEventListener("click", (event) => {
  const details = clickedLink(event, ".label-tools summary")?.parentElement;
  if (!details) return;
  event.preventDefault();
  details.open = !(details.open && event.detail > 0);
  // A bar at the bottom of the window is in view already.
  const preventScroll = getComputedStyle(part("label-form")).position === "sticky";
  if (details.open) details.querySelector("textarea, input").focus({ preventScroll });
});

frame.addEventListener("click", (event) => {
  if (event.target.closest("#label-guide > summary")) write("guide", !part("label-guide").open);
  if (!event.target.closest("#label-documents")) return;
  const documents = [...frame.querySelectorAll(".label-documents details")];
  const isFolded = documents.some((one) => !one.open);
  for (const one of documents) one.open = isFolded;
  announce(isFolded ? "All documents are open" : "All documents are folded");
});

frame.addEventListener("click", (event) => {
  const link = clickedLink(event, ".label-end a");
  if (!link) return;
  event.preventDefault();
  showItem(new URL(link.href).searchParams.get("item") ?? "");
});

// Esc leaves a field; a key that is kept down labels one item, not many.
document.addEventListener("keydown", (event) => {
  if (event.repeat && !event.target.matches?.("textarea, input[type=text]")) {
    event.stopImmediatePropagation();
    return;
  }
  if (event.key !== "Escape" || !frame.contains(event.target)) return;
  const details = event.target.closest(".label-tools > details");
  if (!details) return;
  if (details.id === "label-skip" || !commentField().value) details.open = false;
  part("label-heading").focus({ preventScroll: true });
}, true);

// --- two grades: the first digit is for the first answer, the second one for the second answer --------------------------

function activateGrade() {
  const groups = [...frame.querySelectorAll(".choices.two fieldset")];
  const open = groups.find((group) => !group.querySelector("input:checked"));
  for (const group of groups) group.toggleAttribute("data-active", group === open);
  return open;
}

function gradeByKey(value) {
  const group = activateGrade();
  if (!group || isBusy) return;
  const box = [...group.querySelectorAll("input")].find((one) => one.value === value);
  if (!box) return;
  box.checked = true;
  announce(`${group.querySelector("legend").textContent}: ${value}`);
  if (!activateGrade()) part("save-grades").click();
}

frame.addEventListener("change", activateGrade);

// --- leases, and what was not saved before the page was loaded --------------------------------------------------------

setInterval(async () => {
  if (document.hidden || isBusy || !itemNumber() || isAdjudication) return;
  try {
    await postForm(`/label/${batch}/renew`, { as: annotator, item: itemNumber(), fragment: "1" });
  } catch { /* a label is saved without a lease, too */ }
}, RENEW_MS);

setInterval(() => {
  if (!document.hidden && !isBusy && part("label-item")?.dataset.state === "waiting") showItem("");
}, LOOK_MS);

window.addEventListener("beforeunload", (event) => { if (read("pending")) event.preventDefault(); });

prepareItem();
const unsaved = read("pending");
if (unsaved) submit(unsaved);
