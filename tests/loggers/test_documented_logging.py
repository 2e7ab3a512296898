"""The script that the documentation shows runs against the real trackers."""

import re
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import RunStore
from auepora_eval.loggers import legal_name
from helpers import stored_runs
from helpers.requirements import REPO

pytestmark = pytest.mark.xdist_group("trackers")  # slow to import: one worker does it

PAGE = (REPO / "docs" / "exporting.md").read_text(encoding="utf-8")


def test_documented_script_logs_to_both(
    mlflow: Any, wandb: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with RunStore.open("runs.sqlite") as store:
        stored_runs.run(store, "nightly", stored_runs.samples(4), lambda n: ["gold"], ["recall@5"])
    (script,) = re.findall(r"```python log_it\.py\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(script, "log_it.py", "exec"), {})
    (run,) = mlflow.search_runs(output_format="list")
    assert run.data.metrics["recall_at_5"] == 1.0
    assert len(list(tmp_path.rglob("*.wandb"))) == 1


def test_documented_names_are_logged() -> None:
    rows = re.findall(r"^\| `(.+?)` \| `(.+?)` \| .* \|$", PAGE, re.MULTILINE)
    assert len(rows) == 4
    assert [legal_name(name) for name, _ in rows] == [logged for _, logged in rows]
