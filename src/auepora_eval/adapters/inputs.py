"""The input format of a LangChain runnable: a string, or a dict with a key for the question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..core.errors import BadTypeError
from ..core.types import EvaluationSample
from .replies import earlier_turns

__all__ = ["InputForm", "input_form", "quote_names"]

_QUESTION_KEYS = ("question", "input", "query")
_CONTEXT_KEYS = ("context", "documents", "docs")
_HISTORY_KEYS = ("chat_history", "history")
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
    history = next((name for name in _HISTORY_KEYS if name in names), None)
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
    for known in _QUESTION_KEYS:
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
