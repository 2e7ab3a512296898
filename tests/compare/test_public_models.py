"""Language models' saved answers compared: a table whose verdicts a statistician would sign."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from auepora_eval import EvaluationSample, Response, SystemOutputs
from auepora_eval.compare.runs import build_leaderboard, compare_metrics
from auepora_eval.core.registry import Spec
from auepora_eval.core.scores import Scores
from auepora_eval.runs.run import run_system
from auepora_eval.store.records import RunRecord
from auepora_eval.store.runs import RunStore
from helpers.requirements import need, need_data

SPECS: list[Spec] = [
    "exact_match",
    "token_f1",
    "rougeL_answer",
    "bleu",
    {"noise_robustness": {"base": "exact_match", "noise_scenarios": ["noise"]}},
]
MODELS = ("gemma-3-27b-it", "openai_gpt-oss-20b", "qwen3_0.6b")


def read(folder: Path, model: str) -> tuple[list[EvaluationSample], dict[str, str]]:
    """300 questions with helpful documents, and half of them again with half the documents noise."""
    found, answers = [], {}
    for name in (f"perfect_context/{model}", f"noise_robustness/noise_0.5_{model}"):
        noisy = name.startswith("noise")
        for row in json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["individual_results"]:
            question = row["question_id"]
            called = f"{question}-noisy" if noisy else question
            labels = {"variant_of": question, "scenario": "noise"} if noisy else {}
            reference = Response(row["ground_truth"])
            found.append(EvaluationSample(called, row["question"], reference_answer=reference, labels=labels))
            answers[called] = row["generated_answer"]
    return found, answers


@pytest.fixture
def records(store: RunStore) -> list[RunRecord]:
    """A run of each model over the questions all were asked."""
    folder = need_data("ragen_eval")
    made = []
    for model in MODELS:
        data, answers = read(folder, model)

        def saved(sample: EvaluationSample, *, top_k: int, known: dict[str, str] = answers) -> SystemOutputs:
            return SystemOutputs([], Response(known[sample.sample_id]))

        made.append(run_system(saved, data, SPECS, store=store, name=model).record)
    return made


def column(store: RunStore, record: RunRecord, name: str) -> np.ndarray:
    scores = store.result(record.run_id, name).scores
    assert isinstance(scores, Scores)
    return scores.values


@pytest.mark.slow
def test_two_models(store: RunStore, records: list[RunRecord]) -> None:
    stats = need("scipy.stats")
    a, b = records[:2]
    found = compare_metrics(store, a, b, delta={"exact_match": 0.1, "token_f1": 0.1}).by_name
    samples = store.samples(a.run_id, texts=False)
    families: dict[str, list[int]] = {}
    for place, sample in enumerate(samples):
        families.setdefault(sample.cluster, []).append(place)
    assert found["token_f1"].clusters == len(families) < found["token_f1"].n == len(samples) == 450
    for name in ("exact_match", "token_f1", "rougeL_answer"):
        one = found[name]
        differences = column(store, b, name) - column(store, a, name)
        # An oracle of its own: a sandwich error by question and its clean or noisy form, by hand.
        totals = np.array([(differences[rows] - differences.mean()).sum() for rows in families.values()])
        error = math.sqrt(len(totals) / (len(totals) - 1) * float(totals @ totals)) / len(differences)
        half = stats.t.ppf(0.975, len(totals) - 1) * error
        assert one.delta == pytest.approx(differences.mean())
        assert one.interval == pytest.approx((differences.mean() - half, differences.mean() + half))
        p = 2 * stats.t.sf(abs(differences.mean()) / error, len(totals) - 1)
        # Sums of zeros and ones tie, and a flip counts all that reach the one seen; t knows no ties.
        assert one.p_value == pytest.approx(p, abs=0.1 if name == "exact_match" else 0.015)
        assert one.wins == (differences > 0).sum()
        if one.verdict in ("better", "worse"):
            assert one.interval is not None
            assert not one.interval[0] <= 0 <= one.interval[1]
    # 58.0 after 62.7 with noise and 73.0 after 69.7 without: nobody could say from 450 answers which is better.
    assert found["exact_match"].verdict in ("equal", "inconclusive")
    robust = found["noise_robustness"]
    assert (robust.a, robust.b) == pytest.approx((0.9038, 0.8447), abs=5e-5)
    assert robust.interval is not None
    assert robust.interval[0] < robust.b - robust.a < robust.interval[1]  # type: ignore[operator]
    assert found["bleu"].interval is not None


@pytest.mark.slow
def test_leaderboard_of_models(store: RunStore, records: list[RunRecord]) -> None:
    found = {one.name: one for one in build_leaderboard(store, records, primary=["exact_match", "token_f1"]).metrics}
    exact = found["exact_match"]
    # A model of 0.6 billion parameters is surely behind the larger ones, whichever of those is ahead.
    assert exact.ranking[-1] == 2
    assert 2 not in exact.unbeaten()
    for pair in exact.pairs:
        assert pair.comparison.p_adjusted is not None
        if pair.second == 2:
            assert pair.comparison.verdict == "worse"
