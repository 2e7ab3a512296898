"""Perturbed runs of a live system: a stored run at each rate, and the curve over the rates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..calling.policy import CallPolicy
from ..calling.stop import Stop
from ..core.conventions import Conventions
from ..core.dataset import EvaluationDataset
from ..core.engine import Metrics
from ..core.errors import AueporaWarning, BadValueError
from ..core.secrets import Secrets
from ..core.slices import SliceSpec
from ..core.types import EvaluationSample
from ..perturb.counterfactual import DocumentEdit
from ..perturb.kinds import ARMS_KIND, Level, Sweep
from ..perturb.noise import NoisePool
from ..perturb.samples import arm_variant, label_sample, require_annotations
from ..perturb.systems import require_retriever
from ..planfile.prepare import prepare
from ..planfile.read import read_plan
from ..planfile.source import read_source
from ..reporting.curve import Curve
from ..store.runs import RunStore
from .noise_sources import NoiseSource, corpus_pool, equal_rate_notes, initial_noise, noise_of_run
from .perturbed_arms import arm_results, merge_arms
from .perturbed_curve import build_curve
from .perturbed_levels import LevelRunner, sweep_token
from .plans import closing_system, default_store, plan_request, system_request
from .run import RunCallbacks, RunOutcome, RunRequest

__all__ = ["PerturbedRuns", "noise_curve", "run_perturbed"]

DEFAULT_RATES = "noise=0,0.2,0.4,0.6,0.8"
PerturbSpec = str | Mapping[str, Sequence[Level]] | Sweep


@dataclass(frozen=True, slots=True)
class PerturbedRuns:
    """The result of a sweep: a run per level, and the curve if all of them finished."""

    sweep: Sweep
    outcomes: dict[Level, RunOutcome]
    """The outcome of the run of each level; one that ended early is the last."""
    curve: Curve | None = None
    together: RunOutcome | None = None
    """The outputs of all arms as one run."""
    store: str | None = field(repr=False, default=None)
    """Path or address of the store, if known."""

    @property
    def last(self) -> RunOutcome:
        """The outcome of the last run."""
        return list(self.outcomes.values())[-1]

    @property
    def finished(self) -> bool:
        """Whether the run of every level finished."""
        return self.curve is not None


def run_perturbed(
    path: str | Path,
    perturb: PerturbSpec = DEFAULT_RATES,
    *,
    corpus: NoiseSource | None = None,
    edit: DocumentEdit | None = None,
    store: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    limit: int | None = None,
    tags: Sequence[str] = (),
    resume: bool = False,
    retry_failed: bool = False,
    stop: Stop | None = None,
    watcher: RunCallbacks = RunCallbacks(),  # noqa: B008 -- frozen
) -> PerturbedRuns:
    """Run the system of a plan at each rate of ``perturb`` (``noise=0,0.2,0.4``, ``arms=none,original,edited``).

    Noise is drawn from ``corpus``, else from the corpus of the plan, else from the documents of the samples, else from
    what the run at rate 0 retrieved for other samples. The seed is that of the plan. ``resume`` resumes the latest such
    sweep of the plan and keeps its finished runs. The gates of the plan are not checked.
    """
    sweep = perturb if isinstance(perturb, Sweep) else Sweep.parse(perturb)
    plan = read_plan(path, changes={**(changes or {}), "gates": None})  # gates apply to the unperturbed system
    if read_source(Path(path)).values.get("gates") and "gates" not in (changes or {}):
        _warn(f"the gates of {path} are not checked on perturbed runs")
    if plan.system is None:
        raise BadValueError(
            f"{path} has saved outputs and no system; give a system whose retrieved documents can be perturbed"
        )

    def variants(samples: list[EvaluationSample]) -> list[EvaluationSample]:
        require_annotations(samples, sweep, edit)
        return _every_variant(samples, sweep, plan.seed)

    prepared = prepare(plan, limit=limit, variants=variants)
    secrets = Secrets(plan.secrets)
    with secrets.redact_errors(), closing_system(prepared.system, secrets):
        for warning in prepared.warnings:
            _warn(secrets.message(warning))
        pool = corpus_pool(plan.dataset.corpus if corpus is None else corpus)
        where = default_store(store, plan.store)
        with RunStore.open(where, secrets=plan.secrets) as opened:
            return _run_sweep(
                plan_request(prepared, tags, store=where), sweep, opened, pool, edit, plan.seed,
                resume=resume, retry_failed=retry_failed, stop=stop, watcher=watcher, where=where,
            )  # fmt: skip


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
    slices: Iterable[SliceSpec] | SliceSpec = (),
    config: Mapping[str, Any] | None = None,
    tags: Sequence[str] = (),
    resume: bool = False,
    retry_failed: bool = False,
    stop: Stop | None = None,
    watcher: RunCallbacks = RunCallbacks(),  # noqa: B008 -- frozen
) -> PerturbedRuns:
    """Run a live system at each rate of ``perturb``: ``run_perturbed`` without a plan file.

    The retriever of the system must be accessible. Storing and scoring are as in ``run_system``.
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
        slices=slices,
        config=config,
        tags=tags,
    )
    require_annotations(request.samples, sweep, edit)
    pool = corpus_pool(corpus)
    options: dict[str, Any] = {"resume": resume, "retry_failed": retry_failed, "stop": stop, "watcher": watcher}
    if isinstance(store, RunStore):
        return _run_sweep(request, sweep, store, pool, edit, seed, where=None, **options)
    where = default_store(store)
    with RunStore.open(where) as opened:
        return _run_sweep(request, sweep, opened, pool, edit, seed, where=where, **options)


def _run_sweep(
    request: RunRequest,
    sweep: Sweep,
    store: RunStore,
    corpus: NoisePool | None,
    edit: DocumentEdit | None,
    seed: int,
    *,
    resume: bool,
    retry_failed: bool,
    stop: Stop | None,
    watcher: RunCallbacks,
    where: str | None,
) -> PerturbedRuns:
    require_retriever(request.system)
    if "duplicate" in sweep.perturbs and request.conventions.duplicates == "error":
        raise BadValueError(
            f"{sweep}: duplicate documents are an error in the conventions '{request.conventions.name}'"
        )
    pool = initial_noise(request, sweep, corpus, seed)
    token = sweep_token(store, request, sweep, seed, resume=resume)
    levels = LevelRunner(request, sweep, store, edit, seed, token, retry_failed, stop, watcher)
    outcomes: dict[Level, RunOutcome] = {}
    notes = equal_rate_notes(sweep, request.policy.top_k)
    # The base first: without another source, noise is drawn from what it retrieved.
    for level in sorted(sweep.levels, key=lambda one: one != sweep.base):
        if pool is None and sweep.perturbation(level).noise:
            pool = noise_of_run(store, outcomes[sweep.base].record, request, sweep, seed)
        outcomes[level] = levels.run(level, pool)
        if outcomes[level].results is None:
            return PerturbedRuns(sweep, outcomes, store=where)
        notes += levels.notes(level, outcomes[level].record)
    together = None
    if sweep.kind == ARMS_KIND and "edited" in sweep.levels and len(sweep.levels) > 1:
        together = levels.together() or merge_arms(request, sweep, outcomes, store, levels.plan_entry())
    arms = arm_results(None if together is None else together.results)
    curve = build_curve(store, sweep, outcomes, seed=seed, notes=notes, together=arms)
    return PerturbedRuns(sweep, outcomes, curve, together, where)


def _every_variant(samples: Sequence[EvaluationSample], sweep: Sweep, seed: int) -> list[EvaluationSample]:
    """The samples of all levels as they will be scored, to check which metrics apply."""
    found = [label_sample(sample, sweep, level, seed) for level in sweep.levels for sample in samples]
    if sweep.kind != ARMS_KIND:
        return found
    return [
        arm_variant(one, of_base=one.labels["arm"] == sweep.base, is_false=one.labels["arm"] == "edited")
        for one in found
    ]


def _warn(message: str) -> None:
    import warnings

    warnings.warn(message, AueporaWarning, stacklevel=3)
