"""Wrong answers of stored runs grouped by shared terms of their questions and labels, with causes and examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..compare.diagnosis import Quantity, difference, proportion
from ..compare.pairing import lookup_metric
from ..compare.queries import Cause
from ..compare.rendering import signed
from ..core.slices import Rows
from ..core.types import TargetCategory
from ..errors import BadValueError
from ..render.blocks import Block, Bullets, Prose, Row, Table, TableColumn, simple_table, without_empty_columns
from ..render.html import interval_text, pluralize, value_text
from ..render.tables import p_text
from ..stats.groups import TermGroup, TermIncidence, failure_groups
from ..stats.intervals import Bools
from ..text.tokenizers import content_terms
from .columns import SampleColumns
from .filters import Condition
from .rows import list_rows
from .table import QueryTable, signature_options

MAX_QUESTIONS = 20_000
"""Of more questions so many are read, drawn at random."""
EXAMPLES = 3
SEED = 0
METHOD = (
    "Terms were found on one half of the questions and tested on the other, in both directions; the proportions are of "
    "the half that tested the term, at a false discovery rate of 5 %."
)
LIMITS = (
    "Groups below about 15 failures are usually not shown. Groups that share a meaning and no word are not found. "
    "Causes divide a group, they do not make one."
)

# --- which answers are right -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnswerRule:
    """What says whether an answer is right."""

    text: str
    wrong: Condition
    right: Condition
    """The conditions of wrong and of right answers; of answers that fulfil neither it is unknown."""
    changes_by: str = ""
    """The metric whose changes are explained; empty for the main one."""

    @classmethod
    def of_metric(cls, name: str, threshold: float) -> AnswerRule:
        """Right from a score of a metric on."""
        wrong = Condition("metric", name, operator="<", value=f"{threshold:g}")
        right = Condition("metric", name, operator=">=", value=f"{threshold:g}")
        return cls(f"{name} >= {threshold:g}", wrong, right, name)


def choose_rule(table: QueryTable, correct: str | None = None, threshold: float | None = None) -> AnswerRule:
    """The metric that is given, else that of a failure attribution, else one of 0 and 1 about answers."""
    results = table.results
    blamed = next((name for name, result in results.items() if result.details.causes), None)
    if correct is None and blamed is not None:
        options = signature_options(results[blamed])
        correct, least = options.get("correct", ""), float(options.get("correct.from", 1))
        if correct not in results and threshold is None:
            right = Condition("metric", blamed, value="skipped:answered_right")
            return AnswerRule(f"{correct} >= {least:g}", Condition("metric", blamed, value="scored"), right)
        threshold = least if threshold is None else threshold
    metas = {name: lookup_metric(result, table.runs[-1].record, {}) for name, result in results.items()}
    if correct is None:
        answers = [name for name, result in results.items() if result.target is TargetCategory.GENERATION_CORRECTNESS]
        correct = next((name for name in answers if metas[name].binary), None)
    if correct is None:
        raise BadValueError("which answers are right? Name a metric (--correct) and a score (--correct-from)")
    table.scores(correct, 0)  # raises for an unknown metric
    if not metas[correct].higher_score_is_better:
        raise BadValueError(f"of '{correct}' less is better, so it cannot say which answers are right")
    if threshold is None and not metas[correct].binary:
        raise BadValueError(
            f"from which score on is an answer right? '{correct}' is not a metric of 0 and 1: give --correct-from, "
            "such as 0.5, or another metric (--correct)"
        )
    threshold = 1.0 if threshold is None else threshold
    return AnswerRule.of_metric(correct, threshold)


# --- groups ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Questions that share a term and fail more often than others; in two runs, that newly fail."""

    terms: list[str]
    """The term that was tested, then others with mostly the same failures or the same questions."""
    where: str
    """The condition of its questions in lists."""
    p_value: float
    tested: Quantity
    """The proportion of wrong answers in the half that tested the term."""
    change: Quantity | None
    """That proportion minus the one of the other run, among the same questions."""
    members: int
    """The number of its questions in both halves."""
    wrong: int
    """How many of them are failures of the list."""
    causes: dict[str, int]
    examples: list[dict[str, str]]
    """``sample_id`` and ``query`` of some failures."""


@dataclass(frozen=True, slots=True)
class GroupList:
    """The groups of some failures."""

    failures: str
    """``wrong``, or ``newly wrong`` of two runs."""
    where: list[str]
    """The conditions of the failures in lists of queries."""
    causes_by: str
    """The name of conditions on causes: ``cause``, or ``change.METRIC``."""
    wrong: int
    questions: int
    groups: list[FailureGroup]
    not_shown: int
    """The number of terms that were found and not confirmed."""

    @property
    def sentence(self) -> str:
        """What was found."""
        groups, terms = pluralize(len(self.groups), "group"), pluralize(self.not_shown, "term")
        return (
            f"{self.wrong:,} of {self.questions:,} answers are {self.failures}: {groups}. Not shown: {terms} found in "
            "one half and not confirmed in the other."
        )


@dataclass(frozen=True, slots=True)
class FailureGroups:
    """The groups of wrong answers of the last run; of two runs before them those of newly wrong ones."""

    correct: str
    """Which answers are right."""
    seed: int
    lists: list[GroupList]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def find_failure_groups(table: QueryTable, rule: AnswerRule, among: Rows | None = None) -> FailureGroups:
    """The groups of a table, or of some of its rows."""
    last = _read_wrong(table, rule, table.letters[-1])
    first = _read_wrong(table, rule, table.letters[0])
    rows = np.flatnonzero(last[1] & first[1])
    rows = rows if among is None else np.intersect1d(rows, among)
    if len(rows) > MAX_QUESTIONS:
        rows = np.sort(np.random.default_rng(SEED).choice(rows, MAX_QUESTIONS, replace=False))
    reader = _GroupReader(table, rule, rows, last[0][rows], first[0][rows])
    lists = [reader.read(newly=True)] if len(table.runs) > 1 else []
    return FailureGroups(rule.text, SEED, [*lists, reader.read(newly=False)])


def _read_wrong(table: QueryTable, rule: AnswerRule, letter: str) -> tuple[Bools, Bools]:
    """Which answers of a run are wrong, and of which it is known."""
    wrong = replace(rule.wrong, run=letter).mask(table)
    return wrong, wrong | replace(rule.right, run=letter).mask(table)


class _GroupReader:
    """Groups of some rows of a table, with their causes and examples."""

    def __init__(self, table: QueryTable, rule: AnswerRule, rows: Rows, wrong: Bools, before: Bools) -> None:
        self.table, self.rule, self.rows, self.wrong, self.before = table, rule, rows, wrong, before
        samples = table.runs[-1].samples
        places = np.zeros(len(table), np.intp)
        places[table.spread_rows(len(table.runs) - 1)] = np.arange(len(samples.ids))
        positions = places[rows].tolist()
        self.incidence, self.terms = TermIncidence.of([set(_terms(samples, position)) for position in positions])
        names = samples.clusters or samples.ids
        self.clusters = [names[position] for position in positions]

    def read(self, *, newly: bool) -> GroupList:
        """The groups of wrong answers, or of those that the first run had right."""
        failures, opposite, where = self.wrong, None, [str(self.rule.wrong)]
        if newly:
            failures, opposite = self.wrong & ~self.before, self.before & ~self.wrong
            where.insert(0, str(replace(self.rule.right, run="A")))
        groups, not_shown = failure_groups(self.incidence, failures, opposite, clusters=self.clusters, seed=SEED)
        causes = self._causes(newly=newly)
        listed = [self._group(group, failures, causes) for group in groups]
        by = Condition("change", self.rule.changes_by).key if newly else "cause"
        name = "newly wrong" if newly else "wrong"
        return GroupList(
            failures=name,
            where=where,
            causes_by=by,
            wrong=int(failures.sum()),
            questions=len(failures),
            groups=listed,
            not_shown=not_shown,
        )

    def _group(self, group: TermGroup, failures: Bools, causes: Sequence[str]) -> FailureGroup:
        members = self.incidence.members(group.terms[0])
        own = np.flatnonzero(members & failures).tolist()
        examples = list_rows(self.table, self.rows[own[:EXAMPLES]].tolist(), ())
        terms = [self.terms[term] for term in dict.fromkeys([*group.terms, *self.incidence.alike(group.terms[0])])]
        wrong = self.wrong[group.tested]
        change = difference(self.before[group.tested], wrong) if len(self.table.runs) > 1 else None
        return FailureGroup(
            terms=[term.removeprefix("term=").removeprefix("label.") for term in terms],
            where=terms[0],
            p_value=group.p_value,
            tested=proportion(wrong),
            change=change,
            members=int(members.sum()),
            wrong=len(own),
            causes=dict(Counter(causes[row] for row in own if causes[row]).most_common()),
            examples=[{"sample_id": row.sample_id, "query": row.question} for row in examples],
        )

    def _causes(self, *, newly: bool) -> list[str]:
        """The cause of each wrong answer, or of each change; empty where it is unknown."""
        names: list[str] = list(Cause)
        try:
            if newly and len(self.table) > MAX_QUESTIONS:
                return [""] * len(self.rows)  # reading all outputs of both runs takes long
            if newly:
                codes = self.table.changes(self.rule.changes_by)
            else:
                known, codes = self.table.causes("", len(self.table.runs) - 1)
                names = list(known)
        except BadValueError:
            return [""] * len(self.rows)
        return [["", *names][code] for code in codes[self.rows].tolist()]


def _terms(samples: SampleColumns, position: int) -> Iterator[str]:
    """The terms of a sample, as conditions."""
    for term in content_terms(samples.question(position)):
        yield f"term={term}"
    for name, (groups, codes) in samples.labels.items():
        for value in groups[codes[position]]:
            yield _label_condition(name, value)


@lru_cache(maxsize=4096)
def _label_condition(name: str, value: str) -> str:
    return str(Condition("label", name, value=value))


# --- failure groups as blocks ---------------------------------------------------------------------------------------


def failure_groups_blocks(found: FailureGroups) -> list[Block]:
    """Groups of wrong answers as tables, and what can be concluded about those that are not shown."""

    blocks: list[Block] = [Prose(f"Right is {found.correct}.")]
    for listed in found.lists:
        blocks.append(Prose(listed.sentence))
        if listed.groups:
            blocks.append(without_empty_columns(_groups_table(listed.groups)))
            blocks.append(Bullets([_group_examples(group) for group in listed.groups]))
    return [*blocks, Prose(METHOD), Prose(LIMITS, tone="muted")]


def _groups_table(groups: Sequence[FailureGroup]) -> Table:
    rows: list[Row] = []
    for group in groups:
        tested, change = group.tested, group.change
        causes = ", ".join(f"{name} {count}" for name, count in group.causes.items())
        rows.append(
            [
                ", ".join(group.terms[:4]),
                f"{tested.count} of {tested.n}",
                value_text(tested.value),
                interval_text(tested.interval),
                "" if change is None else f"{signed(change.value)} ({interval_text(change.interval)})",
                p_text(group.p_value),
                f"{group.wrong} of {group.members}",
                causes,
            ]
        )
    names = ("terms", "wrong", "proportion", "95 % interval", "B − A", "p", "all failures", "causes")
    return simple_table([TableColumn(name, number=0 < place < 7) for place, name in enumerate(names)], rows)


def _group_examples(group: FailureGroup) -> str:
    listed = "; ".join(
        f"{example['sample_id']}: {' '.join(example['query'].split())[:100]}" for example in group.examples
    )
    return f"{group.terms[0]}: {listed}"
