"""Differences between two plans: a run can be resumed only with the plan it started with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from .findings import join_key

__all__ = ["plan_changes", "plan_key"]

IGNORED_SECTIONS = ("store", "scoring", "report", "gates")
"""Sections that do not affect the outputs of a run."""
RETRY_KEYS = ("retries", "backoff", "max_failures", "keep_going")
"""Keys of ``run`` that may change when a run is resumed."""
_ABSENT = "nothing"


def plan_key(resolved: Mapping[str, Any]) -> str:
    """A hash that two plans share if and only if ``plan_changes`` finds no difference."""
    canonical = json.dumps(_relevant_values(resolved), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def plan_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The differences between two stored plans, such as ``run.top_k: 5 -> 10``; empty if there is none that matters.

    ``store``, ``scoring``, ``report``, ``gates`` and the retry keys of ``run`` (``retries``, ``backoff``,
    ``max_failures``, ``keep_going``) do not matter; of ``judge`` only ``repeats`` does.
    """
    found: list[str] = []
    _compare("", _relevant_values(old), _relevant_values(new), found)
    return found


def _relevant_values(resolved: Mapping[str, Any]) -> dict[str, Any]:
    relevant = {key: value for key, value in resolved.items() if key not in IGNORED_SECTIONS and value is not None}
    run = relevant.get("run")
    if isinstance(run, Mapping):
        relevant["run"] = {key: value for key, value in run.items() if key not in RETRY_KEYS}
    judge = relevant.pop("judge", None)
    if isinstance(judge, Mapping) and judge.get("repeats", 1) != 1:  # the rest are retries, prices and limits
        relevant["judge"] = {"repeats": judge["repeats"]}
    return relevant


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
