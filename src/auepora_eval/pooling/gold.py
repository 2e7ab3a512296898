"""Samples with the grades of a qrels file as their gold, and with the provenance of those grades."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ..core.errors import BadValueError
from ..core.types import Document, EvaluationSample
from ..io.grades import GOLD_BY, Grade, provenance_counts, read_grades

__all__ = ["gold_signature", "with_gold"]


def with_gold(samples: Iterable[EvaluationSample], qrels: str | Path) -> list[EvaluationSample]:
    """The samples with the graded documents of a qrels file as gold, and those of grade 0 as candidates.

    A sample that is not in the file has no gold. Existing documents of a sample keep their texts.
    """
    rows = list(samples)
    by_query: dict[str, list[Grade]] = {}
    for grade in read_grades(qrels).values():
        by_query.setdefault(grade.sample_id, []).append(grade)
    if rows and not any(sample.sample_id in by_query for sample in rows):
        raise BadValueError(f"'{qrels}' has no grade for any of the {len(rows)} samples; are the ids the same?")
    return [_with_grades(sample, by_query.get(sample.sample_id)) for sample in rows]


def _with_grades(sample: EvaluationSample, grades: Sequence[Grade] | None) -> EvaluationSample:
    metadata = {key: value for key, value in sample.metadata.items() if key != GOLD_BY}
    if grades is None:
        return replace(sample, relevant_docs=None, candidate_docs=None, metadata=metadata)
    known_documents = {one.doc_id: one for some in (sample.candidate_docs, sample.relevant_docs) for one in some or ()}

    def document(grade: Grade) -> Document:
        known = known_documents.get(grade.doc_id) or Document(grade.doc_id)
        rest = {key: value for key, value in known.metadata.items() if key != "relevance"}
        return replace(known, metadata={**rest, "relevance": grade.grade} if grade.grade else rest)

    relevant = [document(grade) for grade in grades if grade.grade > 0]
    others = [document(grade) for grade in grades if grade.grade == 0]
    return replace(
        sample,
        relevant_docs=relevant,
        candidate_docs=others or None,
        metadata={**metadata, GOLD_BY: provenance_counts(grades)},
    )


def gold_signature(qrels: str | Path) -> str:
    """The gold of a qrels file in a signature: two files with the same grades are the same gold."""
    levels = sorted((*key, grade.grade) for key, grade in read_grades(qrels).items())
    return f"qrels-{hashlib.sha256(repr(levels).encode()).hexdigest()[:8]}"
