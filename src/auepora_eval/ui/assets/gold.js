// Proposed corrections: forms that are sent without loading the page, and grades of documents by one key.
//
// Attributes:
//   data-gold      on a form: it is sent by a script, and the marks of the page are updated
//   data-grade     on such a form, which is hidden: it is sent when a key grades the document with the focus
//   data-document  the document of a ranking, or of the marks in an answer of the server
//   data-name      on a field: the name of the user, which this browser remembers
//   data-effect    on a form: the element with this id is filled with the effect of the selected proposals
//   data-after-task="URL"  the element is filled with the fragment when the corrections are applied
//   data-poll      the element is filled with the fragment every second while it contains data-active

import { announce, onKey, postForm, replaceFragment } from "/assets/shell.js";

const NAME_SETTING = "auepora-annotator";

function readName() {
  try { return localStorage.getItem(NAME_SETTING) ?? ""; } catch { return ""; }
}

function writeName(name) {
  try { localStorage.setItem(NAME_SETTING, name); } catch { /* it is typed again */ }
}

// --- sending a form --------------------------------------------------------------------------------------------------

let isSending = false;

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form[data-gold]");
  if (!form || !document.getElementById("proposals")) return; // elsewhere the next page shows the result
  event.preventDefault();
  if (isSending) return; // a key that is held down
  isSending = true;
  const fields = new FormData(form, event.submitter);
  fields.set("fragment", "1");
  const name = fields.get("by")?.trim() || readName();
  if (name) fields.set("by", name);
  if (form.querySelector("[data-name]")) writeName(name);
  try {
    const answer = await postForm(form.action, fields);
    const dialog = form.closest("dialog");
    showProposals(answer);
    form.querySelector("[data-failed]")?.remove();
    dialog?.close();
    announce(answer.querySelector("[data-message]")?.textContent ?? "Saved");
  } catch (error) {
    showError(form, error.message);
  } finally {
    isSending = false;
  }
});

function showProposals(answer) {
  const list = document.getElementById("proposals");
  const hasFocus = list.contains(document.activeElement);
  const message = answer.querySelector("[data-message]");
  const marks = new Map([...answer.querySelectorAll("[data-document]")].map((one) => [one.dataset.document, one]));
  for (const one of document.querySelectorAll(".document[data-document]")) {
    const found = marks.get(one.dataset.document);
    one.querySelector("[data-marks]").replaceChildren(...(found ? found.cloneNode(true).childNodes : []));
  }
  const shown = answer.querySelector("#proposals");
  message?.remove();
  list.replaceWith(shown);
  if (hasFocus) shown.focus({ preventScroll: true });
  answer.append(message ?? "");
}

function showError(form, text) {
  const place = form.hidden ? document.getElementById("proposals") : form;
  let box = place.querySelector("[data-failed]");
  if (!box) {
    box = document.createElement("p");
    box.className = "banner bad";
    box.dataset.failed = "";
    box.setAttribute("role", "alert");
    place.append(box);
  }
  box.textContent = text;
}

// --- grades of the document with the focus, by one key ---------------------------------------------------------------

function setUpGrades() {
  const form = document.querySelector("form[data-grade]");
  const documents = [...document.querySelectorAll(".rankings .document")];
  if (!form || !documents.length) return;
  const focused = () => documents.find((one) => one.contains(document.activeElement));
  for (const grade of form.querySelectorAll("[data-grade-key]")) {
    onKey(grade.dataset.gradeKey, `Grade the document with the focus: ${grade.value}`, () => {
      const found = focused();
      if (!found) {
        announce("No document has the focus");
        return;
      }
      form.elements.document.value = found.dataset.document;
      form.elements.grade.value = grade.dataset.gradeKey;
      form.requestSubmit();
    });
  }
  onKey("n", "Next document without a grade", () => {
    const isOpen = (one) => one.checkVisibility() && !one.matches(".is-gold, .is-not, .is-again") && !one.querySelector("[data-marks]").childElementCount;
    const place = documents.indexOf(focused());
    const next = [...documents.slice(place + 1), ...documents.slice(0, place + 1)].find(isOpen);
    if (next) next.querySelector("summary").focus();
    else announce("Every document has a grade");
  });
}

// The form in the side panel: the first field gets the focus.
document.addEventListener("fragment", (event) => {
  const form = event.target.querySelector("form.correction");
  if (!form) return;
  const name = form.querySelector("[data-name]");
  name.value = readName() || name.value;
  form.querySelector('input[name="kind"]:checked').focus();
});

// --- the list of proposals -----------------------------------------------------------------------------------------------

document.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-effect]");
  if (!form) return;
  event.preventDefault();
  const parameters = new URLSearchParams(new FormData(form));
  parameters.set("fragment", "1");
  replaceFragment(document.getElementById(form.dataset.effect), `${form.action}?${parameters}`);
});

function pollTask() {
  const element = document.querySelector("[data-poll]");
  if (!element?.querySelector("[data-active]")) return;
  setTimeout(async () => {
    const isFilled = await replaceFragment(element, element.dataset.poll);
    if (isFilled && !element.querySelector("[data-active]")) {
      announce(element.textContent.trim());
      for (const one of document.querySelectorAll("[data-after-task]")) replaceFragment(one, one.dataset.afterTask);
    }
    pollTask();
  }, 1000);
}

setUpGrades();
pollTask();
