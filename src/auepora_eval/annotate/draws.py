"""Random draws of samples for labelling, and the record of a draw next to the label file."""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from ..core.slices import sort_groups
from ..errors import BadValueError, DataFileError
from ..perturb.edits import hash_uniform
from ..runtime.files import plain_stem, read_bytes, write_lines

SINGLE_STRATUM = "all"
"""The name of the only stratum of an unstratified draw."""


@dataclass(frozen=True, slots=True)
class DrawnItem:
    """A drawn sample and its stratum."""

    sample_id: str
    stratum: str = SINGLE_STRATUM


@dataclass(frozen=True, slots=True)
class LabelDraw:
    """A draw with its population and strata, which a corrected mean needs."""

    run: str
    seed: int
    stratify: str | None
    """The field that defines the strata, such as ``labels.scenario``."""
    strata: Mapping[str, int]
    """Population size of each stratum."""
    drawn_items: tuple[DrawnItem, ...]
    """In the order of labelling."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Number of samples of the run outside the population, by reason."""

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
    """The draws of a label file by run; empty if none was recorded."""
    path = draw_path(labels)
    if not path.exists():
        return {}
    try:
        rows = json.loads(read_bytes(path))["draws"]
        draws = [_draw_of(row) for row in rows]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        problem = f"is no record of a draw ({type(error).__name__}: {error}); restore it, or label into another file"
        raise DataFileError(path, None, problem) from error
    return {one.run: one for one in draws}


def record_draw(labels: str | Path, draw: LabelDraw) -> LabelDraw:
    """Record a draw and return the one in force: the longer of two with the same beginning.

    Another draw from the same run (another seed, other strata) is an error: together their labels would not be a random
    sample.
    """
    known = read_draws(labels)
    before = known.get(draw.run)
    if before is not None:
        _require_same(draw_path(labels), before, draw)
        if len(before.drawn_items) >= len(draw.drawn_items):
            return before
    rows = [one.to_dict() for one in {**known, draw.run: draw}.values()]
    text = json.dumps({"draws": rows}, indent=1, ensure_ascii=False)
    write_lines(draw_path(labels), [text.encode("utf-8", "backslashreplace")])
    return draw


def _require_same(path: Path, before: LabelDraw, now: LabelDraw) -> None:
    if before.seed != now.seed or before.stratify != now.stratify:
        was = f"--seed {before.seed}" + (f" --stratify {before.stratify}" if before.stratify else " without --stratify")
        raise DataFileError(
            path, None, f"the samples were drawn with {was}; draw them so again, or label into another file"
        )
    shorter = min(len(before.drawn_items), len(now.drawn_items))
    if before.drawn_items[:shorter] != now.drawn_items[:shorter]:
        problem = "the run has other answers now than when the samples were drawn; label into another file"
        raise DataFileError(path, None, problem)


def _draw_of(row: Any) -> LabelDraw:
    return LabelDraw(
        str(row["run"]),
        int(row["seed"]),
        None if row["stratify"] is None else str(row["stratify"]),
        {str(name): int(stratum["population"]) for name, stratum in row["strata"].items()},
        tuple(DrawnItem(str(one["sample_id"]), str(one["stratum"])) for one in row["drawn"]),
        {str(reason): int(count) for reason, count in row["left_out"].items()},
    )
