"""Runs of plans: stored, scored, resumed and rescored, by commands and by a script."""

import json
import sqlite3
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from auepora_eval import EvaluationSample, Response, SystemOutputs
from auepora_eval.core.dataset import LazySamples
from auepora_eval.errors import BadValueError, UnknownRunError
from auepora_eval.runs.run import run_plan, run_system
from auepora_eval.runs.scoring import rescore
from auepora_eval.store.records import RunStatus, to_iso, utc_now
from auepora_eval.store.runs import RunStore
from helpers.user_project import Project

Projects = Callable[[int], Project]
Run = Callable[..., tuple[int, str, str]]


class TestRunAndShow:
    def test_plan_is_run_stored_and_scored(self, project: Projects, auepora: Run) -> None:
        mine = project(30)
        code, out, err = auepora("run", "plan.yaml")
        assert code == 0, err
        assert "recall@5" in out
        assert "labels.parity" in out
        assert sorted(mine.calls(), key=int) == [str(n) for n in range(30)]
        with RunStore.open("runs.sqlite") as store:
            record = store.find("latest")
            assert (record.name, record.status, record.num_samples) == ("nightly", RunStatus.FINISHED, 30)
            assert record.config == {"chunker_version": "c1", "model": "parrot", "api_key": "***"}
            assert record.plan["run"]["top_k"] == 10
            results = store.results(record.run_id)
            assert results.by_name["recall@5"].value == pytest.approx(1 / 3)
            assert results.by_name["mean_latency[end_to_end]"].value > 0
            assert [row.position for row in store.outputs(record.run_id)] == list(range(30))

    def test_show_prints_the_results_of_run(self, project: Projects, auepora: Run) -> None:
        project(12)
        _, out, _ = auepora("run", "plan.yaml", "--json", "--per-query")
        first = json.loads(out)
        _, out, _ = auepora("show", "--json", "--per-query", "--store", "runs.sqlite")
        shown = json.loads(out)
        assert shown.pop("run")["name"] == "nightly"
        assert shown == first

    def test_failures_are_recorded_counted_and_shown(self, project: Projects, auepora: Run) -> None:
        mine = project(10)
        mine.plan(args="{broken: ['3', '4']}")
        code, out, err = auepora("run", "plan.yaml", "-m", "recall@5", "--all")
        assert code == 0
        assert "2 failed, counted worst (raised)" in out
        assert "Warning: 2 of 10 answers failed" in err
        _, out, _ = auepora("show", "--failures")
        assert "2 failed: raised 2" in out.splitlines()
        assert "\n3       raised: ValueError: cannot answer 3" in out

    def test_show_one_sample_with_its_output(self, project: Projects, auepora: Run) -> None:
        project(4)
        auepora("run", "plan.yaml")
        code, out, _ = auepora("show", "nightly", "--sample", "3")
        assert code == 0
        assert "what is 3?" in out
        assert "the answer is 3" in out
        assert "*" in out
        code, _, err = auepora("show", "nightly", "--sample", "33")
        assert code == 2
        assert "has no sample '33'" in err

    def test_output_of_the_system_does_not_reach_stdout(self, project: Projects, auepora: Run) -> None:
        mine = project(3)
        source = (mine.folder / "my_rag.py").read_text()
        (mine.folder / "noisy_rag.py").write_text(source.replace("n = int(", "print('noise'); n = int("))
        plan = Path(mine.plan()).read_text().replace("my_rag:Rag", "noisy_rag:Rag")
        (mine.folder / "plan.yaml").write_text(plan)
        _, out, err = auepora("run", "plan.yaml", "--json")
        json.loads(out)
        assert err.count("noise") == 3

    def test_limit_and_other_metrics(self, project: Projects, auepora: Run) -> None:
        mine = project(20)
        _, out, _ = auepora("run", "plan.yaml", "--limit", "5", "-m", "hit_rate@1", "--json")
        assert [one["name"] for one in json.loads(out)["results"]] == ["hit_rate@1"]
        assert len(mine.calls()) == 5

    def test_default_metrics_are_all_that_the_data_supports(self, project: Projects, auepora: Run) -> None:
        mine = project(6)
        text = Path(mine.plan()).read_text()
        (mine.folder / "plan.yaml").write_text(
            "".join(line for line in text.splitlines(True) if "metrics:" not in line)
        )
        _, out, _ = auepora("run", "plan.yaml", "--json")
        names = {one["name"] for one in json.loads(out)["results"]}
        assert {"recall@10", "token_f1", "rougeL_answer", "throughput", "mean_latency[end_to_end]"} <= names

    def test_repeats(self, project: Projects, auepora: Run) -> None:
        mine = project(5)
        mine.plan(run="{concurrency: 2, repeats: 3}")
        _, out, _ = auepora("run", "plan.yaml", "--json")
        result = json.loads(out)["results"][0]
        assert result["details"]["repeats"]["count"] == 3
        assert len(mine.calls()) == 15

    def test_saved_outputs_are_stored_too(self, project: Projects, auepora: Run) -> None:
        mine = project(3)
        auepora("run", "plan.yaml")
        auepora("export", "latest", "exported")
        (mine.folder / "saved.yaml").write_text(
            "dataset: exported/dataset.jsonl\noutputs: exported/outputs.jsonl\nmetrics: [recall@5, token_f1]\nstore: runs.sqlite\n"
        )
        code, out, _ = auepora("run", "saved.yaml", "--json")
        assert code == 0
        with RunStore.open("runs.sqlite") as store:
            live, saved = store.results(store.find("nightly").run_id), store.results(store.find("saved").run_id)
        assert (
            live.by_name["token_f1"].value == saved.by_name["token_f1"].value == json.loads(out)["results"][1]["value"]
        )
        assert len(mine.calls()) == 3

    def test_saved_outputs_in_another_order(
        self, project: Projects, auepora: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(LazySamples, "KEPT", 1)
        monkeypatch.setattr("auepora_eval.runs.run.CHUNK", 2)
        project(5)
        auepora("run", "plan.yaml")
        auepora("export", "latest", "exported")
        lines = Path("exported/outputs.jsonl").read_text().splitlines()
        Path("reversed.jsonl").write_text(
            "\n".join([*reversed(lines), lines[0].replace('"sample_id":"0"', '"sample_id":"unknown"')])
        )
        Path("saved.yaml").write_text("dataset: exported/dataset.jsonl\noutputs: reversed.jsonl\nstore: runs.sqlite\n")
        _, _, err = auepora("run", "saved.yaml")
        assert "1 output belongs to no sample and is left out: 'unknown'" in err
        with RunStore.open("runs.sqlite") as store:
            live, saved = (list(store.outputs(store.find(name).run_id)) for name in ("nightly", "saved"))
            assert live == saved
            auepora("run", "saved.yaml", "--limit", "2")
            assert list(store.outputs(store.find("latest").run_id)) == live[:2]


class TestResume:
    def test_resume_calls_only_missing_samples(self, project: Projects, auepora: Run) -> None:
        mine = project(10)
        mine.plan(args="{broken: ['0', '1', '2']}", run="{concurrency: 1, max_failures: 1}")
        code, out, err = auepora("run", "plan.yaml")
        assert code == 3
        assert out == ""
        assert "max_failures" in err
        before = len(mine.calls())
        mine.plan(args="{broken: ['0', '1', '2']}", run="{concurrency: 1}")
        code, out, err = auepora("run", "plan.yaml", "--resume", "--json")
        assert code == 0, err
        assert len(mine.calls()) == 10
        assert before < 10
        assert json.loads(out)["results"][0]["details"]["num_failed"] == 3

    def test_retry_failed(self, project: Projects, auepora: Run) -> None:
        mine = project(10)
        mine.plan(args="{broken: ['3', '4']}")
        auepora("run", "plan.yaml")
        (mine.folder / "mended").touch()
        code, out, _ = auepora("run", "plan.yaml", "--resume", "--retry-failed", "--json")
        assert code == 0
        assert sorted(mine.calls()[10:]) == ["3", "4"]
        assert json.loads(out)["results"][0]["details"]["num_failed"] == 0
        with RunStore.open("runs.sqlite") as store:
            assert len(store.runs()) == 1

    @pytest.mark.parametrize("gate", ["recall@5 >= 0", "recall@5 > 1"], ids=["gate passes", "gate fails"])
    def test_finished_run_is_printed_again(self, project: Projects, auepora: Run, gate: str) -> None:
        mine = project(4)
        with (mine.folder / "plan.yaml").open("a") as plan:
            plan.write(f"gates: ['{gate}']\nreport: report.html\n")
        code, out, _ = auepora("run", "plan.yaml", "--json", "--per-query")
        assert code == (gate == "recall@5 > 1")
        Path("report.html").unlink()
        with RunStore.open("runs.sqlite") as store:
            before = store.find("latest")
            for named in ([], ["--run", before.run_id]):
                again = auepora("run", "plan.yaml", "--resume", "--json", "--per-query", *named)
                assert again[:2] == (code, out)
                assert "was finished before; no call was made" in again[2]
            assert store.runs() == [before]
        assert len(mine.calls()) == 4
        assert Path("report.html").exists()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (("concurrency: 4", "concurrency: 4, top_k: 3"), "run.top_k: 10 -> 3"),
            (("token_f1", "exact_match"), "-m METRIC` computes other metrics on its stored outputs"),
            (('"my_rag:Rag"', '"my_rag:Rag", config: {model: other}'), "system.config"),
        ],
        ids=["another depth", "other metrics", "another model"],
    )
    def test_changed_plan_is_refused(
        self, project: Projects, auepora: Run, change: tuple[str, str], message: str
    ) -> None:
        mine = project(4)
        auepora("run", "plan.yaml")
        plan = mine.folder / "plan.yaml"
        plan.write_text(plan.read_text().replace(*change))
        code, _, err = auepora("run", "plan.yaml", "--resume", "--retry-failed")
        assert code == 2
        assert "the plan has changed" in err
        assert message in err
        assert len(mine.calls()) == 4

    def test_changed_dataset_is_refused(self, project: Projects, auepora: Run) -> None:
        mine = project(4)
        auepora("run", "plan.yaml")
        data = mine.folder / "data.jsonl"
        data.write_text(data.read_text().replace("what is 2?", "what was 2?"))
        code, _, err = auepora("run", "plan.yaml", "--resume", "--retry-failed")
        assert code == 2
        assert "the dataset has changed" in err

    def test_nothing_to_resume(self, project: Projects, auepora: Run) -> None:
        project(4)
        code, _, err = auepora("run", "plan.yaml", "--resume")
        assert code == 2
        assert "no run called 'nightly'" in err
        with pytest.raises(UnknownRunError):
            run_plan("plan.yaml", resume=True, run="run_none")

    def test_running_run_is_not_resumed(self, project: Projects) -> None:
        project(4)
        outcome = run_plan("plan.yaml")
        first = f"{outcome.record.process.partition(':')[0]}:1"  # a process that is there and not this one
        with sqlite3.connect("runs.sqlite") as raw:
            raw.execute("UPDATE eval_runs SET status = 'running', process = ?", (first,))
        with pytest.raises(BadValueError, match="still being made"):
            run_plan("plan.yaml", resume=True)

    @pytest.mark.skipif(not Path("/proc/1/stat").exists(), reason="nobody tells when a process began")
    def test_reused_process_id_does_not_lock_a_run(self, project: Projects, auepora: Run) -> None:
        project(4)
        outcome = run_plan("plan.yaml")
        reused = f"{outcome.record.process.partition(':')[0]}:1:123456789"  # number 1 is there, and began earlier
        with sqlite3.connect("runs.sqlite") as raw:
            raw.execute("UPDATE eval_runs SET status = 'running', process = ?", (reused,))
        assert run_plan("plan.yaml", resume=True).record.status is RunStatus.FINISHED
        with sqlite3.connect("runs.sqlite") as raw:
            raw.execute("UPDATE eval_runs SET status = 'running', process = ?", (reused,))
        assert auepora("runs", "delete", "nightly", "--yes")[0] == 0

    def test_run_on_another_host(self, project: Projects, auepora: Run) -> None:
        project(4)
        run_id = run_plan("plan.yaml").record.run_id

        def listed(*options: str) -> list[str]:
            code, out, err = auepora("runs", "--json", *options)
            assert code == 0, err
            return [one["status"] for one in json.loads(out)]

        def move(heartbeat: datetime) -> None:
            process = f"elsewhere:1:2@{to_iso(heartbeat)}"
            with sqlite3.connect("runs.sqlite") as raw:
                raw.execute("UPDATE eval_runs SET status = 'running', process = ?", (process,))

        move(utc_now())
        assert (listed(), listed("--status", "interrupted")) == (["running"], [])
        with pytest.raises(BadValueError, match="still being made by process elsewhere:1:2@"):
            run_plan("plan.yaml", resume=True)
        code, _, err = auepora("runs", "delete", run_id, "--yes")
        assert (code, "is still being made" in err) == (2, True)
        move(utc_now() - timedelta(minutes=3))
        assert (listed(), listed("--status", "running")) == (["interrupted"], [])
        assert listed("--status", "interrupted", "--limit", "1") == ["interrupted"]
        assert "interrupted" in auepora("runs")[1]
        assert "status   interrupted" in auepora("show", run_id, "--all")[1]
        code, _, err = auepora("gate", run_id, "-g", "recall@5 > 0", "--all")
        assert (code, "is interrupted; resume it first" in err) == (2, True)
        with sqlite3.connect("runs.sqlite") as raw:
            assert raw.execute("SELECT status FROM eval_runs").fetchone() == ("running",)
        assert run_plan("plan.yaml", resume=True).record.status is RunStatus.FINISHED

    def test_second_of_two_concurrent_resumes_is_refused(self, project: Projects) -> None:
        project(4)
        record = run_plan("plan.yaml").record
        with RunStore.open("runs.sqlite") as store:
            with sqlite3.connect("runs.sqlite") as raw:
                raw.execute("UPDATE eval_runs SET status = 'running', process = 'elsewhere:7:9'")
            store.reopen(record.run_id, expected_process="elsewhere:7:9")
            with pytest.raises(BadValueError, match=r"was meanwhile resumed by process"):
                store.reopen(record.run_id, expected_process="elsewhere:7:9")
            with pytest.raises(UnknownRunError):
                store.reopen("run_none", expected_process="elsewhere:7:9")


class TestRescore:
    def test_rescore_keeps_earlier_metrics(self, project: Projects, auepora: Run) -> None:
        mine = project(8)
        auepora("run", "plan.yaml")
        code, out, err = auepora("rescore", "latest", "-m", "chrf", "-m", "map@10:conventions=trec", "--json")
        assert code == 0, err
        assert [one["name"] for one in json.loads(out)["results"]] == ["chrf", "map@10"]
        _, out, _ = auepora("show", "--json")
        names = [one["name"] for one in json.loads(out)["results"]]
        assert names == ["recall@5", "mrr", "token_f1", "bleu", "mean_latency[end_to_end]", "chrf", "map@10"]
        assert len(mine.calls()) == 8

    def test_rescore_with_another_definition_keeps_the_old_value(self, project: Projects, auepora: Run) -> None:
        project(8)
        auepora("run", "plan.yaml", "-m", "map@10")
        auepora("rescore", "latest", "-m", "map@10", "--conventions", "trec")
        _, out, _ = auepora("show", "--all", "--json")
        signatures = [one["signature"] for one in json.loads(out)["results"]]
        assert len(signatures) == len(set(signatures)) == 2

    def test_rescore_reproduces_the_results(self, project: Projects) -> None:
        project(20)
        outcome = run_plan("plan.yaml")
        assert outcome.results is not None
        with RunStore.open("runs.sqlite") as store:
            again = rescore(store.find("latest"), store=store)
            assert again.to_dict(per_query=True) == outcome.results.to_dict(per_query=True)
            assert len(store.results("latest" and outcome.record.run_id, every_signature=True)) == 5

    def test_incomplete_run_is_refused_unless_allowed(self, project: Projects, auepora: Run) -> None:
        mine = project(10)
        mine.plan(args="{broken: ['0', '1', '2']}", run="{concurrency: 1, max_failures: 1}")
        auepora("run", "plan.yaml")
        code, _, err = auepora("rescore", "latest")
        assert code == 2
        assert "resume it first" in err
        code, out, _ = auepora("rescore", "latest", "--incomplete", "--json", "-m", "recall@5")
        assert code == 0
        assert json.loads(out)["results"][0]["details"]["num_failed"] == 10


class TestRuns:
    def test_listed_filtered_tagged_deleted(self, project: Projects, auepora: Run) -> None:
        project(3)
        auepora("run", "plan.yaml", "--tag", "first")
        auepora("run", "plan.yaml", "--name", "other")
        _, out, _ = auepora("runs")
        assert [line.split()[1] for line in out.splitlines()[2:]] == ["other", "nightly"]
        _, out, _ = auepora("runs", "--tag", "first", "--json")
        assert [one["name"] for one in json.loads(out)] == ["nightly"]
        _, out, _ = auepora("runs", "tag", "other", "good", "kept")
        assert out.endswith(": good, kept\n")
        _, out, _ = auepora("runs", "tag", "other", "good", "--remove")
        assert out.endswith(": kept\n")
        code, _, err = auepora("runs", "delete", "nightly", "--yes")
        assert code == 0
        assert "deleted 1" in err
        _, out, _ = auepora("runs", "--json")
        assert [one["name"] for one in json.loads(out)] == ["other"]

    def test_missing_store_is_an_error(self, project: Projects, auepora: Run) -> None:
        project(1)
        for arguments in (["runs"], ["show"], ["rescore", "latest"], ["export", "latest"]):
            code, _, err = auepora(*arguments)
            assert code == 2
            assert "runs.sqlite" in err


class TestScripts:
    def test_live_system_is_run_and_stored(self, project: Projects) -> None:
        project(1)

        class Parrot:
            config = {"model": "parrot"}  # noqa: RUF012

            def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
                return SystemOutputs([], Response(sample.query))

        samples = [EvaluationSample(str(n), f"q{n}", reference_answer=Response(f"q{n}")) for n in range(5)]
        outcome = run_system(Parrot(), samples, ["exact_match"], concurrency=2, repeats=2)
        assert outcome.results is not None
        assert outcome.results[0].value == 1.0
        with RunStore.open("runs.sqlite") as store:
            record = store.find("Parrot")
            assert record.config == {"model": "parrot"}
            assert store.samples(record.run_id) == samples
            assert rescore(record, store=store)[0].value == 1.0

    def test_output_that_cannot_be_encoded_is_a_failure(self, project: Projects) -> None:
        project(1)

        class Odd:
            def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
                return SystemOutputs([], Response("half \ud800" if sample.sample_id == "1" else "whole"))

        samples = [EvaluationSample(str(n), "q", reference_answer=Response("whole")) for n in range(3)]
        outcome = run_system(Odd(), samples, ["exact_match"])
        assert outcome.results is not None
        assert list(outcome.results[0].outcomes or ()) == ["scored", "system_failed:bad_output", "scored"]
