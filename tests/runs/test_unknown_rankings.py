"""Systems that do not say what they retrieved: that is not the same as having found nothing."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from auepora_eval.core.types import UnknownRanking
from auepora_eval.errors import AueporaWarning, BadValueError
from auepora_eval.runs.replay import stored_contexts
from auepora_eval.runs.run import run_plan
from auepora_eval.store.runs import RunStore
from helpers.user_project import Project

Projects = Callable[[int], Project]
Run = Callable[..., tuple[int, str, str]]

ANSWERER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    reply = {"sample_id": asked["sample_id"], "response": "it is " + asked["sample_id"]}
    if int(asked["sample_id"]) < WITH_RETRIEVED:
        reply["retrieved"] = []
    print(json.dumps(reply), flush=True)
"""


def planned(mine: Project, metrics: str | None, *, with_retrieved: int = 0) -> str:
    """A plan for a command that tells of the first so many samples what was retrieved, and never of the others."""
    (mine.folder / "answerer.py").write_text(ANSWERER.replace("WITH_RETRIEVED", str(with_retrieved)))
    plan = {
        "name": "silent",
        "dataset": "data.jsonl",
        "system": {"command": [sys.executable, "answerer.py"]},
        "store": "runs.sqlite",
        **({} if metrics is None else {"metrics": metrics.split()}),
    }
    path = mine.folder / "silent.json"
    path.write_text(json.dumps(plan))
    return str(path)


def test_retrieval_metric_is_refused_if_no_output_has_retrieved(project: Projects, auepora: Run) -> None:
    mine = project(4)
    code, out, err = auepora("run", planned(mine, "recall@5 token_f1"))
    assert (code, out) == (2, "")
    assert "'recall@5' reads the field 'retrieved', which no output of run_" in err
    # What was answered is stored, and other metrics can be had of it.
    code, out, err = auepora("rescore", "silent", "-m", "token_f1", "--json")
    assert code == 0, err
    assert [one["name"] for one in json.loads(out)["results"]] == ["token_f1"]
    code, _, err = auepora("rescore", "silent", "-m", "empty_result_rate")
    assert code == 2
    assert "'empty_result_rate' reads" in err


def test_retrieval_metrics_are_not_suggested(project: Projects, auepora: Run) -> None:
    mine = project(4)
    code, out, err = auepora("run", planned(mine, None), "--json")
    assert code == 0, err
    names = {one["name"] for one in json.loads(out)["results"]}
    assert "token_f1" in names
    assert not names & {"recall@5", "recall@10", "empty_result_rate", "mrr"}


def test_some_outputs_without_retrieved_are_a_warning(project: Projects) -> None:
    mine = project(4)
    with pytest.warns(AueporaWarning, match="3 of 4 answers have no 'retrieved'"):
        outcome = run_plan(planned(mine, "empty_result_rate", with_retrieved=1))
    assert outcome.results is not None
    assert outcome.results[0].value == 1.0


def test_export_and_saved_outputs_keep_unknown_rankings(project: Projects, auepora: Run) -> None:
    mine = project(3)
    auepora("run", planned(mine, "token_f1"))
    auepora("export", "silent", "exported")
    rows = [json.loads(line) for line in Path("exported/outputs.jsonl").read_text().splitlines()]
    assert [row["response"]["text"] for row in rows] == ["it is 0", "it is 1", "it is 2"]
    assert not any("retrieved" in row for row in rows)
    Path("saved.yaml").write_text(
        "dataset: exported/dataset.jsonl\noutputs: exported/outputs.jsonl\nmetrics: [token_f1]\nstore: runs.sqlite\n"
    )
    assert auepora("run", "saved.yaml")[0] == 0
    with RunStore.open("runs.sqlite") as store:
        for name in ("silent", "saved"):
            record = store.find(name)
            assert all(isinstance(row.output.retrieved, UnknownRanking) for row in store.outputs(record.run_id))
            with pytest.raises(BadValueError, match="has no 'retrieved' for sample"):
                stored_contexts(store, record, store.samples(record.run_id))


def test_endpoint_without_retrieved_is_refused_before_any_call(project: Projects, auepora: Run) -> None:
    mine = project(2)
    (mine.folder / "http.yaml").write_text(
        "dataset: data.jsonl\nsystem: {http: {url: 'http://127.0.0.1:9/', response: {answer: a}}}\n"
        "metrics: [token_f1, recall@5]\nstore: runs.sqlite\n"
    )
    code, _, err = auepora("run", "http.yaml")
    assert code == 2
    assert "metrics[1]: 'recall@5' reads the field 'retrieved', which system.http.response has no path to" in err
