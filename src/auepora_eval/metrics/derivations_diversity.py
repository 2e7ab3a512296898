"""Derivations of diversity: the cosines of documents, or of answers, pair by pair."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from ..core.derivation import Cell, Derivation, DerivationBuilder, format_number, quote_text
from ..core.types import Document, EvaluationSample, SystemOutputs
from ..features.embeddings import document_vector
from ..text.tokenizers import plain_words
from .derivations_text import add_words_step

__all__ = ["answer_distance_steps", "list_distance_steps"]


def list_distance_steps(documents: Sequence[Document], mean: float, value: float) -> Derivation:
    """One minus the mean cosine over all pairs of documents."""
    rows: list[tuple[Cell, ...]] = []
    for at, one in enumerate(documents):
        for before, other in enumerate(documents[:at]):
            first, second = document_vector(other), document_vector(one)
            if not isinstance(first, str) and not isinstance(second, str):
                cosine = math.fsum(a * b for a, b in zip(first.tolist(), second.tolist(), strict=True))
                rows.append((before + 1, other.doc_id, at + 1, one.doc_id, cosine))
    steps = DerivationBuilder().table(
        "Every pair of documents, and the cosine of their vectors",
        ("rank", "document", "rank", "with", "cosine"),
        rows,
    )
    steps.add_step(f"Their mean, over {len(rows)} pairs: {format_number(mean)}", mean)
    return steps.finish_with_value(f"1 − {format_number(mean)}", value)


def answer_distance_steps(
    sample_id: str, answer: str, pairs: Sequence[tuple[EvaluationSample, SystemOutputs | None]], value: float
) -> Derivation:
    """One minus the mean cosine of an answer with all others, as bags of words."""
    words = Counter(plain_words(answer))
    steps = add_words_step(
        DerivationBuilder().add_step(f"The answer: {quote_text(answer)}"), "Normalised", list(words.elements())
    )
    rows: list[tuple[Cell, ...]] = []
    for sample, output in pairs:
        if sample.sample_id == sample_id or output is None or output.error is not None or output.response is None:
            continue
        other = Counter(plain_words(output.response.text))
        if other:
            rows.append((sample.sample_id, _cosine(words, other)))
    rows.sort(key=lambda row: -float(row[1] or 0.0))
    steps.table("The cosine with every other answer, the most alike first", ("answer of", "cosine"), rows)
    return steps.finish_with_value(f"1 − their mean over {len(rows)} answers", value)


def _cosine(one: Counter[str], other: Counter[str]) -> float:
    squares = sum(n * n for n in one.values()) * sum(n * n for n in other.values())
    return sum(n * other[word] for word, n in one.items()) / math.sqrt(squares)
