"""The answer of a sweep as one HTML file, with the queries of the runs that matter side by side."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from .._version import __version__
from ..errors import BadValueError
from ..render.blocks import Block, Bullets, Figure, Report, ReportSection, ReportVerdict
from ..render.charts.points import pareto_chart
from ..report.pages import ReportContent, report_html
from ..report.run_sections import StoredRun, provenance_section
from ..runtime.files import atomic_write, translate_write_errors
from ..store.records import RunRecord
from ..store.runs import CachedStore, RunStore
from .answer import SweepAnswer
from .rendering import answer_notes, conclusion, configurations_table, effects_table

_CAPTION = "Each point is a configuration. It is a description of these values, without a test: see the table."


def pareto_figure(answer: SweepAnswer) -> Figure | None:
    """The chart of quality and cost; ``None`` where no cost is known."""
    if not answer.cost_name:
        return None
    rows = []
    for result in answer.results:
        cost = getattr(result.amounts, answer.cost_name)
        rows.append({"name": result.label, "value": result.mean, "cost": cost, "efficient": result.is_efficient})
    return Figure(pareto_chart(rows, answer.metric, f"{answer.cost_name} per question"), _CAPTION)


def answer_sections(answer: SweepAnswer) -> list[ReportSection]:
    """The sections of a page about a sweep, besides its conclusion."""
    configurations: list[Block] = [configurations_table(answer, None)]
    figure, effects = pareto_figure(answer), effects_table(answer)
    if figure is not None:
        configurations.append(figure)
    sections = [ReportSection("configurations", "Configurations", configurations)]
    if effects is not None:
        sections.append(ReportSection("effects", "Effect of each parameter", [effects]))
    return [*sections, ReportSection("notes", "Notes", [Bullets(answer_notes(answer, is_whole=True))])]


def shown_runs(answer: SweepAnswer) -> list[RunRecord]:
    """The runs that matter: the baseline, those that are recommended, and those with the best mean."""
    chosen = [answer.baseline, *answer.cheapest(answer.not_worse or answer.kept)[:1], *answer.leaders[:1]]
    found = [result.record for result in chosen if result is not None and result.is_finished]
    return list({record.run_id: record for record in found if record is not None}.values())


def write_sweep_report(store: RunStore, answer: SweepAnswer, path: str | Path) -> Path:
    """Write the answer as an HTML file; returns its path."""
    path = Path(path)
    records = shown_runs(answer)
    if not records:
        raise BadValueError(f"no configuration of the sweep '{answer.sweep.name}' finished, so there is no report")
    cached = CachedStore(store)
    runs = [StoredRun(cached, record, answer_label(record)) for record in records]
    pieces = report_html(ReportContent(_report(answer, runs), runs, answer.sweep.decide, side_by_side=len(runs) > 1))
    with atomic_write(path) as file, translate_write_errors(path):
        for piece in pieces:
            file.write(piece.encode("utf-8", "replace"))
    return path


def answer_label(record: RunRecord) -> str:
    """The values of the configuration of a run, from its name."""
    return record.name.partition("[")[2].rstrip("]")


def _report(answer: SweepAnswer, runs: Sequence[StoredRun]) -> Report:
    first, *more = conclusion(answer)
    made = f"made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by auepora {__version__}"
    subtitle = f"{len(answer.results)} configurations, {answer.samples:,} questions"
    verdict = ReportVerdict(first, "good" if answer.is_complete else "open", more)
    sections = [*answer_sections(answer), provenance_section(runs)]
    return Report(f"Sweep {answer.sweep.name}", subtitle, verdict, sections, made)
