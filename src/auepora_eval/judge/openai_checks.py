"""Checks of the options of an ``OpenAICritic``, before anything is sent."""

from __future__ import annotations

import ipaddress
import json
import math
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from ..core.errors import BadTypeError, BadValueError, MissingDependencyError
from ..systems.addresses import Address, parse_address

__all__ = ["check_address", "check_extra_body", "check_integer", "check_number", "is_private_host", "require_openai"]

_OWN_FIELDS = frozenset({
    "model", "messages", "temperature", "seed", "max_tokens", "max_completion_tokens", "response_format", "logprobs",
    "top_logprobs", "stream", "n",
})  # fmt: skip
_ENDPOINT = "/chat/completions"
_PRIVATE_SUFFIXES = (".local", ".localhost", ".internal", ".lan")


def require_openai() -> None:
    """Raise with an install hint unless the SDK is installed; it is imported with the first request."""
    if find_spec("openai") is None:
        install = "'auepora-eval[openai]'"
        raise MissingDependencyError("openai", purpose="a judge behind an endpoint", install=install)


def check_address(base_url: object) -> Address:
    """The base URL of a server; a trailing endpoint path is removed."""
    if isinstance(base_url, str):
        before, at, query = base_url.partition("?")
        base_url = before.rstrip("/").removesuffix(_ENDPOINT) + at + query
    return parse_address(base_url)


def is_private_host(host: str) -> bool:
    """Whether a host is this machine or in its network, where servers seldom need a key."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.lower().endswith(_PRIVATE_SUFFIXES)
    return address.is_loopback or address.is_private or address.is_link_local or address.is_unspecified


def check_number(name: str, value: object, *, positive: bool = False) -> float | None:
    """A number >= 0 (> 0 if ``positive``), or ``None``."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise BadValueError(f"{name} must be a number, not {value!r:.80}")
    if value < 0 or (positive and value == 0):
        raise BadValueError(f"{name} must be {'above' if positive else 'at least'} 0, not {value!r}")
    return float(value)


def check_integer(name: str, value: object, *, minimum: int) -> int | None:
    """An integer >= ``minimum``, or ``None``."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < minimum):
        raise BadValueError(f"{name} must be an integer >= {minimum}, not {value!r:.80}")
    return value


def check_extra_body(extra: object) -> dict[str, Any]:
    """Additional fields of the request body, checked to be JSON."""
    if not isinstance(extra, Mapping):
        raise BadTypeError(f"extra must map names of fields to values, not be a {type(extra).__name__}")
    for name in extra:
        if name in _OWN_FIELDS:
            raise BadValueError(f"extra: '{name}' is an option of its own, or is not for judges; leave it out")
    try:
        body: dict[str, Any] = json.loads(json.dumps(dict(extra), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise BadValueError(f"extra is not JSON: {error}") from None
    return body
