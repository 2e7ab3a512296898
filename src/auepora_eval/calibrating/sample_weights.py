"""Whether the labelled samples are a random draw, and how many others each of them stands for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..labelling.draw import LabelDraw
from ..labelling.draw_file import read_draws
from .report import count_of

__all__ = ["SampleWeights", "read_all_draws", "weigh_samples"]

_NOT_NOTED = "nothing tells that the labelled samples were drawn at random: no draw is noted"


@dataclass(frozen=True, slots=True)
class SampleWeights:
    """What labelled samples stand for."""

    ids: frozenset[str]
    """Those that a corrected mean may use."""
    weights: Mapping[str, float] | None = None
    """How many samples each of them stands for; ``None`` where all stand for as many."""
    notes: tuple[str, ...] = field(default=())


def read_all_draws(paths: Iterable[str | Path]) -> dict[str, list[LabelDraw]]:
    """The draws that were noted beside labels files, by run."""
    found: dict[str, list[LabelDraw]] = {}
    for path in paths:
        for run, draw in read_draws(path).items():
            found.setdefault(run, []).append(draw)
    return found


def weigh_samples(
    labelled: Collection[str], draws: Mapping[str, list[LabelDraw]] | None, names: Collection[str]
) -> SampleWeights:
    """What the labelled samples of a run stand for, by the draws that were made from it.

    Without any note of a draw they are taken to be a random sample, which nobody can check. Labels of samples that were
    not drawn are left aside: who chose them had a reason.
    """
    every = frozenset(labelled)
    if draws is None:
        return SampleWeights(every)
    own = [draw for name in dict.fromkeys(names) for draw in draws.get(name, ())]
    if not own:
        return SampleWeights(every, notes=(_NOT_NOTED,))
    longest = max(own, key=lambda draw: len(draw.drawn_items))
    if any(draw.drawn_items != longest.drawn_items[: len(draw.drawn_items)] for draw in own):
        return SampleWeights(
            every, notes=("the labels come from different draws, taken together as one random sample",)
        )
    drawn = every & set(longest.sample_ids)
    how = f", by {longest.stratify}" if longest.stratify else ""
    notes = [
        f"{len(drawn)} labelled of {len(longest.drawn_items)} drawn at random from {longest.population} answers{how}"
    ]
    if len(drawn) < len(every):
        extra = count_of(len(every) - len(drawn), "labelled sample")
        notes.append(f"{extra} not drawn at random, which the corrected mean does not use")
    if not drawn:
        return SampleWeights(
            every, notes=("none of the labelled samples was drawn; they are taken for a random sample",)
        )
    return SampleWeights(drawn, longest.weights(sorted(drawn)) if longest.stratify else None, tuple(notes))
