"""Answer quality conditional on retrieval: any answer metric on samples with or without a hit."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..core.batch import Batch
from ..core.derivation import NO_CONTEXT, Derivation, DerivationBuilder, ExplainContext
from ..core.errors import BadValueError
from ..core.metrics_base import RunInfo, with_conventions
from ..core.registry import register
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, SystemOutputs
from .answer_base import require_count
from .derivations_wrappers import inner_derivation, prepend_steps
from .gold_hit import GoldHitAtK
from .wrappers import WrapperMetric, inner_scores, inner_signature_options, is_paired_metric

__all__ = ["QualityGivenHit", "QualityGivenMiss"]


@dataclass(frozen=True)
class _ConditionalQuality(WrapperMetric):
    """Another metric on the samples for which a relevant document was, or was not, among the first k."""

    base: Any = "token_f1"
    k: int = 5

    handles_failures: ClassVar[bool] = True
    follows_base: ClassVar[bool] = True
    by_chunk_id: ClassVar[bool] = True
    failure_note: ClassVar[str] = "leaves the mean: nothing is known of what it retrieved"
    reads: ClassVar[frozenset[str]] = frozenset({"retrieved"})
    on_hit: ClassVar[bool]
    other_reason: ClassVar[str]

    def __post_init__(self) -> None:
        require_count("k", self.k)
        super().__post_init__()
        inner = self.inner
        if is_paired_metric(inner):
            raise BadValueError(
                f"'{inner.name}' is computed from several samples together; it has no value on a subset"
            )
        self.copy_attributes("target", "reducer", "range", "higher_is_better", "binary", "stat_names")

    def required_fields(self) -> list[str]:
        """Gold documents, and the fields the other metric requires."""
        return list(dict.fromkeys([*super().required_fields(), "relevant_docs"]))

    @property
    def worst(self) -> float | None:
        """None: failed answers are left out."""
        return None

    @property
    def hit(self) -> GoldHitAtK:
        """The metric that tests for a relevant document among the first k."""
        return with_conventions(GoldHitAtK(self.k), self.active_conventions)

    def signature_options(self) -> dict[str, str]:
        """The other metric, and the definition of a hit."""
        return {**super().signature_options(), **inner_signature_options(self.hit, "given")}

    def run_signature_options(self, run: RunInfo) -> dict[str, str]:
        """The run options of the other metric and of the hit."""
        return super().run_signature_options(run) | {
            f"given.{key}": value for key, value in self.hit.run_signature_options(run).items()
        }

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """Whether there is a hit, and then the other metric's steps."""
        steps = DerivationBuilder().extend(self.hit.derivation(sample, output, around))
        steps.add_step(f"So the sample is one with{'' if self.on_hit else 'out'} a hit, and {self.inner.name} counts")
        return prepend_steps(steps, inner_derivation(self.inner, sample, output, around))

    def score(self, batch: Batch) -> Scores:
        """The other metric's outcomes on the selected samples; the others, and samples without gold, are skipped."""
        scores, hit_scores = _exclude_failures(inner_scores(self.inner, batch)), self.hit.score(batch)
        measured = (scores.status == Status.SCORED) | (scores.status == Status.MEASURE_FAILED)
        excluded = measured & (hit_scores.status == Status.SCORED) & (hit_scores.values != float(self.on_hit))
        scores = scores.replaced(excluded, Status.SKIPPED, self.other_reason, math.nan)
        for reason in hit_scores.reason_names[1:]:
            scores = scores.replaced(hit_scores.with_reason(reason), Status.SKIPPED, reason, math.nan)
        return scores

    def reference_score(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """The other metric's outcome, if the sample is selected, by the plain definitions of both."""
        hit, outcome = self.hit.reference_score(sample, output), self.inner.reference_score(sample, output)
        if hit is None or outcome is None or hit.status is Status.SKIPPED:
            return hit if hit is not None and hit.status is Status.SKIPPED else None
        excluded = hit.value != float(self.on_hit) and outcome.status is not Status.SKIPPED
        return Score.skip(self.other_reason) if excluded else outcome


def _exclude_failures(scores: Scores) -> Scores:
    """The outcomes with failed answers excluded from the mean."""
    failed = scores.status == Status.SYSTEM_FAILED
    return replace(scores, values=np.where(failed, math.nan, scores.values)) if failed.any() else scores


@register("quality_given_hit", at="k")
@dataclass(frozen=True)
class QualityGivenHit(_ConditionalQuality):
    r"""Another metric, on the samples for which a relevant document was among the first k.

    .. math:: M(\{s : \text{hit@}k(s) = 1\})

    Answer quality given good retrieval; compared with `quality_given_miss@k` it shows whether to improve the retriever
    or the generator. M is any metric of the answer. Failed answers are left out. Gold with spans is also hit where
    chunks of other ids cover half of a gold span.
    """

    on_hit: ClassVar[bool] = True
    other_reason: ClassVar[str] = "no_hit"
    skip_reasons: ClassVar[dict[str, str]] = {
        "no_gold": "`relevant_docs` is not annotated",
        "empty_gold": "nothing is relevant, and the conventions skip such queries",
        "no_hit": "no relevant document was among the first k",
    }


@register("quality_given_miss", at="k")
@dataclass(frozen=True)
class QualityGivenMiss(_ConditionalQuality):
    r"""Another metric, on the samples for which no relevant document was among the first k.

    .. math:: M(\{s : \text{hit@}k(s) = 0\})

    Answer quality without retrieval: from memory, or by luck. Well above 0 means that the questions do not need the
    documents. M is any metric of the answer. Failed answers are left out. Gold with spans is also hit where chunks of
    other ids cover half of a gold span.
    """

    on_hit: ClassVar[bool] = False
    other_reason: ClassVar[str] = "hit"
    skip_reasons: ClassVar[dict[str, str]] = {
        "no_gold": "`relevant_docs` is not annotated",
        "empty_gold": "nothing is relevant, and the conventions skip such queries",
        "hit": "a relevant document was among the first k",
    }
