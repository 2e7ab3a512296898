"""A batch: aligned samples and outputs with shared features, and its compact form for pickling."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..errors import AlignmentError, AueporaWarning, BadTypeError, DuplicateIdError
from .types import EvaluationSample, Response, SystemOutputs

T = TypeVar("T")
P = ParamSpec("P")
_SNAKE = re.compile(r"[a-z_]+")


class Batch:
    """Aligned samples and outputs; ``None`` stands for a missing output.

    ``feature(key, build)`` computes a shared column set on first use. Features are what makes a plan of twenty metrics
    cost little more than one: ids are looked up once, texts are tokenised once.
    """

    def __init__(
        self,
        samples: Sequence[EvaluationSample],
        outputs: Sequence[SystemOutputs | None],
        *,
        features: Mapping[Hashable, Any] | None = None,
        memory: dict[Hashable, Any] | None = None,
    ) -> None:
        AlignmentError.check(len(samples), len(outputs))
        self.samples = samples
        self.outputs = outputs
        self.notes: dict[str, tuple[int, str]] = {}
        """Warnings for the user: message -> (number of samples, id of the first)."""
        self._futures: dict[Hashable, Awaitable[Any]] = {}
        self._features: dict[Hashable, Any] = dict(features or {})
        self.memory: dict[Hashable, Any] = {} if memory is None else memory
        """Cache shared by the batches of one evaluation, such as a vocabulary. Results must not depend on it."""
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self.samples)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_lock", "_futures", "memory")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.memory = {}
        self._lock = threading.RLock()
        self._futures = {}

    def feature(self, key: Hashable, build: Callable[[Batch], T]) -> T:
        """The feature called ``key``, built on first use."""
        if key not in self._features:
            with self._lock:
                if key not in self._features:
                    self._features[key] = build(self)
        return cast(T, self._features[key])

    def known(self, key: Hashable) -> Any | None:
        """The feature called ``key`` if there is one already."""
        return self._features.get(key)

    async def afeature(self, key: Hashable, build: Callable[[Batch], Awaitable[T]]) -> T:
        """Like ``feature`` for one that must be awaited: the first caller starts it, all await the same result.

        A build that fails is forgotten, so that a later caller may try again.
        """
        import asyncio

        future = self._futures.get(key)
        if future is None:
            future = self._futures[key] = asyncio.ensure_future(build(self))
        try:
            # Shielded, so that one metric giving up does not cancel what the others wait for.
            return cast(T, await asyncio.shield(future))
        except Exception:
            self._futures.pop(key, None)
            raise

    @property
    def request_batch(self) -> Batch:
        """The batch that remembers the requests of metrics: another one where this has rows besides those of it."""
        return self

    @property
    def failures(self) -> list[str | None]:
        """Per sample the reason of a system failure, else ``None``; missing outputs are not included."""
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
        """Outputs with a placeholder for each failed or missing one: nothing retrieved, an empty answer, an error.

        For metrics that do not handle failures or ``None``.
        """
        return self.feature("present_outputs", lambda b: [_placeholder(output) for output in b.outputs])

    def take(self, rows: npt.NDArray[np.intp]) -> Batch:
        """A batch of some rows, with the same memory."""
        samples = [self.samples[row] for row in rows.tolist()]
        return Batch(samples, [self.outputs[row] for row in rows.tolist()], memory=self.memory)

    def note(self, message: str, sample_id: str) -> None:
        """Add a warning about a sample; the engine emits each message once, with a count."""
        add_note(self.notes, message, sample_id)


def batch_feature(build: Callable[Concatenate[Batch, P], T]) -> Callable[Concatenate[Batch, P], T]:
    """Make a function of a batch a feature: computed once per batch and further arguments.

    An argument with a name, such as a tokenizer, is identified by it, so that a batch can be pickled.
    """

    @wraps(build)
    def feature(batch: Batch, /, *args: P.args, **options: P.kwargs) -> T:
        named = [getattr(function, "name", function) for function in (*args, *options.items())]
        return batch.feature((build.__name__, *named), lambda b: build(b, *args, **options))

    return feature


def _failures(batch: Batch) -> list[str | None]:
    return [
        None if output is None or output.error is None else failure_reason(output.error)
        for output in checked_outputs(batch)
    ]


def failure_reason(error: str) -> str:
    """The reason of an error message: the word before its colon, or ``error`` where there is no such word.

    >>> failure_reason("timeout"), failure_reason("timeout: 30 s"), failure_reason("Boom!")
    ('timeout', 'timeout', 'error')
    """
    head = error.partition(":")[0].strip()
    return head if _SNAKE.fullmatch(head) else "error"


@batch_feature
def checked_outputs(batch: Batch) -> Sequence[SystemOutputs | None]:
    """The outputs; raises unless each is a ``SystemOutputs`` or ``None``."""
    if _all_expected_types([output for output in batch.outputs if output is not None]):
        return batch.outputs
    for sample, output in zip(batch.samples, batch.outputs, strict=True):
        if output is not None:
            problem = output_problem(output)
            if problem is not None:
                raise BadTypeError(f"the output for sample '{sample.sample_id}' {problem}")
    return batch.outputs


def _all_expected_types(outputs: Sequence[SystemOutputs]) -> bool:
    """Whether all types are the usual ones. Checking sets of types is cheaper than checking each value."""
    if set(map(type, outputs)) - {SystemOutputs}:
        return False
    responses = [output.response for output in outputs if output.response is not None]
    return (
        set(map(type, [output.retrieved for output in outputs])) <= {list}
        and set(map(type, responses)) <= {Response}
        and set(map(type, [response.text for response in responses])) <= {str}
        and set(map(type, [output.timings for output in outputs])) <= {dict}
        and set(map(type, [output.error for output in outputs])) <= {str, type(None)}
    )


def output_problem(output: Any) -> str | None:
    """Why an object cannot be used as ``SystemOutputs``; ``None`` where it can."""
    if not isinstance(output, SystemOutputs):
        return f"is a {type(output).__name__}, not a SystemOutputs"
    if not isinstance(output.retrieved, (list, tuple)):
        return f"has a {type(output.retrieved).__name__} as 'retrieved', not a list of RetrievedDocument"
    if output.response is not None and not (
        isinstance(output.response, Response) and isinstance(output.response.text, str)
    ):
        return f"has {output.response!r} as 'response', not a Response with a text (or None)"
    if not isinstance(output.timings, Mapping):
        return f"has {output.timings!r} as 'timings', not a dict of seconds"
    if output.error is not None and not isinstance(output.error, str):
        return f"has {output.error!r} as 'error', not a text (or None)"
    return None


def check_samples(samples: Sequence[EvaluationSample]) -> None:
    """Raise unless all are samples with a string as id."""
    if (
        set(map(type, samples)) <= {EvaluationSample}
        and set(map(type, [sample.sample_id for sample in samples])) <= {str}
        and set(map(type, [sample.labels for sample in samples])) <= {dict}
    ):
        return
    for position, sample in enumerate(samples):
        if not isinstance(sample, EvaluationSample):
            raise BadTypeError(f"samples[{position}] is a {type(sample).__name__}, not an EvaluationSample")
        if not isinstance(sample.sample_id, str):
            raise BadTypeError(f"samples[{position}] has the id {sample.sample_id!r}; sample ids must be strings")
        if not isinstance(sample.labels, Mapping):
            raise BadTypeError(f"sample '{sample.sample_id}' has {sample.labels!r:.80} as labels, not a dict")


def require_distinct_ids(samples: Sequence[EvaluationSample]) -> None:
    """Raise where two samples have the same id."""
    seen: set[str] = set()
    for sample in samples:
        if sample.sample_id in seen:
            raise DuplicateIdError(f"two samples have the id '{sample.sample_id}'; ids must be unique within a dataset")
        seen.add(sample.sample_id)


def _placeholder(output: SystemOutputs | None) -> SystemOutputs:
    if output is None:
        return SystemOutputs(retrieved=[], response=Response(""), error="missing_output")
    if output.error is not None and output.response is None:
        return replace(output, response=Response(""))
    return output


def add_note(notes: dict[str, tuple[int, str]], message: str, sample_id: str) -> None:
    """Count one more sample for a warning."""
    count, first = notes.get(message, (0, sample_id))
    notes[message] = (count + 1, first)


def warn_notes(notes: Iterable[Mapping[str, tuple[int, str]]], *, stacklevel: int = 3) -> None:
    """Emit each message as one warning, with the number of samples and the id of the first."""
    merged: dict[str, tuple[int, str]] = {}
    for some in notes:
        for message, (count, first) in some.items():
            before, earliest = merged.get(message, (0, first))
            merged[message] = (before + count, earliest)
    for message, (count, first) in merged.items():
        where = f"sample '{first}'" + (f" and {count - 1} more" if count > 1 else "")
        warnings.warn(f"{message} ({where})", AueporaWarning, stacklevel=stacklevel)
