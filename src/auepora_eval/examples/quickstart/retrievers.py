"""Two retrievers: BM25, and one that counts shared words without weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.rag_interface import Retriever
from ...core.types import Document, RetrievedDocument
from .words import plain_words, stems

__all__ = ["BM25Retriever", "SharedWordsRetriever"]


class BM25Retriever(Retriever):
    """Ranks chunks by BM25 over the stems of their words."""

    def __init__(self, chunks: Sequence[Document]) -> None:
        import bm25s  # imported here, because it takes half a second

        self._chunks = list(chunks)
        # numpy, because compiling takes longer than scoring these few chunks.
        self._index: Any = bm25s.BM25(backend="numpy")
        self._index.index([stems(chunk.text) for chunk in self._chunks], show_progress=False)

    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        """The chunks that share a stem with the query, best first."""
        known = [stem for stem in stems(query) if stem in self._index.vocab_dict]
        if not known:
            return []
        return _best(self._chunks, self._index.get_scores(known).tolist(), top_k)


class SharedWordsRetriever(Retriever):
    """Ranks chunks by the number of words they share with the query; "the" counts as much as "recall"."""

    def __init__(self, chunks: Sequence[Document]) -> None:
        self._chunks = list(chunks)
        self._words = [frozenset(plain_words(chunk.text)) for chunk in self._chunks]

    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        """The chunks that share a word with the query, best first."""
        query_words = frozenset(plain_words(query))
        return _best(self._chunks, [float(len(query_words & words)) for words in self._words], top_k)


def _best(chunks: Sequence[Document], scores: Sequence[float], top_k: int) -> list[RetrievedDocument]:
    """The chunks with the highest scores above 0; ties in the order of the handbook."""
    order = sorted((at for at, score in enumerate(scores) if score > 0), key=lambda at: -scores[at])
    return [RetrievedDocument(chunks[at], scores[at], rank) for rank, at in enumerate(order[:top_k], 1)]
