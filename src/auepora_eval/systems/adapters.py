"""Common parts of the framework adapters: detection, tested versions, documents, replies, adapted systems."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..core.rag_interface import SimpleRAGSystem
from ..core.results import to_json_value
from ..core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from ..errors import AueporaWarning, MissingDependencyError, SystemCallError
from ..features.usage import CACHED, sum_usage, token_count, usage_of_models

# --- documents of a framework: ids, texts, scores, parents, spans, JSON metadata -------------------------------------


class FrameworkDocument(NamedTuple):
    """The fields of a framework's document, unchecked."""

    doc_id: Any
    text: Any
    metadata: Mapping[Any, Any] | None
    score: Any = None
    parent_id: Any = None
    span: tuple[int, int] | None = None


class DocumentMapper:
    """Converts a framework's documents, with the user's metadata keys; warns once about each problem."""

    def __init__(
        self, read: Callable[[Any], FrameworkDocument], *, id_key: str | None = None, parent_key: str | None = None
    ) -> None:
        self._read, self._id_key, self._parent_key = read, id_key, parent_key
        self._warned: set[str] = set()

    def to_ranking(self, items: Any, top_k: int | None = None) -> list[RetrievedDocument]:
        """The ranking, at most ``top_k`` documents; anything else is a failure of the system."""
        if not isinstance(items, Iterable) or isinstance(items, (str, Mapping)):
            raise SystemCallError("bad_output", f"documents were expected, and a {type(items).__name__} came back")
        read = list(map(self._read_item, list(items)[:top_k]))
        documents = [(self.document(document), self._score(document.score)) for document in read]
        return [RetrievedDocument(document, score, rank) for rank, (document, score) in enumerate(documents, 1)]

    def _read_item(self, item: Any) -> FrameworkDocument:
        try:
            return self._read(item)
        except AttributeError as error:
            kind = type(item).__name__
            raise SystemCallError("bad_output", f"among the documents is a {kind}, which is none: {error}") from error

    def document(self, raw: FrameworkDocument) -> Document:
        """One document."""
        metadata: dict[str, Any] = to_json_value(raw.metadata or {})
        text = "" if raw.text is None else str(raw.text)
        parent = raw.parent_id if self._parent_key is None else self._metadata_value(metadata, self._parent_key)
        return Document(
            self._id(raw.doc_id, text, metadata),
            text,
            metadata,
            parent_id=None if parent is None else str(parent),
            span=raw.span,
        )

    def _id(self, given: Any, text: str, metadata: Mapping[str, Any]) -> str:
        if self._id_key is not None:
            return str(self._metadata_value(metadata, self._id_key))
        for candidate in (given, *(metadata.get(key) for key in ("id", "doc_id", "source"))):
            if candidate is not None and candidate != "":
                return str(candidate)
        self._warn(
            "documents have no id, so a hash of their text is used; gold with other ids is "
            "never matched (id_key='...' names the metadata key of the id)"
        )
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def _metadata_value(self, metadata: Mapping[str, Any], key: str) -> Any:
        value = metadata.get(key)
        if value is None:
            keys = ", ".join(sorted(metadata)) or "nothing"
            raise SystemCallError("bad_output", f"a document has no '{key}' in its metadata, which holds: {keys:.500}")
        return value

    def _score(self, score: Any) -> float | None:
        if score is None:
            return None
        number = float(score)
        if math.isfinite(number):
            return number
        self._warn(f"a document has the score {number}, which is recorded as unknown")
        return None

    def _warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            warnings.warn(message, AueporaWarning, stacklevel=2)


def span_from(start: Any, text: Any) -> tuple[int, int] | None:
    """The span of a text in its parent; ``None`` if its start is unknown."""
    if isinstance(start, bool) or not isinstance(start, int) or start < 0 or not isinstance(text, str):
        return None
    return start, start + len(text)


# --- replies: answers, token usage, and earlier turns to send --------------------------------------------------------

_TOKENS = {
    "input_tokens": ("input_tokens", "prompt_tokens", "prompt_token_count"),
    "output_tokens": ("output_tokens", "completion_tokens", "candidates_token_count"),
    "total_tokens": ("total_tokens", "total_token_count"),
}


def extract_response(value: Any) -> Response | None:
    """The response in a string, a message, a mapping or a pydantic model; ``None`` for anything else.

    A structured answer also gets its JSON as text: an empty text would count as a refusal.
    """
    if isinstance(value, str):
        return Response(str(value))
    content = getattr(value, "content", None)
    if isinstance(content, (str, list)):  # a message; a list contains its parts, some of them text
        return Response(content if isinstance(content, str) else "".join(map(_part, content)))
    fields = value if isinstance(value, Mapping) else dump_model(value)
    if fields is None:
        return None
    structured = to_json_value(fields)
    return Response(json.dumps(structured, ensure_ascii=False), structured)


def dump_model(value: Any) -> Mapping[str, Any] | None:
    """The fields of a pydantic model; ``None`` for anything else."""
    if isinstance(value, type) or not any(kind.__module__.startswith("pydantic.") for kind in type(value).__mro__):
        return None
    fields = value.model_dump()
    return fields if isinstance(fields, Mapping) else None


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, Mapping) else getattr(part, "text", None)
    return text if isinstance(text, str) else ""


def sum_token_usage(reports: Iterable[Any]) -> dict[str, Any]:
    """The sum of several usage reports, under the names that outputs use; a report may name its ``model``."""
    read: list[dict[str, Any]] = []
    for report in reports:
        if not isinstance(report, Mapping):
            continue
        counts: dict[str, Any] = {}
        for name, spellings in _TOKENS.items():
            count = next((report[key] for key in spellings if isinstance(report.get(key), int)), None)
            if count is not None:
                counts[name] = count
        if (cached := token_count(report, CACHED)) is not None:
            counts[CACHED] = cached
        if counts:
            read.append({**counts, "model": report.get("model")})
    return {**sum_usage(read), **usage_of_models(read)}


def earlier_turns(sample: EvaluationSample) -> list[tuple[str, str]]:
    """The role and the text of every earlier turn that has both."""
    turns = [(turn.get("role"), turn.get("content")) for turn in sample.history]
    return [(role, text) for role, text in turns if isinstance(role, str) and isinstance(text, str)]


# --- the supported frameworks, their packages, and the tested versions -----------------------------------------------


@dataclass(frozen=True, slots=True)
class Framework:
    """A supported framework."""

    name: str
    package: str
    """The installed distribution."""
    module: str
    """Root module of its classes; subclasses belong to the framework."""
    function: str
    """Name of the adapter function, for messages."""
    tested: tuple[str, ...]
    """Tested major versions, the latest last; below 1.0 the minor version counts."""


LANGCHAIN = Framework("LangChain", "langchain-core", "langchain_core", "from_langchain", ("0.3", "1"))
LLAMAINDEX = Framework("LlamaIndex", "llama-index-core", "llama_index", "from_llamaindex", ("0.13", "0.14"))
HAYSTACK = Framework("Haystack", "haystack-ai", "haystack", "from_haystack", ("2", "3"))
FRAMEWORKS = (LANGCHAIN, LLAMAINDEX, HAYSTACK)


def require_tested(framework: Framework, *, any_version: bool = False) -> str:
    """The installed version; ``MissingDependencyError`` if there is none, or an untested one.

    Another major version may return another format, and scores of misread replies are worse than none.
    """
    from importlib.metadata import PackageNotFoundError, version as installed_version

    latest = f"'{framework.package}=={framework.tested[-1]}.*'"
    try:
        version = installed_version(framework.package)
    except PackageNotFoundError:
        raise MissingDependencyError(
            framework.package, purpose=f"{framework.function}()", install=framework.package
        ) from None
    if any_version or major_version(version) in framework.tested:
        return version
    tested = " and ".join(framework.tested)
    purpose = (
        f"{framework.function}() was tested with {framework.package} {tested}, and {version} is installed "
        "(any_version=True tries it anyway); it"
    )
    raise MissingDependencyError(framework.package, purpose=purpose, install=latest)


def major_version(version: str) -> str:
    """The compatibility-relevant part of a version: ``"1"`` of 1.7.2, ``"0.14"`` of 0.14.25."""
    first, _, rest = version.partition(".")
    return f"{first}.{rest.partition('.')[0]}" if first == "0" else first


# --- detection of the framework of an object by the module names of its classes, without imports ---------------------


def detect_framework(value: object) -> Framework | None:
    """The framework that the object's class builds on, or ``None``."""
    # A component of Haystack inherits from nothing; its class is made by a metaclass.
    kinds = (*type(value).__mro__, *type(type(value)).__mro__)
    roots = {kind.__module__.partition(".")[0] for kind in kinds}
    return next((framework for framework in FRAMEWORKS if framework.module in roots), None)


def is_instance_of(value: object, framework: Framework, *names: str) -> bool:
    """Whether the object's class is, or inherits from, one of the framework's classes of these names."""
    return any(
        kind.__name__ in names and kind.__module__.partition(".")[0] == framework.module for kind in type(value).__mro__
    )


# --- adapted systems: retrievers and pipelines, synchronous or asynchronous ------------------------------------------


class _AdaptedObject:
    """Base of adapted objects: calls the framework's object, and converts its reply."""

    def __init__(
        self, call: Callable[..., Any], read: Callable[..., Any], config: Mapping[str, Any], wrapped: object
    ) -> None:
        self._call, self._read, self._wrapped = call, read, wrapped
        self.config = dict(config)
        """Description of the system; stored with every run."""

    def close(self) -> None:
        """Close the wrapped object, if it can be closed."""
        close = getattr(self._wrapped, "close", None)
        if callable(close):
            close()


class AdaptedRetriever(_AdaptedObject):
    """A framework's retriever with this library's interface; it can be combined with any generator."""

    def retrieve(self, query: str, *, top_k: int = 5) -> Any:
        """The best ``top_k`` documents, best first."""
        return self._read(self._call(query, top_k), top_k)


class AsyncAdaptedRetriever(AdaptedRetriever):
    """The asynchronous variant."""

    async def retrieve(self, query: str, *, top_k: int = 5) -> Any:
        """The best ``top_k`` documents, best first."""
        return self._read(await self._call(query, top_k), top_k)


class AdaptedPipeline(_AdaptedObject):
    """A framework's pipeline as a system."""

    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> Any:
        """The pipeline's documents and answer."""
        return self._read(self._call(sample, top_k))


class AsyncAdaptedPipeline(_AdaptedObject):
    """The asynchronous variant."""

    async def arun(self, sample: EvaluationSample, *, top_k: int = 5) -> Any:
        """The pipeline's documents and answer."""
        return self._read(await self._call(sample, top_k))


def adapt_retriever(
    find: Callable[[str, int], Any],
    read: Callable[..., Any],
    config: Mapping[str, Any],
    wrapped: object,
    *,
    use_async: bool,
) -> AdaptedRetriever:
    """A framework's retriever: ``find`` takes the question and ``top_k``, ``read`` makes a ranking of its reply."""
    return (AsyncAdaptedRetriever if use_async else AdaptedRetriever)(find, read, config, wrapped)


def adapt_pipeline(
    ask: Callable[[EvaluationSample, int], Any],
    read: Callable[[Any], SystemOutputs],
    config: Mapping[str, Any],
    wrapped: object,
    *,
    use_async: bool,
) -> AdaptedPipeline | AsyncAdaptedPipeline:
    """A framework's pipeline: ``ask`` takes the sample and ``top_k``, ``read`` makes an output of its reply."""
    return (AsyncAdaptedPipeline if use_async else AdaptedPipeline)(ask, read, config, wrapped)


def with_generator(retriever: AdaptedRetriever, generator: Any) -> Any:
    """A retriever and a generator as one system."""
    asynchronous = isinstance(retriever, AsyncAdaptedRetriever)
    return (retriever, generator) if asynchronous else SimpleRAGSystem(retriever, generator)  # type: ignore[arg-type]


def display_class_name(system: object) -> str:
    """The class of a system for messages: of an adapted object the framework's class."""
    return type(system._wrapped if isinstance(system, _AdaptedObject) else system).__name__


def provenance(framework: Framework, wrapped: object, *, any_version: bool, part: str = "") -> dict[str, Any]:
    """Framework, tested version and class, stored with a run; ``part`` is a prefix of the keys."""
    version, kind = require_tested(framework, any_version=any_version), type(wrapped)
    return {
        f"{part}framework": f"{framework.package} {version}",
        f"{part}adapted": f"{kind.__module__}.{kind.__qualname__}",
    }
