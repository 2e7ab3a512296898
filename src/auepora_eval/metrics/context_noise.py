"""Accuracy by context noise: any metric, broken down by the proportion of irrelevant documents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from ..core.batch import Batch
from ..core.derivation import NO_CONTEXT, Derivation, DerivationBuilder, ExplainContext, format_number, quote_text
from ..core.errors import BadValueError
from ..core.family import FamilyKey, sort_by_id, with_family_keys
from ..core.reduce import Clusters, Mean, Reducer, SumsReducer
from ..core.registry import register
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from .answer_base import require_choice
from .derivations_wrappers import inner_derivation, prepend_steps
from .wrappers import WrapperMetric, inner_scores, is_paired_metric

__all__ = ["ContextNoiseAccuracy", "declares_insufficient", "noise_ratio"]

_INSUFFICIENT = ("insufficient information", "信息不足")
"""The phrases by which RGB's script detects a refusal; its prompts ask for them."""


def noise_ratio(sample: EvaluationSample) -> float | None:
    """The proportion of noise among the documents of a sample: ``None`` if missing, NaN if invalid."""
    ratio = sample.labels.get("noise_ratio")
    if ratio is None:
        return None
    if isinstance(ratio, (bool, np.bool_)) or not isinstance(ratio, (int, float, np.number)) or not 0 <= ratio <= 1:
        return math.nan
    return float(ratio)


def declares_insufficient(output: SystemOutputs | None) -> bool:
    """Whether RGB's script counts an answer as a refusal: the phrase occurs anywhere, case-sensitive."""
    if output is None or output.response is None:
        return False
    return any(words in output.response.text for words in _INSUFFICIENT)


class _BaseReducer(Reducer):
    """The base metric's reducer, for metrics that read keys: here a key is (noise ratio, base key)."""

    def __init__(self, reducer: Reducer) -> None:
        self.reducer = reducer
        self.name = reducer.name

    def value(self, scores: Scores) -> float:
        """The base metric's value over the same samples."""
        own = None if scores.keys is None else tuple(key and key.payload[1] for key in scores.keys)
        return self.reducer.value(replace(scores, keys=own))


@register("context_noise_accuracy")
@dataclass(frozen=True)
class ContextNoiseAccuracy(WrapperMetric):
    r"""How often the answer is right although some of the documents given to the system are noise.

    .. math:: M(\{s : s \text{ has a noise ratio}\})

    `labels["noise_ratio"]` is the proportion of noise among the documents, from 0 to 1. The value is that of the base
    metric M over all samples that have one; `details["by_noise_ratio"]` has value, interval and number of samples for
    each ratio, in ascending order. An invalid ratio is a failed measurement (`bad_noise_ratio`). With
    `insufficient="rgb_script"` an answer that contains "insufficient information" is wrong, but right if all documents
    are noise, as RGB's script counts; by default it is judged by M like any other.
    """

    base: Any = "containment"
    insufficient: Literal["judged", "rgb_script"] = "judged"

    target = TargetCategory.NOISE_ROBUSTNESS
    reads: ClassVar[frozenset[str]] = frozenset({"response"})
    handles_failures: ClassVar[bool] = True
    needs_all: ClassVar[bool] = True
    failure_note: ClassVar[str] = "as with the base metric"
    reference: ClassVar[str] = "Chen et al. 2024 (RGB)"
    skip_reasons: ClassVar[dict[str, str]] = {"no_noise_ratio": '`labels["noise_ratio"]` is not there'}

    def __post_init__(self) -> None:
        require_choice("insufficient", self.insufficient, ("judged", "rgb_script"))
        super().__post_init__()
        inner = self.inner
        if is_paired_metric(inner):
            raise BadValueError(
                f"'{inner.name}' is computed from several samples together; it has no value by noise ratio"
            )
        if self.insufficient == "rgb_script" and not inner.binary:
            raise BadValueError(
                f"insufficient='rgb_script' needs a base whose scores are 0 or 1, which those of '{inner.name}' are not"
            )
        for name in ("range", "higher_is_better", "binary", "stat_names"):
            object.__setattr__(self, name, getattr(inner, name))
        known = isinstance(inner.reducer, (Mean, SumsReducer))
        object.__setattr__(self, "reducer", inner.reducer if known else _BaseReducer(inner.reducer))

    @property
    def worst(self) -> float | None:
        """The base metric's worst value."""
        return self.inner.worst

    def signature_options(self) -> dict[str, str]:
        """The base metric, and the treatment of refusals."""
        return {**super().signature_options(), "insufficient": self.insufficient}

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether the sample has a noise ratio, and the base metric applies."""
        return noise_ratio(sample) is not None and self.inner.is_applicable(sample, output)

    def score(self, batch: Batch) -> Scores:
        """The base metric's outcomes; each sample's ratio is stored in its key."""
        scores, ratios = inner_scores(self.inner, batch), [noise_ratio(sample) for sample in batch.samples]
        column = np.array([math.nan if ratio is None else ratio for ratio in ratios], dtype=np.float64)
        missing = np.array([ratio is None for ratio in ratios], dtype=np.bool_)
        if self.insufficient == "rgb_script":
            declined = np.array([declares_insufficient(output) for output in batch.outputs], dtype=np.bool_)
            declined &= scores.status == Status.SCORED
            scores = replace(scores, values=np.where(declined, column == 1, scores.values))
        measured = (scores.status == Status.SCORED) | (scores.status == Status.MEASURE_FAILED)
        invalid = np.isnan(column) & ~missing & measured
        usable = [None if ratio is None or math.isnan(ratio) else ratio for ratio in ratios]
        payloads = list(zip(usable, scores.keys or [None] * len(batch), strict=True))
        scores = scores.replaced(invalid, Status.MEASURE_FAILED, "bad_noise_ratio", math.nan)
        return with_family_keys(scores.replaced(missing, Status.SKIPPED, "no_noise_ratio", math.nan), batch, payloads)

    def reference_score(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """The base metric's outcome by its plain definition, where the sample has a ratio."""
        ratio = noise_ratio(sample)
        if ratio is None:
            return Score.skip("no_noise_ratio")
        outcome = self.inner.reference_score(sample, output)
        if outcome is None or outcome.status is Status.SKIPPED:
            return outcome
        if math.isnan(ratio):
            return Score.fail("bad_noise_ratio")
        if self.insufficient == "rgb_script" and outcome.status is Status.SCORED and declares_insufficient(output):
            return Score(ratio == 1)
        return outcome

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The noise ratio, then the base metric's steps."""
        ratio = noise_ratio(sample)
        steps = DerivationBuilder().add_step(f"{format_number(100 * (ratio or 0.0))} % of its documents are noise")
        if self.insufficient == "rgb_script" and declares_insufficient(output):
            assert output.response is not None
            steps.add_step(f"The answer says that information is insufficient: {quote_text(output.response.text)}")
            return steps.finish(
                f"That is {'right, all' if ratio == 1 else 'wrong, not all'} being noise", float(ratio == 1)
            )
        return prepend_steps(steps, inner_derivation(self.inner, sample, output, around))

    def further_details(self, scores: Scores, clusters: Clusters | None) -> dict[str, Any]:
        """Value, interval and number of samples by noise ratio."""
        scores, clusters = sort_by_id(scores, clusters)
        keys: Sequence[FamilyKey | None] = scores.keys or ()  # None for a sample that could not be scored
        groups: dict[float, list[int]] = {}
        for row, key in enumerate(keys):
            ratio = None if key is None else key.payload[0]
            if ratio is not None:
                groups.setdefault(round(ratio, 9) + 0.0, []).append(row)  # 0.1 + 0.2 is 0.3, and -0.0 is 0.0
        return {
            "by_noise_ratio": {repr(ratio): self._group(scores, clusters, groups[ratio]) for ratio in sorted(groups)}
        }

    def _group(self, scores: Scores, clusters: Clusters | None, rows: list[int]) -> dict[str, Any]:
        group, group_clusters = scores.take(rows), None if clusters is None else clusters[rows]
        value = self.reducer.value(group)
        interval = self.reducer.interval(group, *self.range, binary=self.binary, clusters=group_clusters)
        return {
            "value": None if math.isnan(value) else value,
            "interval": None if interval is None else [interval.low, interval.high],
            "num_samples": int(group.counted.sum()),
        }
