"""The gate report as a plain table and as Markdown, also appended to ``$GITHUB_STEP_SUMMARY``."""

from __future__ import annotations

import os
import re

from ..core.errors import DataFileError
from ..reporting.markdown import escape_markdown
from ..reporting.tables import table
from .report import GateReport

__all__ = ["append_step_summary", "gates_markdown", "gates_table"]

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]+")


def gates_table(report: GateReport) -> str:
    """A line per gate; implied gates only where they did not pass."""
    rows = [[one.status, _line(one.gate), _line(one.reason)] for one in report.visible_outcomes]
    text = table(rows, headers=["outcome", "gate", "because"]) if rows else ""
    return "\n\n".join(filter(None, [text, _closing(report)]))


def gates_markdown(report: GateReport, *, heading: str | None = None) -> str:
    """The same as Markdown. Gates and names are escaped."""
    lines = ["| Gate | Outcome | Because |", "|------|---------|---------|"]
    for one in report.visible_outcomes:
        status = one.status if one.status == "passed" else f"**{one.status}**"
        lines.append(f"| {escape_markdown(one.gate)} | {status} | {escape_markdown(one.reason)} |")
    head = [] if heading is None else [f"### {escape_markdown(heading)}"]
    warnings = [f"Warning: {escape_markdown(one)}" for one in report.warnings]
    return "\n\n".join(
        [*head, *(["\n".join(lines)] if report.visible_outcomes else []), *warnings, escape_markdown(_closing(report))]
    )


def append_step_summary(report: GateReport, *, heading: str) -> str | None:
    """Append the report to the file ``$GITHUB_STEP_SUMMARY``; returns its path, or ``None`` where it is not set."""
    path = os.environ.get(SUMMARY_VARIABLE)
    if not path:
        return None
    text = gates_markdown(report, heading=heading)
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{text}\n\n")
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or error
        raise DataFileError(path, None, f"the summary of {SUMMARY_VARIABLE} cannot be written: {problem}") from error
    return path


def _line(text: str) -> str:
    return " ".join(_CONTROL.sub(" ", text).split())


def _closing(report: GateReport) -> str:
    with_what = f", compared with {report.against}" if report.against is not None else ""
    return f"{report.headline}{with_what}"
