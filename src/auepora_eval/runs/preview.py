"""Estimates of judge calls and cost before a judge is called, and of the calls of a system."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

from ..core.conventions import Conventions
from ..core.metrics_base import Metric
from ..core.registry import Spec
from ..core.results import Results
from ..core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from ..engine.evaluate import evaluate_stream
from ..errors import StoreError
from ..io.golden import dataset_fingerprint
from ..io.sample_sets import SampleSet
from ..judge.critic import JudgePolicy
from ..judge.preview import Preview, preview
from ..plan.model import JudgeSettings, Plan
from ..plan.prepare import PreparedPlan, prepare, read_plan
from ..plan.resources import PlannedJudges
from ..store.connect import default_store
from ..store.records import RunRecord
from ..store.runs import RunStore, aligned_outputs, iter_samples
from ..store.sweeps import SWEEP_TAG
from .judging import rescoring_metrics
from .run import RunRequest, plan_request
from .sequential import check_stop, expected_calls_note
from .two_stage import JudgedAnswers, preview_in_two_stages

ESTIMATE_NOTE = (
    "the system has not answered yet: tokens and cost are estimated from reference answers and relevant documents"
)
_FILLER = "word " * 80
_FILLER_DOCUMENT = "word " * 200


def preview_plan(
    path: str | Path | Plan,
    *,
    store: str | Path | None = None,
    limit: int | None = None,
    resume: bool = False,
    run: str | None = None,
    sample_set: SampleSet | None = None,
    requests: Sequence[RunRequest] = (),
) -> tuple[Preview, list[str]]:
    """Estimate the judging of a run of the plan, with notes. Neither the system nor a judge is called.

    With ``resume``, uses the outputs of the run named by ``run``, or of the latest run with the name of the plan.
    Otherwise uses saved outputs, or placeholders for the outputs of the system. ``requests`` are the runs whose calls
    of the system are estimated, by default that of the plan.
    """
    plan = read_plan(path)
    prepared = prepare(plan, need_system=False, need_keys=False, limit=limit, samples=sample_set)
    where = default_store(store, plan.store)
    metrics = prepared.metrics or []
    answers = _answers_of_plan(prepared, where, run or plan.name if resume else None)
    exists = plan.judge.two_stage is not None and ("://" in where or Path(where).exists())  # it is not made here
    with RunStore.open(where, create=False) if exists else nullcontext() as known:
        found = _preview(plan.judge, metrics, answers, plan.judge.policy_for(where, plan.folder), store=known)
    notes = [] if answers.are_known else [ESTIMATE_NOTE]
    if plan.judge.stop is not None:
        with RunStore.open(where, create=False) as opened:
            earlier = opened.find(run or plan.name) if resume else None
            fingerprint = dataset_fingerprint(prepared.samples)
            checked = check_stop(opened, plan.judge.stop, metrics, fingerprint, primary=plan.primary, earlier=earlier)
            notes.append(expected_calls_note(opened, checked, prepared.samples, found.total.calls))
    if plan.resolved["run"].get("prices") and prepared.calls:
        notes.append(_system_cost_note(requests or [plan_request(prepared)], where))
    return found, notes


def _answers_of_plan(prepared: PreparedPlan, where: str, run: str | None) -> JudgedAnswers:
    """The saved answers of a plan, those of a stored ``run``, or stand-ins."""
    stand_ins = [_placeholder_output(sample, prepared.plan.policy.top_k) for sample in prepared.samples]
    if prepared.outputs is not None:
        known = dict(prepared.outputs)
        return JudgedAnswers(prepared.samples, [known.get(sample.sample_id) for sample in prepared.samples])
    if run is None:
        repeats = prepared.plan.repeats
        return JudgedAnswers(list(prepared.samples) * repeats, stand_ins * repeats, are_known=False)
    with RunStore.open(where, create=False) as opened:
        stored = _stored_answers(opened, opened.find(run))
    if None not in stored.outputs:
        return stored
    filled = [output or stand_ins[place % len(stand_ins)] for place, output in enumerate(stored.outputs)]
    return JudgedAnswers(stored.samples, filled, are_known=False)


def _preview(
    settings: JudgeSettings,
    metrics: Sequence[Metric],
    answers: JudgedAnswers,
    policy: JudgePolicy,
    *,
    store: RunStore | None,
    record: RunRecord | None = None,
) -> Preview:
    """Estimate the judging of answers, in one stage or two."""
    if settings.two_stage is None:
        return preview(answers.samples, answers.outputs, metrics, policy)
    return preview_in_two_stages(settings.two_stage, metrics, answers, policy, store=store, record=record)


_PRICED_ANSWERS, _PRICED_RUNS = 1000, 10
"""The most answers of an earlier run that an estimate reads, and the most runs for their mean."""


def _system_cost_note(requests: Sequence[RunRequest], where: str) -> str:
    """What calls of the system would cost: by an earlier run of the same system, else by the mean of others."""
    name, counts = requests[0].name, [len(request.samples) * request.repeats for request in requests]
    start = f"the system would be called {sum(counts):,} times"
    with suppress(StoreError), RunStore.open(where, create=False) as store:
        records = [*store.runs(name=name), *store.runs(tag=SWEEP_TAG + name)]
        own: dict[int, Results] = {}
        for place, request in enumerate(requests):
            wanted = _called_system(store.as_stored(dict(request.plan)))
            same = [record for record in records if _called_system(record.plan) == wanted]
            cost = next(_known_costs(store, same, request), None)
            if cost is not None:
                own[place] = cost
        if len(own) == len(requests) == 1:
            each, read, written = (result.value for result in own[0])
            return (
                f"{start}: about {counts[0] * each:.4g}, if an answer takes {read:,.0f} prompt and {written:,.0f} "
                f"completion tokens as in {own[0].run_id}"
            )
        others = list(own.values()) or list(islice(_known_costs(store, records, requests[0]), _PRICED_RUNS))
        if others:
            costs = dict.fromkeys(range(len(requests)), fmean(results[0].value for results in others))
            costs |= {place: results[0].value for place, results in own.items()}
            whole = math.fsum(count * costs[place] for place, count in enumerate(counts))
            known = f"earlier runs of {len(own)} of {len(requests)} configurations"
            how = known if own else f"{len(others)} earlier runs on average"
            rest = ", and their mean for the others" if 0 < len(own) < len(requests) else ""
            return f"{start}: about {whole:.4g}, by the usage of {how}{rest}"
    return f"{start}; what that costs is unknown, as no earlier run of '{name}' has usage with prices"


def _called_system(plan: Mapping[str, Any]) -> tuple[Any, Any]:
    """What decides the usage of an answer: the system, and how many documents it is asked for."""
    return plan.get("system"), (plan.get("run") or {}).get("top_k")


def _known_costs(store: RunStore, records: Iterable[RunRecord], request: RunRequest) -> Iterator[Results]:
    """What answers of these runs cost by the prices of a plan; runs without usage or prices are left out."""
    prices = {"total_cost": {"prices": request.plan["run"].get("prices")}}
    for record in records:
        pairs = zip(iter_samples(store, record.run_id), aligned_outputs(store, record.run_id), strict=True)
        results = evaluate_stream(islice(pairs, _PRICED_ANSWERS), [prices, "prompt_tokens", "completion_tokens"])
        if results[0].defined:
            results.run_id = record.run_id
            yield results


def preview_stored(
    store: RunStore,
    record: RunRecord,
    metrics: Sequence[Spec | Metric] = (),
    *,
    conventions: str | Conventions | None = None,
    judges: PlannedJudges | None = None,
    until_decided: bool = False,
    planned: bool | None = None,
) -> tuple[Preview, list[str]]:
    """Estimate the judging for rescoring a stored run, with notes; ``until_decided`` as for ``rescore``."""
    chosen, judges = rescoring_metrics(
        store, record, metrics, conventions=conventions, judges=judges, need_key=False, planned=planned
    )
    answers, settings = _stored_answers(store, record), judges.settings
    policy = settings.policy_for(store.file, judges.folder)
    found = _preview(settings, chosen or [], answers, policy, store=store, record=record)
    if settings.stop is None or not until_decided:
        return found, []
    primary = record.plan.get("primary") or ()
    checked = check_stop(store, settings.stop, chosen, record.fingerprint, primary=primary, earlier=record)
    return found, [expected_calls_note(store, checked, answers.samples[: record.num_samples], found.total.calls)]


def _stored_answers(store: RunStore, record: RunRecord) -> JudgedAnswers:
    """The samples of a run, once per repeat, and their stored outputs."""
    outputs: list[SystemOutputs | None] = []
    for repeat in range(record.repeats):
        outputs += aligned_outputs(store, record.run_id, repeat=repeat)
    return JudgedAnswers(store.samples(record.run_id) * record.repeats, outputs)


def preview_placeholders(
    samples: Sequence[EvaluationSample], metrics: Sequence[Metric], policy: JudgePolicy, top_k: int
) -> Preview:
    """Estimate the judging of outputs that do not exist yet."""
    return preview(samples, [_placeholder_output(sample, top_k) for sample in samples], metrics, policy)


def _placeholder_output(sample: EvaluationSample, top_k: int) -> SystemOutputs:
    documents = [document for document in sample.relevant_docs or () if document.text][:top_k]
    documents = documents or [Document(f"stand-in {place}", _FILLER_DOCUMENT) for place in range(top_k)]
    reference = sample.reference_answer
    answer = reference.text if reference is not None and reference.text.strip() else _FILLER
    found = [RetrievedDocument(document, None, rank) for rank, document in enumerate(documents, start=1)]
    return SystemOutputs(found, Response(answer))
