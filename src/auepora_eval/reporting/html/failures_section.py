"""The section of failures: causes of wrong answers, system errors, failed measurements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.types import MetricResult
from .blocks import Block, Cell, Details, Gallery, Prose, ReportSection, Row, RowGroup, Table, TableColumn, simple_table
from .figures import causes_figure
from .formatting import interval_text, percentage, pluralize, shorten, value_text
from .stored_run import StoredRun

__all__ = ["failures_section"]

CAUSES = {
    "not_returned": "no relevant document was returned at all",
    "below_cut": "a relevant document was returned, but too far down",
    "refused": "a relevant document was there, and the system declined to answer",
    "contradicts_context": "a relevant document was there, and the answer is not borne out by it",
    "unused": "a relevant document was there, and the answer is wrong though its words stand there",
    "system_failed": "the system gave no answer",
}
MAX_ERRORS = 12


def failures_section(runs: Sequence[StoredRun]) -> ReportSection | None:
    """Failures by cause, or a note that there are none."""
    blocks = [*_cause_blocks(runs), *_error_blocks(runs), *_measurement_failure_blocks(runs)]
    if not any(run.results or run.counts[0] for run in runs):
        return None
    if not blocks:
        blocks = [Prose("No answer failed, and every measurement worked.", tone="good")]
    return ReportSection("failures", "Failures by cause", blocks)


def _cause_blocks(runs: Sequence[StoredRun]) -> list[Block]:
    """The causes of wrong answers, of every result that has them in its details."""
    blocks: list[Block] = []
    names = list(dict.fromkeys(one.name for run in runs for one in run.results if _causes(one)))
    for name in names:
        figures, groups = [], []
        for run in runs:
            result = run.find_result(name)
            causes = {} if result is None else _causes(result)
            if not causes:
                continue
            figures.append(causes_figure(run, causes))
            rows: list[Row] = [
                [
                    Cell(str(cause), note=CAUSES.get(str(cause), "")),
                    f"{int(part.get('count', 0)):,}",
                    value_text(part.get("share")),
                    interval_text(_interval(part)),
                ]
                for cause, part in causes.items()
            ]
            groups.append(RowGroup(rows, run.label if run.letter else ""))
        columns = [
            TableColumn("cause"),
            TableColumn("wrong answers", number=True),
            TableColumn("share", number=True),
            TableColumn("95 % interval", number=True),
        ]
        blocks.append(Prose(f"Why answers are wrong, by {name}: for each the first link of the chain that broke."))
        blocks.append(Gallery(figures) if len(figures) > 1 else figures[0])
        blocks.append(Table(columns, groups, grouped_by="run"))
    return blocks


def _causes(result: MetricResult) -> Mapping[str, Mapping[str, Any]]:
    causes = result.details.get("causes")
    if not isinstance(causes, Mapping) or not all(isinstance(one, Mapping) for one in causes.values()):
        return {}
    return causes if any(one.get("count") for one in causes.values()) else {}


def _interval(part: Mapping[str, Any]) -> tuple[float, float] | None:
    ends = part.get("interval")
    return None if not ends else (float(ends[0]), float(ends[1]))


def _error_blocks(runs: Sequence[StoredRun]) -> list[Block]:
    """System errors by type."""
    rows: list[Row] = []
    for run in runs:
        if not run.errors:
            continue
        kinds = Counter(shorten(error.partition(":")[0], 80) for error in run.errors)
        example = {}
        for error in reversed(run.errors):
            example[shorten(error.partition(":")[0], 80)] = error
        rows += [
            [
                Cell(f"{run.letter}: {kind}" if run.letter else kind),
                f"{count:,}",
                percentage(count, run.counts[0]),
                shorten(example[kind]),
            ]
            for kind, count in kinds.most_common(MAX_ERRORS)
        ]
        if len(kinds) > MAX_ERRORS:
            rest = sum(kinds.values()) - sum(count for _, count in kinds.most_common(MAX_ERRORS))
            rows.append([Cell("others", tone="muted"), f"{rest:,}", percentage(rest, run.counts[0]), ""])
    if not rows:
        return []
    columns = [
        TableColumn("error"),
        TableColumn("answers", number=True),
        TableColumn("share", number=True),
        TableColumn("for example"),
    ]
    return [simple_table(columns, rows, caption="Answers that the system failed to give")]


def _measurement_failure_blocks(runs: Sequence[StoredRun]) -> list[Block]:
    """Measurements that should have worked and did not."""
    rows: list[Row] = []
    for run in runs:
        for result in run.results:
            count = result.details.get("num_measure_failed", 0)
            if not count:
                continue
            rows.append(
                [
                    Cell(f"{run.letter}: {result.name}" if run.letter else result.name),
                    f"{count:,}",
                    ", ".join(f"{reason} {n:,}" for reason, n in _measure_reasons(result).items()),
                ]
            )
    if not rows:
        return []
    columns = [TableColumn("metric"), TableColumn("queries", number=True), TableColumn("why")]
    count_text = pluralize(len(rows), "metric")
    return [Details(f"Measurements that failed: {count_text}", [simple_table(columns, rows)], is_open=True)]


def _measure_reasons(result: MetricResult) -> Counter[str]:
    prefix = "measure_failed:"
    outcomes = [one for one in result.outcomes or () if one.startswith(prefix)]
    return Counter(one.removeprefix(prefix) for one in outcomes)
