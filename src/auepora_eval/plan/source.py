"""Plan files in YAML, TOML or JSON as values with line numbers, and the collection of errors."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import AueporaError, DataFileError, PlanError, did_you_mean
from ..io.problems import TOO_DEEP, first_invalid_value, quote_text
from ..runtime.files import read_bytes, read_head
from ..runtime.imports import CodeNotLoadedError

PLAN_KEYS = (
    "version", "name", "dataset", "outputs", "system", "conventions", "primary", "resources", "metrics", "slices",
    "run", "scoring", "judge", "store", "report", "gates",
)  # fmt: skip
SUFFIXES = (".yaml", ".yml", ".toml", ".json")
MAX_VALUES = 100_000
"""Maximum number of values of a plan, including those repeated by aliases."""
MAX_INTEGER = 2**63 - 1

_DATA_KEYS = frozenset({"queries", "data", "query", "sample_id"})
_YAML_KEY = re.compile(r"^[\"']?(\w+)[\"']?\s*:", re.MULTILINE)
_FLOW_KEY = re.compile(r"[{,]\s*[\"']?(\w+)[\"']?\s*:")
_TOML_TABLE = re.compile(r"\s*\[\[?\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_TOML_KEY = re.compile(r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"|'[^']*'))*)\s*=")


@dataclass(frozen=True, slots=True)
class PlanSource:
    """The values of a plan file and their lines."""

    path: Path
    values: dict[str, Any]
    lines: Mapping[str, int] = field(default_factory=dict, repr=False)
    """The line of each key by its path (``run.top_k``, ``metrics[2]``), if known."""
    written: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The literal of a YAML value that is not a string: ``no``, ``1e3``, ``~``."""

    def line(self, key: str) -> int | None:
        """The line of a key, or of the nearest one around it."""
        while key:
            if key in self.lines:
                return self.lines[key]
            key = key[: max(key.rfind("."), key.rfind("["), 0)]
        return None

    def with_changes(self, changes: Mapping[str, Any]) -> PlanSource:
        """A copy with new values for some keys (``run.top_k``, ``system.args.k``), which then have no line."""
        values = dict(self.values)
        for key, value in changes.items():
            *sections, name = key.split(".")
            target = values
            for depth, section in enumerate(sections, start=1):
                inner = target.get(section)
                if inner is not None and not isinstance(inner, dict):
                    around = ".".join(sections[:depth])
                    raise self.error(around, f"has no keys here, so {key!r} cannot be set; set {around!r} as a whole")
                target[section] = target = dict(inner or {})
            target[name] = value
        kept = {key: line for key, line in self.lines.items() if key not in changes}
        return replace(self, values=values, lines=kept)

    def error(self, key: str, problem: str) -> PlanError:
        """A ``PlanError`` about a key."""
        return PlanError(self.path, self.line(key), key, problem)


def read_source(path: Path) -> PlanSource:
    """Read the values of a plan file; raises ``PlanError`` if it is none."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        hint = did_you_mean(suffix, SUFFIXES) if suffix else ""
        raise PlanError(path, None, "", f"a plan is YAML, TOML or JSON, by suffix: {', '.join(SUFFIXES)}{hint}")
    try:
        data = read_bytes(path, is_document=True)
    except DataFileError as error:
        raise PlanError(path, error.line, "", error.problem) from error
    if not data.strip():
        raise PlanError(path, None, "", "the file is empty; a plan has at least 'dataset' and 'outputs' or 'system'")
    try:
        source = {".toml": _from_toml, ".json": _from_json}.get(suffix, _from_yaml)(path, data)
    except RecursionError as error:
        raise PlanError(path, None, "", TOO_DEEP) from error
    if not isinstance(source.values, dict):
        raise PlanError(path, 1, "", f"a plan is a mapping of keys such as 'dataset', not {_kind(source.values)}")
    odd = first_invalid_value(source.values)
    if odd is not None:
        raise PlanError(path, None, "", odd)
    return source


def _kind(value: object) -> str:
    if value is None:
        return "nothing: there are only comments in it"
    return "a list" if isinstance(value, list) else "a single value"


# ---------------------------------------------------------------------------------------------------------------- YAML


def _from_yaml(path: Path, data: bytes) -> PlanSource:
    from ..io.values import YamlError, parse_yaml

    try:
        root = parse_yaml(data)
        walk = _YamlWalker(len(data))
        values = None if root is None else walk.value(root, "")
    except YamlError as error:
        raise PlanError(path, error.line, "", error.message) from error
    return PlanSource(path, values, walk.lines, walk.written)  # type: ignore[arg-type]  # checked by the caller


class _YamlWalker:
    """Converts the nodes of a YAML document to values, and records their lines."""

    def __init__(self, size: int) -> None:
        from ..io.values import YamlValues

        self.lines: dict[str, int] = {}
        self.written: dict[str, str] = {}
        self._values = YamlValues(size)
        self._left = MAX_VALUES

    def value(self, node: Any, path: str) -> Any:
        """The value of a node."""
        import yaml

        from ..io.values import YamlError, node_line, scalar_text

        self._left -= 1
        if self._left < 0:
            raise YamlError(node_line(node), "there are too many values; do aliases repeat too much?")
        self.lines.setdefault(path, node_line(node))
        if isinstance(node, yaml.MappingNode) and node.tag.endswith(":map"):
            mapping = {}
            for key, key_node, item in self._values.pairs(node):
                inner = f"{path}.{key}" if path else key
                self.lines.setdefault(inner, node_line(key_node))
                mapping[key] = self.value(item, inner)
            return mapping
        if isinstance(node, yaml.SequenceNode) and node.tag.endswith(":seq"):
            return [self.value(item, f"{path}[{place}]") for place, item in enumerate(node.value)]
        value = self._values.value(node, path)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_INTEGER:
            raise YamlError(node_line(node), f"field {quote_text(path)} is too large a number")
        if not isinstance(value, str):
            self.written[path] = scalar_text(node) or "null"
        return value


# ---------------------------------------------------------------------------------------------------------------- TOML


def _from_toml(path: Path, data: bytes) -> PlanSource:
    import tomllib

    text = data.decode()
    try:
        values = tomllib.loads(text)
    except ValueError as error:  # invalid TOML, or a number with too many digits
        found = re.search(r" ?\(at line (\d+), column (\d+)\)", str(error))
        line = None if found is None else int(found[1])
        message = str(error) if found is None else str(error).replace(found[0], f" in column {found[2]}")
        raise PlanError(path, line, "", f"not valid TOML: {message}") from error
    return PlanSource(path, _json_value(values, path), _toml_lines(text))


def _json_value(value: Any, path: Path) -> Any:
    """The value with JSON types only; a date becomes a string."""
    if isinstance(value, dict):
        return {key: _json_value(item, path) for key, item in value.items()}
    if isinstance(value, list):
        return [_json_value(item, path) for item in value]
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise PlanError(path, None, "", "there is too large a number in it")
    return value


def _toml_lines(text: str) -> dict[str, int]:
    """The lines of tables and keys, found without a parser; some may be missing."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if found := _TOML_TABLE.match(line):
            table = _toml_path(found[1])
            lines.setdefault(table, number)
        elif found := _TOML_KEY.match(line):
            key = _toml_path(found[1])
            lines.setdefault(f"{table}.{key}" if table else key, number)
    return lines


def _toml_path(text: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in text.split("."))


# ---------------------------------------------------------------------------------------------------------------- JSON


def _from_json(path: Path, data: bytes) -> PlanSource:
    from ..io.values import YamlError, parse_yaml

    text = data.decode()
    try:
        values = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise PlanError(path, error.lineno, "", f"not valid JSON: {error.msg} in column {error.colno}") from error
    except ValueError as error:
        raise PlanError(path, None, "", f"not valid JSON: {error}") from error
    values = _json_value(values, path)
    try:
        # JSON is nearly always valid YAML, whose nodes have lines; otherwise there are no lines.
        root = parse_yaml(data)
        walk = _YamlWalker(len(data))
        walk.value(root, "")
    except YamlError:
        return PlanSource(path, values)
    return PlanSource(path, values, walk.lines)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {quote_text(key)} comes twice in one object; each may come once")
        found[key] = value
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON; numbers must be finite")


# ---------------------------------------------------------------------------------------------------- plan, or data?


def looks_like_plan(path: str | Path) -> bool:
    """Whether a file is a plan and not data, judged by its suffix and its first keys."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES or not path.is_file():
        return False
    if suffix == ".toml":
        return True  # no data is written in TOML
    try:
        text = read_head(path)
    except DataFileError:
        return False
    keys = _top_keys(text.lstrip())
    ours = keys.intersection(PLAN_KEYS)
    # Golden queries have a version, SQuAD a version and data; a plan has keys of its own, or mostly keys of plans.
    is_data = bool(keys & _DATA_KEYS) or 2 * len(ours) < len(keys)
    return not is_data and (bool(ours & {"dataset", "system"}) or len(ours) > 1)


def _top_keys(start: str) -> set[str]:
    """The keys of the first object in a text, if they can be found."""
    if start.startswith("["):
        return set()
    if not start.startswith("{"):
        return set(_YAML_KEY.findall(start))
    try:
        first, _ = json.JSONDecoder().raw_decode(start)
    except (ValueError, RecursionError):
        # Not JSON, or truncated: these include inner keys, so only known keys count.
        return {*_DATA_KEYS, *PLAN_KEYS}.intersection(_FLOW_KEY.findall(start))
    return set(first)


# --- collection of the errors of a plan, and checks of single values -------------------------------------------------

_YAML_BOOLEAN = re.compile(r"(?i)yes|no|on|off|y|n|true|false")


class Findings:
    """The errors of one plan, in the order in which they were found."""

    def __init__(self, source: PlanSource) -> None:
        self.source = source
        self.errors: list[AueporaError] = []
        self.not_loaded: dict[str, str] = {}
        """The user's code that was not imported, by key."""

    def add(self, key: str, problem: str, cause: BaseException | None = None) -> None:
        """Add an error about a key."""
        error = self.source.error(key, problem)
        error.__cause__ = cause
        self.errors.append(error)

    def add_error(self, key: str, error: AueporaError) -> None:
        """Add an error raised for a key; code that was not imported is no error."""
        if isinstance(error, CodeNotLoadedError):
            self.not_loaded[key] = error.path
        else:
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
