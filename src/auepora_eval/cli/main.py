"""The ``auepora`` command: a group whose commands are imported when they are called, and the exit codes."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, TextIO

import click

from .._version import __version__
from ..errors import AueporaError, AueporaWarning, did_you_mean
from ..runtime.signals import TerminationSignal, raise_on_signals
from .console import echo_err, ignore_closed_pipe

# --- a click group that imports each command when it is called -------------------------------------------------------


_MORE = "More commands"
"""The heading of commands that the help lists by name only."""


class LazyGroup(click.Group):
    """A group of commands: heading in the help -> name of the command -> (where it is, one-line help).

    A command is ``command`` in a module of this package, or ``module:name``. The table holds the help so that listing
    the commands imports none of them.
    """

    def __init__(self, *args: Any, table: Mapping[str, Mapping[str, tuple[str, str]]], **options: Any) -> None:
        super().__init__(*args, **options)
        self.table = table
        self.modules = {name: module for group in table.values() for name, (module, _) in group.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, sorted."""
        return sorted(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        if cmd_name not in self.modules:
            return None
        module, _, name = self.modules[cmd_name].partition(":")
        command = getattr(import_module(f".{module}", __package__), name or "command")
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands into the help, under their headings."""
        shown = {heading: group for heading, group in self.table.items() if heading != _MORE}
        width = max(len(name) for group in shown.values() for name in group)
        for heading, group in shown.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, (_, text) in group.items()])
        if _MORE in self.table:
            with formatter.section(_MORE):
                formatter.write_text(", ".join(sorted(self.table[_MORE])))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown name is an error that suggests a similar one."""
        if args and args[0] not in self.modules and not args[0].startswith("-"):
            ctx.fail(f"no such command '{args[0]}'{did_you_mean(args[0], self.modules)}")
        return super().resolve_command(ctx, args)


# --- the commands, and the exit codes --------------------------------------------------------------------------------

# Heading in the help -> name -> (module, or module:name of the command; one-line help).
COMMANDS = {
    "Start": {
        "demo": ("start:demo_command", "Evaluate two small systems on a bundled question set."),
        "init": ("start:init_command", "Write a starter plan for a dataset."),
        "validate": ("data:validate_command", "Report every problem in data or a plan."),
        "targets": ("targets", "List what can be judged, and what a dataset has for it."),
        "metrics": ("metrics:metrics_command", "List the metrics, or explain one."),
        "help": ("help_topics", "Explain a topic, such as plans or verdicts."),
    },
    "Evaluate": {
        "score": ("score", "Score saved outputs, or a TREC run, in one pass."),
        "run": ("run", "Run a plan: call the system, store, score; or resume."),
        "sweep": ("sweep", "Run the configurations of a plan; say which to ship."),
        "rescore": ("rescore", "Compute metrics on stored outputs."),
        "bench": ("bench", "Run published benchmarks, with the numbers of their scripts."),
        "diagnose": ("diagnose", "Find which part of a system fails, by experiment."),
    },
    "Look at runs": {
        "runs": ("runs", "List the stored runs; tag or delete them."),
        "show": ("show", "Show a stored run, its failures or one sample."),
        "ui": ("ui", "Open the runs in the browser."),
        "report": ("report:report_command", "Write a report of stored runs as one HTML file."),
    },
    "Compare, judge, label": {
        "compare": ("compare", "Compare stored runs, with a verdict."),
        "gate": ("gate", "Check a stored run against gates."),
        "judge": ("judge", "Label data with a judge; compare it with human labels."),
        "label": ("label", "Label answers in the terminal; agreement, adjudication."),
    },
    _MORE: {
        "explain": ("show:explain_command", "Explain a stored value, or the score of one query."),
        "queries": ("show:queries_command", "List the queries of one or two runs, filtered and sorted."),
        "plan-size": ("plan_size", "Compute the questions, labels and calls of a comparison."),
        "samples": ("show:samples_command", "List the saved sets of samples, or show one."),
        "plot": ("report:plot_command", "Plot stored runs: scores, curves, differences, ..."),
        "export": ("report:export_command", "Write a stored run as plain files."),
        "verify": ("verify", "Recompute the results of a stored run."),
        "replay": ("diagnose:replay_command", "Split a difference into retrieval and generation."),
        "prefer": ("judge:prefer_command", "Compare the answers of two runs with a judge."),
        "pool": ("label:pool_command", "Pool the documents of several runs for grading."),
        "gold": ("gold:gold_command", "Correct wrong gold, with the effect on all runs first."),
        "convert": ("data:convert_command", "Convert samples or outputs to another format."),
        "perturb": ("perturb", "Write perturbed questions: typos, dropped words, ..."),
        "crosscheck": ("metrics:crosscheck_command", "Compare every metric with other implementations."),
        "completion": ("start:completion_command", "Print the completion script of a shell."),
    },
}

BAD_INPUT, INTERRUPTED = 2, 130
SIGNAL_EXIT_BASE = 128
"""A command ended by a signal exits with this plus the number of the signal, as in shells."""


class _OutputError(Exception):
    """Writing to stdout failed. Not an ``OSError``, because click turns a broken pipe into its own exit code."""


@contextmanager
def _wrap_output_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:  # files that are read or written raise DataFileError
        if error.filename is not None:
            raise
        raise _OutputError from error


class _MainGroup(LazyGroup):
    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _wrap_output_errors():  # --help prints here
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _wrap_output_errors():
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result


@click.group(
    cls=_MainGroup, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="auepora")
@click.option(
    "--max-line-size",
    metavar="SIZE",
    help="Largest line of a file, such as 256MB (default: 64MB).",
)
@click.option("--debug", is_flag=True, expose_value=False, help="Print tracebacks; also with AUEPORA_DEBUG=1.")
@click.pass_context
def cli(ctx: click.Context, max_line_size: str | None) -> None:
    """Evaluate RAG systems, and test whether a change made one better.

    \b
    auepora demo                             see it work
    auepora score data.jsonl outputs.jsonl   score everything the data supports
    auepora compare baseline latest          test whether a change made it better
    """
    if max_line_size is not None:
        from ..runtime.files import limit_line_size

        ctx.with_resource(limit_line_size(max_line_size))


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 fine, 1 a gate failed, 2 bad input, 3 failed or inconclusive, 4 unexpected.

    130 is an interrupt. Errors are printed without a traceback. A closed pipe on stdout changes neither the exit code
    nor the files that are written.
    """
    _escape_unencodable()
    with warnings.catch_warnings(), ignore_closed_pipe(), raise_on_signals():
        _show_warnings_plainly()
        sys.exit(_run(arguments))


def _run(arguments: list[str] | None) -> int:
    try:
        cli.main(args=arguments, prog_name="auepora", standalone_mode=False)
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        return BAD_INPUT
    except AueporaError as error:
        echo_err(f"Error: {error}", always=True)
        return BAD_INPUT
    except (click.Abort, KeyboardInterrupt) as error:
        ended_by = error.__cause__ if isinstance(error, click.Abort) else error  # click raises Abort from it
        if isinstance(ended_by, TerminationSignal):
            echo_err(f"Stopped by {ended_by}.", always=True)
            return SIGNAL_EXIT_BASE + ended_by.number
        echo_err("Interrupted.", always=True)
        return INTERRUPTED
    except _OutputError as failure:
        _discard_stdout()
        cause = failure.__cause__
        assert isinstance(cause, OSError)
        echo_err(f"Error: the output cannot be written: {cause.strerror or cause}", always=True)
        return BAD_INPUT
    except Exception as error:
        from .unexpected import report_unexpected

        return report_unexpected(error, arguments)
    return 0


def _discard_stdout() -> None:
    """Redirect stdout to the null device, so that the interpreter's last flush does not fail again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _escape_unencodable() -> None:
    """Print ``\\u2193`` for a character that the encoding of a stream (cp1252) lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _show_warnings_plainly() -> None:
    """Print warnings of this library as one line on stderr, without a source location."""
    default = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, AueporaWarning):
            echo_err(f"Warning: {message}", always=True)
        else:
            default(message, category, filename, lineno, file, line)

    warnings.showwarning = show
    warnings.simplefilter("always", AueporaWarning)
