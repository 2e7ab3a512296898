"""The section of judges: calls, tokens, cost and failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .blocks import Block, Cell, Prose, ReportSection, Row, RowGroup, Table, TableColumn
from .stored_run import StoredRun

__all__ = ["judges_section"]

_COLUMNS = (
    TableColumn(""),
    TableColumn("judgements", number=True),
    TableColumn("calls", number=True),
    TableColumn("from the cache", number=True),
    TableColumn("failed", number=True),
    TableColumn("tokens in", number=True, minor=True),
    TableColumn("tokens out", number=True, minor=True),
    TableColumn("cost", number=True),
)


def judges_section(runs: Sequence[StoredRun]) -> ReportSection | None:
    """The judge usage of the runs, over all scorings."""
    groups = []
    reasons: dict[str, int] = {}
    for run in runs:
        usage = run.record.usage
        if not usage:
            continue
        rows: list[Row] = [_row("all", usage.get("total") or {})]
        rows += [_row(f"metric {name}" if name else "shared by metrics", one) for name, one in _parts(usage, "metrics")]
        rows += [_row(f"judge {name}", one) for name, one in _parts(usage, "critics")]
        groups.append(RowGroup(rows, run.label if run.letter else ""))
        for reason, count in ((usage.get("total") or {}).get("failed") or {}).items():
            reasons[str(reason)] = reasons.get(str(reason), 0) + int(count)
    if not groups:
        return None
    blocks: list[Block] = [Table(_COLUMNS, groups, grouped_by="run")]
    if reasons:
        reason_text = ", ".join(f"{reason} {count:,}" for reason, count in reasons.items())
        blocks.append(Prose(f"Judgements that failed are no numbers: {reason_text}.", tone="open"))
    return ReportSection("judges", "Judges", blocks, "What judging took, over all times it was done.")


def _parts(usage: Mapping[str, Any], name: str) -> list[tuple[str, Mapping[str, Any]]]:
    return [(str(key), one) for key, one in (usage.get(name) or {}).items() if isinstance(one, Mapping)]


def _row(name: str, used: Mapping[str, Any]) -> Row:
    failed = sum((used.get("failed") or {}).values())
    cost = used.get("cost")
    return [
        Cell(name),
        f"{used.get('judgements', 0):,}",
        f"{used.get('calls', 0):,}",
        f"{used.get('cached', 0):,}",
        Cell(f"{failed:,}", tone="bad" if failed else ""),
        f"{used.get('prompt_tokens', 0):,}",
        f"{used.get('completion_tokens', 0):,}",
        "" if cost is None else f"{cost:.4g}",
    ]
