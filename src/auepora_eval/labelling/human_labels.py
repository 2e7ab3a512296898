"""What people said: which labels count, how far annotators agree, and the one label that several come to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from ..core.errors import BadValueError, DataFileError
from ..io.labels import Label, read_labels
from ..judge.scale import Scale
from ..stats.agreement import Level
from ..stats.raters import RatersReport, raters_report

__all__ = [
    "AggregatedLabels",
    "aggregate_labels",
    "rater_agreement",
    "read_annotations",
    "reject_tuning_labels",
    "select_labels",
]

KeyT = TypeVar("KeyT")


@dataclass(frozen=True, slots=True)
class AggregatedLabels:
    """One label per sample."""

    values: Mapping[str, float]
    """From 0 (wrong) to 1 (right)."""
    binary: bool
    adjudicated: int
    """How many of them were settled by somebody."""
    ties: tuple[str, ...]
    """Samples whose annotators are evenly divided; they have no label."""


def read_annotations(paths: Iterable[str | Path]) -> list[Label]:
    """The labels of one file or several; who is not named is called by the file."""
    found: dict[tuple[str, str, str | None, str | None, bool], tuple[Path, Label]] = {}
    for path in map(Path, paths):
        for label in read_labels(path):
            named = label if label.annotator or label.adjudicated else replace(label, annotator=path.stem)
            before, _ = found.setdefault(named.key, (path, named))
            if before != path:
                raise DataFileError(
                    path,
                    None,
                    f"'{named.annotator}' labelled sample '{label.sample_id}' in {before} too; "
                    "keep the one that counts, or tell two annotators of one name apart",
                )
    return [label for _, label in found.values()]


def select_labels(
    labels: Iterable[Label], *, names: Collection[str], metric: str, alone: bool = True
) -> tuple[list[Label], Counter[str]]:
    """The labels that people gave to the answers of a run, and why others are not among them.

    ``names`` are those of the run; none of them means that it has no name, and labels of any run count. A label that
    names no run is about this one, unless there is another (``alone``). One that names no metric goes with any.
    """
    kept: list[Label] = []
    others: Counter[str] = Counter()
    for label in labels:
        if label.run is None and not alone:
            raise BadValueError(
                f"the label of sample '{label.sample_id}' does not say which run's answer it is about; "
                "with two runs each label needs the field 'run'"
            )
        if names and label.run is not None and label.run not in names:
            others["other_run"] += 1
        elif label.metric not in (None, metric):
            others["other_metric"] += 1
        elif label.provenance == "model":
            others["by_model"] += 1
        else:
            kept.append(label)
    return kept, others


def reject_tuning_labels(
    labels: Sequence[Label], tuned_on: Collection[str], *, leave_out: bool
) -> tuple[list[Label], int]:
    """The labels that did not serve to tune the prompt, and how many did; an error, unless they may be left out."""
    fresh = [label for label in labels if not label.tuning and label.sample_id not in tuned_on]
    tuned = len(labels) - len(fresh)
    if tuned and not leave_out:
        first = next(label for label in labels if label.tuning or label.sample_id in tuned_on)
        raise BadValueError(
            f"{tuned} of {len(labels)} labels served to tune the judge's prompt (the first is of sample "
            f"'{first.sample_id}'): it knows them, and they cannot tell how good it is; label other samples, or leave "
            "these out with --leave-out-tuned (leave_out_tuned=True)"
        )
    return fresh, tuned


def rater_agreement(labels: Iterable[Label], *, seed: int = 0) -> RatersReport | None:
    """How far annotators agree on the answers that several labelled; ``None`` where there is but one annotator."""
    said: dict[str, dict[tuple[str, str | None], Label]] = {}
    for label in labels:
        if not label.adjudicated:
            own = said.setdefault(label.annotator or "(unnamed)", {})
            _put(own, (label.sample_id, label.run), label)
    if len(said) < 2:
        return None
    answers = list(dict.fromkeys(answer for own in said.values() for answer in own))
    ratings = {name: [own[answer].value if answer in own else None for answer in answers] for name, own in said.items()}
    level: Level = "nominal" if all(_is_verdict(one) for own in said.values() for one in own.values()) else "ordinal"
    return raters_report(ratings, level, seed=seed)


def aggregate_labels(labels: Iterable[Label], scale: Scale | None = None) -> AggregatedLabels:
    """One label per sample: what was adjudicated, else what most annotators say, a tie being no label.

    Of numbers on a scale, which most annotators would hardly ever agree on, the mean is taken. ``scale`` says from
    where to where they go; without one they must lie between 0 and 1.
    """
    by_sample: dict[str, dict[tuple[str, bool], Label]] = {}
    for label in labels:
        _put(by_sample.setdefault(label.sample_id, {}), (label.annotator, label.adjudicated), label)
    said = {
        sample: [one for one in own.values() if one.adjudicated] or list(own.values())
        for sample, own in by_sample.items()
    }
    numbers = {sample: [_normalised(one, scale) for one in own] for sample, own in said.items()}
    verdicts = all(value in (0.0, 1.0) for own in numbers.values() for value in own)
    values: dict[str, float] = {}
    ties = []
    for sample, own in numbers.items():
        if not verdicts:
            values[sample] = math.fsum(own) / len(own)
        elif 2 * sum(own) == len(own):
            ties.append(sample)
        else:
            values[sample] = float(2 * sum(own) > len(own))
    adjudicated = sum(said[sample][0].adjudicated for sample in values)
    return AggregatedLabels(values, verdicts, adjudicated, tuple(ties))


def _put(own: dict[KeyT, Label], key: KeyT, label: Label) -> None:
    """One annotator's label of an answer; what was said for the metric itself goes before what was said in general."""
    if key not in own or own[key].metric is None:
        own[key] = label


def _is_verdict(label: Label) -> bool:
    return isinstance(label.label, str | bool) or label.value in (0.0, 1.0)


def _normalised(label: Label, scale: Scale | None) -> float:
    value = label.value
    if isinstance(label.label, str | bool):
        return value
    low, high = (0.0, 1.0) if scale is None else (scale.low, scale.high)
    if not low <= value <= high:
        hint = "say on which scale people labelled with --scale, such as 1-5" if scale is None else "mend the label"
        raise BadValueError(f"the label of sample '{label.sample_id}' is {value:g}, beyond {low:g} to {high:g}; {hint}")
    return (value - low) / (high - low)
