"""The judges of a plan apart from the rest of it: what scoring again needs, from a plan file or a stored plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .build_resources import build_resources
from .findings import Findings
from .judge_section import judge_section
from .plan import JudgeSettings, ResourceSource
from .resources_section import resources_section
from .secrets import Environment, find_literal_secrets
from .source import PlanSource, read_source
from .system_section import store_section

__all__ = ["PlannedJudges", "judges_in_file", "judges_in_plan"]


@dataclass(frozen=True, slots=True)
class PlannedJudges:
    """What a plan says of judges: who they are, and how they are asked."""

    resources: Mapping[str, ResourceSource]
    settings: JudgeSettings
    folder: Path
    """Where relative paths start, and modules are looked for."""
    secrets: frozenset[str] = field(repr=False)
    others: tuple[str, ...]
    """Resources that the plan has as well, and that were not looked at."""
    source: PlanSource = field(repr=False)
    store: str | None = field(default=None, repr=False)
    """The plan's store, where it names one."""

    @property
    def names(self) -> list[str]:
        """What all resources of the plan are called."""
        return list(dict.fromkeys([*self.resources, *self.others]))

    def build(self, names: Collection[str], *, need_key: bool = True) -> dict[str, Any]:
        """The named resources; the first that cannot be built is an error. All others are there by name alone."""
        findings = Findings(self.source)
        made = build_resources(
            findings,
            self.resources,
            names,
            self.folder,
            timeout=self.settings.policy.timeout,
            need_key=need_key and not self.settings.cache_only,
        )
        findings.raise_first()
        return {**dict.fromkeys(self.others), **made}


def judges_in_file(path: str | Path, *, changes: Mapping[str, Any] | None = None) -> PlannedJudges:
    """The judges of a plan file, whatever else is in it."""
    source = read_source(Path(path))
    return _judges(source.with_changes(changes or {}), source.path.parent)


def judges_in_plan(
    plan: Mapping[str, Any],
    folder: Path,
    *,
    label: str,
    names: Collection[str],
    changes: Mapping[str, Any] | None = None,
) -> PlannedJudges:
    """The judges of a plan as it is stored with a run, of resources only the named ones; ``label`` is for errors."""
    held = plan.get("resources") or {}
    values = {"resources": {name: one for name, one in held.items() if name in names}, "judge": plan.get("judge")}
    return _judges(PlanSource(Path(label), values).with_changes(changes or {}), folder, tuple(held))


def _judges(source: PlanSource, folder: Path, others: tuple[str, ...] = ()) -> PlannedJudges:
    findings = Findings(source)
    environment = Environment(findings)
    find_literal_secrets(findings)
    resources, _ = resources_section(findings, folder, environment)
    rules, _ = judge_section(findings, folder)
    store, _ = store_section(findings, folder, environment)
    findings.raise_first()
    return PlannedJudges(resources, rules, folder, environment.secrets, others, source, store)
