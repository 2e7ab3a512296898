"""Two generators that quote a sentence: the best match of the question, and the first one."""

from __future__ import annotations

from collections.abc import Mapping

from ...core.rag_interface import Generator
from ...core.types import Document, Response
from .words import sentences, stems

__all__ = ["REFUSAL", "BestSentenceGenerator", "LeadSentenceGenerator"]

REFUSAL = "I don't know: the handbook does not say."


class BestSentenceGenerator(Generator):
    """Quotes the sentence that matches the question best, and declines if even the best chunk matches too little.

    Words are weighted by how rare they are in the handbook. A word that the handbook lacks has the weight of its rarest
    word, so that questions about something else are declined.
    """

    def __init__(self, weights: Mapping[str, float], *, context: int = 3, evidence: float = 0.25) -> None:
        self._weights = weights
        self._unknown = max(weights.values(), default=1.0)
        self._context = context
        self._evidence = evidence

    def generate(self, query: str, context_docs: list[Document]) -> Response:
        """The best sentence of the first chunks with its source, or a refusal without one."""
        query_stems = set(stems(query))
        chunks = context_docs[: self._context]
        if max((self._overlap(query_stems, chunk.text) for chunk in chunks), default=0.0) < self._evidence:
            return Response(REFUSAL, sentences=[])
        quotes = [(sentence, chunk, at) for at, chunk in enumerate(chunks) for sentence in sentences(chunk.text)]
        best, source, _ = max(quotes, key=lambda quote: self._match(query_stems, *quote))
        return Response(best, sentences=[{"text": best, "citations": [source.doc_id]}])

    def _match(self, query_stems: set[str], sentence: str, chunk: Document, rank: int) -> float:
        # The chunk counts too: its other sentences often name what "it" refers to.
        return self._overlap(query_stems, sentence) + self._overlap(query_stems, chunk.text) - 0.1 * rank

    def _overlap(self, query_stems: set[str], text: str) -> float:
        """The proportion of the weight of the question that a text contains."""
        text_stems = set(stems(text))
        total = sum(self._weight(stem) for stem in sorted(query_stems))
        return sum(self._weight(stem) for stem in sorted(query_stems & text_stems)) / total if total else 0.0

    def _weight(self, stem: str) -> float:
        return self._weights.get(stem, self._unknown)


class LeadSentenceGenerator(Generator):
    """Quotes the first sentence of the first chunk, whatever the question is."""

    def generate(self, query: str, context_docs: list[Document]) -> Response:
        """That sentence with its source; empty if there are no documents."""
        if not context_docs:
            return Response("", sentences=[])
        first = sentences(context_docs[0].text)[0]
        return Response(first, sentences=[{"text": first, "citations": [context_docs[0].doc_id]}])
