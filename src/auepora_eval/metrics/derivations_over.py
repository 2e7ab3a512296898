"""Derivations of metrics over another metric: the other one's own steps, and what is made of its number."""

from __future__ import annotations

from ..core.batch import Batch
from ..core.derivation import Derivation, Derived, Surroundings, number, quoted
from ..core.judged import judged_parts
from ..core.metrics_base import BatchMetric
from ..core.scores import Status
from ..core.scoring import settled_scores
from ..core.types import EvaluationSample, SystemOutputs

__all__ = ["before", "inner_derivation", "inner_score", "say_part"]


def before(first: Derived, then: Derivation) -> Derivation:
    """A derivation with steps before it."""
    steps = first.follow(then)
    return Derivation(steps.steps, then.value, then.general)


def inner_score(
    metric: BatchMetric, sample: EvaluationSample, output: SystemOutputs | None, around: Surroundings
) -> tuple[str, float | None]:
    """The outcome of one sample under another metric, in a word, and the number it counts at."""
    if _asks(metric, around):
        return "not computed again", None
    scores = settled_scores(metric, Batch([sample], [output]))
    return scores.outcomes[0], scores[0]


def _asks(metric: BatchMetric, around: Surroundings) -> bool:
    """Whether computing it again would ask a judge, or a model that must not be asked."""
    return any(True for _ in judged_parts(metric)) or (metric.asks_models and not around.models)


def inner_derivation(
    metric: BatchMetric, sample: EvaluationSample, output: SystemOutputs | None, around: Surroundings
) -> Derivation:
    """The steps of another metric, where it has a score; else its outcome and what it counts at."""
    if output is not None and (metric.joins or _asks(metric, around)):
        return metric.derivation(sample, output, around)
    outcome, value = inner_score(metric, sample, output, around)
    if outcome == Status.SCORED.name.lower() and output is not None:
        return metric.derivation(sample, output, around)
    counts = "" if value is None else f", which counts as {number(value)}"
    return Derived().ends(f"{metric.name} of {sample.sample_id}: {outcome}{counts}", value)


def say_part(
    steps: Derived,
    what: str,
    metric: BatchMetric,
    sample: EvaluationSample,
    output: SystemOutputs | None,
    around: Surroundings,
) -> float | None:
    """Says what another metric gives for a sample, with its answer, and gives the number."""
    outcome, value = inner_score(metric, sample, output, around)
    answer = output.response.text if output is not None and output.response is not None else ""
    told = outcome if value is None else number(value) if outcome == "scored" else f"{number(value)} ({outcome})"
    steps.say(f"{what} {sample.sample_id}, answered with {quoted(answer)}: {metric.name} = {told}", value)
    return value
