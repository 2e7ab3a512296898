"""A judge on 127.0.0.1 that speaks the chat-completions protocol, answers as a test defines, and fails on request.

``python tests/helpers/judge_server.py '{"latency": 0.2}'`` runs one in a process of its own; see ``served_apart``.
"""

import asyncio
import contextlib
import json
import random
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

__all__ = ["FAULTS", "Answer", "Asked", "JudgeServer", "Reply", "served_apart"]


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    number: int
    """0 is the first."""
    time: int
    """Number of earlier requests with the same messages."""
    path: str
    headers: dict[str, str]
    """By name in lower case."""
    raw: bytes = field(repr=False)

    @cached_property
    def body(self) -> Any:
        return json.loads(self.raw)

    @property
    def prompt(self) -> str:
        """The last message of the user."""
        return str(self.body["messages"][-1]["content"])

    @property
    def schema(self) -> Any:
        """The requested schema, if there is one."""
        return (self.body.get("response_format") or {}).get("json_schema", {}).get("schema")


@dataclass(frozen=True)
class Reply:
    """A reply of the server, or a fault."""

    content: str | None = None
    finish: str = "stop"
    refusal: str | None = None
    logprobs: list[dict[str, Any]] | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | dict[str, Any] | None = None
    """Sent as it is instead of a completion."""
    then: Literal["answer", "cut", "close", "hang"] = "answer"
    """``cut``: half the body, then the end; ``close``: the end at once; ``hang``: nothing until the server stops."""


def _error(status: int, message: str, code: str | None = None, **headers: str) -> Reply:
    body = {"error": {"message": message, "type": "error", "param": None, "code": code}}
    return Reply(status=status, body=body, headers={name.replace("_", "-"): value for name, value in headers.items()})


FAULTS: dict[str, Reply] = {
    "429": _error(429, "Rate limit reached", "rate_limit_exceeded"),
    "429_wait": _error(429, "Rate limit reached", "rate_limit_exceeded", Retry_After="0.05"),
    "500": _error(500, "The server had an error"),
    "503": _error(503, "Overloaded"),
    "401": _error(401, "Incorrect API key provided: sk-abcd********wxyz.", "invalid_api_key"),
    "404": _error(404, "The model `x` does not exist", "model_not_found"),
    "context": _error(400, "This model's maximum context length is 4096 tokens.", "context_length_exceeded"),
    "filter_400": _error(400, "The prompt triggered the content management policy", "content_filter"),
    "no_response_format": _error(400, "response_format is not supported by this model"),
    "filter": Reply("", finish="content_filter"),
    "length": Reply('{"score": ', finish="length"),
    "empty": Reply(""),
    "refusal": Reply(None, refusal="I cannot judge this."),
    "prose": Reply("What a fine answer, truly."),
    "far_off": Reply('{"score": 1889}'),
    "not_json": Reply(body=b"<html>Bad gateway</html>", headers={"Content-Type": "text/html"}),
    "truncated": Reply(body=b'{"choices": [{"message": {"content": "{'),
    "cut": Reply('{"score": 4}', then="cut"),
    "close": Reply(then="close"),
    "hang": Reply(then="hang"),
}
"""What can go wrong, by name."""

Answer = str | dict[str, Any] | Reply | Callable[[Asked], str | dict[str, Any] | Reply]


class JudgeServer:
    """Serves within a ``with`` block, from a thread of its own.

    ``answer`` is the reply of the judge, or a function of the request. ``capacity`` requests are served at once, each
    for ``latency`` seconds; more wait, or with ``overload="429"`` are refused. ``rates`` gives shares of the requests
    that fail, by the names of ``FAULTS``: which ones depends on the seed, on what is asked and on how often it was
    asked before, never on the order. ``at`` maps the number of a request to its reply.
    """

    def __init__(
        self,
        answer: Answer = '{"score": 4}',
        *,
        latency: float = 0.0,
        capacity: int | None = None,
        overload: Literal["wait", "429"] = "wait",
        rates: Mapping[str, float] | None = None,
        at: Mapping[int, str | Reply] | None = None,
        seed: int = 0,
    ) -> None:
        self._answer, self._latency, self._overload = answer, latency, overload
        self._rates, self._at, self._seed = dict(rates or {}), dict(at or {}), seed
        self._capacity = sys.maxsize if capacity is None else capacity
        self._times: Counter[bytes] = Counter()
        self._busy = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="judge-server", daemon=True)
        self._ready = threading.Event()
        self.asked: list[Asked] = []
        self.faults: Counter[str] = Counter()
        """How often each fault was shown."""
        self.most_at_once = 0
        self.connections = 0
        self.port = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def stats(self) -> dict[str, Any]:
        counts = {"requests": len(self.asked), "most_at_once": self.most_at_once, "connections": self.connections}
        return {**counts, "faults": dict(self.faults)}

    def __enter__(self) -> "JudgeServer":
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stop, self._places = asyncio.Event(), asyncio.Semaphore(self._capacity)
        self._open: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self.connections += 1
        try:
            # A client that leaves early is part of what is tested.
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._exchange(reader, writer):
                    pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its reply; whether the connection stays open."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
        if method == "GET":
            _write(writer, 200, {}, json.dumps(self.stats).encode())
            return True
        asked = Asked(len(self.asked), self._times[raw], path, headers, raw)
        self._times[raw] += 1
        self.asked.append(asked)
        if self._overload == "429" and self._places.locked():
            self.faults["overload"] += 1
            return await self._send_reply(FAULTS["429"], asked, writer)
        async with self._places:
            self._busy += 1
            self.most_at_once = max(self.most_at_once, self._busy)
            try:
                reply = self._reply(asked)
                if self._latency and reply.status not in (401, 404, 429):  # those are turned away at the door
                    await asyncio.sleep(self._latency)
            finally:
                self._busy -= 1
        return await self._send_reply(reply, asked, writer)

    def _reply(self, asked: Asked) -> Reply:
        fault = self._at.get(asked.number) or self._drawn(asked)
        if isinstance(fault, str):
            self.faults[fault] += 1
            return FAULTS[fault]
        answer = fault or (self._answer(asked) if callable(self._answer) else self._answer)
        if isinstance(answer, Reply):
            return answer
        return Reply(answer if isinstance(answer, str) else json.dumps(answer))

    def _drawn(self, asked: Asked) -> str | None:
        if not self._rates:
            return None
        drawn = random.Random(f"{self._seed} {asked.time} {asked.raw!r}").random()
        for name, rate in self._rates.items():
            drawn -= rate
            if drawn < 0:
                return name
        return None

    async def _send_reply(self, reply: Reply, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        if reply.then == "hang":
            await self._stop.wait()
        if reply.then in ("hang", "close"):
            return False
        body = reply.body if reply.body is not None else _completion(reply, asked)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        _write(writer, reply.status, reply.headers, data, upto=len(data) // 2 if reply.then == "cut" else None)
        await writer.drain()
        return reply.then == "answer"


def _completion(reply: Reply, asked: Asked) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.content, "refusal": reply.refusal}
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": reply.finish, "logprobs": None}
    if reply.logprobs is not None:
        choice["logprobs"] = {"content": reply.logprobs, "refusal": None}
    prompt_tokens = sum(len(str(one["content"]).split()) for one in asked.body["messages"])
    completion_tokens = len((reply.content or "").split())
    return {
        "id": f"chatcmpl-{asked.number}",
        "object": "chat.completion",
        "created": 0,
        "model": asked.body["model"],
        "choices": [choice],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


def _write(
    writer: asyncio.StreamWriter, status: int, headers: Mapping[str, str], data: bytes, upto: int | None = None
) -> None:
    sent = {"Content-Type": "application/json", **headers, "Content-Length": str(len(data))}
    head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    writer.write(f"HTTP/1.1 {status} -\r\n{head}\r\n".encode("latin-1") + data[:upto])


@dataclass(frozen=True)
class Apart:
    """A server in another process."""

    base_url: str

    @property
    def stats(self) -> dict[str, Any]:
        """Its counts so far."""
        with urllib.request.urlopen(self.base_url, timeout=10) as reply:
            found: dict[str, Any] = json.load(reply)
        return found


@contextlib.contextmanager
def served_apart(**options: Any) -> Iterator[Apart]:
    """A ``JudgeServer`` in a process of its own, so that it takes no time from the one that is measured."""
    command = [sys.executable, str(Path(__file__).resolve()), json.dumps(options)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Apart(process.stdout.readline().strip())
        finally:
            process.stdin.close()  # which ends it


if __name__ == "__main__":
    with JudgeServer(**json.loads(sys.argv[1] if len(sys.argv) > 1 else "{}")) as running:
        print(running.base_url, flush=True)
        sys.stdin.read()
