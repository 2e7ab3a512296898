"""HTTP/1.1 transport for judge servers on asyncio streams, with little overhead per request."""

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


_CHUNK_BYTES = 65_536
_Origin = tuple[str, str, int]


def bypasses_proxy(host: str) -> bool:
    """Whether the environment configures no proxy for a host."""
    return not getproxies() or bool(proxy_bypass(host))


def make_http_client(timeout: float | None) -> AsyncClient:
    """An HTTP client for many small concurrent requests; it uses no proxy.

    The library's own transport needs a millisecond per request, and with 64 in flight another one to scan all
    connections whenever a request starts or ends: enough to keep a judge waiting.
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
    """One connection and its protocol state."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        import h11

        self.reader, self.writer, self.state = reader, writer, h11.Connection(h11.CLIENT)

    def is_open(self) -> bool:
        """Whether the connection is still open, as far as can be known."""
        return not (self.reader.at_eof() or self.reader.exception() or self.writer.is_closing())

    async def exchange(self, method: bytes, request: Request, content: bytes) -> tuple[h11.Response, bytes]:
        """Send a request and read all of the reply."""
        import h11

        head_event = h11.Request(method=method, target=request.url.raw_path, headers=request.headers.raw)
        events = (head_event, h11.Data(content), h11.EndOfMessage()) if content else (head_event, h11.EndOfMessage())
        self.writer.write(b"".join(self.state.send(event) or b"" for event in events))
        await self.writer.drain()
        head: h11.Response | None = None
        parts: list[bytes] = []
        while True:
            event: Any = self.state.next_event()
            if event is h11.NEED_DATA:
                self.state.receive_data(await self.reader.read(_CHUNK_BYTES))
            elif isinstance(event, h11.Data):
                parts.append(bytes(event.data))
            elif isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                return head, b"".join(parts)
            elif not isinstance(event, h11.InformationalResponse):
                raise h11.RemoteProtocolError("the connection was closed before the reply was complete")

    def can_be_reused(self) -> bool:
        """Whether the connection can serve another request; prepares it for one."""
        import h11

        if self.state.our_state is h11.DONE and self.state.their_state is h11.DONE:
            self.state.start_next_cycle()
            return True
        return False


class _ConnectionPool:
    """Pool of connections by origin; the most recently used is taken first, and servers close idle ones."""

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
            connection, origin = await self._acquire(request, limits.get("connect"))
            async with self._lease(connection, origin):
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
        await asyncio.sleep(0)  # lets the loop close them

    @asynccontextmanager
    async def _lease(self, connection: _HttpConnection, origin: _Origin) -> AsyncIterator[None]:
        reusable = False
        try:
            yield
            reusable = connection.can_be_reused()
        finally:
            if reusable:
                self._idle.setdefault(origin, []).append(connection)
            else:
                self._all.discard(connection)
                connection.writer.transport.abort()

    async def _acquire(self, request: Request, timeout: float | None) -> tuple[_HttpConnection, _Origin]:
        import httpx2

        scheme, host = request.url.scheme, request.url.host
        if scheme not in ("http", "https"):
            raise httpx2.UnsupportedProtocol(f"{scheme}:// is not HTTP")
        origin = scheme, host, request.url.port or (443 if scheme == "https" else 80)
        idle = self._idle.get(origin, [])
        while idle:
            connection = idle.pop()
            if connection.is_open():
                return connection, origin
            self._all.discard(connection)
            connection.writer.transport.abort()
        try:
            async with asyncio.timeout(timeout):
                streams = await asyncio.open_connection(
                    host, origin[2], ssl=self._ssl_context() if scheme == "https" else None, happy_eyeballs_delay=0.25
                )
        except TimeoutError as error:
            raise httpx2.ConnectTimeout("no connection in time") from error
        except OSError as error:
            raise httpx2.ConnectError(str(error)) from error
        connection = _HttpConnection(*streams)
        self._all.add(connection)
        return connection, origin

    def _ssl_context(self) -> ssl.SSLContext:
        if self._context is None:
            import httpx2

            self._context = httpx2.create_ssl_context()
            self._context.set_alpn_protocols(["http/1.1"])
        return self._context


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Translate transport errors into those of the HTTP client."""
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
