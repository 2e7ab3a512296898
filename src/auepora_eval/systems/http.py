"""A system behind an HTTP endpoint: each sample is a request, its output a JSON reply."""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import weakref
from collections.abc import Mapping
from http import HTTPStatus
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from .._version import __version__
from ..core.types import EvaluationSample, SystemOutputs
from ..errors import BadTypeError, BadValueError, SystemCallError
from ..net.retry import parse_retry_after
from ..net.urls import Address, Deadline, check_headers, parse_address, without_userinfo
from ..runtime.secrets import Secrets
from .json_mapping import ReplyPaths, Template, default_request, excerpt, json_text, json_type_name, parse_own_reply
from .workers import is_positive

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# --- connections that are kept open, with a deadline for the whole call ----------------------------------------------


class _TimedReader(io.RawIOBase):
    """Reads from a socket by the connection's deadline: a socket's own timeout restarts with every byte."""

    def __init__(self, sock: TimedSocket) -> None:
        self._sock = sock
        self._raw = sock.inner.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        self._sock.inner.settimeout(self._sock.deadline.remaining())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class TimedSocket:
    """The part of a socket that ``http.client`` uses, with a deadline for all of it together."""

    def __init__(self, inner: socket.socket, deadline: Deadline) -> None:
        self.inner, self.deadline = inner, deadline

    def sendall(self, data: bytes) -> None:
        """Send everything, or raise ``TimeoutError``."""
        view = memoryview(data)
        while view:
            self.inner.settimeout(self.deadline.remaining())
            view = view[self.inner.send(view) :]

    def makefile(self, mode: str) -> io.BufferedReader:
        """The file object from which the reply is read."""
        return io.BufferedReader(_TimedReader(self))

    def close(self) -> None:
        """Close it."""
        self.inner.close()


class Connection(http.client.HTTPConnection):
    """One connection to the endpoint, plain or (with a ``context``) encrypted."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext | None) -> None:
        super().__init__(host, port)
        self._context = context
        if context is not None:
            self.default_port = http.client.HTTPS_PORT  # so that the Host header leaves it out
        self.deadline = Deadline(None)
        self.is_used = False
        """Whether it was used before: then the server may have closed it meanwhile."""

    def begin(self, deadline: Deadline) -> None:
        """Set the deadline of the next call."""
        self.deadline = deadline
        if isinstance(self.sock, TimedSocket):
            self.sock.deadline = deadline

    def connect(self) -> None:
        """Connect to the first address that answers."""
        inner = self._reach()
        try:
            inner.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                inner.settimeout(self.deadline.remaining())
                inner = self._context.wrap_socket(inner, server_hostname=self.host)
        except BaseException:
            inner.close()
            raise
        self.sock = TimedSocket(inner, self.deadline)

    def _reach(self) -> socket.socket:
        problem: OSError | None = None
        for family, kind, protocol, _, address in socket.getaddrinfo(self.host, self.port, 0, socket.SOCK_STREAM):
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(self.deadline.remaining())
                sock.connect(address)
            except OSError as error:
                sock.close()
                problem = error
            else:
                return sock
        raise problem or OSError(f"{self.host} has no address")


class ConnectionPool:
    """A pool of idle connections; each is used by one call at a time."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext | None) -> None:
        self._host, self._port, self._context = host, port, context
        self._idle: list[Connection] = []
        self._lock = Lock()
        self._closed = False
        weakref.finalize(self, _close_each, self._idle)  # for those who forget to close

    def take(self, *, fresh: bool = False) -> Connection:
        """An idle connection, or a new one if there is none or with ``fresh``."""
        with self._lock:
            if self._idle and not fresh:
                return self._idle.pop()  # the one used last is the least likely to have been closed
        return Connection(self._host, self._port, self._context)

    def put(self, connection: Connection) -> None:
        """Keep a connection for the next call."""
        connection.is_used = True
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close idle connections now, and the others when they are put back."""
        with self._lock:
            self._closed = True
            _close_each(self._idle)


def _close_each(connections: list[Connection]) -> None:
    while connections:
        connections.pop().close()


# --- the system ------------------------------------------------------------------------------------------------------

_METHODS = ("GET", "POST", "PUT", "PATCH")
_PIECE = 1 << 16


class HttpSystem:
    """Calls an endpoint over HTTP or HTTPS; connections are kept open between calls.

    ``request`` is a template (``json_mapping.Template``), by default the sample's id, query, ``top_k`` and history;
    with ``GET`` its keys become query parameters. ``response`` maps names to paths in the reply
    (``json_mapping.ReplyPaths``); without it the reply is a line of an outputs file. ``timeout`` bounds the whole call
    in seconds. Redirects are not followed and no proxy is used. May be called from many threads at once.
    """

    def __init__(
        self,
        url: str,
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        request: object = None,
        response: Mapping[str, str] | None = None,
        timeout: float | None = None,
        max_bytes: int = 50_000_000,
    ) -> None:
        self._address = parse_address(url)
        self._method = _checked_method(method)
        given, self._secrets = check_headers(headers or {}, self._address)
        self._headers = {"Accept": "application/json", "User-Agent": f"auepora_eval/{__version__}"}
        if self._method != "GET":
            self._headers["Content-Type"] = "application/json"
        replaced = {name.lower() for name in given}
        self._headers = {name: value for name, value in self._headers.items() if name.lower() not in replaced} | given
        self._request = None if request is None else Template(request)
        if self._method == "GET" and request is not None and not isinstance(request, Mapping):
            raise BadTypeError(
                f"with GET, request must map query parameters to values, not be {json_type_name(request)}"
            )
        self._response = None if response is None else ReplyPaths(response)
        if timeout is not None and not is_positive(timeout):
            raise BadValueError(f"timeout must be a number of seconds above 0, not {timeout!r}")
        if not is_positive(max_bytes) or max_bytes < 1:
            raise BadValueError(f"max_bytes must be at least 1, not {max_bytes!r}")
        self._timeout, self._max_bytes = timeout, max_bytes
        context = ssl.create_default_context() if self._address.is_encrypted else None
        self._pool = ConnectionPool(self._address.host, self._address.port, context)

    def __repr__(self) -> str:
        return f"HttpSystem({self._method} {self._address.shown})"

    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        """Call the endpoint; ``SystemCallError`` has the reason and whether a retry may help."""
        try:
            return self._call(sample, top_k)
        except SystemCallError as error:
            message = self._secrets.message(error.message)
            # The original error may quote secrets from the request, so it is not kept as a cause.
            raise SystemCallError(error.reason, message, retry=error.retry, retry_after=error.retry_after) from None

    def close(self) -> None:
        """Close idle connections; those in use are closed after their call."""
        self._pool.close()

    def _call(self, sample: EvaluationSample, top_k: int) -> SystemOutputs:
        target, body = self._build_request(sample, top_k)
        status, headers, reply = self._exchange(target, body)
        if not 200 <= status < 300:
            raise _status_error(status, headers, self._secrets.message(reply.decode(errors="replace")), self._secrets)
        if not reply.strip():
            raise SystemCallError("empty_reply", f"{_status_text(status)} with nothing in it", retry=True)
        encoding = headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("identity", ""):
            raise SystemCallError("bad_output", f"the reply is compressed ({encoding}), which was not asked for")
        output = parse_own_reply(reply, sample) if self._response is None else self._response.outputs(reply, sample)
        if output.error is not None:
            output.error = self._secrets.message(output.error)
        return output

    def _build_request(self, sample: EvaluationSample, top_k: int) -> tuple[str, bytes | None]:
        """The target of the request and its body."""
        if self._request is None:
            value: Any = default_request(sample, top_k)
        else:
            value = self._request.fill(sample, top_k)
        if self._method != "GET":
            return self._address.target, json_text(value).encode()
        query = urlencode(_parameters(value), errors="replace")
        return f"{self._address.target}{'&' if '?' in self._address.target else '?'}{query}", None

    def _exchange(self, target: str, body: bytes | None) -> tuple[int, http.client.HTTPMessage, bytes]:
        deadline = Deadline(self._timeout)
        connection = self._pool.take()
        try:
            try:
                reply = self._send(connection, target, body, deadline)
            except (ConnectionError, ssl.SSLError):  # RemoteDisconnected among them
                if not connection.is_used:
                    raise
                # The server closed it while it was idle: retry over a new one.
                connection.close()
                connection = self._pool.take(fresh=True)
                reply = self._send(connection, target, body, deadline)
            with reply:
                read = self._read(reply)
        except TimeoutError:
            connection.close()
            limit = "the network waits" if self._timeout is None else f"{self._timeout:g} s"
            raise SystemCallError("timeout", f"no complete reply within {limit}", retry=True) from None
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise SystemCallError("connection_error", _connection_problem(error, self._address), retry=True) from None
        except BaseException:
            connection.close()
            raise
        if reply.will_close:
            connection.close()
        else:
            self._pool.put(connection)
        return reply.status, reply.headers, read

    def _send(
        self, connection: Connection, target: str, body: bytes | None, deadline: Deadline
    ) -> http.client.HTTPResponse:
        connection.begin(deadline)
        connection.request(self._method, target, body=body, headers=self._headers)
        return connection.getresponse()

    def _read(self, reply: http.client.HTTPResponse) -> bytes:
        """The whole body, or an error where it is too long or ends before the length it announced."""
        announced = reply.length
        pieces: list[bytes] = []
        size = 0
        while size <= self._max_bytes and (announced is None or announced <= self._max_bytes):
            piece = reply.read(_PIECE)
            if not piece:
                if announced is not None and size < announced:
                    raise http.client.IncompleteRead(b"", announced - size)
                return b"".join(pieces)
            pieces.append(piece)
            size += len(piece)
        raise SystemCallError("bad_output", f"the reply is larger than {self._max_bytes} bytes")


def _checked_method(method: object) -> str:
    if not isinstance(method, str) or method.upper() not in _METHODS:
        raise BadValueError(f"method must be one of {', '.join(_METHODS)}, not {method!r}")
    return method.upper()


def _parameters(value: dict[str, Any]) -> list[tuple[str, str]]:
    """Query parameters: a list repeats its key, null leaves it out, an object is written as JSON."""
    pairs = [
        (key, item)
        for key, item_or_list in value.items()
        for item in (item_or_list if isinstance(item_or_list, list) else [item_or_list])
    ]
    return [(key, item if isinstance(item, str) else json_text(item)) for key, item in pairs if item is not None]


def _status_error(status: int, headers: http.client.HTTPMessage, body: str, secrets: Secrets) -> SystemCallError:
    body_excerpt = excerpt(body)
    message = f"{_status_text(status)}{f': {body_excerpt}' if body_excerpt else ''}"
    wait = parse_retry_after(headers.get("Retry-After", ""))
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return SystemCallError("rate_limited", message, retry=True, retry_after=wait)
    if status >= 500:
        return SystemCallError("server_error", message, retry=True, retry_after=wait)
    if 300 <= status < 400 and (location := headers.get("Location")):
        place = secrets.message(without_userinfo(location))
        return SystemCallError(
            "http_error", f"{_status_text(status)}: it leads to {excerpt(place)}; redirects are not followed, ask there"
        )
    return SystemCallError("http_error", message)


def _status_text(status: int) -> str:
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def _connection_problem(error: Exception, address: Address) -> str:
    place = f"{address.host}:{address.port}"
    if isinstance(error, ConnectionRefusedError):
        return f"{place} refused the connection; is it running?"
    if isinstance(error, http.client.IncompleteRead):
        return f"{place} closed the connection in the middle of its reply"
    if isinstance(error, http.client.RemoteDisconnected):
        return f"{place} closed the connection without a reply"
    if isinstance(error, http.client.BadStatusLine):
        return f"{place} does not speak HTTP"
    return f"{place}: {type(error).__name__}: {error}"
