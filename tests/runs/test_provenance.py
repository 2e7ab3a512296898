"""Where a run comes from: the commit of the user's repository."""

import shutil
import subprocess
from pathlib import Path

from auepora_eval.runs.run import git_commit
from helpers.requirements import missing


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=me", "-c", "user.email=me@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_commit_and_uncommitted_changes(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        missing("git")
    assert git_commit(tmp_path) is None
    git(tmp_path, "init", "--quiet")
    assert git_commit(tmp_path) is None  # nothing was committed yet
    (tmp_path / "rag.py").write_text("a = 1\n")
    git(tmp_path, "add", "rag.py")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert git_commit(tmp_path) == commit
    (tmp_path / "notes.txt").write_text("not tracked")
    assert git_commit(tmp_path) == commit
    (tmp_path / "rag.py").write_text("a = 2\n")
    assert git_commit(tmp_path) == f"{commit}+changes"


def test_missing_folder_has_no_commit(tmp_path: Path) -> None:
    assert git_commit(tmp_path / "nowhere") is None
