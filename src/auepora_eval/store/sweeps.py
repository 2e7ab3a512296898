"""Sweeps as they are stored: runs with one tag, of which each names the configurations and its place among them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from ..errors import UnknownRunError, did_you_mean
from ..io.yaml_values import split_key
from ..options import PositiveFloat, PositiveInt
from .records import RunRecord
from .runs import RunStore

SWEEP = "sweep"
"""The key of the plan of a run of a sweep, which is about the sweep."""
SWEEP_TAG = "sweep:"
"""The beginning of the tag of the runs of a sweep; its name follows."""

ELIMINATED_TAG = "eliminated"
"""The tag of a run that is worse than another configuration, by the looks of its sweep."""

_LONGEST_VALUE = 30

Settings = Mapping[str, Any]
"""Values by keys of the plan, as ``--set`` has them."""


@dataclass(frozen=True, slots=True)
class SweepBudget:
    """``sweep.budget``: what the runs of a sweep may take together."""

    calls: PositiveInt | None = None
    """Calls of the system."""
    tokens: PositiveInt | None = None
    """Tokens of the system, as the usage of its outputs says."""
    cost: PositiveFloat | None = None
    """Cost of the system by ``run.prices``, and of the judges by ``judge.prices``."""
    seconds: PositiveFloat | None = None
    """Time since the command was started."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """One configuration: values of keys of the plan."""

    settings: Settings
    values: Mapping[str, str]
    """The values as short texts, by the short names of the keys; ``-`` where it has the value of the plan."""
    texts: Mapping[str, str]
    """The same as whole texts."""

    @property
    def label(self) -> str:
        """The values in one line."""
        return ", ".join(self.values.values())


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """A sweep: its configurations, and how one of them is chosen."""

    configurations: tuple[Configuration, ...]
    decide: str
    baseline: int | None = None
    """The place of the configuration that is shipped."""
    delta: float | None = None
    setup: str | None = None
    budget: SweepBudget = field(default_factory=SweepBudget)
    is_grid: bool = False
    """Whether every combination of values is there, so that each parameter has an effect of its own."""
    name: str = ""
    """The name under which it is run; empty in a plan."""
    eliminates: bool = False
    """Whether configurations leave before all questions are asked."""


def short_names(keys: Iterable[str]) -> dict[str, str]:
    """A short name for each key: its last part, or the whole key where another one ends in the same way."""
    endings = {key: split_key(key)[-1] for key in keys}
    counts = Counter(endings.values())
    repeated = {key: key for key, ending in endings.items() if counts[ending] > 1}
    return endings | repeated


def make_configurations(every: Sequence[Settings]) -> list[Configuration]:
    """The configurations with these settings, with their values as text."""
    names = short_names(chain.from_iterable(every))
    absent = dict.fromkeys(names.values(), "-")
    found = []
    for settings in every:
        values = absent | {names[key]: format_value(value) for key, value in settings.items()}
        texts = absent | {names[key]: str(value) for key, value in settings.items()}
        found.append(Configuration(dict(settings), values, texts))
    return found


def format_value(value: Any) -> str:
    """A value of a configuration in one short line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_VALUE else f"{line[: _LONGEST_VALUE - 1]}…"


def sweep_of_run(record: RunRecord) -> SweepPlan | None:
    """The sweep of a run, as its plan has it; ``None`` if it is not of one."""
    entry = record.plan.get(SWEEP)
    if not isinstance(entry, Mapping) or "place" not in entry:
        return None
    return SweepPlan(
        tuple(make_configurations(entry["configurations"])),
        entry["decide"],
        entry["baseline"],
        entry["delta"],
        is_grid=entry["grid"],
        name=entry["name"],
        eliminates=entry["eliminate"],
    )


def sweep_entry(sweep: SweepPlan, place: int, setup_s: float | None = None) -> dict[str, Any]:
    """What the plan of the run of a configuration says of the sweep."""
    return {
        "name": sweep.name,
        "place": place,
        "configurations": [dict(configuration.settings) for configuration in sweep.configurations],
        "decide": sweep.decide,
        "baseline": sweep.baseline,
        "delta": sweep.delta,
        "grid": sweep.is_grid,
        "eliminate": sweep.eliminates,
        "setup_s": setup_s,
    }


def sweep_runs(store: RunStore, sweep: SweepPlan) -> list[RunRecord | None]:
    """The run of each configuration; ``None`` where there is none yet."""
    found: list[RunRecord | None] = [None] * len(sweep.configurations)
    for record in reversed(store.runs(tag=SWEEP_TAG + sweep.name)):
        found[record.plan[SWEEP]["place"]] = record
    return found


def find_sweep(store: RunStore, name: str) -> SweepPlan:
    """The sweep of that name."""
    sweep = next((sweep_of_run(record) for record in store.runs(tag=f"{SWEEP_TAG}{name}")), None)
    if sweep is None:
        tags = chain.from_iterable(record.tags for record in store.runs())
        known = list(dict.fromkeys(tag.removeprefix(SWEEP_TAG) for tag in tags if tag.startswith(SWEEP_TAG)))
        listing = f"; there are {', '.join(known)}" if known else "; `auepora sweep PLAN` runs one"
        raise UnknownRunError(f"there is no sweep '{name}'{did_you_mean(name, known, otherwise=listing)}")
    return sweep
