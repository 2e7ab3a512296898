"""Plan files and live objects as runs: what ``auepora run`` calls, and what a script would."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import Any

from ..adapters.auto_adapt import adapt
from ..calling.policy import CallPolicy
from ..calling.stop import Stop
from ..calling.systems import as_system
from ..core.batch import check_samples
from ..core.conventions import Conventions
from ..core.dataset import EvaluationDataset
from ..core.engine import Metrics, resolve_metrics
from ..core.errors import AueporaWarning, BadValueError, DataFileError, MetricDefinitionError, UnknownRunError
from ..core.metrics_base import Metric
from ..core.plan import EvaluationPlan
from ..core.rag_interface import SimpleRAGSystem
from ..core.registry import Spec, spec_of
from ..core.results import to_json_value
from ..core.runner import require_distinct_ids, require_ready
from ..core.secrets import Secrets, redact_by_name
from ..core.slices import SliceSpec, parse_slices, require_slice_values
from ..core.types import EvaluationSample, SystemOutputs, UnknownRanking
from ..gates.baseline import check_run, get_baseline, tag_gate_outcome
from ..gates.kinds import needs_baseline
from ..io.files import plain_stem
from ..io.fingerprint import dataset_fingerprint
from ..io.jsonl import OutputsFile
from ..judge.policy import JudgePolicy
from ..planfile.changes import plan_changes
from ..planfile.plan import Plan
from ..planfile.prepare import PreparedPlan, prepare
from ..planfile.read import read_plan
from ..store.records import RunRecord, RunStatus
from ..store.runs import RunStore
from .provenance import git_commit
from .run import RunCallbacks, RunOutcome, RunRequest, resume_run, start_run
from .scoring import ScoringOptions

__all__ = [
    "closing_system",
    "default_store",
    "describe_system",
    "metric_specs",
    "plan_request",
    "run_plan",
    "run_system",
    "system_request",
]

DEFAULT_STORE = "runs.sqlite"


def default_store(given: str | Path | None = None, planned: str | None = None) -> str:
    """Which store is meant: the one given, else the plan's, else ``$AUEPORA_STORE``, else ``runs.sqlite`` here.

    In an address that is given or set, ``${NAME}`` stands for a variable, as it does in plans.
    """
    if given is None and planned is not None:
        return planned
    chosen = str(given or os.environ.get("AUEPORA_STORE") or DEFAULT_STORE)
    return os.path.expandvars(chosen) if "://" in chosen else chosen


def run_plan(
    path: str | Path,
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
    watcher: RunCallbacks = RunCallbacks(),  # noqa: B008 -- frozen
) -> RunOutcome:
    """Carry out the plan in a file, or go on with a run of it.

    ``changes`` replace keys of the plan (``{"run.concurrency": 4}``), ``limit`` takes the first samples only. With
    ``resume`` the latest run of the plan that did not end goes on, or the one named by ``run``; with ``retry_failed``
    what failed is asked again. A plan or dataset that changed since is refused. The plan's gates are checked at the
    end; ``against`` names the run that they compare with, by default the latest of the same name and samples before it.
    """
    plan = read_plan(path, changes=changes)
    if against is not None and not any(map(needs_baseline, plan.gates)):
        raise BadValueError(f"no gate of {path} compares runs, so there is nothing to do with the run '{against}'")
    prepared = prepare(plan, limit=limit)
    secrets = Secrets(plan.secrets)
    with secrets.redact_errors(), closing_system(prepared.system, secrets):
        for remark in prepared.remarks:
            _warn(secrets.message(remark))
        where = default_store(store, plan.store)
        with RunStore.open(where, secrets=plan.secrets) as opened:
            baseline = None if against is None else get_baseline(opened, against)  # a slip here must not cost a run
            request = plan_request(prepared, tags, store=where)
            if resume:
                record = _find_resumable(opened, request, run, retry_failed=retry_failed)
                outcome = resume_run(request, opened, record, retry_failed=retry_failed, stop=stop, watcher=watcher)
            else:
                outcome = start_run(request, opened, stop=stop, watcher=watcher)
            outcome = _with_gates(outcome, plan, opened, baseline)
            return replace(_with_report(outcome, plan, opened), store=where)


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
    repeats: int = 1,
    conventions: str | Conventions = "auepora",
    slices: Iterable[SliceSpec] | SliceSpec = (),
    judging: JudgePolicy | None = None,
    config: Mapping[str, Any] | None = None,
    tags: Sequence[str] = (),
    stop: Stop | None = None,
    watcher: RunCallbacks = RunCallbacks(),  # noqa: B008 -- frozen
) -> RunOutcome:
    """Run a live system over a dataset, store what it answers, score it: ``auepora run`` without a plan file.

    One call at a time, waiting as long as it takes, unless told otherwise: a plan's defaults are for systems that are
    served. After 20 connection errors in a row the run stops, unless ``keep_going`` is set. Without ``metrics``,
    everything the data supports is computed. ``judging`` says how judges are asked, where a metric needs one.
    ``config`` says what the system is made of, beside what its own ``config`` says.
    """
    request = system_request(
        system,
        dataset,
        metrics,
        name=name,
        policy=CallPolicy(top_k, concurrency, timeout, retries, max_failures=max_failures, keep_going=keep_going),
        repeats=repeats,
        conventions=conventions,
        slices=slices,
        judging=judging,
        config=config,
        tags=tags,
    )
    if isinstance(store, RunStore):
        return start_run(request, store, stop=stop, watcher=watcher)
    where = default_store(store)
    with RunStore.open(where) as opened:
        return replace(start_run(request, opened, stop=stop, watcher=watcher), store=where)


def system_request(
    system: object,
    dataset: EvaluationDataset | Sequence[EvaluationSample],
    metrics: Metrics = (),
    *,
    name: str | None = None,
    policy: CallPolicy,
    repeats: int = 1,
    conventions: str | Conventions = "auepora",
    slices: Iterable[SliceSpec] | SliceSpec = (),
    judging: JudgePolicy | None = None,
    config: Mapping[str, Any] | None = None,
    tags: Sequence[str] = (),
) -> RunRequest:
    """The run of a live system over a dataset, checked; nothing is called yet."""
    samples = list(dataset)
    if not samples:
        raise BadValueError("there are no samples to ask the system for")
    check_samples(samples)
    require_distinct_ids(samples)
    rules = Conventions.of(conventions)
    chosen = resolve_metrics(metrics, rules) or None
    groups = parse_slices(slices)
    EvaluationPlan(chosen or []).validate_dataset(samples)
    require_slice_values(groups, samples)
    require_ready(chosen or [])
    called = name or type(system).__name__
    system = adapt(system)  # here, so that the run is told which framework it was
    as_system(system)
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise BadValueError(f"repeats must be a whole number of at least 1, not {repeats!r}")
    dataset_name = dataset.name if isinstance(dataset, EvaluationDataset) else "dataset"
    plan = {
        "version": 1,
        "name": called,
        "dataset": {"name": dataset_name},
        "system": describe_system(system),
        "conventions": _conventions_dict(rules),
        "metrics": None if chosen is None else metric_specs(chosen),
        "slices": [one.name for one in groups if one.name.startswith(("labels.", "metadata."))] or None,
        "run": {**policy.stored(), "repeats": repeats},
    }
    return RunRequest(
        name=called,
        dataset_name=dataset_name,
        samples=samples,
        metrics=chosen,
        conventions=rules,
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


def plan_request(prepared: PreparedPlan, tags: Sequence[str] = (), *, store: str | None = None) -> RunRequest:
    """The run that a plan asks for. ``store`` is where it is kept: judgements lie beside it."""
    plan = prepared.plan
    scoring = plan.scoring
    return RunRequest(
        name=plan.name,
        dataset_name=plain_stem(plan.dataset.path),
        samples=prepared.samples,
        metrics=prepared.metrics,
        conventions=prepared.conventions,
        system=prepared.system,
        outputs=None if prepared.outputs is None else _mark_unknown_rankings(prepared.outputs),
        policy=plan.policy,
        repeats=plan.repeats if prepared.outputs is None else 1,
        slices=prepared.slices,
        options=ScoringOptions(scoring.executor, scoring.workers, scoring.batch_size, scoring.address),
        judging=plan.judge.policy_for(store, plan.folder),
        secrets=plan.secrets,
        corpus=plan.dataset.corpus,
        # What 'auto' came to belongs to the run: who scores it again must not have to guess.
        plan={**plan.resolved, "conventions": _conventions_dict(prepared.conventions)},
        config=_config(plan.config, prepared.system, {}),
        commit=git_commit(plan.folder),
        tags=tags,
    )


def _mark_unknown_rankings(saved: OutputsFile) -> Mapping[str, SystemOutputs]:
    """Saved outputs; where none of them says what was retrieved, that is kept apart from nothing."""
    if not saved.answers_only:
        return saved.outputs
    return {name: replace(output, retrieved=UnknownRanking()) for name, output in saved.outputs.items()}


def _with_gates(outcome: RunOutcome, plan: Plan, store: RunStore, baseline: RunRecord | None) -> RunOutcome:
    """The outcome, with how the plan's gates went if it came to scoring; the run is tagged with that."""
    if not plan.gates or outcome.results is None:
        return outcome
    report = check_run(store, outcome.record, outcome.results, plan.gates, baseline=baseline)
    return replace(outcome, gates=report, record=tag_gate_outcome(store, outcome.record.run_id, report))


def _with_report(outcome: RunOutcome, plan: Plan, store: RunStore) -> RunOutcome:
    """The outcome, with the report that the plan asks for; one that cannot be written costs no result."""
    if plan.report is None or outcome.results is None:
        return outcome
    from ..reporting.html.page import write_report

    try:
        return replace(outcome, report=write_report(outcome.record, plan.report, store=store))
    except DataFileError as error:
        _warn(f"the report was not written: {error}")
        return outcome


def _find_resumable(store: RunStore, request: RunRequest, run: str | None, *, retry_failed: bool) -> RunRecord:
    """The run to go on with; one whose plan or dataset is another now is refused."""
    if run is not None:
        record = store.find(run)
    else:
        records = store.runs(name=request.name)
        unfinished = [one for one in records if one.status is not RunStatus.FINISHED]
        if not records:
            raise UnknownRunError(f"there is no run called '{request.name}' to resume; leave out --resume to begin one")
        if not unfinished and not retry_failed:
            raise UnknownRunError(
                f"every run called '{request.name}' is finished, the latest being {records[0].run_id}; "
                "--retry-failed asks again what failed in it"
            )
        record = (unfinished or records)[0]
    changed = plan_changes(record.plan, store.as_stored(dict(request.plan)))  # secrets are masked in what is stored
    if changed:
        raise BadValueError(
            f"cannot resume {record.run_id}: the plan has changed since ({'; '.join(changed[:5])}); "
            "begin a new run without --resume, or undo the change"
        )
    if dataset_fingerprint(request.samples) != record.fingerprint:
        raise BadValueError(
            f"cannot resume {record.run_id}: the dataset has changed since ({_first_change(store, record, request)}); "
            "begin a new run without --resume, or bring the old samples back"
        )
    return record


def _first_change(store: RunStore, record: RunRecord, request: RunRequest) -> str:
    """What is different first, in words."""
    before = store.samples(record.run_id)
    if len(before) != len(request.samples):
        return f"it had {len(before)} samples, now {len(request.samples)}"
    for old, new in zip(before, request.samples, strict=True):
        if dataset_fingerprint([old]) != dataset_fingerprint([new]):
            return f"sample '{new.sample_id}' is not as it was"
    return "some sample is not as it was"


def _conventions_dict(rules: Conventions) -> dict[str, Any]:
    return {"name": rules.name, **to_json_value(rules.changes())}


def metric_specs(metrics: Sequence[Metric]) -> list[Spec] | None:
    """Specs that build the metrics again; ``None`` where one is not registered and has none."""
    try:
        return [to_json_value(spec_of(one)) for one in metrics]
    except MetricDefinitionError:
        return None


def describe_system(system: object) -> dict[str, Any]:
    """A live system as a plan has it: what its class is called and what it says it is made of; of a pair, each part."""
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
    """A retriever and a generator where they are apart, else the system itself."""
    if type(system) is SimpleRAGSystem:
        return system.retriever, system.generator
    return system if isinstance(system, (tuple, list)) and len(system) == 2 else (system,)


def _config(planned: Mapping[str, Any], system: object, given: Mapping[str, Any]) -> dict[str, Any]:
    """What the system is made of, by the plan, by its own account and by the caller's; without secrets."""
    merged: dict[Any, Any] = {}
    for part in _parts(system):
        own = getattr(part, "config", None)
        own = own() if callable(own) else own
        merged |= own if isinstance(own, Mapping) else {}
    merged |= {**planned, **given}
    config: dict[str, Any] = to_json_value(redact_by_name(merged))
    return config


@contextmanager
def closing_system(system: object, secrets: Secrets) -> Iterator[None]:
    """Close the system afterwards, where there is anything to close. One that cannot be closed costs no result."""
    try:
        yield
    finally:
        closing = [getattr(part, "close", None) for part in _parts(system)]
        for close in filter(callable, closing):
            try:
                close()
            except Exception as error:
                _warn(secrets.message(f"the system raised {type(error).__name__} when it was closed: {error}"))


def _warn(remark: str) -> None:
    import warnings

    warnings.warn(remark, AueporaWarning, stacklevel=3)
