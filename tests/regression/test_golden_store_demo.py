"""A copied demo folder: its plans, which name systems of this package, still run and give the recorded values."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from helpers.golden import check_golden
from helpers.golden_store import DATA, auepora, in_project, sha256, sqlite_tables

MEASURED = ("mean_latency[end_to_end]", "quantile_latency[end_to_end,0.95]")
"""Metrics of time: their values are measured anew."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["baseline", "bm25"])
def test_a_copied_plan_runs(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    shutil.copytree(DATA / "demo", folder)
    with in_project(folder):
        code, out = auepora("run", f"plan-{name}.yaml", "--json")
        tables = sqlite_tables(folder / "runs.sqlite")
    (run,) = tables["eval_runs"]
    outputs = [json.loads(row["outputs"]) for row in tables["eval_query_results"]]
    for output in outputs:
        output.pop("t")  # timings are measured
    found = {
        "exit": code,
        "run": {key: run[key] for key in ("name", "status", "dataset_name", "fingerprint", "num_samples", "repeats")},
        "plan_json": run["plan_json"],
        "config_json": run["config_json"],
        "outputs": sha256(json.dumps(outputs).encode()),
        "results": [_result(one) for one in json.loads(out)["results"]],
    }
    check_golden(f"store/demo_{name}.json", found)


def _result(one: dict[str, Any]) -> dict[str, Any]:
    if one["name"] in MEASURED:
        return {key: one[key] for key in ("name", "target", "signature")}
    slices = {
        path: {group: inner["value"] for group, inner in groups.items()} for path, groups in one.pop("slices").items()
    }
    one["details"].pop("decomposition", None)
    return {**one, "slices": slices}
