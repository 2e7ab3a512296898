"""Two runs compared query by query, and the cause of each query that got worse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple

from ..core.scores import Status
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..errors import BadValueError
from ..features.matching import gold_units, has_spans
from ..runtime.processes import gc_paused
from ..store.records import RunRecord
from ..store.runs import RunStore
from .chunks import (
    GoldRanks,
    QueryOutput,
    RunOutputsCache,
    SameIds,
    compare_chunks,
    outputs_cache,
    paired_outputs,
)
from .golden import (
    ChunkLocations,
    CorpusIds,
    Golden,
    GoldFinder,
    Pair,
    Rank,
    SharedQueries,
    aggregate_metrics,
    compute_metrics,
    expected_ids,
    format_ids,
    golden_queries,
    is_failed,
    known_queries,
    rank_of,
    with_ranks,
)
from .match import ComparisonMatch, comparison_match, matched_results
from .metrics import SharedMetricScores, main_metric
from .stores import TEXT_MATCHES, RunOutputs, changed_config_keys, chunker_versions, run_outputs
from .types import AggregateMetrics, ComparisonKind, QueryComparison, join_notes

ChunkerVersionMatch = Literal["exact", "fallback_doc_span", "fallback_text", "fallback_document"]
_LONGEST_ERROR = 120
_MAX_CAUSES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class QueryComparisons:
    """The queries of two runs compared with each other."""

    per_query: list[QueryComparison]
    """Queries that both runs have and that expect a chunk, in the order of the dataset."""
    chunker_version_match: ChunkerVersionMatch
    only_in_a: int
    only_in_b: int
    without_expected_chunk: int
    """Queries of both runs without an expected chunk; they are not compared."""
    without_place: int
    """Queries that cannot be compared: chunks changed, and their expected passages or documents are unknown."""
    ranks_a: AggregateMetrics
    """Hit rates and MRR by the ranks of ``per_query``, and no other metric."""
    ranks_b: AggregateMetrics
    aggregate_a: AggregateMetrics
    """The metrics over the queries of both runs, with the expected chunks that both runs are compared with."""
    aggregate_b: AggregateMetrics
    notes: list[str] = field(default_factory=list)
    chunks_changed: str | None = None
    """How it is known that the runs have different chunks; ``None`` if they have the same."""

    @property
    def kinds(self) -> dict[str, int]:
        """How many queries there are of each kind."""
        counted = Counter(query.kind for query in self.per_query)
        return {kind.value: counted[kind] for kind in ComparisonKind}

    def deltas(self) -> dict[str, Any]:
        """The fields of the comparison document about the queries as a whole."""
        return {
            "chunker_version_match": self.chunker_version_match,
            "only_in_a": self.only_in_a,
            "only_in_b": self.only_in_b,
            "without_expected_chunk": self.without_expected_chunk,
            "kinds": self.kinds,
            **({} if self.chunks_changed is None else {"chunks_changed": self.chunks_changed}),
            **({"without_known_place": self.without_place} if self.without_place else {}),
        }


def comparison_kind(a: int | None, b: int | None) -> ComparisonKind:
    """The outcome of a query with its first expected chunk at rank ``a`` before and ``b`` after; ``None`` is a miss."""
    if a == b:
        return ComparisonKind.DRAW
    if b is None:
        return ComparisonKind.REGRESSION
    return ComparisonKind.WIN if a is None or b < a else ComparisonKind.LOSS


@gc_paused()
def compare_queries(
    store: RunStore,
    record_a: RunRecord,
    record_b: RunRecord,
    *,
    golden: Golden | None = None,
    strict_chunker_version: bool = False,
) -> QueryComparisons:
    """Compare two stored runs query by query.

    Expected chunks are read from ``golden``, else from the samples stored with the runs; if these differ, from those
    of B. Chunks are matched by their ids, and by spans where ids do not match. If the chunks of the runs differ, by
    ``chunker_version`` or by what is stored, they are matched by location alone; ``strict_chunker_version`` makes that
    an error. If a run has repeats, the first outputs count.
    """
    if strict_chunker_version:
        require_same_chunks(record_a, record_b)
    run_a, run_b = run_outputs(store, record_a), run_outputs(store, record_b)
    queries = None if golden is None else golden_queries(golden)
    return compare_run_outputs(run_a, run_b, golden=queries, strict_chunker_version=strict_chunker_version)


def require_same_chunks(record_a: RunRecord, record_b: RunRecord) -> None:
    """Raise if the versions of the chunkers are known to differ."""
    version_a, version_b = chunker_versions(record_a, record_b)
    if None not in (version_a, version_b) and version_a != version_b:
        raise _different_chunks(
            record_a,
            record_b,
            f"chunker_version is {version_a} in {record_a.run_id} and {version_b} in {record_b.run_id}",
        )


def _different_chunks(record_a: RunRecord, record_b: RunRecord, reason: str) -> BadValueError:
    names = "" if record_a.run_id in reason else f" ({record_a.run_id} is A, {record_b.run_id} is B)"
    return BadValueError(
        f"the runs have different chunks: {reason}{names}; leave out the strict chunker version to match chunks by "
        "where they lie"
    )


@gc_paused()
def compare_run_outputs(
    run_a: RunOutputs,
    run_b: RunOutputs,
    *,
    golden: Sequence[EvaluationSample] | None = None,
    strict_chunker_version: bool = False,
    aggregates: bool = False,
    corpus: CorpusIds | None = None,
    answers: RunOutputsCache | None = None,
    is_part: bool = False,
) -> QueryComparisons:
    """Compare the outputs of two runs query by query; ``answers`` is a cache of what was read before.

    With ``aggregates`` the metrics of the queries are computed on the way, else only queries and failures are counted.
    With ``is_part`` the golden queries are a part of the dataset on purpose, and no note names the others.
    """
    a, b = run_a.record, run_b.record
    notes: list[str] = []
    if golden is None:
        notes += _dataset_notes(run_a, run_b)
    else:
        known = run_a.positions().keys() | run_b.positions().keys()
        golden, more_notes = known_queries(golden, known, where=f"{a.run_id} or {b.run_id}")
        notes += [] if is_part else more_notes
    both = SharedQueries(run_a, run_b, golden)
    if not len(both):
        only_a, only_b = both.only
        raise BadValueError(
            f"no query is in both runs: {a.run_id} has {format_ids(only_a)}, "
            f"{b.run_id} has {format_ids(only_b)}; "
            "do the two belong together?"
        )
    alone = [(name, ids) for name, ids in zip("AB", both.only, strict=True) if ids]
    notes += [f"in {name} only, and left out: {format_ids(ids)}" for name, ids in alone]
    if answers is not None and golden is None and a.fingerprint == b.fingerprint:
        chunks = answers.chunks(a, b, b)
    else:
        chunks = compare_chunks(run_a, run_b, both)
    way = comparison_match([run_a, run_b], chunks.change)
    change = chunks.change
    if change is not None and change.gold_only:
        change = None  # the gold has spans, which the runs are matched by where ids do not
    if change is not None and strict_chunker_version:
        raise _different_chunks(a, b, change.reason)
    if way.match in TEXT_MATCHES:
        both = SharedQueries(_read_gold(run_a, way), _read_gold(run_b, way), golden)
    # The golden ids are older than a new chunker; those of B's own dataset are B's.
    finder, places = _gold_finder(way, both, b_first=golden is None and a.fingerprint != b.fingerprint)
    ranked = _rank_queries(both, finder, _causes_note(changed_config_keys(a, b)))
    counted = [aggregate_metrics({}, len(both), failed) for failed in ranked.failed]
    ranks_a, ranks_b = (with_ranks(own, ranks) for own, ranks in zip(counted, ranked.ranks, strict=True))
    aggregate_a, aggregate_b = counted
    if aggregates:
        # The gold is replaced by known locations where documents can be compared, and ids cannot.
        moved = None if change is None or change.parents_known else places
        aggregate_a, aggregate_b = (
            compute_metrics(partial(_pairs, both, moved, side), run.repeats, corpus=corpus)
            for side, run in enumerate(both.runs)
        )
        if change is not None or ranked.has_spans or way.match != "id":
            aggregate_a = with_ranks(aggregate_a, ranked.ranks[0])
            aggregate_b = with_ranks(aggregate_b, ranked.ranks[1])
    notes += way.notes
    if change is None:
        notes += _id_notes(a, b, chunks.ids)
    elif places is not None:
        if not change.by_version and not way.notes:
            notes.append(
                f"the chunks changed between the runs ({change.reason}): chunks are matched by where they lie in their "
                "documents, and there is no verdict on metrics that go by the ids of chunks"
            )
        notes += _place_notes(places, ranked.unlocated)
    elif way.problem is not None:
        notes.append(f"{change.description}, so there is nothing to match by: {way.problem}")
    repeated = [(name, run.repeats) for name, run in (("A", run_a), ("B", run_b)) if run.repeats > 1]
    notes += [
        f"run {name} answered {times} times; queries are compared by its first answers" for name, times in repeated
    ]
    return QueryComparisons(
        per_query=ranked.comparisons,
        chunker_version_match=_version_match(way, is_changed=change is not None),
        only_in_a=len(both.only[0]),
        only_in_b=len(both.only[1]),
        without_expected_chunk=ranked.without_expected,
        without_place=len(ranked.unlocated),
        ranks_a=ranks_a,
        ranks_b=ranks_b,
        aggregate_a=aggregate_a,
        aggregate_b=aggregate_b,
        notes=notes,
        chunks_changed=None if change is None else change.reason,
    )


def _gold_finder(
    way: ComparisonMatch, queries: SharedQueries, *, b_first: bool = False
) -> tuple[GoldFinder, ChunkLocations | None]:
    """How expected chunks are found, and where they lie if that decides: as in the older run, or in run B."""
    if way.change is None or not way.by_place:
        return GoldFinder(way.match), None
    if way.change.is_disjoint and way.match == "id":
        return GoldFinder("id", is_possible=False), None
    runs = sorted(queries.runs, key=lambda run: (run.record.created_at, run.record.run_id))
    if b_first:
        runs = [queries.runs[1], queries.runs[0]]
    places = ChunkLocations(queries, runs, ids_reused=way.change.ids_reused)
    return GoldFinder("id", places), places


def _read_gold(run: RunOutputs, way: ComparisonMatch) -> RunOutputs:
    return way.read(run, usable_only=not way.by_place)


def _version_match(way: ComparisonMatch, *, is_changed: bool) -> ChunkerVersionMatch:
    if not is_changed:
        return "exact"
    if way.by_place or way.match == "span":
        return "fallback_doc_span"
    return "fallback_text" if way.match == "text" else "fallback_document"


def _causes_note(different: Sequence[str]) -> str:
    """The names of the first few configuration keys that differ between the runs, as a note."""
    if not different:
        return ""
    shown = list(different[:_MAX_CAUSES_SHOWN])
    if len(different) > _MAX_CAUSES_SHOWN:
        shown.append(f"and {len(different) - _MAX_CAUSES_SHOWN} more")
    return f"{', '.join(shown)} differ{'s' if len(different) == 1 else ''}"


@dataclass(slots=True)
class _RankedQueries:
    """The queries of two runs by the rank of the first expected chunk in each."""

    comparisons: list[QueryComparison] = field(default_factory=list)
    ranks: tuple[list[int | None], list[int | None]] = field(default_factory=lambda: ([], []))
    """The ranks of both runs, over all compared queries and repeats."""
    failed: list[int] = field(default_factory=lambda: [0, 0])
    """How many queries each run failed on, in any repeat."""
    without_expected: int = 0
    unlocated: list[str] = field(default_factory=list)
    """Queries whose expected chunks cannot be located."""
    has_spans: bool = False


def _rank_queries(queries: SharedQueries, finder: GoldFinder, because: str) -> _RankedQueries:
    """Rank each query in both runs."""
    ranked = _RankedQueries()
    for query, *outputs in queries.rows():
        own, (gold, matching) = gold_units(query), finder.find(query, [*outputs[0], *outputs[1]])
        for side, repeats in enumerate(outputs):
            ranked.failed[side] += any(is_failed(output) for output in repeats)
        ranked.has_spans |= has_spans(query)
        if not own:
            ranked.without_expected += 1
        elif not gold:
            ranked.unlocated.append(query.sample_id)
        else:
            first_ranks = []
            for listed, repeats in zip(ranked.ranks, outputs, strict=True):
                ranks = [rank_of(gold, output, matching) for output in repeats]
                listed += [rank.position for rank in ranks]
                first_ranks.append(ranks[0])
            firsts = zip("AB", outputs, strict=True)
            notes = [f"failed in {run}: {_failure(first)}" for run, (first, *_) in firsts if is_failed(first)]
            ranked.comparisons.append(_comparison(query.sample_id, first_ranks, notes, because))
    return ranked


def _failure(output: SystemOutputs | None) -> str:
    """Why a query has no rank."""
    if output is None or output.error is None:
        return "no answer"
    error = " ".join(output.error.split())
    return error if len(error) <= _LONGEST_ERROR else f"{error[: _LONGEST_ERROR - 1]}…"


def _comparison(query_id: str, ranks: Sequence[Rank], notes: list[str], because: str) -> QueryComparison:
    a, b = ranks
    kind = comparison_kind(a.position, b.position)
    if a.document_only or b.document_only:
        notes.append("document only")
    if because and kind is not ComparisonKind.DRAW:
        notes.append(because)
    return QueryComparison(query_id, kind, a.position, b.position, join_notes(*notes))


def _pairs(queries: SharedQueries, places: ChunkLocations | None, side: int, repeat: int) -> Iterator[Pair]:
    """Each query with its output in one of the runs; with ``places``, its gold is at the locations."""
    for query, output in zip(queries, queries.outputs(side, repeat), strict=True):
        if places is not None and gold_units(query):
            docs = list(chain.from_iterable(location.passages for location in places.expected(query)))
            query = replace(query, relevant_docs=docs or None)  # noqa: PLW2901
        yield query, output


def _id_notes(record_a: RunRecord, record_b: RunRecord, counts: SameIds) -> list[str]:
    versions = zip("AB", chunker_versions(record_a, record_b), strict=True)
    unknown = [name for name, version in versions if version is None]
    # If neither run has a version, there is nothing to note.
    notes = [f"run {name} does not say its chunker_version; chunks are matched by id" for name in unknown]
    notes = notes if len(unknown) == 1 else []
    if counts.different:
        known = counts.same + counts.different
        notes.append(
            f"{counts.different} of {known} ids that both runs retrieved name another text or span in each; chunks are "
            "matched by id"
        )
    if counts.texts:
        notes.append(
            f"{counts.texts} ids that both runs retrieved have several texts in one run, as snippets or other passages "
            "do, and one in the other; chunks are matched by id"
        )
    return notes


def _dataset_notes(run_a: RunOutputs, run_b: RunOutputs) -> Iterator[str]:
    """Which queries expect other chunks, or have another question or reference answer, in the two runs' datasets."""
    if run_a.record.fingerprint == run_b.record.fingerprint:
        return
    before = {sample.sample_id: sample for sample in run_a.samples}
    shared = [sample for sample in run_b.samples if sample.sample_id in before]
    changed = [new.sample_id for new in shared if set(expected_ids(new)) != set(expected_ids(before[new.sample_id]))]
    if changed:
        yield f"the datasets expect other chunks for {format_ids(changed)}; both runs are compared with what B expects"
    changed = [new.sample_id for new in shared if _asked(new) != _asked(before[new.sample_id])]
    if changed:
        yield (
            f"question or reference answer changed between A and B: {format_ids(changed)}; each run has its own scores"
        )


def _asked(sample: EvaluationSample) -> tuple[str, object]:
    return sample.query, sample.reference_answer


def _place_notes(places: ChunkLocations, unlocated: Sequence[str]) -> Iterator[str]:
    if unlocated:
        yield (
            f"not compared, because neither a span nor a parent document of their expected chunks is stored: "
            f"{format_ids(unlocated)}; let the system return parent_id and span"
        )
    if places.unknown:
        yield (
            f"where these expected chunks lie is not known, so any chunk of their document counts: "
            f"{format_ids(sorted(places.unknown))}"
        )
    if places.ambiguous:
        yield (
            f"these expected ids name another passage in each run, and that of {places.first_run} is taken to be "
            f"meant: {format_ids(sorted(places.ambiguous))}"
        )


# --- causes: why a query got worse from one run to the next; exactly one each ----------------------------------------
# A cause is an observed difference, the first that applies in a fixed order. That it made the score worse is likely,
# not proven; ``runs.replay`` measures how much of a difference comes from retrieval and from generation.

_ROUNDING = 1e-12


class Cause(StrEnum):
    """Why a query got worse; where it got better, the same seen from the other side."""

    FAILED = "failed"
    """The second run failed, the first did not."""
    REFUSED = "refused"
    """The second run declined to answer, the first answered."""
    LOST = "lost"
    """The second run returned fewer of the gold documents."""
    RANKED_LOWER = "ranked_lower"
    """It returned as many, and not all of them as far up."""
    ANSWER_CHANGED = "answer_changed"
    """The same documents in the same order, and another answer."""
    IGNORED = "ignored"
    """Gold is ranked as high as before, among other documents, and the answer is worse."""
    CONTEXT_CHANGED = "context_changed"
    """Other documents; whether gold has to do with it is unknown."""
    UNEXPLAINED = "unexplained"
    """None of the compared properties differs."""
    RECOVERED = "recovered"
    """Better: the first run failed, the second did not."""
    ANSWERED = "answered"
    """Better: the first run declined to answer, the second answered."""
    FOUND = "found"
    """Better: the second run returned more of the gold documents."""
    RANKED_HIGHER = "ranked_higher"
    """Better: gold is ranked higher."""
    USED = "used"
    """Better: the first run ranked gold as high, among other documents, and its answer was worse."""


_OPPOSITE = {
    Cause.FAILED: Cause.RECOVERED,
    Cause.REFUSED: Cause.ANSWERED,
    Cause.LOST: Cause.FOUND,
    Cause.RANKED_LOWER: Cause.RANKED_HIGHER,
    Cause.IGNORED: Cause.USED,
}


def opposite_cause(cause: Cause) -> Cause:
    """The cause of the same change when the runs change places."""
    return (_OPPOSITE | {better: worse for worse, better in _OPPOSITE.items()}).get(cause, cause)


class MetricScope(StrEnum):
    """What a metric scores, and so where the cause of a change may lie."""

    ANSWERS = "answers"
    RETRIEVAL = "retrieval"
    """The answer does not affect the score."""
    NEITHER = "neither"
    """Latency, for instance: only a failure can explain a change."""


@dataclass(frozen=True, slots=True)
class QueryChange:
    """A query whose score changed, and why."""

    sample_id: str
    cause: Cause
    a_score: float | None
    b_score: float | None
    """``None`` where the run failed and the metric leaves failures out."""
    a_rank: int | None
    b_rank: int | None
    """The rank of the first gold document; ``None`` where none was returned, or none is annotated."""
    detail: str
    """The evidence for the cause, as a sentence."""


def explain_changes(
    store: RunStore, record_a: RunRecord, record_b: RunRecord, *, metric: str | None = None, worse_only: bool = True
) -> list[QueryChange]:
    """Every query that both runs have and that got worse from run A to run B, with its one cause, in dataset order.

    ``metric`` is the name of a stored result that both have; ``main_metric`` says which is taken without it. Without
    ``worse_only``, queries that got better are listed as well. A query that a run's metric skipped or could not
    measure is left out. Gold is run B's, matched in one way in both runs; the metric is computed again if need be.
    """
    outputs = outputs_cache(store)
    runs = outputs.of(record_a), outputs.of(record_b)
    way = comparison_match(runs, outputs.chunks(record_a, record_b, record_b).change)
    results_a, results_b = (matched_results(run, store.results(run.record.run_id), way) for run in runs)
    scored = main_metric(record_a, results_a, record_b, results_b, metric)
    changes = _score_changes(scored, results_a.sample_ids, results_b.sample_ids, worse_only=worse_only)
    if not changes:
        return []
    queries = SharedQueries(_read_gold(runs[0], way), _read_gold(runs[1], way)).among(changes.keys())
    finder, _ = _gold_finder(way, queries)
    paired = paired_outputs(queries, finder)
    return [_explain(changes[sample_id], output_a, output_b, scored.target) for sample_id, output_a, output_b in paired]


def explain_change(
    output_a: QueryOutput, output_b: QueryOutput, target: TargetCategory, *, is_worse: bool
) -> tuple[Cause, str]:
    """The cause of a change of a query by a metric of the target, and the evidence as a sentence."""
    before, after, names = (output_a, output_b, "AB") if is_worse else (output_b, output_a, "BA")
    cause = cause_of(before, after, _scope_of(target))
    return cause if is_worse else _OPPOSITE.get(cause, cause), _detail(cause, before, after, *names)


def cause_counts(changes: Iterable[QueryChange]) -> dict[Cause, int]:
    """How many queries each cause has, in the order in which causes are looked for; those that have none are absent."""
    counts = Counter(change.cause for change in changes)
    return {cause: counts[cause] for cause in Cause if counts[cause]}


def cause_of(before: QueryOutput, after: QueryOutput, scope: MetricScope = MetricScope.ANSWERS) -> Cause:
    """Why the query is worse ``after``: the first cause that applies."""
    answers = scope is MetricScope.ANSWERS
    if after.failed > before.failed:
        return Cause.FAILED
    if scope is MetricScope.NEITHER:
        return Cause.UNEXPLAINED
    if answers and after.refused > before.refused:
        return Cause.REFUSED
    if before.context is None or after.context is None:
        return Cause.UNEXPLAINED
    if _has_fewer_hits(before.gold, after.gold):
        return Cause.LOST
    if _first_lowered_rank(before.gold, after.gold) is not None:
        return Cause.RANKED_LOWER
    if before.context == after.context:
        return Cause.ANSWER_CHANGED if answers and before.answers != after.answers else Cause.UNEXPLAINED
    if answers and after.answers and after.gold is not None and after.gold.first is not None:
        return Cause.IGNORED
    return Cause.CONTEXT_CHANGED


def _has_fewer_hits(before: GoldRanks | None, after: GoldRanks | None) -> bool:
    """Whether fewer gold documents of some level or above were returned than before."""
    if before is None or after is None:
        return False
    return any(len(ranks) < len(had) for had, ranks in zip(before.levels, after.levels, strict=True))


def _first_lowered_rank(before: GoldRanks | None, after: GoldRanks | None) -> tuple[int, int] | None:
    """The first rank of gold that got lower, before and after; ``None`` if no rank did.

    The first gold document is compared with the first, the second with the second: which document it is does not
    matter as long as they are of the same level.
    """
    if before is None or after is None:
        return None
    for had, ranks in zip(before.levels, after.levels, strict=True):
        for was, is_now in zip(had, ranks, strict=False):
            if is_now > was:
                return was, is_now
    return None


class _ScoreChange(NamedTuple):
    sample_id: str
    a: float | None
    b: float | None
    worse: bool


def _score_changes(
    scored: SharedMetricScores, ids_a: Sequence[str], ids_b: Sequence[str], *, worse_only: bool
) -> dict[str, _ScoreChange]:
    """The samples whose score differs, by their ids."""
    places = {sample_id: place for place, sample_id in enumerate(ids_a)}
    if places.keys().isdisjoint(ids_b):
        raise BadValueError("the two runs have no sample in common, so there is nothing to explain")
    found: dict[str, _ScoreChange] = {}
    for place_b, sample_id in enumerate(ids_b):
        place_a = places.get(sample_id)
        if place_a is None:
            continue
        a, b = scored.first[place_a], scored.second[place_b]
        if a is not None and b is not None:
            gain = (b - a) if scored.higher_is_better else (a - b)
            if abs(gain) <= _ROUNDING * max(1.0, abs(a), abs(b)):
                continue
        # No score in one run: a change only if the system failed there and the metric leaves failures out.
        elif b is None and a is not None and scored.second.status[place_b] == Status.SYSTEM_FAILED:
            gain = -1.0
        elif a is None and b is not None and scored.first.status[place_a] == Status.SYSTEM_FAILED:
            gain = 1.0
        else:
            continue
        if gain < 0 or not worse_only:
            found[sample_id] = _ScoreChange(sample_id, a, b, gain < 0)
    return found


def _scope_of(target: TargetCategory) -> MetricScope:
    if target in (TargetCategory.LATENCY, TargetCategory.COST):
        return MetricScope.NEITHER
    return MetricScope.RETRIEVAL if target.name.startswith("RETRIEVAL") else MetricScope.ANSWERS


def _explain(change: _ScoreChange, output_a: QueryOutput, output_b: QueryOutput, target: TargetCategory) -> QueryChange:
    cause, detail = explain_change(output_a, output_b, target, is_worse=change.worse)
    return QueryChange(
        change.sample_id,
        cause,
        a_score=change.a,
        b_score=change.b,
        a_rank=output_a.first_gold_rank,
        b_rank=output_b.first_gold_rank,
        detail=detail,
    )


def _detail(cause: Cause, before: QueryOutput, after: QueryOutput, better: str, worse: str) -> str:
    """The cause as a sentence that is true whichever run came first."""
    documents = len(after.context or ())
    first, now = before.first_gold_rank, after.first_gold_rank
    match cause:
        case Cause.FAILED:
            proportion = "" if after.failed == 1 else f" {after.failed:.0%} of the times it was asked"
            return f"{worse} failed{proportion} ({after.error})"
        case Cause.REFUSED:
            return f"{better} answered and {worse} declined to"
        case Cause.LOST:
            assert before.gold is not None
            assert after.gold is not None
            had, has = len(before.gold.levels[-1]), len(after.gold.levels[-1])
            if not has:
                return f"{better} has gold at rank {first}, {worse} has none among its {documents} documents"
            if has < had:
                return f"{better} returned {had} gold documents, {worse} {has}"
            return f"{better} returned gold of a higher level than {worse}"
        case Cause.RANKED_LOWER:
            lower = _first_lowered_rank(before.gold, after.gold)
            assert lower is not None
            return f"gold that stands at rank {lower[0]} in {better} stands at rank {lower[1]} in {worse}"
        case Cause.ANSWER_CHANGED:
            return f"the same {documents} documents in the same order, another answer"
        case Cause.IGNORED:
            where = f"at rank {first}" if first is not None else "nowhere"
            return f"{worse} has gold at rank {now} ({better} {where}), among other documents, and made less of it"
        case Cause.CONTEXT_CHANGED:
            why = "no gold is annotated" if after.gold is None else "neither returned gold"
            return f"other documents; {why if first is None and now is None else 'gold stands no lower'}"
        case _:
            if before.context is None or after.context is None:
                return "a run has no answer to look at"
            if before.context == after.context and before.answers == after.answers:
                return "the same documents and the same answer"
            return "what was returned does not explain it"
