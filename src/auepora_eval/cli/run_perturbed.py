"""``auepora run --perturb``: run the system of a plan at each rate, and print the curve."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from .console import echo_err
from .run_progress import INTERRUPTED, STOPPED_EARLY, RunProgress, resume_options, run_failure

if TYPE_CHECKING:
    from ..reporting.curve import Curve
    from ..running.perturbed import PerturbedRuns

__all__ = ["run_sweep"]

_SINGLE_RUN_OPTIONS = {"run_name": "--run", "against": "--against", "junit": "--junit", "per_query": "--per-query"}
"""Options that apply to a single run."""


def run_sweep(
    plan: str, perturb: tuple[str, ...], corpus: str | None, changes: Mapping[str, Any], form: str, output: str | None
) -> None:
    """Run the plan at each rate, print the curve, and exit with its exit code."""
    from ..calling.stop import Stop
    from ..perturb.kinds import Sweep
    from ..running.perturbed import run_perturbed
    from .interrupts import stdout_to_stderr, stop_on_signals
    from .output import refuse_input_as_output, write_out

    params = click.get_current_context().params
    _refuse_single_run_options(params, perturb, form)
    sweep = Sweep.parse(perturb[0])
    if corpus is not None and "noise" not in sweep.perturbs:
        raise click.UsageError(f"--perturb-corpus goes with noise, and {sweep} uses none: leave it out")
    refuse_input_as_output(output, [] if corpus is None else [corpus])
    stop, progress = Stop(), RunProgress()
    try:
        with progress, stdout_to_stderr(), stop_on_signals(stop):
            runs = run_perturbed(
                plan,
                sweep,
                corpus=corpus,
                store=params["store"],
                changes=changes,
                limit=params["limit"],
                tags=params["tags"],
                resume=params["resume"],
                retry_failed=params["retry_failed"],
                stop=stop,
                watcher=progress.callbacks(),
            )
    except KeyboardInterrupt:
        if progress.run_id is not None:
            echo_err(f"To resume: {_sweep_resume_command(plan, sweep, corpus)}", always=True)
        raise
    if runs.curve is None:
        _report_early_end(runs, _sweep_resume_command(plan, sweep, corpus))
    else:
        write_out(_curve_document(runs.curve, form), output)
        _finish_sweep(runs)


def _refuse_single_run_options(params: Mapping[str, Any], perturb: tuple[str, ...], form: str) -> None:
    if not perturb:
        raise click.UsageError("--perturb-corpus goes with --perturb")
    if len(perturb) > 1:
        raise click.UsageError("give --perturb once: one curve at a time")
    for name, option in _SINGLE_RUN_OPTIONS.items():
        if params[name]:
            raise click.UsageError(f"{option} applies to one run, and --perturb makes several")
    if form == "csv":
        raise click.UsageError("curves cannot be written as CSV; write .json, .md or a table")


def _curve_document(curve: Curve, form: str) -> str:
    from ..reporting.curve import curve_markdown, curve_text

    if form == "json":
        return json.dumps(curve.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
    return curve_markdown(curve) if form == "markdown" else curve_text(curve)


def _finish_sweep(runs: PerturbedRuns) -> None:
    failed = {level: one.failed for level, one in runs.outcomes.items() if one.failed}
    for level, count in failed.items():
        echo_err(f"Warning: {runs.sweep.label(level)}: {count} of {runs.outcomes[level].asked} answers failed")
    names = ", ".join(one.record.run_id for one in runs.outcomes.values())
    echo_err(
        f"stored as {names}"
        + ("" if runs.together is None else f"; all arms together as {runs.together.record.run_id}")
    )
    found = {level: one.results for level, one in runs.outcomes.items() if one.results is not None}
    problems = {level: problem for level, results in found.items() if (problem := run_failure(results)) is not None}
    for level, problem in problems.items():
        echo_err(f"Error: {runs.sweep.label(level)}: {problem}", always=True)
    if problems:
        sys.exit(STOPPED_EARLY)


def _report_early_end(runs: PerturbedRuns, resume: str) -> None:
    last = runs.last
    message = last.message or last.record.message
    echo_err(f"{'Stopped' if last.ended == 'stopped' else 'Error'}: {last.record.name}: {message}", always=True)
    echo_err(f"To resume: {resume}", always=True)
    sys.exit(INTERRUPTED if last.ended == "stopped" else STOPPED_EARLY)


def _sweep_resume_command(plan: str, sweep: object, corpus: str | None) -> str:
    """The command that resumes this sweep."""
    more = [] if corpus is None else ["--perturb-corpus", corpus]
    again, note = resume_options()
    return note + shlex.join(["auepora", "run", plan, "--perturb", str(sweep), *more, "--resume", *again])
