"""Messages for errors of database drivers, with advice."""

from __future__ import annotations

import sqlite3

from ..core.secrets import Secrets
from ..core.sqlite_files import sqlite_error_message

__all__ = ["driver_error_message"]

_CONNECTION_ERRORS = ("OperationalError", "InterfaceError")
"""Errors of a driver that cannot reach the server; other errors without a code concern the arguments."""


def driver_error_message(error: BaseException, *, timeout: float, secrets: Secrets) -> str:
    """Return the problem as one clause, without secrets."""
    message = secrets.text(" ".join(str(error).split()))
    if isinstance(error, sqlite3.Error):
        return sqlite_error_message(message, timeout)
    return _postgresql_message(error, message, timeout)


def _postgresql_message(error: BaseException, message: str, timeout: float) -> str:
    state = str(getattr(error, "sqlstate", None) or "")
    if state == "55P03":
        return f"is locked by another process (waited {timeout:g} s); nothing was written, repeat it later"
    if state.startswith("28") or "password authentication failed" in message or "no password supplied" in message:
        return f"rejected the login: check user and password ({message})"
    if state == "3D000" or ("database" in message and "does not exist" in message):
        return f"does not exist: create the database first ({message})"
    if state in ("53100", "53200"):
        return f"cannot grow: the server is out of space; what was stored before is safe ({message})"
    if state == "25006":
        return "is read-only: nothing can be written to it"
    if state == "42501":
        return f"denied permission: grant the user the right to create and write tables ({message})"
    unreachable = not state and any(kind.__name__ in _CONNECTION_ERRORS for kind in type(error).__mro__)
    if unreachable or state.startswith(("08", "57P")):
        return f"cannot be reached: is the server running? What was stored before is safe ({message})"
    return f"cannot be used: {message}"
