"""The pages of an organiser: a new batch with its forecast, progress, results at the planned looks, closing, reveal."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from html import unescape
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.io.jsonl import save_jsonl_dataset
from auepora_eval.io.labels import LabelEvent, LabelJournal, read_labels
from auepora_eval.labels.batch_plans import find_batch, new_batch_id
from auepora_eval.labels.draws import draw_path
from auepora_eval.store.runs import RunStore, decisions
from helpers.stored_runs import run, samples
from helpers.ui_server import Reply, UiServer, ui_server, workbench_page

HOSTILE = '<b>"title"</b>\u202e'
N = 40
_SUBMISSIONS = count(1)


def answer(number: int, run: str) -> str:
    text = "yes" if run == "new" or number % 4 == 0 else "no"
    return f"{text} indeed" if run == "other" else text


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunStore]:
    """Two runs over 40 questions, and one to delete. Answers of "new" are right, of "old" one in four."""
    with RunStore.open(tmp_path_factory.mktemp("batches") / "runs.sqlite") as store:
        for name in ("old", "new", "other", "gone"):
            run(store, name, samples(N), partial(answer, run=name), ["token_f1"])
        yield store


@pytest.fixture(scope="module")
def ids(store: RunStore) -> dict[str, str]:
    return {one.name: one.run_id for one in store.runs()}


@pytest.fixture(scope="module")
def server(store: RunStore) -> Iterator[UiServer]:
    with ui_server(store) as server:
        yield server


def post_batch(server: UiServer, kind: str, runs: Sequence[str], **fields: Any) -> Reply:
    common = {"purpose": kind, "run": list(runs), "metric": "token_f1", "n": 6, "id": new_batch_id(), "blind": "1"}
    return server.post("/batches/new", common | {"shown": ["documents"], "title": HOSTILE} | fields)


def new_batch(server: UiServer, purpose: str, runs: Sequence[str], **fields: Any) -> str:
    """The address of a new batch."""
    reply = post_batch(server, purpose, runs, **fields)
    assert reply.status == 303, alerts(reply)
    return reply.headers["location"]


def alerts(reply: Reply) -> list[str]:
    return [unescape(re.sub("<[^>]*>", "", one)) for one in re.findall(r'role="alert">(.*?)</p>', reply.text)]


def label(server: UiServer, address: str, annotator: str, values: Mapping[str, str], limit: int = N) -> None:
    """Label as far as the limit: ``values`` are choices by the last digit of the sample, "" for all others."""
    queue = server.workbench.queue(address.rpartition("/")[2])
    for _ in range(limit):
        number = queue.next(annotator)
        if number is None:
            return
        value = values.get(queue.batch.items[number - 1].sample_id[-1], values[""])
        queue.submit(annotator, number, [value], submission=f"submission-{next(_SUBMISSIONS)}")


# --- a new batch -----------------------------------------------------------------------------------------------------


def test_a_batch_is_created_once_from_its_form(server: UiServer, ids: dict[str, str]) -> None:
    assert "Decide between A and B" in server.get("/batches/new").text
    form = server.get(f"/batches/new?purpose=calibrate&run={ids['old']}").text
    assert f'<option value="{ids["old"]}" selected>' in form
    assert '<option value="token_f1">' in form
    fields = {"id": new_batch_id(), "annotators": "2", "instructions": "Be strict.\r\nAsk."}
    preview = post_batch(server, "calibrate", [ids["old"]], **fields, preview="1")
    assert preview.status == 200
    assert "6 of 40 answers are drawn at random" in preview.text
    assert "Be strict." in preview.text
    reply = post_batch(server, "calibrate", [ids["old"]], **fields)
    address = f"/batches/{fields['id']}"
    assert (reply.status, reply.headers["location"]) == (303, address)
    again = post_batch(server, "calibrate", [ids["old"]], **fields)
    assert again.status == 409
    assert address in alerts(again)[0]
    batch = find_batch(server.workbench.labels, fields["id"])
    assert (batch.title, batch.annotators, batch.instructions) == (HOSTILE, 2, "Be strict.\nAsk.")
    assert draw_path(batch.journal).exists()
    for page in (server.get("/batches").text, server.get(address).text):
        assert "&lt;b&gt;" in page
        assert "<b>" not in page
        assert "0 of 12" in page
    page = server.get(address).text
    assert f"auepora label {ids['old']} --n 6 --seed 0 -m token_f1 --blind" in page
    assert f"{server.address}/label/{fields['id']}?token={server.access.label_token(fields['id'])}" in page
    assert server.access.token not in page


BAD_FIELDS: dict[str, tuple[Mapping[str, Any], str]] = {
    "no integer": ({"n": "many"}, "n must be an integer, not 'many'"),
    "too many": ({"n": "0"}, "n must be 1 or more"),
    "no run": ({"run": [""]}, "this purpose needs one run"),
    "unknown run": ({"run": ["nothing"]}, "nothing"),
    "unknown metric": ({"purpose": "compare", "metric": "recal", "n": "20"}, "has no scores of 'recal'"),
    "margin": ({"purpose": "compare", "n": "20", "delta": "2"}, "delta must be above 0 and below 1"),
    "no number": ({"purpose": "compare", "n": "20", "delta": "x"}, "delta must be a number, not 'x'"),
    "other file": ({"purpose": "compare", "history": ["../runs"]}, "the folder of labels has no batch '../runs'"),
    "shown": ({"shown": ["scores"]}, "'scores' cannot be shown"),
    "scale": ({"scale": "1-x"}, "1-x"),
    "purpose": ({"purpose": "guess"}, "purpose must be one of calibrate, compare, grade, drafts, review"),
    "no drafts": ({"purpose": "drafts", "run": []}, "dataset"),
}


def test_bad_fields_are_named_and_create_nothing(server: UiServer, ids: dict[str, str]) -> None:
    before = len(list(server.workbench.labels.glob("*"))) if server.workbench.labels.exists() else 0
    found = {}
    for name, (fields, message) in BAD_FIELDS.items():
        runs = [ids["old"], ids["new"]][: 1 + (fields.get("purpose") == "compare")]
        reply = post_batch(server, "calibrate", runs, **fields)
        found[name] = (message in "".join(alerts(reply)), reply.status)
    assert found == {name: (True, 404 if name == "unknown run" else 400) for name in BAD_FIELDS}
    after = len(list(server.workbench.labels.glob("*"))) if server.workbench.labels.exists() else 0
    assert after == before
    fragment = server.get(f"/batches/forecast?purpose=calibrate&run={ids['old']}&n=x", sec_fetch_dest="empty")
    assert (fragment.status, "n must be an integer" in fragment.text) == (200, True)
    assert server.get("/batches/000000000000").status == 404
    assert server.get("/batches/..%2fruns").status == 404


def test_a_query_is_opened_as_a_review_of_its_own(server: UiServer, ids: dict[str, str]) -> None:
    fields = {"run": ids["new"], "sample": "q00007"}
    first, second = (server.post("/batches/review", fields).headers["location"] for _ in range(2))
    assert first == second
    label(server, first, "ann", {"": "right"})
    batch = find_batch(server.workbench.labels, first.rpartition("/")[2])
    assert [(one.sample_id, one.chosen, one.draw) for one in read_labels(batch.journal)] == [("q00007", True, None)]
    assert "nothing is estimated from their labels" in server.get(f"/batches/{batch.id}").text
    assert server.post("/batches/review", {"run": ids["new"], "sample": "nothing"}).status == 400


# --- progress, agreement, closing ------------------------------------------------------------------------------------


def test_progress_agreement_and_reveal(server: UiServer, ids: dict[str, str]) -> None:
    address = new_batch(server, "calibrate", [ids["old"]], annotators="2", n="12")
    batch_id = address.rpartition("/")[2]
    queue = server.workbench.queue(batch_id)
    label(server, address, "ann", {"": "wrong", "0": "right", "4": "right", "8": "right"}, limit=11)
    assert queue.next("ann") == 12
    queue.skip("ann", 12, "<i>unclear</i>", submission="skip-1-of-batch")
    assert queue.next("ann") is None
    assert "Agreement of annotators" not in server.get(address).text
    assert "two annotators have labelled all items" in server.get(f"{address}/agreement").text
    label(server, address, "bob <i>", {"": "wrong"})
    page, part = server.get(address).text, server.get(f"{address}/agreement").text
    assert "&lt;i&gt;unclear&lt;/i&gt;" in page
    assert "<i>" not in page
    assert f"/label/{batch_id}?adjudicate=1" in page
    assert "ann and bob &lt;i&gt;" in part
    assert "Krippendorff" in part
    different = server.get(f"{address}/items?state=different").text
    numbers = [one.number for one in queue.disagreements()]
    assert re.findall(r'<tr id="item-(\d+)">', different) == list(map(str, numbers))
    assert "q000" not in different  # not before the batch is closed
    assert "right" not in re.sub(r"(?s)<head>.*?</head>", "", different)
    assert server.get(f"{address}/items?state=lost").status == 400
    assert server.post(f"{address}/close", {"by": "eve"}).status == 400
    assert server.post(f"{address}/close", {"by": " ", "sure": "1"}).status == 400
    assert server.post(f"{address}/close", {"by": "eve", "sure": "1"}).status == 303
    assert server.post(f"{address}/close", {"by": "eve", "sure": "1"}).status == 409
    closed = server.get(address).text
    assert "Closed by eve" in closed
    assert f'action="{address}/close"' not in closed
    revealed = server.get(f"{address}/items").text
    assert len(re.findall(r'<tr id="item-\d+">', revealed)) == 12
    assert "ann, <bdi>old</bdi>" in revealed.replace("<bdi>ann</bdi>", "ann")


def test_agreement_about_documents(server: UiServer) -> None:
    record = run(server.workbench.store, "documents", samples(3), lambda n: ["a", "b"], ["recall@2"])
    address = new_batch(server, "grade", [record.run_id], annotators="2")
    for name, values in (("ann", {"": "2"}), ("bob", {"": "2", "1": "0"})):
        label(server, address, name, values)
    part = " ".join(re.sub(r"<[^>]*>", " ", server.get(f"{address}/agreement").text).split())
    assert "annotators documents agreement" in part
    assert "ann and bob 6 0.6667" in part  # four of six
    assert "This is about the labelled documents alone" in part
    assert "adjudicate" in server.get(address).text
    assert "rescore" not in server.get(address).text  # grades that differ are refused
    queue = server.workbench.queue(address.rpartition("/")[2])
    for one in queue.disagreements():
        queue.submit("eve", one.number, ["0"], submission=f"decision {one.number}", adjudicated=True)
    queue.close("eve")
    assert " ".join(results(server, address).split()) == "label items 0 2 2 4"


def test_results_wait_for_adjudication(server: UiServer, ids: dict[str, str]) -> None:
    address = new_batch(server, "calibrate", [ids["old"]], annotators="2", n="4")
    queue = server.workbench.queue(address.rpartition("/")[2])
    label(server, address, "ann", {"": "wrong"}, limit=1)
    label(server, address, "ann", {"": "right"})
    label(server, address, "bob", {"": "right"}, limit=3)
    assert "End labelling without 1 label and with 1 item to adjudicate" in server.get(address).text
    label(server, address, "bob", {"": "right"})
    page, undecided = server.get(address).text, server.get(f"{address}/items?state=undecided").text
    assert "End labelling with 1 item to adjudicate" in page
    assert "Results are shown when they are adjudicated" in page
    assert ('id="batch-results"' in page, "Agreement of annotators" in page) == (False, True)
    assert "when all items are labelled and adjudicated" in results(server, address)
    (number,) = re.findall(r'<tr id="item-(\d+)">', undecided)
    queue.submit("eve", int(number), ["wrong"], submission="adjudication-2", adjudicated=True)
    page = server.get(address).text
    assert ('id="batch-results"' in page, "Agreement of annotators" in page) == (True, False)  # it is in the results
    assert "People with each other" in results(server, address)
    graded = new_batch(server, "calibrate", [ids["old"]], annotators="2", n="4", scale="1-5")
    for name, grade in (("ann", "4"), ("bob", "5")):
        label(server, graded, name, {"": grade})
    assert 'id="batch-results"' in server.get(graded).text  # the mean of grades needs no decision
    unnamed = new_batch(server, "calibrate", [ids["old"]], metric="", n="4")
    label(server, unnamed, "ann", {"": "right"})
    chosen = server.get(f"{unnamed}?metric=token_f1").text
    assert "-m token_f1 --store" in chosen.partition('id="next-title"')[2].partition("</section>")[0]
    empty = new_batch(server, "calibrate", [ids["old"]])
    server.workbench.queue(empty.rpartition("/")[2]).close("eve")
    assert "No item has a label." in results(server, empty)


def test_results_of_drafts_are_the_decisions(server: UiServer, tmp_path: Path) -> None:
    save_jsonl_dataset(samples(4), tmp_path / "drafts.jsonl")
    fields = {"dataset": str(tmp_path / "drafts.jsonl"), "annotators": "2", "metric": ""}
    address = new_batch(server, "drafts", [], **fields)
    label(server, address, "ann", {"": "accept", "3": "reject"})
    label(server, address, "bob", {"": "accept", "2": "reject", "3": "reject"})
    queue = server.workbench.queue(address.rpartition("/")[2])
    queue.close("eve")
    counts = re.findall(r"(accepted|rejected)\s+(\d+)", results(server, address))
    assert counts == [("accepted", "2"), ("rejected", "2")]  # one of the two by half of the annotators
    assert len(queue.batch.accepted_file.read_text().splitlines()) == 2
    assert "<strong>rejected</strong>" in server.get(f"{address}/items").text


# --- results ---------------------------------------------------------------------------------------------------------


def results(server: UiServer, address: str) -> str:
    return unescape(re.sub(r"<[^>]*>", " ", server.get(f"{address}/results", sec_fetch_dest="empty").text))


def test_a_comparison_is_decided_when_it_is_closed(server: UiServer, ids: dict[str, str]) -> None:
    address = new_batch(server, "compare", [ids["old"], ids["new"]], n="20", delta="0.1")
    queue = server.workbench.queue(address.rpartition("/")[2])
    for number, entry in enumerate(queue.batch.items, start=1):
        if number in (2, 20):
            assert "Results are shown when the batch is closed" in results(server, address)
            assert 'id="batch-results"' not in server.get(address).text
        assert queue.next("ann") == number
        # Where the better answer is shown first depends on the sample, not on the run.
        better = "first" if queue._items.runs(number)[0] == ids["new"] else "second"
        value = {0: "both", 3: "neither"}.get(int(entry.sample_id[1:]) % 4, better)
        queue.submit("ann", number, [value], submission=f"submission-{next(_SUBMISSIONS)}")
    assert 'id="batch-results"' not in server.get(address).text  # a label can still be undone
    queue.close("eve")
    assert 'id="batch-results"' in server.get(address).text
    found = results(server, address)
    assert "By people, new is better than old." in found
    before = [one for one in decisions(server.workbench.store) if one.body.get("results")]
    assert server.post(f"{address}/record").json()["recorded"]
    assert server.post(f"{address}/record").json()["recorded"]
    after = [one for one in decisions(server.workbench.store) if one.body.get("results")]
    assert [one.body["verdicts"] for one in after[len(before) :]] == [{"token_f1": "better"}]
    journal = LabelJournal(queue.batch.journal)
    journal.refresh()
    journal.append(LabelEvent("tuning", journal.labels[0].key, by="eve"))
    assert "nothing is estimated" in results(server, address)  # without the example the labels are no random sample
    other = post_batch(server, "compare", [ids["old"], ids["new"]], n="30", delta="0.1")
    assert (other.status, "was designed with" in alerts(other)[0]) == (400, True)


def test_looks_wait_for_all_labels_of_their_samples(server: UiServer, ids: dict[str, str]) -> None:
    address = new_batch(server, "compare", [ids["old"], ids["other"]], n="20", looks="4", annotators="2")
    assert "--looks 4" in server.get(address).text  # at 10, 15 and 20 samples
    label(server, address, "ann", {"": "both", "3": "first"}, limit=12)
    label(server, address, "bob", {"": "both", "3": "first"}, limit=9)
    assert "Results are shown when the batch is closed" in results(server, address)
    label(server, address, "bob", {"": "neither"}, limit=1)
    label(server, address, "bob", {"": "both", "3": "first"}, limit=1)  # eleven samples have both labels
    assert "Results are shown when the batch is closed" in results(server, address)
    queue = server.workbench.queue(address.rpartition("/")[2])
    (undecided,) = queue.disagreements()
    queue.submit("eve", undecided.number, ["both"], submission="adjudication-1", adjudicated=True)
    found = results(server, address)
    assert "the next look is at 15 samples" in found
    assert "corrected" not in found  # no means between the looks
    assert len(re.findall(r"\b10\b", found)) == 1
    assert not server.post(f"{address}/record").json()["recorded"]
    server.workbench.queue(address.rpartition("/")[2]).close("eve")
    found = results(server, address)
    assert "the next look is at 15 samples. Labelling has ended before that." in " ".join(found.split())
    assert "corrected" not in found


def test_a_comparison_that_is_closed_early_shows_no_means(server: UiServer, ids: dict[str, str]) -> None:
    """Two means next to each other are a difference."""
    address = new_batch(server, "compare", [ids["new"], ids["other"]], n="10")
    label(server, address, "ann", {"": "both", "3": "first"}, limit=9)
    server.workbench.queue(address.rpartition("/")[2]).close("eve")
    found = " ".join(results(server, address).split())
    assert found == (
        "No verdict: 9 of 10 drawn samples are labelled; the verdict is given when all of them are. "
        "Labelling has ended before that. A new batch with the same options can decide."
    )
    empty = new_batch(server, "compare", [ids["new"], ids["other"]], n="10")
    server.workbench.queue(empty.rpartition("/")[2]).close("eve")
    assert results(server, empty).split() == ["No", "item", "has", "a", "label."]


def test_a_deleted_run_leaves_its_labels(server: UiServer, ids: dict[str, str]) -> None:
    address = new_batch(server, "calibrate", [ids["gone"]])
    label(server, address, "ann", {"": "wrong"})
    server.workbench.store.delete(ids["gone"])
    assert "was deleted from the store" in server.get(address).text
    assert "6 of 6" in server.get("/batches").text
    assert server.get(f"{address}/results").status == 404
    assert server.post(f"{address}/close", {"by": "eve", "sure": "1"}).status == 303
    assert "The question is not stored" in server.get(f"{address}/items").text


@pytest.mark.part("chromium")
def test_a_batch_with_the_keyboard_alone(server: UiServer, ids: dict[str, str], browser: Any) -> None:
    with workbench_page(browser, server, "/batches") as page:
        page.keyboard.press("n")
        page.get_by_role("link", name="Calibrate a judge").press("Enter")
        page.get_by_label("Run", exact=True).select_option(ids["new"])
        page.wait_for_selector('#batch-metric option[value="token_f1"]', state="attached")
        page.get_by_label("Metric", exact=True).select_option("token_f1")
        page.get_by_label("Number of samples").fill("7")
        page.get_by_text("7 of 40 answers are drawn at random.").wait_for()
        page.get_by_label("Title").fill("Keys")
        page.get_by_label("Title").press("Enter")
        page.get_by_role("heading", name="Keys").wait_for()
        address = page.evaluate("location.pathname")
        label(server, address, HOSTILE.strip("\u202e"), {"": "right"}, limit=1)
        page.get_by_text("1 of 7").first.wait_for()  # the page follows the labels
        label(server, address, "ann", {"": "right"})
        page.locator("#batch-results").wait_for()  # results have become possible: the page is loaded again
        page.get_by_text("Conclusion: token_f1 of new").wait_for()
        page.locator("#close-batch summary").press("Enter")
        page.get_by_label("Your name").fill("eve")
        page.get_by_role("checkbox").press("Space")
        page.get_by_label("Your name").press("Enter")
        page.get_by_text("Closed by eve").wait_for()
        page.wait_for_load_state("load")  # then its scripts have run
        page.keyboard.press("i")
        page.get_by_role("link", name="q000").first.wait_for()
