"""A real terminal for tests: a shell within tmux, with keyboard input and the visible screen."""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from helpers.requirements import REPO, need_program

PATIENCE = 60.0
"""Seconds until what is waited for is given up; only a failing test waits so long."""
_SHELL = "env 'PS1=ready> ' bash --norc --noprofile"  # given here, since a shell that is not talked to drops it
COMMAND = f"{shlex.quote(sys.executable)} -m auepora_eval"


class Tmux:
    """A shell in a window of tmux."""

    def __init__(self, socket: str, folder: Path) -> None:
        self._tmux = ["tmux", "-S", socket, "-f", os.devnull, "-u"]
        self._folder = folder

    def start(self, width: int = 80, height: int = 24) -> None:
        environment = {
            **{name: value for name, value in os.environ.items() if name not in ("TMUX", "AUEPORA_STORE")},
            "LC_ALL": "C.UTF-8",
            "PYTHONPATH": str(REPO / "src"),
        }
        size = ["-x", str(width), "-y", str(height)]
        subprocess.run(
            [*self._tmux, "new-session", "-d", "-s", "test", *size, "-c", str(self._folder), _SHELL],
            env=environment,
            check=True,
        )
        self.wait("ready>")

    def kill(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True)

    def _ask(self, *arguments: str) -> str:
        return subprocess.run([*self._tmux, *arguments], check=True, capture_output=True, text=True).stdout

    def run(self, command: str) -> None:
        """Type a command into the shell."""
        self.type(command)
        self.press("Enter")

    def type(self, text: str) -> None:
        self._ask("send-keys", "-t", "test", "-l", "--", text)

    def press(self, *keys: str) -> None:
        self._ask("send-keys", "-t", "test", *keys)

    def paste(self, text: str) -> None:
        self._ask("set-buffer", "--", text)
        self._ask("paste-buffer", "-p", "-t", "test")

    def resize(self, width: int, height: int) -> None:
        self._ask("resize-window", "-t", "test", "-x", str(width), "-y", str(height))

    def screen(self) -> str:
        return self._ask("capture-pane", "-p", "-t", "test")

    def variable_value(self, variable: str) -> str:
        return self._ask("display-message", "-p", "-t", "test", f"#{{{variable}}}").strip()

    def wait(self, text: str | Callable[[str], bool]) -> str:
        """The screen, as soon as it shows this."""
        return waited(self.screen, (lambda seen: text in seen) if isinstance(text, str) else text, f"{text!r}")


def waited(look: Callable[[], str], is_there: Callable[[str], bool], what: str) -> str:
    """What is seen, as soon as it is what is waited for."""
    end = time.monotonic() + PATIENCE
    while True:
        seen = look()
        if is_there(seen):
            return seen
        assert time.monotonic() < end, f"waited for {what} and saw:\n{seen}"
        time.sleep(0.02)


@contextmanager
def tmux_shell(folder: Path, width: int = 80, height: int = 24) -> Iterator[Tmux]:
    """A shell in that folder."""
    need_program("tmux")
    place = tempfile.mkdtemp(prefix="tmux")  # the path of a socket must be short
    shell = Tmux(f"{place}/s", folder)
    try:
        shell.start(width, height)
        yield shell
    finally:
        shell.kill()
        shutil.rmtree(place, ignore_errors=True)
