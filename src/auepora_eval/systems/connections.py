"""HTTP connections that are kept open and respect a deadline for the whole call, however slow the server is."""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import weakref
from threading import Lock
from typing import TYPE_CHECKING

from .deadlines import Deadline

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["Connection", "ConnectionPool"]


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
