"""Perturbation of framework retrievers; pipelines are rejected by their own name."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import PerturbedRetriever, diagnose, noise_curve
from auepora_eval.errors import BadTypeError
from auepora_eval.examples.quickstart.systems import bm25, corpus, dataset_path
from auepora_eval.io.jsonl import load_jsonl_dataset
from helpers import handbook_frameworks
from helpers.requirements import need

pytestmark = pytest.mark.xdist_group("frameworks")  # slow to import: one worker does it

FRAMEWORKS = {"langchain": "langchain_core", "llamaindex": "llama_index.core", "haystack": "haystack"}
SAMPLES = list(load_jsonl_dataset(dataset_path()))[:12]


@pytest.fixture(params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> str:
    need(FRAMEWORKS[request.param])
    return str(request.param)


def test_the_wrapper_takes_the_frameworks_retriever_itself(framework: str) -> None:
    options: dict[str, Any] = {"drop": 0.5, "shuffle": 0.5, "samples": SAMPLES}
    theirs = PerturbedRetriever(getattr(handbook_frameworks, framework)(), **options)
    ours = PerturbedRetriever(bm25().retriever, **options)
    for sample in SAMPLES:
        found = [[one.doc.doc_id for one in each.retrieve(sample.query, top_k=5)] for each in (theirs, ours)]
        assert found[0] == found[1]
    assert theirs.done == ours.done
    assert any("dropped" in done for done in theirs.done.values())


def test_a_curve_of_the_same_documents_is_the_same_curve(framework: str, tmp_path: Path) -> None:
    def curve(system: object) -> Any:
        runs = noise_curve(
            system, SAMPLES, ["recall@5", "mrr"], perturb="noise=0,0.5,1", top_k=5, store=tmp_path / "runs.sqlite"
        )
        assert runs.curve is not None
        return runs.curve.metrics

    theirs = curve(getattr(handbook_frameworks, framework)())
    assert theirs == curve(bm25().retriever)
    assert theirs["recall@5"][-1].value == 0


@pytest.mark.slow
def test_a_diagnosis_of_the_same_documents_is_the_same(framework: str, tmp_path: Path) -> None:
    texts = {one.doc_id: one for one in corpus()}
    samples = [replace(one, relevant_docs=[texts[each.doc_id] for each in one.relevant_docs or ()]) for one in SAMPLES]

    def numbers(retriever: object) -> Any:
        found = diagnose((retriever, bm25().generator), samples, ["containment"], top_k=3, store=tmp_path / "d.sqlite")
        assert found.numbers is not None
        return found.numbers.to_dict()

    theirs = numbers(getattr(handbook_frameworks, framework)())
    assert theirs == numbers(bm25().retriever)
    assert theirs["n"] > 0


def chain() -> Any:
    from langchain_core.runnables import RunnableLambda

    return handbook_frameworks.langchain() | RunnableLambda(str)


def engine() -> Any:
    from llama_index.core import get_response_synthesizer
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine

    return RetrieverQueryEngine(handbook_frameworks.llamaindex(), get_response_synthesizer(llm=MockLLM()))


WHOLES = {"langchain": (chain, "RunnableSequence"), "llamaindex": (engine, "RetrieverQueryEngine")}


@pytest.mark.parametrize("name", WHOLES)
@pytest.mark.parametrize(
    "ask", [lambda one: noise_curve(one, SAMPLES, ["mrr"]), PerturbedRetriever], ids=["curve", "wrapper"]
)
def test_pipelines_are_rejected_by_their_own_name(name: str, ask: Callable[[Any], Any]) -> None:
    need(FRAMEWORKS[name])
    make, known = WHOLES[name]
    with pytest.raises(
        BadTypeError, match=f"a {known}( answers as a whole: give its retriever and its generator apart)?$"
    ):
        ask(make())
