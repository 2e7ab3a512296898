"""Noise among the documents, and what is false in them: every rate by hand, what breaks it, its laws, real answers."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from auepora_eval import EvaluationSample, MetricResult, Response, Score, SystemOutputs, evaluate, metric
from auepora_eval.core.conventions import Conventions
from auepora_eval.core.registry import Spec, spec_of
from auepora_eval.errors import BadTypeError, BadValueError, MetricDefinitionError
from auepora_eval.metrics.false_documents import ErrorCorrectionRate, ErrorDetectionRate
from auepora_eval.metrics.wrappers import ContextNoiseAccuracy
from helpers.builders import answered, output, sample
from helpers.requirements import examples, need_data
from helpers.suggestions import suggest_metrics

CUE = "There are factual errors in the provided documents."
LIE: dict[str, Any] = {"wrong_answer": "Lyon"}


def scored(spec: Any, rows: list[EvaluationSample], texts: list[str | None], **options: Any) -> MetricResult:
    (result,) = evaluate(rows, [answered(text) for text in texts], [spec], **options)
    return result


def outcome_of(score: Score) -> str:
    """The outcome as results write it."""
    name = score.status.name.lower()
    return f"{name}:{score.reason}" if score.reason else name


# Accuracy by noise ratio


def noisy(*rows: tuple[Any, str | None], **options: Any) -> MetricResult:
    """Samples that ask for Paris, each with its noise ratio and the answer."""
    made = [
        sample(sample_id=f"q{n}", answer="Paris", labels={} if ratio is None else {"noise_ratio": ratio})
        for n, (ratio, _) in enumerate(rows)
    ]
    return scored(metric("context_noise_accuracy", **options), made, [text for _, text in rows])


def by_ratio(result: MetricResult) -> dict[str, tuple[float | None, int]]:
    return {name: (one["value"], one["num_samples"]) for name, one in result.details["by_noise_ratio"].items()}


def test_accuracy_by_noise_ratio() -> None:
    result = noisy((0.8, "Rome"), (0, "Paris"), (0.4, "Paris"), (0.4, "Rome"), (0.0, "in Paris"), (None, "Rome"))
    assert result.value == 3 / 5
    assert by_ratio(result) == {"0.0": (1, 2), "0.4": (1 / 2, 2), "0.8": (0, 1)}
    assert list(result.details["by_noise_ratio"]) == ["0.0", "0.4", "0.8"]  # ascending, whatever the order of samples
    assert result.details["skipped_no_noise_ratio"] == 1


def test_each_ratio_has_the_interval_it_has_alone() -> None:
    rows = [(0.2, "Paris"), (0.2, "Rome"), (0.2, "Paris"), (0.6, "Rome"), (0.6, "Paris")]
    alone = noisy(*rows[:3])
    assert noisy(*rows).details["by_noise_ratio"]["0.2"]["interval"] == pytest.approx(list(alone.interval or ()))


RATIOS: list[tuple[Any, str, str]] = [  # noise ratio, outcome, why
    (0, "scored", "an integer"),
    (1, "scored", "all of it is noise"),
    (1.0, "scored", "a float"),
    (None, "skipped:no_noise_ratio", "none"),
    (-0.1, "measure_failed:bad_noise_ratio", "below 0"),
    (60, "measure_failed:bad_noise_ratio", "per cent"),
    (math.nan, "measure_failed:bad_noise_ratio", "not a number"),
    (math.inf, "measure_failed:bad_noise_ratio", "infinite"),
    ("0.5", "measure_failed:bad_noise_ratio", "a text"),
    (True, "measure_failed:bad_noise_ratio", "true is no share"),
    ([0.5], "measure_failed:bad_noise_ratio", "a list"),
]


@pytest.mark.parametrize(("ratio", "outcome"), [r[:2] for r in RATIOS], ids=[r[2] for r in RATIOS])
def test_noise_ratio_values(ratio: Any, outcome: str) -> None:
    assert list(noisy((ratio, "Paris")).outcomes or ()) == [outcome]
    row = sample(answer="Paris", labels={} if ratio is None else {"noise_ratio": ratio})
    plain = ContextNoiseAccuracy().reference(row, output(answer="Paris"))
    assert plain is not None
    assert outcome_of(plain) == outcome


def test_ratios_that_differ_by_rounding_are_one() -> None:
    assert by_ratio(noisy((0.1 + 0.2, "Paris"), (0.3, "Rome"), (-0.0, "x"), (0, "x"))) == {
        "0.0": (0, 2),
        "0.3": (1 / 2, 2),
    }


def test_failures_count_in_their_ratio_and_no_answer_is_skipped() -> None:
    result = noisy((0.4, "Paris"), (0.4, "!"), (0.4, "?"), (0.4, None), (0.8, None), ("x", "!"), (None, "!"))
    assert (result.value, result.details["value_completed"]) == (1 / 4, 1)  # two failures in 0.4, one without a ratio
    assert by_ratio(result) == {"0.4": (1 / 3, 3), "0.8": (None, 0)}
    assert list(result.outcomes or ())[3:] == [
        "skipped:no_response",
        "skipped:no_response",
        "system_failed:timeout",
        "skipped:no_noise_ratio",
    ]


def test_any_base_metric() -> None:
    rows = ((0.0, "Paris"), (0.5, "in Paris"), (0.5, "Rome"))
    assert by_ratio(noisy(*rows, base="exact_match")) == {"0.0": (1, 1), "0.5": (0, 2)}
    f1 = noisy(*rows, base="token_f1")
    assert by_ratio(f1) == {"0.0": (1, 1), "0.5": (pytest.approx(1 / 3), 2)}  # F1 of "in Paris": 2 / 3
    assert f1.value == pytest.approx((1 + 2 / 3) / 3)
    distinct = noisy((0.0, "a b"), (0.5, "a b"), (0.5, "a b"), base={"distinct_n": {"n": 1}})
    assert (distinct.value, by_ratio(distinct)) == (2 / 6, {"0.0": (1, 1), "0.5": (2 / 4, 2)})
    bleu = noisy((0.0, "Paris"), (0.5, "Paris"), (0.5, "Rome"), base={"bleu": {"max_order": 1}})
    assert [value for value, _ in by_ratio(bleu).values()] == pytest.approx([100, 50])
    assert bleu.value == pytest.approx(200 / 3)


INSUFFICIENT: list[tuple[float, str, float, float, str]] = [  # ratio, answer, judged, rgb_script, why
    (0.4, "Paris", 1, 1, "an answer is judged"),
    (0.4, "Rome", 0, 0, "wrong is wrong"),
    (0.4, "insufficient information, but Paris", 1, 0, "the script looks no further once it declines"),
    (0.4, "Insufficient information, but Paris", 1, 1, "the script compares letter by letter"),
    (1.0, "insufficient information", 0, 1, "where all is noise, to decline is right"),
    (1.0, "文档信息不足", 0, 1, "in Chinese too"),
    (1.0, "Paris", 1, 1, "and so is to know"),
    (1.0, "Rome", 0, 0, "but not to guess"),
]


@pytest.mark.parametrize(
    ("ratio", "text", "judged", "script"), [r[:4] for r in INSUFFICIENT], ids=[r[4] for r in INSUFFICIENT]
)
def test_declining_as_rgb_counts_it(ratio: float, text: str, judged: float, script: float) -> None:
    assert noisy((ratio, text)).value == judged
    assert noisy((ratio, text), insufficient="rgb_script").value == script


def test_base_that_pairs_samples_has_no_ratio_of_its_own() -> None:
    with pytest.raises(BadValueError, match="'noise_robustness' is computed from several samples together"):
        ContextNoiseAccuracy("noise_robustness")
    with pytest.raises(BadValueError, match="needs a base whose scores are 0 or 1, which those of 'token_f1' are not"):
        ContextNoiseAccuracy("token_f1", insufficient="rgb_script")


def test_slices_have_their_own_ratios() -> None:
    rows = [
        sample(sample_id=f"q{n}", answer="Paris", labels={"noise_ratio": n / 4, "lang": lang})
        for n, lang in enumerate(["en", "en", "fr", "fr"])
    ]
    result = scored("context_noise_accuracy", rows, ["Paris", "Rome", "Paris", "Paris"], slices="labels.lang")
    groups = result.slices["labels.lang"]
    assert by_ratio(groups["en"]) == {"0.0": (1, 1), "0.25": (0, 1)}
    assert by_ratio(groups["fr"]) == {"0.5": (1, 1), "0.75": (1, 1)}


# Detection

CUES: list[tuple[Any, str, float, str]] = [  # cues, answer, want, why
    ("rgb_script", CUE, 1, "the sentence RGB's prompt demands"),
    ("rgb_script", "The text has FACTUAL  errors.", 1, "whatever the case"),
    ("rgb_script", "factual\n\terrors", 1, "whatever the white space"),
    ("rgb_script", "提供的文档存在事实性错误。", 1, "in Chinese"),
    ("rgb_script", "The documents are wrong.", 0, "other words: a judge would see it"),
    ("rgb_script", "There are no factual errors.", 1, "a cue is a cue, even denied"),
    ("rgb_script", "Lyon", 0, "misled"),
    ("rgb_script", "I cannot answer.", 0, "a refusal detects nothing"),
    ("rgb_script", "", 0, "nor does an empty answer"),
    ("rgb_paper", CUE, 1, "the whole sentence"),
    ("rgb_paper", "there are factual errors in the provided documents. It is Paris.", 1, "with more behind it"),
    ("rgb_paper", "There are factual errors in the provided context.", 0, "another sentence"),
    (["the sources don't agree"], "The sources don\u2019t agree", 1, "any kind of apostrophe"),
    (["the sources don\u2018t agree"], "THE SOURCES DON'T AGREE!", 1, "in the cue as well"),
    (["a", "b"], "b", 1, "any one of them"),
    ([" wrong\n"], "so wrong", 1, "white space around a cue is none of it"),
]


@pytest.mark.parametrize(("cues", "text", "want"), [r[:3] for r in CUES], ids=[r[3] for r in CUES])
def test_cues(cues: Any, text: str, want: float) -> None:
    result = scored(ErrorDetectionRate(cues), [sample(metadata=LIE)], [text])
    assert (result.value, result.details["num_scored"]) == (want, 1)


def test_detection_rate_is_a_proportion_with_a_wilson_interval() -> None:
    rows = [sample(sample_id=str(n), metadata=LIE) for n in range(4)] + [sample(sample_id="true")]
    result = scored("error_detection_rate", rows, [CUE, "Lyon", "Paris", CUE, CUE])
    assert (result.value, result.details["num_samples"]) == (2 / 4, 4)
    assert result.details["interval"]["method"] == "wilson"
    assert result.details["skipped_no_false_documents"] == 1


FALSE: list[tuple[dict[str, Any], Any, str, str]] = [  # labels, metadata, outcome, why
    ({}, {"wrong_answer": "Lyon"}, "scored", "a false answer"),
    ({}, {"wrong_answer": ["Lyon", "Nice"]}, "scored", "several"),
    ({}, {"wrong_answer": ("Lyon",)}, "scored", "a tuple is a list"),
    ({"scenario": "false_documents"}, {}, "scored", "the scenario says so"),
    ({"scenario": "false_documents"}, None, "scored", "no metadata at all"),
    ({"scenario": "typo"}, {}, "skipped:no_false_documents", "another scenario"),
    ({}, {}, "skipped:no_false_documents", "nothing says so"),
    ({}, {"wrong_answer": None}, "skipped:no_false_documents", "null"),
    ({}, {"wrong_answer": []}, "skipped:no_false_documents", "an empty list"),
    ({}, {"wrong_answer": " "}, "skipped:no_false_documents", "a blank"),
    ({}, {"wrong_answer": 5}, "measure_failed:bad_wrong_answer", "a number"),
    ({}, {"wrong_answer": False}, "measure_failed:bad_wrong_answer", "false is not nothing"),
    ({}, {"wrong_answer": ["Lyon", None]}, "measure_failed:bad_wrong_answer", "null among texts"),
    ({}, {"wrong_answer": {"text": "Lyon"}}, "measure_failed:bad_wrong_answer", "an object"),
    ({"scenario": "false_documents"}, {"wrong_answer": 5}, "measure_failed:bad_wrong_answer", "the scenario does not help"),
    ({}, ["wrong_answer"], "measure_failed:bad_wrong_answer", "metadata of another type"),
]  # fmt: skip


@pytest.mark.parametrize(("labels", "metadata", "outcome"), [r[:3] for r in FALSE], ids=[r[3] for r in FALSE])
def test_what_false_documents_are(labels: dict[str, Any], metadata: Any, outcome: str) -> None:
    row = sample(answer="Paris", labels=labels, metadata=metadata)
    for one in (ErrorDetectionRate(), ErrorCorrectionRate()):
        result = scored(one, [row], [f"{CUE} It is Paris."])
        assert list(result.outcomes or ()) == [outcome]
        plain = one.reference(row, output(answer=f"{CUE} It is Paris."))
        assert plain is not None
        assert outcome_of(plain) == outcome
        assert one.is_applicable(row, output()) == (not outcome.startswith("skipped"))


OUTCOMES: list[tuple[str | None, bool, str, str]] = [  # answer, false documents, outcome, why
    (None, True, "skipped:no_response", "no answer was asked for"),
    (None, False, "skipped:no_false_documents", "the question does not apply"),
    ("!", True, "system_failed:timeout", "a failure counts"),
    ("!", False, "skipped:no_false_documents", "not where the question does not apply"),
    ("?", True, "system_failed:missing_output", "an output that is missing"),
]


@pytest.mark.parametrize(("text", "false", "outcome"), [r[:3] for r in OUTCOMES], ids=[r[3] for r in OUTCOMES])
@pytest.mark.parametrize(
    ("spec", "worst"),
    [
        ("error_detection_rate", 0.0),
        ("error_correction_rate", 0.0),
        ({"error_correction_rate": {"over": "all"}}, 0.0),
        ("mistake_reappearance_rate", 1.0),
    ],
    ids=str,
)
def test_outcome_of_a_sample(spec: Spec, worst: float, text: str | None, false: bool, outcome: str) -> None:
    result = scored(spec, [sample(answer="Paris", metadata=LIE if false else {})], [text])
    if spec == "mistake_reappearance_rate":
        outcome = outcome.replace("no_false_documents", "no_wrong_answer")
    assert list(result.outcomes or ()) == [outcome]
    assert list(result.scores or ()) == [worst if "failed" in outcome else None]


def test_judge_replaces_cues_and_is_called_once() -> None:
    asked = []

    def judge(row: EvaluationSample, out: SystemOutputs) -> bool:
        asked.append(row.sample_id)
        assert out.response is not None
        return "wrong" in out.response.text

    rows = [sample(sample_id=str(n), answer="Paris", metadata=LIE) for n in range(4)]
    outs = [answered(text) for text in ("The documents are wrong: Paris", CUE, "!", "Their Lyon is wrong")]
    detection, correction = evaluate(rows, outs, [ErrorDetectionRate(judge=judge), ErrorCorrectionRate(judge=judge)])
    assert list(detection.scores or ()) == [1, 0, 0, 1]
    assert list(correction.scores or ()) == [1, None, 0, 0]
    assert asked == ["0", "1", "3"]  # once for both metrics, and not about a failure
    assert "judge:test_judge" in (detection.signature or "")


def test_judge_that_fails_is_a_failed_measurement() -> None:
    def torn(row: EvaluationSample, out: SystemOutputs) -> Any:
        if row.sample_id == "raises":
            raise RuntimeError("out of memory")
        return "perhaps"

    rows = [sample(sample_id=name, answer="Paris", metadata=LIE) for name in ("raises", "says")]
    with pytest.warns(UserWarning, match="out of memory"):
        results = evaluate(
            rows, [output(answer=CUE)] * 2, [ErrorDetectionRate(judge=torn), ErrorCorrectionRate(judge=torn)]
        )
    for result in results:
        assert list(result.outcomes or ()) == [
            "measure_failed:raised_runtime_error",
            "measure_failed:judge_unparseable",
        ]


BAD_CUES: list[tuple[Any, str]] = [
    ("factual errors", "a text alone: which of the two was meant?"),
    ([], "none"),
    ([""], "an empty one"),
    (["  "], "a blank one"),
    (["a", 5], "a number"),
    (5, "no list"),
    (None, "nothing"),
]


@pytest.mark.parametrize("cues", [r[0] for r in BAD_CUES], ids=[r[1] for r in BAD_CUES])
@pytest.mark.parametrize("kind", [ErrorDetectionRate, ErrorCorrectionRate])
def test_invalid_cues(kind: Any, cues: Any) -> None:
    with pytest.raises(BadValueError, match="cues must be a list of phrases, or one of rgb_script, rgb_paper"):
        kind(cues=cues)


def test_options_of_detection() -> None:
    async def later(row: EvaluationSample, out: SystemOutputs) -> bool:
        return True

    for judge in ("gpt", later):
        with pytest.raises(BadTypeError, match=r"judge must be a (synchronous )?function"):
            ErrorDetectionRate(judge=judge)  # type: ignore[arg-type]
    with pytest.raises(BadValueError, match="give cues or a judge"):
        ErrorDetectionRate(cues=("x",), judge=lambda row, out: True)
    with pytest.raises(MetricDefinitionError, match="which a spec cannot contain"):
        spec_of(ErrorDetectionRate(judge=lambda row, out: True))
    assert spec_of(metric("error_detection_rate", cues="rgb_script")) == "error_detection_rate"


# Correction


def corrected(*texts: str | None, **options: Any) -> MetricResult:
    rows = [sample(sample_id=str(n), answer="Paris", metadata=LIE) for n in range(len(texts))]
    return scored(metric("error_correction_rate", **options), rows, list(texts))


FOUR = (f"{CUE} It is Paris.", f"{CUE} It is Lyon.", "Paris", "Lyon")


def test_correction_among_the_detected_and_among_all() -> None:
    among = corrected(*FOUR)
    assert (among.value, among.details["num_samples"], among.details["skipped_not_detected"]) == (1 / 2, 2, 2)
    everywhere = corrected(*FOUR, over="all")
    assert (everywhere.value, list(everywhere.scores or ())) == (1 / 4, [1, 0, 0, 0])


def test_nothing_detected_gives_no_value() -> None:
    assert not corrected("Paris", "Lyon").defined
    assert corrected("Paris", "Lyon", over="all").value == 0


def test_failure_counts_as_not_corrected_either_way() -> None:
    among = corrected(*FOUR, "!")
    assert (among.value, among.details["value_completed"]) == (1 / 3, 1 / 2)
    everywhere = corrected(*FOUR, "!", over="all")
    assert (everywhere.value, everywhere.details["value_completed"]) == (1 / 5, 1 / 4)
    assert corrected(*FOUR, "!", on_system_failure="exclude").value == 1 / 2


@pytest.mark.parametrize(("missing", "value"), [("fail", 1 / 3), ("zero", 1 / 3), ("skip", 1 / 2)])
def test_missing_output_by_the_conventions(missing: Any, value: float) -> None:
    assert corrected(*FOUR, "?", conventions=Conventions.of(missing=missing)).value == value


def test_right_is_a_base_score_of_at_least_the_threshold() -> None:
    assert corrected(f"{CUE} It is Paris.", base="exact_match").value == 0
    # One word in common of ten and of one: F1 = 2 * (1/10) * 1 / (1/10 + 1) = 2 / 11.
    texts = (f"{CUE} It is Paris.", f"{CUE} It is Lyon.")
    assert corrected(*texts, base="token_f1", threshold=0.18).value == 1 / 2
    assert corrected(*texts, base="token_f1", threshold=0.19).value == 0


DECLINED: list[tuple[str, str, float | None, str]] = [  # answer, insufficient, score, why
    (f"{CUE} insufficient information, yet Paris", "judged", 1, "right by its words"),
    (f"{CUE} insufficient information", "judged", 0, "not right by its words"),
    (f"{CUE} insufficient information", "rgb_script", 1, "RGB's main script asks only that nothing was found wrong"),
    (f"{CUE} insufficient information, yet Paris", "rgb_fact_script", 0, "its other script asks for a right answer"),
    (f"{CUE} Paris", "rgb_fact_script", 1, "as any other"),
    (f"{CUE} Lyon", "rgb_script", 0, "as any other"),
    ("insufficient information", "rgb_script", None, "not detected"),
]


@pytest.mark.parametrize(("text", "how", "want"), [r[:3] for r in DECLINED], ids=[r[3] for r in DECLINED])
def test_detecting_answer_that_declines(text: str, how: str, want: float | None) -> None:
    assert list(corrected(text, insufficient=how).scores or ()) == [want]


def test_base_metric_skips_and_fails_for_its_own_reasons() -> None:
    rows = [
        sample(sample_id="asks nothing", metadata=LIE),
        sample(sample_id="asks nothing, and fails", metadata=LIE),
        sample(sample_id="cannot be measured", answer="Paris", metadata=LIE),
        sample(sample_id="cannot be measured, nor is it", answer="Paris", metadata=LIE),
    ]
    for row in rows[2:]:
        assert row.reference_answer is not None
        row.reference_answer.structured = {"slots": 5}
    texts: list[str | None] = [CUE, "!", CUE, "Lyon"]
    among, everywhere = (
        scored(metric("error_correction_rate", over=over), rows, texts) for over in ("detected", "all")
    )
    no_reference = ["skipped:no_reference"] * 2
    assert list(among.outcomes or ()) == [*no_reference, "measure_failed:bad_reference", "skipped:not_detected"]
    assert list(everywhere.outcomes or ()) == [*no_reference, "measure_failed:bad_reference", "scored"]
    assert everywhere.details["bounds"] == [0, 1 / 2]


BASES: list[tuple[Any, str]] = [
    ("hallucination_rate", "lower is better"),
    ("noise_robustness", "it pairs samples"),
]


@pytest.mark.parametrize("base", [r[0] for r in BASES], ids=[r[1] for r in BASES])
@pytest.mark.parametrize("name", ["error_correction_rate", "misleading_rate"])
def test_base_without_right_or_wrong_scores_is_rejected(name: str, base: Any) -> None:
    with pytest.raises(BadValueError, match=f"{name} needs a base that scores each answer as right or wrong"):
        metric(name, base=base)


def test_options_of_correction() -> None:
    with pytest.raises(BadTypeError, match="base must be a metric"):
        ErrorCorrectionRate(base=5)
    assert str(ErrorCorrectionRate(over="all").signature) == (
        "error_correction_rate|over:all|cues:rgb_script|base:containment|base.norm:squad|threshold:1|insufficient:judged|v1"
    )


PARTS = st.sampled_from(["", CUE, "Paris", "Lyon", f"{CUE} Paris", f"Paris. {CUE}", f"{CUE} insufficient information"])


@given(st.lists(PARTS, min_size=1, max_size=12), st.sampled_from(["judged", "rgb_script", "rgb_fact_script"]))
@settings(max_examples=examples(150))
def test_correction_among_all_is_detection_times_correction(texts: list[str], how: str) -> None:
    rows = [sample(sample_id=str(n), answer="Paris", metadata=LIE) for n in range(len(texts))]
    specs: list[Spec] = [
        "error_detection_rate",
        {"error_correction_rate": {"insufficient": how, "as": "among"}},
        {"error_correction_rate": {"insufficient": how, "over": "all", "as": "everywhere"}},
    ]
    detected, among, everywhere = evaluate(rows, [answered(text) for text in texts], specs)
    counts = [round(one.value * one.details["num_samples"]) for one in (detected, among, everywhere)]
    assert among.details["num_samples"] == counts[0]  # those detected are those asked
    assert counts[1] == counts[2] <= counts[0] <= len(texts)
    assert detected.value == counts[0] / len(texts)
    assert everywhere.value == counts[2] / len(texts)
    assert among.defined == (counts[0] > 0)
    assert not among.defined or among.value == counts[1] / counts[0]


@given(st.lists(st.tuples(st.sampled_from("!?-"), PARTS), min_size=1, max_size=8))
def test_failure_never_helps(rows: list[tuple[str, str]]) -> None:
    """Failing on one more question lowers no misleading rate and raises no rate that is better high."""
    samples = [sample(sample_id=str(n), answer="Paris", metadata=LIE) for n in range(len(rows))]
    texts: list[str | None] = [text if mark == "-" else mark for mark, text in rows]
    specs: list[Spec] = [
        "error_detection_rate",
        {"error_correction_rate": {"over": "all"}},
        "mistake_reappearance_rate",
    ]
    whole = evaluate(samples, [answered(text) for _, text in rows], specs)
    failing = evaluate(samples, [answered(text) for text in texts], specs)
    for before, after, better in zip(whole, failing, (1, 1, -1), strict=True):
        assert better * after.value <= better * before.value


# What runs where nobody names a metric

FAMILY = {
    "context_noise_accuracy",
    "error_correction_rate",
    "error_detection_rate",
    "misleading_rate",
    "mistake_reappearance_rate",
}
WORK: list[tuple[dict[str, Any], set[str], str]] = [  # what a sample has, which of them run, why
    ({}, set(), "a plain sample"),
    ({"labels": {"noise_ratio": 0.2}}, {"context_noise_accuracy"}, "noise"),
    ({"labels": {"noise_ratio": "x"}}, {"context_noise_accuracy"}, "noise of a wrong type is worth a word"),
    (
        {"metadata": LIE},
        {"error_correction_rate", "error_detection_rate", "mistake_reappearance_rate"},
        "a false answer",
    ),
    (
        {"labels": {"scenario": "false_documents"}},
        {"error_correction_rate", "error_detection_rate"},
        "false documents, and no false answer",
    ),
    (
        {"labels": {"variant_of": "a"}, "metadata": LIE},
        FAMILY - {"context_noise_accuracy"},
        "a false version of another",
    ),
]


@pytest.mark.parametrize(("fields", "wanted"), [r[:2] for r in WORK], ids=[r[2] for r in WORK])
def test_only_applicable_metrics_are_suggested(fields: dict[str, Any], wanted: set[str]) -> None:
    rows = [sample(sample_id="a", answer="Paris"), sample(sample_id="b", answer="Paris", **fields)]
    assert set(suggest_metrics(rows, [output(answer="Paris")] * 2)) & FAMILY == wanted


# Real answers

FOUND: list[tuple[str, int, int, int]] = [  # model, detected, of them judged so by BERT, answers with the false answer
    ("gemma-3-27b-it", 90, 90, 10),
    ("gemma-3-4b-it", 100, 100, 0),
    ("openai_gpt-oss-120b", 85, 85, 11),
    ("openai_gpt-oss-20b", 60, 59, 22),
    ("qwen-3-32b", 83, 83, 17),
    ("qwen3_0.6b", 100, 46, 52),
]


@pytest.mark.parametrize(("model", "detected", "judged", "repeated"), FOUND, ids=[row[0] for row in FOUND])
def test_detection_on_the_answers_of_six_models(model: str, detected: int, judged: int, repeated: int) -> None:
    """Cues against a judgement by similarity, question by question, on 100 questions with false documents.

    Their prompt demanded "There are factual errors in the provided context", and an answer counted as detecting where
    its BERTScore with that sentence was at least .95. The cue agrees in 545 of 600 answers. In the other 55 it sees what
    the similarity misses: 54 answers of the smallest model begin with the very sentence and go on to explain, which
    makes them less alike (up to .93), and one breaks off after "There are factual errors" (.948).
    """
    path = need_data("ragen_eval", "counterfactual_robustness", f"{model}.json")
    rows = json.loads(path.read_text(encoding="utf-8"))["individual_results"]
    samples, outputs = [], []
    for row in rows:
        true = row["true_answer"]  # a text, or the spellings of each thing to name
        reference = Response(true) if isinstance(true, str) else Response(true[0][0], structured={"slots": true})
        metadata = {"wrong_answer": row["fake_answer"]}
        samples.append(EvaluationSample(str(row["question_id"]), "?", reference_answer=reference, metadata=metadata))
        outputs.append(SystemOutputs([], Response(row["answer"])))
    specs: list[Spec] = [
        "error_detection_rate",
        {"error_detection_rate": {"cues": "rgb_paper", "as": "other_sentence"}},
        {"error_correction_rate": {"over": "all"}},
        "mistake_reappearance_rate",
    ]
    found, other, corrected_, repeats = evaluate(samples, outputs, specs)
    assert (found.value, repeats.value) == (detected / 100, repeated / 100)
    assert other.value == 0  # their prompt demanded another sentence than RGB's: cues must be those of the prompt
    assert corrected_.value == 0  # no answer that detects names the right one
    theirs = [row["is_correct_detection"] for row in rows]
    assert sum(theirs) == judged
    apart = [
        row for row, ours in zip(rows, found.scores or (), strict=True) if bool(ours) != row["is_correct_detection"]
    ]
    assert len(apart) == detected - judged  # so the cue never misses what the similarity sees
    for row in apart:
        assert row["answer"].startswith("There are factual errors")
        assert 0.85 < row["bert_f1_score"] < 0.95
        assert row["answer"] == "There are factual errors" or "in the provided context." in row["answer"]


def test_accuracy_with_and_without_noise_on_real_answers() -> None:
    samples, outputs = [], []
    for folder, prefix, ratio in (("perfect_context", "", 0), ("noise_robustness", "noise_0.5_", 0.5)):
        path = need_data("ragen_eval", folder, f"{prefix}gemma-3-27b-it.json")
        for row in json.loads(path.read_text(encoding="utf-8"))["individual_results"]:
            reference = Response(row["ground_truth"])
            name = f"{row['question_id']} {ratio}"
            samples.append(EvaluationSample(name, "?", reference_answer=reference, labels={"noise_ratio": ratio}))
            outputs.append(SystemOutputs([], Response(row["generated_answer"])))
    (result,) = evaluate(samples, outputs, [{"context_noise_accuracy": {"base": "exact_match"}}])
    found = {name: (round(value, 3), n) for name, (value, n) in by_ratio(result).items() if value is not None}
    assert found == {"0.0": (0.697, 300), "0.5": (0.627, 150)}  # the figures that came with the data
