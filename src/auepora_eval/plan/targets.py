"""The targets of a plan: the key ``targets``, and the metrics that the samples support for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from ..core.conventions import Conventions
from ..core.metrics_base import Metric
from ..core.registry import Spec
from ..core.targets import TARGETS, find_target, find_targets
from ..core.types import EvaluationSample, TargetCategory
from ..engine.targets import check_support, judge_note, judged_specs, supported_targets
from ..errors import BadValueError
from .model import Plan
from .source import Findings, string_problem


def targets_section(findings: Findings) -> tuple[TargetCategory, ...]:
    """Read ``targets``: names of targets, in the order of the survey."""
    found: list[TargetCategory] = []
    for key, name in findings.top.listed_values("targets", example="[generation_correctness]"):
        problem = string_problem(name, findings.source.written.get(key))
        if problem is not None:
            findings.add(key, problem)
            continue
        try:
            found.append(find_target(name))
        except BadValueError as error:
            findings.add_error(key, error)
    return find_targets(found)


def with_target_metrics(
    plan: Plan, samples: Sequence[EvaluationSample], conventions: Conventions, *, retrieves: bool
) -> Plan:
    """The plan with the metrics of its targets that need a judge, and with primary metrics, as the samples allow.

    The other metrics of its targets depend on the outputs. A target that the samples do not allow is left out with a
    warning; raises where that is all of them.
    """
    if not plan.targets or not samples:
        return plan
    support = supported_targets(samples, None, retrieves=retrieves, conventions=conventions, targets=plan.targets)
    supported = set(chain.from_iterable(found.judged for found in support))
    possible = judged_specs(plan.targets, plan.resolved["resources"], plan.metrics or ())
    judged = [spec for spec in possible if supported.issuperset(spec)]
    names = set(chain.from_iterable(judged))
    check_support(support, names, partial=False)  # what is judged in part is said when the outputs are known
    primary = plan.primary or tuple(chain.from_iterable(found.primary_with(names) for found in support))
    metrics: tuple[Spec, ...] = (*(plan.metrics or ()), *judged)
    return replace(
        plan,
        metrics=metrics or None,
        targets=tuple(found.target for found in support if found.metrics),
        metric_keys=(*plan.metric_keys, *("targets" for _ in judged)),
        primary=primary,
        resolved={**plan.resolved, "metrics": list(metrics) or None, "primary": list(primary) or None},
    )


def describe_metrics(plan: Plan, metrics: Sequence[Metric] | None) -> str:
    """Which metrics would be computed; ``metrics`` are those of the plan that could be built."""
    names = [metric.name for metric in metrics or ()]
    count = len(plan.metrics or ())
    unchecked = [f"{count - len(names)} not imported"] if count > len(names) else []
    listed = f"{count} metric{'s' * (count != 1)}: {', '.join(names + unchecked)}"
    if metrics is not None and not plan.targets:
        return listed
    targets = ", ".join(TARGETS[target].name for target in plan.targets)
    every = f"every metric that the data supports{' for ' * bool(targets)}{targets}"
    return every if metrics is None else f"{every}, and {listed}"


def judging_note(plan: Plan) -> str:
    """A sentence on the metrics of the targets that need a judge; empty if they have none."""
    return judge_note(plan.targets, judged_specs(plan.targets, plan.resolved["resources"]))
