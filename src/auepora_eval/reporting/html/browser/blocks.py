"""Compressed JSON blocks for the page, as base64; document texts are stored once."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Callable
from typing import Any

import msgspec

__all__ = ["MIME", "BlockWriter", "DocumentTexts", "compress_block", "json_bytes"]

MIME = "application/octet-stream;base64"
"""The type of a script element that a browser neither runs nor shows."""
_LEVEL = 4  # 3 % larger than the default 6, in two thirds of its time
_MAX_CACHED_CHARACTERS = 64_000_000
_GZIP = 31  # zlib's code for a 32 KiB window with a gzip header; it has no timestamp, so equal data gives equal text


def compress_block(data: bytes) -> str:
    """Compress bytes with gzip and encode them in base64."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return base64.b64encode(packer.compress(data) + packer.flush()).decode()


def json_bytes(value: Any) -> bytes:
    """A value as JSON; other types are written as strings, NaN as null."""
    try:
        return msgspec.json.encode(value, enc_hook=_plain)
    except (UnicodeEncodeError, TypeError, ValueError):  # lone surrogates, or keys that are not strings
        return json.dumps(_json_safe(value), default=_plain).encode()


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _json_safe(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _json_safe(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_safe(inner) for inner in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


class BlockWriter:
    """Writes values in blocks, limited by their number and their size in bytes.

    Each block is a JSON array under ``<prefix>-<number>``; ``starts`` has the index of its first value.
    """

    def __init__(
        self, prefix: str, put: Callable[[str, str], None], *, most: int = 128, most_bytes: int = 262_144
    ) -> None:
        self._prefix, self._put = prefix, put
        self._most, self._most_bytes = most, most_bytes
        self._pending: list[bytes] = []
        self._bytes = 0
        self._first = 0
        self.starts: list[int] = []

    def __len__(self) -> int:
        return self._first + len(self._pending)

    def add(self, data: bytes) -> int:
        """Add a value that is JSON already; returns its number."""
        if self._pending and (len(self._pending) >= self._most or self._bytes + len(data) > self._most_bytes):
            self.flush()
        self._pending.append(data)
        self._bytes += len(data)
        return len(self) - 1

    def flush(self) -> None:
        """Write the pending values as a block."""
        if not self._pending:
            return
        self._put(f"{self._prefix}-{len(self.starts)}", compress_block(b"[" + b",".join(self._pending) + b"]"))
        self.starts.append(self._first)
        self._first += len(self._pending)
        self._pending, self._bytes = [], 0


class DocumentTexts:
    """Deduplicated document texts in blocks, in order of first use, so that neighbours stay together."""

    def __init__(self, blocks: BlockWriter) -> None:
        self._blocks = blocks
        self._numbers: dict[bytes, int] = {}
        self._recent: dict[str, int] = {}
        self._characters = 0

    def __call__(self, text: str) -> int:
        """The number of a text; -1 for the empty one."""
        if not text:
            return -1
        known = self._recent.get(text)
        if known is not None:
            return known
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._blocks.add(json_bytes(text))
        # Documents repeat, and a dictionary lookup is faster than hashing; the cache is bounded.
        self._characters += len(text)
        if self._characters > _MAX_CACHED_CHARACTERS:
            self._recent, self._characters = {}, len(text)
        self._recent[text] = number
        return number

    def __len__(self) -> int:
        return len(self._numbers)
