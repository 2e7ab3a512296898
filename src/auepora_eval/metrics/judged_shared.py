"""What metrics share that learn from each other's questions: whom they need, and asking together."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from ..core.batch import Batch
from ..core.scores import Scores
from ..judge.critic import Judging
from ..judge.sharing import SharedJudging
from .judged_repeats import RepeatedlyJudged
from .semantic_base import note_cut

__all__ = ["SharedlyJudged"]


@dataclass(frozen=True)
class SharedlyJudged(RepeatedlyJudged):
    """A metric whose questions other metrics of the batch may have as well."""

    @abstractmethod
    def require_somebody(self) -> None:
        """Raise unless there is somebody to ask."""

    async def ascore(self, batch: Batch, judge: Judging) -> Scores:
        """One outcome per sample; what another metric of the batch asked is not asked again."""
        self.require_somebody()  # a mistake to be told at once, not sample by sample
        scores = await super().ascore(batch, SharedJudging(batch, judge, self.name))
        if "num_truncated" in self.count_names:
            note_cut(batch, self.name, self.counted(scores, "num_truncated"))
        return scores
