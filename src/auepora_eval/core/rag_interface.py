"""Interfaces of a system under evaluation: one ``run``, or a retriever and a generator."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

from .types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs

__all__ = ["Generator", "RAGSystem", "RAGSystemProtocol", "Retriever", "SimpleRAGSystem", "SystemOutputs"]


class RAGSystem(ABC):
    """A whole RAG pipeline.

    Example:
        >>> class Fixed(RAGSystem):
        ...     def run(self, sample, *, top_k=5):
        ...         return SystemOutputs([RetrievedDocument(Document("ada"), 1.0, 1)], Response("Ada Lovelace"))
        >>> run_system(Fixed(), samples, ["recall@1"], name="fixed").results[0].value
        0.5
    """

    @abstractmethod
    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        """Retrieve documents for ``sample.query``, generate an answer from them, and return both."""
        raise NotImplementedError


class RAGSystemProtocol(Protocol):
    """Any object with this ``run``; it need not inherit from ``RAGSystem``."""

    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        """Retrieve documents for ``sample.query``, generate an answer from them, and return both."""


class Retriever(ABC):
    """Finds documents for a query."""

    @abstractmethod
    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        """The best ``top_k`` documents, best first."""


class Generator(ABC):
    """Answers a query from documents."""

    @abstractmethod
    def generate(self, query: str, context_docs: list[Document]) -> Response:
        """The answer."""


class SimpleRAGSystem(RAGSystem):
    """A retriever followed by a generator."""

    def __init__(self, retriever: Retriever, generator: Generator) -> None:
        self.retriever = self._retriever = retriever
        self.generator = self._generator = generator

    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        """Retrieve, then generate from what was retrieved; the time of each is in the output's timings."""
        start = time.perf_counter()
        retrieved = self.retriever.retrieve(sample.query, top_k=top_k)
        after_retrieval = time.perf_counter()
        response = self.generator.generate(sample.query, [item.doc for item in retrieved])
        timings = {"retrieval": after_retrieval - start, "generation": time.perf_counter() - after_retrieval}
        return SystemOutputs(retrieved=retrieved, response=response, timings=timings, usage=reported_usage(response))


def reported_usage(response: Any) -> dict[str, Any]:
    """The usage that a generator reports with its response: ``metadata["usage"]``."""
    usage = response.metadata.get("usage") if isinstance(response, Response) else None
    return dict(usage) if isinstance(usage, Mapping) else {}
