"""Bytes on their way to another process: few go through the pipe, many are laid down in a file and fetched there.

A pipe holds little at a time, so that whoever reads megabytes from it waits for whoever writes them, again and again,
while both have other work. A file is written and read in one go each.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

__all__ = ["SharedMemoryTransfer", "SpilledBytes", "load", "new_folder_name", "possible_folders"]

_SPILL_FROM_BYTES = 256 << 10
"""From so many bytes on a file is worth it."""
_SHM = Path("/dev/shm")  # noqa: S108 -- where Linux keeps files in memory; ours have a folder of their own there
_MIN_FREE_BYTES = 1 << 30
"""So much must be free there, as in a small container it is not; else it is the usual place for such files."""


@dataclass(frozen=True, slots=True)
class SpilledBytes:
    """Where bytes lie that were laid down."""

    path: str


class SharedMemoryTransfer:
    """A folder for what is under way, which is gone when everything has arrived; nobody else may read it."""

    def __init__(self, name: str | None = None) -> None:
        """``name`` is that of the folder; by default a new one."""
        self._name = name or new_folder_name()
        self._folder: Path | None = None
        self._count = 0

    def __enter__(self) -> SharedMemoryTransfer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def dump(self, data: bytes) -> bytes | SpilledBytes:
        """What goes through the pipe: the bytes, or where they lie."""
        if len(data) < _SPILL_FROM_BYTES:
            return data
        path = ""
        try:
            if self._folder is None:
                folder = (_shm_with_space() or Path(tempfile.gettempdir())) / self._name
                folder.mkdir(mode=0o700)
                self._folder = folder
            self._count += 1
            path = os.path.join(self._folder, str(self._count))
            with open(path, "xb") as file:
                file.write(data)
        except OSError:  # no room, no right: there is still the pipe
            with suppress(OSError):
                os.unlink(path)
            return data
        return SpilledBytes(path)


def new_folder_name() -> str:
    """The name of a folder that nobody has yet; it says which process has it."""
    return f"auepora-{os.getpid()}-{secrets.token_hex(8)}"


def possible_folders(name: str) -> list[Path]:
    """Where the folder of that name may be."""
    return [_SHM / name, Path(tempfile.gettempdir()) / name]


def load(sent: bytes | SpilledBytes) -> bytes:
    """The bytes, in the process that they were sent to; what lay in a file is removed from there."""
    if isinstance(sent, bytes):
        return sent
    with open(sent.path, "rb") as file:
        data = file.read()
    with suppress(OSError):
        os.unlink(sent.path)
    return data


def _shm_with_space() -> Path | None:
    with suppress(OSError):
        if _SHM.is_dir() and shutil.disk_usage(_SHM).free >= _MIN_FREE_BYTES and os.access(_SHM, os.W_OK):
            return _SHM
    return None
