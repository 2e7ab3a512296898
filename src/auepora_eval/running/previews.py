"""Estimates of judge calls and cost, before a judge is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.conventions import Conventions
from ..core.metrics_base import Metric
from ..core.registry import Spec
from ..core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from ..judge.preview import Preview, preview
from ..planfile.planned_judges import PlannedJudges
from ..planfile.prepare import PreparedPlan, prepare
from ..planfile.read import read_plan
from ..store.runs import RunStore
from .plans import default_store
from .scoring import rescoring_metrics, stored_outputs

if TYPE_CHECKING:
    from ..store.records import RunRecord

__all__ = ["ESTIMATE_NOTE", "preview_plan", "preview_stored"]

ESTIMATE_NOTE = (
    "the system has not answered yet: tokens and cost are estimated from reference answers and relevant documents"
)
_FILLER = "word " * 80
_FILLER_DOCUMENT = "word " * 200


def preview_plan(
    path: str | Path,
    *,
    store: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    limit: int | None = None,
    resume: bool = False,
    run: str | None = None,
) -> tuple[Preview, list[str]]:
    """Estimate the judging of a run of the plan, with notes. Neither the system nor a judge is called.

    With ``resume``, uses the outputs of the run named by ``run``, or of the latest run with the name of the plan.
    Otherwise uses saved outputs, or placeholders for the outputs of the system.
    """
    plan = read_plan(path, changes=changes)
    prepared = prepare(plan, need_system=False, need_keys=False, limit=limit)
    where = default_store(store, plan.store)
    policy = plan.judge.policy_for(where, plan.folder)
    samples, outputs, notes = prepared.samples, _placeholder_outputs(prepared), [ESTIMATE_NOTE]
    if prepared.outputs is not None:
        outputs, notes = [prepared.outputs.outputs.get(one.sample_id) for one in samples], []
    elif resume:
        with RunStore.open(where, create=False) as opened:
            record = opened.find(run or plan.name)
            samples, outputs = _stored(opened, record)
            notes = [ESTIMATE_NOTE] if None in outputs else []
            if notes:
                known = _placeholder_outputs(prepared)
                outputs = [one or known[place % len(known)] for place, one in enumerate(outputs)]
    elif plan.repeats > 1:
        samples, outputs = samples * plan.repeats, outputs * plan.repeats
    return preview(samples, outputs, prepared.metrics or [], policy), notes


def preview_stored(
    store: RunStore,
    record: RunRecord,
    metrics: Sequence[Spec | Metric] = (),
    *,
    conventions: str | Conventions | None = None,
    judges: PlannedJudges | None = None,
) -> Preview:
    """Estimate the judging for rescoring a stored run."""
    chosen, judges = rescoring_metrics(store, record, metrics, conventions=conventions, judges=judges, need_key=False)
    samples, outputs = _stored(store, record)
    return preview(samples, outputs, chosen or [], judges.settings.policy_for(store.file, judges.folder))


def _stored(store: RunStore, record: RunRecord) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
    """The samples of a run, once per repeat, and their stored outputs."""
    samples = store.samples(record.run_id)
    outputs = [
        output
        for repeat in range(record.repeats)
        for output in stored_outputs(store, record.run_id, len(samples), repeat)
    ]
    return samples * record.repeats, outputs


def _placeholder_outputs(prepared: PreparedPlan) -> list[SystemOutputs | None]:
    return [_placeholder_output(sample, prepared.plan.policy.top_k) for sample in prepared.samples]


def _placeholder_output(sample: EvaluationSample, top_k: int) -> SystemOutputs:
    documents = [one for one in sample.relevant_docs or () if one.text][:top_k]
    documents = documents or [Document(f"stand-in {place}", _FILLER_DOCUMENT) for place in range(top_k)]
    reference = sample.reference_answer
    answer = reference.text if reference is not None and reference.text.strip() else _FILLER
    found = [RetrievedDocument(one, None, rank) for rank, one in enumerate(documents, start=1)]
    return SystemOutputs(found, Response(answer))
