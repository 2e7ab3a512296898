"""Ids of runs and of their results, and the time in UTC."""

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
    """Numbers of 128 bits, milliseconds first, that only grow within a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self._process = 0

    def next(self) -> int:
        with self._lock:
            if self._process != os.getpid():  # a fork must not count on where its parent was
                self._process, self._last = os.getpid(), 0
            fresh = (time.time_ns() // 1_000_000 << _RANDOM_BITS) | int.from_bytes(os.urandom(_RANDOM_BITS // 8), "big")
            self._last = max(fresh, self._last + 1)
            return self._last


_ULIDS = _Ulids()


def new_run_id() -> str:
    """A fresh id: ``run_`` and 26 letters and digits that sort by time, later ones of this process always after."""
    number = _ULIDS.next()
    return RUN_PREFIX + "".join(_DIGITS[number >> shift & 31] for shift in range(125, -1, -5))


def score_key(name: str, signature: str) -> str:
    """What a result is known by within its run, however long its signature is. Never changes: stores hold it."""
    # A length before each, so that no two pairs read alike.
    text = f"{len(name)}:{name}{len(signature)}:{signature}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def utc_now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


def to_iso(moment: datetime) -> str:
    """A moment as text of one width, so that texts sort as moments do."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def from_iso(text: str) -> datetime:
    """The moment again."""
    return datetime.fromisoformat(text)
