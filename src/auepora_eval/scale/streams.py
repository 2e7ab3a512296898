"""Compressed files, read sequentially: a stream continues where the previous range ended."""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import IO, Protocol

from ..runtime.files import open_bytes

_MOST = 8
"""How many streams a process keeps open: samples, outputs, and bases that come before their variants."""
BLOCK = 1 << 24
"""How many bytes are read at once."""


class StreamedFile(Protocol):
    """A file with its state when it was described."""

    @property
    def full_path(self) -> Path:
        """Its path, whatever the current folder is."""


@dataclass(slots=True)
class _Stream:
    described: StreamedFile
    file: IO[bytes]
    closing: ExitStack
    at: int = 0


_streams: list[_Stream] = []
"""Of this process; the one used last is the last."""
_lock = Lock()


def read_decompressed(described: StreamedFile, start: int, stop: int) -> bytes:
    """The bytes of a range. A process decompresses what is before it once, not once for every range."""
    stream = _nearest(described, start)
    with ExitStack() as stack:  # until all went well: then errors have their names, and nothing stays open
        if stream is None:
            file = stack.enter_context(open_bytes(described.full_path))
            stream = _Stream(described, file, stack)
        else:
            stack.push(stream.closing)
        while stream.at < start and (passed := len(stream.file.read(min(start - stream.at, BLOCK)))):
            stream.at += passed
        data = stream.file.read(stop - start)
        stream.at += len(data)
        stream.closing = stack.pop_all()
    _keep_open(stream)
    return data


def _nearest(described: StreamedFile, start: int) -> _Stream | None:
    """The stream of a file closest before ``start``, removed from the pool while in use."""
    with _lock:
        fit = [stream for stream in _streams if stream.at <= start and stream.described == described]
        if not fit:
            return None
        best = max(fit, key=lambda stream: stream.at)
        _streams.remove(best)
        return best


def _keep_open(stream: _Stream) -> None:
    with _lock:
        _streams.append(stream)
        gone = [_streams.pop(0) for _ in range(len(_streams) - _MOST)]
    for oldest in gone:
        oldest.closing.close()


def close_streams() -> None:
    """Close all streams of this process."""
    with _lock:
        gone = [*_streams]
        _streams.clear()
    for stream in gone:
        stream.closing.close()


atexit.register(close_streams)
