"""The headline metric by which the queries of two runs are compared: the one named, else the most important one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..core.errors import BadValueError
from ..core.results import Results
from ..core.scores import Scores
from ..core.signature import Signature
from ..core.types import MetricResult, TargetCategory
from ..store.records import RunRecord
from .metric_meta import lookup_metric

__all__ = ["SharedMetricScores", "main_metric"]

_ANSWERS = (
    TargetCategory.GENERATION_CORRECTNESS,
    TargetCategory.GENERATION_RELEVANCE,
    TargetCategory.GENERATION_FAITHFULNESS,
)
_RETRIEVAL = (TargetCategory.RETRIEVAL_ACCURACY, TargetCategory.RETRIEVAL_RELEVANCE)
_PREFERRED = ("token_f1", "exact_match")


@dataclass(frozen=True, slots=True)
class SharedMetricScores:
    """A metric's outcomes, sample by sample, in two runs."""

    name: str
    target: TargetCategory
    first: Scores
    second: Scores
    higher_is_better: bool


def main_metric(
    record_a: RunRecord, results_a: Results, record_b: RunRecord, results_b: Results, name: str | None = None
) -> SharedMetricScores:
    """The metric called ``name`` in both runs; without a name, the first of these that both runs have:

    * a primary metric of the plan that scores answers (the second run's plan first),
    * ``token_f1``, ``exact_match``,
    * any other that scores answers: their correctness, then relevance, then faithfulness,
    * a primary metric of the plan that scores retrieval, then any other that does,
    * any other metric with a score per sample, latency last.
    """
    if name is not None:
        first, second = _find_metric(record_a, results_a, name), _find_metric(record_b, results_b, name)
        Signature.parse(first.signature or f"{name}|v0").require_same(Signature.parse(second.signature or f"{name}|v0"))
    else:
        first, second = _default_headline_metric(record_a, results_a, record_b, results_b)
    assert isinstance(first.scores, Scores)
    assert isinstance(second.scores, Scores)
    return SharedMetricScores(
        second.name,
        second.target,
        first.scores,
        second.scores,
        lookup_metric(second, record_b, {}).higher_score_is_better,
    )


def _find_metric(record: RunRecord, results: Results, name: str) -> MetricResult:
    found = next((one for one in results if one.name == name), None)
    if found is None:
        known = ", ".join(one.name for one in results) or "none"
        raise BadValueError(
            f"{record.run_id} ({record.name}) has no metric '{name}' but {known}; "
            f"`auepora rescore {record.run_id} -m {name}` computes it"
        )
    if not isinstance(found.scores, Scores):
        raise BadValueError(f"{record.run_id} ({record.name}) has no score per sample of '{name}'; name another metric")
    return found


def _default_headline_metric(
    record_a: RunRecord, results_a: Results, record_b: RunRecord, results_b: Results
) -> tuple[MetricResult, MetricResult]:
    scored_in_a = {one.name: one for one in results_a if isinstance(one.scores, Scores)}
    shared = {
        one.name: one
        for one in results_b
        if isinstance(one.scores, Scores)
        and one.name in scored_in_a
        and scored_in_a[one.name].signature == one.signature
    }
    for name in _by_priority(shared, [*(record_b.plan.get("primary") or ()), *(record_a.plan.get("primary") or ())]):
        return scored_in_a[name], shared[name]
    raise BadValueError(
        f"{record_a.run_id} ({record_a.name}) and {record_b.run_id} ({record_b.name}) have no metric in common that "
        "has a score per sample and the same signature in both; `auepora rescore` computes one for both"
    )


def _by_priority(shared: dict[str, MetricResult], primary: list[str]) -> Iterator[str]:
    """The names that both runs have, the most important first; some come more than once."""
    listed = [name for name in primary if name in shared]
    yield from (name for name in listed if shared[name].target in _ANSWERS)
    yield from (name for name in _PREFERRED if name in shared)
    for target in _ANSWERS:
        yield from (name for name, one in shared.items() if one.target is target)
    yield from (name for name in listed if shared[name].target in _RETRIEVAL)
    for target in _RETRIEVAL:
        yield from (name for name, one in shared.items() if one.target is target)
    yield from sorted(shared, key=lambda name: shared[name].target is TargetCategory.LATENCY)
