"""Secrets in plans: ``${NAME}`` is replaced from the environment, and literal secrets are refused."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ..runtime.secrets import (
    MIN_SECRET_LENGTH,
    PUBLIC_HEADERS,
    URL_PASSWORD,
    is_secret_name,
    looks_like_secret,
    may_name_secret,
    name_words,
    url_secrets,
)
from .source import Findings, join_key

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[^{}]*)(?P<end>\}?)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME_BEFORE_VALUE = re.compile(r"(?P<name>[\w-]+)\s*[=:]\s*[\"']?(?:(?i:basic|bearer)\s+)?\Z")
"""A name before a value inside a string: ``password=``, ``"Authorization: Bearer "``."""

_NAMED_SECRETS = ("system", "outputs", "resources")
"""Sections in which secrets are detected by the name of their key."""
_PLACEHOLDERS = {"", "dummy", "empty", "none", "unused"}
"""Placeholders for a key that is not needed."""


class Environment:
    """Replaces references by environment variables, and remembers which values are secret."""

    def __init__(self, findings: Findings, variables: Mapping[str, str] | None = None) -> None:
        self._findings = findings
        findings.environment = self
        self._variables = os.environ if variables is None else variables
        self._secrets: set[str] = set()

    @property
    def secrets(self) -> frozenset[str]:
        """The secret values that were substituted and are long enough to be searched for.

        A value is secret if its variable or a key around it has the name of a secret, in an HTTP header, as the
        password of an address, or if it has the form of a well-known API key. Other values, such as the name of an
        index, are ordinary data.
        """
        return frozenset(one for one in self._secrets if len(one) >= MIN_SECRET_LENGTH)

    def mark_secret(self, name: str) -> None:
        """Treat the value of a variable as secret that the plan only names; it need not be set."""
        self._secrets.add(self._variables.get(name, ""))

    def substitute(self, key: str, value: Any, *, in_template: bool = False) -> Any:
        """The value with every reference in its strings replaced, recursively.

        With ``in_template``, braces in substituted values are doubled.
        """
        return self._substitute(key, value, (key.rpartition(".")[2],), _double_braces if in_template else str)

    def _substitute(self, key: str, value: Any, around: tuple[str, ...], put: Callable[[str], str]) -> Any:
        """``around`` are the keys around the value, the nearest last."""
        if isinstance(value, str):
            return self._text(key, value, around, put)
        if isinstance(value, Mapping):
            return {
                name: self._substitute(join_key(key, name), item, (*around, name), put) for name, item in value.items()
            }
        if isinstance(value, list):
            return [self._substitute(f"{key}[{place}]", item, around, put) for place, item in enumerate(value)]
        return value

    def _text(self, key: str, text: str, around: tuple[str, ...], put: Callable[[str], str]) -> str:
        def one(found: re.Match[str]) -> str:
            value = self._value(key, found)
            if found["name"] is not None and (_is_secret_place(around, text, found) or looks_like_secret(value)):
                self._secrets.add(value)
            return put(value)

        filled = _REFERENCE.sub(one, text)
        if filled != text:
            self._secrets |= url_secrets(filled)
        return filled

    def _value(self, key: str, found: re.Match[str]) -> str:
        name = found["name"]
        if name is None:
            return "${"  # written $${
        if not found["end"] or not _NAME.fullmatch(name):
            self._findings.add(
                key, f"cannot read the reference '{found[0]}'; write ${{NAME}}, or $${{ for the characters themselves"
            )
            return ""
        value = self._variables.get(name)
        if not value:
            what = "is not set" if value is None else "is empty"
            self._findings.add(key, f"the environment variable {name} {what}; set it before you start")
            return ""
        return value


def _is_secret_place(around: tuple[str, ...], text: str, found: re.Match[str]) -> bool:
    """Whether a reference is in the place of a secret: by a name, in a header, or as the password of an address."""
    *outer, nearest = around
    return (
        any(map(may_name_secret, (*around, found["name"])))
        or ("headers" in outer and nearest.lower() not in PUBLIC_HEADERS)
        or ((named := _NAME_BEFORE_VALUE.search(text, 0, found.start())) is not None and may_name_secret(named["name"]))
        or any(one.start("password") <= found.start() < one.end("password") for one in URL_PASSWORD.finditer(text))
    )


def _double_braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


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
