"""Stored judgements on the command line: those of one sample, the failed ones, and all of them for replay."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..core.judgement_format import format_lines, format_one_line, format_subject

if TYPE_CHECKING:
    from ..store.judgement_rows import StoredJudgement
    from ..store.records import RunRecord
    from ..store.runs import RunStore

__all__ = [
    "judge_failures",
    "judge_failures_text",
    "judgement_lines",
    "judgements_text",
    "sample_judgements",
    "usage_text",
]


def sample_judgements(store: RunStore, record: RunRecord, position: int) -> list[dict[str, Any]]:
    """The judgements of one sample, as JSON-compatible dicts."""
    return [_judgement_dict(one) for one in store.judgements(record.run_id, position=position)]


def judge_failures(store: RunStore, record: RunRecord) -> list[dict[str, Any]]:
    """Every failed judgement, as JSON-compatible dicts."""
    rows = list(store.judgements(record.run_id, failed=True))
    ids = store.sample_ids(record.run_id) if rows else []
    return [{"sample_id": ids[one.position], **_judgement_dict(one)} for one in rows]


def _judgement_dict(one: StoredJudgement) -> dict[str, Any]:
    body = one.body
    result: dict[str, Any] = {"metric": one.metric, "repeat": one.repeat, "judge_repeat": one.judge_repeat}
    result |= {"critic": one.critic, "prompt_id": one.prompt_id}
    if body.get("about"):
        result["about"] = body["about"]
    if one.reason is not None:
        return {**result, "error": one.reason, "message": body.get("message"), "raw": body.get("raw")}
    keys = ("answer", "weighted", "mass", "usage", "repaired", "cached", "raw")
    return {**result, **{name: body[name] for name in keys if name in body}}


def judgements_text(rows: Sequence[Mapping[str, Any]], width: int, metrics: Sequence[str] = ()) -> list[str]:
    """The judgements of one sample as lines of text; a judgement shared by several metrics is shown once.

    They are in the order of ``metrics``, with the claims of a metric first.
    """
    shared: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        shared.setdefault(json.dumps({**row, **_IGNORED_KEYS}, sort_keys=True, default=str), []).append(row)
    order = {name: position for position, name in enumerate(metrics)}
    groups = [sorted(group, key=lambda row: order.get(row["metric"], len(order))) for group in shared.values()]
    groups.sort(key=lambda group: (order.get(group[0]["metric"], len(order)), "claims" not in _answer(group[0])))
    return [line for group in groups for line in _judgement_text(group, width)]


_IGNORED_KEYS = {"metric": None, "cached": None, "usage": None}
"""Keys in which the rows of one shared judgement may differ."""


def _answer(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return row.get("answer") or {}


def _judgement_text(group: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    row, names = group[0], list(dict.fromkeys(row["metric"] for row in group))
    again = f", repeat {row['repeat']}" if row["repeat"] else ""
    again += f", judged for the {row['judge_repeat'] + 1}. time" if row["judge_repeat"] else ""
    about = row.get("about") or {}
    named = f", {format_subject(about)}" if format_subject(about) else ""
    head = f"judged     {', '.join(names)} by {row['critic']}{again}{named}:"
    if "error" in row:
        return [f"{head} failed, {_failure(row, width)}"]
    lines = format_lines(row["answer"], about)
    if lines:
        return [head, *(f"             {_short(line, width)}" for line in lines)]
    why = row["answer"].get("rationale")
    return [
        f"{head} {_short(format_one_line(row['answer']), width)}",
        *([f"           {_short(why, width)}"] if why else []),
    ]


def judge_failures_text(rows: Sequence[Mapping[str, Any]], *, shown: int, width: int) -> list[str]:
    """The failed judgements with their reasons and raw replies, as lines of text."""
    if not rows:
        return []
    counts = Counter(str(row["error"]) for row in rows)
    lines = [f"{len(rows)} not judged: " + ", ".join(f"{reason} {n}" for reason, n in counts.items()), ""]
    for row in rows[:shown]:
        again = f" (repeat {row['repeat']})" if row["repeat"] else ""
        lines.append(f"{row['sample_id']}{again}: {row['metric']}: {_failure(row, width)}")
    if len(rows) > shown:
        lines.append(f"... and {len(rows) - shown} more; --json has all")
    return lines


def _failure(row: Mapping[str, Any], width: int) -> str:
    message = f"{row['error']}: {row['message']}" if row["message"] else str(row["error"])
    reply = f"; it said: {_short(row['raw'], width)}" if row["raw"] else ""
    return _short(message, width) + reply


def _short(text: str, width: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[:width]}…"


def judgement_lines(store: RunStore, record: RunRecord) -> Iterator[bytes]:
    """All judgements of a run, one JSON object per line, as ``RecordedCritic`` replays them."""
    ids = store.sample_ids(record.run_id)
    for one in store.judgements(record.run_id):
        body = one.body
        row: dict[str, Any] = {
            "key": one.request,
            "critic": one.critic,
            "one_number": bool(body.get("one_number")),
            "logprobs": bool(body.get("logprobs")),
            "metric": one.metric,
            "sample_id": ids[one.position],
            "repeat": one.judge_repeat,
            "prompt_id": one.prompt_id,
            **({"about": body["about"]} if body.get("about") else {}),
        }
        if one.reason is not None:
            row["error"] = {"reason": one.reason, "message": body.get("message"), "raw": body.get("raw")}
        else:
            row |= {name: body.get(name) for name in ("answer", "raw", "usage", "weighted", "mass", "repaired")}
        yield json.dumps(row).encode()


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
