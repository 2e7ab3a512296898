"""TREC files: qrels (judgements) and runs (rankings), read as trec_eval reads them."""

from collections.abc import Mapping, Sequence
from itertools import islice
from operator import gt
from pathlib import Path

from ..core.collector import collector_paused
from ..core.errors import DataFileError
from .align import require_common_id
from .files import read_bytes
from .problems import shown

__all__ = ["load_qrels", "load_run", "queries_without_judgements", "trec_rankings"]


def load_qrels(path: str | Path) -> dict[str, dict[str, int]]:
    """Judged levels by query and document, in file order. Of several levels for one document the highest counts."""
    path = Path(path)
    judged: dict[bytes, dict[bytes, int]] = {}
    level_of: dict[bytes, int] = {}  # few distinct levels, many lines
    with collector_paused():
        for number, line in enumerate(_lines(path), start=1):
            columns = line.split()
            if len(columns) != 4:
                if not columns:
                    continue
                raise _wrong_columns(path, number, line, "4 columns (query, iteration, document, level)", len(columns))
            query, _, doc, text = columns
            level = level_of.get(text)
            if level is None:
                level = level_of[text] = _level(path, number, text)
            levels = judged.get(query)
            if levels is None:
                judged[query] = {doc: level}
            elif levels.setdefault(doc, level) < level:
                levels[doc] = level
        if not judged:
            raise DataFileError(path, None, "the file is empty; each line must be 'query iteration document level'")
        return {
            query.decode(): dict(zip(_decoded(list(levels)), levels.values(), strict=True))
            for query, levels in judged.items()
        }


def load_run(path: str | Path) -> dict[str, list[str]]:
    """Returned documents by query, best first: by score descending, ties by document id descending.

    As in trec_eval the rank column does not count, nor does anything after the sixth column. A document that comes
    twice for a query is kept twice. Queries are in file order.
    """
    path = Path(path)
    rankings: dict[bytes, tuple[list[bytes], list[float]]] = {}
    current: bytes | None = None
    docs: list[bytes] = []
    scores: list[float] = []
    with collector_paused():
        for number, line in enumerate(_lines(path), start=1):
            columns = line.split(None, 6)
            if len(columns) < 6:
                if not columns:
                    continue
                raise _wrong_columns(
                    path, number, line, "6 columns (query, Q0, document, rank, score, tag)", len(columns)
                )
            if columns[0] != current:
                current = columns[0]
                docs, scores = rankings.setdefault(current, ([], []))
            docs.append(columns[2])
            scores.append(_score(path, number, columns[4]))
        if not rankings:
            raise DataFileError(path, None, "the file is empty; each line must be 'query Q0 document rank score tag'")
        return {query.decode(): _decoded(_ranked(docs, scores)) for query, (docs, scores) in rankings.items()}


def trec_rankings(
    qrels: Mapping[str, dict[str, int]], run: Mapping[str, list[str]]
) -> tuple[list[str], list[dict[str, int]], list[list[str] | None]]:
    """Query ids of the qrels, their judged levels, and their rankings (``None`` where the run lacks the query).

    Queries that only the run has cannot be scored and are left out; ``queries_without_judgements`` lists them.
    """
    require_common_id(qrels, run, what=("query of the qrels", "query of the run"))
    return list(qrels), list(qrels.values()), [run.get(query) for query in qrels]


def queries_without_judgements(qrels: Mapping[str, object], run: Mapping[str, object]) -> list[str]:
    """The queries that only the run has, in its order."""
    return [query for query in run if query not in qrels]


def _lines(path: Path) -> list[bytes]:
    # Bytes all the way: `bytes.split` knows exactly C's white space, where `str.split` would also cut ids at a
    # no-break space, and bytes compare as strcmp does.
    return read_bytes(path).split(b"\n")


def _ranked(docs: list[bytes], scores: list[float]) -> list[bytes]:
    if all(map(gt, scores, islice(scores, 1, None))):
        return docs  # most files are written best first and have no ties
    return [doc for _, doc in sorted(zip(scores, docs, strict=True), reverse=True)]


def _decoded(ids: Sequence[bytes]) -> list[str]:
    return b"\n".join(ids).decode().split("\n")  # one call for all: an id holds no line end


def _score(path: Path, line: int, text: bytes) -> float:
    try:
        score = float(text)
    except ValueError:
        score = float("nan")
    if score != score or b"_" in text:  # Python reads 1_000 as a number
        raise DataFileError(path, line, f"the score (column 5) must be a number, found {shown(text.decode())}")
    return score


def _level(path: Path, line: int, text: bytes) -> int:
    try:
        if b"_" not in text:
            return int(text)
    except ValueError:
        pass
    raise DataFileError(path, line, f"the level (column 4) must be an integer, found {shown(text.decode())}")


def _wrong_columns(path: Path, line: int, content: bytes, expected: str, found: int) -> DataFileError:
    hint = {4: " (is this a qrels file?)", 6: " (is this a run file?)"}.get(found, "")
    text = shown(content.decode().strip())
    return DataFileError(path, line, f"expected {expected}, found {found}{hint}: {text}")
