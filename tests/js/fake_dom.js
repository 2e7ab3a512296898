// The few parts of a document that scripts need to build elements: children, texts, attributes, listeners, simple selectors.

export class FakeElement {
  constructor(tag) {
    this.localName = tag;
    this.attributes = new Map();
    this.children = []; // elements and strings
    this.listeners = new Map();
    this.dataset = {};
    this.value = "";
    this.style = { setProperty() {} };
    this.classList = { toggle() {}, add() {}, remove() {} };
    this.isConnected = false;
  }

  append(...children) {
    this.children.push(...children);
  }

  replaceChildren(...children) {
    this.children = children;
  }

  setAttribute(name, value) {
    this.attributes.set(name, String(value));
  }

  getAttribute(name) {
    return this.attributes.get(name) ?? null;
  }

  addEventListener(name, listener) {
    this.listeners.set(name, listener);
  }

  click() {
    this.listeners.get("click")({ target: this, preventDefault() {} });
  }

  get className() {
    return this.getAttribute("class") ?? "";
  }

  get textContent() {
    return this.children.map((child) => (typeof child === "string" ? child : child.textContent)).join("");
  }

  set textContent(text) {
    this.children = text === "" ? [] : [String(text)];
  }

  /** The elements below this one that a tag or a class names. */
  querySelectorAll(selector) {
    const found = [];
    for (const child of this.children) {
      if (typeof child === "string") continue;
      const isFound = selector.startsWith(".") ? child.className.split(" ").includes(selector.slice(1)) : child.localName === selector;
      if (isFound) found.push(child);
      found.push(...child.querySelectorAll(selector));
    }
    return found;
  }

  querySelector(selector) {
    return this.querySelectorAll(selector)[0] ?? null;
  }
}

/** A document with elements of given ids, where none is in a page. */
export function fakeDocument(elements = {}) {
  return {
    createElement: (tag) => new FakeElement(tag),
    getElementById: (id) => elements[id] ?? null,
    querySelector: () => null,
    querySelectorAll: () => [],
    addEventListener() {},
    hidden: true,
    title: "",
    body: new FakeElement("body"),
    documentElement: new FakeElement("html"),
  };
}

/** The globals of the script of a report. */
export function reportGlobals(elements) {
  class ResizeObserver {
    observe() {}
  }
  return { document: fakeDocument(elements), ResizeObserver };
}

/** An element as text: its tag and what it contains. */
export function outline(node) {
  if (typeof node === "string") return node;
  return `<${node.localName}>${node.children.map(outline).join("")}</${node.localName}>`;
}
