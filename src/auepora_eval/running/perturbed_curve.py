"""The curve of a sweep: every perturbed run compared with the base run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..compare.metric_comparisons import compare_metrics
from ..compare.types import MetricComparison
from ..core.results import Results, display_name
from ..core.types import MetricResult, TargetCategory
from ..features.refusals import is_unanswerable
from ..perturb.kinds import Level, Sweep
from ..reporting.curve import Curve, CurvePoint
from ..store.records import RunRecord
from ..store.runs import RunStore
from .run import RunOutcome

__all__ = ["build_curve"]

_REJECTION = TargetCategory.NEGATIVE_REJECTION.name


def build_curve(
    store: RunStore,
    sweep: Sweep,
    outcomes: Mapping[Level, RunOutcome],
    *,
    seed: int,
    notes: Sequence[str] = (),
    together: Results | None = None,
) -> Curve:
    """Build the curve from the finished runs of a sweep."""
    base = outcomes[sweep.base]
    results = {level: _results(outcomes[level]) for level in sweep.levels}
    refused: dict[str, str] = {}
    elsewhere: dict[str, list[str]] = {}
    compared: dict[Level, dict[str, MetricComparison]] = {}
    for level in sweep.levels:
        if level == sweep.base or not results[level] or not results[sweep.base]:
            continue
        # The questions are the same; only the annotations of documents differ.
        found = compare_metrics(store, base.record, outcomes[level].record, other_dataset=True)
        others = _unanswerable_differ(store, base.record, outcomes[level].record)
        kept = {name: one for name, one in found.by_name.items() if not (others and one.target == _REJECTION)}
        compared[level] = kept
        refused.update(found.refused)
        for name in found.by_name.keys() - kept.keys():
            elsewhere.setdefault(name, []).append(sweep.label(level))
    refused |= {name: f"at {', '.join(at)} declining is right for other questions" for name, at in elsewhere.items()}
    every = {name: one for level in sweep.levels for name, one in results[level].items()}
    return Curve(
        sweep.kind,
        sweep.levels,
        sweep.base,
        seed,
        [outcomes[level].record.run_id for level in sweep.levels],
        {
            name: [_point(level, results[level].get(name), compared.get(level, {}).get(name)) for level in sweep.levels]
            for name in every
        },
        frozenset(name for name, one in every.items() if one.target is TargetCategory.LATENCY),
        refused,
        list(notes),
        together,
        {name: display_name(one) for name, one in every.items()},
    )


def _unanswerable_differ(store: RunStore, base: RunRecord, record: RunRecord) -> bool:
    """Whether the unanswerable questions differ, so that rejection metrics cannot be compared."""
    if base.fingerprint == record.fingerprint:
        return False
    marks = [
        {one.sample_id: is_unanswerable(one) for one in store.samples(each.run_id, texts=False)}
        for each in (base, record)
    ]
    return marks[0] != marks[1]


def _results(outcome: RunOutcome) -> dict[str, MetricResult]:
    return {one.name: one for one in outcome.results or ()}


def _point(level: Level, result: MetricResult | None, change: MetricComparison | None) -> CurvePoint:
    if result is None or not result.defined:
        return CurvePoint(level, None, n=0 if result is None else int(result.details.get("num_samples", 0)))
    difference: dict[str, Any] = {}
    if change is not None:
        difference = {
            "delta": change.delta,
            "delta_interval": change.interval,
            "p_value": change.p_value,
            "p_adjusted": change.p_adjusted,
            "verdict": None if change.delta is None else change.verdict if change.primary else "exploratory",
        }
    interval = None if result.interval is None else (float(result.interval[0]), float(result.interval[1]))
    flags = tuple((result.details.get("interval") or {}).get("flags") or ())
    return CurvePoint(
        level, result.value, interval, int(result.details.get("num_samples", 0)), flags=flags, **difference
    )
