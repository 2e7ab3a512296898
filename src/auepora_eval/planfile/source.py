"""Parse a plan file in YAML, TOML or JSON into values with line numbers."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..core.errors import DataFileError, PlanError, did_you_mean
from ..io.files import read_bytes, read_head
from ..io.problem_messages import TOO_DEEP, first_invalid_value, quote_text

__all__ = ["PLAN_KEYS", "SUFFIXES", "PlanSource", "looks_like_plan", "read_source"]

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
        data = read_bytes(path)
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
    from ..io.yaml_values import YamlError, parse_yaml

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
        from ..io.yaml_values import YamlValues

        self.lines: dict[str, int] = {}
        self.written: dict[str, str] = {}
        self._values = YamlValues(size)
        self._left = MAX_VALUES

    def value(self, node: Any, path: str) -> Any:
        """The value of a node."""
        import yaml

        from ..io.yaml_values import YamlError, node_line, scalar_text

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
    from ..io.yaml_values import YamlError, parse_yaml

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
