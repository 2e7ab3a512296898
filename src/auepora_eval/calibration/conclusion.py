"""The conclusion of a calibration: when a judge is usable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..render.short import decimals
from ..render.tables import format_value
from ..stats.intervals import Estimate, Interval

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
    brief: str = ""
    """The reason with as many digits as the intervals allow; not stored."""

    @property
    def sentence(self) -> str:
        """The conclusion in one sentence."""
        return self._sentence(self.reason)

    @property
    def short_sentence(self) -> str:
        """The sentence with as many digits as the intervals allow."""
        return self._sentence(self.brief)

    def _sentence(self, reason: str) -> str:
        return f"Conclusion: {self.name} is {_USABILITY_TEXT[self.usability]}, because {reason}."

    def to_dict(self) -> dict[str, Any]:
        """The conclusion as a JSON object."""
        return {
            "name": self.name,
            "usability": self.usability,
            "reason": self.reason,
            "p_chance": self.p_chance,
            "sentence": self.sentence,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the labels of one run show about its judge."""

    labelled: int
    p_chance: float
    same_labels: bool
    same_scores: bool
    auroc: Estimate
    kappa: Estimate
    excess: Interval | None
    """The interval of the mean of score - label."""
    mean_excess: float
    corrects: bool
    """Whether the scores narrow the interval of the labels."""


def conclude(name: str, evidence: Evidence) -> Conclusion:
    """The conclusion about one judge."""
    usability, reason = _usability(evidence, short=False)
    _, brief = _usability(evidence, short=True)
    return Conclusion(name, usability, reason, evidence.p_chance, brief)


def _usability(evidence: Evidence, *, short: bool) -> tuple[Usability, str]:
    """Whether a judge can be used, and the reason, in the short form with the digits that the intervals allow."""
    auroc, kappa = evidence.auroc, evidence.kappa
    labels = f"{evidence.labelled} label" + "s" * (evidence.labelled != 1)
    auroc_text = "" if auroc.value is None else f"AUROC {_number_text(auroc.value, auroc.interval, short=short)}, "
    if evidence.p_chance >= CHANCE_P_VALUE:
        if evidence.same_labels:
            reason = f"people say the same of every labelled answer ({labels}), which cannot show what it knows"
        elif evidence.same_scores:
            reason = f"it gives every labelled answer the same score ({labels})"
        else:
            reason = f"it is not shown to be better than chance ({auroc_text}p {evidence.p_chance:.2g}, {labels})"
        return "not_usable", reason
    objections = list(_objections(evidence, short=short))
    if not objections:
        number = "" if kappa.value is None else _number_text(kappa.value, kappa.interval, _MIN_KAPPA, short=short)
        agreement = f"kappa {number}, " if number else ""
        return "usable", f"it agrees with people ({agreement}{labels}), and its mean is not shown to be off"
    if not evidence.corrects:
        why = "does not narrow the interval of the labels"
        if evidence.labelled < _MIN_LABELS:
            why = "so few labels can neither confirm nor correct its mean"
        return "not_usable", f"it is better than chance ({auroc_text}{labels}), but {why}"
    return "usable_with_correction", f"it is better than chance ({auroc_text}{labels}), but {_join(objections)}"


def _objections(evidence: Evidence, *, short: bool) -> Iterator[str]:
    """Reasons not to report the judge's own mean."""
    kappa, excess, mean_excess = evidence.kappa, evidence.excess, evidence.mean_excess
    if kappa.value is None or kappa.value < _MIN_KAPPA:
        number = "n/a" if kappa.value is None else _number_text(kappa.value, kappa.interval, _MIN_KAPPA, short=short)
        yield f"kappa is {number}, below {_MIN_KAPPA:g}"
    if excess is None or not excess.low <= 0 <= excess.high:
        number = _number_text(abs(mean_excess), excess, short=short)
        yield f"its mean is {number} too {'high' if mean_excess > 0 else 'low'}"
    if evidence.labelled < _MIN_LABELS:
        yield f"fewer than {_MIN_LABELS} answers are labelled"


def _number_text(value: float, interval: Interval | None, other: float | None = None, *, short: bool) -> str:
    """A number with four decimals; in the short form as many as its interval allows, beside another number."""
    ends = None if interval is None or not short else (interval.low, interval.high)
    return format_value(value, decimals(ends, [value], other))


def _join(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
