"""Ranges of files are read at little cost wherever they lie, by whoever is sent them, and only of files as they were."""

import contextlib
import gzip
import os
import pickle
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from auepora_eval import evaluate
from auepora_eval.core.registry import Spec
from auepora_eval.engine.evaluate import evaluate_sources
from auepora_eval.errors import DataFileError, DuplicateIdError
from auepora_eval.io import codec, parquet
from auepora_eval.io.jsonl import save_jsonl_dataset, save_jsonl_outputs
from auepora_eval.runtime import files
from auepora_eval.scale import inputs, inputs as ranges_jsonl, inputs as ranges_parquet, streams as compressed_streams
from auepora_eval.scale.sharded import evaluate_files, sharded_sources
from helpers import requirements
from helpers.generated_shards import rows

METRICS: list[Spec] = ["recall@2", "token_f1", {"noise_robustness": {"base": "token_f1"}}]
TOTAL = 320


def written(folder: Path, suffix: str, *, mixed: bool) -> tuple[Path, Path]:
    """Samples and their outputs, the latter in another order where they are mixed."""
    samples, outputs = rows(TOTAL, missing=False)
    answers = [(one.sample_id, got) for one, got in zip(samples, outputs, strict=True) if got is not None]
    if mixed:
        random.Random(7).shuffle(answers)
    named = folder / f"s{suffix}", folder / f"o{suffix}"
    if suffix == ".parquet":
        parquet.save_parquet_dataset(samples, named[0])
        parquet.save_parquet_outputs(answers, named[1])
    else:
        save_jsonl_dataset(samples, named[0])
        save_jsonl_outputs(answers, named[1])
    return named


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file is opened from now on."""
    counts: Counter[str] = Counter()
    before = files._open

    def counting(path: Path) -> IO[bytes]:
        counts[path.name] += 1
        return before(path)

    monkeypatch.setattr(files, "_open", counting)
    return counts


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".jsonl.zst"])
def test_compressed_file_is_decompressed_once(tmp_path: Path, suffix: str, opened: Counter[str]) -> None:
    sharded = sharded_sources(*written(tmp_path, suffix, mixed=False), batch_size=1)
    assert len(sharded.sources) == TOTAL // 16
    compressed_streams.close_streams()
    opened.clear()
    got = evaluate_sources(sharded.sources, METRICS)
    assert opened == {f"s{suffix}": 1, f"o{suffix}": 1}
    compressed_streams.close_streams()
    assert got == evaluate(*rows(TOTAL, missing=False), METRICS)


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".parquet"])
def test_outputs_in_another_order_are_read_batch_by_batch_not_one_by_one(
    tmp_path: Path, suffix: str, opened: Counter[str]
) -> None:
    if suffix == ".parquet":
        requirements.need("pyarrow")
    sharded = sharded_sources(*written(tmp_path, suffix, mixed=True), batch_size=2 if suffix == ".jsonl.gz" else 32)
    assert len(sharded.sources) == 10
    opened.clear()
    got = evaluate_sources(sharded.sources, METRICS)
    assert opened[f"o{suffix}"] <= 10
    compressed_streams.close_streams()
    assert got == evaluate(*rows(TOTAL, missing=False), METRICS)


def test_no_file_stays_open(tmp_path: Path) -> None:
    named = written(tmp_path, ".jsonl.gz", mixed=False)
    evaluate_files(*named, ["token_f1"], batch_size=1)
    open_files = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    assert not [one for one in open_files if one.startswith(str(tmp_path))]


@pytest.mark.slow
def test_number_of_open_streams(tmp_path: Path) -> None:
    for number in range(12):
        folder = tmp_path / str(number)
        folder.mkdir()
        sharded_sources(*written(folder, ".jsonl.gz", mixed=False), batch_size=100)
    assert 0 < len(compressed_streams._streams) <= 8
    compressed_streams.close_streams()
    assert not compressed_streams._streams


def test_damage_in_the_middle_of_a_compressed_file(tmp_path: Path) -> None:
    samples, outputs = written(tmp_path, ".jsonl.gz", mixed=False)
    lines = gzip.decompress(samples.read_bytes()).splitlines(keepends=True)
    halves = [gzip.compress(b"".join(some)) for some in (lines[:160], lines[160:])]
    samples.write_bytes(b"".join(halves))
    sharded = sharded_sources(samples, outputs, batch_size=1)
    compressed_streams.close_streams()
    seen = samples.stat()
    samples.write_bytes(halves[0] + b"\xff" * len(halves[1]))
    os.utime(samples, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    *_, good, bad = sharded.sources[:11]
    good.read()
    with pytest.raises(DataFileError, match=r"s\.jsonl\.gz: the compressed data is damaged"):
        bad.read()
    assert not any(one.described.full_path == samples for one in compressed_streams._streams)
    compressed_streams.close_streams()


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if suffix == ".parquet":
        requirements.need("pyarrow")
    samples, outputs = written(tmp_path, suffix, mixed=False)
    source = sharded_sources(samples, outputs).sources[0]

    @contextlib.contextmanager
    def changing(path: Path) -> Iterator[Any]:
        with files.open_bytes(path) as file:
            os.utime(path, ns=(1, 1))
            yield file

    monkeypatch.setattr(ranges_parquet if suffix == ".parquet" else ranges_jsonl, "open_bytes", changing)
    with pytest.raises(DataFileError, match="has changed since it was split"):
        source.read()


def test_files_of_other_tools_are_ignored(tmp_path: Path) -> None:
    for name in ("part-1.jsonl", "more/part-2.jsonl", "_temporary/0/part-1.jsonl", ".ipynb_checkpoints/part-1.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}\n")
    found = [os.path.relpath(path, tmp_path) for path in inputs._paths(tmp_path)]
    assert sorted(found) == ["more/part-2.jsonl", "part-1.jsonl"]


READER = """
import pickle, sys
sources = pickle.loads(sys.stdin.buffer.read())
print(sum(len(one.read()[0]) for one in sources))
"""


@pytest.mark.slow
def test_workers_in_another_folder_find_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, ".jsonl", mixed=False)
    monkeypatch.chdir(tmp_path)
    sharded = sharded_sources("s.jsonl", "o.jsonl", batch_size=100)
    done = subprocess.run(
        [sys.executable, "-c", READER],
        input=pickle.dumps(sharded.sources),
        capture_output=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
        check=False,
    )
    assert done.stdout.decode() == f"{TOTAL}\n", done.stderr.decode()[-1000:]


def test_duplicate_files_are_found_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples, outputs = written(tmp_path, ".jsonl", mixed=False)
    (tmp_path / "z.jsonl").write_bytes(samples.read_bytes())
    read = 0
    before = codec.decode_sample

    def counting(line: bytes) -> Any:
        nonlocal read
        read += 1
        return before(line)

    monkeypatch.setattr(ranges_jsonl, "decode_sample", counting)
    with pytest.raises(DuplicateIdError, match=r"z\.jsonl:1: sample_id '.*' is already at .*s\.jsonl:1;"):
        sharded_sources([samples, tmp_path / "z.jsonl"], outputs, batch_size=10)
    assert read <= 20


def test_rows_are_taken_from_row_groups_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requirements.need("pyarrow")
    monkeypatch.setattr(parquet, "ROW_GROUP", 50)
    samples, outputs = written(tmp_path, ".parquet", mixed=True)
    side = sharded_sources(samples, outputs, batch_size=64)
    for source in side.sources:
        numbers = np.concatenate([np.arange(run.row, run.row + run.count) for run in source.outputs])
        assert (np.diff(numbers) > 0).all()
    assert evaluate_sources(side.sources, METRICS) == evaluate(*rows(TOTAL, missing=False), METRICS)
