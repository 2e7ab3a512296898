"""Two runs compared query by query: the rank of the first expected chunk in each, and a win, loss or draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from ..core.errors import BadValueError
from ..core.gc_pause import gc_paused
from ..core.types import EvaluationSample, SystemOutputs
from ..features.gold_match import GoldDocument, Matching, gold_documents, has_spans
from ..store.records import RunRecord
from ..store.runs import RunStore
from .aggregate import RankMetrics
from .golden import Golden, expected_ids, format_ids, golden_queries, known_queries
from .match import ChunkLocations, Rank, id_or_span, rank_of
from .rechunking import ChunkChange, chunk_change, same_id_counts
from .stores import RunOutputs, read_run_outputs
from .types import ComparisonKind, QueryComparison
from .versions import changed_config_keys, chunker_versions

__all__ = [
    "ChunkerVersionMatch",
    "QueryComparisons",
    "RankMetrics",
    "compare_queries",
    "compare_run_outputs",
    "comparison_kind",
    "require_same_chunks",
]

ChunkerVersionMatch = Literal["exact", "fallback_doc_span"]
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
    ranks_a: RankMetrics
    ranks_b: RankMetrics
    samples: list[EvaluationSample] = field(repr=False)
    """The queries of both runs with the expected chunks that both runs are compared with."""
    notes: list[str] = field(default_factory=list)
    chunks_changed: str | None = None
    """How it is known that the runs have different chunks; ``None`` if they have the same."""

    @property
    def by_rank(self) -> bool:
        """Whether hit rates and MRR are computed from the ranks, because ids alone may not suffice."""
        return self.chunks_changed is not None or any(map(has_spans, self.samples))

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
    run_a, run_b = read_run_outputs(store, record_a), read_run_outputs(store, record_b)
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
) -> QueryComparisons:
    """Compare the outputs of two runs query by query."""
    a, b = run_a.record, run_b.record
    notes: list[str] = []
    ids_a, ids_b = run_a.ids, run_b.ids
    if golden is None:
        queries = run_b.samples
        notes += _changed_expectations(run_a, run_b)
    else:
        queries, more_notes = known_queries(golden, ids_a | ids_b, where=f"{a.run_id} or {b.run_id}")
        notes += more_notes
        ids_a, ids_b = (ids & {query.sample_id for query in queries} for ids in (ids_a, ids_b))
    both = [query for query in queries if query.sample_id in ids_a and query.sample_id in ids_b]
    if not both:
        raise BadValueError(
            f"no query is in both runs: {a.run_id} has {format_ids(sorted(ids_a))}, "
            f"{b.run_id} has {format_ids(sorted(ids_b))}; "
            "do the two belong together?"
        )
    for name, alone in (("A", ids_a - ids_b), ("B", ids_b - ids_a)):
        if alone:
            notes.append(f"in {name} only, and left out: {format_ids(sorted(alone))}")
    expecting = [query for query in both if expected_ids(query)]
    change = chunk_change(run_a, run_b, expecting)
    if change is not None and change.gold_only:
        change = None  # the gold has spans, which the runs are matched by where ids do not
    if change is not None and strict_chunker_version:
        raise _different_chunks(a, b, change.reason)
    # The golden ids are older than a new chunker; those of B's own dataset are B's.
    b_first = golden is None and a.fingerprint != b.fingerprint
    expected, more_notes = _expected_gold(run_a, run_b, expecting, change, b_first=b_first)
    notes += more_notes
    compared = [query for query in expecting if expected[query.sample_id]]
    matching = {query.sample_id: _matching(query, expected, (run_a, run_b), change) for query in compared}
    rank = partial(_rank, expected, matching)
    ranked_a, ranked_b = _RunRanks(run_a, compared, rank), _RunRanks(run_b, compared, rank)
    for name, answers in (("A", run_a), ("B", run_b)):
        if len(answers.outputs) > 1:
            notes.append(f"run {name} answered {len(answers.outputs)} times; queries are compared by its first answers")
    because = _causes_note(changed_config_keys(a, b))
    return QueryComparisons(
        per_query=[_comparison(query.sample_id, ranked_a, ranked_b, because) for query in compared],
        chunker_version_match="exact" if change is None else "fallback_doc_span",
        only_in_a=len(ids_a - ids_b),
        only_in_b=len(ids_b - ids_a),
        without_expected_chunk=len(both) - len(expecting),
        without_place=len(expecting) - len(compared),
        ranks_a=ranked_a.metrics(),
        ranks_b=ranked_b.metrics(),
        samples=both
        if change is None or change.parents_known
        else [_with_known_gold(query, expected) for query in both],
        notes=notes,
        chunks_changed=None if change is None else change.reason,
    )


def _causes_note(different: Sequence[str]) -> str:
    """The names of the first few configuration keys that differ between the runs, as a note."""
    if not different:
        return ""
    shown = list(different[:_MAX_CAUSES_SHOWN])
    if len(different) > _MAX_CAUSES_SHOWN:
        shown.append(f"and {len(different) - _MAX_CAUSES_SHOWN} more")
    return f"{', '.join(shown)} differ{'s' if len(different) == 1 else ''}"


RankFunction = Callable[[str, SystemOutputs], Rank]


def _matching(
    query: EvaluationSample,
    expected: Mapping[str, list[GoldDocument]],
    runs: Sequence[RunOutputs],
    change: ChunkChange | None,
) -> Matching:
    """How the chunks of both runs are matched with the expected chunks of a query."""
    if change is not None:
        return "place"
    if not has_spans(query):
        return "id"
    return id_or_span(
        expected[query.sample_id], [outputs.get(query.sample_id) for run in runs for outputs in run.outputs]
    )


def _expected_gold(
    run_a: RunOutputs,
    run_b: RunOutputs,
    queries: Sequence[EvaluationSample],
    change: ChunkChange | None,
    *,
    b_first: bool,
) -> tuple[dict[str, list[GoldDocument]], list[str]]:
    """The gold of each query, and notes on it."""
    if change is None:
        return {query.sample_id: gold_documents(query) for query in queries}, _id_notes(run_a, run_b)
    by_age = sorted([run_a, run_b], key=lambda run: (run.record.created_at, run.record.run_id))
    ordered = [run_b, run_a] if b_first else by_age
    places = ChunkLocations(queries, ordered, ids_reused=change.ids_reused)
    expected = {query.sample_id: places.expected(query) for query in queries}
    notes = [] if change.by_version else [_change_note(change)]
    return expected, notes + _place_notes(places, expected, ordered[0].record.run_id)


def _with_known_gold(query: EvaluationSample, expected: Mapping[str, list[GoldDocument]]) -> EvaluationSample:
    """The query with its gold replaced by known locations, so that documents can be compared instead of ids."""
    if query.sample_id not in expected:
        return query
    docs = [passage for one in expected[query.sample_id] for passage in one.passages]
    return replace(query, relevant_docs=docs or None)


def _change_note(change: ChunkChange) -> str:
    return (
        f"the chunks changed between the runs ({change.reason}): chunks are matched by where they lie in their "
        "documents, and there is no verdict on metrics that go by the ids of chunks"
    )


def _id_notes(run_a: RunOutputs, run_b: RunOutputs) -> list[str]:
    versions = zip("AB", chunker_versions(run_a.record, run_b.record), strict=True)
    unknown = [name for name, version in versions if version is None]
    # If neither run has a version, there is nothing to note.
    notes = [f"run {name} does not say its chunker_version; chunks are matched by id" for name in unknown]
    notes = notes if len(unknown) == 1 else []
    counts = same_id_counts(run_a, run_b)
    if counts.different:
        known = counts.same + counts.different
        notes.append(
            f"{counts.different} of {known} ids that both runs retrieved name another text or span in each; chunks are "
            "matched by id"
        )
    return notes


def _rank(
    expected: Mapping[str, list[GoldDocument]], matching: Mapping[str, Matching], query_id: str, output: SystemOutputs
) -> Rank:
    return rank_of(expected[query_id], output, matching[query_id])


class _RunRanks:
    """The ranks of one run's queries, in each of its repeats."""

    def __init__(
        self,
        run: RunOutputs,
        queries: Sequence[EvaluationSample],
        rank: RankFunction,
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
        return RankMetrics.of([rank.position for ranks in self._ranks for rank in ranks.values()])


def _comparison(query_id: str, a: _RunRanks, b: _RunRanks, because: str) -> QueryComparison:
    rank_a, rank_b = a.first(query_id), b.first(query_id)
    kind = comparison_kind(rank_a.position, rank_b.position)
    notes = [
        f"failed in {name}: {why}" for name, run in (("A", a), ("B", b)) if (why := run.failure(query_id)) is not None
    ]
    if rank_a.document_only or rank_b.document_only:
        notes.append("document only")
    if because and kind is not ComparisonKind.DRAW:
        notes.append(because)
    return QueryComparison(query_id, kind, rank_a.position, rank_b.position, "; ".join(notes) or None)


def _changed_expectations(run_a: RunOutputs, run_b: RunOutputs) -> list[str]:
    """Which queries expect other chunks in the two runs' datasets."""
    if run_a.record.fingerprint == run_b.record.fingerprint:
        return []
    before = {sample.sample_id: set(expected_ids(sample)) for sample in run_a.samples}
    after = {sample.sample_id: set(expected_ids(sample)) for sample in run_b.samples}
    changed = [query for query, expected in after.items() if query in before and before[query] != expected]
    if not changed:
        return []
    return [f"the datasets expect other chunks for {format_ids(changed)}; both runs are compared with what B expects"]


def _place_notes(places: ChunkLocations, expected: Mapping[str, list[GoldDocument]], first: str) -> list[str]:
    notes = []
    unlocated = [query_id for query_id, golds in expected.items() if not golds]
    if unlocated:
        notes.append(
            f"not compared, because neither a span nor a parent document of their expected chunks is stored: "
            f"{format_ids(unlocated)}; let the system return parent_id and span"
        )
    if places.unknown:
        notes.append(
            f"where these expected chunks lie is not known, so any chunk of their document counts: "
            f"{format_ids(sorted(places.unknown))}"
        )
    if places.ambiguous:
        notes.append(
            f"these expected ids name another passage in each run, and that of {first} is taken to be meant: "
            f"{format_ids(sorted(places.ambiguous))}"
        )
    return notes
