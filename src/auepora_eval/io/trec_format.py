"""TREC files as samples and outputs: qrels and runs, with a fast evaluation, and answers of the RAG track."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from ..core.conventions import Conventions
from ..core.dataset import InMemoryDataset
from ..core.results import Results
from ..core.types import GOLD_BY, Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from ..engine.evaluate import Metrics, evaluate_hits, evaluate_rankings
from ..errors import DataFileError, DuplicateIdError
from ..runtime.files import plain_stem, read_bytes, read_lines, write_lines
from ..runtime.processes import gc_paused
from .codec import ErrorCollector, Id, LineError, encode_output, encode_outputs
from .formats import Format, looks_like_trec, looks_like_trec_rag, register_format
from .grades import provenance_counts_by_query
from .problems import (
    ParsedOutput,
    ParsedSample,
    Problems,
    RowSchema,
    UniqueIds,
    find_struct_problems,
    quote_text,
    value_problem,
)
from .tables import read_records
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
from .trec_arrow import find_gold, read_columns, read_qrels
from .trec_columns import RUN


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
            raise DataFileError(path, number, f"query {quote_text(query)} occurs twice; each id may come once")
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
        read_samples=read_samples,
        read_outputs=read_outputs,
        write_samples=save_qrels,
        write_outputs=save_run,
        sample_fields=frozenset({"sample_id", "relevant_docs", "candidate_docs"}),
        output_fields=frozenset({"retrieved"}),
        conventions="trec",
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

    Args:
        qrels: Judgements in TREC format.
        run: A run in TREC format.
        metrics: As for ``evaluate``; so are ``conventions`` and ``keep_scores``.
        reader: ``auto``, or the reader to use.

    Returns:
        The results, as ``evaluate`` gives them.

    Example:
        >>> evaluate_trec("qrels.txt", "run.txt", ["mrr"])[0].value
        0.5
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
        lines = None if judged is None else read_columns(run_data.result(), RUN)
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


# --- answers of the TREC RAG track: sentences that cite a list of references by index, a topic per line --------------

_SHAPE = RowSchema("answers", {"": ()}, "answers", ())
_FORMAT_KEYS = ("topic_id", "references", "answer")


class _AnswerSentence(msgspec.Struct):
    text: str
    citations: list[int | str] = []


class _AnswerRow(msgspec.Struct):
    references: list[Id]
    answer: list[_AnswerSentence]
    topic_id: Id | int | None = None
    metadata: dict[str, Any] = {}


def iter_answers(path: Path, problems: Problems) -> Iterator[ParsedOutput]:
    """Yield the answers of a file as outputs: the references are the retrieved documents, in their order."""
    unique_ids = UniqueIds(path, problems)
    for record in read_records(path, problems):
        try:
            sample_id, output = _output(record.values)
        except LineError as error:
            problems.add_all(path, record.line, error.messages, record=record.record)
            if (topic := _topic_id(record.values)) and unique_ids.is_new(topic, record.line, record=record.record):
                problems.unreadable_ids.add(topic)
            continue
        if unique_ids.is_new(sample_id, record.line, record=record.record):
            yield ParsedOutput(record.line, sample_id, output, record=record.record)


def _output(values: dict[str, Any]) -> tuple[str, SystemOutputs]:
    try:
        row = msgspec.convert(values, _AnswerRow)
    except msgspec.ValidationError as error:
        first = value_problem(error, values, _SHAPE)
        messages, _ = find_struct_problems(msgspec.json.encode(values), _AnswerRow, _SHAPE, first)
        raise LineError(*messages) from error
    errors = ErrorCollector()
    topic = errors.call(_require_topic_id, values)
    cited = [
        errors.call_each(
            _resolve_citation,
            [(c, row.references, f"answer[{i}].citations[{n}]") for n, c in enumerate(sentence.citations)],
        )
        for i, sentence in enumerate(row.answer)
    ]
    errors.raise_errors()
    sentences = [{"text": sentence.text, "citations": ids} for sentence, ids in zip(row.answer, cited, strict=True)]
    return str(topic), SystemOutputs(
        retrieved=[RetrievedDocument(Document(doc_id), None, rank) for rank, doc_id in enumerate(row.references, 1)],
        response=Response(" ".join(sentence.text for sentence in row.answer), sentences=sentences),
        extra={key: value for key, value in values.items() if key not in _FORMAT_KEYS},
        citations=list(dict.fromkeys(chain.from_iterable(cited))),
    )


def _topic_id(values: dict[str, Any]) -> str:
    """Return the id of the topic as a string; empty if there is none."""
    topic, metadata = values.get("topic_id"), values.get("metadata")
    if topic is None and isinstance(metadata, dict):  # as in the track of 2025
        topic = metadata.get("narrative_id")
    return str(topic) if isinstance(topic, str | int) and not isinstance(topic, bool) else ""


def _require_topic_id(values: dict[str, Any]) -> str:
    topic = _topic_id(values)
    if not topic:
        raise LineError("field 'topic_id' is missing")
    return topic


def _resolve_citation(citation: int | str, references: Sequence[str], path: str) -> str:
    if isinstance(citation, str):
        return citation
    if 0 <= citation < len(references):
        return references[citation]
    where = f"field {quote_text(path)} is {citation}"
    raise LineError(f"{where}, but the places of the {len(references)} references are counted from 0")


def write_answers(outputs: Iterable[tuple[str, SystemOutputs]], path: Path) -> None:
    """Write an answer per line; one without sentences is a single sentence with all citations."""
    write_lines(path, map(msgspec.json.encode, encode_outputs(outputs, _row)))


def _row(sample_id: str, output: SystemOutputs) -> dict[str, Any]:
    if output.response is None:
        raise LineError("it has no response")
    row = msgspec.json.decode(encode_output(sample_id, output))  # values that are not JSON raise the usual error
    references = [item["doc"] if isinstance(item["doc"], str) else item["doc"]["doc_id"] for item in row["retrieved"]]
    indexes = {doc_id: index for index, doc_id in reversed(list(enumerate(references)))}
    response = row["response"]
    sentences = response.get("sentences")
    if sentences is None:
        sentences = [{"text": response["text"], "citations": row.get("citations") or []}] if response["text"] else []
    answer = []
    for sentence in sentences:
        citations = sentence.get("citations", [])
        for doc_id in citations:
            if doc_id not in indexes:
                raise LineError(f"it cites {quote_text(doc_id)}, which is not among its retrieved documents")
        answer.append({"text": sentence["text"], "citations": [indexes[doc_id] for doc_id in citations]})
    words = sum(len(sentence["text"].split()) for sentence in answer)
    extra = {key: value for key, value in row.get("extra", {}).items() if key not in _FORMAT_KEYS}
    head = {"topic_id": sample_id, "references": references}
    return {**head, "response_length": words, **extra, "answer": answer}


RAG_FORMAT = register_format(
    Format(
        "trec_rag",
        "answers of the TREC RAG track, with citations by sentence",
        looks_like_trec_rag,
        read_outputs=iter_answers,
        write_outputs=write_answers,
        output_fields=frozenset({"retrieved", "response", "citations", "extra"}),
        nested_losses=frozenset(
            {"retrieved.score", "retrieved.doc.text", "retrieved.doc.metadata", "response.structured"}
        ),
    )
)
