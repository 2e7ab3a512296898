"""Three frameworks that return the documents of the bundled BM25 system get its retrieval numbers, to the last bit."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import run_system
from auepora_eval.examples.quickstart.systems import BestSentenceGenerator, bm25, corpus, dataset_path, weights
from auepora_eval.io.jsonl import load_jsonl_dataset
from helpers import handbook_frameworks
from helpers.requirements import need

pytestmark = pytest.mark.xdist_group("frameworks")  # slow to import: one worker does it

METRICS: list[Any] = [
    "recall@5",
    "precision@5",
    "recall_doc@5",
    "span_iou@5",
    "mrr@10",
    {"map@10": {"ap": "gold"}},
    {"ndcg@10": {"gain_scheme": "exponential"}},
    {"noise_robustness": {"base": "recall@5"}},
]
FRAMEWORKS = {"langchain": "langchain_core", "llamaindex": "llama_index.core", "haystack": "haystack"}


@pytest.fixture(params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> str:
    need(FRAMEWORKS[request.param])
    return str(request.param)


def numbers(results: Any) -> list[Any]:
    return [(one.name, one.value, one.interval, one.signature, list(one.scores)) for one in results]


def test_a_live_object_of_a_framework(framework: str, tmp_path: Path) -> None:
    dataset = load_jsonl_dataset(dataset_path())
    store = tmp_path / "runs.sqlite"
    theirs = run_system(getattr(handbook_frameworks, framework)(), dataset, METRICS, store=store, concurrency=4)
    ours = run_system(bm25(), dataset, METRICS, store=store, concurrency=4)
    assert theirs.results is not None
    assert ours.results is not None
    assert numbers(theirs.results) == numbers(ours.results)
    assert theirs.results.by_name["recall@5"].value > 0.8
    assert theirs.record.config["framework"].startswith(("langchain-core ", "llama-index-core ", "haystack-ai "))


def test_a_pair_of_a_frameworks_retriever_and_our_generator(framework: str, tmp_path: Path) -> None:
    dataset = load_jsonl_dataset(dataset_path())
    generator = BestSentenceGenerator(weights(chunk.text for chunk in corpus()))
    pair = (getattr(handbook_frameworks, framework)(), generator)
    metrics = [*METRICS, "token_f1", "support_density"]
    theirs = run_system(pair, dataset, metrics, store=tmp_path / "runs.sqlite")
    ours = run_system(bm25(), dataset, metrics, store=tmp_path / "runs.sqlite")
    assert theirs.results is not None
    assert ours.results is not None
    assert numbers(theirs.results) == numbers(ours.results)


def test_a_plan_that_names_it(
    framework: str, tmp_path: Path, auepora: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = {}
    for name, path in (
        (framework, f"helpers.handbook_frameworks:{framework}"),
        ("ours", "auepora_eval.examples.quickstart.systems:bm25"),
    ):
        plan = {
            "version": 1,
            "name": name,
            "dataset": {"jsonl": str(dataset_path())},
            "system": {"python": path},
            "metrics": METRICS,
            "run": {"top_k": 10, "concurrency": 4},
        }
        Path(f"{name}.yaml").write_text(json.dumps(plan))
        code, out, err = auepora("run", f"{name}.yaml", "--json", "--per-query")
        assert code == 0, err
        shown[name] = json.loads(out)
    assert shown[framework]["results"] == shown["ours"]["results"]
    assert shown[framework]["per_query"] == shown["ours"]["per_query"]
