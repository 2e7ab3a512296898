"""The sections of a plan: each function checks the values of one section and collects errors."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

from ..core.conventions import CONVENTION_NAMES, PRESETS, Conventions
from ..core.metrics_base import Metric
from ..core.plan import with_distinct_names
from ..core.registry import Spec, metric
from ..core.slices import parse_slices
from ..engine.evaluate import BATCH_SIZE
from ..errors import AueporaError, did_you_mean
from ..io.formats import Role, formats
from ..io.problems import quote_text
from ..judge.critic import JudgePolicy, Price
from ..runtime.imports import IMPORT_PATH
from ..systems.workers import CallPolicy
from .gates import Gate, parse_gate, parse_gates, require_known_names
from .model import DataSource, JudgeSettings, Scoring, SystemKind, SystemSource
from .secrets import Environment
from .source import Findings, PlanSection, describe_value, string_problem

AUTO = "auto"
RUN_KEYS = ("top_k", "concurrency", "timeout", "retries", "backoff", "max_failures", "keep_going", "repeats", "seed")
SCORING_KEYS = ("executor", "workers", "batch_size", "address")

Stored = dict[str, Any]


def data_section(findings: Findings, key: str, folder: Path) -> tuple[DataSource, Stored] | None:
    """Read ``dataset`` or ``outputs``: a path, or a path under the name of its format."""
    role: Role = "samples" if key == "dataset" else "outputs"
    value = findings.source.values[key]
    if not isinstance(value, (str, Mapping)):
        findings.add(
            key, f"must be a path, or {{format: path}} such as {{jsonl: data.jsonl}}, not {describe_value(value)}"
        )
        return None
    section = PlanSection(findings, key, {AUTO: value} if isinstance(value, str) else dict(value))
    known = {name for name, one in formats().items() if one.reads(role)} | {AUTO}
    others = {"corpus", "nuggets"} if role == "samples" else {"corpus", "config"}
    named = [name for name in section.values if name not in others]
    if {"path", "format"} & set(named):
        section.add(named[0], "the format is the key and the path its value: write {jsonl: data.jsonl}")
        return None
    unknown = [name for name in named if name not in known]
    for name in unknown:
        if name in formats():
            section.add(name, f"the format '{name}' has no {role}")
        else:
            there = f"; the formats are {', '.join(sorted(known))}"
            section.add(name, f"unknown key{did_you_mean(name, known | others, otherwise=there)}")
    if unknown:
        return None
    if len(named) != 1:
        found = "none" if not named else " and ".join(map(repr, named))
        findings.add(key, f"needs the path under exactly one format, such as {{jsonl: data.jsonl}}; there is {found}")
        return None
    (name,) = named
    # A bare path has no key of its own.
    path = _path(findings, key if isinstance(value, str) else section.key_path(name), section.values[name])
    extra: dict[str, str] = {}
    for other in ("corpus", "nuggets"):
        if other in others and section.has(other):
            file = _path(findings, section.key_path(other), section.values[other])
            if file is None:
                return None
            extra[other] = file
    if path is None:
        return None
    files = {other: resolve_path(one, folder) for other, one in extra.items()}
    source = DataSource(resolve_path(path, folder), None if name == AUTO else name, **files)
    return source, {name: path, **extra}


def _path(findings: Findings, key: str, value: object) -> str | None:
    problem = path_problem(value)
    if problem is not None:
        findings.add(key, problem)
        return None
    return str(value)


def path_problem(value: object) -> str | None:
    """Why a value is not a path; ``None`` if it is one."""
    problem = string_problem(value)
    if problem is not None:
        return problem
    text = str(value)
    if "\0" in text:
        return "a path cannot hold a null character"
    return "variables are not read in paths: write the path itself" if "${" in text else None


def resolve_path(path: str, folder: Path) -> Path:
    """The path of a plan in ``folder``, with ``~`` expanded."""
    return folder / os.path.expanduser(path)


def conventions_section(findings: Findings) -> Stored:
    """Read ``conventions``: a preset, ``auto``, or a mapping that overrides conventions of a preset."""
    value = findings.source.values.get("conventions")
    stored: Stored = {"name": AUTO}
    if value is None:
        return stored
    if not isinstance(value, (str, Mapping)):
        findings.add(
            "conventions", f"must be the name of a preset, or a mapping of choices, not {describe_value(value)}"
        )
        return stored
    where = "conventions" if isinstance(value, str) else "conventions.name"
    section = PlanSection(findings, "conventions", {"name": value} if isinstance(value, str) else dict(value))
    section.refuse_unknown(("name", *CONVENTION_NAMES))
    name = section.values.get("name", AUTO)
    if not isinstance(name, str) or name not in (AUTO, *PRESETS):
        problem = string_problem(name, findings.source.written.get(where))
        near = did_you_mean(str(name), (AUTO, *PRESETS), otherwise=f"; there are {', '.join((AUTO, *PRESETS))}")
        findings.add(where, problem or f"unknown conventions {quote_text(str(name))}{near}")
        return stored
    for key, choice in section.values.items():
        if key not in CONVENTION_NAMES:
            continue
        try:
            Conventions.of(None, **{key: choice})
        except AueporaError as error:
            findings.add_error(section.key_path(key), error)
        except TypeError:  # a list or a mapping instead of a string
            section.add(key, f"cannot be {describe_value(choice)}")
        else:
            stored[key] = choice
    return {"name": name, **{key: stored[key] for key in CONVENTION_NAMES if key in stored}}


def metrics_section(findings: Findings) -> tuple[tuple[Spec, ...], list[Metric]] | None:
    """Read ``metrics``: valid specs with distinct names; ``None`` stands for all that the data supports."""
    listed = PlanSection(findings, "", findings.source.values).nonempty_list(
        "metrics", example="[recall@5, {map: {k: 10}}]"
    )
    if listed is None:
        return None
    specs: list[Spec] = []
    built: list[Metric] = []
    keys: list[str] = []
    for place, written in enumerate(listed):
        key = f"metrics[{place}]"
        bare = isinstance(written, Mapping) and len(written) == 1 and next(iter(written.values())) in (None, {})
        spec = next(iter(written)) if bare else written  # a name without options
        problem = _spec_problem(spec)
        if problem is not None:
            findings.add(key, problem)
            continue
        try:
            one = metric(spec)
        except AueporaError as error:
            findings.add_error(key, error)
        else:
            built.append(one)
            keys.append(key)
        specs.append(spec)
    built = with_distinct_names(built)
    first: dict[str, str] = {}
    for key, one in zip(keys, built, strict=True):
        if one.name in first:
            findings.add(
                key,
                f"'{one.name}' is already {first[one.name]}; leave one out, or give it another name "
                f"with 'as', as in {{'{one.name}': {{as: another}}}}",
            )
        first.setdefault(one.name, key)
    return tuple(specs), built


def _spec_problem(spec: object) -> str | None:
    if isinstance(spec, str):
        return None
    if not isinstance(spec, Mapping):
        return f"a metric is a name such as recall@5, or {{name: {{option: value}}}}, not {describe_value(spec)}"
    if {"name", "metric"} & set(spec):
        return "write the metric's name as the key: 'recall@5', or {'ndcg@10': {gain_scheme: linear}}"
    if len(spec) != 1:
        inside = "; are its options indented far enough?" if None in spec.values() else ""
        return f"must be one name with its options, not {len(spec)} keys ({', '.join(map(str, spec))}){inside}"
    return None


def primary_section(findings: Findings, built: list[Metric] | None, *, other_metrics: bool = False) -> tuple[str, ...]:
    """Read ``primary``: names of metrics of the plan.

    With ``other_metrics``, given on the command line, names that are not among them are left out.
    """
    listed = PlanSection(findings, "", findings.source.values).nonempty_list("primary", example="[recall@5]") or []
    names: list[str] = []
    for place, name in enumerate(listed):
        key = f"primary[{place}]"
        problem = string_problem(name, findings.source.written.get(key))
        if problem is None and name in names:
            problem = f"'{name}' is named twice"
        if problem is not None:
            findings.add(key, problem)
            continue
        if built is None:
            try:
                metric(name)
            except AueporaError as error:
                findings.add_error(key, error)
        elif name not in [one.name for one in built] and not findings.not_loaded:
            if other_metrics:
                continue
            there = [one.name for one in built]
            listing = f"; they are {', '.join(there)}" if there else ""
            findings.add(key, f"'{name}' is not among the metrics{did_you_mean(name, there, otherwise=listing)}")
        names.append(name)
    return tuple(names)


def slices_section(findings: Findings) -> tuple[str | Mapping[str, str], ...]:
    """Read ``slices``: paths of labels or metadata, or mappings from a name to a path."""
    listed = PlanSection(findings, "", findings.source.values).nonempty_list("slices", example="[labels.lang]") or []
    good: list[str | Mapping[str, str]] = []
    for place, one in enumerate(listed):
        key = f"slices[{place}]"
        fits = isinstance(one, str) or (isinstance(one, Mapping) and all(isinstance(v, str) for v in one.values()))
        if not fits or not one:
            findings.add(key, f"a slice is a path such as labels.lang, or {{name: path}}, not {describe_value(one)}")
            continue
        try:
            parse_slices([*good, one])
        except AueporaError as error:
            findings.add_error(key, error)
        else:
            good.append(one)
    return tuple(good)


def optional_section(findings: Findings, key: str, known: tuple[str, ...]) -> PlanSection:
    """An optional section; empty if it is missing."""
    value = findings.source.values.get(key)
    section = None if value is None else findings.section(key, value, known=known)
    return section or PlanSection(findings, key, {})


def run_section(findings: Findings) -> tuple[CallPolicy, int, int, Stored]:
    """Read ``run``: the policy for calls, the repeats, and the seed."""
    section = optional_section(findings, "run", RUN_KEYS)
    stored: Stored = {
        "top_k": section.integer("top_k", 10, least=1),
        "concurrency": section.integer("concurrency", 8, least=1),
        "timeout": section.seconds("timeout", 60.0),
        "retries": section.integer("retries", 2, least=0),
        "backoff": section.seconds("backoff", 0.5, zero=True),
        "max_failures": section.integer("max_failures", None, least=0),
        "repeats": section.integer("repeats", 1, least=1),
        "seed": section.integer("seed", 0, least=0),
    }
    keep_going = section.flag("keep_going")
    if keep_going:
        stored["keep_going"] = True
    options: dict[str, Any] = {key: value for key, value in stored.items() if key not in ("repeats", "seed")}
    policy = CallPolicy(**{**options, "keep_going": keep_going})
    return policy, int(stored["repeats"] or 1), int(stored["seed"] or 0), stored


def scoring_section(findings: Findings) -> tuple[Scoring, Stored]:
    """Read ``scoring``: the executor of the metrics."""
    section = optional_section(findings, "scoring", SCORING_KEYS)
    stored = {
        "executor": section.choice("executor", "serial", ("serial", "processes", "ray")),
        "workers": section.integer("workers", None, least=1),
        "batch_size": section.integer("batch_size", BATCH_SIZE, least=1),
        "address": section.string("address", None),
    }
    if stored["workers"] is not None and stored["executor"] == "serial":
        section.add("workers", "goes with 'executor: processes' or 'ray'")
    if stored["address"] is not None and stored["executor"] != "ray":
        section.add("address", "goes with 'executor: ray'")
    return Scoring(**stored), stored  # type: ignore[arg-type]


# --- ``gates``: strings, or mappings from a metric to its condition --------------------------------------------------


def gates_section(
    findings: Findings, built: list[Metric] | None, slices: tuple[str | Mapping[str, str], ...]
) -> tuple[Gate, ...]:
    """Read ``gates``, the conditions that a run must satisfy."""
    listed = (
        PlanSection(findings, "", findings.source.values).nonempty_list("gates", example='["recall@5 >= 0.80"]') or []
    )
    names = None if built is None else [one.name for one in built]
    good: list[Gate] = []
    for place, written in enumerate(listed):
        key = f"gates[{place}]"
        text, problem = _gate_text(written, findings.source.written.get(key))
        if text is None:
            findings.add(key, str(problem))
            continue
        try:
            gate = parse_gate(text)
            maybe = [gate.metric] if findings.not_loaded and gate.metric is not None else []
            good += _check_names(
                gate, names if names is None else names + maybe, [one.name for one in parse_slices(slices)]
            )
        except AueporaError as error:
            findings.add_error(key, error)
    try:
        parse_gates(good)
    except AueporaError as error:
        findings.add_error("gates", error)
    return tuple(good)


def _check_names(gate: Gate, names: list[str] | None, slices: list[str]) -> list[Gate]:
    if names is None:  # all metrics that the data supports, which are not known yet
        names = [] if gate.metric is None else [metric(gate.metric).name]
    return require_known_names([gate], names, slices=slices)


def _gate_text(written: object, in_file: str | None) -> tuple[str | None, str | None]:
    """The text of a gate, or the error in it."""
    if isinstance(written, Mapping):
        if len(written) != 1:
            return None, f"must be one metric with its condition, not {len(written)} keys"
        ((subject, condition),) = written.items()
        if isinstance(condition, str):
            return f"{subject} {condition}", None
        if condition is None:
            return None, f"'{subject}' has no condition; write {{'{subject}': '>= 0.8'}}"
        return None, f"the condition of '{subject}' must be a text such as '>= 0.8', not {describe_value(condition)}"
    problem = string_problem(written, in_file)
    return (None, problem) if problem is not None else (str(written), None)


# --- ``judge``: policy, limits, prices and cache of judge calls ------------------------------------------------------

JUDGE_KEYS = (
    "cache", "cache_only", "concurrency", "timeout", "retries", "backoff", "repeats", "max_calls", "max_tokens",
    "max_cost", "prices",
)  # fmt: skip


def judge_section(findings: Findings, folder: Path) -> tuple[JudgeSettings, Stored]:
    """Read ``judge``: the settings for judge calls, and the part that is stored."""
    section = optional_section(findings, "judge", JUDGE_KEYS)
    default = JudgePolicy()
    cache = _cache(section)
    prices = _prices(section)
    stored: Stored = {
        "concurrency": section.integer("concurrency", default.concurrency, least=1),
        "timeout": section.seconds("timeout", default.timeout) or default.timeout,
        "retries": section.integer("retries", default.retries, least=0),
        "backoff": section.seconds("backoff", default.backoff, zero=True),
        "repeats": section.integer("repeats", default.repeats, least=1),
        "max_calls": section.integer("max_calls", None, least=0),
        "max_tokens": section.integer("max_tokens", None, least=0),
        "max_cost": section.number("max_cost", None),
    }
    # Not stored with the run: it applies to this call only.
    only = section.flag("cache_only")
    if only and cache is False:
        section.add("cache_only", "there is no cache to answer from: 'cache' is false")
    if stored["max_cost"] is not None and not prices:
        section.add("max_cost", "the cost of the judge is unknown; write 'prices: {MODEL: {prompt: 1, completion: 2}}'")
    path = resolve_path(cache, folder) if isinstance(cache, str) else None
    policy = JudgePolicy(
        **stored,
        cache=path,
        prices={model: Price(**price) for model, price in prices.items()},
    )
    settings = JudgeSettings(policy, cache=cache is not False, cache_only=only and cache is not False)
    return settings, {"cache": cache, **stored, "prices": prices or None}


def _cache(section: PlanSection) -> str | bool | None:
    """The path as written, ``False`` for no cache, ``None`` for the default."""
    value = section.values.get("cache")
    if value is None or value is True:
        return None
    if value is False:
        return False
    problem = path_problem(value)
    if problem is not None:
        section.add("cache", f"{problem}; write a path, or false to keep no judgements")
        return None
    return str(value)


def _prices(section: PlanSection) -> dict[str, dict[str, float]]:
    prices: dict[str, dict[str, float]] = {}
    for model, value in section.mapping("prices").items():
        key = f"{section.key_path('prices')}.{model}"
        if not isinstance(value, Mapping):
            section.findings.add(
                key, f"must be what a million tokens cost, {{prompt: 1, completion: 2}}, not {describe_value(value)}"
            )
            continue
        one = PlanSection(section.findings, key, dict(value))
        one.refuse_unknown(("prompt", "completion"))
        if not one.has("prompt") and not one.is_misspelt("prompt"):
            one.add("prompt", "is missing; it is what a million tokens of prompts cost")
        prices[model] = {"prompt": one.number("prompt", 0.0) or 0.0, "completion": one.number("completion", 0.0) or 0.0}
    return prices


# --- ``report``: the path of the report that is written after scoring ------------------------------------------------

SUFFIXES = (".html", ".htm", ".md", ".markdown")


def report_section(findings: Findings, folder: Path) -> tuple[Path | None, str | None]:
    """Read ``report``: the resolved path, and the path as written."""
    value = findings.source.values.get("report")
    if value is None:
        return None, None
    problem = path_problem(value)
    if problem is None and not str(value).lower().endswith(SUFFIXES):
        problem = f"a report is a page: name a file that ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
    if problem is not None:
        findings.add("report", problem)
        return None, None
    return resolve_path(str(value), folder), str(value)


# --- ``system`` and ``store``, which may contain environment variables -----------------------------------------------

KINDS: tuple[str, ...] = get_args(SystemKind)
HTTP_KEYS = ("url", "method", "headers", "request", "response")
METHODS = ("POST", "GET", "PUT", "PATCH")
_REFERENCE = re.compile(r"[^\s${}]*\$\{\w+\}\S*")  # one word; with spaces it may be a shell script
_SQLITE = re.compile(r"sqlite(\+\w+)?:///")
_SERVERS = ("postgresql", "postgres", "postgresql+psycopg")
_MEMORY = (":memory:", "sqlite://", "sqlite:///", "sqlite:///:memory:")


def system_section(
    findings: Findings, folder: Path, environment: Environment
) -> tuple[SystemSource, dict[str, Any]] | None:
    """Read ``system``: how the system is built, and what is stored of it."""
    value = findings.source.values["system"]
    if isinstance(value, str):
        findings.add("system", f"must say what kind it is: {_suggestion(value)}")
        return None
    section = findings.section("system", value, known=(*KINDS, "args", "config"))
    if section is None:
        return None
    kinds = [kind for kind in KINDS if section.has(kind)]
    if not kinds and section.is_misspelt(*KINDS):
        return None
    if len(kinds) != 1:
        found = "there is none" if not kinds else f"there are {' and '.join(map(repr, kinds))}"
        findings.add("system", f"needs exactly one of python, http and command; {found}")
        return None
    if section.has("args") and kinds != ["python"]:
        section.add("args", "goes with 'python' alone")
    before = len(findings.errors)
    made: tuple[SystemSource, Stored] | None
    if kinds == ["python"]:
        made = _python(section, environment)
    elif kinds == ["http"]:
        made = _http(section, environment)
    else:
        made = _command(section, folder, environment)
    return made if made is not None and len(findings.errors) == before else None


def config_section(findings: Findings, key: str) -> Stored:
    """Read ``config`` within ``system`` or ``outputs``: the user's description of the system."""
    value = findings.source.values.get(key)
    return PlanSection(findings, key, value).mapping("config") if isinstance(value, Mapping) else {}


def is_import_path(text: str) -> bool:
    """Whether a string has the form ``module:name``."""
    return IMPORT_PATH.fullmatch(text) is not None


def _suggestion(text: str) -> str:
    if "://" in text:
        return f"{{http: {{url: {text}}}}}"
    return f"{{python: {text}}}" if is_import_path(text) else f"{{command: {text}}}"


def _python(section: PlanSection, environment: Environment) -> tuple[SystemSource, Stored] | None:
    path = section.string("python")
    if path is None:
        return None
    if not is_import_path(path):
        section.add("python", f"must be 'module:name', such as 'my_app.rag:build', not {quote_text(path)}")
    args = section.mapping("args")
    filled = environment.substitute(section.key_path("args"), args)
    return SystemSource("python", {"path": path, "args": filled}), {"python": path, "args": args}


def _http(section: PlanSection, environment: Environment) -> tuple[SystemSource, Stored] | None:
    value = section.values["http"]
    inner = section.findings.section(
        "system.http", {"url": value} if isinstance(value, str) else value, known=HTTP_KEYS
    )
    if inner is None:
        return None
    url = inner.string("url")
    if url is None:
        if not inner.has("url") and not inner.is_misspelt("url"):
            inner.add("url", "is missing; it is where the system is asked")
        return None
    method = inner.string("method", "POST") or "POST"
    if method.upper() not in METHODS:
        inner.add("method", f"must be one of {', '.join(METHODS)}, not {quote_text(method)}")
    headers = inner.mapping("headers")
    _require_texts(inner, "headers", headers)
    response = inner.values.get("response")
    if response is not None and not isinstance(response, Mapping):
        inner.add("response", f"must be a mapping such as {{answer: data.text}}, not {describe_value(response)}")
    stored = {
        "url": url,
        "method": method.upper(),
        "headers": headers,
        "request": inner.values.get("request"),
        "response": response,
    }
    before = len(inner.findings.errors)
    options = {
        **stored,
        "url": environment.substitute(inner.key_path("url"), url),
        "headers": environment.substitute(inner.key_path("headers"), headers),
        "request": environment.substitute(inner.key_path("request"), stored["request"], in_template=True),
    }
    if len(inner.findings.errors) == before and not is_web_address(options["url"]):
        inner.add("url", "must begin with http:// or https:// and name a host")
    for name, text in options["headers"].items():
        if isinstance(text, str) and ("\n" in text or "\r" in text):
            inner.findings.add(f"{inner.key_path('headers')}.{name}", "a header cannot hold a line break")
    return SystemSource("http", options), {"http": stored}


def is_web_address(text: str) -> bool:
    """Whether a string is an HTTP URL with a host."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _command(section: PlanSection, folder: Path, environment: Environment) -> tuple[SystemSource, Stored] | None:
    value = section.values["command"]
    key = "system.command" if not isinstance(value, Mapping) else "system.command.run"
    values = dict(value) if isinstance(value, Mapping) else {"run": value}
    inner = PlanSection(section.findings, "system.command", values)
    inner.refuse_unknown(("run", "cwd", "env"))
    if not inner.has("run") and inner.is_misspelt("run"):
        return None
    words = _words(section.findings, key, values.get("run"))
    cwd = inner.string("cwd", ".")
    env = inner.mapping("env")
    _require_texts(inner, "env", env)
    if words is None or cwd is None:
        return None
    filled = environment.substitute(inner.key_path("env"), env)
    place = os.path.abspath(folder / os.path.expanduser(cwd)) if "\0" not in cwd else cwd
    if not os.path.isdir(place):
        inner.add("cwd", f"there is no folder {quote_text(cwd)}")
    stored = {"command": {"run": words, "cwd": cwd, "env": env}}
    return SystemSource("command", {"command": words, "cwd": place, "env": filled}), stored


def _words(findings: Findings, key: str, value: object) -> list[str] | None:
    if isinstance(value, str):
        try:
            value = shlex.split(value)
        except ValueError as error:
            findings.add(key, f"cannot be split into words: {str(error)[:1].lower()}{str(error)[1:]}")
            return None
    if value is None or value == []:
        findings.add(key, "is missing; write the command, such as [python, my_app.py]")
        return None
    if not isinstance(value, list):
        findings.add(key, f"must be a text or a list of words, not {describe_value(value)}")
        return None
    for place, word in enumerate(value):
        here = f"{key}[{place}]"
        problem = None if word == "" and place else string_problem(word, findings.source.written.get(here))
        if problem is None and "\0" in word:
            problem = "cannot hold a null character"
        if problem is None and _REFERENCE.fullmatch(word):
            problem = "variables are not read among the words of a command, since no shell is started; use 'env'"
        if problem is not None:
            findings.add(here, problem)
            return None
    return value


def _require_texts(section: PlanSection, key: str, values: Mapping[str, Any]) -> None:
    """Add an error for every value that is not a string; a header or a variable may be empty."""
    for name, value in values.items():
        here = f"{section.key_path(key)}.{name}"
        if not isinstance(value, str):
            section.findings.add(here, str(string_problem(value, section.findings.source.written.get(here))))
        elif "\0" in value or "\0" in name:
            section.findings.add(here, "cannot hold a null character")


def store_section(findings: Findings, folder: Path, environment: Environment) -> tuple[str | None, str | None]:
    """Read ``store``: the resolved path or address, and the value as written."""
    written = PlanSection(findings, "", findings.source.values).string("store")
    if written is None:
        return None, None
    before = len(findings.errors)
    store = environment.substitute("store", written)
    if len(findings.errors) > before:
        return None, written
    if store in _MEMORY:
        findings.add("store", "a store in memory would be gone with the process; name a file")
        return None, written
    if "\0" in store:
        findings.add("store", "a path cannot hold a null character")
        return None, written
    if address := _SQLITE.match(store):
        store = store[address.end() :]
    elif "://" in store:
        scheme = store.partition("://")[0]
        if scheme not in _SERVERS:
            findings.add("store", f"cannot keep runs in {quote_text(scheme)}; name a file, or a postgresql:// address")
            return None, written
        return store, written
    return os.path.abspath(folder / os.path.expanduser(store)), written
