"""Nuggets, the facts that an answer should contain, as samples and files have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..core.types import EvaluationSample
from ..errors import BadTypeError, BadValueError

Importance = Literal["vital", "okay"]
NUGGETS_KEY = "nuggets"
"""Metadata key of a sample's nuggets."""
ASSIGNMENTS = {"support": 1.0, "partial_support": 0.5, "not_support": 0.0}
"""Support of a nugget by an answer, as files name it, and its weight."""


@dataclass(frozen=True, slots=True)
class Nugget:
    """A fact, in one short statement."""

    text: str
    importance: Importance = "vital"
    """``vital`` if an answer without it is not a good one, ``okay`` if it is good to know."""
    assignment: str | None = None
    """Its support by an answer, if one was assigned: a key of ``ASSIGNMENTS``."""

    def to_dict(self) -> dict[str, str]:
        """The nugget as files and metadata store it."""
        row = {"text": self.text, "importance": str(self.importance)}
        return row if self.assignment is None else {**row, "assignment": self.assignment}


@dataclass(frozen=True, slots=True)
class NuggetTopic:
    """A question with its nuggets, optionally assigned to an answer."""

    qid: str
    """The id of the sample."""
    nuggets: tuple[Nugget, ...]
    query: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of the line, such as ``run_id`` and ``answer_text``."""

    def to_dict(self) -> dict[str, Any]:
        """The topic as a file stores it."""
        row = {"qid": self.qid, "query": self.query, **self.extra}
        return {**row, "nuggets": [nugget.to_dict() for nugget in self.nuggets]}


def sample_nuggets(sample: EvaluationSample) -> list[Nugget] | None:
    """The nuggets in a sample's metadata; ``None`` if there is no such key."""
    value = sample.metadata.get(NUGGETS_KEY) if isinstance(sample.metadata, Mapping) else None
    return None if value is None else parse_nuggets(value)


def parse_nuggets(values: object) -> list[Nugget]:
    """Nuggets from a list of objects with ``text`` and ``importance``, each text once.

    A duplicate is vital if any copy is. Raises for anything else.
    """
    if not isinstance(values, (list, tuple)):
        raise BadTypeError(f"nuggets are a list of objects with 'text' and 'importance', not {values!r:.80}")
    by_text: dict[str, Nugget] = {}
    for index, value in enumerate(values):
        nugget = value if isinstance(value, Nugget) else _parse_nugget(value, index)
        key = " ".join(nugget.text.split()).lower()
        before = by_text.get(key)
        if before is None or (before.importance == "okay" and nugget.importance == "vital"):
            by_text[key] = nugget
    return list(by_text.values())


def _parse_nugget(value: object, index: int) -> Nugget:
    where = f"nuggets[{index}]"
    if not isinstance(value, Mapping):
        raise BadTypeError(f"{where} is {value!r:.80}; a nugget is an object with 'text' and 'importance'")
    text = value.get("text")
    if not isinstance(text, str) or not text.strip():
        raise BadValueError(f"{where} has {text!r:.80} as 'text', which must be a statement")
    importance = _check_word(value, "importance", ("vital", "okay"), where)
    if importance is None:
        raise BadValueError(f"{where} has no 'importance'; it is vital or okay")
    return Nugget(
        text.strip(), "vital" if importance == "vital" else "okay", _check_word(value, "assignment", ASSIGNMENTS, where)
    )


def _check_word(row: Mapping[str, Any], key: str, words: Any, where: str) -> str | None:
    value = row.get(key)
    if value is None:
        return None
    word = value.strip().lower() if isinstance(value, str) else None
    if word not in words:
        raise BadValueError(f"{where} has {value!r:.40} as '{key}', which must be one of {', '.join(words)}")
    return word
