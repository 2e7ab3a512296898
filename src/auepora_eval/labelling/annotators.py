"""Labels grouped by annotator, and the answers they disagree on."""

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
"""Labels by annotator and unit."""


@dataclass(frozen=True, order=True, slots=True)
class AnnotationUnit:
    """An answer that can be labelled: sample, run and metric; ``""`` if the label names none."""

    sample_id: str
    run: str = ""
    metric: str = ""


def group_by_annotator(labels: Iterable[Label]) -> dict[str, dict[AnnotationUnit, Label]]:
    """Labels by annotator, in order of first occurrence; adjudicated labels are left out."""
    grouped: dict[str, dict[AnnotationUnit, Label]] = {}
    for label in labels:
        if not label.adjudicated:
            unit = AnnotationUnit(label.sample_id, label.run or "", label.metric or "")
            grouped.setdefault(label.annotator, {})[unit] = label
    return grouped


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
    """The labels of all annotators by sample; if ``blind``, annotators are numbered."""
    by_sample: dict[str, list[PreviousLabel]] = {}
    for unit in units:
        for number, (name, labels) in enumerate(annotators.items(), start=1):
            if unit in labels:
                label = labels[unit]
                display_name = f"annotator {number}" if blind else name
                by_sample.setdefault(unit.sample_id, []).append(
                    PreviousLabel(display_name, format_label(label), label.comment)
                )
    return by_sample


def format_label(label: Label) -> str:
    """A label as a string for display."""
    value = label.label
    if isinstance(value, bool):
        return "right" if value else "wrong"
    return value if isinstance(value, str) else f"{value:g}"
