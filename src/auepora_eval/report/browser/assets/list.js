// The list: what to filter by, and a window onto the rows. However many there are, few are elements.

const OVERSCAN = 4;
let fields = 0;
const SHAPES = { better: "\u25b2", worse: "\u25bc", same: "=", "": "\u00b7" };

class QueryList {
  constructor(list, open) {
    this.list = list;
    this.open = open;
    this.state = freshState();
    this.rows = new Uint32Array(0);
    this.active = 0;
    this.texts = null;
    this.columns = list.metrics.map((_, place) => place).filter((place) => list.metrics[place].shown);
    this.several = list.runs.length > 1;
    this.visible = this.columns;
    this.counted = new Map();
    this.pool = [];
    this.element = make("div", { class: "qb-list" });
    this.build();
  }

  // --- what to filter by ---

  build() {
    this.search = make("input", {
      type: "search", id: "qb-search-field", placeholder: "Search ids, questions, answers  ( / )", autocomplete: "off",
      spellcheck: "false", oninput: () => this.change({ text: this.search.value }),
    });
    this.count = make("output", { class: "qb-count", role: "status", "aria-live": "polite" });
    this.filters = make("div", { class: "qb-filters" });
    this.conditionRows = make("div", { class: "qb-conditions" });
    this.problem = make("p", { class: "qb-note qb-failed", role: "alert", hidden: true });
    this.quick = make("div", { class: "qb-quick", role: "group", "aria-label": "How it came out" });
    this.sortField = this.select("Sort by", this.sortOptions(), (value) => this.sortBy(value));
    this.direction = make("button", { type: "button", class: "qb-direction", onclick: () => this.turn() });
    const clear = make("button", { type: "button", class: "qb-clear", onclick: () => this.clear() }, "Clear filters");
    const help = make("button", { type: "button", class: "qb-help", "aria-label": "Keyboard help", onclick: () => showHelp() }, "?");
    this.grid = make("div", {
      class: "qb-grid", role: "grid", tabindex: "0", "aria-label": "Queries", onscroll: () => this.draw(),
      onkeydown: (event) => this.key(event),
    });
    this.header = make("div", { class: "qb-row qb-header", role: "row", "aria-rowindex": "1" });
    this.canvas = make("div", { class: "qb-canvas", role: "rowgroup" });
    this.empty = make("p", { class: "qb-empty", hidden: true });
    this.grid.append(make("div", { role: "rowgroup", class: "qb-headgroup" }, this.header), this.canvas);
    this.moreFilters = make("details", { class: "qb-panel" }, make("summary", {}, "Filters"), this.filters, this.conditionRows,
      make("div", { class: "qb-tools" }, clear));
    this.element.append(
      make("div", { class: "qb-bar" },
        make("div", { class: "qb-searchbox" }, make("label", { for: "qb-search-field", class: "qb-hidden" }, "Search queries"), this.search, help),
        make("div", { class: "qb-sortbox" }, this.sortField, this.direction)),
      this.moreFilters,
      this.columnsPanel(),
      make("div", { class: "qb-summary" }, this.count, this.quick), this.problem,
      this.grid, this.empty);
    this.buildFilters();
    new ResizeObserver(() => this.draw(true)).observe(this.grid);
  }

  select(label, options, change, chosen = "") {
    const field = make("select", { onchange: () => change(field.value) });
    for (const one of options) field.append(this.option(one));
    field.value = chosen;
    return this.labelled(label, field);
  }

  labelled(label, field, className = "") {
    field.id = `qb-field-${++fields}`;
    const whole = make("div", { class: `qb-field ${className}` }, make("label", { for: field.id }, label), field);
    whole.field = field;
    return whole;
  }

  option(one) {
    if (one.options) return make("optgroup", { label: oneLine(one.label, 80) }, one.options.map((inner) => this.option(inner)));
    return make("option", { value: one.value, text: oneLine(one.label, 80) });
  }

  metricOptions(optionsOf) {
    const groups = new Map();
    this.list.metrics.forEach((metric, place) => {
      if (!groups.has(metric.target)) groups.set(metric.target, []);
      groups.get(metric.target).push(...optionsOf(metric, place));
    });
    return [...groups].map(([label, options]) => ({ label, options }));
  }

  /** What a condition or the order may be about of a metric: its difference, and its score in each run. */
  metricKeys({ name }) {
    const other = letter(this.state.other);
    if (!this.several) return [{ value: conditionKey("metric", name), label: name }];
    return [
      { value: conditionKey("metric", name, "diff"), label: `${name}: ${other} \u2212 A` },
      { value: conditionKey("metric", name, "A"), label: `${name}: A` },
      { value: conditionKey("metric", name), label: `${name}: ${other}` },
    ];
  }

  sortOptions() {
    const b = this.several ? ` in ${letter(this.state.other)}` : "";
    return [
      { value: "order", label: "order of the dataset" },
      { value: "id", label: "id" },
      { value: "question", label: "question" },
      { value: "rank", label: `rank of the first hit${b}` },
      ...this.metricOptions((metric) => this.metricKeys(metric)),
    ];
  }

  /** What a condition may be about: labels, what the runs returned, metrics. */
  subjects() {
    const { list } = this;
    const b = this.several ? `: ${letter(this.state.other)}` : "";
    const ofQuery = list.labels.map(({ name }) => ({ value: conditionKey("label", name), label: name }));
    const ofRun = ["answer", "rank", "hit"];
    if (list.runs.some((run) => run.seconds)) ofRun.push("seconds");
    if (list.metrics.some((metric) => metric.runs.some((side) => side?.causes))) ofRun.push("cause");
    const output = ofRun.map((field) => ({ value: field, label: `${field}${b}` }));
    if (this.several) output.push(...ofRun.map((field) => ({ value: `A.${field}`, label: `${field}: A` })));
    return [
      { label: "Query", options: [{ value: "id", label: "id" }, ...(list.clusters ? [{ value: "cluster", label: "cluster" }] : []), ...ofQuery] },
      { label: "Output", options: output },
      ...this.metricOptions((metric) => this.metricKeys(metric)),
    ];
  }

  /** Values that a condition on this may have. */
  suggestions(key) {
    const { list } = this;
    const { field, name, run } = parseName(key);
    if (field === "label") return [...new Set(list.labels.find((label) => label.name === name).groups.flat())].sort();
    if (field === "cause") return [...CAUSES.keys()];
    const words = knownWords({ field, run });
    if (field !== "metric" || run === "diff") return words;
    const side = metricOf(list, name).runs[runNumber(list, this.state, run)];
    return [...(this.several ? words : CODES.keys()), ...outcomesIn(side, list.count)];
  }

  buildFilters() {
    const { list, state } = this;
    const fields = [];
    if (list.runs.length > 2) {
      const options = list.runs.slice(1).map((run, place) => ({ value: String(place + 1), label: `${letter(place + 1)}: ${run.name}` }));
      fields.push(this.select("Compare A with", options, (value) => { this.change({ other: Number(value) }); this.rebuild(); }, String(state.other)));
    }
    const values = make("datalist", { id: "qb-values" });
    const suggest = () => values.replaceChildren(...this.suggestions(subject.field.value).map((value) => make("option", { value })));
    const subject = this.select("Condition on", this.subjects(), suggest, "answer");
    const operator = this.select("Operator", ["=", "!=", "<", "<=", ">", ">="].map((value) => ({ value, label: value })), () => {}, "=");
    const value = this.labelled("Value", make("input", { list: "qb-values", autocomplete: "off" }));
    const add = (event) => {
      event.preventDefault();
      this.addCondition(`${subject.field.value}${operator.field.value}${quoteValue(value.field.value)}`);
    };
    suggest();
    fields.push(make("form", { class: "qb-condition", onsubmit: add }, subject, operator, value, values, make("button", { type: "submit" }, "Add")));
    this.filters.replaceChildren(...fields);
    this.drawConditions();
  }

  drawConditions() {
    this.conditionRows.replaceChildren(...this.state.where.map((text) =>
      make("button", { type: "button", class: "qb-chip", "aria-label": `Remove condition ${text}`, onclick: () => this.toggle([text]) }, `${oneLine(text, 80)} \u2715`)));
  }

  /** Add a condition, or say why it is none. */
  addCondition(text) {
    try {
      conditionTest(this.list, this.state, parseCondition(text));
    } catch (error) {
      this.showProblem(error);
      return;
    }
    this.change({ where: [...new Set([...this.state.where, text])] });
  }

  /** Add conditions, or remove them where all of them hold. */
  toggle(texts) {
    const { where } = this.state;
    const rest = where.filter((text) => !texts.includes(text));
    this.change({ where: this.hasAll(texts) ? rest : [...rest, ...texts] });
  }

  hasAll(texts) {
    return texts.every((text) => this.state.where.includes(text));
  }

  showProblem(error) {
    if (!(error instanceof ConditionError)) throw error;
    this.problem.textContent = error.message;
    this.problem.hidden = false;
  }

  columnsPanel() {
    const boxes = this.list.metrics.map((metric, place) => {
      const box = make("input", { type: "checkbox", onchange: () => {
        this.columns = this.list.metrics.map((_, at) => at).filter((at) => (at === place ? box.checked : this.columns.includes(at)));
        this.rebuildRows();
      } });
      box.checked = this.columns.includes(place);
      return make("label", { class: "qb-check" }, box, named(metric.name));
    });
    const panel = make("details", { class: "qb-panel qb-columnpanel" }, make("summary", {}, "Columns"), make("div", { class: "qb-checks" }, boxes));
    panel.hidden = !boxes.length;
    return panel;
  }

  clear() {
    const { other } = this.state;
    this.state = { ...freshState(), other };
    this.search.value = "";
    this.rebuild();
    this.change({});
  }

  /** Take over a whole state, as in an address. */
  setState(state) {
    this.state = state;
    this.search.value = state.text;
    this.rebuild();
    this.update();
  }

  rebuild() {
    const options = this.sortOptions();
    this.sortField.field.replaceChildren(...options.map((one) => this.option(one)));
    this.buildFilters();
    this.rebuildRows();
  }

  change(values) {
    this.state = { ...this.state, ...values };
    this.update();
    this.onchange?.();
  }

  sortBy(key) {
    // The worst first: that is what one looks for.
    const { field, name } = parseName(key);
    const metric = field === "metric" && this.list.metrics.find((one) => one.name === name);
    if (sortKey(this.state.sort) === key) this.turn();
    else this.change({ sort: metric && !metric.higher ? `-${key}` : key });
  }

  /** The other direction. */
  turn() {
    const { sort } = this.state;
    this.change({ sort: sort.startsWith("-") ? sortKey(sort) : `-${sort}` });
  }

  // --- the rows ---

  update() {
    if (searchTerms(this.state.text).length && this.texts === null) {
      // What is searched is unpacked when first needed; until then, what the list shows.
      this.texts = this.list.ids.map((id, row) => `${id}\n${this.list.starts[row]}`.toLowerCase());
      readSearched(this.list).then((texts) => { this.texts = texts; this.update(); });
    }
    this.problem.hidden = true;
    try {
      this.rows = listedRows(this.list, this.state, (row) => this.texts[row]);
    } catch (error) {
      this.showProblem(error);
      this.rows = new Uint32Array(0);
    }
    this.active = 0;
    const all = this.list.count, shown = this.rows.length;
    this.count.textContent = shown === all ? plural(all, "query", "queries") : `${shown.toLocaleString("en")} of ${plural(all, "query", "queries")}`;
    this.empty.hidden = shown > 0;
    this.empty.textContent = all ? "No query fits. Clear the filters to see all." : "This run has no queries.";
    this.grid.hidden = shown === 0;
    this.grid.setAttribute("aria-rowcount", String(shown + 1));
    this.sortField.field.value = sortKey(this.state.sort);
    this.direction.textContent = this.state.sort.startsWith("-") ? "\u2193 descending" : "\u2191 ascending";
    this.drawConditions();
    this.moreFilters.querySelector("summary").textContent = this.activeFilters() ? `Filters (${this.activeFilters()} active)` : "Filters";
    this.drawQuick();
    if (this.grid.scrollTop) this.grid.scrollTop = 0;
    if (String(this.visibleColumns()) !== String(this.visible)) this.rebuildRows();
    else {
      this.drawHeader();
      this.draw(true);
    }
  }

  activeFilters() {
    return this.state.where.length;
  }

  /** How many queries came out how; over all of them, so that it is counted once. */
  countsOf(metric, run, compare) {
    const key = JSON.stringify([metric.name, run, compare, this.state.other]);
    if (!this.counted.has(key)) {
      const counts = new Map((compare ? ["better", "worse", "same", ""] : ["scored", "skipped", "failed", "absent"]).map((word) => [word, 0]));
      const side = metric.runs[run];
      for (let row = 0; row < this.list.count; row++) {
        const word = compare ? changeOf(this.state, metric, row) : ["scored", "skipped", "failed", "failed"][side?.status[row]] ?? "absent";
        counts.set(word, counts.get(word) + 1);
      }
      this.counted.set(key, counts);
    }
    return this.counted.get(key);
  }

  /** The metrics of the conditions. */
  usedMetrics() {
    return this.state.where.map((text) => parseName(splitCondition(text)?.[0] ?? "")).filter(({ field }) => field === "metric").map(({ name }) => name);
  }

  /** How the metric of the first condition came out over all queries; a press on a count shows those. */
  drawQuick() {
    const [used] = this.usedMetrics();
    const metric = this.list.metrics.find((one) => one.name === used) ?? this.list.metrics[this.columns[0]];
    if (!metric || !this.list.count) {
      this.quick.replaceChildren();
      return;
    }
    const compare = this.several && isComparable(this.state, metric);
    const counts = this.countsOf(metric, runNumber(this.list, this.state, ""), compare);
    const words = { better: "better", worse: "worse", same: "the same", "": "not scored in both", absent: "no score" };
    const buttons = [...counts].filter(([, count]) => count).map(([key, count]) => {
      const name = conditionKey("metric", metric.name);
      const conditions = key ? [`${name}=${key}`] : [`${name}!=changed`, `${name}!=same`];
      return make("button", { type: "button", class: `qb-chip qb-${key || "none"}`, "aria-pressed": String(this.hasAll(conditions)), onclick: () => this.toggle(conditions) },
        `${compare ? `${SHAPES[key]} ` : ""}${count.toLocaleString("en")} ${words[key] ?? key}`);
    });
    this.quick.replaceChildren(named(metric.name, "qb-quickname"), ...buttons);
  }

  drawHeader() {
    const other = letter(this.state.other);
    const cells = [["id", "Id", "qb-id"], ["question", "Question", "qb-question"], ["rank", "First hit", "qb-hit"]];
    for (const place of this.visible) {
      const { name } = this.list.metrics[place];
      cells.push([conditionKey("metric", name, this.several ? "diff" : ""), name, "qb-metric"]);
    }
    this.header.replaceChildren(...cells.map(([key, label, className]) => {
      const current = sortKey(this.state.sort), isDescending = this.state.sort.startsWith("-");
      const sorted = current === key || (className === "qb-metric" && parseName(current).name === label);
      const arrow = sorted ? (isDescending ? " \u2193" : " \u2191") : "";
      return make("div", { class: className, role: "columnheader", "aria-sort": sorted ? (isDescending ? "descending" : "ascending") : "none" },
        make("button", { type: "button", tabindex: "-1", title: className === "qb-metric" && this.several ? `${oneLine(label)}: A \u2192 ${other}` : oneLine(label), onclick: () => this.sortBy(key) },
          metricName(beginning(label, 60)), arrow));
    }));
    this.grid.style.setProperty("--qb-metrics", String(this.visible.length));
    this.grid.classList.toggle("qb-wide", this.several);
  }

  /** The columns that were chosen, and those that rows are ordered or filtered by. */
  visibleColumns() {
    const names = [...this.usedMetrics(), parseName(sortKey(this.state.sort)).name];
    return this.list.metrics.map((_, place) => place).filter((place) => this.columns.includes(place) || names.includes(this.list.metrics[place].name));
  }

  rebuildRows() {
    this.visible = this.visibleColumns();
    for (const one of this.pool) one.element.remove();
    this.pool = [];
    this.drawHeader();
    this.draw(true);
  }

  newRow() {
    const link = make("a", { tabindex: "-1" });
    const id = make("bdi", { class: "qb-idtext" });
    const hit = make("div", { class: "qb-hit", role: "gridcell" });
    const metrics = this.visible.map(() => make("div", { class: "qb-metric", role: "gridcell" }));
    const element = make("div", { class: "qb-row", role: "row" },
      make("div", { class: "qb-id", role: "gridcell" }, id), make("div", { class: "qb-question", role: "gridcell" }, link), hit, metrics);
    const one = { element, link, id, hit, metrics, place: -1 };
    element.id = `qb-row-${this.pool.length}`;
    element.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.defaultPrevented) return;
      event.preventDefault();
      this.active = one.place;
      this.open(this.rows[one.place]);
    });
    this.pool.push(one);
    this.canvas.append(element);
    return one;
  }

  rowHeight() {
    return parseFloat(getComputedStyle(this.grid).getPropertyValue("--qb-row")) || 44;
  }

  draw(all = false) {
    if (!this.grid.isConnected || this.grid.hidden) return;
    const height = this.rowHeight();
    this.canvas.style.height = `${this.rows.length * height}px`;
    const first = Math.max(0, Math.floor(this.grid.scrollTop / height) - OVERSCAN);
    const fits = Math.ceil((this.grid.clientHeight || 600) / height) + 2 * OVERSCAN;
    const last = Math.min(this.rows.length, first + fits);
    while (this.pool.length < last - first) this.newRow();
    this.pool.forEach((one, at) => {
      // Rows keep their elements while they stay in sight: row n always is in element n mod the size of the pool.
      const size = this.pool.length;
      const place = first + ((at - (first % size) + size) % size);
      const used = place < last;
      one.element.hidden = !used;
      if (!used) one.place = -1;
      else if (all || one.place !== place) this.fill(one, place, height);
      one.element.classList.toggle("qb-active", used && place === this.active);
      one.element.setAttribute("aria-selected", String(used && place === this.active));
      if (used && place === this.active) this.grid.setAttribute("aria-activedescendant", one.element.id);
    });
  }

  fill(one, place, height) {
    const { list, state } = this;
    const row = this.rows[place];
    one.place = place;
    one.element.style.transform = `translateY(${place * height}px)`;
    one.element.setAttribute("aria-rowindex", String(place + 2));
    one.id.textContent = oneLine(list.ids[row], 80);
    one.id.title = oneLine(list.ids[row], 500);
    one.link.href = queryAddress(list.ids[row]);
    one.link.textContent = oneLine(list.starts[row], 200) || "(no question)";
    const current = runNumber(list, state, "");
    const rank = (run) => {
      const { answers, ranks } = list.runs[run];
      if (ANSWERS[answers[row]] === "failed") return "failed";
      if (answers[row] === ABSENT || ANSWERS[answers[row]] === "missing" || Number.isNaN(ranks[row])) return "\u2013";
      return ranks[row] === Infinity ? "none" : `#${ranks[row]}`;
    };
    one.hit.textContent = this.several ? `${rank(0)} \u2192 ${rank(current)}` : rank(current);
    one.hit.dataset.label = "First hit";
    this.visible.forEach((column, at) => this.fillMetric(one.metrics[at], list.metrics[column], row));
  }

  fillMetric(cell, metric, row) {
    const show = (side) => {
      const { status, word } = outcomeOf(side, row);
      if (status === 0) return figure(side.values[row]);
      return status === ABSENT ? "\u2013" : word.split(" ").at(-1);
    };
    cell.dataset.label = oneLine(metric.name, 40);
    if (!this.several) {
      cell.textContent = show(metric.runs[0]);
      return;
    }
    const change = changeOf(this.state, metric, row);
    cell.textContent = `${show(metric.runs[0])} \u2192 ${show(metric.runs[this.state.other])} ${SHAPES[change]}`;
    cell.className = `qb-metric qb-${change || "none"}`;
    cell.setAttribute("aria-label", `${cell.dataset.label}: ${show(metric.runs[0])} to ${show(metric.runs[this.state.other])}, ${change || "not scored in both"}`);
  }

  // --- moving ---

  move(place) {
    if (!this.rows.length) return;
    this.active = Math.max(0, Math.min(this.rows.length - 1, place));
    this.showActive();
  }

  showActive() {
    const height = this.rowHeight(), top = this.active * height;
    const head = this.header.offsetHeight, room = this.grid.clientHeight - head;
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    else if (top + height > this.grid.scrollTop + room) this.grid.scrollTop = top + height - room;
    this.draw();
  }

  key(event) {
    if (event.target !== this.grid || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.grid.clientHeight / this.rowHeight()) - 1);
    const to = { ArrowDown: this.active + 1, ArrowUp: this.active - 1, PageDown: this.active + page, PageUp: this.active - page, Home: 0, End: this.rows.length - 1 }[event.key];
    if (to !== undefined) this.move(to);
    else if (event.key === "Enter" && this.rows.length) this.open(this.rows[this.active]);
    else return;
    event.preventDefault();
  }
}
