"""Agreement between annotators: pairwise, overall, and the answers they disagree on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import BadValueError
from ..stats.raters import RatersReport
from .annotators import AnnotationUnit, find_disagreements, format_label, group_by_annotator
from .human_labels import rater_agreement, read_annotations

__all__ = ["AnnotatorAgreement", "AnnotatorDisagreement", "annotator_agreement"]


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
            "said": dict(self.labels),
        }


@dataclass(frozen=True, slots=True)
class AnnotatorAgreement:
    """Agreement between annotators and their disagreements."""

    raters: RatersReport
    disputes: tuple[AnnotatorDisagreement, ...]
    models: tuple[str, ...] = ()
    """Annotators that are models."""

    def to_dict(self) -> dict[str, Any]:
        """The values as a JSON object."""
        return {
            **self.raters.to_dict(),
            "disputes": [one.to_dict() for one in self.disputes],
            "models": list(self.models),
        }


def annotator_agreement(paths: Sequence[str | Path]) -> AnnotatorAgreement:
    """The agreement between the annotators of these files."""
    labels = read_annotations(paths)
    raters = rater_agreement(labels)
    annotators = group_by_annotator(labels)
    if raters is None:
        found = f"all labels are of {next(iter(annotators))!r}" if annotators else "there are no labels"
        raise BadValueError(f"agreement needs at least two annotators, and {found}")
    disagreements = tuple(
        AnnotatorDisagreement(
            unit,
            {
                name: format_label(labels_of_name[unit])
                for name, labels_of_name in annotators.items()
                if unit in labels_of_name
            },
        )
        for unit in find_disagreements(annotators)
    )
    models = {label.annotator for label in labels if label.provenance == "model"}
    return AnnotatorAgreement(raters, disagreements, tuple(name for name in annotators if name in models))
