"""The section of scores by target, with intervals and coverage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.results import display_name, empty_answers, judged_coverage
from ...core.targets import TARGETS
from ...core.types import MetricResult
from .blocks import Block, Cell, Details, Prose, ReportSection, Row, RowGroup, Table, TableColumn
from .cards_section import card_link
from .formatting import interval_text, pluralize, reason_counts, value_text
from .stored_run import StoredRun

__all__ = ["coverage_lines", "runs_scores_section", "scores_section", "value_bar"]


def scores_section(run: StoredRun) -> ReportSection:
    """Every metric of a run."""
    if not run.results:
        return ReportSection(
            "scores", "Scores", [Prose("There are no results: the run did not come to scoring.", tone="open")]
        )
    blocks: list[Block] = [scores_table(run)]
    if any(_flags(one) for one in run.results):
        blocks.append(Prose("? few or skewed samples: the interval may be too narrow.", tone="muted"))
    return ReportSection(
        "scores", "Scores", blocks, "Grouped by what is judged. The bar shows value and interval in its range."
    )


def runs_scores_section(runs: Sequence[StoredRun]) -> ReportSection | None:
    """The scores of several runs, each collapsible."""
    folds = [Details(f"Scores of {run.label}", scores_section(run).blocks) for run in runs if run.results]
    lead = "Each run by itself, over all its queries, with intervals and what was not scored."
    return ReportSection("scores", "Scores", folds, lead) if folds else None


def scores_table(run: StoredRun) -> Table:
    """A row per metric under its target."""
    groups = []
    for target, entry in TARGETS.items():
        rows: list[Row] = [_score_row(run, one) for one in run.results if one.target is target]
        if rows:
            groups.append(RowGroup(rows, entry.title, entry.question))
    columns = [
        TableColumn("metric"),
        TableColumn("value", number=True),
        TableColumn("95 % interval", number=True),
        TableColumn("scored", number=True),
        TableColumn("not scored, and why"),
    ]
    return Table(columns, groups)


def _score_row(run: StoredRun, result: MetricResult) -> Row:
    definition = run.definition(result)
    low, high = definition.range
    scored = result.details.get("num_scored")
    total = _total(result.details)
    mark = " ?" if _flags(result) else ""
    return [
        Cell(
            display_name(result),
            href=card_link(result.name),
            note="" if definition.higher_is_better else "lower is better",
        ),
        Cell(value_text(result.value if result.defined else None), tone="" if result.defined else "muted"),
        Cell(
            f"{interval_text(result.interval)}{mark}" if result.interval else "none",
            bar=value_bar(result, low, high),
            tone="" if result.interval else "muted",
        ),
        "" if scored is None else f"{scored:,} of {total:,}",
        Cell("; ".join(coverage_lines(result)), note=_alternative_values(result)),
    ]


def _flags(result: MetricResult) -> Sequence[str]:
    flags = (result.details.get("interval") or {}).get("flags") or ()
    return flags if result.interval is not None and result.defined else ()


def _total(details: dict[str, Any]) -> int:
    return int(sum(details.get(key, 0) for key in ("num_scored", "num_skipped", "num_failed")))


def value_bar(result: MetricResult, low: float, high: float) -> tuple[float, float, float] | None:
    """Interval and value as fractions of a finite range."""
    if not result.defined or result.interval is None or not (math.isfinite(low) and math.isfinite(high) and low < high):
        return None
    first, last = result.interval
    return (first - low) / (high - low), (result.value - low) / (high - low), (last - low) / (high - low)


def coverage_lines(result: MetricResult) -> list[str]:
    """Notes on coverage: skipped, failed and unmeasured samples with reasons, repeats, and judged proportions."""
    details = result.details
    lines = []
    if not result.defined and details.get("undefined_because"):
        lines.append(str(details["undefined_because"]))
    if details.get("num_skipped"):
        lines.append(f"{details['num_skipped']:,} skipped{_reasons_text(reason_counts(details, 'skipped_'))}")
    failed = reason_counts(details, "failed_")
    by_system, by_measure = details.get("num_system_failed", 0), details.get("num_measure_failed", 0)
    if by_system:
        worst = details.get("num_samples", 0) > details.get("num_scored", 0)
        how = "counted at the worst value" if worst else "left out"
        reasons = _reasons_text(failed) if not by_measure else ""
        lines.append(f"{by_system:,} failed by the system, {how}{reasons}")
    if by_measure:
        lines.append(f"{by_measure:,} not measured{_reasons_text(failed) if not by_system else ''}")
    if by_system and by_measure:
        lines.append(f"failures{_reasons_text(failed)}")
    repeats = details.get("repeats") or {}
    if isinstance(repeats, dict) and repeats.get("count", 1) > 1 and repeats.get("sd") is not None:
        lines.append(f"{pluralize(repeats['count'], 'repeat')}, standard deviation {value_text(repeats['sd'])}")
    lines += filter(None, [judged_coverage(result), empty_answers(result)])
    return lines


def _reasons_text(reasons: dict[str, int]) -> str:
    if not reasons:
        return ""
    reason_texts = [f"{reason} {count:,}" if len(reasons) > 1 else reason for reason, count in reasons.items()]
    return f" ({', '.join(reason_texts)})"


def _alternative_values(result: MetricResult) -> str:
    """The value without failures, and its bounds given failed measurements."""
    values = []
    completed = result.details.get("value_completed")
    if completed is not None:
        values.append(f"{value_text(completed)} over the queries that were answered")
    bounds = result.details.get("bounds")
    if bounds:
        values.append(f"between {value_text(bounds[0])} and {value_text(bounds[1])}, had everything been measured")
    return "; ".join(values)
