"""Executor for judged metrics: judges work several batches ahead, so that they are never idle."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace

from ..core.batch import Batch
from ..core.executors import Executor, Scorable, ScoredBatch
from ..core.judged_metric import judge_batch, judged_parts
from ..core.metrics_base import BatchMetric, Metric
from ..core.scoring import apply_failure_policy
from ..core.sources import SourcedBatch
from .loop import LoopThread, wait_for_result
from .policy import JudgePolicy
from .session import JudgeSession

__all__ = ["JudgingExecutor", "with_judges"]

PREFETCH_BATCHES = 2
"""Number of batches judged ahead of the current one."""


class JudgingExecutor:
    """Lets another executor score what needs no judge, while judges score the rest."""

    def __init__(self, executor: Executor, session: JudgeSession) -> None:
        self._executor = executor
        self._session = session

    def score(self, batches: Iterable[Scorable], metrics: Sequence[BatchMetric]) -> Iterator[ScoredBatch]:
        """The outcomes of each batch, in order."""
        parts = [list(judged_parts(one)) for one in metrics]
        judged = [part for some in parts for part in some]
        if not judged:
            yield from self._executor.score(batches, metrics)
            return
        plain = [one for one, some in zip(metrics, parts, strict=True) if not some]
        with LoopThread() as loop:
            judge = loop.run(self._session.__aenter__())
            try:
                waiting: deque[tuple[Batch, Future[None]]] = deque()

                def start_judging() -> Iterator[Scorable]:
                    for batch in batches:
                        # Judges are called from this process, whatever executor scores the rest: the batch is read
                        # here too.
                        loaded = replace(batch, joined=False).load().batch if isinstance(batch, SourcedBatch) else batch
                        waiting.append((loaded, loop.start(judge_batch(loaded, judged, judge))))
                        yield batch

                for scored in self._executor.score(_prefetch(start_judging(), PREFETCH_BATCHES), plain):
                    batch, answers = waiting.popleft()
                    wait_for_result(answers)
                    plain_scores = iter(scored.scores)
                    scores = [
                        apply_failure_policy(one, batch) if some else next(plain_scores)
                        for one, some in zip(metrics, parts, strict=True)
                    ]
                    yield ScoredBatch(scored.size, scores, {**scored.notes, **batch.notes}, scored.members)
            finally:
                loop.run(self._session.__aexit__(None, None, None))


def with_judges(executor: Executor, metrics: Sequence[Metric], judging: JudgeSession | JudgePolicy | None) -> Executor:
    """The executor, wrapped to call judges if a metric needs one and the executor does not do so itself."""
    judged = any(isinstance(one, BatchMetric) and any(judged_parts(one)) for one in metrics)
    if not judged or getattr(executor, "asks_judges", False):
        return executor
    session = judging if isinstance(judging, JudgeSession) else JudgeSession(judging or JudgePolicy())
    return JudgingExecutor(executor, session)


def _prefetch(batches: Iterator[Scorable], ahead: int) -> Iterator[Scorable]:
    """The same batches, each yielded after ``ahead`` further ones have been read."""
    buffer: deque[Scorable] = deque()
    for batch in batches:
        buffer.append(batch)
        if len(buffer) > ahead:
            yield buffer.popleft()
    yield from buffer
