"""Where a Haystack pipeline takes the question, and which of its components say what was found and answered."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..core.errors import BadTypeError

__all__ = [
    "Socket",
    "answer_sockets",
    "document_sockets",
    "missing_inputs",
    "parse_sockets",
    "question_sockets",
    "takes_messages",
]

Socket = tuple[str, str]
"""A component and one of its sockets."""

_QUESTION_SOCKETS = ("query", "question", "text", "input", "user_query", "user_input", "prompt")
_OPTIONAL_QUESTIONS = ("query", "question")
_ANSWER_SOCKETS = ("answers", "replies", "last_message", "answer", "reply", "response")


def question_sockets(free: Mapping[str, Mapping[str, Any]], data: Mapping[str, Mapping[str, Any]]) -> list[Socket]:
    """The free inputs that take the question, by their names; if none has a usual one, the only one there is."""
    open_ones = [
        (component, name, info)
        for component, sockets in free.items()
        for name, info in sockets.items()
        if name not in data.get(component, {}) and (_takes_text(info["type"]) or takes_messages(info["type"]))
    ]
    wanted = [
        (component, name)
        for component, name, info in open_ones
        if (info["is_mandatory"] and (name in _QUESTION_SOCKETS or takes_messages(info["type"])))
        or (name in _OPTIONAL_QUESTIONS and _takes_text(info["type"]))
    ]
    needy = [(component, name) for component, name, info in open_ones if info["is_mandatory"]]
    return wanted or (needy if len(needy) == 1 else [])


def missing_inputs(free: Mapping[str, Mapping[str, Any]], given: Iterable[Socket]) -> list[Socket]:
    """The inputs that a pipeline must have and nobody gives."""
    held = set(given)
    needed = [
        (component, name) for component, inside in free.items() for name in inside if inside[name]["is_mandatory"]
    ]
    return [place for place in needed if place not in held]


def document_sockets(outputs: Mapping[str, Mapping[str, Any]], after: Mapping[str, set[str]]) -> list[Socket]:
    """The outputs that hold documents, of the components after which no other has any: what is passed on in the end."""
    places = {
        component: [name for name, info in sockets.items() if _is_list_of(info["type"], "Document")]
        for component, sockets in outputs.items()
    }
    return _last({component: names for component, names in places.items() if names}, after, ("documents",))


def answer_sockets(outputs: Mapping[str, Mapping[str, Any]], after: Mapping[str, set[str]]) -> list[Socket]:
    """The outputs that hold answers, likewise."""
    places = {
        component: [name for name in _ANSWER_SOCKETS if name in sockets] for component, sockets in outputs.items()
    }
    return _last({component: names for component, names in places.items() if names}, after, _ANSWER_SOCKETS)


def _last(places: Mapping[str, Sequence[str]], after: Mapping[str, set[str]], preferred: Sequence[str]) -> list[Socket]:
    last = [component for component in places if not (after.get(component, set()) & set(places) - {component})]
    chosen: list[Socket] = []
    for component in last:
        usual = [name for name in preferred if name in places[component]]
        chosen += [(component, name) for name in usual[:1] or places[component]]
    return chosen


def parse_sockets(
    named: str | Sequence[str], known: Mapping[str, Mapping[str, Any]], what: str, usual: Sequence[Socket] = ()
) -> list[Socket]:
    """The places a user named, as ``component.socket``, or as ``component`` where it is clear which socket is meant."""
    places: list[Socket] = []
    for one in [named] if isinstance(named, str) else named:
        component, dot, socket = one.rpartition(".")
        if not dot or component not in known:
            component, socket = one, ""
        sockets = list(known.get(component, ()))
        if not socket:
            fitting = [name for holder, name in usual if holder == component]
            socket = (fitting or (sockets if len(sockets) == 1 else [""]))[0]
        if socket not in sockets:
            there = ", ".join(f"{holder}.{name}" for holder, inside in known.items() for name in inside)
            raise BadTypeError(f"{what}='{one}' is nothing that the pipeline has; it has: {there}")
        places.append((component, socket))
    return places


def _takes_text(kind: Any) -> bool:
    """Whether a text may be given to a socket of this type."""
    return kind in (str, Any) or any(_takes_text(one) for one in _choices(kind))


def takes_messages(kind: Any) -> bool:
    """Whether a socket of this type wants the messages of a conversation."""
    return _is_list_of(kind, "ChatMessage") or any(takes_messages(one) for one in _choices(kind))


def _choices(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else ()


def _is_list_of(kind: Any, name: str) -> bool:
    if typing.get_origin(kind) is not list:
        return any(_is_list_of(one, name) for one in _choices(kind))
    (held,) = typing.get_args(kind) or (None,)
    return getattr(held, "__name__", "") == name and getattr(held, "__module__", "").startswith("haystack.")
