"""Span recall, precision and IoU: rows by hand, a plain reference over sets of characters, and independence of the
chunking."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval import evaluate, evaluate_rankings
from auepora_eval.core.conventions import Conventions
from auepora_eval.core.metrics_base import RunInfo
from auepora_eval.core.types import Document, EvaluationSample, MetricResult, RetrievedDocument, SystemOutputs
from auepora_eval.errors import BadTypeError, BadValueError, DuplicateIdError
from auepora_eval.features.matching import covered_characters
from auepora_eval.metrics.retrieval_spans import SpanIoUAtK, SpanPrecisionAtK, SpanRecallAtK

Piece = tuple[str, int, int]
KINDS = (SpanRecallAtK, SpanPrecisionAtK, SpanIoUAtK)


def chunk(piece: Piece | Document, number: int = 0, **fields: Any) -> Document:
    if isinstance(piece, Document):
        return piece
    parent, start, end = piece
    return Document(f"{parent}-{number}-{start}-{end}", parent_id=parent, span=(start, end), **fields)


def case(gold: Any, returned: Any, **fields: Any) -> tuple[EvaluationSample, SystemOutputs]:
    relevant = None if gold is None else [chunk(piece, i) for i, piece in enumerate(gold)]
    found = [RetrievedDocument(chunk(piece, i), None, i + 1) for i, piece in enumerate(returned)]
    return EvaluationSample("q7", "why?", relevant), SystemOutputs(found, **fields)


def results(gold: Any, returned: Any, k: int, rules: dict[str, Any]) -> list[MetricResult]:
    sample, output = case(gold, returned)
    conventions = Conventions.of("auepora", **rules)
    return [kind(k, conventions=conventions).compute([sample], [output]) for kind in KINDS]


def scored(gold: Any, returned: Any, k: int = 10, **rules: Any) -> tuple[float | None, ...]:
    return tuple((result.scores or [None])[0] for result in results(gold, returned, k, rules))


def outcome(gold: Any, returned: Any, k: int = 10, **rules: Any) -> str:
    (one,) = {(result.outcomes or [""])[0] for result in results(gold, returned, k, rules)}  # all three skip alike
    return one


WHOLE = Document("A", text="0123456789")  # its own parent: covers (0, 10)

ROWS = [  # gold, returned, k, (recall, precision, IoU), why
    ([("A", 0, 10)], [("A", 0, 10)], 1, (1.0, 1.0, 1.0), "the passage itself"),
    ([("A", 0, 10)], [("A", 5, 15)], 1, (5 / 10, 5 / 10, 5 / 15), "half of it"),
    ([("A", 0, 10)], [("A", 0, 40)], 1, (1.0, 10 / 40, 10 / 40), "a long chunk around it"),
    ([("A", 0, 10)], [("A", 2, 4)], 1, (2 / 10, 1.0, 2 / 10), "a short chunk within it"),
    ([("A", 0, 10)], [("A", 10, 20)], 1, (0.0, 0.0, 0.0), "next to it: the end is not included"),
    ([("A", 0, 10)], [("B", 0, 10)], 1, (0.0, 0.0, 0.0), "the same characters of another document"),
    ([("A", 0, 10)], [], 5, (0.0, 0.0, 0.0), "nothing returned"),
    ([("A", 0, 10)], [("A", 3, 3)], 5, (0.0, 0.0, 0.0), "an empty chunk"),
    ([("A", 0, 10)], [("B", 0, 5), ("A", 0, 10)], 1, (0.0, 0.0, 0.0), "below the cut"),
    ([("A", 0, 10)], [("B", 0, 5), ("A", 0, 10)], 2, (1.0, 10 / 15, 10 / 15), "within the cut"),
    ([("A", 0, 10)], [("A", 0, 6), ("A", 4, 10)], 2, (1.0, 1.0, 1.0), "overlapping chunks count once"),
    ([("A", 0, 10)], [("A", 0, 6), ("A", 0, 6)], 2, (6 / 10, 1.0, 6 / 10), "the same chunk twice counts once"),
    ([("A", 0, 6), ("A", 4, 10)], [("A", 0, 5)], 1, (5 / 10, 1.0, 5 / 10), "overlapping gold counts once"),
    ([("A", 0, 10), ("B", 0, 30)], [("A", 0, 10)], 3, (10 / 40, 1.0, 10 / 40), "gold in two documents"),
    ([("A", 0, 10), ("A", 3, 3)], [("A", 0, 10)], 1, (1.0, 1.0, 1.0), "an empty gold passage beside a real one"),
    ([WHOLE], [("A", 0, 4)], 1, (4 / 10, 1.0, 4 / 10), "a whole document as gold covers its text"),
    ([("A", 5, 10)], [WHOLE], 1, (1.0, 5 / 10, 5 / 10), "a whole document returned covers its text"),
    ([Document("A", parent_id="A", text="xy")], [("A", 0, 1)], 1, (1 / 2, 1.0, 1 / 2), "its own parent by name"),
    ([Document("A", text="0123456789", span=(2, 4))], [("A", 0, 4)], 1, (1.0, 2 / 4, 2 / 4), "a span wins over the text"),
    ([("A", 0, 2), ("A", 8, 10)], [("A", 0, 10)], 1, (1.0, 4 / 10, 4 / 10), "two passages of one document"),
]  # fmt: skip


@pytest.mark.parametrize(("gold", "returned", "k", "want"), [row[:4] for row in ROWS], ids=[row[4] for row in ROWS])
def test_plain_definition_of_rows(gold: Any, returned: Any, k: int, want: tuple[float, ...]) -> None:
    sample, output = case(gold, returned)
    assert [kind(k).reference(sample, output).value for kind in KINDS] == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize(("gold", "returned", "k", "want"), [row[:4] for row in ROWS], ids=[row[4] for row in ROWS])
def test_by_hand(gold: Any, returned: Any, k: int, want: tuple[float, float, float]) -> None:
    assert scored(gold, returned, k) == want


GRADED = [chunk(("A", 0, 10), metadata={"relevance": 2}), chunk(("B", 0, 10), metadata={"relevance": 0})]
OUTCOME_ROWS = [  # gold, returned, k, rules, want, why
    (None, [("A", 0, 1)], 5, {}, "skipped:no_gold", "not annotated"),
    ([], [("A", 0, 1)], 5, {}, "skipped:empty_gold", "nothing relevant"),
    ([], [("A", 0, 1)], 5, {"empty_gold": "zero"}, "skipped:empty_gold", "nothing relevant is skipped whatever the school"),
    (GRADED[1:], [("B", 0, 9)], 5, {}, "skipped:empty_gold", "judged, none of it relevant"),
    ([("A", 0, 9), Document("x", parent_id="A", text="t")], [], 5, {}, "skipped:no_spans", "a gold chunk without a span"),
    ([Document("x")], [("A", 0, 1)], 5, {}, "skipped:no_spans", "a gold document of which only the id is known"),
    ([("A", 4, 4)], [("A", 0, 9)], 5, {}, "skipped:no_spans", "gold of no characters"),
    ([("A", 0, 9)], [Document("x", parent_id="A", text="t")], 5, {}, "skipped:no_returned_spans", "a chunk without a span"),
    ([("A", 0, 9)], [("A", 0, 9), Document("x")], 2, {}, "skipped:no_returned_spans", "a returned id and no more"),
    ([("A", 0, 9)], [("A", 0, 9), Document("x")], 1, {}, "scored", "the chunk without a span is below the cut"),
    ([("A", 0, 9)], [("A", 0, 9), Document("x")], 9, {"depth": 1}, "scored", "or below the depth"),
    ([Document("x")], [Document("y")], 5, {}, "skipped:no_spans", "the gold's reason wins"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("gold", "returned", "k", "rules", "want"), [row[:5] for row in OUTCOME_ROWS], ids=[row[5] for row in OUTCOME_ROWS]
)
def test_outcome(gold: Any, returned: Any, k: int, rules: dict[str, Any], want: str) -> None:
    assert outcome(gold, returned, k, **rules) == want


def failing(output: SystemOutputs | None, **rules: Any) -> MetricResult:
    sample, _ = case([("A", 0, 10)], [])
    (result,) = evaluate([sample], [output], ["span_iou@5"], conventions=Conventions.of("auepora", **rules))
    return result


def test_failure_wins_over_chunks_without_spans() -> None:
    _, failed = case([], [Document("x")], error="timeout")
    assert (failing(failed).value, list(failing(failed).outcomes or ())) == (0.0, ["system_failed:timeout"])
    assert list(failing(None).outcomes or ()) == ["system_failed:missing_output"]
    assert list(failing(None, missing="zero").outcomes or ()) == ["scored"]


def test_only_relevant_levels_are_gold() -> None:
    assert scored(GRADED, [("A", 0, 10), ("B", 0, 10)]) == (1.0, 1 / 2, 1 / 2)
    assert scored(GRADED, [("A", 0, 10), ("B", 0, 10)], min_relevance=0) == (1.0, 1.0, 1.0)
    assert outcome(GRADED, [("A", 0, 10)], min_relevance=3) == "skipped:empty_gold"


def test_metrics_that_share_a_batch_keep_to_their_own_cut_and_threshold() -> None:
    sample, output = case(GRADED, [("A", 0, 5), ("A", 5, 10)])
    specs: list[dict[str, dict[str, Any]]] = [
        {f"span_recall@{k}": {"min_relevance": level, "as": f"{k} {level}"}} for k in (1, 2) for level in (0, 1)
    ]
    assert [r.value for r in evaluate([sample], [output], specs)] == [5 / 20, 5 / 10, 10 / 20, 10 / 10]


def test_signatures_show_what_changes_the_number() -> None:
    assert str(SpanRecallAtK(5).signature) == "span_recall@5|v1"
    strict = SpanIoUAtK(5, conventions=Conventions.of("auepora", min_relevance=2, depth=3))
    assert str(strict.signature) == "span_iou@5|rel:2|depth:3|v1"
    assert SpanPrecisionAtK(5).run_signature_options(RunInfo(top_k=3)) == {"top_k": "3"}
    assert SpanPrecisionAtK(5).run_signature_options(RunInfo(top_k=5)) == {}


def test_bare_ids_have_no_spans() -> None:
    (result,) = evaluate_rankings([["a"]], [["a"]], ["span_recall@5"])
    assert list(result.outcomes or ()) == ["skipped:no_spans"]


def test_duplicate_ids_are_an_error_if_the_conventions_require_it() -> None:
    twice = chunk(("A", 0, 5))
    with pytest.raises(DuplicateIdError, match="returned twice"):
        scored([("A", 0, 10)], [twice, twice], duplicates="error")


BAD_SPANS = [  # span, error, message
    ((-1, 5), BadValueError, r"\(-1, 5\); it must satisfy 0 <= start <= end"),
    ((5, 4), BadValueError, r"\(5, 4\); it must satisfy 0 <= start <= end"),
    ((1, 2, 3), BadTypeError, r"\(1, 2, 3\); it must be a pair"),
    (7, BadTypeError, "7; it must be a pair"),
    ((0, 1.5), BadTypeError, r"\(0, 1.5\); start and end must be integers"),
    ((True, 5), BadTypeError, r"\(True, 5\); start and end must be integers"),
]


@pytest.mark.parametrize(("span", "error", "message"), BAD_SPANS)
def test_invalid_spans(span: Any, error: type[Exception], message: str) -> None:
    bad, good = Document("c9", parent_id="A", span=span), ("A", 0, 10)
    for gold, returned in (([bad], [good]), ([good], [bad]), ([Document("x"), bad], [good])):
        with pytest.raises(error, match=f"sample 'q7': the span of document 'c9' is {message}"):
            scored(gold, returned)


PIECES = st.lists(
    st.tuples(st.sampled_from("ABC"), st.integers(0, 20), st.integers(0, 12)).map(lambda p: (p[0], p[1], p[1] + p[2])),
    max_size=6,
)


def characters(pieces: list[Piece]) -> set[tuple[str, int]]:
    return {(parent, place) for parent, start, end in pieces for place in range(start, end)}


@given(PIECES)
def test_covered_counts_characters(pieces: list[Piece]) -> None:
    assert covered_characters(pieces) == len(characters(pieces))


@given(gold=PIECES, returned=PIECES, k=st.integers(1, 7))
def test_agrees_with_sets_of_characters(gold: list[Piece], returned: list[Piece], k: int) -> None:
    wanted, got = characters(gold), characters(returned[:k])
    common = len(wanted & got)
    want: tuple[float | None, ...] = (None, None, None)
    if wanted:
        want = (common / len(wanted), common / len(got) if got else 0.0, common / len(wanted | got))
    assert scored(gold, returned, k) == want


@given(gold=PIECES, returned=PIECES, data=st.data())
def test_chunking_does_not_change_the_value(gold: list[Piece], returned: list[Piece], data: st.DataObject) -> None:
    """Any piece, gold or returned, may come as adjacent smaller ones; with the cut beyond them all nothing changes."""

    def recut(pieces: list[Piece]) -> list[Piece]:
        smaller = []
        for parent, start, end in pieces:
            cuts = sorted(data.draw(st.sets(st.integers(start, end), max_size=3)) | {start, end})
            smaller += [(parent, a, b) for a, b in pairwise(cuts)] or [(parent, start, end)]
        return smaller

    assert scored(recut(gold), recut(returned), 100) == scored(gold, returned, 100)
