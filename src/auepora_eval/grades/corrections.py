"""Corrections of gold: proposals in a journal, their effect on all runs of a dataset, and rescoring with them.

A correction changes the grade of a document, the reference answers of a sample, or marks a sample as invalid. It is
proposed, then accepted or withdrawn; the dataset itself is never changed. Results with corrected gold are stored
beside the others, with ``gold:corrections-...`` in their signatures.
"""

from __future__ import annotations

import math
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, islice
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from ..compare.golden import corpus_ids
from ..core.batch import Batch
from ..core.conventions import Signature
from ..core.metric_hooks import is_paired, joins_repeats, pair_samples
from ..core.metrics_base import BatchMetric, Metric, has_signature, is_judged
from ..core.plan import with_corpus_ids
from ..core.reduce import Mean
from ..core.results import Results, display_name, sequential_details, two_stage_details
from ..core.scores import Scores
from ..core.slices import Grouping, SliceSpec, parse_slices
from ..core.types import GOLD_BY, EvaluationSample, MetricResult
from ..engine.evaluate import BATCH_SIZE, CollectingAccumulator, evaluate_stream
from ..engine.executors import SerialExecutor
from ..engine.repeats import join_scores, mean_over_repeats
from ..errors import AueporaError, BadValueError, StoreError, UnknownRunError
from ..io.grades import (
    CORRECTED_GOLD,
    CorrectedGold,
    Correction,
    CorrectionKind,
    CorrectionLog,
    GoldValue,
    check_gold_value,
    describe_gold,
    find_document,
    gold_value,
)
from ..io.jsonl import current_time
from ..report.explain import resolve_result_metric, sample_position
from ..runs.coverage import JudgedCoverage, has_gold_provenance
from ..runs.job import ScoringJob
from ..runs.judging import conventions_of_run, rescoring_metrics
from ..runs.partial_scores import SkippingExecutor, skip_invalid
from ..runs.scoring import CorrectionStep, planned_corpus, score_run
from ..store.records import RunRecord, RunStatus, run_info
from ..store.runs import (
    RunStore,
    aligned_outputs,
    iter_samples,
    lazy_samples,
    packed_outputs,
    rescoring,
    result_summaries,
    result_with_scores,
    sample_at,
    samples_contain,
)


def make_correction(
    store: RunStore,
    record: RunRecord,
    sample_id: str,
    kind: CorrectionKind,
    value: GoldValue | Sequence[str] = True,
    *,
    doc_id: str = "",
    by: str,
    why: str = "",
    accepted: Iterable[Correction] = (),
    submission: str | None = None,
    position: int | None = None,
) -> Correction:
    """A correction of a sample of a run, checked, with the present value and its provenance; nothing is written.

    ``value`` is the grade of the document, the reference answers, or whether the sample is invalid. ``accepted`` are
    the accepted corrections of the dataset. ``submission`` is the id of the form that was sent, which becomes the id
    of the proposal. ``position`` is that of the sample, if it is known: large datasets are then not searched.
    """
    if kind not in get_args(CorrectionKind):
        raise BadValueError(f"a correction cannot be {kind!r:.40}; known: {', '.join(get_args(CorrectionKind))}")
    if not by.strip():
        raise BadValueError("a proposal needs the name of the person who makes it")
    if (kind == "grade") != bool(doc_id):
        raise BadValueError("a grade, and nothing else, needs the id of a document")
    after = check_gold_value(kind, value)
    if position is None:
        position = sample_position(store, record, sample_id)
    sample = sample_at(store, record, position)
    gold = CorrectedGold.of(accepted)
    before = gold_value(gold.correct(sample), kind, doc_id)
    if kind == "invalid":
        before = sample_id in gold.invalid
    if before == after:
        subject = f"document {doc_id!r} of sample {sample_id!r}" if doc_id else f"sample {sample_id!r}"
        raise BadValueError(f"{subject} has this gold already: {describe_gold(kind, after)}")
    document: dict[str, Any] = {}
    if kind == "grade" and find_document(sample, doc_id) is None:
        document = _returned_document(store, record, position, doc_id)
    return Correction(
        secrets.token_hex(6) if submission is None else submission,
        kind,
        fingerprint=record.fingerprint,
        sample_id=sample_id,
        before=before,
        after=after,
        doc_id=doc_id,
        by=by.strip(),
        at=current_time(),
        why=why.strip(),
        run=record.run_id,
        document=document,
    )


def _returned_document(store: RunStore, record: RunRecord, position: int, doc_id: str) -> dict[str, Any]:
    """Text, parent and span of a document that the run returned for the sample; empty if it did not."""
    for row in store.outputs(record.run_id, position=position):
        for item in row.output.retrieved:
            if item.doc.doc_id == doc_id:
                values = {"text": item.doc.text, "parent_id": item.doc.parent_id, "span": item.doc.span}
                return {key: value for key, value in values.items() if value}
    return {}


# --- the effect of corrections on the results of a run ---------------------------------------------------------------

EffectStatus = Literal["computed", "needs judging", "not computed"]


@dataclass(frozen=True, slots=True)
class MetricEffect:
    """How the value of one metric of a run changes."""

    name: str
    signature: str
    """The signature with the corrected gold."""
    old: float | None
    """The present value; ``None`` if it is undefined."""
    new: float | None = None
    changed: tuple[str, ...] = ()
    """The ids of the samples whose score or outcome changes."""
    status: EffectStatus = "computed"
    """``needs judging``: a judge reads the gold, and would have to be called."""
    why: str = ""
    """Why there is no new value."""
    label: str = ""
    """The name for display; empty where it is ``name``."""

    @property
    def difference(self) -> float | None:
        """New minus old."""
        return None if self.old is None or self.new is None else self.new - self.old

    def to_dict(self) -> dict[str, Any]:
        """The effect as a JSON object."""
        values = {"metric": self.name, "signature": self.signature, "old": self.old, "new": self.new}
        why = {"why": self.why} if self.why else {}
        return {**values, "difference": self.difference, "changed": list(self.changed), "status": self.status, **why}


@dataclass(frozen=True, slots=True)
class RunEffect:
    """How the results of one run change: the metrics that read the corrected gold, and a reason if there is none."""

    record: RunRecord
    metrics: tuple[MetricEffect, ...] = ()
    why: str = ""
    """Why the run cannot be scored again."""

    def to_dict(self) -> dict[str, Any]:
        """The effect as a JSON object."""
        why = {"why": self.why} if self.why else {}
        return {
            "run_id": self.record.run_id,
            "name": self.record.name,
            "metrics": [metric.to_dict() for metric in self.metrics],
            **why,
        }


def run_names(effects: Iterable[RunEffect]) -> dict[str, str]:
    """The name of each run by its id; with the id if several have the name."""
    records = [effect.record for effect in effects]
    counts = Counter(record.name for record in records)
    ids = {record.run_id: f" ({record.run_id})" for record in records if counts[record.name] > 1}
    return {record.run_id: record.name[:100] + ids.get(record.run_id, "") for record in records}


RunProgress = Callable[[int, int], None]
"""Called with the number of finished runs and of all."""


def runs_of_dataset(store: RunStore, fingerprint: str) -> list[RunRecord]:
    """The runs on a dataset, newest first."""
    return [run for run in store.runs() if run.fingerprint == fingerprint]


RUNS_READ = 50
"""In at most so many runs of a dataset the texts of gold documents are looked for."""
OUTPUTS_READ = 3_000
"""Among so many of their outputs documents are looked for that no run returned for the sample itself."""


def returned_gold_texts(
    store: RunStore, record: RunRecord, position: int | None, sample: EvaluationSample | None
) -> dict[str, str]:
    """Texts of gold documents that have none in the sample, as a run of the dataset returned them for any sample."""
    relevant = [] if sample is None else sample.relevant_docs or []
    wanted = {doc.doc_id for doc in relevant if not doc.text}
    texts: dict[str, str] = {}
    if not wanted:
        return texts
    runs = list({run.run_id: run for run in [record, *runs_of_dataset(store, record.fingerprint)[:RUNS_READ]]}.values())
    for run in runs:
        texts |= _returned_texts(store, run, position, wanted - texts.keys())
    left = OUTPUTS_READ
    for run in runs:
        for at, _, output in islice(packed_outputs(store, run), left):
            left -= 1
            if missing := wanted.difference(texts).intersection(output.ids):
                texts |= _returned_texts(store, run, at, missing)
            if wanted == texts.keys():
                return texts
    return texts


def _returned_texts(store: RunStore, record: RunRecord, position: int | None, wanted: Set[str]) -> dict[str, str]:
    """The texts of some documents in the outputs of a run for one sample."""
    if not wanted:
        return {}
    rows = store.outputs(record.run_id, position=position)
    hits = chain.from_iterable(row.output.retrieved for row in rows)
    return {hit.doc.doc_id: hit.doc.text for hit in hits if hit.doc.doc_id in wanted and hit.doc.text}


def preview_corrections(
    store: RunStore,
    corrections: Iterable[Correction],
    *,
    accepted: Iterable[Correction] = (),
    records: Sequence[RunRecord] | None = None,
    progress: RunProgress | None = None,
) -> list[RunEffect]:
    """The effect of corrections on the runs of their dataset, beyond those that are accepted; nothing is written.

    Without any correction it is that of withdrawals on ``records`` whose results still have corrected gold.
    Only samples whose gold changes are scored; the others keep their stored scores. The new value is that of
    ``apply_corrections`` to the last bit, except for metrics whose model rounds differently in another batch.
    """
    gold = CorrectedGold.of([*accepted, *corrections])
    if records is None:
        every = chain.from_iterable(gold.by_sample.values())
        fingerprint = next((correction.fingerprint for correction in every), None)
        records = [] if fingerprint is None else runs_of_dataset(store, fingerprint)
    return _run_effects(store, records, gold, progress=progress)


def apply_corrections(
    store: RunStore,
    log: CorrectionLog,
    fingerprint: str,
    correction_ids: Iterable[str] = (),
    *,
    by: str,
    records: Sequence[RunRecord] | None = None,
    progress: RunProgress | None = None,
) -> list[RunEffect]:
    """Accept proposals of a dataset, and rescore its runs with all corrections that are accepted.

    The new results are stored beside the old ones and become the current ones. Without ids, it does what is left to
    do: after an interruption, for new runs, or after a withdrawal, which makes the results without the correction
    current again. Metrics whose judge reads the gold are listed with the status ``needs judging`` and not changed.
    """
    chosen = [log.find(correction_id).correction for correction_id in correction_ids]
    other = next((correction for correction in chosen if correction.fingerprint != fingerprint), None)
    if other is not None:
        raise BadValueError(f"proposal {other.id} is of another dataset, {other.fingerprint[:12]}; apply it there")
    log.accept([correction.id for correction in chosen], by=by)
    gold = CorrectedGold.of(log.accepted(fingerprint))
    listed = runs_of_dataset(store, fingerprint) if records is None else records
    return _run_effects(store, listed, gold, progress=progress, is_stored=True)


def corrected_dataset(
    store: RunStore, record: RunRecord, corrections: Iterable[Correction]
) -> Iterator[EvaluationSample]:
    """The samples of a run with corrected gold, without invalid ones, as a dataset for future runs."""
    gold = CorrectedGold.of(corrections)
    for sample in lazy_samples(store, record.run_id):
        if sample.sample_id not in gold.invalid:
            yield gold.correct(sample)


def _run_effects(
    store: RunStore,
    records: Sequence[RunRecord],
    gold: CorrectedGold,
    *,
    progress: RunProgress | None,
    is_stored: bool = False,
) -> list[RunEffect]:
    """The effect on each run; the new results are stored if requested."""
    effects = []
    dataset = _CorrectedDataset(store, records[0], gold) if records else None
    for number, record in enumerate(records, start=1):
        assert dataset is not None
        try:
            effects.append(_run_effect(dataset, record, is_stored=is_stored))
        except UnknownRunError as error:  # another process deleted it
            effects.append(RunEffect(record, why=str(error)))
        if progress is not None:
            progress(number, len(records))
    return effects


def _run_effect(dataset: _CorrectedDataset, record: RunRecord, *, is_stored: bool) -> RunEffect:
    if record.status in (RunStatus.RUNNING, RunStatus.INTERRUPTED):
        return RunEffect(record, why=f"the run is {record.status.value}")
    run = _CorrectedRun(dataset, record)
    if not is_stored:
        return RunEffect(record, tuple(map(run.preview, run.tasks)))
    with rescoring(dataset.store, record):
        return RunEffect(record, tuple(run.store_results()))


class _CorrectedDataset:
    """What the runs on a dataset with corrected gold have in common."""

    def __init__(self, store: RunStore, record: RunRecord, gold: CorrectedGold) -> None:
        """``record`` is any run on the dataset."""
        self.store, self.gold = store, gold
        self.ids = store.sample_ids(record.run_id)
        places = {sample_id: place for place, sample_id in enumerate(self.ids)}
        unknown = next((sample_id for sample_id in gold.by_sample if sample_id not in places), None)
        if unknown is not None:
            raise BadValueError(f"{record.run_id} has no sample {unknown!r:.80}, which a correction changes")
        self.changed = sorted(
            {places[correction.sample_id] for correction in gold.corrections if correction.kind != "invalid"}
        )
        """The positions of samples with other grades or reference answers."""
        self.invalid = sorted(places[sample_id] for sample_id in gold.invalid)
        """The positions of invalid samples."""
        self.is_changed = np.isin(np.arange(len(self.ids)), self.changed)
        self.is_invalid = np.isin(np.arange(len(self.ids)), self.invalid)
        self.samples = (
            [gold.correct(sample) for sample in iter_samples(store, record.run_id, positions=set(self.changed))]
            if self.changed
            else []
        )
        """The changed samples."""
        self.metrics: dict[tuple[str, str | None], Metric | None] = {}
        """The metrics of results by name and signature."""
        self._run_id = record.run_id
        self._groupings: dict[str, Grouping] = {}

    def grouping(self, slices: Sequence[SliceSpec]) -> Grouping:
        """Clusters and slices of all samples; runs with the same slices share them."""
        key = repr(slices)
        if key not in self._groupings:
            found = Grouping(parse_slices(slices), keep=True)
            samples = iter_samples(self.store, self._run_id, texts=False)
            while chunk := list(islice(samples, BATCH_SIZE)):
                found.add(chunk)
            self._groupings[key] = found
        return self._groupings[key]

    @cached_property
    def has_provenance(self) -> bool:
        """Whether samples have gold with provenance, so that results report how much of a ranking is judged."""
        if not samples_contain(self.store, self._run_id, GOLD_BY):
            return False
        return has_gold_provenance(iter_samples(self.store, self._run_id, texts=False))


@dataclass(frozen=True, slots=True)
class _MetricTask:
    """A stored result that is not the one of the corrected gold."""

    base: MetricResult
    """With the gold of the dataset."""
    current: MetricResult
    """The latest one, with or without corrections."""
    signature: str
    """The signature that the current result should have."""
    stored: MetricResult | None = None
    """The result with that signature, if there is one."""
    metric: BatchMetric | None = None
    reads_gold: bool = False
    """Whether the scores of samples with other gold may change."""
    status: EffectStatus = "computed"
    why: str = ""

    def effect(self, new: float | None = None, changed: tuple[str, ...] = ()) -> MetricEffect:
        """The effect with this new value, or why there is none."""
        old = self.current.value if self.current.defined else None
        return MetricEffect(
            self.base.name,
            self.signature,
            old=old,
            new=new,
            changed=changed,
            status=self.status,
            why=self.why,
            label=display_name(self.base),
        )


class _CorrectedRun:
    """One run with corrected gold: its metrics, their scores and results."""

    def __init__(self, dataset: _CorrectedDataset, record: RunRecord) -> None:
        self._dataset, self._store, self._gold = dataset, dataset.store, dataset.gold
        self._record = record
        self._known_metrics: dict[str, Metric] | None = None
        self._reducers: dict[str, str] = {}
        self._last: MetricResult | None = None  # the result that was read last, with its scores

    @cached_property
    def tasks(self) -> list[_MetricTask]:
        """The metrics whose current result is not the one of the corrected gold."""
        by_name: dict[str, list[MetricResult]] = {}
        for result in result_summaries(self._store, self._record.run_id, every_signature=True):
            by_name.setdefault(result.name, []).append(result)
        return [task for results in by_name.values() if (task := self._task(results)) is not None]

    def _task(self, results: Sequence[MetricResult]) -> _MetricTask | None:
        """The task of the results of one metric, oldest first; ``None`` if there is nothing to do."""
        base = next((result for result in reversed(results) if _gold_option(result) is None), None)
        if base is None:
            return None  # only with other gold, such as a qrels file
        current = [result for result in results if result is base or _is_correction_of(result, base)][-1]
        key = base.name, base.signature
        if key not in self._dataset.metrics:
            self._dataset.metrics[key] = self._find_metric(base)
        metric = self._dataset.metrics[key]
        kinds = self._gold.kinds & _gold_kinds(metric)
        signature = _with_gold(base.signature, self._gold.signature if kinds else None)
        if signature == current.signature:
            return None
        stored = next((result for result in results if result.signature == signature), None)
        task = _MetricTask(base, current, signature or "", stored)
        if isinstance(metric, BatchMetric):
            self._reducers[base.name] = metric.reducer.name
        if stored is not None:
            return task
        if signature is None or not isinstance(metric, BatchMetric):
            why = "it is not known here by this signature" if metric is None else "it has no score per sample"
            return replace(task, status="not computed", why=why)
        task = replace(task, metric=metric, reads_gold=bool(kinds - {"invalid"}))
        if is_judged(metric) and (task.reads_gold or self._record.repeats > 1 or _is_judged_in_part(base)):
            why = "its judge reads the gold" if task.reads_gold else "its judgements are not kept by sample and repeat"
            return replace(task, status="needs judging", why=why)
        return task

    def _find_metric(self, base: MetricResult) -> Metric | None:
        """The metric of a result: one with its signature, or one that computes over all samples at once."""
        info = run_info(self._record)
        for plan_metrics in (dict, self._plan_metrics):
            found = resolve_result_metric(base, self._record, plan_metrics())
            if not isinstance(found.metric, BatchMetric):
                if found.metric is not None:
                    return found.metric
            elif has_signature(found.metric, info, base.signature) or (is_judged(found.metric) and not found.differs):
                return found.metric
        return None

    def _plan_metrics(self) -> dict[str, Metric]:
        """The metrics of the plan by name, with their resources and the ids of the corpus, as far as they exist."""
        if self._known_metrics is None:
            self._known_metrics = {}
            with suppress(AueporaError):
                metrics, judges = rescoring_metrics(self._store, self._record, (), need_key=False)
                corpus = planned_corpus(self._record, judges.folder)
                listed = metrics or []
                if corpus is not None:
                    listed = with_corpus_ids(listed, partial(corpus_ids, corpus))
                self._known_metrics = {metric.name: metric for metric in listed}
        return self._known_metrics

    def preview(self, task: _MetricTask) -> MetricEffect:
        """The effect on a metric, computed without storing anything."""
        if task.status != "computed":
            return task.effect()
        try:
            if task.stored is not None:
                return self._effect_of(task, self._read(task.stored))
            assert task.metric is not None
            scores = self._scores(task, task.metric)
            reducer, folded = mean_over_repeats(task.metric.reducer, scores)
            value = reducer.value(folded)
            return task.effect(None if math.isnan(value) else value, self._changed_ids(task, scores))
        except (StoreError, UnknownRunError):
            raise
        except AueporaError as error:  # a model that is not there, or scores of an earlier version
            return replace(task, status="not computed", why=str(error)).effect()

    def store_results(self) -> list[MetricEffect]:
        """Compute the results that are missing, store them, and make them the current ones."""
        tasks = {task.base.name: task for task in self.tasks}
        results: list[MetricResult] = []
        computed: dict[str, BatchMetric] = {}
        rest: list[BatchMetric] = []
        for name, task in tasks.items():
            if task.status != "computed":
                continue
            try:
                if task.stored is not None:
                    results.append(self._read(task.stored))
                elif task.metric is not None and self._has_all_scores(task.metric):
                    results.append(self._result(task, task.metric))
                    computed[name] = task.metric
                elif task.metric is not None:
                    rest.append(task.metric)
            except (StoreError, UnknownRunError):
                raise
            except AueporaError as error:
                tasks[name] = replace(task, status="not computed", why=str(error))
        if computed and self._dataset.has_provenance:
            self._add_coverage([result for result in results if result.name in computed], list(computed.values()))
        self._store.put_results(
            self._record.run_id,
            results,
            reducers={result.name: self._reducers.get(result.name, "") for result in results},
        )
        if rest:
            try:
                results += self._rescore(rest, tasks)
            except (StoreError, UnknownRunError):
                raise
            except AueporaError as error:
                failed = {metric.name for metric in rest}
                tasks |= {name: replace(tasks[name], status="not computed", why=str(error)) for name in failed}
        new = {result.name: result for result in results}
        return [self._effect_of(task, new.get(name)) for name, task in tasks.items()]

    def _has_all_scores(self, metric: BatchMetric) -> bool:
        """Whether its stored scores and those of the changed samples make the whole result."""
        return is_judged(metric) or (not is_paired(metric) and self._record.repeats == 1)

    def _add_coverage(self, results: Sequence[MetricResult], metrics: Sequence[BatchMetric]) -> None:
        """Add to the results of retrieval metrics how much of the rankings is judged, as ``score_run`` does."""
        coverage = JudgedCoverage(metrics)
        if not coverage.metrics:
            return
        store, run_id = self._store, self._record.run_id
        samples = map(self._gold.correct, iter_samples(store, run_id, texts=False))
        found = evaluate_stream(
            zip(samples, aligned_outputs(store, run_id, texts=False), strict=True),
            coverage.metrics,
            slices=parse_slices(self._record.plan.get("slices") or ()),
            executor=SkippingExecutor(SerialExecutor(), self._dataset.invalid),
            run=run_info(self._record),
        )
        coverage.annotate(Results([*results, *found]))

    def _rescore(self, metrics: Sequence[BatchMetric], tasks: Mapping[str, _MetricTask]) -> list[MetricResult]:
        """Score the run with the corrected gold by these metrics, and store the results."""
        record = self._record
        details = {metric.name: self._details(tasks[metric.name].base) for metric in metrics}
        job = ScoringJob(
            self._store,
            record,
            metrics,
            conventions=conventions_of_run(record, None),
            slices=record.plan.get("slices") or (),
            samples=[self._gold.correct(sample) for sample in self._store.samples(record.run_id)],
            gold=self._gold.signature,
            renews_aggregate=False,
        )
        return score_run(job, [CorrectionStep(self._dataset.invalid, details)])

    def _result(self, task: _MetricTask, metric: BatchMetric) -> MetricResult:
        """The result from stored scores and those of the changed samples, as ``score_run`` makes it from all."""
        accumulator = CollectingAccumulator(metric, run_info(self._record))
        accumulator.start_pass()
        accumulator.add(self._scores(task, metric), {})
        result = accumulator.result(self._dataset.grouping(self._record.plan.get("slices") or ()))
        for part in (result, *chain.from_iterable(groups.values() for groups in result.slices.values())):
            part.signature = task.signature
        result.details.corrections = self._details(task.base)
        if task.base.details.lower_is_better is not None:
            result.details.lower_is_better = task.base.details.lower_is_better
        return result

    def _details(self, base: MetricResult) -> dict[str, Any]:
        """What a result with corrected gold records of it."""
        value = base.value if base.defined else None
        return {"count": len(self._gold.corrections), "invalid": len(self._dataset.invalid), "value_before": value}

    def _effect_of(self, task: _MetricTask, result: MetricResult | None) -> MetricEffect:
        if result is None:
            return task.effect()
        scores = result.scores
        changed = self._changed_ids(task, scores) if isinstance(scores, Scores) else ()
        return task.effect(result.value if result.defined else None, changed)

    def _changed_ids(self, task: _MetricTask, scores: Scores) -> tuple[str, ...]:
        """The samples with another score or outcome than in the current result."""
        before = self._read(task.current).scores
        if not isinstance(before, Scores) or len(before) != len(scores):
            return ()
        same = _equal(before.values, scores.values) & (before.status == scores.status)
        if before.stats is not None and scores.stats is not None and before.stats.shape == scores.stats.shape:
            same &= _equal(before.stats, scores.stats).all(axis=1)
        return tuple(self._dataset.ids[place] for place in np.flatnonzero(~same))

    def _read(self, summary: MetricResult) -> MetricResult:
        if self._last is None or (self._last.name, self._last.signature) != (summary.name, summary.signature):
            self._last = result_with_scores(self._store, self._record.run_id, summary)
        return self._last

    def _scores(self, task: _MetricTask, metric: BatchMetric) -> Scores:
        """The scores of all samples: stored ones, and new ones where the gold has changed."""
        if is_paired(metric):  # the scores of several samples depend on each other
            return self._score(metric, every=True)
        scores = self._read(task.base).scores
        if not isinstance(scores, Scores) or len(scores) != len(self._dataset.ids):
            raise BadValueError(f"no score per sample is stored for '{metric.name}'; rescore the run")
        if task.reads_gold and self._dataset.changed:
            rows, rest = np.flatnonzero(self._dataset.is_changed), np.flatnonzero(~self._dataset.is_changed)
            new = self._score(metric, every=False)
            if scores.keys is None:
                new = replace(new, keys=None)  # keys that are not valid JSON are not stored
            scores = Scores.woven((rest, scores.take(rest)), (rows, new))
        return skip_invalid(scores, self._dataset.is_invalid)

    def _score(self, metric: BatchMetric, *, every: bool) -> Scores:
        """Score the changed samples, or all; means over repeats, with the scores of each where the value is no mean."""
        parts = []
        for repeat in range(self._record.repeats):
            batches = self._all_batches(repeat) if every else self._changed_batches[repeat]
            scored = SerialExecutor().score(batches, [metric])
            scores = Scores.concat([part.scores[0] for part in scored])
            if every:
                scores = skip_invalid(scores, self._dataset.is_invalid)
            parts.append(pair_samples(metric, scores))
        if len(parts) == 1:
            return parts[0]
        joined = join_scores(metric, parts)
        whole = isinstance(metric.reducer, Mean) or joins_repeats(metric)
        return joined if whole else replace(joined, repeats=tuple(parts))

    def _all_batches(self, repeat: int) -> Iterator[Batch]:
        run_id = self._record.run_id
        pairs = zip(iter_samples(self._store, run_id), aligned_outputs(self._store, run_id, repeat=repeat), strict=True)
        while chunk := list(islice(pairs, BATCH_SIZE)):
            yield Batch([self._gold.correct(sample) for sample, _ in chunk], [output for _, output in chunk])

    @cached_property
    def _changed_batches(self) -> list[list[Batch]]:
        """For each repeat, the samples with corrected gold and their outputs; all metrics share their features."""
        store, record, places = self._store, self._record, self._dataset.changed
        if len(places) <= _MAX_SINGLE_READS:
            rows = list(chain.from_iterable(store.outputs(record.run_id, position=place) for place in places))
        else:
            rows = list(store.outputs(record.run_id, positions=set(places)))
        outputs = {(row.position, row.repeat): row.output for row in rows}
        batches = []
        for repeat in range(record.repeats):
            of_repeat = [outputs.get((place, repeat)) for place in places]
            batches.append([Batch(self._dataset.samples, of_repeat)])
        return batches


_MAX_SINGLE_READS = 50
"""Number of samples up to which outputs are read one by one, not by a pass over the run."""


def _equal(before: npt.NDArray[np.float64], after: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Which numbers are the same, or both missing."""
    same: npt.NDArray[np.bool_] = (before == after) | (np.isnan(before) & np.isnan(after))
    return same


def _gold_option(result: MetricResult) -> str | None:
    """The gold in the signature of a result; ``None`` for that of the dataset."""
    with suppress(AueporaError):
        return Signature.parse(result.signature or "").options.get("gold")
    return None


def _with_gold(signature: str | None, gold: str | None) -> str | None:
    """The signature with other gold; ``None`` if it is not one that can have it."""
    if gold is None:
        return signature
    with suppress(AueporaError):
        return str(Signature.parse(signature or "").with_options(gold=gold))
    return None


def signature_before(signature: str) -> str:
    """The signature of the same result with the gold of the dataset; unchanged if the gold was not corrected."""
    with suppress(AueporaError):
        parsed = Signature.parse(signature)
        options = {
            key: option
            for key, option in parsed.options.items()
            if key != "gold" or not option.startswith(CORRECTED_GOLD)
        }
        return str(replace(parsed, options=options))
    return signature


def _is_correction_of(result: MetricResult, base: MetricResult) -> bool:
    gold = _gold_option(result) or ""
    return gold.startswith(CORRECTED_GOLD) and _with_gold(base.signature, gold) == result.signature


def _is_judged_in_part(result: MetricResult) -> bool:
    """Whether the value is not the mean of the scores of all samples: judging stopped early, or had two stages."""
    return sequential_details(result) is not None or two_stage_details(result) is not None


def _gold_kinds(metric: Metric | None) -> frozenset[CorrectionKind]:
    """The kinds of corrections that change a metric; all of them if it is not known."""
    if metric is None:
        return frozenset(get_args(CorrectionKind))
    fields = set(metric.required_fields())
    kinds: set[CorrectionKind] = {"invalid"}
    if isinstance(metric, BatchMetric):
        fields |= {_FIELDS[skip_reason] for skip_reason in metric.metadata.skip_reasons if skip_reason in _FIELDS}
        for part in metric.inner_metrics():
            kinds |= _gold_kinds(part)
    if "relevant_docs" in fields:
        kinds.add("grade")
    if "reference_answer" in fields:
        kinds.add("references")
    return frozenset(kinds)


_FIELDS = {
    "no_gold": "relevant_docs",
    "empty_gold": "relevant_docs",
    "no_reference": "reference_answer",
    "empty_reference": "reference_answer",
}
"""The field of a sample whose absence is a reason to skip it."""
