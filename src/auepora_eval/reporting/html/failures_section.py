"""What went wrong: causes of wrong answers, errors of the system, measurements that failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.types import MetricResult
from .blocks import Block, Cell, Column, Fold, Gallery, Group, Prose, Row, Section, Table, bare_table
from .figures import causes_figure
from .stored_run import StoredRun
from .wording import amount, interval_text, share, short, value_text

__all__ = ["failures_section"]

CAUSES = {
    "not_returned": "no relevant document was returned at all",
    "below_cut": "a relevant document was returned, but too far down",
    "refused": "a relevant document was there, and the system declined to answer",
    "contradicts_context": "a relevant document was there, and the answer is not borne out by it",
    "unused": "a relevant document was there, and the answer is wrong though its words stand there",
    "system_failed": "the system gave no answer",
}
MOST_ERRORS = 12


def failures_section(runs: Sequence[StoredRun]) -> Section | None:
    """Failures by cause; what there is none of is said once."""
    blocks = [*_attributed(runs), *_errors(runs), *_unmeasured(runs)]
    if not any(run.results or run.counts[0] for run in runs):
        return None
    if not blocks:
        blocks = [Prose("No answer failed, and every measurement worked.", tone="good")]
    return Section("failures", "Failures by cause", blocks)


def _attributed(runs: Sequence[StoredRun]) -> list[Block]:
    """The causes of wrong answers, of every result that tells them."""
    made: list[Block] = []
    names = list(dict.fromkeys(one.name for run in runs for one in run.results if _causes(one)))
    for name in names:
        figures, groups = [], []
        for run in runs:
            result = run.named(name)
            causes = {} if result is None else _causes(result)
            if not causes:
                continue
            figures.append(causes_figure(run, causes))
            rows: list[Row] = [
                [
                    Cell(str(cause), note=CAUSES.get(str(cause), "")),
                    f"{int(part.get('count', 0)):,}",
                    value_text(part.get("share")),
                    interval_text(_ends(part)),
                ]
                for cause, part in causes.items()
            ]
            groups.append(Group(rows, run.called if run.letter else ""))
        columns = [
            Column("cause"),
            Column("wrong answers", number=True),
            Column("share", number=True),
            Column("95 % interval", number=True),
        ]
        made.append(Prose(f"Why answers are wrong, by {name}: for each the first link of the chain that broke."))
        made.append(Gallery(figures) if len(figures) > 1 else figures[0])
        made.append(Table(columns, groups, grouped_by="run"))
    return made


def _causes(result: MetricResult) -> Mapping[str, Mapping[str, Any]]:
    causes = result.details.get("causes")
    if not isinstance(causes, Mapping) or not all(isinstance(one, Mapping) for one in causes.values()):
        return {}
    return causes if any(one.get("count") for one in causes.values()) else {}


def _ends(part: Mapping[str, Any]) -> tuple[float, float] | None:
    ends = part.get("interval")
    return None if not ends else (float(ends[0]), float(ends[1]))


def _errors(runs: Sequence[StoredRun]) -> list[Block]:
    """Errors of the system, by their kind."""
    rows: list[Row] = []
    for run in runs:
        if not run.errors:
            continue
        kinds = Counter(short(error.partition(":")[0], 80) for error in run.errors)
        example = {}
        for error in reversed(run.errors):
            example[short(error.partition(":")[0], 80)] = error
        rows += [
            [
                Cell(f"{run.letter}: {kind}" if run.letter else kind),
                f"{count:,}",
                share(count, run.counts[0]),
                short(example[kind]),
            ]
            for kind, count in kinds.most_common(MOST_ERRORS)
        ]
        if len(kinds) > MOST_ERRORS:
            rest = sum(kinds.values()) - sum(count for _, count in kinds.most_common(MOST_ERRORS))
            rows.append([Cell("others", tone="muted"), f"{rest:,}", share(rest, run.counts[0]), ""])
    if not rows:
        return []
    columns = [Column("error"), Column("answers", number=True), Column("share", number=True), Column("for example")]
    return [bare_table(columns, rows, caption="Answers that the system failed to give")]


def _unmeasured(runs: Sequence[StoredRun]) -> list[Block]:
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
    columns = [Column("metric"), Column("queries", number=True), Column("why")]
    told = amount(len(rows), "metric")
    return [Fold(f"Measurements that failed: {told}", [bare_table(columns, rows)], is_open=True)]


def _measure_reasons(result: MetricResult) -> Counter[str]:
    prefix = "measure_failed:"
    outcomes = [one for one in result.outcomes or () if one.startswith(prefix)]
    return Counter(one.removeprefix(prefix) for one in outcomes)
