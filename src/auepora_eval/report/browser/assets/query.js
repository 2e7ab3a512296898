// One query: the question, what is known about it, and what each run made of it, side by side.

const MOST_DOCUMENTS = 20;
const DOCUMENT_LENGTH = 500;
const MARKS = {
  gold: ["\u25cf", "gold", "relevant by the annotation"],
  again: ["\u25cb", "gold again", "the same id stands further up; it counts once"],
  part: ["\u25d0", "same document", "another chunk of a relevant document"],
  not: ["\u2715", "not relevant", "judged not relevant"],
  "": ["\u00b7", "", "nobody judged it"],
};

function badge(shape, word, className, title = null) {
  return make("span", { class: `qb-badge ${className}`, title }, make("span", { "aria-hidden": "true" }, shape), word ? ` ${word}` : "");
}

function part(title, ...children) {
  return make("section", { class: "qb-part" }, make("h4", {}, title), children);
}

function fold(title, ...children) {
  return make("details", { class: "qb-fold" }, make("summary", {}, title), children);
}

const isEmpty = (value) => value === undefined || value === null || (typeof value === "object" && !Object.keys(value).length);

class QueryView {
  constructor(list, state) {
    this.list = list;
    this.state = state;
    this.repeats = {};
  }

  /** The runs that are shown: the only one, all side by side, or the first and the one it is compared with. */
  shown() {
    if (this.list.side_by_side) return this.list.runs.map((_, run) => run);
    return this.list.runs.length > 1 ? [0, this.state.other] : [0];
  }

  render(query, row) {
    this.query = query;
    this.row = row;
    const [sample] = query.samples;
    const runs = this.shown();
    const several = runs.length > 1;
    return make("article", { class: `qb-query ${several ? "qb-two" : "qb-one"}` },
      make("header", { class: "qb-head" },
        make("p", { class: "qb-queryid" }, named(sample.id, "", 500)),
        make("h3", { tabindex: "-1", class: "qb-asked" }, textBlock(sample.q || "(no question)", { limit: 800 })),
        this.labels(sample)),
      this.history(sample),
      this.references(sample),
      make("div", { class: "qb-body" },
        make("div", { class: "qb-sides" }, runs.map((run) => this.side(run))),
        make("div", { class: "qb-known" },
          this.metrics(),
          query.samples.map((one, at) => this.gold(one, at)),
          this.background(sample))));
  }

  labels(sample) {
    const chips = Object.entries(sample.labels ?? {}).map(([name, value]) =>
      make("li", {}, make("bdi", {}, oneLine(name, 60)), ": ", make("bdi", {}, oneLine(typeof value === "string" ? value : JSON.stringify(value), 120))));
    return chips.length ? make("ul", { class: "qb-labels", "aria-label": "Labels" }, chips) : null;
  }

  history(sample) {
    if (!sample.history?.length) return null;
    const turns = sample.history.map((turn) => typeof turn?.content === "string"
      ? make("div", { class: "qb-turn" }, make("strong", {}, oneLine(String(turn.role ?? "turn"), 40)), textBlock(turn.content))
      : jsonBlock(turn));
    return make("details", { class: "qb-fold", open: true }, make("summary", {}, `Earlier turns (${turns.length})`), turns);
  }

  references(sample) {
    if (!sample.refs?.length) return null;
    const texts = sample.refs.map((text) => make("li", {}, textBlock(text || "(empty)")));
    return part(texts.length > 1 ? "Reference answers" : "Reference answer", make("ul", { class: "qb-refs" }, texts));
  }

  background(sample) {
    const parts = [];
    if (sample.others_count) {
      parts.push(fold(`Judged not relevant (${sample.others_count})`, make("ul", { class: "qb-docs" }, sample.others.map(([id, text]) =>
        make("li", { class: "qb-doc" }, named(id, "qb-docid"), text < 0 ? null : textBlock(this.query.textOf(text), { limit: DOCUMENT_LENGTH }))))));
    }
    if (!isEmpty(sample.structured)) parts.push(fold("Structured reference", jsonBlock(sample.structured)));
    if (!isEmpty(sample.metadata)) parts.push(fold("Metadata", jsonBlock(sample.metadata)));
    if (sample.cluster !== undefined) parts.push(make("p", { class: "qb-note" }, "Belongs to ", named(sample.cluster), "."));
    return parts.length ? part("More about the question", parts) : null;
  }

  // --- metrics ---

  metrics() {
    const { list, row } = this;
    const runs = this.shown();
    if (!list.metrics.length) return part("Metrics", make("p", { class: "qb-note" }, "No metric has scores per query."));
    const skipped = (metric) => runs.every((run) => [1, ABSENT].includes(outcomeOf(metric.runs[run], row).status));
    const aside = list.metrics.filter(skipped);
    const shown = list.metrics.filter((metric) => !skipped(metric));
    return part("Metrics", shown.length ? this.metricTable(shown) : null,
      shown.some((metric) => !metric.higher) ? make("p", { class: "qb-note" }, "\u2193 lower is better") : null,
      aside.length ? fold(`${plural(aside.length, "metric does", "metrics do")} not apply`, this.metricTable(aside)) : null);
  }

  metricTable(metrics) {
    const runs = this.shown();
    const several = runs.length > 1, two = runs.length === 2;
    const heads = ["Metric", ...(several ? runs.map(letter) : ["Value"]), ...(two ? [`${letter(runs[1])} \u2212 ${letter(runs[0])}`] : [])];
    const body = make("tbody");
    let target = null;
    for (const metric of metrics) {
      if (metric.target !== target) {
        target = metric.target;
        body.append(make("tr", { class: "qb-target" }, make("th", { scope: "colgroup", colspan: String(heads.length) }, target)));
      }
      const cells = runs.map((run) => this.value(metric.runs[run]));
      if (two) cells.push(this.difference(metric));
      body.append(make("tr", {}, make("th", { scope: "row" }, metricName(metric.name), metric.higher ? null : make("span", { class: "qb-lower", title: "lower is better" }, " \u2193")), cells));
    }
    return make("div", { class: "qb-scroll" }, make("table", { class: "qb-metrics" },
      make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col" }, head)))), body));
  }

  value(side) {
    const { status, word, reason } = outcomeOf(side, this.row);
    if (status === 0) return make("td", { class: "qb-figure" }, figure(side.values[this.row]));
    const counted = side && !Number.isNaN(side.values[this.row]) ? `, counted as ${figure(side.values[this.row])}` : "";
    const text = status === ABSENT ? "\u2013" : `${word}${reason ? `: ${reason}` : ""}${counted}`;
    return make("td", { class: `qb-outcome ${status >= 2 && status !== ABSENT ? "qb-failed" : ""}` }, metricName(text));
  }

  difference(metric) {
    const change = changeOf(this.state, metric, this.row);
    const both = metric.runs[0] && metric.runs[this.state.other];
    const text = change ? signed(delta(this.state, metric, this.row)) : both && !isComparable(this.state, metric) ? "other definition" : "";
    return make("td", { class: `qb-figure qb-${change || "none"}` }, text,
      change && change !== "same" ? [` ${SHAPES[change]}`, make("span", { class: "qb-hidden" }, ` ${change}`)] : null);
  }

  // --- gold ---

  gold(sample, at) {
    const { query } = this;
    const runs = this.shown().filter((run) => query.runs[run]?.[0] === at);
    const whose = query.samples.length > 1 ? ` for ${runs.map(letter).join(", ") || "other runs"}` : "";
    if (sample.gold === null) return part(`Gold documents${whose}`, make("p", { class: "qb-note" }, "Not annotated."));
    if (!sample.gold.length) return part(`Gold documents${whose}`, make("p", { class: "qb-note" }, "Annotated: no document is relevant."));
    const items = sample.gold.map(([id, text, level, parent, span, metadata]) => {
      const ranks = runs.map((run) => {
        const output = this.output(run);
        const covered = output?.by_span?.[id]; // found at a document of another id
        const how = covered && output.docs[covered - 1][9];
        const place = covered ? covered - 1 : output?.docs?.findIndex((doc) => doc[0] === id && doc[3] !== "part") ?? -1;
        const found = place < 0 ? "not retrieved" : `rank ${place + 1}${how ? `, ${how}` : ""}`;
        return badge(place < 0 ? "\u2715" : "\u25cf", runs.length > 1 ? `${letter(run)}: ${found}` : found, place < 0 ? "qb-miss" : "qb-gold");
      });
      const known = text >= 0 ? query.textOf(text) : this.textOfId(id);
      const facts = (sample.groups ?? []).filter((ids) => ids.includes(id)).map((ids) => make("p", { class: "qb-note" }, "same fact: ", oneLine(ids.join(", "), 300)));
      return make("li", { class: "qb-doc" },
        make("div", { class: "qb-docline" }, named(id, "qb-docid"), level === 1 ? null : badge("", `level ${level}`, "qb-plain"), ranks, this.place(parent, span)), facts,
        known ? textBlock(known, { limit: DOCUMENT_LENGTH }) : make("p", { class: "qb-note" }, "Its text is not stored."),
        isEmpty(metadata) ? null : fold("Metadata", jsonBlock(metadata)));
    });
    return part(`Gold documents${whose}`, make("ul", { class: "qb-docs" }, items));
  }

  /** The text of a document as some run returned it. */
  textOfId(id) {
    for (const run of this.query.runs) {
      for (const output of run?.[1] ?? []) {
        const doc = output?.docs?.find((one) => one[0] === id && one[1] >= 0);
        if (doc) return this.query.textOf(doc[1]);
      }
    }
    return "";
  }

  place(parent, span) {
    if (!parent && !span) return null;
    return make("span", { class: "qb-place" }, parent ? ["in ", named(parent)] : null, span ? ` ${span[0]}\u2013${span[1]}` : null);
  }

  // --- what a run gave ---

  output(run) {
    return this.query.runs[run]?.[1][this.repeats[run] ?? 0] ?? null;
  }

  side(run) {
    const listed = this.list.runs[run];
    const holder = make("section", { class: "qb-side" });
    const fill = () => holder.replaceChildren(...this.sideParts(run, listed, fill).flat().filter(Boolean));
    fill();
    return holder;
  }

  sideParts(run, listed, again) {
    const stored = this.query.runs[run];
    const parts = [make("h3", { class: "qb-run" }, this.list.runs.length > 1 ? `${letter(run)}: ` : "", named(listed.name))];
    if (!stored) return [...parts, make("p", { class: "qb-note" }, "This run was not asked this query.")];
    const [, outputs, judged] = stored;
    if (outputs.length > 1) {
      const field = make("select", { "aria-label": "Which answer", onchange: () => { this.repeats[run] = Number(field.value); again(); } });
      outputs.forEach((_, at) => field.append(make("option", { value: String(at), text: `answer ${at + 1} of ${outputs.length}` })));
      field.value = String(this.repeats[run] ?? 0);
      parts.push(make("p", {}, field));
    }
    const output = this.output(run);
    if (!output) return [...parts, make("p", { class: "qb-note" }, "No answer is stored."), this.judgements(judged)];
    if (output.error !== undefined) parts.push(part("Error", make("div", { class: "qb-error" }, textBlock(output.error || "(no message)"))));
    parts.push(this.answer(output), this.citations(output), this.documents(run, output), this.judgements(judged), this.facts(output));
    return parts;
  }

  answer(output) {
    if (output.answer === undefined) return part("Answer", make("p", { class: "qb-note" }, "No answer was asked for."));
    const refused = output.refused === undefined ? null : badge(output.refused ? "\u2298" : "", output.refused ? "refused" : "", "qb-plain");
    const { support, spans = [] } = output;
    const [detected, ...others] = spans.map((one) => this.detected(output.answer, one));
    const text = output.answer === "" ? make("p", { class: "qb-note" }, "The answer is empty.") : detected ?? textBlock(output.answer, {
      marks: support ? support[2] : [], wrap: () => make("span", { class: "qb-unsupported" }), limit: 3000, className: "qb-answer",
    });
    let legend = null;
    if (support && support[1]) {
      legend = make("p", { class: "qb-legend" });
      if (support[0]) legend.append(detected ? "" : make("span", { class: "qb-unsupported" }, "like this"), `${detected ? "" : ": "}${support[0]} of ${plural(support[1], "word")} in none of the documents retrieved`);
      else legend.append(`every one of ${plural(support[1], "word")} occurs in the documents retrieved`);
    } else if (!support && output.answer && output.error === undefined) {
      legend = make("p", { class: "qb-legend" }, "the documents have no text, so words cannot be looked up in them");
    }
    return part("Answer", refused, text, legend, others.map((one, at) => fold(`Marked by ${oneLine(spans[at + 1][0], 200)}`, one)), this.sentences(output),
      isEmpty(output.structured) ? null : fold("Structured answer", jsonBlock(output.structured)),
      isEmpty(output.answer_metadata) ? null : fold("Metadata of the answer", jsonBlock(output.answer_metadata)));
  }

  /** The answer with the spans that a metric marks, and what they are. */
  detected(answer, [metric, marks]) {
    const wrap = ([, , probability]) => make("mark", { class: "qb-detected", title: `probability ${figure(probability)}` });
    return [textBlock(answer, { marks, wrap, limit: 3000, className: "qb-answer" }),
      make("p", { class: "qb-legend" }, make("mark", { class: "qb-detected" }, "like this"), `: ${plural(marks.length, "span")} called unsupported by `, metricName(metric))];
  }

  cited(output, id) {
    const place = output.docs.findIndex((doc) => doc[0] === id);
    return make("li", {}, named(String(id), "qb-docid"), place < 0 ? badge("\u2715", "not retrieved", "qb-miss") : badge("", `rank ${place + 1}`, "qb-plain"));
  }

  citations(output) {
    if (output.citations === undefined) return null;
    if (!output.citations.length) return part("Citations", make("p", { class: "qb-note" }, "None given."));
    return part("Citations", make("ul", { class: "qb-cited" }, output.citations.map((id) => this.cited(output, id))));
  }

  sentences(output) {
    if (!output.sentences?.length) return null;
    return fold(`Sentences with citations (${output.sentences.length})`, make("ol", { class: "qb-sentences" }, output.sentences.map((one) =>
      make("li", {}, textBlock(String(one.text ?? "")), make("ul", { class: "qb-cited" }, (one.citations ?? []).map((id) => this.cited(output, id)))))));
  }

  documents(run, output) {
    if (output.unsaid) return part("Retrieved documents", make("p", { class: "qb-note" }, "Nothing is known of what was retrieved."));
    const docs = output.docs;
    if (!docs.length) return part("Retrieved documents", make("p", { class: "qb-note" }, "Nothing was retrieved."));
    const before = run > 0 && this.list.runs.length > 1 ? this.output(0) : null;
    const earlier = before && !before.unsaid && before.error === undefined ? new Map() : null;
    if (earlier) before.docs.forEach((doc, at) => { if (!earlier.has(doc[0])) earlier.set(doc[0], at + 1); });
    const cited = new Set([...(output.citations ?? []), ...(output.sentences ?? []).flatMap((one) => one.citations ?? [])]);
    const listed = make("ol", { class: "qb-docs" });
    const add = (from, to) => listed.append(...docs.slice(from, to).map((doc, at) => this.document(doc, from + at + 1, earlier, cited)));
    add(0, MOST_DOCUMENTS);
    const rest = docs.length - MOST_DOCUMENTS;
    const more = rest > 0 ? make("button", { type: "button", class: "qb-more", onclick: () => { add(MOST_DOCUMENTS, docs.length); more.remove(); } }, `show ${rest} more`) : null;
    return part(`Retrieved documents (${docs.length})`, listed, more);
  }

  document([id, text, score, mark = "", level, parent, span, passages, metadata, how], rank, earlier, cited) {
    const [shape, word, title] = MARKS[mark];
    const label = `${word}${how ? ` ${how}` : ""}${level !== undefined && level !== null && level > 1 ? `, level ${level}` : ""}`;
    const line = make("div", { class: "qb-docline" },
      make("span", { class: "qb-rank" }, `${rank}.`), badge(shape, label, `qb-mark qb-${mark || "unjudged"}`, title), named(id, "qb-docid"),
      typeof score === "number" ? make("span", { class: "qb-score" }, `score ${figure(score)}`) : null,
      cited.has(id) ? badge("\u275d", "cited", "qb-plain") : null,
      earlier ? this.moved(id, rank, earlier) : null, this.place(parent, span));
    let body = make("p", { class: "qb-note" }, "Its text is not stored.");
    if (text >= 0) {
      const content = this.query.textOf(text);
      const end = passages?.length ? Math.min(passages.at(-1)[1], 4000) : 0;
      body = textBlock(content, { marks: passages ?? [], wrap: () => make("mark", { class: "qb-passage" }), limit: Math.max(DOCUMENT_LENGTH, end) });
    }
    return make("li", { class: `qb-doc qb-is-${mark || "unjudged"}` }, line, body,
      passages?.length ? make("p", { class: "qb-legend" }, make("mark", { class: "qb-passage" }, "marked"), " what the annotation points at") : null,
      isEmpty(metadata) ? null : fold("Metadata", jsonBlock(metadata)));
  }

  moved(id, rank, earlier) {
    const was = earlier.get(id);
    if (was === undefined) return badge("+", "new", "qb-plain", "not retrieved in A");
    if (was === rank) return badge("=", "", "qb-plain", "at the same rank in A");
    return badge(was > rank ? "\u2191" : "\u2193", `from ${was}`, "qb-plain", `rank ${was} in A`);
  }

  judgements(judged) {
    if (!judged?.length) return null;
    return part("Judges", judged.map((one) => {
      const times = [one.repeat ? `answer ${one.repeat + 1}` : "", one.again ? `judgement ${one.again + 1}` : ""].filter(Boolean).join(", ");
      return make("div", { class: "qb-judgement" },
        make("p", { class: "qb-judge" }, named(one.metric), one.critic ? [" by ", named(one.critic)] : null, times ? ` (${times})` : null,
          one.old ? badge("\u21ba", "earlier definition", "qb-plain", "said when the metric was defined otherwise; the value above does not come from it") : null),
        one.failed ? make("p", { class: "qb-failed" }, `failed: ${oneLine(one.failed)}`) : null,
        one.answer === undefined ? null : findings(one.answer),
        one.message ? textBlock(one.message) : null,
        one.raw ? fold("What it said", jsonBlock(one.raw)) : null);
    }));
  }

  facts(output) {
    const rows = Object.entries(output.timings ?? {}).filter(([name]) => name !== "started")
      .map(([name, value]) => [name, typeof value === "number" ? seconds(value) : String(value)]);
    for (const [name, value] of Object.entries(output.usage ?? {})) rows.push([name, typeof value === "number" ? figure(value) : JSON.stringify(value)]);
    const parts = [];
    if (rows.length) {
      parts.push(part("Time and usage", make("dl", { class: "qb-facts" }, rows.map(([name, value]) =>
        [make("dt", {}, named(name)), make("dd", {}, make("bdi", {}, oneLine(value, 200)))]))));
    }
    if (output.steps?.length) {
      parts.push(fold(`Steps (${output.steps.length})`, make("ol", { class: "qb-steps" }, output.steps.map((step) => {
        const { query, ...rest } = typeof step === "object" && step !== null ? step : { value: step };
        return make("li", {}, typeof query === "string" ? textBlock(query) : null, isEmpty(rest) ? null : jsonBlock(rest));
      }))));
    }
    if (!isEmpty(output.extra)) parts.push(fold("Extra", jsonBlock(output.extra)));
    return parts;
  }
}

const BRIEF = 60;
const MOST_FINDINGS = 200;

/** What a judge said, as names and values: brief ones in a line, reasons as text, lists one below the other. */
function findings(value, depth = 0) {
  if (Array.isArray(value) && depth < 4) {
    const rest = value.length - MOST_FINDINGS;
    return [make("ol", { class: "qb-findings" }, value.slice(0, MOST_FINDINGS).map((one) => make("li", {}, findings(one, depth + 1)))),
      rest > 0 ? make("p", { class: "qb-note" }, `and ${rest} more`) : null];
  }
  if (typeof value !== "object" || value === null) return textBlock(String(value));
  if (depth >= 4) return jsonBlock(value);
  const entries = Object.entries(value).filter(([, inner]) => inner !== null && inner !== "");
  const isBrief = ([name, inner]) => typeof inner !== "object" && !REASONS.includes(name) && String(inner).length <= BRIEF;
  const chips = entries.filter(isBrief).map(([name, inner]) =>
    make("li", {}, make("bdi", {}, oneLine(name, BRIEF)), ": ", make("bdi", {}, oneLine(String(inner), BRIEF))));
  const others = entries.filter((one) => !isBrief(one)).map(([name, inner]) => REASONS.includes(name) && typeof inner === "string"
    ? textBlock(inner, { className: "qb-rationale" })
    : [make("p", { class: "qb-finding" }, make("bdi", {}, oneLine(name, BRIEF))), findings(inner, depth + 1)]);
  return [chips.length ? make("ul", { class: "qb-labels" }, chips) : null, others];
}

const REASONS = ["rationale", "reason", "why", "explanation"];

function seconds(value) {
  return value < 0.0995 ? `${Number((value * 1000).toPrecision(3))} ms` : `${Number(value.toPrecision(4))} s`;
}
