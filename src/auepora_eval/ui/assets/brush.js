// Charts that filter: a range is selected with the pointer, or typed into the fields below the chart.
//
// A chart is inside an element with data-scale, a JSON object:
//   field   the field of the conditions, such as a metric
//   also    a further condition that holds for all queries of the chart, or ""
//   area    left, top, width and height of the plot in the units of the SVG
//   kind    "linear" or "log" with domain; "steps" with bands [start, end, low, high]; "choices" with bands [start, end, condition]
// Event: "filter" on the chart or the form, with detail {field, conditions}; it bubbles.

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = 6; // a selection may begin this far outside of the plot

/** Make the charts and the range forms inside an element filter. */
export function setUpBrushes(root) {
  for (const wrapper of root.querySelectorAll("[data-scale]:not([data-ready])")) {
    wrapper.dataset.ready = "";
    const svg = wrapper.querySelector("svg");
    const scale = JSON.parse(wrapper.dataset.scale);
    if (scale.kind === "choices") addChoices(wrapper, svg, scale);
    else addBrush(wrapper, svg, scale);
  }
  for (const form of root.querySelectorAll("form[data-range]:not([data-ready])")) {
    form.dataset.ready = "";
    form.hidden = false;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const [low, high] = ["from", "to"].map((name) => form.elements[name].value);
      dispatchFilter(form, form.dataset.range, rangeConditions(form.dataset.range, low, high), form.dataset.also);
    });
  }
}

/** Remove the selections in charts whose field is not in the filter. */
export function clearSelections(isFiltered) {
  for (const wrapper of document.querySelectorAll("[data-scale][data-ready]")) {
    if (isFiltered(JSON.parse(wrapper.dataset.scale).field)) continue;
    wrapper.querySelector(".brush-selection")?.setAttribute("width", 0);
    wrapper.closest("figure")?.querySelector("form[data-range]")?.reset();
  }
}

function dispatchFilter(element, field, conditions, also) {
  const all = also && conditions.length ? [...conditions, also] : conditions;
  element.dispatchEvent(new CustomEvent("filter", { bubbles: true, detail: { field, conditions: all } }));
}

function rangeConditions(field, low, high) {
  const conditions = [];
  if (low !== "" && low !== null) conditions.push(`${field}>=${low}`);
  if (high !== "" && high !== null) conditions.push(`${field}<=${high}`);
  return conditions;
}

function createShape(name, attributes) {
  const shape = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) shape.setAttribute(key, value);
  return shape;
}

/** Insert a shape below the marks, whose tooltips stay reachable. */
function putBelowMarks(svg, shape) {
  svg.insertBefore(shape, svg.querySelector("g.view"));
}

/** The position of a pointer in the plot, from its left upper corner. */
function plotPosition(svg, event, [left, top]) {
  const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  return { x: point.x - left, y: point.y - top };
}

function addBrush(wrapper, svg, scale) {
  const [left, top, width, height] = scale.area;
  const surface = createShape("rect", { class: "brush-surface", x: left, y: top, width, height });
  const selection = createShape("rect", { class: "brush-selection", y: top, height, width: 0, x: left });
  putBelowMarks(svg, surface);
  svg.append(selection);
  let start = null;
  const clamp = (x) => Math.min(Math.max(x, 0), width);
  const range = (event) => {
    const x = clamp(plotPosition(svg, event, scale.area).x);
    return [Math.min(start, x), Math.max(start, x)];
  };
  const draw = ([low, high]) => {
    selection.setAttribute("x", left + low);
    selection.setAttribute("width", Math.max(high - low, 0));
  };
  svg.addEventListener("pointerdown", (event) => {
    const { x, y } = plotPosition(svg, event, scale.area);
    if (event.button !== 0 || x < -MARGIN || x > width + MARGIN || y < 0 || y > height) return;
    start = clamp(x);
    svg.setPointerCapture(event.pointerId);
    draw([start, start]);
  });
  svg.addEventListener("pointermove", (event) => { if (start !== null) draw(range(event)); });
  svg.addEventListener("pointercancel", () => { start = null; draw([0, 0]); });
  svg.addEventListener("pointerup", (event) => {
    if (start === null) return;
    const pixels = range(event);
    start = null;
    const selected = selectRange(scale, pixels);
    if (selected === null) {
      draw([0, 0]);
      return;
    }
    draw(selected.pixels);
    fillForm(wrapper, selected);
    dispatchFilter(wrapper, scale.field, selected.conditions, scale.also);
  });
}

/** The conditions of a range of pixels; null for a range that is too narrow. */
function selectRange(scale, pixels) {
  if (scale.kind === "steps") return selectSteps(scale, pixels);
  if (pixels[1] - pixels[0] < 3) return null;
  const [low, high] = pixels.map((x) => valueAt(scale, x));
  return { low, high, pixels, conditions: rangeConditions(scale.field, low, high) };
}

function selectSteps(scale, [from, to]) {
  const touched = scale.bands.filter(([start, end]) => start <= to && end >= from);
  if (touched.length === 0) return null;
  const numbers = touched.filter(([, , low, high]) => low !== null || high !== null);
  const used = numbers.length ? numbers : touched; // a range has no place for "none" next to numbers
  const pixels = [used[0][0], used.at(-1)[1]];
  if (numbers.length === 0) return { low: "", high: "", pixels, conditions: [`${scale.field}=none`] };
  const low = numbers[0][2] ?? "";
  const high = numbers.at(-1)[3] ?? "";
  return { low, high, pixels, conditions: rangeConditions(scale.field, low, high) };
}

/** The value at a position, rounded to a hundredth of the axis. */
function valueAt({ kind, domain: [low, high], area: [, , width] }, x) {
  const share = x / width;
  if (kind === "log") return Number((low * (high / low) ** share).toPrecision(3));
  const digits = Math.max(0, Math.ceil(2 - Math.log10(high - low)));
  return Number((low + share * (high - low)).toFixed(Math.min(digits, 15)));
}

function fillForm(wrapper, { low, high }) {
  const form = wrapper.closest("figure")?.querySelector("form[data-range]");
  if (!form) return;
  form.elements.from.value = low;
  form.elements.to.value = high;
}

function addChoices(wrapper, svg, scale) {
  const [left, top, width] = scale.area;
  for (const [start, end] of scale.bands) {
    putBelowMarks(svg, createShape("rect", { class: "brush-band", x: left, y: top + start, width, height: end - start }));
  }
  svg.addEventListener("click", (event) => {
    const { x, y } = plotPosition(svg, event, scale.area);
    const band = scale.bands.find(([start, end]) => start <= y && y <= end);
    if (band && x >= 0 && x <= width) dispatchFilter(wrapper, scale.field, [band[2]]);
  });
}
