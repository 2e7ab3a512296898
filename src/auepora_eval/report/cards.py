"""Metric cards: formula, options, samples and interval."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from ..core.conventions import Conventions, Signature
from ..core.derivation import format_number
from ..core.metrics_base import BatchMetric, Metric
from ..core.registry import MetricInfo, metric_info, metric_infos
from ..core.results import display_name, judged_coverage, panel_note, to_json_value
from ..core.scores import NOT_JUDGED, Scores, Status
from ..core.targets import TARGETS
from ..core.types import MetricResult, TargetCategory
from ..errors import AueporaError
from ..judge.prompting import built_in_prompt
from ..options import describe_type, option_types
from ..render.terminal import plain_math


@dataclass(frozen=True, slots=True)
class MetricCard:
    """The description of a metric."""

    name: str
    pattern: str
    summary: str
    formula: str
    text: tuple[str, ...]
    """The paragraphs of the explanation."""
    target: TargetCategory | None
    range: tuple[float, float] | None
    higher_is_better: bool | None
    options: dict[str, str]
    skips: dict[str, str]
    failures: str
    reference: str
    follows_base: bool = False
    """Whether target, range and direction are those of its base metric, which is an option."""
    prompts: tuple[tuple[str, str], ...] = ()
    """The prompts of a judged metric: name, version and digest, and the template."""

    @property
    def range_text(self) -> str:
        """The range as an interval."""
        if self.range is None:
            return "that of the other metric" if self.follows_base else "not declared"
        low, high = self.range
        lower = "(−∞" if math.isinf(low) else f"[{low:g}"
        upper = "∞)" if math.isinf(high) else f"{high:g}]"
        return f"{lower}, {upper}"

    @property
    def option_types(self) -> dict[str, str]:
        """The declared type, range or choices of each option in words; empty where any value is accepted."""
        hints = option_types(metric_info(self.name).cls)
        return {name: describe_type(hints.get(name, Any)) for name in self.options}

    @property
    def direction(self) -> str:
        """Which way is better."""
        if self.higher_is_better is None and self.follows_base:
            return "as there"
        return {True: "higher is better", False: "lower is better", None: "not declared"}[self.higher_is_better]

    def to_text(self) -> str:
        """The card for a terminal."""
        lines = [self.pattern, "", self.summary]
        if self.formula:
            lines += ["", f"    {plain_math(self.formula)}"]
        for paragraph in self.text:
            lines += ["", paragraph]
        lines += [""]
        lines += [f"{label}: {value}" for label, value in self.facts()]
        if self.options:
            types = {name: f"  ({text})" if text else "" for name, text in self.option_types.items()}
            lines += ["", "Options:", *(f"  {name} = {self.options[name]}{text}" for name, text in types.items())]
        if self.skips:
            lines += ["", "Skips a sample where:", *(f"  {reason}: {why}" for reason, why in self.skips.items())]
        for prompt_id, prompt in self.prompts:
            lines += ["", f"Prompt {prompt_id}:", *(f"  {line}".rstrip() for line in prompt.splitlines())]
        return "\n".join(lines)

    def facts(self) -> list[tuple[str, str]]:
        """Target, range, rule for failures and reference, each with its label."""
        facts = []
        if self.target is not None:
            facts.append(("Target", f"{self.target.name} ({TARGETS[self.target].pair})"))
        elif self.follows_base:
            facts.append(("Target", "that of the other metric"))
        facts += [("Range", f"{self.range_text}, {self.direction}"), ("A failed answer", self.failures)]
        if self.reference:
            facts.append(("Reference", self.reference))
        return facts


def metric_cards() -> list[MetricCard]:
    """The cards of all registered metrics."""
    return [metric_card(info) for info in metric_infos().values()]


def metric_card(info: MetricInfo) -> MetricCard:
    """The card of one metric."""
    cls = info.cls
    # Without a docstring of its own a dataclass shows its signature, which explains nothing.
    document = inspect.cleandoc(vars(cls).get("__doc__") or "")
    summary, formula, text = _parse_docstring(document)
    scored = issubclass(cls, BatchMetric)
    options = {
        name: "required" if parameter.default is inspect.Parameter.empty else repr(parameter.default)
        for name, parameter in info.options.items()
    }
    follows_base = info.metadata.follows_base
    span = _declared_range(info) if scored else getattr(cls, "range", None)
    prompts = [built_in_prompt(name) for name in info.metadata.prompt_names]
    return MetricCard(
        name=info.name,
        pattern=info.pattern,
        summary=summary,
        formula=formula,
        text=text,
        target=getattr(cls, "target", None),
        range=None if follows_base else span,
        higher_is_better=None if follows_base else getattr(cls, "higher_is_better", None),
        options=options,
        skips=dict(info.metadata.skip_reasons),
        failures=_failure_rule(info),
        reference=info.metadata.reference,
        follows_base=follows_base,
        prompts=tuple((prompt.id, prompt.text) for prompt in prompts),
    )


def _declared_range(info: MetricInfo) -> tuple[float, float] | None:
    """The range with default options; the range may depend on them."""
    required = {n: 5 for n, p in info.options.items() if p.default is inspect.Parameter.empty and n == info.at}
    with suppress(TypeError):
        return getattr(info.cls(**required), "range", None)
    return getattr(info.cls, "range", None)


def _failure_rule(info: MetricInfo) -> str:
    if not issubclass(info.cls, BatchMetric):
        return "not declared"
    if info.cls.metadata.failure_note:
        return info.cls.metadata.failure_note
    if not info.cls.metadata.counts_system_failures:
        return "leaves the mean"
    return "counts at the worst value"


def _parse_docstring(document: str) -> tuple[str, str, tuple[str, ...]]:
    """Summary, formula and further paragraphs of a docstring."""
    paragraphs = [" ".join(part.split()) for part in document.split("\n\n") if part.strip()]
    formula = next((p.removeprefix(".. math::").strip() for p in paragraphs if p.startswith(".. math::")), "")
    text = [p for p in paragraphs if not p.startswith(".. math::")]
    return (text[0] if text else ""), formula, tuple(text[1:])


# --- descriptions of signature options, outcomes, intervals and reducers ---------------------------------------------

OPTIONS: dict[str, str] = {
    "v": "the version of its definition",
    "of": "the metric that says which answers pass",
    "at_least": "the score from which on an answer passes",
    "prices": "a hash of the prices of models for a million tokens",
    "tokenizer": "how texts are cut into tokens",
    "ap:hits": "average precision divides by the hits within k, so that it ignores recall",
    "ap:capped": "average precision divides by min(|G|, k)",
    "ap:gold": "average precision divides by |G|, all that is relevant, as trec_eval does",
    "p:returned": "precision divides by the positions returned, k at most",
    "p:k": "precision divides by k itself, however few were returned",
    "p": "a reader goes on to the next position with this probability",
    "empty:skip": "a query with nothing relevant is left out",
    "empty:zero": "a query with nothing relevant scores 0",
    "empty:judged": "a query with nothing relevant scores 0 if it was judged at all, else it is left out",
    "gain:binary": "a relevant document gains 1, whatever its level",
    "gain:exponential": "a document gains 2^level − 1",
    "gain:linear": "a document gains its level",
    "ties:average": "neighbours with equal scores share their gains",
    "rel": "a document is relevant from this level on",
    "depth": "every ranking is cut here before anything is computed",
    "k:eff": "a cut-off is as deep as the list can fill: min(k, returned)",
    "k": "so many of the returned documents are looked at",
    "cut": "the list is cut here, though the name does not say it",
    "top_k": "so many documents were asked for",
    "gold": "the gold in place of that of the dataset: a qrels file, human grades, or corrections (`auepora gold`)",
    "match:span": "gold is found where retrieved chunks together contain enough of its span in the same document",
    "match:text": "gold is found where retrieved chunks together contain enough of its text",
    "match:parent": "gold is found at the first chunk of its document",
    "match": "what gold and retrieved documents are compared by",
    "groups:yes": "gold documents that contain the same fact count once, at the first of them",
    "max": "the highest level there can be",
    "missing:skip": "a sample without output is left out",
    "missing:zero": "a sample without output counts as nothing returned",
    "failed:exclude": "a failed answer leaves the mean",
    "norm:squad": "compared without case, ASCII punctuation, articles and extra white space, as SQuAD's script does",
    "norm:lower": "compared without case",
    "norm:none": "compared letter by letter",
    "norm:nq": "compared as NQ-open's script does: accents are letters of their own",
    "norm:trivia": "compared as TriviaQA's script does: punctuation becomes a blank",
    "norm:no_blanks": "compared without blanks and line ends",
    "norm:popqa": "the reference is looked for as written, in lower case and capitalised; the answer keeps its case",
    "slots:mean": "the proportion of the things to be named",
    "both_empty": "the value where neither side has a word",
    "closed": "answers that match only themselves",
    "drop": "tokens that this text contains do not count",
    "contains": "gold is found as a text inside a chunk, both normalised like this",
    "new_gold:yes": "each rank adds its new gold texts over the rank; divided by min(|G|, k)",
    "discount:none": "gains count alike at every rank",
    "case:yes": "case matters",
    "norm": "these are ignored when texts are compared",
    "tok:13a": "tokens by the rules of mteval-v13a, as sacrebleu cuts them",
    "tok:rouge_score": "tokens are runs of a–z and 0–9 in lower case, as the rouge-score package has it",
    "tok:unicode": "tokens are runs of letters and digits of any script",
    "tok": "how texts are cut into tokens",
    "stem:porter": "words longer than three letters are stemmed (Porter)",
    "stem:none": "words are not stemmed",
    "case:mixed": "case matters",
    "case:lc": "texts are put in lower case first",
    "order": "n-grams of up to so many words",
    "smooth": "how an order without any match is smoothed",
    "nc": "n-grams of up to so many characters",
    "nw": "n-grams of up to so many words as well",
    "beta": "how much a miss, or recall, weighs",
    "space:no": "white space is left out",
    "space:yes": "white space counts as characters",
    "n": "n-grams of so many words",
    "evidence:retrieved": "the evidence is what was retrieved",
    "evidence:relevant": "the evidence is the relevant documents",
    "evidence:joined": "the documents are read together, as one text",
    "evidence:each": "the documents are read one by one, and one of them must do alone",
    "evidence": "what the model reads at a time",
    "claims:sentences": "every sentence is taken for a claim",
    "claims": "what lists the claims: name, version, digest of the prompt",
    "support": "what checks statements: name, version, digest of the prompt",
    "verifier": "who checks statements in the judge's place",
    "citations": "where citations are looked for",
    "at_most": "so many citations of a sentence are looked at",
    "judged:first": "the first citation of a sentence counts",
    "judged:all": "all citations of a sentence count, by their mean",
    "references": "whether one of several references suffices (any), or the answer must give all of them",
    "tolerance": "by what proportion a quantity may differ from that of the reference",
    "per_item": "each item of a rubric is judged in a question of its own",
    "variant": "which nuggets count, and what is there in part",
    "at_a_time": "so many nuggets are judged in one question",
    "against:reference": "documents should be useful for the reference answer",
    "against:answer": "documents should be useful for the answer that was given",
    "noise:both": "wrong claims from any document count",
    "noise:relevant": "wrong claims from relevant documents count",
    "noise:irrelevant": "wrong claims from irrelevant documents count",
    "corpus:retrieved": "known are the documents retrieved for the sample",
    "corpus": "known are the documents of the corpus given, or so many there are",
    "refusal": "what tells a refusal from an answer",
    "phrases": "phrases of a refusal are found as whole words (`word`) or anywhere (`substring`)",
    "concurrency": "so many requests were in flight at once",
    "timing": "which timing",
    "by:latency": "from the time each answer took",
    "by:clock": "from when each request began and ended",
    "by": "who wrote the metric",
    "vectors:metadata": "vectors stand with the documents",
    "vectors:words": "a text is the vector of how often each word occurs in it",
    "vectors": "what makes the vectors",
    "embed": "what makes the vectors",
    "model": "the model that was asked",
    "precision": "how exactly the model computes",
    "to:query": "answers are compared to the query, not to a reference",
    "critic": "who judges",
    "inputs": "what the judge is shown",
    "prompt": "what the judge is asked: name, version, digest",
    "scale": "between which numbers the judge answers, the worst first",
    "rationale:no": "the judge is not asked for its reasons",
    "dimensions": "what is judged apart",
    "aggregation:mean": "the dimensions' mean",
    "aggregation:min": "the weakest dimension",
    "aggregation:weighted": "the dimensions' mean by weight",
    "weights": "how much each dimension weighs",
    "fa:returned": "false alarms are counted among what was returned",
    "fa:collection": "false alarms are counted among all that is not relevant in the collection",
    "form:query": "averaged over queries",
    "form:program": "misses are averaged over queries with gold, false alarms over all, and then put together",
    "field": "which field holds the label",
    "fields": "which fields are compared",
    "schema": "the samples' own schema, or the digest of the one given",
    "cues": "phrases by which an answer says that documents are wrong",
    "over": "among which samples",
    "threshold": "right is a score of at least this",
    "from": "from where on it counts",
    "insufficient": "what becomes of an answer that says that information is insufficient",
    "noise": "scenarios that count as noise",
    "scenarios": "scenarios looked at",
    "base_set:pairs": "held against the base of each noisy sample",
    "base_set:all": "held against all samples without noise",
    "where": "which samples are asked for",
    "value": "which variant the value is",
    "base": "the metric this one is over",
    "similarity": "what compares the two answers",
    "correct": "what tells right from wrong",
    "faithfulness": "what tells whether an answer is borne out",
    "hit": "what a hit is",
    "given": "what a hit is",
    "against": "what the documents are held against",
    "noncommittal": "what becomes of an answer that commits itself to nothing",
    "judged": "which of the cited documents are judged",
}
"""The meaning of an option, by ``key:value`` where the value matters, else by key."""

REASONS: dict[str, str] = {
    NOT_JUDGED: "the judge was not asked about the sample",
    "missing_output": "there is no output for the sample",
    "no_response": "no answer was asked for",
    "timeout": "the system did not answer in time",
    "error": "the system reported an error",
    "raised": "the system raised an error",
    "not_a_number": "the metric gave something that is not a finite number",
    "invalid_sample": "a person marked the sample as invalid",
    "match": "the metric compares ids of chunks, and gold is not matched by id",
    "one_failed": "the system failed on the sample, or on its base",
    "base_failed": "the base of the sample failed, so that there is nothing to hold it against",
    "bad_timing": "the timing is negative or no number",
    "bad_citations": "the citations are not a list of ids",
    "bad_nuggets": "the nuggets are not a list of statements, each vital or okay",
    "bad_reference": "the reference is not of the form that is needed",
    "bad_expectation": "what the sample expects is not of the form that is needed",
    "bad_answerable": "the mark `answerable` is neither true nor false",
    "unparseable": "the judge's answer could not be read",
}
"""Reasons that a metric's own page does not explain."""

REASON_HINTS: dict[str, str] = {
    "invalid_sample": "`auepora gold list` shows who marked it, and why",
    NOT_JUDGED: "after an early stop, `auepora rescore RUN --continue-judging` judges the rest",
    "no_gold": "annotate `relevant_docs` for the sample ([] if nothing is relevant)",
    "unresolved_gold": "give the gold documents a span, a text of at least ten words, or an id",
    "match": "`--match id` compares ids, which are those of chunks",
    "empty_gold": "conventions with `empty_gold: zero` count such queries as 0",
    "no_reference": "give the sample a `reference_answer`",
    "empty_reference": "give the sample a reference answer with a word in it",
    "no_response": "let the system answer: the output needs a `response`",
    "no_candidates": "give the sample `candidate_docs`, or judgements below `min_relevance`",
    "no_text": "let the system return the texts of its documents, not only their ids",
    "no_citations": "let the system say what it cites: `citations`, or those of `response.sentences`",
    "no_timing": "let the system report this timing",
    "no_start": "let the system report when each request began: `timings.started`",
    "no_noise_ratio": "mark the sample with `labels.noise_ratio`",
    "no_base": "add the sample named in `labels.variant_of` to the dataset",
    "not_a_variant": "mark variants with `labels.variant_of` and `labels.scenario`",
    "no_label": "give the expected label: `reference_answer.structured` or `labels`",
    "no_fields": "give the reference answer a structured form",
    "no_schema": "give a schema, as an option or in `metadata.output_schema`",
    "no_expectation": "give the sample `metadata.expected_doc_ids`",
    "no_false_documents": "mark samples with false documents by `metadata.wrong_answer`",
    "no_wrong_answer": "give the sample `metadata.wrong_answer`",
    "missing_output": "ask the system for this sample: `auepora run PLAN --resume`",
}
"""What would make a skipped sample scorable, by reason."""

INTERVALS = {
    "wilson": "Wilson's interval of a share",
    "t": "Student's t from the spread of the samples",
    "bootstrap": "drawing samples anew, 10,000 times",
    "all_equal": "all scores are equal: how far one other sample could move their mean",
    "newcombe": "Newcombe's interval of a difference of shares",
    "fieller": "Fieller's interval of a ratio",
}
FLAGS = {
    "few": "few samples: it may be too narrow",
    "skewed": "the scores are skewed: it may be too narrow",
    "unbounded": "nothing seen bounds it on one side",
    "unstable": "some draws have no value",
}
REDUCERS = {
    "mean": "the mean of the samples' scores",
    "bleu": "BLEU of the counts of all answers added up, not a mean of scores",
    "chrf": "chrF of the counts of all answers added up, not a mean of scores",
    "quantile": "the score that this share of all scores does not exceed, not a mean",
    "ratio": "the noisy side's number over the base side's, not a mean of scores",
    "distinct": "different n-grams over n-grams of all answers together, not a mean of scores",
    "set_f1": "F1 of two sets of samples, refused and unanswerable, not a mean of scores",
    "answer_rate": "answers over the seconds they took, not a mean of scores",
    "clock_rate": "answers over the time from the first start to the last end, not a mean of scores",
    "aqwv_program": "1 − mean P_miss − β · mean P_FA, not a mean of scores",
    "compute": "what the metric makes of all samples at once",
    "cost_per_correct": "the cost of all answers over the number of right ones, not a mean of scores",
}


def describe_option(key: str, value: str, own_help: Mapping[str, str]) -> str:
    """The meaning of a signature option; options of a base metric are named ``base.norm`` and so on."""
    role, _, inner = key.rpartition(".")
    for words in (own_help, OPTIONS):
        for name in (f"{inner}:{value}", inner):
            if name in words:
                return f"{words[name]} (for `{role}`)" if role else words[name]
    return f"an option of `{role}`" if role else "an option of the metric"


def describe_convention(conventions: Conventions | None) -> str:
    """The conventions in force, with their changes."""
    if conventions is None:
        return "not known"
    changes = [f"{key} {value}" for key, value in conventions.changes().items()]
    schools = {
        "auepora": "the framework's own",
        "paper": "as papers report it",
        "paper-positives": "as papers report it, over queries with gold",
        "golden": "as golden sets are scored",
        "client": "as the client reports it",
        "trec": "as trec_eval computes it",
    }
    words = f"{conventions.name} ({schools[conventions.name]})" if conventions.name in schools else conventions.name
    return words + (f", with {', '.join(changes)}" if changes else "")


def describe_reducer(name: str) -> str:
    """How scores are reduced to the value."""
    head, bracket, rest = name.partition("[")
    words = REDUCERS.get(head, name)
    return f"{words} ({rest.removesuffix(']')})" if bracket and head == "quantile" else words


def describe_reason(reason: str, own_help: Mapping[str, str]) -> str:
    """Why a sample has no score, or failed."""
    return own_help.get(reason) or REASONS.get(reason) or reason.replace("_", " ")


# --- cards of results: formula, options, samples and interval of a value, as plain data ------------------------------


@dataclass(frozen=True, slots=True)
class OptionInfo:
    """One option of a signature with its description."""

    key: str
    value: str
    words: str


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """The number of samples with one skip or failure reason."""

    reason: str
    count: int
    words: str
    needed: str | None = None
    """What would make the samples scorable."""


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """The numbers of samples by outcome."""

    total: int
    counted: int
    """How many are in the value."""
    scored: int
    skipped: int
    system_failed: int
    measure_failed: int
    skips: tuple[ReasonCount, ...] = ()
    failures: tuple[ReasonCount, ...] = ()
    failed_counts_as: float | None = None
    """The score of a failed answer; ``None`` where it is excluded."""


@dataclass(frozen=True, slots=True)
class IntervalInfo:
    """The confidence interval and its method."""

    low: float
    high: float
    method: str
    words: str
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """The card of a result. Texts are plain; the renderer escapes them."""

    name: str
    title: str
    target: str
    target_title: str
    question: str
    """What the target asks."""
    summary: str
    formula: str
    """In plain characters; empty where the metric gives none."""
    latex: str
    text: tuple[str, ...]
    """Further paragraphs."""
    convention: str
    choices: tuple[OptionInfo, ...]
    signature: str | None
    range: tuple[float | None, float | None] | None
    """``None`` for an end that is infinite."""
    range_text: str
    direction: str
    reducer: str
    failure: str
    """How a failed answer is counted."""
    reference: str
    value: float | None
    value_completed: float | None
    """The value without the samples on which the system failed."""
    bounds: tuple[float, float] | None
    """The bounds of the value if every measurement had succeeded."""
    interval: IntervalInfo | None
    samples: SampleCounts | None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The card as a JSON-compatible dictionary."""
        return dict(to_json_value(asdict(self)))


_UNKNOWN_METRIC = MetricCard(
    name="",
    pattern="",
    summary="A metric that is not known in this process.",
    formula="",
    text=(),
    target=None,
    range=None,
    higher_is_better=None,
    options={},
    skips={},
    failures="",
    reference="",
)


def card(result: MetricResult, metric: Metric | None = None) -> Card:
    """The card of a result; ``metric`` is looked up by name where it is not given."""
    signature = _signature(result)
    info = _info(result, signature, metric)
    reference_card = metric_card(info) if info is not None else _UNKNOWN_METRIC
    built = metric if isinstance(metric, BatchMetric) else None
    target, own_help = TARGETS[result.target], built.metadata.option_help if built is not None else {}
    value_range = built.range if built is not None else reference_card.range
    higher = built.higher_is_better if built is not None else reference_card.higher_is_better
    undirected = built is not None and not built.metadata.has_direction
    if higher is None and result.details.lower_is_better:
        higher = False
    bounds = result.details.bounds
    formula = getattr(built, "scale_formula", None) or reference_card.formula
    return Card(
        name=result.name,
        title=display_name(result),
        target=result.target.name,
        target_title=target.title,
        question=target.question,
        summary=reference_card.summary,
        formula=plain_math(formula) if formula else "",
        latex=formula,
        text=reference_card.text,
        convention=describe_convention(built.active_conventions if built is not None else None),
        choices=tuple(
            OptionInfo(key, value, describe_option(key, value, own_help))
            for key, value in ({} if signature is None else signature.options).items()
        ),
        signature=result.signature,
        range=None if value_range is None else tuple(map(to_json_value, value_range)),
        range_text="not declared" if value_range is None else "from {} to {}".format(*map(_end_text, value_range)),
        direction="neither end is better"
        if undirected
        else {True: "higher is better", False: "lower is better", None: "not declared"}[higher],
        reducer="not known" if built is None else describe_reducer(built.reducer.name),
        failure=reference_card.failures,
        reference=reference_card.reference,
        value=result.known_value,
        value_completed=result.details.value_completed,
        bounds=None if bounds is None else (float(bounds[0]), float(bounds[1])),
        interval=_interval(result),
        samples=_samples(result, built),
        notes=_notes(result),
    )


def _signature(result: MetricResult) -> Signature | None:
    try:
        return None if result.signature is None else Signature.parse(result.signature)
    except AueporaError:  # a user's own metric may write anything there
        return None


def _info(result: MetricResult, signature: Signature | None, metric: Metric | None) -> MetricInfo | None:
    named = getattr(type(metric), "registered_as", None) if metric is not None else None
    if metric is not None and named is None:
        return MetricInfo(result.name, type(metric))
    for name in (named, None if signature is None else signature.name, result.name):
        try:
            if name is not None:
                return metric_info(name)
        except AueporaError:
            continue
    return None


def _end_text(end: float) -> str:
    return f"{end:g}".replace("-inf", "−∞").replace("inf", "∞")


def _interval(result: MetricResult) -> IntervalInfo | None:
    if result.interval is None or not result.defined:
        return None
    stored = result.details.interval
    method = stored.method or "not known"
    words = INTERVALS.get(method, method)
    if stored.units:
        unit = "samples" if stored.units == result.details.num_samples else "clusters of samples"
        words += f", over {stored.units} {unit}"
    flags = tuple(FLAGS.get(flag, flag) for flag in stored.flags)
    return IntervalInfo(*result.interval, method, words, flags)


def _samples(result: MetricResult, built: BatchMetric | None) -> SampleCounts | None:
    details = result.details
    if not details.counts_outcomes:
        return None
    skip_reasons = {} if built is None else built.metadata.skip_reasons
    failed: list[float] = []
    if isinstance(result.scores, Scores):
        failed = result.scores.values[result.scores.status == Status.SYSTEM_FAILED].tolist()
    return SampleCounts(
        total=details.num_outcomes,
        counted=details.num_samples,
        scored=details.num_scored,
        skipped=details.num_skipped,
        system_failed=details.num_system_failed,
        measure_failed=details.num_measure_failed,
        skips=_reasons(details.reasons("skipped"), skip_reasons),
        failures=_reasons(details.reasons("failed"), skip_reasons),
        failed_counts_as=next((score for score in failed if not math.isnan(score)), None),
    )


def _reasons(counts: Mapping[str, int], skip_reasons: Any) -> tuple[ReasonCount, ...]:
    return tuple(
        ReasonCount(reason, count, describe_reason(reason, skip_reasons), REASON_HINTS.get(reason))
        for reason, count in counts.items()
    )


def _notes(result: MetricResult) -> tuple[str, ...]:
    notes = []
    if not result.defined:
        notes.append(f"There is no value: {result.details.undefined_because or 'no sample is in it'}")
    if result.details.value_all_base is not None and result.details.base_score_all is not None:
        base = format_number(result.details.base_score_all)
        number = format_number(result.details.value_all_base)
        notes.append(f"Over all samples that are no variants the base metric is {base}, and the ratio to it {number}")
    repeats = result.details.repeats.count
    if repeats > 1:
        notes.append(f"Every sample was asked {repeats} times; its score is the mean over them")
    return (*notes, *filter(None, [judged_coverage(result), panel_note(result)]))
