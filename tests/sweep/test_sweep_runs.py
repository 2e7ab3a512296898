"""Sweeps: what is checked before anything is spent, the runs, resuming, budgets, setups, elimination, the answer."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from auepora_eval.compare.pairing import MetricMeta
from auepora_eval.compare.sweeps import ScoreTable
from auepora_eval.core.reduce import Mean
from auepora_eval.core.scores import Scores, Status
from auepora_eval.errors import AueporaError, BadValueError, PlanError, UnknownRunError
from auepora_eval.plan.prepare import read_plan
from auepora_eval.stats.selection import ConfigurationScores
from auepora_eval.store.records import RunStatus
from auepora_eval.store.runs import RunStore
from auepora_eval.store.sweeps import find_sweep
from auepora_eval.sweep.rendering import answer_document, answer_notes, conclusion
from auepora_eval.sweep.run import prepare_sweep
from helpers.swept_project import SweepProject

MakeProject = Callable[..., SweepProject]
RIGHT, MODEL, TOP_K = "system.args.right", "system.args.model", "run.top_k"

# --- errors before anything is spent ---------------------------------------------------------------------------------

GRID = {RIGHT: [0.2, 0.8], MODEL: ["small", "large"]}
METRICS = [["exact_match"], [{"exact_match": {"ignore_case": False}}]]
WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "needs exactly one of grid and list"),
    ({"grid": GRID, "list": [GRID]}, "needs exactly one of grid and list"),
    ({"grid": {RIGHT: 0.5}}, "must be a list of values to combine"),
    ({"grid": {RIGHT: []}}, "must be a list of values to combine"),
    ({"grid": {RIGHT: [0.5]}}, "there are 1 configurations to choose from"),
    ({"grid": {RIGHT: [0.5, 0.5]}}, "there are 2 configurations '0.5'"),
    ({"grid": {TOP_K: list(range(1, 300))}}, "there are 299 configurations"),
    ({"grid": {"metrics": [["exact_match"], ["exact_match", "bleu"]]}, "decide": "bleu"}, "does not compute 'bleu'"),
    ({"grid": {"dataset.jsonl": ["a", "b"]}}, "cannot be swept: the questions are the same for all configurations"),
    ({"grid": {"primary": [["bleu"], ["exact_match"]]}}, "cannot be swept: what decides is the same"),
    ({"grid": {"store": ["a.sqlite", "b.sqlite"]}}, "cannot be swept: it is about all configurations together"),
    ({"grid": {"sytem.args.right": [1, 2]}}, "unknown key; did you mean 'system'"),
    ({"grid": {"metrics": METRICS}}, "'exact_match' is not the same metric in"),
    ({"grid": {"run.topk": [1, 2]}}, "unknown key; did you mean 'top_k'"),
    ({"grid": GRID, "exclude": [{"rigth": 0.2}]}, "is no key of the sweep; did you mean 'right'"),
    ({"grid": GRID, "exclude": [{"right": 0.3}]}, "no configuration has these values"),
    ({"grid": GRID, "exclude": [{"right": 0.2}, {"model": "large"}]}, "there are 1 configurations"),
    ({"grid": GRID, "baseline": {"right": 0.2}}, "2 configurations have these values"),
    ({"grid": GRID, "decide": "exact_mtach"}, "is not among the metrics; did you mean 'exact_match'"),
    ({"grid": GRID, "decide": "bleu"}, "'bleu' is no mean of scores of single questions"),
    ({"grid": GRID, "decide": "total_cost"}, "neither a higher nor a lower 'total_cost' is better"),
    ({"grid": GRID, "delta": 0}, "must be a number > 0"),
    ({"grid": GRID, "setup": "build {rigth}"}, "cannot be filled: 'rigth'; the names are right, model"),
    ({"grid": GRID, "budget": {"calls": 100}}, "100 calls are too few: 4 configurations take 160"),
    ({"grid": GRID, "budget": {"cost": 1}}, "needs prices of models"),
    ({"grid": GRID, "budgets": {}}, "unknown key; did you mean 'budget'"),
    ({"grid": {"system.args.nothing": [1, 2]}}, "takes no argument 'nothing'"),
    ({"grid": GRID, "setup": "false"}, "sweep.setup: failed: exit code 1"),
    ({"grid": GRID, "setup": "no-such-program"}, "sweep.setup: failed: FileNotFoundError"),
    ({"grid": GRID, "setup": "swept_rag:nothing"}, "sweep.setup: failed: "),
]


@pytest.mark.parametrize(("sweep", "problem"), WRONG, ids=[problem for _, problem in WRONG])
def test_errors_before_anything_is_spent(project: MakeProject, sweep: dict[str, Any], problem: str) -> None:
    mine = project()
    metrics = ["exact_match", "bleu", "total_cost"]
    with pytest.raises(PlanError) as caught:
        mine.run(mine.source(sweep, metrics=metrics, run={}))
    assert problem in str(caught.value)
    assert "plan.yaml" in str(caught.value)
    assert not mine.calls()


def test_a_plan_without_a_sweep(project: MakeProject) -> None:
    mine = project()
    with pytest.raises(PlanError, match="sweep: is missing; write sweep:"):
        prepare_sweep(mine.source(None))


def test_judging_that_stops_early_cannot_decide(project: MakeProject) -> None:
    mine = project()
    source = mine.source({"grid": GRID}, judge={"stop": {"against": "main", "metric": "exact_match"}})
    with pytest.raises(AueporaError, match="stops early"):
        prepare_sweep(source)


def test_a_sweep_does_not_change_an_ordinary_run(project: MakeProject) -> None:
    mine = project()
    with_sweep, without = read_plan(mine.source({"grid": GRID})), read_plan(mine.source(None))
    assert with_sweep.resolved == without.resolved
    assert with_sweep.sweep is not None
    assert len(with_sweep.sweep.configurations) == 4


# --- the runs and the answer -----------------------------------------------------------------------------------------


def test_the_answer_of_a_sweep(project: MakeProject) -> None:
    mine = project(60)
    sweep = {"grid": {RIGHT: [0.25, 0.75], MODEL: ["small", "large"]}, "baseline": {"right": 0.25, "model": "large"}}
    assert not mine.run(mine.source(sweep | {"delta": 0.05}), parallel=2)
    answer = mine.answer()
    assert answer.is_complete
    assert [result.label for result in answer.results] == ["0.75, large", "0.75, small", "0.25, large", "0.25, small"]
    assert [result.is_kept for result in answer.results] == [True, True, False, False]
    assert [result.verdict for result in answer.results] == ["better", "better", "", "inconclusive"]
    assert [result.amounts.cost for result in answer.results] == pytest.approx([11e-4, 11e-5, 11e-4, 11e-5])
    assert [result.is_efficient for result in answer.results][1] or answer.results[1].amounts.latency
    assert [result.label for result in answer.cheapest(answer.not_worse)] == ["0.75, small"]
    best = answer.results[0].mean
    assert answer.interval is not None
    assert best is not None
    assert answer.interval[0] < best < answer.interval[1]
    first, *_ = conclusion(answer)
    assert first.startswith("Ship (0.75, small): the cheapest of 4 configurations that is not worse than the best by")
    assert {name for name, _ in answer.effects} == {"right", "model"}
    assert answer.effects["right", "0.75"].low > 0
    json.dumps(answer_document(answer), allow_nan=False)
    with RunStore.open("runs.sqlite") as store:
        records = store.runs(tag="sweep:choice")
        assert len(records) == 4
        assert {record.config[MODEL] for record in records} == {"small", "large"}
        assert all(record.status is RunStatus.FINISHED for record in records)


def test_identical_outputs_and_other_prices(project: MakeProject) -> None:
    mine = project(30)
    models = [f"m{n}" for n in range(12)]
    prices = {model: {"prompt": 1.0 + n} for n, model in enumerate(models)}
    run = {"concurrency": 4, "prices": prices}
    mine.run(mine.source({"grid": {MODEL: models[::-1]}, "delta": 0.1}, run=run))
    answer = mine.answer()
    assert len(answer.kept) == len(answer.leaders) == 12
    first, second, *_ = conclusion(answer)
    assert first.startswith("Ship m0: the cheapest of 12 configurations")
    assert second.startswith(
        "12 of 12 cannot be distinguished from the best on exact_match; 12 of them have the same mean"
    )
    mine.run(mine.source({"grid": {MODEL: models}, "delta": 0.1}, run=run), name="reordered")
    assert conclusion(mine.answer("reordered")) == [first, second, *conclusion(answer)[2:]]


def test_a_failing_configuration_counts_as_worst(project: MakeProject) -> None:
    mine = project(30)
    # The first ten calls fail in the same way, so that its run stops.
    sweep = {"list": [{RIGHT: 0.6}, {RIGHT: 0.6, "system.args.crash": 1.0}, {RIGHT: 0.4}]}
    assert not mine.run(mine.source(sweep))
    answer = mine.answer()
    failed = answer.results[-1]
    assert (failed.status, failed.mean, failed.failed, failed.is_kept) == ("failed", 0.0, 30, False)
    assert failed.label == "0.6, 1.0"
    assert answer.is_complete
    assert answer.results[0].label == "0.6, -"


CANNOT_START: list[tuple[dict[str, Any], str]] = [
    ({"grid": {MODEL: ["small", "missing", "large"]}}, "there is no such model"),
    ({"list": [{RIGHT: 0.5}, {"system.python": "no_such_module:Rag"}, {RIGHT: 0.4}]}, "no_such_module"),
    ({"grid": {RIGHT: [0.59, 0.5, 0.6]}, "setup": "python check.py {right}"}, "exit code 3"),
]


@pytest.mark.parametrize(("sweep", "reason"), CANNOT_START, ids=[reason for _, reason in CANNOT_START])
@pytest.mark.parametrize("eliminate", [False, True])
def test_what_cannot_start_counts_as_worst(
    project: MakeProject, sweep: dict[str, Any], reason: str, eliminate: bool
) -> None:
    mine = project(40)
    (mine.folder / "check.py").write_text("import sys; sys.exit(3 if sys.argv[1] == '0.5' else 0)\n")
    source = mine.source(sweep)
    assert not mine.run(source, eliminate=eliminate)
    assert len(mine.calls()) == 80  # the others are asked all questions
    answer = mine.answer()
    assert answer.is_complete
    failed = answer.results[-1]
    assert (failed.place, failed.status, failed.mean, failed.failed) == (1, "failed", 0.0, 40)
    assert failed.record is not None
    assert reason in (failed.record.message or "")
    assert not failed.is_kept
    assert any(note.startswith("failed: ") and failed.label in note and reason in note for note in answer_notes(answer))
    before = answer_document(answer)["configurations"]
    assert not mine.run(source, eliminate=eliminate, resume=True)
    assert not mine.run(source, eliminate=eliminate, resume=True, retry_failed=True)
    assert len(mine.calls()) == 80
    assert answer_document(mine.answer())["configurations"] == before


def test_a_failed_setup_is_repeated_on_request(project: MakeProject) -> None:
    mine = project(10)
    (mine.folder / "build.py").write_text("import sys, pathlib; sys.exit(not pathlib.Path(sys.argv[1]).exists())\n")
    (mine.folder / "0.4").write_text("an index")
    source = mine.source({"grid": {RIGHT: [0.4, 0.6]}, "setup": "python build.py {right}"})
    assert not mine.run(source)
    assert mine.answer().results[-1].status == "failed"
    (mine.folder / "0.6").write_text("an index")
    assert not mine.run(source, resume=True, retry_failed=True)
    assert [result.status for result in mine.answer().results] == ["finished", "finished"]


def test_a_finished_run_survives_a_retry_that_cannot_start(project: MakeProject) -> None:
    mine = project(20)
    (mine.folder / "build.py").write_text("import sys, pathlib; sys.exit(pathlib.Path('gone').exists())\n")
    source = mine.source({"grid": {"system.args.crash": [0.2, 0.0]}, "setup": "python build.py {crash}"})
    assert not mine.run(source)
    before = answer_document(mine.answer())["configurations"]
    assert before[0]["failed"] + before[1]["failed"] > 0
    (mine.folder / "gone").touch()
    assert not mine.run(source, resume=True, retry_failed=True)
    assert answer_document(mine.answer())["configurations"] == before


def test_a_crash_never_gains() -> None:
    definition = MetricMeta(Mean(), (0.0, 1.0), binary=False)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n, count = 60, 5
        means = rng.uniform(0.4, 0.7, count)
        raw = np.clip(rng.normal(means, 0.25, (n, count)) + rng.normal(0, 0.15, (n, 1)), 0, 1)
        columns = [Scores.of(raw[:, place]) for place in range(count)]
        place = seed % count
        worst = np.zeros(n, dtype=np.bool_)
        worst[np.argsort(raw[:, place], kind="stable")[: n // 5]] = True
        crashed = [*columns]
        crashed[place] = columns[place].replaced(worst, Status.SYSTEM_FAILED, "system_failed", 0.0)
        tables = [ScoreTable.of(each, definition, n) for each in (columns, crashed)]
        before, after = (ConfigurationScores(each.values, failed=each.failed, draws=200) for each in tables)
        assert after.means[place] <= before.means[place]
        assert (after.means > after.means[place]).sum() >= (before.means > before.means[place]).sum()
        assert after.not_distinguishable()[place] <= before.not_distinguishable()[place], seed
        assert after.behind_best()[place].most >= before.behind_best()[place].most - 0.01


def test_measurement_failures_and_skips_are_left_out_of_all() -> None:
    definition = MetricMeta(Mean(), (0.0, 1.0))
    nowhere, second = np.zeros(4, dtype=np.bool_), np.array([False, True, False, False])
    columns = [Scores.of(np.ones(4), skip={"does_not_apply": second}), Scores.of(np.zeros(4), fail={"judge": nowhere})]
    table = ScoreTable.of([*columns, None], definition, 4)
    assert (table.rows.tolist(), table.left_out) == ([0, 2, 3], 1)
    assert table.values[:, 2].tolist() == [0.0] * 3
    assert table.failed[:, 2].all()


def test_the_setup_runs_once_for_equal_commands(project: MakeProject) -> None:
    mine = project(10)
    (mine.folder / "build.py").write_text("import sys; open('built.log', 'a').write(' '.join(sys.argv[1:]) + '\\n')\n")
    sweep = {"grid": GRID, "setup": "python build.py {right}"}
    mine.run(mine.source(sweep))
    assert (mine.folder / "built.log").read_text().split() == ["0.2", "0.8"]
    assert all((result.amounts.setup_s or 0) > 0 for result in mine.answer().results)
    mine.run(mine.source({"grid": GRID, "setup": "swept_rag:prepare"}), name="hooked")
    assert len((mine.folder / "setup.log").read_text().splitlines()) == 4


BUDGETS: list[tuple[dict[str, Any], str]] = [
    ({"tokens": 5000}, "the budget of 5000 tokens does not suffice for the next configuration: 4400 are used"),
    ({"cost": 0.0256}, "the budget of 0.0256 cost does not suffice for the next configuration: 0.0242 are used"),
]


@pytest.mark.parametrize(("budget", "reason"), BUDGETS, ids=[next(iter(budget)) for budget, _ in BUDGETS])
def test_a_budget_is_checked_before_each_configuration(
    project: MakeProject, budget: dict[str, Any], reason: str
) -> None:
    mine = project(20)
    (mine.folder / "build.py").write_text("open('built.log', 'a').write('built ')\n")
    sweep = {"grid": GRID, "setup": "python build.py {right}"}
    source = mine.source({**sweep, "budget": budget})
    stopped = mine.run(source)
    assert stopped.startswith(reason)
    assert "by what was used so far it needs about" in stopped
    assert len(mine.calls()) == 40  # two configurations; the third would have taken too much
    answer = mine.answer()
    assert not answer.is_complete
    assert conclusion(answer)[0].startswith("Not complete: ")
    assert not any(result.verdict or result.is_kept for result in answer.results)
    assert mine.run(source, resume=True).startswith(reason)  # nothing more is spent, not even a setup
    assert len(mine.calls()) == 40
    assert (mine.folder / "built.log").read_text() == "built built "
    assert not mine.run(mine.source(sweep), resume=True)
    assert len(mine.calls()) == 80
    assert mine.answer().is_complete
    assert not mine.run(source, resume=True)  # all is done, so the budget does not matter


def test_a_budget_that_is_just_enough(project: MakeProject) -> None:
    mine = project(20)
    assert not mine.run(mine.source({"grid": GRID, "budget": {"tokens": 20 * 110 * 4, "calls": 80}}), parallel=2)
    assert mine.answer().is_complete


def test_time_is_a_budget(project: MakeProject) -> None:
    mine = project(20)
    grid = {RIGHT: [0.2, 0.4, 0.6, 0.8], "system.args.seconds": [0.1]}
    stopped = mine.run(mine.source({"grid": grid, "budget": {"seconds": 1.6}}, run={"concurrency": 2, "retries": 0}))
    assert stopped.startswith("the budget of 1.6 seconds ")
    assert 0 < len(mine.calls()) < 80
    assert not mine.run(mine.source({"grid": grid}, run={"concurrency": 2, "retries": 0}), resume=True)


def test_a_budget_spent_by_one_configuration_stops_it(project: MakeProject) -> None:
    mine = project(20)
    assert mine.run(mine.source({"grid": GRID, "budget": {"tokens": 1100}})) == "the budget of 1100 tokens is spent"
    assert len(mine.calls()) < 20


def test_elimination_needs_the_calls_of_one_configuration(project: MakeProject) -> None:
    mine = project(20)
    source = mine.source({"grid": GRID, "budget": {"calls": 19}})
    with pytest.raises(PlanError, match="19 calls are too few: one configuration alone takes 20"):
        mine.run(source, eliminate=True)
    assert not mine.calls()


# --- configurations that cannot be compared --------------------------------------------------------------------------

CHUNKS = """
from auepora_eval import Document, Response, RetrievedDocument, SystemOutputs

class Rag:
    def __init__(self, chunk, first=0):
        self.chunk, self.first = chunk, first

    def run(self, sample, *, top_k=5):
        texts = [f"text of document {n} " * self.chunk for n in (1, 2)]
        found = [RetrievedDocument(Document(f"d{n}", text), 1 / n, n) for n, text in enumerate(texts, 1)]
        return SystemOutputs(found[self.first :], Response("yes"))
"""


def test_other_chunks_are_named_and_not_compared(project: MakeProject) -> None:
    mine = project(30)
    (mine.folder / "chunked.py").write_text(CHUNKS)
    rows = [{"sample_id": f"q{n}", "query": f"is it {n}?", "relevant_docs": ["d1"]} for n in range(30)]
    (mine.folder / "data.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    chunk, first = "system.args.chunk", "system.args.first"
    sweep = {"list": [{chunk: 9}, {chunk: 3}, {chunk: 3, first: 1}], "baseline": {"chunk": 3, "first": 1}}
    keys = {"metrics": ["recall@5"], "primary": ["recall@5"], "gold": {"match": "id"}}
    assert not mine.run(mine.source(sweep, system={"python": "chunked:Rag"}, **keys))
    answer = mine.answer()
    assert answer.is_complete
    assert [(result.label, result.status) for result in answer.results] == [
        ("3, -", "finished"),
        ("3, 1", "finished"),
        ("9, -", "not compared"),
    ]
    assert [result.mean for result in answer.results] == [1.0, 0.0, None]
    assert [result.verdict for result in answer.results] == ["better", "", ""]
    assert not answer.results[-1].is_kept
    (note,) = [note for note in answer_notes(answer) if note.startswith("not compared: (9, -): ")]
    assert "chunk" in note
    json.dumps(answer_document(answer), allow_nan=False)


# --- what can be swept -----------------------------------------------------------------------------------------------

SWEPT: list[dict[str, Any]] = [
    {"judge.concurrency": [1, 2]},
    {"scoring.batch_size": [10, 20]},
    {"conventions.empty_gold": ["zero", "skip"]},
    {"resources.unused.python": ["swept_rag:Rag", "swept_rag:unit"]},
    {"run.timeout": [10, 20]},
    {"metrics": [["exact_match", "token_f1"], ["exact_match", {"token_f1": {"ignore_case": False}}]]},
]


@pytest.mark.filterwarnings("ignore:no metric refers to unused")
@pytest.mark.parametrize("grid", SWEPT, ids=[next(iter(grid)) for grid in SWEPT])
def test_any_other_key_is_swept(project: MakeProject, grid: dict[str, Any]) -> None:
    mine = project(10)
    assert not mine.run(mine.source({"grid": grid}))
    answer = mine.answer()
    assert answer.is_complete
    assert [result.status for result in answer.results] == ["finished", "finished"]
    assert len(answer.kept) == 2


def test_a_name_is_used_once(project: MakeProject) -> None:
    mine = project(10)
    with pytest.raises(UnknownRunError, match="no sweep 'choice' to resume"):
        mine.run(mine.source({"grid": GRID}), resume=True)
    mine.run(mine.source({"grid": GRID}))
    with pytest.raises(BadValueError, match="resume it with --resume"):
        mine.run(mine.source({"grid": GRID}))
    with pytest.raises(BadValueError, match=r"changed since it was started: .*sweep"):
        mine.run(mine.source({"grid": {RIGHT: [0.1, 0.9]}}), resume=True)
    with pytest.raises(BadValueError, match=r"changed since it was started: run\.top_k"):
        mine.run(mine.source({"grid": GRID}, run={"top_k": 3}), resume=True)
    with RunStore.open("runs.sqlite") as store, pytest.raises(UnknownRunError, match="did you mean 'choice'"):
        find_sweep(store, "choises")


def test_elimination(project: MakeProject) -> None:
    mine = project(200)
    grid = {RIGHT: [0.1, 0.2, 0.3, 0.85, 0.9]}
    mine.run(mine.source({"grid": grid, "baseline": {"right": 0.1}}), eliminate=True)
    answer = mine.answer()
    assert answer.is_complete
    assert len(mine.calls()) < 0.8 * 5 * 200
    statuses = {result.label: result.status for result in answer.results}
    assert statuses["0.9"] == statuses["0.1"] == "finished"  # the baseline is asked to the end
    assert statuses["0.2"].startswith("eliminated after ")
    assert [result.label for result in answer.kept] == [r.label for r in answer.results if r.label in ("0.85", "0.9")]
    assert {result.label: result.verdict for result in answer.results}["0.9"] == "better"
    with RunStore.open("runs.sqlite") as store:
        record = next(run for run in store.runs() if run.status is RunStatus.ELIMINATED)
        assert record.status_text == statuses[str(record.config[RIGHT])]
        assert not store.results(record.run_id)
    before = len(mine.calls())
    first = answer_document(answer)
    mine.run(mine.source({"grid": grid, "baseline": {"right": 0.1}}), eliminate=True, resume=True)
    assert len(mine.calls()) == before
    assert answer_document(mine.answer())["configurations"] == first["configurations"]


def test_a_check_calls_nothing(project: MakeProject) -> None:
    mine = project(20)
    prepared = prepare_sweep(mine.source({"grid": GRID, "budget": {"calls": 200}}))
    assert (len(prepared.plans), len(prepared.samples), prepared.calls) == (4, 20, 80)
    assert not mine.calls()


def test_guardrails_rule_a_configuration_out(project: MakeProject) -> None:
    mine = project(80)
    sweep = {"grid": {RIGHT: [0.3, 0.8]}, "baseline": {"right": 0.8}, "delta": 0.9, "decide": "token_f1"}
    mine.run(mine.source(sweep, guardrails={"exact_match": 0.02}))
    answer = mine.answer()
    outcomes = {result.label: result.is_guarded for result in answer.results}
    assert outcomes == {"0.8": True, "0.3": False}
    assert [result.label for result in answer.cheapest(answer.not_worse)] == ["0.8"]
