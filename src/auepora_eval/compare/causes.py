"""Why a query got worse from one run to the next: exactly one cause, derived from the outputs of both runs.

A cause is an observed difference, the first that applies in a fixed order. That it made the score worse is likely, not
proven; ``running.replay`` measures how much of a difference comes from retrieval and from generation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ..core.errors import BadValueError
from ..core.scores import Status
from ..core.types import TargetCategory
from ..store.records import RunRecord
from ..store.runs import RunStore
from .main_metric import SharedMetricScores, main_metric
from .query_outputs import GoldRanks, QueryOutput, paired_outputs

__all__ = ["Cause", "MetricScope", "QueryChange", "cause_counts", "cause_of", "explain_changes"]

_ROUNDING = 1e-12


class Cause(StrEnum):
    """Why a query got worse; where it got better, the same seen from the other side."""

    FAILED = "failed"
    """The second run failed, the first did not."""
    REFUSED = "refused"
    """The second run declined to answer, the first answered."""
    LOST = "lost"
    """The second run returned fewer of the gold documents."""
    RANKED_LOWER = "ranked_lower"
    """It returned as many, and not all of them as far up."""
    ANSWER_CHANGED = "answer_changed"
    """The same documents in the same order, and another answer."""
    IGNORED = "ignored"
    """Gold is ranked as high as before, among other documents, and the answer is worse."""
    CONTEXT_CHANGED = "context_changed"
    """Other documents; whether gold has to do with it is unknown."""
    UNEXPLAINED = "unexplained"
    """None of the compared properties differs."""
    RECOVERED = "recovered"
    """Better: the first run failed, the second did not."""
    ANSWERED = "answered"
    """Better: the first run declined to answer, the second answered."""
    FOUND = "found"
    """Better: the second run returned more of the gold documents."""
    RANKED_HIGHER = "ranked_higher"
    """Better: gold is ranked higher."""
    USED = "used"
    """Better: the first run ranked gold as high, among other documents, and its answer was worse."""


_OPPOSITE = {
    Cause.FAILED: Cause.RECOVERED,
    Cause.REFUSED: Cause.ANSWERED,
    Cause.LOST: Cause.FOUND,
    Cause.RANKED_LOWER: Cause.RANKED_HIGHER,
    Cause.IGNORED: Cause.USED,
}


class MetricScope(StrEnum):
    """What a metric scores, and so where the cause of a change may lie."""

    ANSWERS = "answers"
    RETRIEVAL = "retrieval"
    """The answer does not affect the score."""
    NEITHER = "neither"
    """Latency, for instance: only a failure can explain a change."""


@dataclass(frozen=True, slots=True)
class QueryChange:
    """A query whose score changed, and why."""

    sample_id: str
    cause: Cause
    a_score: float | None
    b_score: float | None
    """``None`` where the run failed and the metric leaves failures out."""
    a_rank: int | None
    b_rank: int | None
    """The rank of the first gold document; ``None`` where none was returned, or none is annotated."""
    detail: str
    """The evidence for the cause, as a sentence."""


def explain_changes(
    store: RunStore, record_a: RunRecord, record_b: RunRecord, *, metric: str | None = None, worse_only: bool = True
) -> list[QueryChange]:
    """Every query that both runs have and that got worse from run A to run B, with its one cause, in dataset order.

    ``metric`` is the name of a stored result that both have; ``main_metric`` says which is taken without it. Without
    ``worse_only``, queries that got better are listed as well. A query that a run's metric skipped or could not
    measure is left out. Gold is run B's. No text of a retrieved document is read.
    """
    results_a, results_b = store.results(record_a.run_id), store.results(record_b.run_id)
    scored = main_metric(record_a, results_a, record_b, results_b, metric)
    changes = _score_changes(scored, results_a.sample_ids, results_b.sample_ids, worse_only=worse_only)
    if not changes:
        return []
    scope = _scope_of(scored.target)
    outputs = paired_outputs(store, record_a, record_b, changes)
    return [_explain(changes[sample_id], output_a, output_b, scope) for sample_id, output_a, output_b in outputs]


def cause_counts(changes: Iterable[QueryChange]) -> dict[Cause, int]:
    """How many queries each cause has, in the order in which causes are looked for; those that have none are absent."""
    counts = Counter(change.cause for change in changes)
    return {cause: counts[cause] for cause in Cause if counts[cause]}


def cause_of(before: QueryOutput, after: QueryOutput, scope: MetricScope = MetricScope.ANSWERS) -> Cause:
    """Why the query is worse ``after``: the first cause that applies."""
    answers = scope is MetricScope.ANSWERS
    if after.failed > before.failed:
        return Cause.FAILED
    if scope is MetricScope.NEITHER:
        return Cause.UNEXPLAINED
    if answers and after.refused > before.refused:
        return Cause.REFUSED
    if before.context is None or after.context is None:
        return Cause.UNEXPLAINED
    if _has_fewer_hits(before.gold, after.gold):
        return Cause.LOST
    if _first_lowered_rank(before.gold, after.gold) is not None:
        return Cause.RANKED_LOWER
    if before.context == after.context:
        return Cause.ANSWER_CHANGED if answers and before.answers != after.answers else Cause.UNEXPLAINED
    if answers and after.answers and after.gold is not None and after.gold.first is not None:
        return Cause.IGNORED
    return Cause.CONTEXT_CHANGED


def _has_fewer_hits(before: GoldRanks | None, after: GoldRanks | None) -> bool:
    """Whether fewer gold documents of some level or above were returned than before."""
    if before is None or after is None:
        return False
    return any(len(ranks) < len(had) for had, ranks in zip(before.levels, after.levels, strict=True))


def _first_lowered_rank(before: GoldRanks | None, after: GoldRanks | None) -> tuple[int, int] | None:
    """The first rank of gold that got lower, before and after; ``None`` if no rank did.

    The first gold document is compared with the first, the second with the second: which document it is does not
    matter as long as they are of the same level.
    """
    if before is None or after is None:
        return None
    for had, ranks in zip(before.levels, after.levels, strict=True):
        for was, is_now in zip(had, ranks, strict=False):
            if is_now > was:
                return was, is_now
    return None


class _ScoreChange(NamedTuple):
    sample_id: str
    a: float | None
    b: float | None
    worse: bool


def _score_changes(
    scored: SharedMetricScores, ids_a: Sequence[str], ids_b: Sequence[str], *, worse_only: bool
) -> dict[str, _ScoreChange]:
    """The samples whose score differs, by their ids."""
    places = {sample_id: place for place, sample_id in enumerate(ids_a)}
    found: dict[str, _ScoreChange] = {}
    common = 0
    for place_b, sample_id in enumerate(ids_b):
        place_a = places.get(sample_id)
        if place_a is None:
            continue
        common += 1
        a, b = scored.first[place_a], scored.second[place_b]
        if a is not None and b is not None:
            gain = (b - a) if scored.higher_is_better else (a - b)
            if abs(gain) <= _ROUNDING * max(1.0, abs(a), abs(b)):
                continue
        # No score in one run: a change only if the system failed there and the metric leaves failures out.
        elif b is None and a is not None and scored.second.status[place_b] == Status.SYSTEM_FAILED:
            gain = -1.0
        elif a is None and b is not None and scored.first.status[place_a] == Status.SYSTEM_FAILED:
            gain = 1.0
        else:
            continue
        if gain < 0 or not worse_only:
            found[sample_id] = _ScoreChange(sample_id, a, b, gain < 0)
    if not common:
        raise BadValueError("the two runs have no sample in common, so there is nothing to explain")
    return found


def _scope_of(target: TargetCategory) -> MetricScope:
    if target is TargetCategory.LATENCY:
        return MetricScope.NEITHER
    return MetricScope.RETRIEVAL if target.name.startswith("RETRIEVAL") else MetricScope.ANSWERS


def _explain(change: _ScoreChange, output_a: QueryOutput, output_b: QueryOutput, scope: MetricScope) -> QueryChange:
    before, after, names = (output_a, output_b, "AB") if change.worse else (output_b, output_a, "BA")
    cause = cause_of(before, after, scope)
    return QueryChange(
        change.sample_id,
        cause if change.worse else _OPPOSITE.get(cause, cause),
        change.a,
        change.b,
        None if output_a.gold is None else output_a.gold.first,
        None if output_b.gold is None else output_b.gold.first,
        _detail(cause, before, after, *names),
    )


def _detail(cause: Cause, before: QueryOutput, after: QueryOutput, better: str, worse: str) -> str:
    """The cause as a sentence that is true whichever run came first."""
    documents = len(after.context or ())
    first = None if before.gold is None else before.gold.first
    now = None if after.gold is None else after.gold.first
    match cause:
        case Cause.FAILED:
            proportion = "" if after.failed == 1 else f" {after.failed:.0%} of the times it was asked"
            return f"{worse} failed{proportion} ({after.error})"
        case Cause.REFUSED:
            return f"{better} answered and {worse} declined to"
        case Cause.LOST:
            assert before.gold is not None
            assert after.gold is not None
            had, has = len(before.gold.levels[-1]), len(after.gold.levels[-1])
            if not has:
                return f"{better} has gold at rank {first}, {worse} has none among its {documents} documents"
            if has < had:
                return f"{better} returned {had} gold documents, {worse} {has}"
            return f"{better} returned gold of a higher level than {worse}"
        case Cause.RANKED_LOWER:
            lower = _first_lowered_rank(before.gold, after.gold)
            assert lower is not None
            return f"gold that stands at rank {lower[0]} in {better} stands at rank {lower[1]} in {worse}"
        case Cause.ANSWER_CHANGED:
            return f"the same {documents} documents in the same order, another answer"
        case Cause.IGNORED:
            where = f"at rank {first}" if first is not None else "nowhere"
            return f"{worse} has gold at rank {now} ({better} {where}), among other documents, and made less of it"
        case Cause.CONTEXT_CHANGED:
            why = "no gold is annotated" if after.gold is None else "neither returned gold"
            return f"other documents; {why if first is None and now is None else 'gold stands no lower'}"
        case _:
            if before.context is None or after.context is None:
                return "a run has no answer to look at"
            if before.context == after.context and before.answers == after.answers:
                return "the same documents and the same answer"
            return "what was returned does not explain it"
