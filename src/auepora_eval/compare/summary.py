"""A comparison in one sentence: on how many primary metrics B is better or worse, and by how much on the main one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..core.types import TargetCategory
from ..reporting.tables import format_value
from .types import CompareReport, MetricComparison

__all__ = ["ComparisonSummary", "comparison_summary"]

_TARGETS = (
    TargetCategory.GENERATION_CORRECTNESS,
    TargetCategory.GENERATION_RELEVANCE,
    TargetCategory.GENERATION_FAITHFULNESS,
    TargetCategory.RETRIEVAL_ACCURACY,
    TargetCategory.RETRIEVAL_RELEVANCE,
)
_PREFERRED = ("token_f1", "exact_match")


@dataclass(frozen=True, slots=True)
class ComparisonSummary:
    """A comparison as one sentence, with the overall outcome on the primary metrics."""

    sentence: str
    outcome: Literal["better", "worse", "open"]
    """``open`` where there is neither better nor worse, or both."""


def comparison_summary(report: CompareReport, names: tuple[str, str] | None = None) -> ComparisonSummary:
    """The comparison in one sentence. Sentence and outcome cover the primary metrics only."""
    primary = [one for one in report.metrics if one.primary]
    if not primary:
        return ComparisonSummary("The two runs have no metric in common that can be compared.", "open")
    counts = {verdict: sum(one.verdict == verdict for one in primary) for verdict in ("better", "worse", "equal")}
    counts["open"] = len(primary) - sum(counts.values())
    verdicts = ", ".join(f"{what} on {count}" for what, count in counts.items() if count)
    of_all = "metric" if len(primary) == len(report.metrics) else "primary metric"
    a, b = ("A", "B") if names is None else (f"A ({names[0]})", f"B ({names[1]})")
    sentence = f"Of {len(primary):,} {of_all}{'s' * (len(primary) != 1)}, {b} against {a} is {verdicts}"
    main = _headline_metric(primary)
    outcome: Literal["better", "worse", "open"] = "open"
    if bool(counts["better"]) != bool(counts["worse"]):
        outcome = "better" if counts["better"] else "worse"
    return ComparisonSummary(f"{sentence}{'' if main is None else f'; {_describe_change(main)}'}.", outcome)


def _headline_metric(primary: Sequence[MetricComparison]) -> MetricComparison | None:
    """The most important primary metric: those of answers before those of retrieval, then any other."""

    def weight(one: MetricComparison) -> tuple[int, bool]:
        rank = next((place for place, target in enumerate(_TARGETS) if target.name == one.target), len(_TARGETS))
        return rank, one.name not in _PREFERRED

    return min((one for one in primary if one.delta is not None), key=weight, default=None)


def _describe_change(one: MetricComparison) -> str:
    """The difference of a metric in words."""
    assert one.delta is not None
    if one.delta == 0:
        return f"{one.name} stays at {_value(one.b)}"
    ends = one.shown_interval
    interval = "" if ends is None else f", 95 % interval {_signed(ends[0])} to {_signed(ends[1])}"
    p = one.p_value if one.p_adjusted is None else one.p_adjusted
    chance = "" if p is None else f", p {'< 0.0001' if p < 0.0001 else f'{p:.4f}'}"
    way = "rises" if one.delta > 0 else "falls"
    return f"{one.name} {way} from {_value(one.a)} to {_value(one.b)} ({_signed(one.delta)}{interval}{chance})"


def _value(value: float | None) -> str:
    return "n/a" if value is None else format_value(value)


def _signed(value: float) -> str:
    return format_value(0.0) if value == 0 else f"{'+' if value > 0 else '−'}{format_value(abs(value))}"
