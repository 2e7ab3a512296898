"""Controls of judges: items whose verdict is known, built from the dataset and mixed unmarked among the judged ones."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..core.batch import Batch
from ..core.metrics_base import precheck
from ..core.scores import Scores, Status
from ..core.types import Document, EvaluationSample, MetricResult, Response, RetrievedDocument, SystemOutputs
from ..errors import BadOptionError, did_you_mean
from ..stats.difference import newcombe_interval
from ..stats.intervals import Ints, wilson_interval
from ..text.refusal import built_in_patterns, is_refusal
from ..text.tokenizers import STOP_WORDS
from .critic import JudgeClient
from .metric import JudgedMetric, control_kinds, judge_batch, outcome_key

SOURCE_SAMPLES = 1024
"""Controls are built from this many samples at the beginning of the dataset, so that a stream can have them, too."""
MAX_FALSE_ACCEPTS = 0.2
"""A judge that accepts a larger proportion of the items it must reject is not usable."""
REFUSAL = "I cannot answer this question with the information I have."
_MIN_WORDS = 3
"""An answer of another question with fewer words may pass as one to many questions, so longer ones are preferred."""

_EXPECTED = {True: "accept", False: "reject"}

# --- facts in a text: dates, years, numbers and names, each replaced by another one of its kind ----------------------

_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_DATE = rf"\d{{4}}-\d\d-\d\d|(?:\d{{1,2}} )?(?:{_MONTHS})(?: \d{{1,2}})?,? \d{{4}}"
_YEAR = r"1\d{3}|20\d\d"
_NUMBER = r"\d+(?:[.,]\d+)*"
_CAPITALISED = r"[^\W\d_a-z][\w'’-]*"
_PARTICLES = ("of", "the", "and", "da", "de", "del", "der", "di", "du", "la", "le", "van", "von", "bin", "al")
_FACT = re.compile(
    rf"(?<![\w.,-])(?:(?P<date>{_DATE})|(?P<year>{_YEAR})|(?P<number>{_NUMBER}))(?![\w-]|[.,]\d)"
    rf"|(?<!\w)(?P<name>{_CAPITALISED}(?:(?: (?:{'|'.join(_PARTICLES)}))* {_CAPITALISED})*)"
)
_WORD = re.compile(r"\w+")
_SENTENCE_START = re.compile(r"(?:^|[.!?:]['\"”]?\s+|\n\s*)$")


@dataclass(frozen=True, slots=True)
class Fact:
    """A date, year, number or name that a text contains."""

    kind: str
    text: str


def find_facts(text: str) -> list[Fact]:
    """The facts of a text, each once.

    A capitalised word that begins a sentence is no name, unless it is all there is: ``Paris`` as a short answer.
    """
    found: dict[Fact, None] = {}
    for match in _FACT.finditer(text):
        kind = match.lastgroup
        assert kind is not None
        words = match.group().split(" ")
        if kind == "name":
            words = list(itertools.takewhile(lambda word: word[0].isupper() or word in _PARTICLES, words))
            if words and words[0].casefold() in STOP_WORDS:
                words = words[1:]
            elif len(words) == 1 and words[0] != text.strip(" .") and _SENTENCE_START.search(text[: match.start()]):
                continue
        if words:
            found[Fact(kind, " ".join(words))] = None
    return list(found)


def _padded_words(text: str) -> str:
    """The words of a text in lower case, with a blank around each, so that a phrase is found as a substring."""
    return " ".join(["", *_WORD.findall(text.casefold()), ""])


def _replace_fact(text: str, old: str, new: str) -> str:
    return re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", lambda _: new, text)


# --- building control items from samples -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Control:
    """A sample with an output whose verdict is known."""

    kind: str
    sample: EvaluationSample
    """The sample that it was made from, under an id of its own."""
    output: SystemOutputs
    base_id: str
    """The id of the sample that it was made from."""


@dataclass(frozen=True, eq=False)
class _Source:
    """A sample that controls are made from."""

    sample: EvaluationSample

    @cached_property
    def reference(self) -> str:
        """The reference answer; empty if there is none, or if it declines to answer."""
        text = "" if self.sample.reference_answer is None else self.sample.reference_answer.text.strip()
        return "" if is_refusal(text, built_in_patterns()) else text

    @cached_property
    def documents(self) -> list[Document]:
        """The gold documents that have a text."""
        return [document for document in self.sample.relevant_docs or () if (document.text or "").strip()]

    @cached_property
    def reference_words(self) -> str:
        return _padded_words(self.reference)

    @cached_property
    def references(self) -> list[str]:
        return [_padded_words(reference) for reference in self.sample.references]

    @cached_property
    def known_words(self) -> str:
        """The question, references and gold documents: what occurs in them may be right."""
        texts = [self.sample.query, *self.sample.references, *(document.text for document in self.documents)]
        return " ".join(map(_padded_words, texts))


class ControlSource:
    """Builds the control items of a dataset. The same samples always give the same items."""

    def __init__(self, samples: Iterable[EvaluationSample]) -> None:
        distinct = {
            sample.sample_id: sample
            for sample in samples
            if (sample.query or "").strip() and "variant_of" not in sample.labels
        }
        ordered = sorted(distinct.values(), key=lambda sample: _hash("sample", sample.sample_id))
        self._sources = [_Source(sample) for sample in ordered]
        self._with_reference = [source for source in self._sources if source.reference]
        self._facts: dict[str, list[str]] = {}
        self._built: dict[str, tuple[list[Control], Iterator[Control]]] = {}

    def items(self, kind: str) -> Iterator[Control]:
        """All items of a kind, at most one per sample, in a fixed random order; each is built when it is needed."""
        if kind not in self._built:
            self._built[kind] = [], self._build(kind)
        built, rest = self._built[kind]
        yield from built
        for item in rest:
            built.append(item)
            yield item

    def _build(self, kind: str) -> Iterator[Control]:
        for source in sorted(self._sources, key=lambda source: _hash(kind, source.sample.sample_id)):
            item = _BUILDERS[kind](self, source)
            if item is not None:
                yield item

    def reference_item(self, base: _Source) -> Control | None:
        """The reference as the answer, with the gold documents."""
        return _control("reference", base, base.reference) if base.reference else None

    def gold_documents_item(self, base: _Source) -> Control | None:
        """The gold documents as the retrieved ones."""
        return _control("gold_documents", base, base.reference) if base.documents else None

    def refusal_item(self, base: _Source) -> Control | None:
        """An answer that declines."""
        return _control("refusal", base, REFUSAL) if base.reference else None

    def other_answer_item(self, base: _Source) -> Control | None:
        """The reference of another question, of which nothing that is known about this one contains the text."""
        short: str | None = None
        for other in self._others(self._with_reference, base, "answer") if base.reference else ():
            words = other.reference_words
            if words in base.known_words or any(reference in words for reference in base.references):
                continue
            if words.count(" ") > _MIN_WORDS:
                return _control("other_answer", base, other.reference)
            short = short or other.reference
        return None if short is None else _control("other_answer", base, short)

    def other_documents_item(self, base: _Source) -> Control | None:
        """The gold documents of another question, without the reference of this one in them."""
        own_ids = {document.doc_id for document in base.sample.relevant_docs or ()}
        for other in self._others(self._sources, base, "documents") if base.documents else ():
            texts = [_padded_words(document.text) for document in other.documents]
            shares = any(document.doc_id in own_ids for document in other.documents)
            answers = any(answer in text for answer, text in itertools.product(base.references, texts))
            if texts and not shares and not answers:
                return _control("other_documents", base, base.reference, other.documents)
        return None

    def altered_fact_item(self, base: _Source) -> Control | None:
        """The reference with one date, year, number or name replaced by another one of the dataset."""
        question = _padded_words(base.sample.query)
        facts = [fact for fact in find_facts(base.reference) if _padded_words(fact.text) not in question]
        for fact in sorted(facts, key=lambda fact: _hash("fact", base.sample.sample_id, fact.text)):
            pool = self._facts_of_kind(fact.kind)
            length = fact.text.count(" ")
            for other in sorted(
                pool, key=lambda text: (abs(text.count(" ") - length), _hash("new fact", base.sample.sample_id, text))
            ):
                if _padded_words(other) not in base.known_words and fact.text not in other:
                    return _control("altered_fact", base, _replace_fact(base.reference, fact.text, other))
        return None

    def _facts_of_kind(self, kind: str) -> list[str]:
        if not self._facts:
            found = itertools.chain.from_iterable(find_facts(source.reference) for source in self._with_reference)
            for fact in dict.fromkeys(found):
                self._facts.setdefault(fact.kind, []).append(fact.text)
        return self._facts.get(kind, [])

    def _others(self, sources: Sequence[_Source], base: _Source, purpose: str) -> Iterator[_Source]:
        """The sources about other questions, in a fixed random order."""
        rng = random.Random(_hash(purpose, base.sample.sample_id))  # noqa: S311 -- no secret
        return (source for source in rng.sample(sources, len(sources)) if source.sample.cluster != base.sample.cluster)


_BUILDERS: dict[str, Callable[[ControlSource, _Source], Control | None]] = {
    "other_answer": ControlSource.other_answer_item,
    "altered_fact": ControlSource.altered_fact_item,
    "reference": ControlSource.reference_item,
    "other_documents": ControlSource.other_documents_item,
    "gold_documents": ControlSource.gold_documents_item,
    "refusal": ControlSource.refusal_item,
}
_REQUIREMENTS = {
    "other_answer": "a reference answer and that of another question",
    "altered_fact": "a reference answer with a date, number or name, and another one in the dataset",
    "reference": "a reference answer",
    "other_documents": "gold documents with texts, and those of another question",
    "gold_documents": "gold documents with texts",
    "refusal": "a reference answer",
}


def parse_control_kinds(option: object) -> dict[str, bool]:
    """Kinds of control items from an option: ``{other_answer: reject, reference: accept}``, or ``false`` for none."""
    if option is False:
        return {}
    if not isinstance(option, Mapping):
        raise BadOptionError("controls", f"write false, or kinds such as {{other_answer: reject}}, not {option!r:.80}")
    verdicts = {name: accepted for accepted, name in _EXPECTED.items()}
    for kind, verdict in option.items():
        if kind not in _BUILDERS:
            hint = did_you_mean(str(kind), _BUILDERS, otherwise=f"; the kinds are {', '.join(_BUILDERS)}")
            raise BadOptionError("controls", f"there is no kind {kind!r:.80}{hint}")
        if verdict not in verdicts:
            raise BadOptionError("controls", f"the verdict on '{kind}' is accept or reject, not {verdict!r:.80}")
    return {str(kind): verdicts[str(verdict)] for kind, verdict in option.items()}


def _control(kind: str, base: _Source, answer: str, documents: Sequence[Document] | None = None) -> Control:
    shown = base.documents if documents is None else documents
    sample = base.sample
    content = [
        kind,
        sample.query,
        sample.history,
        answer,
        [[document.doc_id, document.text] for document in shown],
        sample.references,
    ]
    return Control(
        kind,
        replace(sample, sample_id=_hash(*content)),
        SystemOutputs(
            [RetrievedDocument(document, None, rank) for rank, document in enumerate(shown, 1)],
            Response(answer) if answer else None,
        ),
        sample.sample_id,
    )


def _hash(*content: object) -> str:
    """Sixteen hexadecimal digits that depend on the content."""
    text = json.dumps(content, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


# --- selecting the items of a metric ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MetricControls:
    """The control items of a metric."""

    items: tuple[Control, ...] = ()
    unavailable: Mapping[str, str] = field(default_factory=dict)
    """By kind, why there are no items, or fewer than requested; ``all`` stands for every kind."""


def select_controls(metric: JudgedMetric, source: ControlSource, count: int) -> MetricControls:
    """``count`` items for a metric: half that a judge must reject and half that it must accept, if there are both.

    Each half is divided evenly among the kinds that apply, and a kind with too few items is replaced by the others.
    """
    kinds = control_kinds(metric)
    if type(metric).score is not JudgedMetric.score or not math.isfinite(_middle(metric)):
        kinds = {}
    if not kinds:
        return MetricControls(unavailable={"all": "no item has a verdict that is certain under this metric"})
    rejected, accepted = [kind for kind in kinds if not kinds[kind]], [kind for kind in kinds if kinds[kind]]
    sides = [side for side in (rejected, accepted) if side]
    chosen: list[Control] = []
    unavailable: dict[str, str] = {}
    for side, quota in zip(sides, _divide(count, len(sides)), strict=True):
        usable = {kind: _usable_items(metric, source, kind, quota) for kind in side}
        counts = dict(zip(side, _divide(quota, len(side)), strict=True))
        for kind, wanted in counts.items():
            if len(usable[kind]) < wanted:
                found = len(usable[kind]) or "none"
                unavailable[kind] = f"{found} of {wanted}: each needs {_requirement(metric, kind)}"
        for kind in sorted(side, key=lambda kind: len(usable[kind])):  # scarce kinds first, so that others replace them
            missing = quota - sum(min(counts[kind], len(usable[kind])) for kind in side)
            counts[kind] = min(counts[kind] + max(missing, 0), len(usable[kind]))
        chosen += itertools.chain.from_iterable(usable[kind][: counts[kind]] for kind in side)
    order = sorted(chosen, key=lambda item: _hash("order", item.sample.sample_id))
    return MetricControls(tuple(order), unavailable)


def _usable_items(metric: JudgedMetric, source: ControlSource, kind: str, count: int) -> list[Control]:
    return list(itertools.islice((item for item in source.items(kind) if _applies(metric, item)), count))


def _divide(total: int, parts: int) -> list[int]:
    """Equal parts of a number; the first ones get what is left over."""
    return [total // parts + (part < total % parts) for part in range(parts)]


def _applies(metric: JudgedMetric, item: Control) -> bool:
    reads_documents = "retrieved" in metric.metadata.reads
    if reads_documents and not item.output.retrieved:
        return False
    return precheck(metric, item.sample, item.output, answered=True) is None


def _requirement(metric: JudgedMetric, kind: str) -> str:
    needs = _REQUIREMENTS[kind]
    reads_documents = "retrieved" in metric.metadata.reads and "documents" not in kind
    return f"{needs}, and gold documents with texts" if reads_documents else needs


# --- mixing items into batches, and collecting their outcomes --------------------------------------------------------


class MixedBatch(Batch):
    """A batch with control items among its rows; requests are shared with the batch it was made from."""

    def __init__(self, batch: Batch, placed: Mapping[int, Sequence[Control]]) -> None:
        """``placed`` has the items that stand before each row."""
        samples: list[EvaluationSample] = []
        outputs: list[SystemOutputs | None] = []
        own, rows, items = [], [], []
        for row in range(len(batch) + 1):
            for item in placed.get(row, ()):
                rows.append(len(samples))
                items.append(item)
                samples.append(item.sample)
                outputs.append(item.output)
            if row < len(batch):
                own.append(len(samples))
                samples.append(batch.samples[row])
                outputs.append(batch.outputs[row])
        super().__init__(samples, outputs, memory=batch.memory)
        self._batch = batch
        self._ids = {item.sample.sample_id for item in items}
        self.own_rows: Ints = np.array(own, dtype=np.intp)
        self.control_rows: Ints = np.array(rows, dtype=np.intp)
        self.items: list[Control] = items

    @property
    def request_batch(self) -> Batch:
        """The batch without control items: metrics with other items share its requests."""
        return self._batch.request_batch

    def note(self, message: str, sample_id: str) -> None:
        """Add a warning about a sample; failures of control items are in the details instead."""
        if sample_id not in self._ids:
            self._batch.note(message, sample_id)


@dataclass(frozen=True, slots=True)
class ControlOutcome:
    """The outcome of a control item under a metric."""

    item: Control
    score: float | None
    reason: str = ""
    """Why there is no score."""


class JudgeControls:
    """The control items of an evaluation: mixed into its first batches, asked with them, and summarised."""

    def __init__(self, metrics: Iterable[JudgedMetric], samples: Sequence[EvaluationSample], count: int) -> None:
        source = ControlSource(itertools.islice(samples, SOURCE_SAMPLES))
        self.count, self._total = count, min(len(samples), SOURCE_SAMPLES)
        self._metrics = {metric: select_controls(metric, source, count) for metric in dict.fromkeys(metrics)}
        self._outcomes: dict[JudgedMetric, list[ControlOutcome]] = {metric: [] for metric in self._metrics}

    async def judge(self, batch: Batch, start: int, metrics: Iterable[JudgedMetric], judge: JudgeClient) -> None:
        """Judge a batch whose first sample has the number ``start``, with the items that belong among its rows."""
        groups: dict[tuple[str, ...], tuple[Batch, list[JudgedMetric]]] = {}
        for metric in dict.fromkeys(metrics):
            placed = self._placed(metric, start, start + len(batch))
            items = itertools.chain.from_iterable(placed[row] for row in sorted(placed))
            key = tuple(item.sample.sample_id for item in items)
            if key not in groups:
                groups[key] = (MixedBatch(batch, placed) if placed else batch, [])
            groups[key][1].append(metric)
        await asyncio.gather(*(judge_batch(mixed, some, judge) for mixed, some in groups.values()))
        for mixed, some in groups.values():
            if isinstance(mixed, MixedBatch):
                for metric in some:
                    self._separate(metric, batch, mixed)

    def _placed(self, metric: JudgedMetric, start: int, stop: int) -> dict[int, list[Control]]:
        """The items of a metric by the row of a batch before which they stand: evenly among the first samples."""
        items = self._metrics.get(metric, MetricControls()).items
        placed: dict[int, list[Control]] = {}
        for number, item in enumerate(items):
            position = (2 * number + 1) * self._total // (2 * len(items))
            if start <= position < stop:
                placed.setdefault(position - start, []).append(item)
        return placed

    def _separate(self, metric: JudgedMetric, batch: Batch, mixed: MixedBatch) -> None:
        outcome: Scores | BaseException = mixed.known(outcome_key(metric)) or Scores.from_list([])
        if not isinstance(outcome, Scores):
            batch.feature(outcome_key(metric), lambda _: outcome)
            return
        own, controls = outcome.take(mixed.own_rows), outcome.take(mixed.control_rows)
        batch.feature(outcome_key(metric), lambda _: own)
        reasons = [controls.reason_names[code] for code in controls.reason_codes]
        self._outcomes[metric] += [
            ControlOutcome(item, float(value) if status == Status.SCORED else None, reason)
            for item, value, status, reason in zip(mixed.items, controls.values, controls.status, reasons, strict=True)
        ]

    def details(self, name: str) -> dict[str, Any]:
        """The summary for the details of the metric of this name."""
        for metric, chosen in self._metrics.items():
            if metric.name == name:
                return summarise_controls(metric, chosen, self._outcomes[metric], self.count)
        return {
            "requested": self.count,
            "num_items": 0,
            "unavailable": {"all": "the judge metric inside it has them where it is listed by itself"},
        }


def summarise_controls(
    metric: JudgedMetric, chosen: MetricControls, outcomes: Sequence[ControlOutcome], count: int
) -> dict[str, Any]:
    """False accepts and false rejects with Wilson intervals, by kind and together, and every item."""
    kinds = control_kinds(metric)
    verdicts: dict[str, list[bool]] = {}
    failed: Counter[str] = Counter()
    items: list[dict[str, Any]] = []
    for outcome in sorted(outcomes, key=lambda outcome: (outcome.item.kind, outcome.item.sample.sample_id)):
        item: dict[str, Any] = {
            "id": outcome.item.sample.sample_id,
            "kind": outcome.item.kind,
            "sample_id": outcome.item.base_id,
            "expected": _EXPECTED[kinds[outcome.item.kind]],
            "score": outcome.score,
        }
        if outcome.score is None:
            failed[outcome.item.kind] += 1
            item |= {"accepted": None, "reason": outcome.reason}
        else:
            item["accepted"] = accepted = _is_accepted(metric, outcome.item.kind, outcome.score)
            verdicts.setdefault(outcome.item.kind, []).append(accepted != kinds[outcome.item.kind])
        items.append(item)
    sides: dict[bool, list[bool]] = {False: [], True: []}
    for kind, good in kinds.items():
        sides[good] += verdicts.get(kind, ())
    false_accepts, false_rejects = _error_rate(sides[False]), _error_rate(sides[True])
    rate = false_accepts["rate"]
    return {
        "requested": count,
        "num_items": len(items),
        "num_failed": failed.total(),
        "accepted": f"score {'>=' if metric.higher_is_better else '<='} {_middle(metric):g}",
        "false_accepts": false_accepts,
        "false_rejects": false_rejects,
        "limit": MAX_FALSE_ACCEPTS,
        "usable": None if rate is None else rate <= MAX_FALSE_ACCEPTS,
        "kinds": {
            kind: {"expected": _EXPECTED[good], **_error_rate(verdicts.get(kind, ())), "num_failed": failed[kind]}
            for kind, good in kinds.items()
            if kind in verdicts or failed[kind]
        },
        "unavailable": dict(chosen.unavailable),
        "items": items,
    }


def _middle(metric: JudgedMetric) -> float:
    """The middle of the range; scores that have no lower bound begin at 0."""
    low, high = metric.range
    return ((low if math.isfinite(low) else 0.0) + high) / 2


def _is_accepted(metric: JudgedMetric, kind: str, score: float) -> bool:
    """Whether a score lies in the better half of the range.

    The middle belongs to it, except for an altered fact: a judge that finds the answer partly right has seen the fault.
    """
    margin = (score - _middle(metric)) * (1 if metric.higher_is_better else -1)
    return margin > 0 or (margin == 0 and kind != "altered_fact")


def _error_rate(wrong: Sequence[bool]) -> dict[str, Any]:
    """The number and proportion of wrong verdicts, with Wilson's interval."""
    n, errors = len(wrong), sum(wrong)
    if not n:
        return {"errors": 0, "n": 0, "rate": None, "interval": None}
    interval = wilson_interval(errors, n)
    return {"errors": errors, "n": n, "rate": errors / n, "interval": [interval.low, interval.high]}


# --- drift: the same items under another model or prompt -------------------------------------------------------------


def control_drift(before: MetricResult, after: MetricResult) -> dict[str, Any] | None:
    """The drift between two results of a metric; ``None`` unless a judge or prompt differs and items are the same."""
    parts = [(result.signature or "").split("|")[1:] for result in (before, after)]
    changed = [part for part in parts[0] if part not in parts[1] and part.partition(":")[0] in _JUDGE_OPTIONS]
    compared = compare_controls(before.details.controls, after.details.controls)
    return {"judge": ", ".join(changed), **compared} if changed and compared is not None else None


_JUDGE_OPTIONS = ("critic", "prompt", "claims", "verifier", "support")
"""Signature options that name a judge or a prompt."""


def compare_controls(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any] | None:
    """How the verdicts on the items that two summaries have in common differ; ``None`` if they have none in common.

    Newcombe's interval is that of the difference of the proportions of accepted items, after minus before.
    """
    earlier = {item["id"]: item for item in before.get("items") or () if item["accepted"] is not None}
    pairs = [
        (earlier[item["id"]], item)
        for item in after.get("items") or ()
        if item["accepted"] is not None and item["id"] in earlier
    ]
    if not pairs:
        return None
    changed = [
        {key: later[key] for key in ("id", "kind", "sample_id", "expected")}
        | {"before": sooner["accepted"], "after": later["accepted"], "scores": [sooner["score"], later["score"]]}
        for sooner, later in pairs
        if sooner["accepted"] != later["accepted"]
    ]
    sides = {}
    for name in _EXPECTED.values():
        side = [(sooner["accepted"], later["accepted"]) for sooner, later in pairs if later["expected"] == name]
        if side:
            counts = Counter(side)
            interval = newcombe_interval(
                counts[True, True], counts[True, False], counts[False, True], counts[False, False]
            )
            sides[name] = {
                "n": len(side),
                "newly_accepted": counts[False, True],
                "newly_rejected": counts[True, False],
                "difference": (counts[False, True] - counts[True, False]) / len(side),
                "interval": [interval.low, interval.high],
            }
    return {"num_items": len(pairs), "num_changed": len(changed), "expected": sides, "changed": changed}
