"""Process groups that end with this process, even where it is killed: a small shell process watches a pipe."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from threading import Lock

__all__ = ["GroupGuard"]

# Its input ends when the process that started it does. Groups that are left then have as long to leave by themselves,
# and once more after SIGTERM, as ``end_all`` gives them.
_SCRIPT = """
groups=
while read -r sign group; do
    left=
    for one in $groups; do [ "$one" = "$group" ] || left="$left $one"; done
    groups=$left
    [ "$sign" = + ] && groups="$groups $group"
done
for signal in TERM KILL; do
    [ -z "$groups" ] && exit
    sleep 2
    for one in $groups; do kill -$signal "-$one" 2>/dev/null; done
done
"""


class GroupGuard:
    """Ends the process groups that are registered with it when this process is gone, however it ended.

    It is started with the first group. Where there is no shell, groups are not watched.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._shell: subprocess.Popen[bytes] | None = None
        self._closed = False

    def add(self, group: int) -> None:
        """Watch a process group."""
        with self._lock, suppress(OSError):
            if self._shell is None and not self._closed:
                self._shell = subprocess.Popen(  # noqa: S603  a script of our own
                    ["/bin/sh", "-c", _SCRIPT],
                    cwd="/",
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    bufsize=0,
                    start_new_session=True,  # Ctrl-C in a terminal must not reach it
                )
            self._write("+", group)

    def discard(self, group: int) -> None:
        """Do not watch a process group any more: it was ended."""
        with self._lock, suppress(OSError):
            self._write("-", group)

    def close(self) -> None:
        """End the guard; groups that are still registered end with it."""
        with self._lock:
            self._closed = True
            if self._shell is None or self._shell.stdin is None:
                return
            with suppress(OSError):
                self._shell.stdin.close()
            self._shell.wait()
            self._shell = None

    def _write(self, sign: str, group: int) -> None:
        if self._shell is not None and self._shell.stdin is not None:
            self._shell.stdin.write(f"{sign} {group}\n".encode())
