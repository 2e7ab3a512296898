"""Pools: for each query the union of the top documents of several runs; pool files, draws of pairs, human grades."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np

from ..core.conventions import Conventions
from ..core.metrics_base import BatchMetric, Metric
from ..core.registry import Spec
from ..core.types import EvaluationSample, SystemOutputs
from ..engine.evaluate import resolve_metrics
from ..errors import BadValueError, DataFileError, did_you_mean
from ..io.codec import LineError
from ..io.grades import Grade, GradeKey, draw_errors
from ..io.join import iter_outputs
from ..io.labels import Label, LabelJournal, Provenance, iter_labels
from ..io.problems import Problems
from ..io.trec import judged_levels, load_qrels
from ..io.values import parse_json
from ..options import PositiveInt, check_options
from ..runtime.files import read_bytes, read_head, read_lines, write_lines
from ..stats.partial_grades import MeasureName, PooledPairs, RankedMeasure, grading_probabilities
from ..stats.sampling import systematic_draw
from ..store.records import RunRecord
from ..store.runs import RunStore
from .draws import draw_path


@dataclass(frozen=True, slots=True)
class PooledDocument:
    """A document that at least one run retrieved for a query."""

    sample_id: str
    doc_id: str
    query: str = ""
    text: str = ""
    returned: Mapping[str, int] = field(default_factory=dict)
    """Rank of the document by run, starting at 1; the best rank over repeats."""
    history: Sequence[Mapping[str, Any]] = ()
    """Earlier turns of the conversation."""
    judged: Grade | None = None
    """Its grade, if it is already judged."""

    @property
    def key(self) -> GradeKey:
        """Query and document."""
        return self.sample_id, self.doc_id


@dataclass(slots=True)
class RunContribution:
    """Contribution of one run to a pool."""

    queries: int = 0
    failed: int = 0
    """Failed outputs, which contribute nothing."""
    documents: int = 0
    alone: int = 0
    """Documents that no other run retrieved."""


@dataclass(slots=True)
class Pool:
    """The pooled documents of all queries, with counts by run."""

    depth: int
    documents: list[PooledDocument] = field(default_factory=list)
    runs: dict[str, RunContribution] = field(default_factory=dict)
    num_queries: int = 0
    """Queries with at least one document."""
    num_left_out: int = 0
    """Documents left out because they are already judged."""
    num_without_text: int = 0
    num_other_text: int = 0
    """Documents whose text differs between runs; the first run's text is used."""
    unknown: list[str] = field(default_factory=list)
    """Ids of queries in runs that are not among the samples."""

    @property
    def num_judged(self) -> int:
        """Number of documents that are already judged."""
        return sum(one.judged is not None for one in self.documents)

    def to_dict(self) -> dict[str, Any]:
        """The counts as a JSON object."""
        return {
            "depth": self.depth,
            "queries": self.num_queries,
            "documents": len(self.documents),
            "judged": self.num_judged,
            "to_judge": len(self.documents) - self.num_judged,
            "left_out": self.num_left_out,
            "without_text": self.num_without_text,
            "other_text": self.num_other_text,
            "unknown_queries": self.unknown,
            "runs": {
                name: {key: getattr(contribution, key) for key in contribution.__dataclass_fields__}
                for name, contribution in self.runs.items()
            },
        }


@dataclass(slots=True)
class _PooledEntry:
    """A document of one query while the pool is built."""

    text: str = ""
    returned: dict[str, int] = field(default_factory=dict)
    other_text: bool = False


def pool_outputs(
    samples: Iterable[EvaluationSample],
    runs: Mapping[str, Iterable[tuple[str, SystemOutputs]]],
    *,
    depth: PositiveInt = 10,
    judged: Mapping[GradeKey, Grade] | None = None,
    new_only: bool = False,
    seed: int = 0,
) -> Pool:
    """The union, per sample, of the top ``depth`` documents of all runs.

    A run is an iterable of sample id and output; all outputs of a sample (repeats) are pooled. Failed outputs are
    ignored. The queries are in the order of the samples; the documents of a query are ordered by a hash of ``seed``,
    query and document, which does not reveal run or rank. ``judged`` are known grades: documents with a grade carry it,
    or are left out with ``new_only``.
    """
    check_options(pool_outputs, {"depth": depth})
    if not runs:
        raise BadValueError("a pool needs at least one run")
    rows = {sample.sample_id: sample for sample in samples}
    entries: dict[str, dict[str, _PooledEntry]] = {sample_id: {} for sample_id in rows}
    pool, unknown = Pool(depth), dict[str, None]()
    for name, outputs in runs.items():
        contribution = pool.runs[name] = RunContribution()
        seen: set[str] = set()
        for sample_id, output in outputs:
            if sample_id not in entries:
                unknown[sample_id] = None
            elif output.error is not None:
                contribution.failed += 1
            else:
                seen.add(sample_id)
                _add_output(entries[sample_id], name, output, depth)
        contribution.queries = len(seen)
    pool.unknown = list(unknown)
    known = judged or {}
    for sample_id, documents in entries.items():
        pool.num_queries += bool(documents)
        texts = _gold_texts(rows[sample_id]) if documents else {}
        for doc_id in sorted(documents, key=lambda one: _shuffle_key(seed, sample_id, one)):
            _add_document(pool, rows[sample_id], doc_id, documents[doc_id], texts, known, new_only=new_only)
    return pool


def _add_output(documents: dict[str, _PooledEntry], run: str, output: SystemOutputs, depth: int) -> None:
    for rank, item in enumerate(output.retrieved[:depth], start=1):
        one = documents.setdefault(item.doc.doc_id, _PooledEntry())
        one.returned[run] = min(rank, one.returned.get(run, rank))
        if not one.text:
            one.text = item.doc.text
        elif item.doc.text and item.doc.text != one.text:
            one.other_text = True


def _gold_texts(sample: EvaluationSample) -> dict[str, str]:
    return {one.doc_id: one.text for some in (sample.candidate_docs, sample.relevant_docs) for one in some or ()}


def _add_document(
    pool: Pool,
    sample: EvaluationSample,
    doc_id: str,
    entry: _PooledEntry,
    texts: Mapping[str, str],
    known: Mapping[GradeKey, Grade],
    *,
    new_only: bool,
) -> None:
    for run in entry.returned:
        pool.runs[run].documents += 1
        pool.runs[run].alone += len(entry.returned) == 1
    grade = known.get((sample.sample_id, doc_id))
    if grade is not None and new_only:
        pool.num_left_out += 1
        return
    text = entry.text or texts.get(doc_id, "")
    pool.num_without_text += not text
    pool.num_other_text += entry.other_text
    pool.documents.append(
        PooledDocument(sample.sample_id, doc_id, sample.query, text, entry.returned, sample.history, grade)
    )


def _shuffle_key(seed: int, sample_id: str, doc_id: str) -> bytes:
    return hashlib.sha256(repr((seed, sample_id, doc_id)).encode()).digest()


def gold_grades(samples: Iterable[EvaluationSample]) -> dict[GradeKey, Grade]:
    """Grades from the samples themselves: gold by its level, other candidates 0; they count as human grades."""
    found: dict[GradeKey, Grade] = {}
    for sample in samples:
        if sample.relevant_docs or sample.candidate_docs:
            for doc_id, level in judged_levels(sample).items():
                if level >= 0:
                    found[sample.sample_id, doc_id] = Grade(sample.sample_id, doc_id, level)
    return found


# --- pool files: JSON lines, one per query and document --------------------------------------------------------------

_KEYS = ("sample_id", "query", "history", "doc_id", "text", "returned", "judged")


def write_pool(path: str | Path, documents: Iterable[PooledDocument]) -> None:
    """Write a pool atomically."""
    write_lines(Path(path), map(_line, documents))


def read_pool(path: str | Path) -> list[PooledDocument]:
    """The documents of a pool, in its order; only ``sample_id`` and ``doc_id`` must be there."""
    file = Path(path)
    lines: dict[tuple[str, str], int] = {}
    documents = []
    for number, line in read_lines(file):
        try:
            document = _parse_document(parse_json(line))
        except LineError as error:
            raise DataFileError(file, number, str(error)) from error
        first_line = lines.setdefault(document.key, number)
        if first_line != number:
            subject = f"document {document.doc_id!r} of query {document.sample_id!r}"
            raise DataFileError(
                file, number, f"{subject} is already on line {first_line}; each document may occur once"
            )
        documents.append(document)
    if not documents:
        raise DataFileError(file, None, "the pool is empty; each line is a document that some run returned")
    return documents


def _line(one: PooledDocument) -> bytes:
    return _encode(_fields(one), one)


def _fields(one: PooledDocument) -> dict[str, Any]:
    row: dict[str, Any] = {"sample_id": one.sample_id, "query": one.query}
    if one.history:
        row["history"] = list(one.history)
    row |= {"doc_id": one.doc_id, "text": one.text, "returned": dict(one.returned)}
    if one.judged is not None:
        row["judged"] = {"grade": one.judged.grade, "by": one.judged.by}
    return row


def _encode(row: Mapping[str, Any], one: PooledDocument) -> bytes:
    try:
        return msgspec.json.encode(row)
    except UnicodeEncodeError as error:
        where = f"document {one.doc_id!r} of query {one.sample_id!r}"
        raise BadValueError(f"{where} cannot be written: it holds half of a surrogate pair") from error


def _parse_document(row: object) -> PooledDocument:
    if not isinstance(row, dict):
        raise LineError("each line must be one JSON object: a document that some run returned for a query")
    for key in row:
        if key not in _KEYS:
            hint = did_you_mean(str(key)[:80], _KEYS, otherwise=f"; known fields: {', '.join(_KEYS)}")
            raise LineError(f"unknown field {key!r:.80}{hint}")
    given = {key: value for key, value in row.items() if value is not None}
    for key in ("sample_id", "doc_id"):
        if key not in given or given[key] == "":
            raise LineError(f"field '{key}' is missing")
    for key in ("sample_id", "doc_id", "query", "text"):
        if not isinstance(given.get(key, ""), str):
            raise LineError(f"field '{key}' must be a string, not {given[key]!r:.80}")
    returned, history = given.get("returned", {}), given.get("history", [])
    if not isinstance(returned, Mapping) or not all(_is_integer(rank) for rank in returned.values()):
        raise LineError("field 'returned' must map runs to the rank of the document")
    if not isinstance(history, list) or not all(isinstance(turn, Mapping) for turn in history):
        raise LineError("field 'history' must be a list of turns, each an object")
    fields = {key: given[key] for key in ("sample_id", "doc_id", "query", "text") if key in given}
    return PooledDocument(**fields, returned=returned, history=history, judged=_parse_grade(given))


def _parse_grade(row: Mapping[str, Any]) -> Grade | None:
    value = row.get("judged")
    if value is None:
        return None
    fields: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    grade: Any = fields.get("grade")
    by: Any = fields.get("by", "human")
    if not _is_integer(grade) or grade < 0 or by not in get_args(Provenance):
        raise LineError(
            f"field 'judged' must be an object with a 'grade' from 0 up and 'by' ({', '.join(get_args(Provenance))})"
        )
    return Grade(row["sample_id"], row["doc_id"], grade, by)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# --- the pooled runs: stored runs by name, TREC runs and output files by path ----------------------------------------


def is_outputs_file(run: str) -> bool:
    """Whether a run is given as the path of a file rather than by its name in the store."""
    return Path(run).is_file()


@dataclass(slots=True)
class PooledRuns:
    """Runs to pool, in order, and their samples."""

    runs: dict[str, Iterable[tuple[str, SystemOutputs]]] = field(default_factory=dict)
    samples: dict[str, EvaluationSample] = field(default_factory=dict)

    def add_samples(self, samples: Iterable[EvaluationSample], origin: str) -> None:
        """Add samples; raises if one id has two different queries."""
        for sample in samples:
            before = self.samples.setdefault(sample.sample_id, sample)
            if before.query != sample.query:
                raise BadValueError(
                    f"sample {sample.sample_id!r} of {origin} asks {sample.query!r:.60}, but another run's asks "
                    f"{before.query!r:.60}: the runs are about different questions"
                )

    def add_file(self, path: str) -> None:
        """Add a TREC run or a file of outputs."""
        name = Path(path).name
        self._add(name if name not in self.runs else path, _by_sample(iter_outputs(path)))

    def add_stored(self, store: RunStore, records: Sequence[RunRecord], *, with_samples: bool = True) -> None:
        """Add stored runs, and their samples unless others are given."""
        names = [record.name for record in records]
        for record in records:
            name = record.name if names.count(record.name) == 1 and record.name not in self.runs else record.run_id
            self._add(name, _by_sample(store.outputs(record.run_id)))
            if with_samples:
                self.add_samples(store.samples(record.run_id), record.run_id)

    def _add(self, name: str, outputs: Iterable[tuple[str, SystemOutputs]]) -> None:
        if name in self.runs:
            raise BadValueError(f"{name} is given twice; each run can be pooled once")
        self.runs[name] = outputs


def _by_sample(rows: Iterable[Any]) -> Iterator[tuple[str, SystemOutputs]]:
    return ((row.sample_id, row.output) for row in rows)


# --- draws: the pairs that people grade, with their probabilities ----------------------------------------------------

SHOWN = ("query", "history", "text")
"""What a person who grades a drawn document sees: neither the grade of the model nor the runs."""


@dataclass(frozen=True, slots=True)
class DrawnPair:
    """A document of the pool from which pairs were drawn."""

    sample_id: str
    doc_id: str
    best_rank: int
    """Its best rank in any pooled run, starting at 1."""
    probability: float
    """1 where a grade of a person was known before the draw; 0 where the document changes none of the metrics."""
    position: int | None = None
    """Its position in the order of grading, starting at 1; ``None`` if it was not drawn."""
    grade: int | None = None
    """The grade of a person that was known before the draw."""

    @property
    def key(self) -> GradeKey:
        """Query and document."""
        return self.sample_id, self.doc_id


@dataclass(frozen=True, slots=True)
class PairDraw:
    """A random draw of pairs of query and document, fixed before the first grade."""

    seed: int
    n: int
    metrics: tuple[str, ...]
    min_relevance: int
    runs: tuple[str, ...]
    pairs: tuple[DrawnPair, ...]
    """All pairs of the pool, in the order of its queries."""

    @property
    def id(self) -> str:
        """The id of the draw: two draws with the same id have the same pairs, probabilities and order."""
        return f"pairs-{hashlib.sha256(repr(self).encode()).hexdigest()[:8]}"

    @property
    def order(self) -> list[DrawnPair]:
        """The drawn pairs in the order of grading."""
        return sorted((one for one in self.pairs if one.position is not None), key=lambda one: one.position or 0)

    def to_dict(self) -> dict[str, Any]:
        """The draw as its file stores it."""
        pairs = [
            {name: value for name in DrawnPair.__dataclass_fields__ if (value := getattr(one, name)) is not None}
            for one in self.pairs
        ]
        return {
            "draw": self.id,
            "seed": self.seed,
            "n": self.n,
            "metrics": list(self.metrics),
            "min_relevance": self.min_relevance,
            "runs": list(self.runs),
            "shown": list(SHOWN),
            "pairs": pairs,
        }


def draw_pairs(pool: Pool, metrics: Sequence[Metric], n: int, *, seed: int = 0) -> PairDraw:
    """Draw ``n`` pairs of a pool whose documents have grades of a model, for people to grade.

    Pairs are drawn over all queries, more often where the model is uncertain and the metrics depend on the document.
    Human grades that the pool has already need no draw.
    """
    measures = [ranked_measure(one) for one in metrics]
    lowest_levels = {min_relevance_of(one) for one in metrics}
    if len(lowest_levels) > 1:
        raise BadValueError("the metrics of a draw have different 'min_relevance'; draw for one level at a time")
    (lowest,) = lowest_levels
    largest = max(measure.k for measure in measures)
    if largest > pool.depth:
        raise BadValueError(
            f"a pool of depth {pool.depth} does not contain the top {largest}; pool with --depth {largest}"
        )
    ungraded = sum(one.judged is None for one in pool.documents)
    if ungraded:
        raise BadValueError(
            f"{ungraded:,} of {len(pool.documents):,} documents have no grade; grade the pool with `auepora judge "
            "relevance`, and give the grades with --qrels"
        )
    known = {one.key: one.judged.grade for one in pool.documents if one.judged is not None and one.judged.by != "model"}
    if known and len(known) == len(pool.documents):
        raise BadValueError(
            f"all {len(known):,} grades of the pool count as human grades, so that there is nothing to draw; "
            "grades of a model have 'by': 'model' in the provenance file, as `auepora judge relevance` writes it"
        )
    rows = [
        DrawnPair(*one.key, min(one.returned.values()), float(one.key in known), grade=known.get(one.key))
        for one in pool.documents
    ]
    levels = model_levels(one.judged for one in pool.documents if one.judged is not None)
    lengths = dict.fromkeys((one.sample_id for one in rows), pool.depth)
    rankings = [
        pooled_pairs(
            rows,
            levels,
            known,
            {one.key: one.returned[run] - 1 for one in pool.documents if run in one.returned},
            lengths,
            min_relevance=lowest,
        )
        for run in pool.runs
    ]
    probability = grading_probabilities(rankings, measures, n)
    drawn = systematic_draw(np.where(rankings[0].graded, 0.0, probability), seed)
    positions = {int(row): number for number, row in enumerate(drawn, start=1)}
    pairs = tuple(
        replace(one, probability=round(float(probability[row]), 9), position=positions.get(row))
        for row, one in enumerate(rows)
    )
    return PairDraw(seed, n, tuple(f"{one.name}@{one.k}" for one in measures), lowest, tuple(pool.runs), pairs)


def ranked_measure(metric: Metric) -> RankedMeasure:
    """The measure that a metric stands for; raises for others than precision, recall and binary nDCG with a cut-off."""
    kind: Any = getattr(type(metric), "registered_as", "")
    k = getattr(metric, "k", None)
    if kind not in get_args(MeasureName) or k is None:
        raise BadValueError(
            f"'{metric.name}' cannot be corrected by grades of some pairs; give precision@k, recall@k or ndcg@k"
        )
    assert isinstance(metric, BatchMetric)
    rules = metric.active_conventions
    if kind == "ndcg" and (
        getattr(metric, "gain", "binary") != "binary" or getattr(metric, "ties", "order") != "order"
    ):
        raise BadValueError(f"'{metric.name}' is corrected with binary gain and without ties only")
    if rules.empty_gold == "skip" or rules.k_policy != "written":
        raise BadValueError(
            f"'{metric.name}' is corrected over all queries with k as written; leave out its own conventions"
        )
    return RankedMeasure(kind, k if rules.depth is None else min(k, rules.depth), rules.precision)


def correctable_metrics(specs: Sequence[Spec], conventions: Conventions) -> list[Metric]:
    """The metrics with binary gain, in which a query without a relevant document counts 0; precision first."""
    rules = replace(conventions, gain="binary", empty_gold="zero")
    order = get_args(MeasureName)
    return sorted(resolve_metrics(specs, rules), key=lambda one: order.index(ranked_measure(one).name))


def min_relevance_of(metric: Metric) -> int:
    """The lowest grade that counts as relevant."""
    assert isinstance(metric, BatchMetric)
    return metric.active_conventions.min_relevance


def model_levels(grades: Iterable[Grade]) -> dict[GradeKey, float]:
    """The grade of the model for each document before rounding; where there is none, the grade of the person."""
    levels: dict[GradeKey, float] = {}
    for one in grades:
        level = one.grade if one.grade_by_model is None else one.grade_by_model
        levels[one.key] = one.mean if one.by == "model" and one.mean is not None else level
    return levels


def pooled_pairs(
    rows: Sequence[DrawnPair],
    levels: Mapping[GradeKey, float],
    grades: Mapping[GradeKey, int],
    ranks: Mapping[GradeKey, int],
    lengths: Mapping[str, int],
    *,
    min_relevance: int = 1,
) -> PooledPairs:
    """The columns of pairs with one ranking.

    ``levels`` are grades of the model and ``grades`` those of people. ``ranks`` has the position, from 0, of documents
    in the ranking. ``lengths`` has the queries in the order of the rows, with the number of documents returned.
    """
    numbers = {query: number for number, query in enumerate(lengths)}
    highest = max((math.ceil(level) for level in levels.values()), default=min_relevance)
    steps = np.arange(max(highest, min_relevance) + 1)
    # A document below the lowest relevant level has a score below one half.
    above = 0.5 + 0.5 * (steps - min_relevance + 1) / (steps[-1] - min_relevance + 1)
    scale = np.where(steps < min_relevance, steps / (2 * min_relevance), above)
    return PooledPairs(
        np.array([numbers[one.sample_id] for one in rows], dtype=np.intp),
        np.interp([levels[one.key] for one in rows], steps, scale),
        np.array([ranks.get(one.key, -1) for one in rows], dtype=np.intp),
        np.array([one.best_rank - 1 for one in rows], dtype=np.intp),
        np.array([one.probability for one in rows], dtype=np.float64),
        np.array([float(grades[one.key] >= min_relevance) if one.key in grades else math.nan for one in rows]),
        np.array(list(lengths.values()), dtype=np.intp),
    )


def write_drawn_pairs(path: str | Path, pool: Pool, draw: PairDraw) -> bool:
    """Write the drawn pairs for grading and, next to them, the draw; False if this draw was written before.

    The file for grading has what people see, in the order of the draw. Raises if another draw is there.
    """
    record = draw_path(path)
    if record.exists():
        before = read_pair_draw(record)
        if before.id != draw.id:
            raise DataFileError(
                record,
                None,
                f"{before.n} pairs were drawn here with --seed {before.seed} for {', '.join(before.metrics)}; "
                "draw them so again from the same runs and grades, or write to another file",
            )
        if Path(path).exists():
            return False
    documents = {one.key: one for one in pool.documents}
    write_pair_draw(record, draw)
    name = draw.id
    write_lines(Path(path), (_drawn_line(documents[one.key], name, one) for one in draw.order))
    return True


def write_pair_draw(record: Path, draw: PairDraw) -> None:
    """Write the record of a draw of pairs."""
    write_lines(record, [json.dumps(draw.to_dict(), indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace")])


def _drawn_line(document: PooledDocument, draw: str, pair: DrawnPair) -> bytes:
    row = {
        **_fields(replace(document, returned={}, judged=None)),
        "draw": draw,
        "position": pair.position,
        "grade": None,
    }
    del row["returned"]
    return _encode(row, document)


def find_pair_draw(grades: str | Path) -> PairDraw | None:
    """The draw of pairs next to a file of grades; ``None`` if there is none, or a draw of answers to label."""
    record = draw_path(grades)
    return read_pair_draw(record) if record.exists() and b'"pairs"' in read_bytes(record) else None


def read_pair_draw(path: str | Path) -> PairDraw:
    """Read the record of a draw of pairs."""
    file = Path(path)
    try:
        row = json.loads(read_bytes(file))
        pairs = tuple(DrawnPair(**one) for one in row["pairs"])
        found = PairDraw(row["seed"], row["n"], tuple(row["metrics"]), row["min_relevance"], tuple(row["runs"]), pairs)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        problem = f"is no record of a draw of pairs ({type(error).__name__}: {error})"
        raise DataFileError(file, None, problem) from error
    if found.id != row.get("draw"):
        raise DataFileError(file, None, "the record of the draw was changed after the draw; restore it")
    return found


# --- human grades: a qrels file, a table of query, document and grade, or JSON lines ---------------------------------

_GRADE_KEYS = ("grade", "label", "relevance")
_HEADER_NAMES = frozenset({"grade", "label", "relevance", "score", "level"})


def read_human_grades(path: str | Path) -> dict[GradeKey, Grade]:
    """Human grades by query and document. Negative grades are ignored.

    The first line shows the format: a journal of labels, ``{"sample_id": ..., "doc_id": ..., "grade": 2}``, three
    columns with tabs between them (query, document, grade; a line of names above them is fine), or the four columns of
    qrels. In JSON lines ``comment``, ``at`` and the fields of a draw are kept, other fields are ignored. A drawn
    document whose grade is null is not graded yet. Of a journal, an adjudicated grade replaces those of the annotators;
    without one they must be equal.
    """
    file = Path(path)
    first = next((line for line in read_head(file).splitlines() if line.strip()), "")
    if first.lstrip().startswith("{"):
        rows = _journal_grades(file) if LabelJournal.format in first else _json_lines(file)
    elif first.count("\t") == 2:
        rows = _table(file)
    elif len(first.split()) == 4:
        rows = (
            (0, Grade(query, doc, level)) for query, each in load_qrels(file).items() for doc, level in each.items()
        )
    else:
        raise DataFileError(
            file,
            1,
            "unknown format; human grades are JSON lines with 'sample_id', 'doc_id' and 'grade', three "
            "columns with tabs between them, or qrels",
        )
    grades: dict[GradeKey, Grade] = {}
    lines: dict[GradeKey, int] = {}
    for number, grade in rows:
        first_line = lines.setdefault(grade.key, number)
        if first_line != number:
            what = f"document {grade.doc_id!r} of query {grade.sample_id!r}"
            raise DataFileError(file, number, f"{what} is already graded on line {first_line}; keep one of them")
        if grade.grade >= 0:
            grades[grade.key] = grade
    draw = find_pair_draw(file)
    return grades if draw is None else _with_draw(grades, draw)


def _with_draw(grades: Mapping[GradeKey, Grade], draw: PairDraw) -> dict[GradeKey, Grade]:
    """The grades with how their documents were selected."""
    drawn, name = {one.key: one for one in draw.order}, draw.id
    return {
        key: replace(grade, draw=name, probability=drawn[key].probability, position=drawn[key].position, shown=SHOWN)
        if key in drawn
        else grade
        for key, grade in grades.items()
    }


def _json_lines(path: Path) -> Iterator[tuple[int, Grade]]:
    for number, line in read_lines(path):
        try:
            row = parse_json(line)
            if not isinstance(row, dict):
                raise LineError("each line must be one JSON object")
            if "draw" not in row or any(row.get(key) is not None for key in _GRADE_KEYS):
                yield number, _parse_object(row)
        except LineError as error:
            raise DataFileError(path, number, str(error)) from error


def _journal_grades(path: Path) -> Iterator[tuple[int, Grade]]:
    """The grades of people in a journal of labels, one per document; documents that a person picked are left out."""
    by_document: dict[GradeKey, list[tuple[int, Label]]] = {}
    for number, label in iter_labels(path, Problems()):
        if label.doc_id is None:
            raise DataFileError(path, number, "field 'doc_id' is missing: the label is of an answer, not of a document")
        if not label.value.is_integer():
            raise DataFileError(path, number, f"field 'label' must be an integer, not {label.value:g}")
        if not label.chosen and label.provenance != "model":
            by_document.setdefault((label.sample_id, label.doc_id), []).append((number, label))
    for (query, document), found in by_document.items():
        counted = [one for one in found if one[1].adjudicated] or found
        number, label = counted[-1]
        if len({one.value for _, one in counted}) > 1:
            what = f"document {document!r} of query {query!r}"
            raise DataFileError(path, number, f"annotators graded {what} differently; adjudicate it first")
        yield (
            number,
            Grade(
                query,
                document,
                int(label.value),
                why=label.comment,
                at=label.at,
                draw=label.draw or "",
                probability=label.probability,
                position=label.position,
                shown=label.shown or (),
            ),
        )


def _parse_object(row: Mapping[str, Any]) -> Grade:
    for key in ("sample_id", "doc_id"):
        if not isinstance(row.get(key), str) or not row[key]:
            raise LineError(f"field '{key}' must be an id, not {json.dumps(row.get(key))[:40]}")
    value = next((row[key] for key in _GRADE_KEYS if row.get(key) is not None), None)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise LineError(f"field 'grade' must be an integer, not {json.dumps(value)[:40]}")
    error = next(draw_errors(row), None)
    if error is not None:
        raise LineError(f"field {error}")
    return Grade(
        row["sample_id"],
        row["doc_id"],
        value,
        why=str(row.get("comment") or ""),
        at=_text(row.get("at")),
        draw=_text(row.get("draw")) or "",
        probability=row.get("probability"),
        position=row.get("position"),
        shown=tuple(row.get("shown") or ()),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _table(path: Path) -> Iterator[tuple[int, Grade]]:
    for number, line in read_lines(path):
        cells = [cell.strip() for cell in line.decode("utf-8", "replace").rstrip("\r\n").split("\t")]
        if number == 1 and cells[-1].lower() in _HEADER_NAMES:
            continue
        if len(cells) != 3 or not all(cells):
            raise DataFileError(
                path, number, f"expected query, document and grade with tabs between, found {cells!r:.80}"
            )
        try:
            yield number, Grade(cells[0], cells[1], int(cells[2]))
        except ValueError:
            raise DataFileError(path, number, f"the grade must be an integer, not {cells[2]!r:.40}") from None
