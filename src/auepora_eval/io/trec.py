"""TREC files: qrels (judgements) and runs (rankings), read as trec_eval reads them, and written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from ..core.types import Document, EvaluationSample, RetrievedDocument, SystemOutputs
from ..errors import BadValueError
from ..features.rankings import parse_level as parse_gold_level
from ..runtime.files import read_bytes, write_lines
from ..runtime.processes import gc_paused
from . import trec_arrow, trec_columns
from .codec import LineError, encode_outputs, encode_samples
from .formats import is_qrels_comment
from .problems import Problems, quote_text
from .tables import require_arrow
from .trec_columns import DOCUMENT, QRELS, QUERY, RUN, DocIds, TrecLayout, TrecLines, judgements, rankings

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
        lines = _read_columns(path, without_comments(data), QRELS, reader)
        return _qrels_by_line(path, data, problems or Problems()) if lines is None else judgements(lines)


def load_run(path: str | Path, *, reader: Reader = "auto") -> dict[str, list[str]]:
    """Load retrieved documents by query, best first: by score descending, ties by document id descending.

    As in trec_eval the rank column is ignored, and so is anything after the sixth column. A repeated document is kept
    twice. Queries are in file order.
    """
    path = Path(path)
    data = read_bytes(path)
    with gc_paused():
        lines = _read_columns(path, data, RUN, reader)
        if lines is not None:
            return rankings(lines)
        return {query: docs for query, (docs, _) in _run_by_line(path, data, Problems()).items()}


def load_scored_run(path: Path, problems: Problems) -> ScoredRun:
    """Like ``load_run``, with the scores; invalid lines are added to the problems."""
    data = read_bytes(path)
    with gc_paused():
        lines = _read_columns(path, data, RUN, "auto")
        if lines is None:
            return _run_by_line(path, data, problems)
        # Rankings are by score descending, so the sorted scores of a query match its documents, even with ties.
        scores = iter(lines.values[np.lexsort((-lines.values, lines.rows))].tolist())
        return {query: (docs, list(islice(scores, len(docs)))) for query, docs in rankings(lines).items()}


def _read_columns(path: Path, data: bytes, layout: TrecLayout, reader: Reader) -> TrecLines[DocIds] | None:
    """Read the lines by the fastest reader that can parse them; ``None`` if they must be read one by one."""
    lines = trec_arrow.read_columns(data, layout) if use_arrow(reader, path) else None
    return trec_columns.read_columns(data, layout) if lines is None else lines


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
    return reader == "auto" and large and trec_arrow.arrow_is_installed()


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


# --- writing ---------------------------------------------------------------------------------------------------------

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
