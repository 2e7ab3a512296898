"""Which documents are relevant to a sample, as far as its annotations say."""

from __future__ import annotations

from collections.abc import Mapping

from ..core.types import Document, EvaluationSample
from ..features.rankings import parse_level

__all__ = ["gold_key", "gold_keys", "gold_parents", "has_gold"]


def gold_keys(sample: EvaluationSample) -> frozenset[str]:
    """The ids that a sample names as relevant: of chunks or whole documents (``metadata["expected_doc_ids"]``)."""
    named = [doc.doc_id for doc in sample.relevant_docs or () if _is_relevant(doc, sample)]
    return frozenset([*named, *_expected_doc_ids(sample)])


def has_gold(sample: EvaluationSample) -> bool:
    """Whether anything is named as relevant."""
    return bool(gold_keys(sample))


def gold_key(document: Document, keys: frozenset[str]) -> str | None:
    """By which of the relevant ids a document is relevant, its own or that of the whole it is from; or ``None``."""
    if document.doc_id in keys:
        return document.doc_id
    return document.parent_id if document.parent_id in keys else None


def gold_parents(sample: EvaluationSample) -> frozenset[str]:
    """The documents that anything relevant is from: what else they hold is not sure to be noise."""
    return frozenset(
        [*(doc.parent for doc in sample.relevant_docs or () if _is_relevant(doc, sample)), *_expected_doc_ids(sample)]
    )


def _is_relevant(document: Document, sample: EvaluationSample) -> bool:
    return parse_level(document.metadata.get("relevance", 1), document.doc_id, sample.sample_id) >= 1


def _expected_doc_ids(sample: EvaluationSample) -> list[str]:
    held = sample.metadata.get("expected_doc_ids") if isinstance(sample.metadata, Mapping) else None
    return [str(one) for one in held] if isinstance(held, (list, tuple)) else []
