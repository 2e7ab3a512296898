// The page of a run: links and charts filter the list of queries, and the verdict is completed.

import { announce, replaceFragment } from "/assets/shell.js";
import { clearSelections, setUpBrushes } from "/assets/brush.js";

const FILTER_NAMES = ["q", "where", "sort", "page"];
const queries = document.getElementById("queries");

/** The filters of the list, which the address of the page has. */
function currentFilters() {
  const address = new URLSearchParams(location.search);
  const filters = new URLSearchParams();
  for (const name of FILTER_NAMES) for (const value of address.getAll(name)) filters.append(name, value);
  return filters;
}

/** The filters of the list as it is shown. */
function shownFilters() {
  return new URLSearchParams(queries.querySelector(".query-part")?.dataset.params);
}

function loadQueries(filters) {
  const address = new URL(queries.dataset.address, location.href);
  for (const [name, value] of filters) address.searchParams.append(name, value);
  address.searchParams.set("fragment", "1");
  return replaceFragment(queries, address.pathname + address.search);
}

async function showQueries(filters) {
  const search = filters.toString();
  history.pushState(null, "", `${location.pathname}${search ? `?${search}` : ""}`);
  document.querySelector("dialog[open]")?.close();
  const isLoaded = loadQueries(filters);
  document.getElementById("queries-section").scrollIntoView();
  queries.focus({ preventScroll: true });
  if (await isLoaded) announce(`The queries are filtered by ${filters.getAll("where").join(" and ")}`);
}

// A link shows exactly the queries it counts; a chart narrows the current filter.
document.addEventListener("click", (event) => {
  const link = clickedLink(event, "a[data-where]");
  if (!link) return;
  event.preventDefault();
  showQueries(`?${new URLSearchParams([["where", link.dataset.where]])}`);
});

document.addEventListener("filter", (event) => {
  const { field, conditions } = event.detail;
  const filters = currentFilters();
  const others = filters.getAll("where").filter((one) => !isConditionOn(field, one));
  filters.delete("where");
  filters.delete("page");
  for (const one of [...others, ...conditions]) filters.append("where", one);
  showQueries(`?${filters}`);
});

function isConditionOn(field, condition) {
  return condition.startsWith(field) && /^[<>=!]/.test(condition.slice(field.length));
}

// A link to another part of the page is no change of the filter.
window.addEventListener("popstate", () => {
  const shown = shownFilters();
  const filters = currentFilters();
  shown.sort();
  filters.sort();
  if (queries.ariaBusy === "true" || shown.toString() !== filters.toString()) loadQueries(currentFilters());
});

// The run is chosen already in the list of runs, where another one is to be chosen.
document.getElementById("choose").addEventListener("click", ({ currentTarget: { dataset } }) => {
  try { sessionStorage.setItem("auepora-compare", JSON.stringify([[dataset.run, { name: dataset.name, time: dataset.time }]])); } catch { /* it is chosen there */ }
});

document.addEventListener("fragment", (event) => {
  setUpBrushes(event.target);
  if (!queries.contains(event.target)) return;
  const conditions = shownFilters().getAll("where");
  clearSelections((field) => conditions.some((one) => isConditionOn(field, one)));
});
for (const element of document.querySelectorAll("[data-later]")) replaceFragment(element, element.dataset.later);
