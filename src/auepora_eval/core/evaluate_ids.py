"""Evaluation of bare rankings: document ids alone, or precomputed hits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ..features.id_only import rankings_batch
from ..features.precomputed_hits import PrecomputedHits
from .batch import Batch
from .conventions import Conventions
from .engine import Metrics, as_sequence, resolve_metrics, run_metrics
from .errors import AlignmentError, BadTypeError
from .executors import SerialExecutor
from .metrics_base import Metric, RunInfo
from .plan import EvaluationPlan
from .results import Results
from .slices import Grouping
from .types import EvaluationSample

__all__ = ["evaluate_hits", "evaluate_rankings"]

# Bare ids are cheap to score, so that the fixed cost of a batch matters; larger batches still fit the cache.
RANKINGS_BATCH_SIZE = 16_384


def evaluate_rankings(
    gold: Iterable[Collection[str] | Mapping[str, int] | None] | Mapping[str, Collection[str] | Mapping[str, int]],
    ranked: Iterable[Sequence[str] | None] | Mapping[str, Sequence[str]],
    metrics: Metrics,
    *,
    conventions: str | Conventions = "auepora",
    ids: Iterable[str] | None = None,
    keep_scores: bool = True,
) -> Results:
    """Score bare rankings: per query the gold ids (or ``{id: level}``) and the returned ids, best first.

    A ranking of ``None`` is a missing output, gold of ``None`` a query that was not annotated. ``ids`` name the queries
    (their numbers by default). Given as mappings from query id, the queries of ``gold`` are scored.
    """
    chosen = resolve_metrics(metrics, conventions)
    if isinstance(gold, Mapping) != isinstance(ranked, Mapping):
        raise BadTypeError("gold and rankings must both be mappings from query id, or both be sequences")
    if isinstance(gold, Mapping) and isinstance(ranked, Mapping):
        ids, columns = list(gold), [ranked.get(query) for query in gold]
        gold, ranked = list(gold.values()), columns
    golds, rankings = as_sequence(gold, "gold"), as_sequence(ranked, "rankings")
    if len(golds) != len(rankings):
        raise AlignmentError(len(golds), len(rankings), what=("gold entries", "rankings"))
    names = list(map(repr, range(len(golds))) if ids is None else map(str, ids))
    if len(names) != len(golds):
        raise AlignmentError(len(golds), len(names), what=("gold entries", "ids"))
    if golds:
        _require_gold_only(chosen, annotated=any(entry is not None for entry in golds))

    def part(start: int, stop: int) -> Batch:
        return rankings_batch(golds[start:stop], rankings[start:stop], names[start:stop])

    return _evaluate_batches(part, names, chosen, keep_scores)


def evaluate_hits(
    rankings: PrecomputedHits,
    metrics: Metrics,
    *,
    conventions: str | Conventions = "auepora",
    keep_scores: bool = True,
) -> Results:
    """Score rankings whose hits the reader has found already."""
    chosen = resolve_metrics(metrics, conventions)
    _require_gold_only(chosen, annotated=True)
    return _evaluate_batches(rankings.batch, list(rankings.ids), chosen, keep_scores)


def _require_gold_only(metrics: list[Metric], *, annotated: bool) -> None:
    """Raise for metrics that need more than gold ids, before anything is computed."""
    EvaluationPlan(metrics).validate_dataset([EvaluationSample("", "", relevant_docs=[] if annotated else None)])


def _evaluate_batches(
    make_part: Callable[[int, int], Batch], names: list[str], metrics: Sequence[Metric], keep_scores: bool
) -> Results:
    size, total = RANKINGS_BATCH_SIZE, len(names)
    grouping = Grouping((), keep=True)
    grouping.ids = names
    return run_metrics(
        (make_part(start, min(start + size, total)) for start in range(0, total, size)),
        metrics,
        RunInfo(),
        keep_scores,
        None,
        executor=SerialExecutor(),
        grouping=grouping,
        make_batch=lambda _: make_part(0, total),
        stacklevel=6,
    )
