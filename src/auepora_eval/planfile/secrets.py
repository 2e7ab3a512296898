"""Secrets stay out of plans: ``${NAME}`` is read from the environment, and what looks like a secret is refused."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ..core.secrets import SHORTEST, is_secret_name, name_words
from .findings import Findings, joined

__all__ = ["Environment", "find_literal_secrets"]

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[^{}]*)(?P<end>\}?)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_URL_PASSWORD = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/\s:@?#]*:(?P<password>[^/\s@]+)@")

_STAND_INS = {"", "dummy", "empty", "none", "unused"}
"""What people write where a key is asked for and none is needed."""


class Environment:
    """Puts variables in the place of references, and remembers what it put in."""

    def __init__(self, findings: Findings, variables: Mapping[str, str] | None = None) -> None:
        self._findings = findings
        self._variables = os.environ if variables is None else variables
        self._values: set[str] = set()

    @property
    def secrets(self) -> frozenset[str]:
        """Every value that was put in and is long enough to be looked for."""
        return frozenset(value for value in self._values if len(value) >= SHORTEST)

    def filled(self, key: str, value: Any, *, in_template: bool = False) -> Any:
        """The value with every reference in its texts replaced; a mapping and a list throughout.

        Within a template braces mean something else, and are doubled in what is put in.
        """
        if isinstance(value, str):
            put = _doubled if in_template else str
            return _REFERENCE.sub(lambda found: put(self._value(key, found)), value)
        if isinstance(value, Mapping):
            return {name: self.filled(joined(key, name), item, in_template=in_template) for name, item in value.items()}
        if isinstance(value, list):
            return [self.filled(f"{key}[{place}]", item, in_template=in_template) for place, item in enumerate(value)]
        return value

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
        self._values.add(value)
        return value


def _doubled(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def find_literal_secrets(findings: Findings) -> None:
    """Take down every secret that is written out in the plan. No message shows it."""
    for key, name, value in _scalars(findings.source.values, ""):
        if isinstance(value, str) and _has_password(value):
            findings.add(key, "there is a password in the address; write ${NAME} in its place and set that variable")
        elif isinstance(value, str) and (parameter := _secret_parameter(value)) is not None:
            findings.add(
                key, f"the parameter '{parameter}' of the address looks like a secret; write ${{NAME}} in its place"
            )
        elif key.partition(".")[0] in ("system", "outputs") and is_secret_name(name) and _is_literal(value):
            findings.add(
                key,
                "looks like a secret, and plans are stored with their runs; "
                f"write ${{{_variable(name)}}} and set that variable",
            )
    _find_in_command(findings)


def _scalars(value: Any, key: str, name: str = "") -> Iterator[tuple[str, str, Any]]:
    """Every single value with its path and the nearest key around it."""
    if isinstance(value, Mapping):
        for inner, item in value.items():
            yield from _scalars(item, joined(key, inner), inner)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _scalars(item, f"{key}[{place}]", name)
    else:
        yield key, name, value


def _is_literal(value: Any) -> bool:
    if isinstance(value, str):
        return "${" not in value and value.strip().lower() not in _STAND_INS
    return isinstance(value, int) and not isinstance(value, bool)


def _has_password(text: str) -> bool:
    return any("${" not in found["password"] for found in _URL_PASSWORD.finditer(text))


def _secret_parameter(text: str) -> str | None:
    """The parameter of an address that carries a secret, if one does."""
    if "://" not in text or "?" not in text:
        return None
    try:
        pairs = parse_qsl(urlsplit(text).query)
    except ValueError:
        return None  # no address after all
    return next((name for name, value in pairs if is_secret_name(name) and _is_literal(value)), None)


def _find_in_command(findings: Findings) -> None:
    """Secrets among the words of a command, which everybody on the machine can read."""
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
        given = value if equals else "" if str(following).startswith("-") else str(following)
        if is_secret_name(option) and _is_literal(given):
            findings.add(
                key,
                f"'{option}' looks like a secret; hand it over as a variable instead: "
                f"{{run: ..., env: {{{_variable(option)}: ${{{_variable(option)}}}}}}}",
            )


def _variable(name: str) -> str:
    return "_".join(name_words(name)).upper() or "NAME"
