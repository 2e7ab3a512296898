"""Filters of queries: conditions on columns of stored runs, search and order.

A condition is a text such as ``token_f1<0.5``, the same in an address of the workbench and on the command line:

===========================================  ==========================================================================
``METRIC<0.5``                               the score in the last run; ``<``, ``<=``, ``>``, ``>=``, ``=`` and ``!=``
``A.METRIC<0.5``, ``diff.METRIC>0``          the score in run A; the last run minus run A
``METRIC=scored``                            also ``skipped``, ``failed``, ``failed:REASON``, ``absent``
``METRIC=better``                            from run A to the last: ``better``, ``worse``, ``same``, ``changed``
``METRIC=both-right``                        also ``a-only``, ``b-only``, ``both-wrong``, each with ``:THRESHOLD``
``cause=retriever``                          also ``dropped``, ``below-cut``, ``generator``, ``refused``, ``failed``:
                                             the cause of a wrong answer; ``cause.METRIC=`` of one attribution
``change=lost``                              the cause of a change, or ``change.METRIC=`` by one metric
``answer=failed``                            also ``missing``, ``empty``, ``refused``, ``answered``, ``none``
``rank<=5``, ``rank=none``                   the rank of the first gold document
``hit=miss``                                 also ``hit``; ``win``, ``loss``, ``draw``, ``lost``, ``gained``
``seconds>2``, ``seconds.search>1``          the timing ``end_to_end``, or another one
``label.NAME=VALUE``, ``cluster=ID``,        also with ``!=``; ``set`` names a saved set of samples
``id=ID``, ``set=NAME``
``term=WORD``                                also with ``!=``: a word of the question, or two neighbouring ones
                                             without stop words between them
===========================================  ==========================================================================

Names and values may be quoted; a quoted name is always a metric. ``A.`` and ``B.`` work for all that belongs to a run.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from ..compare.queries import Cause, opposite_cause
from ..core.scores import Status
from ..core.slices import Rows
from ..errors import BadValueError, did_you_mean
from ..io.sample_sets import SampleSet, content_fingerprint
from ..stats.intervals import Bools, Floats
from ..store.runs import iter_samples
from .columns import ABSENT, ANSWERS, SECONDS
from .table import HITS, QueryTable

_MAX_CONDITIONS = 50
_NUMBERS = re.compile(r"(\d+)")
TERM = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*"?)+')
"""A word, with what is in quotes."""
CAUSE_GROUPS = {
    "retriever": ("not_returned",),
    "dropped": ("not_returned",),
    "below-cut": ("below_cut",),
    "generator": ("contradicts_context", "unused"),
    "refused": ("refused",),
    "failed": ("system_failed",),
}
"""Words for the causes of wrong answers, and the causes of ``failure_attribution`` that they stand for.

``not_returned`` is two of them: ``dropped`` where a step of the system returned a gold document that is not in the
final ranking, else ``retriever``.
"""

# --- conditions ------------------------------------------------------------------------------------------------------

_OPERATOR = re.compile(r"<=|>=|!=|<|>|=")
_OPENING_QUOTE = re.compile(r"(?:^|\.)['\"]")
_RUN_FIELDS = ("cause", "answer", "rank", "hit", "seconds")
"""Fields of a run, which ``A.`` may precede."""
_SAMPLE_FIELDS = ("label", "term", "cluster", "id", "set")
"""Fields of samples, which no run changes."""
_FIELDS = (*_RUN_FIELDS, "change", *_SAMPLE_FIELDS)
_NAMED = ("label", "seconds", "cause", "change")
"""Fields that a name may follow, as in ``label.lang``."""
_OUTCOMES = {
    "scored": (Status.SCORED,),
    "skipped": (Status.SKIPPED,),
    "failed": (Status.SYSTEM_FAILED, Status.MEASURE_FAILED),
    "system-failed": (Status.SYSTEM_FAILED,),
    "measure-failed": (Status.MEASURE_FAILED,),
    "absent": (ABSENT,),
}
_CHANGES = {"better": (1,), "worse": (-1,), "same": (0,), "changed": (1, -1)}
_PAIRS = {"both-right": (True, True), "a-only": (True, False), "b-only": (False, True), "both-wrong": (False, False)}
_HIT_CODES: dict[str, tuple[int, ...]] = {name: (1 + place,) for place, name in enumerate(HITS)}
_HIT_CODES |= {"win": (1, 5), "lost": _HIT_CODES["regression"]}
_WORDS: dict[str, Sequence[str]] = {
    "metric": (*_OUTCOMES, *_CHANGES, *_PAIRS),
    "rank": ("none",),
    "answer": ANSWERS,
    "hit": ("hit", "miss", *_HIT_CODES),
    "change": [cause.value.replace("_", "-") for cause in Cause],
}
"""The values of fields that are words."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on queries; ``str`` gives the text that ``parse_condition`` reads."""

    field: str
    """``metric`` or one of the fields in the table above."""
    name: str = ""
    """The name of the metric, label or timing."""
    run: str = ""
    """The letter of a run; ``diff`` for the difference; empty for the last run."""
    operator: str = "="
    value: str = ""

    def __str__(self) -> str:
        return f"{self.key}{self.operator}{quote_value(self.value)}"

    @property
    def key(self) -> str:
        """The text before the operator, which is a sort key, too."""
        run, parts = f"{self.run}." if self.run else "", (self.field, self.name, self.run)
        if self.field == "metric":
            return f"{run}{self.name if _reads_as(f'{run}{self.name}', parts) else quote(self.name)}"
        text = f"{run}{self.field}.{self.name}" if self.name else f"{run}{self.field}"
        return text if _reads_as(text, parts) else f"{run}{self.field}.{quote(self.name)}"

    @property
    def word(self) -> str:
        """The value before a colon, in lower case with hyphens."""
        return self.value.partition(":")[0].strip().lower().replace("_", "-")

    @property
    def reads_outputs(self) -> bool:
        """Whether it depends on more than the scores and the samples of the runs."""
        return self.field in (*_RUN_FIELDS, "change")

    def mask(self, table: QueryTable) -> Bools:
        """Which queries of a table fulfil the condition."""
        if self.field in _SAMPLE_FIELDS:
            return self._negated(self._with_text(table))
        run = table.run_number("" if self.run == "diff" else self.run)
        match self.field:
            case "metric":
                return self._metric_mask(table, run)
            case "rank":
                return self._rank_mask(table.ranks(run))
            case "seconds":
                return self._compare(table.seconds(self.name or SECONDS, run))
            case "cause":
                return self._negated(self._cause_mask(table, run))
            case "change":
                cause = Cause(self.word.replace("-", "_"))
                return self._negated(table.changes(self.name) == 1 + list(Cause).index(cause))
            case "answer":
                states = table.states(run, refusals=self.word in ("refused", "answered"))
                return self._negated(states == ANSWERS.index(self.word))
        if self.word in ("hit", "miss"):
            ranks = table.ranks(run)
            return self._negated(np.isfinite(ranks) if self.word == "hit" else np.isinf(ranks))
        return self._negated(np.isin(table.first_hits(), _HIT_CODES[self.word]))

    def _negated(self, mask: Bools) -> Bools:
        return ~mask if self.operator == "!=" else mask

    def _with_text(self, table: QueryTable) -> Bools:
        if self.field == "label":
            return table.with_label(self.name, self.value)
        if self.field == "term":
            return table.with_term(self.value)
        if self.field == "cluster":
            return table.in_cluster(self.value)
        return table.with_ids(table.sample_set(self.value).ids if self.field == "set" else [self.value])

    def outcome_runs(self, table: QueryTable) -> set[str]:
        """Ids of the runs whose outputs or scores decide which queries fulfil the condition."""
        if self.field in _SAMPLE_FIELDS:
            return set(table.sample_set(self.value).runs) if self.field == "set" else set()
        compared = {"metric": (*_CHANGES, *_PAIRS), "hit": (*_HIT_CODES,)}.get(self.field, ())
        if self.run == "diff" or self.field == "change" or self.word in compared:
            return {table.runs[0].record.run_id, table.runs[-1].record.run_id}
        return {table.runs[table.run_number(self.run)].record.run_id}

    def _cause_mask(self, table: QueryTable, run: int) -> Bools:
        known, codes = table.causes(self.name, run)
        names = CAUSE_GROUPS.get(self.word) or (self.word.replace("-", "_"),)
        if not any(name in known for name in names):
            listed = list(dict.fromkeys([*CAUSE_GROUPS, *known]))
            hint = did_you_mean(self.value, listed)
            raise BadValueError(f"there is no cause '{self.value}'{hint}; the values are {', '.join(listed)}")
        found = np.isin(codes, [known[name] for name in names if name in known])
        if self.word in ("retriever", "dropped") and found.any():
            found &= table.dropped(run) == (self.word == "dropped")
        return found

    def _rank_mask(self, ranks: Floats) -> Bools:
        if self.word == "none":
            return self._negated(np.isinf(ranks)) & ~np.isnan(ranks)
        return self._compare(ranks) & np.isfinite(ranks)

    def _metric_mask(self, table: QueryTable, run: int) -> Bools:
        if self.run == "diff":
            return self._compare(table.difference(self.name))
        detail = unquote(self.value.partition(":")[2].strip())
        if self.word in _CHANGES:
            return self._negated(np.isin(table.change(self.name), _CHANGES[self.word]))
        if self.word in _PAIRS:
            table.require_comparable(self.name, self.word)
            threshold = _number(detail) if detail else None
            first, last = (table.right(self.name, place, threshold) for place in (0, len(table.runs) - 1))
            known = ~np.isnan(table.values(self.name, 0)) & ~np.isnan(table.values(self.name, len(table.runs) - 1))
            in_first, in_last = _PAIRS[self.word]
            return self._negated(known & (first == in_first) & (last == in_last))
        if self.word in _OUTCOMES:
            mask = np.isin(table.status(self.name, run), _OUTCOMES[self.word])
            column = table.scores(self.name, run)
            if detail and column is not None:
                codes = [code for code, reason in enumerate(column.reasons) if reason == detail]
                mask = mask & np.isin(table.spread(run, column.reason_codes, 0), codes)
            return self._negated(mask)
        return self._compare(table.values(self.name, run))

    def _compare(self, values: Floats) -> Bools:
        """Compare numbers; NaN fulfils nothing. Values that are equal when shown with 9 digits are equal."""
        number = _number(self.value)
        equal = np.isclose(values, number, rtol=1e-9, atol=1e-12)
        with np.errstate(invalid="ignore"):
            found: Bools = {
                "=": equal,
                "!=": ~equal,
                "<": (values < number) & ~equal,
                "<=": (values < number) | equal,
                ">": (values > number) & ~equal,
                ">=": (values > number) | equal,
            }[self.operator]
        return found & ~np.isnan(values)


def parse_condition(text: str) -> Condition:
    """Parse a condition such as ``token_f1<0.5``; an error says what is wrong and what is allowed."""
    split = split_condition(text)
    if split is None:
        raise BadValueError(
            f"'{_short(text)}' is not a condition; write a name, an operator (< <= > >= = !=) and a value, such as "
            "token_f1<0.5, answer=failed or label.lang=de"
        )
    left, operator, right = split
    field, name, run = parse_name(left)
    value = unquote(right)
    condition = Condition(field, name, run, operator, value)
    if not value:
        raise BadValueError(f"'{_short(text)}' has no value after {operator}")
    _check(condition, text, quoted=right[:1] in ("'", '"'))
    return condition


def parse_name(text: str) -> tuple[str, str, str]:
    """Field, name and run of the left side of a condition, or of a sort key."""
    run, dot, rest = text.partition(".")
    if not (dot and rest and (run == "diff" or re.fullmatch("[A-Z]", run))):
        run, rest = "", text
    field, dot, name = rest.partition(".")
    if rest[:1] in ("'", '"'):
        return "metric", unquote(rest), run
    if field in _NAMED and dot and name:
        return field, unquote(name), run
    return (rest, "", run) if rest in _FIELDS else ("metric", rest, run)


def split_condition(text: str) -> tuple[str, str, str] | None:
    """Name, operator and value; operators in quotes and brackets belong to the name."""
    at, depth, end = 0, 0, len(text)
    while at < end:
        character = text[at]
        if character in "'\"" and (at == 0 or text[at - 1] == "."):
            closing = _closing_quote(text, at)
            at = at + 1 if closing is None else closing + 1
            continue
        depth += (character == "[") - (character == "]")
        found = _OPERATOR.match(text, at) if depth <= 0 else None
        if found is not None:
            left, right = text[:at].strip(), text[found.end() :].strip()
            return (left, found[0], right) if left else None
        at += 1
    return None


def _closing_quote(text: str, start: int) -> int | None:
    at = start + 1
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == text[start]:
            return at
        at += 1
    return None


def unquote(text: str) -> str:
    """A text without the quotes around it and the signs that escape others in it."""
    if len(text) >= 2 and text[0] in "'\"" and _closing_quote(text, 0) == len(text) - 1:
        return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
    return text


def quote(text: str) -> str:
    """A text in quotes, which ``unquote`` takes away."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def quote_value(text: str) -> str:
    """The value of a condition, in quotes where it would be read as another one."""
    return quote(text) if text != text.strip() or text[:1] in ("'", '"', "=") else text


def _reads_as(left: str, expected: tuple[str, str, str]) -> bool:
    """Whether the left side of a condition is read as this field, name and run, whatever its value."""
    if _OPENING_QUOTE.search(left):
        return False  # its closing quote may be in the value
    split = split_condition(f"{left}=1")
    return split is not None and split[1:] == ("=", "1") and parse_name(split[0]) == expected


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise BadValueError(f"'{_short(text)}' is not a number")
    return number


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:79]}…"


def _check(condition: Condition, text: str, *, quoted: bool) -> None:
    """Raise if operator, value and field do not fit."""
    field, ordered = condition.field, condition.operator not in ("=", "!=")
    words = () if condition.run == "diff" else _WORDS.get(field, ())
    where = f"'{_short(text)}': "
    if condition.run and field not in ("metric", *_RUN_FIELDS):
        raise BadValueError(f"{where}{field} does not belong to a run; leave out {condition.run}.")
    if condition.run == "diff" and field != "metric":
        raise BadValueError(f"{where}only metrics have a difference; write diff.METRIC")
    if field == "label" and not condition.name:
        raise BadValueError(f"{where}write label.NAME=VALUE")
    numeric = field in ("metric", "rank", "seconds")
    if ordered and not numeric:
        raise BadValueError(f"{where}{field} has no order; write = or !=")
    if field in (*_SAMPLE_FIELDS, "cause"):
        return
    if not ordered and condition.word in words and not quoted:
        return
    if numeric:
        with suppress(BadValueError):
            _number(condition.value)
            return
    wanted = "a number" if numeric and (ordered or not words) else "a number, or one of" if numeric else "one of"
    listed = "" if ordered or not words else f" {', '.join(dict.fromkeys(words))}"
    hint = "" if ordered else did_you_mean(condition.word, words)
    raise BadValueError(f"{where}'{_short(condition.value)}' should be {wanted}{listed}{hint}")


# --- order -----------------------------------------------------------------------------------------------------------


def sort_rows(table: QueryTable, sort: str) -> Rows:
    """All rows in the order of a sort key."""
    return table.cached(("order", sort), lambda: _sort(table, sort))


def _sort(table: QueryTable, sort: str) -> Rows:
    key = sort.removeprefix("-")
    if key in ("", "order"):
        rows = np.arange(len(table))
        return rows if sort == key else rows[::-1]
    values = _sort_values(table, key)
    # Queries without a value are last in either direction.
    return np.argsort(np.where(np.isfinite(values), -values if sort != key else values, np.inf), kind="stable")


def _sort_values(table: QueryTable, key: str) -> Floats:
    if key == "id":
        return _text_order([_id_key(sample_id) for sample_id in table.ids])
    if key == "question":
        return _text_order(_questions(table))
    field, name, letter = parse_name(key)
    run = table.run_number("" if letter == "diff" else letter)
    match field:
        case "rank":
            return table.ranks(run)
        case "seconds":
            return table.seconds(name or SECONDS, run)
        case "metric":
            return table.difference(name) if letter == "diff" else table.values(name, run)
    raise BadValueError(
        f"cannot sort by '{key}'; sort by order, id, question, rank, seconds or a metric, with - for descending"
    )


def _id_key(sample_id: str) -> list[int | str]:
    """An id as people count: q2 before q10."""
    parts: list[int | str] = [*_NUMBERS.split(sample_id)]
    parts[1::2] = [int(number) for number in parts[1::2]]
    return parts


def _questions(table: QueryTable) -> list[str]:
    """The questions in lower case."""
    texts = [""] * len(table)
    for number, run in reversed(list(enumerate(table.runs))):
        for place, row in enumerate(table.spread_rows(number).tolist()):
            texts[row] = run.samples.searched[place].partition("\n")[2]
    return texts


def _text_order(texts: Sequence[Any]) -> Floats:
    """The place of each element when they are sorted."""
    places = np.empty(len(texts))
    places[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
    return places


# --- a whole filter --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SampleFilter:
    """A search text, conditions and a sort key, as in an address or on the command line."""

    search: str = ""
    conditions: tuple[Condition, ...] = field(default=())
    sort: str = ""

    @classmethod
    def parse(cls, search: str = "", where: Iterable[str] = (), sort: str = "") -> Self:
        """A filter from texts; a condition that is given twice counts once."""
        texts = list(dict.fromkeys(where))
        if len(texts) > _MAX_CONDITIONS:
            raise BadValueError(f"a filter has at most {_MAX_CONDITIONS} conditions, not {len(texts):,}")
        return cls(search.strip(), tuple(dict.fromkeys(map(parse_condition, texts))), "" if sort == "order" else sort)

    def with_condition(self, condition: Condition) -> Self:
        """The filter with a further condition, unless it has it."""
        return replace(self, conditions=tuple(dict.fromkeys([*self.conditions, condition])))

    def with_typed(self) -> Self:
        """The filter with the conditions among the words of its search; what is in quotes stays a phrase."""
        words: list[str] = []
        conditions = list(self.conditions)
        for term in TERM.findall(self.search):
            if term.startswith('"') or split_condition(term) is None:
                words.append(term)
            else:
                conditions.append(parse_condition(term))
        if len(conditions) == len(self.conditions):
            return self
        return replace(self, search=" ".join(words), conditions=tuple(dict.fromkeys(conditions)))

    def to_params(self) -> list[tuple[str, str]]:
        """The parameters of an address."""
        params = [("q", self.search)] if self.search else []
        params += [("where", str(condition)) for condition in self.conditions]
        return params + ([("sort", self.sort)] if self.sort else [])

    def to_command(self, store: str, runs: Sequence[str], *, limit: int | None = None) -> str:
        """The command that prints the same list, quoted for a shell."""
        words = ["auepora", "queries", *runs]
        words += ["--search", self.search] if self.search else []
        for condition in self.conditions:
            words += ["--where", str(condition)]
        if self.sort:
            words.append(f"--sort={self.sort}")
        words += [] if limit is None else ["-n", str(limit)]
        return shlex.join([*words, "--store", store])

    def rows(self, table: QueryTable, *, outputs: bool = True) -> Rows:
        """The numbers of the rows of a table that fulfil the filter, in order.

        Without ``outputs``, the search leaves out outputs that have not been read.
        """
        ordered = sort_rows(table, self.sort)
        kept = table.search(self.search, outputs=outputs)
        for condition in self.conditions:
            mask = condition.mask(table)
            kept = mask if kept is None else kept & mask
        return ordered if kept is None else ordered[kept[ordered]]

    @property
    def reads_outputs(self) -> bool:
        """Whether conditions or order depend on more than the scores and the samples of the runs."""
        key = parse_name(self.sort.removeprefix("-"))[0]
        return key in _RUN_FIELDS or any(condition.reads_outputs for condition in self.conditions)

    def rows_without_outputs(self, table: QueryTable) -> Rows | None:
        """The rows as far as they are known before the outputs are read; ``None`` if conditions or order need them."""
        return None if self.reads_outputs else self.rows(table, outputs=False)

    def outcome_runs(self, table: QueryTable) -> set[str]:
        """Ids of the runs whose outputs or scores select the queries; a search reads the answers of all runs."""
        searched = {run.record.run_id for run in table.runs if self.search}
        return searched.union(*(condition.outcome_runs(table) for condition in self.conditions))

    def make_set(self, table: QueryTable, name: str, *, reason: str = "", created_by: str = "") -> SampleSet:
        """The queries that fulfil the filter as a set; all must be in the dataset of the last run."""
        wanted = np.zeros(len(table), np.bool_)
        wanted[self.rows(table)] = True
        rows, last = np.flatnonzero(wanted).tolist(), table.runs[-1]
        places = dict(zip(table.spread_rows(len(table.runs) - 1).tolist(), range(len(table)), strict=False))
        if missing := [table.ids[row] for row in rows if row not in places]:
            raise BadValueError(
                f"{last.record.run_id} lacks {len(missing)} of the queries, such as '{missing[0]}'; list one run, or "
                "runs on the same dataset"
            )
        samples = iter_samples(last.store, last.record.run_id, positions={places[row] for row in rows})
        return SampleSet(
            name=name,
            ids=tuple(table.ids[row] for row in rows),
            reason=reason.strip(),
            search=self.search,
            where=tuple(map(str, self.conditions)),
            runs=tuple(sorted(self.outcome_runs(table))),
            fingerprint=content_fingerprint(samples),
            dataset=last.record.fingerprint,
            created_by=created_by.strip(),
        )


# --- the same queries when two runs change places --------------------------------------------------------------------

_SWAPPED_WORDS = {"better": "worse", "a-only": "b-only"}
_SWAPPED_WORDS |= {new: old for old, new in _SWAPPED_WORDS.items()}
_SWAPPED_HITS = {"lost": "gained", "regression": "gained", "gained": "lost", "draw": "draw"}


def swap_runs(found: SampleFilter) -> SampleFilter:
    """The filter that gives the same queries when the runs A and B change places.

    Conditions that cannot be turned round are left out: ``hit=win`` and ``hit=loss``.
    """
    swapped = [_swap_condition(condition) for condition in found.conditions]
    kept = tuple(condition for condition in swapped if condition is not None)
    return SampleFilter(found.search, kept, _swap_sort(found.sort))


def _swap_condition(condition: Condition) -> Condition | None:
    if condition.field in _SAMPLE_FIELDS:
        return condition
    if condition.run == "diff":
        value = "0" if float(condition.value) == 0 else f"-{condition.value}".replace("--", "").replace("-+", "-")
        return replace(condition, operator=condition.operator.translate(str.maketrans("<>", "><")), value=value)
    if condition.field == "change":
        return replace(condition, value=opposite_cause(Cause(condition.word.replace("-", "_"))).value)
    if condition.field == "metric" and condition.word in (*_CHANGES, *_PAIRS):
        _, colon, detail = condition.value.partition(":")
        return replace(condition, value=f"{_SWAPPED_WORDS.get(condition.word, condition.word)}{colon}{detail}")
    if condition.field == "hit" and condition.word not in ("hit", "miss"):
        return replace(condition, value=_SWAPPED_HITS[condition.word]) if condition.word in _SWAPPED_HITS else None
    return replace(condition, run="" if condition.run == "A" else "A")


def _swap_sort(sort: str) -> str:
    key = sort.removeprefix("-")
    if key in ("", "order", "id", "question"):
        return sort
    field, name, run = parse_name(key)
    if run == "diff":
        return key if sort != key else f"-{key}"
    text = Condition(field, name, "" if run == "A" else "A").key
    return sort.replace(key, text)
