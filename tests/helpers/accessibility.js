// Checks of a page, run inside of it by helpers/accessibility.py. Each returns a list of problems.
(() => {
  const describe = (element) => {
    const text = (element.getAttribute("aria-label") || element.textContent || "").trim().replace(/\s+/g, " ").slice(0, 40);
    return `<${element.tagName.toLowerCase()}${element.id ? ` id=${element.id}` : ""} class="${element.getAttribute("class") ?? ""}"> ${text}`;
  };
  /** Whether it is in a part for screen readers alone, such as the head of a table that is shown as cards. */
  const isClipped = (element) => { for (let at = element; at; at = at.parentElement) if (getComputedStyle(at).clipPath !== "none") return true; return false; };
  const isHidden = (element) => !element.checkVisibility({ visibilityProperty: true }) || element.closest(".visually-hidden, [inert]") !== null;

  const headings = () => {
    const listed = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter((one) => one.checkVisibility() && !one.closest("dialog"));
    const levels = listed.map((one) => Number(one.tagName[1]));
    const problems = [];
    if (levels.filter((level) => level === 1).length !== 1) problems.push(`${levels.filter((level) => level === 1).length} headings of level 1`);
    levels.forEach((level, place) => {
      if (level > (levels[place - 1] ?? 0) + 1) problems.push(`level ${level} after ${levels[place - 1] ?? "nothing"}: ${describe(listed[place])}`);
    });
    return problems;
  };

  const markup = () => {
    const problems = [];
    for (const one of document.querySelectorAll("[tabindex]")) if (one.tabIndex > 0) problems.push(`tabindex ${one.tabIndex}: ${describe(one)}`);
    const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
    for (const id of new Set(ids.filter((id, place) => ids.indexOf(id) !== place))) problems.push(`id ${id} occurs twice`);
    for (const one of document.querySelectorAll("th:not([scope])")) problems.push(`no scope: ${describe(one)}`);
    for (const one of document.querySelectorAll("[style]:not([style=''])")) problems.push(`style attribute: ${describe(one)}`);
    for (const attribute of ["aria-labelledby", "aria-describedby", "aria-controls"]) {
      for (const one of document.querySelectorAll(`[${attribute}]`)) {
        for (const id of one.getAttribute(attribute).split(/\s+/)) if (!document.getElementById(id)) problems.push(`${attribute}="${id}" names no element: ${describe(one)}`);
      }
    }
    return problems;
  };

  // --- contrast ------------------------------------------------------------------------------------------------------

  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const colours = new Map();
  const rgba = (text) => {
    if (!colours.has(text)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = text;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      colours.set(text, [r, g, b, a / 255]);
    }
    return colours.get(text);
  };
  const over = (front, back) => front.slice(0, 3).map((value, at) => value * front[3] + back[at] * (1 - front[3]));
  const grounds = new Map();
  const ground = (element) => {
    if (!element) return [255, 255, 255];
    if (!grounds.has(element)) {
      const own = element instanceof SVGElement ? [0, 0, 0, 0] : rgba(getComputedStyle(element).backgroundColor);
      grounds.set(element, own[3] === 1 ? own.slice(0, 3) : over(own, ground(element.parentElement)));
    }
    return grounds.get(element);
  };
  /** The background of a text in a chart: the rectangle below it that is drawn last, else the element around the chart. */
  const svgGround = (text) => {
    const svg = text.ownerSVGElement;
    const box = text.getBoundingClientRect();
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    let found = ground(svg.parentElement.closest("div, figure, section, main, td, li, p, a, button"));
    for (const shape of svg.querySelectorAll("rect")) {
      if (!(shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING)) break;
      const area = shape.getBoundingClientRect();
      if (x < area.left || x > area.right || y < area.top || y > area.bottom) continue;
      const style = getComputedStyle(shape);
      if (style.fill === "none") continue;
      const [r, g, b, alpha] = rgba(style.fill);
      found = over([r, g, b, alpha * style.fillOpacity * style.opacity], found);
    }
    return found;
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.map((value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };

  const contrast = () => {
    grounds.clear();
    const problems = new Set();
    const checked = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement;
      if (!walker.currentNode.data.trim() || checked.has(element)) continue;
      checked.add(element);
      if (element.closest("script, style, title, desc, option, .skip, :disabled, [aria-disabled=true]") || isHidden(element)) continue;
      const style = getComputedStyle(element);
      const back = element instanceof SVGElement ? svgGround(element) : ground(element);
      const front = over(rgba(element instanceof SVGElement ? style.fill : style.color), back);
      const found = ratio(front, back);
      if (found < 4.5) problems.add(`contrast ${found.toFixed(2)}: ${describe(element)}`);
    }
    return [...problems];
  };

  // --- focus ---------------------------------------------------------------------------------------------------------

  const FOCUSABLE = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']";
  const focusable = () => [...document.querySelectorAll(FOCUSABLE)].filter(
    (one) => !one.disabled && one.tabIndex >= 0 && one.checkVisibility({ visibilityProperty: true }) && (one.type !== "radio" || one.checked));

  /** Elements that do not get the focus, or whose focus cannot be seen. */
  const focus = () => {
    const problems = [];
    for (const one of focusable()) {
      one.focus({ preventScroll: true, focusVisible: true });
      const style = getComputedStyle(one);
      if (document.activeElement !== one) problems.push(`does not get the focus: ${describe(one)}`);
      else if (parseFloat(style.outlineWidth) === 0 || style.outlineStyle === "none") problems.push(`focus is not visible: ${describe(one)}`);
    }
    return problems;
  };

  /** Controls that a bar covers when they have the focus, from the last to the first and back. */
  const obscured = () => {
    const problems = new Set();
    const bars = [...document.querySelectorAll("body *")].filter((one) => ["sticky", "fixed"].includes(getComputedStyle(one).position) && !isHidden(one) && !isClipped(one));
    const listed = focusable().filter((one) => !one.closest(".skip"));
    for (const one of [...listed.reverse(), ...listed.reverse()]) { // the last one at the end, so that Tab begins anew
      one.focus({ focusVisible: true });
      const box = one.getBoundingClientRect();
      if (box.height > innerHeight / 2) continue;
      for (const bar of bars) {
        if (bar.contains(one) || one.contains(bar) || !bar.checkVisibility()) continue;
        const area = bar.getBoundingClientRect();
        const isStuck = area.top <= 1 || area.bottom >= innerHeight - 1 || getComputedStyle(bar).top === `${Math.round(area.top)}px`;
        if (isStuck && area.left < box.right && area.right > box.left && area.top < box.bottom - 1 && area.bottom > box.top + 1) problems.add(`under ${describe(bar).slice(0, 60)}: ${describe(one)}`);
      }
    }
    scrollTo({ top: 0, behavior: "instant" });
    return [...problems];
  };

  /** Controls of less than 24 pixels, but for links inside of text. */
  const targets = () => {
    const isInline = (one) => one.matches("a") && getComputedStyle(one).display === "inline" && one.parentElement.textContent.trim() !== one.textContent.trim();
    const area = (one) => (one.matches("input[type=checkbox], input[type=radio]") && one.closest("label") ? one.closest("label") : one).getBoundingClientRect();
    return focusable().filter((one) => !isHidden(one) && !isInline(one) && !one.closest(".skip, svg")).filter((one) => area(one).width > 0 && Math.min(area(one).width, area(one).height) < 23.5)
      .map((one) => `target of ${Math.round(area(one).width)} x ${Math.round(area(one).height)}: ${describe(one)}`);
  };

  /** Record the elements that the Tab key reaches. */
  const startTabbing = () => {
    document.activeElement?.blur();
    getSelection().removeAllRanges();
    scrollTo({ top: 0, behavior: "instant" });
    window.reachedByTab = [];
    addEventListener("focusin", ({ target }) => window.reachedByTab.push(target));
  };

  /** Elements that the Tab key passed over, in the order of the page. */
  const tabProblems = () => {
    const reached = new Set(window.reachedByTab);
    const listed = focusable();
    const last = Math.max(-1, ...window.reachedByTab.map((one) => listed.indexOf(one)));
    const problems = listed.slice(0, last + 1).filter((one) => !reached.has(one)).map((one) => `Tab does not reach ${describe(one)}`);
    return last < 0 && listed.length ? ["Tab reaches nothing"] : problems;
  };

  const width = () => {
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth <= clientWidth) return [];
    const isScrolled = (one) => { for (let at = one.parentElement; at && at !== document.body; at = at.parentElement) if (getComputedStyle(at).overflowX !== "visible") return true; return false; };
    const wide = [...document.body.querySelectorAll("*")].filter((one) => one.getBoundingClientRect().right > clientWidth + 1 && !isScrolled(one) && !isHidden(one));
    return [`the page is ${scrollWidth} px wide in a window of ${clientWidth}: ${wide.slice(-3).map(describe).join("; ")}`];
  };

  window.accessibility = { headings, markup, contrast, focus, obscured, targets, startTabbing, tabProblems, width };
})();
