"""The scoring of a stored run as a job: what is read, by which metrics it is scored, and which judge is asked.

Also the base of the steps that add to it, and how the gold of a run is matched.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ..compare.golden import corpus_ids, store_missing_aggregate
from ..core.conventions import Conventions, Match
from ..core.metrics_base import BatchMetric, Metric, RunInfo, with_match
from ..core.plan import EvaluationPlan, with_corpus_ids
from ..core.results import Results
from ..core.slices import Slice, SliceSpec, parse_slices, require_slice_values
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory, UnknownRanking
from ..engine.data_checks import mass_failure
from ..engine.evaluate import Progress, evaluate, evaluate_stream, resolve_metrics
from ..engine.executors import Executor
from ..engine.gold_match import SAMPLES_READ, GoldMatch, GoldReading, MatchChoice, Pair
from ..engine.repeats import evaluate_repeats
from ..engine.suggest import AvailableFields, metrics_needing_retrieved
from ..engine.targets import TargetFields
from ..errors import AueporaWarning, BadValueError
from ..judge.critic import JudgePolicy
from ..judge.metric import judged_parts
from ..plan.model import Scoring
from ..store.records import RunRecord, run_info
from ..store.rows import PERTURBED_TAG
from ..store.runs import RunStore, aligned_outputs, lazy_samples
from .judging import (
    JudgedRun,
    JudgeProgress,
    RunJudgeSession,
    add_control_drift,
    ignore_progress,
    judged_signatures,
    record_usage,
)
from .partial_scores import PartialScores

FieldsT = TypeVar("FieldsT", bound=AvailableFields)
OutputReader = Callable[[], Iterator[SystemOutputs | None]]
"""Reads the outputs of one repeat, in the order of the samples; each call reads them again."""


class _RetrievedCheck:
    """Counts, while outputs are read, how many answers have an unknown ranking."""

    def __init__(self) -> None:
        self.repeat = 0
        """The repeat that is being read."""
        self._counts: dict[int, tuple[int, int]] = {}

    def count(self, repeat: int, outputs: Iterator[SystemOutputs | None]) -> Iterator[SystemOutputs | None]:
        """Yield the outputs and count them; a repeat that is read again replaces its count."""
        self.repeat = repeat
        answered = unknown = 0
        for output in outputs:
            if output is not None and output.error is None:
                answered += 1
                unknown += isinstance(output.retrieved, UnknownRanking)
            yield output
        self._counts[repeat] = answered, unknown

    @property
    def _totals(self) -> tuple[int, int]:
        answered, unknown = (sum(counts) for counts in zip(*self._counts.values(), strict=True))
        return answered, unknown

    @property
    def none_known(self) -> bool:
        """Whether there are answers and all their rankings are unknown."""
        answered, unknown = self._totals
        return 0 < unknown == answered

    def check(self, metrics: Sequence[Metric], record: RunRecord) -> None:
        """Raise if a metric needs rankings and all are unknown; warn if some are."""
        affected = metrics_needing_retrieved(metrics)
        answered, unknown = self._totals
        if not unknown or not affected:
            return
        if self.none_known:
            raise BadValueError(
                f"'{affected[0]}' reads the field 'retrieved', which no output of {record.run_id} has; let the system "
                "return it ([] if it retrieved nothing), or leave the metric out: the answers are stored, and "
                "`auepora rescore` computes other metrics"
            )
        warnings.warn(
            f"{unknown} of {answered} answers have no 'retrieved'; retrieval metrics score them as empty rankings",
            AueporaWarning,
            stacklevel=3,
        )


@dataclass(slots=True, eq=False)
class ScoringJob:
    """A stored run that is scored once. What is after the comment is set while it is scored, for its steps."""

    store: RunStore
    record: RunRecord
    metrics: Sequence[Metric] | None
    """``None`` stands for all that the data supports. They match gold as ``conventions`` say."""
    conventions: Conventions
    slices: Sequence[SliceSpec] = ()
    options: Scoring = Scoring()
    samples: Sequence[EvaluationSample] | None = None
    """The samples with other gold; ``None`` stands for those of the run."""
    gold: str | None = None
    """The name of that gold, in signatures."""
    reading: GoldReading | None = None
    """What decided how gold is matched, where it was ``auto``; it replaces the way of ``conventions``."""
    corpus: Path | None = None
    """The file of the documents that answers may cite."""
    targets: Sequence[TargetCategory] = ()
    """The targets whose supported metrics are computed, too."""
    judged: Set[str] = frozenset()
    """The names of metrics that are computed only where the data supports them for a target."""
    policy: JudgePolicy = JudgePolicy()
    """For judge calls."""
    progress: Progress | None = None
    judge_progress: Callable[[], JudgeProgress] = ignore_progress
    """Called before the first judge call; returns what is called after each judgement."""
    secrets: Iterable[str] = ()
    renews_aggregate: bool = True
    """Whether the golden-query metrics of the run are computed again where they are stored."""

    # Set while the job runs.
    rows: Sequence[EvaluationSample] = field(default=(), init=False)
    outputs: list[OutputReader] = field(default_factory=list, init=False)
    """One reader for each repeat."""
    chosen: list[Metric] = field(default_factory=list, init=False)
    """The metrics whose results are stored."""
    scored: list[Metric] = field(default_factory=list, init=False)
    """The metrics of the pass over all samples: ``chosen``, and what steps add or take out."""
    groups: list[Slice] = field(default_factory=list, init=False)
    info: RunInfo = field(init=False)
    session: RunJudgeSession | None = field(default=None, init=False)
    """``None`` where no metric calls a judge."""
    partial_scores: PartialScores | None = field(default=None, init=False)
    """The scores of a run that is judged look by look."""
    _retrieved: _RetrievedCheck = field(default_factory=_RetrievedCheck, init=False)

    def open(self) -> None:
        """Read what is scored, and choose and check the metrics. Nothing is called."""
        store, record = self.store, self.record
        if self.reading is not None:
            self.conventions = replace(self.conventions, match=self.reading.resolved.match)
        self.rows = lazy_samples(store, record.run_id) if self.samples is None else self.samples
        self.outputs = [partial(self._read_outputs, repeat) for repeat in range(record.repeats)]
        self.chosen = self._choose_metrics()
        self.scored = list(self.chosen)
        self.groups = parse_slices(self.slices)
        EvaluationPlan(self.chosen).validate_dataset(self.rows)
        require_slice_values(self.groups, self.rows)
        self.info = replace(run_info(record), gold=self.gold)

    def _read_outputs(self, repeat: int) -> Iterator[SystemOutputs | None]:
        return self._retrieved.count(repeat, aligned_outputs(self.store, self.record.run_id, repeat=repeat))

    def _choose_metrics(self) -> list[Metric]:
        given = [with_match(metric, self.conventions.match) for metric in self.metrics or ()]
        if self.targets:
            fields = self._read_fields(TargetFields(self.targets))
            retrieves = not self._retrieved.none_known
            chosen = fields.choose(given, self.conventions, retrieves=retrieves, judged=self.judged)
        elif self.metrics is None:
            specs = self._read_fields(AvailableFields()).specs(self.conventions)
            supported = resolve_metrics(specs, self.conventions)
            affected = metrics_needing_retrieved(supported) if self._retrieved.none_known else ()
            usable = [metric for metric in supported if metric.name not in affected]
            chosen = usable if self.gold is None else [metric for metric in usable if reads_gold(metric)]
        else:
            chosen = given
        return chosen if self.corpus is None else with_corpus_ids(chosen, partial(corpus_ids, self.corpus))

    def _read_fields(self, fields: FieldsT) -> FieldsT:
        """The fields, with those that samples and outputs have."""
        for read in self.outputs:
            fields.add_pairs(zip(self.rows, read(), strict=True))
        return fields

    def judge_signatures(self) -> dict[str, str]:
        """The signatures of the chosen metrics that call a judge, by name."""
        return judged_signatures(self.chosen, self.info)

    def open_session(self) -> None:
        """Open the judge session, if a metric calls a judge."""
        signatures = self.judge_signatures()
        if not signatures:
            return
        run = JudgedRun(self.store, self.record, signatures, self.rows, self._current_repeat)
        self.session = RunJudgeSession(self.policy, run, progress=self.judge_progress(), secrets=self.secrets)

    def _current_repeat(self) -> int:
        return self._retrieved.repeat if self.partial_scores is None else self.partial_scores.repeat

    def store_judgements(self) -> AbstractContextManager[None]:
        """A context in which judgements are stored with the run; stored scores that are used keep theirs."""
        if self.session is None:
            return nullcontext()
        resumes = self.partial_scores is not None and bool(self.partial_scores.known.any())
        return self.session.store_judgements(keep=resumes)

    @contextmanager
    def open_session_of(self, scores: PartialScores) -> Iterator[RunJudgeSession]:
        """A session that judges another run, with the budget and the progress of the session of this one."""
        assert self.session is not None
        signatures = judged_signatures(scores.metrics, scores.info)
        run = JudgedRun(self.store, scores.record, signatures, scores.samples, lambda: scores.repeat)
        session = RunJudgeSession(
            replace(self.session.policy, controls=0),
            run,
            progress=self.session.add_progress(),
            secrets=self.secrets,
            budget_of=self.session,
        )
        with session.store_judgements(keep=True):
            yield session

    def evaluate(self, metrics: Sequence[Metric], executor: Executor) -> Results:
        """The results of metrics over all samples."""
        return evaluate_outputs(
            self.rows,
            self.outputs,
            metrics,
            **self.evaluation_options(),
            run=self.info,
            executor=executor,
            judging=self.session,
            progress=self.progress,
        )

    def evaluation_options(self) -> dict[str, Any]:
        """The options that do not depend on the run that is evaluated."""
        conventions = Conventions.of(match=self.conventions.match)
        return {"conventions": conventions, "slices": self.groups, "batch_size": self.options.batch_size}

    def add_usage(self, results: Results) -> None:
        """Add what the judge has used, and how its verdicts on control items have changed."""
        if self.session is not None:
            record_usage(results, self.session.usage_log)
            add_control_drift(self.store, self.record, results)

    def store_results(self, results: Results) -> None:
        """Check and store the results; results with other signatures are kept."""
        store, record = self.store, self.record
        self._retrieved.check(self.chosen, record)
        results.run_id = record.run_id
        stored = store.outputs(record.run_id, texts=False)
        results.failure = mass_failure(results, (row.output.error for row in stored if row.output.error is not None))
        describe_gold(
            results, self.chosen, store, record, self.rows, conventions=self.conventions, reading=self.reading
        )
        put_results(store, record, results, self.chosen)
        store_missing_aggregate(store, record, corpus=self.corpus, again=self.renews_aggregate)


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


def reads_gold(metric: Metric) -> bool:
    """Whether a metric needs gold documents and no judge."""
    judged = isinstance(metric, BatchMetric) and any(judged_parts(metric))
    return "relevant_docs" in metric.required_fields() and not judged


def evaluate_outputs(
    samples: Sequence[EvaluationSample],
    repeats: Sequence[OutputReader],
    metrics: Sequence[Metric],
    **options: Any,
) -> Results:
    """Evaluate outputs that are read again for each pass: ``repeats`` has a function for those of each repeat."""
    if len(repeats) > 1:
        return evaluate_repeats(list(samples), repeats, metrics, **options)
    if all(isinstance(metric, BatchMetric) for metric in metrics):
        return evaluate_stream(zip(samples, repeats[0](), strict=True), metrics, samples=samples, **options)
    return evaluate(samples, list(repeats[0]()), metrics, **options)  # such a metric needs all samples at once


def put_results(store: RunStore, record: RunRecord, results: Results, metrics: Sequence[Metric]) -> None:
    """Store results with the names of their reducers.

    Those of unregistered metrics say where lower is better: readers know the direction of registered ones.
    """
    by_name = results.by_name
    for metric in metrics:
        is_registered = hasattr(type(metric), "registered_as")
        if not is_registered and not getattr(metric, "higher_is_better", True):
            by_name[metric.name].details.lower_is_better = True
    reducers = {metric.name: metric.reducer.name for metric in metrics if isinstance(metric, BatchMetric)}
    store.put_results(record.run_id, results, reducers=reducers)


# --- how the gold of a stored run is matched: resolved once, from its first outputs, and stored with its plan --------


def stored_match(record: RunRecord) -> GoldMatch | None:
    """How the gold of a run is matched; ``None`` where nothing was resolved."""
    resolved = (record.plan.get("gold") or {}).get("resolved")
    return None if resolved is None else GoldMatch.from_dict(resolved)


def read_gold(
    store: RunStore,
    record: RunRecord,
    samples: Sequence[EvaluationSample],
    conventions: Conventions,
    choice: MatchChoice,
    *,
    stored: Match | None = None,
) -> GoldReading:
    """How the gold of these samples is matched with the outputs of the first repeat.

    ``stored`` is what ``auto`` has chosen before.
    """
    has_gold = any(sample.relevant_docs for sample in samples)
    pairs = _pairs(store, record, samples) if has_gold else ()
    return GoldReading(pairs, conventions, choice, stored=stored)


def describe_gold(
    results: Results,
    metrics: Sequence[Metric],
    store: RunStore,
    record: RunRecord,
    samples: Sequence[EvaluationSample],
    *,
    conventions: Conventions,
    reading: GoldReading | None,
) -> None:
    """Add to results how gold is matched. What ``auto`` decided from the first outputs is checked with all of them."""
    if reading is None and conventions.match == "id":
        return
    reading = reading or read_gold(store, record, samples, conventions, conventions.match)
    resolved = reading.resolved
    is_checked = resolved.is_auto and PERTURBED_TAG not in record.tags
    if is_checked and SAMPLES_READ <= resolved.samples < len(samples):
        for _ in reading.count(_pairs(store, record, samples, texts=resolved.match == "text")):
            pass
    reading.finish(metrics, results)


def _pairs(
    store: RunStore, record: RunRecord, samples: Sequence[EvaluationSample], *, texts: bool = True
) -> Iterator[Pair]:
    return zip(samples, aligned_outputs(store, record.run_id, texts=texts), strict=True)
