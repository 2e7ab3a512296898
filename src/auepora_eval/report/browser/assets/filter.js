// Conditions on queries, read as `auepora queries --where` reads them; search, order, and the filter in an address.

const freshState = () => ({ text: "", where: [], other: 1, sort: "order" });

class ConditionError extends Error {}

// --- conditions as texts ---------------------------------------------------------------------------------------------

const RUN_FIELDS = ["cause", "answer", "rank", "hit", "seconds"];
const SAMPLE_FIELDS = ["label", "term", "cluster", "id", "set"];
const FIELDS = [...RUN_FIELDS, "change", ...SAMPLE_FIELDS];
const NAMED = ["label", "seconds", "cause", "change"];
const ELSEWHERE = ["change", "term", "set"];
const CODES = new Map([["scored", [0]], ["skipped", [1]], ["failed", [2, 3]], ["system-failed", [2]], ["measure-failed", [3]], ["absent", [ABSENT]]]);
const CHANGES = new Map([["better", [1]], ["worse", [-1]], ["same", [0]], ["changed", [1, -1]]]);
const PAIRS = new Map([["both-right", [true, true]], ["a-only", [true, false]], ["b-only", [false, true]], ["both-wrong", [false, false]]]);
const HITS = new Map([["win", [1, 5]], ["loss", [2]], ["draw", [3]], ["regression", [4]], ["gained", [5]], ["lost", [4]]]);
const CAUSES = new Map([
  ["retriever", ["not_returned"]], ["dropped", ["not_returned"]], ["below-cut", ["below_cut"]],
  ["generator", ["contradicts_context", "unused"]], ["refused", ["refused"]], ["failed", ["system_failed"]],
]);

const short = (text) => (text.length <= 80 ? text : `${text.slice(0, 79)}\u2026`);

function closingQuote(text, start) {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === text[start]) return at;
  }
  return -1;
}

/** Name, operator and value; operators in quotes and brackets belong to the name. */
function splitCondition(text) {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    if (`'"`.includes(text[at]) && (at === 0 || text[at - 1] === ".")) {
      at = Math.max(at, closingQuote(text, at));
      continue;
    }
    depth += (text[at] === "[") - (text[at] === "]");
    const [operator] = (depth <= 0 && /^(<=|>=|!=|<|>|=)/.exec(text.slice(at))) || [];
    if (operator) {
      const left = text.slice(0, at).trim();
      return left ? [left, operator, text.slice(at + operator.length).trim()] : null;
    }
  }
  return null;
}

function unquote(text) {
  const isQuoted = text.length >= 2 && `'"`.includes(text[0]) && closingQuote(text, 0) === text.length - 1;
  return isQuoted ? text.slice(1, -1).replace(/\\([^])/g, "$1") : text;
}

const quote = (text) => `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;

/** Field, name and run of the left side of a condition, or of a sort key. */
function parseName(text) {
  const [, run = "", rest] = /^(?:(diff|[A-Z])\.(?=[^]))?([^]*)$/.exec(text);
  const [, field, name] = /^([^.]*)\.([^]+)$/.exec(rest) ?? [];
  if (/^['"]/.test(rest)) return { field: "metric", name: unquote(rest), run };
  if (NAMED.includes(field)) return { field, name: unquote(name), run };
  if (FIELDS.includes(rest)) return { field: rest, name: "", run };
  return { field: "metric", name: rest, run };
}

/** The left side of a condition, which is a sort key, too; its name is in quotes where it would be read as something else. */
function conditionKey(field, name = "", run = "") {
  const prefix = run && `${run}.`;
  const whole = field === "metric" ? name : [field, name].filter(Boolean).join(".");
  const [left, operator, value] = splitCondition(`${prefix}${whole}=1`) ?? [];
  const found = left === undefined ? {} : parseName(left);
  const isRead = operator === "=" && value === "1" && found.field === field && found.name === name && found.run === run;
  if (isRead && !/(^|\.)['"]/.test(whole)) return `${prefix}${whole}`;
  return `${prefix}${field === "metric" ? "" : `${field}.`}${quote(name)}`;
}

/** A value of a condition; in quotes where it would be read as another one. */
const quoteValue = (text) => (text !== text.trim() || /^['"=]/.test(text) ? quote(text) : text);

function readNumber(text) {
  const number = /^[+-]?inf(inity)?$/i.test(text) ? (text.startsWith("-") ? -Infinity : Infinity) : Number(text);
  if (Number.isNaN(number) || !text.trim() || /^[+-]?0[box]/i.test(text)) throw new ConditionError(`'${short(text)}' is not a number`);
  return number;
}

function parseCondition(text) {
  const split = splitCondition(text);
  if (split === null) throw new ConditionError(`'${short(text)}' is not a condition; write a name, an operator (< <= > >= = !=) and a value, such as token_f1<0.5, answer=failed or label.lang=de`);
  const [left, operator, right] = split;
  const value = unquote(right);
  if (!value) throw new ConditionError(`'${short(text)}' has no value after ${operator}`);
  const [head, ...rest] = value.split(":");
  const condition = { ...parseName(left), operator, value, word: head.trim().toLowerCase().replaceAll("_", "-"), detail: unquote(rest.join(":").trim()) };
  checkCondition(condition, short(text), /^['"]/.test(right));
  return condition;
}

function knownWords({ field, run }) {
  if (field === "metric") return run === "diff" ? [] : [...CODES.keys(), ...CHANGES.keys(), ...PAIRS.keys()];
  return { rank: ["none"], answer: ANSWERS, hit: ["hit", "miss", ...HITS.keys()] }[field] ?? [];
}

/** An error where operator, value and field do not fit. */
function checkCondition(condition, text, isQuoted) {
  const { field, name, run, operator, value, word } = condition;
  const fail = (message) => { throw new ConditionError(`'${text}': ${message}`); };
  if (run && field !== "metric" && !RUN_FIELDS.includes(field)) fail(`${field} does not belong to a run; leave out ${run}.`);
  if (run === "diff" && field !== "metric") fail("only metrics have a difference; write diff.METRIC");
  if (field === "label" && !name) fail("write label.NAME=VALUE");
  if (ELSEWHERE.includes(field)) fail(`a report does not have ${field}; use auepora queries or the workbench`);
  const isOrdered = !["=", "!="].includes(operator), isNumeric = ["metric", "rank", "seconds"].includes(field);
  if (isOrdered && !isNumeric) fail(`${field} has no order; write = or !=`);
  if (SAMPLE_FIELDS.includes(field) || field === "cause") return;
  const words = isOrdered ? [] : knownWords(condition);
  if (words.includes(word) && !isQuoted) return;
  try {
    if (isNumeric) readNumber(value);
  } catch {
    fail(`'${short(value)}' should be a number${words.length ? `, or one of ${words.join(", ")}` : ""}`);
  }
  if (!isNumeric) fail(`'${short(value)}' should be one of ${words.join(", ")}`);
}

// --- scores and outcomes ---------------------------------------------------------------------------------------------

const isComparable = (state, metric) => !metric.problems[state.other];

const delta = (state, metric, row) => {
  const a = metric.runs[0], b = metric.runs[state.other];
  return a && b && isComparable(state, metric) ? b.values[row] - a.values[row] : NaN;
};

/** 1 better, -1 worse, 0 same, from the first run to the other; NaN where the two cannot be compared. */
function changeCode(state, metric, row) {
  const difference = delta(state, metric, row);
  if (Math.abs(difference) <= metric.rounding) return 0;
  return Math.sign(difference) * (metric.higher ? 1 : -1);
}

/** "better", "worse" or "same" from the first run to the other; "" where the two cannot be compared. */
const changeOf = (state, metric, row) => ["worse", "same", "better"][changeCode(state, metric, row) + 1] ?? "";

/** The outcome of a metric in a run, in words; with its reason where it has one. */
function outcomeOf(side, row) {
  if (!side || side.status[row] === ABSENT) return { status: ABSENT, word: "no score", reason: "" };
  const status = side.status[row];
  return { status, word: OUTCOMES[status], reason: reasonAt(side, row) };
}

const reasonAt = (side, row) => (side.reasons ? side.names[side.reasons[row]] : "");

/** Every outcome with a reason that occurs in a run, as the value of a condition. */
function outcomesIn(side, count) {
  const found = new Set();
  for (let row = 0; side?.reasons && row < count; row++) {
    const reason = reasonAt(side, row);
    if (reason) found.add(`${["scored", "skipped", "system-failed", "measure-failed"][side.status[row]]}:${quoteValue(reason)}`);
  }
  return [...found];
}

// --- the rows that fulfil a condition --------------------------------------------------------------------------------

/** The number of the run with a letter; without one, of the run that is compared with the first. */
function runNumber(list, state, run) {
  if (!run || run === "diff") return list.runs.length > 1 ? state.other : 0;
  const number = LETTERS.indexOf(run);
  if (!list.runs[number]) throw new ConditionError(`there is no run ${run}; the runs are ${list.runs.map((_, at) => letter(at)).join(", ")}`);
  return number;
}

function requireTwo(list, what) {
  if (list.runs.length < 2) throw new ConditionError(`${what} compares two runs, and only one is given; add a second run`);
}

function metricOf(list, name) {
  const metric = list.metrics.find((one) => one.name === name);
  if (!metric) throw new ConditionError(`the runs have no metric '${name}'; the metrics are ${list.metrics.map((one) => one.name).join(", ") || "none"}`);
  return metric;
}

/** A test of a number; NaN fulfils nothing. Values that are equal when shown with 9 digits are equal. */
function comparison(operator, text) {
  const wanted = readNumber(text);
  const room = Number.isFinite(wanted) ? 1e-12 + 1e-9 * Math.abs(wanted) : 0;
  const isEqual = (value) => value === wanted || Math.abs(value - wanted) <= room;
  const tests = {
    "=": isEqual,
    "!=": (value) => !isEqual(value),
    "<": (value) => value < wanted && !isEqual(value),
    "<=": (value) => value < wanted || isEqual(value),
    ">": (value) => value > wanted && !isEqual(value),
    ">=": (value) => value > wanted || isEqual(value),
  };
  return (value) => !Number.isNaN(value) && tests[operator](value);
}

function comparedMetric(list, state, name, what) {
  const metric = metricOf(list, name);
  requireTwo(list, what);
  if (!isComparable(state, metric)) throw new ConditionError(metric.problems[state.other]);
  return metric;
}

function metricTest(list, state, { name, run, operator, value, word, detail }) {
  if (run === "diff") {
    const metric = comparedMetric(list, state, name, `diff.${name}`), compare = comparison(operator, value);
    return (row) => compare(delta(state, metric, row));
  }
  const isNegated = operator === "!=";
  if (CHANGES.has(word)) {
    const metric = comparedMetric(list, state, name, `diff.${name}`), wanted = CHANGES.get(word);
    return (row) => wanted.includes(changeCode(state, metric, row)) !== isNegated;
  }
  if (PAIRS.has(word)) {
    const metric = comparedMetric(list, state, name, word), [inFirst, inLast] = PAIRS.get(word);
    const limit = detail ? readNumber(detail) : metric.right;
    if (limit === null) throw new ConditionError(`'${name}' has no best score; give a threshold, such as ${name}=both-right:0.5`);
    const isRight = (score) => (metric.higher ? score >= limit : score <= limit);
    return (row) => {
      const [first, last] = [0, state.other].map((at) => metric.runs[at]?.values[row] ?? NaN);
      const isKnown = !Number.isNaN(first) && !Number.isNaN(last);
      return (isKnown && isRight(first) === inFirst && isRight(last) === inLast) !== isNegated;
    };
  }
  const side = metricOf(list, name).runs[runNumber(list, state, run)];
  if (CODES.has(word)) {
    const wanted = CODES.get(word);
    return (row) => (wanted.includes(side ? side.status[row] : ABSENT) && (!detail || !side || reasonAt(side, row) === detail)) !== isNegated;
  }
  const compare = comparison(operator, value);
  return (row) => compare(side ? side.values[row] : NaN);
}

function causeTest(list, state, { name, run: letterOfRun, word, value }) {
  const number = runNumber(list, state, letterOfRun);
  const metrics = name ? [metricOf(list, name)] : list.metrics;
  const side = metrics.map((metric) => metric.runs[number]).find((one) => one?.causes);
  if (!side) throw new ConditionError("the causes of wrong answers are not known; `auepora rescore RUN -m failure_attribution@5` finds them");
  const names = (CAUSES.get(word) ?? [word.replaceAll("-", "_")]).filter((cause) => Object.hasOwn(side.causes, cause));
  if (!names.length) throw new ConditionError(`there is no cause '${value}'; the values are ${[...new Set([...CAUSES.keys(), ...Object.keys(side.causes)])].join(", ")}`);
  const codes = names.map((cause) => side.causes[cause]), { dropped } = list.runs[number];
  const isSplit = word === "retriever" || word === "dropped";
  return (row) => codes.includes(side.causeCodes[row]) && (!isSplit || Boolean(dropped[row]) === (word === "dropped"));
}

function labelTest(list, { name, value }) {
  const label = list.labels.find((one) => one.name === name);
  if (!label) throw new ConditionError(`the samples have no label '${name}'; the labels are ${list.labels.map((one) => one.name).join(", ") || "none"}`);
  const fits = label.groups.map((group) => group.includes(value));
  return (row) => fits[label.codes[row]];
}

/** A test of "=" for a field that has no numbers. */
function wordTest(list, state, condition) {
  const { field, run: letterOfRun, word, value } = condition;
  if (field === "label") return labelTest(list, condition);
  if (field === "id") return (row) => list.ids[row] === value;
  if (field === "cluster") return (row) => (list.clusters ?? list.ids)[row] === value;
  if (field === "cause") return causeTest(list, state, condition);
  const run = list.runs[runNumber(list, state, letterOfRun)];
  if (field === "answer") return (row) => run.answers[row] === ANSWERS.indexOf(word);
  if (word === "hit") return (row) => Number.isFinite(run.ranks[row]);
  if (word === "miss") return (row) => run.ranks[row] === Infinity;
  requireTwo(list, "hit");
  const wanted = HITS.get(word);
  return (row) => wanted.includes(list.runs[state.other].hits?.[row]);
}

/** Whether a row fulfils a condition. */
function conditionTest(list, state, condition) {
  const { field, name, operator, value, word } = condition;
  if (field === "metric") return metricTest(list, state, condition);
  if (field === "rank" || field === "seconds") {
    const run = list.runs[runNumber(list, state, condition.run)];
    if (field === "rank" && word === "none") return (row) => !Number.isNaN(run.ranks[row]) && (run.ranks[row] === Infinity) === (operator === "=");
    const values = field === "rank" ? run.ranks : secondsOf(run, name);
    const compare = comparison(operator, value);
    return (row) => Number.isFinite(values[row]) && compare(values[row]);
  }
  const test = wordTest(list, state, condition);
  return operator === "!=" ? (row) => !test(row) : test;
}

function secondsOf(run, name) {
  if ((name && name !== "end_to_end") || !run.seconds) throw new ConditionError(`a report has no timing '${name || "end_to_end"}' of run ${run.name}`);
  return run.seconds;
}

/** The words of a search; what stands in quotes is one. */
function searchTerms(text) {
  const terms = [];
  for (const [, quoted, word] of text.toLowerCase().matchAll(/"([^"]+)"|(\S+)/g)) terms.push(quoted ?? word);
  return terms;
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

/** A sort key without the sign of descending order. */
const sortKey = (sort) => sort.replace(/^-/, "");

/** The number that rows are ordered by; `null` for the order of the dataset. */
function sortValues(list, state) {
  const key = sortKey(state.sort);
  if (key === "order") return null;
  if (key === "id") return idRank(list);
  if (key === "question") return questionRank(list);
  const { field, name, run } = parseName(key);
  if (field === "rank") return list.runs[runNumber(list, state, run)].ranks;
  if (field === "seconds") return secondsOf(list.runs[runNumber(list, state, run)], name);
  if (field !== "metric") throw new ConditionError(`cannot sort by '${key}'; sort by order, id, question, rank, seconds or a metric, with - for descending`);
  if (run !== "diff") return metricOf(list, name).runs[runNumber(list, state, run)]?.values ?? null;
  const metric = comparedMetric(list, state, name, key);
  return Float64Array.from({ length: list.count }, (_, row) => delta(state, metric, row));
}

let lastOrder = { key: null, rows: null };

/** All rows in order, kept until another order is asked for. What has no value is last, whichever way the rest goes. */
function orderedRows(list, state) {
  const key = JSON.stringify([state.sort, state.other]);
  if (lastOrder.key === key) return lastOrder.rows;
  const values = sortValues(list, state);
  const rows = Uint32Array.from({ length: list.count }, (_, row) => row);
  const isDescending = state.sort.startsWith("-");
  if (!values) {
    if (isDescending) rows.reverse();
  } else {
    rows.sort((a, b) => {
      const x = values[a], y = values[b];
      if (!Number.isFinite(x) || !Number.isFinite(y)) return Number.isFinite(y) - Number.isFinite(x) || a - b;
      return (isDescending ? y - x : x - y) || a - b;
    });
  }
  lastOrder = { key, rows };
  return rows;
}

/** The rows that fit, in order. */
function listedRows(list, state, searched) {
  const tests = state.where.map((text) => conditionTest(list, state, parseCondition(text)));
  const terms = searchTerms(state.text);
  if (terms.length) tests.push((row) => terms.every((term) => searched(row).includes(term)));
  const ordered = orderedRows(list, state);
  return tests.length ? ordered.filter((row) => tests.every((test) => test(row))) : ordered;
}

// --- the address -----------------------------------------------------------------------------------------------------

/** The filter as the end of an address, with the parameters of the workbench; "" where nothing is chosen. */
function toAddress(state) {
  const parameters = new URLSearchParams();
  if (state.text) parameters.set("q", state.text);
  for (const text of state.where) parameters.append("where", text);
  if (state.sort !== "order") parameters.set("sort", state.sort);
  if (state.other !== 1) parameters.set("run", String(state.other));
  const text = parameters.toString();
  return text && `#f/${text}`;
}

function fromAddress(list, hash) {
  const state = freshState();
  if (!hash.startsWith("#f/")) return state;
  const parameters = new URLSearchParams(hash.slice(3));
  const other = Number(parameters.get("run") ?? 1);
  if (list.runs[other] && other > 0) state.other = other;
  state.text = parameters.get("q") ?? "";
  state.where = [...new Set(parameters.getAll("where").filter((text) => text.trim()))];
  state.sort = parameters.get("sort") || "order";
  return state;
}
