"""Score TREC run files with qrels into a temporary store, for ``auepora compare --qrels``."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..store.records import RunRecord
    from ..store.runs import RunStore

__all__ = ["DEFAULT_METRICS", "scored_trec_runs"]

DEFAULT_METRICS = ("map", "ndcg@10", "mrr", "precision@10", "recall@100")
"""Metrics of TREC runs when none are named."""


@contextmanager
def scored_trec_runs(
    qrels: str, files: Sequence[str], metrics: Sequence[str]
) -> Iterator[tuple[RunStore, list[RunRecord]]]:
    """A temporary store with one scored run per file, in the order of the files, with the conventions ``trec``."""
    from ..core.conventions import Conventions
    from ..core.engine import resolve_metrics
    from ..io.files import plain_stem
    from ..io.load import load_dataset, load_outputs
    from ..reporting.progress import progress
    from ..running.run import RunRequest, start_run
    from ..store.runs import RunStore
    from .data_warnings import warn_unmatched_ids
    from .specs import parse_specs

    rules = Conventions.of("trec")
    specs = parse_specs(metrics or DEFAULT_METRICS)
    chosen = resolve_metrics(specs, rules)  # report a misspelt metric before reading the files
    with tempfile.TemporaryDirectory(prefix="auepora-") as folder, RunStore.open(Path(folder) / "runs.sqlite") as store:
        with progress(f"reading {qrels}"):
            samples = list(load_dataset(qrels, "trec"))
        ids = [sample.sample_id for sample in samples]
        records: list[RunRecord] = []
        for file in files:
            with progress(f"reading and scoring {file}"):
                outputs = load_outputs(file, "trec")
                known = {one: outputs[one] for one in ids if one in outputs}
                request = RunRequest(
                    name=plain_stem(Path(file)),
                    dataset_name=plain_stem(Path(qrels)),
                    samples=samples,
                    metrics=chosen,
                    conventions=rules,
                    outputs=known,
                    plan={
                        "dataset": {"trec": qrels},
                        "outputs": {"trec": file},
                        "conventions": {"name": rules.name},
                        "metrics": list(specs),
                    },
                )
                records.append(start_run(request, store).record)
            missing = [one for one in ids if one not in outputs]
            unknown = [one for one in outputs if one not in known]
            warn_unmatched_ids(missing, unknown, total=len(ids), conventions=rules)
        yield store, records
