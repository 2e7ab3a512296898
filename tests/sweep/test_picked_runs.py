"""What a run carries that was picked in a sweep: in comparisons, gates, lists and pages."""

import html
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from auepora_eval.compare.rendering import table_notes
from auepora_eval.compare.runs import Leaderboard, compare_metrics, compare_runs
from auepora_eval.compare.stores import read_register
from auepora_eval.compare.sweeps import sweep_text, with_picked_interval
from auepora_eval.gates import check_run
from auepora_eval.io.sample_sets import SampleSet
from auepora_eval.plan.gates import parse_gates
from auepora_eval.stats.intervals import Bools
from auepora_eval.store.records import RunRecord
from auepora_eval.store.runs import RunStore
from auepora_eval.store.sweeps import (
    SWEEP,
    SWEEP_TAG,
    SweepPlan,
    find_sweep,
    make_configurations,
    sweep_entry,
    sweep_of_run,
)
from auepora_eval.sweep.answer import answer_sweep
from auepora_eval.sweep.rendering import answer_notes
from helpers.stored_runs import samples, scored
from helpers.swept_project import SweepProject
from helpers.ui_server import ui_server

COUNT, N = 24, 100


def store_sweep(store: RunStore, answers: Bools, *, baseline: int | None = 0) -> list[RunRecord]:
    """The runs of a sweep over systems with these answers, a column each."""
    settings = [{"system.args.number": number} for number in range(answers.shape[1])]
    sweep = SweepPlan(tuple(make_configurations(settings)), "exact_match", baseline, name="luck")
    records = []
    for place, column in enumerate(answers.T.astype(np.float64)):
        plan = {SWEEP: sweep_entry(sweep, place), "primary": ["exact_match"]}
        record = scored(store, f"luck [{place}]", samples(len(column)), {"exact_match": column}, plan=plan)
        store.tag(record.run_id, SWEEP_TAG + sweep.name)
        records.append(store.get(record.run_id))
    return records


def test_the_winner_of_equal_systems_is_rarely_better(tmp_path: Path) -> None:
    plain = adjusted = 0
    for seed in range(6):
        answers = np.random.default_rng(seed).random((N, COUNT)) < 0.6
        with RunStore.open(tmp_path / f"{seed}.sqlite") as store:
            records = store_sweep(store, answers)
            winner = records[1 + int(answers[:, 1:].sum(axis=0).argmax())]
            found = compare_metrics(store, records[0], winner).by_name["exact_match"]
            adjusted += found.verdict == "better"
            assert found.p_value is not None
            assert found.p_adjusted is not None
            plain += found.p_value < 0.05
            assert found.p_adjusted > found.p_value
    assert plain >= 3  # without an adjustment the winner would be better in most sweeps
    assert adjusted <= 1


@pytest.fixture(scope="module")
def lucky(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunStore, list[RunRecord]]]:
    """A store with a sweep over five systems, of which the last is better."""
    answers = np.random.default_rng(1).random((N, 5)) < [0.5, 0.5, 0.5, 0.55, 0.85]
    with RunStore.open(tmp_path_factory.mktemp("luck") / "runs.sqlite") as store:
        yield store, store_sweep(store, answers)


def test_comparisons_name_picked_runs(lucky: tuple[RunStore, list[RunRecord]]) -> None:
    store, records = lucky
    report = compare_runs(records[0].run_id, records[4].run_id, store=store)
    note = "B: picked among 5 configurations on these questions (sweep luck); its verdicts are adjusted for all of them"
    assert any(one.startswith(note) for one in report.notes)
    assert [found.name for found in report.metrics] == ["exact_match"]
    assert report.metrics[0].verdict == "better"
    assert any("are adjusted for 4 comparisons" in note for note in table_notes(Leaderboard.of_pair(report)))
    both = compare_runs(records[3].run_id, records[4].run_id, store=store).notes
    assert [note[0] for note in both if "picked among" in note] == ["A", "B"]


def test_a_run_outside_of_the_sweep_is_compared_with_all(lucky: tuple[RunStore, list[RunRecord]]) -> None:
    store, records = lucky
    rivals = compare_metrics(store, records[0], records[4]).by_name["exact_match"]
    other = next(one for one in store.runs() if one.run_id == records[1].run_id)
    alone = sweep_of_run(other)
    assert alone is not None
    assert sweep_text(records[0]) == "the baseline of 5 configurations (sweep luck)"
    assert sweep_text(records[4]) == "picked among 5 configurations on these questions (sweep luck)"
    assert rivals.interval_adjusted is not None
    assert rivals.interval is not None
    assert rivals.interval_adjusted[0] < rivals.interval[0]


def test_a_rival_that_cannot_be_compared_is_named(tmp_path: Path) -> None:
    answers = np.random.default_rng(1).random((N, 5)) < [0.5, 0.5, 0.5, 0.55, 0.85]
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        records = store_sweep(store, answers)
        whole = compare_runs(records[0].run_id, records[4].run_id, store=store)
        plan = records[2].plan
        store.delete(records[2].run_id)
        other = scored(store, "luck [2]", samples(N), {"token_f1": np.zeros(N)}, plan=plan)
        store.tag(other.run_id, f"{SWEEP_TAG}luck")
        fewer = compare_runs(records[0].run_id, records[4].run_id, store=store)
        assert fewer.rivals == whole.rivals - 1
        (note,) = [note for note in fewer.notes if "not adjusted for 1 of the sweep (luck [2])" in note]
        assert f"{other.run_id} does not have it" in note
        answer = answer_sweep(store, find_sweep(store, "luck"))
        assert [result.label for result in answer.results if result.status == "not compared"] == ["2"]
        assert any(note.startswith("not compared: 2: ") and "does not have it" in note for note in answer_notes(answer))


def test_a_gate_uses_the_interval_of_the_best(lucky: tuple[RunStore, list[RunRecord]]) -> None:
    store, records = lucky
    results = store.results(records[4].run_id)
    plain = results.by_name["exact_match"].interval
    picked = with_picked_interval(store, records[4], results).by_name["exact_match"].interval
    assert plain is not None
    assert picked is not None
    assert picked[0] < plain[0]
    assert picked[1] == pytest.approx(plain[1])
    threshold = (picked[0] + plain[0]) / 2
    gates = parse_gates([f"low(exact_match) >= {threshold}", "exact_match >= 0.6"])
    low, point, *_ = check_run(store, records[4], results, gates).outcomes
    assert low.status == "failed"
    assert low.reason.endswith("picked among 5 configurations on these questions (sweep luck)")
    assert point.status == "passed"
    assert "picked" not in point.reason
    assert with_picked_interval(store, records[0], results) is results


@pytest.mark.parametrize("part", [None, 40], ids=["all samples", "a set of samples"])
def test_gates_on_differences_use_the_constant_of_the_sweep(
    lucky: tuple[RunStore, list[RunRecord]], part: int | None
) -> None:
    """The interval is the adjusted one of the comparison, also where another metric has a gate on its verdict."""
    store, records = lucky
    results = store.results(records[4].run_id)
    chosen = None if part is None else SampleSet("part", tuple(sample.sample_id for sample in samples(part)))
    found = compare_metrics(store, records[0], records[4], samples=chosen).by_name["exact_match"]
    assert found.interval is not None
    assert found.interval_adjusted is not None
    low, plain = found.interval_adjusted[0], found.interval[0]
    assert low < plain
    between = (low + plain) / 2
    texts = [f"low(delta(exact_match)) > {between}", f"better(exact_match, by={between})", "better(exact_match)"]
    texts.append(f"point(delta(exact_match)) > {between}")
    report = check_run(store, records[4], results, parse_gates(texts), baseline=records[0], samples=chosen)
    lower, margin, verdict, point, *_ = report.outcomes
    assert [lower.status, margin.status, verdict.status, point.status] == ["failed", "inconclusive", "passed", "passed"]
    assert lower.value == pytest.approx(low)
    picked = "picked among 5 configurations on these questions (sweep luck)"
    assert [picked in one.reason for one in (lower, margin, verdict, point)] == [True, True, False, False]


def test_gates_on_differences_to_a_run_of_no_sweep_stay(lucky: tuple[RunStore, list[RunRecord]]) -> None:
    """The baseline that was named before the sweep was not picked."""
    store, records = lucky
    before = scored(store, "before", samples(N), {"exact_match": np.arange(N) % 2})
    found = compare_metrics(store, before, records[0]).by_name["exact_match"]
    gates = parse_gates(["low(delta(exact_match)) > -1"])
    lower, *_ = check_run(store, records[0], store.results(records[0].run_id), gates, baseline=before).outcomes
    assert found.sure_interval is not None
    assert lower.value == found.sure_interval[0]
    assert "picked" not in lower.reason


def test_the_page_of_a_sweep(project: Callable[..., SweepProject]) -> None:
    mine = project(40)
    grid = {"system.args.right": [0.2, 0.8], "system.args.model": ["small", "large"]}
    mine.run(mine.source({"grid": grid, "delta": 0.1}), name="<b>it</b>")
    with RunStore.open("runs.sqlite") as store, ui_server(store) as server:
        page = server.get("/sweep?name=%3Cb%3Eit%3C%2Fb%3E")
        assert page.status == 200
        assert "Ship (0.8, small): the cheapest of 4 configurations" in page.text
        assert "<b>it</b>" not in page.text
        assert page.text.count("<svg") >= 1
        assert server.get("/sweep?name=nothing").status == 404
        assert server.get("/sweep").status == 400
        assert not read_register(store, [store.runs()[0].fingerprint], []).before  # a page records nothing


def test_a_sweep_is_a_folded_group_of_runs(project: Callable[..., SweepProject]) -> None:
    mine = project(20)
    grid = {"system.args.right": [0.2, 0.8], "system.args.model": ["small", "large"]}
    mine.run(mine.source({"grid": grid}), name="<b>it</b>")
    with RunStore.open("runs.sqlite") as store, ui_server(store) as server:
        scored(store, "alone", samples(20), {"exact_match": np.ones(20)})
        folded = server.get("/runs").text
        assert "&lt;b&gt;it&lt;/b&gt;</bdi></a>" in folded
        assert folded.count(' aria-expanded="false"') == 1
        assert re.search(r"Sweep of 4 runs · best exact_match 0\.\d+<", folded)
        assert folded.count('name="run"') == 1  # that of no sweep
        link = re.search(r'class="fold"[^>]* href="([^"]+)"', folded)
        assert link is not None
        opened = server.get(html.unescape(link[1])).text
        assert opened.count('name="run"') == 5
        assert opened.count(' aria-expanded="true"') == 1
        assert opened.index("it&lt;/b&gt; [0.2, small]") > opened.index("it&lt;/b&gt; [0.8, large]")  # newest first
        again = re.search(r'class="fold"[^>]* href="([^"]+)"', opened)
        assert again is not None
        assert html.unescape(again[1]) == "/runs"
        assert server.get("/runs?q=large").text.count('name="run"') == 2  # what is searched for is not hidden
        assert server.get("/runs?where=tag%3Dbaseline").text.count("Sweep of") == 0
