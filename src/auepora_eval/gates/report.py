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
from ..render.markdown import escape_markdown
from ..render.tables import table

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


# --- plain table and Markdown, also appended to ``$GITHUB_STEP_SUMMARY`` ---------------------------------------------

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
