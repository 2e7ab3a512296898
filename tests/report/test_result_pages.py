"""Exported tables: Markdown pages with intervals, CSV of comparisons and of every score."""

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from auepora_eval import MetricResult, Results, TargetCategory, evaluate
from auepora_eval.compare.rendering import COLUMNS
from auepora_eval.core.results import results_to_markdown
from auepora_eval.render.tables import results_markdown
from auepora_eval.runs.scoring import rescore
from auepora_eval.store import RunStore
from helpers.builders import output, samples
from helpers.golden_runs import put_run

METRICS = ["recall@1", "mrr", "empty_result_rate"]


def test_results_markdown_is_grouped_by_target() -> None:
    rows = samples(["a"], ["a"], [], ["a"])
    results = evaluate(rows, [output("a"), output("b"), output("a"), output(error="timeout")], METRICS)
    lines = results_markdown(results).splitlines()
    assert lines[0] == "| target | metric | value | 95 % interval | mean of |"
    assert lines[2].startswith(
        "| Retrieval relevance | recall@1 | 0.3333 | 0.0000 – 1.0000 ? | 3 of 4; 1 failed, counted"
    )
    assert lines[3].startswith("|  | empty_result_rate |")
    assert lines[4].startswith("| Retrieval accuracy | mrr |")
    assert lines[-1] == "? few or skewed samples: the interval may be too narrow"


ODD = ["a|b", "line\nend", "<script>x</script>", "`code`", "[a](javascript:x)"]


@pytest.mark.parametrize("name", ODD)
def test_special_characters_do_not_break_the_table(name: str) -> None:
    result = MetricResult(name, TargetCategory.LATENCY, 0.5)
    for page in (results_markdown(Results([result])), results_to_markdown([result])):
        assert len(page.splitlines()) == 3
        assert page.splitlines()[2].replace("\\|", "").count("|") == 4
        assert "<script>" not in page


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three stored runs, in the store that is looked for first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    rows = samples(["a"], ["a"], ["b"], ["b"])
    with RunStore.open("runs.sqlite") as store:
        for name, ranked in (("one", "xxxx"), ("two", "axbx"), ("three", "aabb")):
            record = put_run(store, name, rows, [output([doc]) for doc in ranked])
            rescore(record, METRICS, store=store)


def table_of(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(Path(path).read_text())))


def test_comparison_csv(runs: None, auepora: Callable[..., tuple[int, str, str]]) -> None:
    assert auepora("compare", "one", "two", "-o", "c.csv")[0] == 0
    rows = table_of("c.csv")
    assert tuple(rows[0]) == COLUMNS
    assert [row["metric"] for row in rows] == METRICS
    assert (rows[0]["run_a"], rows[0]["run_b"], rows[0]["delta"], rows[0]["wins"]) == ("run_one", "run_two", "0.5", "2")
    code, _, err = auepora("compare", "one", "two", "--why", "-o", "c.csv")
    assert (code, "a CSV contains only metrics" in err) == (2, True)


def test_leaderboard_csv_has_row_per_pair(runs: None, auepora: Callable[..., tuple[int, str, str]]) -> None:
    assert auepora("compare", "one", "two", "three", "-o", "leaderboard.csv")[0] == 0
    pairs = {(row["run_a"], row["run_b"]) for row in table_of("leaderboard.csv") if row["metric"] == "mrr"}
    assert pairs == {("run_one", "run_two"), ("run_one", "run_three"), ("run_two", "run_three")}


def test_scores_csv(runs: None, auepora: Callable[..., tuple[int, str, str]]) -> None:
    assert auepora("show", "two", "--per-query", "-o", "scores.csv")[0] == 0
    assert [row["recall@1"] for row in table_of("scores.csv")] == ["1.0", "0.0", "1.0", "0.0"]
    code, _, err = auepora("show", "two", "--per-query", "-o", "scores.md")
    assert (code, "--per-query goes with --json, or with -o FILE.csv" in err) == (2, True)


def test_run_as_markdown_page(runs: None, auepora: Callable[..., tuple[int, str, str]]) -> None:
    assert auepora("show", "two", "-o", "report.md")[0] == 0
    lines = Path("report.md").read_text().splitlines()
    assert lines[0] == "# two"
    assert lines[2].startswith("- run: run_two")
    assert "| target | metric | value | 95 % interval |" in lines
