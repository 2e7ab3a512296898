"""Settings of a stored plan that affect scores: conventions, and how the system was called."""

from __future__ import annotations

from collections.abc import Mapping

from ..core.conventions import Conventions
from ..core.errors import AueporaError
from ..core.metrics_base import RunInfo
from .records import RunRecord

__all__ = ["conventions_label", "plan_conventions", "run_info"]


def plan_conventions(record: RunRecord) -> Conventions:
    """Return the conventions of a run's plan."""
    named = record.plan.get("conventions") or "auepora"
    choices = dict(named) if isinstance(named, Mapping) else {"name": named}
    name = choices.pop("name", "auepora")
    try:
        return Conventions.of(None if name == "auto" else name, **choices)
    except AueporaError:  # written by another version
        return Conventions.of()


def conventions_label(record: RunRecord) -> str:
    """Return a label for the conventions of a run's plan."""
    named = record.plan.get("conventions") or "auepora"
    if not isinstance(named, Mapping):
        return str(named)
    rest = [f"{key} {value}" for key, value in named.items() if key != "name"]
    return ", ".join([str(named.get("name", "auepora")), *rest])


def run_info(record: RunRecord) -> RunInfo:
    """Return the call settings that affect scores; empty for saved outputs."""
    if "system" not in record.plan:
        return RunInfo()
    settings = record.plan.get("run") or {}
    return RunInfo(top_k=settings.get("top_k"), concurrency=settings.get("concurrency"))
