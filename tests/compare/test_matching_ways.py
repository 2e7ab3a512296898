"""Runs that match gold in different ways, or whose chunks differ, are compared by one way, from stored outputs."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.compare import compare_metrics, compare_queries
from auepora_eval.compare.match import Coverage, budget_note, check_coverage, measure_coverage
from auepora_eval.compare.queries import explain_changes
from auepora_eval.compare.runs import build_leaderboard, compare_runs
from auepora_eval.compare.stores import run_outputs
from auepora_eval.compare.types import ComparisonInput, MetricComparison
from auepora_eval.errors import BadValueError
from auepora_eval.gates import check_run
from auepora_eval.plan.gates import parse_gates
from auepora_eval.queries.columns import RunColumns
from auepora_eval.queries.table import QueryTable
from auepora_eval.report.stored_plots import plot_runs
from auepora_eval.runs.run import run_system
from auepora_eval.store.records import RunRecord
from auepora_eval.store.runs import RunStore, result_summaries
from auepora_eval.ui.run_table import read_results
from auepora_eval.ui.run_trend import trend_lines, trend_points
from helpers.ui_server import ui_server

QUERIES, WORDS, GOLD = 12, 480, 120
METRICS = ("recall@5", "hit_rate@5", "mrr")
Call = Callable[..., tuple[int, str, str]]


def words_of(document: str) -> list[str]:
    """Words that are all different and of unequal lengths."""
    return [f"{document}w{n}{'x' * (n * 7 % 11)}" for n in range(WORDS)]


def cut(document: str, size: int, *, prefix: str, parents: bool = True, spans: bool = True) -> list[Document]:
    """The chunks of a document, each of so many words."""
    words, start, found = words_of(document), 0, []
    for first in range(0, WORDS, size):
        text = " ".join(words[first : first + size])
        span = (start, start + len(text)) if spans else None
        found.append(
            Document(f"{prefix}{document}-{first // size}", text, parent_id=document if parents else None, span=span)
        )
        start += len(text) + 1
    return found


def asked(**fields: bool) -> list[EvaluationSample]:
    """Queries whose gold is the second chunk of 120 words of a document."""
    found = []
    for n in range(QUERIES):
        gold = cut(f"d{n}", GOLD, prefix="old-", **fields)[1]
        found.append(EvaluationSample(f"q{n:02}", "?", relevant_docs=[gold], reference_answer=Response("yes")))
    return found


def retriever(size: int, prefix: str, *, finds: int = QUERIES, **fields: bool) -> Callable[..., SystemOutputs]:
    """A system that returns the first of the gold's chunks below one of another document; a few others for the rest."""

    def answer(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        n = int(sample.sample_id[1:])
        own = cut(f"d{n}", size, prefix=prefix, **fields)
        other = cut(f"d{(n + 1) % QUERIES}", size, prefix=prefix, **fields)
        docs = [other[-1], own[GOLD // size] if n < finds else own[-1]]
        return SystemOutputs(
            [RetrievedDocument(doc, 1 / rank, rank) for rank, doc in enumerate(docs, 1)], Response("yes")
        )

    return answer


def put(store: RunStore, name: str, queries: Sequence[EvaluationSample], system: Any, **options: Any) -> RunRecord:
    return run_system(system, queries, list(METRICS), store=store, name=name, **options).record


FORMS: list[tuple[dict[str, bool], str, str]] = [
    ({}, "span", "gold and chunks with spans"),
    ({"spans": False, "parents": False}, "text", "texts alone"),
    ({"spans": False}, "text", "texts and parents"),
]


@pytest.mark.parametrize(("fields", "match", "why"), FORMS, ids=[row[2] for row in FORMS])
def test_chunks_of_half_the_size_are_compared_by_the_passage(
    store: RunStore, fields: dict[str, bool], match: str, why: str
) -> None:
    queries = asked(**fields)
    a = put(store, "a", queries, retriever(GOLD, "old-", **fields))
    b = put(store, "b", queries, retriever(GOLD // 2, "new-", **fields))
    report = compare_runs(a.run_id, b.run_id, store=store)
    assert report.refused == {}
    assert {(one.name, one.a, one.b, one.match) for one in report.metrics} == {
        ("recall@5", 1.0, 1.0, match),
        ("hit_rate@5", 1.0, 1.0, match),
        ("mrr", 0.5, 0.5, match),
    }
    # Half of the words of every gold chunk are found, whatever their lengths: no query is a regression.
    assert {query.kind.value for query in report.per_query} == {"Draw"}
    assert len(report.per_query) == QUERIES
    assert f"gold is matched by {match} in both runs" in " ".join(report.notes)
    assert any("k = 5 is 120 words in B, 240 in A; these differ by more than 10 %" in note for note in report.notes)
    assert all("match" not in (one.signature or "") for one in result_summaries(store, b.run_id))  # nothing is stored


def test_gold_without_a_usable_text_is_not_found_by_its_id(store: RunStore) -> None:
    # One of 24 passages is a name: only the run with the old ids could find it.
    plain = {"spans": False, "parents": False}
    queries = [
        EvaluationSample(f"{sample.sample_id}{copy}", "?", relevant_docs=sample.relevant_docs)
        for sample in asked(**plain)
        for copy in "ab"
    ]
    queries[0] = EvaluationSample("q00a", "?", relevant_docs=[Document("old-d0-1", "Kyoto")])

    def shortened(size: int, prefix: str) -> Callable[..., SystemOutputs]:
        system = retriever(size, prefix, **plain)
        return lambda sample, *, top_k: system(EvaluationSample(sample.sample_id[:3], "?"), top_k=top_k)

    a, b = (
        put(store, name, queries, shortened(*cutting)) for name, cutting in (("a", (GOLD, "old-")), ("b", (60, "new-")))
    )
    recall = compare_metrics(store, a, b).by_name["recall@5"]
    assert (recall.a, recall.b, recall.n, recall.match) == (1.0, 1.0, 23, "text")


def test_a_document_is_what_is_left(store: RunStore) -> None:
    queries = [
        EvaluationSample(one.sample_id, "?", relevant_docs=[Document(doc.doc_id, parent_id=doc.parent_id)])
        for one in asked()
        for doc in one.relevant_docs or ()
    ]
    a = put(store, "a", queries, retriever(GOLD, "old-", spans=False))
    b = put(store, "b", queries, retriever(GOLD // 2, "new-", spans=False, finds=0))
    found = compare_metrics(store, a, b)
    assert {(one.name, one.a, one.b, one.match) for one in found.metrics if one.name == "recall@5"} == {
        ("recall@5", 1.0, 1.0, "parent")
    }


def test_runs_of_different_ways_are_compared_by_the_coarser(store: RunStore, tmp_path: Path, auepora: Call) -> None:
    queries = asked()
    a = put(store, "a", queries, retriever(GOLD, "old-"))
    b = put(store, "b", queries, retriever(GOLD, "old-", finds=6), match="parent")
    c = put(store, "c", queries, retriever(GOLD, "old-", finds=3))
    by_id = compare_metrics(store, a, c).by_name["recall@5"]
    assert (by_id.b, by_id.match) == (0.25, None)
    by_document = compare_metrics(store, a, b).by_name["recall@5"]
    assert (by_document.a, by_document.b, by_document.match) == (1.0, 1.0, "parent")
    note = "A was matched by id and B by document: both are compared by document"
    where = ("--store", str(tmp_path / "runs.sqlite"))
    page = tmp_path / "page.md"
    assert auepora("compare", "a", "b", *where, "-o", str(page))[0] == 0
    shown = [auepora("compare", "a", "b", *where, *form)[1] for form in ((), ("--json",))]
    for text in (*shown, page.read_text()):
        assert note in " ".join(text.split())
    board = build_leaderboard(store, [a, b, c])
    assert {metric.name: metric.values for metric in board.metrics}["recall@5"] == (1.0, 1.0, 1.0)
    assert any("all are compared by document" in one for one in board.notes)


def test_golden_queries_causes_and_ranks_use_the_way_of_the_comparison(store: RunStore) -> None:
    queries = asked()
    a = put(store, "a", queries, retriever(GOLD, "old-"))
    b = put(store, "b", queries, retriever(GOLD, "old-", finds=6), match="parent")
    assert {query.kind.value for query in compare_queries(store, a, b).per_query} == {"Draw"}
    assert explain_changes(store, a, b, metric="recall@5") == []
    table = QueryTable([RunColumns(store, a), RunColumns(store, b)])
    assert table.match == "parent"
    assert table.ranks(0).tolist() == table.ranks(1).tolist() == [2.0] * QUERIES


def test_lists_and_charts_match_as_a_comparison_does(store: RunStore, tmp_path: Path, auepora: Call) -> None:
    queries = asked()
    put(store, "a", queries, retriever(GOLD, "old-", finds=3))
    put(store, "b", queries, retriever(GOLD, "old-", finds=6), match="parent")
    where = ("--store", str(tmp_path / "runs.sqlite"))
    code, out, err = auepora("queries", "a", "b", *where, "--where", "diff.recall@5>=0", "--sort", "diff.recall@5")
    assert (code, err.count("different ways")) == (0, 0)
    assert out.count("1.0000") == 2 * QUERIES, "by document both runs find everything"
    assert auepora("queries", "a", "b", *where, "--where", "recall@5=both-right")[1].count("1.0000") == 2 * QUERIES
    drawn = plot_runs("scores", ["a", "b"], store=store, metrics=["recall@5"])
    assert drawn.title == "Scores of each run; gold matched by document"
    assert drawn.description.startswith("a: 1.0000")
    assert plot_runs("scatter", ["a", "b"], store=store).title.endswith("gold matched by document")


def test_trends_and_query_pages_match_gold_alike(store: RunStore, tmp_path: Path, auepora: Call) -> None:
    """A finds the gold of 3 of 12 questions by id, and the documents of all 12; only B was matched by document."""
    queries = asked()
    a = put(store, "a", queries, retriever(GOLD, "old-", finds=3))
    b = put(store, "b", queries, retriever(GOLD, "old-", finds=6), match="parent")
    with ui_server(store) as server:
        page = server.get("/runs?fragment=trend&metric=recall%405").text
        workbench, records = server.workbench, store.runs()
        lines = trend_lines(trend_points(workbench, records, read_results(workbench, records), "recall@5"))
        found_by_neither = server.get(f"/query?run={a.run_id}&run={b.run_id}&id=q11").text
        found_by_both = server.get(f"/query?run={a.run_id}&run={b.run_id}&id=q00").text
    assert "gold is matched by document in all runs; 1 values were computed again." in page
    (points,) = lines.values()
    assert [(point["run"], point["value"], point["change"]) for point in points] == [("a", 1.0, ""), ("b", 1.0, "")]
    for text in (found_by_neither, found_by_both):
        assert "other definition" not in text
        assert re.search(r"recall@5, gold matched by document[^>]*>1\.00<.*?>1\.00<", text, re.DOTALL)
    listed = json.loads(auepora("runs", "--json", "--store", str(tmp_path / "runs.sqlite"))[1])
    assert {row["main_metric"]["value"] for row in listed} == {1 / 8, 1 / 2}, "mrr as it is stored: gold is at rank 2"


def test_lists_and_charts_name_the_run_that_lacks_texts(store: RunStore, tmp_path: Path, auepora: Call) -> None:
    queries = asked(spans=False, parents=False)

    def blank(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        found = retriever(GOLD, "old-", spans=False, parents=False)(sample, top_k=top_k)
        for item in found.retrieved:
            item.doc.text = ""
        return found

    a = put(store, "a", queries, blank)
    put(store, "b", queries, retriever(GOLD, "old-", spans=False, parents=False), match="text")
    where = ("--store", str(tmp_path / "runs.sqlite"))
    code, _, err = auepora("queries", "a", "b", *where, "--where", "diff.recall@5<0")
    assert code == 2
    assert f"{a.run_id} (a) has no texts" in err
    with pytest.raises(BadValueError, match=r"\(a\) has no texts"):
        plot_runs("scores", ["a", "b"], store=store)


def test_a_run_without_texts_is_named(store: RunStore) -> None:
    queries = asked(spans=False, parents=False)

    def blank(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        found = retriever(GOLD, "old-", spans=False, parents=False)(sample, top_k=top_k)
        for item in found.retrieved:
            item.doc.text = ""
        return found

    a = put(store, "a", queries, blank)
    b = put(store, "b", queries, retriever(GOLD, "old-", spans=False, parents=False), match="text")
    refused = compare_metrics(store, a, b).refused
    assert refused["recall@5"].endswith("by text, and run A has no texts")


def test_disjoint_ids_have_no_verdict(store: RunStore, tmp_path: Path, auepora: Call) -> None:
    queries = [EvaluationSample(f"q{n:02}", "?", relevant_docs=[Document(f"old-d{n}-1")]) for n in range(QUERIES)]
    plain = {"spans": False, "parents": False}

    def bare(size: int, prefix: str) -> Callable[..., SystemOutputs]:
        def answer(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
            found = retriever(size, prefix, **plain)(sample, top_k=top_k)
            for item in found.retrieved:
                item.doc.text = ""
            return found

        return answer

    a, b = put(store, "a", queries, bare(GOLD, "old-")), put(store, "b", queries, bare(GOLD // 2, "new-"))
    found = compare_metrics(store, a, b)
    assert found.metrics == []
    assert found.refused["recall@5"] == (
        "no id that run B retrieved is a gold id or an id of the other run, so their ids do not meet; compare needs "
        "spans, texts or parents"
    )
    code, out, _ = auepora("compare", "a", "b", "--store", str(tmp_path / "runs.sqlite"), "--json")
    document = json.loads(out)
    assert code == 0
    assert document["per_query"] == []
    assert any("no id that run B retrieved" in note for note in document["notes"])


def test_gates_on_differences_use_the_same_way(store: RunStore) -> None:
    queries = asked()
    a = put(store, "a", queries, retriever(GOLD, "old-"))
    b = put(store, "b", queries, retriever(GOLD // 2, "new-"))
    report = check_run(store, b, store.results(b.run_id), parse_gates(["not worse(recall@5)"]), baseline=a)
    (outcome,) = [one for one in report.outcomes if not one.implied]
    assert outcome.status == "passed"
    assert outcome.reason.endswith("gold matched by span in both runs")


def compared(verdict: Any, delta: float) -> MetricComparison:
    empty: dict[str, Any] = dict.fromkeys(
        ("delta_completed", "bounds", "interval", "p_value", "p_adjusted", "effect_size", "mde")
    )
    return MetricComparison(
        "recall@5", "", 0.5, 0.5 + delta, delta, wins=0, losses=0, draws=0, verdict=verdict, n=9, clusters=9, **empty
    )


SIGNS: list[tuple[str, float, float | None, str, str]] = [
    ("better", 0.1, 0.02, "better", "the covered proportion rises, too"),
    ("better", 0.1, -0.01, "inconclusive", "it falls"),
    ("worse", -0.1, 0.0, "inconclusive", "it does not change"),
    ("worse", -0.1, None, "worse", "the same chunks"),
    ("inconclusive", 0.1, -0.01, "inconclusive", "no verdict to confirm"),
]


@pytest.mark.parametrize(("verdict", "delta", "covered", "want", "why"), SIGNS, ids=[row[4] for row in SIGNS])
def test_the_covered_proportion_confirms_a_verdict(
    verdict: str, delta: float, covered: float | None, want: str, why: str
) -> None:
    given = ComparisonInput("recall@5", None, None, "", match="span", covered=covered)  # type: ignore[arg-type]
    found = check_coverage(given, compared(verdict, delta))
    assert found.verdict == want
    assert (found.doubt == "covered_proportion") == (want != verdict)


@pytest.mark.parametrize("match", ["span", "text"])
def test_covered_proportion_and_words_within_k(store: RunStore, match: Any) -> None:
    b = put(store, "b", asked(), retriever(GOLD // 2, "new-", finds=6))
    found = measure_coverage(run_outputs(store, b, texts=True), match, 5)
    expected = 0.5 if match == "span" else 58 / 118  # trigrams across the two halves are in neither
    assert found.covered.tolist() == pytest.approx([expected] * 6 + [0.0] * 6)
    assert (found.length, found.unit) == (120, "words")
    assert measure_coverage(run_outputs(store, b, texts=True), match, 1).length == 60


BUDGETS: list[tuple[list[float | None], str | None, str]] = [
    ([100, 105], "k = 5 is 105 words in B, 100 in A", "nearly equal"),
    ([1200, 600], "k = 5 is 600 words in B, 1,200 in A; these differ by more than 10 %", "half the words"),
    ([100, None], None, "one is unknown"),
]


@pytest.mark.parametrize(("lengths", "want", "why"), BUDGETS, ids=[row[2] for row in BUDGETS])
def test_note_on_the_words_within_k(lengths: list[float | None], want: str | None, why: str) -> None:
    note = budget_note([Coverage(5, None, length, "words") for length in lengths])  # type: ignore[arg-type]
    assert (note or "").partition(":")[0] == (want or "")
