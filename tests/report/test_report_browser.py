"""The query browser in a real browser: list, query view, comparison, and escaping of hostile texts."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.core.scores import AnswerSpans, MarkedSpan, Score, Scores
from auepora_eval.core.types import MetricResult, TargetCategory
from auepora_eval.report.pages import write_report
from auepora_eval.store.records import StoredOutput
from auepora_eval.store.rows import StoredJudgement
from auepora_eval.store.runs import RunStore
from helpers import browser_runs as runs, requirements
from helpers.browser_page import Watched, write_page

Open = Callable[..., Any]
PHONE = {"width": 390, "height": 844}


@pytest.fixture
def opened(browser: Any) -> Iterator[Open]:
    """Opens a page; at the end nothing was complained about and nothing else was asked for."""
    seen: list[tuple[Watched, Path, Any]] = []

    def open_page(path: Path, address: str = "", **context: Any) -> Any:
        made = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
        made.set_default_timeout(30_000)
        watched = Watched(made.new_page())
        seen.append((watched, path, made))
        return watched.open(path, address)

    yield open_page
    for watched, path, made in seen:
        watched.check(path)
        made.close()


def expect(locator: Any) -> Any:
    return requirements.need("playwright.sync_api").expect(locator)


def row_ids(page: Any) -> list[str]:
    """The ids of the rows in sight, from the top."""
    rows = page.locator(".qb-grid:not([hidden]) .qb-canvas .qb-row:not([hidden])")
    found = rows.evaluate_all(
        "rows => rows.map(one => [Number(one.getAttribute('aria-rowindex')), one.querySelector('.qb-id').textContent])"
    )
    return [name for _, name in sorted(found)]


# --- two small runs --------------------------------------------------------------------------------------------------


def small_samples() -> list[EvaluationSample]:
    whole = "Paris is the capital of France. Lyon is not."
    return [
        EvaluationSample(
            "capital",
            "What is the capital of France?",
            relevant_docs=[Document("fr-1", parent_id="france", span=(0, 31), metadata={"relevance": 2})],
            reference_answer=Response("Paris"),
            reference_answers=["It is Paris."],
            labels={"topic": "places", "tags": ["easy", "short"]},
            history=[{"role": "user", "content": "We talk about Europe."}],
        ),
        EvaluationSample(
            "river", "Which river?", relevant_docs=[Document("seine", "The Seine.")], labels={"topic": "water"}
        ),
        EvaluationSample("nobody", "Who knows?", relevant_docs=None, labels={"topic": "places", "tags": ["hard"]}),
        EvaluationSample(
            "failed", "Does it crash?", relevant_docs=[Document("x", whole)], candidate_docs=[Document("lyon", "Lyon.")]
        ),
    ]


def small_outputs(answer: str, first: str) -> list[SystemOutputs | None]:
    chunk = RetrievedDocument(Document("france", "Paris is the capital of France. Lyon is not."), 3.5, 1)
    others = [
        RetrievedDocument(Document(one, f"text of {one}"), 1 / rank, rank)
        for rank, one in enumerate((first, "seine", first), 2)
    ]
    return [
        SystemOutputs(
            [chunk, *others],
            Response(answer, sentences=[{"text": answer, "citations": ["france"]}]),
            {"end_to_end": 0.0123},
            {"trace": "abc"},
            citations=["france", "missing"],
            steps=[{"query": "capital france", "retrieved": ["france"]}],
            usage={"prompt_tokens": 120},
        ),
        SystemOutputs([RetrievedDocument(Document("seine", "The Seine."), None, 1)], Response("The Seine.")),
        SystemOutputs([], None),
        SystemOutputs([], error="TimeoutError: gave up after 3 s"),
    ]


def small_runs(store: RunStore) -> list[Any]:
    failing = Score.skip("no_gold")
    a = runs.put(store, "before", small_samples(), small_outputs("Paris, Texas maybe.", "lyon"), [
        runs.scored("recall@5", [1.0, 0.5, failing, 0.0]), runs.scored("hallucination_rate", [2 / 3, 0.0, Score.skip("no_response"), Score.fail("not_a_number")]),
    ])  # fmt: skip
    b = runs.put(store, "after", small_samples(), small_outputs("It is Paris.", "fr-1"), [
        runs.scored("recall@5", [1.0, 1.0, failing, 0.0]), runs.scored("hallucination_rate", [0.0, 0.0, Score.skip("no_response"), 0.5]),
        runs.scored("token_f1", [1.0, 0.0, 0.25, 0.5]),
    ])  # fmt: skip
    return [a, b]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    with RunStore.open(folder / "runs.sqlite") as store:
        a, b = small_runs(store)
        return {
            "one": write_page(store, [a], folder / "one.html"),
            "two": write_page(store, [a, b], folder / "two.html"),
        }


def test_list_shows_queries_and_scores(opened: Open, pages: dict[str, Path]) -> None:
    page = opened(pages["one"])
    assert row_ids(page) == ["capital", "river", "nobody", "failed"]
    assert page.locator(".qb-count").inner_text() == "4 queries"
    cells = page.locator(".qb-row[aria-rowindex='4'] .qb-metric").all_inner_texts()
    assert cells == ["skipped", "skipped"]
    assert page.locator(".qb-row[aria-rowindex='5'] .qb-hit").inner_text() == "failed"
    assert page.locator(".qb-row[aria-rowindex='5'] .qb-metric").all_inner_texts() == ["0", "failed"]
    assert page.locator("[role=grid]").get_attribute("aria-rowcount") == "5"


FILTERS = {
    "words of the question": ("capital fr", ["capital"]),
    "an id": ("RIVER", ["river"]),
    "words of an answer": ("texas", ["capital"]),
    "the text of an error": ("timeouterror", ["failed"]),
    "words in quotes stand together": ('"is the capital"', ["capital"]),
    "words that are there but not together": ('"the is"', []),
}


@pytest.mark.parametrize(("words", "found"), FILTERS.values(), ids=FILTERS)
def test_search(opened: Open, pages: dict[str, Path], words: str, found: list[str]) -> None:
    page = opened(pages["one"])
    page.get_by_role("searchbox").fill(words)
    expect(page.locator(".qb-count")).to_have_text(f"{len(found)} of 4 queries")
    assert row_ids(page) == found
    expect(page.locator(".qb-empty")).to_be_visible(visible=not found)


def add_condition(page: Any, subject: str, operator: str, value: str) -> None:
    page.get_by_label("Condition on").select_option(subject)
    page.get_by_label("Operator").select_option(operator)
    page.get_by_label("Value").fill(value)
    page.get_by_role("button", name="Add").click()


def test_conditions_on_label_outcome_and_value(opened: Open, pages: dict[str, Path]) -> None:
    page = opened(pages["one"])
    page.get_by_text("Filters", exact=True).click()
    add_condition(page, "label.topic", "=", "places")
    assert row_ids(page) == ["capital", "nobody"]
    add_condition(page, "label.tags", "=", "short")
    assert row_ids(page) == ["capital"]
    page.get_by_role("button", name="Remove condition label.tags=short").click()
    assert row_ids(page) == ["capital", "nobody"]
    page.get_by_role("button", name="Clear filters").click()
    assert len(row_ids(page)) == 4
    add_condition(page, "hallucination_rate", "=", "failed")
    assert row_ids(page) == ["failed"]
    expect(page.locator(".qb-panel summary").first).to_have_text("Filters (1 active)")
    add_condition(page, "hallucination_rate", "<", "much")
    expect(page.get_by_role("alert")).to_contain_text("'much' should be a number")
    assert row_ids(page) == ["failed"]
    page.get_by_role("button", name="Clear filters").click()
    add_condition(page, "recall@5", ">=", "0.5")
    add_condition(page, "recall@5", "<=", "0.5")  # both ends are in
    assert row_ids(page) == ["river"]
    expect(page.get_by_role("alert")).to_be_hidden()
    page.get_by_role("button", name="Clear filters").click()
    add_condition(page, "answer", "=", "failed")
    assert row_ids(page) == ["failed"]


def test_filter_is_in_the_url(opened: Open, pages: dict[str, Path]) -> None:
    page = opened(pages["two"])
    page.get_by_text("Filters", exact=True).click()
    add_condition(page, "label.topic", "=", "water")
    page.get_by_role("searchbox").fill("river")
    page.wait_for_url(re.compile("#f/.*q=river"))
    address = page.evaluate("location.hash")
    again = opened(pages["two"], address)
    assert row_ids(again) == ["river"]
    assert again.get_by_role("searchbox").input_value() == "river"
    expect(again.get_by_role("button", name="Remove condition label.topic=water")).to_be_visible()


def test_sorting_puts_missing_values_last(opened: Open, pages: dict[str, Path]) -> None:
    page = opened(pages["one"])
    header = page.get_by_role("columnheader", name="recall@5")
    header.get_by_role("button").click()
    assert row_ids(page) == ["failed", "river", "capital", "nobody"]
    assert header.get_attribute("aria-sort") == "ascending"
    header.get_by_role("button").click()
    assert row_ids(page) == ["capital", "river", "failed", "nobody"]
    page.get_by_role("columnheader", name="hallucination_rate").get_by_role("button").click()
    assert row_ids(page) == ["capital", "river", "nobody", "failed"], "lower is better: the worst is the highest"
    page.get_by_label("Sort by").select_option("id")
    assert row_ids(page) == ["capital", "failed", "nobody", "river"]


def test_query_view_shows_all_fields(opened: Open, pages: dict[str, Path]) -> None:
    page = opened(pages["one"], "#q/capital")
    article = page.locator(".qb-query")
    text = article.inner_text()
    for expected in (
        "What is the capital of France?",
        "It is Paris.",
        "We talk about Europe.",
        "prompt_tokens",
        "12.3 ms",
    ):
        assert expected in text, expected
    assert article.locator(".qb-unsupported").all_inner_texts() == ["Texas maybe.", "like this"]
    assert "2 of 3 words in none of the documents retrieved" in text
    documents = article.locator(".qb-side .qb-doc")
    assert documents.nth(0).locator(".qb-mark").inner_text() == "● gold by span, level 2"
    assert documents.nth(0).locator(".qb-text mark").all_inner_texts() == ["Paris is the capital of France."]
    assert documents.nth(0).get_by_text("cited").count() == 1
    assert article.get_by_text("rank 1, by span").count() == 1, "a chunk of another id covers the gold passage"
    assert article.get_by_text("not retrieved").count() == 1, "a citation"
    assert "level 2" in article.locator(".qb-known").inner_text()
    page.goto(page.url.partition("#")[0] + "#q/failed")
    expect(page.locator(".qb-error")).to_have_text("TimeoutError: gave up after 3 s")
    expect(page.locator(".qb-outcome.qb-failed")).to_have_text("measurement failed: not_a_number")


def test_two_runs_side_by_side(opened: Open, pages: dict[str, Path]) -> None:
    page = opened(pages["two"])
    assert page.locator(".qb-row[aria-rowindex='3'] .qb-metric").first.inner_text() == "0.500 → 1 ▲"
    page.get_by_role("button", name="▲ 1 better").click()
    assert row_ids(page) == ["river"]
    page.get_by_role("button", name="▲ 1 better").click()
    page.get_by_text("Filters", exact=True).click()
    add_condition(page, "hit", "=", "win")
    assert row_ids(page) == ["capital"], "the gold chunk is found now"
    page.locator(".qb-row[aria-rowindex='2']").click()
    article = page.locator(".qb-query")
    article.locator(".qb-run").first.wait_for()  # taking all texts does not wait for any
    assert article.locator(".qb-run").all_inner_texts() == ["A: before", "B: after"]
    table = {
        row.locator("th").inner_text(): row.locator("td").all_inner_texts()
        for row in article.locator(".qb-metrics tr:has(td)").all()
    }
    assert table["recall@5"] == ["1", "1", "0"]
    assert table["hallucination_rate ↓"][:2] == ["0.667", "0"]
    assert " ".join(table["hallucination_rate ↓"][2].split()) == "−0.667 ▲ better"
    assert table["token_f1"] == ["–", "1", ""]
    second = article.locator(".qb-side").nth(1).locator(".qb-docline").all_inner_texts()
    assert "new" in second[1]
    assert "● gold" in second[1]
    assert "gold again" in second[3]


def test_keyboard_navigation(opened: Open, pages: dict[str, Path]) -> None:
    page = opened(pages["one"])
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.getAttribute('role')") == "grid"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("j")
    page.keyboard.press("k")
    active = page.locator(f"#{page.locator('[role=grid]').get_attribute('aria-activedescendant')}")
    assert active.locator(".qb-id").inner_text() == "river"
    page.keyboard.press("Enter")
    expect(page.locator(".qb-queryid")).to_have_text("river")
    assert page.evaluate("document.activeElement.textContent").startswith("Which river?")
    page.keyboard.press("j")
    expect(page.locator(".qb-queryid")).to_have_text("nobody")
    expect(page.locator(".qb-position")).to_have_text("3 of 4")
    page.keyboard.press("Escape")
    expect(page.locator(".qb-list")).to_be_visible()
    assert page.evaluate("document.activeElement.getAttribute('role')") == "grid"
    page.keyboard.press("/")
    page.keyboard.type("river")
    expect(page.locator(".qb-count")).to_have_text("1 of 4 queries")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_urls_and_back_button(opened: Open, pages: dict[str, Path]) -> None:
    page = opened(pages["one"])
    page.locator(".qb-row[aria-rowindex='3']").click()
    expect(page.locator(".qb-queryid")).to_have_text("river")
    assert page.evaluate("location.hash") == "#q/river"
    expect(page.locator("#overview")).to_be_hidden()
    page.get_by_role("button", name="Next").click()
    expect(page.locator(".qb-queryid")).to_have_text("nobody")
    page.go_back()
    expect(page.locator(".qb-list")).to_be_visible()
    expect(page.locator("#overview")).to_be_visible()
    page.go_forward()
    expect(page.locator(".qb-queryid")).to_have_text("nobody")
    page.get_by_role("link", name="All queries").click()
    expect(page.locator(".qb-list")).to_be_visible()
    page.goto(page.url.partition("#")[0] + "#q/never%20asked%")
    expect(page.locator(".qb-missing")).to_contain_text("There is no query never%20asked% in this report")


def test_scroll_position_is_restored(opened: Open, pages: dict[str, Path]) -> None:
    page = opened(pages["one"], viewport={"width": 900, "height": 300})
    link = page.locator("#overview").evaluate_handle(
        "main => { const link = document.createElement('a'); link.href = '#q/river'; link.textContent = 'a point'; main.append(link); return link; }"
    )
    page.evaluate("window.scrollTo(0, 40)")
    link.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".qb-queryid")).to_have_text("river")
    page.keyboard.press("Escape")
    expect(page.locator("#overview")).to_be_visible()
    assert page.evaluate("[document.activeElement.textContent, window.scrollY]") == ["a point", 40]


def test_phone_layout(opened: Open, pages: dict[str, Path]) -> None:
    for scheme in ("light", "dark"):
        for name in ("one", "two"):
            page = opened(pages[name], viewport=PHONE, color_scheme=scheme, has_touch=True)
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
            page.get_by_text("Filters", exact=True).click()
            page.get_by_text("Columns", exact=True).click()
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
            page.locator(".qb-row[aria-rowindex='2']").tap()
            expect(page.locator(".qb-queryid")).to_have_text("capital")
            expect(page.locator(".qb-list")).to_be_hidden()
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
            metrics, document = (page.locator(one).first.bounding_box() for one in (".qb-metrics", ".qb-side .qb-doc"))
            assert metrics["y"] < document["y"]


def test_print_open_query(opened: Open, pages: dict[str, Path]) -> None:
    page = opened(pages["one"], "#q/capital")
    page.locator(".qb-query").wait_for()
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".qb-query details:not([open])").count() == 0
    page.emulate_media(media="print")
    expect(page.locator(".qb-nav")).to_be_hidden()
    expect(page.locator("#overview")).to_be_hidden()
    assert page.pdf()[:4] == b"%PDF"
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator(".qb-query details:not([open])").count() > 0


# --- hostile, missing or large data ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    with RunStore.open(folder / "runs.sqlite") as store:
        first = runs.hostile_run(store)
        return write_page(store, [first, runs.hostile_run(store, "again")], folder / "hostile.html")


@pytest.mark.parametrize("key", runs.HOSTILE)
def test_hostile_texts_are_escaped(opened: Open, hostile: Path, key: str) -> None:
    page = opened(hostile, viewport=PHONE)
    place = list(runs.HOSTILE).index(key)
    page.evaluate(f"location.hash = '#q/' + encodeURIComponent({json.dumps(key)})")
    expect(page.locator(".qb-queryid")).to_have_text(key)
    asked = page.locator(".qb-asked .qb-text")
    text = runs.HOSTILE[key]
    if key == "long":
        assert len(asked.inner_text()) <= 801
    elif key not in ("null", "turned"):
        assert asked.text_content() == text
    page.locator(".qb-query details").evaluate_all("all => all.forEach(one => { one.open = true; })")
    page.locator(".qb-asked .qb-more" if key == "long" else ".qb-more").evaluate_all(
        "all => all.forEach(one => one.click())"
    )
    if key == "long":
        assert len(asked.text_content()) == len(text)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], f"query {place} is too wide"
    assert page.evaluate("window.pwned") is None
    assert page.locator("#queries :is(script, img, svg, iframe, style, [onerror], [onload])").count() == 0
    assert page.locator("#queries a:not([href^='#'])").count() == 0


def test_invisible_characters_are_escaped(opened: Open, hostile: Path) -> None:
    page = opened(hostile, "#q/null")
    expect(page.locator(".qb-asked .qb-text")).to_have_text("before␀after␇␛[31m")
    page.evaluate("location.hash = '#q/turned'")
    expect(page.locator(".qb-asked .qb-text")).to_have_text(
        "safe ⟦U+202E⟧gnp.exe⟦U+202C⟧ ⟦U+2066⟧isolated⟦U+2069⟧ ⟦U+200B⟧"
    )
    assert page.evaluate("getComputedStyle(document.querySelector('.qb-asked .qb-text')).unicodeBidi") == "plaintext"


def test_no_queries_and_no_results(opened: Open, tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        empty = store.create_run("empty", [], dataset_name="none", plan={})
        unscored = runs.put(store, "unscored", small_samples(), [None, *small_outputs("yes", "no")[1:]])
        first = write_page(store, [empty], tmp_path / "empty.html")
        second = write_page(store, [unscored], tmp_path / "unscored.html")
    page = opened(first)
    expect(page.locator(".qb-empty")).to_have_text("This run has no queries.")
    page = opened(second, "#q/capital")
    expect(page.locator(".qb-side")).to_contain_text("No answer is stored.")
    expect(page.locator(".qb-known")).to_contain_text("No metric has scores per query.")


def test_answers_of_repeats(opened: Open, tmp_path: Path) -> None:
    samples = small_samples()[:1]
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        record = store.create_run("three", samples, dataset_name="made", plan={}, repeats=3)
        for repeat, answer in ((0, "first"), (2, "third")):
            store.append(
                record.run_id, [StoredOutput(0, repeat, "capital", SystemOutputs([], Response(answer), repeat=repeat))]
            )
        path = write_page(store, [record], tmp_path / "three.html")
    page = opened(path, "#q/capital")
    expect(page.locator(".qb-answer")).to_have_text("first")
    page.get_by_label("Which answer").select_option(label="answer 3 of 3")
    expect(page.locator(".qb-answer")).to_have_text("third")
    page.get_by_label("Which answer").select_option(label="answer 2 of 3")
    expect(page.locator(".qb-side")).to_contain_text("No answer is stored.")


def test_runs_over_different_datasets(opened: Open, tmp_path: Path) -> None:
    samples = small_samples()
    other = [
        EvaluationSample("capital", "What is its capital?", relevant_docs=[Document("other gold")]),
        EvaluationSample("new", "New?"),
    ]
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        a = runs.put(store, "a", samples, small_outputs("yes", "no"), [runs.scored("recall@5", [1.0] * 4)])
        b = runs.put(
            store,
            "b",
            other,
            [SystemOutputs([], Response("x")), SystemOutputs([], Response("y"))],
            [runs.scored("precision@5", [0.5, 1.0])],
        )
        path = write_page(store, [a, b], tmp_path / "two.html")
    page = opened(path)
    assert row_ids(page) == ["capital", "river", "nobody", "failed", "new"]
    page.locator(".qb-row[aria-rowindex='6']").click()
    expect(page.locator(".qb-side").first).to_contain_text("This run was not asked this query.")
    page.evaluate("location.hash = '#q/capital'")
    expect(page.locator(".qb-known")).to_contain_text("Gold documents for B", ignore_case=True)
    expect(page.locator(".qb-known")).to_contain_text("other gold")


def test_three_runs_are_compared_with_the_first(opened: Open, tmp_path: Path) -> None:
    samples = small_samples()
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        records = [
            runs.put(store, name, samples, small_outputs("yes", "no"), [runs.scored("recall@5", scores)])
            for name, scores in (("a", [0.5] * 4), ("b", [0.5, 1.0, 1.0, 0.0]), ("c", [0.25] * 4))
        ]
        path = write_page(store, records, tmp_path / "three.html")
    page = opened(path)
    assert page.locator(".qb-quick button").all_inner_texts() == ["▲ 2 better", "▼ 1 worse", "= 1 the same"]
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Sort by").select_option(label="recall@5: B \u2212 A")
    assert row_ids(page) == ["failed", "capital", "river", "nobody"]
    page.get_by_label("Compare A with").select_option("2")
    assert row_ids(page) == ["capital", "river", "nobody", "failed"]
    expect(page.locator(".qb-quick button")).to_have_text(["▼ 4 worse"])
    page.locator(".qb-row[aria-rowindex='2']").click()
    expect(page.locator(".qb-run")).to_have_text(["A: a", "C: c"])


def test_judgements_are_shown(opened: Open, hostile: Path) -> None:
    page = opened(hostile, "#q/script")
    side = page.locator(".qb-side").first
    expect(side.locator(".qb-rationale")).to_have_text(runs.HOSTILE["script"])
    expect(side.locator(".qb-judgement").nth(0)).to_contain_text("failed: unparseable")
    expect(side.locator(".qb-judgement").nth(1)).to_contain_text("score: 3")


def test_judgements_are_readable_and_outdated_ones_marked(opened: Open, tmp_path: Path) -> None:
    claims = {
        "claims": [
            {"text": "Paris is the capital of France, and has been so for a very long time indeed.", "verdict": "yes"},
            {"text": "It is small.", "verdict": "no", "reason": "the document says otherwise"},
        ],
        "count": 2,
    }
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        result = runs.scored("recall@5", [1.0] * 4)
        record = runs.put(store, "judged", small_samples(), small_outputs("yes", "no"), [result])
        judgements = [
            StoredJudgement("recall@5", result.signature or "", 0, "now", body={"answer": claims}),
            StoredJudgement("recall@5", "recall@5|other|v1", 0, "then", body={"answer": "a word"}),
            StoredJudgement("unknown", "any", 0, "elsewhere", body={"answer": 3}),
        ]
        store.put_judgements(record.run_id, judgements)
        path = write_page(store, [record], tmp_path / "judged.html")
    page = opened(path, "#q/capital")
    judgement = page.locator(".qb-judgement").filter(has_text="count: 2")
    expect(judgement.locator(".qb-findings > li")).to_have_count(2)
    expect(judgement.locator(".qb-findings > li").nth(0)).to_contain_text("a very long time indeed.")
    expect(judgement.locator(".qb-findings > li").nth(1).locator(".qb-labels li")).to_have_text(
        ["text: It is small.", "verdict: no"]
    )
    expect(judgement.locator(".qb-rationale")).to_have_text("the document says otherwise")
    expect(judgement).not_to_contain_text("earlier definition")
    expect(page.locator(".qb-judgement").filter(has_text="a word")).to_contain_text("earlier definition")
    expect(page.locator(".qb-judgement").filter(has_text="unknown")).not_to_contain_text("earlier definition")


def test_spans_of_metrics_are_marked(opened: Open, tmp_path: Path) -> None:
    """The answer shows the spans of the first metric instead of unknown words, and those of others below."""
    answer = "👍 rain <b>gold</b> ok"
    rows = [EvaluationSample("q", "why?")]
    results = []
    for name, spans in (("recall@5", ((7, 18, 0.75),)), ("mrr", ((0, 1, 1.0), (2, 6, 0.5)))):
        result = runs.scored(name, [0.5])
        assert isinstance(result.scores, Scores)
        result.scores = replace(result.scores, keys=(AnswerSpans(tuple(MarkedSpan(*one) for one in spans)),))
        results.append(result)
    out = SystemOutputs([RetrievedDocument(Document("d", "ok"), None, 1)], Response(answer))
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        path = write_page(store, [runs.put(store, "marked", rows, [out], results)], tmp_path / "marked.html")
    page = opened(path, "#q/q")
    first = page.locator(".qb-answer").first
    expect(first).to_have_text(answer)
    expect(first.locator("mark.qb-detected")).to_have_text(["<b>gold</b>"])
    expect(first.locator("mark.qb-detected")).to_have_attribute("title", "probability 0.750")
    expect(first.locator(".qb-unsupported")).to_have_count(0)
    expect(page.locator(".qb-legend").first).to_have_text("like this: 1 span called unsupported by recall@5")
    expect(page.locator(".qb-legend").nth(1)).to_have_text("3 of 4 words in none of the documents retrieved")
    page.get_by_text("Marked by mrr").click()
    expect(page.locator(".qb-fold mark.qb-detected")).to_have_text(["👍", "rain", "like this"])


def test_labels_named_like_javascript_properties(opened: Open, tmp_path: Path) -> None:
    odd = {"constructor": "a", "toString": "b", "__proto__": "c"}
    samples = [EvaluationSample(f"q{n}", "?", labels=odd | {"hasOwnProperty": str(n % 2)}) for n in range(4)]
    outcomes = ["scored", "measure_failed:call failed: status 500: x", "measure_failed:call failed", "skipped:a:b"]
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        result = MetricResult(
            "odd", TargetCategory.RETRIEVAL_RELEVANCE, 1.0, scores=[1.0, None, None, None], outcomes=outcomes
        )
        record = runs.put(store, "odd", samples, [SystemOutputs([], Response("x"))] * 4, [result])
        path = write_page(store, [record], tmp_path / "odd.html")
    page = opened(path)
    assert row_ids(page) == ["q0", "q1", "q2", "q3"]
    page.get_by_text("Filters", exact=True).click()
    add_condition(page, "label.hasOwnProperty", "=", "1")
    assert row_ids(page) == ["q1", "q3"]
    page.get_by_role("button", name="Clear filters").click()
    add_condition(page, "odd", "=", "failed:call failed: status 500: x")
    assert row_ids(page) == ["q1"]
    refused = opened(path, "#f/where=odd%3Dconstructor")
    expect(refused.get_by_role("alert")).to_contain_text("'constructor' should be a number")


def test_browser_inside_the_report(opened: Open, tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        path = write_report(small_runs(store), tmp_path / "report.html", store=store)
    page = opened(path, "#q/river")
    expect(page.locator(".qb-queryid")).to_have_text("river")
    expect(page.locator("#overview")).to_be_hidden()
    page.evaluate("location.hash = '#s/scores'")
    expect(page.locator("#overview")).to_be_visible()
    expect(page.locator(".qb-list")).to_be_visible()
    page = opened(path, viewport=PHONE, color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_list_of_three_thousand_queries_is_virtual(opened: Open, tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        records = runs.many_runs(store, 3_000, 200, words=20)
        path = write_page(store, records, tmp_path / "many.html")
    page = opened(path)
    expect(page.locator(".qb-count")).to_have_text("3,000 queries")
    count = "document.querySelectorAll('#queries *').length"
    nodes, rows = page.evaluate(count), page.locator(".qb-canvas .qb-row").count()
    assert rows <= 40
    page.locator("[role=grid]").focus()
    page.keyboard.press("End")
    expect(page.locator(".qb-row.qb-active .qb-id")).to_have_text("q02999")
    assert len(row_ids(page)) >= 10
    page.get_by_role("searchbox").fill("q0299")
    expect(page.locator(".qb-count")).to_have_text("10 of 3,000 queries")
    page.get_by_role("searchbox").fill("")
    page.get_by_label("Sort by").select_option(label="token_f1")
    expect(page.locator(".qb-count")).to_have_text("3,000 queries")
    assert page.locator(".qb-canvas .qb-row").count() <= rows + 2
    assert page.evaluate(count) <= nodes + 100
    page.locator(".qb-row.qb-active").click()
    expect(page.locator(".qb-side .qb-doc")).to_have_count(10)
    assert re.match(r"\d[\d,]* of 3,000", page.locator(".qb-position").inner_text())
