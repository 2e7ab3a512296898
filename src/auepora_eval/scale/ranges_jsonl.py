"""JSONL files as ranges of bytes, found by line ends alone and read from any offset.

A compressed file has no random access: a worker that reads a range of it decompresses what comes before, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from ..core.errors import DataFileError
from ..io.codec import LineError, decode_output_line, decode_sample
from ..io.files import is_compressed, open_bytes, read_lines
from ..io.formats import Role
from ..io.reader_types import ParsedSample
from ..io.record_files import decode_object
from ..io.record_parts.columns import DEEPEVAL, RAGAS, RecordLayout, parse_record_output, parse_record_sample
from .compressed_streams import read_decompressed
from .inputs import InputFile, RecordRange
from .records import IdHashes, OptionalOutput, make_id_hashes

__all__ = ["LineOffsets", "index_lines", "line_ids", "read_line_outputs", "read_line_samples"]

Built = TypeVar("Built")
Ints = npt.NDArray[np.int64]
_BLOCK = 1 << 24
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
    with open_bytes(path) as file:
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


def line_ids(run: RecordRange, role: Role, *, families: bool = False) -> IdHashes:
    """The ids of a range, and of which samples they are variants."""
    if run.file.format != "jsonl":
        return _record_ids(run)
    decoder = _FAMILY if families and role == "samples" else _ID_ONLY
    try:
        ((_, data),) = _data([run])
        found = decoder.decode_lines(data)  # the lines at once, which is several times faster
    except (ValueError, RecursionError):
        found = []
    if len(found) != run.count:
        found = _decode_ids_singly(run, role, decoder)
    return make_id_hashes([one.sample_id for one in found], list(map(_base, found)) if decoder is _FAMILY else ())


def _base(found: _IdRecord) -> str | None:
    base = found.labels.variant_of if isinstance(found, _VariantRecord) else None
    return None if base is None else str(base)


def _decode_ids_singly(run: RecordRange, role: Role, decoder: msgspec.json.Decoder[Any]) -> list[_IdRecord]:
    """The ids line by line: skips blank lines, and decodes a bad line in full for its error message."""
    in_full = _sample_id if role == "samples" else _output_id
    found = []
    for _, number, line in _lines([run]):
        try:
            found.append(decoder.decode(line))
        except (ValueError, RecursionError):
            found.append(_IdRecord(_build(run.file, number, in_full, line)))
    return found


class _IdRecord(msgspec.Struct, gc=False):
    sample_id: Annotated[str, msgspec.Meta(min_length=1)]


class _VariantOf(msgspec.Struct, gc=False, frozen=True):
    variant_of: Any = None


class _VariantRecord(_IdRecord, gc=False):
    labels: _VariantOf = _VariantOf()


_ID_ONLY: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_IdRecord)
_FAMILY: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_VariantRecord)


def _sample_id(line: bytes) -> str:
    return decode_sample(line).sample_id


def _output_id(line: bytes) -> str:
    return decode_output_line(line)[0]


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


def _record_ids(run: RecordRange) -> IdHashes:
    read = read_line_outputs([run])
    return make_id_hashes(
        [one.sample_id for one in read], (), [row for row, one in enumerate(read) if one.output is None]
    )
