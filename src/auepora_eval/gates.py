"""Gates: conditions that a run must satisfy, such as ``recall@5 >= 0.80``, checked and reported."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

from .compare.stores import DecisionRegister, register_decision
from .compare.types import GuardrailOutcome, MetricComparison
from .core.results import (
    CLAIM_ALL,
    Results,
    corrections_note,
    deciding_look,
    display_name,
    metric_labels,
    sequential_details,
    sequential_note,
    two_stage_details,
    two_stage_note,
    unusable_judges,
)
from .core.types import MetricResult
from .engine.gold_match import GoldMatch
from .errors import AueporaError, BadValueError, did_you_mean
from .io.sample_sets import SampleSet
from .plan.gates import (
    CoverageGate,
    DeltaGate,
    Gate,
    GateStatus as GateStatus,
    GuardrailsGate,
    Operator,
    ValueGate,
    VerdictGate,
    describe_relation,
    format_interval,
    format_number,
    goes_by_interval,
    interval_ends,
    is_close,
    needs_baseline,
    parse_gates,
    require_quality_gates,
    resolve_names,
    status_of,
)
from .render.block_report import BlockReport
from .render.blocks import Block
from .render.short import decimals
from .stats.intervals import wilson_bounds
from .store.records import RunRecord
from .store.runs import RunStore, result_summaries

# --- the gate report: outcomes with reasons, and an exit code --------------------------------------------------------

SCHEMA = 1

_EXIT_CODES: dict[GateStatus, int] = {"passed": 0, "failed": 1, "inconclusive": 3}


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """The outcome of one gate."""

    gate: str
    """Its text."""
    status: GateStatus
    reason: str
    """One sentence with the numbers."""
    metric: str | None = None
    value: float | None = None
    """The number that decided: a value, a difference, a proportion."""
    implied: bool = False
    """Whether it is the default coverage gate of a gated metric, which the user did not write."""
    warning: str | None = None
    """A caveat of the outcome."""


@dataclass(frozen=True, slots=True)
class CheckedGate(GateOutcome):
    """The outcome of a gate with what the short form says about it; this is not stored."""

    brief: str = ""
    """The reason with as many digits as the interval allows."""
    is_doubtful: bool = False
    """Whether the interval may be too narrow."""


@dataclass(frozen=True, slots=True)
class GateReport(BlockReport):
    """The outcomes of all gates of a run."""

    outcomes: tuple[GateOutcome, ...]
    run_id: str | None = None
    against: str | None = None
    """The run it was compared with."""
    register: DecisionRegister | None = None
    """How often the dataset decided before; ``None`` without a comparison."""
    sample_set: SampleSet | None = None
    """The set of samples that the gates are about; ``None`` for all samples."""

    def __iter__(self) -> Iterator[GateOutcome]:
        return iter(self.outcomes)

    @property
    def status(self) -> GateStatus:
        """``failed`` where any gate failed, else ``inconclusive`` where any is, else ``passed``."""
        statuses = {outcome.status for outcome in self.outcomes}
        return "failed" if "failed" in statuses else "inconclusive" if "inconclusive" in statuses else "passed"

    @property
    def exit_code(self) -> int:
        """0 passed, 1 failed, 3 inconclusive."""
        return _EXIT_CODES[self.status]

    @property
    def visible_outcomes(self) -> list[GateOutcome]:
        """The outcomes to show: all written gates, and implied ones that did not pass."""
        return [outcome for outcome in self.outcomes if not outcome.implied or outcome.status != "passed"]

    @property
    def warnings(self) -> list[str]:
        """The distinct warnings."""
        return list(dict.fromkeys(outcome.warning for outcome in self.outcomes if outcome.warning is not None))

    @property
    def headline(self) -> str:
        """``3 gates: 2 passed, 1 failed``."""
        counts = Counter(outcome.status for outcome in self.visible_outcomes)
        summary = ", ".join(f"{counts[status]} {status}" for status in _EXIT_CODES if counts[status])
        n = len(self.visible_outcomes)
        return f"{n} gate{'s' * (n != 1)}: {summary}" if n else "no gates"

    def blocks(self) -> list[Block]:
        """A row per gate, warnings, and the counts."""
        return list(import_module("auepora_eval.report.gate_table").gates_blocks(self))

    def to_dict(self) -> dict[str, Any]:
        """The report as a JSON-compatible dictionary (schema 1)."""
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "run_id": self.run_id,
            "against": self.against,
            "status": self.status,
            "gates": [_outcome_dict(outcome) for outcome in self.outcomes],
        }
        if self.sample_set is not None:
            document["sample_set"] = self.sample_set.name
        return document if self.register is None else {**document, "register": self.register.to_dict()}

    def to_json(self, *, indent: int | None = 2) -> str:
        """The report as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)


def brief_reason(outcome: GateOutcome) -> str:
    """The reason of an outcome for the short form."""
    return outcome.brief if isinstance(outcome, CheckedGate) else outcome.reason


def _make_inconclusive(outcome: GateOutcome, reason: str, brief: str) -> GateOutcome:
    """An outcome as an inconclusive one, for another reason."""
    changed = replace(outcome, status="inconclusive", reason=reason)
    return replace(changed, brief=brief) if isinstance(changed, CheckedGate) else changed


def _outcome_dict(outcome: GateOutcome) -> dict[str, Any]:
    document = asdict(outcome)
    return {name: document[name] for name in GateOutcome.__dataclass_fields__}


# --- coverage gates: the required proportion of scored answers of every gated metric, 95 % by default ----------------
# Coverage is scored / (scored + failed). Skipped samples do not count.

MIN_COVERAGE = 0.95
"""The coverage required where no gate sets it."""


def _answer_counts(result: MetricResult) -> tuple[int, int] | None:
    """The numbers of scored answers and of all that the metric applies to; ``None`` where that is unknown or 0.

    With repeats these are calls.
    """
    details, repeats = result.details, result.details.repeats
    if not repeats and not details.counts_outcomes:
        return None
    failed, total = details.num_failed, details.num_scored + details.num_failed
    if repeats.num_calls:
        failed, total = repeats.num_failed, repeats.num_calls
    return (total - failed, total) if total else None


def coverage_gates(gates: Sequence[Gate], results: Mapping[str, MetricResult]) -> Iterator[tuple[CoverageGate, bool]]:
    """A coverage gate per gated metric, and whether it is implied."""
    general = next((gate for gate in gates if isinstance(gate, CoverageGate) and gate.metric is None), None)
    by_metric = {gate.metric: gate for gate in gates if isinstance(gate, CoverageGate) and gate.metric is not None}
    named = [gate.metric for gate in gates if not isinstance(gate, CoverageGate) and gate.metric is not None]
    if not named and general is not None:
        named = list(results)
    for name in dict.fromkeys([*named, *by_metric]):
        if name in by_metric:
            yield by_metric[name], False
        elif general is not None:
            text = f"coverage({name}) {general.operator} {general.threshold:g}"
            yield CoverageGate(text, name, general.operator, general.threshold), False
        elif name in results and results[name].details.counts_outcomes and _answer_counts(results[name]) is not None:
            yield CoverageGate(f"coverage({name}) >= {MIN_COVERAGE:g}", name, ">=", MIN_COVERAGE), True


def coverage_outcome(
    gate: CoverageGate, result: MetricResult | None, *, implied: bool, short: bool = False
) -> GateOutcome:
    """The outcome of a coverage gate."""
    name, counts = gate.metric, None if result is None else _answer_counts(result)
    if counts is None:
        reason = f"{name} was not computed" if result is None else f"it is unknown how much of {name} was scored"
        return GateOutcome(gate.text, "inconclusive", reason, name, implied=implied)
    scored, total = counts
    proportion = scored / total
    digits = _digits(short, wilson_bounds(proportion, total), [proportion], gate.threshold)
    relation = describe_relation(proportion, gate.operator, gate.threshold, digits)
    label = name if result is None else display_name(result)
    reason = f"{scored} of {total} answers were scored by {label}, {relation}"
    status = status_of([proportion], gate.operator, gate.threshold)
    return GateOutcome(gate.text, status, reason, name, proportion, implied=implied)


# --- the check of results and a comparison: passed, failed or inconclusive -------------------------------------------

_ENDS: dict[str | None, str] = {"low": "lower", "high": "upper"}


def check_gates(
    gates: Iterable[str | Gate],
    results: Sequence[MetricResult],
    *,
    comparison: Mapping[str, MetricComparison] | None = None,
    refused: Mapping[str, str] | None = None,
    without: str = "there is no run to compare with; name one with --against",
    against: str | None = None,
    guardrails: Sequence[GuardrailOutcome] = (),
    picked: tuple[Mapping[str, MetricComparison], str] = ({}, ""),
) -> GateReport:
    """Check results against gates, and return a report. Gates on a difference or verdict use the ``comparison``.

    ``gates`` are texts, such as ``recall@5 >= 0.8``; ``results`` are those of a run. ``refused`` says why metrics
    cannot be compared, ``without`` why there is no comparison at all, ``against`` is the run id of the baseline,
    ``guardrails`` are those of the comparison, ``picked`` are those for gates on intervals where a run was picked in a
    sweep. A metric that was not computed raises nothing: its gate is inconclusive.

    Example:
        >>> check_gates(["recall@1 >= 0.4"], evaluate(samples, outputs, ["recall@1"])).status
        'passed'
    """
    results_by_name = {result.name: result for result in results}
    parsed = resolve_names(parse_gates(gates), results_by_name)
    require_quality_gates(parsed, {result.name: result.signature or "" for result in results})
    baseline = BaselineComparison(comparison, refused or {}, without)
    coverage = list(coverage_gates(parsed, results_by_name))
    outcomes: list[GateOutcome] = []
    for gate in parsed:
        match gate:
            case CoverageGate():
                matching = [
                    checked for checked, implied in coverage if not implied and gate.metric in (None, checked.metric)
                ]
                texts = {outcome.gate for outcome in outcomes}
                outcomes += [
                    _check_coverage(checked, results_by_name) for checked in matching if checked.text not in texts
                ]
            case ValueGate():
                result = results_by_name.get(gate.metric)
                flags = () if result is None else result.details.interval.flags
                outcomes.append(_with_brief(partial(_check_value, gate, result), flags))
            case GuardrailsGate():
                outcomes.append(
                    _with_brief(partial(_check_guardrails, gate, guardrails, baseline, metric_labels(results)))
                )
            case _:
                pair = (comparison or {}).get(gate.metric)
                flags = () if pair is None else pair.flags
                outcomes.append(_with_brief(partial(_check_difference, gate, baseline, picked), flags))
    outcomes += [_check_coverage(checked, results_by_name, implied=True) for checked, implied in coverage if implied]
    return GateReport(tuple(outcomes), getattr(results, "run_id", None), against)


def _check_coverage(gate: CoverageGate, results: Mapping[str, MetricResult], *, implied: bool = False) -> CheckedGate:
    """The outcome of a coverage gate, with its reason in few digits as well."""
    return _with_brief(partial(coverage_outcome, gate, results.get(str(gate.metric)), implied=implied))


def _with_brief(check: Callable[..., GateOutcome], flags: Iterable[str] = ()) -> CheckedGate:
    """The outcome of a check, with its reason in few digits as well, and whether its interval has flags."""
    return CheckedGate(**asdict(check()), brief=check(short=True).reason, is_doubtful=bool(flags))


def _digits(short: bool, ends: tuple[float, float] | None, numbers: Sequence[float], other: float | None = None) -> int:
    """The decimals of numbers with this interval, beside a threshold; four in the long form."""
    return decimals(ends if short else None, numbers, other)


def _check_guardrails(
    gate: GuardrailsGate,
    guardrails: Sequence[GuardrailOutcome],
    baseline: BaselineComparison,
    labels: Mapping[str, str],
    *,
    short: bool = False,
) -> GateOutcome:
    """Passed where all guardrails are within their margins, failed where one is worse."""
    if baseline.comparison is None:
        return _inconclusive(gate, baseline.without)
    if not guardrails:
        return _inconclusive(gate, "the plan has no guardrails; write 'guardrails: {METRIC: MARGIN}' in it")
    states = {guardrail.state for guardrail in guardrails}
    status: GateStatus = "passed"
    if states != {"within_margin"}:
        status = "failed" if "worse" in states else "inconclusive"
    described = [guard.describe(labels.get(guard.metric, guard.metric), short=short) for guard in guardrails]
    return GateOutcome(gate.text, status, "; ".join(described))


def _check_value(gate: ValueGate, whole: MetricResult | None, *, short: bool = False) -> GateOutcome:
    """The outcome of a gate on a metric's value or on an end of its interval."""
    if whole is None:
        return _inconclusive(gate, f"{gate.metric} was not computed")
    result, name = whole, display_name(whole)
    if gate.where is not None:
        groups = whole.slices.get(gate.where.slice, {})
        part = groups.get(gate.where.group)
        if not isinstance(part, MetricResult):
            known = [str(group) for group in groups]
            near = did_you_mean(gate.where.group, known) if groups else f"; slice by {gate.where.slice}"
            return _inconclusive(gate, f"{name} has no group {gate.where}{near}")
        result, name = part, f"{name} where {gate.where}"
    if not result.defined:
        because = result.details.undefined_because or "no sample was scored"
        return _inconclusive(gate, f"{name} has no value: {because}")
    if skipped := result.details.reasons("skipped").get("missing_output"):
        return _inconclusive(
            gate,
            f"{name} is {format_number(result.value)} "
            f"without {skipped} missing output{'s' * (skipped != 1)}, which its "
            f"conventions skip; count them with `auepora rescore RUN -m '{gate.metric}:missing=fail'`",
            result.value,
        )
    test = sequential_details(result)
    if test is not None and test["design"].get("threshold") is not None:
        return _check_sequential(gate, result, test, short=short)
    unjudged = _partial_note(name, result)
    if unjudged is not None and gate.part != "point":
        return _inconclusive(gate, unjudged, result.value)
    value, what = result.value, name
    digits = _digits(short, result.interval, [value, *(result.interval or ())], gate.threshold)
    if gate.part != "point":
        if result.interval is None:
            return _inconclusive(gate, f"{name} has no interval; point({gate.metric}) decides by the value alone")
        value = result.interval[0 if gate.part == "low" else 1]
        what = f"the {_ENDS[gate.part]} end of {name} ({format_number(result.value, digits=digits)})"
    status = status_of([value], gate.operator, gate.threshold)
    reason = f"{what} is {describe_relation(value, gate.operator, gate.threshold, digits)}"
    if gate.part != "point":
        reason += _flags_note(result.details.interval.flags, short)
    elif result.interval is not None and unjudged is None:
        reason += f" ({format_interval(result.interval, digits)})"
    if (stage := two_stage_details(result)) is not None:
        reason += f"; {two_stage_note(stage)}"
    if corrections := corrections_note(result):
        reason += f"; {corrections}"
    if gate.part != "point" and (picked := result.details.picked):
        reason += f"; {picked}"
    return GateOutcome(
        gate.text, status, reason, gate.metric, value, warning=unjudged or _failure_warning(gate, result, status)
    )


def _check_sequential(gate: ValueGate, result: MetricResult, test: Mapping[str, Any], *, short: bool) -> GateOutcome:
    """The outcome of a gate on a metric that was judged until a threshold was decided.

    The verdict decides if the threshold is that of the gate. Otherwise the repeated interval does, which is valid for
    any threshold.
    """
    design, look, note = test["design"], deciding_look(test), sequential_note(test)
    if look is None or test.get("reason") is None:
        return _inconclusive(gate, f"{display_name(result)} is not decided yet ({note})", result.value)
    ends, threshold = (look["low"], look["high"]), design["threshold"]
    digits = _digits(short, ends, [look["mean"], *ends], gate.threshold)
    number = format_number(look["mean"], digits=digits)
    reason = f"{display_name(result)} is {number} (repeated interval {interval_ends(ends, digits)})"
    upwards = gate.operator in (">", ">=")
    status: GateStatus
    if is_close(threshold, gate.threshold) and upwards == design.get("higher_is_better", True):
        statuses: dict[str, GateStatus] = {"pass": "passed", "fail": "failed"}
        status = statuses.get(test["verdict"], "inconclusive")
        reason += f", repeated p {look['p_value']:.3g}"
    else:
        status = status_of(ends, gate.operator, gate.threshold)
        reason += f"; the test was planned for {threshold:g}, so the interval decides"
    if test.get("claim") == "all":
        note += f"; {CLAIM_ALL}"
    return GateOutcome(gate.text, status, f"{reason}; {note}", gate.metric, look["mean"])


def _partial_note(name: str, result: MetricResult) -> str | None:
    """What a value is worth that is judged on a part of the samples; ``None`` if all are judged.

    The value and interval of two-stage judging are about all samples.
    """
    unjudged = result.details.reasons("skipped").get("not_judged")
    if not unjudged or two_stage_details(result) is not None:
        return None
    judged = result.details.num_scored
    return (
        f"{name} is judged on {judged} of {judged + unjudged} samples, and no sequential design fixed this gate: its "
        "value may be biased, and its interval and p-value are not valid; judge the rest with `auepora rescore RUN "
        "--continue-judging`, or plan the test with judge.stop.threshold"
    )


def _failure_warning(gate: ValueGate, result: MetricResult, status: GateStatus) -> str | None:
    """A warning where failed measurements could have changed the decision."""
    bounds = result.details.bounds
    if gate.part != "point" or not bounds:
        return None
    low, high = bounds
    if {status_of([bound], gate.operator, gate.threshold) for bound in (low, high)} == {status}:
        return None
    return (
        f"{gate.text!r} is {status} by what could be measured; with {result.details.num_measure_failed} failed "
        f"measurements the value may lie anywhere from {format_number(low)} to {format_number(high)}"
    )


def _flags_note(flags: Iterable[str], short: bool) -> str:
    """What the flags of an interval mean; the short form has a note of its own for it."""
    listed = "" if short else ", ".join(flags)
    return f"; the interval may claim too much ({listed})" if listed else ""


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """The comparison of a run with another one, for gates that need it; or why there is none."""

    comparison: Mapping[str, MetricComparison] | None
    refused: Mapping[str, str]
    without: str
    """Why there is no comparison."""

    def problem(self, name: str, *, short: bool) -> str | None:
        """Why no gate can use the comparison of a metric; ``None`` where one can."""
        if self.comparison is None:
            return self.without
        if name not in self.comparison:
            return f"{name} cannot be compared: {self.refused.get(name, 'not both runs have it')}"
        found = self.comparison[name]
        name = found.label or name
        if found.delta is None:
            return f"{name} has no difference: {found.note or 'no sample was scored in both runs'}"
        difference = _difference_text(found, short)
        if found.doubt == "system_failures":
            because = f" ({found.note})" if found.note else ""
            return f"the difference in {name} is {difference}, but only because a system failed on some{because}"
        if found.doubt == "missing_outputs":
            return f"the difference in {name} is {difference}, but outputs are missing ({found.note})"
        if found.doubt in ("partly_judged", "selected_samples", "covered_proportion", "list_length"):
            return f"the difference in {name} is {difference}: {found.note}"
        if found.sequential is not None and found.sequential.get("reason") is None:
            return f"{name} is not decided yet ({sequential_note(found.sequential)})"
        return None


def _check_difference(
    gate: DeltaGate | VerdictGate,
    baseline: BaselineComparison,
    picked: tuple[Mapping[str, MetricComparison], str],
    *,
    short: bool = False,
) -> GateOutcome:
    """The outcome of a gate on a difference or a verdict; ``picked`` are comparisons that allow for a choice."""
    allows = goes_by_interval(gate) and gate.metric in picked[0]
    if allows:
        baseline = replace(baseline, comparison=picked[0])
    problem = baseline.problem(gate.metric, short=short)
    if problem is not None:
        return _inconclusive(gate, problem)
    assert baseline.comparison is not None
    found = baseline.comparison[gate.metric]
    if isinstance(gate, VerdictGate):
        outcome = _check_verdict(gate, found, short)
    elif gate.part is None:
        outcome = _decide_by_interval(gate, found, gate.operator, gate.threshold, short=short)
    else:
        outcome = _decide_by_number(gate, found, short)
    if allows:
        outcome = replace(outcome, reason=f"{outcome.reason}; {picked[1]}")
    if found.match is not None:
        outcome = replace(outcome, reason=f"{outcome.reason}; gold matched {GoldMatch(found.match).label} in both runs")
    if found.sequential is None:
        return outcome
    claim = f"; {CLAIM_ALL}" if found.sequential.get("claim") == "all" else ""
    return replace(outcome, reason=f"{outcome.reason}; {sequential_note(found.sequential)}{claim}")


def _check_verdict(gate: VerdictGate, found: MetricComparison, short: bool) -> GateOutcome:
    """The outcome of a gate on a verdict, or on a margin that the interval must keep."""
    label = found.label or found.name
    if found.doubt in ("question_overlap", "no_direction"):
        return _inconclusive(
            gate, f"the difference in {label} is {_difference_text(found, short)}: {found.note}", found.delta
        )
    if found.longer_list is not None and gate.expected == "better":
        return _inconclusive(gate, f"{label} is higher by a longer list: {_difference_text(found, short)}", found.delta)
    if gate.by is not None:
        margin = gate.by if gate.expected == "better" else 0.0 - gate.by  # never a minus zero
        if found.higher_is_better:
            return _decide_by_interval(gate, found, ">", margin, short=short)
        return _decide_by_interval(gate, found, "<", 0.0 - margin, short=short)
    reason = f"{label} is {_verdict_text(found, short)}"
    if found.doubt in ("measure_failures", "skewed") and (gate.expected == "better" or _may_be_worse(found)):
        why = "skewed differences" if found.doubt == "skewed" else "measurements that failed could turn it"
        return _inconclusive(gate, f"{reason}: {why}", found.delta)
    if found.verdict == "inconclusive" and gate.expected == "better":
        return _inconclusive(gate, reason + _mde_note(found), found.delta)
    if found.verdict == "inconclusive":
        reason = f"{label} was not found to be worse: {_difference_text(found, short)}{_mde_note(found)}"
    passed = found.verdict == "better" if gate.expected == "better" else found.verdict != "worse"
    return GateOutcome(gate.text, "passed" if passed else "failed", reason, gate.metric, found.delta)


def _decide_by_number(gate: DeltaGate, found: MetricComparison, short: bool) -> GateOutcome:
    """Decide by one end of a difference's interval, or by the bare difference, allowing for failed measurements."""
    assert found.delta is not None
    warning = None
    value, what = found.delta, f"the difference in {found.label or found.name}"
    ends = found.sure_interval or found.interval
    digits = _digits(short, ends, [value, *(ends or ())], gate.threshold)
    if gate.part == "point":
        warning = (
            f"{gate.text!r} goes by the bare difference, which chance moves both ways; "
            f"delta({gate.metric}) goes by its interval"
        )
    elif found.interval is None or ends is None:
        return _inconclusive(gate, _no_interval_message(found))
    else:
        value = ends[0 if gate.part == "low" else 1]
        what = f"the {_ENDS[gate.part]} end of {what} ({format_number(found.delta, digits=digits)})"
    status = status_of([value], gate.operator, gate.threshold)
    reason = f"{what} is {describe_relation(value, gate.operator, gate.threshold, digits)}"
    if unsure := _failure_note(found, [value], gate.operator, gate.threshold):
        status, reason = "inconclusive", f"{what} is {format_number(value, gate.threshold, digits)}, but {unsure}"
    return GateOutcome(gate.text, status, reason, gate.metric, value, warning=warning)


def _decide_by_interval(
    gate: Gate, found: MetricComparison, operator: Operator, threshold: float, *, short: bool
) -> GateOutcome:
    """Decide by the whole interval of a difference, allowing for failed measurements."""
    ends = found.sure_interval
    if ends is None:
        return _inconclusive(gate, _no_interval_message(found), found.delta)
    status = status_of(ends, operator, threshold)
    words = {">": "above", ">=": "at or above", "<": "below", "<=": "at or below"}[operator]
    if status == "inconclusive":
        decided = f"it may lie on either side of {threshold:g}{_mde_note(found)}"
    elif unsure := _failure_note(found, ends, operator, threshold):
        status, decided = "inconclusive", unsure
    else:
        decided = f"{'all' if status == 'passed' else 'none'} of the interval is {words} {threshold:g}"
    difference = _difference_text(found, short, threshold)
    reason = (
        f"the difference in {found.label or found.name} is {difference}: {decided}{_flags_note(found.flags, short)}"
    )
    return GateOutcome(gate.text, status, reason, found.name, found.delta)


def _failure_note(found: MetricComparison, ends: Iterable[float], operator: Operator, threshold: float) -> str | None:
    """Why failed measurements make a gate inconclusive; ``None`` where the outcome is the same with any of them."""
    if found.doubt == "measure_failures" and found.bounds is None:
        return "measurements that failed could move it, and how far is unknown"
    assert found.delta is not None
    shifts = [0.0, *(bound - found.delta for bound in found.bounds or ())]
    statuses = {status_of(ends, operator, threshold, shift) for shift in shifts}
    return f"measurements that failed could put it on either side of {threshold:g}" if len(statuses) > 1 else None


def _may_be_worse(found: MetricComparison) -> bool:
    """Whether failed measurements, or the sign, allow a difference in the worse direction; unknown bounds do."""
    bounds = (found.delta or 0.0, found.delta or 0.0) if found.doubt == "skewed" else found.bounds
    if bounds is None:
        return True
    return bounds[0] < 0 if found.higher_is_better else bounds[1] > 0


def _difference_text(found: MetricComparison, short: bool, threshold: float | None = None) -> str:
    assert found.delta is not None
    digits = _digits(short, found.interval, [found.delta, *(found.interval or ())], threshold)
    interval = "" if found.interval is None else f" ({format_interval(found.interval, digits)})"
    if found.sequential is not None and found.interval is not None:
        interval = f" (repeated interval {interval_ends(found.interval, digits)})"
    elif found.interval is not None and found.interval_under_skew is not None:
        interval = f"{interval[:-1]}, {interval_ends(found.interval_under_skew, digits)} allowing for skew)"
    difference = f"{'+' * (found.delta >= 0)}{format_number(found.delta, digits=digits)}"
    return f"{difference}{interval} on {found.n} sample{'s' * (found.n != 1)}"


def _verdict_text(found: MetricComparison, short: bool) -> str:
    p = found.p_value if found.p_adjusted is None else found.p_adjusted
    p_text = "" if p is None else f", {'repeated ' * (found.sequential is not None)}p {p:.3g}"
    words = {"inconclusive": "neither better nor worse for sure"}.get(found.verdict, found.verdict)
    return f"{words}: {_difference_text(found, short)}{p_text}"


def _mde_note(found: MetricComparison) -> str:
    if found.mde is None:
        return ""
    return f"; with {found.n} sample{'s' * (found.n != 1)} a difference of about {found.mde:.2g} can be detected"


def _no_interval_message(found: MetricComparison) -> str:
    because = f" ({found.note})" if found.note else ""
    what = f"the difference in {found.label or found.name} has no interval{because}"
    return f"{what}; point(delta({found.name})) decides by the bare number"


def _inconclusive(gate: Gate, reason: str, value: float | None = None) -> GateOutcome:
    return GateOutcome(gate.text, "inconclusive", reason, gate.metric, value)


# --- the baseline of a stored run, and the check of a run against its gates ------------------------------------------

_TAGS: dict[GateStatus, str] = {"passed": "gates-passed", "failed": "gates-failed", "inconclusive": "gates-open"}
FAILED_TAG = _TAGS["failed"]
"""A run with this tag becomes a baseline only if it is named explicitly."""


def tag_gate_outcome(store: RunStore, run_id: str, report: GateReport) -> RunRecord:
    """Tag a run with its gate status: ``gates-passed``, ``gates-failed`` or ``gates-open``; returns the run."""
    tag, tags = _TAGS[report.status], set(store.get(run_id).tags)
    if tag not in tags:
        store.tag(run_id, tag)
    if others := tags.intersection(_TAGS.values()) - {tag}:
        store.untag(run_id, *others)
    return store.get(run_id)


def find_baseline(store: RunStore, record: RunRecord) -> RunRecord | None:
    """The default baseline of a run: the latest finished run before it with the same name and samples.

    It did not fail its gates: otherwise a failed plan that is run again would be compared with its own failure.
    """
    return next((run for run in _earlier_runs(store, record) if FAILED_TAG not in run.tags), None)


def _earlier_runs(store: RunStore, record: RunRecord) -> Iterator[RunRecord]:
    """The finished runs before a run with its name and samples, newest first."""
    for run in store.runs(name=record.name, status="finished"):
        earlier = (run.created_at, run.run_id) < (record.created_at, record.run_id)
        if earlier and run.fingerprint == record.fingerprint:
            yield run


def _missing_baseline_message(store: RunStore, record: RunRecord) -> str:
    """Why a run has no baseline."""
    failed = sum(1 for _ in _earlier_runs(store, record))
    if not failed:
        return (
            f"there is no earlier finished run called '{record.name}' on the same samples to compare with; "
            "name one with --against"
        )
    which = "the one earlier run" if failed == 1 else f"each of the {failed} earlier runs"
    return (
        f"{which} called '{record.name}' on the same samples failed its gates, so there is none to compare with; "
        f"name one with --against, or accept one: auepora runs tag RUN {FAILED_TAG} --remove"
    )


def check_run(
    store: RunStore,
    record: RunRecord,
    results: Results,
    gates: Sequence[Gate],
    *,
    baseline: RunRecord | None = None,
    strict: bool = False,
    other_dataset: bool = False,
    samples: SampleSet | None = None,
) -> GateReport:
    """Check a stored run against gates. Gates on a comparison use the ``baseline``.

    Without one it is ``find_baseline`` the run. Where two runs cannot be compared, such gates
    are inconclusive; with ``strict`` it is an error. Runs on different datasets are compared only with
    ``other_dataset``. The metrics whose verdict a gate uses share one 5 % error rate; the plan's primary metrics are
    ignored. With ``samples`` the gates are about a set of samples; if the outcomes of this run selected the set, they
    are inconclusive.
    """
    whole = results
    if samples is not None:
        from .compare.pairing import selection_note
        from .compare.runs import results_on_set

        results = results_on_set(store, record, results, samples)
        if record.run_id in samples.runs:
            reason = selection_note({record.run_id: record.run_id})
            checked = check_gates(gates, results)
            written = [outcome for outcome in checked if not outcome.implied]
            outcomes = [_make_inconclusive(outcome, reason, reason) for outcome in written]
            return replace(checked, outcomes=(*outcomes, *checked.outcomes[len(written) :]), sample_set=samples)
    report = _check_results(
        store, record, results, gates, baseline=baseline, strict=strict, other_dataset=other_dataset, samples=samples
    )
    return replace(_with_judges(store, report, gates, whole), sample_set=samples)


def _with_judges(store: RunStore, report: GateReport, gates: Iterable[Gate], results: Results) -> GateReport:
    """The report with warnings on judges that are not usable by their control items, those of the baseline as well.

    What such a judge measured passes no gate.
    """
    baseline = [] if report.against is None else result_summaries(store, report.against)
    label = "" if report.against is None else "B: "
    own, other = unusable_judges(results), unusable_judges(baseline)
    compared = {gate.text for gate in gates if needs_baseline(gate)}
    outcomes = []
    for outcome in report.outcomes:
        judges, metric = [], outcome.metric or ""
        if metric in own and not outcome.implied:
            judges.append(f"{label}{own[metric]}")
        if metric in other and outcome.gate in compared:
            judges.append(f"A: {other[metric]}")
        checked = replace(outcome, warning="; ".join(filter(None, [outcome.warning, *judges])) or None)
        if judges and outcome.status == "passed":
            suffix = ", but its judge is not usable"
            checked = _make_inconclusive(checked, f"{outcome.reason}{suffix}", f"{brief_reason(outcome)}{suffix}")
        outcomes.append(checked)
    return replace(report, outcomes=tuple(outcomes))


def _check_results(
    store: RunStore,
    record: RunRecord,
    results: Results,
    gates: Sequence[Gate],
    *,
    baseline: RunRecord | None,
    strict: bool,
    other_dataset: bool,
    samples: SampleSet | None,
) -> GateReport:
    gates = resolve_names(gates, [result.name for result in results])
    if any(isinstance(gate, ValueGate) and gate.part != "point" for gate in gates):
        from .compare.sweeps import with_picked_interval

        results = with_picked_interval(store, record, results)
    if not any(needs_baseline(gate) for gate in gates):
        return check_gates(gates, results)
    other = find_baseline(store, record) if baseline is None else baseline
    if other is None:
        return check_gates(gates, results, without=_missing_baseline_message(store, record))
    if other.run_id == record.run_id:
        problem = f"{record.run_id} cannot be compared with itself; name another run with --against"
        if strict:
            raise BadValueError(problem)
        return check_gates(gates, results, without=problem)
    from .compare.runs import compare_metrics, picked_comparisons

    computed = {result.name for result in results}
    comparison_gates = [gate for gate in gates if needs_baseline(gate) and gate.metric in computed]
    names = list(dict.fromkeys(str(gate.metric) for gate in comparison_gates))
    of_verdicts = [gate.metric for gate in comparison_gates if isinstance(gate, VerdictGate) and gate.by is None]
    margins: Mapping[str, float] | None = None if any(isinstance(gate, GuardrailsGate) for gate in gates) else {}
    try:
        compared = compare_metrics(
            store, other, record, metrics=names, primary=of_verdicts or None, other_dataset=other_dataset,
            samples=samples, guardrails=margins,
        )  # fmt: skip
        of_intervals = dict.fromkeys(str(gate.metric) for gate in comparison_gates if goes_by_interval(gate))
        picked = picked_comparisons(store, [other, record], of_intervals, samples=samples)
    except AueporaError as error:
        if strict:
            raise
        return check_gates(gates, results, without=f"{other.run_id} cannot be compared with: {error}")
    report = check_gates(
        gates,
        results,
        comparison=compared.by_name,
        refused=compared.refused,
        against=other.run_id,
        guardrails=compared.guardrails,
        picked=picked,
    )
    statuses = {outcome.metric: outcome.status for outcome in report.outcomes if outcome.metric in names}
    name = None if samples is None else samples.name
    return replace(report, register=register_decision(store, [other, record], "gate", statuses, samples=name))
