"""Rows of a table as dictionaries: CSV, Excel (extra ``excel``), Parquet (extra ``parquet``) and JSON.

Cells of CSV and Excel files are strings, and empty ones are missing. JSON is an array of objects, an object per line,
or an object with an array of objects under one of its keys.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import re
import shlex
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, time
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from ..errors import AueporaError, DataFileError, MissingDependencyError, did_you_mean
from ..runtime.files import (
    is_compressed,
    limit_message,
    max_line_size,
    open_bytes,
    plain_suffix,
    read_bytes,
    read_lines,
)
from .cells import column_head
from .codec import LineError
from .problems import Problems, RowSchema, decoding_problem, first_invalid_value, quote_text, type_name
from .values import TOO_LONG, read_array, read_values

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

TableKind = Literal["csv", "excel", "parquet", "json"]
"""What a file is, apart from the names of its columns."""

KINDS: dict[str, TableKind] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".xlsx": "excel",
    ".xlsm": "excel",
    ".parquet": "parquet",
    ".pq": "parquet",
}
"""The kind of a file by its suffix; other files are JSON."""
TITLES: dict[TableKind, str] = {"csv": "CSV", "excel": "Excel", "parquet": "Parquet", "json": "JSON"}
_WORKBOOK_DAMAGE = (
    zipfile.BadZipFile, zlib.error, ValueError, TypeError, LookupError, SyntaxError, OSError, EOFError, RuntimeError
)  # fmt: skip
"""What reading a damaged workbook may raise; an encrypted one is a RuntimeError."""
_HEAD, _COMPARED_ROWS = 1 << 16, 20
"""How many characters and rows are compared to detect a delimiter."""
_CHECKED_RECORDS = 1000
"""How many JSON records are read to learn the columns of a file: a key may be missing in some of them."""
_SHAPE = RowSchema("records", {"": ()}, "records", ())


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """Where the rows of a file are, for what cannot be detected."""

    kind: TableKind | None = None
    """``None``: by the suffix of the file."""
    delimiter: str | None = None
    """The delimiter of CSV cells; ``None``: the comma, semicolon, tab or bar that gives the most columns."""
    sheet: str | None = None
    """The sheet of an Excel file; ``None``: the first."""
    rows: str | None = None
    """The key of the array of records in a JSON object; ``None``: the only one with objects."""

    def kind_of(self, path: Path) -> TableKind:
        """Return the kind of a file."""
        return self.kind or KINDS.get(plain_suffix(path), "json")


class Record(NamedTuple):
    """One record with its position in the file."""

    number: int
    """Counted from 1 over all records, including those that cannot be read."""
    line: int
    """The line on which it begins; the row of a sheet or a Parquet file."""
    record: int | None
    """The number again if other records begin on the same line."""
    values: dict[str, Any]


def read_records(
    path: Path,
    problems: Problems,
    options: TableOptions | None = None,
    *,
    names: Collection[str] = (),
    required: Collection[str] = (),
) -> Iterator[Record]:
    """Yield the records of a file.

    ``names`` are the columns that a record may have: a JSON object with none of them may have records under a key.
    Columns that are ``required`` are those that a user named: if there is no such column, it is an error.
    """
    options = options or TableOptions()
    before = len(problems.found)
    kind = options.kind_of(path)
    if kind == "json":
        records = _json_records(path, problems, options, names)
    elif kind == "parquet":
        records = _parquet_records(path)
    else:
        text = read_bytes(path).decode() if kind == "csv" else ""
        records = _cell_records(path, problems, _cell_rows(path, text, kind, options))
    if required:
        records = _check_columns(path, problems, records, required)
    last = None
    for last in records:
        yield last
    if last is None and len(problems.found) == before:
        problems.add(path, None, "there is no record in the file")


def _check_columns(
    path: Path, problems: Problems, records: Iterator[Record], required: Collection[str]
) -> Iterator[Record]:
    first = list(islice(records, _CHECKED_RECORDS))
    known = list(dict.fromkeys(chain.from_iterable(record.values for record in first)))
    missing = [name for name in required if name not in known and column_head(name) not in known]
    for name in missing if first else ():
        columns = f"the columns are {list_columns(known)}{did_you_mean(name, known)}"
        problems.add(path, None, f"there is no column {quote_text(name)}; {columns}")
    return iter(()) if missing else chain(first, records)


_COLUMN_WORDS = {
    "reference": re.compile("reference|expected|truth|gold|correct", re.IGNORECASE),
    "contexts": re.compile("context|passage|document|retrieved|chunk", re.IGNORECASE),
    "response": re.compile("response|answer|output|prediction", re.IGNORECASE),
    "query": re.compile("query|question|input|prompt", re.IGNORECASE),
}
"""Parts of the names of columns, by what such a column probably contains."""
_ID = re.compile("(^|[^a-z])id$", re.IGNORECASE)
"""The name of a column of ids, which is neither a question nor an answer."""


def example_columns(columns: Iterable[str]) -> str:
    """What may follow ``--columns`` for a table: its columns by their names, and without such names in their order.

    >>> example_columns(["Question", "Expected answer"]), example_columns(["Frage", "Antwort"])
    ("'query=Question,reference=Expected answer'", 'query=Frage,response=Antwort')
    """
    free = [name for name in columns if "," not in name and "=" not in name and not _ID.search(name)]
    found: dict[str, str] = {}
    for role, words in _COLUMN_WORDS.items():
        named = [name for name in free if words.search(name)]
        if named:
            found[role] = named[0]
            free.remove(named[0])
    if "query" not in found and free:
        found["query"] = free.pop(0)
    if len(found) == 1 and free:
        found["response"] = free.pop(0)
    named = [f"{role}={found[role]}" for role in ("query", "response", "contexts", "reference") if role in found]
    return shlex.quote(",".join(named) or "query=Question")


def list_columns(names: Iterable[str]) -> str:
    """Return the names of columns for a message, escaped and shortened."""
    names = list(names)
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(quote_text(name, 40) for name in names[:20]) + more


# --- CSV and Excel: a header, and rows of cells ----------------------------------------------------------------------

Row = tuple[int, list[str] | LineError]
"""The line of a row, and its cells or why they cannot be read."""


def _cell_records(path: Path, problems: Problems, rows: Iterator[Row]) -> Iterator[Record]:
    line, header = next(rows, (1, []))
    if isinstance(header, LineError):
        problems.add(path, line, str(header))
        return
    names = _names(header)
    for place, name in enumerate(names):
        if name and name in names[:place]:
            problems.add(path, line, f"two columns have the name {quote_text(name)}")
            return
    for number, (line, cells) in enumerate(rows, start=1):
        if isinstance(cells, LineError):
            problems.add(path, line, str(cells))
        elif len(cells) != len(names):
            problems.add(path, line, f"the row has {len(cells)} cells, but there are {len(names)} columns")
        else:
            # A column without a name is the index of pandas.
            values = {name: cell or None for name, cell in zip(names, cells, strict=True) if name}
            yield Record(number, line, None, values)


def _cell_rows(path: Path, text: str, kind: TableKind, options: TableOptions) -> Iterator[Row]:
    """The rows of a sheet, or of a CSV file with this text."""
    if kind == "excel":
        return iter(_excel_rows(path, options.sheet))
    return split_csv(text, options.delimiter or detect_delimiter(path, text))


def detect_delimiter(path: Path, text: str) -> str:
    """Return the delimiter of a CSV file: the first that gives all rows the same number of cells, and more than one.

    If there is none, it is the one that gives the header the most columns.
    """
    if plain_suffix(path) == ".tsv":
        return "\t"
    text = text[:_HEAD]
    is_cut = len(text.encode()) >= _HEAD
    columns: dict[str, int] = {}
    for delimiter in (",", ";", "\t", "|"):
        rows = list(islice(split_csv(text, delimiter), _COMPARED_ROWS))
        whole = rows[:-1] if is_cut else rows
        widths = [len(cells) for _, cells in whole if not isinstance(cells, LineError)]
        if len(set(widths)) == 1 < widths[0]:
            return delimiter
        columns[delimiter] = widths[0] if widths else 0
    return max(columns, key=lambda delimiter: columns[delimiter])


def table_header(path: Path, text: str, kind: TableKind, options: TableOptions) -> list[str]:
    """Return the names of the columns of a file that begins with this text."""
    if kind == "parquet":
        return column_names(path)
    return _names(next(_cell_rows(path, text, kind, options), (1, []))[1])


def looks_like_csv(path: Path, text: str) -> bool:
    """Whether a text begins like CSV: at least two columns with distinct short names, and a row of as many cells."""
    rows = split_csv(text, detect_delimiter(path, text))
    names, cells = _names(next(rows, (1, []))[1]), _names(next(rows, (1, []))[1])
    return 1 < len(names) == len(cells) and len(set(names)) == len(names) and all(0 < len(name) < 64 for name in names)


def _names(cells: list[str] | LineError) -> list[str]:
    return [] if isinstance(cells, LineError) else cells


def split_csv(text: str, delimiter: str) -> Iterator[Row]:
    """Yield the rows that are not blank, each with its first line.

    The standard library's reader rejects cells above 128 KiB, unless a limit of the whole program is raised.
    """
    end_of_cell = re.escape(delimiter)
    cell = re.compile(rf'(?:"([^"]*(?:""[^"]*)*)"|((?!")[^{end_of_cell}\r\n]*))({end_of_cell}|\r\n|\r|\n|\Z)')
    place = 0
    line = first_line = 1
    cells: list[str] = []
    while place < len(text) or cells:
        found = cell.match(text, place)
        if found is None:
            yield line, LineError("a cell begins with a quotation mark, but has none at its end")
            return
        quoted, plain, end = found.groups()
        cells.append(plain if quoted is None else quoted.replace('""', '"'))
        line += found[0].count("\n")
        place = found.end()
        if end != delimiter:
            if cells != [""]:
                yield first_line, cells
            cells, first_line = [], line


def _excel_rows(path: Path, sheet: str | None) -> list[Row]:
    """Return the rows of a sheet that are not blank; cells are converted to strings."""
    workbook = _open_workbook(path)
    try:
        if sheet is not None and sheet not in workbook.sheetnames:
            known = list_columns(workbook.sheetnames)
            raise DataFileError(path, None, f"there is no sheet {quote_text(sheet)}; the sheets are {known}")
        cells = workbook[sheet or workbook.sheetnames[0]]
        cells.reset_dimensions()  # some programs write a wrong size
        rows = [(number, [_cell_text(cell) for cell in row]) for number, row in enumerate(cells.values, start=1)]
    except _WORKBOOK_DAMAGE as error:
        raise _reading_error(path, "Excel", error) from error
    finally:
        workbook.close()
    rows = [(number, row) for number, row in rows if any(row)]
    width = max((place for place, name in enumerate(rows[0][1], start=1) if name), default=0) if rows else 0
    return [(number, _resize(row, width)) for number, row in rows]


def _open_workbook(path: Path) -> Any:
    openpyxl = MissingDependencyError.import_module(
        "openpyxl", purpose="reading Excel files", install="'auepora-eval[excel]'"
    )
    if is_compressed(path):
        raise DataFileError(path, None, "Excel files are compressed already; leave out the '.gz' or '.zst'")
    try:
        with zipfile.ZipFile(path) as parts:  # the sizes are checked before anything is decompressed
            if sum(part.file_size for part in parts.infolist()) > max_line_size():
                raise DataFileError(path, None, limit_message("the workbook"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and other content that is not read
            return openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
    except FileNotFoundError as error:
        raise DataFileError(path, None, "no such file") from error
    except (openpyxl.utils.exceptions.InvalidFileException, *_WORKBOOK_DAMAGE) as error:
        raise _reading_error(path, "Excel", error) from error


def _reading_error(path: Path, kind: str, error: Exception) -> AueporaError:
    if isinstance(error, AueporaError):
        return error
    reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
    return DataFileError(path, None, f"cannot be read as {kind}: {reason}")


def _cell_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():  # Excel stores every number as a float
        return str(int(value))
    return value.isoformat() if isinstance(value, date | time) else str(value)


def _resize(row: list[str], width: int) -> list[str]:
    """Return a row with as many cells as there are columns, unless further ones are filled."""
    row = row[:width] if not any(row[width:]) else row
    return row + [""] * (width - len(row))


# --- Parquet ---------------------------------------------------------------------------------------------------------

PANDAS_INDEX = "__index_level_"
"""The prefix of the index columns that pandas adds."""
ROW_GROUP = 4096
"""How many rows are read or written at once."""


def _parquet_records(path: Path) -> Iterator[Record]:
    for number, row in enumerate(read_rows(path), start=1):
        values = {name: value for name, value in row.items() if not name.startswith(PANDAS_INDEX)}
        yield Record(number, number, None, values)


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table; an invalid file is a ``DataFileError``."""
    _, parquet = load_arrow()
    require_plain_parquet(path)
    with (
        open_bytes(path) as file,
        parquet_errors(path),
        parquet.ParquetFile(file, page_checksum_verification=True) as table,
    ):
        require_small_pages(path, file, table)
        for batch in table.iter_batches(batch_size=ROW_GROUP, use_threads=False):
            yield from batch.to_pylist()


def column_names(path: Path) -> list[str]:
    """Return the names of the columns without the index of pandas; an invalid file is a ``DataFileError``."""
    _, parquet = load_arrow()
    with open_bytes(path) as file, parquet_errors(path):
        return [name for name in parquet.read_schema(file).names if not name.startswith(PANDAS_INDEX)]


def require_small_pages(path: Path, file: IO[bytes], table: ParquetFile) -> None:
    """Raise if a page is larger than ``max_line_size`` when it is decompressed, before any is."""
    limit, metadata = max_line_size(), table.metadata
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        checked = group.num_columns if group.total_byte_size > limit else 0
        for column in map(group.column, range(checked)):
            if column.total_uncompressed_size > limit and max(_page_sizes(file, column), default=0) > limit:
                place = f"row group {number}, column {quote_text(column.path_in_schema)}"
                raise DataFileError(path, None, limit_message(f"{place}: a page"))


def _page_sizes(file: IO[bytes], column: Any) -> Iterator[int]:
    """Yield the decompressed sizes of the pages of a column chunk, from their headers; Arrow has no function for it."""
    start = min(column.data_page_offset, column.dictionary_page_offset or column.data_page_offset)
    position, end = file.seek(start), start + column.total_compressed_size
    with contextlib.suppress(LookupError, ValueError):  # Arrow reports a damaged file
        while position < end:
            header = _read_thrift_struct(file)
            yield header[2]  # uncompressed_page_size
            position = file.seek(header[3], io.SEEK_CUR)  # compressed_page_size


def _read_thrift_struct(file: IO[bytes]) -> dict[int, int]:
    """Read a struct of Thrift's compact protocol: its integers by field number; other values are skipped."""
    found: dict[int, int] = {}
    field = 0
    while head := file.read(1)[0]:
        kind = head & 15
        field = field + (head >> 4) if head >> 4 else _read_varint(file) >> 1
        if kind in (4, 5, 6):  # integers, as zigzag varints; sizes and counts are not negative
            found[field] = _read_varint(file) >> 1
        elif kind == 8:  # a string
            file.seek(_read_varint(file), io.SEEK_CUR)
        elif kind == 12:
            _read_thrift_struct(file)
        elif kind not in (1, 2):  # true and false have no value; page headers contain no other types
            raise ValueError(kind)
    return found


def _read_varint(file: IO[bytes]) -> int:
    value = shift = 0
    while (byte := file.read(1)[0]) > 127:
        value |= (byte & 127) << shift
        shift += 7
    return value | byte << shift


@contextlib.contextmanager
def parquet_errors(path: Path) -> Iterator[None]:
    """Translate errors of Arrow to a ``DataFileError`` that names the file."""
    import pyarrow as pa

    try:
        yield
    except AueporaError:
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError, RecursionError, MemoryError) as error:
        raise _reading_error(path, "Parquet", error) from error


def require_plain_parquet(path: Path) -> None:
    """Raise if a Parquet file is compressed as a whole."""
    if is_compressed(path):
        raise DataFileError(
            path, None, "Parquet files compress what they hold themselves; leave out the '.gz' or '.zst'"
        )


def load_arrow() -> tuple[Any, Any]:
    """The modules ``pyarrow`` and ``pyarrow.parquet``; raises if the extra ``parquet`` is not installed."""
    require_arrow()
    import pyarrow as pa
    from pyarrow import parquet

    return pa, parquet


def require_arrow(purpose: str = "reading and writing Parquet") -> None:
    """Raise if the extra ``parquet`` is not installed."""
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingDependencyError("pyarrow", purpose=purpose, install="'auepora-eval[parquet]'")


# --- JSON ------------------------------------------------------------------------------------------------------------


def _json_records(path: Path, problems: Problems, options: TableOptions, names: Collection[str]) -> Iterator[Record]:
    found = _array_under_key(path, options.rows, names) if names else None
    if found is None:
        return map(Record._make, read_values(path, problems, decode_object))
    return map(Record._make, read_array(path, problems, *found, decode_object))


def _array_under_key(path: Path, key: str | None, names: Collection[str]) -> tuple[bytes, int] | None:
    """Return the array of records and its first line; ``None`` if the records are not under a key."""
    if plain_suffix(path) != ".json" and key is None:
        return None
    lines = read_lines(path)
    first, second = next(lines, None), next(lines, None)
    if first is None or not first[1].lstrip().startswith(b"{") or (second is not None and _is_object(first[1])):
        return None
    data = read_bytes(path, is_document=True)
    try:
        values = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (ValueError, RecursionError):
        return None
    if key is None and not values.keys().isdisjoint(names):
        return None
    arrays = [name for name, raw in values.items() if re.match(rb"\s*\[\s*\{", bytes(raw))]
    if key is not None and key not in arrays:
        known = list_columns(arrays) if arrays else "nowhere in it"
        raise DataFileError(path, None, f"there are no records under {quote_text(key)}; there are records {known}")
    if key is None and len(arrays) > 1:
        hint = f"name one, as in --columns rows={arrays[0]}"
        raise DataFileError(path, None, f"there are records under the keys {list_columns(arrays)}; {hint}")
    if not arrays:
        return None
    array = bytes(values[key or arrays[0]])
    return array, data.count(b"\n", 0, data.index(array)) + 1


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except (ValueError, RecursionError):
        return False


def decode_object(data: bytes) -> dict[str, Any]:
    """Decode one JSON object. ``NaN`` is a missing value, as pandas writes it."""
    try:
        value = msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            too_long = isinstance(error, msgspec.ValidationError)  # Python's limit on the digits of an integer
            raise LineError(TOO_LONG if too_long else decoding_problem(data, error, _SHAPE)) from error
        value = {key: item for key, item in _require_object(value).items() if item == item}
        if problem := first_invalid_value(value):
            raise LineError(problem) from error
    return _require_object(value)


def _require_object(value: object) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise LineError(f"each record must be one JSON object, not {type_name(value)}")
