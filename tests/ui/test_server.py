"""The server of the workbench: start and end, stores that cannot be used, errors as pages, and the cache."""

import json
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from http.cookiejar import CookieJar
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import unquote
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from auepora_eval import Response, SystemOutputs
from auepora_eval.core.scores import Scores
from auepora_eval.errors import BadValueError, MissingDependencyError, StoreError, UnknownRunError
from auepora_eval.store.records import RunRecord, StoredOutput
from auepora_eval.store.runs import RunStore, result_summaries, result_with_scores
from auepora_eval.ui.workbench import Workbench, error_status, make_url, run_url
from helpers.stored_runs import samples, scored
from helpers.ui_server import UiServer, start_process, ui_server, workbench_page

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with one run."""
    path = tmp_path / "runs.sqlite"
    with RunStore.open(path) as store:
        scored(store, "first", samples(3), {"recall@1": [1, 0, 1]})
    return path


@contextmanager
def serving(path: Path, **options: Any) -> Iterator[tuple[UiServer, RunStore]]:
    with RunStore.open(path, create=False, timeout=0.1) as store, ui_server(store, **options) as server:
        yield server, store


# --- stores that cannot be used --------------------------------------------------------------------------------------


def test_a_store_that_cannot_be_opened(tmp_path: Path, path: Path, auepora: Call) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE eval_schema SET version = 999")
    connection.close()
    (tmp_path / "text.sqlite").write_text("not a database, but a text that is long enough to be read as one" * 20)
    for name, problem in {
        "missing.sqlite": "does not exist; check the name, or make a run first",
        ".": "is a folder; name a file in it",
        "runs.sqlite": "upgrade auepora_eval",
        "text.sqlite": "is not a store",
    }.items():
        code, out, err = auepora("ui", "--store", str(tmp_path / name), "--no-open", "--port", "0")
        assert (code, out) == (2, "")
        assert problem in err
    assert not (tmp_path / "missing.sqlite").exists()


def test_a_port_in_use(path: Path, auepora: Call) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        code, out, err = auepora("ui", "--store", str(path), "--no-open", "--port", str(port))
    assert (code, out) == (2, "")
    assert f"port {port} cannot be used: Address already in use" in err
    assert "--port 0" in err


def test_an_empty_store(tmp_path: Path) -> None:
    RunStore.open(tmp_path / "runs.sqlite").close()
    with serving(tmp_path / "runs.sqlite") as (server, _):
        assert server.get("/runs").status == 200
        assert server.get("/live").status == 200


@pytest.mark.slow
def test_a_store_that_is_deleted_or_damaged_while_it_is_open(path: Path) -> None:
    with serving(path) as (server, store):
        assert server.get("/runs").status == 200
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE eval_runs SET plan_json = '{'")
        reply = server.get("/runs")
        assert (reply.status, "is damaged: what it holds cannot be read" in reply.text) == (500, True)
        path.unlink()
        reply = server.get("/runs")
        assert (reply.status, "was deleted or replaced while it was open" in reply.text) == (500, True)
        assert not path.exists()
        store.close()


def test_a_run_that_is_deleted_while_it_is_shown(path: Path) -> None:
    with serving(path) as (server, store):
        (record,) = store.runs()
        assert server.get(f"/runs/{record.run_id}").status == 200
        (summary,) = result_summaries(store, record.run_id)
        store.delete(record.run_id)
        with pytest.raises(UnknownRunError, match="was deleted"):
            result_with_scores(store, record.run_id, summary)
        reply = server.get(f"/runs/{record.run_id}")
        assert (reply.status, f"no run is called &#39;{record.run_id}&#39;" in reply.text) == (404, True)


@pytest.mark.slow
def test_a_run_with_a_difficult_id_is_linked_everywhere(path: Path) -> None:
    with serving(path, plans=path.parent) as (server, store):
        record = store.create_run("odd", samples(1), dataset_name="made", plan={}, run_id='a/b c?#%2F"é')
        store.append(record.run_id, [StoredOutput(0, 0, "q00000", SystemOutputs([], Response("yes")))])
        store.finish(record.run_id)
        link = run_url(record)
        assert "<h1><bdi>odd" in server.get(link).text
        assert server.get(f"{link}/sections/provenance").status == 200
        assert server.post(f"{link}/tags", {"add": "late"}).status == 303
        of_run = {"run": record.run_id, "id": "q00000"}
        addresses = [make_url(one, **of_run) for one in ("/queries", "/query", "/plans/view")]
        missing = [one for one in ["/runs", "/live", "/plans", *addresses] if f'"{link}"' not in server.get(one).text]
        assert missing == []


@pytest.mark.slow
def test_a_locked_store_can_be_read(path: Path) -> None:
    with serving(path) as (server, store), closing(sqlite3.connect(path, isolation_level=None)) as other:
        (record,) = store.runs()
        other.execute("BEGIN IMMEDIATE")
        assert server.get("/runs").status == 200
        reply = server.post(f"/runs/{record.run_id}/tags", {"add": "late"}, accept="application/json")
        assert (reply.status, "is locked by another process" in reply.json()["error"]) == (503, True)
        other.execute("ROLLBACK")
        assert store.get(record.run_id).tags == ()


@pytest.mark.slow
def test_a_store_that_cannot_be_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auepora_eval.store.connect.is_writable", lambda path: False)  # the tests may run as root
    with serving(path) as (server, store):
        (record,) = store.runs()
        assert server.get("/runs").status == 200
        reply = server.post(f"/runs/{record.run_id}/tags", {"add": "late"}, accept="application/json")
        assert (reply.status, "is read-only" in reply.json()["error"]) == (500, True)


@pytest.mark.part("postgres")
def test_a_store_on_postgresql(postgres_url: str, capfd: pytest.CaptureFixture[str]) -> None:
    quoted = postgres_url.partition("://")[2].rpartition("@")[0].partition(":")[2]
    assert quoted
    with RunStore.open(postgres_url) as store:
        record = scored(store, "first", samples(3), {"recall@1": [1, 0, 1]})
        with ui_server(store) as server:
            pages = ["/runs", f"/runs/{record.run_id}", "/live", f"/queries?run={record.run_id}", "/runs/unknown"]
            replies = [server.get(page) for page in pages]
            assert [one.status for one in replies] == [200, 200, 200, 200, 404]
            assert store.label in replies[0].text
    shown = [one.text for one in replies] + list(capfd.readouterr())
    assert [one for one in shown if quoted in one or unquote(quoted) in one] == []


# --- errors as pages, fragments or JSON ------------------------------------------------------------------------------

STATUSES = {
    404: UnknownRunError("no run is called 'x'"),
    503: StoreError("runs.sqlite", "is locked by another process (waited 5 s)"),
    500: StoreError("runs.sqlite", "is damaged"),
    400: BadValueError("unknown condition"),
    501: MissingDependencyError("pyarrow", purpose="Parquet", install="pyarrow"),
}


@pytest.mark.parametrize("status", STATUSES)
def test_status_of_an_error(status: int) -> None:
    assert error_status(STATUSES[status]) == status


def test_an_error_in_the_form_that_was_requested(path: Path) -> None:
    with serving(path) as (server, _):
        page = server.get("/runs/%3Cb%3Eno%3C%2Fb%3E%E2%80%AE")
        assert (page.status, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert "<h1>Not found</h1>" in page.text
        assert "<b>" not in page.text
        assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in page.text
        fragment = server.get("/runs/no", **{"sec-fetch-dest": "empty"})
        assert fragment.text.startswith('<p class="banner bad" role="alert"><strong>Not found.</strong>')
        data = server.get("/runs/no", accept="application/json")
        assert (data.status, list(data.json())) == (404, ["error"])
        assert "There is no page at this address." in server.get("/none").text
        assert server.post("/runs").status == 405


@pytest.mark.slow
def test_an_error_of_the_program(
    path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(self: Workbench) -> None:
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(Workbench, "check_store", fail)
    with serving(path) as (server, _):
        reply = server.get("/runs")
        assert reply.status == 500
        assert "The terminal shows the details." in reply.text
        assert "secret" not in reply.text
        assert reply.headers["content-security-policy"]


def test_addresses() -> None:
    assert make_url("/queries", run=["a", "b"], where="f1[x=1]<0.5", page=None) == (
        "/queries?run=a&run=b&where=f1%5Bx%3D1%5D%3C0.5"
    )
    assert make_url("/runs") == "/runs"
    assert make_url("/query", id="\ud800&<") == "/query?id=%3F%26%3C"


# --- the cache -------------------------------------------------------------------------------------------------------


@pytest.fixture
def workbench(path: Path) -> Iterator[Workbench]:
    with RunStore.open(path) as store:
        yield Workbench(store, cache_bytes=100)


def test_the_cache_is_bounded(workbench: Workbench) -> None:
    built: list[str] = []

    def get(key: str, size: int) -> str:
        def build() -> str:
            built.append(key)
            return key * 2

        assert workbench.cached((key,), build, size=lambda value: size * len(value) // 2) == key * 2
        return "".join(built)

    assert get("a", 50) == "a"
    assert get("b", 50) == "ab"
    assert get("a", 50) == "ab"
    assert get("c", 50) == "abc"  # drops b, which was used before a
    assert get("a", 50) == "abc"
    assert get("b", 50) == "abcb"
    assert get("large", 101) == "abcblarge"
    assert get("large", 101) == "abcblargelarge"  # above the limit, so it is not kept and drops nothing
    assert get("b", 50) == "abcblargelarge"


def test_values_are_dropped_before_a_computation_that_needs_their_memory(workbench: Workbench) -> None:
    kept: list[int] = []
    for name in ("a", "b"):
        workbench.cached((name,), lambda: 1, size=40)
    assert workbench.cached(("c",), lambda: kept.append(workbench._cache.used), size=10, working=60) is None
    assert kept == [40]  # a is dropped, since 80 and 60 are more than 100
    assert workbench._cache.used == 50


def test_a_value_is_computed_once(workbench: Workbench) -> None:
    started, release, calls = Event(), Event(), []

    def build() -> int:
        calls.append(1)
        started.set()
        assert release.wait(10)
        return 7

    found: list[int] = []
    threads = [Thread(target=lambda: found.append(workbench.cached(("run", "v"), build, size=1))) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert started.wait(10)
    release.set()
    for thread in threads:
        thread.join(10)
    assert (found, calls) == ([7] * 4, [1])


def test_a_failure_is_not_cached(workbench: Workbench) -> None:
    def fail() -> int:
        raise StoreError("x", "is damaged")

    for _ in range(2):
        with pytest.raises(StoreError):
            workbench.cached(("run",), fail, size=1)
    assert workbench.cached(("run",), lambda: 1, size=1) == 1


def test_the_version_changes_with_the_run(workbench: Workbench) -> None:
    store = workbench.store
    record = store.create_run("second", samples(2), dataset_name="made", plan={})

    def version() -> str:
        return workbench.version(store.get(record.run_id))

    seen = [version()]
    assert version() == seen[0]
    changes: list[Callable[[], object]] = [
        lambda: store.append(record.run_id, [StoredOutput(0, 0, "q00000", SystemOutputs([], Response("a")))]),
        lambda: store.put_result(record.run_id, store.results(store.find("first").run_id)[0]),
        lambda: store.finish(record.run_id),
        lambda: store.tag(record.run_id, "late"),
        lambda: store.put_result(record.run_id, store.results(store.find("first").run_id)[0]),
    ]
    for change in changes:
        change()
        seen.append(version())
    assert len(set(seen)) == len(seen)


def test_a_run_is_read_once_until_it_changes(path: Path) -> None:
    with RunStore.open(path) as store:
        workbench = Workbench(store)
        record: RunRecord = workbench.find(store.find("first").run_id[:12])
        first, second = workbench.run(record), workbench.run(record, "A")
        assert first.results is second.results
        assert first.samples is second.samples
        assert first.timings is second.timings
        assert second.label == "A: first"
        assert isinstance(first.results[0].scores, Scores)
        store.put_result(record.run_id, first.results[0])
        assert workbench.run(record).results is not first.results


# --- start and end of the process ------------------------------------------------------------------------------------


@contextmanager
def process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``auepora ui`` in a process, and the address that it printed."""
    running, url = start_process(*arguments)
    with running:
        try:
            yield running, url
        finally:
            running.kill()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_at_once(path: Path, number: signal.Signals) -> None:
    """With an open event stream, and after SIGTERM with a request that waits for a locked store."""
    with RunStore.open(path) as store:
        (record,) = store.runs()
    with process("--store", str(path)) as (running, url), closing(sqlite3.connect(path, isolation_level=None)) as other:
        address, _, token = url.partition("/?token=")
        jar = CookieJar()
        opener = build_opener(HTTPCookieProcessor(jar))
        with opener.open(url, timeout=10) as reply:
            page = reply.read().decode()
        with (
            opener.open(f"{address}/live/events", timeout=10) as events,
            closing(HTTPConnection(address.removeprefix("http://"))) as waiting,
        ):
            assert events.readline()
            if number is signal.SIGTERM:
                other.execute("BEGIN IMMEDIATE")
                (cookie,) = jar
                csrf_token = page.partition('name="csrf-token" content="')[2].partition('"')[0]
                headers = {"cookie": f"{cookie.name}={cookie.value}", "x-csrf-token": csrf_token}
                waiting.request("POST", f"/runs/{record.run_id}/tags", "add=late", headers)
                opener.open(f"{address}/runs", timeout=10).close()  # by now the server has read the request before
            start = time.monotonic()
            running.send_signal(number)
            _, err = running.communicate(timeout=10)
            assert time.monotonic() - start < 4  # half a second on an idle machine
    assert running.returncode == 0
    assert "Traceback" not in err
    assert token not in err


# --- in the browser --------------------------------------------------------------------------------------------------


def test_the_address_signs_the_browser_in(path: Path, browser: Any) -> None:
    with serving(path) as (server, _), closing(browser.new_context()) as context:
        page = context.new_page()
        page.goto(f"{server.address}/runs")
        assert page.locator("h1").inner_text() == "No access"
        page.goto(server.access.url)
        assert page.url == f"{server.address}/runs"
        assert context.cookies()[0] | {"expires": 0} == {
            "name": server.access.cookie,
            "value": server.access.session,
            "domain": "127.0.0.1",
            "path": "/",
            "expires": 0,
            "httpOnly": True,
            "secure": False,
            "sameSite": "Strict",
        }
        # A form of our own page works without a script; the same form in a page from elsewhere does not.
        form = "const form = document.createElement('form'); form.method = 'post'; form.action = ADDRESS + '/none'; const field = document.createElement('input'); field.name = 'csrf_token'; field.value = TOKEN; form.append(field); document.body.append(form); form.submit();"
        script = form.replace("ADDRESS", json.dumps(server.address)).replace(
            "TOKEN", json.dumps(server.access.csrf_token)
        )
        with page.expect_navigation() as own:
            page.evaluate(script)
        assert own.value.status == 404
        # After a link on another page the browser does not send the new cookie at once.
        context.clear_cookies()
        page.goto(f"data:text/html,<a href='{server.access.url}'>workbench</a>")
        page.click("a")
        page.click("text=try again")
        page.wait_for_url(f"{server.address}/runs")
        page.goto("data:text/html,<p>elsewhere</p>")
        with page.expect_navigation() as foreign:
            page.evaluate(script)
        assert foreign.value.status == 403


def test_a_violation_of_the_policy_fails_a_test(path: Path, browser: Any) -> None:
    def insert_handler() -> None:
        with workbench_page(browser, server, "/none", expected=("404",)) as page:
            page.evaluate("document.body.insertAdjacentHTML('beforeend', '<p id=x onclick=alert(1)>text</p>')")
            page.click("#x")

    with serving(path) as (server, _), pytest.raises(AssertionError, match="Content Security Policy"):
        insert_handler()
