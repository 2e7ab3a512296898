"""How gold is matched in all runs of a comparison, and what is computed again by it from stored outputs.

Runs that match gold in different ways are compared by the coarsest of them. Runs whose chunks differ are compared by
span or text, and then the covered proportion of the gold must confirm a verdict. Nothing of it is stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

import numpy as np

from ..core.conventions import MATCHES, Conventions, Match
from ..core.metrics_base import BatchMetric, with_match
from ..core.results import Results
from ..core.types import Document, EvaluationSample, MetricResult
from ..engine.evaluate import EvaluationOptions
from ..engine.gold_match import MatchCounts
from ..features.matching import MATCH_WORDS, covered_by_rank, gold_units, is_usable, span_of
from ..stats.intervals import Floats, Ints
from ..store.records import RunRecord, plan_conventions, run_info
from ..store.runs import RunStore
from ..text.scripts import auto_tokens
from .chunks import ChunkChange
from .golden import documents_of, evaluate_pairs
from .pairing import find_metric, result_match
from .stores import TEXT_MATCHES, RunOutputs, run_outputs
from .types import ComparisonInput, MetricComparison, join_notes, run_labels

NO_OTHER_WAY = "compare recall_doc, spans, or the golden queries"
"""What to do where a metric compares ids, and they do not meet."""
_OTHER_WAYS: tuple[Match, ...] = ("span", "text", "parent")
_USABLE_FROM = 0.95
"""The proportion of gold that must have a span, or a text, for runs with different chunks to be compared by it."""
_SAME_BUDGET = 0.1
"""Numbers of words that differ by at most this proportion count as equal."""


@dataclass(frozen=True, slots=True)
class ComparisonMatch:
    """How gold is matched in all runs of a comparison."""

    match: Match
    change: ChunkChange | None = None
    """That the runs have different chunks."""
    planned: Match = "id"
    """The coarsest way of the runs themselves."""
    problem: str | None = None
    """What is missing to match gold in one way in all runs; ``None`` if nothing is."""
    notes: tuple[str, ...] = ()

    @property
    def by_place(self) -> bool:
        """Whether golden queries are matched by the location of chunks: by span, else by document."""
        if self.change is None or self.change.gold_only:
            return False
        return self.planned == "id" and self.match != "text"

    def read(self, run: RunOutputs, *, usable_only: bool = True) -> RunOutputs:
        """A run with what this way compares: texts, and if the chunks differ only gold that has a span or a text.

        Other gold would be found by its id, and only by the run whose chunks have these ids.
        """
        if self.match not in TEXT_MATCHES:
            return run
        run = run.with_texts()
        if self.change is None or self.planned != "id" or not usable_only:
            return run
        return replace(run, samples=[_usable_gold(sample, self.match) for sample in run.samples])


def _usable_gold(sample: EvaluationSample, match: Match) -> EvaluationSample:
    gold = sample.relevant_docs or []
    usable = [doc for doc in gold if is_usable(doc, match)]
    if len(usable) == len(gold) or sample.relevant_groups:
        return sample
    return replace(sample, relevant_docs=usable or None)


def coarsest(ways: Iterable[Match]) -> Match:
    """The coarsest of some ways to match gold."""
    return max(ways, key=MATCHES.index)


def comparison_match(runs: Sequence[RunOutputs], change: ChunkChange | None) -> ComparisonMatch:
    """How gold is matched in these runs, whose chunks changed as given: by the coarsest of their ways.

    Runs that match gold by id, and whose ids do not meet, are matched by the first of span, text and document that the
    gold and all of the runs have.
    """
    ways = [plan_conventions(run.record).match for run in runs]
    planned = coarsest(ways)
    if len(set(ways)) == 1 and (change is None or planned != "id"):
        return ComparisonMatch(planned, change, planned)
    labels = run_labels(len(runs))
    supported = {label: supported_ways(run) for label, run in zip(labels, runs, strict=True)}
    if planned == "id" and change is not None:
        return _match_other_chunks(supported, change)
    listed = " and ".join(f"{label} by {MATCH_WORDS[way]}" for label, way in zip(labels, ways, strict=True))
    listed = listed.replace(labels[0], f"{labels[0]} was matched", 1)
    lacking = [label for label, found in supported.items() if planned not in ("parent", *found)]
    if lacking:
        return ComparisonMatch(
            planned, change, planned, problem=f"{listed}, and run {' and '.join(lacking)} has no {planned}s"
        )
    note = f"{listed}: {_every(labels)} are compared by {MATCH_WORDS[planned]}"
    return ComparisonMatch(planned, change, planned, notes=(note,))


def _match_other_chunks(supported: Mapping[str, Sequence[Match]], change: ChunkChange) -> ComparisonMatch:
    """How gold is matched in runs by id whose ids do not meet, given the other ways that each of them supports."""
    for match in _OTHER_WAYS:
        is_known = match != "parent" or change.gold_parents
        if is_known and all(match in found for found in supported.values()):
            note = f"{change.description}: gold is matched by {MATCH_WORDS[match]} in {_every(supported)} runs"
            return ComparisonMatch(match, change, notes=(note,))
    problem = "compare needs spans, texts or parents" if change.is_disjoint else NO_OTHER_WAY
    lacking = [label for label, found in supported.items() if not {"span", "text"} & set(found)]
    if 0 < len(lacking) < len(supported):
        problem = f"the gold has spans or texts, which the chunks of run {' and '.join(lacking)} lack"
    return ComparisonMatch("id", change, problem=problem)


def _every(labels: Collection[str]) -> str:
    return "both" if len(labels) == 2 else "all"


def supported_ways(run: RunOutputs) -> list[Match]:
    """The ways, other than by id, for which nearly all gold and the chunks of a run have what is compared."""
    counts, usable = MatchCounts(), Counter[str]()
    for sample, output in run.with_texts().pairs():
        if counts.add(sample, output):
            for unit in gold_units(sample):
                for match in _OTHER_WAYS:
                    usable[match] += match == "parent" or any(is_usable(passage, match) for passage in unit.passages)
    return [
        match for match in _OTHER_WAYS if usable[match] >= _USABLE_FROM * usable["parent"] and counts.supports(match)
    ]


def matched_results(run: RunOutputs, results: Results, way: ComparisonMatch) -> Results:
    """The results of a run, with those that match gold computed again where the way of the comparison is another."""
    if way.problem is not None:
        return results
    metrics = [find_metric(result, run.record) for result in results]
    computed = recompute(way.read(run), other_way(metrics, way.match), way.match)
    again = {result.name: result for result in computed}
    results[:] = [again.get(result.name, result) for result in results]
    return results


def matched_result(store: RunStore, record: RunRecord, result: MetricResult, match: Match) -> MetricResult | str:
    """A result with gold matched in this way, computed again from stored outputs if need be; why it cannot be."""
    if result_match(result) == match:
        return result
    run = run_outputs(store, record, texts=match in TEXT_MATCHES)
    again = matched_metric(record, result, match, partial(supported_ways, run))
    return again if isinstance(again, str) else recompute(run, [again], match)[0]


def matched_metric(
    record: RunRecord, result: MetricResult, match: Match, supported: Callable[[], Sequence[Match]]
) -> BatchMetric | str:
    """The metric of a result with gold matched in this way; why a run with these ``supported`` ways cannot have it."""
    again = other_way([find_metric(result, record)], match)
    if not again:
        return f"{record.run_id} ({record.name}) matches gold by {MATCH_WORDS[result_match(result)]} only"
    if match not in ("parent", *supported()):
        return f"{record.run_id} ({record.name}) has no {match}s"
    return again[0]


def other_way(metrics: Iterable[BatchMetric | None], match: Match) -> list[BatchMetric]:
    """Those of the metrics that match gold in another way, matching it in this one."""
    found = [metric for metric in metrics if metric is not None and metric.metadata.matches_gold]
    matched = [with_match(metric, match) for metric in found]
    return [other for other, metric in zip(matched, found, strict=True) if other is not metric]


def recompute(run: RunOutputs, metrics: Sequence[BatchMetric], match: Match) -> Results:
    """The results of metrics over the stored outputs of a run, gold matched in this way."""
    if not metrics:
        return Results()
    options = EvaluationOptions(conventions=Conventions.of(match=match), run=run_info(run.record))
    return evaluate_pairs(run.pairs, run.repeats, metrics, options)


# --- the covered proportion of the gold, and the amount of text within k ---------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """What the first k chunks of each query contain, in one run."""

    k: int | None
    covered: Floats
    """Per sample the mean proportion of its gold units that is covered; NaN without gold."""
    length: float | None
    """Words, or characters of spans, per query; ``None`` if unknown."""
    unit: str


def measure_coverage(run: RunOutputs, match: Match, k: int | None) -> Coverage:
    """How much of the gold the first k chunks cover, and how long they are; a failed output covers nothing."""
    covered: list[float] = []
    words: list[int] = []
    characters: list[int] = []
    chunks = 0
    for sample, output in run.pairs():
        documents = documents_of(output)[:k]
        covered.append(_covered_gold(sample, documents, match))
        chunks += len(documents)
        words += [len(auto_tokens(doc.text)) for doc in documents if doc.text]
        characters += [span[1] - span[0] for doc in documents if (span := span_of(doc)) is not None]
    values = np.array(covered, np.float64)
    for lengths, unit in ((words, "words"), (characters, "characters")):
        if chunks and len(lengths) == chunks:
            return Coverage(k, values, sum(lengths) / len(covered), unit)
    return Coverage(k, values, None, "words")


def _covered_gold(sample: EvaluationSample, documents: Sequence[Document], match: Match) -> float:
    """The mean covered proportion of the gold units; NaN without any."""
    found = []
    for unit in gold_units(sample, match):
        of_passages = [_covered_passage(passage, documents, match) for passage in unit.passages]
        found.append(max(of_passages))
    return fmean(found) if found else np.nan


def _covered_passage(passage: Document, documents: Sequence[Document], match: Match) -> float:
    if not is_usable(passage, match):
        return float(any(doc.doc_id == passage.doc_id for doc in documents))
    return max([proportion for _, proportion in covered_by_rank(passage, documents, match)], default=0.0)


def budget_note(coverages: Sequence[Coverage]) -> str | None:
    """How much text is within k in each run, the last run first; ``None`` if unknown."""
    lengths = [coverage.length for coverage in coverages if coverage.length]
    units = {coverage.unit for coverage in coverages}
    if not lengths or len(lengths) < len(coverages) or len(units) > 1:
        return None
    labels = run_labels(len(coverages))
    listed = [f"{length:,.0f} in {label}" for length, label in zip(lengths, labels, strict=True)]
    words = ", ".join(reversed(listed)).replace(" in", f" {units.pop()} in", 1)
    depth = "the whole ranking" if coverages[0].k is None else f"k = {coverages[0].k}"
    note = f"{depth} is {words}"
    if max(lengths) > (1 + _SAME_BUDGET) * min(lengths):
        note += "; these differ by more than 10 %: compare at equal lengths, with another k"
    return note


def check_coverage(given: ComparisonInput, found: MetricComparison) -> MetricComparison:
    """The comparison with how gold was matched; without a verdict where the covered proportion has another sign."""
    found = replace(found, match=given.match)
    if given.covered is None or found.verdict not in ("better", "worse") or found.delta is None:
        return found
    if given.covered * found.delta > 0:
        return found
    note = (
        f"'{found.verdict}' is not certain: the chunks of the runs differ, and the covered proportion of the gold "
        f"changed by {given.covered:+.4f}"
    )
    return replace(
        found, verdict="inconclusive", doubt="covered_proportion", note=join_notes(note, found.note), negligible=False
    )


def covered_difference(pair: Sequence[Coverage], rows: Sequence[Ints]) -> float:
    """The mean difference in the covered proportion over the samples that two runs share."""
    first, second = (coverage.covered[own] for coverage, own in zip(pair, rows, strict=True))
    return float(np.nanmean(second - first))
