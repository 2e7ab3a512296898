"""The samples that several runs share: their ids, their rows in each run, and their clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..core.errors import BadValueError
from ..core.gc_pause import gc_paused
from ..core.reduce import Clusters
from ..core.scoring import sample_clusters
from ..store.records import RunRecord, RunStatus
from ..store.runs import RunStore

__all__ = ["SharedSamples", "shared_samples"]


@dataclass(frozen=True, slots=True, eq=False)
class SharedSamples:
    """Samples that all of some runs have, in the order of the first run's dataset."""

    ids: list[str]
    rows: list[npt.NDArray[np.intp]]
    """For each run their positions in its dataset."""
    clusters: Clusters | None
    """A cluster number per sample; ``None`` if there are no clusters."""
    only: list[int]
    """For each run how many of its samples some other run lacks."""


@gc_paused()
def shared_samples(store: RunStore, records: Sequence[RunRecord], *, other_dataset: bool = False) -> SharedSamples:
    """The samples that all of these runs have. No text of a document is read.

    Runs that have not ended, runs of different datasets (unless ``other_dataset`` is set) and runs without a sample in
    common are refused.
    """
    for record in records:
        _require_ended(record)
    first = records[0]
    for record in records[1:]:
        if record.fingerprint != first.fingerprint and not other_dataset:
            raise BadValueError(
                f"{_run_label(first)} and {_run_label(record)} ran on different datasets ('{first.dataset_name}', "
                f"{first.num_samples} samples, and '{record.dataset_name}', {record.num_samples}); to compare them on "
                "the samples whose ids both have, pass other_dataset=True or --other-dataset"
            )
    samples = store.samples(first.run_id, texts=False)
    codes = sample_clusters(samples)
    ids = [sample.sample_id for sample in samples]
    if all(record.fingerprint == first.fingerprint for record in records):
        every = np.arange(len(ids), dtype=np.intp)
        return SharedSamples(ids, [every] * len(records), codes, [0] * len(records))
    positions_by_run = [
        {name: place for place, name in enumerate(ids if record is first else store.sample_ids(record.run_id))}
        for record in records
    ]
    common = [name for name in ids if all(name in positions for positions in positions_by_run)]
    if not common:
        raise BadValueError(
            f"{' and '.join(map(_run_label, records))} have no sample in common: no sample_id is in both datasets"
        )
    rows = [np.array([positions[name] for name in common], dtype=np.intp) for positions in positions_by_run]
    shared = None if codes is None else codes[rows[0]]
    return SharedSamples(common, rows, shared, [len(positions) - len(common) for positions in positions_by_run])


def _require_ended(record: RunRecord) -> None:
    if record.status is RunStatus.RUNNING:
        raise BadValueError(
            f"{_run_label(record)} is still running (process {record.process}); "
            f"wait for it to end, or resume it if that "
            "process is gone"
        )


def _run_label(record: RunRecord) -> str:
    return f"{record.run_id} ({record.name})"
