"""Abstention: refusal rates by hand, refusal detection, failed outputs, and two public collections."""

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from auepora_eval import AueporaError, EvaluationSample, MetricResult, SystemOutputs, evaluate, metric
from auepora_eval.core.batch import Batch
from auepora_eval.core.conventions import Conventions
from auepora_eval.core.registry import spec_of
from auepora_eval.errors import AueporaWarning, BadTypeError, BadValueError
from auepora_eval.features.texts import RefusalDetector, refusals
from auepora_eval.metrics.abstention import (
    NegativeRejectionRate,
    OverRefusalRate,
    RefusalCorrectness,
    RejectionF1,
    RejectionPrecision,
)
from helpers.builders import output, sample
from helpers.requirements import need_data
from helpers.suggestions import suggest_metrics

NAMES = ["negative_rejection_rate", "over_refusal_rate", "rejection_precision", "rejection_f1"]
NONE = None
"""Undefined: nothing was in the mean."""

# One letter per sample. Unanswerable: R refused, A answered, X failed, m missing, n no response.
# Answerable, in the same way: r, a, x, z (missing), o (no response).
ROWS: list[tuple[str, Any, Any, Any, Any, str]] = [  # samples, recall, over-refusal, precision, F1, why
    ("RRAa", 2 / 3, 0 / 1, 2 / 2, 4 / 5, "one unanswerable question was answered"),
    ("RRArraa", 2 / 3, 2 / 4, 2 / 4, 4 / 7, "two wrong refusals"),
    ("RRrr", 2 / 2, 2 / 2, 2 / 4, 4 / 6, "all refused"),
    ("AAaa", 0 / 2, 0 / 2, NONE, 0 / 2, "none refused"),
    ("rra", NONE, 2 / 3, 0 / 2, 0 / 2, "none unanswerable"),
    ("aaa", NONE, 0 / 3, NONE, NONE, "none refused and none unanswerable"),
    ("RR", 2 / 2, NONE, 2 / 2, 4 / 4, "all unanswerable and refused"),
    ("", NONE, NONE, NONE, NONE, "no samples"),
    ("RXa", 1 / 2, 0 / 1, 1 / 1, 2 / 3, "failing on an unanswerable question is no refusal"),
    ("RxA", 1 / 2, 1 / 1, 1 / 2, 2 / 4, "failing on an answerable question is as bad as refusing it"),
    ("XX", 0 / 2, NONE, NONE, 0 / 2, "failing alone"),
    ("xx", NONE, 2 / 2, 0 / 2, 0 / 2, "failing alone where answers were due"),
    ("RmzA", 1 / 3, 1 / 1, 1 / 2, 2 / 5, "a missing output is a failed one"),
    ("Rnoa", 1 / 1, 0 / 1, 1 / 1, 2 / 2, "where no answer was asked for nothing is said"),
]
KINDS: dict[str, Any] = {
    "r": {"answer": "I don't know."},
    "a": {"answer": "Paris"},
    "x": {"error": "timeout"},
    "n": {},
}


def data(kinds: str) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
    rows, outs = [], []
    for i, kind in enumerate(kinds):
        unanswerable = kind in "RAXmn"
        rows.append(sample(sample_id=str(i), labels={"scenario": "unanswerable"} if unanswerable else {}))
        same = {"m": None, "z": None, "o": "n"}.get(kind, kind.lower())
        outs.append(None if same is None else output(**KINDS[same]))
    return rows, outs


def values(results: list[MetricResult]) -> list[float | None]:
    return [result.value if result.defined else None for result in results]


@pytest.mark.parametrize(("kinds", "want"), [(row[0], row[1:5]) for row in ROWS], ids=[row[5] for row in ROWS])
def test_by_hand(kinds: str, want: tuple[Any, ...]) -> None:
    assert values(evaluate(*data(kinds), NAMES)) == list(want)


def test_outcomes() -> None:
    recall, over, precision, f1 = (list(result.outcomes or ()) for result in evaluate(*data("RAXnraxoz"), NAMES))
    failed, missing = "system_failed:timeout", "system_failed:missing_output"
    other = ["skipped:answerable"] * 5
    assert recall == ["scored", "scored", failed, "skipped:no_response", *other]
    assert over == ["skipped:unanswerable"] * 4 + ["scored", "scored", failed, "skipped:no_response", missing]
    assert precision == [
        "scored", "skipped:not_refused", failed, "skipped:no_response",
        "scored", "skipped:not_refused", failed, "skipped:no_response", missing,
    ]  # fmt: skip
    assert f1 == [
        "scored", "scored", failed, "skipped:no_response", "scored", "scored", failed, "skipped:no_response", missing,
    ]  # fmt: skip


def test_scores_and_details_of_f1() -> None:
    (f1,) = evaluate(*data("RAXrax"), ["rejection_f1"])
    assert list(f1.scores or ()) == [1, 0, 0, 0, 1, 0]  # whether the decision was right
    assert f1.value == 2 / 6  # refused: R, r and the failed x; unanswerable: R, A, X
    assert f1.details["value_completed"] == 2 / 4
    assert f1.details["rightly_refused"] == 1 / 6
    assert f1.details["refused"] == f1.details["unanswerable"] == 3 / 6
    assert f1.interval is not None
    assert f1.interval[0] <= f1.value <= f1.interval[1]


def test_proportion_has_a_wilson_interval() -> None:
    for result in evaluate(*data("RRRAArrraaaa" * 5), NAMES[:3]):
        assert result.details["interval"]["method"] == "wilson"


def test_failures_can_be_left_out() -> None:
    rows, outs = data("RXAxra")
    (f1,) = evaluate(rows, outs, [{"rejection_f1": {"on_system_failure": "exclude"}}])
    assert f1.value == 2 / 4
    (precision,) = evaluate(rows, outs, [{"rejection_precision": {"on_system_failure": "exclude"}}])
    assert precision.value == 1 / 2


@pytest.mark.parametrize(("missing", "want"), [("fail", 1 / 2), ("zero", 1 / 2), ("skip", 1 / 1)])
def test_missing_output_is_never_a_refusal(missing: Any, want: float) -> None:
    one = NegativeRejectionRate(conventions=Conventions.of(missing=missing))
    assert one.compute(*data("Rm")).value == want


DECIDED: list[tuple[dict[str, Any], bool | None, str]] = [  # output, refused, why
    ({"answer": "I don't know", "refused": False}, False, "the output says that it answered"),
    ({"answer": "Paris", "refused": True}, True, "the output says that it refused"),
    ({"refused": True}, True, "it says so without an answer"),
    ({"refused": False}, False, "or that it did not"),
    ({"refused": np.True_, "answer": "Paris"}, True, "numpy's true is true"),
    ({"answer": ""}, True, "an empty answer is a refusal"),
    ({"answer": " \n\t"}, True, "so is a blank one"),
    ({"answer": "I don’t know."}, True, "a phrase, whatever the apostrophe"),
    ({"answer": "Ski don't know."}, False, "a phrase is whole words"),
    ({"answer": "我不知道。"}, True, "every language by default"),
    ({"answer": "Je ne sais pas, désolé"}, True, "French too"),
    ({"answer": "Paris"}, False, "an answer"),
    ({}, None, "nothing tells"),
]


@pytest.mark.parametrize(("fields", "want"), [row[:2] for row in DECIDED], ids=[row[2] for row in DECIDED])
def test_refusal_detection(fields: dict[str, Any], want: bool | None) -> None:
    row = sample(labels={"answerable": False})
    result = NegativeRejectionRate().compute([row], [output(**fields)])
    assert list(result.scores or ()) == [want]
    assert RefusalDetector().refused(row, output(**fields)) is want
    assert NegativeRejectionRate().reference(row, output(**fields)).value == want


def test_failed_output_is_ignored() -> None:
    row = sample(labels={"answerable": False})
    for fields in ({"answer": "I don't know"}, {"refused": True}, {"answer": ""}):
        result = NegativeRejectionRate().compute([row], [output(error="timeout", **fields)])
        assert list(result.scores or ()) == [0.0]


@pytest.mark.parametrize("refused", ["yes", 1, []], ids=str)
def test_refused_must_be_true_or_false(refused: Any) -> None:
    result = NegativeRejectionRate().compute([sample(labels={"answerable": False})], [output(refused=refused)])
    assert list(result.outcomes or ()) == ["measure_failed:bad_refused"]


MARKS: list[tuple[dict[str, Any], bool, str]] = [  # labels, unanswerable, why
    ({"scenario": "unanswerable"}, True, "the scenario says so"),
    ({"scenario": "paraphrase", "answerable": False}, True, "a paraphrase of an unanswerable question"),
    ({"scenario": "unanswerable", "answerable": True}, False, "the label decides over the scenario"),
    ({"answerable": False}, True, "the label alone"),
    ({"answerable": None, "scenario": "unanswerable"}, True, "no label"),
    ({"answerable": np.False_}, True, "numpy's false is false"),
    ({"scenario": "typo"}, False, "any other scenario"),
    ({}, False, "no mark at all"),
]


@pytest.mark.parametrize(("labels", "want"), [row[:2] for row in MARKS], ids=[row[2] for row in MARKS])
def test_which_questions_have_no_answer(labels: dict[str, Any], want: bool) -> None:
    recall, over, precision, f1 = evaluate([sample(labels=labels)], [output(answer="")], NAMES)
    assert recall.defined is want
    assert over.defined is not want
    assert (precision.value, f1.value) == (want, want)


@pytest.mark.parametrize("mark", ["no", 0, "false"], ids=repr)
def test_answerable_label_must_be_true_or_false(mark: Any) -> None:
    rows = [sample(sample_id=i, labels={"answerable": mark}) for i in "ab"]
    for result in evaluate(rows, [output(answer=""), output(error="timeout")], NAMES):
        assert list(result.outcomes or ()) == ["measure_failed:bad_answerable", "system_failed:timeout"]
        assert list(result.scores or ()) == [None, None]  # what a failure would have cost, nobody knows
        assert not result.defined


EXPECTED: list[tuple[Any, str, str]] = [  # metadata, outcome for an empty answer, why
    ({"expected_doc_ids": []}, "scored", "no document is expected"),
    ({"expected_doc_ids": ()}, "scored", "a tuple is a list"),
    ({"expected_doc_ids": ["d"]}, "skipped:expects_documents", "documents are expected"),
    ({}, "skipped:no_expectation", "nothing is said"),
    ({"expected_doc_ids": None}, "skipped:no_expectation", "null says nothing"),
    ({"expected_doc_ids": "d"}, "measure_failed:bad_expectation", "a text"),
    ({"expected_doc_ids": ""}, "measure_failed:bad_expectation", "an empty text is no empty list"),
    ({"expected_doc_ids": {}}, "measure_failed:bad_expectation", "an object"),
    ({"expected_doc_ids": [5]}, "measure_failed:bad_expectation", "a number among ids"),
    ({"expected_doc_ids": False}, "measure_failed:bad_expectation", "false is not nothing"),
    (["expected_doc_ids"], "measure_failed:bad_expectation", "metadata that is none"),
]


@pytest.mark.parametrize(("metadata", "want"), [row[:2] for row in EXPECTED], ids=[row[2] for row in EXPECTED])
def test_refusal_correctness_of_one(metadata: Any, want: str) -> None:
    one = RefusalCorrectness()
    row, refusal = sample(metadata=metadata), output(answer="")
    assert list(one.compute([row], [refusal]).outcomes or ()) == [want]
    plain = one.reference(row, refusal)
    assert ":".join(filter(None, [plain.status.name.lower(), plain.reason])) == want
    assert one.is_applicable(row, refusal) is (want == "scored")


def test_refusal_correctness() -> None:
    expected: list[Any] = [[], [], [], [], ["d"], "bad"]
    rows = [sample(sample_id=str(i), metadata={"expected_doc_ids": ids}) for i, ids in enumerate(expected)]
    kinds: list[dict[str, Any]] = [{"refused": True}, {"answer": "I cannot answer that."}, {"answer": "Paris"}]
    failed = output(error="timeout")
    result = RefusalCorrectness().compute(rows, [*(output(**kind) for kind in kinds), failed, failed, failed])
    assert result.value == 2 / 4  # the failed one is not refused; whether the last should be is not known
    assert list(result.scores or ()) == [1, 1, 0, 0, None, None]
    every = RefusalCorrectness().compute(rows[:2], [output(**kind) for kind in kinds[:2]])
    assert every.value == 1.0


def test_one_decision_for_all_metrics() -> None:
    calls: list[str] = []

    def judge(row: EvaluationSample, out: SystemOutputs) -> bool:
        calls.append(row.sample_id)
        assert out.response is not None
        return "sorry" in out.response.text

    rows = [sample(sample_id=str(i), labels={"answerable": i > 1}, metadata={"expected_doc_ids": []}) for i in range(6)]
    outs = [
        output(answer="sorry"),
        output(answer="I don't know"),  # not by this judge
        output(answer="sorry"),
        output(answer=""),
        output(answer="sorry", refused=False),
        output(answer="sorry", error="timeout"),
    ]
    results = evaluate(rows, outs, [metric(name, judge=judge) for name in [*NAMES, "refusal_correctness"]])
    assert calls == ["0", "1", "2"]  # once each, and only where it is asked
    assert values(results) == [1 / 2, 3 / 4, 1 / 4, 2 / 6, 3 / 6]
    assert "|refusal:judge-test_one_decision_for_all_metrics.<locals>.judge-" in str(results[0].signature)


def test_equal_detectors_share_a_decision() -> None:
    batch = Batch([sample()], [output(answer="I don't know")])
    first, second = metric("rejection_f1", languages=["de", "en"]), metric("over_refusal_rate", languages=["en", "de"])
    assert refusals(batch, first.detector) is refusals(batch, second.detector)  # type: ignore[attr-defined]


def fails(row: EvaluationSample, out: SystemOutputs) -> bool:
    raise ValueError("no connection")


def test_judge_that_raises_is_a_failed_measurement() -> None:
    rows, outs = data("RAra")
    with pytest.warns(AueporaWarning, match="the refusal judge 'fails' raised ValueError: no connection"):
        (result,) = evaluate(rows, outs, [NegativeRejectionRate(judge=fails)])
    assert list(result.outcomes or ())[:2] == ["measure_failed:raised_value_error"] * 2
    assert result.details["bounds"] == [0.0, 1.0]


@pytest.mark.parametrize("verdict", [None, 1, "yes", 0.5], ids=repr)
def test_judgement_must_be_true_or_false(verdict: Any) -> None:
    one = RejectionF1(judge=lambda row, out: verdict)
    with pytest.warns(AueporaWarning, match="neither True nor False"):
        result = one.compute(*data("R"))
    assert list(result.outcomes or ()) == ["measure_failed:bad_refusal_judgement"]


def test_judge_may_return_numpy_bool() -> None:
    assert NegativeRejectionRate(judge=lambda row, out: np.True_).compute(*data("A")).value == 1.0  # type: ignore


@dataclass
class Threshold:
    """A judge that is an object, and not hashable."""

    least: int

    def __call__(self, row: EvaluationSample, out: SystemOutputs) -> bool:
        return out.response is not None and len(out.response.text) < self.least


def test_judge_may_be_any_callable() -> None:
    one = RejectionPrecision(judge=Threshold(6))
    assert values(evaluate(*data("RAra"), [one])) == [1 / 2]  # "Paris" is short
    assert str(one.signature) == "rejection_precision|refusal:judge-Threshold|v2"
    assert hash(one) == hash(RejectionPrecision(judge=Threshold(6)))


def test_own_phrases_replace_the_built_in_ones() -> None:
    rows, outs = data("RR")
    outs[1] = output(answer="No comment!")
    (result,) = evaluate(rows, outs, [{"negative_rejection_rate": {"refusal_patterns": ["no comment"]}}])
    assert list(result.scores or ()) == [0, 1]


def test_languages() -> None:
    row, out = sample(labels={"answerable": False}), output(answer="Ich weiß es nicht.")
    for languages, want in ((None, 1), (["en"], 0), (["de"], 1), (["en", "de"], 1)):
        (result,) = evaluate([row], [out], [{"negative_rejection_rate": {"languages": languages}}])
        assert result.value == want


SIGNATURES: list[tuple[dict[str, Any], str]] = [
    ({}, "built-in"),
    ({"languages": ["en"]}, "built-in[en]"),
    ({"languages": ["en", "de", "en"]}, "built-in[de,en]"),
    ({"refusal_patterns": ["No comment", "pass"]}, "patterns-"),
]


@pytest.mark.parametrize(("options", "want"), SIGNATURES, ids=[row[1] for row in SIGNATURES])
def test_signatures(options: dict[str, Any], want: str) -> None:
    text = str(OverRefusalRate(**options).signature)
    assert text.startswith(f"over_refusal_rate|refusal:{want}")
    again = metric(spec_of(OverRefusalRate(**options)))
    assert str(again.signature) == text  # type: ignore[attr-defined]


def test_irrelevant_options_do_not_change_the_signature() -> None:
    one, two = RejectionF1(("No  comment", "pass")), RejectionF1(("pass", "no comment", "PASS"))
    assert one.signature == two.signature
    assert one.signature != RejectionF1(("pass",)).signature
    assert len(one.signature_options()["refusal"]) == len("patterns-") + 12


WRONG: list[tuple[dict[str, Any], type[AueporaError], str]] = [
    ({"languages": ("xx",)}, BadValueError, "no refusal phrases for the language 'xx', only for ar, cs, de, en, es,"),
    ({"languages": "en"}, BadTypeError, "languages must be a non-empty list of non-empty strings, not 'en'"),
    ({"languages": []}, BadValueError, "languages must be a non-empty list"),
    ({"refusal_patterns": ["pass", " \n"]}, BadValueError, "refusal_patterns at position 2 must be a non-empty string"),
    ({"refusal_patterns": ["pass"], "languages": ["en"]}, BadValueError, "refusal_patterns and languages were given"),
    ({"languages": ["en"], "judge": fails}, BadValueError, "languages and judge were given"),
    ({"judge": "gpt"}, BadTypeError, "judge must be a function, not 'gpt'"),
]


@pytest.mark.parametrize(("options", "kind", "message"), WRONG, ids=[row[2] for row in WRONG])
def test_wrong_options(options: dict[str, Any], kind: type[AueporaError], message: str) -> None:
    with pytest.raises(kind, match=message.replace("[", r"\[")):
        NegativeRejectionRate(**options)


def test_judge_cannot_be_awaited() -> None:
    async def judge(row: EvaluationSample, out: SystemOutputs) -> bool:
        return True

    with pytest.raises(BadTypeError, match="synchronous function"):
        RejectionF1(judge=judge)  # type: ignore[arg-type]


def test_suggested_only_if_samples_are_labelled() -> None:
    out = output(answer="Paris")
    assert not {*NAMES, "refusal_correctness"} & set(suggest_metrics([sample()], [out]))
    for labels in ({"scenario": "unanswerable"}, {"answerable": True}):
        assert set(NAMES) <= set(suggest_metrics([sample(labels=labels)], [out]))
    found = suggest_metrics([sample(metadata={"expected_doc_ids": []})], [out])
    assert "refusal_correctness" in found
    assert not set(NAMES) & set(found)


KIND = st.sampled_from("RAXmnraxzo")


@given(st.lists(KIND, max_size=12).map("".join))
def test_f1_is_the_harmonic_mean_of_precision_and_recall(kinds: str) -> None:
    recall, _, precision, f1 = values(evaluate(*data(kinds), NAMES))
    if recall is None and precision is None:
        assert f1 is None
    elif not recall or not precision:
        assert f1 == 0
    else:
        assert f1 == pytest.approx(2 / (1 / recall + 1 / precision), abs=1e-12)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=12))
def test_f1_is_symmetric_in_refused_and_unanswerable(pairs: list[tuple[bool, bool]]) -> None:
    def f1(pairs: list[tuple[bool, bool]]) -> float:
        rows = [sample(sample_id=str(i), labels={"answerable": not due}) for i, (_, due) in enumerate(pairs)]
        result = RejectionF1().compute(rows, [output(refused=refused) for refused, _ in pairs])
        return result.value if result.defined else math.nan

    assert f1(pairs) == pytest.approx(f1([(due, refused) for refused, due in pairs]), abs=0, nan_ok=True)


@given(st.lists(KIND, max_size=12).map("".join), st.sampled_from([("X", "RA"), ("x", "ra")]))
def test_failing_is_never_better_than_answering_or_refusing(kinds: str, ends: tuple[str, str]) -> None:
    failed, others = ends
    for name in NAMES:
        worst = evaluate(*data(kinds + failed), [name])[0].value
        for other in others:
            value = evaluate(*data(kinds + other), [name])[0].value
            assert worst >= value if name == "over_refusal_rate" else worst <= value


MODELS = {
    "gemma-3-27b-it": 0.92,
    "gemma-3-4b-it": 0.8467,
    "openai_gpt-oss-120b": 0.8567,
    "openai_gpt-oss-20b": 0.7867,
    "qwen-3-32b": 0.8933,
    "qwen3_0.6b": 0.8667,
}


@pytest.mark.parametrize("model", MODELS)
def test_six_models_without_a_helpful_document(model: str) -> None:
    path = need_data("ragen_eval", "negative_rejection", f"{model}.json")
    answers = json.loads(path.read_text(encoding="utf-8"))["individual_results"]
    rows = [sample(sample_id=one["question_id"], labels={"scenario": "unanswerable"}) for one in answers]
    outs = [output(answer=one["answer"]) for one in answers]
    recall, over, precision, _ = evaluate(rows, outs, NAMES)
    assert round(recall.value, 4) == MODELS[model]
    assert list(recall.scores or ()) == [float(one["is_correct_refusal"]) for one in answers]
    assert (over.defined, precision.value) == (False, 1.0)


def test_squad_2() -> None:
    folder = need_data("squad2")
    truth = json.loads((folder / "ground_truth.json").read_text(encoding="utf-8"))
    given_ = json.loads((folder / "predictions" / "BERT.json").read_text(encoding="utf-8"))
    rows = [sample(sample_id=name, labels={"answerable": not one["is_impossible"]}) for name, one in truth.items()]
    outs = [output(answer=given_[row.sample_id]) for row in rows]
    results = evaluate(rows, outs, NAMES)
    refused = {name for name in truth if given_[name] == ""}
    due = {name for name, one in truth.items() if one["is_impossible"]}
    assert (len(refused & due), len(due)) == (228, 258)
    recall, precision = 228 / 258, len(refused & due) / len(refused)
    assert values(results) == [
        recall,
        len(refused - due) / (len(truth) - 258),
        precision,
        pytest.approx(2 * precision * recall / (precision + recall), abs=1e-12),
    ]
