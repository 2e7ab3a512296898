"""Which labels a statistic may use, and the weight of each sample."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

import numpy as np

from ..errors import BadValueError
from ..io.labels import Label
from ..perturb.edits import hash_uniform
from ..stats.permutation import rank_sum_p_value
from .draws import LabelDraw

_MAX_RATIO = 2.0
"""Probabilities of strata that differ by less than this factor count as equal in measures of agreement."""
Basis = Literal["draw", "census", "assumed_random"]
"""Why labels represent the population: they were drawn at random, cover all of it, or the user states so."""
ASSUMED_NOTE = "the labelled samples are assumed to be a random sample, as stated with --assume-random"


@dataclass(frozen=True, slots=True)
class SampleWeights:
    """The labelled samples that a statistic may use, with their weights."""

    ids: frozenset[str]
    """Samples that may be used."""
    basis: Basis = "draw"
    draws: tuple[LabelDraw, ...] = ()
    """The draws that are recorded; empty if labels name their draw and its record is missing."""
    strata_weights: Mapping[str, float] | None = None
    """Of a stratified draw: the number of samples that each represents."""
    probabilities: Mapping[str, float] | None = None
    """Inclusion probabilities, if they differ and are not those of strata."""
    notes: tuple[str, ...] = ()
    labelled: frozenset[str] = frozenset()
    """Samples with a label, whether it may be used or not."""
    extended: bool = False
    """Whether samples were added to the draw after the first label."""
    equal_answers: frozenset[str] = frozenset()
    """Samples that could not be drawn, since both runs of a comparison gave equal answers."""

    @property
    def reason_without_verdict(self) -> str | None:
        """Why no verdict may be given, if the number of labels is not the one of the draw."""
        if self.basis != "draw":
            return None
        if self.extended:
            return "samples were added to the draw after the first label, so that their number was not fixed before it"
        drawn = set(chain.from_iterable(draw.sample_ids for draw in self.draws))
        if not drawn:
            return "the draw is not recorded next to the labels, so that its size is not known"
        if drawn - self.labelled:
            return (
                f"{len(drawn & self.labelled)} of {len(drawn)} drawn samples are labelled; "
                "the verdict is given when all of them are"
            )
        return None

    def restrict(self, ids: Iterable[str]) -> SampleWeights:
        """The weights of fewer samples."""
        kept = self.ids & frozenset(ids)
        strata_weights = None if self.strata_weights is None else self.draws[0].weights(sorted(kept))
        probabilities = self.probabilities
        if probabilities is not None:
            probabilities = {sample_id: probabilities[sample_id] * len(kept) / len(self.ids) for sample_id in kept}
        return replace(self, ids=kept, strata_weights=strata_weights, probabilities=probabilities)

    @property
    def relative_weights(self) -> Mapping[str, float]:
        """How many samples each one represents, up to a factor; empty if all represent the same number."""
        if self.probabilities is not None:
            return {sample_id: 1 / probability for sample_id, probability in self.probabilities.items()}
        return self.strata_weights or {}

    def uniform_part(self, labelled: Iterable[str]) -> list[str]:
        """Those of the labelled samples that are a sample with equal probabilities, in the given order.

        From a draw with different probabilities, each sample is kept with a chance inverse to its own: a fixed subset,
        by a hash of the sample and the draw. Strata are drawn in proportion to their sizes, in whole samples; the
        differences that come from that count as equal.
        """
        usable = [sample_id for sample_id in labelled if sample_id in self.ids]
        weights = self.relative_weights
        if not weights or not usable:
            return usable
        tolerance = 1.0 if self.strata_weights is None else _MAX_RATIO
        return _thin(usable, weights, self.draws[0].id if self.draws else "", tolerance)


def _thin(ids: list[str], weights: Mapping[str, float], key: str, tolerance: float) -> list[str]:
    """The samples, each kept with a chance in proportion to its weight; all if the weights differ by a small factor."""
    largest = max(weights[sample_id] for sample_id in ids)
    if largest < tolerance * min(weights[sample_id] for sample_id in ids):
        return ids
    return [sample_id for sample_id in ids if hash_uniform(0, "uniform", key, sample_id) < weights[sample_id] / largest]


def weigh_samples(
    labels: Iterable[Label],
    ids: Iterable[str],
    population: Collection[str],
    draws: Mapping[str, list[LabelDraw]] | None,
    names: Collection[str],
    *,
    assume_random: bool = False,
) -> SampleWeights:
    """The labelled samples of a run that a statistic may use, with their weights.

    ``labels`` are those of people for this run, without labels of samples that a person picked; ``ids`` are the samples
    with a usable label and a score, ``population`` those with a score, ``draws`` the recorded ones by run, and
    ``names`` those of the run. Labels that cover the
    population are a census. Other labels must come from a draw that is recorded; what labels say of another draw, and
    their probabilities, count with ``assume_random`` only. Labels of samples that were not drawn are left out. Without
    any draw this raises ``BadValueError``, unless ``assume_random`` states that the samples are a random sample.
    """
    labels, everything = list(labels), frozenset(ids)
    if population and {label.sample_id for label in labels}.issuperset(population):
        return SampleWeights(everything, "census", notes=(f"every one of the {len(population)} answers is labelled",))
    # Scores of a file belong to no run: then the labels say which draws count.
    recorded = _recorded_draws(draws or {}, names or {label.run for label in labels if label.run} or (draws or {}))
    named = _named_draws(labels, recorded)
    if not recorded and not (named and assume_random):
        if assume_random:
            assumed = SampleWeights(everything, "assumed_random", notes=(ASSUMED_NOTE,))
            return replace(assumed, notes=(*assumed.notes, *_unlike_notes(assumed, population)))
        raise BadValueError(_no_draw_message(len(everything), len(population), named))
    if not assume_random:
        named = {}  # whatever a label says of its draw, nothing shows that there was one
    if len(recorded) == 1 and not named:
        found = _of_recorded(recorded[0], labels, everything)
    elif len(named) == 1 and not recorded:
        ((name, probabilities),) = named.items()
        equal = _are_equal(probabilities.values())
        note = f"{_samples(len(probabilities))} of draw {name}, which is not recorded next to the labels"
        drawn = everything & probabilities.keys()
        found = SampleWeights(drawn, probabilities=None if equal else probabilities, notes=(note,))
    else:
        found = _of_several(recorded, named, everything)
    if not found.ids:
        if assume_random:
            return SampleWeights(everything, "assumed_random", notes=(ASSUMED_NOTE,))
        raise BadValueError(
            f"none of the {_samples(len(everything))} with a label was drawn at random from this run: {_WHAT_TO_DO}"
        )
    found = replace(found, notes=(*found.notes, *_unlike_notes(found, population)))
    extra = len(everything) - len(found.ids)
    if assume_random and extra and found.probabilities is None and found.strata_weights is None:
        return replace(found, ids=everything, basis="assumed_random", notes=(*found.notes, ASSUMED_NOTE))
    if extra:
        left_out = f"{extra} labelled {'sample' if extra == 1 else 'samples'} not drawn at random and left out"
        return replace(found, notes=(*found.notes, left_out))
    return found


_TWO_DRAWS = (
    "the labels of the two runs come from two draws with different probabilities, so that they give no difference; "
    "label the same samples of both runs with `auepora label --for`"
)


def joint_weights(first: SampleWeights, second: SampleWeights, ids: Iterable[str]) -> SampleWeights:
    """The weights of samples whose answers in two runs may both be used.

    If one run has a census or equal probabilities, the weights are those of the other run. Two draws with different
    probabilities must be the same draw.
    """
    common = first.ids & second.ids & frozenset(ids)
    if first.equal_answers != second.equal_answers:
        raise BadValueError(_TWO_DRAWS)
    restricted = [drawn.restrict(common) for drawn in (first, second)]
    tables = [drawn.relative_weights for drawn in restricted]
    if all(tables) and not _are_equal(tables[0][sample_id] / tables[1][sample_id] for sample_id in common):
        raise BadValueError(_TWO_DRAWS)
    return restricted[1] if tables[1] else restricted[0]


def _unlike_notes(found: SampleWeights, population: Collection[str]) -> list[str]:
    """A warning if the scores of the labelled answers are unlike those of all: a rank test, p below .01.

    Draws with different probabilities select by the scores, and are not tested.
    """
    if not isinstance(population, Mapping) or found.relative_weights:
        return []
    population = {name: score for name, score in population.items() if name not in found.equal_answers}
    values = list(population.values())
    if not all(isinstance(value, (int, float)) for value in values):
        return []
    scores = np.array(values, dtype=np.float64)
    inside = np.array([name in found.ids for name in population], dtype=np.bool_)
    p_value = rank_sum_p_value(scores, inside)
    if p_value >= 0.01:
        return []
    means = f"{scores[inside].mean():.3g} on average against {scores.mean():.3g}, p {p_value:.2g}"
    unlike = f"the scores of the labelled answers are unlike those of all answers ({means})"
    return [f"warning: {unlike}: they may not be a random sample"]


_WHAT_TO_DO = (
    "draw samples with `auepora label`, label all of them, or state that these are a random sample with "
    "--assume-random (assume_random=True)"
)


def _no_draw_message(labelled: int, population: int, named: Collection[str]) -> str:
    draws = "no draw is recorded"
    if named:
        draws = f"the draw that they name ({', '.join(sorted(named))}) is not recorded next to them"
    return (
        f"nothing says how the {_samples(labelled)} with a label were selected from {population}: {draws}, "
        f"so that anything estimated from them may be biased; {_WHAT_TO_DO}"
    )


def _samples(n: int) -> str:
    return f"{n} sample" + "s" * (n != 1)


def _are_equal(probabilities: Iterable[float]) -> bool:
    values = list(probabilities)
    return max(values, default=0.0) - min(values, default=0.0) <= 1e-9


def _recorded_draws(draws: Mapping[str, list[LabelDraw]], names: Iterable[str]) -> list[LabelDraw]:
    """The different draws of a run; of draws that begin with one another, the longest."""
    found: list[LabelDraw] = []
    of_run = chain.from_iterable(draws.get(name, ()) for name in dict.fromkeys(names))
    for draw in sorted(of_run, key=lambda drawn: -len(drawn.drawn_items)):
        if not any(draw.drawn_items == other.drawn_items[: len(draw.drawn_items)] for other in found):
            found.append(draw)
    return found


def _named_draws(labels: Iterable[Label], recorded: Iterable[LabelDraw]) -> dict[str, dict[str, float]]:
    """The probabilities of samples by draw, for draws that labels name and no record contains."""
    known = set(chain.from_iterable((draw.id, *draw.extends) for draw in recorded))
    named: dict[str, dict[str, float]] = {}
    for label in labels:
        if label.draw is not None and label.probability is not None and label.draw not in known:
            named.setdefault(label.draw, {})[label.sample_id] = label.probability
    return named


def _of_recorded(draw: LabelDraw, labels: Iterable[Label], everything: frozenset[str]) -> SampleWeights:
    ids = everything & set(draw.sample_ids)
    strata_text = f", by {draw.stratify}" if draw.stratify else ""
    note = f"{len(ids)} labelled of {len(draw.drawn_items)} drawn at random from {draw.population} answers{strata_text}"
    probabilities, share = draw.probabilities(), len(ids) / len(draw.drawn_items)
    stored = any(drawn.probability is not None for drawn in draw.drawn_items)
    notes = [note, *_gap_notes(draw, {label.sample_id for label in labels})]
    if draw.equal_answers:
        equal = _samples(len(draw.equal_answers))
        notes.append(f"agreement and means leave out {equal} whose answers are equal in {' and '.join(draw.runs)}")
    return SampleWeights(
        ids,
        draws=(draw,),
        strata_weights=draw.weights(sorted(ids)) if draw.stratify and ids else None,
        probabilities={sample_id: probabilities[sample_id] * share for sample_id in sorted(ids)} if stored else None,
        notes=tuple(notes),
        labelled=everything,
        extended=any(label.draw in draw.extends for label in labels),
        equal_answers=frozenset(draw.equal_answers),
    )


def _gap_notes(draw: LabelDraw, labelled: Collection[str]) -> list[str]:
    """A note if samples without a label come before labelled ones: samples that were skipped may be harder."""
    places = [place for place, sample_id in enumerate(draw.sample_ids) if sample_id in labelled]
    missing = places[-1] + 1 - len(places) if places else 0
    if not missing:
        return []
    return [f"{_samples(missing)} without a label before the last labelled one; if they are harder, there is a bias"]


def representative_labels(
    labels: Iterable[Label], draws: Mapping[str, list[LabelDraw]], names: Collection[str] = ()
) -> Iterator[Label]:
    """The labels of samples that were drawn with equal probabilities; all labels if no draw is known.

    For the agreement of annotators, which has no weights. From a draw with different probabilities this is the part
    that ``SampleWeights.uniform_part`` has. ``names`` are those of the run, by default the one that each label names.
    """
    by_run: dict[str, list[Label]] = {}
    for label in labels:
        by_run.setdefault("" if names else label.run or "", []).append(label)
    for run, own in by_run.items():
        recorded = _recorded_draws(draws, names or ([run] if run else draws))
        known: dict[str, float] = {}
        for probabilities in (*(draw.probabilities() for draw in recorded), *_named_draws(own, recorded).values()):
            known |= probabilities
        ids = list(dict.fromkeys(label.sample_id for label in own if not known or label.sample_id in known))
        if known and ids:
            stratified = any(draw.stratify for draw in recorded)
            key = recorded[0].id if recorded else ""
            ids = _thin(
                ids, {sample_id: 1 / known[sample_id] for sample_id in ids}, key, _MAX_RATIO if stratified else 1.0
            )
        chosen = set(ids)
        yield from (label for label in own if label.sample_id in chosen)


def _of_several(
    recorded: Sequence[LabelDraw], named: Mapping[str, Mapping[str, float]], everything: frozenset[str]
) -> SampleWeights:
    """Several draws with equal probabilities are together a random sample; others cannot be combined."""
    drawn = {draw.id: draw.probabilities() for draw in recorded} | {
        name: dict(probabilities) for name, probabilities in named.items()
    }
    partial = {draw.id for draw in recorded if draw.equal_answers}
    for name, probabilities in drawn.items():
        if name in partial or not _are_equal(probabilities.values()):
            raise BadValueError(
                f"the labels come from {len(drawn)} draws ({', '.join(drawn)}), and draw {name} has different "
                "probabilities for different samples, so that they cannot be combined; give the labels of one draw"
            )
    ids = everything.intersection(chain.from_iterable(drawn.values()))
    note = "the labels come from different draws, taken together as one random sample"
    return SampleWeights(ids, draws=tuple(recorded), notes=(note,), labelled=everything)
