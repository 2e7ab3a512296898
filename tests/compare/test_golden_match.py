"""Where an expected chunk stands: by id, and by place after the chunks were cut anew."""

import pytest

from auepora_eval.compare.golden import Rank, rank_of
from auepora_eval.core.types import Document, SystemOutputs
from auepora_eval.features.matching import GoldUnit, Matching
from helpers.golden_runs import chunk, found


def rank(gold: list[Document], hits: list[str | Document], matching: Matching) -> Rank:
    output: SystemOutputs = found(*hits)
    return rank_of([GoldUnit(one.doc_id, 1, (one,)) for one in gold], output, matching)


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
    assert rank([chunk(one) for one in wanted], list(hits), "id") == Rank(want)


GOLD = chunk("c", "A", (0, 100))
SPAN, DOCUMENT = Rank(1, by_span=True), Rank(1, document_only=True)

PLACES: list[tuple[list[Document], list[Document], Rank, str]] = [
    ([GOLD], [chunk("n", "A", (40, 400))], SPAN, "a new chunk over more than half of the passage"),
    ([GOLD], [chunk("n", "A", (51, 400))], SPAN, "49 %: room for halves of unequal lengths"),
    ([GOLD], [chunk("n", "A", (55, 400))], SPAN, "exactly 45 %"),
    ([GOLD], [chunk("n", "A", (56, 400))], Rank(None), "a character less"),
    ([GOLD], [chunk("n", "A", (10, 30))], Rank(None), "a small chunk within it"),
    ([GOLD], [chunk("n", "A", (0, 30)), chunk("m", "A", (60, 90))], Rank(2, by_span=True), "two that together cover enough"),
    ([GOLD], [chunk("n", "A", (0, 30)), chunk("m", "A", (0, 40))], Rank(None), "characters count once"),
    ([GOLD], [chunk("n", "A", (0, 30)), chunk("m", "B", (30, 90))], Rank(None), "another document does not add to it"),
    ([GOLD], [chunk("c", "A", (500, 600))], Rank(None), "the same id says nothing"),
    ([GOLD], [chunk("n", "B", (0, 100))], Rank(None), "another document"),
    ([GOLD], [chunk("n", "A")], DOCUMENT, "a hit without a span"),
    ([GOLD], [chunk("n", "A", (7, 7))], DOCUMENT, "a hit with an empty span"),
    ([chunk("c", "A")], [chunk("n", "A", (0, 9))], DOCUMENT, "an expected chunk without a span"),
    ([chunk("A")], [chunk("A")], DOCUMENT, "a whole document is its own parent"),
    (
        [GOLD, chunk("d", "A", (500, 600)), chunk("B")],
        [chunk("x", "A", (200, 300)), chunk("y", "A", (550, 800))],
        Rank(2, by_span=True),
        "any of several expected spans",
    ),
    ([GOLD, chunk("A")], [chunk("x", "A", (0, 100))], SPAN, "the span decides before the document"),
    (
        [GOLD],
        [chunk(f"x{n}", "B", (0, 9)) for n in range(10)] + [chunk("n", "A", (0, 99))],
        Rank(None),
        "beyond the tenth",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("gold", "hits", "want", "why"), PLACES, ids=[row[3] for row in PLACES])
def test_rank_by_location(gold: list[Document], hits: list[Document], want: Rank, why: str) -> None:
    assert rank(gold, list(hits), "place") == want


BY_ID_OR_SPAN: list[tuple[list[Document], list[Document], Rank, str]] = [
    ([GOLD], [chunk("x"), chunk("c", "A", (0, 100))], Rank(2), "the id"),
    ([GOLD], [chunk("x"), chunk("c")], Rank(2), "the id, a span being unknown"),
    ([GOLD], [chunk("n", "A", (0, 90)), chunk("c", "A", (0, 100))], Rank(2), "the id goes before the span"),
    ([GOLD], [chunk("n", "A", (0, 30)), chunk("m", "A", (30, 60))], Rank(2, by_span=True), "the span where no id is"),
    ([GOLD], [chunk("c", "A", (500, 600))], Rank(None), "the id of another passage"),
    ([GOLD], [chunk("c", "B", (0, 100))], Rank(None), "the id of another document's passage"),
    ([GOLD], [chunk("n", "A")], Rank(None), "the document alone does not suffice"),
    ([GOLD], [chunk("A")], SPAN, "a whole document covers its passages"),
    ([chunk("c", "A")], [chunk("n", "A", (0, 9))], Rank(None), "gold without a span goes by id alone"),
]  # fmt: skip


@pytest.mark.parametrize(("gold", "hits", "want", "why"), BY_ID_OR_SPAN, ids=[row[3] for row in BY_ID_OR_SPAN])
def test_rank_by_id_or_span(gold: list[Document], hits: list[Document], want: Rank, why: str) -> None:
    assert rank(gold, list(hits), "id") == want


def test_one_returned_gold_id_makes_ids_decide() -> None:
    gold = [GOLD, chunk("d", "B", (0, 50))]
    hits: list[str | Document] = [chunk("n", "A", (0, 100)), chunk("d", "B", (0, 50))]
    assert rank(gold, hits, "id") == Rank(2)
