"""Sample weights: whether the labelled samples are a random draw, and how many samples each represents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..labelling.draw import LabelDraw
from ..labelling.draw_file import read_draws
from .report import count_of

__all__ = ["SampleWeights", "read_all_draws", "weigh_samples"]

_NO_DRAW_NOTE = "nothing tells that the labelled samples were drawn at random: no draw is noted"


@dataclass(frozen=True, slots=True)
class SampleWeights:
    """The labelled samples that a corrected mean may use, with their weights."""

    ids: frozenset[str]
    """Samples that a corrected mean may use."""
    weights: Mapping[str, float] | None = None
    """Number of samples that each represents; ``None`` if all have the same weight."""
    notes: tuple[str, ...] = field(default=())


def read_all_draws(paths: Iterable[str | Path]) -> dict[str, list[LabelDraw]]:
    """The draws recorded with label files, by run."""
    by_run: dict[str, list[LabelDraw]] = {}
    for path in paths:
        for run, draw in read_draws(path).items():
            by_run.setdefault(run, []).append(draw)
    return by_run


def weigh_samples(
    labelled: Collection[str], draws: Mapping[str, list[LabelDraw]] | None, names: Collection[str]
) -> SampleWeights:
    """The weights of the labelled samples of a run, from the draws made from it.

    Without a recorded draw they are assumed to be a random sample, which cannot be checked. Labels of samples that were
    not drawn are ignored, because they were selected for a reason.
    """
    all_ids = frozenset(labelled)
    if draws is None:
        return SampleWeights(all_ids)
    run_draws = [draw for name in dict.fromkeys(names) for draw in draws.get(name, ())]
    if not run_draws:
        return SampleWeights(all_ids, notes=(_NO_DRAW_NOTE,))
    longest = max(run_draws, key=lambda draw: len(draw.drawn_items))
    if any(draw.drawn_items != longest.drawn_items[: len(draw.drawn_items)] for draw in run_draws):
        return SampleWeights(
            all_ids, notes=("the labels come from different draws, taken together as one random sample",)
        )
    drawn_ids = all_ids & set(longest.sample_ids)
    strata_text = f", by {longest.stratify}" if longest.stratify else ""
    num_drawn, population = len(longest.drawn_items), longest.population
    notes = [f"{len(drawn_ids)} labelled of {num_drawn} drawn at random from {population} answers{strata_text}"]
    if len(drawn_ids) < len(all_ids):
        extra = count_of(len(all_ids) - len(drawn_ids), "labelled sample")
        notes.append(f"{extra} not drawn at random, which the corrected mean does not use")
    if not drawn_ids:
        return SampleWeights(
            all_ids, notes=("none of the labelled samples was drawn; they are taken for a random sample",)
        )
    return SampleWeights(drawn_ids, longest.weights(sorted(drawn_ids)) if longest.stratify else None, tuple(notes))
