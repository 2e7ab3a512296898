// Which queries are listed, and in which order. Conditions are functions of a row over typed columns.

const freshCondition = () => ({ metric: -1, of: "last", outcome: "", low: "", high: "", change: "" });

const freshState = () => ({
  text: "",
  answers: "",
  hit: "",
  labels: new Map(),
  conditions: [freshCondition()],
  other: 1,
  sort: "order",
  descending: false,
});

/** The run that a condition or a sort key is about: "first", "last", or "delta" for the difference of the two. */
const runOf = (list, state, of) => (of === "first" || list.runs.length < 2 ? 0 : state.other);

const delta = (list, state, metric, row) => {
  const a = metric.runs[0], b = metric.runs[state.other];
  return metric.comparable && a && b ? b.values[row] - a.values[row] : NaN;
};

/** "better", "worse" or "same" from the first run to the other; "" where the two cannot be compared. */
function changeOf(list, state, metric, row) {
  const difference = delta(list, state, metric, row);
  if (Number.isNaN(difference)) return "";
  if (Math.abs(difference) <= metric.rounding) return "same";
  return difference > 0 === metric.higher ? "better" : "worse";
}

/** The outcome of a metric in a run, in words; with its reason where it has one. */
function outcomeOf(side, row) {
  if (!side || side.status[row] === ABSENT) return { status: ABSENT, word: "no score", reason: "" };
  const status = side.status[row];
  const reason = side.reasons ? side.names[side.reasons[row]] : "";
  return { status, word: OUTCOMES[status], reason };
}

/** Every outcome and reason that occurs in a run, each once. */
function outcomesIn(side, count) {
  const seen = new Map();
  for (let row = 0; side && row < count; row++) {
    if (side.status[row] === ABSENT) continue;
    const code = 4 * (side.reasons ? side.reasons[row] : 0) + side.status[row];
    if (!seen.has(code)) seen.set(code, outcomeOf(side, row));
  }
  return [...seen.values()];
}

const OUTCOME_KINDS = new Map([["scored", [0]], ["skipped", [1]], ["failed", [2, 3]], ["system", [2]], ["measure", [3]], ["absent", [ABSENT]]]);

function conditionTest(list, state, condition) {
  const metric = list.metrics[condition.metric];
  if (!metric) return null;
  const tests = [];
  const side = metric.runs[runOf(list, state, condition.of)];
  if (condition.outcome) {
    const [kind, reason] = condition.outcome.split(/:([^]*)/);  // a reason may have a colon of its own
    const wanted = OUTCOME_KINDS.get(kind) ?? [];
    tests.push((row) => {
      const found = outcomeOf(side, row);
      return wanted.includes(found.status) && (reason === undefined || found.reason === reason);
    });
  }
  const low = condition.low === "" ? NaN : Number(condition.low);
  const high = condition.high === "" ? NaN : Number(condition.high);
  if (!Number.isNaN(low) || !Number.isNaN(high)) {
    const valueAt = condition.of === "delta"
      ? (row) => delta(list, state, metric, row)
      : (row) => (side ? side.values[row] : NaN);
    tests.push((row) => {
      const value = valueAt(row);
      return !Number.isNaN(value) && !(value < low) && !(value > high);
    });
  }
  if (condition.change) {
    const wanted = condition.change === "none" ? "" : condition.change;
    tests.push((row) => changeOf(list, state, metric, row) === wanted);
  }
  return tests.length ? (row) => tests.every((test) => test(row)) : null;
}

/** The words of a search; what stands in quotes is one. */
function searchTerms(text) {
  const terms = [];
  for (const [, quoted, word] of text.toLowerCase().matchAll(/"([^"]+)"|(\S+)/g)) terms.push(quoted ?? word);
  return terms;
}

function filterTests(list, state, searched) {
  const tests = [];
  const current = runOf(list, state, "last");
  const run = list.runs[current];
  if (state.answers && run) {
    const wanted = Number(state.answers);
    tests.push((row) => run.states[row] === wanted);
  }
  if (state.hit && run) {
    if (state.hit === "hit") tests.push((row) => !Number.isNaN(run.firstHits[row]));
    else if (state.hit === "miss") tests.push((row) => Number.isNaN(run.firstHits[row]));
    else if (run.kinds) {
      const wanted = KINDS.indexOf(state.hit);
      tests.push((row) => run.kinds[row] === wanted);
    }
  }
  for (const label of list.labels) {
    const wanted = state.labels.get(label.name);
    if (!wanted) continue;
    const fits = label.groups.map((group) => group.includes(wanted));
    tests.push((row) => fits[label.codes[row]]);
  }
  for (const condition of state.conditions) {
    const test = conditionTest(list, state, condition);
    if (test) tests.push(test);
  }
  const terms = searchTerms(state.text);
  if (terms.length) tests.push((row) => terms.every((term) => searched(row).includes(term)));
  return tests;
}

// --- order -----------------------------------------------------------------------------------------------------------

const textRanks = new Map();

/** The place of every row when texts are in alphabetical order; worked out once. */
function textRank(key, texts, compare) {
  if (!textRanks.has(key)) {
    const order = Array.from(texts.keys()).sort((a, b) => compare(texts[a], texts[b]) || a - b);
    const ranks = new Float64Array(texts.length);
    order.forEach((row, rank) => { ranks[row] = rank; });
    textRanks.set(key, ranks);
  }
  return textRanks.get(key);
}

/** Ids as people count: q2 before q10. */
const idRank = (list) => textRank("id", list.ids, new Intl.Collator("en", { numeric: true }).compare);

/** Questions by their letters, accents after the plain letter. That takes a tenth of the time of a collator. */
function questionRank(list) {
  if (textRanks.has("question")) return textRanks.get("question");
  const folded = list.starts.map((text) => text.normalize("NFD").toLowerCase());
  return textRank("question", folded, (a, b) => (a < b ? -1 : a > b ? 1 : 0));
}

/** The number that rows are ordered by; `null` for the order of the dataset. */
function sortValues(list, state) {
  const key = state.sort;
  if (key === "id") return idRank(list);
  if (key === "question") return questionRank(list);
  if (key === "hit") return list.runs[runOf(list, state, "last")]?.firstHits ?? null;
  const [, of, name] = /^(first|last|delta)\|([^]*)$/.exec(key) ?? [];
  const metric = list.metrics.find((one) => one.name === name);
  if (!metric) return null;
  if (of === "delta") return Float64Array.from({ length: list.count }, (_, row) => delta(list, state, metric, row));
  return metric.runs[runOf(list, state, of)]?.values ?? null;
}

let lastOrder = { key: null, rows: null };

/** All rows in order, kept until another order is asked for. What has no value is last, whichever way the rest goes. */
function orderedRows(list, state) {
  const key = JSON.stringify([state.sort, state.descending, state.other]);
  if (lastOrder.key === key) return lastOrder.rows;
  const rows = Uint32Array.from({ length: list.count }, (_, row) => row);
  const values = sortValues(list, state);
  const sign = state.descending ? -1 : 1;
  if (!values) {
    if (state.descending) rows.reverse();
  } else {
    rows.sort((a, b) => {
      const x = values[a], y = values[b];
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || a - b;
      return sign * (x - y) || a - b;
    });
  }
  lastOrder = { key, rows };
  return rows;
}

/** The rows that fit, in order. */
function listedRows(list, state, searched) {
  const tests = filterTests(list, state, searched);
  const ordered = orderedRows(list, state);
  return tests.length ? ordered.filter((row) => tests.every((test) => test(row))) : ordered;
}

// --- the address -----------------------------------------------------------------------------------------------------

/** The filter as the end of an address; "" where nothing is chosen. */
function toAddress(list, state) {
  const parameters = new URLSearchParams();
  if (state.text) parameters.set("text", state.text);
  if (state.answers) parameters.set("answers", state.answers);
  if (state.hit) parameters.set("hit", state.hit);
  for (const [name, value] of state.labels) if (value !== "") parameters.set(`label.${name}`, value);
  for (const one of state.conditions) {
    if (!list.metrics[one.metric] || !(one.outcome || one.low || one.high || one.change)) continue;
    parameters.append("metric", JSON.stringify([list.metrics[one.metric].name, one.of, one.outcome, one.low, one.high, one.change]));
  }
  if (state.other !== 1) parameters.set("run", String(state.other));
  if (state.sort !== "order") parameters.set("sort", state.sort);
  if (state.descending) parameters.set("descending", "1");
  const text = parameters.toString();
  return text && `#f/${text}`;
}

/** A condition from an address, where parts may be missing; null where it names no metric of the list. */
function conditionFrom(list, text) {
  let parts;
  try {
    parts = JSON.parse(text);
  } catch {
    return null;  // an address that somebody cut short
  }
  if (!Array.isArray(parts)) return null;
  const [name, of, outcome, low, high, change] = Array.from({ length: 6 }, (_, at) => String(parts[at] ?? ""));
  const metric = list.metrics.findIndex((known) => known.name === name);
  return metric < 0 ? null : { metric, of: of || "last", outcome, low, high, change };
}

function fromAddress(list, hash) {
  const state = freshState();
  if (!hash.startsWith("#f/")) return state;
  const parameters = new URLSearchParams(hash.slice(3));
  state.text = parameters.get("text") ?? "";
  state.answers = parameters.get("answers") ?? "";
  state.hit = parameters.get("hit") ?? "";
  for (const label of list.labels) state.labels.set(label.name, parameters.get(`label.${label.name}`) ?? "");
  const conditions = parameters.getAll("metric").map((text) => conditionFrom(list, text)).filter((condition) => condition !== null);
  if (conditions.length) state.conditions = conditions;
  const other = Number(parameters.get("run") ?? 1);
  if (list.runs[other] && other > 0) state.other = other;
  state.sort = parameters.get("sort") ?? "order";
  state.descending = parameters.get("descending") === "1";
  return state;
}
