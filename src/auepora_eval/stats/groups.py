"""Groups of failures by shared terms: found on one half of the samples, tested on the other half, in both directions.

A term that is found where failures are many would look good on the same samples by chance, so its test is on others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import BadValueError
from .intervals import Bools, Floats, Ints

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


@dataclass(frozen=True, slots=True, eq=False)
class TermIncidence:
    """Which samples have which terms, as pairs of numbers."""

    rows: Ints
    columns: Ints
    samples: int
    terms: int

    def counts(self, chosen: Bools) -> Ints:
        """By term the number of its samples that are chosen."""
        return np.bincount(self.columns[chosen[self.rows]], minlength=self.terms)

    def members(self, term: int) -> Bools:
        """Which samples have a term."""
        found = np.zeros(self.samples, np.bool_)
        found[self.rows[self.columns == term]] = True
        return found


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
    clusters: Ints | None = None,
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
    if not incidence.samples == len(wrong) == len(wrong if opposite is None else opposite):
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
    kept = _merge(incidence, wrong, sorted(confirmed.values(), key=lambda group: group.p_value))
    return kept, len(candidates) - len(confirmed)


def _halves(count: int, clusters: Ints | None, rng: np.random.Generator) -> tuple[Bools, Bools]:
    """Which samples are in the first half, and which are counted: one of each cluster."""
    codes = np.arange(count) if clusters is None else np.unique(clusters, return_inverse=True)[1]
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
        best = int(gains.argmax()) if len(gains) else 0
        if not len(gains) or gains[best] < MIN_GAIN:
            break
        found.append(best)
        left &= ~incidence.members(best)
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
    logs = _log_factorials(total)
    counts = np.arange(max(hits, 0, drawn + marked - total), min(drawn, marked) + 1)
    chosen = logs[marked] - logs[counts] - logs[marked - counts]
    rest = logs[total - marked] - logs[drawn - counts] - logs[total - marked - drawn + counts]
    every = logs[total] - logs[drawn] - logs[total - drawn]
    return min(1.0, float(np.exp(chosen + rest - every).sum()))


def binomial_tail(hits: int, count: int) -> float:
    """The probability of at least so many heads of a fair coin: McNemar's exact one-sided p-value."""
    logs = _log_factorials(count)
    heads = np.arange(hits, count + 1)
    return min(1.0, float(np.exp(logs[count] - logs[heads] - logs[count - heads] - count * math.log(2)).sum()))


def _log_factorials(most: int) -> Floats:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most + 1)))])


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
