"""The page of failure groups: its numbers, links and problems, as a part of other pages, and in a browser."""

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest

from auepora_eval import EvaluationSample, Response, SystemOutputs
from auepora_eval.store.runs import RunStore
from helpers.accessibility import axe_problems, axe_script, find_problems
from helpers.browser_runs import put, scored
from helpers.failing_topics import failing_runs
from helpers.ui_server import UiServer, ui_server, workbench_page

HOSTILE = '<b>fees</b> & "more"'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UiServer]:
    with RunStore.open(tmp_path_factory.mktemp("store") / "runs.sqlite") as store:
        failing_runs(store)
        questions = [
            EvaluationSample(f"q{number}", f"question {number}", labels={"topic": HOSTILE if number % 8 == 0 else "x"})
            for number in range(320)
        ]
        scores = scored("exact_match", [float(number % 8 > 0 and number % 5 > 0) for number in range(320)])
        put(store, "hostile", questions, [SystemOutputs([], Response("x"))] * 320, [scores])
        put(store, "unclear", questions[:9], [SystemOutputs([], Response("x"))] * 9, [scored("token_f1", [0.5] * 9)])
        with ui_server(store) as running:
            yield running


def path_of(server: UiServer, *names: str, **parameters: str) -> str:
    runs = [f"run={server.workbench.find(name).run_id}" for name in names]
    return "/queries/groups?" + "&".join([*runs, *(f"{name}={value}" for name, value in parameters.items())])


def chips(page: str) -> list[tuple[str, str, int]]:
    """Address, text and count of each chip."""
    found = re.findall(r'<a class="chip" href="([^"]+)">(.*?) <span class="count">(\d+)</span>', page)
    return [(unescape(address), unescape(text), int(count)) for address, text, count in found]


def test_each_count_is_a_filter(server: UiServer) -> None:
    page = server.get(path_of(server, "before", "after")).text
    assert "answers are newly wrong: 2 groups." in page
    assert "old invoice" in page
    assert "Groups below about 15 failures are usually not shown." in page
    assert len(chips(page)) > 8
    for address, text, count in chips(page):
        listed = re.search(r'data-count="([\d,]+) of', server.get(address).text)
        assert listed is not None, text
        assert int(listed[1]) == count, (address, text)


def test_examples_lead_to_their_queries_in_the_list_of_the_group(server: UiServer) -> None:
    page = server.get(path_of(server, "after")).text
    examples = [unescape(address) for address in re.findall(r'<li><a href="(/query\?[^"]+)"', page)]
    assert examples
    for address in examples:
        assert "where=term%3D" in address
        assert server.get(address).status == 200


def test_the_page_as_a_part_of_another_one(server: UiServer) -> None:
    part = server.get(path_of(server, "after", fragment="1")).text
    assert "<html" not in part
    assert "failure-groups" in part


def test_the_list_of_queries_links_to_the_groups(server: UiServer) -> None:
    run = server.workbench.find("after").run_id
    assert f'href="/queries/groups?run={run}"' in server.get(f"/queries?run={run}").text


def test_texts_of_others_are_texts(server: UiServer) -> None:
    page = server.get(path_of(server, "hostile")).text
    assert "<b>" not in page
    assert "topic=&lt;b&gt;fees" in page
    assert all(server.get(address).status == 200 for address, _, _ in chips(page))


PROBLEMS = {
    "no metric says what is right": ({}, "Which answers are right? Name a metric"),
    "a metric without a threshold": ({"correct": "token_f1"}, "From which score on is an answer right?"),
    "an unknown metric": ({"correct": "tokn_f1"}, "The runs have no metric"),
}


@pytest.mark.parametrize(("parameters", "message"), PROBLEMS.values(), ids=PROBLEMS)
def test_what_is_missing_is_explained_at_the_form(server: UiServer, parameters: dict[str, str], message: str) -> None:
    reply = server.get(path_of(server, "unclear", **parameters))
    assert reply.status == 200
    assert message in reply.text
    assert "--" not in re.sub(r"<[^>]*>", "", reply.text)  # a page has fields, no options


def test_the_form_has_what_was_used(server: UiServer) -> None:
    page = server.get(path_of(server, "unclear", correct="token_f1", correct_from="0.5")).text
    assert 'value="token_f1" selected' in page
    assert 'name="correct_from" value="0.5"' in page
    assert "0 of 9 answers are wrong: 0 groups." in page
    assert server.get(path_of(server, "unclear", correct_from="x")).status == 400


@pytest.mark.part("chromium")
def test_the_form_stays_in_the_tab_of_a_run(browser: Any, server: UiServer) -> None:
    path = f"/runs/{server.workbench.find('unclear').run_id}?tab=groups"
    with workbench_page(browser, server, path) as page:
        page.get_by_text("Name a metric").wait_for()
        page.locator("#groups-correct").select_option("token_f1")
        page.locator("#groups-from").fill("0.75")
        page.locator("#groups-from").press("Enter")
        page.get_by_text("9 of 9 answers are wrong").wait_for()
        assert page.locator("#groups-correct").input_value() == "token_f1"
        assert page.url.endswith(path)


@pytest.mark.part("chromium")
@pytest.mark.parametrize("width", [390, 1280])
def test_groups_are_a_tab_of_a_comparison(browser: Any, server: UiServer, width: int) -> None:
    path = path_of(server, "before", "after").replace("/queries/groups", "/compare")
    with workbench_page(browser, server, path, viewport={"width": width, "height": 900}) as page:
        groups = page.locator("#groups-pane")
        assert not groups.is_visible()
        assert "newly wrong" not in groups.inner_text()  # it loads when it is opened
        page.get_by_role("link", name="Failure groups").click()
        groups.get_by_text("answers are newly wrong: 2 groups.").wait_for()
        assert not page.locator("#query-pane").is_visible()
        assert page.locator("#summary").is_visible() == (width > 960)
        groups.locator("#groups-correct").select_option("token_f1")
        groups.locator("#groups-from").fill("0.1")
        groups.get_by_role("button", name="Group").click()
        groups.get_by_text("0 of 400 answers are newly wrong").wait_for()
        page.get_by_role("link", name="Queries", exact=True).click()
        page.wait_for_selector("[data-row]")
        assert not groups.is_visible()
        assert page.url.endswith(f"{path}#query-pane")


@pytest.mark.part("chromium")
def test_the_tab_of_a_comparison_opens_without_a_script(browser: Any, server: UiServer) -> None:
    path = path_of(server, "before", "after").replace("/queries/groups", "/compare")
    with workbench_page(browser, server, f"{path}#groups-pane", java_script_enabled=False) as page:
        page.get_by_role("link", name="Group the wrong answers").click()
        assert page.get_by_role("heading", name="Newly wrong").is_visible()


@pytest.mark.slow
@pytest.mark.part("chromium")
def test_the_page_in_a_browser(browser: Any, server: UiServer) -> None:
    with workbench_page(browser, server, path_of(server, "before", "after"), reduced_motion="reduce") as page:
        assert find_problems(page) == []
        assert axe_problems(page, axe_script()) == []
        page.get_by_role("link", name="newly wrong").first.click()
        page.wait_for_selector("[data-row]")
        assert "/queries?" in page.url
