"""Pools: for each query the union of the first documents that several runs returned, in an order that tells nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.errors import BadValueError
from ..core.types import EvaluationSample, SystemOutputs
from ..io.grades import Grade, GradeKey
from ..io.trec_format import judged_levels

__all__ = ["Pool", "PooledDocument", "RunContribution", "gold_grades", "pool_outputs"]


@dataclass(frozen=True, slots=True)
class PooledDocument:
    """One document that some run returned for a query."""

    sample_id: str
    doc_id: str
    query: str = ""
    text: str = ""
    returned: Mapping[str, int] = field(default_factory=dict)
    """By run the rank at which it returned the document, 1 being the first; of repeats the best one."""
    history: Sequence[Mapping[str, Any]] = ()
    """Earlier turns of the conversation."""
    judged: Grade | None = None
    """What is known of its relevance already."""

    @property
    def key(self) -> GradeKey:
        """Query and document."""
        return self.sample_id, self.doc_id


@dataclass(slots=True)
class RunContribution:
    """What one run brought to a pool."""

    queries: int = 0
    failed: int = 0
    """Outputs that failed, and brought nothing."""
    documents: int = 0
    alone: int = 0
    """Documents that no other run returned."""


@dataclass(slots=True)
class Pool:
    """The pooled documents of all queries, and how they came together."""

    depth: int
    documents: list[PooledDocument] = field(default_factory=list)
    runs: dict[str, RunContribution] = field(default_factory=dict)
    num_queries: int = 0
    """Queries for which any run returned anything."""
    num_left_out: int = 0
    """Documents left out since they are judged already."""
    num_without_text: int = 0
    num_other_text: int = 0
    """Documents whose text differs from run to run: the first run's is taken."""
    unknown: list[str] = field(default_factory=list)
    """Queries of runs that are not among the samples."""

    @property
    def num_judged(self) -> int:
        """How many of the documents are judged already."""
        return sum(one.judged is not None for one in self.documents)

    def to_dict(self) -> dict[str, Any]:
        """The counts, as JSON has them."""
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
                name: {key: getattr(share, key) for key in share.__dataclass_fields__}
                for name, share in self.runs.items()
            },
        }


@dataclass(slots=True)
class _PooledEntry:
    """A document of one query while runs are gone through."""

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
    """The union, per sample, of the first ``depth`` documents that any run returned.

    A run is pairs of a sample's id and an output; several outputs of one sample (repeats) are all pooled. What a failed
    output holds is not looked at. The queries are in the order of the samples; the documents of one are ordered by a
    hash of ``seed``, query and document, which says nothing of who returned them, nor where. ``judged`` are grades that
    are known: documents that have one carry it, or are left out with ``new_only``.
    """
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
        raise BadValueError(f"depth must be a whole number of at least 1, not {depth!r}")
    if not runs:
        raise BadValueError("a pool needs at least one run")
    rows = {sample.sample_id: sample for sample in samples}
    found: dict[str, dict[str, _PooledEntry]] = {sample_id: {} for sample_id in rows}
    pool, unknown = Pool(depth), dict[str, None]()
    for name, outputs in runs.items():
        share = pool.runs[name] = RunContribution()
        seen: set[str] = set()
        for sample_id, output in outputs:
            if sample_id not in found:
                unknown[sample_id] = None
            elif output.error is not None:
                share.failed += 1
            else:
                seen.add(sample_id)
                _take(found[sample_id], name, output, depth)
        share.queries = len(seen)
    pool.unknown = list(unknown)
    known = judged or {}
    for sample_id, documents in found.items():
        pool.num_queries += bool(documents)
        texts = _gold_texts(rows[sample_id]) if documents else {}
        for doc_id in sorted(documents, key=lambda one: _shuffle_key(seed, sample_id, one)):
            _add_document(pool, rows[sample_id], doc_id, documents[doc_id], texts, known, new_only=new_only)
    return pool


def _take(documents: dict[str, _PooledEntry], run: str, output: SystemOutputs, depth: int) -> None:
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
    found: _PooledEntry,
    texts: Mapping[str, str],
    known: Mapping[GradeKey, Grade],
    *,
    new_only: bool,
) -> None:
    for run in found.returned:
        pool.runs[run].documents += 1
        pool.runs[run].alone += len(found.returned) == 1
    grade = known.get((sample.sample_id, doc_id))
    if grade is not None and new_only:
        pool.num_left_out += 1
        return
    text = found.text or texts.get(doc_id, "")
    pool.num_without_text += not text
    pool.num_other_text += found.other_text
    pool.documents.append(
        PooledDocument(sample.sample_id, doc_id, sample.query, text, found.returned, sample.history, grade)
    )


def _shuffle_key(seed: int, sample_id: str, doc_id: str) -> bytes:
    return hashlib.sha256(repr((seed, sample_id, doc_id)).encode()).digest()


def gold_grades(samples: Iterable[EvaluationSample]) -> dict[GradeKey, Grade]:
    """What samples themselves say of documents: gold by its level, other candidates 0; it counts as people's."""
    found: dict[GradeKey, Grade] = {}
    for sample in samples:
        if sample.relevant_docs or sample.candidate_docs:
            for doc_id, level in judged_levels(sample).items():
                if level >= 0:
                    found[sample.sample_id, doc_id] = Grade(sample.sample_id, doc_id, level)
    return found
