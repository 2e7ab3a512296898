"""Where a run comes from: the commit of the user's repository, and whether the process that made it still lives."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

__all__ = ["commit_of", "is_alive", "this_process"]

SECONDS = 5.0
"""A repository on a slow disk may take its time; nobody should wait longer for a note."""


def commit_of(folder: Path) -> str | None:
    """The commit a folder is at, with ``+changes`` where files differ from it; ``None`` outside a repository."""
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return None
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return f"{commit}+changes" if changed else commit


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603 -- the arguments are ours
            ["git", "-C", str(folder), *arguments],  # noqa: S607 -- the user's own git
            capture_output=True,
            timeout=SECONDS,
            check=False,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None


def this_process() -> str:
    """``host:pid`` of this process."""
    return f"{socket.gethostname()}:{os.getpid()}"


def is_alive(process: str | None) -> bool:
    """Whether the process of that ``host:pid`` is another one that runs on this machine."""
    host, _, pid = (process or "").rpartition(":")
    if not pid.isdigit() or host != socket.gethostname() or int(pid) == os.getpid():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is there and somebody else's
        return True
    return True
