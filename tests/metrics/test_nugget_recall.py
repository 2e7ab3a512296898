"""Nuggets: every way to count them as exact fractions, lists without okay or vital ones, skips, what is asked."""

from contextlib import nullcontext
from fractions import Fraction
from typing import Any

import pytest

from auepora_eval import EvaluationSample, MetricResult, Response, SystemOutputs, evaluate
from auepora_eval.errors import AueporaWarning, JudgeError
from auepora_eval.judge.critic import JudgePolicy, JudgeRequest
from auepora_eval.metrics.citation_support import VARIANTS, NuggetRecall, nugget_scores
from helpers.critics import ScriptedCritic, framed

F = Fraction
LEVELS = {"s": "full", "p": "partial", "n": "none"}


def listed(written: str) -> list[dict[str, str]]:
    """Nuggets as ``Vs Vp Os``: vital or okay, and whether the answer supports them, in part, or not."""
    return [
        {"text": f"fact {place} {one[1]}", "importance": "vital" if one[0] == "V" else "okay"}
        for place, one in enumerate(written.split())
    ]


def reply_to(request: JudgeRequest) -> dict[str, Any]:
    """By the last letter of each nugget."""
    statements = enumerate(framed(request.prompt, "statement"), 1)
    return {"verdicts": [{"number": number, "why": "", "verdict": LEVELS[one[-1]]} for number, one in statements]}


def result_of(
    nuggets: Any, answer: str | None = "An answer.", *, repeats: int = 1, critic: Any = None, **options: Any
) -> MetricResult:
    metadata = {} if nuggets is None else {"nuggets": listed(nuggets) if isinstance(nuggets, str) else nuggets}
    sample = EvaluationSample("1", "What is known?", metadata=metadata)
    output = SystemOutputs([], None if answer is None else Response(answer), refused=options.pop("refused", None))
    chosen = NuggetRecall(critic or ScriptedCritic(reply_to), **options)
    return evaluate([sample], [output], [chosen], judging=JudgePolicy(repeats=repeats, retries=0))[0]


# vital_strict, vital, all_strict, all, weighted_strict, weighted; None where there is nothing to divide by
COUNTED: list[tuple[str, tuple[Fraction | int | None, ...], str]] = [
    ("Vs", (1, 1, 1, 1, 1, 1), "all there"),
    ("Vn On", (0, 0, 0, 0, 0, 0), "none there"),
    ("Vs Vp Vn Os Op", (F(1, 3), F(1, 2), F(2, 5), F(3, 5), F(3, 8), F(9, 16)), "each kind"),
    ("Vs Vs Vp", (F(2, 3), F(5, 6), F(2, 3), F(5, 6), F(2, 3), F(5, 6)), "no okay nugget: every way counts the same"),
    ("Vs Vs Vs Vs Vs", (1, 1, 1, 1, 1, 1), "no okay nugget, all there: exactly 1"),
    ("Os Op On", (None, None, F(1, 3), F(1, 2), F(1, 3), F(1, 2)), "no vital nugget"),
    ("Vp Os", (0, F(1, 2), F(1, 2), F(3, 4), F(1, 3), F(2, 3)), "in part alone"),
    ("Vs On On On On", (1, 1, F(1, 5), F(1, 5), F(1, 3), F(1, 3)), "okay ones missing"),
]


@pytest.mark.parametrize(("written", "want", "why"), COUNTED, ids=[row[-1] for row in COUNTED])
def test_every_variant(written: str, want: tuple[Fraction | int | None, ...], why: str) -> None:
    numbers = {"s": 1.0, "p": 0.5, "n": 0.0}
    plain = nugget_scores([("vital" if one[0] == "V" else "okay", numbers[one[1]]) for one in written.split()])
    assert plain == {name: None if one is None else float(one) for name, one in zip(VARIANTS, want, strict=True)}
    for variant, value in zip(VARIANTS, want, strict=True):
        found = result_of(written, variant=variant)
        if value is None:
            assert list(found.outcomes or ()) == ["skipped:no_vital_nuggets"]
        else:
            assert found.value == float(value)
            assert found.details["variants"] == plain


def test_strictly_vital_is_the_default() -> None:
    assert result_of("Vs Vp On").value == 0.5


def test_counts_are_true_ones() -> None:
    details = result_of("Vs Vs Vp").details
    assert [details[name] for name in ("num_nuggets", "num_vital", "num_okay")] == [3, 3, 0]


def test_duplicate_nugget_counts_once_and_as_vital_if_any_is() -> None:
    twice = [
        {"text": "fact s", "importance": "okay"},
        {"text": " Fact  S ", "importance": "vital"},
        {"text": "other n", "importance": "okay"},
    ]
    found = result_of(twice, critic=ScriptedCritic(reply_ignoring_case))
    assert (found.value, found.details["num_vital"], found.details["num_okay"]) == (1.0, 1, 1)


def reply_ignoring_case(request: JudgeRequest) -> dict[str, Any]:
    statements = enumerate(framed(request.prompt, "statement"), 1)
    return {
        "verdicts": [{"number": number, "why": "", "verdict": LEVELS[one.lower()[-1]]} for number, one in statements]
    }


SETTLED: list[tuple[Any, str | None, str, float | None, str]] = [
    (None, "x", "skipped:no_nuggets", None, "no nuggets"),
    ([], "x", "skipped:no_nuggets", None, "an empty list of nuggets"),
    ("Os", "x", "skipped:no_vital_nuggets", None, "no vital nugget"),
    ("Vs", None, "skipped:no_response", None, "no answer was asked for"),
    ("Vs", " \n", "scored", 0.0, "an empty answer has no nugget"),
    ("facts", "x", "measure_failed:bad_nuggets", None, "no list"),
    ([{"text": "a"}], "x", "measure_failed:bad_nuggets", None, "no importance"),
    ([{"text": "a", "importance": "failed"}], "x", "measure_failed:bad_nuggets", None, "an importance that is none"),
    ([{"text": " ", "importance": "vital"}], "x", "measure_failed:bad_nuggets", None, "no text"),
]


@pytest.mark.parametrize(("nuggets", "answer", "outcome", "value", "why"), SETTLED, ids=[row[-1] for row in SETTLED])
def test_no_request_if_the_outcome_is_known(
    nuggets: Any, answer: str | None, outcome: str, value: float | None, why: str
) -> None:
    critic = ScriptedCritic(reply_to)
    sample = EvaluationSample("1", "?", metadata={} if nuggets is None else {"nuggets": nuggets})
    if nuggets in ("Vs", "Os"):
        sample.metadata["nuggets"] = listed(nuggets)
    output = SystemOutputs([], None if answer is None else Response(answer))
    warned = pytest.warns(AueporaWarning, match=r"metadata\.nuggets") if "bad_" in outcome else nullcontext()
    with warned:
        (found,) = evaluate([sample], [output], [NuggetRecall(critic)])
    assert (list(found.outcomes or ()), list(found.scores or ())) == ([outcome], [value])
    assert critic.asked == []


def test_refusal_is_judged_as_any_answer() -> None:
    critic = ScriptedCritic(reply_to)
    assert result_of("Vn", "I cannot say.", refused=True, critic=critic).value == 0.0
    assert len(critic.asked) == 1


def test_failed_answers_have_no_nugget_in_any_variant() -> None:
    samples = [
        EvaluationSample("1", "?", metadata={"nuggets": listed("Vs Os")}),
        EvaluationSample("2", "?", metadata={"nuggets": listed("Os")}),
    ]
    failed = [SystemOutputs([], Response("Yes."), error=None), SystemOutputs([], error="timeout")]
    (found,) = evaluate(samples, failed, [NuggetRecall(ScriptedCritic(reply_to), variant="all")])
    assert list(found.scores or ()) == [1.0, 0.0]
    # The second question has no vital nugget: it cannot lower what counts only these.
    assert found.details["variants"] == {
        **dict.fromkeys(("vital_strict", "vital"), 1.0),
        **dict.fromkeys(("all_strict", "all", "weighted_strict", "weighted"), 0.5),
    }


def test_ten_nuggets_are_one_question() -> None:
    critic = ScriptedCritic(reply_to)
    result_of(" ".join(["Vs"] * 25), critic=critic)
    assert sorted(len(framed(one.prompt, "statement")) for one in critic.asked) == [5, 10, 10]
    assert {tuple(framed(one.prompt, "evidence")) for one in critic.asked} == {("An answer.",)}
    few = ScriptedCritic(reply_to)
    result_of("Vs Vs Vs", critic=few, at_a_time=2)
    assert sorted(len(framed(one.prompt, "statement")) for one in few.asked) == [1, 2]


def test_failed_request_is_not_a_missing_nugget() -> None:
    def fails(request: JudgeRequest) -> Any:
        return JudgeError("unparseable", "what?") if "fact 10" in request.prompt else reply_to(request)

    with pytest.warns(AueporaWarning, match="no judgement"):
        found = result_of(" ".join(["Vs"] * 11), critic=ScriptedCritic(fails))
    assert list(found.outcomes or ()) == ["measure_failed:unparseable"]


def test_repeats_are_averaged() -> None:
    def wavers(request: JudgeRequest) -> Any:
        verdict = ["full", "partial"][request.repeat]
        return {"verdicts": [{"number": 1, "why": "", "verdict": verdict}]}

    found = result_of("Vs", critic=ScriptedCritic(wavers), repeats=2, variant="vital")
    assert (found.value, found.details["variants"]["vital_strict"]) == (0.75, 0.5)


def test_nli_function_finds_nuggets() -> None:
    def holds(premise: str, hypothesis: str) -> bool:
        return hypothesis.lower() in premise.lower()

    nuggets = [{"text": "cats sleep", "importance": "vital"}, {"text": "dogs bark", "importance": "okay"}]
    assert result_of(nuggets, "Cats sleep a lot.", critic=holds, variant="weighted").value == float(F(2, 3))
