"""Transfer of bytes to another process: small ones directly, large ones through a file that is removed."""

import os
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import EvaluationSample, Response, SystemOutputs, evaluate
from auepora_eval.engine.executors import ProcessExecutor
from auepora_eval.runtime import processes as shm_transfer
from auepora_eval.runtime.processes import SharedMemoryTransfer, SpilledBytes, load

MANY = b"x" * (300 << 10)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where everything is laid down."""
    monkeypatch.setattr(shm_transfer, "_SHM", tmp_path)
    monkeypatch.setattr(shm_transfer, "_MIN_FREE_BYTES", 1)
    return tmp_path


def test_small_payload_is_not_spilled(folder: Path) -> None:
    with SharedMemoryTransfer() as under_way:
        assert under_way.dump(b"few") == b"few"
        assert load(b"few") == b"few"
        assert not list(folder.iterdir())


def test_large_payload_is_in_a_private_file_until_it_is_loaded(folder: Path) -> None:
    with SharedMemoryTransfer() as under_way:
        first, second = under_way.dump(MANY), under_way.dump(MANY + b"y")
        assert isinstance(first, SpilledBytes)
        assert isinstance(second, SpilledBytes)
        (made,) = folder.iterdir()
        assert (made.stat().st_mode & 0o777) == 0o700
        assert load(second) == MANY + b"y"
        assert [str(path) for path in made.iterdir()] == [first.path]
        assert load(first) == MANY
        assert not list(made.iterdir())
        assert isinstance(under_way.dump(MANY), SpilledBytes)  # never fetched, as after an interruption
    assert not list(folder.iterdir())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full on this system")
def test_full_disk_falls_back_to_the_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    with SharedMemoryTransfer() as under_way:
        assert isinstance(under_way.dump(MANY), SpilledBytes)
        real = open
        monkeypatch.setattr("builtins.open", lambda path, mode: real("/dev/full", "wb" if mode == "xb" else mode))
        assert under_way.dump(MANY) == MANY


def test_folder_that_cannot_be_created(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(shm_transfer, "_shm_with_space", lambda: folder / "not there")
    with SharedMemoryTransfer() as under_way:
        assert under_way.dump(MANY) == MANY


def test_little_shared_memory(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(shm_transfer, "_MIN_FREE_BYTES", 1 << 60)
    monkeypatch.setattr("tempfile.tempdir", str(folder / "usual"))
    (folder / "usual").mkdir()
    with SharedMemoryTransfer() as under_way:
        laid = under_way.dump(MANY)
        assert isinstance(laid, SpilledBytes)
        assert Path(laid.path).is_relative_to(folder / "usual")


def long_rows(count: int) -> tuple[list[EvaluationSample], list[SystemOutputs]]:
    texts = [" ".join(f"w{n * m % 89}" for m in range(800)) for n in range(count)]
    samples = [EvaluationSample(str(n), "", reference_answer=Response(text)) for n, text in enumerate(texts)]
    return samples, [SystemOutputs([], Response(text[5:])) for text in texts]


def test_long_texts_in_two_processes(folder: Path) -> None:
    samples, outputs = long_rows(800)
    seen: list[int] = []

    def progress(_: int) -> None:
        seen.append(len(list(folder.glob("auepora-*"))))

    with ProcessExecutor(2) as pool:
        there = evaluate(samples, outputs, ["token_f1"], batch_size=100, executor=pool, progress=progress)
    assert list(there) == list(evaluate(samples, outputs, ["token_f1"]))
    assert max(seen) == 1
    assert not list(folder.iterdir())


def test_interrupted_stream_leaves_no_files(folder: Path) -> None:
    samples, outputs = long_rows(800)

    def stop(_: int) -> Any:
        raise KeyboardInterrupt

    with ProcessExecutor(2) as pool:
        with pytest.raises(KeyboardInterrupt):
            evaluate(samples, outputs, ["token_f1"], batch_size=100, executor=pool, progress=stop)
        assert not list(folder.iterdir())
        # What was taken back is not missed.
        assert evaluate(*long_rows(4), ["token_f1"], executor=pool)[0].details["num_scored"] == 4
