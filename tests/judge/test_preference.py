"""Pairwise preference: both orders, ties, positions, failures, clusters."""

import itertools
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from auepora_eval import EvaluationSample, Response, SystemOutputs
from auepora_eval.errors import AlignmentError, BadTypeError, DataFileError, JudgeError
from auepora_eval.judge.critic import JudgePolicy, JudgeRequest
from auepora_eval.judge.preference import PreferenceReport, prefer
from helpers.critics import ScriptedBareCritic, ScriptedCritic

SHOWN = re.compile(r"\[begin (first|second) (\w{16})\]\n(.*?)\n\[end \1 \2\]", re.DOTALL)


def shown(prompt: str) -> tuple[str, str]:
    """The two answers of a prompt, in the order in which they are shown."""
    (_, _, first), (_, _, second) = SHOWN.findall(prompt)
    return first, second


def judge_of(first_wins: Callable[[str, str], str]) -> ScriptedCritic:
    """A judge that gives a verdict on the two answers as shown."""
    return ScriptedCritic(lambda request: {"rationale": "", "verdict": first_wins(*shown(request.prompt))})


def longer(first: str, second: str) -> str:
    return "first" if len(first) > len(second) else "second" if len(second) > len(first) else "tie"


def sign_flip_p(signs: Sequence[int]) -> float:
    """By flipping every sign in every way."""
    seen = abs(sum(signs))
    ways = [
        abs(sum(s * f for s, f in zip(signs, flips, strict=True)))
        for flips in itertools.product((1, -1), repeat=len(signs))
    ]
    return sum(way >= seen for way in ways) / len(ways)


def answers(*texts: str | None) -> list[SystemOutputs | None]:
    made: list[SystemOutputs | None] = []
    for text in texts:
        if text == "!":
            made.append(SystemOutputs([], error="timeout"))
        elif text == "?":
            made.append(None)
        else:
            made.append(SystemOutputs([], None if text is None else Response(text)))
    return made


def compared(
    critic: Any, a: Sequence[str | None], b: Sequence[str | None], clusters: Sequence[str] | None = None, **options: Any
) -> PreferenceReport:
    samples = [
        EvaluationSample(str(n), f"question {n}", cluster_id=None if clusters is None else clusters[n])
        for n in range(len(a))
    ]
    return prefer(samples, answers(*a), answers(*b), critic, **options)


def test_the_answer_preferred_in_both_orders_wins() -> None:
    critic = judge_of(longer)
    report = compared(critic, ["xx", "x", "xx"], ["yyy", "yyy", "y"])
    assert [one.verdict for one in report.queries] == ["b", "b", "a"]
    assert report.win_rate == 2 / 3
    assert (report.counts["b_wins"], report.counts["a_wins"], report.counts["ties"]) == (2, 1, 0)
    assert len(critic.asked) == 6
    assert report.first_rate == 0.5  # each order once: a judge that is consistent favours no position
    assert not report.order_decides
    assert all(one.consistent for one in report.queries)


def test_a_verdict_that_changes_with_the_order_is_a_tie_and_counted() -> None:
    report = compared(judge_of(lambda *_: "first"), ["x"] * 8, ["y"] * 8)
    assert [one.verdict for one in report.queries] == ["tie"] * 8
    assert (report.win_rate, report.p_value) == (0.5, 1.0)
    assert (report.counts["inconsistent"], report.counts["flipped"]) == (8, 8)
    assert (report.first_rate, report.num_decided, report.order_decides) == (1.0, 16, True)
    assert "favours a position" in report.to_markdown()


def test_a_tie_in_one_order_alone_is_a_tie_too() -> None:
    report = compared(judge_of(lambda first, _: "first" if first == "x" else "tie"), ["x"], ["y"])
    (one,) = report.queries
    assert (one.verdict, one.consistent, one.a_first, one.b_first) == ("tie", False, "first", "tie")
    assert (report.counts["inconsistent"], report.counts["flipped"]) == (1, 0)
    assert (report.first_rate, report.num_decided) == (1.0, 1)


def test_real_ties_count_half() -> None:
    report = compared(judge_of(longer), ["xx", "xx"], ["yy", "yyy"])
    assert [one.verdict for one in report.queries] == ["tie", "b"]
    assert report.win_rate == 0.75
    assert report.counts["inconsistent"] == 0


UNASKED: list[tuple[str | None, str | None, str, str, str]] = [
    ("same", " same\n", "tie", "same_answer", "equal answers"),
    ("!", "y", "b", "other_failed", "A failed"),
    ("x", "!", "a", "other_failed", "B failed"),
    ("x", "?", "a", "other_failed", "B has no output"),
    ("!", "?", "tie", "both_failed", "both failed"),
    (None, "y", "skipped", "no_response", "no answer was asked of A"),
]


@pytest.mark.parametrize(("a", "b", "verdict", "reason", "why"), UNASKED, ids=[row[-1] for row in UNASKED])
def test_obvious_verdicts_need_no_call(a: str | None, b: str | None, verdict: str, reason: str, why: str) -> None:
    critic = judge_of(longer)
    report = compared(critic, [a], [b])
    (one,) = report.queries
    assert (one.verdict, one.reason, one.consistent) == (verdict, reason, None)
    assert critic.asked == []
    assert report.counts[f"because_{reason}"] == 1


def test_a_judge_that_fails_leaves_the_pair_out_and_gives_bounds() -> None:
    def reply_to(request: JudgeRequest) -> Any:
        first, second = shown(request.prompt)
        if first == "boom":  # in one order alone
            return JudgeError("unparseable")
        return {"verdict": longer(first, second)}

    report = compared(ScriptedCritic(reply_to), ["x", "boom", "x", "x"], ["yy", "yy", "yy", ""])
    assert [one.verdict for one in report.queries] == ["b", "failed", "b", "a"]
    assert report.queries[1].reason == "unparseable"
    assert report.win_rate == 2 / 3
    assert report.bounds == (2 / 4, 3 / 4)
    assert report.counts["judge_failed"] == 1
    assert "so the win rate lies in [0.5000, 0.7500]" in report.to_text()
    assert r"so the win rate lies in \[0.5000, 0.7500\]" in report.to_markdown()


def test_an_unknown_verdict_fails() -> None:
    report = compared(ScriptedCritic(lambda _: {"verdict": "both"}), ["x"], ["y"])
    assert (report.queries[0].verdict, report.queries[0].reason) == ("failed", "unparseable")
    assert (report.win_rate, report.p_value, report.verdict) == (None, None, "inconclusive")
    assert "n/a" in report.to_markdown()


def test_p_value_of_the_sign_flip_test() -> None:
    a, b = ["x"] * 7, ["yy", "yy", "yy", "yy", "yy", "yy", ""]
    report = compared(judge_of(longer), a, b)
    assert report.p_value == pytest.approx(sign_flip_p([1, 1, 1, 1, 1, 1, -1]))
    assert report.verdict == "inconclusive"
    sure = compared(judge_of(longer), ["x"] * 8, ["yy"] * 8)
    assert sure.p_value == pytest.approx(2 / 2**8)
    assert (sure.verdict, compared(judge_of(longer), ["yy"] * 8, ["x"] * 8).verdict) == ("better", "worse")


def test_clustered_samples_are_one_unit() -> None:
    clusters = [f"c{n // 4}" for n in range(8)]
    report = compared(judge_of(longer), ["x"] * 8, ["yy"] * 8, clusters)
    assert report.p_value == pytest.approx(2 / 2**2)
    assert report.interval is not None
    assert report.interval.units == 2
    assert report.verdict == "inconclusive"


def test_number_critic() -> None:
    verdicts = {"first": 0.9, "second": 0.2, "tie": 0.5}
    critic = ScriptedBareCritic(lambda prompt, _: verdicts[longer(*shown(prompt))])
    report = compared(critic, ["x", "xx", "xx"], ["yy", "y", "yy"])
    assert [one.verdict for one in report.queries] == ["b", "a", "tie"]
    prompt, metadata = critic.asked[0]
    assert "1 if the first answer is better" in prompt
    assert "You compare two answers" in prompt
    assert metadata["dimension"] == "preference"


def test_repeats_are_averaged_within_an_order() -> None:
    def reply_to(request: JudgeRequest) -> Any:
        first, _ = shown(request.prompt)
        return {"verdict": ("first", "second", "first")[request.repeat] if first == "x" else "second"}

    critic = ScriptedCritic(reply_to)
    report = compared(critic, ["x"], ["y"], judging=JudgePolicy(repeats=3))
    assert len(critic.asked) == 6
    assert (report.queries[0].a_first, report.queries[0].b_first, report.queries[0].verdict) == ("first", "second", "a")


def test_report_as_json_and_markdown() -> None:
    report = compared(judge_of(longer), ["x", "x"], ["yy", "!"], names=("old", "new"))
    document = json.loads(json.dumps(report.to_dict()))
    assert (document["a"], document["b"], document["win_rate"], document["counts"]["b_wins"]) == ("old", "new", 0.5, 1)
    assert document["per_query"][0]["verdict"] == "b"
    assert document["prompt"].startswith("preference/1/")
    text = report.to_markdown()
    assert text.startswith("# new against old: inconclusive")
    assert "- win rate of new: 0.5000" in text
    assert report.to_text().startswith("new against old: inconclusive\n---")


def test_bad_input_is_refused() -> None:
    sample = EvaluationSample("1", "?")
    with pytest.raises(AlignmentError):
        prefer([sample], answers("x"), [], judge_of(longer))
    with pytest.raises(BadTypeError, match="critic must be"):
        prefer([sample], answers("x"), answers("y"), "gpt")  # type: ignore[arg-type]
    with pytest.raises(DataFileError, match=r"nowhere\.md"):
        prefer([sample], answers("x"), answers("y"), judge_of(longer), prompt="nowhere.md")


def test_nothing_to_compare() -> None:
    report = prefer([], [], [], judge_of(longer))
    assert (report.win_rate, report.interval, report.verdict) == (None, None, "inconclusive")


def test_hostile_names_are_escaped() -> None:
    names = ("::error::x\n# a|b", "<script>[a](b)\x1b[2J")
    report = compared(judge_of(longer), ["x"], ["yy"], names=names)
    for text in (report.to_text(), report.to_markdown()):
        assert "\x1b" not in text
        assert not any(line.startswith(("::", "# a")) for line in text.splitlines())
    assert "<script>" not in report.to_markdown()
