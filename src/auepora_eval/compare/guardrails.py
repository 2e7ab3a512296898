"""What must not get worse in a comparison: guardrails with a margin each, and other metrics that fell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import get_args

from ..core.reduce import Clusters
from ..core.types import TargetCategory
from ..errors import BadValueError
from ..options import PositiveFloat, problem_of
from ..store.records import RunRecord
from .analysis import Analysis, compute_comparisons, is_unbounded, with_failures
from .pairing import Fill
from .types import ComparisonInput, GuardrailOutcome, GuardrailState, MetricComparison, Verdict
from .verdicts import ALPHA, recheck_with_failures, recheck_with_missing

Losses = tuple[float, float]
"""The bounds of how much worse the second run is: the least and the most."""
_FAILURES = "failed or missing outputs could change it"
_AS_VERDICT: Mapping[GuardrailState, Verdict] = {"within_margin": "equal", "worse": "worse"}
"""The verdict that a state claims, by which failures are counted against it."""


def parse_guardrails(texts: Iterable[str]) -> dict[str, float]:
    """The margin of each guardrail from texts ``METRIC=MARGIN``."""
    margins: dict[str, float] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        try:
            margin = float(number)
        except ValueError:
            margin = math.nan
        if not name or problem_of(PositiveFloat, margin):
            raise BadValueError(f"--guardrail {text}: write METRIC=MARGIN with a margin above 0, such as recall@5=0.02")
        margins[name] = margin
    return margins


def guardrail_margins(records: Sequence[RunRecord], chosen: Mapping[str, float] | None) -> Mapping[str, float]:
    """The margin of each guardrail: those given, else those of the plan of the last run that has any."""
    if chosen is not None:
        return chosen
    planned = [record.plan.get("guardrails") for record in reversed(records)]
    return next(filter(None, planned), {})


# --- guardrails: the one-sided bounds of a loss, and the state that follows from them --------------------------------


def check_guardrails(
    inputs: Sequence[ComparisonInput],
    comparisons: Sequence[MetricComparison],
    margins: Mapping[str, float],
    *,
    clusters: Clusters | None = None,
    refused: Mapping[str, str],
    seed: int = 0,
) -> tuple[GuardrailOutcome, ...]:
    """The outcome of each guardrail of two runs. It does not depend on which other metrics there are."""
    compared = {found.name: (given, found) for given, found in zip(inputs, comparisons, strict=True)}
    outcomes = []
    for name, margin in margins.items():
        if name in compared:
            given, found = compared[name]
            ends = [_check_guardrail(end, found, margin=margin, clusters=clusters, seed=seed) for end in given.ends]
            ends.sort(key=lambda end: end.most or 0.0)
            outcome = ends[0] if ends[0].state == "worse" else ends[-1]
            if ends[0].state != ends[-1].state:
                outcome = replace(outcome, state="inconclusive", reason=given.cut)
            outcomes.append(replace(outcome, metric=name))
        else:
            outcomes.append(
                GuardrailOutcome(name, margin, "inconclusive", reason=refused.get(name, "not both runs have it"))
            )
    return tuple(outcomes)


def _check_guardrail(
    given: ComparisonInput, found: MetricComparison, *, margin: float, clusters: Clusters | None, seed: int
) -> GuardrailOutcome:
    outcome = GuardrailOutcome(given.name, margin, "inconclusive", found.delta, n=found.n)
    if given.withheld is not None or found.higher_is_better is None:
        return replace(outcome, reason=found.note or "it has no verdict")
    if found.sequential is not None or found.two_stage is not None:
        # The two-sided interval is a wider one.
        losses = None if found.interval is None else _losses(*found.interval, higher_is_better=found.higher_is_better)
        return _decide(outcome, losses)
    given = replace(given, primary=False, margin=margin)
    analysis = Analysis([given], clusters, seed=seed)
    losses = _bounds(analysis)
    outcome = _decide(outcome, losses)
    if outcome.state == "inconclusive":
        return outcome if losses is None else replace(outcome, n_needed=_needed(analysis, losses[1]))
    reason = _failure_reason(analysis, outcome)
    return replace(outcome, state="inconclusive", reason=reason) if reason else outcome


def _bounds(analysis: Analysis) -> Losses | None:
    """The bounds of the loss on the only metric of an analysis; ``None`` where nothing bounds it."""
    interval = analysis.narrow[0]
    if interval is None or is_unbounded(interval):
        return None
    low, high = interval.low, interval.high
    if (under_skew := analysis.skew_bounds(0, "equal")) is not None:
        low, high = min(low, under_skew[0]), max(high, under_skew[1])
    return _losses(low, high, higher_is_better=bool(analysis.inputs[0].definition.direction))


def _losses(low: float, high: float, *, higher_is_better: bool) -> Losses:
    return (-high, -low) if higher_is_better else (low, high)


def _decide(outcome: GuardrailOutcome, losses: Losses | None) -> GuardrailOutcome:
    if losses is None:
        return replace(outcome, reason="nothing bounds the difference")
    least, most = losses
    state: GuardrailState = "inconclusive"
    if most <= outcome.margin:
        state = "within_margin"
    elif least > 0:
        state = "worse"
    return replace(outcome, state=state, least=least, most=most)


def _failure_reason(analysis: Analysis, outcome: GuardrailOutcome) -> str:
    """Why failures make a state uncertain; empty where it is the same with all of them."""
    (given,) = analysis.inputs
    analyse = partial(Analysis, clusters=analysis.clusters, seed=analysis.seed)
    changed: list[Analysis] = []
    if given.pair.measure_failures:
        if not given.pair.can_fill:
            return "what failed measurements could change is unknown"
        changed = [analyse([given], fill=fill) for fill in get_args(Fill)]
    for recheck in (recheck_with_missing, recheck_with_failures):
        check = recheck(given, _AS_VERDICT[outcome.state])
        if check is None:
            continue
        if check.change is None:
            return _FAILURES
        changed.append(analyse([with_failures(given, check)]))
    states = [_decide(outcome, _bounds(looked)).state for looked in changed]
    return "" if all(state == outcome.state for state in states) else _FAILURES


def _needed(analysis: Analysis, most: float) -> int | None:
    """About how many samples would show that equal systems are within the margin."""
    needed = analysis.power(0, open_=True, alpha=2 * ALPHA).n_needed
    (given,) = analysis.inputs
    low, high = given.definition.range
    n, width, margin = int(analysis.pair(0).used.sum()), high - low, given.margin
    if needed is not None or margin is None or not analysis.pair(0).identical or not most < width < math.inf:
        return needed
    # All samples are equal: the bound is c / (n + c) of the range, by Wilson's interval of no difference.
    constant = n * most / (width - most)
    return math.ceil(constant * (width - margin) / margin)


# --- other metrics that fell -----------------------------------------------------------------------------------------


_LATENCY_NOISE_S = 0.01


def fallen_metrics(
    inputs: Sequence[ComparisonInput],
    comparisons: Sequence[MetricComparison],
    clusters: Clusters | None,
    *,
    seed: int = 0,
) -> tuple[str, ...]:
    """The metrics that are not primary and on which the second run is worse, by max-T over all of them.

    Of metrics that are functions of one another the first counts, or the primary one.
    """
    counted = {_deciding_name(given) for given, found in zip(inputs, comparisons, strict=True) if found.primary}
    others: list[ComparisonInput] = []
    may_have_fallen = False
    for given, found in zip(inputs, comparisons, strict=True):
        name = _deciding_name(given)
        if name in counted or given.withheld or found.sequential or found.two_stage:
            continue
        counted.add(name)
        others.append(replace(given, primary=True))
        # The adjusted p-value is never smaller than this one.
        may_have_fallen |= found.p_value is not None and found.p_value < ALPHA
    if not may_have_fallen:
        return ()
    worse = [found for found in compute_comparisons(others, clusters, seed=seed) if found.verdict == "worse"]
    least = {TargetCategory.LATENCY.name: _LATENCY_NOISE_S}  # other work on the machine makes smaller differences
    return tuple(found.name for found in worse if abs(found.delta or 0.0) >= least.get(found.target, 0.0))


def _deciding_name(given: ComparisonInput) -> str:
    return given.definition.function_of or given.name
