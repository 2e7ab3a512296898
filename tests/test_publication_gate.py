"""The gate before a number is published: every metric of the metric contract within its range, every edge case named."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval.engine.paper_tables import dual_evaluate, evaluate_queries, paper_evaluate
from auepora_eval.metrics.classification import NEGateMetrics
from auepora_eval.metrics.k_policy import compute_k_eff
from auepora_eval.metrics.ranking import map_at_k, mrr_at_k, ndcg_at_k, recall_at_k

IDS = st.text("abcdé文", max_size=2)
ROWS = st.lists(
    st.fixed_dictionaries(
        {"gold_ids": st.lists(IDS, max_size=12) | st.sets(IDS, max_size=12), "ranked_ids": st.lists(IDS, max_size=15)}
    ),
    max_size=6,
)
KS = st.lists(st.integers(1, 20) | st.just("ALL"), min_size=1, max_size=3)
PAIRS = st.lists(st.tuples(st.floats(allow_nan=False) | st.sampled_from([0.0, 0.5, 1.0]), st.booleans()), max_size=40)

ALL_ZERO = {"recall@3": 0.0, "mrr@3": 0.0, "map@3": 0.0, "ndcg@3": 0.0}
RANKING_EDGES = [  # gold, ranked, population, want, why
    ([], ["a", "b"], "all_queries", ALL_ZERO, "empty gold set: all 0"),
    ([], ["a", "b"], "positives_only", ALL_ZERO, "empty gold set, nobody else: a mean over no query is 0"),
    (["a"], [], "all_queries", ALL_ZERO, "empty ranked list: all 0"),
    (["a"], [], "positives_only", ALL_ZERO, "empty ranked list: still a query with positives"),
    ([], [], "all_queries", ALL_ZERO, "empty gold and empty ranked: zero denominators give 0"),
    (["a", "b", "c"], ["a"], "all_queries", {"recall@3": 1 / 3, "mrr@3": 1.0, "map@3": 1.0, "ndcg@3": 1.0}, "K > |ranked|: K_eff = 1"),
    (["a", "b", "c"], ["x", "a"], "all_queries", {"recall@3": 1 / 3, "mrr@3": 1 / 2, "map@3": 1 / 2 / 2}, "K > |ranked|: K_eff = 2"),
]  # fmt: skip

CLASS_EDGES = [  # y_prob, y_true, auroc, auprc, defined, why
    ([0.2, 0.8], [1, 1], 0.5, 1.0, False, "single class, positive: AUPRC is the prior"),
    ([0.2, 0.8], [0, 0], 0.5, 0.0, False, "single class, negative: AUPRC is the prior"),
    ([0.7], [1], 0.5, 1.0, False, "a single pair"),
    ([], [], 0.5, 0.0, False, "no pair: zero denominators give 0"),
    ([0.5, 0.5], [1, 0], 0.5, 0.5, True, "two classes that cannot be distinguished"),
]


class TestMetricRangeAssertions:
    """S1 §6.2: 0 <= recall, MRR, MAP, nDCG, AUROC, AUPRC <= 1, without a tolerance; and the edge cases of its §5."""

    @given(rows=ROWS, ks=KS)
    def test_ranking_tables(self, rows: list[dict[str, Any]], ks: list[Any]) -> None:
        both = dual_evaluate(rows, ks), paper_evaluate(rows, ks)
        tables = [one for table in both for one in (table["positives_only"], table["all_queries"])]
        tables.append(evaluate_queries(rows, ks))
        for table in tables:
            assert {name.partition("@")[0] for name in table} == {"recall", "mrr", "map", "ndcg"}
            for name, value in table.items():
                assert 0.0 <= value <= 1.0, name

    @given(gold=st.lists(IDS, max_size=12), ranked=st.lists(IDS, max_size=15), k=st.integers(1, 20))
    def test_ranking_functions(self, gold: list[str], ranked: list[str], k: int) -> None:
        for function in (recall_at_k, mrr_at_k, map_at_k, ndcg_at_k):
            for cut in (k, max(1, compute_k_eff(k, len(ranked)))):
                assert 0.0 <= function(gold, ranked, cut) <= 1.0, function.__name__

    @given(PAIRS)
    def test_classification(self, pairs: list[tuple[float, bool]]) -> None:
        got = NEGateMetrics.compute([score for score, _ in pairs], [label for _, label in pairs])
        for name in ("auroc", "auprc", "tpr_at_fpr_3pct", "tpr_at_fpr_5pct", "tpr_at_fpr_10pct"):
            assert 0.0 <= getattr(got, name) <= 1.0, name
        assert got.tpr_at_fpr_3pct <= got.tpr_at_fpr_5pct <= got.tpr_at_fpr_10pct

    @pytest.mark.parametrize(
        ("gold", "ranked", "population", "want"),
        [row[:4] for row in RANKING_EDGES],
        ids=[f"{row[2]}: {row[4]}" for row in RANKING_EDGES],
    )
    def test_ranking_edge(self, gold: list[str], ranked: list[str], population: str, want: dict[str, float]) -> None:
        got: Any = dict(paper_evaluate([{"gold_ids": gold, "ranked_ids": ranked}], [3]))[population]
        assert {name: got[name] for name in want} == pytest.approx(want, abs=1e-15)

    @pytest.mark.parametrize(
        ("prob", "true", "auroc", "auprc", "defined"),
        [row[:5] for row in CLASS_EDGES],
        ids=[row[5] for row in CLASS_EDGES],
    )
    def test_classification_edge(
        self, prob: list[float], true: list[int], auroc: float, auprc: float, defined: bool
    ) -> None:
        got = NEGateMetrics.compute(prob, true)
        assert (got.auroc, got.auprc, got.defined) == (auroc, auprc, defined)
        if not defined:
            assert (got.tpr_at_fpr_3pct, got.tpr_at_fpr_5pct, got.tpr_at_fpr_10pct) == (0.0, 0.0, 0.0)

    def test_no_queries(self) -> None:
        table = dual_evaluate([], [3])
        assert (table["positives_only"], table["all_queries"]) == (ALL_ZERO, ALL_ZERO)
