"""Whether two plans ask for the same run, and in what they differ: a run goes on only under the plan it began with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from .findings import join_key

__all__ = ["plan_changes", "plan_key"]

IGNORED_SECTIONS = ("store", "scoring", "report", "gates")
"""Where a run is kept, who computes its numbers, what is made of them: that changes nothing of what is asked."""
RETRY_KEYS = ("retries", "backoff", "max_failures", "keep_going")
"""How patiently a system is asked. Who goes on with a run that stopped early may have to change just that."""
_ABSENT = "nothing"


def plan_key(resolved: Mapping[str, Any]) -> str:
    """A short text that two plans share if and only if ``plan_changes`` finds nothing between them."""
    canonical = json.dumps(_relevant_values(resolved), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def plan_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two plans as they are stored, such as ``run.top_k: 5 -> 10``; empty where nothing counts.

    Where runs are kept (``store``), who scores (``scoring``), reports, gates and how patiently a system is asked
    (``retries``, ``backoff``, ``max_failures``, ``keep_going``) do not count, and of ``judge`` its ``repeats`` alone
    do.
    """
    found: list[str] = []
    _compare("", _relevant_values(old), _relevant_values(new), found)
    return found


def _relevant_values(resolved: Mapping[str, Any]) -> dict[str, Any]:
    counted = {key: value for key, value in resolved.items() if key not in IGNORED_SECTIONS and value is not None}
    run = counted.get("run")
    if isinstance(run, Mapping):
        counted["run"] = {key: value for key, value in run.items() if key not in RETRY_KEYS}
    judge = counted.pop("judge", None)
    if isinstance(judge, Mapping) and judge.get("repeats", 1) != 1:  # the rest is patience, prices and limits
        counted["judge"] = {"repeats": judge["repeats"]}
    return counted


def _compare(key: str, old: Any, new: Any, found: list[str]) -> None:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in [*old, *(name for name in new if name not in old)]:
            _compare(join_key(key, name), old.get(name), new.get(name), found)
    elif _canonical(old) != _canonical(new):
        found.append(f"{key}: {_format_value(old)} -> {_format_value(new)}")


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _format_value(value: Any) -> str:
    if value is None:
        return _ABSENT
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
