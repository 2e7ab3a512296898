"""trec_eval's own figures on its own test files."""

import pytest

from auepora_eval import evaluate_rankings
from auepora_eval.io.trec import load_qrels, load_run, trec_rankings
from parts import need_data

NAMES = {  # ours -> trec_eval's
    "map": "map", "mrr": "recip_rank", "ndcg": "ndcg", "ndcg@5": "ndcg_cut_5", "ndcg@10": "ndcg_cut_10",
    "ndcg@100": "ndcg_cut_100", "ndcg@1000": "ndcg_cut_1000", "precision@5": "P_5", "precision@10": "P_10",
    "precision@100": "P_100", "precision@1000": "P_1000", "recall@5": "recall_5", "recall@10": "recall_10",
    "recall@100": "recall_100", "recall@1000": "recall_1000", "hit_rate@1": "success_1", "hit_rate@5": "success_5",
    "hit_rate@10": "success_10", "map@5": "map_cut_5", "map@10": "map_cut_10", "map@100": "map_cut_100",
    "r_precision": "Rprec", "bpref": "bpref", "rbp": "rbp",
}  # fmt: skip


def expected(name: str) -> dict[str, dict[str, str]]:
    """Query -> measure -> printed figure."""
    table: dict[str, dict[str, str]] = {}
    for line in need_data("trec_eval", name).read_text().splitlines():
        measure, query, figure = line.split()
        table.setdefault(query, {})[measure] = figure
    return table


CASES = [  # qrels, run, expected, conventions
    ("qrels.test", "results.test", "out.test.aq", {}),
    ("qrels.test", "results.trunc", "out.test.aqc", {"missing": "zero"}),
    ("qrels.test", "results.trunc", "out.test.aqcM", {"missing": "zero", "depth": 100}),
    ("qrels.rel_level", "results.test", "out.test.aql", {"min_relevance": 2}),
]


@pytest.mark.parametrize(("qrels", "run", "figures", "rules"), CASES, ids=[case[2] for case in CASES])
def test_every_printed_figure(qrels: str, run: str, figures: str, rules: dict[str, object]) -> None:
    table = expected(figures)
    ids, gold, ranked = trec_rankings(load_qrels(need_data("trec_eval", qrels)), load_run(need_data("trec_eval", run)))
    names = set(NAMES)
    if "min_relevance" in rules:
        names.remove("rbp")  # trec_eval 10 reads uninitialised memory there
    # trec_eval's reader goes on with probability 0.9.
    options = {name: {"conventions": "trec", **rules, **({"p": 0.9} if name == "rbp" else {})} for name in names}
    results = evaluate_rankings(gold, ranked, [{name: chosen} for name, chosen in options.items()], ids=ids)
    compared = 0
    for result in results:
        theirs = NAMES[result.name]
        assert f"{result.value:.4f}" == table["all"][theirs], result.name
        for query, score in zip(ids, result.scores or (), strict=True):
            if query in table:
                assert f"{score:.4f}" == table[query][theirs], (result.name, query)
                compared += 1
        if result.name == "rbp" and not rules:
            assert f"{result.details['residual']:.4f}" == table["all"]["rbp_resid"]
    assert compared >= 3 * len(names)


def test_judged_is_what_trec_eval_calls_unjudged_from_the_other_side() -> None:
    table = expected("out.test.aq")
    ids, gold, ranked = trec_rankings(
        load_qrels(need_data("trec_eval", "qrels.test")), load_run(need_data("trec_eval", "results.test"))
    )
    for k in (5, 10, 20):
        (result,) = evaluate_rankings(gold, ranked, [f"judged@{k}"], conventions="trec", ids=ids)
        assert f"{1 - result.value:.4f}" == table["all"][f"unj_{k}"]
