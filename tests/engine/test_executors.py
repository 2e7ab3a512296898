"""Scoring in several processes: results equal to the serial executor, errors, and workers that die."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import resource_tracker, util
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import (
    EvaluationSample,
    Response,
    SampleMetric,
    Score,
    SystemOutputs,
    TargetCategory,
    evaluate,
    evaluate_stream,
)
from auepora_eval.engine.executors import ProcessExecutor, make_executor
from auepora_eval.errors import AueporaError, WorkerError
from helpers.metric_examples import SPECS, about, built, made_data, model_names
from helpers.tiny_models import made


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessExecutor]:
    with ProcessExecutor(2) as pool:
        yield pool


# Some nuggets and rubrics of the data are malformed.
@pytest.mark.filterwarnings(r"ignore:metric 'nugget_recall'. metadata\.nuggets:UserWarning")
@pytest.mark.filterwarnings(r"ignore:metric 'rubric_.*labels\.rubric:UserWarning")
@pytest.mark.parametrize("size", [3, pytest.param(1000, marks=pytest.mark.slow)])
def test_results_equal_those_of_the_serial_executor(pool: ProcessExecutor, size: int) -> None:
    rows, outs = made_data(n=24 if size == 3 else 60)
    metrics = [built(spec) for spec in SPECS if not model_names(spec)]
    chosen = list({one.name: one for one in metrics}.values())
    here = evaluate(rows, outs, chosen, batch_size=size)
    there = evaluate(rows, outs, chosen, batch_size=size, executor=pool)
    assert list(there) == list(here)
    streamed = evaluate_stream(zip(rows, outs, strict=True), chosen, batch_size=size, executor=pool)
    assert list(streamed) == list(here)


@pytest.mark.part("models")
def test_models_are_called_in_worker_processes(pool: ProcessExecutor) -> None:
    rows, outs = made_data(n=30)
    specs = [{"sbert_similarity": {"model": made("sbert")}}, {"nli_grounding": {"model": made("nli")}}]
    here = evaluate(rows, outs, specs)
    there = evaluate(rows, outs, specs, batch_size=5, executor=pool)
    for one, other in zip(here, there, strict=True):
        assert list(other.scores or ()) == about(one.scores)
        assert other.outcomes == one.outcomes


def test_by_name_and_with_progress() -> None:
    rows, outs = made_data(n=30)
    seen: list[int] = []
    there = evaluate(rows, outs, ["token_f1"], executor="processes", workers=2, batch_size=4, progress=seen.append)
    assert list(there) == list(evaluate(rows, outs, ["token_f1"]))
    assert sum(seen) == 30


def test_one_worker_is_this_process() -> None:
    rows, outs = made_data(n=10)
    with ProcessExecutor(1) as alone:
        assert list(evaluate(rows, outs, ["token_f1"], executor=alone)) == list(evaluate(rows, outs, ["token_f1"]))


def test_error_is_returned_from_a_worker(pool: ProcessExecutor) -> None:
    samples = [EvaluationSample(str(n), "", reference_answers=["x", None]) for n in range(8)]  # type: ignore[list-item]
    with pytest.raises(AueporaError, match="a reference answer is None, not a string"):
        evaluate(samples, [None] * 8, ["token_f1"], executor=pool, batch_size=1)
    rows, outs = made_data(n=10)
    assert evaluate(rows, outs, ["token_f1"], executor=pool, batch_size=1)  # the pool is still good


def broken(what: str) -> SystemOutputs:
    output = SystemOutputs([], Response("x"))
    if what == "retrieved":
        output.retrieved = None  # type: ignore[assignment]
    else:
        assert output.response is not None
        output.response.text = None  # type: ignore[assignment]
    return output


@pytest.mark.parametrize("what", ["retrieved", "text"])
def test_invalid_objects_are_preserved(pool: ProcessExecutor, what: str) -> None:
    samples = [EvaluationSample(str(n), "", reference_answer=Response("x")) for n in range(6)]
    messages = []
    for executor in ("serial", pool):
        with pytest.raises(AueporaError) as caught:
            evaluate(samples, [broken(what)] * 6, ["token_f1"], executor=executor, batch_size=6)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_unpicklable_batch_is_scored_in_this_process(pool: ProcessExecutor) -> None:
    samples = [EvaluationSample(str(n), "", reference_answer=Response("x")) for n in range(6)]
    outputs = [SystemOutputs([], Response("x"), extra={"call": lambda: None}) for _ in samples]
    (result,) = evaluate(samples, outputs, ["token_f1"], executor=pool, batch_size=2)
    assert result.value == 1.0


class ExitsItsProcess(SampleMetric):
    """Ends the process it is scored in, unless that is this one."""

    target = TargetCategory.LATENCY

    def __init__(self, home: int) -> None:
        self.home = home

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        if os.getpid() != self.home:
            os._exit(1)
        return Score(1.0)


def test_dead_worker_is_reported() -> None:
    rows = [EvaluationSample(str(n), "") for n in range(12)]
    outs = [SystemOutputs([]) for _ in rows]
    with ProcessExecutor(2) as pool, pytest.raises(WorkerError, match="a scoring process died"):
        evaluate(rows, outs, [ExitsItsProcess(os.getpid())], executor=pool, batch_size=1)


def test_interrupt_while_a_process_is_started_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    resource_tracker.ensure_running()
    start, started = util.spawnv_passfds, list[int]()

    def start_and_interrupt(*arguments: Any) -> int:
        started.append(start(*arguments))
        signal.raise_signal(signal.SIGINT)
        return started[0]

    monkeypatch.setattr(util, "spawnv_passfds", start_and_interrupt)
    rows, outs = made_data(n=30)
    with ProcessExecutor(2) as executor:
        with pytest.raises(KeyboardInterrupt):
            evaluate(rows, outs, ["token_f1"], executor=executor, batch_size=5)
        executor.close(at_once=True)
    with suppress(ChildProcessError):  # the pool has waited for it
        os.waitpid(started[0], 0)
    assert "Traceback" not in capfd.readouterr().err


def test_metric_that_cannot_be_pickled() -> None:
    class Local(SampleMetric):
        target = TargetCategory.LATENCY

        def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
            return Score(1.0)

    rows, outs = made_data(n=4)
    with pytest.raises(WorkerError, match="define it at the top of a module"):
        evaluate(rows, outs, [Local()], executor="processes", workers=2)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"executor": "threads"}, "executor must be 'serial', 'processes' or 'ray', not 'threads'"),
    ({"executor": "process"}, "did you mean 'processes'"),
    ({"executor": 3}, "an Executor, not 3"),
    ({"workers": 2}, "goes with executor='processes' or 'ray'"),
    ({"executor": "ray", "workers": 0}, "workers must be an integer >= 1"),
    ({"executor": "processes", "workers": 0}, "workers must be an integer >= 1"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_invalid_executors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate([], [], ["token_f1"], **options)


def test_address_needs_a_cluster_executor() -> None:
    with pytest.raises(ValueError, match="address='auto' goes with executor='ray'"):
        make_executor("processes", 2, "auto")


@pytest.mark.slow
def test_script_without_a_main_guard_is_reported(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from auepora_eval import EvaluationSample, Response, SystemOutputs, evaluate\n"
        "rows = [EvaluationSample(str(n), '', reference_answer=Response('x')) for n in range(3000)]\n"
        "evaluate(rows, [SystemOutputs([], Response('x'))] * 3000, ['token_f1'], executor='processes', workers=2)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert "__main__" in done.stderr
