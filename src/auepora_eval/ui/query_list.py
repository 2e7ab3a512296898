"""The queries of one or two runs, with search, filters and order; as a page, or as a part of other pages."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import attrgetter
from typing import Any
from urllib.parse import urlencode

import numpy as np
from starlette.datastructures import QueryParams
from starlette.responses import RedirectResponse, Response

from ..compare.queries import Cause
from ..compare.stores import chunker_versions
from ..core.slices import Rows
from ..errors import BadValueError
from ..io.sample_sets import load_sample_set, sample_set_names
from ..queries.columns import ANSWERS, SECONDS, RunColumns, read_samples
from ..queries.filters import (
    CAUSE_GROUPS,
    Condition,
    SampleFilter,
    parse_condition,
    parse_name,
)
from ..queries.rows import QueryRow, list_rows, shown_metrics
from ..queries.table import QueryTable
from ..render.html import UncutText, pluralize, value_text
from ..runtime.processes import DaemonThreadPool, return_free_memory
from ..store.records import RunRecord
from .difference_strip import difference_strip, replace_change
from .numbers import with_minus
from .page_request import Fields, PageRequest, page_route
from .reading import DOTS, first_cut_off, read_documents, read_row
from .workbench import Workbench, find_position, make_url, render_template

SIZES = (12, 8, 50, 200)
"""The numbers of queries on a page; the first one unless the address says another, the second one in comparisons."""
SMALL = 5_000
_CHIP_SECONDS = 0.25
"""Of up to so many queries the counts of a page wait so long for the outputs, which are being read."""
_COMMAND_ROWS, _MAX_COMMAND_ROWS = 50, 10_000
"""The number of queries that a command lists by default, and the most that the copied one lists."""
CAUSE_WORDS = {
    Cause.FAILED: "failed in B",
    Cause.REFUSED: "declined in B",
    Cause.LOST: "gold lost",
    Cause.RANKED_LOWER: "ranked lower",
    Cause.ANSWER_CHANGED: "another answer",
    Cause.IGNORED: "made less of gold",
    Cause.CONTEXT_CHANGED: "other documents",
    Cause.UNEXPLAINED: "unexplained",
    Cause.RECOVERED: "failed in A",
    Cause.ANSWERED: "declined in A",
    Cause.FOUND: "gold found",
    Cause.RANKED_HIGHER: "ranked higher",
    Cause.USED: "made more of gold",
}
"""Causes of change as chips name them."""
MAX_LABEL_CHIPS = 6
"""Up to so many values of a label are chips."""
_MAX_VALUES = 80
"""The number of values of a label that are suggested."""
_FRAGMENT_SECONDS = 0.04
"""How long a fragment waits for all rows before it shows those that are known."""
_OUTCOMES = ("scored", "skipped", "failed", "absent")
_PAIR_VALUES = ("better", "worse", "same", "changed", "both-right", "a-only", "b-only", "both-wrong")

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
    shared = partial(workbench.cached, (record.fingerprint, "sample columns"), read, size=attrgetter("nbytes"))
    columns: RunColumns = workbench.cached(
        (record.run_id, workbench.version(record), "columns"),
        partial(RunColumns, workbench.store, record, samples=shared),
        size=attrgetter("nbytes"),
    )
    return columns


def records_of(workbench: Workbench, params: QueryParams) -> list[RunRecord]:
    """The one or two runs of an address."""
    records = [workbench.find(run_id) for run_id in params.getlist("run")]
    if not records:
        raise BadValueError("the address needs the parameter 'run', the id of a run; a second one compares two")
    if len({record.run_id for record in records}) < len(records):
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


# --- the page --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FilterChip:
    """A condition, with the address that adds or removes it."""

    text: str
    url: str
    count: str = ""
    """The number of queries that it gives."""
    is_on: bool = True


@dataclass(frozen=True, slots=True)
class ListCell:
    """A score, rank or answer in the list."""

    text: str
    tone: str = ""
    word: str = ""
    """Read to users of a screen reader after the text."""


class QueryListPage:
    """What one address of the list shows."""

    def __init__(self, request: PageRequest, params: Fields) -> None:
        self.workbench = request.workbench
        self.records = records_of(self.workbench, params)
        self.runs = [record.run_id for record in self.records]
        self.filter = params.sample_filter()
        self.table = query_table(self.workbench, self.records)
        self.error = ""
        """Why the condition of the menu is left out."""
        self.is_partial = False
        """Whether outputs are still being read, so that rows may be missing."""
        self._waits = "fragment" not in params or "wait" in params
        try:
            added = _with_addition(self.filter.with_typed(), params)
            self.rows, self.filter = self._find_rows(added), added
        except BadValueError as error:
            if not ("add" in params and "fragment" in params):
                raise
            self.rows, self.error = self._find_rows(self.filter), str(error)
        if "relax" in params and not len(self.rows) and not self.is_partial:
            self.filter = SampleFilter(sort=self.filter.sort)
            self.rows = self._find_rows(self.filter)
        self.size = params.integer("size", str(SIZES[0]))
        if self.size not in SIZES:
            raise BadValueError(f"size must be one of {', '.join(map(str, sorted(SIZES)))}, not {self.size}")
        self.start = self._find_start(params.get("after", ""))
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

    def _find_start(self, after: str) -> int:
        """The place of the first query of the page; 0 where the list does not have the one before it."""
        row = self.table.row_of(after) if after else None
        places = np.flatnonzero(self.rows == row) if row is not None else np.zeros(0, np.intp)
        return int(places[0]) + 1 if len(places) and places[0] + 1 < len(self.rows) else 0

    def url(self, found: SampleFilter | None = None, *, start: int = 0, size: int | None = None) -> str:
        """The address of the list with a filter, from a place in it on."""
        encoded = self.encode(found, start=start, size=size)
        return UncutText(f"{make_url('/queries', run=self.runs)}&{encoded}".rstrip("&"))

    def encode(self, found: SampleFilter | None = None, *, start: int = 0, size: int | None = None) -> str:
        """A filter as parameters of an address."""
        params = (self.filter if found is None else found).to_params()
        if start > 0:
            params.append(("after", self.table.ids[int(self.rows[start - 1])]))
        if (size or self.size) != SIZES[0]:
            params.append(("size", str(size or self.size)))
        return UncutText(urlencode(params, errors="replace"))

    @property
    def position(self) -> str:
        """Which queries of the list are shown."""
        last = min(self.start + self.size, len(self.rows))
        return f"{self.start + 1:,} – {last:,} of {len(self.rows):,}"

    @property
    def pages(self) -> dict[str, str]:
        """The addresses of the pages before and after this one."""
        found = {}
        if self.start > 0:
            found["previous"] = self.url(start=max(self.start - self.size, 0))
        if self.start + self.size < len(self.rows):
            found["next"] = self.url(start=self.start + self.size)
        return found

    @property
    def sizes(self) -> list[tuple[int, str, bool]]:
        """The numbers of queries on a page, each with its address."""
        least = SIZES[1] if len(self.records) > 1 else SIZES[0]
        return [(size, self.url(size=size), size == self.size) for size in (least, *SIZES[2:])]

    @property
    def title(self) -> str:
        """The runs by name."""
        names = [record.name for record in self.records]
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
    def nearest(self) -> list[tuple[str, int, str]]:
        """The condition without which most queries would be listed, their number, and the address without it."""
        found = []
        for chip, condition in zip(self.chips, self.filter.conditions, strict=True):
            rest = replace(
                self.filter, conditions=tuple(other for other in self.filter.conditions if other != condition)
            )
            found.append((chip.text, len(rest.rows(self.table)), chip.url))
        found.sort(key=lambda option: -option[1])
        return [option for option in found[:1] if option[1]]

    @property
    def chips(self) -> list[FilterChip]:
        """The conditions, each with the address without it."""
        conditions = self.filter.conditions
        found = []
        for place, condition in enumerate(conditions):
            rest = replace(self.filter, conditions=(*conditions[:place], *conditions[place + 1 :]))
            found.append(FilterChip(str(condition), self.url(rest)))
        return found

    @property
    def clear_url(self) -> str:
        """The address without search and conditions."""
        return self.url(SampleFilter(sort=self.filter.sort))

    @property
    def notes(self) -> list[str]:
        """What the words of the conditions mean, where the runs decide it."""
        notes = [note] if (note := chunks_note(self.records)) else []
        for condition in self.filter.conditions:
            if condition.field == "metric" and condition.word in _PAIR_VALUES[4:] and ":" not in condition.value:
                threshold, source = self.table.right_from(condition.name)
                label = self.table.metric_labels[condition.name]
                notes.append(f"Right means {label} of {value_text(threshold)} or better, {source}.")
        return list(dict.fromkeys(notes))

    @property
    def groups(self) -> list[tuple[str, list[FilterChip]]]:
        """Conditions with the number of queries that each gives in the list; of a group one holds at a time."""
        return FilterChips(self).groups

    @property
    def sorts(self) -> list[tuple[str, str]]:
        """The sort keys of the menu, with their names."""
        found = [("", "order of the dataset"), ("id", "id"), ("question", "question")]
        found += [("rank", "rank of gold")] if self.has_gold else []
        found.append(("-seconds", "slowest first"))
        for name in self.metrics:
            text = Condition("metric", name).key
            down = "" if self.is_higher_better(name) else "-"
            label = self.table.metric_labels[name]
            found.append((f"{down}{text}", f"{label}, worst first"))
            if len(self.records) > 1:
                found.append((f"{down}diff.{text}", f"{label}, largest loss first"))
        if self.filter.sort not in [key for key, _ in found]:
            found.append((self.filter.sort, self.filter.sort))
        return found

    @cached_property
    def strip(self) -> dict[str, Any] | None:
        """The differences of two runs by the first metric."""
        name = next(iter(self.metrics), "")
        if len(self.records) < 2 or not name:
            return None

        def url(conditions: Sequence[Condition]) -> str:
            return self.url(replace_change(self.filter, name, conditions))

        return difference_strip(self.table, name, self.rows, url, higher_is_better=self.is_higher_better(name))

    def is_higher_better(self, name: str) -> bool:
        """Whether a higher score of a metric is better."""
        column = self.table.last_scores(name)
        return column is None or column.meta.higher_score_is_better

    # --- the table ---

    @cached_property
    def score_columns(self) -> list[dict[str, str]]:
        """What the order may be by a score: the difference of two runs, else the score."""
        found = []
        for name in self.metrics:
            text = Condition("metric", name).key
            key = f"diff.{text}" if len(self.records) > 1 else text
            found.append(self.column(self.table.metric_labels[name], key, worst_low=self.is_higher_better(name)))
        return found

    @cached_property
    def cut_off(self) -> int | None:
        """The rank at which the dots are divided."""
        found = first_cut_off(self.table.runs)
        return found if found is not None and found < DOTS else None

    def column(self, title: str, key: str, *, worst_low: bool = True, note: str = "") -> dict[str, str]:
        """A column that can be sorted: the worst first, then the other way round; ``order`` is for ``aria-sort``."""
        up, down, current = key, f"-{key}", self.filter.sort
        following = {up: down, down: up}.get(current, up if worst_low else down)
        order = {up: "ascending", down: "descending"}.get(current, "none")
        url = self.url(replace(self.filter, sort=following))
        return {"title": title, "url": url, "order": order, "note": note}

    @property
    def listed(self) -> list[dict[str, Any]]:
        """The rows of the page."""
        numbers = self.rows[self.start : self.start + self.size].tolist()
        rows = list_rows(self.table, numbers, self.metrics)
        base = make_url("/query", run=self.runs)
        parts = make_url("/queries/documents", run=self.runs)
        further = f"&{self.encode()}".rstrip("&")
        found = []
        for row in rows:
            key = urlencode({"id": row.sample_id}, errors="replace")
            found.append(
                {
                    "row": row,
                    "read": read_row(row),
                    "url": UncutText(f"{base}&{key}{further}"),
                    "documents": UncutText(f"{parts}&{key}"),
                    "scores": list(self._scores(row, self.table.metric_labels)),
                }
            )
        return found

    def _scores(
        self, row: QueryRow, labels: Mapping[str, str]
    ) -> Iterator[tuple[str, list[ListCell], ListCell | None]]:
        """Each metric with the score in every run, and the difference of two."""
        for name in self.metrics:
            cells = []
            for side in row.sides:
                value, outcome = side.scores[name], side.outcomes[name].partition(":")[0].replace("_", " ")
                if value is None:
                    cells.append(ListCell("–" if outcome in ("skipped", "") else outcome, "muted", outcome or "absent"))
                else:
                    cells.append(ListCell(f"{value:.2f}", "", outcome if outcome == "system failed" else ""))
            difference = None
            if len(row.sides) > 1:
                difference = _difference(row.sides[0].scores[name], row.sides[-1].scores[name], row.changes[name])
            yield labels[name], cells, difference

    # --- the menu ---

    @property
    def fields(self) -> list[tuple[str, list[str]]]:
        """What a condition may be about, and the values that are suggested for it."""
        two = len(self.records) > 1
        found = [("answer", list(ANSWERS)), ("rank", ["none", "1", "5", "10"]), ("hit", ["hit", "miss"])]
        if two:
            found[2][1].extend(("win", "loss", "draw", "lost", "gained"))
            found.append(("change", [cause.value.replace("_", "-") for cause in Cause]))
        if any(result.details.causes for result in self.table.results.values()):
            found.append(("cause", list(CAUSE_GROUPS)))
        found.append(("seconds", []))
        for run in self.table.runs:
            if run.has_outputs:
                found += [(f"seconds.{name}", []) for name in run.outputs.timings if name != SECONDS]
        found += [
            (Condition("label", name).key, self.table.label_values(name)[:_MAX_VALUES]) for name in self.table.labels
        ]
        return [
            *dict(found).items(),
            ("term", []),
            ("cluster", []),
            ("id", []),
            ("set", sample_set_names(self.workbench.labels)),
        ]

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
        limit = min(len(self.rows), _MAX_COMMAND_ROWS) if len(self.rows) > _COMMAND_ROWS else None
        return self.filter.to_command(self.workbench.label, self.runs, limit=limit)

    @property
    def form_fields(self) -> list[tuple[str, str]]:
        """The runs, for forms."""
        return [("run", run) for run in self.runs]


class FilterChips:
    """Groups of common conditions for the list of a page."""

    def __init__(self, page: QueryListPage) -> None:
        self.page = page
        self.may_read = _has_outputs(page.table, _CHIP_SECONDS if len(page.table) <= SMALL else 0.0)
        """Whether conditions may look at outputs: those of large runs are not waited for."""

    @property
    def groups(self) -> list[tuple[str, list[FilterChip]]]:
        """Conditions with the number of queries that each gives in the list; of a group one holds at a time."""
        groups = [(title, self._chips_of(listed)) for title, listed in self._suggestions()]
        return [(title, chips) for title, chips in groups if chips]

    def _chips_of(self, listed: Sequence[tuple[str, Condition]]) -> list[FilterChip]:
        own = [condition for _, condition in listed]
        others = tuple(condition for condition in self.page.filter.conditions if condition not in own)
        rest = replace(self.page.filter, conditions=others)
        is_ready = self.may_read
        counted = None
        if not self.page.is_partial and (is_ready or not (rest.reads_outputs or rest.search)):
            counted = np.zeros(len(self.page.table), np.bool_)
            counted[rest.rows(self.page.table)] = True
        chips = []
        for text, condition in listed:
            count = None
            if counted is not None and (is_ready or not condition.reads_outputs):
                count = int((condition.mask(self.page.table) & counted).sum())
            is_on = condition in self.page.filter.conditions
            if count == 0 and not is_on:
                continue
            url = self.page.url(rest if is_on else rest.with_condition(condition))
            chips.append(FilterChip(text, url, "" if count is None else f"{count:,}", is_on))
        return chips

    def _suggestions(self) -> Iterator[tuple[str, list[tuple[str, Condition]]]]:
        """Groups of common conditions."""
        two = len(self.page.records) > 1
        last = f" in {self.page.table.letters[-1]}" if two else ""
        name = next(iter(self.page.metrics), "")
        if two and name:
            words = {
                "worse": "▼ Worse",
                "better": "▲ Better",
                "same": "= Same",
                "a-only": "Right in A only",
                "b-only": "Right in B only",
            }
            listed = [(text, Condition("metric", name, value=word)) for word, text in words.items()]
            listed.append(("Not scored", Condition("metric", name, operator="!=", value="scored")))
            yield self.page.table.metric_labels[name], [chip for chip in listed if self._is_valid(chip[1])]
            changes = [Condition("metric", name, value=word) for word in ("worse", "better")]
            is_small = len(self.page.table) <= SMALL
            is_changed = self.may_read and any(change in self.page.filter.conditions for change in changes)
            if is_changed and (is_small or self.page.table.prepare_changes(name)):
                causes = [(CAUSE_WORDS[cause], Condition("change", name, value=cause.value)) for cause in Cause]
                yield "Cause", [cause for cause in causes if self._is_valid(cause[1])]
        if (
            two
            and name
            and any(
                condition.name == name and condition.word in _PAIR_VALUES for condition in self.page.filter.conditions
            )
        ):
            return  # the causes say more
        states = [(f"failed{last}", Condition("answer", value="failed"))]
        states.append((f"declined{last}", Condition("answer", value="refused")))
        if self.page.has_gold:
            states.append((f"no gold{last}", Condition("rank", value="none")))
        if not two:
            if any(result.details.causes for result in self.page.table.runs[0].results.values()):
                states = [(word.replace("-", " "), Condition("cause", value=word)) for word in CAUSE_GROUPS]
                states = [state for state in states if self._is_valid(state[1])]
            if name:
                states.append(("not scored", Condition("metric", name, operator="!=", value="scored")))
        yield "", states
        for label in self.page.table.labels[:2]:
            values = self.page.table.label_values(label)
            if 1 < len(values) <= MAX_LABEL_CHIPS:
                yield label, [(value, Condition("label", label, value=value)) for value in values]

    def _is_valid(self, condition: Condition) -> bool:
        """Whether the runs can be filtered by a condition; not yet where it needs outputs that are not read."""
        if condition.reads_outputs and not self.may_read:
            return False
        try:
            condition.mask(self.page.table)
        except BadValueError:
            return False
        return True


def _has_outputs(table: QueryTable, seconds: float) -> bool:
    """Whether the outputs of all runs are read, after so many seconds at most."""
    deadline = time.monotonic() + seconds
    while not all(run.has_outputs for run in table.runs):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.005)
    return True


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
    if change == "same":
        return ListCell("= 0", "muted", change)
    sign, tone = ("▲", "better") if change == "better" else ("▼", "worse")
    return ListCell(with_minus(f"{sign} {last - first:+.2f}"), tone, change)


def _with_addition(found: SampleFilter, params: QueryParams) -> SampleFilter:
    """The filter with the condition of the menu or the range of the strip, where the address has one."""
    if key := params.get("range", ""):
        ends = [(">=", params.get("from", "")), ("<=", params.get("to", ""))]
        conditions = [parse_condition(f"{key}{operator}{end}") for operator, end in ends if end.strip()]
        return replace_change(found, parse_name(key)[1], conditions)
    name = params.get("add", "")
    if not name:
        return found
    text = f"{name}{params.get('operator', '=')}{params.get('value', '')}"
    return found.with_condition(parse_condition(text))


def queries_page(request: PageRequest) -> Response:
    """The list as a page; with ``fragment=1`` as a part of another page, with ``fragment=results`` without the menu.

    A fragment shows the rows that are known before the outputs are read, unless the address has ``wait=1``.
    """
    found = QueryListPage(request, request.parameters)
    part = request.parameters.get("fragment")
    if ("add" in request.parameters or "range" in request.parameters) and not part:
        return RedirectResponse(found.url(), 303)
    template = {"1": "query_list.html", "results": "query_results.html"}.get(part or "", "queries.html")
    response = render_template(request, template, list=found)
    if found.size > SIZES[0] and len(found.table) > SMALL:
        return_free_memory()  # the texts of many rows; the worker thread would keep what it freed
    return response


def documents_fragment(request: PageRequest) -> Response:
    """The documents that each run retrieved for a query, for a row that is opened in its place."""
    workbench, params = request.workbench, request.parameters
    records, sample_id = records_of(workbench, params), params.get("id", "")
    sides = []
    for letter, record in zip(("AB" if len(records) > 1 else " "), records, strict=True):
        position = find_position(workbench, record, sample_id)
        found = [] if position is None else read_documents(run_columns(workbench, record), position)
        sides.append((letter.strip(), record, found))
    query = make_url("/query", run=[record.run_id for record in records], id=sample_id)
    return render_template(request, "query_documents.html", sides=sides, query=query)


ROUTES = [page_route("/queries", queries_page), page_route("/queries/documents", documents_fragment)]
