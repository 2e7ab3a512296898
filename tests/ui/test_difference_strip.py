"""The strip of per-query differences: its bins are filters, without script too; a range can be brushed or typed."""

import re
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from auepora_eval import EvaluationSample, Response, SystemOutputs
from auepora_eval.store.runs import RunStore
from helpers.browser_runs import put, scored
from helpers.requirements import need
from helpers.ui_server import UiServer, ui_server, workbench_page

COUNT = 100


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UiServer]:
    questions = [EvaluationSample(f"q{number}", f"question {number}") for number in range(COUNT)]
    outputs = [SystemOutputs([], Response("x"), {"end_to_end": 0.1})] * COUNT
    before = [0.5] * COUNT
    after = [0.5 if number % 4 == 0 else min(1.0, max(0.0, 0.5 + (number - 60) / 80)) for number in range(COUNT)]
    seconds = [2.0 if number < 30 else 1.0 for number in range(COUNT)]
    with RunStore.open(tmp_path_factory.mktemp("store") / "runs.sqlite") as store:
        for name, scores, times in (("before", before, [1.0] * COUNT), ("after", after, seconds)):
            results = [scored("token_f1", scores), scored("mean_latency[end_to_end]", times)]
            put(store, name, questions, outputs, [*results, scored("exact_match", [1.0] * COUNT)])
        with ui_server(store) as running:
            yield running


def path_of(server: UiServer, *names: str, page: str = "/queries", **parameters: str) -> str:
    runs = [f"run={server.workbench.find(name).run_id}" for name in names]
    return f"{page}?" + "&".join([*runs, *(f"{name}={value}" for name, value in parameters.items())])


def bins_of(page: str) -> list[tuple[str, int, str, float, float]]:
    """Address, count, tone and both heights of each bin."""
    strip = page.partition('<figure class="strip"')[2].partition("</figure>")[0]
    found = re.findall(
        r'<a href="([^"]+)"[^>]*><title>.*?: ([\d,]+)</title>.*?class="all".*?height="([\d.]+)"/>'
        r'<rect class="(\w+)".*?height="([\d.]+)"/></a>',
        strip,
    )
    return [(unescape(url), int(count), tone, float(all_), float(own)) for url, count, all_, tone, own in found]


def listed(server: UiServer, address: str) -> int:
    found = re.search(r'data-count="([\d,]+) (?:of|quer)', server.get(address).text)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("names", [("before", "after"), ("after", "before")])
@pytest.mark.parametrize("metric", ["token_f1", "mean_latency[end_to_end]"])
def test_each_bin_lists_its_queries(server: UiServer, names: tuple[str, str], metric: str) -> None:
    bins = bins_of(server.get(path_of(server, *names, sort=f"diff.{metric}")).text)
    assert len(bins) == 15
    assert sum(count for _, count, *_ in bins) == COUNT
    for address, count, *_ in bins:
        assert listed(server, address) == count, address


def test_worse_is_on_the_side_where_it_is(server: UiServer) -> None:
    """Left is below 0: worse for a score, better for a time."""
    for metric, left, right in (("token_f1", "worse", "better"), ("mean_latency[end_to_end]", "better", "worse")):
        bins = bins_of(server.get(path_of(server, "before", "after", sort=f"diff.{metric}")).text)
        tones = [tone for _, _, tone, *_ in bins]
        assert tones == [left] * 7 + ["equal"] + [right] * 7


def test_a_filter_leaves_the_others_pale(server: UiServer) -> None:
    bins = bins_of(server.get(path_of(server, "before", "after", where="token_f1=worse")).text)
    assert all(own == (all_ if tone == "worse" else 0) for _, _, tone, all_, own in bins)
    assert any(all_ > 0 for _, _, tone, all_, _ in bins if tone == "better")


def test_a_bin_replaces_conditions_on_the_change_and_keeps_others(server: UiServer) -> None:
    page = server.get(path_of(server, "before", "after", where="token_f1=worse&where=answer=answered")).text
    for address, *_ in bins_of(page):
        conditions = parse_qs(urlsplit(address).query)["where"]
        assert "answer=answered" in conditions
        assert "token_f1=worse" not in conditions


@pytest.mark.parametrize(
    ("names", "parameters"),
    [(("after",), {}), (("before", "after"), {"where": "exact_match=same"})],
    ids=["one run", "nothing changed"],
)
def test_there_may_be_nothing_to_show(server: UiServer, names: tuple[str, ...], parameters: dict[str, str]) -> None:
    assert 'class="strip"' not in server.get(path_of(server, *names, **parameters)).text


def test_a_range_is_a_form_without_script(server: UiServer) -> None:
    path = path_of(server, "before", "after", where="token_f1=worse", range="diff.token_f1", to="-0.2", **{"from": ""})
    reply = server.get(path)
    assert reply.status == 303
    conditions = parse_qs(urlsplit(reply.headers["location"]).query)["where"]
    assert conditions == ["diff.token_f1<=-0.2"]
    wrong = path_of(server, "before", "after", range="diff.token_f1", to="x", **{"from": ""})
    assert server.get(wrong).status == 400


@pytest.mark.slow
@pytest.mark.part("chromium")
def test_the_strip_in_a_browser(browser: Any, server: UiServer) -> None:
    expect = need("playwright.sync_api").expect
    path = path_of(server, "before", "after", page="/compare", metric="token_f1", where="token_f1=worse")
    with workbench_page(browser, server, path, reduced_motion="reduce") as page:
        page.locator("#summary .forest-table").first.wait_for()
        strip = page.locator(".query-part:not([data-partial]) [data-ready] svg")
        strip.wait_for()
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        strip.scroll_into_view_if_needed()
        box = strip.bounding_box()
        page.mouse.move(box["x"] + 30, box["y"] + 10)
        page.mouse.down()
        page.mouse.move(box["x"] + 90, box["y"] + 12, steps=4)
        page.mouse.up()
        page.wait_for_url("**where=diff.token_f1*")
        address = parse_qs(urlsplit(page.url).query)
        expect(page.locator(".query-count")).to_contain_text(f"{listed(server, as_list(address))} of {COUNT}")
        # By keyboard: the range in the menu.
        page.get_by_text("Filter", exact=True).click()
        page.get_by_label("from", exact=True).fill("0")
        page.get_by_label("to", exact=True).fill("0.2")
        page.keyboard.press("Enter")
        page.wait_for_url("**where=diff.token_f1%3E%3D0&**")
        assert "token_f1%3Dworse" not in page.url


def as_list(address: dict[str, list[str]]) -> str:
    """The list of queries with the runs and conditions of an address of the comparison."""
    parts = [f"{name}={value}" for name in ("run", "where") for value in address[name]]
    return "/queries?" + "&".join(parts)
