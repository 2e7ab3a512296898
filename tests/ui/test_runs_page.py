"""The list of runs: filters, order, trend, tags, comparison; in the browser with the keyboard alone."""

import json
import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from auepora_eval.core.conventions import Conventions
from auepora_eval.core.scores import Score, Scores
from auepora_eval.core.types import GOLD_BY
from auepora_eval.engine.evaluate import evaluate, resolve_metrics
from auepora_eval.runs.job import ScoringJob
from auepora_eval.runs.scoring import score_run
from auepora_eval.store.records import RunStatus, StoredOutput, to_iso
from auepora_eval.store.runs import RunStore, all_result_summaries
from auepora_eval.ui import run_table, runs_page
from auepora_eval.ui.numbers import decimals_of, time_ago
from auepora_eval.ui.run_table import read_results
from auepora_eval.ui.run_trend import trend_lines, trend_points
from helpers.run_columns import set_run_columns
from helpers.stored_runs import answering, run, samples, scored
from helpers.ui_server import UiServer, ui_server, workbench_page

HOSTILE = '</option><script>alert(1)</script>\u202e &amp;"'
FIRST_DAY = datetime(2026, 3, 1, 12, tzinfo=UTC)


def set_times(store: RunStore, run_id: str, day: int, **columns: Any) -> None:
    began = FIRST_DAY + timedelta(days=day)
    columns = {"created_at": to_iso(began), "finished_at": to_iso(began + timedelta(seconds=90)), **columns}
    set_run_columns(store, run_id, columns)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunStore]:
    """Runs of four days, by name: alpha, beta (other questions, two failures), gamma (failed), and a hostile one."""
    with RunStore.open(tmp_path_factory.mktemp("runs") / "runs.sqlite") as store:
        alpha = scored(store, "alpha", samples(4), {"token_f1": [1, 0, 1, 0], "recall@1": [1, 0, 0, 0]})
        store.tag(alpha.run_id, "nightly", "release 1")
        store.add_usage(alpha.run_id, {"total": {"cost": 1.25}})
        beta = run(
            store,
            "beta",
            samples(5),
            lambda n: RuntimeError("no reply") if n < 2 else "yes",
            ["token_f1"],
            tags=["nightly"],
        )
        gamma = store.create_run("gamma", samples(4), dataset_name="made", plan={})
        store.finish(gamma.run_id, RunStatus.FAILED, message="the system failed")
        hostile = scored(store, HOSTILE, samples(4), {"token_f1": [1, 1, 1, 0]})
        store.tag(hostile.run_id, HOSTILE)
        for day, one in enumerate((alpha, beta, gamma, hostile)):
            set_times(store, one.run_id, day, **({"dataset_name": "made"} if day == 1 else {}))
        yield store


@pytest.fixture(scope="module")
def ids(store: RunStore) -> dict[str, str]:
    return {one.name: one.run_id for one in store.runs()}


@pytest.fixture(scope="module")
def server(store: RunStore) -> Iterator[UiServer]:
    with ui_server(store) as server:
        yield server


def names(page: str) -> list[str]:
    """The names of the runs in the list, from the top."""
    found = re.findall(r'<a class="name"[^>]*><bdi>(.*?)</bdi>', page)
    return [unescape(one).replace("\\u202e", "\u202e") for one in found]  # control characters are shown as escapes


# --- filters and order -----------------------------------------------------------------------------------------------

LISTED = {
    "": [HOSTILE, "gamma", "beta", "alpha"],
    "q=ALPHA": ["alpha"],
    "q=release+nightly": ["alpha"],
    "q=nothing": [],
    'q=tag:"release 1"': ["alpha"],
    "q=token_f1>0.55+beta": ["beta"],
    "q=config.retriever:bm25": [],
    "where=tag!=nightly": [HOSTILE, "gamma"],
    "where=tag%3Dnightly": ["beta", "alpha"],
    "where=tag%3Anightly&q=bet": ["beta"],
    "q=status:failed": ["gamma"],
    "where=began%3E%3D2026-03-03": [HOSTILE, "gamma"],
    "where=began%3C%3D2026-03-02": ["beta", "alpha"],
    "where=began%3D2026-03-02": ["beta"],
    "sort=began": ["alpha", "beta", "gamma", HOSTILE],
    "sort=-metric": [HOSTILE, "beta", "alpha", "gamma"],
    "sort=recall@1": ["alpha", HOSTILE, "gamma", "beta"],
    "sort=-failures": ["beta", HOSTILE, "gamma", "alpha"],
    "sort=-cost": ["alpha", HOSTILE, "gamma", "beta"],
}


def test_the_runs_of_an_address(server: UiServer) -> None:
    found = {query: names(server.get(f"/runs?{quote(query, safe='=&+%')}&fragment=list").text) for query in LISTED}
    assert found == LISTED


def test_the_field_suggests_conditions_and_shows_those_of_the_address(server: UiServer) -> None:
    page = unescape(server.get("/runs?q=alpha+tag:nightly").text)
    assert '<option value="tag=nightly">2 runs</option>' in page
    assert '<option value="tag="release 1"">1 run</option>' in page
    assert 'name="where" value="tag=nightly"' in page
    assert 'name="q" maxlength="5000" value="alpha"' in page, "the condition is a token, the word stays"
    assert 'aria-label="Remove the condition tag=nightly"' in page


BAD_VALUES = {
    "where=began%3Dyesterday": "began must be a date such as 2026-11-18, not &#39;yesterday&#39;",
    "where=began%3C2026-02-30": "began must be a date",
    "q=status:broken": "status must be one of running, finished, stopped, failed, interrupted",
    "q=token_f2>0.5": "did you mean",
    "q=token_f1>much": "should be a number",
    "q=tag>a": "tag has no order",
    "q=tag:": "has no value",
    "sort=colour": "sort must be one of began, name, metric, dataset",
    "page=0": "page must be a number from 1",
    "page=x": "page must be a number from 1",
    "page=" + "0" * 5000: "page must be a number from 1",
    "compare=1&run=": "choose two or more runs",
}


def test_bad_values_of_parameters(server: UiServer) -> None:
    for query, message in BAD_VALUES.items():
        reply = server.get(f"/runs?{query}")
        assert (reply.status, message in reply.text) == (404 if "run=" in query else 400, "run=" not in query), query


def test_a_page_number_without_end_is_not_found(server: UiServer) -> None:
    for digits in (10, 5000):
        reply = server.get(f"/runs?page={'9' * digits}")
        assert (reply.status, "no list has so many pages" in reply.text) == (404, True)


def test_a_row_has_the_numbers_of_its_run_and_opens_its_queries(server: UiServer, ids: Mapping[str, str]) -> None:
    page = server.get("/runs?q=beta").text
    link = f"/queries?run={ids['beta']}&amp;where=answer%3Dfailed"
    assert f'href="{link}"' in page
    assert "2 of 5" in server.get(unescape(link)).text
    assert "2 failed</a>" in page
    assert ">0.60<" in page  # three of five answers are right
    assert "token_f1 0.6000, 95 % interval" in page
    assert "90 s" in server.get("/runs?q=beta&col=duration").text
    assert "<script>alert" not in server.get("/runs").text


@pytest.mark.slow
def test_the_judged_proportion_opens_the_queries_that_others_may_improve(tmp_path: Path) -> None:
    dataset = samples(4)
    for one in dataset:
        one.metadata[GOLD_BY] = {"human": 1}
    system = answering(lambda number: ["gold", "other"])
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        record = store.create_run("judged", dataset, dataset_name="made", plan={})
        rows = [StoredOutput(n, 0, one.sample_id, system(one, top_k=2)) for n, one in enumerate(dataset)]
        store.append(record.run_id, rows)
        score_run(
            ScoringJob(
                store, record, resolve_metrics([{"recall@2": {"name": "recall<2>"}}]), conventions=Conventions.of()
            )
        )
        store.finish(record.run_id)
        with ui_server(store) as server:
            page = server.get("/runs?col=judged").text
            link = f"/queries?run={record.run_id}&amp;where=%22recall%3C2%3E%22%3C1&amp;sort=%22recall%3C2%3E%22"
            assert f'href="{link}"' in page
            assert "0 of 4" in server.get(unescape(link)).text
    assert "50 % of the first 2 documents of judged are judged" in page


def test_every_column_sorts_by_its_link(tmp_path: Path) -> None:
    """Of three runs one has the larger cost and judged proportion, one the smaller, and one has neither."""
    columns = "&".join(f"col={key}" for key in run_table.EXTRAS)
    with RunStore.open(tmp_path / "runs.sqlite") as store, ui_server(store) as server:
        for name, amount in (("much", 0.9), ("none", None), ("little", 0.2)):
            priced = {} if amount is None else {"total_cost": [1.0] * 4}
            record = scored(store, name, samples(4), {"recall@1": [1, 0, 0, 1], **priced})
            store.add_usage(record.run_id, {"total": {"cost": 1.25}})
            for metric, key in (("recall@1", "judged"), ("total_cost", "total")) if priced else ():
                result = store.result(record.run_id, metric)
                result.details[key] = amount
                store.put_result(record.run_id, result)
        links = re.findall(r'<a href="(/runs[^"]*sort=[^"]*)" data-list', server.get(f"/runs?{columns}").text)
        replies = {re.findall(r"sort=-?(\w+)", link)[0]: server.get(unescape(link)) for link in links}
        ascending = {key: names(server.get(f"/runs?sort={key}").text) for key in ("judged", "system_cost")}
    assert run_table.EXTRAS.keys() - {"failures"} <= replies.keys(), "no run has a failure"
    assert {key: reply.status for key, reply in replies.items()} == dict.fromkeys(replies, 200)
    for key in ("judged", "system_cost"):
        assert names(replies[key].text) == ["much", "little", "none"]
        assert ascending[key] == ["little", "much", "none"]


def test_queries_that_a_judge_could_not_score_are_failures(tmp_path: Path) -> None:
    scores = [Score(1.0), Score.fail("unparseable"), Score.fail("timeout")]
    with RunStore.open(tmp_path / "runs.sqlite") as store, ui_server(store) as server:
        record = scored(store, "judged", samples(3), {"token_f1": Scores.from_list(scores)})
        page = server.get("/runs").text
        link = f"/queries?run={record.run_id}&amp;where=token_f1%3Dmeasure-failed"
        assert "2 not measured</a>" in page
        assert f'href="{link}"' in page
        assert "2 of 3" in server.get(unescape(link)).text


def test_pages_of_many_runs(server: UiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_page, "PAGE_SIZE", 3)
    assert names(server.get("/runs").text) == [HOSTILE, "gamma", "beta"]
    assert names(server.get("/runs?page=2").text) == ["alpha"]
    assert names(server.get("/runs?page=99").text) == ["alpha"]


def test_an_empty_store_shows_the_commands_that_make_a_run(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as store, ui_server(store) as server:
        page = server.get("/runs").text
    commands = re.findall(r'data-copy="([^"]*)"', page)
    assert [one.split()[1] for one in commands] == ["demo", "init", "run"]
    assert shlex.split(commands[-1])[-2:] == ["--store", str(tmp_path / "runs.sqlite")]


# --- trend -----------------------------------------------------------------------------------------------------------


def test_the_trend_is_broken_where_values_are_not_comparable(store: RunStore, server: UiServer) -> None:
    records = store.runs()
    points = trend_points(server.workbench, records, read_results(server.workbench, records), "token_f1")
    lines = trend_lines(points)
    assert [(one["run"], one["value"], one["change"]) for one in lines["made"]] == [
        ("alpha", 0.5, ""),
        ("beta", 0.6, "other questions or gold"),
        (HOSTILE, 0.75, "other questions or gold"),
    ]
    drawn = server.get("/runs?fragment=trend").text
    assert "1: 2026-03-02 made: other questions or gold" in drawn
    assert "token_f1 over runs" in drawn
    assert "no run has a value of none" in server.get("/runs?fragment=trend&metric=none").text


@pytest.mark.slow
def test_the_trend_names_the_option_that_changed(tmp_path: Path) -> None:
    dataset, system = samples(3), answering(lambda number: ["gold"])
    outputs = [system(one, top_k=1) for one in dataset]
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        for preset in ("auepora", "trec"):
            record = store.create_run("same name", dataset, dataset_name="made", plan={})
            store.put_results(record.run_id, evaluate(dataset, outputs, ["ndcg@5"], conventions=preset))
            store.finish(record.run_id)
        with ui_server(store) as server:
            records = store.runs()
            found = trend_points(server.workbench, records, read_results(server.workbench, records), "ndcg@5")
            points = trend_lines(found)["made"]
    assert points[0]["change"] == ""
    assert points[1]["change"].startswith("other signature (gain binary → linear")


def test_runs_without_a_usable_answer_are_marked_and_left_out_of_the_trend(
    tmp_path: Path, auepora: Callable[..., tuple[int, str, str]]
) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        skipped = {"no_reference": np.array([False, False, True])}
        scored(store, "three", samples(3), {"token_f1": Scores.of([1, 0, math.nan], skip=skipped)})
        run(store, "down", samples(3), lambda n: RuntimeError("no reply"), ["token_f1"])
        scored(store, "all", samples(3), {"token_f1": [1, 1, 0]})
        with ui_server(store) as server:
            page = server.get("/runs").text
            trend = server.get("/runs?fragment=trend").text
    rows = {
        name: row
        for row in page.split("<tr role")[2:]
        for name in ("three", "down", "all")
        if f"<bdi>{name}</bdi>" in row
    }
    assert [name for name, row in rows.items() if "no usable answer" in row] == ["down"]
    assert {name: re.findall(r"n = \d", row) for name, row in rows.items()} == {
        "all": ["n = 3"] * 2,
        "down": [],
        "three": ["n = 2"] * 2,
    }
    assert "3 failed" in rows["down"]
    assert "c-metric" not in rows["down"], "a run without answers has no values"
    assert "Runs without a usable answer are left out" in trend
    assert "three" in trend
    assert "down" not in trend
    out = auepora("runs", "--store", str(tmp_path / "runs.sqlite"))[1]
    listed = {line.split()[1]: " ".join(line.split()[2:]) for line in out.splitlines()[2:]}
    assert listed["down"].startswith("finished, no usable answer ")
    assert listed["down"].endswith("token_f1 0.00 (n = 3)"), "failures count"
    assert listed["three"].endswith("token_f1 0.50 (n = 2)")


def test_a_run_that_always_failed_is_resumed_with_its_failures(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        record = run(store, "down", samples(3), lambda n: RuntimeError("no reply"), ["token_f1"], keep_going=False)
        with ui_server(store) as server:
            page = unescape(server.get(f"/runs/{record.run_id}").text)
    assert (
        "This run failed (stopped: the first 3 calls all failed in the same way: raised: RuntimeError: no reply)"
        in page
    )
    assert f"auepora run PLAN.yaml --resume --run {record.run_id} --retry-failed --store" in page


def test_the_first_page_reads_no_results_again(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def read(store: RunStore, run_ids: Sequence[str]) -> object:
        asked.append(len(run_ids))
        return all_result_summaries(store, run_ids)

    monkeypatch.setattr(run_table, "all_result_summaries", read)
    with ui_server(store) as server:
        runs_page.prepare(server.workbench)
        server.get("/runs")
    assert asked[0] > 0
    assert sum(asked[1:]) == 0


def test_new_results_are_read(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as store, ui_server(store) as server:
        record = scored(store, "one", samples(2), {"token_f1": [1, 0]})
        assert ">0.50<" in server.get("/runs").text
        other = scored(store, "two", samples(2), {"token_f1": [1, 1]})
        assert names(server.get("/runs").text) == ["two", "one"]
        store.put_results(record.run_id, store.results(other.run_id))
        store.delete(other.run_id)
        page = server.get("/runs").text
        assert names(page) == ["one"]
        assert ">1.00<" in page


# --- comparison and tags ---------------------------------------------------------------------------------------------


def test_the_oldest_run_is_compared_first(server: UiServer, ids: Mapping[str, str]) -> None:
    reply = server.get(f"/runs?compare=1&run={ids['gamma']}&run={ids['alpha']}&run={ids['beta']}")
    assert reply.status == 303
    assert reply.headers["location"] == f"/compare?run={ids['alpha']}&run={ids['beta']}&run={ids['gamma']}"
    given = server.get(f"/runs?compare=1&ordered=1&run={ids['gamma']}&run={ids['alpha']}")
    assert given.headers["location"] == f"/compare?run={ids['gamma']}&run={ids['alpha']}"
    assert server.get(f"/runs?compare=1&run={ids['gamma']}").status == 400
    assert server.get(f"/runs?compare=1&run={ids['gamma']}&run=unknown").status == 404


def test_tags_are_added_and_removed(server: UiServer, store: RunStore, ids: Mapping[str, str]) -> None:
    run_id = ids["gamma"]
    reply = server.post(f"/runs/{run_id}/tags", {"add": f" {HOSTILE} ", "query": "sort=name"})
    assert (reply.status, reply.headers["location"]) == (303, "/runs?sort=name")
    assert store.get(run_id).tags == (HOSTILE,)
    cell = server.post(f"/runs/{run_id}/tags", {"add": "good", "fragment": "1"}).text
    assert re.findall(r"<bdi>good</bdi>", cell)
    (value,) = re.findall(r'name="remove" value="([^"]*)"', cell)[:1]
    server.post(f"/runs/{run_id}/tags", {"remove": unescape(value)})
    assert store.get(run_id).tags == ("good",)
    server.post(f"/runs/{run_id}/tags", {"remove": "good"})
    assert store.get(run_id).tags == ()
    for fields, status in (({"add": " "}, 400), ({"add": "x" * 101}, 400), ({}, 400)):
        assert server.post(f"/runs/{run_id}/tags", fields).status == status
    assert server.post("/runs/unknown/tags", {"add": "good"}).status == 404
    assert server.post(f"/runs/{run_id}/tags", {"add": "good"}, x_csrf_token="wrong").status == 403
    assert store.get(run_id).tags == ()


# --- columns, baseline and relative times ---------------------------------------------------------------------------


def test_columns_are_settings_that_differ_and_metrics(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as store, ui_server(store) as server:
        for number, score in enumerate((0.0, 0.5, 1.0)):
            record = scored(store, f"run {number}", samples(2), {"token_f1": [score, score], "recall@1": [1, 0]})
            config = {"retriever": ("bm25", "bm25", "dense")[number], "model": "m", "top_k": number}
            set_run_columns(store, record.run_id, {"config_json": json.dumps(config)})
        base = store.runs()[-1]
        page = server.get(f"/runs?baseline={base.run_id}").text
        assert names(page) == ["run 0", "run 2", "run 1"], "the baseline is on top"
        assert ">retriever<" in page
        assert ">model</bdi></a>" not in page, "all runs have the same model"
        assert page.count("unusual") == 1 + 3 - 1  # dense, and every top_k but the first most common
        assert re.findall(r'<span class="delta">([^<]*)</span>', page)[:2] == ["Δ base", "Δ base"]
        assert "+1.00" in page
        assert "−" not in page
        chosen = server.get("/runs?col=recall@1&col=config.model").text
        assert ("token_f1</bdi></a>" in chosen, ">model</bdi></a>" in chosen) == (False, True)
        by_setting = names(server.get("/runs?sort=-config.top_k").text)
        assert by_setting == ["run 2", "run 1", "run 0"]
        store.create_run("on other questions", samples(1), dataset_name="other", plan={})


def test_there_is_no_difference_to_a_run_on_other_questions(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as store, ui_server(store) as server:
        base = scored(store, "base", samples(2), {"token_f1": [1, 0]})
        scored(store, "other", samples(3), {"token_f1": [1, 1, 1]})
        page = server.get(f"/runs?baseline={base.run_id}").text
    assert re.findall(r'<span class="delta">([^<]*)</span>', page) == ["Δ base", "base", ""]


TIMES = {
    timedelta(seconds=20): "just now",
    timedelta(minutes=5): "5 min ago",
    timedelta(hours=3): "3 h ago",
    timedelta(days=3, hours=2): "3 days ago",
    timedelta(days=40): "2026-01-20",
}


def test_times_are_relative_for_a_month() -> None:
    assert {passed: time_ago(FIRST_DAY - passed, FIRST_DAY) for passed in TIMES} == TIMES


DIGITS = {
    (0.77, 0.89): 2,
    (0.167, 0.200): 3,
    (0.1657, 0.1979): 3,
    (0.5, 0.5): 2,
    (0.5, 0.5002): 4,
    None: 2,
}


def test_digits_follow_the_interval() -> None:
    assert {ends: decimals_of(ends) for ends in DIGITS} == DIGITS


# --- in the browser --------------------------------------------------------------------------------------------------


def test_the_page_with_the_keyboard_alone(
    browser: Any, server: UiServer, store: RunStore, ids: Mapping[str, str]
) -> None:
    with workbench_page(browser, server, "/runs") as page:
        page.keyboard.press("/")
        page.keyboard.type("alph")
        page.locator("#run-count", has_text="1 of 4 runs").wait_for()
        assert page.url.endswith("/runs?q=alph")
        assert page.evaluate("document.activeElement.id") == "search"
        page.locator(".strip-value a").focus()
        page.keyboard.press("Enter")
        page.locator(".drawer svg").first.wait_for()
        page.keyboard.press("Escape")
        tick(page, "alpha")
        page.locator("#search").fill("beta")
        page.locator("#run-count", has_text="1 of 4 runs").wait_for()
        page.locator("th bdi", has_text="beta").wait_for()
        # j goes to the row, Space chooses it.
        page.locator("#search").blur()
        page.keyboard.press("j")
        page.keyboard.press("Space")
        assert page.locator("#chosen bdi").all_text_contents() == ["alpha", "beta"]
        change_tags(page, store, ids["beta"])
        page.keyboard.press("Escape")
        page.locator("#swap-choice").press("Enter")
        assert page.locator("#chosen bdi").all_text_contents() == ["beta", "alpha"]
        page.locator("#swap-choice").press("Enter")
        page.keyboard.press("c")
        page.wait_for_url(f"**/compare?run={ids['alpha']}&run={ids['beta']}")


def tick(page: Any, name: str) -> None:
    box = page.get_by_role("checkbox", name=f"Compare {name}")
    box.focus()
    page.keyboard.press("Space")


def change_tags(page: Any, store: RunStore, run_id: str) -> None:
    page.locator(".tag-editor summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("checked")
    page.keyboard.press("Enter")
    page.locator(".tags a.tag", has_text="checked").wait_for()
    assert store.get(run_id).tags == ("nightly", "checked")
    page.locator("button", has_text="Remove checked").focus()
    page.keyboard.press("Enter")
    page.locator(".tags a.tag", has_text="checked").wait_for(state="detached")
    assert store.get(run_id).tags == ("nightly",)


def test_conditions_and_order_in_the_browser(browser: Any, server: UiServer) -> None:
    with workbench_page(browser, server, "/runs", viewport={"width": 360, "height": 800}) as page:
        page.locator("#search").fill("tag:nightly")
        page.keyboard.press("Enter")
        page.locator("#run-count", has_text="2 of 4 runs").wait_for()
        page.locator(".token", has_text="tag=nightly").wait_for()
        assert page.locator("#search").input_value() == ""
        page.get_by_role("link", name="Run", exact=True).focus()
        page.keyboard.press("Enter")
        page.locator("th[aria-sort=ascending]", has_text="Run").wait_for(state="attached")
        assert page.url.endswith("/runs?where=tag%3Dnightly&sort=name")
        page.reload()
        assert page.locator("tbody .name bdi").all_text_contents() == ["alpha", "beta"]
        page.locator("#search").fill("began<=2026-03-01")
        page.keyboard.press("Enter")
        page.locator("#run-count", has_text="1 of 4 runs").wait_for()
        page.go_back()
        page.locator("#run-count", has_text="2 of 4 runs").wait_for()
        page.get_by_role("link", name="Remove the condition tag=nightly").click()
        page.locator("#run-count", has_text="4 of 4 runs").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_columns_and_baseline_are_kept_in_the_address_and_the_browser(
    browser: Any, server: UiServer, ids: Mapping[str, str]
) -> None:
    with workbench_page(browser, server, "/runs") as page:
        page.locator("#columns summary").click()
        page.locator("#columns").get_by_label("duration").check()
        page.locator("th", has_text="duration").wait_for()
        assert page.locator("#columns").get_attribute("open") is not None, "the menu stays open"
        page.locator("#baseline").select_option(ids["alpha"])
        page.locator("tr.pinned", has_text="alpha").wait_for()
        assert "col=duration" in page.url
        assert f"baseline={ids['alpha']}" in page.url
        page.goto(server.address + "/runs")
        page.locator("tr.pinned", has_text="alpha").wait_for()
        page.locator("th", has_text="duration").wait_for()
        page.goto(server.address + "/runs?col=cost&baseline=none")
        assert page.locator("th", has_text="duration").count() == 0
