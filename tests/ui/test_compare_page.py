"""The comparison page: verdict, outcomes and causes as filters, options, several runs, other datasets, the register."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from auepora_eval.compare.runs import build_leaderboard
from auepora_eval.core.types import EvaluationSample
from auepora_eval.store.records import RunRecord
from auepora_eval.store.runs import RunStore, decisions
from auepora_eval.ui.compare_card import gold_fact
from helpers import requirements
from helpers.stored_runs import judged_until, run, samples, scored, sequential_test
from helpers.ui_server import UiServer, ui_server, wait_until_filled, workbench_page

N = 12
HOSTILE = "<script>window.pwned=1</script>"


def address(path: str, records: list[RunRecord], **parameters: Any) -> str:
    return f"{path}?{urlencode({'run': [one.run_id for one in records], **parameters}, doseq=True)}"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunStore]:
    with RunStore.open(tmp_path_factory.mktemp("compare") / "runs.sqlite") as opened:
        yield opened


@pytest.fixture(scope="module")
def server(store: RunStore) -> Iterator[UiServer]:
    with ui_server(store) as running:
        yield running


@pytest.fixture(scope="module")
def pair(store: RunStore) -> list[RunRecord]:
    """A is right on the first 4 of 12 queries, B on the queries 2 to 8; both have the same documents."""
    metrics = ["exact_match", "recall@5"]
    first = run(store, f"first {HOSTILE}", samples(N), lambda i: "yes" if i < 4 else "no", metrics)
    second = run(store, "second", samples(N), lambda i: "yes" if 2 <= i < 9 else "no", metrics)
    return [first, second]


def links(html: str, text: str) -> list[str]:
    """The addresses of the links whose text contains this one."""
    found = re.findall(r'<a href="([^"]*)"[^>]*>(.*?)</a>', html, re.DOTALL)
    return [unescape(href) for href, inner in found if text in re.sub("<[^>]*>", "", inner)]


def conditions(href: str) -> list[str]:
    return parse_qs(urlsplit(href).query)["where"]


def test_page_is_sent_before_the_comparison_is_computed(server: UiServer, pair: list[RunRecord]) -> None:
    before = len(decisions(server.workbench.store))
    page = server.get(address("/compare", pair))
    assert page.status == 200
    assert HOSTILE not in page.text
    targets = re.findall('class="[a-z]+-tab" href="#([^"]*)"', page.text)
    assert targets == ["summary", "query-pane", "groups-pane"]
    assert all(f'id="{one}"' in page.text for one in (*targets, "queries-title", "more"))
    assert f'href="/compare?{urlencode({"run": [one.run_id for one in pair[::-1]]}, doseq=True)}"' in unescape(
        page.text
    )
    assert len(decisions(server.workbench.store)) == before


def test_metrics_of_the_card_lead_to_their_queries(server: UiServer, pair: list[RunRecord]) -> None:
    card = server.get(address("/compare/sections/summary", pair, primary="exact_match")).text
    (href,) = links(card, "exact_match")
    assert conditions(href) == ["exact_match=worse"]
    # A is right on 0 to 3, B on 2 to 8; the chips count what a further condition gives.
    html = server.get(href.replace("/compare?", "/queries?") + "&size=8").text
    assert "2 of 12 queries" in html
    chips = dict(re.findall(r'<bdi>([^<]*)</bdi> <span class="count">(\d+)</span>', html))
    assert chips["▼ Worse"] == chips["Right in A only"] == chips["another answer"] == "2"
    assert chips["▲ Better"] == chips["Right in B only"] == "5"
    assert "two runs" not in card
    assert re.search(r'class="forest" role="img" aria-label="difference [^"]*interval [^"]*"', card)


def test_a_metric_on_which_nothing_got_worse_shows_all_queries(server: UiServer, pair: list[RunRecord]) -> None:
    path = address("/queries", pair, where="recall@5=worse", relax=1, fragment=1, wait=1)
    assert 'data-count="12 queries"' in server.get(path).text
    assert "No query matches 1 condition" in server.get(path.replace("relax", "other")).text


def test_options_of_the_address_decide_and_are_in_the_command(server: UiServer, pair: list[RunRecord]) -> None:
    options = {"primary": ["exact_match"], "delta": "exact_match=0.9", "adjust": "holm"}
    html = server.get(address("/compare", pair, **options)).text
    (command,) = re.findall(r'data-copy="([^"]*)"', html)
    words = shlex.split(unescape(command))
    assert words[:4] == ["auepora", "compare", *(one.run_id for one in pair)]
    assert words[4:10] == ["--primary", "exact_match", "--delta", "exact_match=0.9", "--adjust", "holm"]
    summary = server.get(address("/compare/sections/summary", pair, **options)).text
    assert "Of 1 primary metric" in summary
    details = server.get(address("/compare/sections/details", pair, **options)).text
    assert "Exploratory metrics: no verdict" in details
    for name, value, message in [
        ("adjust", "tukey", "allowed for 2 runs: max-t, holm"),
        ("delta", "x", "write a number"),
        ("primary", "exact_mach", "did you mean exact_match"),
        ("metric", "nope", "unknown metric"),
    ]:
        reply = server.get(address("/compare", pair, **{name: value}))
        assert (reply.status, message in unescape(reply.text).replace("'", "")) == (400, True), name


def test_same_comparison_is_recorded_once(server: UiServer, store: RunStore) -> None:
    dataset = samples(N, reference="recorded once")
    a, b, c = (
        scored(store, name, dataset, {"token_f1": [float(i == n) for i in range(N)]}) for n, name in enumerate("abc")
    )

    def summary(*records: RunRecord, **options: str) -> str:
        return server.get(address("/compare/sections/summary", list(records), **options)).text

    def record(*records: RunRecord, **options: str) -> str:
        return server.post(address("/compare/decision", list(records), **options)).text

    for _ in range(2):
        summary(a, b)
        server.get(address("/compare/sections/wins", [a, b]))
        server.get(address("/compare/report.html", [a, b]))
    assert decisions(store, fingerprint=a.fingerprint) == []  # only a POST writes
    for _ in range(2):
        assert record(a, b) == record(b, a) == record(a, b, adjust="holm") == '{"recorded":true}'
    own = decisions(store, fingerprint=a.fingerprint)
    assert [(one.kind, set(one.runs)) for one in own] == [("comparison", {a.run_id, b.run_id})]
    assert "decided 1 comparison before" in summary(a, c)
    assert "decided" not in summary(a, b)


def test_runs_on_other_datasets(server: UiServer, store: RunStore, pair: list[RunRecord]) -> None:
    more = [EvaluationSample("other", "?"), *samples(3, reference="no")]
    other = scored(store, "other", more, {"exact_match": [1.0, 0.0, 1.0, 0.0]})
    html = server.get(address("/compare/sections/summary", [pair[0], other])).text
    assert "ran on different datasets" in html
    assert "they are compared" not in html
    (href,) = links(html.replace('class="button" ', ""), "Compare over 3 common ids")
    html = server.get(href.replace("/compare", "/compare/sections/summary")).text
    assert "ran on different datasets" not in html
    assert "exact_match" in html


def test_several_runs_are_a_leaderboard_with_links_to_pairs(server: UiServer, store: RunStore) -> None:
    three = [scored(store, name, samples(N), {"token_f1": [n / 4] * N}) for n, name in enumerate(("x", "y", "z"))]
    html = server.get(address("/compare", three)).text
    assert unescape(html).count(address("/compare", three[1:])) == 2  # without the first, and as a pair
    summary = server.get(address("/compare/sections/summary", three)).text
    assert "z) is first with 0.5000" in summary
    assert address("/compare", three[:2]) in unescape(summary)
    cells = re.findall(r'<td role="cell".*?</td>', summary, re.DOTALL)
    assert len(cells) == 3
    assert "first run" in cells[0]
    assert "▲ +0.50" in cells[2]
    assert ["not beaten" in cell for cell in cells] == [False, True, True]  # y and z cannot be distinguished
    assert "Differences are against A. 1 metrics compared on" not in summary
    assert "Gold is matched" not in summary  # no metric of retrieval
    assert server.get(address("/compare/sections/outcomes", three)).status == 404
    assert server.get(address("/compare", three, adjust="tukey")).status == 200


def test_how_gold_was_matched_is_under_the_verdict(server: UiServer, store: RunStore, pair: list[RunRecord]) -> None:
    summary = server.get(address("/compare/sections/summary", pair)).text
    assert "Gold is matched by id." in summary
    board = build_leaderboard(store, pair)
    metrics = []
    for metric in board.metrics:
        (only,) = metric.pairs
        by_span = replace(only, comparison=replace(only.comparison, match="span"))
        metrics.append(replace(metric, pairs=(by_span,)))
    assert gold_fact(replace(board, metrics=metrics), pair) == (
        "Gold is matched by span in all runs, recomputed from stored outputs; the stored results have id"
    )


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("", 200, "Choose the first run"),
        ("run=run_nope", 404, "run_nope"),
        ("run={a}", 200, "Choose the run to compare with"),
        ("run={a}&run={a}", 400, "listed twice"),
        ("run={a}&run={b}&adjust=", 200, "Swap A and B"),
    ],
)  # fmt: skip
def test_addresses(server: UiServer, pair: list[RunRecord], query: str, status: int, text: str) -> None:
    a, b = (one.run_id for one in pair)
    reply = server.get(f"/compare?{query.format(a=a, b=b)}")
    assert (reply.status, text in reply.text) == (status, True)


@pytest.mark.slow
def test_banners(server: UiServer, store: RunStore) -> None:
    dataset = samples(N, reference="banners")
    part = store.create_run("part", dataset, dataset_name="made", plan={"metrics": ["token_f1"]})
    metrics = ["recall@5", "token_f1"]
    whole = run(store, "whole", dataset, lambda i: "banners", metrics, config={"chunker_version": "1"})
    other = run(store, "chunks", dataset, lambda i: ["gold"], metrics, config={"chunker_version": "2"})

    def banners(*records: RunRecord) -> str:
        html = server.get(address("/compare/sections/summary", list(records))).text
        return unescape(" ".join(re.findall(r'<div class="(?:banner|verdict)[^"]*".*?</div>', html, re.DOTALL)))

    assert "The two runs have different chunks" in banners(whole, other)
    card = server.get(address("/compare/sections/summary", [whole, other])).text
    assert "recall@5 (chunks were cut differently" in card
    for path in ("/queries", "/query"):
        assert (
            "different chunks (chunker_version 1 and 2)" in server.get(address(path, [whole, other], id="q00001")).text
        )
    assert "is still running" in banners(part, whole)
    looked = judged_until(store, "looked", dataset, "token_f1", [1.0] * 6, sequential_test(whole.run_id, n=N))
    assert "token_f1: sequential: stopped at look 7 of 20" in banners(whole, looked)
    judged = judged_until(store, "judged", dataset, "token_f1", [1.0] * 6, None)
    assert "not sequentially valid" in banners(whole, judged)


def test_report_is_the_file_of_the_command(server: UiServer, pair: list[RunRecord]) -> None:
    reply = server.get(address("/compare/report.html", pair))
    assert reply.headers["content-disposition"] == 'attachment; filename="report-second.html"'
    assert reply.text.startswith("<!doctype html>")
    assert "second against first" in reply.text


# --- in a real browser -----------------------------------------------------------------------------------------------


@pytest.fixture
def opened(browser: Any, server: UiServer, pair: list[RunRecord]) -> Iterator[Any]:
    with workbench_page(browser, server, address("/compare", pair)) as page:
        yield page


def expect(locator: Any) -> Any:
    return requirements.need("playwright.sync_api").expect(locator)


@pytest.mark.part("chromium")
def test_outcomes_filter_the_queries_by_keyboard(opened: Any, store: RunStore, pair: list[RunRecord]) -> None:
    page = opened
    expect(page.locator("#summary .verdict")).to_be_visible()
    expect(page.locator("#summary [data-record]")).to_have_count(0)  # its address is removed before it is sent
    wait_until_filled(page)
    assert [one.kind for one in decisions(store, run_id=pair[0].run_id)] == ["comparison"]
    link = page.locator("#summary").get_by_role("link", name="exact_match", exact=True).first
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**exact_match**")
    wait_until_filled(page)
    page.get_by_role("link", name="Right in A only").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**where=exact_match%3Da-only**")
    wait_until_filled(page)
    expect(page.locator("#queries")).to_contain_text("2 of 12")
    assert parse_qs(urlsplit(page.url).query)["where"] == ["exact_match=a-only"]
    page.go_back()
    expect(page.locator("#queries .query-count")).to_have_text("12 queries")
    page.go_forward()
    expect(page.locator("#queries")).to_contain_text("2 of 12")
    page.reload()
    expect(page.locator("#queries")).to_contain_text("2 of 12")
    wait_until_filled(page)
    page.locator("body").press("x")
    expect(page.locator(".compare-head .run-name").first).to_contain_text("second")
    assert parse_qs(urlsplit(page.url).query)["run"] == [one.run_id for one in pair[::-1]]


@pytest.mark.part("chromium")
def test_derivations_open_in_the_side_panel(opened: Any) -> None:
    opened.locator("#summary").get_by_role("link", name=": how exact_match was computed").first.click()
    expect(opened.get_by_role("dialog")).to_contain_text("exact_match")
    opened.keyboard.press("Escape")
    expect(opened.get_by_role("dialog")).to_have_count(0)
