"""A system behind an HTTP endpoint: each sample is a request, its output a JSON reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from ..core.types import Document, EvaluationSample, SystemOutputs
from ..errors import BadTypeError, BadValueError, SystemCallError
from ..net.client import HttpClient, HttpReply, check_headers, parse_address, status_text
from ..net.retry import HttpRequestError
from ..options import PositiveFloat, PositiveInt, check_options
from ..runtime.processes import shared_loop
from ..runtime.secrets import Secrets
from .json_mapping import (
    ReplyPaths,
    Template,
    default_request,
    excerpt,
    json_text,
    json_type_name,
    parse_own_reply,
    plain_text,
)

_METHODS = ("GET", "POST", "PUT", "PATCH")


class HttpSystem:
    """Calls an endpoint over HTTP or HTTPS; connections are kept open between calls.

    ``request`` is a template (``json_mapping.Template``), by default the sample's id, query, ``top_k`` and history;
    with ``GET`` its keys become query parameters. ``documents`` says that the endpoint answers from documents that a
    request gives it; in a template, ``{documents}`` says so. ``response`` maps names to paths in the reply
    (``json_mapping.ReplyPaths``); without it the reply is a line of an outputs file. ``timeout`` bounds the whole call
    in seconds. Redirects are not followed. May be called from several event loops and from many threads at once.
    """

    def __init__(
        self,
        url: str,
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        request: object = None,
        response: Mapping[str, str] | None = None,
        documents: bool = False,
        timeout: PositiveFloat | None = None,
        max_bytes: PositiveInt = 50_000_000,
    ) -> None:
        self._address = parse_address(url)
        if not isinstance(method, str) or method.upper() not in _METHODS:
            raise BadValueError(f"method must be one of {', '.join(_METHODS)}, not {method!r}")
        self._method = method.upper()
        headers, self._secrets = check_headers(headers or {}, self._address)
        # Systems are called uncompressed unless the headers say otherwise.
        is_encoding_given = any(name.lower() == "accept-encoding" for name in headers)
        self._headers = headers if is_encoding_given else {"Accept-Encoding": "identity", **headers}
        self._request = None if request is None else Template(request)
        check_options(HttpSystem, {"documents": documents, "timeout": timeout, "max_bytes": max_bytes})
        self.takes_documents = documents if self._request is None else "documents" in self._request.names
        """Whether a request may contain the documents to answer from."""
        if documents and not self.takes_documents:
            raise BadValueError('documents is true, and the request has no place for them: write "{documents}" in it')
        if self._method == "GET" and request is not None and not isinstance(request, Mapping):
            raise BadTypeError(
                f"with GET, request must map query parameters to values, not be {json_type_name(request)}"
            )
        self._response = None if response is None else ReplyPaths(response)
        self._timeout = timeout
        self._client = HttpClient(self._address, timeout=timeout, max_bytes=max_bytes)

    def __repr__(self) -> str:
        return f"HttpSystem({self._method} {self._address.shown})"

    def run(
        self, sample: EvaluationSample, *, top_k: int = 5, documents: Sequence[Document] | None = None
    ) -> SystemOutputs:
        """Call the endpoint; ``SystemCallError`` has the reason and whether a retry may help."""
        return shared_loop().run(self.arun(sample, top_k=top_k, documents=documents))

    async def arun(
        self, sample: EvaluationSample, *, top_k: int = 5, documents: Sequence[Document] | None = None
    ) -> SystemOutputs:
        """Call the endpoint from the running event loop."""
        try:
            return await self._call(sample, top_k, documents)
        except SystemCallError as error:
            message = self._secrets.message(error.message)
            failure = SystemCallError(error.reason, message, retry=error.retry, retry_after=error.retry_after)
        # The original error may quote secrets from the request, so it is kept neither as cause nor as context.
        raise failure

    def load_client(self) -> None:
        """Import what calls need, before the deadline of the first one begins."""
        self._client.load()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    async def _call(self, sample: EvaluationSample, top_k: int, documents: Sequence[Document] | None) -> SystemOutputs:
        target, body = self._build_request(sample, top_k, documents)
        try:
            reply = await self._client.send(self._method, target, self._headers, body)
        except HttpRequestError as error:
            raise self._request_error(error) from None
        if not reply.is_success:
            raise _status_error(reply, self._secrets)
        if not reply.body.strip():
            raise SystemCallError("empty_reply", f"{status_text(reply.status)} with nothing in it", retry=True)
        content = reply.body
        output = parse_own_reply(content, sample) if self._response is None else self._response.outputs(content, sample)
        if output.error is not None:
            output.error = self._secrets.message(output.error)
        return output

    def _request_error(self, error: HttpRequestError) -> SystemCallError:
        if error.reason in ("timeout", "connect_timeout"):
            limit = "the network waits" if self._timeout is None else f"{self._timeout:g} s"
            return SystemCallError("timeout", f"no complete reply within {limit}", retry=True)
        reason = "bad_output" if error.reason in ("too_large", "bad_encoding") else "connection_error"
        return SystemCallError(reason, error.message, retry=error.retry)

    def _build_request(
        self, sample: EvaluationSample, top_k: int, documents: Sequence[Document] | None
    ) -> tuple[str, bytes | None]:
        """The target of the request and its body."""
        if self._request is None:
            value: Any = default_request(sample, top_k, documents)
        else:
            value = self._request.fill(sample, top_k, documents)
        if self._method != "GET":
            return self._address.target, json_text(value).encode()
        query = urlencode(_parameters(value), errors="replace")
        return f"{self._address.target}{'&' if '?' in self._address.target else '?'}{query}", None


def _parameters(value: dict[str, Any]) -> list[tuple[str, str]]:
    """Query parameters: a list repeats its key, null leaves it out, an object is written as JSON."""
    pairs: list[tuple[str, str]] = []
    for key, item_or_list in value.items():
        items = item_or_list if isinstance(item_or_list, list) else [item_or_list]
        pairs += [(key, plain_text(item)) for item in items if item is not None]
    return pairs


def _status_error(reply: HttpReply, secrets: Secrets) -> SystemCallError:
    body_excerpt = excerpt(secrets.message(reply.body.decode(errors="replace")))
    message = f"{status_text(reply.status)}{f': {body_excerpt}' if body_excerpt else ''}"
    if reply.status == 429:
        return SystemCallError("rate_limited", message, retry=True, retry_after=reply.retry_after)
    if reply.status >= 500:
        return SystemCallError("server_error", message, retry=True, retry_after=reply.retry_after)
    return SystemCallError("http_error", reply.redirect_message(secrets) or message)
