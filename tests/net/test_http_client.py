"""The HTTP client: replies, connections, limits, and what its three users make of faults."""

import asyncio
import gzip
import json
import logging
import socket
import ssl
import subprocess
import sys
import threading
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.errors import JudgeError, SystemCallError
from auepora_eval.features.embeddings import InferenceFailure
from auepora_eval.judge.critic import JudgeRequest
from auepora_eval.judge.openai import OpenAICritic
from auepora_eval.models.embedders import OpenAIEmbedder
from auepora_eval.net.client import (
    _PART_BYTES,
    HttpClient,
    HttpReply,
    _Decompressor,
    encode_json,
    find_proxy,
    parse_address,
)
from auepora_eval.net.retry import HttpRequestError
from auepora_eval.systems.http import HttpSystem
from helpers.builders import sample
from helpers.fault_server import Asked, Reply, make_certificate, serving

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@asynccontextmanager
async def talking(talk: Talk, **options: Any) -> AsyncIterator[str]:
    """A server that speaks bytes, on the loop of the test."""
    writers: list[asyncio.StreamWriter] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            await talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=200, **options)
    try:
        yield f"{'https' if options else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        for writer in writers:
            writer.close()
        server.close()


async def read(reader: asyncio.StreamReader) -> bytes:
    """One request, head and body."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next((line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b":0")
    return head + await reader.readexactly(int(length.split(b":")[1]))


def replying_with(*replies: bytes) -> tuple[Talk, list[bytes]]:
    """A server that gives these replies, one a request, on as few connections as it is asked on, then closes."""
    asked: list[bytes] = []
    left = list(replies)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while left:
            asked.append(await read(reader))
            writer.write(left.pop(0))
            await writer.drain()

    return talk, asked


async def post(client: HttpClient, body: bytes = b"?", target: str = "/", **headers: str) -> HttpReply:
    return await client.send("POST", target, headers, body)


def client_of(url: str, timeout: float | None = 30, **options: Any) -> HttpClient:
    return HttpClient(parse_address(url), timeout=timeout, **options)


def with_body(body: bytes, encoding: str) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


REPLIES: list[tuple[bytes, str]] = [
    (HELLO, "with its length"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", "in chunks"),
    (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", "until the connection ends"),
    (b"HTTP/1.0 200 OK\r\n\r\nhello", "of an old server"),
    (b"HTTP/1.1 100 Continue\r\n\r\n" + HELLO, "after an interim reply"),
    (with_body(gzip.compress(b"hello"), "gzip"), "gzip"),
    (with_body(gzip.compress(b"hel") + gzip.compress(b"") + gzip.compress(b"lo"), "gzip"), "gzip of several members"),
    (with_body(gzip.compress(b"hello") + b"\0\0", "gzip"), "gzip with padding"),
    (with_body(zlib.compress(b"hello"), "deflate"), "deflate"),
    (with_body(raw_deflate(b"hello"), "Deflate"), "deflate without a header"),
]


@pytest.mark.parametrize("reply", [row[0] for row in REPLIES], ids=[row[1] for row in REPLIES])
def test_a_reply_is_read(reply: bytes) -> None:
    async def scene() -> None:
        talk, asked = replying_with(reply)
        async with talking(talk) as url:
            client = client_of(url)
            got = await client.send("POST", "/v1/chat?x=%C3%BC", {"X-Sign": "yes"}, encode_json({"a": "ü"}))
            await client.aclose()
        assert (got.status, got.body) == (200, b"hello")
        head, _, body = asked[0].partition(b"\r\n\r\n")
        assert head.startswith(b"POST /v1/chat?x=%C3%BC HTTP/1.1\r\n")
        for line in (b"X-Sign: yes", b"Accept-Encoding: gzip, deflate", b"Content-Type: application/json"):
            assert line in head.split(b"\r\n")
        assert body == '{"a":"ü"}'.encode()

    asyncio.run(scene())


def test_headers_are_sent_in_latin_1() -> None:
    async def scene() -> None:
        talk, asked = replying_with(HELLO, HELLO, HELLO)
        async with talking(talk) as url:
            client = client_of(url)
            for value in ("é", "plain", "ü"):
                await post(client, b"x" * 5000, X=value)
            await client.aclose()
        assert [b"X: \xe9" in asked[0], b"X: plain" in asked[1], b"X: \xfc" in asked[2]] == [True] * 3
        assert [one.endswith(b"x" * 5000) for one in asked] == [True] * 3

    asyncio.run(scene())


def test_lone_surrogates_are_replaced() -> None:
    assert encode_json({"a": "\ud800é"}) == '{"a": "?é"}'.encode()


# --- connections -----------------------------------------------------------------------------------------------------


def test_a_connection_is_used_again_and_one_that_was_closed_is_not() -> None:
    async def scene() -> None:
        connections = 0

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal connections
            connections += 1
            for _ in range(3):
                await read(reader)
                writer.write(HELLO)
                await writer.drain()

        async with talking(talk) as url:
            client = client_of(url)
            for _ in range(7):
                assert (await post(client)).body == b"hello"
            assert connections == 3
            await client.aclose()

    asyncio.run(scene())


def test_concurrent_requests_use_separate_connections() -> None:
    async def scene() -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                body = (await read(reader)).partition(b"\r\n\r\n")[2]
                await asyncio.sleep(0.01)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

        async with talking(talk) as url:
            client = client_of(url)
            for _ in range(2):
                got = await asyncio.gather(*(post(client, b"%d" % n) for n in range(110)))
                assert [one.body for one in got] == [b"%d" % n for n in range(110)]
            await client.aclose()

    asyncio.run(scene())


FAULTS: list[tuple[bytes | None, str, str]] = [
    (b"", "no_reply", "closed without a reply"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhel", "truncated", "closed in the middle"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel", "truncated", "closed within the chunks"),
    (b"SSH-2.0-OpenSSH\r\n\r\n", "not_http", "another protocol"),
    (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, "not_http", "a head without an end"),
    (None, "timeout", "no reply"),
]


@pytest.mark.parametrize(("reply", "reason"), [row[:2] for row in FAULTS], ids=[row[2] for row in FAULTS])
def test_an_error_has_a_reason_and_the_next_request_works(reply: bytes | None, reason: str) -> None:
    async def scene() -> None:
        asked = 0

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal asked
            await read(reader)
            asked += 1
            if asked > 1:
                writer.write(HELLO)
            elif reply is None:
                await reader.read()
            else:
                writer.write(reply)

        async with talking(talk) as url:
            client = client_of(url, timeout=0.2 if reply is None else 30)
            with pytest.raises(HttpRequestError) as caught:
                await post(client)
            assert (caught.value.reason, caught.value.retry) == (reason, True)
            assert (await post(client)).body == b"hello"
            assert asked == 2
            await client.aclose()

    asyncio.run(scene())


@pytest.mark.parametrize("method", ["GET", "PUT", "POST"])
def test_only_a_used_connection_that_was_closed_is_replaced(method: str) -> None:
    async def scene() -> None:
        replies = [HELLO, b"", b"", HELLO, b""]  # a used connection is closed, then a new one; then a used one again
        asked = 0

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal asked
            while True:
                await read(reader)
                reply = replies[asked] if asked < len(replies) else HELLO
                asked += 1
                if not reply:
                    return
                writer.write(reply)

        async with talking(talk) as url:
            client = client_of(url)
            outcomes = []
            for _ in range(4):
                try:
                    outcomes.append((await client.send(method, "/", {})).body)
                except HttpRequestError as error:
                    outcomes.append(error.reason.encode())
            await client.aclose()
        assert outcomes == [b"hello", b"no_reply", b"hello", b"hello"]
        assert asked == 6

    asyncio.run(scene())


def test_a_cancelled_request_does_not_leak_its_reply() -> None:
    async def scene() -> None:
        begun = asyncio.Event()
        asked = 0

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal asked
            while True:
                await read(reader)
                asked += 1
                if asked == 1:
                    begun.set()
                    await asyncio.sleep(0.05)
                    writer.write(HELLO.replace(b"hello", b"wrong"))
                else:
                    writer.write(HELLO)
                await writer.drain()

        async with talking(talk) as url:
            client = client_of(url)
            given_up = asyncio.ensure_future(post(client))
            await begun.wait()
            given_up.cancel()
            assert (await post(client)).body == b"hello"
            await client.aclose()

    asyncio.run(scene())


@pytest.mark.parametrize("end", ["aclose", "close", "loop", "dropped"])
def test_connections_are_closed(end: str) -> None:
    """Warnings are errors: an unclosed session or socket fails the test."""

    async def scene() -> None:
        talk, _ = replying_with(HELLO, HELLO)
        async with talking(talk) as url:
            client = client_of(url)
            await post(client)
            if end == "aclose":
                await client.aclose()
            elif end == "close":
                client.close()
            if end in ("aclose", "close"):
                assert (await post(client)).body == b"hello"  # it opens connections again
            if end == "dropped":
                client.cycle = client  # type: ignore[attr-defined] # so that the garbage collector finds it

    asyncio.run(scene())


@pytest.mark.parametrize("trusted", [True, False])
def test_certificates_are_verified(trusted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = make_certificate(tmp_path)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)

    async def scene() -> None:
        talk, asked = replying_with(HELLO, HELLO)
        async with talking(talk, ssl=context) as url:
            client = client_of(url)
            if trusted:
                for _ in range(2):
                    assert (await post(client)).body == b"hello"
            else:
                with pytest.raises(HttpRequestError, match=r"its TLS certificate is refused: self-signed certificate$"):
                    await post(client)
            await client.aclose()
        assert len(asked) == (2 if trusted else 0)

    asyncio.run(scene())


PROXIES: list[tuple[str, dict[str, str], str | None, str]] = [
    ("http://example.com/", {"http_proxy": "http://p:3128"}, "http://p:3128", "for http"),
    ("https://example.com/", {"http_proxy": "http://p:3128"}, None, "none for https"),
    ("https://example.com/", {"https_proxy": "p:3128"}, "http://p:3128", "without a scheme"),
    ("https://example.com/", {"all_proxy": "http://p:3128"}, "http://p:3128", "for all"),
    ("http://example.com/", {"http_proxy": "http://p:3128", "no_proxy": "example.com"}, None, "an exception"),
    ("http://127.0.0.1:8000/", {"http_proxy": "http://p:3128"}, None, "this machine"),
    ("http://10.1.2.3/", {"http_proxy": "http://p:3128"}, None, "a private network"),
    ("http://vllm:8000/", {"http_proxy": "http://p:3128"}, None, "a name without a dot"),
]


@pytest.mark.parametrize(("url", "variables", "proxy"), [row[:3] for row in PROXIES], ids=[row[3] for row in PROXIES])
def test_proxies(url: str, variables: dict[str, str], proxy: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert find_proxy(parse_address(url)) == proxy


def test_a_proxy_gets_its_password_and_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        talk, asked = replying_with(HELLO)
        async with talking(talk) as url:
            monkeypatch.setenv("http_proxy", url.replace("//", "//ann:secret@"))
            client = client_of("http://judge.invalid/v1")
            assert (await post(client, target="/v1")).body == b"hello"
            await client.aclose()
        assert asked[0].startswith(b"POST http://judge.invalid/v1 HTTP/1.1\r\n")
        assert b"Proxy-Authorization: Basic YW5uOnNlY3JldA==" in asked[0]

    monkeypatch.delenv("no_proxy", raising=False)
    asyncio.run(scene())


def test_a_proxy_that_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # it does not listen
        port = closed.getsockname()[1]
        monkeypatch.setenv("http_proxy", f"http://ann:secret@127.0.0.1:{port}")
        monkeypatch.delenv("no_proxy", raising=False)
        with pytest.raises(HttpRequestError) as caught:
            asyncio.run(post(client_of("http://judge.invalid/v1")))
    place = f"judge.invalid:80: the proxy 127.0.0.1:{port}"
    assert caught.value.message == f"{place} refused the connection; is it running?"


def test_each_member_is_limited_and_read_in_any_parts() -> None:
    """Members that end between two parts of the connection, and a bomb in the second one."""
    data = b"".join(gzip.compress(bytes([letter]) * 70_000) for letter in b"abc")
    for size in (1, 7, 4096):
        body = bytearray()
        decoder = _Decompressor("gzip", {"Accept-Encoding": "gzip"})
        for start in range(0, len(data), size):
            decoder.append(data[start : start + size], body, 10**6)
        decoder.require_end()
        assert body == b"a" * 70_000 + b"b" * 70_000 + b"c" * 70_000
    body = bytearray()
    decoder.append(gzip.compress(b"x") + BOMB, body, 10_000)
    assert len(body) < 10_000 + 2 * _PART_BYTES
    cut = _Decompressor("gzip", {"Accept-Encoding": "gzip"})
    cut.append(data[:-5], bytearray(), 10**6)
    with pytest.raises(HttpRequestError, match="it ends too early"):
        cut.require_end()


IMPORTED_FIRST = """
import sys, asyncio
from auepora_eval.core.types import EvaluationSample
from auepora_eval.systems import calls, http
from auepora_eval.net import client

seen = []
start, timeout = calls.LoopCaller.start, asyncio.timeout
def record_start(self, attempt):
    seen.append(("deadline of the run", "aiohttp" in sys.modules))
    start(self, attempt)
def record_timeout(seconds):
    seen.append(("deadline of the client", "aiohttp" in sys.modules))
    return timeout(seconds)
calls.LoopCaller.start, client.asyncio.timeout = record_start, record_timeout
system = http.HttpSystem("http://127.0.0.1:1/", timeout=5)
assert "aiohttp" not in sys.modules
task = calls.Task(0, EvaluationSample("a", "b"))
calls.call_system(system, [task], calls.CallPolicy(timeout=5, retries=0), lambda found: None)
assert len(dict(seen)) == 2 and all(loaded for _, loaded in seen), seen
"""


def test_no_deadline_includes_imports() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED_FIRST], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unsupported_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "socks5://ann:secret@p:1080")
    with pytest.raises(HttpRequestError, match="only HTTP proxies are supported") as caught:
        asyncio.run(post(client_of("http://judge.invalid/v1")))
    assert "secret" not in str(caught.value)


# --- faults as judges, systems and embedders report them -------------------------------------------------------------

KEY = "sk-very-secret-key-0123456789"
BOMB = gzip.compress(bytes(40_000_000), 1)


def judge(url: str, timeout: float) -> tuple[str, str]:
    critic = OpenAICritic("m", base_url=url, api_key_env="CLIENT_KEY", headers={"X-Gate": KEY}, timeout=timeout)

    async def ask() -> None:
        try:
            await critic.judge(JudgeRequest("Rate it.", {"type": "object", "properties": {"score": {}}}))
        finally:
            await critic.aclose()

    with pytest.raises(JudgeError) as caught:
        asyncio.run(ask())
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    return caught.value.reason, caught.value.message


def system(url: str, timeout: float) -> tuple[str, str]:
    headers = {"Authorization": f"Bearer {KEY}", "Accept-Encoding": "gzip"}
    called = HttpSystem(url, headers=headers, timeout=timeout, max_bytes=10_000_000)
    with pytest.raises(SystemCallError) as caught:
        called.run(sample(), top_k=1)
    called.close()
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    return caught.value.reason, caught.value.message


def embedder(url: str, timeout: float) -> tuple[str, str]:
    embedder = OpenAIEmbedder("m", base_url=url, api_key_env="CLIENT_KEY", timeout=timeout, retries=0)
    (row,) = embedder.embed_batch(["a text"]).rows
    assert isinstance(row, InferenceFailure)
    return row.reason, row.message


def replies(data: bytes, **headers: str) -> Callable[[Reply, Asked], None]:
    return lambda reply, asked: reply.send(data, 200, **headers)


def cut_off(reply: Reply, asked: Asked) -> None:
    reply.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    reply.hang_up()


def trickle(reply: Reply, asked: Asked) -> None:
    reply.close_connection = True
    reply.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n")
    while not reply.server.over.wait(0.02):
        reply.raw(b" ")


ENDPOINT_FAULTS: list[tuple[str, Callable[[Reply, Asked], None], str, str, str]] = [
    # why, what the server does, reason of the judge, reason of the system, part of both messages
    ("bomb", replies(BOMB, Content_Encoding="gzip"), "server_error", "bad_output", "larger than 10000000 bytes"),
    ("slow body", trickle, "timeout", "timeout", ""),
    ("truncated body", cut_off, "server_error", "connection_error", "in the middle of its reply"),
    ("not compressed", replies(b"{}", Content_Encoding="gzip"), "server_error", "bad_output", "the reply cannot be decompressed"),
    ("half of it", replies(BOMB[:200], Content_Encoding="gzip"), "server_error", "bad_output", "it ends too early"),
    ("unknown encoding", replies(b"{}", Content_Encoding="br"), "server_error", "bad_output", "compressed (br), which was not asked for"),
    ("wrong charset", replies('{"é": 1}'.encode("latin-1")), "server_error", "bad_output", ""),
    ("not JSON", replies(b"<html>"), "server_error", "bad_output", "<html>"),
]  # fmt: skip


@pytest.mark.parametrize("call", [judge, system, embedder])
@pytest.mark.parametrize(
    ("answer", "judge_reason", "system_reason", "message"),
    [row[1:] for row in ENDPOINT_FAULTS],
    ids=[row[0] for row in ENDPOINT_FAULTS],
)
def test_a_fault_is_a_failure_with_a_reason(
    call: Callable[[str, float], tuple[str, str]],
    answer: Callable[[Reply, Asked], None],
    judge_reason: str,
    system_reason: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("CLIENT_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    wanted = {"judge": judge_reason, "system": system_reason, "embedder": "embed_failed"}[call.__name__]
    with serving(answer) as server:
        tracemalloc.start()
        try:
            reason, shown = call(server.url, 0.15 if wanted == "timeout" or answer is trickle else 30)
            assert tracemalloc.get_traced_memory()[1] < 32_000_000
        finally:
            tracemalloc.stop()
    assert reason == wanted
    assert message in shown
    assert KEY not in shown + caplog.text


@pytest.mark.parametrize("call", [judge, system, embedder])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_nothing_is_sent_to_the_target_of_a_redirect(
    call: Callable[[str, float], tuple[str, str]], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLIENT_KEY", KEY)
    reached = threading.Event()
    with serving(lambda reply, asked: reached.set()) as target:
        place = target.url.replace("//", f"//ann:{KEY}@") + f"?key={KEY}"
        with serving(lambda reply, asked: reply.send(b"", status, Location=place)) as server:
            reason, message = call(server.url, 30)
            assert len(server.asked) == 1
    assert not reached.is_set()
    assert reason == {"judge": "redirected", "system": "http_error", "embedder": "embed_failed"}[call.__name__]
    assert f"it leads to {target.url}; redirects are not followed" in message
    assert KEY not in message


def test_an_embedder_retries_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenAIEmbedder, "backoff", 0.0)
    left = [429, 503, 500]

    def answer(reply: Reply, asked: Asked) -> None:
        if left:
            reply.send(b"busy", left.pop())
        else:
            reply.send({"data": [{"index": 0, "embedding": [0.5, 1]}]})

    with serving(answer) as server:
        (row,) = OpenAIEmbedder("m", base_url=server.url).embed_batch(["a text"]).rows
        assert [json.loads(asked.body)["input"] for asked in server.asked] == [["a text"]] * 4
    assert list(row) == [0.5, 1.0]
