"""Check that the system of a replay is the system of the run it replays."""

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
"""Classes under which earlier versions stored a pair."""
_SYSTEM_METHODS = ("run", "arun", "retrieve")


def check_replay_system(
    system: object, planned: Mapping[str, Any] | None, store: RunStore, record: RunRecord
) -> tuple[dict[str, Any], list[str]]:
    """The system as a plan entry, and notes; raises ``BadValueError`` if the run used another system."""
    stored = dict(record.plan.get("system") or {})
    if planned is not None:
        entry = store.as_stored(dict(planned))
        _require_same(record, stored, entry, "its plan builds another system")
        return entry, []
    live = store.as_stored(describe_system(system))
    # Only the generator is called, so only the generator must be the same; a whole system is compared as a whole.
    whole = "generator" not in live and any(callable(getattr(system, name, None)) for name in _SYSTEM_METHODS)
    live_part, stored_part = (one.get("generator") or one for one in (live, stored))
    if whole is not (stored_part is stored) or stored_part.get("object", _PAIRS[0]) in _PAIRS:
        return live, [f"whether this is the generator of {record.run_id} is unknown: its plan does not describe it"]
    _require_same(record, stored_part, live_part, "it was made by another one")
    return live, []


def _require_same(record: RunRecord, stored: Mapping[str, Any], given: Mapping[str, Any], problem: str) -> None:
    changed = plan_changes({"system": stored}, {"system": given})
    if changed:
        raise BadValueError(
            f"this is not the system of {record.run_id} ({record.name}): {problem} ({'; '.join(changed[:5])}); "
            "a replay needs the system of run B"
        )
