"""The page of a run in a real browser: derivations and filters by keyboard, by pointer and by links."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from auepora_eval.store.runs import RunStore
from helpers.run_page_runs import mixed_run
from helpers.ui_server import UiServer, ui_server, workbench_page

pytestmark = [pytest.mark.slow, pytest.mark.part("chromium")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UiServer]:
    with RunStore.open(tmp_path_factory.mktemp("store") / "runs.sqlite") as store:
        mixed_run(store)
        with ui_server(store) as running:
            yield running


@pytest.fixture
def page(browser: Any, server: UiServer) -> Iterator[Any]:
    run_id = server.workbench.find("mixed").run_id
    with workbench_page(browser, server, f"/runs/{run_id}") as opened:
        yield opened


def wait_for_count(page: Any, text: str) -> None:
    """Wait until the list says how many queries it shows."""
    page.locator(".query-count", has_text=re.compile(f"^{re.escape(text)}$")).wait_for()


def show(page: Any, tab: str, wanted: str) -> Any:
    """Open a tab and wait for a part of it."""
    page.locator(f".tabs a[data-tab={tab}]").click()
    found = page.locator(f"#tab[data-tab={tab}] {wanted}").first
    found.wait_for()
    found.scroll_into_view_if_needed()
    return found


def test_derivations_filters_and_the_report_with_the_keyboard_alone(page: Any) -> None:
    value = page.get_by_role("link", name="token_f1", exact=True)
    value.focus()
    page.keyboard.press("Enter")
    drawer = page.locator("dialog.drawer[open]")
    drawer.get_by_text("From scores to the value").wait_for()
    drawer.get_by_role("link", name=re.compile("how it was computed")).first.focus()
    page.keyboard.press("Enter")
    drawer.get_by_text("equal to the last digit").wait_for()
    page.keyboard.press("Escape")
    drawer.wait_for(state="detached")
    assert value.evaluate("element => element === document.activeElement")
    page.keyboard.press("Enter")
    drawer.get_by_role("link", name="2 queries skipped").focus()
    page.keyboard.press("Enter")
    wait_for_count(page, "2 of 20 queries")
    assert page.url.endswith("?tab=queries&where=token_f1%3Dskipped")
    assert drawer.count() == 0
    # A group of a slice replaces the filter; two numbers narrow it as a selected range does.
    page.locator(".tabs a[data-tab=slices]").focus()
    page.keyboard.press("Enter")
    group = page.locator("#tab ul.chips").get_by_role("link", name="easy")
    group.wait_for()
    group.focus()
    page.keyboard.press("Enter")
    wait_for_count(page, "10 of 20 queries")
    page.locator(".tabs a[data-tab=latency]").focus()
    page.keyboard.press("Enter")
    low = page.locator("#tab form.range").get_by_label("from")
    low.wait_for()
    low.focus()
    page.keyboard.type("0.95")
    page.keyboard.press("Tab")
    page.keyboard.type("1.55")
    page.keyboard.press("Enter")
    wait_for_count(page, "2 of 20 queries")  # 1.2 and 1.4 seconds
    page.locator("h1").click()
    page.keyboard.press("/")
    page.wait_for_function("document.activeElement.id === 'query-search'")
    page.keyboard.press("Tab")
    page.locator("h1").click()
    with page.expect_download() as download:
        page.keyboard.press("d")
    assert download.value.suggested_filename == "report-mixed.html"


def test_counts_and_causes_filter_and_the_address_restores(page: Any) -> None:
    page.locator(".cause-list").get_by_role("link", name="below the cut 4").click()
    wait_for_count(page, "4 of 20 queries")
    page.locator("svg.cause-bar a").nth(1).click()
    wait_for_count(page, "3 of 20 queries")
    assert page.url.endswith("?tab=queries&where=cause%3Dretriever")
    show(page, "metrics", "table.metrics").get_by_role("link", name="1 failed: error").first.click()
    wait_for_count(page, "1 of 20 queries")
    page.go_back()
    page.locator("#tab table.metrics").wait_for()
    page.go_back()
    wait_for_count(page, "3 of 20 queries")
    page.reload()
    wait_for_count(page, "3 of 20 queries")
    page.locator("#tab").get_by_role("link", name="Clear all").click()
    wait_for_count(page, "20 queries")
    assert page.url.endswith("?tab=queries")
    page.keyboard.press("c")
    page.get_by_role("heading", name="Compare mixed").wait_for()


def test_tabs_load_when_they_are_opened_and_have_addresses(page: Any) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    show(page, "provenance", "dl.facts")
    assert page.url.endswith("?tab=provenance")
    assert [one.partition("/sections/")[2] for one in asked] == ["provenance?tab=provenance"]
    page.keyboard.press("q")
    wait_for_count(page, "20 queries")
    page.go_back()
    page.locator("#tab dl.facts").first.wait_for()
    assert page.locator(".tabs [aria-current]").inner_text() == "Provenance"
    page.go_back()
    page.locator("#tab table.metrics").wait_for()


def test_tabs_work_without_script(browser: Any, server: UiServer) -> None:
    run_id = server.workbench.find("mixed").run_id
    with workbench_page(browser, server, f"/runs/{run_id}", java_script_enabled=False) as page:
        page.locator(".tabs").get_by_role("link", name="Latency").click()
        page.locator("#tab figure svg").first.wait_for()
        page.locator(".tabs").get_by_role("link", name="Queries").click()
        assert page.locator("#tab [data-row]").count() == 12


def drag(page: Any, brush: Any, start: float, end: float) -> None:
    """Select a part of the plot of a chart."""
    brush.scroll_into_view_if_needed()
    box = brush.locator(".brush-surface").bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + start * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], y, steps=4)
    page.mouse.up()


def test_a_selected_range_of_a_chart_narrows_the_filter(page: Any) -> None:
    drag(page, show(page, "retrieval", ".chart.usual .brush"), 0.05, 0.15)
    wait_for_count(page, "6 of 20 queries")  # the first gold document at rank 1, with a score as in the chart
    assert "rank%3E%3D1&where=rank%3C%3D1&where=token_f1%3Dscored" in page.url
    drag(page, show(page, "retrieval", ".chart.usual .brush"), 0.8, 0.98)
    wait_for_count(page, "4 of 20 queries")  # not returned
    assert page.url.endswith("&where=token_f1%3Dscored&where=rank%3Dnone")
    drag(page, show(page, "latency", ".chart.usual .brush"), 0.0, 0.5)
    page.wait_for_url(re.compile("where=rank%3Dnone&where=seconds%3E%3D0&where=seconds%3C%3D1"))
    wait_for_count(page, "2 of 20 queries")  # numbers 2 and 7
    show(page, "slices", ".chart.usual .brush-band").click(force=True)  # below its mark
    wait_for_count(page, "1 of 20 queries")
    page.locator("#tab").get_by_role("link", name="Clear all").click()
    wait_for_count(page, "20 queries")
