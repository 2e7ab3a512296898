"""Pairs of answers with the same text in batches of earlier versions: shown once, and one label is about both."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from auepora_eval.calibration import label_plans
from auepora_eval.errors import BadValueError
from auepora_eval.io.labels import read_labels
from auepora_eval.labels.batch import LabelBatch
from auepora_eval.labels.batch_plans import BatchOptions, create_batch
from auepora_eval.labels.queue import LabelQueue
from auepora_eval.store.runs import RunStore
from auepora_eval.ui.batch_planners import plan_batch
from auepora_eval.ui.workbench import page_message
from helpers import stored_runs
from helpers.ui_server import UiServer, ui_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UiServer]:
    """Two runs whose answers to every second question are equal but for spaces."""
    with RunStore.open(tmp_path_factory.mktemp("equal") / "runs.sqlite") as store:
        dataset = stored_runs.samples(20)
        stored_runs.run(store, "old", dataset, lambda number: f"answer {number}", ["token_f1"])
        stored_runs.run(store, "new", dataset, lambda n: f"answer {n}\n" if n % 2 else f"other {n}", ["token_f1"])
        with ui_server(store) as server:
            yield server


def new_batch(server: UiServer, **options: Any) -> LabelBatch:
    """A batch as earlier versions drew it, with pairs whose answers are equal."""
    given = {"purpose": "compare", "runs": ("old", "new"), "n": 20, "metric": "token_f1", **options}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(label_plans, "find_equal_answers", lambda *_: set())
        plan = plan_batch(server.workbench.store, BatchOptions(title="t", **given))
    return create_batch(server.workbench.labels, plan)


def pair(server: UiServer, batch: LabelBatch) -> tuple[int, int]:
    """The numbers of an item with equal answers and of one with different ones."""
    queue = LabelQueue(batch, server.workbench.store)
    numbers = range(1, len(batch.items) + 1)
    equal = next(number for number in numbers if queue.item(number).has_equal_answers)
    return equal, next(number for number in numbers if not queue.item(number).has_equal_answers)


def test_equal_answers_are_shown_once_and_have_one_label(server: UiServer) -> None:
    batch = new_batch(server)
    equal, different = pair(server, batch)
    page = server.get(f"/label/{batch.id}/item?as=ann&item={equal}").text
    assert re.findall(r'class="quiet choice" name="value" value="([a-z]+)"', page) == ["both", "neither"]
    assert ("one label is about both" in page, "First answer" in page) == (True, False)
    other = server.get(f"/label/{batch.id}/item?as=ann&item={different}").text
    assert len(re.findall(r'name="value"', other)) == 4
    assert ("one label is about both" in other, "First answer" in other) == (False, True)
    common = {"as": "ann", "item": equal}
    for value in ("first", "second"):
        reply = server.post(f"/label/{batch.id}/label", {**common, "value": value, "submission": value})
        assert (reply.status, "both answers have the same text" in reply.text) == (400, True)
    assert read_labels(batch.journal) == []
    assert server.post(f"/label/{batch.id}/label", {**common, "value": "both", "submission": "b"}).status == 303
    assert [label.label for label in read_labels(batch.journal)] == ["right", "right"]


def test_one_grade_for_both(server: UiServer) -> None:
    batch = new_batch(server, scale="1-5")
    equal, _ = pair(server, batch)
    page = server.get(f"/label/{batch.id}/item?as=ann&item={equal}").text
    assert re.findall(r"<legend>(.*?)</legend>", page) == ["Both answers"]
    fields = {"as": "ann", "item": equal, "first": "4", "submission": "one grade"}
    assert server.post(f"/label/{batch.id}/label", fields).status == 303
    assert [label.label for label in read_labels(batch.journal)] == [4, 4]


def test_contradictions_are_refused_by_the_queue(server: UiServer) -> None:
    """Also where the item was not shown before."""
    batch = new_batch(server)
    equal, different = pair(server, batch)
    queue = LabelQueue(batch, server.workbench.store)
    with pytest.raises(BadValueError, match="both answers have the same text"):
        queue.submit("ann", equal, ["first"], submission="a")
    assert queue.submit("ann", different, ["first"], submission="b").outcome == "saved"


MESSAGES = [  # error, on a page, why
    ("choose the metric (-m); there are a and b", "choose the metric; there are a and b", "a short option"),
    ("set --threshold (threshold=), the score", "set threshold, the score", "an option and its parameter"),
    ("leave these out with --leave-out-tuned (leave_out_tuned=True)", "leave these out with leave-out-tuned", "both"),
    (
        "`auepora rescore R -m NAME --json` computes them",
        "`auepora rescore R -m NAME --json` computes them",
        "a command",
    ),
    ("a value of -1, or 3--4, and a--b", "a value of -1, or 3--4, and a--b", "no option"),
]


@pytest.mark.parametrize(("message", "shown", "why"), MESSAGES, ids=[why for *_, why in MESSAGES])
def test_pages_name_no_options_of_commands(message: str, shown: str, why: str) -> None:
    assert page_message(BadValueError(message)) == shown, why


def test_the_form_of_a_batch_names_no_option(server: UiServer) -> None:
    form = {"purpose": "calibrate", "run": "old", "n": "5", "id": "0123456789ab"}
    forecast = server.get("/batches/forecast?" + urlencode({**form, "purpose": "compare", "run": "old"}))
    assert forecast.status == 200
    assert not re.search(r"\(-m\)|--[a-z]", re.sub(r"<[^>]*>", "", forecast.text))
