"""Runs in progress by server-sent events, and plans with their errors, from a real server and in a real browser."""

import asyncio
import json
import re
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import EvaluationSample
from auepora_eval.core.types import Response, SystemOutputs
from auepora_eval.runs import judging
from auepora_eval.runs.run import run_plan, run_system
from auepora_eval.runs.scoring import rescore
from auepora_eval.store.records import StoredOutput, to_iso, utc_now
from auepora_eval.store.runs import RunStore, active_runs, rescoring
from auepora_eval.ui import live_page
from auepora_eval.ui.live_page import LiveFeed, LiveRun, find_plans, read_plan_file
from auepora_eval.ui.workbench import Workbench
from helpers.judge_server import Asked, JudgeServer
from helpers.stored_runs import samples
from helpers.ui_server import UiServer, ui_server, workbench_page

HOSTILE = "<script>alert(1)</script>\u202e"
Event = tuple[str, Any]


@pytest.fixture(autouse=True)
def _fast_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_page, "POLL_SECONDS", 0.02)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[UiServer]:
    with RunStore.open(tmp_path / "runs.sqlite") as store, ui_server(store, plans=tmp_path) as running:
        yield running


class GatedSystem:
    """A system that answers when the test lets it; every third call fails."""

    def __init__(self) -> None:
        self.permits, self._calls = threading.Semaphore(0), 0

    def __call__(self, sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        self.permits.acquire()
        self._calls += 1
        if self._calls % 3 == 0:
            raise ValueError(HOSTILE)
        return SystemOutputs([], Response("yes"))


@contextmanager
def run_in_progress(store: RunStore, count: int, name: str = "nightly") -> Iterator[GatedSystem]:
    """A run whose system waits for the test; it is finished at the end."""
    system = GatedSystem()
    data = [EvaluationSample(f"q{one}", "how many?", reference_answer=Response("yes")) for one in range(count)]
    thread = threading.Thread(
        target=lambda: run_system(system, data, ["exact_match"], store=store, name=name), daemon=True
    )
    thread.start()
    try:
        yield system
    finally:
        system.permits.release(count)
        thread.join(10)
        assert not thread.is_alive()


@contextmanager
def events(server: UiServer) -> Iterator[Iterator[Event]]:
    """The events of the stream; a comment is an event without a name."""
    with closing(HTTPConnection("127.0.0.1", server.access.port, timeout=10)) as connection:
        connection.request("GET", "/live/events", headers={"cookie": server.cookie})
        reply = connection.getresponse()
        assert (reply.status, reply.getheader("content-type")) == (200, "text/event-stream; charset=utf-8")

        def read() -> Iterator[Event]:
            name = ""
            while line := reply.readline().decode():
                field, _, value = line.rstrip("\n").partition(": ")
                if field == "event":
                    name = value
                elif field == "data":
                    yield name, json.loads(value)
                elif not field and value:
                    yield "", value

        yield read()


def value_of(event: Event, key: str) -> str:
    """A value of the only run of an event."""
    runs = event[1].get("runs") or [{"values": {}}]
    text, note, _ = runs[0]["values"].get(key, ["", "", None])
    return f"{text} ({note})" if note else text


def wait_for(stream: Iterator[Event], is_wanted: Callable[[Event], bool]) -> Event:
    return next(event for event in stream if is_wanted(event))


def dead_process(age: timedelta = timedelta(0)) -> str:
    """A process of this host that does not exist, and last reported this long ago."""
    return f"{socket.gethostname()}:{2**22 + 1}:1@{to_iso(utc_now() - age)}"


def kill_process_of(store: RunStore, run_id: str, age: timedelta) -> None:
    """Store a process that does not exist as the process of a run."""
    with closing(sqlite3.connect(store.label)) as database, database:
        database.execute("UPDATE eval_runs SET process = ? WHERE run_id = ?", (dead_process(age), run_id))


def read_live(store: RunStore) -> list[LiveRun]:
    return LiveFeed(Workbench(store)).read()


def test_a_run_is_followed_to_its_end(server: UiServer) -> None:
    store = server.workbench.store
    with events(server) as stream:
        assert next(stream) == ("progress", {"runs": []})
        with run_in_progress(store, 6, HOSTILE) as system:
            wait_for(stream, lambda event: value_of(event, "outputs") == "0 of 6 samples (0%)")
            system.permits.release(4)
            event = wait_for(stream, lambda event: value_of(event, "outputs") == "4 of 6 samples (67%)")
            assert value_of(event, "failures") == "1 (raised 1)"
            page = server.get("/live").text
            assert "calling the system" in page
            assert "&lt;script&gt;" in page
            assert "<script>alert" not in page
            assert "\u202e" not in page
            assert "interval" not in page  # neither a mean nor a difference of a run in progress
        wait_for(stream, lambda event: event[1]["runs"] == [])
    page = server.get("/live/runs").text
    assert "No run is in progress" in page
    assert "auepora run plan.yaml" in page
    assert "finished" in page.split("Ended in the last 24 hours")[-1]


def test_the_newest_answer_and_the_metrics_over_the_first_answers_are_shown(
    server: UiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_page, "FIRST_ANSWERS", 9)
    with events(server) as stream, run_in_progress(server.workbench.store, 30) as system:
        system.permits.release(4)
        event = wait_for(stream, lambda event: value_of(event, "outputs") == "4 of 30 samples (13%)")
        assert "metric exact_match" not in event[1]["runs"][0]["values"]  # too few answers
        system.permits.release(2)
        event = wait_for(stream, lambda event: "metric exact_match" in event[1]["runs"][0]["values"])
        text, note, _ = event[1]["runs"][0]["values"]["metric exact_match"]
        assert float(text) == pytest.approx(2 / 3, abs=0.15)  # every third call fails, and counts as wrong
        assert "n = " in note
        system.permits.release(20)
        event = wait_for(stream, lambda event: value_of(event, "outputs") == "26 of 30 samples (87%)")
        _, note, _ = event[1]["runs"][0]["values"]["metric exact_match"]
        assert note.endswith("n = 9")  # it ends with the first answers
        assert value_of(event, "question") == "how many?"
        answer = event[1]["runs"][0]["values"]["answer"][0]
        assert answer == "yes" or answer.startswith("failed: ")
        page = server.get("/live").text
        assert "how many?" in page
        assert "exact_match" in page
        assert "<script>alert" not in page


def test_unchanged_streams_have_heartbeats_and_end_with_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_page, "HEARTBEAT_SECONDS", 0.01)
    with RunStore.open(tmp_path / "runs.sqlite") as store, ui_server(store) as server, events(server) as stream:
        wait_for(stream, lambda event: event[0] == "progress")
        assert [next(stream), next(stream)] == [("", "heartbeat")] * 2
        server.workbench.stopping.set()
        assert {name for name, _ in stream} <= {""}


def test_one_task_reads_for_all_clients(tmp_path: Path) -> None:
    async def follow() -> tuple[int, list[str], bool]:
        reads = 0

        class CountedFeed(LiveFeed):
            def read(self) -> list[LiveRun]:
                nonlocal reads
                reads += 1
                return super().read()

        with RunStore.open(tmp_path / "runs.sqlite") as store:
            feed = CountedFeed(Workbench(store))
            streams = [feed.stream() for _ in range(5)]
            got = [[await anext(one), await anext(one)][1] for one in streams]
            for one in streams:
                await one.aclose()  # type: ignore[attr-defined]
            while feed._task is not None:
                await asyncio.sleep(0)
            return reads, got, feed._clients == 0

    with ThreadPoolExecutor(1) as pool:  # an open browser has an event loop in this thread
        reads, got, is_empty = pool.submit(asyncio.run, follow()).result()
    assert got == ['event: progress\ndata: {"runs": []}\n\n'] * 5
    assert is_empty
    assert reads <= 2


def test_a_stream_ends_where_reading_fails(tmp_path: Path) -> None:
    class BrokenFeed(LiveFeed):
        def read(self) -> list[LiveRun]:
            raise ZeroDivisionError

    async def follow() -> list[str]:
        with RunStore.open(tmp_path / "runs.sqlite") as store:
            feed = BrokenFeed(Workbench(store))
            asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
            return [text async for text in feed.stream()]

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(asyncio.run, follow()).result() == ["retry: 2000\n\n"]


def test_a_problem_of_the_store_is_an_event(server: UiServer) -> None:
    with events(server) as stream:
        next(stream)
        with closing(sqlite3.connect(server.workbench.label)) as database, database:
            database.execute("ALTER TABLE eval_runs RENAME TO other")
        name, data = next(stream)
        assert (name, "runs.sqlite" in data["error"]) == ("problem", True)
        with closing(sqlite3.connect(server.workbench.label)) as database, database:
            database.execute("ALTER TABLE other RENAME TO eval_runs")
        assert next(stream) == ("progress", {"runs": []})
        label = Path(server.workbench.label)
        other = label.rename(label.with_suffix(".old"))
        name, data = next(stream)
        assert (name, "was deleted or replaced" in data["error"]) == ("problem", True)
        other.rename(label)


def test_a_dead_process_is_shown_as_interrupted(server: UiServer) -> None:
    store = server.workbench.store
    for name, age in (("lately", timedelta(hours=1)), ("long ago", timedelta(days=2))):
        record = store.create_run(name, samples(3), dataset_name="made", plan={"version": 1})
        kill_process_of(store, record.run_id, age)
    page = server.get("/live").text
    assert "long ago" not in page
    assert "Interrupted.</strong> Its process ended after" in page
    assert "auepora run plan.yaml --resume --run" in page


def test_a_run_is_active_while_it_is_rescored(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        record = store.create_run("made", samples(3), dataset_name="made", plan={})
        store.finish(record.run_id)
        before = store.get(record.run_id)
        assert read_live(store) == []
        with rescoring(store, before):
            (one,) = read_live(store)
            assert (one.stage, one.is_active, one.record.status) == ("rescoring", True, "finished")
        assert store.get(record.run_id) == before
        assert read_live(store) == []
        store.put_judging(record.run_id, {"process": dead_process()})  # it was killed
        assert [one.stage for one in read_live(store)] == ["rescoring interrupted"]
        assert active_runs(store, since=utc_now() + timedelta(hours=1)) == []
        with rescoring(store, store.get(record.run_id)):
            assert [one.stage for one in read_live(store)] == ["rescoring"]
        assert store.get(record.run_id) == before


def test_rescore_marks_its_run(tmp_path: Path) -> None:
    stages: list[str] = []
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        with run_in_progress(store, 2):
            pass
        (record,) = store.runs()
        rescore(
            record, ["token_f1"], progress=lambda _: stages.extend(one.stage for one in read_live(store)), store=store
        )
        assert set(stages) == {"rescoring"}
        assert read_live(store) == []


def test_judging_of_a_killed_process_is_not_that_of_a_resumed_run(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        record = store.create_run("made", samples(3), dataset_name="made", plan={})
        store.put_judging(record.run_id, {"process": dead_process(), "total": {"calls": 1}})
        assert [one.stage for one in read_live(store)] == ["calling"]
        store.finish(record.run_id)
        assert read_live(store) == []


def test_a_running_run_stays_with_its_process_while_it_is_rescored(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        record = store.create_run("made", samples(3), dataset_name="made", plan={})
        with rescoring(store, record):
            assert store.get(record.run_id) == record


def test_judge_calls_and_cost_are_shown_against_their_caps(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        record = store.create_run("made", samples(1), dataset_name="made", plan={})
        store.append(record.run_id, [StoredOutput(0, 0, "q0", SystemOutputs([]))])
        total = {"judgements": 7, "calls": 8, "cached": 2, "failed": {"timeout": 1}, "cost": 0.5}
        usage = {"total": {**total, "prompt_tokens": 90, "completion_tokens": 10}, "metrics": {"m": total}}
        store.add_usage(record.run_id, {"total": {"calls": 100}})
        store.put_judging(
            record.run_id,
            {
                **usage,
                "requested": 9,
                "spent": {"calls": 8, "cost": 0.5},
                "caps": {"calls": 16, "cost": 2.0},
                "process": record.process,
            },
        )
        (one,) = read_live(store)
        assert one.stage == "judging"
        assert {value.key: (value.text, value.note) for value in one.values} == {
            "outputs": ("1 of 1 samples", "100%"),
            "failures": ("0", ""),
            "judgements": ("7", "9 requested so far, 2 from the cache"),
            "judge_failures": ("1", "timeout 1"),
            "calls": ("8 of at most 16", "50%"),
            "tokens": ("100", "no cap"),
            "cost": ("0.5 of at most 2", "25%"),
        }
        assert store.get(record.run_id).usage == {"total": {"calls": 100}}
        store.add_usage(record.run_id, usage)  # judging has ended
        found = store.get(record.run_id)
        assert (found.judging, (found.usage or {})["total"]["calls"]) == (None, 108)


@pytest.mark.slow
def test_sequential_judging_shows_its_path(server: UiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "SECONDS_PER_WRITE", 0.0)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    go_on = threading.Event()

    def grade(asked: Asked) -> dict[str, object]:
        if "candidate" in asked.prompt and asked.number >= 40 + 16:
            go_on.wait(10)
        found = re.search(r"(base|candidate) (\d+)", asked.prompt)
        assert found is not None
        is_other = found[1] == "candidate" and int(found[2]) % 5 == 0  # as often better as worse
        return {"rationale": "read", "score": "correct" if int(found[2]) % 2 != is_other else "incorrect"}

    lines = dict.fromkeys(("data", "base", "candidate"), "")
    for number in range(40):
        lines["data"] += (
            json.dumps({"sample_id": f"q{number}", "query": "what?", "reference_answer": f"{number}"}) + "\n"
        )
        for name in ("base", "candidate"):
            lines[name] += json.dumps({"sample_id": f"q{number}", "response": f"{name} {number}"}) + "\n"
    for name, text in lines.items():
        (tmp_path / f"{name}.jsonl").write_text(text)
    with JudgeServer(grade) as judge:
        resource = f"resources: {{judge: {{openai: {{model: tiny, base_url: '{judge.base_url}'}}}}}}\n"
        stop = "judge: {concurrency: 1, stop: {against: base, looks: 5}}\n"
        for name in ("base", "candidate"):
            (tmp_path / f"{name}.yaml").write_text(
                f"dataset: data.jsonl\noutputs: {name}.jsonl\nmetrics: [{{llm_correctness: {{critic: {{use: judge}}}}}}]\n"
                f"{resource}{stop if name == 'candidate' else ''}"
            )
        run_plan(tmp_path / "base.yaml", store=server.workbench.label)
        candidate, store = tmp_path / "candidate.yaml", server.workbench.label
        thread = threading.Thread(target=lambda: run_plan(candidate, store=store), daemon=True)
        thread.start()
        try:
            with events(server) as stream:
                wait_for(stream, lambda event: any(" judging 1 " in run["key"] for run in event[1]["runs"]))
            page = server.get("/live/runs").text
        finally:
            go_on.set()
            thread.join(10)
    assert "not decided yet; sequential: no verdict yet, look 1 of 4, 16 of 40 judged; difference" in page
    assert "Looks of llm_correctness" in page
    assert "calls saved" not in page


# --- plans -----------------------------------------------------------------------------------------------------------

BROKEN = """\
name: <b>broken</b>
dataset: data.jsonl
outputs: answers.jsonl
metrics: [token_f1, recal@5]
run:
  top_k: many
resources: {judge: {openai: {model: tiny, api_key: sk-0123456789abcdefghij}}}
store: postgresql://me:hunter22@host/db
system: {http: {url: 'http://host', headers: {Authorization: 'Bearer open sesame'}}}
# the end
"""


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with plans, other files, and links that lead out of it."""
    tmp_path = tmp_path_factory.mktemp("plans")
    outside = tmp_path / "outside"
    folder = tmp_path / "plans"
    for one in (outside, folder / "inner", folder / ".hidden", folder / "node_modules"):
        one.mkdir(parents=True)
    plan = "dataset: data.jsonl\noutputs: answers.jsonl\nmetrics: [token_f1]\n"
    for one in (folder / "good.yaml", folder / "inner" / "more & more.yml", outside / "secret.yaml"):
        one.write_text(plan)
    for one in (folder / ".hidden" / "plan.yaml", folder / "node_modules" / "plan.yaml"):
        one.write_text(plan)
    (folder / "broken.yaml").write_text(BROKEN)
    (folder / "no_yaml.yaml").write_text("dataset: [data.jsonl\nsystem: my_app:build\n")
    (folder / "compose.yaml").write_text("services: {web: {image: x}}\nvolumes: {}\n")
    (folder / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (folder / "no_toml.toml").write_text("dataset = 'data.jsonl'\noutputs = \n")
    (folder / "link.yaml").symlink_to(outside / "secret.yaml")
    (folder / "linked").symlink_to(outside)
    (folder / "again.yaml").symlink_to("good.yaml")
    (folder / "loop.yaml").symlink_to("loop.yaml")
    return folder


@pytest.fixture(scope="module")
def plan_server(plans: Path) -> Iterator[UiServer]:
    with RunStore.open(plans.parent / "runs.sqlite") as store:
        store.create_run(HOSTILE, samples(1), dataset_name="made", plan={"version": 1, "name": HOSTILE}, run_id="run-1")
        with ui_server(store, plans=plans) as running:
            yield running


def test_plans_are_found_inside_their_folder_only(plans: Path) -> None:
    found, is_complete = find_plans(plans)
    names = [one.relative_to(plans).as_posix() for one in found]
    assert names == ["again.yaml", "broken.yaml", "good.yaml", "inner/more & more.yml", "no_toml.toml", "no_yaml.yaml"]
    assert is_complete


def test_a_large_folder_is_not_searched_to_the_end(plans: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_page, "MAX_PLANS", 2)
    found, is_complete = find_plans(plans)
    assert (len(found), is_complete) == (2, False)


def test_errors_of_a_plan_are_at_their_lines(plan_server: UiServer) -> None:
    listed = plan_server.get("/plans").text
    assert "/plans/view?path=inner%2Fmore+%26+more.yml" in listed
    assert "✕ 6 errors" in listed
    page = plan_server.get("/plans/view?path=broken.yaml").text
    rows = {part.partition('"')[0]: part.partition("</tr>")[0] for part in page.split('<tr id="line-')[1:]}
    assert [number for number, row in rows.items() if "✕ Error:" in row] == ["4", "6", "7", "8", "9"]
    assert "unknown metric" in rows["4"]
    assert "run.top_k: must be an integer" in rows["6"]
    assert "&lt;b&gt;broken&lt;/b&gt;" in rows["1"]
    for secret in ("hunter22", "sk-0123456789abcdefghij", "open sesame"):
        assert secret not in page
        assert secret not in listed
    assert "✓ No errors" in plan_server.get("/plans/view?path=inner%2Fmore+%26+more.yml").text
    for language in ("YAML", "TOML"):
        path = f"no_{language.lower()}.{language.lower()}"
        assert f"not valid {language}" in plan_server.get(f"/plans/view?path={path}").text


def test_a_plan_is_read_again_after_a_change(plan_server: UiServer, plans: Path) -> None:
    good, changed = (plans / "good.yaml").read_text(), plans / "changed.yaml"
    try:
        changed.write_text(good)
        assert "✓ No errors" in plan_server.get("/plans/view?path=changed.yaml").text
        changed.write_text(good.replace("outputs: answers.jsonl\n", ""))
        assert "neither &#39;outputs&#39;" in plan_server.get("/plans/view?path=changed.yaml").text
    finally:
        changed.unlink()


def test_variables_are_not_resolved(plan_server: UiServer, plans: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "value-of-the-token")
    monkeypatch.setenv("MY_SIZE", "value-of-the-size")
    text = "dataset: data.jsonl\nsystem: {http: {url: 'http://host/${MY_TOKEN}?api_key=${MY_TOKEN}'}}\nrun: {top_k: '${MY_SIZE}'}\n"
    (plans / "variables.yaml").write_text(text)
    try:
        page = plan_server.get("/plans/view?path=variables.yaml").text
        listed = plan_server.get("/plans").text
    finally:
        (plans / "variables.yaml").unlink()
    assert "${MY_TOKEN}?api_key=${MY_TOKEN}" in page
    assert "value-of-the" not in page + listed


MASKED = {  # plans with the secret hunter22
    "flow.yaml": "dataset: d.jsonl\nsystem: {http: {url: u, headers: {Authorization: Bearer hunter22}}}\n",
    "lines.yaml": "dataset: d.jsonl\noutputs: a.jsonl\njudge:\n  api_key: |\n    hunter22\n  password:\n    hunter22\n",
    "folded.yaml": "dataset: d.jsonl\noutputs: a.jsonl\njudge: {api_key: 'first\n    hunter22'}\n",
    "comment.yaml": "dataset: d.jsonl # api_key: hunter22\noutputs: a.jsonl\n# token: hunter22\n",
    "address.yaml": "dataset: d.jsonl\nsystem: {http: {url: 'http://a/b?api_key=hunter22'}}\n",
    "alias.yaml": "dataset: d.jsonl\noutputs: a.jsonl\nname: &k hunter22\njudge: {api_key: *k}\n",
    "option.yaml": "dataset: d.jsonl\nsystem: {command: [run, --api-key, hunter22]}\n",
    "broken.yaml": "dataset: d.jsonl\njudge: {model: m, api_key: hunter22\n  : [\n",
    "one.json": '{"dataset": "d.jsonl", "outputs": "a.jsonl", "judge": {"api_key": "hunter22", "model": "m"}}',
    "one.toml": 'dataset = "d.jsonl"\noutputs = "a.jsonl"\njudge = {api_key = "hunter22", model = "m"}\n',
}


def test_literal_secrets_are_masked(tmp_path: Path) -> None:
    for name, text in MASKED.items():
        (tmp_path / name).write_text(text)
        shown = str(read_plan_file(tmp_path / name, tmp_path))
        assert "hunter22" not in shown, name
        assert "d.jsonl" in shown


NOT_SHOWN = [  # the query, the status and a part of the message
    ("", 400, "needs path=FILE"),
    ("path=../outside/secret.yaml", 404, "there is no plan"),
    ("path=link.yaml", 404, "there is no plan"),
    ("path=linked/secret.yaml", 404, "there is no plan"),
    ("path=/etc/passwd", 404, "there is no plan"),
    ("path=a%00b.yaml", 404, "there is no plan"),
    ("path=compose.yaml", 404, "there is no plan"),
    ("path=loop.yaml", 404, "there is no plan"),
    ("path=%ED%A0%80.yaml", 404, "there is no plan"),
    ("run=run-9", 404, "run-9"),
]


def test_other_files_are_not_shown(plan_server: UiServer) -> None:
    replies = [(query, plan_server.get(f"/plans/view?{query}")) for query, _, _ in NOT_SHOWN]
    found = [
        (query, reply.status, message in reply.text)
        for (query, reply), (*_, message) in zip(replies, NOT_SHOWN, strict=True)
    ]
    assert found == [(query, status, True) for query, status, _ in NOT_SHOWN]
    assert not any("data.jsonl" in reply.text for _, reply in replies)


def test_the_stored_plan_of_a_run_is_shown(plan_server: UiServer) -> None:
    page = plan_server.get("/plans/view?run=run-1").text
    assert "version: 1" in page
    assert "<script>alert" not in page


def test_an_empty_folder_shows_commands(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with RunStore.open(tmp_path / "runs.sqlite") as store, ui_server(store, plans=tmp_path / "empty") as server:
        page = server.get("/plans").text
    assert "auepora init" in page
    assert "The store has no run yet" in page


# --- in a browser ----------------------------------------------------------------------------------------------------


@pytest.mark.part("chromium")
def test_the_page_follows_a_run(server: UiServer, browser: Any) -> None:
    store = server.workbench.store
    with workbench_page(browser, server, "/live") as page:
        page.get_by_text("No run is in progress").wait_for()
        page.locator("body[data-stream=open]").wait_for()
        with run_in_progress(store, 8, HOSTILE) as system:
            card = page.locator("[data-run]")
            card.get_by_text("0 of 8 samples").wait_for()
            page.locator("[role=status]", has_text="has started").wait_for(state="attached")
            page.evaluate("document.querySelector('[data-run] a').focus()")
            system.permits.release(3)
            card.get_by_text("3 of 8 samples").wait_for()
            card.get_by_text("raised 1").wait_for()
            assert page.locator("[data-ratio=outputs]").evaluate("bar => bar.value") == 3 / 8
            assert page.evaluate("document.activeElement.closest('[data-run]') !== null")
        page.locator("#ended").wait_for()
        page.locator("[role=status]", has_text="has ended").wait_for(state="attached")
        assert page.locator("[data-run]").count() == 0


@pytest.mark.part("chromium")
def test_a_change_while_the_page_renders_is_shown(server: UiServer, browser: Any) -> None:
    hold_response = """() => {
      const send = fetch;
      window.fetch = (...request) => {
        window.fetch = send;
        return send(...request).then((response) => new Promise((resolve) => {
          document.body.dataset.response = "waiting";
          window.release = () => resolve(response);
        }));
      };
    }"""
    with workbench_page(browser, server, "/live") as page:
        page.locator("body[data-stream=open]").wait_for()
        page.evaluate(hold_response)
        with run_in_progress(server.workbench.store, 2):
            page.locator("body[data-response=waiting]").wait_for()
        with events(server) as stream:
            wait_for(stream, lambda event: event[1]["runs"] == [])
        page.evaluate("window.release()")
        page.locator("#ended").wait_for()


@pytest.mark.part("chromium")
def test_the_page_connects_again(server: UiServer, browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_page, "RETRY_SECONDS", 0.05)
    with workbench_page(browser, server, "/live") as page:
        page.locator("body[data-stream=open]").wait_for()
        server.workbench.stopping.set()  # ends the streams
        page.locator("[role=status]", has_text="The connection was lost").wait_for(state="attached")
        server.workbench.stopping.clear()
        page.locator("body[data-stream=open]").wait_for()
        with run_in_progress(server.workbench.store, 1):
            page.locator("[data-run]").wait_for()


@pytest.mark.part("chromium")
def test_an_error_of_a_plan_is_reached_by_keyboard(plan_server: UiServer, browser: Any) -> None:
    with workbench_page(browser, plan_server, "/plans", viewport={"width": 360, "height": 700}) as page:
        _press_until(page, "broken.yaml")
        page.keyboard.press("Enter")
        page.locator(".line-error").first.wait_for()
        _press_until(page, "line 6")
        page.keyboard.press("Enter")
        page.wait_for_url("**#line-6")
        assert "must be an integer" in page.locator("tr:target .line-error").inner_text()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        heights = page.locator(".source tr:not(.has-error) th").evaluate_all(
            "cells => cells.map(one => one.clientHeight)"
        )
        assert len(set(heights)) == 1, "a line number of two digits is not broken"


def _press_until(page: Any, text: str) -> None:
    """Press Tab until the element with this text has the focus."""
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == text:
            return
    raise AssertionError(f"{text} cannot be reached with Tab")
