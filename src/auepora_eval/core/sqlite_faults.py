"""What SQLite complains about, in words that say what to do."""

from __future__ import annotations

__all__ = ["sqlite_problem"]

_SQLITE: tuple[tuple[str, str], ...] = (
    ("file is not a database", "is not a store: the file is no SQLite database; name another file"),
    ("malformed", "is damaged: restore it from a copy, or save what `sqlite3 FILE .recover` still finds"),
    ("disk is full", "cannot grow: the disk is full; free some space and repeat, what was stored before is safe"),
    ("readonly", "is read-only: nothing can be written to it; copy it, or change its rights"),
    ("unable to open", "cannot be opened: check its folder, and the rights to read and write it"),
    ("disk i/o error", "cannot be read or written: the disk reports an error; check its space and its health"),
)


def sqlite_problem(message: str, timeout: float) -> str:
    """The problem as one clause, after a wait of ``timeout`` seconds."""
    lower = message.lower()
    if "locked" in lower or "busy" in lower:
        return (
            f"is locked by another process (waited {timeout:g} s); nothing was written, "
            "repeat it when the other is done"
        )
    for sign, told in _SQLITE:
        if sign in lower:
            return told
    return f"cannot be used: {message}"
