"""Texts of the reading table: words of the reference, differences of two answers, ranks and documents; the card's scale."""

from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.queries.marked_texts import changed_words, content_words
from auepora_eval.store.runs import RunStore
from auepora_eval.ui.compare_card import CardRow, _group
from auepora_eval.ui.reading import mark_words
from helpers.browser_runs import put, scored
from helpers.stored_runs import samples, scored as scored_run
from helpers.ui_server import UiServer, ui_server, wait_until_filled, workbench_page

CHINESE, ARABIC = "\u7b54\u6848\u662f\u6cb3\u6d41" * 800, "\u0627\u0644\u0646\u0647\u0631 " * 700
NAME = "a name of a run that has exactly sixty characters in all ..."


def marked(text: str, reference: str) -> list[str]:
    return [part.text for part in mark_words(text, content_words(reference)) if part.kind == "word"]


MARKED = {
    "stop words are not": ("The share of the documents", "It is the share.", ["share"]),
    "neighbours are one mark": ("all Relevant documents here", "relevant documents", ["Relevant documents"]),
    "signs divide them": ("lake: river", "river lake", ["lake", "river"]),
    "scripts without spaces": ("\u5317\u4eac\u5927", "\u5317\u4eac", ["\u5317\u4eac"]),
    "nothing in common": ("rivers", "lakes", []),
}


@pytest.mark.parametrize("reason", MARKED)
def test_words_of_the_reference_are_marked(reason: str) -> None:
    text, reference, expected = MARKED[reason]
    assert marked(text, reference) == expected
    assert "".join(part.text for part in mark_words(text, content_words(reference))) == text


CHANGED = {
    "one word": ("the share is high", "the share is low", ({3}, {3})),
    "a word more": ("it is so", "it is not so", (set(), {2})),
    "equal but for signs": ("It is so.", "it is so", (set(), set())),
    "less than 40 % in common": ("rivers run deep", "lakes are wide and deep today", (set(), set())),
}


@pytest.mark.parametrize("reason", CHANGED)
def test_word_differences_need_similar_answers(reason: str) -> None:
    first, second, expected = CHANGED[reason]
    assert changed_words(first, second) == expected


@pytest.mark.parametrize(
    "ends", [(0.1, 0.2, 0.3), (-0.13, -0.09, -0.05), (-0.5, 0.0, 0.9), (0.001, 0.002, 0.003), (2.0, 3.0, 7.0)]
)
def test_a_scale_has_zero_and_all_ends_and_few_marks(ends: tuple[float, float, float]) -> None:
    row = CardRow("m", "m", False, "", "", "open", "", "", ends)
    scale = _group("", [row]).scale
    assert scale.low <= min(0.0, ends[0])
    assert max(0.0, ends[2]) <= scale.high
    assert "0" in [text for _, text in scale.ticks]
    assert 2 <= len(scale.ticks) <= 9
    assert 0 <= scale.place(ends[0]) <= scale.place(ends[2]) <= 100


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UiServer]:
    """Two runs with long names, long answers in Chinese and Arabic, thirty gold documents and forty metrics."""
    gold = [Document(f"gold-{number}", f"The river {number} <b>flows</b>.") for number in range(30)]
    dataset = [
        EvaluationSample(
            f"q{number}", "Where does the river flow? " * 20, gold, reference_answer=Response("The river flows " * 30)
        )
        for number in range(20)
    ]
    with RunStore.open(tmp_path_factory.mktemp("reading") / "runs.sqlite") as store:
        names = [f"recall@{depth}" for depth in range(1, 41)]
        for name, text, shift in ((NAME, CHINESE, 0), (f"other {NAME}"[:60], ARABIC, 3)):
            found = [RetrievedDocument(one, 0.5, rank) for rank, one in enumerate([*gold[shift:], Document("none")], 1)]
            outputs = [SystemOutputs(found, Response(text)) for _ in dataset]
            results = [scored(one, [(number + shift) % 2 for number in range(20)]) for one in names]
            put(store, name, dataset, outputs, results)
        with ui_server(store) as running:
            yield running


def addresses(server: UiServer) -> dict[str, str]:
    new, old = (one.run_id for one in server.workbench.store.runs())
    return {
        "runs": "/runs?col=recall@1&col=recall@2&col=recall@3&col=recall@4&col=duration",
        "queries": f"/queries?run={new}",
        "queries of two": f"/queries?run={old}&run={new}&size=8",
        "compare": f"/compare?run={old}&run={new}#query-pane",
        "run": f"/runs/{new}",
    }


def test_documents_of_a_row(server: UiServer) -> None:
    new, old = (one.run_id for one in server.workbench.store.runs())
    html = server.get(f"/queries/documents?run={old}&run={new}&id=q0").text
    assert html.count('<li class="document-card') == 31 + 28
    assert html.count("is-gold") == 30 + 27
    assert '<mark class="word"' in html
    assert "<b>flows" not in html
    assert "31 documents" in html
    assert server.get(f"/queries/documents?run={new}&id=unknown").text.count("0 documents") == 1


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_long_texts_keep_rows_low_and_pages_narrow(browser: Any, server: UiServer, width: int) -> None:
    problems = []
    with workbench_page(browser, server, viewport={"width": width, "height": 900}) as page:
        for name, path in addresses(server).items():
            page.goto(server.address + path)
            wait_until_filled(page)
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            tall = page.evaluate(
                "Math.max(0, ...[...document.querySelectorAll('[data-row]')].map((row) => row.getBoundingClientRect().height))"
            )
            small = page.evaluate(
                """[...document.querySelectorAll("main [data-row] a, main .pager a, main .tools button, main .chip")]
                .filter((one) => one.checkVisibility() && !one.matches(".chip .chip") && one.getBoundingClientRect().height < 24)
                .map((one) => one.outerHTML.slice(0, 80))"""
            )
            if wide > 0 or tall > 240 or small:
                problems.append((name, wide, tall, small[:3]))
    assert problems == []


def test_rows_by_keyboard(browser: Any, server: UiServer) -> None:
    with workbench_page(browser, server, addresses(server)["queries"]) as page:
        page.keyboard.press("j")
        page.keyboard.press("j")
        assert page.locator("tr[aria-current] code").inner_text() == "q1"
        page.keyboard.press("e")
        page.locator(".opened .document-card").first.wait_for()
        page.keyboard.press("e")
        assert page.locator(".opened").count() == 0
        page.keyboard.press("k")
        page.keyboard.press("o")
        page.wait_for_url("**/query?*id=q0*")
        assert "q0" in unescape(page.content())


def test_from_two_runs_to_the_next_worst_query_with_the_keyboard_alone(browser: Any, tmp_path: Any) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as store, ui_server(store) as server:
        scored_run(store, "old", samples(6), {"token_f1": [1, 1, 1, 0, 0, 0]})
        scored_run(store, "new", samples(6), {"token_f1": [0, 0.5, 1, 1, 1, 1]})
        with workbench_page(browser, server) as page:
            for key in ("j", "Space", "j", "Space", "c"):
                page.keyboard.press(key)
            page.wait_for_url("**/compare?*")
            page.locator("table.read [data-row]").first.wait_for()
            assert page.locator("table.read code").all_text_contents() == ["q00000", "q00001"]
            page.keyboard.press("j")
            page.keyboard.press("o")
            page.wait_for_url("**/query?*id=q00000*")
            page.keyboard.press("j")
            page.wait_for_url("**/query?*id=q00001*")
