"""Which process makes a run, and whether it still lives."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

__all__ = ["is_alive", "this_process"]

_PROCESS = re.compile(r"(?P<host>.*?):(?P<pid>\d+)(?::(?P<started>\d+))?")
_ENDED_STATES = ("Z", "X")  # has ended, and nobody has asked yet how


def this_process() -> str:
    """``host:pid:start`` of this process; ``host:pid`` where the system does not tell when a process began."""
    name = f"{socket.gethostname()}:{os.getpid()}"
    facts = _process_state(os.getpid())
    return name if facts is None else f"{name}:{facts[1]}"


def is_alive(process: str | None) -> bool:
    """Whether that is another process than this one, and runs on this machine.

    A number is given again once a process has ended; when a process began tells it from one that had its number before.
    Of a process that is known by its number alone, the number must do.
    """
    known = _PROCESS.fullmatch(process or "")
    if known is None or known["host"] != socket.gethostname() or int(known["pid"]) == os.getpid():
        return False
    facts = _process_state(int(known["pid"]))
    if facts is None:
        return _pid_exists(int(known["pid"]))
    state, started = facts
    return state not in _ENDED_STATES and known["started"] in (None, started)


def _process_state(pid: int) -> tuple[str, str] | None:
    """How a process stands and when it began, in ticks since the machine was started; ``None`` where nobody tells."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # before it stands the name of the program, which may hold anything
    return (fields[0], fields[19]) if len(fields) > 19 else None


def _pid_exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it is there and somebody else's
        return True
    return True
