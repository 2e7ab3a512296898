"""Explanations of judged metrics: from the stored judgements to the score, without new calls."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import Response, Score, SystemOutputs, TargetCategory, metric
from auepora_eval.core.metrics_base import BatchMetric
from auepora_eval.core.types import EvaluationSample
from auepora_eval.errors import AueporaWarning, JudgeError
from auepora_eval.judge.critic import JudgeClient, Judgement, JudgePolicy, JudgeRequest
from auepora_eval.judge.metric import JudgedMetric
from auepora_eval.report.explain import explain
from auepora_eval.runs.job import ScoringJob
from auepora_eval.runs.scoring import rescore, score_run
from auepora_eval.store import RunStore
from helpers.builders import output, sample
from helpers.critics import ScriptedCritic, SteadyBareCritic, SteadyCritic
from helpers.explanations import explanation_text
from helpers.golden_runs import put_run
from helpers.letter_vectors import letters

ROWS = [sample(["a"], sample_id="one", answer="cat"), sample(["a"], sample_id="two", answer="dog")]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with RunStore.open(tmp_path / "runs.sqlite") as opened:
        yield opened


def score_run_with(store: RunStore, one: BatchMetric, *, repeats: int = 1) -> None:
    outs = [output("a", answer="a cat"), output("a", answer="a dog")]
    for out in outs:
        out.retrieved[0].doc.text = "cats and dogs"
    record = put_run(store, "judged", ROWS, outs)
    score_run(ScoringJob(store, record, [one], conventions=one.active_conventions, policy=JudgePolicy(repeats=repeats)))


SPECS: list[dict[str, Any]] = [
    {"llm_faithfulness": {"critic": SteadyCritic(), "scale": "1-5"}},
    {"llm_faithfulness": {"critic": SteadyBareCritic()}},
    {"llm_answer_quality": {"critic": SteadyCritic(), "aggregation": "min"}},
    {"llm_answer_quality": {"critic": SteadyBareCritic()}},
    {
        "llm_answer_quality": {
            "critic": SteadyBareCritic(),
            "dimensions": ["clarity", "relevance"],
            "weights": [1, 0.5],
            "aggregation": "weighted",
        }
    },
    {"sliced": {"base": {"llm_faithfulness": {"critic": SteadyCritic()}}, "where": lambda _: True}},
]


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: next(iter(spec)))
def test_stored_judgements_reproduce_the_score(store: RunStore, spec: dict[str, Any], repeats: int) -> None:
    one = metric(spec)
    assert isinstance(one, BatchMetric)
    score_run_with(store, one, repeats=repeats)
    explanation = explain(store, "judged", one.name, query="two", metrics={one.name: one}).query
    assert explanation is not None
    assert explanation.check.verdict == "equal"
    derivation = explanation.answers[0].derivation
    assert derivation is not None
    assert not derivation.general
    assert derivation.steps[-1].text.startswith(f"The mean of {repeats}: ")


def test_bare_critic_is_not_called_again(store: RunStore) -> None:
    score_run_with(store, metric({"llm_answer_quality": {"critic": SteadyBareCritic()}}))  # type: ignore[arg-type]
    explanation = explain(store, "judged", "llm_answer_quality", query="two").query
    assert explanation is not None
    assert explanation.check.verdict == "equal"
    assert explanation.answers[0].derivation is not None
    assert not explanation.answers[0].derivation.general


def test_plan_judge_is_not_needed(store: RunStore) -> None:
    score_run_with(store, metric({"llm_faithfulness": {"critic": SteadyCritic(), "scale": "1-5"}}))  # type: ignore[arg-type]
    explanation = explain(
        store,
        "judged",
        "llm_faithfulness",
        query="one",
        metrics={"llm_faithfulness": metric({"llm_faithfulness": {"critic": {"use": "judge"}, "scale": "1-5"}})},
    )
    assert explanation.notes == []
    assert explanation.query is not None
    assert explanation.query.check.verdict == "equal"
    assert "because" in explanation_text(explanation)
    assert "on the scale from 1 to 5 is (x − 1) / (5 − 1)" in explanation_text(explanation)


def test_failed_judge_is_shown_with_its_message(store: RunStore) -> None:
    critic = ScriptedCritic(lambda _: JudgeError("unparseable", "no number in it", raw="hm"))
    one = metric({"llm_faithfulness": {"critic": critic}})
    with pytest.warns(AueporaWarning, match="unparseable"):
        score_run_with(store, one)  # type: ignore[arg-type]
    explanation = explain(store, "judged", "llm_faithfulness", query="one", metrics={"llm_faithfulness": one})
    assert explanation.query is not None
    (answer,) = explanation.query.answers
    assert (answer.outcome, answer.counts_as) == ("measure_failed:unparseable", None)
    assert "no number in it" in answer.words
    bounds = explain(store, "judged", "llm_faithfulness", metrics={"llm_faithfulness": one}).card.bounds
    assert bounds == (0.0, 1.0)


class Counting(JudgedMetric):
    """Asks for a number of its own kind."""

    target = TargetCategory.GENERATION_FAITHFULNESS
    name = "counting"

    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient) -> Score:
        request = JudgeRequest("how many?", {}, sample_id=sample.sample_id, metric=self.name)
        judgement = await judge.ask(
            ScriptedCritic(lambda _: Judgement({"claims": ["x", "y"], "rationale": "two"})), request
        )
        await asyncio.sleep(0)
        return Score(1 / len(judgement.answer["claims"]))


def test_custom_judged_metric_shows_judgements(store: RunStore) -> None:
    score_run_with(store, Counting())
    explanation = explain(store, "judged", "counting", query="one", metrics={"counting": Counting()})
    assert explanation.query is not None
    derivation = explanation.query.answers[0].derivation
    assert derivation is not None
    assert (derivation.general, derivation.value, explanation.query.check.verdict) == (True, 0.5, "equal")
    tables = [step.table for step in derivation.steps if step.table is not None]
    assert tables[0].rows == ((1, "scripted", 'claims ["x", "y"]', "two"),)


def test_embeddings_are_recomputed_only_with_models(store: RunStore) -> None:
    asked: list[str] = []

    def embed(texts: list[str]) -> Any:
        asked.extend(texts)
        return letters(texts)

    one = metric({"embedding_similarity": {"embed_fn": embed}})
    record = put_run(store, "judged", ROWS, [SystemOutputs([], Response("a cat")), SystemOutputs([], Response("dog"))])
    rescore(record, [one], store=store)
    asked.clear()
    metrics = {"embedding_similarity": one}
    explanation = explain(store, "judged", "embedding_similarity", query="one", metrics=metrics).query
    assert explanation is not None
    assert asked == []
    assert explanation.answers[0].derivation is not None
    assert explanation.check.computed == explanation.check.stored
    again = explain(store, "judged", "embedding_similarity", query="one", metrics=metrics, models=True).query
    assert again is not None
    assert asked
    assert again.check.verdict in ("equal", "rounding")
