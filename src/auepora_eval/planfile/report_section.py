"""The ``report`` key of a plan: the path of the report that is written after scoring."""

from __future__ import annotations

from pathlib import Path

from .findings import Findings
from .sections import path_problem, resolve_path

__all__ = ["report_section"]

SUFFIXES = (".html", ".htm", ".md", ".markdown")


def report_section(findings: Findings, folder: Path) -> tuple[Path | None, str | None]:
    """Read ``report``: the resolved path, and the path as written."""
    value = findings.source.values.get("report")
    if value is None:
        return None, None
    problem = path_problem(value)
    if problem is None and not str(value).lower().endswith(SUFFIXES):
        problem = f"a report is a page: name a file that ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
    if problem is not None:
        findings.add("report", problem)
        return None, None
    return resolve_path(str(value), folder), str(value)
