"""Judging in a random order until a comparison or a threshold is decided, with a judge behind a real server."""

import json
import random
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auepora_eval import EvaluationSample
from auepora_eval.core.types import MetricResult
from auepora_eval.errors import AueporaError, AueporaWarning, BadValueError
from auepora_eval.runs.judging import judges_of_run
from auepora_eval.runs.run import RunCallbacks, run_plan
from auepora_eval.runs.scoring import rescore
from auepora_eval.runs.sequential import EarlyStopping, StopRequest, draw_units
from auepora_eval.store import RunStore
from auepora_eval.store.runs import decisions
from helpers.judge_server import FAULTS, Asked, JudgeServer

Cli = Callable[..., tuple[int, str, str]]
CORRECTNESS = "{llm_correctness: {critic: {use: judge}}}"
STOP = "judge: {stop: {metric: llm_correctness, against: base, delta: 0.05, looks: 5}}\n"


def continued() -> EarlyStopping:
    """The step that judges a stopped run to the end."""
    return EarlyStopping(StopRequest(proceed=True))


class JudgedRuns:
    """A folder with answers of two systems, judged by a server that counts requests by answer."""

    def __init__(self, folder: Path, server: JudgeServer | None = None) -> None:
        self.folder, self._server = folder, server

    @property
    def server(self) -> JudgeServer:
        assert self._server is not None
        return self._server

    def write(self, count: int, better: float = 0.5, *, clusters: int = 0) -> None:
        """Write samples and answers; ``better`` is the probability that the candidate corrects a wrong answer."""
        rng = random.Random(5)
        rows: list[dict[str, str]] = []
        answers: dict[str, list[dict[str, str]]] = {"base": [], "candidate": []}
        for n in range(count):
            cluster = {"cluster_id": f"c{n % clusters}"} if clusters else {}
            rows.append({"sample_id": f"q{n}", "query": f"what is {n}?", "reference_answer": f"it is {n}", **cluster})
            good = rng.random() < 0.5
            for name, right in (("base", good), ("candidate", good or rng.random() < better)):
                answers[name].append({"sample_id": f"q{n}", "response": f"{name} {n} {'right' if right else 'wrong'}"})
        for name, lines in {"data": rows, **answers}.items():
            (self.folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def plan(self, name: str, more: str = "", metrics: str = CORRECTNESS) -> str:
        """Write a plan for the answers of a system."""
        path = self.folder / f"{name}.yaml"
        url = "http://127.0.0.1:9/v1" if self._server is None else self._server.base_url
        judge = f"resources: {{judge: {{openai: {{model: tiny, base_url: '{url}'}}}}}}\n"
        path.write_text(
            f"name: {name}\ndataset: data.jsonl\noutputs: {name}.jsonl\nstore: runs.sqlite\n"
            f"metrics: [token_f1, {metrics}]\n{judge if 'judge' in metrics else ''}{more}"
        )
        return str(path)

    def run(self, name: str, more: str = "", **options: Any) -> MetricResult:
        """Run a plan; the result of the judge metric."""
        metrics = options.pop("metrics", CORRECTNESS)
        outcome = run_plan(self.plan(name, more, metrics), **options)
        assert outcome.results is not None
        return outcome.results.by_name["llm_correctness"]

    def asked(self, name: str) -> Counter[str]:
        """How often the judge was asked about each answer of a system."""
        found = (
            one.prompt.rsplit(f"{name} ", 1)[-1].split()[0] for one in self.server.asked if f"{name} " in one.prompt
        )
        return Counter(found)


def grade(asked: Asked) -> dict[str, object]:
    """Accepts what is called right."""
    number = "right" in asked.prompt.rsplit("what is", 1)[-1]
    return {"rationale": "read", "score": "correct" if number else "incorrect"}


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., JudgedRuns]]:
    """Makes the folder, with a server that answers in some way."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    servers: list[JudgeServer] = []

    def build(count: int = 40, better: float = 0.9, answer: Any = grade, **options: Any) -> JudgedRuns:
        servers.append(JudgeServer(answer).__enter__())
        found = JudgedRuns(tmp_path, servers[0])
        found.write(count, better, **options)
        return found

    yield build
    for one in servers:
        one.__exit__(None, None, None)


def sequential(result: MetricResult) -> dict[str, Any]:
    found: dict[str, Any] = result.details["sequential"]
    return found


def test_judging_stops_at_the_first_verdict(make: Callable[..., JudgedRuns]) -> None:
    recorded: list[int] = []

    def answer(asked: Asked) -> dict[str, object]:
        if "candidate" in asked.prompt and not recorded:
            with closing(sqlite3.connect("runs.sqlite")) as store:
                recorded.extend(store.execute("SELECT COUNT(*) FROM eval_decisions").fetchone())
        return grade(asked)

    runs = make(answer=answer)
    runs.run("base")
    looks: list[tuple[int, ...]] = []
    result = run_plan(runs.plan("candidate", STOP), watcher=RunCallbacks(look=lambda *one: looks.append(one))).results
    assert result is not None
    judged, f1 = result.by_name["llm_correctness"], result.by_name["token_f1"]
    found = sequential(judged)
    assert recorded == [1]  # the design was stored before the first call
    assert (found["verdict"], found["reason"], found["design"]["n"]) == ("better", "boundary", 40)
    assert found["stopped_at"] == found["units"] == found["judged"] == found["path"][-1]["units"] < 40
    assert looks == [(one["number"], len(found["design"]["looks"]), one["units"], 40) for one in found["path"]]
    assert runs.asked("candidate") == Counter({str(number): 1 for number in map(int, runs.asked("candidate"))})
    assert (found["calls"], found["calls_saved"]) == (found["judged"], 40 - found["judged"])
    assert sum(runs.asked("candidate").values()) == found["calls"]
    assert (judged.details["num_scored"], judged.details["skipped_not_judged"]) == (
        found["judged"],
        40 - found["judged"],
    )
    assert (f1.details["num_scored"], "sequential" in f1.details) == (40, False)
    with RunStore.open("runs.sqlite") as store:
        (one,) = decisions(store, kind="sequential")
        assert one.metrics == ("llm_correctness",)
        assert one.body["verdicts"] == {"llm_correctness": "better"}
        assert store.result(one.runs[0], "llm_correctness").details["sequential"] == found


def test_another_design_for_the_same_runs_is_refused(make: Callable[..., JudgedRuns], auepora: Cli) -> None:
    runs = make()
    runs.run("base")
    first = sequential(runs.run("candidate", STOP))
    count = len(runs.server.asked)
    for options, message in {
        ("candidate", "--until-decided", "base", "--delta", "0.05", "--stop-seed", "1"): "seed is 0, not 1",
        ("candidate", "--until-decided", "base", "--delta", "0.1"): "delta is 0.05, not 0.1",
        ("candidate", "--until-decided", "base", "--delta", "0.05", "--safe"): "safe is False, not True",
        ("base", "--until-decided", "candidate", "--delta", "0.05"): "run is run_",
    }.items():
        code, _, err = auepora("rescore", *options)
        assert (code, message in err) == (2, True), err
    code, out, _ = auepora("rescore", "candidate", "--until-decided", "base", "--delta", "0.05", "--json")
    assert code == 0
    again = next(one for one in json.loads(out)["results"] if one["name"] == "llm_correctness")
    assert again["details"]["sequential"] == first
    assert len(runs.server.asked) == count


def test_a_stopped_run_is_continued_in_the_same_order(make: Callable[..., JudgedRuns], auepora: Cli) -> None:
    runs = make()
    runs.run("base")
    first = sequential(runs.run("candidate", STOP))
    with RunStore.open("runs.sqlite") as store:
        record = store.find("candidate")
        whole = rescore(record, stopping=continued(), store=store).by_name["llm_correctness"]
        found = sequential(whole)
        assert (found["verdict"], found["stopped_at"], found["continued"]) == ("better", first["stopped_at"], True)
        assert found["path"][: len(first["path"])] == first["path"]
        assert (found["units"], found["calls"], found["calls_saved"]) == (40, 40, 0)
        assert whole.details["num_scored"] == 40
        assert whole.details["judging"]["calls"] == 40
        again = rescore(record, store=store).by_name["llm_correctness"]
        assert sequential(again) == found
        assert set(runs.asked("candidate").values()) == {1}
        assert len(list(store.judgements(record.run_id))) == 40
        with pytest.raises(BadValueError, match="has no sequential design that could be continued"):
            rescore(store.find("base"), stopping=continued(), store=store)
        with pytest.raises(BadValueError, match="calls a judge, so there is no judging to stop or to continue"):
            rescore(record, ["token_f1"], stopping=continued(), store=store)
        store.delete([store.find("base").run_id])
        with pytest.raises(BadValueError, match="is decided, and that run was deleted"):
            rescore(record, store=store)
    assert auepora("rescore", "candidate", "-q", "-m", "token_f1")[0] == 0


@pytest.mark.slow
def test_an_interrupted_run_resumes_with_the_same_order(make: Callable[..., JudgedRuns]) -> None:
    runs = make(better=0.3)
    runs.run("base")

    def interrupt(number: int, *_: int) -> None:
        if number == 2:
            raise KeyboardInterrupt

    plan = runs.plan("candidate", STOP)
    with pytest.raises(KeyboardInterrupt):
        run_plan(plan, watcher=RunCallbacks(look=interrupt))
    assert 0 < sum(runs.asked("candidate").values()) < 20
    (result,) = [one for one in run_plan(plan, resume=True).results or () if one.name == "llm_correctness"]
    found = sequential(result)
    assert len(found["path"]) > 1
    assert found["calls"] == sum(runs.asked("candidate").values()) == found["judged"]
    assert set(runs.asked("candidate").values()) == {1}


def test_a_baseline_without_scores_is_judged_in_pairs(make: Callable[..., JudgedRuns]) -> None:
    runs = make()
    run_plan(runs.plan("base", metrics="exact_match"))
    with pytest.warns(AueporaWarning, match="has no scores of llm_correctness by this judge"):
        found = sequential(runs.run("candidate", STOP))
    assert found["verdict"] == "better"
    assert runs.asked("base") == runs.asked("candidate")
    assert found["calls"] == 2 * found["judged"] == len(runs.server.asked)
    assert found["calls_saved"] == 2 * (40 - found["judged"])
    with RunStore.open("runs.sqlite") as store:
        base = store.result(store.find("base").run_id, "llm_correctness")
        assert base.details["num_scored"] == found["judged"]
        assert base.details["skipped_not_judged"] == 40 - found["judged"]


@pytest.mark.slow
def test_judgements_known_before_are_the_first_look(make: Callable[..., JudgedRuns]) -> None:
    runs = make()
    runs.run("base")
    runs.run("candidate")
    count = len(runs.server.asked)
    found = sequential(runs.run("candidate", STOP))
    assert (found["known_before"], found["design"]["looks"], found["calls"]) == (40, [40], 0)
    assert [one["units"] for one in found["path"]] == [40]
    assert len(runs.server.asked) == count


@pytest.mark.slow
def test_the_test_of_a_baseline_is_kept_when_it_is_judged_further(make: Callable[..., JudgedRuns]) -> None:
    runs = make()
    runs.run("base")
    first = sequential(runs.run("candidate", STOP))
    answers = (runs.folder / "candidate.jsonl").read_text().replace("candidate", "third")
    (runs.folder / "third.jsonl").write_text(answers)
    found = sequential(runs.run("third", STOP.replace("against: base", "against: candidate, futility: false")))
    assert first["judged"] < found["judged"] == found["units"] == 40
    with RunStore.open("runs.sqlite") as store:
        kept = store.result(store.find("candidate").run_id, "llm_correctness").details
    assert (kept["sequential"], kept["num_scored"], kept["judging"]["calls"]) == (first, 40, 40)
    assert set(runs.asked("candidate").values()) == {1}


def test_a_run_with_scores_is_not_judged_again(make: Callable[..., JudgedRuns], auepora: Cli) -> None:
    runs = make()
    for name in ("base", "candidate"):
        runs.run(name, "judge: {cache: false}\n")
    count = len(runs.server.asked)
    code, out, err = auepora("rescore", "candidate", "--until-decided", "base", "--delta", "0.05", "--json")
    assert code == 0, err
    found = next(one for one in json.loads(out)["results"] if one["name"] == "llm_correctness")["details"]
    assert (found["num_scored"], found["sequential"]["known_before"], found["sequential"]["calls"]) == (40, 40, 0)
    assert len(runs.server.asked) == count


@pytest.mark.slow
def test_failed_judgements_are_requested_again_before_a_look(make: Callable[..., JudgedRuns]) -> None:
    def answer(asked: Asked) -> Any:
        if "candidate 33 " in asked.prompt or ("7 " in asked.prompt.rsplit("candidate", 1)[-1][:4] and not asked.time):
            return FAULTS["filter_400"]
        return grade(asked)

    runs = make(answer=answer)
    runs.run("base")
    with pytest.warns(AueporaWarning, match="gave no judgement"):
        result = runs.run("candidate", STOP.replace("delta: 0.05", "stop_on: [worse], futility: false"))
    found = sequential(result)
    assert (found["verdict"], found["reason"], found["units"], found["failed"]) == ("better", "boundary", 40, 1)
    assert (result.details["num_scored"], result.details["num_measure_failed"]) == (39, 1)


@pytest.mark.slow
def test_failed_judgements_of_a_baseline_beyond_the_stop_stay_failed(make: Callable[..., JudgedRuns]) -> None:
    order = [int(unit[0]) for unit in draw_units([EvaluationSample(f"q{n}", "?") for n in range(40)], 0)]
    failing = {f"base {order[0]} ": 1, f"base {order[-1]} ": 9}

    def answer(asked: Asked) -> Any:
        for text, times in failing.items():
            if text in asked.prompt and times:
                failing[text] -= 1
                return FAULTS["filter_400"]
        return grade(asked)

    runs = make(answer=answer)
    with pytest.warns(AueporaWarning, match="gave no judgement"):
        assert runs.run("base").details["num_measure_failed"] == 2
    found = sequential(runs.run("candidate", STOP))
    assert found["stopped_at"] < 40
    with RunStore.open("runs.sqlite") as store:
        base = store.result(store.find("base").run_id, "llm_correctness").details
    assert (base["num_scored"], base["num_measure_failed"], "skipped_not_judged" in base) == (39, 1, False)


@pytest.mark.slow
def test_a_failure_within_a_cluster_counts(make: Callable[..., JudgedRuns]) -> None:
    order = [int(unit[0]) for unit in draw_units([EvaluationSample(f"q{n}", "?") for n in range(15)], 0)]
    failing = [f"candidate {n} " for n in order[:3]]

    def answer(asked: Asked) -> Any:
        return FAULTS["filter_400"] if any(one in asked.prompt for one in failing) else grade(asked)

    runs = make(30, 1.0, answer, clusters=15)
    runs.run("base")
    with pytest.warns(AueporaWarning, match="gave no judgement"):
        found = sequential(runs.run("candidate", STOP))
    assert (found["failed"], found["design"]["n"]) == (3, 15)


@pytest.mark.slow
def test_a_rescored_run_stops_at_the_verdict_after_failures(make: Callable[..., JudgedRuns], auepora: Cli) -> None:
    runs = make()
    runs.run("base")
    with pytest.warns(AueporaWarning):
        runs.run("candidate", "judge: {max_calls: 1}\n")
    options = ("--until-decided", "base", "--delta", "0.05", "--max-calls", "5")
    code, _, err = auepora("rescore", "candidate", *options)
    assert (code, "judging ended before look 1 of" in err) == (0, True)
    code, out, _ = auepora("rescore", "candidate", "--max-calls", "100", "--json")
    found = next(one for one in json.loads(out)["results"] if one["name"] == "llm_correctness")["details"]["sequential"]
    assert (code, found["verdict"], found["known_before"]) == (0, "better", 1)
    assert sum(runs.asked("candidate").values()) == found["judged"] < 40


@pytest.mark.slow
def test_a_judge_that_fails_ends_judging_without_a_verdict(make: Callable[..., JudgedRuns]) -> None:
    runs = make()
    runs.run("base")
    stop = STOP.replace("judge: {", "judge: {max_calls: 10, ")
    with pytest.warns(AueporaWarning) as warned:
        result = runs.run("candidate", stop)
    assert any("judging ended before look 1 of 4: the judge gave no judgement on" in str(one.message) for one in warned)
    found = sequential(result)
    assert (found["verdict"], found["reason"], found["path"], found["calls"]) == ("inconclusive", None, [], 10)
    with RunStore.open("runs.sqlite") as store:
        record = store.find("candidate")
        judges = judges_of_run(store, record, record.plan["metrics"], changes={"judge.max_calls": 100})
        again = rescore(record, judges=judges, store=store).by_name["llm_correctness"]
    assert sequential(again)["verdict"] == "better"
    assert set(runs.asked("candidate").values()) == {1}


def test_a_judge_that_fails_for_good_on_the_first_answers_does_not_end_judging(
    make: Callable[..., JudgedRuns],
) -> None:
    """Seven of the first twelve answers have no judgement: the verdict holds with any score of them."""
    order = [int(unit[0]) for unit in draw_units([EvaluationSample(f"q{n}", "?") for n in range(60)], 0)]
    failing = [f"candidate {n} " for n in order[:7]]

    def answer(asked: Asked) -> Any:
        return FAULTS["filter_400"] if any(text in asked.prompt for text in failing) else grade(asked)

    runs = make(60, 1.0, answer)
    runs.run("base")
    with pytest.warns(AueporaWarning, match="gave no judgement"):
        found = sequential(runs.run("candidate", STOP.replace("looks: 5", "looks: 20")))
    assert (found["verdict"], found["reason"], found["failed"]) == ("better", "boundary", 7)
    assert found["path"][0]["units"] == 12
    assert found["stopped_at"] < 60
    # Units that were not asked: one call each.
    assert found["calls_saved"] == 60 - found["units"]


def test_a_plan_with_another_seed_is_refused(make: Callable[..., JudgedRuns], auepora: Cli) -> None:
    runs = make()
    runs.run("base")
    runs.run("candidate", STOP)
    other = runs.plan("candidate", STOP.replace("looks: 5", "looks: 5, seed: 1"))
    for options in ((), ("--continue-judging",)):
        code, _, err = auepora("rescore", "candidate", "--plan", other, *options)
        assert (code, "seed is 0, not 1" in err) == (2, True), err
    assert auepora("rescore", "candidate", "--plan", runs.plan("candidate", STOP))[0] == 0


@pytest.mark.slow
def test_clusters_are_units(make: Callable[..., JudgedRuns]) -> None:
    runs = make(120, clusters=40)
    runs.run("base")
    found = sequential(runs.run("candidate", STOP))
    assert found["design"]["n"] == 40
    assert found["judged"] == 3 * found["units"]
    assert found["verdict"] == "better"


@pytest.mark.slow
def test_repeats_are_means_of_a_sample(make: Callable[..., JudgedRuns]) -> None:
    runs = make()
    runs.folder.joinpath("echo_rag.py").write_text(
        "import json\nfrom pathlib import Path\nfrom auepora_eval import Response, SystemOutputs\n\n"
        "lines = Path('candidate.jsonl').read_text().splitlines()\n"
        "rows = {one['sample_id']: one['response'] for one in map(json.loads, lines)}\n\n\n"
        "class Rag:\n    def run(self, sample, *, top_k=5):\n"
        "        return SystemOutputs([], Response(rows[sample.sample_id]))\n"
    )
    runs.run("base")
    path = Path(runs.plan("candidate", STOP + "run: {repeats: 2}\n"))
    path.write_text(path.read_text().replace("outputs: candidate.jsonl", "system: {python: 'echo_rag:Rag'}"))
    results = run_plan(path).results
    sys.modules.pop("echo_rag")
    assert results is not None
    found = sequential(results.by_name["llm_correctness"])
    assert (found["verdict"], found["units"]) == ("better", found["judged"])


@pytest.mark.slow
def test_a_threshold_instead_of_a_run(make: Callable[..., JudgedRuns]) -> None:
    runs = make(better=1.0)
    found = sequential(runs.run("candidate", "judge: {stop: {threshold: 0.4}}\n"))
    assert (found["design"]["method"], found["design"]["threshold"], found["against"]) == ("betting", 0.4, None)
    assert found["verdict"] == "pass"
    assert found["judged"] < 40


@pytest.mark.slow
@pytest.mark.parametrize("repeats", [1, 2], ids=["0/1 scores", "means of repeats"])
def test_a_threshold_for_0_1_scores_and_for_means(make: Callable[..., JudgedRuns], repeats: int) -> None:
    def answer(asked: Asked) -> dict[str, object]:
        met = not asked.time or not asked.number % 3
        return {"verdicts": [{"number": 1, "why": "read", "verdict": "met" if met else "not met"}]}

    runs = make(answer=answer)
    rubric = {"labels": {"rubric": [{"item": "names the number", "weight": 1, "required": True}]}}
    data = runs.folder / "data.jsonl"
    rows = [json.dumps({**json.loads(line), **rubric}) for line in data.read_text().splitlines()]
    data.write_text("\n".join(rows))
    stop = f"judge: {{repeats: {repeats}, stop: {{threshold: 0.3}}}}\n"
    outcome = run_plan(runs.plan("candidate", stop, "{rubric_required: {critic: {use: judge}}}"))
    assert outcome.results is not None
    found = sequential(outcome.results.by_name["rubric_required"])
    assert (found["design"]["binary"], found["verdict"]) == (repeats == 1, "pass")


@pytest.mark.slow
def test_several_metrics(make: Callable[..., JudgedRuns]) -> None:
    def answer(asked: Asked) -> dict[str, object]:
        return {"rationale": "read", "score": "correct"} if "at most 10 %" in asked.prompt else grade(asked)

    runs = make(answer=answer)
    second = "{llm_correctness: {critic: {use: judge}, tolerance: 0.1, as: tolerant}}"
    both = f"{CORRECTNESS}, {second}"
    runs.run("base", metrics=both)
    stop = STOP.replace("metric: llm_correctness", "metric: [llm_correctness, tolerant]")
    found = sequential(runs.run("candidate", stop, metrics=both))
    assert (found["design"]["tests"], found["claim"]) == (2, "each")
    assert (found["stopped_at"] < found["units"], found["continued"]) == (True, False)
    with RunStore.open("runs.sqlite") as store:
        record = store.find("candidate")
        other = sequential(store.result(record.run_id, "tolerant"))
        assert max(found["stopped_at"], other["stopped_at"]) == found["units"] == other["units"]
    together = sequential(runs.run("candidate", stop.replace("delta", "claim: all, delta"), metrics=both))
    assert (together["design"]["tests"], together["claim"]) == (1, "all")


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> JudgedRuns:
    """A store with a run to compare with, and one on other samples; the judge is never called."""
    folder = tmp_path_factory.mktemp("refusing")
    runs = JudgedRuns(folder)
    for count, name in ((6, "small"), (12, "base")):
        runs.write(count)
        run_plan(runs.plan("base", metrics="exact_match"), changes={"name": name})
    return runs


@pytest.mark.parametrize(
    ("stop", "message"),
    [
        pytest.param("metric: token_f1, against: base", "'token_f1' is not among the metrics that call", id="no judge"),
        pytest.param("metric: llm_corectness, against: base", "did you mean 'llm_correctness'", id="misspelt metric"),
        pytest.param("against: nobody", "no run is called 'nobody'", id="unknown run"),
        pytest.param("against: small", "was made on other samples", id="other samples"),
        pytest.param("against: base, delta: 2.0", "delta must be positive and below", id="delta beyond the range"),
        pytest.param("against: base, delta: -1", "delta: must be a number > 0", id="negative delta"),
        pytest.param("threshold: 1.5", "threshold must lie between 0 and 1", id="threshold beyond the range"),
        pytest.param("threshold: 0.5, delta: 0.1", "delta: goes with 'against'", id="delta with threshold"),
        pytest.param("against: base, stop_on: [equal]", "delta: is missing", id="equal without delta"),
        pytest.param("delta: 0.1", "name the run to compare with, or give 'threshold", id="nothing to decide"),
    ],
)
def test_refused_settings(refusing: JudgedRuns, monkeypatch: pytest.MonkeyPatch, stop: str, message: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with pytest.raises(AueporaError, match=message):
        run_plan(refusing.plan("candidate", f"judge: {{stop: {{{stop}}}}}\n"))
    with RunStore.open(refusing.folder / "runs.sqlite") as store:
        assert len(store.runs()) == 2


@pytest.mark.slow
def test_options_and_preview(make: Callable[..., JudgedRuns], auepora: Cli) -> None:
    runs = make(40)
    runs.run("base")
    plan = runs.plan("candidate")
    code, _, err = auepora("run", plan, "--delta", "0.05")
    assert (code, "go with --until-decided" in err) == (2, True)
    count = len(runs.server.asked)
    code, out, _ = auepora("run", plan, "--until-decided", "base", "--delta", "0.1", "--preview", "--json")
    assert code == 0
    assert "Early stopping: at most 40 calls, in 16 looks. Expected: " in json.loads(out)["remarks"][-1]
    assert len(runs.server.asked) == count
    code, out, err = auepora("run", plan, "--until-decided", "base", "--delta", "0.1", "--safe", "--json")
    assert code == 0, err
    found = next(one for one in json.loads(out)["results"] if one["name"] == "llm_correctness")
    assert found["details"]["sequential"]["design"]["method"] == "betting"


def test_the_order_depends_on_the_seed_and_the_clusters() -> None:
    samples = [EvaluationSample(f"q{n}", "?", cluster_id=f"c{n // 2}") for n in range(10)]
    units = draw_units(samples, 0)
    assert sorted(np.concatenate(units).tolist()) == list(range(10))
    assert all(unit.tolist() == [unit[0], unit[0] + 1] for unit in units)
    assert [unit[0] for unit in draw_units(samples, 0)] == [unit[0] for unit in units]
    assert [unit[0] for unit in draw_units(samples, 1)] != [unit[0] for unit in units]


def test_a_judge_that_fails_on_all_of_few_answers_can_be_asked_again(make: Callable[..., JudgedRuns]) -> None:
    """Below 50 units failures end nothing: all looks are made, without a verdict, and later judgements count."""
    is_down = [True]

    def answer(asked: Asked) -> Any:
        return FAULTS["filter_400"] if is_down[0] and "candidate" in asked.prompt else grade(asked)

    runs = make(answer=answer)
    runs.run("base")
    with pytest.warns(AueporaWarning, match="gave no judgement|failed"):
        found = sequential(runs.run("candidate", STOP))
    assert (found["verdict"], found["failed"]) == ("inconclusive", found["units"])
    is_down.clear()
    is_down.append(False)
    with RunStore.open("runs.sqlite") as store:
        again = rescore(store.find("candidate"), store=store).by_name["llm_correctness"]
    assert (sequential(again)["verdict"], sequential(again)["failed"]) == ("better", 0)
