"""What an annotator can choose: right and wrong, a grade of a scale, one of two answers."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import BadValueError
from ..io.labels import RIGHT, WRONG

UNCLEAR_KEY = "x"


@dataclass(frozen=True, slots=True)
class LabelScale:
    """The range of integer labels, each of one digit."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= 9:
            raise BadValueError(f"a scale goes from one digit to a higher one, such as 1-5, not {self}")

    @classmethod
    def of(cls, text: str) -> LabelScale:
        """Parse a scale such as ``1-5``."""
        low, dash, high = text.strip().partition("-")
        if not (dash and low.strip().isdecimal() and high.strip().isdecimal()):
            raise BadValueError(f"a scale is written as 1-5, not {text!r}")
        return cls(int(low), int(high))

    def __str__(self) -> str:
        return f"{self.low}-{self.high}"

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float) and value == int(value) and self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class LabelChoice:
    """What an annotator can choose for an item, or on a scale for one answer of it."""

    name: str
    """The value that is sent."""
    key: str
    text: str


CHOICES = {
    "calibrate": (LabelChoice("right", "r", "Right"), LabelChoice("wrong", "w", "Wrong")),
    "compare": (
        LabelChoice("first", "1", "Only the first is right"),
        LabelChoice("second", "2", "Only the second is right"),
        LabelChoice("both", "3", "Both are right"),
        LabelChoice("neither", "4", "Both are wrong"),
    ),
    "drafts": (LabelChoice("accept", "y", "Accept"), LabelChoice("reject", "n", "Reject")),
}
"""The choices for an item by purpose, where there is no scale."""
CHOICE_LABELS: dict[str, tuple[str, ...]] = {
    "right": (RIGHT,),
    "wrong": (WRONG,),
    "first": (RIGHT, WRONG),
    "second": (WRONG, RIGHT),
    "both": (RIGHT, RIGHT),
    "neither": (WRONG, WRONG),
    "accept": (RIGHT,),
    "reject": (WRONG,),
}
"""The labels of the answers of an item, in the order shown, by choice."""
GRADE_TEXTS = {0: "not relevant", 1: "related", 2: "answers in part", 3: "answers the question"}
"""The meaning of the grades of a document."""
