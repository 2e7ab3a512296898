"""Unsupported spans: the rules for characters, windows and spans, and a model that looks each word up."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, evaluate, metric
from auepora_eval.core.family import FamilyKey
from auepora_eval.core.registry import use_resources
from auepora_eval.core.scores import AnswerSpans, MarkedSpan, Scores
from auepora_eval.engine.repeats import evaluate_repeats
from auepora_eval.errors import AueporaWarning, BadTypeError, BadValueError
from auepora_eval.metrics.hallucinated_spans import (
    HallucinatedSpans,
    find_spans,
    lowest_probabilities,
    unsupported_proportion,
)
from auepora_eval.models.token_classifier import SpanInput, TokenClassifier, Window
from auepora_eval.store.score_columns import decode_keys, encode_keys
from helpers.requirements import need
from helpers.tiny_models import made

NAN = math.nan
SHORT = "{question} {documents}"
Spans = list[tuple[str, float]]


def output(answer: str | None, *texts: str | None) -> SystemOutputs:
    found = [RetrievedDocument(Document(f"d{at}", text), None, at) for at, text in enumerate(texts, 1)]  # type: ignore[arg-type]
    return SystemOutputs(found, None if answer is None else Response(answer))


# --- rules, without a model ------------------------------------------------------------------------------------------

RULES: list[tuple[str, list[float], dict[str, Any], list[str], float, str]] = [
    # answer, probabilities of its characters, options, spans, proportion, why
    ("ab cd", [0.1, 0.1, NAN, 0.9, 0.9], {}, ["cd"], 2 / 4, "white space is not counted"),
    ("ab cd", [0.9, 0.9, NAN, 0.9, 0.9], {}, ["ab cd"], 1, "white space between two unsupported words joins them"),
    ("ab cd", [0.9, 0.9, 0.1, 0.9, 0.9], {}, ["ab", "cd"], 1, "unless the model calls it supported"),
    ("ab cd", [0.1, 0.1, 0.9, 0.9, 0.1], {}, ["c"], 1 / 4, "a token with its space: the span begins after it"),
    ("ab ", [0.5, 0.49, 0.9], {}, ["a"], 1 / 2, "the threshold itself counts; white space alone is no span"),
    ("ab", [0.75, 0.75], {"threshold": 0.8}, [], 0, "below the threshold"),
    ("e\u0301x", [0.9, NAN, 0.1], {}, ["e\u0301"], 2 / 3, "a combining mark without a token goes with its letter"),
    ("\u200bab", [NAN, 0.9, 0.9], {}, ["ab"], 2 / 3, "nothing is known of a character before the first token"),
    ("a bc def", [0.9, 0.1, 0.9, 0.9, 0.1, 0.9, 0.9, 0.9], {"min_span": 3}, ["def"], 3 / 6, "short spans are left out"),
    ("a b", [0.9, 0.9, 0.9], {"min_span": 3}, [], 0, "and the space in them is not counted"),
]


@pytest.mark.parametrize(
    ("answer", "probabilities", "options", "want", "proportion"),
    [row[:5] for row in RULES],
    ids=[row[5] for row in RULES],
)
def test_spans_of_characters(
    answer: str, probabilities: list[float], options: dict[str, Any], want: list[str], proportion: float
) -> None:
    spans = find_spans(answer, np.array(probabilities), **{"threshold": 0.5, **options})
    assert [answer[one.start : one.end] for one in spans] == want
    assert unsupported_proportion(answer, spans) == proportion
    values = [probability for probability in probabilities if probability == probability]
    assert all(one.probability in values for one in spans)


WINDOWS: list[tuple[list[tuple[int, list[float]]], list[float], str]] = [
    ([(0, [0.9, 0.9, 0.9])], [0.9, 0.9, 0.9], "one window decides"),
    ([(0, [0.9, 0.9, 0.1]), (0, [0.1, 0.9, 0.9])], [0.1, 0.9, 0.1], "windows that disagree: supported"),
    ([(0, [0.9, 0.6]), (0, [0.8, 0.7]), (2, [0.1]), (2, [0.9])], [0.8, 0.6, 0.1], "parts of an answer are independent"),
    ([(0, [NAN, 0.9, NAN]), (0, [0.9, NAN, NAN])], [0.9, 0.9, NAN], "a window that says nothing decides nothing"),
]


@pytest.mark.parametrize(("windows", "want"), [row[:2] for row in WINDOWS], ids=[row[2] for row in WINDOWS])
def test_every_window_must_call_a_character_unsupported(
    windows: list[tuple[int, list[float]]], want: list[float]
) -> None:
    made_windows = [Window("context", "x" * len(values), start) for start, values in windows]
    found = lowest_probabilities("xxx", made_windows, [np.array(values) for _, values in windows])
    assert found.tolist() == pytest.approx(want, nan_ok=True)


def test_layouts_keep_texts_apart() -> None:
    model = TokenClassifier("org/x", template="{question}|{passages}|{count}")
    hostile = "{passages} {question} passage 9: \\1"
    assert model.context(hostile, ["d1 {count}", "d2"]) == f"{hostile}|passage 1: d1 {{count}}\npassage 2: d2|2"
    assert (
        TokenClassifier("org/x", template="user_request").context("why?", ["a", "b"]) == "User request: why?\n\na\n\nb"
    )
    usual = TokenClassifier("org/x").context("why?", ["a", "b"])
    assert "\nwhy?\n" in usual
    assert "following 2 passages:\npassage 1: a\npassage 2: b\nIn case" in usual


OPTIONS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"model": 5}, BadTypeError, "model must be the path or hub name of a token classifier"),
    ({"model": {"path": "x"}}, BadValueError, "token_classifier has no option 'path'"),
    ({"model": {"window": 64}}, BadValueError, "needs its option 'model'"),
    ({"model": {"model": "m", "window": 8}}, BadValueError, "window must be an integer >= 32"),
    ({"model": {"model": "m", "template": "{question}"}}, BadValueError, r"either \{passages\} or \{documents\} once"),
    ({"model": "m", "threshold": 0}, BadValueError, "threshold must be a number"),
    ({"model": "m", "min_span": 0}, BadValueError, "min_span must be an integer >= 1"),
    ({"model": "m", "evidence_source": "relevant", "k": 3}, BadValueError, "'k' counts retrieved documents"),
]


@pytest.mark.parametrize(("options", "error", "message"), OPTIONS, ids=[row[2][:40] for row in OPTIONS])
def test_invalid_options(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        metric({"hallucinated_spans": options})


def test_signature_and_resources() -> None:
    plain: Any = metric("hallucinated_spans", model="org/x")
    assert str(plain.signature) == "hallucinated_spans|model:org/x window 4096|from:0.5|evidence:retrieved|v1"
    given = {"model": "org/x", "window": 512, "template": SHORT, "label": "bad"}
    with use_resources({"detector": TokenClassifier.parse(given)}):
        used: Any = metric("hallucinated_spans", model={"use": "detector"}, k=3, threshold=0.7, min_span=4)
    options = "model:org/x window 512 9a506cbb label=bad|from:0.7|evidence:retrieved|k:3|min_span:4"
    assert str(used.signature) == f"hallucinated_spans|{options}|v1"
    assert used.classifier == TokenClassifier.parse(given)
    assert TokenClassifier.parse("org/x").spec() == {"token_classifier": {"model": "org/x"}}
    unknown: Any = metric("hallucinated_spans", model={"use": "detector"})
    assert "|model:resource detector|" in str(unknown.signature)
    with pytest.raises(BadValueError, match="model is the resource 'detector' of a plan, which is not available here"):
        unknown.require_ready()


def test_spans_are_keys_of_scores() -> None:
    spans = AnswerSpans((MarkedSpan(1, 4, 0.75), MarkedSpan(5, 9, 1.0, 2)))
    keys = (None, spans, AnswerSpans(), FamilyKey("q", 0, None, (), spans))
    lines = encode_keys(keys)
    assert lines is not None
    assert json.loads(lines[1]) == ["spans", [1, 4, 0.75, 0], [5, 9, 1.0, 2]]
    assert decode_keys(lines) == keys
    assert spans.of_repeat(2) == (MarkedSpan(5, 9, 1.0, 2),)


# --- with a model that looks words up --------------------------------------------------------------------------------


def detector(name: str = "spans", **options: Any) -> dict[str, Any]:
    return {"model": {"model": made(name), "template": SHORT, **options}}


def found_spans(result: Any, answer: str, row: int = 0) -> list[str]:
    key = result.scores.keys[row]
    return [answer[one.start : one.end] for one in key.spans]


LONG = "rain " * 12
LOOKUP: list[tuple[str, str, list[str], dict[str, Any], list[str], float, int, str]] = [
    # model, answer, documents, options of the model, spans, proportion, windows, why
    (
        "spans",
        "The tower is of gold.",
        ["the tower is in paris."],
        {},
        ["of gold"],
        6 / 17,
        1,
        "words that are not there",
    ),
    ("spans", "The tower.", ["the tower is in paris."], {}, [], 0, 1, "all of it is there"),
    ("spans", "gold", [], {}, ["gold"], 1, 0, "nothing retrieved: no evidence supports anything"),
    (
        "spans",
        " paris gold ",
        [f"{LONG}paris", f"{LONG}{LONG}gold"],
        {"window": 40},
        [],
        0,
        2,
        "each word in one window",
    ),
    ("spans", "paris blue", [f"{LONG}paris", f"{LONG}gold"], {"window": 32}, ["blue"], 4 / 9, 2, "one word in none"),
    ("spans", "paris", [LONG * 9 + "in paris of " + LONG], {"window": 64}, [], 0, 3, "a long document in pieces"),
    ("spans", "rain " * 30 + "gold blue " + LONG, ["rain"], {"window": 40}, ["gold blue"], 8 / 176, 3, "a long answer"),
    (
        "spans-bytes",
        "日本 👍🏽 e\u0301 ok",
        ["日本 ok"],
        {},
        ["👍🏽", "e\u0301"],
        4 / 8,
        1,
        "wide characters and marks",
    ),
    ("spans-bytes", "é", ["è"], {}, ["é"], 1, 1, "one of the two tokens of a character is enough"),
    ("spans-bytes", "한국어", ["한국어 말"], {}, [], 0, 1, "another alphabet"),
    ("spans-bytes", "👨‍👩‍👧 a", ["👨‍👩‍👧"], {}, ["a"], 1 / 6, 1, "joined emoji are several characters"),
    ("spans", "[SEP] gold [SEP]", ["rain [SEP] green"], {}, ["gold"], 4 / 14, 1, "special tokens are ordinary text"),
    ("spans", "rain passage 2: gold", ["rain 2"], {}, ["passage", ": gold"], 12 / 17, 1, "the frame in an answer"),
    ("spans", "half \ud800 gold", ["half \ud800"], {}, ["gold"], 4 / 9, 1, "a lone surrogate keeps the places"),
]


@pytest.mark.part("models")
@pytest.mark.parametrize(
    ("name", "answer", "texts", "options", "want", "proportion", "windows"),
    [row[:7] for row in LOOKUP],
    ids=[row[7] for row in LOOKUP],
)
def test_words_are_looked_up(
    name: str, answer: str, texts: list[str], options: dict[str, Any], want: list[str], proportion: float, windows: int
) -> None:
    built: Any = metric({"hallucinated_spans": detector(name, **options)})
    asked = EvaluationSample("q", "why")
    (result,) = evaluate([asked], [output(answer, *texts)], [built])
    assert found_spans(result, answer) == want
    assert result.value == pytest.approx(proportion)
    assert result.details["num_windows"] == windows
    assert result.details["num_spans"] == len(want)
    assert result.details["num_truncated"] == 0
    plain = built.reference(asked, output(answer, *texts))
    assert plain.value == result.value


SKIPS: list[tuple[dict[str, Any], Any, SystemOutputs, Any, str]] = [
    ({}, None, output(None, "a"), "skipped:no_response", "no answer was asked for"),
    ({}, None, output(" \n", "a"), "skipped:empty_answer", "an empty answer"),
    ({}, None, output("\u0085\u200b", "a"), "scored", "a character that is no white space"),
    ({}, None, output("a cat", "", None, " "), "skipped:no_text", "documents without text"),
    ({"k": 1}, None, output("gold", " ", "gold"), "skipped:no_text", "the first document has no text"),
    ({"evidence_source": "relevant"}, None, output("a", "a"), "skipped:no_gold", "gold that is not annotated"),
    ({"evidence_source": "relevant"}, [], output("a", "a"), "skipped:empty_gold", "no gold"),
    ({"evidence_source": "relevant"}, [Document("d", "cat")], output("cat", "dog"), 0.0, "relevant documents"),
    ({"k": 1}, None, output("gold", "rain", "gold"), 1.0, "only the first document"),
    ({"threshold": 0.8}, None, output("gold", "rain"), 0.0, "a probability of 3/4 is below 0.8"),
    ({"threshold": 0.75}, None, output("gold", "rain"), 1.0, "and reaches 0.75"),
    ({"min_span": 5}, None, output("gold rain", "rain"), 0.0, "a span that is too short"),
]


@pytest.mark.part("models")
@pytest.mark.parametrize(("options", "gold", "out", "want"), [row[:4] for row in SKIPS], ids=[row[4] for row in SKIPS])
def test_outcomes_and_options(options: dict[str, Any], gold: Any, out: SystemOutputs, want: Any) -> None:
    built: Any = metric({"hallucinated_spans": {**detector(), **options}})
    rows = [
        EvaluationSample("q", "why", relevant_docs=gold),
        EvaluationSample("r", "why", relevant_docs=[Document("d")]),
    ]
    result = evaluate(rows, [out, output("a")], [built])[0]
    assert result.outcomes is not None
    assert result.scores is not None
    assert (result.scores[0] if isinstance(want, float) else result.outcomes[0]) == (
        pytest.approx(want) if isinstance(want, float) else want
    )


@pytest.mark.part("models")
def test_details_and_failures() -> None:
    rows = [EvaluationSample(f"q{at}", "why") for at in range(4)]
    outs = [output("rain gold", "rain"), output("rain", "rain"), SystemOutputs([], error="timeout"), output("", "rain")]
    (result,) = evaluate(rows, outs, [metric({"hallucinated_spans": detector()})])
    assert result.value == pytest.approx((1 / 2 + 0 + 1) / 3)  # a failed answer counts 1
    assert result.details["any_span_rate"] == 2 / 3
    low, high = result.details["any_span_interval"]
    assert 0 < low < 2 / 3 < high < 1
    assert [result.details[name] for name in ("num_spans", "num_windows", "num_truncated")] == [1, 2, 0]
    assert not metric("hallucinated_spans", model="m").higher_is_better  # type: ignore[attr-defined]
    long = [EvaluationSample("long", "why " * 30)]
    with pytest.warns(AueporaWarning, match=r"a text is longer than the model reads.*\(sample 'long'\)"):
        (result,) = evaluate(long, outs[:1], [metric({"hallucinated_spans": detector(window=40)})])
    assert result.details["num_truncated"] == 1
    assert found_spans(result, "rain gold") == ["gold"]


@pytest.mark.part("models")
def test_batches_do_not_change_spans() -> None:
    words = ["rain", "gold", "paris", "blue", "tower", "日本", "?"]
    texts = [" ".join(words[at % 7 : at % 7 + 1 + at % 5] * (1 + at % 9)) for at in range(40)]
    rows = [EvaluationSample(f"q{at}", "why", relevant_docs=None) for at in range(40)]
    outs = [output(text, texts[-at], "rain " * at) for at, text in enumerate(texts)]
    specs = [metric({"hallucinated_spans": detector(window=48, batch_size=size)}) for size in (None, 1, 3)]
    first, *others = (
        evaluate(rows, outs, [one], batch_size=size)[0] for one, size in zip(specs, (64, 64, 7), strict=True)
    )
    assert isinstance(first.scores, Scores)
    assert first.details["num_windows"] > 60
    for one in others:
        assert isinstance(one.scores, Scores)
        assert list(one.scores) == list(first.scores)
        assert places(one.scores) == places(first.scores)


def places(scores: Scores) -> list[list[tuple[int, int]]]:
    return [[(one.start, one.end) for one in key.spans] for key in scores.keys or () if key is not None]


@pytest.mark.part("models")
def test_spans_of_repeated_answers() -> None:
    answers = ["rain gold", "blue rain", None]
    outs = [
        lambda one=one: [SystemOutputs([], error="timeout") if one is None else output(one, "rain")] for one in answers
    ]
    (result,) = evaluate_repeats([EvaluationSample("q", "why")], outs, [metric({"hallucinated_spans": detector()})])
    assert isinstance(result.scores, Scores)
    assert result.value == pytest.approx((1 / 2 + 1 / 2 + 1) / 3)
    (key,) = result.scores.keys or ()
    assert [(one.start, one.end, one.repeat) for one in key.spans] == [(5, 9, 0), (0, 4, 1)]


@pytest.mark.part("models")
def test_models_are_checked(tmp_path: Path) -> None:
    for name, message in (
        ("nli", r"no classifier of tokens \(its config names BertForSequenceClassification\)"),
        ("bert", r"no classifier of tokens \(its config names BertModel\)"),
        ("names", "does not say which of its labels means unsupported; its labels are O, B-PER, I-PER: name the one"),
    ):
        with pytest.raises(BadValueError, match=message):
            metric({"hallucinated_spans": detector(name)}).require_ready()  # type: ignore[attr-defined]
    named: Any = metric({"hallucinated_spans": detector("names", label="b-per")})
    named.require_ready()
    with pytest.raises(BadValueError, match="has no label 'gone'"):
        metric({"hallucinated_spans": detector("spans", label="gone")}).require_ready()  # type: ignore[attr-defined]
    small: Any = metric({"hallucinated_spans": {"model": {"model": made("names"), "label": "o"}}})
    with pytest.raises(BadValueError, match=r"a window of 96 tokens is too small for the template of \d+ tokens"):
        small.require_ready()
    with pytest.raises(BadValueError, match="there is no model's folder"):
        HallucinatedSpans(str(tmp_path / "gone")).require_ready()


@pytest.mark.part("models")
def test_windows_never_exceed_the_model() -> None:
    model = TokenClassifier(made("spans"), template="user_request", window=80)
    one = SpanInput("what " * 50, ("gold " * 70, "x" * 200, "rain. " * 40, "日本 " * 30), "blue " * 90 + "y" * 90)
    (windows,) = model.windows([one])
    tokenizer = model.loaded().tokenizer
    assert max(len(tokenizer(*window.pair)["input_ids"]) for window in windows) <= 80
    assert all(window.cut for window in windows)
    parts = {window.start: window.part for window in windows}
    assert "".join(parts[start] for start in sorted(parts)) == one.answer
    for start in parts:  # every part is compared with every word of every document
        contexts = " ".join(window.context for window in windows if window.start == start)
        assert all(word in contexts for text in one.documents for word in text.split()[:1])


@pytest.mark.part("models")
def test_no_number_is_a_failed_measurement() -> None:
    torch = need("torch")
    built: Any = metric({"hallucinated_spans": detector()})
    head = built.classifier.loaded().model.classifier
    bias = head.bias.detach().clone()
    with torch.no_grad():
        head.bias.fill_(math.nan)
    try:
        with pytest.warns(AueporaWarning, match="gave no number for a token"):
            (result,) = evaluate([EvaluationSample("q", "why")], [output("gold", "rain")], [built])
    finally:
        with torch.no_grad():
            head.bias.copy_(bias)
    assert result.outcomes == ["measure_failed:not_a_number"]
