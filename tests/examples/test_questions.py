"""The bundled questions: valid, complete, tied to the handbook, and borne out by it."""

from collections import Counter
from collections.abc import Callable

import pytest

from auepora_eval import EvaluationSample
from auepora_eval.examples.quickstart import systems as handbook
from auepora_eval.examples.quickstart.systems import plain_words, stems
from auepora_eval.features.texts import is_unanswerable
from auepora_eval.io.jsonl import load_jsonl_dataset
from auepora_eval.io.validate import validate_files
from helpers.checks import for_each

SAMPLES = list(load_jsonl_dataset(handbook.dataset_path()))
BY_ID = {sample.sample_id: sample for sample in SAMPLES}
CHUNKS = {chunk.doc_id: chunk for chunk in handbook.corpus()}
ANSWERABLE = [sample for sample in SAMPLES if not is_unanswerable(sample)]
VARIANTS = [sample for sample in SAMPLES if "variant_of" in sample.labels]
PLAIN = [sample for sample in ANSWERABLE if sample not in VARIANTS]


def of(samples: list[EvaluationSample]) -> Callable[[Callable[[EvaluationSample], None]], Callable[[], None]]:
    """One test over these samples."""
    return for_each(samples, name=lambda sample: sample.sample_id)


def test_questions_have_no_problems_or_warnings() -> None:
    found = validate_files(handbook.dataset_path())
    assert found.problems == []
    assert found.warnings == []
    assert all(one.metrics for one in found.targets), "a target that the questions cannot tell anything about"


LEAST = [("plain", 60), ("paraphrase", 12), ("typo", 12), ("unanswerable", 10), ("counterfactual", 8)]


@pytest.mark.parametrize(("scenario", "least"), LEAST, ids=[scenario for scenario, _ in LEAST])
def test_number_of_questions_per_scenario(scenario: str, least: int) -> None:
    assert Counter(sample.labels["scenario"] for sample in SAMPLES)[scenario] >= least


def test_known_scenarios_only() -> None:
    assert {sample.labels["scenario"] for sample in SAMPLES} == {scenario for scenario, _ in LEAST}


def test_some_questions_have_two_gold_chunks_or_levels() -> None:
    assert sum(len(sample.relevant_docs or []) == 2 for sample in PLAIN) >= 5
    levels = Counter(doc.metadata.get("relevance") for sample in PLAIN for doc in sample.relevant_docs or [])
    assert levels[2] >= 5
    assert levels[1] >= 5


def test_questions_are_unique() -> None:
    assert len(BY_ID) == len(SAMPLES)
    assert len({" ".join(plain_words(sample.query)) for sample in SAMPLES}) == len(SAMPLES)


@of(SAMPLES)
def test_every_question_is_labelled(sample: EvaluationSample) -> None:
    assert sample.labels["difficulty"] in ("easy", "medium", "hard")
    topics = {doc.parent for doc in sample.relevant_docs or []} or {"outside"}
    assert sample.labels["topic"] in topics


@of(ANSWERABLE)
def test_gold_chunks_match_the_handbook(sample: EvaluationSample) -> None:
    assert sample.relevant_docs
    for gold in sample.relevant_docs:
        chunk = CHUNKS[gold.doc_id]
        assert (gold.parent_id, gold.span) == (chunk.parent_id, chunk.span)
        assert gold.text == "", "texts are the corpus's"


@of(PLAIN)
def test_gold_chunks_support_the_references(sample: EvaluationSample) -> None:
    gold_stems = set(stems(" ".join(CHUNKS[gold.doc_id].text for gold in sample.relevant_docs or [])))
    for reference in sample.references:
        wanted = stems(reference)
        assert sum(stem in gold_stems for stem in wanted) >= 0.75 * len(wanted), reference


@of(PLAIN)
def test_questions_do_not_copy_sentences(sample: EvaluationSample) -> None:
    asked = " ".join(plain_words(sample.query))
    assert not [chunk.doc_id for chunk in CHUNKS.values() if asked in " ".join(plain_words(chunk.text))]


@of(VARIANTS)
def test_variants_have_the_gold_and_references_of_their_base(sample: EvaluationSample) -> None:
    base = BY_ID[sample.labels["variant_of"]]
    assert base.labels["scenario"] == "plain"
    assert sample.relevant_docs == base.relevant_docs
    assert sample.references == base.references
    assert sample.sample_id == f"{base.sample_id}-{sample.labels['scenario']}"


@of([sample for sample in VARIANTS if sample.labels["scenario"] == "typo"])
def test_typos_change_few_letters(sample: EvaluationSample) -> None:
    import rapidfuzz

    base = BY_ID[sample.labels["variant_of"]]
    assert 80 <= rapidfuzz.fuzz.ratio(sample.query, base.query) < 100


@of([sample for sample in SAMPLES if is_unanswerable(sample)])
def test_unanswerable_questions_have_no_gold(sample: EvaluationSample) -> None:
    assert sample.relevant_docs == []
    assert sample.reference_answer is None
