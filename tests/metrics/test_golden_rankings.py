"""Conventions: the golden table stands, the fast path reproduces it, and rows computed by hand agree with it."""

import json
from math import log2

import pytest

from auepora_eval import evaluate_rankings
from auepora_eval.core.conventions import PRESETS
from helpers.golden_rankings import PATH, RANKINGS, SPECS, compute

TABLE = json.loads(PATH.read_text(encoding="utf-8"))

BY_HAND = [  # ranking, spec, preset, want
    ("two of three found", "map@3", "auepora", (1 / 1 + 2 / 3) / 2),
    ("two of three found", "map@3", "paper", (1 / 1 + 2 / 3) / 3),
    ("two of three found", "map", "trec", (1 / 1 + 2 / 3) / 3),
    ("two of three found", "precision@10", "auepora", 2 / 4),
    ("two of three found", "precision@10", "client", 2 / 10),
    ("more gold than k", "recall@3", "golden", 3 / 8),
    ("more gold than k", "map@3", "paper", 3 / 3),
    ("more gold than k", "map@3", "trec", 3 / 8),
    ("more gold than k", "ndcg@3", "client", 1.0),
    ("one hit, late", "mrr", "golden", 0.0),
    ("one hit, late", "mrr", "paper", 1 / 11),
    ("nothing relevant, nothing judged", "recall@3", "paper", 0.0),
    ("nothing relevant, nothing judged", "recall@3", "trec", "empty_gold"),
    ("nothing relevant, one judged", "recall@3", "trec", 0.0),
    ("nothing relevant, one judged", "recall@3", "auepora", "empty_gold"),
    ("graded, best last", "ndcg@3", "auepora", (1 / log2(3) + 1 / log2(4)) / (1 + 1 / log2(3))),
    ("graded, best last", "ndcg@3", "trec", (1 / log2(3) + 3 / log2(4)) / (3 + 1 / log2(3))),
    ("not annotated", "recall@3", "paper", "no_gold"),
]


def test_plain_definitions_give_the_golden_table() -> None:
    assert compute() == TABLE


@pytest.mark.parametrize("preset", PRESETS)
def test_fast_path_gives_the_golden_table(preset: str) -> None:
    gold, ranked = zip(*RANKINGS.values(), strict=True)
    results = evaluate_rankings(gold, ranked, SPECS, conventions=preset)
    for spec, result in zip(SPECS, results, strict=True):
        assert result.scores is not None
        assert result.outcomes is not None
        for title, score, outcome in zip(RANKINGS, result.scores, result.outcomes, strict=True):
            want = TABLE[title][spec][preset]
            assert (outcome.removeprefix("skipped:") if score is None else score) == want, title


@pytest.mark.parametrize(("title", "spec", "preset", "want"), BY_HAND, ids=[f"{t}-{s}-{p}" for t, s, p, _ in BY_HAND])
def test_by_hand(title: str, spec: str, preset: str, want: float | str) -> None:
    got = TABLE[title][spec][preset]
    assert got == (want if isinstance(want, str) else pytest.approx(want, abs=1e-15))


def test_presets_agree_without_edge_cases() -> None:
    """With binary gold that is not empty, recall, hit rate and nDCG are the same in all presets."""
    for title in ("two of three found", "more gold than k", "nothing found", "nothing returned"):
        for spec in ("recall@3", "recall@10", "hit_rate@3", "ndcg@3", "ndcg@10", "mrr"):
            assert len(set(TABLE[title][spec].values())) == 1, (title, spec)
