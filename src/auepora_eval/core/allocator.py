"""Freed memory kept by a process instead of handed back: batch after batch needs as much again."""

from __future__ import annotations

import sys

__all__ = ["disable_malloc_trim"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_THRESHOLD_BYTES = 1 << 30


def disable_malloc_trim() -> None:
    """Let this process keep what it frees, where its C library can be told so (glibc).

    By default the arrays of a batch go back to the system when the batch is done and come again page by page, zeroed,
    with the next: a tenth of the time of text metrics, and more where several processes ask at once. For processes
    of our own alone: how a user's process deals with its memory is not ours to decide.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries lack it
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _THRESHOLD_BYTES)
        mallopt(_TRIM_THRESHOLD, _THRESHOLD_BYTES)
