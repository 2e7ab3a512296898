"""How gold is matched in one evaluation: the rule behind ``auto``, its counts, and the chance level by document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain, islice
from statistics import median
from typing import Any, Literal

from ..core.batch import Batch
from ..core.conventions import ID_PRESETS, MATCHES, Conventions, Match
from ..core.metrics_base import BatchMetric, Metric, apply_failure_policy
from ..core.results import Results
from ..core.types import Document, EvaluationSample, SystemOutputs
from ..errors import UnknownConventionError
from ..features.matching import (
    FOUND_FROM,
    MATCH_WORDS,
    gold_units,
    is_evidence,
    is_other_passage,
    is_resolvable,
    span_of,
    trigrams,
)
from ..text.scripts import auto_tokens
from .data_checks import NO_HIT

MatchChoice = Match | Literal["auto"]
MATCH_CHOICES: tuple[MatchChoice, ...] = ("auto", *MATCHES)
Pair = tuple[EvaluationSample, SystemOutputs | None]

SAMPLES_READ = 1000
"""How many samples with gold and a ranking decide."""
_TEXTS_PER_BATCH = 10
"""How many texts a worker compares in each batch."""
_MOST_READ = 20 * SAMPLES_READ
"""Among how many samples they are looked for: input that can be read once keeps these in memory."""
_ID_MARGIN = 0.05
"""Gold is matched by id while its ids are found nearly as often as ids or parents."""
_MOST_REUSED = 0.05
"""Of the ids in common, the proportion that may name another passage: documents are edited now and then."""
_LONGEST_GOLD = 3
"""A gold text this many times as long as retrieved ones is a whole document, which chunks cannot cover."""
_MOST_GOLD = 0.5
"""The proportion of gold that must have a span, or a text, to be matched by it."""
_MANY_UNRESOLVED = 0.05
CHANCE_WARNING_FROM = 0.3
CHANCE_K = 5


@dataclass(frozen=True, slots=True)
class GoldMatch:
    """The way in which gold is matched, and the counts that decided it."""

    match: Match
    gold: int = 0
    """Gold ids of the samples read."""
    ids: int = 0
    """Those that occur as ids of retrieved documents."""
    parents: int = 0
    """Those that occur as ids or parents of retrieved documents."""
    samples: int = 0
    """Samples with gold and a ranking that were read."""
    reused: int = 0
    """Ids in common that name another passage."""
    unresolved: int = 0
    """Gold units without a field by which they could be found."""
    chance: float | None = None
    """Recall against the gold of the next question, for gold matched by document."""
    is_auto: bool = True

    @property
    def label(self) -> str:
        """The way in words: ``by document``."""
        return f"by {MATCH_WORDS[self.match]}"

    @property
    def finds_nothing(self) -> bool:
        """Whether no gold id occurs at all, and nothing else can be compared."""
        return self.is_auto and self.match == "id" and self.gold > 0 and self.parents == 0

    def sentence(self) -> str:
        """The way, and what decided it, in one line."""
        both = f", and both have {self.match}s" if self.is_auto else ""  # a way that was chosen may lack them
        by_id = f"{self.ids} of {self.gold} gold ids are ids of retrieved documents"
        counts = {
            "id": by_id,
            "parent": f"{self.parents} of {self.gold} gold ids are parents of retrieved chunks",
            "span": by_id + both,
            "text": by_id + both,
        }[self.match]
        chance = "" if self.chance is None else f"; chance level {format_level(self.chance)}"
        return f"gold is matched {self.label}: {counts}{chance}"

    def warnings(self) -> list[str]:
        """What speaks against the numbers."""
        found = []
        if self.finds_nothing:
            found.append(
                f"none of {self.gold} gold ids is an id or a parent of a retrieved document, and there are no spans or "
                "texts to compare; do both files name documents in the same way?"
            )
        if self.chance is not None and self.chance >= CHANCE_WARNING_FROM:
            found.append(
                f"matching by document hardly distinguishes retrievers here: recall@{CHANCE_K} against the gold of "
                f"another question is {format_level(self.chance)}; add spans or texts to the gold"
            )
        if self.gold and self.unresolved >= _MANY_UNRESOLVED * self.gold:
            found.append(
                f"{self.unresolved} of {self.gold} gold documents have no {MATCH_WORDS[self.match]} and no id by which "
                "they could be found; they are left out"
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a stored plan."""
        return asdict(self)

    def description(self) -> dict[str, Any]:
        """Plain values and the sentence, for results."""
        return {**asdict(self), "sentence": self.sentence()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> GoldMatch:
        """From the values of ``to_dict``; unknown keys of other versions are ignored."""
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in values.items() if key in known})


def format_level(value: float) -> str:
    """A proportion with two decimals."""
    return f"{value:.2f}".removeprefix("0") if value < 1 else "1.00"


def has_gold_and_ranking(sample: EvaluationSample, output: SystemOutputs | None) -> bool:
    """Whether a sample can decide how gold is matched."""
    return bool(sample.relevant_docs) and output is not None and output.error is None and bool(output.retrieved)


class MatchCounts:
    """Counts how the gold of samples occurs in their rankings, up to a number of samples."""

    def __init__(self, limit: int | None = SAMPLES_READ, *, texts_read: int = SAMPLES_READ) -> None:
        """``texts_read`` is how many texts are compared and measured, which takes longer than comparing ids."""
        self._limit = limit
        self._texts_read = texts_read
        self.sums = Counter[str]()
        """Sums over the samples; those of several batches may be added."""
        self.gold_lengths: list[int] = []
        self.text_lengths: list[int] = []

    @property
    def is_full(self) -> bool:
        """Whether further samples are ignored."""
        return self._limit is not None and self.sums["samples"] >= self._limit

    def add(self, sample: EvaluationSample, output: SystemOutputs | None) -> bool:
        """Count one sample; whether it has gold and a ranking."""
        if self.is_full or output is None or not has_gold_and_ranking(sample, output):
            return False
        retrieved = [item.doc for item in output.retrieved]
        by_id = {doc.doc_id: doc for doc in reversed(retrieved)}  # the first of each id
        parents = {doc.parent for doc in retrieved}
        gold = {doc.doc_id: doc for doc in sample.relevant_docs or ()}
        sums = self.sums
        sums["samples"] += 1
        sums["gold"] += len(gold)
        for doc_id, passage in gold.items():
            sums["ids"] += doc_id in by_id
            sums["parents"] += doc_id in by_id or doc_id in parents
            sums["documents"] += passage.parent in parents
            sums["spans"] += span_of(passage) is not None
            sums["texts"] += is_evidence(passage.text)
            if doc_id in by_id and sums["comparable"] < self._texts_read:
                self._compare(passage, by_id[doc_id])
        self._add_spans(gold.values(), retrieved)
        self._add_texts(gold.values(), retrieved)
        return True

    def _compare(self, passage: Document, doc: Document) -> None:
        """Count whether two documents of the same id are the same passage."""
        if span_of(passage) is not None and span_of(doc) is not None:
            self.sums["comparable"] += 1
            self.sums["reused"] += is_other_passage(passage, doc)
        elif is_evidence(passage.text) and doc.text:
            wanted = trigrams(passage.text)
            self.sums["comparable"] += 1
            self.sums["reused"] += len(wanted & trigrams(doc.text)) < FOUND_FROM * len(wanted)

    def _add_spans(self, gold: Iterable[Document], retrieved: Sequence[Document]) -> None:
        own = {passage.parent for passage in gold if span_of(passage) is not None}
        if own and not self.sums["common_parents"]:
            with_span = {doc.parent for doc in retrieved if span_of(doc) is not None}
            self.sums["common_parents"] += not own.isdisjoint(with_span)

    def _add_texts(self, gold: Iterable[Document], retrieved: Sequence[Document]) -> None:
        """Add the lengths of texts, until there are enough for a median."""
        if len(self.gold_lengths) < self._texts_read:
            self.gold_lengths += [len(auto_tokens(passage.text)) for passage in gold if is_evidence(passage.text)]
        if len(self.text_lengths) < self._texts_read:
            self.text_lengths += [len(auto_tokens(doc.text)) for doc in retrieved if doc.text]

    @property
    def _has_texts(self) -> bool:
        if not self.gold_lengths or not self.text_lengths:
            return False
        return median(self.gold_lengths) <= _LONGEST_GOLD * median(self.text_lengths)

    def choose(self) -> Match:
        """The first way that applies."""
        sums = self.sums
        enough_ids = sums["ids"] > 0 and sums["ids"] >= sums["parents"] - _ID_MARGIN * sums["gold"]
        if enough_ids and sums["reused"] <= _MOST_REUSED * sums["comparable"]:
            return "id"
        possible: tuple[Match, ...] = ("span", "text", "parent")
        return next((match for match in possible if self.supports(match)), "id")

    def supports(self, match: Match) -> bool:
        """Whether gold and rankings have the fields by which this way compares them."""
        sums = self.sums
        if match == "span":
            return sums["common_parents"] > 0 and sums["spans"] >= _MOST_GOLD * sums["gold"]
        if match == "text":
            return self._has_texts and sums["texts"] >= _MOST_GOLD * sums["gold"]
        return match == "id" or sums["parents"] > 0 or sums["documents"] > 0


def count_gold(samples: Iterable[EvaluationSample], outputs: Iterable[SystemOutputs | None]) -> Mapping[str, int]:
    """The sums of one batch, for a worker that reads it; few texts are compared, since there are many batches."""
    counts = MatchCounts(limit=None, texts_read=_TEXTS_PER_BATCH)
    for sample, output in zip(samples, outputs, strict=True):
        counts.add(sample, output)
    return counts.sums


# --- evaluations: the samples that decide, the counts over all, and what results say about it ------------------------


class GoldReading:
    """The first pairs of an input, the way of matching gold that they decide on, and the counts of all pairs."""

    def __init__(
        self, pairs: Iterable[Pair], conventions: Conventions, choice: MatchChoice, *, stored: Match | None = None
    ) -> None:
        """``stored`` is what ``auto`` has chosen before in an evaluation that is resumed."""
        self._unread = iter(pairs)
        self._first: list[Pair] = []
        self._counts = MatchCounts(limit=None)
        self.resolved = self._resolve(conventions, choice, stored)

    def _resolve(self, conventions: Conventions, choice: MatchChoice, stored: Match | None) -> GoldMatch:
        """How gold is matched: as chosen, or by the rule of ``auto``.

        Conventions that compare ids by definition match by id; another explicit choice under them is an error.
        """
        if choice not in MATCH_CHOICES:
            raise UnknownConventionError("way to match gold", choice, MATCH_CHOICES)
        if choice == "id" or (choice == "auto" and conventions.name in ID_PRESETS):
            return GoldMatch("id", is_auto=choice == "auto")
        counts = MatchCounts()
        for pair in islice(self._unread, _MOST_READ):
            self._first.append(pair)
            counts.add(*pair)
            if counts.is_full:
                break
        match = counts.choose() if choice == "auto" else choice
        match = stored or match
        replace(conventions, match=match)  # a way that the conventions do not allow is an error
        self._counts.gold_lengths, self._counts.text_lengths = counts.gold_lengths, counts.text_lengths
        deciding = self._deciding()
        sums = counts.sums
        parents, chance = sums["parents"], None
        if match == "parent":
            parents, chance = max(parents, sums["documents"]), _document_chance(deciding)
        return GoldMatch(
            match,
            gold=sums["gold"],
            ids=sums["ids"],
            parents=parents,
            samples=sums["samples"],
            reused=sums["reused"],
            unresolved=_count_unresolved(deciding, match),
            chance=chance,
            is_auto=choice == "auto",
        )

    def _deciding(self) -> list[Pair]:
        return [pair for pair in self._first if has_gold_and_ranking(*pair)]

    def pairs(self) -> Iterator[Pair]:
        """All pairs of input that can be read once: those read first, then the others."""
        return chain(self._first, self._unread)

    @property
    def counts_all(self) -> bool:
        """Whether the counts of all samples are checked: ``auto`` has decided from some."""
        return self.resolved.is_auto and self.resolved.samples > 0

    def count(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """The same pairs, counted where ``auto`` has decided."""
        for sample, output in pairs:
            if self.counts_all:
                self._counts.add(sample, output)
            yield sample, output

    def add_sums(self, sums: Mapping[str, int]) -> None:
        """Add the sums of batches that workers have read."""
        self._counts.sums.update(sums)

    def finish(self, metrics: Sequence[Metric], results: Results) -> None:
        """Add to the results how gold is matched, what speaks against it, and the chance levels by document."""
        if not depends_on_match(metrics):
            return
        resolved = self.resolved
        before = resolved.warnings()
        if before or resolved.match != "id":
            results.gold_match = resolved.description()
        # That nothing is found says more than that nothing was retrieved.
        others = [text for text in results.warnings if text != NO_HIT or not resolved.finds_nothing]
        results.warnings = [*before, *others, *self._contradictions()]
        levels = chance_levels(self._deciding(), metrics)
        for result in results:
            if result.name in levels:
                result.details.chance = levels[result.name]

    def _contradictions(self) -> list[str]:
        """A warning where the counts over all samples choose another way than the samples read first."""
        resolved, sums = self.resolved, self._counts.sums
        chosen = self._counts.choose()
        if not resolved.is_auto or sums["samples"] <= resolved.samples or chosen == resolved.match:
            return []
        return [
            f"the first {resolved.samples} samples with gold decided to match it {resolved.label}; over "
            f"{sums['samples']} it would be by {MATCH_WORDS[chosen]} ({sums['ids']} of {sums['gold']} gold ids are "
            f"retrieved ids, {sums['parents']} ids or parents); repeat with --match {chosen} if that is right"
        ]


def resolve_gold_match(
    pairs: Iterable[Pair], conventions: Conventions, choice: MatchChoice = "auto", *, stored: Match | None = None
) -> GoldMatch:
    """How the gold of these samples is matched: as chosen, or by the rule of ``auto``."""
    return GoldReading(pairs, conventions, choice, stored=stored).resolved


def depends_on_match(metrics: Iterable[Metric]) -> bool:
    """Whether any metric compares retrieved documents with gold."""
    return any(isinstance(metric, BatchMetric) and metric.metadata.by_chunk_id for metric in metrics)


def _count_unresolved(pairs: Sequence[Pair], match: Match) -> int:
    unresolved = 0
    for sample, output in pairs:
        documents = [] if output is None else [item.doc for item in output.retrieved]
        for unit in gold_units(sample, match):
            unresolved += not is_resolvable(unit, documents, match)
    return unresolved


# --- chance levels by document: each output against the gold of the next question ------------------------------------


def _with_next_gold(pairs: Sequence[Pair]) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
    """The sample of the next question for each output; nothing for fewer than two."""
    if len(pairs) < 2:
        return [], []
    samples = [sample for sample, _ in pairs]
    return [*samples[1:], samples[0]], [output for _, output in pairs]


def _document_chance(pairs: Sequence[Pair]) -> float | None:
    """Recall of documents among the first ``CHANCE_K`` chunks, against the gold of the next question."""
    recalls: list[float] = []
    for sample, output in zip(*_with_next_gold(pairs), strict=True):
        retrieved = () if output is None else output.retrieved
        parents = {item.doc.parent for item in islice(retrieved, CHANCE_K)}
        gold = {passage.parent for unit in gold_units(sample, "parent") for passage in unit.passages}
        recalls.append(len(gold & parents) / max(len(gold), 1))
    return sum(recalls) / len(recalls) if recalls else None


def chance_levels(pairs: Sequence[Pair], metrics: Sequence[Metric]) -> dict[str, float]:
    """By name what chance gives: each metric that matches gold by document, with the gold of the next question."""
    samples, outputs = _with_next_gold(pairs)
    if not samples:
        return {}
    batch = Batch(samples, outputs)
    levels: dict[str, float] = {}
    for metric in metrics:
        if not isinstance(metric, BatchMetric) or metric.active_conventions.match != "parent":
            continue
        if metric.metadata.matches_gold and "response" not in metric.metadata.reads:
            value = metric.reducer.value(apply_failure_policy(metric, batch))
            if value == value:  # not NaN: something was scored
                levels[metric.name] = float(value)
    return levels
