"""How far annotators agree: every pair of them, all together, and where they do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from ..core.errors import BadValueError
from ..io.labels import Label
from ..stats.agreement import AgreementReport, Level, Weights, agreement_report, alpha_report, kappa_report
from .annotators import Unit, disputed, read_annotators, shown_label

__all__ = ["AnnotatorAgreement", "Dispute", "PairAgreement", "annotator_agreement"]


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """How far two annotators agree on the answers both labelled."""

    first: str
    second: str
    agreement: AgreementReport
    kappa: AgreementReport
    """Cohen's; of a scale with more than two steps, weighted by the square of the distance."""


@dataclass(frozen=True, slots=True)
class Dispute:
    """An answer that annotators labelled differently, with what each said."""

    unit: Unit
    said: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AnnotatorAgreement:
    """How far annotators agree."""

    labelled: Mapping[str, int]
    """How many answers each labelled."""
    level: Level
    pairs: tuple[PairAgreement, ...]
    alpha: AgreementReport
    """Krippendorff's, of all together."""
    disputes: tuple[Dispute, ...]

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON tells it."""
        return {
            "annotators": dict(self.labelled),
            "level": self.level,
            "alpha": _told(self.alpha),
            "pairs": [
                {
                    "annotators": [one.first, one.second],
                    "agreement": _told(one.agreement),
                    "kappa": _told(one.kappa),
                }
                for one in self.pairs
            ],
            "disputes": [
                {
                    "sample_id": one.unit.sample_id,
                    "run": one.unit.run or None,
                    "metric": one.unit.metric or None,
                    "said": dict(one.said),
                }
                for one in self.disputes
            ],
        }


def annotator_agreement(paths: Sequence[str | Path], *, run: str | None = None) -> AnnotatorAgreement:
    """How far the annotators of these files agree, on all answers, or on those of one run."""
    annotators = read_annotators(paths, keep=lambda label: run is None or label.run in (None, run))
    if len(annotators) < 2:
        found = next(iter(annotators), None)
        whom = "there are no labels" if found is None else f"all labels are of {found!r}"
        raise BadValueError(f"agreement takes two annotators at least, and {whom}")
    units = sorted({unit for labels in annotators.values() for unit in labels})
    values = {name: [_value(labels.get(unit)) for unit in units] for name, labels in annotators.items()}
    level = _level([label for labels in annotators.values() for label in labels.values()])
    weights: Weights | None = "quadratic" if level == "ordinal" else None
    pairs = tuple(
        PairAgreement(a, b, agreement_report(values[a], values[b]), kappa_report(values[a], values[b], weights))
        for a, b in combinations(annotators, 2)
    )
    disputes = tuple(
        Dispute(unit, {name: shown_label(labels[unit]) for name, labels in annotators.items() if unit in labels})
        for unit in disputed(annotators)
    )
    counts = {name: len(labels) for name, labels in annotators.items()}
    return AnnotatorAgreement(counts, level, pairs, alpha_report(list(values.values()), level), disputes)


def _value(label: Label | None) -> float | None:
    return None if label is None else label.value


def _level(labels: Sequence[Label]) -> Level:
    """Right and wrong are names; the numbers of a scale have an order, and nobody says how far apart they are."""
    return "nominal" if all(isinstance(one.label, str | bool) for one in labels) else "ordinal"


def _told(report: AgreementReport) -> dict[str, Any]:
    interval = report.interval
    return {
        "value": report.value,
        "interval": None if interval is None else [interval.low, interval.high],
        "units": report.units,
        "why_undefined": report.why_undefined,
    }
