// Failure groups as a part of another page: groups by another rule take the place of those before.

import { replaceFragment } from "/assets/shell.js";

document.addEventListener("submit", (event) => {
  const holder = event.target.closest("[data-fragment]");
  if (!holder || !event.target.closest(".failure-groups")) return;
  event.preventDefault();
  const parameters = new URLSearchParams(new FormData(event.target));
  parameters.set("fragment", "1");
  replaceFragment(holder, `/queries/groups?${parameters}`);
});
