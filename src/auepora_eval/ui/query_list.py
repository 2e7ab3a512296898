"""The queries of one or two runs, with search, filters and order; as a page, or as a part of other pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import urlencode

import numpy as np
from starlette.datastructures import QueryParams
from starlette.responses import RedirectResponse, Response

from ..compare.columns import ANSWERS, SECONDS, RunColumns, read_samples
from ..compare.filters import (
    CAUSE_GROUPS,
    Condition,
    QueryRow,
    SampleFilter,
    list_rows,
    parse_condition,
    parse_name,
    shown_metrics,
)
from ..compare.queries import Cause, opposite_cause
from ..compare.query_table import QueryTable
from ..compare.stores import chunker_versions
from ..core.slices import Rows
from ..errors import BadValueError
from ..io.sample_sets import load_sample_set, sample_set_names
from ..render.html import UncutText, pluralize, value_text
from ..runtime.processes import DaemonThreadPool
from ..store.records import RunRecord
from .page_request import PageRequest, page_route
from .workbench import Workbench, make_url, render_template

PAGE_SIZE = 50
_MAX_COMMAND_ROWS = 10_000
"""The number of queries that the copied command lists."""
_MAX_VALUES = 80
"""The number of values of a label that are suggested."""
_FRAGMENT_SECONDS = 0.04
"""How long a fragment waits for all rows before it shows those that are known."""
_OUTCOMES = ("scored", "skipped", "failed", "absent")
_PAIR_VALUES = ("better", "worse", "same", "changed", "both-right", "a-only", "b-only", "both-wrong")
_HIT_VALUES = ("win", "loss", "draw", "lost", "gained")

# --- tables of queries, through the cache ----------------------------------------------------------------------------


def query_table(workbench: Workbench, records: Sequence[RunRecord]) -> QueryTable:
    """The queries of some runs. Reading their outputs begins in a thread, so that search and filters are fast soon."""
    runs = [run_columns(workbench, record) for record in records]
    for run in runs:
        run.prepare()
    return runs[-1].table_of(runs, partial(QueryTable, find_set=partial(load_sample_set, workbench.labels)))


def run_columns(workbench: Workbench, record: RunRecord) -> RunColumns:
    """The columns of a run."""
    read = partial(read_samples, workbench.store, record)
    shared = partial(
        workbench.cached, (record.fingerprint, "sample columns"), read, size=lambda columns: columns.nbytes
    )
    return workbench.cached(
        (record.run_id, workbench.version(record), "columns"),
        lambda: RunColumns(workbench.store, record, samples=shared),
        size=lambda columns: columns.nbytes,
    )


def records_of(workbench: Workbench, params: QueryParams) -> list[RunRecord]:
    """The one or two runs of an address."""
    records = [workbench.find(one) for one in params.getlist("run")]
    if not records:
        raise BadValueError("the address needs the parameter 'run', the id of a run; a second one compares two")
    if len({one.run_id for one in records}) < len(records):
        raise BadValueError("the parameter 'run' names the same run twice; name each run once")
    if len(records) > 2:
        raise BadValueError(f"the address names {len(records)} runs; a list shows the queries of one run or of two")
    return records


def chunks_note(records: Sequence[RunRecord]) -> str:
    """A sentence where two runs are known to have different chunks; else empty."""
    if len(records) < 2 or None in (versions := chunker_versions(*records)) or versions[0] == versions[1]:
        return ""
    return (
        f"The runs have different chunks (chunker_version {versions[0]} and {versions[1]}): metrics that go by the ids "
        "of chunks cannot be compared."
    )


# --- the same queries when two runs change places --------------------------------------------------------------------

_SWAPPED_WORDS = {"better": "worse", "a-only": "b-only"}
_SWAPPED_WORDS |= {new: old for old, new in _SWAPPED_WORDS.items()}
_SWAPPED_HITS = {"lost": "gained", "regression": "gained", "gained": "lost", "draw": "draw"}


def swap_runs(found: SampleFilter) -> SampleFilter:
    """The filter that gives the same queries when the runs A and B change places.

    Conditions that cannot be turned round are left out: ``hit=win`` and ``hit=loss``.
    """
    swapped = (_swap_condition(one) for one in found.conditions)
    return SampleFilter(found.search, tuple(one for one in swapped if one is not None), _swap_sort(found.sort))


def _swap_condition(one: Condition) -> Condition | None:
    if one.field in ("label", "cluster", "id", "set"):
        return one
    if one.run == "diff":
        value = "0" if float(one.value) == 0 else f"-{one.value}".replace("--", "").replace("-+", "-")
        return replace(one, operator=one.operator.translate(str.maketrans("<>", "><")), value=value)
    if one.field == "change":
        return replace(one, value=opposite_cause(Cause(one.word.replace("-", "_"))).value)
    if one.field == "metric" and one.word in _PAIR_VALUES:
        _, colon, detail = one.value.partition(":")
        return replace(one, value=f"{_SWAPPED_WORDS.get(one.word, one.word)}{colon}{detail}")
    if one.field == "hit" and one.word not in ("hit", "miss"):
        return replace(one, value=_SWAPPED_HITS[one.word]) if one.word in _SWAPPED_HITS else None
    return replace(one, run="" if one.run == "A" else "A")


def _swap_sort(sort: str) -> str:
    key = sort.removeprefix("-")
    if key in ("", "order", "id", "question"):
        return sort
    field, name, run = parse_name(key)
    if run == "diff":
        return key if sort != key else f"-{key}"
    text = Condition(field, name, "" if run == "A" else "A").key
    return sort.replace(key, text)


# --- the page --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FilterLink:
    """A link that changes the filter."""

    text: str
    url: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class ListColumn:
    """A column of the list; ``order`` is the value of ``aria-sort``."""

    title: str
    url: str = ""
    order: str = "none"
    note: str = ""


@dataclass(frozen=True, slots=True)
class ListCell:
    """A score, rank or answer in the list."""

    text: str
    tone: str = ""
    word: str = ""
    """Read to users of a screen reader after the text."""


class QueryListPage:
    """What one address of the list shows."""

    def __init__(self, request: PageRequest) -> None:
        self.workbench, params = request.workbench, request.parameters
        self.records = records_of(self.workbench, params)
        self.runs = [one.run_id for one in self.records]
        self.filter = SampleFilter.from_params(params)
        self.table = query_table(self.workbench, self.records)
        self.error = ""
        """Why the condition of the menu is left out."""
        self.is_partial = False
        """Whether outputs are still being read, so that rows may be missing."""
        self._waits = "fragment" not in params or "wait" in params
        try:
            added = _with_addition(self.filter, params)
            self.rows, self.filter = self._find_rows(added), added
        except BadValueError as error:
            if not ("add" in params and "fragment" in params):
                raise
            self.rows, self.error = self._find_rows(self.filter), str(error)
        self.pages = max(1, -(-len(self.rows) // PAGE_SIZE))
        self.page = min(params.page(), self.pages)
        self.metrics = shown_metrics(self.table, self.filter.conditions, self.filter.sort)
        self.has_gold = any(run.samples.has_gold.any() for run in self.table.runs)

    def _find_rows(self, found: SampleFilter) -> Rows:
        self.is_partial = False
        if self._waits:
            return found.rows(self.table)
        is_ready = not (found.search or found.reads_outputs) or all(run.has_outputs for run in self.table.runs)
        rows = _rows_within(self.table, found, _FRAGMENT_SECONDS) if is_ready else None
        if rows is None:
            self.is_partial = True
            rows = found.rows_without_outputs(self.table)
        return np.zeros(0, np.intp) if rows is None else rows

    def url(self, found: SampleFilter | None = None, *, page: int = 1) -> str:
        """The address of the list with a filter."""
        return UncutText(f"{make_url('/queries', run=self.runs)}&{self.encode(found, page=page)}".rstrip("&"))

    def encode(self, found: SampleFilter | None = None, *, page: int = 1) -> str:
        """A filter as parameters of an address."""
        params = (self.filter if found is None else found).to_params()
        return UncutText(urlencode(params + ([("page", str(page))] if page > 1 else []), errors="replace"))

    @property
    def title(self) -> str:
        """The runs by name."""
        names = [one.name for one in self.records]
        if len(names) == 1:
            return f"Queries of {names[0]}"
        return "Queries of " + " and ".join(
            f"{letter}: {name}" for letter, name in zip(self.table.letters, names, strict=True)
        )

    @property
    def count(self) -> str:
        """How many queries are listed."""
        total = pluralize(len(self.table), "query", "queries")
        if self.is_partial:
            return f"{len(self.rows):,} of {total} so far"
        if self.filter.search or self.filter.conditions:
            return f"{len(self.rows):,} of {total}"
        return total

    @property
    def saved_count(self) -> str:
        """How many queries a set would have."""
        return pluralize(len(self.rows), "query", "queries")

    @property
    def reads_outcomes(self) -> bool:
        """Whether outputs or scores of a run decide which queries are listed."""
        return bool(self.filter.outcome_runs(self.table))

    @property
    def chips(self) -> list[FilterLink]:
        """The conditions, each with the address without it."""
        conditions = self.filter.conditions
        found = []
        for place, one in enumerate(conditions):
            rest = replace(self.filter, conditions=(*conditions[:place], *conditions[place + 1 :]))
            found.append(FilterLink(str(one), self.url(rest), f"Remove the filter {one}"))
        return found

    @property
    def clear_url(self) -> str:
        """The address without search and conditions."""
        return self.url(SampleFilter(sort=self.filter.sort))

    @property
    def notes(self) -> list[str]:
        """What the words of the conditions mean, where the runs decide it."""
        notes = [note] if (note := chunks_note(self.records)) else []
        for one in self.filter.conditions:
            if one.field == "metric" and one.word in _PAIR_VALUES[4:] and ":" not in one.value:
                threshold, source = self.table.right_from(one.name)
                notes.append(
                    f"Right means {self.table.metric_labels[one.name]} of {value_text(threshold)} or better, {source}."
                )
        return list(dict.fromkeys(notes))

    @property
    def quick(self) -> list[FilterLink]:
        """Common conditions that the filter does not have yet."""
        found = [
            FilterLink(text, self.url(self.filter.with_condition(condition))) for text, condition in self._suggestions()
        ]
        return [one for one in found if one.url != self.url()]

    def _suggestions(self) -> Iterator[tuple[str, Condition]]:
        last = f" in {self.table.letters[-1]}" if len(self.records) > 1 else ""
        yield f"failed{last}", Condition("answer", value="failed")
        yield f"refused{last}", Condition("answer", value="refused")
        if self.has_gold:
            yield f"no gold document retrieved{last}", Condition("rank", value="none")
        if len(self.records) > 1:
            for name in self.metrics[:1]:
                yield f"{self.table.metric_labels[name]} worse", Condition("metric", name, value="worse")
                yield f"{self.table.metric_labels[name]} better", Condition("metric", name, value="better")
            if self.has_gold:
                yield "gold document lost", Condition("hit", value="lost")
        for name in self.metrics[:1]:
            yield (
                f"{self.table.metric_labels[name]} not scored{last}",
                Condition("metric", name, operator="!=", value="scored"),
            )

    @property
    def sorts(self) -> list[tuple[str, str]]:
        """The sort keys of the menu, with their names."""
        found = [("", "order of the dataset"), ("id", "id"), ("question", "question")]
        found += [("rank", "rank of gold")] if self.has_gold else []
        found.append(("-seconds", "slowest first"))
        for name in self.metrics:
            text = Condition("metric", name).key
            down = "" if self._higher(name) else "-"
            label = self.table.metric_labels[name]
            found.append((f"{down}{text}", f"{label}, worst first"))
            if len(self.records) > 1:
                found.append((f"{down}diff.{text}", f"{label}, largest loss first"))
        if self.filter.sort not in [key for key, _ in found]:
            found.append((self.filter.sort, self.filter.sort))
        return found

    def _higher(self, name: str) -> bool:
        column = next((one for run in reversed(self.table.runs) if (one := run.scores(name)) is not None), None)
        return column is None or column.meta.higher_score_is_better

    # --- the table ---

    @property
    def columns(self) -> list[ListColumn]:
        """The columns after the query."""
        letters = self.table.letters if len(self.records) > 1 else [""]
        found = []
        for letter in letters if self.has_gold else ():
            key = f"{letter}.rank" if letter else "rank"
            found.append(self.column(f"rank {letter}".strip(), key, note="of the first gold document"))
        for name in self.metrics:
            text, higher, label = Condition("metric", name).key, self._higher(name), self.table.metric_labels[name]
            for letter in letters:
                key = f"{letter}.{text}" if letter else text
                found.append(self.column(f"{label} {letter}".strip(), key, worst_low=higher))
            if len(letters) > 1:
                title = f"{label} {letters[-1]} − {letters[0]}"
                found.append(self.column(title, f"diff.{text}", worst_low=higher))
        return found

    def column(self, title: str, key: str, *, worst_low: bool = True, note: str = "") -> ListColumn:
        """A column that can be sorted: the worst first, then the other way round."""
        up, down = key, f"-{key}"
        current = self.filter.sort
        following = {up: down, down: up}.get(current, up if worst_low else down)
        order = {up: "ascending", down: "descending"}.get(current, "none")
        return ListColumn(title, self.url(replace(self.filter, sort=following)), order, note)

    @property
    def listed(self) -> list[dict[str, Any]]:
        """The rows of the page."""
        start = (self.page - 1) * PAGE_SIZE
        rows = list_rows(self.table, self.rows[start : start + PAGE_SIZE].tolist(), self.metrics)
        base = make_url("/query", run=self.runs)
        further = f"&{self.encode()}".rstrip("&")
        return [
            {
                "row": row,
                "url": UncutText(f"{base}&{urlencode({'id': row.sample_id}, errors='replace')}{further}"),
                "states": self._states(row),
                "cells": self._cells(row),
            }
            for row in rows
        ]

    def _states(self, row: QueryRow) -> Iterator[ListCell]:
        """What differs from an answer: a failure, for instance."""
        for letter, side in zip(self.table.letters, row.sides, strict=True):
            if side.answer not in ("answered", "none"):
                run = f"{letter}: " if len(row.sides) > 1 else ""
                words = {"": "not in the dataset", "missing": "no output", "empty": "empty answer"}
                yield ListCell(f"{run}{words.get(side.answer, side.answer)}", "bad" if side.answer == "failed" else "")

    def _cells(self, row: QueryRow) -> Iterator[ListCell]:
        for side in row.sides if self.has_gold else ():
            none = "none" if side.rank == 0 else "no gold"
            yield ListCell(str(side.rank) if side.rank else none, "" if side.rank else "muted")
        for name in self.metrics:
            for side in row.sides:
                value, outcome = side.scores[name], side.outcomes[name].partition(":")[0].replace("_", " ")
                yield (
                    ListCell(value_text(value), "", outcome if outcome == "system failed" else "")
                    if (value is not None)
                    else ListCell(outcome or "absent", "muted")
                )
            if len(row.sides) > 1:
                yield _difference(row.sides[0].scores[name], row.sides[-1].scores[name], row.changes[name])

    # --- the menu ---

    @property
    def fields(self) -> list[tuple[str, list[str]]]:
        """What a condition may be about, and the values that are suggested for it."""
        two = len(self.records) > 1
        found = [("answer", list(ANSWERS)), ("rank", ["none", "1", "5", "10"]), ("hit", ["hit", "miss"])]
        if two:
            found[2][1].extend(_HIT_VALUES)
            found.append(("change", [cause.value.replace("_", "-") for cause in Cause]))
        if any(one.details.get("causes") for run in self.table.runs for one in run.results.values()):
            found.append(("cause", list(CAUSE_GROUPS)))
        found.append(("seconds", []))
        for run in self.table.runs:
            if run.has_outputs:
                found += [(f"seconds.{name}", []) for name in run.outputs.timings if name != SECONDS]
        found += [
            (Condition("label", name).key, self.table.label_values(name)[:_MAX_VALUES]) for name in self.table.labels
        ]
        return [*dict(found).items(), ("cluster", []), ("id", []), ("set", sample_set_names(self.workbench.labels))]

    @property
    def scores(self) -> list[tuple[str, list[str]]]:
        """The metrics that a condition may be about, and the values that are suggested for them."""
        values = [*_OUTCOMES, *(_PAIR_VALUES if len(self.records) > 1 else ())]
        names = (Condition("metric", name).key for name in self.table.metrics)
        found = [(name, values) for name in names]
        if len(self.records) > 1:
            found += [(f"diff.{name}", []) for name, _ in found] + [(f"A.{name}", list(_OUTCOMES)) for name, _ in found]
        return found

    @property
    def command(self) -> str:
        """The command that prints the same list."""
        limit = min(len(self.rows), _MAX_COMMAND_ROWS) if len(self.rows) > PAGE_SIZE else None
        return self.filter.to_command(self.workbench.label, self.runs, limit=limit)

    @property
    def form_fields(self) -> list[tuple[str, str]]:
        """The runs, for forms."""
        return [("run", one) for one in self.runs]


def _rows_within(table: QueryTable, found: SampleFilter, seconds: float) -> Rows | None:
    """The rows of a filter; ``None`` if they take longer. Columns that are being read stay with the table."""
    pool = DaemonThreadPool()
    rows = pool.submit(found.rows, table)
    pool.shutdown()  # its thread ends with the work
    try:
        return rows.result(seconds)
    except TimeoutError:
        return None


def _difference(first: float | None, last: float | None, change: str) -> ListCell:
    if first is None or last is None or not change:
        return ListCell("–", "muted")
    sign = {"better": "▲ ", "worse": "▼ ", "same": "= "}[change]
    tone = {"better": "good", "worse": "bad", "same": "muted"}[change]
    return ListCell(f"{sign}{'+' if last > first else ''}{value_text(last - first)}", tone, change)


def _with_addition(found: SampleFilter, params: QueryParams) -> SampleFilter:
    """The filter with the condition of the menu, where the address has one."""
    name = params.get("add", "")
    if not name:
        return found
    text = f"{name}{params.get('operator', '=')}{params.get('value', '')}"
    return found.with_condition(parse_condition(text))


def queries_page(request: PageRequest) -> Response:
    """The list as a page; with ``fragment=1`` as a part of another page, with ``fragment=results`` without the menu.

    A fragment shows the rows that are known before the outputs are read, unless the address has ``wait=1``.
    """
    found = QueryListPage(request)
    part = request.parameters.get("fragment")
    if "add" in request.parameters and not part:
        return RedirectResponse(found.url(), 303)
    template = {"1": "query_list.html", "results": "query_results.html"}.get(part or "", "queries.html")
    return render_template(request, template, list=found)


ROUTES = [page_route("/queries", queries_page)]
