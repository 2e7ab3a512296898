"""Literal secrets in plans, which are refused; ``source`` replaces ``${NAME}`` from the environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ..runtime.secrets import URL_PASSWORD, is_secret_name, name_words
from .source import Findings, join_key

_NAMED_SECRETS = ("system", "outputs", "resources")
"""Sections in which secrets are detected by the name of their key."""
_PLACEHOLDERS = {"", "dummy", "empty", "none", "unused"}
"""Placeholders for a key that is not needed."""


def find_literal_secrets(findings: Findings) -> None:
    """Add an error for every literal secret in the plan. No message contains it."""
    for key, name, value in _scalars(findings.source.values, ""):
        if isinstance(value, str) and _has_password(value):
            findings.add(key, "there is a password in the address; write ${NAME} in its place and set that variable")
        elif isinstance(value, str) and (parameter := _secret_parameter(value)) is not None:
            findings.add(
                key, f"the parameter '{parameter}' of the address looks like a secret; write ${{NAME}} in its place"
            )
        elif key.partition(".")[0] in _NAMED_SECRETS and _is_named_secret(key, name, value):
            findings.add(
                key,
                "looks like a secret, and plans are stored with their runs; "
                f"write ${{{_variable(name)}}} and set that variable",
            )
    _find_in_command(findings)


def _scalars(value: Any, key: str, name: str = "") -> Iterator[tuple[str, str, Any]]:
    """Every scalar value with its path and the nearest key around it."""
    if isinstance(value, Mapping):
        for inner, item in value.items():
            yield from _scalars(item, join_key(key, inner), inner)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _scalars(item, f"{key}[{place}]", name)
    else:
        yield key, name, value


def _is_named_secret(key: str, name: str, value: Any) -> bool:
    has_own_error = key.startswith("resources.") and key.endswith(".openai.api_key")  # see resources_section
    return is_secret_name(name) and _is_literal(value) and not has_own_error


def _is_literal(value: Any) -> bool:
    if isinstance(value, str):
        return "${" not in value and value.strip().lower() not in _PLACEHOLDERS
    return isinstance(value, int) and not isinstance(value, bool)


def _has_password(text: str) -> bool:
    return any("${" not in found["password"] for found in URL_PASSWORD.finditer(text))


def _secret_parameter(text: str) -> str | None:
    """The query parameter of an address that contains a secret, if there is one."""
    if "://" not in text or "?" not in text:
        return None
    try:
        pairs = parse_qsl(urlsplit(text).query)
    except ValueError:
        return None  # not an address
    return next((name for name, value in pairs if is_secret_name(name) and _is_literal(value)), None)


def _find_in_command(findings: Findings) -> None:
    """Find secrets among the arguments of a command, which are visible to other processes."""
    system = findings.source.values.get("system")
    command = system.get("command") if isinstance(system, Mapping) else None
    key = "system.command"
    if isinstance(command, Mapping):
        command, key = command.get("run"), "system.command.run"
    words = command.split() if isinstance(command, str) else command if isinstance(command, list) else []
    for place, word in enumerate(words):
        if not isinstance(word, str) or not word.startswith("--"):
            continue
        option, equals, value = word.partition("=")
        following = words[place + 1] if place + 1 < len(words) else "--"
        secret = value if equals else "" if str(following).startswith("-") else str(following)
        if is_secret_name(option) and _is_literal(secret):
            findings.add(
                key,
                f"'{option}' looks like a secret; hand it over as a variable instead: "
                f"{{run: ..., env: {{{_variable(option)}: ${{{_variable(option)}}}}}}}",
            )


def _variable(name: str) -> str:
    return "_".join(name_words(name)).upper() or "NAME"
