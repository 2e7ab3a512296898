"""What commands that check gates share: where a report of them goes, besides the exit code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .saying import say

if TYPE_CHECKING:
    from ..gates.report import GateReport
    from ..store.records import RunRecord

__all__ = ["junit_option", "publish"]

junit_option = click.option(
    "--junit", type=click.Path(), metavar="FILE", help="Write the gates to this file as JUnit XML, a test case each."
)


def publish(report: GateReport, record: RunRecord, *, junit: str | None, quiet: bool = False) -> None:
    """Say what is worth a warning, write JUnit XML where asked, and append to ``$GITHUB_STEP_SUMMARY`` where set."""
    from ..core.errors import AueporaError
    from ..gates.tell import append_step_summary

    for warning in report.warnings:
        say(f"Warning: {warning}")
    if junit is not None:
        from ..gates.junit import junit_xml
        from ..io.files import write_lines

        write_lines(Path(junit), [junit_xml(report, name=f"auepora: {record.name}").encode()])
        if not quiet:
            say(f"wrote {junit}")
    try:
        append_step_summary(report, heading=f"Gates of {record.name} ({record.run_id})")
    except AueporaError as error:  # a page nobody could write must not change what the gates say
        say(f"Warning: {error}")
