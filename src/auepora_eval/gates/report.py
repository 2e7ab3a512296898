"""The gate report: outcomes with reasons, exit code, plain table, Markdown and JUnit XML."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal
from xml.etree import ElementTree

from ..errors import DataFileError
from ..render.blocks import Block, Cell, Details, Prose, Row, TableColumn, Tone, simple_table
from ..render.markdown import blocks_markdown
from ..render.terminal import blocks_text

SCHEMA = 1

GateStatus = Literal["passed", "failed", "inconclusive"]
_EXIT_CODES: dict[GateStatus, int] = {"passed": 0, "failed": 1, "inconclusive": 3}


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """The outcome of one gate."""

    gate: str
    """Its text."""
    status: GateStatus
    reason: str
    """One sentence with the numbers."""
    metric: str | None = None
    value: float | None = None
    """The number that decided: a value, a difference, a proportion."""
    implied: bool = False
    """Whether it is the default coverage gate of a gated metric, which the user did not write."""
    warning: str | None = None
    """A caveat of the outcome."""


@dataclass(frozen=True, slots=True)
class GateReport:
    """The outcomes of all gates of a run."""

    outcomes: tuple[GateOutcome, ...]
    run_id: str | None = None
    against: str | None = None
    """The run it was compared with."""

    def __iter__(self) -> Iterator[GateOutcome]:
        return iter(self.outcomes)

    @property
    def status(self) -> GateStatus:
        """``failed`` where any gate failed, else ``inconclusive`` where any is, else ``passed``."""
        statuses = {one.status for one in self.outcomes}
        return "failed" if "failed" in statuses else "inconclusive" if "inconclusive" in statuses else "passed"

    @property
    def exit_code(self) -> int:
        """0 passed, 1 failed, 3 inconclusive."""
        return _EXIT_CODES[self.status]

    @property
    def visible_outcomes(self) -> list[GateOutcome]:
        """The outcomes to show: all written gates, and implied ones that did not pass."""
        return [one for one in self.outcomes if not one.implied or one.status != "passed"]

    @property
    def warnings(self) -> list[str]:
        """The distinct warnings."""
        return list(dict.fromkeys(one.warning for one in self.outcomes if one.warning is not None))

    @property
    def headline(self) -> str:
        """``3 gates: 2 passed, 1 failed``."""
        counts = {status: sum(one.status == status for one in self.visible_outcomes) for status in _EXIT_CODES}
        summary = ", ".join(f"{n} {status}" for status, n in counts.items() if n)
        n = len(self.visible_outcomes)
        return f"{n} gate{'s' * (n != 1)}: {summary}" if n else "no gates"

    def to_dict(self) -> dict[str, Any]:
        """The report as a JSON-compatible dictionary (schema 1)."""
        return {
            "schema": SCHEMA,
            "run_id": self.run_id,
            "against": self.against,
            "status": self.status,
            "gates": [asdict(one) for one in self.outcomes],
        }

    def to_json(self, *, indent: int | None = 2) -> str:
        """The report as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)


# --- blocks: a table for a terminal, Markdown and the report; Markdown is also appended to ``$GITHUB_STEP_SUMMARY`` ---

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
_TONES: dict[GateStatus, Tone] = {"passed": "good", "failed": "bad", "inconclusive": "open"}
_SIGNS: dict[GateStatus, str] = {"passed": "✓", "failed": "✗", "inconclusive": "?"}


def gates_blocks(report: GateReport, *, warnings: bool = True) -> list[Block]:
    """A row per gate, the warnings if wanted, and the counts; implied gates only where they did not pass."""
    rows: list[Row] = [
        [Cell(one.status, tone=_TONES[one.status], sign=_SIGNS[one.status]), one.gate, one.reason]
        for one in report.visible_outcomes
    ]
    blocks: list[Block] = [simple_table([TableColumn("outcome", brief=True), "gate", "because"], rows)] if rows else []
    blocks += [Prose(f"Warning: {one}", "open") for one in report.warnings if warnings]
    against = f", compared with {report.against}" if report.against is not None else ""
    return [*blocks, Prose(report.headline + against)]


def gates_table(report: GateReport) -> str:
    """The gates for a terminal, without warnings, which are printed as such."""
    return blocks_text(gates_blocks(report, warnings=False))


def gates_markdown(report: GateReport, *, heading: str | None = None) -> str:
    """The gates as Markdown. Gates and names are escaped."""
    blocks = gates_blocks(report)
    return blocks_markdown(blocks if heading is None else [Details(heading, blocks)])


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


# --- JUnit XML: a test case per gate, for CI services ----------------------------------------------------------------

# Characters that XML 1.0 does not allow, not even escaped.
_INVALID = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(report: GateReport, *, name: str) -> str:
    """The report as JUnit XML. A failed gate is a failure; an inconclusive one is an error, not a skip.

    Nearly every CI service shows a skipped test as green, and an inconclusive gate is not a pass.
    """
    outcomes = report.outcomes
    counts = {
        "tests": str(len(outcomes)),
        "failures": str(sum(one.status == "failed" for one in outcomes)),
        "errors": str(sum(one.status == "inconclusive" for one in outcomes)),
        "skipped": "0",
    }
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": _clean(name), **counts})
    about = {"run_id": report.run_id, "against": report.against}
    if any(about.values()):
        properties = ElementTree.SubElement(suite, "properties")
        for key, value in about.items():
            if value is not None:
                ElementTree.SubElement(properties, "property", {"name": key, "value": _clean(value)})
    for one in outcomes:
        case = ElementTree.SubElement(suite, "testcase", {"classname": "auepora.gates", "name": _clean(one.gate)})
        reason = _clean(one.reason)
        if one.status == "passed":
            ElementTree.SubElement(case, "system-out").text = reason
        else:
            tag = "failure" if one.status == "failed" else "error"
            ElementTree.SubElement(case, tag, {"message": reason, "type": one.status}).text = reason
        if one.warning is not None:
            ElementTree.SubElement(case, "system-err").text = _clean(one.warning)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode")


def _clean(text: str) -> str:
    return _INVALID.sub("", text)
