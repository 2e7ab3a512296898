"""Nuggets: the facts that a good answer to a question holds, vital ones and okay ones, and where they are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..core.errors import BadTypeError, BadValueError
from ..core.types import EvaluationSample

__all__ = [
    "ASSIGNMENTS",
    "NUGGETS_KEY",
    "Importance",
    "Nugget",
    "NuggetTopic",
    "parse_nuggets",
    "sample_nuggets",
]

Importance = Literal["vital", "okay"]
NUGGETS_KEY = "nuggets"
"""The key of a sample's metadata under which its nuggets are."""
ASSIGNMENTS = {"support": 1.0, "partial_support": 0.5, "not_support": 0.0}
"""How far an answer has a nugget, as files call it, and what that counts."""


@dataclass(frozen=True, slots=True)
class Nugget:
    """A fact, in one short statement."""

    text: str
    importance: Importance = "vital"
    """``vital`` if an answer without it is not a good one, ``okay`` if it is good to know."""
    assignment: str | None = None
    """How far an answer has it, where one was held against it: a key of ``ASSIGNMENTS``."""

    def to_dict(self) -> dict[str, str]:
        """As files and metadata have it."""
        told = {"text": self.text, "importance": str(self.importance)}
        return told if self.assignment is None else {**told, "assignment": self.assignment}


@dataclass(frozen=True, slots=True)
class NuggetTopic:
    """A question with its nuggets, perhaps held against an answer."""

    qid: str
    """The id of the sample."""
    nuggets: tuple[Nugget, ...]
    query: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What else the line says, such as ``run_id`` and ``answer_text``."""

    def to_dict(self) -> dict[str, Any]:
        """As a file has it."""
        told = {"qid": self.qid, "query": self.query, **self.extra}
        return {**told, "nuggets": [one.to_dict() for one in self.nuggets]}


def sample_nuggets(sample: EvaluationSample) -> list[Nugget] | None:
    """The nuggets in a sample's metadata; ``None`` where there is no such key."""
    held = sample.metadata.get(NUGGETS_KEY) if isinstance(sample.metadata, Mapping) else None
    return None if held is None else parse_nuggets(held)


def parse_nuggets(held: object) -> list[Nugget]:
    """Nuggets from a list of objects with ``text`` and ``importance``, each text once.

    One that comes twice is vital if it is so once. Raises for what is no such list.
    """
    if not isinstance(held, (list, tuple)):
        raise BadTypeError(f"nuggets are a list of objects with 'text' and 'importance', not {held!r:.80}")
    found: dict[str, Nugget] = {}
    for place, one in enumerate(held):
        nugget = one if isinstance(one, Nugget) else _nugget(one, place)
        key = " ".join(nugget.text.split()).lower()
        before = found.get(key)
        if before is None or (before.importance == "okay" and nugget.importance == "vital"):
            found[key] = nugget
    return list(found.values())


def _nugget(held: object, place: int) -> Nugget:
    where = f"nuggets[{place}]"
    if not isinstance(held, Mapping):
        raise BadTypeError(f"{where} is {held!r:.80}; a nugget is an object with 'text' and 'importance'")
    text = held.get("text")
    if not isinstance(text, str) or not text.strip():
        raise BadValueError(f"{where} has {text!r:.80} as 'text', which must be a statement")
    importance = _word(held, "importance", ("vital", "okay"), where)
    if importance is None:
        raise BadValueError(f"{where} has no 'importance'; it is vital or okay")
    return Nugget(
        text.strip(), "vital" if importance == "vital" else "okay", _word(held, "assignment", ASSIGNMENTS, where)
    )


def _word(held: Mapping[str, Any], key: str, words: Any, where: str) -> str | None:
    value = held.get(key)
    if value is None:
        return None
    word = value.strip().lower() if isinstance(value, str) else None
    if word not in words:
        raise BadValueError(f"{where} has {value!r:.40} as '{key}', which must be one of {', '.join(words)}")
    return word
