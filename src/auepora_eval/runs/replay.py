"""Swap replay: the generator of run B answers from the documents of run A, to separate retrieval from generation."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from ..compare.rendering import split_table
from ..compare.runs import MetricSplit, split_difference
from ..core.conventions import Signature
from ..core.metrics_base import BatchMetric, Metric, sample_clusters
from ..core.registry import use_resources
from ..core.results import Results, display_name
from ..core.scores import Scores
from ..core.types import (
    EvaluationSample,
    MetricResult,
    RetrievedDocument,
    SystemOutputs,
    TargetCategory,
    UnknownRanking,
)
from ..engine.evaluate import Metrics, resolve_metrics
from ..errors import AueporaError, BadTypeError, BadValueError, SystemCallError
from ..plan.model import plan_changes
from ..plan.resources import used_resources
from ..render.block_report import BlockReport
from ..render.blocks import Block, Bullets
from ..runtime.imports import search_folders
from ..store.records import RunRecord, RunStatus, StoredOutput, plan_conventions, run_info
from ..store.rows import REPLAY_TAG
from ..store.runs import RunStore
from ..systems.calls import Stop
from ..systems.interfaces import RETRIEVER_NOT_CALLED, System, as_system, split_system
from ..systems.policy import CallPolicy
from .job import evaluate_outputs
from .judging import common_samples, judges_of_run
from .outcome import RunOutcome
from .run import (
    RunCallbacks,
    RunRequest,
    describe_system,
    metric_specs,
    resume_run,
    start_run,
)

# --- the system of a replay must be the system of the run it replays -------------------------------------------------

_PAIRS = ("builtins.tuple", "builtins.list")
"""Classes under which earlier versions stored a pair."""


def check_replay_system(
    system: object, planned: Mapping[str, Any] | None, store: RunStore, record: RunRecord
) -> tuple[dict[str, Any], list[str]]:
    """The system as a plan entry, and notes; raises ``BadValueError`` if the run used another system."""
    stored = dict(record.plan.get("system") or {})
    if planned is not None:
        entry = store.as_stored(dict(planned))
        _require_same(record, stored, entry, "its plan builds another system")
        return entry, []
    live = store.as_stored(describe_system(system))
    # Only the generator is called, so only the generator must be the same; a whole system is compared as a whole.
    whole = "generator" not in live and any(
        callable(getattr(system, name, None)) for name in ("run", "arun", "retrieve")
    )
    live_part, stored_part = (described.get("generator") or described for described in (live, stored))
    if whole is not (stored_part is stored) or stored_part.get("object", _PAIRS[0]) in _PAIRS:
        return live, [f"whether this is the generator of {record.run_id} is unknown: its plan does not describe it"]
    _require_same(record, stored_part, live_part, "it was made by another one")
    return live, []


def _require_same(record: RunRecord, stored: Mapping[str, Any], given: Mapping[str, Any], problem: str) -> None:
    changed = plan_changes({"system": stored}, {"system": given})
    if changed:
        raise BadValueError(
            f"this is not the system of {record.run_id} ({record.name}): {problem} ({'; '.join(changed[:5])}); "
            "a replay needs the system of run B"
        )


# --- a system with a replaced retriever: it answers from stored documents of another run -----------------------------

_REQUIREMENTS = (
    "a replay needs a system in two parts: a pair (retriever, generator), an object with retrieve() and generate(), "
    "one whose run() uses its attribute 'retriever', such as a SimpleRAGSystem, one whose run() takes documents, or "
    "the generator alone"
)


@dataclass(frozen=True, slots=True)
class ReplayContext:
    """The documents that a run retrieved for a sample, in order, or why there are none."""

    retrieved: Sequence[RetrievedDocument]
    missing: str | None = None


class _FixedRetriever:
    """A retriever that returns the same documents for every query."""

    def __init__(self, retrieved: Sequence[RetrievedDocument]) -> None:
        self.retrieved = list(retrieved)
        self.called = False

    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        """All documents, whatever ``top_k`` is: a replay uses what the other run retrieved."""
        self.called = True
        return list(self.retrieved)


class _AsyncFixedRetriever(_FixedRetriever):
    """``_FixedRetriever`` for a system that awaits its retriever."""

    async def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:  # type: ignore[override]
        """All documents."""
        return super().retrieve(query, top_k=top_k)


def make_replay_system(
    system: object, contexts: Mapping[str, ReplayContext], *, requirements: str = _REQUIREMENTS
) -> System:
    """The system with the documents of ``contexts`` for each sample; raises ``BadTypeError`` if it has no retriever.

    The message begins with the ``requirements``. Its outputs contain these documents, whatever else the system does
    with them.
    """
    parts = split_system(system, requirements)
    if not parts.answers:
        raise BadTypeError(f"{requirements}; not a {type(system).__name__}")
    # The retriever of a pair is called here; a system that calls it itself may expect a coroutine.
    awaits = parts.whole and inspect.iscoroutinefunction(getattr(parts.retriever, "retrieve", None))
    kind = _AsyncFixedRetriever if awaits else _FixedRetriever
    probe = as_system(parts.build(kind([])))

    def begin(sample: EvaluationSample, top_k: int) -> tuple[_FixedRetriever, Any]:
        context = contexts[sample.sample_id]
        if context.missing is not None:
            raise SystemCallError("no_context", context.missing)
        retriever = kind(context.retrieved)
        return retriever, as_system(parts.build(retriever)).call(sample, top_k)

    def call(sample: EvaluationSample, top_k: int) -> Any:
        return _with_documents(*begin(sample, top_k))

    async def acall(sample: EvaluationSample, top_k: int) -> Any:
        retriever, pending = begin(sample, top_k)
        return _with_documents(retriever, await pending)

    return System(probe.called, probe.is_async, acall if probe.is_async else call)


def _with_documents(retriever: _FixedRetriever, output: Any) -> Any:
    if not isinstance(output, SystemOutputs):
        return output  # the caller reports the error
    extra = dict(output.extra) if retriever.called else {**output.extra, RETRIEVER_NOT_CALLED: True}
    return replace(output, retrieved=retriever.retrieved, extra=extra)


def stored_answers(store: RunStore, record: RunRecord) -> list[SystemOutputs]:
    """The stored outputs of a run that did not fail, without document texts."""
    return [row.output for row in store.outputs(record.run_id, texts=False) if row.output.error is None]


def unasked_notes(outputs: Sequence[SystemOutputs], consequence: str) -> list[str]:
    """A note on answers given without calling the replaced retriever; raises if all were."""
    unasked = sum(RETRIEVER_NOT_CALLED in output.extra for output in outputs)
    if outputs and unasked == len(outputs):
        raise BadValueError(
            f"the system answered every sample without calling its 'retriever', so {consequence}; "
            "give its parts as a pair (retriever, generator)"
        )
    return [f"{unasked} of {len(outputs)} answers were given without calling the retriever"] if unasked else []


# --- stored documents of each sample of a run ------------------------------------------------------------------------


def stored_contexts(
    store: RunStore, record: RunRecord, samples: Sequence[EvaluationSample]
) -> tuple[dict[str, ReplayContext], list[str]]:
    """The documents of each sample, from the first repeat that has any, and notes on them."""
    missing = f"{record.run_id} has no output for this sample"
    found = {sample.sample_id: ReplayContext((), missing) for sample in samples}
    differing: set[str] = set()
    for row in store.outputs(record.run_id):
        known = found.get(row.sample_id)
        if known is None:
            continue
        require_ranking(record, row, "it cannot be replayed; let its system return its documents, and run it again")
        if known.missing is not None:
            failed = row.output.error is not None and not row.output.retrieved
            why = f"{record.run_id} failed before it had documents: {row.output.error}" if failed else None
            found[row.sample_id] = ReplayContext(row.output.retrieved, why)
        elif row.output.error is None and _ids(row.output.retrieved) != _ids(known.retrieved):
            differing.add(row.sample_id)
    for name, context in found.items():
        if context.retrieved and not any(item.doc.text for item in context.retrieved):
            raise BadValueError(
                f"{record.run_id} ({record.name}) has documents without their texts (sample '{name}': "
                f"'{context.retrieved[0].doc.doc_id}'), so it cannot be replayed; run its system again so that "
                "it returns documents with 'text'"
            )
    notes = []
    if without := [name for name, context in found.items() if context.missing is not None]:
        notes.append(
            f"run A has no documents for {len(without)} of {len(found)} samples, on which it failed (first: "
            f"'{without[0]}'): the replay fails there too, so what that cost counts as retrieval"
        )
    if differing:
        notes.append(f"run A's repeats differ in their documents on {len(differing)} samples; the first are replayed")
    documents = chain.from_iterable(context.retrieved for context in found.values())
    if empty := sum(not item.doc.text for item in documents):
        notes.append(f"{empty} of the replayed documents have an empty text")
    return found, notes


def require_ranking(record: RunRecord, row: StoredOutput, consequence: str) -> None:
    """Raise if the documents of an output are unknown; ``consequence`` ends the message."""
    if isinstance(row.output.retrieved, UnknownRanking) and row.output.error is None:
        raise BadValueError(
            f"{record.run_id} ({record.name}) has no 'retrieved' for sample '{row.sample_id}', so {consequence}"
        )


def _ids(retrieved: Sequence[RetrievedDocument]) -> list[str]:
    return [item.doc.doc_id for item in retrieved]


# --- the replay, and its report --------------------------------------------------------------------------------------

LEFT_OUT_NOTE = (
    "left out: samples without a score in one of the three runs; where the answer decides whether a metric applies, "
    "B - A over the others is not the difference of the two runs' own values"
)
"""Note on samples that were left out."""

_RETRIEVAL_KEYS = ("chunker_version", "embedding", "embedding_version")


@dataclass(frozen=True, slots=True)
class ReplayReport(BlockReport):
    """The result of a replay: per metric, the difference between two runs and its retrieval and generation parts."""

    run_a: str
    run_b: str
    outcome: RunOutcome
    """The outcome of the replay run."""
    splits: list[MetricSplit] = field(default_factory=list)
    """Empty if the replay did not finish."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Reasons of the metrics that were not split."""
    notes: list[str] = field(default_factory=list)
    """Notes on the data of the replay."""

    @property
    def by_name(self) -> dict[str, MetricSplit]:
        """The splits by the name of their metric."""
        return {split.name: split for split in self.splits}

    def to_dict(self) -> dict[str, Any]:
        """As a JSON-compatible dict."""
        return {
            "schema": 1,
            "run_a": self.run_a,
            "run_b": self.run_b,
            "replay": self.outcome.record.run_id,
            "ended": self.outcome.ended,
            "metrics": {split.name: split.to_dict() for split in self.splits},
            "refused": dict(self.refused),
            "notes": list(self.notes),
        }

    def blocks(self) -> list[Block]:
        """A table of the differences and their parts with intervals, then all notes."""
        left_out = [LEFT_OUT_NOTE] if any(split.left_out for split in self.splits) else []
        not_split = [f"not split: {name} ({why})" for name, why in self.refused.items()]
        return [split_table(self.splits), Bullets([*self.notes, *left_out, *not_split])]


def swap_replay(
    system_b: object,
    store: RunStore,
    record_a: RunRecord,
    record_b: RunRecord,
    metrics: Metrics = (),
    *,
    planned: Mapping[str, Any] | None = None,
    policy: CallPolicy = CallPolicy(),
    fresh: bool = False,
    retry_failed: bool = False,
    stop: Stop | None = None,
    watcher: RunCallbacks = RunCallbacks(),
) -> ReplayReport:
    """Let the generator of run B answer from the documents of run A, and split the difference between the runs.

    ``system_b`` is the system of run B in two parts, or its generator (see ``make_replay_system``). It
    must be the system of run B: ``planned``, the ``system`` of the plan that built it, is compared with that of run B;
    for a live object, its class and ``config`` are compared. The answers are stored as a run with the tag ``replay``.
    An unfinished replay of the same system is resumed, and a finished one is reused unless ``fresh`` is set.
    ``metrics`` are those of run B unless given. The samples are those that both runs have.

    If run A failed before it had any documents, the replay fails too: that loss counts as retrieval.
    """
    for record in (record_a, record_b):
        if record.status is not RunStatus.FINISHED:
            raise BadValueError(f"{record.run_id} ({record.name}) is {record.status.value}; wait for it, or resume it")
    refused: dict[str, str] = {}
    specs: Any = metrics or record_b.plan.get("metrics") or ()
    judges = judges_of_run(store, record_b, specs)
    with search_folders(judges.folder, Path.cwd()), use_resources(judges.build(list(used_resources(specs)))):
        chosen = _select_metrics(specs, store, record_b, refused)
    samples = common_samples(store, record_a, record_b)
    contexts, notes = stored_contexts(store, record_a, samples)
    system = make_replay_system(system_b, contexts)
    origin, origin_notes = check_replay_system(system_b, planned, store, record_b)
    notes += origin_notes
    request = _request(system, origin, (record_a, record_b), samples=samples, metrics=chosen, policy=policy)
    request = replace(request, judging=judges.settings.policy_for(store.file, judges.folder))
    expected = store.as_stored(request.plan["system"])
    replays = [] if fresh else store.runs(name=request.name, tag=REPLAY_TAG)
    earlier = next((replay for replay in replays if replay.plan.get("system") == expected), None)
    if earlier is None:
        outcome = start_run(request, store, stop=stop, watcher=watcher)
    else:
        outcome = resume_run(request, store, earlier, retry_failed=retry_failed, stop=stop, watcher=watcher)
    report = ReplayReport(record_a.run_id, record_b.run_id, outcome, refused=refused, notes=notes)
    if outcome.results is None:
        return report
    notes += unasked_notes(stored_answers(store, outcome.record), f"{outcome.record.run_id} replays nothing")
    return replace(report, splits=_splits(store, (record_a, record_b), outcome, request, refused))


def _select_metrics(metrics: Metrics, store: RunStore, record: RunRecord, refused: dict[str, str]) -> list[BatchMetric]:
    """The metrics to split: those given, else those of the plan of the run, else those of its results."""
    rules = plan_conventions(record)
    found = resolve_metrics(metrics, rules)
    for result in () if found else store.results(record.run_id):
        try:
            found += resolve_metrics([result.name], rules)
        except AueporaError:
            refused[result.name] = "not registered in this process: give it among the metrics"
    kept = []
    for metric in found:
        if not isinstance(metric, BatchMetric):
            refused[metric.name] = "has no score per sample"
        elif metric.target is TargetCategory.LATENCY:
            refused[metric.name] = "the latency of a replay is that of neither run"
        else:
            kept.append(metric)
    if not kept:
        reasons = "".join(f"; {name}: {why}" for name, why in refused.items())
        raise BadValueError(f"there is no metric to split a difference by{reasons}")
    return kept


def _request(
    system: System,
    origin: Mapping[str, Any],
    records: tuple[RunRecord, RunRecord],
    *,
    samples: Sequence[EvaluationSample],
    metrics: Sequence[Metric],
    policy: CallPolicy,
) -> RunRequest:
    record_a, record_b = records
    name = f"{record_a.name}|{record_b.name}-generator"
    depth = run_info(record_a).top_k  # metrics use the depth of the replayed documents
    config = {key: value for key, value in record_b.config.items() if key not in _RETRIEVAL_KEYS}
    config |= {key: record_a.config[key] for key in _RETRIEVAL_KEYS if key in record_a.config}
    return RunRequest(
        name=name,
        dataset_name=record_b.dataset_name,
        samples=samples,
        metrics=metrics,
        conventions=plan_conventions(record_b),
        system=system,
        gives_documents=True,
        policy=replace(policy, top_k=depth or policy.top_k),
        repeats=record_b.repeats,
        plan={
            "version": 1,
            "name": name,
            "dataset": {"name": record_b.dataset_name},
            "system": {"replay": {"contexts": record_a.run_id, "generator": record_b.run_id, "system": origin}},
            "conventions": record_b.plan.get("conventions"),
            **{key: record_b.plan[key] for key in ("gold", "resources", "judge") if record_b.plan.get(key)},
            "metrics": metric_specs(metrics),
            "run": {**policy.stored(), "top_k": depth, "repeats": record_b.repeats},
        },
        config=config,
        commit=record_b.commit,
        tags=(REPLAY_TAG,),
    )


def _splits(
    store: RunStore,
    records: tuple[RunRecord, RunRecord],
    outcome: RunOutcome,
    request: RunRequest,
    refused: dict[str, str],
) -> list[MetricSplit]:
    samples, info = request.samples, run_info(outcome.record)
    metrics = [metric for metric in request.metrics or () if isinstance(metric, BatchMetric)]
    names = [sample.sample_id for sample in samples]
    clusters = sample_clusters(samples)
    replayed = Results(outcome.results or ()).by_name
    results_a, results_b = (_results_by_metric(store, record, outcome.record, request, replayed) for record in records)
    splits = []
    for metric in metrics:
        name = metric.name
        first, middle, second = (results[name] for results in (results_a, replayed, results_b))
        signature, signature_a, signature_b = (
            Signature.parse(result.signature or "") for result in (middle, first, second)
        )
        fields = signature.differences(signature_a) or signature.differences(signature_b)
        columns = [result.scores for result in (first, middle, second) if isinstance(result.scores, Scores)]
        if fields:
            refused[name] = f"signatures of the runs differ (in: {', '.join(fields)})"
        elif len(columns) < 3:
            refused[name] = "has no score per sample"
        else:
            split = split_difference(
                metric.for_run(info),
                names,
                columns[0],
                columns[1],
                second=columns[2],
                clusters=clusters,
                label=display_name(middle),
            )
            splits.append(split)
    return splits


def _results_by_metric(
    store: RunStore, record: RunRecord, replay: RunRecord, request: RunRequest, replayed: Mapping[str, MetricResult]
) -> dict[str, MetricResult]:
    """The results of a run by metric: those that are stored with the signature of the replay, else computed."""
    found: dict[str, MetricResult] = {}
    if record.fingerprint == replay.fingerprint:
        for result in store.results(record.run_id, every_signature=True):
            known = replayed.get(result.name)
            if known is not None and known.signature == result.signature and isinstance(result.scores, Scores):
                found[result.name] = result
    missing = [metric for metric in request.metrics or () if metric.name not in found]
    return found | _compute(store, record, request, missing).by_name if missing else found


def _compute(store: RunStore, record: RunRecord, request: RunRequest, metrics: Sequence[Metric]) -> Results:
    samples = request.samples
    rows = {sample.sample_id: row for row, sample in enumerate(samples)}
    repeats: list[list[SystemOutputs | None]] = [[None] * len(samples) for _ in range(record.repeats)]
    for row in store.outputs(record.run_id):
        if row.sample_id in rows:
            repeats[row.repeat][rows[row.sample_id]] = row.output
    return evaluate_outputs(
        samples,
        [partial(iter, outputs) for outputs in repeats],
        metrics,
        conventions=request.conventions,
        run=run_info(record),
        judging=replace(request.judging, controls=0),  # the items of a control were asked when the run was scored
    )
