"""Results in the real MLflow and the real client of Weights & Biases, offline, and read back."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import MetricResult, RunStore, TargetCategory, run_system
from auepora_eval.errors import BadValueError, MissingDependencyError
from auepora_eval.loggers import log_to_mlflow, log_to_wandb
from auepora_eval.runs.outcome import RunOutcome
from helpers import stored_runs

pytestmark = pytest.mark.xdist_group("trackers")  # slow to import: one worker does it

METRICS = ["recall@5", "mean_latency[end_to_end]", "counterfactual_consistency"]
SECRET = {"model": "parrot", "retriever": {"kind": "bm25", "api_key": "sk-hidden"}}


@pytest.fixture
def outcome(tmp_path: Path) -> RunOutcome:
    """A run in which one sample failed and one metric has nothing to look at."""
    system = stored_runs.answering(lambda n: ["gold"] if n % 2 else ["other"])
    return run_system(
        system,
        stored_runs.samples(6),
        METRICS,
        store=str(tmp_path / "runs.sqlite"),
        name="nightly",
        config=SECRET,
    )


def assert_numbers(logged: Mapping[str, Any], outcome: RunOutcome, prefix: str = "") -> None:
    assert outcome.results is not None
    recall = outcome.results.by_name["recall@5"]
    assert recall.interval is not None
    assert logged[f"{prefix}recall_at_5"] == recall.value == 0.5
    assert (logged[f"{prefix}recall_at_5_low"], logged[f"{prefix}recall_at_5_high"]) == recall.interval
    assert logged[f"{prefix}recall_at_5_n"] == 6
    assert logged[f"{prefix}mean_latency_end_to_end"] == outcome.results.by_name["mean_latency[end_to_end]"].value
    assert f"{prefix}counterfactual_consistency" not in logged
    assert logged[f"{prefix}counterfactual_consistency_n"] == 0


# --- MLflow -------------------------------------------------------------------------------------------------------------


def test_mlflow_run(mlflow: Any, outcome: RunOutcome) -> None:
    run_id = log_to_mlflow(outcome, tags={"team": "search"})
    run = mlflow.get_run(run_id)
    assert (run.info.run_name, run.info.status) == ("nightly", "FINISHED")
    assert mlflow.active_run() is None
    assert_numbers(run.data.metrics, outcome)
    assert run.data.params["dataset"] == outcome.record.dataset_name
    assert run.data.params["dataset_fingerprint"] == outcome.record.fingerprint
    assert (run.data.params["num_samples"], run.data.params["conventions.name"]) == ("6", "auepora")
    assert (run.data.params["config.model"], run.data.params["config.retriever.kind"]) == ("parrot", "bm25")
    assert "sk-hidden" not in str(run.data.params)
    assert run.data.tags["auepora.run_id"] == outcome.record.run_id
    assert run.data.tags["auepora.undefined"] == "counterfactual_consistency"
    assert run.data.tags["auepora.name.mean_latency_end_to_end"] == "mean_latency[end_to_end]"
    assert run.data.tags["auepora.signature.recall_at_5"] == "recall@5|empty:skip|v1"
    assert run.data.tags["team"] == "search"


def test_mlflow_uses_active_or_given_run(mlflow: Any, outcome: RunOutcome) -> None:
    with mlflow.start_run() as active:
        assert log_to_mlflow(outcome, prefix="dev/") == active.info.run_id
        assert mlflow.active_run() is not None  # it is the user's to end
    assert outcome.results is not None
    assert log_to_mlflow(outcome.results, run=active, step=3, params={"fold": 1}) == active.info.run_id
    assert log_to_mlflow(outcome.results, run=active.info.run_id, prefix="test/") == active.info.run_id
    data = mlflow.get_run(active.info.run_id).data
    for prefix in ("dev/", "", "test/"):
        assert_numbers(data.metrics, outcome, prefix)
    assert data.params["fold"] == "1"
    assert "config.model" not in data.params  # results alone do not know
    assert data.params["dev/config.model"] == "parrot"
    (point,) = mlflow.MlflowClient().get_metric_history(active.info.run_id, "recall_at_5")
    assert point.step == 3


def test_mlflow_with_stored_results(mlflow: Any, outcome: RunOutcome, tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        record = store.find("nightly")
        run_id = log_to_mlflow(store.results(record.run_id), record=record)
    data = mlflow.get_run(run_id).data
    assert_numbers(data.metrics, outcome)
    assert data.params["config.model"] == "parrot"


def test_mlflow_splits_large_batches(mlflow: Any) -> None:
    many = [
        MetricResult(f"m@{k}", TargetCategory.LATENCY, k / 7, interval=(0.0, 1.0), signature=f"m@{k}|{'x' * 6000}")
        for k in range(400)
    ]
    data = mlflow.get_run(log_to_mlflow(many, params={f"p{n}": "y" * 7000 for n in range(120)})).data
    assert len(data.metrics) == 1200
    assert data.metrics["m_at_399"] == 399 / 7
    assert len(data.params) == 120
    assert data.tags["auepora.signature.m_at_7"].endswith("x…")


def test_mlflow_rejects_colliding_params(mlflow: Any) -> None:
    one = [MetricResult("m", TargetCategory.LATENCY, 1.0)]
    with pytest.raises(BadValueError, match="two parameters would be logged as 'a_b'"):
        log_to_mlflow(one, params={"a:b": 1, "a?b": 2})


# --- Weights & Biases ---------------------------------------------------------------------------------------------------


def test_wandb_run(wandb: Any, outcome: RunOutcome) -> None:
    run = wandb.init(project="p", mode="offline")
    assert log_to_wandb(outcome, run=run) == run.id
    assert_numbers(dict(run.summary), outcome)
    config = dict(run.config)
    assert (config["dataset"], config["num_samples"]) == (outcome.record.dataset_name, 6)
    assert config["config"]["model"] == "parrot"
    assert "sk-hidden" not in str(config)
    assert config["auepora"]["run_id"] == outcome.record.run_id
    assert config["auepora"]["undefined"] == ["counterfactual_consistency"]
    assert config["auepora"]["names"]["recall_at_5"] == "recall@5"
    assert config["auepora"]["signatures"]["recall_at_5"] == "recall@5|empty:skip|v1"
    run.finish()


def test_wandb_uses_active_run_and_prefix(wandb: Any, outcome: RunOutcome) -> None:
    run = wandb.init(project="p", mode="offline")
    log_to_wandb(outcome, prefix="dev/", step=1)
    assert outcome.results is not None
    log_to_wandb(outcome.results, prefix="test/", step=2, params={"fold": 1})
    run.log({"loss": 0.1}, step=3)  # a step is written once the next one begins
    assert_numbers(dict(run.summary), outcome, "dev/")
    assert_numbers(dict(run.summary), outcome, "test/")
    assert dict(run.config)["test/fold"] == 1
    assert wandb.run is run  # it is the user's to finish
    run.finish()


def test_wandb_starts_and_finishes_new_run(wandb: Any, outcome: RunOutcome, tmp_path: Path) -> None:
    run_id = log_to_wandb(outcome, project="p")
    assert wandb.run is None
    wandb.teardown()  # its service, which writes the file, has stopped
    (written,) = tmp_path.rglob(f"run-{run_id}.wandb")
    content = written.read_bytes()
    assert b"recall_at_5_low" in content
    assert b"nightly" in content
    assert b"sk-hidden" not in content


@pytest.mark.parametrize(("package", "log"), [("mlflow", log_to_mlflow), ("wandb", log_to_wandb)])
def test_missing_package_is_named(package: str, log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=f"needs the package '{package}': pip install {package}"):
        log([MetricResult("m", TargetCategory.LATENCY, 1.0)])
