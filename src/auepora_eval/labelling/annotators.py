"""What several annotators said, side by side: from one file or several, answer by answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..core.errors import BadValueError
from ..io.labels import Label, read_labels
from .items import Said

__all__ = ["Unit", "disputed", "read_annotators", "said_of"]

Annotators = Mapping[str, Mapping["Unit", Label]]
"""By annotator and answer, what was said."""


@dataclass(frozen=True, order=True, slots=True)
class Unit:
    """An answer that can be labelled: of a sample, in a run, under a metric; ``""`` where the label names none."""

    sample_id: str
    run: str = ""
    metric: str = ""


def read_annotators(
    paths: Sequence[str | Path], *, keep: Callable[[Label], bool] = lambda _: True
) -> dict[str, dict[Unit, Label]]:
    """What each annotator said, in the order in which they first come.

    An annotator of the same name in another file who labelled the same answer is another person, told apart by the name
    of the file. What settled a disagreement is no annotator's.
    """
    found: dict[str, dict[Unit, Label]] = {}
    for path in map(Path, paths):
        own: dict[str, dict[Unit, Label]] = {}
        for label in read_labels(path):
            if not label.adjudicated and keep(label):
                unit = Unit(label.sample_id, label.run or "", label.metric or "")
                own.setdefault(label.annotator or path.stem, {})[unit] = label
        for name, labels in own.items():
            taken = name in found and not found[name].keys().isdisjoint(labels)
            found.setdefault(_free(found, f"{name} ({path.stem})") if taken else name, {}).update(labels)
    return found


def _free(found: Mapping[str, object], name: str) -> str:
    number = 2
    tried = name
    while tried in found:
        tried, number = f"{name} {number}", number + 1
    return tried


def disputed(annotators: Annotators) -> list[Unit]:
    """The answers that two annotators labelled differently, in order."""
    values: dict[Unit, set[float]] = {}
    for labels in annotators.values():
        for unit, label in labels.items():
            values.setdefault(unit, set()).add(label.value)
    return sorted(unit for unit, different in values.items() if len(different) > 1)


def said_of(annotators: Annotators, units: Iterable[Unit], *, blind: bool = False) -> dict[str, list[Said]]:
    """By sample what each annotator said; where that is ``blind``, they are called by letters."""
    if len(annotators) > 26 and blind:
        raise BadValueError(f"{len(annotators)} annotators are more than there are letters to call them by")
    said: dict[str, list[Said]] = {}
    for unit in units:
        for place, (name, labels) in enumerate(annotators.items()):
            if unit in labels:
                one = labels[unit]
                called = f"annotator {chr(ord('A') + place)}" if blind else name
                said.setdefault(unit.sample_id, []).append(Said(called, shown_label(one), one.comment))
    return said


def shown_label(label: Label) -> str:
    """A label as people read it."""
    value = label.label
    if isinstance(value, bool):
        return "right" if value else "wrong"
    return value if isinstance(value, str) else f"{value:g}"
