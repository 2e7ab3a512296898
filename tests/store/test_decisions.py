"""Decisions on a dataset are recorded once, in new, migrated and read-only stores."""

from pathlib import Path

import pytest

from auepora_eval.errors import StoreError
from auepora_eval.store import RunStore
from auepora_eval.store.connect import connect
from auepora_eval.store.runs import decisions, record_decision
from auepora_eval.store.schema import MIGRATIONS, migrate


def test_a_decision_is_recorded_once(store: RunStore) -> None:
    first = record_decision(
        store, "data", "comparison", ["run_b", "run_a"], ["f1", "em"], {"verdicts": {"f1": "equal"}}
    )
    again = record_decision(store, "data", "comparison", ["run_a", "run_b"], ["em", "f1"], {"verdicts": {}})
    assert again == first
    assert first.runs == ("run_b", "run_a")
    assert first.body == {"verdicts": {"f1": "equal"}}
    record_decision(store, "data", "comparison", ["run_a", "run_b"], ["em"], {})
    record_decision(store, "data", "gate", ["run_a", "run_b"], ["em", "f1"], {})
    record_decision(store, "other", "sweep", ["run_a", "run_b", "run_c"], ["em"], {})
    assert [one.kind for one in decisions(store, fingerprint="data")] == ["comparison", "comparison", "gate"]
    assert [one.fingerprint for one in decisions(store, run_id="run_c")] == ["other"]
    assert len(decisions(store)) == 4
    assert decisions(store, fingerprint="data", kind="gate")[0].metrics == ("em", "f1")


def test_two_runs_have_one_sequential_design(store: RunStore) -> None:
    first = record_decision(store, "data", "sequential", ["run_b", "run_a"], ["llm_correctness"], {"seed": 0})
    other = record_decision(store, "data", "sequential", ["run_a", "run_b"], ["llm_faithfulness"], {"seed": 1})
    assert other == first
    body = {"seed": 0, "result": {"verdict": "better"}}
    replaced = record_decision(store, "data", "sequential", ["run_b", "run_a"], [], body, replace=True)
    assert (replaced.body, replaced.metrics, replaced.recorded_at) == (body, ("llm_correctness",), first.recorded_at)


def test_decisions_outlive_deleted_runs(store: RunStore) -> None:
    run_id = store.create_run("a", [], dataset_name="d", plan={}).run_id
    record_decision(store, "data", "comparison", [run_id, "run_b"], ["em"], {})
    store.delete([run_id])
    assert [one.runs for one in decisions(store)] == [(run_id, "run_b")]


def test_read_only_store_of_the_earlier_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.sqlite"
    database = connect(path, create=True, timeout=5)
    migrate(database, create=True, steps=MIGRATIONS[:4])
    database.close()
    monkeypatch.setattr("auepora_eval.store.connect.is_writable", lambda path: False)
    with RunStore.open(path) as store:
        assert store.runs() == []
        assert decisions(store) == []
        with pytest.raises(StoreError, match="is read-only: nothing can be written to it"):
            record_decision(store, "data", "comparison", ["run_a", "run_b"], ["em"], {})
