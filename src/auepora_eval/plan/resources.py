"""The ``resources`` section of a plan: judges and models that metrics refer to by ``{use: NAME}``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from ..core.metrics_base import Metric
from ..core.registry import Spec, metric
from ..errors import AueporaError, BadValueError, DataFileError, JudgeError, did_you_mean
from ..judge.critic import LLMCritic, StructuredCritic
from ..options import option_types
from .model import (
    DEFAULT_KEY,
    Arguments,
    DecisionSource,
    JudgeSettings,
    ObjectSource,
    OpenAISource,
    PanelSource,
    Plan,
    PlanKeys,
    RecordedSource,
    TwoStageSettings,
)
from .sections import KindReader, judge_section, read_kind, read_python, resolve_store
from .source import (
    Findings,
    PlanPath,
    PlanSection,
    PlanSource,
    describe_value,
    find_literal_secrets,
    path_problem,
    read_source,
    resolve_path,
)

_NAME = re.compile(r"[A-Za-z_][\w-]*")

Stored = dict[str, Any]


def resources_section(findings: Findings) -> tuple[dict[str, ObjectSource], Stored]:
    """Read ``resources``: the source of each resource by name, and what is stored."""
    made: dict[str, ObjectSource] = {}
    stored: Stored = {}
    for name, value in findings.top.mapping("resources").items():
        key = f"resources.{name}"
        if not _NAME.fullmatch(name):
            findings.add(key, "the name of a resource is made of letters, digits, '_' and '-'")
            continue
        read = _resource(findings, key, value)
        if read is not None:
            made[name], stored[name] = read
    for name, source in made.items():
        if source.kind == "panel":
            _check_members(findings, name, source, findings.top.mapping("resources"))
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


def with_cheap_metrics(
    specs: Sequence[Spec | Metric], settings: TwoStageSettings
) -> tuple[list[Spec | Metric], TwoStageSettings]:
    """The specs, with the cheap metric of each one of the expensive judge, and the settings with the names of both.

    A cheap metric that is among the specs already is not added again. The cheap metric of a cheap judge is the same
    metric with that judge, called ``METRIC[JUDGE]``.
    """
    names = {metric(spec).name for spec in specs}
    added: list[Spec | Metric] = list(specs)
    pairs: dict[str, str] = {}
    for spec in specs:
        if settings.expensive not in used_resources(spec):
            continue
        assert isinstance(spec, Mapping)
        ((key, options),) = spec.items()
        name, cheap = metric(spec).name, settings.cheap
        if settings.cheap_is_judge:
            changed = _replace_use(options, settings.expensive, str(settings.cheap))
            changed.pop("name", None)
            cheap = {key: {**changed, "as": f"{name}[{settings.cheap}]"}}
        pairs[name] = metric(cheap).name
        if pairs[name] not in names:
            names.add(pairs[name])
            added.append(cheap)
    return added, replace(settings, metrics=pairs)


def _replace_use(options: Any, old: str, new: str) -> Any:
    """The options with another resource at each reference to this one."""
    if isinstance(options, Mapping):
        if options == {"use": old}:
            return {"use": new}
        return {key: _replace_use(value, old, new) for key, value in options.items()}
    if isinstance(options, (list, tuple)):
        return [_replace_use(option, old, new) for option in options]
    return options


def check_two_stage(findings: Findings, settings: TwoStageSettings, resources: Mapping[str, ObjectSource]) -> None:
    """Add an error for each judge of two-stage judging that the plan does not have, or that no metric uses."""
    for key, name in (("cheap", settings.cheap), ("expensive", settings.expensive)):
        if (key == "expensive" or settings.cheap_is_judge) and name not in resources:
            there = f"; there are {', '.join(resources)}" if resources else "; the plan has no 'resources'"
            hint = did_you_mean(str(name), resources, otherwise=there)
            findings.add(f"judge.{key}.use", f"there is no resource '{name}'{hint}")
    if settings.expensive in resources and not settings.metrics:
        findings.add(
            "judge.expensive.use",
            f"no metric of the plan uses '{settings.expensive}'; write its judge in the metric, such as "
            f"{{llm_faithfulness: {{critic: {{use: {settings.expensive}}}}}}}",
        )
    for name, cheap in settings.metrics.items():
        if name == cheap:
            findings.add("judge.cheap.metric", f"'{cheap}' is a metric of the expensive judge; name a cheaper one")


def with_members(names: Iterable[str], members: Callable[[str], Iterable[str]]) -> list[str]:
    """These resources, each preceded by the members of a panel."""
    listed = chain.from_iterable((*members(name), name) for name in names)
    return list(dict.fromkeys(listed))


def members_of(resources: Mapping[str, ObjectSource]) -> Callable[[str], Iterable[str]]:
    """A function that returns the members of a panel, and none for any other resource."""

    def members(name: str) -> Iterable[str]:
        source = resources.get(name)
        return source.options["judges"] if source is not None and source.kind == "panel" else ()

    return members


def _check_members(findings: Findings, name: str, source: ObjectSource, all_resources: Mapping[str, Any]) -> None:
    """Add an error for each member of a panel that is not a judge of this plan."""
    for place, member in enumerate(source.options["judges"]):
        key = f"resources.{name}.panel.judges[{place}]"
        if member not in all_resources:
            others = [resource for resource in all_resources if resource != name]
            there = f"; there are {', '.join(others)}" if others else "; the plan has no other resource"
            findings.add(key, f"there is no resource '{member}'{did_you_mean(member, others, otherwise=there)}")
            continue
        value = all_resources[member]
        kinds = set(value) if isinstance(value, Mapping) else set()
        if "panel" in kinds:
            findings.add(key, f"'{member}' is a panel, which cannot be a member of a panel; name its judges instead")
        elif found := sorted(kinds & {*EMBEDDERS, "nli"}):
            findings.add(
                key, f"'{member}' is no judge ({found[0]}); members are openai, decisions, python or recorded resources"
            )


def _resource(findings: Findings, key: str, value: object) -> tuple[ObjectSource, Stored] | None:
    if not isinstance(value, Mapping):
        findings.add(key, f"must say what kind it is, such as {{openai: {{model: NAME}}}}, not {describe_value(value)}")
        return None
    section = findings.section(key, value, known=(*RESOURCE_KINDS, "args"))
    found = None if section is None else read_kind(section, RESOURCE_KINDS, ", ".join(RESOURCE_KINDS))
    return None if found is None else (ObjectSource(*found[:2]), found[2])


# --- kinds of resources ----------------------------------------------------------------------------------------------


def _server(kind: str, source: Any) -> KindReader:
    """A reader for judges behind a server."""

    def read(section: PlanSection) -> tuple[dict[str, Any], Stored]:
        findings, value = section.findings, section.values[kind]
        value = {"model": value} if isinstance(value, str) else value
        inner = findings.section(section.key_path(kind), value, known=(*option_types(source), "api_key"))
        if inner is None:
            return {}, {}
        if inner.has("api_key"):
            inner.add("api_key", f"a plan names the variable that holds a key: write api_key_env: {DEFAULT_KEY}")
        values, stored = inner.read(source)
        findings.environment.mark_secret(values["api_key_env"])
        return values, {kind: stored}

    return read


def _read_recorded(section: PlanSection) -> tuple[dict[str, Any], Stored]:
    """A critic that replays saved judgements."""
    value = section.values["recorded"]
    if isinstance(value, Mapping):
        inner = section.findings.section(section.key_path("recorded"), value, known=option_types(RecordedSource))
        values, stored = ({}, {}) if inner is None else inner.read(RecordedSource)
        return values, {"recorded": stored}
    path, written = section.convert(section.key_path("recorded"), PlanPath, value)
    return {"path": path, "critic": None}, {"recorded": written}


def _read_panel(section: PlanSection) -> tuple[dict[str, Any], Stored]:
    """Several judges of the plan, whose replies are combined by a vote."""
    findings, value = section.findings, section.values["panel"]
    value = {"judges": value} if isinstance(value, list) else value
    inner = findings.section(section.key_path("panel"), value, known=option_types(PanelSource))
    if inner is None:
        return {}, {}
    before = len(findings.errors)
    values, stored = inner.read(PanelSource)
    if len(findings.errors) == before:
        judges = values["judges"]
        if len(judges) < 2 or len(set(judges)) < len(judges):
            inner.add("judges", f"must name two different judges or more, not {', '.join(judges) or 'none'}")
        if values["vote"] == "stacked" and values["weights"] is None:
            inner.add(
                "weights", "is missing; 'vote: stacked' needs the file of 'auepora judge calibrate --learn-weights'"
            )
        elif values["vote"] != "stacked" and values["weights"] is not None:
            inner.add("weights", f"has no effect on 'vote: {values['vote']}'; leave it out, or choose 'vote: stacked'")
    return values, {"panel": stored}


def _model(kind: str) -> KindReader:
    """A reader for embedders and NLI models; their options are checked when they are built."""

    def read(section: PlanSection) -> tuple[dict[str, Any], Stored]:
        value = section.values[kind]
        stored = {"model": value} if isinstance(value, str) else value
        if not isinstance(stored, Mapping):
            section.add(kind, f"must be options such as {{model: NAME}}, not {describe_value(value)}")
            return {}, {}
        options, _ = section.convert(section.key_path(kind), Arguments, stored)
        folder = section.findings.folder
        if options is None:
            return {}, {}
        if kind == "openai_embeddings":
            variable = options.get("api_key_env", DEFAULT_KEY)
            section.findings.environment.mark_secret(variable if isinstance(variable, str) else "")
        # A model may be a name or a path; paths start in the folder of the plan.
        for key in ("cache",) if kind == "openai_embeddings" else ("cache", "model"):
            path = options.get(key)
            if path_problem(path) is None and (key == "cache" or resolve_path(path, folder).exists()):
                options[key] = str(resolve_path(path, folder))
        return options, {kind: dict(stored)}

    return read


EMBEDDERS = ("sentence_transformers", "openai_embeddings")
DETECTORS = ("nli", "minicheck", "hhem", "token_classifier")
RESOURCE_KINDS: dict[str, KindReader] = {
    "openai": _server("openai", OpenAISource),
    "python": read_python,
    "recorded": _read_recorded,
    "decisions": _server("decisions", DecisionSource),
    "panel": _read_panel,
    **{kind: _model(kind) for kind in (*EMBEDDERS, *DETECTORS)},
}
"""The readers of the kinds of resources."""


# --- building of resources -------------------------------------------------------------------------------------------


def build_resources(
    findings: Findings,
    sources: Mapping[str, ObjectSource],
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
    for name in with_members(names, members_of(sources)):
        source = sources.get(name)
        if source is None:
            continue  # reported when the metrics are resolved
        key = f"resources.{name}.{source.kind}"
        try:
            if source.kind == "panel":
                resource = _build_panel(findings, key, source, built)
            else:
                resource = build_resource(source, folder, timeout=timeout)
            built[name] = resource
        except AueporaError as error:
            findings.add_error(key, error)
            continue
        try:
            if need_key and hasattr(resource, "require_key"):
                resource.require_key()
        except JudgeError as error:
            findings.add(f"{key}.api_key_env", error.message, error)
    return built


def _build_panel(findings: Findings, key: str, source: ObjectSource, built: Mapping[str, Any]) -> Any:
    """A panel of judges that are built; ``None`` after an error."""
    from ..judge.panel import Panel

    judges: list[Any] = [built.get(name) for name in source.options["judges"]]
    if any(judge is None for judge in judges):
        return None  # the error is that of the member
    before = len(findings.errors)
    for place, (name, judge) in enumerate(zip(source.options["judges"], judges, strict=True)):
        if not isinstance(judge, (LLMCritic, StructuredCritic)):
            findings.add(
                f"{key}.judges[{place}]",
                f"'{name}' gave an object of type {type(judge).__name__}, which is no judge: derive from LLMCritic or "
                "StructuredCritic",
            )
    if len(findings.errors) > before:
        return None
    try:
        return Panel(judges, source.options["vote"], source.options["weights"])
    except DataFileError as error:
        findings.add_error(f"{key}.weights", error)
    except BadValueError as error:
        findings.add_error(f"{key}.weights" if "weights" in str(error) else f"{key}.judges", error)
    return None


def build_resource(source: ObjectSource, folder: Path, *, timeout: float) -> Any:
    """Build one resource; modules are also imported from ``folder``."""
    options = dict(source.options)
    if source.kind == "openai":
        from ..judge.openai import OpenAICritic

        return OpenAICritic(options.pop("model"), timeout=timeout, **options)
    if source.kind == "decisions":
        from ..judge.decisions import DecisionCritic

        return DecisionCritic(options.pop("model"), timeout=timeout, **options)
    if source.kind == "python":
        return _build_python(options["path"], options["args"], folder)
    if source.kind == "token_classifier":
        from ..models.token_classifier import TokenClassifier

        return TokenClassifier.parse(options)
    if source.kind in DETECTORS:
        from ..judge.nli import NLI_KINDS

        return NLI_KINDS[source.kind].parse(options)
    if source.kind == "recorded":
        from ..judge.cache import RecordedCritic

        return RecordedCritic(options["path"], critic=options["critic"])
    from ..models.embedders import build_embedder

    return build_embedder(source.kind, options)


def build_system(plan: Plan) -> Any:
    """Import or build the system of a plan, and check that it can be called."""
    from ..systems.interfaces import as_system, load_python

    source = plan.system
    assert source is not None
    options = dict(source.options)
    if source.kind == "python":
        made: Any = load_python(options["path"], options["args"], folder=plan.folder)
    elif source.kind == "http":
        from ..systems.http import HttpSystem

        made = HttpSystem(options.pop("url"), timeout=plan.policy.timeout, **options)
    else:
        from ..systems.command import CommandSystem

        made = CommandSystem(options.pop("command"), timeout=plan.policy.timeout, **options)
    as_system(made)
    return made


def _build_python(path: str, args: Mapping[str, Any], folder: Path) -> Any:
    from ..systems.interfaces import load_or_build, needs_arguments

    def is_resource(found: Any) -> bool:
        return _is_usable(found) and (not callable(found) or (not args and needs_arguments(found)))

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


# --- judges of a plan file or of a stored plan, without the rest of the plan -----------------------------------------


@dataclass(frozen=True, slots=True)
class PlannedJudges:
    """The judges of a plan and their settings."""

    resources: Mapping[str, ObjectSource]
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
    names = with_members(names, lambda name: _stored_members(stored.get(name)))
    values = {
        "resources": {name: resource for name, resource in stored.items() if name in names},
        "judge": plan.get("judge"),
    }
    return _judges(PlanSource(Path(label), values).with_changes(changes or {}), folder, tuple(stored))


def _stored_members(resource: object) -> Iterable[str]:
    panel = resource.get("panel") if isinstance(resource, Mapping) else None
    judges = panel.get("judges") if isinstance(panel, Mapping) else None
    return judges if isinstance(judges, list) else ()


def _judges(source: PlanSource, folder: Path, others: tuple[str, ...] = ()) -> PlannedJudges:
    findings = Findings(source, folder)
    find_literal_secrets(findings)
    resources, _ = resources_section(findings)
    settings, _ = judge_section(findings)
    keys, _ = findings.top.read(PlanKeys, only=("store",))
    findings.raise_first()
    store = resolve_store(keys["store"], folder)
    secrets = findings.environment.secrets
    return PlannedJudges(resources, settings, folder, secrets, others=others, source=source, store=store)
