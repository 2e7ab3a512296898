"""Batches: features are built once, alignment and types are checked, warnings are collected."""

import asyncio
import math
import pickle
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from auepora_eval import AueporaWarning, evaluate
from auepora_eval.core.batch import Batch, failure_reason, warn_notes
from auepora_eval.core.types import Document, RetrievedDocument, SystemOutputs
from auepora_eval.errors import AlignmentError, BadTypeError, BadValueError
from auepora_eval.features.hits import gold_positions
from auepora_eval.features.rankings import rankings
from helpers.builders import output, sample


def test_a_feature_is_built_once() -> None:
    batch = Batch([], [])
    calls = []
    for _ in range(3):
        assert batch.feature("answer", lambda b: calls.append(b) or 42) == 42  # type: ignore[func-returns-value]
    assert calls == [batch]


def test_async_feature_is_built_once_and_survives_a_cancelled_waiter() -> None:
    batch = Batch([], [])
    calls = []

    async def build(_: Batch) -> int:
        calls.append(1)
        await asyncio.sleep(0.01)
        return 42

    async def scenario() -> list[int]:
        impatient = asyncio.create_task(batch.afeature("claims", build))
        await asyncio.sleep(0)
        impatient.cancel()
        return await asyncio.gather(*(batch.afeature("claims", build) for _ in range(5)))

    assert asyncio.run(scenario()) == [42] * 5
    assert calls == [1]


def test_lengths_must_agree() -> None:
    with pytest.raises(AlignmentError, match="1 samples but 2 outputs") as caught:
        Batch([sample(["a"])], [output(), output()])
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, AssertionError)


ERRORS = [  # error text, reason
    ("timeout", "timeout"),
    ("timeout: after 30 s", "timeout"),
    ("raised: ValueError: no", "raised"),
    ("HTTP 500", "error"),
    ("", "error"),
    ("Überlauf", "error"),
]


@pytest.mark.parametrize(("text", "reason"), ERRORS, ids=[repr(row[0]) for row in ERRORS])
def test_failure_reason(text: str, reason: str) -> None:
    assert failure_reason(text) == reason


def test_outputs_of_the_wrong_type_are_named() -> None:
    with pytest.raises(BadTypeError, match="the output for sample '1' is a dict, not a SystemOutputs"):
        evaluate([sample(["a"])], [{"retrieved": []}], ["recall@5"])  # type: ignore[list-item]


def test_ids_must_be_strings() -> None:
    bad = output()
    bad.retrieved = [RetrievedDocument(Document(7), 1.0, 1)]  # type: ignore[arg-type]
    with pytest.raises(BadTypeError, match="sample '1': the returned id 7 is of type int"):
        evaluate([sample(["a"])], [bad], ["recall@5"])
    with pytest.raises(BadTypeError, match="sample '1': the gold id 7 is of type int"):
        evaluate([sample([7])], [output()], ["recall@5"])  # type: ignore[list-item]


def test_a_nan_score_is_an_error_and_an_unknown_one_is_not() -> None:
    unknown = output()
    unknown.retrieved = [RetrievedDocument(Document("a"), None, 1), RetrievedDocument(Document("b"), 0.5, 2)]
    assert list(rankings(Batch([sample(["a"])], [unknown])).ranked) == [["a", "b"]]
    for scores in ([float("nan"), 1.0], [None, float("nan")]):
        bad = output()
        bad.retrieved = [RetrievedDocument(Document(i), s, 1) for i, s in zip("ab", scores, strict=True)]
        with pytest.raises(BadValueError, match=r"sample '1': the score of '[ab]' at position [12] is NaN"):
            evaluate([sample(["a"])], [bad], ["recall@5"])


SCORES: list[tuple[list[Any], str | None]] = [  # scores, what is wrong with them
    ([1.0, math.inf, -math.inf], None),
    ([3, 2, True], None),
    ([np.float32(0.5), np.int64(1), 0.25], None),
    ([0.5, None, 0.25], None),
    ([None, None], None),
    ([1.0, math.nan, None], "the score of 'b' at position 2 is NaN"),
    ([1.0, 0.5, "0.25"], "the score at position 3 is '0.25', not a number"),
    ([None, "0.25"], "the score at position 2 is '0.25', not a number"),
    ([Decimal("0.5"), Decimal("0.25")], "the score at position 1 is Decimal('0.5'), not a number"),
    ([np.array([0.5, 0.25]), 1.0], "the score at position 1 is array([0.5 , 0.25]), not a number"),
    ([1.0, np.array([0.5, 0.25])], "the score at position 2 is array([0.5 , 0.25]), not a number"),
    ([0.5, 1j], "the score at position 2 is 1j, not a number"),
]


@pytest.mark.parametrize(("scores", "problem"), SCORES, ids=[str(row[0]) for row in SCORES])
def test_scores_are_numbers_or_unknown(scores: list[Any], problem: str | None) -> None:
    ranked = output("abc"[: len(scores)])
    for item, score in zip(ranked.retrieved, scores, strict=True):
        item.score = score
    if problem is None:
        assert evaluate([sample(["b"])], [ranked], ["mrr"])[0].value == 1 / 2
    else:
        with pytest.raises((BadTypeError, BadValueError), match=re.escape(problem)):
            evaluate([sample(["b"])], [ranked], ["mrr"])


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("d1", "position 1 of 'retrieved' is a str"),
        (RetrievedDocument("d1", 1.0, 1), "position 1 of 'retrieved' holds a str as 'doc', not a Document"),  # type: ignore[arg-type]
        (RetrievedDocument(Document("d1"), "high", 1), "the score at position 1 is 'high', not a number"),  # type: ignore[arg-type]
    ],
    ids=["bare id", "id in place of the document", "score that is text"],
)
def test_invalid_retrieved_documents(item: RetrievedDocument, message: str) -> None:
    with pytest.raises(BadTypeError, match=message):
        evaluate([sample(["a"])], [SystemOutputs(retrieved=[item])], ["recall@5"])


def test_relevance_must_be_an_integer() -> None:
    assert evaluate([sample({"a": 2.0})], [output(["a"])], ["recall@5"])[0].value == 1.0  # type: ignore[dict-item]
    for level in (1.5, "2", True, None):
        with pytest.raises(BadTypeError, match=r"the relevance of 'a' is .*; it must be an integer"):
            evaluate([sample({"a": level})], [output(["a"])], ["recall@5"])  # type: ignore[dict-item]


def test_a_rank_that_contradicts_the_list_is_a_warning_and_the_list_counts() -> None:
    contradicting = output(["x", "a"])
    contradicting.retrieved[0].rank, contradicting.retrieved[1].rank = 2, 1
    with pytest.warns(AueporaWarning, match=r"'rank' contradicts the order .* \(sample '1' and 1 more\)"):
        results = evaluate([sample(["a"]), sample(["a"])], [contradicting, contradicting], ["mrr"])
    assert results[0].value == 1 / 2
    zero_based = output(["x", "a"])
    zero_based.retrieved[0].rank, zero_based.retrieved[1].rank = 0, 1
    evaluate([sample(["a"])], [zero_based], ["mrr"])  # no contradiction: warnings are errors here


@pytest.mark.parametrize("metric", ["mrr", "recall_doc@3", "empty_result_rate"])
def test_every_ranking_feature_validates_documents(metric: str) -> None:
    bad, odd = output(["x", "a"]), output(["x", "a"])
    bad.retrieved[1].score = float("nan")
    with pytest.raises(BadValueError, match="is NaN"):
        evaluate([sample(["a"])], [bad], [metric])
    odd.retrieved[0].rank = 5
    with pytest.warns(AueporaWarning, match=r"'rank' contradicts the order"):
        evaluate([sample(["a"])], [odd], [metric])


def test_rankings_read_repeatedly_are_equal_and_warn_once() -> None:
    failed, odd = output(["x"]), output(["x", "a"])
    failed.error, odd.retrieved[0].rank = "timeout", 5
    batch = Batch([sample(["a"])] * 4, [odd, None, failed, output(["b"])])
    ranked = rankings(batch).ranked
    assert len(ranked) == 4
    for _ in range(3):
        assert list(ranked) == [["x", "a"], [], [], ["b"]]
    assert ranked[-1] == ["b"]
    assert [count for count, _ in batch.notes.values()] == [1]
    again = rankings(Batch([sample(["a"])] * 2, [output(["x"]), output(["b"])])).ranked
    assert again[1] == ["b"]
    assert list(again) == [["x"], ["b"]]


def test_each_warning_is_emitted_once() -> None:
    batch = Batch([], [])
    for name in ("a", "b", "c"):
        batch.note("odd", name)
    with pytest.warns(AueporaWarning, match=r"^odd \(sample 'a' and 2 more\)$") as caught:
        warn_notes([batch.notes])
    assert len(caught) == 1


def test_batch_is_pickled() -> None:
    batch = pickle.loads(pickle.dumps(Batch([sample(["a"])], [output(["a"])])))
    assert batch.feature("n", len) == 1


def test_positions_of_a_range_of_queries() -> None:
    golds = [{"a": 1, "b": 0}, None, {"b": 2}, {"c": 3, "a": -1}, {}]
    returned = ["ab", "a", "xb", "ac", "a"]
    samples = [sample(gold) for gold in golds]
    outputs = [output(ids) for ids in returned]
    whole = gold_positions(Batch(samples, outputs))
    for start, stop in ((0, 5), (0, 2), (2, 5), (3, 4), (4, 5), (2, 2)):
        part, alone = whole.query_range(start, stop), gold_positions(Batch(samples[start:stop], outputs[start:stop]))
        for name in ("row", "rank", "returned", "annotated", "gold_count", "level", "gold_level"):
            assert getattr(part, name).tolist() == getattr(alone, name).tolist(), (name, start, stop)
