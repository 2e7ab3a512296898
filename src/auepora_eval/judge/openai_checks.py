"""Checks of what an ``OpenAICritic`` is given, before anything is sent."""

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
_NEAR = (".local", ".localhost", ".internal", ".lan")


def require_openai() -> None:
    """Say how to install the SDK where it is not; it is imported when the first question is asked."""
    if find_spec("openai") is None:
        install = "'auepora-eval[openai]'"
        raise MissingDependencyError("openai", purpose="a judge behind an endpoint", install=install)


def check_address(base_url: object) -> Address:
    """The address of a server; one that goes on to the endpoint itself is cut back."""
    if isinstance(base_url, str):
        before, at, query = base_url.partition("?")
        base_url = before.rstrip("/").removesuffix(_ENDPOINT) + at + query
    return parse_address(base_url)


def is_private_host(host: str) -> bool:
    """Whether a host is this machine or in its network, where servers seldom ask for a key."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.lower().endswith(_NEAR)
    return address.is_loopback or address.is_private or address.is_link_local or address.is_unspecified


def check_number(name: str, value: object, *, above: bool = False) -> float | None:
    """A number that is not negative, or above 0; or nothing."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise BadValueError(f"{name} must be a number, not {value!r:.80}")
    if value < 0 or (above and value == 0):
        raise BadValueError(f"{name} must be {'above' if above else 'at least'} 0, not {value!r}")
    return float(value)


def check_integer(name: str, value: object, *, least: int) -> int | None:
    """A whole number, or nothing."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise BadValueError(f"{name} must be a whole number of at least {least}, not {value!r:.80}")
    return value


def check_extra_body(extra: object) -> dict[str, Any]:
    """Further fields of the body, as JSON has them."""
    if not isinstance(extra, Mapping):
        raise BadTypeError(f"extra must map names of fields to values, not be a {type(extra).__name__}")
    for name in extra:
        if name in _OWN_FIELDS:
            raise BadValueError(f"extra: '{name}' is an option of its own, or is not for judges; leave it out")
    try:
        held: dict[str, Any] = json.loads(json.dumps(dict(extra), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise BadValueError(f"extra holds what JSON does not have: {error}") from None
    return held
