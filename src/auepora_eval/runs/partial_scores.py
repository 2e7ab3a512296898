"""Scores of a run of which a part is judged, known from the store, or skipped."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from ..core.batch import Batch
from ..core.family import FamilyMetric, with_family_keys
from ..core.metrics_base import BatchMetric, RunInfo, apply_failure_policy, run_signature
from ..core.results import Results
from ..core.scores import NOT_JUDGED, Scores, Status
from ..core.types import EvaluationSample, MetricResult
from ..engine.executors import Executor, JudgingExecutor, Notes, Scorable, ScoredBatch, SerialExecutor
from ..engine.repeats import join_scores
from ..judge.critic import JudgePolicy
from ..judge.metric import judge_batch, judged_parts
from ..judge.preview import PreviewSession, run_preview
from ..judge.session import JudgeSession
from ..stats.intervals import Bools, Ints
from ..store.records import RunRecord, sum_nested
from ..store.runs import RunStore, result_summaries, result_with_scores


class PartialScores:
    """The scores of one run under metrics that call a judge, for the samples that were judged so far."""

    def __init__(
        self,
        store: RunStore,
        record: RunRecord,
        metrics: Sequence[BatchMetric],
        samples: Sequence[EvaluationSample],
        *,
        info: RunInfo,
        batch_size: int,
    ) -> None:
        self._store, self.record, self.samples = store, record, samples
        self.info, self.batch_size = info, batch_size
        self.originals = list(metrics)
        """The metrics before they were bound to the settings of the run."""
        self.metrics = [metric.for_run(info) for metric in metrics]
        self.signatures = {metric.name: str(run_signature(metric, info)) for metric in self.metrics}
        self.asked = np.zeros(len(samples), dtype=np.bool_)
        """Which samples were judged for this run in this session."""
        self.known = np.zeros(len(samples), dtype=np.bool_)
        """Which samples have stored scores under all metrics."""
        self.notes: list[Notes] = []
        self.repeat = 0
        """The repeat that is being judged."""
        self._executor: JudgingExecutor | None = None
        self._parts: list[dict[str, list[tuple[Ints, Scores]]]] = [defaultdict(list) for _ in range(record.repeats)]
        self._stored: dict[str, Scores] = {}
        self.stored_details: dict[str, Mapping[str, Any]] = {}
        """By metric, the details of the stored results that are used."""

    @property
    def controls(self) -> Any:
        """The control items of the judge, and their outcomes."""
        return None if self._executor is None else self._executor.controls

    def open(self, session: JudgeSession) -> None:
        """Use a judge session from now on."""
        self._executor = JudgingExecutor(SerialExecutor(), session)

    def stored_scores(self) -> tuple[Bools, dict[str, Scores]]:
        """Which samples have stored scores under all metrics, and these; failed measurements have none."""
        found = [result_with_scores(self._store, self.record.run_id, summary) for summary in self._summaries()]
        scores = {result.name: result.scores for result in found if isinstance(result.scores, Scores)}
        if len(scores) < len(self.metrics):
            return np.zeros(len(self.samples), dtype=np.bool_), {}
        unknown = [score.with_reason(NOT_JUDGED) | (score.status == Status.MEASURE_FAILED) for score in scores.values()]
        return ~np.any(unknown, axis=0), scores

    def _summaries(self) -> list[MetricResult]:
        """The stored results of these metrics, without their scores."""
        stored = result_summaries(self._store, self.record.run_id, every_signature=True)
        return [summary for summary in stored if self.signatures.get(summary.name) == summary.signature]

    def use_stored(self) -> None:
        """Use the stored scores of the run instead of judging it again."""
        known, scores = self.stored_scores()
        if not scores or (self.record.repeats > 1 and not known.all()):  # means over repeats cannot be completed
            return
        self.known, self._stored = known, scores
        self.stored_details = {summary.name: summary.details for summary in self._summaries()}
        rows = np.flatnonzero(known)
        for name, score in scores.items():
            self._parts[0][name].append((rows, score.take(rows)))

    def dry_scores(self, policy: JudgePolicy) -> list[Scores]:
        """The outcomes without a call, as far as the cache of the policy has them; the others are failures."""
        batch = self._batch(np.arange(len(self.samples)), 0)
        parts = list(chain.from_iterable(judged_parts(metric) for metric in self.metrics))

        async def work(session: PreviewSession) -> None:
            await judge_batch(batch, parts, session)

        run_preview(policy, work)
        return [apply_failure_policy(metric, batch) for metric in self.metrics]

    def dry_outcomes(self, policy: JudgePolicy) -> tuple[Bools, ...]:
        """Which samples a metric applies to, which are scored without a judge, and which were judged before."""
        if self.known.all():
            applies = np.any([scores.status != Status.SKIPPED for scores in self._stored.values()], axis=0)
            return applies, np.zeros_like(self.known), self.known
        without = self.dry_scores(replace(policy, cache=None, cache_only=False))
        cached = self.dry_scores(policy) if policy.cache is not None and policy.cache.exists() else without
        applies = np.any([scores.status != Status.SKIPPED for scores in without], axis=0)
        free, known = _is_measured(without), _is_measured(cached)
        return applies, free, (known | self.stored_scores()[0]) & ~free

    def judge(self, positions: Ints) -> None:
        """Judge these samples, unless they are known; failed judgements are requested once more."""
        new = positions[~(self.asked | self.known)[positions]]
        if not len(new):
            return
        for repeat in range(self.record.repeats):
            self.repeat = repeat
            scores, notes = self._score(new, repeat)
            failed = ~_is_measured(scores)
            if failed.any():
                again, notes = self._score(new[failed], repeat)
                rows = (np.flatnonzero(~failed), np.flatnonzero(failed))
                scores = [
                    Scores.woven((rows[0], score.take(rows[0])), (rows[1], other))
                    for score, other in zip(scores, again, strict=True)
                ]
            self.notes += notes
            for metric, score in zip(self.metrics, scores, strict=True):
                self._parts[repeat][metric.name].append((new, score))
        self.asked[new] = True

    def scores(self, name: str) -> list[Scores]:
        """The scores of all samples in each repeat; those that were not judged are skipped."""
        metric = next(metric for metric in self.metrics if metric.name == name)
        return [self._whole(metric, parts[name]) for parts in self._parts]

    def means(self, name: str) -> Scores:
        """The scores of all samples, as means over the repeats."""
        if self.known.all():
            return self._stored[name]
        metric = next(metric for metric in self.metrics if metric.name == name)
        return join_scores(metric, self.scores(name))

    def unanswered(self) -> Bools:
        """Which samples a judge was asked about, now or in an earlier session, without a judgement."""
        return ~_is_measured([self.means(metric.name) for metric in self.metrics])

    def add_earlier_details(self, results: Results) -> None:
        """Add what earlier sessions used, their control items and a sequential test to the results."""
        for result in results:
            earlier = self.stored_details.get(result.name, {})
            if "judging" in earlier:
                result.details.judging = sum_nested(earlier["judging"], result.details.judging)
            for key in ("controls", "sequential"):
                if key in earlier:
                    result.details.setdefault(key, earlier[key])

    def _score(self, positions: Ints, repeat: int) -> tuple[list[Scores], list[Notes]]:
        assert self._executor is not None
        chunks = np.split(positions, range(self.batch_size, len(positions), self.batch_size))
        scored = list(self._executor.score((self._batch(chunk, repeat) for chunk in chunks), self.metrics))
        columns = zip(*(batch.scores for batch in scored), strict=True)
        return [Scores.concat(list(column)) for column in columns], [batch.notes for batch in scored if batch.notes]

    def _batch(self, positions: Ints, repeat: int) -> Batch:
        listed = positions.tolist()
        rows = self._store.outputs(self.record.run_id, repeat=repeat, positions=set(listed))
        outputs = {row.position: row.output for row in rows}
        return Batch([self.samples[position] for position in listed], [outputs.get(position) for position in listed])

    def _whole(self, metric: BatchMetric, parts: list[tuple[Ints, Scores]]) -> Scores:
        """One column of all samples from the parts."""
        missing = np.ones(len(self.samples), dtype=np.bool_)
        for positions, _ in parts:
            missing[positions] = False
        rest = np.flatnonzero(missing)
        if len(rest) and metric.name in self._stored:  # failed, or not judged, in an earlier session
            return Scores.woven(*parts, (rest, self._stored[metric.name].take(rest)))
        skipped = Scores.of(np.zeros(len(rest)), skip={NOT_JUDGED: np.ones(len(rest), dtype=np.bool_)})
        samples = [self.samples[position] for position in rest.tolist()]
        tables = [scores.stats for _, scores in parts if scores.stats is not None]
        if tables:
            skipped = replace(skipped, stats=np.full((len(rest), tables[0].shape[1]), np.nan))
        if isinstance(metric, FamilyMetric):
            skipped = with_family_keys(skipped, Batch(samples, [None] * len(samples)))
        elif any(scores.keys is not None for _, scores in parts):
            skipped = replace(skipped, keys=(None,) * len(rest))
        return Scores.woven(*parts, (rest, skipped)) if len(rest) else Scores.woven(*parts)


def _is_measured(columns: Sequence[Scores]) -> Bools:
    """Which samples have no failed measurement in any of these."""
    return np.all([scores.status != Status.MEASURE_FAILED for scores in columns], axis=0)  # type: ignore[no-any-return]


class KnownScores:
    """An executor that has the scores of judge metrics, and lets another one compute the rest."""

    asks_judges = True

    def __init__(self, executor: Executor, judged: PartialScores) -> None:
        self._executor, self._judged = executor, judged
        self._columns = {metric.name: judged.scores(metric.name) for metric in judged.metrics}
        self._num_passes = 0
        self.controls = judged.controls

    def score(self, batches: Iterable[Scorable], metrics: Sequence[BatchMetric]) -> Iterator[ScoredBatch]:
        """The outcomes of each batch, in order; each pass over all samples is the next repeat."""
        repeat, self._num_passes = self._num_passes, self._num_passes + 1
        plain = [metric for metric in metrics if metric.name not in self._columns]
        start = 0
        notes, self._judged.notes = self._judged.notes, []
        for scored in self._executor.score(batches, plain):
            rows = np.arange(start, start + scored.size)
            start += scored.size
            computed = dict(zip([metric.name for metric in plain], scored.scores, strict=True))
            known = {name: columns[repeat].take(rows) for name, columns in self._columns.items()}
            scores = [(known | computed)[metric.name] for metric in metrics]
            yield ScoredBatch(scored.size, scores, _merge_notes([scored.notes, *notes]), scored.members)
            notes = []


def _merge_notes(notes: Iterable[Notes]) -> Notes:
    merged: Notes = {}
    for note in notes:
        for message, (count, first) in note.items():
            merged[message] = (merged.get(message, (0, first))[0] + count, merged.get(message, (0, first))[1])
    return merged


INVALID_SAMPLE = "invalid_sample"
"""Why a sample is skipped that a person marked as invalid."""


def skip_invalid(scores: Scores, is_invalid: Bools) -> Scores:
    """The scores with the invalid samples skipped."""
    return scores.replaced(is_invalid, Status.SKIPPED, INVALID_SAMPLE, math.nan) if is_invalid.any() else scores


class SkippingExecutor:
    """An executor that lets another one score, and skips invalid samples."""

    def __init__(self, executor: Executor, invalid: Sequence[int]) -> None:
        """``invalid`` are positions of samples in a pass over all of them."""
        self._executor, self._invalid = executor, np.array(invalid, dtype=np.intp)

    def score(self, batches: Iterable[Scorable], metrics: Sequence[BatchMetric]) -> Iterator[ScoredBatch]:
        """The outcomes of each batch, in order."""
        start = 0
        for scored in self._executor.score(batches, metrics):
            is_invalid = np.isin(np.arange(start, start + scored.size), self._invalid)
            start += scored.size
            yield replace(scored, scores=[skip_invalid(score, is_invalid) for score in scored.scores])
