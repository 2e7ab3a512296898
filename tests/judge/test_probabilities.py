"""Expected scores from token probabilities, checked by hand."""

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval.judge.ratings import ExpectedScore, TokenLogprob, expected_score, parse_logprobs, single_digit_labels

TEXT = '{"score": 4}'
SPAN = (10, 11)
LABELS = {str(label): float(label) for label in range(1, 6)}


PLAIN = ('{"', "score", '":', " ", "4", "}")


def with_chances(chances: dict[str, float], at: str = "4", pieces: tuple[str, ...] = PLAIN) -> list[TokenLogprob]:
    """The pieces of the text, with these chances at the place of the score."""
    others = tuple((other, math.log(chance)) for other, chance in chances.items())
    return [TokenLogprob(piece, dict(others).get(piece, -1.0), others if piece == at else ()) for piece in pieces]


SPACED = ('{"', "score", '":', " 4", "}")
EXACT = [  # chances at the place of the score, the token there, pieces, mean, mass, why
    ({"4": 1.0}, "4", None, 4, 1, "all on one label"),
    ({"4": 0.5, "5": 0.5}, "4", None, Fraction(9, 2), 1, "half and half"),
    ({"4": 0.6, "3": 0.3, "x": 0.1}, "4", None, Fraction(33, 9), Fraction(9, 10), "renormalised over the labels"),
    ({"4": 0.5, "5": 0.3, "2": 0.2}, "4", None, Fraction(39, 10), 1, "three labels"),
    ({"4": 0.5, " 4": 0.25, "5": 0.25}, "4", None, Fraction(17, 4), 1, "a label with and without a blank adds up"),
    ({" 4": 0.75, " 5": 0.25}, " 4", SPACED, Fraction(17, 4), 1, "tokens with a blank before them"),
    ({"4": 0.5, "▁4": 0.25, "Ġ5": 0.25}, "4", None, Fraction(17, 4), 1, "blanks as tokenizers write them"),
    ({"4": 0.5, "6": 0.3, "0": 0.2}, "4", None, None, Fraction(1, 2), "too little on the labels: the mass alone"),
    ({"4": 0.89, "x": 0.11}, "4", None, None, Fraction(89, 100), "just too little"),
    ({"4": 0.5, "4.5": 0.1, "45": 0.1, "44": 0.3}, "4", None, None, Fraction(1, 2), "what only begins like a label"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("chances", "at", "pieces", "mean", "mass"), [pytest.param(*row[:5], id=row[5]) for row in EXACT]
)
def test_exact_values(
    chances: dict[str, float], at: str, pieces: tuple[str, ...] | None, mean: Fraction | None, mass: Fraction
) -> None:
    made = with_chances(chances, at, *([pieces] if pieces else []))
    found = expected_score(made, TEXT, SPAN, LABELS)
    assert found is not None
    assert found.mass == pytest.approx(float(mass), abs=1e-12)
    assert found.value == (None if mean is None else pytest.approx(float(mean), abs=1e-12))


def test_an_unlisted_token_counts_with_its_own_probability() -> None:
    place = TokenLogprob("4", math.log(0.25), (("5", math.log(0.7)),))
    made = [TokenLogprob('{"score": ', 0.0), place, TokenLogprob("}", 0.0)]
    found = expected_score(made, TEXT, SPAN, LABELS)
    assert found is not None
    assert found.value == pytest.approx((4 * 0.25 + 5 * 0.7) / 0.95)
    assert found.mass == pytest.approx(0.95)


NOTHING = [  # tokens, text, span, why
    ([TokenLogprob('{"score": ', 0), TokenLogprob("1", 0), TokenLogprob("0", 0), TokenLogprob("}", 0)], '{"score": 10}', (10, 12), "a label over two tokens"),
    ([TokenLogprob('{"score": ', 0), TokenLogprob("4", 0), TokenLogprob(".5}", 0)], '{"score": 4.5}', (10, 13), "no label"),
    ([TokenLogprob('{"score":', 0), TokenLogprob(" 4}", 0)], TEXT, SPAN, "a token that is more than the label"),
    ([TokenLogprob('{"score": ', 0), TokenLogprob("3", 0), TokenLogprob("}", 0)], TEXT, SPAN, "tokens of another text"),
    ([TokenLogprob(TEXT, 0), TokenLogprob(TEXT, 0)], TEXT, SPAN, "the text twice"),
    ([TokenLogprob('{"score": ', 0), TokenLogprob("7", 0), TokenLogprob("}", 0)], '{"score": 7}', SPAN, "no label of the scale"),
    ([TokenLogprob('{"score": ', 0), TokenLogprob("4", -math.inf), TokenLogprob("}", 0)], TEXT, SPAN, "no chance at all"),
    ([TokenLogprob('{"score": ', 0), TokenLogprob("4", 0, (("4", 0.0), ("5", 0.0))), TokenLogprob("}", 0)], TEXT, SPAN, "more than all chances"),
    ([], TEXT, SPAN, "no tokens"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "text", "span"), [pytest.param(*row[:3], id=row[3]) for row in NOTHING])
def test_no_expected_score_without_a_matching_token(made: list[TokenLogprob], text: str, span: tuple[int, int]) -> None:
    assert expected_score(made, text, span, LABELS) is None


def test_quoted_numbers_and_surrounding_text() -> None:
    made = [
        TokenLogprob("<thought>", 0),
        TokenLogprob(' {"score": "', 0),
        TokenLogprob("4", math.log(1)),
        TokenLogprob('"}', 0),
        TokenLogprob("</s>", 0),
    ]
    assert expected_score(made, ' {"score": "4"}\n', (11, 14), LABELS) == ExpectedScore(4.0, 1.0)


def test_partial_characters_are_matched_by_bytes() -> None:
    text = '{"why": "é", "score": 4}'
    data = "é".encode()
    made = [
        TokenLogprob('{"why": "', 0),
        TokenLogprob("\ufffd", 0, data=data[:1]),
        TokenLogprob("\ufffd", 0, data=data[1:]),
        TokenLogprob('", "score": ', 0),
        TokenLogprob("4", 0),
        TokenLogprob("}", 0),
    ]
    assert expected_score(made, text, (22, 23), LABELS) == ExpectedScore(4.0, 1.0)
    assert expected_score([TokenLogprob(one.text, 0) for one in made], text, (22, 23), LABELS) is None


SCALES: list[tuple[dict[str, Any], list[int], str]] = [
    ({"minimum": 1, "maximum": 5}, [1, 2, 3, 4, 5], "one to five"),
    ({"minimum": 0.0, "maximum": 1.0}, [0, 1], "whole numbers written as others"),
    ({"minimum": 0, "maximum": 9}, list(range(10)), "every digit"),
    ({"minimum": 1, "maximum": 10}, [], "a label of two digits"),
    ({"minimum": -1, "maximum": 1}, [], "a label with a sign"),
    ({"minimum": 0.5, "maximum": 5}, [], "no whole number"),
    ({"minimum": 1}, [], "no end"),
    ({"minimum": False, "maximum": True}, [], "truth values"),
    ({"minimum": 3, "maximum": 3}, [], "one label alone"),
]


@pytest.mark.parametrize(("schema", "want"), [pytest.param(*row[:2], id=row[2]) for row in SCALES])
def test_single_digit_labels(schema: dict[str, Any], want: list[int]) -> None:
    assert single_digit_labels(schema) == want


def test_parse_logprobs() -> None:
    sent = [
        {"token": "4", "logprob": -0.5, "bytes": [52], "top_logprobs": [{"token": "5", "logprob": -1, "bytes": [53]}]},
        {"token": "}", "logprob": 0},
    ]
    assert parse_logprobs(sent) == [TokenLogprob("4", -0.5, (("5", -1.0),), b"4"), TokenLogprob("}", 0.0)]


@pytest.mark.parametrize(
    "sent",
    [
        None,
        [],
        {},
        ["4"],
        [{"token": "4"}],
        [{"token": 4, "logprob": 0}],
        [{"token": "4", "logprob": None}],
        [{"token": "4", "logprob": "0"}],
        [{"token": "4", "logprob": math.nan}],
        [{"token": "4", "logprob": 2.0}],
        [{"token": "4", "logprob": 0, "bytes": [900]}],
        [{"token": "4", "logprob": 0, "top_logprobs": [None]}],
    ],
    ids=repr,
)
def test_malformed_logprobs_are_ignored(sent: Any) -> None:
    assert parse_logprobs(sent) is None


@given(st.dictionaries(st.sampled_from("123459x"), st.floats(0.001, 1), min_size=1).filter(lambda one: "4" in one))
def test_expected_score_and_mass_are_in_range(weights: dict[str, float]) -> None:
    total = sum(weights.values())
    found = expected_score(with_chances({key: one / total for key, one in weights.items()}), TEXT, SPAN, LABELS)
    assert found is not None
    assert 0 < found.mass <= 1
    labels = [int(key) for key in weights if key in "12345"]
    assert found.value is None or min(labels) - 1e-9 <= found.value <= max(labels) + 1e-9
    assert (found.value is None) == (found.mass < 0.9)
