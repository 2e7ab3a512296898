"""How far annotators agree: every pair of them, all together, and on which answers they do not."""

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
    """An answer that annotators labelled differently, with what each said."""

    unit: AnnotationUnit
    said: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        unit = self.unit
        return {
            "sample_id": unit.sample_id,
            "run": unit.run or None,
            "metric": unit.metric or None,
            "said": dict(self.said),
        }


@dataclass(frozen=True, slots=True)
class AnnotatorAgreement:
    """How far annotators agree."""

    raters: RatersReport
    disputes: tuple[AnnotatorDisagreement, ...]
    models: tuple[str, ...] = ()
    """The annotators that are models."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            **self.raters.to_dict(),
            "disputes": [one.to_dict() for one in self.disputes],
            "models": list(self.models),
        }


def annotator_agreement(paths: Sequence[str | Path]) -> AnnotatorAgreement:
    """How far the annotators of these files agree."""
    labels = read_annotations(paths)
    raters = rater_agreement(labels)
    annotators = group_by_annotator(labels)
    if raters is None:
        whom = f"all labels are of {next(iter(annotators))!r}" if annotators else "there are no labels"
        raise BadValueError(f"agreement takes two annotators at least, and {whom}")
    disputes = tuple(
        AnnotatorDisagreement(
            unit, {name: format_label(said[unit]) for name, said in annotators.items() if unit in said}
        )
        for unit in find_disagreements(annotators)
    )
    models = {label.annotator for label in labels if label.provenance == "model"}
    return AnnotatorAgreement(raters, disputes, tuple(name for name in annotators if name in models))
