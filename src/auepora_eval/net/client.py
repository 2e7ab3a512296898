"""The HTTP client of judges, HTTP systems and embedding endpoints.

Requests go to one origin only, and redirects are not followed, so that no prompt, header or key reaches another host. A
deadline covers the whole call; the size of a reply is limited, counted after decompression; proxies come from the
environment.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import ipaddress
import json
import os
import re
import ssl
import weakref
import zlib
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

import msgspec

from .._version import __version__
from ..errors import BadTypeError, BadValueError
from ..runtime.secrets import MIN_SECRET_LENGTH, PUBLIC_HEADERS, REDACTED, Secrets
from .retry import HttpRequestError, parse_retry_after

if TYPE_CHECKING:
    import aiohttp


# --- URLs and headers of endpoints; messages show no secrets ---------------------------------------------------------

_PORTS = {"http": 80, "https": 443}
_SAFE = "%/:=&?~+!$,;'@()*[]"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PLAIN_AUTHORITY = re.compile(r"(\[[^\]@]*\]|[^:@]*)(:\d{0,5})?")
_ESCAPES = "in a user or password write / as %2F, # as %23, ? as %3F and @ as %40"
_RESERVED_HEADERS = frozenset({"content-length", "transfer-encoding", "connection", "host"})


@dataclass(frozen=True, slots=True)
class Address:
    """The address of an endpoint: host, port and request target."""

    host: str
    port: int
    target: str
    """The path and the query."""
    shown: str
    """The address as messages may show it: without user, password and query."""
    is_encrypted: bool
    user: str | None = None
    password: str = ""
    query: str = ""

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        host = f"[{self.host}]" if ":" in self.host else self.host.encode("idna").decode()
        return f"{'https' if self.is_encrypted else 'http'}://{host}:{self.port}"


def without_userinfo(url: str) -> str:
    """A URL that may be shown: no user, no password, no query. A password may contain any character, ``/`` too."""
    scheme, separator, rest = url.partition("//")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if separator and not _PLAIN_AUTHORITY.fullmatch(authority):
        rest = rest.rpartition("@")[2]
    return f"{scheme}{separator}{rest}".partition("?")[0]


def parse_address(url: object) -> Address:
    """The address a URL gives; ``BadValueError`` says what cannot be meant, without showing its user and password."""
    if not isinstance(url, str):
        raise BadTypeError(f"url must be a string such as 'http://localhost:8000/ask', not {url!r:.80}")
    shown = without_userinfo(url)
    if "{" in url or "}" in url:
        raise BadValueError(
            f"url: {shown} holds a brace; an address has no placeholders. With method GET the request fills in "
            'the query, such as request: {"q": "{query}"}'
        )
    if re.search(r"[\x00-\x20\x7f]", url):
        raise BadValueError(f"url: {shown!r} holds a space or a control character; write it as %20 or leave it out")
    try:
        parts = urlsplit(url)
        port = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError as error:
        problem = _ESCAPES if "@" in url else str(error)
        raise BadValueError(f"url: {shown} cannot be read: {problem}") from None
    if parts.scheme.lower() not in _PORTS or not parts.hostname:
        raise BadValueError(
            f"url: {shown!r} must begin with http:// or https:// and a host, as http://localhost:8000/ask"
        )
    return _address(parts, port)


def _address(parts: SplitResult, port: int | None) -> Address:
    scheme, host = parts.scheme.lower(), parts.hostname or ""
    path = quote(parts.path or "/", safe=_SAFE)
    target = f"{path}?{quote(parts.query, safe=_SAFE)}" if parts.query else path
    at = f"[{host}]" if ":" in host else host
    shown = f"{scheme}://{at}{'' if port is None else f':{port}'}{path}"
    if parts.username is not None and "@" in path:  # the part of a password after its first @
        shown = f"{scheme}://{REDACTED}@{path.rpartition('@')[2]}"
    return Address(
        host=host,
        port=port if port is not None else _PORTS[scheme],
        target=target,
        shown=shown,
        is_encrypted=scheme == "https",
        user=None if parts.username is None else unquote(parts.username),
        password=unquote(parts.password or ""),
        query=parts.query,
    )


def check_headers(headers: Mapping[str, str], address: Address) -> tuple[dict[str, str], Secrets]:
    """The headers to send, with the user of the address as one of them, and what among them is secret."""
    if not isinstance(headers, Mapping):
        raise BadTypeError(f"headers must map names to texts, not be a {type(headers).__name__}")
    checked = {_name(name): _header(name, value) for name, value in headers.items()}
    secrets = [value for name, value in checked.items() if name.lower() not in PUBLIC_HEADERS]
    secrets += [value.partition(" ")[2].strip() for value in secrets]  # the token after its scheme
    if address.user is not None:
        if any(name.lower() == "authorization" for name in checked):
            raise BadValueError("both the url and the headers say who asks; leave the user out of the url")
        token = base64.b64encode(f"{address.user}:{address.password}".encode()).decode()
        checked["Authorization"] = f"Basic {token}"
        secrets += [token, address.password, f"{address.user}:{address.password}"]
    secrets += [part.partition("=")[2] for part in address.query.split("&")]
    return checked, Secrets(secret for secret in secrets if len(secret) >= MIN_SECRET_LENGTH)


def _name(name: object) -> str:
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise BadValueError(f"headers: {name!r:.80} is no name of a header")
    if name.lower() in _RESERVED_HEADERS:
        raise BadValueError(f"headers: '{name}' is set for every request; leave it out")
    return name


def _header(name: str, value: object) -> str:
    """The value of a header; messages about it do not show it."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise BadTypeError(f"headers: '{name}' must be a string, not a {type(value).__name__}")
    text = value.strip()
    if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", text):
        raise BadValueError(f"headers: '{name}' holds a line break or a control character")
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        raise BadValueError(f"headers: '{name}' holds a character that HTTP headers cannot carry") from None
    return text


# --- proxies ---------------------------------------------------------------------------------------------------------

_PRIVATE_SUFFIXES = (".local", ".localhost", ".internal", ".lan")


def is_private_host(host: str) -> bool:
    """Whether a host is this machine or in its network, where servers seldom need a key and never a proxy."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.lower().endswith(_PRIVATE_SUFFIXES)
    return address.is_loopback or address.is_private or address.is_link_local or address.is_unspecified


def find_proxy(address: Address) -> str | None:
    """The proxy that the environment sets for an address (``HTTP_PROXY``, ``HTTPS_PROXY``, ``NO_PROXY``)."""
    from urllib.request import getproxies, proxy_bypass

    if is_private_host(address.host):
        return None
    proxies = getproxies()
    proxy = proxies.get("https" if address.is_encrypted else "http") or proxies.get("all")
    if not proxy or proxy_bypass(address.host):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


# --- the client ------------------------------------------------------------------------------------------------------

MAX_REPLY_BYTES = 10_000_000
"""Default limit on a reply, after decompression."""
_WINDOW_BITS = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
"""Content encodings that can be decompressed, and how."""
_PART_BYTES = 1 << 18
"""Bytes that are decompressed at once."""
_DEFAULT_HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": ", ".join(_WINDOW_BITS),
    "Content-Type": "application/json",
    "User-Agent": f"auepora_eval/{__version__}",
}


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A reply, read to its end and decompressed."""

    status: int
    headers: Mapping[str, str]
    """Names in any case."""
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status is one of success."""
        return 200 <= self.status < 300

    @property
    def retry_after(self) -> float | None:
        """Seconds that the server asks to wait before a retry."""
        milliseconds = parse_retry_after(self.headers.get("retry-after-ms", ""))
        if milliseconds is not None:
            return milliseconds / 1000
        return parse_retry_after(self.headers.get("Retry-After", ""))

    def redirect_message(self, secrets: Secrets) -> str | None:
        """The message for a reply that leads to another address; ``None`` for any other reply."""
        location = self.headers.get("Location")
        if not 300 <= self.status < 400 or not location:
            return None
        place = " ".join(secrets.message(without_userinfo(location)).split())
        return f"{status_text(self.status)}: it leads to {place[:300]}; redirects are not followed, ask there"


def status_text(status: int) -> str:
    """A status with its usual phrase."""
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def encode_json(value: Any) -> bytes:
    """A value as JSON in UTF-8; lone surrogates, which UTF-8 cannot encode, become question marks."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, ensure_ascii=False).encode(errors="replace")


class HttpClient:
    """Sends requests to one origin; connections are kept open between them.

    It may be used from several event loops and has a session for each. A session is closed by ``aclose`` or ``close``,
    when its loop shuts down, and when the client is dropped. ``timeout`` bounds a whole call in seconds.
    """

    def __init__(self, address: Address, *, timeout: float | None, max_bytes: int = MAX_REPLY_BYTES) -> None:
        self._address, self._timeout, self._max_bytes = address, timeout, max_bytes
        self._origin = address.origin
        self._sessions: dict[asyncio.AbstractEventLoop, _Session] = {}
        weakref.finalize(self, _close_sessions, self._sessions).atexit = False

    async def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        max_bytes: int | None = None,
    ) -> HttpReply:
        """The reply to a request for a path with its query; ``HttpRequestError`` if none can be used."""
        call = _Call(
            method, target, _complete_headers(headers, has_body=body is not None), body, max_bytes or self._max_bytes
        )
        self.load()
        token = _current_call.set(call)
        try:
            async with asyncio.timeout(self._timeout):
                return await self._send(call)
        except TimeoutError:
            if call.is_connected:
                raise HttpRequestError("timeout", f"{self._place} did not answer in time", retry=True) from None
            problem = f"{self._place} does not take connections in time"
            raise HttpRequestError("connect_timeout", problem, retry=True) from None
        finally:
            _current_call.reset(token)

    def load(self) -> None:
        """Import what a call needs, and read the certificates, so that no deadline includes it."""
        import aiohttp  # noqa: F401
        import yarl  # noqa: F401

        if self._address.is_encrypted:
            _environment_ssl_context()
        _connector_class()

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.lifetime.aclose()

    def close(self) -> None:
        """Close the connections of every loop."""
        _close_sessions(self._sessions)

    @property
    def _place(self) -> str:
        return f"{self._address.host}:{self._address.port}"

    async def _send(self, call: _Call) -> HttpReply:
        import aiohttp

        is_replied = False
        try:
            try:
                response = await self._request(call)
            except aiohttp.ClientConnectorError:
                raise
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                if not call.is_reused:
                    raise
                response = await self._request(call)  # over a new connection
            is_replied = True
            try:
                return HttpReply(response.status, response.headers, await _read_body(response, call))
            finally:
                response.close()  # without effect on a reply that was read to its end
        except aiohttp.ClientError as error:
            raise _translate_error(error, self._place, is_replied=is_replied) from None

    async def _request(self, call: _Call) -> aiohttp.ClientResponse:
        import yarl

        session = await self._session()
        url = yarl.URL(self._origin + call.target, encoded=True)
        return await session.client.request(
            call.method, url, data=call.body, headers=call.headers, allow_redirects=False, proxy=session.proxy
        )

    async def _session(self) -> _Session:
        """The session of the running loop, opened on first use."""
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None or session.client.closed:
            for other in [session for session in self._sessions if session.is_closed()]:
                self._sessions.pop(other, None)
            proxy = find_proxy(self._address)
            if proxy is not None and not proxy.startswith(("http://", "https://")):
                problem = "cannot be used: only HTTP proxies are supported"
                raise HttpRequestError("unreachable", f"{self._place}: the proxy {without_userinfo(proxy)} {problem}")
            lifetime = _open_session(is_encrypted=self._address.is_encrypted)
            session = self._sessions[loop] = _Session(await anext(lifetime), lifetime, proxy)
        return session


@dataclass(frozen=True, slots=True)
class _Session:
    """The session of one loop."""

    client: aiohttp.ClientSession
    lifetime: AsyncGenerator[aiohttp.ClientSession]
    """A generator that closes the session when it ends. Loops end their generators when they shut down."""
    proxy: str | None


def _close_sessions(sessions: dict[asyncio.AbstractEventLoop, _Session]) -> None:
    while sessions:
        loop, session = sessions.popitem()
        if loop.is_running():
            asyncio.run_coroutine_threadsafe(session.lifetime.aclose(), loop)


async def _open_session(*, is_encrypted: bool) -> AsyncGenerator[aiohttp.ClientSession]:
    import aiohttp

    context = _environment_ssl_context() if is_encrypted else True
    session = aiohttp.ClientSession(
        connector=_connector_class()(limit=0, ssl=context, resolver=aiohttp.ThreadedResolver()),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        auto_decompress=False,
    )
    try:
        yield session
    finally:
        await session.close()


def _environment_ssl_context() -> ssl.SSLContext:
    return _ssl_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache(maxsize=4)
def _ssl_context(_file: str | None, _folder: str | None) -> ssl.SSLContext:
    """The context for the certificates of the system, or of these environment variables, which OpenSSL reads itself."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


# --- one call and its connection -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Call:
    """One call: what is sent, and what is known about its connection."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes | None
    max_bytes: int
    is_connected: bool = False
    is_reused: bool = False
    """Whether the connection served another call before: then the server may have closed it meanwhile."""


_current_call: ContextVar[_Call] = ContextVar("_current_call")


@lru_cache(maxsize=1)
def _connector_class() -> type[aiohttp.TCPConnector]:
    import aiohttp

    class Connector(aiohttp.TCPConnector):
        """Records whether a connection is a used one; a call that connects again gets a new one."""

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self._used: weakref.WeakSet[Any] = weakref.WeakSet()

        async def connect(self, *args: Any, **options: Any) -> Any:
            call = _current_call.get()
            if call.is_connected and not call.is_reused:  # aiohttp would repeat GET and PUT after any lost connection
                raise aiohttp.ServerDisconnectedError
            while True:
                connection = await super().connect(*args, **options)
                protocol = connection.protocol
                assert protocol is not None
                is_used = protocol in self._used
                if not (is_used and call.is_connected):
                    break
                connection.close()
            self._used.add(protocol)
            call.is_connected, call.is_reused = True, is_used
            if not all(map(str.isascii, call.headers.values())):
                _use_latin_1(protocol)
            return connection

    return Connector


def _use_latin_1(protocol: Any) -> None:
    """Send the head of the next request of a connection in Latin-1."""
    if not isinstance(protocol.transport, _Latin1HeadTransport):
        protocol.transport = _Latin1HeadTransport(protocol.transport)
    protocol.transport.is_head_next = True


class _Latin1HeadTransport:
    """Sends the heads of requests in Latin-1, the character set of HTTP headers; aiohttp encodes them as UTF-8."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.is_head_next = False
        """Whether the next bytes begin a request."""

    def write(self, data: bytes) -> None:
        self._transport.write(self._encode(data))

    def writelines(self, parts: Iterable[bytes]) -> None:
        self._transport.writelines([self._encode(part) for part in parts])

    def _encode(self, data: bytes) -> bytes:
        if not self.is_head_next:
            return data
        self.is_head_next = False
        head, end, rest = bytes(data).partition(b"\r\n\r\n")
        return head.decode().encode("latin-1") + end + rest

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _complete_headers(headers: Mapping[str, str], *, has_body: bool) -> dict[str, str]:
    given = {name.lower() for name in headers}
    if not has_body:
        given.add("content-type")
    return {**{name: value for name, value in _DEFAULT_HEADERS.items() if name.lower() not in given}, **headers}


def _translate_error(error: aiohttp.ClientError, place: str, *, is_replied: bool) -> HttpRequestError:
    import aiohttp

    if isinstance(error, aiohttp.ClientProxyConnectionError):
        place = f"{place}: the proxy {error.host}:{error.port}"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        problem = getattr(error.certificate_error, "verify_message", "") or error.certificate_error
        return HttpRequestError("unreachable", f"{place}: its TLS certificate is refused: {problem}", retry=True)
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
        if isinstance(cause, TimeoutError):
            return HttpRequestError("connect_timeout", f"{place} does not take connections in time", retry=True)
        if cause.errno == errno.ECONNREFUSED:
            return HttpRequestError("unreachable", f"{place} refused the connection; is it running?", retry=True)
        return HttpRequestError("unreachable", f"{place}: {type(cause).__name__}: {cause}", retry=True)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return HttpRequestError("unreachable", f"{place}: the proxy answers {status_text(error.status)}", retry=True)
    if is_replied:
        return HttpRequestError("truncated", f"{place} closed the connection in the middle of its reply", retry=True)
    if isinstance(error, aiohttp.ClientConnectionError):
        return HttpRequestError("no_reply", f"{place} closed the connection without a reply", retry=True)
    return HttpRequestError("not_http", f"{place} does not speak HTTP", retry=True)


# --- bodies: read up to a limit, counted after decompression ---------------------------------------------------------


async def _read_body(response: aiohttp.ClientResponse, call: _Call) -> bytes:
    """The decompressed body. An error status counts more than a body that cannot be read."""
    try:
        return await _read_limited(response, call)
    except HttpRequestError:
        if 200 <= response.status < 300:
            raise
        return b""


async def _read_limited(response: aiohttp.ClientResponse, call: _Call) -> bytes:
    if (response.content_length or 0) > call.max_bytes:
        raise _too_large(call.max_bytes)
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    decoder: _Decompressor | None = None
    body = bytearray()
    received = 0
    try:
        while part := await response.content.readany():
            received += len(part)
            if encoding in ("", "identity"):
                body += part
            else:
                decoder = decoder or _Decompressor(encoding, call.headers)
                decoder.append(part, body, call.max_bytes)
            if max(received, len(body)) > call.max_bytes:
                raise _too_large(call.max_bytes)
        if decoder is not None:
            decoder.require_end()
        return bytes(body)
    finally:
        body.clear()  # the traceback of an error would keep it


def _too_large(limit: int) -> HttpRequestError:
    return HttpRequestError("too_large", f"the reply is larger than {limit} bytes")


class _Decompressor:
    """Decompresses a body in parts of limited size."""

    def __init__(self, encoding: str, headers: Mapping[str, str]) -> None:
        accepted = next(value for name, value in headers.items() if name.lower() == "accept-encoding")
        if encoding not in _WINDOW_BITS or encoding not in accepted.lower():
            raise HttpRequestError("bad_encoding", f"the reply is compressed ({encoding}), which was not asked for")
        self._encoding, self._inflate = encoding, zlib.decompressobj(_WINDOW_BITS[encoding])
        self._is_first = True

    def append(self, data: bytes, body: bytearray, max_bytes: int) -> None:
        """Decompress the next part, until the body exceeds the limit."""
        while data and len(body) <= max_bytes:
            if self._inflate.eof:
                if self._encoding != "gzip" or not b"\x1f\x8b".startswith(data[:2]):
                    return  # what follows the end is not part of the reply
                self._inflate = zlib.decompressobj(_WINDOW_BITS["gzip"])
            try:
                body += self._inflate.decompress(data, _PART_BYTES)
            except zlib.error as error:
                if self._encoding != "deflate" or not self._is_first:
                    raise self._error(str(error)) from None
                self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)  # some servers leave the zlib header out
            else:
                data = self._inflate.unconsumed_tail or self._inflate.unused_data
            self._is_first = False

    def require_end(self) -> None:
        """Raise if the compressed data ended too early."""
        if not self._inflate.eof:
            raise self._error("it ends too early")

    def _error(self, problem: str) -> HttpRequestError:
        message = f"the reply cannot be decompressed as {self._encoding}: {problem}"
        return HttpRequestError("bad_encoding", message, retry=True)
