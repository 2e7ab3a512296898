"""LlamaIndex objects as systems: retrievers, query engines and chat engines; response synthesizers as generators."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from ..core.types import Document, EvaluationSample, Response, SystemOutputs
from ..errors import BadTypeError
from .adapters import (
    LLAMAINDEX,
    DocumentMapper,
    FrameworkDocument,
    adapt_pipeline,
    adapt_retriever,
    dump_model,
    earlier_turns,
    extract_response,
    is_instance_of,
    provenance,
    sum_token_usage,
    with_generator,
)


def from_llamaindex(
    obj: Any,
    *,
    generator: Any = None,
    id_key: str | None = None,
    parent_key: str | None = None,
    own_top_k: bool = False,
    use_async: bool = False,
    any_version: bool = False,
) -> Any:
    """A LlamaIndex retriever, query engine or chat engine as a system.

    A retriever returns documents and no answers, unless a ``generator`` is given: one with this library's interface,
    or a response synthesizer. ``id_key`` and ``parent_key`` name the metadata keys of a node's id and of its
    document's id; by default the node's own are used. The ``top_k`` of the run is passed to a retriever with
    ``similarity_top_k``, also to that of a query engine, unless ``own_top_k`` is set. ``use_async`` calls
    ``aretrieve`` and ``aquery`` instead of ``retrieve`` and ``query`` in threads.
    """
    config = provenance(LLAMAINDEX, obj, any_version=any_version)
    mapper = DocumentMapper(_read_node, id_key=id_key, parent_key=parent_key)
    if is_instance_of(obj, LLAMAINDEX, "BaseRetriever"):

        def find(query: str, top_k: int) -> Any:
            configured = obj if own_top_k else _with_top_k(obj, top_k)
            return configured.aretrieve(query) if use_async else configured.retrieve(query)

        system = adapt_retriever(find, mapper.to_ranking, config, obj, use_async=use_async)
        if is_instance_of(generator, LLAMAINDEX, "BaseSynthesizer"):
            generator = llamaindex_generator(generator, any_version=any_version)
        return system if generator is None else with_generator(system, generator)
    if generator is not None:
        raise BadTypeError(f"a generator needs a retriever, and {type(obj).__name__} is not one")

    def read(answered: tuple[Any, _ModelCalls]) -> SystemOutputs:
        reply, calls = answered
        ranking = mapper.to_ranking(reply.source_nodes)
        return SystemOutputs(ranking, _answer(reply), timings=calls.timings, usage=calls.usage)

    if is_instance_of(obj, LLAMAINDEX, "BaseQueryEngine"):
        query = _QueryEngine(obj, own_top_k)
        return adapt_pipeline(query.aask if use_async else query.ask, read, config, obj, use_async=use_async)
    if is_instance_of(obj, LLAMAINDEX, "BaseChatEngine"):
        if use_async:
            raise BadTypeError("a chat engine has one conversation and serves one caller at a time: not async")
        return adapt_pipeline(_ChatEngine(obj).ask, read, config, obj, use_async=False)
    if is_instance_of(obj, LLAMAINDEX, "BaseIndex"):
        raise BadTypeError(
            f"a {type(obj).__name__} is not a system: use from_llamaindex(index.as_retriever()) or "
            "from_llamaindex(index.as_query_engine())"
        )
    kind = type(obj).__name__
    raise BadTypeError(f"from_llamaindex() takes a retriever, a query engine or a chat engine, not a {kind}")


def llamaindex_generator(synthesizer: Any, *, any_version: bool = False) -> Any:
    """A response synthesizer as a generator."""
    config = provenance(LLAMAINDEX, synthesizer, any_version=any_version, part="generator_")
    if not is_instance_of(synthesizer, LLAMAINDEX, "BaseSynthesizer"):
        kind = type(synthesizer).__name__
        raise BadTypeError(f"a generator of LlamaIndex is a response synthesizer, not a {kind}")
    return _Synthesizer(synthesizer, config)


def _read_node(item: Any) -> FrameworkDocument:
    node = item.node
    source = getattr(node, "source_node", None)
    start, end = getattr(node, "start_char_idx", None), getattr(node, "end_char_idx", None)
    span = None
    if source is not None and isinstance(start, int) and isinstance(end, int) and 0 <= start <= end:
        span = start, end
    return FrameworkDocument(
        node.node_id,
        node.get_content(metadata_mode="none"),
        node.metadata,
        item.score,
        parent_id=None if source is None else source.node_id,
        span=span,
    )


def _with_top_k(retriever: Any, top_k: int) -> Any:
    """A copy of the retriever with this ``top_k``, if it supports it; the original may be shared."""
    if not isinstance(getattr(retriever, "similarity_top_k", None), int):
        return retriever
    duplicate = copy.copy(retriever)
    try:
        duplicate.similarity_top_k = top_k
    except AttributeError:
        return retriever
    return duplicate


def _answer(reply: Any) -> Response:
    return extract_response(reply.response) or Response("" if reply.response is None else str(reply.response))


class _ModelCalls:
    """The model calls of one answer: the tokens of all, and when the first token of the last streamed one came."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.first_tokens: dict[Any, float] = {}
        self.replies: dict[int, Any] = {}

    @property
    def timings(self) -> dict[str, float]:
        """Seconds until the first token, where it was streamed."""
        return {"first_token": list(self.first_tokens.values())[-1]} if self.first_tokens else {}

    @property
    def usage(self) -> dict[str, Any]:
        """The tokens of all model calls."""
        return sum_token_usage([_usage_report(reply) for reply in self.replies.values()])


def _usage_report(response: Any) -> dict[str, Any]:
    """The token usage of a reply, with the name of its model where the provider's reply names it."""
    raw = _fields(response.raw)
    usage = _fields(raw.get("usage")) or _fields(raw.get("usage_metadata"))
    return {**response.additional_kwargs, **usage, "model": raw.get("model")}


def _fields(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else dump_model(value) or {}


_CALLS: ContextVar[_ModelCalls | None] = ContextVar("model calls of the answer", default=None)


@contextmanager
def _record_model_calls() -> Iterator[_ModelCalls]:
    """Record the model calls of the block; blocks in other threads and tasks have records of their own."""
    _attach_handler()
    calls = _ModelCalls()
    token = _CALLS.set(calls)
    try:
        yield calls
    finally:
        _CALLS.reset(token)


@cache
def _attach_handler() -> None:
    """Let LlamaIndex report its model calls; once per process."""
    from llama_index.core.instrumentation import get_dispatcher
    from llama_index.core.instrumentation.event_handlers import BaseEventHandler
    from llama_index.core.instrumentation.events import llm

    class ModelCallHandler(BaseEventHandler):  # type: ignore[misc]
        def handle(self, event: Any) -> None:
            calls = _CALLS.get()
            if calls is None:
                return
            if isinstance(event, llm.LLMChatInProgressEvent | llm.LLMCompletionInProgressEvent):
                calls.first_tokens.setdefault(event.span_id, time.perf_counter() - calls.began)
            elif isinstance(event, llm.LLMChatEndEvent | llm.LLMCompletionEndEvent) and event.response is not None:
                # A model that chats by completing text reports one reply twice, with the same ``raw``.
                same = event.response if event.response.raw is None else event.response.raw
                calls.replies[id(same)] = event.response

    get_dispatcher().add_event_handler(ModelCallHandler())


class _QueryEngine:
    """A ``BaseQueryEngine``."""

    def __init__(self, engine: Any, own_top_k: bool) -> None:
        self._engine = engine
        # Only the defining class: a subclass would be rebuilt as another kind of engine.
        self._rebuilds = not own_top_k and "with_retriever" in vars(type(engine))

    def _configured(self, top_k: int) -> Any:
        if not self._rebuilds:
            return self._engine
        retriever = self._engine.retriever
        deeper = _with_top_k(retriever, top_k)
        return self._engine if deeper is retriever else self._engine.with_retriever(deeper)

    def ask(self, sample: EvaluationSample, top_k: int) -> tuple[Any, _ModelCalls]:
        with _record_model_calls() as calls:
            reply = self._configured(top_k).query(sample.query)
            return _read_stream(reply), calls

    async def aask(self, sample: EvaluationSample, top_k: int) -> tuple[Any, _ModelCalls]:
        with _record_model_calls() as calls:
            reply = await self._configured(top_k).aquery(sample.query)
            if is_instance_of(reply, LLAMAINDEX, "AsyncStreamingResponse"):
                reply = await reply.get_response()
            return _read_stream(reply), calls


def _read_stream(reply: Any) -> Any:
    return reply.get_response() if is_instance_of(reply, LLAMAINDEX, "StreamingResponse") else reply


class _ChatEngine:
    """A ``BaseChatEngine``: every sample is a new conversation that starts with the sample's earlier turns."""

    def __init__(self, engine: Any) -> None:
        self._engine, self._turn = engine, threading.Lock()

    def ask(self, sample: EvaluationSample, top_k: int) -> tuple[Any, _ModelCalls]:
        from llama_index.core.llms import ChatMessage

        history = [ChatMessage(role=role, content=text) for role, text in earlier_turns(sample)]
        with self._turn, _record_model_calls() as calls:
            self._engine.reset()
            return self._engine.chat(sample.query, chat_history=history), calls


class _Synthesizer:
    """A ``BaseSynthesizer`` as a generator."""

    def __init__(self, synthesizer: Any, config: Mapping[str, Any]) -> None:
        self._synthesizer, self.config = synthesizer, config

    def generate(self, query: str, context_docs: list[Document]) -> Response:
        """The answer synthesised from the documents."""
        from llama_index.core.schema import NodeWithScore, TextNode

        nodes = [NodeWithScore(node=TextNode(id_=document.doc_id, text=document.text)) for document in context_docs]
        with _record_model_calls() as calls:
            answer = _answer(self._synthesizer.synthesize(query, nodes=nodes))
        if calls.usage:
            answer.metadata["usage"] = calls.usage
        return answer
