"""The relevant documents of a sample, from its annotations."""

from __future__ import annotations

from collections.abc import Mapping

from ..core.types import Document, EvaluationSample
from ..features.rankings import parse_level

__all__ = ["gold_key", "gold_keys", "gold_parents", "has_gold"]


def gold_keys(sample: EvaluationSample) -> frozenset[str]:
    """The ids of a sample's gold: chunks, or whole documents (``metadata["expected_doc_ids"]``)."""
    named = [doc.doc_id for doc in sample.relevant_docs or () if _is_relevant(doc, sample)]
    return frozenset([*named, *_expected_doc_ids(sample)])


def has_gold(sample: EvaluationSample) -> bool:
    """Whether the sample has gold."""
    return bool(gold_keys(sample))


def gold_key(document: Document, keys: frozenset[str]) -> str | None:
    """The gold id that makes a document relevant, its own or its parent's; or ``None``."""
    if document.doc_id in keys:
        return document.doc_id
    return document.parent_id if document.parent_id in keys else None


def gold_parents(sample: EvaluationSample) -> frozenset[str]:
    """The parents of the gold: other chunks of these documents may be relevant too, so they are not noise."""
    return frozenset(
        [*(doc.parent for doc in sample.relevant_docs or () if _is_relevant(doc, sample)), *_expected_doc_ids(sample)]
    )


def _is_relevant(document: Document, sample: EvaluationSample) -> bool:
    return parse_level(document.metadata.get("relevance", 1), document.doc_id, sample.sample_id) >= 1


def _expected_doc_ids(sample: EvaluationSample) -> list[str]:
    doc_ids = sample.metadata.get("expected_doc_ids") if isinstance(sample.metadata, Mapping) else None
    return [str(one) for one in doc_ids] if isinstance(doc_ids, (list, tuple)) else []
