"""Data of a page in compressed blocks: JSON values, texts stored once, typed columns."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ...core.results import to_json_value
from ...store.records import plain_value

# --- compressed blocks of JSON, as base64; document texts are stored once --------------------------------------------

MIME = "application/octet-stream;base64"
"""The type of a script element that a browser neither runs nor shows."""
DataBlock = tuple[str, str, str]
"""Name, type and text of a block."""
_LEVEL = 4  # 3 % larger than the default 6, in two thirds of its time
_GZIP = 31  # zlib's code for a 32 KiB window with a gzip header; it has no timestamp, so equal data gives equal text


def compress_block(data: bytes) -> str:
    """Compress bytes with gzip and encode them in base64."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return base64.b64encode(packer.compress(data) + packer.flush()).decode()


def json_bytes(value: Any) -> bytes:
    """A value as JSON; other types are written as strings, NaN as null."""
    try:
        return msgspec.json.encode(value, enc_hook=plain_value)
    except (UnicodeEncodeError, TypeError, ValueError):  # lone surrogates, or keys that are not strings
        return json.dumps(to_json_value(value)).encode()


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

    def __call__(self, text: str) -> int:
        """The number of a text; -1 for the empty one."""
        if not text:
            return -1
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if key not in self._numbers:
            self._numbers[key] = self._blocks.add(json_bytes(text))
        return self._numbers[key]

    def __len__(self) -> int:
        return len(self._numbers)


# --- typed columns ---------------------------------------------------------------------------------------------------


class ColumnBuffer:
    """A byte buffer of columns; each is described by its type, offset and length."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def put(self, column: npt.NDArray[Any]) -> dict[str, Any]:
        """Append a column and return its description; floats with few distinct values become codes with a table."""
        if column.dtype == np.float64:
            values, codes = np.unique(column, return_inverse=True)
            if len(values) <= 0xFFFF and len(values) * 2 < max(len(column), 64):
                # NaN is last, and JSON has none: it is the code after the others.
                table = [value for value in values.tolist() if value == value]
                return {**self.put(compact_codes(codes.reshape(-1), len(values))), "table": table}
        kind = {"float64": "f8", "uint8": "u1", "uint16": "u2"}[column.dtype.name]
        data = np.ascontiguousarray(column, dtype=f"<{kind}").tobytes()
        data += b"\x00" * (-len(data) % 8)
        description = {"type": kind, "at": self._size, "count": len(column)}
        self._parts.append(data)
        self._size += len(data)
        return description

    def data(self) -> bytes:
        """The bytes of all columns."""
        return b"".join(self._parts)


def compact_codes(codes: npt.NDArray[Any], different: int) -> npt.NDArray[Any]:
    """Codes in the smallest type."""
    return codes.astype(np.uint8 if different <= 0x100 else np.uint16)
