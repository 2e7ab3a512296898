"""The list of queries on a real server, and in a real browser."""

import re
import threading
import time
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.core.scores import Score
from auepora_eval.queries import columns
from auepora_eval.store.records import RunRecord
from auepora_eval.store.runs import RunStore
from auepora_eval.ui.query_list import SIZES, query_table
from helpers.browser_runs import hostile_run, put, scored
from helpers.ui_server import UiServer, ui_server, workbench_page

COUNT = 120
ODD = 'a/b [c="<b>&]'
"""An id with signs of addresses and markup."""


def make_runs(store: RunStore) -> list[RunRecord]:
    """Two runs; in B every third query is worse and every tenth failed."""
    samples = [
        EvaluationSample(
            ODD if number == 7 else f"q{number}",
            f"Question {number} about {'rivers' if number % 2 else 'lakes'}",
            [Document("gold")],
            labels={"topic": "water & <b>wine</b>" if number % 5 else "fire"},
        )
        for number in range(COUNT)
    ]
    found = [RetrievedDocument(Document("gold"), None, 1)]
    first = [SystemOutputs(found, Response(f"answer {number}")) for number in range(COUNT)]
    second = [
        SystemOutputs([], error="TimeoutError: <script>alert(1)</script>")
        if number % 10 == 0
        else SystemOutputs(found if number % 4 else [], Response("another answer"))
        for number in range(COUNT)
    ]
    before: list[float | Score] = [1.0] * COUNT
    after = [
        Score.fail("judge_down") if number % 10 == 0 else 0.5 if number % 3 == 0 else 1.0 for number in range(COUNT)
    ]
    return [
        put(store, name, samples, outputs, [scored("token_f1", scores)])
        for name, outputs, scores in (("before", first, before), ("after </title>", second, after))
    ]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UiServer]:
    with RunStore.open(tmp_path_factory.mktemp("store") / "runs.sqlite") as store:
        make_runs(store)
        hostile_run(store)
        with ui_server(store) as running:
            yield running


@pytest.fixture(scope="module")
def both(server: UiServer) -> str:
    """The address of the queries of both runs."""
    runs = [server.workbench.store.find(name).run_id for name in ("before", "after </title>")]
    return "/queries?" + "&".join(f"run={one}" for one in runs)


def count_of(text: str) -> str:
    found = re.search(r'data-count="([^"]*)"', text)
    assert found is not None
    return found[1]


def test_filters_are_in_the_address(server: UiServer, both: str) -> None:
    reply = server.get(both)
    assert (reply.status, count_of(reply.text)) == (200, f"{COUNT} queries")
    assert reply.text.count('<th scope="row"') == SIZES[0]
    worse = server.get(f"{both}&where=token_f1%3Dworse&where=label.topic%3Dfire&sort=-id&q=question")
    assert count_of(worse.text) == "4 of 120 queries"  # 15, 45, 75 and 105
    last = server.get(f"{both}&after=q99&size=50").text
    assert ("101 – 120 of 120" in last, last.count('<th scope="row"')) == (True, COUNT - 100)
    assert "51 – 100 of 120" in server.get(link_named(last, "Previous page")).text
    assert "1 – 12 of 120" in server.get(f"{both}&after=q119").text, "nothing is after the last query"
    assert "1 – 12 of 120" in server.get(f"{both}&after=unknown").text


def link_named(text: str, name: str) -> str:
    found = re.search(rf'<a [^>]*href="([^"]*)"[^>]*aria-label="{name}"', text)
    assert found is not None
    return unescape(found[1])


def test_links_keep_odd_ids(server: UiServer, both: str) -> None:
    reply = server.get(f"{both}&where={quote(f'id={ODD}')}")
    assert count_of(reply.text) == "1 of 120 queries"
    link = re.search(r'<a class="question-text" href="(/query\?[^"]*)"', reply.text)
    assert link is not None
    params = parse_qs(urlsplit(link[1].replace("&amp;", "&")).query)
    assert params["id"] == [ODD]
    assert len(params["run"]) == 2
    assert params["where"] == [f"id={ODD}"]


def test_long_and_odd_filters_are_not_changed(server: UiServer, both: str) -> None:
    """Texts are cut and escaped where they are shown, but not in addresses and fields."""
    search, condition = "lakes " * 400, "label.topic!=turned \u202e around"
    text = server.get(f"{both}&{urlencode({'q': search, 'where': condition})}").text
    assert f'name="where" value="{condition}"' in text
    assert f'name="q" maxlength="5000" value="{search.strip()}"' in text
    links = [unescape(one) for one in re.findall(r'(?:href|data-params)="([^"]*where=[^"]*)"', text)]
    assert len(links) > SIZES[0] / 2
    assert {parse_qs(one.partition("?")[2] or one)["where"][0] for one in links} == {condition}
    assert not [one for one in links if "…" in one]


def test_fragments_have_no_frame(server: UiServer, both: str) -> None:
    whole, results = (server.get(f"{both}&fragment={name}").text for name in ("1", "results"))
    assert "<html" not in whole
    assert 'id="query-search"' in whole
    assert 'id="query-search"' not in results
    assert count_of(results) == f"{COUNT} queries"


def test_the_menu_adds_a_condition(server: UiServer, both: str) -> None:
    reply = server.get(f"{both}&q=lakes&add=token_f1&operator=%3C&value=0.75")
    assert reply.status == 303
    assert parse_qs(urlsplit(reply.headers["location"]).query)["where"] == ["token_f1<0.75"]
    reply = server.get(f"{both}&where=token_f1%3Dworse&add=token_f1&operator=%3C&value=much&fragment=results")
    assert (reply.status, count_of(reply.text)) == (200, "36 of 120 queries"), "the other filters stay"
    assert "should be a number" in reply.text
    assert server.get(f"{both}&add=token_f1&operator=%3C&value=much").status == 400


BAD = {
    "where=token_f1%3Dwors": "did you mean",
    "where=%3C": "is not a condition",
    "sort=tokenf1": "token_f1",
    "&".join(f"where=rank%3C{number}" for number in range(51)): "at most 50 conditions",
    "size=0": "size must be one of 8, 12, 50, 200",
    "size=x": "size must be an integer",
    "q=token_f2%3C0.5": "did you mean",
}


def test_bad_parameters_are_named(server: UiServer, both: str) -> None:
    for query, message in BAD.items():
        reply = server.get(f"{both}&{query}")
        assert reply.status == 400, query
        assert message in reply.text.replace("&#39;", "'")
    assert server.get("/queries").status == 400
    assert server.get("/queries?run=missing").status == 404
    run = both.partition("?")[2].partition("&")[0]
    assert "name each run once" in server.get(f"/queries?{run}&{run}").text
    third = server.workbench.store.runs()[0].run_id
    assert "a list shows the queries of one run or of two" in server.get(f"{both}&run={third}").text


def test_hostile_texts_are_escaped(server: UiServer) -> None:
    run = server.workbench.store.find("hostile </title><script>alert(1)</script>")
    text = server.get(f"/queries?run={run.run_id}").text
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert len(text) < 300_000, "a question of a megabyte is cut"


def test_ranks_are_shown_where_there_is_gold(server: UiServer, both: str) -> None:
    sample = EvaluationSample("q0", "No gold", None)
    record = put(server.workbench.store, "no gold", [sample], [SystemOutputs([], Response("yes"))])
    assert "rank of gold" in server.get(both).text
    text = server.get(f"/queries?run={record.run_id}").text
    assert ("1 query" in text, "Gold in the ranking" in text) == (True, False)


def test_a_table_is_kept_until_the_run_changes(server: UiServer) -> None:
    store = server.workbench.store
    record = store.find("before")
    table = query_table(server.workbench, [record])
    assert query_table(server.workbench, [record]) is table
    store.tag(record.run_id, "new")
    assert query_table(server.workbench, [store.get(record.run_id)]) is not table


# --- in a browser ---


@pytest.mark.part("chromium")
def test_search_and_filters_in_a_browser(server: UiServer, both: str, browser: Any) -> None:
    with workbench_page(browser, server, both) as page:
        count = page.locator(".query-total")
        rows = page.locator("table.read tbody tr")
        # The keyboard alone: "/" focuses the search, which filters while typing and keeps the focus.
        page.keyboard.press("/")
        page.keyboard.type("rivers", delay=5)
        count.get_by_text("60 of 120 queries").wait_for()
        page.keyboard.type(" 11", delay=5)
        count.get_by_text("6 of 120 queries").wait_for()
        assert page.evaluate("document.activeElement.id") == "query-search"
        assert parse_qs(urlsplit(page.url).query)["q"] == ["rivers 11"]
        # A suggested filter, and a condition by the menu.
        page.locator("#query-search").fill("")
        count.get_by_text("120 queries", exact=True).wait_for()
        assert page.locator("#query-search").input_value() == ""
        page.get_by_role("link", name="▼ Worse").press("Enter")
        count.get_by_text("36 of 120 queries").wait_for()
        page.locator(".query-menu summary").press("Enter")
        page.get_by_label("Property").select_option("label.topic")
        page.get_by_label("Comparison").select_option("=")
        page.get_by_label("Value").focus()
        assert page.locator("#query-values option").evaluate_all("all => all.map((one) => one.value)") == [
            "(none)", "fire", "water & <b>wine</b>",
        ]  # fmt: skip
        page.get_by_label("Value").fill("water & <b>wine</b>")
        page.keyboard.press("Enter")
        count.get_by_text("32 of 120 queries").wait_for()
        where = parse_qs(urlsplit(page.url).query)["where"]
        assert where == ["token_f1=worse", "label.topic=water & <b>wine</b>"]
        # The order by a column, then the address alone gives the same list.
        page.get_by_role("link", name="Question and reference").click()
        page.locator('th[aria-sort="ascending"]').wait_for()
        page.reload()
        count.get_by_text("32 of 120 queries").wait_for()
        assert rows.first.locator("code").inner_text() == "q102"
        page.get_by_role("link", name="Remove the filter token_f1=worse").press("Enter")
        count.get_by_text("96 of 120 queries").wait_for()
        page.keyboard.press("n")
        page.get_by_text("13 – 24 of 96").wait_for()
        command = page.get_by_role("button", name="Copy as command").get_attribute("data-copy")
        assert "--where 'label.topic=water & <b>wine</b>'" in command
        assert "-n 96 " in command
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.set_viewport_size({"width": 360, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.part("chromium")
def test_a_list_does_not_wait_for_outputs(tmp_path: Path, browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids and questions are searched at once; the list completes itself when the outputs have been read."""
    is_read, read = threading.Event(), columns._read_outputs

    def read_later(*arguments: Any) -> columns.OutputColumns:
        assert is_read.wait(30)
        return read(*arguments)

    monkeypatch.setattr(columns, "_read_outputs", read_later)
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        address = "/queries?" + "&".join(f"run={one.run_id}" for one in make_runs(store))
        first = COUNT - (COUNT // 10)
        with ui_server(store) as server:
            # A word of all answers that is in no question; a word of questions; conditions.
            for parameters, expected in (
                ("q=answer", "0 of 120 queries so far"),
                ("q=rivers+11", "6 of 120 queries so far"),
                ("q=rivers+another", "0 of 120 queries so far"),
                ("where=answer%3Dfailed", "0 of 120 queries so far"),
                ("sort=rank", "0 of 120 queries so far"),
                ("where=token_f1%3Dworse", "36 of 120 queries"),
            ):
                reply = server.get(f"{address}&{parameters}&fragment=results")
                assert (count_of(reply.text), "No query fulfils" in reply.text) == (expected, False), parameters
            assert server.get(f"{address}&where=nonsense%3D1&fragment=results").status == 400
            with workbench_page(browser, server, f"{address}&where=token_f1%3Dscored") as page:
                page.locator("#query-search").fill("another")
                page.get_by_text("The outputs are still being read").wait_for()
                page.locator("#query-search").fill("rivers")
                page.get_by_text("Answers are still being read").wait_for()
                page.locator("#query-search").fill("another rivers")
                page.locator(".query-total").get_by_text("0 of 120 queries so far").wait_for()
                is_read.set()
                page.locator(".query-total").get_by_text("60 of 120 queries", exact=True).wait_for()
            reply = server.get(f"{address}&q=another&fragment=results&wait=1")
            assert count_of(reply.text) == f"{first} of 120 queries"


def test_causes_of_large_runs_are_read_in_a_thread(server: UiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is shown before the causes of its changes are known; then their chips are there."""
    monkeypatch.setattr("auepora_eval.ui.query_list.SMALL", 10)
    first, second = (server.workbench.find(name).run_id for name in ("before", "after </title>"))
    path = f"/queries?run={second}&run={first}&where=token_f1%3Dbetter&wait=1"
    monkeypatch.setattr("auepora_eval.ui.query_list._CHIP_SECONDS", 30)
    monkeypatch.setattr("auepora_eval.ui.query_list._has_outputs", lambda table, seconds: True)
    assert "Cause" not in server.get(path).text
    deadline = time.monotonic() + 60
    while "Cause" not in server.get(path).text:
        assert time.monotonic() < deadline
        time.sleep(0.05)
