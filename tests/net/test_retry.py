"""Repetitions: what may pass is asked again, after a wait; a mistake is not."""

import asyncio
import email.message
import email.utils
import errno
import socket
import time
import urllib.error
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from auepora_eval.core.types import EvaluationSample, SystemOutputs
from auepora_eval.errors import SystemCallError
from auepora_eval.net.retry import (
    MAX_RETRY_AFTER,
    Backoff,
    call_with_retries,
    is_transient,
    parse_retry_after,
    retry_after,
)
from auepora_eval.systems.policy import CallPolicy
from helpers.calls import KINDS, asked, in_kind, number, own


def made(name: str, base: type[Exception] = Exception, **attributes: Any) -> Exception:
    """An error as some client defines it."""
    error: Exception = type(name, (base,), {})("message")
    for key, value in attributes.items():
        setattr(error, key, value)
    return error


def http_error(status: int, **headers: str) -> urllib.error.HTTPError:
    fields = email.message.Message()
    for name, value in headers.items():
        fields[name.replace("_", "-")] = value
    return urllib.error.HTTPError("http://127.0.0.1", status, "", fields, None)


ERRORS: list[tuple[str, BaseException, bool]] = [
    ("a timeout", TimeoutError(), True),
    ("a lost connection", ConnectionResetError(), True),
    ("a refused connection", ConnectionRefusedError(), True),
    ("an unreachable network", OSError(errno.ENETUNREACH, "unreachable"), True),
    ("too many open files", OSError(errno.EMFILE, "too many open files"), True),
    ("a missing file", FileNotFoundError(errno.ENOENT, "no such file"), False),
    ("no permission", PermissionError(errno.EACCES, "no"), False),
    ("a full disk", OSError(errno.ENOSPC, "no space"), False),
    ("a name server that is busy", socket.gaierror(socket.EAI_AGAIN, "again"), True),
    ("an unknown host", socket.gaierror(socket.EAI_NONAME, "unknown"), False),
    ("a wrapped connection error", urllib.error.URLError(ConnectionRefusedError()), True),
    ("a wrapped mistake", urllib.error.URLError("unknown url type"), False),
    ("a mistake", ValueError("x"), False),
    ("a key error", KeyError("x"), False),
    ("an exit", SystemExit(503), False),
    ("an interrupt", KeyboardInterrupt(), False),
    ("a system that says so", SystemCallError("busy", retry=True), True),
    ("a system that says no", SystemCallError("refused"), False),
    ("status 429", http_error(429), True),
    ("status 404", http_error(404), False),
    ("status_code 503", made("APIStatusError", status_code=503), True),
    ("status_code 400 of a connection", made("X", ConnectionError, status_code=400), False),
    ("status 529 of a response", made("X", response=SimpleNamespace(status_code=529)), True),
    ("a code that is a word", made("RateLimitError", code="rate_limit_exceeded"), True),
    ("a code that is no status", made("DatabaseError", code=7), False),
    ("RateLimitError", made("RateLimitError"), True),
    ("APIConnectionError", made("APIConnectionError"), True),
    ("APITimeoutError", made("APITimeoutError"), True),
    ("ServiceUnavailableError", made("ServiceUnavailableError"), True),
    ("OverloadedError", made("OverloadedError"), True),
    ("a child of ConnectTimeout", made("Mine", type("ConnectTimeout", (Exception,), {})), True),
    ("AuthenticationError", made("AuthenticationError"), False),
    ("a parse error", made("JSONReadErrors"), False),
    ("several that may pass", ExceptionGroup("", [TimeoutError(), ConnectionError()]), True),
    ("several and a mistake", ExceptionGroup("", [TimeoutError(), ValueError()]), False),
]


@pytest.mark.parametrize(("error", "want"), [row[1:] for row in ERRORS], ids=[row[0] for row in ERRORS])
def test_transient_failures(error: BaseException, want: bool) -> None:
    assert is_transient(error) is want


AFTER: list[tuple[str, BaseException, float | None]] = [
    ("nothing said", TimeoutError(), None),
    ("seconds", http_error(429, Retry_After="7"), 7.0),
    ("a fraction", http_error(429, Retry_After="0.5"), 0.5),
    ("nonsense", http_error(429, Retry_After="soon"), None),
    ("below nothing", http_error(429, Retry_After="-3"), None),
    ("too many digits", http_error(429, Retry_After="9" * 400), None),
    ("no number", http_error(429, Retry_After="nan"), None),
    ("of a response", made("X", response=SimpleNamespace(headers={"retry-after": "3"})), 3.0),
    ("in other letters", made("X", response=SimpleNamespace(headers={"Retry-After": "3"})), 3.0),
    ("odd headers", made("X", headers=5), None),
    ("an attribute", made("X", retry_after=4), 4.0),
    ("the system's own", SystemCallError("busy", retry=True, retry_after=2.5), 2.5),
    ("the longest of several", ExceptionGroup("", [http_error(429, Retry_After="7"), TimeoutError()]), 7.0),
]


@pytest.mark.parametrize(("error", "want"), [row[1:] for row in AFTER], ids=[row[0] for row in AFTER])
def test_retry_after_of_errors(error: BaseException, want: float | None) -> None:
    assert retry_after(error) == want


def test_retry_after_as_a_date() -> None:
    in_a_minute = parse_retry_after(email.utils.formatdate(time.time() + 60, usegmt=True))
    assert in_a_minute is not None
    assert 50 < in_a_minute <= 60
    assert parse_retry_after("Thu, 01 Jan 1970 00:00:10 GMT") == 0.0


def test_backoff_grows_with_jitter_up_to_a_limit() -> None:
    waits = Backoff(CallPolicy(backoff=0.5))
    drawn = [[waits.delay(n, TimeoutError()) for _ in range(200)] for n in (1, 2, 3, 20, 5000)]
    for some, limit in zip(drawn, (0.5, 1.0, 2.0, 60.0, 60.0), strict=True):
        assert 0 <= min(some) < 0.2 * limit
        assert 0.8 * limit < max(some) <= limit
    assert Backoff(CallPolicy(backoff=0)).delay(9, TimeoutError()) == 0.0
    again = Backoff(CallPolicy(backoff=0.5))
    assert drawn[0] == [again.delay(1, TimeoutError()) for _ in range(200)]  # drawn from a seed


def test_retry_after_is_limited() -> None:
    waits = Backoff(CallPolicy(backoff=0.5))
    for asked_for, least in ((7, 7.0), (10_000, MAX_RETRY_AFTER), (float("inf"), MAX_RETRY_AFTER)):
        wait = waits.delay(1, SystemCallError("busy", retry=True, retry_after=asked_for))
        assert least <= wait <= least + 0.5


LOOPS = [  # retries, errors of the first attempts, attempts made, whether the last one succeeds, why
    (2, [], 1, True, "no error"),
    (2, [TimeoutError(), TimeoutError()], 3, True, "the last retry succeeds"),
    (2, [TimeoutError()] * 3, 3, False, "no retry is left"),
    (0, [TimeoutError()], 1, False, "no retries"),
    (2, [TimeoutError(), ValueError()], 2, False, "an error that a retry does not help"),
]


@pytest.mark.parametrize(
    ("retries", "errors", "attempts", "succeeds"), [row[:4] for row in LOOPS], ids=[row[4] for row in LOOPS]
)
def test_loop_of_attempts(retries: int, errors: list[Exception], attempts: int, succeeds: bool) -> None:
    made = 0

    async def call() -> str:
        nonlocal made
        made += 1
        if made <= len(errors):
            raise errors[made - 1]
        return "done"

    async def run() -> str:
        return await call_with_retries(call, CallPolicy(retries=retries, backoff=0))

    if succeeds:
        assert asyncio.run(run()) == "done"
    else:
        with pytest.raises(type(errors[attempts - 1])):
            asyncio.run(run())
    assert made == attempts


@pytest.mark.parametrize("recovers", [False, True])
def test_backoff_starts_again_when_the_service_has_recovered(recovers: bool) -> None:
    numbers: list[int] = []

    class Recording(Backoff):
        def delay(self, number: int, error: BaseException) -> float:
            numbers.append(number)
            return 0.0

    async def call() -> None:
        raise TimeoutError

    async def run() -> None:
        policy = CallPolicy(retries=3)
        await call_with_retries(call, policy, backoff=Recording(policy), has_recovered=lambda _: recovers)

    with pytest.raises(TimeoutError):
        asyncio.run(run())
    assert numbers == ([1, 1, 1] if recovers else [1, 2, 3])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("passes_after", "retries"), [(1, 1), (2, 3), (2, 1)])
def test_call_is_retried_until_it_succeeds_or_is_given_up(kind: str, passes_after: int, retries: int) -> None:
    calls: Counter[int] = Counter()

    def run(sample: EvaluationSample) -> SystemOutputs:
        n = number(sample)
        calls[n] += 1
        if n % 2 and calls[n] <= passes_after:
            raise ConnectionError(f"attempt {calls[n]}")
        return own(sample)

    result, book = asked(in_kind(kind, run), 6, retries=retries, **KINDS[kind])
    attempts = min(passes_after, retries) + 1
    error = None if passes_after <= retries else f"raised: ConnectionError: attempt {attempts}"
    assert (result.delivered, result.ended) == (6, "done")
    assert [calls[n] for n in range(6)] == [1, attempts] * 3
    assert [one.extra for one in book.by_position()] == [{}, {"attempts": attempts}] * 3
    assert book.errors() == [None, error] * 3


def test_retry_after_is_respected() -> None:
    moments: list[float] = []

    def run(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        moments.append(time.monotonic())
        if len(moments) == 1:
            raise SystemCallError("http_429", retry=True, retry_after=0.3)
        return own(sample)

    _, book = asked(run, 1, retries=1)
    assert moments[1] - moments[0] >= 0.3
    # The time is that of the attempt which succeeded, without the wait.
    assert book[0].output.timings["end_to_end"] < 0.3
    assert book[0].output.timings["started"] >= time.time() - 30


def test_pending_retry_counts_towards_concurrency() -> None:
    order: list[int] = []

    def run(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        order.append(number(sample))
        if order == [0]:
            raise SystemCallError("busy", retry=True, retry_after=0.1)
        return own(sample)

    asked(run, 3, retries=1)
    assert order == [0, 0, 1, 2]
