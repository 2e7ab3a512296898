"""Scoring on a real cluster of two workers: the same to the last bit, whatever dies on the way."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import EvaluationSample, Response, SystemOutputs, evaluate, evaluate_stream
from auepora_eval.core.metrics_base import with_name
from auepora_eval.core.registry import Spec
from auepora_eval.engine.evaluate import evaluate_sources
from auepora_eval.errors import AueporaError, AueporaWarning, BadValueError, DataFileError, WorkerError
from auepora_eval.scale.inputs import IdHashes, InputFile, RecordRange, hash_ids, make_id_hashes
from auepora_eval.scale.ray_executor import RayExecutor, cancel_tasks
from auepora_eval.scale.sharded import make_mapper
from helpers.metric_examples import SPECS, built, made_data, model_names
from helpers.ray_cases import (
    Broken,
    Counted,
    Fated,
    KillsReader,
    SlowMetric,
    counted_up,
    kill_slow_worker,
    killed,
    rows,
    sources,
    times,
)

METRICS: list[Spec] = [
    "recall@2",
    "ndcg@3",
    "token_f1",
    "bleu",
    "rejection_f1",
    {"noise_robustness": {"base": "token_f1"}},
    "response_diversity",
]


@pytest.fixture(scope="module")
def ray(ray_cluster: None) -> Iterator[RayExecutor]:
    with RayExecutor("local", workers=2) as executor:
        yield executor


@pytest.fixture(scope="module")
def one_retry(ray_cluster: None) -> Iterator[RayExecutor]:
    """Fewer workers die, and starting one takes a second."""
    with RayExecutor("local", workers=2, retries=1) as executor:
        yield executor


# Some nuggets and rubrics of the data are malformed.
@pytest.mark.filterwarnings(r"ignore:metric 'rubric_.*labels\.rubric:UserWarning")
@pytest.mark.filterwarnings(r"ignore:metric 'nugget_recall.*metadata\.nuggets:UserWarning")
@pytest.mark.parametrize("size", [7, 1000])
def test_every_metric_is_the_same_to_the_last_bit(ray: RayExecutor, size: int) -> None:
    samples, outputs = made_data(n=60)
    metrics = [built(spec) for spec in SPECS if not model_names(spec)]
    chosen = [with_name(one, f"{one.name} {number}") for number, one in enumerate(metrics)]
    assert len(chosen) > 90
    here = evaluate(samples, outputs, chosen, slices="labels.label")
    there = evaluate(samples, outputs, chosen, slices="labels.label", batch_size=size, executor=ray)
    assert list(there) == list(here)
    assert [one.slices for one in there] == [one.slices for one in here]
    pairs = zip(samples, outputs, strict=True)
    streamed = evaluate_stream(pairs, chosen, slices="labels.label", batch_size=size, executor=ray)
    assert list(streamed) == list(here)


def test_sources_are_read_by_the_workers(ray: RayExecutor) -> None:
    want = evaluate(*rows(range(300)), METRICS, slices="labels.lang")
    seen: list[int] = []
    got = evaluate_sources(sources(300, 13), METRICS, slices="labels.lang", executor=ray, progress=seen.append)
    assert got == want
    assert got.sample_ids == want.sample_ids
    assert [one.slices for one in got] == [one.slices for one in want]
    assert seen == [13] * 23 + [1]
    by_function = evaluate_sources(
        sources(60, 9), ["bleu"], slices={"long": lambda one: len(one.sample_id) > 2}, executor=ray
    )
    assert list(by_function[0].slices["long"]) == ["false", "true"]


def test_lean_and_by_name(ray: RayExecutor) -> None:
    metrics = METRICS[:5]
    want = evaluate_sources(sources(500, 100), metrics, keep_scores=False)
    got = evaluate_sources(sources(500, 9), metrics, keep_scores=False, executor="ray", workers=2)
    assert got == want  # the connection of this process is used, and left open
    assert evaluate_sources(sources(9, 9), metrics, executor=ray)


def test_results_are_small(ray: RayExecutor) -> None:
    before = ray.bytes_returned
    evaluate_sources(sources(4000, 1000), ["recall@2", "hit_rate@2", "exact_match"], keep_scores=False, executor=ray)
    returned = ray.bytes_returned - before
    assert returned / 4000 < 3 * (8 + 1 + 2) + 2  # a value, an outcome and its reason, and little else


def test_pending_batches_are_bounded(ray: RayExecutor) -> None:
    drawn, done = 0, 0
    most = 0

    def watched() -> Iterator[Counted]:
        nonlocal drawn, most
        for source in sources(3000, 10):
            drawn += 1
            most = max(most, drawn - done // 10)
            yield source

    def progress(count: int) -> None:
        nonlocal done
        done += count

    assert evaluate_sources(watched(), ["token_f1"], executor=ray, progress=progress, keep_scores=False)
    assert drawn == 300
    assert most <= 16 * 2 + 1


# --- what goes wrong ------------------------------------------------------------------------------------------------


def test_workers_that_are_killed_in_the_middle(ray: RayExecutor, tmp_path: Path) -> None:
    fated = Fated(tmp_path, {"q50": 1, "q180": 2}, {})
    got = evaluate_sources(sources(300, 20), [*METRICS, fated], executor=ray)
    assert (times(tmp_path, "q50"), times(tmp_path, "q180")) == (2, 3)
    assert got == evaluate(*rows(range(300)), [*METRICS, fated])  # by now it lets everybody live


def test_worker_killed_by_a_signal(ray: RayExecutor, tmp_path: Path) -> None:
    killer = kill_slow_worker(tmp_path)
    (result,) = evaluate_sources(sources(100, 10), [SlowMetric(tmp_path, "q44")], executor=ray)
    killer.join()
    assert result.details["num_scored"] == 93  # the others were not answered
    assert result.details["num_measure_failed"] == 0


def given_up(got: Any, want: Any, lost: set[str], reason: str) -> None:
    """The lost samples are failed measurements, and every other outcome is as it would have been."""
    for one, other in zip(got, want, strict=True):
        for sample_id, outcome, wanted in zip(got.sample_ids, one.outcomes, other.outcomes, strict=True):
            assert outcome == (f"measure_failed:{reason}" if sample_id in lost else wanted)
        assert one.details["num_measure_failed"] == len(lost)
        assert one.details["bounds"] is not None if "bounds" in one.details else True


SINGLE: list[Spec] = ["recall@2", "bleu", "rejection_f1", "distinct_n"]
LOST = {f"q{number}" for number in range(20, 40)}


@pytest.mark.parametrize("listed", [False, True])
def test_batch_that_kills_its_worker(ray: RayExecutor, one_retry: RayExecutor, tmp_path: Path, listed: bool) -> None:
    metrics = [*SINGLE, Fated(tmp_path, {"q33": 1000}, {})]
    with pytest.warns(AueporaWarning, match=r"every worker .* died \(sample 'q20' and 19 more\)"):
        got = (
            evaluate(*rows(range(100)), metrics, executor=one_retry, batch_size=20)
            if listed
            else evaluate_sources(sources(100, 20), metrics, executor=ray)
        )
    assert times(tmp_path, "q33") == (2 if listed else 4)  # by default three more times
    given_up(got, evaluate(*rows(range(100)), [*SINGLE, Fated(tmp_path, {}, {})]), LOST, "worker_died")


def test_pairs_next_to_a_failed_batch(one_retry: RayExecutor, tmp_path: Path) -> None:
    robust: Spec = {"noise_robustness": {"base": "token_f1"}}
    with pytest.warns(AueporaWarning, match="every worker"):
        got = evaluate_sources(sources(100, 20), [robust, Fated(tmp_path, {"q33": 1000}, {})], executor=one_retry)
    outcomes = dict(zip(got.sample_ids, got[0].outcomes or (), strict=True))
    assert outcomes["q49"] != "scored"  # its base q24 was lost
    assert outcomes["q99"] == "scored"
    assert got[0].details["num_scored"] < evaluate(*rows(range(100)), [robust])[0].details["num_scored"]


def test_batch_that_raises_an_unexpected_exception(ray: RayExecutor, tmp_path: Path, monkeypatch: Any) -> None:
    class Mistaken(Fated):
        __module__ = "auepora_eval.mistaken"  # as if it were one of ours: a user's own would be settled by the engine

        def score(self, batch: Any) -> Any:
            if any(one.sample_id in self.raises and one.query for one in batch.samples):
                counted_up(self.folder, "raised")
                raise KeyError("oh")
            return super().score(batch)

    metrics = [*SINGLE, Mistaken(tmp_path, {}, {"q33": 1})]
    with pytest.warns(AueporaWarning, match=r"scoring raised KeyError: 'oh' \(sample 'q20' and 19 more\)"):
        got = evaluate_sources(sources(100, 20), metrics, executor=ray)
    given_up(got, evaluate(*rows(range(100)), [*SINGLE, Fated(tmp_path, {}, {})]), LOST, "scoring_failed")
    assert times(tmp_path, "raised") == 1 + ray.retries


def test_batch_that_kills_its_reader(one_retry: RayExecutor) -> None:
    batches = [Counted(0, 20), KillsReader(20, 40), Counted(40, 60)]
    metrics: list[Spec] = [*SINGLE, {"noise_robustness": {"base": "token_f1"}}]
    with pytest.warns(AueporaWarning, match="every worker"):
        got = evaluate_sources(batches, metrics, executor=one_retry)
    want = evaluate(*rows([*range(20), *range(40, 60)]), metrics)
    assert got.sample_ids[20:22] == ["(unread 1.0)", "(unread 1.1)"]
    assert [one.details["num_measure_failed"] for one in got[:4]] == [20] * 4
    assert [one.value for one in got[:4]] == [one.value for one in want[:4]]


@pytest.mark.parametrize("keep", [True, False])
def test_bad_input_raises_as_in_serial(ray: RayExecutor, keep: bool) -> None:
    batches = [Counted(0, 20), Broken(20, 40, "line"), Counted(40, 60)]
    done: list[int] = []
    with pytest.raises(DataFileError, match=r"answers\.jsonl:7: this is no JSON"):
        evaluate_sources(batches, SINGLE, executor=ray, keep_scores=keep, progress=done.append)
    assert done == [20]
    with pytest.raises(WorkerError, match="a worker cannot read a batch: FileNotFoundError"):
        evaluate_sources([Broken(0, 3, "file")], SINGLE, executor=ray)
    samples = [EvaluationSample(str(n), "", reference_answers=["x", None]) for n in range(8)]  # type: ignore[list-item]
    with pytest.raises(AueporaError, match="a reference answer is None, not a string"):
        evaluate(samples, [None] * 8, ["token_f1"], executor=ray, batch_size=1)


def killing(run: RecordRange) -> IdHashes:
    killed()
    raise AssertionError(run)


def test_ids_that_kill_every_reader(one_retry: RayExecutor) -> None:
    runs = [RecordRange(InputFile("/data/answers.jsonl", "jsonl", 0, 0), 0, 1)]
    with pytest.raises(WorkerError, match="no worker could read the ids of some records"):
        list(make_mapper(one_retry)(killing, runs))


def numbered(run: RecordRange) -> IdHashes:
    return make_id_hashes([str(run.row)])


@pytest.mark.parametrize(("workers", "most"), [(None, 8), (1, 1)])
def test_parallel_id_reads_are_bounded_by_workers(ray: RayExecutor, workers: int | None, most: int) -> None:
    """Of a cluster with two processors."""
    given = 0

    def runs() -> Iterator[RecordRange]:
        nonlocal given
        for row in range(200):
            given += 1
            yield RecordRange(InputFile("/data/answers.jsonl", "jsonl", 0, 0), row, 1)

    slow = RayExecutor(workers=workers)
    found = iter(make_mapper(slow)(numbered, runs()))
    first = next(found)
    assert given == 8 * most  # eight go at once
    every = [first, *found]
    slow.close()
    assert [int(one.ids[0]) for one in every] == hash_ids([str(row) for row in range(200)]).tolist()


def test_batches_that_cannot_be_pickled_are_scored_here(ray: RayExecutor) -> None:
    samples = [EvaluationSample(str(n), "", reference_answer=Response("x")) for n in range(6)]
    outputs = [SystemOutputs([], Response("x"), extra={"lock": threading.Lock()}) for _ in samples]
    (result,) = evaluate(samples, outputs, ["token_f1"], executor=ray, batch_size=2)
    assert result.value == 1.0


def test_stopping_cancels_all_tasks(ray: RayExecutor, tmp_path: Path) -> None:
    def progress(_: int) -> None:
        raise KeyboardInterrupt

    slow = SlowMetric(tmp_path, "q60")
    with pytest.raises(KeyboardInterrupt):
        evaluate_sources(sources(100, 10), [slow], executor=ray, progress=progress)
    (result,) = evaluate_sources(sources(40, 10), ["token_f1"], executor=ray)  # both workers are free again
    assert result.details["num_samples"] > 30


def test_tasks_that_end_by_themselves_are_not_cancelled(ray: RayExecutor, tmp_path: Path) -> None:
    """To cancel one just when its answer comes in can end this process."""

    def soon() -> str:
        (tmp_path / "begun").touch()
        time.sleep(0.5)
        return "done"

    def never() -> None:
        while True:
            time.sleep(0.01)

    there = ray.start().ray
    ending, hanging = (there.remote(num_cpus=1, max_retries=0)(task).remote() for task in (soon, never))
    cancel_tasks(there, [ending, hanging])
    assert (tmp_path / "begun").exists()
    assert there.get(ending) == "done"
    with pytest.raises(there.exceptions.TaskCancelledError):
        there.get(hanging)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"workers": 0}, "workers must be an integer >= 1"),
    ({"retries": -1}, "retries must be an integer >= 0"),
    ({"models": 0}, "models must be an integer >= 1"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadValueError, match=message):
        RayExecutor(**options)
