"""Whether a relevant document is among the first k, by id, or by span where ids do not match."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.batch import Batch
from ..core.derivation import NO_CONTEXT, Derivation, DerivationBuilder, ExplainContext
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, SystemOutputs
from ..features.gold_match import GoldRank, first_gold_rank, has_spans
from .retrieval_basic import HitRateAtK

__all__ = ["GoldHitAtK"]


@dataclass(frozen=True)
class GoldHitAtK(HitRateAtK):
    """A hit as other metrics use it: `hit_rate@k`, and for gold with spans also a hit by span.

    It has the name and the signature of `hit_rate@k`, to which it is equal if gold has no spans.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "name", HitRateAtK(self.k).name)

    def score(self, batch: Batch) -> Scores:
        """Whether there is a hit; spans are compared only if gold has some."""
        scores = super().score(batch)
        rows = [row for row, sample in enumerate(batch.samples) if has_spans(sample)]
        if not rows:
            return scores
        values = np.array(scores.values)
        for row in rows:
            values[row] = float(self._hits(batch.samples[row], batch.outputs[row]))
        return scores.with_values(values)

    def reference_score(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The plain definition."""
        by_id = super().reference_score(sample, output)
        if by_id.status is not Status.SCORED or not has_spans(sample):
            return by_id
        return Score(float(self._hits(sample, output)))

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The derivation by ids, or the rank that completes a gold span."""
        found = self._rank(sample, output) if has_spans(sample) else None
        if found is None or found.by == "id":
            return super().derivation(sample, output, around)
        if found.rank is None:
            sentence = "No gold id is among those returned, and no gold span is covered by half"
        else:
            sentence = f"No gold id is among those returned; at rank {found.rank} half of a gold span is covered"
        hit = float(self._hits(sample, output))
        return (
            DerivationBuilder()
            .add_step(sentence)
            .finish(f"So gold is {'' if hit else 'not '}among the first {self.k}: {hit:g}", hit)
        )

    def _rank(self, sample: EvaluationSample, output: SystemOutputs | None) -> GoldRank:
        rules = self.active_conventions
        return first_gold_rank(sample, output, min_relevance=rules.min_relevance, depth=rules.depth)

    def _hits(self, sample: EvaluationSample, output: SystemOutputs | None) -> bool:
        rank = self._rank(sample, output).rank
        return rank is not None and (self.k is None or rank <= self.k)
