"""Merge the arms of a sweep into one run, for metrics that compare the answers of arms to one question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..core.engine import resolve_metrics
from ..core.metrics_base import Metric
from ..core.results import Results
from ..core.types import EvaluationSample, SystemOutputs
from ..perturb.counterfactual import wrong_answer
from ..perturb.kinds import Level, Sweep
from ..perturb.samples import arm_variant
from ..perturb.systems import PERTURBATION
from ..store.run_rows import PERTURBED_TAG
from ..store.runs import RunStore
from .run import RunOutcome, RunRequest, start_run

__all__ = ["ARM_METRICS", "arm_results", "merge_arms"]

ARM_METRICS = ("error_detection_rate", "misleading_rate", "mistake_reappearance_rate")
"""Metrics of false documents that need no option; always computed."""


def merge_arms(
    request: RunRequest, sweep: Sweep, outcomes: Mapping[Level, RunOutcome], store: RunStore, made_of: Mapping[str, Any]
) -> RunOutcome:
    """Copy the outputs of all arms into one run and score it; the system is not called.

    Each question of a later arm is a variant of the question in the first arm. Documents count as false if one was
    edited. Of repeats, the first output is used.
    """
    samples: list[EvaluationSample] = []
    outputs: dict[str, SystemOutputs] = {}
    for arm in sweep.levels:
        record = outcomes[arm].record
        arm_samples = store.samples(record.run_id)
        arm_outputs = {row.position: row.output for row in store.outputs(record.run_id, repeat=0)}
        for position, sample in enumerate(arm_samples):
            output = arm_outputs.get(position)
            false = arm == "edited" and output is not None and _was_edited(sample, output)
            samples.append(arm_variant(sample, of_base=arm == sweep.base, is_false=false))
            if output is not None:
                outputs[samples[-1].sample_id] = output
    runs = [outcomes[arm].record.run_id for arm in sweep.levels]
    together = replace(
        request,
        name=f"{request.name} [{sweep}]",
        samples=samples,
        metrics=_metrics(request),
        system=None,
        outputs=outputs,
        repeats=1,
        slices=[*request.slices, "labels.arm"],
        plan={**request.plan, PERTURBATION: {**made_of, "runs": runs}},
        config={**request.config, PERTURBATION: str(sweep)},
        tags=(*request.tags, PERTURBED_TAG, str(sweep)),
    )
    return start_run(together, store)


def _was_edited(sample: EvaluationSample, output: SystemOutputs) -> bool:
    if output.error is not None:
        return wrong_answer(sample) is not None  # the documents of a failed output are unknown; assume false ones
    done = output.extra.get(PERTURBATION)
    return isinstance(done, Mapping) and bool(done.get("edited"))


def _metrics(request: RunRequest) -> list[Metric] | None:
    """The metrics of the plan and ``ARM_METRICS``; ``None`` selects all that the data supports."""
    if request.metrics is None:
        return None
    known = {getattr(type(one), "registered_as", one.name) for one in request.metrics}
    more = [name for name in ARM_METRICS if name not in known]
    return [*request.metrics, *resolve_metrics(more, request.conventions)]


def arm_results(results: Results | None) -> Results | None:
    """The results of metrics that need all arms."""
    if results is None:
        return None
    chosen = [
        one for one in results if any(one.name.startswith(name) for name in (*ARM_METRICS, "error_correction_rate"))
    ]
    return Results(chosen, sample_ids=results.sample_ids, run_id=results.run_id)
