"""Base classes of built-in metrics: configuration, names from the registry, option checks, and rankings."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.conventions import Conventions
from ..core.derivation import NO_CONTEXT, Derivation, ExplainContext
from ..core.metrics_base import BatchMetric, RunInfo
from ..core.registry import metric_name
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs
from ..errors import BadTypeError, BadValueError, DuplicateIdError
from ..features.hits import RankingView, gold_positions, has_judgement, hits, reject_duplicates, view_key
from ..features.rankings import rankings
from .derivations_ranking import RankedQuery
from .ranking import Gold, relevant_ids


def signature_number(value: float) -> str:
    """A number as written in a signature: the shortest exact form."""
    return repr(float(value)).removesuffix(".0")


@dataclass(frozen=True)
class ConfiguredMetric(BatchMetric):
    """A metric whose options are its dataclass fields and whose name follows from them."""

    conventions: Conventions | None = field(default=None, kw_only=True)
    overrides: tuple[tuple[str, Any], ...] = field(default=(), kw_only=True)
    if TYPE_CHECKING:
        # Not a field: ``register`` adds the option to every constructor, and a subclass may set ``self.name``.
        name: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        if self.conventions is not None and not isinstance(self.conventions, Conventions):
            object.__setattr__(self, "conventions", Conventions.of(self.conventions))
        name = metric_name(type(self), vars(self))
        if name is not None:
            object.__setattr__(self, "name", name)


@dataclass(frozen=True)
class RankingMetric(ConfiguredMetric):
    """A metric over the ranked ids of each query."""

    reads: ClassVar[frozenset[str]] = frozenset({"retrieved"})
    by_chunk_id: ClassVar[bool] = True
    ranks_ids: ClassVar[bool] = True
    """Whether returned ids themselves are compared; parents of chunks may repeat, ids may not."""
    skip_reasons: ClassVar[dict[str, str]] = {
        "no_gold": "`relevant_docs` is not annotated",
        "empty_gold": "nothing is relevant, and the conventions skip such queries",
    }

    def required_fields(self) -> list[str]:
        """Gold documents."""
        return ["relevant_docs"]

    def scores(
        self,
        batch: Batch,
        values: npt.NDArray[np.float64],
        *,
        stats: npt.NDArray[np.float64] | None = None,
        view: RankingView = rankings,
    ) -> Scores:
        """The scores of all queries; queries without gold are skipped as the conventions require."""
        rules = self.active_conventions
        if rules.duplicates == "error":
            reject_duplicates(batch)
        # Cached: every ranking metric with the same conventions skips the same queries.
        key = ("gold_outcomes", view_key(batch, view), rules.empty_gold, rules.min_relevance)
        return batch.feature(key, lambda b: self._gold_outcomes(b, view)).with_values(values, stats)

    def _gold_outcomes(self, batch: Batch, view: RankingView) -> Scores:
        rules = self.active_conventions
        skips = {"no_gold": ~gold_positions(batch, view).annotated}
        if rules.empty_gold != "zero":
            empty = hits(batch, rules, view).gold == 0
            skips["empty_gold"] = empty if rules.empty_gold == "skip" else empty & ~has_judgement(batch)
        return Scores.of(np.zeros(len(batch)), skip=skips)

    def reference_score(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The outcome of one sample by the plain definitions."""
        chunks, _ = RankingMetric.reference_ranking(self, sample, output)
        judged = isinstance(chunks, Mapping) and any(level >= 0 for level in chunks.values())
        return self.score_plain(*self.reference_ranking(sample, output), judged=judged)

    def reference_ranking(self, sample: EvaluationSample, output: SystemOutputs) -> tuple[Gold | None, list[str]]:
        """Judged levels and returned ids of one sample, without the shared features."""
        ranked = [item.doc.doc_id for item in output.retrieved]
        if sample.relevant_docs is None:
            return None, ranked
        levels = {document.doc_id: 0 for document in sample.candidate_docs or []}
        for document in sample.relevant_docs:
            levels.pop(document.doc_id, None)
        for document in sample.relevant_docs:
            level = document.metadata.get("relevance", 1)
            levels[document.doc_id] = max(level, levels.get(document.doc_id, level))
        return levels, ranked

    def score_plain(self, gold: Gold | None, ranked: Sequence[str], *, judged: bool | None = None) -> Score:
        """The outcome of one query by the plain definition; tests compare the fast path with it.

        ``judged``: whether the query has any judgement; by default whether any level is 0 or more.
        """
        rules = self.active_conventions
        if gold is None:
            return Score.skip("no_gold")
        if rules.duplicates == "error" and self.ranks_ids and len(set(ranked)) != len(ranked):
            raise DuplicateIdError("an id was returned twice, which the conventions forbid")
        levels = gold if isinstance(gold, Mapping) else dict.fromkeys(gold, 1)
        if judged is None:
            judged = any(level >= 0 for level in levels.values())
        if self.skips_empty_gold(judged) and not relevant_ids(gold, rules.min_relevance):
            return Score.skip("empty_gold")
        return Score(self.plain(gold, ranked[: rules.depth]))

    def skips_empty_gold(self, judged: bool) -> bool:
        """Whether a query without relevant documents is skipped."""
        return self.active_conventions.empty_gold == "skip" or (
            self.active_conventions.empty_gold == "judged" and not judged
        )

    @abstractmethod
    def plain(self, gold: Gold, ranked: Sequence[str]) -> float:
        """The value of one query by its definition in ``metrics.ranking``."""

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The steps from the ranking to the value."""
        gold, ranked = self.reference_ranking(sample, output)
        scores = [item.score for item in output.retrieved]
        derivation = self.steps(
            RankedQuery.of(
                gold or {}, ranked, self.active_conventions.min_relevance, self.active_conventions.depth, scores
            )
        )
        return super().derivation(sample, output, around) if derivation is None else derivation

    def steps(self, one: RankedQuery) -> Derivation | None:
        """The derivation of one query; ``None`` selects the general one."""
        return None

    def k_signature_option(self) -> dict[str, str]:
        """Shows K_eff in the signature of a metric that divides by its cut-off."""
        return {"k": "eff"} if self.active_conventions.k_policy == "effective" else {}

    def plain_k(self, k: int | None, ranked: Sequence[str]) -> int | None:
        """The cut-off of one query under the k policy; 0 where nothing was returned."""
        if self.active_conventions.k_policy == "written":
            return k
        return len(ranked) if k is None else min(k, len(ranked))

    def ranking_signature_options(self) -> dict[str, str]:
        """The signature options of every ranking metric."""
        rules = self.active_conventions
        options: dict[str, str] = {"empty": rules.empty_gold}
        if rules.min_relevance != 1:
            options["rel"] = str(rules.min_relevance)
        if rules.depth is not None and (self.max_rank is None or rules.depth < self.max_rank):
            options["depth"] = str(rules.depth)
        return options

    @property
    def max_rank(self) -> int | None:
        """The number of positions this metric reads; ``None`` for all."""
        return getattr(self, "k", None)

    def signature_options(self) -> dict[str, str]:
        """The options that change this metric's value."""
        return self.ranking_signature_options()

    def run_signature_options(self, run: RunInfo) -> dict[str, str]:
        """The requested ``top_k``, if this metric reads more positions."""
        deepest = min(k for k in (self.max_rank, self.active_conventions.depth, math.inf) if k is not None)
        return {"top_k": str(run.top_k)} if run.top_k is not None and run.top_k < deepest else {}


# --- checks of options ----------------------------------------------------------------------------------------------


def require_bool(name: str, value: object) -> None:
    """Raise unless an option is true or false."""
    if not isinstance(value, bool):
        raise BadTypeError(f"{name} must be true or false, not {value!r}")


def require_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise unless an option is one of the allowed values."""
    if value not in choices:
        raise BadValueError(f"{name} must be one of {', '.join(choices)}; not {value!r}")


def require_count(name: str, value: object, *, least: int = 1) -> None:
    """Raise unless an option is an integer >= ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadValueError(f"{name} must be an integer >= {least}, not {value!r}")
