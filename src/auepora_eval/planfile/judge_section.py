"""The ``judge`` section of a plan: policy, limits, prices and cache of judge calls."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..judge.policy import JudgePolicy, Price
from .findings import Findings, PlanSection, describe_value
from .plan import JudgeSettings
from .sections import optional_section, path_problem, resolve_path

__all__ = ["judge_section"]

JUDGE_KEYS = (
    "cache", "cache_only", "concurrency", "timeout", "retries", "backoff", "repeats", "max_calls", "max_tokens",
    "max_cost", "prices",
)  # fmt: skip

Stored = dict[str, Any]


def judge_section(findings: Findings, folder: Path) -> tuple[JudgeSettings, Stored]:
    """Read ``judge``: the settings for judge calls, and the part that is stored."""
    section = optional_section(findings, "judge", JUDGE_KEYS)
    default = JudgePolicy()
    cache = _cache(section)
    prices = _prices(section)
    stored: Stored = {
        "concurrency": section.integer("concurrency", default.concurrency, least=1),
        "timeout": section.seconds("timeout", default.timeout) or default.timeout,
        "retries": section.integer("retries", default.retries, least=0),
        "backoff": section.seconds("backoff", default.backoff, zero=True),
        "repeats": section.integer("repeats", default.repeats, least=1),
        "max_calls": section.integer("max_calls", None, least=0),
        "max_tokens": section.integer("max_tokens", None, least=0),
        "max_cost": section.number("max_cost", None),
    }
    # Not stored with the run: it applies to this call only.
    only = section.flag("cache_only")
    if only and cache is False:
        section.add("cache_only", "there is no cache to answer from: 'cache' is false")
    if stored["max_cost"] is not None and not prices:
        section.add("max_cost", "the cost of the judge is unknown; write 'prices: {MODEL: {prompt: 1, completion: 2}}'")
    path = resolve_path(cache, folder) if isinstance(cache, str) else None
    policy = JudgePolicy(
        **stored,
        cache=path,
        prices={model: Price(**price) for model, price in prices.items()},
    )
    settings = JudgeSettings(policy, cache=cache is not False, cache_only=only and cache is not False)
    return settings, {"cache": cache, **stored, "prices": prices or None}


def _cache(section: PlanSection) -> str | bool | None:
    """The path as written, ``False`` for no cache, ``None`` for the default."""
    value = section.values.get("cache")
    if value is None or value is True:
        return None
    if value is False:
        return False
    problem = path_problem(value)
    if problem is not None:
        section.add("cache", f"{problem}; write a path, or false to keep no judgements")
        return None
    return str(value)


def _prices(section: PlanSection) -> dict[str, dict[str, float]]:
    prices: dict[str, dict[str, float]] = {}
    for model, value in section.mapping("prices").items():
        key = f"{section.key_path('prices')}.{model}"
        if not isinstance(value, Mapping):
            section.findings.add(
                key, f"must be what a million tokens cost, {{prompt: 1, completion: 2}}, not {describe_value(value)}"
            )
            continue
        one = PlanSection(section.findings, key, dict(value))
        one.refuse_unknown(("prompt", "completion"))
        if not one.has("prompt") and not one.is_misspelt("prompt"):
            one.add("prompt", "is missing; it is what a million tokens of prompts cost")
        prices[model] = {"prompt": one.number("prompt", 0.0) or 0.0, "completion": one.number("completion", 0.0) or 0.0}
    return prices
