"""Pools: for each query the union of the top documents of several runs; pool files, and files of drawn pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec

from ..core.types import EvaluationSample, SystemOutputs
from ..errors import BadValueError, DataFileError
from ..io.codec import LineError
from ..io.grades import DocumentId, Grade, GradeKey, make_grade
from ..io.join import iter_outputs
from ..io.labels import Provenance
from ..io.rows import require_types, row_values
from ..io.trec import judged_levels
from ..io.values import errors_at, parse_json
from ..labels.draws import draw_path
from ..labels.pair_draws import DrawnPair, PairDraw, read_pair_draw, write_pair_draw
from ..options import PositiveInt, check_options
from ..runtime.files import read_lines, write_lines
from ..store.records import RunRecord
from ..store.runs import RunStore


@dataclass(frozen=True, slots=True)
class PooledDocument:
    """A document that at least one run retrieved for a query."""

    sample_id: DocumentId
    doc_id: DocumentId
    query: str = ""
    text: str = ""
    returned: Annotated[Mapping[str, int], "a mapping of runs to ranks"] = field(default_factory=dict)
    """Rank of the document by run, starting at 1; the best rank over repeats."""
    history: Annotated[Sequence[Mapping[str, Any]], "a list of turns, each an object"] = ()
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
        return sum(document.judged is not None for document in self.documents)

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
            "runs": {name: asdict(contribution) for name, contribution in self.runs.items()},
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

    Args:
        samples: The samples.
        runs: Outputs by sample id, by the name of their run.

    Returns:
        The documents to grade, with counts.

    Example:
        >>> pool = pool_outputs(samples, {"a": [("q1", outputs[0]), ("q2", outputs[1])]})
        >>> sorted({document.doc_id for document in pool.documents})
        ['ada', 'notes']
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
        gold = (*(rows[sample_id].candidate_docs or ()), *(rows[sample_id].relevant_docs or ()))
        texts = {document.doc_id: document.text for document in gold}
        for doc_id in sorted(documents, key=lambda doc: _shuffle_key(seed, sample_id, doc)):
            _add_document(
                pool,
                rows[sample_id],
                doc_id=doc_id,
                entry=documents[doc_id],
                texts=texts,
                known=known,
                new_only=new_only,
            )
    return pool


def _add_output(documents: dict[str, _PooledEntry], run: str, output: SystemOutputs, depth: int) -> None:
    for rank, item in enumerate(output.retrieved[:depth], start=1):
        entry = documents.setdefault(item.doc.doc_id, _PooledEntry())
        entry.returned[run] = min(rank, entry.returned.get(run, rank))
        if not entry.text:
            entry.text = item.doc.text
        elif item.doc.text and item.doc.text != entry.text:
            entry.other_text = True


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
        PooledDocument(
            sample.sample_id,
            doc_id,
            query=sample.query,
            text=text,
            returned=entry.returned,
            history=sample.history,
            judged=grade,
        )
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
        with errors_at(file, number):
            document = _parse_document(parse_json(line))
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


def _line(document: PooledDocument) -> bytes:
    return _encode(_fields(document), document)


def _fields(document: PooledDocument) -> dict[str, Any]:
    row: dict[str, Any] = {"sample_id": document.sample_id, "query": document.query}
    if document.history:
        row["history"] = list(document.history)
    row |= {"doc_id": document.doc_id, "text": document.text, "returned": dict(document.returned)}
    if document.judged is not None:
        row["judged"] = {"grade": document.judged.grade, "by": document.judged.by}
    return row


def _encode(row: Mapping[str, Any], document: PooledDocument) -> bytes:
    try:
        return msgspec.json.encode(row)
    except UnicodeEncodeError as error:
        where = f"document {document.doc_id!r} of query {document.sample_id!r}"
        raise BadValueError(f"{where} cannot be written: it holds half of a surrogate pair") from error


def _parse_document(row: object) -> PooledDocument:
    given = row_values(row, _KEYS, ("sample_id", "doc_id"))
    judged = given.pop("judged", None)
    require_types(PooledDocument, given)
    document = PooledDocument(**{"history": [], **given})
    return document if judged is None else replace(document, judged=_parse_grade(document, judged))


_JUDGED = f"field 'judged' must be an object with a 'grade' from 0 up and 'by' ({', '.join(get_args(Provenance))})"


def _parse_grade(document: PooledDocument, value: object) -> Grade:
    given = value if isinstance(value, Mapping) else {}
    fields = {key: given[key] for key in ("grade", "by") if key in given}
    try:
        grade = make_grade({"sample_id": document.sample_id, "doc_id": document.doc_id, **fields})
    except LineError as error:
        raise LineError(f"{_JUDGED}: {error}") from error
    if grade.grade < 0:
        raise LineError(_JUDGED)
    return grade


# --- the pooled runs: stored runs by name, TREC runs and output files by path ----------------------------------------


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
        self._add(name if name not in self.runs else path, iter_outputs(path))

    def add_stored(self, store: RunStore, records: Sequence[RunRecord], *, with_samples: bool = True) -> None:
        """Add stored runs, and their samples unless others are given."""
        names = [record.name for record in records]
        for record in records:
            name = record.name if names.count(record.name) == 1 and record.name not in self.runs else record.run_id
            self._add(name, store.outputs(record.run_id))
            if with_samples:
                self.add_samples(store.samples(record.run_id), record.run_id)

    def _add(self, name: str, rows: Iterable[Any]) -> None:
        if name in self.runs:
            raise BadValueError(f"{name} is given twice; each run can be pooled once")
        self.runs[name] = ((row.sample_id, row.output) for row in rows)


# --- draws: the pairs that people grade, with their probabilities ----------------------------------------------------


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
    documents = {document.key: document for document in pool.documents}
    write_pair_draw(record, draw)
    write_lines(Path(path), (_drawn_line(documents[pair.key], draw.id, pair) for pair in draw.order))
    return True


def _drawn_line(document: PooledDocument, draw: str, pair: DrawnPair) -> bytes:
    row = {
        **_fields(replace(document, returned={}, judged=None)),
        "draw": draw,
        "position": pair.position,
        "grade": None,
    }
    del row["returned"]
    return _encode(row, document)
