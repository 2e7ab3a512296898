"""Parquet files as ranges of rows, decoded to samples and outputs without JSON."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from ..core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from ..errors import DataFileError
from ..io.codec import LineError, SentenceRow, build_sentence, decode_output_line, decode_sample
from ..io.formats import Role
from ..io.parquet import line_of_row, table_schema
from ..io.problems import ParsedSample
from ..io.tables import parquet_errors, require_arrow, require_small_pages
from ..runtime.files import open_bytes
from .inputs import IdHashes, InputFile, OptionalOutput, RecordRange, make_id_hashes

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

# --- columns of a table as samples and outputs, without JSON for every row -------------------------------------------
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
                [[] if one is None else one for one in _lists(columns["reference_answers"], _required_strings)],
                _json(columns["history"], list[dict[str, Any]], list),
                _objects(columns["cluster_id"]),
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
            [[] if ranking is None else ranking for ranking in rankings],
            _responses(columns["response"]),
            _json(columns["timings"], dict[str, float], dict),
            _json(columns["extra"], dict[str, Any], dict),
            _objects(columns["error"]),
            columns["refused"].to_pylist(),
            _lists(columns["citations"], _required_strings),
            _json(columns["steps"], list[dict[str, Any]], list),
            _json(columns["usage"], dict[str, Any], dict),
            [0 if one is None else one for one in columns["repeat"].to_pylist()],
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
            and [one.name for one in found] == [one.name for one in wanted]
            and all(_same_type(ours.type, theirs.type) for ours, theirs in zip(found, wanted, strict=True))
        )
    return bool(found == wanted)


# --- columns as lists of values --------------------------------------------------------------------------------------


def _objects(column: pa.Array) -> list[Any]:
    """Values as Python's, all at once: several times faster than one by one."""
    try:
        values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
    except UnicodeDecodeError as error:
        raise _UnsupportedColumnError from error
    return values


def _required_strings(column: pa.Array) -> list[str]:
    if column.null_count:
        raise _UnsupportedColumnError
    values: list[str] = _objects(column)
    return values


def _ids(column: pa.Array) -> list[str]:
    ids = _required_strings(column)
    if not all(ids):
        raise _UnsupportedColumnError
    return ids


def _json(column: pa.Array, kind: Any, nothing: Callable[[], Any]) -> list[Any]:
    """Values from JSON text; a new empty one where there is none."""
    if column.null_count == len(column):
        return [nothing() for _ in range(len(column))]
    decode = _decoder(kind)
    try:
        return [nothing() if text is None else decode(text) for text in _objects(column)]
    except (ValueError, RecursionError) as error:
        raise _UnsupportedColumnError from error


@cache
def _decoder(kind: Any) -> Callable[[str], Any]:
    return msgspec.json.Decoder(kind).decode


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
    return dict(zip([one.name for one in column.type], column.flatten(), strict=True))


def _documents(column: pa.Array) -> list[Document]:
    if column.null_count:
        raise _UnsupportedColumnError
    fields = _fields(column)
    texts = ["" if text is None else text for text in _objects(fields["text"])]
    return list(
        map(
            Document,
            _ids(fields["doc_id"]),
            texts,
            _json(fields["metadata"], dict[str, Any], dict),
            _objects(fields["parent_id"]),
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
    return [next(made) if one else None for one in there.tolist()]


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
        made = [_decode_row(runs[0].file, number, row, "samples") for number, row in _numbered(runs, table)]
    return list(map(ParsedSample, _numbers(runs), made))


def read_row_outputs(runs: Sequence[RecordRange]) -> list[OptionalOutput]:
    """The outputs of some ranges of one file."""
    table = _rows(runs)
    made: Sequence[tuple[str, SystemOutputs, bool]] | None = column_outputs(table)
    if made is None:
        made = [_decode_row(runs[0].file, number, row, "outputs") for number, row in _numbered(runs, table)]
    return [OptionalOutput(number, *one) for number, one in zip(_numbers(runs), made, strict=True)]


def row_ids(run: RecordRange, role: Role) -> IdHashes:
    """The ids of a range; no other column is read."""
    ids = string_column(_rows([run], ["sample_id"]), "sample_id")
    if ids is None or not all(ids):
        # Reading the rows in full says what is wrong with one.
        read = read_row_samples([run]) if role == "samples" else read_row_outputs([run])
        ids = [one.sample.sample_id if isinstance(one, ParsedSample) else one.sample_id for one in read]
    return make_id_hashes(ids)


def _numbers(runs: Sequence[RecordRange]) -> Iterator[int]:
    """The number of each row, counted from 1."""
    return chain.from_iterable(range(run.row + 1, run.row + run.count + 1) for run in runs)


def _numbered(runs: Sequence[RecordRange], table: pa.Table) -> Iterator[tuple[int, dict[str, Any]]]:
    return zip(_numbers(runs), table.to_pylist(), strict=True)


def _decode_row(file: InputFile, number: int, row: dict[str, Any], role: Role) -> Any:
    """Decode a row through a line of JSON, which validates every field."""
    try:
        line = line_of_row(row)
        return decode_sample(line) if role == "samples" else decode_output_line(line)
    except LineError as error:
        raise DataFileError(file.path, number, str(error)) from error


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
    names = None if columns is None else [one for one in columns if one in file.schema_arrow.names]
    table = file.read_row_group(number, columns=names, use_threads=False)
    if columns is None and not whole and table.nbytes <= _CACHE_BYTES:
        _row_group_cache[key] = table
        while sum(one.nbytes for one in _row_group_cache.values()) > _CACHE_BYTES:
            _row_group_cache.popitem(last=False)
    return table


@contextlib.contextmanager
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
