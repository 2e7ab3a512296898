"""Random draws of samples for labelling, their record next to the label file, and the weights of drawn samples."""

from __future__ import annotations

import hashlib
import heapq
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..core.slices import sort_groups
from ..errors import BadValueError, DataFileError, StoreError
from ..io.labels import Label
from ..perturb.edits import hash_uniform
from ..runtime.files import plain_stem, read_bytes, write_lines
from ..stats.permutation import rank_sum_p_value
from ..stats.sampling import (
    UNIFORM_SHARE,
    expected_errors,
    forecast,
    inclusion_probabilities,
    labels_needed,
    systematic_draw,
)
from ..stats.sequential import SequentialDesign
from ..store.records import RunRecord
from ..store.runs import RunStore, record_decision

SINGLE_STRATUM = "all"
"""The name of the only stratum of an unstratified draw."""
_ID_LENGTH = 12
_MIN_PAIRS = 10
"""Fewer samples than this do not decide a comparison."""
ASSUMED_ERROR = 0.1
"""The least expected squared error of a judge in a forecast without earlier labels: it errs on one answer in ten."""
_MAX_RATIO = 2.0
"""Probabilities of strata that differ by less than this factor count as equal in measures of agreement."""


@dataclass(frozen=True, slots=True)
class Selection:
    """How the sample of a label was selected."""

    draw: str | None = None
    """The id of the draw; ``None`` where there is none."""
    probability: float | None = None
    position: int | None = None
    """The position in the order of the draw, from 1."""


@dataclass(frozen=True, slots=True)
class DrawnItem:
    """A drawn sample, its stratum, and its inclusion probability where that is not the same in the whole stratum."""

    sample_id: str
    stratum: str = SINGLE_STRATUM
    probability: float | None = None


@dataclass(frozen=True, slots=True)
class ComparisonDesign:
    """What is fixed before the first label of a comparison of two runs; the draw itself has order and seed."""

    other: str
    """The second run; the difference is second minus first."""
    metric: str
    """The judge metric whose scores predict the labels."""
    n: int
    """The number of samples; both answers of each are labelled."""
    delta: float | None = None
    """Differences up to this count as equal; ``None``: there is no such verdict."""
    looks: tuple[int, ...] = ()
    """Numbers of samples at which a verdict may be given; only ``n`` if empty."""
    features: tuple[str, ...] = ()
    """Metrics of the calibrator, if earlier labels gave one; otherwise scores of the metric are the predictions."""
    coefficients: tuple[float, ...] = ()
    """The intercept of the calibrator and the weight of each feature."""
    forecast: Mapping[str, Any] = field(default_factory=dict)
    """The forecast before the first label."""

    @property
    def sequential(self) -> SequentialDesign | None:
        """The sequential test at the looks; ``None`` for a single test at ``n``."""
        return SequentialDesign(self.n, self.looks, delta=self.delta) if self.looks else None

    def to_dict(self) -> dict[str, Any]:
        """The design as the file of the draw stores it."""
        return {**asdict(self), **{name: list(getattr(self, name)) for name in _DESIGN_LISTS}}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ComparisonDesign:
        """The design of a dictionary that ``to_dict`` made."""
        return cls(**{**stored, **{name: tuple(stored[name]) for name in _DESIGN_LISTS}})


_DESIGN_LISTS = ("looks", "features", "coefficients")


@dataclass(frozen=True, slots=True)
class LabelDraw:
    """A draw with its population and strata, which a corrected mean needs."""

    run: str
    """The run whose answers are labelled; of a comparison, the first one."""
    seed: int
    stratify: str | None
    """The field that defines the strata, such as ``labels.scenario``."""
    strata: Mapping[str, int]
    """Population size of each stratum."""
    drawn_items: tuple[DrawnItem, ...]
    """In the order of labelling."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Number of samples of the run outside the population, by reason."""
    id: str = field(default="", compare=False)
    """A digest of the draw, which labels name."""
    extends: tuple[str, ...] = field(default=(), compare=False)
    """Ids of smaller draws that this one begins with."""
    comparison: ComparisonDesign | None = None
    """Of a draw for the difference of two runs."""

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", self.digest)

    @property
    def digest(self) -> str:
        """What the id is, unless the draw was changed."""
        text = json.dumps({**self.to_dict(), "id": "", "extends": []}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH]

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs whose answers are labelled."""
        return (self.run,) if self.comparison is None else (self.run, self.comparison.other)

    @property
    def key(self) -> str:
        """The run, or both runs of a comparison: a file has one draw of each."""
        return " ".join(self.runs)

    @property
    def population(self) -> int:
        """Size of the population."""
        return sum(self.strata.values())

    @property
    def sample_ids(self) -> list[str]:
        """Ids of the drawn samples."""
        return [one.sample_id for one in self.drawn_items]

    def weights(self, labelled: Sequence[str] | None = None) -> dict[str, float]:
        """Number of population samples that each labelled sample represents; by default of all drawn ones."""
        labelled_ids = None if labelled is None else set(labelled)
        used = [one for one in self.drawn_items if labelled_ids is None or one.sample_id in labelled_ids]
        counts = Counter(one.stratum for one in used)
        return {one.sample_id: self.strata[one.stratum] / counts[one.stratum] for one in used}

    def probabilities(self) -> dict[str, float]:
        """The inclusion probability of each drawn sample."""
        counts = Counter(one.stratum for one in self.drawn_items)
        return {
            one.sample_id: one.probability or counts[one.stratum] / self.strata[one.stratum] for one in self.drawn_items
        }

    def selections(self) -> dict[str, Selection]:
        """How each drawn sample was selected."""
        probabilities = self.probabilities()
        return {
            one: Selection(self.id, probabilities[one], position)
            for position, one in enumerate(self.sample_ids, start=1)
        }

    def to_dict(self) -> dict[str, Any]:
        """The draw as its file stores it."""
        drawn_counts: Counter[str] = Counter(one.stratum for one in self.drawn_items)
        return {
            "run": self.run,
            "seed": self.seed,
            "stratify": self.stratify,
            "population": self.population,
            "left_out": dict(self.left_out),
            "strata": {name: {"population": size, "drawn": drawn_counts[name]} for name, size in self.strata.items()},
            "drawn": [_item_row(one) for one in self.drawn_items],
            "id": self.id,
            "extends": list(self.extends),
            **({} if self.comparison is None else {"comparison": self.comparison.to_dict()}),
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
    """Draw ``n`` samples of a population, given as sample id -> stratum; all of them if it has fewer.

    The draw depends only on the seed and the sample ids: two annotators, and two runs over one dataset, get the same
    samples. Strata are sampled in proportion to their sizes, each at least once, and a larger draw starts with the
    smaller one: an annotator who stops early has labelled a random sample too.
    """
    if n < 1:
        raise BadValueError(f"cannot draw {n} samples; draw at least one")
    ids_by_stratum: dict[str, list[str]] = {}
    for sample_id in sorted(population, key=lambda one: (hash_uniform(seed, "label", one), one)):
        ids_by_stratum.setdefault(population[sample_id], []).append(sample_id)
    strata = {name: len(ids_by_stratum[name]) for name in sort_groups(ids_by_stratum)}
    if n < len(strata) and len(strata) > 1:
        raise BadValueError(
            f"{n} samples are fewer than the {len(strata)} groups of '{stratify}', each of which needs one; "
            f"draw at least {len(strata)}, or do not stratify"
        )
    iterators = {name: iter(ids) for name, ids in ids_by_stratum.items()}
    stratum_order = _allocate_strata(strata)
    drawn_items = tuple(
        DrawnItem(next(iterators[name]), name) for name, _ in zip(stratum_order, range(n), strict=False)
    )
    return LabelDraw(run, seed, stratify, strata, drawn_items, dict(left_out or {}))


def draw_comparison(
    predictions: Mapping[str, tuple[float, float]],
    n: int,
    *,
    runs: tuple[str, str],
    metric: str,
    seed: int = 0,
    delta: float | None = None,
    looks: int = 0,
    calibrator: tuple[Sequence[str], Sequence[float]] | None = None,
    left_out: Mapping[str, int] | None = None,
) -> LabelDraw:
    """Draw ``n`` samples for the difference of two runs, where the predicted labels of both answers are uncertain.

    ``predictions`` has the predicted labels of both answers by sample. Inclusion probabilities follow their expected
    errors, half mixed with equal ones. With ``looks`` there are as many tests before the last label, at equal
    distances; then all probabilities are equal, and the labels are tested without the predictions. ``calibrator`` has
    the features and coefficients that gave the predictions, if earlier labels did.
    """
    ids = sorted(predictions, key=lambda one: (hash_uniform(seed, "comparison", one), one))
    if n < _MIN_PAIRS or n > len(ids):
        raise BadValueError(
            f"cannot draw {n} of {len(ids)} samples that both runs have answered and scored; "
            f"draw at least {_MIN_PAIRS} and at most all of them"
        )
    if delta is not None and not 0 < delta < 1:
        raise BadValueError(f"delta must be above 0 and below 1, the range of labels, not {delta!r}")
    first, second = (np.array([predictions[one][place] for one in ids]) for place in (0, 1))
    first_errors, second_errors = (expected_errors(one, calibrated=calibrator is not None) for one in (first, second))
    errors, differences, uniform = first_errors + second_errors, second - first, UNIFORM_SHARE
    expected = float(differences.mean())
    if looks:  # tests of the labels alone: nothing is predicted
        errors, differences, uniform = errors + (differences - expected) ** 2, np.zeros(len(ids)), 1.0
    probabilities = inclusion_probabilities(errors, n, uniform=uniform)
    if calibrator is None:
        errors = np.maximum(errors, 2 * ASSUMED_ERROR)
    wanted = abs(expected) if delta is None else delta
    summary = {
        **forecast(errors, differences, probabilities).to_dict(),
        "predicted_difference": expected,
        "difference": wanted,
        "labels_needed": labels_needed(errors, differences, wanted, uniform=uniform) if wanted > 0 else None,
        "calibrated": calibrator is not None,
    }
    features, coefficients = calibrator or ((), ())
    design = ComparisonDesign(
        runs[1],
        metric,
        n,
        delta,
        SequentialDesign.plan(n, looks=looks, delta=delta).looks if looks else (),
        tuple(features),
        tuple(coefficients),
        summary,
    )
    items = tuple(
        DrawnItem(ids[place], SINGLE_STRATUM, float(probabilities[place]))
        for place in systematic_draw(probabilities, seed).tolist()
    )
    return LabelDraw(runs[0], seed, None, {SINGLE_STRATUM: len(ids)}, items, dict(left_out or {}), comparison=design)


def describe_forecast(draw: LabelDraw, labels: str | Path | None = None) -> list[str]:
    """The forecast of a comparison in words, a sentence per line; with the file of the labels, the command, too."""
    design = draw.comparison
    assert design is not None
    found = design.forecast
    source = "from earlier labels" if found["calibrated"] else "if the judge errs on one answer in ten"
    lines = [
        f"{design.n} of {draw.population} samples are drawn for the difference in {design.metric}; both answers of "
        f"each are labelled, {2 * design.n} in all.",
        f"Forecast, {source}: the interval of the difference is about ±{found['half_width']:.3f}, and a true "
        f"difference of {found['decidable_difference']:.3f} is decided with probability {found['power']:g}.",
    ]
    wanted, needed = float(found["difference"]), found["labels_needed"]
    what = "The judge sees a difference of" if design.delta is None else "The margin of equality is"
    if wanted < float(found["decidable_difference"]):
        more = "not even labels of all samples decide it" if needed is None else f"about {needed} samples decide it"
        lines.append(f"{what} {wanted:.3f}, which is below the decidable size with {design.n} samples; {more}.")
    else:
        lines.append(f"{what} {wanted:.3f}, which is above the decidable size.")
    looks = ", ".join(map(str, design.looks))
    when = f"at {looks} samples" if looks else f"once, when all {design.n} samples are labelled"
    command = "." if labels is None else f": auepora judge calibrate {draw.key} --labels {labels}"
    return [*lines, f"The labels are tested {when}{command}"]


def _allocate_strata(sizes: Mapping[str, int]) -> Iterator[str]:
    """The order in which strata are sampled: each once, largest first, then by Webster's method.

    Divisor methods are monotonic: a larger draw never takes a sample away from a stratum.
    """
    order = {name: index for index, name in enumerate(sorted(sizes, key=lambda name: -sizes[name]))}
    yield from order

    def priority(name: str, allocated: int) -> tuple[Fraction, int, str, int]:
        return Fraction(-sizes[name], 2 * allocated + 1), order[name], name, allocated

    queue = [priority(name, 1) for name in order if sizes[name] > 1]
    heapq.heapify(queue)
    while queue:
        _, _, name, allocated = heapq.heappop(queue)
        yield name
        if allocated + 1 < sizes[name]:
            heapq.heappush(queue, priority(name, allocated + 1))


# --- the record of a draw, next to the label file: it shows that the labels are a random sample ----------------------


def draw_path(labels: str | Path) -> Path:
    """Path of the draws of a label file: ``labels.draw.json`` for ``labels.jsonl``."""
    labels = Path(labels)
    return labels.with_name(f"{plain_stem(labels)}.draw.json")


def read_draws(labels: str | Path) -> dict[str, LabelDraw]:
    """The draws of answers of a label file by run, or by both runs of a comparison; empty if none was recorded."""
    path = draw_path(labels)
    if not path.exists():
        return {}
    try:
        record = json.loads(read_bytes(path))
        draws = [] if "pairs" in record else [_draw_of(row) for row in record["draws"]]  # pairs: documents to grade
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        problem = f"is no record of a draw ({type(error).__name__}: {error}); restore it, or label into another file"
        raise DataFileError(path, None, problem) from error
    if any(one.id != one.digest for one in draws):
        raise DataFileError(path, None, "the record of the draw was changed after the draw; restore it")
    return {one.key: one for one in draws}


def record_draw(labels: str | Path, draw: LabelDraw) -> LabelDraw:
    """Record a draw and return the one in force: the longer of two with the same beginning.

    Another draw from the same run (another seed, other strata) is an error: together their labels would not be a random
    sample. The draw of a comparison is fixed in everything, its size and looks included.
    """
    known = read_draws(labels)
    before = known.get(draw.key)
    require_same_draw(labels, draw)
    if before is not None:
        if len(before.drawn_items) >= len(draw.drawn_items):
            return before
        draw = replace(draw, extends=(*before.extends, before.id))
    rows = [one.to_dict() for one in {**known, draw.key: draw}.values()]
    text = json.dumps({"draws": rows}, indent=1, ensure_ascii=False)
    write_lines(draw_path(labels), [text.encode("utf-8", "backslashreplace")])
    return draw


def require_same_draw(labels: str | Path, now: LabelDraw) -> None:
    """Raise if another draw is recorded for the same run, or for the same two runs."""
    path, known = draw_path(labels), read_draws(labels)
    if now.comparison is not None and " ".join(now.runs[::-1]) in known:
        first, second = now.runs[::-1]
        raise DataFileError(path, None, f"the comparison was designed as {first} {second}; name the runs in this order")
    before = known.get(now.key)
    if before is None:
        return
    if before.comparison is not None and now.comparison is not None:
        if (problem := _design_problem(_fixed_options(before), _fixed_options(now))) is not None:
            raise DataFileError(path, None, problem)
        return
    if before.seed != now.seed or before.stratify != now.stratify:
        was = f"--seed {before.seed}" + (f" --stratify {before.stratify}" if before.stratify else " without --stratify")
        raise DataFileError(
            path, None, f"the samples were drawn with {was}; draw them so again, or label into another file"
        )
    shorter = min(len(before.drawn_items), len(now.drawn_items))
    if before.drawn_items[:shorter] != now.drawn_items[:shorter]:
        problem = "the run has other answers now than when the samples were drawn; label into another file"
        raise DataFileError(path, None, problem)


def fix_design(store: RunStore, record: RunRecord, draw: LabelDraw) -> None:
    """Record the design of a comparison in the store; another one for the same two runs is an error.

    A store that cannot be written is no error: then the record next to the labels alone fixes the design.
    """
    options = _fixed_options(draw)
    try:
        stored = record_decision(
            store, record.fingerprint, "labels", draw.runs, [options["metric"]], {"design": options}
        )
    except StoreError:
        return
    if (problem := _design_problem(stored.body["design"], options)) is not None:
        raise BadValueError(problem)


def record_verdict(store: RunStore, record: RunRecord, draw: LabelDraw, verdict: str) -> None:
    """Record in the store what a comparison by labels decided; a store that cannot be written is no error."""
    options = _fixed_options(draw)
    verdicts = {options["metric"]: verdict}
    body = {"design": options, "results": verdicts, "verdicts": verdicts}
    with suppress(StoreError):
        record_decision(store, record.fingerprint, "labels", draw.runs, list(verdicts), body, replace=True)


def _fixed_options(draw: LabelDraw) -> dict[str, Any]:
    """What must not change after the first label of a comparison."""
    design = draw.comparison
    assert design is not None
    return {
        "runs": list(draw.runs),
        "seed": draw.seed,
        "n": design.n,
        "metric": design.metric,
        "delta": design.delta,
        "looks": list(design.looks),
    }


def _design_problem(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """The first difference of two designs, as an error message."""
    for name, was in before.items():
        if was != now[name]:
            return (
                f"the comparison was designed with {name} {_design_text(was)} before its first label, not with "
                f"{_design_text(now[name])}; a verdict holds only for the design that was fixed first: continue it "
                "with the same options"
            )
    return None


def _design_text(value: object) -> str:
    if value is None or value == []:
        return "none"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _item_row(one: DrawnItem) -> dict[str, Any]:
    row = {"sample_id": one.sample_id, "stratum": one.stratum}
    return row if one.probability is None else {**row, "probability": one.probability}


def _draw_of(row: Any) -> LabelDraw:
    return LabelDraw(
        str(row["run"]),
        int(row["seed"]),
        None if row["stratify"] is None else str(row["stratify"]),
        {str(name): int(stratum["population"]) for name, stratum in row["strata"].items()},
        tuple(DrawnItem(str(one["sample_id"]), str(one["stratum"]), one.get("probability")) for one in row["drawn"]),
        {str(reason): int(count) for reason, count in row["left_out"].items()},
        str(row.get("id", "")),
        tuple(map(str, row.get("extends", ()))),
        ComparisonDesign.from_dict(row["comparison"]) if "comparison" in row else None,
    )


def previous_selections(labels: Iterable[Label], draws: Iterable[LabelDraw]) -> dict[str, Selection]:
    """How samples were selected that others have labelled: by recorded draws, or as the labels say."""
    found: dict[str, Selection] = {}
    for draw in sorted(draws, key=lambda one: len(one.drawn_items)):
        found |= draw.selections()
    for label in labels:
        if label.draw is not None:
            found.setdefault(label.sample_id, Selection(label.draw, label.probability, label.position))
    return found


# --- which labels a statistic may use, and the weight of each --------------------------------------------------------

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

    @property
    def drawn_ids(self) -> set[str]:
        """The samples of the recorded draws."""
        return {one for draw in self.draws for one in draw.sample_ids}

    @property
    def reason_without_verdict(self) -> str | None:
        """Why no verdict may be given, if the number of labels is not the one of the draw."""
        if self.basis != "draw":
            return None
        if self.extended:
            return "samples were added to the draw after the first label, so that their number was not fixed before it"
        drawn = self.drawn_ids
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
            probabilities = {one: probabilities[one] * len(kept) / len(self.ids) for one in kept}
        return replace(self, ids=kept, strata_weights=strata_weights, probabilities=probabilities)

    @property
    def relative_weights(self) -> Mapping[str, float]:
        """How many samples each one represents, up to a factor; empty if all represent the same number."""
        if self.probabilities is not None:
            return {one: 1 / probability for one, probability in self.probabilities.items()}
        return self.strata_weights or {}

    def uniform_part(self, labelled: Iterable[str]) -> list[str]:
        """Those of the labelled samples that are a sample with equal probabilities, in the given order.

        From a draw with different probabilities, each sample is kept with a chance inverse to its own: a fixed subset,
        by a hash of the sample and the draw. Strata are drawn in proportion to their sizes, in whole samples; the
        differences that come from that count as equal.
        """
        usable = [one for one in labelled if one in self.ids]
        weights = self.relative_weights
        if not weights or not usable:
            return usable
        tolerance = 1.0 if self.strata_weights is None else _MAX_RATIO
        return _thin(usable, weights, self.draws[0].id if self.draws else "", tolerance)


def _thin(ids: list[str], weights: Mapping[str, float], key: str, tolerance: float) -> list[str]:
    """The samples, each kept with a chance in proportion to its weight; all if the weights differ by a small factor."""
    largest = max(weights[one] for one in ids)
    if largest < tolerance * min(weights[one] for one in ids):
        return ids
    return [one for one in ids if hash_uniform(0, "uniform", key, one) < weights[one] / largest]


def read_all_draws(paths: Iterable[str | Path]) -> dict[str, list[LabelDraw]]:
    """The draws recorded with label files, by run."""
    by_run: dict[str, list[LabelDraw]] = {}
    for path in paths:
        for draw in read_draws(path).values():
            for run in draw.runs:
                by_run.setdefault(run, []).append(draw)
    return by_run


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


def joint_weights(first: SampleWeights, second: SampleWeights, ids: Iterable[str]) -> SampleWeights:
    """The weights of samples whose answers in two runs may both be used.

    If one run has a census or equal probabilities, the weights are those of the other run. Two draws with different
    probabilities must be the same draw.
    """
    common = first.ids & second.ids & frozenset(ids)
    restricted = [one.restrict(common) for one in (first, second)]
    tables = [one.relative_weights for one in restricted]
    if all(tables) and not _are_equal(tables[0][one] / tables[1][one] for one in common):
        raise BadValueError(
            "the labels of the two runs come from two draws with different probabilities, so that they give no "
            "difference; label the same samples of both runs with `auepora label --for`"
        )
    return restricted[1] if tables[1] else restricted[0]


_UNLIKE_P_VALUE = 0.01


def _unlike_notes(found: SampleWeights, population: Collection[str]) -> list[str]:
    """A warning if the scores of the labelled answers are unlike those of all: a rank test, p below .01.

    Draws with different probabilities select by the scores, and are not tested.
    """
    if not isinstance(population, Mapping) or found.relative_weights:
        return []
    values = list(population.values())
    if not all(isinstance(value, (int, float)) for value in values):
        return []
    scores = np.array(values, dtype=np.float64)
    inside = np.array([name in found.ids for name in population], dtype=np.bool_)
    p_value = rank_sum_p_value(scores, inside)
    if p_value >= _UNLIKE_P_VALUE:
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
    of_run = [draw for name in dict.fromkeys(names) for draw in draws.get(name, ())]
    for draw in sorted(of_run, key=lambda one: -len(one.drawn_items)):
        if not any(draw.drawn_items == one.drawn_items[: len(draw.drawn_items)] for one in found):
            found.append(draw)
    return found


def _named_draws(labels: Iterable[Label], recorded: Iterable[LabelDraw]) -> dict[str, dict[str, float]]:
    """The probabilities of samples by draw, for draws that labels name and no record contains."""
    known = {name for draw in recorded for name in (draw.id, *draw.extends)}
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
    stored = any(one.probability is not None for one in draw.drawn_items)
    notes = (note, *_gap_notes(draw, {label.sample_id for label in labels}))
    return SampleWeights(
        ids,
        draws=(draw,),
        strata_weights=draw.weights(sorted(ids)) if draw.stratify and ids else None,
        probabilities={one: probabilities[one] * share for one in sorted(ids)} if stored else None,
        notes=notes,
        labelled=everything,
        extended=any(label.draw in draw.extends for label in labels),
    )


def _gap_notes(draw: LabelDraw, labelled: Collection[str]) -> list[str]:
    """A note if samples without a label come before labelled ones: samples that were skipped may be harder."""
    places = [place for place, one in enumerate(draw.sample_ids) if one in labelled]
    missing = places[-1] + 1 - len(places) if places else 0
    if not missing:
        return []
    return [f"{_samples(missing)} without a label before the last labelled one; if they are harder, there is a bias"]


def representative_labels(
    labels: Iterable[Label], draws: Mapping[str, list[LabelDraw]], names: Collection[str] = ()
) -> list[Label]:
    """The labels of samples that were drawn with equal probabilities; all labels if no draw is known.

    For the agreement of annotators, which has no weights. From a draw with different probabilities this is the part
    that ``SampleWeights.uniform_part`` has. ``names`` are those of the run, by default the one that each label names.
    """
    by_run: dict[str, list[Label]] = {}
    for label in labels:
        by_run.setdefault("" if names else label.run or "", []).append(label)
    kept: list[Label] = []
    for run, own in by_run.items():
        recorded = _recorded_draws(draws, names or ([run] if run else draws))
        known = {one: each for draw in recorded for one, each in draw.probabilities().items()}
        known |= {one: each for found in _named_draws(own, recorded).values() for one, each in found.items()}
        ids = list(dict.fromkeys(label.sample_id for label in own if not known or label.sample_id in known))
        if known and ids:
            stratified = any(draw.stratify for draw in recorded)
            key = recorded[0].id if recorded else ""
            ids = _thin(ids, {one: 1 / known[one] for one in ids}, key, _MAX_RATIO if stratified else 1.0)
        chosen = set(ids)
        kept += [label for label in own if label.sample_id in chosen]
    return kept


def _of_several(
    recorded: Sequence[LabelDraw], named: Mapping[str, Mapping[str, float]], everything: frozenset[str]
) -> SampleWeights:
    """Several draws with equal probabilities are together a random sample; others cannot be combined."""
    drawn = {draw.id: draw.probabilities() for draw in recorded} | {name: dict(one) for name, one in named.items()}
    for name, probabilities in drawn.items():
        if not _are_equal(probabilities.values()):
            raise BadValueError(
                f"the labels come from {len(drawn)} draws ({', '.join(drawn)}), and draw {name} has different "
                "probabilities for different samples, so that they cannot be combined; give the labels of one draw"
            )
    ids = everything & {one for probabilities in drawn.values() for one in probabilities}
    note = "the labels come from different draws, taken together as one random sample"
    return SampleWeights(ids, draws=tuple(recorded), notes=(note,), labelled=everything)
