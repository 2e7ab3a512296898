"""JSONL files: one sample, or one system output, per line; compressed if the suffix is ``.gz`` or ``.zst``. Journals.

A journal is an append-only JSONL file that several processes share.
"""

from __future__ import annotations

import codecs
import os
import time
import warnings
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import msgspec

from ..core.dataset import InMemoryDataset
from ..core.types import EvaluationSample, SystemOutputs
from ..errors import AueporaWarning, BadValueError, ConflictError, DataFileError, did_you_mean
from ..runtime.files import (
    append_durably,
    is_compressed,
    is_file_at,
    limit_message,
    locked_file,
    max_line_size,
    open_bytes,
    plain_stem,
    read_lines,
    read_part,
    sync_directory,
    translate_write_errors,
    write_lines,
)
from ..runtime.processes import gc_paused
from .codec import (
    OUTPUT_SHAPE,
    SAMPLE_SHAPE,
    CheckedOutputRow,
    CheckedSampleRow,
    LineError,
    decode_output_line,
    decode_sample,
    encode_output,
    encode_outputs,
    encode_sample,
    encode_samples,
)
from .formats import Format, Role, looks_like_jsonl, register_format
from .problems import (
    MISSING_RETRIEVED,
    ParsedOutput,
    ParsedSample,
    Problems,
    find_struct_problems,
    quote_text,
    type_name,
)
from .values import errors_at, parse_json, warn_repeated_keys

__all__ = [
    "OutputsFile",
    "gathered_outputs",
    "iter_outputs",
    "load_jsonl_dataset",
    "load_jsonl_outputs",
    "read_outputs",
    "read_samples",
    "save_jsonl_dataset",
    "save_jsonl_outputs",
]


@dataclass(frozen=True, slots=True)
class OutputsFile:
    """The outputs of a file, with a property of the whole file."""

    outputs: dict[str, SystemOutputs]
    """By sample id, in the order of the file."""
    answers_only: bool
    """Whether no line has ``retrieved`` although there are outputs: the system answers without retrieval."""
    numbered: list[ParsedOutput] = field(default_factory=list)
    """Those with a question, whose ids are the numbers of their rows."""


def read_samples(
    path: Path, problems: Problems, *, may_be_empty: bool = False, kept: dict[str, int] | None = None
) -> Iterator[ParsedSample]:
    """Yield the samples of a file. An empty file is a problem unless ``may_be_empty``.

    Unknown keys of a sample are problems, too, or go to its metadata and, with their first line, into ``kept``.
    """
    number = None
    for number, line in read_lines(path):
        warn_repeated_keys(path, number, line, problems)
        try:
            sample = decode_sample(line) if kept is None else _decode_with_unknown_keys(line, number, kept)
        except LineError as error:
            report_line_problems(path, number, line, "samples", first=str(error), problems=problems)
            continue
        if problems.is_new(path, sample.sample_id, number):
            yield ParsedSample(number, sample)
    if number is None and not may_be_empty:
        problems.add(path, None, "the file is empty; each line must be one sample")


def iter_outputs(path: Path, problems: Problems) -> Iterator[ParsedOutput]:
    """Yield the outputs of a file."""
    number = None
    for number, line in read_lines(path):
        warn_repeated_keys(path, number, line, problems)
        try:
            sample_id, output, has_retrieved = decode_output_line(line)
        except LineError as error:
            report_line_problems(path, number, line, "outputs", first=str(error), problems=problems)
            continue
        hint = "; put each repeat in a file of its own" if output.repeat else ""
        if problems.is_new(path, sample_id, number, hint=hint):
            yield ParsedOutput(number, sample_id, output, has_retrieved)
    if number is None:
        problems.add(path, None, "the file is empty; each line must be the output for one sample")


def load_jsonl_dataset(path: str | Path, name: str | None = None) -> InMemoryDataset:
    """Load the samples of a file, in its order; an empty file gives an empty dataset.

    The default ``name`` is the file name without its suffix. A key of a sample that is not known is kept in
    ``metadata``, with one warning per key.
    """
    path = Path(path)
    kept: dict[str, int] = {}
    with gc_paused():
        samples = [read.sample for read in read_samples(path, Problems(), may_be_empty=True, kept=kept)]
    for key, line in kept.items():
        hint = did_you_mean(key[:80], SAMPLE_SHAPE.keys[""])
        message = f"{path}:{line}: unknown field {quote_text(key)} is kept in the metadata{hint}"
        warnings.warn(message, AueporaWarning, stacklevel=2)
    return InMemoryDataset(plain_stem(path) if name is None else name, samples)


def _decode_with_unknown_keys(line: bytes, number: int, kept: dict[str, int]) -> EvaluationSample:
    """Decode a sample, with its unknown keys in the metadata; ``kept`` gets the first line of each key."""
    with suppress(LineError):
        return decode_sample(line)
    row = parse_json(line)
    unknown = sorted(row.keys() - SAMPLE_SHAPE.keys[""]) if isinstance(row, dict) else []
    metadata = row.setdefault("metadata", {}) if unknown else None
    if not isinstance(metadata, dict) or not metadata.keys().isdisjoint(unknown):
        return decode_sample(line)
    for key in unknown:
        metadata[key] = row.pop(key)
        kept.setdefault(key, number)
    return decode_sample(msgspec.json.encode(row))


def load_jsonl_outputs(path: str | Path) -> dict[str, SystemOutputs]:
    """Load the outputs of a file by sample id, in its order."""
    return read_outputs(path).outputs


def read_outputs(path: str | Path) -> OutputsFile:
    """Like ``load_jsonl_outputs``, with ``answers_only``."""
    path = Path(path)
    with gc_paused():
        return gathered_outputs(path, iter_outputs(path, Problems()), Problems())


def gathered_outputs(path: Path, outputs: Iterable[ParsedOutput], problems: Problems) -> OutputsFile:
    """Collect outputs by sample id.

    If some lines have ``retrieved``, a line without it (and without an error) is a mistake of the file: reading it as
    an empty ranking would count against the system.
    """
    by_id: dict[str, SystemOutputs] = {}
    numbered: list[ParsedOutput] = []
    with_ranking = False
    without: ParsedOutput | None = None
    for read in outputs:
        if read.output.error is None:  # a failed output need not have a ranking
            if read.has_retrieved:
                with_ranking = True
            elif without is None:
                without = read
        by_id[read.sample_id] = read.output
        if read.question is not None:
            numbered.append(read)
    if with_ranking and without is not None:
        problems.add(path, without.line, MISSING_RETRIEVED, record=without.record)
    return OutputsFile(by_id, answers_only=without is not None and not with_ranking, numbered=numbered)


def save_jsonl_dataset(samples: Iterable[EvaluationSample], path: str | Path) -> None:
    """Write a dataset, or samples, to a file, atomically."""
    write_lines(Path(path), encode_samples(samples, encode_sample))


def save_jsonl_outputs(
    outputs: Mapping[str, SystemOutputs] | Iterable[tuple[str, SystemOutputs]], path: str | Path
) -> None:
    """Write outputs, by sample id or as pairs of id and output, to a file, atomically."""
    pairs = outputs.items() if isinstance(outputs, Mapping) else outputs
    write_lines(Path(path), encode_outputs(pairs, encode_output))


FORMAT = register_format(
    Format(
        "jsonl",
        "our own: a sample, or an output, per line",
        looks_like_jsonl,
        read_samples=read_samples,
        read_outputs=iter_outputs,
        write_samples=save_jsonl_dataset,
        write_outputs=save_jsonl_outputs,
    )
)


# --- all problems of one line -----------------------------------------------------------------------------------------


def find_line_problems(line: bytes, role: Role, first: str) -> tuple[list[str], str | None]:
    """Return every problem of a line that could not be decoded, and its sample id where it can be read.

    ``first`` is the decoding error and always included.
    """
    row, shape = (CheckedSampleRow, SAMPLE_SHAPE) if role == "samples" else (CheckedOutputRow, OUTPUT_SHAPE)
    found, sample_id = find_struct_problems(line, row, shape, first)
    return found, sample_id if isinstance(sample_id, str) and sample_id else None


def report_line_problems(path: Path, number: int, line: bytes, role: Role, *, first: str, problems: Problems) -> None:
    """Raise the first problem of a sample or an output, or record all of them with the sample id."""
    if not problems.collect_all:
        problems.add(path, number, first)
    problems.add_record(path, number, *find_line_problems(line, role, first))


# --- a journal: an append-only file of JSON lines that several threads and processes share ---------------------------

_MTIME_STEP = 50_000_000
"""Nanoseconds. Two writes within one step of the clock of a file system may leave the same time."""


def current_time() -> str:
    """The time of a line that is written now, in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class JournalEntry(Protocol):
    """A line of a journal."""

    @property
    def id(self) -> str | None:
        """The unique id of the submission; the lines of one submission share it."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the line."""


EntryT = TypeVar("EntryT", bound=JournalEntry)


class Journal(ABC, Generic[EntryT]):
    """An append-only file of JSON objects, one per line, and its content in memory.

    Several threads and processes may share the file. ``refresh`` reads what was appended, and reads all again if the
    part that was read before has changed. A subclass defines the format and applies each line to its content.
    """

    format: ClassVar[str]
    version: ClassVar[int]
    may_be_missing: bool = True
    """Whether a missing file is an empty one; else it is an error."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._mutex = RLock()
        self._file: int | None = None  # while it is locked
        self._is_directory_synced = False
        self._stamp: tuple[int, int, int] | None = None
        self._restart()

    @abstractmethod
    def _clear(self) -> None:
        """Make the content empty."""

    @abstractmethod
    def _parse(self, row: Mapping[str, Any]) -> EntryT:
        """Return the entry of a line; an invalid one is a ``LineError``."""

    @abstractmethod
    def _apply(self, number: int, entry: EntryT) -> None:
        """Apply an entry to the content; one that contradicts earlier lines is a ``LineError``."""

    @abstractmethod
    def _check(self, entries: Sequence[EntryT]) -> None:
        """Raise a ``ConflictError`` if the entries must not be appended to the content."""

    @classmethod
    def header(cls) -> bytes:
        """Return the first line of a new file."""
        return msgspec.json.encode({"format": cls.format, "version": cls.version})

    def refresh(self) -> None:
        """Read what was appended since the last call. A missing file is empty."""
        with self._mutex:
            before, data, stamp = self._submissions, b"", (0, 0, 0)
            if not self.may_be_missing or os.path.exists(self.path):
                with open_bytes(self.path) as file:
                    status = self.path.stat()
                    stamp = status.st_ino, status.st_size, status.st_mtime_ns
                    if stamp == self._stamp:
                        return
                    data = file.read()
            if not self._is_unchanged(data):
                self._restart()
            with gc_paused():
                self._extend(data[self._size :])
            if time.time_ns() - stamp[2] > _MTIME_STEP:
                self._stamp = stamp
            if before is not self._submissions and (lost := len(before.keys() - self._submissions.keys())):
                message = f"{self.path}: was edited, replaced or deleted; submissions that it has lost: {lost}"
                warnings.warn(message, AueporaWarning, stacklevel=2)

    def append(self, *entries: EntryT, check: Callable[[Self], None] | None = None) -> bool:
        """Append the entries in one write; on return they are on disk. ``False`` if all were there already.

        An entry whose submission id is in the file with the same content is not written again; another content is a
        ``ConflictError``. ``check`` is called under the lock, with the content up to date, and raises if the entries
        must not be written. Nothing is written on any error.
        """
        lines = [encode_entry(entry) for entry in entries]
        if max(map(len, lines), default=0) > max_line_size():
            raise DataFileError(self.path, None, limit_message("the line"))
        with self.lock() as file:
            self.refresh()
            new = [
                number for number, journal_entry in enumerate(entries) if not self._is_stored(journal_entry, entries)
            ]
            if not new:
                return False
            self._check([entries[number] for number in new])
            if check is not None:
                check(self)
            with translate_write_errors(self.path):
                self._write(file, [lines[number] for number in new])
        return True

    def submission(self, submission_id: str) -> list[EntryT]:
        """Return the entries with this submission id, in force or not; empty if it is unknown."""
        with self._mutex:
            return list(self._submissions.get(submission_id, ()))

    @contextmanager
    def lock(self) -> Iterator[int]:
        """Lock the file, which is created if it may be missing. Calls may nest."""
        if is_compressed(self.path):
            raise DataFileError(self.path, None, "lines are added one by one, which a compressed file does not allow")
        with self._mutex:
            if self._file is not None:
                yield self._file
                return
            with locked_file(self.path, create=self.may_be_missing) as file:
                self._file = file
                try:
                    yield file
                finally:
                    self._file = None

    def read_line(self, number: int, line: bytes) -> None:
        """Apply a line of the file. One that was cut off is skipped with a warning."""
        line = line.strip()
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if not line:
            return
        with errors_at(self.path, number):
            entry = self._parse_line(number, line)
            if entry is None:
                return
            self._apply(number, entry)
        if entry.id is not None:
            self._submissions.setdefault(entry.id, []).append(entry)

    def _parse_line(self, number: int, line: bytes) -> EntryT | None:
        try:
            row = parse_json(line)
        except LineError:
            if not _is_cut_off(line):
                raise
            warnings.warn(f"{self.path}:{number}: the line was cut off and is skipped", AueporaWarning, stacklevel=2)
            return None
        if not isinstance(row, dict):
            raise LineError(f"each line must be one JSON object, not {type_name(row)}")
        if "format" in row:
            self._check_header(row)
            return None
        return self._parse(row)

    def _restart(self) -> None:
        self._size = self._checksum = self._line = 0  # of the part that was read
        self._is_line_open = False  # whether that part ends within a line
        self._stamp = None  # inode, size and time, if they identify the content
        self._submissions: dict[str, list[EntryT]] = {}
        self._clear()

    def _extend(self, data: bytes) -> None:
        """Read the next part of the file. A last line without a line break is read if it is complete."""
        *lines, last = data.split(b"\n")
        size, limit = 0, max_line_size()
        try:
            for line in lines:
                if len(line) > limit:
                    raise DataFileError(self.path, self._line + 1, limit_message("the line"))
                self.read_line(self._line + 1, line)
                self._line += 1
                size += len(line) + 1
            if not _is_cut_off(last):
                self.read_line(self._line + 1, last)
                size += len(last)
        finally:
            self._checksum = zlib.crc32(memoryview(data)[:size], self._checksum)
            self._size += size
            if size:
                self._is_line_open = data[size - 1 : size] != b"\n"

    def _is_unchanged(self, data: bytes) -> bool:
        """Whether the file still begins with the part that was read."""
        size = self._size
        if self._is_line_open and data[size : size + 1].strip():
            return False
        return len(data) >= size and zlib.crc32(memoryview(data)[:size]) == self._checksum

    def _is_stored(self, entry: EntryT, entries: Sequence[EntryT]) -> bool:
        """Whether the file has this entry of a submission; an interrupted write may have left a part of the entries."""
        before = [] if entry.id is None else [_content(written) for written in self.submission(entry.id)]
        if not before or _content(entry) in before:
            return bool(before)
        contents = [_content(written) for written in entries]
        if any(content not in contents for content in before):
            raise ConflictError("this submission was saved before, with another content")
        return False

    def _write(self, file: int, lines: Iterable[bytes]) -> None:
        size = os.fstat(file).st_size
        data = b"".join(line + b"\n" for line in lines)
        if not size:
            data = self.header() + b"\n" + data
        elif read_part(file, size - 1, 1) != b"\n":  # an editor, or a process that was killed
            data = b"\n" + data
        append_durably(file, data)
        if not is_file_at(file, self.path):
            raise DataFileError(self.path, None, "cannot be written: it was deleted or replaced; try again")
        if not self._is_directory_synced:
            sync_directory(self.path.parent)
            self._is_directory_synced = True
        self._extend(read_part(file, self._size, size - self._size) + data)

    def _check_header(self, row: Mapping[str, Any]) -> None:
        version = row.get("version")
        if row["format"] != self.format:
            raise LineError(f"field 'format' is {quote_text(str(row['format']))}, not {self.format!r}")
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise LineError(f"field 'version' must be a number from 1 up, not {type_name(version)}")
        if version > self.version:
            raise LineError(
                f"version {version} of the format is newer than {self.version}, the last one that is known here; "
                "install a newer auepora_eval"
            )


def _is_cut_off(line: bytes) -> bool:
    """Whether the line is a JSON object that ends early, as after a crash; some file systems leave zeros."""
    line = line.strip()
    content = line.rstrip(b"\0")
    if not content.startswith(b"{"):
        return not content and bool(line)
    try:
        msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        message = str(error)
        return "truncated" in message or ("invalid number" in message and content.endswith((b"-", b".", b"e", b"+")))
    except (ValueError, RecursionError):
        return False
    return len(content) < len(line)


def _content(entry: JournalEntry) -> dict[str, Any]:
    return {name: value for name, value in entry.to_dict().items() if name != "at"}


def encode_entry(entry: JournalEntry) -> bytes:
    """The line of an entry, without its line break."""
    try:
        return msgspec.json.encode(entry.to_dict())
    except UnicodeEncodeError as error:  # without the id of the sample, for annotators who label blind
        raise BadValueError("the line cannot be written: a text in it has half of a surrogate pair") from error
