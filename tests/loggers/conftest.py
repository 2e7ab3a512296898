"""Trackers that write to a local folder, without network."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.requirements import need


@pytest.fixture
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The real MLflow with a store of files."""
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("DO_NOT_TRACK", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # which it keeps for small installations like this one
    package = need("mlflow")
    monkeypatch.chdir(tmp_path)
    before = package.get_tracking_uri()
    package.set_tracking_uri((tmp_path / "mlruns").as_uri())
    package.set_experiment("test")
    yield package
    while package.active_run() is not None:
        package.end_run()
    package.set_tracking_uri(before)


@pytest.fixture
def wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The real client of Weights & Biases, offline."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_CONSOLE", "off")
    for name in ("DIR", "CACHE_DIR", "CONFIG_DIR", "DATA_DIR"):
        monkeypatch.setenv(f"WANDB_{name}", str(tmp_path))
    package = need("wandb")
    yield package
    if package.run is not None:
        package.finish()
    package.teardown()
