"""Figures of the pages: what a screen shows, how tall pages are, and whether they fit; on the demo and on 500 runs.

They are those of the design, measured with DejaVu Sans, the widest common font, with a tolerance of 5 %.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.cli.main import main
from auepora_eval.labels.batch import LabelBatch
from auepora_eval.labels.batch_plans import BatchOptions, create_batch
from auepora_eval.store.records import RunStatus, StoredOutput
from auepora_eval.store.runs import RunStore
from auepora_eval.ui.batch_planners import plan_batch
from auepora_eval.ui.run_tabs import TABS
from helpers.accessibility import load_all
from helpers.requirements import missing
from helpers.run_columns import set_run_columns
from helpers.stored_runs import run, samples, scored
from helpers.ui_server import UiServer, ui_server, wait_until_filled, workbench_page

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
    row: top("[data-row]"), tabs: top(".tabs"), tiles: document.querySelectorAll(".tile").length, visible: visible.length, rowHeight: visible[0]?.getBoundingClientRect().height,
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
            set_run_columns(store, record.run_id, {"config_json": json.dumps(config)})
        with ui_server(store) as running:
            yield running


def measured(page: Any, server: UiServer, path: str) -> dict[str, Any]:
    page.goto("about:blank")
    page.goto(server.address + path)
    load_all(page)
    wait_until_filled(page)
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


def test_the_trend_of_runs_has_the_whole_name_of_its_metric(browser: Any, demo: UiServer) -> None:
    with workbench_page(browser, demo, viewport=DESKTOP, reduced_motion="reduce") as page:
        measured(page, demo, "/runs")
        menu, strip = page.locator("#metric").bounding_box(), page.locator("#trend .strip").bounding_box()
        assert menu["width"] > 100
        assert menu["x"] + menu["width"] <= strip["x"]


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


def test_the_page_of_a_run_is_as_compact_as_its_design(browser: Any, demo: UiServer) -> None:
    path = f"/runs/{demo.workbench.store.runs()[0].run_id}"
    with workbench_page(browser, demo, viewport=DESKTOP, reduced_motion="reduce") as page:
        found = measured(page, demo, path)
        page.set_viewport_size(PHONE)
        narrow = measured(page, demo, path)
    assert found["tiles"] == 6
    assert found["tabs"] < 450 * TOLERANCE
    assert found["height"] < 1_800 * TOLERANCE
    assert narrow["height"] < 4_100 * TOLERANCE


def test_a_phone_reaches_baseline_options_and_report(browser: Any, demo: UiServer) -> None:
    """They are symbols without text on a phone, and keep their names for screen readers."""
    pair = pair_of(demo)
    with workbench_page(browser, demo, viewport=PHONE, reduced_motion="reduce") as page:
        measured(page, demo, "/runs")
        page.locator("#baseline").select_option(index=1)
        page.wait_for_url("**baseline=**")
        wait_until_filled(page)
        measured(page, demo, f"/compare?{pair}")
        page.locator(".options summary").click()
        menu = page.get_by_label("Adjustment of p-values")
        box = menu.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"]
        with page.expect_download() as download:
            page.get_by_role("link", name="Report").click()
        assert download.value.suggested_filename.endswith(".html")


def test_comparisons_among_many_runs_are_as_compact(browser: Any, many: UiServer) -> None:
    new, other, third = [one.run_id for one in many.workbench.store.runs(status="finished")][:3]
    with workbench_page(browser, many, viewport=DESKTOP, reduced_motion="reduce") as page:
        compare = measured(page, many, f"/compare?run={new}&run={other}")
        queries = measured(page, many, f"/queries?run={new}")
        leaderboard = measured(page, many, f"/compare?run={new}&run={other}&run={third}")
        groups = measured(page, many, f"/queries/groups?run={new}&correct=recall@1&correct_from=1")
    assert compare["row"] < 300 * TOLERANCE
    assert queries["row"] < 250 * TOLERANCE
    assert max(compare["height"], queries["height"], leaderboard["height"], groups["height"]) < 2_000 * TOLERANCE


def test_no_page_scrolls_to_the_side(browser: Any, demo: UiServer) -> None:
    pair, new = pair_of(demo), demo.workbench.store.runs()[0].run_id
    paths = ["/runs", f"/compare?{pair}", f"/queries?{pair}", f"/queries?run={new}"]
    paths += [f"/runs/{new}?tab={name}" for name in TABS]
    paths += [
        f"/query?{pair}&id=q44",
        f"/query?{pair}&id=q44&open=all",
        f"/query?run={new}&id=q44",
        f"/review?run={new}",
    ]
    with workbench_page(browser, demo, viewport=DESKTOP, reduced_motion="reduce") as page:
        assert wide_pages(page, demo, paths, WIDTHS) == []


def wide_pages(page: Any, server: UiServer, paths: Sequence[str], widths: Sequence[int]) -> list[tuple[str, int]]:
    """The pages that scroll to the side, with the width of the window."""
    wide = []
    for path in paths:
        measured(page, server, path)
        for width in widths:
            page.set_viewport_size({"width": width, "height": 900})
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                wide.append((path, width))
        page.set_viewport_size(DESKTOP)
    return wide


LONG_TEXTS = ("检索增强生成系统的评估" * 364, "نظام توليد معزز بالاسترجاع " * 149)
"""4,000 characters in Chinese and in Arabic."""


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UiServer]:
    """Two runs with names of 60 characters, 40 metrics, 30 gold documents, and long answers."""
    gold = [Document(f"document-{number}", LONG_TEXTS[number % 2][:300]) for number in range(30)]
    dataset = [
        EvaluationSample(f"q{number}", text[:400], relevant_docs=gold, reference_answer=Response(text))
        for number, text in enumerate(5 * LONG_TEXTS)
    ]

    def answer(number: int, skipped: int = 0) -> SystemOutputs:
        hits = [RetrievedDocument(one, 1.0 / rank, rank) for rank, one in enumerate(gold, 1)]
        return SystemOutputs(hits, Response(LONG_TEXTS[number % 2][skipped:]), {"end_to_end": 1.5})

    metrics: list[Any] = [f"{name}@{k}" for name in ("recall", "precision", "ndcg") for k in range(1, 13)]
    metrics += ["token_f1", "containment", "failure_attribution@5", "mean_latency[end_to_end]"]
    config = {"a_setting_with_a_long_name_without_spaces": "x" * 200}
    with RunStore.open(tmp_path_factory.mktemp("long") / "runs.sqlite") as store:
        for number in range(2):
            run(
                store,
                f"{number}{'n' * 59}",
                dataset,
                partial(answer, skipped=99 * number),
                metrics,
                config=config,
                tags=["t" * 60],
            )
        running = store.create_run("r" * 60, dataset, dataset_name="d" * 60, plan={"metrics": metrics[:3]})
        store.append(running.run_id, [StoredOutput(0, 0, "q0", answer(0))])
        with ui_server(store) as server:
            yield server


@pytest.fixture(scope="module")
def batch(long: UiServer) -> LabelBatch:
    """A batch over the answers of the long runs, whose documents and references are shown."""
    runs = tuple(one.run_id for one in long.workbench.store.runs()[1:])
    shown = ("documents", "reference")
    options = BatchOptions(
        "compare", runs, metric="token_f1", n=10, title="b" * 60, instructions="i" * 500, shown=shown
    )
    return create_batch(long.workbench.labels, plan_batch(long.workbench.store, options))


def test_long_texts_fit(browser: Any, long: UiServer, batch: LabelBatch) -> None:
    latest = [one.run_id for one in long.workbench.store.runs()]
    pair, new = f"run={latest[2]}&run={latest[1]}", latest[1]
    paths = ["/runs", f"/compare?{pair}", f"/queries?{pair}", f"/query?{pair}&id=q0", f"/query?run={new}&id=q1"]
    paths += ["/batches", f"/batches/{batch.id}", f"/label/{batch.id}/item?as=ann", "/live", "/gold", "/plans"]
    paths += [f"/review?run={new}", f"/plans/view?run={new}", "/batches/new?purpose=compare"]
    paths += [f"/compare?{pair}#query-pane", f"/queries/groups?{pair}&correct=token_f1&correct_from=0.5"]
    paths += [f"/runs/{new}?tab={name}" for name in TABS]
    with workbench_page(browser, long, viewport=DESKTOP, reduced_motion="reduce") as page:
        assert wide_pages(page, long, paths, (320, 390, 1280)) == []
        for path in (f"/queries?{pair}", f"/runs/{new}?tab=queries"):
            assert measured(page, long, path)["rowHeight"] <= 240


def test_of_many_primary_metrics_the_first_are_open(browser: Any, long: UiServer) -> None:
    new, old = [one.run_id for one in long.workbench.store.runs(status="finished")][:2]
    with workbench_page(browser, long, viewport=PHONE, reduced_motion="reduce") as page:
        assert measured(page, long, f"/compare?run={old}&run={new}")["height"] < 2_000
        names = page.locator(".forest-table .metric-name:visible")
        assert (names.count(), names.first.inner_text()) == (8, "token_f1")
        folded = page.locator("details.fold", has_text="more primary metrics")
        folded.locator("summary").click()
        assert names.count() == 39
