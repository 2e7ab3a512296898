"""Ids of runs and results, and times in UTC."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from datetime import UTC, datetime

__all__ = ["RUN_PREFIX", "from_iso", "new_run_id", "score_key", "to_iso", "utc_now"]

RUN_PREFIX = "run_"
_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's: without I, L, O and U
_RANDOM_BITS = 80


class _Ulids:
    """Generator of ULIDs: 128-bit integers that begin with a timestamp and increase within a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self._process = 0

    def next(self) -> int:
        with self._lock:
            if self._process != os.getpid():  # a forked process must not continue the sequence of its parent
                self._process, self._last = os.getpid(), 0
            fresh = (time.time_ns() // 1_000_000 << _RANDOM_BITS) | int.from_bytes(os.urandom(_RANDOM_BITS // 8), "big")
            self._last = max(fresh, self._last + 1)
            return self._last


_ULIDS = _Ulids()


def new_run_id() -> str:
    """Return a new id: ``run_`` and a ULID of 26 characters, which sort by time."""
    number = _ULIDS.next()
    return RUN_PREFIX + "".join(_DIGITS[number >> shift & 31] for shift in range(125, -1, -5))


def score_key(name: str, signature: str) -> str:
    """Return the key of a result within its run: a hash of name and signature. Stores contain it: never change it."""
    # Length prefixes make the pairs unambiguous.
    text = f"{len(name)}:{name}{len(signature)}:{signature}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def to_iso(moment: datetime) -> str:
    """Format a time with a fixed width, so that strings sort as times."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def from_iso(text: str) -> datetime:
    """Parse a time of ``to_iso``."""
    return datetime.fromisoformat(text)
