"""The section of gates: the plan's gates and their outcomes."""

from __future__ import annotations

from ...core.errors import AueporaError
from ...gates.baseline import check_run
from ...gates.grammar import parse_gates
from ...gates.report import GateReport, GateStatus
from ...store.records import RunRecord
from .blocks import Block, Cell, Prose, ReportSection, Row, TableColumn, Tone, simple_table
from .formatting import shorten
from .stored_run import StoredRun

__all__ = ["GateCheck", "check_stored_gates", "gates_section", "gates_summary"]

GateCheck = GateReport | str | None
"""The gate report; or why the gates could not be checked; or ``None`` where there are none."""

_TONES: dict[GateStatus, Tone] = {"passed": "good", "failed": "bad", "inconclusive": "open"}
_SIGNS: dict[GateStatus, str] = {"passed": "✓", "failed": "✗", "inconclusive": "?"}


def check_stored_gates(run: StoredRun, baseline: RunRecord | None = None) -> GateCheck:
    """Check the gates of a run's own plan; returns the report, or why they cannot be checked, or ``None``."""
    texts = run.record.plan.get("gates")
    if not texts or not run.results:
        return None
    try:
        return check_run(run.store, run.record, run.results, parse_gates(texts), baseline=baseline)
    except AueporaError as error:  # such as gates of another version
        return shorten(str(error))


def gates_summary(checked: GateCheck, of: str = "") -> str:
    """The summary of the gates for the report's verdict."""
    if isinstance(checked, str):
        return f"The gates{of} could not be checked: {checked}"
    return "" if checked is None else f"Gates{of}: {checked.headline}."


def gates_section(report: GateCheck) -> ReportSection | None:
    """Each gate with its outcome and reason, or why none could be checked."""
    if isinstance(report, str):
        message = f"The plan has gates that could not be checked: {report}"
        return ReportSection("gates", "Gates", [Prose(message, tone="open")])
    if report is None or not report.visible_outcomes:
        return None
    rows: list[Row] = [
        [
            Cell(shorten(one.gate)),
            Cell(one.status, tone=_TONES[one.status], sign=_SIGNS[one.status]),
            shorten(one.reason),
        ]
        for one in report.visible_outcomes
    ]
    blocks: list[Block] = [
        simple_table([TableColumn("gate"), TableColumn("outcome", brief=True), TableColumn("because")], rows)
    ]
    blocks += [Prose(one, tone="open") for one in report.warnings]
    against = f", compared with {report.against}" if report.against is not None else ""
    return ReportSection("gates", "Gates", blocks, f"{report.headline}{against}.")
