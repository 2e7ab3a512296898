"""The pages of annotators: forms without a script, bad input, and in the browser keys, lost answers and restarts."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.io.labels import Label, LabelJournal, read_labels
from auepora_eval.labels.batch import LabelBatch
from auepora_eval.labels.batch_plans import BatchOptions, create_batch
from auepora_eval.store.runs import RunStore
from auepora_eval.ui.batch_planners import plan_batch
from auepora_eval.ui.security import NAME_COOKIE
from helpers import stored_runs
from helpers.ui_server import Reply, UiServer, ui_server, workbench_page

HOSTILE = '<img src=x onerror=alert(1)>"\u0645\u0631'
LONG = "A very long document. " * 200


def sample(number: int) -> EvaluationSample:
    gold = [Document(f"doc-{number}", "The gold text.")]
    reference = Response(f"Reference {number}.")
    return EvaluationSample(f"q{number:05}", f"Question {number}?", relevant_docs=gold, reference_answer=reference)


def answer(number: int, system: str) -> SystemOutputs:
    documents = [Document(f"doc-{number}", LONG), Document("other", f"{HOSTILE} text.")]
    hits = [RetrievedDocument(one, 1 / rank, rank) for rank, one in enumerate(documents, 1)]
    return SystemOutputs(hits, Response(f"Answer {number} {system} {HOSTILE}"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunStore]:
    with RunStore.open(tmp_path_factory.mktemp("label") / "runs.sqlite") as store:
        for name in ("alpha", "beta", "gamma"):
            stored_runs.run(store, name, [sample(n) for n in range(12)], partial(answer, system=name[0]), ["token_f1"])
        yield store


@pytest.fixture(scope="module")
def server(store: RunStore) -> Iterator[UiServer]:
    with ui_server(store) as server:
        yield server


def new_batch(server: UiServer, *runs: str, **options: Any) -> LabelBatch:
    options = {"purpose": "calibrate", "n": 6, "runs": runs, "metric": "token_f1", "title": "secret title", **options}
    return create_batch(server.workbench.labels, plan_batch(server.workbench.store, BatchOptions(**options)))


def item_path(batch: LabelBatch, annotator: str = "ann", **parameters: Any) -> str:
    return f"/label/{batch.id}/item?{urlencode({'as': annotator, **parameters})}"


def hidden_fields(page: str, form: str = "label-form") -> dict[str, str]:
    """The hidden fields of a form, as a browser without scripts sends them."""
    content = page.partition(f'<form id="{form}"')[2].partition("</form>")[0]
    fields = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', content)
    return {name: unescape(value) for name, value in fields}


def send(server: UiServer, batch: LabelBatch, action: str, fields: Mapping[str, Any], **headers: str) -> Reply:
    return server.post(f"/label/{batch.id}/{action}", fields, **headers)


def labels_of(batch: LabelBatch) -> list[tuple[str, object, str]]:
    """Annotator, label and comment of all labels in force."""
    return [(one.annotator, one.label, one.comment) for one in read_labels(batch.journal)]


# --- forms without a script ------------------------------------------------------------------------------------------


def test_labels_skips_and_undo_by_forms_alone(server: UiServer) -> None:
    batch = new_batch(server, "alpha")
    name = f"ann {HOSTILE}"
    start = server.get(f"/label/{batch.id}?{urlencode({'as': name})}").text
    assert "0 of 6 labelled" in start
    first = server.get(item_path(batch, name)).text
    fields = hidden_fields(first)
    assert (fields["as"], fields["item"]) == (name, "1")
    for _ in range(2):  # the answer to the first request was lost
        reply = send(server, batch, "label", {**fields, "value": "right", "comment": f"why\r\n{HOSTILE}"})
        assert (reply.status, reply.headers["location"]) == (303, item_path(batch, name))
    second = server.get(reply.headers["location"]).text
    assert "Item 2 of 6" in second
    skipped = hidden_fields(second, "skip-form")
    assert "reason must have 1 to 500 characters" in send(server, batch, "skip", skipped).text
    assert send(server, batch, "skip", {**skipped, "reason": "not readable"}).status == 303
    third = hidden_fields(server.get(item_path(batch, name)).text)
    assert third["item"] == "3"
    assert labels_of(batch) == [(name, "right", f"why\n{HOSTILE}")]
    refused = send(server, batch, "undo", {**third, "comment": f"half a {HOSTILE}"})
    assert refused.status == 409
    assert "half a &lt;img src=x onerror=alert(1)&gt;&#34;\u0645\u0631</textarea>" in refused.text
    assert "Item 3 of 6" in refused.text
    for number in (2, 1):  # the skip, then the label
        assert send(server, batch, "undo", third).headers["location"] == item_path(batch, name, item=number)
    assert labels_of(batch) == []
    assert "There is nothing to undo" in send(server, batch, "undo", third).text
    pages = (start, first, second, refused.text)
    assert not any("<img" in page for page in pages)
    assert not any(word in page for page in pages for word in ("alpha", "doc-", "secret", "runs.sqlite", "q0000"))


def test_two_answers_get_two_labels_in_one_step(server: UiServer, store: RunStore) -> None:
    plain = new_batch(server, "alpha", "beta", purpose="compare", n=10)
    graded = new_batch(server, "alpha", "gamma", purpose="compare", scale="1-5", n=10)
    alpha = store.find("alpha").run_id
    for batch, values, first, second in (
        (plain, {"value": "first"}, "right", "wrong"),
        (graded, {"first": 2, "second": 5}, 2, 5),
    ):
        page = server.get(item_path(batch)).text
        assert send(server, batch, "label", {**hidden_fields(page), **values}).status == 303
        is_alpha_first = re.findall(r"Answer \d+ ([a-g])", page)[0] == "a"
        labels = {one.run == alpha: one.label for one in read_labels(batch.journal)}
        assert labels == {is_alpha_first: first, not is_alpha_first: second}
    # In a terminal the answers are labelled one by one: the label of one can be undone, or replaced with the other.
    half = Label(plain.items[1].sample_id, "right", "ann", alpha, plain.metric)
    LabelJournal(plain.journal).append(half)
    second = server.get(item_path(plain)).text
    assert re.search("<button[^>]* disabled", second) is None
    assert send(server, plain, "undo", hidden_fields(second)).headers["location"] == item_path(plain, item=2)
    LabelJournal(plain.journal).append(half)
    assert send(server, plain, "label", {**hidden_fields(second), "value": "neither"}).status == 303
    assert [one.label for one in read_labels(plain.journal) if one.sample_id == half.sample_id] == ["wrong", "wrong"]
    missing = send(server, graded, "label", {**hidden_fields(page), "item": 2, "submission": "x", "first": 4})
    assert (missing.status, "first and second: label: 2 values of 1, 2, 3, 4, 5" in missing.text) == (400, True)
    assert 'name="first" value="4" required checked' in missing.text


BAD_REQUESTS = {
    "item?as=": (400, "as: annotator: 1 to 100 characters"),
    "item": (400, "as: annotator: 1 to 100 characters"),
    f"item?as={'x' * 101}": (400, "as: annotator: 1 to 100 characters"),
    "item?as=a%00b": (400, "1 to 100 characters on one line"),
    "item?as=ann&item=0": (404, "items have numbers from 1 to 6"),
    "item?as=ann&item=7": (404, "items have numbers from 1 to 6"),
    "item?as=ann&item=x": (404, "items have numbers from 1 to 6"),
    "text?as=ann&item=1&part=answer-9": (404, "part: the item has no such text"),
    "text?as=ann&part=question": (400, "item must be a number from 1 to 6"),
    "other": (404, "There is no page"),
}
BAD_LABELS = {
    (("value", "maybe"),): (400, "value: label: one value of right, wrong expected"),
    (("submission", ""),): (400, "submission must have 1 to 100 characters"),
    (("comment", "x" * 10_001),): (400, "comment must have 0 to 10,000 characters, not 10,001"),
    (("item", ""),): (400, "item must be a number from 1 to 6"),
    (("as", ""),): (400, "as: annotator: 1 to 100"),
    (): (200, "Saved: Right"),
    (("value", "wrong"),): (409, "saved before, with another content"),
    (("submission", "again"),): (409, "labelled it already"),
}


def test_bad_requests_name_the_parameter_and_save_nothing(server: UiServer) -> None:
    batch = new_batch(server, "alpha")
    for path, (status, message) in BAD_REQUESTS.items():
        reply = server.get(f"/label/{batch.id}/{path}")
        assert (reply.status, message in unescape(reply.text)) == (status, True), path
    fields = {"as": "ann", "item": "1", "value": "right", "submission": "one", "comment": ""}
    for change, (status, message) in BAD_LABELS.items():
        reply = send(server, batch, "label", fields | dict(change), accept="application/json")
        assert (reply.status, message in reply.text) == (status, True), (change, reply.text)
    assert labels_of(batch) == [("ann", "right", "")]
    for unknown in ("/label/0", f"/label/{'0' * 12}/item?as=ann"):
        reply = server.get(unknown)
        assert (reply.status, "there is no batch of labels" in reply.text) == (404, True)
    assert send(server, batch, "close", {"as": "ann"}).status == 404


def test_long_texts_are_cut_and_shown_whole_on_request(server: UiServer) -> None:
    batch = new_batch(server, "alpha", shown=("documents", "reference"))
    page = server.get(item_path(batch)).text
    address = f"/label/{batch.id}/text?as=ann&item=1&part=document-1"
    assert f"Show all {len(LONG):,} characters" in page
    assert address in unescape(page)
    assert LONG in server.get(f"{address}&fragment=1").text
    assert f'<a href="{item_path(batch, item=1)}">Back to the item' in unescape(server.get(address).text)
    assert "Reference " in page


def test_a_closed_batch_a_damaged_file_and_a_deleted_run(server: UiServer, store: RunStore, caplog: Any) -> None:
    closed, damaged = new_batch(server, "alpha"), new_batch(server, "alpha")
    server.workbench.queue(closed.id).close("the organiser")
    fields = {"as": "ann", "item": "1", "value": "right", "submission": "one"}
    for action in ("label", "undo", "renew"):
        reply = send(server, closed, action, fields)
        assert (reply.status, "This batch is closed" in reply.text, "labelling is closed" in reply.text) == (
            409,
            True,
            True,
        )
    assert "closed" in server.get(f"/label/{closed.id}?as=ann").text
    send(server, damaged, "label", fields)
    content = damaged.journal.read_text()
    damaged.journal.write_text(content + '{"sample_id": 7}\n')
    for reply in (
        send(server, damaged, "label", fields | {"item": "2", "submission": "two"}),
        server.get(item_path(damaged)),
    ):
        assert (reply.status, damaged.name in reply.text) == (503, False)
    assert damaged.name in caplog.text
    damaged.journal.write_text(content)
    assert server.get(item_path(damaged)).status == 200
    run = stored_runs.run(store, "short-lived", [sample(n) for n in range(6)], lambda n: answer(n, "d"), ["token_f1"])
    batch = new_batch(server, run.run_id)
    page = server.get(item_path(batch)).text
    store.delete(run.run_id)
    assert send(server, batch, "label", {**hidden_fields(page), "value": "wrong"}).status == 303
    reply = server.get(item_path(batch))
    assert (reply.status, "deleted from the store" in reply.text, "short-lived" in reply.text) == (404, True, False)
    assert labels_of(batch) == [("ann", "wrong", "")]


def test_the_end_and_disagreements(server: UiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = new_batch(server, "alpha", n=2, annotators=2)
    for name, values in {"ann": ("right", "right"), "bob": ("right", "wrong")}.items():
        for item, value in enumerate(values, start=1):
            fields = {"as": name, "item": item, "value": value, "submission": f"{name}{item}", "comment": f"of {name}"}
            assert send(server, batch, "label", fields).status == 303
    done = server.get(item_path(batch, "ann")).text
    assert "2 of 2 labelled" in done
    assert "nothing left for you" in done
    assert "nothing left for you" in server.get(item_path(batch, "eve")).text
    monkeypatch.setattr(server, "name_secret", "another browser")
    assert "labelled 1 item differently; 0 of them are decided" in server.get(f"/label/{batch.id}?adjudicate=1").text
    disputed = server.get(item_path(batch, "fay", adjudicate=1)).text
    assert "0 of 1 decided" in disputed
    assert re.findall(r"<h2>Label of (.*?)</h2>.*?<strong>(.*?)</strong>", disputed) == [
        ("annotator 1", "Right"),
        ("annotator 2", "Wrong"),
    ]
    assert send(server, batch, "label", {**hidden_fields(disputed), "value": "wrong"}).status == 303
    assert "nothing left" in server.get(item_path(batch, "fay", adjudicate=1)).text
    assert [one.annotator for one in read_labels(batch.journal) if one.adjudicated] == ["fay"]


# --- in the browser --------------------------------------------------------------------------------------------------


def wait_for_item(page: Any, number: int) -> None:
    page.wait_for_selector(f"#label-item[data-item='{number}']")


@pytest.mark.slow
def test_labels_by_keyboard_alone(browser: Any, server: UiServer) -> None:
    batch = new_batch(server, "alpha", shown=("documents", "reference"), n=3)
    with workbench_page(browser, server, f"/label/{batch.id}") as page:
        page.get_by_label("Your name").focus()
        page.keyboard.type("ann")
        page.keyboard.press("Enter")
        wait_for_item(page, 1)
        page.keyboard.press("a")
        page.get_by_text("Reference ").last.wait_for()
        page.keyboard.press("c")
        page.keyboard.type("right with a wink")  # letters in a field are no shortcuts
        page.keyboard.press("Escape")
        page.keyboard.press("r")
        wait_for_item(page, 2)
        assert "Saved: Right" in page.locator("#label-status").inner_text()
        assert page.evaluate("document.activeElement.id") == "label-heading"
        page.keyboard.press("c")
        page.keyboard.type("not sent yet")
        page.keyboard.press("Escape")
        page.keyboard.press("u")  # both comments stay: the one of the label, and the one that was not sent
        wait_for_item(page, 1)
        assert page.get_by_label("Comment, saved with the label").input_value() == "right with a wink"
        page.keyboard.press("w")
        wait_for_item(page, 2)
        assert page.get_by_label("Comment, saved with the label").input_value() == "not sent yet"
        page.keyboard.press("s")
        page.keyboard.type("no text")
        page.keyboard.press("Enter")
        wait_for_item(page, 3)
        page.keyboard.press("r")
        page.get_by_text("nothing left for you").wait_for()
        page.get_by_role("link", name="Item 2").press("Enter")
        wait_for_item(page, 2)
        assert page.get_by_label("Comment, saved with the label").input_value() == "not sent yet"
    assert labels_of(batch) == [("ann", "wrong", "right with a wink"), ("ann", "right", "")]


@pytest.mark.slow
def test_documents_have_two_lines_and_instructions_fold_after_the_first_item(browser: Any, server: UiServer) -> None:
    batch = new_batch(server, "alpha", shown=("documents",), n=3)
    with workbench_page(browser, server, item_path(batch)) as page:
        guide, document = page.locator("#label-guide"), page.locator(".label-documents details").first
        assert guide.evaluate("one => one.open")
        low = document.bounding_box()["height"]
        assert low < 90
        document.locator("summary").press("Enter")
        assert document.bounding_box()["height"] > 3 * low
        page.locator("h1").click()
        page.keyboard.press("e")  # opens those that are folded, too
        assert page.locator(".label-documents details[open]").count() == 2
        page.keyboard.press("e")
        assert page.locator(".label-documents details[open]").count() == 0
        bar = page.locator(".label-bar").bounding_box()
        assert bar["height"] < 80  # choices and tools in one row
        assert bar["y"] + bar["height"] == pytest.approx(900, abs=2)
        page.keyboard.press("x")
        wait_for_item(page, 2)
        assert not guide.evaluate("one => one.open")
        guide.locator("summary").click()
        page.keyboard.press("r")
        wait_for_item(page, 3)
        assert guide.evaluate("one => one.open")  # whoever opens them keeps them


@pytest.mark.slow
def test_a_label_survives_a_lost_answer_a_lost_connection_and_a_restart(browser: Any, server: UiServer) -> None:
    batch = new_batch(server, "alpha")
    expected = ("ERR_FAILED", "ERR_INTERNET_DISCONNECTED", "status of 403", "status of 409")
    with workbench_page(browser, server, item_path(batch), expected=expected) as page:
        problem = page.locator("#label-problem")

        def lose_answer(route: Any) -> None:
            route.fetch()
            route.abort()

        page.route("**/label", lose_answer, times=1)
        page.keyboard.press("r")
        problem.get_by_text("connection to the server is lost").wait_for()
        assert page.locator(".choice[aria-pressed=true]").inner_text().split() == ["r", "Right"]
        problem.get_by_role("button", name="Try now").click()
        wait_for_item(page, 2)
        page.context.set_offline(True)
        page.keyboard.press("w")
        problem.get_by_text("connection to the server is lost").wait_for()
        page.keyboard.press("r")  # the label is on its way: another one is not possible
        page.context.set_offline(False)
        problem.get_by_role("button", name="Try now").click()
        wait_for_item(page, 3)
        server.change_secrets()
        page.keyboard.press("r")
        problem.get_by_text("The server was started again").wait_for()
        other = page.context.new_page()
        other.goto(f"{server.address}/label/{batch.id}?token={server.access.token}")
        other.close()
        wait_for_item(page, 4)
        server.__dict__.update(vars(UiServer(server.workbench, server.access)))  # signs in again
        server.name_secret = next(one["value"] for one in page.context.cookies() if one["name"] == NAME_COOKIE)
        sent = {"as": "ann", "item": 4, "value": "wrong", "submission": "another tab"}
        assert send(server, batch, "label", sent).status == 303
        page.keyboard.press("r")
        problem.get_by_text("labelled it already").wait_for()
        page.keyboard.press("Enter")  # "Next item" has the focus
        wait_for_item(page, 5)
    assert [one[1] for one in labels_of(batch)] == ["right", "wrong", "right", "wrong"]


@pytest.mark.slow
def test_two_grades_by_keys(browser: Any, server: UiServer) -> None:
    batch = new_batch(server, "beta", "gamma", purpose="compare", scale="1-5", n=10)
    with workbench_page(browser, server, item_path(batch)) as page:
        page.keyboard.press("3")
        assert page.locator("fieldset[data-active] legend").inner_text() == "Second answer"
        page.keyboard.press("4")
        wait_for_item(page, 2)
    assert sorted(str(one[1]) for one in labels_of(batch)) == ["3", "4"]
