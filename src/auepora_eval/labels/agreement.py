"""Human labels: which ones count, agreement between annotators, and aggregation to one label per sample."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from ..errors import BadValueError, DataFileError
from ..io.labels import Label, LabelKey, read_labels
from ..judge.ratings import Scale
from ..stats.agreement import Level, RatersReport, raters_report
from .draws import read_all_draws
from .items import PreviousLabel
from .sample_weights import representative_labels

Annotators = Mapping[str, Mapping["AnnotationUnit", Label]]
"""Labels by annotator and unit."""


@dataclass(frozen=True, order=True, slots=True)
class AnnotationUnit:
    """What can be labelled: an answer or a document, by sample, run, metric and document; ``""`` for none."""

    sample_id: str
    run: str = ""
    metric: str = ""
    doc_id: str = ""


def group_by_annotator(labels: Iterable[Label]) -> dict[str, dict[AnnotationUnit, Label]]:
    """Labels by annotator, in order of first occurrence; adjudicated labels are left out."""
    grouped: dict[str, dict[AnnotationUnit, Label]] = {}
    for label in labels:
        if not label.adjudicated:
            unit = AnnotationUnit(label.sample_id, label.run or "", label.metric or "", label.doc_id or "")
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


def decided_label(labels: Sequence[Label], *, by_majority: bool = False) -> str:
    """The label of an item for display: the adjudicated one, else that of all annotators, or of most of them."""
    counted = [label for label in labels if label.adjudicated] or labels
    if by_majority:
        return "right" if 2 * sum(label.value for label in counted) > len(counted) else "wrong"
    names = {format_label(label) for label in counted}
    return names.pop() if len(names) == 1 else "annotators differ"


# --- selection of labels, agreement of raters, and one label per sample ----------------------------------------------

KeyT = TypeVar("KeyT")


@dataclass(frozen=True, slots=True)
class AggregatedLabels:
    """One label per sample."""

    values: Mapping[str, float]
    """From 0 (wrong) to 1 (right)."""
    binary: bool
    adjudicated: int
    """Number of adjudicated labels."""
    ties: tuple[str, ...]
    """Samples whose annotators are evenly split; they have no label."""


def read_annotations(paths: Iterable[str | Path]) -> list[Label]:
    """The labels of several files; an unnamed annotator gets the name of the file.

    A label that is in two files is an error, unless a person picked the sample: nothing is estimated from such labels.
    """
    by_key: dict[LabelKey, tuple[Path, Label]] = {}
    for path in map(Path, paths):
        for label in read_labels(path):
            named = label if label.annotator or label.adjudicated else replace(label, annotator=path.stem)
            first_path, _ = by_key.setdefault(named.key, (path, named))
            if first_path != path and not named.chosen:
                raise DataFileError(
                    path,
                    None,
                    f"'{named.annotator}' labelled sample '{label.sample_id}' in {first_path} too; "
                    "keep one of them, or give the two annotators different names",
                )
    return [label for _, label in by_key.values()]


def select_labels(
    labels: Iterable[Label], *, names: Collection[str], metric: str, alone: bool = True
) -> tuple[list[Label], Counter[str]]:
    """The human labels of a run's answers, and the number of other labels by reason.

    Grades of documents are among the others, and so are labels of samples that a person picked: they say nothing about
    the rest of the answers.
    ``names`` are those of the run; if empty, labels of any run count. A label without a run belongs to this one if it
    is the only run (``alone``). A label without a metric counts for any.
    """
    kept: list[Label] = []
    others: Counter[str] = Counter()
    for label in labels:
        if label.run is None and label.doc_id is None and not alone:
            raise BadValueError(
                f"the label of sample '{label.sample_id}' does not say which run's answer it is about; "
                "with two runs each label needs the field 'run'"
            )
        if label.doc_id is not None:
            others["of_document"] += 1
        elif names and label.run is not None and label.run not in names:
            others["other_run"] += 1
        elif label.metric not in (None, metric):
            others["other_metric"] += 1
        elif label.provenance == "model":
            others["by_model"] += 1
        elif label.chosen:
            others["chosen"] += 1
        else:
            kept.append(label)
    return kept, others


def reject_tuning_labels(
    labels: Sequence[Label], tuned_on: Collection[str], *, leave_out: bool
) -> tuple[list[Label], int]:
    """The labels not used to tune the prompt, and the number of the others; raises unless they may be left out."""
    untuned = [label for label in labels if not label.tuning and label.sample_id not in tuned_on]
    tuned = len(labels) - len(untuned)
    if tuned and not leave_out:
        first = next(label for label in labels if label.tuning or label.sample_id in tuned_on)
        raise BadValueError(
            f"{tuned} of {len(labels)} labels were used to tune the judge's prompt (the first is of sample "
            f"'{first.sample_id}'), so they cannot measure its quality; label other samples, or leave "
            "these out with --leave-out-tuned (leave_out_tuned=True)"
        )
    return untuned, tuned


def rater_agreement(labels: Iterable[Label], *, seed: int = 0) -> RatersReport | None:
    """Agreement on the answers that several annotators labelled; ``None`` if there is only one annotator."""
    by_annotator: dict[str, dict[tuple[str, str | None, str | None], Label]] = {}
    for label in labels:
        if not label.adjudicated:
            own = by_annotator.setdefault(label.annotator or "(unnamed)", {})
            _add_label(own, (label.sample_id, label.run, label.doc_id), label)
    if len(by_annotator) < 2:
        return None
    answers = list(dict.fromkeys(chain.from_iterable(by_annotator.values())))
    ratings: dict[str, list[float | None]] = {}
    level: Level = "nominal"
    for name, own in by_annotator.items():
        values = {answer: label.value for answer, label in own.items()}
        ratings[name] = [values.get(answer) for answer in answers]
        if not all(_is_verdict(label) for label in own.values()):
            level = "ordinal"
    return raters_report(ratings, level, seed=seed)


def aggregate_labels(labels: Iterable[Label], scale: Scale | None = None) -> AggregatedLabels:
    """One label per sample: the adjudicated one, else the majority, with ties left out.

    Numbers on a scale are averaged, since a majority is rare. ``scale`` is their range; without one they must lie
    between 0 and 1.
    """
    by_sample: dict[str, dict[tuple[str, bool], Label]] = {}
    for label in labels:
        _add_label(by_sample.setdefault(label.sample_id, {}), (label.annotator, label.adjudicated), label)
    numbers: dict[str, list[float]] = {}
    adjudicated_samples = set()
    for sample, own_labels in by_sample.items():
        deciding = [label for label in own_labels.values() if label.adjudicated]
        if deciding:
            adjudicated_samples.add(sample)
        numbers[sample] = [_normalised(label, scale) for label in deciding or own_labels.values()]
    verdicts = {0.0, 1.0}.issuperset(chain.from_iterable(numbers.values()))
    values: dict[str, float] = {}
    ties = []
    for sample, given in numbers.items():
        if not verdicts:
            values[sample] = math.fsum(given) / len(given)
        elif 2 * sum(given) == len(given):
            ties.append(sample)
        else:
            values[sample] = float(2 * sum(given) > len(given))
    return AggregatedLabels(values, verdicts, len(adjudicated_samples & values.keys()), tuple(ties))


def _add_label(own: dict[KeyT, Label], key: KeyT, label: Label) -> None:
    """Add an annotator's label of an answer; one for the metric replaces a general one."""
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
        hint = "set the scale of the labels with --scale, such as 1-5" if scale is None else "correct the label"
        raise BadValueError(f"the label of sample '{label.sample_id}' is {value:g}, beyond {low:g} to {high:g}; {hint}")
    return (value - low) / (high - low)


# --- the agreement report: pairwise, overall, and the answers they disagree on ---------------------------------------


@dataclass(frozen=True, slots=True)
class AnnotatorDisagreement:
    """An answer that annotators labelled differently, with the label of each."""

    unit: AnnotationUnit
    labels: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """The values as a JSON object."""
        unit = self.unit
        return {
            "sample_id": unit.sample_id,
            "run": unit.run or None,
            "metric": unit.metric or None,
            **({"doc_id": unit.doc_id} if unit.doc_id else {}),
            "said": dict(self.labels),
        }


@dataclass(frozen=True, slots=True)
class AnnotatorAgreement:
    """Agreement between annotators and their disagreements."""

    raters: RatersReport
    disputes: tuple[AnnotatorDisagreement, ...]
    models: tuple[str, ...] = ()
    """Annotators that are models."""
    chosen: int = 0
    """Number of labels of samples that a person picked; they are left out."""
    left_out: int = 0
    """Number of labels outside the part of the draw with equal probabilities."""
    is_drawn: bool = True
    """Whether the samples were drawn at random; otherwise the agreement is about the labelled answers alone."""

    def to_dict(self) -> dict[str, Any]:
        """The values as a JSON object."""
        return {
            **self.raters.to_dict(),
            "disputes": [dispute.to_dict() for dispute in self.disputes],
            "models": list(self.models),
            "chosen": self.chosen,
            **({"left_out": self.left_out} if self.left_out else {}),
        }


def annotator_agreement(paths: Sequence[str | Path]) -> AnnotatorAgreement:
    """The agreement between the annotators of these files."""
    everything = read_annotations(paths)
    labels = [label for label in everything if not (label.chosen or label.adjudicated)]
    draws = read_all_draws(paths)
    grades = [label for label in labels if label.doc_id is not None]
    used = [*representative_labels((label for label in labels if label.doc_id is None), draws), *grades]
    raters = rater_agreement(used)
    annotators = group_by_annotator(labels)
    if raters is None:
        found = f"all labels are of {next(iter(annotators))!r}" if annotators else "there are no labels"
        raise BadValueError(f"agreement needs at least two annotators, and {found}")
    disagreements = []
    for unit in find_disagreements(annotators):
        given = {name: format_label(own[unit]) for name, own in annotators.items() if unit in own}
        disagreements.append(AnnotatorDisagreement(unit, given))
    models = {label.annotator for label in labels if label.provenance == "model"}
    return AnnotatorAgreement(
        raters,
        tuple(disagreements),
        models=tuple(name for name in annotators if name in models),
        chosen=sum(label.chosen for label in everything),
        left_out=len(labels) - len(used),
        is_drawn=bool(draws) or any(label.draw is not None and label.doc_id is None for label in labels),
    )
