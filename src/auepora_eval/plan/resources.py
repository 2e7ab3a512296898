"""The ``resources`` section of a plan: judges and models that metrics refer to by ``{use: NAME}``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import AueporaError, BadValueError, JudgeError
from ..io.problems import quote_text
from ..judge.critic import LLMCritic, StructuredCritic
from ..runtime.secrets import looks_like_secret
from .model import JudgeSettings, ResourceSource
from .secrets import Environment, find_literal_secrets
from .sections import is_import_path, is_web_address, judge_section, path_problem, resolve_path, store_section
from .source import Findings, PlanSection, PlanSource, describe_value, read_source

DEFAULT_KEY = "OPENAI_API_KEY"
DEFAULT_MAX_TOKENS = 2048
SCHEMA_MODES = ("auto", "json_schema", "json_object", "none")
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Stored = dict[str, Any]
ResourceReader = Callable[[PlanSection, Path, Environment], tuple[dict[str, Any], Stored] | None]
"""Reads the section of one resource; returns its arguments, and what is stored of them."""


def resources_section(
    findings: Findings, folder: Path, environment: Environment
) -> tuple[dict[str, ResourceSource], Stored]:
    """Read ``resources``: the source of each resource by name, and what is stored."""
    section = PlanSection(findings, "", findings.source.values)
    made: dict[str, ResourceSource] = {}
    stored: Stored = {}
    for name, value in section.mapping("resources").items():
        key = f"resources.{name}"
        if not _NAME.fullmatch(name):
            findings.add(key, "the name of a resource is made of letters, digits, '_' and '-'")
            continue
        one = _resource(findings, key, value, folder, environment)
        if one is not None:
            made[name], stored[name] = one
    return made, stored


def used_resources(specs: Any) -> Iterator[str]:
    """The names after ``use`` in specs of metrics, including nested metrics."""
    if isinstance(specs, Mapping):
        if set(specs) == {"use"} and isinstance(specs["use"], str):
            yield specs["use"]
        for inner in specs.values():
            yield from used_resources(inner)
    elif isinstance(specs, (list, tuple)):
        for inner in specs:
            yield from used_resources(inner)


def _resource(
    findings: Findings, key: str, value: object, folder: Path, environment: Environment
) -> tuple[ResourceSource, Stored] | None:
    kinds = tuple(RESOURCE_KINDS)
    if not isinstance(value, Mapping):
        findings.add(key, f"must say what kind it is, such as {{openai: {{model: NAME}}}}, not {describe_value(value)}")
        return None
    section = PlanSection(findings, key, dict(value))
    section.refuse_unknown((*kinds, "args"))
    named = [kind for kind in kinds if section.has(kind)]
    if not named and section.is_misspelt(*kinds):
        return None
    if len(named) != 1:
        found = "there is none" if not named else f"there are {' and '.join(map(repr, named))}"
        findings.add(key, f"needs exactly one of {', '.join(kinds)}; {found}")
        return None
    (kind,) = named
    if section.has("args") and kind != "python":
        section.add("args", "goes with 'python' alone")
    before = len(findings.errors)
    read = RESOURCE_KINDS[kind](section, folder, environment)
    if read is None or len(findings.errors) > before:
        return None
    return ResourceSource(kind, read[0]), read[1]


# --- kinds of resources ----------------------------------------------------------------------------------------------


def _read_openai(section: PlanSection, folder: Path, environment: Environment) -> tuple[dict[str, Any], Stored] | None:
    """A judge behind an OpenAI-compatible endpoint."""
    value = section.values["openai"]
    inner = section.findings.section(
        section.key_path("openai"),
        {"model": value} if isinstance(value, str) else value,
        known=(*OPENAI_KEYS, "api_key"),
    )
    if inner is None:
        return None
    model = inner.string("model")
    if not inner.has("model") and not inner.is_misspelt("model"):
        inner.add("model", "is missing; it names the model that judges")
    if inner.has("api_key"):
        inner.add("api_key", f"a plan names the variable that holds a key: write api_key_env: {DEFAULT_KEY}")
    key_variable = inner.string("api_key_env", DEFAULT_KEY) or DEFAULT_KEY
    if not _VARIABLE.fullmatch(key_variable) or looks_like_secret(key_variable):
        # The value is not shown: it may be the key itself.
        inner.add("api_key_env", f"must be the name of a variable, such as {DEFAULT_KEY}, and never the key itself")
    schema = inner.choice("schema", "auto", SCHEMA_MODES)
    headers = inner.mapping("headers")
    for name, text in headers.items():
        if not isinstance(text, str):
            inner.findings.add(f"{inner.key_path('headers')}.{name}", f"must be a text, not {describe_value(text)}")
    url = inner.string("base_url")
    stored: Stored = {
        "model": model,
        "base_url": url,
        "api_key_env": key_variable,
        "temperature": inner.number("temperature", 0.0),
        "seed": inner.integer("seed", 0, least=0),
        "max_tokens": inner.integer("max_tokens", DEFAULT_MAX_TOKENS, least=1),
        "schema": schema,
        "logprobs": inner.flag("logprobs"),
        "headers": headers,
        "extra": inner.mapping("extra"),
    }
    for key in ("temperature", "seed", "max_tokens"):
        if key in inner.values and inner.values[key] is None:
            stored[key] = None  # an explicit null: the parameter is not sent
    before = len(inner.findings.errors)
    filled = {key: environment.substitute(inner.key_path(key), stored[key]) for key in ("base_url", "headers", "extra")}
    if url is not None and len(inner.findings.errors) == before and not is_web_address(str(filled["base_url"])):
        inner.add("base_url", "must begin with http:// or https:// and name a host")
    environment.mark_secret(key_variable)
    return {**stored, **filled}, {"openai": stored}


OPENAI_KEYS = (
    "model", "base_url", "api_key_env", "temperature", "seed", "max_tokens", "schema", "logprobs", "headers",
    "extra",
)  # fmt: skip


def _read_python(section: PlanSection, folder: Path, environment: Environment) -> tuple[dict[str, Any], Stored] | None:
    """A resource built by a class or function of the user."""
    path = section.string("python")
    if path is None:
        return None
    if not is_import_path(path):
        section.add("python", f"must be 'module:name', such as 'my_app.judge:build', not {quote_text(path)}")
    args = section.mapping("args")
    return {"path": path, "args": environment.substitute(section.key_path("args"), args)}, {
        "python": path,
        "args": args,
    }


def _read_recorded(
    section: PlanSection, folder: Path, environment: Environment
) -> tuple[dict[str, Any], Stored] | None:
    """A critic that replays saved judgements."""
    path = section.values["recorded"]
    problem = path_problem(path)
    if problem is not None:
        section.add("recorded", problem)
        return None
    return {"path": resolve_path(str(path), folder)}, {"recorded": str(path)}


def _model(kind: str) -> ResourceReader:
    """A reader for embedders and NLI models; their options are checked when they are built."""

    def read(section: PlanSection, folder: Path, environment: Environment) -> tuple[dict[str, Any], Stored] | None:
        value = section.values[kind]
        stored = {"model": value} if isinstance(value, str) else value
        if not isinstance(stored, Mapping):
            section.add(kind, f"must be options such as {{model: NAME}}, not {describe_value(value)}")
            return None
        options = environment.substitute(section.key_path(kind), dict(stored))
        if kind == "openai_embeddings":
            variable = options.get("api_key_env", DEFAULT_KEY)
            environment.mark_secret(variable if isinstance(variable, str) else "")
        # A model may be a name or a path; paths start in the folder of the plan.
        for key in ("cache",) if kind == "openai_embeddings" else ("cache", "model"):
            path = options.get(key)
            if path_problem(path) is None and (key == "cache" or resolve_path(str(path), folder).exists()):
                options[key] = str(resolve_path(str(path), folder))
        return options, {kind: dict(stored)}

    return read


EMBEDDERS = ("sentence_transformers", "openai_embeddings")
RESOURCE_KINDS: dict[str, ResourceReader] = {
    "openai": _read_openai,
    "python": _read_python,
    "recorded": _read_recorded,
    **{kind: _model(kind) for kind in (*EMBEDDERS, "nli")},
}
"""The readers of the kinds of resources."""


# --- building of resources -------------------------------------------------------------------------------------------

Build = Callable[[Mapping[str, Any], Path, float], Any]


def build_resources(
    findings: Findings,
    sources: Mapping[str, ResourceSource],
    names: Collection[str],
    folder: Path,
    *,
    timeout: float,
    need_key: bool = True,
) -> dict[str, Any]:
    """Build and check the named resources, without calling a server; the others are ``None``.

    ``timeout`` is that of a request, in seconds. With ``need_key`` false, a missing API key is no error.
    """
    built: dict[str, Any] = dict.fromkeys(sources)
    for name in dict.fromkeys(names):
        source = sources.get(name)
        if source is None:
            continue  # reported when the metrics are resolved
        key = f"resources.{name}.{source.kind}"
        try:
            built[name] = resource = build_resource(source, folder, timeout=timeout)
        except AueporaError as error:
            findings.add_error(key, error)
            continue
        try:
            if need_key and hasattr(resource, "require_key"):
                resource.require_key()
        except JudgeError as error:
            findings.add(f"{key}.api_key_env", error.message, error)
    return built


def build_resource(source: ResourceSource, folder: Path, *, timeout: float) -> Any:
    """Build one resource; modules are also imported from ``folder``."""
    return _BUILDERS[source.kind](source.options, folder, timeout)


def _build_openai(options: Mapping[str, Any], folder: Path, timeout: float) -> Any:
    from ..judge.openai import OpenAICritic

    arguments = dict(options)
    return OpenAICritic(arguments.pop("model"), timeout=timeout, **arguments)


def _build_python(options: Mapping[str, Any], folder: Path, timeout: float) -> Any:
    from ..systems.python import load_or_build

    path, args = options["path"], options["args"]

    def is_resource(found: Any) -> bool:
        return _is_usable(found) and (not callable(found) or (not args and _needs_arguments(found)))

    made, _ = load_or_build(path, args, folder=folder, as_is=is_resource)
    if inspect.iscoroutine(made):
        made.close()
        raise BadValueError(f"{path} is an async function; build the resource in a plain function")
    if not _is_usable(made):
        what = "None" if made is None else f"an object of type {type(made).__name__}"
        raise BadValueError(
            f"{path} gave {what}, which is neither a judge nor an embedder: derive from LLMCritic (from a prompt to a "
            "number) or StructuredCritic, or give a function from texts to vectors"
        )
    return made


def _is_usable(found: Any) -> bool:
    """Whether an object can be a resource: a judge, a function or an embedder."""
    return (
        isinstance(found, (LLMCritic, StructuredCritic))
        or callable(found)
        or any(callable(getattr(found, name, None)) for name in ("encode", "embed_batch"))
    )


def _needs_arguments(found: Callable[..., Any]) -> bool:
    """Whether it needs arguments, and so is an embedding function and not a factory."""
    try:
        inspect.signature(found).bind()
    except TypeError:
        return True
    except ValueError:
        return False
    return False


def _embedder(kind: str) -> Build:
    def build(options: Mapping[str, Any], folder: Path, timeout: float) -> Any:
        from ..models.embedders import build_embedder

        return build_embedder(kind, options)

    return build


def _nli(options: Mapping[str, Any], folder: Path, timeout: float) -> Any:
    from ..judge.nli import NliModel

    return NliModel.of(options)


def _build_recorded(options: Mapping[str, Any], folder: Path, timeout: float) -> Any:
    from ..judge.cache import RecordedCritic

    return RecordedCritic(options["path"])


_BUILDERS: dict[str, Build] = {
    "openai": _build_openai,
    "python": _build_python,
    "nli": _nli,
    "recorded": _build_recorded,
    **{kind: _embedder(kind) for kind in EMBEDDERS},
}


# --- judges of a plan file or of a stored plan, without the rest of the plan -----------------------------------------


@dataclass(frozen=True, slots=True)
class PlannedJudges:
    """The judges of a plan and their settings."""

    resources: Mapping[str, ResourceSource]
    settings: JudgeSettings
    folder: Path
    """The folder in which relative paths start and modules are searched."""
    secrets: frozenset[str] = field(repr=False)
    others: tuple[str, ...]
    """Names of other resources of the plan, which were not read."""
    source: PlanSource = field(repr=False)
    store: str | None = field(default=None, repr=False)
    """The store of the plan, if it names one."""

    @property
    def names(self) -> list[str]:
        """The names of all resources of the plan."""
        return list(dict.fromkeys([*self.resources, *self.others]))

    def build(self, names: Collection[str], *, need_key: bool = True) -> dict[str, Any]:
        """Build the named resources; the others are ``None``. Raises the first error."""
        findings = Findings(self.source)
        built = build_resources(
            findings,
            self.resources,
            names,
            self.folder,
            timeout=self.settings.policy.timeout,
            need_key=need_key and not self.settings.cache_only,
        )
        findings.raise_first()
        return {**dict.fromkeys(self.others), **built}


def judges_in_file(path: str | Path, *, changes: Mapping[str, Any] | None = None) -> PlannedJudges:
    """The judges of a plan file; the rest of the plan is not checked."""
    source = read_source(Path(path))
    return _judges(source.with_changes(changes or {}), source.path.parent)


def judges_in_plan(
    plan: Mapping[str, Any],
    folder: Path,
    *,
    label: str,
    names: Collection[str],
    changes: Mapping[str, Any] | None = None,
) -> PlannedJudges:
    """The named judges of a stored plan; ``label`` names the plan in errors."""
    stored = plan.get("resources") or {}
    values = {"resources": {name: one for name, one in stored.items() if name in names}, "judge": plan.get("judge")}
    return _judges(PlanSource(Path(label), values).with_changes(changes or {}), folder, tuple(stored))


def _judges(source: PlanSource, folder: Path, others: tuple[str, ...] = ()) -> PlannedJudges:
    findings = Findings(source)
    environment = Environment(findings)
    find_literal_secrets(findings)
    resources, _ = resources_section(findings, folder, environment)
    settings, _ = judge_section(findings, folder)
    store, _ = store_section(findings, folder, environment)
    findings.raise_first()
    return PlannedJudges(resources, settings, folder, environment.secrets, others, source, store)
