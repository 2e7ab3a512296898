"""The console: messages on stderr, ``--quiet``, closed pipes, signals and Ctrl-C."""

from __future__ import annotations

import io
import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TYPE_CHECKING, Any

import click

from ..errors import AueporaWarning
from ..render.terminal import clear, is_quiet, printable, silenced
from ..runtime.signals import handle_signals

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from ..systems.calls import Stop


def _set_quiet(context: click.Context, parameter: click.Parameter, quiet: bool) -> None:
    if quiet:
        context.with_resource(silenced())
        context.with_resource(warnings.catch_warnings())
        warnings.simplefilter("ignore", AueporaWarning)


quiet_option = click.option(
    "-q",
    "--quiet",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_set_quiet,
    help="Show neither progress nor messages.",
)


def echo(text: str) -> None:
    """Print to stdout what neither a terminal nor the log of a CI service executes."""
    click.echo(printable(text))


def json_text(document: Any) -> str:
    """A document as indented JSON, in which letters are not escaped."""
    return json.dumps(document, indent=2, ensure_ascii=False)


def echo_err(*messages: str, always: bool = False) -> None:
    """Print messages to stderr, unless ``--quiet`` is given; a closed stderr is ignored.

    With ``always`` they are printed even with ``--quiet``; use that for errors.
    """
    for message in messages:
        if is_quiet() and not always:
            return
        clear()
        with suppress(OSError):
            click.echo(printable(message), err=True)


# --- standard output that ignores a closed pipe, as with ``head`` and ``less`` ---------------------------------------


class _PipeWriter(io.FileIO):
    """Writes to a file descriptor; after the pipe is closed, output is discarded."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            discard = os.open(os.devnull, os.O_WRONLY)
            os.dup2(discard, self.fileno())
            os.close(discard)
            return memoryview(data).nbytes


@contextmanager
def ignore_closed_pipe() -> Iterator[None]:
    """Let a command finish when the reader of stdout closes the pipe: its files and exit code do not change."""
    original = sys.stdout
    if not isinstance(original, io.TextIOWrapper) or original is not sys.__stdout__:
        yield  # an in-memory stream, or closed
        return
    original.flush()
    writer = io.BufferedWriter(_PipeWriter(original.fileno(), "wb", closefd=False))
    stdout = io.TextIOWrapper(
        writer,
        encoding=original.encoding,
        errors=original.errors,
        newline="\n" if os.linesep == "\n" else None,
        line_buffering=original.line_buffering or original.write_through,
    )
    sys.stdout = stdout
    try:
        yield
    finally:
        sys.stdout = original
        with suppress(OSError, ValueError):
            stdout.flush()


# --- signals and Ctrl-C, and redirection of what the user's system prints --------------------------------------------


@contextmanager
def stop_on_signals(stop: Stop) -> Iterator[None]:
    """Let the first Ctrl-C (or SIGTERM, SIGHUP) wait for calls in flight; the second one stops at once.

    While no system is called, such as while a plan is read or outputs are scored, the first one stops at once.
    """

    def handle(number: int) -> None:
        if not stop.listening:
            raise KeyboardInterrupt
        if stop.finishing:
            stop.now()
            return
        # os.write, because the interrupted code may hold the lock of the stream.
        with suppress(OSError):
            os.write(2, b"\nFinishing the calls in flight; Ctrl-C again stops at once.\n")
        stop.finish()

    with handle_signals(handle):
        yield


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Send what the user's system prints to stderr, subprocesses included: stdout is for results."""
    with redirect_stdout(sys.stderr):
        try:
            own = sys.__stdout__ is not None and sys.__stdout__.fileno() == 1
        except (OSError, ValueError):
            own = False
        if not own:
            yield
            return
        assert sys.__stdout__ is not None
        sys.__stdout__.flush()
        kept = os.dup(1)
        try:
            os.dup2(2, 1)
            yield
        finally:
            sys.__stdout__.flush()
            os.dup2(kept, 1)
            os.close(kept)
