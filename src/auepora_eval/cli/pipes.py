"""Standard output whose reader may leave early, as ``head`` and ``less`` do, without an error."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["ignore_closed_pipe"]


class _PipeWriter(io.FileIO):
    """Writes to a file descriptor; once nobody reads from it any more, what is written is discarded."""

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
    """While inside, a command goes on to its end when the reader of stdout leaves: its files and exit code stand."""
    given = sys.stdout
    if not isinstance(given, io.TextIOWrapper) or given is not sys.__stdout__:
        yield  # something in memory, or closed
        return
    given.flush()
    writer = io.BufferedWriter(_PipeWriter(given.fileno(), "wb", closefd=False))
    stdout = io.TextIOWrapper(
        writer,
        encoding=given.encoding,
        errors=given.errors,
        newline="\n" if os.linesep == "\n" else None,
        line_buffering=given.line_buffering or given.write_through,
    )
    sys.stdout = stdout
    try:
        yield
    finally:
        sys.stdout = given
        with suppress(OSError, ValueError):
            stdout.flush()
