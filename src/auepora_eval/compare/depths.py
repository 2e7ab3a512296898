"""How deep the rankings of runs are known, and what runs of different depth can be compared on.

A ranking is complete if the system returned no more. Complete rankings of any length are compared: a missing rank is no
hit. A saved ranking that was cut is unknown below its end: metrics that read deeper have bounds, and no comparison.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter

import numpy as np

from ..core.conventions import Match
from ..core.metrics_base import BatchMetric
from ..core.types import MetricResult, RetrievedDocument
from ..engine.evaluate import EvaluationOptions
from ..features.matching import gold_units, unit_ranks
from ..stats.intervals import Ints
from ..store.records import RunRecord, run_info
from ..store.runs import RunStore, packed_outputs
from .chunks import RunOutputsCache
from .golden import Pair, documents_of, evaluate_pairs
from .pairing import MetricMeta, SharedSamples
from .stores import TEXT_MATCHES
from .types import ComparisonInput, MetricComparison, join_notes, run_labels

_ONE_LENGTH = 0.95
"""The proportion of lists with one length from which fewer documents than the declared number are a cut."""
_PREFIXES = 0.95
"""The proportion of queries whose shorter list must begin the longer one for the two to be one ranking."""


@dataclass(frozen=True, slots=True)
class ListDepth:
    """How many documents a run returned, and how deep its rankings are known."""

    longest: int
    """The most documents for any query."""
    top_k: int | None = None
    """The number of documents that was asked for, or declared for saved outputs."""
    cut: int | None = None
    """The rank below which nothing is known; ``None`` for complete rankings."""


def list_depth(lengths: Ints, *, is_saved: bool, top_k: int | None) -> ListDepth:
    """The depth of rankings with these numbers of documents; failed outputs are left out by the caller.

    What a system returned when it was called is complete. Saved rankings are cut where nearly all have one length
    below the declared ``top_k``, or where none is declared and at least half of those with documents are as long as the
    longest.

    >>> list_depth(np.array([3, 3, 3]), is_saved=True, top_k=None).cut
    3
    >>> list_depth(np.array([3, 3, 3]), is_saved=True, top_k=3).cut is None
    True
    """
    longest = int(lengths.max(initial=0))
    if not is_saved or not longest:
        return ListDepth(longest, top_k)
    as_long = int(np.count_nonzero(lengths == longest))
    if top_k is None:
        is_cut = 2 * as_long >= int(np.count_nonzero(lengths))
    else:
        is_cut = longest < top_k and as_long >= _ONE_LENGTH * len(lengths)
    cut = longest if is_cut else None
    return ListDepth(longest, top_k, cut)


def run_depth(record: RunRecord, lengths: Ints) -> ListDepth:
    """The depth of the rankings of a run; ``lengths`` is -1 where there is no output, or a failed one."""
    is_saved = "outputs" in record.plan
    settings = record.config if is_saved else record.plan.get("run") or {}
    asked = settings.get("top_k")
    top_k = asked if isinstance(asked, int) else None
    return list_depth(lengths[lengths >= 0], is_saved=is_saved, top_k=top_k)


def cut_above(store: RunStore, record: RunRecord, definition: MetricMeta) -> int | None:
    """The rank below which the rankings of a run are unknown, if the metric reads deeper; else ``None``."""
    if not definition.reads or "outputs" not in record.plan:
        return None
    lengths = [depth for _, depth in _ranking_depths(store, record)]
    cut = run_depth(record, np.array(lengths, dtype=np.intp)).cut
    return cut if cut is not None and cut < definition.reads else None


def _ranking_depths(store: RunStore, record: RunRecord) -> Iterator[tuple[int, int]]:
    """Yield position and number of retrieved documents of the first repeat, without failed outputs."""
    rows = packed_outputs(store, record)
    return ((position, len(output.ids)) for position, repeat, output in rows if repeat == 0 and output.error is None)


class RunDepths:
    """The depths of the runs of a comparison, and what follows from them for its metrics."""

    def __init__(
        self, store: RunStore, records: Sequence[RunRecord], shared: SharedSamples, answers: RunOutputsCache
    ) -> None:
        self._store, self._records, self._shared, self._answers = store, records, shared, answers
        self.lengths = cache(self._read_lengths)
        self._prefix_proportion = cache(self._compare_prefixes)

    def _read_lengths(self, run: int) -> Ints:
        """How many documents a run returned for each of its samples; -1 where there is no output, or a failed one."""
        lengths = np.full(self._records[run].num_samples, -1, dtype=np.intp)
        for position, depth in _ranking_depths(self._store, self._records[run]):
            lengths[position] = depth
        return lengths

    def depth(self, run: int) -> ListDepth:
        """The depth of a run."""
        return run_depth(self._records[run], self.lengths(run))

    def ranks_read(self, definition: MetricMeta) -> float:
        """How many ranks a metric reads in these runs; 0 if it reads none."""
        if not math.isinf(definition.reads):
            return definition.reads
        return max(self.depth(run).longest for run in range(len(self._records)))

    def hits_problem(self, result: MetricResult) -> str | None:
        """Why average precision over hits cannot compare these runs; ``None`` where it can, and for other metrics."""
        signature = result.signature or ""
        if not re.search(r"\|(?:\w+\.)?ap:hits(?:\||$)", signature):
            return None
        cut = re.search(r"\bmap@(\d+)", signature)
        lengths = np.stack([self.lengths(run)[rows] for run, rows in enumerate(self._shared.rows)])
        lengths = np.minimum(lengths, int(cut[1])) if cut else lengths
        # A missing output counts at the worst value, whatever the depth.
        differ = np.flatnonzero((lengths != lengths[0]).any(axis=0) & (lengths >= 0).all(axis=0))
        if not len(differ):
            return None
        place = int(differ[0])
        shown = " and ".join(str(length) for length in dict.fromkeys(lengths[:, place].tolist()))
        return (
            f"average precision over hits ignores what was not found, so it cannot compare runs that return different "
            f"numbers of documents ({shown} for sample '{self._shared.ids[place]}'); score each again with `auepora "
            f"rescore RUN -m '{result.name}:ap=gold'`"
        )

    def cut_problem(
        self, definition: MetricMeta, metrics: Sequence[BatchMetric | None], results: Sequence[MetricResult]
    ) -> tuple[str, list[MetricResult]]:
        """Why a metric that reads deeper than a cut does not compare these runs, with bounds; empty where it does.

        Also the best results that the runs can have, where they are known.
        """
        ranks = self.ranks_read(definition)
        reasons, best = [], list(results)
        for run, label in enumerate(run_labels(len(self._records))):
            if not ranks or (cut := self.depth(run).cut) is None or cut >= ranks:
                continue
            metric, result = metrics[run], results[run]
            reason = _cut_text(label, self.depth(run))
            if metric is not None and metric.metadata.matches_gold and not result.details.corrections:
                best[run] = self._best_result(run, metric, cut)
                reason += f"; {label} lies between {result.value:.4f} and {best[run].value:.4f}"
            reasons.append(reason)
        return "; ".join(reasons), best

    def _best_result(self, run: int, metric: BatchMetric, cut: int) -> MetricResult:
        """The result of a metric if all gold that a run did not return stood right below its cut."""
        record, match = self._records[run], metric.active_conventions.match
        outputs = self._answers.of(record)
        if match in TEXT_MATCHES:
            outputs = outputs.with_texts()

        def pairs(repeat: int) -> Iterator[Pair]:
            return with_gold_below(outputs.pairs(repeat), cut, match)

        options = EvaluationOptions(conventions=metric.active_conventions, run=run_info(record))
        return evaluate_pairs(pairs, outputs.repeats, [metric], options)[0]

    def describe(self, given: ComparisonInput, signature: str | None) -> ComparisonInput:
        """The input of a comparison with what different lengths of lists mean for it."""
        shorter = self._shorter_run(given)
        if shorter is None:
            return given
        label, longest = run_labels(max(given.runs) + 1)[shorter], self.depth(shorter).longest
        asked = [self.depth(run).top_k for run in given.runs]
        change = "" if None in asked or asked[0] == asked[1] else f" (top_k {asked[0]} → {asked[1]})"
        last = self.ranks_read(given.definition)
        counted = f"ranks {longest + 1} to {last:.0f} count" if last > longest + 1 else f"rank {last:.0f} counts"
        note = f"lists of {label} end at {longest}{change}; {counted} as no hit"
        if "|p:returned" in (signature or ""):
            note = f"lists of {label} end at {longest}{change}; precision over what is returned favours short lists"
            advice = f"compare the denominator k: `auepora rescore RUN -m '{given.name}:precision=k'`"
            return replace(given, notes=(*given.notes, note, advice), withheld=given.withheld or "list_length")
        given = replace(given, notes=(*given.notes, note))
        if shorter == given.runs[0] and self._prefix_proportion(given.runs) >= _PREFIXES:
            given = replace(given, longer_list=f"longer list{change}")
        return given

    def _shorter_run(self, given: ComparisonInput) -> int | None:
        """The run whose lists end above the ranks that a metric reads, and above those of the other run."""
        ranks = self.ranks_read(given.definition)
        ends = [min(self.depth(run).longest, ranks) for run in given.runs] if ranks else [0, 0]
        if ends[0] == ends[1]:
            return None
        return given.runs[0] if ends[0] < ends[1] else given.runs[1]

    def _compare_prefixes(self, pair: tuple[int, int]) -> float:
        """The proportion of queries whose list in the first run begins the list in the second."""
        first, second = (self._ids(run) for run in pair)
        begins = [longer[: len(shorter)] == shorter for shorter, longer in zip(first, second, strict=True)]
        return sum(begins) / max(len(begins), 1)

    def _ids(self, run: int) -> Iterator[list[str]]:
        for output in self._answers.of(self._records[run]).outputs_at(self._shared.rows[run], 0):
            retrieved = () if output is None else output.retrieved
            yield [item.doc.doc_id for item in retrieved]


def with_gold_below(pairs: Iterator[Pair], cut: int, match: Match) -> Iterator[Pair]:
    """The same outputs with the gold that a list of this length does not reach right below its end, the highest level
    first: the best that can be."""
    for sample, output in pairs:
        if output is None or output.error is not None or len(output.retrieved) < cut:
            yield sample, output
            continue
        units = sorted(gold_units(sample, match), key=attrgetter("level"), reverse=True)
        ranks = unit_ranks(units, documents_of(output), match)
        unseen = [unit.passages[0] for unit, found in zip(units, ranks, strict=True) if found.rank is None]
        below = [RetrievedDocument(doc, None, rank) for rank, doc in enumerate(unseen, cut + 1)]
        yield sample, replace(output, retrieved=[*output.retrieved, *below])


def join_ends(ends: Sequence[MetricComparison]) -> MetricComparison:
    """The comparison at both ends of what cut lists allow: inconclusive unless both have the same verdict.

    Shown are the smaller difference, the larger p-value and intervals that contain those of both ends.
    """
    shown = min(ends, key=lambda end: abs(end.delta or 0.0))
    if len(ends) == 1:
        return shown
    verdicts = {end.verdict for end in ends}
    return replace(
        shown,
        verdict=shown.verdict if len(verdicts) == 1 else "inconclusive",
        interval=_widest([end.sure_interval for end in ends]),
        interval_adjusted=_widest([end.interval_adjusted for end in ends]),
        interval_under_skew=None,
        p_value=max([end.p_value or 0.0 for end in ends]),
        p_adjusted=None if shown.p_adjusted is None else max([end.p_adjusted or 0.0 for end in ends]),
    )


def _widest(intervals: Iterable[tuple[float, float] | None]) -> tuple[float, float] | None:
    """The smallest interval that contains all of these; ``None`` where there is none."""
    known = [interval for interval in intervals if interval is not None]
    return (min(low for low, _ in known), max(high for _, high in known)) if known else None


def mark_longer_list(given: ComparisonInput, found: MetricComparison) -> MetricComparison:
    """The comparison, marked where the second run only returns more of the same ranking."""
    if given.longer_list is None:
        return found
    return replace(found, longer_list=given.longer_list, note=join_notes(given.longer_list, found.note))


def _cut_text(label: str, depth: ListDepth) -> str:
    end = f"the saved lists of {label} end at {depth.cut} documents"
    if depth.top_k is not None:
        return f"{end}, fewer than the declared top_k of {depth.top_k}"
    declared = f"`config: {{top_k: {depth.cut}}}`"
    return f"{end}, and no top_k is declared; if the system returns {depth.cut}, write {declared} under its outputs"
