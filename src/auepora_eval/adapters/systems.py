"""The shapes that adapted objects take: retrievers and whole pipelines, each plain or asynchronous."""

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
    """A retriever of a framework: how it is asked, and what its replies mean."""

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
    """A pipeline of a framework: how it is asked, and what its replies mean."""

    def ask(self, sample: EvaluationSample, top_k: int) -> Any:
        """Its reply."""
        ...

    async def aask(self, sample: EvaluationSample, top_k: int) -> Any:
        """Its reply, awaited."""
        ...

    def output(self, reply: Any) -> SystemOutputs:
        """What a reply says."""
        ...


class _AdaptedObject:
    """What every adapted object has: an account of what it is made of, and a way to close it where there is one."""

    def __init__(self, config: Mapping[str, Any], holder: object) -> None:
        self.config = dict(config)
        """What the system is made of; stored with every run."""
        self._holder = holder

    def close(self) -> None:
        """Close what was adapted, where it can be closed."""
        close = getattr(self._holder, "close", None)
        if callable(close):
            close()


class SyncRetriever:
    """A framework's retriever in our form."""

    def __init__(self, searched: RetrieverAdapter) -> None:
        self._searched = searched

    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        """The best ``top_k`` documents, best first."""
        return self._searched.documents(self._searched.find(query, top_k), top_k)


class AsyncRetriever:
    """The same, to be awaited."""

    def __init__(self, searched: RetrieverAdapter) -> None:
        self._searched = searched

    async def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        """The best ``top_k`` documents, best first."""
        return self._searched.documents(await self._searched.afind(query, top_k), top_k)


class RetrieverSystem(_AdaptedObject):
    """A retriever that is a system by itself: its outputs have documents and no answer.

    It may stand in a pair with any generator. ``run`` asks its ``retriever``, which may be replaced by another.
    """

    def __init__(self, retriever: SyncRetriever, config: Mapping[str, Any], holder: object) -> None:
        super().__init__(config, holder)
        self.retriever = retriever

    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        """The best ``top_k`` documents, best first."""
        return self.retriever.retrieve(query, top_k=top_k)

    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        """The documents for the sample's query, and how long finding them took."""
        begun = time.perf_counter()
        retrieved = self.retrieve(sample.query, top_k=top_k)
        return SystemOutputs(retrieved, timings={"retrieval": time.perf_counter() - begun})


class AsyncRetrieverSystem(_AdaptedObject):
    """The same, to be awaited."""

    def __init__(self, retriever: AsyncRetriever, config: Mapping[str, Any], holder: object) -> None:
        super().__init__(config, holder)
        self.retriever = retriever

    async def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        """The best ``top_k`` documents, best first."""
        return await self.retriever.retrieve(query, top_k=top_k)

    async def arun(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        """The documents for the sample's query, and how long finding them took."""
        begun = time.perf_counter()
        retrieved = await self.retrieve(sample.query, top_k=top_k)
        return SystemOutputs(retrieved, timings={"retrieval": time.perf_counter() - begun})


class PipelineSystem(_AdaptedObject):
    """A pipeline that answers."""

    def __init__(self, asked: PipelineAdapter, config: Mapping[str, Any], holder: object) -> None:
        super().__init__(config, holder)
        self._asked = asked

    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        """What the pipeline found and said."""
        return self._asked.output(self._asked.ask(sample, top_k))


class AsyncPipelineSystem(_AdaptedObject):
    """The same, to be awaited."""

    def __init__(self, asked: PipelineAdapter, config: Mapping[str, Any], holder: object) -> None:
        super().__init__(config, holder)
        self._asked = asked

    async def arun(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        """What the pipeline found and said."""
        return self._asked.output(await self._asked.aask(sample, top_k))


def retriever_system(searched: RetrieverAdapter, config: Mapping[str, Any], holder: object, *, use_async: bool) -> Any:
    """A framework's retriever as a system of the kind that was asked for."""
    if use_async:
        return AsyncRetrieverSystem(AsyncRetriever(searched), config, holder)
    return RetrieverSystem(SyncRetriever(searched), config, holder)


def pipeline_system(asked: PipelineAdapter, config: Mapping[str, Any], holder: object, *, use_async: bool) -> Any:
    """A framework's pipeline as a system of the kind that was asked for."""
    return AsyncPipelineSystem(asked, config, holder) if use_async else PipelineSystem(asked, config, holder)


def display_class_name(system: object) -> str:
    """The class of a system as messages name it: where ours is wrapped around a framework's, that one."""
    return type(system._holder if isinstance(system, _AdaptedObject) else system).__name__


def provenance(framework: Framework, version: str, holder: object) -> dict[str, Any]:
    """What is stored with a run: which framework, which version, which class."""
    kind = type(holder)
    return {"framework": f"{framework.package} {version}", "adapted": f"{kind.__module__}.{kind.__qualname__}"}
