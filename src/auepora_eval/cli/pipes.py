"""A standard output that ignores a closed pipe, as with ``head`` and ``less``."""

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
