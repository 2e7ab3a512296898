"""What several annotators said, side by side, answer by answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..io.labels import Label
from .items import Said

__all__ = ["Annotators", "Unit", "by_annotator", "disputed", "said_of", "shown_label"]

Annotators = Mapping[str, Mapping["Unit", Label]]
"""By annotator and answer, what was said."""


@dataclass(frozen=True, order=True, slots=True)
class Unit:
    """An answer that can be labelled: of a sample, in a run, under a metric; ``""`` where the label names none."""

    sample_id: str
    run: str = ""
    metric: str = ""


def by_annotator(labels: Iterable[Label]) -> dict[str, dict[Unit, Label]]:
    """What each annotator said, in the order in which they first come; what settled a disagreement is nobody's."""
    found: dict[str, dict[Unit, Label]] = {}
    for label in labels:
        if not label.adjudicated:
            unit = Unit(label.sample_id, label.run or "", label.metric or "")
            found.setdefault(label.annotator, {})[unit] = label
    return found


def disputed(annotators: Annotators) -> list[Unit]:
    """The answers that two annotators labelled differently, in order."""
    values: dict[Unit, set[float]] = {}
    for labels in annotators.values():
        for unit, label in labels.items():
            values.setdefault(unit, set()).add(label.value)
    return sorted(unit for unit, different in values.items() if len(different) > 1)


def said_of(annotators: Annotators, units: Iterable[Unit], *, blind: bool = False) -> dict[str, list[Said]]:
    """By sample what each annotator said; where that is ``blind``, they are called by numbers."""
    said: dict[str, list[Said]] = {}
    for unit in units:
        for place, (name, labels) in enumerate(annotators.items(), start=1):
            if unit in labels:
                one = labels[unit]
                called = f"annotator {place}" if blind else name
                said.setdefault(unit.sample_id, []).append(Said(called, shown_label(one), one.comment))
    return said


def shown_label(label: Label) -> str:
    """A label as people read it."""
    value = label.label
    if isinstance(value, bool):
        return "right" if value else "wrong"
    return value if isinstance(value, str) else f"{value:g}"
