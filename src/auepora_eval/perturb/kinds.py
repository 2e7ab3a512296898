"""Kinds and rates of document perturbations, and the sweep syntax ``noise=0,0.2,0.4``."""

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
"""The perturbations of a ranking, with their descriptions."""
NEED_GOLD = frozenset({"drop", "counterfactual"})
"""Kinds that need gold."""
ARMS_KIND = "arms"
ARMS: dict[str, dict[str, float]] = {"none": {"empty": 1.0}, "original": {}, "edited": {"counterfactual": 1.0}}
"""The same questions without documents, with retrieved and with counterfactual ones; as rates of the kinds above."""

Level = float | str
"""One point of a sweep: a rate, or the name of an arm."""


@dataclass(frozen=True, slots=True)
class Perturbation:
    """The rate of each kind of perturbation, from 0 to 1, and the seed."""

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
            raise BadTypeError(f"the seed of a perturbation must be an integer, not {self.seed!r}")

    @property
    def rates(self) -> dict[str, float]:
        """The rates above 0, by kind."""
        return {kind: rate for kind, rate in asdict(self).items() if kind in KINDS and rate > 0}

    @classmethod
    def from_arm(cls, arm: str, seed: int = 0) -> Perturbation:
        """The perturbation of an arm."""
        if arm not in ARMS:
            hint = did_you_mean(arm, ARMS, otherwise=f"; choose one of: {', '.join(ARMS)}")
            raise BadValueError(f"there is no arm '{arm}'{hint}")
        return cls(**ARMS[arm], seed=seed)


assert {field.name for field in fields(Perturbation)} == {*KINDS, "seed"}


@dataclass(frozen=True, slots=True)
class Sweep:
    """One kind of perturbation at several rates, or several arms; each level is one run."""

    kind: str
    levels: tuple[Level, ...]

    @classmethod
    def parse(cls, spec: str | Mapping[str, Sequence[Level]]) -> Sweep:
        """Parse a sweep: ``noise=0,0.2,0.4``, ``arms=none,original,edited``, ``{"drop": [0, 0.5, 1]}``."""
        if isinstance(spec, str):
            kind, equals, levels = spec.partition("=")
            if not equals:
                raise BadValueError(f"'{spec}' has no rates; write KIND=RATES, such as noise=0,0.2,0.4")
            return cls._validated(kind.strip(), [one.strip() for one in levels.split(",")])
        if not isinstance(spec, Mapping) or len(spec) != 1:
            raise BadValueError(f"name one kind of perturbation with its rates, such as noise=0,0.2,0.4; not {spec!r}")
        ((kind, rates),) = spec.items()
        return cls._validated(kind, [rates] if isinstance(rates, (str, float, int)) else list(rates))

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
            checked: tuple[Level, ...] = tuple(map(str, levels))
        else:
            checked = tuple(_rate(kind, one) for one in levels)
        if not checked:
            raise BadValueError(f"{kind} has no rates; write some, such as {kind}=0,0.5,1")
        for level in checked:
            if checked.count(level) > 1:
                raise BadValueError(f"{kind}={level_text(level)} is listed twice; list each level once")
        return cls(kind, checked)

    @property
    def base(self) -> Level:
        """The level that the others are compared with: rate 0 if present, else the first."""
        return 0.0 if 0.0 in self.levels and self.kind != ARMS_KIND else self.levels[0]

    @property
    def perturbs(self) -> set[str]:
        """The kinds with a rate above 0 at any level."""
        return {kind for level in self.levels for kind in self.perturbation(level).rates}

    def perturbation(self, level: Level, seed: int = 0) -> Perturbation:
        """The perturbation at a level."""
        if isinstance(level, str):
            return Perturbation.from_arm(level, seed)
        return Perturbation(**{self.kind: level}, seed=seed)

    def label(self, level: Level) -> str:
        """A level as used in run names and tags: ``noise=0.2``, ``arm=edited``."""
        return f"{'arm' if self.kind == ARMS_KIND else self.kind}={level_text(level)}"

    def __str__(self) -> str:
        return f"{self.kind}={','.join(map(level_text, self.levels))}"


def level_text(level: Level) -> str:
    """The name of an arm, or a rate as short as it is exact: ``0``, ``0.2``, ``1``."""
    return level if isinstance(level, str) else repr(level).removesuffix(".0")


def _rate(kind: str, value: Any) -> float:
    try:
        rate = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        rate = math.nan
    if not 0 <= rate <= 1:
        raise BadValueError(f"the rate of {kind} must be a number from 0 to 1, not {value!r:.60}")
    return rate + 0.0  # -0.0 is 0
