"""Parts: what was written is read again to the last bit, a folder is gone on with, and another's is refused."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auepora_eval import evaluate
from auepora_eval.core.family import FamilyKey
from auepora_eval.core.metrics_base import BatchMetric
from auepora_eval.core.registry import Spec
from auepora_eval.core.results import Results
from auepora_eval.core.scores import Score, Scores, Status
from auepora_eval.core.slices import BatchMembership, parse_slices
from auepora_eval.engine.evaluate import evaluate_sources, resolve_metrics
from auepora_eval.engine.executors import Executor, ProcessExecutor, Scorable, ScoredBatch, SerialExecutor, SourcedBatch
from auepora_eval.errors import AueporaWarning, BadValueError, DataFileError
from auepora_eval.scale.checkpoint import (
    CheckpointExecutor,
    merge_batches,
    open_checkpoint,
    read_part,
    read_part_facts,
    write_part,
)
from helpers import requirements
from helpers.checkpoints import SIZE, TOTAL, expected, plan, same, scored_into, sources
from helpers.generated_files import METRICS, Numbered, rows

requirements.need("pyarrow")


@pytest.mark.parametrize("keep_scores", [True, False], ids=["scores kept", "lean"])
def test_the_same_numbers_as_without_a_folder(tmp_path: Path, keep_scores: bool) -> None:
    folder = tmp_path / "scores"
    wanted = evaluate_sources(sources(), METRICS, slices=["labels.lang"], keep_scores=keep_scores)
    if keep_scores:
        same(wanted, expected())
    same(scored_into(folder, SerialExecutor(), keep_scores=keep_scores), wanted)
    log = tmp_path / "read"
    same(scored_into(folder, SerialExecutor(), log, keep_scores=keep_scores), wanted)
    assert not log.exists()  # all of it was there


@pytest.mark.slow
def test_scores_of_processes_are_written(tmp_path: Path) -> None:
    with ProcessExecutor(2) as others:
        same(scored_into(tmp_path / "scores", others), expected())
    assert len(list((tmp_path / "scores").glob("part-*.parquet"))) == 6


def test_only_what_is_missing_is_scored_again(tmp_path: Path) -> None:
    folder, log = tmp_path / "scores", tmp_path / "read"
    scored_into(folder, SerialExecutor())
    (folder / "part-000001.parquet").unlink()
    (folder / "part-000005.parquet").unlink()
    same(scored_into(folder, SerialExecutor(), log), expected())
    assert log.read_text().split() == ["30", "40", "50", "150"]


def test_metrics_named_in_another_order_get_their_own_scores(tmp_path: Path) -> None:
    folder, log = tmp_path / "scores", tmp_path / "read"
    scored_into(folder, SerialExecutor())
    (folder / "part-000001.parquet").unlink()
    turned = METRICS[::-1]
    executor = CheckpointExecutor(SerialExecutor(), folder, open_checkpoint(folder, plan(turned)))
    found = evaluate_sources(sources(log), turned, slices=["labels.lang"], executor=executor)
    same(found, evaluate(*rows(range(TOTAL)), turned, slices=["labels.lang"]))
    assert log.read_text().split() == ["30", "40", "50"]


class _Dying(SerialExecutor):
    """Goes away after some batches."""

    def __init__(self, after: int) -> None:
        self._left = after

    def score(self, batches: Iterable[Scorable], metrics: Sequence[BatchMetric]) -> Iterator[ScoredBatch]:
        for scored in super().score(batches, metrics):
            if not self._left:
                raise KeyboardInterrupt
            self._left -= 1
            yield scored


def test_interrupted_evaluation_resumes(tmp_path: Path) -> None:
    folder, log = tmp_path / "scores", tmp_path / "read"
    with pytest.raises(KeyboardInterrupt):
        scored_into(folder, _Dying(7))
    assert not json.loads((folder / "manifest.json").read_text())["complete"]
    same(scored_into(folder, SerialExecutor(), log), expected())
    assert log.read_text().split()[0] == "60"  # two units of three batches had been written
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["complete"]
    assert [one["rows"] for one in manifest["units"]] == [30, 30, 30, 30, 30, 7]
    assert len({one["digest"] for one in manifest["units"]}) == 6


def test_half_written_file_is_not_a_part(tmp_path: Path) -> None:
    folder, log = tmp_path / "scores", tmp_path / "read"
    scored_into(folder, SerialExecutor())
    whole = (folder / "part-000002.parquet").read_bytes()
    (folder / "part-000002.parquet").write_bytes(whole[: len(whole) // 2])
    (folder / ".abc.tmp").write_bytes(whole[:100])  # what a killed writer leaves
    same(scored_into(folder, SerialExecutor(), log), expected())
    assert log.read_text().split() == ["60", "70", "80"]


class _GivingUp(SerialExecutor):
    """As an executor does whose workers die over one batch."""

    def __init__(self, poison: int) -> None:
        self._poison = poison

    def score(self, batches: Iterable[Scorable], metrics: Sequence[BatchMetric]) -> Iterator[ScoredBatch]:
        for batch in batches:
            assert isinstance(batch, SourcedBatch)
            _, members = batch.load()
            if f"q{self._poison}" in members.ids:
                failed = Scores.of(np.zeros(members.size), fail={"worker_died": np.ones(members.size, dtype=bool)})
                yield ScoredBatch(members.size, [failed for _ in metrics], {}, members)
            else:
                yield from super().score([batch], metrics)


def test_unit_that_kills_loses_one_batch_and_is_retried(tmp_path: Path) -> None:
    folder, log = tmp_path / "scores", tmp_path / "read"
    metrics: list[Spec] = ["recall@2", "token_f1"]

    def run(others: Executor) -> Results:
        executor = CheckpointExecutor(others, folder, open_checkpoint(folder, plan(metrics)))
        return evaluate_sources(sources(log), metrics, executor=executor)

    with pytest.warns(AueporaWarning, match=r"part-000001\.parquet has samples whose workers died"):
        lost = run(_GivingUp(45))
    assert [one.details["failed_worker_died"] for one in lost] == [SIZE, SIZE]
    assert not json.loads((folder / "manifest.json").read_text())["complete"]
    log.unlink()
    same(run(SerialExecutor()), evaluate(*rows(range(TOTAL)), metrics))
    assert log.read_text().split() == ["30", "40", "50"]


@pytest.mark.parametrize(
    ("other", "named"),
    [
        pytest.param({"metrics": ["recall@2"]}, "metrics ndcg@3: ndcg@3|", id="a metric less"),
        pytest.param({"metrics": ["recall@3", *METRICS[1:]]}, "metrics recall@3: nothing there", id="another cut"),
        pytest.param({"fingerprint": "g"}, "the files are others, or have changed since", id="another input"),
        pytest.param({"slices": []}, "slices labels.lang: labels.lang there, nothing here", id="a slice less"),
    ],
)
def test_a_folder_of_another_evaluation_is_refused(tmp_path: Path, other: dict[str, Any], named: str) -> None:
    open_checkpoint(tmp_path, plan())
    with pytest.raises(BadValueError, match="holds the scores of another evaluation") as refused:
        open_checkpoint(tmp_path, plan(**other))
    assert named in str(refused.value)


def test_conventions_and_version_are_part_of_it(tmp_path: Path) -> None:
    ours = plan()
    open_checkpoint(tmp_path, ours)
    with pytest.raises(BadValueError, match=r"version: .* there, 9\.9 here"):
        open_checkpoint(tmp_path, replace(ours, version="9.9"))
    with pytest.raises(BadValueError, match="conventions missing: fail there, skip here"):
        open_checkpoint(tmp_path, replace(ours, conventions={**ours.conventions, "missing": "skip"}))


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(BadValueError, match="is not a folder of parts"):
        open_checkpoint(tmp_path, plan())
    (tmp_path / "manifest.json").write_text('{"name": "an app"}')
    with pytest.raises(DataFileError, match="is not the manifest of scores in parts"):
        open_checkpoint(tmp_path, plan())
    assert sorted(os.listdir(tmp_path)) == ["manifest.json", "thesis.txt"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param('{"kind": "auepora sc', "cannot be read as a manifest", id="cut off"),
        pytest.param('{"kind": "auepora scores in parts", "schema": 1}', "lacks something .'units'", id="a part of it"),
        pytest.param('{"kind": "auepora scores in parts", "schema": 1, "units": 3}', "lacks something", id="no units"),
    ],
)
def test_bad_manifest(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(DataFileError, match=rf"manifest\.json: .*{message}.*; name another folder, or delete it"):
        open_checkpoint(tmp_path, plan())


SCORES = {
    "reasons in an order of their own": Scores.from_list(
        [Score.fail("b_b"), Score(0.1), Score.skip("a_a"), Score(1e-300), Score.fail("a_a"), Score(-0.0)]
    ),
    "a failure that counts": Scores.of([0.5] * 6).replaced(
        np.array([True] + [False] * 5), Status.SYSTEM_FAILED, "timeout", 0.0
    ),
    "statistics with gaps": Scores.of(np.arange(6) / 3, stats=np.array([[1.5, np.nan, -0.0, 1 / 3]] * 6)),
    "no statistic at all": Scores.of(np.zeros(6), stats=np.zeros((6, 0))),
    "keys": replace(
        Scores.of(np.zeros(6)),
        keys=(
            FamilyKey("ä", 1, None, ("x", "y"), payload=(1, 2.5, float("nan").hex(), b"\0")),
            None,
            3,
            "z",
            (1, (2,)),
            [1],
        ),
    ),
    "repeats": replace(Scores.of(np.zeros(6)), repeats=(Scores.of(np.ones(6)), Scores.of(np.arange(6.0)))),
    "reasons that nobody has": replace(Scores.of(np.zeros(6)), reason_names=("", "never")),
}


def test_a_part_gives_the_same_scores_to_the_last_bit(tmp_path: Path) -> None:
    ids = tuple(f"é{number}" for number in range(6))
    members = BatchMembership(
        6,
        ids,
        True,
        tuple((number % 2 == 0, f"c{number // 2}") for number in range(6)),
        {("by", "a"): np.array([0, 2]), ("by", "b"): np.array([2, 3, 4, 5]), ("by", "(none)"): np.array([1])},
        frozenset({"relevant_docs"}),
    )
    scored = ScoredBatch(6, list(SCORES.values()), {"odd": (2, "é1")}, members)
    write_part(tmp_path / "p.parquet", scored, list(SCORES), job="j", unit=3, first=100)
    facts, read = read_part(tmp_path / "p.parquet", list(SCORES))
    assert facts == read_part_facts(tmp_path / "p.parquet")
    assert (facts.job, facts.unit, facts.first, facts.rows) == ("j", 3, 100, 6)
    for found, wanted in zip(read.scores, scored.scores, strict=True):
        assert found == wanted
        assert found.reason_names == wanted.reason_names
        assert found.values.tobytes() == wanted.values.tobytes()
        assert found.status.dtype == wanted.status.dtype
        assert found.reason_codes.dtype == wanted.reason_codes.dtype
        assert (found.stats is None) == (wanted.stats is None)
        assert found.stats is None or (wanted.stats is not None and found.stats.tobytes() == wanted.stats.tobytes())
    assert read.notes == scored.notes
    found_members = read.members
    assert found_members is not None
    assert replace(found_members, groups={}) == replace(members, groups={})
    assert {key: value.tolist() for key, value in found_members.groups.items()} == {
        key: value.tolist() for key, value in members.groups.items()
    }


def test_part_is_plain_parquet(tmp_path: Path) -> None:
    from pyarrow import parquet

    scored_into(tmp_path, SerialExecutor())
    table = parquet.read_table(tmp_path / "part-000000.parquet").to_pylist()
    assert table[1]["sample_id"] == "q1"
    assert table[1]["position"] == 1
    assert table[1]["recall@2"] == 0.5
    assert table[1]["recall@2.status"] == "scored"
    assert table[1]["recall@2.reason"] is None
    assert table[1]["slice.labels.lang"] == ["en"]
    assert table[29]["token_f1.status"] == "system_failed"
    assert table[29]["token_f1.reason"] == "timeout"


def test_a_part_that_was_changed_is_refused(tmp_path: Path) -> None:
    from pyarrow import parquet

    scored_into(tmp_path, SerialExecutor())
    path = tmp_path / "part-000000.parquet"
    table = parquet.read_table(path)
    place = table.column_names.index("token_f1")
    changed = table.set_column(place, "token_f1", [[0.99] * len(table)]).replace_schema_metadata(table.schema.metadata)
    parquet.write_table(changed, path)
    with pytest.raises(DataFileError, match="was changed since it was written; delete it"):
        read_part(path, [])


def test_keys_that_cannot_be_written(tmp_path: Path) -> None:
    scores = replace(Scores.of([1.0]), keys=(object(),))
    with pytest.raises(BadValueError, match="metric 'mine' pairs samples by something that cannot be written"):
        write_part(
            tmp_path / "p", ScoredBatch(1, [scores], {}, BatchMembership(1, ("a",))), ["mine"], job="", unit=0, first=0
        )


def test_metric_named_like_a_column(tmp_path: Path) -> None:
    scored = ScoredBatch(1, [Scores.of([1.0])], {}, BatchMembership(1, ("a",)))
    with pytest.raises(BadValueError, match="two columns of a part would be called 'position'"):
        write_part(tmp_path / "p", scored, ["position"], job="", unit=0, first=0)


def test_batches_merge_as_if_they_had_been_one() -> None:
    chosen = [one for one in resolve_metrics(METRICS) if isinstance(one, BatchMetric)]
    batches = [SourcedBatch(one, tuple(parse_slices(["labels.lang"]))) for one in sources()]
    [whole] = SerialExecutor().score([replace(batches[0], source=Numbered(0, TOTAL))], chosen)
    found = merge_batches(list(SerialExecutor().score(batches, chosen)))
    assert found.size == whole.size
    assert found.scores == whole.scores
    assert found.members is not None
    assert whole.members is not None
    assert replace(found.members, groups={}) == replace(whole.members, groups={})
    for key, rows_ in whole.members.groups.items():
        assert np.array_equal(found.members.groups[key], rows_)


def test_excluded_values_may_be_any_nan(tmp_path: Path) -> None:
    """Division gives one with another sign than ``math.nan`` has."""
    values = np.array([0.5, -0.0, np.copysign(np.nan, -1)])
    scores = Scores(values, np.array([0, 0, 1], dtype=np.uint8), np.array([0, 0, 1], dtype=np.int16), ("", "odd"))
    written = ScoredBatch(3, [scores], {}, BatchMembership(3, ("a", "b", "c")))
    write_part(tmp_path / "p.parquet", written, ["m"], job="j", unit=0, first=0)
    (read,) = read_part(tmp_path / "p.parquet", ["m"])[1].scores
    assert np.signbit(read.values[1])
    assert np.isnan(read.values[2])
