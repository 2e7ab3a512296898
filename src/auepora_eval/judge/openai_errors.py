"""Errors of OpenAI-compatible servers, translated to ``JudgeError`` with a reason and a remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from ..core.errors import JudgeError
from ..core.retry import parse_retry_after
from ..core.secrets import ELLIPSIS, REDACTED

__all__ = ["connection_error", "extract_error_message", "malformed_reply_error", "missing_key_error", "status_error"]

_EXCERPT = 300
_MASKED_KEY = re.compile(r"\S*\*{3,}\S*")
"""Services quote the first and last letters of a rejected key."""
_CONTEXT = re.compile(
    r"context.?(length|window|size)|exceed.{0,30}context|(prompt|input|message).{0,20}too (long|large)|too many tokens"
    r"|maximum.{0,40}tokens|reduce the length",
    re.IGNORECASE,
)
_FILTER = re.compile(
    r"content.?(filter|management|policy)|responsible.?ai|moderation|flagged|safety (system|setting)", re.IGNORECASE
)
_MODEL = re.compile(
    r"model.?not.?found|(invalid|unknown|no such) model|model\b.{0,80}\b(not found|not exist|not available)",
    re.IGNORECASE,
)
_QUOTA = re.compile(r"insufficient.?(quota|balance|credit|funds)|billing|exceeded your current quota", re.IGNORECASE)
_TRANSIENT_STATUSES = frozenset({408, 409, 425})


def missing_key_error(variable: str | None, url: str) -> JudgeError:
    """The error for a service that needs a key when there is none."""
    problem = f"the environment variable {variable} is not set" if variable else "api_key_env names no variable"
    return JudgeError("no_key", f"{problem}, and {url} asks for a key", lasting=True)


def status_error(status: int, headers: Mapping[str, str], body: str, *, url: str, variable: str | None) -> JudgeError:
    """The error for a reply with an error status."""
    server_message, searchable = extract_error_message(body), _searchable_text(body)
    message = f"{_status_text(status)}{f': {server_message}' if server_message else ''}"
    retry_after = _retry_after(headers)
    if status == 401 or (status == 403 and not _FILTER.search(searchable)):
        hint = f"; is {variable} the right key for {url}?" if variable else ""
        return JudgeError("unauthorized", f"{message}{hint}", lasting=True)
    if status == 402 or (status == 429 and _QUOTA.search(searchable)):
        return JudgeError("rate_limited", f"{message}; what was paid for is used up", lasting=True)
    if status == 429:
        return JudgeError("rate_limited", message, retry=True, retry_after=retry_after)
    if status == 413 or _CONTEXT.search(searchable):
        return JudgeError("context_too_long", message)
    if (status >= 500 and status != 501) or status in _TRANSIENT_STATUSES:
        return JudgeError("server_error", message, retry=True, retry_after=retry_after)
    if _FILTER.search(searchable):
        return JudgeError("content_filter", message)
    if status == 404 or _MODEL.search(searchable):
        hint = f"; does {url} know the model, and does its address end as the server wants it, often in /v1?"
        return JudgeError("model_not_found", f"{message}{hint}", lasting=True)
    return JudgeError("bad_request", message)


def connection_error(error: BaseException, *, url: str) -> JudgeError:
    """The error for a call without a reply. ``error`` is the SDK's; its cause is more specific."""
    cause = error.__cause__ or error
    names = {kind.__name__ for kind in type(cause).__mro__}
    if names & {"ConnectTimeout", "PoolTimeout"}:
        return JudgeError("unreachable", f"{url} does not take connections in time", retry=True)
    if names & {"TimeoutException", "APITimeoutError"}:
        return JudgeError("timeout", f"{url} did not answer in time", retry=True)
    if names & {"ConnectError", "ProxyError"}:
        return JudgeError("unreachable", f"{url} cannot be reached ({cause}); is it running?", retry=True)
    if names & {"NetworkError", "ProtocolError"}:
        return JudgeError("server_error", f"{url} closed the connection in the middle of its reply", retry=True)
    return JudgeError("server_error", f"{type(cause).__name__}: {_excerpt(str(cause))}", retry=True)


def malformed_reply_error(what: str, body: str) -> JudgeError:
    """The error for a reply that violates the protocol; a retry may help."""
    return JudgeError("server_error", f"{what}: {_excerpt(body)}", retry=True)


def extract_error_message(body: str) -> str:
    """The error message in a reply body, on one line, whatever its format."""
    found = _error_in(body)
    if isinstance(found, dict):
        found = next((found[key] for key in ("message", "detail") if found.get(key)), found)
    return _excerpt(found if isinstance(found, str) else json.dumps(found))


def _searchable_text(body: str) -> str:
    """The parts of an error that classify it: message and codes, without quoted parts of the prompt."""
    found = _error_in(body)
    if not isinstance(found, dict):
        return found[:_EXCERPT] if isinstance(found, str) else ""
    parts = [found.get(key) for key in ("message", "code", "type", "param", "detail")]
    inner = found.get("innererror")
    parts += [inner.get("code")] if isinstance(inner, dict) else []
    return " ".join(one[:_EXCERPT] for one in parts if isinstance(one, str))


def _error_in(body: str) -> Any:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return body
    return found["error"] if isinstance(found, dict) and found.get("error") else found


def _excerpt(text: str) -> str:
    line = _MASKED_KEY.sub(REDACTED, " ".join(text[: 4 * _EXCERPT].split()))
    return line[:_EXCERPT] + ELLIPSIS if len(line) > _EXCERPT or len(text) > 4 * _EXCERPT else line


def _status_text(status: int) -> str:
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait before a retry."""
    milliseconds = parse_retry_after(headers.get("retry-after-ms", ""))
    return milliseconds / 1000 if milliseconds is not None else parse_retry_after(headers.get("retry-after", ""))
