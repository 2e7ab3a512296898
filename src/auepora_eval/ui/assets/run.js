// The page of a run: links and charts filter the list of queries, and the verdict is completed.

import { clearSelections, setUpBrushes } from "/assets/brush.js";
import { currentFilters, shownFilters, showQueries } from "/assets/queries.js";
import { clickedLink, replaceFragment } from "/assets/shell.js";

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
  for (const one of new Set([...others, ...conditions])) filters.append("where", one);
  showQueries(`?${filters}`);
});

function isConditionOn(field, condition) {
  return condition.startsWith(field) && /^[<>=!]/.test(condition.slice(field.length));
}

document.addEventListener("fragment", (event) => {
  setUpBrushes(event.target);
  if (!event.target.closest("#queries")) return;
  const conditions = shownFilters().getAll("where");
  clearSelections((field) => conditions.some((one) => isConditionOn(field, one)));
});
for (const element of document.querySelectorAll("[data-later]")) replaceFragment(element, element.dataset.later);
