"""What a metric may define beyond its base class, and what holds for one that does not.

Hooks that few metrics need are no members of the base class (``docs/writing-a-metric.md`` lists them). The functions
here read those that are read in several places.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

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
    inner = max((score_rounding(inner) for inner in metric.inner_metrics()), default=0.0)
    return float(getattr(metric, "rounding", inner))


def asks_models(metric: HookedMetric) -> bool:
    """Whether scoring calls an embedding or scoring model; an explanation does so only on request."""
    is_asked = score_rounding(metric) > 0 or any(asks_models(inner) for inner in metric.inner_metrics())
    return bool(getattr(metric, "asks_models", is_asked))


def decides_tokens(metric: HookedMetric) -> bool:
    """Whether the script of texts decides how they are cut into tokens; the signature of a result tells it."""
    is_inner = any(decides_tokens(inner) for inner in metric.inner_metrics())
    return bool(getattr(metric, "decides_tokens", is_inner))


# --- failed answers --------------------------------------------------------------------------------------------------


def worst_in(metric: HookedMetric, batch: Batch) -> float | Floats:
    """The value of each failed answer of a batch, where it depends on the sample; NaN leaves it out."""
    if hasattr(metric, "worst_in"):
        return cast("float | Floats", metric.worst_in(batch))
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
    return cast("Scores", metric.pair_samples(scores)) if hasattr(metric, "pair_samples") else scores


def is_paired(metric: HookedMetric) -> bool:
    """Whether a metric scores several samples together, so that no sample has a score by itself."""
    return bool(getattr(metric, "is_paired", hasattr(metric, "pair_samples")))


def select_scores(metric: HookedMetric, scores: Scores, paired: Scores, rows: Ints) -> Scores:
    """The outcomes of some samples, given those of ``score`` and of ``pair_samples``."""
    return cast("Scores", metric.select(scores, paired, rows)) if hasattr(metric, "select") else paired.take(rows)


def join_repeats(metric: HookedMetric, parts: Sequence[Scores], means: Scores) -> Scores:
    """The final outcomes from those of each repeat, given their means; for a metric of several answers."""
    return cast("Scores", metric.join_repeats(parts, means)) if hasattr(metric, "join_repeats") else means


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


# --- all samples -----------------------------------------------------------------------------------------------------


def for_samples(metric: MetricT, samples: Iterable[EvaluationSample]) -> MetricT:
    """A metric adapted to all samples of a dataset."""
    return cast("MetricT", metric.for_samples(samples)) if hasattr(metric, "for_samples") else metric
