"""Evaluations over many files: the numbers of one list, whoever scores, and nothing done twice after a lost driver."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest

from auepora_eval import evaluate, evaluate_files
from auepora_eval.core.metrics_base import Metric
from auepora_eval.core.registry import Spec
from auepora_eval.core.results import Results
from auepora_eval.core.types import MetricResult, TargetCategory
from auepora_eval.engine.executors import ProcessExecutor
from auepora_eval.errors import AueporaWarning, BadValueError, DataFileError, JudgeError, MetricDefinitionError
from auepora_eval.judge.critic import Judgement, JudgeRequest
from auepora_eval.scale.ray_executor import RayExecutor
from helpers import requirements
from helpers.critics import SteadyCritic
from helpers.generated_files import METRICS, rows, write_files

requirements.need("pyarrow")
FEW = 150
TOTAL = 400  # enough to kill a driver halfway
pytestmark = pytest.mark.filterwarnings("ignore:.*have no output:auepora_eval.errors.AueporaWarning")


def same(found: Results, wanted: Results) -> None:
    assert found.to_json(per_query=True) == wanted.to_json(per_query=True)


@cache
def from_lists() -> Results:
    return evaluate(*rows(range(FEW)), METRICS, slices="labels.lang")


@pytest.mark.parametrize("table", [False, True], ids=["jsonl", "parquet"])
@pytest.mark.parametrize("kept", [False, True], ids=["without parts", "with parts"])
def test_the_same_as_from_lists(tmp_path: Path, table: bool, kept: bool) -> None:
    data, out = write_files(tmp_path, FEW, table=table)
    wanted = from_lists()
    folder = tmp_path / "scores" if kept else None
    for _ in range(2 if kept else 1):
        same(evaluate_files(data, str(out / "*"), METRICS, slices="labels.lang", batch_size=32, parts=folder), wanted)


@pytest.mark.slow
def test_processes_and_batch_sizes_give_the_same(tmp_path: Path) -> None:
    data, out = write_files(tmp_path, FEW, table=True)
    wanted = evaluate_files(data, out, METRICS)
    with ProcessExecutor(2) as pool:
        for size in (7, 64):
            parts = tmp_path / f"scores{size}"
            same(evaluate_files(data, out, METRICS, executor=pool, batch_size=size, parts=parts), wanted)


def test_lean_results_are_those_of_lean_lists(tmp_path: Path) -> None:
    data, out = write_files(tmp_path, FEW)
    metrics: list[Spec] = ["recall@2", "token_f1", "bleu", {"noise_robustness": {"base": "token_f1"}}]
    wanted = evaluate_files(data, out, metrics, slices="labels.lang", keep_scores=False)
    found = evaluate_files(data, out, metrics, slices="labels.lang", keep_scores=False, parts=tmp_path / "scores")
    same(found, wanted)
    assert [one.value for one in found] == [one.value for one in evaluate(*rows(range(FEW)), metrics)]
    assert all(one.scores is None for one in found)


def test_without_metrics_all_that_the_data_supports(tmp_path: Path) -> None:
    data, out = write_files(tmp_path, 60)
    found = evaluate_files(data, out)
    assert {"recall@5", "token_f1", "bleu"} <= {one.name for one in found}


def test_warnings_about_unmatched_ids(tmp_path: Path) -> None:
    data, out = write_files(tmp_path, 60)
    with pytest.warns(AueporaWarning, match="have no output"):
        evaluate_files(data, out, "recall@2")


def test_a_folder_of_other_files_is_refused(tmp_path: Path) -> None:
    data, out = write_files(tmp_path, 60)
    evaluate_files(data, out, "recall@2", parts=tmp_path / "scores")
    (data / "part-0.jsonl").write_text((data / "part-0.jsonl").read_text() + '{"sample_id": "new", "query": "?"}\n')
    with pytest.raises(BadValueError, match="holds the scores of another evaluation: input samples: 60 there, 61 here"):
        evaluate_files(data, out, "recall@2", parts=tmp_path / "scores")


class OnlyComputes(Metric):
    name = "mine"
    target = TargetCategory.RETRIEVAL_RELEVANCE

    def required_fields(self) -> list[str]:
        return []

    def compute(self, samples: Any, outputs: Any) -> MetricResult:
        raise NotImplementedError


def test_a_metric_that_needs_all_samples_at_once_is_refused(tmp_path: Path) -> None:
    data, out = write_files(tmp_path, 10)
    with pytest.raises(MetricDefinitionError, match="metric 'mine' implements only 'compute'"):
        evaluate_files(data, out, OnlyComputes())


class Counting(SteadyCritic):
    asked = 0

    async def judge(self, request: JudgeRequest) -> Judgement:
        self.asked += 1
        return await super().judge(request)


def test_units_in_the_folder_are_not_judged_again(tmp_path: Path) -> None:
    data, out = write_files(tmp_path, 60)
    critic = Counting()
    metrics: list[Any] = ["token_f1", {"llm_answer_quality": {"critic": critic}}]
    wanted = evaluate_files(data, out, metrics, batch_size=10)
    same(evaluate_files(data, out, metrics, batch_size=10, parts=tmp_path / "scores"), wanted)
    asked = critic.asked
    same(evaluate_files(data, out, metrics, batch_size=10, parts=tmp_path / "scores"), wanted)
    assert critic.asked == asked
    (tmp_path / "scores" / "part-000002.parquet").unlink()
    same(evaluate_files(data, out, metrics, batch_size=10, parts=tmp_path / "scores"), wanted)
    assert 0 < critic.asked - asked <= 10


@pytest.fixture(scope="module")
def cluster(ray_cluster: None) -> Iterator[RayExecutor]:
    with RayExecutor("local", workers=2) as executor:
        yield executor


class Failing(Counting):
    """Out of reach at first, for every third sample."""

    down = True

    async def judge(self, request: JudgeRequest) -> Judgement:
        if self.down and "two three" not in request.prompt:
            raise JudgeError("unreachable", "nobody answers")
        return await super().judge(request)


@pytest.mark.filterwarnings("ignore:.*gave no judgement:auepora_eval.errors.AueporaWarning")
def test_failed_judgements_are_retried(tmp_path: Path) -> None:
    data, out = write_files(tmp_path, 60)
    critic, folder = Failing(), tmp_path / "scores"
    metrics: list[Any] = ["token_f1", {"llm_answer_quality": {"critic": critic}}]
    with pytest.warns(AueporaWarning, match="19 samples could not be judged; the same command asks about them again"):
        failed = evaluate_files(data, out, metrics, batch_size=10, parts=folder)
    assert failed[1].details["failed_unreachable"] == 19  # of twenty, one of which the system did not answer
    assert not json.loads((folder / "manifest.json").read_text())["complete"]
    critic.down = False
    same(
        evaluate_files(data, out, metrics, batch_size=10, parts=folder),
        evaluate_files(data, out, metrics, batch_size=10),
    )
    assert json.loads((folder / "manifest.json").read_text())["complete"]


DRIVER = """
import sys
sys.path[:0] = {paths!r}
from auepora_eval import evaluate_files
from helpers.slow_metric import Slow

if __name__ == "__main__":
    evaluate_files({data!r}, {out!r}, ["recall@2", "bleu", Slow({log!r}, {gate!r})], batch_size=10, unit_size=20,
                   parts={parts!r}, executor={executor!r}, **{options!r})
"""


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["serial", pytest.param("ray", marks=pytest.mark.part("ray"))])
def test_killed_driver_resumes(
    tmp_path: Path, executor: Literal["serial", "ray"], request: pytest.FixtureRequest
) -> None:
    if executor == "ray":
        request.getfixturevalue("cluster")  # is there for who goes on; who is killed has one of its own
    from helpers.slow_metric import Slow

    data, out = write_files(tmp_path, TOTAL)
    folder, log, gate = tmp_path / "scores", tmp_path / "log", tmp_path / "gate"
    options = {} if executor == "serial" else {"workers": 2}
    script = tmp_path / "driver.py"
    script.write_text(
        DRIVER.format(
            paths=sys.path,
            data=str(data),
            out=str(out),
            log=str(log),
            gate=str(gate),
            parts=str(folder),
            executor=executor,
            options=options,
        )
    )
    log.touch()
    ours = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    driver = subprocess.Popen([sys.executable, str(script)], env=ours, start_new_session=True)
    try:
        # The metric waits at the 150th sample for a gate that nobody opens; by then units before it are written.
        _until(lambda: len(list(folder.glob("part-*.parquet"))) >= 5, driver)
    finally:
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
        _end_session(driver.pid)
    there = {path.name for path in folder.glob("part-*.parquet")}
    assert 0 < len(there) < 20
    assert not json.loads((folder / "manifest.json").read_text())["complete"]
    gate.touch()
    log.write_text("")
    metrics: list[Spec | Metric] = ["recall@2", "bleu", Slow(str(log), str(gate))]
    again = evaluate_files(
        data,
        out,
        metrics,
        batch_size=10,
        unit_size=20,
        parts=folder,
        executor=executor,
        **options,  # type: ignore[arg-type]
    )
    scored_again = log.read_text().split()
    assert len(scored_again) == len(set(scored_again))
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["complete"]
    for unit in manifest["units"]:
        own = {f"q{number}" for number in range(unit["first"], unit["first"] + unit["rows"])}
        assert own.isdisjoint(scored_again) == (unit["file"] in there)
    same(again, evaluate(*rows(range(TOTAL)), metrics))


def _until(reached: Any, driver: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + 120
    while not reached():
        assert driver.poll() is None, "the driver ended by itself"
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def _end_session(session: int) -> None:
    """End what the driver started, each by its own id."""
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session:
                    os.kill(int(entry), signal.SIGKILL)
            except (OSError, ValueError):
                continue


def test_ids_are_read_on_the_cluster_and_errors_raised_here(tmp_path: Path, cluster: RayExecutor) -> None:
    data, out = write_files(tmp_path, TOTAL)
    metrics: list[Spec] = ["recall@2", {"noise_robustness": {"base": "token_f1"}}]
    found = evaluate_files(data, out, metrics, executor=cluster, batch_size=16, parts=tmp_path / "scores")
    same(found, evaluate(*rows(range(TOTAL)), metrics))
    with (data / "part-1.jsonl").open("a") as file:
        file.write('{"sample_id": 7\n')
    with pytest.raises(DataFileError, match=r"part-1\.jsonl:134: "):
        evaluate_files(data, out, metrics, executor=cluster, batch_size=16)


def test_unit_that_kills_its_worker_loses_one_batch_and_is_retried(tmp_path: Path, cluster: RayExecutor) -> None:
    from helpers.slow_metric import Deadly

    data, out = write_files(tmp_path, TOTAL)
    gate = tmp_path / "gate"
    metrics: list[Spec | Metric] = ["recall@2", "bleu", Deadly("", str(gate))]
    options: dict[str, Any] = {"batch_size": 10, "unit_size": 40, "parts": tmp_path / "scores"}
    with RayExecutor(retries=1) as hasty:  # on the same cluster
        with pytest.warns(AueporaWarning) as caught:
            lost = evaluate_files(data, out, metrics, executor=hasty, **options)
        assert any("has samples whose workers died" in str(one.message) for one in caught)
        assert [one.details["failed_worker_died"] for one in lost] == [10, 10, 10]
        gate.touch()
        again = evaluate_files(data, out, metrics, executor=hasty, **options)
    same(again, evaluate(*rows(range(TOTAL)), metrics))
