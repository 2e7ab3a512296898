// Shared by all pages: fragments, the side panel, copying, shortcuts, announcements and the theme.
//
// Attributes:
//   data-fragment="URL"  the element is filled with the fragment when it comes near the view
//   data-drawer="URL"    on a link: opens the fragment in a side panel; data-title names the panel
//   data-copy="TEXT"     on a button: copies the text
//   data-record="URL"    the decision that the page shows is recorded by a POST; a message appears where it is not
//   data-whole           on a link in a .shown-text: shows the whole text in place of its beginning
//   data-key="j"         on a link or button: a shortcut; data-key-text describes it, else its name does
// Event: "fragment" on an element whose fragment was inserted; it bubbles.

const CSRF_HEADER = "X-CSRF-Token";

// --- announcements ---------------------------------------------------------------------------------------------------

let liveRegion = null;

/** Read a text to users of a screen reader. */
export function announce(text) {
  if (liveRegion === null) {
    liveRegion = document.getElementById("announcements") ?? document.body.appendChild(document.createElement("p"));
    liveRegion.className = "visually-hidden";
    liveRegion.setAttribute("role", "status");
    liveRegion.setAttribute("aria-live", "polite");
  }
  // A modal dialog hides the rest of the page from screen readers.
  const parent = openDialog() ?? document.body;
  if (liveRegion.parentElement !== parent) parent.append(liveRegion);
  liveRegion.textContent = "";
  setTimeout(() => { liveRegion.textContent = text; }, 50); // the same text twice is announced twice
}

// --- requests --------------------------------------------------------------------------------------------------------

/** Get a fragment of a page; throws an Error with a message for the user. */
async function getFragment(url, { signal } = {}) {
  return parseBody(await request(url, { signal }));
}

/** Send fields by POST with the CSRF token; returns the JSON value or the fragment of the answer. */
export async function postForm(url, fields = {}) {
  const token = document.querySelector('meta[name="csrf-token"]')?.content ?? "";
  const body = fields instanceof FormData ? new URLSearchParams(fields) : new URLSearchParams();
  if (!(fields instanceof FormData)) {
    for (const [name, value] of Object.entries(fields)) {
      for (const one of Array.isArray(value) ? value : [value]) body.append(name, one);
    }
  }
  if (!body.has("csrf_token")) body.set("csrf_token", token);
  return parseBody(await request(url, { method: "POST", body, headers: { [CSRF_HEADER]: token } }));
}

async function request(url, options) {
  let response;
  try {
    response = await fetch(url, { credentials: "same-origin", ...options, headers: { Accept: "text/html, application/json", ...options.headers } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Check that `auepora ui` is running.");
  }
  if (!response.ok) throw Object.assign(new Error(await errorMessage(response)), { status: response.status });
  return response;
}

async function parseBody(response) {
  if (isJson(response)) return response.json();
  return parseHtml(await response.text());
}

function isJson(response) {
  return (response.headers.get("Content-Type") ?? "").startsWith("application/json");
}

function parseHtml(text) {
  const template = document.createElement("template");
  template.innerHTML = text; // HTML of this server, where every text is escaped
  return template.content;
}

async function errorMessage(response) {
  try {
    if (isJson(response)) return String((await response.json()).error);
    const text = await response.text();
    if ((response.headers.get("Content-Type") ?? "").startsWith("text/plain")) return text.slice(0, 500);
    const page = parseHtml(text);
    const message = page.querySelector("[data-error]") ?? page.querySelector("main p") ?? page.querySelector("p");
    if (message) return message.textContent.trim();
  } catch { /* an answer that cannot be read */ }
  return `The server answered with status ${response.status}.`;
}

// --- fragments -------------------------------------------------------------------------------------------------------

const pendingRequests = new WeakMap();

/**
 * Fill an element with a fragment. A later call for the same element cancels an earlier one. Returns whether it was filled.
 * After an error, an element that was filled before keeps its content below the message.
 */
export async function replaceFragment(element, url) {
  lazyFragments.unobserve(element); // what is asked for now is not replaced by what comes into view
  pendingRequests.get(element)?.abort();
  const controller = new AbortController();
  pendingRequests.set(element, controller);
  element.setAttribute("aria-busy", "true");
  const isEmpty = !element.hasAttribute("data-filled");
  if (isEmpty) element.replaceChildren(paragraph("loading", "Loading …"));
  let content;
  try {
    content = await getFragment(url, { signal: controller.signal });
  } catch (error) {
    if (error.name === "AbortError") return false;
    const box = errorBox(error.message, error.status === 400 ? null : () => replaceFragment(element, url));
    insert(element, isEmpty ? [box] : [box, ...[...element.childNodes].filter((one) => !one.dataset?.failed)]);
    return false;
  } finally {
    if (pendingRequests.get(element) === controller) element.removeAttribute("aria-busy");
  }
  if (pendingRequests.get(element) !== controller) return false;
  element.setAttribute("data-filled", "");
  insert(element, [content]);
  element.dispatchEvent(new CustomEvent("fragment", { bubbles: true, detail: { url } }));
  return true;
}

function insert(element, nodes) {
  const focus = rememberFocus(element);
  element.replaceChildren(...nodes);
  prepare(element);
  focus();
}

/** Focus and selection inside an element; the function restores them in its new content. */
function rememberFocus(element) {
  const active = document.activeElement;
  if (!active || active === element || !element.contains(active)) return () => {};
  const { selectionStart, selectionEnd } = active;
  const findTarget = active.id ? () => document.getElementById(active.id) : findSame(element, active);
  return () => {
    const target = findTarget();
    if (target && element.contains(target)) {
      target.focus({ preventScroll: true });
      if (typeof selectionStart === "number" && target.setSelectionRange) target.setSelectionRange(selectionStart, selectionEnd);
      return;
    }
    if (!element.hasAttribute("tabindex")) element.tabIndex = -1;
    element.focus({ preventScroll: true });
  };
}

/** A function that finds the control with the same name in the new content; of several with this name, the one at the same place. */
function findSame(element, control) {
  const nameOf = (one) => one.getAttribute("aria-label") ?? one.textContent.trim();
  const name = nameOf(control);
  const find = () => [...element.querySelectorAll(control.localName)].filter((one) => nameOf(one) === name);
  const place = find().indexOf(control);
  return () => find()[place];
}

function errorBox(message, retry) {
  const box = document.createElement("div");
  box.className = "banner bad";
  box.dataset.failed = "1";
  box.setAttribute("role", "alert");
  box.append(paragraph("", message));
  if (retry === null) return box; // the same request fails again
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet";
  button.textContent = "Try again";
  button.addEventListener("click", retry);
  box.append(button);
  return box;
}

function paragraph(className, text) {
  const element = document.createElement("p");
  if (className) element.className = className;
  element.textContent = text;
  return element;
}

const lazyFragments = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    replaceFragment(target, target.dataset.fragment);
  }
}, { rootMargin: "400px" });

// A link to a part of the page: parts above it that are filled later do not move it out of view.
let destination = null;

function setDestination(hash) {
  destination = hash.length > 1 ? document.getElementById(decodeURIComponent(hash.slice(1))) : null;
}

document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest('a[href^="#"]') : null;
  if (link) setDestination(link.hash);
});
document.addEventListener("fragment", () => destination?.scrollIntoView({ behavior: "instant" }));
for (const name of ["wheel", "touchstart", "pointerdown", "keydown"]) {
  document.addEventListener(name, () => { destination = null; }, { passive: true });
}
try { setDestination(location.hash); } catch { /* an address with a wrong percent encoding */ }

/** Prepare new elements: fragments that are filled later, and names of shortcuts. */
function prepare(root) {
  for (const element of root.querySelectorAll("[data-fragment]:not([data-filled])")) lazyFragments.observe(element);
  for (const element of root.querySelectorAll("[data-record]")) recordDecision(element);
  for (const element of root.querySelectorAll("[data-key]")) element.setAttribute("aria-keyshortcuts", element.dataset.key);
}

async function recordDecision(element) {
  const url = element.dataset.record;
  delete element.dataset.record; // once
  element.ariaBusy = "true";
  let message = "";
  try {
    ({ message = "" } = await postForm(url));
  } catch (error) {
    message = `This decision is not recorded: ${error.message}`;
  }
  element.ariaBusy = null;
  element.textContent = message;
  element.hidden = !message;
}

// --- dialogs: the side panel and the list of shortcuts -----------------------------------------------------------------

let drawer = null;

function openDialog() {
  return document.querySelector("dialog[open]");
}

/** A dialog with a title and a close button; it is removed when it closes, and the focus returns. */
function createDialog(className, title) {
  const dialog = document.createElement("dialog");
  dialog.className = className;
  const heading = document.createElement("h2");
  heading.id = `dialog-title-${className}`;
  heading.textContent = title;
  dialog.setAttribute("aria-labelledby", heading.id);
  const close = document.createElement("button");
  close.type = "button";
  close.className = "quiet";
  close.textContent = "Close";
  close.addEventListener("click", () => dialog.close());
  const header = document.createElement("header");
  header.append(heading, close);
  const body = document.createElement("div");
  body.className = "dialog-body";
  dialog.append(header, body);
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  const before = document.activeElement;
  dialog.addEventListener("close", () => {
    if (liveRegion && dialog.contains(liveRegion)) document.body.append(liveRegion);
    dialog.remove();
    if (document.activeElement === document.body && before?.isConnected) before.focus({ preventScroll: true });
  });
  document.body.append(dialog);
  return { dialog, heading, header, close, body };
}

function openDrawer(link) {
  const title = link.dataset.title || link.getAttribute("aria-label") || link.textContent.trim() || "Details";
  if (drawer === null || !drawer.dialog.open) {
    drawer = createDialog("drawer", title);
    drawer.page = document.createElement("a");
    drawer.page.className = "quiet";
    drawer.page.textContent = "Open as a page";
    drawer.header.insertBefore(drawer.page, drawer.close);
    drawer.dialog.addEventListener("close", () => { drawer = null; });
    drawer.dialog.showModal();
    drawer.close.focus();
  }
  drawer.heading.textContent = title;
  drawer.page.href = link.href;
  drawer.body.removeAttribute("data-filled");
  drawer.body.scrollTop = 0;
  replaceFragment(drawer.body, link.dataset.drawer);
}

/** The link that a click opens in this page, unless a key asks for a new tab or window. */
export function clickedLink(event, selector) {
  if (event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return null;
  return event.target instanceof Element ? event.target.closest(selector) : null;
}

// --- copying ---------------------------------------------------------------------------------------------------------

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { /* no permission */ }
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "visually-hidden";
  (openDialog() ?? document.body).append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  return isCopied;
}

async function copyFrom(button) {
  const isCopied = await copyText(button.dataset.copy);
  button.focus();
  const message = isCopied ? "Copied" : "Not copied: select the text instead";
  announce(message);
  if (button.dataset.label === undefined) button.dataset.label = button.textContent;
  button.textContent = message;
  clearTimeout(Number(button.dataset.timer));
  button.dataset.timer = setTimeout(() => { button.textContent = button.dataset.label; }, 2000);
}

// --- shortcuts -------------------------------------------------------------------------------------------------------

const SHORTCUT_SETTING = "auepora-shortcuts";
const shortcuts = new Map();

/** Call an action when a key is pressed outside of a field. */
export function onKey(key, description, action) {
  shortcuts.set(key, { description, action });
}

function areShortcutsOn() {
  return readSetting(SHORTCUT_SETTING) !== "off";
}

function isTextField(element) {
  if (element.isContentEditable) return true;
  if (element instanceof HTMLInputElement) return !["checkbox", "radio", "range", "button", "submit", "reset"].includes(element.type);
  return element instanceof HTMLTextAreaElement || element instanceof HTMLSelectElement;
}

function isVisible(element) {
  return element.checkVisibility?.() ?? true;
}

function elementWithKey(root, key) {
  return [...root.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key && !one.disabled && isVisible(one));
}

function pressKey(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (isTextField(event.target) || !areShortcutsOn()) return;
  const dialog = openDialog();
  const element = elementWithKey(dialog ?? document, event.key);
  if (element) element.click();
  else if (dialog) return;
  else if (event.key === "?") showShortcuts();
  else if (shortcuts.has(event.key)) shortcuts.get(event.key).action(event);
  else return;
  event.preventDefault();
}

function describeShortcuts() {
  const rows = new Map();
  for (const element of document.querySelectorAll("[data-key]")) {
    const text = element.dataset.keyText || element.getAttribute("aria-label") || element.textContent.trim();
    if (!rows.has(element.dataset.key) && isVisible(element)) rows.set(element.dataset.key, text);
  }
  for (const [key, { description }] of shortcuts) if (!rows.has(key)) rows.set(key, description);
  rows.set("?", "Show the shortcuts of this page");
  rows.set("Esc", "Close a panel");
  return rows;
}

function showShortcuts() {
  const { dialog, close, body } = createDialog("popup", "Keyboard shortcuts");
  const list = document.createElement("dl");
  list.className = "shortcuts";
  for (const [key, text] of describeShortcuts()) {
    const row = document.createElement("div");
    const term = document.createElement("dt");
    const name = document.createElement("kbd");
    name.textContent = key;
    term.append(name);
    const description = document.createElement("dd");
    description.textContent = text;
    row.append(term, description);
    list.append(row);
  }
  const label = document.createElement("label");
  label.className = "check";
  const box = document.createElement("input");
  box.type = "checkbox";
  box.checked = areShortcutsOn();
  box.addEventListener("change", () => writeSetting(SHORTCUT_SETTING, box.checked ? "on" : "off"));
  label.append(box, " Use shortcuts");
  body.append(list, label);
  dialog.showModal();
  close.focus();
}

// --- settings and theme ----------------------------------------------------------------------------------------------

function readSetting(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}

function writeSetting(name, value) {
  try { localStorage.setItem(name, value); } catch { /* it lasts as long as the page */ }
}

function setUpTheme() {
  const button = document.getElementById("theme");
  if (!button) return;
  const root = document.documentElement;
  const themes = ["auto", "light", "dark"];
  const text = button.querySelector("span");
  const show = () => { text.textContent = button.title = `Theme: ${root.dataset.theme ?? "auto"}`; };
  button.addEventListener("click", () => {
    const theme = themes[(themes.indexOf(root.dataset.theme ?? "auto") + 1) % themes.length];
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    writeSetting("auepora-theme", theme);
    show();
    announce(text.textContent);
  });
  button.hidden = false;
  show();
}

function setUpShortcuts() {
  const button = document.getElementById("shortcuts");
  document.addEventListener("keydown", pressKey);
  if (!button) return;
  button.hidden = false;
  button.addEventListener("click", showShortcuts);
}

document.addEventListener("click", (event) => {
  const button = clickedLink(event, "[data-copy]");
  if (button) copyFrom(button);
  const link = clickedLink(event, "a[data-drawer]");
  if (!link) return;
  event.preventDefault();
  openDrawer(link);
});

document.addEventListener("click", async (event) => {
  const link = clickedLink(event, "a[data-whole]");
  if (!link) return;
  event.preventDefault();
  const holder = link.closest(".shown-text");
  if (await replaceFragment(holder, `${link.href}&fragment=1`)) {
    holder.querySelector(".whole")?.focus();
    announce("The whole text is shown");
  }
});

// A menu closes with Escape, which returns the focus, and when something else is used.
document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" ? event.target.closest?.("details.pop[open]") : null;
  if (!menu) return;
  event.preventDefault();
  menu.open = false;
  menu.querySelector("summary").focus();
});
document.addEventListener("pointerdown", (event) => {
  for (const menu of document.querySelectorAll("details.pop[open]")) if (!menu.contains(event.target)) menu.open = false;
});
document.addEventListener("focusout", (event) => {
  const menu = event.target.closest?.("details.pop[open]");
  if (menu && event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
});

setUpTheme();
setUpShortcuts();
prepare(document);
