"""Stored judgements: those of one sample, the failed ones, and all of them for replay."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..core.derivation import attempt_text, format_lines, format_one_line, format_subject

if TYPE_CHECKING:
    from ..store.records import RunRecord
    from ..store.rows import StoredJudgement
    from ..store.runs import RunStore


def sample_judgements(store: RunStore, record: RunRecord, position: int) -> list[dict[str, Any]]:
    """The judgements of one sample, as JSON-compatible dicts; members of a panel in its own order."""
    from ..report.explain import in_panel_order

    return [
        _judgement_dict(judgement) for judgement in in_panel_order(store.judgements(record.run_id, position=position))
    ]


def judge_failures(store: RunStore, record: RunRecord) -> list[dict[str, Any]]:
    """Every failed judgement, as JSON-compatible dicts."""
    rows = list(store.judgements(record.run_id, failed=True))
    ids = store.sample_ids(record.run_id) if rows else []
    return [{"sample_id": ids[row.position], **_judgement_dict(row)} for row in rows]


def _judgement_dict(judgement: StoredJudgement) -> dict[str, Any]:
    body = judgement.body
    result: dict[str, Any] = {
        "metric": judgement.metric,
        "repeat": judgement.repeat,
        "judge_repeat": judgement.judge_repeat,
        "critic": judgement.critic,
        "prompt_id": judgement.prompt_id,
        **{name: body[name] for name in ("about", "panel") if body.get(name)},
    }
    if judgement.reason is not None:
        return {**result, "error": judgement.reason, "message": body.get("message"), "raw": body.get("raw")}
    keys = ("answer", "weighted", "mass", "usage", "repaired", "cached", "raw")
    return {**result, **{name: body[name] for name in keys if name in body}}


def judgements_text(
    rows: Sequence[Mapping[str, Any]], width: int, scores: Mapping[str, float | None] | None = None
) -> Iterator[str]:
    """The judgements of one sample as lines of text; a judgement shared by several metrics is shown once.

    They are in the order of the metrics in ``scores``, with the claims of a metric first. The vote of a panel follows
    those of its members.
    """
    from ..render.tables import format_value

    shared: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        shared.setdefault(json.dumps({**row, **_IGNORED_KEYS}, sort_keys=True, default=str), []).append(row)
    scores = scores or {}
    order = {name: position for position, name in enumerate(scores)}
    groups = [sorted(group, key=lambda row: order.get(row["metric"], len(order))) for group in shared.values()]
    groups.sort(key=lambda group: (order.get(group[0]["metric"], len(order)), "claims" not in _answer(group[0])))
    panels = {row["metric"]: row["panel"] for row in rows if row.get("panel")}
    for group, after in zip(groups, [*groups[1:], []], strict=True):
        yield from _judgement_text(group, width)
        later = {row["metric"] for row in after}
        last = {row["metric"] for row in group} - later
        for name in panels:
            score = scores.get(name)
            if name in last and score is not None:
                members = ", ".join(panels[name]["members"])
                yield f"panel      {name}: {panels[name]['vote']} of {members}: {format_value(score)}"


_IGNORED_KEYS = {"metric": None, "cached": None, "usage": None}
"""Keys in which the rows of one shared judgement may differ."""


def _answer(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return row.get("answer") or {}


def _judgement_text(group: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    row, names = group[0], list(dict.fromkeys(row["metric"] for row in group))
    again = f", repeat {row['repeat']}" if row["repeat"] else ""
    again += f", {attempt_text(row['judge_repeat'])}" if row["judge_repeat"] else ""
    about = row.get("about") or {}
    named = f", {format_subject(about)}" if format_subject(about) else ""
    head = f"judged     {', '.join(names)} by {row['critic']}{again}{named}:"
    if "error" in row:
        return [f"{head} failed, {failure_text(row, width)}"]
    lines = format_lines(row["answer"], about)
    if lines:
        return [head, *(f"             {_short(line, width)}" for line in lines)]
    why = row["answer"].get("rationale")
    return [
        f"{head} {_short(format_one_line(row['answer']), width)}",
        *([f"           {_short(why, width)}"] if why else []),
    ]


def failure_text(row: Mapping[str, Any], width: int) -> str:
    """The reason of a failure, with the reply of a judge if there is one."""
    message = f"{row['error']}: {row['message']}" if row.get("message") else str(row["error"])
    reply = f"; it said: {_short(row['raw'], width)}" if row.get("raw") else ""
    return _short(message, width) + reply


def _short(text: str, width: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[:width]}…"


def judgement_lines(store: RunStore, record: RunRecord) -> Iterator[bytes]:
    """All judgements of a run, one JSON object per line, as ``RecordedCritic`` replays them."""
    ids = store.sample_ids(record.run_id)
    for judgement in store.judgements(record.run_id):
        body = judgement.body
        kind = {"decides": True} if body.get("decides") else {}
        row: dict[str, Any] = {
            "key": judgement.request.partition("@")[0],
            "critic": judgement.critic,
            "one_number": bool(body.get("one_number")),
            "logprobs": bool(body.get("logprobs")),
            **kind,
            "metric": judgement.metric,
            "sample_id": ids[judgement.position],
            "repeat": judgement.judge_repeat,
            "prompt_id": judgement.prompt_id,
            **({"about": body["about"]} if body.get("about") else {}),
        }
        if judgement.reason is not None:
            row["error"] = {"reason": judgement.reason, "message": body.get("message"), "raw": body.get("raw")}
        else:
            row |= {name: body.get(name) for name in ("answer", "raw", "usage", "weighted", "mass", "repaired")}
        yield json.dumps(row).encode()
