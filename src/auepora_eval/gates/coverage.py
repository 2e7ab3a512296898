"""Coverage gates: the required proportion of scored answers of every gated metric, 95 % by default.

Coverage is scored / (scored + failed). Skipped samples do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..core.types import MetricResult
from .kinds import CoverageGate, Gate
from .report import GateOutcome
from .thresholds import describe_relation, format_number, value_status

__all__ = ["MIN_COVERAGE", "coverage_gates", "coverage_outcome", "coverage_proportion"]

MIN_COVERAGE = 0.95
"""The coverage required where no gate sets it."""


def coverage_proportion(result: MetricResult) -> float | None:
    """The proportion of scored answers among those the metric applies to; ``None`` where it is unknown."""
    scored, failed = _answer_counts(result)
    if scored is None or failed is None or scored + failed == 0:
        return None
    return scored / (scored + failed)


def _answer_counts(result: MetricResult) -> tuple[int | None, int | None]:
    """The numbers of scored and failed answers; with repeats, of all calls."""
    repeats = result.details.get("repeats")
    if isinstance(repeats, Mapping) and "num_calls" in repeats:
        failed = repeats["num_system_failed"] + repeats["num_measure_failed"]
        return repeats["num_calls"] - failed, failed
    counts = (result.details.get(key) for key in ("num_scored", "num_failed"))
    scored, failed = (count if isinstance(count, int) else None for count in counts)
    return scored, failed


def coverage_gates(gates: Sequence[Gate], results: Mapping[str, MetricResult]) -> list[tuple[CoverageGate, bool]]:
    """A coverage gate per gated metric, and whether it is implied."""
    general = next((one for one in gates if isinstance(one, CoverageGate) and one.metric is None), None)
    by_metric = {one.metric: one for one in gates if isinstance(one, CoverageGate) and one.metric is not None}
    named = [one.metric for one in gates if not isinstance(one, CoverageGate)]
    if not named and general is not None:
        named = list(results)
    result: list[tuple[CoverageGate, bool]] = []
    for name in dict.fromkeys([*named, *by_metric]):
        if name in by_metric:
            result.append((by_metric[name], False))
        elif general is not None:
            text = f"coverage({name}) {general.operator} {general.threshold:g}"
            result.append((CoverageGate(text, name, general.operator, general.threshold), False))
        elif (
            name in results and "num_scored" in results[name].details and coverage_proportion(results[name]) is not None
        ):
            result.append((CoverageGate(f"coverage({name}) >= {MIN_COVERAGE:g}", name, ">=", MIN_COVERAGE), True))
    return result


def coverage_outcome(gate: CoverageGate, result: MetricResult | None, *, implied: bool) -> GateOutcome:
    """The outcome of a coverage gate."""
    name = gate.metric
    if result is None:
        return GateOutcome(gate.text, "inconclusive", f"{name} was not computed", name, implied=implied)
    proportion = coverage_proportion(result)
    if proportion is None:
        return GateOutcome(
            gate.text, "inconclusive", f"nothing is known of how much of {name} was scored", name, implied=implied
        )
    scored, failed = _answer_counts(result)
    assert scored is not None
    assert failed is not None
    status = value_status(proportion, gate.operator, gate.threshold)
    shown = format_number(proportion, gate.threshold)
    relation = describe_relation(proportion, gate.operator, gate.threshold).removeprefix(shown)
    reason = f"{scored} of {scored + failed} answers were scored by {name}, {shown}{relation}"
    return GateOutcome(gate.text, status, reason, name, proportion, implied)
