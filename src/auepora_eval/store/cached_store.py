"""A store that caches what it reads, for one task that reads the same runs several times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ..core.gc_pause import gc_paused
from ..core.results import Results
from ..core.types import EvaluationSample
from .records import StoredOutput
from .runs import RunStore

__all__ = ["CachedStore"]

T = TypeVar("T")


class CachedStore(RunStore):
    """Caches samples, results, and outputs without document texts of each run.

    It returns a run as of the first read, so it should live no longer than a task; returned objects are shared and must
    not be changed. Document texts are not cached: they may be large.
    """

    def __init__(self, store: RunStore) -> None:
        """``store`` stays open when this one is closed."""
        super().__init__(store._database)
        self._cache: dict[tuple[Any, ...], Any] = {}

    def samples(self, run_id: str, *, texts: bool = True) -> list[EvaluationSample]:
        """As in ``RunStore``."""
        if texts:
            return super().samples(run_id)
        return list(self._cached(("samples", run_id), lambda: super(CachedStore, self).samples(run_id, texts=False)))

    def outputs(
        self, run_id: str, *, repeat: int | None = None, position: int | None = None, texts: bool = True
    ) -> Iterator[StoredOutput]:
        """As in ``RunStore``."""
        if texts or position is not None:
            return super().outputs(run_id, repeat=repeat, position=position, texts=texts)
        rows = self._cached(("outputs", run_id), lambda: self._all_outputs(run_id))
        return iter(rows) if repeat is None else (row for row in rows if row.repeat == repeat)

    def results(self, run_id: str, *, every_signature: bool = False) -> Results:
        """As in ``RunStore``."""
        return self._cached(
            ("results", run_id, every_signature),
            lambda: super(CachedStore, self).results(run_id, every_signature=every_signature),
        )

    def _all_outputs(self, run_id: str) -> list[StoredOutput]:
        with gc_paused():
            return list(super().outputs(run_id, texts=False))

    def _cached(self, key: tuple[Any, ...], read: Callable[[], T]) -> T:
        if key not in self._cache:
            self._cache[key] = read()
        found: T = self._cache[key]
        return found
