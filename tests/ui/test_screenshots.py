"""The report and the workbench of the demo in a real browser, and the pictures of them in the documentation.

``AUEPORA_WRITE_SCREENSHOT=1`` writes the files in ``docs/images/`` again; with Pillow their colours are reduced.
"""

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from auepora_eval.cli.main import main
from auepora_eval.labels.batch_plans import BatchOptions, create_batch
from auepora_eval.store.runs import RunStore
from auepora_eval.ui.batch_planners import plan_batch
from helpers.accessibility import load_all
from helpers.browser_page import Watched
from helpers.requirements import REPO
from helpers.ui_server import UiServer, ui_server, workbench_page

IMAGES = REPO / "docs" / "images"
MAX_BYTES = 150_000
VIEWPORT = {"width": 1200, "height": 900}


@pytest.fixture(scope="module")
def interval_draws() -> None:
    """Pictures show intervals of all draws."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder that `auepora demo` writes."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("demo")
        patch.chdir(folder)
        patch.delenv("AUEPORA_STORE", raising=False)
        patch.setattr("auepora_eval.models.loading.find_installed_model", lambda: None)  # loading one takes a while
        with contextlib.suppress(SystemExit):
            main(["demo"])
        yield folder / "auepora-demo"


@pytest.fixture(scope="module")
def server(demo: Path) -> Iterator[UiServer]:
    # The header shows the path of the store: as a user gives it, not that of a temporary folder.
    with RunStore.open("auepora-demo/runs.sqlite") as store, ui_server(store, plans=demo) as running:
        yield running


def check_picture(name: str, picture: bytes) -> None:
    """Compare the size of a picture with the file in the documentation; write the file where the environment says so."""
    path = IMAGES / f"{name}.png"
    if os.environ.get("AUEPORA_WRITE_SCREENSHOT") == "1":
        path.write_bytes(reduce_colours(picture))
    written = path.read_bytes()
    assert len(written) < MAX_BYTES
    assert written[:24] == picture[:24], "signature, header, width and height"


def reduce_colours(picture: bytes) -> bytes:
    """The picture with a palette of 128 colours, which is a third of the size."""
    from PIL import Image

    reduced = io.BytesIO()
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    method = Image.Quantize.MAXCOVERAGE  # the default method drops colours of few pixels, such as that of gold
    image.quantize(128, method, dither=Image.Dither.NONE).save(reduced, "PNG", optimize=True)
    return reduced.getvalue()


def test_report_of_the_demo_renders(browser: Any, demo: Path) -> None:
    path = demo / "report.html"
    context = browser.new_context(viewport=VIEWPORT, color_scheme="light")
    context.set_default_timeout(30_000)
    watched = Watched(context.new_page())
    page = watched.open(path)
    assert "bm25" in page.locator("body").inner_text()
    assert page.locator("svg").count() > 0
    picture = page.screenshot()
    watched.check(path)
    context.close()
    check_picture("report", picture)


def test_workbench_of_the_demo_renders(browser: Any, server: UiServer) -> None:
    newest, oldest = server.workbench.store.runs()
    pair = [("run", oldest.run_id), ("run", newest.run_id)]
    pages = {
        "workbench-runs": "/runs?metric=token_f1",
        "workbench-run": f"/runs/{newest.run_id}",
        "workbench-compare": f"/compare?{urlencode(pair)}",
        "workbench-queries": f"/queries?{urlencode([*pair, ('where', 'token_f1=worse'), ('where', 'rank<=5')])}",
        "workbench-query": f"/query?{urlencode([*pair, ('id', 'q12')])}",
    }
    with workbench_page(browser, server, viewport=VIEWPORT, color_scheme="light", reduced_motion="reduce") as page:
        for name, path in pages.items():
            page.goto(server.address + path)
            load_all(page)
            assert "quickstart" in page.locator("main").inner_text()
            check_picture(name, page.screenshot())


def test_labels_and_gold_of_the_demo_render(browser: Any, server: UiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ann")  # the name in forms
    workbench = server.workbench
    new, old = workbench.store.runs()
    instructions = "An answer is right if it answers the question and nothing in it is false."
    options = BatchOptions(
        "compare",
        (old.run_id, new.run_id),
        title="Release: bm25 or the baseline?",
        metric="token_f1",
        n=40,
        annotators=2,
        instructions=instructions,
    )
    batch = create_batch(workbench.labels, plan_batch(workbench.store, options))
    queue = workbench.queue(batch.id)
    choices = ("first", "second", "both", "second")
    for name, count, period in (("Ann", 40, 40), ("Bob", 23, 9)):
        for number in range(1, count + 1):
            value = choices[number % 4] if number % period else "neither"
            if queue.item(number).has_equal_answers and value != "neither":
                value = "both"
            assert queue.submit(name, number, [value], submission=f"{name} {number}").outcome == "saved"
    third = next(row for row in workbench.store.outputs(new.run_id, position=2))
    document = third.output.retrieved[1].doc.doc_id
    for sample, proposal in {
        "q12": {"kind": "references", "reference": "No answer was asked for.", "why": "It is not about None alone."},
        third.sample_id: {"kind": "grade", "other": document, "grade": "2", "why": "It has a part of the answer."},
    }.items():
        path = f"/gold/propose?{urlencode({'run': new.run_id, 'id': sample})}"
        assert server.post(path, {**proposal, "by": "Ann"}).status == 303
    pages = {
        "workbench-batch": f"/batches/{batch.id}",
        "workbench-label": f"/label/{batch.id}/item?as=Bob",
        "workbench-gold": "/gold",
    }
    with workbench_page(browser, server, viewport=VIEWPORT, color_scheme="light", reduced_motion="reduce") as page:
        for name, path in pages.items():
            page.goto(server.address + path)
            load_all(page)
            check_picture(name, page.screenshot())
