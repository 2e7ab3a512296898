"""A system behind a real HTTP server, in good days and bad ones."""

import asyncio
import json
import random
import re
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import AueporaEvaluator, InMemoryDataset
from auepora_eval.core.types import Document, RetrievedDocument, SystemOutputs
from auepora_eval.errors import AueporaWarning, BadTypeError, BadValueError, SystemCallError
from auepora_eval.systems.http import HttpSystem
from auepora_eval.systems.interfaces import as_system, split_system
from helpers.builders import sample
from helpers.fault_server import Asked, Reply, make_certificate, serving

Answer = Callable[[Reply, Asked], None]
GOOD = {"retrieved": [{"doc": {"doc_id": "a", "text": "A."}, "score": 0.5}, "b"], "response": {"text": "Yes."}}


def answer_well(reply: Reply, asked: Asked) -> None:
    reply.send({"sample_id": asked.json["sample_id"], **GOOD})


def failure(answer: Answer, **options: Any) -> SystemCallError:
    with serving(answer) as server:
        system = HttpSystem(server.url, **options)
        with pytest.raises(SystemCallError) as caught:
            system.run(sample(), top_k=3)
        system.close()
    return caught.value


# ---- what is asked ----------------------------------------------------------------------------------------------


def test_default_request_has_no_gold() -> None:
    asked_for = sample(
        ["gold-id"], answer="the gold answer", labels={"lang": "en"}, metadata={"note": "gold"}, query="Why?"
    )
    with serving(answer_well) as server:
        output = HttpSystem(server.url).run(asked_for, top_k=7)
        (asked,) = server.asked
    assert asked.json == {"sample_id": "1", "query": "Why?", "top_k": 7}
    assert (asked.method, asked.path, asked.headers["Content-Type"]) == ("POST", "/ask", "application/json")
    assert [item.doc.doc_id for item in output.retrieved] == ["a", "b"]
    assert [item.rank for item in output.retrieved] == [1, 2]
    assert output.response is not None
    assert output.response.text == "Yes."


GIVEN = [Document("d1", "One."), Document("d2", "Two.", {"source": "x"})]
SENT = [{"doc_id": "d1", "text": "One."}, {"doc_id": "d2", "text": "Two.", "metadata": {"source": "x"}}]
SLOTS: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [  # options, request without, and with
    ("the option adds the key", {"documents": True}, {}, {"documents": SENT}),
    ("a placeholder is null without", {"request": {"d": "{documents}"}}, {"d": None}, {"d": SENT}),
    ("a path", {"request": {"d": "{documents[*].text?}"}}, {"d": None}, {"d": ["One.", "Two."]}),
]


@pytest.mark.parametrize(("options", "without", "given"), [row[1:] for row in SLOTS], ids=[row[0] for row in SLOTS])
def test_documents_are_sent_where_the_request_has_a_place(
    options: dict[str, Any], without: dict[str, Any], given: dict[str, Any]
) -> None:
    with serving(lambda reply, asked: reply.send(GOOD)) as server:
        system = HttpSystem(server.url, **options)
        assert system.takes_documents
        system.run(sample(), top_k=2)
        system.run(sample(), top_k=2, documents=GIVEN)
        answer = as_system(split_system(system, "").build(FixedDocuments())).call(sample(), 2)
        assert isinstance(asyncio.run(answer), SystemOutputs)
        system.close()
        own = {} if "request" in options else {"sample_id": "1", "query": sample().query, "top_k": 2}
        assert [asked.json for asked in server.asked] == [{**own, **without}, *[{**own, **given}] * 2]


class FixedDocuments:
    def retrieve(self, query: str, *, top_k: int) -> list[RetrievedDocument]:
        return [RetrievedDocument(one, None, rank) for rank, one in enumerate(GIVEN, 1)]


def test_the_error_without_a_place_for_documents() -> None:
    with pytest.raises(BadValueError, match=r'write "{documents}" in it'):
        HttpSystem("http://127.0.0.1:1/ask", request={"q": "{query}"}, documents=True)
    with pytest.raises(BadTypeError, match=r"^needs parts; HttpSystem does not take documents: .* 'documents: true'"):
        split_system(HttpSystem("http://127.0.0.1:1/ask"), "needs parts")


def test_history_is_sent_if_there_is_one() -> None:
    turns = [{"role": "user", "text": "Hello"}]
    with serving(answer_well) as server:
        HttpSystem(server.url).run(sample(history=turns), top_k=1)
        assert server.asked[0].json["history"] == turns


def test_template_headers_and_method_are_sent() -> None:
    with serving(lambda reply, asked: reply.send(GOOD)) as server:
        system = HttpSystem(
            f"{server.url}?v=1",
            method="put",
            headers={"authorization": "Bearer abcdef", "content-type": "application/x-json"},
            request={"q": "In {labels.lang}: {query}", "k": "{top_k}", "fixed": [1, None, True]},
        )
        system.run(sample(labels={"lang": "en"}, query='say "ä" 🙂'), top_k=2)
        (asked,) = server.asked
    assert asked.json == {"q": 'In en: say "ä" 🙂', "k": 2, "fixed": [1, None, True]}
    assert (asked.method, asked.path) == ("PUT", "/ask?v=1")
    assert asked.headers["authorization"] == "Bearer abcdef"
    assert asked.headers["content-type"] == "application/x-json"


def test_get_fills_query_parameters() -> None:
    request = {"q": "{query}", "k": "{top_k}", "lang": ["de", "en"], "none": "{labels.x?}", "deep": {"a": True}}
    with serving(lambda reply, asked: reply.send(GOOD)) as server:
        HttpSystem(f"{server.url}?key=1", method="GET", request=request).run(sample(query="a&b ü"), top_k=4)
        HttpSystem(server.url, method="GET").run(sample(), top_k=4)
        first, second = server.asked
    assert first.path == "/ask?key=1&q=a%26b+%C3%BC&k=4&lang=de&lang=en&deep=%7B%22a%22%3A+true%7D"
    assert first.body == b""
    assert second.path == "/ask?sample_id=1&query=why%3F&top_k=4"


def test_user_and_password_of_the_address_are_sent_as_a_header() -> None:
    with serving(answer_well) as server:
        HttpSystem(server.url.replace("//", "//ann:s%40cret@")).run(sample(), top_k=1)
        assert server.asked[0].headers["Authorization"] == "Basic YW5uOnNAY3JldA=="


# ---- what comes back ----------------------------------------------------------------------------------------------


def test_paths_find_the_answer_in_a_reply_of_another_format() -> None:
    body = {"choices": [{"message": {"content": "Because."}}], "hits": [{"id": 7, "body": "text", "s": 2}]}
    paths = {"answer": "choices[0].message.content", "retrieved": "hits", "doc_id": "id", "text": "body", "score": "s"}
    with serving(lambda reply, asked: reply.send(body)) as server:
        output = HttpSystem(server.url, response=paths).run(sample(), top_k=1)
    assert output.response is not None
    assert output.response.text == "Because."
    assert [(item.doc.doc_id, item.doc.text, item.score) for item in output.retrieved] == [("7", "text", 2.0)]


def test_a_body_in_chunks_and_one_without_a_length_are_read_to_the_end() -> None:
    text = json.dumps(GOOD).encode()

    def chunked(reply: Reply, asked: Asked) -> None:
        reply.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in (text[:9], text[9:]):
            reply.raw(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        reply.raw(b"0\r\n\r\n")

    def until_closed(reply: Reply, asked: Asked) -> None:
        reply.raw(b"HTTP/1.0 200 OK\r\n\r\n" + text)
        reply.hang_up()

    for answer in (chunked, until_closed):
        with serving(answer) as server:
            system = HttpSystem(server.url, timeout=20)
            for _ in range(2):
                assert system.run(sample(), top_k=1).response is not None
            assert server.connections == (1 if answer is chunked else 2)
            system.close()


# ---- what goes wrong ------------------------------------------------------------------------------------------------


def status(code: int, body: bytes = b"", **headers: str) -> Answer:
    return lambda reply, asked: reply.send(body, code, **headers)


def raw(data: bytes) -> Answer:
    def answer(reply: Reply, asked: Asked) -> None:
        reply.raw(data)
        reply.hang_up()

    return answer


def in_turn(*answers: Answer) -> Answer:
    waiting = list(answers)

    def answer(reply: Reply, asked: Asked) -> None:
        waiting.pop(0)(reply, asked)

    return answer


def stall(reply: Reply, asked: Asked) -> None:
    reply.stall()


def trickle(start: bytes) -> Answer:
    """One byte at a time, each well within the timeout."""

    def answer(reply: Reply, asked: Asked) -> None:
        reply.close_connection = True
        reply.raw(start)
        while not reply.server.over.wait(0.05):
            reply.raw(b" ")

    return answer


def reset(reply: Reply, asked: Asked) -> None:
    reply.hang_up(reset=True)


OK = b"HTTP/1.1 200 OK\r\n"
FAULTS: list[tuple[str, Answer, str, bool, str]] = [  # why, what the server does, reason, may pass, message
    ("500", status(500, b"<h1>oops\n  there</h1>"), "server_error", True, r"HTTP 500 Internal Server Error: <h1>oops there</h1>"),
    ("503 without a body", status(503), "server_error", True, r"HTTP 503 Service Unavailable$"),
    ("a status nobody knows", status(599), "server_error", True, r"HTTP 599$"),
    ("429", status(429, b"slow down"), "rate_limited", True, r"HTTP 429 Too Many Requests: slow down"),
    ("400 with a long body", status(400, b"x" * 999), "http_error", False, r"HTTP 400 Bad Request: x{300}…$"),
    ("404", status(404, b"no such page"), "http_error", False, r"HTTP 404 Not Found: no such page"),
    ("redirect", status(302, Location="http://u:p@else.where/x?key=1"), "http_error", False, r"leads to http://else.where/x; redirects are not followed"),
    ("redirect to nowhere", status(304), "http_error", False, r"HTTP 304 Not Modified$"),
    ("broken JSON", status(200, b'{"response": "half'), "bad_output", True, r'not valid JSON.*: \{"response": "half$'),
    ("a page instead of JSON", status(200, b"<html>"), "bad_output", True, r"not valid JSON.*: <html>"),
    ("not UTF-8", status(200, b'{"response": "\xff"}'), "bad_output", True, r"0xff.*not valid UTF-8"),
    ("a list", status(200, b"[1, 2]"), "bad_output", False, r"the reply is a list, not an object: \[1, 2\]"),
    ("an unknown field", status(200, b'{"respons": "x"}'), "bad_output", False, r"unknown field 'respons'"),
    ("the wrong type", status(200, b'{"response": 7}'), "bad_output", False, r"'response'"),
    ("nothing said", status(200, b"{}"), "bad_output", False, r"neither what was retrieved nor what was answered"),
    ("another sample's", status(200, b'{"sample_id": "2", "response": "x"}'), "bad_output", False, r"for sample '2', not for '1'"),
    ("compressed", status(200, b"\x1f\x8b", Content_Encoding="gzip"), "bad_output", False, r"compressed \(gzip\)"),
    ("an empty body", status(200), "empty_reply", True, r"HTTP 200 OK with nothing in it"),
    ("spaces only", status(200, b" \n "), "empty_reply", True, r"nothing in it"),
    ("204", lambda reply, asked: reply.raw(b"HTTP/1.1 204 No Content\r\n\r\n"), "empty_reply", True, r"HTTP 204 No Content"),
    ("closed without a reply", raw(b""), "connection_error", True, r"closed the connection without a reply"),
    ("closed within the status", raw(b"HTT"), "connection_error", True, r"closed the connection without a reply"),
    ("another protocol", raw(b"SSH-2.0-OpenSSH\r\n"), "connection_error", True, r"does not speak HTTP"),
    ("closed mid-body", raw(OK + b"Content-Length: 100\r\n\r\n{"), "connection_error", True, r"in the middle of its reply"),
    ("closed mid-chunk", raw(OK + b"Transfer-Encoding: chunked\r\n\r\nff\r\n{"), "connection_error", True, r"in the middle of its reply"),
    ("reset", reset, "connection_error", True, r"Reset|reset|without a reply"),
    ("too many headers", raw(OK + b"X: y\r\n" * 200 + b"\r\n"), "connection_error", True, r"does not speak HTTP"),
    ("stalls", stall, "timeout", True, r"no complete reply within 0.4 s"),
    ("trickles its headers", trickle(OK + b"X: "), "timeout", True, r"no complete reply"),
    ("trickles its body", trickle(OK + b"Content-Length: 4000\r\n\r\n"), "timeout", True, r"no complete reply"),
    ("announces a huge body", raw(OK + b"Content-Length: 99999999999\r\n\r\n"), "bad_output", False, r"larger than 5000 bytes"),
    ("sends a huge body", raw(OK + b"\r\n" + b" " * 200_000), "bad_output", False, r"larger than 5000 bytes"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "reason", "may_pass", "message"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS]
)
def test_a_fault_is_an_error_with_its_reason(answer: Answer, reason: str, may_pass: bool, message: str) -> None:
    # Only what never answers may take the timeout; the others have all the time a busy machine needs.
    error = failure(answer, timeout=0.4 if reason == "timeout" else 30, max_bytes=5000)
    assert (error.reason, error.retry) == (reason, may_pass), error
    assert re.search(message, error.message), error.message


RETRY_AFTER: list[tuple[str, str | None, float | None]] = [
    ("seconds", "7", 7.0),
    ("none", None, None),
    ("a fraction", "1.5", 1.5),
    ("nonsense", "soon", None),
    ("negative", "-3", None),
    ("too many digits", "9" * 400, None),
    ("a date long gone", formatdate(0, usegmt=True), 0.0),
    ("an impossible date", "Mon, 99 Foo 2020 00:00:00 GMT", None),
]


@pytest.mark.parametrize("code", [429, 503])
@pytest.mark.parametrize(("header", "seconds"), [row[1:] for row in RETRY_AFTER], ids=[row[0] for row in RETRY_AFTER])
def test_retry_after(header: str | None, seconds: float | None, code: int) -> None:
    answer = status(code) if header is None else status(code, Retry_After=header)
    assert failure(answer).retry_after == seconds


def test_retry_after_a_date_to_come() -> None:
    wait = failure(status(429, Retry_After=formatdate(time.time() + 1000, usegmt=True))).retry_after
    assert wait is not None
    assert 900 < wait <= 1000


def test_connection_refused() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(SystemCallError, match=f"connection_error: 127.0.0.1:{port} refused the connection") as caught:
        HttpSystem(f"http://127.0.0.1:{port}/").run(sample(), top_k=1)
    assert caught.value.retry


def test_encryption_where_there_is_none() -> None:
    with serving(answer_well) as server, pytest.raises(SystemCallError, match=r"connection_error: .*SSL") as caught:
        HttpSystem(server.url.replace("http:", "https:"), timeout=20).run(sample(), top_k=1)
    assert caught.value.retry


def test_a_handshake_that_is_never_answered_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(SystemCallError, match="timeout"):
            HttpSystem(url, timeout=0.3).run(sample(), top_k=1)


# ---- connections ------------------------------------------------------------------------------------------------------


def test_one_connection_serves_many_calls() -> None:
    with serving(answer_well) as server:
        system = HttpSystem(server.url)
        for _ in range(5):
            system.run(sample(), top_k=1)
        assert server.connections == 1
        system.close()
        system.run(sample(), top_k=1)  # a late call still works, and leaves nothing behind
        assert server.connections == 2


@pytest.mark.parametrize("with_reset", [False, True], ids=["closed", "reset"])
def test_closed_idle_connection_is_reopened(with_reset: bool) -> None:
    closed = threading.Event()

    def answer_and_leave(reply: Reply, asked: Asked) -> None:
        answer_well(reply, asked)  # and, without having announced it, close
        reply.hang_up(reset=with_reset)
        closed.set()

    with serving(answer_and_leave) as server:
        system = HttpSystem(server.url, timeout=20)
        for _ in range(3):
            assert system.run(sample(), top_k=1).response is not None
            assert closed.wait(10)
            closed.clear()
        assert server.connections == 3
        assert len(server.asked) == 3
        system.close()


def test_opening_again_happens_once() -> None:
    answers = [answer_well, raw(b""), raw(b""), answer_well]
    with serving(in_turn(*answers)) as server:
        system = HttpSystem(server.url, timeout=20)
        system.run(sample(), top_k=1)
        with pytest.raises(SystemCallError, match="connection_error"):
            system.run(sample(), top_k=1)
        system.run(sample(), top_k=1)
        assert len(server.asked) == 4
        system.close()


def test_a_failed_status_keeps_the_connection_and_a_timeout_does_not() -> None:
    answers = [status(500, b"x"), stall, answer_well]
    with serving(in_turn(*answers)) as server:
        system = HttpSystem(server.url, timeout=0.5)
        for reason in ("server_error", "timeout"):
            with pytest.raises(SystemCallError, match=reason):
                system.run(sample(), top_k=1)
        assert server.connections == 1
        system.run(sample(), top_k=1)
        assert server.connections == 2
        system.close()


def test_many_threads_at_once_each_get_their_own_answer() -> None:
    def echo(reply: Reply, asked: Asked) -> None:
        reply.send({"sample_id": asked.json["sample_id"], "response": asked.json["query"]})

    with serving(echo) as server, ThreadPoolExecutor(16) as pool:
        system = HttpSystem(server.url)
        outputs = list(
            pool.map(lambda n: system.run(sample(sample_id=f"q{n}", query=f"text {n}"), top_k=1), range(300))
        )
        assert [output.response and output.response.text for output in outputs] == [f"text {n}" for n in range(300)]
        assert server.connections <= 16
        system.close()


# ---- a run over a bad day ---------------------------------------------------------------------------------------------


def ask_until_answered(system: HttpSystem, sample_id: str, retries: int) -> SystemOutputs:
    """What an engine does, without the waiting in between."""
    for attempt in range(retries + 1):
        try:
            return system.run(sample(sample_id=sample_id), top_k=3)
        except SystemCallError as error:
            if attempt == retries or not error.retry:
                return SystemOutputs(retrieved=[], error=str(error))
    raise AssertionError


@pytest.mark.slow
@pytest.mark.parametrize("retries", [0, 5])
def test_every_sample_ends_answered_or_with_a_reason(retries: int) -> None:
    chance = random.Random(7)
    lock = threading.Lock()

    def unreliable(reply: Reply, asked: Asked) -> None:
        with lock:
            draw = chance.random()
        if draw < 0.10:
            reply.send(b"boom", 500)
        elif draw < 0.20:
            reply.send(b"later", 429, Retry_After="1")
        elif draw < 0.25:
            reply.stall()
        elif draw < 0.30:
            reply.send(b'{"retrieved": [')
        else:
            answer_well(reply, asked)

    with serving(unreliable) as server, ThreadPoolExecutor(32) as pool:
        system = HttpSystem(server.url, timeout=1.5)
        outputs = list(pool.map(lambda n: ask_until_answered(system, f"q{n}", retries), range(300)))
        system.close()
    reasons = Counter(output.error.partition(":")[0] if output.error else "answered" for output in outputs)
    assert sum(reasons.values()) == 300
    assert not reasons["connection_error"], [output.error for output in outputs if output.error]
    assert set(reasons) <= {"answered", "server_error", "rate_limited", "timeout", "bad_output"}
    assert all(output.error is not None or output.retrieved for output in outputs)
    if retries:
        assert reasons["answered"] >= 290  # 0.3 ** 6 of 300 is less than one
    else:
        assert min(reasons[name] for name in ("server_error", "rate_limited", "timeout", "bad_output")) > 0


# ---- secrets ----------------------------------------------------------------------------------------------------------


def test_no_message_shows_a_secret() -> None:
    key, password, query_key = "sk-live-1234567890", "hunter2-hunter2", "query-key-77"

    def parrot(reply: Reply, asked: Asked) -> None:
        echo_text = f"you said {asked.headers} and {asked.path}"
        padding = "x" * (300 - len("you said {'Accept'") - 200)
        code = {"first": 401, "second": 500, "third": 200, "fourth": 200}[asked.json["sample_id"]]
        body = json.dumps({"error": echo_text}) if asked.json["sample_id"] == "fourth" else padding + echo_text
        reply.send(body.encode(), code)

    with serving(parrot) as server:
        url = server.url.replace("//", f"//ann:{password}@") + f"?api_key={query_key}"
        system = HttpSystem(url, headers={"X-Api-Key": key})
        messages = [repr(system)]
        for name in ("first", "second", "third"):
            with pytest.raises(SystemCallError) as caught:
                system.run(sample(sample_id=name), top_k=1)
            messages.append(repr(caught.value) + str(caught.value.__cause__))
        messages.append(str(system.run(sample(sample_id="fourth"), top_k=1).error))
        system.close()
    assert all("***" in text for text in messages[1:])
    for secret in (key, password, query_key, "YW5uOmh1bnRlcjItaHVudGVyMg=="):
        for text in messages:
            assert secret not in text
            assert secret[:8] not in text


# ---- what cannot be meant -----------------------------------------------------------------------------------------------

URL = "http://localhost/ask"
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("no scheme", {"url": "localhost:8000/ask"}, "must begin with http:// or https://"),
    ("another scheme", {"url": "ftp://x/"}, "must begin with http://"),
    ("no host", {"url": "http:///ask"}, "must begin with http://"),
    ("no text", {"url": 7}, "url must be a string"),
    ("a port that is none", {"url": "http://ann:geheim@x:port/"}, "url: http://x:port/ cannot be read"),
    ("a port too large", {"url": "http://x:99999/"}, "cannot be read"),
    ("a name too long", {"url": f"http://{'a' * 70}.de/"}, "cannot be read"),
    ("a space", {"url": "http://x/a b"}, "a space or a control character"),
    ("a line break", {"url": "http://x/a\r\nHost: y"}, "a space or a control character"),
    ("a placeholder", {"url": "http://x/?q={query}"}, "an address has no placeholders"),
    ("a method nobody knows", {"method": "FETCH"}, "method must be one of GET, POST, PUT, PATCH, not 'FETCH'"),
    ("a header with a line break", {"headers": {"X": "geheim\r\nY: z"}}, "'X' holds a line break"),
    ("a header of Chinese", {"headers": {"X": "geheim 中"}}, "'X' holds a character that HTTP headers cannot carry"),
    ("a header that is a list", {"headers": {"X": ["geheim"]}}, "'X' must be a string, not a list"),
    ("no name of a header", {"headers": {"a b": "geheim"}}, "'a b' is no name of a header"),
    ("headers in a list", {"headers": ["X: geheim"]}, "headers must map names to texts"),
    ("our own header", {"headers": {"Content-Length": "1"}}, "'Content-Length' is set for every request"),
    (
        "two who ask",
        {"url": "http://ann:geheim@x/", "headers": {"authorization": "geheim"}},
        "both the url and the headers",
    ),
    ("GET with a text", {"method": "GET", "request": "{query}"}, "with GET, request must map query parameters"),
    ("an unknown placeholder", {"request": {"q": "{qery}"}}, "did you mean 'query'"),
    ("an unknown name", {"response": {"answr": "x"}}, "did you mean 'answer'"),
]


@pytest.mark.parametrize(("options", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadValueError) as caught:
        HttpSystem(**{"url": URL, **options})
    assert message in str(caught.value)
    assert "geheim" not in str(caught.value)
    assert caught.value.__cause__ is None


# ---- encrypted ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def encrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A certificate of our own for 127.0.0.1, trusted while the test runs."""
    certificate = make_certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    return context


def test_an_encrypted_endpoint_answers_over_one_connection(encrypted: ssl.SSLContext) -> None:
    with serving(answer_well, encrypted) as server:
        system = HttpSystem(server.url, timeout=30)
        for _ in range(3):
            assert system.run(sample(query="x" * 100_000), top_k=1).response is not None
        assert server.connections == 1
        system.close()


def test_closed_encrypted_connection_is_reopened(encrypted: ssl.SSLContext) -> None:
    def answer_and_leave(reply: Reply, asked: Asked) -> None:
        answer_well(reply, asked)
        reply.hang_up()

    with serving(answer_and_leave, encrypted) as server:
        system = HttpSystem(server.url, timeout=30)
        for _ in range(3):
            assert system.run(sample(), top_k=1).response is not None
        system.close()


def test_an_encrypted_reply_that_trickles_times_out(encrypted: ssl.SSLContext) -> None:
    answer = trickle(OK + b"Content-Length: 4000\r\n\r\n")
    with serving(answer, encrypted) as server, pytest.raises(SystemCallError, match="timeout"):
        HttpSystem(server.url, timeout=1).run(sample(), top_k=1)


def test_untrusted_certificate_is_refused(encrypted: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with serving(answer_well, encrypted) as server:
        with pytest.raises(
            SystemCallError, match=r"connection_error: .*its TLS certificate is refused: self-signed certificate"
        ):
            HttpSystem(server.url, timeout=30).run(sample(), top_k=1)
        assert not server.asked


# ---- in an evaluation -----------------------------------------------------------------------------------------------------


def test_endpoint_in_call_system() -> None:
    with serving(in_turn(answer_well, status(500))) as server:
        system = HttpSystem(server.url)
        evaluator = AueporaEvaluator(system, ["hit_rate@2"])
        dataset = InMemoryDataset("two", [sample(["b"], sample_id="1"), sample(["b"], sample_id="2")])
        with pytest.warns(AueporaWarning, match="failed on 1 of 2 samples"):
            (result,) = evaluator.evaluate(dataset)
        system.close()
    assert result.value == 1 / 2
