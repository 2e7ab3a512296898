// The query page: lines between two rankings, values at a depth k, all documents at once, evidence of claims.

import { announce } from "/assets/shell.js";

const CROSS = 5;

// --- lines between the ranks of gold documents -----------------------------------------------------------------------

function setUpLines() {
  const svg = document.getElementById("lines");
  if (!svg) return;
  const lists = [...document.querySelectorAll(".ranks > .documents")];
  const draw = () => {
    const area = svg.getBoundingClientRect();
    if (!area.height) return;
    const { width } = area;
    svg.setAttribute("viewBox", `0 0 ${width} ${area.height}`);
    const height = (list, rank) => {
      const summary = list?.querySelector(`[data-rank="${rank}"] summary`)?.getBoundingClientRect();
      return summary ? summary.top + summary.height / 2 - area.top : area.height;
    };
    for (const line of svg.querySelectorAll("g")) {
      const [path, cross] = line.children;
      const first = line.dataset.first && height(lists[0], line.dataset.first);
      const second = line.dataset.second && height(lists[1], line.dataset.second);
      const middle = width / 2;
      if (second === "") path.setAttribute("d", `M0 ${first}H${middle}`);
      else if (first === "") path.setAttribute("d", `M${middle} ${second}H${width}`);
      else path.setAttribute("d", `M0 ${first}C${middle} ${first} ${middle} ${second} ${width} ${second}`);
      cross?.setAttribute("d", `M${middle} ${first - CROSS}l${2 * CROSS} ${2 * CROSS}m0 ${-2 * CROSS}l${-2 * CROSS} ${2 * CROSS}`);
    }
    svg.classList.add("measured");
  };
  for (const list of lists) new ResizeObserver(draw).observe(list);
  draw();
}

// --- values at a depth -------------------------------------------------------------------------------------------------

function showParameter(name, value) {
  const url = new URL(location.href);
  if (value === null) url.searchParams.delete(name);
  else url.searchParams.set(name, value);
  history.replaceState(history.state, "", url);
}

/** The links to other queries and the form keep what the page shows. */
function keepInLinks(name, value) {
  showParameter(name, value);
  for (const link of document.querySelectorAll('.query-bar a[rel], .query-bar a[data-key="x"], #expand')) {
    const url = new URL(link.href);
    if (value === null) url.searchParams.delete(name);
    else url.searchParams.set(name, value);
    link.href = url;
  }
}

function setUpDepth() {
  const slider = document.getElementById("depth");
  const data = document.getElementById("depth-data");
  if (!slider || !data) return;
  const values = JSON.parse(data.textContent);
  const figures = document.getElementById("depth-figures");
  const format = (value, column) => {
    if (value === null) return "n/a";
    return column === "2" ? value.toLocaleString("en") : value.toFixed(2); // the size of the context is a count
  };
  slider.addEventListener("input", () => {
    const k = Number(slider.value);
    document.getElementById("depth-value").textContent = k;
    for (const one of figures.querySelectorAll("[data-depth]")) one.textContent = k;
    for (const one of figures.querySelectorAll("[data-column]")) {
      one.textContent = values.map((run) => format(run[k - 1][one.dataset.column], one.dataset.column)).join(" → ");
    }
    for (const item of document.querySelectorAll(".rankings .document")) {
      item.classList.toggle("below", Number(item.dataset.rank) > k);
      item.classList.toggle("cut", Number(item.dataset.rank) === k + 1);
    }
  });
  slider.addEventListener("change", () => keepInLinks("k", slider.value));
}

// --- all documents at once ---------------------------------------------------------------------------------------------

function setUpExpand() {
  const link = document.getElementById("expand");
  link?.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const isOpening = link.textContent.startsWith("Expand");
    for (const one of document.querySelectorAll(".ranks .document > details")) one.open = isOpening;
    link.textContent = isOpening ? "Close all" : "Expand all";
    keepInLinks("open", isOpening ? "all" : null);
    announce(isOpening ? "All documents are open" : "All documents are folded");
  });
}

// --- claims and their evidence -----------------------------------------------------------------------------------------

function setUpClaims() {
  const letter = document.getElementById("lines") ? (claim) => claim.split("-")[0] : () => "";
  const show = (claim) => {
    for (const one of document.querySelectorAll(".sentence, .claims > li")) {
      one.classList.toggle("active", (one.dataset.claim ?? one.dataset.of) === claim);
    }
    for (const one of document.querySelectorAll(".has-evidence")) one.classList.remove("has-evidence");
    const { rank } = document.getElementById(`evidence-${claim}`)?.dataset ?? {};
    if (rank) document.getElementById(`document-${letter(claim)}${rank}`)?.classList.add("has-evidence");
  };
  const claimOf = (event) => (event.target instanceof Element ? event.target.closest("[data-claim]") : null);
  for (const name of ["pointerover", "focusin"]) {
    document.addEventListener(name, (event) => {
      const element = claimOf(event);
      if (element) show(element.dataset.claim);
    });
  }
  const open = (event) => {
    const element = claimOf(event);
    if (!element || String(getSelection())) return;
    event.preventDefault();
    document.getElementById("claims").open = true;
    document.getElementById(`evidence-${element.dataset.claim}`)?.scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("click", open);
  document.addEventListener("keydown", (event) => {
    if ((event.key === "Enter" || event.key === " ") && event.target.matches?.(".sentence")) open(event);
  });
}

// A link to a document that is folded away opens what contains it.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.('a[href^="#document-"]');
  const found = link && document.getElementById(link.hash.slice(1));
  if (!found) return;
  const rest = found.closest("details.rest");
  if (rest) rest.open = true;
  found.querySelector("summary").focus();
});

setUpClaims();
setUpDepth();
setUpExpand();
setUpLines();
