"""Derivations of wrapper metrics: the steps of the inner metric, and what follows from its value."""

from __future__ import annotations

from ..core.batch import Batch
from ..core.derivation import Derivation, DerivationBuilder, ExplainContext, format_number, quote_text
from ..core.judged_metric import judged_parts
from ..core.metrics_base import BatchMetric
from ..core.scores import Status
from ..core.scoring import apply_failure_policy
from ..core.types import EvaluationSample, SystemOutputs

__all__ = ["add_inner_score_step", "inner_derivation", "inner_score", "prepend_steps"]


def prepend_steps(steps_before: DerivationBuilder, derivation: Derivation) -> Derivation:
    """A derivation with steps prepended."""
    steps = steps_before.extend(derivation)
    return Derivation(steps.steps, derivation.value, derivation.general)


def inner_score(
    metric: BatchMetric, sample: EvaluationSample, output: SystemOutputs | None, around: ExplainContext
) -> tuple[str, float | None]:
    """The outcome of one sample under another metric, and the value it counts at."""
    if _needs_model_call(metric, around):
        return "not computed again", None
    scores = apply_failure_policy(metric, Batch([sample], [output]))
    return scores.outcomes[0], scores[0]


def _needs_model_call(metric: BatchMetric, around: ExplainContext) -> bool:
    """Whether computing it again would call a judge, or a model that must not be called."""
    return any(True for _ in judged_parts(metric)) or (metric.asks_models and not around.may_call_models)


def inner_derivation(
    metric: BatchMetric, sample: EvaluationSample, output: SystemOutputs | None, around: ExplainContext
) -> Derivation:
    """The steps of another metric, if it has a score; else its outcome and value."""
    if output is not None and (metric.is_paired or _needs_model_call(metric, around)):
        return metric.derivation(sample, output, around)
    outcome, value = inner_score(metric, sample, output, around)
    if outcome == Status.SCORED.name.lower() and output is not None:
        return metric.derivation(sample, output, around)
    counts = "" if value is None else f", which counts as {format_number(value)}"
    return DerivationBuilder().finish(f"{metric.name} of {sample.sample_id}: {outcome}{counts}", value)


def add_inner_score_step(
    steps: DerivationBuilder,
    what: str,
    metric: BatchMetric,
    sample: EvaluationSample,
    output: SystemOutputs | None,
    around: ExplainContext,
) -> float | None:
    """Add a step with another metric's score of a sample; return the score."""
    outcome, value = inner_score(metric, sample, output, around)
    answer = output.response.text if output is not None and output.response is not None else ""
    shown = (
        outcome
        if value is None
        else format_number(value)
        if outcome == "scored"
        else f"{format_number(value)} ({outcome})"
    )
    steps.add_step(f"{what} {sample.sample_id}, answered with {quote_text(answer)}: {metric.name} = {shown}", value)
    return value
