"""TREC files as samples and outputs: qrels and runs, with a fast evaluation, and answers of the RAG track."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ..core.conventions import Conventions
from ..core.dataset import InMemoryDataset
from ..core.metrics_base import Metric
from ..core.results import Results
from ..core.types import GOLD_BY, Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from ..engine.data_checks import IdCheck, no_hit_warning
from ..engine.evaluate import Metrics, evaluate_hits, evaluate_rankings
from ..errors import DataFileError, DuplicateIdError
from ..features.hits import GoldPositions, PrecomputedHits
from ..features.rankings import HIGHEST_LEVEL
from ..render.terminal import progress
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
    find_struct_problems,
    quote_text,
    value_problem,
)
from .score_inputs import ScoreInput, has_provenance_file
from .tables import read_records
from .trec import (
    QRELS,
    RUN,
    Ints,
    LineOrder,
    Reader,
    TextColumn,
    TrecLines,
    Words,
    expand_ranges,
    judged_documents,
    judgements,
    load_qrels,
    load_run,
    load_scored_run,
    queries_without_judgements,
    rankings,
    read_columns,
    require_common_query,
    save_qrels,
    save_run,
    sort_lines,
    trec_rankings,
    use_arrow,
    without_comments,
)


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

    Documents are compared as columns, without a Python string for each line, unless a file has to be read line by line.

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
    by_arrow = use_arrow(reader, qrels, run)
    with gc_paused(), ThreadPoolExecutor(_THREADS) as pool:
        run_data = pool.submit(read_bytes, run)
        judged = read_columns(without_comments(read_bytes(qrels)), QRELS, by_arrow=by_arrow)
        lines = read_columns(run_data.result(), RUN, by_arrow=by_arrow)
        if judged is not None and lines is not None:
            levels, returned = dict.fromkeys(judged.queries), dict.fromkeys(lines.queries)
            require_common_query(levels, returned)
            hits = find_gold(judged, lines, pool)
            if hits is not None:
                return _build_trec_rankings(levels, returned, run, partial(evaluate_hits, hits))
    judgements_by_query, rankings_by_query = load_qrels(qrels, reader=reader), load_run(run, reader=reader)
    ids, gold, ranked = trec_rankings(judgements_by_query, rankings_by_query)
    evaluate = partial(evaluate_rankings, gold, ranked, ids=ids)
    return _build_trec_rankings(judgements_by_query, rankings_by_query, run, evaluate)


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


# --- gold documents in a run, found by hashes of query and document, without a string per line ------------------------


_QUERY_FACTOR = np.uint64(0x5851F42D4C957F2D)
"""Distributes the query numbers over all 64 bits."""
_SLOTS_PER_PAIR = 32
_MAX_SLOT_BITS = 22


def hash_pairs(queries: Ints, docs: TextColumn, pool: Executor) -> Words:
    """Return a hash for each line, equal for equal pairs. Collisions are possible but rare."""
    keys = docs.hashes(pool)
    keys += queries.view(np.uint64) * _QUERY_FACTOR
    return keys


@dataclass(frozen=True, slots=True)
class GoldPairs:
    """The judged documents of all queries, each once: by query, then in file order."""

    lines: Ints
    """The line of each pair."""
    queries: Ints
    levels: Ints
    _keys: Words
    """The keys in ascending order."""
    _numbers: Ints
    """The number of the pair of each key."""

    def match(self, keys: Words) -> tuple[Ints, Ints]:
        """Return the positions of the keys of judged pairs, and the numbers of these pairs."""
        # Most keys belong to no judged pair: a table of their leading bits excludes them without a search.
        bits = min((len(self._keys) * _SLOTS_PER_PAIR).bit_length(), _MAX_SLOT_BITS)
        shift = np.uint64(64 - bits)
        taken = np.zeros(1 << bits, dtype=np.bool_)
        taken[self._keys >> shift] = True
        positions = np.flatnonzero(taken.take((keys >> shift).view(np.int64)))
        candidates = keys[positions]
        nearest = np.minimum(np.searchsorted(self._keys, candidates), len(self._keys) - 1)
        same = self._keys[nearest] == candidates
        return positions[same], self._numbers[nearest[same]]


def collect_gold_pairs(queries: Ints, docs: TextColumn, levels: Ints, pool: Executor) -> GoldPairs | None:
    """Return the judged pairs of some lines; ``None`` if two keys collide. Of several levels the highest counts."""
    keys = hash_pairs(queries, docs, pool)
    order = np.argsort(keys)
    ordered = keys[order]
    again = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    if len(again):
        order = np.lexsort((-levels, keys))
        first, second = order[again - 1], order[again]
        if (queries[first] != queries[second]).any() or not docs.equal(first, docs, second):
            return None
        order = np.delete(order, again)
    lines = np.sort(order)
    lines = lines[np.argsort(queries[lines], kind="stable")]
    number = np.empty(len(queries), dtype=np.int64)
    number[lines] = np.arange(len(lines))
    return GoldPairs(lines, queries[lines], levels[lines], keys[order], number[order])


def find_gold(qrels: TrecLines, run: TrecLines, pool: Executor) -> PrecomputedHits | None:
    """Find the ranks of gold for the queries of the qrels; ``None`` if hashes collide or a level is too large."""
    ordering = pool.submit(sort_lines, run)
    queries = qrels.queries
    gold = collect_gold_pairs(qrels.rows, qrels.docs, qrels.values, pool)
    if gold is None or max(int(gold.levels.max()), -int(gold.levels.min())) > HIGHEST_LEVEL:
        return None
    number_of = {query: number for number, query in enumerate(queries)}
    # Queries without judgements get numbers above those of the qrels.
    of_run = np.array(
        [number_of.get(query, new) for new, query in enumerate(run.queries, len(number_of))], dtype=np.int64
    )
    keys = hash_pairs(of_run[run.rows], run.docs, pool)
    distinct = pool.submit(_all_distinct, keys)
    lines, numbers = gold.match(keys)
    if (of_run[run.rows[lines]] != gold.queries[numbers]).any():
        return None
    if not run.docs.equal(lines, qrels.docs, gold.lines[numbers]):
        return None
    order = ordering.result()
    at, numbers = _positions_in_order(order, lines, numbers, len(keys))
    rank = _break_ties(at, order, run.docs) - order.starts[run.rows[order.lines_at(at)]]
    returned, judged = np.zeros(len(queries), dtype=np.int64), of_run < len(queries)
    returned[of_run[judged]] = order.counts[judged]
    found = _build_hits(gold, numbers, rank, returned)
    return PrecomputedHits(
        queries, found, partial(_all_levels, qrels), partial(_all_rankings, queries, run), distinct.result()
    )


def _all_distinct(keys: Words) -> bool:
    """Whether no query of the run has a repeated document, by hash; may be false although all are distinct."""
    ordered = np.sort(keys)
    return not (ordered[1:] == ordered[:-1]).any()


def _positions_in_order(order: LineOrder, lines: Ints, numbers: Ints, count: int) -> tuple[Ints, Ints]:
    """Return the ascending positions of these lines in the order of all lines, and the number of each."""
    if order.lines is None:
        return lines, numbers
    number = np.full(count, -1, dtype=np.int64)
    number[lines] = numbers
    ordered = number[order.lines]
    positions = np.flatnonzero(ordered >= 0)
    return positions, ordered[positions]


def _build_hits(gold: GoldPairs, number: Ints, rank: Ints, returned: Ints) -> GoldPositions:
    """Return the hits: judged pairs by their number, and the rank of each."""
    query = gold.queries[number]
    by_rank = np.argsort(query * (rank.max(initial=0) + 1) + rank)
    query, rank, number = query[by_rank], rank[by_rank], number[by_rank]
    first = np.sort(np.unique(number, return_index=True)[1])  # a repeated document counts once
    return GoldPositions(
        row=query[first],
        rank=rank[first],
        level=gold.levels[number[first]],
        returned=returned,
        annotated=np.ones(len(returned), dtype=np.bool_),
        gold_count=np.bincount(gold.queries, minlength=len(returned)),
        gold_level=gold.levels,
    )


def _break_ties(at: Ints, order: LineOrder, docs: TextColumn) -> Ints:
    """Return positions in the order of lines, with each range of ties sorted by document id descending."""
    starts, stops = order.ties
    if not len(starts) or not len(at):
        return at
    tie_range = np.maximum(np.searchsorted(starts, at, side="right") - 1, 0)
    inside = (at >= starts[tie_range]) & (at < stops[tie_range])
    used, own = np.unique(tie_range[inside], return_inverse=True)  # ranges that contain a hit
    begin, counts = starts[used], (stops - starts)[used]
    placed = docs.descending(order.lines_at(expand_ranges(begin, counts)), np.repeat(begin, counts))
    moved = at.copy()
    moved[inside] = placed[at[inside] - begin[own] + (np.cumsum(counts) - counts)[own]]
    return moved


def _all_levels(qrels: TrecLines) -> list[dict[str, int]]:
    return list(judgements(qrels).values())


def _all_rankings(queries: list[str], run: TrecLines) -> list[list[str]]:
    by_query: Mapping[str, list[str]] = rankings(run)
    return [by_query.get(query, []) for query in queries]


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
    for record in read_records(path, problems):
        try:
            sample_id, output = _output(record.values)
        except LineError as error:
            problems.add_record(path, record.line, error.messages, _topic_id(record.values), record=record.record)
            continue
        if problems.is_new(path, sample_id, record.line, record=record.record):
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
    cited: list[list[str]] = []
    for place, sentence in enumerate(row.answer):
        path = f"answer[{place}].citations"
        citations = [(cited_id, row.references, f"{path}[{n}]") for n, cited_id in enumerate(sentence.citations)]
        cited.append(errors.call_each(_resolve_citation, citations))
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
    references = [item.doc.doc_id for item in output.retrieved]
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
    return {"topic_id": sample_id, "references": references, "response_length": words, **extra, "answer": answer}


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


# --- rankings as an input of ``auepora score``: bare ids -------------------------------------------------------------


class TrecInput(ScoreInput):
    """The files of a TREC run and its judgements."""

    auto_preset = "trec"
    rankings: TrecRankings

    def __init__(self, qrels: str, run: str) -> None:
        self.qrels, self.run = qrels, run

    def prepare(self, metrics: list[Metric]) -> list[Metric]:
        """Read the files."""
        rules, targets = self.options.conventions, self.options.targets
        if targets or not metrics:
            from ..engine.suggest import specs_for, with_specs

            specs = specs_for({"relevant_docs"}, {"retrieved"}, conventions=rules, bare_ids=True, targets=targets)
            metrics = with_specs(metrics, specs, rules)
        if targets:
            from ..engine.targets import check_support, support_by_specs

            check_support(support_by_specs(targets, specs, missing="a TREC run has rankings alone"))
        with progress(f"reading {self.qrels} and {self.run}"):
            self.rankings = read_trec(self.qrels, self.run)
        self.total = len(self.rankings.ids)
        self.missing, self.unknown = self.rankings.missing, self.rankings.unjudged
        return metrics

    def count_grades(self) -> Mapping[str, int] | None:
        """The number of grades by provenance."""
        provenance = provenance_counts_by_query(self.qrels) or {}
        return sum(map(Counter, provenance.values()), Counter[str]())

    def has_provenance(self) -> bool:
        """Whether the qrels have provenance."""
        return has_provenance_file(self.qrels)

    def evaluate(self, metrics: list[Metric], **common: Any) -> Results:
        """Evaluate the rankings at once, in this process."""
        return self.rankings.evaluate(metrics, conventions=self.options.conventions, keep_scores=common["keep_scores"])

    def batches(self) -> Iterator[tuple[Sequence[EvaluationSample], Sequence[SystemOutputs | None]]]:
        """None: rankings have neither samples nor errors."""
        return iter(())

    def add_warnings(self, metrics: Sequence[Metric], results: Results) -> None:
        """Add a warning if no document is a hit, which reads the files again."""
        warning, check = no_hit_warning(results), IdCheck()
        if warning is not None and all(Path(path).is_file() for path in (self.qrels, self.run)):
            rankings = load_run(self.run)
            for query, judged in load_qrels(self.qrels).items():
                check.add([doc_id for doc_id, level in judged.items() if level > 0], rankings.get(query, []))
        results.warnings = list(filter(None, [warning, check.warning()]))
