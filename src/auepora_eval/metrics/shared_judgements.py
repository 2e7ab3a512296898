"""Mixin for metrics that share judge requests within a batch."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from ..core.batch import Batch
from ..core.scores import Scores
from ..judge.critic import JudgeClient
from ..judge.sharing import SharedJudgeClient
from .repeated_judgements import RepeatedJudgementMetric
from .semantic_base import note_truncation

__all__ = ["SharedJudgementMixin"]


@dataclass(frozen=True)
class SharedJudgementMixin(RepeatedJudgementMetric):
    """A metric that shares its judge requests with other metrics of the batch."""

    @abstractmethod
    def require_judges(self) -> None:
        """Raise unless the judges are configured."""

    async def ascore(self, batch: Batch, judge: JudgeClient) -> Scores:
        """One outcome per sample; a request that another metric of the batch made is not repeated."""
        self.require_judges()  # raise once, not for every sample
        scores = await super().ascore(batch, SharedJudgeClient(batch, judge, self.name))
        if "num_truncated" in self.count_names:
            note_truncation(batch, self.name, self.count_column(scores, "num_truncated"))
        return scores
