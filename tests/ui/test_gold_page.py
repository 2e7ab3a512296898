"""Corrections of gold in the workbench: proposals from a query page, marks, effect on all runs, application."""

import re
import threading
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, evaluate
from auepora_eval.store.records import RunRecord, StoredOutput
from auepora_eval.store.runs import RunStore
from auepora_eval.ui.gold_page import document_key
from helpers.ui_server import Reply, UiServer, ui_server, workbench_page

METRICS = ("recall@2", "precision@2", "exact_match")
ODD = '<script>alert(1)</script>\u202e"\r\n\x01/&'
"""An id with markup, a bidirectional character, line breaks, a control character and characters of addresses."""
SAMPLES = [
    EvaluationSample("q 1", "Who built it?", relevant_docs=[Document("a")], reference_answer=Response("Babbage")),
    EvaluationSample("q2", "When?", relevant_docs=[Document("b")], reference_answer=Response("In 1842")),
]
RANKINGS = {"first": ("a", "c"), "second": ("c", ODD)}


def put_run(store: RunStore, name: str) -> RunRecord:
    documents = [RetrievedDocument(Document(one, f"Text of {number}."), 1 / number, number)
                 for number, one in enumerate(RANKINGS[name], 1)]  # fmt: skip
    outputs = [SystemOutputs(documents, Response(text)) for text in ("Babbage", "In 1843")]
    record = store.create_run(name, SAMPLES, dataset_name="engine", plan={"metrics": list(METRICS)})
    rows = [StoredOutput(place, 0, SAMPLES[place].sample_id, one) for place, one in enumerate(outputs)]
    store.append(record.run_id, rows)
    store.put_results(record.run_id, list(evaluate(SAMPLES, outputs, METRICS)))
    store.finish(record.run_id)
    return store.get(record.run_id)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[UiServer]:
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        for name in RANKINGS:
            put_run(store, name)
        with ui_server(store) as server:
            yield server


def runs(server: UiServer) -> dict[str, RunRecord]:
    return {one.name: one for one in server.workbench.store.runs()}


def address(server: UiServer, path: str, sample: str = "q 1", *, run: str = "second", **more: Any) -> str:
    parameters = {"run": runs(server)[run].run_id, "id": sample, **more}
    return f"{path}?{urlencode(parameters, doseq=True)}"


def propose(server: UiServer, sample: str = "q 1", **fields: Any) -> Reply:
    return server.post(address(server, "/gold/propose", sample), {"by": "ann", **fields})


def text_of(reply: Reply) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", reply.text)))


def value(server: UiServer, run: str, metric: str) -> float:
    return server.workbench.store.result(runs(server)[run].run_id, metric).value


# --- forms and pages ---------------------------------------------------------------------------------------------------


def test_a_grade_is_a_proposal_with_provenance_that_the_query_page_marks(server: UiServer) -> None:
    back = address(server, "/query")
    key = document_key("c")
    reply = propose(server, kind="grade", document=key, grade="2", back=back)
    assert (reply.status, reply.headers["location"]) == (303, back)
    (proposal,) = server.workbench.corrections.proposals()
    correction = proposal.correction
    assert (correction.sample_id, correction.doc_id, correction.before, correction.after) == ("q 1", "c", None, 2)
    assert (correction.by, correction.run) == ("ann", runs(server)["second"].run_id)
    page = server.get(address(server, "/query", run="first"))  # another run of the dataset
    assert re.search(
        r'data-document="c">.*?data-marks><span class="pill open">.*?proposed: grade 2', page.text, re.DOTALL
    )
    assert "1 correction proposed." in text_of(page)
    assert "not judged → becomes grade 2" in text_of(page)
    assert "proposed: grade 2" not in server.get(address(server, "/query", "q2")).text
    propose(server, kind="grade", document=key, grade="3")  # another key: replaces the proposal of the same person
    states = [(one.correction.after, one.state) for one in server.workbench.corrections.proposals()]
    assert states == [(2, "withdrawn"), (3, "open")]
    assert value(server, "second", "recall@2") == 0  # a proposal changes no number
    propose(server, kind="grade", document=key, grade="0", by="bob")
    effect = server.get("/gold/effect?" + urlencode([("proposal", one.correction.id) for one in
                        server.workbench.corrections.proposals(state="open")]))  # fmt: skip
    assert (effect.status, "change the same gold of sample 'q 1'; withdraw one of them" in text_of(effect)) == (
        409,
        True,
    )


def test_the_effect_is_shown_before_corrections_are_applied_and_old_numbers_are_kept(server: UiServer) -> None:
    propose(server, kind="grade", document=document_key("c"), grade="1")
    propose(server, "q2", kind="references", reference=["In 1843", ""], why="misprint <b>")
    proposals = server.workbench.corrections.proposals()
    listed = server.get("/gold")
    assert "misprint &lt;b&gt;" in listed.text
    effect = re.search(r'data-fragment="(/gold/effect[^"]*)"', listed.text)
    assert effect is not None
    shown = server.get(unescape(effect[1]))
    text = text_of(shown)
    assert "Apply these 2 corrections to 2 runs" in text
    # recall@2 of q 1 in the second run: c is now one of two gold documents; the mean over two samples is 1/4
    assert re.search(r"second.*recall@2 0\.0000 0\.2500 \+0\.2500 1 ", text), text
    assert re.search(r"exact_match 0\.5000 1\.0000 \+0\.5000 1 ", text), text
    assert value(server, "second", "recall@2") == 0
    fields = {"proposal": [one.correction.id for one in proposals], "dataset": proposals[0].correction.fingerprint}
    assert server.post("/gold/apply", {**fields, "by": "bob"}).status == 303
    wait_for_task(server)
    assert value(server, "second", "recall@2") == 1 / 4
    store, run_id = server.workbench.store, runs(server)["second"].run_id
    kept = [one.value for one in store.results(run_id, every_signature=True) if one.name == "recall@2"]
    assert sorted(kept) == [0, 1 / 4]
    listed = server.get("/gold")
    assert "2 of 2 runs scored with the corrected gold" in text_of(listed)
    assert "In 1843</textarea>" in server.get(address(server, "/gold/propose", "q2")).text, "the gold in force"
    page = text_of(server.get(address(server, "/query")))
    assert "1 correction applied." in page
    assert "0.50 0.00 with the old gold" in page  # recall@2 of the sample
    applied = text_of(server.get(f"/gold/applied?dataset={fields['dataset']}&fragment=1"))
    assert "recall@2 0.0000 0.2500 +0.2500" in applied
    stale = server.post("/gold/withdraw", {"proposal": fields["proposal"][0], "state": "open"})
    assert (stale.status, "applied meanwhile" in text_of(stale)) == (409, True)
    assert server.post("/gold/withdraw", {"proposal": fields["proposal"][0], "state": "accepted"}).status == 303
    wait_for_task(server)
    assert (value(server, "second", "recall@2"), value(server, "second", "exact_match")) == (0, 1)
    # A server that ends between the acceptance and the last run: the rest is offered again.
    propose(server, kind="grade", document=document_key("c"), grade="1")
    (again,) = server.workbench.corrections.proposals(state="open")
    server.workbench.corrections.accept([again.correction.id], by="bob")
    rest = server.get(f"/gold/effect?dataset={fields['dataset']}&fragment=1")
    assert "Score 2 runs with the applied corrections" in text_of(rest)
    assert server.post("/gold/apply", {"dataset": fields["dataset"]}).status == 303
    wait_for_task(server)
    assert value(server, "second", "recall@2") == 1 / 4
    # The same after the withdrawal of all of them.
    in_force = server.workbench.corrections.proposals(state="accepted")
    server.workbench.corrections.withdraw([one.correction.id for one in in_force], by="bob")
    effect = re.search(r'data-fragment="(/gold/effect[^"]*)"', server.get("/gold").text)
    assert effect is not None
    assert "Restore the numbers of 2 runs without corrections" in text_of(server.get(unescape(effect[1])))
    assert server.post("/gold/apply", {"dataset": fields["dataset"]}).status == 303
    wait_for_task(server)
    assert (value(server, "second", "recall@2"), value(server, "second", "exact_match")) == (0, 1 / 2)


def wait_for_task(server: UiServer) -> None:
    for thread in threading.enumerate():
        if thread.name == "corrections":
            thread.join(120)
    assert "data-active" not in server.get("/gold/task").text


def test_hostile_texts_are_escaped_and_stored_as_they_are(server: UiServer) -> None:
    reply = propose(server, kind="grade", document=document_key(ODD), grade="1", why=ODD * 20, by=ODD)
    assert reply.status == 303, text_of(reply)
    for path in (address(server, "/query"), address(server, "/gold/propose"), "/gold"):
        page = server.get(path)
        assert page.status == 200
        assert "<script>alert" not in page.text
        assert "\u202e" not in page.text
    assert server.workbench.corrections.proposals()[0].correction.doc_id == ODD


def test_a_damaged_file_is_named_and_the_query_stays_readable(server: UiServer) -> None:
    propose(server, kind="grade", document=document_key("c"), grade="1")
    path = server.workbench.labels / "corrections.jsonl"
    path.write_text(path.read_text() + '{"event": "riddle"}\n')
    page = server.get(address(server, "/query"))
    assert (page.status, "corrections.jsonl:3" in page.text, "Who built it?" in page.text) == (200, True, True)
    for reply in (server.get("/gold"), propose(server, kind="grade", document=document_key("c"), grade="2")):
        assert (reply.status >= 400, "corrections.jsonl:3" in reply.text) == (True, True)


ERRORS = [  # method, path, fields, status, message
    ("POST", "/gold/propose?run=A&id=q2", {"kind": "grade", "document": "c", "grade": "9"}, 400, "grade must be one of 0, 1, 2, 3, not '9'"),
    ("POST", "/gold/propose?run=A&id=q2", {"kind": "grade", "grade": "1"}, 400, "document"),
    ("POST", "/gold/propose?run=A&id=q2", {"kind": "grade", "document": "b", "grade": "1"}, 400, "already"),
    ("POST", "/gold/propose?run=A&id=q2", {"kind": "other"}, 400, "kind must be one of grade, references, invalid, not 'other'"),
    ("POST", "/gold/propose?run=A&id=q2", {"kind": "invalid"}, 400, "why:"),
    ("POST", "/gold/propose?run=A&id=q2", {"kind": "references", "reference": " "}, 400, "reference answers"),
    ("POST", "/gold/propose?run=A&id=q2", {"kind": "invalid", "why": "x", "by": "n" * 101}, 400, "by must have 0 to 100"),
    ("POST", "/gold/propose?run=A&id=none", {"kind": "invalid", "why": "x"}, 404, "no sample 'none'"),
    ("POST", "/gold/propose?run=gone&id=q2", {"kind": "invalid", "why": "x"}, 404, "gone"),
    ("POST", "/gold/withdraw", {"proposal": "none"}, 404, "none"),
    ("POST", "/gold/apply", {"proposal": "none", "dataset": "d"}, 404, "none"),
    ("GET", "/gold/propose?run=A", {}, 400, "run, id:"),
    ("GET", "/gold/effect", {}, 400, "dataset:"),
    ("GET", "/gold/effect?proposal=none", {}, 404, "none"),
]  # fmt: skip


def test_errors_are_clear_and_write_nothing(server: UiServer) -> None:
    for method, path, fields, status, message in ERRORS:
        where = path.replace("=A", f"={runs(server)['first'].run_id}")
        reply = server.get(where) if method == "GET" else server.post(where, fields)
        assert (reply.status, message in text_of(reply)) == (status, True), (path, fields, reply.status, text_of(reply))
    assert server.post("/gold/propose", {}, **{"x-csrf-token": "other"}).status == 403
    assert server.workbench.corrections.proposals() == []
    assert not server.workbench.labels.exists()


# --- in a browser ------------------------------------------------------------------------------------------------------


@pytest.mark.part("chromium")
def test_the_effect_stands_above_the_proposals_and_what_was_decided_is_folded(server: UiServer, browser: Any) -> None:
    propose(server, kind="grade", document=document_key("c"), grade="1")
    propose(server, "q2", kind="invalid", why="No date is in the corpus.")
    proposals = server.workbench.corrections.proposals()
    server.post("/gold/withdraw", {"proposal": proposals[1].correction.id})
    for width in (1280, 390):
        with workbench_page(browser, server, "/gold", viewport={"width": width, "height": 900}) as page:
            sentence = page.get_by_text("With the selected proposal, numbers of 2 runs change.")
            sentence.wait_for()
            assert sentence.bounding_box()["y"] < page.locator("#main tbody tr").first.bounding_box()["y"] < 900
            text = page.locator(".values .two-lines")
            assert text.inner_text() == "Text of 1."
            assert not page.get_by_text("No date is in the corpus.").is_visible()
            page.get_by_text("Applied and withdrawn proposals").first.click()
            page.get_by_text("No date is in the corpus.").wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") == width


def test_other_datasets_are_tabs(server: UiServer) -> None:
    other = [EvaluationSample("q3", "Where?", relevant_docs=[Document("a")], reference_answer=Response("London"))]
    store = server.workbench.store
    record = store.create_run("third", other, dataset_name="places", plan={"metrics": list(METRICS)})
    store.append(record.run_id, [StoredOutput(0, 0, "q3", SystemOutputs([], Response("Paris")))])
    store.finish(record.run_id)
    assert "No correction is proposed" in text_of(server.get("/gold"))
    propose(server, kind="invalid", why="It is unclear.")
    path = "/gold/propose?" + urlencode({"run": record.run_id, "id": "q3"})
    server.post(path, {"kind": "invalid", "why": "Who knows.", "by": "bob"})
    first, second = server.get("/gold"), server.get(f"/gold?dataset={store.get(record.run_id).fingerprint}")
    for page, shown, hidden in ((first, "It is unclear.", "Who knows."), (second, "Who knows.", "It is unclear.")):
        assert (shown in page.text, hidden in page.text) == (True, False)
        assert len(re.findall(r'<a href="/gold\?dataset=[^"]*"', page.text)) == 2
        assert page.text.count('aria-current="true"') == 1


@pytest.mark.part("chromium")
def test_grading_and_proposing_with_the_keyboard_alone(server: UiServer, browser: Any) -> None:
    with workbench_page(browser, server, address(server, "/query")) as page:
        page.keyboard.press("n")
        assert page.locator("#document-1 summary:focus").count() == 1
        page.keyboard.press("2")
        mark = page.locator("#document-1 [data-marks]")
        mark.get_by_text("proposed: grade 2").wait_for()
        page.keyboard.press("1")  # the focus stays, so that a slip is corrected
        mark.get_by_text("proposed: grade 1").wait_for()
        assert page.locator("#proposals li").count() == 1
        page.keyboard.press("n")
        page.keyboard.press("1")
        page.locator("#document-2 [data-marks]").get_by_text("proposed: grade 1").wait_for()
        page.keyboard.press("g")
        page.locator("#kind-grade:focus").wait_for()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Tab")
        page.keyboard.press("ControlOrMeta+a")
        page.keyboard.type("Charles Babbage g 2")  # keys of the page are letters here
        page.locator("#correction-by").fill("eve")
        page.keyboard.press("Enter")
        page.locator("#proposals").get_by_text("Charles Babbage g 2").wait_for()
        assert page.locator("dialog").count() == 0
        assert "by eve" in page.locator("#proposals").inner_text()
        page.goto(server.address + "/gold")
        page.get_by_text("Apply these 3 corrections").wait_for()
        page.get_by_role("checkbox", name="Include the proposal").first.uncheck()
        page.get_by_text("Show the effect of the selected").press("Enter")
        apply = page.get_by_text("Apply these 2 corrections")
        apply.wait_for()
        apply.press("Enter")
        page.locator("#task").get_by_text("2 of 2 runs scored with the corrected gold").wait_for()
        assert page.get_by_text("1 open proposal").count() == 1


def test_gold_text_that_another_run_of_the_dataset_returned(server: UiServer) -> None:
    page = server.get(address(server, "/query", run="second"))  # only the first run returned gold document a
    assert "Text of 1." in unescape(page.text)


def test_the_address_of_a_comparison_names_its_parameters(server: UiServer) -> None:
    page = server.get("/compare?a=first&b=second")
    assert page.status == 400
    assert "the address names no run, but 'a', 'b'; write /compare?run=A&run=B" in unescape(page.text)
    assert "further parameters are primary, delta, adjust, other_dataset" in unescape(page.text)
