"""Keeps freed memory in the process (glibc ``mallopt``): the next batch needs as much again."""

from __future__ import annotations

import sys

__all__ = ["disable_malloc_trim"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_THRESHOLD_BYTES = 1 << 30


def disable_malloc_trim() -> None:
    """Make this process keep the memory it frees, where the C library supports it (glibc).

    By default the arrays of a batch go back to the system and are mapped again, page by page and zeroed, for the next
    batch. That takes a tenth of the time of text metrics, and more with several processes. Call it only in worker
    processes: how a user's process manages its memory is not ours to decide.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries lack it
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _THRESHOLD_BYTES)
        mallopt(_TRIM_THRESHOLD, _THRESHOLD_BYTES)
