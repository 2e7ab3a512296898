"""Stored sweeps: runs of several configurations on the same questions, from which one is picked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import UnknownRunError, did_you_mean
from ..plan.sweep import Configuration, SweepPlan, format_value, short_names
from ..store.records import RunRecord, RunStatus
from ..store.runs import RunStore

SWEEP = "sweep"
"""The key of the plan of a run of a sweep, which is about the sweep."""
SWEEP_TAG = "sweep:"
"""The beginning of the tag of the runs of a sweep; its name follows."""

ELIMINATED_TAG = "eliminated"
"""The tag of a run that is worse than another configuration, by the looks of its sweep."""


@dataclass(frozen=True, slots=True)
class StoredSweep:
    """What the plan of each of its runs says of a sweep."""

    name: str
    configurations: tuple[Configuration, ...]
    decide: str
    """The name of the metric that decides."""
    baseline: int | None = None
    """The place of the configuration that is shipped."""
    delta: float | None = None
    is_grid: bool = False
    eliminates: bool = False

    @classmethod
    def of_plan(cls, name: str, plan: SweepPlan, *, eliminates: bool = False) -> StoredSweep:
        """The sweep of a plan that is run under a name."""
        return cls(name, plan.configurations, plan.decide, plan.baseline, plan.delta, plan.is_grid, eliminates)

    @classmethod
    def of_run(cls, record: RunRecord) -> StoredSweep | None:
        """The sweep of a run; ``None`` if it is not of one."""
        entry = record.plan.get(SWEEP)
        if not isinstance(entry, Mapping) or "place" not in entry:
            return None
        every = entry["configurations"]
        names = short_names(key for settings in every for key in settings)
        configurations = []
        for settings in every:
            values = {name: format_value(settings[key]) if key in settings else "-" for key, name in names.items()}
            configurations.append(Configuration(settings, values))
        return cls(
            entry["name"],
            tuple(configurations),
            entry["decide"],
            entry["baseline"],
            entry["delta"],
            entry["grid"],
            entry["eliminate"],
        )

    @property
    def tag(self) -> str:
        """The tag of its runs."""
        return f"{SWEEP_TAG}{self.name}"

    def entry(self, place: int, setup_s: float | None = None) -> dict[str, Any]:
        """What the plan of the run of a configuration says of the sweep."""
        return {
            "name": self.name,
            "place": place,
            "configurations": [dict(configuration.settings) for configuration in self.configurations],
            "decide": self.decide,
            "baseline": self.baseline,
            "delta": self.delta,
            "grid": self.is_grid,
            "eliminate": self.eliminates,
            "setup_s": setup_s,
        }

    def runs(self, store: RunStore) -> list[RunRecord | None]:
        """The run of each configuration; ``None`` where there is none yet."""
        found: list[RunRecord | None] = [None] * len(self.configurations)
        for record in reversed(store.runs(tag=self.tag)):
            found[record.plan[SWEEP]["place"]] = record
        return found


def find_sweep(store: RunStore, name: str) -> StoredSweep:
    """The sweep of that name."""
    sweep = next((StoredSweep.of_run(record) for record in store.runs(tag=f"{SWEEP_TAG}{name}")), None)
    if sweep is None:
        known = sweep_names(store)
        listing = f"; there are {', '.join(known)}" if known else "; `auepora sweep PLAN` runs one"
        raise UnknownRunError(f"there is no sweep '{name}'{did_you_mean(name, known, otherwise=listing)}")
    return sweep


def sweep_names(store: RunStore) -> list[str]:
    """The names of all sweeps, the newest first."""
    tags = [tag for record in store.runs() for tag in record.tags if tag.startswith(SWEEP_TAG)]
    return list(dict.fromkeys(tag.removeprefix(SWEEP_TAG) for tag in tags))


# --- a comparison with a run that was picked: all configurations that it was picked among share its error rate -------


@dataclass(frozen=True, slots=True)
class PickedRun:
    """One of the runs of a comparison, which is one of several configurations on the same questions."""

    place: int
    """The place of the run in the comparison."""
    sweep: StoredSweep
    others: tuple[RunRecord, ...]
    """The runs of the other configurations that have results."""

    def note(self, label: str) -> str:
        """Where the run was picked, and what follows."""
        return (
            f"{label}: {picked_text(self.sweep)}; its verdicts are adjusted for all of them, and on another dataset "
            "they need not be"
        )


def picked_text(sweep: StoredSweep) -> str:
    """Where a run of a sweep was picked."""
    return f"picked among {len(sweep.configurations)} configurations on these questions (sweep {sweep.name})"


def picked_runs(store: RunStore, records: Sequence[RunRecord]) -> list[PickedRun]:
    """Those of the compared runs that were picked in a sweep; a baseline that was named before it was not picked."""
    compared = {record.run_id for record in records}
    found: list[PickedRun] = []
    for place, record in enumerate(records):
        sweep = StoredSweep.of_run(record)
        if sweep is None or any(other.fingerprint != record.fingerprint for other in records):
            continue
        if record.plan[SWEEP]["place"] == sweep.baseline:
            continue
        others = [run for run in sweep.runs(store) if run is not None and run.run_id not in compared]
        finished = [run for run in others if run.status is RunStatus.FINISHED]
        found.append(PickedRun(place, sweep, tuple(finished)))
    return found


def without_sweep(record: RunRecord) -> RunRecord:
    """The record with the plan of an ordinary run of the same configuration."""
    return replace(record, plan={key: value for key, value in record.plan.items() if key != SWEEP})
