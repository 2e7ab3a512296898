"""Families: samples that are variants of others, and metrics that score a variant together with its parent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import BadValueError
from .batch import Batch, batch_feature
from .metrics_base import BatchMetric, declare
from .reduce import Clusters
from .scores import Scores
from .types import EvaluationSample, SystemOutputs

NO_BASE, CYCLE, TWO_BASES = -1, -2, -3
_PROBLEMS = {NO_BASE: "no_base", CYCLE: "variant_cycle", TWO_BASES: "two_bases"}

BASE_SKIPS = {
    "not_a_variant": "the sample is not a variant of another in one of the scenarios looked at",
    "no_base": "the sample it is a variant of is not among the samples",
    "variant_cycle": "following `variant_of` leads back to the sample itself",
    "two_bases": "two samples have the id it is a variant of",
}
"""Why a sample is not part of a pair, for the reference pages of family metrics."""


class FamilyKey(NamedTuple):
    """The id of a sample and of its parent."""

    sample_id: str
    repeat: int
    base: str | None
    """The id of the sample that this is a variant of: ``labels["variant_of"]``."""
    scenarios: tuple[str, ...]
    payload: Any = None
    """Further data of the sample that a metric needs for pairing."""


def require_scenarios(name: str, value: Iterable[str]) -> tuple[str, ...]:
    """The scenarios of an option as a sorted tuple; a single one may be a string."""
    listed = (value,) if isinstance(value, str) else tuple(value)
    if not listed or not all(isinstance(tag, str) and tag.strip() for tag in listed):
        raise BadValueError(f"{name} must name at least one scenario, such as 'typo'; not {value!r}")
    # Lower case as in samples; sorted, since the order changes no result.
    return tuple(sorted({tag.strip().lower() for tag in listed}))


def is_variant(sample: EvaluationSample, scenarios: Sequence[str]) -> bool:
    """Whether a sample is a variant of another in one of these scenarios."""
    return sample.labels.get("variant_of") is not None and not set(scenarios).isdisjoint(sample.scenarios)


@batch_feature
def family_keys(batch: Batch) -> list[FamilyKey]:
    """The key of every sample of a batch."""
    return list(map(_key, batch.samples, batch.outputs))


def _key(sample: EvaluationSample, output: SystemOutputs | None) -> FamilyKey:
    base = sample.labels.get("variant_of")
    return FamilyKey(
        sample.sample_id,
        0 if output is None else output.repeat,
        None if base is None else str(base),
        sample.scenarios if base is not None else (),
    )


def with_family_keys(scores: Scores, batch: Batch, payloads: Sequence[Any] | None = None) -> Scores:
    """The outcomes of a batch with the family keys of its samples, and an optional payload each."""
    keys = family_keys(batch)
    if payloads is not None:
        keys = [key._replace(payload=extra) for key, extra in zip(keys, payloads, strict=True)]
    return replace(scores, keys=tuple(keys))


class VariantPairs(NamedTuple):
    """The variants among some samples, and the rows of their parents."""

    variants: npt.NDArray[np.intp]
    """The rows of variants in the requested scenarios."""
    rows: npt.NDArray[np.intp]
    """For each of them the row of its parent; negative where there is no usable one."""

    def skips(self, n: int) -> dict[str, npt.NDArray[np.bool_]]:
        """Per skip reason a mask of the ``n`` samples that are in no pair."""
        other = np.ones(n, dtype=np.bool_)
        other[self.variants] = False
        masks = {"not_a_variant": other}
        for code, reason in _PROBLEMS.items():
            masks[reason] = np.zeros(n, dtype=np.bool_)
            masks[reason][self.variants[self.rows == code]] = True
        return masks


def find_parents(
    keys: Sequence[FamilyKey | None], scenarios: Sequence[str] = (), *, where: Callable[[FamilyKey], bool] | None = None
) -> VariantPairs:
    """The variants in these scenarios, each with its parent: the sample it names, in the same repeat.

    Where the parent was run once and its variants several times, that run is the parent of all. ``where`` selects
    variants by their key instead of their scenario. A sample that could not be scored has no key and is ignored.
    """
    rows_by_key: dict[tuple[str, int], int] = {}
    for row, key in enumerate(keys):
        if key is not None:
            place = (key.sample_id, key.repeat)
            rows_by_key[place] = TWO_BASES if place in rows_by_key else row

    def base_row(key: FamilyKey | None) -> int:
        if key is None or key.base is None:
            return NO_BASE
        row = rows_by_key.get((key.base, key.repeat))
        return rows_by_key.get((key.base, 0), NO_BASE) if row is None else row

    wanted = set(scenarios)

    def looked_at(key: FamilyKey) -> bool:
        return not wanted.isdisjoint(key.scenarios) if where is None else where(key)

    above = [base_row(key) for key in keys]
    circular = _find_cycles(above)
    variants = [row for row, key in enumerate(keys) if key and key.base is not None and looked_at(key)]
    rows = np.array(variants, dtype=np.intp)
    return VariantPairs(rows, np.where(circular, CYCLE, above).astype(np.intp)[rows])


def _find_cycles(above: Sequence[int]) -> list[bool]:
    """For each row whether following parents leads back to it; every row is visited once."""
    circular, walk_of = [False] * len(above), [-1] * len(above)
    for start in range(len(above)):
        at = start
        while at >= 0 and walk_of[at] < 0:
            walk_of[at] = start
            at = above[at]
        if at >= 0 and walk_of[at] == start:  # visited in this walk: a cycle
            first = at
            while not circular[at]:
                circular[at] = True
                at = above[at]
            assert at == first
    return circular


def sort_by_id(scores: Scores, clusters: Clusters | None) -> tuple[Scores, Clusters | None]:
    """Outcomes sorted by sample id, so that the order of samples does not change the result."""
    keys: Sequence[FamilyKey | None] = scores.keys or ()  # none for a sample that could not be scored
    rows_by_key = [("", 0) if key is None else (key.sample_id, key.repeat) for key in keys]
    rows = np.array(sorted(range(len(keys)), key=rows_by_key.__getitem__), dtype=np.intp)
    if clusters is not None:
        # Renumbered in this order: the old numbers follow the order of samples.
        numbers: dict[int, int] = {}
        clusters = np.array([numbers.setdefault(code, len(numbers)) for code in clusters[rows].tolist()], dtype=np.intp)
    return scores.take(rows), clusters


class FamilyMetric(BatchMetric):
    """A metric of variants and their parents.

    ``score`` scores each sample by itself, with its key; ``pair_samples`` makes pairs once all samples are scored. A
    slice of variants keeps the parents they were paired with.
    """

    metadata = declare(
        handles_failures=True,
        needs_all=True,
    )
    scenarios: tuple[str, ...]
    """The scenarios (``labels["scenario"]``) whose samples are scored."""

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether the sample is a variant in one of the scenarios."""
        return is_variant(sample, self.scenarios)
