"""Connections to a judge's server: HTTP/1.1 on asyncio's own streams, with no more work per request than it takes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies, proxy_bypass

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import h11
    from httpx2 import AsyncClient, Request, Response

__all__ = ["bypasses_proxy", "make_http_client"]

_PART = 65_536
_Origin = tuple[str, str, int]


def bypasses_proxy(host: str) -> bool:
    """Whether the environment lets one ask a host directly."""
    return not getproxies() or bool(proxy_bypass(host))


def make_http_client(timeout: float | None) -> AsyncClient:
    """A client of HTTP for many small requests at once. No proxy is used.

    The client's own transport takes a millisecond of work for each, and with 64 under way another one for looking
    through all connections whenever a request begins or ends: enough to keep a judge waiting.
    """
    import httpx2

    class Streams(httpx2.AsyncBaseTransport):
        def __init__(self) -> None:
            self._connections = _ConnectionPool()

        async def handle_async_request(self, request: Request) -> Response:
            return await self._connections.exchange(request)

        async def aclose(self) -> None:
            await self._connections.close()

    return httpx2.AsyncClient(transport=Streams(), timeout=timeout, follow_redirects=True)


class _HttpConnection:
    """One connection and what the protocol says about it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        import h11

        self.reader, self.writer, self.state = reader, writer, h11.Connection(h11.CLIENT)

    def is_open(self) -> bool:
        """Whether the other side has closed it meanwhile, as far as one can know."""
        return not (self.reader.at_eof() or self.reader.exception() or self.writer.is_closing())

    async def exchange(self, method: bytes, request: Request, content: bytes) -> tuple[h11.Response, bytes]:
        """Send a request and read all of the reply."""
        import h11

        asked = h11.Request(method=method, target=request.url.raw_path, headers=request.headers.raw)
        events = (asked, h11.Data(content), h11.EndOfMessage()) if content else (asked, h11.EndOfMessage())
        self.writer.write(b"".join(self.state.send(event) or b"" for event in events))
        await self.writer.drain()
        head: h11.Response | None = None
        parts: list[bytes] = []
        while True:
            event: Any = self.state.next_event()
            if event is h11.NEED_DATA:
                self.state.receive_data(await self.reader.read(_PART))
            elif isinstance(event, h11.Data):
                parts.append(bytes(event.data))
            elif isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                return head, b"".join(parts)
            elif not isinstance(event, h11.InformationalResponse):
                raise h11.RemoteProtocolError("the connection was closed before the reply was complete")

    def is_kept(self) -> bool:
        """Whether another request can go the same way."""
        import h11

        if self.state.our_state is h11.DONE and self.state.their_state is h11.DONE:
            self.state.start_next_cycle()
            return True
        return False


class _ConnectionPool:
    """Open connections by where they lead to; the one used last goes first, and servers close what is not needed."""

    def __init__(self) -> None:
        self._idle: dict[_Origin, list[_HttpConnection]] = {}
        self._all: set[_HttpConnection] = set()
        self._context: ssl.SSLContext | None = None

    async def exchange(self, request: Request) -> Response:
        """The reply to a request, read to its end."""
        import httpx2

        content = await request.aread()
        limits = request.extensions.get("timeout") or {}
        with _translate_errors():
            connection, place = await self._connection(request, limits.get("connect"))
            async with self._used(connection, place):
                try:
                    async with asyncio.timeout(limits.get("read")):
                        head, body = await connection.exchange(request.method.encode(), request, content)
                except TimeoutError as error:
                    raise httpx2.ReadTimeout("no reply in time") from error
        return httpx2.Response(
            head.status_code,
            headers=list(head.headers.raw_items()),
            stream=httpx2.ByteStream(body),
            extensions={"http_version": b"HTTP/1.1", "reason_phrase": bytes(head.reason)},
        )

    async def close(self) -> None:
        """Close all of them."""
        for connection in self._all:
            connection.writer.transport.abort()
        self._all.clear()
        self._idle.clear()
        await asyncio.sleep(0)  # so that the loop gets to close them

    @asynccontextmanager
    async def _used(self, connection: _HttpConnection, place: _Origin) -> AsyncIterator[None]:
        kept = False
        try:
            yield
            kept = connection.is_kept()
        finally:
            if kept:
                self._idle.setdefault(place, []).append(connection)
            else:
                self._all.discard(connection)
                connection.writer.transport.abort()

    async def _connection(self, request: Request, timeout: float | None) -> tuple[_HttpConnection, _Origin]:
        import httpx2

        scheme, host = request.url.scheme, request.url.host
        if scheme not in ("http", "https"):
            raise httpx2.UnsupportedProtocol(f"{scheme}:// is not HTTP")
        place = scheme, host, request.url.port or (443 if scheme == "https" else 80)
        idle = self._idle.get(place, [])
        while idle:
            connection = idle.pop()
            if connection.is_open():
                return connection, place
            self._all.discard(connection)
            connection.writer.transport.abort()
        try:
            async with asyncio.timeout(timeout):
                streams = await asyncio.open_connection(
                    host, place[2], ssl=self._secure() if scheme == "https" else None, happy_eyeballs_delay=0.25
                )
        except TimeoutError as error:
            raise httpx2.ConnectTimeout("no connection in time") from error
        except OSError as error:
            raise httpx2.ConnectError(str(error)) from error
        connection = _HttpConnection(*streams)
        self._all.add(connection)
        return connection, place

    def _secure(self) -> ssl.SSLContext:
        if self._context is None:
            import httpx2

            self._context = httpx2.create_ssl_context()
            self._context.set_alpn_protocols(["http/1.1"])
        return self._context


@contextmanager
def _translate_errors() -> Iterator[None]:
    """What goes wrong on the wire, by the names that users of the client know."""
    import h11
    import httpx2

    try:
        yield
    except h11.RemoteProtocolError as error:
        raise httpx2.RemoteProtocolError(str(error)) from error
    except h11.LocalProtocolError as error:
        raise httpx2.LocalProtocolError(str(error)) from error
    except OSError as error:
        raise httpx2.ReadError(str(error)) from error
