"""*Cannot tell*: a label that counts as missing, and is not asked again."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from auepora_eval.io.labels import read_labels
from auepora_eval.labels.agreement import annotator_agreement
from auepora_eval.labels.batch import LabelBatch
from auepora_eval.labels.batch_plans import BatchOptions, create_batch
from auepora_eval.labels.queue import LabelQueue
from auepora_eval.store.runs import RunStore
from auepora_eval.ui.batch_planners import plan_batch
from helpers import stored_runs
from helpers.ui_server import UiServer, ui_server, workbench_page

RUNS: dict[str, tuple[str, ...]] = {"calibrate": ("old",), "compare": ("old", "new"), "review": ("old",)}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UiServer]:
    with RunStore.open(tmp_path_factory.mktemp("tell") / "runs.sqlite") as store:
        dataset = stored_runs.samples(20)
        stored_runs.run(store, "old", dataset, lambda number: f"answer {number}", ["token_f1"])
        stored_runs.run(store, "new", dataset, lambda number: f"other {number}", ["token_f1"])
        with ui_server(store) as server:
            yield server


def new_batch(server: UiServer, purpose: Any, **options: Any) -> LabelBatch:
    given = BatchOptions(purpose, RUNS[purpose], "t", "token_f1", **{"n": 10, **options})
    return create_batch(server.workbench.labels, plan_batch(server.workbench.store, given))


BATCHES: list[tuple[str, dict[str, Any], bool]] = [  # purpose, options, whether it can be chosen
    ("calibrate", {}, True),
    ("calibrate", {"scale": "1-5"}, True),
    ("compare", {}, True),
    ("compare", {"scale": "1-5"}, True),
    ("review", {"samples": ("q00001",)}, False),
]


@pytest.mark.parametrize(("purpose", "options", "is_offered"), BATCHES)
def test_where_it_can_be_chosen(server: UiServer, purpose: str, options: dict[str, Any], is_offered: bool) -> None:
    batch = new_batch(server, purpose, **options)
    page = server.get(f"/label/{batch.id}/item?as=ann").text
    assert ('value="cannot tell"' in page) == is_offered == ("<kbd>x</kbd> Cannot tell" in page)
    fields = {"as": "ann", "item": 1, "answer": "cannot tell", "comment": "no text", "submission": "a"}
    assert server.post(f"/label/{batch.id}/skip", fields).status == (303 if is_offered else 400)
    page = server.get(f"/label/{batch.id}/item?as=ann").text
    assert ("Item 2 of 10" in page, "0 of 10 labelled, 1 cannot tell" in page) == (is_offered, is_offered)
    assert read_labels(batch.journal) == []


def test_progress_and_the_end(server: UiServer) -> None:
    """It is answered: not among the skipped items at the end; another annotator can label it."""
    batch = new_batch(server, "calibrate", n=3)
    queue = LabelQueue(batch, server.workbench.store)
    queue.skip("ann", 1, "cannot tell", submission="a")
    queue.skip("ann", 2, "no text", submission="b")
    queue.submit("ann", 3, ["right"], submission="c")
    own = queue.annotator_progress("ann")
    assert (own.labelled, own.unclear, own.skipped, own.remaining) == (1, 1, 1, 0)
    assert (queue.skipped_items("ann"), queue.next("bob")) == ([2], 1)
    page = re.sub(r"<[^>]*>", " ", server.get(f"/batches/{batch.id}").text)
    assert re.search(r"Cannot tell\s+1\s+Skipped\s+1\s", page)
    states = server.get(f"/batches/{batch.id}/items").text
    assert ("ann cannot tell" in states, "skipped by ann" in states) == (True, True)
    queue.undo("bob")
    assert queue.undo("ann") == 3
    assert queue.undo("ann") == 2
    assert queue.undo("ann") == 1
    assert queue.annotator_progress("ann").unclear == 0


@pytest.mark.parametrize("purpose", ["calibrate", "compare"])
def test_results_name_it_and_leave_it_out(server: UiServer, purpose: str) -> None:
    batch = new_batch(server, purpose, annotators=2)
    queue = LabelQueue(batch, server.workbench.store)
    labels = {"calibrate": ["right", "wrong"], "compare": ["both", "neither"]}[purpose]
    for name in ("ann", "bob"):
        for number in range(1, 11):
            if (name, number) == ("bob", 4):
                queue.skip(name, number, "cannot tell: no text", submission="bob 4")
            else:
                queue.submit(name, number, [labels[number % 2]], submission=f"{name} {number}")
    (pair,) = annotator_agreement([batch.journal]).raters.pairs
    assert pair.agreement.units == (9 if purpose == "calibrate" else 18), "one answer, or two, of 9 of 10 items"
    queue.close("eve")
    results = server.get(f"/batches/{batch.id}").text
    assert "Annotators cannot tell 1 item: such labels count as missing." in results


@pytest.mark.slow
def test_by_keyboard(browser: Any, server: UiServer) -> None:
    batch = new_batch(server, "compare", scale="1-5")
    with workbench_page(browser, server, f"/label/{batch.id}/item?as=ann") as page:
        page.keyboard.press("4")  # the grade of the first answer alone
        page.keyboard.press("x")
        page.wait_for_selector("#label-item[data-item='2']")
        assert "Saved: Cannot tell" in page.locator("#label-status").inner_text()
        assert "0 of 10 labelled, 1 cannot tell" in page.locator("#label-count").inner_text()
        page.keyboard.press("u")
        page.wait_for_selector("#label-item[data-item='1']")
        assert "0 of 10 labelled" in page.locator("#label-count").inner_text()
