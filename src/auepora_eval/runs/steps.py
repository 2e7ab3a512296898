"""Steps of scoring a run: what judged coverage, early stopping and two-stage judging add to ``score_run``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from ..core.results import Results
from ..core.types import GOLD_BY
from ..engine.executors import Executor, SerialExecutor
from ..errors import BadValueError
from ..store.records import run_info
from ..store.runs import aligned_outputs, samples_contain
from .coverage import JudgedCoverage, has_gold_provenance
from .job import ScoringJob, evaluate_outputs, mark_direction, reducer_names
from .judging import record_usage
from .partial_scores import KnownScores, SkippingExecutor
from .sequential import LookProgress, SequentialJudging, StopRequest, ignore_looks, prepare_judging


class ScoringStep:
    """An addition to the scoring of a run, in three places; in each it does nothing by default."""

    def prepare(self, job: ScoringJob) -> None:
        """Read what the step needs, before a judge is asked."""

    def wrap(self, job: ScoringJob, executor: Executor) -> Executor:
        """The executor of the pass over all samples, given that of the steps before."""
        return executor

    def finish(self, job: ScoringJob, results: Results) -> Results:
        """The results with what the step adds, given those of the steps after."""
        return results


class CoverageStep(ScoringStep):
    """How much of each ranking is judged, where gold has provenance, in the same pass."""

    def __init__(self) -> None:
        self._coverage: JudgedCoverage | None = None

    def prepare(self, job: ScoringJob) -> None:
        """Add the metrics that count judged documents."""
        may_have_provenance = job.samples is not None or samples_contain(job.store, job.record.run_id, GOLD_BY)
        if may_have_provenance and has_gold_provenance(job.rows):
            self._coverage = JudgedCoverage(job.chosen)
            job.scored += self._coverage.metrics

    def finish(self, job: ScoringJob, results: Results) -> Results:
        """The results of the chosen metrics, with the coverage in their details."""
        return results if self._coverage is None else self._coverage.annotate(results)


class EarlyStopping(ScoringStep):
    """Judging look by look, until the recorded design of the run decides."""

    def __init__(self, request: StopRequest | None = None, on_look: LookProgress = ignore_looks) -> None:
        """``on_look`` is called before each look."""
        self._request, self._on_look = request or StopRequest(), on_look
        self._judging: SequentialJudging | None = None

    def prepare(self, job: ScoringJob) -> None:
        """Read the design of the run, or record a new one."""
        if not job.judge_signatures():
            if self._request.is_explicit or self._request.proceed:
                raise BadValueError(
                    "none of the metrics calls a judge, so there is no judging to stop or to continue; name one that "
                    "does"
                )
            return
        self._judging = prepare_judging(job, self._request, self._on_look)
        if self._judging is not None:
            job.partial_scores = self._judging.scores

    def wrap(self, job: ScoringJob, executor: Executor) -> Executor:
        """Judge up to the stop; the executor then has the scores of the judged metrics."""
        if self._judging is None or job.session is None:
            return executor
        return self._judging.judge_run(job.session, executor, job.open_session_of)

    def finish(self, job: ScoringJob, results: Results) -> Results:
        """Add the looks to the results, and store those of a baseline that was judged, too."""
        if self._judging is not None:
            self._judging.add_details(results)
            self._store_baseline(job, self._judging)
        return results

    def _store_baseline(self, job: ScoringJob, judging: SequentialJudging) -> None:
        scores = judging.baseline
        if scores is None or not scores.asked.any():
            return
        record = scores.record
        read = partial(aligned_outputs, job.store, record.run_id, texts=False)
        results = evaluate_outputs(
            scores.samples,
            [partial(read, repeat=repeat) for repeat in range(record.repeats)],
            scores.originals,
            **job.evaluation_options(),
            run=run_info(record),
            executor=KnownScores(SerialExecutor(), scores),
        )
        if judging.baseline_usage is not None:
            record_usage(results, judging.baseline_usage)
        scores.add_earlier_details(results)
        mark_direction(results, scores.originals)
        job.store.put_results(record.run_id, results, reducers=reducer_names(scores.originals))


class CorrectionStep(ScoringStep):
    """Skips the samples that were marked as invalid, and records the corrections in the results."""

    def __init__(self, invalid: Sequence[int], details: Mapping[str, Mapping[str, Any]] = MappingProxyType({})) -> None:
        """``invalid`` are positions of samples; ``details`` are what each metric records."""
        self._invalid, self._details = invalid, details

    def wrap(self, job: ScoringJob, executor: Executor) -> Executor:
        """An executor that skips the invalid samples."""
        return SkippingExecutor(executor, self._invalid) if len(self._invalid) else executor

    def finish(self, job: ScoringJob, results: Results) -> Results:
        """Add the corrections to the details."""
        for result in results:
            if result.name in self._details:
                result.details["corrections"] = self._details[result.name]
        return results
