"""Gates: what the plan says a run must reach, and whether it does."""

from __future__ import annotations

from ...core.errors import AueporaError
from ...gates.baseline import check_run
from ...gates.grammar import parse_gates
from ...gates.report import GateReport, GateStatus
from ...store.records import RunRecord
from .blocks import Block, Cell, Column, Prose, Row, Section, Tone, bare_table
from .stored_run import StoredRun
from .wording import short

__all__ = ["Checked", "checked_gates", "gates_point", "gates_section"]

Checked = GateReport | str | None
"""What gates come to; or why they could not be checked; or nothing, where there are none."""

_TONES: dict[GateStatus, Tone] = {"passed": "good", "failed": "bad", "inconclusive": "open"}
_SIGNS: dict[GateStatus, str] = {"passed": "✓", "failed": "✗", "inconclusive": "?"}


def checked_gates(run: StoredRun, baseline: RunRecord | None = None) -> Checked:
    """How the gates of a run's own plan go, or why they cannot be checked; ``None`` where it has none."""
    texts = run.record.plan.get("gates")
    if not texts or not run.results:
        return None
    try:
        return check_run(run.store, run.record, run.results, parse_gates(texts), baseline=baseline)
    except AueporaError as error:  # gates of another version, say
        return short(str(error))


def gates_point(checked: Checked, of: str = "") -> str:
    """What the gates come to, for the verdict."""
    if isinstance(checked, str):
        return f"The gates{of} could not be checked: {checked}"
    return "" if checked is None else f"Gates{of}: {checked.headline}."


def gates_section(report: Checked) -> Section | None:
    """Each gate with its outcome and reason, or why none could be checked."""
    if isinstance(report, str):
        told = f"The plan has gates that could not be checked: {report}"
        return Section("gates", "Gates", [Prose(told, tone="open")])
    if report is None or not report.shown:
        return None
    rows: list[Row] = [
        [Cell(short(one.gate)), Cell(one.status, tone=_TONES[one.status], sign=_SIGNS[one.status]), short(one.reason)]
        for one in report.shown
    ]
    blocks: list[Block] = [bare_table([Column("gate"), Column("outcome", brief=True), Column("because")], rows)]
    blocks += [Prose(one, tone="open") for one in report.warnings]
    against = f", compared with {report.against}" if report.against is not None else ""
    return Section("gates", "Gates", blocks, f"{report.headline}{against}.")
