"""How much must have been scored: of every metric that a gate names, 95 % unless a gate says otherwise.

Coverage is scored / (scored + failed). What was skipped does not apply to the metric and is not missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..core.types import MetricResult
from .kinds import CoverageGate, Gate
from .report import GateOutcome
from .thresholds import describe_relation, format_number, value_status

__all__ = ["MIN_COVERAGE", "coverage_gates", "coverage_outcome", "coverage_proportion"]

MIN_COVERAGE = 0.95
"""What must have been scored where no gate says otherwise."""


def coverage_proportion(result: MetricResult) -> float | None:
    """The share of answers that were scored, of those the metric applies to; ``None`` where that is not known."""
    scored, failed = _answer_counts(result)
    if scored is None or failed is None or scored + failed == 0:
        return None
    return scored / (scored + failed)


def _answer_counts(result: MetricResult) -> tuple[int | None, int | None]:
    """How many answers were scored and how many failed; where samples were asked several times, of all calls."""
    repeats = result.details.get("repeats")
    if isinstance(repeats, Mapping) and "num_calls" in repeats:
        failed = repeats["num_system_failed"] + repeats["num_measure_failed"]
        return repeats["num_calls"] - failed, failed
    counts = (result.details.get(key) for key in ("num_scored", "num_failed"))
    scored, failed = (count if isinstance(count, int) else None for count in counts)
    return scored, failed


def coverage_gates(gates: Sequence[Gate], results: Mapping[str, MetricResult]) -> list[tuple[CoverageGate, bool]]:
    """A gate per metric whose coverage is asked for, and whether it is implied."""
    general = next((one for one in gates if isinstance(one, CoverageGate) and one.metric is None), None)
    own = {one.metric: one for one in gates if isinstance(one, CoverageGate) and one.metric is not None}
    named = [one.metric for one in gates if not isinstance(one, CoverageGate)]
    if not named and general is not None:
        named = list(results)
    made: list[tuple[CoverageGate, bool]] = []
    for name in dict.fromkeys([*named, *own]):
        if name in own:
            made.append((own[name], False))
        elif general is not None:
            text = f"coverage({name}) {general.operator} {general.threshold:g}"
            made.append((CoverageGate(text, name, general.operator, general.threshold), False))
        elif (
            name in results and "num_scored" in results[name].details and coverage_proportion(results[name]) is not None
        ):
            made.append((CoverageGate(f"coverage({name}) >= {MIN_COVERAGE:g}", name, ">=", MIN_COVERAGE), True))
    return made


def coverage_outcome(gate: CoverageGate, result: MetricResult | None, *, implied: bool) -> GateOutcome:
    """How a gate on coverage went."""
    name = gate.metric
    if result is None:
        return GateOutcome(gate.text, "inconclusive", f"{name} was not computed", name, implied=implied)
    share = coverage_proportion(result)
    if share is None:
        return GateOutcome(
            gate.text, "inconclusive", f"nothing is known of how much of {name} was scored", name, implied=implied
        )
    scored, failed = _answer_counts(result)
    assert scored is not None
    assert failed is not None
    status = value_status(share, gate.operator, gate.threshold)
    lies = describe_relation(share, gate.operator, gate.threshold).removeprefix(format_number(share, gate.threshold))
    reason = (
        f"{scored} of {scored + failed} answers were scored by {name}, {format_number(share, gate.threshold)}{lies}"
    )
    return GateOutcome(gate.text, status, reason, name, share, implied)
