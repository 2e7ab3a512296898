"""Gold units matched by id, span, text and parent document: rows by hand, and properties over random chunks."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from auepora_eval import evaluate, metric
from auepora_eval.core.batch import Batch
from auepora_eval.core.conventions import MATCHES, Conventions, Match
from auepora_eval.core.metrics_base import BatchMetric
from auepora_eval.core.scores import Scores
from auepora_eval.core.types import Document, EvaluationSample, RetrievedDocument, SystemOutputs
from auepora_eval.errors import AueporaWarning, BadValueError
from auepora_eval.features.hits import match_sample
from auepora_eval.features.matching import chunk_levels, covered_proportion, gold_units, unit_ranks
from helpers.requirements import examples

SENTENCE = "the quick brown fox jumps over the lazy dog while seven old owls watch"
OTHER = "nobody in this village ever saw a boat that was painted red and green"


def passage(parent: str, start: int, end: int, name: str = "", *, text: str = "", level: int | None = None) -> Document:
    metadata = {} if level is None else {"relevance": level}
    return Document(name or f"{parent}-{start}-{end}", text, metadata, parent_id=parent, span=(start, end))


def pair(
    gold: list[Document] | None, returned: list[Document], groups: list[list[str]] | None = None
) -> tuple[EvaluationSample, SystemOutputs]:
    found = [RetrievedDocument(doc, 1.0 / rank, rank) for rank, doc in enumerate(returned, 1)]
    return EvaluationSample("q", "?", gold, relevant_groups=groups or []), SystemOutputs(found)


def score(spec: Any, gold: list[Document] | None, returned: list[Document], match: Match, **rules: Any) -> float | str:
    """The value of one sample by the fast path, which must be that of the plain definition; or its outcome."""
    groups = rules.pop("groups", None)
    sample, output = pair(gold, returned, groups)
    (result,) = evaluate([sample], [output], [spec], conventions=Conventions.of("auepora", match=match, **rules))
    assert result.scores is not None
    built = metric(spec, match=match, **rules) if isinstance(spec, str) else metric(spec)
    if isinstance(spec, str):
        assert isinstance(built, BatchMetric)
        plain = built.reference(sample, output)
        assert plain is not None
        assert result.scores[0] == plain.value
        assert result.outcomes == [f"skipped:{plain.reason}" if plain.reason else "scored"]
    value = result.scores[0]
    return (result.outcomes or [""])[0] if value is None else value


# --- rows by hand ----------------------------------------------------------------------------------------------------

A, B = passage("D", 0, 100), passage("D", 100, 200)
BOTH = passage("D", 0, 200, "both")
FAR = passage("D", 900, 1000, "far")
WHOLE = Document("D")
ROWS: list[tuple[str, str, list[Document], list[Document], Match, float | str]] = [
    ("two units in one chunk", "recall@1", [A, B], [BOTH], "span", 1.0),
    ("two units in one chunk", "precision@1", [A, B], [BOTH], "span", 1.0),
    ("two units in one chunk", "f1@1", [A, B], [BOTH], "span", 1.0),
    ("two units in one chunk", "ndcg@2", [A, B], [BOTH], "span", 1.0),
    ("two units in one chunk", "map", [A, B], [BOTH], "span", 1.0),
    ("two units in one chunk", "r_precision", [A, B], [BOTH], "span", 1.0),
    ("a half suffices", "recall@1", [A], [passage("D", 0, 50)], "span", 1.0),
    ("44 of 100 characters do not", "recall@1", [A], [passage("D", 0, 44)], "span", 0.0),
    ("two chunks together", "mrr", [A], [passage("D", 0, 30), FAR, passage("D", 70, 100)], "span", 1 / 3),
    ("an overlap counts once", "recall@2", [A], [passage("D", 0, 40, "x"), passage("D", 0, 40, "y")], "span", 0.0),
    ("the same place in another document", "recall@1", [A], [passage("E", 0, 100)], "span", 0.0),
    ("a whole document", "recall@1", [A], [WHOLE], "span", 1.0),
    ("a whole document, its own parent", "recall@1", [A], [Document("D", parent_id="D")], "span", 1.0),
    ("a chunk of unknown place", "recall@2", [A], [Document("D#1", parent_id="D"), FAR], "span", 0.0),
    ("no span in the ranking", "recall@2", [A], [Document("D#1", parent_id="D")], "span", "skipped:unresolved_gold"),
    ("nothing retrieved is a miss", "recall@2", [A], [], "span", 0.0),
    ("gold without a span is found by id", "recall@2", [Document("x", parent_id="D")], [FAR, Document("x")], "span", 1.0),
    ("a chunk within a long passage", "precision@2", [passage("D", 0, 1000)], [A, FAR], "span", 1.0),
    ("a chunk next to it", "precision@2", [A], [A, B], "span", 0.5),
    ("a chunk that is returned twice", "precision@2", [A], [A, A], "span", 0.5),
    ("chunks that share an id", "precision@1", [A], [passage("D", 500, 600, "D"), passage("D", 0, 100, "D")], "span", 0.0),
    ("chunks that share an id", "precision@2", [A], [passage("D", 0, 50, "D"), passage("D", 50, 100, "D")], "span", 1.0),
    ("gold given twice", "recall@1", [A, A], [A], "span", 1.0),
    ("no gold is relevant", "recall@1", [], [A], "span", "skipped:empty_gold"),
    ("the first chunk of a document", "mrr", [WHOLE], [passage("E", 0, 9), A, B], "parent", 0.5),
    ("every chunk of a gold document", "precision@4", [WHOLE], [A, B, passage("E", 0, 9), FAR], "parent", 0.75),
    ("two passages of a document", "recall@1", [A, FAR], [B], "parent", 1.0),
    ("a chunk id without parent", "recall@1", [Document("D-0-100")], [A], "parent", 1.0),
    ("an unsplit document", "recall@1", [WHOLE], [WHOLE], "parent", 1.0),
    ("the same text", "recall@1", [Document("a", SENTENCE)], [Document("b", SENTENCE.upper() + "!")], "text", 1.0),
    ("another text", "recall@1", [Document("a", SENTENCE)], [Document("a", OTHER)], "text", 0.0),
    ("two halves", "mrr", [Document("a", SENTENCE)], [Document("b", SENTENCE[:28]), Document("c", SENTENCE[20:])], "text", 0.5),
    ("a short text is found by id", "recall@1", [Document("a", "nine")], [Document("a", "other")], "text", 1.0),
    ("no text in the ranking", "recall@1", [Document("a", SENTENCE)], [Document("a")], "text", "skipped:unresolved_gold"),
    ("a chunk without text", "recall@2", [Document("a", SENTENCE)], [Document("a"), Document("b", OTHER)], "text", 0.0),
    ("a chunk within the gold text", "precision@1", [Document("a", SENTENCE + " " + OTHER)], [Document("b", OTHER)], "text", 1.0),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}: {row[1]} by {row[4]}" for row in ROWS])
def test_by_hand(row: tuple[str, str, list[Document], list[Document], Match, float | str]) -> None:
    _, spec, gold, returned, match, want = row
    assert score(spec, gold, returned, match) == want


@pytest.mark.parametrize("spec", ["ndcg", "ndcg@2", "map", "map@2"])
def test_an_effective_k_counts_positions_of_units(spec: str) -> None:
    for depth in (None, 1):
        for gain in ("binary", "linear"):
            rules = {"k_policy": "effective", "depth": depth, "gain": gain, "ap": "capped"}
            graded = [passage("D", 0, 100, level=2), B]
            assert score(spec, graded, [BOTH], "span", **rules) == pytest.approx(1.0)


def test_of_units_in_one_chunk_the_higher_level_comes_first() -> None:
    low, high = passage("D", 0, 100, level=1), passage("D", 100, 200, level=3)
    assert score("ndcg@2", [low, high], [BOTH], "span", gain="linear") == 1.0


def test_a_chunk_has_the_level_of_the_units_in_which_it_lies() -> None:
    low = passage("D", 0, 1000, level=1)
    high = passage("E", 0, 100, level=2)
    units = gold_units(EvaluationSample("q", "?", [low, high]))
    assert chunk_levels(units, [passage("D", 0, 50), passage("E", 0, 50), FAR], "span") == [1, 2, 1]
    assert score("precision@1", [low, high], [passage("D", 0, 50)], "span", min_relevance=2) == 0.0


def test_the_depth_limits_which_chunks_cover_a_passage() -> None:
    halves = [passage("D", 0, 40), passage("D", 60, 100)]
    assert score("recall@5", [A], halves, "span") == 1.0
    assert score("recall@5", [A], halves, "span", depth=1) == 0.0


def test_a_query_without_judgements_is_skipped_where_the_conventions_require_it() -> None:
    assert score("recall@1", [], [A], "span", empty_gold="judged") == "skipped:empty_gold"
    assert score("recall@1", [passage("D", 0, 9, level=0)], [A], "span", empty_gold="judged") == 0.0


def test_words_decide_where_the_text_is_known() -> None:
    text = "a b c d e f g h extraordinarily internationally"
    gold = passage("D", 0, len(text), text=text)
    assert covered_proportion(gold, [(0, 15)]) == 0.8
    assert covered_proportion(passage("D", 0, len(text)), [(0, 15)]) == 15 / len(text)


def test_characters_are_the_words_of_scripts_without_spaces() -> None:
    text = "北京的春天很短但是非常美丽许多人去公园散步"
    gold = passage("D", 0, len(text), text=text)
    assert covered_proportion(gold, [(0, len(text) // 2)]) == pytest.approx(0.5, abs=0.05)


def test_the_text_of_another_document_is_no_hit_and_is_reported() -> None:
    gold = Document("a", SENTENCE, parent_id="policy-2023")
    sample, output = pair([gold], [Document("b", SENTENCE, parent_id="policy-2024")])
    rules = Conventions.of("auepora", match="text")
    with pytest.warns(AueporaWarning, match="the text of gold was retrieved in another document"):
        (result,) = evaluate([sample], [output], ["recall@1"], conventions=rules)
    assert result.value == 0.0
    built = metric("recall@1", match="text")
    assert isinstance(built, BatchMetric)
    assert "The text of a was retrieved in another document" in str(built.explain(sample, output))


def test_a_group_is_found_at_its_first_member_and_counts_once() -> None:
    gold = [Document("a"), Document("b"), Document("c")]
    returned = [Document("x"), Document("b"), Document("a")]
    groups = [["a", "b"]]
    assert score("recall@2", gold, returned, "id", groups=groups) == 0.5
    assert score("mrr", gold, returned, "id", groups=groups) == 0.5
    assert score("precision@3", gold, returned, "id", groups=groups) == pytest.approx(2 / 3)


def test_each_passage_of_a_document_is_a_unit_by_span_and_all_are_one_by_id() -> None:
    gold = [Document("D", span=(0, 100)), Document("D", span=(100, 200)), Document("D", span=(0, 100))]
    assert score("recall@1", gold, [A, B], "span") == 1 / 2, "the second passage is at rank 2, the first is given twice"
    assert score("recall@2", gold, [A, B], "span") == 1.0
    assert score("recall@1", gold, [A, B], "parent") == 1.0, "one document"
    assert score("recall@1", gold, [Document("D")], "id") == 1.0, "one id"
    texts = [Document("D", SENTENCE), Document("D", OTHER)]
    assert score("recall@5", texts, [Document("x", SENTENCE)], "text") == 1 / 2, "one of two texts"


def test_residual_by_id_counts_judged_positions_also_where_gold_is_grouped() -> None:
    plain, output = pair([Document("a")], [Document("a"), Document("z")])
    plain.candidate_docs = [Document("z")]
    grouped, _ = pair([Document("a"), Document("b")], [], [["a", "b"]])
    built = metric("rbp")
    assert isinstance(built, BatchMetric)
    alone = built.score(Batch([plain], [output]))
    together = built.score(Batch([plain, grouped], [output, output]))
    assert alone.stats is not None
    assert together.stats is not None
    assert hasattr(built, "reference_stats")
    assert alone.stats[0] == together.stats[0] == built.reference_stats(plain, output)


def test_a_level_above_the_highest_is_an_error_in_every_way() -> None:
    gold = [passage("D", 0, 100, level=3)]
    for match in MATCHES:
        with pytest.raises(BadValueError, match="above"):
            score({"err": {"max_grade": 2, "match": match}}, gold, [A], match)


@pytest.mark.parametrize("match", MATCHES)
def test_failed_and_missing_outputs_find_nothing(match: Match) -> None:
    sample, output = pair([passage("D", 0, 100, text="")], [A])
    failed = SystemOutputs(output.retrieved, error="timeout")
    rules = Conventions.of("auepora", match=match)
    results = evaluate([sample, sample], [failed, None], ["recall@1", "ndcg@2", "precision@1"], conventions=rules)
    for result in results:
        assert result.scores is not None
        assert list(result.scores) == [0.0, 0.0]


def test_metrics_that_compare_ids_have_no_value_in_another_way() -> None:
    for spec in ("judged@2", "bpref", "aqwv"):
        assert score(spec, [A], [A], "span") == "skipped:match"
    assert score("recall_doc@1", [A], [B], "span") == 1.0


# --- properties ------------------------------------------------------------------------------------------------------

WORDS = (SENTENCE + " " + OTHER + " " + SENTENCE.replace("fox", "cat")).split()
TEXTS = {"D": " ".join(WORDS), "E": " ".join(reversed(WORDS)), "F": " ".join(WORDS[::2])}


@st.composite
def chunks(draw: st.DrawFn) -> Document:
    parent = draw(st.sampled_from(sorted(TEXTS)))
    if draw(st.integers(0, 9)) == 0:
        return Document(parent, draw(st.sampled_from(["", TEXTS[parent]])))
    start = draw(st.integers(0, 150))
    end = start + draw(st.integers(1, 120))
    text = draw(st.sampled_from([TEXTS[parent][start:end], ""]))
    name = draw(st.sampled_from(["a", "b", "c", parent, f"{parent}-{start}-{end}"]))
    fields: dict[str, Any] = {"parent_id": draw(st.sampled_from([parent, parent, parent, None]))}
    fields["span"] = draw(st.sampled_from([(start, start + len(TEXTS[parent][start:end])), None]))
    return Document(name, text, **fields)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[EvaluationSample, SystemOutputs]:
    gold = draw(st.none() | st.lists(chunks(), max_size=5))
    for doc in gold or ():
        level = draw(st.sampled_from([None, None, -1, 0, 1, 2, 3]))
        if level is not None:
            doc.metadata["relevance"] = level
    ids = sorted({doc.doc_id for doc in gold or ()})
    groups: list[list[str]] = []
    if ids:
        groups = draw(st.lists(st.lists(st.sampled_from(ids), min_size=1, max_size=3), max_size=2))
    returned = draw(st.lists(chunks(), max_size=7))
    repeats, finds = draw(st.tuples(st.booleans(), st.booleans()))
    if returned and repeats:
        returned.append(returned[0])
    if gold and finds:
        returned.append(Document(gold[0].doc_id, gold[0].text, parent_id=gold[0].parent_id, span=gold[0].span))
    return pair(gold, returned, groups)


SPECS: list[str | dict[str, Any]] = [
    "recall@1", "recall@3", "precision@1", "precision@3", "f1@2", "hit_rate@2", "mrr", "mrr@2", "map", "map@2", "ndcg",
    "ndcg@2", {"ndcg": {"gain_scheme": "linear", "as": "linear"}},
    {"ndcg@3": {"gain_scheme": "exponential", "ties": "average", "as": "ties"}}, "r_precision", "rbp",
    {"err": {"max_grade": 3}}, {"err@2": {"max_grade": 3}},
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::auepora_eval.errors.AueporaWarning")
@pytest.mark.parametrize("match", MATCHES)
@given(
    cases=st.lists(pairs(), min_size=1, max_size=4),
    min_relevance=st.integers(1, 2),
    depth=st.none() | st.integers(1, 4),
    k_policy=st.sampled_from(["written", "effective"]),
    empty_gold=st.sampled_from(["skip", "zero", "judged"]),
)
@settings(max_examples=examples(150))
def test_fast_equals_plain_and_lies_between_0_and_1(match: Match, cases: list[Any], **rules: Any) -> None:
    cases.append(pair([A], [A]))
    samples, outputs = [sample for sample, _ in cases], [output for _, output in cases]
    conventions = Conventions.of("auepora", match=match, ap="capped", **rules)
    results = evaluate(samples, outputs, SPECS, conventions=conventions)
    for spec, result in zip(SPECS, results, strict=True):
        built = metric(spec, conventions=conventions)
        assert isinstance(built, BatchMetric)
        assert isinstance(result.scores, Scores)
        for row, (sample, output) in enumerate(cases):
            plain = built.reference(sample, output)
            assert plain is not None
            assert result.scores[row] == plain.value, (spec, sample, output)
            assert (result.outcomes or [])[row] == (f"skipped:{plain.reason}" if plain.reason else "scored")
            assert plain.value is None or 0.0 <= plain.value <= 1.0 + 1e-12
            if plain.value is not None and result.scores.stats is not None and hasattr(built, "reference_stats"):
                assert result.scores.stats[row].tolist() == list(built.reference_stats(sample, output))


@given(case=pairs(), match=st.sampled_from(MATCHES))
@settings(max_examples=examples(200))
def test_positions_are_distinct_and_never_before_the_rank(case: Any, match: Match) -> None:
    sample, output = case
    found = match_sample(sample, [item.doc for item in output.retrieved], match)
    assert all(place >= rank for place, rank in zip(found.placed, found.reached, strict=True))
    assert all(first < second for first, second in pairwise(found.placed))
    assert len(found.units) <= len(sample.relevant_docs or ())


@given(
    gold=st.lists(st.integers(0, 9), max_size=5, unique=True),
    returned=st.lists(st.integers(0, 9), max_size=9, unique=True),
    min_relevance=st.integers(1, 2),
)
@settings(max_examples=examples(150))
def test_every_way_is_that_by_id_where_no_chunk_completes_two_units(
    gold: list[int], returned: list[int], min_relevance: int
) -> None:
    texts = [f"{SENTENCE} {' '.join(f'w{number}{word}' for word in range(40))}" for number in range(10)]

    def document(number: int) -> Document:
        return Document(f"d{number}", texts[number], span=(0, len(texts[number])))

    relevant = [document(number) for number in gold]
    for number, doc in zip(gold, relevant, strict=True):
        doc.metadata["relevance"] = 1 + number % 3
    sample, output = pair(relevant, [document(number) for number in returned])
    values = []
    for match in MATCHES:
        rules = Conventions.of("auepora", match=match, min_relevance=min_relevance)
        values.append([list(result.scores or ()) for result in evaluate([sample], [output], SPECS, conventions=rules)])
    assert values[0] == values[1] == values[2] == values[3]


@given(
    spans=st.lists(st.tuples(st.integers(0, 150), st.integers(10, 100)), min_size=1, max_size=4),
    returned=st.lists(st.tuples(st.integers(0, 150), st.integers(5, 100)), min_size=1, max_size=5),
    width=st.integers(1, 60),
    has_text=st.booleans(),
)
@settings(max_examples=examples(150))
def test_the_same_text_cut_again_has_the_same_recall_by_span(
    spans: list[tuple[int, int]], returned: list[tuple[int, int]], width: int, has_text: bool
) -> None:
    text = TEXTS["D"]
    gold = []
    for start, length in spans:
        end = min(start + length, len(text))
        gold.append(passage("D", start, end, text=text[start:end] if has_text else ""))
    before = [passage("D", start, start + length) for start, length in returned]
    after = []
    for start, length in returned:
        cuts = range(start, start + length, width)
        after += [passage("D", cut, min(cut + width, start + length)) for cut in cuts]
    units = gold_units(EvaluationSample("q", "?", gold), "span")
    found = [[rank.rank is not None for rank in unit_ranks(units, cut, "span")] for cut in (before, after)]
    assert found[0] == found[1]
