"""The ways in which retrieved documents are perturbed, at which rates, and how a user writes them down."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..core.errors import BadTypeError, BadValueError, did_you_mean

__all__ = ["ARMS", "ARMS_KIND", "KINDS", "NEED_GOLD", "Level", "Perturbation", "Sweep", "level_text"]

KINDS = {
    "noise": "documents that are not relevant take the place of the last ones",
    "drop": "the relevant ones are taken out",
    "counterfactual": "in the relevant ones a false answer stands in place of the right one",
    "empty": "nothing is returned",
    "shuffle": "the order is random",
    "duplicate": "documents come twice",
}
"""What can be done to a list of retrieved documents."""
NEED_GOLD = frozenset({"drop", "counterfactual"})
"""Kinds that must know which documents are relevant."""
ARMS_KIND = "arms"
ARMS: dict[str, dict[str, float]] = {"none": {"empty": 1.0}, "original": {}, "edited": {"counterfactual": 1.0}}
"""The same questions without documents, with those retrieved, and with false ones; as rates of the kinds above."""

Level = float | str
"""One point of a sweep: a rate, or the name of an arm."""


@dataclass(frozen=True, slots=True)
class Perturbation:
    """How much of each kind is done to what comes back from retrieval; all rates from 0 to 1."""

    noise: float = 0.0
    drop: float = 0.0
    counterfactual: float = 0.0
    empty: float = 0.0
    shuffle: float = 0.0
    duplicate: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for kind in KINDS:
            object.__setattr__(self, kind, _rate(kind, getattr(self, kind)))
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise BadTypeError(f"the seed of a perturbation must be a whole number, not {self.seed!r}")

    @property
    def rates(self) -> dict[str, float]:
        """The rates above 0, by kind."""
        return {kind: rate for kind, rate in asdict(self).items() if kind in KINDS and rate > 0}

    @classmethod
    def from_arm(cls, arm: str, seed: int = 0) -> Perturbation:
        """What makes an arm."""
        if arm not in ARMS:
            hint = did_you_mean(arm, ARMS, otherwise=f"; choose one of: {', '.join(ARMS)}")
            raise BadValueError(f"there is no arm '{arm}'{hint}")
        return cls(**ARMS[arm], seed=seed)


assert {field.name for field in fields(Perturbation)} == {*KINDS, "seed"}


@dataclass(frozen=True, slots=True)
class Sweep:
    """One kind of perturbation at several rates, or several arms: what is run one after the other."""

    kind: str
    levels: tuple[Level, ...]

    @classmethod
    def of(cls, given: str | Mapping[str, Sequence[Level]]) -> Sweep:
        """A sweep as users write it: ``noise=0,0.2,0.4``, ``arms=none,original,edited``, ``{"drop": [0, 0.5, 1]}``."""
        if isinstance(given, str):
            kind, equals, levels = given.partition("=")
            if not equals:
                raise BadValueError(f"'{given}' says not at which rates; write KIND=RATES, such as noise=0,0.2,0.4")
            return cls._validated(kind.strip(), [one.strip() for one in levels.split(",")])
        if not isinstance(given, Mapping) or len(given) != 1:
            raise BadValueError(f"name one kind of perturbation with its rates, such as noise=0,0.2,0.4; not {given!r}")
        ((kind, several),) = given.items()
        return cls._validated(kind, [several] if isinstance(several, (str, float, int)) else list(several))

    @classmethod
    def _validated(cls, kind: str, levels: list[Any]) -> Sweep:
        if kind not in (*KINDS, ARMS_KIND):
            known = f"; choose one of: {', '.join((*KINDS, ARMS_KIND))}"
            raise BadValueError(
                f"unknown perturbation '{kind}'{did_you_mean(kind, (*KINDS, ARMS_KIND), otherwise=known)}"
            )
        if kind == ARMS_KIND:
            for arm in levels:
                Perturbation.from_arm(str(arm))
            found: tuple[Level, ...] = tuple(map(str, levels))
        else:
            found = tuple(_rate(kind, one) for one in levels)
        if not found:
            raise BadValueError(f"{kind} is given no rates; write some, such as {kind}=0,0.5,1")
        for level in found:
            if found.count(level) > 1:
                raise BadValueError(f"{kind}={level_text(level)} is there twice; each is run once")
        return cls(kind, found)

    @property
    def base(self) -> Level:
        """What the others are held against: rate 0 where it is there, else the first."""
        return 0.0 if 0.0 in self.levels and self.kind != ARMS_KIND else self.levels[0]

    @property
    def perturbs(self) -> set[str]:
        """The kinds that are at work at one level or another."""
        return {kind for level in self.levels for kind in self.perturbation(level).rates}

    def perturbation(self, level: Level, seed: int = 0) -> Perturbation:
        """What is done at a level."""
        if isinstance(level, str):
            return Perturbation.from_arm(level, seed)
        return Perturbation(**{self.kind: level}, seed=seed)

    def label(self, level: Level) -> str:
        """A level as names and tags have it: ``noise=0.2``, ``arm=edited``."""
        return f"{'arm' if self.kind == ARMS_KIND else self.kind}={level_text(level)}"

    def __str__(self) -> str:
        return f"{self.kind}={','.join(map(level_text, self.levels))}"


def level_text(level: Level) -> str:
    """The name of an arm, or a rate as short as it is exact: ``0``, ``0.2``, ``1``."""
    return level if isinstance(level, str) else repr(level).removesuffix(".0")


def _rate(kind: str, given: Any) -> float:
    try:
        rate = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError):
        rate = math.nan
    if not 0 <= rate <= 1:
        raise BadValueError(f"the rate of {kind} must be a number from 0 to 1, not {given!r:.60}")
    return rate + 0.0  # -0.0 is 0
