"""Two generators that quote: the sentence that fits the question best, and simply the first one."""

from __future__ import annotations

from collections.abc import Mapping

from ...core.rag_interface import Generator
from ...core.types import Document, Response
from .words import sentences, stems

__all__ = ["REFUSAL", "BestSentenceGenerator", "LeadSentenceGenerator"]

REFUSAL = "I don't know: the handbook does not say."


class BestSentenceGenerator(Generator):
    """Quotes the sentence that holds most of the question, and declines where even the best chunk holds too little.

    Words weigh by how rare they are in the handbook. A word that the handbook never uses weighs as much as its rarest,
    so that questions about something else are declined.
    """

    def __init__(self, weights: Mapping[str, float], *, context: int = 3, evidence: float = 0.25) -> None:
        self._weights = weights
        self._unknown = max(weights.values(), default=1.0)
        self._context = context
        self._evidence = evidence

    def generate(self, query: str, context_docs: list[Document]) -> Response:
        """The best sentence of the first chunks with its source, or a refusal without one."""
        wanted = set(stems(query))
        chunks = context_docs[: self._context]
        if max((self._share(wanted, chunk.text) for chunk in chunks), default=0.0) < self._evidence:
            return Response(REFUSAL, sentences=[])
        quotes = [(sentence, chunk, at) for at, chunk in enumerate(chunks) for sentence in sentences(chunk.text)]
        best, source, _ = max(quotes, key=lambda quote: self._fit(wanted, *quote))
        return Response(best, sentences=[{"text": best, "citations": [source.doc_id]}])

    def _fit(self, wanted: set[str], sentence: str, chunk: Document, rank: int) -> float:
        # The chunk counts too: its other sentences often name what this one calls "it".
        return self._share(wanted, sentence) + self._share(wanted, chunk.text) - 0.1 * rank

    def _share(self, wanted: set[str], text: str) -> float:
        """How much of the question's weight a text holds, from 0 to 1."""
        held = set(stems(text))
        whole = sum(self._weight(stem) for stem in sorted(wanted))
        return sum(self._weight(stem) for stem in sorted(wanted & held)) / whole if whole else 0.0

    def _weight(self, stem: str) -> float:
        return self._weights.get(stem, self._unknown)


class LeadSentenceGenerator(Generator):
    """Quotes the first sentence of the first chunk, whatever was asked."""

    def generate(self, query: str, context_docs: list[Document]) -> Response:
        """That sentence with its source; nothing where nothing was found."""
        if not context_docs:
            return Response("", sentences=[])
        first = sentences(context_docs[0].text)[0]
        return Response(first, sentences=[{"text": first, "citations": [context_docs[0].doc_id]}])
