"""The details of a result: a mapping for users, with typed attributes for stored keys."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from auepora_eval import MetricResult, TargetCategory
from auepora_eval.core.details import ResultDetails

STORED = {
    "num_samples": 3,
    "num_scored": 2,
    "num_skipped": 4,
    "num_failed": 1,
    "skipped_no_gold": 4,
    "skipped_empty_gold": 0,
    "failed_timeout": 1,
    "interval": {"method": "wilson", "units": 3, "flags": ["few"]},
    "repeats": {"count": 2, "values": [0.5, 1.0], "num_system_failed": 1, "num_measure_failed": 2},
    "causes": "none",
}
"""With a text where a mapping is expected, as a user's own metric may have it."""


def result(details: Mapping[str, Any]) -> MetricResult:
    return MetricResult("own", TargetCategory.LATENCY, 1.0, details)


def old_pickle() -> MetricResult:
    """A result as an earlier version pickled it: with a plain dictionary."""
    found = result({})
    vars(found)["details"] = dict(STORED)
    return found


def assigned() -> MetricResult:
    found = result({})
    found.details = STORED
    return found


SOURCES: dict[str, Callable[[], MetricResult]] = {
    "new": lambda: result(STORED),
    "assigned": assigned,
    "updated": lambda: result(result({}).details | STORED),
    "pickle": lambda: pickle.loads(pickle.dumps(result(STORED))),
    "pickle of an earlier version": lambda: pickle.loads(pickle.dumps(old_pickle())),
    "copy": lambda: copy.deepcopy(result(STORED)),
    "replaced": lambda: dataclasses.replace(result(STORED), value=2.0),
}


@pytest.mark.parametrize("name", SOURCES)
def test_details_are_a_plain_mapping_for_users(name: str) -> None:
    details = SOURCES[name]().details
    assert isinstance(details, ResultDetails)
    assert (details.num_samples, details.interval.flags, details.repeats.count) == (3, ["few"], 2)
    assert details == STORED
    assert repr(details) == repr(STORED)
    assert json.dumps(details) == json.dumps(STORED)
    assert msgspec.to_builtins(details) == STORED
    assert dataclasses.asdict(SOURCES[name]())["details"] == STORED


VALUES: dict[str, tuple[Callable[[ResultDetails], object], object, object]] = {
    "number": (lambda details: details.num_scored, 2, 0),
    "no number": (lambda details: details.chance, None, None),
    "mapping inside": (lambda details: details.interval.units, 3, 0),
    "text where a mapping is expected": (lambda details: details.causes, {}, {}),
    "sum": (lambda details: details.num_outcomes, 7, 0),
    "failed calls": (lambda details: details.repeats.num_failed, 3, 0),
    "reasons without those of no sample": (lambda details: details.reasons("skipped"), {"no_gold": 4}, {}),
    "counts are known": (lambda details: (details.counts_samples, details.counts_outcomes), (True,) * 2, (False,) * 2),
    "failures count": (lambda details: details.counts_failures, True, False),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_of_stored_and_missing_keys(name: str) -> None:
    read, expected, missing = VALUES[name]
    assert read(result(STORED).details) == expected
    assert read(ResultDetails()) == missing


def test_a_change_of_a_mapping_inside_is_kept() -> None:
    details = result({"controls": {"items": []}}).details
    details.controls.drift = [{"run_id": "a"}]
    assert details == {"controls": {"items": [], "drift": [{"run_id": "a"}]}}


def test_a_change_of_a_missing_mapping_does_not_reach_other_results() -> None:
    result({}).details.controls.drift = [{"run_id": "a"}]
    assert result({}).details.controls == {}
