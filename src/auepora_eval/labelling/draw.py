"""Which samples people are asked about: a random draw whose beginnings are random draws too."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ..core.errors import BadValueError
from ..core.slices import sort_groups
from ..perturb.seeded_random import hash_uniform

__all__ = ["SINGLE_STRATUM", "DrawnItem", "LabelDraw", "draw_samples"]

SINGLE_STRATUM = "all"
"""The one stratum there is where none are told apart."""


@dataclass(frozen=True, slots=True)
class DrawnItem:
    """A sample that was drawn, and the stratum it stands for."""

    sample_id: str
    stratum: str = SINGLE_STRATUM


@dataclass(frozen=True, slots=True)
class LabelDraw:
    """What was drawn, from what, and how: what a corrected mean has to know of the labelled samples."""

    run: str
    seed: int
    stratify: str | None
    """The path that tells the strata apart, such as ``labels.scenario``."""
    strata: Mapping[str, int]
    """How many samples of the population each stratum has."""
    drawn_items: tuple[DrawnItem, ...]
    """In the order in which they are asked about."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """How many samples of the run were not in the population, by reason."""

    @property
    def population(self) -> int:
        """How many samples could have been drawn."""
        return sum(self.strata.values())

    @property
    def sample_ids(self) -> list[str]:
        """The ids of those that were."""
        return [one.sample_id for one in self.drawn_items]

    def weights(self, labelled: Sequence[str] | None = None) -> dict[str, float]:
        """By id how many samples of the population each labelled one stands for; by default all that were drawn."""
        wanted = None if labelled is None else set(labelled)
        kept = [one for one in self.drawn_items if wanted is None or one.sample_id in wanted]
        counts = Counter(one.stratum for one in kept)
        return {one.sample_id: self.strata[one.stratum] / counts[one.stratum] for one in kept}

    def to_dict(self) -> dict[str, Any]:
        """The draw as its file has it."""
        drawn: Counter[str] = Counter(one.stratum for one in self.drawn_items)
        return {
            "run": self.run,
            "seed": self.seed,
            "stratify": self.stratify,
            "population": self.population,
            "left_out": dict(self.left_out),
            "strata": {name: {"population": size, "drawn": drawn[name]} for name, size in self.strata.items()},
            "drawn": [{"sample_id": one.sample_id, "stratum": one.stratum} for one in self.drawn_items],
        }


def draw_samples(
    population: Mapping[str, str],
    n: int,
    *,
    run: str,
    seed: int = 0,
    stratify: str | None = None,
    left_out: Mapping[str, int] | None = None,
) -> LabelDraw:
    """``n`` samples of a population, given as sample id -> stratum; all of it where it has no more.

    A sample's chance depends on the seed and its id alone: two annotators, and two runs over one dataset, get the same
    samples. Strata are drawn from in proportion to their sizes, each at least once, and a larger draw begins with the
    smaller one: whoever stops early has labelled a random sample as well.
    """
    if n < 1:
        raise BadValueError(f"cannot draw {n} samples; draw at least one")
    waiting: dict[str, list[str]] = {}
    for sample_id in sorted(population, key=lambda one: (hash_uniform(seed, "label", one), one)):
        waiting.setdefault(population[sample_id], []).append(sample_id)
    strata = {name: len(waiting[name]) for name in sort_groups(waiting)}
    if n < len(strata) and len(strata) > 1:
        raise BadValueError(
            f"{n} samples are fewer than the {len(strata)} groups of '{stratify}', each of which needs one; "
            f"draw at least {len(strata)}, or do not stratify"
        )
    places = {name: iter(ids) for name, ids in waiting.items()}
    seats = _allocate_strata(strata)
    drawn = tuple(DrawnItem(next(places[name]), name) for name, _ in zip(seats, range(n), strict=False))
    return LabelDraw(run, seed, stratify, strata, drawn, dict(left_out or {}))


def _allocate_strata(sizes: Mapping[str, int]) -> Iterator[str]:
    """Whose turn it is: first everyone's, the largest first, then by Webster's method.

    Of all proportional methods those by divisors never take a seat back when there is one more to give.
    """
    order = {name: place for place, name in enumerate(sorted(sizes, key=lambda name: -sizes[name]))}
    yield from order

    def turn(name: str, taken: int) -> tuple[Fraction, int, str, int]:
        return Fraction(-sizes[name], 2 * taken + 1), order[name], name, taken

    queue = [turn(name, 1) for name in order if sizes[name] > 1]
    heapq.heapify(queue)
    while queue:
        _, _, name, taken = heapq.heappop(queue)
        yield name
        if taken + 1 < sizes[name]:
            heapq.heappush(queue, turn(name, taken + 1))
