"""Pools: for each query the union of the top documents of several runs, in an order that hides their origin."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.errors import BadValueError
from ..core.types import EvaluationSample, SystemOutputs
from ..io.grades import Grade, GradeKey
from ..io.trec_write import judged_levels

__all__ = ["Pool", "PooledDocument", "RunContribution", "gold_grades", "pool_outputs"]


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
    depth: int = 10,
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
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
        raise BadValueError(f"depth must be an integer >= 1, not {depth!r}")
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
