"""What a stored plan says that shapes numbers: its conventions, and how the outputs were asked for."""

from __future__ import annotations

from collections.abc import Mapping

from ..core.conventions import Conventions
from ..core.errors import AueporaError
from ..core.metrics_base import RunInfo
from .records import RunRecord

__all__ = ["conventions_label", "plan_conventions", "run_info"]


def plan_conventions(record: RunRecord) -> Conventions:
    """The conventions of a run's plan."""
    named = record.plan.get("conventions") or "auepora"
    choices = dict(named) if isinstance(named, Mapping) else {"name": named}
    name = choices.pop("name", "auepora")
    try:
        return Conventions.of(None if name == "auto" else name, **choices)
    except AueporaError:  # written by another version
        return Conventions.of()


def conventions_label(record: RunRecord) -> str:
    """By whose definitions a run's plan has its numbers computed, as people are told it."""
    named = record.plan.get("conventions") or "auepora"
    if not isinstance(named, Mapping):
        return str(named)
    rest = [f"{key} {value}" for key, value in named.items() if key != "name"]
    return ", ".join([str(named.get("name", "auepora")), *rest])


def run_info(record: RunRecord) -> RunInfo:
    """How the outputs were made, as far as it shapes a number; of saved outputs nothing is known."""
    if "system" not in record.plan:
        return RunInfo()
    asked = record.plan.get("run") or {}
    return RunInfo(top_k=asked.get("top_k"), concurrency=asked.get("concurrency"))
