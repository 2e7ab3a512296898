"""What a calibration comes to: whether a judge can be used as it is, with a correction, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..reporting.tables import format_value
from ..stats.estimate import Estimate
from ..stats.interval import Interval

__all__ = ["CHANCE_P_VALUE", "Conclusion", "Usability", "conclude"]

Usability = Literal["not_usable", "usable_with_correction", "usable"]
_WORDS: dict[Usability, str] = {
    "not_usable": "not usable",
    "usable_with_correction": "usable with correction",
    "usable": "usable",
}
CHANCE_P_VALUE = 0.05
"""The one-sided p-value below which a judge counts as better than chance."""
_KAPPA = 0.6
"""From this on, agreement with people counts as substantial (Landis and Koch 1977)."""
_ENOUGH = 30
"""Fewer labels do not show that a judge needs no correction."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Whether a judge can be used, and why."""

    name: str
    """Whose scores they are."""
    usability: Usability
    reason: str
    p_chance: float
    """How likely scores without any relation to the labels would go with them as well as these do."""

    @property
    def sentence(self) -> str:
        """The conclusion in one sentence."""
        return f"Conclusion: {self.name} is {_WORDS[self.usability]}, because {self.reason}."

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
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

    ``excess`` is by how much its scores exceed the labels of the same answers, on average, and ``corrects`` whether
    they make the interval of the labels narrower.
    """
    labels = f"{labelled} label" + "s" * (labelled != 1)
    shown = "" if auroc.value is None else f"AUROC {format_value(auroc.value)}, "
    if p_chance >= CHANCE_P_VALUE:
        if same_labels:
            reason = f"people say the same of every labelled answer ({labels}), which cannot show what it knows"
        elif same_scores:
            reason = f"it gives every labelled answer the same score ({labels})"
        else:
            reason = f"it is not shown to be better than chance ({shown}p {p_chance:.2g}, {labels})"
        return Conclusion(name, "not_usable", reason, p_chance)
    doubts = list(_objections(labelled, kappa, excess, mean_excess))
    if not doubts:
        agreement = "" if kappa.value is None else f"kappa {format_value(kappa.value)}, "
        reason = f"it agrees with people ({agreement}{labels}), and its mean is not shown to be off"
        return Conclusion(name, "usable", reason, p_chance)
    if not corrects:
        why = "does not narrow the interval of the labels"
        if labelled < _ENOUGH:
            why = "so few labels can neither confirm nor correct its mean"
        reason = f"it is better than chance ({shown}{labels}), but {why}"
        return Conclusion(name, "not_usable", reason, p_chance)
    reason = f"it is better than chance ({shown}{labels}), but {_joined(doubts)}"
    return Conclusion(name, "usable_with_correction", reason, p_chance)


def _objections(labelled: int, kappa: Estimate, excess: Interval | None, mean_excess: float) -> list[str]:
    """Why its own mean should not be reported."""
    doubts = []
    if kappa.value is None or kappa.value < _KAPPA:
        doubts.append(f"kappa is {'n/a' if kappa.value is None else format_value(kappa.value)}, below {_KAPPA:g}")
    if excess is None or not excess.low <= 0 <= excess.high:
        doubts.append(f"its mean is {format_value(abs(mean_excess))} too {'high' if mean_excess > 0 else 'low'}")
    if labelled < _ENOUGH:
        doubts.append(f"fewer than {_ENOUGH} answers are labelled")
    return doubts


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
