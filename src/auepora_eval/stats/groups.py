"""Groups of failures by shared terms: found on one half of the samples, tested on the other half, in both directions.

A term that is found where failures are many would look good on the same samples by chance, so its test is on others.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from ..errors import BadValueError
from .intervals import Bools, Floats, Ints

MIN_SAMPLES = 5
"""A term is read if so many samples have it, ..."""
MAX_PROPORTION = 0.2
"""... and at most this proportion of them."""
MIN_WRONG = 4
"""The least number of failures of a term in the half where it is found."""
MIN_GAIN = 6.6
"""The least log-likelihood ratio, twice the difference of logarithms: that of a p-value of 1 %."""
MAX_TERMS = 60
"""The most terms found in one half."""
LEVEL = 0.05
"""The false discovery rate; each direction has half of it."""
OVERLAP = 0.5
"""Of two groups with this proportion of their failures in common, the one with the smaller p-value stays."""
ALIKE = 0.8
"""Terms are alike if so many of the samples that have one of them have both."""


@dataclass(frozen=True, slots=True, eq=False)
class TermIncidence:
    """Which samples have which terms, as pairs of numbers."""

    rows: Ints
    columns: Ints
    samples: int
    terms: int

    @classmethod
    def of(cls, terms: Sequence[Set[str]]) -> tuple[TermIncidence, list[str]]:
        """The terms of each sample that are neither rare nor frequent, with their names; long ones come first."""
        counts = Counter(chain.from_iterable(terms))
        names = sorted((name for name, count in counts.items() if MIN_SAMPLES <= count <= MAX_PROPORTION * len(terms)))
        names.sort(key=len, reverse=True)
        numbers = {name: number for number, name in enumerate(names)}
        rows, columns = array("l"), array("l")
        for row, own in enumerate(terms):
            known = [numbers[name] for name in own if name in numbers]
            columns.extend(known)
            rows.extend([row] * len(known))
        return cls(np.array(rows, np.intp), np.array(columns, np.intp), len(terms), len(names)), names

    def counts(self, chosen: Bools) -> Ints:
        """By term the number of its samples that are chosen."""
        return np.bincount(self.columns[chosen[self.rows]], minlength=self.terms)

    def members(self, term: int) -> Bools:
        """Which samples have a term."""
        found = np.zeros(self.samples, np.bool_)
        found[self.rows[self.columns == term]] = True
        return found

    def alike(self, term: int) -> list[int]:
        """The other terms of mostly the same samples."""
        members = self.members(term)
        both, sizes = self.counts(members), self.counts(np.ones(self.samples, np.bool_))
        found = np.flatnonzero(both >= ALIKE * (sizes + int(members.sum()) - both))
        return [other for other in found.tolist() if other != term]


@dataclass(frozen=True, slots=True, eq=False)
class TermGroup:
    """A term whose samples fail more often than the others."""

    terms: tuple[int, ...]
    """The term, and those confirmed ones that have mostly the same failures."""
    p_value: float
    tested: Bools
    """The members that the test counted: those of the other half than the one where the term was found."""


def failure_groups(
    incidence: TermIncidence,
    wrong: Bools,
    opposite: Bools | None = None,
    *,
    clusters: npt.ArrayLike | None = None,
    seed: int = 0,
) -> tuple[list[TermGroup], int]:
    """The groups, the smallest p-value first, and the number of terms that were found and not confirmed.

    Each half finds terms and tests those of the other, at half of the false discovery rate. With ``opposite`` the
    failures are new ones of a second run and ``opposite`` has the samples that changed the other way; McNemar's exact
    test compares both. Else an exact hypergeometric test compares the members with the rest. Clusters stay in one
    half, and of each only one sample is tested, drawn at random.

    >>> incidence = TermIncidence(np.arange(40), np.zeros(40, np.int64), 400, 1)
    >>> groups, _ = failure_groups(incidence, np.arange(400) < 30)
    >>> [group.terms for group in groups]
    [(0,)]
    """
    if incidence.samples != len(wrong) or (opposite is not None and incidence.samples != len(opposite)):
        raise BadValueError("terms and outcomes must have the same samples")
    in_first, is_counted = _halves(len(wrong), clusters, np.random.default_rng(seed))
    candidates: set[int] = set()
    confirmed: dict[int, TermGroup] = {}
    for half in (in_first, ~in_first):
        terms = find_terms(incidence, wrong, half)
        candidates.update(terms)
        others = ~half & is_counted
        p_values = _p_values(incidence, wrong, opposite, others, terms)
        for term, p_value, is_rejected in zip(terms, p_values, benjamini_hochberg(p_values, LEVEL / 2), strict=True):
            if is_rejected and (term not in confirmed or p_value < confirmed[term].p_value):
                confirmed[term] = TermGroup((term,), p_value, incidence.members(term) & others)
    kept = _merge(incidence, wrong, sorted(confirmed.values(), key=attrgetter("p_value")))
    return kept, len(candidates) - len(confirmed)


def _halves(count: int, clusters: npt.ArrayLike | None, rng: np.random.Generator) -> tuple[Bools, Bools]:
    """Which samples are in the first half, and which are counted: one of each cluster."""
    codes = np.arange(count) if clusters is None else np.unique(np.asarray(clusters), return_inverse=True)[1]
    units = int(codes.max(initial=-1)) + 1
    in_first = np.zeros(units, np.bool_)
    in_first[rng.permutation(units)[: units // 2]] = True
    order = rng.permutation(count)
    is_counted = np.zeros(count, np.bool_)
    is_counted[order[np.unique(codes[order], return_index=True)[1]]] = True
    return in_first[codes], is_counted


def find_terms(incidence: TermIncidence, wrong: Bools, among: Bools) -> list[int]:
    """The term with the largest gain among some samples; then the same without its members, until none has enough."""
    left = among.copy()
    found: list[int] = []
    while len(found) < MAX_TERMS:
        total, failed = int(left.sum()), int((wrong & left).sum())
        if failed < MIN_WRONG:
            break
        hits = incidence.counts(wrong & left)
        gains = np.where(hits >= MIN_WRONG, _gains(hits, incidence.counts(left), failed / total), 0.0)
        if gains.max(initial=0.0) < MIN_GAIN:
            break
        found.append(int(gains.argmax()))
        left &= ~incidence.members(found[-1])
    return found


def _gains(hits: Ints, sizes: Ints, base: float) -> Floats:
    """Log-likelihood ratios of proportions against the base; 0 for those that are not above it."""
    base = min(base, 1 - 1e-9)
    proportions = np.clip(hits / np.maximum(sizes, 1), 1e-9, 1 - 1e-9)
    gains = hits * np.log(proportions / base) + (sizes - hits) * np.log((1 - proportions) / (1 - base))
    return np.where(proportions > base, 2 * gains, 0.0)


def _p_values(
    incidence: TermIncidence, wrong: Bools, opposite: Bools | None, among: Bools, terms: Sequence[int]
) -> list[float]:
    hits, sizes = incidence.counts(wrong & among), incidence.counts(among)
    if opposite is not None:
        reverse = incidence.counts(opposite & among)
        return [binomial_tail(int(hits[term]), int(hits[term] + reverse[term])) for term in terms]
    total, failed = int(among.sum()), int((wrong & among).sum())
    return [hypergeometric_tail(int(hits[term]), int(sizes[term]), failed, total) for term in terms]


def hypergeometric_tail(hits: int, drawn: int, marked: int, total: int) -> float:
    """The probability of at least so many marked ones among those drawn from the total without replacement.

    >>> round(hypergeometric_tail(3, 3, 5, 10), 4)  # 5/10 * 4/9 * 3/8
    0.0833
    """
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, total + 1)))])
    counts = np.arange(max(hits, 0, drawn + marked - total), min(drawn, marked) + 1)
    chosen = logs[marked] - logs[counts] - logs[marked - counts]
    rest = logs[total - marked] - logs[drawn - counts] - logs[total - marked - drawn + counts]
    every = logs[total] - logs[drawn] - logs[total - drawn]
    return min(1.0, float(np.exp(chosen + rest - every).sum()))


def binomial_tail(hits: int, count: int) -> float:
    """The probability of at least so many heads of a fair coin: McNemar's exact one-sided p-value."""
    return float(sum(math.comb(count, heads) for heads in range(hits, count + 1)) / 2**count)


def benjamini_hochberg(p_values: Sequence[float], level: float) -> list[bool]:
    """Which hypotheses are rejected so that at most this proportion of them is expected to be true.

    >>> benjamini_hochberg([0.01, 0.5, 0.02], 0.05)
    [True, False, True]
    """
    ordered = sorted(p_values)
    passing = [p_value for rank, p_value in enumerate(ordered, 1) if p_value <= level * rank / len(ordered)]
    most = max(passing, default=-1.0)
    return [p_value <= most for p_value in p_values]


def _merge(incidence: TermIncidence, wrong: Bools, groups: Sequence[TermGroup]) -> list[TermGroup]:
    """Groups with other failures; one that has mostly those of an earlier one gives its terms to it."""
    kept: list[TermGroup] = []
    failures: list[Bools] = []
    for group in groups:
        own = incidence.members(group.terms[0]) & wrong
        shared = [(own & other).sum() / max(min(own.sum(), other.sum()), 1) for other in failures]
        place = next((place for place, proportion in enumerate(shared) if proportion >= OVERLAP), None)
        if place is None:
            kept.append(group)
            failures.append(own)
        else:
            first = kept[place]
            kept[place] = TermGroup((*first.terms, *group.terms), first.p_value, first.tested)
    return kept
