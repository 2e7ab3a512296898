"""Failure attribution: one cause for each wrong answer, by hand; proportions add up to one."""

import random
from typing import Any, ClassVar

import pytest
from hypothesis import given, strategies as st

from auepora_eval import (
    Document,
    EvaluationSample,
    MetricResult,
    Response,
    RetrievedDocument,
    SampleMetric,
    Score,
    SystemOutputs,
    TargetCategory,
    evaluate,
    evaluate_stream,
    metric,
)
from auepora_eval.core.metrics_base import RunInfo
from auepora_eval.errors import BadTypeError, BadValueError
from auepora_eval.metrics.attribution import CAUSES, FailureAttribution, attribute_failures

TEXTS = {"gold": "the tower is in paris", "a": "rome has a forum", "b": "london has a bridge"}


def case(
    returned: str, answer: str | None, *, error: str | None = None, refused: bool | None = None, **fields: Any
) -> tuple[EvaluationSample, SystemOutputs]:
    sample = EvaluationSample(
        fields.pop("sample_id", "1"),
        "where is the tower?",
        relevant_docs=fields.pop("relevant_docs", [Document("gold")]),
        reference_answer=Response(fields.pop("reference", "paris")),
        **fields,
    )
    retrieved = [RetrievedDocument(Document(i, TEXTS[i]), None, r) for r, i in enumerate(returned.split(), 1)]
    response = None if answer is None else Response(answer)
    return sample, SystemOutputs(retrieved, response, error=error, refused=refused)


ROWS = [  # case, cause, why
    (case("a b", "rome"), "not_returned", "no relevant document at all"),
    (case("", "rome"), "not_returned", "nothing returned"),
    (case("a b gold", "rome"), "below_cut", "the third, and the cut is two"),
    (case("gold a", "rome"), "unused", "rome is in the context, in another document"),
    (case("gold a", "vienna"), "contradicts_context", "no word of the answer is in the context"),
    (case("gold a", "vienna it is in"), "unused", "half of the words are there"),
    (case("gold a b", "london"), "contradicts_context", "the third document is not in the context"),
    (case("gold a", "I don't know"), "refused", "it declined, with the document before it"),
    (case("gold a", ""), "refused", "an empty answer"),
    (case("gold a", "rome", refused=True), "refused", "the output says so"),
    (case("a b", "I don't know"), "not_returned", "it declined because the retriever found nothing"),
    (case("gold", None, error="timeout"), "system_failed", "the system failed"),
    (case("gold a", "it is in Paris"), None, "right"),
    (case("a b", "paris"), None, "right, if not by its documents"),
    (case("a", "rome", labels={"scenario": "unanswerable"}), None, "there is no right answer"),
    (case("a", "rome", labels={"answerable": "?"}), None, "the mark says nothing"),
    (case("a", "rome", relevant_docs=[]), None, "nothing is relevant"),
    (case("a", "rome", relevant_docs=None), None, "not annotated"),
    (case("a", None), None, "no answer was asked for"),
]


@pytest.mark.parametrize(("pair", "cause"), [row[:2] for row in ROWS], ids=[row[2] for row in ROWS])
def test_each_wrong_answer_has_its_cause(pair: tuple[EvaluationSample, SystemOutputs], cause: str | None) -> None:
    sample, output = pair
    assert attribute_failures([sample], [output], k=2) == [cause]
    if output.error is None:
        plain = FailureAttribution(k=2).plain_cause(sample, output)
        assert (plain if isinstance(plain, str) else None) == cause


def test_undecided_refusal_is_a_failed_measurement() -> None:
    sample, output = case("gold a", "rome", refused="perhaps")  # type: ignore[arg-type]
    attribution = FailureAttribution(k=2)
    (result,) = evaluate([sample], [output], [attribution])
    assert list(result.outcomes or ()) == ["measure_failed:refusal_unclear"]
    assert attribution.plain_cause(sample, output) == Score.fail("refusal_unclear")


def everything() -> tuple[list[EvaluationSample], list[SystemOutputs]]:
    pairs = [row[0] for row in ROWS]
    for number, (sample, _) in enumerate(pairs):
        sample.sample_id = str(number)
    return [sample for sample, _ in pairs], [output for _, output in pairs]


def shares(result: MetricResult) -> list[float]:
    return [result.details[f"share_{cause}"] for cause in CAUSES]


def test_proportions_add_up_to_one() -> None:
    (result,) = evaluate(*everything(), ["failure_attribution@2"])
    counts = {cause: sum(row[1] == cause for row in ROWS) for cause in CAUSES}
    wrong = sum(counts.values())
    assert result.details["num_samples"] == wrong - counts["system_failed"]
    assert {cause: found["count"] for cause, found in result.details["causes"].items()} == counts
    assert shares(result) == [count / wrong for count in counts.values()]
    assert sum(shares(result)) == pytest.approx(1)
    # A crash is no answer that the retriever could have saved: it has its share, and leaves the value.
    assert result.value == (counts["not_returned"] + counts["below_cut"]) / (wrong - counts["system_failed"])
    for found in result.details["causes"].values():
        assert found["interval"][0] <= found["share"] <= found["interval"][1]
    assert result.details["skipped_answered_right"] == 2
    assert result.details["failed_timeout"] == 1
    assert result.details["failed_bad_answerable"] == 1


@given(st.integers(0, 10_000), st.integers(1, 4))
def test_proportions_always_add_up_to_one(seed: int, k: int) -> None:
    rng = random.Random(seed)
    pairs = []
    for number in range(rng.randint(0, 12)):
        returned = " ".join(rng.sample(list(TEXTS), rng.randint(0, 3)))
        answer = rng.choice(["paris", "rome", "vienna", "I don't know", "", None])
        pairs.append(case(returned, answer, sample_id=str(number), error=rng.choice([None, None, "timeout"])))
    result = FailureAttribution(k=k).compute([sample for sample, _ in pairs], [output for _, output in pairs])
    counts = {cause: found["count"] for cause, found in result.details["causes"].items()}
    assert sum(counts.values()) - counts["system_failed"] == result.details["num_samples"]
    assert result.defined is (result.details["num_samples"] > 0)
    if sum(counts.values()):
        assert sum(shares(result)) == pytest.approx(1)
    else:
        assert shares(result) == [None] * len(CAUSES)


def test_batches_and_executors_give_the_same_result() -> None:
    samples, outputs = everything()
    (whole,) = evaluate(samples, outputs, ["failure_attribution@2"])
    assert evaluate(samples, outputs, ["failure_attribution@2"], batch_size=3) == [whole]
    pairs = zip(samples, outputs, strict=True)
    (folded,) = evaluate_stream(pairs, ["failure_attribution@2"], batch_size=3, keep_scores=False)
    assert (folded.value, folded.details) == (whole.value, whole.details)


def test_parts_can_be_chosen() -> None:
    pair = case("gold a", "the tower is in rome")
    assert attribute_failures([pair[0]], [pair[1]], k=2) == ["unused"]
    assert attribute_failures([pair[0]], [pair[1]], k=2, correct="token_f1", correct_from=0.2) == ["unused"]
    assert attribute_failures([pair[0]], [pair[1]], k=2, correct="answer_relevance", correct_from=0.1) == [None]
    strict = attribute_failures([pair[0]], [pair[1]], k=1, faithfulness={"support_density": {"k": 1}}, faithful_from=1)
    assert strict == ["contradicts_context"]  # "rome" is in the second document
    no_texts = case("gold a", "vienna")
    for item in no_texts[1].retrieved:
        item.doc.text = ""
    assert attribute_failures([no_texts[0]], [no_texts[1]], k=2) == ["unused"]


def test_failures_can_be_left_out() -> None:
    samples, outputs = everything()
    (result,) = evaluate(samples, outputs, [metric("failure_attribution@2", on_system_failure="exclude")])
    assert result.details["share_system_failed"] == 0
    assert sum(shares(result)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"correct": 5}, BadTypeError, "correct must be a metric"),
        ({"faithfulness": "noise_robustness"}, BadValueError, "no score for a single answer"),
        ({"correct_from": 50}, BadValueError, "correct_from must be > 0 and <= 1"),
        ({"correct": "recall@5"}, BadValueError, "correct must be a metric of the answer"),
    ],
)
def test_invalid_options(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        FailureAttribution(**options)


class Unsure(SampleMetric):
    """A judge that gives up, and counts how often it was asked."""

    target = TargetCategory.GENERATION_FAITHFULNESS
    asked: ClassVar[list[str]] = []

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        self.asked.append(sample.sample_id)
        return Score.fail("judge_unparseable")


def test_failing_judge_is_a_failed_measurement_and_called_only_where_needed() -> None:
    samples, outputs = everything()
    Unsure.asked.clear()
    (result,) = evaluate(samples, outputs, [FailureAttribution(k=2, faithfulness=Unsure())])
    matters = [str(number) for number, row in enumerate(ROWS) if row[1] in ("unused", "contradicts_context")]
    assert Unsure.asked == matters
    assert result.details["failed_faithfulness_failed"] == len(matters)
    assert result.details["share_unused"] == 0


def test_requested_depth_is_in_the_signature() -> None:
    (result,) = evaluate(*everything(), ["failure_attribution@10"], run=RunInfo(top_k=3))
    assert "|top_k:3|" in str(result.signature)
