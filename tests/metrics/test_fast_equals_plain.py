"""The batch path against the plain definitions, query by query, on rankings made to be difficult."""

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from auepora_eval import evaluate_rankings, metric
from auepora_eval.core.conventions import PRESETS
from auepora_eval.engine import evaluate as engine
from auepora_eval.metrics.ranking import RankingMetric
from helpers.requirements import examples

IDS = st.sampled_from(["a", "b", "c", "d", "é", "aa", "", "文書", "a b"])
GOLD = st.one_of(
    st.none(),
    st.lists(IDS, max_size=6),
    st.dictionaries(IDS, st.integers(-2, 4), max_size=6),
)
QUERY = st.tuples(GOLD, st.lists(IDS, max_size=9))
SPECS: list[str | dict[str, Any]] = [
    "recall@1", "recall@3", "precision@2", "precision@20", "hit_rate@1", "hit_rate@4", "mrr", "mrr@2", "map", "map@1",
    "map@3", "ndcg", "ndcg@1", "ndcg@3", {"ndcg@3": {"gain_scheme": "linear", "as": "linear"}},
    {"ndcg": {"gain_scheme": "exponential", "as": "exponential"}}, "aqwv", "aqwv@2",
    {"aqwv": {"p_fa": "collection", "corpus_size": 30, "as": "collection"}}, "f1@2", "f1@9", "r_precision", "bpref",
    "judged@3", "accuracy@2", "accuracy@9", "rbp", {"rbp": {"p": 0.5, "as": "rbp50"}}, {"err": {"max_grade": 4}},
    {"err@2": {"max_grade": 5}}, "recall_doc@3",
]  # fmt: skip


@pytest.mark.parametrize("preset", PRESETS)
@given(
    queries=st.lists(QUERY, min_size=1, max_size=8),
    min_relevance=st.integers(0, 3),
    depth=st.none() | st.integers(1, 5),
    k_policy=st.sampled_from(["written", "effective"]),
)
@settings(max_examples=examples(60))
def test_fast_equals_plain(
    preset: str, queries: list[tuple[Any, list[str]]], min_relevance: int, depth: int | None, k_policy: str
) -> None:
    if preset == "trec":
        queries = [(gold, list(dict.fromkeys(ranked))) for gold, ranked in queries]
    gold, ranked = [g for g, _ in queries], [r for _, r in queries]
    if all(g is None for g in gold):
        gold[0] = []
    rules = {"conventions": preset, "min_relevance": min_relevance, "depth": depth, "k_policy": k_policy}
    specs = [{s: rules} if isinstance(s, str) else {n: {**o, **rules} for n, o in s.items()} for s in SPECS]
    results = evaluate_rankings(gold, ranked, specs)
    for spec, result in zip(specs, results, strict=True):
        built = metric(spec)
        assert isinstance(built, RankingMetric)
        assert result.scores is not None
        assert result.outcomes is not None
        for row, (g, r) in enumerate(zip(gold, ranked, strict=True)):
            plain = built.score_plain(g, r)
            assert result.scores[row] == plain.value, (spec, g, r)  # to the last bit
            assert result.outcomes[row] == (f"skipped:{plain.reason}" if plain.reason else "scored")


@given(queries=st.lists(QUERY, min_size=1, max_size=12), size=st.integers(1, 5))
@settings(max_examples=examples(60))
def test_any_batch_split_gives_the_same_bits(queries: list[tuple[Any, list[str]]], size: int) -> None:
    gold, ranked = [[*g] if g is not None else [] for g, _ in queries], [r for _, r in queries]
    whole = evaluate_rankings(gold, ranked, SPECS)
    usual, engine.RANKINGS_BATCH_SIZE = engine.RANKINGS_BATCH_SIZE, size
    try:
        split = evaluate_rankings(gold, ranked, SPECS)
    finally:
        engine.RANKINGS_BATCH_SIZE = usual
    assert list(whole) == list(split)
