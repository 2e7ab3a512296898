"""The files of a sharded input (a file, a directory or a glob), in natural order, with size and time of change."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..core.errors import BadValueError, DataFileError
from ..io.files import is_compressed, plain_suffix, read_head
from ..io.formats import Role
from ..io.load import resolve_format

__all__ = ["InputFile", "RecordRange", "RecordRanges", "can_be_split", "input_files", "is_sharded", "total_bytes"]

LINE_FORMATS = ("jsonl", "ragas", "deepeval")
"""Formats with a record on each line."""
SPLIT_FORMATS = (*LINE_FORMATS, "parquet")
"""Formats that can be split."""
_SUFFIXES = (".jsonl", ".ndjson", ".parquet", ".pq")
_WHOLE_SUFFIXES = (".csv", ".tsv", ".json")
"""Suffixes of files whose records are not one per line."""
_MAGIC = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class InputFile:
    """An input file, its format, and the size and time by which a change is detected."""

    path: str
    format: str
    size: int
    mtime: int
    """In nanoseconds."""
    folder: str = ""
    """The folder that a relative path starts from: workers may have another working directory."""

    @property
    def full_path(self) -> Path:
        """The absolute path, valid for all workers that share the file system."""
        return Path(self.folder, self.path)

    def require_unchanged(self) -> None:
        """Raise if the file has changed, since its ranges would be wrong."""
        try:
            now = os.stat(self.full_path)
        except OSError as error:
            raise DataFileError(self.path, None, f"cannot be read any more: {error.strerror or error}") from error
        if (now.st_size, now.st_mtime_ns) != (self.size, self.mtime):
            raise DataFileError(
                self.path, None, "has changed since it was split into ranges; start again with the file as it is now"
            )


@dataclass(frozen=True, slots=True)
class RecordRange:
    """A range of consecutive records of a file."""

    file: InputFile
    row: int
    """The first of them, counted from 0 over the records of the file."""
    count: int
    start: int = 0
    """For lines: the byte where the first begins, in the decompressed file."""
    stop: int = 0
    """The byte after the last."""
    line: int = 1
    """The number of the line that the first is on."""


@dataclass(frozen=True, slots=True)
class RecordRanges:
    """Several ranges, packed: a batch whose outputs are scattered has one range per sample."""

    files: tuple[InputFile, ...] = ()
    table: bytes = b""
    """For each range the number of its file and the fields of ``RecordRange``, as 64-bit integers."""

    @classmethod
    def of(cls, files: Sequence[InputFile], table: npt.NDArray[np.int64]) -> RecordRanges:
        """Ranges from a table with one row each; the first column is the number of a file."""
        used, numbers = np.unique(table[:, 0], return_inverse=True)
        own = np.column_stack([numbers, table[:, 1:]]).astype("<i8")
        return cls(tuple(files[number] for number in used.tolist()), own.tobytes())

    def __iter__(self) -> Iterator[RecordRange]:
        for number, *fields in self._rows().tolist():
            yield RecordRange(self.files[number], *fields)

    @property
    def count(self) -> int:
        """How many records they have together."""
        return int(self._rows()[:, 2].sum())

    def _rows(self) -> npt.NDArray[np.int64]:
        return np.frombuffer(self.table, dtype="<i8").reshape(-1, 6)


def is_sharded(path: str | Path) -> bool:
    """Whether this names several files: a directory of them, or a glob."""
    return os.path.isdir(path) or (not os.path.exists(path) and _MAGIC.search(str(path)) is not None)


def can_be_split(path: str | Path, role: Role, named: str | None = None) -> bool:
    """Whether a single file has a format that can be split into ranges."""
    name, suffix = resolve_format(Path(path), role, named).name, plain_suffix(Path(path))
    return (
        not is_compressed(Path(path)) if name == "parquet" else name in LINE_FORMATS and suffix not in _WHOLE_SUFFIXES
    )


def input_files(given: str | Path | Sequence[str | Path], role: Role, named: str | None = None) -> list[InputFile]:
    """The files of a path, a directory, a glob, or several of these, in natural order, all in one format."""
    listed = [given] if isinstance(given, (str, Path)) else list(given)
    paths = list(dict.fromkeys(path for one in listed for path in _paths(one)))
    files = [_describe_file(path, role, named) for path in paths]
    for one in files[1:]:
        if one.format != files[0].format:
            raise BadValueError(
                f"{files[0].path} is {files[0].format} and {one.path} is {one.format}: all {role} must be in one "
                "format; name those of one kind, as in 'folder/*.jsonl'"
            )
    return files


def _paths(given: str | Path) -> list[str]:
    text = str(given)
    if os.path.isdir(text):
        found = []
        for folder, below, names in os.walk(text):
            # Files that tools leave next to their parts: _temporary, .ipynb_checkpoints; _SUCCESS, .part-0.crc
            below[:] = [name for name in below if not name.startswith((".", "_"))]
            found += [
                os.path.join(folder, name)
                for name in names
                if plain_suffix(Path(name)) in _SUFFIXES and not name.startswith((".", "_"))
            ]
        if not found:
            raise DataFileError(text, None, f"no file in this directory ends in {', '.join(_SUFFIXES)}, .gz or .zst")
    elif not os.path.exists(text) and _MAGIC.search(text):
        found = [path for path in glob.glob(text, recursive=True) if os.path.isfile(path)]
        if not found:
            raise DataFileError(text, None, "no file matches")
    else:
        found = [text]
    return sorted(found, key=_natural)


def _natural(path: str) -> tuple[list[tuple[bool, int, str]], str]:
    """Numbers by size, so that part-2 comes before part-10."""
    parts = [part for part in re.split(r"(\d+)", path) if part]
    return [(not part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts], path


def _describe_file(path: str, role: Role, named: str | None) -> InputFile:
    try:
        seen = os.stat(path)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        raise DataFileError(path, None, "no such file" if missing else f"cannot be read: {error.strerror}") from error
    name = resolve_format(Path(path), role, named).name
    if named in LINE_FORMATS:
        read_head(Path(path))  # which says so where it is compressed under another name, or no UTF-8
    if name == "parquet" and is_compressed(Path(path)):
        raise DataFileError(
            path, None, "Parquet files compress what they hold themselves; leave out the '.gz' or '.zst'"
        )
    if name not in SPLIT_FORMATS:
        raise BadValueError(
            f"{path} is in the format '{name}', which is not split into ranges; 'auepora convert' makes JSONL or "
            "Parquet of it"
        )
    if name != "parquet" and plain_suffix(Path(path)) in _WHOLE_SUFFIXES:
        raise BadValueError(f"{path} cannot be split into ranges: only files with one JSON object per line can")
    return InputFile(path, name, seen.st_size, seen.st_mtime_ns, "" if os.path.isabs(path) else os.getcwd())


def total_bytes(files: Iterable[InputFile]) -> int:
    """The size of the files together, as stored."""
    return sum(one.size for one in dict.fromkeys(files))
