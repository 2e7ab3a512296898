"""A toy RAG system: rank documents by shared words, answer with the best sentence. Enough to see the moving parts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..core.rag_interface import Generator, Retriever, SimpleRAGSystem
from ..core.types import Document, Response, RetrievedDocument

__all__ = ["FirstSentenceGenerator", "WordOverlapRetriever", "build"]

_WORD = re.compile(r"\w+")
_COMMON = frozenset({
    "a", "an", "and", "are", "as", "by", "does", "for", "how", "in", "is", "it", "of", "on", "or", "that", "the", "to",
    "what", "when", "which", "who", "why", "with",
})  # fmt: skip


def words(text: str) -> set[str]:
    """The distinct words of a text that carry meaning."""
    return set(_WORD.findall(text.lower())) - _COMMON


class WordOverlapRetriever(Retriever):
    """Ranks documents by how many words they share with the query."""

    def __init__(self, corpus: Sequence[Document]) -> None:
        self._corpus = [(document, words(document.text)) for document in corpus]

    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        """The documents that share a word with the query, best first."""
        wanted = words(query)
        scored = [(len(wanted & held), document) for document, held in self._corpus]
        best = sorted((pair for pair in scored if pair[0]), key=lambda pair: (-pair[0], pair[1].doc_id))
        return [
            RetrievedDocument(document, float(score), rank) for rank, (score, document) in enumerate(best[:top_k], 1)
        ]


class FirstSentenceGenerator(Generator):
    """Answers with the sentence of the first document that shares most words with the query."""

    def generate(self, query: str, context_docs: list[Document]) -> Response:
        """The answer, or an admission that there is none."""
        if not context_docs:
            return Response("I don't know.")
        sentences = re.split(r"(?<=[.!?])\s+", context_docs[0].text)
        wanted = words(query)
        return Response(max(sentences, key=lambda sentence: len(wanted & words(sentence))))


def build(corpus: Sequence[Document]) -> SimpleRAGSystem:
    """The two parts as one system."""
    return SimpleRAGSystem(WordOverlapRetriever(corpus), FirstSentenceGenerator())
