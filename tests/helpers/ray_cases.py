"""Sources and metrics that go wrong on a worker in the ways that tests want; workers import them from here."""

import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from auepora_eval import EvaluationSample, SampleMetric, Score, SystemOutputs, TargetCategory
from auepora_eval.core.batch import Batch
from auepora_eval.core.metrics_base import BatchMetric
from auepora_eval.core.scores import Scores
from auepora_eval.errors import DataFileError, MissingDependencyError
from auepora_eval.metrics.semantic import SbertSimilarity
from auepora_eval.scale.ray_executor import RayExecutor, import_ray
from helpers.builders import output, sample
from helpers.requirements import check_marked_slow, missing

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def rows(numbers: Sequence[int]) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
    """Samples that follow from their numbers alone; some are variants of others, some failed, some are missing."""
    samples: list[EvaluationSample] = []
    outputs: list[SystemOutputs | None] = []
    for number in numbers:
        made = sample(["a", f"d{number % 7}"], sample_id=f"q{number}", answer=" ".join(WORDS[: 2 + number % 5]))
        made.query = f"why {number}?"
        made.labels = {"answerable": number % 4 > 0, "lang": "de" if number % 3 else "en"}
        if number % 10 == 9:  # often in another batch than its base
            made.labels |= {"scenario": "typo", "variant_of": f"q{number // 2}"}
        samples.append(made)
        error = "timeout" if number % 29 == 0 else None
        scored_output = output(["x", f"d{number % 5}", "a"], answer=" ".join(WORDS[number % 3 : 5]), error=error)
        outputs.append(None if number % 31 == 0 else scored_output)
    return samples, outputs


@dataclass(frozen=True)
class Counted:
    """So many rows, made where they are read."""

    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    def read(self) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
        return rows(range(self.start, self.stop))


def sources(total: int, size: int) -> list[Counted]:
    return [Counted(start, min(start + size, total)) for start in range(0, total, size)]


def killed() -> None:
    """End this process as the system would that has no memory left."""
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class KillsReader(Counted):
    """Whoever reads it dies, unless that is this process."""

    home: int = 0

    def read(self) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
        if os.getpid() != self.home:
            killed()
        return super().read()


@dataclass(frozen=True)
class Broken(Counted):
    """What is to be read is no sample."""

    problem: str = ""

    def read(self) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
        if self.problem == "line":
            raise DataFileError("answers.jsonl", 7, "this is no JSON")
        raise FileNotFoundError(2, "No such file or directory", "/data/answers.jsonl")


def counted_up(folder: Path, name: str) -> int:
    """How often this was called, this time included, by whichever process."""
    number = 1
    while True:
        try:
            (folder / f"{name}.{number}").touch(exist_ok=False)
        except FileExistsError:
            number += 1
        else:
            return number


def wait_until_killed(folder: Path) -> None:
    """Say which process this is, and wait until it may go on; the second time it need not."""
    if counted_up(folder, "held") == 1:
        draft = folder / "pid.draft"
        draft.write_text(str(os.getpid()))
        draft.rename(folder / "pid")
        while not (folder / "go").exists():
            time.sleep(0.01)


def kill_slow_worker(folder: Path) -> threading.Thread:
    """Under way already."""

    def kill() -> None:
        while not (folder / "pid").exists():
            time.sleep(0.01)
        os.kill(int((folder / "pid").read_text()), signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return thread


def times(folder: Path, name: str) -> int:
    return len(list(folder.glob(f"{name}.*")))


@dataclass
class Fated(SampleMetric):
    """Scores the length of an id; at some samples the worker dies, or the code raises, for the first times."""

    folder: Path
    dies: dict[str, int]
    raises: dict[str, int]

    name = "fated"
    target = TargetCategory.LATENCY

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        if sample.sample_id in self.dies and counted_up(self.folder, sample.sample_id) <= self.dies[sample.sample_id]:
            killed()
        return Score(float(len(sample.sample_id)))


@dataclass
class SlowMetric(SampleMetric):
    """At one sample it says which process it is in, and waits until it may go on; the second time it does not."""

    folder: Path
    at: str

    name = "slow"
    target = TargetCategory.LATENCY

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        if sample.sample_id == self.at:
            wait_until_killed(self.folder)
        return Score(1.0)


@dataclass(frozen=True)
class Mortal(BatchMetric):
    """Kept by processes that die: the first times when it is loaded, or at one sample."""

    folder: str = field(default="", kw_only=True, compare=False)
    dies_loading: int = field(default=0, kw_only=True, compare=False)
    at: str = field(default="", kw_only=True, compare=False)
    dies_scoring: int = field(default=0, kw_only=True, compare=False)

    def require_ready(self) -> None:
        if counted_up(Path(self.folder), "loaded") <= self.dies_loading:
            killed()
        super().require_ready()

    def score(self, batch: Batch) -> Scores:
        here = any(
            one.sample_id == self.at and one.query for one in batch.samples
        )  # not where it stands in for a lost one
        if here and counted_up(Path(self.folder), "scored") <= self.dies_scoring:
            killed()
        (Path(self.folder) / f"process.{os.getpid()}").touch()
        return super().score(batch)  # type: ignore[safe-super]  # there is another after it


@dataclass(frozen=True)
class FragileSbert(Mortal, SbertSimilarity):
    """Vectors by a real model."""


class _Lengths(BatchMetric):
    """How long ids are."""

    def score(self, batch: Batch) -> Scores:
        return Scores.of(np.array([len(one.sample_id) for one in batch.samples], dtype=np.float64))


@dataclass(frozen=True)
class Fragile(Mortal, _Lengths):
    """Goes where models go, and has none: who keeps it is there at once."""

    name: str = field(default="fragile", kw_only=True)
    together: int = field(default=0, kw_only=True, compare=False)
    """Nobody scores anything before so many have loaded it, or half a minute has passed."""
    slow_at: str = field(default="", kw_only=True, compare=False)
    """Whoever comes to this sample first waits there."""

    target = TargetCategory.LATENCY

    def score(self, batch: Batch) -> Scores:
        begun = time.monotonic()
        while times(Path(self.folder), "loaded") < self.together and time.monotonic() < begun + 30:
            time.sleep(0.01)
        if any(one.sample_id == self.slow_at for one in batch.samples):
            wait_until_killed(Path(self.folder))
        return super().score(batch)

    @property
    def asks_models(self) -> bool:
        return True


def ray_or_skip() -> None:
    """Import Ray, or skip the running test."""
    check_marked_slow("Ray")
    try:
        import_ray()
    except MissingDependencyError:
        missing("package ray")


class SharedCluster:
    """A cluster of two workers that stays open while tests use it: starting one takes seconds.

    Executors with the address ``local`` or none use the connection of this process, which this object keeps open.
    """

    def __init__(self) -> None:
        self._executor: RayExecutor | None = None

    def start(self) -> None:
        """Start the cluster unless it runs."""
        ray_or_skip()
        if self._executor is None:
            self._executor = RayExecutor("local", workers=2)
            self._executor.start()

    def stop(self) -> None:
        """Stop the cluster, so that this process has no connection."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.close()


SHARED_CLUSTER = SharedCluster()
