"""TREC lines read by Arrow (extra ``parquet``), for files with single spaces or single tabs between their columns."""

from __future__ import annotations

import codecs
import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.errors import MissingDependencyError
from .python_reader import parse_level
from .trec_lines import Floats, Ints, TrecLines

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ArrowDocIds", "arrow_is_installed", "encode_qrels", "qrels_lines", "require_arrow", "run_lines"]

_BLOCK_BYTES = 1 << 19
_SPACE = 32


def arrow_is_installed() -> bool:
    """Whether Arrow is installed."""
    return importlib.util.find_spec("pyarrow") is not None


def require_arrow() -> None:
    """Raise with an install hint if Arrow is not installed."""
    if not arrow_is_installed():
        raise MissingDependencyError("pyarrow", purpose="reader='arrow'", install="'auepora-eval[parquet]'")


def run_lines(data: bytes) -> TrecLines[Floats] | None:
    """Read the lines of a run; ``None`` if Arrow would not read them as Python does."""
    import pyarrow as pa

    table = _read_table(
        data, 6, {"0": pa.dictionary(pa.int32(), pa.string()), "2": pa.large_string(), "4": pa.float64()}
    )
    if table is None:
        return None
    scores = table["4"].to_numpy()
    if np.isnan(scores).any():
        return None
    queries, rows = _dictionary_codes(table, "0")
    return TrecLines(queries, rows, ArrowDocIds(table["2"]), scores)


def qrels_lines(data: bytes) -> TrecLines[list[int]] | None:
    """Read the lines of qrels; ``None`` if Arrow would not read them as Python does."""
    encoded = encode_qrels(data)
    if encoded is None:
        return None
    lines, levels = encoded
    return TrecLines(lines.queries, lines.rows, lines.docs, np.array(levels, dtype=object)[lines.values].tolist())


def encode_qrels(data: bytes) -> tuple[TrecLines[Ints], list[int]] | None:
    """Read the lines of qrels with an index of the level of each line, and the distinct levels."""
    import pyarrow as pa

    dictionary = pa.dictionary(pa.int32(), pa.string())
    table = _read_table(data, 4, {"0": dictionary, "2": pa.large_string(), "3": dictionary})
    if table is None:
        return None
    texts, indexes = _dictionary_codes(table, "3")
    try:
        # Not the integers of Arrow: it accepts 0x10, and no level above 64 bits.
        levels = [parse_level(text.encode()) for text in texts]
    except ValueError:
        return None
    queries, rows = _dictionary_codes(table, "0")
    return TrecLines(queries, rows, ArrowDocIds(table["2"]), indexes), levels


def _read_table(data: bytes, columns: int, types: dict[str, Any]) -> pa.Table | None:
    """Read columns by their numbers; ``None`` if the lines are not regular, or a number is invalid."""
    import pyarrow as pa
    from pyarrow import csv

    # Arrow treats \r as a line end and drops a second byte order mark, which Python treats as part of the first id.
    if b"\r" in data or data.startswith(codecs.BOM_UTF8):
        return None
    white = _count_single_white_space(data)
    if not white:
        return None
    tab = b"\t" in data[: data.find(b"\n") + 1 or None]
    try:
        table = csv.read_csv(
            pa.py_buffer(data),
            read_options=csv.ReadOptions(column_names=list(map(str, range(columns)))),
            parse_options=csv.ParseOptions(
                delimiter="\t" if tab else " ", quote_char=False, double_quote=False, escape_char=False
            ),
            convert_options=csv.ConvertOptions(
                column_types=types, include_columns=list(types), null_values=[], check_utf8=False
            ),
        )
    except pa.ArrowInvalid:
        return None
    # The number of delimiters and line ends that Arrow read; any other white space makes the file irregular.
    return table if white == columns * table.num_rows - (not data.endswith(b"\n")) else None


def _count_single_white_space(data: bytes) -> int:
    """Count the bytes of white space or control characters; 0 if two are adjacent or the first byte is one."""
    whole = np.frombuffer(data, dtype=np.uint8)
    if not data or whole[0] <= _SPACE:
        return 0
    total = 0
    for start in range(0, len(data), _BLOCK_BYTES):
        white = whole[start : start + _BLOCK_BYTES + 1] <= _SPACE  # one more, to see a pair across the block boundary
        if (white[1:] & white[:-1]).any():
            return 0
        total += int(np.count_nonzero(white[:_BLOCK_BYTES]))
    return total


def _dictionary_codes(table: pa.Table, column: str) -> tuple[list[str], Ints]:
    """Return the distinct strings of a column by first occurrence, and the index of the string of each line."""
    chunks = table[column].unify_dictionaries().chunks
    indexes = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in chunks]
    return chunks[0].dictionary.to_pylist(), np.concatenate(indexes).astype(np.int64)


class ArrowDocIds:
    """The document ids of all lines as a column of Arrow."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self.column = column

    def texts(self, order: Ints | None = None) -> list[str]:
        """Return the cells as strings, in the order of the lines or in another."""
        column = self.column if order is None else self.column.take(order)
        texts: list[str] = []
        for chunk in column.chunks:
            texts += chunk.to_numpy(zero_copy_only=False).tolist()
        return texts
