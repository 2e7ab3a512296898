"""The ``system`` and ``store`` sections of a plan, which may contain environment variables."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

from ..io.problem_messages import quote_text
from .findings import Findings, PlanSection, describe_value, string_problem
from .plan import SystemKind, SystemSource
from .secrets import Environment

__all__ = ["config_section", "is_import_path", "is_web_address", "store_section", "system_section"]

KINDS: tuple[str, ...] = get_args(SystemKind)
HTTP_KEYS = ("url", "method", "headers", "request", "response")
METHODS = ("POST", "GET", "PUT", "PATCH")
_IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_REFERENCE = re.compile(r"[^\s${}]*\$\{\w+\}\S*")  # one word; with spaces it may be a shell script
_SQLITE = re.compile(r"sqlite(\+\w+)?:///")
_SERVERS = ("postgresql", "postgres", "postgresql+psycopg")
_MEMORY = (":memory:", "sqlite://", "sqlite:///", "sqlite:///:memory:")

Stored = dict[str, Any]


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
    return _IMPORT_PATH.fullmatch(text) is not None


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
