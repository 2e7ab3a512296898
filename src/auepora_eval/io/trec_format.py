"""TREC files as samples and outputs, and their evaluation on a fast path."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..core.conventions import Conventions
from ..core.dataset import InMemoryDataset
from ..core.results import Results
from ..core.types import GOLD_BY, Document, EvaluationSample, RetrievedDocument, SystemOutputs
from ..engine.evaluate import Metrics, evaluate_hits, evaluate_rankings
from ..errors import DataFileError, DuplicateIdError
from ..runtime.files import plain_stem, read_bytes, read_lines
from ..runtime.processes import gc_paused
from .formats import Format, looks_like_trec, register_format
from .grades import provenance_counts_by_query
from .problems import ParsedOutput, ParsedSample, Problems, quote_text
from .trec import (
    Reader,
    judged_documents,
    load_qrels,
    load_run,
    load_scored_run,
    queries_without_judgements,
    require_common_query,
    save_qrels,
    save_run,
    trec_rankings,
    use_arrow,
    without_comments,
)
from .trec_arrow import find_gold, read_qrels, run_lines


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
    judged = load_qrels(path, problems=problems)
    graded_by = provenance_counts_by_query(path) or {}
    for query, levels in judged.items():
        metadata = {GOLD_BY: graded_by[query]} if query in graded_by else {}
        yield ParsedSample(None, EvaluationSample(query, "", *judged_documents(levels), metadata=metadata))


def read_outputs(path: Path, problems: Problems) -> Iterator[ParsedOutput]:
    """Yield a run as outputs without answers, each ranking by score descending and ties by id descending."""
    for query, (docs, scores) in load_scored_run(path, problems).items():
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


FORMAT = register_format(
    Format(
        "trec",
        "TREC: qrels as samples, a run as outputs",
        looks_like_trec,
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


# --- evaluation on a fast path, without building samples and outputs -------------------------------------------------

_THREADS = 2
"""The number of independent parts of the work; NumPy and Arrow release the GIL."""


@dataclass(frozen=True, slots=True)
class TrecRankings:
    """The judgements and the run of two TREC files, ready to be scored."""

    ids: list[str]
    """The queries of the qrels."""
    missing: list[str]
    """Queries of the qrels that the run lacks."""
    unjudged: list[str]
    """Queries that only the run has. They cannot be scored and are omitted."""
    _run: Path
    _evaluate: Callable[..., Results]

    def evaluate(
        self, metrics: Metrics, *, conventions: str | Conventions = "trec", keep_scores: bool = True
    ) -> Results:
        """Score the rankings."""
        try:
            return self._evaluate(metrics=metrics, conventions=conventions, keep_scores=keep_scores)
        except DuplicateIdError:
            judged = set(self.ids)
            for line, query, doc, first in duplicate_run_lines(self._run):
                if query in judged:
                    raise DuplicateIdError(
                        f"{self._run}:{line}: '{doc}' was returned for query '{query}' on line {first} already, which "
                        'the conventions forbid; remove the line, or count its first position: duplicates "first" '
                        "(--duplicates first)"
                    ) from None
            raise


def evaluate_trec(
    qrels: str | Path,
    run: str | Path,
    metrics: Metrics,
    *,
    conventions: str | Conventions = "trec",
    reader: Reader = "auto",
    keep_scores: bool = True,
) -> Results:
    """Score a TREC run against TREC qrels, as ``evaluate_rankings`` would.

    If Arrow reads both files (extra ``parquet``), documents are compared as columns without creating Python strings.
    """
    return read_trec(qrels, run, reader=reader).evaluate(metrics, conventions=conventions, keep_scores=keep_scores)


def read_trec(qrels: str | Path, run: str | Path, *, reader: Reader = "auto") -> TrecRankings:
    """Read the two files, and find the queries that only one of them has."""
    qrels, run = Path(qrels), Path(run)
    if use_arrow(reader, qrels, run) and (columns := _read_with_arrow(qrels, run)) is not None:
        return columns
    levels, rankings = load_qrels(qrels, reader=reader), load_run(run, reader=reader)
    ids, gold, ranked = trec_rankings(levels, rankings)
    return _build_trec_rankings(levels, rankings, run, partial(evaluate_rankings, gold, ranked, ids=ids))


def _read_with_arrow(qrels: Path, run: Path) -> TrecRankings | None:
    """Read the two files as columns of Arrow; ``None`` if they have to be read as strings."""
    with gc_paused(), ThreadPoolExecutor(_THREADS) as pool:
        run_data = pool.submit(read_bytes, run)
        judged = read_qrels(without_comments(read_bytes(qrels)), pool)
        lines = None if judged is None else run_lines(run_data.result())
        if judged is None or lines is None:
            return None
        levels, returned = dict.fromkeys(judged.lines.queries), dict.fromkeys(lines.queries)
        require_common_query(levels, returned)
        found = find_gold(judged, lines, pool)
        return None if found is None else _build_trec_rankings(levels, returned, run, partial(evaluate_hits, found))


def _build_trec_rankings(
    judged: Mapping[str, object], returned: Mapping[str, object], run: Path, evaluate: Callable[..., Results]
) -> TrecRankings:
    return TrecRankings(
        list(judged),
        [query for query in judged if query not in returned],
        queries_without_judgements(judged, returned),
        run,
        evaluate,
    )
