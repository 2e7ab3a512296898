// The comparison page: links that filter the list of queries, the metric of the outcomes, links to derivations and queries.

import { showQueries } from "/assets/queries.js";
import { clickedLink, replaceFragment } from "/assets/shell.js";

const outcomes = document.getElementById("outcomes");
const form = document.getElementById("outcome-form");

/** Whether a link leads to this comparison with filters. */
function isFilter(address) {
  if (address.origin !== location.origin || address.pathname !== location.pathname || !address.searchParams.has("where")) return false;
  const here = new URL(location.href).searchParams.getAll("run");
  return address.searchParams.getAll("run").join("\n") === here.join("\n");
}

/** The page of the query that a link of a report names by its id. */
function queryUrl(link) {
  const parameters = new URLSearchParams();
  for (const run of new URL(location.href).searchParams.getAll("run")) parameters.append("run", run);
  parameters.set("id", decodeURIComponent(link.getAttribute("href").slice("#q/".length)));
  return `/query?${parameters}`;
}

/** Open derivations of metrics in the side panel, and queries on their page. */
function prepareLinks(root) {
  for (const link of root.querySelectorAll('a[href*="/derivation?"]:not([data-drawer])')) {
    link.dataset.drawer = `${link.getAttribute("href")}&fragment=1`;
  }
  for (const link of root.querySelectorAll('a[href^="#q/"]')) link.setAttribute("href", queryUrl(link));
}

function showOutcomes() {
  const address = new URL(location.href);
  for (const name of ["metric", "threshold"]) {
    const value = form.elements[name].value;
    if (value) address.searchParams.set(name, value);
    else address.searchParams.delete(name);
  }
  history.replaceState(null, "", address);
  const source = new URL(outcomes.dataset.fragment, location.href);
  for (const name of ["metric", "threshold"]) {
    if (address.searchParams.has(name)) source.searchParams.set(name, address.searchParams.get(name));
    else source.searchParams.delete(name);
  }
  return replaceFragment(outcomes, `${source.pathname}${source.search}`);
}

/** A metric of the card: its queries in the other pane. */
function chooseMetric(link) {
  for (const row of document.querySelectorAll(".forest-table tr.chosen")) {
    row.classList.remove("chosen");
    row.querySelector("[aria-current]")?.removeAttribute("aria-current");
  }
  link.closest("tr").classList.add("chosen");
  link.setAttribute("aria-current", "true");
  const isNarrow = !document.getElementById("query-pane").checkVisibility();
  showQueries(link.href);
  if (isNarrow) location.hash = "query-pane";
}

document.addEventListener("click", (event) => {
  const chosen = clickedLink(event, "a[data-queries]");
  if (chosen) {
    event.preventDefault();
    chooseMetric(chosen);
    return;
  }
  const link = clickedLink(event, "#outcomes a[href]");
  if (!link || !isFilter(new URL(link.href))) return;
  event.preventDefault();
  showQueries(link.href);
});

document.addEventListener("fragment", (event) => {
  prepareLinks(event.target);
  if (event.target.id === "summary") document.getElementById("large-hint")?.remove();
});
prepareLinks(document);

if (form) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    showOutcomes();
  });
  form.elements.metric.addEventListener("change", () => {
    form.elements.threshold.value = "";
    showOutcomes();
  });
}
