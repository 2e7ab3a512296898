"""The ``auepora`` command: a group whose commands are loaded only when they are called."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

import click

from .._version import __version__
from .interrupts import TerminationSignal, raise_on_signals
from .lazy import LazyGroup
from .pipes import ignore_closed_pipe

__all__ = ["cli", "main"]

# Name -> (module, one-line help). The help stands here so that listing the commands imports none of them.
COMMANDS = {
    "compare": ("compare", "Hold stored runs against each other, with a verdict."),
    "completion": ("completion", "Print a script for the shell to complete commands."),
    "convert": ("convert", "Write samples or outputs in another format."),
    "crosscheck": ("crosscheck", "Compute every metric twice, and against other tools."),
    "demo": ("demo", "Evaluate two small systems on a bundled question set."),
    "explain": ("explain", "Explain a stored number, or derive it for one query."),
    "export": ("export", "Write a stored run as plain files."),
    "gate": ("gate", "Hold a stored run against what it must reach."),
    "init": ("init", "Write a starter plan for a dataset."),
    "judge": ("judge", "Ask a judge for what is not labelled; hold one against people."),
    "label": ("label", "Label answers in the terminal; agreement, adjudication."),
    "metrics": ("metrics", "List the metrics, or explain one."),
    "perturb": ("perturb", "Write variants of questions: typing errors, lost words, ..."),
    "plot": ("plot", "Draw stored runs: scores, curves, differences, ..."),
    "pool": ("pool", "Collect what several runs returned, to be graded."),
    "prefer": ("prefer", "Have a judge say whose answers are better."),
    "replay": ("replay", "Split a difference into retrieval and generation."),
    "report": ("report", "Write stored runs as one HTML file."),
    "rescore": ("rescore", "Compute other metrics on stored outputs."),
    "run": ("run", "Carry out a plan: ask, store, score; or resume one."),
    "runs": ("runs", "List the stored runs; tag or delete them."),
    "score": ("score", "Score saved outputs, or a TREC run, in one pass."),
    "show": ("show", "Show a stored run, its failures or one sample."),
    "validate": ("validate", "Say what is wrong with data or a plan, and what data is good for."),
}

BAD_INPUT, INTERRUPTED = 2, 130
SIGNAL_EXIT_BASE = 128
"""A command that a signal ends exits with this and the number of the signal, as shells have it."""


class _OutputError(Exception):
    """Writing to stdout failed. Not an ``OSError``: click would make an exit code of its own of a broken pipe."""


@contextmanager
def _wrap_output_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:  # files that are read or written raise DataFileError
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
def cli() -> None:
    """Tell how good a retrieval-augmented generation system is, and whether a change made it better.

    \b
    auepora demo                                    see it work
    auepora score data.jsonl outputs.jsonl          score everything the data supports
    auepora init data.jsonl --system my_app:build   write a plan; auepora run plan.yaml carries it out
    auepora runs; auepora show latest               what was stored
    auepora compare baseline latest                 did the change make it better?
    auepora report baseline latest                  the same as a page to look around in
    auepora explain latest ndcg@10 --query q17      how did this number come about?
    auepora score --qrels Q --run R -m ndcg@10      score a TREC run
    auepora metrics recall                          explain a metric
    auepora validate data.jsonl outputs.jsonl       say all that is wrong with data
    auepora convert data.json data.jsonl            write data in another format
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 fine, 1 a gate failed, 2 bad input, 3 failed or inconclusive, 130 interrupted.

    Mistakes of the user get no traceback. A reader of stdout that leaves early changes neither the exit code nor what
    is written to files.
    """
    import warnings

    _escape_unencodable()
    with warnings.catch_warnings(), ignore_closed_pipe(), raise_on_signals():
        _show_warnings_plainly()
        sys.exit(_run(arguments))


def _run(arguments: list[str] | None) -> int:
    from ..core.errors import AueporaError

    try:
        cli.main(args=arguments, prog_name="auepora", standalone_mode=False)
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        return BAD_INPUT
    except AueporaError as error:
        _echo_message(f"Error: {error}")
        return BAD_INPUT
    except (click.Abort, KeyboardInterrupt) as error:
        ended_by = error.__cause__ if isinstance(error, click.Abort) else error  # click makes one of the other
        if isinstance(ended_by, TerminationSignal):
            _echo_message(f"Stopped by {ended_by}.")
            return SIGNAL_EXIT_BASE + ended_by.number
        _echo_message("Interrupted.")
        return INTERRUPTED
    except _OutputError as failure:
        _discard_stdout()
        cause = failure.__cause__
        assert isinstance(cause, OSError)
        _echo_message(f"Error: the output cannot be written: {cause.strerror or cause}")
        return BAD_INPUT
    return 0


def _echo_message(message: str) -> None:
    from .console import echo_err  # most calls have nothing to say

    echo_err(message, always=True)


def _discard_stdout() -> None:
    """Point stdout elsewhere, so that the interpreter's last flush does not fail once more."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _escape_unencodable() -> None:
    """Let a terminal or file of a narrow encoding (cp1252) show ``\\u2193`` for what it cannot, rather than fail."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _show_warnings_plainly() -> None:
    """Print warnings of this library as one line on stderr, without a source location that means nothing to a user."""
    import warnings

    from ..core.errors import AueporaWarning

    usual = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, AueporaWarning):
            _echo_message(f"Warning: {message}")
        else:
            usual(message, category, filename, lineno, file, line)

    warnings.showwarning = show
    warnings.simplefilter("always", AueporaWarning)
