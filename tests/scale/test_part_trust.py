"""Which parts are trusted: those of this evaluation and this unit, written to their end; and remarks that add up."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from made_files import METRICS
from test_parts import expected, plan, same, scored_into, sources

import parts
from auepora_eval.core.engine import evaluate_sources
from auepora_eval.core.executors import ScoredBatch, SerialExecutor
from auepora_eval.core.scores import Scores
from auepora_eval.core.slices import Members
from auepora_eval.scale.parts import merged, write_part
from auepora_eval.scale.resuming import PartsExecutor, opened_folder

parts.need("pyarrow")


@pytest.mark.parametrize("strange", ["of another unit", "of another evaluation"])
def test_a_part_that_belongs_elsewhere_is_made_again(tmp_path: Path, strange: str) -> None:
    folder, other, log = tmp_path / "scores", tmp_path / "other", tmp_path / "read"
    scored_into(folder, SerialExecutor())
    if strange == "of another unit":
        shutil.copy(folder / "part-000002.parquet", folder / "part-000001.parquet")
    else:
        executor = PartsExecutor(SerialExecutor(), other, opened_folder(other, plan(fingerprint="g")), by_workers=True)
        evaluate_sources(sources(), METRICS, slices=["labels.lang"], executor=executor)
        shutil.copy(other / "part-000001.parquet", folder / "part-000001.parquet")
    same(scored_into(folder, SerialExecutor(), log), expected())
    assert log.read_text().split() == ["30", "40", "50"]


def scored(notes: dict[str, tuple[int, str]], *ids: str) -> ScoredBatch:
    return ScoredBatch(len(ids), [Scores.of([1.0] * len(ids))], notes, Members(len(ids), ids))


def test_remarks_on_batches_add_up() -> None:
    several = [scored({"odd": (2, "a")}, "a", "b"), scored({}, "c"), scored({"odd": (1, "d"), "new": (1, "d")}, "d")]
    assert merged(several).notes == {"odd": (3, "a"), "new": (1, "d")}


def test_a_writer_that_is_stopped_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
