"""The check of results and a comparison against gates: passed, failed or inconclusive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..compare.types import MetricComparison
from ..core.errors import did_you_mean
from ..core.types import MetricResult
from .coverage import coverage_gates, coverage_outcome
from .grammar import parse_gates
from .kinds import CoverageGate, DeltaGate, Gate, Operator, ValueGate, VerdictGate
from .names import resolve_names
from .report import GateOutcome, GateReport, GateStatus
from .thresholds import describe_relation, format_interval, format_number, interval_status, value_status

__all__ = ["NO_BASELINE", "check_gates"]

NO_BASELINE = "there is no run to compare with; name one with --against"


def check_gates(
    gates: Iterable[str | Gate],
    results: Sequence[MetricResult],
    *,
    comparison: Mapping[str, MetricComparison] | None = None,
    refused: Mapping[str, str] | None = None,
    without: str = NO_BASELINE,
    against: str | None = None,
) -> GateReport:
    """Check results against gates. Gates on a difference or verdict use the ``comparison`` with a baseline.

    ``refused`` says why metrics cannot be compared, ``without`` why there is no comparison at all, ``against`` is the
    run id of the baseline. A metric that was not computed raises nothing: its gate is inconclusive.
    """
    results_by_name = {one.name: one for one in results}
    parsed = resolve_names(parse_gates(gates), results_by_name)
    compared = _ComparisonChecker(comparison, refused or {}, without)
    coverage = coverage_gates(parsed, results_by_name)
    outcomes: list[GateOutcome] = []
    for gate in parsed:
        if isinstance(gate, CoverageGate):
            matching = [one for one, implied in coverage if not implied and gate.metric in (None, one.metric)]
            texts = {one.gate for one in outcomes}
            outcomes += [
                coverage_outcome(one, results_by_name.get(str(one.metric)), implied=False)
                for one in matching
                if one.text not in texts
            ]
        elif isinstance(gate, ValueGate):
            outcomes.append(_check_value(gate, results_by_name.get(gate.metric)))
        elif isinstance(gate, DeltaGate):
            outcomes.append(compared.delta(gate))
        else:
            outcomes.append(compared.verdict(gate))
    outcomes += [
        coverage_outcome(one, results_by_name.get(str(one.metric)), implied=True)
        for one, implied in coverage
        if implied
    ]
    return GateReport(tuple(outcomes), getattr(results, "run_id", None), against)


def _check_value(gate: ValueGate, whole: MetricResult | None) -> GateOutcome:
    """The outcome of a gate on a metric's value or on an end of its interval."""
    if whole is None:
        return _inconclusive(gate, f"{gate.metric} was not computed")
    result, name = whole, gate.metric
    if gate.where is not None:
        groups = whole.slices.get(gate.where.slice, {})
        part = groups.get(gate.where.group)
        if not isinstance(part, MetricResult):
            near = did_you_mean(gate.where.group, map(str, groups)) if groups else f"; slice by {gate.where.slice}"
            return _inconclusive(gate, f"{name} has no group {gate.where}{near}")
        result, name = part, f"{name} where {gate.where}"
    if not result.defined:
        because = result.details.get("undefined_because") or "no sample was scored"
        return _inconclusive(gate, f"{name} has no value: {because}")
    if skipped := result.details.get("skipped_missing_output"):
        return _inconclusive(
            gate,
            f"{name} is {format_number(result.value)} "
            f"without {skipped} missing output{'s' * (skipped != 1)}, which its "
            f"conventions skip; count them with `auepora rescore RUN -m '{gate.metric}:missing=fail'`",
            result.value,
        )
    value, what, flags = result.value, name, ()
    if gate.part != "point":
        if result.interval is None:
            return _inconclusive(gate, f"{name} has no interval; point({gate.metric}) decides by the value alone")
        value = result.interval[0 if gate.part == "low" else 1]
        what = f"the {'lower' if gate.part == 'low' else 'upper'} end of {name} ({format_number(result.value)})"
        flags = (result.details.get("interval") or {}).get("flags") or ()
    status = value_status(value, gate.operator, gate.threshold)
    reason = f"{what} is {describe_relation(value, gate.operator, gate.threshold)}"
    if gate.part == "point" and result.interval is not None:
        reason += f" ({format_interval(result.interval)})"
    reason += _flags_note(flags)
    return GateOutcome(gate.text, status, reason, gate.metric, value, warning=_failure_warning(gate, result, status))


def _failure_warning(gate: ValueGate, result: MetricResult, status: GateStatus) -> str | None:
    """A warning where failed measurements could have changed the decision."""
    bounds = result.details.get("bounds")
    if (
        gate.part != "point"
        or not bounds
        or {value_status(one, gate.operator, gate.threshold) for one in bounds} == {status}
    ):
        return None
    low, high = bounds
    return (
        f"{gate.text!r} is {status} by what could be measured; with {result.details.get('num_measure_failed')} failed "
        f"measurements the value may lie anywhere from {format_number(low)} to {format_number(high)}"
    )


def _flags_note(flags: Iterable[str]) -> str:
    listed = ", ".join(flags)
    return f"; the interval may claim too much ({listed})" if listed else ""


class _ComparisonChecker:
    """Checks gates on a comparison with a baseline."""

    def __init__(
        self, comparison: Mapping[str, MetricComparison] | None, refused: Mapping[str, str], without: str
    ) -> None:
        self._comparison, self._refused, self._without = comparison, refused, without

    def delta(self, gate: DeltaGate) -> GateOutcome:
        """The outcome of a gate on a difference, by its whole interval or by the number the gate names."""
        one = self._comparison_or_reason(gate.metric)
        if isinstance(one, str):
            return _inconclusive(gate, one)
        if gate.part is None:
            return _decide_by_interval(gate, one, gate.operator, gate.threshold)
        return _decide_by_number(gate, one)

    def verdict(self, gate: VerdictGate) -> GateOutcome:
        """The outcome of a gate on a verdict, or on a margin that the interval must keep."""
        one = self._comparison_or_reason(gate.metric)
        if isinstance(one, str):
            return _inconclusive(gate, one)
        if one.doubt == "question_overlap":
            return _inconclusive(
                gate, f"the difference in {gate.metric} is {_difference_text(one)}: {one.note}", one.delta
            )
        if gate.by is not None:
            margin = gate.by if gate.expected == "better" else 0.0 - gate.by  # never a minus zero
            if one.higher_is_better:
                return _decide_by_interval(gate, one, ">", margin)
            return _decide_by_interval(gate, one, "<", 0.0 - margin)
        reason = f"{gate.metric} is {_verdict_text(one)}"
        if one.doubt == "measure_failures" and (gate.expected == "better" or _may_be_worse(one)):
            return _inconclusive(gate, f"{reason}: measurements that failed could turn it", one.delta)
        if gate.expected == "better":
            if one.verdict == "inconclusive":
                return _inconclusive(gate, reason + _mde_note(one), one.delta)
            return GateOutcome(
                gate.text, "passed" if one.verdict == "better" else "failed", reason, gate.metric, one.delta
            )
        if one.verdict == "worse":
            return GateOutcome(gate.text, "failed", reason, gate.metric, one.delta)
        if one.verdict == "inconclusive":
            reason = f"{gate.metric} was not found to be worse: {_difference_text(one)}{_mde_note(one)}"
        return GateOutcome(gate.text, "passed", reason, gate.metric, one.delta)

    def _comparison_or_reason(self, name: str) -> MetricComparison | str:
        """The comparison of a metric, or the reason why a gate cannot use it."""
        if self._comparison is None:
            return self._without
        if name not in self._comparison:
            return f"{name} cannot be compared: {self._refused.get(name, 'not both runs have it')}"
        one = self._comparison[name]
        if one.delta is None:
            return f"{one.name} has no difference: {one.note or 'no sample was scored in both runs'}"
        if one.doubt == "system_failures":
            because = f" ({one.note})" if one.note else ""
            difference = _difference_text(one)
            return f"the difference in {name} is {difference}, but only because a system failed on some{because}"
        if one.doubt == "missing_outputs":
            return f"the difference in {name} is {_difference_text(one)}, but outputs are missing ({one.note})"
        return one


def _decide_by_number(gate: DeltaGate, one: MetricComparison) -> GateOutcome:
    """Decide by one end of a difference's interval, or by the bare difference, allowing for failed measurements."""
    assert one.delta is not None
    warning = None
    value, what = one.delta, f"the difference in {gate.metric}"
    if gate.part == "point":
        warning = (
            f"{gate.text!r} goes by the bare difference, which chance moves both ways; "
            f"delta({gate.metric}) goes by its interval"
        )
    elif one.interval is None:
        return _inconclusive(gate, _no_interval_message(one))
    else:
        value = one.interval[0 if gate.part == "low" else 1]
        what = f"the {'lower' if gate.part == 'low' else 'upper'} end of {what} ({format_number(one.delta)})"
    status = value_status(value, gate.operator, gate.threshold)
    reason = f"{what} is {describe_relation(value, gate.operator, gate.threshold)}"
    if unsure := _failure_note(
        one, gate.threshold, {value_status(value + by, gate.operator, gate.threshold) for by in _failure_shifts(one)}
    ):
        status, reason = "inconclusive", f"{what} is {format_number(value, gate.threshold)}, but {unsure}"
    return GateOutcome(gate.text, status, reason, gate.metric, value, warning=warning)


def _decide_by_interval(gate: Gate, one: MetricComparison, operator: Operator, threshold: float) -> GateOutcome:
    """Decide by the whole interval of a difference, allowing for failed measurements."""
    assert one.delta is not None
    if one.interval is None:
        return _inconclusive(gate, _no_interval_message(one), one.delta)
    status = interval_status(one.interval, operator, threshold)
    words = {">": "above", ">=": "at or above", "<": "below", "<=": "at or below"}[operator]
    reason = f"the difference in {one.name} is {_difference_text(one)}: "
    moved = {interval_status(one.interval, operator, threshold, by) for by in _failure_shifts(one)}
    if status != "inconclusive" and (unsure := _failure_note(one, threshold, {status, *moved})):
        status = "inconclusive"
        reason += unsure
    elif status == "inconclusive":
        reason += f"it may lie on either side of {threshold:g}{_mde_note(one)}"
    else:
        reason += f"{'all' if status == 'passed' else 'none'} of the interval is {words} {threshold:g}"
    reason += _flags_note(one.flags)
    return GateOutcome(gate.text, status, reason, one.name, one.delta)


def _failure_shifts(one: MetricComparison) -> tuple[float, ...]:
    """The shifts that failed measurements may have caused in a difference."""
    assert one.delta is not None
    return (0.0,) if one.bounds is None else (0.0, *(bound - one.delta for bound in one.bounds))


def _failure_note(one: MetricComparison, threshold: float, statuses: set[GateStatus]) -> str | None:
    """Why failed measurements make a gate inconclusive; ``None`` where all ``statuses`` agree."""
    if one.doubt == "measure_failures" and one.bounds is None:
        return "measurements that failed could move it, and how far is unknown"
    return f"measurements that failed could put it on either side of {threshold:g}" if len(statuses) > 1 else None


def _may_be_worse(one: MetricComparison) -> bool:
    """Whether failed measurements allow a difference in the worse direction; unknown bounds do."""
    if one.bounds is None:
        return True
    return one.bounds[0] < 0 if one.higher_is_better else one.bounds[1] > 0


def _difference_text(one: MetricComparison) -> str:
    assert one.delta is not None
    interval = "" if one.interval is None else f" ({format_interval(one.interval)})"
    return f"{'+' * (one.delta >= 0)}{format_number(one.delta)}{interval} on {one.n} sample{'s' * (one.n != 1)}"


def _verdict_text(one: MetricComparison) -> str:
    p = one.p_value if one.p_adjusted is None else one.p_adjusted
    p_text = "" if p is None else f", p {p:.3g}"
    words = {"inconclusive": "neither better nor worse for sure"}.get(one.verdict, one.verdict)
    return f"{words}: {_difference_text(one)}{p_text}"


def _mde_note(one: MetricComparison) -> str:
    return "" if one.mde is None else f"; so many samples detect a difference of {format_number(one.mde)}"


def _no_interval_message(one: MetricComparison) -> str:
    because = f" ({one.note})" if one.note else ""
    return f"the difference in {one.name} has no interval{because}; point(delta({one.name})) decides by the bare number"


def _inconclusive(gate: Gate, reason: str, value: float | None = None) -> GateOutcome:
    return GateOutcome(gate.text, "inconclusive", reason, gate.metric, value)
