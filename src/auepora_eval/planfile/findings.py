"""Collection of the errors of a plan, and checks of single values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ..core.errors import AueporaError, did_you_mean
from ..io.problem_messages import quote_text
from .source import PlanSource

__all__ = ["Findings", "PlanSection", "describe_value", "join_key"]

_YAML_BOOLEAN = re.compile(r"(?i)yes|no|on|off|y|n|true|false")


class Findings:
    """The errors of one plan, in the order in which they were found."""

    def __init__(self, source: PlanSource) -> None:
        self.source = source
        self.errors: list[AueporaError] = []

    def add(self, key: str, problem: str, cause: BaseException | None = None) -> None:
        """Add an error about a key."""
        error = self.source.error(key, problem)
        error.__cause__ = cause
        self.errors.append(error)

    def add_error(self, key: str, error: AueporaError) -> None:
        """Add an error raised for a key."""
        self.add(key, str(error), error)

    def raise_first(self) -> None:
        """Raise the first error, if there is any."""
        if self.errors:
            raise self.errors[0]

    def section(self, key: str, value: object, *, known: Collection[str]) -> PlanSection | None:
        """The mapping under a key, whose keys must be among ``known``; ``None`` if it is no mapping."""
        if not isinstance(value, Mapping):
            self.add(key, f"must be a mapping of keys, not {describe_value(value)}")
            return None
        section = PlanSection(self, key, dict(value))
        section.refuse_unknown(known)
        return section


class PlanSection:
    """The values under one key of a plan. Each accessor returns the value, or adds an error and returns the default."""

    def __init__(self, findings: Findings, key: str, values: Mapping[str, Any]) -> None:
        self.findings, self.key, self.values = findings, key, values
        self.unknown: list[str] = []

    def key_path(self, key: str) -> str:
        """The path of one of its keys."""
        return join_key(self.key, key)

    def add(self, key: str, problem: str) -> None:
        """Add an error about one of its keys."""
        self.findings.add(self.key_path(key), problem)

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Add an error for every unknown key."""
        self.unknown = [key for key in self.values if key not in known]
        for key in self.unknown:
            there = f"; there are {', '.join(known)}"
            self.add(key, f"unknown key{did_you_mean(key, known, otherwise=there)}")

    def is_misspelt(self, *names: str) -> bool:
        """Whether an unknown key is probably one of these misspelt, so that it is not reported as missing too."""
        return any(did_you_mean(key, names) for key in self.unknown)

    def has(self, key: str) -> bool:
        """Whether the key is present and not null."""
        return self.values.get(key) is not None

    def string(self, key: str, default: str | None = None) -> str | None:
        """A non-empty string."""
        found: str | None = self._checked(key, default, lambda value: string_problem(value, self._written(key)))
        return found

    def integer(self, key: str, default: int | None, *, least: int) -> int | None:
        """An integer."""
        found: int | None = self._checked(key, default, lambda value: integer_problem(value, least))
        return found

    def seconds(self, key: str, default: float | None, *, zero: bool = False) -> float | None:
        """A number of seconds > 0 (>= 0 with ``zero``). An explicit null gives ``None``."""
        if key in self.values and self.values[key] is None and not zero:
            return None
        found = self._checked(key, default, lambda value: seconds_problem(value, zero=zero))
        return None if found is None else float(found)

    def number(self, key: str, default: float | None, *, least: float = 0.0) -> float | None:
        """A finite number."""
        found = self._checked(key, default, lambda value: number_problem(value, least))
        return None if found is None else float(found)

    def flag(self, key: str, default: bool = False) -> bool:
        """A boolean."""
        found = self._checked(
            key,
            default,
            lambda value: None if isinstance(value, bool) else f"must be true or false, not {describe_value(value)}",
        )
        return bool(found)

    def choice(self, key: str, default: str, choices: Iterable[str]) -> str:
        """One of several strings."""
        found = self.string(key, default)
        names = list(choices)
        if found not in names:
            hint = did_you_mean(str(found), names)
            self.add(key, f"must be {_either(names)}, not {quote_text(str(found))}{hint}")
            return default
        return str(found)

    def mapping(self, key: str) -> dict[str, Any]:
        """A mapping with arbitrary keys; empty if it is missing."""
        value = self._checked(
            key,
            {},
            lambda value: (
                None if isinstance(value, Mapping) else f"must be a mapping of keys, not {describe_value(value)}"
            ),
        )
        return dict(value)

    def nonempty_list(self, key: str, *, example: str) -> list[Any] | None:
        """A non-empty list; ``None`` if it is missing."""

        def problem(value: object) -> str | None:
            if not isinstance(value, list):
                return f"must be a list, not {describe_value(value)}; write {example}"
            return None if value else "is an empty list; name at least one, or leave the key out"

        found: list[Any] | None = self._checked(key, None, problem)
        return found

    def _checked(self, key: str, default: Any, problem_of: Callable[[Any], str | None]) -> Any:
        value = self.values.get(key)
        if value is None:
            return default
        problem = problem_of(value)
        if problem is None:
            return value
        self.add(key, problem)
        return default

    def _written(self, key: str) -> str | None:
        return self.findings.source.written.get(self.key_path(key))


def join_key(path: str, key: str) -> str:
    """The path of a key within another."""
    return f"{path}.{key}" if path else key


def describe_value(value: object) -> str:
    """The type of a value in words, with the value itself if it is short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"the text {quote_text(value, 40)}"
    if isinstance(value, int | float):
        return f"the number {value}"
    return "a list" if isinstance(value, list) else "a mapping"


def string_problem(value: object, written: str | None = None) -> str | None:
    """Why a value is not a non-empty string; ``None`` if it is one. ``written`` is how it is written in the file."""
    if isinstance(value, str):
        return None if value.strip() else "is an empty text"
    if isinstance(value, bool) and written is not None and _YAML_BOOLEAN.fullmatch(written):
        return f"must be a text, and YAML reads a bare {written} as {str(value).lower()}; put it in quotes: '{written}'"
    if isinstance(value, bool | int | float):
        literal = str(value).lower() if written is None else written
        return f"must be a text, not {describe_value(value)}; put it in quotes: '{literal}'"
    return f"must be a text, not {describe_value(value)}"


def integer_problem(value: object, least: int) -> str | None:
    """Why a value is not an integer >= ``least``; ``None`` if it is one."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return None
    quotes = "; leave out the quotes" if isinstance(value, str) and value.strip().lstrip("+-").isdigit() else ""
    return f"must be an integer >= {least}, not {describe_value(value)}{quotes}"


def number_problem(value: object, least: float) -> str | None:
    """Why a value is not a number >= ``least``; ``None`` if it is one."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= least:
        return None
    return f"must be a number of at least {least:g}, not {describe_value(value)}"


def seconds_problem(value: object, *, zero: bool = False) -> str | None:
    """Why a value is not a number of seconds; ``None`` if it is one."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if is_number and (value > 0 or (zero and value == 0)):  # type: ignore[operator]
        return None
    bound = "of at least 0" if zero else "above 0"
    hint = ""
    if isinstance(value, str):
        hint = "; write the bare number of seconds"
    elif value == 0 and not isinstance(value, bool):
        hint = "; write null to wait for ever"
    return f"must be a number of seconds {bound}, not {describe_value(value)}{hint}"


def _either(names: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(map(repr, names[:-1])), repr(names[-1])]))
