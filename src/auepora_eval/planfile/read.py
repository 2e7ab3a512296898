"""Read a plan file; every error has its file, line and key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core.errors import AueporaError, PlanError
from ..core.resources import use_resources
from ..io.files import plain_stem
from ..io.problem_messages import TOO_DEEP
from ..judge.prompting import prompt_folder
from .findings import Findings, PlanSection, describe_value
from .gates_section import gates_section
from .judge_section import judge_section
from .plan import Plan
from .report_section import report_section
from .resources_section import resources_section
from .secrets import Environment, find_literal_secrets
from .sections import (
    conventions_section,
    data_section,
    metrics_section,
    primary_section,
    run_section,
    scoring_section,
    slices_section,
)
from .source import PLAN_KEYS, PlanSource, read_source
from .system_section import config_section, store_section, system_section

__all__ = ["VERSION", "plan_findings", "plan_problems", "read_plan"]

VERSION = 1


def read_plan(
    path: str | Path,
    *,
    changes: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Plan:
    """Read a plan and check what the file alone allows; ``prepare`` checks the rest. Raises the first error.

    ``changes`` replace keys of the file: ``{"run.concurrency": 4}``. ``environment`` replaces ``os.environ``.
    """
    plan, findings = plan_findings(path, changes=changes, environment=environment)
    findings.raise_first()
    assert plan is not None
    return plan


def plan_problems(path: str | Path, *, environment: Mapping[str, str] | None = None) -> list[AueporaError]:
    """All errors of a plan file that can be found without its data."""
    try:
        return plan_findings(path, environment=environment)[1].errors
    except PlanError as error:
        return [error]


def plan_findings(
    path: str | Path,
    *,
    changes: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> tuple[Plan | None, Findings]:
    """The plan, or ``None`` if it has errors, and its errors in the order of the file."""
    source = read_source(Path(path)).with_changes(changes or {})
    findings = Findings(source)
    try:
        other_metrics = (changes or {}).get("metrics") is not None
        plan = _plan(source, findings, Environment(findings, environment), other_metrics=other_metrics)
    except RecursionError as error:
        raise PlanError(source.path, None, "", TOO_DEEP) from error
    findings.errors.sort(key=_line_number)
    return (None if findings.errors else plan), findings


def _line_number(error: AueporaError) -> int:
    line = getattr(error, "line", None)
    return line if isinstance(line, int) else 0


def _plan(
    source: PlanSource, findings: Findings, environment: Environment, *, other_metrics: bool = False
) -> Plan | None:
    values = source.values
    top = PlanSection(findings, "", values)
    top.refuse_unknown(PLAN_KEYS)
    _check_version(top)
    find_literal_secrets(findings)

    folder = source.path.parent
    name = top.string("name", plain_stem(source.path))
    if name is not None and not name.isprintable():
        findings.add("name", "must be one line that can be printed")
    dataset = data_section(findings, "dataset", folder) if _is_given(top, "dataset") else None
    outputs = system = None
    if top.has("outputs") and top.has("system"):
        findings.add("system", "there are 'outputs' as well; a plan has saved outputs or a system, not both")
    elif top.has("outputs"):
        outputs = data_section(findings, "outputs", folder)
    elif top.has("system"):
        system = system_section(findings, folder, environment)
    elif not top.is_misspelt("outputs", "system"):
        findings.add("", "there is neither 'outputs' (saved answers) nor 'system' (to call); give one of them")
    config = config_section(findings, "outputs" if outputs else "system")
    conventions = conventions_section(findings)
    resources, stored_resources = resources_section(findings, folder, environment)
    with (
        prompt_folder(folder),
        use_resources(dict.fromkeys(resources)),
    ):  # only the names: the resources are built later
        metrics = metrics_section(findings)
    primary = primary_section(findings, None if metrics is None else metrics[1], other_metrics=other_metrics)
    slices = slices_section(findings)
    gates = gates_section(findings, None if metrics is None else metrics[1], slices)
    policy, repeats, seed, run = run_section(findings)
    scoring, stored_scoring = scoring_section(findings)
    judge, stored_judge = judge_section(findings, folder)
    store, written_store = store_section(findings, folder, environment)
    report, written_report = report_section(findings, folder)
    if findings.errors or dataset is None or name is None:
        return None
    resolved: dict[str, Any] = {
        "version": VERSION,
        "name": name,
        "dataset": dataset[1],
        **({} if outputs is None else {"outputs": outputs[1] | {"config": config}}),
        **({} if system is None else {"system": system[1] | {"config": config}}),
        "conventions": conventions,
        "primary": list(primary) or None,
        "resources": stored_resources or None,
        "metrics": None if metrics is None else list(metrics[0]),
        "slices": list(slices) or None,
        "run": run,
        "scoring": stored_scoring,
        "judge": stored_judge,
        "store": written_store,
        "report": written_report,
        "gates": [one.text for one in gates] or None,
    }
    return Plan(
        path=source.path,
        folder=Path(os.path.abspath(folder)),
        name=name,
        dataset=dataset[0],
        outputs=None if outputs is None else outputs[0],
        system=None if system is None else system[0],
        conventions=conventions,
        primary=primary,
        resources=resources,
        metrics=None if metrics is None else metrics[0],
        slices=slices,
        policy=policy,
        repeats=repeats,
        seed=seed,
        scoring=scoring,
        judge=judge,
        store=store,
        report=report,
        gates=gates,
        config=config,
        resolved=resolved,
        secrets=environment.secrets,
        source=source,
    )


def _check_version(top: PlanSection) -> None:
    version = top.values.get("version", VERSION)
    if version is not None and (isinstance(version, bool) or version != VERSION or not isinstance(version, int)):
        top.add("version", f"this version reads plans of version {VERSION}, not {describe_value(version)}")


def _is_given(top: PlanSection, key: str) -> bool:
    if not top.has(key) and not top.is_misspelt(key):
        top.findings.add(key if key in top.values else "", f"'{key}' is missing; it names the samples to evaluate on")
    return top.has(key)
