"""Two-stage judging: a cheap judge on all samples, an expensive one on a draw of them."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from auepora_eval.core.types import EvaluationSample, MetricResult
from auepora_eval.runs.scoring import rescore
from auepora_eval.store import RunStore
from helpers.judge_server import FAULTS, Asked, JudgeServer, Reply
from helpers.user_project import Project

Cli = Callable[..., tuple[int, str, str]]
Make = Callable[[int], Project]

SAMPLES = 60
METRIC = "llm_faithfulness"
JUDGES = "cheap: {use: small}, expensive: {use: large}"
TWO_STAGE = f"{JUDGES}, budget: 20"


def number_of(asked: Asked) -> int:
    return int(asked.prompt.split("the answer is ")[1].split()[0].strip(".\"'"))


def large_score(number: int) -> int:
    return int(number % 10 < 6)


def judge(asked: Asked) -> dict[str, object]:
    """The large judge is right; the small one errs in one of eight answers."""
    number = number_of(asked)
    right = large_score(number)
    return {"rationale": "", "score": right if asked.body["model"] == "large" or number % 8 else 1 - right}


def write_plan(project: Project, url: str, *, two_stage: str = TWO_STAGE) -> Path:
    resources = ", ".join(f"{name}: {{openai: {{model: {name}, base_url: '{url}'}}}}" for name in ("small", "large"))
    path = project.folder / "plan.yaml"
    path.write_text(
        "name: nightly\n"
        "dataset: {jsonl: data.jsonl}\n"
        'system: {python: "my_rag:Rag"}\n'
        f"resources: {{{resources}}}\n"
        f"metrics: [token_f1, {{{METRIC}: {{critic: {{use: large}}}}}}]\n"
        "slices: [labels.parity]\n"
        f"judge: {{{two_stage}}}\n"
        "store: runs.sqlite\n"
    )
    return path


def write_better_system(project: Project) -> None:
    """A system that the large judge accepts in 80 % of samples, not 60 %."""
    text = (project.folder / "my_rag.py").read_text()
    better = text.replace("the answer is {n}", "the answer is {n if n % 10 < 6 or n % 10 > 7 else n - 5}")
    (project.folder / "better_rag.py").write_text(better)
    path = project.folder / "plan.yaml"
    path.write_text(path.read_text().replace("my_rag:Rag", "better_rag:Rag"))


def stored(run: str = "latest", name: str = METRIC) -> MetricResult:
    with RunStore.open("runs.sqlite") as opened:
        return opened.result(opened.find(run).run_id, name)


def calls(server: JudgeServer) -> Counter[str]:
    return Counter(one.body["model"] for one in server.asked)


def test_expensive_judge_scores_the_draw_and_the_mean_is_corrected(project: Make, auepora: Cli) -> None:
    with JudgeServer(judge) as server:
        write_plan(project(SAMPLES), server.base_url)
        code, _, err = auepora("run", "plan.yaml", "-q", "--all")
        assert code == 0, err
        assert calls(server) == {"small": SAMPLES, "large": 20}
        before = stored()
        code, out, err = auepora("rescore", "latest", "-q", "--json")
        assert code == 0, err
        assert calls(server) == {"small": SAMPLES, "large": 20}
    result, cheap = stored(), stored(name=f"{METRIC}[small]")
    assert (result.value, result.interval) == (before.value, before.interval)
    assert {one["name"]: one["value"] for one in json.loads(out)["results"]}[METRIC] == result.value
    details = result.details["two_stage"]
    assert details["draw"] == before.details["two_stage"]["draw"]
    truth = sum(map(large_score, range(SAMPLES))) / SAMPLES
    assert result.interval is not None
    assert result.interval[0] <= truth <= result.interval[1]
    assert result.value == details["value"]
    assert details["cheap"]["value"] == pytest.approx(cheap.value)
    assert (details["samples"], details["drawn"], details["judged"], details["failed"]) == (SAMPLES, 20, 20, 0)
    assert result.details["skipped_not_judged"] == SAMPLES - 20
    assert details["target"] == "what 'large' would say of answers like these"
    assert details["these"]["target"] == f"what 'large' would say of these {SAMPLES} answers"
    low, high = details["these"]["interval"]
    assert low <= truth <= high
    assert high - low < result.interval[1] - result.interval[0]
    draw = details["draw"]
    assert sum(draw["allocation"]) == len(draw["drawn"]) == len(set(draw["drawn"])) == 20
    assert sum(draw["sizes"]) == SAMPLES
    assert len(details["predictions"]) == SAMPLES
    odd = result.slices["labels.parity"]["odd"].details["two_stage"]
    shown = auepora("show", "latest", "--all")[1]
    for text in ("two-stage: 'large' judged 20 of 60 samples", "expensive judge alone", "cheap scores alone"):
        assert text in shown
    assert "what 'large' would say of these 60 answers" in auepora("explain", "latest", METRIC)[1]
    assert auepora("report", "latest", "-o", "report.html")[0] == 0
    assert "Two-stage judging" in Path("report.html").read_text()
    assert odd["judged"] + result.slices["labels.parity"]["even"].details["two_stage"]["judged"] == 20


@pytest.mark.slow
def test_preview_has_a_forecast_and_labels_correct_to_another_target(project: Make, auepora: Cli) -> None:
    with JudgeServer(judge) as server:
        write_plan(project(SAMPLES), server.base_url)
        code, out, err = auepora("run", "plan.yaml", "--preview")
        assert code == 0, err
        assert "'large' judges 20 of 60 samples, and llm_faithfulness[small] scores all. A forecast needs" in out
        assert server.asked == []
        assert auepora("run", "plan.yaml", "-q")[0] == 0
        for command in (("run", "plan.yaml"), ("rescore", "latest")):
            found = json.loads(auepora(*command, "--preview", "--json")[1])
            stage = found["two_stage"][METRIC]
            assert (stage["drawn"], stage["samples"]) == (20, SAMPLES)
            assert 0 < stage["forecast"]["half_width"] < stage["forecast"]["labels_half_width"]
            assert found["metrics"][METRIC]["judgements"] == 20
            assert found["metrics"][f"{METRIC}[small]"]["judgements"] == SAMPLES
        assert "(half the width of the 95 % interval), as with" in auepora("rescore", "latest", "--preview")[1]
    labels = [{"sample_id": str(n), "label": large_score(n), "annotator": "ann"} for n in range(SAMPLES)]
    Path("labels.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in labels))
    code, out, err = auepora("judge", "calibrate", "latest", "-m", METRIC, "--labels", "labels.jsonl", "--json")
    assert code == 0, err
    found = json.loads(out)["judged"][0]
    assert found["corrected"]["samples"] == SAMPLES
    assert found["corrected"]["value"] == pytest.approx(sum(map(large_score, range(SAMPLES))) / SAMPLES)
    notes = "; ".join(found["notes"])
    assert "labels correct them to what people would say of all answers" in notes
    assert "two-stage judging corrects them to what 'large' would say of answers like these: 0." in notes


def test_all_samples_drawn_gives_the_plain_mean(project: Make, auepora: Cli) -> None:
    with JudgeServer(judge) as server:
        write_plan(
            project(30), server.base_url, two_stage="cheap: {metric: token_f1}, expensive: {use: large}, budget: 100"
        )
        assert auepora("run", "plan.yaml", "-q")[0] == 0
        assert calls(server) == {"large": 30}
    result = stored()
    assert result.value == pytest.approx(sum(map(large_score, range(30))) / 30)
    assert result.details["two_stage"]["these"]["interval"] == pytest.approx([result.value] * 2)


@pytest.mark.slow
def test_runs_are_compared_by_the_corrected_difference(project: Make, auepora: Cli) -> None:
    with JudgeServer(judge) as server:
        made = project(SAMPLES)
        path = write_plan(made, server.base_url, two_stage=f"{JUDGES}, budget: 40")
        assert auepora("run", "plan.yaml", "-q", "--name", "a")[0] == 0
        write_better_system(made)
        with RunStore.open("runs.sqlite") as opened:
            for _ in range(60):  # later runs do not hide the draw
                opened.create_run("other", [EvaluationSample("1", "Is it?")], dataset_name="other", plan={})
        assert auepora("run", "plan.yaml", "-q", "--name", "b")[0] == 0
        path.write_text(path.read_text().replace("budget: 40", "budget: 40, seed: 1"))
        code, _, err = auepora("run", "plan.yaml", "-q", "--name", "c")
        assert code == 2
        assert "with seed 0, not 1; all runs use the same draw" in err
        with RunStore.open("runs.sqlite") as opened:
            assert opened.counts(opened.find("c").run_id) == (0, 0)
        path.write_text(path.read_text().replace("seed: 1", "seed: 0"))
        assert auepora("run", "plan.yaml", "-q", "--name", "d")[0] == 0
    code, out, err = auepora("compare", "a", "b", "--json")
    assert code == 0, err
    one = json.loads(out)["deltas"]["metrics"][METRIC]
    first, second = stored("a"), stored("b")
    assert first.details["two_stage"]["draw"] == second.details["two_stage"]["draw"]
    assert (one["a"], one["b"]) == (first.value, second.value)
    low, high = one["interval"]
    assert low <= 0.2 <= high
    assert (one["verdict"], one["p_value"] < 0.05, low > 0) in (("better", True, True), ("inconclusive", False, False))
    assert one["two_stage"]["judged"] == one["n"] == 40
    assert one["two_stage"]["samples"] == SAMPLES
    assert one["two_stage"]["target"] == "the difference in what 'large' would say of answers like these"
    text = auepora("compare", "a", "b", "--all")[1]
    assert "two-stage judging: what 'large' would say of answers like these, by 40 of 60 samples" in text
    assert "p-value is multiplied by 3, the number of comparisons" in text
    assert "the others share 5 %, so that any verdict is wrong in up to 6.7% of cases" in text
    text = auepora("compare", "a", "b", "-m", METRIC, "--all")[1]
    assert f"Over the {SAMPLES} samples" in text
    assert "is multiplied by" not in text
    board = json.loads(auepora("compare", "a", "b", "d", "-m", METRIC, "--json")[1])["metrics"][METRIC]
    assert board["values"] == [first.value, second.value, second.value]
    assert first.interval is not None
    code, out, err = auepora("gate", "a", "-g", f"low({METRIC}) >= {first.interval[0] - 0.01}")
    assert (code, err) == (0, "")
    assert "two-stage: 'large' judged 40 of 60 samples" in out


def test_failed_judgements_reduce_the_draw_and_failed_answers_count(project: Make, auepora: Cli) -> None:
    def failing(asked: Asked) -> dict[str, object] | Reply:
        refused = asked.body["model"] == "large" and number_of(asked) % 7 == 0
        return FAULTS["refusal"] if refused else judge(asked)

    with JudgeServer(failing) as server:
        path = write_plan(project(SAMPLES), server.base_url, two_stage=f"{JUDGES}, budget: 40")
        broken = 'my_rag:Rag", args: {broken: ["1", "2", "3", "4"]}}'
        path.write_text(path.read_text().replace('my_rag:Rag"}', broken))
        assert auepora("run", "plan.yaml", "-q", "--all")[0] == 0
    details = stored().details["two_stage"]
    assert (details["system_failures"], details["samples"]) == (4, SAMPLES)
    assert details["cheap"]["value"] == pytest.approx(stored(name=f"{METRIC}[small]").value)
    assert "judged and 4 failed answers, weighted by the draw" in auepora("show", "latest", "--all")[1]
    assert details["failed"] > 0
    assert 36 - details["failed"] <= details["judged"] <= 40 - details["failed"]
    assert details["interval"] is not None


@pytest.mark.slow
def test_history_calibrates_the_draw_of_other_samples(project: Make, auepora: Cli) -> None:
    with JudgeServer(judge) as server:
        write_plan(project(SAMPLES), server.base_url, two_stage=f"{JUDGES}, budget: 60")
        assert auepora("run", "plan.yaml", "-q", "--name", "earlier")[0] == 0
        first = stored().details["two_stage"]
        assert (first["history"], first["calibration"]) == (None, "cross-fitting")
        write_plan(project(30), server.base_url)
        assert auepora("run", "plan.yaml", "-q", "--name", "later")[0] == 0
    details = stored("later").details["two_stage"]
    with RunStore.open("runs.sqlite") as opened:
        assert details["history"] == opened.find("earlier").run_id
        assert details["calibration"] == "history"
        assert details["draw"]["features"] == [f"{METRIC}[small]", "token_f1"]
        rescore(opened.find("later"), [{METRIC: {"critic": {"use": "large"}}}], store=opened)
        again = stored("later").details["two_stage"]
    assert (again["draw"], again["calibration"]) == (details["draw"], "none")  # without the scores of all features


@pytest.mark.slow
def test_budget_in_money(project: Make, auepora: Cli) -> None:
    price = "prices: {large: {prompt: 1000, completion: 1000}, small: {prompt: 1, completion: 1}}"
    plan = f"cheap: {{use: small}}, expensive: {{use: large}}, {price}, budget_cost: "
    with JudgeServer(judge) as server:
        write_plan(project(SAMPLES), server.base_url, two_stage=f"{plan}8")
        code, _, err = auepora("run", "plan.yaml", "-q")
        assert code == 0, err
        assert 10 <= calls(server)["large"] < SAMPLES
        write_plan(project(SAMPLES), server.base_url, two_stage=f"{plan}0.5")
        code, _, err = auepora("run", "plan.yaml", "-q", "--name", "poor")
        assert (code, "samples by 'llm_faithfulness', and at least 10 are needed" in err) == (2, True)


def test_budget_in_money_pays_for_all_judgements_of_a_sample(project: Make, auepora: Cli) -> None:
    def drawn(further: str = "") -> int:
        prices = "prices: {large: {prompt: 100, completion: 100}}, budget_cost: 15"
        write_plan(project(SAMPLES), "http://127.0.0.1:9", two_stage=f"{JUDGES}, {prices}{further}")
        code, out, err = auepora("run", "plan.yaml", "--preview", "--json")
        assert code == 0, err
        return int(json.loads(out)["two_stage"][METRIC]["drawn"])

    assert drawn() // 3 == drawn(", repeats: 3") >= 10
    assert drawn(", controls: 5") == drawn()


@pytest.mark.slow
@pytest.mark.parametrize("model", ["large", "small"])
def test_a_run_whose_judge_was_down_is_completed(project: Make, auepora: Cli, model: str) -> None:
    down = True

    def answer(asked: Asked) -> dict[str, object] | Reply:
        return FAULTS["500"] if down and asked.body["model"] == model else judge(asked)

    with JudgeServer(answer) as server:
        write_plan(project(SAMPLES), server.base_url, two_stage=f"{TWO_STAGE}, retries: 0")
        code, _, err = auepora("run", "plan.yaml", "-q")
        assert (code, f"{METRIC} has no scored sample" in err) == (3, True)
        before = stored()
        assert not before.defined
        assert ("two_stage" in before.details) == (model == "large")  # no draw without cheap scores
        asked = calls(server)
        down = False
        assert auepora("rescore", "latest", "-q")[0] == 0
        if model == "large":
            assert calls(server)["small"] == SAMPLES
            assert stored().details["two_stage"]["draw"] == before.details["two_stage"]["draw"]
        else:
            assert (asked["large"], calls(server)["large"]) == (0, 20)
    assert stored().details["two_stage"]["judged"] == 20


def test_an_interrupted_rescore_keeps_the_result(project: Make, auepora: Cli) -> None:
    def interrupt(done: int, requested: int, failed: int) -> None:
        if done > SAMPLES:
            raise KeyboardInterrupt

    with JudgeServer(judge) as server:
        write_plan(project(SAMPLES), server.base_url)
        assert auepora("run", "plan.yaml", "-q")[0] == 0
        before = stored()
        with RunStore.open("runs.sqlite") as opened, pytest.raises(KeyboardInterrupt):
            rescore(opened.find("latest"), judge_progress=lambda: interrupt, store=opened)
    assert (stored().value, stored().details) == (before.value, before.details)
