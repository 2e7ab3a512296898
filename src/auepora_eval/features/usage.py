"""Usage of outputs: numbers of tokens by kind, under the names that providers and frameworks give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import BadValueError

PROMPT, COMPLETION, CACHED = "prompt_tokens", "completion_tokens", "cached_prompt_tokens"
_NAMES = {
    PROMPT: ("prompt_tokens", "input_tokens"),
    COMPLETION: ("completion_tokens", "output_tokens"),
    CACHED: ("cached_prompt_tokens", "cached_tokens"),
}
_PARTS = {
    "prompt_tokens_details": "cached_tokens",
    "input_tokens_details": "cached_tokens",
    "input_token_details": "cache_read",
}
"""Mappings inside a usage that contain the number of prompt tokens from the server's cache."""


def token_count(usage: Mapping[str, Any], kind: str) -> int | None:
    """The number of tokens of a kind; ``None`` where it is not given. A wrong number is an error."""
    found = [usage[name] for name in _NAMES[kind] if usage.get(name) is not None]
    if kind == CACHED:
        for name, key in _PARTS.items():
            part = usage.get(name)
            if isinstance(part, Mapping) and part.get(key) is not None:
                found.append(part[key])
    if not found:
        return None
    count = found[0]
    if isinstance(count, bool) or not isinstance(count, (int, float)) or count < 0 or count % 1 != 0:
        raise BadValueError(f"{kind} must be a number of tokens, not {count!r:.80}")
    return int(count)


def usage_by_model(usage: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The usage of each model: of all in ``by_model``, or of the one that the usage names, which may be none ('')."""
    by_model = usage.get("by_model")
    if isinstance(by_model, Mapping) and by_model and all(isinstance(part, Mapping) for part in by_model.values()):
        return by_model
    models = usage.get("models")
    alone = models[0] if isinstance(models, list) and len(models) == 1 else ""
    return {str(usage.get("model") or alone): usage}


def sum_usage(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The sums of several usages with the same names; where none has a total of its tokens, with that."""
    total: dict[str, Any] = {}
    for report in reports:
        tokens = [report[key] for key in ("input_tokens", "output_tokens") if key in report]
        counts = ({"total_tokens": sum(tokens)} if tokens else {}) | dict(report)
        for key, value in counts.items():
            if key != "model":
                total[key] = total.get(key, 0) + value
    return total


def usage_of_models(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The ``model`` of several usages, or where there are several models the usage of each (``by_model``)."""
    models = list(dict.fromkeys(str(report["model"]) for report in reports if report.get("model")))
    if len(models) < 2:
        return {"model": models[0]} if models else {}
    return {
        "by_model": {
            model: sum_usage([report for report in reports if report.get("model") == model]) for model in models
        }
    }
