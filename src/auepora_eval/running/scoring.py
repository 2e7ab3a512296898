"""Stored outputs to stored results: what a run does at its end, and what scoring again does."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..compare.aggregate import corpus_ids, store_missing_aggregate
from ..core.conventions import Conventions
from ..core.engine import BATCH_SIZE, Progress, evaluate, evaluate_stream, resolve_metrics
from ..core.errors import AueporaWarning, BadValueError
from ..core.executors import ExecutorName, make_executor
from ..core.judged_metric import judged_parts
from ..core.mass_failures import mass_failure
from ..core.metrics_base import BatchMetric, Metric
from ..core.plan import EvaluationPlan, with_corpus_ids
from ..core.registry import Spec
from ..core.repeats import evaluate_repeats
from ..core.resources import use_resources
from ..core.results import Results
from ..core.slices import SliceSpec, parse_slices, require_slice_values
from ..core.suggest import AvailableFields, metrics_needing_retrieved
from ..core.types import EvaluationSample, SystemOutputs, UnknownRanking
from ..judge.policy import JudgePolicy
from ..judge.prompting import prompt_folder
from ..planfile.planned_judges import PlannedJudges
from ..planfile.resources_section import used_resources
from ..planfile.sections import resolve_path
from ..pooling.gold import gold_signature, with_gold
from ..pooling.judged_coverage import JudgedCoverage, has_gold_provenance
from ..store.stored_plan import plan_conventions, run_info
from .judging import JudgeProgress, RunJudgeSession, ignore_progress, judged_signatures, judges_of_run, record_usage

if TYPE_CHECKING:
    from ..store.records import RunRecord
    from ..store.runs import RunStore

__all__ = ["ScoringOptions", "rescore", "rescoring_metrics", "score_run", "stored_outputs"]

_CHUNK = 1024


@dataclass(frozen=True, slots=True)
class ScoringOptions:
    """Who scores, and how much at once; no number depends on it."""

    executor: ExecutorName = "serial"
    workers: int | None = None
    batch_size: int = BATCH_SIZE
    address: str | None = None
    """Of a cluster."""


def score_run(
    store: RunStore,
    record: RunRecord,
    metrics: Sequence[Metric] | None,
    *,
    conventions: Conventions,
    slices: Sequence[SliceSpec] = (),
    options: ScoringOptions = ScoringOptions(),  # noqa: B008 -- frozen
    samples: Sequence[EvaluationSample] | None = None,
    judging: JudgePolicy | None = None,
    progress: Progress | None = None,
    judged: Callable[[], JudgeProgress] = ignore_progress,
    secrets: Iterable[str] = (),
    gold: str | None = None,
    corpus: Path | None = None,
) -> Results:
    """Score the stored outputs of a run and store the results; what was stored by other signatures stays.

    Where ``metrics`` is None, by all that the data supports. ``judging`` says how judges are asked, where a metric
    needs one; ``judged`` is asked, before the first is, for what to call after each judgement. ``gold`` names what took
    the place of the run's own gold in ``samples``. ``corpus`` is the file of the documents that citations may name. The
    golden-query metrics of a run with expected chunks are stored as well. Where samples say who gave their gold, every
    retrieval metric says how much of what it looks at is judged.
    """
    rows = store.samples(record.run_id) if samples is None else samples
    said = _RetrievedCheck()
    each = [_reader(store, record, rows, repeat, said) for repeat in range(record.repeats)]
    if metrics is None:
        chosen = resolve_metrics(_supported_specs(rows, each, conventions), conventions)
        blind = metrics_needing_retrieved(chosen) if said.none_known else ()
        chosen = [one for one in chosen if one.name not in blind and (gold is None or _reads_gold(one))]
    else:
        chosen = list(metrics)
    if corpus is not None:
        chosen = with_corpus_ids(chosen, partial(corpus_ids, corpus))
    groups = parse_slices(slices)
    EvaluationPlan(chosen).validate_dataset(rows)
    require_slice_values(groups, rows)
    facts = replace(run_info(record), gold=gold)
    beside = JudgedCoverage(chosen) if has_gold_provenance(rows) else None
    every = chosen if beside is None else [*chosen, *beside.metrics]
    signatures = judged_signatures(chosen, facts)
    session: RunJudgeSession | None = None
    if signatures:
        session = RunJudgeSession(
            judging or JudgePolicy(),
            store,
            record,
            signatures=signatures,
            samples=rows,
            repeat=lambda: said.repeat,
            judged=judged(),
            secrets=secrets,
        )
    common: dict[str, Any] = {
        "slices": groups,
        "batch_size": options.batch_size,
        "run": facts,
        "progress": progress,
        "judging": session,
    }
    with (
        make_executor(options.executor, options.workers, options.address) as executor,
        nullcontext() if session is None else session.store_judgements(),
    ):
        common["executor"] = executor
        if record.repeats > 1:
            results = evaluate_repeats(rows, each, every, **common)
        elif all(isinstance(one, BatchMetric) for one in chosen):
            results = evaluate_stream(zip(rows, each[0](), strict=True), every, **common)
        else:  # a metric that only computes needs all of them at once
            results = evaluate(rows, list(each[0]()), every, **common)
    if beside is not None:
        results = beside.annotate(results)
    if session is not None:
        record_usage(results, session.usage_log)
    said.check(chosen, record)
    results.run_id = record.run_id
    results.failure = mass_failure(results, _errors(store, record))
    reducers = {one.name: one.reducer.name for one in chosen if isinstance(one, BatchMetric)}
    _mark_lower_is_better(results, chosen)
    store.put_results(record.run_id, results, reducers=reducers)
    store_missing_aggregate(store, record, corpus=corpus, again=True)
    return results


def _mark_lower_is_better(results: Results, metrics: Sequence[Metric]) -> None:
    """Who reads the results later knows a registered metric by its name; of another, the results must say it."""
    lower = {
        one.name
        for one in metrics
        if not getattr(one, "higher_is_better", True) and not hasattr(type(one), "registered_as")
    }
    for result in results:
        if result.name in lower:
            result.details["lower_is_better"] = True


def rescore(
    store: RunStore,
    record: RunRecord,
    metrics: Sequence[Spec | Metric] = (),
    *,
    conventions: str | Conventions | None = None,
    slices: Sequence[SliceSpec] | None = None,
    options: ScoringOptions = ScoringOptions(),  # noqa: B008 -- frozen
    incomplete: bool = False,
    judges: PlannedJudges | None = None,
    progress: Progress | None = None,
    judged: Callable[[], JudgeProgress] = ignore_progress,
    qrels: str | Path | None = None,
    corpus: str | Path | None = None,
) -> Results:
    """Compute new or changed metrics on stored outputs. The system is not called; old values stay, by signature.

    Conventions and slices are those of the run's plan unless given. Without ``metrics``, what the plan names is
    computed again, or all the data supports where it names none. A run that lacks outputs is refused unless
    ``incomplete`` says that the missing ones shall count as failures. ``judges`` are those of the run's plan unless
    given (``judges_of_run``). With ``qrels`` their grades are the gold; without ``metrics``, only what reads gold and
    asks no judge is computed then. Signatures tell such numbers from those by the run's own gold. ``corpus`` is the
    file of the documents that citations may name; by default the plan's, if it is still there.
    """
    done, _ = store.counts(record.run_id)
    expected = record.num_samples * record.repeats
    if done < expected and "system" in record.plan and not incomplete:
        raise BadValueError(
            f"{record.run_id} has only {done} of {expected} outputs; resume it first, or score it as it is with "
            "--incomplete (missing outputs count as failures)"
        )
    by_gold_alone = qrels is not None and not metrics
    chosen, judges = rescoring_metrics(
        store, record, metrics, conventions=conventions, judges=judges, need_key=not by_gold_alone
    )
    if by_gold_alone and chosen is not None:
        chosen = [one for one in chosen if _reads_gold(one)] or None
    store.hide(judges.secrets)
    return score_run(
        store,
        record,
        chosen,
        conventions=_conventions(record, conventions),
        slices=record.plan.get("slices") or () if slices is None else slices,
        options=options,
        samples=None if qrels is None else with_gold(store.samples(record.run_id), qrels),
        gold=None if qrels is None else gold_signature(qrels),
        judging=judges.settings.policy_for(store.file, judges.folder),
        progress=progress,
        judged=judged,
        secrets=judges.secrets,
        corpus=_planned_corpus(record, judges.folder) if corpus is None else Path(corpus),
    )


def _planned_corpus(record: RunRecord, folder: Path) -> Path | None:
    """The corpus of a run's plan, unless the file is gone."""
    written = (record.plan.get("dataset") or {}).get("corpus")
    place = None if written is None else resolve_path(written, folder)
    return place if place is not None and place.exists() else None


def rescoring_metrics(
    store: RunStore,
    record: RunRecord,
    metrics: Sequence[Spec | Metric],
    *,
    conventions: str | Conventions | None = None,
    judges: PlannedJudges | None = None,
    need_key: bool = True,
) -> tuple[list[Metric] | None, PlannedJudges]:
    """The metrics to score a run by again, and the judges they ask: by default those of its plan.

    ``None`` for the metrics stands for all that the data supports.
    """
    specs = list(metrics) or record.plan.get("metrics") or None
    judges = judges or judges_of_run(store, record, specs)
    built = judges.build(list(used_resources(specs)), need_key=need_key)
    with prompt_folder(Path.cwd() if metrics else judges.folder), use_resources(built):
        return None if specs is None else resolve_metrics(specs, _conventions(record, conventions)), judges


def _reads_gold(metric: Metric) -> bool:
    """Whether a metric needs gold documents, and nobody to ask."""
    asks = isinstance(metric, BatchMetric) and any(judged_parts(metric))
    return "relevant_docs" in metric.required_fields() and not asks


def _conventions(record: RunRecord, conventions: str | Conventions | None) -> Conventions:
    return Conventions.of(plan_conventions(record) if conventions is None else conventions)


def stored_outputs(store: RunStore, run_id: str, total: int, repeat: int = 0) -> Iterator[SystemOutputs | None]:
    """One output per sample of the run, in dataset order; ``None`` where there is none."""
    expected = 0
    for row in store.outputs(run_id, repeat=repeat):
        yield from (None for _ in range(expected, row.position))
        yield row.output
        expected = row.position + 1
    yield from (None for _ in range(expected, total))


def _errors(store: RunStore, record: RunRecord) -> Iterator[str]:
    """The error texts of the run's outputs."""
    for repeat in range(record.repeats):
        for row in store.outputs(record.run_id, repeat=repeat):
            if row.output.error is not None:
                yield row.output.error


def _reader(
    store: RunStore, record: RunRecord, samples: Sequence[EvaluationSample], repeat: int, said: _RetrievedCheck
) -> Callable[[], Iterator[SystemOutputs | None]]:
    return lambda: said.count(repeat, stored_outputs(store, record.run_id, len(samples), repeat))


class _RetrievedCheck:
    """Takes down, as outputs pass, how many of the answers say what was retrieved."""

    def __init__(self) -> None:
        self.repeat = 0
        """Which repeat is being read."""
        self._counts: dict[int, tuple[int, int]] = {}

    def count(self, repeat: int, outputs: Iterator[SystemOutputs | None]) -> Iterator[SystemOutputs | None]:
        """The same outputs; a repeat that is read again is counted anew."""
        self.repeat = repeat
        answered = unsaid = 0
        for output in outputs:
            if output is not None and output.error is None:
                answered += 1
                unsaid += isinstance(output.retrieved, UnknownRanking)
            yield output
        self._counts[repeat] = answered, unsaid

    @property
    def _totals(self) -> tuple[int, int]:
        answered, unsaid = (sum(counts) for counts in zip(*self._counts.values(), strict=True))
        return answered, unsaid

    @property
    def none_known(self) -> bool:
        """Whether there are answers, and none of them says it."""
        answered, unsaid = self._totals
        return 0 < unsaid == answered

    def check(self, metrics: Sequence[Metric], record: RunRecord) -> None:
        """Raise where metrics read what no answer says; warn where some answers do not say it."""
        blind = metrics_needing_retrieved(metrics)
        answered, unsaid = self._totals
        if not unsaid or not blind:
            return
        if self.none_known:
            raise BadValueError(
                f"'{blind[0]}' reads the field 'retrieved', which no output of {record.run_id} has; let the system say "
                "what it returned ([] where that is nothing), or leave the metric out: what it answered is stored, and "
                "`auepora rescore` takes other metrics"
            )
        warnings.warn(
            f"{unsaid} of {answered} answers do not say what was retrieved; to metrics of retrieval that is nothing "
            "found",
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
