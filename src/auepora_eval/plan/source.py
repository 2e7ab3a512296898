"""Plan files in YAML, TOML or JSON as values with line numbers, and the collection of errors."""

from __future__ import annotations

import datetime
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin
from urllib.parse import parse_qsl, urlsplit

from ..errors import AueporaError, BadOptionError, BadValueError, DataFileError, PlanError, did_you_mean
from ..io.problems import TOO_DEEP, first_invalid_value, join_key, quote_text, walk_json
from ..io.yaml_values import YamlError, YamlValues, parse_yaml, split_key
from ..options import NonEmpty, describe_type, option_types, problem_of
from ..runtime.files import read_bytes, read_head
from ..runtime.imports import CodeNotLoadedError
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

PLAN_KEYS = (
    "version", "name", "dataset", "outputs", "system", "conventions", "gold", "primary", "guardrails", "resources",
    "targets", "metrics", "slices", "run", "scoring", "judge", "store", "report", "gates", "sweep",
)  # fmt: skip
MAX_INTEGER = 2**63 - 1
SUFFIXES = (".yaml", ".yml", ".toml", ".json")

_CONFIG_SECTIONS = ("outputs.config.", "system.config.")
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
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Values of keys that were given beside the file, which belong to the configuration of the run."""

    def line(self, key: str) -> int | None:
        """The line of a key, or of the nearest one around it; ``None`` for a key that was set beside the file."""
        while key and key not in self.settings:
            if key in self.lines:
                return self.lines[key]
            key = key[: max(key.rfind("."), key.rfind("["), 0)]
        return None

    def with_changes(self, changes: Mapping[str, Any]) -> PlanSource:
        """A copy with new values for some keys (``run.top_k``, ``system.args.k``), which then have no line.

        Dots separate keys; ``\\.`` is a dot in a key.
        """
        values = dict(self.values)
        for key, value in changes.items():
            *sections, name = split_key(key)
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

    def with_settings(self, settings: Mapping[str, Any]) -> PlanSource:
        """``with_changes`` whose values are also part of the configuration of the run."""
        return replace(self.with_changes(settings), settings={**self.settings, **settings})

    @property
    def configured(self) -> dict[str, Any]:
        """The settings, less those of ``config``, which the plan has under their own names."""
        return {key: value for key, value in self.settings.items() if not key.startswith(_CONFIG_SECTIONS)}

    def error(self, key: str, problem: str) -> PlanError:
        """A ``PlanError`` about a key."""
        return PlanError(self.path, self.line(key), key, problem)


def parse_settings(texts: Iterable[str]) -> dict[str, Any]:
    """Values of plan keys, from texts such as ``run.top_k=3``. A value is YAML; the last one of a key counts."""
    settings: dict[str, Any] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not all(split_key(key)):
            raise BadValueError("a setting is KEY=VALUE with a key of the plan, such as run.top_k=3")
        settings.pop(key, None)
        settings[key] = _from_yaml(Path(key), value.encode()).values
    return settings


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
    try:
        root = parse_yaml(data)
        walk = YamlValues(len(data), largest=MAX_INTEGER)
        values = None if root is None else walk.value(root, "")
    except YamlError as error:
        raise PlanError(path, error.line, "", error.message) from error
    return PlanSource(path, values, walk.lines, walk.written)  # type: ignore[arg-type]  # checked by the caller


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
        lines = _from_yaml(path, data).lines
    except PlanError:
        lines = {}
    return PlanSource(path, values, lines)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {quote_text(key)} occurs twice in one object; each may come once")
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


# --- collection of the errors of a plan, and the structuring of its values -------------------------------------------

_METRIC_KEY = re.compile(r"metrics\[(\d+)\]")
_YAML_BOOLEAN = re.compile(r"(?i)yes|no|on|off|y|n|true|false")
_NUMBER_WITH_UNIT = re.compile(r"\s*[-+]?\d+(\.\d+)?\s*[A-Za-z%]+\s*")


class Findings:
    """The errors of one plan, in the order in which they were found."""

    def __init__(
        self, source: PlanSource, folder: Path | None = None, variables: Mapping[str, str] | None = None
    ) -> None:
        """``variables`` replace those of the environment."""
        self.source = source
        self.top = PlanSection(self, "", source.values)
        """The top level of the plan."""
        self.folder = source.path.parent if folder is None else folder
        """The folder in which relative paths start."""
        self.environment = Environment(self, variables)
        """Replaces references to environment variables."""
        self.errors: list[AueporaError] = []
        self.not_loaded: dict[str, str] = {}
        """The user's code that was not imported, by key."""

    def add(self, key: str, problem: str, cause: BaseException | None = None, *, line_of: str = "") -> None:
        """Add an error about a key; its line is that of ``line_of``, if this is given."""
        error = PlanError(self.source.path, self.source.line(line_of or key), key, problem)
        error.__cause__ = cause
        self.errors.append(error)

    def add_error(self, key: str, error: AueporaError) -> None:
        """Add an error raised for a key; code that was not imported is no error."""
        if isinstance(error, CodeNotLoadedError):
            self.not_loaded[key] = error.path
        elif isinstance(error, BadOptionError):
            self.add(self._option_key(key, error.option), error.problem, error)
        else:
            self.add(key, str(error), error, line_of=self._option_key(key, getattr(error, "option", "")))

    def _option_key(self, key: str, option: str) -> str:
        """The key of an option of a metric, ``metrics[2].judge_metric.scale``, from the key of the metric."""
        place = _METRIC_KEY.fullmatch(key)
        spec = self.source.values["metrics"][int(place[1])] if place and option else None
        return f"{key}.{next(iter(spec))}.{option}" if isinstance(spec, Mapping) else key

    def raise_first(self) -> None:
        """Raise the first error, if there is any."""
        if self.errors:
            raise self.errors[0]

    def section(self, key: str, value: object, *, known: Collection[str]) -> PlanSection | None:
        """The mapping under a key, whose keys must be among ``known``; ``None`` if it is no mapping."""
        if not isinstance(value, Mapping):
            self.add(key, f"must be a mapping of keys, not {describe_value(value)}; the keys are {', '.join(known)}")
            return None
        section = PlanSection(self, key, dict(value))
        section.refuse_unknown(known)
        return section


# --- ``${NAME}`` in values is replaced from the environment ----------------------------------------------------------

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[^{}]*)(?P<end>\}?)")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME_BEFORE_VALUE = re.compile(r"(?P<name>[\w-]+)\s*[=:]\s*[\"']?(?:(?i:basic|bearer)\s+)?\Z")
"""A name before a value inside a string: ``password=``, ``"Authorization: Bearer "``."""


class Environment:
    """Replaces references by environment variables, and remembers which values are secret."""

    def __init__(self, findings: Findings, variables: Mapping[str, str] | None) -> None:
        self._findings = findings
        self._variables = os.environ if variables is None else variables
        self._secrets: set[str] = set()

    @property
    def secrets(self) -> frozenset[str]:
        """The secret values that were substituted and are long enough to be searched for.

        A value is secret if its variable or a key around it has the name of a secret, in an HTTP header, as the
        password of an address, or if it has the form of a well-known API key. Other values, such as the name of an
        index, are ordinary data.
        """
        return frozenset(secret for secret in self._secrets if len(secret) >= MIN_SECRET_LENGTH)

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
        if not found["end"] or not _VARIABLE_NAME.fullmatch(name):
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
        or any(url.start("password") <= found.start() < url.end("password") for url in URL_PASSWORD.finditer(text))
    )


def _double_braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


# --- the values under a key, read by the types that a dataclass declares ---------------------------------------------


@dataclass(frozen=True, slots=True)
class Variables:
    """In the type of a key: its value may refer to environment variables. What is stored has the references."""

    in_template: bool = False
    """Whether braces in the values of variables are doubled."""


@dataclass(frozen=True, slots=True)
class Check:
    """In the type of a key: a check of its value, after variables are replaced."""

    problem: Callable[[Any], str | None]
    """Why a value is refused; ``None`` if it is not."""


class InFolder:
    """In the type of a key: a path that starts in the folder of the plan. What is stored is the path as written."""


@dataclass(slots=True)
class PlanSection:
    """The values under one key of a plan."""

    findings: Findings
    key: str
    values: Mapping[str, Any]
    unknown: list[str] = field(default_factory=list)

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

    def only_key(self, keys: Collection[str], listing: str) -> str | None:
        """The one of these keys that is given; an error unless it is exactly one."""
        named = [key for key in keys if self.has(key)]
        if len(named) != 1 and (named or not self.is_misspelt(*keys)):
            found = "there is none" if not named else f"there are {' and '.join(map(repr, named))}"
            self.findings.add(self.key, f"needs exactly one of {listing}; {found}")
        return named[0] if len(named) == 1 else None

    def mapping(self, key: str) -> dict[str, Any]:
        """A mapping with arbitrary keys; empty if it is missing."""
        value = self.values.get(key)
        found = {} if value is None else self.convert(self.key_path(key), Mapping[str, Any], value)[0]
        return dict(found or {})

    def nonempty_list(self, key: str, *, example: str) -> list[Any] | None:
        """A non-empty list; ``None`` if it is missing."""
        value = self.values.get(key)
        if isinstance(value, list) and value:
            return value
        if value == []:
            self.add(key, "is an empty list; name at least one, or leave the key out")
        elif value is not None:
            self.add(key, f"must be a list, not {describe_value(value)}; write {example}")
        return None

    def listed_values(self, key: str, *, example: str) -> list[tuple[str, Any]]:
        """The values of a non-empty list with their keys, ``slices[0]``; none if it is missing."""
        values = self.nonempty_list(key, example=example) or []
        return [(self.key_path(f"{key}[{place}]"), value) for place, value in enumerate(values)]

    def read(
        self, declared: type, *, only: Collection[str] | None = None, defaults: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The values of the keys that a dataclass declares, by its types: as they are used, and as they are stored.

        ``defaults`` replace those of the dataclass, and ``only`` selects keys. A wrong or missing value is an error,
        and the default, or ``None``, is used. Null is the default, unless the type includes it.
        """
        used: dict[str, Any] = {}
        stored: dict[str, Any] = {}
        for declared_field in fields(declared):
            if only is not None and declared_field.name not in only:
                continue
            hint = option_types(declared)[declared_field.name]
            default = (defaults or {}).get(declared_field.name, default_of(declared_field))
            value = self.values.get(declared_field.name)
            if value is None and not (declared_field.name in self.values and is_optional(hint)):
                value = default
            if value is MISSING and not self.is_misspelt(declared_field.name):
                self.add(
                    declared_field.name,
                    f"is missing; {declared_field.metadata.get('meaning', f'it is {describe_type(hint)}')}",
                )
            if value is None or value is MISSING:
                used[declared_field.name] = stored[declared_field.name] = None
                continue
            used[declared_field.name], stored[declared_field.name] = self.convert(
                self.key_path(declared_field.name), hint, value
            )
            if used[declared_field.name] is None and default is not MISSING:
                used[declared_field.name] = default
        return used, stored

    def convert(self, key: str, hint: Any, value: Any) -> tuple[Any, Any]:
        """A value by its type, as it is used and as it is stored; both are ``None`` after an error, which is added."""
        before = len(self.findings.errors)
        plain, markers = split_hint(hint)
        used: Any = value
        stored: Any = value
        if isinstance(plain, type) and is_dataclass(plain):
            section = self.findings.section(key, value, known=option_types(plain))
            if section is not None:
                used, stored = section.read(plain)
            return (None, None) if len(self.findings.errors) > before else (plain(**used), stored)
        if get_origin(plain) is Mapping and isinstance(value, Mapping):
            used, stored = {}, {}
            for name, inner in value.items():
                used[name], stored[name] = self._item(join_key(key, name), plain, name, inner)
        else:
            if problem := self._problem(key, plain, value, or_null=is_optional(hint)):
                self.findings.add(key, problem)
            used = stored = float(value) if _base(plain) is float and isinstance(value, int) else value
        for marker in markers:
            if len(self.findings.errors) > before:
                break
            if isinstance(marker, Check) and (problem := marker.problem(used)):
                self.findings.add(key, problem)
            elif isinstance(marker, Variables):
                used = self.findings.environment.substitute(key, used, in_template=marker.in_template)
            elif isinstance(marker, InFolder):
                used = resolve_path(used, self.findings.folder)
        return (None, None) if len(self.findings.errors) > before else (used, stored)

    def _item(self, key: str, mapping: Any, name: str, value: Any) -> tuple[Any, Any]:
        """One item of a mapping."""
        hint = get_args(mapping)[1]
        if hint is Any:
            return value, value
        if "\0" in name:
            self.findings.add(key, "cannot hold a null character")
        return self.convert(key, hint, value)

    def _problem(self, key: str, hint: Any, value: Any, *, or_null: bool) -> str | None:
        """Why a value is not of the type."""
        if _base(hint) in (str, Path):
            return string_problem(value, self.findings.source.written.get(key), empty=hint is str)
        problem = problem_of(hint, value, describe=describe_value)
        if problem is not None and or_null:
            problem = problem.replace(", not", " or null, not", 1)
        unit = isinstance(value, str) and _NUMBER_WITH_UNIT.fullmatch(value) and _base(hint) in (int, float)
        return f"{problem}; write the bare number" if problem and unit else problem


def is_optional(hint: Any) -> bool:
    """Whether a type includes ``None``."""
    return type(None) in get_args(hint)


def default_of(declared: Field[Any]) -> Any:
    """The default of a field of a dataclass; ``MISSING`` if it is required."""
    return declared.default if declared.default_factory is MISSING else declared.default_factory()


def split_hint(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type without ``None``, and the markers in it."""
    members = [member for member in get_args(hint) if member is not type(None)]
    plain = members[0] if is_optional(hint) and len(members) == 1 else hint
    if get_origin(plain) is not Annotated:
        return plain, ()
    markers = tuple(marker for marker in plain.__metadata__ if isinstance(marker, (Variables, Check, InFolder)))
    return (plain.__origin__ if len(markers) == len(plain.__metadata__) else plain), markers


def _base(hint: Any) -> Any:
    return hint.__origin__ if get_origin(hint) is Annotated else hint


def resolve_path(path: str, folder: Path) -> Path:
    """The path of a plan in ``folder``, with ``~`` expanded."""
    return folder / os.path.expanduser(path)


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


def string_problem(value: object, written: str | None = None, *, empty: bool = False) -> str | None:
    """Why a value is not a string; ``None`` if it is one. ``written`` is how it is written in the file."""
    if isinstance(value, str):
        if "\0" in value:
            return "cannot hold a null character"
        return None if empty or value.strip() else "is an empty text"
    if isinstance(value, bool) and written is not None and _YAML_BOOLEAN.fullmatch(written):
        return f"must be a text, and YAML reads a bare {written} as {str(value).lower()}; put it in quotes: '{written}'"
    if isinstance(value, bool | int | float):
        literal = str(value).lower() if written is None else written
        return f"must be a text, not {describe_value(value)}; put it in quotes: '{literal}'"
    return f"must be a text, not {describe_value(value)}"


def path_problem(value: object) -> str | None:
    """Why a value is not a path; ``None`` if it is one."""
    problem = string_problem(value)
    if problem is None and "${" in str(value):
        return "variables are not read in paths: write the path itself"
    return problem


Text = Annotated[str, NonEmpty()]
PlanPath = Annotated[Path, Check(path_problem), InFolder()]


# --- literal secrets in plans, which are refused ---------------------------------------------------------------------

_NAMED_SECRETS = ("system", "outputs", "resources")
"""Sections in which secrets are detected by the name of their key."""
_LIST_PLACES = re.compile(r"(\[\d+\])+$")
_PLACEHOLDERS = {"", "dummy", "empty", "none", "unused"}
"""Placeholders for a key that is not needed."""


def find_literal_secrets(findings: Findings) -> None:
    """Add an error for every literal secret in the plan. No message contains it."""
    for key, value, _, place in walk_json(findings.source.values):
        name = _LIST_PLACES.sub("", key).rpartition(".")[2]  # the nearest key around it
        if place is None or isinstance(value, dict | list):
            continue
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
