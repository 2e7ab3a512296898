"""What several annotators said, side by side, answer by answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..io.labels import Label
from .items import PreviousLabel

__all__ = [
    "AnnotationUnit",
    "Annotators",
    "find_disagreements",
    "format_label",
    "group_by_annotator",
    "previous_labels",
]

Annotators = Mapping[str, Mapping["AnnotationUnit", Label]]
"""By annotator and answer, what was said."""


@dataclass(frozen=True, order=True, slots=True)
class AnnotationUnit:
    """An answer that can be labelled: of a sample, in a run, under a metric; ``""`` where the label names none."""

    sample_id: str
    run: str = ""
    metric: str = ""


def group_by_annotator(labels: Iterable[Label]) -> dict[str, dict[AnnotationUnit, Label]]:
    """What each annotator said, in the order in which they first come; what settled a disagreement is nobody's."""
    found: dict[str, dict[AnnotationUnit, Label]] = {}
    for label in labels:
        if not label.adjudicated:
            unit = AnnotationUnit(label.sample_id, label.run or "", label.metric or "")
            found.setdefault(label.annotator, {})[unit] = label
    return found


def find_disagreements(annotators: Annotators) -> list[AnnotationUnit]:
    """The answers that two annotators labelled differently, in order."""
    values: dict[AnnotationUnit, set[float]] = {}
    for labels in annotators.values():
        for unit, label in labels.items():
            values.setdefault(unit, set()).add(label.value)
    return sorted(unit for unit, different in values.items() if len(different) > 1)


def previous_labels(
    annotators: Annotators, units: Iterable[AnnotationUnit], *, blind: bool = False
) -> dict[str, list[PreviousLabel]]:
    """By sample what each annotator said; where that is ``blind``, they are called by numbers."""
    said: dict[str, list[PreviousLabel]] = {}
    for unit in units:
        for place, (name, labels) in enumerate(annotators.items(), start=1):
            if unit in labels:
                one = labels[unit]
                called = f"annotator {place}" if blind else name
                said.setdefault(unit.sample_id, []).append(PreviousLabel(called, format_label(one), one.comment))
    return said


def format_label(label: Label) -> str:
    """A label as people read it."""
    value = label.label
    if isinstance(value, bool):
        return "right" if value else "wrong"
    return value if isinstance(value, str) else f"{value:g}"
