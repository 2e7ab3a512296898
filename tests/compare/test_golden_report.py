"""The report of two runs: its document as a snapshot, its page, and what a page must not be broken by."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.compare import (
    AggregateMetrics,
    CompareReport,
    ComparisonKind,
    MetricComparison,
    QueryComparison,
    compute_aggregate,
    golden_report,
    render_report_md,
    store_aggregate,
    version_notes,
    write_report,
)
from auepora_eval.errors import BadValueError, DataFileError
from auepora_eval.store import RunRecord, RunStore
from helpers.golden_runs import chunk, found, golden, put_run

SNAPSHOT = Path(__file__).parent / "compare-1.json"

OLD = {"chunker_version": "1", "embedding": "e5", "model": "m", "prompt_version": "1"}
NEW = {"chunker_version": "2", "embedding": "e5", "model": "m", "prompt_version": "2"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with RunStore.open(tmp_path / "runs.sqlite") as opened:
        yield opened


def fixed_pair(store: RunStore) -> tuple[RunRecord, RunRecord]:
    """Two runs in which everything happens once: a win, a loss, a draw, a regression, a failure, a refusal."""
    places = {
        name: chunk(name, *place)
        for name, place in {
            "a1": ("guide", (0, 100)),
            "a2": ("guide", (100, 200)),
            "b1": ("terms", (0, 100)),
            "wide": ("guide", (0, 200)),
            "late": ("guide", (300, 500)),
            "n1": ("terms", (0, 150)),
        }.items()
    }
    queries = [
        golden("win", "a1", expected_doc_ids=["guide"], must_contain=["yes"]),
        golden("loss", "a2", expected_doc_ids=["guide"]),
        golden("draw", "b1", expected_doc_ids=["terms"]),
        golden("regression", "b1", expected_doc_ids=["terms"], forbidden=["maybe"]),
        golden("failed", "a1", expected_doc_ids=["guide"]),
        golden("refuse", expected_doc_ids=[]),
    ]
    a1, a2, b1, wide, late, n1 = (places[name] for name in ("a1", "a2", "b1", "wide", "late", "n1"))
    before = [
        found(b1, a1, answer="yes", citations=["a1"]),
        found(a2, answer="so", citations=["a2", "gone"]),
        found(b1, answer="so", citations=["b1"]),
        found(b1, answer="surely", citations=["b1"]),
        found(a1, answer="so", citations=["a1"]),
        found(a1, answer="because", refused=False),
    ]
    after = [
        found(wide, answer="yes", citations=["wide"]),
        found(late, wide, answer="so", citations=["wide"]),
        found(n1, answer="so", citations=["n1"]),
        found(late, answer="maybe", citations=["late"]),
        found(error="timeout: no answer after 30 s"),
        found(answer="I cannot say.", refused=True),
    ]
    return put_run(store, "a", queries, before, config=OLD), put_run(store, "b", queries, after, config=NEW)


def test_the_document_of_a_fixed_pair_of_runs_is_stable(store: RunStore) -> None:
    a, b = fixed_pair(store)
    text = golden_report(store, a, b).to_json() + "\n"
    assert text == SNAPSHOT.read_text(encoding="utf-8")
    assert text == golden_report(store, store.get("run_a"), store.get("run_b")).to_json() + "\n"


def test_the_snapshot_by_hand() -> None:
    """What the snapshot must say, so that it cannot be renewed into something wrong."""
    snapshot = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    assert [(one["query_id"], one["kind"]) for one in snapshot["per_query"]] == [
        ("win", "Win"),
        ("loss", "Loss"),
        ("draw", "Draw"),
        ("regression", "Regression"),
        ("failed", "Regression"),
    ]
    a, b, deltas = snapshot["aggregate_a"], snapshot["aggregate_b"], snapshot["deltas"]
    assert a["hit_at_k"] == {"1": 4 / 5, "3": 1.0, "5": 1.0, "10": 1.0}
    assert b["hit_at_k"] == {"1": 2 / 5, "3": 3 / 5, "5": 3 / 5, "10": 3 / 5}
    assert (a["mrr"], b["mrr"]) == ((1 / 2 + 4) / 5, (1 + 1 / 2 + 1) / 5)
    assert deltas["mrr"] == b["mrr"] - a["mrr"]
    assert (a["citation_coverage"], b["citation_coverage"]) == (4 / 6, 1.0)
    assert (a["groundedness"], b["groundedness"]) == (1.0, 4 / 5)
    assert (a["refusal_correctness"], b["refusal_correctness"]) == (0.0, 1.0)
    assert (a["empty_result_rate"], b["empty_result_rate"]) == (0.0, 2 / 6)
    assert (a["failed_queries"], b["failed_queries"]) == (0, 1)
    assert deltas["chunker_version_match"] == "fallback_doc_span"
    assert (deltas["only_in_a"], deltas["only_in_b"], deltas["without_expected_chunk"]) == (0, 0, 1)
    assert snapshot["notes"] == ["chunker_version: 1 in A, 2 in B", "prompt_version: 1 in A, 2 in B"]


def test_stored_aggregates_stay_as_they_are(store: RunStore) -> None:
    a, b = fixed_pair(store)
    store_aggregate("run_b", compute_aggregate("run_b", store=store), store=store)
    before = store.get("run_b").aggregate
    report = golden_report(store, a, b)
    assert store.get("run_b").aggregate == before
    assert before is not None
    assert before["hit_at_k"]["1"] == 0.0  # by id the new chunks are unknown
    assert report.aggregate_b.hit_at_k[1] == 2 / 5


def test_aggregates_are_over_the_queries_that_both_runs_have(store: RunStore) -> None:
    queries = [golden("q", "gold"), golden("r", "gold")]
    a = put_run(store, "a", queries, [found("gold"), found("x")])
    b = put_run(store, "b", queries[:1], [found("gold")])
    report = golden_report(store, a, b)
    assert (report.aggregate_a.mrr, report.aggregate_a.total_queries) == (1.0, 1)
    assert report.deltas["mrr"] == 0.0
    assert report.deltas["only_in_a"] == 1
    assert "Not compared: 1 in A only." in render_report_md(report)


def test_a_strict_report_refuses_before_it_reads(store: RunStore) -> None:
    a, b = fixed_pair(store)
    with pytest.raises(BadValueError, match="chunker_version is 1 in run_a and 2 in run_b"):
        golden_report(store, a, b, strict_chunker_version=True, golden="nowhere.yaml")


# --- what differs ----------------------------------------------------------------------------------------------------


def test_version_notes(store: RunStore) -> None:
    queries, outputs = [golden("q", "gold")], [found("gold")]
    a = put_run(
        store,
        "a",
        queries,
        outputs,
        commit="abc",
        config={"model": "m1", "chunker_version": 1, "host": "x", "same": 1},
        plan={"conventions": {"name": "auepora"}, "run": {"top_k": 5, "concurrency": 1}},
    )
    b = put_run(
        store,
        "b",
        [*queries, golden("r", "gold")],
        [*outputs, found("gold")],
        [*outputs, found("gold")],
        commit="def",
        config={"model": "m2", "chunker_version": "1", "embedding": "e", "same": 1},
        plan={"conventions": {"name": "trec", "min_relevance": 2}, "run": {"top_k": 10, "concurrency": 1}},
        dataset_name="other",
    )
    assert version_notes(a, b) == [
        "embedding: unknown in A, e in B",
        "model: m1 in A, m2 in B",
        "host: x in A, unknown in B",
        "commit: abc in A, def in B",
        "conventions: auepora in A, name trec, min_relevance 2 in B",
        "top_k: 5 in A, 10 in B",
        "repeats: 1 in A, 2 in B",
        "dataset: golden (1 query) in A, other (2 queries) in B",
    ]
    assert version_notes(a, a) == []


# --- the page --------------------------------------------------------------------------------------------------------


def report_of(**given: Any) -> CompareReport:
    ks = dict.fromkeys((1, 3, 5, 10), 0.5)
    agg = AggregateMetrics(ks, 0.5, ks, None, None, 0.0, None, 4, 0)
    deltas = {"chunker_version_match": "exact", "only_in_a": 0, "only_in_b": 0}
    made: dict[str, Any] = {
        "run_a": "run_a",
        "run_b": "run_b",
        "aggregate_a": agg,
        "aggregate_b": agg,
        "deltas": deltas,
        "per_query": [],
    }
    return CompareReport(**{**made, **given})


COMPARED = MetricComparison(
    name="recall@5", target="RETRIEVAL_RELEVANCE", a=0.5, b=0.75, delta=0.25, delta_completed=0.25, bounds=None,
    interval=(0.1, 0.4), p_value=0.00002, p_adjusted=0.012, effect_size=0.5, mde=0.1, wins=3, losses=1, draws=6,
    verdict="better", n=10, clusters=10,
)  # fmt: skip


def tables(page: str) -> list[list[list[str]]]:
    """The tables of a page as rows of cells; pipes that are escaped stay in their cell."""
    found_tables: list[list[list[str]]] = []
    before = ""
    for line in page.splitlines():
        if line.startswith("|"):
            if not before.startswith("|"):
                found_tables.append([])
            found_tables[-1].append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        before = line
    return found_tables


def test_the_page_of_the_fixed_pair(store: RunStore) -> None:
    page = render_report_md(golden_report(store, *fixed_pair(store)))
    assert page.startswith("# run_b against run_a\n")
    assert "- prompt_version: 1 in A, 2 in B\n" in page
    assert "different chunks" in page
    assert "| MRR | 0.9000 | 0.5000 | −0.4000 |" in page
    assert "| hit@1 | 0.8000 | 0.4000 | −0.4000 |" in page
    assert "1 win, 1 loss, 1 draw, 2 regressions. Not compared: 1 without an expected chunk." in page
    assert (
        "| failed | 1 | – | failed in B: timeout: no answer after 30 s; chunker_version, prompt_version differ |"
        in page
    )
    assert page.index("### Regressions") < page.index("### Losses") < page.index("### Wins")


def test_metrics_and_refusals_have_their_tables() -> None:
    other = replace(
        COMPARED, name="bleu", p_adjusted=None, primary=False, verdict="inconclusive", delta=-0.1, delta_completed=-0.1, interval=None,
        n_needed=400, flags=("few units",), clusters=5,
    )  # fmt: skip
    page = render_report_md(report_of(metrics=[COMPARED, other], refused={"map@5": "the convention 'ap' differs"}))
    metrics, refused, *_ = tables(page)
    assert metrics[2][1:] == [
        "recall@5", "0.5000", "0.7500", "+0.2500", "+0.1000 to +0.4000", "0.0120", "3 / 1", "10", "▲ better",
    ]  # fmt: skip
    assert metrics[3][4:] == ["−0.1000", "", "&lt; 0.0001", "3 / 1", "10 in 5", "exploratory"]
    assert "- exploratory: not among the primary metrics" in page
    assert "exploratory" not in render_report_md(report_of(metrics=[COMPARED]))
    assert refused[2] == ["map@5", "the convention 'ap' differs"]


NASTY: list[tuple[str, str, str]] = [
    ("a|b", r"a\|b", "a pipe"),
    ("a\nb\r\n| c |", r"a b \| c \|", "lines"),
    ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;", "HTML"),
    ("x &lt; y", "x &amp;lt; y", "an entity"),
    ("`code` *b* [l](u)", r"\`code\` \*b\* \[l\](u)", "marks of Markdown"),
    ("_a_ snake_case", r"\_a\_ snake_case", "underscores that would be emphasis"),
    ("back\\|slash", r"back\\\|slash", "a backslash before a pipe"),
    ("a\u2028b\x00c", "a b c", "separators and control characters"),
    ("# no heading", r"\# no heading", "the start of a heading"),
    ("1. no item", r"1\. no item", "the start of a list"),
    ("q1", "q1", "an ordinary id"),
]


@pytest.mark.parametrize(("text", "want", "why"), NASTY, ids=[row[2] for row in NASTY])
def test_no_text_breaks_the_page(text: str, want: str, why: str) -> None:
    query = QueryComparison(text, ComparisonKind.WIN, None, 1, text)
    metric = replace(COMPARED, name=text)
    page = render_report_md(
        report_of(per_query=[query], metrics=[metric], refused={text: text}, notes=[text], run_b=text)
    )
    assert "<script" not in page
    assert f"- {want}\n" in page
    for rows in tables(page):
        assert len({len(row) for row in rows}) == 1, rows
    cell = want.replace("1\\.", "1.")  # a table cell starts no list
    assert tables(page)[-1][2] == [cell, "–", "1", cell]
    assert tables(page)[0][2][1] == cell


def test_a_long_list_is_cut_and_the_rest_counted() -> None:
    queries = [QueryComparison(f"q{n}", ComparisonKind.LOSS, 1, 2) for n in range(250)]
    page = render_report_md(report_of(per_query=queries))
    assert "0 wins, 250 losses, 0 draws, 0 regressions." in page
    assert len(tables(page)[-1]) == 202
    assert "And 50 more." in page


def test_the_page_is_written_under_the_id_of_run_b(tmp_path: Path) -> None:
    path = write_report(report_of(), tmp_path / "runs")
    assert path == tmp_path / "runs" / "run_b" / "report.md"
    assert path.read_text(encoding="utf-8") == render_report_md(report_of())
    assert write_report(report_of(notes=["again"]), str(tmp_path / "runs")) == path
    assert "again" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("run_id", ["../up", "a/b", "..", "", "a\\b"])
def test_an_id_that_is_no_folder_is_refused(tmp_path: Path, run_id: str) -> None:
    with pytest.raises(BadValueError, match="cannot be the name of a folder"):
        write_report(report_of(run_b=run_id), tmp_path)
    assert not list(tmp_path.iterdir())


def test_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadValueError, match="cannot make the folder"):
        write_report(report_of(), tmp_path / "file")
    (tmp_path / "run_b" / "report.md").mkdir(parents=True)
    with pytest.raises(DataFileError, match="is a directory"):
        write_report(report_of(), tmp_path)
