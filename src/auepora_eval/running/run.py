"""A run from beginning to end: asked, stored as it arrives, scored from what is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ..calling.calls import CallSummary, call_system
from ..calling.policy import CallPolicy, Task, TaskOutput
from ..calling.stop import Stop
from ..core.conventions import Conventions
from ..core.errors import BadValueError, StoreError
from ..core.metrics_base import Metric
from ..core.results import Results
from ..core.slices import SliceSpec
from ..core.types import EvaluationSample, SystemOutputs
from ..gates.report import GateReport
from ..io.codec import LineError
from ..judge.policy import JudgePolicy
from ..store.processes import is_alive
from ..store.records import RunRecord, RunStatus, StoredOutput
from ..store.runs import RunStore
from .judging import JudgeProgress, ignore_progress
from .scoring import ScoringOptions, score_run

__all__ = ["RunCallbacks", "RunOutcome", "RunRequest", "resume_run", "start_run"]

CHUNK = 1000
"""So many saved outputs are stored together."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Everything a run needs, checked and built."""

    name: str
    dataset_name: str
    samples: Sequence[EvaluationSample]
    metrics: Sequence[Metric] | None
    """``None``: all that the data supports."""
    conventions: Conventions
    system: object | None = None
    """What is asked; ``None`` where ``outputs`` are given."""
    outputs: Mapping[str, SystemOutputs] | None = None
    policy: CallPolicy = field(default_factory=CallPolicy)
    repeats: int = 1
    slices: Sequence[SliceSpec] = ()
    options: ScoringOptions = field(default_factory=ScoringOptions)
    judging: JudgePolicy = field(default_factory=JudgePolicy)
    """How judges are asked, where a metric needs one."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """What judges may know and must not tell."""
    corpus: Path | None = None
    """The corpus of the dataset, whose ids citations may name."""
    plan: Mapping[str, Any] = field(default_factory=dict)
    """The resolved plan, as it is stored."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """What the system is made of: versions of chunker, embedding, model, prompt."""
    commit: str | None = None
    tags: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RunCallbacks:
    """Who is told how a run goes: as it starts, after every answer that is stored, while scoring."""

    started: Callable[[RunRecord, int], None] = lambda _record, _to_do: None
    """The run, and how many calls there are to make."""
    answered: Callable[[Sequence[TaskOutput]], None] = lambda _answers: None
    scoring: Callable[[int], Callable[[int], None]] = lambda _total: lambda _more: None
    """Given how many outputs there are, what is to be called with how many more were scored."""
    judging: Callable[[], JudgeProgress] = ignore_progress
    """Asked before a judge is, for what is to be called after each judgement."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended."""

    record: RunRecord
    ended: Literal["finished", "stopped", "failed"]
    results: Results | None = field(repr=False, default=None)
    """``None`` where it did not come to scoring."""
    asked: int = 0
    """How many answers were stored by this call."""
    failed: int = 0
    """How many of them were failures."""
    message: str = ""
    unreachable: bool = False
    """Whether it stopped because the system could not be reached; ``retry_failed`` asks those samples again."""
    gates: GateReport | None = None
    """How the plan's gates went; ``None`` where it has none, or where it did not come to scoring."""
    report: Path | None = None
    """The file that was written about it, where the plan asks for one."""
    store: str | None = field(repr=False, default=None)
    """Where the run is kept, where that is known by name. Not shown, since an address may hold a password."""


def start_run(
    request: RunRequest,
    store: RunStore,
    *,
    stop: Stop | None = None,
    watcher: RunCallbacks = RunCallbacks(),  # noqa: B008
) -> RunOutcome:
    """Ask, store, score: a new run."""
    if request.name.partition("~")[0] == "latest":
        raise BadValueError(f"a run cannot be called '{request.name}': that names whichever is the latest")
    record = store.create_run(
        request.name,
        request.samples,
        dataset_name=request.dataset_name,
        plan=dict(request.plan),
        config=dict(request.config),
        repeats=request.repeats,
        commit=request.commit,
        tags=tuple(request.tags),
    )
    return _execute(request, store, record, set(), stop, watcher)


def resume_run(
    request: RunRequest,
    store: RunStore,
    record: RunRecord,
    *,
    retry_failed: bool = False,
    stop: Stop | None = None,
    watcher: RunCallbacks = RunCallbacks(),  # noqa: B008
) -> RunOutcome:
    """Go on with a run where it ended: what is missing is asked and, if wanted, what failed is asked again."""
    if is_alive(record.process) and record.status is RunStatus.RUNNING:
        raise BadValueError(f"{record.run_id} is still being made by process {record.process}; wait for it, or stop it")
    store.reopen(record.run_id, expected_process=record.process)
    done = store.done(record.run_id)
    if retry_failed:
        done -= store.failed(record.run_id)
    return _execute(request, store, store.find(record.run_id), done, stop, watcher)


def _execute(
    request: RunRequest,
    store: RunStore,
    record: RunRecord,
    done: set[tuple[int, int]],
    stop: Stop | None,
    watcher: RunCallbacks,
) -> RunOutcome:
    kept = _OutputCounter(watcher)
    try:
        asked = _collect_outputs(request, store, record, done, stop, kept)
        if asked.ended != "done":
            return _finish_early(store, record, asked, kept)
        advance = watcher.scoring(len(request.samples) * request.repeats)
        results = score_run(
            store,
            record,
            request.metrics,
            conventions=request.conventions,
            slices=request.slices,
            options=request.options,
            judging=request.judging,
            progress=advance,
            judged=watcher.judging,
            secrets=request.secrets,
            corpus=request.corpus,
        )
        store.finish(record.run_id)
    except KeyboardInterrupt:
        _mark(store, record, RunStatus.STOPPED, "interrupted")
        raise
    except StoreError as error:
        # What was acknowledged is kept; when the store is well again the run can go on.
        _mark(store, record, RunStatus.FAILED, str(error))
        return RunOutcome(record, "failed", None, kept.stored, kept.failed, str(error))
    except Exception as error:
        _mark(store, record, RunStatus.FAILED, f"{type(error).__name__}: {error}")
        raise
    return RunOutcome(store.find(record.run_id), "finished", results, kept.stored, kept.failed)


class _OutputCounter:
    """Counts what is stored, and passes it on to whoever watches."""

    def __init__(self, watcher: RunCallbacks) -> None:
        self.callbacks, self.stored, self.failed = watcher, 0, 0

    def add(self, rows: Sequence[StoredOutput], answers: Sequence[TaskOutput]) -> None:
        """These rows were stored for these answers; an answer that could not be written down has become a failure."""
        self.stored += len(rows)
        self.failed += sum(row.output.error is not None for row in rows)
        self.callbacks.answered([TaskOutput(one.task, row.output) for one, row in zip(answers, rows, strict=True)])


def _mark(store: RunStore, record: RunRecord, status: RunStatus, message: str) -> None:
    """Note why the run ended, if the store still takes notes; the reason itself is what the user must see."""
    with suppress(Exception):  # most likely it would be the same trouble again
        store.finish(record.run_id, status, message=message)


def _finish_early(store: RunStore, record: RunRecord, asked: CallSummary, kept: _OutputCounter) -> RunOutcome:
    stopped = asked.ended == "stopped"
    status = RunStatus.STOPPED if stopped else RunStatus.FAILED
    store.finish(record.run_id, status, message=asked.message or asked.ended)
    record = store.find(record.run_id)
    # The message as it is stored: without secrets that the system told.
    message = record.message or ""
    ended: Literal["stopped", "failed"] = "stopped" if stopped else "failed"
    unreachable = asked.ended == "connection_errors"
    return RunOutcome(record, ended, None, kept.stored, kept.failed, message, unreachable=unreachable)


def _collect_outputs(
    request: RunRequest,
    store: RunStore,
    record: RunRecord,
    done: set[tuple[int, int]],
    stop: Stop | None,
    kept: _OutputCounter,
) -> CallSummary:
    """All that was to be asked is asked and stored, unless it ends early."""
    if request.outputs is not None:
        return _copy_saved(request.outputs, request.samples, store, record, kept)
    to_do = len(request.samples) * request.repeats - len(done)
    kept.callbacks.started(record, to_do)

    def deliver(answers: list[TaskOutput]) -> None:
        rows = _append(store, record.run_id, [_row(answer.task, answer.output) for answer in answers])
        kept.add(rows, answers)

    assert request.system is not None
    return call_system(request.system, _tasks(request, done), request.policy, deliver, stop=stop, total=to_do)


def _tasks(request: RunRequest, done: set[tuple[int, int]]) -> Iterator[Task]:
    for repeat in range(request.repeats):
        for position, sample in enumerate(request.samples):
            if (position, repeat) not in done:
                yield Task(position, sample, repeat)


def _copy_saved(
    outputs: Mapping[str, SystemOutputs],
    samples: Sequence[EvaluationSample],
    store: RunStore,
    record: RunRecord,
    kept: _OutputCounter,
) -> CallSummary:
    """Saved outputs, stored as if the system had just given them."""
    rows = [
        StoredOutput(position, 0, sample.sample_id, outputs[sample.sample_id])
        for position, sample in enumerate(samples)
        if sample.sample_id in outputs
    ]
    kept.callbacks.started(record, len(rows))
    for start in range(0, len(rows), CHUNK):
        part = rows[start : start + CHUNK]
        answers = [TaskOutput(Task(row.position, samples[row.position]), row.output) for row in part]
        kept.add(_append(store, record.run_id, part), answers)
    return CallSummary(kept.stored, kept.failed, "done")


def _row(task: Task, output: SystemOutputs) -> StoredOutput:
    return StoredOutput(task.position, task.repeat, task.sample.sample_id, output)


def _append(store: RunStore, run_id: str, rows: list[StoredOutput]) -> list[StoredOutput]:
    """Store the rows; one that cannot be written down is a failure of its own and costs the others nothing."""
    try:
        store.append(run_id, rows, replace=True)
    except LineError as error:
        if len(rows) > 1:
            return [one for row in rows for one in _append(store, run_id, [row])]
        rows = [_unwritable(rows[0], error)]
        store.append(run_id, rows, replace=True)
    return rows


def _unwritable(row: StoredOutput, error: LineError) -> StoredOutput:
    problem = str(error).encode(errors="backslashreplace").decode()
    return replace(row, output=SystemOutputs([], error=f"bad_output: {problem}", repeat=row.repeat))
