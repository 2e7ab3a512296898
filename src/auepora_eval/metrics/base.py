"""What the built-in metrics share: frozen configuration, names from the registry, skips and signatures of rankings."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.conventions import Conventions
from ..core.errors import DuplicateIdError
from ..core.metrics_base import BatchMetric, RunFacts
from ..core.registry import metric_name
from ..core.scores import Score, Scores
from ..features.hits import found, has_judgement, hits, reject_duplicates
from .ranking import Gold, relevant_ids

__all__ = ["ConfiguredMetric", "RankingMetric"]


@dataclass(frozen=True)
class ConfiguredMetric(BatchMetric):
    """A metric whose options are its dataclass fields and whose name follows from them."""

    conventions: Conventions | None = field(default=None, kw_only=True)
    name: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.conventions, str):
            object.__setattr__(self, "conventions", Conventions.of(self.conventions))
        name = metric_name(type(self), vars(self))
        if name is not None:
            object.__setattr__(self, "name", name)


@dataclass(frozen=True)
class RankingMetric(ConfiguredMetric):
    """A metric over the ranked ids of each query."""

    reads: ClassVar[frozenset[str]] = frozenset({"retrieved"})
    skip_reasons: ClassVar[dict[str, str]] = {
        "no_gold": "`relevant_docs` is not annotated",
        "empty_gold": "nothing is relevant, and the conventions skip such queries",
    }

    def required_fields(self) -> list[str]:
        """Gold documents."""
        return ["relevant_docs"]

    def scores(self, batch: Batch, values: npt.NDArray[np.float64]) -> Scores:
        """The values of all queries, but for those the conventions leave out for want of gold."""
        rules = self.rules
        if rules.duplicates == "error":
            reject_duplicates(batch)
        # Every ranking metric under the same rules skips the same queries: worked out once, shared by all.
        key = ("gold_outcomes", rules.empty_gold, rules.min_relevance)
        return batch.feature(key, self._gold_outcomes).with_values(values)

    def _gold_outcomes(self, batch: Batch) -> Scores:
        rules = self.rules
        skips = {"no_gold": ~found(batch).annotated}
        if rules.empty_gold != "zero":
            empty = hits(batch, rules).gold == 0
            skips["empty_gold"] = empty if rules.empty_gold == "skip" else empty & ~has_judgement(batch)
        return Scores.of(np.zeros(len(batch)), skip=skips)

    def score_plain(self, gold: Gold | None, ranked: Sequence[str]) -> Score:
        """The outcome of one query by the plain definitions, to hold the fast path against.

        A query with gold levels alone is judged where any level is 0 or more.
        """
        rules = self.rules
        if gold is None:
            return Score.skip("no_gold")
        if rules.duplicates == "error" and len(set(ranked)) != len(ranked):
            raise DuplicateIdError("an id was returned twice, which the conventions forbid")
        levels = gold if isinstance(gold, Mapping) else dict.fromkeys(gold, 1)
        judged = any(level >= 0 for level in levels.values())
        if self.skips_empty_gold(judged) and not relevant_ids(gold, rules.min_relevance):
            return Score.skip("empty_gold")
        return Score(self.plain(gold, ranked[: rules.depth]))

    def skips_empty_gold(self, judged: bool) -> bool:
        """Whether a query with nothing relevant is left out."""
        return self.rules.empty_gold == "skip" or (self.rules.empty_gold == "judged" and not judged)

    @abstractmethod
    def plain(self, gold: Gold, ranked: Sequence[str]) -> float:
        """The value of one query by its definition in ``metrics.ranking``."""

    def k_choice(self) -> dict[str, str]:
        """Shows K_eff in the signature of a metric that divides by its cut-off."""
        return {"k": "eff"} if self.rules.k_policy == "effective" else {}

    def plain_k(self, k: int | None, ranked: Sequence[str]) -> int | None:
        """The cut-off of one query under the k policy; 0 where nothing was returned."""
        if self.rules.k_policy == "written":
            return k
        return len(ranked) if k is None else min(k, len(ranked))

    def ranking_choices(self) -> dict[str, str]:
        """The choices that concern every ranking metric."""
        rules = self.rules
        choices: dict[str, str] = {"empty": rules.empty_gold}
        if rules.min_relevance != 1:
            choices["rel"] = str(rules.min_relevance)
        if rules.depth is not None:
            choices["depth"] = str(rules.depth)
        return choices

    def choices(self) -> dict[str, str]:
        """The choices that shape this metric's number."""
        return self.ranking_choices()

    def run_choices(self, run: RunFacts) -> dict[str, str]:
        """The depth that was asked for, where this metric looks deeper."""
        deepest = min(k for k in (getattr(self, "k", None), self.rules.depth, math.inf) if k is not None)
        return {"depth": str(run.top_k)} if run.top_k is not None and run.top_k < deepest else {}
