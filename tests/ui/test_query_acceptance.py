"""The query page with odd queries on narrow and wide screens, without a script, and with the keyboard alone."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.store.runs import RunStore
from helpers.accessibility import load_all
from helpers.browser_runs import put, scored
from helpers.requirements import need
from helpers.ui_server import UiServer, ui_server, wait_until_filled, workbench_page

NAME = "a name of a run that has exactly sixty characters in all ..."
CHINESE, ARABIC = "\u7b54\u6848\u662f\u6cb3\u6d41" * 800, "\u0627\u0644\u0646\u0647\u0631 " * 700
GOLD = [Document(f"gold-{number}", f"The river {number} flows to the sea. " * 8) for number in range(30)]
LONG_ID = f"a long id {'x' * 200}"
LONG_ANSWER = ("The water of the river flows to the sea unless a dam keeps it. " * 70)[:4_000]
SAMPLES = [
    EvaluationSample(
        "chinese", "\u6cb3\u6d41?" * 20, GOLD, reference_answer=Response("\u6cb3\u6d41" * 200), labels={"kind": "odd"}
    ),
    EvaluationSample("arabic", ARABIC[:30], GOLD[:2], reference_answer=Response(ARABIC[:600])),
    EvaluationSample("failed", "Why?", GOLD[:1], reference_answer=Response("Because.")),
    EvaluationSample("declined", "Who?", [Document("other")], reference_answer=Response("Nobody.")),
    EvaluationSample("empty", "What?", []),
    EvaluationSample("bare", "What else?"),
    EvaluationSample(LONG_ID, "Long " * 300, GOLD[:3], reference_answer=Response("word " * 900)),
    EvaluationSample(
        "cited",
        "How does the river flow to the sea? " * 12,
        [Document(f"the-handbook-of-rivers-and-seas-{number}", one.text) for number, one in enumerate(GOLD)],
        reference_answer=Response(LONG_ANSWER),
        reference_answers=[LONG_ANSWER[1:], LONG_ANSWER[2:]],
        labels={"topic": "rivers and seas", "kind": "multi-hop", "level": "hard", "source": "handbook"},
    ),
    EvaluationSample("both failed", "Why does it flow? " * 20, GOLD, reference_answer=Response(LONG_ANSWER)),
]


def ranking(first: int, count: int = 31) -> list[RetrievedDocument]:
    found = [*GOLD[first:], Document(f"none {'y' * 100}", "z" * 3_000)][:count]
    return [RetrievedDocument(one, 0.5, rank) for rank, one in enumerate(found, 1)]


FIRST: list[SystemOutputs | None] = [
    SystemOutputs(ranking(0), Response(CHINESE), timings={"end_to_end": 1.2}),
    SystemOutputs(ranking(0, 12), Response(ARABIC)),
    SystemOutputs([], error="TimeoutError: no answer " * 30, extra={"attempts": 3}),
    SystemOutputs(ranking(3, 4), Response("I do not know.")),
    SystemOutputs([], Response("")),
    SystemOutputs(ranking(2, 3), None),
    SystemOutputs(ranking(0, 5), Response("word " * 900), citations=[f"gold-{number}" for number in range(30)]),
    SystemOutputs(ranking(0), Response(LONG_ANSWER), citations=[f"gold-{number}" for number in range(30)]),
    SystemOutputs([], error=f"ValueError: {LONG_ANSWER}"),
]
SECOND: list[SystemOutputs | None] = [
    SystemOutputs(ranking(3), Response(f"{CHINESE[:500]}\u6d77{CHINESE}")),
    SystemOutputs(ranking(1, 11), Response(f"x {ARABIC}")),
    SystemOutputs(ranking(5, 10), Response("Because of something else.")),
    SystemOutputs([RetrievedDocument(Document("other", "Nobody was here."), 1.0, 1)], Response("Nobody.")),
    SystemOutputs(ranking(0, 2), Response("Nothing.")),
    None,
    SystemOutputs(ranking(1, 5), Response("word " * 800 + "other")),
    SystemOutputs(ranking(2), Response(LONG_ANSWER[99:]), citations=[f"gold-{number}" for number in range(30)]),
    SystemOutputs([], error=f"ValueError: {LONG_ANSWER[99:]}"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UiServer]:
    with RunStore.open(tmp_path_factory.mktemp("odd") / "runs.sqlite") as store:
        metrics = ("token_f1", "recall@5", "ndcg@10", "mrr", "rougeL_answer", "hallucination_rate", "recall@10")
        for shift, (name, outputs) in enumerate(((NAME, FIRST), (f"other {NAME}"[:60], SECOND))):
            results = [
                scored(metric, [(place + shift + number) % 3 / 2 for place in range(len(SAMPLES))])
                for number, metric in enumerate(metrics)
            ]
            put(store, name, SAMPLES, outputs, results)
        with ui_server(store) as running:
            yield running


def address(server: UiServer, sample: str, *, runs: int = 2, **more: Any) -> str:
    new, old = (one.run_id for one in server.workbench.store.runs())
    return f"/query?{urlencode({'run': [old, new][:runs], 'id': sample, **more}, doseq=True)}"


# --- what the page says -----------------------------------------------------------------------------------------------

SHOWN = {
    "a failure": ("failed", ["The system failed, 3 attempts", "Nothing was retrieved.", "Show all 720 characters"]),
    "a refusal": ("declined", ["Declined: ", "B answered and A declined to"]),
    "an empty ranking": ("empty", ["The answer is empty.", "Annotated: no document is relevant."]),
    "no output": (
        "bare",
        ["The run has no output for this query.", "No output is stored.", "No answer was requested."],
    ),
    "thirty gold documents": ("chinese", ["28 more gold documents", "not in 28", "21 more documents"]),
    "long answers": ("arabic", ["Show all 4,200 characters", "Show all 4,202 characters"]),
    "many citations": (LONG_ID, ["cites 30 documents, 5 of them retrieved", "gold-29", "rank 1, gold"]),
}


@pytest.mark.parametrize("reason", SHOWN)
def test_odd_queries_are_shown(server: UiServer, reason: str) -> None:
    sample, expected = SHOWN[reason]
    page = server.get(address(server, sample))
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", page.text))
    assert page.status == 200
    assert [one for one in expected if one not in text] == []
    assert server.get(address(server, sample, runs=1)).status == 200


def test_equal_beginnings_of_long_answers_are_not_called_equal(server: UiServer) -> None:
    assert "The first 1,000 characters are the same." not in server.get(address(server, "chinese")).text
    assert "The first 1,000 characters are the same." in server.get(address(server, LONG_ID)).text


def test_depth_and_open_documents_work_without_a_script(server: UiServer) -> None:
    page = server.get(address(server, "arabic", k=2, where="recall@5>=0")).text
    form = re.search(r'<form class="k-line" action="/query">(.*?)</form>', page, re.DOTALL)
    assert form is not None
    assert re.findall(r'name="(\w+)"', form[1]) == ["run", "run", "id", "where", "k"]
    assert page.count(" below") == 8 + 8 + 2 + 1  # of ten in each list; two and one are among the further ones
    assert "recall@<span data-depth>2</span>" in page
    assert page.count("<details open>") == 0
    opened = re.search(r'href="([^"]*)" id="expand"', page)
    assert opened is not None
    assert "open=all" in opened[1]
    assert server.get(opened[1].replace("&amp;", "&")).text.count("<details open>") == 12 + 11
    for k, message in (("0", "k must be 1 or more"), ("x", "k must be an integer")):
        reply = server.get(address(server, "arabic", k=k))
        assert (reply.status, message in reply.text) == (400, True)
    assert "<output" in server.get(address(server, "arabic", k=99)).text  # the largest k


def test_gold_text_that_was_returned_for_another_query_is_shown(tmp_path: Any) -> None:
    dataset = [EvaluationSample("one", "One?", [Document("a")]), EvaluationSample("two", "Two?", [Document("b")])]
    texts = [RetrievedDocument(Document("a", "The text of a."), 1.0, 1)]
    outputs = [
        SystemOutputs([RetrievedDocument(Document("b"), 1.0, 1)], Response("")),
        SystemOutputs(texts, Response("")),
    ]
    with RunStore.open(tmp_path / "runs.sqlite") as store, ui_server(store) as running:
        put(store, "run", dataset, outputs, [scored("token_f1", [0, 1])])
        assert "The text of a." in running.get("/query?run=latest&id=one").text
        assert "Its text is not stored." in running.get("/query?run=latest&id=two").text


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_odd_queries_fit(browser: Any, server: UiServer, width: int) -> None:
    problems = []
    with workbench_page(browser, server, viewport={"width": width, "height": 900}) as page:
        for sample in SAMPLES:
            for more in ({"runs": 1}, {}, {"open": "all"}):
                page.goto(server.address + address(server, sample.sample_id, **more))
                wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
                small = page.evaluate(
                    """[...document.querySelectorAll("main :is(a, button, summary, input)")]
                    .filter((one) => one.checkVisibility() && !one.closest(".cites, .text, h1, h2") && one.getBoundingClientRect().height < 24)
                    .map((one) => one.outerHTML.slice(0, 80))"""
                )
                if wide > 0 or small:
                    problems.append((sample.sample_id[:10], more, wide, small[:3]))
        page.goto(server.address + address(server, "arabic"))
        direction = "getComputedStyle(document.querySelector('.answer')).direction"
        assert page.evaluate(direction) == "rtl"
    assert problems == []


@pytest.mark.slow
@pytest.mark.parametrize(("width", "tallest"), [(390, 2_600), (1280, 2_200)])
def test_long_answers_and_many_gold_documents_keep_the_page_short(
    browser: Any, server: UiServer, width: int, tallest: int
) -> None:
    heights = {}
    with workbench_page(browser, server, viewport={"width": width, "height": 900}, reduced_motion="reduce") as page:
        for sample in SAMPLES:
            for runs in (1, 2):
                page.goto(server.address + address(server, sample.sample_id, runs=runs))
                load_all(page)
                wait_until_filled(page)
                height = page.evaluate("document.documentElement.scrollHeight")
                heights[sample.sample_id[:10], runs] = height
                page.set_viewport_size({"width": width, "height": height})  # the lines do not make the page taller
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate("document.documentElement.scrollHeight") == height
    assert {name: height for name, height in heights.items() if height > tallest} == {}


@pytest.mark.part("chromium")
@pytest.mark.parametrize("width", [390, 1280])
def test_a_long_answer_unfolds_without_a_script(browser: Any, server: UiServer, width: int) -> None:
    path = address(server, "arabic")
    window = {"width": width, "height": 900}
    with workbench_page(browser, server, path, viewport=window, java_script_enabled=False) as page:
        answer = page.locator("#answers .shown-text").first
        beginning, whole = answer.locator("> .text"), answer.locator(".unfold .text")
        assert beginning.bounding_box()["height"] < 180
        assert not whole.is_visible()
        answer.locator("summary", has_text="Show all 4,200 characters").press("Enter")
        whole.wait_for()
        assert not beginning.is_visible()
        assert len(whole.inner_text()) == len(ARABIC)
        answer.locator("summary", has_text="Show less").press("Enter")
        beginning.wait_for()
        assert page.locator("#answers .unfold").count() == 2


@pytest.mark.part("chromium")
def test_the_depth_shows_recall_ndcg_and_the_size_of_the_context(browser: Any, server: UiServer) -> None:
    with workbench_page(browser, server, address(server, "declined", runs=1)) as page:
        figures = page.locator("#depth-figures")
        text = len(GOLD[3].text)  # documents 3 to 6, whose texts are equally long
        assert f"context {4 * text:,} characters" in figures.inner_text()
        page.locator("#depth").press("ArrowLeft")
        figures.get_by_text(f"{3 * text:,}").wait_for()
        assert "recall@3" in figures.inner_text()


@pytest.mark.part("chromium")
def test_the_focus_is_never_below_a_bar(browser: Any, server: UiServer) -> None:
    covered = """() => {
      const box = document.activeElement.getBoundingClientRect();
      const bar = document.querySelector(".query-bar");
      if (document.activeElement === document.body || document.activeElement.closest(".query-bar, .top, .skip")) return "";
      const low = document.querySelector(".bottom-bar").getBoundingClientRect().top;
      const isCovered = box.top < bar.getBoundingClientRect().bottom - 1 || Math.min(box.bottom, box.top + 40) > low + 1;
      return isCovered ? document.activeElement.outerHTML.slice(0, 100) : "";
    }"""
    with workbench_page(browser, server, address(server, "chinese"), viewport={"width": 1280, "height": 600}) as page:
        found = []
        for key in ["Tab"] * 45 + ["Shift+Tab"] * 30:
            page.keyboard.press(key)
            found.append(page.evaluate(covered))
        assert [one for one in found if one] == []


@pytest.mark.part("chromium")
def test_a_failed_query_is_corrected_and_labelled_with_the_keyboard_alone(browser: Any, server: UiServer) -> None:
    expect = need("playwright.sync_api").expect
    new, old = (one.run_id for one in server.workbench.store.runs())
    with workbench_page(browser, server, f"/queries?run={old}&run={new}&where=A.answer=failed") as page:
        page.keyboard.press("j")
        page.keyboard.press("o")
        page.wait_for_url("**/query?*id=failed*")
        expect(page.locator("#answers")).to_contain_text("The system failed, 3 attempts")
        page.keyboard.press("n")  # the first document without a grade
        expect(page.locator("#document-B1 summary")).to_be_focused()
        page.keyboard.press("2")
        expect(page.locator("#document-B1 [data-marks]")).to_contain_text("proposed: grade 2")
        expect(page.locator("#proposals")).to_contain_text("1 correction proposed.")
        page.keyboard.press("g")
        expect(page.get_by_role("dialog").locator("input:focus")).to_have_count(1)
        page.keyboard.press("Escape")
        page.keyboard.press("l")
        page.wait_for_url("**/label/*")
        assert NAME not in page.content()
        assert "failed" not in page.locator("main").inner_text()
