"""Tokens, cost and cost per right answer: by hand, by their intervals, and what may not gain."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from auepora_eval import Document, Response, RetrievedDocument, SystemOutputs, evaluate, metric
from auepora_eval.compare.runs import compare_metrics
from auepora_eval.core.metrics_base import RunInfo
from auepora_eval.core.registry import Spec
from auepora_eval.engine.repeats import evaluate_repeats
from auepora_eval.errors import AueporaError, BadValueError
from auepora_eval.gates import check_gates
from auepora_eval.runs.run import run_system
from auepora_eval.stats.difference import log_ratio_interval
from auepora_eval.stats.intervals import ratio_interval
from auepora_eval.store.runs import RunStore
from helpers.builders import output, sample

PRICES = {"large": {"prompt": 2, "completion": 8, "cached_prompt": 0.5}, "small": {"prompt": 1}}
TOTAL: Spec = {"total_cost": {"prices": PRICES}}
COST_PER_CORRECT: Spec = {"cost_per_correct": {"of": "exact_match", "prices": PRICES}}


def used(**usage: Any) -> SystemOutputs:
    return output(answer="yes", usage=usage)


USAGES: list[tuple[dict[str, Any], Spec, float | str, str]] = [
    ({"prompt_tokens": 10, "completion_tokens": 3}, "prompt_tokens", 10, "by the name of OpenAI"),
    ({"input_tokens": 10, "output_tokens": 3}, "completion_tokens", 3, "by that of others"),
    ({"by_model": {"a": {"input_tokens": 4}, "b": {"input_tokens": 5}}}, "prompt_tokens", 9, "of all models"),
    ({"prompt_tokens": 12.0}, "prompt_tokens", 12, "tables write integers so"),
    ({}, "prompt_tokens", "skipped:no_usage", "none"),
    ({"total_tokens": 5}, "prompt_tokens", "skipped:no_usage", "not this kind"),
    ({"prompt_tokens": -1}, "prompt_tokens", "measure_failed:bad_usage", "negative"),
    ({"prompt_tokens": 1.5}, "prompt_tokens", "measure_failed:bad_usage", "no integer"),
    ({"prompt_tokens": True}, "prompt_tokens", "measure_failed:bad_usage", "a truth"),
    ({"prompt_tokens": math.inf}, "prompt_tokens", "measure_failed:bad_usage", "without end"),
    ({"prompt_tokens": "9"}, "prompt_tokens", "measure_failed:bad_usage", "a text"),
    (
        {"model": "large", "prompt_tokens": 1000, "completion_tokens": 100},
        TOTAL, (2 * 1000 + 8 * 100) / 1e6, "prices are of a million tokens",
    ),
    (
        {"model": "large", "prompt_tokens": 1000, "completion_tokens": 0, "cached_prompt_tokens": 400},
        TOTAL, (2 * 600 + 0.5 * 400) / 1e6, "cached tokens have a price of their own",
    ),
    (
        {"model": "large", "input_tokens": 1000, "output_tokens": 0, "prompt_tokens_details": {"cached_tokens": 400}},
        TOTAL, (2 * 600 + 0.5 * 400) / 1e6, "where OpenAI has them",
    ),
    ({"model": "small", "prompt_tokens": 50}, TOTAL, 50 / 1e6, "answers of a model may cost nothing"),
    (
        {"by_model": {"large": {"prompt_tokens": 10, "completion_tokens": 1}, "small": {"prompt_tokens": 5}}},
        TOTAL, (2 * 10 + 8 + 5) / 1e6, "two models",
    ),
    ({"models": ["small"], "prompt_tokens": 5}, TOTAL, 5 / 1e6, "the one model of a trace"),
    ({"model": "other", "prompt_tokens": 5, "completion_tokens": 1}, TOTAL, "measure_failed:no_price", "unknown"),
    ({"prompt_tokens": 5, "completion_tokens": 1}, TOTAL, "measure_failed:no_price", "no model, and two prices"),
    ({"prompt_tokens": 5, "completion_tokens": 1}, "total_cost", "measure_failed:no_price", "no prices"),
    ({"model": "large", "prompt_tokens": 5}, TOTAL, "skipped:no_usage", "half of a usage"),
    ({"model": "small", "prompt_tokens": 5, "cached_tokens": 6}, TOTAL, "measure_failed:bad_usage", "more cached"),
]  # fmt: skip


@pytest.mark.parametrize(("usage", "spec", "wanted"), [row[:3] for row in USAGES], ids=[row[3] for row in USAGES])
def test_usage_by_hand(usage: dict[str, Any], spec: Spec, wanted: float | str) -> None:
    (result,) = evaluate([sample()], [used(**usage)], [spec])
    found: Any = result.outcomes[0] if isinstance(wanted, str) else result.value  # type: ignore[index]
    assert found == (wanted if isinstance(wanted, str) else pytest.approx(wanted))


def test_a_usage_without_a_model_has_the_only_price() -> None:
    (result,) = evaluate(
        [sample()],
        [used(prompt_tokens=10, completion_tokens=0)],
        ["total_cost"],
        run=RunInfo(prices={"m": {"prompt": 3}}),
    )
    assert result.value == pytest.approx(30 / 1e6)
    assert result.details["total"] == pytest.approx(30 / 1e6)
    assert (result.signature or "").startswith("total_cost|prices:")


def test_prices_are_part_of_the_signature_wherever_they_come_from() -> None:
    rows, outputs = [sample()], [used(model="small", prompt_tokens=1)]
    (own,) = evaluate(rows, outputs, [{"total_cost": {"prices": {"small": {"prompt": 1.0}}}}])
    (run,) = evaluate(rows, outputs, ["total_cost"], run=RunInfo(prices={"small": {"prompt": 1, "completion": 0}}))
    (other,) = evaluate(rows, outputs, ["total_cost"], run=RunInfo(prices={"small": {"prompt": 2}}))
    assert own.signature == run.signature != other.signature


BAD_PRICES = [
    ({"m": {"prompt": -1}}, r"prices\.m: .*prompt", "negative"),
    ({"m": {"completion": 1}}, r"prices\.m: write prompt", "no price of the prompt"),
    ({"m": {"prompt": 1, "output": 2}}, r"prices\.m: write prompt", "unknown name"),
    ({"m": 3}, r"prices\.m: write prompt", "no mapping"),
    ({"m": {"prompt": "3"}}, r"prices\.m: .*number", "a text"),
]


@pytest.mark.parametrize(("prices", "message"), [row[:2] for row in BAD_PRICES], ids=[row[2] for row in BAD_PRICES])
def test_bad_prices_are_errors(prices: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(BadValueError, match=message):
        metric({"total_cost": {"prices": prices}})
    from auepora_eval.plan.prepare import read_plan

    plan = {"dataset": "s.jsonl", "system": {"python": "a:b"}, "metrics": ["total_cost"], "run": {"prices": prices}}
    path = tmp_path / "plan.yaml"
    path.write_text(json.dumps(plan, indent=1))
    with pytest.raises(AueporaError, match=r"plan\.yaml:\d+: run\.prices\.m"):
        read_plan(path)


def test_first_tokens() -> None:
    outputs = [output(timings={"first_token": 0.2}), output(timings={"first_token": 0.4}), output(timings={})]
    (result,) = evaluate([sample(sample_id=str(n)) for n in range(3)], outputs, ["time_to_first_token"])
    assert result.value == pytest.approx(0.3)
    assert result.details["num_samples"] == 2


# --- tokens of documents ----------------------------------------------------------------------------------------------


def ranked(*texts: tuple[str, str]) -> SystemOutputs:
    documents = [Document(doc_id, text) for doc_id, text in texts]
    return SystemOutputs([RetrievedDocument(one, None, rank) for rank, one in enumerate(documents, 1)], Response("x"))


SIX, THREE = "one two three four five six", "one two three"
BUDGETS: list[tuple[SystemOutputs, int, float | str, str]] = [
    (ranked(("x", SIX), ("a", SIX), ("b", THREE)), 10, 0.0, "reading ends at a, though b would fit"),
    (ranked(("x", SIX), ("b", THREE), ("a", SIX)), 10, 1 / 2, "b fits behind x"),
    (ranked(("x", SIX), ("a", SIX), ("b", THREE)), 12, 1 / 2, "a fits exactly"),
    (ranked(("x", SIX), ("a", SIX), ("b", THREE)), 15, 1.0, "all fit"),
    (ranked(), 15, 0.0, "nothing was returned"),
    (ranked(("a", SIX), ("b", "")), 5, 0.0, "no text is needed behind the end"),
    (ranked(("a", SIX), ("b", "")), 10, "measure_failed:no_document_text", "without a text nothing can be counted"),
    (ranked(("a", "北京是首都"), ("b", "x")), 4, 0.0, "letters are tokens where words have no spaces"),
]


@pytest.mark.parametrize(("result", "budget", "wanted"), [row[:3] for row in BUDGETS], ids=[row[3] for row in BUDGETS])
def test_recall_in_tokens(result: SystemOutputs, budget: int, wanted: float | str) -> None:
    (found,) = evaluate([sample("ab")], [result], [f"recall_in_tokens@{budget}"])
    assert (found.outcomes[0] if isinstance(wanted, str) else found.value) == wanted  # type: ignore[index]
    assert "|tokenizer:char|" in str(found.signature)


def test_tokens_of_documents() -> None:
    outputs = [ranked(("x", SIX), ("a", THREE)), ranked(), ranked(("a", ""))]
    rows = [sample("a", sample_id=str(number)) for number in range(3)]
    (found,) = evaluate(rows, outputs, ["context_tokens"])
    assert list(found.outcomes or ()) == ["scored", "scored", "measure_failed:no_document_text"]
    assert list(found.scores or ())[:2] == [9.0, 0.0]
    (own,) = evaluate(rows[:1], outputs[:1], [{"context_tokens": {"tokenizer": "builtins:list"}}])
    assert (own.value, own.signature) == (len(SIX) + len(THREE), "context_tokens|tokenizer:builtins:list|v1")


# --- cost per right answer --------------------------------------------------------------------------------------------


def answers(costs: list[float], right: list[bool]) -> list[SystemOutputs]:
    return [
        output(answer="yes" if good else "no", usage={"model": "small", "prompt_tokens": round(cost)})
        for cost, good in zip(costs, right, strict=True)
    ]


def questions(count: int) -> list[Any]:
    return [sample(sample_id=f"q{number}", answer="yes") for number in range(count)]


def test_cost_per_correct_by_hand() -> None:
    costs, right = [1e6, 2e6, 3e6, 4e6, 5e6, 6e6], [True] * 5 + [False]
    (result,) = evaluate(questions(6), answers(costs, right), [COST_PER_CORRECT])
    assert result.value == pytest.approx(21 / 5)
    assert result.details["interval"]["method"] == "fieller"
    (few,) = evaluate(questions(6), answers(costs, [True] * 4 + [False] * 2), [COST_PER_CORRECT])
    assert (few.defined, few.interval) == (False, None)


def test_cost_per_correct_over_repeats_is_that_of_all_calls() -> None:
    first, second = answers([1e6] * 10, [True] * 10), answers([3e6] * 10, [False] * 10)
    (result,) = evaluate_repeats(questions(10), [lambda: first, lambda: second], [COST_PER_CORRECT])
    assert result.value == pytest.approx(40 / 10)


def test_failed_answers_are_not_right_and_their_known_cost_counts() -> None:
    outputs = answers([1e6] * 10, [True] * 10)
    outputs[0].error, outputs[1].error, outputs[1].usage = "timeout", "timeout", {}
    (result,) = evaluate(questions(10), outputs, [COST_PER_CORRECT])
    assert result.value == pytest.approx(9 / 8)
    assert (result.details["failed_timeout"], result.details["num_samples"]) == (2, 9)


def test_fieller_by_hand() -> None:
    cost, right = np.array([1.0, 2, 3, 4, 5, 6, 7, 8]), np.array([1.0, 1, 1, 0, 1, 1, 1, 0])
    interval = ratio_interval(cost, right)
    assert interval is not None
    k = 2.3646243**2 / 8
    square, constant = 0.75**2 - k * right.var(ddof=1), 4.5**2 - k * cost.var(ddof=1)
    linear = 4.5 * 0.75 - k * np.cov(cost, right)[0, 1]
    assert (interval.low, interval.high) == pytest.approx(sorted(np.roots([square, -2 * linear, constant])), rel=1e-6)
    twice = ratio_interval(np.repeat(cost, 2), np.repeat(right, 2), clusters=np.repeat(np.arange(8), 2))
    assert twice is not None
    assert (twice.low, twice.high) == pytest.approx((interval.low, interval.high))
    assert ratio_interval(cost, np.array([1.0] + [0.0] * 7)) is None


def made_costs(rng: np.random.Generator, shape: tuple[int, int], spread: float, accuracy: float) -> Any:
    common = rng.normal(size=shape)
    cost = np.exp(spread * (0.6 * common + 0.8 * rng.normal(size=shape)))
    latent = math.sqrt(0.3) * common + math.sqrt(0.7) * rng.normal(size=shape)
    return cost, (latent < NormalDist().inv_cdf(accuracy)) * 1.0


@pytest.mark.parametrize(("spread", "accuracy", "lowest"), [(0.6, 0.3, 0.93), (0.6, 0.7, 0.93), (1.2, 0.7, 0.90)])
def test_coverage_of_cost_per_correct(spread: float, accuracy: float, lowest: float) -> None:
    costs, rights = made_costs(np.random.default_rng(57), (1500, 100), spread, accuracy)
    truth, inside, flagged = math.exp(spread**2 / 2) / accuracy, 0, 0
    for cost, right in zip(costs, rights, strict=True):
        interval = ratio_interval(cost, right)
        assert interval is not None
        inside += interval.low <= truth <= interval.high
        flagged += "skewed" in interval.flags
    assert inside / 1500 >= lowest - 0.012  # two standard errors of 1,500 draws
    if spread == 1.2:
        assert flagged > 900  # heavy costs are named


def test_refusing_the_dear_half_makes_it_better_so_it_has_no_verdict_and_no_gate_alone(tmp_path: Path) -> None:
    rng = np.random.default_rng(58)
    common = rng.normal(size=400)
    cost = np.round(1e6 * np.exp(0.8 * common))
    right = math.sqrt(0.3) * common + math.sqrt(0.7) * rng.normal(size=400) < 0.5244
    dear = cost > np.median(cost)
    refused = [
        output(answer="Sorry, I don't know.", usage={"model": "small", "prompt_tokens": 50_000}) if is_dear else one
        for one, is_dear in zip(answers(cost.tolist(), right.tolist()), dear, strict=True)
    ]
    specs: list[Spec] = ["exact_match", TOTAL, COST_PER_CORRECT]
    with RunStore.open(tmp_path / "runs.db") as store:
        first = stored_run(store, "all", answers(cost.tolist(), right.tolist()), specs)
        second = stored_run(store, "half", refused, specs)
        compared = compare_metrics(store, store.get(first), store.get(second)).by_name
        results = [store.result(second, name) for name in ("exact_match", "total_cost", "cost_per_correct")]
    assert compared["exact_match"].verdict == "worse"
    one = compared["cost_per_correct"]
    assert one.a is not None
    assert one.b is not None
    assert one.a == pytest.approx(1.98, abs=0.15)
    assert one.b == pytest.approx(0.74, abs=0.08)
    assert one.ratio is not None
    assert one.ratio[0] == pytest.approx(one.b / one.a)
    for name in ("cost_per_correct", "total_cost"):
        assert (compared[name].verdict, compared[name].doubt) == ("inconclusive", "no_direction")
        assert "B takes 0." in (compared[name].note or "")
        assert "no verdict: an answer that refuses or fails takes less" in (compared[name].note or "")
    with pytest.raises(BadValueError, match="alone says nothing: refusing the dear half"):
        check_gates(["cost_per_correct <= 2"], results)
    report = check_gates(["cost_per_correct <= 2", "exact_match >= 0.6"], results)
    assert [gate.status for gate in report.outcomes[:2]] == ["passed", "failed"]


def stored_run(store: RunStore, name: str, outputs: Sequence[SystemOutputs | None], specs: list[Spec]) -> str:
    def system(question: Any, *, top_k: int) -> SystemOutputs:
        answer = outputs[int(question.sample_id[1:])]
        if answer is None:
            raise RuntimeError("crashed")
        return answer

    rows = questions(len(outputs))
    return run_system(system, rows, specs, store=store, name=name, keep_going=True).record.run_id


def test_ratios_of_amounts() -> None:
    rng = np.random.default_rng(2)
    first = rng.lognormal(0, 1, 200)
    found = log_ratio_interval([first * 0.8], [first])
    assert found == pytest.approx((0.8, 0.8, 0.8))
    assert log_ratio_interval([np.zeros(5)], [np.ones(5)]) is None
    inside = 0
    for _ in range(500):
        common = rng.normal(size=80)
        one, other = (np.exp(0.6 * common + 0.3 * rng.normal(size=80)) for _ in range(2))
        ratio = log_ratio_interval([other], [one])
        assert ratio is not None
        inside += ratio[1] <= 1.0 <= ratio[2]
    assert inside / 500 > 0.925


VERDICTS = {"worse": 0, "inconclusive": 1, "equal": 2, "better": 3}


def changed(one: SystemOutputs, how: int) -> SystemOutputs | None:
    """An answer that failed, is empty, or refuses with few tokens."""
    if how == 0:
        return None
    text = "" if how == 1 else "Sorry, I don't know."
    usage = {"model": "small", "prompt_tokens": 1, "completion_tokens": 0}
    return SystemOutputs(one.retrieved, Response(text), {"first_token": 0.01}, usage=usage)


def verdicts_after(folder: Path, sets: int) -> None:
    """Compare a run with itself and with copies that fail or refuse on random sets of questions."""
    rng = np.random.default_rng(9)
    whole = answers(np.round(rng.lognormal(8, 1, 24)).tolist(), (rng.random(24) < 0.6).tolist())
    for one in whole:
        one.usage["completion_tokens"] = int(rng.integers(5, 50))
        one.timings["first_token"] = float(rng.random())
        one.retrieved = ranked(("gold", SIX), ("x", THREE)).retrieved
    specs: list[Spec] = [
        "prompt_tokens", "completion_tokens", "context_tokens", "time_to_first_token", TOTAL, COST_PER_CORRECT,
        {"pass@1": {"of": "exact_match"}}, {"pass_all@1": {"of": "token_f1", "at_least": 0.5}},
    ]  # fmt: skip
    with RunStore.open(folder / "runs.db") as store:
        first = store.get(stored_run(store, "whole", list(whole), specs))
        before = compare_metrics(store, first, store.get(stored_run(store, "again", list(whole), specs))).by_name
        assert len(before) == len(specs)
        for number in range(sets):
            hit = rng.random(24) < rng.random()
            outputs = [changed(one, number % 3) if is_hit else one for one, is_hit in zip(whole, hit, strict=True)]
            other = store.get(stored_run(store, f"other {number}", outputs, specs))
            for name, after in compare_metrics(store, first, other).by_name.items():
                assert VERDICTS[after.verdict] <= VERDICTS[before[name].verdict], (name, number)


def test_failing_or_refusing_never_improves_a_verdict(tmp_path: Path) -> None:
    verdicts_after(tmp_path, 9)


@pytest.mark.slow
def test_failing_or_refusing_any_of_200_sets_never_improves_a_verdict(tmp_path: Path) -> None:
    verdicts_after(tmp_path, 200)
