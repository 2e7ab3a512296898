"""Section K of ``benchmarks.verdicts``: groups of failures by shared terms, planted into public questions.

Planted groups are questions with one or two rare words put in, most of them failures; the other failures are drawn at
random. A group is found if a reported one holds half of its failures and half of the reported ones are from it.
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from auepora_eval.stats.groups import TermGroup, TermIncidence, failure_groups
from auepora_eval.stats.intervals import Bools
from auepora_eval.text.tokenizers import content_terms
from benchmarks.verdicts import DATA, Figure, Section

SAMPLES, WRONG = 2_000, 600
SYSTEMS = ("fid", "gpt35", "chatgpt", "newbing")


@lru_cache
def questions() -> list[dict[str, Any]]:
    """Public questions with human verdicts on the answers of several systems (EVOUNA, Natural Questions)."""
    found: list[dict[str, Any]] = json.loads((DATA / "evouna" / "NQ.json").read_text(encoding="utf-8"))
    return found


def incidence_of(texts: Sequence[str]) -> tuple[TermIncidence, list[str]]:
    """The terms of some texts."""
    return TermIncidence.of([content_terms(text) for text in texts])


@dataclass(frozen=True, slots=True)
class Planted:
    """Questions with groups put in."""

    texts: list[str]
    wrong: Bools
    groups: list[Bools]
    """The failures of each planted group."""


def plant(rng: np.random.Generator, count: int = 20, low: int = 15, high: int = 40, purity: float = 0.8) -> Planted:
    """Plant groups with so many failures, the given proportion of their members."""
    pool = [row["question"] for row in questions()]
    texts = [pool[place] for place in rng.choice(len(pool), SAMPLES, replace=False)]
    sizes = rng.integers(low, high + 1, count)
    while sizes.sum() > WRONG - 20:
        sizes = rng.integers(low, high + 1, count)
    free = rng.permutation(SAMPLES).tolist()
    wrong, groups = np.zeros(SAMPLES, np.bool_), []
    for number, size in enumerate(sizes.tolist()):
        members = [free.pop() for _ in range(round(size / purity))]
        for member in members:
            words = texts[member].split()
            at = int(rng.integers(0, len(words) + 1))
            texts[member] = " ".join([*words[:at], f"grp{number}x", f"grp{number}y", *words[at:]])
        failures = np.zeros(SAMPLES, np.bool_)
        failures[members[:size]] = True
        wrong |= failures
        groups.append(failures)
    wrong[rng.choice(free, WRONG - int(wrong.sum()), replace=False)] = True
    return Planted(texts, wrong, groups)


def rates(planted: Planted, incidence: TermIncidence, found: Sequence[TermGroup]) -> tuple[float, int]:
    """The proportion of planted groups that were found, and the number of reported ones that are none of them."""
    reported = [incidence.members(group.terms[0]) & planted.wrong for group in found]
    hits = sum(any(_covers(own, group) for own in reported) for group in planted.groups)
    false = [own for own in reported if not any((own & group).sum() >= 0.5 * own.sum() for group in planted.groups)]
    return hits / len(planted.groups), len(false)


def _covers(own: Bools, group: Bools) -> bool:
    shared = (own & group).sum()
    return bool(shared >= 0.5 * group.sum() and shared >= 0.5 * own.sum())


ROWS: dict[str, tuple[dict[str, Any], float | None]] = {
    "20 groups of 15 to 40, 80 % of members wrong": ({}, 0.90),
    "20 groups of 15 to 40, 60 % of members wrong": ({"purity": 0.6}, None),
    "8 groups of 15 to 40, 80 %, other failures at random": ({"count": 8}, 0.90),
    "8 groups of 15 to 25, 80 %": ({"count": 8, "high": 25}, None),
    "8 groups of 15 to 40, 60 %": ({"count": 8, "purity": 0.6}, None),
    "8 groups of 8 to 15, 80 %": ({"count": 8, "low": 8, "high": 15}, None),
}


def planted_figures(seeds: int) -> Iterator[Figure]:
    """How many planted groups are found, and how many others are reported."""
    slowest = 0.0
    for name, (options, least) in ROWS.items():
        measured = []
        for seed in range(seeds):
            planted = plant(np.random.default_rng(700 + seed), **options)
            start = time.process_time()
            incidence, _ = incidence_of(planted.texts)
            found, _ = failure_groups(incidence, planted.wrong, seed=900 + seed)
            slowest = max(slowest, time.process_time() - start)
            measured.append(rates(planted, incidence, found))
        recall, false = np.mean(measured, axis=0).tolist()
        yield Figure(f"{name}: found", recall, at_least=least)
        yield Figure("... false groups per run", false, 0.1 if least else None)
    yield Figure(f"seconds of CPU for {SAMPLES:,} questions, the most", slowest, 5.0)


def shuffled_figures(seeds: int) -> Iterator[Figure]:
    """How often a group is reported where failures have nothing to do with terms."""
    planted = plant(np.random.default_rng(71))
    incidence, _ = incidence_of(planted.texts)
    reported = 0
    for seed in range(seeds):
        wrong = np.random.default_rng(1000 + seed).permutation(planted.wrong)
        reported += bool(failure_groups(incidence, wrong, seed=seed)[0])
    yield Figure("shuffled labels: any group", reported / seeds, 0.05)
    codes = np.arange(SAMPLES) // 5  # five variants of each question, which fail together
    copies = incidence_of([planted.texts[code] for code in codes])[0]
    reported = 0
    for seed in range(seeds):
        wrong = np.random.default_rng(2000 + seed).permutation(planted.wrong[: SAMPLES // 5])[codes]
        reported += bool(failure_groups(copies, wrong, clusters=codes.tolist(), seed=seed)[0])
    yield Figure("shuffled labels of clusters of five: any group", reported / seeds, 0.05)


def pair_figures(seeds: int) -> Iterator[Figure]:
    """Groups that newly fail in a second run: 8 of 16 groups fall from 15 to 75 % wrong."""
    measured: list[tuple[float, float]] = []
    nulls = 0
    for seed in range(seeds):
        rng = np.random.default_rng(800 + seed)
        planted = plant(rng, count=16)
        members = [np.array([f"grp{number}x" in text for text in planted.texts]) for number in range(16)]
        incidence, _ = incidence_of(planted.texts)
        base = rng.random(SAMPLES) < 0.25
        before, after = base ^ (rng.random(SAMPLES) < 0.08), base ^ (rng.random(SAMPLES) < 0.08)
        for group in members[:8]:
            before[group], after[group] = rng.random(group.sum()) < 0.15, rng.random(group.sum()) < 0.75
        newly = after & ~before
        found, _ = failure_groups(incidence, newly, before & ~after, seed=seed)
        reported = [incidence.members(group.terms[0]) & newly for group in found]
        hits = [any((own & group).sum() >= 0.5 * own.sum() for own in reported) for group in members[:8]]
        false = [own for own in reported if not any((own & group).sum() >= 0.5 * own.sum() for group in members[:8])]
        measured.append((float(np.mean(hits)), float(len(false))))
        swapped = rng.random(SAMPLES) < 0.5
        before, after = np.where(swapped, after, before), np.where(swapped, before, after)
        nulls += bool(failure_groups(incidence, after & ~before, before & ~after, seed=seed)[0])
    recall, groups = np.mean(measured, axis=0).tolist()
    yield Figure("two runs: newly failing groups found", recall, at_least=0.85)
    yield Figure("... false groups per comparison", groups, 0.1)
    yield Figure("... runs swapped at random: any group", nulls / seeds, 0.05)


def real_figures() -> Iterator[Figure]:
    """Groups of real systems, by human verdicts."""
    rows = [row for row in questions() if not row["improper"]]
    incidence, names = incidence_of([row["question"] for row in rows])
    for system in SYSTEMS:
        wrong = np.array([not row[f"judge_{system}"] for row in rows])
        found, _ = failure_groups(incidence, wrong, seed=0)
        listed = ", ".join(names[group.terms[0]] for group in found) or "none"
        yield Figure(f"{system}, {wrong.mean():.2f} wrong, groups ({listed})", len(found))


def groups_by_terms(divisor: int) -> Iterator[Figure]:
    """Section K."""
    if not (DATA / "evouna" / "NQ.json").exists():
        return
    yield from planted_figures(max(40 // divisor, 4))
    yield from shuffled_figures(200 // divisor)
    yield from pair_figures(max(40 // divisor, 4))
    yield from real_figures()


SECTIONS: dict[str, tuple[str, Section]] = {"K": ("Failure groups", groups_by_terms)}
