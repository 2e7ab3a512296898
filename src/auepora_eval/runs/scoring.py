"""Score the stored outputs of a run and store the results, in steps."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..compare.stores import Store, open_store
from ..core.conventions import ID_PRESETS, Conventions
from ..core.metrics_base import Metric
from ..core.registry import Spec, use_resources
from ..core.results import Results
from ..core.slices import SliceSpec
from ..core.targets import find_targets
from ..core.types import GOLD_BY, TargetCategory
from ..engine.evaluate import Progress
from ..engine.executors import Executor, make_executor
from ..engine.gold_match import MatchChoice
from ..errors import AueporaWarning, BadValueError
from ..io.grades import gold_signature, with_gold
from ..judge.metric import same_family_warnings
from ..plan.model import Scoring, TwoStageSettings
from ..plan.resources import PlannedJudges, used_resources
from ..plan.sections import (
    conventions_section,
    data_section,
    gold_section,
    metrics_section,
    run_section,
    scoring_section,
    slices_section,
    targets_section,
)
from ..plan.source import PLAN_KEYS, Findings, PlanSource, find_literal_secrets, resolve_path
from ..runtime.imports import search_folders, store_folders
from ..store.records import RunRecord
from ..store.runs import RunStore, lazy_samples, rescoring, samples_contain
from .coverage import JudgedCoverage, has_gold_provenance
from .job import ScoringJob, ScoringStep, read_gold, reads_gold
from .judging import JudgeProgress, conventions_of_run, ignore_progress, rescoring_metrics
from .partial_scores import SkippingExecutor
from .sequential import EarlyStopping, StopRequest


def score_run(job: ScoringJob, steps: Sequence[ScoringStep] = ()) -> Results:
    """Score the stored outputs of a run and store the results; results with other signatures are kept.

    Where gold has provenance, every retrieval metric reports how much of its ranking is judged. The golden-query
    metrics of a run with expected chunks are stored, too. ``steps`` are further additions: they prepare in this order,
    before a judge is asked, each wraps the executor of those before it, and they finish in the reverse order.

    Example::

        job = ScoringJob(store, record, metrics, conventions=Conventions.of("trec"))
        results = score_run(job, judging_steps(EarlyStopping(), settings))
    """
    job.open()
    every_step = [CoverageStep(), *steps]
    for step in every_step:
        step.prepare(job)
    job.open_session()
    options = job.options
    with make_executor(options.executor, options.workers, options.address) as innermost, job.store_judgements():
        executor = innermost
        for step in every_step:
            executor = step.wrap(job, executor)
        results = job.evaluate(job.scored, executor)
    job.add_usage(results)
    for step in reversed(every_step):
        results = step.finish(job, results)
    job.store_results(results)
    return results


class CoverageStep(ScoringStep):
    """How much of each ranking is judged, where gold has provenance, in the same pass."""

    def prepare(self, job: ScoringJob) -> None:
        """Add the metrics that count judged documents."""
        may_have_provenance = job.samples is not None or samples_contain(job.store, job.record.run_id, GOLD_BY)
        has_provenance = may_have_provenance and has_gold_provenance(job.rows)
        self._coverage = JudgedCoverage(job.chosen if has_provenance else ())
        job.scored += self._coverage.metrics

    def finish(self, job: ScoringJob, results: Results) -> Results:
        """The results of the chosen metrics, with the coverage in their details."""
        return self._coverage.annotate(results)


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
                result.details.corrections = self._details[result.name]
        return results


def judging_steps(stopping: EarlyStopping, two_stage: TwoStageSettings | None = None) -> list[ScoringStep]:
    """The steps of a run with a judge: it stops early where a design is recorded or requested, or has two stages."""
    if two_stage is None:
        return [stopping]
    from .two_stage import TwoStageStep  # it is not needed elsewhere

    return [stopping, TwoStageStep(two_stage)]


def rescore(
    run: str | RunRecord,
    metrics: Sequence[Spec | Metric] = (),
    *,
    store: Store = None,
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
    stopping: EarlyStopping | None = None,
    targets: Sequence[TargetCategory] = (),
    judged: Set[str] = frozenset(),
) -> Results:
    """Compute metrics on stored outputs. The system is not called; results with other signatures are kept.

    Conventions, slices, metrics and judges (``judges_of_run``) are those of the plan of the run unless given, as are
    ``targets``, of which all metrics are computed that the data supports; without both, all that it supports are
    computed. Metrics that are ``judged`` are left out where the data does not support them. An incomplete run is
    refused unless ``incomplete`` is set; missing outputs then count as failures. ``qrels`` replace the gold of the run;
    without ``metrics``, only metrics that need gold and no judge are computed then. Their signatures differ from those
    with the gold of the run.
    Gold is matched as in the run, or as ``match`` says: ``auto``, ``id``, ``span``, ``text`` or ``parent``; the plan of
    the run stays. Other gold than that of a run that does not match by id is matched by ``auto``.
    ``corpus`` is the file of the documents that answers may cite; by default that of the plan, if it still exists.
    ``stopping`` is the step that stops judging early, or judges a stopped run to the end; by default, a stop that
    ``judges`` describe applies to the metrics that it names.

    Args:
        run: A run, or its id or name as ``RunStore.find`` takes it; ``store`` is an open store, or the path of one.
        conventions: A preset, or conventions.
        slices: Labels or metadata to break results down by.
        options: Executor and batch size.
        progress: Called with the number of newly scored samples.
        judge_progress: Gives the function that is called with the progress of judging.

    Returns:
        The new results, which are stored with the run.

    Example:
        >>> rescore("baseline", ["mrr"], store="runs.sqlite")[0].value
        0.5
    """
    with open_store(store) as opened:
        record = opened.find(run) if isinstance(run, str) else run
        done, _ = opened.counts(record.run_id)
        expected = record.num_samples * record.repeats
        if done < expected and "system" in record.plan and not incomplete:
            raise BadValueError(
                f"{record.run_id} has only {done} of {expected} outputs; resume it first, or score it as it is with "
                "--incomplete (missing outputs count as failures)"
            )
        planned = not metrics and not targets
        gold_metrics_only = qrels is not None and planned
        if planned:
            targets = find_targets(record.plan.get("targets") or ())
        rules = conventions_of_run(record, conventions)
        samples = (
            lazy_samples(opened, record.run_id) if qrels is None else with_gold(opened.samples(record.run_id), qrels)
        )
        reading = None
        if match is not None or (qrels is not None and rules.match != "id"):
            reading = read_gold(opened, record, samples, rules, match or "auto")
            rules = replace(rules, match=reading.resolved.match)
        chosen, judges = rescoring_metrics(
            opened, record, metrics, conventions=rules, judges=judges, need_key=not gold_metrics_only, planned=planned
        )
        if gold_metrics_only and chosen is not None:
            chosen = [metric for metric in chosen if reads_gold(metric)] or None
        opened.hide(judges.secrets)
        for warning in same_family_warnings(chosen or (), record.config):
            warnings.warn(warning, AueporaWarning, stacklevel=2)
        settings = judges.settings
        job = ScoringJob(
            opened,
            record,
            chosen,
            conventions=rules,
            reading=reading,
            slices=record.plan.get("slices") or () if slices is None else slices,
            options=options,
            samples=None if qrels is None else samples,
            gold=None if qrels is None else gold_signature(qrels),
            policy=settings.policy_for(opened.file, judges.folder),
            progress=progress,
            judge_progress=judge_progress,
            secrets=judges.secrets,
            corpus=planned_corpus(record, judges.folder) if corpus is None else Path(corpus),
            targets=() if gold_metrics_only else targets,
            judged=judged,
        )
        steps = judging_steps(stopping or EarlyStopping(StopRequest(settings.stop)), settings.two_stage)
        with rescoring(opened, record):
            return score_run(job, steps)


def planned_corpus(record: RunRecord, folder: Path) -> Path | None:
    """The corpus of the plan of a run, if the file still exists."""
    written = (record.plan.get("dataset") or {}).get("corpus")
    path = None if written is None else resolve_path(written, folder)
    return path if path is not None and path.exists() else None


# --- values for keys of the plan of a stored run ---------------------------------------------------------------------

SCORING_KEYS = (
    "conventions", "dataset.corpus", "gold", "judge", "metrics", "resources", "run.prices", "scoring", "slices",
    "targets",
)  # fmt: skip
"""Keys that say how outputs are scored; the others say how they are made, or what is done with the scores."""
_INSTEAD = {
    "gates": "check it with `auepora gate RUN --gate GATE`",
    "guardrails": "give it to `auepora compare --guardrail`",
    "primary": "give it to `auepora compare --primary`",
    "report": "write it with `auepora report`",
    "store": "name it with --store",
    "sweep": "start it with `auepora sweep`",
}
"""By section, what to do where a value has no effect."""


def with_settings(
    store: RunStore, record: RunRecord, settings: Mapping[str, Any]
) -> tuple[RunRecord, MatchChoice | None]:
    """A stored run with values for keys of its plan, and how gold is matched, if they say so. The store stays as it is.

    The values are checked like those of a plan file; a key that does not change the scores of stored outputs is an
    error. The executor is only what they say. Values of ``judge`` and ``resources`` are for ``judges_of_run``, and that
    of ``dataset.corpus`` is for ``rescore``.
    """
    names = {key.partition(".")[0] for key in settings}
    # What is stored of `gold` is more than a plan has; another executor than that of the run may be at hand.
    kept = {name: value for name, value in record.plan.items() if name in names - {"gold", "scoring"}}
    folders = store_folders(store.file)
    source = PlanSource(Path(f"the plan of {record.run_id}"), kept).with_settings(settings)
    findings = Findings(source, folders[0])
    findings.top.refuse_unknown(PLAN_KEYS)
    find_literal_secrets(findings)
    # A resource that does not exist is an error when the judges are built.
    with search_folders(*folders), use_resources(dict.fromkeys(used_resources(source.values))):
        metrics = metrics_section(findings)
    match, conventions = gold_section(findings, conventions_section(findings))
    values = {
        "conventions": conventions,
        "metrics": None if metrics is None else [spec for _, spec in metrics[0]],
        "run": run_section(findings, ())[3],
        "scoring": scoring_section(findings)[1],
        "slices": slices_section(findings),
        "targets": targets_section(findings),
    }
    changed = {name: value for name, value in values.items() if name in {*names, "scoring"}}
    if "dataset" in names:
        data_section(findings, "dataset")
    findings.raise_first()
    for key in settings:
        if not f"{key}.".startswith(tuple(f"{known}." for known in SCORING_KEYS)):
            instead = _INSTEAD.get(key.partition(".")[0], f"make a new run with `auepora run PLAN --set {key}=VALUE`")
            raise source.error(key, f"has no effect on the scores of stored outputs; {instead}")
    if conventions["name"] in ID_PRESETS:
        changed["gold"] = None
    matched = match if "gold" in names or "conventions.match" in settings else None
    return replace(record, plan={**record.plan, **changed}), matched
