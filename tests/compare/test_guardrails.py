"""Metrics that must not get worse: guardrails with a margin, and other metrics that fell."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from auepora_eval.compare.analysis import compute_comparisons
from auepora_eval.compare.guardrails import fallen_metrics, parse_guardrails
from auepora_eval.compare.pairing import MetricMeta, MetricPair
from auepora_eval.compare.rendering import comparison_page, comparison_summary
from auepora_eval.compare.runs import Leaderboard, build_leaderboard, compare_runs
from auepora_eval.compare.types import ComparisonInput, GuardrailOutcome
from auepora_eval.core.reduce import Mean
from auepora_eval.core.scores import Scores
from auepora_eval.errors import BadValueError, PlanError, UnknownMetricError
from auepora_eval.gates import check_run, find_baseline
from auepora_eval.plan.gates import parse_gate
from auepora_eval.plan.prepare import read_plan
from auepora_eval.render.terminal import report_text
from auepora_eval.report.comparison_sections import compare_stored_runs, comparison_verdict
from auepora_eval.report.run_sections import StoredRun
from auepora_eval.stats.difference import paired_interval
from auepora_eval.store.runs import RunStore
from helpers.requirements import examples
from helpers.stored_runs import samples, scored

N = 200
ZEROS = np.zeros(N)
HALF = np.arange(N) % 2 * 1.0
RISEN = np.arange(N) % 5 * 0.25
"""0, .25, .5, .75 and 1 in turn: the mean is .5."""


def ones(count: int, n: int = N) -> np.ndarray:
    """Scores of which this many are 1."""
    return (np.arange(n) < count) * 1.0


def compared(
    store: RunStore,
    first: dict[str, np.ndarray],
    second: dict[str, np.ndarray],
    *,
    primary: tuple[str, ...] = (),
    **margins: float,
) -> Leaderboard:
    """Two runs with these scores; ``margins`` are the guardrails of the plan of the second."""
    data = samples(len(next(iter(first.values()))))
    plan: dict[str, object] = {"primary": list(primary) or None}
    runs = [
        scored(store, "before", data, first, plan=plan),
        scored(store, "after", data, second, plan=plan | {"guardrails": margins} if margins else plan),
    ]
    return build_leaderboard(store, runs)


def outcome(board: Leaderboard) -> GuardrailOutcome:
    (found,) = board.guardrails
    return found


# --- states ----------------------------------------------------------------------------------------------------------


def test_state_within_margin(store: RunStore) -> None:
    """30 of 200 against 29: Newcombe's upper bound at 90 % is far below .1."""
    found = outcome(
        compared(store, {"over_refusal_rate": ones(29)}, {"over_refusal_rate": ones(30)}, over_refusal_rate=0.1)
    )
    assert found.state == "within_margin"
    assert found.delta == pytest.approx(1 / 200)
    assert found.least is not None
    assert found.most is not None
    assert found.least < 1 / 200 < found.most < 0.1
    assert found.describe() == f"over_refusal_rate is within its margin of 0.1 (at most {found.most:.4f} worse)"


def test_state_worse(store: RunStore) -> None:
    found = outcome(
        compared(store, {"over_refusal_rate": ones(0)}, {"over_refusal_rate": ones(40)}, over_refusal_rate=0.05)
    )
    assert found.state == "worse"
    assert found.least is not None
    assert 0 < found.least < 40 / 200
    assert found.describe() == f"over_refusal_rate is worse by at least {found.least:.4f} (margin 0.05)"


def test_a_small_loss_that_is_certain_is_within_the_margin(store: RunStore) -> None:
    """A margin says which loss does not matter: it is looked at first."""
    found = outcome(
        compared(store, {"over_refusal_rate": ones(0)}, {"over_refusal_rate": ones(40)}, over_refusal_rate=0.5)
    )
    assert found.state == "within_margin"
    assert found.least is not None
    assert found.least > 0


def test_higher_is_better(store: RunStore) -> None:
    """A loss is a fall here: the bounds are those of the difference with the other sign."""
    rng = np.random.default_rng(5)
    after = np.clip(RISEN - 0.1 + rng.normal(0, 0.05, N), 0, 1)
    found = outcome(compared(store, {"token_f1": RISEN}, {"token_f1": after}, token_f1=0.02))
    assert found.state == "worse"
    assert found.delta is not None
    assert found.delta < 0
    assert found.least is not None
    assert found.most is not None
    assert found.least < -found.delta < found.most


def test_one_more_refusal_of_fourteen_is_inconclusive(store: RunStore) -> None:
    board = compared(
        store,
        {"token_f1": ZEROS[:14], "over_refusal_rate": ones(1, 14)},
        {"token_f1": RISEN[:14] + 0.1, "over_refusal_rate": ones(2, 14)},
        primary=("token_f1",),
        over_refusal_rate=0.05,
    )
    found = outcome(board)
    assert found.state == "inconclusive"
    # sd² of one 1 among 14 is 1/14; (1.645 + 0.842)² · (1/14) / .05² is about 177, with t a few more
    assert found.n_needed == pytest.approx(179, abs=3)
    summary = comparison_summary(board)
    assert summary.outcome == "open"
    assert f"about {found.n_needed} samples would decide" in summary.sentence


def test_number_of_samples_needed_without_any_refusal(store: RunStore) -> None:
    """Wilson's upper bound of 0 of n is z² / (n + z²): .05 at n = 2.706 · 19 = 51.4."""
    found = outcome(
        compared(store, {"over_refusal_rate": ones(0, 14)}, {"over_refusal_rate": ones(0, 14)}, over_refusal_rate=0.05)
    )
    assert found.state == "inconclusive"
    assert found.n_needed == 52


def test_other_metrics_and_primary_ones_change_nothing(store: RunStore, tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    before, after = rng.random(N), rng.random(N)
    first, second = {"over_refusal_rate": ones(20)}, {"over_refusal_rate": ones(26)}
    alone = outcome(compared(store, first, second, over_refusal_rate=0.08))
    more = {"token_f1": before, "recall@5": before, "mrr": before}, {"token_f1": after, "recall@5": after, "mrr": after}
    with RunStore.open(tmp_path / "more.sqlite") as other:
        board = compared(
            other, first | more[0], second | more[1], primary=("token_f1", "recall@5", "mrr"), over_refusal_rate=0.08
        )
        assert outcome(board) == alone
        named = build_leaderboard(
            other, [other.find("before"), other.find("after")], primary=["over_refusal_rate", "mrr"]
        )
        assert outcome(named) == alone


def test_skewed_losses_need_bounds_that_allow_for_skew(store: RunStore) -> None:
    """Two of 50 lose .4, the others gain .045: Student's upper bound of the loss is below .005, that of bets is not."""
    change = np.where(np.arange(50) < 2, -0.4, 0.045)
    before = np.full(50, 0.5)
    found = outcome(compared(store, {"token_f1": before}, {"token_f1": before + change}, token_f1=0.005))
    assert found.delta == pytest.approx(0.0272)
    student = paired_interval(before, before + change, lowest=0.0, highest=1.0, level=0.9)
    assert student is not None
    assert -student.low < 0.005
    assert found.state == "inconclusive"
    assert found.most is not None
    assert found.most > 0.005


def test_failed_measurements_that_could_change_a_state(store: RunStore) -> None:
    """20 of 200 measurements failed: at worst the loss is 20/200 + 1/200."""
    failed = {"judge_unparseable": np.arange(N) >= N - 20}
    found = outcome(
        compared(
            store,
            {"over_refusal_rate": ones(29)},
            {"over_refusal_rate": Scores.of(ones(30), fail=failed)},  # type: ignore[dict-item]
            over_refusal_rate=0.1,
        )
    )
    assert (found.state, found.reason) == ("inconclusive", "failed or missing outputs could change it")


def test_a_metric_that_was_not_computed_is_inconclusive(store: RunStore) -> None:
    found = outcome(compared(store, {"token_f1": RISEN}, {"token_f1": RISEN}, over_refusal_rate=0.1))
    assert found.state == "inconclusive"
    assert "not both runs have it" in found.describe()


# --- the summary -----------------------------------------------------------------------------------------------------

BETTER = {"token_f1": ZEROS}, {"token_f1": RISEN}


@pytest.mark.parametrize(
    ("losses", "margin", "result"),
    [(0, 0.1, "better"), (40, 0.05, "open"), (2, 0.02, "open")],
    ids=["within the margin", "worse", "inconclusive"],
)
def test_green_only_if_all_guardrails_are_within_their_margins(
    store: RunStore, losses: int, margin: float, result: str
) -> None:
    board = compared(
        store,
        BETTER[0] | {"over_refusal_rate": ones(0)},
        BETTER[1] | {"over_refusal_rate": ones(losses)},
        primary=("token_f1",),
        over_refusal_rate=margin,
    )
    summary = comparison_summary(board)
    assert summary.outcome == result
    assert f"Guardrails: {outcome(board).describe()}." in summary.sentence
    assert not board.fallen


def test_a_guardrail_that_is_worse_decides_where_nothing_is_better(store: RunStore) -> None:
    before, after = {"token_f1": RISEN}, {"token_f1": RISEN}
    board = compared(
        store, before | {"over_refusal_rate": ones(0)}, after | {"over_refusal_rate": ones(40)}, over_refusal_rate=0.05
    )
    assert comparison_summary(board).outcome == "worse"


def test_a_guardrail_is_not_primary_unless_it_is_named(store: RunStore) -> None:
    board = compared(
        store,
        BETTER[0] | {"over_refusal_rate": ones(0)},
        BETTER[1] | {"over_refusal_rate": ones(40)},
        over_refusal_rate=0.05,
    )
    assert [found.name for found in board.comparisons if found.primary] == ["token_f1"]


def test_fallen_metrics_are_named_without_guardrails(store: RunStore) -> None:
    """``hallucination_rate`` is 1 - ``support_density``: the two count once. The mean of 0, .25, .5, .5 and .5 is .35."""
    risen = np.minimum(RISEN, 0.5)
    board = compared(
        store,
        BETTER[0] | {"support_density": 1 - ZEROS, "hallucination_rate": ZEROS, "recall@5": HALF},
        BETTER[1] | {"support_density": 1 - risen, "hallucination_rate": risen, "recall@5": HALF},
        primary=("token_f1",),
    )
    assert board.fallen == ("support_density",)
    summary = comparison_summary(board)
    assert summary.outcome == "open"
    assert summary.sentence.endswith("Not primary, but worse: support_density 1.0000 → 0.6500.")


@pytest.mark.parametrize(("slower", "named"), [(0.004, ()), (0.4, ("mean_latency[end_to_end]",))])
def test_milliseconds_of_latency_are_not_named(slower: float, named: tuple[str, ...], store: RunStore) -> None:
    latency = "mean_latency[end_to_end]"
    noise = np.linspace(0, 0.001, len(ZEROS))
    board = compared(
        store,
        BETTER[0] | {latency: 0.01 + noise},
        BETTER[1] | {latency: 0.01 + slower + noise[::-1]},
        primary=("token_f1",),
    )
    assert board.fallen == named


def test_a_function_of_a_primary_metric_is_not_named_again(store: RunStore) -> None:
    risen = np.minimum(RISEN, 0.5)
    board = compared(
        store,
        {"support_density": 1 - ZEROS, "hallucination_rate": ZEROS},
        {"support_density": 1 - risen, "hallucination_rate": risen},
        primary=("support_density",),
    )
    assert board.fallen == ()


def test_primary_metrics_that_fell_are_named(store: RunStore) -> None:
    board = compared(
        store, BETTER[0] | {"recall@5": HALF}, BETTER[1] | {"recall@5": ZEROS}, primary=("token_f1", "recall@5")
    )
    assert "Worse: recall@5 0.5000 → 0.0000." in comparison_summary(board).sentence


def test_equal_systems_hardly_ever_name_a_fallen_metric() -> None:
    """200 pairs of equal systems, 25 metrics, n = 150: max-T holds 5 % for any difference, so half of that for falls."""
    rng = np.random.default_rng(2)
    pairs = examples(200)
    named = 0
    for _ in range(pairs):
        difficulty = rng.random((150, 1))
        first, second = ((rng.random((150, 25)) < difficulty) * 1.0 for _ in range(2))
        inputs = [metric_input(f"m{at}", first[:, at], second[:, at]) for at in range(25)]
        named += bool(fallen_metrics(inputs, compute_comparisons(inputs, None), None))
    assert named <= 0.1 * pairs


def metric_input(name: str, first: np.ndarray, second: np.ndarray) -> ComparisonInput:
    """The input of a metric that is not primary."""
    pair = MetricPair(name, MetricMeta(Mean()), Scores.of(first), Scores.of(second))
    return ComparisonInput(name, pair.definition, lambda: pair, "", primary=False)


# --- plans, commands, pages, JSON, gates -----------------------------------------------------------------------------


def test_page_and_document(store: RunStore) -> None:
    board = compared(
        store,
        BETTER[0] | {"over_refusal_rate": ones(0)},
        BETTER[1] | {"over_refusal_rate": ones(40)},
        over_refusal_rate=0.05,
    )
    text = report_text(comparison_page(board))
    assert "Guardrails\n----------\n" in text
    assert "▼ worse" in text
    report = compare_runs("before", "after", store=store)
    document = json.loads(report.to_json())
    (entry,) = document["guardrails"]
    assert entry["metric"] == "over_refusal_rate"
    assert entry["state"] == "worse"
    assert entry["margin"] == 0.05
    assert set(entry) == {"metric", "margin", "state", "delta", "least", "most", "n", "n_needed", "reason"}
    runs = [StoredRun(store, store.find(name)) for name in ("before", "after")]
    assert comparison_verdict(compare_stored_runs(runs)).tone == "open"


def test_given_guardrails_replace_those_of_the_plan(store: RunStore) -> None:
    compared(store, {"token_f1": RISEN, "mrr": HALF}, {"token_f1": RISEN, "mrr": HALF}, token_f1=0.02)
    records = [store.find("before"), store.find("after")]
    board = build_leaderboard(store, records, guardrails={"mrr": 0.5}, metrics=["token_f1"])
    assert [found.metric for found in board.guardrails] == ["mrr"]
    with pytest.raises(UnknownMetricError, match="mr@7"):
        build_leaderboard(store, records, guardrails={"mr@7": 0.5})


def test_several_runs_have_a_note_instead(store: RunStore) -> None:
    compared(store, {"mrr": HALF}, {"mrr": HALF}, mrr=0.02)
    third = scored(store, "third", samples(N), {"mrr": HALF})
    board = build_leaderboard(store, [store.find("before"), store.find("after"), third])
    assert board.guardrails == ()
    assert "guardrails (mrr) are checked between two runs only" in board.notes


@pytest.mark.parametrize("text", ["0.02", "recall@5=", "recall@5=x", "recall@5=0", "recall@5=-0.1", "=0.1", "a=nan"])
def test_options_that_are_no_guardrails(text: str) -> None:
    with pytest.raises(BadValueError, match="write METRIC=MARGIN"):
        parse_guardrails([text])


def test_option_with_an_equals_sign_in_the_name() -> None:
    assert parse_guardrails(["map[a=b]=0.5", "mrr=1"]) == {"map[a=b]": 0.5, "mrr": 1.0}


@pytest.mark.parametrize(
    ("losses", "margin", "status"), [(0, 0.05, "passed"), (40, 0.05, "failed"), (2, 0.02, "inconclusive")]
)
def test_gate(store: RunStore, losses: int, margin: float, status: str) -> None:
    board = compared(
        store, {"over_refusal_rate": ones(3)}, {"over_refusal_rate": ones(3 + losses)}, over_refusal_rate=margin
    )
    before, after = store.find("before"), store.find("after")
    report = check_run(store, after, store.results(after.run_id), [parse_gate("guardrails")], baseline=before)
    (found,) = report.outcomes
    assert (found.gate, found.status, found.reason) == ("guardrails", status, outcome(board).describe())
    assert report.exit_code == {"passed": 0, "failed": 1, "inconclusive": 3}[status]


def test_gate_without_guardrails_or_baseline(store: RunStore) -> None:
    compared(store, {"mrr": HALF}, {"mrr": HALF})
    before, after = store.find("before"), store.find("after")
    results = store.results(after.run_id)
    (none,) = check_run(store, after, results, [parse_gate("guardrails")], baseline=before).outcomes
    assert none.status == "inconclusive"
    assert none.reason.startswith("the plan has no guardrails")
    assert find_baseline(store, after) is None
    (alone,) = check_run(store, after, results, [parse_gate("guardrails")]).outcomes
    assert alone.reason.startswith("there is no earlier finished run")


def test_plan(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text('{"sample_id": "1", "query": "?", "relevant_docs": ["a"]}\n')
    base = "dataset: {jsonl: data.jsonl}\noutputs: {jsonl: data.jsonl}\nmetrics: [recall@5, mrr]\n"
    path = tmp_path / "plan.yaml"

    def plan(more: str) -> dict[str, float]:
        path.write_text(base + more)
        return dict(read_plan(path).guardrails)

    assert plan("") == {}
    assert "guardrails" not in read_plan(path).resolved
    assert plan("guardrails: {mrr: 0.02}\ngates: [guardrails]\n") == {"mrr": 0.02}
    assert read_plan(path).resolved["guardrails"] == {"mrr": 0.02}
    for more, problem in {
        "guardrails: {mrrr: 0.02}\n": "'mrrr' is not among the metrics",
        "guardrails: {mrr: 0}\n": "guardrails.mrr: must be a number > 0",
        "guardrails: [mrr]\n": "guardrails: must be a mapping",
        "gates: [guardrails]\n": "write 'guardrails: {METRIC: MARGIN}'",
    }.items():
        with pytest.raises(PlanError, match=problem):
            plan(more)


def test_outcome_without_bounds(store: RunStore) -> None:
    found = GuardrailOutcome("mrr", 0.02, "inconclusive", reason="nothing bounds the difference")
    assert replace(found, margin=0.1).describe() == "mrr is inconclusive (margin 0.1): nothing bounds the difference"
