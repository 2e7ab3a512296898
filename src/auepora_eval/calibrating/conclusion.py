"""Conclusion of a calibration: a judge is usable, usable with correction, or not usable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..reporting.tables import format_value
from ..stats.estimate import Estimate
from ..stats.interval import Interval

__all__ = ["CHANCE_P_VALUE", "Conclusion", "Usability", "conclude"]

Usability = Literal["not_usable", "usable_with_correction", "usable"]
_USABILITY_TEXT: dict[Usability, str] = {
    "not_usable": "not usable",
    "usable_with_correction": "usable with correction",
    "usable": "usable",
}
CHANCE_P_VALUE = 0.05
"""Significance level: below this one-sided p-value a judge is better than chance."""
_MIN_KAPPA = 0.6
"""Lower bound of substantial agreement (Landis and Koch 1977)."""
_MIN_LABELS = 30
"""With fewer labels a judge always needs correction."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Whether a judge can be used, and why."""

    name: str
    """The metric and run of the scores."""
    usability: Usability
    reason: str
    p_chance: float
    """One-sided p-value of the association of scores and labels."""

    @property
    def sentence(self) -> str:
        """The conclusion in one sentence."""
        return f"Conclusion: {self.name} is {_USABILITY_TEXT[self.usability]}, because {self.reason}."

    def to_dict(self) -> dict[str, Any]:
        """The conclusion as a JSON object."""
        return {
            "name": self.name,
            "usability": self.usability,
            "reason": self.reason,
            "p_chance": self.p_chance,
            "sentence": self.sentence,
        }


def conclude(
    name: str,
    *,
    labelled: int,
    p_chance: float,
    same_labels: bool,
    same_scores: bool,
    auroc: Estimate,
    kappa: Estimate,
    excess: Interval | None,
    mean_excess: float,
    corrects: bool,
) -> Conclusion:
    """The conclusion about one judge.

    ``excess`` is the interval of the mean of score - label, and ``corrects`` whether the scores narrow the interval of
    the labels.
    """
    labels = f"{labelled} label" + "s" * (labelled != 1)
    auroc_text = "" if auroc.value is None else f"AUROC {format_value(auroc.value)}, "
    if p_chance >= CHANCE_P_VALUE:
        if same_labels:
            reason = f"people say the same of every labelled answer ({labels}), which cannot show what it knows"
        elif same_scores:
            reason = f"it gives every labelled answer the same score ({labels})"
        else:
            reason = f"it is not shown to be better than chance ({auroc_text}p {p_chance:.2g}, {labels})"
        return Conclusion(name, "not_usable", reason, p_chance)
    objections = list(_objections(labelled, kappa, excess, mean_excess))
    if not objections:
        agreement = "" if kappa.value is None else f"kappa {format_value(kappa.value)}, "
        reason = f"it agrees with people ({agreement}{labels}), and its mean is not shown to be off"
        return Conclusion(name, "usable", reason, p_chance)
    if not corrects:
        why = "does not narrow the interval of the labels"
        if labelled < _MIN_LABELS:
            why = "so few labels can neither confirm nor correct its mean"
        reason = f"it is better than chance ({auroc_text}{labels}), but {why}"
        return Conclusion(name, "not_usable", reason, p_chance)
    reason = f"it is better than chance ({auroc_text}{labels}), but {_join(objections)}"
    return Conclusion(name, "usable_with_correction", reason, p_chance)


def _objections(labelled: int, kappa: Estimate, excess: Interval | None, mean_excess: float) -> list[str]:
    """Reasons not to report the judge's own mean."""
    objections = []
    if kappa.value is None or kappa.value < _MIN_KAPPA:
        objections.append(
            f"kappa is {'n/a' if kappa.value is None else format_value(kappa.value)}, below {_MIN_KAPPA:g}"
        )
    if excess is None or not excess.low <= 0 <= excess.high:
        objections.append(f"its mean is {format_value(abs(mean_excess))} too {'high' if mean_excess > 0 else 'low'}")
    if labelled < _MIN_LABELS:
        objections.append(f"fewer than {_MIN_LABELS} answers are labelled")
    return objections


def _join(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
