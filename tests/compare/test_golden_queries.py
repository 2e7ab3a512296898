"""Two runs query by query: kinds, notes, what is left out, and runs whose chunks were cut anew."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval.compare import ComparisonKind, QueryComparison, compare_queries
from auepora_eval.compare.golden import aggregate_of
from auepora_eval.compare.queries import QueryComparisons, compare_run_outputs, comparison_kind
from auepora_eval.compare.stores import RunOutputs, select_outputs
from auepora_eval.core.types import EvaluationSample, Response, SystemOutputs
from auepora_eval.errors import BadValueError
from auepora_eval.io.golden import dataset_fingerprint
from auepora_eval.store import RunRecord, RunStatus, RunStore, StoredOutput
from helpers.golden_runs import chunk, found, found_at, golden, put_run

WIN, LOSS, DRAW, REGRESSION = (
    ComparisonKind.WIN,
    ComparisonKind.LOSS,
    ComparisonKind.DRAW,
    ComparisonKind.REGRESSION,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with RunStore.open(tmp_path / "runs.sqlite") as opened:
        yield opened


def answers(name: str, queries: list[EvaluationSample], *repeats: Sequence[SystemOutputs], **given: Any) -> RunOutputs:
    """A run as it is read, without a store."""
    record = RunRecord(
        run_id=f"run_{name}",
        name=name,
        status=RunStatus.FINISHED,
        created_at=given.pop("created_at", datetime(2026, 1, 1, tzinfo=UTC)),
        finished_at=None,
        plan={},
        config=given.pop("config", {}),
        dataset_name="golden",
        fingerprint=dataset_fingerprint(queries),
        num_samples=len(queries),
        repeats=len(repeats),
        commit=None,
        tags=(),
        version="1",
        process="here:1",
        **given,
    )
    rows = [
        StoredOutput(position, repeat, queries[position].sample_id, one)
        for repeat, each in enumerate(repeats)
        for position, one in enumerate(each)
        if one is not None
    ]
    return RunOutputs(record, queries, partial(select_outputs, rows), len(rows))


# --- kinds -----------------------------------------------------------------------------------------------------------

KINDS: list[tuple[int | None, int | None, ComparisonKind, str]] = [
    (None, 10, WIN, "found now"),
    (4, 2, WIN, "further up"),
    (2, 4, LOSS, "further down"),
    (1, None, REGRESSION, "found no more"),
    (3, 3, DRAW, "at the same rank"),
    (None, None, DRAW, "found in neither"),
]


@pytest.mark.parametrize(("a", "b", "want", "why"), KINDS, ids=[row[3] for row in KINDS])
def test_kinds_in_stored_runs(store: RunStore, a: int | None, b: int | None, want: ComparisonKind, why: str) -> None:
    queries = [golden("q", "gold")]
    first, second = put_run(store, "a", queries, [found_at(a)]), put_run(store, "b", queries, [found_at(b)])
    compared = compare_queries(store, first, second)
    assert compared.per_query == [QueryComparison("q", want, a, b)]
    assert compared.chunker_version_match == "exact"
    assert compared.kinds == {kind.value: int(kind is want) for kind in ComparisonKind}


ranks = st.none() | st.integers(1, 10)


@given(ranks, ranks)
def test_the_kinds_are_a_partition(a: int | None, b: int | None) -> None:
    both = a is not None and b is not None
    holds = {
        WIN: (a is None and b is not None) or (both and b < a),  # type: ignore[operator]
        LOSS: both and b > a,  # type: ignore[operator]
        REGRESSION: a is not None and b is None,
        DRAW: a == b,
    }
    assert [kind for kind, true in holds.items() if true] == [comparison_kind(a, b)]


@given(st.lists(st.tuples(ranks | st.just(-1), ranks | st.just(-1)), min_size=1, max_size=12))
def test_every_query_has_one_kind_and_swapping_the_runs_mirrors_them(
    pairs: list[tuple[int | None, int | None]],
) -> None:
    queries = [golden(f"q{n}", "gold") for n in range(len(pairs))]

    def outputs(side: int) -> list[SystemOutputs]:
        return [found(error="down") if pair[side] == -1 else found_at(pair[side]) for pair in pairs]

    a, b = answers("a", queries, outputs(0)), answers("b", queries, outputs(1))
    there, back = compare_run_outputs(a, b), compare_run_outputs(b, a)
    assert [one.query_id for one in there.per_query] == [query.sample_id for query in queries]
    assert sum(there.kinds.values()) == len(pairs)
    mirrored = {WIN: {LOSS, REGRESSION}, LOSS: {WIN}, REGRESSION: {WIN}, DRAW: {DRAW}}
    for one, other in zip(there.per_query, back.per_query, strict=True):
        assert (one.a_hit_rank, one.b_hit_rank) == (other.b_hit_rank, other.a_hit_rank)
        assert other.kind in mirrored[one.kind]
    # Ranks and the metrics of the same name tell one story.
    for run, found_ranks in ((a, there.ranks_a), (b, there.ranks_b)):
        aggregate = aggregate_of(run, queries)
        assert found_ranks.hit_at_k == aggregate.hit_at_k
        assert found_ranks.mrr == aggregate.mrr


# --- what is left out, and notes -------------------------------------------------------------------------------------


def test_failed_query_has_no_rank_and_a_note(store: RunStore) -> None:
    queries = [golden("q", "gold"), golden("r", "gold"), golden("s", "gold")]
    a = put_run(store, "a", queries, [found_at(1), found("gold", error="timeout: 30 s\n| more"), found_at(2)])
    b = put_run(store, "b", queries, [found("gold", error="raised: ValueError"), found_at(3), None])
    compared = compare_queries(store, a, b).per_query
    assert [(one.kind, one.a_hit_rank, one.b_hit_rank) for one in compared] == [
        (REGRESSION, 1, None),
        (WIN, None, 3),
        (REGRESSION, 2, None),
    ]
    assert [one.note for one in compared] == [
        "failed in B: raised: ValueError",
        "failed in A: timeout: 30 s | more",
        "failed in B: no answer",
    ]


def test_queries_of_one_run_and_queries_without_an_expected_chunk_are_counted(store: RunStore) -> None:
    shared = [golden("both", "gold"), golden("none"), EvaluationSample("bare", "why?")]
    in_a, in_b = [*shared, golden("a1", "gold"), golden("a2", "gold")], [golden("b1", "gold"), *shared]
    a = put_run(store, "a", in_a, [found_at(1) for _ in in_a])
    b = put_run(store, "b", in_b, [found_at(1) for _ in in_b])
    compared = compare_queries(store, a, b)
    assert [one.query_id for one in compared.per_query] == ["both"]
    assert (compared.only_in_a, compared.only_in_b, compared.without_expected_chunk) == (2, 1, 2)
    assert compared.notes == ["in A only, and left out: 'a1', 'a2'", "in B only, and left out: 'b1'"]


def test_no_common_query_is_an_error(store: RunStore) -> None:
    a = put_run(store, "a", [golden("x", "gold")], [found_at(1)])
    b = put_run(store, "b", [golden("y", "gold")], [found_at(1)])
    with pytest.raises(BadValueError, match="no query is in both runs: run_a has 'x', run_b has 'y'"):
        compare_queries(store, a, b)


def test_causes_are_named_where_something_changed(store: RunStore) -> None:
    queries = [golden("q", "gold"), golden("r", "gold")]
    one = {"chunker_version": 3, "embedding": "e5", "model": "m", "prompt_version": "1", "host": "here"}
    two = {"chunker_version": "3", "embedding": "bge", "model": "m", "prompt_version": "2", "host": "there"}
    a = put_run(store, "a", queries, [found_at(1), found_at(2)], config=one)
    b = put_run(store, "b", queries, [found_at(2), found_at(2)], config=two)
    compared = compare_queries(store, a, b, strict_chunker_version=True)  # 3 and "3" are one version
    assert compared.chunker_version_match == "exact"
    assert [one.note for one in compared.per_query] == ["embedding, host, prompt_version differ", None]


def test_every_key_that_differs_is_a_cause_the_first_few_named(store: RunStore) -> None:
    queries = [golden("q", "gold")]
    keys = ["model", "retriever", "chunk_size", "prompt_version", "reranker", "alpha", "beta"]
    a = put_run(store, "a", queries, [found_at(1)], config=dict.fromkeys(keys, 1))
    b = put_run(store, "b", queries, [found_at(2)], config={"model": 2, "retriever": 2, **dict.fromkeys(keys[2:], 1)})
    c = put_run(store, "c", queries, [found_at(2)], config=dict.fromkeys(keys, 2))
    assert [one.note for one in compare_queries(store, a, b).per_query] == ["retriever, model differ"]
    assert [one.note for one in compare_queries(store, a, c).per_query] == [
        "retriever, reranker, alpha, beta, chunk_size, and 2 more differ"
    ]


def test_golden_queries_given_decide_for_both_runs(store: RunStore) -> None:
    queries = [golden("q", "gold"), golden("r", "gold")]
    a = put_run(store, "a", queries, [found("x", "y"), found("gold")])
    b = put_run(store, "b", queries, [found("y", "x"), found("gold")])
    compared = compare_queries(store, a, b, golden=[golden("strange", "z"), golden("q", "y")])
    assert compared.per_query == [QueryComparison("q", WIN, 2, 1)]
    assert compared.notes == [
        "1 golden query is unknown to run_a or run_b, left out: 'strange'",
        "1 query is in run_a or run_b and not among the golden ones, left out: 'r'",
    ]
    assert (compared.only_in_a, compared.only_in_b) == (0, 0)


def test_changed_questions_are_named(store: RunStore) -> None:
    old = [golden("q", "x"), golden("r", "x"), golden("s", "x")]
    new = [old[0], replace(old[1], query="another question"), replace(old[2], reference_answer=Response("new"))]
    a, b = (put_run(store, name, queries, [found("x")] * 3) for name, queries in (("a", old), ("b", new)))
    (note,) = compare_queries(store, a, b).notes
    assert note == "question or reference answer changed between A and B: 'r', 's'; each run has its own scores"
    assert compare_queries(store, a, a).notes == []


def test_different_expected_chunks_use_those_of_b(store: RunStore) -> None:
    a = put_run(store, "a", [golden("q", "old"), golden("r", "same")], [found("old", "new"), found("same")])
    b = put_run(store, "b", [golden("q", "new"), golden("r", "same")], [found("new"), found("same")])
    compared = compare_queries(store, a, b)
    assert compared.per_query[0] == QueryComparison("q", WIN, 2, 1)
    assert compared.notes == ["the datasets expect other chunks for 'q'; both runs are compared with what B expects"]


def test_repeats_are_compared_by_their_first_answers(store: RunStore) -> None:
    queries = [golden("q", "gold")]
    a = put_run(store, "a", queries, [found_at(2)], [found_at(None)])
    b = put_run(store, "b", queries, [found_at(1)])
    compared = compare_queries(store, a, b)
    assert compared.per_query == [QueryComparison("q", WIN, 2, 1)]
    assert compared.ranks_a.mrr == 1 / 4
    assert compared.notes == ["run A answered 2 times; queries are compared by its first answers"]


# --- chunks that were cut anew ---------------------------------------------------------------------------------------

OLD, NEW = {"chunker_version": "1"}, {"chunker_version": "2"}
TEXT = 1000
"""The length of each document."""


def cut(document: str, size: int, prefix: str) -> list[Any]:
    """A document's chunks of that size."""
    return [chunk(f"{prefix}{document}{n}", document, (n, min(n + size, TEXT))) for n in range(0, TEXT, size)]


def test_rechunked_corpus_is_compared_by_location(store: RunStore) -> None:
    old = {one.doc_id: one for document in "ABC" for one in cut(document, 100, "old-")}
    new = {one.doc_id: one for document in "ABC" for one in cut(document, 250, "new-")}
    assert not old.keys() & new.keys()
    queries = [golden("q", "old-A300"), golden("r", "old-B0"), golden("s", "old-C900"), golden("t", "old-A700")]
    a = put_run(
        store,
        "a",
        queries,
        [found(old["old-A300"]), found(old["old-C0"], old["old-B0"]), found(old["old-C900"]), found(old["old-A700"])],
        config=OLD,
    )
    b = put_run(
        store,
        "b",
        queries,
        [found(new["new-A250"]), found(new["new-B0"]), found(new["new-C0"]), found(new["new-B0"], new["new-A500"])],
        config=NEW,
    )
    compared = compare_queries(store, a, b)
    assert compared.chunker_version_match == "fallback_doc_span"
    assert compared.per_query == [
        QueryComparison("q", DRAW, 1, 1),
        QueryComparison("r", WIN, 2, 1, "chunker_version differs"),
        QueryComparison("s", REGRESSION, 1, None, "chunker_version differs"),
        QueryComparison("t", LOSS, 1, 2, "chunker_version differs"),
    ]
    assert compared.notes == []
    assert compared.ranks_b.hit_at_k == {1: 1 / 2, 3: 3 / 4, 5: 3 / 4, 10: 3 / 4}
    assert compared.ranks_b.mrr == (1 + 1 + 0 + 1 / 2) / 4
    # The other way round it is the mirror image: the ids are still those of the older run.
    mirrored = compare_queries(store, b, a).per_query
    assert [one.kind for one in mirrored] == [DRAW, LOSS, WIN, WIN]


def test_different_chunker_is_refused_if_strict(store: RunStore) -> None:
    queries = [golden("q", "gold")]
    a = put_run(store, "a", queries, [found_at(1)], config=OLD)
    b = put_run(store, "b", queries, [found_at(1)], config=NEW)
    with pytest.raises(BadValueError, match="chunker_version is 1 in run_a and 2 in run_b"):
        compare_queries(store, a, b, strict_chunker_version=True)


def test_unknown_version_is_matched_by_id(store: RunStore) -> None:
    queries = [golden("q", "gold")]
    a = put_run(store, "a", queries, [found_at(1)], config=OLD)
    b = put_run(store, "b", queries, [found_at(1)])
    compared = compare_queries(store, a, b, strict_chunker_version=True)
    assert compared.chunker_version_match == "exact"
    assert compared.notes == ["run B does not say its chunker_version; chunks are matched by id"]


EARLY, LATE = (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day) for day in (0, 1))


def by_place(query: EvaluationSample, a: SystemOutputs, b: SystemOutputs, **given: Any) -> QueryComparisons:
    """One query of two runs with different chunkers, of which A is the older."""
    return compare_run_outputs(
        answers("a", [query], [a], config=OLD, created_at=EARLY),
        answers("b", [query], [b], config=NEW, created_at=LATE),
        **given,
    )


def ranks_of(compared: QueryComparisons) -> tuple[int | None, int | None, str | None]:
    (one,) = compared.per_query
    return one.a_hit_rank, one.b_hit_rank, one.note


PLACES: list[tuple[EvaluationSample, SystemOutputs, SystemOutputs, tuple[int | None, int | None, bool], str]] = [
    # query, A's hits, B's hits, (rank in A, rank in B, document only), why
    (
        golden("q", chunk("c", "A", (0, 100))),
        found("elsewhere"),
        found("x", chunk("n", "A", (0, 200))),
        (None, 2, False),
        "the golden query's own span, though no run found the chunk",
    ),
    (
        golden("q", "c"),
        found("x", chunk("n", "A", (0, 200))),
        found(chunk("c", "A", (0, 100))),
        (2, 1, False),
        "the span of a hit of the other run",
    ),
    (
        golden("q", "c"),
        found(chunk("c", "A", (0, 100))),
        found(chunk("c", "A", (500, 600)), chunk("d", "A", (50, 150))),
        (1, 2, False),
        "an id that names another passage now is no hit",
    ),
    (
        golden("q", chunk("c", "A")),
        found("x", chunk("n", "A", (0, 200))),
        found(chunk("m", "A", (500, 600))),
        (2, 1, True),
        "no expected span: the document suffices",
    ),
    (
        golden("q", chunk("c", "A", (0, 100))),
        found(chunk("c", "A", (0, 100))),
        found(chunk("m", "A")),
        (1, 1, True),
        "no span in a hit: the document suffices",
    ),
    (
        golden("q", "c", expected_doc_ids=["A"]),
        found("x", chunk("n", "A", (0, 200))),
        found(chunk("m", "B", (0, 9))),
        (2, None, True),
        "a place nobody knows: the expected documents stand in",
    ),
    (
        golden("q", "c", "gone", expected_doc_ids=["A", "B"]),
        found(chunk("c", "A", (0, 100))),
        found(chunk("m", "A", (500, 600)), chunk("n", "B", (0, 9))),
        (1, 2, True),
        "a known chunk's document does not stand in for the unknown one",
    ),
    (
        golden("q", "A"),
        found("x", "A"),
        found(chunk("m", "A", (0, 9))),
        (2, 1, True),
        "whole documents are their own parents",
    ),
    (
        golden("q", chunk("c", "A")),
        found(chunk("c", "A", (0, 100))),
        found(chunk("m", "A", (500, 600)), chunk("n", "A", (0, 60))),
        (1, 2, False),
        "the golden query knows the document, a hit the span",
    ),
    (
        golden("q", chunk("c", span=(0, 100))),
        found(chunk("c", "A", (0, 100))),
        found(chunk("n", "A", (0, 60))),
        (1, 1, False),
        "the golden query knows the span, a hit the document",
    ),
]


@pytest.mark.parametrize(("query", "a", "b", "want", "why"), PLACES, ids=[row[4] for row in PLACES])
def test_locations(
    query: EvaluationSample,
    a: SystemOutputs,
    b: SystemOutputs,
    want: tuple[int | None, int | None, bool],
    why: str,
) -> None:
    rank_a, rank_b, note = ranks_of(by_place(query, a, b))
    assert (rank_a, rank_b) == want[:2]
    assert ("document only" in (note or "")) is want[2]


def test_note_on_unknown_locations() -> None:
    unknown = by_place(golden("q", "c", expected_doc_ids=["A"]), found(chunk("n", "A", (0, 9))), found("x"))
    assert unknown.notes == ["where these expected chunks lie is not known, so any chunk of their document counts: 'c'"]
    moved = by_place(golden("q", "c"), found(chunk("c", "A", (0, 9))), found(chunk("c", "A", (10, 19))))
    assert moved.notes == [
        "these expected ids name another passage in each run, and that of run_a is taken to be meant: 'c'"
    ]


def test_the_ids_of_a_changed_dataset_are_those_of_b() -> None:
    before, after = chunk("c1", "A", (0, 100)), chunk("c1", "A", (500, 900))
    a = answers("a", [golden("q", "c1", note="old")], [found(before)], config=OLD, created_at=EARLY)
    b = answers("b", [golden("q", "c1", note="new")], [found(after)], config=NEW, created_at=LATE)
    assert ranks_of(compare_run_outputs(a, b))[:2] == (None, 1)


def test_levels_below_one_are_not_expected() -> None:
    query = golden("q", "gold", "judged")
    assert query.relevant_docs is not None
    query.relevant_docs[1].metadata["relevance"] = 0
    compared = compare_run_outputs(
        answers("a", [query], [found("judged")]), answers("b", [query], [found("x", "gold")])
    )
    assert ranks_of(compared) == (None, 2, None)


def test_comparing_twice_gives_the_same(store: RunStore) -> None:
    queries = [golden(f"q{n}", "gold") for n in range(20)]
    a = put_run(store, "a", queries, [found_at(n % 7 or None) for n in range(20)], config=OLD)
    b = put_run(store, "b", queries, [found_at(n % 5 or None) for n in range(20)], config=NEW)
    once, again = compare_queries(store, a, b), compare_queries(store, a, b)
    assert once == again
    assert Counter(one.kind for one in once.per_query) == Counter(
        {kind: once.kinds[kind.value] for kind in ComparisonKind}
    )
