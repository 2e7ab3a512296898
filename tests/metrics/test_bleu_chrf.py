"""BLEU and chrF against sacrebleu, to the last digit: corpus value, sentence scores, options, several references."""

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from auepora_eval import EvaluationSample, MetricResult, Response, SystemOutputs, evaluate, metric
from helpers.requirements import examples, need
from helpers.texts import TEXT

WORDS = st.lists(st.sampled_from(["the", "cat", "sat", "on", "a", "mat.", "2,000", "cats"]), max_size=9).map(" ".join)
ROW = st.tuples(WORDS | TEXT, st.lists(WORDS | TEXT, min_size=1, max_size=3, unique=True))
ROWS = st.lists(ROW, min_size=1, max_size=6)

BLEU: list[tuple[dict[str, Any], dict[str, Any]]] = [  # ours, sacrebleu's
    ({}, {}),
    ({"max_order": 2}, {"max_ngram_order": 2}),
    ({"smooth_method": "floor"}, {"smooth_method": "floor"}),
    ({"smooth_method": "floor", "smooth_value": 0.5}, {"smooth_method": "floor", "smooth_value": 0.5}),
    ({"smooth_method": "add-k"}, {"smooth_method": "add-k"}),
    ({"smooth_method": "none"}, {"smooth_method": "none"}),
    ({"lowercase": True}, {"lowercase": True}),
    ({"tokenize": "none"}, {"tokenize": "none"}),
    ({"tokenize": "char"}, {"tokenize": "char"}),
    ({"tokenize": "intl"}, {"tokenize": "intl"}),
    ({"tokenize": "zh", "lowercase": True}, {"tokenize": "zh", "lowercase": True}),
]
CHRF: list[dict[str, Any]] = [
    {},
    {"char_order": 3},
    {"word_order": 2},
    {"beta": 3},
    {"lowercase": True, "word_order": 1},
    {"whitespace": True},
]


def scored(rows: list[tuple[str, list[str]]], spec: Any) -> MetricResult:
    samples = [
        EvaluationSample(str(n), "", reference_answers=references, labels={"answerable": False})
        for n, (_, references) in enumerate(rows)
    ]
    (result,) = evaluate(samples, [SystemOutputs([], Response(answer)) for answer, _ in rows], [spec])
    return result


def padded(rows: list[tuple[str, list[str]]]) -> list[list[str | None]]:
    """sacrebleu's form: a list per reference number, None where a row has no more."""
    most = max(len(references) for _, references in rows)
    return [[refs[n] if n < len(refs) else None for _, refs in rows] for n in range(most)]


@pytest.mark.parametrize(("ours", "theirs"), BLEU, ids=[str(o) for o, _ in BLEU])
def test_bleu_is_sacrebleus(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    metrics = need("sacrebleu.metrics")
    corpus, sentence = metrics.BLEU(force=True, **theirs), metrics.BLEU(effective_order=True, **theirs)

    @given(ROWS)
    @settings(max_examples=examples(100))
    def same(rows: list[tuple[str, list[str]]]) -> None:
        result = scored(rows, {"bleu": ours})
        assert result.value == corpus.corpus_score([answer for answer, _ in rows], padded(rows)).score
        for score, (answer, references) in zip(result.scores or (), rows, strict=True):
            assert score == sentence.sentence_score(answer, references).score, (answer, references)

    same()


@pytest.mark.parametrize("options", CHRF, ids=str)
def test_chrf_is_sacrebleus(options: dict[str, Any]) -> None:
    theirs = need("sacrebleu.metrics").CHRF(**options)

    @given(ROWS)
    @settings(max_examples=examples(100))
    def same(rows: list[tuple[str, list[str]]]) -> None:
        result = scored(rows, {"chrf": options})
        assert result.value == theirs.corpus_score([answer for answer, _ in rows], padded(rows)).score
        for score, (answer, references) in zip(result.scores or (), rows, strict=True):
            assert score == theirs.sentence_score(answer, references).score, (answer, references)

    same()


def test_value_is_not_the_mean_of_the_scores() -> None:
    result = scored([("the cat sat on the mat", ["the cat sat on the mat"]), ("x", ["a b c d e f"])], "bleu")
    # all but one of 7 words match, and all longer n-grams; the answers are 7 words long, the references 12
    want = 100 * 2.718281828459045 ** (1 - 12 / 7) * (6 / 7) ** (1 / 4)
    assert result.value == pytest.approx(want, abs=1e-12)
    assert list(result.scores or ()) == [pytest.approx(100.0), 0.0]


def test_failed_answer_counts_as_an_empty_one() -> None:
    samples = [EvaluationSample(str(n), "", reference_answer=Response("the cat sat on the mat")) for n in range(2)]
    good = SystemOutputs([], Response("the cat sat on the mat"))
    failed = SystemOutputs([], Response("half an answer"), error="timeout")
    empty = SystemOutputs([], Response(""))
    for name in ("bleu", "chrf"):
        (with_failure,), (with_empty,) = (evaluate(samples, [good, other], [name]) for other in (failed, empty))
        assert with_failure.value == with_empty.value < 100
        assert with_failure.details["value_completed"] == pytest.approx(100)
        assert list(with_failure.scores or ()) == list(with_empty.scores or ())
        (left_out,) = evaluate(samples, [good, failed], [{name: {"on_system_failure": "exclude"}}])
        assert left_out.value == pytest.approx(100)


def test_interval_is_a_bootstrap_over_samples() -> None:
    rows = [("the cat sat on the mat today", ["the cat sat on the mat"]), ("a dog", ["a dog barked"])] * 40
    for name in ("bleu", "chrf"):
        result = scored(rows, name)
        assert result.interval is not None
        low, high = result.interval
        assert low < result.value <= high
        assert result.details["interval"]["method"] == "bootstrap"
        assert result.interval == scored(rows, name).interval  # the same draws each time


def test_no_interval_where_every_draw_is_the_same() -> None:
    # Too short for BLEU: 0, though one longer answer would make it anything.
    short = scored([("Paris", ["Paris"])] * 40, "bleu")
    assert (short.value, short.interval, "interval" in short.details) == (0.0, None, False)


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("bleu", {"smooth_value": 0.1}, "'exp' takes no smooth_value"),
    ("bleu", {"tokenize": "13b"}, "no tokeniser '13b'"),
]


@pytest.mark.parametrize(("name", "options", "message"), BAD)
def test_wrong_options(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        metric(name, **options)
