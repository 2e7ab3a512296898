"""Diversity of answers and of returned documents: hand-made cosines with their reasons."""

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from auepora_eval import (
    AueporaWarning,
    BatchMetric,
    Document,
    EvaluationSample,
    RetrievedDocument,
    SystemOutputs,
    evaluate,
    metric,
)
from auepora_eval.core.metrics_base import RunInfo
from auepora_eval.core.registry import spec_of
from auepora_eval.errors import BadTypeError, MetricDefinitionError
from auepora_eval.features.embeddings import unit_vector
from auepora_eval.metrics.additional import DistinctN, IntraListDiversity, ResponseDiversity
from helpers.builders import output, sample
from helpers.requirements import examples
from helpers.suggestions import suggest_metrics
from helpers.texts import TEXT

ABOUT = 1e-12
SAMPLE = EvaluationSample("1", "why?")


def listed(*vectors: Any, texts: Any = ()) -> SystemOutputs:
    """An output whose documents have these vectors, or these texts."""
    documents = [Document(f"d{at}", metadata={"embedding": vector}) for at, vector in enumerate(vectors)]
    documents += [Document(f"t{at}", text) for at, text in enumerate(texts)]
    return SystemOutputs([RetrievedDocument(document, None, rank) for rank, document in enumerate(documents, 1)])


def answered(*texts: str | None) -> tuple[list[EvaluationSample], list[SystemOutputs]]:
    rows = [sample(sample_id=f"q{at}") for at in range(len(texts))]
    return rows, [output(answer=text) for text in texts]


def outcome(built: BatchMetric, out: SystemOutputs) -> Any:
    """The score of one output, or how it was not scored."""
    result = built.compute([SAMPLE], [out])
    (score,), (text,) = list(result.scores or ()), list(result.outcomes or ())
    return score if text == "scored" else text


# --- distinct n-grams -----------------------------------------------------------------------------------------------

DISTINCT: list[tuple[list[str | None], int, Any, str]] = [  # answers, n, want, why
    (["the cat sat"], 1, 3 / 3, "all words differ"),
    (["the cat the cat"], 1, 2 / 4, "two of four"),
    (["the cat the cat"], 2, 2 / 3, "the cat, cat the, the cat"),
    (["the cat", "the cat"], 2, 1 / 2, "answers that repeat each other"),
    (["a b", "c d"], 2, 2 / 2, "no n-gram goes across two answers"),
    (["The CAT!", "the cat"], 1, 2 / 4, "case and punctuation do not count"),
    (["a b c", "d"], 2, 2 / 2, "one too short is left out"),
    (["a b", None], 1, 2 / 2, "and one that was not asked for"),
    (["a"], 2, None, "none long enough"),
    ([""], 1, None, "no word"),
]


@pytest.mark.parametrize(("texts", "n", "want"), [r[:3] for r in DISTINCT], ids=[r[3] for r in DISTINCT])
def test_distinct(texts: list[str | None], n: int, want: float | None) -> None:
    result = DistinctN(n).compute(*answered(*texts))
    assert (result.value if result.defined else None) == want
    assert result.interval is None
    plain = DistinctN(n).reference_value(*answered(*texts))
    assert plain == pytest.approx(math.nan if want is None else want, nan_ok=True)


# --- documents unlike each other ------------------------------------------------------------------------------------

HALF = [math.cos(math.pi / 3), math.sin(math.pi / 3)]  # at 60 degrees to [1, 0], a cosine of 1/2
LISTS: list[tuple[list[Any], float, str]] = [  # vectors, want, why
    ([[1, 0], [0, 1]], 1, "at right angles: a cosine of 0"),
    ([[1, 0], [1, 0]], 0, "the same twice: a document returned twice"),
    ([[1, 0], [5, 0]], 0, "length does not count"),
    ([[1, 0], [-2, 0]], 2, "opposites"),
    ([[1, 0], HALF], 1 / 2, "a cosine of one half"),
    ([[1, 0], [1, 0], [0, 1]], 1 - (1 + 0 + 0) / 3, "one pair of three alike"),
    ([[1, 0], HALF, [0, 1]], 1 - (1 / 2 + 0 + math.cos(math.pi / 6)) / 3, "three pairs"),
    ([[1.0] * 768] * 5, 0, "five times the same long vector"),
    ([[1], [1]], 0, "one number is a vector"),
    ([[1e200, 0], [0, 1e-200]], 1, "squares beyond all floats"),
    ([(1, 0), np.array([0, 1], dtype=np.float32)], 1, "tuples and arrays"),
    ([[np.float64(1), np.int64(0)], [0, 2]], 1, "numbers of numpy's in a list"),
]


@pytest.mark.parametrize(("vectors", "want"), [r[:2] for r in LISTS], ids=[r[2] for r in LISTS])
def test_documents_by_hand(vectors: list[Any], want: float) -> None:
    assert outcome(IntraListDiversity(), listed(*vectors)) == pytest.approx(want, abs=ABOUT)
    plain = IntraListDiversity().reference(SAMPLE, listed(*vectors))
    assert plain.value == pytest.approx(want, abs=ABOUT)


NO, BAD, ZERO = "skipped:no_embedding", "measure_failed:bad_embedding", "measure_failed:zero_vector"
UNUSABLE: list[tuple[list[Any], str, str]] = [
    ([], "skipped:too_few_documents", "nothing returned"),
    ([[1, 0]], "skipped:too_few_documents", "one document"),
    ([None], "skipped:too_few_documents", "one without a vector"),
    ([[1, 0], None], NO, "one of two has no vector"),
    ([None, "x"], NO, "a skip wins over a failure"),
    ([[1, 0], [1, 0, 0]], BAD, "vectors of unequal length"),
    ([[1, 0], [math.nan, 0]], BAD, "not a number"),
    ([[1, 0], [math.inf, 0]], BAD, "without end"),
    ([[1, 0], ["1", "0"]], BAD, "texts"),
    ([[1, 0], "10"], BAD, "a text"),
    ([[1, 0], [True, False]], BAD, "truths"),
    ([[1, 0], [1, None]], BAD, "a hole"),
    ([[1, 0], [[1, 0]]], BAD, "a table"),
    ([[1, 0], []], BAD, "nothing in it"),
    ([[1, 0], 5], BAD, "a number"),
    ([[1, 0], {"a": 1}], BAD, "an object"),
    ([[1, 0], [10**400, 0]], BAD, "too large for a float"),
    ([[1, 0], np.array([True, False])], BAD, "an array of truths"),
    ([[1, 0], np.eye(2)], BAD, "an array of two dimensions"),
    ([[1, 0], np.array([1j, 0])], BAD, "an array of complex numbers"),
    ([[1, 0], [0, 0]], ZERO, "no direction"),
    ([[0, 0], [0, 0]], ZERO, "none has any"),
    ([[0, 0], [math.nan, 0]], BAD, "what is no vector at all comes first"),
]


@pytest.mark.parametrize(("vectors", "want"), [r[:2] for r in UNUSABLE], ids=[r[2] for r in UNUSABLE])
def test_vectors_that_cannot_be_used(vectors: list[Any], want: str) -> None:
    assert outcome(IntraListDiversity(), listed(*vectors)) == want
    plain = IntraListDiversity().reference(SAMPLE, listed(*vectors))
    assert f"{plain.status.name.lower()}:{plain.reason}" == want


def test_only_the_first_k_are_read() -> None:
    vectors = [[1, 0], [1, 0], [0, 1], "x"]
    assert outcome(IntraListDiversity(top_k=2), listed(*vectors)) == pytest.approx(0, abs=ABOUT)
    assert outcome(IntraListDiversity(3), listed(*vectors)) == pytest.approx(2 / 3)
    assert outcome(IntraListDiversity(1), listed(*vectors)) == "skipped:too_few_documents"
    assert outcome(IntraListDiversity(None), listed(*vectors)) == BAD
    cut = IntraListDiversity(None, overrides=(("depth", 3),))
    assert outcome(cut, listed(*vectors)) == pytest.approx(2 / 3)


def test_metadata_that_is_none() -> None:
    out = listed([1, 0], [0, 1])
    out.retrieved[0].doc.metadata = None  # type: ignore[assignment]
    assert outcome(IntraListDiversity(), out) == NO


def test_failures_are_left_out_and_not_looked_at() -> None:
    rows = [sample(sample_id=str(at)) for at in range(4)]
    broken = listed("x", "y")
    broken.error = "timeout"
    outs = [listed([1, 0], [0, 1]), broken, None, listed()]
    (result,) = evaluate(rows, outs, ["intra_list_diversity@5"])
    assert list(result.outcomes or ()) == [
        "scored",
        "system_failed:timeout",
        "system_failed:missing_output",
        "skipped:too_few_documents",
    ]
    assert (result.value, result.details["num_samples"]) == (1.0, 1)


def test_bounds_of_what_could_not_be_measured() -> None:
    rows = [sample(sample_id=str(at)) for at in range(2)]
    (result,) = evaluate(rows, [listed([1, 0], [0, 1]), listed([1, 0], [0, 0])], ["intra_list_diversity@5"])
    assert result.details["bounds"] == [1 / 2, 3 / 2]  # the other one may lie anywhere from 0 to 2


def test_output_that_lists_no_documents() -> None:
    out = SystemOutputs([RetrievedDocument("d1", 1.0, 1), RetrievedDocument(Document("d2"), 1.0, 2)])  # type: ignore[arg-type]
    with pytest.raises(BadTypeError, match="the output for sample '1' cannot be used: position 1 of 'retrieved' holds"):
        outcome(IntraListDiversity(), out)
    bare = SystemOutputs(["d1", "d2"])  # type: ignore[list-item]
    with pytest.raises(BadTypeError, match="position 1 of 'retrieved' is a str, not a RetrievedDocument"):
        outcome(IntraListDiversity(), bare)


VECTOR = st.lists(st.floats(-10, 10), min_size=3, max_size=3).filter(lambda vector: any(abs(x) > 1e-3 for x in vector))


@given(st.lists(st.lists(VECTOR, min_size=2, max_size=6), min_size=1, max_size=5), st.integers(2, 6))
@settings(max_examples=examples(60))
def test_batch_path_is_the_plain_definition(lists: list[list[list[float]]], k: int) -> None:
    rows = [sample(sample_id=str(at)) for at in range(len(lists))]
    outs = [listed(*vectors) for vectors in lists]
    (result,) = evaluate(rows, outs, [f"intra_list_diversity@{k}"])
    for at, (row, out) in enumerate(zip(rows, outs, strict=True)):
        want = IntraListDiversity(k).reference(row, out).value
        assert want is not None
        assert result.scores is not None
        assert result.scores[at] == pytest.approx(want, abs=ABOUT)
        assert evaluate([row], [out], [f"intra_list_diversity@{k}"])[0].value == result.scores[at]  # to the last bit


@given(st.lists(VECTOR, min_size=2, max_size=6), st.floats(0.01, 100))
def test_scaling_every_vector_changes_nothing(vectors: list[list[float]], factor: float) -> None:
    scaled = [[factor * x for x in vector] for vector in vectors]
    first, second = (outcome(IntraListDiversity(), listed(*these)) for these in (vectors, scaled))
    assert first == pytest.approx(second, abs=ABOUT)
    assert 0 <= first <= 1 + 1 / (len(vectors[:5]) - 1) + ABOUT  # all cannot be opposite to each other


def test_vector_has_length_one() -> None:
    unit = unit_vector([3.0, 4.0])
    assert not isinstance(unit, str)
    assert unit.tolist() == pytest.approx([3 / 5, 4 / 5])


def test_rows_in_chunks_are_equal_to_all_rows() -> None:
    rng = np.random.default_rng(0)
    outs = [listed(*rng.normal(size=(int(rng.integers(2, 7)), int(rng.choice([3, 8])))).tolist()) for _ in range(300)]
    rows = [sample(sample_id=str(at)) for at in range(300)]
    whole = evaluate(rows, outs, ["intra_list_diversity@5", "intra_list_diversity@3"])
    assert evaluate(rows, outs, ["intra_list_diversity@5", "intra_list_diversity@3"], batch_size=1) == whole
    order = random.Random(0).sample(range(300), 300)
    again = evaluate([rows[at] for at in order], [outs[at] for at in order], ["intra_list_diversity@5"])
    assert list(again[0].scores or ()) == [list(whole[0].scores or ())[at] for at in order]


# --- a function that embeds -----------------------------------------------------------------------------------------

asked: list[list[str]] = []


def letters(texts: list[str]) -> list[list[float]]:
    """How often a, b and c occur."""
    asked.append(texts)
    return [[float(text.count(letter)) for letter in "abc"] for text in texts]


def table_of_letters(texts: list[str]) -> Any:
    return np.array(letters(texts), dtype=np.float32)


def broken(texts: list[str]) -> Any:
    raise RuntimeError("out of memory")


def too_few(texts: list[str]) -> Any:
    return [[1.0]]


def uneven(texts: list[str]) -> Any:
    return [[1.0] * len(text) for text in texts]


def no_list(texts: list[str]) -> Any:
    return 5


@pytest.mark.parametrize("embed", [letters, table_of_letters])
def test_documents_embedded(embed: Any) -> None:
    built = IntraListDiversity(embed=embed)
    assert outcome(built, listed(texts=["a", "b"])) == pytest.approx(1)
    assert outcome(built, listed(texts=["ab", "a"])) == pytest.approx(1 - 1 / math.sqrt(2), abs=1e-7)
    assert outcome(built, listed(texts=["a", ""])) == NO
    assert outcome(built, listed(texts=["a", None])) == NO
    assert outcome(built, listed(texts=["a", "x"])) == ZERO
    assert outcome(built, listed([1, 0], texts=["a"])) == NO  # vectors of two makes are not mixed
    with pytest.raises(BadTypeError, match="sample '1': the text of a document is 5, not a string"):
        outcome(built, listed(texts=["a", 5]))


def test_each_text_of_a_batch_is_embedded_once() -> None:
    asked.clear()
    rows, outs = answered("a b", "b", "a b", "", "...")
    for out in outs:
        out.retrieved = listed(texts=["b", "c", "b", ""]).retrieved[:3]
    metrics: list[Any] = [
        IntraListDiversity(3, embed=letters),
        IntraListDiversity(2, embed=letters),
        ResponseDiversity(embed=letters),
    ]
    evaluate(rows, outs, metrics)
    assert asked == [["b", "c"], ["a b"]]  # the answer "b" is known by then, empty ones are not asked for
    asked.clear()
    evaluate(rows, outs, metrics, batch_size=1)
    assert asked == [["b", "c"], ["a b"]]  # batches hand on what they know


@pytest.mark.parametrize("embed", [broken, no_list], ids=["raises", "gives no list"])
def test_function_that_fails_is_a_failed_measurement(embed: Any) -> None:
    rows, outs = answered("a", "b")
    for out in outs:
        out.retrieved = listed(texts=["a", "b"]).retrieved
    message = "out of memory" if embed is broken else "not iterable"
    for built in (IntraListDiversity(embed=embed), ResponseDiversity(embed=embed)):
        with pytest.warns(AueporaWarning, match=rf"'embed' raised .*{message} \(sample 'q0' and 1 more\)"):
            (result,) = evaluate(rows, outs, [built])
        assert list(result.outcomes or ()) == ["measure_failed:embed_failed"] * 2
        assert not result.defined


def test_function_that_gives_too_few_vectors() -> None:
    with pytest.warns(AueporaWarning, match="1 vectors for 2 texts; it must give one for each"):
        assert outcome(IntraListDiversity(embed=too_few), listed(texts=["a", "b"])) == "measure_failed:embed_failed"


def test_vectors_of_uneven_length_from_a_function() -> None:
    assert outcome(IntraListDiversity(embed=uneven), listed(texts=["a", "bb"])) == BAD
    result = ResponseDiversity(embed=uneven).compute(*answered("a", "bb"))
    assert list(result.outcomes or ()) == [BAD, BAD]
    same = ResponseDiversity(embed=uneven).compute(*answered("aa", "bb"))
    assert same.value == pytest.approx(0, abs=ABOUT)


def test_functions_in_signatures_and_specs() -> None:
    assert str(IntraListDiversity().signature) == "intra_list_diversity@5|vectors:metadata|v1"
    assert str(ResponseDiversity().signature) == "response_diversity|vectors:words|v1"
    for built in (IntraListDiversity(embed=letters), ResponseDiversity(embed=letters)):
        assert f"|vectors:{__name__}.letters|" in str(built.signature)
        with pytest.raises(MetricDefinitionError, match="as 'embed', which a spec cannot contain"):
            spec_of(built)

    class Model:
        def __call__(self, texts: list[str]) -> Any:
            return letters(texts)

    assert ".Model|" in str(ResponseDiversity(embed=Model()).signature)
    assert ResponseDiversity(embed=Model()).compute(*answered("a", "b")).value == pytest.approx(1)
    for cls in (IntraListDiversity, ResponseDiversity):
        with pytest.raises(BadTypeError, match="embed must be a function"):
            cls(embed=5)


def test_cut_off_and_what_it_cuts() -> None:
    for wrong in (0, -1, 2.5, True, "5"):
        with pytest.raises(ValueError, match="top_k must be an integer >= 1"):
            IntraListDiversity(wrong)  # type: ignore[arg-type]
    rows, outs = [SAMPLE], [listed([1, 0], [0, 1])]
    (shallow,) = evaluate(rows, outs, ["intra_list_diversity@5"], run=RunInfo(top_k=2))
    (deep,) = evaluate(rows, outs, ["intra_list_diversity@5"], run=RunInfo(top_k=5))
    assert shallow.signature == "intra_list_diversity@5|vectors:metadata|top_k:2|v1"
    assert deep.signature == "intra_list_diversity@5|vectors:metadata|v1"
    cut = metric({"intra_list_diversity": {"top_k": None, "depth": 3}})
    assert isinstance(cut, IntraListDiversity)
    assert str(cut.signature) == "intra_list_diversity|vectors:metadata|depth:3|v1"


def test_it_is_suggested_where_there_are_vectors() -> None:
    assert "intra_list_diversity@5" in suggest_metrics([SAMPLE], [listed([1, 0], [0, 1])])
    for without in (listed(None, None), listed([1, 0]), listed(texts=["a", "b"])):
        assert not [spec for spec in suggest_metrics([SAMPLE], [without]) if "list" in spec]
    assert IntraListDiversity(embed=letters).is_applicable(SAMPLE, listed(texts=["a", "b"]))
    assert not IntraListDiversity(embed=letters).is_applicable(SAMPLE, listed(texts=["", ""]))


# --- answers unlike each other --------------------------------------------------------------------------------------

ANSWERS: list[tuple[list[str | None], list[Any], str]] = [  # answers, scores, why
    (["the cat", "the cat", "the cat"], [0, 0, 0], "all the same"),
    (["the cat", "Cat, the!"], [0, 0], "the order of words, case and punctuation do not count"),
    (["a b", "c d", "e"], [1, 1, 1], "no two share a word"),
    (["a b", "a c"], [1 / 2, 1 / 2], "one of two words shared: 1 / (√2 · √2)"),
    (["a a a b", "a"], [1 - 3 / math.sqrt(10)] * 2, "words count as often as they occur: (3, 1) and (1, 0)"),
    (["a", "a", "b"], [1 / 2, 1 / 2, 1], "each to the two others"),
    (["a b", "a c", "d"], [3 / 4, 3 / 4, 1], "distances 1/2, 1 and 1"),
    (["a", "", "a", "..."], [0, "empty_answer", 0, "empty_answer"], "answers without a word are left out"),
    (["a", None, "b"], [1, "no_response", 1], "as are those not asked for"),
    (["a"], ["no_other_answer"], "a single answer"),
    (["a", ""], ["no_other_answer", "empty_answer"], "a single one with words"),
    (["", ""], ["empty_answer", "empty_answer"], "none with words"),
]


@pytest.mark.parametrize(("texts", "want"), [r[:2] for r in ANSWERS], ids=[r[2] for r in ANSWERS])
def test_answers_by_hand(texts: list[str | None], want: list[Any]) -> None:
    result = ResponseDiversity().compute(*answered(*texts))
    numbers = [one for one in want if not isinstance(one, str)]
    assert [score for score in result.scores or () if score is not None] == pytest.approx(numbers, abs=ABOUT)
    assert list(result.outcomes or ()) == [f"skipped:{one}" if isinstance(one, str) else "scored" for one in want]
    assert result.defined == bool(numbers)
    assert result.value == pytest.approx(sum(numbers) / len(numbers) if numbers else 0.0, abs=ABOUT)
    assert result.interval is None
    plain = ResponseDiversity().reference_value(*answered(*texts))
    assert plain == pytest.approx(result.value if numbers else math.nan, abs=ABOUT, nan_ok=True)


@given(st.lists(TEXT, max_size=12), st.randoms(), st.integers(1, 5))
@settings(max_examples=examples(100))
def test_any_answers_in_any_order_and_any_batches(texts: list[str], rng: Any, size: int) -> None:
    rows, outs = answered(*texts)
    (result,) = evaluate(rows, outs, ["response_diversity"])
    want = ResponseDiversity().reference_value(rows, outs)
    assert (result.value if result.defined else math.nan) == pytest.approx(want, abs=ABOUT, nan_ok=True)
    assert list(evaluate(rows, outs, ["response_diversity"], batch_size=size)) == [result]
    order = rng.sample(range(len(texts)), len(texts))
    (again,) = evaluate([rows[at] for at in order], [outs[at] for at in order], ["response_diversity"])
    assert again.value == result.value
    assert list(again.scores or ()) == [list(result.scores or ())[at] for at in order]


def test_slice_is_the_metric_among_its_own_answers() -> None:
    rows, outs = answered("a", "a", "b", "c", "d")
    for row, lang in zip(rows, ["de", "de", "en", "en", "fr"], strict=True):
        row.labels["lang"] = lang
    (result,) = evaluate(rows, outs, ["response_diversity"], slices="labels.lang")
    german, english, french = result.slices["labels.lang"].values()
    assert (german.value, english.value) == (pytest.approx(0, abs=ABOUT), pytest.approx(1))
    assert french.details["skipped_no_other_answer"] == 1
    assert not french.defined
    assert result.value == pytest.approx(1 - 2 * 1 / 20)  # one of ten pairs is alike


def test_failed_answers_are_left_out() -> None:
    rows, outs = answered("a", "b", "a")
    outs[2].error = "timeout"
    (result,) = evaluate([*rows, sample(sample_id="missing")], [*outs, None], ["response_diversity"])
    assert result.value == pytest.approx(1)
    assert list(result.outcomes or ())[2:] == ["system_failed:timeout", "system_failed:missing_output"]
    outs[1].error = "timeout"
    (result,) = evaluate(rows, outs, ["response_diversity"])
    assert list(result.outcomes or ()) == ["skipped:no_other_answer"] + ["system_failed:timeout"] * 2


def test_answers_embedded() -> None:
    rows, outs = answered("a", "b", "ab", "x")
    result = ResponseDiversity(embed=letters).compute(rows, outs)
    near = 1 - 1 / math.sqrt(2)
    assert list(result.scores or ())[:3] == pytest.approx([(1 + near) / 2, (1 + near) / 2, near])
    assert list(result.outcomes or ())[3] == ZERO
    # Three of six pairs are known; the others may have any distance from 0 to 2.
    assert result.value == pytest.approx((1 + 2 * near) / 3)
    assert result.details["bounds"] == pytest.approx([(1 + 2 * near) / 6, (1 + 2 * near + 3 * 2) / 6])
    assert ResponseDiversity(embed=letters).range == (0.0, 2.0)
    assert ResponseDiversity(embed=letters).reference_value(rows, outs) is None


def test_bounds_where_nothing_could_be_measured() -> None:
    with pytest.warns(AueporaWarning, match="out of memory"):
        result = ResponseDiversity(embed=broken).compute(*answered("a", "b"))
    assert result.details["bounds"] == [0.0, 2.0]
    with pytest.warns(AueporaWarning, match="out of memory"):
        result = ResponseDiversity(embed=broken).compute(*answered("a"))
    assert "bounds" not in result.details


@pytest.mark.slow
def test_function_goes_to_other_processes_too() -> None:
    rows, outs = answered("a", "b", "ab", "")
    for out in outs:
        out.retrieved = listed(texts=["a", "b"]).retrieved
    metrics: list[Any] = [IntraListDiversity(embed=letters), ResponseDiversity(embed=letters), "response_diversity"]
    metrics[2] = metric({"response_diversity": {"as": "words"}})
    here = evaluate(rows, outs, metrics)
    assert evaluate(rows, outs, metrics, executor="processes", workers=2, batch_size=1) == here
