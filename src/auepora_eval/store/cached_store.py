"""A store for one task that looks at the same runs from several sides: what was read once is handed out again."""

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
    """Reads samples, results, and outputs without texts of documents, once for each run.

    It shows a run as it was when it was first asked for, so it should live no longer than a task does; and what it
    hands out is shared, so nothing of it may be changed. Texts of documents are read every time: they may be large.
    """

    def __init__(self, store: RunStore) -> None:
        """``store`` stays open when this is done with."""
        super().__init__(store._database)
        self._cache: dict[tuple[Any, ...], Any] = {}

    def samples(self, run_id: str, *, texts: bool = True) -> list[EvaluationSample]:
        """As of ``RunStore``."""
        if texts:
            return super().samples(run_id)
        return list(self._cached(("samples", run_id), lambda: super(CachedStore, self).samples(run_id, texts=False)))

    def outputs(
        self, run_id: str, *, repeat: int | None = None, position: int | None = None, texts: bool = True
    ) -> Iterator[StoredOutput]:
        """As of ``RunStore``."""
        if texts or position is not None:
            return super().outputs(run_id, repeat=repeat, position=position, texts=texts)
        rows = self._cached(("outputs", run_id), lambda: self._all_outputs(run_id))
        return iter(rows) if repeat is None else (row for row in rows if row.repeat == repeat)

    def results(self, run_id: str, *, every_signature: bool = False) -> Results:
        """As of ``RunStore``."""
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
