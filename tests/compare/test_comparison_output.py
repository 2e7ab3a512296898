"""Rendered comparisons: failures, alternative differences, causes and leaderboards, in a terminal and as Markdown."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from auepora_eval.compare import (
    AggregateMetrics,
    CompareReport,
    MetricComparison,
    compare_runs,
    render_report_md,
    write_report,
)
from auepora_eval.compare.queries import Cause, QueryChange, explain_changes
from auepora_eval.compare.rendering import alternative_differences, comparison_page, signed, split_table
from auepora_eval.compare.runs import (
    DifferencePart,
    Leaderboard,
    LeaderboardMetric,
    LeaderboardPair,
    MetricSplit,
    build_leaderboard,
)
from auepora_eval.core.registry import Spec, metric
from auepora_eval.core.scores import Scores
from auepora_eval.gates import check_gates
from auepora_eval.labels.batch_plans import BatchOptions, create_batch
from auepora_eval.render.markdown import report_markdown
from auepora_eval.render.tables import results_table
from auepora_eval.render.terminal import blocks_text, report_text
from auepora_eval.report.comparison_sections import main_metric_figure
from auepora_eval.report.plots import plot_split
from auepora_eval.report.run_sections import StoredRun
from auepora_eval.store.rows import StoredJudgement
from auepora_eval.store.runs import RunStore
from auepora_eval.ui.batch_planners import plan_batch
from auepora_eval.ui.compare_card import leaderboard_card
from helpers.scripted_critic import Scripted
from helpers.stored_runs import Answer, run, samples, scored
from helpers.ui_server import ui_server

Call = Callable[..., tuple[int, str, str]]


def comparison_text(report: CompareReport, names: tuple[str, str] | None = None) -> str:
    """Two runs as in a terminal."""
    return report_text(comparison_page(Leaderboard.of_pair(report, names), report))


ONE = MetricComparison(
    name="exact_match", target="ANSWER_CORRECTNESS", a=0.5, b=0.5, delta=0.0, delta_completed=0.0, bounds=None,
    interval=(-0.1, 0.1), p_value=1.0, p_adjusted=1.0, effect_size=0.0, mde=0.1, wins=1, losses=1, draws=8,
    verdict="inconclusive", n=10, clusters=10,
)  # fmt: skip

READINGS: list[tuple[MetricComparison, str | None, str]] = [
    (ONE, None, "nothing failed"),
    (replace(ONE, delta=0.3, delta_completed=0.1 + 0.2), None, "rounding is no other reading"),
    (replace(ONE, delta_completed=None), None, "no sample that both answered"),
    (replace(ONE, delta_completed=0.125), "+0.1250 over the samples that both systems answered", "systems failed"),
    (
        replace(ONE, bounds=(-0.05, 0.15)),
        "with failed measurements at their worst and best: −0.0500 to +0.1500",
        "measurements failed",
    ),
]


@pytest.mark.parametrize(("one", "want", "why"), READINGS, ids=[row[2] for row in READINGS])
def test_alternative_differences(one: MetricComparison, want: str | None, why: str) -> None:
    assert alternative_differences(one) == want


def test_zero_difference_has_one_sign() -> None:
    assert signed(-0.0) == signed(0.0) == "0.0000"
    assert signed(-0.25) == "−0.2500"


ANSWERS = (("a", "a form"), ("b", "my money"))


def test_unordered_classes_are_not_won_or_lost(store: RunStore) -> None:
    """Proportions of classes differ, and neither run is better."""
    options = {"name": "topic", "prompt": "What is it about?", "inputs": ["answer"], "scale": ["refund", "other"]}
    critic = Scripted(lambda request, _: "refund" if "my money" in request.prompt else "other")
    topic = metric({"judge_metric": {**options, "critic": critic}})
    data = samples(20)
    records = [run(store, name, data, lambda number, text=text: text, [topic]) for name, text in ANSWERS]  # type: ignore[misc]
    refund = metric({"judge_metric": {**options, "critic": critic, "part": "refund", "name": "topic[refund]"}})
    comparisons = build_leaderboard(store, records, metrics=[refund])
    (one,) = comparisons.comparisons
    assert (one.delta, one.verdict, one.doubt, one.higher_is_better) == (1.0, "inconclusive", "no_direction", None)
    assert (one.wins, one.losses, one.draws) == (0, 0, 0)
    assert one.to_dict()["higher_is_better"] is None
    text = report_text(comparison_page(comparisons))
    assert " / " not in text.partition("won / lost")[2]
    assert "no direction" in text
    assert "its proportion can differ, and no sample is won or lost" in text
    gate = check_gates(["not worse(topic[refund])"], store.results(records[1].run_id), comparison={one.name: one})
    assert (gate.status, gate.exit_code) == ("inconclusive", 3)


def failing(until: int, answer: str = "yes") -> object:
    def answers(number: int) -> Answer:
        return RuntimeError("down") if number < until else answer

    return answers


def test_failures_are_noted_once_with_the_difference_without_them(store: RunStore) -> None:
    data = samples(10)
    a = run(store, "a", data, lambda number: "yes", ["exact_match"])
    b = run(store, "b", data, failing(4), ["exact_match"])  # type: ignore[arg-type]
    report = compare_runs(a.run_id, b.run_id, store=store)
    for text in (comparison_text(report), render_report_md(report)):
        assert "0.0000 over the samples that both systems answered" in text
        assert "failed on every sample" not in text
    assert comparison_text(report).count("failed: 0 of 10 in A and 4 of 10 in B") == 1
    again = run(store, "again", data, lambda number: "yes", ["exact_match"])
    assert "failed: " not in comparison_text(compare_runs(a.run_id, again.run_id, store=store))


def test_run_that_failed_on_every_sample(store: RunStore) -> None:
    data = samples(10)
    a = run(store, "a", data, lambda number: "yes", ["exact_match"])
    b = run(store, "b", data, failing(10), ["exact_match"])  # type: ignore[arg-type]
    report = compare_runs(a.run_id, b.run_id, store=store)
    for text in (comparison_text(report), render_report_md(report)):
        assert "B failed on every sample" in text


def test_failed_measurements_show_their_bounds(store: RunStore) -> None:
    data, values = samples(10), np.linspace(0, 1, 10)
    gone = np.arange(10) == 3
    a = scored(store, "a", data, {"token_f1": values})
    b = scored(store, "b", data, {"token_f1": Scores.of(values, fail={"judge": gone})})
    report = compare_runs(a.run_id, b.run_id, store=store)
    (one,) = report.metrics
    assert one.bounds is not None
    want = f"{signed(one.bounds[0])} to {signed(one.bounds[1])}"
    assert want in comparison_text(report)
    assert want in render_report_md(report)


def test_a_page_has_names_and_causes(store: RunStore, tmp_path: Path) -> None:
    data = samples(6)
    a = run(store, "plain", data, lambda number: ["gold"] if number else ["other"], ["recall@1"])
    b = run(store, "new|er", data, lambda number: ["other"], ["recall@1"])
    report = compare_runs(a.run_id, b.run_id, store=store)
    changes = explain_changes(store, a, b)
    changes[0] = replace(changes[0], sample_id="a|b\n<i>")
    page = render_report_md(report, names=(a.name, b.name), changes=changes, judged_by="recall@1")
    assert page.startswith(f"# new\\|er ({b.run_id}) against plain ({a.run_id})\n")
    assert "5 queries got worse by recall@1: lost 5." in page
    assert "| a\\|b &lt;i&gt; | lost | A has gold at rank 1, B has none among its 1 documents |" in page
    assert "No query got worse by x." in render_report_md(report, changes=[], judged_by="x")
    assert "got worse" not in render_report_md(report)
    path = write_report(report, tmp_path, names=(a.name, b.name), changes=changes, judged_by="recall@1")
    assert path.read_text(encoding="utf-8") == page


def test_many_causes_are_cut(store: RunStore) -> None:
    data = samples(3)
    a = run(store, "a", data, lambda number: "yes", ["exact_match"])
    changes = [QueryChange(f"q{n}", Cause.LOST, 1.0, 0.0, 1, None, "gone") for n in range(250)]
    b = run(store, "b", data, lambda number: "yes", ["exact_match"])
    page = render_report_md(compare_runs(a.run_id, b.run_id, store=store), changes=changes, judged_by="x")
    assert "And 50 more." in page
    assert "| q199 | lost | gone |" in page
    assert "| q200 |" not in page


@pytest.fixture
def three(store: RunStore) -> Leaderboard:
    """Two runs alike and one that is better, by a primary metric and by one that is not."""
    rng = np.random.default_rng(0)
    base = rng.random(60) * 0.5
    columns = [base, base, base + 0.3]
    records = [
        scored(store, f"run|{at}", samples(60), {"token_f1": column, "exact_match": np.round(column)})
        for at, column in enumerate(columns)
    ]
    return build_leaderboard(store, records, primary=["token_f1"], delta=0.1)


def test_leaderboard_shows_every_pair(three: Leaderboard) -> None:
    text = report_text(comparison_page(three))
    cells = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]
    assert any(row[:3] == ["token_f1", "B − A", "0.0000"] and row[-1] == "= equal" for row in cells)
    assert any(row[:3] == ["token_f1", "C − A", "+0.3000"] and row[-1] == "▲ better" for row in cells)
    assert any(row[:3] == ["token_f1", "C − B", "+0.3000"] and row[-1] == "▲ better" for row in cells)
    (values,) = [row for row in cells if row[-1:] == ["C > A, C > B"]]
    assert [cell.startswith("★") for cell in values[2:5]] == [False, False, True]
    assert "By token_f1, C (run|2) is first with " in text
    assert "and significantly better than every other run." in text


def test_exploratory_metric_of_a_leaderboard_has_no_winner(three: Leaderboard) -> None:
    text = report_text(comparison_page(three))
    for line in text.splitlines():
        if "exact_match" in line:
            assert "★" not in line
            assert line.endswith("exploratory")
    assert "exploratory: not among the primary metrics" in text
    assert [three.to_dict()["metrics"][name]["primary"] for name in ("token_f1", "exact_match")] == [True, False]


def test_leaderboard_as_markdown(three: Leaderboard) -> None:
    page = report_markdown(comparison_page(three))
    assert page.startswith("# 3 runs against each other\n")
    assert "- A: run\\|0 (" in page
    assert "| C &gt; A, C &gt; B |" in page
    assert "| token_f1 | C − A | +0.3000 | " in page
    for block in page.split("\n\n"):
        if block.startswith("|"):
            assert len({line.replace("\\|", "").count("|") for line in block.splitlines()}) == 1, block


def test_pair_is_a_leaderboard_of_two(store: RunStore) -> None:
    data, base = samples(20), np.linspace(0, 0.5, 20)
    a, b = (scored(store, name, data, {"token_f1": base + shift}) for name, shift in (("a", 0.0), ("b", 0.3)))
    board = build_leaderboard(store, [a, b])
    report = compare_runs(a.run_id, b.run_id, store=store)
    again = Leaderboard.of_pair(report, ("a", "b"))
    assert (again.metrics, again.names, again.missing) == (board.metrics, board.names, board.missing)
    assert board.metrics[0].wins == [(1, 0)]


def test_no_text_breaks_a_line_of_the_terminal(store: RunStore) -> None:
    data = samples(4)
    a = run(store, "a", data, lambda number: ["gold"], ["recall@1"])
    b = run(store, "b", data, failing(4), ["recall@1"])  # type: ignore[arg-type]
    report = compare_runs(a.run_id, b.run_id, store=store)
    lines = comparison_text(report).count("\n")
    nasty = replace(
        report,
        notes=[f"{note}\nx" for note in report.notes],
        refused={name: f"{why}\n" for name, why in report.refused.items()},
        metrics=[replace(one, name="a\tb\n") for one in report.metrics],
        per_query=[replace(one, query_id="q\n1", note="why\nnot") for one in report.per_query],
    )
    text = comparison_text(nasty, names=("a\n", "b\r\n"))
    assert text.count("\n") == lines
    assert not {"\t", "\r"} & set(text)
    assert "q\\n1" in text


def test_identical_scores_have_no_interval(store: RunStore) -> None:
    scores = {"exact_match": [1, 0, 1, 1, 0] * 4}
    records = [scored(store, name, samples(20), scores) for name in ("one", "two")]
    text = comparison_text(compare_runs(records[0].run_id, records[1].run_id, store=store))
    (row,) = [line for line in text.splitlines() if "exact_match" in line and "0 / 0" in line]
    assert row.endswith("= equal")
    assert " to " not in row, "nothing was estimated"


def test_runs_without_gold_have_no_block_of_golden_queries(store: RunStore) -> None:
    without = [replace(one, relevant_docs=None) for one in samples(3)]
    names = [run(store, name, without, lambda n: "yes", ["exact_match"]).run_id for name in ("one", "two")]
    assert "olden queries" not in comparison_text(compare_runs(*names, store=store))
    names = [run(store, name, samples(3), lambda n: ["gold"], ["recall@1"]).run_id for name in ("three", "four")]
    assert "Golden queries" in comparison_text(compare_runs(*names, store=store))


def test_a_metric_has_one_label_in_results_and_comparisons(store: RunStore) -> None:
    metrics: list[Spec] = [
        "map@10",
        "mean_latency[end_to_end]",
        "throughput",
        {"quality_given_hit@1": {"base": "token_f1"}},
    ]
    runs = [run(store, name, samples(3), lambda n: ["gold"], metrics) for name in ("one", "two", "three")]
    labels = [
        "map@10 (over hits)",
        "mean_latency[end_to_end] (s)",
        "throughput (answers/s)",
        "quality_given_hit@1 (token_f1)",
    ]
    for text in (
        results_table(store.results(runs[0].run_id)),
        report_text(comparison_page(build_leaderboard(store, runs[:2]))),
        report_text(comparison_page(build_leaderboard(store, runs))),
    ):
        assert [label for label in labels if label not in text] == []
    names = {one.name for one in build_leaderboard(store, runs[:2]).comparisons}
    assert "map@10" in names, "names of metrics, as in JSON, do not change"
    (first, *_) = build_leaderboard(store, runs[:2]).comparisons
    assert "label" not in first.to_dict()
    board = build_leaderboard(store, runs)
    figure = main_metric_figure([StoredRun(store, one) for one in runs], board)
    assert figure.caption.partition(" of each run")[0] in labels
    compared = {one.name: one for one in build_leaderboard(store, runs[:2]).comparisons}
    gates = ["not worse(map@10)", "better(map@10, by=0.1)", "point(delta(map@10)) > 0", "map@10 >= 0.9"]
    outcomes = check_gates(gates, store.results(runs[1].run_id), comparison=compared).outcomes
    assert [one.reason for one in outcomes if labels[0] not in one.reason] == []


def test_a_metric_has_one_label_on_pages_of_queries(store: RunStore, tmp_path: Path, auepora: Call) -> None:
    one = run(store, "one", samples(3), lambda n: ["gold"], ["map@10"])
    two = run(store, "two", samples(3), lambda n: ["other", "gold"], ["map@10"])
    label, sample = "map@10 (over hits)", store.sample_ids(one.run_id)[0]
    shown = auepora("compare", "one", "two", "--why", "--all", "--store", str(tmp_path / "runs.sqlite"))[1]
    assert f"3 queries got worse by {label}" in " ".join(shown.split())
    part = DifferencePart(0.5)
    split = MetricSplit("map@10", "", 0.0, 0.5, 1.0, part, part, part, n=3, units=3, left_out=0, label=label)
    assert label in blocks_text([split_table([split])])
    assert label in plot_split([split]).description
    assert "label" not in split.to_dict()
    store.put_judgements(one.run_id, [StoredJudgement("map@10", "s", 0, "r", critic="c", body={"answer": {"a": 1}})])
    with ui_server(store) as server:
        batch = create_batch(
            server.workbench.labels,
            plan_batch(store, BatchOptions("review", (one.run_id,), "batch", metric="map@10", samples=(sample,))),
        )
        server.workbench.queue(batch.id).submit("ann", 1, ["wrong"], submission="1")
        server.workbench.queue(batch.id).close("eve")
        pages = {
            "query": f"/query?run={one.run_id}&run={two.run_id}&id={sample}",
            "derivation": f"/runs/{one.run_id}/derivation?metric=map%4010&sample={sample}",
            "disagreements": f"/review/disagreements?run={one.run_id}",
        }
        texts = {name: server.get(address).text for name, address in pages.items()}
    assert f"<strong><bdi>{label}</bdi></strong>" in texts["query"]
    assert f"{label} over all queries" in texts["derivation"]
    assert f"<bdi>{label}</bdi></h3>" in texts["disagreements"]


BETTER = replace(ONE, verdict="better", delta=0.2, b=0.7)
CONCLUSIONS: list[tuple[list[MetricComparison], tuple[str, ...], str, str]] = [
    ([BETTER], (), "Better: B against A on 1 primary metric: 1 better", "all are better"),
    (
        [BETTER, replace(ONE, name="token_f1")],
        ("recall@5", "mrr"),
        "Better on 1 of 4 primary metrics: B against A: 1 better, 1 inconclusive, 2 not compared",
        "one of four is no headline for all",
    ),
    (
        [replace(ONE, verdict="worse", delta=-0.2, b=0.3), replace(ONE, name="token_f1")],
        (),
        "Worse on 1 of 2 primary metrics: B against A: 1 worse, 1 inconclusive",
        "the same for the worse",
    ),
]


@pytest.mark.parametrize(("metrics", "refused", "want", "why"), CONCLUSIONS, ids=[row[3] for row in CONCLUSIONS])
def test_short_form_leads_with_the_count(
    metrics: list[MetricComparison], refused: tuple[str, ...], want: str, why: str
) -> None:
    reasons = dict.fromkeys(refused, "B does not have it")
    nothing = AggregateMetrics({}, None, {}, None, None, None, None, 0, 0)
    report = CompareReport("a", "b", nothing, nothing, {}, [], metrics, reasons, refused_primary=refused)
    assert report.to_text().replace("\n", " ").startswith(want)


def test_equal_values_of_a_leaderboard_have_the_same_digits() -> None:
    """The interval of the difference from the first run is another one for each of the others."""
    pairs = (
        LeaderboardPair(0, 1, replace(ONE, primary=False, interval=(-0.004, 0.004))),
        LeaderboardPair(0, 2, replace(ONE, primary=False, interval=(-0.4, 0.4))),
    )
    metric = LeaderboardMetric("exact_match", "GENERATION_CORRECTNESS", True, (0.5, 1 / 30, 1 / 30), pairs)
    board = Leaderboard(("a", "b", "c"), ("a", "b", "c"), [metric])
    ((_, ((_, cells),)),) = leaderboard_card(board, None)
    assert [cell["value"] for cell in cells] == ["0.500", "0.033", "0.033"]
