"""Word overlap with the question is named as such, and decides nothing where there is neither gold nor a judge."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from auepora_eval import EvaluationSample
from auepora_eval.core.scores import Scores
from auepora_eval.store.runs import RunStore
from helpers.stored_runs import samples, scored

Cli = Callable[..., tuple[int, str, str]]
N = 60
GOLD_FREE = [EvaluationSample(f"q{number:05}", f"question {number}?") for number in range(N)]


def runs(folder: Path, dataset: list[EvaluationSample], **other: float | None) -> None:
    """Two runs, the second with more words of the question; ``other`` metrics are equal, or skipped where None."""
    rng = np.random.default_rng(2)
    with RunStore.open(folder / "runs.sqlite") as store:
        for name, middle in (("old", 0.3), ("new", 0.6)):
            scores: dict[str, np.ndarray | Scores] = {"answer_relevance": np.clip(rng.normal(middle, 0.1, N), 0, 1)}
            for metric, value in other.items():
                skipped = {"no_gold": np.ones(N, dtype=np.bool_)}
                scores[metric] = Scores.of(np.zeros(N), skip=skipped) if value is None else np.full(N, value)
            scored(store, name, dataset, scores)


def compared(auepora: Cli, *options: str) -> dict[str, str]:
    code, out, err = auepora("compare", "old", "new", *options, "--json")
    assert code == 0, err
    found = json.loads(out)["deltas"]["metrics"]["answer_relevance"]
    assert isinstance(found, dict)
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    "other",
    [{}, {"support_density": 0.5, "rougeL_query": 0.5, "distinct_n": 0.5}, {"token_f1": None}],
    ids=["alone", "beside metrics without gold", "beside a metric that skipped every sample"],
)
def test_no_verdict_without_gold(auepora: Cli, folder: Path, other: dict[str, float | None]) -> None:
    runs(folder, GOLD_FREE, **other)
    found = compared(auepora)
    assert found["verdict"] == "inconclusive"
    assert "no verdict by word overlap with the question alone" in found["note"]
    assert "word overlap of answer and question" in auepora("compare", "old", "new")[1]
    for gate in ("better(answer_relevance)", "not worse(answer_relevance)"):
        code, out, _ = auepora("gate", "new", "--against", "old", "-g", gate)
        assert code == 3
        assert "no verdict by word overlap" in out


def test_verdict_if_other_metrics_have_gold(auepora: Cli, folder: Path) -> None:
    runs(folder, samples(N), token_f1=0.5)
    for options in ((), ("-m", "answer_relevance")):
        found = compared(auepora, *options)
        assert found["verdict"] == "better"
        assert found["note"] == "word overlap of answer and question"


def test_tables_and_reports_name_it(auepora: Cli, folder: Path) -> None:
    runs(folder, samples(N), token_f1=0.5)
    assert "answer_relevance (word overlap)" in auepora("show", "new")[1]
    assert auepora("report", "new", "-o", "one.md")[0] == 0
    assert "answer_relevance (word overlap)" in Path("one.md").read_text()
    assert auepora("report", "old", "new", "-o", "two.md")[0] == 0
    assert "word overlap of answer and question" in Path("two.md").read_text()
    Path("data.jsonl").write_text('{"sample_id": "a", "query": "Who wrote Emma?"}\n')
    Path("outputs.jsonl").write_text('{"sample_id": "a", "response": "Jane Austen wrote Emma."}\n')
    code, out, _ = auepora("score", "data.jsonl", "outputs.jsonl")
    assert code == 0
    assert "answer_relevance (word overlap)" in out


def test_validate_without_gold_points_to_judges_pooling_and_labels(auepora: Cli, folder: Path) -> None:
    Path("data.jsonl").write_text('{"sample_id": "a", "query": "Who wrote Emma?"}\n')
    code, out, _ = auepora("validate", "data.jsonl")
    assert code == 0
    for words in (
        "No gold: no sample has relevant_docs",
        "word overlap",
        "judge-model",
        "auepora pool",
        "auepora label",
    ):
        assert words in out
    advice = json.loads(auepora("validate", "data.jsonl", "--json")[1])["advice"]
    assert [one.partition(":")[0] for one in advice[1:]] == ["judges", "pooling", "labels"]
    Path("gold.jsonl").write_text('{"sample_id": "a", "query": "Who wrote Emma?", "reference_answer": "Jane Austen"}\n')
    code, out, _ = auepora("validate", "gold.jsonl")
    assert "No gold" not in out
    assert json.loads(auepora("validate", "gold.jsonl", "--json")[1])["advice"] == []
