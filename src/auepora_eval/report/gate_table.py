"""The outcomes of gates as a table: for a terminal, in Markdown and in the report."""

from __future__ import annotations

from ..gates import GateReport
from ..plan.gates import GateStatus
from ..render.blocks import Block, Cell, Details, Prose, Row, TableColumn, Tone, simple_table
from ..render.markdown import blocks_markdown
from ..render.terminal import blocks_text

_TONES: dict[GateStatus, Tone] = {"passed": "good", "failed": "bad", "inconclusive": "open"}
GATE_SIGNS: dict[GateStatus, str] = {"passed": "✓", "failed": "✗", "inconclusive": "?"}


def gates_blocks(report: GateReport, *, warnings: bool = True) -> list[Block]:
    """A row per gate, the warnings if wanted, and the counts; implied gates only where they did not pass."""
    rows: list[Row] = [
        [
            Cell(outcome.status, tone=_TONES[outcome.status], sign=GATE_SIGNS[outcome.status]),
            outcome.gate,
            outcome.reason,
        ]
        for outcome in report.visible_outcomes
    ]
    blocks: list[Block] = [simple_table([TableColumn("outcome", brief=True), "gate", "because"], rows)] if rows else []
    blocks += [Prose(f"Warning: {warning}", "open") for warning in report.warnings if warnings]
    against = f", compared with {report.against}" if report.against is not None else ""
    part = None if report.sample_set is None else report.sample_set.note
    note = None if report.register is None else report.register.note
    return [*blocks, *(Prose(text) for text in (part, report.headline + against, note) if text is not None)]


def gates_table(report: GateReport) -> str:
    """The gates for a terminal, without warnings, which are printed as such."""
    return blocks_text(gates_blocks(report, warnings=False))


def gates_markdown(report: GateReport, *, heading: str | None = None) -> str:
    """The gates as Markdown. Gates and names are escaped."""
    blocks = gates_blocks(report)
    return blocks_markdown(blocks if heading is None else [Details(heading, blocks)])
