"""Access to the workbench: token and cookie, checks of Host, Origin and CSRF token, and response headers.

The server listens on the loopback interface, which every page in the browser and every user of the machine can reach.
So each request must name this host (against DNS rebinding), come from its own pages, and carry the cookie that only the
address with the token sets. Requests that change something carry the CSRF token of the page, too. Annotators get
another token for each batch, which opens only its blind pages; they have a CSRF token of their own. Another cookie
holds a secret of the browser, with which it claims the names of annotators.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST = "127.0.0.1"
CSRF_HEADER, CSRF_FIELD = "x-csrf-token", "csrf_token"
LABEL_PATH = re.compile(r"/label/(?P<batch>[A-Za-z0-9_-]+)(?:/|$)")
"""The pages that the token for the annotators of a batch opens, beside the assets."""
NAME_COOKIE = "auepora_annotator"
"""The cookie with the secret of a browser. It stays when the server is started again, on whatever port."""
NAME_COOKIE_AGE = 365 * 86_400
Role = Literal["organiser", "annotator"]
"""Who sends a request: the person who started the workbench, or an annotator of the batch in its path."""
MAX_BODY = 2**20
"""The longest request body, in bytes."""

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ]
)
HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
NO_ACCESS = """\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>No access – auepora</title></head>
<body>
<h1>No access</h1>
<p>This page needs the token. HINT</p>
<p>If you have just opened it, <a href="">try again</a>.</p>
</body>
</html>
"""
HINT = "Open the address that <code>auepora ui</code> printed in the terminal."
LABEL_HINT = "Ask for the address of the batch: it changes when <code>auepora ui</code> is started again."


def _secret() -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True, slots=True)
class Access:
    """What a request to the server on ``port`` must have. The token, cookie and CSRF token are new for each server."""

    port: int
    token: str = field(default_factory=_secret, repr=False)
    session: str = field(default_factory=_secret, repr=False)
    """The value of the cookie."""
    csrf_token: str = field(default_factory=_secret, repr=False)
    """Of the organiser."""
    label_key: str = field(default_factory=_secret, repr=False)
    """What tokens, cookies and CSRF tokens of annotators are made from."""

    @property
    def url(self) -> str:
        """The address to open, with the token."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    @property
    def cookie(self) -> str:
        """The name of the cookie. Cookies are shared by all ports of a host, so it contains the port."""
        return f"auepora_ui_{self.port}"

    def label_token(self, batch_id: str) -> str:
        """The token for the annotators of a batch."""
        return self._batch_secret("token", batch_id)

    def label_cookie(self, batch_id: str) -> tuple[str, str]:
        """Name and value of the cookie of annotators: it replaces neither that of an organiser nor of another batch."""
        return f"auepora_label_{self.port}_{batch_id}", self._batch_secret("session", batch_id)

    def csrf_token_for(self, role: Role, path: str) -> str:
        """The CSRF token of a role on a page."""
        return self.csrf_token if role == "organiser" else self._batch_secret("csrf", batch_of(path))

    def _batch_secret(self, purpose: str, batch_id: str) -> str:
        return hmac.new(self.label_key.encode(), f"{purpose} {batch_id}".encode(), sha256).hexdigest()

    @property
    def hosts(self) -> tuple[str, ...]:
        """The allowed values of the header Host."""
        names = (HOST, "localhost")
        return tuple(f"{name}:{self.port}" for name in names) + (names if self.port == 80 else ())

    def role_of(self, headers: Headers, path: str) -> Role | None:
        """Who sends a request to a page, by the cookies; ``None`` for somebody without access."""
        cookies = read_cookies(headers)
        if _has_cookie(cookies, self.cookie, self.session):
            return "organiser"
        prefix, _ = self.label_cookie("")
        batches = [batch_of(path)]
        if path.startswith("/assets/"):
            batches = [name.removeprefix(prefix) for name, _ in cookies if name.startswith(prefix)]
        for batch_id in batches:
            if batch_id and _has_cookie(cookies, *self.label_cookie(batch_id)):
                return "annotator"
        return None

    def cookie_for(self, token: str, path: str) -> tuple[str, str] | None:
        """The name and the value of the cookie that a token gives on a page; ``None`` for a wrong token."""
        if _equal(token, self.token):
            return self.cookie, self.session
        batch_id = batch_of(path)
        is_annotator = bool(batch_id) and _equal(token, self.label_token(batch_id))
        return self.label_cookie(batch_id) if is_annotator else None


def batch_of(path: str) -> str:
    """The id of the batch whose labels a path is about; empty for another path."""
    found = LABEL_PATH.match(path)
    return "" if found is None else found["batch"]


def read_cookies(headers: Headers) -> list[tuple[str, str]]:
    """Names and values of the cookies. Other servers on this host set some, too, of any name and form."""
    pairs = []
    for text in headers.getlist("cookie"):
        for pair in text.split(";"):
            name, _, value = pair.strip().partition("=")  # SimpleCookie would stop at an odd one
            pairs.append((name, value))
    return pairs


def _has_cookie(cookies: Sequence[tuple[str, str]], name: str, value: str) -> bool:
    return any(found == name and _equal(given, value) for found, given in cookies)


def _equal(given: str, expected: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


class SecurityMiddleware:
    """Refuses requests without access, and adds headers to all responses."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._handle(scope, receive, send)
        else:  # there are no web sockets
            await send({"type": "websocket.close", "code": 1008})

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        response: Response | None = self._refuse(scope) or self._sign_in(scope)
        new_secret = _read_name_secret(scope) if response is None else None
        send = _with_headers(send, new_secret)
        if response is None and scope["method"] not in ("GET", "HEAD", "POST"):
            response = PlainTextResponse("This method is not used here.", 405, {"allow": "GET, HEAD, POST"})
        elif response is None and scope["method"] == "POST":
            body = await _read_body(Request(scope, receive))
            response = self._refuse_write(scope, body)
            receive = _replay(body or b"", receive)
        await (response or self.app)(scope, receive, send)

    def _refuse(self, scope: Scope) -> Response | None:
        """The response to a request from elsewhere."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self.access.hosts:
            return PlainTextResponse(f"This server answers to http://{self.access.hosts[0]} only.", 403)
        site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode", "navigate")
        own = {f"http://{hosts[0].lower()}"}
        if site == "same-origin":  # a form of our pages: browsers send no origin where the referrer is hidden
            own.add("null")
        if not own.issuperset(headers.getlist("origin")):
            return PlainTextResponse("This request comes from another page.", 403)
        is_page = headers.get("sec-fetch-dest", "document") == "document"  # not in a frame
        is_link = mode == "navigate" and scope["method"] == "GET" and is_page
        if site in ("cross-site", "same-site") and not is_link:  # same-site: another port of this host
            return PlainTextResponse("This request comes from another page.", 403)
        return None

    def _sign_in(self, scope: Scope) -> Response | None:
        """The redirect that replaces the token by the cookie; the page without access where there is neither."""
        parameters = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        tokens = [value for name, value in parameters if name == "token"]
        is_page = bool(tokens) and scope["method"] == "GET"
        if is_page and (cookie := self.access.cookie_for(tokens[-1], scope["path"])) is not None:
            others = urlencode([(name, value) for name, value in parameters if name != "token"])
            # One slash at the start: with two, the path would be another host.
            path = "/" + quote(scope["path"].lstrip("/\\"))
            response = RedirectResponse(f"{path}?{others}" if others else path, 303)
            response.set_cookie(*cookie, httponly=True, samesite="strict", path="/")
            return response
        scope["role"] = self.access.role_of(Headers(scope=scope), scope["path"])
        if scope["role"] is None:
            hint = LABEL_HINT if batch_of(scope["path"]) else HINT
            return HTMLResponse(NO_ACCESS.replace("HINT", hint), 403)
        return None

    def _refuse_write(self, scope: Scope, body: bytes | None) -> Response | None:
        """The response to a request that changes something and lacks the CSRF token."""
        if body is None:
            return PlainTextResponse(f"The request is longer than {MAX_BODY:,} bytes.", 413)
        headers = Headers(scope=scope)
        given = headers.get(CSRF_HEADER, "")
        if not given and headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
            given = dict(parse_qsl(body.decode("latin-1"))).get(CSRF_FIELD, "")
        if not _equal(given, self.access.csrf_token_for(scope["role"], scope["path"])):
            return PlainTextResponse(
                "The form is from an earlier start of the server. Load the page again; nothing was changed.", 403
            )
        return None


def _read_name_secret(scope: Scope) -> str | None:
    """Put the secret of the browser into the scope of a page of labels; return a new one, which it must be sent."""
    if not batch_of(scope["path"]):
        return None
    known = dict(read_cookies(Headers(scope=scope))).get(NAME_COOKIE)
    scope["name_secret"] = known or _secret()
    return None if known else scope["name_secret"]


def _with_headers(send: Send, name_secret: str | None) -> Send:
    """Add the headers of all responses; a new secret of the browser becomes a cookie."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
            if name_secret is not None:
                options = f"HttpOnly; Max-Age={NAME_COOKIE_AGE}; Path=/label/; SameSite=strict"
                headers.append("set-cookie", f"{NAME_COOKIE}={name_secret}; {options}")
        await send(message)

    return send_with_headers


async def _read_body(request: Request) -> bytes | None:
    """The body of a request; ``None`` where it is too long, or the client left before its end."""
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY:
                return None
    except ClientDisconnect:
        return None
    return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Receive a body that was already read, and then what follows it."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay
