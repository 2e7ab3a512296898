"""Metrics that combine the scores of several others, sample by sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.conventions import signature_text
from ..core.derivation import (
    NO_CONTEXT,
    Derivation,
    DerivationBuilder,
    ExplainContext,
    format_number,
)
from ..core.metrics_base import BatchMetric, declare, set_metadata, with_conventions
from ..core.registry import ConfiguredMetric, metric, register
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..errors import BadValueError
from ..options import NonEmpty
from .wrappers import as_batch_metric, inner_score, inner_scores, inner_signature_options, is_paired_metric

Floats = npt.NDArray[np.float64]
Mean = Literal["weighted", "harmonic", "min", "product"]


def _harmonic(columns: Floats) -> Floats:
    positive = (columns > 0).all(axis=0)
    inverse = np.divide(1.0, columns, out=np.zeros_like(columns), where=columns > 0)
    total = inverse.sum(axis=0)
    means = np.divide(len(columns), total, out=np.zeros_like(total), where=total > 0)
    return np.where(positive, means, 0.0)


def _lowest(columns: Floats) -> Floats:
    lowest: Floats = columns.min(axis=0)
    return lowest


def _product(columns: Floats) -> Floats:
    product: Floats = columns.prod(axis=0)
    return product


_MEANS: dict[Mean, Callable[[Floats], Floats]] = {"harmonic": _harmonic, "min": _lowest, "product": _product}


@register("composite")
@dataclass(frozen=True)
class Composite(ConfiguredMetric):
    r"""Several metrics as one number: their weighted or harmonic mean, their lowest, or their product.

    .. math:: \sum_i w_i m_i, \quad n / \sum_i m_i^{-1}, \quad \min_i m_i, \quad \prod_i m_i

    `of` lists the metrics, and `weights` their weights, which are used as given (equal ones by default, with the sum
    1). Scores are combined sample by sample; a sample that one of them skips is skipped, and the harmonic mean is 0 if
    one of them is. The weights hide which of the metrics changed: show them beside it.
    """

    of: Annotated[tuple[Any, ...], NonEmpty()] = ("exact_match", "token_f1")
    weights: tuple[float, ...] | None = None
    mean: Mean = "weighted"

    target = TargetCategory.GENERATION_CORRECTNESS
    metadata = declare(
        handles_failures=True,
        counts_system_failures=False,
        suggested=False,
        failure_note="as with the other metrics",
        option_help={
            "mean:weighted": "the sum of the scores times their weights",
            "mean:harmonic": "the harmonic mean of the scores, 0 if one of them is",
            "mean:min": "the lowest of the scores",
            "mean:product": "the product of the scores",
            "weights": "the weight of each metric",
            **{f"of{place}": "one of the metrics that are combined" for place in range(1, 10)},
        },
        examples=(
            "composite",
            {"composite": {"of": ["token_f1", "containment"], "weights": [0.6, 0.4]}},
            {"composite": {"of": ["token_precision", "token_recall"], "mean": "harmonic"}},
            {"composite": {"of": ["exact_match", "containment"], "mean": "min"}},
            {"composite": {"of": ["token_f1", "token_recall"], "mean": "product"}},
        ),
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", tuple(metric(spec) for spec in self.of))
        if self.weights is not None:
            object.__setattr__(self, "weights", tuple(self.weights))
        super().__post_init__()
        parts = self.inner_metrics()
        for part in parts:
            if is_paired_metric(part) or part.joins_repeats:
                raise BadValueError(f"'{part.name}' has no score of its own for each sample; leave it out")
        if self.weights is not None and (len(self.weights) != len(parts) or self.mean != "weighted"):
            raise BadValueError("'weights' gives one weight for each metric, and goes with 'mean: weighted'")
        low = self._combined(np.array([[part.range[0]] for part in parts]))[0]
        high = self._combined(np.array([[part.range[1]] for part in parts]))[0]
        object.__setattr__(self, "target", parts[0].target)
        set_metadata(
            self,
            reads=frozenset().union(*(part.metadata.reads for part in parts)),
            skip_reasons={name: text for part in parts for name, text in part.metadata.skip_reasons.items()},
            output_skips=frozenset().union(*(part.metadata.output_skips for part in parts)),
            binary=self.mean in ("min", "product") and all(part.metadata.binary for part in parts),
            range=(float(low), float(high)),
        )

    def inner_metrics(self) -> Sequence[BatchMetric]:
        """The metrics, under the active conventions."""
        return [with_conventions(as_batch_metric(part), self.active_conventions) for part in self.of]

    @property
    def worst(self) -> float | None:
        """The combination of their worst values."""
        values = [part.worst for part in self.inner_metrics()]
        known = [value for value in values if value is not None]
        return None if len(known) < len(values) else float(self._combined(np.array(known)[:, None])[0])

    def required_fields(self) -> list[str]:
        """The fields that any of them requires."""
        fields: list[str] = []
        for part in self.inner_metrics():
            fields += part.required_fields()
        return list(dict.fromkeys(fields))

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether all of them apply."""
        return all(part.is_applicable(sample, output) for part in self.inner_metrics())

    def signature_options(self) -> dict[str, str]:
        """How they are combined, and the metrics."""
        options = {"mean": self.mean}
        if self.weights is not None:
            options["weights"] = signature_text(self.weights)
        for place, part in enumerate(self.inner_metrics(), start=1):
            options |= inner_signature_options(part, f"of{place}")
        return options

    def _combined(self, columns: Floats) -> Floats:
        if self.mean != "weighted":
            return _MEANS[self.mean](columns)
        weights = self.weights or (1 / len(columns),) * len(columns)
        total: Floats = np.array(weights) @ columns
        return total

    def score(self, batch: Batch) -> Scores:
        """The combined scores; a sample that is skipped or failed by one of them is so here."""
        parts = [inner_scores(part, batch) for part in self.inner_metrics()]
        scores = parts[0]
        for part in parts[1:]:
            for status in (Status.SKIPPED, Status.MEASURE_FAILED):
                for reason in filter(None, part.reason_names):
                    mask = part.with_reason(reason) & (part.status == status) & (scores.status != Status.SKIPPED)
                    scores = scores.replaced(mask, status, reason, math.nan)
        values = self._combined(np.array([part.values for part in parts]))
        counted = (scores.status == Status.SCORED) | (scores.status == Status.SYSTEM_FAILED)
        return Scores(np.where(counted, values, math.nan), scores.status, scores.reason_codes, scores.reason_names)

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """By the plain definitions of the metrics."""
        outcomes = [part.reference(sample, output) for part in self.inner_metrics()]
        values: list[float] = []
        for status in (Status.SKIPPED, Status.MEASURE_FAILED):
            for outcome in outcomes:
                if outcome is None or outcome.status is status:
                    return outcome
        for outcome in outcomes:
            assert outcome is not None
            values.append(outcome.value or 0.0)
        return Score(float(self._combined(np.array([[value] for value in values]))[0]))

    def explain(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The score of each metric, and the combined one."""
        steps = DerivationBuilder()
        values: list[float] = []
        for part in self.inner_metrics():
            outcome, value = inner_score(part, sample, output, around)
            shown = outcome if value is None else format_number(value)
            steps.add_step(f"{part.name}: {shown}", value)
            values += [] if value is None else [value]
        if len(values) < len(self.of):
            return steps.finish("Not all of them have a score here", around.stored_score, general=True)
        combined = float(self._combined(np.array([[value] for value in values]))[0])
        return steps.finish(f"Combined ({self.mean}): {format_number(combined)}", combined)
