"""The details of a result: a mapping whose stored keys are typed attributes. This is the one table of these keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Generic, TypeVar, cast

ValueT = TypeVar("ValueT")

_NOTHING: Mapping[str, Any] = {}


class StoredMapping(dict[str, Any]):
    """A mapping as it is stored, with its keys as typed attributes. Users may treat it as any dictionary."""

    __slots__ = ()

    def reasons(self, outcome: str) -> dict[str, int]:
        """The number of samples by reason, of those ``skipped`` or ``failed``."""
        prefix = f"{outcome}_"
        counts = {key.removeprefix(prefix): count for key, count in self.items() if key.startswith(prefix)}
        return {reason: count for reason, count in counts.items() if isinstance(count, int) and count}


class StoredKey(Generic[ValueT]):
    """A key of a ``StoredMapping`` as an attribute of the same name; ``default`` where it is missing or ``None``.

    Details of a user's own metric may have anything under a key: what should be a mapping and is none is not read.
    """

    def __init__(self, default: ValueT) -> None:
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.key = name

    def __get__(self, stored: StoredMapping | None, owner: type | None = None) -> ValueT:
        if stored is None:
            return self.default
        value: Any = stored.get(self.key)
        if value is None or (isinstance(self.default, Mapping) and not isinstance(value, Mapping)):
            return copy(self.default)  # which a reader may change
        if isinstance(self.default, StoredMapping) and not isinstance(value, type(self.default)):
            value = stored[self.key] = type(self.default)(value)  # in place, so that a change of it is kept
        return cast("ValueT", value)

    def __set__(self, stored: StoredMapping, value: ValueT) -> None:
        stored[self.key] = value


class IntervalDetails(StoredMapping):
    """How an interval was computed."""

    __slots__ = ()

    method = StoredKey("")
    units = StoredKey(0)
    """The number of independent units: samples, or clusters of them."""
    flags = StoredKey[Sequence[str]](())
    """Why the interval may be too narrow."""


class RepeatDetails(StoredMapping):
    """The spread over repeats of the same samples, and the number of calls; ``values`` has the value of each."""

    __slots__ = ()

    count = StoredKey(1)
    sd = StoredKey[float | None](None)
    sd_within_samples = StoredKey[float | None](None)
    num_calls = StoredKey(0)
    """The calls that the metric applies to; 0 where they are not counted."""
    num_counted = StoredKey(0)
    num_system_failed = StoredKey(0)
    num_measure_failed = StoredKey(0)

    @property
    def num_failed(self) -> int:
        """The number of failed calls, for whatever reason."""
        return self.num_system_failed + self.num_measure_failed


class ControlDetails(StoredMapping):
    """What the control items show of a judge; further keys are those of ``judge.controls``."""

    __slots__ = ()

    usable = StoredKey[bool | None](None)
    """Whether its false accepts are within the limit; ``None`` where there are no items to be rejected."""
    num_items = StoredKey(0)
    num_failed = StoredKey(0)
    unavailable = StoredKey(_NOTHING)
    """Why there are no items of a kind, by kind."""
    kinds = StoredKey(_NOTHING)
    """The error rates by kind."""
    drift = StoredKey[Sequence[Mapping[str, Any]]](())
    """How the verdicts differ from those of earlier runs."""


class ResultDetails(StoredMapping):
    """What a result contains besides its value. The names of the attributes are the stored keys."""

    __slots__ = ()

    num_samples = StoredKey(0)
    """How many samples the value is a mean of."""
    num_scored = StoredKey(0)
    num_skipped = StoredKey(0)
    skipped_empty_gold = StoredKey(0)
    num_system_failed = StoredKey(0)
    num_measure_failed = StoredKey(0)
    num_failed = StoredKey(0)
    """Failures of the system and of the measurement."""
    value_completed = StoredKey[float | None](None)
    """The value over answered samples, where the system failed on some."""
    bounds = StoredKey[Sequence[float] | None](None)
    """The least and the greatest possible value, where some samples could not be measured."""
    interval = StoredKey(IntervalDetails())
    tokenizer = StoredKey(_NOTHING)
    """How many samples were cut into ``words`` and into characters (``char``), where any was into characters."""
    undefined_because = StoredKey("")
    lower_is_better = StoredKey[bool | None](None)
    """Of a user's own metric, whose class may be unknown when the run is read."""
    repeats = StoredKey(RepeatDetails())
    picked = StoredKey("")
    """How the run was picked among the configurations of a sweep."""

    judge = StoredKey(_NOTHING)
    """The spread of repeated judgements, and whether the value is a mean probability."""
    judging = StoredKey(_NOTHING)
    """The usage of the judge: calls, tokens, cost, failures."""
    panel = StoredKey(_NOTHING)
    controls = StoredKey(ControlDetails())
    sequential = StoredKey(_NOTHING)
    """The design, looks and verdict of sequential judging."""
    two_stage = StoredKey(_NOTHING)
    """The draw, the forecast and the outcome of two-stage judging."""
    corrections = StoredKey(_NOTHING)
    """The corrections of gold by people, and the value before them."""
    partial_grades = StoredKey(_NOTHING)
    """The drawn pairs that people graded."""

    gold_by = StoredKey[Mapping[str, int] | None](None)
    """The number of gold documents by source; ``None`` where no gold has known sources."""
    judged = StoredKey[float | None](None)
    """The proportion of retrieved documents that are judged."""
    judged_depth = StoredKey[int | None](None)
    """How many documents of a ranking ``judged`` is about; ``None`` for all."""
    num_results = StoredKey(0)
    num_unjudged = StoredKey(0)
    residual = StoredKey[float | None](None)
    """What unjudged positions could add to rank-biased precision."""
    chance = StoredKey[float | None](None)
    """The value of a random ranking, where gold is matched by document."""

    causes = StoredKey(_NOTHING)
    """The failure causes of ``failure_attribution``, with their counts."""
    answers = StoredKey(_NOTHING)
    """Questions by whether the context sufficed and how they were answered."""
    answers_by = StoredKey(_NOTHING)
    base_score_all = StoredKey[float | None](None)
    value_all_base = StoredKey[float | None](None)
    total = StoredKey[float | None](None)
    num_answers = StoredKey(0)
    num_empty_answers = StoredKey(0)

    @property
    def counts_samples(self) -> bool:
        """Whether it is known how many samples the value is a mean of, which a user's own metric may not say."""
        return isinstance(self.get("num_samples"), int)

    @property
    def counts_outcomes(self) -> bool:
        """Whether it is known how many samples were scored and how many failed."""
        return isinstance(self.get("num_scored"), int) and isinstance(self.get("num_failed"), int)

    @property
    def num_outcomes(self) -> int:
        """The number of all samples: scored, skipped and failed."""
        return self.num_scored + self.num_skipped + self.num_failed

    @property
    def counts_failures(self) -> bool:
        """Whether failed samples count, at the worst value."""
        return self.num_samples > self.num_scored


class DetailsField:
    """The attribute ``details`` of a result: any mapping can be assigned, and ``ResultDetails`` are read."""

    def __get__(self, result: object, owner: type | None = None) -> ResultDetails:
        if result is None:
            raise AttributeError("details")
        details = vars(result)["details"]
        if not isinstance(details, ResultDetails):  # from a pickle of an earlier version
            details = vars(result)["details"] = ResultDetails(details)
        return details

    def __set__(self, result: object, details: Mapping[str, Any]) -> None:
        vars(result)["details"] = details if isinstance(details, ResultDetails) else ResultDetails(details)


def no_details() -> Any:
    """The details of a result that has none."""
    return ResultDetails()
