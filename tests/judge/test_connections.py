"""The HTTP transport of judges: reply formats, connection reuse and errors."""

import asyncio
import gzip
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.judge.connections import make_http_client
from helpers.requirements import need

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(autouse=True)
def client_is_there() -> None:
    need("httpx2")


HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@asynccontextmanager
async def serving(talk: Talk, **options: Any) -> AsyncIterator[str]:
    writers: list[asyncio.StreamWriter] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            await talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, **options)
    try:
        yield f"://127.0.0.1:{server.sockets[0].getsockname()[1]}"
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


def kind(name: str) -> type[Exception]:
    found: type[Exception] = getattr(need("httpx2"), name)
    return found


REPLIES: list[tuple[bytes, str]] = [
    (HELLO, "with its length"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", "in chunks"),
    (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", "until the connection ends"),
    (b"HTTP/1.0 200 OK\r\n\r\nhello", "of an old server"),
    (b"HTTP/1.1 100 Continue\r\n\r\n" + HELLO, "after another one that says to go on"),
    (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(gzip.compress(b"hello"))
        + gzip.compress(b"hello"),
        "packed",
    ),
]


@pytest.mark.parametrize(("reply", "why"), REPLIES, ids=[row[-1] for row in REPLIES])
def test_a_reply_is_read(reply: bytes, why: str) -> None:
    async def scene() -> None:
        talk, asked = replying_with(reply)
        async with serving(talk) as place, make_http_client(30) as client:
            got = await client.post(f"http{place}/v1/chat?x=1", json={"a": "ü"}, headers={"X-Sign": "yes"})
        assert (got.status_code, got.text) == (200, "hello")
        head, _, body = asked[0].partition(b"\r\n\r\n")
        assert head.startswith(b"POST /v1/chat?x=1 HTTP/1.1\r\n")
        assert b"x-sign: yes" in head.lower()
        assert body == '{"a":"ü"}'.encode()

    asyncio.run(scene())


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

        async with serving(talk) as place, make_http_client(30) as client:
            for number in range(7):
                got = await client.post(f"http{place}/", content=b"?")
                assert got.text == "hello"
                if number % 3 == 2:
                    await asyncio.sleep(0.05)  # the end of the connection is on its way
            assert connections == 3

    asyncio.run(scene())


def test_concurrent_requests_use_separate_connections() -> None:
    async def scene() -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                body = (await read(reader)).partition(b"\r\n\r\n")[2]
                await asyncio.sleep(0.01)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

        async with serving(talk) as place, make_http_client(30) as client:
            for _ in range(2):
                got = await asyncio.gather(*(client.post(f"http{place}/", content=b"%d" % n) for n in range(100)))
                assert [one.text for one in got] == [str(n) for n in range(100)]

    asyncio.run(scene())


def test_a_redirect_is_followed() -> None:
    async def scene() -> None:
        talk, asked = replying_with(b"HTTP/1.1 307 -\r\nLocation: /v2\r\nContent-Length: 0\r\n\r\n", HELLO)
        async with serving(talk) as place, make_http_client(30) as client:
            assert (await client.post(f"http{place}/v1", content=b"?")).text == "hello"
        assert [one.split(b" ")[1] for one in asked] == [b"/v1", b"/v2"]
        assert asked[1].endswith(b"\r\n\r\n?")

    asyncio.run(scene())


FAULTS: list[tuple[bytes | None, str, str]] = [
    (b"", "RemoteProtocolError", "closed without a word"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhel", "RemoteProtocolError", "closed in the middle"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel", "RemoteProtocolError", "cut chunks"),
    (b"SSH-2.0-OpenSSH\r\n\r\n", "RemoteProtocolError", "another protocol"),
    (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, "RemoteProtocolError", "a head without end"),
    (None, "ReadTimeout", "no reply"),
]


@pytest.mark.parametrize(("reply", "name", "why"), FAULTS, ids=[row[-1] for row in FAULTS])
def test_errors_are_translated_and_the_next_request_works(reply: bytes | None, name: str, why: str) -> None:
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

        async with serving(talk) as place, make_http_client(30) as client:
            with pytest.raises(kind(name)):
                await client.post(f"http{place}/", content=b"?", timeout=0.2 if reply is None else 30)
            assert (await client.post(f"http{place}/", content=b"?")).text == "hello"

    asyncio.run(scene())


def test_unreachable_server_and_unsupported_scheme() -> None:
    async def scene() -> None:
        async with serving(replying_with()[0]) as place:
            pass
        async with make_http_client(30) as client:
            with pytest.raises(kind("ConnectError")):
                await client.post(f"http{place}/")
            with pytest.raises(kind("UnsupportedProtocol")):
                await client.post("ftp://127.0.0.1/")

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

        async with serving(talk) as place, make_http_client(30) as client:
            given_up = asyncio.ensure_future(client.post(f"http{place}/", content=b"?"))
            await begun.wait()
            given_up.cancel()
            assert (await client.post(f"http{place}/", content=b"?")).text == "hello"

    asyncio.run(scene())


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 and its key, in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    made = tmp_path / "server.pem"
    subject = ["-subj", "/CN=judge", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run([*command, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    made.write_bytes(key.read_bytes() + cert.read_bytes())
    return made


@pytest.mark.parametrize("trusted", [True, False])
def test_secure_connections_are_made_to_servers_that_can_be_trusted(
    certificate: Path, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)

    async def scene() -> None:
        talk, asked = replying_with(HELLO, HELLO)
        async with serving(talk, ssl=context) as place, make_http_client(30) as client:
            if trusted:
                for _ in range(2):
                    assert (await client.post(f"https{place}/", content=b"?")).text == "hello"
            else:
                with pytest.raises(kind("ConnectError"), match=r"(?i)certificate"):
                    await client.post(f"https{place}/", content=b"?")
            assert len(asked) == (2 if trusted else 0)

    asyncio.run(scene())
