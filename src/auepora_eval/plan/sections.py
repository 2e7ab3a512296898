"""The sections of a plan: each function checks the values of one section and collects errors.

Also the metrics that the samples support for the targets of a plan.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from ..core.conventions import CONVENTION_NAMES, PRESETS, Conventions
from ..core.metric_hooks import require_repeats
from ..core.metrics_base import BatchMetric, Metric
from ..core.plan import with_distinct_names
from ..core.registry import Spec, metric, single_specs
from ..core.slices import parse_slices
from ..core.targets import TARGETS, find_target, find_targets
from ..core.types import EvaluationSample, TargetCategory
from ..engine.gold_match import MatchChoice
from ..engine.targets import check_support, judge_note, judged_specs, supported_targets
from ..errors import AueporaError, did_you_mean
from ..io.formats import TABLE, TABLE_NAMES, Role, formats
from ..io.problems import quote_text
from ..io.records import table_format
from ..judge.critic import JudgePolicy
from ..options import PositiveFloat, option_types
from ..runtime.imports import IMPORT_PATH
from ..systems.policy import CallPolicy
from .gates import Gate, GuardrailsGate, parse_gate, parse_gates, require_known_names, require_quality_gates
from .model import (
    RUN_DEFAULTS,
    SQLITE,
    CommandSource,
    DataSource,
    GoldSettings,
    HttpSource,
    JudgeSettings,
    ObjectSource,
    Plan,
    PythonSource,
    RunSettings,
    Scoring,
    StopSettings,
    TwoStageKeys,
    TwoStageSettings,
)
from .source import Findings, PlanPath, PlanSection, Text, describe_value, path_problem, resolve_path, string_problem

AUTO = "auto"

Stored = dict[str, Any]


@contextmanager
def collect_errors(findings: Findings, key: str) -> Iterator[None]:
    """Add an error raised inside to the findings, for a key."""
    try:
        yield
    except AueporaError as error:
        findings.add_error(key, error)


def data_section(findings: Findings, key: str) -> tuple[DataSource, Stored] | None:
    """Read ``dataset`` or ``outputs``: a path, or a path under the name of its format."""
    role: Role = "samples" if key == "dataset" else "outputs"
    value = findings.source.values[key]
    if not isinstance(value, (str, Mapping)):
        findings.add(
            key, f"must be a path, or {{format: path}} such as {{jsonl: data.jsonl}}, not {describe_value(value)}"
        )
        return None
    section = PlanSection(findings, key, {AUTO: value} if isinstance(value, str) else dict(value))
    known = {name for name, known_format in formats().items() if known_format.reads(role)} | {AUTO, *TABLE_NAMES}
    others = {"corpus", "columns", "nuggets" if role == "samples" else "config"}
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
    place = key if isinstance(value, str) else section.key_path(name)
    path, written = section.convert(place, PlanPath, section.values[name])
    files, more = section.read(DataSource, only=tuple(sorted(others - {"config"})))
    if files["columns"] is not None:
        with collect_errors(findings, section.key_path("columns")):
            table_format(files["columns"], TABLE if name == AUTO else name)
    source = DataSource(path, None if name == AUTO else name, **files)
    return source, {name: written, **{other: option for other, option in more.items() if option is not None}}


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
        with collect_errors(findings, section.key_path(key)):
            Conventions.of(None, **{key: choice})
            stored[key] = choice
    return {"name": name, **{key: stored[key] for key in CONVENTION_NAMES if key in stored}}


def gold_section(findings: Findings, conventions: Stored) -> tuple[MatchChoice, Stored]:
    """Read ``gold``: how gold is matched, and the conventions with that way. It overrides ``conventions.match``."""
    section = optional_section(findings, "gold", option_types(GoldSettings))
    place, match = "conventions.match", conventions.get("match", AUTO)
    if section.has("match"):
        place, match = "gold.match", section.read(GoldSettings)[0]["match"]
    others = {key: value for key, value in conventions.items() if key != "match"}
    if match == AUTO:
        return match, others
    with collect_errors(findings, place):
        Conventions.of(None if others["name"] == AUTO else others["name"], match=match)
    return match, {**others, "match": match}


def metrics_section(findings: Findings) -> tuple[list[tuple[str, Spec]], list[Metric]] | None:
    """Read ``metrics``: keys with valid specs of one metric each, and the metrics, with distinct names.

    ``None`` stands for all that the data supports. A spec that stands for several metrics becomes one each. Specs
    contain the files that they name, so that a stored plan does not depend on these.
    """
    listed = findings.top.nonempty_list("metrics", example="[recall@5, {map: {k: 10}}]")
    if listed is None:
        return None
    specs: list[tuple[str, Spec]] = []
    built: list[tuple[str, Metric]] = []
    for place, written in enumerate(listed):
        key = f"metrics[{place}]"
        bare = isinstance(written, Mapping) and len(written) == 1 and next(iter(written.values())) in (None, {})
        spec = next(iter(written)) if bare else written  # a name without options
        problem = _spec_problem(spec)
        if problem is not None:
            findings.add(key, problem)
            continue
        try:
            parts = single_specs(spec)
        except AueporaError as error:
            findings.add_error(key, error)
            specs.append((key, spec))
            continue
        specs += [(key, part) for part, _ in parts]
        built += [(key, part) for _, part in parts]
    metrics = with_distinct_names([metric for _, metric in built])
    first: dict[str, str] = {}
    for (key, _), named in zip(built, metrics, strict=True):
        if named.name in first:
            findings.add(
                key,
                f"'{named.name}' is already {first[named.name]}; leave one out, or give it another name "
                f"with 'as', as in {{'{named.name}': {{as: another}}}}",
            )
        first.setdefault(named.name, key)
    return specs, metrics


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
    names: list[str] = []
    for key, name in findings.top.listed_values("primary", example="[recall@5]"):
        problem = string_problem(name, findings.source.written.get(key))
        if problem is None and name in names:
            problem = f"'{name}' is named twice"
        if problem is not None:
            findings.add(key, problem)
        elif _is_metric(findings, key, name, built, other_metrics=other_metrics):
            names.append(name)
    return tuple(names)


def _is_metric(
    findings: Findings, key: str, name: str, built: list[Metric] | None, *, other_metrics: bool = False
) -> bool:
    """Whether a name is that of a metric of the plan; otherwise it is an error, or left out with ``other_metrics``."""
    if built is None:
        with collect_errors(findings, key):
            metric(name)
        return True
    there = [found.name for found in built]
    if name in there or findings.not_loaded:
        return True
    if not other_metrics:
        listing = f"; they are {', '.join(there)}" if there else ""
        findings.add(key, f"'{name}' is not among the metrics{did_you_mean(name, there, otherwise=listing)}")
    return False


def guardrails_section(
    findings: Findings, built: list[Metric] | None, *, other_metrics: bool = False
) -> dict[str, float]:
    """Read ``guardrails``: by the name of a metric of the plan the largest loss that is allowed."""
    value = findings.top.values.get("guardrails")
    if value is None:
        return {}
    margins, _ = findings.top.convert("guardrails", Mapping[str, PositiveFloat], value)
    is_metric = partial(_is_metric, findings, built=built, other_metrics=other_metrics)
    return {name: margin for name, margin in (margins or {}).items() if is_metric(f"guardrails.{name}", name)}


def slices_section(findings: Findings) -> tuple[str | Mapping[str, str], ...]:
    """Read ``slices``: paths of labels or metadata, or mappings from a name to a path."""
    good: list[str | Mapping[str, str]] = []
    for key, path in findings.top.listed_values("slices", example="[labels.lang]"):
        fits = isinstance(path, str) or (isinstance(path, Mapping) and all(isinstance(v, str) for v in path.values()))
        if not fits or not path:
            findings.add(key, f"a slice is a path such as labels.lang, or {{name: path}}, not {describe_value(path)}")
            continue
        with collect_errors(findings, key):
            parse_slices([*good, path])
            good.append(path)
    return tuple(good)


def optional_section(findings: Findings, key: str, known: Collection[str]) -> PlanSection:
    """An optional section; empty if it is missing."""
    value = findings.source.values.get(key)
    section = None if value is None else findings.section(key, value, known=known)
    return section or PlanSection(findings, key, {})


def run_section(findings: Findings, built: Sequence[Metric]) -> tuple[CallPolicy, int, int, Stored]:
    """Read ``run``: the policy for calls, the repeats, and the seed; metrics may need more repeats."""
    section = optional_section(findings, "run", option_types(RunSettings))
    values, stored = section.read(RunSettings, defaults=RUN_DEFAULTS)
    for chosen in built:
        if isinstance(chosen, BatchMetric) and isinstance(values["repeats"], int):
            with collect_errors(findings, section.key_path("repeats")):
                require_repeats(chosen, values["repeats"])
    is_kept_going, prices = stored.pop("keep_going"), _given_prices(stored.pop("prices"))
    stored |= ({"keep_going": True} if is_kept_going else {}) | ({"prices": prices} if prices else {})
    policy = CallPolicy(**{name: values[name] for name in option_types(CallPolicy)})
    return policy, values["repeats"], values["seed"], stored


def _given_prices(prices: Mapping[str, Mapping[str, float | None]] | None) -> Stored:
    """The prices to store: those that are given."""
    given: Stored = {}
    for model, price in (prices or {}).items():
        given[model] = {key: value for key, value in (price or {}).items() if value is not None}
    return given


def scoring_section(findings: Findings) -> tuple[Scoring, Stored]:
    """Read ``scoring``: the executor of the metrics."""
    section = optional_section(findings, "scoring", option_types(Scoring))
    values, stored = section.read(Scoring)
    if values["workers"] is not None and values["executor"] == "serial":
        section.add("workers", "goes with 'executor: processes' or 'ray'")
    if values["address"] is not None and values["executor"] != "ray":
        section.add("address", "goes with 'executor: ray'")
    return Scoring(**values), stored


# --- ``targets``, and the metrics that the samples support for them ----------------------------------------------


def targets_section(findings: Findings) -> tuple[TargetCategory, ...]:
    """Read ``targets``: names of targets, in the order of the survey."""
    found: list[TargetCategory] = []
    for key, name in findings.top.listed_values("targets", example="[generation_correctness]"):
        problem = string_problem(name, findings.source.written.get(key))
        if problem is not None:
            findings.add(key, problem)
            continue
        with collect_errors(findings, key):
            found.append(find_target(name))
    return find_targets(found)


def with_target_metrics(
    plan: Plan, samples: Sequence[EvaluationSample], conventions: Conventions, *, retrieves: bool
) -> Plan:
    """The plan with the metrics of its targets that need a judge, and with primary metrics, as the samples allow.

    The other metrics of its targets depend on the outputs. A target that the samples do not allow is left out with a
    warning; raises where that is all of them.
    """
    if not plan.targets or not samples:
        return plan
    support = supported_targets(samples, None, retrieves=retrieves, conventions=conventions, targets=plan.targets)
    supported = set(chain.from_iterable(found.judged for found in support))
    possible = judged_specs(plan.targets, plan.resolved["resources"], plan.metrics or ())
    judged = [spec for spec in possible if supported.issuperset(spec)]
    names = set(chain.from_iterable(judged))
    check_support(support, names, partial=False)  # what is judged in part is said when the outputs are known
    primary = plan.primary or tuple(chain.from_iterable(found.primary_with(names) for found in support))
    metrics: tuple[Spec, ...] = (*(plan.metrics or ()), *judged)
    return replace(
        plan,
        metrics=metrics or None,
        targets=tuple(found.target for found in support if found.metrics),
        metric_keys=(*plan.metric_keys, *("targets" for _ in judged)),
        primary=primary,
        resolved={**plan.resolved, "metrics": list(metrics) or None, "primary": list(primary) or None},
    )


def describe_metrics(plan: Plan, metrics: Sequence[Metric] | None) -> str:
    """Which metrics would be computed; ``metrics`` are those of the plan that could be built."""
    names = [metric.name for metric in metrics or ()]
    count = len(plan.metrics or ())
    unchecked = [f"{count - len(names)} not imported"] if count > len(names) else []
    listed = f"{count} metric{'s' * (count != 1)}: {', '.join(names + unchecked)}"
    if metrics is not None and not plan.targets:
        return listed
    targets = ", ".join(TARGETS[target].name for target in plan.targets)
    every = f"every metric that the data supports{' for ' * bool(targets)}{targets}"
    return every if metrics is None else f"{every}, and {listed}"


def judging_note(plan: Plan) -> str:
    """A sentence on the metrics of the targets that need a judge; empty if they have none."""
    return judge_note(plan.targets, judged_specs(plan.targets, plan.resolved["resources"]))


# --- ``gates``: strings, or mappings from a metric to its condition --------------------------------------------------


def gates_section(
    findings: Findings, built: list[Metric] | None, slices: tuple[str | Mapping[str, str], ...]
) -> tuple[Gate, ...]:
    """Read ``gates``, the conditions that a run must satisfy."""
    good: list[Gate] = []
    for key, written in findings.top.listed_values("gates", example='["recall@5 >= 0.80"]'):
        text, problem = _gate_text(written, findings.source.written.get(key))
        if text is None:
            findings.add(key, str(problem))
            continue
        with collect_errors(findings, key):
            gate = parse_gate(text)
            names = [metric.name for metric in built or ()]
            if gate.metric is not None and built is None:  # all that the data supports, which is not known yet
                names = [metric(gate.metric).name]
            elif gate.metric is not None and findings.not_loaded:  # it may be one that was not imported
                names.append(gate.metric)
            good += require_known_names([gate], names, slices=[group.name for group in parse_slices(slices)])
            if isinstance(gate, GuardrailsGate) and not findings.top.has("guardrails"):
                findings.add(key, "there are no guardrails; write 'guardrails: {METRIC: MARGIN}'")
    with collect_errors(findings, "gates"):
        parse_gates(good)
        require_quality_gates(
            good, {metric.name: str(metric.signature) for metric in built or () if isinstance(metric, BatchMetric)}
        )
    return tuple(good)


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


_NO_PRICES = "the cost of the judge is unknown; write 'prices: {MODEL: {prompt: 1, completion: 2}}'"


def judge_section(findings: Findings) -> tuple[JudgeSettings, Stored]:
    """Read ``judge``: the settings for judge calls, and the part that is stored."""
    keys = option_types(JudgePolicy)
    section = optional_section(findings, "judge", (*keys, "stop", *option_types(TwoStageKeys)))
    values, stored = section.read(JudgePolicy, only=[key for key in keys if key != "cache"])
    cache = _cache(section)
    # Not stored with the run: it applies to this call only.
    only, prices = bool(values.pop("cache_only")), stored.pop("prices")
    del stored["cache_only"]
    if not values["controls"]:
        del stored["controls"]
    if only and cache is False:
        section.add("cache_only", "there is no cache to answer from: 'cache' is false")
    if values["max_cost"] is not None and not section.values.get("prices"):
        section.add("max_cost", _NO_PRICES)
    two_stage, stored_two_stage = _two_stage(section)
    path = resolve_path(cache, findings.folder) if isinstance(cache, str) else None
    stop, stored_stop = _stop(section)
    settings = JudgeSettings(
        JudgePolicy(**values, cache=path),
        cache=cache is not False,
        cache_only=only and cache is not False,
        two_stage=two_stage,
        stop=stop,
    )
    if stop is not None and two_stage is not None:
        section.add(
            "stop", "two-stage judging has a draw of a fixed size, and cannot stop early; leave one of them out"
        )
    return settings, {
        "cache": cache,
        **stored,
        "prices": _given_prices(prices) or None,
        **stored_stop,
        **stored_two_stage,
    }


def _two_stage(section: PlanSection) -> tuple[TwoStageSettings | None, Stored]:
    """The settings of two-stage judging, if the section has any, and the part that is stored."""
    if not any(section.has(key) for key in option_types(TwoStageKeys)):
        return None, {}
    before = len(section.findings.errors)
    values, stored = section.read(TwoStageKeys)
    for key, meaning in (
        ("cheap", "two-stage judging needs what scores all samples: {use: NAME} or {metric: NAME}"),
        ("expensive", "two-stage judging needs the judge of the draw: {use: NAME}"),
    ):
        if not section.has(key):
            section.add(key, f"is missing; {meaning}")
    if section.has("budget") == section.has("budget_cost") and not section.is_misspelt("budget"):
        section.add("budget", "two-stage judging needs 'budget' (samples) or 'budget_cost' (money), and not both")
    if values["budget_cost"] is not None and not section.values.get("prices"):
        section.add("budget_cost", _NO_PRICES)
    if len(section.findings.errors) > before:
        return None, {}
    cheap, expensive = values["cheap"], values["expensive"]
    for key, value, known in (("cheap", cheap, ("use", "metric")), ("expensive", expensive, ("use",))):
        inner = section.findings.section(section.key_path(key), value, known=known)
        if inner is not None and (name := inner.only_key(known, " and ".join(known))) == "use":
            inner.convert(inner.key_path("use"), Text, value[name])
    if len(section.findings.errors) > before:
        return None, {}
    if cheap == expensive:
        section.add("cheap", f"is the expensive judge, too: '{expensive['use']}'; name a cheaper one")
    by_judge = "use" in cheap
    settings = TwoStageSettings(
        cheap["use" if by_judge else "metric"],
        by_judge,
        expensive["use"],
        budget=values["budget"],
        budget_cost=values["budget_cost"],
        seed=values["seed"],
    )
    return settings, {key: value for key, value in stored.items() if value is not None}


def _stop(section: PlanSection) -> tuple[StopSettings | None, Stored]:
    """When judging stops early, and what is stored of it; ``None`` if the plan does not say."""
    value = section.values.get("stop")
    inner = None if value is None else section.findings.section("judge.stop", value, known=option_types(StopSettings))
    if inner is None:
        return None, {}
    if isinstance(inner.values.get("metric"), str):
        inner.values = {**inner.values, "metric": [inner.values["metric"]]}
    before = len(section.findings.errors)
    values, stored = inner.read(StopSettings)
    if len(section.findings.errors) > before:
        return None, {}
    if (values["against"] is None) == (values["threshold"] is None) and not inner.is_misspelt("against", "threshold"):
        inner.add("against", "name the run to compare with, or give 'threshold: 0.8'; one of them, not both")
    allowed = ("better", "worse", "equal") if values["threshold"] is None else ("pass", "fail")
    if wrong := [value for value in values["stop_on"] if value not in allowed]:
        inner.add("stop_on", f"'{wrong[0]}' is no verdict of this test; they are {', '.join(allowed)}")
    for key in ("delta", "safe") if values["threshold"] is not None else ():
        if inner.has(key):
            inner.add(key, "goes with 'against'; a test against a threshold has none")
    if "equal" in values["stop_on"] and values["delta"] is None:
        inner.add("delta", "is missing; 'stop_on: [equal]' needs the largest difference that counts as equal")
    lists = {key: list(values[key]) for key in ("metric", "stop_on")}
    return StopSettings(**values), {"stop": stored | lists}


def _cache(section: PlanSection) -> str | bool | None:
    """The path as written, ``False`` for no cache, ``None`` for the default."""
    value = section.values.get("cache")
    if value is None or value is True:
        return None
    if value is not False and (problem := path_problem(value)):
        section.add("cache", f"{problem}; write a path, or false to keep no judgements")
        return None
    return False if value is False else str(value)


# --- ``system`` and ``store``, which may contain environment variables -----------------------------------------------

KindReader = Callable[[PlanSection], tuple[Stored, Stored]]
"""Reads the section of a system or resource of one kind; returns its arguments, and what is stored of them."""
_REFERENCE = re.compile(r"[^\s${}]*\$\{\w+\}\S*")  # one word; with spaces it may be a shell script


def system_section(findings: Findings) -> tuple[ObjectSource, Stored] | None:
    """Read ``system``: how the system is built, and what is stored of it."""
    value = findings.source.values["system"]
    if isinstance(value, str):
        findings.add("system", f"must say what kind it is: {_suggestion(value)}")
        return None
    kinds = {"python": read_python, "http": _http, "command": _command}
    section = findings.section("system", value, known=(*kinds, "args", "config"))
    found = None if section is None else read_kind(section, kinds, "python, http and command")
    return None if found is None else (ObjectSource(*found[:2]), found[2])


def read_kind(section: PlanSection, kinds: Mapping[str, KindReader], listing: str) -> tuple[str, Stored, Stored] | None:
    """The kind of a system or resource, its arguments, and what is stored of them; ``None`` if there is an error."""
    before = len(section.findings.errors)
    kind = section.only_key(kinds, listing)
    if kind is None:
        return None
    if section.has("args") and kind != "python":
        section.add("args", "goes with 'python' alone")
    options, stored = kinds[kind](section)
    return None if len(section.findings.errors) > before else (kind, options, stored)


def config_section(findings: Findings, key: str) -> Stored:
    """Read ``config`` within ``system`` or ``outputs``: the user's description of the system."""
    value = findings.source.values.get(key)
    section = PlanSection(findings, key, value if isinstance(value, Mapping) else {})
    return section.mapping("config")


def _suggestion(text: str) -> str:
    if "://" in text:
        return f"{{http: {{url: {text}}}}}"
    return f"{{python: {text}}}" if IMPORT_PATH.fullmatch(text) else f"{{command: {text}}}"


def read_python(section: PlanSection) -> tuple[Stored, Stored]:
    """An object of the user's code: its import path and arguments, and what is stored of them."""
    values, stored = section.read(PythonSource)
    return {"path": values["python"], "args": values["args"]}, stored


def _http(section: PlanSection) -> tuple[Stored, Stored]:
    value = section.values["http"]
    value = {"url": value} if isinstance(value, str) else value
    if isinstance(value, Mapping) and isinstance(method := value.get("method"), str):
        value = {**value, "method": method.upper()}
    inner = section.findings.section("system.http", value, known=option_types(HttpSource))
    if inner is None:
        return {}, {}
    values, stored = inner.read(HttpSource)
    for name, text in (values["headers"] or {}).items():
        if "\n" in text or "\r" in text:
            inner.add(f"headers.{name}", "a header cannot hold a line break")
    return values, {"http": _without_default(stored)}


def _command(section: PlanSection) -> tuple[Stored, Stored]:
    value = section.values["command"]
    key = "system.command.run" if isinstance(value, Mapping) else "system.command"
    inner = PlanSection(section.findings, "system.command", value if isinstance(value, Mapping) else {"run": value})
    inner.refuse_unknown(("run", *option_types(CommandSource)))
    words = None if inner.is_misspelt("run") else _words(section.findings, key, inner.values.get("run"))
    values, stored = inner.read(CommandSource)
    cwd = None if values["cwd"] is None else os.path.abspath(values["cwd"])
    options = {"command": words, "cwd": cwd, "env": values["env"], "documents": values["documents"]}
    return options, {"command": {"run": words, **_without_default(stored)}}


def _without_default(stored: Stored) -> Stored:
    """What is stored without ``documents: false``, so that runs stored before there was the key can be resumed."""
    return {key: value for key, value in stored.items() if key != "documents" or value}


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
        if problem is None and _REFERENCE.fullmatch(word):
            problem = "variables are not read among the words of a command, since no shell is started; use 'env'"
        if problem is not None:
            findings.add(here, problem)
            return None
    return value


def resolve_store(store: str | None, folder: Path) -> str | None:
    """The path or address of ``store``; a path starts in the folder of the plan."""
    if store is None:
        return None
    if address := SQLITE.match(store):
        store = store[address.end() :]
    elif "://" in store:
        return store
    return os.path.abspath(resolve_path(store, folder))
