"""A paper's retrieval table from rows of gold and ranked ids: recall, MRR, MAP and nDCG, over both populations.

Papers that report only queries with a relevant document overstate the quality, so both are given: those queries
(``positives_only``, the quality of the ranking) and all of them (``all_queries``, where a query with nothing relevant
scores 0). Conventions ``paper-positives`` and ``paper``, which the result names; ``|k:eff`` after the name means K_eff
for K. So ``map@10`` of two tables is the same number only where their conventions are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from itertools import product
from numbers import Integral
from typing import Any, TypedDict

from ..core.conventions import Conventions
from ..core.metrics_base import Metric
from ..core.registry import metric
from ..errors import BadTypeError, BadValueError
from .cut_offs import ALL, PRIMARY_K, CutOff, cut_of
from .evaluate import evaluate_rankings

Row = Mapping[str, Any]
"""One query: ``{"gold_ids": ids, "ranked_ids": ids, best first}``; other keys are ignored."""

MEASURES = ("recall", "mrr", "map", "ndcg")
POPULATIONS = {"positives_only": "paper-positives", "all_queries": "paper"}


class PaperTable(TypedDict):
    """Means by name over both populations, and by which conventions each was computed."""

    conventions: dict[str, str]
    """By population, such as ``{"positives_only": "paper-positives|k:eff", "all_queries": "paper|k:eff"}``."""
    positives_only: dict[str, float]
    all_queries: dict[str, float]


def evaluate_queries(results: Sequence[Row], ks: Iterable[CutOff], skip_no_positives: bool = True) -> dict[str, float]:
    """Means over the queries by name (``recall@3``, ``map@ALL``): those with gold only, or all of them.

    K is used as written. A mean over no query is 0.0.
    """
    population = "positives_only" if skip_no_positives else "all_queries"
    return _evaluate(results, ks, {population: Conventions.of(POPULATIONS[population])})[population]


def dual_evaluate(results: Sequence[Row], ks: Iterable[CutOff]) -> PaperTable:
    """Both populations, with K as written: a ranking shorter than K loses for the missing positions.

    Eight gold documents, five returned and all of them relevant: map@10 is 5/8.
    """
    return _table(results, ks, {name: Conventions.of(preset) for name, preset in POPULATIONS.items()})


def paper_evaluate(results: Sequence[Row], ks: Iterable[CutOff] | None = None) -> PaperTable:
    """Both populations, with K_eff = min(K, |R|) for K everywhere; the primary cut-offs by default.

    Eight gold documents, five returned and all of them relevant: map@10 is 1, since no list of five could do better.
    """
    rules = {name: Conventions.of(preset, k_policy="effective") for name, preset in POPULATIONS.items()}
    return _table(results, PRIMARY_K if ks is None else ks, rules)


def _table(results: Sequence[Row], ks: Iterable[CutOff], rules: Mapping[str, Conventions]) -> PaperTable:
    values = _evaluate(results, ks, rules)
    effective = {name: "|k:eff" if rule.k_policy == "effective" else "" for name, rule in rules.items()}
    return PaperTable(
        conventions={name: f"{rule.name}{effective[name]}" for name, rule in rules.items()},
        positives_only=values["positives_only"],
        all_queries=values["all_queries"],
    )


def _evaluate(
    results: Sequence[Row], ks: Iterable[CutOff], populations: Mapping[str, Conventions]
) -> dict[str, dict[str, float]]:
    if isinstance(ks, str) or not isinstance(ks, Iterable):
        raise BadTypeError(f"ks must be a list of cut-offs such as [3, 5, 10], not {ks!r}")
    cuts = list(dict.fromkeys(map(cut_of, ks)))
    gold, ranked = _columns(results)
    longest = max(map(len, ranked), default=0)
    names = [f"{measure}@{ALL if cut is None else cut}" for cut, measure in product(cuts, MEASURES)]
    # One pass for all populations: they share the hits and differ only in the skipped queries.
    chosen = [
        _build_metric(measure, cut, longest, rules, f"{population}: {measure}@{cut}")
        for (population, rules), cut, measure in product(populations.items(), cuts, MEASURES)
    ]
    ids = [f"results[{place}]" for place in range(len(gold))]
    values = iter(evaluate_rankings(gold, ranked, chosen, ids=ids))
    return {population: {name: next(values).value for name in names} for population in populations}


def _build_metric(measure: str, cut: int | None, longest: int, rules: Conventions, name: str) -> Metric:
    if measure == "recall" and cut is None:
        cut = max(longest, 1)  # recall@k has no form without k; past the longest ranking a cut changes nothing
    return metric({measure: {"k": cut, "conventions": rules, "as": name}})


def _columns(results: Sequence[Row]) -> tuple[list[Collection[str]], list[Sequence[str]]]:
    """Gold and ranked ids of every row, or an error that names the row and the key."""
    if isinstance(results, (str, Mapping)) or not isinstance(results, Sequence):
        raise BadTypeError(
            f"results must be a list of rows {{'gold_ids': [...], 'ranked_ids': [...]}}, not a {type(results).__name__}"
        )
    gold: list[Collection[str]] = []
    ranked: list[Sequence[str]] = []
    for place, row in enumerate(results):
        if not isinstance(row, Mapping):
            raise BadTypeError(
                f"results[{place}] is a {type(row).__name__}, not a mapping with the keys 'gold_ids' and 'ranked_ids'"
            )
        gold.append(_as_texts(_ids(row, place, "gold_ids", "[] where nothing is relevant")))
        order = _ids(row, place, "ranked_ids", "[] where nothing was returned")
        if isinstance(order, (Set, Mapping)):
            raise BadTypeError(
                f"results[{place}]: 'ranked_ids' is a {type(order).__name__}, which has no ranks; pass a list"
            )
        ranked.append(list(_as_texts(order)))
    return gold, ranked


def _ids(row: Row, place: int, key: str, nothing: str) -> Collection[str]:
    try:
        ids = row[key]
    except KeyError:
        raise BadValueError(
            f"results[{place}] has no key '{key}' (it has: {', '.join(map(repr, row)) or 'none'}); use {nothing}"
        ) from None
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Collection):
        what = "a single string" if isinstance(ids, str) else f"{ids!r}"
        raise BadTypeError(f"results[{place}]: '{key}' is {what}; pass a list of ids, {nothing}")
    return ids


def _as_texts(ids: Collection[Any]) -> Collection[str]:
    """Integer ids as texts; other ids as they are."""
    if isinstance(ids, Mapping) or not all(isinstance(doc_id, Integral) for doc_id in ids):
        return ids
    return [str(doc_id) for doc_id in ids]
