"""Loading of files of any format, in memory or lazily."""

import json
from pathlib import Path

import pytest

from auepora_eval import EvaluationSample, LazyDataset, SystemOutputs, evaluate_stream
from auepora_eval.core.dataset import LazySamples
from auepora_eval.errors import BadValueError, DataFileError
from auepora_eval.io.join import load_dataset, load_outputs, open_dataset


def samples_file(path: Path, count: int) -> Path:
    path.write_text("".join(json.dumps({"sample_id": str(n), "query": "?"}) + "\n" for n in range(count)))
    return path


def test_lazy_dataset_can_be_iterated_repeatedly(tmp_path: Path) -> None:
    dataset = open_dataset(samples_file(tmp_path / "data.jsonl", 5))
    assert dataset.name == "data"
    assert [sample.sample_id for sample in dataset] == list("01234") == [sample.sample_id for sample in dataset]
    assert len(dataset) == 5
    samples_file(tmp_path / "data.jsonl", 7)
    assert sum(1 for _ in dataset) == 7  # nothing was cached


def test_lazy_dataset_of_known_length() -> None:
    passes = []

    def made() -> list[EvaluationSample]:
        passes.append(1)
        return [EvaluationSample("1", "?")]

    dataset = LazyDataset("one", made, length=1)
    assert len(dataset) == 1
    assert not passes
    assert len(LazyDataset("one", made)) == 1
    assert passes == [1]


def test_lazy_samples_keep_the_first_ones_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LazySamples, "KEPT", 2)
    every = [EvaluationSample(f"q{n}", "") for n in range(4)]
    reads: list[int] = []

    def read() -> list[EvaluationSample]:
        reads.append(1)
        return every

    samples = LazySamples(read, len(every))
    assert any(sample.sample_id == "q1" for sample in samples)
    assert any(sample.sample_id == "q0" for sample in samples)
    assert len(reads) == 1, "a check that needs only the first samples does not read again"
    assert (list(samples), samples[-1], samples[1:3], len(samples)) == (every, every[3], every[1:3], 4)


def test_lazy_dataset_streams() -> None:
    dataset = LazyDataset("many", lambda: (EvaluationSample(str(n), "?", relevant_docs=[]) for n in range(3)))
    (result,) = evaluate_stream(((sample, SystemOutputs([])) for sample in dataset), ["empty_result_rate"])
    assert result.value == 1


def test_load_errors(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="no such file"):
        load_dataset(tmp_path / "missing.jsonl")
    with pytest.raises(BadValueError, match="unknown format 'jsonk'; did you mean 'jsonl'"):
        load_dataset(samples_file(tmp_path / "data.jsonl", 1), "jsonk")
    with pytest.raises(BadValueError, match="the format 'beir' has no outputs"):
        load_outputs(tmp_path, "beir")
    (tmp_path / "data.xyz").write_text("hello")
    with pytest.raises(DataFileError, match="cannot tell in which format these samples are; name one of"):
        load_dataset(tmp_path / "data.xyz")
