"""Zstandard files as byte streams. Unlike the reader of ``zstandard``, this one detects truncated files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import IO, Any, cast

__all__ = ["ZstdDamagedError", "zstd_reader", "zstd_writer"]

_CHUNK = 1 << 17


class ZstdDamagedError(Exception):
    """The data is not valid Zstandard."""


def zstd_reader(path: Path) -> IO[bytes]:
    """Open a file for reading the decompressed content of all frames."""
    return cast(IO[bytes], io.BufferedReader(_ZstdReader(path.open("rb")), _CHUNK))


def zstd_writer(raw: IO[bytes]) -> IO[bytes]:
    """Return a stream that writes compressed data to ``raw``; closing it leaves ``raw`` open."""
    import zstandard

    return cast(IO[bytes], zstandard.ZstdCompressor(level=9).stream_writer(raw, closefd=False))


class _ZstdReader(io.RawIOBase):
    def __init__(self, raw: IO[bytes]) -> None:
        import zstandard

        self._error = zstandard.ZstdError
        self._new = zstandard.ZstdDecompressor().decompressobj
        self._raw = raw
        self._frame: Any = None
        self._ready = b""
        self._unread = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            data = self._unread or self._raw.read(_CHUNK)
            self._unread = b""
            if not data:
                if self._frame is not None:
                    raise EOFError("the last frame is not complete")
                return 0
            self._frame = self._frame or self._new()
            try:
                self._ready = self._frame.decompress(data)
            except self._error as error:
                raise ZstdDamagedError(str(error)) from error
            if self._frame.eof:
                self._unread, self._frame = self._frame.unused_data, None
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()
