"""What the stored rankings of a run come to: retrieval metrics at several depths, and where the first hit stands."""

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
from ...store.planned import planned_conventions, run_facts
from .stored_run import StoredRun

__all__ = ["FAMILIES", "RankedRun", "ranked"]

FAMILIES = ("recall", "precision", "ndcg", "hit_rate")
_DEPTHS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)


@dataclass(frozen=True, slots=True)
class RankedRun:
    """Retrieval metrics of one run at several depths, and each sample's first hit."""

    depths: tuple[int, ...] = ()
    curves: Mapping[str, list[tuple[int, float, tuple[float, float] | None]]] = field(default_factory=dict)
    """By metric its depth, value and interval."""
    first_hit: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    """Per sample the rank of the first relevant document; infinite where none was returned, NaN where none is known."""


def ranked(run: StoredRun) -> RankedRun:
    """The rankings of a run looked at again, by its own conventions; nothing where it has no rankings or no gold."""
    depth = run.depth
    if depth < 1 or not any(sample.relevant_docs for sample in run.samples):
        return RankedRun()
    depths = tuple(k for k in dict.fromkeys([*_DEPTHS, depth]) if k <= depth)
    depths = tuple(sorted(depths))
    options = _options(run)
    specs: list[Spec] = ["mrr"]
    specs += [{f"{family}@{k}": options.get(family, {})} for family in FAMILIES for k in depths]
    try:
        results = evaluate(
            run.samples, run.outputs, specs, conventions=planned_conventions(run.record), run=run_facts(run.record)
        )
    except AueporaError:  # a stored ranking that today's rules refuse
        return RankedRun()
    return RankedRun(depths, _curves(results, depths), _first_hits(results))


def _options(run: StoredRun) -> dict[str, dict[str, Any]]:
    """The options that the run's plan gives each family, so that a curve goes through the plan's own number."""
    found: dict[str, dict[str, Any]] = {}
    for spec in run.record.plan.get("metrics") or ():
        if not isinstance(spec, Mapping) or len(spec) != 1:
            continue
        ((name, options),) = spec.items()
        family = str(name).partition("@")[0]
        if family in FAMILIES and isinstance(options, Mapping) and family not in found:
            found[family] = {key: value for key, value in options.items() if key not in ("as", "k")}
    return found


def _curves(
    results: Results, depths: tuple[int, ...]
) -> dict[str, list[tuple[int, float, tuple[float, float] | None]]]:
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
    found = scored & (scores.values > 0)
    ranks[scored] = np.inf
    ranks[found] = np.round(1 / scores.values[found])
    return ranks
