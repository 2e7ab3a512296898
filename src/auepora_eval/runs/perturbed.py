"""Perturbed runs of a live system: a stored run at each rate, and the curve over the rates."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from pathlib import Path
from typing import Any

from ..compare.runs import compare_metrics
from ..compare.types import MetricComparison
from ..core.conventions import Conventions
from ..core.dataset import EvaluationDataset
from ..core.grouping import group_pairs
from ..core.metrics_base import Metric
from ..core.results import Results, display_name
from ..core.slices import SliceSpec
from ..core.types import Document, EvaluationSample, MetricResult, SystemOutputs, TargetCategory
from ..engine.evaluate import Metrics, resolve_metrics
from ..engine.gold_match import MatchChoice
from ..errors import BadValueError, UnknownRunError
from ..features.texts import is_unanswerable
from ..io.corpus import Corpus
from ..io.golden import dataset_fingerprint
from ..perturb.documents import (
    ARMS_KIND,
    PERTURBATION,
    CorpusLike,
    DocumentEdit,
    Level,
    NoisePool,
    Perturber,
    Sweep,
    arm_variant,
    label_sample,
    perturbed_system,
    require_annotations,
    require_retriever,
)
from ..perturb.edits import count_for_rate
from ..perturb.payloads import PAYLOAD, load_payloads, wrong_answer
from ..plan.model import Plan, SavedOutputs, plan_changes
from ..plan.prepare import read_plan
from ..plan.source import PlanSource, read_source
from ..render.block_report import BlockReport
from ..render.blocks import Block, Prose
from ..report.plots import Curve, CurvePoint, curve_blocks
from ..store.records import RUN_PREFIX, RunRecord, RunStatus, new_run_id, plan_conventions
from ..store.rows import PERTURBED_TAG
from ..store.runs import RunStore
from ..systems.calls import Stop
from ..systems.policy import CallPolicy
from .outcome import RunOutcome
from .replay import stored_answers, unasked_notes
from .run import (
    RunCallbacks,
    RunRequest,
    load_outcome,
    open_new_store,
    open_plan,
    start_or_resume,
    start_run,
    system_request,
    use_match_of,
    warn,
)

# --- arms of a sweep merged into one run, for metrics that compare answers to one question ---------------------------

ARM_METRICS = ("error_detection_rate", "misleading_rate", "mistake_reappearance_rate")
"""Metrics of false documents that need no option; always computed."""
ATTACK_METRICS = ("attack_success_rate", "payload_retrieved_rate")
"""Metrics of adversarial documents; always computed."""


def merge_arms(
    request: RunRequest, sweep: Sweep, outcomes: Mapping[Level, RunOutcome], store: RunStore, made_of: Mapping[str, Any]
) -> RunOutcome:
    """Copy the outputs of all arms into one run and score it; the system is not called.

    Each question of a later arm is a variant of the question in the first arm. Documents count as false if one was
    edited. Of repeats, the first output is used.
    """
    samples: list[EvaluationSample] = []
    outputs: dict[str, SystemOutputs] = {}
    for arm in sweep.levels:
        record = outcomes[arm].record
        arm_samples = store.samples(record.run_id)
        arm_outputs = {row.position: row.output for row in store.outputs(record.run_id, repeat=0)}
        for position, sample in enumerate(arm_samples):
            output = arm_outputs.get(position)
            false = arm == "edited" and output is not None and _was_edited(sample, output)
            samples.append(arm_variant(sample, of_base=arm == sweep.base, is_false=false))
            if output is not None:
                outputs[samples[-1].sample_id] = output
    runs = [outcomes[arm].record.run_id for arm in sweep.levels]
    together = replace(
        request,
        name=f"{request.name} [{sweep}]",
        samples=samples,
        metrics=_metrics(request, ARM_METRICS),
        system=None,
        outputs=SavedOutputs(outputs.keys(), outputs.items),
        repeats=1,
        slices=[*request.slices, "labels.arm"],
        plan={**request.plan, PERTURBATION: {**made_of, "runs": runs}},
        config={**request.config, PERTURBATION: str(sweep)},
        tags=(*request.tags, PERTURBED_TAG, str(sweep)),
    )
    return start_run(together, store)


def _was_edited(sample: EvaluationSample, output: SystemOutputs) -> bool:
    if output.error is not None:
        return wrong_answer(sample) is not None  # the documents of a failed output are unknown; assume false ones
    done = output.extra.get(PERTURBATION)
    return isinstance(done, Mapping) and bool(done.get("edited"))


def _metrics(request: RunRequest, names: Sequence[str]) -> list[Metric] | None:
    """The metrics of the plan and those of these names; ``None`` selects all that the data supports."""
    if request.metrics is None and not request.targets:
        return None
    planned = request.metrics or ()
    known = {getattr(type(metric), "registered_as", metric.name) for metric in planned}
    return [*planned, *resolve_metrics([name for name in names if name not in known], request.conventions)]


def arm_results(results: Results | None) -> Results | None:
    """The results of metrics that need all arms."""
    if results is None:
        return None
    names = (*ARM_METRICS, "error_correction_rate")
    chosen = [result for result in results if result.name.startswith(names)]
    return Results(chosen, sample_ids=results.sample_ids, run_id=results.run_id)


# --- the curve of a sweep: every perturbed run compared with the base run --------------------------------------------


def build_curve(
    store: RunStore,
    sweep: Sweep,
    outcomes: Mapping[Level, RunOutcome],
    *,
    seed: int,
    notes: Sequence[str] = (),
    together: Results | None = None,
) -> Curve:
    """Build the curve from the finished runs of a sweep."""
    base = outcomes[sweep.base]
    results = {level: Results(outcomes[level].results or ()).by_name for level in sweep.levels}
    refused: dict[str, str] = {}
    elsewhere: dict[str, list[str]] = {}
    compared: dict[Level, dict[str, MetricComparison]] = {}
    for level in sweep.levels:
        if level == sweep.base or not results[level] or not results[sweep.base]:
            continue
        record = outcomes[level].record
        is_same = base.record.fingerprint == record.fingerprint
        others = not is_same and _unanswerable(store, base.record) != _unanswerable(store, record)
        # The questions are the same; only the annotations of documents differ.
        found = compare_metrics(store, base.record, record, other_dataset=True)
        hidden = TargetCategory.NEGATIVE_REJECTION.name if others else None
        kept = {name: comparison for name, comparison in found.by_name.items() if comparison.target != hidden}
        compared[level] = kept
        refused.update(found.refused)
        for name in found.by_name.keys() - kept.keys():
            elsewhere.setdefault(name, []).append(sweep.label(level))
    refused |= {name: f"at {', '.join(at)} declining is right for other questions" for name, at in elsewhere.items()}
    every: dict[str, MetricResult] = {}
    for level in sweep.levels:
        every |= results[level]
    points: dict[str, list[CurvePoint]] = {name: [] for name in every}
    for level in sweep.levels:
        changes = compared.get(level, {})
        for name, listed in points.items():
            listed.append(_point(level, results[level].get(name), changes.get(name)))
    return Curve(
        sweep.kind,
        sweep.levels,
        sweep.base,
        seed=seed,
        runs=[outcomes[level].record.run_id for level in sweep.levels],
        metrics=points,
        scaled=frozenset(name for name, result in every.items() if result.target is TargetCategory.LATENCY),
        refused=refused,
        notes=list(notes),
        together=together,
        display_names={name: display_name(result) for name, result in every.items()},
    )


def _unanswerable(store: RunStore, record: RunRecord) -> dict[str, bool | None]:
    """Which questions are unanswerable; where they differ, rejection metrics cannot be compared."""
    return {sample.sample_id: is_unanswerable(sample) for sample in store.samples(record.run_id, texts=False)}


def _point(level: Level, result: MetricResult | None, change: MetricComparison | None) -> CurvePoint:
    if result is None or not result.defined:
        return CurvePoint(level, None, n=0 if result is None else result.details.num_samples)
    difference: dict[str, Any] = {}
    if change is not None:
        difference = {
            "delta": change.delta,
            "delta_interval": change.interval,
            "p_value": change.p_value,
            "p_adjusted": change.p_adjusted,
            "verdict": None if change.delta is None else change.verdict if change.primary else "exploratory",
        }
    interval = None if result.interval is None else (float(result.interval[0]), float(result.interval[1]))
    flags = tuple(result.details.interval.flags)
    return CurvePoint(level, result.value, interval, result.details.num_samples, flags=flags, **difference)


# --- the run of one level of a sweep: started, resumed, or loaded if it is finished ----------------------------------


def sweep_token(
    store: RunStore,
    request: RunRequest,
    entry: Mapping[str, Any],
    *,
    resume: bool,
    kind: str,
    key: str = PERTURBATION,
) -> str:
    """The token shared by the runs of a sweep: a new one, or that of the latest sweep that can be resumed.

    ``entry`` is what the runs have in common at ``key`` of their plans, besides the token; ``kind`` describes it in
    messages.
    """
    if not resume:
        return new_run_id().removeprefix(RUN_PREFIX)
    expected = store.as_stored(dict(entry))
    changed: list[str] = []
    for record in store.runs(tag=PERTURBED_TAG):
        stored = record.plan.get(key) or {}
        if not record.name.startswith(f"{request.name} [") or any(
            stored.get(field_name) != expected[field_name] for field_name in expected
        ):
            continue
        now = plan_changes({**record.plan, key: None}, store.as_stored({**request.plan, key: None}))
        if not now and "sweep" in stored:
            return str(stored["sweep"])
        changed = changed or [record.run_id, *now[:5]]
    if changed:
        raise BadValueError(
            f"cannot resume {changed[0]}: the plan has changed since ({'; '.join(changed[1:])}); start a new sweep "
            "without --resume, or undo the change"
        )
    raise UnknownRunError(f"there is no run of '{request.name}' with {kind} to resume; leave out --resume to start one")


@dataclass(frozen=True, slots=True)
class ProgressOptions:
    """How the runs of a sweep or a diagnosis are started, stopped and watched."""

    resume: bool = False
    """Resume the latest sweep or diagnosis of this kind: finished runs are kept, and arms may be added."""
    retry_failed: bool = False
    stop: Stop | None = None
    watcher: RunCallbacks = field(default_factory=RunCallbacks)


def find_in_sweep(store: RunStore, name: str, token: str, key: str = PERTURBATION) -> RunRecord | None:
    """The latest run of this name in the sweep with this token; ``None`` if there is none."""
    records = store.runs(name=name)
    return next((record for record in records if (record.plan.get(key) or {}).get("sweep") == token), None)


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Runs of one system that belong together: those of a sweep over levels, or of the arms of a diagnosis."""

    request: RunRequest
    """The request of an ordinary run on the same samples."""
    store: RunStore
    token: str
    """Identifies these runs."""
    progress: ProgressOptions

    def start_or_resume(self, request: RunRequest, *, changed: str, key: str = PERTURBATION) -> RunOutcome:
        """Start or resume a run of the group; ``changed`` is the error for other samples than before."""
        earlier = find_in_sweep(self.store, request.name, self.token, key)
        if earlier is not None and dataset_fingerprint(request.samples) != earlier.fingerprint:
            raise BadValueError(f"cannot resume {earlier.run_id}: {changed}")
        return start_or_resume(
            request,
            self.store,
            earlier,
            retry_failed=self.progress.retry_failed,
            stop=self.progress.stop,
            watcher=self.progress.watcher,
        )


@dataclass(frozen=True, slots=True)
class LevelRunner(RunGroup):
    """Runs the levels of a sweep."""

    sweep: Sweep
    edit: DocumentEdit | None
    seed: int

    def plan_entry(self, level: Level | None = None, pool: NoisePool | None = None) -> dict[str, Any]:
        """The entry on the perturbation in the plan of a run."""
        return {
            "kind": self.sweep.kind,
            "levels": list(self.sweep.levels),
            "seed": self.seed,
            "sweep": self.token,
            **_payload_digest(self.sweep),
            **({} if level is None else {"level": level}),
            **({} if pool is None else {"noise_from": pool.source_name}),
        }

    def run(self, level: Level, pool: NoisePool | None, first: RunRecord | None = None) -> RunOutcome:
        """Start or resume the run of a level, which matches gold as the ``first`` run with documents does."""
        base, match = self.request, self.request.conventions.match
        if first is not None:
            base, match = use_match_of(base, first), plan_conventions(first).match
        perturbation, label = self.sweep.perturbation(level, self.seed), self.sweep.label(level)
        noise = pool if perturbation.noise else None
        attacked = self.sweep.kind == "inject"
        request = replace(
            base,
            metrics=_metrics(self.request, ATTACK_METRICS) if attacked else self.request.metrics,
            slices=[*self.request.slices, f"labels.{PAYLOAD}"] if perturbation.inject else self.request.slices,
            name=f"{self.request.name} [{label}]",
            samples=[label_sample(sample, self.sweep, level, self.seed) for sample in self.request.samples],
            system=perturbed_system(
                self.request.system, Perturber(perturbation, noise, self.edit, self.sweep.payloads, match)
            ),
            plan={**base.plan, PERTURBATION: self.plan_entry(level, noise)},
            config={**self.request.config, PERTURBATION: label},
            gives_documents=level != self.sweep.base,
            tags=(*self.request.tags, PERTURBED_TAG, label),
        )
        changed = "the dataset has changed since; start a new sweep without --resume, or restore the old samples"
        return self.start_or_resume(request, changed=changed)

    def together(self) -> RunOutcome | None:
        """The finished run of all arms; ``None`` if there is none, or if failures are retried."""
        earlier = find_in_sweep(self.store, f"{self.request.name} [{self.sweep}]", self.token)
        if earlier is None or earlier.status is not RunStatus.FINISHED or self.progress.retry_failed:
            return None
        return load_outcome(self.store, earlier)

    def notes(self, level: Level, record: RunRecord) -> list[str]:
        """Notes on the outputs of a level; raises if nothing was perturbed."""
        outputs = stored_answers(self.store, record)
        label = self.sweep.label(level)
        found = [f"{label}: {note}" for note in unasked_notes(outputs, f"nothing is perturbed in {record.run_id}")]
        if few := _count(outputs, "too_few"):
            found.append(f"{label}: for {few} of {len(outputs)} answers there was too little noise")
        if self.sweep.perturbation(level).inject:
            attacked = _count(outputs, PAYLOAD)
            found.append(f"{label}: an adversarial document was inserted for {attacked} of {len(outputs)} answers")
            groups = self.store.result(record.run_id, ATTACK_METRICS[0]).slices.get(f"labels.{PAYLOAD}", {})
            values = {kind: part.value for kind, part in groups.items() if part.defined}
            if len(values) > 1:  # a quoted poison is a success, a quoted instruction is none
                shown = ", ".join(f"{kind} {value:.4f}" for kind, value in values.items())
                found.append(f"{label}: {ATTACK_METRICS[0]} by kind of payload: {shown}")
        if self.sweep.perturbation(level).counterfactual:
            false = _count(outputs, "edited")
            true = _count(outputs, "unedited")
            unedited = f"; in relevant documents of {true} the right answer was not found" if true else ""
            found.append(f"{label}: {false} of {len(outputs)} answers were given false documents{unedited}")
        return found


def _payload_digest(sweep: Sweep) -> dict[str, str]:
    """The digest of the payloads: a sweep with others is another one."""
    digest = hashlib.sha256(repr(sweep.payloads).encode()).hexdigest()
    return {"payloads": digest[:12]} if sweep.kind == "inject" else {}


def _count(outputs: list[SystemOutputs], key: str) -> int:
    """The number of answers for which something was done to the documents."""
    return sum(bool((output.extra.get(PERTURBATION) or {}).get(key)) for output in outputs)


# --- sources of noise documents: a corpus, the samples, or what a run retrieved for other samples --------------------

NoiseSource = str | Path | CorpusLike | Iterable[Document]
"""Path of a JSONL corpus, an open corpus, or documents."""


def corpus_pool(source: NoiseSource | None) -> NoisePool | None:
    """The noise documents that the user gives; ``None`` if there are none."""
    if source is None:
        return None
    if isinstance(source, (str, Path)):
        return NoisePool.from_documents(Corpus.open(source), f"the corpus {Path(source).name}")
    return NoisePool.from_documents(source)


def initial_noise(request: RunRequest, sweep: Sweep, given: NoisePool | None, seed: int) -> NoisePool | None:
    """The source of noise before the first run: ``given``, else the documents of the samples.

    ``None`` if the sweep has no noise, or if there are too few documents; then ``noise_of_run`` gives noise after the
    run at rate 0. Raises ``BadValueError`` if rate 0 is not among the levels.
    """
    if "noise" not in sweep.perturbs:
        return None
    if given is not None:
        _require_for_all(given, request, sweep, seed)
        return given
    pool = NoisePool.from_samples(request.samples)
    try:
        _require_for_all(pool, request, sweep, seed)
    except BadValueError as error:
        if 0.0 in sweep.levels:
            return None
        why = "no sample has documents with a text" if not pool else f"those of the samples are not enough ({error})"
        raise BadValueError(
            f"there is no source of noise: {why}; give a corpus (--perturb-corpus, corpus=), or add rate 0, whose "
            "retrieved documents serve as noise for other samples"
        ) from None
    return pool


def noise_of_run(store: RunStore, record: RunRecord, request: RunRequest, sweep: Sweep, seed: int) -> NoisePool:
    """Noise from the documents that a run retrieved: for each sample, those of the other samples."""
    rankings = (row.output.retrieved for row in store.outputs(record.run_id))
    found = (item.doc for item in chain.from_iterable(rankings))
    pool = NoisePool.from_documents(found, f"what {record.run_id} found")
    for row in store.outputs(record.run_id, repeat=0, texts=False):
        ids = {item.doc.doc_id for item in row.output.retrieved}
        needed = count_for_rate(_highest_rate(sweep), len(row.output.retrieved))
        pool.require(request.samples[row.position], needed, seed, ids, hint="name a corpus (--perturb-corpus, corpus=)")
    return pool


def equal_rate_notes(sweep: Sweep, top_k: int) -> list[str]:
    """Notes on rates that give the same number of noise documents in a list of ``top_k``."""
    if sweep.kind != "noise":
        return []
    by_share = group_pairs(
        (count_for_rate(sweep.perturbation(level).noise, top_k), sweep.label(level)) for level in sweep.levels
    )
    return [
        f"{' and '.join(labels)} are the same in a list of {top_k} ({share} of noise); a larger top_k separates them"
        for share, labels in by_share.items()
        if len(labels) > 1
    ]


def _require_for_all(pool: NoisePool, request: RunRequest, sweep: Sweep, seed: int) -> None:
    for sample in request.samples:
        pool.require(sample, count_for_rate(_highest_rate(sweep), request.policy.top_k), seed)


def _highest_rate(sweep: Sweep) -> float:
    return max(sweep.perturbation(level).noise for level in sweep.levels)


# --- the sweep -------------------------------------------------------------------------------------------------------

DEFAULT_RATES = "noise=0,0.2,0.4,0.6,0.8"
PerturbSpec = str | Mapping[str, Sequence[Level]] | Sweep


@dataclass(frozen=True, slots=True)
class PerturbedRuns(BlockReport):
    """The result of a sweep: a run per level, and the curve if all of them finished."""

    sweep: Sweep
    outcomes: dict[Level, RunOutcome]
    """The outcome of the run of each level; one that ended early is the last."""
    curve: Curve | None = None
    together: RunOutcome | None = None
    """The outputs of all arms as one run."""
    store: str | None = field(repr=False, default=None)
    """Path or address of the store, if known."""

    def blocks(self) -> list[Block]:
        """The curve, or why the last run ended early."""
        return [Prose(self.last.headline)] if self.curve is None else curve_blocks(self.curve, drawn=True)

    def to_dict(self) -> dict[str, Any]:
        """The runs by level, and the curve if all of them finished."""
        runs = {self.sweep.label(level): outcome.to_dict() for level, outcome in self.outcomes.items()}
        return {"schema": 1, "runs": runs, "curve": None if self.curve is None else self.curve.to_dict()}

    @property
    def last(self) -> RunOutcome:
        """The outcome of the last run."""
        return list(self.outcomes.values())[-1]


def run_perturbed(
    path: str | Path | PlanSource,
    perturb: PerturbSpec = DEFAULT_RATES,
    *,
    corpus: NoiseSource | None = None,
    edit: DocumentEdit | None = None,
    payloads: str | Path | None = None,
    store: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    limit: int | None = None,
    tags: Sequence[str] = (),
    resume: bool = False,
    retry_failed: bool = False,
    stop: Stop | None = None,
    watcher: RunCallbacks = RunCallbacks(),
) -> PerturbedRuns:
    """Run the system of a plan at each rate of ``perturb`` (``noise=0,0.2,0.4``, ``arms=none,original,edited``).

    Noise is drawn from ``corpus``, else from the corpus of the plan, else from the documents of the samples, else from
    what the run at rate 0 retrieved for other samples. ``payloads`` is a JSONL file with adversarial documents of
    ``inject``, in place of our own. The seed is that of the plan. ``resume`` resumes the latest such
    sweep of the plan and keeps its finished runs. The gates of the plan are not checked.
    """
    sweep = perturb if isinstance(perturb, Sweep) else Sweep.parse(perturb)
    if payloads is not None:
        sweep = replace(sweep, payloads=load_payloads(payloads))
    plan = read_system_plan(path, changes, "perturbed runs", "give a system whose retrieved documents can be perturbed")

    def variants(samples: list[EvaluationSample]) -> list[EvaluationSample]:
        require_annotations(samples, sweep, edit)
        return _every_variant(samples, sweep, plan.seed)

    progress = ProgressOptions(resume, retry_failed, stop, watcher)
    with open_plan(plan, store=store, limit=limit, tags=tags, variants=variants) as (request, opened, where):
        pool = corpus_pool(plan.dataset.corpus if corpus is None else corpus)
        found = _run_sweep(request, sweep, opened, corpus=pool, edit=edit, seed=plan.seed, progress=progress)
        return replace(found, store=where)


def read_system_plan(
    path: str | Path | PlanSource, changes: Mapping[str, Any] | None, purpose: str, advice: str
) -> Plan:
    """Read a plan with a system, without its gates: they apply to ordinary runs. Raises if it has no system."""
    source = path if isinstance(path, PlanSource) else read_source(Path(path))
    plan = read_plan(source, changes={**(changes or {}), "gates": None})
    if source.values.get("gates") and "gates" not in (changes or {}):
        warn(f"the gates of {source.path} are not checked on {purpose}")
    if plan.system is None:
        raise BadValueError(f"{source.path} has saved outputs and no system; {advice}")
    return plan


def noise_curve(
    system: object,
    dataset: EvaluationDataset | Sequence[EvaluationSample],
    metrics: Metrics = (),
    *,
    perturb: PerturbSpec = DEFAULT_RATES,
    corpus: NoiseSource | None = None,
    edit: DocumentEdit | None = None,
    seed: int = 0,
    store: str | Path | RunStore | None = None,
    name: str | None = None,
    top_k: int = 10,
    concurrency: int = 1,
    timeout: float | None = None,
    retries: int = 0,
    max_failures: int | None = None,
    keep_going: bool = False,
    repeats: int = 1,
    conventions: str | Conventions = "auepora",
    match: MatchChoice | None = None,
    slices: Iterable[SliceSpec] | SliceSpec = (),
    config: Mapping[str, Any] | None = None,
    tags: Sequence[str] = (),
    resume: bool = False,
    retry_failed: bool = False,
    stop: Stop | None = None,
    watcher: RunCallbacks = RunCallbacks(),
) -> PerturbedRuns:
    """Run a live system at each rate of ``perturb``: ``run_perturbed`` without a plan file.

    The retriever of the system must be accessible. Storing, scoring and ``match`` are as in ``run_system``.

    Args:
        system: A pair of a retriever and a generator, or an object with both.
        dataset: The samples.
        metrics: As for ``evaluate``; so are ``conventions`` and ``slices``.
        perturb: Rates, such as ``noise=0,0.2,0.4``, or arms.
        corpus: Documents to draw noise from.
        edit: Makes a counterfactual document.
        seed: Of all draws.
        store: The store, by default ``$AUEPORA_STORE`` or ``runs.sqlite``.
        name: Of the runs.
        top_k: How many documents the system retrieves.
        concurrency: The most calls in flight; ``timeout``, ``retries``, ``max_failures``, ``keep_going``, ``repeats``,
            ``config``, ``tags``, ``resume``, ``retry_failed``, ``stop`` and ``watcher`` are as in ``run_system``.

    Returns:
        The runs by rate, and the curve.

    Example:
        >>> from auepora_eval.examples.simple_rag import build
        >>> corpus = [Document("ada", "Ada Lovelace wrote it."), Document("engine", "The machine is the engine.")]
        >>> runs = noise_curve(build(corpus), samples, ["recall@1"], perturb="empty=0,1", name="noisy")
        >>> [point.value for point in runs.curve.metrics["recall@1"]][1]
        0.0
    """
    sweep = perturb if isinstance(perturb, Sweep) else Sweep.parse(perturb)
    request = system_request(
        system,
        dataset,
        metrics,
        name=name,
        policy=CallPolicy(top_k, concurrency, timeout, retries, max_failures=max_failures, keep_going=keep_going),
        repeats=repeats,
        conventions=conventions,
        match=match,
        slices=slices,
        config=config,
        tags=tags,
    )
    require_annotations(request.samples, sweep, edit)
    pool, progress = corpus_pool(corpus), ProgressOptions(resume, retry_failed, stop, watcher)
    with open_new_store(store) as (opened, where):
        runs = _run_sweep(request, sweep, opened, corpus=pool, edit=edit, seed=seed, progress=progress)
        return replace(runs, store=where)


def _run_sweep(
    request: RunRequest,
    sweep: Sweep,
    store: RunStore,
    *,
    corpus: NoisePool | None,
    edit: DocumentEdit | None,
    seed: int,
    progress: ProgressOptions,
) -> PerturbedRuns:
    require_retriever(request.system)
    if "duplicate" in sweep.perturbs and request.conventions.duplicates == "error":
        raise BadValueError(
            f"{sweep}: duplicate documents are an error in the conventions '{request.conventions.name}'"
        )
    pool = initial_noise(request, sweep, corpus, seed)
    entry = {"kind": sweep.kind, "levels": list(sweep.levels), "seed": seed, **_payload_digest(sweep)}
    token = sweep_token(store, request, entry, resume=progress.resume, kind=f"{sweep} and seed {seed}")
    levels = LevelRunner(request, store, token, progress, sweep=sweep, edit=edit, seed=seed)
    outcomes: dict[Level, RunOutcome] = {}
    notes = equal_rate_notes(sweep, request.policy.top_k)
    first: RunRecord | None = None
    # The base first: without another source, noise is drawn from what it retrieved.
    for level in sorted(sweep.levels, key=lambda level: level != sweep.base):
        if pool is None and sweep.perturbation(level).noise:
            pool = noise_of_run(store, outcomes[sweep.base].record, request, sweep, seed)
        outcomes[level] = levels.run(level, pool, first)
        if outcomes[level].results is None:
            return PerturbedRuns(sweep, outcomes)
        if first is None and not sweep.perturbation(level).empty:  # empty rankings do not decide how gold is matched
            first = outcomes[level].record
        notes += levels.notes(level, outcomes[level].record)
    together = None
    if sweep.kind == ARMS_KIND and "edited" in sweep.levels and len(sweep.levels) > 1:
        assert first is not None  # that of 'edited' at the latest
        merged = use_match_of(request, first)
        together = levels.together() or merge_arms(merged, sweep, outcomes, store, levels.plan_entry())
    arms = arm_results(None if together is None else together.results)
    curve = build_curve(store, sweep, outcomes, seed=seed, notes=notes, together=arms)
    return PerturbedRuns(sweep, outcomes, curve, together)


def _every_variant(samples: Sequence[EvaluationSample], sweep: Sweep, seed: int) -> list[EvaluationSample]:
    """The samples of all levels as they will be scored, to check which metrics apply."""
    found = [label_sample(sample, sweep, level, seed) for level, sample in product(sweep.levels, samples)]
    if sweep.kind != ARMS_KIND:
        return found
    return [
        arm_variant(sample, of_base=sample.labels["arm"] == sweep.base, is_false=sample.labels["arm"] == "edited")
        for sample in found
    ]
