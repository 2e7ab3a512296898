"""The main metric of a run: the first primary one that has a value and tells the run from others on its dataset."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from auepora_eval.compare.metrics import equal_metrics, main_metric_name, rank_metrics
from auepora_eval.compare.rendering import comparison_summary
from auepora_eval.compare.runs import build_leaderboard
from auepora_eval.grades.corrections import MetricEffect, RunEffect
from auepora_eval.render.blocks import Details
from auepora_eval.report.comparison_sections import compare_stored_runs, comparison_verdict
from auepora_eval.report.run_sections import StoredRun
from auepora_eval.store.runs import RunStore, all_result_summaries
from auepora_eval.ui.gold_page import effect_blocks
from auepora_eval.ui.run_table import read_results
from auepora_eval.ui.workbench import Workbench
from helpers.stored_runs import samples, scored

SAME = [1.0, 1.0, 0.0]
Call = Callable[..., tuple[int, str, str]]
ROWS = [  # primary metrics, scores of the runs, the main metric of the last run, why
    (["recall@1", "token_f1"], [{"token_f1": [1, 0, 0], "recall@1": [1, 1, 0]}], "recall@1", "the first of the plan"),
    (["ndcg@1", "token_f1"], [{"token_f1": [1, 0, 0], "recall@1": SAME}], "token_f1", "the first has no result"),
    ([], [{"recall@1": SAME, "token_f1": [1, 0, 0]}], "token_f1", "without primary ones the one of answers"),
    (
        ["support_density", "recall@1"],
        [{"support_density": SAME, "recall@1": [1, 0, 0]}, {"support_density": SAME, "recall@1": [1, 1, 0]}],
        "recall@1",
        "the first has one value in all runs",
    ),
    (
        ["support_density"],
        [{"support_density": SAME, "recall@1": [1, 0, 0]}, {"support_density": SAME, "recall@1": [1, 1, 0]}],
        "recall@1",
        "all primary metrics have one value in all runs",
    ),
    (["recall@1"], [{"recall@1": SAME}, {"recall@1": SAME}], "recall@1", "nothing tells the runs apart"),
    (["recall@1"], [{"recall@1": SAME}], "recall@1", "a single run is not compared with others"),
    (["recall@1"], [{}], "", "no results"),
]


@pytest.mark.parametrize(("primary", "scores", "main", "why"), ROWS, ids=[why for *_, why in ROWS])
def test_main_metric(
    tmp_path: Path, primary: list[str], scores: list[dict[str, list[float]]], main: str, why: str
) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        for number, values in enumerate(scores):
            last = scored(store, f"run {number}", samples(3), values, plan={"primary": primary})
        other = scored(store, "other questions", samples(4), {"support_density": [1, 0, 0, 0]})
        records = store.runs()
        results = all_result_summaries(store, [record.run_id for record in records])
        ranked = rank_metrics(last, results.get(last.run_id, ()))
        assert main_metric_name(last, ranked, equal_metrics(records, results)) == main
        assert StoredRun(store, last).main_metric == main, "on the page of the run"
        listed = read_results(Workbench(store), records)
        assert (listed[last.run_id].main, listed[other.run_id].main) == (main, "support_density"), "in the list"


SENTENCES = [  # primary metrics, scores of A and B, the metric of the first sentence, of `--why` and of the report, why
    (["recall@1", "token_f1"], {"recall@1": [0, 0, 1], "token_f1": SAME}, "recall@1", "the first of the plan"),
    (["support_density", "recall@1"], {"support_density": [1], "recall@1": SAME}, "recall@1", "the first is equal"),
    (["support_density"], {"support_density": [1], "recall@1": SAME}, "support_density", "all primary are equal"),
    ([], {"recall@1": [0, 0, 1], "token_f1": SAME}, "token_f1", "without primary ones the one of answers"),
]


@pytest.mark.parametrize(("primary", "after", "main", "why"), SENTENCES, ids=[row[-1] for row in SENTENCES])
def test_comparisons_speak_of_the_main_metric(
    tmp_path: Path, auepora: Call, primary: list[str], after: dict[str, list[float]], main: str, why: str
) -> None:
    """A metric that is not primary has no adjusted p-value, so the sentence names none of them."""
    after = {name: values * (3 // len(values)) for name, values in after.items()}
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        for name, values in (("a", {metric: [1.0, 1.0, 1.0] for metric in after}), ("b", after)):
            scored(store, name, samples(3), values, plan={"primary": primary})
        records = [store.find("a"), store.find("b")]
        board = build_leaderboard(store, records)
        compared = compare_stored_runs([StoredRun(store, record) for record in records])
    assert f"; {main} " in comparison_summary(board).sentence
    assert comparison_verdict(compared).sentence == comparison_summary(board).sentence
    where = ("--store", str(tmp_path / "runs.sqlite"))
    judged_by = json.loads(auepora("compare", "a", "b", "--why", "--json", *where)[1])["judged_by"]
    differs = "recall@1" if why == "all primary are equal" else main
    assert (judged_by, compared.main and compared.main.name) == (differs, differs)
    chosen = ("--primary", "recall@1", "--why", "--json")
    assert json.loads(auepora("compare", "a", "b", *chosen, *where)[1])["judged_by"] == "recall@1"


def test_the_effect_of_corrections_names_the_main_metric(tmp_path: Path) -> None:
    """The first primary one that tells the run from others and changes: ``support_density`` is equal for both runs."""
    primary = ["support_density", "token_f1", "recall@1", "mrr"]
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        values = {"support_density": [1], "token_f1": [1], "recall@1": [1], "mrr": [1]}
        scored(store, "other", samples(1), {name: [int(name == primary[0])] for name in values})
        record = scored(store, "run", samples(1), values, plan={"primary": primary})
        results = read_results(Workbench(store), store.runs())
    changes = {"precision@1": 1.0, "support_density": 1.0, "mrr": 1.0, "recall@1": 1.0, "token_f1": 0.0}
    effects = tuple(MetricEffect(name, name, 0.0, new) for name, new in changes.items())
    (details,) = effect_blocks([RunEffect(record, effects)], results)
    assert isinstance(details, Details)
    assert details.summary == "run: 4 values of 5 change, recall@1 0.0000 → 1.0000", "token_f1 keeps its value"
