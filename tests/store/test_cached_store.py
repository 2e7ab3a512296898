"""A store that reads samples and results once: the same answers as the store itself."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.store import runs as store_module
from auepora_eval.store.runs import CachedStore, RunStore, iter_samples
from helpers.stored_runs import run, samples


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with RunStore.open(tmp_path / "runs.sqlite") as opened:
        yield opened


def test_reads_are_cached(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    record = run(store, "a", samples(4), lambda number: ["gold"], ["recall@5"], repeats=2)
    once, read = CachedStore(store), Counter[str]()
    for name in ("stream_samples", "read_results"):
        monkeypatch.setattr(store_module, name, _count_calls(getattr(store_module, name), name, read))
    for _ in range(3):
        assert once.samples(record.run_id, texts=False) == RunStore.samples(store, record.run_id, texts=False)
        assert once.results(record.run_id) is once.results(record.run_id)
        assert list(once.results(record.run_id)) == list(store.results(record.run_id))
    assert read == {"stream_samples": 3 + 1, "read_results": 3 + 1}


def test_texts_are_not_cached(store: RunStore) -> None:
    record = run(store, "a", samples(2), lambda number: ["gold"], ["recall@5"])
    once = CachedStore(store)
    assert once.samples(record.run_id) == store.samples(record.run_id)


def test_samples_and_outputs_at_positions(store: RunStore) -> None:
    record = run(store, "a", samples(4), lambda number: ["gold"], ["recall@5"], repeats=2)
    for texts in (True, False):
        every = store.samples(record.run_id, texts=texts)
        assert list(iter_samples(store, record.run_id, texts=texts, positions={1, 3})) == [every[1], every[3]]
        rows = store.outputs(record.run_id, texts=texts, positions={1, 3})
        assert [(row.repeat, row.position) for row in rows] == [(0, 1), (0, 3), (1, 1), (1, 3)]


def test_returned_lists_may_be_reordered(store: RunStore) -> None:
    record = run(store, "a", samples(3), lambda number: ["gold"], ["recall@5"])
    once = CachedStore(store)
    once.samples(record.run_id, texts=False).clear()
    assert len(once.samples(record.run_id, texts=False)) == 3


def _count_calls(function: Any, name: str, read: Counter[str]) -> Any:
    def counted(*arguments: Any, **options: Any) -> Any:
        read[name] += 1
        return function(*arguments, **options)

    return counted
