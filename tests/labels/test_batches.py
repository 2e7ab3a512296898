"""Batches of labels: planning, the queue with leases, blind items, several annotators and servers, damaged files."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from auepora_eval import Document, Response, RetrievedDocument, SystemOutputs
from auepora_eval.calibration.calibrate import calibrate
from auepora_eval.calibration.scores import load_run_scores
from auepora_eval.errors import AueporaWarning, BadValueError, ConflictError, DataFileError, UnknownBatchError
from auepora_eval.grades.human_grades import read_human_grades
from auepora_eval.io.grades import Grade, write_grades
from auepora_eval.io.jsonl import load_jsonl_dataset, save_jsonl_dataset
from auepora_eval.io.labels import Label, LabelEvent, LabelJournal, read_labels
from auepora_eval.labels.batch import BatchEntry, LabelBatch
from auepora_eval.labels.batch_items import BatchItem
from auepora_eval.labels.batch_plans import BatchOptions, create_batch, find_batch, list_batches, new_batch_id
from auepora_eval.labels.draws import read_all_draws, read_draws
from auepora_eval.labels.pair_draws import read_pair_draw
from auepora_eval.labels.queue import LEASE_S, LabelQueue
from auepora_eval.store.runs import RunStore
from auepora_eval.ui.batch_planners import plan_batch
from helpers import stored_runs

MARKERS = ("first-run", "second-run", "doc-secret", "meta-secret", "q000", "run_")
"""What identifies runs, documents and samples in the store of these tests."""


def answer(number: int, word: str) -> SystemOutputs | Exception:
    if number == 39:
        return ValueError("no answer")
    names = [f"doc-secret-{number % 5}", "gold"]
    documents = [Document(name, f"text of document {place}", {"m": "meta-secret"}) for place, name in enumerate(names)]
    hits = [RetrievedDocument(one, 1 / place, place) for place, one in enumerate(documents, start=1)]
    right = {"first": "yes", "secon": "yes!"}[word]  # equal answers get one label
    return SystemOutputs(hits, Response(right if number % 3 else f"{word} {number}"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunStore]:
    """Two runs over 40 samples, with one failure each."""
    with RunStore.open(tmp_path_factory.mktemp("batches") / "runs.sqlite") as opened:
        dataset = stored_runs.samples(40)
        for name in ("first-run", "second-run"):
            stored_runs.run(opened, name, dataset, partial(answer, word=name[:5]), ["token_f1"])
        yield opened


class Clock:
    """A time that a test sets."""

    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def make_batch(store: RunStore, folder: Path, purpose: str = "calibrate", **options: object) -> LabelBatch:
    runs = {"compare": ("first-run", "second-run"), "drafts": ()}.get(purpose, ("first-run",))
    values = {"n": 10, "metric": "token_f1", "runs": runs, **options}
    return create_batch(folder, plan_batch(store, BatchOptions(purpose, **values)))  # type: ignore[arg-type]


def texts_of(item: BatchItem) -> str:
    return json.dumps(asdict(item))


# --- planning --------------------------------------------------------------------------------------------------------


def test_plan_and_create(store: RunStore, tmp_path: Path) -> None:
    options = BatchOptions(
        "calibrate", ("first-run",), title="<b>Älter</b> & more", n=12, metric="token_f1", annotators=2
    )
    plan = plan_batch(store, options)
    assert not list(tmp_path.iterdir()), "planning writes nothing"
    text = " ".join(plan.forecast)
    assert "12 of 39 answers are drawn at random; 1 without an answer is left out." in text
    assert f"about ±{plan.figures['half_width']:.3f}" in text
    assert f"about ±{plan.figures['kappa_half_width']:.2f}" in text
    assert "labelled by 2 annotators; together they label 24 items" in text
    few = " ".join(plan_batch(store, replace(options, n=3)).forecast)
    assert "There is no forecast for token_f1: 3 labels are too few." in few
    assert "4 labels decide nothing" in " ".join(plan_batch(store, replace(options, n=4)).forecast)
    larger = plan_batch(store, replace(options, n=30)).figures
    assert larger["half_width"] < plan.figures["half_width"]
    assert larger["kappa_half_width"] < plan.figures["kappa_half_width"]

    blocked = tmp_path / "labels" / f"b-alter-b-more-{plan.options.id}.draw.json"
    blocked.mkdir(parents=True)
    with pytest.raises(DataFileError, match="is a directory"):
        create_batch(tmp_path / "labels", plan)
    blocked.rmdir()
    batch = create_batch(tmp_path / "labels", plan)
    assert batch.name == f"b-alter-b-more-{batch.id}"
    assert list_batches(tmp_path / "labels") == [batch] == [find_batch(tmp_path / "labels", batch.id)]
    (draw,) = read_draws(batch.journal).values()
    assert [one.sample_id for one in batch.items] == draw.sample_ids
    assert draw.id == batch.draw
    with pytest.raises(ConflictError, match="created already"):
        create_batch(tmp_path / "labels", plan)
    file = batch.file(".batch.json")
    content = file.read_bytes()
    rows = {
        content[:50]: "is no batch of labels",
        b"[]": "is no batch of labels",
        content.replace(b'"blind":true', b'"blind":3'): "is no batch of labels",
        content.replace(b'"version":1', b'"version":2'): "is a batch of version 2, which needs a newer",
    }
    for damaged, message in rows.items():
        file.write_bytes(damaged)
        problems: list[str] = []
        assert list_batches(tmp_path / "labels", problems) == []
        assert [message in one for one in problems] == [True], problems
    with pytest.raises(UnknownBatchError):
        find_batch(tmp_path / "labels", "../" + batch.id)


BAD = [  # purpose, options, message
    ("compare", {"runs": ("first-run",)}, "runs: 1 are given; this purpose needs two runs"),
    ("calibrate", {"annotators": 0}, "annotators: 0"),
    ("calibrate", {"scale": "5"}, "a scale is written as 1-5"),
    ("calibrate", {"shown": ("relevance",)}, "shown: 'relevance'"),
    ("calibrate", {"shown": ("metadata",)}, "shown: 'metadata'"),
    ("calibrate", {"metric": "faithfulness"}, "faithfulness"),
    ("review", {}, "samples: there is no sample"),
    ("review", {"samples": ("nowhere",)}, "samples: .* has no sample 'nowhere'"),
    ("review", {"samples": ("q00039",)}, "samples: .* has no answer to sample 'q00039'"),
    ("drafts", {}, "dataset: give the file"),
    ("compare", {"n": 5}, "cannot draw 5 of 39"),
    ("compare", {"runs": ("first-run", "first-run")}, "the same run is given twice"),
    ("calibrate", {"title": "\ud800"}, "surrogate"),
    ("other", {}, "purpose: 'other' is unknown"),
]


@pytest.mark.parametrize(("purpose", "options", "message"), BAD, ids=[f"{one[0]}-{one[2][:20]}" for one in BAD])
def test_bad_options(store: RunStore, tmp_path: Path, purpose: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(BadValueError, match=message):
        make_batch(store, tmp_path, purpose, **options)
    assert not list(tmp_path.glob("*.batch.json"))


# --- the queue -------------------------------------------------------------------------------------------------------


def test_leases_share_the_items_between_annotators_and_servers(store: RunStore, tmp_path: Path) -> None:
    clock, batch = Clock(), make_batch(store, tmp_path, n=3)
    one, two = (LabelQueue(batch, store, clock=clock) for _ in range(2))
    assert [one.next("ann"), two.next("bob"), one.next("ann"), one.next(" cleo ")] == [1, 2, 1, 3]
    assert two.next("dan") is None
    assert two.annotator_progress("dan").waiting == 3
    clock.now += LEASE_S / 2
    one.renew("ann", 1)
    clock.now += LEASE_S / 2 + 1
    assert two.next("dan") == 2, "the lease of bob has expired, the one of ann was renewed"
    assert one.submit("bob", 2, ["right"], submission="late").outcome == "saved", "a late label is not lost"
    assert two.submit("dan", 2, ["wrong"], submission="d").outcome == "saved"
    assert two.next("eve") == 3
    batch.file(".leases.json").write_bytes(b'[[1, "an')
    assert one.next("fay") == 1, "a lease file that was cut off is empty"
    assert [label.annotator for label in read_labels(batch.journal)] == ["bob", "dan"]
    one.renew("dan", 2)
    one.skip("fay", 1, "no text", submission="f")
    assert two.next("gus") == 1, "an item that is skipped is free at once"
    assert one.next("dan") == 3, "an old tab takes no lease of an item that is labelled"
    progress = one.progress()
    assert (progress.complete, progress.labels, progress.disagreements) == (1, 2, 1)


def test_every_item_goes_to_as_many_annotators_as_wanted(store: RunStore, tmp_path: Path) -> None:
    batch = make_batch(store, tmp_path, n=12, annotators=2)
    queues = [LabelQueue(batch, store) for _ in range(2)]

    def label(name: str, queue: LabelQueue) -> None:
        while (number := queue.next(name)) is not None:
            queue.submit(name, number, ["right"], submission=f"{name}-{number}")

    threads = [threading.Thread(target=label, args=(f"a{place}", queues[place % 2])) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    labels = read_labels(batch.journal)
    assert len(labels) == 24 == len({label.key for label in labels})
    assert all(len({one.annotator for one in labels if one.sample_id == item.sample_id}) == 2 for item in batch.items)
    assert queues[0].progress().complete == 12
    assert queues[1].next("another") is None


def test_a_submission_is_saved_once(store: RunStore, tmp_path: Path) -> None:
    queue = LabelQueue(make_batch(store, tmp_path), store)
    outcomes = [
        queue.submit("ann", 1, ["right"], comment="why", submission="s1"),
        queue.submit("ann", 1, ["right"], comment="why", submission="s1"),
        queue.submit("ann", 1, ["wrong"], submission="s1"),
        queue.submit("ann", 1, ["wrong"], submission="s2"),
        queue.submit("bob", 1, ["wrong"], submission="s3"),
    ]
    assert [one.outcome for one in outcomes] == ["saved", "already saved", "conflict", "conflict", "saved"]
    assert queue.undo("ann", submission="u1") == 1 == queue.undo("ann", submission="u1")
    assert queue.undo("ann") is None
    assert queue.next("ann") == 1, "an item whose label was undone comes back"
    assert [one.annotator for one in read_labels(queue.batch.journal)] == ["bob"]
    for values in ([], ["maybe"], ["right", "right"]):
        with pytest.raises(BadValueError, match="label: one value of right, wrong"):
            queue.submit("ann", 2, values, submission="s4")
    for name in ("", " ", "a\nb", "x" * 101, "\ud800"):
        with pytest.raises(BadValueError, match="annotator: 1 to 100 characters"):
            queue.next(name)
    with pytest.raises(BadValueError, match="comment: it contains half of a surrogate pair"):
        queue.submit("ann", 2, ["right"], comment="\udcff", submission="s5")
    with pytest.raises(UnknownBatchError, match="there is no item 11"):
        queue.submit("ann", 11, ["right"], submission="s6")


def test_skip_adjudicate_close_and_reveal(store: RunStore, tmp_path: Path) -> None:
    queue = LabelQueue(make_batch(store, tmp_path, annotators=2, n=3), store)
    assert queue.next("ann") == 1
    assert queue.skip("ann", 1, "<i>unreadable</i>", submission="s0").outcome == "saved"
    assert queue.next("ann") == 2
    assert queue.skipped_items("ann") == [1]
    assert queue.undo("ann") == 1 == queue.next("ann")
    for name, value in (("ann", "right"), ("<b>bob</b>", "wrong")):
        queue.submit(name, 1, [value], comment=f"by {value}", submission=name)
    (found,) = queue.disagreements()
    assert (found.number, found.adjudicated) == (1, False)
    assert [(one.annotator, one.label, one.comment) for one in found.labels] == [
        ("annotator 1", "Right", "by right"),
        ("annotator 2", "Wrong", "by wrong"),
    ]
    assert queue.submit("Zoe\u0308", 2, ["right"], submission="z1").outcome == "saved"
    assert queue.submit("Zo\u00eb", 2, ["wrong"], submission="z2").outcome == "conflict", "the same name"
    assert queue.undo("Zo\u00eb") == 2
    assert queue.submit("eve", 2, ["right"], submission="e1", adjudicated=True).outcome == "conflict"
    assert queue.submit("eve", 1, ["right"], submission="e2", adjudicated=True).outcome == "saved"
    assert queue.submit("fay", 1, ["wrong"], submission="f1", adjudicated=True).message.startswith("another person")
    assert queue.progress().disagreements == 0
    assert queue.disagreements()[0].adjudicated
    with pytest.raises(ConflictError, match="when the batch is closed"):
        next(queue.reveal())
    queue.close("organiser")
    other = LabelQueue(queue.batch, store)
    assert other.is_closed
    assert other.next("ann") is None
    closed = other.progress().closed
    assert closed is not None
    assert closed.by == "organiser"
    assert other.submit("ann", 2, ["right"], submission="s9").message == "labelling is closed"
    assert other.submit("ann", 1, ["right"], comment="by right", submission="ann").outcome == "already saved"
    actions: list[Callable[[], object]] = [
        partial(other.undo, "ann"),
        partial(other.renew, "ann", 2),
        partial(other.close, "again"),
    ]
    for action in actions:
        with pytest.raises(ConflictError, match="closed"):
            action()
    first = next(other.reveal())
    assert first.sample_id == queue.batch.items[0].sample_id
    assert first.runs == queue.batch.runs
    assert [(one.annotator, one.adjudicated) for one in first.labels][-1] == ("eve", True)


def test_a_comparison_saves_both_labels_at_once(store: RunStore, tmp_path: Path) -> None:
    batch = make_batch(store, tmp_path, "compare", n=20, blind=False)
    assert batch.blind, "a comparison is always blind"
    queue = LabelQueue(batch, store)
    choices = {"first": (1, 0), "second": (0, 1), "both": (1, 1), "neither": (0, 0)}
    for number, name in enumerate(choices, start=1):
        item = queue.item(number)
        assert len(item.answers) == 2
        assert not any(marker in texts_of(item) for marker in MARKERS)
        assert queue.submit("ann", number, [name], submission=name).outcome == "saved"
    by_item = {(one.sample_id, one.run): one for one in read_labels(batch.journal)}
    assert len(by_item) == 8
    assert {one.position for one in by_item.values()} == {1, 2, 3, 4}
    assert queue.undo("ann") == 4
    assert len(read_labels(batch.journal)) == 6
    journal, keys = LabelJournal(batch.journal), queue._keys(5, "bob")
    for place, name in ((0, "both"), (0, "second"), (1, "first")):
        journal.append(Label(keys[place].sample_id, "right", "bob", keys[place].run, keys[place].metric))
        outcomes = [queue.submit("bob", 5, [name], submission=f"bob-{name}").outcome for _ in range(2)]
        assert outcomes == ["saved", "already saved"]
        journal.refresh()
        found = {one.key: int(one.value) for one in journal.labels}
        assert tuple(found[key] for key in keys) == choices[name], "the label of the terminal is kept, or replaced"
        journal.append(*(LabelEvent("retract", key) for key in keys))
    queue.close("organiser")
    for number, (revealed, values) in enumerate(zip(queue.reveal(), choices.values(), strict=False), start=1):
        answers = queue.item(number).answers
        for run, value, shown in zip(revealed.runs, values, answers, strict=True):
            name = store.get(run).name
            assert shown.text in ("yes", "yes!", f"{name[:5]} {int(revealed.sample_id[1:])}")
            if number < 4:
                assert by_item[revealed.sample_id, run].value == value
    with pytest.raises(BadValueError, match="designed with n 20"):
        make_batch(store, tmp_path, "compare", n=12)


def test_the_order_of_answers_does_not_depend_on_the_run(store: RunStore, tmp_path: Path) -> None:
    batch = make_batch(store, tmp_path, "compare", n=20)
    entries = tuple(BatchEntry(f"s{n}", (0, 0)) for n in range(400))
    readers = [LabelQueue(replace(batch, id=one * 12, items=entries), store)._items for one in "ab"]
    first, other = ([one.runs(number)[0] == batch.runs[0] for number in range(1, 401)] for one in readers)
    changes = [one != following for one, following in pairwise(first)]
    differences = [one != two for one, two in zip(first, other, strict=True)]  # of two batches with the same seed
    for times in (first, changes, differences):
        assert 160 <= sum(times) <= 240, "within four standard errors of one half"


@pytest.mark.usefixtures("few_draws")
def test_labels_of_a_review_are_chosen_and_change_nothing(store: RunStore, tmp_path: Path) -> None:
    batch = make_batch(store, tmp_path, n=30)
    drawn = LabelQueue(batch, store)
    for number in range(1, 31):
        drawn.submit("ann", number, ["right" if number % 3 else "wrong"], submission=str(number))
    review = make_batch(store, tmp_path, "review", samples=("q00003", "q00001"), blind=False)
    queue = LabelQueue(review, store)
    assert queue.next("bob") == 1
    assert queue.item(1).answers[0].documents[0].doc_id == "doc-secret-3"
    queue.submit("bob", 1, ["wrong"], submission="s")
    (label,) = read_labels(review.journal)
    assert label.chosen
    assert (label.sample_id, label.draw, label.probability) == ("q00003", None, None)
    scored = load_run_scores(store, store.find("first-run"), "token_f1")
    reports = [
        calibrate([one for path in paths for one in read_labels(path)], scored, draws=read_all_draws(paths))
        for paths in ([batch.journal], [batch.journal, review.journal])
    ]
    alone, both = (json.dumps(report.to_dict()) for report in reports)
    assert '"chosen": 1' in both
    assert both.replace('"chosen": 1', "") == alone


def test_a_blind_item_has_no_ids(store: RunStore, tmp_path: Path) -> None:
    blind = LabelQueue(make_batch(store, tmp_path, shown=("documents", "reference")), store)
    item = blind.item(1)
    assert not any(marker in texts_of(item) for marker in MARKERS)
    assert [one.text for one in item.answers[0].documents] == ["text of document 0", "text of document 1"]
    assert item.references == ("yes",)
    assert item.shown == ("documents", "reference")
    shown = LabelQueue(make_batch(store, tmp_path, blind=False, shown=("documents", "relevance")), store).item(1)
    assert [one.doc_id for one in shown.answers[0].documents][1] == "gold"
    assert [one.gold for one in shown.answers[0].documents] == [False, True]
    assert not shown.references
    by_score = tuple(f"q{number:05}" for number in range(30))
    review = make_batch(store, tmp_path, "review", samples=by_score).items
    assert [one.sample_id for one in review] != sorted(one.sample_id for one in review) == list(by_score)
    bare = LabelQueue(make_batch(store, tmp_path, shown=()), store)
    assert bare.item(1).answers[0].documents == ()
    assert bare.item(1).shown == ()


def test_grades_of_documents_are_read_as_human_grades(store: RunStore, tmp_path: Path) -> None:
    ids = store.sample_ids(store.find("first-run").run_id)
    pooled = [(one, doc) for one in ids for doc in (f"doc-secret-{int(one[1:]) % 5}", "gold")]
    qrels = tmp_path / "qrels.txt"
    write_grades(qrels, [Grade(*key, int(key[1] == "gold"), "model", model="m", mean=0.5) for key in pooled])
    options = {"qrels": str(qrels), "metrics": ("precision@2",), "depth": 2, "n": 6, "annotators": 2, "metric": None}
    batch = make_batch(store, tmp_path, "grade", **options)
    queue = LabelQueue(batch, store)
    item = queue.item(1)
    assert item.documents[0].text.startswith("text of document")
    assert not any(one in texts_of(item) for one in MARKERS)
    assert [one.name for one in batch.choices] == ["0", "1", "2", "3"]
    for number in range(1, 7):
        for name, grade in (("ann", "2"), ("bob", "1" if number == 6 else "2")):
            assert queue.submit(name, number, [grade], submission=f"{name}{number}").outcome == "saved"
    with pytest.raises(DataFileError, match="differently; adjudicate"):
        read_human_grades(batch.journal)
    with pytest.raises(ConflictError, match="some documents have different grades"):
        queue.close("eve")
    assert queue.submit("eve", 6, ["3"], submission="e", adjudicated=True).outcome == "saved"
    drawn = read_pair_draw(batch.file(".draw.json")).order
    grades = read_human_grades(batch.journal)
    assert [grades[one.key].grade for one in drawn] == [2, 2, 2, 2, 2, 3]
    assert [grades[one.key].probability for one in drawn] == [one.probability for one in drawn]
    queue.close("eve")
    with pytest.raises(DataFileError, match="no such file"):
        plan_batch(store, BatchOptions("grade", ("first-run",), qrels=str(tmp_path / "other.txt")))
    everything = plan_batch(store, BatchOptions("grade", ("first-run", "second-run"), depth=2))
    assert everything.draw is None
    assert "All 39 ungraded documents" in everything.forecast[0]


def test_accepted_drafts_are_written_when_the_batch_is_closed(store: RunStore, tmp_path: Path) -> None:
    dataset = tmp_path / "drafts.jsonl"
    save_jsonl_dataset(stored_runs.samples(3, reference="<script>"), dataset)
    batch = make_batch(store, tmp_path / "labels", "drafts", dataset=str(dataset), metric=None)
    dataset.unlink()  # the batch has a copy
    queue = LabelQueue(batch, store)
    item = queue.item(2)
    assert (item.question, item.references) == ("question 1?", ("<script>",))
    assert item.documents[0].text == "The text of the gold document."
    assert "gold" not in item.documents[0].doc_id
    for number, choice in enumerate(("accept", "reject", "accept"), start=1):
        queue.submit("ann", number, [choice], submission=str(number))
    assert all(one.chosen for one in read_labels(batch.journal))
    assert not batch.accepted_file.exists()
    queue.close("organiser")
    assert [one.sample_id for one in load_jsonl_dataset(batch.accepted_file)] == ["q00000", "q00002"]


# --- files that change, and runs that go away -------------------------------------------------------------------------


def test_a_journal_that_is_edited_truncated_or_read_only(store: RunStore, tmp_path: Path) -> None:
    batch = make_batch(store, tmp_path, title="file-secret")
    queue = LabelQueue(batch, store)
    for number in (1, 2, 3):
        queue.submit("ann", number, ["right"], submission=f"s{number}")
    lines = batch.journal.read_bytes().splitlines(keepends=True)
    batch.journal.write_bytes(b"".join(lines[:3]))  # header and two labels
    with pytest.warns(AueporaWarning, match="submissions that it has lost: 1"):
        assert queue.progress().labels == 2
    assert queue.next("ann") == 3
    assert queue.submit("ann", 3, ["wrong"], submission="s4").outcome == "saved"
    batch.journal.write_bytes(b"".join(lines[:2]) + lines[2].replace(b'"right"', b'"wrong"'))
    with pytest.warns(AueporaWarning, match="submissions that it has lost: 1"):
        assert queue.progress().labels == 2
    assert [one.label for one in read_labels(batch.journal)] == ["right", "wrong"]
    with batch.journal.open("ab") as file:
        file.write(b'{"sample_id": "q00001", "label": "good"}\n')
    for action in (lambda: queue.submit("ann", 4, ["right"], submission="s5"), lambda: queue.next("ann")):
        with pytest.raises(DataFileError, match="the label file") as caught:
            action()
        assert "file-secret" not in str(caught.value)
        assert "q00001" not in str(caught.value)
    with pytest.raises(DataFileError, match=r"file-secret.*\.jsonl:4: field 'label'"):
        queue.progress()
    batch.journal.write_bytes(b"".join(lines[:2]))
    if os.geteuid():  # the superuser may write to any file
        batch.journal.chmod(0o444)
        with pytest.raises(DataFileError, match="the label file: cannot be written"):
            queue.submit("ann", 4, ["right"], submission="s6")
        batch.journal.chmod(0o644)
    with pytest.warns(AueporaWarning, match="submissions that it has lost: 1"):
        assert queue.submit("ann", 4, ["right"], submission="s6").outcome == "saved"
    assert len(read_labels(batch.journal)) == 2
    batch.journal.rename(tmp_path / "moved.jsonl")
    for action in (lambda: queue.submit("ann", 5, ["right"], submission="s7"), lambda: queue.next("ann")):
        with pytest.raises(DataFileError, match=r"the label file: .*[nN]o such file"):
            action()
    (tmp_path / "moved.jsonl").rename(batch.journal)
    assert queue.progress().labels == 2
    batch.file(".draw.json").unlink()
    with pytest.raises(DataFileError, match="record of the draw is missing") as caught:
        LabelQueue(replace(batch, blind=False), store).next("ann")
    with pytest.raises(DataFileError, match="the label file"):
        LabelQueue(batch, store).next("ann")


def test_a_run_that_is_deleted_while_its_queue_is_open(store: RunStore, tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as other:
        record = stored_runs.run(other, "short", stored_runs.samples(5), lambda number: "yes", ["token_f1"])
        options = BatchOptions("calibrate", ("short",), n=4, id=new_batch_id())
        queue = LabelQueue(create_batch(tmp_path, plan_batch(other, options)), other)
        assert queue.next("ann") == 1
        queue.item(1)
        other.delete(record.run_id)
        with pytest.raises(UnknownBatchError, match="was deleted from the store") as caught:
            queue.item(1)
        assert "run_" not in str(caught.value)
        assert queue.submit("ann", 1, ["right"], submission="s").outcome == "saved"
        assert queue.submit("ann", 2, ["right"], submission="t").outcome == "saved"
        assert queue.progress().labels == 2
