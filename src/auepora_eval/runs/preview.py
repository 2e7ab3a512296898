"""Estimates of judge calls and cost before a judge is called, and preference between two stored runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.conventions import Conventions
from ..core.metrics_base import Metric
from ..core.registry import Spec
from ..core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from ..errors import BadValueError, did_you_mean
from ..judge.preference import PreferenceReport, prefer
from ..judge.preview import Preview, preview
from ..plan.model import Plan
from ..plan.prepare import PreparedPlan, prepare, read_plan
from ..plan.resources import PlannedJudges
from ..store.connect import default_store
from ..store.runs import RunStore, aligned_outputs
from .scoring import rescoring_metrics

if TYPE_CHECKING:
    from ..core.types import SystemOutputs
    from ..judge.critic import Critic, JudgePolicy
    from ..judge.session import JudgeSession
    from ..plan.resources import PlannedJudges
    from ..store.records import RunRecord
    from ..store.runs import RunStore

ESTIMATE_NOTE = (
    "the system has not answered yet: tokens and cost are estimated from reference answers and relevant documents"
)
_FILLER = "word " * 80
_FILLER_DOCUMENT = "word " * 200


def preview_plan(
    path: str | Path | Plan,
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
        known = dict(prepared.outputs)
        outputs, notes = [known.get(one.sample_id) for one in samples], []
    elif resume:
        with RunStore.open(where, create=False) as opened:
            record = opened.find(run or plan.name)
            samples, outputs = _stored(opened, record)
            notes = [ESTIMATE_NOTE] if None in outputs else []
            if notes:
                placeholders = _placeholder_outputs(prepared)
                outputs = [one or placeholders[place % len(placeholders)] for place, one in enumerate(outputs)]
    elif plan.repeats > 1:
        samples, outputs = list(samples) * plan.repeats, outputs * plan.repeats
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
        output for repeat in range(record.repeats) for output in aligned_outputs(store, record.run_id, repeat=repeat)
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


# --- preference between two stored runs, and the judge of a plan -----------------------------------------------------


def prefer_runs(
    store: RunStore,
    record_a: RunRecord,
    record_b: RunRecord,
    critic: Critic,
    *,
    judging: JudgeSession | JudgePolicy | None = None,
    prompt: object = None,
) -> PreferenceReport:
    """Let a judge compare the answers of two runs on their common samples. Of repeats, the first is judged."""
    samples = store.samples(record_b.run_id)
    if record_a.fingerprint != record_b.fingerprint:
        known = set(store.sample_ids(record_a.run_id))
        samples = [sample for sample in samples if sample.sample_id in known]
    if not samples:
        raise BadValueError(f"{record_a.run_id} and {record_b.run_id} have no sample in common")

    def answers(record: RunRecord) -> list[SystemOutputs | None]:
        found = {row.sample_id: row.output for row in store.outputs(record.run_id, repeat=0)}
        return [found.get(sample.sample_id) for sample in samples]

    names = (record_a.name, record_b.name)
    if record_a.name == record_b.name:
        names = (record_a.run_id, record_b.run_id)
    outputs = answers(record_a), answers(record_b)
    return prefer(samples, outputs[0], outputs[1], critic, judging=judging, prompt=prompt, names=names)


def select_judge(judges: PlannedJudges, name: str | None, *, need_key: bool = True) -> Any:
    """Build the judge: the named resource, else the one called ``judge``, else the only one."""
    names = judges.names
    if not names:
        raise BadValueError("there is no judge: give a plan with 'resources' (--plan), or a model (--judge-model)")
    if name is None:
        name = "judge" if "judge" in names else names[0]
        if len(names) > 1 and name != "judge":
            raise BadValueError(f"there are several resources ({', '.join(names)}); select the judge with --judge")
    if name not in names:
        hint = did_you_mean(name, names, otherwise=f"; there are {', '.join(names)}")
        raise BadValueError(f"there is no resource '{name}'{hint}")
    return judges.build([name], need_key=need_key)[name]
