"""Judgement caches written by an earlier version: nobody is asked again, and the results are the recorded ones."""

import json
import shutil
import sqlite3
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import JudgePolicy, JudgeSession, evaluate
from auepora_eval.errors import AueporaWarning
from auepora_eval.judge.critic import Judgement, JudgeRequest, Usage
from helpers.golden import GOLDEN, check_golden, write_golden
from helpers.golden_judge import (
    Answers,
    CachedNumbers,
    WeightedAnswers,
    cache_rows,
    judge_metric,
    outputs,
    samples,
    value_for,
)
from helpers.judge_server import Asked, JudgeServer, Reply

Cli = Callable[..., tuple[int, str, str]]
JUDGE = """
from pathlib import Path

from helpers.golden_judge import Answers, CachedNumbers

LOG = Path(__file__).with_name("calls.log")


class Judge(Answers):
    async def judge(self, request):
        with LOG.open("a") as log:
            log.write("judge\\n")
        return await super().judge(request)


class Numbers(CachedNumbers):
    def score(self, *, prompt, metadata=None):
        with LOG.open("a") as log:
            log.write("numbers\\n")
        return super().score(prompt=prompt, metadata=metadata)
"""


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AueporaWarning)
        yield


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the project, with the module of its judges."""
    place = tmp_path / "project"
    shutil.copytree(GOLDEN / "judge/project", place)
    (place / "golden_user_judge.py").write_text(JUDGE)
    monkeypatch.chdir(place)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    monkeypatch.setattr(sys, "path", sys.path[:])  # plans put their folder there
    monkeypatch.delitem(sys.modules, "golden_user_judge", raising=False)
    return place


def keep_cache(path: Path, name: str) -> None:
    """Make a cache a golden file: without a log beside it, and with one time for all, so that it can be compared."""
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE judgements SET created_at = '2030-01-01T00:00:00+00:00'")
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.execute("VACUUM")
    connection.close()
    shutil.copyfile(path, GOLDEN / "judge" / name)


def file_marks(path: Path) -> dict[str, Any]:
    """What makes a file a cache of judgements."""
    connection = sqlite3.connect(path)
    marks = {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")}
    tables = [row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")]
    connection.close()
    return {**marks, "tables": tables}


def in_order(usage: dict[str, Any]) -> dict[str, Any]:
    """A report by metric, sorted: metrics ask at the same time, and the first to ask comes first."""
    return {**usage, "metrics": dict(sorted(usage["metrics"].items()))}


# --- the direct interface --------------------------------------------------------------------------------------------


class TwoForOne(Answers):
    """Gives every verdict the number 1: stored, and then of no use to the metric."""

    __module__ = "golden_critics"

    async def judge(self, request: JudgeRequest) -> Judgement:
        self.asked.append(request)
        verdicts = request.schema["properties"]["verdicts"]
        answer = [{**one, "number": 1} for one in value_for("verdicts", verdicts, request.prompt)]
        return Judgement({"verdicts": answer}, Usage(100, 20), raw=json.dumps(answer))


def evaluated(cache: Path, **policy: Any) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Several metrics with several critics on one cache: the results, and what each critic was asked."""
    critics: dict[str, Any] = {
        "answers": Answers(),
        "weighted": WeightedAnswers(name="weighted"),
        "numbers": CachedNumbers(),
        "two for one": TwoForOne(name="two for one"),
        "failing": Answers(name="failing", failing=("q2", "q3")),
    }
    names = {
        "answers": ("llm_faithfulness", "claim_f1", "claim_context_precision", "judged_context_relevance"),
        "weighted": ("llm_answer_quality",),
        "numbers": ("llm_faithfulness 1-5", "citation_support_recall"),
        "two for one": ("nugget_recall",),
        "failing": ("llm_faithfulness relevant", "claim_precision"),
    }
    found: dict[str, Any] = {}
    for kind, critic in critics.items():
        session = JudgeSession(JudgePolicy(cache=cache, concurrency=1, **policy))
        chosen = [judge_metric(name, critic) for name in names[kind]]
        for name, result in zip(names[kind], evaluate(samples(), outputs(), chosen, judging=session), strict=True):
            found[f"{kind}, {name}"] = {
                "value": result.value,
                "interval": result.interval,
                "signature": str(result.signature),
                "details": result.details,
                "outcomes": list(result.outcomes or ()),
                "scores": list(result.scores or ()),
            }
        usage = session.usage_log.to_dict()
        for tally in (usage["total"], *usage["metrics"].values(), *usage["critics"].values()):
            del tally["seconds"]  # of those that are asked again
        found[f"{kind}, usage"] = in_order(usage)
    return found, {kind: critic.asked for kind, critic in critics.items()}


def test_cache(tmp_path: Path) -> None:
    fresh, cache = tmp_path / "fresh.sqlite", tmp_path / "judgements.sqlite"
    first, _ = evaluated(fresh)
    if write_golden():
        shutil.copyfile(fresh, cache)
        keep_cache(cache, "cache.db")
    shutil.copyfile(GOLDEN / "judge/cache.db", cache)
    assert cache_rows(fresh) == cache_rows(cache)
    assert file_marks(fresh) == file_marks(cache)

    again, asked = evaluated(cache)
    # A failure is not stored, so that it is asked about again; everything else is known.
    assert {kind: len(rows) for kind, rows in asked.items()} == {
        "answers": 0,
        "weighted": 0,
        "numbers": 0,
        "two for one": 0,
        "failing": 4,
    }
    assert {request.sample_id for request in asked["failing"]} == {"q2", "q3"}
    for name, result in again.items():
        assert name.endswith(", usage") or result == first[name], name
    only, asked_only = evaluated(cache, cache_only=True)
    assert not any(asked_only.values())
    check_golden(
        "judge/cache_results.json",
        {
            "marks": file_marks(cache),
            "first": {name: one for name, one in first.items() if name.endswith(", usage")},
            "again": again,
            "cache_only": {name: one for name, one in only.items() if name.startswith("failing")},
        },
    )


# --- the command line ------------------------------------------------------------------------------------------------


def without_run_id(document: dict[str, Any]) -> dict[str, Any]:
    """The JSON of a run; its id is drawn anew each time."""
    assert document["run_id"].startswith("run_")
    return {**document, "run_id": "RUN"}


def calls(folder: Path) -> int:
    log = folder / "calls.log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def commands(auepora: Cli, *, chosen: Collection[str] | None = None) -> dict[str, Any]:
    """What the commands that judge tell, of a project in the current folder, with its cache; all, or those chosen."""
    metrics = ("-m", "llm_faithfulness:scale=1-5", "-m", "nugget_recall")
    score = ("score", "data.jsonl", "outputs.jsonl", "--plan", "plan.yaml", *metrics, "-q")
    found: dict[str, Any] = {}
    for name, arguments in {
        "run": ("run", "plan.yaml", "--json", "--per-query", "-q"),
        "rescore": ("rescore", "latest", "--json", "-q"),
        "rescore, cache only": ("rescore", "latest", "--json", "-q", "--judge-cache-only"),
        "sample": ("show", "latest", "--sample", "q1", "--json"),
        "failures": ("show", "latest", "--failures", "--json"),
        "score": (*score, "--json"),
        "score, processes": (*score, "--json", "--executor", "processes", "--workers", "1"),
        "score, cache only": (*score, "--json", "--judge-cache-only"),
        "preview": (*score, "--json", "--preview"),
        "preview of a run": ("run", "plan.yaml", "--preview", "--json"),
        "preview of a stored run": ("rescore", "latest", "--preview", "--json"),
        "preview of two repeats": (*score, "--json", "--preview", "--judge-repeats", "2"),
    }.items():
        if chosen is not None and name not in chosen:
            continue
        code, out, err = auepora(*arguments)
        assert code == 0, err
        document = json.loads(out)
        if isinstance(document, dict) and document.get("run_id"):
            document = without_run_id(document)
        found[name] = in_order(document) if name.startswith("preview") else document
    if chosen is None:
        # Who scores makes no difference.
        assert found.pop("score, processes") == found["score"] == found.pop("score, cache only")
        assert found.pop("rescore, cache only") == found["rescore"]
    return found


def test_cache_of_a_plan(folder: Path, auepora: Cli) -> None:
    """A plan whose judges are Python objects."""
    cache = folder / "judgements.sqlite"
    if write_golden():
        assert auepora("run", "plan.yaml", "-q")[0] == 0
        keep_cache(cache, "cache_plan.db")
        (folder / "calls.log").unlink()
        for path in folder.glob("*.sqlite*"):
            path.unlink()
    shutil.copyfile(GOLDEN / "judge/cache_plan.db", cache)
    before = cache_rows(cache)
    found = commands(auepora)
    assert calls(folder) == 0
    assert cache_rows(cache) == before
    check_golden("judge/cache_plan.json", found)


def judge_reply(asked: Asked) -> Reply | dict[str, Any]:
    """A judge behind an endpoint; about Ludwigshafen it gives half an object, so that it is asked again."""
    if (
        len(asked.body["messages"]) == 2
        and "faithful" in asked.body["messages"][0]["content"]
        and "1843" in asked.prompt
    ):
        return Reply('{"rationale": "half of')
    text = asked.body["messages"][1]["content"]
    return {name: value_for(name, kind, text) for name, kind in asked.schema["properties"].items()}


def test_cache_of_an_endpoint(folder: Path, auepora: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan whose judge is behind an OpenAI-compatible endpoint.

    The address is part of the digest, and a server on this machine has another port each time. So the endpoint has a
    name, and the server is its proxy.
    """
    cache = folder / "judgements.sqlite"
    shutil.copyfile(folder / "plan_openai.yaml", folder / "plan.yaml")
    monkeypatch.setenv("GOLDEN_JUDGE_KEY", "golden-key-0123456789")
    for name in ("no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with JudgeServer(judge_reply) as server:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
        if write_golden():
            assert auepora("run", "plan.yaml", "-q")[0] == 0
            keep_cache(cache, "cache_openai.db")
            for path in folder.glob("*.sqlite*"):
                path.unlink()
        shutil.copyfile(GOLDEN / "judge/cache_openai.db", cache)
        asked_before = len(server.asked)
        before = cache_rows(cache)
        found = commands(auepora, chosen=("run", "sample", "score", "preview of two repeats"))
        assert len(server.asked) == asked_before
        assert cache_rows(cache) == before
        # The server is there, and is asked once the cache is not.
        for path in folder.glob("*.sqlite*"):
            path.unlink()
        code, out, err = auepora("run", "plan.yaml", "-q", "--json")
        assert code == 0, err
        fresh = without_run_id(json.loads(out))
        assert cache_rows(cache) == before
        asked = [[one.path, one.headers["host"]] for one in server.asked[asked_before:]]
    for result in fresh["results"]:
        result["details"]["judging"]["seconds"] = 0.0  # how long it took
    found["fresh"] = {"results": [[one["name"], one["details"]["judging"]] for one in fresh["results"]]}
    found["asked"] = asked
    check_golden("judge/cache_openai.json", found)
