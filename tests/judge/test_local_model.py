"""The whole chain with a real model: plan, run, endpoint, schema, parser, cache, resume."""

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import AueporaWarning, EvaluationSample, Response, SystemOutputs, evaluate
from auepora_eval.judge.critic import JudgePolicy
from auepora_eval.judge.limits import JudgementRecord
from auepora_eval.judge.openai import OpenAICritic
from auepora_eval.judge.prompting import Prompt
from auepora_eval.judge.session import JudgeSession
from auepora_eval.metrics.claims import ClaimPrecision
from auepora_eval.store import RunStatus, RunStore
from helpers.local_model import LocalModel, local_model
from helpers.user_project import Project

Cli = Callable[..., tuple[int, str, str]]
SAMPLES = 3
FAITHFULNESS = (
    '{"llm_faithfulness": {"critic": {"use": "judge"}, "scale": "1-5", "rationale": false, "prompt": "short.md"}}'
)
QUALITY = (
    '{"llm_answer_quality": {"critic": {"use": "judge"}, "dimensions": ["clarity"], "rationale": false, '
    '"prompt": "quality.md"}}'
)
PROMPT = """---
name: short
version: 1
purpose: A prompt that a small machine reads quickly.
---
# System

You rate answers.

# Prompt

{{question}}
{{evidence}}
{{answer}}
Is it supported? The score is {{scale}}. {{form}}
"""
QUALITY_PROMPT = """---
name: short quality
version: 1
purpose: A prompt that a small machine reads quickly.
---
# System

You rate answers.

# Prompt

{{question}}
{{answer}}
{{criteria}}
The score is {{scale}}. {{form}}
"""


pytestmark = pytest.mark.part("llama")


@pytest.fixture(scope="session")
def model() -> Iterator[LocalModel]:
    """One server for all tests of a session."""
    with local_model() as served:
        yield served


@pytest.fixture
def plan(model: LocalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A plan of a small project that the model judges."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    monkeypatch.setattr(sys, "path", sys.path[:])
    made = Project(tmp_path, SAMPLES)
    judge = f"{{openai: {{model: smollm2, base_url: '{model.base_url}', max_tokens: 30}}}}"
    path = Path(made.plan(more=f"resources: {{judge: {judge}}}\njudge: {{concurrency: 2, timeout: 110}}\n"))
    text = path.read_text()
    (tmp_path / "short.md").write_text(PROMPT)
    (tmp_path / "quality.md").write_text(QUALITY_PROMPT)
    metrics = f"metrics: [recall@5, {FAITHFULNESS}]\n"
    path.write_text(text[: text.index("metrics:")] + metrics + text[text.index("slices:") :])
    model.asked.clear()
    yield path
    sys.modules.pop("my_rag", None)


def outcomes() -> dict[str, list[float | None]]:
    """The scores of the latest run; no measurement failed."""
    with RunStore.open("runs.sqlite") as store:
        results = store.results(store.find("latest").run_id)
    assert [one.details["num_measure_failed"] for one in results] == [0] * len(results)
    return {one.name: list(one.scores or ()) for one in results}


@pytest.mark.usefixtures("plan")
def test_a_run_is_judged_resumed_and_cached(auepora: Cli, model: LocalModel) -> None:
    assert auepora("run", "plan.yaml", "-q", "--max-calls", "2")[0] == 0
    assert 1 <= len(model.asked) < SAMPLES
    with RunStore.open("runs.sqlite") as store:  # as if it had been interrupted there
        record = store.find("latest")
        store.finish(record.run_id, RunStatus.STOPPED, message="interrupted")
    assert auepora("run", "plan.yaml", "--resume", "-q")[0] == 0
    assert len(model.asked) == SAMPLES  # what was paid for is known
    assert {one["response_format"]["type"] for one in model.asked} == {"json_schema"}
    first = outcomes()
    assert all(score is not None and 0 <= score <= 1 for score in first["llm_faithfulness"])
    with RunStore.open("runs.sqlite") as store:
        rows = list(store.judgements(record.run_id))
        assert [row.position for row in rows] == list(range(SAMPLES))
        for row in rows:
            assert set(row.body["answer"]) == {"score"}
            assert 1 <= row.body["answer"]["score"] <= 5
            assert json.loads(row.body["raw"]) == row.body["answer"]
            assert row.body["usage"][0] > 50
            assert row.critic == "openai:smollm2"
            assert row.prompt_id.startswith("short/1/")
        usage = store.find(record.run_id).usage
        assert usage is not None
        assert usage["total"]["calls"] == SAMPLES
    assert auepora("run", "plan.yaml", "-q")[0] == 0
    assert outcomes() == first
    assert auepora("rescore", "latest", "-q")[0] == 0
    assert len(model.asked) == SAMPLES


def test_two_runs_without_a_cache_are_equal(auepora: Cli, model: LocalModel, plan: Path) -> None:
    plan.write_text(plan.read_text().replace("judge: {concurrency", "judge: {cache: false, concurrency"))
    options = ("run", "plan.yaml", "-q", "--limit", "1", "-m", QUALITY)
    assert auepora(*options)[0] == 0
    first = outcomes()
    assert auepora(*options)[0] == 0
    assert len(model.asked) == 2
    assert outcomes() == first


SHORT_CLAIMS = "{{question}}\n{{text}}\nList at most two claims of the text. {{form}}"
SHORT_SUPPORT = "{{evidence}}\n{{statements}}\nWhich are supported? {{form}}"


def test_claims_are_listed_and_checked_by_schema(model: LocalModel) -> None:
    critic = OpenAICritic("smollm2", base_url=model.base_url, max_tokens=100)
    prompts: dict[str, Any] = {
        "claims_prompt": Prompt.parse(SHORT_CLAIMS),
        "support_prompt": Prompt.parse(SHORT_SUPPORT),
    }
    sample = EvaluationSample("1", "Who built it?", reference_answer=Response("Eiffel built the tower."))
    output = SystemOutputs([], Response("Eiffel built the tower."))
    records: list[JudgementRecord] = []
    session = JudgeSession(JudgePolicy(timeout=110, retries=0), on_record=records.append)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AueporaWarning)  # so small a model may well lose its thread
        (result,) = evaluate([sample], [output], [ClaimPrecision(critic, **prompts)], judging=session)
    listed, *checked = records
    assert listed.reason in (None, "cut_off", "unparseable")
    if listed.answer is not None:
        assert all(isinstance(claim, str) for claim in listed.answer["claims"])
    for one in checked:  # the grammar made of the schema keeps even this model to one verdict for each claim
        assert one.reason in (None, "cut_off")
        assert one.answer is None or [row["number"] for row in one.answer["verdicts"]]
    assert result.outcomes is not None
    assert result.outcomes[0].partition(":")[0] in ("scored", "skipped", "measure_failed")
