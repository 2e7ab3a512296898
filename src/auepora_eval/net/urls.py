"""URLs and headers of endpoints: parsed, validated, without secrets in messages; proxies of the environment."""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, unquote, urlsplit

from ..errors import BadTypeError, BadValueError
from ..runtime.secrets import MIN_SECRET_LENGTH, PUBLIC_HEADERS, Secrets

_PORTS = {"http": 80, "https": 443}
_SAFE = "%/:=&?~+!$,;'@()*[]"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_USERINFO = re.compile(r"(//)[^/?#\s@]*@")
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
    """A URL that may be shown: no user, no password, no query."""
    return _USERINFO.sub(r"\1", url).partition("?")[0]


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
        raise BadValueError(f"url: {shown} cannot be read: {error}") from None
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
    return Address(
        host=host,
        port=port if port is not None else _PORTS[scheme],
        target=target,
        shown=f"{scheme}://{at}{'' if port is None else f':{port}'}{path}",
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
    return checked, Secrets(one for one in secrets if len(one) >= MIN_SECRET_LENGTH)


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
