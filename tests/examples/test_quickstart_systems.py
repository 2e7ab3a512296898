"""The two bundled systems, run by their own plans: their outputs, and that one is clearly better."""

import functools
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import yaml

from auepora_eval import (
    AueporaEvaluator,
    Document,
    EvaluationSample,
    InMemoryDataset,
    Results,
    TargetCategory,
    evaluate,
)
from auepora_eval.core.rag_interface import SimpleRAGSystem
from auepora_eval.examples.quickstart import systems, systems as handbook
from auepora_eval.examples.quickstart.systems import (
    REFUSAL,
    BestSentenceGenerator,
    BM25Retriever,
    LeadSentenceGenerator,
    SharedWordsRetriever,
    sentences,
    stems,
    weights,
)
from auepora_eval.io.jsonl import load_jsonl_dataset

NAMES = ("bm25", "baseline")
BOTH = pytest.mark.parametrize("name", NAMES)
CHUNKS = {chunk.doc_id: chunk for chunk in handbook.corpus()}


def plan(name: str) -> dict[str, Any]:
    values = yaml.safe_load(handbook.plan_path(name).read_text(encoding="utf-8"))
    assert isinstance(values, dict)
    return values


@functools.cache
def evaluated(name: str) -> AueporaEvaluator:
    given = plan(name)
    system = getattr(systems, name)()
    evaluator = AueporaEvaluator(system, given["metrics"], top_k=given["run"]["top_k"])
    samples = list(load_jsonl_dataset(handbook.dataset_path()))
    evaluator.evaluate(InMemoryDataset("quickstart", samples), slices=given["slices"])
    return evaluator


def results(name: str) -> Results:
    return evaluated(name).results


@BOTH
def test_every_metric_of_the_plan_has_a_value(name: str) -> None:
    assert [result.name for result in results(name) if not result.defined] == []
    assert [result.name for result in results(name) if result.details["num_failed"]] == []


@BOTH
def test_plan_covers_every_target(name: str) -> None:
    assert {result.target for result in results(name)} == set(TargetCategory) - {TargetCategory.COST}  # no usage


def test_both_plans_have_the_same_metrics() -> None:
    first, second = plan("bm25"), plan("baseline")
    differ = {key for key in first.keys() | second.keys() if first.get(key) != second.get(key)}
    assert differ == {"name", "system"}
    signatures = [[result.signature for result in results(name)] for name in NAMES]
    assert signatures[0] == signatures[1]


@BOTH
def test_plan_names_its_system(name: str) -> None:
    module, _, attribute = plan(name)["system"]["python"].partition(":")
    assert module == systems.__name__
    assert attribute == name
    assert handbook.plan_path(name).parent / plan(name)["dataset"]["jsonl"] == handbook.dataset_path()


MARGINS = [
    ("recall@5", 0.1),
    ("mrr@10", 0.1),
    ("token_f1", 0.1),
    ("citation_gold_precision", 0.1),
    ("rejection_f1", 0.3),
]


@pytest.mark.parametrize(("metric", "margin"), MARGINS, ids=[metric for metric, _ in MARGINS])
def test_bm25_is_clearly_better(metric: str, margin: float) -> None:
    better, weaker = (results(name).by_name[metric].value for name in NAMES)
    assert better > weaker + margin


def test_bm25_is_good_and_not_perfect() -> None:
    found = results("bm25").by_name
    assert 0.75 <= found["recall@5"].value <= 0.95
    assert 0.5 <= found["negative_rejection_rate"].value < 1
    assert 0 < found["over_refusal_rate"].value <= 0.15
    assert found["counterfactual_consistency"].value > found["noise_robustness_answers"].value


def test_baseline_never_declines() -> None:
    assert not any(output.refused for output in evaluated("baseline").outputs)
    assert results("baseline").by_name["over_refusal_rate"].value == 0


def test_refusal_is_detected_by_phrases() -> None:
    evaluator = evaluated("bm25")
    assert any(output.refused for output in evaluator.outputs)
    silent = [replace(output, refused=None) for output in evaluator.outputs]
    for result in evaluate(evaluator.samples, silent, ["negative_rejection_rate", "over_refusal_rate"]):
        assert list(result.scores or []) == list(evaluator.results.by_name[result.name].scores or [])


@BOTH
def test_answer_is_a_sentence_of_its_cited_chunk(name: str) -> None:
    for output in evaluated(name).outputs:
        assert output.response is not None
        if output.refused:
            assert output.citations == []
        else:
            (cited,) = output.citations or []
            assert cited in [found.doc.doc_id for found in output.retrieved]
            assert output.response.text in sentences(CHUNKS[cited].text)
            assert output.response.sentences == [{"text": output.response.text, "citations": [cited]}]


@BOTH
def test_rankings_are_ordered_without_duplicates(name: str) -> None:
    for output in evaluated(name).outputs:
        assert [found.rank for found in output.retrieved] == list(range(1, len(output.retrieved) + 1))
        scores = [found.score for found in output.retrieved]
        assert scores == sorted(scores, key=lambda score: -(score or 0))
        assert max(Counter(found.doc.doc_id for found in output.retrieved).values(), default=1) == 1
        assert len(output.retrieved) <= 10


@BOTH
def test_answers_are_deterministic(name: str) -> None:
    again = getattr(systems, name)()
    evaluator = evaluated(name)
    for sample, output in zip(evaluator.samples, evaluator.outputs, strict=True):
        repeated = again.run(sample, top_k=10)
        assert (repeated.retrieved, repeated.response) == (output.retrieved, output.response)


@BOTH
def test_systems_are_thread_safe(name: str) -> None:
    evaluator, system = evaluated(name), getattr(systems, name)()
    with ThreadPoolExecutor(4) as pool:
        answered = list(pool.map(lambda sample: system.run(sample, top_k=10), evaluator.samples))
    assert [output.response for output in answered] == [output.response for output in evaluator.outputs]
    assert [output.retrieved for output in answered] == [output.retrieved for output in evaluator.outputs]


@BOTH
def test_systems_read_only_the_question(name: str) -> None:
    system = getattr(systems, name)()
    sample = next(iter(load_jsonl_dataset(handbook.dataset_path())))
    bare = EvaluationSample("other", sample.query)
    assert system.run(bare, top_k=5).retrieved == system.run(sample, top_k=5).retrieved


@BOTH
def test_system_has_two_parts_and_a_config(name: str) -> None:
    system: systems.QuotingSystem = getattr(systems, name)()
    assert isinstance(system, SimpleRAGSystem)
    assert system.config["chunker_version"] == handbook.CHUNKER_VERSION
    assert {"retriever", "model", "prompt_version"} <= set(system.config)


STRANGE = [
    ("", "empty"),
    ("   ?!", "no word"),
    ("the of and", "stop words alone"),
    ("zyzzyva qwertz", "words that nobody uses"),
    ("大阪", "another script"),
]


@BOTH
@pytest.mark.parametrize("query", [query for query, _ in STRANGE], ids=[why for _, why in STRANGE])
def test_unusual_questions_get_an_answer(name: str, query: str) -> None:
    output = getattr(systems, name)().run(EvaluationSample("1", query), top_k=3)
    assert output.response is not None
    if name == "bm25":
        assert (output.retrieved, output.refused, output.response.text) == ([], True, REFUSAL)


TOY = [
    Document("a", "The Rhine is long. It flows into the North Sea."),
    Document("b", "The Danube is the longer river. It flows into the Black Sea."),
    Document("c", "The Alps are high. The river begins there, and the river is the cold one."),
]


def test_only_bm25_weights_rare_words() -> None:
    query = "is the one river the Danube"
    assert BM25Retriever(TOY).retrieve(query, top_k=1)[0].doc.doc_id == "b"
    # is, the, river, Danube against is, the, one, river
    tied = SharedWordsRetriever(TOY).retrieve(query, top_k=3)
    assert [(found.doc.doc_id, found.score) for found in tied] == [("b", 4.0), ("c", 4.0), ("a", 2.0)]


QUOTES = [  # question, answer, why
    ("Into which sea does the Danube flow?", "It flows into the Black Sea.", "the chunk names the subject"),
    ("Which river is longer?", "The Danube is the longer river.", "the sentence that holds most"),
    ("Who painted the Mona Lisa in Paris?", REFUSAL, "no chunk holds any of it"),
]


@pytest.mark.parametrize(("query", "answer"), [row[:2] for row in QUOTES], ids=[row[2] for row in QUOTES])
def test_best_sentence_is_quoted(query: str, answer: str) -> None:
    generator = BestSentenceGenerator(weights(document.text for document in TOY))
    assert generator.generate(query, [TOY[1], TOY[0]]).text == answer


def test_first_sentence_is_quoted() -> None:
    assert LeadSentenceGenerator().generate("Sea?", TOY[1:]).text == "The Danube is the longer river."
    assert LeadSentenceGenerator().generate("Sea?", []).text == ""


WORDS = [
    ("Ranked results, and the ranking of a result", ["rank", "result", "rank", "result"], "stems without stop words"),
    ("recall@5", ["recal", "5"], "numbers are words"),
]


@pytest.mark.parametrize(("text", "want"), [row[:2] for row in WORDS], ids=[row[2] for row in WORDS])
def test_stems(text: str, want: list[str]) -> None:
    assert stems(text) == want


def test_sentences_end_before_a_capital_or_a_digit() -> None:
    assert sentences("See a.b and e.g. this. Then that? 0 is fine.") == [
        "See a.b and e.g. this.",
        "Then that?",
        "0 is fine.",
    ]
