"""The review page, sets of samples and queues from the list of queries: over HTTP, and with the keyboard in a browser."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from auepora_eval import Document, EvaluationSample, Response, SystemOutputs
from auepora_eval.core.scores import Score
from auepora_eval.io.labels import read_labels
from auepora_eval.io.sample_sets import load_sample_set
from auepora_eval.labels.batch import LabelBatch
from auepora_eval.labels.batch_plans import BatchOptions, create_batch, find_batch
from auepora_eval.store.runs import RunStore
from auepora_eval.ui.batch_planners import plan_batch
from helpers.browser_runs import document, put, scored
from helpers.ui_server import UiServer, ui_server, wait_until_filled, workbench_page

HOSTILE = "<script>alert(1)</script>\u202e"
SAMPLES = [
    EvaluationSample(f"q{n}{HOSTILE * (n == 1)}", f"Question {n}? {HOSTILE}", [Document("gold")]) for n in range(6)
]
CORRECTNESS: list[float | Score] = [1.0, 0.0, Score.fail("judge_unparseable"), Score.fail("judge_timeout"), 1.0, 1.0]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunStore]:
    outputs = [SystemOutputs([document("d1")], Response(f"Answer {n} {HOSTILE}")) for n in range(5)]
    outputs.append(SystemOutputs([], error="TimeoutError: late"))
    with RunStore.open(tmp_path_factory.mktemp("review") / "runs.sqlite") as opened:
        results = [scored("token_f1", CORRECTNESS), scored("judged@2", [1.0, 0.5, 0.0, 0.0, 1.0, 0.0])]
        put(opened, f"run {HOSTILE}", SAMPLES, outputs, results)
        yield opened


@pytest.fixture(scope="module")
def server(store: RunStore) -> Iterator[UiServer]:
    with ui_server(store) as server:
        yield server


@pytest.fixture(scope="module")
def run_id(store: RunStore) -> str:
    return store.find("latest").run_id


def closed_batch(server: UiServer, run_id: str, *samples: str) -> LabelBatch:
    """A closed batch in which one annotator finds all answers wrong."""
    options = BatchOptions("review", (run_id,), f"batch {HOSTILE}", metric="token_f1", samples=samples)
    batch = create_batch(server.workbench.labels, plan_batch(server.workbench.store, options))
    queue = server.workbench.queue(batch.id)
    for number in range(1, len(samples) + 1):
        queue.submit("ann", number, ["wrong"], comment=f"no {HOSTILE}", submission=f"{batch.id}-{number}")
    return batch


def test_labels_without_a_judge_disagree_with_nothing(server: UiServer, run_id: str) -> None:
    options = BatchOptions("review", (run_id,), "no metric", samples=("q0",))
    batch = create_batch(server.workbench.labels, plan_batch(server.workbench.store, options))
    server.workbench.queue(batch.id).close("eve")
    assert "no metric" not in server.get(f"/review/disagreements?run={run_id}").text


def test_the_page_lists_what_needs_a_person_and_its_counts_are_links(server: UiServer, run_id: str) -> None:
    page = server.get(f"/review?run={run_id}")
    assert (page.status, "<script>alert" in page.text) == (200, False)
    for title in ("judge unparseable", "judge timeout", "judged@2 below 0.5", "judged@2 below 1"):
        assert title in page.text
    assert re.findall(r'aria-current="true"><bdi>([^<]*)', page.text) == ["token_f1: judge timeout"]  # the first list
    assert "1 of 6 queries" in page.text
    assert page.text.count("data-row ") == 1
    (link,) = re.findall(r'href="(/review[^"]*judged%402%3C0\.5[^"]*)"', page.text)
    listed = server.get(link.replace("&amp;", "&")).text
    assert "3 of 6 queries" in listed
    (link,) = re.findall(r'href="(/query\?[^"]*judged%402%3C0\.5[^"]*)">Grade', listed)
    graded = server.get(link.replace("&amp;", "&"))
    assert (graded.status, "Question 2?" in graded.text) == (200, True)  # the first with the fewest judged documents
    other = server.get(f"/review?run={run_id}&where=id=q0").text
    assert ("1 of 6 queries" in other, "Open as queue" in other.partition("query-list")[0]) == (True, False)
    assert server.get("/review").status == 400
    assert server.get("/review?run=gone").status == 404


def test_a_filter_becomes_a_set_once(server: UiServer, run_id: str) -> None:
    fields = {"run": run_id, "where": "token_f1<0.5", "name": "wrong", "reason": HOSTILE, "by": "Ann"}
    saved = server.post("/sets", fields)
    assert (saved.status, saved.headers["location"]) == (303, f"/queries?run={run_id}&where=set%3Dwrong")
    assert "1 of 6 queries" in server.get(saved.headers["location"]).text
    found = load_sample_set(server.workbench.labels, "wrong")
    assert (found.ids, found.runs, found.reason) == ((SAMPLES[1].sample_id,), (run_id,), HOSTILE)
    assert server.post("/sets", fields).status == 409
    for changes, part in (
        ({"name": "../x"}, "cannot be called"),
        ({"name": "x", "where": "id=gone"}, "no sample to save"),
        ({"name": "x", "where": "oops"}, "not a condition"),
        ({"name": "x", "where": "set=gone"}, "no set of samples"),
        ({"name": "x", "reason": "r" * 2001}, "at most 2,000"),
    ):
        reply = server.post("/sets", fields | changes)
        assert (reply.status, part in reply.text) == (400, True), changes
    assert server.request("POST", "/sets", body="", headers={"cookie": server.cookie}).status == 403
    page = server.get(f"/review?run={run_id}")
    assert "this run" in page.text
    assert "<script>alert" not in page.text
    assert server.get(f"/queries?run={run_id}&where=set%3D/etc/hostname").status == 400


def test_a_filter_becomes_a_queue_of_picked_samples(server: UiServer, run_id: str) -> None:
    reply = server.post("/review/queue", {"run": run_id, "where": "token_f1=measure-failed", "metric": "token_f1"})
    assert reply.status == 303
    batch = find_batch(server.workbench.labels, reply.headers["location"].removeprefix("/batches/"))
    assert (batch.purpose, sorted(one.sample_id for one in batch.items), batch.metric) == (
        "review",
        ["q2", "q3"],
        "token_f1",
    )
    assert server.get(reply.headers["location"]).status == 200
    nothing = server.post("/review/queue", {"run": run_id, "where": "answer=failed"})
    assert (nothing.status, "no query of the filter has an answer" in nothing.text) == (400, True)


def test_a_disagreement_becomes_an_example_after_the_batch_is_closed(server: UiServer, run_id: str) -> None:
    batch = closed_batch(server, run_id, "q0", SAMPLES[1].sample_id, "q4")
    fields = {"run": run_id, "batch": batch.id, "sample": "q0"}
    address = f"/review/disagreements?run={run_id}"
    assert "Use as example" not in server.get(address).text  # open: an annotator must not see what the judge gave
    assert server.post("/review/example", fields).status == 409
    server.workbench.queue(batch.id).close("eve")
    shown = server.get(address).text
    assert shown.count(">Use as example<") == 2  # q0 and q4: the judge found them right, the annotator did not
    assert "<script>alert" not in shown
    assert server.post("/review/example", fields).status == 303
    assert {one.sample_id for one in read_labels(batch.journal) if one.tuning} == {"q0"}
    assert server.get(address).text.count(">Use as example<") == 1
    assert server.post("/review/example", fields).status == 409
    assert server.post("/review/example", fields | {"batch": "gone"}).status == 404
    options = BatchOptions("calibrate", (run_id,), "drawn", metric="token_f1", n=4)
    drawn = create_batch(server.workbench.labels, plan_batch(server.workbench.store, options))
    queue = server.workbench.queue(drawn.id)
    for number in range(1, 5):
        queue.submit("ann", number, ["wrong"], submission=f"{drawn.id}-{number}")
    queue.close("eve")
    assert "The batch then has no results any more" in server.get(address).text


@pytest.mark.part("chromium")
def test_saving_and_opening_with_the_keyboard(browser: Any, server: UiServer, run_id: str) -> None:
    with workbench_page(browser, server, f"/queries?run={run_id}&where=token_f1%3E0.5") as page:
        page.get_by_text("Save or label…").focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.keyboard.type("right")
        page.keyboard.press("Enter")
        page.wait_for_url("**where=set%3Dright")
        wait_until_filled(page)
        assert page.get_by_text("set=right").is_visible()
        page.get_by_role("link", name="Review").click()
        page.get_by_role("link", name="judge unparseable").press("Enter")
        page.wait_for_url("**judge_unparseable*")
        wait_until_filled(page)
        for key in "je":
            page.keyboard.press(key)
        page.locator(".opened .document-card").wait_for()
        page.locator(".query-list .clear-all").press("Enter")
        page.locator(".heading-row .query-total").get_by_text("6 queries", exact=True).wait_for()
        assert page.locator(".review-lists [aria-current], [data-chosen]:visible").count() == 0
        page.get_by_role("link", name="judge timeout").press("Enter")
        page.wait_for_url("**judge_timeout*")
        wait_until_filled(page)
        page.locator(".heading-row").get_by_role("button", name="Open as queue").press("Enter")
        page.wait_for_url("**/batches/*")
        assert "judge timeout" in page.locator("h1").inner_text()
