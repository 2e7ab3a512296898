"""The paper's table: both populations, K as written and K_eff, against the plain functions and by hand."""

from collections import OrderedDict
from math import log2
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from auepora_eval.engine.paper_tables import dual_evaluate, evaluate_queries, paper_evaluate
from auepora_eval.errors import BadTypeError, BadValueError
from auepora_eval.metrics.k_policy import PRIMARY_K, compute_k_eff
from auepora_eval.metrics.ranking import map_at_k, mrr_at_k, ndcg_at_k, recall_at_k

PLAIN = {"recall": recall_at_k, "mrr": mrr_at_k, "map": map_at_k, "ndcg": ndcg_at_k}


def row(gold: str, ranked: str) -> dict[str, list[str]]:
    return {"gold_ids": list(gold), "ranked_ids": list(ranked)}


def dcg(*ranks: int) -> float:
    return sum(1 / log2(rank + 1) for rank in ranks)


SHORT = row("abcdefgh", "abcde")  # eight gold, five ranked, all of them relevant

BY_HAND = [  # function, rows, k, name, population, want, why
    (dual_evaluate, [SHORT], 10, "map@10", "all_queries", 5 / 8, "K as written: AP over min(8, 10)"),
    (dual_evaluate, [SHORT], 10, "ndcg@10", "all_queries", dcg(1, 2, 3, 4, 5) / dcg(*range(1, 9)), "K as written: the ideal holds eight"),
    (dual_evaluate, [SHORT], 10, "recall@10", "all_queries", 5 / 8, "recall does not know K_eff"),
    (paper_evaluate, [SHORT], 10, "map@10", "all_queries", 1.0, "K_eff = 5: AP over min(8, 5)"),
    (paper_evaluate, [SHORT], 10, "ndcg@10", "all_queries", 1.0, "K_eff = 5: the ideal holds five"),
    (paper_evaluate, [SHORT], 10, "recall@10", "all_queries", 5 / 8, "recall divides by the gold whatever K is"),
    (dual_evaluate, [SHORT], "ALL", "map@ALL", "all_queries", 5 / 8, "no cut: AP over the gold"),
    (paper_evaluate, [SHORT], "ALL", "map@ALL", "all_queries", 1.0, "no cut: K_eff is the length of the list"),
    (paper_evaluate, [SHORT], None, "ndcg@ALL", "all_queries", 1.0, "None is ALL"),
    (dual_evaluate, [row("a", "xa"), row("", "x")], 3, "mrr@3", "positives_only", 1 / 2, "a query without gold is left out"),
    (dual_evaluate, [row("a", "xa"), row("", "x")], 3, "mrr@3", "all_queries", 1 / 4, "a query without gold scores 0"),
    (dual_evaluate, [row("ab", "axb"), row("c", "c")], 3, "map@3", "positives_only", ((1 + 2 / 3) / 2 + 1) / 2, "a mean over queries"),
    (dual_evaluate, [row("ab", "aab")], 2, "recall@2", "all_queries", 1 / 2, "a repeat is no second hit"),
    (dual_evaluate, [row("", "x")], 3, "ndcg@3", "positives_only", 0.0, "nobody left in the mean"),
    (paper_evaluate, [row("ab", "")], 3, "map@3", "positives_only", 0.0, "an empty list: K_eff is 0"),
    (dual_evaluate, [], 3, "recall@3", "all_queries", 0.0, "no query at all"),
    (paper_evaluate, [], "ALL", "recall@ALL", "all_queries", 0.0, "no query at all, no cut"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "rows", "k", "name", "population", "want"), [r[:6] for r in BY_HAND], ids=[r[6] for r in BY_HAND]
)
def test_by_hand(function: Any, rows: list[Any], k: Any, name: str, population: str, want: float) -> None:
    assert function(rows, [k])[population][name] == pytest.approx(want, abs=1e-15)


def test_figures_of_the_contract() -> None:
    written, effective = dual_evaluate([SHORT], [10])["all_queries"], paper_evaluate([SHORT], [10])["all_queries"]
    assert (written["map@10"], round(written["ndcg@10"], 4)) == (0.625, 0.7458)
    assert (effective["map@10"], effective["ndcg@10"]) == (1.0, 1.0)


def test_names_come_by_k_and_the_primary_ks_are_the_default() -> None:
    names = [f"{measure}@{k}" for k in (3, 5, 10) for measure in ("recall", "mrr", "map", "ndcg")]
    found = paper_evaluate([SHORT])
    assert list(found) == ["conventions", "positives_only", "all_queries"]
    assert [list(found["positives_only"]), list(found["all_queries"])] == [names, names]
    assert found == paper_evaluate([SHORT], PRIMARY_K)


def test_tables_name_their_conventions() -> None:
    written, effective = dual_evaluate([SHORT], [10]), paper_evaluate([SHORT], [10])
    assert written["conventions"] == {"positives_only": "paper-positives", "all_queries": "paper"}
    assert effective["conventions"] == {"positives_only": "paper-positives|k:eff", "all_queries": "paper|k:eff"}


def test_duplicate_k_is_reported_once() -> None:
    assert list(dual_evaluate([SHORT], [1, 1, "ALL", None])["all_queries"]) == [
        "recall@1", "mrr@1", "map@1", "ndcg@1", "recall@ALL", "mrr@ALL", "map@ALL", "ndcg@ALL",
    ]  # fmt: skip
    assert evaluate_queries([SHORT], []) == {}


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "gold_ids": st.lists(st.sampled_from("abcdef"), max_size=5),
            "ranked_ids": st.lists(st.sampled_from("abcdefgh"), max_size=8),
        }
    ),
    max_size=6,
)
KS = st.lists(st.integers(1, 10) | st.just("ALL") | st.none(), max_size=3)


@given(rows=ROWS, ks=KS)
def test_agrees_with_the_plain_functions(rows: list[dict[str, list[str]]], ks: list[Any]) -> None:
    positives = [r for r in rows if r["gold_ids"]]
    for function, k_of in (
        (dual_evaluate, lambda k, n: None if k == "ALL" else k),
        (paper_evaluate, compute_k_eff),
    ):
        found: dict[str, Any] = dict(function(rows, ks))
        for population, members in (("positives_only", positives), ("all_queries", rows)):
            assert len(found[population]) == 4 * len({None if k == "ALL" else k for k in ks})
            for k in ks:
                for measure, plain in PLAIN.items():
                    total = 0.0
                    for r in members:
                        cut = k_of(k, len(r["ranked_ids"]))
                        total += 0.0 if cut == 0 else plain(r["gold_ids"], r["ranked_ids"], cut)
                    want = total / len(members) if members else 0.0
                    name = f"{measure}@{'ALL' if k is None else k}"
                    assert found[population][name] == pytest.approx(want, abs=1e-12), name


@given(rows=ROWS, ks=KS)
def test_evaluate_queries_is_one_side_of_dual_evaluate(rows: list[dict[str, list[str]]], ks: list[Any]) -> None:
    both = dual_evaluate(rows, ks)
    assert evaluate_queries(rows, ks) == both["positives_only"]
    assert evaluate_queries(rows, ks, skip_no_positives=False) == both["all_queries"]


def test_any_mapping_and_any_collection_is_accepted() -> None:
    want = dual_evaluate([row("ab", "xab")], [3])
    for gold in (
        {"a", "b"},
        frozenset("ab"),
        ("a", "b"),
        {"a": 1, "b": 2}.keys(),
        {"a": 1, "b": 2},
        np.array(["a", "b"]),
    ):
        for ranked in (["x", "a", "b"], ("x", "a", "b"), np.array(["x", "a", "b"])):
            one = OrderedDict(gold_ids=gold, ranked_ids=ranked, post_id="p1")
            assert dual_evaluate((one,), iter([3])) == want


BAD_ROWS = [  # rows, error, message, why
    ([SHORT, {"gold_ids": []}], BadValueError, r"results\[1\] has no key 'ranked_ids' \(it has: 'gold_ids'\)", "no ranking"),
    ([{"ranked_ids": []}], BadValueError, r"results\[0\] has no key 'gold_ids'.* use \[\] where nothing is relevant", "no gold"),
    ([{}], BadValueError, r"results\[0\] has no key 'gold_ids' \(it has: none\)", "an empty row"),
    ([(["a"], ["a"])], BadTypeError, r"results\[0\] is a tuple, not a mapping", "a pair for a row"),
    ([{"gold_ids": "ab", "ranked_ids": []}], BadTypeError, r"results\[0\]: 'gold_ids' is a single string", "gold in one string"),
    ([{"gold_ids": [], "ranked_ids": "ab"}], BadTypeError, r"results\[0\]: 'ranked_ids' is a single string", "a ranking in one string"),
    ([{"gold_ids": None, "ranked_ids": []}], BadTypeError, r"results\[0\]: 'gold_ids' is None; pass a list", "gold of None"),
    ([{"gold_ids": [], "ranked_ids": None}], BadTypeError, r"results\[0\]: 'ranked_ids' is None; pass a list", "a ranking of None"),
    ([{"gold_ids": [], "ranked_ids": {"a", "b"}}], BadTypeError, r"results\[0\]: 'ranked_ids' is a set, which has no ranks", "a set has no order"),
    ([{"gold_ids": [], "ranked_ids": {"a": 0.5}}], BadTypeError, r"results\[0\]: 'ranked_ids' is a dict, which has no ranks", "scores are no ranks"),
    ([SHORT, {"gold_ids": [1.5], "ranked_ids": []}], BadTypeError, r"results\[1\]': the gold id 1.5 is of type float", "an id that is a fraction"),
    ({"q1": SHORT}, BadTypeError, "results must be a list of rows .*, not a dict", "rows by name"),
    ("rows", BadTypeError, "results must be a list of rows .*, not a str", "text for rows"),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "error", "message"), [r[:3] for r in BAD_ROWS], ids=[r[3] for r in BAD_ROWS])
def test_invalid_rows(rows: Any, error: type[Exception], message: str) -> None:
    for function in (evaluate_queries, dual_evaluate, paper_evaluate):
        with pytest.raises(BadValueError, match=message) as raised:
            function(rows, [3])
        assert type(raised.value) is error


@pytest.mark.parametrize(
    ("ks", "message"),
    [
        (5, "ks must be a list"),
        ("ALL", "ks must be a list"),
        ([0], "k must be an integer >= 1"),
        ([2.5], "k must be an integer"),
    ],
)
def test_invalid_ks(ks: Any, message: str) -> None:
    with pytest.raises(BadValueError, match=message):
        dual_evaluate([SHORT], ks)
