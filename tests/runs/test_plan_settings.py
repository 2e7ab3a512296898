"""``--set key=value``: a run of a plan with other values, without a copy of the plan."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.errors import BadValueError, PlanError
from auepora_eval.plan.source import PLAN_KEYS, parse_settings, read_source
from auepora_eval.runs.scoring import SCORING_KEYS
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

    def test_other_keys_need_a_plan(self, project: Projects, auepora: Auepora) -> None:
        project(3)
        code, _, err = auepora("score", "data.jsonl", "data.jsonl", "--set", "run.top_k=3")
        assert (code, "--set run.top_k: this command takes only keys of a judge" in err) == (2, True)


RECALL = "metrics=[recall@3]"
SCORING_SETTINGS: list[tuple[list[str], dict[str, str], str]] = [  # settings, signatures, why
    ([RECALL], {"recall@3": "recall@3|empty:skip|v1"}, "metrics replace those of the plan"),
    (["metrics=[{recall@3: {as: mine}}]"], {"mine": "recall@3|empty:skip|v1"}, "options as in a plan"),
    ([RECALL, "metrics=[mrr]"], {"mrr": "mrr|empty:skip|top_k:10|v1"}, "the later value wins"),
    ([RECALL, "conventions=paper"], {"recall@3": "recall@3|empty:zero|v1"}, "a preset"),
    ([RECALL, "conventions.empty_gold=zero"], {"recall@3": "recall@3|empty:zero|v1"}, "one convention"),
    ([RECALL, "gold.match=text"], {"recall@3": "recall@3|empty:skip|match:text|v1"}, "a way to match gold"),
    ([RECALL, "gold={match: text}"], {"recall@3": "recall@3|empty:skip|match:text|v1"}, "a whole section"),
    ([RECALL, "conventions.match=text"], {"recall@3": "recall@3|empty:skip|match:text|v1"}, "a way as convention"),
    ([RECALL, "scoring.executor=processes", "scoring.workers=1"], {"recall@3": "recall@3|empty:skip|v1"}, "executor"),
]
UNSCORED: list[tuple[str, list[str]]] = [  # setting, words of the error
    ("system.args.broken=['3']", ["system.args.broken: has no effect", "auepora run PLAN --set system.args.broken="]),
    ("run.top_k=3", ["the plan of run_", "run.top_k: has no effect on the scores of stored outputs", "auepora run"]),
    ("run={top_k: 3}", ["run: has no effect", "auepora run"]),
    ("run.repeats=2", ["run.repeats: has no effect", "auepora run"]),
    ("dataset.jsonl=other.jsonl", ["dataset.jsonl: has no effect", "auepora run"]),
    ("name=other", ["name: has no effect", "auepora run"]),
    ("primary=[mrr]", ["primary: has no effect", "auepora compare --primary"]),
    ("guardrails.mrr=0.1", ["guardrails.mrr: has no effect", "auepora compare --guardrail"]),
    ("gates=[mrr > 0.5]", ["gates: has no effect", "auepora gate RUN --gate"]),
    ("store=other.sqlite", ["store: has no effect", "--store"]),
    ("report=page.html", ["report: has no effect", "auepora report"]),
    ("sweep.budget=3", ["sweep.budget: has no effect", "auepora sweep"]),
]
WRONG: list[tuple[str, list[str]]] = [  # setting, words of the error
    ("metrcs=[mrr]", ["metrcs: unknown key; did you mean 'metrics'?"]),
    ("nonsense=1", ["nonsense: unknown key; there are version, name, dataset"]),
    ("metrics=[recal@3]", ["metrics[0]: unknown metric 'recal'; did you mean 'recall'?"]),
    ("conventions=trek", ["conventions: unknown conventions", "'trec'"]),
    ("conventions.app=capped", ["conventions.app: unknown key; did you mean 'ap'?"]),
    ("gold.mach=text", ["gold.mach: unknown key; did you mean 'match'?"]),
    ("gold.match=near", ["gold.match: must be one of auto, id, span, text, parent; not the text 'near'"]),
    ("slices=labels.parity", ["slices: must be a list"]),
    ("targets=[corectness]", ["targets[0]", "generation_correctness"]),
    ("run.prises.parrot.prompt=1", ["run.prises: unknown key; did you mean 'prices'?"]),
    ("run.topk=3", ["run.topk: unknown key; did you mean 'top_k'?"]),
    ("scoring.workers=2", ["scoring.workers: goes with 'executor: processes' or 'ray'"]),
    ("scoring.batch_size=none", ["scoring.batch_size: must be an integer >= 1"]),
    ("judge.max_cals=3", ["judge.max_cals: unknown key; did you mean 'max_calls'?"]),
    ("system.args.api_key=abc123def", ["system.args.api_key: looks like a secret"]),
    ("resources.judge.openai.api_key=abc123def", ["resources.judge.openai.api_key: a plan names the variable"]),
    ("metrics", ["KEY=VALUE"]),
]


class TestRescore:
    """A stored run has a plan: any key that says how outputs are scored can be set."""

    @pytest.fixture
    def stored(self, project: Projects, auepora: Auepora) -> Project:
        mine = project(6)
        assert auepora("run", "plan.yaml")[0] == 0
        return mine

    @pytest.mark.parametrize(
        ("settings", "signatures", "why"), SCORING_SETTINGS, ids=[row[2] for row in SCORING_SETTINGS]
    )
    def test_values_change_scores(
        self, stored: Project, auepora: Auepora, settings: list[str], signatures: dict[str, str], why: str
    ) -> None:
        before = latest(stored.folder)
        options = [word for setting in settings for word in ("--set", setting)]
        code, out, err = auepora("rescore", "latest", "--json", *options)
        assert code == 0, err
        assert {metric["name"]: metric["signature"] for metric in json.loads(out)["results"]} == signatures
        assert len(stored.calls()) == 6
        after = latest(stored.folder)
        assert (after.plan, after.config) == (before.plan, before.config)

    def test_options_win_over_settings(self, stored: Project, auepora: Auepora) -> None:
        settings = ["--set", RECALL, "--set", "conventions=golden", "--set", "gold.match=text"]
        options = ["-m", "mrr", "--conventions", "auepora", "--match", "id"]
        _, out, err = auepora("rescore", "latest", "--json", *settings, *options)
        assert out, err
        assert [metric["signature"] for metric in json.loads(out)["results"]] == ["mrr|empty:skip|top_k:10|v1"]

    def test_slices(self, stored: Project, auepora: Auepora) -> None:
        out = auepora("rescore", "latest", "--json", "--set", RECALL, "--set", "slices=[{half: labels.parity}]")[1]
        (metric,) = json.loads(out)["results"]
        assert list(metric["slices"]) == ["half"]

    def test_targets_come_with_the_metrics_of_the_plan(self, stored: Project, auepora: Auepora) -> None:
        code, out, err = auepora("rescore", "latest", "--json", "--set", RECALL, "--set", "targets=[correctness]")
        names = [metric["name"] for metric in json.loads(out)["results"]]
        assert (code, names[0], "token_f1" in names, "mrr" in names) == (0, "recall@3", True, False), err

    def test_corpus_is_a_file(self, stored: Project, auepora: Auepora) -> None:
        code, _, err = auepora("rescore", "latest", "--set", "dataset.corpus=nowhere.jsonl")
        assert (code, "nowhere.jsonl" in err) == (2, True)

    def test_label_names_the_conventions(self, stored: Project, auepora: Auepora) -> None:
        out = auepora("rescore", "latest", "--set", RECALL, "--set", "conventions.empty_gold=zero")[1]
        assert "conventions: auepora, empty_gold zero" in out

    def test_preset_that_compares_ids(self, stored: Project, auepora: Auepora) -> None:
        """A run whose gold was matched by text is scored by ids under such a preset, as with --conventions."""
        stored.plan(more="gold: {match: text}\n")
        assert auepora("run", "plan.yaml", "--name", "by text")[0] == 0
        by_set = auepora("rescore", "by text", "--json", "--set", RECALL, "--set", "conventions=trec")[1]
        by_option = auepora("rescore", "by text", "--json", "-m", "recall@3", "--conventions", "trec")[1]
        signatures = [json.loads(text)["results"][0]["signature"] for text in (by_set, by_option)]
        assert signatures[0] == signatures[1]
        assert "match" not in signatures[0]

    @pytest.mark.parametrize("rows", [UNSCORED, WRONG], ids=["without effect", "wrong"])
    def test_errors(self, stored: Project, auepora: Auepora, rows: list[tuple[str, list[str]]]) -> None:
        problems = []
        for setting, words in rows:
            code, out, err = auepora("rescore", "latest", "--set", setting)
            missing = [word for word in words if word not in err]
            if code != 2 or missing or "abc123def" in out + err:
                problems.append((setting, code, missing, err))
        assert problems == []

    def test_each_key_of_a_plan_is_used_or_refused(self) -> None:
        refused = {setting.partition("=")[0].partition(".")[0] for setting, _ in UNSCORED}
        used = {key.partition(".")[0] for key in SCORING_KEYS}
        assert used | refused | {"version", "outputs"} == set(PLAN_KEYS)

    def test_grades_take_no_settings(self, stored: Project, auepora: Auepora) -> None:
        files = ["--qrels", "qrels.txt", "--grades", "grades.jsonl", "-m", "recall@3"]
        code, _, err = auepora("rescore", "latest", *files, "--set", "judge.max_calls=3")
        assert (code, "--grades calls no judge: leave out --set" in err) == (2, True)
