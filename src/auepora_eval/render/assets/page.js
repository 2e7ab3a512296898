"use strict";
// The page itself: light or dark, and what a link leads to is unfolded. Everything else works without a script.
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const themes = ["auto", "light", "dark"];
  let theme = "auto";
  const show = () => {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    button.lastElementChild.textContent = theme;
  };
  try {
    const kept = localStorage.getItem("auepora-theme");
    if (themes.includes(kept)) theme = kept;
  } catch { /* a page from disk may have no storage */ }
  button.hidden = false;
  button.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    try { localStorage.setItem("auepora-theme", theme); } catch { /* then it lasts as long as the page */ }
    show();
  });
  show();

  const contents = document.getElementById("contents");
  const narrow = window.matchMedia("(max-width: 60rem)");
  const fit = () => { contents.open = !narrow.matches; };
  fit();
  narrow.addEventListener("change", fit);
  contents.addEventListener("click", (event) => {
    if (narrow.matches && event.target.closest("a")) contents.open = false;
  });

  const unfold = () => {
    let id = "";
    try { id = decodeURIComponent(location.hash.slice(1)); } catch { return; }
    let place = document.getElementById(id);
    while (place) {
      if (place instanceof HTMLDetailsElement) place.open = true;
      place = place.parentElement;
    }
  };
  window.addEventListener("hashchange", unfold);
  unfold();

  const links = new Map();
  for (const link of contents.querySelectorAll("a")) {
    const place = document.getElementById(link.getAttribute("href").slice(1));
    if (place) links.set(place, link);
  }
  if ("IntersectionObserver" in window) {
    const seen = new Set();
    const observer = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting) seen.add(entry.target);
        else seen.delete(entry.target);
      }
      let current = null;
      for (const place of links.keys()) if (seen.has(place)) { current = place; break; }
      for (const [place, link] of links) {
        if (place === current) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    }, { rootMargin: "-10% 0px -60% 0px" });
    for (const place of links.keys()) observer.observe(place);
  }
})();
