"""The section of provenance: plan, versions, commit, dataset, conventions, signatures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...store.stored_plan import conventions_label
from .blocks import Block, Cell, Code, DefinitionList, Details, ReportSection, Row, TableColumn, simple_table
from .formatting import format_time, shorten
from .stored_run import StoredRun

__all__ = ["provenance_section"]


def provenance_section(runs: Sequence[StoredRun]) -> ReportSection:
    """Plan, signatures and metadata of each run."""
    blocks: list[Block] = []
    for run in runs:
        name = run.label
        folds: list[Block] = [
            Details(f"Plan of {name}", [Code(json.dumps(run.record.plan, indent=2, ensure_ascii=False, default=str))]),
            Details(f"Signatures of {name}", [_signatures(run)]),
        ]
        facts = DefinitionList(_run_facts(run))
        blocks += [facts, *folds] if len(runs) == 1 else [Details(name, [facts, *folds])]
    return ReportSection(
        "provenance", "Provenance", blocks, "What these numbers were made of, so that they can be made again."
    )


def _run_facts(run: StoredRun) -> list[tuple[str, str | Cell]]:
    record, (done, failed) = run.record, run.counts
    facts: list[tuple[str, str | Cell]] = [
        ("run", Cell(record.run_id, code=True)),
        ("name", record.name),
        ("status", record.status.value + (f": {shorten(record.message)}" if record.message else "")),
        ("began", format_time(record.created_at)),
        ("ended", format_time(record.finished_at) or "not yet"),
        ("dataset", f"{record.dataset_name}, {record.num_samples:,} queries"),
        ("fingerprint", Cell(record.fingerprint, code=True)),
        ("answers", f"{done:,} stored, {failed:,} failed"),
        ("repeats", str(record.repeats)),
        ("conventions", conventions_label(record)),
        ("commit", Cell(_commit(record.commit), code=bool(record.commit))),
        ("made by", f"auepora {record.version}"),
        ("tags", ", ".join(record.tags) or "none"),
    ]
    facts += [(str(key), shorten(_text(value))) for key, value in record.config.items()]
    return facts


def _commit(commit: str | None) -> str:
    if not commit:
        return "not in a repository"
    plain, plus, _ = commit.partition("+")
    return f"{plain[:12]}{' with uncommitted changes' if plus else ''}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _signatures(run: StoredRun) -> Block:
    rows: list[Row] = [[Cell(one.name), Cell(one.signature or "none", code=True)] for one in run.results]
    return simple_table([TableColumn("metric"), TableColumn("signature")], rows)
