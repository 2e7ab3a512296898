"""One run: call the system, store outputs as they arrive, score the stored outputs."""

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
"""Number of saved outputs per write to the store."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Everything a run needs, checked and built."""

    name: str
    dataset_name: str
    samples: Sequence[EvaluationSample]
    metrics: Sequence[Metric] | None
    """``None`` selects all that the data supports."""
    conventions: Conventions
    system: object | None = None
    """The system to call; ``None`` if ``outputs`` are given."""
    outputs: Mapping[str, SystemOutputs] | None = None
    policy: CallPolicy = field(default_factory=CallPolicy)
    repeats: int = 1
    slices: Sequence[SliceSpec] = ()
    options: ScoringOptions = field(default_factory=ScoringOptions)
    judging: JudgePolicy = field(default_factory=JudgePolicy)
    """The policy for judge calls."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Secrets that must not appear in stored judgements."""
    corpus: Path | None = None
    """The corpus of the dataset, with the ids that answers may cite."""
    plan: Mapping[str, Any] = field(default_factory=dict)
    """The resolved plan that is stored."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Configuration of the system: versions of chunker, embedding, model, prompt."""
    commit: str | None = None
    tags: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RunCallbacks:
    """Callbacks of a run: at its start, after stored outputs, while scoring and judging."""

    started: Callable[[RunRecord, int], None] = lambda _record, _to_do: None
    """Called with the run and the number of calls to make."""
    answered: Callable[[Sequence[TaskOutput]], None] = lambda _answers: None
    scoring: Callable[[int], Callable[[int], None]] = lambda _total: lambda _more: None
    """Called with the number of outputs; returns a function to call with the number of newly scored outputs."""
    judging: Callable[[], JudgeProgress] = ignore_progress
    """Called before the first judge call; returns a function to call after each judgement."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The outcome of a run."""

    record: RunRecord
    ended: Literal["finished", "stopped", "failed"]
    results: Results | None = field(repr=False, default=None)
    """``None`` if the run was not scored."""
    asked: int = 0
    """Number of outputs stored by this call."""
    failed: int = 0
    """Number of failures among them."""
    message: str = ""
    unreachable: bool = False
    """Whether it stopped because the system could not be reached; ``retry_failed`` retries those samples."""
    gates: GateReport | None = None
    """The outcome of the gates; ``None`` if the plan has none, or if the run was not scored."""
    report: Path | None = None
    """Path of the report, if the plan names one."""
    store: str | None = field(repr=False, default=None)
    """Path or address of the store, if known. Not in the repr, because it may contain a password."""


def start_run(
    request: RunRequest,
    store: RunStore,
    *,
    stop: Stop | None = None,
    watcher: RunCallbacks = RunCallbacks(),  # noqa: B008
) -> RunOutcome:
    """Start a new run: call the system, store, score."""
    if request.name.partition("~")[0] == "latest":
        raise BadValueError(f"a run cannot be called '{request.name}': that name refers to the latest run")
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
    """Resume a run: call the system for missing outputs and, with ``retry_failed``, for failed ones."""
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
    counter = _OutputCounter(watcher)
    try:
        summary = _collect_outputs(request, store, record, done, stop, counter)
        if summary.ended != "done":
            return _finish_early(store, record, summary, counter)
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
            judge_progress=watcher.judging,
            secrets=request.secrets,
            corpus=request.corpus,
        )
        store.finish(record.run_id)
    except KeyboardInterrupt:
        _mark(store, record, RunStatus.STOPPED, "interrupted")
        raise
    except StoreError as error:
        # Stored outputs are kept; the run can be resumed when the store works again.
        _mark(store, record, RunStatus.FAILED, str(error))
        return RunOutcome(record, "failed", None, counter.stored, counter.failed, str(error))
    except Exception as error:
        _mark(store, record, RunStatus.FAILED, f"{type(error).__name__}: {error}")
        raise
    return RunOutcome(store.find(record.run_id), "finished", results, counter.stored, counter.failed)


class _OutputCounter:
    """Counts stored outputs and passes them to the callbacks."""

    def __init__(self, watcher: RunCallbacks) -> None:
        self.callbacks, self.stored, self.failed = watcher, 0, 0

    def add(self, rows: Sequence[StoredOutput], answers: Sequence[TaskOutput]) -> None:
        """Count rows stored for these answers; an answer that could not be encoded is stored as a failure."""
        self.stored += len(rows)
        self.failed += sum(row.output.error is not None for row in rows)
        self.callbacks.answered([TaskOutput(one.task, row.output) for one, row in zip(answers, rows, strict=True)])


def _mark(store: RunStore, record: RunRecord, status: RunStatus, message: str) -> None:
    """Store why the run ended, if the store still works; the caller raises the original error."""
    with suppress(Exception):  # most likely the same error again
        store.finish(record.run_id, status, message=message)


def _finish_early(store: RunStore, record: RunRecord, summary: CallSummary, counter: _OutputCounter) -> RunOutcome:
    stopped = summary.ended == "stopped"
    status = RunStatus.STOPPED if stopped else RunStatus.FAILED
    store.finish(record.run_id, status, message=summary.message or summary.ended)
    record = store.find(record.run_id)
    # The stored message, without secrets that the system may have returned.
    message = record.message or ""
    ended: Literal["stopped", "failed"] = "stopped" if stopped else "failed"
    unreachable = summary.ended == "connection_errors"
    return RunOutcome(record, ended, None, counter.stored, counter.failed, message, unreachable=unreachable)


def _collect_outputs(
    request: RunRequest,
    store: RunStore,
    record: RunRecord,
    done: set[tuple[int, int]],
    stop: Stop | None,
    counter: _OutputCounter,
) -> CallSummary:
    """Call the system and store its outputs, or copy saved outputs; may end early."""
    if request.outputs is not None:
        return _copy_saved(request.outputs, request.samples, store, record, counter)
    to_do = len(request.samples) * request.repeats - len(done)
    counter.callbacks.started(record, to_do)

    def deliver(answers: list[TaskOutput]) -> None:
        rows = _append(store, record.run_id, [_row(answer.task, answer.output) for answer in answers])
        counter.add(rows, answers)

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
    counter: _OutputCounter,
) -> CallSummary:
    """Store saved outputs like outputs of a system."""
    rows = [
        StoredOutput(position, 0, sample.sample_id, outputs[sample.sample_id])
        for position, sample in enumerate(samples)
        if sample.sample_id in outputs
    ]
    counter.callbacks.started(record, len(rows))
    for start in range(0, len(rows), CHUNK):
        chunk = rows[start : start + CHUNK]
        answers = [TaskOutput(Task(row.position, samples[row.position]), row.output) for row in chunk]
        counter.add(_append(store, record.run_id, chunk), answers)
    return CallSummary(counter.stored, counter.failed, "done")


def _row(task: Task, output: SystemOutputs) -> StoredOutput:
    return StoredOutput(task.position, task.repeat, task.sample.sample_id, output)


def _append(store: RunStore, run_id: str, rows: list[StoredOutput]) -> list[StoredOutput]:
    """Store the rows; a row that cannot be encoded is stored as a failure, without affecting the others."""
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
