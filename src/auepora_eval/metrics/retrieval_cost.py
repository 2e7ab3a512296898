"""Retrieval with costs: AQWV weighs misses against false alarms; empty result rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ..core.batch import Batch, checked_outputs
from ..core.derivation import NO_CONTEXT, Derivation, DerivationBuilder, ExplainContext
from ..core.errors import BadTypeError, BadValueError, UnknownConventionError
from ..core.reduce import Mean, SumsReducer
from ..core.registry import register
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..features.hits import gold_positions, hits, hits_within, reject_duplicates
from .base import ConfiguredMetric, RankingMetric, signature_number
from .derivations_ranking import RankedQuery, aqwv_steps
from .ranking import Gold, aqwv_at_k, check_k

__all__ = ["AQWV", "AQWVOverQueries", "EmptyResultRate"]


class AQWVOverQueries(SumsReducer):
    """1 − mean P_miss − β·mean P_FA, misses averaged over queries with gold and false alarms over all queries.

    Reads the statistics (1 − P_miss or 0, whether there is gold, P_FA, 1).
    """

    def __init__(self, beta: float) -> None:
        self.beta = beta
        self.name = f"aqwv_program[{signature_number(beta)}]"

    def from_sums(self, sums: Sequence[float]) -> float:
        """The value; NaN if no query has gold."""
        found, with_gold, false_alarm, queries = sums
        return found / with_gold - self.beta * (false_alarm / queries) if with_gold else math.nan


@register("aqwv", at="k")
@dataclass(frozen=True)
class AQWV(RankingMetric):
    r"""Average query weighted value: 1 minus the costs of misses and false alarms.

    .. math:: 1 - P_\text{miss} - \beta \cdot P_\text{FA}

    P_miss is the share of the relevant documents that is not among the first k. P_FA is the share of the first k
    positions that is not a hit (`p_fa: returned`; nothing returned means no false alarm), or, with `p_fa: collection`
    and `corpus_size: N`, (|R_k| − hits)/(N − |G|) as in the MATERIAL program. `form: query` averages the per-query
    value over queries with gold; `form: program` averages P_miss over queries with gold and P_FA over all queries
    first.

    The range is [−β, 1]: do not draw it on an axis from 0 to 1. An empty ranking scores 0, more than most rankings; a
    failed answer therefore counts at −β, so that failing does not pay.
    """

    k: int | None = None
    beta: float = 40.0
    p_fa: Literal["returned", "collection"] = "returned"
    corpus_size: int | None = None
    form: Literal["query", "program"] = "query"

    target = TargetCategory.RETRIEVAL_ACCURACY
    suggested: ClassVar[bool] = False  # the user must choose the cost of a false alarm
    reference: ClassVar[str] = "the MATERIAL program's AQWV (`form: program`, `p_fa: collection`)"

    def __post_init__(self) -> None:
        check_k(self.k)
        for option, choices in (("p_fa", ("returned", "collection")), ("form", ("query", "program"))):
            if getattr(self, option) not in choices:
                raise UnknownConventionError(f"value for aqwv's '{option}':", getattr(self, option), choices)
        if isinstance(self.beta, bool) or not (isinstance(self.beta, (int, float)) and 0 <= self.beta < math.inf):
            raise BadValueError(f"aqwv's beta must be a finite number >= 0, not {self.beta!r}")
        if self.corpus_size is not None and (
            isinstance(self.corpus_size, bool) or not isinstance(self.corpus_size, int)
        ):
            raise BadTypeError(f"aqwv's corpus_size must be an integer, not {self.corpus_size!r}")
        if (self.corpus_size is not None) != (self.p_fa == "collection"):
            raise BadValueError("aqwv needs 'corpus_size' exactly when 'p_fa' is \"collection\"")
        object.__setattr__(self, "range", (-float(self.beta), 1.0))
        object.__setattr__(self, "reducer", Mean() if self.form == "query" else AQWVOverQueries(self.beta))
        super().__post_init__()

    @property
    def worst_stats(self) -> tuple[float, ...]:
        """Everything missed, everything a false alarm; the gold flag is kept."""
        return 0.0, math.nan, 1.0, 1.0

    def score(self, batch: Batch) -> Scores:
        """The value of each query, and its P_miss and P_FA as statistics."""
        all_hits = hits(batch, self.active_conventions)
        within = hits_within(batch, self.active_conventions, self.k)
        returned = all_hits.returned if self.k is None else np.minimum(all_hits.returned, self.k)
        has_gold = all_hits.gold > 0
        recall = within / np.maximum(all_hits.gold, 1)
        if self.corpus_size is None:
            pool = returned
        else:
            pool = self.corpus_size - all_hits.gold
            if (gold_positions(batch).annotated & (pool < returned - within)).any():
                raise BadValueError(
                    f"aqwv: corpus_size is {self.corpus_size}, but a query has more relevant and returned documents "
                    "than that; give the size of the whole collection"
                )
        false_alarm = (returned - within) / np.maximum(pool, 1)
        values = 1.0 - np.where(has_gold, 1.0 - recall, 0.0) - self.beta * false_alarm
        if self.active_conventions.duplicates == "error":
            reject_duplicates(batch)
        skips = {"no_gold": ~gold_positions(batch).annotated, "empty_gold": ~has_gold & (self.form == "query")}
        return Scores.of(
            values, skip=skips, stats=np.column_stack([recall, has_gold, false_alarm, np.ones(len(batch))])
        )

    def plain(self, gold: Gold, ranked: Sequence[str]) -> float:
        """The plain definition."""
        rules = self.active_conventions
        return aqwv_at_k(
            gold, ranked, self.k, beta=self.beta, corpus_size=self.corpus_size, min_relevance=rules.min_relevance
        )

    def steps(self, query: RankedQuery) -> Derivation:
        """The calculation, position by position."""
        return aqwv_steps(query, self.k, self.beta, self.corpus_size)

    def skips_empty_gold(self, judged: bool) -> bool:
        """Always, except in the program form."""
        return self.form == "query"

    def signature_options(self) -> dict[str, str]:
        """Adds beta, the pool of false alarms and the form."""
        shown = {key: value for key, value in self.ranking_signature_options().items() if key != "empty"}
        size = {} if self.corpus_size is None else {"corpus": str(self.corpus_size)}
        return {"beta": signature_number(self.beta), "fa": self.p_fa, **size, "form": self.form, **shown}


@register("empty_result_rate")
@dataclass(frozen=True)
class EmptyResultRate(ConfiguredMetric):
    r"""Share of queries for which nothing at all was returned.

    .. math:: [\,|R| = 0\,]

    Over all queries; a failed output counts as empty. Lower is better.
    """

    target = TargetCategory.RETRIEVAL_RELEVANCE
    reads: ClassVar[frozenset[str]] = frozenset({"retrieved"})
    higher_is_better = False
    always_counts_failures: ClassVar[bool] = True
    binary: ClassVar[bool] = True

    def score(self, batch: Batch) -> Scores:
        """Whether the list is empty."""
        checked_outputs(batch)
        return Scores.of(gold_positions(batch).returned == 0)

    def reference_score(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The plain definition."""
        return Score(0.0 if output.retrieved else 1.0)

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The number of returned documents."""
        returned = len(output.retrieved)
        return DerivationBuilder().finish(
            f"{returned} documents were returned: {'0' if returned else '1'}", float(not returned)
        )

    def signature_options(self) -> dict[str, str]:
        """None."""
        return {}
