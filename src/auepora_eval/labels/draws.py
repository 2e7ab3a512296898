"""Random draws of samples for labelling, and their record next to the label file."""

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
from typing import Any

import numpy as np

from ..core.slices import sort_groups
from ..errors import BadValueError, DataFileError, StoreError
from ..io.labels import Label
from ..perturb.edits import hash_uniform
from ..runtime.files import plain_stem, read_bytes, write_lines
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
PEOPLE_ONLY = "people only"
"""Given as the metric of a comparison that people alone decide."""
_MIN_PAIRS = 10
"""Fewer samples than this do not decide a comparison."""
ASSUMED_ERROR = 0.1
"""The least expected squared error of a judge in a forecast without earlier labels: it errs on one answer in ten."""


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
    metric: str | None
    """The judge metric whose scores predict the labels; ``None``: people alone decide, and nothing is predicted."""
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
    equal_answers: tuple[str, ...] = ()
    """Samples whose answers have the same text in both runs: the difference is 0, and they are not drawn."""

    @property
    def name(self) -> str:
        """The metric, or that there is none."""
        return self.metric or PEOPLE_ONLY

    def to_dict(self) -> dict[str, Any]:
        """The design as the file of the draw stores it; without equal answers as earlier versions stored it."""
        stored = {**asdict(self), **{name: list(getattr(self, name)) for name in _DESIGN_LISTS}}
        if not self.equal_answers:
            del stored["equal_answers"]
        return stored

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ComparisonDesign:
        """The design of a dictionary that ``to_dict`` made."""
        return cls(**{**stored, **{name: tuple(stored.get(name, ())) for name in _DESIGN_LISTS}})


_DESIGN_LISTS = ("looks", "features", "coefficients", "equal_answers")


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
        return hashlib.sha256(text.encode()).hexdigest()[:12]

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
        """Size of the population; of a comparison without the samples whose answers are equal."""
        return sum(self.strata.values())

    @property
    def equal_answers(self) -> tuple[str, ...]:
        """Samples whose answers are equal in both runs of a comparison."""
        return () if self.comparison is None else self.comparison.equal_answers

    @property
    def proportion_drawn_from(self) -> float:
        """The proportion of samples that could be drawn: those whose answers differ."""
        return self.population / (self.population + len(self.equal_answers))

    @property
    def sequential(self) -> SequentialDesign | None:
        """The sequential test at the looks of a comparison; ``None`` for a single test at the end.

        Its values are differences of labels times the proportion of answers that differ.
        """
        design = self.comparison
        if design is None or not design.looks:
            return None
        return SequentialDesign(design.n, design.looks, delta=design.delta, highest=self.proportion_drawn_from)

    @property
    def sample_ids(self) -> list[str]:
        """Ids of the drawn samples."""
        return [drawn.sample_id for drawn in self.drawn_items]

    def weights(self, labelled: Sequence[str] | None = None) -> dict[str, float]:
        """Number of population samples that each labelled sample represents; by default of all drawn ones."""
        labelled_ids = None if labelled is None else set(labelled)
        used = [drawn for drawn in self.drawn_items if labelled_ids is None or drawn.sample_id in labelled_ids]
        counts = Counter(drawn.stratum for drawn in used)
        return {drawn.sample_id: self.strata[drawn.stratum] / counts[drawn.stratum] for drawn in used}

    def probabilities(self) -> dict[str, float]:
        """The inclusion probability of each drawn sample."""
        counts = Counter(drawn.stratum for drawn in self.drawn_items)
        return {
            drawn.sample_id: drawn.probability or counts[drawn.stratum] / self.strata[drawn.stratum]
            for drawn in self.drawn_items
        }

    def selections(self) -> dict[str, Selection]:
        """How each drawn sample was selected."""
        probabilities = self.probabilities()
        return {
            sample_id: Selection(self.id, probabilities[sample_id], position)
            for position, sample_id in enumerate(self.sample_ids, start=1)
        }

    def to_dict(self) -> dict[str, Any]:
        """The draw as its file stores it."""
        drawn_counts: Counter[str] = Counter(drawn.stratum for drawn in self.drawn_items)
        return {
            "run": self.run,
            "seed": self.seed,
            "stratify": self.stratify,
            "population": self.population,
            "left_out": dict(self.left_out),
            "strata": {name: {"population": size, "drawn": drawn_counts[name]} for name, size in self.strata.items()},
            "drawn": [_item_row(drawn) for drawn in self.drawn_items],
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
    for sample_id in sorted(population, key=lambda sample_id: (hash_uniform(seed, "label", sample_id), sample_id)):
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
    return LabelDraw(
        run, seed, stratify=stratify, strata=strata, drawn_items=drawn_items, left_out=dict(left_out or {})
    )


def draw_comparison(
    predictions: Mapping[str, tuple[float, float]],
    n: int,
    *,
    runs: tuple[str, str],
    metric: str | None,
    seed: int = 0,
    delta: float | None = None,
    looks: int = 0,
    calibrator: tuple[Sequence[str], Sequence[float]] | None = None,
    left_out: Mapping[str, int] | None = None,
    equal_answers: Collection[str] = (),
) -> LabelDraw:
    """Draw ``n`` samples for the difference of two runs, where the predicted labels of both answers are uncertain.

    ``predictions`` has the predicted labels of both answers by sample. Inclusion probabilities follow their expected
    errors, half mixed with equal ones. With ``looks`` there are as many tests before the last label, at equal
    distances; then all probabilities are equal, and the labels are tested without the predictions. ``calibrator`` has
    the features and coefficients that gave the predictions, if earlier labels did. Samples with ``equal_answers`` are
    not drawn, since their difference is 0; the forecast and the tests are about all samples.
    """
    known = sorted(predictions.keys() & set(equal_answers))
    ids = sorted(
        predictions.keys() - set(known), key=lambda sample_id: (hash_uniform(seed, "comparison", sample_id), sample_id)
    )
    if n < _MIN_PAIRS or n > len(ids):
        others = f"; the answers to {len(known)} others are equal, so that their difference is 0" if known else ""
        raise BadValueError(
            f"cannot draw {n} of {len(ids)} samples that both runs have answered and scored; "
            f"draw at least {_MIN_PAIRS} and at most all of them{others}"
        )
    if delta is not None and not 0 < delta < 1:
        raise BadValueError(f"delta must be above 0 and below 1, the range of labels, not {delta!r}")
    first, second = np.array([predictions[sample_id] for sample_id in ids]).T
    is_calibrated = calibrator is not None
    errors = expected_errors(first, calibrated=is_calibrated) + expected_errors(second, calibrated=is_calibrated)
    differences, uniform = second - first, UNIFORM_SHARE
    mean, proportion = float(differences.mean()), len(ids) / len(predictions)
    if delta is not None and delta >= proportion:
        raise BadValueError(
            f"delta is {delta:g}, and the answers to {len(ids)} of {len(predictions)} samples differ: no label can "
            "show a larger difference, so that the runs are equal by this margin"
        )
    if looks:  # tests of the labels alone: nothing is predicted
        errors, differences, uniform = errors + (differences - mean) ** 2, np.zeros(len(ids)), 1.0
    probabilities = inclusion_probabilities(errors, n, uniform=uniform)
    if calibrator is None:
        errors = np.maximum(errors, 2 * ASSUMED_ERROR)
    expected = proportion * mean
    wanted = abs(expected) if delta is None else delta
    needed = None
    if wanted > 0:
        needed = labels_needed(errors, differences, wanted, uniform=uniform, num_zeros=len(known))
    summary = {
        **forecast(errors, differences, probabilities, num_zeros=len(known)).to_dict(),
        "predicted_difference": expected,
        "difference": wanted,
        "labels_needed": needed,
        "calibrated": is_calibrated,
    }
    features, coefficients = calibrator or ((), ())
    design = ComparisonDesign(
        runs[1],
        metric,
        n=n,
        delta=delta,
        looks=SequentialDesign.plan(n, looks=looks, delta=delta).looks if looks else (),
        features=tuple(features),
        coefficients=tuple(coefficients),
        forecast=summary,
        equal_answers=tuple(known),
    )
    items = tuple(
        DrawnItem(ids[place], SINGLE_STRATUM, float(probabilities[place]))
        for place in systematic_draw(probabilities, seed).tolist()
    )
    return LabelDraw(
        runs[0],
        seed,
        stratify=None,
        strata={SINGLE_STRATUM: len(ids)},
        drawn_items=items,
        left_out=dict(left_out or {}),
        comparison=design,
    )


def describe_forecast(draw: LabelDraw, labels: str | Path | None = None) -> list[str]:
    """The forecast of a comparison in words, a sentence per line; with the file of the labels, the command, too."""
    design = _design_of(draw)
    found = design.forecast
    source = "from earlier labels" if found["calibrated"] else "if the judge errs on one answer in ten"
    purpose = f"the difference in {design.metric}"
    if design.metric is None:
        source, purpose = "if people prefer one of the answers in every second sample", "a difference"
    lines = []
    if design.equal_answers:
        equal, total = len(design.equal_answers), draw.population + len(design.equal_answers)
        lines.append(f"{equal} of {total} samples have equal answers in both runs: their difference is 0, unlabelled.")
    lines += [
        f"{design.n} of {draw.population} samples are drawn for {purpose}; both answers of "
        f"each are labelled, {2 * design.n} in all.",
        f"Forecast, {source}: the interval of the difference is about ±{found['half_width']:.3f}, and a true "
        f"difference of {found['decidable_difference']:.3f} is decided with probability {found['power']:g}.",
    ]
    if design.metric is not None or design.delta is not None:
        lines.append(_describe_size(design))
    looks = ", ".join(map(str, design.looks))
    when = f"at {looks} samples" if looks else f"once, when all {design.n} samples are labelled"
    command = "." if labels is None else f": auepora judge calibrate {draw.key} --labels {labels}"
    return [*lines, f"The labels are tested {when}{command}"]


def _describe_size(design: ComparisonDesign) -> str:
    """Whether the margin, or the difference that the judge sees, can be decided."""
    found = design.forecast
    wanted, needed = float(found["difference"]), found["labels_needed"]
    what = "The judge sees a difference of" if design.delta is None else "The margin of equality is"
    if wanted >= float(found["decidable_difference"]):
        return f"{what} {wanted:.3f}, which is above the decidable size."
    more = "not even labels of all samples decide it" if needed is None else f"about {needed} samples decide it"
    return f"{what} {wanted:.3f}, which is below the decidable size with {design.n} samples; {more}."


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
    if any(draw.id != draw.digest for draw in draws):
        raise DataFileError(path, None, "the record of the draw was changed after the draw; restore it")
    return {draw.key: draw for draw in draws}


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
    text = json.dumps(
        {"draws": [each.to_dict() for each in {**known, draw.key: draw}.values()]}, indent=1, ensure_ascii=False
    )
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
            store,
            record.fingerprint,
            kind="labels",
            runs=draw.runs,
            metrics=[_design_of(draw).name],
            body={"design": options},
        )
    except StoreError:
        return
    if (problem := _design_problem(stored.body["design"], options)) is not None:
        raise BadValueError(problem)


def record_verdict(store: RunStore, record: RunRecord, draw: LabelDraw, verdict: str) -> None:
    """Record in the store what a comparison by labels decided; a store that cannot be written is no error."""
    verdicts = {_design_of(draw).name: verdict}
    body = {"design": _fixed_options(draw), "results": verdicts, "verdicts": verdicts}
    with suppress(StoreError):
        record_decision(
            store, record.fingerprint, kind="labels", runs=draw.runs, metrics=list(verdicts), body=body, replace=True
        )


def _design_of(draw: LabelDraw) -> ComparisonDesign:
    assert draw.comparison is not None
    return draw.comparison


def _fixed_options(draw: LabelDraw) -> dict[str, Any]:
    """What must not change after the first label of a comparison."""
    design = _design_of(draw)
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


def _item_row(drawn: DrawnItem) -> dict[str, Any]:
    row = {"sample_id": drawn.sample_id, "stratum": drawn.stratum}
    return row if drawn.probability is None else {**row, "probability": drawn.probability}


def _draw_of(row: Any) -> LabelDraw:
    return LabelDraw(
        str(row["run"]),
        int(row["seed"]),
        stratify=None if row["stratify"] is None else str(row["stratify"]),
        strata={str(name): int(stratum["population"]) for name, stratum in row["strata"].items()},
        drawn_items=tuple(
            DrawnItem(str(drawn["sample_id"]), str(drawn["stratum"]), drawn.get("probability"))
            for drawn in row["drawn"]
        ),
        left_out={str(reason): int(count) for reason, count in row["left_out"].items()},
        id=str(row.get("id", "")),
        extends=tuple(map(str, row.get("extends", ()))),
        comparison=ComparisonDesign.from_dict(row["comparison"]) if "comparison" in row else None,
    )


def previous_selections(labels: Iterable[Label], draws: Iterable[LabelDraw]) -> dict[str, Selection]:
    """How samples were selected that others have labelled: by recorded draws, or as the labels say."""
    found: dict[str, Selection] = {}
    for draw in sorted(draws, key=lambda other: len(other.drawn_items)):
        found |= draw.selections()
    for label in labels:
        if label.draw is not None:
            found.setdefault(label.sample_id, Selection(label.draw, label.probability, label.position))
    return found


def read_all_draws(paths: Iterable[str | Path]) -> dict[str, list[LabelDraw]]:
    """The draws recorded with label files, by run."""
    by_run: dict[str, list[LabelDraw]] = {}
    for path in paths:
        for draw in read_draws(path).values():
            for run in draw.runs:
                by_run.setdefault(run, []).append(draw)
    return by_run
