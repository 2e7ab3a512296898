"""Parquet files as ranges of rows: only the row groups that hold them are read, only they are decoded."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from ..core.errors import DataFileError
from ..core.types import EvaluationSample, SystemOutputs
from ..io.codec import LineError, decode_output_line, decode_sample
from ..io.files import open_bytes
from ..io.formats import Role
from ..io.parquet import line_of_row, parquet_errors, require_arrow
from ..io.reader_types import ParsedSample
from .inputs import InputFile, RecordRange
from .parquet_columns import column_outputs, column_samples, string_column
from .records import IdHashes, OptionalOutput, make_id_hashes

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

__all__ = ["group_sizes", "read_row_outputs", "read_row_samples", "row_ids"]

_NEEDED: dict[Role, tuple[str, ...]] = {"samples": ("sample_id", "query"), "outputs": ("sample_id",)}
_CACHE_BYTES = 256 << 20
"""The size of the cache of row groups: the next range is often of the same group."""
_row_group_cache: OrderedDict[tuple[InputFile, int], pa.Table] = OrderedDict()


def group_sizes(file: InputFile, role: Role) -> list[int]:
    """How many rows each row group has; a column that every row needs must be there."""
    with _open_parquet(file) as table:
        for name in _NEEDED[role]:
            if table.metadata.num_rows and name not in table.schema_arrow.names:
                raise DataFileError(file.path, None, f"column '{name}' is missing; it has {_shown(table)}")
        return [table.metadata.row_group(number).num_rows for number in range(table.num_row_groups)]


def _shown(table: ParquetFile) -> str:
    return ", ".join(map(repr, table.schema_arrow.names)) or "none"


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


def row_ids(run: RecordRange, role: Role, *, families: bool = False) -> IdHashes:
    """The ids of a range, and of which samples they are variants; no other column is read."""
    columns = ["sample_id", "labels"] if families and role == "samples" else ["sample_id"]
    table = _rows([run], columns)
    ids = string_column(table, "sample_id")
    if ids is None or not all(ids):
        # Reading the rows in full says what is wrong with one.
        read = read_row_samples([run]) if role == "samples" else read_row_outputs([run])
        ids = [one.sample.sample_id if isinstance(one, ParsedSample) else one.sample_id for one in read]
    return make_id_hashes(ids, _bases(run, table) if len(columns) > 1 else ())


def _bases(run: RecordRange, table: pa.Table) -> list[str | None]:
    if "labels" not in table.column_names:
        return []
    found = [_base(labels) for labels in table.column("labels").to_pylist()]
    if _INVALID in found:
        read_row_samples([run])  # raises an error that names the row
        raise DataFileError(
            run.file.path,
            None,
            f"column 'labels' is not JSON text between rows {run.row + 1} and {run.row + run.count}",
        )
    return [None if base is None else str(base) for base in found]


_INVALID = object()


def _base(labels: Any) -> Any:
    """The id of the sample that this one is a variant of, from its labels."""
    if isinstance(labels, str):
        if "variant_of" not in labels and "\\" not in labels:  # a key may be written with escapes
            return None
        try:
            labels = msgspec.json.decode(labels)
        except (ValueError, RecursionError):
            return _INVALID
    return labels.get("variant_of") if isinstance(labels, dict) else None


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


# --- tables ----------------------------------------------------------------------------------------------------------


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
                parts.append(_take_rows(group, wanted[start:stop] - first))
            first += size
        if not parts:
            return file.schema_arrow.empty_table()
    described.require_unchanged()  # nor while it was read
    return parts[0] if len(parts) == 1 else pa.concat_tables(parts)


def _take_rows(group: pa.Table, rows: npt.NDArray[np.int64]) -> pa.Table:
    first, count = int(rows[0]), len(rows)
    return group.slice(first, count) if rows[-1] - first == count - 1 else group.take(rows)


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
def _open_parquet(described: InputFile) -> Iterator[ParquetFile]:
    require_arrow()
    from pyarrow import parquet

    with (
        open_bytes(described.full_path) as opened,
        parquet_errors(Path(described.path)),
        parquet.ParquetFile(opened, page_checksum_verification=True) as file,
    ):
        yield file
