"""The register: how often a dataset has decided a comparison, a sweep or a gate, and who says so."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from auepora_eval.store.runs import RunStore, decisions, record_decision
from helpers.stored_runs import samples, scored

Cli = Callable[..., tuple[int, str, str]]
N = 12
NOTE = "this test set has decided {} before"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunStore]:
    """A store with three runs on one dataset, and the folder of the process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    rng = np.random.default_rng(0)
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        for name in "abc":
            scored(store, name, samples(N), {"token_f1": rng.random(N)})
        yield store


def register(auepora: Cli, *arguments: str) -> dict[str, object]:
    """The register in the JSON of a command."""
    found = json.loads(auepora(*arguments, "--json")[1])["register"]
    assert isinstance(found, dict)
    return found


def test_second_comparison(auepora: Cli, runs: RunStore) -> None:
    first = register(auepora, "compare", "a", "b")
    assert first == {"before": 0, "by_kind": {}, "recorded": True}
    assert NOTE.format("1 comparison") in auepora("compare", "a", "c")[1]
    assert register(auepora, "compare", "c", "a", "-m", "token_f1")["before"] == 1, "repeated, and not counted again"
    assert register(auepora, "compare", "b", "c") == {"before": 2, "by_kind": {"comparison": 2}, "recorded": True}
    assert "this test set has decided" not in auepora("compare", "a", "b")[1], "nothing came before the first one"


def test_sweeps_gates_and_reports_count(auepora: Cli, runs: RunStore) -> None:
    assert register(auepora, "compare", "a", "b", "c")["before"] == 0
    gate = ("gate", "b", "--against", "a", "-g", "not worse(token_f1)")
    assert NOTE.format("1 comparison") in auepora(*gate)[1]
    assert register(auepora, *gate) == {"before": 1, "by_kind": {"sweep": 1}, "recorded": True}
    assert register(auepora, "compare", "a", "b")["before"] == 1, "the gate decided about the same runs"
    assert auepora("report", "b", "c", "-o", "r.md")[0] == 0
    assert NOTE.format("2 comparisons") in Path("r.md").read_text()
    assert [one.kind for one in decisions(runs)] == ["sweep", "gate", "comparison", "comparison"]


def test_sequential_tests_count_when_they_have_looked(auepora: Cli, runs: RunStore) -> None:
    a, b = (runs.find(name) for name in "ab")
    body = {"run_id": b.run_id, "results": {}}
    record_decision(runs, a.fingerprint, "sequential", [b.run_id, a.run_id], ["token_f1"], body)
    assert register(auepora, "compare", "a", "c")["before"] == 0, "no look yet"
    assert "not decided yet" in auepora("runs", "--decisions")[1]
    body["results"] = {"token_f1": {"verdict": "better"}}
    record_decision(runs, a.fingerprint, "sequential", [b.run_id, a.run_id], ["token_f1"], body, replace=True)
    assert register(auepora, "compare", "a", "c") == {"before": 1, "by_kind": {"sequential": 1}, "recorded": True}


def test_another_dataset_has_its_own_register(auepora: Cli, runs: RunStore) -> None:
    for name in "de":
        scored(runs, name, samples(N, reference="no"), {"token_f1": np.linspace(0, 1, N)})
    assert register(auepora, "compare", "a", "b")["before"] == 0
    assert register(auepora, "compare", "d", "e")["before"] == 0
    assert register(auepora, "compare", "a", "d", "--other-dataset")["before"] == 2, "it is about both"


def test_list_of_decisions(auepora: Cli, runs: RunStore) -> None:
    code, out, err = auepora("runs", "--decisions")
    assert (code, out) == (0, "")
    assert "no decisions yet" in err
    auepora("compare", "a", "b")
    auepora("compare", "a", "b", "c")
    out = auepora("runs", "--decisions")[1]
    assert [line.split()[3] for line in out.splitlines()[2:]] == ["sweep", "comparison"], "newest first"
    a, b = (f"{name} ({runs.find(name).run_id})" for name in "ab")
    assert f"{a}, {b}" in out
    auepora("compare", "b", "a")
    assert f"{b}, {a}" in auepora("runs", "--decisions")[1], "the verdict is about the runs in the latest order"
    listed = json.loads(auepora("runs", "--decisions", "--json", "-n", "1")[1])
    assert [(one["kind"], one["dataset"], one["metrics"]) for one in listed] == [("sweep", "made", ["token_f1"])]
    assert auepora("runs", "--decisions", "--dataset", "other")[1] == ""
    assert auepora("runs", "--decisions", "--tag", "x")[0] == 2
    runs.delete([runs.find("b").run_id])
    assert len(json.loads(auepora("runs", "--decisions", "--json")[1])) == 2, "a deleted run has decided all the same"


@pytest.mark.skipif(os.name == "nt", reason="file modes")
def test_read_only_store(auepora: Cli, runs: RunStore, tmp_path: Path) -> None:
    auepora("compare", "a", "b")
    runs.close()
    path = tmp_path / "runs.sqlite"
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        found = json.loads(auepora("compare", "a", "c", "--json")[1])["register"]
        out = auepora("compare", "a", "c")[1]
    finally:
        tmp_path.chmod(0o755)
        path.chmod(0o644)
    if os.geteuid():  # the superuser may write all the same
        assert found["recorded"] is False
        assert "this one is not recorded" in out
    assert found["before"] == 1
