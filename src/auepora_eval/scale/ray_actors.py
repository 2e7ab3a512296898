"""Models of a cluster: each loaded once by an actor and fed batches; one that dies is replaced, so many times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from .ray_worker import BatchResults, Job, ModelActor

__all__ = ["ModelPool", "TaskOutcome"]

_AHEAD = 2
"""How many batches an actor has before it, so that it need not wait for the next."""
_PARTING = 5.0
_Kind = Literal["returned", "suspected", "blamed", "hopeless"]


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What became of a batch that an actor was given."""

    given: Any
    kind: _Kind
    """It returned something; its actor died while it held others, too, or this one alone; no actor can be had."""
    returned: BatchResults | None = None


@dataclass(eq=False)
class _ActorHandle:
    """An actor, and what it was given."""

    actor: Any
    loading: Any
    """A reference to the end of it; None once it is loaded, and only then it is given anything."""
    given: dict[Any, Any] = field(default_factory=dict)
    """By reference to what will be returned, in the order in which it was given."""
    reserved: bool = False
    """Whether the last that it was given is to be its only one."""

    def can_take(self, *, alone: bool) -> bool:
        """Whether another batch may be given to it."""
        beside = not (alone or self.reserved) and len(self.given) < _AHEAD
        return self.loading is None and (not self.given or beside)


class ModelPool:
    """Actors that keep models: one per GPU, or one without where there are none."""

    def __init__(self, ray: Any, job: Job, count: int, *, gpu: float, processors: int, retries: int) -> None:
        """For each, ``processors`` and this share of a ``gpu`` are reserved.

        Such as die while they load are replaced ``retries`` times in all.
        """
        self._ray = ray
        self._job = job
        self._retries = retries
        self._kind = ray.remote(ModelActor).options(
            num_cpus=processors, num_gpus=gpu, max_restarts=0, max_task_retries=0
        )
        self._died_loading = 0
        self.unavailable = False
        """Whether no actor lives to load the models, however often it is tried."""
        self._keepers = [self._spawn() for _ in range(count)]

    def _spawn(self) -> _ActorHandle:
        actor = self._kind.remote(self._job)
        return _ActorHandle(actor, actor.load.remote())

    def has_room(self, *, alone: bool) -> bool:
        """Whether another batch may be given, to an actor that holds no other if it is to be ``alone``."""
        return any(one.can_take(alone=alone) for one in self._keepers)

    def submit(self, given: Any, item: Any, *, alone: bool) -> None:
        """Let a batch be scored by whoever has least to do; ``given`` comes back with what became of it."""
        keeper = min((one for one in self._keepers if one.can_take(alone=alone)), key=lambda one: len(one.given))
        keeper.given[keeper.actor.score.remote(item)] = given
        keeper.reserved = alone

    def references(self) -> Iterator[Any]:
        """What is waited for."""
        for keeper in self._keepers:
            if keeper.loading is not None:
                yield keeper.loading
            yield from keeper.given

    def outcomes(self, reference: Any) -> list[TaskOutcome]:
        """What became of a batch that need not be waited for any more, and of others that its actor took with it."""
        keeper = next(one for one in self._keepers if reference == one.loading or reference in one.given)
        try:
            returned: BatchResults = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError:
            raise
        except self._ray.exceptions.RayError:
            return self._reap(keeper)
        if reference == keeper.loading:
            keeper.loading = None
            return []
        return [TaskOutcome(keeper.given.pop(reference), "returned", returned)]

    def _reap(self, keeper: _ActorHandle) -> list[TaskOutcome]:
        self._keepers.remove(keeper)
        verdicts, lost = [], []
        for reference, unit in keeper.given.items():
            try:
                verdicts.append(TaskOutcome(unit, "returned", self._ray.get(reference, timeout=_PARTING)))
            except self._ray.exceptions.RayError:
                lost.append(unit)
        self._ray.kill(keeper.actor)  # it may only be out of reach
        self._died_loading += keeper.loading is not None
        if self._died_loading <= self._retries:
            self._keepers.append(self._spawn())
        self.unavailable = not self._keepers
        # It need not have died of the first of them: what it had scored and not yet sent is lost as well.
        kind: _Kind = "hopeless" if self.unavailable else "suspected" if len(lost) > 1 else "blamed"
        return verdicts + [TaskOutcome(unit, kind) for unit in lost]

    def abandon(self) -> list[Any]:
        """Try no more; what was under way."""
        left = [given for keeper in self._keepers for given in keeper.given.values()]
        self.close()
        self.unavailable = True
        return left

    def close(self) -> None:
        """Let the actors go, whatever they are doing."""
        for keeper in self._keepers:
            self._ray.kill(keeper.actor)
        self._keepers.clear()
