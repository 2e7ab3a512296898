"""One sample in one run or in two: its address, and what the runs store about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..compare.chunks import QueryOutput, ranks_by_level
from ..core.types import Document, EvaluationSample, SystemOutputs, UnknownRanking
from ..errors import BadValueError
from ..features.texts import RefusalDetector
from ..grades.corrections import returned_gold_texts
from ..queries.columns import RunColumns, ScoreColumn
from ..queries.filters import SampleFilter, swap_runs
from ..queries.view import GoldMarks, Hit
from ..render.html import pluralize
from ..report.explain import in_panel_order
from ..store.records import RunRecord, plan_conventions
from ..store.rows import StoredJudgement
from ..store.runs import sample_at
from .page_request import PageRequest
from .query_list import run_columns
from .workbench import Workbench, find_position, make_url, stored_output

MAX_RUNS = 2

# --- the address: runs, sample, repeats, and the filter of the list ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueryAddress:
    """The parameters of a query page."""

    runs: tuple[str, ...]
    sample_id: str
    repeats: tuple[int, ...] = ()
    """The shown repeat of each run; 0 where it is missing."""
    filters: Mapping[str, list[str]] = field(default_factory=dict)
    view: Mapping[str, str] = field(default_factory=dict)
    """How the page shows the query: the depth ``k``, and ``open`` where all documents are."""

    @classmethod
    def from_request(cls, request: PageRequest) -> QueryAddress:
        """Read the parameters; ``BadValueError`` names an invalid one."""
        parameters = request.parameters
        runs, sample_id = parameters.getlist("run"), parameters.get("id")
        if not 1 <= len(runs) <= MAX_RUNS:
            raise BadValueError(f"run: {len(runs)} runs are given; a query is shown for one run or for two")
        if sample_id is None:
            raise BadValueError("id: give the id of a sample")
        filters = {name: parameters.getlist(name) for name in ("q", "where", "sort") if parameters.getlist(name)}
        repeats = tuple(_parse_repeat(text) for text in parameters.getlist("repeat"))
        view = {name: parameters[name] for name in ("k", "open") if name in parameters}
        if "k" in view:
            parameters.integer("k", lowest=1)
        return cls(tuple(runs), sample_id, repeats, filters, view)

    @property
    def depth(self) -> int | None:
        """The chosen depth k."""
        return int(self.view["k"]) if "k" in self.view else None

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The parameters but the depth, for a form that changes it."""
        listed: dict[str, Sequence[Any]] = {"run": self.runs, "id": [self.sample_id], "repeat": self.repeats}
        listed |= self.filters
        listed |= {"open": [self.view["open"]]} if "open" in self.view else {}
        return [(name, str(value)) for name, values in listed.items() for value in values]

    def repeat(self, place: int) -> int:
        """The shown repeat of a run."""
        return self.repeats[place] if place < len(self.repeats) else 0

    def with_repeat(self, place: int, repeat: int) -> str:
        """The address with another repeat of one run."""
        repeats = [repeat if at == place else self.repeat(at) for at in range(len(self.runs))]
        return make_url("/query", run=self.runs, id=self.sample_id, repeat=repeats, **self.filters, **self.view)

    def with_sample(self, sample_id: str) -> str:
        """The address of another sample in the same filter."""
        return make_url("/query", run=self.runs, id=sample_id, **self.filters, **self.view)

    def with_runs(self, runs: Sequence[str]) -> str:
        """The address of the sample in other runs."""
        return make_url("/query", run=runs, id=self.sample_id, **self.filters, **self.view)

    @property
    def opened(self) -> str:
        """The address with all documents open, or with all closed where they are open."""
        view = {**self.view, "open": None if "open" in self.view else "all"}
        return make_url("/query", run=self.runs, id=self.sample_id, repeat=self.repeats, **self.filters, **view)

    @property
    def swapped(self) -> str:
        """The address with the two runs the other way round, in the same list."""
        where, sort = self.filters.get("where", ()), "".join(self.filters.get("sort", ())[:1])
        swapped = swap_runs(SampleFilter.parse("", where, sort))
        filters = {"where": [str(condition) for condition in swapped.conditions], "sort": swapped.sort or None}
        repeats = [self.repeat(place) for place in reversed(range(len(self.runs)))] if any(self.repeats) else None
        found = {"run": self.runs[::-1], "id": self.sample_id, "repeat": repeats, "q": self.filters.get("q")}
        return make_url("/query", **found, **filters, **self.view)


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

    def scores(self, name: str) -> ScoreColumn | None:
        """The scores of a metric, where the sample is in the run."""
        return None if self.position is None else self.columns.scores(name)

    def score(self, name: str) -> tuple[float | None, str]:
        """The score of the sample and its outcome; no outcome where there is none."""
        column = self.scores(name)
        return (None, "") if column is None or self.position is None else column.score_at(self.position)

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

    @property
    def is_ranking_known(self) -> bool:
        """Whether the run recorded what was retrieved."""
        return self.output is not None and not isinstance(self.output.retrieved, UnknownRanking)

    @property
    def answer(self) -> str:
        """The text of the answer; empty where there is none."""
        return "" if self.output is None or self.output.error is not None else answer_text(self.output)

    def as_query_output(self) -> QueryOutput:
        """The output as it is compared with that of another run."""
        output, sample = self.output, self.sample
        error = "no output is stored" if output is None else output.error
        levels = {} if self.gold is None else {name: level for name, level in self.gold.levels.items() if level > 0}
        hits = [(levels[doc_id], rank) for doc_id, rank in self.gold_ranks.items()]
        ranks = ranks_by_level(set(levels.values()), hits) if levels else None
        if output is None or sample is None or error is not None:
            return QueryOutput(failed=1.0, refused=0.0, context=None, answers=(), gold=ranks, error=error)
        context = tuple(doc.doc_id for doc in self.documents)
        return QueryOutput(0.0, float(is_refusal(sample, output)), context, (self.answer,), ranks)

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


def is_refusal(sample: EvaluationSample, output: SystemOutputs) -> bool:
    """Whether an answer is a refusal, as in the condition ``answer=refused``."""
    return bool(answer_text(output).strip()) and RefusalDetector().refused(sample, output) is True


def answer_text(output: SystemOutputs) -> str:
    """The text of an answer; empty where none was asked for."""
    return "" if output.response is None else output.response.text


def read_run(workbench: Workbench, record: RunRecord, letter: str, place: int, address: QueryAddress) -> QueryRun:
    """Read what a run stores about the sample of an address."""
    repeat = address.repeat(place)
    if repeat >= record.repeats:
        raise BadValueError(f"repeat: {record.run_id} has {pluralize(record.repeats, 'repeat')}; the first is 0")
    columns = run_columns(workbench, record)
    position = find_position(workbench, record, address.sample_id)
    return QueryRun(
        columns=columns,
        letter=letter,
        place=place,
        position=position,
        sample=None if position is None else sample_at(workbench.store, record, position),
        repeat=repeat,
        output=None if position is None else stored_output(workbench.store, record, position, repeat=repeat),
    )
