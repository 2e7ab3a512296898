"""Metrics of several answers to a question: pass@k, pass^k and agreement, by hand and by their intervals."""

import math
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from auepora_eval import EvaluationSample, MetricResult, evaluate, metric
from auepora_eval.compare.runs import compare_metrics
from auepora_eval.core.registry import Spec, spec_of
from auepora_eval.core.results import Results
from auepora_eval.engine.repeats import evaluate_repeats
from auepora_eval.errors import AueporaError, BadValueError
from auepora_eval.gates import check_gates
from auepora_eval.metrics.repeats import PassAllAtK, PassAtK
from auepora_eval.report.explain import explain
from auepora_eval.runs.run import run_system
from auepora_eval.stats.intervals import effective_interval
from auepora_eval.store.runs import RunStore
from helpers.builders import answered, sample

any_passes, all_pass = PassAtK.probability, PassAllAtK.probability


def scored(answers: list[list[str | None]], *specs: Spec, reference: str = "yes") -> Results:
    """The results over questions, each with its answers; ``!`` failed, ``?`` is missing."""
    samples = [sample(sample_id=f"q{number}", answer=reference) for number in range(len(answers))]
    repeats = [[answered(text) for text in column] for column in zip(*answers, strict=True)]
    return evaluate_repeats(samples, [lambda outputs=outputs: outputs for outputs in repeats], list(specs))  # type: ignore[misc]


def value(answers: list[str | None], spec: Spec, reference: str = "yes") -> float | None:
    (result,) = scored([answers], spec, reference=reference)
    return result.value if result.defined else None


EXACT = [  # answers, k, pass@k, pass_all@k, why
    (["yes", "yes", "yes", "no", "no"], 2, 9 / 10, 3 / 10, "3 of 5: one pair of ten has none, three have both"),
    (["yes", "yes", "yes", "no", "no"], 1, 3 / 5, 3 / 5, "with k = 1 both are the mean"),
    (["yes", "yes", "yes", "no", "no"], 5, 1.0, 0.0, "all five are drawn"),
    (["yes", "yes", "yes", "!", "?"], 2, 9 / 10, 3 / 10, "a failed and a missing answer do not pass"),
    (["yes", None, None, None, None], 2, 4 / 10, 0.0, "no answer does not pass"),
    (["!", "!", "!"], 2, 0.0, 0.0, "all failed"),
    (["no", "no"], 2, 0.0, 0.0, "none passes"),
    (["yes", "yes"], 2, 1.0, 1.0, "all pass"),
]


@pytest.mark.parametrize(("answers", "k", "any_", "all_"), [row[:4] for row in EXACT], ids=[row[4] for row in EXACT])
def test_questions_by_hand(answers: list[str | None], k: int, any_: float, all_: float) -> None:
    assert value(answers, {f"pass@{k}": {"of": "exact_match"}}) == pytest.approx(any_)
    assert value(answers, {f"pass_all@{k}": {"of": "exact_match"}}) == pytest.approx(all_)


def test_at_least_is_the_score_from_which_an_answer_passes() -> None:
    reference = "x " * 20
    words = [(12, 20), (8, 20), (14, 20), (4, 20), (11, 20)]  # words in common, and of the answer
    answers: list[str | None] = ["x " * common + "y " * (length - common) for common, length in words]
    samples = [sample(answer=reference)]
    repeats = [lambda text=text: [answered(text)] for text in answers]
    (plain,) = evaluate_repeats(samples, repeats, ["token_f1"])
    assert plain.details["repeats"]["values"] == pytest.approx([0.6, 0.4, 0.7, 0.2, 0.55])
    assert value(answers, {"pass@2": {"of": "token_f1", "at_least": 0.5}}, reference) == pytest.approx(0.9)
    assert value(answers, {"pass_all@2": {"of": "token_f1", "at_least": 0.5}}, reference) == pytest.approx(0.3)
    assert value(answers, {"pass_all@2": {"of": "token_f1", "at_least": 0.7}}, reference) == 0.0


@given(st.integers(1, 8), st.data())
@settings(max_examples=60, deadline=None)
def test_formulas_are_the_means_over_all_draws(answers: int, data: st.DataObject) -> None:
    passed, k = data.draw(st.integers(0, answers)), data.draw(st.integers(1, answers))
    draws = list(combinations([place < passed for place in range(answers)], k))
    assert any_passes(passed, answers, k) == pytest.approx(np.mean([any(draw) for draw in draws]))
    assert all_pass(passed, answers, k) == pytest.approx(np.mean([all(draw) for draw in draws]))


AGREEING = [
    (["yes", "Yes!", "the yes", "no", "no."], 4 / 10, "three and two agree after normalisation: 3 + 1 of 10 pairs"),
    (["yes", "no"], 0.0, "one pair, which differs"),
    (["!", "!", "yes"], 0.0, "failed answers do not agree"),
    (["?", "?"], 0.0, "nor do missing ones"),
    (["I don't know.", "I don't know."], 0.0, "nor refusals"),
    (["", ""], 0.0, "nor empty answers"),
    (["北京。", "北京"], 1.0, "wide punctuation is none"),
]


@pytest.mark.parametrize(("answers", "wanted"), [row[:2] for row in AGREEING], ids=[row[2] for row in AGREEING])
def test_agreement_by_hand(answers: list[str | None], wanted: float) -> None:
    assert value(answers, "answer_agreement") == pytest.approx(wanted)


def test_unanswerable_questions_have_no_agreement() -> None:
    samples = [sample(answer="", labels={"answerable": False})]
    outputs = [answered("I don't know.")]
    (result,) = evaluate_repeats(samples, [lambda: outputs, lambda: outputs], ["answer_agreement"])
    assert (result.defined, result.details["skipped_unanswerable"]) == (False, 1)


REFUSED: list[tuple[Spec, str, str]] = [
    ("pass@2", "needs its option 'of'", "no other metric"),
    ({"pass@2": {"of": "token_f1"}}, "say from which on an answer passes, at_least=0.5", "no threshold"),
    ({"pass@2": {"of": "token_f1", "at_least": 2}}, "at_least must be > 0 and <= 1", "a threshold out of range"),
    ({"pass@2": {"of": "hallucination_rate", "at_least": 0.5}}, "higher is better", "lower is better"),
    ({"pass@2": {"of": "bleu", "at_least": 0.5}}, "not a mean over samples", "no score per sample"),
    ({"pass@2": {"of": {"pass@2": {"of": "exact_match"}}}}, "computed from several answers", "pass of pass"),
    ({"pass": {"of": "exact_match"}}, "needs its option 'k'", "no k"),
    ({"sliced": {"base": {"pass@2": {"of": "exact_match"}}, "where": {"labels.lang": "de"}}}, "several", "a slice"),
]


@pytest.mark.parametrize(("spec", "message"), [row[:2] for row in REFUSED], ids=[row[2] for row in REFUSED])
def test_refused_options(spec: Spec, message: str) -> None:
    with pytest.raises(AueporaError, match=message):
        metric(spec)


def test_fewer_answers_than_k_are_an_error_before_anything_is_scored() -> None:
    spec: Spec = {"pass@6": {"of": "exact_match"}}
    with pytest.raises(BadValueError, match=r"'pass@6' needs 6 answers to each sample, and there are 5.*run\.repeats"):
        scored([["yes"] * 5], spec)
    with pytest.raises(BadValueError, match="needs 6 answers to each sample, and there is 1"):
        evaluate([sample(answer="yes")], [answered("yes")], [spec])
    with pytest.raises(BadValueError, match="needs 2 answers"):
        metric("answer_agreement").compute([sample(answer="yes")], [answered("yes")])  # type: ignore[list-item]


def test_a_plan_with_too_few_repeats_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    from auepora_eval.plan.prepare import read_plan

    path = tmp_path / "plan.yaml"
    path.write_text(
        "dataset: samples.jsonl\nsystem: {python: app:answer}\nmetrics: [{pass@6: {of: exact_match}}]\n"
        "run:\n  repeats: 5\n"
    )
    with pytest.raises(AueporaError, match=r"plan\.yaml:5: run\.repeats: metric 'pass@6' needs 6 answers"):
        read_plan(path)


def test_the_spec_signature_and_slices() -> None:
    spec: Spec = {"pass_all@3": {"of": "token_f1", "at_least": 0.5}}
    built = metric(spec)
    assert (built.name, spec_of(built)) == ("pass_all@3", spec)
    assert str(built.signature) == "pass_all@3|of:token_f1|of.norm:squad|at_least:0.5|v1"  # type: ignore[attr-defined]
    samples = [sample(sample_id=name, answer="yes", labels={"lang": name}) for name in ("de", "en")]
    repeats = [[answered("yes"), answered(second)] for second in ("yes", "no")]
    (result,) = evaluate_repeats(
        samples,
        [lambda outputs=outputs: outputs for outputs in repeats],  # type: ignore[misc]
        [{"pass_all@2": {"of": "exact_match"}}],
        slices="labels.lang",
    )
    assert [result.slices["labels.lang"][lang].value for lang in ("de", "en")] == [1.0, 0.0]


# --- the interval: coverage as measured before ------------------------------------------------------------------------


def test_the_interval_by_hand() -> None:
    values = np.array([0.0, 0.3, 1.0, 1.0] * 10)
    interval = effective_interval(values)
    assert interval is not None
    mean, variance = values.mean(), values.var(ddof=1) / 40
    trials = mean * (1 - mean) / variance
    quantile = 2.0226909  # of t with 39 degrees of freedom
    middle = (mean + quantile**2 / 2 / trials) / (1 + quantile**2 / trials)
    half = quantile / (1 + quantile**2 / trials) * math.sqrt(mean * (1 - mean) / trials + quantile**2 / 4 / trials**2)
    assert (interval.low, interval.high) == pytest.approx((middle - half, middle + half), abs=1e-6)
    assert (interval.method, interval.units) == ("wilson", 40)
    doubled = effective_interval(np.repeat(values, 2), clusters=np.repeat(np.arange(40), 2))
    assert doubled is not None
    assert (doubled.low, doubled.high) == pytest.approx((interval.low, interval.high))


def test_equal_values_have_an_interval_of_their_number() -> None:
    interval = effective_interval(np.ones(50))
    assert interval is not None
    assert 0.9 < interval.low < 0.95
    assert interval.high == 1.0
    assert effective_interval(np.ones(1)) is None


COVERAGE = [  # a, b of Beta, n, repeats, k, function, lowest, why
    (2, 1, 50, 5, 3, all_pass, 0.93, "pass^3 at .40"),
    (8, 1, 100, 3, 3, all_pass, 0.93, "pass^3 at .73"),
    (2, 1, 50, 5, 3, any_passes, 0.93, "pass@3 at .90"),
    (8, 1, 100, 5, 3, any_passes, 0.90, "pass@3 at .994, of which few questions fail"),
]


@pytest.mark.parametrize("row", COVERAGE, ids=[row[-1] for row in COVERAGE])
def test_coverage_of_the_interval(row: tuple) -> None:  # type: ignore[type-arg]
    a, b, n, repeats, k, probability, lowest, _ = row
    rng = np.random.default_rng(51)
    chance = rng.beta(a, b, (600, n))
    passed = rng.binomial(repeats, chance)
    population = rng.beta(a, b, 1_000_000)
    truth = float((population**k).mean() if probability is all_pass else 1 - ((1 - population) ** k).mean())
    table = np.array([probability(count, repeats, k) for count in range(repeats + 1)])
    inside = 0
    for draw in passed:
        interval = effective_interval(table[draw])
        assert interval is not None
        inside += interval.low <= truth <= interval.high
    assert inside / len(passed) >= lowest - 0.015  # two standard errors of 600 draws


def test_the_estimate_is_unbiased_where_the_plug_in_is_not() -> None:
    rng = np.random.default_rng(5)
    chance = rng.beta(2, 1, 200_000)
    passed = rng.binomial(3, chance)
    table = np.array([all_pass(count, 3, 3) for count in range(4)])
    truth = 2 / 5  # the third moment of Beta(2, 1)
    assert table[passed].mean() == pytest.approx(truth, abs=0.005)
    assert ((passed / 3) ** 3).mean() - truth > 0.05


# --- nothing gains by failing or refusing -----------------------------------------------------------------------------

GATED: list[Spec] = [
    {"pass@2": {"of": "exact_match"}},
    {"pass_all@2": {"of": "token_f1", "at_least": 0.5}},
    "answer_agreement",
]


def test_crashing_or_refusing_any_questions_never_improves_a_value() -> None:
    rng = np.random.default_rng(7)
    answers: list[list[str | None]] = [
        [str(rng.choice(["yes", "no", "yes maybe", ""])) for _ in range(4)] for _ in range(30)
    ]
    before = {one.name: one for one in scored(answers, *GATED)}
    for number in range(200):
        worse = str(rng.choice(["!", "I don't know.", "?", ""]))
        calls = rng.random((30, 4)) < rng.random() if number % 2 else np.repeat(rng.random((30, 1)) < 0.3, 4, axis=1)
        changed: list[list[str | None]] = [
            [worse if hit else text for text, hit in zip(row, hits, strict=True)]
            for row, hits in zip(answers, calls, strict=True)
        ]
        for result in scored(changed, *GATED):
            assert result.value <= before[result.name].value, (worse, number)
            assert result.details["num_samples"] == 30


def repeated_run(store: RunStore, name: str, right: list[list[bool]]) -> str:
    """A run that asked each question several times."""
    asked: dict[str, int] = {}

    def system(question: EvaluationSample, *, top_k: int) -> object:
        place = int(question.sample_id[1:])
        repeat = asked[question.sample_id] = asked.get(question.sample_id, -1) + 1
        return answered("yes" if right[place][repeat] else "no")

    samples = [sample(sample_id=f"q{number}", answer="yes") for number in range(len(right))]
    outcome = run_system(
        system,
        samples,
        ["exact_match", *GATED],
        store=store,
        name=name,
        repeats=len(right[0]),
    )
    return outcome.record.run_id


def test_an_explanation_derives_the_score_from_the_answers(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "runs.db") as store:
        run_id = repeated_run(store, "runs", [[True, True, True, False], [False] * 4])
        found = explain(store, run_id, "pass_all@2", query="q0")
    assert found.query is not None
    assert (found.query.check.computed, found.query.check.verdict) == (0.5, "equal")
    assert [answer.counts_as for answer in found.query.answers] == [1.0, 1.0, 1.0, 0.0]


def test_runs_are_compared_gated_and_scored_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    weak = (rng.random((60, 4)) < 0.4).tolist()
    strong = (rng.random((60, 4)) < 0.9).tolist()
    with RunStore.open(tmp_path / "runs.db") as store:
        first, second = repeated_run(store, "weak", weak), repeated_run(store, "strong", strong)
        compared = compare_metrics(store, store.get(first), store.get(second)).by_name
        expected = float(np.mean([all_pass(sum(row), 4, 2) for row in strong]))
        result: MetricResult = store.result(second, "pass_all@2")
        report = check_gates(
            ["pass_all@2 >= 0.7", "low(pass@2) >= 0.99"], [store.result(second, n) for n in ("pass_all@2", "pass@2")]
        )
    assert result.value == pytest.approx(expected)
    assert result.interval is not None
    assert result.details["interval"]["method"] == "wilson"
    assert [compared[name].verdict for name in ("pass@2", "pass_all@2")] == ["better", "better"]
    assert report.outcomes[0].status == "passed"
