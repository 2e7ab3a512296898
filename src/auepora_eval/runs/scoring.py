"""Score the stored outputs of a run and store the results, with the judged coverage of retrieval metrics."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..compare.golden import corpus_ids, store_missing_aggregate
from ..core.batch import Batch
from ..core.conventions import Conventions
from ..core.metrics_base import BatchMetric, Metric, declare, with_match
from ..core.plan import EvaluationPlan, with_corpus_ids
from ..core.registry import Spec
from ..core.results import Results
from ..core.scores import Scores, Status
from ..core.slices import Slice, SliceSpec, parse_slices, require_slice_values
from ..core.types import GOLD_BY, EvaluationSample, MetricResult, SystemOutputs, TargetCategory, UnknownRanking
from ..engine.data_checks import mass_failure
from ..engine.evaluate import Progress, evaluate, evaluate_stream, resolve_metrics
from ..engine.executors import Executor, Scorable, ScoredBatch, SerialExecutor, make_executor
from ..engine.gold_match import GoldReading, MatchChoice
from ..engine.repeats import evaluate_repeats
from ..engine.suggest import AvailableFields, metrics_needing_retrieved
from ..errors import AueporaWarning, BadValueError
from ..features.hits import gold_positions
from ..features.rankings import judged_rankings
from ..io.grades import gold_signature, with_gold
from ..judge.critic import JudgePolicy
from ..judge.metric import judged_parts, same_family_warnings
from ..plan.model import Scoring, TwoStageSettings
from ..plan.resources import PlannedJudges
from ..plan.source import resolve_path
from ..store.records import RunRecord, run_info
from ..store.runs import RunStore, aligned_outputs, lazy_samples, rescoring, samples_contain
from .gold import describe_gold, read_gold
from .judging import (
    JudgeProgress,
    RunJudgeSession,
    add_control_drift,
    conventions_of_run,
    ignore_progress,
    judged_signatures,
    record_usage,
    rescoring_metrics,
)
from .known_scores import KnownScores
from .sequential import (
    LookProgress,
    PartialScores,
    SequentialJudging,
    StopRequest,
    ignore_looks,
    prepare_judging,
)

# --- judged coverage: the proportion of retrieved documents that are judged ------------------------------------------

_PROVENANCES = ("model", "corrected", "human")
_TARGETS = (TargetCategory.RETRIEVAL_RELEVANCE, TargetCategory.RETRIEVAL_ACCURACY)


def has_gold_provenance(samples: Iterable[EvaluationSample]) -> bool:
    """Whether any sample records the provenance of its grades."""
    return any(GOLD_BY in sample.metadata for sample in samples)


@dataclass(frozen=True)
class JudgedAtDepth(BatchMetric):
    """Judged@k per query, with the number of results and of unjudged ones."""

    depth: int | None = None
    name: str = "judged"

    target = TargetCategory.RETRIEVAL_RELEVANCE
    metadata = declare(
        counts_system_failures=False,  # a failed sample has no results to judge
        stat_names=("num_results", "num_unjudged"),
    )

    def score(self, batch: Batch) -> Scores:
        """Proportion of judged results; queries without gold or without results are skipped."""
        hits = gold_positions(batch, judged_rankings)
        level = np.ones_like(hits.row) if hits.level is None else hits.level
        keep, positions = level >= 0, hits.returned
        if self.depth is not None:
            keep, positions = keep & (hits.rank < self.depth), np.minimum(positions, self.depth)
        judged = np.bincount(hits.row[keep], minlength=len(batch))
        stats = np.column_stack([positions, positions - judged])
        return Scores.of(
            judged / np.maximum(positions, 1),
            skip={"no_gold": ~hits.annotated, "nothing_returned": positions == 0},
            stats=stats * 1.0,
        )


@dataclass(frozen=True)
class GoldProvenance(BatchMetric):
    """Number of grades by provenance, over all samples, whatever their outcome."""

    name: str = "gold"

    target = TargetCategory.RETRIEVAL_RELEVANCE
    metadata = declare(
        handles_failures=True,
        stat_names=tuple(f"num_{by}" for by in _PROVENANCES),
    )

    def score(self, batch: Batch) -> Scores:
        """Scores of 0 with the counts as statistics."""
        counts = np.array([_counts(sample) for sample in batch.samples], dtype=np.float64)
        return Scores.of(np.zeros(len(batch)), stats=counts.reshape(-1, len(_PROVENANCES)))


def _counts(sample: EvaluationSample) -> list[int]:
    counts = sample.metadata.get(GOLD_BY)
    return [int(counts.get(by, 0)) for by in _PROVENANCES] if isinstance(counts, Mapping) else [0, 0, 0]


class JudgedCoverage:
    """Computes Judged@k at the depth of each retrieval metric in the same pass, and adds it to their results."""

    def __init__(self, metrics: Sequence[Metric], gold: Mapping[str, int] | None = None) -> None:
        """``gold`` is the number of grades by provenance, if the samples do not record it."""
        self._gold = gold
        self._depths = {one.name: _depth(one) for one in metrics if _is_retrieval(one)}
        used_names = {one.name for one in metrics}
        self._judged_metrics = {
            depth: JudgedAtDepth(depth, _unique_name(f"judged within {depth}", used_names)) for depth in self.depths
        }
        self._provenance = (
            GoldProvenance(_unique_name("whose gold", used_names)) if gold is None and self._depths else None
        )

    @property
    def depths(self) -> list[int | None]:
        """The distinct depths of the metrics; ``None`` is the whole ranking."""
        return list(dict.fromkeys(self._depths.values()))

    @property
    def metrics(self) -> list[Metric]:
        """The additional metrics to compute."""
        return [*self._judged_metrics.values(), *([] if self._provenance is None else [self._provenance])]

    def annotate(self, results: Results) -> Results:
        """The results without the additional metrics, with judged coverage in the details of each retrieval metric."""
        depth_by_name = {share.name: depth for depth, share in self._judged_metrics.items()}
        own_names = {one.name for one in self.metrics}
        by_depth = {depth_by_name[one.name]: one for one in results if one.name in depth_by_name}
        provenance = None if self._provenance is None else results.by_name[self._provenance.name]
        metric_results = [one for one in results if one.name not in own_names]
        for one in metric_results:
            if one.name in self._depths:
                depth = self._depths[one.name]
                self._annotate_result(one, by_depth[depth], provenance, depth)
        annotated = Results(metric_results, sample_ids=results.sample_ids, run_id=results.run_id)
        annotated.failure, annotated.warnings = results.failure, results.warnings
        return annotated

    def _annotate_result(
        self, result: MetricResult, share: MetricResult, provenance: MetricResult | None, depth: int | None
    ) -> None:
        share_details = share.details
        results, unjudged = share_details.get("num_results") or 0, share_details.get("num_unjudged") or 0
        gold = self._gold or {}
        if provenance is not None:
            gold = {by: provenance.details.get(f"num_{by}") or 0 for by in _PROVENANCES}
        details: dict[str, Any] = {
            "judged": share.value if share.defined else None,
            "judged_depth": depth,
            "unjudged_share": unjudged / results if results else None,
            "num_unjudged": unjudged,
            "gold_by": {by: count for by, count in gold.items() if count},
        }
        result.details |= details
        for name, groups in result.slices.items():
            for group, part in groups.items():
                inner = share.slices[name][group]
                self._annotate_result(
                    part, inner, None if provenance is None else provenance.slices[name][group], depth
                )


def _is_retrieval(metric: Metric) -> bool:
    """Whether a metric compares the ranking with gold: ids, parents or passages. Only ids are judged."""
    if not isinstance(metric, BatchMetric) or metric.target not in _TARGETS or metric.active_conventions.match != "id":
        return False
    over_parents = not getattr(metric, "ranks_ids", True)
    return over_parents or "relevant_docs" in metric.required_fields()


def _depth(metric: Metric) -> int | None:
    """The cut-off of a metric; ``None`` if it uses the whole ranking."""
    assert isinstance(metric, BatchMetric)
    limits = [one for one in (getattr(metric, "k", None), metric.active_conventions.depth) if isinstance(one, int)]
    return min(limits, default=None)


def _unique_name(name: str, used_names: set[str]) -> str:
    while name in used_names:
        name += "'"
    return name


# --- scoring and rescoring of stored outputs -------------------------------------------------------------------------

_CHUNK = 1024


ScoringOptions = Scoring
"""The executor and batch size, as in a plan; results do not depend on them."""


def score_run(
    store: RunStore,
    record: RunRecord,
    metrics: Sequence[Metric] | None,
    *,
    conventions: Conventions,
    reading: GoldReading | None = None,
    slices: Sequence[SliceSpec] = (),
    options: Scoring = Scoring(),
    samples: Sequence[EvaluationSample] | None = None,
    judging: JudgePolicy | None = None,
    progress: Progress | None = None,
    judge_progress: Callable[[], JudgeProgress] = ignore_progress,
    secrets: Iterable[str] = (),
    gold: str | None = None,
    corpus: Path | None = None,
    two_stage: TwoStageSettings | None = None,
    stop: StopRequest | None = None,
    on_look: LookProgress = ignore_looks,
    invalid: Sequence[int] = (),
    details: Mapping[str, Mapping[str, Any]] | None = None,
) -> Results:
    """Score the stored outputs of a run and store the results; results with other signatures are kept.

    ``metrics`` of None selects all that the data supports. They match gold as ``conventions`` say, and ``reading`` is
    what decided that, where it was ``auto``. ``judging`` is the policy for judge calls.
    ``judge_progress`` is called before the first judge call and returns a function to call after each judgement.
    ``gold`` names the gold that replaces that of the run in ``samples``. ``corpus`` is the file of the documents that
    answers may cite. The golden-query metrics of a run with expected chunks are stored too. If gold has provenance,
    every retrieval metric reports how much of its ranking is judged. ``stop`` says when judging stops early, and
    ``on_look`` is called before each look. With ``two_stage``, an expensive judge scores a draw of the samples.
    Samples at the positions ``invalid`` are skipped, and ``details`` are added to the results by name; neither is
    used with judge metrics.
    """
    rows = lazy_samples(store, record.run_id) if samples is None else samples
    retrieved = _RetrievedCheck()
    each = [_reader(store, record, repeat, retrieved) for repeat in range(record.repeats)]
    if metrics is None:
        chosen = resolve_metrics(_supported_specs(rows, each, conventions), conventions)
        affected = metrics_needing_retrieved(chosen) if retrieved.none_known else ()
        chosen = [one for one in chosen if one.name not in affected and (gold is None or _reads_gold(one))]
    else:
        chosen = [with_match(metric, conventions.match) for metric in metrics]
    if corpus is not None:
        chosen = with_corpus_ids(chosen, partial(corpus_ids, corpus))
    groups = parse_slices(slices)
    EvaluationPlan(chosen).validate_dataset(rows)
    require_slice_values(groups, rows)
    facts = replace(run_info(record), gold=gold)
    known_provenance = samples is not None or samples_contain(store, record.run_id, GOLD_BY)
    coverage = JudgedCoverage(chosen) if known_provenance and has_gold_provenance(rows) else None
    every = chosen if coverage is None else [*chosen, *coverage.metrics]
    signatures = judged_signatures(chosen, facts)
    session: RunJudgeSession | None = None
    looks: SequentialJudging | None = None
    policy = judging or JudgePolicy()
    if signatures:
        looks = prepare_judging(
            store,
            record,
            chosen,
            rows,
            stop or StopRequest(),
            info=facts,
            policy=policy,
            batch_size=options.batch_size,
            on_look=on_look,
        )
        session = RunJudgeSession(
            policy,
            store,
            record,
            signatures=signatures,
            samples=rows,
            repeat=lambda: retrieved.repeat if looks is None else looks.scores.repeat,
            progress=judge_progress(),
            secrets=secrets,
        )
    elif stop is not None and (stop.is_explicit or stop.proceed):
        raise BadValueError(
            "none of the metrics calls a judge, so there is no judging to stop or to continue; name one that does"
        )
    common: dict[str, Any] = {
        "conventions": Conventions.of(match=conventions.match),
        "slices": groups,
        "batch_size": options.batch_size,
        "run": facts,
        "judging": session,
    }

    def evaluate_metrics(some: Sequence[Metric], progress: Progress | None = progress) -> Results:
        return evaluate_outputs(rows, each, some, **common, progress=progress)

    with (
        make_executor(options.executor, options.workers, options.address) as executor,
        nullcontext() if session is None else session.store_judgements(keep=looks is not None and looks.is_resumed),
    ):
        common["executor"] = executor if not len(invalid) else SkippingExecutor(executor, invalid)
        if looks is not None and session is not None:
            common["executor"] = looks.judge_run(session, executor, partial(_baseline_session, store, session, secrets))
        if two_stage is None or session is None:
            results = evaluate_metrics(every)
        else:
            from .two_stage import score_in_two_stages

            results = score_in_two_stages(
                two_stage,
                every,
                evaluate_metrics,
                store=store,
                record=record,
                run=facts,
                samples=rows,
                outputs=each[0],
                session=session,
                slices=groups,
            )
    if coverage is not None:
        results = coverage.annotate(results)
    if session is not None:
        record_usage(results, session.usage_log)
        add_control_drift(store, record, results)
    if looks is not None:
        looks.add_details(results)
        _store_baseline(store, looks, conventions=common["conventions"], slices=groups, batch_size=options.batch_size)
    retrieved.check(chosen, record)
    results.run_id = record.run_id
    outputs = store.outputs(record.run_id, texts=False)
    results.failure = mass_failure(results, (row.output.error for row in outputs if row.output.error is not None))
    reducers = {one.name: one.reducer.name for one in chosen if isinstance(one, BatchMetric)}
    _add_details(results, chosen, details or {})
    describe_gold(results, chosen, store, record, rows, conventions=conventions, reading=reading)
    store.put_results(record.run_id, results, reducers=reducers)
    store_missing_aggregate(store, record, corpus=corpus, again=details is None)  # corrections do not change it
    return results


def evaluate_outputs(
    samples: Sequence[EvaluationSample],
    repeats: Sequence[Callable[[], Iterator[SystemOutputs | None]]],
    metrics: Sequence[Metric],
    **options: Any,
) -> Results:
    """Evaluate outputs that are read again for each pass: ``repeats`` has a function for those of each repeat."""
    if len(repeats) > 1:
        return evaluate_repeats(list(samples), repeats, metrics, **options)
    if all(isinstance(metric, BatchMetric) for metric in metrics):
        return evaluate_stream(zip(samples, repeats[0](), strict=True), metrics, samples=samples, **options)
    return evaluate(samples, list(repeats[0]()), metrics, **options)  # such a metric needs all samples at once


@contextmanager
def _baseline_session(
    store: RunStore, session: RunJudgeSession, secrets: Iterable[str], scores: PartialScores
) -> Iterator[RunJudgeSession]:
    """A session that judges the baseline of a run, with the budget and the progress of the session of the run."""
    own = RunJudgeSession(
        replace(session.policy, controls=0),
        store,
        scores.record,
        signatures=judged_signatures(scores.metrics, scores.info),
        samples=scores.samples,
        repeat=lambda: scores.repeat,
        progress=session.add_progress(),
        secrets=secrets,
        budget_of=session,
    )
    with own.store_judgements(keep=True):
        yield own


def _store_baseline(
    store: RunStore, looks: SequentialJudging, *, conventions: Conventions, slices: Sequence[Slice], batch_size: int
) -> None:
    """Store the results of the baseline, if it was judged in the same order as the run."""
    scores = looks.baseline
    if scores is None or not scores.asked.any():
        return
    record, executor = scores.record, KnownScores(SerialExecutor(), scores)
    outputs = [partial(aligned_outputs, store, record.run_id, repeat=one, texts=False) for one in range(record.repeats)]
    results = evaluate_outputs(
        scores.samples,
        outputs,
        scores.originals,
        conventions=conventions,
        slices=slices,
        batch_size=batch_size,
        run=run_info(record),
        executor=executor,
    )
    if looks.baseline_usage is not None:
        record_usage(results, looks.baseline_usage)
    scores.add_earlier_details(results)
    _add_details(results, scores.originals)
    store.put_results(record.run_id, results, reducers={one.name: one.reducer.name for one in scores.originals})


def _add_details(
    results: Results, metrics: Sequence[Metric], details: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
) -> None:
    """Add ``details`` to the results by name, and a mark to those of unregistered metrics where lower is better.

    Readers know the direction of registered metrics.
    """
    lower = {
        one.name
        for one in metrics
        if not getattr(one, "higher_is_better", True) and not hasattr(type(one), "registered_as")
    }
    for result in results:
        if result.name in lower:
            result.details["lower_is_better"] = True
        result.details |= details.get(result.name, {})


def rescore(
    store: RunStore,
    record: RunRecord,
    metrics: Sequence[Spec | Metric] = (),
    *,
    conventions: str | Conventions | None = None,
    match: MatchChoice | None = None,
    slices: Sequence[SliceSpec] | None = None,
    options: Scoring = Scoring(),
    incomplete: bool = False,
    judges: PlannedJudges | None = None,
    progress: Progress | None = None,
    judge_progress: Callable[[], JudgeProgress] = ignore_progress,
    qrels: str | Path | None = None,
    corpus: str | Path | None = None,
    until_decided: bool = False,
    continue_judging: bool = False,
    on_look: LookProgress = ignore_looks,
) -> Results:
    """Compute metrics on stored outputs. The system is not called; results with other signatures are kept.

    Conventions, slices, metrics and judges (``judges_of_run``) are those of the plan of the run unless given; without
    metrics in the plan, all that the data supports are computed. An incomplete run is refused unless ``incomplete`` is
    set; missing outputs then count as failures. ``qrels`` replace the gold of the run; without ``metrics``, only
    metrics that need gold and no judge are computed then. Their signatures differ from those with the gold of the run.
    Gold is matched as in the run, or as ``match`` says: ``auto``, ``id``, ``span``, ``text`` or ``parent``; the plan of
    the run stays. Other gold than that of a run that does not match by id is matched by ``auto``.
    ``corpus`` is the file of the documents that answers may cite; by default that of the plan, if it still exists.
    ``until_decided`` requires the early stop that ``judges`` describe; a stop in the plan of the run applies anyway, to
    the metrics that it names. ``continue_judging`` judges a stopped run to the end, where the first verdict stands.
    """
    done, _ = store.counts(record.run_id)
    expected = record.num_samples * record.repeats
    if done < expected and "system" in record.plan and not incomplete:
        raise BadValueError(
            f"{record.run_id} has only {done} of {expected} outputs; resume it first, or score it as it is with "
            "--incomplete (missing outputs count as failures)"
        )
    if qrels is not None and (until_decided or continue_judging):
        raise BadValueError("judging stops early on the gold of the run only; leave out the qrels")
    gold_metrics_only = qrels is not None and not metrics
    rules = conventions_of_run(record, conventions)
    samples = lazy_samples(store, record.run_id) if qrels is None else with_gold(store.samples(record.run_id), qrels)
    reading = None
    if match is not None or (qrels is not None and rules.match != "id"):
        reading = read_gold(store, record, samples, rules, match or "auto")
        rules = replace(rules, match=reading.resolved.match)
    chosen, judges = rescoring_metrics(
        store, record, metrics, conventions=rules, judges=judges, need_key=not gold_metrics_only
    )
    if gold_metrics_only and chosen is not None:
        chosen = [one for one in chosen if _reads_gold(one)] or None
    store.hide(judges.secrets)
    for warning in same_family_warnings(chosen or (), record.config):
        warnings.warn(warning, AueporaWarning, stacklevel=2)
    with rescoring(store, record):
        return score_run(
            store,
            record,
            chosen,
            conventions=rules,
            reading=reading,
            slices=record.plan.get("slices") or () if slices is None else slices,
            options=options,
            samples=None if qrels is None else samples,
            gold=None if qrels is None else gold_signature(qrels),
            judging=judges.settings.policy_for(store.file, judges.folder),
            progress=progress,
            judge_progress=judge_progress,
            secrets=judges.secrets,
            two_stage=judges.settings.two_stage,
            corpus=planned_corpus(record, judges.folder) if corpus is None else Path(corpus),
            stop=StopRequest(judges.settings.stop, is_explicit=until_decided, proceed=continue_judging),
            on_look=on_look,
        )


def planned_corpus(record: RunRecord, folder: Path) -> Path | None:
    """The corpus of the plan of a run, if the file still exists."""
    written = (record.plan.get("dataset") or {}).get("corpus")
    path = None if written is None else resolve_path(written, folder)
    return path if path is not None and path.exists() else None


INVALID_SAMPLE = "invalid_sample"
"""Why a sample is skipped that a person marked as invalid."""


def skip_invalid(scores: Scores, is_invalid: npt.NDArray[np.bool_]) -> Scores:
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
            yield replace(scored, scores=[skip_invalid(one, is_invalid) for one in scored.scores])


def _reads_gold(metric: Metric) -> bool:
    """Whether a metric needs gold documents and no judge."""
    judged = isinstance(metric, BatchMetric) and any(judged_parts(metric))
    return "relevant_docs" in metric.required_fields() and not judged


def _reader(
    store: RunStore, record: RunRecord, repeat: int, check: _RetrievedCheck
) -> Callable[[], Iterator[SystemOutputs | None]]:
    return lambda: check.count(repeat, aligned_outputs(store, record.run_id, repeat=repeat))


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


def _supported_specs(
    samples: Sequence[EvaluationSample],
    repeats: Sequence[Callable[[], Iterator[SystemOutputs | None]]],
    conventions: Conventions,
) -> list[str]:
    seen = AvailableFields()
    for outputs in repeats:
        source = iter(zip(samples, outputs(), strict=True))
        while chunk := list(islice(source, _CHUNK)):
            seen.add([sample for sample, _ in chunk], [output for _, output in chunk])
    return seen.specs(conventions)
