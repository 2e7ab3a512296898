"""The planted cause is found in every form of gold: in memory, from files, in shards, in processes and on Ray."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import evaluate, metric
from auepora_eval.core.types import EvaluationSample, SystemOutputs
from auepora_eval.io.jsonl import save_jsonl_dataset, save_jsonl_outputs
from helpers import requirements
from helpers.planted_systems import FORMS, PLANTED, planted_outputs, write_project

requirements.need("pyarrow")  # for checkpoints
Auepora = Callable[..., tuple[int, str, str]]
NAMES = ["recall@4", "precision@4", "ndcg@4", "containment"]
SHARDS = 3
FILES = ("all.jsonl", "outputs.jsonl")
FOLDERS = ("data-shards", "output-shards")
PATHS = {
    "from files": FILES,
    "in batches": (*FILES, "--batch-size", "6"),
    "in shards": FOLDERS,
    "into a checkpoint": (*FOLDERS, "--parts", "scores"),
}
PROCESSES = {
    "processes": (*FILES, "--executor", "processes", "--workers", "2", "--batch-size", "6"),
    "shards by processes": (*FOLDERS, "--executor", "processes", "--workers", "2"),
}
RAY = {
    "Ray": (*FILES, "--executor", "ray", "--workers", "2", "--batch-size", "6"),
    "shards by Ray": (*FOLDERS, "--executor", "ray", "--workers", "2"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check_paths(
    folder: Path, auepora: Auepora, form: str, system: tuple[str, str], paths: dict[str, tuple[str, ...]]
) -> None:
    """A planted system, scored in memory and by each of the commands: the same numbers, and the planted cause."""
    write_project(folder, form, *system)
    samples, outputs = planted_outputs(folder, *system)
    write_files(samples, outputs, folder)
    attribution = metric("failure_attribution@4", correct="containment")
    results = evaluate(samples, outputs, [*NAMES, attribution], match="auto")
    way = (results.gold_match or {"match": "id"})["match"]
    assert way == FORMS[form]
    wanted = {}
    for result in results:
        value = result.value if result.defined else None
        wanted[result.name] = (value, result.signature, causes(result.details))
    assert wanted["recall@4"][0] == (0.25 if system[0] == "bad" else 1)
    assert wanted["containment"][0] == (0.25 if "bad" in system else 1)
    assert wanted["failure_attribution@4"][2] == PLANTED[system]
    for path, arguments in paths.items():
        found = score(auepora, arguments)
        assert found == wanted, path


def write_files(samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs], folder: Path) -> None:
    """The data and the outputs, each as one file and as shards."""
    rows = [(sample.sample_id, output) for sample, output in zip(samples, outputs, strict=True)]
    save_jsonl_dataset(samples, FILES[0])
    save_jsonl_outputs(rows, FILES[1])
    for name in FOLDERS:
        (folder / name).mkdir()
    for shard in range(SHARDS):
        name = f"part-{shard}.jsonl"
        save_jsonl_dataset(samples[shard::SHARDS], folder / FOLDERS[0] / name)
        save_jsonl_outputs(rows[shard::SHARDS], folder / FOLDERS[1] / name)


def score(auepora: Auepora, arguments: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """By name the value, the signature and the causes that ``auepora score`` prints."""
    options = [*arguments, "-m", "failure_attribution@4:correct=containment", "--json"]
    for name in NAMES:
        options += ["-m", name]
    code, out, err = auepora("score", *options)
    assert code == 0, err
    found = {}
    for result in json.loads(out)["results"]:
        found[result["name"]] = (result["value"], result["signature"], causes(result["details"]))
    return found


def causes(details: dict[str, Any]) -> dict[str, int]:
    counts = {name: cause["count"] for name, cause in details.get("causes", {}).items()}
    return {name: count for name, count in counts.items() if count}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("system", PLANTED, ids="-".join)
def test_files_and_shards(folder: Path, auepora: Auepora, form: str, system: tuple[str, str]) -> None:
    check_paths(folder, auepora, form, system, PATHS)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("system", PLANTED, ids="-".join)
def test_processes(folder: Path, auepora: Auepora, form: str, system: tuple[str, str]) -> None:
    check_paths(folder, auepora, form, system, PROCESSES)


@pytest.mark.part("ray")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("system", PLANTED, ids="-".join)
def test_ray(folder: Path, auepora: Auepora, form: str, system: tuple[str, str], ray_cluster: None) -> None:
    check_paths(folder, auepora, form, system, RAY)
