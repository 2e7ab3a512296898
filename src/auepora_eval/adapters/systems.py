"""Systems made of adapted objects: retrievers and pipelines, synchronous or asynchronous."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from ..core.types import EvaluationSample, RetrievedDocument, SystemOutputs
from .versions import Framework

__all__ = [
    "AsyncPipelineSystem",
    "AsyncRetriever",
    "AsyncRetrieverSystem",
    "PipelineAdapter",
    "PipelineSystem",
    "RetrieverAdapter",
    "RetrieverSystem",
    "SyncRetriever",
    "display_class_name",
    "pipeline_system",
    "provenance",
    "retriever_system",
]


class RetrieverAdapter(Protocol):
    """Calls a framework's retriever and converts its replies."""

    def find(self, query: str, top_k: int) -> Any:
        """Its reply."""
        ...

    async def afind(self, query: str, top_k: int) -> Any:
        """Its reply, awaited."""
        ...

    def documents(self, reply: Any, top_k: int) -> list[RetrievedDocument]:
        """The documents in a reply."""
        ...


class PipelineAdapter(Protocol):
    """Calls a framework's pipeline and converts its replies."""

    def ask(self, sample: EvaluationSample, top_k: int) -> Any:
        """Its reply."""
        ...

    async def aask(self, sample: EvaluationSample, top_k: int) -> Any:
        """Its reply, awaited."""
        ...

    def output(self, reply: Any) -> SystemOutputs:
        """The output in a reply."""
        ...


class _AdaptedObject:
    """Base of adapted objects: their configuration, and ``close`` if the wrapped object has it."""

    def __init__(self, config: Mapping[str, Any], wrapped: object) -> None:
        self.config = dict(config)
        """Description of the system; stored with every run."""
        self._wrapped = wrapped

    def close(self) -> None:
        """Close the wrapped object, if it can be closed."""
        close = getattr(self._wrapped, "close", None)
        if callable(close):
            close()


class SyncRetriever:
    """A framework's retriever with this library's interface."""

    def __init__(self, adapter: RetrieverAdapter) -> None:
        self._adapter = adapter

    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        """The best ``top_k`` documents, best first."""
        return self._adapter.documents(self._adapter.find(query, top_k), top_k)


class AsyncRetriever:
    """The asynchronous variant."""

    def __init__(self, adapter: RetrieverAdapter) -> None:
        self._adapter = adapter

    async def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        """The best ``top_k`` documents, best first."""
        return self._adapter.documents(await self._adapter.afind(query, top_k), top_k)


class RetrieverSystem(_AdaptedObject):
    """A retriever as a system: its outputs have documents and no answer.

    It can be combined with any generator. ``run`` calls its ``retriever``, which may be replaced.
    """

    def __init__(self, retriever: SyncRetriever, config: Mapping[str, Any], wrapped: object) -> None:
        super().__init__(config, wrapped)
        self.retriever = retriever

    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        """The best ``top_k`` documents, best first."""
        return self.retriever.retrieve(query, top_k=top_k)

    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        """The documents for the sample's query, with the retrieval time."""
        begun = time.perf_counter()
        retrieved = self.retrieve(sample.query, top_k=top_k)
        return SystemOutputs(retrieved, timings={"retrieval": time.perf_counter() - begun})


class AsyncRetrieverSystem(_AdaptedObject):
    """The asynchronous variant."""

    def __init__(self, retriever: AsyncRetriever, config: Mapping[str, Any], wrapped: object) -> None:
        super().__init__(config, wrapped)
        self.retriever = retriever

    async def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        """The best ``top_k`` documents, best first."""
        return await self.retriever.retrieve(query, top_k=top_k)

    async def arun(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        """The documents for the sample's query, with the retrieval time."""
        begun = time.perf_counter()
        retrieved = await self.retrieve(sample.query, top_k=top_k)
        return SystemOutputs(retrieved, timings={"retrieval": time.perf_counter() - begun})


class PipelineSystem(_AdaptedObject):
    """A pipeline as a system."""

    def __init__(self, adapter: PipelineAdapter, config: Mapping[str, Any], wrapped: object) -> None:
        super().__init__(config, wrapped)
        self._adapter = adapter

    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        """The pipeline's documents and answer."""
        return self._adapter.output(self._adapter.ask(sample, top_k))


class AsyncPipelineSystem(_AdaptedObject):
    """The asynchronous variant."""

    def __init__(self, adapter: PipelineAdapter, config: Mapping[str, Any], wrapped: object) -> None:
        super().__init__(config, wrapped)
        self._adapter = adapter

    async def arun(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        """The pipeline's documents and answer."""
        return self._adapter.output(await self._adapter.aask(sample, top_k))


def retriever_system(adapter: RetrieverAdapter, config: Mapping[str, Any], wrapped: object, *, use_async: bool) -> Any:
    """A framework's retriever as a synchronous or asynchronous system."""
    if use_async:
        return AsyncRetrieverSystem(AsyncRetriever(adapter), config, wrapped)
    return RetrieverSystem(SyncRetriever(adapter), config, wrapped)


def pipeline_system(adapter: PipelineAdapter, config: Mapping[str, Any], wrapped: object, *, use_async: bool) -> Any:
    """A framework's pipeline as a synchronous or asynchronous system."""
    return AsyncPipelineSystem(adapter, config, wrapped) if use_async else PipelineSystem(adapter, config, wrapped)


def display_class_name(system: object) -> str:
    """The class of a system for messages: of an adapted object the framework's class."""
    return type(system._wrapped if isinstance(system, _AdaptedObject) else system).__name__


def provenance(framework: Framework, version: str, wrapped: object) -> dict[str, Any]:
    """Framework, version and class, stored with a run."""
    kind = type(wrapped)
    return {"framework": f"{framework.package} {version}", "adapted": f"{kind.__module__}.{kind.__qualname__}"}
