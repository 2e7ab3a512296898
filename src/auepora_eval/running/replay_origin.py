"""Whether the system of a replay is the one that made the run it stands for, as far as that can be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.errors import BadValueError
from ..planfile.changes import plan_changes
from ..store.records import RunRecord
from ..store.runs import RunStore
from .plans import describe_system

__all__ = ["check_replay_system"]

_PAIRS = ("builtins.tuple", "builtins.list")
"""What runs of earlier versions say of a pair."""
_SYSTEM_METHODS = ("run", "arun", "retrieve")


def check_replay_system(
    system: object, planned: Mapping[str, Any] | None, store: RunStore, record: RunRecord
) -> tuple[dict[str, Any], list[str]]:
    """What the system is by its plan, or by its looks, and doubts; ``BadValueError`` where the run had another one."""
    stored = dict(record.plan.get("system") or {})
    if planned is not None:
        made_by = store.as_stored(dict(planned))
        _require_same(record, stored, made_by, "its plan builds another system")
        return made_by, []
    seen = store.as_stored(describe_system(system))
    # Only the generator is asked, so that only the generator must be the same; a whole is held against a whole.
    whole = "generator" not in seen and any(callable(getattr(system, name, None)) for name in _SYSTEM_METHODS)
    given, asked = (one.get("generator") or one for one in (seen, stored))
    if whole is not (asked is stored) or asked.get("object", _PAIRS[0]) in _PAIRS:
        return seen, [f"whether this is the generator of {record.run_id} cannot be told from what is stored of it"]
    _require_same(record, asked, given, "it was made by another one")
    return seen, []


def _require_same(record: RunRecord, stored: Mapping[str, Any], given: Mapping[str, Any], problem: str) -> None:
    changed = plan_changes({"system": stored}, {"system": given})
    if changed:
        raise BadValueError(
            f"this is not the system of {record.run_id} ({record.name}): {problem} ({'; '.join(changed[:5])}); "
            "a replay asks the very system that run B was made by"
        )
