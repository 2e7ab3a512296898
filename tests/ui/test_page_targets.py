"""Figures of the pages: what a screen shows, how tall pages are, and whether they fit; on the demo and on 500 runs.

They are those of the design, measured with DejaVu Sans, the widest common font, with a tolerance of 5 %.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.cli.main import main
from auepora_eval.store.records import RunStatus
from auepora_eval.store.runs import RunStore
from helpers.accessibility import load_all
from helpers.requirements import missing
from helpers.stored_runs import samples, scored
from helpers.ui_server import UiServer, ui_server, workbench_page

pytestmark = [pytest.mark.slow, pytest.mark.part("chromium")]
FONT = Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")
TOLERANCE = 1.05
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
WIDTHS = (320, 390, 640, 1024, 1280)
MEASURE = """() => {
  const top = (selector) => document.querySelector(selector)?.getBoundingClientRect().top ?? null;
  const visible = [...document.querySelectorAll("[data-row]")].filter((row) => row.getBoundingClientRect().bottom <= innerHeight);
  return {
    bar: document.querySelector(".top").getBoundingClientRect().height,
    row: top("[data-row]"), visible: visible.length, rowHeight: visible[0]?.getBoundingClientRect().height,
    height: document.documentElement.scrollHeight,
  };
}"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UiServer]:
    if not FONT.exists():
        missing("font DejaVu Sans (fonts-dejavu-core)")
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("demo")
        patch.chdir(folder)
        patch.delenv("AUEPORA_STORE", raising=False)
        patch.setattr("auepora_eval.models.loading.find_installed_model", lambda: None)  # loading one takes a while
        with contextlib.suppress(SystemExit):
            main(["demo"])
        with RunStore.open("auepora-demo/runs.sqlite") as store, ui_server(store) as running:
            yield running


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UiServer]:
    """500 runs with settings that differ; every tenth failed."""
    with RunStore.open(tmp_path_factory.mktemp("many") / "runs.sqlite") as store:
        dataset = samples(4)
        for number in range(500):
            name = f"a run with a long name of about fifty characters {number}"
            if number % 10 == 3:
                record = store.create_run(name, dataset, dataset_name="made", plan={})
                store.finish(record.run_id, RunStatus.FAILED, message="the system failed")
            else:
                scores: dict[str, Sequence[float]] = {
                    "token_f1": [number % 3 / 2, 0, 1, 1],
                    "recall@1": [1, number % 2, 0, 1],
                }
                record = scored(store, name, dataset, scores)
            config = {"retriever": ("bm25", "dense")[number % 2], "top_k": number % 7, "model": "m"}
            store._change(record.run_id, {"config_json": json.dumps(config)})
        with ui_server(store) as running:
            yield running


def measured(page: Any, server: UiServer, path: str) -> dict[str, Any]:
    page.goto("about:blank")
    page.goto(server.address + path)
    load_all(page)
    page.wait_for_load_state("networkidle")
    found: dict[str, Any] = page.evaluate(MEASURE)
    return found


def pair_of(server: UiServer) -> str:
    new, old = (one.run_id for one in server.workbench.store.runs()[:2])
    return f"run={old}&run={new}"


def test_runs_fill_the_screen(browser: Any, many: UiServer) -> None:
    with workbench_page(browser, many, viewport=DESKTOP, reduced_motion="reduce") as page:
        found = measured(page, many, "/runs")
        assert found["bar"] == 48
        assert found["row"] < 220 * TOLERANCE
        assert found["rowHeight"] == pytest.approx(36, abs=1)
        assert found["visible"] >= 15
        page.set_viewport_size(PHONE)
        assert measured(page, many, "/runs")["row"] < 320


def test_the_pages_of_the_demo_are_as_compact_as_their_design(browser: Any, demo: UiServer) -> None:
    pair, new = pair_of(demo), demo.workbench.store.runs()[0].run_id
    low = f"/queries?run={new}&where=token_f1<0.3&where=recall@5=1&sort=token_f1"
    with workbench_page(browser, demo, viewport=DESKTOP, reduced_motion="reduce") as page:
        compare = measured(page, demo, f"/compare?{pair}")
        queries = measured(page, demo, low)
        page.set_viewport_size(PHONE)
        narrow_compare = measured(page, demo, f"/compare?{pair}#query-pane")
        narrow_queries = measured(page, demo, low)
    assert compare["row"] < 300 * TOLERANCE
    assert compare["height"] < 2_000 * TOLERANCE
    assert queries["row"] < 250 * TOLERANCE
    assert queries["height"] < 2_000 * TOLERANCE
    assert narrow_compare["row"] < 320 * TOLERANCE
    assert narrow_queries["row"] < 320 * TOLERANCE


MEASURE_QUERY = """() => {
  const box = (selector) => document.querySelector(selector)?.getBoundingClientRect();
  const rank = document.querySelectorAll(".document")[1].getBoundingClientRect();
  return {
    bar: box(".query-bar").bottom, answers: box("#answers").bottom, scores: box("#scores tbody").bottom,
    columns: [box(".known").width, box(".answers").width], rank: rank.height,
    height: document.documentElement.scrollHeight,
  };
}"""


def test_a_query_is_as_compact_as_its_design(browser: Any, demo: UiServer) -> None:
    pair, new = pair_of(demo), demo.workbench.store.runs()[0].run_id
    paths = [f"/query?{pair}&id=q44&where=token_f1=worse", f"/query?{pair}&id=q12", f"/query?run={new}&id=q44"]
    with workbench_page(browser, demo, viewport=DESKTOP, reduced_motion="reduce") as page:
        for path in paths:
            measured(page, demo, path)
            found = page.evaluate(MEASURE_QUERY)
            assert found["bar"] < 100, path
            assert found["columns"] == [280, 352], path
            assert found["rank"] == pytest.approx(80, abs=1), path
            assert found["answers"] < 860 - 40, path  # the bar at the bottom is 40 high
            assert found["scores"] < 860, path
            assert found["height"] < 1_100 * TOLERANCE, path
        page.set_viewport_size(PHONE)
        for path in paths:
            assert measured(page, demo, path)["height"] < 2_600 * TOLERANCE, path


def test_no_page_scrolls_to_the_side(browser: Any, demo: UiServer) -> None:
    pair, new = pair_of(demo), demo.workbench.store.runs()[0].run_id
    paths = ["/runs", f"/compare?{pair}", f"/queries?{pair}", f"/queries?run={new}", f"/runs/{new}"]
    paths += [
        f"/query?{pair}&id=q44",
        f"/query?{pair}&id=q44&open=all",
        f"/query?run={new}&id=q44",
        f"/review?run={new}",
    ]
    wide = []
    with workbench_page(browser, demo, viewport=DESKTOP, reduced_motion="reduce") as page:
        for path in paths:
            measured(page, demo, path)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                    wide.append((path, width))
    assert wide == []
