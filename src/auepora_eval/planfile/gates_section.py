"""The ``gates`` section of a plan: strings, or mappings from a metric to its condition."""

from __future__ import annotations

from collections.abc import Mapping

from ..core.errors import AueporaError
from ..core.metrics_base import Metric
from ..core.registry import metric
from ..core.slices import parse_slices
from ..gates.grammar import parse_gate, parse_gates
from ..gates.kinds import Gate
from ..gates.names import require_known_names
from .findings import Findings, PlanSection, describe_value, string_problem

__all__ = ["gates_section"]


def gates_section(
    findings: Findings, built: list[Metric] | None, slices: tuple[str | Mapping[str, str], ...]
) -> tuple[Gate, ...]:
    """Read ``gates``, the conditions that a run must satisfy."""
    listed = (
        PlanSection(findings, "", findings.source.values).nonempty_list("gates", example='["recall@5 >= 0.80"]') or []
    )
    names = None if built is None else [one.name for one in built]
    good: list[Gate] = []
    for place, written in enumerate(listed):
        key = f"gates[{place}]"
        text, problem = _gate_text(written, findings.source.written.get(key))
        if text is None:
            findings.add(key, str(problem))
            continue
        try:
            good += _check_names(parse_gate(text), names, [one.name for one in parse_slices(slices)])
        except AueporaError as error:
            findings.add_error(key, error)
    try:
        parse_gates(good)
    except AueporaError as error:
        findings.add_error("gates", error)
    return tuple(good)


def _check_names(gate: Gate, names: list[str] | None, slices: list[str]) -> list[Gate]:
    if names is None:  # all metrics that the data supports, which are not known yet
        names = [] if gate.metric is None else [metric(gate.metric).name]
    return require_known_names([gate], names, slices=slices)


def _gate_text(written: object, in_file: str | None) -> tuple[str | None, str | None]:
    """The text of a gate, or the error in it."""
    if isinstance(written, Mapping):
        if len(written) != 1:
            return None, f"must be one metric with its condition, not {len(written)} keys"
        ((subject, condition),) = written.items()
        if isinstance(condition, str):
            return f"{subject} {condition}", None
        if condition is None:
            return None, f"'{subject}' has no condition; write {{'{subject}': '>= 0.8'}}"
        return None, f"the condition of '{subject}' must be a text such as '>= 0.8', not {describe_value(condition)}"
    problem = string_problem(written, in_file)
    return (None, problem) if problem is not None else (str(written), None)
