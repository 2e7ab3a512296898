// Elements and texts. Whatever people and models wrote becomes a text node, never markup.

/** An element with attributes, listeners ("onclick") and children; `null` children are left out. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

// Control characters, marks that turn or hide text, and the invisible alphabet of tags. Joiners stay: emoji need them.
const UNSEEN =
  // eslint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]|[\ud800-\udfff]/gu;

/** The text with characters that cannot be seen, or that turn what follows, written out. */
function visible(text) {
  const plain = text.includes("\r\n") ? text.replaceAll("\r\n", "\n") : text;
  return plain.replace(UNSEEN, (character) => {
    const code = character.codePointAt(0);
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    if (code === 0x7f) return "\u2421";
    return `\u27e6U+${code.toString(16).toUpperCase().padStart(4, "0")}\u27e7`;
  });
}

/** The beginning of a text, not cut within a character. */
function beginning(text, length) {
  if (text.length <= length) return text;
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? length - 1 : length);
}

/** One line of it, for a list or a title. */
function oneLine(text, length = 300) {
  return visible(beginning(text, length).replace(/[\t\n\r]+/g, " "));
}

const LONG = 1200;

/** A text in full, or its beginning and a button for the rest. `marks` are ranges to be marked by `wrap`. */
function textBlock(text, { marks = [], wrap = null, limit = LONG, className = "" } = {}) {
  const block = make("div", { class: `qb-text ${className}`, dir: "auto" });
  const holder = make("div", { class: "qb-textholder" }, block);
  // A little over the limit is not worth a button.
  const shown = text.length <= limit * 1.25 ? text.length : beginning(text, limit).length;
  fillText(block, text, shown, marks, wrap);
  if (shown < text.length) {
    const more = make("button", { type: "button", class: "qb-more", "aria-expanded": "false" });
    const showState = (open) => {
      more.textContent = open ? "show less" : `show all ${text.length.toLocaleString("en")} characters`;
      more.setAttribute("aria-expanded", String(open));
    };
    showState(false);
    more.addEventListener("click", () => {
      const open = more.getAttribute("aria-expanded") !== "true";
      fillText(block, text, open ? text.length : shown, marks, wrap);
      showState(open);
    });
    holder.append(more);
  }
  return holder;
}

// A very long text is laid out piece by piece, and only where it is in sight: one line of a megabyte takes minutes.
const VERY_LONG = 20000;
const PIECE = 4000;

function fillText(block, text, shown, marks, wrap) {
  const end = shown < text.length ? ["\u2026"] : [];
  if (shown <= VERY_LONG) {
    block.replaceChildren(...markedParts(text, 0, shown, marks, wrap), ...end);
    return;
  }
  const pieces = [];
  for (let at = 0; at < shown;) {
    const next = pieceEnd(text, at, shown);
    pieces.push(make("div", { class: "qb-piece" }, markedParts(text, at, next, marks, wrap)));
    at = next;
  }
  block.replaceChildren(...pieces, ...end);
}

/** Where a piece ends: after a line or a word if one ends nearby, and never within a character. */
function pieceEnd(text, at, shown) {
  if (shown - at <= PIECE * 1.5) return shown;
  const piece = beginning(text.slice(at, at + PIECE + 1), PIECE);
  const line = piece.lastIndexOf("\n"), blank = piece.lastIndexOf(" ");
  const cut = line > PIECE / 2 ? line : blank > PIECE / 2 ? blank : piece.length - 1;
  return at + cut + 1;
}

/** The text between two places, with what is marked in it as elements. */
function markedParts(text, from, to, marks, wrap) {
  const parts = [];
  let at = from;
  for (const mark of marks) {
    const [start, end] = mark;
    if (end <= at) continue;
    if (start >= to) break;
    if (start > at) parts.push(visible(text.slice(at, start)));
    const marked = wrap(mark);
    marked.textContent = visible(text.slice(Math.max(start, at), Math.min(end, to)));
    parts.push(marked);
    at = Math.min(end, to);
  }
  if (at < to) parts.push(visible(text.slice(at, to)));
  return parts;
}

/** Something short that people or models named: an id, a metric. It cannot turn the line it stands in. */
function named(text, className = "", length = 200) {
  return make("bdi", { class: className, title: text.length > 24 ? oneLine(text, 1000) : null, text: oneLine(text, length) });
}

/** The name of a metric, which may break where its parts meet, and anywhere where they are very long. */
function metricName(name) {
  const pieces = oneLine(name, 200).split(/(?<=[_@,.:[])|(?<=[^\s_@,.:[]{24})/u);
  return make("bdi", { class: "qb-metricname" }, pieces.flatMap((piece) => [piece, make("wbr")]));
}

/** Any value of JSON, readable. */
function jsonBlock(value) {
  if (typeof value === "string") return textBlock(value);
  return textBlock(JSON.stringify(value, null, 2), { className: "qb-json" });
}

/** A number for people: as many digits as are useful, with minus signs. */
function figure(value) {
  return Number.isNaN(value) ? "" : digits(value).replaceAll("-", "\u2212");
}

function digits(value) {
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return String(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(2);
  if (size >= 100) return value.toFixed(1);
  if (size < 0.01) return value.toPrecision(2);
  return value.toFixed(3);
}

function signed(value) {
  if (Number.isNaN(value)) return "";
  return value > 0 ? `+${figure(value)}` : figure(value);
}

function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const letter = (run) => LETTERS[run] ?? `run ${run + 1}`;
