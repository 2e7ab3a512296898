"""Runs judged by an endpoint: paid for once, within limits, however it fails; and its key is nowhere."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from auepora_eval.core.types import MetricResult
from auepora_eval.errors import AueporaWarning
from auepora_eval.runs.run import run_plan
from auepora_eval.store import RunStore
from helpers.judge_server import Asked, JudgeServer, Reply
from helpers.judged_project import judged_by_endpoint, parity, score_of
from helpers.user_project import Project

Cli = Callable[..., tuple[int, str, str]]
Make = Callable[[int], Project]


def truth(samples: int) -> float:
    return sum((score_of(number) - 1) / 4 for number in range(samples)) / samples


def judged(store: str = "runs.sqlite") -> MetricResult:
    with RunStore.open(store) as opened:
        return opened.result(opened.find("latest").run_id, "llm_faithfulness")


def test_rerun_rescore_and_preview_use_the_cache(project: Make, auepora: Cli) -> None:
    with JudgeServer(parity) as server:
        judged_by_endpoint(project, server.base_url, 8)
        code, out, _ = auepora("run", "plan.yaml", "--preview")
        assert code == 0
        assert "llm_faithfulness" in out
        assert "the system has not answered yet" in out
        assert not Path("calls.log").exists()
        assert server.asked == []
        assert auepora("run", "plan.yaml", "-q")[0] == 0
        assert len(server.asked) == 8
        first = judged()
        assert first.value == pytest.approx(truth(8))
        assert first.details["judging"]["calls"] == 8
        assert auepora("run", "plan.yaml", "-q")[0] == 0
        assert auepora("rescore", "latest", "-q")[0] == 0
        assert auepora("rescore", "latest", "-q", "--judge-cache-only")[0] == 0
        code, out, _ = auepora("rescore", "latest", "--preview", "--json")
        preview = json.loads(out)["metrics"]["llm_faithfulness"]
        assert (code, preview["judgements"], preview["cached"], preview["calls"]) == (0, 8, 8, 0)
        assert len(server.asked) == 8
        again = judged()
        assert (again.value, again.signature) == (first.value, first.signature)
        assert again.details["judging"]["cached"] == 8
        assert "8 judgements, 8 calls" in auepora("show", "latest~1")[1]
        assert Path("judgements.sqlite").exists()


def test_without_a_cache_every_judgement_is_requested_again(project: Make, auepora: Cli) -> None:
    with JudgeServer(parity) as server:
        judged_by_endpoint(project, server.base_url, 3, more="judge: {cache: false}\n")
        for _ in range(2):
            assert auepora("run", "plan.yaml", "-q")[0] == 0
        assert len(server.asked) == 6
        assert not Path("judgements.sqlite").exists()
        code, _, err = auepora("run", "plan.yaml", "-q", "--judge-cache-only")
        assert (code, "no cache to answer from" in err) == (2, True)


def test_cache_only_needs_neither_key_nor_server(project: Make, auepora: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JUDGE_KEY", raising=False)
    judged_by_endpoint(project, "https://judge.example/v1", 2, options=", api_key_env: JUDGE_KEY")
    code, _, err = auepora("run", "plan.yaml", "-q")
    assert code == 2
    assert "plan.yaml:8: resources.judge.openai.api_key_env: " in err
    assert "JUDGE_KEY" in err
    assert auepora("run", "plan.yaml", "--preview")[0] == 0
    code, _, err = auepora("run", "plan.yaml", "-q", "--judge-cache-only")
    assert code == 3
    assert re.search(r"^Error: .* has no scored sample \(failed: not_cached 2\)$", err, re.MULTILINE)
    assert judged().details["failed_not_cached"] == 2


def test_limits_hold_and_further_samples_are_not_measured(project: Make, auepora: Cli) -> None:
    with JudgeServer(parity) as server:
        judged_by_endpoint(
            project, server.base_url, 6, more="judge: {prices: {tiny: {prompt: 1000000, completion: 1000000}}}\n"
        )
        code, _, err = auepora("run", "plan.yaml", "--max-calls", "4")
        assert code == 0
        assert "budget" in err
        paid = len(server.asked)
        assert 1 <= paid <= 4  # a reservation for a repair may hold back a call
        result = judged()
        assert result.details["failed_budget_exhausted"] == 6 - paid
        low, high = result.details["bounds"]
        assert low <= truth(6) <= high
        # What was paid for is not paid for again, and the rest is judged.
        assert auepora("rescore", "latest", "-q")[0] == 0
        assert len(server.asked) == 6
        assert judged().value == pytest.approx(truth(6))
        assert judged().details["judging"]["cost"] > 0
        code, _, err = auepora("run", "plan.yaml", "--max-cost", "0", "--name", "poor")
        assert judged().details["judging"]["calls"] == 0


def test_judge_repeats_and_their_spread(project: Make, auepora: Cli) -> None:
    def changing(asked: Asked) -> dict[str, object]:
        return {"rationale": "", "score": 1 + 2 * (asked.body["seed"] % 2)}

    with JudgeServer(changing) as server:
        judged_by_endpoint(project, server.base_url, 3)
        assert auepora("run", "plan.yaml", "-q", "--judge-repeats", "2")[0] == 0
        assert len(server.asked) == 6
        result = judged()
        assert result.value == pytest.approx(0.25)
        assert "judge" in result.details
        with RunStore.open("runs.sqlite") as store:
            record = store.find("latest")
            assert [row.judge_repeat for row in store.judgements(record.run_id, position=1)] == [0, 1]
            assert record.plan["judge"]["repeats"] == 2
        code, _, err = auepora("run", "plan.yaml", "--resume", "--run", record.run_id)
        assert (code, "judge.repeats: 2 -> nothing" in err or "repeats" in err) == (2, True)


SAMPLES = 150
PASSING = {"429_wait": 0.06, "500": 0.04, "close": 0.02, "cut": 0.02, "truncated": 0.01}
STAYING = {"filter": 0.05, "refusal": 0.05, "prose": 0.05}


@pytest.mark.slow
def test_transient_faults_change_no_result_and_others_are_bounded(project: Make, auepora: Cli) -> None:
    values = {}
    for name, rates in (("none", {}), ("passing", PASSING), ("staying", STAYING), ("impatient", PASSING)):
        with JudgeServer(parity, rates=rates, seed=3) as server:
            patience = f"cache: false, backoff: 0.01, retries: {0 if name == 'impatient' else 6}"
            judged_by_endpoint(project, server.base_url, SAMPLES, more=f"judge: {{{patience}}}\n")
            assert auepora("run", "plan.yaml", "-q", "--name", name)[0] == 0
            assert sum(server.faults.values()) >= 0.08 * SAMPLES * bool(rates)
        values[name] = judged()
    whole = values["none"].value
    assert whole == pytest.approx(truth(SAMPLES))
    assert values["passing"].value == whole
    assert values["passing"].details["num_measure_failed"] == 0
    for name in ("staying", "impatient"):
        assert values[name].details["num_measure_failed"] >= 0.05 * SAMPLES
        low, high = values[name].details["bounds"]
        assert low < whole < high


KEY = "jk-94f1c07e5b2a8d36"


def test_api_key_is_never_stored_or_printed(
    project: Make, auepora: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Even if the server returns it in every reply."""
    monkeypatch.setenv("JUDGE_KEY", KEY)
    seen: list[str] = []

    def leak(asked: Asked) -> dict[str, object] | Reply:
        key = asked.headers["authorization"]
        seen.append(key)
        if asked.number % 3 == 1:
            return Reply(status=400, body={"error": {"message": f"you sent {key}", "code": key}})
        if asked.number % 3 == 2:
            return Reply(f"I will not judge. Your key is {key}")
        return {"rationale": f"your key is {key}", "score": 3}

    with JudgeServer(leak) as server:
        judged_by_endpoint(
            project, server.base_url, 9, options=", api_key_env: JUDGE_KEY, headers: {X-Again: '${JUDGE_KEY}'}"
        )
        calls = [auepora("run", "plan.yaml", "--per-query", "--json")]
        calls.append(auepora("show", "latest"))
        calls.append(auepora("show", "--failures"))
        calls += [auepora("show", "--sample", str(number), "--json") for number in range(9)]
        calls.append(auepora("rescore", "latest"))
        calls.append(auepora("export", "latest", "out"))
        calls.append(auepora("validate", "plan.yaml"))
    assert any(KEY in one for one in seen)
    assert calls[0][0] == 0
    for _, out, err in calls:
        assert KEY not in out
        assert KEY not in err
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"runs.sqlite", "judgements.sqlite", "judgements.jsonl"} <= {path.name for path in files}
    assert [path.name for path in files if KEY.encode() in path.read_bytes()] == []


@pytest.mark.slow
def test_ctrl_c_while_judging_keeps_paid_judgements(project: Make, auepora: Cli, tmp_path: Path) -> None:
    with JudgeServer(parity, latency=0.1, capacity=4) as server:
        judged_by_endpoint(project, server.base_url, 40, more="judge: {concurrency: 4}\n")
        command = [sys.executable, "-m", "auepora_eval", "run", "plan.yaml"]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
        )
        try:
            while len(server.asked) < 12 and process.poll() is None:
                time.sleep(0.02)  # until it is judging
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 130
        assert "To resume: auepora run plan.yaml --resume --run run_" in err
        before = len(server.asked)
        assert 12 <= before < 40
        assert auepora("run", "plan.yaml", "--resume", "-q")[0] == 0
        assert len(Path("calls.log").read_text().split()) == 40  # the system was not asked again
        assert len(server.asked) <= 40 + 4 + 4  # at most what was under way, or not yet written, is asked again
        assert judged().value == pytest.approx(truth(40))


def test_prefer_compares_two_stored_runs(project: Make, auepora: Cli) -> None:
    def sure(asked: Asked) -> dict[str, object]:
        text = asked.prompt
        return {"rationale": "", "verdict": "first" if text.index("surely") < text.index("the answer is") else "second"}

    with JudgeServer(parity) as server:
        judged_by_endpoint(project, server.base_url, 4)
        auepora("run", "plan.yaml", "-q", "--name", "one", "-m", "recall@5")
        system = Path("my_rag.py")
        system.write_text(system.read_text().replace("the answer is {n}", "surely " * 12 + "the answer is {n}"))
        del sys.modules["my_rag"]
        auepora("run", "plan.yaml", "-q", "--name", "two", "-m", "recall@5")
    with JudgeServer(sure) as server:
        chosen = ("--judge-model", "m", "--judge-url", server.base_url)
        code, out, err = auepora("prefer", "one", "two", *chosen, "--json")
        assert code == 0, err
        report = json.loads(out)
        assert (report["a"], report["b"], report["win_rate"], report["counts"]["b_wins"]) == ("one", "two", 1.0, 4)
        assert report["judging"]["calls"] == 8
        asked = len(server.asked)
        code, out, _ = auepora("prefer", "one", "two", *chosen)
        assert out.startswith("two against one")
        auepora("prefer", "one", "two", *chosen, "-o", "preference.md")
        assert Path("preference.md").read_text().startswith("# two against one")
        assert len(server.asked) == asked
        code, _, err = auepora("prefer", "one", "two", "--judge", "nobody")
        assert (code, "there is no resource 'nobody'" in err) == (2, True)


def test_score_with_a_judge_from_the_command_line_or_a_plan(project: Make, auepora: Cli) -> None:
    with JudgeServer(parity) as server:
        judged_by_endpoint(project, server.base_url, 4)
        auepora("run", "plan.yaml", "-q", "-m", "recall@5")
        auepora("export", "latest", "out")
        files = ("out/dataset.jsonl", "out/outputs.jsonl", "-m", "llm_faithfulness:scale=1-5")
        code, out, err = auepora("score", *files, "--judge-model", "tiny", "--judge-url", server.base_url, "--json")
        assert code == 0, err
        assert json.loads(out)["results"][0]["value"] == pytest.approx(truth(4))
        assert "judging: 4 judgements, 4 calls" in err
        code, out, _ = auepora("score", *files, "--plan", "plan.yaml", "--preview")
        assert code == 0
        assert len(server.asked) == 4
        code, out, _ = auepora("score", *files, "--plan", "plan.yaml", "--json")
        assert json.loads(out)["results"][0]["value"] == pytest.approx(truth(4))
        assert len(server.asked) == 4
        code, _, err = auepora("score", *files)
        assert (code, "needs a critic" in err, "--judge-model" in err) == (2, True, True)


def test_server_that_is_down_is_a_failed_measurement(project: Make, auepora: Cli) -> None:
    with JudgeServer(parity) as server:
        url = server.base_url
    judged_by_endpoint(project, url, 3, more="judge: {retries: 1, backoff: 0.01}\n")
    code, _, err = auepora("run", "plan.yaml")
    assert code == 3
    assert "gave no judgement (unreachable)" in err
    assert re.search(r"auepora show \S+ --failures .*shows why", err)
    result = judged()
    assert not result.defined
    assert result.details["failed_unreachable"] == 3
    with pytest.warns(AueporaWarning, match="unreachable"):
        run_plan("plan.yaml")
