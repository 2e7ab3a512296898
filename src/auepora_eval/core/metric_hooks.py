"""What a metric may define beyond its base class, and what holds for one that does not.

The engine reads these hooks by the functions here, so that a metric has no members that it does not use:

* of several samples: ``pair_samples``, ``select``, ``is_paired``; of several answers: ``join_repeats``,
  ``repeats_needed``; of several metrics: ``joint_details``
* of all samples: ``for_samples``, ``for_signature``; of failed answers: ``worst_in``, ``failure_message``
* of a plain definition: ``reference_stats``, ``reference_value``
* facts: ``rounding``, ``asks_models``, ``decides_tokens``, ``higher_score_is_better``, ``needs_response``
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..errors import BadValueError

if TYPE_CHECKING:
    from ..stats.intervals import Floats, Ints
    from .batch import Batch
    from .scores import Scores
    from .types import EvaluationSample, SystemOutputs

MetricT = TypeVar("MetricT")


class HookedMetric(Protocol):
    """What is read of a metric besides its hooks."""

    @property
    def name(self) -> str:
        """Its name in results."""

    @property
    def higher_is_better(self) -> bool:
        """Which way its value is better."""

    @property
    def worst(self) -> float | None:
        """The value that a failed answer counts at."""

    def inner_metrics(self) -> Sequence[HookedMetric]:
        """The metrics that it is computed from."""


# --- facts -----------------------------------------------------------------------------------------------------------


def base_name(metric: HookedMetric) -> str:
    """The name before an alias (``as:`` in a spec) replaced it; what the signature carries."""
    return str(getattr(metric, "_plain_name", metric.name))


def score_rounding(metric: HookedMetric) -> float:
    """By how much two scores of the same answer may differ: a model's last digits follow from what it reads beside.

    A comparison takes such a difference for none. It is the ``rounding`` of the metric, else that of its inner metrics.
    """
    inner = max(map(score_rounding, metric.inner_metrics()), default=0.0)
    return float(getattr(metric, "rounding", inner))


def asks_models(metric: HookedMetric) -> bool:
    """Whether scoring calls an embedding or scoring model; an explanation does so only on request."""
    is_asked = score_rounding(metric) > 0 or any(map(asks_models, metric.inner_metrics()))
    return bool(getattr(metric, "asks_models", is_asked))


def decides_tokens(metric: HookedMetric) -> bool:
    """Whether the script of texts decides how they are cut into tokens; the signature of a result tells it."""
    return bool(getattr(metric, "decides_tokens", any(map(decides_tokens, metric.inner_metrics()))))


def higher_score_is_better(metric: HookedMetric) -> bool:
    """Which way a single score is better; it differs from that of the value where a rate is made of timings."""
    return bool(getattr(metric, "higher_score_is_better", metric.higher_is_better))


# --- failed answers --------------------------------------------------------------------------------------------------


def worst_in(metric: HookedMetric, batch: Batch) -> float | Floats:
    """The value of each failed answer of a batch, where it depends on the sample; NaN leaves it out."""
    if hasattr(metric, "worst_in"):
        found: float | Floats = metric.worst_in(batch)
        return found
    return math.nan if metric.worst is None else metric.worst


def worst_varies(metric: HookedMetric) -> bool:
    """Whether each sample has a worst value of its own (``worst_in``), and there is none for all (``worst``)."""
    return metric.worst is None and hasattr(metric, "worst_in")


def failure_message(metric: HookedMetric, sample: EvaluationSample, output: SystemOutputs) -> str:
    """Why a sample could not be measured, where the metric knows more than the reason."""
    return str(metric.failure_message(sample, output)) if hasattr(metric, "failure_message") else ""


# --- several samples, several answers, several metrics ---------------------------------------------------------------


def pair_samples(metric: HookedMetric, scores: Scores) -> Scores:
    """The final outcomes from those of all samples, for a metric that scores several samples together."""
    paired: Scores = metric.pair_samples(scores) if hasattr(metric, "pair_samples") else scores
    return paired


def is_paired(metric: HookedMetric) -> bool:
    """Whether a metric scores several samples together, so that no sample has a score by itself."""
    return bool(getattr(metric, "is_paired", hasattr(metric, "pair_samples")))


def select_scores(metric: HookedMetric, scores: Scores, paired: Scores, rows: Ints) -> Scores:
    """The outcomes of some samples, given those of ``score`` and of ``pair_samples``."""
    chosen: Scores = metric.select(scores, paired, rows) if hasattr(metric, "select") else paired.take(rows)
    return chosen


def join_repeats(metric: HookedMetric, parts: Sequence[Scores], means: Scores) -> Scores:
    """The final outcomes from those of each repeat, given their means; for a metric of several answers."""
    joined: Scores = metric.join_repeats(parts, means) if hasattr(metric, "join_repeats") else means
    return joined


def joins_repeats(metric: HookedMetric) -> bool:
    """Whether the score of a sample is not the mean over its repeats."""
    return hasattr(metric, "join_repeats")


def repeats_needed(metric: HookedMetric) -> int:
    """How many answers to each sample a metric needs."""
    return int(getattr(metric, "repeats_needed", 1))


def require_repeats(metric: HookedMetric, repeats: int) -> None:
    """Raise if there are fewer answers to each sample than a metric needs."""
    needed = repeats_needed(metric)
    if repeats < needed:
        raise BadValueError(
            f"metric '{metric.name}' needs {needed} answers to each sample, and there "
            f"{'is' if repeats == 1 else 'are'} {repeats}; ask the system more often (run.repeats in a plan)"
        )


def joint_details(
    metric: HookedMetric, own: Scores, others: Sequence[tuple[HookedMetric, Scores]], clusters: Ints | None
) -> dict[str, Any]:
    """Additional details from the scores of the other metrics of the same evaluation, sample by sample."""
    found: dict[str, Any] = metric.joint_details(own, others, clusters) if hasattr(metric, "joint_details") else {}
    return found


# --- all samples -----------------------------------------------------------------------------------------------------


def for_samples(metric: MetricT, samples: Iterable[EvaluationSample]) -> MetricT:
    """A metric adapted to all samples of a dataset."""
    adapted: MetricT = metric.for_samples(samples) if hasattr(metric, "for_samples") else metric
    return adapted


def for_signature(metric: MetricT, signature: str) -> MetricT:
    """A metric as it was adapted to the samples of a stored result with this signature."""
    adapted: MetricT = metric.for_signature(signature) if hasattr(metric, "for_signature") else metric
    return adapted


# --- the plain definition --------------------------------------------------------------------------------------------


def reference_stats(metric: HookedMetric, sample: EvaluationSample, output: SystemOutputs) -> Sequence[float]:
    """The statistics of ``stat_names`` for one scored sample by the plain definition, if there is one."""
    found: Sequence[float] = metric.reference_stats(sample, output) if hasattr(metric, "reference_stats") else ()
    return found


def reference_value(
    metric: HookedMetric, samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs]
) -> float | None:
    """The value over answered samples by the plain definition, for metrics that are not means."""
    value: float | None = metric.reference_value(samples, outputs) if hasattr(metric, "reference_value") else None
    return value
