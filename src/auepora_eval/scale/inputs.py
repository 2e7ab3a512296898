"""The files of a large evaluation, and their ranges of bytes (JSON Lines) and of rows (Parquet)."""

from __future__ import annotations

import glob
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from ..core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from ..errors import BadValueError, DataFileError
from ..io.codec import ID_DECODER, LineError, SentenceRow, build_sentence, decode_output_line, decode_sample
from ..io.formats import GLOB, LINE_FORMATS, SPLIT_FORMATS, Role
from ..io.join import resolve_format
from ..io.parquet import line_of_row, table_schema
from ..io.problems import ParsedSample
from ..io.records import PRESETS, RecordLayout, parse_record_output, parse_record_sample
from ..io.tables import decode_object, parquet_errors, require_arrow, require_plain_parquet, require_small_pages
from ..runtime.files import is_compressed, open_bytes, open_lines, plain_suffix, read_head, read_lines
from .streams import BLOCK, read_decompressed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

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
    paths = list(dict.fromkeys(chain.from_iterable(_paths(path) for path in listed)))
    files = [_describe_file(path, role, named) for path in paths]
    for file in files[1:]:
        if file.format != files[0].format:
            raise BadValueError(
                f"{files[0].path} is {files[0].format} and {file.path} is {file.format}: all {role} must be in one "
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
    parts: list[tuple[bool, int, str]] = []
    for part in [part for part in re.split(r"(\d+)", path) if part]:
        number = int(part) if part.isdecimal() else 0
        parts.append((not part.isdecimal(), number, part))
    return parts, path


def _describe_file(path: str, role: Role, named: str | None) -> InputFile:
    try:
        seen = os.stat(path)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        raise DataFileError(path, None, "no such file" if missing else f"cannot be read: {error.strerror}") from error
    name = resolve_format(Path(path), role, named).name
    if named in LINE_FORMATS:
        read_head(Path(path))  # which says so where it is compressed under another name, or no UTF-8
    if name == "parquet":
        require_plain_parquet(Path(path))
    if name not in SPLIT_FORMATS:
        raise BadValueError(
            f"{path} is in the format '{name}', which is not split into ranges; 'auepora convert' makes JSONL or "
            "Parquet of it"
        )
    if name != "parquet" and plain_suffix(Path(path)) in _WHOLE_SUFFIXES:
        raise BadValueError(f"{path} cannot be split into ranges: only files with one JSON object per line can")
    return InputFile(path, name, seen.st_size, seen.st_mtime_ns, "" if os.path.isabs(path) else os.getcwd())


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
    lengths = list(
        map(len, ids if text.isascii() else [sample_id.encode("utf-8", "surrogatepass") for sample_id in ids])
    )
    sizes = np.array(lengths, dtype=np.int64) + 1
    starts = np.cumsum(sizes) - sizes
    data = np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8).astype(np.uint64)
    powers = np.cumprod(np.full(int(sizes.max()), _FACTOR, dtype=np.uint64))
    places = np.arange(len(data)) - np.repeat(starts, sizes)
    return np.add.reduceat((data + np.uint64(1)) * powers[places], starts)


def make_id_hashes(ids: Sequence[str], absent: Sequence[int] = ()) -> IdHashes:
    """The hashes of ids, and which have no output."""
    return IdHashes(hash_ids(ids), np.array(absent, dtype=np.int64))


# --- JSONL files as ranges of bytes, found by line ends alone and read from any offset -------------------------------

Built = TypeVar("Built")
Ints = npt.NDArray[np.int64]
_BOM = b"\xef\xbb\xbf"
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
        while block := file.read(BLOCK):
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
        ParsedSample(number, _build(file, number, partial(parse_record_sample, layout=shape), values, row + 1))
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
        sample_id, found = _build(file, number, partial(parse_record_output, layout=shape), values, row + 1)
        read.append(OptionalOutput(number, sample_id, *(found or (None, False))))
    return read


def line_ids(run: RecordRange, role: Role) -> IdHashes:
    """The ids of a range."""
    if run.file.format != "jsonl":
        read = read_line_outputs([run])
        absent = [row for row, output in enumerate(read) if output.output is None]
        return make_id_hashes([output.sample_id for output in read], absent)
    try:
        ((_, data),) = _data([run])
        found = ID_DECODER.decode_lines(data)  # the lines at once, which is several times faster
    except (ValueError, RecursionError):
        found = []
    if len(found) == run.count:
        return make_id_hashes([record.sample_id for record in found])
    # Line by line: skips blank lines, and decodes a bad line in full for its error message.
    return make_id_hashes([_decode_id(run.file, number, line, role) for _, number, line in _lines([run])])


def _decode_id(file: InputFile, number: int, line: bytes, role: Role) -> str:
    try:
        return ID_DECODER.decode(line).sample_id
    except (ValueError, RecursionError):
        if role == "samples":
            return _build(file, number, decode_sample, line).sample_id
        return _build(file, number, decode_output_line, line)[0]


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
    shape = RecordLayout(PRESETS[file.format])
    for number, line in read_lines(file.full_path):
        _build(file, number, shape.get_id, _build(file, number, decode_object, line), 1)
        break
    return shape


# --- Parquet columns as samples and outputs, without JSON for every row ----------------------------------------------
# Only tables with exactly the schema that this package writes, and only valid values, are read like this. For all
# others the result is ``None``, and the caller reads row by row, which also reports what is wrong with which row. A
# test compares the two ways.


class _UnsupportedColumnError(Exception):
    """A column or value that must be read row by row."""


def column_samples(table: pa.Table) -> list[EvaluationSample] | None:
    """The samples in a table; ``None`` where it must be read row by row."""
    try:
        columns = _columns(table, "samples")
        return list(
            map(
                EvaluationSample,
                _ids(columns["sample_id"]),
                _required_strings(columns["query"]),
                _lists(columns["relevant_docs"], _documents),
                _lists(columns["candidate_docs"], _documents),
                _responses(columns["reference_answer"]),
                _json(columns["labels"], dict[str, Any], dict),
                _json(columns["metadata"], dict[str, Any], dict),
                _filled(_lists(columns["reference_answers"], _required_strings), list),
                _json(columns["history"], list[dict[str, Any]], list),
                _to_list(columns["cluster_id"]),
                _filled(_lists(columns["relevant_groups"], _id_lists), list),
            )
        )
    except _UnsupportedColumnError:
        return None


def column_outputs(table: pa.Table) -> list[tuple[str, SystemOutputs, bool]] | None:
    """The outputs in a table, each with its sample's id and whether it has a ranking."""
    try:
        columns = _columns(table, "outputs")
        rankings = _lists(columns["retrieved"])
        made = map(
            SystemOutputs,
            _filled(rankings, list),
            _responses(columns["response"]),
            _json(columns["timings"], dict[str, float], dict),
            _json(columns["extra"], dict[str, Any], dict),
            _to_list(columns["error"]),
            columns["refused"].to_pylist(),
            _lists(columns["citations"], _required_strings),
            _json(columns["steps"], list[dict[str, Any]], list),
            _json(columns["usage"], dict[str, Any], dict),
            _filled(columns["repeat"].to_pylist(), int),
        )
        return list(zip(_ids(columns["sample_id"]), made, [ranking is not None for ranking in rankings], strict=True))
    except _UnsupportedColumnError:
        return None


def string_column(table: pa.Table, name: str) -> list[str] | None:
    """A column of strings; ``None`` if there is none, or if it contains anything else."""
    if name not in table.column_names or table.schema.field(name).type != _schema("samples").field("sample_id").type:
        return None
    try:
        return _required_strings(one_array(table.column(name)))
    except _UnsupportedColumnError:
        return None


def _columns(table: pa.Table, role: Role) -> dict[str, Any]:
    """The columns by name, missing ones as nulls; unknown columns and other types are unsupported."""
    import pyarrow as pa

    wanted = _schema(role)
    if len(set(table.column_names)) < len(table.column_names):
        raise _UnsupportedColumnError
    for field in table.schema:
        if field.name not in wanted.names or not _same_type(field.type, wanted.field(field.name).type):
            raise _UnsupportedColumnError
    return {
        name: one_array(table.column(name)) if name in table.column_names else pa.nulls(len(table), kind)
        for name, kind in zip(wanted.names, wanted.types, strict=True)
    }


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as one array."""
    import pyarrow as pa

    made = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pa.concat_arrays(made.chunks) if isinstance(made, pa.ChunkedArray) else made


_schema = cache(table_schema)


def _same_type(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether types are the same, whatever the items of lists are called and whether they may be null."""
    from pyarrow import types

    if types.is_list(wanted):
        return types.is_list(found) and _same_type(found.value_type, wanted.value_type)
    if types.is_struct(wanted):
        return (
            types.is_struct(found)
            and [part.name for part in found] == [part.name for part in wanted]
            and all(_same_type(ours.type, theirs.type) for ours, theirs in zip(found, wanted, strict=True))
        )
    return bool(found == wanted)


# --- columns as lists of values --------------------------------------------------------------------------------------


def _to_list(column: pa.Array) -> list[Any]:
    """Values as Python's, all at once: several times faster than one by one."""
    try:
        values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
    except UnicodeDecodeError as error:
        raise _UnsupportedColumnError from error
    return values


def _filled(values: Iterable[Any], empty: Callable[[], Any]) -> list[Any]:
    """The values, with a new empty one in place of each that is missing."""
    return [empty() if value is None else value for value in values]


def _required_strings(column: pa.Array) -> list[str]:
    if column.null_count:
        raise _UnsupportedColumnError
    return _to_list(column)


def _ids(column: pa.Array) -> list[str]:
    ids = _required_strings(column)
    if not all(ids):
        raise _UnsupportedColumnError
    return ids


def _id_lists(column: pa.Array) -> list[Any]:
    if column.null_count:
        raise _UnsupportedColumnError
    return _lists(column, _ids)


def _json(column: pa.Array, kind: Any, nothing: Callable[[], Any]) -> list[Any]:
    """Values from JSON text; a new empty one where there is none."""
    if column.null_count == len(column):
        return [nothing() for _ in range(len(column))]
    decode = msgspec.json.Decoder(kind).decode
    try:
        return [nothing() if text is None else decode(text) for text in _to_list(column)]
    except (ValueError, RecursionError) as error:
        raise _UnsupportedColumnError from error


def _lists(column: pa.Array, read: Callable[[pa.Array], list[Any]] | None = None) -> list[list[Any] | None]:
    """A list for each row, ``None`` where there is none; ``read`` makes the values of all rows from one column.

    By default the values are retrieved documents; one without a rank has that of its place in its list.
    """
    offsets = column.offsets.to_numpy().astype(np.int64)
    first = int(offsets[0])
    inner, ends = column.values.slice(first, int(offsets[-1]) - first), offsets - first
    if read is None:
        positions = np.arange(1, len(inner) + 1) - np.repeat(ends[:-1], np.diff(ends))
        values: list[Any] = _items(inner, positions.tolist())
    else:
        values = read(inner)
    made: list[list[Any] | None] = [values[start:stop] for start, stop in pairwise(ends.tolist())]
    if column.null_count:
        for row in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
            made[row] = None
    return made


def _fields(column: pa.Array) -> dict[str, pa.Array]:
    """The fields of a column of structs, cut as the column is."""
    return dict(zip([part.name for part in column.type], column.flatten(), strict=True))


def _documents(column: pa.Array) -> list[Document]:
    if column.null_count:
        raise _UnsupportedColumnError
    fields = _fields(column)
    texts = _filled(_to_list(fields["text"]), str)
    return list(
        map(
            Document,
            _ids(fields["doc_id"]),
            texts,
            _json(fields["metadata"], dict[str, Any], dict),
            _to_list(fields["parent_id"]),
            _spans(fields["span"]),
        )
    )


def _spans(column: pa.Array) -> list[tuple[int, int] | None]:
    if column.null_count == len(column):
        return [None] * len(column)
    made: list[tuple[int, int] | None] = []
    for span in column.to_pylist():
        if span is None:
            made.append(None)
        elif len(span) == 2 and None not in span and 0 <= span[0] <= span[1]:
            made.append((span[0], span[1]))
        else:
            raise _UnsupportedColumnError
    return made


def _items(column: pa.Array, positions: list[int]) -> list[RetrievedDocument]:
    if column.null_count:
        raise _UnsupportedColumnError
    fields = _fields(column)
    scores, ranks = fields["score"], fields["rank"]
    values = scores.drop_null().to_numpy(zero_copy_only=False)
    if not np.isfinite(values).all():
        raise _UnsupportedColumnError
    if ranks.null_count < len(ranks):
        given = zip(ranks.to_pylist(), positions, strict=True)
        positions = [position if rank is None else rank for rank, position in given]
    scored = scores.to_pylist() if scores.null_count else values.tolist()
    return list(map(RetrievedDocument, _documents(fields["doc"]), scored, positions))


def _responses(column: pa.Array) -> list[Response | None]:
    """A response for each row, ``None`` where there is none."""
    there = column.is_valid().to_numpy(zero_copy_only=False)
    fields = _fields(column.filter(column.is_valid()) if column.null_count else column)
    made = map(
        Response,
        _required_strings(fields["text"]),
        _json(fields["structured"], dict[str, Any] | None, lambda: None),
        _json(fields["metadata"], dict[str, Any], dict),
        [
            None if rows is None else [build_sentence(row) for row in rows]
            for rows in _json(fields["sentences"], list[SentenceRow] | None, lambda: None)
        ],
    )
    return [next(made) if is_present else None for is_present in there.tolist()]


# --- ranges of rows: only the row groups that contain them are read --------------------------------------------------

_NEEDED: dict[Role, tuple[str, ...]] = {"samples": ("sample_id", "query"), "outputs": ("sample_id",)}
_CACHE_BYTES = 256 << 20
"""The size of the cache of row groups: the next range is often of the same group."""
_row_group_cache: OrderedDict[tuple[InputFile, int], pa.Table] = OrderedDict()


def group_sizes(file: InputFile, role: Role) -> list[int]:
    """How many rows each row group has; a column that every row needs must be there."""
    with _open_parquet(file, check_pages=True) as table:
        for name in _NEEDED[role]:
            if table.metadata.num_rows and name not in table.schema_arrow.names:
                shown = ", ".join(map(repr, table.schema_arrow.names)) or "none"
                raise DataFileError(file.path, None, f"column '{name}' is missing; it has {shown}")
        return [table.metadata.row_group(number).num_rows for number in range(table.num_row_groups)]


def read_row_samples(runs: Sequence[RecordRange]) -> list[ParsedSample]:
    """The samples of some ranges of one file; a line is a row, counted from 1."""
    table = _rows(runs)
    made: Sequence[EvaluationSample] | None = column_samples(table)
    if made is None:
        made = [_decode_row(runs[0].file, number, row, decode_sample) for number, row in _numbered(runs, table)]
    return list(map(ParsedSample, _numbers(runs), made))


def read_row_outputs(runs: Sequence[RecordRange]) -> list[OptionalOutput]:
    """The outputs of some ranges of one file."""
    table = _rows(runs)
    made: Sequence[tuple[str, SystemOutputs, bool]] | None = column_outputs(table)
    if made is None:
        made = [_decode_row(runs[0].file, number, row, decode_output_line) for number, row in _numbered(runs, table)]
    return [OptionalOutput(number, *parsed) for number, parsed in zip(_numbers(runs), made, strict=True)]


def row_ids(run: RecordRange, role: Role) -> IdHashes:
    """The ids of a range; no other column is read."""
    ids = string_column(_rows([run], ["sample_id"]), "sample_id")
    if ids is None or not all(ids):
        # Reading the rows in full says what is wrong with one.
        if role == "samples":
            ids = [read.sample.sample_id for read in read_row_samples([run])]
        else:
            ids = [read.sample_id for read in read_row_outputs([run])]
    return make_id_hashes(ids)


def _numbers(runs: Sequence[RecordRange]) -> Iterator[int]:
    """The number of each row, counted from 1."""
    return chain.from_iterable(range(run.row + 1, run.row + run.count + 1) for run in runs)


def _numbered(runs: Sequence[RecordRange], table: pa.Table) -> Iterator[tuple[int, dict[str, Any]]]:
    return zip(_numbers(runs), table.to_pylist(), strict=True)


def _decode_row(file: InputFile, number: int, row: dict[str, Any], decode: Callable[[bytes], Built]) -> Built:
    """Decode a row through a line of JSON, which validates every field."""
    return _build(file, number, lambda: decode(line_of_row(row)))


# --- row groups as tables --------------------------------------------------------------------------------------------


def _rows(runs: Sequence[RecordRange], columns: list[str] | None = None) -> pa.Table:
    """The rows of ascending ranges of one file as a table; the file is opened once."""
    import pyarrow as pa

    described = runs[0].file
    described.require_unchanged()
    wanted = np.concatenate([np.arange(run.row, run.row + run.count) for run in runs])
    parts: list[pa.Table] = []
    with _open_parquet(described) as file:
        first = 0
        for number in range(file.num_row_groups):
            size = file.metadata.row_group(number).num_rows
            start, stop = np.searchsorted(wanted, [first, first + size])
            if start < stop:
                group = _group(described, file, number, columns, whole=bool(stop - start == size))
                rows = wanted[start:stop] - first
                adjacent = rows[-1] - rows[0] == len(rows) - 1
                parts.append(group.slice(int(rows[0]), len(rows)) if adjacent else group.take(rows))
            first += size
        if not parts:
            return file.schema_arrow.empty_table()
    described.require_unchanged()  # nor while it was read
    return parts[0] if len(parts) == 1 else pa.concat_tables(parts)


def _group(described: InputFile, file: ParquetFile, number: int, columns: list[str] | None, *, whole: bool) -> pa.Table:
    """A row group; cached for the next range if this one does not need all of it."""
    key = described, number
    if key in _row_group_cache:
        _row_group_cache.move_to_end(key)
        return _row_group_cache[key]
    names = None if columns is None else [column for column in columns if column in file.schema_arrow.names]
    table = file.read_row_group(number, columns=names, use_threads=False)
    if columns is None and not whole and table.nbytes <= _CACHE_BYTES:
        _row_group_cache[key] = table
        while sum(table.nbytes for table in _row_group_cache.values()) > _CACHE_BYTES:
            _row_group_cache.popitem(last=False)
    return table


@contextmanager
def _open_parquet(described: InputFile, *, check_pages: bool = False) -> Iterator[ParquetFile]:
    """Open a file. The sizes of its pages are checked when it is split into ranges, not for each range."""
    require_arrow()
    from pyarrow import parquet

    with (
        open_bytes(described.full_path) as opened,
        parquet_errors(Path(described.path)),
        parquet.ParquetFile(opened, page_checksum_verification=True) as file,
    ):
        if check_pages:
            require_small_pages(Path(described.path), opened, file)
        yield file
