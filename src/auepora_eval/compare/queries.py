"""Two runs query by query: where the first expected chunk stood and stands, and what that makes of each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from ..core.collector import collector_paused
from ..core.errors import BadValueError
from ..core.types import EvaluationSample, SystemOutputs
from ..store.records import RunRecord
from ..store.runs import RunStore
from .aggregate import RULES
from .golden import Golden, expected_ids, golden_queries, known_queries, named
from .match import Expected, Places, Rank, rank_by_id, rank_by_place
from .stores import RunAnswers, read_answers
from .types import AggregateMetrics, ComparisonKind, QueryComparison
from .versions import causes, chunker_versions

__all__ = [
    "ChunkerVersionMatch",
    "QueryComparisons",
    "RankMetrics",
    "compare_answers",
    "compare_queries",
    "kind_of",
    "require_same_chunks",
]

ChunkerVersionMatch = Literal["exact", "fallback_doc_span"]
_LONGEST_ERROR = 120
_NAMED = 5


@dataclass(frozen=True, slots=True)
class RankMetrics:
    """Hit rate at each cut-off and mean reciprocal rank, from the ranks that queries were compared by."""

    hit_at_k: Mapping[int, float | None]
    mrr: float | None

    def put_into(self, aggregate: AggregateMetrics) -> AggregateMetrics:
        """The aggregate with these in the place of its own."""
        return replace(aggregate, hit_at_k=self.hit_at_k, mrr=self.mrr)


@dataclass(frozen=True, slots=True)
class QueryComparisons:
    """The queries of two runs held against each other."""

    per_query: list[QueryComparison]
    """Queries that both runs have and that expect a chunk, in the order of the dataset."""
    chunker_version_match: ChunkerVersionMatch
    only_in_a: int
    only_in_b: int
    without_expected_chunk: int
    """Queries of both runs that expect no chunk, or do not say; they are not compared."""
    ranks_a: RankMetrics
    ranks_b: RankMetrics
    samples: list[EvaluationSample] = field(repr=False)
    """The queries of both runs with what is expected of them, which both runs are held against."""
    notes: list[str] = field(default_factory=list)

    @property
    def kinds(self) -> dict[str, int]:
        """How many queries there are of each kind."""
        counted = Counter(query.kind for query in self.per_query)
        return {kind.value: counted[kind] for kind in ComparisonKind}

    def deltas(self) -> dict[str, Any]:
        """What the comparison document says of the queries as a whole."""
        return {
            "chunker_version_match": self.chunker_version_match,
            "only_in_a": self.only_in_a,
            "only_in_b": self.only_in_b,
            "without_expected_chunk": self.without_expected_chunk,
            "kinds": self.kinds,
        }


def kind_of(a: int | None, b: int | None) -> ComparisonKind:
    """What became of a query whose first expected chunk stood at ``a`` and stands at ``b``; ``None`` is a miss."""
    if a == b:
        return ComparisonKind.DRAW
    if b is None:
        return ComparisonKind.REGRESSION
    return ComparisonKind.WIN if a is None or b < a else ComparisonKind.LOSS


@collector_paused()
def compare_queries(
    store: RunStore,
    record_a: RunRecord,
    record_b: RunRecord,
    *,
    golden: Golden | None = None,
    strict_chunker_version: bool = False,
) -> QueryComparisons:
    """Compare two stored runs query by query.

    What is expected is read from ``golden``, else from the samples stored with the runs; where these differ, from those
    of B. Runs whose ``chunker_version`` is the same, or not said, are matched by the ids of chunks; others by place,
    unless ``strict_chunker_version`` refuses to. Where queries were asked several times, the first answers count.
    """
    if strict_chunker_version:
        require_same_chunks(record_a, record_b)
    run_a, run_b = read_answers(store, record_a), read_answers(store, record_b)
    return compare_answers(run_a, run_b, golden=None if golden is None else golden_queries(golden))


def require_same_chunks(record_a: RunRecord, record_b: RunRecord) -> None:
    """Raise where the versions of the chunkers are known to differ."""
    version_a, version_b = chunker_versions(record_a, record_b)
    if None not in (version_a, version_b) and version_a != version_b:
        raise BadValueError(
            f"the runs have different chunks: chunker_version is {version_a} in {record_a.run_id} and {version_b} in "
            f"{record_b.run_id}; leave out the strict chunker version to match chunks by where they lie"
        )


@collector_paused()
def compare_answers(
    run_a: RunAnswers, run_b: RunAnswers, *, golden: Sequence[EvaluationSample] | None = None
) -> QueryComparisons:
    """Compare two runs that have been read."""
    a, b = run_a.record, run_b.record
    notes: list[str] = []
    ids_a, ids_b = run_a.ids, run_b.ids
    if golden is None:
        queries = run_b.samples
        notes += _changed_expectations(run_a, run_b)
    else:
        queries, remarks = known_queries(golden, ids_a | ids_b, where=f"{a.run_id} or {b.run_id}")
        notes += remarks
        ids_a, ids_b = (ids & {query.sample_id for query in queries} for ids in (ids_a, ids_b))
    both = [query for query in queries if query.sample_id in ids_a and query.sample_id in ids_b]
    if not both:
        raise BadValueError(
            f"no query is in both runs: {a.run_id} has {named(sorted(ids_a))}, {b.run_id} has {named(sorted(ids_b))}; "
            "do the two belong together?"
        )
    for name, alone in (("A", ids_a - ids_b), ("B", ids_b - ids_a)):
        if alone:
            notes.append(f"in {name} only, and left out: {named(sorted(alone))}")
    compared = [query for query in both if expected_ids(query)]
    # The golden ids are older than a new chunker; those of B's own dataset are B's.
    b_first = golden is None and a.fingerprint != b.fingerprint
    mode, rank, remarks = _matching(run_a, run_b, compared, b_first=b_first)
    notes += remarks
    ranked_a, ranked_b = _Ranked(run_a, compared, rank), _Ranked(run_b, compared, rank)
    for name, answers in (("A", run_a), ("B", run_b)):
        if len(answers.outputs) > 1:
            notes.append(f"run {name} answered {len(answers.outputs)} times; queries are compared by its first answers")
    because = _because(causes(a, b))
    return QueryComparisons(
        per_query=[_comparison(query.sample_id, ranked_a, ranked_b, because) for query in compared],
        chunker_version_match=mode,
        only_in_a=len(ids_a - ids_b),
        only_in_b=len(ids_b - ids_a),
        without_expected_chunk=len(both) - len(compared),
        ranks_a=ranked_a.metrics(),
        ranks_b=ranked_b.metrics(),
        samples=both,
        notes=notes,
    )


def _because(different: Sequence[str]) -> str:
    """What differs between the runs, by name; the first few of it."""
    if not different:
        return ""
    shown = list(different[:_NAMED])
    if len(different) > _NAMED:
        shown.append(f"and {len(different) - _NAMED} more")
    return f"{', '.join(shown)} differ{'s' if len(different) == 1 else ''}"


RankOf = Callable[[str, SystemOutputs], Rank]


def _matching(
    run_a: RunAnswers, run_b: RunAnswers, queries: Sequence[EvaluationSample], *, b_first: bool
) -> tuple[ChunkerVersionMatch, RankOf, list[str]]:
    """How the chunks of two runs are told to be expected ones, and what there is to say about it."""
    version_a, version_b = chunker_versions(run_a.record, run_b.record)
    if None in (version_a, version_b) or version_a == version_b:
        ids = {query.sample_id: expected_ids(query) for query in queries}
        silent = [name for name, version in (("A", version_a), ("B", version_b)) if version is None]
        remarks = [f"run {name} does not say its chunker_version; chunks are matched by id" for name in silent]
        # Where neither says so, there is nothing to tell the two apart by.
        return "exact", partial(_by_id, ids), remarks if len(silent) == 1 else []
    by_age = sorted([run_a, run_b], key=lambda run: (run.record.created_at, run.record.run_id))
    asked = [run_b, run_a] if b_first else by_age
    places = Places(queries, asked)
    expected = {query.sample_id: places.expected(query) for query in queries}
    return "fallback_doc_span", partial(_by_place, expected), _place_notes(places, asked[0].record.run_id)


def _by_id(expected: Mapping[str, list[str]], query_id: str, output: SystemOutputs) -> Rank:
    return rank_by_id(expected[query_id], output)


def _by_place(expected: Mapping[str, Expected], query_id: str, output: SystemOutputs) -> Rank:
    return rank_by_place(expected[query_id], output)


class _Ranked:
    """The ranks of one run's queries, in each of its repeats."""

    def __init__(
        self,
        run: RunAnswers,
        queries: Sequence[EvaluationSample],
        rank: RankOf,
    ) -> None:
        self._outputs = run.outputs
        self._ranks = [
            {
                query.sample_id: Rank(None)
                if (output := outputs.get(query.sample_id)) is None or output.error is not None
                else rank(query.sample_id, output)
                for query in queries
            }
            for outputs in run.outputs
        ]

    def first(self, query_id: str) -> Rank:
        """The rank in the first repeat."""
        return self._ranks[0][query_id]

    def failure(self, query_id: str) -> str | None:
        """Why a query has no rank in the first repeat, where the system failed."""
        output = self._outputs[0].get(query_id)
        if output is None:
            return "no answer"
        if output.error is None:
            return None
        error = " ".join(output.error.split())
        return error if len(error) <= _LONGEST_ERROR else f"{error[: _LONGEST_ERROR - 1]}…"

    def metrics(self) -> RankMetrics:
        """Over all queries and repeats."""
        found = [rank.position for ranks in self._ranks for rank in ranks.values()]

        def mean(values: list[float]) -> float | None:
            return math.fsum(values) / len(values) if values else None

        return RankMetrics(
            hit_at_k={k: mean([float(one is not None and one <= k) for one in found]) for k in RULES.k_values},
            mrr=mean([0.0 if one is None else 1.0 / one for one in found]),
        )


def _comparison(query_id: str, a: _Ranked, b: _Ranked, because: str) -> QueryComparison:
    rank_a, rank_b = a.first(query_id), b.first(query_id)
    kind = kind_of(rank_a.position, rank_b.position)
    notes = [
        f"failed in {name}: {why}" for name, run in (("A", a), ("B", b)) if (why := run.failure(query_id)) is not None
    ]
    if rank_a.document_only or rank_b.document_only:
        notes.append("document only")
    if because and kind is not ComparisonKind.DRAW:
        notes.append(because)
    return QueryComparison(query_id, kind, rank_a.position, rank_b.position, "; ".join(notes) or None)


def _changed_expectations(run_a: RunAnswers, run_b: RunAnswers) -> list[str]:
    """Which queries expect other chunks in the two runs' datasets."""
    if run_a.record.fingerprint == run_b.record.fingerprint:
        return []
    before = {sample.sample_id: set(expected_ids(sample)) for sample in run_a.samples}
    after = {sample.sample_id: set(expected_ids(sample)) for sample in run_b.samples}
    changed = [query for query, wanted in after.items() if query in before and before[query] != wanted]
    if not changed:
        return []
    return [f"the datasets expect other chunks for {named(changed)}; both runs are held against what B expects"]


def _place_notes(places: Places, first: str) -> list[str]:
    notes = []
    if places.unknown:
        notes.append(
            f"where these expected chunks lie is not known, so any chunk of their document counts: "
            f"{named(sorted(places.unknown))}"
        )
    if places.ambiguous:
        notes.append(
            f"these expected ids name another passage in each run, and that of {first} is taken to be meant: "
            f"{named(sorted(places.ambiguous))}"
        )
    return notes
