"""Check a whole plan for ``auepora validate plan.yaml``: every problem, and what would run."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core.errors import AueporaError, AueporaWarning, DataFileError, PlanError
from ..io.validate import validate_files
from .findings import Findings
from .plan import Plan
from .prepare import PreparedPlan, prepare_with_findings
from .read import plan_findings

__all__ = ["PlanCheck", "check_plan"]

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class PlanCheck:
    """The problems and notes of a plan."""

    problems: list[AueporaError]
    """Errors that prevent a run, with lines of the plan or of the data."""
    notes: list[str] = field(default_factory=list)
    """Warnings, and a summary of what would run."""
    plan: Plan | None = None
    """The plan, if it could be read."""

    @property
    def fine(self) -> bool:
        """Whether the plan would run."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """As a JSON-compatible dict (schema 1)."""
        return {
            "schema": SCHEMA,
            "fine": self.fine,
            "problems": list(map(_error_dict, self.problems)),
            "remarks": list(self.notes),
        }


def _error_dict(error: AueporaError) -> dict[str, Any]:
    where = error if isinstance(error, DataFileError) else None
    key = (error.key or None) if isinstance(error, PlanError) else None
    return {
        "file": None if where is None else where.path,
        "line": None if where is None else where.line,
        "key": key,
        "message": str(error) if where is None else where.problem.removeprefix(f"{key}: "),
    }


def check_plan(
    path: str | Path, *, need_system: bool = True, environment: Mapping[str, str] | None = None
) -> PlanCheck:
    """Find every problem in a plan and the files it names, and what would run. The system is built, not called."""
    try:
        plan, findings = plan_findings(path, environment=environment)
    except PlanError as error:
        return PlanCheck([error])
    if plan is None:
        return PlanCheck(findings.errors)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AueporaWarning)
        _check_store_folder(plan, findings)  # a run also reports it, unless another store is given
        made = prepare_with_findings(plan, findings, need_system=need_system)
    messages = [str(one.message) for one in caught if issubclass(one.category, AueporaWarning)]
    if made is None:
        return PlanCheck(_add_data_errors(plan, findings.errors), messages, plan)
    close = getattr(made.system, "close", None)
    if callable(close):
        close()
    return PlanCheck([], [*messages, *made.warnings, *_describe_run(made)], plan)


def _check_store_folder(plan: Plan, findings: Findings) -> None:
    if plan.store is not None and "://" not in plan.store and not Path(plan.store).parent.is_dir():
        findings.add("store", f"the folder {Path(plan.store).parent} does not exist; create it first")


def _add_data_errors(plan: Plan, errors: list[AueporaError]) -> list[AueporaError]:
    """The errors, with all errors of the data files if one of them has an error."""
    if not any(isinstance(one, DataFileError) and not isinstance(one, PlanError) for one in errors):
        return errors
    outputs = plan.outputs
    checked = validate_files(
        plan.dataset.path,
        None if outputs is None else outputs.path,
        dataset_format=plan.dataset.format,
        outputs_format=None if outputs is None else outputs.format,
    )
    every: list[AueporaError] = [DataFileError(one.path, one.line, one.message) for one in checked.problems]
    known = {str(one) for one in every}
    return [*(one for one in errors if str(one) not in known), *every]


def _describe_run(made: PreparedPlan) -> list[str]:
    plan, n = made.plan, len(made.samples)
    samples = f"{n} sample{'s' * (n != 1)} ({made.dataset_format}) under the conventions {made.conventions.name}"
    if made.metrics is None:
        metrics = "every metric that the data supports"
    else:
        metrics = f"{len(made.metrics)} metric{'s' * (len(made.metrics) != 1)}"
        metrics += f": {', '.join(one.name for one in made.metrics)}"
    lines = [samples, metrics]
    if plan.gates:
        lines.append(
            f"{len(plan.gates)} gate{'s' * (len(plan.gates) != 1)}: {'; '.join(one.text for one in plan.gates)}"
        )
    if plan.system is not None:
        times = f" x {plan.repeats} repeats" if plan.repeats > 1 else ""
        lines.append(
            f"{made.calls} call{'s' * (made.calls != 1)} to the system ({n} sample{'s' * (n != 1)}{times}), "
            f"{plan.policy.concurrency} at a time"
        )
    elif made.outputs is not None:
        lines.append(f"{len(made.outputs.outputs)} saved outputs; no system is called")
    return lines
