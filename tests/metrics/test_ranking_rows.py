"""Ranking measures on rankings small enough to compute by hand: every edge the definitions mention is a row."""

from collections.abc import Callable, Sequence
from math import log2
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval import (
    BatchMetric,
    Conventions,
    Document,
    EvaluationSample,
    RetrievedDocument,
    SystemOutputs,
    evaluate,
    evaluate_rankings,
    metric,
)
from auepora_eval.core.results import Results
from auepora_eval.errors import BadValueError, DuplicateIdError
from auepora_eval.metrics.ranking import (
    aqwv_at_k,
    hit_rate_at_k,
    map_at_k,
    mrr_at_k,
    ndcg_at_k,
    precision_at_k,
    rbp_residual,
    recall_at_k,
)
from auepora_eval.render.tables import results_table
from helpers.builders import output, sample
from helpers.requirements import need

Plain = Callable[[Sequence[str], Sequence[str], int], float]

PLAIN_ROWS = [  # function, gold, ranked, k, want, why
    (recall_at_k, "ab", "axb", 2, 1 / 2, "recall: b is below the cut"),
    (recall_at_k, "ab", "axb", 3, 1.0, "recall: both found"),
    (recall_at_k, "ab", "aab", 2, 1 / 2, "recall: a counts once"),
    (recall_at_k, "aab", "ab", 2, 1.0, "recall: gold given twice counts once"),
    (recall_at_k, "ab", "", 5, 0.0, "recall: nothing returned"),
    (recall_at_k, "", "abc", 3, 0.0, "recall: empty gold gives 0 as a plain function"),
    (recall_at_k, "abcdef", "abc", 2, 2 / 6, "recall: more gold than k"),
    (recall_at_k, "ab", "a", 10, 1 / 2, "recall: k beyond the list uses the list"),
    (precision_at_k, "ab", "axb", 2, 1 / 2, "precision: one of two"),
    (precision_at_k, "ab", "ab", 10, 1.0, "precision: divides by what was returned"),
    (precision_at_k, "a", "aa", 2, 1 / 2, "precision: a repeat occupies its position"),
    (precision_at_k, "ab", "", 5, 0.0, "precision: nothing returned is 0, not a division by zero"),
    (precision_at_k, "", "abc", 3, 0.0, "precision: empty gold"),
    (hit_rate_at_k, "ab", "xxb", 3, 1.0, "hit rate: last position counts"),
    (hit_rate_at_k, "ab", "xxb", 2, 0.0, "hit rate: below the cut"),
    (hit_rate_at_k, "", "abc", 3, 0.0, "hit rate: empty gold"),
    (mrr_at_k, "ab", "xba", 3, 1 / 2, "mrr: first hit at rank 2"),
    (mrr_at_k, "a", "xxxa", 3, 0.0, "mrr: first hit below the cut"),
    (mrr_at_k, "", "abc", 3, 0.0, "mrr: empty gold"),
    (mrr_at_k, "ab", "", 3, 0.0, "mrr: nothing returned"),
    (map_at_k, "ab", "axb", 3, (1 / 1 + 2 / 3) / 2, "map: precisions at ranks 1 and 3 over min(|G|, k)"),
    (map_at_k, "abcdefgh", "abcde", 10, 5 / 8, "map: eight gold, five returned, all relevant, K as written"),
    (map_at_k, "abc", "ab", 2, 1.0, "map: capped at k when there is more gold"),
    (map_at_k, "ab", "xy", 2, 0.0, "map: no hit"),
    (map_at_k, "", "abc", 3, 0.0, "map: empty gold"),
    (ndcg_at_k, "ab", "axb", 3, (1 + 1 / log2(4)) / (1 + 1 / log2(3)), "ndcg: hits at 1 and 3, ideal at 1 and 2"),
    (ndcg_at_k, "abc", "a", 1, 1.0, "ndcg: the ideal stops at k"),
    (ndcg_at_k, "ab", "xy", 2, 0.0, "ndcg: no hit"),
    (ndcg_at_k, "", "abc", 3, 0.0, "ndcg: empty gold"),
    (ndcg_at_k, "a", "xa", 5, (1 / log2(3)) / 1, "ndcg: single gold at rank 2"),
]


@pytest.mark.parametrize(
    ("function", "gold", "ranked", "k", "want"), [r[:5] for r in PLAIN_ROWS], ids=[r[5] for r in PLAIN_ROWS]
)
def test_plain_function(function: Plain, gold: str, ranked: str, k: int, want: float) -> None:
    assert function(gold, ranked, k) == pytest.approx(want, abs=1e-15)


def test_ndcg_of_eight_gold_and_five_returned_uses_k_as_written() -> None:
    got = sum(1 / log2(r + 1) for r in range(1, 6)) / sum(1 / log2(r + 1) for r in range(1, 9))
    assert ndcg_at_k("abcdefgh", "abcde", 10) == pytest.approx(got, abs=1e-15)
    assert round(got, 4) == 0.7458


GAIN_ROWS = [  # gain, want for gold a:3 b:1, ranked [b, a], k=2
    ("binary", 1.0),
    ("exponential", (1 + 7 / log2(3)) / (7 + 1 / log2(3))),
    ("linear", (1 + 3 / log2(3)) / (3 + 1 / log2(3))),
]


@pytest.mark.parametrize(("gain", "want"), GAIN_ROWS, ids=[row[0] for row in GAIN_ROWS])
def test_gain_schemes(gain: str, want: float) -> None:
    result = evaluate_rankings([{"a": 3, "b": 1}], [["b", "a"]], [{"ndcg@2": {"gain_scheme": gain}}])
    assert result[0].value == pytest.approx(want, abs=1e-15)
    assert round(want, 4) == {"binary": 1.0, "exponential": 0.7098, "linear": 0.7967}[gain]


OUTCOME_ROWS = [  # spec, conventions, gold, ranked, want (value or skip reason), why
    ("recall@5", "auepora", None, "ab", "no_gold", "not annotated is skipped"),
    ("recall@5", "paper", None, "ab", "no_gold", "not annotated is skipped in every preset"),
    ("recall@5", "auepora", "", "ab", "empty_gold", "nothing relevant is skipped by default"),
    ("recall@5", "paper", "", "ab", 0.0, "nothing relevant scores 0 for the paper"),
    ("recall@5", "paper-positives", "", "ab", "empty_gold", "positives only"),
    ("recall@5", "trec", "", "ab", "empty_gold", "trec_eval skips a query without any judgement"),
    ("recall@5", "trec", {"x": 0}, "ab", 0.0, "trec_eval scores a query whose judgements are all non-relevant"),
    ("recall@5", "trec", {"x": -1}, "ab", "empty_gold", "a negative level is no judgement"),
    ("recall@5", "auepora", {"a": 0, "b": 2}, "ab", 1.0, "level 0 is judged, not relevant"),
    ("precision@5", "auepora", "a", "ax", 1 / 2, "over what was returned"),
    ("precision@5", "golden", "a", "ax", 1 / 5, "over k"),
    ("precision@5", "client", "a", "ax", 1 / 5, "over k"),
    ("precision@5", "trec", "a", "ax", 1 / 5, "over k"),
    ("precision@5", "paper", "a", "ax", 1 / 2, "over what was returned"),
    ("precision@2", "auepora", "a", "aa", 1 / 2, "a repeat is a position without a hit"),
    ("precision@3", "auepora", "a", "", 0.0, "nothing returned is scored 0"),
    ("map@3", "auepora", "abcd", "axb", (1 + 2 / 3) / 2, "over the hits"),
    ("map@3", "paper", "abcd", "axb", (1 + 2 / 3) / 3, "over min(|G|, k)"),
    ("map@3", "golden", "abcd", "axb", (1 + 2 / 3) / 4, "over |G|"),
    ("map", "trec", "abcd", "axb", (1 + 2 / 3) / 4, "over |G| without a cut"),
    ("map", "paper", "abcd", "axb", (1 + 2 / 3) / 4, "no k: min(|G|, infinity)"),
    ("map", "auepora", "abcd", "xyz", 0.0, "no hit is 0, not a division by zero"),
    ("map@2", "auepora", "ab", "aab", 1.0, "the repeat of a is no second hit, and b is below the cut"),
    ("mrr", "golden", "a", "xxxxxxxxxxa", 0.0, "golden cuts an mrr that names no k at 10"),
    ("mrr", "client", "a", "xxxxxxxxxxa", 1 / 11, "over the whole list"),
    ("mrr@11", "golden", "a", "xxxxxxxxxxa", 1 / 11, "a k that is named wins"),
    ("ndcg@2", "trec", {"a": 3, "b": 1}, "ba", (1 + 3 / log2(3)) / (3 + 1 / log2(3)), "trec's gain is the level"),
    ("ndcg@2", "auepora", {"a": 3, "b": 1}, "ba", 1.0, "binary gain ignores levels"),
    ("ndcg", "auepora", "abc", "axb", (1 + 1 / 2) / (1 + 1 / log2(3) + 1 / 2), "no cut: the ideal holds all gold"),
    ("hit_rate@1", "auepora", "ab", "b", 1.0, "any relevant one will do"),
    ("aqwv", "client", "a", "aax", 1 - 0 - 40 * 2 / 3, "a repeat is a false alarm"),
    ("aqwv@3", "client", "ab", "", 0.0, "nothing returned: all missed, no false alarm"),
    ("aqwv", "paper", "", "x", "empty_gold", "no gold, no miss to speak of"),
    ("empty_result_rate", "auepora", "a", "", 1.0, "nothing came back"),
    ("empty_result_rate", "auepora", None, "x", 0.0, "needs no gold"),
]


@pytest.mark.parametrize(
    ("spec", "conventions", "gold", "ranked", "want"),
    [row[:5] for row in OUTCOME_ROWS],
    ids=[f"{row[0]}-{row[1]}: {row[5]}" for row in OUTCOME_ROWS],
)
def test_outcome(
    spec: str, conventions: str, gold: str | dict[str, int] | None, ranked: str, want: float | str
) -> None:
    ids = gold if gold is None or isinstance(gold, dict) else list(gold)
    if conventions == "trec" and len(set(ranked)) != len(ranked):
        pytest.fail("trec rows must not repeat an id")
    built = metric(spec, conventions=conventions)
    assert isinstance(built, BatchMetric)
    result = built.compute([sample(ids)], [output(list(ranked))])
    assert result.scores is not None
    assert result.outcomes is not None
    if isinstance(want, str):
        assert (result.scores[0], result.outcomes[0]) == (None, f"skipped:{want}")
        assert (result.value, result.defined) == (0.0, False)
        assert result.details["num_samples"] == 0
        assert result.details[f"skipped_{want}"] == 1
    else:
        assert result.outcomes[0] == "scored"
        assert result.value == pytest.approx(want, abs=1e-12)
        assert result.defined
        assert result.details["num_samples"] == 1


def test_candidate_documents_are_judgements() -> None:
    """trec_eval scores a query with judged documents none of which is relevant: candidates say that."""
    built = metric("recall@5", conventions="trec")
    assert isinstance(built, BatchMetric)
    judged = built.compute([sample([], candidates=["x"])], [output(["x"])])
    assert (judged.value, judged.defined) == (0.0, True)
    unjudged = built.compute([sample([], candidates=[])], [output(["x"])])
    assert not unjudged.defined


def test_gold_given_twice_counts_once_with_its_highest_level() -> None:
    twice = sample({"a": 1, "b": 1})
    assert twice.relevant_docs is not None
    twice.relevant_docs += sample({"a": 3}).relevant_docs or []
    built = metric("ndcg@2", gain_scheme="linear")
    assert isinstance(built, BatchMetric)
    assert built.compute([twice], [output(["b", "a"])]).value == pytest.approx((1 + 3 / log2(3)) / (3 + 1 / log2(3)))


def test_trec_forbids_duplicates() -> None:
    with pytest.raises(DuplicateIdError, match="query '0': 'a' was returned twice"):
        evaluate_rankings([["a"]], [["b", "a", "c", "a"]], ["map"], conventions="trec")
    relaxed = evaluate_rankings([["a"]], [["b", "a", "a"]], [{"map": {"conventions": "trec", "duplicates": "first"}}])
    assert relaxed[0].value == 1 / 2


def test_min_relevance_defines_gold_and_gains_ignore_it() -> None:
    gold, ranked = {"a": 1, "b": 2}, ["a", "b"]
    results = evaluate_rankings([gold], [ranked], ["recall@1", "map", "ndcg@2"], conventions="trec")
    strict = evaluate_rankings(
        [gold],
        [ranked],
        [{name: {"conventions": "trec", "min_relevance": 2}} for name in ("recall@1", "map", "ndcg@2")],
    )
    assert [r.value for r in results[:2]] == [1 / 2, 1.0]
    assert [r.value for r in strict[:2]] == [0.0, 1 / 2]
    assert results[2].value == strict[2].value == pytest.approx((1 + 2 / log2(3)) / (2 + 1 / log2(3)))
    assert strict[0].signature == "recall@1|empty:judged|rel:2|missing:skip|v1"


def test_depth_cuts_before_anything_is_computed() -> None:
    gold, ranked = ["a", "b"], ["x", "a", "y", "b"]
    deep = [{name: {"depth": 3}} for name in ("recall@5", "precision@5", "mrr", "map")]
    got = [r.value for r in evaluate_rankings([gold], [ranked], deep)]
    assert got == [1 / 2, 1 / 3, 1 / 2, 1 / 2]


@pytest.mark.parametrize("spec", ["recall", "precision", "hit_rate", "f1"])
def test_no_cut_means_the_whole_list(spec: str) -> None:
    long = evaluate_rankings([["a", "b"]], [["x", "a", "b"]], [f"{spec}@3"])[0].value
    (whole,) = evaluate_rankings([["a", "b"]], [["x", "a", "b"]], [{spec: {"k": None}}])
    assert (whole.name, whole.value) == (spec, long)


def test_residual_of_rbp_is_the_unjudged_weight() -> None:
    """p = 1/2: positions weigh 1/2, 1/4, 1/8, ...; a and x are judged, u is not, and the list ends after three."""
    gold, ranked = {"a": 1, "x": 0}, ["a", "u", "x"]
    known = 1 / 2 + 1 / 8
    assert rbp_residual(gold, ranked, p=0.5) == 1 - known
    (result,) = evaluate_rankings([gold, gold], [ranked, []], [{"rbp": {"p": 0.5}}])
    assert list(result.scores or ()) == [1 / 2, 0.0]
    assert result.details["residual"] == ((1 - known) + 1.0) / 2
    assert "residual 0.6875 (unjudged)" in results_table(Results([result]))
    assert "| residual 0.6875 (unjudged) |" in Results([result]).to_markdown()
    failed = metric("rbp", p=0.5)
    assert isinstance(failed, BatchMetric)
    assert failed.compute([sample(["a"])], [output(error="x")]).details["residual"] == 0.0


def test_err_needs_to_know_the_highest_grade() -> None:
    gold = {"a": 1, "b": 3}
    (result,) = evaluate_rankings([gold], [["x", "b", "a"]], [{"err": {"max_grade": 3}}])
    first, second = 7 / 8, 1 / 8
    assert result.value == first / 2 + (1 - first) * second / 3
    with pytest.raises(BadValueError, match=r"sample '0': .*max_grade 2; give the highest level of your scale, 3"):
        evaluate_rankings([gold], [["a"]], [{"err": {"max_grade": 2}}])
    with pytest.raises(BadValueError, match="sample '1': "):  # a level that is max_grade is fine
        evaluate_rankings([{"a": 2}, gold], [["a"], ["a"]], [{"err": {"max_grade": 2}}])
    for bad in (0, 2.5, True):
        with pytest.raises(BadValueError, match="max_grade"):
            metric("err", max_grade=bad)


class TestAQWV:
    def test_collection_form_of_false_alarms(self) -> None:
        """2 of 4 returned are wrong; the collection holds 100 - 2 non-relevant documents."""
        value = aqwv_at_k("ab", "axby", corpus_size=100)
        assert value == pytest.approx(1 - 0 - 40 * 2 / 98)
        got = evaluate_rankings(
            [["a", "b"]], [["a", "x", "b", "y"]], [{"aqwv": {"p_fa": "collection", "corpus_size": 100}}]
        )
        assert got[0].value == value

    def test_program_form_averages_misses_and_false_alarms_apart(self) -> None:
        gold = [["a", "b"], ["c"], []]
        ranked = [["a", "x"], ["c"], ["y", "z"]]
        got = evaluate_rankings(gold, ranked, [{"aqwv": {"form": "program", "beta": 2}}])[0]
        misses = (1 / 2 + 0) / 2  # over the two queries with gold
        false_alarms = (1 / 2 + 0 + 2 / 2) / 3  # over all three
        assert got.value == pytest.approx(1 - misses - 2 * false_alarms)
        assert got.details["num_samples"] == 3

    def test_program_form_without_any_gold_is_undefined(self) -> None:
        got = evaluate_rankings([[]], [["a"]], [{"aqwv": {"form": "program"}}])[0]
        assert (got.value, got.defined) == (0.0, False)

    def test_failure_counts_at_minus_beta(self) -> None:
        built = metric("aqwv", beta=3)
        assert isinstance(built, BatchMetric)
        failed = built.compute([sample(["a"])], [output(error="timeout")])
        assert failed.value == -3
        program = metric("aqwv", beta=3, form="program")
        assert isinstance(program, BatchMetric)
        assert program.compute([sample(["a"])], [output(error="timeout")]).value == -3

    def test_failed_query_without_gold_misses_nothing(self) -> None:
        """One perfect query; one without gold that failed: 1 - 0 - (0 + 1)/2."""
        built = metric("aqwv", beta=1, form="program")
        assert isinstance(built, BatchMetric)
        rows = [sample(["a"], sample_id="1"), sample([], sample_id="2")]
        assert built.compute(rows, [output(["a"]), output(error="x")]).value == 1 / 2

    def test_corpus_size_and_p_fa_go_together(self) -> None:
        for options in ({"p_fa": "collection"}, {"corpus_size": 10}):
            with pytest.raises(BadValueError, match="corpus_size"):
                metric("aqwv", **options)

    def test_collection_of_exactly_what_was_returned(self) -> None:
        """Three wrong documents and one gold one that was not found: the collection holds at least four."""
        spec = {"aqwv": {"p_fa": "collection", "corpus_size": 4, "beta": 1}}
        assert evaluate_rankings([["a"]], [["x", "y", "z"]], [spec])[0].value == 1 - 1 - 3 / 3
        found = {"aqwv": {"p_fa": "collection", "corpus_size": 2, "beta": 1}}
        assert evaluate_rankings([["a"]], [["a", "x"]], [found])[0].value == 1 - 0 - 1 / 1

    def test_collection_smaller_than_what_was_returned(self) -> None:
        with pytest.raises(BadValueError, match="whole collection"):
            evaluate_rankings([["a"]], [["x", "y", "z"]], [{"aqwv": {"p_fa": "collection", "corpus_size": 2}}])


@pytest.mark.parametrize("name", ["precision@5", "recall@5", "mrr", "map", "ndcg@5", "bpref", "aqwv@5"])
def test_number_of_samples_skipped_for_empty_gold_is_always_there(name: str) -> None:
    for gold, skipped in (([["a"], ["b"]], 0), ([["a"], []], 1), ([[], []], 2)):
        (result,) = evaluate_rankings(gold, [["a"], ["x"]], [name])
        assert result.details["skipped_empty_gold"] == skipped


# --- ties ------------------------------------------------------------------------------------------------------------


def scored_output(scores: dict[str, float | None]) -> SystemOutputs:
    order = sorted(scores, key=lambda doc: -(scores[doc] or 0.0))
    return SystemOutputs([RetrievedDocument(Document(doc), scores[doc], rank) for rank, doc in enumerate(order, 1)])


def judged_sample(levels: dict[str, int]) -> EvaluationSample:
    return EvaluationSample("1", "q", relevant_docs=[Document(d, metadata={"relevance": n}) for d, n in levels.items()])


def tied_ndcg(levels: dict[str, int], scores: dict[str, float | None], **options: Any) -> float:
    chosen = {"ndcg": {"gain_scheme": "linear", "ties": "average", **options}}
    (result,) = evaluate([judged_sample(levels)], [scored_output(scores)], [chosen])
    return result.value


TIED = [  # levels, scores, k, want, why
    ({"a": 1}, {"a": 1.0, "b": 1.0}, None, (1 + 1 / log2(3)) / 2, "a is first or second"),
    ({"a": 1}, {"a": 1.0, "b": 1.0}, 1, 1 / 2, "the tie goes beyond k"),
    ({"a": 1}, {"a": 2.0, "b": 1.0, "c": 1.0}, None, 1.0, "a tie of others"),
    ({"a": 1}, {"b": None, "a": None, "c": 1.0}, None, 1 / log2(4), "unknown scores do not tie"),
]  # fmt: skip


@pytest.mark.parametrize(("levels", "scores", "k", "want", "why"), TIED, ids=[row[-1] for row in TIED])
def test_tied_documents_share_their_gains(levels: Any, scores: Any, k: int | None, want: float, why: str) -> None:
    assert tied_ndcg(levels, scores, k=k) == pytest.approx(want, abs=1e-15)


@pytest.mark.slow
@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2),
    st.integers(1, 9),
    st.sampled_from(["linear", "exponential"]),
)
def test_ties_are_averaged_as_in_scikit_learn(rows: dict[str, tuple[int, int]], k: int, gain: str) -> None:
    oracle = need("sklearn.metrics")
    levels = [level for level, _ in rows.values()]
    wanted = oracle.ndcg_score(
        [levels if gain == "linear" else [2**level - 1 for level in levels]],
        [[score for _, score in rows.values()]],
        k=k,
    )
    got = tied_ndcg(
        {doc: level for doc, (level, _) in rows.items() if level},
        {doc: float(score) for doc, (_, score) in rows.items()},
        k=k,
        gain_scheme=gain,
        conventions=Conventions.of(empty_gold="zero"),
    )
    assert got == pytest.approx(wanted, abs=1e-12)


def test_ties_on_the_command_line_and_without_scores(
    tmp_path: Path, auepora: Callable[..., tuple[int, str, str]]
) -> None:
    (tmp_path / "qrels").write_text("q 0 a 1\n")
    (tmp_path / "run").write_text("q Q0 a 1 1.0 t\nq Q0 b 2 1.0 t\n")
    files = ("score", "--qrels", str(tmp_path / "qrels"), "--run", str(tmp_path / "run"))
    code, out, err = auepora(*files, "-m", "ndcg@1:ties=average", "-m", "ndcg@2")
    assert code == 0, err
    assert "0.5000" in out
    assert auepora(*files, "-m", "ndcg@1[ties=average]")[0] == 0
    with pytest.raises(BadValueError, match="no retrieved document has a score"):
        evaluate_rankings([["a"]], [["a", "b"]], [{"ndcg": {"ties": "average"}}])
    assert str(metric("ndcg@2", ties="average").signature) == "ndcg@2|gain:binary|ties:average|empty:skip|v1"  # type: ignore[attr-defined]
