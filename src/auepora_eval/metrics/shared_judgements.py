"""What metrics share that learn from each other's questions: whom they need, and asking together."""

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
    """A metric whose questions other metrics of the batch may have as well."""

    @abstractmethod
    def require_judges(self) -> None:
        """Raise unless there is somebody to ask."""

    async def ascore(self, batch: Batch, judge: JudgeClient) -> Scores:
        """One outcome per sample; what another metric of the batch asked is not asked again."""
        self.require_judges()  # a mistake to be told at once, not sample by sample
        scores = await super().ascore(batch, SharedJudgeClient(batch, judge, self.name))
        if "num_truncated" in self.count_names:
            note_truncation(batch, self.name, self.counted(scores, "num_truncated"))
        return scores
