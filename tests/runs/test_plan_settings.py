"""``--set key=value``: a run of a plan with other values, without a copy of the plan."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.errors import BadValueError, PlanError
from auepora_eval.plan.source import parse_settings, read_source
from auepora_eval.store.runs import RunStore
from helpers.judge_server import JudgeServer
from helpers.judged_project import judged_by_endpoint, parity
from helpers.user_project import Project

Auepora = Callable[..., tuple[int, str, str]]
Projects = Callable[[int], Project]


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    with JudgeServer(parity) as server:
        yield server


def latest(folder: Path) -> Any:
    with RunStore.open(folder / "runs.sqlite") as store:
        return store.find("latest")


class TestValues:
    @pytest.mark.parametrize(
        ("texts", "expected"),
        [
            (["run.top_k=3"], {"run.top_k": 3}),
            (["a=x=y"], {"a": "x=y"}),
            (["a=", "b=[1, two]", "c={d: 1.5}"], {"a": None, "b": [1, "two"], "c": {"d": 1.5}}),
            (["a='3'", "b=true"], {"a": "3", "b": True}),
            (["a=1", "b=2", "a=3"], {"b": 2, "a": 3}),  # the later one, in its place
        ],
    )
    def test_yaml_values(self, texts: list[str], expected: dict[str, Any]) -> None:
        found = parse_settings(texts)
        assert (found, list(found)) == (expected, list(expected))

    @pytest.mark.parametrize("text", ["run.top_k", "=3", "run..top_k=3", ".a=1"])
    def test_no_key(self, text: str) -> None:
        with pytest.raises(BadValueError, match="KEY=VALUE"):
            parse_settings([text])

    def test_invalid_yaml_names_the_key(self) -> None:
        with pytest.raises(PlanError, match=r"run\.top_k.*not valid YAML"):
            parse_settings(["run.top_k=[1"])

    def test_dot_in_a_key(self, project: Projects) -> None:
        source = read_source(project(2).folder / "plan.yaml")
        values = source.with_settings(parse_settings([r"system.config.model\.name=small"])).values
        assert values["system"]["config"] == {"model.name": "small"}

    def test_file_stays(self, project: Projects) -> None:
        source = read_source(project(2).folder / "plan.yaml")
        source.with_settings({"run.concurrency": 9, "system.args.seconds": 1})
        assert source.values["run"]["concurrency"] == 4
        assert source.values["system"]["args"] == {}


class TestRun:
    def test_values_reach_system_plan_and_configuration(self, project: Projects, auepora: Auepora) -> None:
        folder = project(6).folder
        sets = ["--set", "system.args.broken=['3']", "--set", "run.top_k=2", "--set", "system.config.stage=two"]
        code, _, err = auepora("run", "plan.yaml", *sets)
        assert code == 0, err
        record = latest(folder)
        assert record.name == "nightly"
        assert record.plan["run"]["top_k"] == 2
        assert record.plan["system"]["args"] == {"broken": ["3"]}
        expected = {"system.args.broken": ["3"], "run.top_k": 2, "stage": "two"}
        assert {key: record.config[key] for key in expected} == expected
        assert "system.config.stage" not in record.config
        with RunStore.open(folder / "runs.sqlite") as store:
            assert sum(row.output.error is not None for row in store.outputs(record.run_id)) == 1

    def test_differences_are_named_by_compare(self, project: Projects, auepora: Auepora) -> None:
        project(6)
        assert auepora("run", "plan.yaml", "--set", "run.top_k=2", "--quiet")[0] == 0
        assert auepora("run", "plan.yaml", "--set", "run.top_k=5", "--name", "more", "--quiet")[0] == 0
        document = json.loads(auepora("compare", "nightly", "more", "--json")[1])
        assert "run.top_k" in json.dumps(document)

    def test_options_win_over_settings(self, project: Projects, auepora: Auepora) -> None:
        folder = project(3).folder
        assert auepora("run", "plan.yaml", "--set", "run.concurrency=2", "--concurrency", "3")[0] == 0
        assert latest(folder).plan["run"]["concurrency"] == 3

    @pytest.mark.parametrize(
        ("setting", "words"),
        [
            ("rnu.top_k=3", ["rnu: unknown key", "'run'"]),
            ("run.topk=3", ["run.topk: unknown key", "'top_k'"]),
            ("run.top_k=many", ["run.top_k: must be an integer >= 1, not the text 'many'"]),
            ("run.concurrency.x=1", ["run.concurrency: has no keys here"]),
            ("system.args.api_key=abc123def", ["system.args.api_key: looks like a secret"]),
            ("resources.judge.openai.api_key=abc123def", ["resources.judge.openai"]),
        ],
    )
    def test_errors_before_any_call(self, project: Projects, auepora: Auepora, setting: str, words: list[str]) -> None:
        mine = project(3)
        for command in (["run", "plan.yaml"], ["validate", "plan.yaml"], ["diagnose", "plan.yaml"]):
            code, out, err = auepora(*command, "--set", setting)
            assert code == 2
            assert all(word in out + err for word in words)
            assert "abc123def" not in out + err
        assert mine.calls() == []

    def test_errors_name_no_line_of_the_file(self, project: Projects, auepora: Auepora) -> None:
        project(3)
        assert "plan.yaml: run.top_k" in auepora("run", "plan.yaml", "--set", "run.top_k=many")[2]

    def test_resumed_run_refuses_other_settings(self, project: Projects, auepora: Auepora) -> None:
        project(3)
        assert auepora("run", "plan.yaml", "--set", "system.config.size=1")[0] == 0
        assert auepora("run", "plan.yaml", "--resume", "--set", "system.config.size=1")[0] == 0
        code, _, err = auepora("run", "plan.yaml", "--resume", "--set", "system.config.size=2")
        assert (code, "the plan has changed since" in err, "1 -> 2" in err) == (2, True, True)

    def test_command_to_resume_repeats_settings(self, project: Projects, auepora: Auepora) -> None:
        project(12)
        broken = "system.args.broken=['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '10', '11']"
        code, _, err = auepora("run", "plan.yaml", "--set", broken)
        assert (code, f'--set "{broken}"' in err or "--set 'system.args.broken" in err) == (3, True)

    def test_validate_describes_the_changed_plan(self, project: Projects, auepora: Auepora) -> None:
        project(3)
        assert "6 calls" in auepora("validate", "plan.yaml", "--load", "--set", "run.repeats=2")[1]
        code, _, err = auepora("validate", "data.jsonl", "--set", "run.repeats=2")
        assert (code, "--set goes with a plan" in err) == (2, True)


class TestJudges:
    def test_judge_of_a_plan(self, project: Projects, auepora: Auepora, judge: JudgeServer) -> None:
        folder = judged_by_endpoint(project, judge.base_url, 4).parent
        code, _, err = auepora("run", "plan.yaml", "--set", "resources.judge.openai.model=other")
        assert code == 0, err
        assert {asked.body["model"] for asked in judge.asked} == {"other"}
        assert latest(folder).plan["resources"]["judge"]["openai"]["model"] == "other"

    def test_judge_of_a_stored_run(self, project: Projects, auepora: Auepora, judge: JudgeServer) -> None:
        judged_by_endpoint(project, judge.base_url, 4)
        assert auepora("run", "plan.yaml")[0] == 0
        judge.asked.clear()
        code, _, err = auepora("rescore", "latest", "--set", "resources.judge.openai.model=other")
        assert code == 0, err
        assert {asked.body["model"] for asked in judge.asked} == {"other"}

    def test_judge_without_a_plan(self, project: Projects, auepora: Auepora, judge: JudgeServer) -> None:
        judged_by_endpoint(project, judge.base_url, 4)
        assert auepora("run", "plan.yaml", "--no-gates")[0] == 0
        assert auepora("export", "latest", "-o", "out")[0] == 0
        judge.asked.clear()
        sets = [f"resources.judge.openai.base_url={judge.base_url}", "resources.judge.openai.model=third"]
        options = [word for one in sets for word in ("--set", one)]
        code, _, err = auepora(
            "score", "out/dataset.jsonl", "out/outputs.jsonl", "-m", "llm_faithfulness:scale=1-5", *options
        )
        assert code == 0, err
        assert {asked.body["model"] for asked in judge.asked} == {"third"}

    @pytest.mark.parametrize("command", [["rescore", "latest"], ["score", "data.jsonl", "data.jsonl"]])
    def test_other_keys_are_refused(self, project: Projects, auepora: Auepora, command: list[str]) -> None:
        project(3)
        assert auepora("run", "plan.yaml")[0] == 0
        code, _, err = auepora(*command, "--set", "run.top_k=3")
        assert (code, "--set run.top_k: this command takes only keys of a judge" in err) == (2, True)
