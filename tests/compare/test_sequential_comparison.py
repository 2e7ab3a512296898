"""Comparisons with a run that was judged until a verdict, and with runs that are judged in part."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from auepora_eval.compare import compare_runs, render_report_md
from auepora_eval.compare.analysis import with_sequential
from auepora_eval.compare.rendering import comparison_csv, comparison_page
from auepora_eval.compare.runs import Leaderboard, build_leaderboard
from auepora_eval.compare.types import CompareReport, MetricComparison, SequentialComparison
from auepora_eval.core.results import sequential_note
from auepora_eval.errors import BadValueError
from auepora_eval.gates import check_gates
from auepora_eval.render.tables import results_table
from auepora_eval.render.terminal import report_text
from auepora_eval.report.explain import explain
from auepora_eval.report.pages import write_report
from auepora_eval.store.records import RunRecord
from auepora_eval.store.runs import RunStore, record_decision
from helpers.explanations import explanation_text
from helpers.stored_runs import judged_until, samples, scored, sequential_test

N, JUDGED = 80, 28
STOPPED = "sequential: stopped at look 7 of 20, 28 of 80 judged, 52 calls saved"


def two_runs(store: RunStore, **changes: object) -> tuple[RunRecord, RunRecord]:
    """A baseline that is judged on all samples, and a run that stopped at the seventh look."""
    data, rng = samples(N), np.random.default_rng(0)
    a = scored(store, "a", data, {"token_f1": rng.random(N) * 0.5, "exact_match": np.zeros(N)})
    b = judged_until(store, "b", data, "token_f1", rng.random(JUDGED) * 0.9, sequential_test(a.run_id, n=N, **changes))  # type: ignore[arg-type]
    return a, b


def compared(store: RunStore, a: RunRecord, b: RunRecord) -> tuple[CompareReport, MetricComparison]:
    report = compare_runs(a.run_id, b.run_id, store=store)
    return report, next(one for one in report.metrics if one.name == "token_f1")


def test_the_sequential_test_decides(store: RunStore) -> None:
    report, one = compared(store, *two_runs(store))
    assert (one.verdict, one.delta, one.interval) == ("better", 0.2, (0.05, 0.35))
    assert one.interval_adjusted == one.interval
    assert one.p_value == one.p_adjusted == 0.5 / 49, "the repeated p-value of the look that decided"
    assert (one.n, one.wins + one.losses + one.draws) == (JUDGED, JUDGED), "samples that are judged in both runs"
    assert (one.effect_size, one.mde, one.n_needed, one.doubt) == (None, None, None, None)
    assert one.note is not None
    assert STOPPED in one.note
    document = json.loads(report.to_json())["deltas"]["metrics"]["token_f1"]["sequential"]
    assert (document["run"], document["stopped_at"], len(document["path"])) == ("b", JUDGED, 7)
    text = report_text(comparison_page(Leaderboard.of_pair(report), report))
    for shown in (text, render_report_md(report)):
        assert STOPPED in shown
        assert "the p-value and the interval are the repeated ones" in shown
        assert "▲ better" in shown
    assert comparison_csv(Leaderboard.of_pair(report)).count("better") == 1


def test_the_order_of_the_runs_reverses_it(store: RunStore) -> None:
    a, b = two_runs(store)
    _, one = compared(store, b, a)
    assert (one.verdict, one.delta, one.interval) == ("worse", -0.2, (-0.35, -0.05))
    assert one.sequential is not None
    assert one.sequential["run"] == "a"


def test_several_primary_metrics_multiply_the_p_value(store: RunStore) -> None:
    a, b = two_runs(store)
    result = store.results(b.run_id)[0]
    result.details["sequential"]["design"]["tests"] = 3
    store.put_result(b.run_id, result)
    _, one = compared(store, a, b)
    assert (one.p_value, one.p_adjusted) == (0.5 / 49, 3 * 0.5 / 49)


def test_sequential_metric_does_not_share_the_error_rate_of_others(store: RunStore) -> None:
    data, rng = samples(N), np.random.default_rng(1)
    base, other = rng.random(N), rng.random(N)
    records: list[RunRecord] = []
    for name, sequential in (("a", False), ("b", True)):
        record = scored(store, name, data, {"exact_match": np.round(base if name == "a" else other)})
        test = sequential_test(records[0].run_id, n=N) if sequential else None
        values = rng.random(JUDGED if sequential else N)
        extra = judged_until(store, f"{name}-judged", data, "token_f1", values, test)
        store.put_result(record.run_id, store.results(extra.run_id)[0])
        records.append(store.get(record.run_id))
    alone = build_leaderboard(store, records, metrics=["exact_match"]).comparisons[0]
    both = {one.name: one for one in build_leaderboard(store, records).comparisons}
    assert both["exact_match"].p_adjusted == alone.p_adjusted
    assert both["token_f1"].verdict == "better"


def test_run_judged_in_part_has_no_verdict(store: RunStore) -> None:
    data = samples(N)
    a = scored(store, "a", data, {"token_f1": np.zeros(N)})
    b = judged_until(store, "b", data, "token_f1", np.ones(JUDGED), None)
    report, one = compared(store, a, b)
    assert (one.verdict, one.doubt, one.p_adjusted, one.sequential) == ("inconclusive", "partly_judged", None, None)
    assert "sequential" not in one.to_dict()
    text = report_text(comparison_page(Leaderboard.of_pair(report), report))
    assert "judged on 28 samples in B so far" in text
    assert "not sequentially valid" in text
    assert "token_f1 is judged in part (+1.0000 so far)." in text, "the summary has no p-value"
    assert "better" not in text.partition("Golden queries")[0].replace("is better", "")
    gate = check_gates(["better(token_f1)"], store.results(b.run_id), comparison={"token_f1": one})
    assert gate.status == "inconclusive"


def test_run_that_is_being_judged(store: RunStore) -> None:
    """Its results are not stored yet: neither the run nor the metric is compared, and the reason is given."""
    data = samples(N)
    a = scored(store, "a", data, {"token_f1": np.zeros(N), "exact_match": np.zeros(N)})
    b = store.create_run("b", data, dataset_name="made", plan={})
    body = {"run_id": b.run_id, "results": {}}
    record_decision(store, a.fingerprint, "sequential", [b.run_id, a.run_id], ["token_f1"], body)
    with pytest.raises(BadValueError, match=r"still running .* a p-value is not sequentially valid"):
        compare_runs(a.run_id, b.run_id, store=store)
    exact = scored(store, "x", data, {"exact_match": np.zeros(N)})
    store.put_result(b.run_id, store.results(exact.run_id)[0])
    store.finish(b.run_id)
    refused = compare_runs(a.run_id, b.run_id, store=store).refused
    assert "judging has not ended; before that its p-value is not sequentially valid" in refused["token_f1"]


def test_another_run_than_the_baseline_has_no_verdict(store: RunStore) -> None:
    _, b = two_runs(store)
    other = scored(store, "other", samples(N), {"token_f1": np.zeros(N)})
    _, one = compared(store, other, b)
    assert (one.verdict, one.doubt, one.sequential) == ("inconclusive", "partly_judged", None)
    board = build_leaderboard(store, [other, store.find("a"), b])
    notes = [pair.comparison.note or "" for pair in board.metrics[0].pairs]
    assert ["judged on 28 samples in C so far" in note for note in notes] == [False, True, False]


NOTES: list[tuple[dict[str, object], str, str]] = [
    ({}, STOPPED, "boundary"),
    (
        {"verdict": "inconclusive", "reason": "futility"},
        "sequential: stopped for futility at look 7 of 20, 28 of 80 judged, 52 calls saved",
        "futility",
    ),
    (
        {"verdict": "inconclusive", "reason": None},
        "sequential: no verdict yet, look 7 of 20, 28 of 80 judged, 52 calls saved",
        "going on",
    ),
    (
        {"verdict": "inconclusive", "reason": "end", "looks": 20},
        "sequential: ended at look 20 of 20, 80 of 80 judged",
        "all units",
    ),
    ({"continued": True}, f"{STOPPED}, continued after the stop, and the first verdict stands", "continued"),
    ({"known_before": 12}, f"{STOPPED}, 12 units known before the first look", "known before"),
    ({"failed": 3}, STOPPED + ", 3 judgements failed", "failed"),
]


@pytest.mark.parametrize(("changes", "want", "why"), NOTES, ids=[row[-1] for row in NOTES])
def test_note(changes: dict[str, object], want: str, why: str) -> None:
    assert sequential_note(sequential_test("run_1", n=N, **changes)) == want  # type: ignore[arg-type]


def test_before_the_first_look(store: RunStore) -> None:
    a, b = two_runs(store, path=[], verdict="inconclusive", reason=None)
    _, one = compared(store, a, b)
    assert (one.verdict, one.p_value, one.interval) == ("inconclusive", None, None)
    assert one.note is not None
    assert "no verdict yet, no look yet" in one.note
    assert f"token_f1 against {a.run_id}: not decided yet" in results_table(store.results(b.run_id))
    assert "lies too far" not in results_table(store.results(b.run_id))


def test_difference_over_answered_samples_is_kept_if_a_system_failed(store: RunStore) -> None:
    _, one = compared(store, *two_runs(store))
    assert one.delta_completed is None, "no system failed"
    test = SequentialComparison(sequential_test("a", n=N), is_reversed=False)
    assert with_sequential(replace(one, delta=-0.1, delta_completed=0.3), test).delta_completed == 0.3


def test_difference_of_a_continued_run_is_that_of_the_look(store: RunStore) -> None:
    _, one = compared(store, *two_runs(store, units=N, continued=True))
    assert "the difference, its interval and p are those of the look at 28 units" in (one.note or "")


MEDIA: dict[str, Callable[[RunStore, RunRecord, RunRecord, Path], str]] = {
    "show": lambda store, a, b, _: results_table(store.results(b.run_id)),
    "explain": lambda store, a, b, _: explanation_text(explain(store, b.run_id, "token_f1")),
    "report of two": lambda store, a, b, folder: write_report([a, b], folder / "r.md", store=store).read_text(),
    "page": lambda store, a, b, folder: write_report(b, folder / "r.html", store=store).read_text(),
}


@pytest.mark.parametrize("medium", MEDIA)
def test_path_is_shown(store: RunStore, tmp_path: Path, medium: str) -> None:
    a, b = two_runs(store)
    text = MEDIA[medium](store, a, b, tmp_path)
    assert STOPPED in text
    for part in ("repeated 95 % interval", "boundary", "seed 0, 80 units, 20 looks, delta 0.05"):
        assert part in text
    if medium == "page":
        assert "Looks of token_f1" in text
    if medium == "explain":
        assert explain(store, b.run_id, "token_f1").to_dict()["sequential"]["stopped_at"] == JUDGED
        assert "28 of 80 are in the value: 28 scored; 52 are not judged\n" in text
        assert "the judge was not asked about the sample" in text


def test_claim_and_register_are_shown(store: RunStore) -> None:
    a, b = two_runs(store, claim="all", register={"before": 2, "by_kind": {"gate": 2}, "recorded": True})
    _, one = compared(store, a, b)
    for text in (one.note or "", results_table(store.results(b.run_id))):
        assert "about all metrics of the sequential test together" in text
    assert "token_f1: this test set has decided 2 comparisons before" in results_table(store.results(b.run_id))


def test_gate_by_a_threshold(store: RunStore) -> None:
    data = samples(N)
    test = sequential_test(None, n=N, verdict="pass", threshold=0.8)
    run = judged_until(store, "gate", data, "exact_match", np.ones(JUDGED), test)
    text = results_table(store.results(run.run_id))
    assert "exact_match against the threshold 0.8: pass" in text
    assert "an exact binomial tail at each look" in text
    assert "lies too far from the threshold on average" in text
