"""Where an expected chunk stands: by id, and by place after the chunks were cut anew."""

import pytest

from auepora_eval.compare.match import Expected, Rank, Span, rank_by_id, rank_by_place, shares_half
from auepora_eval.core.types import Document, SystemOutputs
from helpers.golden_runs import chunk, found

SPANS: list[tuple[Span, Span, bool, str]] = [
    ((0, 100), (50, 150), True, "exactly half of both"),
    ((0, 100), (51, 151), False, "a character less than half"),
    ((0, 1000), (900, 920), True, "a small chunk within a large one"),
    ((0, 1000), (990, 1010), True, "half of the shorter"),
    ((0, 1000), (991, 1011), False, "less than half of the shorter"),
    ((0, 100), (0, 100), True, "the same"),
    ((0, 100), (100, 200), False, "neighbours share nothing"),
    ((0, 1), (0, 1), True, "a single character"),
    ((0, 3), (2, 5), False, "one of three"),
    ((5, 5), (0, 100), False, "an empty span shares nothing"),
]


@pytest.mark.parametrize(("one", "other", "want", "why"), SPANS, ids=[row[3] for row in SPANS])
def test_half_of_the_shorter_span(one: Span, other: Span, want: bool, why: str) -> None:
    assert shares_half(one, other) is shares_half(other, one) is want


BY_ID: list[tuple[str, list[str], int | None, str]] = [
    ("ab", ["x", "b", "a"], 2, "the first of any expected chunk"),
    ("a", ["a", "a"], 1, "a repeat changes nothing"),
    ("a", ["x", "x", "a"], 3, "a repeat occupies its position"),
    ("a", [], None, "nothing returned"),
    ("a", [*"bcdefghij", "a"], 10, "the tenth position counts"),
    ("a", [*"bcdefghijk", "a"], None, "the eleventh does not"),
]


@pytest.mark.parametrize(("wanted", "hits", "want", "why"), BY_ID, ids=[row[3] for row in BY_ID])
def test_rank_by_id(wanted: str, hits: list[str], want: int | None, why: str) -> None:
    assert rank_by_id(wanted, found(*hits)) == Rank(want)


PLACES: list[tuple[Expected, list[Document], Rank, str]] = [
    (Expected((("A", (0, 100)),), frozenset()), [chunk("n1", "A", (40, 400))], Rank(1), "a new chunk over the old place"),
    (Expected((("A", (0, 100)),), frozenset()), [chunk("n1", "B", (0, 100))], Rank(None), "another document"),
    (Expected((("A", (0, 100)),), frozenset()), [chunk("n1", "A", (90, 400))], Rank(None), "another place"),
    (
        Expected((("A", (0, 100)),), frozenset()),
        [chunk("n0", "A", (90, 400)), chunk("n1", "A", (0, 60))],
        Rank(2),
        "the first that shares enough",
    ),
    (Expected((("A", (0, 100)),), frozenset()), [chunk("n1", "A")], Rank(1, True), "a hit without a span"),
    (Expected((("A", (0, 100)),), frozenset()), [chunk("n1", "A", (7, 7))], Rank(1, True), "a hit with an empty span"),
    (Expected((), frozenset("A")), [chunk("n1", "A", (0, 9))], Rank(1, True), "an expected chunk without a span"),
    (Expected((), frozenset("A")), [chunk("A")], Rank(1, True), "a whole document is its own parent"),
    (
        Expected((("A", (0, 100)), ("A", (500, 600))), frozenset("B")),
        [chunk("x", "A", (200, 300)), chunk("y", "A", (550, 800))],
        Rank(2),
        "any of several expected spans",
    ),
    (
        Expected((("A", (0, 100)),), frozenset("A")),
        [chunk("x", "A", (0, 100))],
        Rank(1),
        "the span decides before the document",
    ),
    (
        Expected((("A", (0, 9)),), frozenset()),
        [chunk(f"x{n}", "B", (0, 9)) for n in range(10)] + [chunk("n", "A", (0, 9))],
        Rank(None),
        "beyond the tenth",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "hits", "want", "why"), PLACES, ids=[row[3] for row in PLACES])
def test_rank_by_place(expected: Expected, hits: list[Document], want: Rank, why: str) -> None:
    output: SystemOutputs = found(*hits)
    assert rank_by_place(expected, output) == want
