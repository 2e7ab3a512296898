// The page of a run: tabs that load when they are opened; numbers and charts that filter the tab of queries.

import { setUpBrushes } from "/assets/brush.js";
import "/assets/groups.js";
import { currentFilters } from "/assets/queries.js";
import { announce, clickedLink, onKey, replaceFragment } from "/assets/shell.js";

const panel = document.getElementById("tab");
let shown = location.search; // the address of the part that is shown

function tabOf(search) {
  const params = new URLSearchParams(search);
  return params.get("tab") ?? (params.has("where") || params.has("q") ? "queries" : "metrics");
}

/** Show the part that an address of the page names. */
async function load(search) {
  shown = search;
  const name = tabOf(search);
  for (const link of document.querySelectorAll(".tabs a")) {
    if (link.dataset.tab === name) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  document.querySelector(".tabs [aria-current]").scrollIntoView({ block: "nearest", inline: "nearest" });
  if (panel.dataset.tab !== name) panel.removeAttribute("data-filled"); // the part before it is no part of this one
  panel.dataset.tab = name;
  const params = new URLSearchParams(search);
  if (name === "queries") params.set("fragment", "1");
  return replaceFragment(panel, `${panel.dataset.address}${name}?${params}`);
}

/** Open a part, as a new entry of the history. */
async function open(params) {
  const search = `?${params}`;
  if (search !== location.search) history.pushState(null, "", search);
  document.querySelector("dialog[open]")?.close();
  const isLoaded = load(search);
  const top = document.querySelector(".tabs").getBoundingClientRect().top;
  if (top < 0 || top > innerHeight / 2) document.querySelector(".tabs").scrollIntoView();
  panel.focus({ preventScroll: true });
  return isLoaded;
}

/** Show the queries under some conditions. */
async function showQueries(conditions) {
  const params = new URLSearchParams([["tab", "queries"], ...conditions.map((one) => ["where", one])]);
  if (await open(params)) announce(`The queries are filtered by ${conditions.join(" and ")}`);
}

// A tab keeps the filter; a number shows exactly the queries it counts; a chart narrows the filter.
document.addEventListener("click", (event) => {
  const link = clickedLink(event, "a[data-tab], a[data-where]");
  if (!link) return;
  event.preventDefault();
  if ("where" in link.dataset) {
    showQueries([link.dataset.where]);
    return;
  }
  const params = new URLSearchParams(new URL(link.href).search);
  params.set("tab", link.dataset.tab);
  for (const name of ["q", "where", "sort"]) params.delete(name);
  for (const [name, value] of currentFilters()) if (name !== "after") params.append(name, value);
  open(params);
});

document.addEventListener("filter", (event) => {
  const { field, conditions } = event.detail;
  const others = currentFilters().getAll("where").filter((one) => !isConditionOn(field, one));
  showQueries([...new Set([...others, ...conditions])]);
});

function isConditionOn(field, condition) {
  return condition.startsWith(field) && /^[<>=!]/.test(condition.slice(field.length));
}

// A link to another place of the page is no change of the part.
window.addEventListener("popstate", () => { if (location.search !== shown) load(location.search); });
document.addEventListener("fragment", (event) => {
  setUpBrushes(event.target);
  if (event.target.matches(".query-results")) shown = location.search; // the list has put its filter there
});
onKey("/", "Search queries", async () => {
  if (panel.dataset.tab === "queries" || await open(new URLSearchParams([["tab", "queries"], ...currentFilters()]))) {
    document.getElementById("query-search")?.focus();
  }
});
setUpBrushes(document);
for (const element of document.querySelectorAll("[data-later]")) replaceFragment(element, element.dataset.later);
