// What the address says is what is shown: "#q/ID" a query, "#f/..." a filter, anything else the page with its list.

const queryAddress = (id) => `#q/${encodeURIComponent(id)}`;

function askedId(hash) {
  if (!hash.startsWith("#q/")) return null;
  try {
    return decodeURIComponent(hash.slice(3));
  } catch {
    return hash.slice(3);  // an address that somebody typed
  }
}

/** The part of the page that an address names. */
function elementOf(hash) {
  try {
    return hash.length > 1 ? document.getElementById(decodeURIComponent(hash.slice(1))) : null;
  } catch {
    return null;
  }
}

function replaceAddress(address) {
  try {
    history.replaceState(null, "", address);
  } catch {
    // Too often in a short time: the address lags behind, the list does not.
  }
}

const help = make("dialog", { class: "qb-dialog", "aria-labelledby": "qb-help-title" });
let singleKeys = true;

function showHelp() {
  if (!help.open) help.showModal();
}

function buildHelp() {
  const keys = [["/", "search"], ["j, \u2193", "next query"], ["k, \u2191", "previous query"], ["Enter", "open the query"], ["Esc", "back to the list"], ["?", "this help"]];
  const box = make("input", { type: "checkbox", onchange: () => { singleKeys = box.checked; } });
  box.checked = true;
  help.append(
    make("h3", { id: "qb-help-title" }, "Keyboard"),
    make("dl", { class: "qb-keys" }, keys.map(([key, what]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, what)])),
    make("p", {}, "Words in the search must all occur; \u201cwords in quotes\u201d must stand together."),
    make("label", { class: "qb-check" }, box, "single keys work as shortcuts"),
    make("form", { method: "dialog" }, make("button", { type: "submit" }, "Close")));
}

class App {
  constructor(section, list) {
    this.section = section;
    this.list = list;
    this.title = document.title;
    this.opened = -1;
    this.scrolled = 0;
    this.cameFromHere = false;
    this.returnTo = null;
    this.queries = new QueryList(list, (row) => this.go(row));
    this.queries.onchange = () => this.noteFilter();
    this.detail = make("div", { class: "qb-detail", hidden: true });
    this.content = make("div", { class: "qb-content" });
    this.position = make("span", { class: "qb-position", role: "status", "aria-live": "polite" });
    this.previous = make("button", { type: "button", onclick: () => this.step(-1) }, "\u2039 Previous");
    this.next = make("button", { type: "button", onclick: () => this.step(1) }, "Next \u203a");
    this.back = make("a", { href: "#queries", class: "qb-back", onclick: (event) => { event.preventDefault(); this.close(); } }, "\u2190 All queries");
    this.detail.append(make("nav", { class: "qb-nav", "aria-label": "Queries" }, this.back, this.previous, this.next, this.position), this.content);
    this.parts = make("div", { class: "qb-root" }, make("h2", { class: "qb-title", tabindex: "-1" }, "Queries"), this.legend(), this.queries.element, this.detail, help);
  }

  /** Which letter is which run. */
  legend() {
    if (this.list.runs.length < 2) return null;
    return make("p", { class: "qb-runs" }, this.list.runs.map((run, at) => make("span", {}, make("strong", {}, letter(at)), " ", named(run.name), at ? null : " (baseline)")));
  }

  start() {
    this.section.append(this.parts);
    this.section.classList.add("qb-ready");
    // Everything that is not the browser steps aside while a query is open; a banner stays.
    for (let element = this.section; element && element !== document.body; element = element.parentElement) {
      for (const other of element.parentElement?.children ?? []) {
        if (other !== element && !other.matches("header, script, style, dialog, [role=banner]")) other.classList.add("qb-aside");
      }
    }
    // What sticks to the top of the page keeps its place above what sticks here.
    const banner = document.querySelector("body > header");
    const top = banner && getComputedStyle(banner).position === "sticky" ? banner.offsetHeight : 0;
    this.section.style.setProperty("--qb-top", `${top}px`);
    this.queries.setState(fromAddress(this.list, location.hash));
    if (this.queries.activeFilters()) this.queries.moreFilters.open = true;
    window.addEventListener("hashchange", () => this.route());
    document.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("beforeprint", () => this.unfold(true));
    window.addEventListener("afterprint", () => this.unfold(false));
    this.route(true);
  }

  /** Put the filter into the address; not at every letter, since browsers allow that only so often. */
  noteFilter(now = false) {
    clearTimeout(this.noting);
    if (!now) {
      this.noting = setTimeout(() => this.noteFilter(true), 250);
      return;
    }
    if (this.opened === -1) replaceAddress(toAddress(this.queries.state) || "#queries");
  }

  go(row) {
    this.noteFilter(true);
    location.hash = queryAddress(this.list.ids[row]);
  }

  close() {
    if (this.cameFromHere) history.back();
    else location.hash = toAddress(this.queries.state) || "#queries";
  }

  async route(first = false) {
    const id = askedId(location.hash);
    if (id === null) {
      if (location.hash.startsWith("#f/") && location.hash !== toAddress(this.queries.state)) {
        this.queries.setState(fromAddress(this.list, location.hash));
      }
      if (this.opened !== -1) this.showList();
      else if (first && location.hash.startsWith("#f/")) this.section.scrollIntoView({ behavior: "instant" });
      return;
    }
    if (this.opened === -1) {
      // Where to return to: a row of the list, or a point of some chart.
      const focused = document.activeElement;
      this.returnTo = focused && focused !== document.body && !this.section.contains(focused) ? focused : null;
      this.scrolled = first ? 0 : window.scrollY;
      this.cameFromHere = !first;
    }
    const row = this.list.places.get(id);
    this.opened = row ?? -2;
    this.queries.element.hidden = true;
    this.detail.hidden = false;
    document.documentElement.classList.add("qb-open");
    if (row === undefined) {
      this.position.textContent = "";
      this.content.replaceChildren(make("p", { class: "qb-note qb-missing", tabindex: "-1" }, "There is no query ", named(id), " in this report."));
    } else {
      const query = await readQuery(this.list, row);
      if (this.opened !== row) return;  // somebody was faster
      this.content.replaceChildren(new QueryView(this.list, this.queries.state).render(query, row));
      const place = this.queries.rows.indexOf(row);
      this.place = place;
      if (place >= 0) this.queries.active = place;
      this.position.textContent = place < 0 ? "not in the filtered list" : `${(place + 1).toLocaleString("en")} of ${this.queries.rows.length.toLocaleString("en")}`;
      this.previous.disabled = place <= 0;
      this.next.disabled = place < 0 || place + 1 >= this.queries.rows.length;
      document.title = `${oneLine(id, 60)} \u00b7 ${this.title}`;
    }
    window.scrollTo({ top: 0, behavior: "instant" });
    this.content.querySelector("[tabindex]")?.focus({ preventScroll: true });
  }

  showList() {
    this.opened = -1;
    document.documentElement.classList.remove("qb-open");
    document.title = this.title;
    this.detail.hidden = true;
    this.content.replaceChildren();
    this.queries.element.hidden = false;
    this.queries.draw(true);
    this.queries.showActive();
    const place = elementOf(location.hash);
    if (place && place !== this.section) {
      place.scrollIntoView({ behavior: "instant" });  // it was not there when the browser went to it
      return;
    }
    if (this.scrolled) window.scrollTo({ top: this.scrolled, behavior: "instant" });
    else this.section.scrollIntoView({ behavior: "instant" });
    (this.returnTo ?? this.queries.grid).focus({ preventScroll: true });
  }

  step(by) {
    const row = this.queries.rows[this.place + by];
    if (this.place < 0 || row === undefined) return;
    // In place of this one, so that "back" leads to the list.
    replaceAddress(queryAddress(this.list.ids[row]));
    this.route();
  }

  unfold(open) {
    for (const one of this.content.querySelectorAll("details")) {
      if (open) {
        one.dataset.was ??= one.open ? "open" : "closed";  // a browser may announce a print twice
        one.open = true;
      } else if (one.dataset.was) {
        one.open = one.dataset.was === "open";
        delete one.dataset.was;
      }
    }
  }

  key(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    const inField = event.target.matches?.("input, select, textarea, [contenteditable]");
    if (event.key === "Escape") {
      if (inField && event.target === this.queries.search) { this.queries.grid.focus(); return; }
      if (this.opened !== -1) { event.preventDefault(); this.close(); }
      return;
    }
    if (inField || !singleKeys) return;
    const isOpen = this.opened !== -1;
    if (event.key === "/") {
      if (isOpen) this.showListFor();
      else this.queries.search.focus();
    } else if (event.key === "?") showHelp();
    else if (event.key === "j" || event.key === "k") {
      const by = event.key === "j" ? 1 : -1;
      if (isOpen) this.step(by);
      else if (document.activeElement === this.queries.grid) this.queries.move(this.queries.active + by);
      else this.queries.grid.focus();
    } else return;
    event.preventDefault();
  }

  /** The list, with the search ready for words. */
  showListFor() {
    window.addEventListener("hashchange", () => this.queries.search.focus(), { once: true });
    this.close();
  }
}

async function main() {
  const section = document.getElementById("queries");
  if (!section || !document.getElementById("qb-list")) return;
  if (typeof DecompressionStream === "undefined") {
    section.append(make("p", { class: "qb-note" }, "The list of queries needs a newer browser: this one cannot unpack it."));
    return;
  }
  buildHelp();
  const list = await readList();
  new App(section, list).start();
  section.dataset.ready = "true";
}

main();
