"""The git commit of the user's repository, stored with a run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

TIMEOUT_S = 5.0
"""Timeout of a git command."""


def git_commit(folder: Path) -> str | None:
    """The commit of a folder, with ``+changes`` if files differ from it; ``None`` outside a repository."""
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
            timeout=TIMEOUT_S,
            check=False,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None
