"""A batch: aligned samples and outputs, with features that are computed once and shared by every metric."""

from __future__ import annotations

import asyncio
import re
import threading
import warnings
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from .errors import AlignmentError, AueporaWarning, BadTypeError
from .types import EvaluationSample, Response, SystemOutputs

__all__ = ["Batch", "failure_reason", "warn_notes"]

T = TypeVar("T")
_SNAKE = re.compile(r"[a-z_]+")


class Batch:
    """Some samples and what the system returned for each; ``None`` stands for an output that is missing.

    ``feature(key, build)`` computes a shared column set on first use. Features are what makes a plan of twenty metrics
    cost little more than one: ids are looked up once, texts are tokenised once.
    """

    def __init__(
        self,
        samples: Sequence[EvaluationSample],
        outputs: Sequence[SystemOutputs | None],
        *,
        features: Mapping[Hashable, Any] | None = None,
    ) -> None:
        if len(samples) != len(outputs):
            raise AlignmentError(len(samples), len(outputs))
        self.samples = samples
        self.outputs = outputs
        self.notes: dict[str, list[str]] = {}
        """Remarks for the user: what was odd, and the samples it was seen in."""
        self._features: dict[Hashable, Any] = dict(features or {})
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self.samples)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.RLock()

    def feature(self, key: Hashable, build: Callable[[Batch], T]) -> T:
        """The feature called ``key``, built on first use."""
        try:
            return cast(T, self._features[key])
        except KeyError:
            with self._lock:
                if key not in self._features:
                    self._features[key] = build(self)
                return cast(T, self._features[key])

    async def afeature(self, key: Hashable, build: Callable[[Batch], Awaitable[T]]) -> T:
        """Like ``feature`` for one that must be awaited: the first caller starts it, all await the same result."""
        future = self._features.get(key)
        if future is None:
            future = self._features[key] = asyncio.ensure_future(build(self))
        # Shielded, so that one metric giving up does not cancel what the others wait for.
        return cast(T, await asyncio.shield(future))

    @property
    def failures(self) -> list[str | None]:
        """Per sample why the system failed, ``None`` where it did not; a missing output is not counted here."""
        return self.feature("failures", _failures)

    @property
    def missing(self) -> npt.NDArray[np.bool_]:
        """Which samples have no output at all."""
        return self.feature("missing", lambda b: np.fromiter((o is None for o in b.outputs), np.bool_, len(b)))

    @property
    def all_answered(self) -> bool:
        """Whether every sample has an output and none of them failed."""
        return self.feature("all_answered", lambda b: not b.missing.any() and not any(b.failures))

    def present_outputs(self) -> list[SystemOutputs]:
        """Outputs with a stand-in for each failed or missing one: nothing retrieved, an empty answer, the error named.

        For metrics that know nothing of failures and would stumble over ``None``.
        """
        return self.feature("present_outputs", lambda b: [_stand_in(output) for output in b.outputs])

    def note(self, remark: str, sample_id: str) -> None:
        """Remember a remark about a sample; the engine says it once, with a count."""
        self.notes.setdefault(remark, []).append(sample_id)


def _failures(batch: Batch) -> list[str | None]:
    return [
        None if output is None or output.error is None else failure_reason(output.error)
        for output in checked_outputs(batch)
    ]


def failure_reason(error: str) -> str:
    """A short reason for an error text: what stands before its colon if that is one word, else ``error``.

    >>> failure_reason("timeout"), failure_reason("timeout: 30 s"), failure_reason("Boom!")
    ('timeout', 'timeout', 'error')
    """
    head = error.partition(":")[0].strip()
    return head if _SNAKE.fullmatch(head) else "error"


def checked_outputs(batch: Batch) -> Sequence[SystemOutputs | None]:
    """The outputs, after making sure that each is a ``SystemOutputs`` or ``None``."""
    return batch.feature("checked_outputs", _check_outputs)


def _check_outputs(batch: Batch) -> Sequence[SystemOutputs | None]:
    kinds = set(map(type, batch.outputs))
    if kinds - {SystemOutputs, type(None)}:
        for sample, output in zip(batch.samples, batch.outputs, strict=True):
            if output is not None and not isinstance(output, SystemOutputs):
                raise BadTypeError(
                    f"the output for sample '{sample.sample_id}' is a {type(output).__name__}, not a SystemOutputs"
                )
    return batch.outputs


def _stand_in(output: SystemOutputs | None) -> SystemOutputs:
    if output is None:
        return SystemOutputs(retrieved=[], response=Response(""), error="missing_output")
    if output.error is not None and output.response is None:
        return SystemOutputs(
            retrieved=output.retrieved, response=Response(""), timings=output.timings, extra=output.extra,
            error=output.error, steps=output.steps, usage=output.usage, repeat=output.repeat,
        )  # fmt: skip
    return output


def warn_notes(batches: Iterable[Batch], *, stacklevel: int = 3) -> None:
    """Warn once per remark, with how many samples it concerns and the first of them."""
    merged: dict[str, list[str]] = {}
    for batch in batches:
        for remark, ids in batch.notes.items():
            merged.setdefault(remark, []).extend(ids)
    for remark, ids in merged.items():
        where = f"sample '{ids[0]}'" + (f" and {len(ids) - 1} more" if len(ids) > 1 else "")
        warnings.warn(f"{remark} ({where})", AueporaWarning, stacklevel=stacklevel)
