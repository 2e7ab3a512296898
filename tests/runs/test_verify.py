"""A stored run is recomputed from its outputs and judgements, and what was changed in the store is named."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from auepora_eval.cli.main import cli
from auepora_eval.core.scores import Scores
from auepora_eval.runs.run import run_plan
from auepora_eval.runs.scoring import rescore
from auepora_eval.runs.verify import verify_run
from auepora_eval.store import RunStore
from helpers.user_project import Project

JUDGE = '''
from auepora_eval.judge.critic import Judgement, StructuredCritic

class Judge(StructuredCritic):
    """Fives for even numbers, threes for odd ones."""

    name = "toy"

    async def judge(self, request):
        score = 3 if int(request.sample_id) % 2 else 5
        return Judgement({"score": score, "rationale": f"because of {request.sample_id}"})
'''
METRICS = "[recall@5, token_f1, 'mean_latency[end_to_end]', {llm_faithfulness: {critic: {use: judge}, scale: 1-5}}]"


@pytest.fixture
def plan(project: Callable[[int], Project]) -> Path:
    made = project(8)
    (made.folder / "a_verify_rag.py").write_text(JUDGE)
    made.plan(more="resources: {judge: {python: 'a_verify_rag:Judge'}}\n")
    path = made.folder / "plan.yaml"
    text = path.read_text()
    path.write_text(text[: text.index("metrics:")] + f"metrics: {METRICS}\n" + text[text.index("slices:") :])
    run_plan(path)
    return path


@pytest.fixture
def store_file(plan: Path) -> Path:
    return plan.parent / "runs.sqlite"


def verify(path: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["verify", *arguments, "--store", str(path)])
    return result.exit_code, result.stdout


def test_an_unchanged_run(store_file: Path) -> None:
    code, text = verify(store_file)
    assert code == 0, text
    assert text.startswith("4 of 4 results of run_")
    assert "are what its stored outputs and judgements give." in text
    assert "changed consistently" in text


def test_a_changed_score(store_file: Path) -> None:
    with RunStore.open(store_file) as store:
        record = store.find("latest")
        result = store.result(record.run_id, "token_f1")
        assert isinstance(result.scores, Scores)
        values = result.scores.values.copy()
        values[2] = 0.123
        result.scores = Scores.of(values)
        store.put_result(record.run_id, result)
    code, text = verify(store_file)
    assert code == 1
    assert "token_f1, score of 2: 0.123 is stored" in text
    assert "recall@5," not in text


def test_a_changed_value_and_interval(store_file: Path) -> None:
    with RunStore.open(store_file) as store:
        record = store.find("latest")
        result = store.result(record.run_id, "recall@5")
        result.value = 0.99
        result.interval = (0.98, 1.0)
        store.put_result(record.run_id, result)
    code, text = verify(store_file)
    assert code == 1
    assert "recall@5, value: 0.99 is stored" in text
    assert "recall@5, interval: 0.98 to 1 is stored" in text


def test_a_changed_judgement(store_file: Path) -> None:
    with RunStore.open(store_file) as store:
        run_id = store.find("latest").run_id
        (row,) = store.judgements(run_id, position=0)
        store.put_judgements(run_id, [replace(row, body={**row.body, "answer": {"score": 1}})])
    code, text = verify(store_file)
    assert code == 1, text
    assert "llm_faithfulness, score of 0: 1 is stored, 0 recomputed" in text


def change(store_file: Path, statement: str) -> None:
    with closing(sqlite3.connect(store_file)) as connection, connection:
        assert connection.execute(statement).rowcount > 0


def test_a_judgement_that_is_gone(store_file: Path) -> None:
    change(store_file, "DELETE FROM eval_judgements WHERE position = 0")
    code, text = verify(store_file)
    assert code == 1, text
    assert "llm_faithfulness, score of 0: 1 is stored, measure_failed:not_stored recomputed" in text


def test_a_changed_answer_has_other_scores_and_no_judgement(store_file: Path) -> None:
    with RunStore.open(store_file) as store:
        record = store.find("latest")
        row = next(store.outputs(record.run_id, position=1))
        assert row.output.response is not None
        row.output.response.text = "Nothing of the kind."
        store.append(record.run_id, [row], replace=True)
    code, text = verify(store_file)
    assert code == 1
    assert "llm_faithfulness, score of 1" in text


def test_an_answer_that_no_result_reads(plan: Path, store_file: Path) -> None:
    """Retrieval metrics read no answers: only the digest of the outputs tells."""
    text = plan.read_text().replace(f"metrics: {METRICS}", "metrics: [recall@5]")
    plan.write_text("".join(line for line in text.splitlines(keepends=True) if not line.startswith("resources:")))
    run_plan(plan)
    assert verify(store_file)[0] == 0
    with RunStore.open(store_file) as store:
        run_id = store.find("latest").run_id
    with closing(sqlite3.connect(store_file)) as connection, connection:
        where = "WHERE position = 1 AND run_id = ?"
        (data,) = connection.execute(f"SELECT outputs FROM eval_query_results {where}", (run_id,)).fetchone()
        output = json.loads(data)
        output["a"] = "Nothing of the kind."
        changed = json.dumps(output, separators=(",", ":")).encode()
        connection.execute(f"UPDATE eval_query_results SET outputs = ? {where}", (changed, run_id))
    with RunStore.open(store_file) as store:
        answer = next(store.outputs(run_id, position=1)).output.response
        assert answer is not None
        assert answer.text == "Nothing of the kind."
    code, text = verify(store_file)
    assert code == 1, text
    assert "outputs: " in text
    assert "recall@5, score" not in text


def test_a_run_without_a_digest_names_what_was_not_checked(store_file: Path) -> None:
    """Runs that were stored before there were digests."""
    assert "not checked" not in verify(store_file)[1]
    change(store_file, "UPDATE eval_runs SET usage_json = NULL")
    code, text = verify(store_file)
    assert code == 0
    assert "not checked: answers that none of these results reads" in text


def test_rescoring_and_resuming_keep_the_digest_right(plan: Path, store_file: Path) -> None:
    with RunStore.open(store_file) as store:
        record = store.find("latest")
        rescore(record, ["mrr"], store=store)
        current, stored = store.outputs_digests(record.run_id)
        assert current == stored
        store.reopen(record.run_id)
        row = next(store.outputs(record.run_id, position=1))
        store.append(record.run_id, [replace(row, output=replace(row.output, usage={"tokens": 3}))], replace=True)
        store.put_judging(record.run_id, {"process": "x"})
        store.put_judging(record.run_id, None)
        assert store.outputs_digests(record.run_id)[1] == stored
        store.finish(record.run_id)
        current, stored = store.outputs_digests(record.run_id)
        assert current == stored
        assert "outputs_digest" not in (store.get(record.run_id).usage or {})


def test_a_changed_sample(store_file: Path) -> None:
    """Gold, labels and texts of samples are part of their digest."""
    other = "(SELECT sample FROM eval_samples WHERE position = 1)"
    change(store_file, f"UPDATE eval_samples SET sample = {other} WHERE position = 0")
    code, text = verify(store_file)
    assert code == 1, text
    assert "samples: " in text


def test_another_run_may_change(plan: Path, store_file: Path) -> None:
    with RunStore.open(store_file) as store:
        first = store.find("latest").run_id
    run_plan(plan)
    with RunStore.open(store_file) as store:
        record = store.find("latest")
        result = store.result(record.run_id, "recall@5")
        result.value = 0.99
        store.put_result(record.run_id, result)
    assert verify(store_file, first)[0] == 0
    assert verify(store_file)[0] == 1


def test_json(store_file: Path) -> None:
    code, text = verify(store_file, "--json")
    document = json.loads(text)
    assert (code, document["schema"], document["differences"], document["not_recomputed"]) == (0, 1, [], {})
    assert sorted(document["verified"]) == ["llm_faithfulness", "mean_latency[end_to_end]", "recall@5", "token_f1"]


def test_results_without_their_judge_are_named(plan: Path, store_file: Path) -> None:
    (plan.parent / "a_verify_rag.py").unlink()
    import sys

    sys.modules.pop("a_verify_rag", None)
    code, text = verify(store_file)
    assert code == 0
    assert "not recomputed: llm_faithfulness: its judge is not in the plan of the run" in text
    with RunStore.open(store_file) as store:
        found = verify_run(store, store.find("latest"))
    assert np.array_equal(sorted(found.verified), ["mean_latency[end_to_end]", "recall@5", "token_f1"])


def test_counts_of_failures_that_were_hidden(project: Callable[[int], Project]) -> None:
    """A failed answer counts as 0, as a wrong one does: only its outcome and the counts tell them apart."""
    made = project(8)
    record = run_plan(made.plan(args="{broken: ['0', '3']}")).record
    path = made.folder / "runs.sqlite"
    assert verify(path)[0] == 0
    with RunStore.open(path) as store:
        result = store.result(record.run_id, "recall@5")
        assert result.details["num_failed"] == 2
        result.details |= {"num_failed": 0, "num_scored": 8}
        store.put_result(record.run_id, result)
    code, text = verify(path)
    assert code == 1
    assert "recall@5, num_scored: 8 is stored, 6 recomputed" in text
    assert "recall@5, num_failed: 0 is stored, 2 recomputed" in text
    assert "score of" not in text
    with RunStore.open(path) as store:
        assert isinstance(result.scores, Scores)
        result.scores = Scores.of(result.scores.values.copy())
        store.put_result(record.run_id, result)
    code, text = verify(path)
    assert code == 1
    assert "recall@5, score of 0: 0 is stored, system_failed:" in text
    assert ", counted as 0 recomputed" in text


def test_repeats_that_were_hidden(project: Callable[[int], Project]) -> None:
    """Coverage over repeats is by calls, which are counted apart."""
    made = project(8)
    record = run_plan(made.plan(args="{broken: ['0']}"), changes={"run.repeats": 2}).record
    path = made.folder / "runs.sqlite"
    assert verify(path)[0] == 0
    with RunStore.open(path) as store:
        result = store.result(record.run_id, "recall@5")
        result.details["repeats"]["num_system_failed"] = 0
        store.put_result(record.run_id, result)
    code, text = verify(path)
    assert code == 1
    assert "recall@5, repeats:" in text
