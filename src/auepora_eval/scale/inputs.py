"""The files of a sharded input, and their ranges: bytes of JSONL files, also compressed, read from any offset."""

from __future__ import annotations

import atexit
import glob
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import IO, Annotated, Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from ..core.types import SystemOutputs
from ..errors import BadValueError, DataFileError
from ..io.codec import LineError, decode_output_line, decode_sample
from ..io.formats import GLOB, LINE_FORMATS, SPLIT_FORMATS, Role
from ..io.join import resolve_format
from ..io.problems import ParsedSample
from ..io.records import DEEPEVAL, RAGAS, RecordLayout, parse_record_output, parse_record_sample
from ..io.tables import decode_object
from ..runtime.files import is_compressed, open_bytes, open_lines, plain_suffix, read_head, read_lines

_SUFFIXES = (".jsonl", ".ndjson", ".parquet", ".pq")
_WHOLE_SUFFIXES = (".csv", ".tsv", ".json", ".xlsx", ".xlsm", ".parquet", ".pq")
"""Suffixes of files whose records are not one per line."""


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
    elif not os.path.exists(text) and GLOB.search(text):
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


# --- compressed files, read sequentially: a stream continues where the previous range ended --------------------------

_MOST = 8
"""How many streams a process keeps open: samples, outputs, and bases that come before their variants."""
_BLOCK = 1 << 24


@dataclass(slots=True)
class _Stream:
    described: InputFile
    file: IO[bytes]
    closing: ExitStack
    at: int = 0


_streams: list[_Stream] = []
"""Of this process; the one used last is the last."""
_lock = Lock()


def read_decompressed(described: InputFile, start: int, stop: int) -> bytes:
    """The bytes of a range. A process decompresses what is before it once, not once for every range."""
    stream = _nearest(described, start)
    with ExitStack() as stack:  # until all went well: then errors have their names, and nothing stays open
        if stream is None:
            file = stack.enter_context(open_bytes(described.full_path))
            stream = _Stream(described, file, stack)
        else:
            stack.push(stream.closing)
        while stream.at < start and (passed := len(stream.file.read(min(start - stream.at, _BLOCK)))):
            stream.at += passed
        data = stream.file.read(stop - start)
        stream.at += len(data)
        stream.closing = stack.pop_all()
    _keep_open(stream)
    return data


def _nearest(described: InputFile, start: int) -> _Stream | None:
    """The stream of a file closest before ``start``, removed from the pool while in use."""
    with _lock:
        fit = [one for one in _streams if one.at <= start and one.described == described]
        if not fit:
            return None
        best = max(fit, key=lambda one: one.at)
        _streams.remove(best)
        return best


def _keep_open(stream: _Stream) -> None:
    with _lock:
        _streams.append(stream)
        gone = [_streams.pop(0) for _ in range(len(_streams) - _MOST)]
    for one in gone:
        one.closing.close()


def close_streams() -> None:
    """Close all streams of this process."""
    with _lock:
        gone = [*_streams]
        _streams.clear()
    for one in gone:
        one.closing.close()


atexit.register(close_streams)


# --- records of a range: outputs that may be absent, and ids as 64-bit hashes ----------------------------------------

Hashes = npt.NDArray[np.uint64]


class OptionalOutput(NamedTuple):
    """An output with its sample id and line; ``None`` if the record has no output."""

    line: int
    sample_id: str
    output: SystemOutputs | None
    has_retrieved: bool


@dataclass(frozen=True, slots=True)
class IdHashes:
    """The ids of some records as hashes."""

    ids: Hashes
    absent: npt.NDArray[np.int64]
    """Which of the records have no output."""


_FACTOR = 0x9E3779B97F4A7C15
"""Odd, and with bits everywhere."""


def hash_ids(ids: Sequence[str]) -> Hashes:
    """A hash for each id. Two ids may have the same one, though hardly ever: readers compare the ids.

    The number is the value of a polynomial, with the bytes of the id for its coefficients, modulo 2^64.
    """
    if not ids:
        return np.zeros(0, dtype=np.uint64)
    text = "\0".join(ids) + "\0"  # so that every id has a byte at least
    lengths = list(map(len, ids if text.isascii() else [one.encode("utf-8", "surrogatepass") for one in ids]))
    sizes = np.array(lengths, dtype=np.int64) + 1
    starts = np.cumsum(sizes) - sizes
    data = np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8).astype(np.uint64)
    powers = np.cumprod(np.full(int(sizes.max()), _FACTOR, dtype=np.uint64))
    places = np.arange(len(data)) - np.repeat(starts, sizes)
    hashes: Hashes = np.add.reduceat((data + np.uint64(1)) * powers[places], starts)
    return hashes


def make_id_hashes(ids: Sequence[str], absent: Sequence[int] = ()) -> IdHashes:
    """The hashes of ids, and which have no output."""
    return IdHashes(hash_ids(ids), np.array(absent, dtype=np.int64))


# --- JSONL files as ranges of bytes, found by line ends alone and read from any offset -------------------------------

Built = TypeVar("Built")
Ints = npt.NDArray[np.int64]
_BOM = b"\xef\xbb\xbf"
_COLUMNS = {"ragas": RAGAS, "deepeval": DEEPEVAL}
_SHORT_READ = "has fewer records than when it was split into ranges; it was changed meanwhile: start again"


@dataclass(frozen=True, slots=True)
class LineOffsets:
    """The offsets of some records of a file, and how many records it has."""

    total: int
    rows: Ints
    """Their numbers, counted from 0, rising; the last is ``total``, for the end of the file."""
    offsets: Ints
    lines: Ints

    def pieces(self, rows: Ints, stops: Ints) -> Ints:
        """Ranges between known offsets: first record, count, first byte, byte after the last, line of the first."""
        first, last = np.searchsorted(self.rows, rows), np.searchsorted(self.rows, stops)
        assert np.array_equal(self.rows[first], rows)
        assert np.array_equal(self.rows[last], stops)
        return np.column_stack([rows, stops - rows, self.offsets[first], self.offsets[last], self.lines[first]])


def index_lines(file: InputFile, *, every: int, rows: Ints | None = None) -> LineOffsets:
    """Index every ``every``-th record, and those in ``rows`` (ascending); blank lines are not records."""
    found: list[tuple[Ints, Ints, Ints]] = []
    row = line = offset = 0
    for block in _whole_lines(Path(file.path)):
        starts, numbers = _records(block, at_start=offset == 0)
        here = np.arange(row, row + len(starts), dtype=np.int64)
        wanted = here % every == 0
        if rows is not None:
            among = np.searchsorted(rows, [row, row + len(here)])
            wanted[rows[among[0] : among[1]] - row] = True
        found.append((here[wanted], starts[wanted] + offset, numbers[wanted] + line + 1))
        row, line, offset = row + len(starts), line + block.count(b"\n"), offset + len(block)
    found.append((np.array([row]), np.array([offset]), np.array([line + 1])))
    at, offsets, lines = (np.concatenate(column) for column in zip(*found, strict=True))
    return LineOffsets(row, at, offsets, lines)


def _whole_lines(path: Path) -> Iterator[bytes]:
    """The file in blocks that end where a line does."""
    with open_lines(path) as file:
        pending: list[bytes] = []
        while block := file.read(_BLOCK):
            end = block.rfind(b"\n") + 1
            if end:
                yield b"".join([*pending, block[:end]])
                pending = []
            pending.append(block[end:])
        if rest := b"".join(pending):
            yield rest


def _records(block: bytes, *, at_start: bool) -> tuple[Ints, Ints]:
    """The offsets of the lines that are not blank, and their numbers, counted from 0."""
    data = np.frombuffer(block, dtype=np.uint8)
    starts = np.concatenate([[0], np.flatnonzero(data == ord("\n")) + 1])
    if starts[-1] == len(block):
        starts = starts[:-1]
    blank = np.zeros(len(starts), dtype=np.bool_)
    for number in np.flatnonzero(data[starts] != ord("{")).tolist():  # the others need no second look
        end = starts[number + 1] if number + 1 < len(starts) else len(block)
        line = block[starts[number] : end]
        blank[number] = not (line.removeprefix(_BOM) if at_start and number == 0 else line).strip()
    numbers = np.flatnonzero(~blank)
    return starts[numbers], numbers


def _data(runs: Sequence[RecordRange]) -> Iterator[tuple[RecordRange, bytes]]:
    """The bytes of each range of one file, which is opened once."""
    file = runs[0].file
    file.require_unchanged()
    with ExitStack() as stack:
        opened = None if is_compressed(file.full_path) else stack.enter_context(open_bytes(file.full_path))
        for run in runs:
            assert run.file == file
            if opened is None:
                data = read_decompressed(file, run.start, run.stop)
            else:
                opened.seek(run.start)
                data = opened.read(run.stop - run.start)
            file.require_unchanged()  # nor while it was read
            yield run, data


def _lines(runs: Sequence[RecordRange]) -> Iterator[tuple[int, int, bytes]]:
    """Each record of some ranges: its row and line in the file, counted from 0 and 1, and its bytes."""
    for run, data in _data(runs):
        row = run.row
        for number, line in enumerate(data.split(b"\n"), start=run.line):
            content = line.removeprefix(_BOM) if number == 1 else line
            if content and not content.isspace():
                yield row, number, content
                row += 1
        if row - run.row != run.count:
            raise DataFileError(run.file.path, None, _SHORT_READ)


def read_line_samples(runs: Sequence[RecordRange]) -> list[ParsedSample]:
    """The samples of some ranges of one file, in ascending order."""
    file = runs[0].file
    if file.format == "jsonl":
        return [ParsedSample(number, _build(file, number, decode_sample, line)) for _, number, line in _lines(runs)]
    shape = _shape(file)
    return [
        ParsedSample(number, _build(file, number, parse_record_sample, values, row + 1, shape))
        for row, number, values in _objects(runs)
    ]


def read_line_outputs(runs: Sequence[RecordRange]) -> list[OptionalOutput]:
    """The outputs of some ranges of one file, in ascending order; a record of a combined format may have none."""
    file = runs[0].file
    if file.format == "jsonl":
        return [
            OptionalOutput(number, *_build(file, number, decode_output_line, line)) for _, number, line in _lines(runs)
        ]
    shape, read = _shape(file), []
    for row, number, values in _objects(runs):
        sample_id, found = _build(file, number, parse_record_output, values, row + 1, shape)
        read.append(OptionalOutput(number, sample_id, *(found or (None, False))))
    return read


def line_ids(run: RecordRange, role: Role) -> IdHashes:
    """The ids of a range."""
    if run.file.format != "jsonl":
        read = read_line_outputs([run])
        absent = [row for row, one in enumerate(read) if one.output is None]
        return make_id_hashes([one.sample_id for one in read], absent)
    try:
        ((_, data),) = _data([run])
        found = _ID_DECODER.decode_lines(data)  # the lines at once, which is several times faster
    except (ValueError, RecursionError):
        found = []
    if len(found) == run.count:
        return make_id_hashes([one.sample_id for one in found])
    # Line by line: skips blank lines, and decodes a bad line in full for its error message.
    return make_id_hashes([_decode_id(run.file, number, line, role) for _, number, line in _lines([run])])


def _decode_id(file: InputFile, number: int, line: bytes, role: Role) -> str:
    try:
        return _ID_DECODER.decode(line).sample_id
    except (ValueError, RecursionError):
        if role == "samples":
            return _build(file, number, decode_sample, line).sample_id
        return _build(file, number, decode_output_line, line)[0]


class _IdRecord(msgspec.Struct, gc=False):
    sample_id: Annotated[str, msgspec.Meta(min_length=1)]


_ID_DECODER = msgspec.json.Decoder(_IdRecord)


def _build(file: InputFile, number: int, make: Callable[..., Built], *given: Any) -> Built:
    """Decode a line; an error names file and line."""
    try:
        return make(*given)
    except LineError as error:
        raise DataFileError(file.path, number, str(error)) from error


# --- records of other tools ------------------------------------------------------------------------------------------


def _objects(runs: Sequence[RecordRange]) -> Iterator[tuple[int, int, dict[str, Any]]]:
    for row, number, line in _lines(runs):
        yield row, number, _build(runs[0].file, number, decode_object, line)


def _shape(file: InputFile) -> RecordLayout:
    """The shape of all records, taken from the first of the file."""
    shape = RecordLayout(_COLUMNS[file.format])
    for number, line in read_lines(file.full_path):
        _build(file, number, shape.get_id, _build(file, number, decode_object, line), 1)
        break
    return shape
