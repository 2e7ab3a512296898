"""The scores of all configurations of a sweep on the same questions, as one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..compare.pairing import MetricMeta
from ..core.reduce import Clusters
from ..core.scores import Scores, Status
from ..stats.intervals import Bools, Floats, Ints
from ..stats.selection import ConfigurationScores


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTable:
    """Scores with a row per question and a column per configuration; a failed answer has the worst score."""

    values: Floats
    failed: Bools
    rows: Ints
    """The positions of the questions; those without a score in some configuration are left out of all."""
    left_out: int
    definition: MetricMeta

    @classmethod
    def of(cls, columns: Sequence[Scores | None], definition: MetricMeta, n: int) -> ScoreTable:
        """The table of the scores on ``n`` questions; ``None`` is a configuration whose run failed."""
        values = np.full((n, len(columns)), definition.worst)
        failed = np.ones((n, len(columns)), dtype=np.bool_)
        known = np.ones(n, dtype=np.bool_)
        for place, scores in enumerate(columns):
            if scores is None:
                continue
            failed[:, place] = scores.status == Status.SYSTEM_FAILED
            counted = np.isfinite(scores.values)
            values[counted, place] = scores.values[counted]
            known &= counted | failed[:, place]
        rows = np.flatnonzero(known)
        return cls(values[rows], failed[rows], rows, n - len(rows), definition)

    @property
    def binary(self) -> bool:
        """Whether all scores are 0 or 1."""
        return bool(np.isin(self.values, (0.0, 1.0)).all())

    @property
    def sign(self) -> float:
        """-1 where a lower score is better."""
        return 1.0 if self.definition.higher_score_is_better else -1.0

    def analyse(self, clusters: Clusters | None, places: Sequence[int] | None = None) -> ConfigurationScores:
        """The statistics of some configurations, by default of all; ``clusters`` has those of all questions."""
        chosen = list(range(self.values.shape[1])) if places is None else list(places)
        low, high = self.definition.range
        return ConfigurationScores(
            self.sign * self.values[:, chosen],
            clusters=None if clusters is None else clusters[self.rows],
            width=high - low,
            failed=self.failed[:, chosen],
        )
