"""The two bundled systems. A plan names them as ``auepora_eval.examples.quickstart.systems:bm25``, or ``:baseline``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...core.rag_interface import Generator, Retriever, SimpleRAGSystem
from ...core.types import EvaluationSample, SystemOutputs
from .generators import REFUSAL, BestSentenceGenerator, LeadSentenceGenerator
from .handbook import CHUNKER_VERSION, corpus
from .retrievers import BM25Retriever, SharedWordsRetriever
from .words import weights

__all__ = ["QuotingSystem", "baseline", "bm25"]


class QuotingSystem(SimpleRAGSystem):
    """A retriever and a generator that quotes; its outputs have citations and ``refused``."""

    def __init__(self, retriever: Retriever, generator: Generator, *, config: dict[str, Any]) -> None:
        super().__init__(retriever, generator)
        self.config = config
        """Configuration of the system; stored with every run."""

    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        """Retrieve, quote, and name the source."""
        output = super().run(sample, top_k=top_k)
        assert output.response is not None
        quoted = output.response.sentences or []
        citations = [doc_id for sentence in quoted for doc_id in sentence["citations"]]
        return replace(output, citations=citations, refused=output.response.text == REFUSAL)


def bm25() -> QuotingSystem:
    """BM25 over stems; answers with the best sentence, or declines if there is too little evidence."""
    chunks = corpus()
    return QuotingSystem(
        BM25Retriever(chunks),
        BestSentenceGenerator(weights(chunk.text for chunk in chunks)),
        config={
            "chunker_version": CHUNKER_VERSION,
            "retriever": "bm25s, stems",
            "model": "best sentence",
            "prompt_version": "none",
        },
    )


def baseline() -> QuotingSystem:
    """Counts shared words; answers with the first sentence of the first chunk and never declines."""
    return QuotingSystem(
        SharedWordsRetriever(corpus()),
        LeadSentenceGenerator(),
        config={
            "chunker_version": CHUNKER_VERSION,
            "retriever": "shared words",
            "model": "first sentence",
            "prompt_version": "none",
        },
    )
