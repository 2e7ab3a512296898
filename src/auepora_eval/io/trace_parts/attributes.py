"""Attributes of a span: the names of OpenInference, OpenTelemetry GenAI and OpenLLMetry.

Attributes are flat (``retrieval.documents.0.document.id``), nested, or mixed; lists and objects may be JSON
strings. ``get_path`` and ``get_list`` handle all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from ...core.types import Document, RetrievedDocument
from ..codec import LineError
from ..ids import text_id
from ..json_values import parse_json
from ..problem_messages import quote_text

__all__ = [
    "format_integer",
    "get_first",
    "get_list",
    "get_path",
    "parse_id",
    "parse_json_text",
    "retrieved_documents",
    "span_kind",
    "to_json_object",
    "token_usage",
]

KINDS = frozenset(
    ("llm", "embedding", "chain", "retriever", "reranker", "tool", "agent", "guardrail", "evaluator", "prompt")
)
_OPERATIONS = {
    **dict.fromkeys(("chat", "text_completion", "generate_content", "completion"), "llm"),
    **dict.fromkeys(("invoke_agent", "create_agent"), "agent"),
    "invoke_workflow": "chain",
    "retrieval": "retriever",
    "rerank": "reranker",
    "embeddings": "embedding",
    "execute_tool": "tool",
}
_TOKEN_ATTRIBUTES = {
    "input_tokens": ("llm.token_count.prompt", "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    "output_tokens": ("llm.token_count.completion", "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    "total_tokens": ("llm.token_count.total", "gen_ai.usage.total_tokens", "llm.usage.total_tokens"),
}
_DOCUMENT_ATTRIBUTES = {
    "retriever": ("retrieval.documents", "gen_ai.retrieval.documents"),
    "reranker": ("reranker.output_documents", "retrieval.documents", "gen_ai.retrieval.documents"),
}
_TYPE_NAMES = {dict: "an object", list: "an array", str: "a string", bool: "true or false", type(None): "null"}


def get_path(node: Any, path: str) -> Any:
    """Return the value at a dotted path, where a dot may be part of a key or a level; ``None`` if there is none.

    If there are both a JSON string and flat keys below it (``metadata`` and ``metadata.id``), both are searched.
    """
    if isinstance(node, str):
        node = to_json_object(node)
    if not isinstance(node, dict):
        return None
    value = node.get(path)
    if value is not None:
        return value
    for head, rest in _split_points(path):
        inner = node.get(head)
        if inner is not None and (value := get_path(inner, rest)) is not None:
            return value
    return None


@cache
def _split_points(path: str) -> tuple[tuple[str, str], ...]:
    """Return ``path`` split in two at each of its dots; cached, since there are few paths."""
    dots = [index for index, letter in enumerate(path) if letter == "."]
    return tuple((path[:dot], path[dot + 1 :]) for dot in dots)


def get_list(node: Any, path: str) -> list[Any] | None:
    """Return the list at a dotted path: an array, a JSON string, or keys with an index; ``None``: no list."""
    value = get_path(node, path)
    if isinstance(value, str):
        value = parse_json_text(value)
    if isinstance(value, list):
        return value
    if isinstance(value, Mapping):
        return _by_position("", value)
    if not isinstance(node, Mapping):
        return None
    collected = _by_position(f"{path}.", node)
    for head, rest in _split_points(path):
        if collected is None and isinstance(node.get(head), Mapping):
            collected = get_list(node[head], rest)
    return collected


def _by_position(prefix: str, node: Mapping[str, Any]) -> list[Any] | None:
    by_position: dict[int, Any] = {}
    for key, value in node.items():
        if not key.startswith(prefix):
            continue
        number, _, rest = key.removeprefix(prefix).partition(".")
        if not number.isdecimal() or len(number) > 9:
            continue
        if not rest:
            by_position[int(number)] = value
        elif isinstance(item := by_position.setdefault(int(number), {}), dict):
            item[rest] = value
    return [by_position[position] for position in sorted(by_position)] or None


def parse_json_text(text: str) -> Any:
    """Parse a JSON string; ``None`` if it is not JSON."""
    try:
        return parse_json(text.encode())
    except LineError:
        return None


def parse_id(value: Any, name: str) -> str | None:
    """Return an id, which may be an integer; ``None`` if it is missing or empty."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return format_integer(value, name)
    raise LineError(f"attribute {quote_text(name)} must be a string or an integer, not {_type_name(value)}")


def format_integer(value: int, name: str) -> str:
    """Return an integer as a string."""
    if value.bit_length() > 256:  # Python limits the digits of an integer
        raise LineError(f"attribute {quote_text(name)} is too large a number")
    return str(value)


def span_kind(record: Mapping[str, Any], attributes: Mapping[str, Any]) -> str:
    """Return the kind of a span in lower case: ``retriever``, ``llm``, ...; empty if it is unknown."""
    for value in (get_path(attributes, "openinference.span.kind"), record.get("span_kind")):
        if isinstance(value, str) and value.lower() in KINDS:
            return value.lower()
    for name in ("gen_ai.operation.name", "llm.request.type"):
        value = get_path(attributes, name)
        if isinstance(value, str) and value.lower() in _OPERATIONS:
            return _OPERATIONS[value.lower()]
    return ""


def retrieved_documents(attributes: Mapping[str, Any], kind: str) -> list[RetrievedDocument] | None:
    """Return the documents of a retriever or reranker, best first; ``None`` if it does not list them."""
    for name in _DOCUMENT_ATTRIBUTES.get(kind, ()):
        listed = get_list(attributes, name)
        if listed is not None:
            return [_parse_document(item, f"{name}.{index}", index + 1) for index, item in enumerate(listed)]
    return None


def _parse_document(item: Any, name: str, rank: int) -> RetrievedDocument:
    if isinstance(item, str):
        item = {"content": item}
    if not isinstance(item, Mapping):
        raise LineError(f"attribute {quote_text(name)} must be a document (an object), not {_type_name(item)}")
    text = get_first(item, "document.content", "content", "text", "page_content")
    if not isinstance(text, str | None):
        raise LineError(f"attribute {quote_text(name + '.document.content')} must be a string, not {_type_name(text)}")
    doc_id = parse_id(get_first(item, "document.id", "id"), f"{name}.document.id")
    if doc_id is None and not text:
        raise LineError(f"attribute {quote_text(name)} has neither 'document.id' nor 'document.content'")
    score = _parse_number(get_first(item, "document.score", "score"), f"{name}.document.score")
    metadata = get_first(item, "document.metadata", "metadata")
    document = Document(doc_id or text_id(text or ""), text or "", _parse_metadata(metadata))
    return RetrievedDocument(document, score, rank)


def get_first(node: Any, *paths: str) -> Any:
    """Return the value at the first path that has one."""
    return next((value for value in (get_path(node, path) for path in paths) if value is not None), None)


def to_json_object(value: Any) -> dict[str, Any] | None:
    """Return an object, or the object in a JSON string."""
    if isinstance(value, str):
        value = parse_json_text(value) if value.lstrip()[:1] == "{" else None
    return dict(value) if isinstance(value, Mapping) else None


def _parse_metadata(value: Any) -> dict[str, Any]:
    parsed = to_json_object(value)
    return parsed if parsed is not None else {} if value is None else {"metadata": value}


def _parse_number(value: Any, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise LineError(f"attribute {quote_text(name)} must be a number, not {_type_name(value)}")
    try:
        return float(value)
    except OverflowError as error:
        raise LineError(f"attribute {quote_text(name)} is too large a number") from error


def token_usage(attributes: Mapping[str, Any]) -> dict[str, float]:
    """Return tokens and cost of one span; tokens are integers, which tables may write as ``12.0``."""
    counted: dict[str, float] = {}
    for key, names in _TOKEN_ATTRIBUTES.items():
        for name in names:
            value = _parse_number(get_path(attributes, name), name)
            if value is not None and (value < 0 or not value.is_integer()):
                raise LineError(f"attribute {quote_text(name)} must be a number of tokens, not {value:g}")
            if value is not None:
                counted.setdefault(key, int(value))
    cost = _parse_number(get_path(attributes, "llm.cost.total"), "llm.cost.total")
    return counted if cost is None else {**counted, "cost": cost}


def _type_name(value: Any) -> str:
    return _TYPE_NAMES.get(type(value), "a number")
