// The query page: lines between two rankings, values at a cut-off, evidence of claims.

const SVG = "http://www.w3.org/2000/svg";

function readData(id) {
  const element = document.getElementById(id);
  return element ? JSON.parse(element.textContent) : null;
}

// --- lines between documents that both rankings contain -----------------------------------------------------------------

function setUpConnections() {
  const rankings = document.getElementById("rankings");
  const svg = document.getElementById("connections");
  const connections = readData("connection-data");
  if (!svg || !connections?.length) return;
  const [first, second] = rankings.querySelectorAll(".ranking");
  const findLine = (column, rank) => column.querySelector(`.document[data-rank="${rank}"] > .line`);
  const draw = () => {
    svg.replaceChildren();
    if (getComputedStyle(svg).display === "none") return;
    const origin = rankings.getBoundingClientRect();
    for (const [firstRank, secondRank, kind] of connections) {
      const from = findLine(first, firstRank);
      const to = findLine(second, secondRank);
      if (!from?.checkVisibility() || !to?.checkVisibility()) continue;
      const start = from.getBoundingClientRect();
      const end = to.getBoundingClientRect();
      const x1 = first.getBoundingClientRect().right - origin.left;
      const x2 = second.getBoundingClientRect().left - origin.left;
      const y1 = start.top + start.height / 2 - origin.top;
      const y2 = end.top + end.height / 2 - origin.top;
      const middle = (x1 + x2) / 2;
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("d", `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`);
      if (kind) path.setAttribute("class", kind);
      svg.append(path);
    }
  };
  new ResizeObserver(draw).observe(rankings);
  rankings.addEventListener("toggle", draw, true);
  draw();
}

// --- values at a cut-off ------------------------------------------------------------------------------------------------

function setUpCutOff() {
  const data = readData("cut-off-data");
  const panel = document.getElementById("cut-off");
  if (!panel || !data?.values.length) return;
  const slider = document.getElementById("cut-off-k");
  const figures = document.getElementById("cut-off-figures");
  const formatProportion = (value) => (value === null ? "n/a" : value.toFixed(3));
  const formatSize = (value) => `${value.toLocaleString("en")} characters`;
  const update = () => {
    const k = Number(slider.value);
    document.getElementById("cut-off-value").textContent = k;
    const rows = [[`Recall@${k}`, 0, formatProportion], [`nDCG@${k}`, 1, formatProportion], [`Context of ${k}`, 2, formatSize]];
    figures.replaceChildren(...rows.map(([name, column, format]) => {
      const box = document.createElement("div");
      const term = document.createElement("dt");
      term.textContent = name;
      box.append(term);
      data.values.forEach((values, run) => {
        const value = document.createElement("dd");
        value.textContent = `${data.runs[run] && `${data.runs[run]}: `}${format(values[k - 1][column])}`;
        box.append(value);
      });
      return box;
    }));
    for (const item of document.querySelectorAll("#rankings .document")) {
      item.classList.toggle("last-in-context", Number(item.dataset.rank) === k);
    }
  };
  panel.hidden = false;
  slider.addEventListener("input", update);
  update();
}

// --- claims and their evidence ------------------------------------------------------------------------------------------

function setUpClaims() {
  const evidence = document.querySelectorAll(".claims .evidence");
  for (const element of evidence) element.hidden = true;
  let active = null;
  const show = (claim) => {
    if (claim === active) return;
    active = claim;
    for (const element of document.querySelectorAll(".sentence.active, .claims > li.active")) element.classList.remove("active");
    for (const element of document.querySelectorAll(".has-evidence")) element.classList.remove("has-evidence");
    for (const element of evidence) element.hidden = element.id !== `evidence-${claim}`;
    for (const element of document.querySelectorAll("[data-claim]")) {
      if (element.dataset.claim === claim) (element.closest(".claims > li") ?? element).classList.add("active");
    }
    const found = document.getElementById(`evidence-${claim}`);
    if (!found?.dataset.rank) return;
    const letter = document.getElementById("connections") ? claim.split("-")[0] : "";
    document.getElementById(`document-${letter}${found.dataset.rank}`)?.classList.add("has-evidence");
  };
  for (const name of ["pointerover", "focusin", "click"]) {
    document.addEventListener(name, (event) => {
      const element = event.target instanceof Element ? event.target.closest("[data-claim]") : null;
      if (element) show(element.dataset.claim);
    });
  }
}

setUpClaims();
setUpCutOff();
setUpConnections();
