"""One sample in one run or in two: its address, and what the runs store about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ..annotate.corrections import returned_gold_texts
from ..compare.columns import RunColumns
from ..compare.filters import SampleFilter
from ..core.types import Document, EvaluationSample, SystemOutputs
from ..errors import BadValueError
from ..render.html import pluralize
from ..report.browser.gold_marks import GoldMarks, Hit
from ..report.explain import in_panel_order
from ..store.records import RunRecord, plan_conventions
from ..store.rows import StoredJudgement
from ..store.runs import sample_at
from .page_request import PageRequest
from .query_list import run_columns, swap_runs
from .workbench import Workbench, find_position, make_url

MAX_RUNS = 2
FILTER_PARAMETERS = ("q", "where", "sort")

# --- the address: runs, sample, repeats, and the filter of the list ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueryAddress:
    """The parameters of a query page."""

    runs: tuple[str, ...]
    sample_id: str
    repeats: tuple[int, ...] = ()
    """The shown repeat of each run; 0 where it is missing."""
    filters: Mapping[str, list[str]] = field(default_factory=dict)

    @classmethod
    def from_request(cls, request: PageRequest) -> QueryAddress:
        """Read the parameters; ``BadValueError`` names an invalid one."""
        parameters = request.parameters
        runs, sample_id = parameters.getlist("run"), parameters.get("id")
        if not 1 <= len(runs) <= MAX_RUNS:
            raise BadValueError(f"run: {len(runs)} runs are given; a query is shown for one run or for two")
        if sample_id is None:
            raise BadValueError("id: give the id of a sample")
        filters = {name: parameters.getlist(name) for name in FILTER_PARAMETERS if parameters.getlist(name)}
        repeats = tuple(map(_parse_repeat, parameters.getlist("repeat")))
        return cls(tuple(runs), sample_id, repeats, filters)

    def repeat(self, place: int) -> int:
        """The shown repeat of a run."""
        return self.repeats[place] if place < len(self.repeats) else 0

    def with_repeat(self, place: int, repeat: int) -> str:
        """The address with another repeat of one run."""
        repeats = [repeat if at == place else self.repeat(at) for at in range(len(self.runs))]
        return make_url("/query", run=self.runs, id=self.sample_id, repeat=repeats, **self.filters)

    def with_sample(self, sample_id: str) -> str:
        """The address of another sample in the same filter."""
        return make_url("/query", run=self.runs, id=sample_id, **self.filters)

    def with_runs(self, runs: Sequence[str]) -> str:
        """The address of the sample in other runs."""
        return make_url("/query", run=runs, id=self.sample_id, **self.filters)

    @property
    def swapped(self) -> str:
        """The address with the two runs the other way round, in the same list."""
        where, sort = self.filters.get("where", ()), "".join(self.filters.get("sort", ())[:1])
        swapped = swap_runs(SampleFilter.parse("", where, sort))
        filters = {"where": [str(one) for one in swapped.conditions], "sort": swapped.sort or None}
        repeats = [self.repeat(place) for place in reversed(range(len(self.runs)))] if any(self.repeats) else None
        found = {"run": self.runs[::-1], "id": self.sample_id, "repeat": repeats, "q": self.filters.get("q")}
        return make_url("/query", **found, **filters)

    @property
    def list_address(self) -> str:
        """The address of the list of queries with the same filter."""
        return make_url("/queries", run=self.runs, **self.filters)


def _parse_repeat(text: str) -> int:
    if not text.isdecimal() or len(text) > 6:
        raise BadValueError(f"repeat: '{text[:50]}' is not the number of a repeat; the first is 0")
    return int(text)


# --- what is stored about the sample in one run -----------------------------------------------------------------------


@dataclass(frozen=True)
class QueryRun:
    """One run with what it stores about one sample."""

    columns: RunColumns
    letter: str
    """The letter of the run where two are shown."""
    place: int
    """0 for the first run of the page."""
    position: int | None
    """The position of the sample in the dataset of the run; ``None`` where it is not in it."""
    sample: EvaluationSample | None
    repeat: int
    output: SystemOutputs | None

    @property
    def record(self) -> RunRecord:
        """The run."""
        return self.columns.record

    @cached_property
    def gold(self) -> GoldMarks | None:
        """The gold of the sample in this run."""
        return None if self.sample is None else GoldMarks(self.sample, plan_conventions(self.record).match)

    @cached_property
    def gold_texts(self) -> dict[str, str]:
        """The texts of gold documents that the sample does not have, from runs of the dataset."""
        return returned_gold_texts(self.columns.store, self.record, self.position, self.sample)

    @cached_property
    def documents(self) -> list[Document]:
        """The retrieved documents."""
        return [] if self.output is None else [item.doc for item in self.output.retrieved]

    @cached_property
    def gold_ranks(self) -> dict[str, int]:
        """The rank of each retrieved gold document, by id."""
        return {} if self.gold is None else self.gold.gold_ranks(self.documents)

    @cached_property
    def gold_marks(self) -> list[tuple[str, Hit]]:
        """The mark of each retrieved document, and how it hits gold."""
        return [] if self.gold is None else self.gold.explained_marks(self.documents)

    def gold_rank(self, doc_id: str) -> tuple[str, int | None, str]:
        """The letter of the run, the rank of a gold document in it, and how it is matched there."""
        rank = self.gold_ranks.get(doc_id)
        how = "" if rank is None else self.gold_marks[rank - 1][1].how
        return self.letter, rank, how

    def gold_passages(self, document: Document) -> list[tuple[int, int]]:
        """Start and end of the gold passages in a retrieved document."""
        return [] if self.gold is None else self.gold.gold_passages(document)

    @cached_property
    def judgements(self) -> list[StoredJudgement]:
        """The judgements about the sample, members of a panel in its order."""
        if self.position is None:
            return []
        return in_panel_order(self.columns.store.judgements(self.record.run_id, position=self.position))


def read_run(workbench: Workbench, record: RunRecord, letter: str, place: int, address: QueryAddress) -> QueryRun:
    """Read what a run stores about the sample of an address."""
    repeat = address.repeat(place)
    if repeat >= record.repeats:
        raise BadValueError(f"repeat: {record.run_id} has {pluralize(record.repeats, 'repeat')}; the first is 0")
    columns = run_columns(workbench, record)
    position = find_position(workbench, record, address.sample_id)
    if position is None:
        return QueryRun(columns, letter, place, None, None, repeat, None)
    rows = workbench.store.outputs(record.run_id, repeat=repeat, position=position)
    output = next((row.output for row in rows), None)
    sample = sample_at(workbench.store, record, position)
    return QueryRun(columns, letter, place, position, sample, repeat, output)
