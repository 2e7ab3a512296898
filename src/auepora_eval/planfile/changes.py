"""Whether two plans ask for the same run, and in what they differ: a run goes on only under the plan it began with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from .findings import joined

__all__ = ["plan_changes", "plan_key"]

NO_MATTER = ("store", "scoring", "report", "gates")
"""Where a run is kept, who computes its numbers, what is made of them: that changes nothing of what is asked."""
PATIENCE = ("retries", "backoff", "max_failures", "keep_going")
"""How patiently a system is asked. Who goes on with a run that stopped early may have to change just that."""
_ABSENT = "nothing"


def plan_key(resolved: Mapping[str, Any]) -> str:
    """A short text that two plans share if and only if ``plan_changes`` finds nothing between them."""
    canonical = json.dumps(_counted(resolved), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def plan_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two plans as they are stored, such as ``run.top_k: 5 -> 10``; empty where nothing counts.

    Where runs are kept (``store``), who scores (``scoring``), reports, gates and how patiently a system is asked
    (``retries``, ``backoff``, ``max_failures``, ``keep_going``) do not count, and of ``judge`` its ``repeats`` alone
    do.
    """
    found: list[str] = []
    _compare("", _counted(old), _counted(new), found)
    return found


def _counted(resolved: Mapping[str, Any]) -> dict[str, Any]:
    counted = {key: value for key, value in resolved.items() if key not in NO_MATTER and value is not None}
    run = counted.get("run")
    if isinstance(run, Mapping):
        counted["run"] = {key: value for key, value in run.items() if key not in PATIENCE}
    judge = counted.pop("judge", None)
    if isinstance(judge, Mapping) and judge.get("repeats", 1) != 1:  # the rest is patience, prices and limits
        counted["judge"] = {"repeats": judge["repeats"]}
    return counted


def _compare(key: str, old: Any, new: Any, found: list[str]) -> None:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in [*old, *(name for name in new if name not in old)]:
            _compare(joined(key, name), old.get(name), new.get(name), found)
    elif _text(old) != _text(new):
        found.append(f"{key}: {_shown(old)} -> {_shown(new)}")


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _shown(value: Any) -> str:
    if value is None:
        return _ABSENT
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
