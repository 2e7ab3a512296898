"""Output of gate reports, shared by ``auepora gate`` and ``auepora run``: JUnit XML and the step summary."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .console import echo_err

if TYPE_CHECKING:
    from ..gates.report import GateReport
    from ..store.records import RunRecord

__all__ = ["junit_option", "plan_files", "publish", "refuse_inputs_as_reports"]

junit_option = click.option(
    "--junit",
    type=click.Path(),
    metavar="FILE",
    help="Write the gates to this file as JUnit XML, one test case per gate.",
)


def plan_files(path: str, changes: Mapping[str, Any], store: str | None) -> list[str]:
    """The plan file itself and every file that the plan reads or writes."""
    from ..planfile.read import read_plan
    from ..running.plans import default_store

    plan = read_plan(path, changes=changes)
    sources = [one for one in (plan.dataset, plan.outputs) if one is not None]
    read = [str(file) for one in sources for file in (one.path, one.corpus, one.nuggets) if file is not None]
    return [path, *read, default_store(store, plan.store)]


def refuse_inputs_as_reports(inputs: Sequence[str], *, junit: str | None, output: str | None) -> None:
    """Raise if a gate report would overwrite an input or another report."""
    from ..gates.rendering import SUMMARY_VARIABLE
    from .output import refuse_input_as_output

    refuse_input_as_output(output, inputs)
    refuse_input_as_output(junit, inputs, option="--junit")
    refuse_input_as_output(os.environ.get(SUMMARY_VARIABLE) or None, inputs, option=f"${SUMMARY_VARIABLE}")
    if junit is not None and output is not None and os.path.realpath(junit) == os.path.realpath(output):
        raise click.UsageError(f"--junit {junit} is where {output} will be; write to another file")


def publish(report: GateReport, record: RunRecord, *, junit: str | None) -> None:
    """Print the warnings, write JUnit XML if requested, and append to ``$GITHUB_STEP_SUMMARY`` if it is set."""
    from ..core.errors import AueporaError
    from ..gates.rendering import append_step_summary

    for warning in report.warnings:
        echo_err(f"Warning: {warning}")
    if junit is not None:
        from ..gates.junit import junit_xml
        from ..io.files import write_lines

        write_lines(Path(junit), [junit_xml(report, name=f"auepora: {record.name}").encode()])
        echo_err(f"wrote {junit}")
    try:
        append_step_summary(report, heading=f"Gates of {record.name} ({record.run_id})")
    except AueporaError as error:  # a summary that cannot be written does not change the outcome
        echo_err(f"Warning: {error}")
