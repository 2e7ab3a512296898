"""A pool of Ray actors that load models once and score batches; an actor that dies is replaced, up to a limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from .ray_worker import BatchResults, Job, ModelActor

__all__ = ["ModelPool", "TaskOutcome"]

_AHEAD = 2
"""How many batches an actor has before it, so that it need not wait for the next."""
_PARTING = 5.0
_Kind = Literal["returned", "suspected", "confirmed", "unavailable"]


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The outcome of a batch that was submitted to an actor."""

    task: Any
    kind: _Kind
    """``returned``: it has results. ``suspected``: its actor died with several batches. ``confirmed``: its actor died
    with this batch alone. ``unavailable``: no actor can be started."""
    returned: BatchResults | None = None


@dataclass(eq=False)
class _ActorHandle:
    """An actor and the batches submitted to it."""

    actor: Any
    loading: Any
    """A reference to the loading of the models; None once they are loaded. Batches are submitted only then."""
    tasks: dict[Any, Any] = field(default_factory=dict)
    """The tasks by the reference to their result, in the order of submission."""
    reserved: bool = False
    """Whether the last submitted batch must be its only one."""

    def can_take(self, *, alone: bool) -> bool:
        """Whether another batch may be submitted to it."""
        may_queue = not (alone or self.reserved) and len(self.tasks) < _AHEAD
        return self.loading is None and (not self.tasks or may_queue)


class ModelPool:
    """A pool of actors with loaded models: one per GPU, or one if there is no GPU."""

    def __init__(self, ray: Any, job: Job, count: int, *, gpu: float, processors: int, retries: int) -> None:
        """For each actor, ``processors`` and this fraction of a ``gpu`` are reserved.

        Actors that die while loading are replaced ``retries`` times in total.
        """
        self._ray = ray
        self._job = job
        self._retries = retries
        self._kind = ray.remote(ModelActor).options(
            num_cpus=processors, num_gpus=gpu, max_restarts=0, max_task_retries=0
        )
        self._died_loading = 0
        self.unavailable = False
        """Whether no actor survives loading the models, after all retries."""
        self._handles = [self._spawn() for _ in range(count)]

    def _spawn(self) -> _ActorHandle:
        actor = self._kind.remote(self._job)
        return _ActorHandle(actor, actor.load.remote())

    def has_room(self, *, alone: bool) -> bool:
        """Whether another batch may be submitted; with ``alone``, to an actor that has no other."""
        return any(one.can_take(alone=alone) for one in self._handles)

    def submit(self, task: Any, item: Any, *, alone: bool) -> None:
        """Submit a batch to the least busy actor; ``task`` is returned with its outcome."""
        handle = min((one for one in self._handles if one.can_take(alone=alone)), key=lambda one: len(one.tasks))
        handle.tasks[handle.actor.score.remote(item)] = task
        handle.reserved = alone

    def references(self) -> Iterator[Any]:
        """The references that are still pending."""
        for handle in self._handles:
            if handle.loading is not None:
                yield handle.loading
            yield from handle.tasks

    def outcomes(self, reference: Any) -> list[TaskOutcome]:
        """The outcome of a finished reference, and of the other batches of its actor if that died."""
        handle = next(one for one in self._handles if reference == one.loading or reference in one.tasks)
        try:
            returned: BatchResults = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError:
            raise
        except self._ray.exceptions.RayError:
            return self._reap(handle)
        if reference == handle.loading:
            handle.loading = None
            return []
        return [TaskOutcome(handle.tasks.pop(reference), "returned", returned)]

    def _reap(self, handle: _ActorHandle) -> list[TaskOutcome]:
        self._handles.remove(handle)
        outcomes, lost_tasks = [], []
        for reference, unit in handle.tasks.items():
            try:
                outcomes.append(TaskOutcome(unit, "returned", self._ray.get(reference, timeout=_PARTING)))
            except self._ray.exceptions.RayError:
                lost_tasks.append(unit)
        self._ray.kill(handle.actor)  # it may only be out of reach
        self._died_loading += handle.loading is not None
        if self._died_loading <= self._retries:
            self._handles.append(self._spawn())
        self.unavailable = not self._handles
        # The first batch need not be the cause: results that were not yet sent are lost as well.
        kind: _Kind = "unavailable" if self.unavailable else "suspected" if len(lost_tasks) > 1 else "confirmed"
        return outcomes + [TaskOutcome(unit, kind) for unit in lost_tasks]

    def abandon(self) -> list[Any]:
        """Stop the pool; return the pending tasks."""
        left = [task for handle in self._handles for task in handle.tasks.values()]
        self.close()
        self.unavailable = True
        return left

    def close(self) -> None:
        """Kill all actors."""
        for handle in self._handles:
            self._ray.kill(handle.actor)
        self._handles.clear()
