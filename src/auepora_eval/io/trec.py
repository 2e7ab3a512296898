"""TREC files: qrels (judgements) and runs (rankings), read as trec_eval reads them, and written.

Lines are read as columns, by Arrow or by NumPy; those that neither can read are read one by one.
"""

from __future__ import annotations

import codecs
import importlib.util
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import chain, count, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec
import numpy as np
import numpy.typing as npt

from ..core.types import Document, EvaluationSample, RetrievedDocument, SystemOutputs
from ..errors import BadValueError
from ..features.rankings import parse_level as parse_gold_level
from ..runtime.files import read_bytes, write_lines
from ..runtime.processes import gc_paused
from .codec import LineError, encode_outputs, encode_samples
from .formats import is_qrels_comment, parse_trec_level
from .problems import Problems, quote_text
from .tables import require_arrow

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class TrecLayout:
    """The columns of the lines of a file: a query, a document and a number among them."""

    names: tuple[str, ...]
    value: int
    """The column of the number."""
    parse: Callable[[bytes], float]
    """Parses the number; anything else is a ``ValueError``."""
    kind: str
    may_have_more: bool = False
    """Whether a line may have further columns, which are ignored."""


def parse_score(text: bytes) -> float:
    """Parse a score; anything but a number is a ``ValueError``."""
    score = float(text)
    if math.isnan(score) or b"_" in text:  # Python accepts 1_000 as a number
        raise ValueError
    return score


QUERY, DOCUMENT = 0, 2
"""The columns of query and document, in both layouts."""
QRELS = TrecLayout(("query", "iteration", "document", "level"), 3, parse_trec_level, "an integer")
RUN = TrecLayout(("query", "Q0", "document", "rank", "score", "tag"), 4, parse_score, "a number", may_have_more=True)


Reader = Literal["auto", "python", "arrow"]
"""The parser of the lines. Both give the same result; ``auto`` is Arrow if it is installed and the file is large.

A file that Arrow cannot parse (mixed white space, Windows line ends) is read by the other.
"""

ScoredRun = dict[str, tuple[list[str], list[float]]]
"""By query: the documents, best first, and their scores."""
_MIN_ARROW_BYTES = 4 << 20  # for smaller files, importing Arrow takes longer than it saves


def load_qrels(
    path: str | Path, *, reader: Reader = "auto", problems: Problems | None = None
) -> dict[str, dict[str, int]]:
    """Load judged levels by query and document, in file order. Of several levels for one document the highest counts.

    Lines that begin with ``#`` are comments, unless they are judgements of a query whose id begins so. Invalid lines
    are added to the problems; the first is raised without.
    """
    path = Path(path)
    data = read_bytes(path)
    with gc_paused():
        lines = read_columns(without_comments(data), QRELS, by_arrow=use_arrow(reader, path))
        return _qrels_by_line(path, data, problems or Problems()) if lines is None else judgements(lines)


def load_run(path: str | Path, *, reader: Reader = "auto") -> dict[str, list[str]]:
    """Load retrieved documents by query, best first: by score descending, ties by document id descending.

    As in trec_eval the rank column is ignored, and so is anything after the sixth column. A repeated document is kept
    twice. Queries are in file order.
    """
    path = Path(path)
    data = read_bytes(path)
    with gc_paused():
        lines = read_columns(data, RUN, by_arrow=use_arrow(reader, path))
        if lines is not None:
            return rankings(lines)
        return {query: docs for query, (docs, _) in _run_by_line(path, data, Problems()).items()}


def load_scored_run(path: Path, problems: Problems) -> ScoredRun:
    """Like ``load_run``, with the scores; invalid lines are added to the problems."""
    data = read_bytes(path)
    with gc_paused():
        lines = read_columns(data, RUN, by_arrow=use_arrow("auto", path))
        if lines is None:
            return _run_by_line(path, data, problems)
        # Rankings are by score descending, so the sorted scores of a query match its documents, even with ties.
        scores = iter(lines.values[np.lexsort((-lines.values, lines.rows))].tolist())
        return {query: (docs, list(islice(scores, len(docs)))) for query, docs in rankings(lines).items()}


def read_columns(data: bytes, layout: TrecLayout, *, by_arrow: bool) -> TrecLines | None:
    """Read the lines by the fastest reader that can parse them; ``None`` if they must be read one by one."""
    lines = read_with_arrow(data, layout) if by_arrow else None
    return read_with_numpy(data, layout) if lines is None else lines


def without_comments(data: bytes) -> bytes:
    """Return the lines of qrels that are not comments."""
    if not data.startswith(b"#") and b"\n#" not in data:
        return data
    return b"\n".join(line for line in data.split(b"\n") if not is_qrels_comment(line.split()))


def trec_rankings(
    qrels: Mapping[str, dict[str, int]], run: Mapping[str, list[str]]
) -> tuple[list[str], list[dict[str, int]], list[list[str] | None]]:
    """Return the query ids of the qrels, their judged levels, and their rankings (``None``: not in the run).

    Queries that only the run has cannot be scored and are omitted; ``queries_without_judgements`` lists them.
    """
    require_common_query(qrels, run)
    return list(qrels), list(qrels.values()), [run.get(query) for query in qrels]


def require_common_query(qrels: Mapping[str, object], run: Mapping[str, object]) -> None:
    """Raise if qrels and run share no query: then the two do not belong together."""
    if qrels and run and qrels.keys().isdisjoint(run):
        raise BadValueError(
            f"qrels and run share no query: the first query of the qrels is {next(iter(qrels))!r}, of the run "
            f"{next(iter(run))!r}; do the two belong together?"
        )


def queries_without_judgements(qrels: Mapping[str, object], run: Mapping[str, object]) -> list[str]:
    """Return the queries that only the run has, in its order."""
    return [query for query in run if query not in qrels]


def use_arrow(reader: str, *paths: Path) -> bool:
    """Whether Arrow reads these files: it was requested, or it is installed and one of them is large."""
    if reader not in get_args(Reader):
        raise BadValueError(f"unknown reader {reader!r}; choose one of: {', '.join(get_args(Reader))}")
    if reader == "arrow":
        require_arrow("reader='arrow'")
        return True
    large = any(path.is_file() and path.stat().st_size >= _MIN_ARROW_BYTES for path in paths)
    return reader == "auto" and large and arrow_is_installed()


def _qrels_by_line(path: Path, data: bytes, problems: Problems) -> dict[str, dict[str, int]]:
    """Like ``load_qrels``, line by line."""
    judged: dict[bytes, dict[bytes, int]] = {}
    for query, doc, level in _iter_rows(path, data, QRELS, problems):
        levels = judged.setdefault(query, {})
        levels[doc] = max(level, levels.get(doc, level))
    return {
        query.decode(): dict(zip(_decode_ids(list(levels)), levels.values(), strict=True))
        for query, levels in judged.items()
    }


def _run_by_line(path: Path, data: bytes, problems: Problems) -> ScoredRun:
    """Like ``load_scored_run``, line by line."""
    returned: dict[bytes, list[tuple[float, bytes]]] = {}
    for query, doc, score in _iter_rows(path, data, RUN, problems):
        returned.setdefault(query, []).append((score, doc))
    found: ScoredRun = {}
    for query, lines in returned.items():
        ranked = sorted(lines, reverse=True)
        found[query.decode()] = _decode_ids([doc for _, doc in ranked]), [score for score, _ in ranked]
    return found


def _iter_rows(path: Path, data: bytes, layout: TrecLayout, problems: Problems) -> Iterator[tuple[bytes, bytes, Any]]:
    """Yield query, document and number of each line; invalid lines are added to the problems."""
    # Bytes throughout: `bytes.split` splits at the white space of C, where `str.split` would also split ids at a
    # no-break space; and bytes compare as strcmp does.
    max_splits = len(layout.names) if layout.may_have_more else -1
    empty = True
    for number, line in enumerate(data.split(b"\n"), start=1):
        columns = line.split(None, max_splits)
        if not columns or (layout is QRELS and is_qrels_comment(columns)):
            continue
        empty = False
        try:
            value = _parse_value(line, columns, layout)
        except LineError as error:
            problems.add(path, number, str(error))
            continue
        yield columns[QUERY], columns[DOCUMENT], value
    if empty and not problems.found:
        problems.add(path, None, f"the file is empty; each line must be '{' '.join(layout.names)}'")


def _parse_value(line: bytes, columns: Sequence[bytes], layout: TrecLayout) -> float:
    """Return the number of a line; one that has other columns, or no number, is a ``LineError``."""
    count = len(layout.names)
    if len(columns) < count or (len(columns) > count and not layout.may_have_more):
        hint = {4: " (is this a qrels file?)", 6: " (is this a run file?)"}.get(len(columns), "")
        expected = f"expected {count} columns ({', '.join(layout.names)})"
        raise LineError(f"{expected}, found {len(columns)}{hint}: {quote_text(line.decode().strip())}")
    text = columns[layout.value]
    try:
        return layout.parse(text)
    except ValueError:
        name = f"the {layout.names[layout.value]} (column {layout.value + 1})"
        raise LineError(f"{name} must be {layout.kind}, found {quote_text(text.decode())}") from None


def _decode_ids(ids: Sequence[bytes]) -> list[str]:
    return b"\n".join(ids).decode().split("\n")  # one call for all: an id contains no newline


# --- writing ----------------------------------------------------------------------------------------------------------

_TAG = b"auepora"


def judged_documents(levels: dict[str, int]) -> tuple[list[Document], list[Document] | None]:
    """Return relevant documents with their level, and those judged non-relevant; negative levels are not judgements."""
    relevant = [Document(doc, metadata={"relevance": level}) for doc, level in levels.items() if level > 0]
    others = [Document(doc) for doc, level in levels.items() if level == 0]
    return relevant, others or None


def judged_levels(sample: EvaluationSample) -> dict[str, int]:
    """Return the level by document: the highest of each relevant one, 0 for other candidates. No level is an error."""
    levels: dict[str, int] = {}
    for doc in sample.relevant_docs or ():
        level = parse_gold_level(doc.metadata.get("relevance", 1), doc.doc_id, sample.sample_id)
        levels[doc.doc_id] = max(level, levels.get(doc.doc_id, level))
    for doc in sample.candidate_docs or ():
        levels.setdefault(doc.doc_id, 0)
    if not levels:
        raise BadValueError(
            f"sample {sample.sample_id!r} cannot be written: it has no judged document, and qrels list only "
            "queries with judgements; leave the sample out"
        )
    return levels


def save_qrels(samples: Iterable[EvaluationSample], path: str | Path) -> None:
    """Write judgements: the level of each relevant document, 0 for other candidates."""
    write_lines(Path(path), chain.from_iterable(encode_samples(samples, _qrels_rows)))


def _qrels_rows(sample: EvaluationSample) -> list[bytes]:
    query = _cell(sample.sample_id)
    if query == b"#":
        raise LineError("a line of qrels that begins with '# ' is a comment")
    return [b"%b 0 %b %d" % (query, _cell(doc), level) for doc, level in judged_levels(sample).items()]


def save_run(outputs: Iterable[tuple[str, SystemOutputs]], path: str | Path) -> None:
    """Write rankings with the scores they have.

    A run is sorted by its scores when it is read. If a score is missing, or the scores do not give the order of the
    list, the whole ranking is written with 1/rank, so that the order of the list is kept.
    """
    write_lines(Path(path), chain.from_iterable(encode_outputs(outputs, _run_rows)))


def _run_rows(sample_id: str, output: SystemOutputs) -> list[bytes]:
    query = _cell(sample_id)
    if not output.retrieved:
        raise LineError("it retrieved nothing, which a run cannot represent; leave the sample out")
    return [
        b"%b Q0 %b %d %b %b" % (query, _cell(item.doc.doc_id), rank, repr(score).encode(), _TAG)
        for rank, (item, score) in enumerate(zip(output.retrieved, _run_scores(output.retrieved), strict=True), start=1)
    ]


def _run_scores(retrieved: list[RetrievedDocument]) -> list[float]:
    try:
        scores = [float(item.score) for item in retrieved if item.score is not None]
    except (TypeError, ValueError, OverflowError) as error:
        raise LineError(f"a score is not a number: {error}") from error
    if any(map(math.isnan, scores)):
        raise LineError("a score is NaN")
    if len(scores) == len(retrieved):
        keys = [(score, item.doc.doc_id) for score, item in zip(scores, retrieved, strict=True)]
        if keys == sorted(keys, reverse=True):
            return scores
    return [1 / rank for rank in range(1, len(retrieved) + 1)]


def require_trec_id(text: str, owner: str) -> None:
    """Raise unless an id is valid in a TREC file."""
    try:
        _cell(text)
    except LineError as error:
        raise BadValueError(f"{owner} cannot be written: {error}") from error


def _cell(text: str) -> bytes:
    try:
        cell = text.encode()
    except (UnicodeEncodeError, AttributeError):
        raise LineError(f"the id {text!r:.80} is not valid text") from None
    if cell.split() != [cell] or text.startswith("\ufeff"):  # a byte order mark would be dropped on reading
        raise LineError(f"the id {text!r:.80} is empty or holds white space")
    return cell


# --- lines as columns -------------------------------------------------------------------------------------------------

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

_BLOCK_BYTES = 1 << 19  # the temporary arrays of a block fit into the CPU cache
_CHUNK = 1 << 15
"""The number of cells that are hashed at once."""
_NEWLINE, _SPACE = 10, 32
_WORD = 8
_HALF = np.uint64(32)
_MAX_FAST_BYTES = 64  # bytes: longer cells are rare and use a slower path
_PADDING = b"\n" + bytes(_MAX_FAST_BYTES)
"""Follows a file, and a newline precedes it, so that every cell is surrounded by white space."""
# For 0 to 8 bytes: the mask of their bits in a little-endian word.
_BYTE_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_WORD + 1)], dtype="<u8")
HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio, as Knuth hashes


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Some complete lines."""

    offset: int
    """The position of the block in the file."""
    text: Bytes
    """The lines, followed by at least 64 bytes."""
    starts: Ints
    """The start of each cell: a row for each line that is not blank, a column for each column."""
    ends: Ints
    """The end of each cell."""

    def cells(self, column: int, separator: bytes = b"\n") -> bytes:
        """Return the cells of one column, each followed by a separator."""
        return _join_cells(self.text, self.starts[:, column], self.ends[:, column], separator)


class TextColumn:
    """The cells of one column of all lines, as places in a text that goes on for 64 bytes after the last cell."""

    def __init__(self, text: Bytes, starts: Ints, ends: Ints) -> None:
        self._text, self._starts, self._ends = text, starts, ends

    def texts(self, order: Ints | None = None) -> list[str]:
        """Return the cells as strings, in the order of the lines or in another.

        Strings that are used in sequence should be created in sequence, so that they are adjacent in memory.
        """
        found: list[str] = []
        count = len(self._starts) if order is None else len(order)
        step = max(_BLOCK_BYTES * len(self._starts) // len(self._text), 1)
        for first in range(0, count, step):
            lines = slice(first, first + step)
            found += self._joined(lines if order is None else order[lines]).decode().split("\n")
            found.pop()
        return found

    def hashes(self, pool: Executor) -> Words:
        """Return a hash for each cell. Hashes may collide: equal hashes need a comparison of the cells."""
        hashes = (self._ends - self._starts).astype(np.uint64)
        words = _words_at_each_byte(self._text)

        def mix(first: int) -> None:
            lines = slice(first, first + _CHUNK)
            own = hashes[lines]
            for which, word in _iter_words(words, self._starts[lines], self._ends[lines]):
                mixed = (own[which] ^ word) * HASH_FACTOR
                own[which] = mixed ^ (mixed >> _HALF)

        list(pool.map(mix, range(0, len(hashes), _CHUNK)))
        return hashes

    def equal(self, lines: Ints, other: TextColumn, other_lines: Ints) -> bool:
        """Whether these cells are equal to the other ones, pairwise."""
        return self._joined(lines) == other._joined(other_lines)

    def descending(self, lines: Ints, groups: Ints) -> Ints:
        """Return the position of each cell after sorting every group in descending order of code points.

        ``groups`` is the first position of the group of each line, in ascending order, and a group has as many
        positions as lines. The order of equal cells is undefined.
        """
        texts = self.texts(lines)
        by_text = np.array(sorted(range(len(texts)), key=texts.__getitem__, reverse=True), dtype=np.int64)
        positions = np.empty(len(lines), dtype=np.int64)
        positions[by_text[np.argsort(groups[by_text], kind="stable")]] = np.arange(len(lines))
        return positions + groups - np.searchsorted(groups, groups)

    def _joined(self, lines: Ints | slice) -> bytes:
        return _join_cells(self._text, self._starts[lines], self._ends[lines])


def _words_at_each_byte(text: Bytes) -> Words:
    """Return the little-endian word that begins at each byte."""
    return np.ndarray(len(text) - _WORD + 1, "<u8", text, strides=(1,))


def _iter_words(words: Words, starts: Ints, ends: Ints) -> Iterator[tuple[Ints | slice, Words]]:
    """Yield words that cover every byte of these cells, with the indexes of the cells."""
    which: Ints | slice = slice(None)
    while len(starts):
        sizes = ends - starts
        yield which, words[starts] & _BYTE_MASKS[np.minimum(sizes, _WORD)]
        longer = np.flatnonzero(sizes > _WORD)
        which = longer if isinstance(which, slice) else which[longer]
        starts, ends = starts[longer] + _WORD, ends[longer]


class IrregularLineError(Exception):
    """A line that must be read by ``bytes.split`` and ``float``."""


def iter_blocks(padded: bytes, layout: TrecLayout) -> Iterator[LineBlock]:
    """Yield the lines of a padded file in blocks.

    A line with another number of columns, or with a control character, is an ``IrregularLineError``.
    """
    text = np.frombuffer(padded, dtype=np.uint8)
    start, end = 0, len(padded) - len(_PADDING)
    while start < end:
        stop = padded.rfind(b"\n", start + 1, start + 1 + _BLOCK_BYTES)
        if stop < 0:  # a line longer than a block
            stop = padded.index(b"\n", start + 1)
        starts, ends = _split_cells(text[start : stop + 1], layout)
        if len(starts):
            yield LineBlock(start, text[start:], starts, ends)
        start = stop


def _join_cells(text: Bytes, starts: Ints, ends: Ints, separator: bytes = b"\n") -> bytes:
    """Return pieces of ``text``, each followed by a separator."""
    if not len(starts):
        return b""
    sizes = ends - starts + 1
    joined = _gather(text, starts, sizes)
    joined[np.cumsum(sizes) - 1] = ord(separator)
    return joined.tobytes()


def expand_ranges(starts: Ints, counts: Ints) -> Ints:
    """Return all positions: ``counts`` consecutive ones from each start."""
    return np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts)


def _gather(text: Bytes, starts: Ints, sizes: Ints) -> Bytes:
    """Return the concatenated pieces of ``text`` with these starts and sizes."""
    longest = int(sizes.max())
    if longest > _MAX_FAST_BYTES:
        return text[expand_ranges(starts, sizes)]
    # Copy the same number of bytes from every start as one item, then drop the surplus bytes.
    item = f"V{longest}"
    padded = np.ndarray(len(text) - longest + 1, item, text, strides=(1,))[starts].view(np.uint8)
    if sizes.min() == longest:
        return padded
    kept = np.tri(longest + 1, longest, -1, dtype=np.bool_).view(item)[:, 0][sizes].view(np.bool_)
    return padded[kept]


def _split_cells(text: Bytes, layout: TrecLayout) -> tuple[Ints, Ints]:
    """Return starts and ends of the cells of each line."""
    columns = len(layout.names)
    white = np.flatnonzero(text <= _SPACE)
    kinds = text[white]
    newline = kinds == _NEWLINE
    usual = np.count_nonzero(newline) + np.count_nonzero(kinds == _SPACE)
    if usual < len(kinds) and ((kinds < 9) | ((kinds > 13) & (kinds != _SPACE))).any():
        raise IrregularLineError  # bytes.split splits at 9 to 13 and 32; other control characters are part of a cell
    apart = np.diff(white) > 1
    if apart.all():
        starts, ends = white[:-1] + 1, white[1:]
    else:
        starts, ends = white[:-1][apart] + 1, white[1:][apart]
        newline = np.logical_or.reduceat(newline, np.concatenate(([0], np.flatnonzero(apart) + 1)))
    lines = np.flatnonzero(newline)  # each white space with a newline, by the number of the next cell
    widths = np.diff(lines)
    if not len(widths):
        return starts.reshape(0, columns), ends.reshape(0, columns)
    fewest, most = int(widths.min()), int(widths.max())
    if fewest < columns or (most > columns and not layout.may_have_more):
        raise IrregularLineError
    if fewest == most:
        return starts.reshape(-1, most), ends.reshape(-1, most)
    cells = lines[:-1, np.newaxis] + np.arange(columns)
    return starts[cells], ends[cells]


@dataclass(frozen=True, slots=True)
class TrecLines:
    """The lines of a file in their order, and the ids of their queries by first occurrence."""

    queries: list[str]
    rows: Ints
    """The query of each line, as an index in ``queries``."""
    docs: TextColumn
    values: npt.NDArray[Any]
    """The score or level of each line: floats without NaN, or integers."""


@dataclass(frozen=True, slots=True)
class LineOrder:
    """The order of the lines of a run: by query, then by score descending."""

    lines: Ints | None
    """The line at each position; ``None`` if the lines are already in order."""
    counts: Ints
    """The number of lines of each query."""
    starts: Ints
    """The position of the first line of each query."""
    ties: tuple[Ints, Ints]
    """The ranges of equal scores within a query: first positions, and positions after the last."""

    def lines_at(self, positions: Ints) -> Ints:
        """Return the lines at some positions."""
        return positions if self.lines is None else self.lines[positions]


def sort_lines(lines: TrecLines) -> LineOrder:
    """Return the order of the lines of a run, except within ties."""
    rows, scores = lines.rows, lines.values
    counts = np.bincount(rows, minlength=len(lines.queries))
    ends = np.cumsum(counts)
    order = None
    same = rows[1:] == rows[:-1]
    if (rows[1:] < rows[:-1]).any() or _has_increase(scores, same):
        same = np.ones(len(same), dtype=np.bool_)
        same[ends[:-1] - 1] = False
        order = _order_by_rounded(rows, len(lines.queries), scores)
        if _has_increase(scores[order], same):
            order = np.lexsort((-scores, rows))
        scores = scores[order]
    return LineOrder(order, counts, ends - counts, _tie_ranges(np.flatnonzero(same & (scores[1:] == scores[:-1]))))


def _has_increase(scores: Floats, same: Bools) -> bool:
    """Whether a score is above the previous one of its query."""
    return bool((same & (scores[1:] > scores[:-1])).any())


def _order_by_rounded(rows: Ints, queries: int, scores: Floats) -> Ints:
    """Sort the lines by query and score descending, with scores rounded to the remaining bits."""
    # Query, score and line in one integer: NumPy sorts integers many times faster than it computes argsort.
    line_bits = (len(rows) - 1).bit_length()
    score_bits = max(64 - line_bits - (queries - 1).bit_length(), 0)
    below = _steps_below_best(scores)
    below >>= np.uint64(max(int(below.max()).bit_length() - score_bits, 0))
    below <<= np.uint64(line_bits)
    below |= rows.view(np.uint64) << np.uint64(line_bits + score_bits)
    below |= np.arange(len(rows), dtype=np.uint64)
    below.sort()
    below &= np.uint64((1 << line_bits) - 1)
    return below.view(np.int64)


def _steps_below_best(scores: Floats) -> npt.NDArray[np.uint64]:
    """Return the number of floats between each score and the highest."""
    bits = scores.view(np.int64)
    rising = bits ^ ((bits >> 63) & np.int64(2**63 - 1))  # the bits of negative numbers are in reverse order
    below: npt.NDArray[np.uint64] = rising.max().view(np.uint64) - rising.view(np.uint64)
    return below


def _tie_ranges(tied: Ints) -> tuple[Ints, Ints]:
    """Return starts and ends of ranges of ties; ``tied`` are the positions that tie with the next."""
    if not len(tied):
        return tied, tied
    breaks = np.flatnonzero(np.diff(tied) > 1)
    return tied[np.concatenate(([0], breaks + 1))], tied[np.concatenate((breaks, [len(tied) - 1]))] + 2


def rankings(lines: TrecLines) -> dict[str, list[str]]:
    """Return documents by query, best first: by score descending, ties by id descending."""
    order = sort_lines(lines)
    docs = _sort_ties(lines.docs, order)
    bounds = [*order.starts.tolist(), len(docs)]
    return {query: docs[start:stop] for query, (start, stop) in zip(lines.queries, pairwise(bounds), strict=True)}


def judgements(lines: TrecLines) -> dict[str, dict[str, int]]:
    """Return levels by query and document, in file order. Of several levels for one document the highest counts."""
    rows, levels, order = lines.rows, lines.values, None
    if (rows[1:] < rows[:-1]).any():
        order = np.argsort(rows, kind="stable")
        rows, levels = rows[order], levels[order]
    docs = lines.docs.texts(order)
    pairs = zip(docs, levels.tolist(), strict=True)
    judged = [dict(islice(pairs, count)) for count in np.bincount(rows, minlength=len(lines.queries)).tolist()]
    if sum(map(len, judged)) < len(docs):
        for row, doc, level in zip(rows.tolist(), docs, levels.tolist(), strict=True):
            judged[row][doc] = max(level, judged[row][doc])
    return dict(zip(lines.queries, judged, strict=True))


def _sort_ties(docs: TextColumn, order: LineOrder) -> list[str]:
    """Return the ids in that order, each range of ties by id descending."""
    texts = docs.texts(order.lines)
    starts, stops = order.ties
    # Strings compare by code points, which is the order of their UTF-8 bytes and of strcmp in trec_eval.
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        texts[start:stop] = sorted(texts[start:stop], reverse=True)
    return texts


# --- the reader without Arrow: NumPy finds the columns ----------------------------------------------------------------


def read_with_numpy(data: bytes, layout: TrecLayout) -> TrecLines | None:
    """Read the lines of a file; ``None`` if there are none or they must be read one by one."""
    queries = _QueryNumbering()
    read_values = _read_scores if layout is RUN else _read_levels
    padded = b"".join((b"\n", data, _PADDING))
    blocks: list[tuple[Ints, npt.NDArray[Any], Ints, Ints]] = []
    try:
        for block in iter_blocks(padded, layout):
            starts, ends = block.starts[:, DOCUMENT] + block.offset, block.ends[:, DOCUMENT] + block.offset
            blocks.append((queries.rows(block), read_values(block), starts, ends))
    except IrregularLineError:
        return None
    if not blocks:
        return None
    rows, values, starts, ends = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    docs = TextColumn(np.frombuffer(padded, dtype=np.uint8), starts, ends)
    return TrecLines(queries.names(), rows, docs, values)


class _QueryNumbering:
    """Numbers queries by first occurrence."""

    def __init__(self) -> None:
        self._numbers: defaultdict[bytes, int] = defaultdict(count().__next__)

    def names(self) -> list[str]:
        return [query.decode() for query in self._numbers]

    def rows(self, block: LineBlock) -> Ints:
        """Return the number of the query of each line."""
        starts = block.starts[:, QUERY]
        sizes = block.ends[:, QUERY] - starts
        if sizes.max() > _WORD:
            return self._look_up(block.cells(QUERY).split())
        words = _words_at_each_byte(block.text)[starts] & _BYTE_MASKS[sizes]
        changed = np.concatenate(([True], words[1:] != words[:-1]))
        # NumPy removes zero bytes from the end of a string; an id contains none.
        numbers = self._look_up(words[changed].view("S8").tolist())
        return np.repeat(numbers, np.diff(np.flatnonzero(changed), append=len(words)))

    def _look_up(self, queries: list[bytes]) -> Ints:
        return np.fromiter(map(self._numbers.__getitem__, queries), np.int64, len(queries))


_JSON_NUMBERS = msgspec.json.Decoder(list[float])


def _read_scores(block: LineBlock) -> Floats:
    """Return the scores as ``float`` parses them."""
    cells = block.cells(RUN.value, b",")[:-1]
    try:
        # Nearly all scores are valid JSON numbers, which msgspec parses several times faster than float().
        scores = _JSON_NUMBERS.decode(b"[%b]" % cells)
    except msgspec.DecodeError:
        try:
            scores = list(map(RUN.parse, cells.split(b",")))
        except ValueError as error:
            raise IrregularLineError from error
    if len(scores) != len(block.starts):  # a cell contains a comma
        raise IrregularLineError
    return np.fromiter(scores, np.float64, len(scores))


def _read_levels(block: LineBlock) -> Ints:
    cells = block.cells(QRELS.value).split()
    try:
        level_of = {text: QRELS.parse(text) for text in set(cells)}
        return np.fromiter(map(level_of.__getitem__, cells), np.int64, len(cells))
    except (ValueError, OverflowError) as error:
        raise IrregularLineError from error


# --- the reader with Arrow (extra ``parquet``) ------------------------------------------------------------------------


def arrow_is_installed() -> bool:
    """Whether Arrow is installed."""
    return importlib.util.find_spec("pyarrow") is not None


def read_with_arrow(data: bytes, layout: TrecLayout) -> TrecLines | None:
    """Read the lines of a file; ``None`` if Arrow would not read them as Python does."""
    import pyarrow as pa

    query, document, value = str(QUERY), str(DOCUMENT), str(layout.value)
    dictionary = pa.dictionary(pa.int32(), pa.string())
    number = pa.float64() if layout is RUN else dictionary
    types = {query: dictionary, document: pa.large_string(), value: number}
    table = _read_table(data, len(layout.names), types)
    if table is None:
        return None
    values = table[value].to_numpy() if layout is RUN else _parse_levels(table[value])
    if values is None or np.isnan(values).any():
        return None
    queries, rows = _dictionary_codes(table[query])
    return TrecLines(queries, rows, _text_column(table[document]), values)


def _parse_levels(column: pa.ChunkedArray) -> Ints | None:
    texts, codes = _dictionary_codes(column)
    try:
        # Not the integers of Arrow: it accepts 0x10.
        levels: Ints = np.array([QRELS.parse(text.encode()) for text in texts], dtype=np.int64)
    except (ValueError, OverflowError):
        return None
    return levels[codes]


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
            read_options=csv.ReadOptions(column_names=[str(column) for column in range(columns)]),
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


def _dictionary_codes(column: pa.ChunkedArray) -> tuple[list[str], Ints]:
    """Return the distinct strings of a column by first occurrence, and the index of the string of each line."""
    chunks = column.unify_dictionaries().chunks
    indexes = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in chunks]
    return chunks[0].dictionary.to_pylist(), np.concatenate(indexes).astype(np.int64)


def _text_column(column: pa.ChunkedArray) -> TextColumn:
    array = column.combine_chunks()
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64)[array.offset :][: len(array) + 1]
    content = np.frombuffer(data or b"", dtype=np.uint8)[bounds[0] : bounds[-1]]
    padded = np.concatenate((content, np.frombuffer(_PADDING, dtype=np.uint8)))
    return TextColumn(padded, bounds[:-1] - bounds[0], bounds[1:] - bounds[0])
