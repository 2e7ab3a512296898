"""What judges were asked or would be asked, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .console import echo_err, json_text

if TYPE_CHECKING:
    from ..core.results import Results
    from ..judge.preview import Preview
    from ..judge.session import JudgeSession


def attach_usage(results: Results, session: JudgeSession) -> None:
    """Add the judge usage to the results and print it."""
    from ..runs.judging import record_usage

    record_usage(results, session.usage_log)
    echo_usage(session)


def echo_usage(session: JudgeSession) -> None:
    """Print the judge usage, if a judge was needed."""
    if session.usage_log.total.judgements:
        echo_err(f"judging: {usage_text(session.usage_log.total.to_dict())}")


def usage_text(usage: Mapping[str, Any]) -> str:
    """Judge usage in one line."""
    failed = sum((usage.get("failed") or {}).values())
    parts = [f"{usage.get('judgements', 0):,} judgements", f"{usage.get('calls', 0):,} calls"]
    if usage.get("cached"):
        parts.append(f"{usage['cached']:,} from the cache")
    if failed:
        parts.append(f"{failed:,} failed")
    tokens = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
    if any(tokens):
        parts.append(f"{tokens[0]:,} + {tokens[1]:,} tokens")
    if usage.get("cost") is not None:
        parts.append(f"cost {usage['cost']:.4g}")
    return ", ".join(parts)


def preview_text(found: Preview, *, as_json: bool, notes: Sequence[str] = (), first: int = 0) -> str:
    """The estimate of judge calls and cost, as text or JSON; so many of the notes come before it."""
    if as_json:
        return json_text({**found.to_dict(), "remarks": list(notes)})
    estimate = found.to_text() if found.metrics else "no metric asks a judge"
    return "\n\n".join([*notes[:first], estimate, *notes[first:]])
