"""LangChain objects as systems: retrievers, chains and other runnables, and runnables as generators."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ..core.types import Document, EvaluationSample, Response, SystemOutputs, UnknownRanking
from ..errors import BadTypeError, SystemCallError
from .adapters import (
    LANGCHAIN,
    DocumentMapper,
    FrameworkDocument,
    adapt_pipeline,
    adapt_retriever,
    earlier_turns,
    extract_response,
    is_instance_of,
    provenance,
    span_from,
    sum_token_usage,
    with_generator,
)

# --- the input of a runnable: a string, or a dict with a key for the question ----------------------------------------

_CONTEXT_KEYS = ("context", "documents", "docs")
_MESSAGES_KEY = "messages"


@dataclass(frozen=True, slots=True)
class InputForm:
    """The input format of a runnable."""

    key: str | None = None
    """Key of the question; ``None`` if the input is the question itself."""
    history_key: str | None = None
    context_key: str | None = None
    missing: tuple[str, ...] = ()
    """Required keys that a sample cannot fill."""

    def build_input(self, sample: EvaluationSample) -> Any:
        """The input for a sample."""
        if self.key is None:
            return sample.query
        if self.key == _MESSAGES_KEY:
            return {self.key: [*earlier_turns(sample), ("user", sample.query)]}
        history = {} if self.history_key is None else {self.history_key: earlier_turns(sample)}
        return {self.key: sample.query, **history}

    def with_context(self, query: str, context: Any) -> Any:
        """The input for a question and its retrieved context."""
        values = {self.key: query, self.context_key: context, self.history_key: []}
        return {name: value for name, value in values.items() if name is not None}


def input_form(runnable: Any, key: str | None, *, with_context: bool = False) -> InputForm:
    """The input format of a runnable, from its schema; ``BadTypeError`` if it is ambiguous."""
    schema = _schema(runnable)
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        if with_context:
            return InputForm("question", context_key="context")
        if key is None and schema.get("type") == "object":
            raise BadTypeError(
                "the runnable takes a dict without declared keys: name the key of the question, "
                "from_langchain(chain, input_key='question')"
            )
        return InputForm(key)
    names = list(properties)
    history = next((name for name in ("chat_history", "history") if name in names), None)
    context = next((name for name in _CONTEXT_KEYS if name in names), None) if with_context else None
    if with_context and context is None:
        raise BadTypeError(
            f"a generator must take the context together with the question, "
            f"under one of the names {quote_names(_CONTEXT_KEYS)}; "
            f"the runnable takes {quote_names(names)}"
        )
    others = [name for name in names if name not in (history, context)]
    question_key = key or (_question_key(others) if others or not with_context else None)
    required = schema.get("required", ())
    missing = tuple(name for name in required if name not in (question_key, history, context))
    return InputForm(question_key, history, context, missing)


def _question_key(names: list[str]) -> str:
    for known in ("question", "input", "query"):
        if known in names:
            return known
    if len(names) == 1:
        return names[0]
    if _MESSAGES_KEY in names:
        return _MESSAGES_KEY
    raise BadTypeError(
        f"the runnable takes {quote_names(names)}, and the question key is ambiguous: set it with "
        "from_langchain(chain, input_key='...')"
    )


def quote_names(names: Iterable[str]) -> str:
    """Quoted names for a message."""
    return ", ".join(f"'{name}'" for name in names)


def _schema(runnable: Any) -> Mapping[str, Any]:
    try:
        schema = runnable.get_input_jsonschema()
    except Exception:  # no schema: the input is the question itself
        return {}
    return schema if isinstance(schema, Mapping) else {}


# --- the callback that records the retrievals, model calls and tokens of a chain -------------------------------------
# Most chains return a string and not the retrieved documents, but callback handlers see them. This handler is duck-
# typed, so that nothing needs to be imported.


@dataclass(slots=True)
class RetrievalTrace:
    """One retrieval."""

    query: str
    began: float
    seconds: float | None = None
    documents: Sequence[Any] | None = None


class TraceCallback:
    """Records one call of a chain. A chain may use several threads; each event has its own key."""

    raise_error = False
    run_inline = True
    ignore_llm = ignore_chat_model = ignore_retriever = ignore_chain = False
    ignore_agent = ignore_retry = ignore_custom_event = True

    def __init__(self) -> None:
        self._parents: dict[Any, Any] = {}
        self._retrievals: dict[Any, RetrievalTrace] = {}
        self._model_calls: dict[Any, tuple[float, float | None]] = {}
        self._reports: list[Any] = []
        self._began = time.perf_counter()
        self._first_tokens: dict[Any, float] = {}

    @property
    def retrievals(self) -> list[RetrievalTrace]:
        """The outermost completed retrievals, in the order in which they began.

        A retriever may call others; nested retrievals are left out.
        """
        own = [retrieval for key, retrieval in self._retrievals.items() if not self._is_inside_retrieval(key)]
        return [retrieval for retrieval in own if retrieval.documents is not None]

    @property
    def documents(self) -> Sequence[Any] | None:
        """The documents of the last non-empty retrieval; ``None`` if there was no retrieval."""
        found = [retrieval.documents for retrieval in self.retrievals]
        return next((listed for listed in reversed(found) if listed), [] if found else None)

    @property
    def timings(self) -> dict[str, float]:
        """Seconds spent on retrieval and generation, if any, and until the first token where it is streamed."""
        own = {key: seconds for key, (_, seconds) in self._model_calls.items() if not self._is_inside_retrieval(key)}
        parts = {
            "retrieval": [retrieval.seconds for retrieval in self.retrievals if retrieval.seconds is not None],
            "generation": [seconds for seconds in own.values() if seconds is not None],
            "first_token": list(self._first_tokens.values())[-1:],
        }
        return {name: sum(seconds) for name, seconds in parts.items() if seconds}

    @property
    def usage(self) -> dict[str, Any]:
        """The tokens of all model calls."""
        return sum_token_usage(self._reports)

    def _is_inside_retrieval(self, key: Any) -> bool:
        parent = self._parents.get(key)
        while parent is not None and parent not in self._retrievals:
            parent = self._parents.get(parent)
        return parent is not None

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Ignore all other events, including future ones."""
        if name.startswith("on_"):
            return lambda *_, **__: None
        raise AttributeError(name)

    def on_chain_start(self, *_: Any, run_id: Any, parent_run_id: Any = None, **__: Any) -> None:
        """A chain begins; it may be nested in a retrieval."""
        self._parents[run_id] = parent_run_id

    def on_retriever_start(self, _: Any, query: str, *, run_id: Any, parent_run_id: Any = None, **__: Any) -> None:
        """A retrieval begins."""
        self._parents[run_id] = parent_run_id
        self._retrievals[run_id] = RetrievalTrace(query, time.perf_counter())

    def on_retriever_end(self, documents: Sequence[Any], *, run_id: Any, **_: Any) -> None:
        """A retrieval has finished."""
        search = self._retrievals[run_id]
        search.seconds, search.documents = time.perf_counter() - search.began, documents

    def on_llm_start(self, *_: Any, run_id: Any, parent_run_id: Any = None, **__: Any) -> None:
        """A model call begins."""
        self._parents[run_id] = parent_run_id
        self._model_calls[run_id] = time.perf_counter(), None

    on_chat_model_start = on_llm_start

    def on_llm_new_token(self, *_: Any, run_id: Any, **__: Any) -> None:
        """A model has written a token."""
        if not self._is_inside_retrieval(run_id):
            self._first_tokens.setdefault(run_id, time.perf_counter() - self._began)

    def on_llm_end(self, response: Any, *, run_id: Any, **_: Any) -> None:
        """A model call has finished."""
        began, _seconds = self._model_calls[run_id]
        self._model_calls[run_id] = began, time.perf_counter() - began
        generations = chain.from_iterable(response.generations)
        messages = [getattr(generation, "message", None) for generation in generations]
        own = [_usage_report(message) for message in messages]
        # Older models report once for the whole call instead.
        self._reports += own if any(own) else [(getattr(response, "llm_output", None) or {}).get("token_usage")]


def _usage_report(message: Any) -> dict[str, Any] | None:
    """The token usage of a message with the name of its model; ``None`` where it has none."""
    usage = getattr(message, "usage_metadata", None)
    model = (getattr(message, "response_metadata", None) or {}).get("model_name")
    return {**usage, "model": model} if isinstance(usage, Mapping) else None


# --- retrievers, chains and other runnables as systems; runnables as generators --------------------------------------

_ANSWER_KEYS = ("answer", "result", "output", "output_text", "response", "text")
_DOCUMENT_KEYS = ("context", "source_documents", "documents", "docs")


def from_langchain(
    obj: Any,
    *,
    generator: Any = None,
    input_key: str | None = None,
    answer_key: str | None = None,
    documents_key: str | None = None,
    id_key: str | None = None,
    parent_key: str | None = None,
    own_top_k: bool = False,
    use_async: bool = False,
    any_version: bool = False,
) -> Any:
    """A LangChain retriever, chain or other runnable as a system.

    A retriever returns documents and no answers, unless a ``generator`` is given: one with this library's interface, or
    a runnable that takes the question and its context. For a chain, ``input_key`` names the input key of the question,
    ``answer_key`` and ``documents_key`` the output keys of answer and documents; common names are detected. Documents
    that a chain does not return are taken from its traced retrievals.

    ``id_key`` and ``parent_key`` name the metadata keys of a document's id and of its parent's id. The ``top_k`` of the
    run is passed to a retriever that supports it, unless ``own_top_k`` is set. ``use_async`` calls ``ainvoke`` instead
    of ``invoke`` in threads.
    """
    config = provenance(LANGCHAIN, obj, any_version=any_version)
    mapper = DocumentMapper(_read_document, id_key=id_key, parent_key=parent_key)
    if not is_instance_of(obj, LANGCHAIN, "Runnable"):
        kind = type(obj).__name__
        raise BadTypeError(
            f"from_langchain() takes a retriever, a chain or another runnable of LangChain, not a {kind}"
        )
    if is_instance_of(obj, LANGCHAIN, "BaseRetriever"):
        chain_options = {"input_key": input_key, "answer_key": answer_key, "documents_key": documents_key}
        unused = [name for name, key in chain_options.items() if key is not None]
        if unused:
            raise BadTypeError(f"{unused[0]} is for chains, and {type(obj).__name__} is a retriever: leave it out")

        def find(query: str, top_k: int) -> Any:
            configured, options = (obj, {}) if own_top_k else _with_depth(obj, top_k)
            return (configured.ainvoke if use_async else configured.invoke)(query, **options)

        system = adapt_retriever(find, mapper.to_ranking, config, obj, use_async=use_async)
        if is_instance_of(generator, LANGCHAIN, "Runnable"):
            generator = langchain_generator(generator, use_async=use_async, any_version=any_version)
        return system if generator is None else with_generator(system, generator)
    if generator is not None:
        raise BadTypeError(f"a generator needs a retriever, and {type(obj).__name__} is not one")
    form = input_form(obj, input_key)
    if form.missing:
        raise BadTypeError(
            f"the runnable needs {quote_names(form.missing)} besides '{form.key}': "
            f"if that is the context, give it as the "
            "generator: from_langchain(retriever, generator=runnable)"
        )
    adapted = _Chain(obj, form, mapper, answer_key, documents_key)
    return adapt_pipeline(adapted.aask if use_async else adapted.ask, adapted.output, config, obj, use_async=use_async)


def langchain_generator(
    runnable: Any,
    *,
    context: Callable[[Sequence[Document]], Any] | None = None,
    use_async: bool = False,
    any_version: bool = False,
) -> Any:
    """A runnable that takes a question and its context, as a generator: ``prompt | model``.

    ``context`` converts the documents to the context; by default their texts, separated by blank lines.
    """
    kind = _AsyncGenerator if use_async else _Generator
    config = provenance(LANGCHAIN, runnable, any_version=any_version, part="generator_")
    return kind(runnable, context or _join_texts, config)


def _join_texts(documents: Sequence[Document]) -> str:
    return "\n\n".join(document.text for document in documents)


def _read_document(document: Any) -> FrameworkDocument:
    metadata = document.metadata or {}
    text, start = document.page_content, metadata.get("start_index")
    parent = metadata.get("parent_id")
    if parent is None and start is not None:
        parent = metadata.get("source")  # the document that a text splitter split; without a start it is just a link
    span = None if parent is None else span_from(start, text)
    return FrameworkDocument(getattr(document, "id", None), text, metadata, parent_id=parent, span=span)


def _are_documents(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(hasattr(document, "page_content") for document in value)


def _with_depth(retriever: Any, top_k: int) -> tuple[Any, dict[str, Any]]:
    """The retriever, or a copy of it, and the options of a call that returns ``top_k`` documents.

    The retriever itself is not modified, since it may be shared; one without such an option stays as it is.
    """
    if isinstance(getattr(retriever, "search_kwargs", None), Mapping):
        options = {"k": top_k}
        if getattr(retriever, "search_type", "") == "mmr":
            # MMR selects from ``fetch_k`` candidates, of which there must be at least ``top_k``.
            options["fetch_k"] = max(retriever.search_kwargs.get("fetch_k", 20), top_k)
        return retriever, options
    fields = getattr(type(retriever), "model_fields", {})
    for name in ("k", "top_k"):
        if name in fields and isinstance(getattr(retriever, name), int | None):
            return retriever.model_copy(update={name: top_k}), {}
    taken = inspect.signature(type(retriever)._get_relevant_documents).parameters
    return retriever, next(({name: top_k} for name in ("k", "top_k") if name in taken), {})


class _Chain:
    """Any other runnable."""

    def __init__(
        self, runnable: Any, form: InputForm, mapper: DocumentMapper, answer_key: str | None, documents_key: str | None
    ) -> None:
        self._runnable, self._form, self._mapper = runnable, form, mapper
        self._answer_key, self._documents_key = answer_key, documents_key

    def ask(self, sample: EvaluationSample, top_k: int) -> Any:
        trace = TraceCallback()
        return self._runnable.invoke(self._form.build_input(sample), config={"callbacks": [trace]}), trace

    async def aask(self, sample: EvaluationSample, top_k: int) -> Any:
        trace = TraceCallback()
        return await self._runnable.ainvoke(self._form.build_input(sample), config={"callbacks": [trace]}), trace

    def output(self, reply: Any) -> SystemOutputs:
        value, trace = reply
        documents = self._documents(value)
        if documents is None:
            documents = trace.documents
        retrieved = UnknownRanking() if documents is None else self._mapper.to_ranking(documents)
        steps = []
        for search in trace.retrievals:
            ids = [item.doc.doc_id for item in self._mapper.to_ranking(search.documents or ())]
            steps.append({"query": search.query, "retrieved": ids, "timing": search.seconds})
        return SystemOutputs(retrieved, self._answer(value), timings=trace.timings, steps=steps, usage=trace.usage)

    def _documents(self, value: Any) -> Sequence[Any] | None:
        if self._documents_key is None and _are_documents(value) and value:
            return value  # type: ignore[no-any-return]
        fields = value if isinstance(value, Mapping) else {}
        if self._documents_key is not None:
            documents = fields.get(self._documents_key)
            if not _are_documents(documents):
                raise _unreadable_reply(value, f"no documents at '{self._documents_key}'", "documents_key")
            return documents
        return next((fields[key] for key in _DOCUMENT_KEYS if key in fields and _are_documents(fields[key])), None)

    def _answer(self, value: Any) -> Response | None:
        if self._answer_key is None and _are_documents(value):
            return None
        if self._answer_key is not None or isinstance(value, Mapping):
            value = self._select_answer(value)
        answer = extract_response(value)
        if answer is None:
            raise _unreadable_reply(value, "no text", "answer_key")
        return answer

    def _select_answer(self, value: Any) -> Any:
        fields = value if isinstance(value, Mapping) else {}
        keys = _ANSWER_KEYS if self._answer_key is None else (self._answer_key,)
        for key in keys:
            if fields.get(key) is not None:
                return fields[key]
        if self._answer_key is None and fields.get("messages"):
            return fields["messages"][-1]  # agents and graphs append their answer to the conversation
        problem = "no answer under a usual name" if self._answer_key is None else f"no answer at '{self._answer_key}'"
        raise _unreadable_reply(value, problem, "answer_key")


def _unreadable_reply(value: Any, problem: str, option: str) -> SystemCallError:
    there = (
        f"the keys {quote_names([str(key) for key in value])}" if isinstance(value, Mapping) else type(value).__name__
    )
    return SystemCallError(
        "bad_output", f"the chain returned {there}, and {problem}: name it with from_langchain(chain, {option}='...')"
    )


class _Generator:
    """A runnable that gets the question and the retrieved documents."""

    def __init__(self, runnable: Any, context: Callable[[Sequence[Document]], Any], config: Mapping[str, Any]) -> None:
        self._runnable, self._context = runnable, context
        self._form = input_form(runnable, None, with_context=True)
        self.config = config

    def _input(self, query: str, documents: Sequence[Document]) -> Any:
        return self._form.with_context(query, self._context(documents))

    def _response(self, value: Any) -> Response:
        answer = extract_response(value)
        if answer is None:
            raise SystemCallError(
                "bad_output", f"the generator returned a {type(value).__name__}, which is not an answer"
            )
        usage = sum_token_usage([_usage_report(value)])
        if usage:
            answer.metadata["usage"] = usage
        return answer

    def generate(self, query: str, context_docs: list[Document]) -> Any:
        """The runnable's answer."""
        return self._response(self._runnable.invoke(self._input(query, context_docs)))


class _AsyncGenerator(_Generator):
    """The asynchronous variant."""

    async def generate(self, query: str, context_docs: list[Document]) -> Response:
        """The runnable's answer, asynchronously."""
        return self._response(await self._runnable.ainvoke(self._input(query, context_docs)))
