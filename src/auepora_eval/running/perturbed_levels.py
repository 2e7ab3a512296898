"""The run of one level of a sweep: started, resumed, or loaded if it is finished."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..calling.stop import Stop
from ..calling.system_parts import RETRIEVER_NOT_CALLED
from ..core.errors import BadValueError, UnknownRunError
from ..core.types import SystemOutputs
from ..io.fingerprint import dataset_fingerprint
from ..perturb.counterfactual import DocumentEdit
from ..perturb.kinds import Level, Sweep
from ..perturb.noise import NoisePool
from ..perturb.perturber import Perturber
from ..perturb.samples import label_sample
from ..perturb.systems import PERTURBATION, perturbed_system
from ..planfile.changes import plan_changes
from ..store.ids import RUN_PREFIX, new_run_id
from ..store.records import RunRecord, RunStatus
from ..store.run_rows import PERTURBED_TAG
from ..store.runs import RunStore
from .run import RunCallbacks, RunOutcome, RunRequest, resume_run, start_run

__all__ = ["LevelRunner", "sweep_token"]


def sweep_token(store: RunStore, request: RunRequest, sweep: Sweep, seed: int, *, resume: bool) -> str:
    """The token shared by the runs of a sweep: a new one, or that of the latest sweep that can be resumed."""
    if not resume:
        return new_run_id().removeprefix(RUN_PREFIX)
    expected = store.as_stored({"kind": sweep.kind, "levels": list(sweep.levels), "seed": seed})
    changed: list[str] = []
    for record in store.runs(tag=PERTURBED_TAG):
        entry = record.plan.get(PERTURBATION) or {}
        if not record.name.startswith(f"{request.name} [") or any(entry.get(key) != expected[key] for key in expected):
            continue
        now = plan_changes(_without_perturbation(record.plan), store.as_stored(_without_perturbation(request.plan)))
        if not now:
            return str(entry["sweep"])
        changed = changed or [record.run_id, *now[:5]]
    if changed:
        raise BadValueError(
            f"cannot resume {changed[0]}: the plan has changed since ({'; '.join(changed[1:])}); start a new sweep "
            "without --resume, or undo the change"
        )
    raise UnknownRunError(
        f"there is no run of '{request.name}' with {sweep} and seed {seed} to resume; leave out --resume to start one"
    )


def _without_perturbation(plan: Any) -> dict[str, Any]:
    return {key: value for key, value in plan.items() if key != PERTURBATION}


@dataclass(frozen=True, slots=True)
class LevelRunner:
    """Runs the levels of a sweep."""

    request: RunRequest
    """The request of the unperturbed run."""
    sweep: Sweep
    store: RunStore
    edit: DocumentEdit | None
    seed: int
    token: str
    """Identifies the runs of this sweep."""
    retry_failed: bool
    stop: Stop | None
    watcher: RunCallbacks

    def plan_entry(self, level: Level | None = None, pool: NoisePool | None = None) -> dict[str, Any]:
        """The entry on the perturbation in the plan of a run."""
        return {
            "kind": self.sweep.kind,
            "levels": list(self.sweep.levels),
            "seed": self.seed,
            "sweep": self.token,
            **({} if level is None else {"level": level}),
            **({} if pool is None else {"noise_from": pool.source_name}),
        }

    def run(self, level: Level, pool: NoisePool | None) -> RunOutcome:
        """Start or resume the run of a level."""
        perturbation, label = self.sweep.perturbation(level, self.seed), self.sweep.label(level)
        noise = pool if perturbation.noise else None
        request = replace(
            self.request,
            name=f"{self.request.name} [{label}]",
            samples=[label_sample(one, self.sweep, level, self.seed) for one in self.request.samples],
            system=perturbed_system(self.request.system, Perturber(perturbation, noise, self.edit)),
            plan={**self.request.plan, PERTURBATION: self.plan_entry(level, noise)},
            config={**self.request.config, PERTURBATION: label},
            tags=(*self.request.tags, PERTURBED_TAG, label),
        )
        earlier = self._find_earlier(request.name)
        if earlier is None:
            return start_run(request, self.store, stop=self.stop, watcher=self.watcher)
        if dataset_fingerprint(request.samples) != earlier.fingerprint:
            raise BadValueError(
                f"cannot resume {earlier.run_id}: the dataset has changed since; start a new sweep without "
                "--resume, or restore the old samples"
            )
        if earlier.status is RunStatus.FINISHED and not self.retry_failed:
            return self._load_outcome(earlier)
        return resume_run(
            request, self.store, earlier, retry_failed=self.retry_failed, stop=self.stop, watcher=self.watcher
        )

    def together(self) -> RunOutcome | None:
        """The finished run of all arms; ``None`` if there is none, or if failures are retried."""
        earlier = self._find_earlier(f"{self.request.name} [{self.sweep}]")
        if earlier is None or earlier.status is not RunStatus.FINISHED or self.retry_failed:
            return None
        return self._load_outcome(earlier)

    def _load_outcome(self, record: RunRecord) -> RunOutcome:
        return RunOutcome(record, "finished", self.store.results(record.run_id))

    def _find_earlier(self, name: str) -> RunRecord | None:
        records = self.store.runs(name=name)
        return next((one for one in records if (one.plan.get(PERTURBATION) or {}).get("sweep") == self.token), None)

    def notes(self, level: Level, record: RunRecord) -> list[str]:
        """Notes on the outputs of a level; raises if nothing was perturbed."""
        outputs = [row.output for row in self.store.outputs(record.run_id, texts=False) if row.output.error is None]
        unasked = sum(RETRIEVER_NOT_CALLED in one.extra for one in outputs)
        if outputs and unasked == len(outputs):
            raise BadValueError(
                f"the system answered every sample without calling its 'retriever', so nothing is "
                f"perturbed in {record.run_id}; give its parts as a pair (retriever, generator)"
            )
        label = self.sweep.label(level)
        found = [f"{label}: {unasked} of {len(outputs)} answers were given without calling the retriever"] * bool(
            unasked
        )
        if few := _count(outputs, lambda done: bool(done.get("too_few"))):
            found.append(f"{label}: for {few} of {len(outputs)} answers there was too little noise")
        if self.sweep.perturbation(level).counterfactual:
            false = _count(outputs, lambda done: bool(done.get("edited")))
            true = _count(outputs, lambda done: bool(done.get("unedited")))
            unedited = f"; in relevant documents of {true} the right answer was not found" if true else ""
            found.append(f"{label}: {false} of {len(outputs)} answers were given false documents{unedited}")
        return found


def _count(outputs: list[SystemOutputs], which: Callable[[dict[str, Any]], bool]) -> int:
    return sum(which(one.extra.get(PERTURBATION) or {}) for one in outputs)
