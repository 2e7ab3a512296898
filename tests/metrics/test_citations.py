"""Citations against known documents and against gold: rows by hand, and the definitions written as loops."""

import pickle
from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval import EvaluationSample, Response, Scores, SystemOutputs, evaluate, evaluate_stream, metric
from auepora_eval.core.registry import spec_of
from auepora_eval.errors import BadTypeError, BadValueError
from auepora_eval.metrics.citations import CitationCoverage, CitationGoldPrecision, CitationGoldRecall, cited_ids
from helpers.builders import output, sample


def cites(*lists: Any) -> list[dict[str, Any]]:
    """Sentences that cite these ids; a sentence of ``None`` says nothing about citations."""
    return [{"text": "s"} if ids is None else {"text": "s", "citations": ids} for ids in lists]


def answered(citations: Any = None, retrieved: str = "", sentences: Any = None, **fields: Any) -> SystemOutputs:
    out = output(retrieved, citations=citations, **fields)
    out.response = Response("an answer", sentences=sentences)
    return out


def outcome(one: Any, row: Any, out: SystemOutputs | None) -> Any:
    """The score, or why there is none."""
    result = one.compute([row], [out])
    ((score,), (text,)) = list(result.scores or ()), list(result.outcomes or ())
    return score if text == "scored" else text


COVERAGE: list[tuple[SystemOutputs, Any, Any, str]] = [  # output, corpus, want, why
    (answered(["a", "b"], "abc"), None, 1.0, "all cited were retrieved"),
    (answered(["a", "x"], "abc"), None, 0.0, "one of two is unknown"),
    (answered(["a", "a"], "a"), None, 1.0, "cited twice"),
    (answered([], "abc"), None, 0.0, "cites nothing"),
    (answered(["a"], ""), None, 0.0, "nothing retrieved, nothing known"),
    (answered(None, "abc"), None, "skipped:no_citations", "this system does not cite"),
    (answered(["x"], "abc"), ["x", "y"], 1.0, "known to the corpus though not retrieved"),
    (answered(["a"], "abc"), ["x", "y"], 0.0, "retrieved, but not of the corpus"),
    (answered([], "abc"), ["x"], 0.0, "cites nothing, with a corpus"),
    (answered(["A"], "abc"), None, 0.0, "ids are equal to the letter"),
    (answered([""], "abc"), None, 0.0, "an empty id is unknown"),
    (answered(["a"], "a", refused=True), None, "skipped:refused", "a refusal is not grounded"),
    (answered(None, "a", refused=True), None, "skipped:refused", "a refusal without citations"),
    (answered(["a"], "a", refused=False), None, 1.0, "not refused"),
    (output("a", citations=["a"]), None, "skipped:no_response", "no answer was asked for"),
    (answered(["x"], "a", error="timeout"), None, "system_failed:timeout", "an error is left out"),
    (answered(None, "ab", cites(["a"], ["b", "a"])), None, 1.0, "sentences cite"),
    (answered(None, "ab", cites(["a"], ["x"])), None, 0.0, "a sentence cites an unknown id"),
    (answered(None, "ab", cites([], [])), None, 0.0, "sentences that cite nothing"),
    (answered(None, "ab", cites(None, ["a"])), None, 1.0, "one sentence that cites is enough"),
    (answered(None, "ab", cites(None)), None, "skipped:no_citations", "sentences without the key"),
    (answered(None, "ab", []), None, 0.0, "no sentence at all is an empty list of citations"),
    (answered(["a"], "ab", cites(["x"])), None, 1.0, "citations of the answer come first"),
    (answered([], "ab", cites(["a"])), None, 0.0, "even where there are none"),
    (answered("a", "a"), None, "measure_failed:bad_citations", "a text is not a list"),
    (answered([1], "a"), None, "measure_failed:bad_citations", "an id that is a number"),
    (answered([["a"]], "a"), None, "measure_failed:bad_citations", "an id that is a list"),
    (answered(None, "a", "ab"), None, "measure_failed:bad_citations", "sentences that are a text"),
    (answered(None, "a", ["s"]), None, "measure_failed:bad_citations", "a sentence that is a text"),
    (answered(None, "a", cites("a")), None, "measure_failed:bad_citations", "a sentence citing a text"),
]


@pytest.mark.parametrize(("out", "corpus", "want"), [r[:3] for r in COVERAGE], ids=[r[3] for r in COVERAGE])
def test_coverage_by_hand(out: SystemOutputs, corpus: Any, want: Any) -> None:
    assert outcome(CitationCoverage(corpus), sample(), out) == want


def test_coverage_is_over_grounded_answers() -> None:
    outs = [
        answered(["a"], "a"),
        answered(["x"], "a"),
        answered(["a"], "a", error="boom"),
        answered([], "a", refused=True),
        None,
    ]
    (result,) = evaluate([sample(sample_id=str(i)) for i in range(5)], outs, ["citation_coverage"])
    assert result.value == 1 / 2  # the first two
    assert result.details["num_samples"] == 2
    assert CitationCoverage().worst is None


CORPORA: list[tuple[Any, str]] = [
    (["b", "a", "b"], "a list with a repeat"),
    (("a", "b"), "a tuple"),
    ({"a", "b"}, "a set"),
    ({"b": "text", "a": "text"}, "a mapping by id"),
    (iter("ab"), "an iterator"),
]


@pytest.mark.parametrize("ids", [row[0] for row in CORPORA], ids=[row[1] for row in CORPORA])
def test_any_iterable_of_ids_is_the_same_corpus(ids: Any) -> None:
    one = CitationCoverage(ids)
    assert one.corpus_ids == ("a", "b")
    assert (one, hash(one)) == (CitationCoverage(("a", "b")), hash(CitationCoverage(("a", "b"))))
    assert str(one.signature) == str(CitationCoverage(("a", "b")).signature)
    again = pickle.loads(pickle.dumps(metric(spec_of(one))))
    assert again == one
    assert outcome(again, sample(), answered(["b"], "")) == 1.0


def test_signature_identifies_the_corpus() -> None:
    assert str(CitationCoverage().signature) == "citation_coverage|corpus:retrieved|v1"
    texts = {str(CitationCoverage(ids).signature) for ids in (("a",), ("b",), ("a", "b"), ("a,b",), ('a","b',))}
    assert len(texts) == 5
    assert all(text.startswith("citation_coverage|corpus:given-") for text in texts)


def test_corpus_ids_replace_retrieved_documents() -> None:
    assert "retrieved" in CitationCoverage().metadata.reads
    assert "retrieved" not in CitationCoverage(("a",)).metadata.reads


GOLD: list[tuple[Any, SystemOutputs, dict[str, Any], Any, Any, str]] = [  # gold, output, rules, precision, recall, why
    ("ab", answered(["a", "x"]), {}, 1 / 2, 1 / 2, "one of two, both ways"),
    ("abc", answered(["a"]), {}, 1.0, 1 / 3, "right but not all"),
    ("a", answered(["a", "x", "y"]), {}, 1 / 3, 1.0, "all but not right"),
    ("a", answered(["a", "a", "x"]), {}, 1 / 2, 1.0, "cited twice counts once"),
    ("ab", answered(["x"]), {}, 0.0, 0.0, "none of them"),
    ("ab", answered([]), {}, 0.0, 0.0, "cites nothing"),
    ("ab", answered(None), {}, "skipped:no_citations", "skipped:no_citations", "does not cite"),
    (None, answered(["a"]), {}, "skipped:no_gold", "skipped:no_gold", "not annotated"),
    ("", answered(["a"]), {}, "skipped:empty_gold", "skipped:empty_gold", "nothing is relevant"),
    ("", answered(["a"]), {"empty_gold": "zero"}, 0.0, 0.0, "empty gold counts as 0"),
    ("", answered([]), {"empty_gold": "zero"}, 0.0, 0.0, "empty gold and no citation"),
    ("", answered(None), {"empty_gold": "zero"}, "skipped:no_citations", "skipped:no_citations", "no citations at all"),
    ("", answered(["a"]), {"empty_gold": "judged"}, "skipped:empty_gold", "skipped:empty_gold", "nothing was judged"),
    ({"a": 0}, answered(["a"]), {"empty_gold": "judged"}, 0.0, 0.0, "judged, and not relevant"),
    ({"a": -1}, answered(["a"]), {"empty_gold": "judged"}, "skipped:empty_gold", "skipped:empty_gold", "unjudged level"),
    ({"a": 0}, answered(["a"]), {}, "skipped:empty_gold", "skipped:empty_gold", "level 0 is not relevant"),
    ({"a": 2, "b": 1, "c": 0}, answered(["a", "b", "c"]), {}, 2 / 3, 1.0, "levels from 1 are relevant"),
    ({"a": 2, "b": 1, "c": 0}, answered(["a", "b"]), {"min_relevance": 2}, 1 / 2, 1.0, "or from 2"),
    ("aa", answered(["a"]), {}, 1.0, 1.0, "gold given twice counts once"),
    ("ab", answered(None, sentences=cites(["a"], ["x", "a"])), {}, 1 / 2, 1 / 2, "the union of the sentences"),
    ("ab", answered(None, sentences=cites([])), {}, 0.0, 0.0, "sentences that cite nothing"),
    ("a", answered([], refused=True), {}, 0.0, 0.0, "a refusal that was not called for"),
    ("a", answered(["a"], error="timeout"), {}, "system_failed:timeout", "system_failed:timeout", "a failure"),
    ("a", output(citations=["a"]), {}, "skipped:no_response", "skipped:no_response", "no answer was asked for"),
    ("a", answered("a"), {}, "measure_failed:bad_citations", "measure_failed:bad_citations", "a text is not a list"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("gold", "out", "rules", "precision", "recall"), [r[:5] for r in GOLD], ids=[r[5] for r in GOLD]
)
def test_gold_by_hand(gold: Any, out: SystemOutputs, rules: Any, precision: Any, recall: Any) -> None:
    row = sample(gold)
    assert outcome(metric("citation_gold_precision", **rules), row, out) == precision
    assert outcome(metric("citation_gold_recall", **rules), row, out) == recall


def test_candidate_is_a_judgement() -> None:
    row = sample("", candidates="x")
    assert outcome(metric("citation_gold_recall", empty_gold="judged"), row, answered(["x"])) == 0.0


def test_chunk_is_not_its_document() -> None:
    row, out = sample("d"), answered(["d#1"])
    assert row.relevant_docs is not None
    row.relevant_docs[0].parent_id = "d#1"
    assert outcome(CitationGoldPrecision(), row, out) == 0.0


def test_failure_counts_as_nothing_cited() -> None:
    rows = [sample("a", sample_id=str(i)) for i in range(4)]
    outs = [answered(["a"]), answered(None, error="boom"), answered(None), None]
    for name in ("citation_gold_precision", "citation_gold_recall"):
        for missing in ("fail", "zero"):
            (result,) = evaluate(rows, outs, [{name: {"missing": missing}}])
            assert list(result.scores or ()) == [1.0, 0.0, None, 0.0]
            assert result.value == 1 / 3


@pytest.mark.parametrize(
    ("level", "kind"), [("high", BadTypeError), (1.5, BadTypeError), (True, BadTypeError), (10**9, BadValueError)]
)
def test_invalid_level_stops_the_evaluation(level: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="relevance"):
        outcome(CitationGoldRecall(), sample({"a": level}), answered(["a"]))


@pytest.mark.parametrize("document", ["a", None, sample("a").relevant_docs], ids=["a text", "nothing", "a list"])
def test_gold_that_is_no_document_stops_the_evaluation(document: Any) -> None:
    row = sample("a")
    row.relevant_docs = [document]
    with pytest.raises(BadTypeError, match="not a Document"):
        outcome(CitationGoldRecall(), row, answered(["a"]))


def test_signature_shows_the_relevance_threshold_and_empty_gold() -> None:
    assert str(CitationGoldPrecision().signature) == "citation_gold_precision|empty:skip|v1"
    one = metric("citation_gold_recall", conventions="trec", min_relevance=2)
    assert str(one.signature) == "citation_gold_recall|empty:judged|rel:2|missing:skip|v1"  # type: ignore[attr-defined]


IDS = st.lists(st.sampled_from("abcdef"), max_size=8)


@given(IDS, IDS, IDS)
def test_definitions_as_loops(gold: list[str], cited: list[str], retrieved: list[str]) -> None:
    row, out = sample(gold), answered(cited, "".join(retrieved))
    right = [x for n, x in enumerate(cited) if x in gold and x not in cited[:n]]
    if gold:
        distinct = len(set(cited))
        assert outcome(CitationGoldPrecision(), row, out) == (len(right) / distinct if distinct else 0.0)
        assert outcome(CitationGoldRecall(), row, out) == len(right) / len(set(gold))
    known = [x in retrieved for x in cited]
    assert outcome(CitationCoverage(), row, out) == float(bool(known) and all(known))


def test_cited_ids_of_an_output_without_an_answer() -> None:
    assert cited_ids(SystemOutputs([])) is None
    assert cited_ids(SystemOutputs([], citations=["a"])) == {"a"}


MISSING_LISTS = [  # citations of each answer, expected outcomes, why
    ([None, None], ["skipped:no_citations"] * 2, "no answer of the run has a list"),
    ([None, ["a"]], [0.0, 1.0], "another answer cites"),
    ([None, []], [0.0, 0.0], "another answer has an empty list"),
    ([None, ["x"], None], [0.0, 0.0, 0.0], "another answer cites an unknown document"),
    ([None, "a"], [0.0, "measure_failed:bad_citations"], "another answer has a list that cannot be read"),
]


@pytest.mark.parametrize(
    ("lists", "expected"), [row[:2] for row in MISSING_LISTS], ids=[row[2] for row in MISSING_LISTS]
)
@pytest.mark.parametrize("keep_scores", [True, False])
def test_missing_lists_count_if_another_answer_has_one(
    lists: list[Any], expected: list[Any], keep_scores: bool
) -> None:
    samples = [EvaluationSample(str(n), "q") for n in range(len(lists))]
    outputs = [answered(one, "a") for one in lists]
    pairs = zip(samples, outputs, strict=True)
    (result,) = evaluate_stream(pairs, ["citation_coverage"], batch_size=1, keep_scores=keep_scores)
    numbers = [one for one in expected if isinstance(one, float)]
    assert result.defined == bool(numbers)
    assert result.value == (sum(numbers) / len(numbers) if numbers else 0.0)
    if keep_scores:
        assert isinstance(result.scores, Scores)
        outcomes = zip(result.scores, result.scores.outcomes, strict=True)
        assert [value if outcome == "scored" else outcome for value, outcome in outcomes] == expected
