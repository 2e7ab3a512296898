"""Labelling in the workbench as a whole: two annotators, blind comparison, killed servers, and one afternoon of work."""

import html
import io
import json
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.core.dataset import InMemoryDataset
from auepora_eval.engine.evaluate import evaluate
from auepora_eval.io.jsonl import save_jsonl_dataset
from auepora_eval.io.labels import read_labels
from auepora_eval.labels.batch import LabelBatch
from auepora_eval.labels.batch_plans import BatchOptions, create_batch, find_batch
from auepora_eval.labels.queue import LabelQueue
from auepora_eval.runs.run import run_system
from auepora_eval.store.records import StoredOutput
from auepora_eval.store.runs import RunStore
from auepora_eval.ui.batch_planners import plan_batch
from helpers import fault_server, judge_server, stored_runs
from helpers.accessibility import load_all
from helpers.requirements import need
from helpers.ui_server import Reply, UiClient, UiProcess, UiServer, ui_server, workbench_page

pytestmark = pytest.mark.slow

Cli = Callable[..., tuple[int, str, str]]


def new_batch(store: RunStore, folder: Path, **options: Any) -> LabelBatch:
    """A batch in the labels folder of the test."""
    return create_batch(folder, plan_batch(store, BatchOptions(**options)))


def answered_run(store: RunStore, name: str, count: int, answers: Callable[[int], str]) -> str:
    """A run with these answers, stored in one piece; its id."""
    dataset = stored_runs.samples(count)
    record = store.create_run(name, dataset, dataset_name="made", plan={"metrics": ["containment"]})
    rows = [
        StoredOutput(number, 0, sample.sample_id, SystemOutputs([], Response(answers(number))))
        for number, sample in enumerate(dataset)
    ]
    store.append(record.run_id, rows)
    store.put_results(record.run_id, evaluate(dataset, [row.output for row in rows], ["containment"]))
    store.finish(record.run_id)
    return record.run_id


def item_path(batch: LabelBatch, annotator: str, **parameters: Any) -> str:
    return f"/label/{batch.id}/item?{urlencode({'as': annotator, **parameters})}"


# --- a thousand labels, and a server that is killed ------------------------------------------------------------------

KILLS = 3
ITEMS = 100
NAMES = ("ann", "bob", "cem", "dee", "eve")
"""Each of the two clients labels under these names, every item once under each: 1,000 labels in all."""
CHOICES = {"first": ("right", "wrong"), "second": ("wrong", "right"), "both": ("right",) * 2, "neither": ("wrong",) * 2}


class LabelClient(threading.Thread):
    """Labels every item under each name, and sends a label again with the same submission id until it is saved."""

    def __init__(self, client: str, batch: str, server: UiProcess, is_up: threading.Event) -> None:
        super().__init__(daemon=True)
        self.batch, self.server, self.is_up = batch, server, is_up
        rng = random.Random(client)
        self.values = {
            (f"{name} {client}", item): rng.choice(list(CHOICES)) for item in range(1, ITEMS + 1) for name in NAMES
        }
        self.num_saved = self.num_retries = 0
        self.problem = ""

    def run(self) -> None:
        for (name, item), value in self.values.items():
            fields = {"as": name, "item": item, "value": value, "submission": f"{name} {item}"}
            while not self.is_saved(fields):
                self.num_retries += 1
                if self.problem or self.num_retries > 200:
                    return
            self.num_saved += 1

    def is_saved(self, fields: Mapping[str, Any]) -> bool:
        """Send a label: whether the server has acknowledged it."""
        self.is_up.wait(20)
        try:
            reply = self.server.post(f"/label/{self.batch}/label", fields, accept="application/json")
        except (OSError, HTTPException):
            return False  # the server was killed before it answered
        if reply.status not in (200, 403):  # 403: the token of the server before
            self.problem = f"item {fields['item']}: status {reply.status}, {reply.text[:300]}"
        return reply.status == 200


def test_every_acknowledged_label_is_there_once(tmp_path: Path) -> None:
    """Both answers of each item are labelled in one request: never one of them without the other."""
    rng, path = random.Random(36), tmp_path / "runs.sqlite"
    with RunStore.open(path) as store:
        runs = [answered_run(store, "old", ITEMS, lambda number: "yes")]
        runs += [answered_run(store, "new", ITEMS, lambda number: "yes, it is")]
        options = {"runs": tuple(runs), "metric": "containment", "n": ITEMS, "annotators": 2 * len(NAMES)}
        batch = new_batch(store, tmp_path / "labels", purpose="compare", **options)
        queue = LabelQueue(batch, store)
    is_up = threading.Event()
    with UiProcess("--store", str(path)) as server:
        is_up.set()
        clients = [LabelClient(name, batch.id, server, is_up) for name in ("here", "there")]
        for client in clients:
            client.start()
        for count in sorted(rng.sample(range(50, len(clients) * len(clients[0].values) - 50), KILLS)):
            while sum(one.num_saved for one in clients) < count and any(one.is_alive() for one in clients):
                clients[0].join(0.001)
            threading.Event().wait(rng.uniform(0, 0.02))  # at any moment of a request
            is_up.clear()
            server.kill()
            server.start()
            is_up.set()
        for client in clients:
            client.join(600)
    assert [(one.problem, one.num_saved) for one in clients] == [("", ITEMS * len(NAMES))] * 2
    assert sum(one.num_retries for one in clients) >= KILLS
    queue.close("organiser")
    found = Counter(
        (label.annotator, item.number, place, label.label)
        for item in queue.reveal()
        for label in item.labels
        for place, run in enumerate(item.runs)
        if run == label.run
    )
    assert found == {
        (name, item, place, label): 1
        for one in clients
        for (name, item), value in one.values.items()
        for place, label in enumerate(CHOICES[value])
    }
    lines = [json.loads(line) for line in batch.journal.read_text().splitlines()[1:-1]]
    claims = [one["by"] for one in lines if one.get("event") == "claim"]
    assert sorted(claims) == sorted({name for each in clients for name, _ in each.values})
    assert Counter(one["id"] for one in lines if one.get("event") != "claim") == {
        f"{name} {item}": 2 for each in clients for name, item in each.values
    }


# --- blind: nothing that names a run reaches the browser --------------------------------------------------------------

MARK = "zqmark"
"""In everything that an annotator must not see."""
SCORE = 0.7182818


def marked_sample(number: int) -> EvaluationSample:
    return EvaluationSample(
        f"{MARK}-sample-{number}",
        f"Which rule applies to case {number}?",
        relevant_docs=[Document(f"{MARK}-gold-{number}", f"Rule {number}.", {"source": f"{MARK}-gold-source"})],
        reference_answer=Response(f"Rule {number}", metadata={"by": f"{MARK}-reference"}),
        labels={"topic": f"{MARK}-label"},
        metadata={"origin": f"{MARK}-origin"},
        cluster_id=None,
    )


def marked_system(letter: str, sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
    number = int(sample.sample_id.rpartition("-")[2])
    document = Document(
        f"{MARK}-doc-{number}", f"Rule {number} is old.", {"file": f"{MARK}-file"}, parent_id=f"{MARK}-parent"
    )
    return SystemOutputs(
        [RetrievedDocument(document, SCORE, 1)],
        Response(
            f"It is rule {number + number % (2 if letter == 'a' else 3)}{'.' if letter == 'a' else '!'}",
            metadata={"model": f"{MARK}-answer"},
        ),
        {"end_to_end": SCORE},
        extra={"model": f"{MARK}-extra"},
        citations=[document.doc_id],
        steps=[{"query": f"{MARK}-step", "retrieved": [document.doc_id]}],
    )


@dataclass
class Recorder(UiClient):
    """An annotator's browser: everything that it receives."""

    server: UiServer
    cookie: str
    received: list[tuple[str, Reply]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.port, self.csrf_token = self.server.port, self.server.csrf_token

    def sign_in_to(self, batch: LabelBatch) -> None:
        """Have the cookie and the CSRF token of an annotator of a batch."""
        self.cookie = "=".join(self.server.access.label_cookie(batch.id))
        self.csrf_token = self.server.access.csrf_token_for("annotator", f"/label/{batch.id}")

    def request(self, method: str, path: str, *, body: str | None = None, headers: Mapping[str, str]) -> Reply:
        reply = super().request(method, path, body=body, headers=headers)
        self.received.append((f"{method} {path} {body or ''}", reply))
        return reply

    def leaks(self) -> list[tuple[str, list[str]]]:
        """What must not be in a response, with the request."""
        found = []
        for request, reply in self.received:
            text = f"{reply.headers} {reply.text}"
            hidden = rf"{MARK}[\w./-]*|{str(SCORE)[:6]}|run_[0-9A-Z]{{8}}"
            names = re.findall(hidden, unquote(html.unescape(text)), re.IGNORECASE)
            found += [(f"{request[:100]}: {reply.status}", sorted(set(names)))] if names else []
        return found


def use_every_page(client: Recorder, batch: LabelBatch, value: str) -> None:
    """Requests of an annotator to all label pages, also such as are answered by an error."""
    path = f"/label/{batch.id}"
    for query in ("", "?as=ann", "?as="):
        client.get(path + query)
    for more in ({}, {"fragment": 1}, {"item": 2}, {"item": 0}, {"item": 999}, {"item": "x"}, {"adjudicate": 1}):
        client.get(item_path(batch, "ann", **more))
        client.get(item_path(batch, "ann", **more), accept="application/json", sec_fetch_dest="empty")
    saved = []
    for accept in ("text/html", "application/json"):
        common = {"as": "ann", "item": 1}
        client.post(f"{path}/renew", common, accept=accept)
        client.post(
            f"{path}/skip", {**common, "reason": "I cannot read it", "submission": f"skip {accept}"}, accept=accept
        )
        client.post(f"{path}/undo", {"as": "ann"}, accept=accept)
        label = {**common, "value": value, "comment": "a comment", "submission": f"label {accept}"}
        changes: list[dict[str, Any]] = [
            {},
            {},
            {"value": "none of these"},
            {"submission": "another"},
            {"item": 999},
            {"as": ""},
        ]
        saved += [client.post(f"{path}/label", {**label, **one}, accept=accept).status for one in changes]
        client.post(f"{path}/undo", {"as": "ann"}, accept=accept)
    assert saved[0] == saved[1] == 303, saved
    assert saved[6] == saved[7] == 200, saved
    assert {one for place, one in enumerate(saved) if place % 6 > 1} <= {400, 404, 409}, saved
    for part in ("question", "answer-1", "first-1", "document-1", "reference-1", "answer-99", f"{batch.purpose}-1"):
        assert client.get(f"{path}/text?as=ann&item=1&part={part}").status in (200, 404)
    for wrong in (f"{path}/none", "/assets/none"):
        assert client.get(wrong).status in (404, 405)
    for other in (
        "/label/none",
        f"/label/{batch.id}0/item?as=ann",
        f"/batches/{batch.id}",
        f"/batches/{batch.id}/items",
        "/runs",
        "/live/events",
    ):
        assert client.get(other).status == 403
    assert client.post(f"{path}/label", {"as": "ann", "csrf_token": "none"}, x_csrf_token="").status == 403


def test_blind_pages_contain_no_name_in_any_byte(tmp_path: Path) -> None:
    folder = tmp_path / f"{MARK}-folder"
    folder.mkdir()
    with RunStore.open(folder / f"{MARK}-store.sqlite") as store:
        dataset = InMemoryDataset(f"{MARK}-dataset", [marked_sample(number) for number in range(20)])
        runs = [
            run_system(
                partial(marked_system, letter),
                dataset,
                ["token_f1"],
                store=store,
                name=f"{MARK}-run-{letter}",
                config={"model": f"{MARK}-model"},
                tags=[f"{MARK}-tag"],
            ).record.run_id
            for letter in "ab"
        ]
        drafts = folder / f"{MARK}-drafts.jsonl"
        save_jsonl_dataset(dataset, drafts)
        options = {"title": f"{MARK} title", "created_by": f"{MARK} organiser", "annotators": 2, "n": 10}
        picked = tuple(store.sample_ids(runs[1])[:4])
        batches = {
            purpose: new_batch(store, folder / "labels", purpose=purpose, runs=chosen, **more, **options)
            for purpose, chosen, more in (
                ("calibrate", runs[:1], {"metric": "token_f1", "shown": ("documents", "reference")}),
                ("compare", runs, {"metric": "token_f1"}),
                ("grade", runs, {}),
                ("review", runs[1:], {"samples": picked}),
                ("drafts", (), {"dataset": str(drafts)}),
            )
        }
        with ui_server(store) as server:
            organiser, client = Recorder(server, server.cookie), Recorder(server, "")
            decider = Recorder(server, server.cookie)
            organiser.get("/runs")
            assert organiser.leaks()
            for batch in batches.values():
                first, second = (one.name for one in batch.choices[:2])
                for name, value in (("one", first), ("other", second)):  # for an adjudication
                    LabelQueue(batch, store).submit(f"{MARK} {name}", 3, [value], submission=name)
                client.sign_in_to(batch)
                use_every_page(client, batch, first)
                assert client.get(item_path(batch, "ann", adjudicate=1)).status == 403
                assert "annotator 2" in decider.get(item_path(batch, "eve", adjudicate=1)).text
            assert client.leaks() == decider.leaks() == []
            # A journal that was damaged, a run that was deleted, and a store that was: what names a file stays out, too.
            with batches["compare"].journal.open("a") as journal:
                journal.write('{"sample_id": 7}\n')
            batches["drafts"].drafts_file.unlink()
            batches["grade"].file(".batch.json").write_text(f'{{"version": 1, "{MARK}": 1}}')
            store.delete(runs[0])
            for batch in batches.values():
                client.sign_in_to(batch)
                client.get(f"/label/{batch.id}?as=ann")
                client.get(item_path(batch, "ann"))
                client.post(
                    f"/label/{batch.id}/label", {"as": "ann", "item": 2, "value": "right", "submission": "late"}
                )
            assert {404, 503} < {reply.status for _, reply in client.received[-15:]}
            (folder / f"{MARK}-store.sqlite").rename(folder / "moved.sqlite")
            client.sign_in_to(batches["calibrate"])
            for accept in ("text/html", "application/json"):
                client.get(item_path(batches["calibrate"], "ann"), accept=accept)
            assert client.leaks() == []


def test_the_order_of_two_answers_does_not_depend_on_the_run(tmp_path: Path) -> None:
    """Of 400 pairs each run is first in about half, also among those that it answers right."""
    right = {name: [random.Random(f"{name} {n}").random() < 0.5 for n in range(400)] for name in ("old", "new")}
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        runs = []
        for name, values in right.items():
            answers = [f"{name} yes" if one else f"{name} no" for one in values]
            runs.append(answered_run(store, name, 400, answers.__getitem__))
        options = {"runs": tuple(runs), "metric": "containment", "n": 400, "id": "0" * 12}
        batch = new_batch(store, tmp_path, purpose="compare", **options)
        queue = LabelQueue(batch, store)
        shown = [queue.item(number).answers[0].text.partition(" ")[0] for number in range(1, 21)]
        queue.close("organiser")
        names = dict(zip(runs, right, strict=True))
        revealed = [(names[one.runs[0]], int(one.sample_id[1:])) for one in queue.reveal()]
    assert [name for name, _ in revealed[:20]] == shown
    first = Counter((name, right[name][number]) for name, number in revealed)
    # Four standard deviations: 4 * sqrt(400 / 4), and of about 200 answers 4 * sqrt(200 / 4).
    assert abs(first["old", True] + first["old", False] - 200) < 40
    assert abs(first["old", True] - sum(right["old"]) / 2) < 29
    assert abs(first["new", True] - sum(right["new"]) / 2) < 29


# --- two servers on one folder ---------------------------------------------------------------------------------------


def test_two_servers_share_a_queue(tmp_path: Path) -> None:
    """As on two machines: each item goes to one annotator, also when both ask at the same time."""
    with RunStore.open(tmp_path / "runs.sqlite") as store, RunStore.open(tmp_path / "runs.sqlite") as same:
        run = answered_run(store, "nightly", 12, lambda number: "yes")
        batch = new_batch(store, tmp_path / "labels", purpose="calibrate", runs=(run,), n=12)
        with ui_server(store) as here, ui_server(same) as there:

            def next_item(server: UiServer, name: str) -> int | None:
                found = re.search(r'data-item="(\d+)"', server.get(item_path(batch, name)).text)
                return None if found is None else int(found[1])

            labelled: list[int | None] = []
            for _ in range(6):
                with ThreadPoolExecutor(2) as pool:
                    items = list(pool.map(next_item, (here, there), ("ann", "bob")))
                labelled += items
                for server, name, item in zip((here, there), ("ann", "bob"), items, strict=True):
                    fields = {"as": name, "item": item, "value": "right", "submission": f"{item}"}
                    assert server.post(f"/label/{batch.id}/label", fields).status == 303
            assert len(labelled) == 12
            assert set(labelled) == set(range(1, 13))
            assert next_item(here, "ann") is None
            # Both label the same item: the first one is saved, and so is the label of another annotator who is late.
            late = {"as": "bob", "item": labelled[0], "value": "wrong", "submission": "late"}
            assert [there.post(f"/label/{batch.id}/label", late).status for _ in range(2)] == [303, 303]
            again = here.post(f"/label/{batch.id}/label", {**late, "as": "ann", "submission": "again"})
            assert (again.status, "already" in again.text) == (409, True)
    assert len(read_labels(batch.journal)) == 13


# --- labels of samples that a person picked --------------------------------------------------------------------------


def without_counts(text: str) -> str:
    """A JSON text without the number of labels that were left out because a person picked the sample."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: strip(one) for name, one in value.items() if name != "chosen"}
        return [strip(one) for one in value] if isinstance(value, list) else value

    return json.dumps(strip(json.loads(text)), indent=1)


def test_labels_chosen_by_hand_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, auepora: Cli) -> None:
    """Labels of a review batch, and those that the terminal adds to the file of a draw: all figures stay the same."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    with RunStore.open("runs.sqlite") as store:
        runs = [
            answered_run(store, name, 40, answers)
            for name, answers in (
                ("old", lambda n: "yes" if n % 3 else "no"),
                ("new", lambda n: "yes!" if n % 7 else "no!"),  # equal answers get one label
            )
        ]
        common = {"metric": "containment", "annotators": 2}
        batches = [
            new_batch(store, tmp_path, purpose="calibrate", runs=(runs[1],), n=30, **common),
            new_batch(store, tmp_path, purpose="compare", runs=tuple(runs), n=30, **common),
        ]
        for batch, values in zip(batches, (("right", "wrong"), ("both", "first")), strict=True):
            queue = LabelQueue(batch, store)
            for place, name in enumerate(("ann", "bob")):
                for number in range(1, 31):
                    value = values[number % (4 + place) == 0]
                    assert queue.submit(name, number, [value], submission=f"{name} {number}").outcome == "saved"

        def figures(*more: Path) -> list[str]:
            found = []
            for batch in batches:
                files = [str(batch.journal), *map(str, more)]
                labels = [part for one in files for part in ("--labels", one)]
                for command in (
                    ["label", "--agreement", *files],
                    ["judge", "calibrate", *batch.runs, "-m", "containment", *labels],
                ):
                    code, out, err = auepora(*command, "--json")
                    assert code == 0, err
                    found.append(without_counts(out))
            return found

        before = figures()
        assert [name for name in ("kappa", "corrected", '"verdict"') if not any(name in one for one in before)] == []
        # The opposite label for every sample of the run, of a review batch and of a session in the terminal.
        review = new_batch(
            store,
            tmp_path,
            purpose="review",
            runs=(runs[1],),
            samples=tuple(store.sample_ids(runs[1])),
            metric="containment",
        )
        queue = LabelQueue(review, store)
        for number in range(1, 41):
            assert queue.submit("ann", number, ["wrong"], submission=f"{number}").outcome == "saved"
        assert all(one.chosen and one.draw is None for one in read_labels(review.journal))
        picked = [part for one in store.sample_ids(runs[1])[:20] for part in ("--sample", one)]
        monkeypatch.setattr("sys.stdin", io.StringIO("w\n" * 20))
        code, _, err = auepora(
            "label", runs[1], *picked, "--labels", str(batches[0].journal), "--annotator", "ann", "-m", "containment"
        )
        assert code == 0, err
        assert sum(one.chosen for one in read_labels(batches[0].journal)) == 20
        assert figures(review.journal) == before


# --- the whole flow in the browser, with the keyboard alone -----------------------------------------------------------


def focus(page: Any, role: str, name: str) -> None:
    """Focus a control by what a screen reader calls it."""
    page.get_by_role(role, name=name).first.focus()


def type_into(page: Any, label: str, text: str) -> None:
    """Replace the text of a field, or choose the option that begins with it."""
    page.get_by_label(label, exact=True).focus()
    page.keyboard.press("Control+A")
    page.keyboard.type(text)


def create_comparison(page: Any, n: int, metric: str, **fields: str) -> str:
    """Create a batch that decides between two runs; return its id."""
    expect = need("playwright.sync_api").expect
    page.keyboard.press("n")
    focus(page, "link", "Decide between")
    page.keyboard.press("Enter")
    for label, text in {"Run A": "old", "Run B": "new"}.items():
        with page.expect_response(lambda reply: "/batches/fields" in reply.url):  # the metrics of the runs
            type_into(page, label, text)
        expect(page.locator("#batch-fields:not([aria-busy])")).to_be_attached()
    type_into(page, "Metric", metric)
    for label, text in {"Number of samples": str(n), **fields}.items():
        type_into(page, label, text)
    expect(page.locator("#forecast")).to_contain_text(f"{n} of ")
    expect(page.locator("#forecast")).to_contain_text("is decided with probability 0.8")
    focus(page, "button", "Create the batch")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/batches/[0-9a-f]{12}$"))
    return str(page.url).rpartition("/")[2]


def start_labelling(page: Any, name: str) -> None:
    """Give the name on the first page of a batch."""
    type_into(page, "Your name", name)
    page.keyboard.press("Enter")
    page.wait_for_selector("#label-item")
    page.wait_for_load_state("load")  # keys do nothing before


def label_items(page: Any, count: int, choose: Callable[[int, str, list[str]], str]) -> None:
    """Label so many items with the key that ``choose`` gives for number, question and answers."""
    for _ in range(count):
        number = page.locator("#label-item").get_attribute("data-item")
        question = page.locator(".is-question .text").inner_text()
        answers = page.locator(".is-answer .text").all_inner_texts()
        answers *= 3 - len(answers)  # equal ones are shown once
        page.keyboard.press(choose(int(number), question, answers))
        page.wait_for_selector(f"#label-item:not([data-item='{number}'])")


def close_batch(page: Any, name: str) -> None:
    """Close the batch on its page."""
    page.locator("#close-batch summary").focus()
    page.keyboard.press("Enter")
    type_into(page, "Your name", name)
    for key in ("Tab", "Space", "Tab", "Enter"):  # the box "End labelling", then the button
        page.keyboard.press(key)
    page.wait_for_selector("#batch-progress[data-closed]", state="attached")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two runs of 20 questions: the first answers a third of them right, the second all."""
    path = tmp_path_factory.mktemp("pair") / "runs.sqlite"
    with RunStore.open(path) as store:
        for name, answers in (("old", lambda n: "yes" if n % 3 == 0 else "no"), ("new", lambda n: "yes, it is")):
            answered_run(store, name, 20, answers)
    return path


def choose_answer(number: int, question: str, answers: list[str]) -> str:
    """The key of an annotator who compares both answers with the right one."""
    return {(True, False): "1", (False, True): "2", (True, True): "3", (False, False): "4"}[
        answers[0].startswith("yes"), answers[1].startswith("yes")
    ]


def choose_otherwise(number: int, question: str, answers: list[str]) -> str:
    """The key of an annotator who rejects both answers of two items."""
    return "4" if number in (3, 7) else choose_answer(number, question, answers)


def test_two_annotators_from_the_first_form_to_the_verdict(browser: Any, pair: Path) -> None:
    expect = need("playwright.sync_api").expect
    lost = ("ERR_CONNECTION", "ERR_EMPTY_RESPONSE", "status of 403", "status of 409")
    with UiProcess("--store", str(pair)) as server:
        with workbench_page(browser, server, "/batches") as page:
            batch = create_comparison(page, 12, "containment", **{"Labels per item": "2", "Title": "Release 7"})
            expect(page.locator("main")).to_contain_text(f"{server.address}/label/{batch}")
        # The server is killed before it answers, and started again: the label of the fifth item is saved once.
        with workbench_page(browser, server, f"/label/{batch}", expected=lost) as ann:
            start_labelling(ann, "ann")
            label_items(ann, 4, choose_answer)
            fifth = ann.locator("#label-item").get_attribute("data-item")
            server.kill()
            ann.keyboard.press("c")
            ann.keyboard.type("kept")
            ann.keyboard.press("Escape")
            ann.keyboard.press("3")
            expect(ann.locator("#label-problem")).to_contain_text("The connection to the server is lost")
            server.start()
            focus(ann, "button", "Try now")
            ann.keyboard.press("Enter")
            expect(ann.locator("#label-problem")).to_contain_text("The server was started again")
            other = ann.context.new_page()
            other.goto(server.url.replace("/?token", f"/label/{batch}?token"))
            other.close()
            focus(ann, "button", "Try now")
            ann.keyboard.press("Enter")
            ann.wait_for_selector(f"#label-item:not([data-item='{fifth}'])")
            # Undo brings the item back with its comment, and the label is given again.
            ann.keyboard.press("u")
            ann.wait_for_selector(f"#label-item[data-item='{fifth}']")
            expect(ann.locator("textarea[name=comment]")).to_have_value("kept")
            ann.locator("#label-heading").focus()
            label_items(ann, 8, choose_answer)
            expect(ann.locator("main")).to_contain_text("12 of 12 labelled")
        with workbench_page(browser, server, f"/label/{batch}", expected=lost) as bob:
            start_labelling(bob, "bob")
            first = bob.locator("#label-item").get_attribute("data-item")
            bob.keyboard.press("s")
            bob.keyboard.type("cannot decide")
            bob.keyboard.press("Enter")
            expect(bob.locator("#label-status")).to_have_text(f"Skipped item {first}")
            bob.keyboard.press("u")
            bob.wait_for_selector(f"#label-item[data-item='{first}']")
            label_items(bob, 12, choose_otherwise)
        with workbench_page(browser, server, f"/batches/{batch}", expected=lost) as page:
            load_all(page)
            expect(page.locator("#agreement-title + div")).to_contain_text("kappa")
            assert "better" not in page.locator("main").inner_text()  # no verdict before the batch is closed
            page.keyboard.press("a")
            differing = page.locator("#label-item")
            type_into(page, "Your name", "eve")
            page.keyboard.press("Enter")
            differing.wait_for()
            expect(page.locator("main")).to_contain_text("annotator 1")
            label_items(page, 2, choose_answer)
            page.goto(f"{server.address}/batches/{batch}")
            close_batch(page, "eve")
            expect(page.locator("#batch-results")).to_contain_text("new is better than old")
            page.goto(f"{server.address}/batches/{batch}/items")
            expect(page.locator("main")).to_contain_text("old")
            reply = server.post(
                f"/label/{batch}/label", {"as": "ann", "item": 1, "value": "both", "submission": "late"}
            )
            assert reply.status == 409
    (journal,) = (pair.parent / "labels").glob("*.jsonl")
    labels = read_labels(journal)
    assert Counter((one.annotator, one.adjudicated) for one in labels) == {
        ("ann", False): 24,
        ("bob", False): 24,
        ("eve", True): 4,
    }
    assert len({one.key for one in labels}) == len(labels)


# --- one afternoon: a service without gold, a judge, 40 labels, a verdict --------------------------------------------

QUESTIONS = 60
PLAN = """\
name: {name}
dataset: questions.jsonl
system:
  http:
    url: {url}/{name}
    request: {{question: "{{query}}"}}
    response: {{answer: text, retrieved: sources, doc_id: id, text: passage}}
resources: {{judge: {{openai: {{model: small, base_url: "{judge}"}}}}}}
metrics: [{{llm_faithfulness: {{critic: {{use: judge}}, scale: 0-1}}}}]
run: {{concurrency: 8}}
store: runs.sqlite
"""


def is_right(version: str, number: int) -> bool:
    """Whether this version of the service answers the question of this number right: 24 or 54 of 60."""
    return random.Random(f"{version} {number}").random() < {"old": 0.4, "new": 0.9}[version]


def answer_of_service(reply: fault_server.Reply, asked: fault_server.Asked) -> None:
    """The service: the fee of a tariff from one passage, by the version in the path."""
    version, number = asked.path.rpartition("/")[2], int(asked.json["question"].split()[-1].strip("?"))
    fee = number if is_right(version, number) else number + 100
    passage = f"Tariff {number} costs {number} euros a month."
    reply.send({"text": f"Tariff {number} costs {fee} euros.", "sources": [{"id": f"t{number}", "passage": passage}]})


def judge_answer(asked: judge_server.Asked) -> dict[str, Any]:
    """The judge: it compares the fees, and errs on one answer in ten."""
    fees = {int(one.split()[1]): int(one.split()[3]) for one in asked.prompt.splitlines() if one.startswith("Tariff ")}
    ((number, fee),) = fees.items()
    correct = (fee == number) is not (random.Random(f"judge {number} {fee}").random() < 0.1)
    return {"rationale": "the fee was compared", "score": int(correct)}


@pytest.fixture(scope="module")
def afternoon(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of two runs of the service, with judge scores and without gold."""
    from auepora_eval.cli.main import main

    folder = tmp_path_factory.mktemp("afternoon")
    rows = [{"sample_id": f"q{n}", "query": f"What is the fee of tariff {n}?"} for n in range(QUESTIONS)]
    (folder / "questions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with (
        pytest.MonkeyPatch.context() as patch,
        fault_server.serving(answer_of_service) as service,
        judge_server.JudgeServer(judge_answer) as judge,
    ):
        patch.chdir(folder)
        patch.delenv("AUEPORA_STORE", raising=False)
        for name in ("old", "new"):
            text = PLAN.format(name=name, url=service.url.removesuffix("/ask"), judge=judge.base_url)
            (folder / f"{name}.yaml").write_text(text)
            with pytest.raises(SystemExit) as stopped:
                main(["run", f"{name}.yaml", "--quiet"])
            assert stopped.value.code == 0
    return folder


def choose_fee(number: int, question: str, answers: list[str]) -> str:
    """The key of an annotator who knows the fees."""
    fee = question.split()[-1].strip("?")
    return choose_answer(number, question, ["yes" if one.endswith(f" {fee} euros.") else "no" for one in answers])


def test_one_afternoon(browser: Any, afternoon: Path, monkeypatch: pytest.MonkeyPatch, auepora: Cli) -> None:
    expect = need("playwright.sync_api").expect
    monkeypatch.chdir(afternoon)
    with RunStore.open("runs.sqlite") as store, ui_server(store) as server:
        with workbench_page(browser, server, "/batches") as page:
            batch = create_comparison(page, 30, "llm_faithfulness")  # equal answers are not drawn
            page.goto(f"{server.address}/label/{batch}")
            start_labelling(page, "ann")
            label_items(page, 30, choose_fee)
            page.goto(f"{server.address}/batches/{batch}")
            close_batch(page, "ann")
            load_all(page)
            results = page.locator("#batch-results")
            expect(results).to_contain_text("new is better than old")
            expect(results).to_contain_text("corrected")
        journal = find_batch(server.workbench.labels, batch).journal
        code, out, err = auepora("judge", "calibrate", "old", "new", "--labels", str(journal), "--json")
        assert code == 0, err
    labels = read_labels(journal)
    assert len(labels) == 60
    assert all(one.draw and one.probability and one.position and not one.chosen for one in labels)
    report = json.loads(out)
    differing = [number for number in range(QUESTIONS) if is_right("old", number) != is_right("new", number)]
    gained = sum(is_right("new", number) - is_right("old", number) for number in range(QUESTIONS))
    low, high = report["difference"]["interval"]
    assert low <= gained / QUESTIONS <= high
    for one in report["judged"]:
        low, high = one["corrected"]["interval"]
        assert low <= sum(is_right(one["name"], number) for number in differing) / len(differing) <= high
