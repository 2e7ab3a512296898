"""TREC files as samples and outputs: qrels are a dataset, a run contains the outputs of a system.

Reading uses ``io.trec``, so that both give the same judgements and rankings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np

from ..core.dataset import InMemoryDataset
from ..core.errors import DataFileError
from ..core.gc_pause import gc_paused
from ..core.types import Document, EvaluationSample, RetrievedDocument, SystemOutputs
from . import trec
from .files import plain_stem, read_bytes, read_lines
from .formats import FileHead, Format, Role, register_format
from .grades import GOLD_BY, provenance_counts_by_query
from .problem_messages import quote_text
from .reader_types import ParsedOutput, ParsedSample, Problems
from .trec_parts.trec_lines import Floats, TrecLines, rankings
from .trec_write import judged_documents, save_qrels, save_run

_LoadedT = TypeVar("_LoadedT")
ScoredRun = dict[str, tuple[list[str], list[float]]]
"""By query: the documents, best first, and their scores."""


def load_trec_dataset(
    qrels: str | Path, *, topics: str | Path | None = None, name: str | None = None
) -> InMemoryDataset:
    """Load the judged queries as samples; their texts come from ``topics`` (lines of id, tab, text), or stay empty."""
    path = Path(qrels)
    texts = None if topics is None else load_topics(topics)
    with gc_paused():
        samples = [read.sample for read in read_samples(path, Problems())]
    for sample in samples if texts is not None else ():
        assert texts is not None
        if sample.sample_id not in texts:
            raise DataFileError(path, None, f"query {quote_text(sample.sample_id)} is not in the topics, '{topics}'")
        sample.query = texts[sample.sample_id]
    return InMemoryDataset(plain_stem(path) if name is None else name, samples)


def load_topics(path: str | Path) -> dict[str, str]:
    """Load query texts by id, from lines of id, tab, text."""
    path = Path(path)
    texts: dict[str, str] = {}
    for number, line in read_lines(path):
        try:
            query, tab, text = line.decode().strip("\r\n").partition("\t")
        except UnicodeDecodeError as error:
            raise DataFileError(path, number, f"byte 0x{line[error.start]:02x} is not valid UTF-8") from error
        query = query.strip()
        if not tab or not query:
            raise DataFileError(path, number, f"expected an id, a tab and a text, found {quote_text(query or text)}")
        if query in texts:
            raise DataFileError(path, number, f"query {quote_text(query)} comes twice; each id may come once")
        texts[query] = text.strip()
    return texts


def read_samples(path: Path, problems: Problems) -> Iterator[ParsedSample]:
    """Yield qrels as samples without query texts, in the order of their first line."""
    judged = _load_or_collect(path, problems, trec.load_qrels, _check_qrels_line, trec._qrels_by_line)
    graded_by = provenance_counts_by_query(path) or {}
    for query, levels in judged.items():
        metadata = {GOLD_BY: graded_by[query]} if query in graded_by else {}
        yield ParsedSample(None, EvaluationSample(query, "", *judged_documents(levels), metadata=metadata))


def read_outputs(path: Path, problems: Problems) -> Iterator[ParsedOutput]:
    """Yield a run as outputs without answers, each ranking by score descending and ties by id descending."""
    for query, (docs, scores) in _load_or_collect(
        path, problems, _load_scored_run, _parse_run_line, _scored_run_by_line
    ).items():
        ranked = [
            RetrievedDocument(Document(doc), score, rank)
            for rank, (doc, score) in enumerate(zip(docs, scores, strict=True), start=1)
        ]
        yield ParsedOutput(None, query, SystemOutputs(ranked))


def duplicate_run_lines(path: Path) -> list[tuple[int, str, str, int]]:
    """Return line, query and document of every duplicate line of a run, and the line it repeats."""
    first: dict[tuple[bytes, bytes], int] = {}
    found = []
    for number, line in enumerate(read_bytes(path).split(b"\n"), start=1):
        columns = line.split(None, 6)
        if len(columns) >= 6 and first.setdefault((columns[0], columns[2]), number) != number:
            found.append((number, columns[0].decode(), columns[2].decode(), first[columns[0], columns[2]]))
    return found


# --- reading ---------------------------------------------------------------------------------------------------------


def _load_or_collect(
    path: Path,
    problems: Problems,
    load: Callable[[Path], dict[str, _LoadedT]],
    check: Callable[[Path, int, bytes], object],
    by_line: Callable[[Path, bytes], dict[str, _LoadedT]],
) -> dict[str, _LoadedT]:
    """Load the whole file fast; if that fails and problems are collected, report and skip every invalid line."""
    try:
        return load(path)
    except DataFileError as error:
        if error.line is None or not problems.collect_all:
            raise
    good: list[bytes] = []
    for number, line in enumerate(read_bytes(path).split(b"\n"), start=1):
        try:
            check(path, number, line)
        except DataFileError as error:
            problems.add(path, number, error.problem)
        else:
            good.append(line)
    data = b"\n".join(good)
    return {} if data.isspace() or not data else by_line(path, data)


def _load_scored_run(path: Path) -> ScoredRun:
    """Like ``load_run``, with the scores."""
    data = read_bytes(path)
    with gc_paused():
        for module in trec._readers("auto", path):
            lines = module.run_lines(data)
            if lines is not None:
                return _attach_scores(lines)
        return _scored_run_by_line(path, data)


def _attach_scores(lines: TrecLines[Floats]) -> ScoredRun:
    # Rankings are by score descending, so the sorted scores of a query match its documents, even with ties.
    ranked = rankings(lines)
    scores = lines.values[np.lexsort((-lines.values, lines.rows))].tolist()
    found: ScoredRun = {}
    start = 0
    for query, docs in ranked.items():
        found[query] = (docs, scores[start : start + len(docs)])
        start += len(docs)
    return found


def _scored_run_by_line(path: Path, data: bytes) -> ScoredRun:
    ranked = trec._run_by_line(path, data)
    scores: dict[str, list[float]] = {query: [] for query in ranked}
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line and not line.isspace():
            query, score = _parse_run_line(path, number, line)
            scores[query.decode()].append(score)
    return {query: (docs, sorted(scores[query], reverse=True)) for query, docs in ranked.items()}


def _check_qrels_line(path: Path, number: int, line: bytes) -> None:
    columns = line.split()
    if trec.is_comment(columns):
        return
    if columns and len(columns) != 4:
        expected = "4 columns (query, iteration, document, level)"
        raise trec._column_count_error(path, number, line, expected, len(columns))
    if columns:
        trec._parse_level_column(path, number, columns[3])


def _parse_run_line(path: Path, number: int, line: bytes) -> tuple[bytes, float]:
    columns = line.split(None, 6)
    if not columns:
        return b"", 0.0
    if len(columns) < 6:
        expected = "6 columns (query, Q0, document, rank, score, tag)"
        raise trec._column_count_error(path, number, line, expected, len(columns))
    return columns[0], trec._parse_score(path, number, columns[4])


def _looks_like(head: FileHead, role: Role) -> bool:
    rows = (line.split() for line in head.text.splitlines() if line.strip())
    if role == "samples":
        rows = (columns for columns in rows if not trec.is_comment([column.encode() for column in columns]))
    lines = list(islice(rows, 3))
    return bool(lines) and all(_is_trec_row(columns, role) for columns in lines)


def _is_trec_row(columns: list[str], role: Role) -> bool:
    try:
        if role == "samples":
            return len(columns) == 4 and int(columns[3]) is not None
        return len(columns) >= 6 and int(columns[3]) is not None and not math.isnan(float(columns[4]))
    except ValueError:
        return False


FORMAT = register_format(
    Format(
        "trec",
        "TREC: qrels as samples, a run as outputs",
        _looks_like,
        read_samples,
        read_outputs,
        save_qrels,
        save_run,
        sample_fields=frozenset({"sample_id", "relevant_docs", "candidate_docs"}),
        output_fields=frozenset({"retrieved"}),
        judged_pool=True,
        nested_losses=frozenset(
            {"relevant_docs.text", "candidate_docs.text", "retrieved.doc.text", "retrieved.doc.metadata"}
        ),
    )
)
