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
    """Whether this reader can be used."""
    return importlib.util.find_spec("pyarrow") is not None


def require_arrow() -> None:
    """Raise, with a hint, where this reader cannot be used."""
    if not arrow_is_installed():
        raise MissingDependencyError("pyarrow", purpose="reader='arrow'", install="'auepora-eval[parquet]'")


def run_lines(data: bytes) -> TrecLines[Floats] | None:
    """The lines of a run, or ``None`` if Arrow would not read them as Python does."""
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
    """The lines of qrels, or ``None`` if Arrow would not read them as Python does."""
    coded = encode_qrels(data)
    if coded is None:
        return None
    lines, levels = coded
    return TrecLines(lines.queries, lines.rows, lines.docs, np.array(levels, dtype=object)[lines.values].tolist())


def encode_qrels(data: bytes) -> tuple[TrecLines[Ints], list[int]] | None:
    """The lines of qrels with the place of each level among the levels there are, and those."""
    import pyarrow as pa

    coded = pa.dictionary(pa.int32(), pa.string())
    table = _read_table(data, 4, {"0": coded, "2": pa.large_string(), "3": coded})
    if table is None:
        return None
    texts, places = _dictionary_codes(table, "3")
    try:
        # Not Arrow's integers: it reads 0x10, and no level beyond 64 bits.
        levels = [parse_level(text.encode()) for text in texts]
    except ValueError:
        return None
    queries, rows = _dictionary_codes(table, "0")
    return TrecLines(queries, rows, ArrowDocIds(table["2"]), places), levels


def _read_table(data: bytes, columns: int, types: dict[str, Any]) -> pa.Table | None:
    """The wanted columns, by their numbers; ``None`` where the lines are not regular, or a number is no number."""
    import pyarrow as pa
    from pyarrow import csv

    # Arrow takes \r for a line end and drops a second byte order mark, which Python takes for a part of the first id.
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
    # Arrow saw so many delimiters and line ends. Any other white space is one too many.
    return table if white == columns * table.num_rows - (not data.endswith(b"\n")) else None


def _count_single_white_space(data: bytes) -> int:
    """How many bytes of white space or control characters there are; 0 if two are together or the first is one."""
    whole = np.frombuffer(data, dtype=np.uint8)
    if not data or whole[0] <= _SPACE:
        return 0
    total = 0
    for start in range(0, len(data), _BLOCK_BYTES):
        white = whole[start : start + _BLOCK_BYTES + 1] <= _SPACE  # one more, to see the pair across the border
        if (white[1:] & white[:-1]).any():
            return 0
        total += int(np.count_nonzero(white[:_BLOCK_BYTES]))
    return total


def _dictionary_codes(table: pa.Table, column: str) -> tuple[list[str], Ints]:
    """The distinct texts of a column by first appearance, and for each line the place of its text among them."""
    chunks = table[column].unify_dictionaries().chunks
    places = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in chunks]
    return chunks[0].dictionary.to_pylist(), np.concatenate(places).astype(np.int64)


class ArrowDocIds:
    """The document ids of all lines, as Arrow has them."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self.column = column

    def texts(self, order: Ints | None = None) -> list[str]:
        """The cells as texts, in the order of the lines or in another."""
        column = self.column if order is None else self.column.take(order)
        texts: list[str] = []
        for chunk in column.chunks:
            texts += chunk.to_numpy(zero_copy_only=False).tolist()
        return texts
