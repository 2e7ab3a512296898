"""Transfer of bytes to another process: small ones go through the pipe, large ones through a file in shared memory.

A pipe has a small buffer, so that reader and writer of megabytes wait for each other again and again. A file is
written and read in one go.
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
"""From this size on a file is used."""
_SHM = Path("/dev/shm")  # noqa: S108 -- where Linux keeps files in memory; ours have a folder of their own there
_MIN_FREE_BYTES = 1 << 30
"""Required free space; in a small container there is less, and the temporary folder is used."""


@dataclass(frozen=True, slots=True)
class SpilledBytes:
    """The file that contains the bytes."""

    path: str


class SharedMemoryTransfer:
    """A private folder for bytes in transfer, removed on exit."""

    def __init__(self, name: str | None = None) -> None:
        """``name`` is the name of the folder; by default a new one."""
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
        """What to send through the pipe: the bytes, or the file that contains them."""
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
        except OSError:  # no space or no permission: use the pipe
            with suppress(OSError):
                os.unlink(path)
            return data
        return SpilledBytes(path)


def new_folder_name() -> str:
    """A unique folder name that contains the process id."""
    return f"auepora-{os.getpid()}-{secrets.token_hex(8)}"


def possible_folders(name: str) -> list[Path]:
    """The possible locations of the folder of that name."""
    return [_SHM / name, Path(tempfile.gettempdir()) / name]


def load(sent: bytes | SpilledBytes) -> bytes:
    """The bytes in the receiving process; a file is removed after reading."""
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
