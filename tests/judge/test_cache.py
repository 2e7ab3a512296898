"""The judgement cache: keys, several processes, and files that cannot be used."""

import asyncio
import queue
import socketserver
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from auepora_eval.errors import AueporaWarning, JudgeError, StoreError
from auepora_eval.judge.cache import JudgementCache, critic_cache_key, request_digest
from auepora_eval.judge.critic import Critic, Judgement, JudgePolicy, JudgeRequest, LLMCritic, Usage
from auepora_eval.judge.session import JudgeSession
from auepora_eval.runtime.processes import process_name
from helpers.scripted_critic import Scripted, request


def judged(policy: JudgePolicy, critic: Any, requests: list[JudgeRequest]) -> tuple[list[Any], JudgeSession]:
    async def scene() -> tuple[list[Any], JudgeSession]:
        async with JudgeSession(policy) as session:
            asked = (session.ask(critic, one) for one in requests)
            return await asyncio.gather(*asked, return_exceptions=True), session

    return asyncio.run(scene())


def digest(one: JudgeRequest, critic: Critic | None = None) -> bytes | None:
    critic = critic or Scripted()
    return request_digest(critic, one, critic_cache_key(critic, one))


def test_a_second_run_uses_the_cache(tmp_path: Path) -> None:
    policy = JudgePolicy(cache=tmp_path / "judgements.sqlite")
    judgement = Judgement(
        {"score": 0.25, "rationale": "gründlich"}, Usage(7, 3), '{"score": 0.25}', 0.31, 0.97, repaired=True
    )
    critic = Scripted(lambda one, _: judgement if one.prompt == "0" else 0.5)
    requests = [request(str(n)) for n in range(20)]
    first, _ = judged(policy, critic, requests)
    assert len(critic.asked) == 20
    again, session = judged(replace(policy, cache_only=True), critic, requests)
    assert len(critic.asked) == 20
    assert again == [replace(one, cached=True) for one in first]
    assert again[0] == replace(judgement, cached=True)
    assert session.usage_log.to_dict()["total"] == {
        "judgements": 20, "calls": 0, "cached": 20, "shared": 0, "retried": 0, "repaired": 0,
        "failed": {}, "prompt_tokens": 0, "completion_tokens": 0, "cost": None, "seconds": 0.0,
    }  # fmt: skip


CHANGES: list[tuple[dict[str, Any], bool, str]] = [
    ({"prompt": "!"}, True, "the prompt"),
    ({"schema": {}}, True, "the schema"),
    ({"system": "Be strict."}, True, "the system message"),
    ({"prompt_id": "p/2"}, True, "the version of the prompt"),
    ({"weighted": "score"}, True, "whether a weighted mean is asked for"),
    ({"repeat": 1}, True, "which of several judgements it is"),
    ({"metric": "another"}, False, "the metric, which is not sent"),
    ({"sample_id": "another"}, False, "the sample's id, which is not sent"),
    ({"metadata": {"scale": "1-5"}}, False, "what only simple critics are handed"),
]


@pytest.mark.parametrize(("change", "differs", "why"), CHANGES, ids=[row[-1] for row in CHANGES])
def test_request_fields_in_the_cache_key(change: dict[str, Any], differs: bool, why: str) -> None:
    assert (digest(request()) != digest(replace(request(), **change))) is differs


def test_critic_fields_in_the_cache_key() -> None:
    known = digest(request())
    assert digest(request(), Scripted(model="model-2")) != known
    assert digest(request(), Scripted(name="another")) != known
    assert digest(request(), Scripted()) == known


def test_schema_order_and_type_do_not_change_the_digest() -> None:
    one = JudgeRequest("?", {"type": "object", "properties": {"a": {}}})
    other = JudgeRequest("?", MappingProxyType({"properties": MappingProxyType({"a": {}}), "type": "object"}))
    assert digest(one) == digest(other)


class Named(LLMCritic):
    def __init__(self) -> None:
        self.calls = 0

    def score(self, *, prompt: str, metadata: dict[str, Any] | None = None) -> float:
        self.calls += 1
        return 0.5


class Versioned(Named):
    cache_key = "v1"


class Keyed(Named):
    def cache_key(self, request: JudgeRequest) -> Mapping[str, Any]:
        return {"weights": "2024-05"}


@pytest.mark.parametrize(("kind", "calls"), [(Named, 2), (Versioned, 1), (Keyed, 1)])
def test_simple_critics_with_a_cache_key_are_cached(tmp_path: Path, kind: type[Named], calls: int) -> None:
    policy, critic = JudgePolicy(cache=tmp_path / "c.sqlite"), kind()
    for _ in range(2):
        judged(policy, critic, [request(metadata={"scale": "0-1"})])
    assert critic.calls == calls
    judged(policy, critic, [request(metadata={"scale": "1-5"})])
    assert critic.calls == calls + 1


def test_requests_that_are_not_json_are_not_cached(tmp_path: Path) -> None:
    critic = Versioned()
    for _ in range(2):
        judged(JudgePolicy(cache=tmp_path / "c.sqlite"), critic, [request(metadata={"thing": object()})])
    assert critic.calls == 2


def test_failures_are_not_cached_and_repeats_are_separate(tmp_path: Path) -> None:
    policy = JudgePolicy(cache=tmp_path / "c.sqlite")
    critic = Scripted(lambda one, _: JudgeError("unparseable", "?") if one.prompt == "bad" else one.repeat / 10)
    requests = [request("bad"), request("good"), request("good", repeat=1)]
    for _ in range(2):
        judged(policy, critic, requests)
    assert [one.prompt for one in critic.asked] == ["bad", "good", "good", "bad"]
    answers, _ = judged(replace(policy, cache_only=True), critic, requests)
    assert answers[0].reason == "not_cached"
    assert [one.scores["score"] for one in answers[1:]] == [0.0, 0.1]


def test_lone_surrogates_are_stored(tmp_path: Path) -> None:
    answer = Judgement({"score": 0.5, "rationale": "cut \ud83d"}, raw="cut \ud83d")
    policy, critic = JudgePolicy(cache=tmp_path / "c.sqlite"), Scripted(lambda *_: answer)
    for cached in (False, True):
        (found,), _ = judged(policy, critic, [request()])
        assert (found.answer, found.cached) == (answer.answer, cached)


def test_prompts_are_not_in_the_file(tmp_path: Path) -> None:
    judged(JudgePolicy(cache=tmp_path / "c.sqlite"), Scripted(), [request("a private question")])
    assert not any(b"private" in one.read_bytes() for one in tmp_path.iterdir())


def test_judgements_are_written_soon(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"

    async def scene() -> None:
        async with JudgeSession(JudgePolicy(cache=path)) as session:
            await session.ask(Scripted(), request())
            with sqlite3.connect(path) as other:
                while not other.execute("SELECT count(*) FROM judgements").fetchone()[0]:
                    await asyncio.sleep(0.01)
            other.close()

    asyncio.run(asyncio.wait_for(scene(), 60))


def test_judging_continues_while_another_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    JudgementCache(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def scene() -> None:
        async with JudgeSession(JudgePolicy(cache=path)) as session:
            for number in range(30):
                await session.ask(Scripted(), request(str(number)))
                assert session._cache is not None
                assert not session._cache.flush()
            other.execute("COMMIT")

    asyncio.run(scene())
    assert other.execute("SELECT count(*) FROM judgements").fetchone()[0] == 30
    other.close()


def test_the_first_judgement_stays(tmp_path: Path) -> None:
    first, second = (JudgementCache(tmp_path / "c.sqlite") for _ in range(2))
    key = digest(request())
    assert key is not None
    first.put(key, Scripted(), request(), Judgement({"score": 1}))
    second.put(key, Scripted(), request(), Judgement({"score": 2}))
    first.close()
    second.close()
    third = JudgementCache(tmp_path / "c.sqlite")
    assert third.get(key) == Judgement({"score": 1}, cached=True)
    third.close()


# --- claims: processes that share a file do not pay twice ------------------------------------------------------------

PROCESS = """
import asyncio, sys
from auepora_eval.judge.critic import Judgement, JudgePolicy, JudgeRequest, StructuredCritic
from auepora_eval.judge.session import JudgeSession

class Remote(StructuredCritic):
    name = "remote"
    async def judge(self, request):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
        writer.write(request.prompt.encode() + bytes([10]))
        score = float(await reader.readline())
        writer.close()
        return Judgement({"score": score})
    def cache_key(self, request):
        return 1

async def main(prompts):
    critic = Remote()
    async with JudgeSession(JudgePolicy(cache=sys.argv[1], concurrency=8)) as session:
        await asyncio.gather(*(session.ask(critic, JudgeRequest(one, {})) for one in prompts))

asyncio.run(main(sys.argv[3].split()))
"""


class CountingServer:
    """Counts the prompts that it gets, one per connection; hangs at prompts in ``hanging``."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.hanging: set[str] = set()
        self.stalls: queue.SimpleQueue[str] = queue.SimpleQueue()
        """The prompts at which it hangs, as they arrive."""
        counted = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                prompt = self.rfile.readline().decode().strip()
                counted.asked[prompt] += 1
                if prompt in counted.hanging:
                    counted.stalls.put(prompt)
                    self.rfile.read()
                    return
                self.wfile.write(b"0.5\n")

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def judge(self, cache: Path, prompts: list[str]) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", PROCESS, str(cache), str(self.server.server_address[1]), " ".join(prompts)]
        return subprocess.Popen(command, stderr=subprocess.PIPE)


@pytest.fixture
def counting() -> Iterator[CountingServer]:
    server = CountingServer()
    with server.server:
        yield server
        server.server.shutdown()


@pytest.mark.slow
def test_processes_that_share_a_file_pay_once(tmp_path: Path, counting: CountingServer) -> None:
    path = tmp_path / "c.sqlite"
    common = [f"common-{n}" for n in range(200)]
    processes = [counting.judge(path, [*common, *(f"own-{name}-{n}" for n in range(20))]) for name in "ab"]
    for process in processes:
        _, err = process.communicate(timeout=100)
        assert process.returncode == 0, err.decode()
    assert len(counting.asked) == 200 + 2 * 20
    assert set(counting.asked.values()) == {1}
    with sqlite3.connect(path) as file:
        assert file.execute("SELECT count(*) FROM judgements").fetchone()[0] == 200 + 2 * 20
        assert file.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert file.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall() == [("judgements",)]
    file.close()


@pytest.mark.slow
def test_a_killed_process_repeats_no_answered_request(tmp_path: Path, counting: CountingServer) -> None:
    """All eight places are taken by requests without a reply, so every other reply was delivered, just before."""
    path, prompts = tmp_path / "c.sqlite", [f"p{n}" for n in range(48)]
    counting.hanging = set(prompts[-8:])
    with counting.judge(path, prompts) as process:
        assert {counting.stalls.get(timeout=60) for _ in range(8)} == counting.hanging
        process.kill()
    in_flight, counting.hanging = counting.hanging, set()
    with counting.judge(path, prompts) as process:
        assert process.wait(timeout=60) == 0
    assert counting.asked == {prompt: 2 if prompt in in_flight else 1 for prompt in prompts}


def test_claims_of_a_killed_process_do_not_block(tmp_path: Path, counting: CountingServer) -> None:
    path = tmp_path / "c.sqlite"
    counting.hanging = {"a"}
    with counting.judge(path, ["a"]) as process:
        assert counting.stalls.get(timeout=60) == "a"
        with sqlite3.connect(path) as file:
            ((claimed,),) = file.execute("SELECT digest FROM claims").fetchall()
        file.close()
        cache = JudgementCache(path)
        assert not asyncio.run(cache.claim(claimed))
        process.kill()
    assert asyncio.run(cache.claim(claimed))  # long before the end of the lease
    cache.close()


def test_claims_are_renewed_and_given_back(tmp_path: Path) -> None:
    def claims() -> list[tuple[float]]:
        with sqlite3.connect(tmp_path / "c.sqlite") as file:
            tables = file.execute("SELECT name FROM sqlite_master WHERE name = 'claims'").fetchall()
            found = file.execute("SELECT expires_at FROM claims").fetchall() if tables else []
        file.close()
        return found

    cache = JudgementCache(tmp_path / "c.sqlite")
    assert asyncio.run(cache.claim(b"digest"))
    ((before,),) = claims()
    assert before > time.time()
    cache._renew_at = 0.0
    cache.flush()
    ((after,),) = claims()
    assert after > before
    cache.release(b"digest")
    cache.flush()
    assert claims() == []
    assert asyncio.run(cache.claim(b"other"))
    cache.close()  # without a release
    assert claims() == []


CLAIMS: list[tuple[str, float, bool, str]] = [  # owner, lease in seconds, whether a call waits, why
    ("elsewhere:1:2#x", 0.3, True, "a process of another host, until its lease ends"),
    ("elsewhere:1:2#x", -1, False, "its lease has ended"),
    (f"{process_name()}#x", 0.3, True, "another session of this process"),
    (f"{process_name()}0#x", 60, False, "its process is gone"),
]


@pytest.mark.parametrize(("owner", "lease", "waits", "why"), CLAIMS, ids=[row[-1] for row in CLAIMS])
def test_a_claimed_call_waits_for_the_lease(tmp_path: Path, owner: str, lease: float, waits: bool, why: str) -> None:
    path = tmp_path / "c.sqlite"
    JudgementCache(path).close()
    until = time.time() + lease
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE claims (digest BLOB PRIMARY KEY, owner TEXT, expires_at REAL)")
        file.execute("INSERT INTO claims VALUES (?, ?, ?)", (digest(request()), owner, until))
    file.close()

    async def scene() -> None:
        async with JudgeSession(JudgePolicy(cache=path, concurrency=1)) as session:
            first = asyncio.ensure_future(session.ask(Scripted(), request()))
            await asyncio.sleep(0)
            await session.ask(Scripted(), request("other"))  # a call that waits takes no place
            assert not (waits and first.done())
            assert not (await first).cached
            assert time.time() >= until or not waits

    asyncio.run(scene())


@pytest.mark.parametrize("fails", [False, True], ids=["judged", "failed"])
def test_sessions_wait_for_the_call_of_another(tmp_path: Path, fails: bool) -> None:
    policy = JudgePolicy(cache=tmp_path / "c.sqlite")
    reply = JudgeError("unparseable", "?") if fails else 0.5
    critics = Scripted(lambda *_: reply, seconds=0.1), Scripted(lambda *_: 0.5)

    async def scene() -> list[Any]:
        async with JudgeSession(policy) as first, JudgeSession(policy) as second:
            asked = [asyncio.ensure_future(first.ask(critics[0], request()))]
            while not critics[0].asked:
                await asyncio.sleep(0)
            asked.append(asyncio.ensure_future(second.ask(critics[1], request())))
            return await asyncio.gather(*asked, return_exceptions=True)

    _, answer = asyncio.run(scene())
    assert answer.scores == {"score": 0.5}
    assert answer.cached is not fails
    assert [len(one.asked) for one in critics] == [1, int(fails)]


def test_two_sessions_in_two_threads_share_a_file(tmp_path: Path) -> None:
    def work(name: str) -> None:
        answers.extend(
            judged(JudgePolicy(cache=tmp_path / "c.sqlite"), Scripted(), [request(f"{name}{n}") for n in range(50)])[0]
        )

    answers: list[Any] = []
    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(isinstance(one, Judgement) for one in answers) == 100


def _written(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def _damaged(path: Path) -> None:
    cache = JudgementCache(path)
    for number in range(500):
        cache.put(b"%d" % number, Scripted(), request(), Judgement({"score": 1}, raw="x" * 200))
    cache.close()
    data = bytearray(path.read_bytes())
    data[200:4096] = b"\xff" * (4096 - 200)
    path.write_bytes(data)


def _foreign(path: Path) -> None:
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE eval_runs (id TEXT)")
    file.close()


def _newer(path: Path) -> None:
    JudgementCache(path).close()
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA user_version = 99")
    file.close()


BAD_FILES: list[tuple[Callable[[Path], object], str, str]] = [
    (_written(b"This is a letter. " * 200), "is not a store", "a file of another kind"),
    (_damaged, "is damaged", "a damaged file"),
    (_foreign, "without judgements", "another database"),
    (_newer, "newer version", "a file from the future"),
    (Path.mkdir, "is a folder", "a folder"),
]


@pytest.mark.parametrize(("make", "message", "why"), BAD_FILES, ids=[row[-1] for row in BAD_FILES])
def test_an_unusable_file_raises_before_any_call(
    tmp_path: Path, make: Callable[[Path], object], message: str, why: str
) -> None:
    path = tmp_path / "cache.sqlite"
    make(path)
    critic = Scripted()
    with pytest.raises(StoreError, match=message) as raised:
        judged(JudgePolicy(cache=path), critic, [request()])
    assert str(path) in str(raised.value)
    assert critic.asked == []


def test_a_missing_folder_raises(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist; create it first"):
        judged(JudgePolicy(cache=tmp_path / "nowhere" / "c.sqlite"), Scripted(), [request()])


def test_a_write_error_warns_and_keeps_the_judgements(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"

    async def scene() -> Judgement:
        async with JudgeSession(JudgePolicy(cache=path)) as session:
            other = sqlite3.connect(path)
            other.execute("DROP TABLE judgements")
            other.commit()
            other.close()
            session._cache = session._cache  # it stays open
            assert session._cache is not None
            session._cache.put(b"x", Scripted(), request(), Judgement({"score": 1}))
            return await session.ask(Scripted(kept=False), request())

    with pytest.warns(AueporaWarning, match="judgements are not cached"):
        assert asyncio.run(scene()).scores == {"score": 0.5}


def test_a_read_only_cache_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = JudgePolicy(cache=tmp_path / "c.sqlite")
    judged(policy, Scripted(), [request()])
    monkeypatch.setattr("auepora_eval.judge.cache.is_writable", lambda path: False)
    answers, _ = judged(replace(policy, cache_only=True), Scripted(), [request()])
    assert answers[0].cached


def test_cache_only_needs_a_cache() -> None:
    with pytest.raises(ValueError, match="cache_only needs a cache"):
        JudgePolicy(cache_only=True)


def test_a_file_created_concurrently_is_shared(tmp_path: Path) -> None:
    refused: list[BaseException] = []

    def opened(path: Path, start: threading.Barrier) -> None:
        start.wait()
        try:
            JudgementCache(path).close()
        except StoreError as error:
            refused.append(error)

    often = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for number in range(100):
            start = threading.Barrier(4)
            threads = [threading.Thread(target=opened, args=(tmp_path / f"{number}.sqlite", start)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(often)
    assert refused == []
