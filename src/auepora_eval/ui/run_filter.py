"""Which runs a list shows: words and conditions such as ``status=failed``, ``tag=nightly`` or ``token_f1>0.4``.

A condition is written as in filters of queries; a colon is the same as an equals sign. Its name is one of ``KEYS``,
``config.KEY`` for an entry of the configuration, or a metric.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date
from typing import Any

from ..core.types import MetricResult
from ..errors import BadValueError, did_you_mean
from ..queries.filters import TERM, quote, quote_value, split_condition, unquote
from ..store.records import RunRecord, RunStatus
from .page_request import Fields

KEYS = ("status", "dataset", "tag", "name", "id", "commit", "began")
CONFIG = "config."
SORTS = ("began", "name", "metric")
MAX_CONDITIONS = 50
OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COLON = re.compile(rf"({'|'.join(KEYS)}|config\.[^:=<>!\s]+):")


@dataclass(frozen=True, slots=True)
class RunCondition:
    """A condition on runs; ``str`` gives the text that ``parse_run_condition`` reads."""

    key: str
    operator: str
    value: str

    def __str__(self) -> str:
        is_word = not re.search(r"[\s\"]", self.value)
        return f"{self.key}{self.operator}{quote_value(self.value) if is_word else quote(self.value)}"

    def accepts(self, record: RunRecord, results: Mapping[str, MetricResult]) -> bool:
        """Whether a run with these results fulfils the condition."""
        compare = OPERATORS[self.operator]
        if self.key == "began":
            return compare(record.created_at.astimezone(UTC).date(), date.fromisoformat(self.value))
        if self.key in KEYS or self.key.startswith(CONFIG):
            return (self.value in run_texts(record, self.key)) is (self.operator == "=")
        result = results.get(self.key)
        return result is not None and result.defined and compare(result.value, float(self.value))


def run_texts(record: RunRecord, key: str) -> tuple[str, ...]:
    """What a run has under a key: several tags, else one text or none."""
    if key == "tag":
        return record.tags
    if key.startswith(CONFIG):
        name = key.removeprefix(CONFIG)
        value = record.config.get(name, "")
        text = f"{value:g}" if isinstance(value, float) else str(value)
        return (text,) if name in record.config else ()
    found = {
        "status": record.status.value,
        "dataset": record.dataset_name,
        "name": record.name,
        "id": record.run_id,
        "commit": record.commit,
    }[key]
    return () if found is None else (found,)


def parse_run_condition(text: str) -> RunCondition | None:
    """The condition that a text is; ``None`` for a word. An error says what is wrong with a condition."""
    colon = _COLON.match(text)
    split = (colon[1], "=", text[colon.end() :]) if colon else split_condition(text)
    if split is None:
        return None
    key, sign, value = split[0], split[1], unquote(split[2])
    if not value:
        raise BadValueError(f"'{text[:80]}' has no value after {key}")
    ordered = sign not in ("=", "!=")
    if key == "status" and value not in list(RunStatus):
        choices = ", ".join(RunStatus)
        raise BadValueError(f"status must be one of {choices}, not '{value[:60]}'{did_you_mean(value, RunStatus)}")
    if key == "began":
        _require(date.fromisoformat, value, f"began must be a date such as 2026-11-18, not '{value[:60]}'")
    elif key in KEYS or key.startswith(CONFIG):
        if ordered:
            raise BadValueError(f"'{text[:80]}': {key} has no order; write = or !=")
    else:
        known = f"a condition names a metric, config.KEY, or one of {', '.join(KEYS)}"
        _require(float, value, f"'{text[:80]}': '{value[:60]}' should be a number; {known}")
    return RunCondition(key, sign, value)


def _require(parse: Callable[[str], object], value: str, problem: str) -> None:
    """Raise where a value cannot be parsed."""
    try:
        parse(value)
    except ValueError:
        raise BadValueError(problem) from None


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are listed, in which order and with which columns, as in the address of the page."""

    q: str = ""
    where: tuple[RunCondition, ...] = ()
    columns: tuple[str, ...] = ()
    """The columns that were chosen; empty: those of the page."""
    baseline: str = ""
    """The id of the run that the others are compared with; ``none`` for no run."""
    metric: str = ""
    """The metric of the trend; empty: the most common main metric."""
    sort: str = "-began"
    page: int = 1
    opened: tuple[str, ...] = ()
    """The sweeps whose runs are listed."""

    @classmethod
    def from_params(cls, params: Fields) -> RunFilter:
        """The filter of an address. Conditions among the words of ``q`` become conditions of the filter."""
        words = []
        conditions = [parse_run_condition(text) for text in params.getlist("where") if text.strip()]
        for term in TERM.findall(params.get("q", "")):
            condition = parse_run_condition(term)
            if condition is None:
                words.append(term)
            conditions.append(condition)
        found = tuple(dict.fromkeys(condition for condition in conditions if condition is not None))
        if len(found) > MAX_CONDITIONS:
            raise BadValueError(f"a filter has at most {MAX_CONDITIONS} conditions, not {len(found)}")
        return cls(
            q=" ".join(words),
            where=found,
            columns=tuple(dict.fromkeys(params.getlist("col"))),
            baseline=params.get("baseline", ""),
            metric=params.get("metric", ""),
            sort=params.get("sort") or "-began",
            page=params.page(),
            opened=tuple(dict.fromkeys(params.getlist("open"))),
        )

    def to_params(self, **changes: Any) -> dict[str, Any]:
        """The parameters of the address; a change of the filter leads to its first page."""
        values = {
            "q": self.q,
            "where": [str(condition) for condition in self.where],
            "col": list(self.columns),
            "baseline": self.baseline,
            "metric": self.metric,
            "sort": self.sort,
            "page": 1 if changes else self.page,
            "open": list(self.opened),
        }
        default = {"sort": "-began", "page": 1}
        return {name: value for name, value in (values | changes).items() if value and value != default.get(name)}

    def folding(self, sweep: str) -> dict[str, Any]:
        """The parameters of the address in which a sweep is opened, or folded again."""
        opened = [name for name in self.opened if name != sweep]
        if len(opened) == len(self.opened):
            opened.append(sweep)
        return self.to_params(open=opened, page=self.page)

    def without(self, condition: RunCondition) -> dict[str, Any]:
        """The parameters of the address without a condition."""
        return self.to_params(where=[str(listed) for listed in self.where if listed != condition])

    def accepts(self, record: RunRecord, results: Mapping[str, MetricResult]) -> bool:
        """Whether a run with these results is listed."""
        for condition in self.where:
            if not condition.accepts(record, results):
                return False
        return not self.q or _contains_words(record, self.q)

    def check_metrics(self, known: Iterable[str], columns: Iterable[str]) -> None:
        """Raise where a condition names a metric that no run has, or the order one that is no column either."""
        names = set(known)
        used = [
            condition.key
            for condition in self.where
            if condition.key not in KEYS and not condition.key.startswith(CONFIG)
        ]
        for name in used:
            if name not in names:
                listed = [*KEYS, *sorted(names)]
                raise BadValueError(f"the runs have no metric '{name[:80]}'{did_you_mean(name, listed)}")
        key = self.sort.removeprefix("-")
        sorts = (*SORTS, *columns)
        if key not in sorts and key not in names and not key.startswith(CONFIG):
            listed_keys = f"one of {', '.join(sorts)}, config.KEY or a metric"
            raise BadValueError(f"sort must be {listed_keys}, with '-' for descending, not {key!r:.80}")


def _contains_words(record: RunRecord, words: str) -> bool:
    """Whether every word is in the name, id, dataset, tags, commit or message of a run."""
    parts = (record.name, record.run_id, record.dataset_name, *record.tags, record.commit or "", record.message or "")
    text = "\n".join(parts).casefold()
    return all(word.strip('"') in text for word in words.casefold().split())
