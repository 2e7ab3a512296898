// The list of queries: search while typing, filters and order in the address, suggestions for values.
// Works on every page that contains the fragment /queries?...&fragment=1.

import { announce, clickedLink, onKey, replaceFragment } from "/assets/shell.js";
import { setUpBrushes } from "/assets/brush.js";
import "/assets/rows.js";

const FILTER_NAMES = ["q", "where", "sort", "after", "size"];
const DELAY_MS = 120;
const timers = new WeakMap();
const list = document.getElementById("queries"); // where another page contains the list

const rootOf = (element) => element.closest(".query-list");
const paramsOf = (root) => new URLSearchParams(root.querySelector(".query-part")?.dataset.params ?? root.dataset.params ?? "");

/** Show the queries of these parameters; those that are known at once, or all of them after some time. */
async function show(root, params, { all = false } = {}) {
  clearTimeout(timers.get(root));
  root.dataset.params = paramsOf(root); // for the time after an error
  const url = new URL(root.dataset.address, location.href);
  for (const [name, value] of params) url.searchParams.append(name, value);
  url.searchParams.set("fragment", "results");
  if (all) url.searchParams.set("wait", "1");
  await replaceFragment(root.querySelector(".query-results"), url.pathname + url.search);
}

document.addEventListener("fragment", (event) => {
  const part = event.target.querySelector(".query-part");
  if (!part) return;
  setUpBrushes(part);
  if ("partial" in part.dataset) show(rootOf(part), paramsOf(rootOf(part)), { all: true });
  showTokens(rootOf(part), part);
  if (!event.target.matches(".query-results")) return;
  updateAddress(new URLSearchParams(part.dataset.params));
  announce(part.dataset.count);
});

/** Show the conditions as tokens of the field, and the number of queries in the title. */
function showTokens(root, part) {
  const tokens = part.querySelector(".new-tokens");
  if (tokens) root.querySelector(".query-tokens").replaceChildren(tokens.content.cloneNode(true));
  const total = document.querySelector(".query-total");
  if (total) total.textContent = part.dataset.count;
}

/** Put the filter into the address of the page. */
function updateAddress(params) {
  const url = new URL(location.href);
  for (const name of FILTER_NAMES) url.searchParams.delete(name);
  for (const [name, value] of params) url.searchParams.append(name, value);
  history.replaceState(history.state, "", url);
  const conditions = (search) => new URLSearchParams(search).getAll("where").join("\n");
  const chips = [...document.querySelectorAll('.review-lists a[href^="/review"]')];
  for (const chip of chips) { // the list of the page of review that is shown, if it is one
    if (conditions(chip.search) === conditions(url.search)) chip.setAttribute("aria-current", "true");
    else chip.removeAttribute("aria-current");
  }
  for (const one of document.querySelectorAll("[data-chosen]")) one.hidden = !chips.some((chip) => chip.hasAttribute("aria-current"));
}

function search(root) {
  const params = paramsOf(root);
  params.delete("after");
  params.set("q", root.querySelector("#query-search").value);
  params.set("sort", root.querySelector("#query-sort").value);
  return show(root, params);
}

/** The values that are suggested for the chosen property. */
function suggestValues(root) {
  const option = root.querySelector("#query-field")?.selectedOptions[0];
  const list = root.querySelector("#query-values");
  if (!option || !list) return;
  list.replaceChildren(...JSON.parse(option.dataset.values).map((value) => {
    const element = document.createElement("option");
    element.value = value;
    return element;
  }));
}

document.addEventListener("input", (event) => {
  const root = rootOf(event.target);
  if (!root || event.target.id !== "query-search") return;
  clearTimeout(timers.get(root));
  if (/[<>=]/.test(event.target.value)) return; // a condition: it is read when it is complete, with Enter
  timers.set(root, setTimeout(() => search(root), DELAY_MS));
});

document.addEventListener("change", (event) => {
  const root = rootOf(event.target);
  if (!root) return;
  if (event.target.id === "query-sort") search(root);
  if (event.target.id === "query-field") suggestValues(root);
});

document.addEventListener("focusin", (event) => {
  if (event.target.id === "query-value") suggestValues(rootOf(event.target));
});

document.addEventListener("submit", async (event) => {
  const root = rootOf(event.target);
  if (!root || event.target.method === "post") return;
  event.preventDefault();
  if (event.target.matches(".query-search")) {
    await search(root);
    root.querySelector("#query-search").value = paramsOf(root).get("q") ?? "";
    return;
  }
  const params = paramsOf(root);
  params.delete("after");
  const names = event.target.matches(".query-range") ? ["range", "from", "to"] : ["add", "operator", "value"];
  for (const name of names) params.set(name, event.target.elements[name].value);
  await show(root, params);
});

// The strip of differences: the selected range replaces the one before.
document.addEventListener("filter", (event) => {
  const root = rootOf(event.target);
  if (!root?.querySelector(".strip")?.contains(event.target)) return;
  const params = paramsOf(root);
  params.delete("after");
  params.set("range", event.detail.field);
  for (const one of event.detail.conditions) params.set(one.includes(">=") ? "from" : "to", one.split("=").at(-1));
  show(root, params);
});

document.addEventListener("click", (event) => {
  const link = clickedLink(event, ".query-list a[data-filter]");
  if (!link) return;
  event.preventDefault();
  const root = rootOf(link);
  const params = new URL(link.getAttribute("href"), location.href).searchParams;
  params.delete("run");
  if ("clear" in link.dataset) root.querySelector("#query-search").value = "";
  const sort = root.querySelector("#query-sort");
  const key = params.get("sort") ?? "";
  if ([...sort.options].some((one) => one.value === key)) sort.value = key;
  else sort.add(new Option(key.slice(0, 80), key, false, true));
  show(root, params);
});

/** Focus the search, which a page loads when the list comes into view. */
function focusSearch() {
  const field = document.getElementById("query-search");
  if (field) {
    field.focus();
    return;
  }
  list?.addEventListener("fragment", () => document.getElementById("query-search")?.focus(), { once: true });
  list?.scrollIntoView();
}

onKey("/", "Search queries", focusSearch);

// --- the list as a part of another page: the element #queries, whose data-address names the runs -------------------------

/** The filters in the address of the page. */
export function currentFilters() {
  const address = new URLSearchParams(location.search);
  const filters = new URLSearchParams();
  for (const name of FILTER_NAMES) for (const value of address.getAll(name)) filters.append(name, value);
  return filters;
}

/** The filters of the list as it is shown. */
export function shownFilters() {
  return paramsOf(list);
}

function loadQueries() {
  const url = new URL(list.dataset.address, location.href);
  for (const [name, value] of currentFilters()) url.searchParams.append(name, value);
  const own = new URL(list.dataset.fragment ?? list.dataset.address, location.href).searchParams;
  for (const name of ["size", "relax"]) if (own.has(name) && !url.searchParams.has(name)) url.searchParams.set(name, own.get(name));
  url.searchParams.set("fragment", "1");
  return replaceFragment(list, url.pathname + url.search);
}

/** Show the queries that an address of the page filters, and go to the list. */
export async function showQueries(address) {
  history.pushState(null, "", address);
  document.querySelector("dialog[open]")?.close();
  const isLoaded = loadQueries();
  if (!list.closest(".panes")) list.closest("section").scrollIntoView();
  list.focus({ preventScroll: true });
  if (await isLoaded) announce(`The queries are filtered by ${currentFilters().getAll("where").join(" and ")}`);
}

// A link to another part of the page is no change of the filter.
window.addEventListener("popstate", () => {
  if (!list?.dataset.address) return;
  const shown = shownFilters();
  const filters = currentFilters();
  shown.sort();
  filters.sort();
  if (list.ariaBusy === "true" || shown.toString() !== filters.toString()) loadQueries();
});
