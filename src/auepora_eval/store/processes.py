"""The process of a run, and whether it is alive."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

__all__ = ["is_alive", "this_process"]

_PROCESS = re.compile(r"(?P<host>.*?):(?P<pid>\d+)(?::(?P<started>\d+))?")
_ENDED_STATES = ("Z", "X")  # ended, but not yet reaped


def this_process() -> str:
    """Return ``host:pid:start`` of this process; ``host:pid`` if the start time is not available."""
    name = f"{socket.gethostname()}:{os.getpid()}"
    found = _process_state(os.getpid())
    return name if found is None else f"{name}:{found[1]}"


def is_alive(process: str | None) -> bool:
    """Whether this is another process that runs on this machine.

    Process ids are reused, so the start time is compared too, if it is known.
    """
    known = _PROCESS.fullmatch(process or "")
    if known is None or known["host"] != socket.gethostname() or int(known["pid"]) == os.getpid():
        return False
    found = _process_state(int(known["pid"]))
    if found is None:
        return _pid_exists(int(known["pid"]))
    state, started = found
    return state not in _ENDED_STATES and known["started"] in (None, started)


def _process_state(pid: int) -> tuple[str, str] | None:
    """Return the state and the start time (in ticks since boot) of a process; ``None`` if unavailable."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # preceded by the program name, which may contain any character
    return (fields[0], fields[19]) if len(fields) > 19 else None


def _pid_exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it exists and belongs to another user
        return True
    return True
