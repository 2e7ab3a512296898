"""Runs judged by a panel of the plan: stored, explained, resumed, and learned from."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from auepora_eval.judge.panel import PanelWeights
from auepora_eval.report.explain import explain
from auepora_eval.stats.stacking import stacked_probability
from auepora_eval.store import RunStore
from helpers.user_project import Project

Cli = Callable[..., tuple[int, str, str]]

JUDGES = '''
import asyncio
import os
from pathlib import Path
from auepora_eval.errors import JudgeError
from auepora_eval.judge.critic import Judgement, LLMCritic, StructuredCritic, Usage

def log(line):
    with (Path(__file__).parent / "judged.log").open("a") as file:
        file.write(f"{line}\\n")

def score_of(name, number):
    return 1 + (number * {"a": 1, "b": 2, "c": 3, "d": 1}[name]) % 5

class Judge(StructuredCritic):
    """Scores by its name and the number of the sample."""

    def __init__(self, name, broken=(), stop_at=None, logprobs=False):
        self.name, self.broken, self.stop_at, self.logprobs = name, set(broken), stop_at, logprobs

    async def judge(self, request):
        log(f"{self.name} {request.metric} {request.sample_id}")
        if request.sample_id == self.stop_at and not (Path(__file__).parent / "stopped").exists():
            (Path(__file__).parent / "stopped").write_text("")
            await asyncio.sleep(1.0)  # until the others have answered and are in the cache file
            os._exit(9)
        if request.sample_id in self.broken:
            raise JudgeError("unparseable", "no number in it", raw="I like it")
        score = score_of(self.name, int(request.sample_id))
        weighted = score - 0.25 if request.weighted and score > 1 else None
        return Judgement({"score": score, "rationale": f"{self.name}"}, Usage(100, 10), weighted=weighted)

    def cache_key(self, request):
        return {"name": self.name}

class Bare(LLMCritic):
    name, cache_key = "d", "1"

    def score(self, *, prompt, metadata=None):
        log(f"d {metadata['metric']} {metadata['sample_id']}")
        return score_of("d", int(metadata["sample_id"]))

def bare():
    return Bare()

def embed(texts):
    return [[1.0, 0.0] for text in texts]
'''
RESOURCES = """
resources:
  a: {{python: 'a_panel_rag:Judge', args: {{name: a}}}}
  b: {{python: 'a_panel_rag:Judge', args: {{name: b, broken: {broken}}}}}
  c: {{python: 'a_panel_rag:Judge', args: {{name: c, logprobs: true, stop_at: {stop_at}}}}}
  d: {{python: 'a_panel_rag:bare'}}
  e: {{python: 'a_panel_rag:embed', args: {{}}}}
  jury: {panel}
"""
PANEL = "{panel: {judges: [a, b, c, d], vote: mean}}"
METRICS = "[recall@5, {llm_faithfulness: {critic: {use: jury}, scale: 1-5}}]"


@pytest.fixture
def judged(project: Callable[[int], Project]) -> Callable[..., Project]:
    """Makes a project whose plan has a panel."""

    def make(samples: int = 6, *, broken: str = "[]", stop_at: str = "null", panel: str = PANEL) -> Project:
        made = project(samples)
        (made.folder / "a_panel_rag.py").write_text(JUDGES)
        resources = RESOURCES.format(broken=broken, stop_at=stop_at, panel=panel)
        if "e" not in re.findall(r"\w+", panel):
            resources = re.sub(r"  e: .*\n", "", resources)
        made.plan(run="{concurrency: 4, retries: 0}", more=resources)
        path = made.folder / "plan.yaml"
        text = path.read_text()
        path.write_text(text[: text.index("metrics:")] + f"metrics: {METRICS}\n" + text[text.index("slices:") :])
        return made

    return make


def asked(project: Project) -> list[str]:
    log = project.folder / "judged.log"
    return sorted(log.read_text().splitlines()) if log.exists() else []


def score(name: str, number: int) -> float:
    """The score of a member, from 0 to 1; c reports probabilities, which lower it."""
    factor = {"a": 1, "b": 2, "c": 3, "d": 1}[name]
    given = 1 + (number * factor) % 5
    return (given - 1 - (0.25 if name == "c" and given > 1 else 0)) / 4


def test_a_panel_of_a_plan_is_stored_shown_and_explained_to_the_last_digit(
    judged: Callable[..., Project], auepora: Cli
) -> None:
    made = judged(broken="['2']", panel="{panel: {judges: [c, a, d, b], vote: mean}}")
    code, out, err = auepora("run", "plan.yaml", "--preview", "--json")
    assert (code, json.loads(out)["total"]["calls"]) == (0, 24)
    code, out, err = auepora("run", "plan.yaml", "--all")
    assert code == 0, err
    assert "4 judges agree on" in out
    assert "b 0." in out
    assert "(1 failed)" in out
    assert len(asked(made)) == 24
    with RunStore.open("runs.sqlite") as store:
        record = store.find("latest")
        result = store.result(record.run_id, "llm_faithfulness")
        assert result.scores is not None
        for number in range(6):
            members = [score(name, number) for name in "abcd" if (name, number) != ("b", 2)]
            assert result.scores[number] == pytest.approx(sum(members) / len(members), abs=1e-15)
            found = explain(store, record.run_id, "llm_faithfulness", query=str(number))
            (derived,) = found.query.answers  # type: ignore[union-attr]
            assert derived.derivation is not None
            assert derived.derivation.value == result.scores[number]
            assert not derived.derivation.general
        rows = list(store.judgements(record.run_id, position=2))
        assert {(row.critic, row.reason) for row in rows} == {
            ("a", None),
            ("b", "unparseable"),
            ("c", None),
            ("d", None),
        }
        assert result.details["panel"]["members"]["b"]["failed"] == 1
    code, out, _ = auepora("explain", "latest", "llm_faithfulness", "--query", "2")
    assert "The votes of the panel, combined by mean" in out
    code, out, _ = auepora("show", "latest", "--sample", "2")
    assert re.findall(r"llm_faithfulness by (\w)", out) == ["c", "a", "d", "b"]  # as in the plan, then the vote
    assert re.search(r"panel      llm_faithfulness: mean of c, a, d, b: 0\.\d{4}\n", out)
    assert auepora("report", "latest", "-o", "report.md", "-q")[0] == 0
    report = (made.folder / "report.md").read_text()
    assert "| scored | not scored, and why | judges |" in report
    assert re.search(r"\| 6 of 6 \|  \| 4 judges agree on", report)
    code, out, _ = auepora("judge", "try", "plan.yaml", "-n", "2", "--run", "latest")
    assert out.count("[begin answer") == 2 * 2  # one prompt for c, a and b, another one for d, which gives numbers
    assert out.count("the prompt above, as to") == 2 * 2
    code, out, err = auepora("rescore", "latest", "-q", "--judge-cache-only")
    assert code == 0, err
    assert len(asked(made)) == 24


def test_exported_judgements_replay_a_panel(judged: Callable[..., Project], auepora: Cli) -> None:
    made = judged(3)
    assert auepora("run", "plan.yaml", "-q")[0] == 0
    assert auepora("export", "latest", "saved", "-q")[0] == 0
    recorded = next((made.folder / "saved").rglob("judgements.jsonl")).relative_to(made.folder)
    plan = made.folder / "plan.yaml"
    text = plan.read_text()
    whole = re.sub(r"  (\w): \{python: .*\}", rf"  \1: {{recorded: {recorded}}}", text)
    plan.write_text(whole)
    code, _, err = auepora("run", "plan.yaml", "-q")
    assert (code, "several judges answered the same request" in err) == (2, True), err
    plan.write_text(re.sub(r"  (\w): \{recorded: (.*)\}", r"  \1: {recorded: {path: \2, critic: \1}}", whole))
    code, _, err = auepora("run", "plan.yaml", "-q")
    assert code == 0, err
    assert len(asked(made)) == 12
    with RunStore.open("runs.sqlite") as store:
        first, second = (store.result(store.find(name).run_id, "llm_faithfulness") for name in ("latest~1", "latest"))
        assert list(first.scores or ()) == list(second.scores or ())
        assert first.signature == second.signature


BUILD_ERRORS = [  # panel, key, message, why
    (
        "{panel: [a, e]}",
        "resources.jury.panel.judges[1]",
        "'e' gave an object of type function",
        "a function as member",
    ),
    (
        "{panel: {judges: [a, b], vote: stacked, weights: none.json}}",
        "resources.jury.panel.weights",
        "none.json: No such file",
        "no weights file",
    ),
    (
        "{panel: {judges: [a, b], vote: stacked, weights: weights.json}}",
        "resources.jury.panel.weights",
        "weights were learned for x, y, in this order, and the panel has a, b",
        "weights of other members",
    ),
]


@pytest.mark.parametrize(
    ("panel", "key", "message"), [row[:3] for row in BUILD_ERRORS], ids=[row[3] for row in BUILD_ERRORS]
)
def test_members_and_weights_are_checked_before_a_run(
    judged: Callable[..., Project], auepora: Cli, panel: str, key: str, message: str
) -> None:
    made = judged(2, panel=panel)
    weights = PanelWeights(("x", "y"), "m", "p", (0.0, 1.0, 1.0), ((0.0, 1.0, 1.0),), ())
    (made.folder / "weights.json").write_text(json.dumps(weights.to_dict()))
    code, _, err = auepora("run", "plan.yaml")
    assert code == 2
    assert re.search(rf"plan.yaml:\d+: {re.escape(key)}: .*{re.escape(message)}", err)
    assert asked(made) == []


@pytest.mark.slow
def test_killed_and_resumed_no_answered_request_is_repeated(judged: Callable[..., Project]) -> None:
    made = judged(4, stop_at="'3'")
    command = [sys.executable, "-m", "auepora_eval", "run", "plan.yaml", "-q"]
    assert subprocess.run(command, cwd=made.folder, check=False).returncode == 9
    subprocess.run([*command, "--resume"], cwd=made.folder, check=True)
    wanted = [f"{name} llm_faithfulness {number}" for name in "abcd" for number in range(4)]
    assert asked(made) == sorted([*wanted, "c llm_faithfulness 3"])  # the one without an answer is asked again


def write_labels(project: Project, count: int) -> str:
    """Labels of so many answers: right where the number of the sample has a remainder of 2 or more by 5."""
    about = {"annotator": "ann", "draw": "d1", "probability": 0.5}
    rows = [{"sample_id": str(n), "label": "right" if n % 5 >= 2 else "wrong", **about} for n in range(count)]
    (project.folder / "labels.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return "labels.jsonl"


@pytest.mark.slow
def test_weights_are_learned_from_labels_and_used_by_a_stacked_vote(
    judged: Callable[..., Project], auepora: Cli
) -> None:
    made = judged(36, panel="{panel: [a, b, c, d]}")
    assert auepora("run", "plan.yaml", "-q")[0] == 0
    labels = write_labels(made, 32)
    calibrate = ("judge", "calibrate", "latest", "--labels", labels, "--learn-weights", "weights.json")
    code, out, err = auepora(*calibrate, "--assume-random", "--json")
    assert code == 0, err
    learned = json.loads(out)
    weights = PanelWeights.read("weights.json")
    assert (weights.members, weights.metric, len(weights.items)) == (("a", "b", "c", "d"), "llm_faithfulness", 32)
    _, a, b, c, d = weights.coefficients
    assert a == d  # they give the same scores, and share a weight
    assert a + d > max(b, c)  # the labels follow their scores
    # The same panel with a stacked vote: nothing is asked again, and labelled answers have out-of-fold scores.
    before = asked(made)
    plan = made.folder / "plan.yaml"
    plan.write_text(
        plan.read_text().replace("[a, b, c, d]", "{judges: [a, b, c, d], vote: stacked, weights: weights.json}")
    )
    code, _, err = auepora("run", "plan.yaml", "-q", "--judge-cache-only")
    assert code == 0, err
    assert asked(made) == before
    code, out, err = auepora("judge", "calibrate", "latest", "--labels", labels, "--assume-random", "--json")
    assert code == 0, err
    again = json.loads(out)
    for key in ("kappa", "auroc", "brier"):
        assert again["judged"][0][key]["value"] == pytest.approx(learned["judged"][0][key]["value"])
    assert again["judged"][0]["corrected"]["value"] == pytest.approx(learned["judged"][0]["corrected"]["value"])
    with RunStore.open("runs.sqlite") as store:
        record = store.find("latest")
        result = store.result(record.run_id, "llm_faithfulness")
        assert result.scores is not None
        folds = {item.sample_id: item.fold for item in weights.items}
        for number in (0, 7, 35):
            votes = [score(name, number) for name in "abcd"]
            used = weights.fold_coefficients[folds[str(number)]] if number < 32 else weights.coefficients
            assert result.scores[number] == pytest.approx(stacked_probability(used, votes)[0], abs=1e-12)
            found = explain(store, record.run_id, "llm_faithfulness", query=str(number))
            (derived,) = found.query.answers  # type: ignore[union-attr]
            assert derived.derivation is not None
            assert derived.derivation.value == result.scores[number]
            assert f"z = {used[0]:.4f} {used[1]:+.4f} a" in str(derived.derivation)


LEARN_ERRORS = [  # labels, options, message, why
    (9, ("--assume-random",), "at least 10 labels", "too few labels"),
    (20, ("-m", "recall@5"), "was not judged by a panel", "no judge"),
    (20, ("--scores", "s.jsonl"), "takes one run, without --scores", "scores of a file"),
]


def test_weights_are_not_learned_from_too_little(judged: Callable[..., Project], auepora: Cli) -> None:
    made = judged(20, panel="{panel: [a, b]}")
    assert auepora("run", "plan.yaml", "-q")[0] == 0
    for count, options, message, why in LEARN_ERRORS:
        labels = write_labels(made, count)
        command = ("judge", "calibrate", "latest", "--labels", labels, "--learn-weights", "w.json", *options)
        code, _, err = auepora(*command)
        assert (code, message in err) == (2, True), (why, err)
        assert not (made.folder / "w.json").exists()
    code, _, err = auepora(
        "judge", "calibrate", "latest", "--labels", write_labels(made, 20), "--learn-weights", "w.json"
    )
    assert (code, "learned from 20 labels; below 30 a majority vote" in err) == (0, True), err


ANY_JUDGES = '''
import hashlib
from auepora_eval.judge.critic import Judgement, LLMCritic, StructuredCritic
from helpers.critics import steady, steady_value

class Any(StructuredCritic):
    """Replies by the schema; the same prompt gets the same reply."""

    def __init__(self, name, logprobs=False):
        self.name, self.logprobs = name, logprobs

    async def judge(self, request):
        answer = steady_value("", request.schema, f"{self.name} {request.prompt}")
        if request.weighted is None:
            return Judgement(answer)
        values = request.label_values
        weighted = values[answer["score"]] if values else answer["score"]
        return Judgement(answer, weighted=weighted, mass=1.0)

class Bare(LLMCritic):
    name = "d"

    def score(self, *, prompt, metadata=None):
        low, high = map(float, metadata["scale"].split("-"))
        return low + (high - low) * round(steady(prompt))

def bare():
    return Bare()
'''
ANY_PLAN = """
dataset: data.jsonl
outputs: answers.jsonl
store: runs.sqlite
resources:
  a: {{python: 'any_panel_rag:Any', args: {{name: a}}}}
  b: {{python: 'any_panel_rag:Any', args: {{name: b}}}}
  c: {{python: 'any_panel_rag:Any', args: {{name: c, logprobs: true}}}}
  d: {{python: 'any_panel_rag:bare'}}
  all: {{panel: {{judges: [a, b, c, d], vote: {vote}}}}}
  objects: {{panel: {{judges: [a, b, c], vote: {vote}}}}}
metrics:
  - judge_metric: {{name: polite, critic: {{use: all}}, target: generation_relevance, scale: yes-no, inputs: [question, answer],
      prompt: Is the answer polite?}}
  - judge_metric: {{name: tone, critic: {{use: objects}}, target: generation_relevance, scale: [warm, cold, odd], inputs: [answer],
      prompt: Which tone has the answer?}}
  - rubric_score: {{critic: {{use: all}}}}
  - claim_faithfulness: {{critic: {{use: all}}}}
  - llm_correctness: {{critic: {{use: all}}}}
"""


SLOW = pytest.mark.slow


@pytest.mark.parametrize("vote", ["mean", *(pytest.param(one, marks=SLOW) for one in ("median", "majority"))])
@pytest.mark.usefixtures("project")
def test_every_kind_of_judge_metric_is_explained_from_the_votes(vote: str, auepora: Cli) -> None:
    Path("any_panel_rag.py").write_text(ANY_JUDGES)
    Path("plan.yaml").write_text(ANY_PLAN.format(vote=vote))
    rubric = [{"item": "It names a city."}, {"item": "It is rude.", "weight": -1}]
    samples = [
        {"sample_id": str(n), "query": f"Question {n}?", "reference_answer": f"Paris {n}", "labels": {"rubric": rubric}}
        for n in range(4)
    ]
    documents = [{"doc": {"doc_id": "d1", "text": "Paris is in France."}}]
    outputs = [{"sample_id": str(n), "retrieved": documents, "response": f"Paris {n}."} for n in range(4)]
    for name, rows in (("data.jsonl", samples), ("answers.jsonl", outputs)):
        Path(name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    code, out, err = auepora("run", "plan.yaml", "--preview", "--json")
    calls = json.loads(out)["metrics"]
    assert calls["polite"]["calls"] == 16
    code, _, err = auepora("run", "plan.yaml")
    assert code == 0, err
    with RunStore.open("runs.sqlite") as store:
        record = store.find("latest")
        results = store.results(record.run_id)
        assert {one.name for one in results} >= {"polite", "tone[warm]", "rubric_score", "claim_faithfulness"}
        for result in results:
            assert result.details["panel"]["vote"] == vote
            for number, value in enumerate(result.scores or ()):
                if value is None:
                    continue
                found = explain(store, record.run_id, result.name, query=str(number))
                (derived,) = found.query.answers  # type: ignore[union-attr]
                assert derived.derivation is not None
                assert (result.name, derived.derivation.value) == (result.name, value)
                assert not derived.derivation.general
    code, out, err = auepora("judge", "try", "plan.yaml", "-m", "polite", "-n", "2", "--json")
    assert code == 0, err
    assert {one for one in "abcd" if f'"{one}"' in out} == set("abcd")
    Path("labels.jsonl").write_text("".join(f'{{"sample_id": "{n}", "label": "right"}}\n' for n in range(4)))
    for name, message in (("claim_faithfulness", "has several votes per answer"), ("polite", "at least 10 labels")):
        learn = ("judge", "calibrate", "latest", "--labels", "labels.jsonl", "-m", name, "--learn-weights", "w.json")
        code, _, err = auepora(*learn)
        assert (code, message in err) == (2, True), err


def test_a_member_needs_its_key_and_is_compared_with_the_model_of_the_system(
    judged: Callable[..., Project], auepora: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    made = judged(2, panel="{panel: [a, b]}")
    plan = made.folder / "plan.yaml"
    endpoint = "b: {openai: {model: gpt-4o-mini, base_url: 'https://judge.example/v1', api_key_env: NO_SUCH_KEY}}"
    text = re.sub(r"b: \{python: .*\}", endpoint, plan.read_text())
    plan.write_text(re.sub(r'(system: \{python: "my_rag:Rag")', r"\1, config: {model: gpt-4.1}", text))
    code, _, err = auepora("run", "plan.yaml")
    assert code == 2
    assert re.search(r"plan.yaml:\d+: resources.b.openai.api_key_env: .*NO_SUCH_KEY", err)
    code, out, err = auepora("run", "plan.yaml", "--preview")
    assert code == 0, err
    monkeypatch.setenv("NO_SUCH_KEY", "k" * 20)
    code, out, err = auepora("validate", "plan.yaml", "--load")
    assert code == 0, err
    assert "openai:gpt-4o-mini (gpt) of the panel belongs to the model family of the judged system" in out + err
    assert "no metric refers to c, d of the resources" in out + err
