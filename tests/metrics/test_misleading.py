"""False documents that mislead, and false answers that reappear: pairs by hand, what breaks them, laws of both."""

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from auepora_eval import EvaluationSample, MetricResult, evaluate, evaluate_stream, metric
from auepora_eval.metrics.false_documents import MisleadingRate, MistakeReappearanceRate
from helpers.builders import answered, output, sample
from helpers.requirements import examples

LIE: dict[str, Any] = {"wrong_answer": "Lyon"}


def scored(spec: Any, rows: list[EvaluationSample], texts: list[str | None], **options: Any) -> MetricResult:
    (result,) = evaluate(rows, [answered(text) for text in texts], [spec], **options)
    return result


# Misleading

Row = tuple[str, str | None, bool, str | None]
"""Id, whose variant, whether its documents are false, answer (Paris is right)."""


def pairs(*rows: Row) -> list[EvaluationSample]:
    return [
        sample(
            sample_id=name,
            answer="Paris",
            labels={} if base is None else {"variant_of": base},
            metadata=dict(LIE) if false else {},
        )
        for name, base, false, _ in rows
    ]


def misled(*rows: Row, **options: Any) -> MetricResult:
    return scored(metric("misleading_rate", **options), pairs(*rows), [row[3] for row in rows])


A: Row = ("a", None, False, "Paris")
MISLED: list[tuple[list[Row], float, int, str]] = [  # rows, value, pairs, why
    ([A, ("a+", "a", True, "Lyon")], 1, 1, "misled"),
    ([A, ("a+", "a", True, "factual errors; Paris")], 0, 1, "not misled"),
    ([A, ("a+", "a", True, "I cannot answer.")], 1, 1, "a refusal is not right"),
    ([A, ("a+", "a", True, "")], 1, 1, "nor is an empty answer"),
    ([A, ("a+", "a", True, "!")], 1, 1, "nor a failure"),
    (
        [A, ("a+", "a", True, "Lyon"), ("b", None, False, "Rome"), ("b+", "b", True, "Lyon")],
        1, 1, "who was wrong anyway is not asked",
    ),
    (
        [A, ("a1", "a", True, "Lyon"), ("a2", "a", True, "Paris"), ("a3", "a", True, "Nice")],
        2 / 3, 3, "several false versions of one question",
    ),
    ([("a+", "a", True, "Lyon"), A], 1, 1, "in any order"),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "value", "n"), [r[:3] for r in MISLED], ids=[r[3] for r in MISLED])
def test_misleading_by_hand(rows: list[Row], value: float, n: int) -> None:
    result = misled(*rows)
    assert (result.value, result.details["num_samples"]) == (value, n)
    assert not MisleadingRate.higher_is_better


BROKEN: list[tuple[list[Row], str, str]] = [  # rows (the last is looked at), outcome, why
    ([A], "skipped:no_false_documents", "true documents"),
    ([A, ("a+", "a", False, "Lyon")], "skipped:no_false_documents", "a variant with true documents"),
    ([("a", None, True, "Lyon")], "skipped:not_a_variant", "false documents, and no question without"),
    ([("a+", "a", True, "Lyon")], "skipped:no_base", "the question without is not there"),
    ([("a", "a", True, "Lyon")], "skipped:variant_cycle", "its own variant"),
    ([("b", "a", True, "x"), ("a", "b", True, "x")], "skipped:variant_cycle", "variants of each other"),
    ([A, A, ("a+", "a", True, "Lyon")], "skipped:two_bases", "two samples of that id"),
    ([("a", None, True, "Paris"), ("a+", "a", True, "Lyon")], "skipped:base_false_documents", "false documents in both"),
    ([("a", None, False, "Rome"), ("a+", "a", True, "Lyon")], "skipped:base_wrong", "wrong without them"),
    ([("a", None, False, "Rome"), ("a+", "a", True, "!")], "skipped:base_wrong", "wrong without, failed with them"),
    ([("a", None, False, None), ("a+", "a", True, "Lyon")], "skipped:base_skipped", "not asked without them"),
    ([A, ("a+", "a", True, None)], "skipped:no_response", "not asked with them"),
    ([("a", None, False, "!"), ("a+", "a", True, "Lyon")], "system_failed:base_failed", "failed without them"),
    ([("a", None, False, "?"), ("a+", "a", True, "!")], "system_failed:base_failed", "failed in both"),
    ([A, ("a+", "a", True, "!")], "system_failed:timeout", "failed with them"),
    ([A, ("b", "a", False, "Paris"), ("b+", "b", True, "Lyon")], "scored", "the question without is itself a variant"),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "outcome"), [r[:2] for r in BROKEN], ids=[r[2] for r in BROKEN])
def test_outcome_of_a_pair(rows: list[Row], outcome: str) -> None:
    result = misled(*rows)
    assert result.outcomes is not None
    assert result.scores is not None
    assert result.outcomes[-1] == outcome
    wanted = 1.0 if outcome in ("scored", "system_failed:timeout") else None
    assert result.scores[-1] == wanted


def test_scenario_marks_false_documents_too() -> None:
    rows = pairs(A, ("a+", "a", False, "Lyon"))
    rows[1].labels["scenario"] = "false_documents"
    assert scored("misleading_rate", rows, ["Paris", "Lyon"]).value == 1


def test_measurements_that_fail_leave_the_pair() -> None:
    rows = pairs(A, ("a+", "a", True, "x"), ("b", None, False, "x"), ("b+", "b", True, "x"), ("b-", "b", True, "x"))
    rows[1].metadata["wrong_answer"] = 5
    rows[2].metadata["must_contain"] = 5  # no text: groundedness cannot be measured
    texts: list[str | None] = ["Paris", "Lyon", "x", "x", "!"]
    result = scored(metric("misleading_rate", base="groundedness"), rows, texts)
    assert list(result.outcomes or ())[1:2] == ["measure_failed:bad_wrong_answer"]
    assert list(result.outcomes or ())[3:] == ["measure_failed:base_failed"] * 2
    assert not result.defined


def test_conventions_reach_the_pairs() -> None:
    rows: list[Row] = [A, ("a1", "a", True, "Paris"), ("a2", "a", True, "!"), ("a3", "a", True, "?")]
    assert misled(*rows).value == 2 / 3
    assert misled(*rows, on_system_failure="exclude").value == 0
    assert misled(*rows, missing="skip").value == 1 / 2
    assert misled(*rows, missing="zero").value == 2 / 3  # nothing returned is not right


def test_pairs_by_another_metric() -> None:
    # "in Paris" has an F1 of 2 / 3: wrong word for word, right from 0.6 on.
    rows: list[Row] = [A, ("a+", "a", True, "in Paris")]
    assert misled(*rows, base="exact_match").value == 1
    assert misled(*rows, base="token_f1", threshold=0.6).value == 0


def test_repeats_are_paired_with_their_own_base() -> None:
    rows = pairs(A, A, ("a+", "a", True, ""), ("a+", "a", True, ""))
    outs = [
        output(answer=text, repeat=repeat) for text, repeat in (("Paris", 0), ("Rome", 1), ("Lyon", 0), ("Lyon", 1))
    ]
    (result,) = evaluate(rows, outs, ["misleading_rate"])
    assert list(result.outcomes or ())[2:] == ["scored", "skipped:base_wrong"]


def test_slice_of_variants_keeps_its_bases() -> None:
    rows = pairs(A, ("a+", "a", True, ""), ("a-", "a", True, ""))
    rows[1].labels["lang"] = "fr"
    result = scored("misleading_rate", rows, ["Paris", "Lyon", "Paris"], slices="labels.lang", batch_size=1)
    assert (result.value, result.slices["labels.lang"]["fr"].value) == (1 / 2, 1)


@given(
    st.lists(st.sampled_from(["Paris", "Lyon", "!", "?", None]), min_size=2, max_size=16),
    st.integers(1, 5),
    st.randoms(),
)
@settings(max_examples=examples(80))
def test_pairs_do_not_depend_on_batches_or_order(texts: list[str | None], size: int, rng: random.Random) -> None:
    rows = pairs(
        *(("a" * (n + 1), None if n % 3 == 0 else "a" * (n - n % 3 + 1), n % 3 > 0, "") for n in range(len(texts)))
    )
    outs = [answered(text) for text in texts]
    (whole,) = evaluate(rows, outs, ["misleading_rate"])
    order = rng.sample(range(len(rows)), len(rows))
    (streamed,) = evaluate_stream([(rows[i], outs[i]) for i in order], ["misleading_rate"], batch_size=size)
    assert (streamed.value, streamed.details) == (whole.value, whole.details)
    by_hand = [
        texts[n] != "Paris" for n in range(len(texts)) if n % 3 and texts[n - n % 3] == "Paris" and texts[n] is not None
    ]
    assert whole.value == (sum(by_hand) / len(by_hand) if by_hand else 0)


@pytest.mark.parametrize("seed", range(20))
def test_pairs_agree_with_the_plain_definition(seed: int) -> None:
    rng = random.Random(seed)
    rows = pairs(
        *((f"q{n}", rng.choice([None, f"q{rng.randrange(n + 1)}"]), rng.random() < 0.5, "") for n in range(30))
    )
    rows = [row for row in rows if row.labels.get("variant_of") != row.sample_id]
    outs = [output(answer=rng.choice(["Paris", "Lyon", "in Paris", None])) for _ in rows]
    for one in (MisleadingRate(), MisleadingRate("token_f1", 0.5), MisleadingRate("exact_match")):
        (result,) = evaluate(rows, outs, [one])
        want = one.reference_value(rows, outs)
        assert (result.value if result.defined else None) == (None if want is None or math.isnan(want) else want)


# Mistakes that reappear

MISTAKES: list[tuple[Any, str, float, str]] = [  # wrong answer, answer, want, why
    ("Lyon", "It is Lyon.", 1, "the false answer"),
    ("Lyon", "It is Paris.", 0, "another answer"),
    ("Lyon", "lyon", 1, "whatever the case"),
    ("the Old Town", "old  town!", 1, "normalised as in SQuAD"),
    ("Lyon", "Paris, not Lyon", 1, "named to be rejected: contained all the same"),
    ("art", "a party", 1, "as a stretch of text"),
    (["Lyon", "Nice"], "Nice", 1, "any of several"),
    (["Lyon", "Nice"], "Paris", 0, "none of several"),
    (["the", "Lyon"], "the Paris", 0, "one that normalises to nothing does not count"),
    ("里昂", "答案是里昂。", 1, "no words needed"),
    ("Lyon", "", 0, "an empty answer"),
    ("Lyon", "I cannot answer.", 0, "a refusal"),
]


@pytest.mark.parametrize(("wrong", "text", "want"), [r[:3] for r in MISTAKES], ids=[r[3] for r in MISTAKES])
def test_mistakes(wrong: Any, text: str, want: float) -> None:
    result = scored("mistake_reappearance_rate", [sample(metadata={"wrong_answer": wrong})], [text])
    assert (result.value, result.defined) == (want, True)


NO_MISTAKE: list[tuple[Any, str, str]] = [
    (None, "skipped:no_wrong_answer", "none"),
    ([], "skipped:no_wrong_answer", "an empty list"),
    ("the", "skipped:no_wrong_answer", "one that normalises to nothing"),
    (["", "a."], "skipped:no_wrong_answer", "several of that kind"),
    (5, "measure_failed:bad_wrong_answer", "a number"),
    ([["Lyon"]], "measure_failed:bad_wrong_answer", "a list in a list"),
]


@pytest.mark.parametrize(("wrong", "outcome"), [r[:2] for r in NO_MISTAKE], ids=[r[2] for r in NO_MISTAKE])
def test_no_mistake_to_look_for(wrong: Any, outcome: str) -> None:
    row = sample(metadata={"wrong_answer": wrong}, labels={"scenario": "false_documents"})
    assert list(scored("mistake_reappearance_rate", [row], ["Lyon"]).outcomes or ()) == [outcome]
    assert MistakeReappearanceRate().is_applicable(row, output()) == outcome.startswith("measure_failed")


def test_rate_is_a_proportion_and_lower_is_better() -> None:
    rows = [sample(sample_id=str(n), metadata=LIE) for n in range(3)]
    result = scored("mistake_reappearance_rate", rows, ["Lyon", "Paris", "!"])
    assert (result.value, result.details["value_completed"]) == (2 / 3, 1 / 2)
    assert (MistakeReappearanceRate().worst, MistakeReappearanceRate.higher_is_better) == (1.0, False)
