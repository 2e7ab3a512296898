"""Diagnosis of a live system: the same questions without, with gold, with retrieved and with mixed documents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from ..compare.analysis import finite_or_none
from ..compare.diagnosis import ArmOutcomes, DiagnosisNumbers, SingleDocument, diagnosis_numbers, require_measure
from ..core.conventions import Conventions, Match
from ..core.dataset import EvaluationDataset
from ..core.grouping import group_pairs
from ..core.metrics_base import BatchMetric, Metric, sample_clusters
from ..core.plan import EvaluationPlan
from ..core.registry import Spec
from ..core.scores import Scores, Status
from ..core.types import Document, EvaluationSample, RetrievedDocument, SystemOutputs, TargetCategory
from ..engine.evaluate import Metrics, resolve_metrics
from ..engine.gold_match import MatchChoice
from ..errors import BadValueError, did_you_mean
from ..features.matching import first_gold_rank
from ..features.texts import RefusalDetector
from ..io.corpus import Corpus
from ..judge.preview import Preview
from ..perturb.documents import gold_key, gold_keys
from ..perturb.given import GoldTexts, diagnosable, mixed_documents
from ..plan.prepare import prepare, read_plan
from ..plan.source import PlanSource
from ..render.block_report import BlockReport
from ..render.blocks import Block, Prose
from ..report.diagnosis import diagnosis_blocks, diagnosis_dict
from ..stats.intervals import Bools
from ..store.connect import default_store
from ..store.records import RunRecord, plan_conventions
from ..store.rows import PERTURBED_TAG
from ..store.runs import RunStore, aligned_outputs
from ..systems.calls import require_ready
from ..systems.policy import CallPolicy
from .job import ScoringJob
from .outcome import RunOutcome
from .perturbed import ProgressOptions, RunGroup, read_system_plan, sweep_token
from .preview import preview_placeholders
from .replay import ReplayContext, make_replay_system, require_ranking, stored_answers, stored_contexts, unasked_notes
from .run import (
    RunRequest,
    metric_specs,
    open_new_store,
    open_plan,
    system_request,
    use_match_of,
)
from .scoring import score_run
from .sequential import EarlyStopping

# --- the arms of a diagnosis -----------------------------------------------------------------------------------------

ARMS = {
    "none": "no documents",
    "oracle": "the gold documents only",
    "retrieved": "the documents that the system retrieves",
    "mixed": "the gold documents among retrieved distractors",
    "each": "one retrieved document at a time",
}
DEFAULT_ARMS = ("none", "oracle", "retrieved", "mixed")
DEFAULT_MEASURES = ("precision", "hit_rate")
RETESTED = ("oracle", "retrieved")
"""The arms that are run twice: the second run shows the randomness of the system."""
DIAGNOSIS = "diagnosis"
"""The key of the entry in the plans of its runs."""
ABSTAIN_LOGPROB = "abstain_logprob"
"""The key in an output's ``extra`` for the log-probability that the generator abstains."""
REQUIREMENTS = (
    "a diagnosis gives a system its documents: it needs a pair (retriever, generator), an object with retrieve() and "
    "generate(), one whose run() uses its attribute 'retriever', such as a SimpleRAGSystem, or a system that answers "
    "from documents in its request"
)


def parse_arms(arms: str | Sequence[str]) -> tuple[str, ...]:
    """Parse arms, in the order of ``ARMS``: ``none,oracle,retrieved``, or a sequence of names."""
    names = [name.strip() for name in arms.split(",")] if isinstance(arms, str) else list(arms)
    for name in names:
        if name not in ARMS:
            hint = did_you_mean(name, ARMS, otherwise=f"; choose among: {', '.join(ARMS)}")
            raise BadValueError(f"there is no arm '{name}'{hint}")
        if names.count(name) > 1:
            raise BadValueError(f"the arm '{name}' is listed twice")
    if "retrieved" not in names:
        raise BadValueError("the arm 'retrieved' is missing: the others are compared with it")
    return tuple(name for name in ARMS if name in names)


@dataclass(frozen=True, slots=True)
class DiagnosisOptions:
    """What a diagnosis does."""

    arms: tuple[str, ...] = DEFAULT_ARMS
    correct: Spec | Metric | None = None
    """The metric that says whether an answer is right; by default that of the plan."""
    correct_from: float | None = None
    """The score from which an answer is right; 1 for metrics of 0 and 1."""
    k: int | None = None
    """How many documents the generator reads; by default ``top_k``."""
    mirage_from: str = "retrieved"
    """The arm with distractors: ``retrieved`` or ``mixed``."""
    measures: tuple[str, ...] = DEFAULT_MEASURES
    """The eRAG measures of the arm ``each``."""
    utility: Spec | Metric | None = None
    """The metric that labels single documents; by default ``correct``."""
    corpus: str | Path | None = None
    """A JSONL file with the texts of gold documents."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.mirage_from not in self.arms:
            raise BadValueError(f"MIRAGE's classes need the arm '{self.mirage_from}', which is not among the arms")
        if self.mirage_from not in ("retrieved", "mixed"):
            raise BadValueError(f"MIRAGE's classes are computed from 'retrieved' or 'mixed', not '{self.mirage_from}'")
        if self.k is not None and self.k < 1:
            raise BadValueError(f"k must be a positive integer, not {self.k}")


def arm_runs(arms: Sequence[str]) -> list[tuple[str, bool]]:
    """The runs of a diagnosis, in the order in which they are made: the arm, and whether it is a retest."""
    order = ["retrieved", *(arm for arm in arms if arm != "retrieved")]
    return [(arm, again) for arm, again in product(order, (False, True)) if arm in RETESTED or not again]


def run_label(arm: str, retest: bool = False) -> str:
    """An arm as used in names and tags of runs: ``arm=oracle``, ``arm=oracle retest``."""
    return f"arm={arm} retest" if retest else f"arm={arm}"


# --- the documents of each arm ---------------------------------------------------------------------------------------


def _as_context(documents: Sequence[Document]) -> ReplayContext:
    return ReplayContext([RetrievedDocument(document, None, rank) for rank, document in enumerate(documents, 1)])


def single_document_samples(
    samples: Sequence[EvaluationSample], contexts: Mapping[str, ReplayContext], k: int
) -> tuple[list[EvaluationSample], dict[str, ReplayContext]]:
    """A sample for each of the first ``k`` documents of each question, and the document it is answered from."""
    found: list[EvaluationSample] = []
    given: dict[str, ReplayContext] = {}
    for sample in samples:
        for rank, item in enumerate(contexts[sample.sample_id].retrieved[:k], 1):
            entry = {"sample_id": sample.sample_id, "rank": rank, "doc_id": item.doc.doc_id}
            name = f"{sample.sample_id} [document {rank}]"
            metadata = {**(sample.metadata if isinstance(sample.metadata, Mapping) else {}), DIAGNOSIS: entry}
            found.append(replace(sample, sample_id=name, metadata=metadata, cluster_id=sample.cluster))
            given[name] = ReplayContext([replace(item, rank=1)])
    return found, given


# --- which answers are right -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Correctness:
    """The metric that says whether an answer is right, and the score from which it is."""

    metric: Metric
    threshold: float

    def __str__(self) -> str:
        return f"{self.metric.name} >= {self.threshold:g}"


def choose_correctness(
    metrics: Sequence[Metric], conventions: Conventions, correct: Spec | Metric | None, threshold: float | None
) -> Correctness:
    """The metric for right answers: the one given, else that of ``failure_attribution``, else one of 0 and 1."""
    found: Metric | None
    if correct is not None:
        found = next((metric for metric in metrics if metric.name == correct), None)
        (found,) = [found] if found is not None else resolve_metrics([correct], conventions)
    else:
        blamed = next((metric for metric in metrics if _registered_name(metric) == "failure_attribution"), None)
        if blamed is not None:
            threshold = blamed.correct_from if threshold is None else threshold  # type: ignore[attr-defined]
            found = blamed.correct  # type: ignore[attr-defined]
        else:
            found = next((metric for metric in metrics if _is_binary(metric)), None)
    if found is None:
        (found,) = resolve_metrics(["containment"], conventions)
    if not isinstance(found, BatchMetric) or "response" not in found.metadata.reads:
        raise BadValueError(f"'{found.name}' does not score single answers, so it cannot say which of them are right")
    if not found.higher_is_better:
        raise BadValueError(f"of '{found.name}' less is better, so it cannot say which answers are right")
    if threshold is None and not found.metadata.binary:
        raise BadValueError(
            f"from which score on is an answer right? '{found.name}' is not a metric of 0 and 1: give --correct-from, "
            "such as 0.5, or another metric (--correct)"
        )
    named = next((metric for metric in metrics if metric.name == found.name), None)
    return Correctness(found if named is None else named, 1.0 if threshold is None else threshold)


def _is_binary(metric: Metric) -> bool:
    return (
        isinstance(metric, BatchMetric)
        and metric.metadata.binary
        and metric.target is TargetCategory.GENERATION_CORRECTNESS
        and "response" in metric.metadata.reads
        and _registered_name(metric) != "failure_attribution"
    )


def _registered_name(metric: Metric) -> str:
    return str(getattr(type(metric), "registered_as", ""))


def arm_outcomes(
    store: RunStore, outcome: RunOutcome, correctness: Correctness, samples: Sequence[EvaluationSample]
) -> ArmOutcomes:
    """Which answers of a run are right, abstained, failed and measured."""
    scores = _scores(outcome, correctness.metric.name)
    detector = RefusalDetector()
    abstained = [
        output is not None and output.error is None and detector.refused(sample, output) is True
        for sample, output in zip(samples, aligned_outputs(store, outcome.record.run_id, texts=False), strict=True)
    ]
    failed = scores.status == Status.SYSTEM_FAILED
    right = (scores.status == Status.SCORED) & (scores.values >= correctness.threshold)
    return ArmOutcomes(right, np.array(abstained, np.bool_), failed, (scores.status == Status.SCORED) | failed)


def _scores(outcome: RunOutcome, name: str) -> Scores:
    assert outcome.results is not None
    scores = outcome.results.by_name[name].scores
    if not isinstance(scores, Scores):
        raise BadValueError(f"'{name}' has no score per question, so it cannot say which answers are right")
    return scores


# --- the runs of a diagnosis -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Diagnosis(BlockReport):
    """The result of a diagnosis: a run per arm, and the numbers if all of them finished."""

    name: str
    options: DiagnosisOptions
    correct: str
    """Which answers count as right, in words."""
    metric: str
    """The name of the metric for it."""
    outcomes: dict[str, RunOutcome]
    """The outcome of each run, by label; one that ended early is the last."""
    numbers: DiagnosisNumbers | None = None
    notes: list[str] = field(default_factory=list)
    store: str | None = field(repr=False, default=None)
    """Path or address of the store, if known."""

    def blocks(self) -> list[Block]:
        """The sentence, tables, recommendations and notes; or why the last run ended early."""
        numbers = self.numbers
        return [Prose(self.last.headline)] if numbers is None else diagnosis_blocks(numbers, self.correct, self.notes)

    def to_dict(self) -> dict[str, Any]:
        """The diagnosis document; without numbers, the ids of the runs."""
        runs = {label: outcome.record.run_id for label, outcome in self.outcomes.items()}
        if self.numbers is None:
            return {"schema": 1, "runs": runs}
        return diagnosis_dict(self.numbers, self.correct, runs, self.notes)

    @property
    def last(self) -> RunOutcome:
        """The outcome of the last run."""
        return list(self.outcomes.values())[-1]

    @property
    def arm_records(self) -> list[RunRecord]:
        """The runs of the arms that answer the same questions, without retests; ``retrieved`` first."""
        labels = [run_label(arm) for arm, again in arm_runs(self.options.arms) if not again and arm != "each"]
        return [self.outcomes[label].record for label in labels]


@dataclass(frozen=True, slots=True)
class _ArmRunner(RunGroup):
    """Runs the arms of a diagnosis, each as a stored run."""

    options: DiagnosisOptions
    correctness: Correctness
    utility: Metric
    texts: GoldTexts
    notes: list[str]

    @property
    def k(self) -> int:
        return self.options.k or self.request.policy.top_k

    def run(self, arm: str, retest: bool, retrieved: RunRecord | None) -> RunOutcome:
        """Start or resume the run of an arm; ``retrieved`` is the run whose documents it uses."""
        label = run_label(arm, retest)
        request = self._arm_request(arm, retrieved)
        if retrieved is not None:
            request = use_match_of(request, retrieved)
        request = replace(
            request,
            name=f"{self.request.name} [{label}]",
            plan={**request.plan, DIAGNOSIS: {**_entry(self.options.seed, self.k), "sweep": self.token, "arm": label}},
            config={**self.request.config, DIAGNOSIS: label},
            tags=(*self.request.tags, PERTURBED_TAG, label),
        )
        changed = "its samples or documents have changed since; start a new diagnosis without --resume"
        return self._with_all_metrics(self.start_or_resume(request, changed=changed, key=DIAGNOSIS), request)

    def _with_all_metrics(self, outcome: RunOutcome, request: RunRequest) -> RunOutcome:
        """The outcome with the metrics that a finished run was not scored by, from its stored outputs."""
        results = outcome.results
        missing = (
            []
            if results is None
            else [metric for metric in request.metrics or () if metric.name not in results.by_name]
        )
        if missing:
            job = ScoringJob(
                self.store,
                outcome.record,
                missing,
                conventions=plan_conventions(outcome.record),
                slices=request.slices,
                options=request.options,
                policy=request.judging,
                judge_progress=self.progress.watcher.judging,
                secrets=request.secrets,
                corpus=request.corpus,
            )
            score_run(job, [EarlyStopping()])
            outcome = replace(outcome, results=self.store.results(outcome.record.run_id))
        return outcome

    def _arm_request(self, arm: str, retrieved: RunRecord | None) -> RunRequest:
        """The request with the system of an arm; those of ``each`` are asked once per document."""
        samples = self.request.samples
        if arm == "retrieved":
            return replace(self.request, repeats=1)
        if arm == "none":
            contexts = {sample.sample_id: _as_context([]) for sample in samples}
        elif arm == "oracle":
            contexts = {sample.sample_id: _as_context(self.texts.documents(sample)) for sample in samples}
        else:
            assert retrieved is not None
            found, _ = stored_contexts(self.store, retrieved, samples)
            if arm == "each":
                return self._each_request(found)
            contexts, texts, seed = {}, self.texts, self.options.seed
            for sample in samples:
                retrieved_documents = [item.doc for item in found[sample.sample_id].retrieved]
                gold = texts.documents(sample)
                mixed = mixed_documents(sample, gold, retrieved_documents, self.k, seed, match=texts.match)
                contexts[sample.sample_id] = _as_context(mixed)
        return replace(self.request, repeats=1, system=self._system(contexts), gives_documents=True)

    def _each_request(self, found: Mapping[str, ReplayContext]) -> RunRequest:
        samples, contexts = single_document_samples(self.request.samples, found, self.k)
        if not samples:
            raise BadValueError("the system retrieved no document for any question, so there is none to give it alone")
        metrics = list({metric.name: metric for metric in (self.correctness.metric, self.utility)}.values())
        return replace(
            self.request,
            samples=samples,
            metrics=metrics,
            slices=(),
            system=self._system(contexts),
            gives_documents=True,
        )

    def _system(self, contexts: Mapping[str, ReplayContext]) -> object:
        return make_replay_system(self.request.system, contexts, requirements=REQUIREMENTS)


def _entry(seed: int, k: int) -> dict[str, Any]:
    return {"seed": seed, "k": k}


def _with_metrics(request: RunRequest, metrics: Sequence[Metric]) -> dict[str, Any]:
    """The plan of a request with these metrics; specs are those of the plan where it has them."""
    planned, own = request.plan.get("metrics"), request.metrics or ()
    known = dict(zip((metric.name for metric in own), planned, strict=False)) if isinstance(planned, list) else {}
    others = [metric for metric in metrics if metric.name not in known]
    specs = metric_specs(others)
    if specs is None or len(known) != len(own):
        return {**request.plan, "metrics": metric_specs(metrics)}
    known |= dict(zip((other.name for other in others), specs, strict=True))
    return {**request.plan, "metrics": [known[metric.name] for metric in metrics]}


def _diagnose(
    request: RunRequest,
    options: DiagnosisOptions,
    store: RunStore,
    progress: ProgressOptions,
    where: str | None,
) -> Diagnosis:
    make_replay_system(request.system, {}, requirements=REQUIREMENTS)  # raises before any call
    request, correctness, utility, notes = _prepare_request(request, options)
    k = options.k or request.policy.top_k
    texts = GoldTexts(None if options.corpus is None else Corpus.open(options.corpus))
    token = sweep_token(
        store, request, _entry(options.seed, k), resume=progress.resume, key=DIAGNOSIS,
        kind=f"a diagnosis with k={k} and seed {options.seed}",
    )  # fmt: skip
    runner = _ArmRunner(
        request,
        store,
        token,
        progress,
        options=options,
        correctness=correctness,
        utility=utility,
        texts=texts,
        notes=notes,
    )
    outcomes: dict[str, RunOutcome] = {}
    result = Diagnosis(
        request.name, options, str(correctness), correctness.metric.name, outcomes=outcomes, notes=notes, store=where
    )
    retrieved: RunRecord | None = None
    for record in (
        *store.runs(name=request.name, limit=1),
        *store.runs(name=f"{request.name} [{run_label('retrieved')}]", limit=1),
    ):
        _add_retrieved(texts, store, record)
    if {"oracle", "mixed"} & {*options.arms}:
        texts.require(request.samples)  # before any call
    for arm, retest in arm_runs(options.arms):
        if arm in ("oracle", "mixed"):
            texts.require(request.samples)
        outcome = runner.run(arm, retest, retrieved)
        outcomes[run_label(arm, retest)] = outcome
        if outcome.results is None:
            return result
        if arm == "retrieved" and not retest:
            retrieved = outcome.record
            consequence = "it is unknown whether gold was among the documents; let the system return its documents"
            for row in store.outputs(retrieved.run_id, texts=False):
                require_ranking(retrieved, row, consequence)
            _add_retrieved(texts, store, retrieved)
        elif arm != "retrieved":
            found = unasked_notes(
                stored_answers(store, outcome.record),
                f"its documents are not those of the arm in {outcome.record.run_id}",
            )
            notes += [f"{run_label(arm, retest)}: {note}" for note in found]
    if texts.joined:
        notes.append(
            f"the texts of {len(texts.joined)} gold documents are joined from the chunks that were retrieved for any "
            "question; a corpus (--corpus) has them complete"
        )
    return replace(result, numbers=_numbers(runner, outcomes))


def _add_retrieved(texts: GoldTexts, store: RunStore, record: RunRecord) -> None:
    """Take the texts of gold from the documents that a run retrieved."""
    texts.match = plan_conventions(record).match
    for row in store.outputs(record.run_id):
        texts.add_retrieved(item.doc for item in row.output.retrieved)


def _prepare_request(
    request: RunRequest, options: DiagnosisOptions
) -> tuple[RunRequest, Correctness, Metric, list[str]]:
    """The request on the samples that can be diagnosed, with the metrics for right answers and for utility."""
    samples = diagnosable(request.samples)
    if not samples:
        raise BadValueError(
            "no sample has gold documents (relevant_docs, or metadata.expected_doc_ids) and an answer; a diagnosis "
            "compares answers with the gold documents"
        )
    left = len(request.samples) - len(samples)
    notes = [f"{left} of {len(request.samples)} samples have no gold documents or no answer, and are left out"]
    own = list(request.metrics or ())
    correctness = choose_correctness(own, request.conventions, options.correct, options.correct_from)
    utility = correctness.metric
    if options.utility is not None:
        named = next((metric for metric in own if metric.name == options.utility), None)
        (utility,) = [named] if named is not None else resolve_metrics([options.utility], request.conventions)
    if "each" in options.arms:
        binary = isinstance(utility, BatchMetric) and utility.metadata.binary and request.repeats == 1
        for measure in options.measures:
            require_measure(measure, graded=not binary)
    metrics = list({metric.name: metric for metric in (*own, correctness.metric)}.values())
    EvaluationPlan([*metrics, utility]).validate_dataset(samples)
    require_ready([correctness.metric, utility])
    plan = _with_metrics(replace(request, metrics=own), metrics)
    request = replace(request, samples=samples, metrics=metrics, plan=plan)
    return request, correctness, utility, notes if left else []


def _numbers(runner: _ArmRunner, outcomes: Mapping[str, RunOutcome]) -> DiagnosisNumbers:
    store, samples, options = runner.store, list(runner.request.samples), runner.options
    found: dict[bool, dict[str, ArmOutcomes]] = {False: {}, True: {}}
    for arm, again in arm_runs(options.arms):
        if arm != "each":
            found[again][arm] = arm_outcomes(store, outcomes[run_label(arm, again)], runner.correctness, samples)
    sufficient = [rank is not None for rank in _gold_ranks(runner, outcomes[run_label("retrieved")])]
    judged, note = _judged_sufficiency(runner.request.metrics or (), outcomes[run_label("retrieved")])
    runner.notes.extend([note] if note else [])
    positions = _gold_ranks(runner, outcomes[run_label("mixed")]) if "mixed" in options.arms else []
    documents = _single_documents(runner, outcomes[run_label("each")]) if "each" in options.arms else []
    return diagnosis_numbers(
        found[False],
        found[True],
        np.array(sufficient, np.bool_),
        ids=[sample.sample_id for sample in samples],
        judged_sufficient=judged,
        clusters=sample_clusters(samples),
        mirage_from=options.mirage_from,
        positions=positions,
        documents=documents,
        measures=options.measures,
        k=runner.k,
    )


def _judged_sufficiency(metrics: Sequence[Metric], retrieved: RunOutcome) -> tuple[Bools | None, str]:
    """Whether a judge of the plan finds the retrieved documents sufficient, and a note; ``None`` if it does not say."""
    judge = next((metric for metric in metrics if _registered_name(metric) == "llm_context_sufficiency"), None)
    if judge is None:
        return None, ""
    scores = _scores(retrieved, judge.name)
    unknown = int(np.count_nonzero(scores.status != Status.SCORED))
    if unknown:
        return (
            None,
            f"documents are sufficient if gold is among them: {judge.name} has no verdict on {unknown} questions",
        )
    return scores.values > 0.5, f"whether documents are sufficient is the verdict of {judge.name}"


def _gold_ranks(runner: _ArmRunner, outcome: RunOutcome) -> list[int | None]:
    """The first rank of gold in each ranking of a run."""
    match = runner.texts.match
    outputs = aligned_outputs(runner.store, outcome.record.run_id, texts=match == "text")
    return [_gold_rank(*pair, runner.k, match) for pair in zip(runner.request.samples, outputs, strict=True)]


def _gold_rank(sample: EvaluationSample, output: SystemOutputs | None, k: int, match: Match) -> int | None:
    """The first rank of gold among the first ``k``: as the run matches it, or the id of its document."""
    if output is None:
        return None
    found = first_gold_rank(sample, output, depth=k, match=match).rank
    if found is not None or sample.relevant_docs:
        return found
    keys = gold_keys(sample)
    return next((rank for rank, document in enumerate(output.retrieved[:k], 1) if gold_key(document.doc, keys)), None)


def _single_documents(runner: _ArmRunner, outcome: RunOutcome) -> list[list[SingleDocument]]:
    """What the generator made of each document alone, by question."""
    store, run_id, detector = runner.store, outcome.record.run_id, RefusalDetector()
    match = runner.texts.match
    samples = store.samples(run_id, texts=match != "id")
    labels = _scores(outcome, runner.utility.name)
    right = _scores(outcome, runner.correctness.metric.name)
    outputs = group_pairs((row.position, row.output) for row in store.outputs(run_id, texts=match == "text"))
    found: dict[str, list[SingleDocument]] = {sample.sample_id: [] for sample in runner.request.samples}
    for position, sample in enumerate(samples):
        entry = sample.metadata[DIAGNOSIS]
        answers = outputs.get(position, [])
        refused = [answer.error is None and detector.refused(sample, answer) is True for answer in answers]
        label = labels.values[position]
        relevant = any(_gold_rank(sample, answer, 1, match) is not None for answer in answers)
        document = SingleDocument(
            entry["doc_id"],
            relevant,
            finite_or_none(label),
            right=bool(right.values[position] >= runner.correctness.threshold),
            abstained=sum(refused) / len(refused) if refused else 0.0,
            abstain_probability=_abstain_probability(answers),
        )
        found[entry["sample_id"]].append(document)
    return list(found.values())


def _abstain_probability(answers: Sequence[SystemOutputs]) -> float | None:
    """The mean probability of abstention, from ``extra["abstain_logprob"]``; ``None`` where an answer lacks it."""
    found = [answer.extra[ABSTAIN_LOGPROB] for answer in answers if ABSTAIN_LOGPROB in answer.extra]
    for value in found:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value <= 0:
            raise BadValueError(
                f"{ABSTAIN_LOGPROB} in the 'extra' of an output is the logarithm of a probability, a number up to 0, "
                f"not {value!r:.60}"
            )
    return math.fsum(map(math.exp, found)) / len(found) if found and len(found) == len(answers) else None


# --- a plan, a live system, and the preview --------------------------------------------------------------------------


def diagnose_plan(
    path: str | Path | PlanSource,
    options: DiagnosisOptions | None = None,
    *,
    store: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    limit: int | None = None,
    tags: Sequence[str] = (),
    progress: ProgressOptions = ProgressOptions(),
) -> Diagnosis:
    """Diagnose the system of a plan: a stored run per arm, and the numbers.

    The seed of ``options`` is replaced by that of the plan. The gates of the plan are not checked.
    """
    plan = read_system_plan(path, changes, "the arms of a diagnosis", "a diagnosis calls the system")
    chosen = replace(options or DiagnosisOptions(), seed=plan.seed)
    with open_plan(plan, store=store, limit=limit, tags=tags) as (request, opened, where):
        return _diagnose(request, chosen, opened, progress, where)


def diagnose(
    system: object,
    dataset: EvaluationDataset | Sequence[EvaluationSample],
    metrics: Metrics = (),
    *,
    arms: str | Sequence[str] = DEFAULT_ARMS,
    correct: Spec | Metric | None = None,
    correct_from: float | None = None,
    k: int | None = None,
    mirage_from: str = "retrieved",
    measures: Sequence[str] = DEFAULT_MEASURES,
    utility: Spec | Metric | None = None,
    corpus: str | Path | None = None,
    seed: int = 0,
    store: str | Path | RunStore | None = None,
    name: str | None = None,
    top_k: int = 10,
    concurrency: int = 1,
    repeats: int = 1,
    policy: CallPolicy | None = None,
    conventions: str | Conventions = "auepora",
    match: MatchChoice | None = None,
    tags: Sequence[str] = (),
    resume: bool = False,
    progress: ProgressOptions = ProgressOptions(),
) -> Diagnosis:
    """Diagnose a live system: which part of it fails, from its answers with different documents.

    It must take documents (see ``docs/diagnosis.md``). ``correct`` says which answers are right (default: the metric
    of 0 and 1 among ``metrics``, else ``containment``), ``correct_from`` from which score on. ``repeats`` is how often
    the arm ``each`` asks; other arms ask once. ``policy`` has timeouts and retries, in place of ``top_k`` and
    ``concurrency``. Storing, scoring and ``match`` are as in ``run_system``.

    Args:
        system: A pair of a retriever and a generator, or an object with both.
        dataset: The samples.
        metrics: As for ``evaluate``; so is ``conventions``.
        arms: Which documents the system is given, such as ``retrieved``, ``gold`` and ``none``.
        k: How many of the retrieved documents count as context.
        mirage_from: The arm that answers without documents are compared with.
        measures: What the documents of the arm ``each`` are measured by.
        utility: The metric that says how useful a document is, by default ``correct``.
        corpus: A file with the texts of gold documents.
        seed: Of the positions of documents.
        store: The store, by default ``$AUEPORA_STORE`` or ``runs.sqlite``.
        name: Of the runs.
        top_k: How many documents the system retrieves.
        concurrency: The most calls in flight.
        tags: Of the runs.
        resume: Whether an interrupted diagnosis is continued.
        progress: Functions that get the progress.

    Returns:
        The runs of the arms, and the numbers.

    Example:
        >>> from auepora_eval.examples.simple_rag import build
        >>> corpus = [Document("ada", "Ada Lovelace wrote it."), Document("engine", "The machine is the engine.")]
        >>> own = [EvaluationSample(s.sample_id, s.query, [d], reference_answer=s.reference_answer)
        ...        for s, d in zip(samples, corpus)]
        >>> diagnose(build(corpus), own, ["containment"], top_k=1, name="parts").numbers.gain.value
        1.0
    """
    options = DiagnosisOptions(
        parse_arms(arms),
        correct=correct,
        correct_from=correct_from,
        k=k,
        mirage_from=mirage_from,
        measures=tuple(measures),
        utility=utility,
        corpus=corpus,
        seed=seed,
    )
    called = policy or CallPolicy(top_k, concurrency)
    request = system_request(
        system,
        dataset,
        metrics,
        name=name,
        policy=called,
        repeats=repeats,
        conventions=conventions,
        match=match,
        tags=tags,
    )
    with open_new_store(store) as (opened, where):
        return _diagnose(request, options, opened, replace(progress, resume=resume or progress.resume), where)


@dataclass(frozen=True, slots=True)
class DiagnosisPreview:
    """The calls that a diagnosis makes, and an estimate of the judging of one of its runs."""

    questions: int
    calls: dict[str, int]
    """Calls of the system by arm, with retests; those of ``each`` at most."""
    judging: Preview
    """For one run; each run of the diagnosis is judged."""

    @property
    def judge_calls(self) -> int:
        """Calls of judges for all runs, as each answer is judged; equal answers need fewer."""
        return -(-self.judging.total.calls * sum(self.calls.values()) // max(self.questions, 1))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "schema": 1,
            "questions": self.questions,
            "calls": self.calls,
            "total_calls": sum(self.calls.values()),
            "judging_of_one_run": self.judging.to_dict(),
            "judge_calls": self.judge_calls,
        }


def preview_diagnosis(
    path: str | Path | PlanSource,
    options: DiagnosisOptions,
    *,
    store: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    limit: int | None = None,
) -> DiagnosisPreview:
    """Count the calls of a diagnosis, and estimate its judging. Neither the system nor a judge is called."""
    plan = read_plan(path, changes={**(changes or {}), "gates": None})
    prepared = prepare(plan, need_system=False, need_keys=False, limit=limit)
    samples = diagnosable(prepared.samples)
    k = options.k or plan.policy.top_k
    calls = {arm: len(samples) * (1 + (arm in RETESTED)) for arm in options.arms if arm != "each"}
    if "each" in options.arms:
        calls["each"] = len(samples) * k * plan.repeats
    policy = plan.judge.policy_for(default_store(store, plan.store), plan.folder)
    return DiagnosisPreview(
        len(samples), calls, preview_placeholders(samples, prepared.metrics or [], policy, plan.policy.top_k)
    )
