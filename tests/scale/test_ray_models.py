"""Models and judges beside a cluster: a model is loaded once, whoever dies is replaced, judges are asked from one place."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import evaluate
from auepora_eval.core.metrics_base import Metric
from auepora_eval.core.registry import Spec
from auepora_eval.engine.evaluate import evaluate_sources
from auepora_eval.errors import AueporaWarning, BadValueError
from auepora_eval.judge.critic import Judgement, JudgePolicy, JudgeRequest, Usage
from auepora_eval.judge.session import JudgeSession
from auepora_eval.scale.ray_executor import RayExecutor
from helpers.critics import SteadyCritic
from helpers.ray_cases import (
    Counted,
    Fragile,
    FragileSbert,
    kill_slow_worker,
    rows,
    sources,
    times,
)
from helpers.scripted_critic import Scripted
from helpers.tiny_models import made

PLAIN: list[Spec] = ["token_f1", "bleu"]


@pytest.fixture(scope="module")
def ray(ray_cluster: None) -> Iterator[RayExecutor]:
    with RayExecutor("local", workers=2, retries=2) as executor:
        yield executor


@pytest.fixture
def model() -> str:
    return made("sbert")


def test_model_is_loaded_once_for_all_batches(ray: RayExecutor, model: str, tmp_path: Path) -> None:
    robust: Spec = {"noise_robustness": {"base": {"sbert_similarity": {"model": model}}}}
    metrics: list[Spec | Metric] = ["token_f1", FragileSbert(model, folder=str(tmp_path)), robust, "bleu"]
    got = evaluate_sources(sources(120, 10), metrics, executor=ray)
    assert times(tmp_path, "loaded") == times(tmp_path, "process") == 1
    want = evaluate(*rows(range(120)), metrics, batch_size=10)
    assert [one.name for one in got] == [one.name for one in want]
    for one, other in zip(got, want, strict=True):
        assert one.outcomes == other.outcomes
        assert list(one.scores or ()) == pytest.approx(list(other.scores or ()), abs=1e-6, nan_ok=True)
    assert (got[0], got[3]) == (want[0], want[3])


def test_models_alone(ray: RayExecutor, tmp_path: Path) -> None:
    got = evaluate(*rows(range(60)), [Fragile(folder=str(tmp_path))], batch_size=10, executor=ray)
    assert got == evaluate(*rows(range(60)), [Fragile(folder=str(tmp_path))])


def test_an_actor_that_dies_while_it_loads_is_replaced(ray: RayExecutor, tmp_path: Path) -> None:
    mortal = Fragile(folder=str(tmp_path), dies_loading=2)
    got = evaluate_sources(sources(60, 10), [mortal, *PLAIN], executor=ray)
    assert times(tmp_path, "loaded") == 3
    assert got == evaluate(*rows(range(60)), [mortal, *PLAIN])


def test_model_that_kills_every_actor(ray: RayExecutor, tmp_path: Path) -> None:
    with pytest.warns(AueporaWarning, match=r"every worker that loaded it died \(sample 'q0' and 59 more\)"):
        (got, *rest) = evaluate_sources(
            sources(60, 10), [Fragile(folder=str(tmp_path), dies_loading=99), *PLAIN], executor=ray
        )
    assert times(tmp_path, "loaded") == 3
    assert set(got.outcomes or ()) == {"measure_failed:worker_died"}
    assert not got.defined
    assert rest == evaluate(*rows(range(60)), PLAIN)[:]


def test_batch_that_kills_its_actor_once(ray: RayExecutor, tmp_path: Path) -> None:
    once = Fragile(folder=str(tmp_path), at="q25", dies_scoring=1)
    got = evaluate_sources(sources(60, 10), [once], executor=ray)
    assert times(tmp_path, "loaded") == 2
    assert got == evaluate(*rows(range(60)), [once])


def test_batch_that_kills_every_actor(ray: RayExecutor, tmp_path: Path) -> None:
    always = Fragile(folder=str(tmp_path), at="q25", dies_scoring=99)
    with pytest.warns(AueporaWarning, match=r"died \(sample 'q20' and 9 more\)"):
        (got, *rest) = evaluate_sources(sources(60, 10), [always, *PLAIN], executor=ray)
    assert times(tmp_path, "loaded") == 4  # it was tried three times, and the rest wanted somebody, too
    lost = [outcome == "measure_failed:worker_died" for outcome in got.outcomes or ()]
    assert lost == [20 <= row < 30 for row in range(60)]
    assert rest == evaluate(*rows(range(60)), PLAIN)[:]


def test_batch_whose_actor_is_killed_is_scored_by_another(ray: RayExecutor, tmp_path: Path) -> None:
    fragile = Fragile(folder=str(tmp_path), slow_at="q0")
    killer = kill_slow_worker(tmp_path)
    got = evaluate_sources(sources(60, 10), [fragile], executor=ray)
    killer.join()
    assert times(tmp_path, "loaded") == times(tmp_path, "held") == 2
    assert got == evaluate(*rows(range(60)), [fragile])


def test_missing_model_raises_as_in_serial(ray: RayExecutor, tmp_path: Path) -> None:
    with pytest.raises(BadValueError, match="there is no model's folder"):
        evaluate_sources(sources(20, 10), [FragileSbert(str(tmp_path / "none"), folder=str(tmp_path))], executor=ray)


# --- judges ---------------------------------------------------------------------------------------------------------


def quality(critic: Any) -> Spec:
    return {"llm_answer_quality": {"critic": critic, "dimensions": ["clarity"], "scale": "0-1"}}


def test_judged_metrics_with_a_cluster(ray: RayExecutor) -> None:
    metrics = [*PLAIN, {"llm_answer_quality": {"critic": SteadyCritic()}}]
    got = evaluate_sources(sources(80, 8), metrics, executor=ray)
    assert got == evaluate(*rows(range(80)), metrics)


@pytest.mark.filterwarnings("ignore:the budget for judging", "ignore:metric 'llm_answer_quality'")
def test_judge_limits_with_any_executor(ray: RayExecutor, tmp_path: Path) -> None:
    def reply(request: JudgeRequest, _: int) -> Judgement:
        kinds = request.schema["properties"].items()
        return Judgement({name: "so" if kind["type"] == "string" else 0.5 for name, kind in kinds}, Usage(10, 5))

    critic = Scripted(reply, seconds=0.001)
    policy = JudgePolicy(concurrency=3, max_calls=50, cache=tmp_path / "judged.db")
    session = JudgeSession(policy)
    drawn, done, most = 0, 0, 0

    def watched() -> Iterator[Counted]:
        nonlocal drawn, most
        for source in sources(2400, 4):
            drawn += 1
            most = max(most, drawn - done)
            yield source

    def progress(_: int) -> None:
        nonlocal done
        done += 1

    got = evaluate_sources(watched(), [*PLAIN, quality(critic)], executor=ray, judging=session, progress=progress)
    assert len(critic.asked) == 50 == session.usage_log.total.calls
    assert critic.most_inside <= 3
    assert got[2].details["num_scored"] >= 50  # what was asked already is answered from what was kept
    assert got[2].details["failed_budget_exhausted"] > 0
    assert most < 400 < drawn == 600  # not all are held here at a time
    again = Scripted(reply, name=critic.name)
    evaluate_sources(sources(40, 4), [quality(again)], executor=ray, judging=policy)
    assert not again.asked  # what one place wrote, the next finds
