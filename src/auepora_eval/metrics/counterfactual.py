"""Counterfactual consistency: similarity of the answers to a question and to its counterfactual variants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch, warn_notes
from ..core.derivation import NO_CONTEXT, Derivation, DerivationBuilder, ExplainContext, quote_text
from ..core.errors import BadValueError
from ..core.family import (
    BASE_SKIPS,
    FamilyKey,
    FamilyMetric,
    find_parents,
    is_variant,
    require_scenarios,
    with_family_keys,
)
from ..core.metrics_base import SampleMetric, with_conventions
from ..core.registry import register
from ..core.scores import Score, Scores, Status
from ..core.scoring import apply_failure_policy
from ..core.types import EvaluationSample, Response, SystemOutputs, TargetCategory
from .derivations_wrappers import inner_derivation, prepend_steps
from .wrappers import ComputedReducer, WrapperMetric, is_paired_metric

__all__ = ["CounterfactualConsistency"]

Rows = npt.NDArray[np.intp]
_BATCH_SIZE = 1024
"""The number of pairs of answers compared at a time."""


@register("counterfactual_consistency")
@dataclass(frozen=True)
class CounterfactualConsistency(FamilyMetric, WrapperMetric):
    r"""Similarity of the answers to a question and to its counterfactual variants.

    .. math:: \text{similarity}(\text{answer to the base question}, \text{answer to the variant})

    A variant names its base in `labels["variant_of"]` and is marked by `labels["scenario"]`. The answer to the base
    question serves as the reference, the answer to the variant as the answer; `base` is any metric that compares an
    answer to a reference and nothing else. The value is the mean over variants. Where the system failed on either, the
    pair counts at the similarity's worst value.
    """

    base: Any = "token_f1"
    counterfactual_scenarios: tuple[str, ...] = ("counterfactual",)

    target = TargetCategory.COUNTERFACTUAL_ROBUSTNESS
    needs_parents_only: ClassVar[bool] = True
    reads: ClassVar[frozenset[str]] = frozenset({"response"})
    base_role: ClassVar[str] = "similarity"
    failure_note: ClassVar[str] = "counts at the worst value of the similarity, on either side of a pair"
    skip_reasons: ClassVar[dict[str, str]] = {
        **BASE_SKIPS,
        "no_response": "there is no answer to compare, to the variant or to its base",
    }

    def __post_init__(self) -> None:
        scenarios = require_scenarios("counterfactual_scenarios", self.counterfactual_scenarios)
        object.__setattr__(self, "counterfactual_scenarios", scenarios)
        super().__post_init__()
        inner = self.inner
        if (
            inner.required_fields() != ["reference_answer"]
            or not inner.reads <= {"response"}
            or is_paired_metric(inner)
        ):
            raise BadValueError(
                f"counterfactual_consistency compares answers, which '{inner.name}' does not; take a metric that needs "
                "a reference answer and nothing else (its required_fields() are ['reference_answer']), such as token_f1"
            )
        self.copy_attributes("range", "higher_is_better", "binary")

    @property
    def scenarios(self) -> tuple[str, ...]:  # type: ignore[override]
        """The counterfactual scenarios."""
        return self.counterfactual_scenarios

    @property
    def worst(self) -> float | None:
        """The worst value of the similarity."""
        return self.inner.worst

    def required_fields(self) -> list[str]:
        """None: the reference is an answer of the system."""
        return []

    def signature_options(self) -> dict[str, str]:
        """The similarity and the scenarios."""
        return {**super().signature_options(), "scenarios": "+".join(self.counterfactual_scenarios).replace("|", "/")}

    def score(self, batch: Batch) -> Scores:
        """Whether there is an answer, which is stored in the key."""
        answered = apply_failure_policy(with_conventions(_HasAnswer(), self.inner.active_conventions), batch)
        return with_family_keys(
            answered, batch, [None if output is None else output.response for output in batch.outputs]
        )

    def pair_samples(self, scores: Scores) -> Scores:
        """The similarity of each variant's answer to its base's."""
        if scores.keys is None:
            return scores
        n, family = len(scores), find_parents(scores.keys, self.scenarios)
        rest = Scores.of(np.zeros(n), skip=family.skips(n), keys=scores.keys)
        variants, bases = family.variants[family.rows >= 0], family.rows[family.rows >= 0]
        both = np.stack([scores.status[variants], scores.status[bases]])
        failed, skipped = (both == Status.SYSTEM_FAILED).any(axis=0), (both == Status.SKIPPED).any(axis=0)
        worst = (
            math.nan if self.worst is None or self.inner.active_conventions.on_system_failure != "worst" else self.worst
        )
        for mask, status, reason, value in (
            (failed, Status.SYSTEM_FAILED, "one_failed", worst),
            (skipped, Status.SKIPPED, "no_response", math.nan),
        ):
            rows = np.zeros(n, np.bool_)
            rows[variants[mask]] = True
            rest = rest.replaced(rows, status, reason, value)
        usable = ~failed & ~skipped
        alike = replace(self._similarities(scores.keys, variants[usable], bases[usable]), stats=None)
        alike = replace(alike, keys=tuple(scores.keys[row] for row in variants[usable]))
        others = np.setdiff1d(np.arange(n), variants[usable])
        return Scores.woven((variants[usable], alike), (others, rest.take(others)))

    def _similarities(self, keys: Sequence[FamilyKey], variants: Rows, bases: Rows) -> Scores:
        samples = [
            EvaluationSample(keys[variant].sample_id, "", reference_answer=keys[base].payload or Response(""))
            for variant, base in zip(variants.tolist(), bases.tolist(), strict=True)
        ]
        outputs = [SystemOutputs([], keys[variant].payload or Response("")) for variant in variants.tolist()]
        inner, parts = self.inner, []
        for start in range(0, len(samples), _BATCH_SIZE):
            batch = Batch(samples[start : start + _BATCH_SIZE], outputs[start : start + _BATCH_SIZE])
            scores = apply_failure_policy(inner, batch)
            warn_notes([batch.notes])
            if isinstance(inner.reducer, ComputedReducer):  # its value over one pair is the pair's score
                scores = Scores.of([inner.reducer.value(scores.take([row])) for row in range(len(scores))])
            parts.append(replace(scores, stats=None, keys=None))
        return Scores.concat(parts)

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """Both answers and their similarity."""
        base = around.find(str(sample.labels.get("variant_of")))
        if base is None or isinstance(self.inner.reducer, ComputedReducer):
            return super().derivation(sample, output, around)
        first = base[1].response if base[1] is not None else None
        steps = DerivationBuilder().add_step(
            f"The base {base[0].sample_id} was answered with {quote_text(first.text if first else '')}"
        )
        steps.add_step("That answer takes the place of the reference:")
        pair = EvaluationSample(sample.sample_id, "", reference_answer=first or Response(""))
        answer = SystemOutputs([], output.response or Response(""))
        return prepend_steps(steps, inner_derivation(self.inner, pair, answer, around))

    def reference_value(self, samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs]) -> float | None:
        """The mean similarity of pairs by the similarity's plain definition."""
        answers = {sample.sample_id: output.response for sample, output in zip(samples, outputs, strict=True)}
        found = []
        for sample, output in zip(samples, outputs, strict=True):
            base = answers.get(str(sample.labels.get("variant_of")))
            if is_variant(sample, self.scenarios) and base is not None and output.response is not None:
                pair = EvaluationSample(sample.sample_id, "", reference_answer=base)
                outcome = self.inner.reference_score(pair, output)
                if outcome is None:
                    return None
                found += [] if outcome.value is None else [outcome.value]
        return math.fsum(found) / len(found) if found else math.nan


class _HasAnswer(SampleMetric):
    """Whether there is an answer to compare."""

    target = TargetCategory.GENERATION_CORRECTNESS

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        return Score(0.0)
