"""Calibration report: a judge compared with human labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..stats.calibration import Bin, Confusion
from ..stats.estimate import Estimate
from ..stats.interval import Interval
from ..stats.prediction_powered import CorrectedMean
from ..stats.raters import RatersReport
from .conclusion import Conclusion

__all__ = ["CalibrationReport", "Disagreement", "JudgeCalibration", "count_of"]


def count_of(n: int, what: str) -> str:
    """A count with its noun in singular or plural.

    >>> counted(1, "label"), counted(2, "label")
    ('1 label', '2 labels')
    """
    return f"{n} {what}" + "s" * (n != 1)


@dataclass(frozen=True, slots=True)
class Disagreement:
    """An answer on which the judge and the human label disagree."""

    sample_id: str
    label: float
    """The human label, from 0 (wrong) to 1 (right)."""
    score: float
    """The metric's score, in its own units."""
    question: str = ""
    answer: str = ""
    rationale: str = ""


@dataclass(frozen=True, slots=True)
class JudgeCalibration:
    """The scores of one run compared with the human labels of its answers."""

    name: str
    metric: str
    threshold: float
    """Score from which an answer counts as right (up to which, if lower is better)."""
    threshold_given: bool
    higher_is_better: bool
    labelled: int
    """Number of samples with both a label and a score."""
    agreement: Estimate
    kappa: Estimate
    alpha: Estimate
    """Krippendorff's alpha of the verdicts, or of the scores for labels on a scale."""
    alpha_level: str
    auroc: Estimate
    confusion: Confusion
    tpr: Estimate
    tnr: Estimate
    balanced_accuracy: Estimate
    calibration_error: Estimate
    """ECE over ten bins of equal width."""
    calibration_error_equal_mass: Estimate
    brier: Estimate
    reliability: tuple[Bin, ...]
    corrected: CorrectedMean
    """Estimated mean human label of all answers."""
    disagreements: tuple[Disagreement, ...]
    """Answers with different verdicts, largest difference first."""
    conclusion: Conclusion
    """Whether the judge can be used."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Number of ignored labels, by reason."""
    notes: tuple[str, ...] = ()
    correlations: Mapping[str, Estimate] = field(default_factory=dict)
    """``pearson``, ``spearman`` and ``kendall`` of score and label; positive where both call the same answers good."""

    def to_dict(self) -> dict[str, Any]:
        """The values as a JSON object."""
        measures = ("agreement", "kappa", "alpha", "auroc", "tpr", "tnr", "balanced_accuracy")
        errors = ("calibration_error", "calibration_error_equal_mass", "brier")
        return {
            "name": self.name,
            "metric": self.metric,
            "threshold": self.threshold,
            "threshold_given": self.threshold_given,
            "higher_is_better": self.higher_is_better,
            "labelled": self.labelled,
            **{name: getattr(self, name).to_dict() for name in (*measures, *errors)},
            "alpha_level": self.alpha_level,
            "confusion": asdict(self.confusion),
            "reliability": [{**asdict(one), "interval": _interval_list(one.interval)} for one in self.reliability],
            "corrected": _corrected_dict(self.corrected),
            "disagreements": [asdict(one) for one in self.disagreements],
            "conclusion": self.conclusion.to_dict(),
            "left_out": dict(self.left_out),
            "notes": list(self.notes),
            **{name: one.to_dict() for name, one in self.correlations.items()},
        }


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """Agreement between annotators, agreement of the judge with them, and the corrected means."""

    people: RatersReport | None
    """Agreement between annotators; ``None`` if there is only one."""
    judged: tuple[JudgeCalibration, ...]
    """One per run."""
    difference: CorrectedMean | None = None
    """Of two runs: the estimated difference of their mean human labels, second - first."""
    finite: bool = False
    """Whether corrected means describe only these samples, rather than the population."""

    @property
    def verdict(self) -> str | None:
        """Of two runs: ``better``, ``worse`` or ``inconclusive``, the second compared with the first."""
        if self.difference is None:
            return None
        found = self.difference.interval
        if found is None or found.low <= 0 <= found.high:
            return "inconclusive"
        return "better" if found.low > 0 else "worse"

    @property
    def conclusion(self) -> Conclusion:
        """Whether the judge can be used: of two runs, the weaker conclusion."""
        order = ("not_usable", "usable_with_correction", "usable")
        return min((one.conclusion for one in self.judged), key=lambda one: order.index(one.usability))

    def to_dict(self) -> dict[str, Any]:
        """The values as a JSON object."""
        return {
            "schema": 1,
            "people": None if self.people is None else self.people.to_dict(),
            "judged": [one.to_dict() for one in self.judged],
            "difference": None if self.difference is None else _corrected_dict(self.difference),
            "verdict": self.verdict,
            "about": "these samples" if self.finite else "such samples",
            "conclusion": self.conclusion.to_dict(),
        }

    def to_text(self, *, shown: int = 20) -> str:
        """The report for a terminal, with up to ``shown`` disagreements."""
        from .rendering import render_report

        return render_report(self, shown=shown, markdown=False)

    def to_markdown(self, *, shown: int = 20) -> str:
        """The report as Markdown, with model output escaped."""
        from .rendering import render_report

        return render_report(self, shown=shown, markdown=True)


def _corrected_dict(one: CorrectedMean) -> dict[str, Any]:
    return {
        "value": one.value,
        "interval": _interval_list(one.interval),
        "weight": one.weight,
        "scores_mean": one.scores_mean,
        "labels_mean": one.labels_mean,
        "labels_interval": _interval_list(one.labels_interval),
        "labelled": one.labelled,
        "samples": one.samples,
        "worth_labels": one.worth,
    }


def _interval_list(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]
