"""Retries: which errors are transient, how long to wait before the next attempt, and the loop of attempts."""

from __future__ import annotations

import asyncio
import errno
import math
import random
import re
import socket
import time
from collections.abc import Awaitable, Callable
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, TypeVar

from ..errors import AueporaError, JudgeError, SystemCallError

T = TypeVar("T")

MAX_RETRY_AFTER = 120.0
"""Seconds: upper bound on a wait that a server requests (``Retry-After``)."""
MAX_BACKOFF = 60.0
"""Seconds: upper bound on our own backoff."""
_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_TRANSIENT_ERRNOS = frozenset(
    getattr(errno, name)
    for name in (
        "EAGAIN", "EINTR", "EBUSY", "EMFILE", "ENFILE", "ENOBUFS", "ENETDOWN", "ENETUNREACH", "ENETRESET",
        "ECONNABORTED", "ECONNRESET", "ECONNREFUSED", "ETIMEDOUT", "EHOSTDOWN", "EHOSTUNREACH",
    )
    if hasattr(errno, name)
)  # fmt: skip
# Clients use similar names for these errors; any class of the hierarchy with such a name counts.
_TRANSIENT_NAMES = re.compile(
    r"Timeout|TimedOut|DeadlineExceeded|RateLimit|TooManyRequests|Throttl|ResourceExhausted|Overloaded|Unavailable"
    r"|ServerDisconnected|RemoteProtocolError|IncompleteRead|ChunkedEncodingError|InternalServerError|BadGateway"
    r"|^(API|Client|Http)?Connect(ion)?Error$|^ClientConnectionError$|^(Read|Write)Error$"
)


_CONNECTION_ERRNOS = frozenset(
    getattr(errno, name)
    for name in (
        "ENETDOWN", "ENETUNREACH", "ENETRESET", "ECONNABORTED", "ECONNRESET", "ECONNREFUSED", "EHOSTDOWN",
        "EHOSTUNREACH", "EPIPE",
    )
    if hasattr(errno, name)
)  # fmt: skip
_CONNECTION_NAMES = re.compile(
    r"^(API|Client|Http|New)?Connect(ion|or)?(Error|Timeout)$|^ClientConnectionError$|ServerDisconnected"
)


class WrappedError(Exception):
    """Wraps another error, its ``cause``, with additional information."""

    cause: Exception


class HttpRequestError(AueporaError, RuntimeError):
    """An HTTP request got no reply that can be used. Callers make an error of their own of it.

    The reason is one of ``unreachable``, ``connect_timeout``, ``timeout``, ``no_reply`` (the connection was closed),
    ``truncated``, ``not_http``, ``too_large``, ``bad_encoding``, ``bad_reply`` and ``status`` (an error status).
    """

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        retry: bool = False,
        retry_after: float | None = None,
        status: int | None = None,
    ) -> None:
        self.reason, self.message, self.retry_after, self.status = reason, message, retry_after, status
        self.retry = retry or status in _TRANSIENT_STATUSES
        super().__init__(message)


def is_transient(error: BaseException) -> bool:
    """Whether a retry may help: a busy or unreachable service, a timeout; never an error such as ValueError."""
    if isinstance(error, WrappedError):
        return is_transient(error.cause)
    if isinstance(error, (SystemCallError, JudgeError, HttpRequestError)):
        return error.retry
    if isinstance(error, BaseExceptionGroup):
        return all(is_transient(exception) for exception in error.exceptions)
    if not isinstance(error, Exception):
        return False
    status = http_status(error)
    if status is not None:
        return status in _TRANSIENT_STATUSES
    if isinstance(error, (TimeoutError, ConnectionError)):
        return True
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_AGAIN
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _TRANSIENT_ERRNOS
    if isinstance(reason := getattr(error, "reason", None), OSError):  # urllib wraps the error
        return is_transient(reason)
    return any(_TRANSIENT_NAMES.search(kind.__name__) for kind in type(error).__mro__)


def is_connection_error(error: BaseException) -> bool:
    """Whether no service answered at all: refused, unreachable, unknown host, connection lost; not a timeout."""
    if isinstance(error, WrappedError):
        return is_connection_error(error.cause)
    if isinstance(error, SystemCallError):
        return error.reason == "connection_error"
    if isinstance(error, BaseExceptionGroup):
        return all(is_connection_error(exception) for exception in error.exceptions)
    if not isinstance(error, Exception) or http_status(error) is not None:
        return False
    if isinstance(error, (ConnectionError, socket.gaierror)):
        return True
    if isinstance(error, OSError) and error.errno in _CONNECTION_ERRNOS:
        return True
    if isinstance(reason := getattr(error, "reason", None), OSError):  # urllib wraps the error
        return is_connection_error(reason)
    return any(_CONNECTION_NAMES.search(kind.__name__) for kind in type(error).__mro__)


def http_status(error: BaseException) -> int | None:
    """The HTTP status an error carries, if it does."""
    response = getattr(error, "response", None)
    for holder, names in ((error, ("status_code", "status", "code")), (response, ("status_code", "status"))):
        for name in names:
            value = getattr(holder, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
                return int(value)
    return None


def retry_after(error: BaseException) -> float | None:
    """The number of seconds to wait that the server requests, if any."""
    if isinstance(error, WrappedError):
        return retry_after(error.cause)
    if isinstance(error, (SystemCallError, JudgeError, HttpRequestError)):
        return _seconds(error.retry_after)
    if isinstance(error, BaseExceptionGroup):
        return max(
            (wait for exception in error.exceptions if (wait := retry_after(exception)) is not None), default=None
        )
    for holder in (error, getattr(error, "response", None)):
        headers = getattr(holder, "headers", None)
        try:
            text = headers.get("retry-after") or headers.get("Retry-After")  # type: ignore[union-attr]
        except Exception:  # noqa: S112 - unusable headers
            continue
        if text is not None and (wait := parse_retry_after(str(text))) is not None:
            return wait
    return _seconds(getattr(error, "retry_after", None))


def parse_retry_after(text: str) -> float | None:
    """The seconds that a ``Retry-After`` header means: a number, or a date that lies ahead; ``None`` if neither."""
    try:
        seconds = float(text)
    except ValueError:
        pass
    else:
        return seconds if math.isfinite(seconds) and seconds >= 0 else None
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _seconds(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        return None
    return max(0.0, float(value))


class RetryPolicy(Protocol):
    """The numbers that retries depend on."""

    @property
    def retries(self) -> int:
        """How often a call is retried."""

    @property
    def backoff(self) -> float:
        """Seconds before the first retry."""


class Backoff:
    """Exponential backoff with full jitter.

    A wait that the server requests is respected, plus a little jitter, up to ``MAX_RETRY_AFTER``.
    """

    def __init__(self, policy: RetryPolicy, *, seed: int = 0) -> None:
        self._backoff = policy.backoff
        self._random = random.Random(seed)  # noqa: S311 - jitter, not security

    def delay(self, number: int, error: BaseException) -> float:
        """Seconds to wait after attempt ``number`` (1 is the first) failed with ``error``."""
        requested = retry_after(error)
        if requested is not None:
            return min(requested, MAX_RETRY_AFTER) + self._random.uniform(0, min(self._backoff, 1.0))
        # The exponent is bounded to avoid an overflow.
        return self._random.uniform(0, min(self._backoff * 2 ** min(number - 1, 60), MAX_BACKOFF))


async def call_with_retries(
    call: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    *,
    backoff: Backoff | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    has_recovered: Callable[[float], bool] = lambda failed_at: False,
) -> T:
    """The result of a call, retried while its errors are transient; the last error if no retry is left.

    ``sleep`` waits between two attempts and may return early. ``has_recovered`` says whether other calls show that the
    service works again, given the time of the last failure on the loop's clock; the backoff then starts again.
    """
    delays = Backoff(policy) if backoff is None else backoff
    clock = asyncio.get_running_loop().time
    attempts, failures, failed_at = 0, 0, clock()
    while True:
        attempts += 1
        try:
            return await call()
        except Exception as error:
            if attempts > policy.retries or not is_transient(error):
                raise
            failures = 1 if has_recovered(failed_at) else failures + 1
            failed_at = clock()
            delay = delays.delay(failures, error)
        await sleep(delay)
