"""Panels: votes by fractions, forms of requests per member, failures, previews, agreement, weights."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auepora_eval import EvaluationSample, JudgePolicy, Panel, Response, SystemOutputs, evaluate, prefer
from auepora_eval.core.types import Document, RetrievedDocument
from auepora_eval.errors import AueporaError, AueporaWarning, BadValueError, JudgeError
from auepora_eval.judge.critic import Judgement, JudgeRequest
from auepora_eval.judge.openai import OpenAICritic
from auepora_eval.judge.panel import LabelledItem, PanelWeights, Vote, answer_digest, decide, read_votes
from auepora_eval.judge.preview import preview
from auepora_eval.judge.session import JudgeSession
from auepora_eval.metrics.claims import ClaimFaithfulness
from auepora_eval.metrics.generation_llm_judge import LLMAnswerQuality, LLMFaithfulnessScore
from auepora_eval.stats.agreement import krippendorff_alpha
from helpers.critics import ScriptedBareCritic, ScriptedCritic

LEVELS = {"full": 1.0, "partial": 0.5, "none": 0.0}
CLASSES = {"poor": 0.0, "fair": 0.5, "good": 1.0}


def labels(text: str, values: dict[str, float] | None = None) -> list[Vote]:
    return [Vote(one, (values or {}).get(one)) for one in text.split()]


def numbers(*given: float, low: float = 1, high: float = 5) -> list[Vote]:
    return [Vote(one, (one - low) / (high - low)) for one in given]


VOTES: list[tuple[list[Vote], Any, dict[str, float], Any, Fraction | None, str]] = [
    # votes, rule, values of labels, answer, value, why
    (numbers(1, 2, 5), "mean", {}, None, Fraction(5, 12), "the mean of 0, 1/4 and 1"),
    (numbers(1, 2, 5), "median", {}, None, Fraction(1, 4), "the middle one"),
    (numbers(1, 2, 4, 5), "median", {}, None, Fraction(1, 2), "half way between the middle two"),
    (numbers(4, 4, 1), "majority", {}, 4, Fraction(3, 4), "two of three"),
    (numbers(5, 4, 3), "majority", {}, 3, Fraction(1, 2), "all differ: the lowest"),
    (numbers(5, 5, 2, 2), "majority", {}, 2, Fraction(1, 4), "two and two: the lower one"),
    (numbers(3), "mean", {}, None, Fraction(1, 2), "the others failed"),
    (labels("good fair fair", CLASSES), "mean", CLASSES, "fair", Fraction(2, 3), "nearest to 2/3 is fair"),
    (labels("good good fair", CLASSES), "mean", CLASSES, "good", Fraction(5, 6), "nearest to 5/6 is good"),
    (labels("good poor", CLASSES), "median", CLASSES, "fair", Fraction(1, 2), "a class that nobody chose"),
    (labels("good good poor", CLASSES), "majority", CLASSES, "good", Fraction(1), "labels, not values, are counted"),
    (labels("good poor fair", CLASSES), "majority", CLASSES, "poor", Fraction(0), "all differ: the lowest value"),
    (labels("full partial", LEVELS), "mean", LEVELS, "partial", Fraction(3, 4), "half way the lower level"),
    (labels("billing other other"), "majority", {}, "other", None, "labels without values"),
    (labels("billing other"), "majority", {}, "billing", None, "a tie: the earliest member"),
    (labels("other billing billing"), "mean", {}, "billing", None, "without values the majority decides"),
    ([Vote(True, 1.0), Vote(False, 0.0)], "majority", {}, False, Fraction(0), "a tie is false"),
    ([Vote(True, 1.0), Vote(True, 1.0), Vote(False, 0.0)], "mean", {}, True, Fraction(1), "booleans have no mean"),
    ([Vote(4, 0.75, 0.7), Vote(5, 1.0)], "mean", {}, None, Fraction(17, 20), "an expected value enters the mean"),
    ([Vote(4, 0.75, 0.7), Vote(4, 0.75)], "majority", {}, 4, Fraction(3, 4), "but not the majority"),
]


@pytest.mark.parametrize(
    ("votes", "rule", "values", "answer", "value"), [row[:5] for row in VOTES], ids=[r[5] for r in VOTES]
)
def test_votes(votes: list[Vote], rule: Any, values: dict[str, float], answer: Any, value: Fraction | None) -> None:
    found, number = decide(votes, rule, values)
    assert found == answer
    assert number == (None if value is None else pytest.approx(float(value), abs=1e-15))


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


ROWS = schema(
    verdicts={
        "type": "array",
        "minItems": 2,
        "maxItems": 2,
        "items": schema(number={"type": "integer"}, why={"type": "string"}, verdict={"enum": ["full", "none"]}),
    }
)
BAD_REPLIES = [  # schema, reply, reason, why
    (schema(score={"type": "integer", "minimum": 1, "maximum": 5}), {}, "unparseable", "no number"),
    (schema(score={"type": "integer", "minimum": 1, "maximum": 5}), {"score": 9}, "out_of_range", "off the scale"),
    (schema(score={"type": "integer", "minimum": 1, "maximum": 5}), {"score": True}, "unparseable", "a boolean"),
    (schema(label={"enum": ["a", "b"]}), {"label": "c"}, "unparseable", "no such label"),
    (schema(yes={"type": "boolean"}), {"yes": "true"}, "unparseable", "a string"),
    (ROWS, {"verdicts": [{"number": 1, "verdict": "full"}]}, "unparseable", "a row is missing"),
    (ROWS, {"verdicts": [{"number": 1, "verdict": "full"}] * 2}, "unparseable", "a row twice"),
    (ROWS, {"verdicts": "full"}, "unparseable", "no list"),
]


@pytest.mark.parametrize(
    ("form", "reply", "reason"), [row[:3] for row in BAD_REPLIES], ids=[row[3] for row in BAD_REPLIES]
)
def test_a_reply_without_its_votes_is_a_failed_member(form: dict[str, Any], reply: dict[str, Any], reason: str) -> None:
    with pytest.raises(JudgeError) as caught:
        read_votes(reply, form, {})
    assert caught.value.reason == reason


# --- metrics judged by a panel ---------------------------------------------------------------------------------------


def pairs(count: int = 3) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
    samples = [EvaluationSample(str(number), f"question {number}?") for number in range(count)]
    documents = [RetrievedDocument(Document("d1", "Paris is in France."), 1.0, 1)]
    outputs: list[SystemOutputs | None] = [SystemOutputs(documents, Response(f"answer {n}.")) for n in range(count)]
    return samples, outputs


def rating(name: str, *scores: Any, logprobs: bool = False) -> ScriptedCritic:
    """A judge that gives the samples these scores."""

    def reply(request: JudgeRequest) -> Any:
        score = scores[int(request.sample_id)]
        if isinstance(score, (JudgeError, Judgement)):
            return score
        return {"rationale": f"{name} on {request.sample_id}", "score": score}

    return ScriptedCritic(reply, name, logprobs)


def test_scores_agreement_and_members_of_a_rated_metric() -> None:
    broken = JudgeError("unparseable", "no number")
    panel = Panel([rating("a", 1, 3, 5), rating("b", 2, 3, broken), rating("c", 3, 3, 3)], "mean")
    (result,) = evaluate(*pairs(), [LLMFaithfulnessScore(panel, scale="1-5")])
    assert list(result.scores or ()) == pytest.approx([Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)])
    details = result.details["panel"]
    assert details["vote"] == "mean"
    assert details["members"] == {
        "a": {"mean": pytest.approx((0 + 2 + 4) / 12), "failed": 0},
        "b": {"mean": pytest.approx((1 + 2) / 8), "failed": 1},
        "c": {"mean": pytest.approx(1 / 2), "failed": 0},
    }
    assert details["agreement"] == pytest.approx(3 / 7)  # of 3 + 3 + 1 pairs, those on the second answer
    columns: list[list[float | None]] = [[0, 0.5, 1], [0.25, 0.5, None], [0.5, 0.5, 0.5]]
    assert details["alpha"] == pytest.approx(krippendorff_alpha(columns, "interval"))
    assert "panel(mean: a, b, c)" in (result.signature or "")


def test_a_sample_fails_only_if_every_member_failed() -> None:
    late, odd = JudgeError("timeout", "too late"), JudgeError("unparseable", "what?")
    panel = Panel([rating("a", late, late, 4), rating("b", late, odd, 2)], "majority")
    with pytest.warns(AueporaWarning, match=r"no judgement \((timeout|panel_failed)\)"):
        (result,) = evaluate(*pairs(), [LLMFaithfulnessScore(panel, scale="1-5")], judging=JudgePolicy(retries=0))
    assert [str(one) for one in result.outcomes or ()] == [
        "measure_failed:timeout",
        "measure_failed:panel_failed",
        "scored",
    ]
    assert (result.scores or [])[2] == 0.25


def test_members_get_the_form_of_request_they_need() -> None:
    """A judge of objects is asked once, one with probabilities and one of bare numbers once per dimension."""
    plain = ScriptedCritic(lambda request: {"rationale": "r", "relevance": 5, "clarity": 3}, "plain")
    weighted = ScriptedCritic(lambda request: Judgement({"score": 4}, weighted=4.5), "weighted", logprobs=True)
    bare = ScriptedBareCritic(lambda prompt, metadata: {"relevance": 1, "clarity": 2}[metadata["dimension"]])
    metric = LLMAnswerQuality(Panel([bare, plain, weighted]), dimensions=["relevance", "clarity"])
    samples, outputs = pairs(1)
    (result,) = evaluate(samples, outputs, [metric])
    assert [len(one.asked) for one in (plain, weighted, bare)] == [1, 2, 2]
    assert all(one.weighted == "score" for one in weighted.asked)
    expected = [(0 + 1 + Fraction(7, 8)) / 3, (Fraction(1, 4) + Fraction(1, 2) + Fraction(7, 8)) / 3]
    assert result.details["dimensions"] == {
        "relevance": pytest.approx(expected[0]),
        "clarity": pytest.approx(expected[1]),
    }
    # Each is asked as it would be asked alone, so that a cache serves both.
    alone = ScriptedCritic(plain.script, "plain")
    evaluate(samples, outputs, [LLMAnswerQuality(alone, dimensions=["relevance", "clarity"])])
    assert alone.asked[0] == plain.asked[0]


def test_a_panel_of_bare_numbers_is_asked_for_bare_numbers() -> None:
    class Other(ScriptedBareCritic):
        pass

    panel = Panel([ScriptedBareCritic(lambda prompt, metadata: 2), Other(lambda prompt, metadata: 5)])
    (result,) = evaluate(*pairs(1), [LLMFaithfulnessScore(panel, scale="1-5")])
    assert result.value == pytest.approx(5 / 8)


def verdicts(name: str, *levels: str) -> ScriptedCritic:
    """A judge that lists two claims of its own and gives statements these levels."""

    def reply(request: JudgeRequest) -> Any:
        if "claims" in request.schema["properties"]:
            return {"claims": [f"{name} says one", f"{name} says two"]}
        return {"verdicts": [{"number": n, "why": name, "verdict": level} for n, level in enumerate(levels, 1)]}

    return ScriptedCritic(reply, name)


def test_claims_come_from_the_first_member_and_each_is_voted_on() -> None:
    first = ScriptedCritic(lambda request: JudgeError("refused", "no"), "first")
    bare = ScriptedBareCritic(lambda prompt, metadata: 0.4)
    last = verdicts("c", "full", "full")
    panel = Panel([bare, first, verdicts("b", "full", "none"), last], "majority")
    (result,) = evaluate(*pairs(1), [ClaimFaithfulness(panel)], judging=JudgePolicy(retries=0))
    assert result.value == 0.5  # full, full, partial; and none, full, partial, of which none is the lowest
    assert len(bare.asked) == 2  # one statement at a time, and no claims
    assert len(last.asked) == 1  # claims were listed by b
    assert result.details["panel"]["members"]["first"] == {"mean": None, "failed": 1}
    assert result.details["panel"]["members"]["b"]["mean"] == 0.5


def test_preferences_are_voted_on() -> None:
    def picks(name: str, verdict: str) -> ScriptedCritic:
        return ScriptedCritic(lambda request: {"rationale": "", "verdict": verdict}, name)

    samples, outputs = pairs(1)
    others: list[SystemOutputs | None] = [SystemOutputs([], Response("another"))]
    panel = Panel([picks("a", "first"), picks("b", "second"), picks("c", "first")], "majority")
    report = prefer(samples, outputs, others, panel)
    assert (report.queries[0].a_first, report.queries[0].b_first) == ("first", "first")


def test_a_preview_counts_one_call_per_member_and_request() -> None:
    weighted = ScriptedCritic(lambda request: 3, "weighted", logprobs=True)
    panel = Panel([rating("a", 1, 2, 3), weighted, ScriptedBareCritic(lambda prompt, metadata: 3)])
    metrics = [LLMAnswerQuality(panel, dimensions=["relevance", "clarity"]), LLMFaithfulnessScore(panel, scale="1-5")]
    found = preview(*pairs(), metrics, JudgePolicy())
    assert found.metrics["llm_answer_quality"].calls == 3 * (1 + 2 + 2)
    assert found.metrics["llm_faithfulness"].calls == 3 * 3
    claims = preview(*pairs(), [ClaimFaithfulness(panel)], JudgePolicy())
    assert claims.total.calls == 3  # claims are requested from one member


def test_requests_of_members_are_shared_between_metrics_cached_and_counted(tmp_path: Path) -> None:
    def make() -> list[ScriptedCritic]:
        made = [verdicts("a", "full", "full"), verdicts("b", "none", "full")]
        for one in made:
            one.cache_key = lambda request: {"v": 1}  # type: ignore[method-assign]
        return made

    samples, outputs = pairs(2)
    policy = JudgePolicy(cache=tmp_path / "cache.sqlite")
    calls = []
    for _ in range(2):
        members = make()
        session = JudgeSession(policy)
        evaluate(
            samples,
            outputs,
            [ClaimFaithfulness(Panel(members)), ClaimFaithfulness(Panel(members), name="again")],
            judging=session,
        )
        calls.append([len(one.asked) for one in members])
    assert calls == [[3, 1], [0, 0]]  # claims of two answers, and one table of the same verdicts
    assert session.usage_log.critics["a"].judgements == 8
    assert session.usage_log.critics["b"].cached == 4


# --- members and weights ---------------------------------------------------------------------------------------------


def test_a_panel_must_have_different_judges() -> None:
    a, b = rating("a", 1), rating("b", 2)
    rows: list[tuple[list[Any], dict[str, Any], str]] = [
        ([a], {}, "two judges or more, not 1"),
        ([], {}, "two judges or more, not 0"),
        ([a, rating("a", 2)], {}, "the same judge, a"),
        ([a, Panel([a, b])], {}, "cannot be a member of a panel"),
        ([a, len], {}, "must be an LLMCritic or a StructuredCritic, not <built-in"),
        ([a, b], {"vote": "meen"}, "no vote 'meen'; did you mean 'mean'"),
        ([a, b], {"vote": "stacked"}, "'vote: stacked' needs weights"),
        ([a, b], {"weights": "w.json"}, "no effect on 'vote: mean'"),
    ]
    for judges, options, message in rows:
        with pytest.raises(AueporaError, match=message):
            Panel(judges, **options)


def weights_for(metric: LLMFaithfulnessScore, **changes: Any) -> PanelWeights:
    """Weights that give 1/2 to every answer but labelled ones, which get a logit of 1 in fold 0 and 2 in fold 1."""
    labelled = (LabelledItem("0", answer_digest("answer 0."), 1), LabelledItem("1", answer_digest("other"), 0))
    values: dict[str, Any] = {
        "members": ("a", "b"),
        "metric": metric.name,
        "prompt_id": metric.prompts_used[0].id,
        "coefficients": (0.0, 0.0, 0.0),
        "fold_coefficients": ((1.0, 0.0, 0.0), (2.0, 0.0, 0.0)),
        "items": labelled,
    }
    return PanelWeights(**{**values, **changes})


def test_a_labelled_answer_is_scored_by_the_coefficients_of_its_fold() -> None:
    weights = weights_for(LLMFaithfulnessScore(rating("a")))
    panel = Panel([rating("a", 1, 5, 3), rating("b", 2, 5, JudgeError("refused"))], "stacked", weights)
    (result,) = evaluate(*pairs(), [LLMFaithfulnessScore(panel, scale="1-5")], judging=JudgePolicy(retries=0))
    # The second label is of another answer, so its fold does not apply.
    assert list(result.scores or ()) == pytest.approx([1 / (1 + np.exp(-2)), 1 / 2, 1 / 2])
    assert weights.digest in (result.signature or "")


def test_weights_are_written_and_read(tmp_path: Path) -> None:
    weights = weights_for(LLMFaithfulnessScore(rating("a")))
    path = tmp_path / "weights.json"
    path.write_text(json.dumps(weights.to_dict()))
    read = PanelWeights.read(path)
    assert (read, read.digest) == (weights, weights.digest)
    good = weights.to_dict()
    rows: list[tuple[Any, str]] = [
        ("{", "is not a JSON file"),
        ({**good, "version": 2}, "weights of version 1 are read, not 2"),
        ([], "weights of version 1 are read, not None"),
        ({key: value for key, value in good.items() if key != "labels"}, "a key is missing"),
        ({**good, "coefficients": [1, 2]}, "do not fit together"),
        ({**good, "coefficients": [1, 2, "x"]}, "a wrong value"),
        ({**good, "labels": [{"sample_id": "0", "answer": "", "fold": 7}]}, "do not fit together"),
    ]
    for content, message in rows:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        with pytest.raises(AueporaError, match=message) as caught:
            PanelWeights.read(path)
        assert str(path) in str(caught.value)
    with pytest.raises(AueporaError, match="No such file"):
        PanelWeights.read(tmp_path / "none.json")


def test_weights_of_other_members_or_another_prompt_are_refused() -> None:
    metric = LLMFaithfulnessScore(rating("a"))
    with pytest.raises(BadValueError, match="were learned for b, a, in this order, and the panel has a, b"):
        Panel([rating("a"), rating("b")], "stacked", weights_for(metric, members=("b", "a")))
    panel = Panel([rating("a"), rating("b")], "stacked", weights_for(metric))
    for other in (LLMAnswerQuality(panel), ClaimFaithfulness(panel)):
        with pytest.raises(BadValueError, match="learned for metric 'llm_faithfulness'"):
            other.require_ready()
    LLMFaithfulnessScore(panel).require_ready()
    with pytest.raises(BadValueError, match="metric 'other' asks the prompt"):
        LLMFaithfulnessScore(panel, name="other").require_ready()


def test_a_panel_is_asked_by_a_session_only() -> None:
    import asyncio

    with pytest.raises(BadValueError, match="asked by a JudgeSession"):
        asyncio.run(Panel([rating("a"), rating("b")]).judge(JudgeRequest("?", {})))


FAMILIES = [  # where the system's model is named, warning, why
    ({"model": "gpt-4o-mini"}, "openai:gpt-4o (gpt) of the panel belongs", "one member"),
    ({"llm": "claude-sonnet"}, "", "another family"),
    ({"prompt": "gpt-4o"}, "", "no model is named"),
    (
        {"a": {"model": "gpt-4"}, "b": {"model": "qwen3"}},
        "openai:gpt-4o (gpt) and openai:qwen-max (qwen) of the panel belong",
        "two",
    ),
]


@pytest.mark.parametrize(("described", "warning"), [row[:2] for row in FAMILIES], ids=[row[2] for row in FAMILIES])
def test_a_member_of_the_family_of_the_system_is_warned_of(described: dict[str, Any], warning: str) -> None:
    panel = Panel([OpenAICritic("gpt-4o"), OpenAICritic("qwen-max")])
    assert panel.same_family_note(described).startswith(warning)
    assert bool(panel.same_family_note(described)) == bool(warning)


def test_models_in_outputs_are_compared_with_the_members() -> None:
    gpt, other = rating("gpt-4o", 1, 2), rating("other", 3, 4)
    gpt.model = "gpt-4o"  # type: ignore[attr-defined]
    samples, outputs = pairs(2)
    for output in outputs:
        assert output is not None
        output.usage = {"models": ["gpt-4.1-nano"]}
    with pytest.warns(AueporaWarning, match=r"gpt-4o \(gpt\) of the panel belongs to the model family of the judged"):
        evaluate(samples, outputs, [LLMFaithfulnessScore(Panel([gpt, other]), scale="1-5")])


def test_names_of_judges_are_escaped_in_markdown() -> None:
    panel = Panel([rating("a|b", 1, 2), rating("<i>", 3, 4)])
    text = evaluate(*pairs(2), [LLMFaithfulnessScore(panel, scale="1-5")]).to_markdown()
    assert "a\\|b 0.1250, &lt;i> 0.6250" in text
