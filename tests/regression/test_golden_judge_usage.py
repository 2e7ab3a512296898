"""What judging takes: usage, budgets and previews."""

import json
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import JudgePolicy, JudgeSession, evaluate
from auepora_eval.errors import AueporaWarning, JudgeError
from auepora_eval.judge.critic import Judgement, JudgeRequest, Price, Usage
from helpers.golden import GOLDEN, check_golden, check_golden_text
from helpers.golden_judge import Answers, judge_metric, outputs, samples

Cli = Callable[..., tuple[int, str, str]]
PRICES = {"golden-1": Price(2.0, 10.0)}


class Flaky(Answers):
    """Busy at the first call of each request, and every second judgement is repaired."""

    calls_at_most = 2

    async def judge(self, request: JudgeRequest) -> Judgement:
        first = not any(one.prompt == request.prompt for one in self.asked)
        made = await super().judge(request)
        if first:
            raise JudgeError("rate_limited", "busy", retry=True)
        repaired = request.may_repair and len(self.asked) % 4 == 0
        return Judgement(made.answer, Usage(200, 40) if repaired else made.usage, made.raw, repaired=repaired)


class Limited(Answers):
    """Sets its own limit of tokens, and counts none."""

    max_tokens = 300

    async def judge(self, request: JudgeRequest) -> Judgement:
        made = await super().judge(request)
        return Judgement(made.answer, Usage(), made.raw)


class Wordy(Answers):
    """Fails after it has written something."""

    async def judge(self, request: JudgeRequest) -> Judgement:
        await super().judge(request)
        raise JudgeError("cut_off", "too long", raw="x" * 3000, tokens=(100, 2048))


CASES: dict[str, tuple[type[Answers], dict[str, Any]]] = {
    "no prices": (Answers, {}),
    "prices": (Answers, {"prices": PRICES}),
    "three repeats": (Answers, {"repeats": 3, "prices": PRICES}),
    "max_calls": (Answers, {"max_calls": 5}),
    "no calls": (Answers, {"max_calls": 0}),
    "max_tokens": (Answers, {"max_tokens": 1800}),
    "max_cost": (Answers, {"max_cost": 0.004, "prices": PRICES}),
    "retries and repairs": (Flaky, {"backoff": 0, "prices": PRICES}),
    "retries and repairs, max_calls": (Flaky, {"backoff": 0, "max_calls": 7}),
    "own limit of tokens": (Limited, {"max_tokens": 3000, "prices": PRICES}),
    "failures that cost": (Wordy, {"max_cost": 0.1, "prices": PRICES}),
}
METRICS = ("llm_faithfulness", "claim_precision", "claim_recall")


def test_usage_and_budgets() -> None:
    found: dict[str, Any] = {}
    for name, (make, options) in CASES.items():
        critic, records = make(), list[Any]()
        session = JudgeSession(JudgePolicy(concurrency=1, **options), on_record=records.append)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            results = evaluate(samples(), outputs(), [judge_metric(one, critic) for one in METRICS], judging=session)
        usage = session.usage_log.to_dict()
        for tally in (usage["total"], *usage["metrics"].values(), *usage["critics"].values()):
            del tally["seconds"]
        found[name] = {
            "usage": {**usage, "metrics": dict(sorted(usage["metrics"].items()))},
            "asked": [
                f"{one.prompt_id.partition('/')[0]} {one.sample_id} {one.repeat} {one.may_repair}"
                for one in critic.asked
            ],
            "values": [one.value for one in results],
            "outcomes": [" ".join(one.outcomes or ()) for one in results],
            "warnings": len(caught),
            "raw": sorted({len(one.raw) for one in records if one.raw is not None}),
        }
        record_fields = [one.name for one in fields(records[0])]
        found.setdefault("record", record_fields)
    check_golden("judge/usage.json", found)


# --- the command line ------------------------------------------------------------------------------------------------

JUDGE = """
from helpers.golden_judge import Answers as Judge, CachedNumbers as Numbers
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the project without a cache."""
    place = tmp_path / "project"
    shutil.copytree(GOLDEN / "judge/project", place)
    (place / "golden_user_judge.py").write_text(JUDGE)
    monkeypatch.chdir(place)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    monkeypatch.setattr(sys, "path", sys.path[:])  # plans put their folder there
    monkeypatch.delitem(sys.modules, "golden_user_judge", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AueporaWarning)
        yield place


def in_order(report: Mapping[str, Any]) -> dict[str, Any]:
    """A report by metric, sorted: metrics ask at the same time, and the first to ask comes first."""
    return {**report, "metrics": dict(sorted(report["metrics"].items()))}


def test_previews(folder: Path, auepora: Cli) -> None:
    """Previews of scoring and of running, as JSON and as text. Nothing is written."""
    score = ("score", "data.jsonl", "outputs.jsonl", "--plan", "plan.yaml", "-m", "nugget_recall", "--preview")
    system = Path("plan.yaml").read_text().replace("outputs: {jsonl: outputs.jsonl}", 'system: {python: "nowhere:Rag"}')
    Path("system.yaml").write_text(system)
    found: dict[str, Any] = {}
    for name, arguments in {
        "score": score,
        "score, two repeats": (*score, "--judge-repeats", "2"),
        "score, claims": (*score, "-m", "claim_f1", "-m", "claim_recall"),
        "run": ("run", "plan.yaml", "--preview"),
        "run of a system": ("run", "system.yaml", "--preview"),
        "run with a limit": ("run", "plan.yaml", "--preview", "--limit", "2"),
    }.items():
        code, out, err = auepora(*arguments, "--json")
        assert code == 0, err
        document = in_order(json.loads(out))
        document["remarks"] = len(document["remarks"])  # wording
        found[name] = document
    check_golden("judge/previews.json", found)
    code, text, _ = auepora(*score)
    assert code == 0
    check_golden_text("judge/preview.txt", text)
    assert not list(folder.glob("*.sqlite"))


def test_budgets_on_the_command_line(folder: Path, auepora: Cli) -> None:
    """The judge section of results, with limits."""
    score = (
        "score",
        "data.jsonl",
        "outputs.jsonl",
        "--plan",
        "plan.yaml",
        "-m",
        "llm_faithfulness",
        "-m",
        "nugget_recall",
    )
    found: dict[str, Any] = {}
    for name, more in {
        "max_calls": ("--max-calls", "3"),
        "max_cost": ("--max-cost", "0.002"),
        "cache only": ("--judge-cache-only",),
        "repeats": ("--judge-repeats", "2"),
    }.items():
        code, out, _ = auepora(*score, *more, "--json", "-q")
        results = json.loads(out)["results"]
        for result in results:
            del result["details"]["judging"]["seconds"]
        found[name] = {"exit code": code, "results": results}
        Path("judgements.sqlite").unlink(missing_ok=True)
    check_golden("judge/budgets.json", found)
