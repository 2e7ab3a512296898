"""The judges of a plan file or of a stored plan, read without the rest of the plan."""

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
    """The judges of a plan and their settings."""

    resources: Mapping[str, ResourceSource]
    settings: JudgeSettings
    folder: Path
    """The folder in which relative paths start and modules are searched."""
    secrets: frozenset[str] = field(repr=False)
    others: tuple[str, ...]
    """Names of other resources of the plan, which were not read."""
    source: PlanSource = field(repr=False)
    store: str | None = field(default=None, repr=False)
    """The store of the plan, if it names one."""

    @property
    def names(self) -> list[str]:
        """The names of all resources of the plan."""
        return list(dict.fromkeys([*self.resources, *self.others]))

    def build(self, names: Collection[str], *, need_key: bool = True) -> dict[str, Any]:
        """Build the named resources; the others are ``None``. Raises the first error."""
        findings = Findings(self.source)
        built = build_resources(
            findings,
            self.resources,
            names,
            self.folder,
            timeout=self.settings.policy.timeout,
            need_key=need_key and not self.settings.cache_only,
        )
        findings.raise_first()
        return {**dict.fromkeys(self.others), **built}


def judges_in_file(path: str | Path, *, changes: Mapping[str, Any] | None = None) -> PlannedJudges:
    """The judges of a plan file; the rest of the plan is not checked."""
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
    """The named judges of a stored plan; ``label`` names the plan in errors."""
    stored = plan.get("resources") or {}
    values = {"resources": {name: one for name, one in stored.items() if name in names}, "judge": plan.get("judge")}
    return _judges(PlanSource(Path(label), values).with_changes(changes or {}), folder, tuple(stored))


def _judges(source: PlanSource, folder: Path, others: tuple[str, ...] = ()) -> PlannedJudges:
    findings = Findings(source)
    environment = Environment(findings)
    find_literal_secrets(findings)
    resources, _ = resources_section(findings, folder, environment)
    settings, _ = judge_section(findings, folder)
    store, _ = store_section(findings, folder, environment)
    findings.raise_first()
    return PlannedJudges(resources, settings, folder, environment.secrets, others, source, store)
