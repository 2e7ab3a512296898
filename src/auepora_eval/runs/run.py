"""Runs: call the system, store outputs as they arrive, score them; ``run_plan`` and ``run_system``."""

from __future__ import annotations

import os
import subprocess
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from types import FunctionType
from typing import Any, Literal

from ..core.conventions import Conventions
from ..core.dataset import EvaluationDataset
from ..core.metrics_base import Metric
from ..core.rag_interface import SimpleRAGSystem
from ..core.registry import Spec, spec_of
from ..core.results import Results, to_json_value
from ..core.slices import SliceSpec
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..engine.evaluate import Metrics, resolve_metrics
from ..engine.gold_match import GoldReading, MatchChoice
from ..errors import (
    AueporaError,
    AueporaWarning,
    BadValueError,
    DataFileError,
    MetricDefinitionError,
    StoreError,
    UnknownRunError,
)
from ..io.codec import LineError
from ..io.golden import dataset_fingerprint
from ..io.sample_sets import SampleSet
from ..judge.critic import JudgePolicy
from ..options import PositiveInt, check_options
from ..plan.gates import needs_baseline
from ..plan.model import Plan, SavedOutputs, Scoring, StopSettings, TwoStageSettings, plan_changes
from ..plan.prepare import PreparedPlan, SampleTransform, prepare, read_plan
from ..runtime.files import plain_stem
from ..runtime.processes import gc_paused
from ..runtime.secrets import Secrets, redact_by_name
from ..store.connect import default_store
from ..store.records import RunRecord, RunStatus, StoredOutput, is_this_process, plan_conventions, run_info
from ..store.runs import RunStore, heartbeat
from ..systems.calls import CallSummary, Stop, Task, TaskOutput, call_system, check_before_calls
from ..systems.interfaces import adapt, as_system
from ..systems.policy import FIRST_CALLS, CallPolicy, policy_class
from .job import ScoringJob, read_gold, stored_match
from .judging import JudgeProgress, ignore_progress
from .outcome import RunOutcome
from .scoring import judging_steps, score_run
from .sequential import EarlyStopping, LookProgress, StopRequest, check_stop, ignore_looks

CHUNK = 1000
"""Number of saved outputs per write to the store."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Everything a run needs, checked and built."""

    name: str
    dataset_name: str
    samples: Sequence[EvaluationSample]
    metrics: Sequence[Metric] | None
    """``None`` selects all that the data supports, or those of ``targets``."""
    conventions: Conventions
    targets: tuple[TargetCategory, ...] = ()
    """The targets whose supported metrics are computed, too."""
    match: MatchChoice = "id"
    """How gold is matched; ``auto`` is resolved when the outputs are stored, unless the plan has a resolution."""
    system: object | None = None
    """The system to call; ``None`` if ``outputs`` are given."""
    outputs: SavedOutputs | None = None
    policy: CallPolicy = field(default_factory=CallPolicy)
    gives_documents: bool = False
    """Whether the system answers from documents that it is given: to fail on all of them is then an outcome."""
    repeats: int = 1
    slices: Sequence[SliceSpec] = ()
    options: Scoring = field(default_factory=Scoring)
    judging: JudgePolicy = field(default_factory=JudgePolicy)
    """The policy for judge calls."""
    two_stage: TwoStageSettings | None = None
    """Two-stage judging, where the plan has it."""
    stop: StopRequest = field(default_factory=StopRequest)
    """When judging stops early."""
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
    part: Container[int] | None = None
    """The positions of the samples to call the system for; then the run is stopped and not scored."""


@dataclass(frozen=True, slots=True)
class RunCallbacks:
    """Callbacks of a run: at its start, after stored outputs, while scoring and judging."""

    started: Callable[[RunRecord, int], None] = lambda _record, _to_do: None
    """Called with the run and the number of calls to make."""
    answered: Callable[[Sequence[StoredOutput]], None] = lambda _outputs: None
    """Called with outputs that were stored."""
    scoring: Callable[[int], Callable[[int], None]] = lambda _total: lambda _more: None
    """Called with the number of outputs; returns a function to call with the number of newly scored outputs."""
    judging: Callable[[], JudgeProgress] = ignore_progress
    """Called before the first judge call; returns a function to call after each judgement."""
    look: LookProgress = ignore_looks
    """Called before each look of a run whose judging stops early."""


def start_run(
    request: RunRequest,
    store: RunStore,
    *,
    stop: Stop | None = None,
    watcher: RunCallbacks = RunCallbacks(),
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
    return _Execution(request, store, record, watcher).run(set(), stop)


def resume_run(
    request: RunRequest,
    store: RunStore,
    record: RunRecord,
    *,
    retry_failed: bool = False,
    stop: Stop | None = None,
    watcher: RunCallbacks = RunCallbacks(),
) -> RunOutcome:
    """Resume a run: call the system for missing outputs and, with ``retry_failed``, for failed ones."""
    if record.status is RunStatus.RUNNING and not is_this_process(record.process):
        raise BadValueError(f"{record.run_id} is still being made by process {record.process}; wait for it, or stop it")
    store.reopen(record.run_id, expected_process=record.process)
    done, failed = store.done(record.run_id), store.failed(record.run_id)
    if record.status is RunStatus.FINISHED and len(failed) < len(done):
        request = use_match_of(request, record)  # decided when it was finished, whatever is retrieved now
    if retry_failed:
        done -= failed
    return _Execution(request, store, store.find(record.run_id), watcher).run(done, stop)


def start_or_resume(
    request: RunRequest,
    store: RunStore,
    earlier: RunRecord | None,
    *,
    retry_failed: bool = False,
    stop: Stop | None = None,
    watcher: RunCallbacks = RunCallbacks(),
) -> RunOutcome:
    """Resume the earlier run, or start one if there is none; of a finished run, the stored results are loaded."""
    if earlier is None:
        return start_run(request, store, stop=stop, watcher=watcher)
    if earlier.status is RunStatus.FINISHED and not retry_failed:
        return load_outcome(store, earlier)
    return resume_run(request, store, earlier, retry_failed=retry_failed, stop=stop, watcher=watcher)


def load_outcome(store: RunStore, record: RunRecord) -> RunOutcome:
    """The outcome of a finished run, with its stored results."""
    results, resolved = store.results(record.run_id), stored_match(record)
    if resolved is not None and resolved.match != "id":
        results.gold_match = resolved.description()
    return RunOutcome(
        record, "finished", results,
        counts=store.counts(record.run_id),
        message="the run was finished before; no call was made",
    )  # fmt: skip


@dataclass(slots=True)
class _Execution:
    """The execution of a run: the system is called, its outputs are stored, and scored."""

    request: RunRequest
    store: RunStore
    record: RunRecord
    callbacks: RunCallbacks
    stored: int = 0
    """Number of outputs stored by this call."""
    failed: int = 0

    def run(self, done: set[tuple[int, int]], stop: Stop | None) -> RunOutcome:
        """Ask for the outputs that are not ``done``, and score the run; says how it ended."""
        request, store = self.request, self.store
        try:
            with heartbeat(store, self.record):
                if request.two_stage is not None:
                    from .two_stage import check_draws

                    info = run_info(self.record)
                    check_draws(store, self.record, request.metrics or (), request.two_stage, request.samples, run=info)
                summary = self._collect_outputs(done, stop)
                if summary.ended != "done":
                    return self._finish_early(summary)
                if request.part is not None:
                    store.finish(self.record.run_id, RunStatus.STOPPED, message="not all samples were asked")
                    return self._outcome("finished")
                results = self._score()
                store.finish(self.record.run_id)
        except KeyboardInterrupt:
            self._mark(RunStatus.STOPPED, "interrupted")
            raise
        except StoreError as error:
            # Stored outputs are kept; the run can be resumed when the store works again.
            self._mark(RunStatus.FAILED, str(error))
            return RunOutcome(self.record, "failed", asked=self.stored, failed=self.failed, message=str(error))
        except Exception as error:
            self._mark(RunStatus.FAILED, f"{type(error).__name__}: {error}")
            raise
        return replace(self._outcome("finished"), results=results, counts=store.counts(self.record.run_id))

    def _outcome(self, ended: Literal["finished", "stopped", "failed"]) -> RunOutcome:
        return RunOutcome(self.store.find(self.record.run_id), ended, asked=self.stored, failed=self.failed)

    def _mark(self, status: RunStatus, message: str) -> None:
        """Store why the run ended, if the store still works; the caller raises the original error."""
        with suppress(Exception):  # most likely the same error again
            self.store.finish(self.record.run_id, status, message=message)

    def _finish_early(self, summary: CallSummary) -> RunOutcome:
        ended: Literal["stopped", "failed"] = "stopped" if summary.ended == "stopped" else "failed"
        self.store.finish(self.record.run_id, RunStatus(ended), message=summary.message or summary.ended)
        outcome = self._outcome(ended)
        return replace(
            outcome,
            message=outcome.record.message or "",  # as stored: without secrets that the system may have returned
            unreachable=summary.ended in ("connection_errors", "same_error"),
            traceback=self.store.as_stored({"traceback": summary.traceback})["traceback"],
        )

    def _score(self) -> Results:
        """Score the stored outputs."""
        request, watcher = self.request, self.callbacks
        self.record, reading = _resolve_gold(request, self.store, self.record)
        job = ScoringJob(
            self.store,
            self.record,
            request.metrics,
            conventions=request.conventions,
            reading=reading,
            slices=request.slices,
            options=request.options,
            policy=request.judging,
            progress=watcher.scoring(len(request.samples) * request.repeats),
            judge_progress=watcher.judging,
            secrets=request.secrets,
            corpus=request.corpus,
            targets=request.targets,
        )
        return score_run(job, judging_steps(EarlyStopping(request.stop, watcher.look), request.two_stage))

    def _collect_outputs(self, done: set[tuple[int, int]], stop: Stop | None) -> CallSummary:
        """Call the system and store its outputs, or copy saved outputs; may end early."""
        request = self.request
        if request.outputs is not None:
            return self._copy_saved(request.outputs)
        total = sum(1 for _ in _tasks(request, done))
        self.callbacks.started(self.record, total)
        stored, failed = self.store.counts(self.record.run_id)
        is_trial = stored == failed and not request.policy.keep_going and not request.gives_documents
        return call_system(
            request.system,
            _tasks(request, done),
            request.policy,
            self._deliver,
            stop=stop,
            total=total,
            first_calls=min(FIRST_CALLS, total) if is_trial else 0,
        )

    def _deliver(self, answers: list[TaskOutput]) -> None:
        tasks = [(answer.task, answer.output) for answer in answers]
        self._add([StoredOutput(task.position, task.repeat, task.sample.sample_id, output) for task, output in tasks])

    def _copy_saved(self, outputs: SavedOutputs) -> CallSummary:
        """Store saved outputs like outputs of a system; those of no sample are left out."""
        positions = {sample_id: place for place, sample_id in enumerate(self.store.sample_ids(self.record.run_id))}
        self.callbacks.started(self.record, sum(sample_id in positions for sample_id in outputs.ids))
        rows = (
            StoredOutput(positions[sample_id], 0, sample_id, output)
            for sample_id, output in outputs
            if sample_id in positions
        )
        with gc_paused():
            while chunk := list(islice(rows, CHUNK)):
                self._add(chunk)
        return CallSummary(self.stored, self.failed, "done")

    def _add(self, rows: list[StoredOutput]) -> None:
        """Store outputs and count them; one that could not be encoded is stored as a failure."""
        rows = _append(self.store, self.record.run_id, rows)
        self.stored += len(rows)
        self.failed += sum(row.output.error is not None for row in rows)
        self.callbacks.answered(rows)


def _resolve_gold(request: RunRequest, store: RunStore, record: RunRecord) -> tuple[RunRecord, GoldReading | None]:
    """How gold is matched where ``auto`` decides: as stored with the run, else it is resolved. By id is not stored."""
    resolved = stored_match(record)
    if request.match != "auto" and resolved is None:
        return record, None
    stored = None if resolved is None else resolved.match
    reading = read_gold(store, record, request.samples, request.conventions, "auto", stored=stored)
    if resolved is None and reading.resolved.match != "id":
        record = store.set_gold(record.run_id, {"match": "auto", "resolved": reading.resolved.to_dict()})
    return record, reading


def use_match_of(request: RunRequest, record: RunRecord) -> RunRequest:
    """The request of a further run on the same samples, which matches gold as an earlier run does."""
    gold = {key: value for key, value in record.plan.items() if key == "gold"}
    return replace(request, match=plan_conventions(record).match, plan={**request.plan, **gold})


def _tasks(request: RunRequest, done: set[tuple[int, int]]) -> Iterator[Task]:
    for repeat in range(request.repeats):
        for position, sample in enumerate(request.samples):
            if (position, repeat) not in done and (request.part is None or position in request.part):
                yield Task(position, sample, repeat)


def _append(store: RunStore, run_id: str, rows: list[StoredOutput]) -> list[StoredOutput]:
    """Store the rows; a row that cannot be encoded is stored as a failure, without affecting the others."""
    try:
        store.append(run_id, rows, replace=True)
    except LineError as error:
        if len(rows) > 1:
            return list(chain.from_iterable(_append(store, run_id, [row]) for row in rows))
        problem = str(error).encode(errors="backslashreplace").decode()
        failure = SystemOutputs([], error=f"bad_output: {problem}", repeat=rows[0].repeat)
        rows = [replace(rows[0], output=failure)]
        store.append(run_id, rows, replace=True)
    return rows


# --- ``run_plan`` and ``run_system`` ---------------------------------------------------------------------------------


def run_plan(
    path: str | Path | Plan,
    *,
    store: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    limit: int | None = None,
    tags: Sequence[str] = (),
    resume: bool = False,
    run: str | None = None,
    retry_failed: bool = False,
    against: str | None = None,
    stop: Stop | None = None,
    watcher: RunCallbacks = RunCallbacks(),
    samples: SampleSet | None = None,
) -> RunOutcome:
    """Run a plan, given as a file or already read, or resume a run of it.

    ``changes`` replace keys of the plan (``{"run.concurrency": 4}``), ``samples`` takes only those of a set, which the
    run records and a resumed run keeps, and ``limit`` takes only the first samples. ``resume`` resumes the latest
    unfinished run of the plan, or that named by ``run``; with ``retry_failed`` failed samples are called again, else a
    finished run has its stored results. A plan or dataset that has changed since is refused. The plan's gates are
    checked at the end; ``against`` names their baseline, by default the latest run of this name and these samples.

    Args:
        path: A plan file, or a plan that was read; ``store`` replaces its store, ``tags`` are those of the run.
        stop: Stops the run from another thread; ``watcher`` has functions that get the progress.

    Returns:
        How the run ended, with its record and results.

    Example:
        >>> run_plan("plan.yaml").ended
        'finished'
    """
    plan = read_plan(path, changes=changes)
    if against is not None and not any(map(needs_baseline, plan.gates)):
        raise BadValueError(
            f"no gate of {plan.source.path} compares runs, so there is nothing to do with the run '{against}'"
        )
    if resume and samples is None:
        samples = _stored_set(default_store(store, plan.store), plan.name, run)
    with open_plan(plan, store=store, limit=limit, tags=tags, samples=samples) as (request, opened, where):
        baseline = None if against is None else opened.find(against).require_finished()  # checked before the run starts
        earlier = _find_resumable(opened, request, run) if resume else None
        final = _with_stop(request, plan.judge.stop, opened, earlier)
        outcome = start_or_resume(final, opened, earlier, retry_failed=retry_failed, stop=stop, watcher=watcher)
        return replace(_with_gates_and_report(outcome, plan, opened, baseline), store=where)


def _stored_set(where: str, name: str, run: str | None) -> SampleSet | None:
    """The set of samples of the run to resume; ``None`` if it is on all samples, or if there is no such run."""
    with suppress(AueporaError), RunStore.open(where, create=False) as store:
        record = _latest_run(store, name, run)
        if record is not None and record.plan.get("samples"):
            return SampleSet.from_plan(record.plan, store.sample_ids(record.run_id))
    return None


def _with_stop(
    request: RunRequest, settings: StopSettings | None, store: RunStore, earlier: RunRecord | None
) -> RunRequest:
    """The request with the settings for an early stop of judging, which are checked before the run starts."""
    if settings is None:
        return request
    fingerprint = dataset_fingerprint(request.samples) if earlier is None else earlier.fingerprint
    primary = request.plan.get("primary") or ()
    checked = check_stop(store, settings, request.metrics, fingerprint, primary=primary, earlier=earlier)
    run_id = None if checked.baseline is None else checked.baseline.run_id
    return replace(request, stop=StopRequest(settings, run_id, is_explicit=True))


@contextmanager
def open_plan(
    plan: Plan,
    *,
    store: str | Path | None,
    limit: int | None = None,
    tags: Sequence[str] = (),
    variants: SampleTransform | None = None,
    samples: SampleSet | None = None,
    is_checked: bool = False,
) -> Iterator[tuple[RunRequest, RunStore, str]]:
    """Prepare a plan and open its store: the request of its run, the store and where it is.

    Afterwards the system is closed. Errors contain no secrets of the plan. The warnings about a plan that
    ``is_checked`` were shown before.
    """
    prepared = prepare(plan, limit=limit, variants=variants, samples=samples)
    if samples is not None and limit is not None:
        samples = samples.restrict(prepared.samples)
    secrets = Secrets(plan.secrets)
    with secrets.redact_errors(), closing_system(prepared.system, secrets):
        for warning in () if is_checked else prepared.warnings:
            warn(secrets.message(warning))
        where = default_store(store, plan.store)
        with RunStore.open(where, secrets=plan.secrets) as opened:
            yield plan_request(prepared, tags, store=where, samples=samples), opened, where


@contextmanager
def open_new_store(store: str | Path | RunStore | None) -> Iterator[tuple[RunStore, str | None]]:
    """Open or create a store, and where it is; a store that is passed open stays open."""
    if isinstance(store, RunStore):
        yield store, None
    else:
        where = default_store(store)
        with RunStore.open(where) as opened:
            yield opened, where


def run_system(
    system: object,
    dataset: EvaluationDataset | Sequence[EvaluationSample],
    metrics: Metrics = (),
    *,
    store: str | Path | RunStore | None = None,
    name: str | None = None,
    top_k: int = 10,
    concurrency: int = 1,
    timeout: float | None = None,
    retries: int = 0,
    max_failures: int | None = None,
    keep_going: bool = False,
    on_error: Literal["record", "raise"] = "record",
    repeats: int = 1,
    conventions: str | Conventions = "auepora",
    match: MatchChoice | None = None,
    slices: Iterable[SliceSpec] | SliceSpec = (),
    judging: JudgePolicy | None = None,
    config: Mapping[str, Any] | None = None,
    tags: Sequence[str] = (),
    stop: Stop | None = None,
    watcher: RunCallbacks = RunCallbacks(),
) -> RunOutcome:
    """Run a live system on a dataset, store its outputs and score them: ``auepora run`` without a plan file.

    By default there is one call at a time and no timeout. The run stops if its first 10 calls all fail in the same way,
    and after 20 connection errors in a row, unless ``keep_going`` is set; with ``on_error="raise"`` the first exception
    of the system is raised, and what was stored can be resumed. Without ``metrics``, all that the data
    supports are computed. ``judging`` is the policy for judge calls. ``config`` describes the system, in addition to
    its own attribute ``config``. ``match`` is how gold is matched with retrieved documents: ``auto``, ``id``, ``span``,
    ``text`` or ``parent``; by default as in ``conventions``.

    Args:
        system: A function, an object with ``run``, or an object of a framework; ``dataset`` has the samples.
        store: A store, or the path of one, which is made if need be; ``name`` and ``tags`` are those of the run.
        top_k: Documents to ask for, with ``concurrency`` calls at once and ``repeats`` of each sample.
        timeout: Seconds for a call, with ``retries``; the run stops after ``max_failures`` failures.
        slices: Labels or metadata to break results down by.
        stop: Stops the run from another thread; ``watcher`` gets the progress.

    Returns:
        How the run ended, with its record and results.

    Example:
        >>> outcome = run_system(system, samples, ["recall@1"], store="runs.sqlite", name="again")
        >>> outcome.ended, outcome.results.by_name["recall@1"].value
        ('finished', 0.5)
    """
    request = system_request(
        system,
        dataset,
        metrics,
        name=name,
        policy=policy_class(on_error)(
            top_k, concurrency, timeout, retries, max_failures=max_failures, keep_going=keep_going
        ),
        repeats=repeats,
        conventions=conventions,
        match=match,
        slices=slices,
        judging=judging,
        config=config,
        tags=tags,
    )
    with open_new_store(store) as (opened, where):
        return replace(start_run(request, opened, stop=stop, watcher=watcher), store=where)


def system_request(
    system: object,
    dataset: EvaluationDataset | Sequence[EvaluationSample],
    metrics: Metrics = (),
    *,
    name: str | None = None,
    policy: CallPolicy,
    repeats: PositiveInt = 1,
    conventions: str | Conventions = "auepora",
    slices: Iterable[SliceSpec] | SliceSpec = (),
    judging: JudgePolicy | None = None,
    config: Mapping[str, Any] | None = None,
    tags: Sequence[str] = (),
    match: MatchChoice | None = None,
) -> RunRequest:
    """Check the arguments and build the request of a run of a live system; nothing is called yet."""
    samples = list(dataset)
    if not samples:
        raise BadValueError("there are no samples")
    rules = Conventions.of(conventions)
    if match is not None and match != "auto":
        rules = replace(rules, match=match)
    chosen = resolve_metrics(metrics, rules) or None
    groups = check_before_calls(samples, chosen or [], slices)
    run_name = name or type(system).__name__
    system = adapt(system)  # before it is described, so that the stored plan names the framework
    as_system(system)
    check_options(system_request, {"repeats": repeats})
    dataset_name = dataset.name if isinstance(dataset, EvaluationDataset) else "dataset"
    plan = {
        "version": 1,
        "name": run_name,
        "dataset": {"name": dataset_name},
        "system": describe_system(system),
        "conventions": _conventions_dict(rules),
        "metrics": None if chosen is None else metric_specs(chosen),
        "slices": [group.name for group in groups if group.name.startswith(("labels.", "metadata."))] or None,
        "run": {**policy.stored(), "repeats": repeats},
    }
    return RunRequest(
        name=run_name,
        dataset_name=dataset_name,
        samples=samples,
        metrics=chosen,
        conventions=rules,
        match=match or rules.match,
        system=system,
        policy=policy,
        repeats=repeats,
        slices=groups,
        judging=judging or JudgePolicy(),
        plan=plan,
        config=_config({}, system, config or {}),
        commit=git_commit(Path.cwd()),
        tags=tags,
    )


def plan_request(
    prepared: PreparedPlan, tags: Sequence[str] = (), *, store: str | None = None, samples: SampleSet | None = None
) -> RunRequest:
    """The request of a run of a plan. ``store`` is its store; the cache of judgements lies in the same folder."""
    plan = prepared.plan
    part = {} if samples is None else {"samples": samples.to_plan()}
    return RunRequest(
        name=plan.name,
        dataset_name=plain_stem(plan.dataset.path),
        samples=prepared.samples,
        metrics=prepared.metrics,
        conventions=prepared.conventions,
        targets=plan.targets,
        match=plan.match,
        system=prepared.system,
        outputs=prepared.outputs,
        policy=plan.policy,
        repeats=plan.repeats if prepared.outputs is None else 1,
        slices=prepared.slices,
        options=plan.scoring,
        judging=plan.judge.policy_for(store, plan.folder),
        two_stage=plan.judge.two_stage,
        secrets=plan.secrets,
        corpus=plan.dataset.corpus,
        # The stored plan has the conventions that 'auto' resolved to, for rescoring.
        plan={**plan.resolved, "conventions": _conventions_dict(prepared.conventions), **part},
        config=_config(plan.config, prepared.system, {}),
        commit=git_commit(plan.folder),
        tags=tags,
    )


def _with_gates_and_report(outcome: RunOutcome, plan: Plan, store: RunStore, baseline: RunRecord | None) -> RunOutcome:
    """Check the gates of the plan if the run was scored, tag the run with their outcome, and write its report.

    Failing to write the report is only a warning.
    """
    if outcome.results is None:
        return outcome
    if plan.gates:
        from ..gates import check_run, tag_gate_outcome

        report = check_run(store, outcome.record, outcome.results, plan.gates, baseline=baseline)
        outcome = replace(outcome, gates=report, record=tag_gate_outcome(store, outcome.record.run_id, report))
    if plan.report is not None:
        from ..report.pages import write_report

        try:
            outcome = replace(outcome, report=write_report(outcome.record, plan.report, store=store))
        except DataFileError as error:
            warn(f"the report was not written: {error}")
    return outcome


def _find_resumable(store: RunStore, request: RunRequest, run: str | None) -> RunRecord:
    """Find the run to resume, by default the latest one that is not finished; raises if plan or dataset has changed."""
    record = _latest_run(store, request.name, run)
    if record is None:
        raise UnknownRunError(f"there is no run called '{request.name}' to resume; leave out --resume to start one")
    changed = plan_changes(record.plan, store.as_stored(dict(request.plan)))  # secrets are masked in stored plans
    if changed:
        advice = "start a new run without --resume, or undo the change"
        if all(change.startswith("metrics:") for change in changed):
            advice = (
                f"{advice}; `auepora rescore {record.run_id} -m METRIC` computes other metrics on its stored outputs"
            )
        raise BadValueError(
            f"cannot resume {record.run_id}: the plan has changed since ({'; '.join(changed[:5])}); {advice}"
        )
    if dataset_fingerprint(request.samples) != record.fingerprint:
        raise BadValueError(
            f"cannot resume {record.run_id}: the dataset has changed since ({_first_change(store, record, request)}); "
            "start a new run without --resume, or restore the old samples"
        )
    return record


def _latest_run(store: RunStore, name: str, run: str | None) -> RunRecord | None:
    """The run ``run``, else the latest unfinished one of that name, else the latest; ``None`` if there is none."""
    if run is not None:
        return store.find(run)
    records = store.runs(name=name)
    return next(
        (record for record in records if record.status is not RunStatus.FINISHED), records[0] if records else None
    )


def _first_change(store: RunStore, record: RunRecord, request: RunRequest) -> str:
    """The first difference between the stored samples and those of the request."""
    before = store.samples(record.run_id)
    if len(before) != len(request.samples):
        return f"it had {len(before)} samples, now {len(request.samples)}"
    pairs = zip(before, request.samples, strict=True)
    changed = next(new for old, new in pairs if dataset_fingerprint([old]) != dataset_fingerprint([new]))
    return f"sample '{changed.sample_id}' has changed"


def _conventions_dict(rules: Conventions) -> dict[str, Any]:
    return {"name": rules.name, **to_json_value(rules.changes())}


def metric_specs(metrics: Sequence[Metric]) -> list[Spec] | None:
    """Specs from which the metrics can be built again; ``None`` if one of them is not registered."""
    try:
        return [to_json_value(spec_of(metric)) for metric in metrics]
    except MetricDefinitionError:
        return None


def describe_system(system: object) -> dict[str, Any]:
    """A live system as an entry of a stored plan: its class and ``config``; for a pair, those of each part."""
    parts = _parts(system)
    if len(parts) == 2:
        retriever, generator = parts
        return {
            "retriever": describe_system(retriever),
            "generator": None if generator is None else describe_system(generator),
        }
    kind = system if isinstance(system, FunctionType) else type(system)
    config = _config({}, system, {})
    return {"object": f"{kind.__module__}.{kind.__qualname__}", **({"config": config} if config else {})}


def _parts(system: object) -> Sequence[object]:
    """Retriever and generator if they are separate, else the system itself."""
    if type(system) is SimpleRAGSystem:
        return system.retriever, system.generator
    return system if isinstance(system, (tuple, list)) and len(system) == 2 else (system,)


def _config(planned: Mapping[str, Any], system: object, given: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of the system, from its attribute ``config``, the plan and the caller; without secrets."""
    merged: dict[Any, Any] = {}
    for part in _parts(system):
        own = getattr(part, "config", None)
        own = own() if callable(own) else own
        merged |= own if isinstance(own, Mapping) else {}
    merged |= {**planned, **given}
    return dict(to_json_value(redact_by_name(merged)))


@contextmanager
def closing_system(system: object, secrets: Secrets) -> Iterator[None]:
    """Close the system afterwards if it has ``close``; an error in it is only a warning."""
    try:
        yield
    finally:
        closing = [getattr(part, "close", None) for part in _parts(system)]
        for close in filter(callable, closing):
            try:
                close()
            except Exception as error:
                warn(secrets.message(f"the system raised {type(error).__name__} when it was closed: {error}"))


def warn(message: str) -> None:
    """Emit a warning about a run."""
    warnings.warn(message, AueporaWarning, stacklevel=3)


# --- the git commit of the user's repository, stored with a run ----------------------------------------------------

_GIT_TIMEOUT_S = 5.0
"""Timeout of a git command."""


def git_commit(folder: Path) -> str | None:
    """The commit of a folder, with ``+changes`` if files differ from it; ``None`` outside a repository."""
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return None
    return f"{commit}+changes" if _git(folder, "status", "--porcelain", "--untracked-files=no") else commit


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603 -- the arguments are ours
            ["git", "-C", str(folder), *arguments],  # noqa: S607 -- the user's own git
            capture_output=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None
