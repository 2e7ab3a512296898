"""Sockets of a Haystack pipeline that take the question and give documents and answers."""

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
"""A component name and a socket name."""

_QUESTION_SOCKETS = ("query", "question", "text", "input", "user_query", "user_input", "prompt")
_OPTIONAL_QUESTIONS = ("query", "question")
_ANSWER_SOCKETS = ("answers", "replies", "last_message", "answer", "reply", "response")


def question_sockets(free: Mapping[str, Mapping[str, Any]], data: Mapping[str, Mapping[str, Any]]) -> list[Socket]:
    """The free inputs that take the question, by name; else the only mandatory one."""
    candidates = [
        (component, name, info)
        for component, sockets in free.items()
        for name, info in sockets.items()
        if name not in data.get(component, {}) and (_takes_text(info["type"]) or takes_messages(info["type"]))
    ]
    by_name = [
        (component, name)
        for component, name, info in candidates
        if (info["is_mandatory"] and (name in _QUESTION_SOCKETS or takes_messages(info["type"])))
        or (name in _OPTIONAL_QUESTIONS and _takes_text(info["type"]))
    ]
    mandatory = [(component, name) for component, name, info in candidates if info["is_mandatory"]]
    return by_name or (mandatory if len(mandatory) == 1 else [])


def missing_inputs(free: Mapping[str, Mapping[str, Any]], given_sockets: Iterable[Socket]) -> list[Socket]:
    """Mandatory inputs that are not filled."""
    filled = set(given_sockets)
    needed = [
        (component, name) for component, inside in free.items() for name in inside if inside[name]["is_mandatory"]
    ]
    return [place for place in needed if place not in filled]


def document_sockets(outputs: Mapping[str, Mapping[str, Any]], after: Mapping[str, set[str]]) -> list[Socket]:
    """Document outputs of the last components that have any."""
    places = {
        component: [name for name, info in sockets.items() if _is_list_of(info["type"], "Document")]
        for component, sockets in outputs.items()
    }
    return _last_components({component: names for component, names in places.items() if names}, after, ("documents",))


def answer_sockets(outputs: Mapping[str, Mapping[str, Any]], after: Mapping[str, set[str]]) -> list[Socket]:
    """Answer outputs of the last components that have any."""
    places = {
        component: [name for name in _ANSWER_SOCKETS if name in sockets] for component, sockets in outputs.items()
    }
    return _last_components({component: names for component, names in places.items() if names}, after, _ANSWER_SOCKETS)


def _last_components(
    places: Mapping[str, Sequence[str]], after: Mapping[str, set[str]], preferred: Sequence[str]
) -> list[Socket]:
    last = [component for component in places if not (after.get(component, set()) & set(places) - {component})]
    chosen: list[Socket] = []
    for component in last:
        usual = [name for name in preferred if name in places[component]]
        chosen += [(component, name) for name in usual[:1] or places[component]]
    return chosen


def parse_sockets(
    named: str | Sequence[str], known: Mapping[str, Mapping[str, Any]], what: str, defaults: Sequence[Socket] = ()
) -> list[Socket]:
    """The sockets a user named, as ``component.socket``, or as ``component`` if the socket is unambiguous."""
    parsed: list[Socket] = []
    for one in [named] if isinstance(named, str) else named:
        component, dot, socket = one.rpartition(".")
        if not dot or component not in known:
            component, socket = one, ""
        sockets = list(known.get(component, ()))
        if not socket:
            usual_sockets = [name for owner, name in defaults if owner == component]
            socket = (usual_sockets or (sockets if len(sockets) == 1 else [""]))[0]
        if socket not in sockets:
            available = ", ".join(f"{owner}.{name}" for owner, inside in known.items() for name in inside)
            raise BadTypeError(f"{what}='{one}' is not in the pipeline; it has: {available}")
        parsed.append((component, socket))
    return parsed


def _takes_text(kind: Any) -> bool:
    """Whether a socket of this type takes a string."""
    return kind in (str, Any) or any(_takes_text(one) for one in _union_members(kind))


def takes_messages(kind: Any) -> bool:
    """Whether a socket of this type takes chat messages."""
    return _is_list_of(kind, "ChatMessage") or any(takes_messages(one) for one in _union_members(kind))


def _union_members(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else ()


def _is_list_of(kind: Any, name: str) -> bool:
    if typing.get_origin(kind) is not list:
        return any(_is_list_of(one, name) for one in _union_members(kind))
    (item_type,) = typing.get_args(kind) or (None,)
    return getattr(item_type, "__name__", "") == name and getattr(item_type, "__module__", "").startswith("haystack.")
