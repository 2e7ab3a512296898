"""Agreement of several raters: of every pair, and of all together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from .agreement import Level, Weights, agreement_report, alpha_report, kappa_report
from .estimate import Estimate

__all__ = ["RaterPair", "RatersReport", "raters_report"]


@dataclass(frozen=True, slots=True)
class RaterPair:
    """The agreement of two raters on the items that both rated."""

    first: str
    second: str
    agreement: Estimate
    kappa: Estimate
    """Cohen's; of ratings that have an order, weighted by the square of the distance."""


@dataclass(frozen=True, slots=True)
class RatersReport:
    """The agreement of several raters."""

    rated: Mapping[str, int]
    """How many things each rated."""
    level: Level
    pairs: tuple[RaterPair, ...]
    """Those that have something in common."""
    alpha: Estimate
    """Krippendorff's, of all together."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "annotators": dict(self.rated),
            "level": self.level,
            "alpha": self.alpha.to_dict(),
            "pairs": [
                {
                    "annotators": [one.first, one.second],
                    "agreement": one.agreement.to_dict(),
                    "kappa": one.kappa.to_dict(),
                }
                for one in self.pairs
            ],
        }


def raters_report(
    ratings: Mapping[str, Sequence[Any]], level: Level = "nominal", *, draws: int = 1000, seed: int = 0
) -> RatersReport:
    """The agreement of raters by name; each has a rating per thing, ``None`` where there is none."""
    weights: Weights | None = None if level == "nominal" else "quadratic"
    pairs = []
    for one, two in combinations(ratings, 2):
        agreement = agreement_report(ratings[one], ratings[two])
        if agreement.units:
            kappa = kappa_report(ratings[one], ratings[two], weights, draws=draws, seed=seed)
            pairs.append(RaterPair(one, two, agreement, kappa))
    rated = {name: sum(value is not None for value in values) for name, values in ratings.items()}
    return RatersReport(rated, level, tuple(pairs), alpha_report(list(ratings.values()), level, draws=draws, seed=seed))
