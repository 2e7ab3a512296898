"""Which parts are trusted: those of this evaluation and this unit, written to their end; and remarks that add up."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.core.metrics_base import BatchMetric
from auepora_eval.core.scores import Scores
from auepora_eval.core.slices import BatchMembership, parse_slices
from auepora_eval.engine.evaluate import evaluate_sources, resolve_metrics
from auepora_eval.engine.executors import ScoredBatch, SerialExecutor, SourcedBatch
from auepora_eval.scale.checkpoint import CheckpointExecutor, merge_batches, open_checkpoint, write_part
from helpers import requirements
from helpers.checkpoints import TOTAL, expected, plan, same, scored_into, sources
from helpers.generated_files import METRICS

requirements.need("pyarrow")


@pytest.mark.parametrize("strange", ["of another unit", "of another evaluation"])
def test_part_of_another_job_is_scored_again(tmp_path: Path, strange: str) -> None:
    folder, other, log = tmp_path / "scores", tmp_path / "other", tmp_path / "read"
    scored_into(folder, SerialExecutor())
    if strange == "of another unit":
        shutil.copy(folder / "part-000002.parquet", folder / "part-000001.parquet")
    else:
        executor = CheckpointExecutor(SerialExecutor(), other, open_checkpoint(other, plan(fingerprint="g")))
        evaluate_sources(sources(), METRICS, slices=["labels.lang"], executor=executor)
        shutil.copy(other / "part-000001.parquet", folder / "part-000001.parquet")
    same(scored_into(folder, SerialExecutor(), log), expected())
    assert log.read_text().split() == ["30", "40", "50"]


def test_parts_contain_sample_positions(tmp_path: Path) -> None:
    from pyarrow import parquet

    scored_into(tmp_path, SerialExecutor())
    table = parquet.read_table(sorted(tmp_path.glob("part-*.parquet")))
    assert table.column("position").to_pylist() == list(range(TOTAL))
    assert table.column("sample_id").to_pylist() == [f"q{number}" for number in range(TOTAL)]


def test_lean_results_have_no_ids(tmp_path: Path) -> None:
    metrics = [one for one in resolve_metrics(METRICS) if isinstance(one, BatchMetric)]
    for _ in ("scored", "read"):
        executor = CheckpointExecutor(SerialExecutor(), tmp_path, open_checkpoint(tmp_path, plan()))
        batches = [SourcedBatch(one, tuple(parse_slices("labels.lang")), keep=False) for one in sources()]
        members = [one.members for one in executor.score(batches, metrics)]
        assert [one.ids for one in members if one is not None] == [()] * 6


def scored(notes: dict[str, tuple[int, str]], *ids: str) -> ScoredBatch:
    return ScoredBatch(len(ids), [Scores.of([1.0] * len(ids))], notes, BatchMembership(len(ids), ids))


def test_warnings_of_batches_are_merged() -> None:
    several = [scored({"odd": (2, "a")}, "a", "b"), scored({}, "c"), scored({"odd": (1, "d"), "new": (1, "d")}, "d")]
    assert merge_batches(several).notes == {"odd": (3, "a"), "new": (1, "d")}


def test_interrupted_writer_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow import parquet

    path = tmp_path / "p.parquet"

    def stopped(table: Any, file: Any, **_: Any) -> None:
        file.write(b"PAR1")
        raise KeyboardInterrupt

    def write() -> None:
        write_part(path, scored({}, "a"), ["m"], job="j", unit=0, first=0)

    with monkeypatch.context() as patched:
        patched.setattr(parquet, "write_table", stopped)
        with pytest.raises(KeyboardInterrupt):
            write()
    assert not path.exists()
    write()
    before = path.read_bytes()
    monkeypatch.setattr(parquet, "write_table", stopped)
    with pytest.raises(KeyboardInterrupt):
        write()
    assert path.read_bytes() == before
