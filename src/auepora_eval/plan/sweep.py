"""``sweep``: the configurations of a system to choose from, as values of keys of the plan."""

from __future__ import annotations

import itertools
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from ..errors import BadValueError, did_you_mean
from ..io.yaml_values import split_key
from ..options import NonEmpty, PositiveFloat, option_types
from ..runtime.imports import IMPORT_PATH
from ..store.records import RunRecord
from ..store.sweeps import (
    SWEEP,
    Configuration,
    Settings,
    SweepBudget,
    SweepPlan,
    make_configurations,
    short_names,
    sweep_of_run,
)
from .source import Findings, PlanSection, PlanSource, Text, describe_value

MAX_CONFIGURATIONS = 200
FIXED_SECTIONS = {
    **dict.fromkeys(("dataset",), "the questions are the same for all configurations"),
    **dict.fromkeys(("primary", "guardrails"), "what decides is the same for all configurations"),
    **dict.fromkeys(
        ("version", "name", "store", "report", "gates", "sweep"), "it is about all configurations together"
    ),
}
"""Sections whose keys a sweep cannot set, and why."""


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """How a sweep is run."""

    name: str | None = None
    """By default that of the plan."""
    store: str | None = None
    limit: int | None = None
    samples: str | None = None
    """The name or the file of a set of samples."""
    tags: Sequence[str] = ()
    resume: bool = False
    retry_failed: bool = False
    parallel: int = 1
    """The number of configurations that run at a time."""
    eliminate: bool = False
    """Whether configurations leave as soon as they are known to be worse."""


@dataclass(frozen=True, slots=True)
class SweepKeys:
    """``sweep``: which configurations there are, and how one of them is chosen."""

    grid: Annotated[Mapping[str, Any], NonEmpty()] | None = None
    """By key of the plan the values to combine."""
    list: Annotated[Sequence[Mapping[str, Any]], NonEmpty()] | None = None
    """The configurations one by one: values by key of the plan."""
    exclude: Sequence[Mapping[str, Any]] = ()
    """Combinations of values that are left out."""
    baseline: Mapping[str, Any] | None = None
    """The configuration that is shipped, by as many values as say which it is."""
    decide: Text | None = None
    """The metric that decides; by default the first primary one."""
    delta: PositiveFloat | None = None
    """The largest loss that a cheaper configuration is worth."""
    setup: Text | None = None
    """A command, or ``module:function``, that prepares a configuration; ``{name}`` is the value of a key."""
    budget: SweepBudget | None = None


def sweep_section(findings: Findings, primary: Sequence[str], metrics: Sequence[str] | None) -> SweepPlan | None:
    """Read ``sweep``; ``None`` if it is missing, or after an error. ``metrics`` are the names of those of the plan."""
    value = findings.source.values.get("sweep")
    section = None if value is None else findings.section("sweep", value, known=option_types(SweepKeys))
    if section is None:
        return None
    before = len(findings.errors)
    keys, _ = section.read(SweepKeys)
    if len(findings.errors) == before and section.only_key(("grid", "list"), "grid and list") is not None:
        chosen = _all_settings(section, keys)
        _check_keys(section, chosen)
        decide = _deciding_metric(section, keys["decide"], primary, metrics)
        if len(findings.errors) == before:
            return _sweep_plan(section, keys, chosen, decide)
    return None


def _all_settings(section: PlanSection, keys: Mapping[str, Any]) -> list[Settings]:
    """The settings of all configurations, before any is excluded."""
    if keys["list"] is not None:
        return list(keys["list"])
    for key, values in keys["grid"].items():
        if not isinstance(values, list) or not values:
            section.add(f"grid.{key}", f"must be a list of values to combine, not {describe_value(values)}")
            return []
    return [dict(zip(keys["grid"], values, strict=True)) for values in itertools.product(*keys["grid"].values())]


def _check_keys(section: PlanSection, chosen: Iterable[Settings]) -> None:
    where = "grid.{}" if section.has("grid") else "list"
    for key in dict.fromkeys(itertools.chain.from_iterable(chosen)):
        if (reason := FIXED_SECTIONS.get(split_key(key)[0])) is not None:
            section.add(where.format(key), f"'{key}' cannot be swept: {reason}")


def _deciding_metric(
    section: PlanSection, chosen: str | None, primary: Sequence[str], metrics: Sequence[str] | None
) -> str:
    """The name of the metric that decides."""
    if chosen is None and not primary:
        section.add("decide", "is missing; name the metric that decides, here or under 'primary'")
    name = chosen or next(iter(primary), "")
    if chosen is not None and metrics is not None and name not in metrics:
        section.add("decide", f"'{name}' is not among the metrics{did_you_mean(name, metrics)}")
    return name


def _sweep_plan(section: PlanSection, keys: Mapping[str, Any], chosen: list[Settings], decide: str) -> SweepPlan | None:
    names = short_names(itertools.chain.from_iterable(chosen))
    where = "grid" if section.has("grid") else "list"
    kept = list(chosen)
    for place, combination in enumerate(keys["exclude"]):
        excluded = _matching(section, f"exclude[{place}]", names, combination, chosen)
        if not excluded:
            section.add(f"exclude[{place}]", "no configuration has these values")
        kept = [settings for settings in kept if settings not in excluded]
    if not 2 <= len(kept) <= MAX_CONFIGURATIONS:
        section.add(
            where,
            f"there are {len(kept)} configurations to choose from; a sweep has 2 to {MAX_CONFIGURATIONS}",
        )
    configurations = make_configurations(kept)
    for label, count in Counter(configuration.label for configuration in configurations).items():
        if count > 1:
            section.add(where, f"there are {count} configurations '{label}'")
    baseline = _baseline(section, names, keys["baseline"], kept)
    if section.has("setup") and configurations:
        try:
            setup_words(keys["setup"], configurations[0])
        except (KeyError, ValueError) as error:
            section.add("setup", f"cannot be filled: {error}; the names are {', '.join(configurations[0].values)}")
    if section.findings.errors:
        return None
    return SweepPlan(
        tuple(configurations),
        decide,
        baseline=baseline,
        delta=keys["delta"],
        setup=keys["setup"],
        budget=keys["budget"] or SweepBudget(),
        is_grid=section.has("grid") and len(kept) == len(chosen),
    )


def _matching(
    section: PlanSection,
    where: str,
    names: Mapping[str, str],
    combination: Mapping[str, Any],
    chosen: Iterable[Settings],
) -> list[Settings]:
    """The settings that have these values, by key or short name."""
    keys = {name: key for key, name in names.items()} | {key: key for key in names}
    wanted: dict[str, Any] = {}
    for name, value in combination.items():
        if name in keys:
            wanted[keys[name]] = value
        else:
            section.add(where, f"'{name}' is no key of the sweep{did_you_mean(name, keys)}")
    return [settings for settings in chosen if wanted and {**settings, **wanted} == settings]


def _baseline(
    section: PlanSection, names: Mapping[str, str], values: Mapping[str, Any] | None, kept: list[Settings]
) -> int | None:
    if values is None:
        return None
    found = _matching(section, "baseline", names, values, kept)
    if len(found) != 1:
        section.add("baseline", f"{len(found)} configurations have these values; give as many as say which one it is")
        return None
    return kept.index(found[0])


def setup_words(setup: str, configuration: Configuration) -> tuple[str, ...]:
    """The words of a setup command, in which ``{name}`` stands for a value; a function has one call for each."""
    if is_hook(setup):
        return setup, configuration.label
    return tuple(word.format_map(configuration.texts) for word in shlex.split(setup))


def is_hook(setup: str) -> bool:
    """Whether a setup is a function and not a command."""
    return IMPORT_PATH.fullmatch(setup) is not None


SYSTEM_SECTIONS = ("system", "outputs", "run")
"""Sections of a plan whose values say how outputs are made."""


def with_values_of_run(source: PlanSource, record: RunRecord) -> PlanSource:
    """A plan with the values of a run: those of its configuration in a sweep, else those of ``--set``."""
    sweep = sweep_of_run(record)
    if sweep is not None:
        return source.with_settings(sweep.configurations[record.plan[SWEEP]["place"]].settings)
    values = {key: value for key, value in record.config.items() if split_key(key)[0] in SYSTEM_SECTIONS}
    if not values:
        raise BadValueError(f"{record.run_id} ({record.name}) has no values besides those of its plan; leave it out")
    return source.with_settings(values)


def with_system_of_run(source: PlanSource, record: RunRecord) -> PlanSource:
    """A plan with the system of a run, called as in the run."""
    changes = {section: record.plan.get(section) for section in ("system", "run")}
    if changes["system"] is None:
        raise BadValueError(f"{record.run_id} ({record.name}) has no system that could be called; give --system")
    return source.with_changes(changes)
