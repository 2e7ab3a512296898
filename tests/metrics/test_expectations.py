"""Groundedness: what an answer must contain and must not, written into the dataset."""

from typing import Any

import pytest

from auepora_eval import evaluate, metric
from auepora_eval.core.conventions import Conventions
from auepora_eval.metrics.grounding import Groundedness
from helpers.builders import output, sample

ROWS: list[tuple[Any, Any, str, float, str]] = [  # must_contain, forbidden, answer, want, why
    (["Paris"], ["Lyon"], "It is Paris.", 1.0, "all that is wanted and nothing forbidden"),
    (["Paris", "Seine"], [], "It is Paris.", 0.0, "one of two is missing"),
    (["Paris"], ["Lyon"], "Paris, not Lyon.", 0.0, "a forbidden text appears"),
    ([], ["Lyon"], "Paris", 1.0, "only forbidden texts, and none appears"),
    (None, None, "anything", 1.0, "no expectation is satisfied"),
    ([], [], "", 1.0, "no expectation is satisfied by an empty answer too"),
    (["x"], [], "", 0.0, "an empty answer contains nothing"),
    ("Paris", "Lyon", "paris", 1.0, "one text instead of a list"),
    (("Paris",), ("Lyon",), "Paris Lyon", 0.0, "tuples are lists"),
    (["STRASSE"], [], "die Straße", 1.0, "case folding, not lower case"),
    (["new  york\n city"], [], "New York\tCity", 1.0, "any run of white space is one blank"),
    (["new york"], [], "New\u00a0York", 1.0, "a no-break space is white space"),
    (["caf\u00e9"], [], "cafe\u0301", 1.0, "composed and decomposed letters are the same"),
    (["cafe"], [], "cafe\u0301", 0.0, "an accent is part of its letter"),
    (["東京"], [], "首都は東京です", 1.0, "no words needed"),
    (["art"], [], "a party", 1.0, "found inside a word"),
    ([" art "], [], "a party", 0.0, "blanks around it ask for the word"),
    ([" art "], [], "art", 1.0, "the ends of the answer are blanks"),
    (["Paris\n"], [], "in Paris", 1.0, "a line end at the end of the answer"),
    ([""], [], "", 1.0, "the empty text is always contained"),
    ([" \n"], [], "x", 1.0, "and so is white space"),
    ([], [""], "x", 1.0, "an empty forbidden text is ignored"),
    ([], [" "], "x y", 1.0, "and so is a blank one"),
    (["\ud800"], [], "a\ud800b", 1.0, "half a character is compared as it is"),
]


@pytest.mark.parametrize(("wanted", "forbidden", "answer", "want"), [r[:4] for r in ROWS], ids=[r[4] for r in ROWS])
def test_by_hand(wanted: Any, forbidden: Any, answer: str, want: float) -> None:
    row = sample(metadata={"must_contain": wanted, "forbidden": forbidden})
    assert list(Groundedness().compute([row], [output(answer=answer)]).scores or ()) == [want]


BAD: list[tuple[Any, str]] = [
    (5, "a number"),
    (["a", 5], "a number among texts"),
    ([None], "null among texts"),
    ({"a": 1}, "an object"),
    (b"a", "bytes"),
    (False, "false is not nothing"),
]


@pytest.mark.parametrize("key", ["must_contain", "forbidden"])
@pytest.mark.parametrize("value", [row[0] for row in BAD], ids=[row[1] for row in BAD])
def test_other_types_are_a_failed_measurement(key: str, value: Any) -> None:
    result = Groundedness().compute([sample(metadata={key: value})], [output(answer="a")])
    assert list(result.outcomes or ()) == ["measure_failed:bad_expectation"]
    assert not result.defined


@pytest.mark.parametrize("metadata", [["must_contain"], None], ids=["a list", "none at all"])
def test_metadata_of_another_type_is_a_failed_measurement(metadata: Any) -> None:
    result = Groundedness().compute([sample(metadata=metadata)], [output(answer="a")])
    assert list(result.outcomes or ()) == ["measure_failed:bad_expectation"]


def test_every_answer_without_error_is_counted() -> None:
    rows = [sample(sample_id=str(i), metadata={"must_contain": "yes"}) for i in range(5)]
    outs = [
        output(answer="yes"),
        output(answer="", refused=True),
        output(answer="yes", error="timeout"),
        output(),
        None,
    ]
    (result,) = evaluate(rows, outs, ["groundedness"])
    assert result.value == 1 / 2  # the first two
    assert list(result.outcomes or ()) == [
        "scored",
        "scored",
        "system_failed:timeout",
        "skipped:no_response",
        "system_failed:missing_output",
    ]
    assert list(result.scores or ()) == [1.0, 0.0, None, None, None]


@pytest.mark.parametrize("missing", ["fail", "skip", "zero"])
def test_missing_output_never_scores_1(missing: Any) -> None:
    one = Groundedness(conventions=Conventions.of(missing=missing))
    result = one.compute([sample(sample_id="a"), sample(sample_id="b")], [None, output(answer="x")])
    assert list(result.scores or ()) == [None, 1.0]


def test_no_option_and_no_choice() -> None:
    assert str(metric("groundedness").signature) == "groundedness|v1"  # type: ignore[attr-defined]
    assert Groundedness().worst is None
    assert Groundedness.metadata.binary


def test_invalid_expectations_are_applicable() -> None:
    assert Groundedness().is_applicable(sample(metadata={"must_contain": 3}), output())
    assert not Groundedness().is_applicable(sample(), output())
