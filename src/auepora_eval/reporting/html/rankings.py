"""Retrieval metrics of stored rankings at several cut-offs, and the rank of the first hit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ...core.engine import evaluate
from ...core.errors import AueporaError
from ...core.registry import Spec
from ...core.results import Results
from ...core.scores import Scores, Status
from ...features.gold_match import GoldRank, first_gold_rank, has_spans
from ...stats.interval import mean_interval
from ...store.stored_plan import plan_conventions, run_info
from .stored_run import StoredRun

__all__ = ["FAMILIES", "RetrievalCurves", "hits_by_span", "retrieval_curves"]

FAMILIES = ("recall", "precision", "ndcg", "hit_rate", "span_recall", "span_precision", "span_iou")
_BY_ID, _BY_SPAN = FAMILIES[:4], FAMILIES[4:]
Point = tuple[int, float, tuple[float, float] | None]
"""A cut-off, the value there, and its interval."""
_DEPTHS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)


@dataclass(frozen=True, slots=True)
class RetrievalCurves:
    """Retrieval metrics of one run at several cut-offs, and the rank of each sample's first hit."""

    depths: tuple[int, ...] = ()
    curves: Mapping[str, list[Point]] = field(default_factory=dict)
    """The points of each metric."""
    first_hit: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    """The rank of each sample's first hit; infinite without a hit, NaN without gold."""


def hits_by_span(run: StoredRun) -> bool:
    """Whether a run has hits by span only, because its ids differ from the gold ids."""
    return any(one.by == "span" for one in _gold_ranks(run) if one is not None)


def retrieval_curves(run: StoredRun, *, by_span: bool | None = None) -> RetrievalCurves:
    """Compute the retrieval curves of a run by its own conventions; empty where it has no rankings or no gold.

    ``by_span`` uses span metrics instead of id metrics; by default where ids do not match and spans do.
    """
    by_span = hits_by_span(run) if by_span is None else by_span
    depth = run.depth
    if depth < 1 or not any(sample.relevant_docs for sample in run.samples):
        return RetrievalCurves()
    depths = tuple(k for k in dict.fromkeys([*_DEPTHS, depth]) if k <= depth)
    depths = tuple(sorted(depths))
    options = _options(run)
    specs: list[Spec] = ["mrr"]
    families = _BY_SPAN if by_span else _BY_ID
    specs += [{f"{family}@{k}": options.get(family, {})} for family in families for k in depths]
    try:
        results = evaluate(
            run.samples, run.outputs, specs, conventions=plan_conventions(run.record), run=run_info(run.record)
        )
    except AueporaError:  # a stored ranking that is invalid today
        return RetrievalCurves()
    first_hits, curves = _first_hits(results), _curves(results, depths)
    if by_span:
        first_hits = _first_hits_by_span(run, first_hits)
        curves = {"hit_rate": _hit_rates(run, first_hits, depths), **curves}
    return RetrievalCurves(depths, curves, first_hits)


def _gold_ranks(run: StoredRun) -> list[GoldRank | None]:
    """The first hit of each sample's gold; ``None`` where no gold has a span."""
    rules = plan_conventions(run.record)
    return [
        first_gold_rank(sample, output, min_relevance=rules.min_relevance, depth=rules.depth)
        if has_spans(sample)
        else None
        for sample, output in zip(run.samples, run.outputs, strict=True)
    ]


def _first_hits_by_span(run: StoredRun, by_id: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The ranks of the first hits; gold with spans is matched by id or by span."""
    ranks = by_id.copy()
    for row, one in enumerate(_gold_ranks(run)):
        if one is not None and not np.isnan(by_id[row]):
            ranks[row] = np.inf if one.rank is None else one.rank
    return ranks


def _hit_rates(run: StoredRun, first_hits: npt.NDArray[np.float64], depths: tuple[int, ...]) -> list[Point]:
    """The proportion of samples with a hit within each cut-off."""
    known = ~np.isnan(first_hits)
    clusters = None if run.clusters is None else run.clusters[known]
    points: list[Point] = []
    for k in depths:
        hits = (first_hits[known] <= k).astype(np.float64)
        interval = mean_interval(hits, clusters=clusters, binary=True) if len(hits) else None
        if len(hits):
            points.append((k, float(hits.mean()), None if interval is None else (interval.low, interval.high)))
    return points


def _options(run: StoredRun) -> dict[str, dict[str, Any]]:
    """The plan's options of each metric family, so that a curve agrees with the plan's results."""
    options_by_family: dict[str, dict[str, Any]] = {}
    for spec in run.record.plan.get("metrics") or ():
        if not isinstance(spec, Mapping) or len(spec) != 1:
            continue
        ((name, options),) = spec.items()
        family = str(name).partition("@")[0]
        if family in FAMILIES and isinstance(options, Mapping) and family not in options_by_family:
            options_by_family[family] = {key: value for key, value in options.items() if key not in ("as", "k")}
    return options_by_family


def _curves(results: Results, depths: tuple[int, ...]) -> dict[str, list[Point]]:
    by_name = {one.name: one for one in results}
    curves = {}
    for family in FAMILIES:
        points = [(k, by_name[f"{family}@{k}"]) for k in depths if f"{family}@{k}" in by_name]
        kept = [(k, one.value, one.interval) for k, one in points if one.defined]
        if kept:
            curves[family] = kept
    return curves


def _first_hits(results: Results) -> npt.NDArray[np.float64]:
    scores = results[0].scores
    assert isinstance(scores, Scores)
    ranks = np.full(len(scores), np.nan)
    scored = scores.status == Status.SCORED
    hit = scored & (scores.values > 0)
    ranks[scored] = np.inf
    ranks[hit] = np.round(1 / scores.values[hit])
    return ranks
