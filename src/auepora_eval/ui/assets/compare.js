// The comparison page: a metric of the card chooses the queries beside it; links to derivations and queries.

import "/assets/groups.js";
import { showQueries } from "/assets/queries.js";
import { clickedLink } from "/assets/shell.js";

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
  if (!chosen) return;
  event.preventDefault();
  chooseMetric(chosen);
});

document.addEventListener("fragment", (event) => {
  prepareLinks(event.target);
  if (event.target.id === "summary") document.getElementById("large-hint")?.remove();
});
prepareLinks(document);
