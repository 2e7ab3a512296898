"""Wrong answers of stored runs grouped by shared terms of their questions and labels, with causes and examples."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.scores import Status
from ..core.slices import Rows
from ..core.types import TargetCategory
from ..errors import BadValueError
from ..render.html import pluralize
from ..stats.groups import TermGroup, TermIncidence, failure_groups
from ..stats.intervals import Bools, Ints
from ..text.terms import content_terms
from .columns import SampleColumns
from .diagnosis import Quantity, difference, proportion
from .filters import Condition, list_rows
from .pairing import lookup_metric
from .queries import Cause
from .query_table import QueryTable, signature_options

MIN_SAMPLES = 5
"""A term is read if so many samples have it, ..."""
MAX_PROPORTION = 0.2
"""... and at most this proportion of them."""
MAX_QUESTIONS = 20_000
"""Of more questions so many are read, drawn at random."""
USUAL_FAILURES = 15
"""Groups with fewer failures are usually not shown."""
EXAMPLES = 3
SEED = 0
_RIGHT = "skipped:answered_right"
"""The outcome of a right answer in a failure attribution."""


@dataclass(frozen=True, slots=True)
class Correctness:
    """What says whether an answer is right: a metric from a score on, or a failure attribution by its own rule."""

    metric: str
    threshold: float | None = None
    """``None`` if the metric is a failure attribution."""
    rule: str = ""
    """What the attribution calls right."""

    def __str__(self) -> str:
        return f"{self.metric} ({self.rule})" if self.threshold is None else f"{self.metric} >= {self.threshold:g}"

    def read(self, table: QueryTable, run: int) -> tuple[Bools, Bools]:
        """Which answers of a run are wrong, and of which it is known."""
        status = table.status(self.metric, run)
        if self.threshold is None:
            wrong = table.causes(self.metric, run)[1] > 0
            return wrong, wrong | Condition("metric", self.metric, table.letters[run], value=_RIGHT).mask(table)
        failed = status == Status.SYSTEM_FAILED
        known = failed | (status == Status.SCORED)
        return known & (failed | ~table.right(self.metric, run, self.threshold)), known

    def wrong_conditions(self, run: str = "") -> list[Condition]:
        """The conditions of wrong answers in lists of queries."""
        if self.threshold is None:
            return [Condition("metric", self.metric, run, "!=", "skipped")]
        return [Condition("metric", self.metric, run, "<", f"{self.threshold:g}")]

    def right_conditions(self, run: str) -> list[Condition]:
        """The conditions of right answers in lists of queries."""
        if self.threshold is None:
            return [Condition("metric", self.metric, run, "=", _RIGHT)]
        return [Condition("metric", self.metric, run, ">=", f"{self.threshold:g}")]


def choose_correctness(table: QueryTable, correct: str | None = None, threshold: float | None = None) -> Correctness:
    """The metric that is given, else that of a failure attribution, else one of 0 and 1 about answers."""
    results = {name: one for run in table.runs for name, one in run.results.items()}
    attribution = next((name for name, one in results.items() if one.details.get("causes")), None)
    if correct is None and attribution is not None:
        rule = signature_options(results[attribution])
        decides, least = rule.get("correct", "correct"), float(rule.get("correct.from", 1))
        if decides not in results and threshold is None:
            return Correctness(attribution, None, f"{decides} >= {least:g}")
        correct, threshold = decides, least if threshold is None else threshold
    metas = {name: lookup_metric(one, table.runs[-1].record, {}) for name, one in results.items()}
    if correct is None:
        answers = [name for name, one in results.items() if one.target is TargetCategory.GENERATION_CORRECTNESS]
        correct = next((name for name in answers if metas[name].binary), None)
    if correct is None:
        raise BadValueError(
            "which answers are right? Name a metric (--correct) and the score from which on (--correct-from)"
        )
    table.scores(correct, 0)  # raises for an unknown metric
    if not metas[correct].higher_score_is_better:
        raise BadValueError(f"of '{correct}' less is better, so it cannot say which answers are right")
    if threshold is None and not metas[correct].binary:
        raise BadValueError(
            f"from which score on is an answer right? '{correct}' is not a metric of 0 and 1: give --correct-from, "
            "such as 0.5, or another metric (--correct)"
        )
    return Correctness(correct, 1.0 if threshold is None else threshold)


METHOD = (
    "Terms were found on one half of the questions and tested on the other, in both directions; the proportions are of "
    "the half that tested the term, at a false discovery rate of 5 %."
)
LIMITS = (
    f"Groups below about {USUAL_FAILURES} failures are usually not shown. Groups that share a meaning and no word are "
    "not found. Causes divide a group, they do not make one."
)

# --- groups ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Questions that share a term and fail more often than others; in two runs, that newly fail."""

    terms: tuple[str, ...]
    """The term, then others with mostly the same failures."""
    condition: Condition
    """The condition of its questions in lists."""
    p_value: float
    tested: Quantity
    """The proportion of wrong answers in the half that tested the term."""
    change: Quantity | None
    """That proportion minus the one of the other run, among the same questions."""
    members: int
    """The number of its questions in both halves."""
    wrong: int
    """How many of them are wrong, or newly wrong."""
    causes: dict[str, int]
    """The causes of the wrong answers; of newly wrong ones the causes of the change."""
    examples: tuple[tuple[str, str], ...]
    """Ids and questions of some wrong answers."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "terms": list(self.terms),
            "where": str(self.condition),
            "p_value": self.p_value,
            "tested": self.tested.to_dict(),
            "change": None if self.change is None else self.change.to_dict(),
            "members": self.members,
            "wrong": self.wrong,
            "causes": self.causes,
            "examples": [{"sample_id": sample_id, "query": query} for sample_id, query in self.examples],
        }


@dataclass(frozen=True, slots=True)
class GroupList:
    """The groups of some failures."""

    wrong: int
    """The number of failures among the questions that were read."""
    questions: int
    groups: tuple[FailureGroup, ...]
    not_shown: int
    """The number of terms that were found and not confirmed."""

    @property
    def outcome(self) -> str:
        """What was found, in a sentence."""
        shown = f"{pluralize(len(self.groups), 'group')}." if self.groups else "No group is shown."
        if not self.not_shown:
            return shown
        terms = pluralize(self.not_shown, "term")
        return f"{shown} Not shown: {terms} found in one half and not confirmed in the other."

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        groups = [group.to_dict() for group in self.groups]
        return {"wrong": self.wrong, "questions": self.questions, "groups": groups, "not_shown": self.not_shown}


@dataclass(frozen=True, slots=True)
class FailureGroups:
    """The groups of wrong answers of the last run, and of two runs those of newly wrong ones."""

    correctness: Correctness
    wrong: GroupList
    newly_wrong: GroupList | None

    @property
    def lists(self) -> list[tuple[str, GroupList]]:
        """Each list with a sentence about its failures."""
        listed = [(f"wrong ({self.correctness})", self.wrong)]
        if self.newly_wrong is not None:
            listed.insert(0, (f"right in A and wrong in B ({self.correctness})", self.newly_wrong))
        return [(f"{one.wrong:,} of {one.questions:,} answers are {what}.", one) for what, one in listed]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        newly = {} if self.newly_wrong is None else {"newly_wrong": self.newly_wrong.to_dict()}
        return {"correct": str(self.correctness), "seed": SEED, **self.wrong.to_dict(), **newly}


def find_failure_groups(table: QueryTable, correctness: Correctness, among: Rows | None = None) -> FailureGroups:
    """The groups of a table, or of some of its rows."""
    last = len(table.runs) - 1
    wrong, known = correctness.read(table, last)
    wrong_first, known_first = correctness.read(table, 0)
    rows = np.flatnonzero(known & known_first)
    rows = rows if among is None else np.intersect1d(rows, among)
    if len(rows) > MAX_QUESTIONS:
        rows = np.sort(np.random.default_rng(SEED).choice(rows, MAX_QUESTIONS, replace=False))
    reader = _GroupReader(table, correctness, rows)
    if not last:
        return FailureGroups(correctness, reader.read(wrong[rows]), None)
    new = reader.read(wrong[rows], wrong_first[rows], newly=True)
    return FailureGroups(correctness, reader.read(wrong[rows], wrong_first[rows]), new)


class _GroupReader:
    """Groups of some rows of a table, with their causes and examples."""

    def __init__(self, table: QueryTable, correctness: Correctness, rows: Rows) -> None:
        self.table, self.correctness, self.rows = table, correctness, rows
        last = table.runs[-1].samples
        places = np.zeros(len(table), np.intp)
        places[table.spread_rows(len(table.runs) - 1)] = np.arange(len(last.ids))
        self.positions = places[rows].tolist()
        self.keys, self.incidence = self._read_terms()
        self.clusters = _clusters(last, self.positions)

    def _read_terms(self) -> tuple[list[Condition], TermIncidence]:
        samples = self.table.runs[-1].samples
        keys: dict[Condition | str, int] = {}
        rows, columns = array("l"), array("l")
        for row, position in enumerate(self.positions):
            own: set[Condition | str] = {*content_terms(samples.question(position)), *_labels(samples, position)}
            rows.extend([row] * len(own))
            columns.extend([keys.setdefault(key, len(keys)) for key in own])
        codes = np.array(columns, np.intp)
        counts = np.bincount(codes, minlength=len(keys))
        used = (counts >= MIN_SAMPLES) & (counts <= MAX_PROPORTION * len(self.rows))
        listed = [key for key, is_used in zip(keys, used.tolist(), strict=True) if is_used]
        order = sorted(range(len(listed)), key=lambda place: str(listed[place]))
        numbers = np.full(len(keys), -1)
        numbers[np.flatnonzero(used)[order]] = np.arange(len(listed))
        conditions = [key if isinstance(key, Condition) else Condition("term", value=key) for key in listed]
        is_read = used[codes]
        incidence = TermIncidence(
            np.array(rows, np.intp)[is_read], numbers[codes[is_read]], len(self.rows), len(listed)
        )
        return [conditions[place] for place in order], incidence

    def read(self, wrong: Bools, before: Bools | None = None, *, newly: bool = False) -> GroupList:
        """The groups of wrong answers, with the change from those of another run; or of newly wrong ones."""
        failures, opposite = wrong, None
        if newly and before is not None:
            failures, opposite = wrong & ~before, before & ~wrong
        groups, not_shown = failure_groups(self.incidence, failures, opposite, clusters=self.clusters, seed=SEED)
        causes = self._causes(newly=newly)
        listed = [self._group(group, wrong, before, failures, causes) for group in groups]
        return GroupList(int(failures.sum()), len(failures), tuple(listed), not_shown)

    def _group(
        self, group: TermGroup, wrong: Bools, before: Bools | None, failures: Bools, causes: Sequence[str]
    ) -> FailureGroup:
        members = self.incidence.members(group.terms[0])
        own = np.flatnonzero(members & failures).tolist()
        counted = Counter(causes[row] for row in own if causes[row])
        examples = list_rows(self.table, self.rows[own[:EXAMPLES]].tolist(), ())
        conditions = [self.keys[term] for term in group.terms]
        return FailureGroup(
            terms=tuple(_text(condition) for condition in conditions),
            condition=conditions[0],
            p_value=group.p_value,
            tested=proportion(wrong[group.tested]),
            change=None if before is None else difference(before[group.tested], wrong[group.tested]),
            members=int(members.sum()),
            wrong=len(own),
            causes=dict(counted.most_common()),
            examples=tuple((row.sample_id, row.question) for row in examples),
        )

    def _causes(self, *, newly: bool) -> list[str]:
        """The cause of each wrong answer, or of the change of each newly wrong one; empty where it is unknown."""
        metric = "" if self.correctness.threshold is None else self.correctness.metric
        if newly:
            return [_CHANGE_NAMES[code] for code in self.table.changes(metric)[self.rows].tolist()]
        try:
            known, codes = self.table.causes("", len(self.table.runs) - 1)
        except BadValueError:
            return [""] * len(self.rows)
        names = ["", *known]
        return [names[code] for code in codes[self.rows].tolist()]


_CHANGE_NAMES = ["", *(cause.value for cause in Cause)]


def _clusters(samples: SampleColumns, positions: Sequence[int]) -> Ints | None:
    if samples.clusters is None:
        return None
    return np.unique([samples.clusters[position] for position in positions], return_inverse=True)[1]


def _labels(samples: SampleColumns, position: int) -> Iterator[Condition]:
    for name, (groups, codes) in samples.labels.items():
        for value in groups[codes[position]]:
            yield Condition("label", name, value=value)


def _text(condition: Condition) -> str:
    return f"{condition.name}: {condition.value}" if condition.name else condition.value
