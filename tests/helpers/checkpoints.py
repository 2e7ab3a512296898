"""An evaluation with a checkpoint folder, for the tests of checkpoints."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from auepora_eval import evaluate
from auepora_eval.core.conventions import Conventions
from auepora_eval.core.metrics_base import BatchMetric
from auepora_eval.core.registry import Spec
from auepora_eval.core.results import Results
from auepora_eval.core.slices import parse_slices
from auepora_eval.engine.evaluate import evaluate_sources, resolve_metrics
from auepora_eval.engine.executors import Executor
from auepora_eval.scale.checkpoint import CheckpointExecutor, Manifest, manifest_for, open_checkpoint
from helpers.generated_files import METRICS, Numbered, rows

TOTAL, SIZE = 157, 10


def sources(log: Path | None = None, total: int = TOTAL) -> list[Numbered]:
    return [
        Numbered(start, min(start + SIZE, total), None if log is None else str(log)) for start in range(0, total, SIZE)
    ]


def expected(**options: Any) -> Results:
    return evaluate(*rows(range(TOTAL)), METRICS, slices=["labels.lang"], **options)


def plan(
    metrics: Sequence[Spec] = METRICS, total: int = TOTAL, slices: Sequence[str] = ("labels.lang",), **facts: Any
) -> Manifest:
    chosen = [one for one in resolve_metrics(metrics) if isinstance(one, BatchMetric)]
    return manifest_for(
        [one.size for one in sources(total=total)],
        chosen,
        parse_slices(slices),
        conventions=Conventions.of("auepora"),
        input_facts={"fingerprint": "f", "samples": total} | facts,
        unit_size=3 * SIZE,
    )


def scored_into(folder: Path, others: Executor, log: Path | None = None, *, keep_scores: bool = True) -> Results:
    executor = CheckpointExecutor(others, folder, open_checkpoint(folder, plan()))
    return evaluate_sources(sources(log), METRICS, slices=["labels.lang"], executor=executor, keep_scores=keep_scores)


def same(found: Results, wanted: Results) -> None:
    assert found.to_json(per_query=True) == wanted.to_json(per_query=True)
    for one, other in zip(found, wanted, strict=True):
        assert one.scores == other.scores
