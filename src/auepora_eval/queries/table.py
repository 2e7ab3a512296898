"""The queries of several stored runs as one table: its columns, and the search of its texts."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from ..compare.match import coarsest
from ..compare.pairing import T, comparable_signature, result_match
from ..compare.queries import Cause, compare_queries, explain_changes
from ..compare.types import ComparisonKind, QueryComparison, run_labels
from ..core.conventions import Match, Signature
from ..core.results import display_name, metric_labels
from ..core.slices import Rows, group_names
from ..core.types import MetricResult
from ..errors import BadValueError, did_you_mean
from ..io.sample_sets import SampleSet
from ..stats.intervals import Bools, Floats
from ..store.records import plan_conventions
from ..text.tokenizers import content_terms
from .columns import ABSENT, ANSWERED, REFUSED, Bytes, KnownValues, RunColumns, ScoreColumn

_MAX_SEARCHES = 32
"""The number of searches whose rows are kept."""
HITS = ("win", "loss", "draw", "regression", "gained")
"""How the first gold documents of a query in two runs compare; see ``QueryTable.first_hits``."""


class JoinedRuns:
    """The queries of one or several runs, matched by id, and columns of a run spread over all of them."""

    def __init__(self, runs: Sequence[RunColumns]) -> None:
        if not runs:
            raise BadValueError("a list of queries needs at least one run")
        if len({run.record.run_id for run in runs}) < len(runs):
            raise BadValueError("the same run is given twice; name each run once")
        self.runs = list(runs)
        first = runs[0].samples
        self._rows: list[Rows | None] = [None]
        """For each run the row of each of its samples; ``None`` if they are the same."""
        self.ids = first.ids
        for run in runs[1:]:
            if run.record.fingerprint == runs[0].record.fingerprint:
                run.share_samples(first)
                self._rows.append(None)
            else:
                self._rows.append(self._add_ids(run.samples.ids))
        if len(self.ids) > len(first.ids):
            self._rows[0] = np.arange(len(first.ids))

    def _add_ids(self, ids: Sequence[str]) -> Rows:
        known = {sample_id: row for row, sample_id in enumerate(self.ids)}
        new = [sample_id for sample_id in ids if sample_id not in known]
        known.update((sample_id, row) for row, sample_id in enumerate(new, len(self.ids)))
        self.ids = [*self.ids, *new]
        return np.array([known[sample_id] for sample_id in ids], np.intp)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def letters(self) -> list[str]:
        """The letter of each run."""
        return run_labels(len(self.runs))

    def run_number(self, letter: str) -> int:
        """The number of the run with a letter, or of the last one without a letter."""
        if not letter:
            return len(self.runs) - 1
        if letter not in self.letters:
            raise BadValueError(f"there is no run {letter}; the runs are {', '.join(self.letters)}")
        return self.letters.index(letter)

    def require_two(self, what: str) -> None:
        """Raise if there is only one run."""
        if len(self.runs) < 2:
            raise BadValueError(f"{what} compares two runs, and only one is given; add a second run")

    @property
    def results(self) -> dict[str, MetricResult]:
        """The results of all runs by name, without scores; that of the last run where several have one."""
        found: dict[str, MetricResult] = {}
        for run in self.runs:
            found |= run.results
        return found

    @property
    def metrics(self) -> list[str]:
        """The names of all metrics of the runs."""
        return list(self.results)

    @cached_property
    def metric_labels(self) -> dict[str, str]:
        """The name of each metric for display."""
        return metric_labels(*[run.results.values() for run in self.runs])

    def metric_label(self, name: str) -> str:
        """The name of a metric for display."""
        return self.metric_labels.get(name, name)

    @property
    def labels(self) -> list[str]:
        """The names of all labels of the samples."""
        return list(dict.fromkeys(chain.from_iterable(run.samples.labels for run in self.runs)))

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {sample_id: row for row, sample_id in enumerate(self.ids)}

    def row_of(self, sample_id: str) -> int | None:
        """The row of a query; ``None`` if there is none of that id."""
        return self._row_of.get(sample_id)

    def position(self, run: int, row: int) -> int | None:
        """The position of a query in the dataset of a run; ``None`` if it is not there."""
        places = [row] if self._rows[run] is None else np.flatnonzero(self._rows[run] == row).tolist()
        return places[0] if places else None

    def spread_rows(self, run: int) -> Rows:
        """The row of each sample of a run."""
        rows = self._rows[run]
        return np.arange(len(self)) if rows is None else rows

    def spread(self, run: int, column: npt.NDArray[Any], fill: float) -> npt.NDArray[Any]:
        """A column of a run over the queries of the table; ``fill`` for those that the run lacks."""
        rows = self._rows[run]
        if rows is None:
            return column
        spread = np.full(len(self), fill, column.dtype)
        spread[rows] = column
        return spread


class QueryTable(JoinedRuns):
    """The queries of one or several runs with their columns; a query that a run lacks has no values there.

    Columns are read when a condition, a sort key or a page needs them.
    """

    def __init__(self, runs: Sequence[RunColumns], find_set: Callable[[str], SampleSet] | None = None) -> None:
        """``find_set`` returns the set of samples that a condition names."""
        super().__init__(runs)
        self._find_set = find_set
        self._known = KnownValues()
        self._search = _TextSearch(self.runs, self._rows, len(self.ids))

    @property
    def match(self) -> Match:
        """How gold is matched in all runs: in the coarsest of their ways."""
        return coarsest(plan_conventions(run.record).match for run in self.runs)

    def last_scores(self, name: str) -> ScoreColumn | None:
        """The scores of a metric in the last run that has them; ``None`` if no run does."""
        columns = (run.scores(name) for run in reversed(self.runs))
        return next((column for column in columns if column is not None), None)

    def require_comparable(self, name: str, what: str) -> None:
        """Raise if there is only one run, or if a metric was computed differently in the first and the last."""
        self.require_two(what)
        problem = self.comparison_problem(name, (0, len(self.runs) - 1))
        if problem:
            raise BadValueError(problem)

    def comparison_problem(self, name: str, numbers: Iterable[int]) -> str:
        """Why the scores of a metric in some runs cannot be compared; empty if they can."""
        label = self.metric_label(name)
        signatures = set()
        for number in numbers:
            column = self.scores(name, number)
            if column is None:
                continue
            signatures.add(comparable_signature(column.result.signature))
            problem = self.runs[number].matched(name, self._match_of(name))
            if isinstance(problem, str):
                return f"'{label}' cannot be compared: gold is matched in different ways, and {problem}"
        if len(signatures) > 1:
            return f"'{label}' was computed differently in the two runs, so they cannot be compared by it"
        return ""

    def _match_of(self, name: str) -> Match:
        """How a metric matches gold in all runs."""
        return coarsest([result_match(run.results[name]) for run in self.runs if name in run.results])

    def scores(self, name: str, run: int) -> ScoreColumn | None:
        """The scores of a metric in a run; ``None`` if the run does not have it."""
        if name not in self.metrics:
            hint = did_you_mean(name, self.metrics, otherwise=f"; the metrics are {', '.join(self.metrics) or 'none'}")
            raise BadValueError(f"the runs have no metric '{name}'{hint}")
        return self.runs[run].scores(name, self._match_of(name))

    def values(self, name: str, run: int) -> Floats:
        """The scores of a metric in a run; NaN where there is none."""
        column = self.scores(name, run)
        return np.full(len(self), np.nan) if column is None else self.spread(run, column.values, np.nan)

    def status(self, name: str, run: int) -> Bytes:
        """The status of each score in a run; ``ABSENT`` where the run lacks metric or query."""
        column = self.scores(name, run)
        return np.full(len(self), ABSENT, np.uint8) if column is None else self.spread(run, column.status, ABSENT)

    def difference(self, name: str) -> Floats:
        """The scores of the last run minus those of the first."""
        self.require_comparable(name, f"diff.{name}")
        return self.values(name, len(self.runs) - 1) - self.values(name, 0)

    def change(self, name: str) -> npt.NDArray[np.int8]:
        """From the first run to the last: 1 better, -1 worse, 0 same; 2 where a score is missing."""
        difference = self.difference(name)
        column = self.scores(name, len(self.runs) - 1) or self.scores(name, 0)
        assert column is not None
        sign = 1 if column.meta.higher_score_is_better else -1
        change = np.where(np.abs(difference) <= column.meta.rounding, 0, sign * np.sign(difference))
        return np.where(np.isnan(difference), 2, change).astype(np.int8)

    def right_from(self, name: str) -> tuple[float, str]:
        """The score from which an answer is right by a metric, and what defines it.

        It is ``correct_from`` of a failure attribution of the runs that decides by this metric, else the best score.
        """
        for run in reversed(self.runs):
            for result in run.results.values():
                options = signature_options(result)
                if options.get("correct") == name and "correct.from" in options:
                    return float(options["correct.from"]), f"the rule of {display_name(result)}"
        column = self.last_scores(name)
        if column is None:
            self.scores(name, 0)  # raises for an unknown metric
            raise BadValueError(f"the runs have no score per query of '{self.metric_label(name)}'")
        best = column.meta.best
        if not math.isfinite(best):
            raise BadValueError(
                f"'{self.metric_label(name)}' has no best score; give a threshold, such as {name}=both-right:0.5"
            )
        return best, "the best score"

    def right(self, name: str, run: int, threshold: float | None = None) -> Bools:
        """Which answers of a run are right by a metric; a query without a score is not."""
        limit = self.right_from(name)[0] if threshold is None else threshold
        column, values = self.scores(name, run), self.values(name, run)
        higher = column is None or column.meta.higher_score_is_better
        return values >= limit if higher else values <= limit

    def causes(self, name: str, run: int) -> tuple[dict[str, int], Bytes]:
        """The causes of wrong answers by an attribution (the first if not named), with the code of each query."""
        attributions = (result.name for result in self.runs[run].results.values() if result.details.causes)
        name = name or next(attributions, "")
        column = self.scores(name, run) if name else None
        if column is None or not column.causes:
            raise BadValueError(
                "the causes of wrong answers are not known; `auepora rescore RUN -m failure_attribution@5` finds them"
            )
        return column.causes, self.spread(run, column.cause_codes, 0)

    def dropped(self, run: int) -> Bools:
        """Where a step of the system returned a gold document that is not in the final ranking."""
        return self.spread(run, self.runs[run].outputs.dropped, 0)

    def changes(self, metric: str) -> Bytes:
        """Per query the cause of its change by a metric (the main one if empty): 1 + index in ``Cause``; 0 is none."""
        self.require_two("change")
        return self._known.get(("changes", metric), lambda: _read_changes(self, metric))

    def prepare_changes(self, metric: str) -> bool:
        """Whether the causes of changes by a metric are known; else they are read in a thread, which takes long."""
        return self._known.prepare(("changes", metric), partial(self.changes, metric))

    def first_hits(self) -> Bytes:
        """Per query the comparison of its first gold document in two runs: 1 + index in ``HITS``; 0 is none."""
        self.require_two("hit")
        first, last = self.runs[0], self.runs[-1]
        compare = partial(compare_queries, first.store, first.record, last.record)
        return self._known.get("hits", lambda: hit_codes(self, compare().per_query))

    def states(self, run: int, *, refusals: bool = False) -> Bytes:
        """Per query its state in a run, as an index of ``ANSWERS``; ``ABSENT`` if it is not in the dataset."""
        columns = self.runs[run]
        states = columns.outputs.states
        if refusals:
            states = np.where((states == ANSWERED) & columns.refused, REFUSED, states).astype(np.uint8)
        return self.spread(run, states, ABSENT)

    def ranks(self, run: int) -> Floats:
        """The rank of the first gold document; infinite where none was returned, NaN where none is annotated."""
        columns = self.runs[run]
        found = columns.first_ranks(self.match)
        ranks = np.where(found > 0, found.astype(np.float64), np.inf)
        return self.spread(run, np.where(columns.samples.has_gold, ranks, np.nan), np.nan)

    def seconds(self, name: str, run: int) -> Floats:
        """A timing in seconds; NaN where there is none."""
        timings = self.runs[run].outputs.timings
        if name not in timings:
            known = ", ".join(sorted(timings)) or "none"
            raise BadValueError(f"run {self.letters[run]} has no timing '{name}'; its timings are {known}")
        return self.spread(run, timings[name], np.nan)

    def label_groups(self, name: str) -> tuple[list[tuple[str, ...]], Rows]:
        """The distinct groups of values of a label, and for each query the number of its group in the first run."""
        numbers: dict[tuple[str, ...], int] = {tuple(group_names(None)): 0}
        codes = np.zeros(len(self), np.intp)
        missing = np.ones(len(self), np.bool_)
        for number, run in enumerate(self.runs):
            rows = self.spread_rows(number)
            new = missing[rows]
            missing[rows] = False
            if name in run.samples.labels:
                groups, own = run.samples.labels[name]
                found = np.array([numbers.setdefault(group, len(numbers)) for group in groups], np.intp)
                codes[rows[new]] = found[own[new]]
        return list(numbers), codes

    def with_label(self, name: str, value: str) -> Bools:
        """Which queries have a value of a label."""
        if name not in self.labels:
            hint = did_you_mean(name, self.labels, otherwise=f"; the labels are {', '.join(self.labels) or 'none'}")
            raise BadValueError(f"the samples have no label '{name}'{hint}")
        found = np.zeros(len(self), np.bool_)
        for number, run in enumerate(self.runs):
            if name in run.samples.labels:
                groups, codes = run.samples.labels[name]
                found |= self.spread(number, np.array([value in group for group in groups], np.bool_)[codes], 0)
        return found

    def label_values(self, name: str) -> list[str]:
        """The values of a label."""
        groups, _ = self.label_groups(name)
        return sorted(set(chain.from_iterable(groups)))

    def with_ids(self, ids: Iterable[str]) -> Bools:
        """Which queries have one of some ids."""
        found = np.zeros(len(self), np.bool_)
        found[[row for sample_id in ids if (row := self.row_of(sample_id)) is not None]] = True
        return found

    def sample_set(self, name: str) -> SampleSet:
        """The saved set of samples with that name; raises if none of its samples is in the table."""
        if self._find_set is None:
            raise BadValueError(f"there is no set '{name}', since these runs have no labels folder")
        found = self._find_set(name)
        if not any(self.row_of(sample_id) is not None for sample_id in found.ids):
            raise BadValueError(f"no sample of the set '{name}' is in these runs; it was saved from another dataset")
        return found

    def in_cluster(self, cluster: str) -> Bools:
        """Which queries belong to a cluster."""
        found = np.zeros(len(self), np.bool_)
        for number, run in enumerate(self.runs):
            clusters = run.samples.clusters or run.samples.ids
            found |= self.spread(number, np.array([own == cluster for own in clusters], np.bool_), 0)
        return found

    def with_term(self, term: str) -> Bools:
        """Which queries have a term in their question: a word, or two neighbouring content words."""
        found = np.zeros(len(self), np.bool_)
        likely = self.search(term, outputs=False)
        if likely is None:
            return found
        for number, run in enumerate(self.runs):
            rows = self.spread_rows(number)
            for position in np.flatnonzero(likely[rows] & ~found[rows]).tolist():
                found[rows[position]] = term.lower() in content_terms(run.samples.question(position))
        return found

    def search(self, text: str, *, outputs: bool = True) -> Bools | None:
        """Which queries contain all words and quoted phrases of a text in id, question or answers, in any case.

        ``None`` if the text has no word. Without ``outputs``, answers count only in runs whose outputs have been read.
        """
        answers = [number for number, run in enumerate(self.runs) if outputs or run.has_outputs]
        return self._search.find(search_terms(text), tuple(answers))

    def cached(self, key: object, compute: Callable[[], T]) -> T:
        """A value that depends on the table alone, computed once."""
        return self._known.get(key, compute)


class _TextSearch:
    """The rows of a table that contain words; the last searches are kept, since a search is typed letter by letter."""

    def __init__(self, runs: Sequence[RunColumns], rows: Sequence[Rows | None], size: int) -> None:
        """``rows`` has the row of each sample of a run; ``None`` if they are the same."""
        self._runs, self._rows, self._size = runs, rows, size
        self._known: dict[tuple[tuple[int, ...], tuple[str, ...]], Bools] = {}
        self._lock = threading.Lock()

    def find(self, terms: Sequence[str], answers: tuple[int, ...]) -> Bools | None:
        """The rows with all terms; ``answers`` are the runs whose answers count. ``None`` without a term."""
        found: Bools | None = None
        for count in range(1, len(terms) + 1):
            found = self._find_last(tuple(terms[:count]), found, answers)
        return found

    def _find_last(self, terms: tuple[str, ...], among: Bools | None, answers: tuple[int, ...]) -> Bools:
        """The rows with the last term, of those that contain the others."""
        key = answers, terms
        with self._lock:
            found = self._known.pop(key, None)
            # A longer word is only where the shorter one is that was typed before.
            shorter = self._known.get((answers, (*terms[:-1], terms[-1][:-1])))
        if found is None:
            found = self._rows_with(terms[-1], among if shorter is None else shorter, answers)
        with self._lock:
            self._known[key] = found  # the last one used is last
            while len(self._known) > _MAX_SEARCHES:
                del self._known[next(iter(self._known))]
        return found

    def _rows_with(self, term: str, among: Bools | None, answers: tuple[int, ...]) -> Bools:
        found = np.zeros(self._size, np.bool_)
        missing = np.ones(self._size, np.bool_) if among is None else among.copy()
        for number, run in enumerate(self._runs):
            rows = self._rows[number]
            # If the rows are the same, so are the samples.
            columns = [run.samples.searched] if number == 0 or rows is not None else []
            columns += [run.outputs.searched] if number in answers else []
            for column in columns:
                places = column.contain(term, missing if rows is None else missing[rows])
                found[places if rows is None else rows[places]] = True
                missing &= ~found
        return found


def _read_changes(table: QueryTable, metric: str) -> Bytes:
    first, last = table.runs[0], table.runs[-1]
    found = explain_changes(first.store, first.record, last.record, metric=metric or None, worse_only=False)
    codes, names = np.zeros(len(table), np.uint8), list(Cause)
    for change in found:
        row = table.row_of(change.sample_id)
        if row is not None:
            codes[row] = 1 + names.index(change.cause)
    return codes


def hit_codes(table: QueryTable, per_query: Iterable[QueryComparison]) -> Bytes:
    """Per query the comparison of its first gold document: 1 + index in ``HITS``; 0 is none."""
    codes = np.zeros(len(table), np.uint8)
    for comparison in per_query:
        row = table.row_of(comparison.query_id)
        is_gained = comparison.kind is ComparisonKind.WIN and comparison.a_hit_rank is None
        kind = "gained" if is_gained else comparison.kind.value.lower()
        if row is not None:
            codes[row] = 1 + HITS.index(kind)
    return codes


def signature_options(result: MetricResult) -> Mapping[str, str]:
    """The options in the signature of a result; none where it has no readable one."""
    try:
        return Signature.parse(result.signature or "").options
    except BadValueError:
        return {}


def search_terms(text: str) -> list[str]:
    """The words of a search in lower case; a quoted phrase is one."""
    return list(dict.fromkeys(quoted or word for quoted, word in re.findall(r'"([^"]+)"|(\S+)', text.lower())))
