"""Columns of a stored run for lists of queries: samples, outputs and scores, read without an object per document."""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..compare.match import matched_metric, matched_result, recompute, supported_ways
from ..compare.pairing import MetricMeta, T, lookup_metric
from ..compare.stores import TEXT_MATCHES, run_outputs
from ..core.conventions import Match
from ..core.metrics_base import BatchMetric
from ..core.scores import AnswerSpans, Outcomes, Scores, Status
from ..core.slices import Rows, group_names
from ..core.types import Document, EvaluationSample, MetricResult, Response, SystemOutputs
from ..errors import AueporaError
from ..features.matching import first_gold_rank
from ..features.rankings import parse_level
from ..features.texts import RefusalDetector
from ..io.codec import DocumentRow
from ..runtime.processes import return_free_memory
from ..stats.intervals import Bools, Floats
from ..store.records import RunRecord, plan_conventions
from ..store.runs import RunStore, packed_outputs, packed_samples, result_summaries, result_with_scores
from ..store.texts import PackedOutput

Bytes = npt.NDArray[np.uint8]

MAX_SEARCHED_LENGTH = 5_000
"""The number of characters of a question or answer that are searched; fewer in a large run."""
_SEARCHED_CHARACTERS = 20_000_000
_MIN_SEARCHED_LENGTH = 100
_MAX_CODES = 0xFFFF
_MAX_LABELS = 32
_MAX_TIMINGS = 16
_MAX_TABLES = 4
_COUNTED_BYTES = 50_000
_FEW_POSITIONS = 200
_SEPARATOR = b"\xff"  # not a byte of UTF-8
_READING = threading.Lock()
SECONDS = "end_to_end"
"""The timing of the condition ``seconds``."""

ANSWERS = ("missing", "failed", "none", "empty", "answered", "refused")
"""The values of ``answer``, by code: no output, only failures, no answer requested, an empty one, one, a refusal."""
MISSING, FAILED, NONE, EMPTY, ANSWERED, REFUSED = range(6)
ABSENT = 255
"""The status or state of a query that is not in the dataset of a run."""


class SearchTexts:
    """Texts in one buffer."""

    def __init__(self, texts: Iterable[str]) -> None:
        parts = [text.encode("utf-8", "surrogatepass") for text in texts]
        self._ends = np.cumsum(np.fromiter((len(part) + 1 for part in parts), np.int64, len(parts)))
        self._data = _SEPARATOR.join([*parts, b""])

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> str:
        start = int(self._ends[index - 1]) if index else 0
        return self._data[start : int(self._ends[index]) - 1].decode("utf-8", "surrogatepass")

    @property
    def nbytes(self) -> int:
        """The size in memory."""
        return len(self._data) + self._ends.nbytes

    def contain(self, term: str, among: Bools) -> Rows:
        """The indices of the texts that contain a term, of those in the mask."""
        wanted, find = term.encode("utf-8", "surrogatepass"), self._data.find
        rows = np.flatnonzero(among)
        if len(rows) * 4 < len(self):
            ends = self._ends[rows]
            starts = np.where(rows > 0, self._ends[rows - 1], 0)
            hits = [find(wanted, start, end) >= 0 for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
            return rows[np.array(hits, np.bool_)]
        places = np.searchsorted(self._ends, self._positions(wanted), side="right")
        found = np.zeros(len(self), np.bool_)
        found[places] = True
        return np.flatnonzero(found & among)

    def _positions(self, wanted: bytes) -> Rows:
        """All positions of a sequence of bytes, by the byte that is rarest at the beginning of the buffer."""
        data, size = np.frombuffer(self._data, np.uint8), len(wanted)
        last = len(data) - size + 1
        if last <= 0:
            return np.zeros(0, np.intp)
        counts = np.bincount(data[:_COUNTED_BYTES], minlength=256)
        first = min(range(size), key=lambda place: counts[wanted[place]])
        found = np.flatnonzero(data[first : first + last] == wanted[first])
        for place in range(size):
            if len(found) < _FEW_POSITIONS:
                return found[np.array([self._data.startswith(wanted, at) for at in found.tolist()], np.bool_)]
            if place != first:
                found = found[data[found + place] == wanted[place]]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class SampleColumns:
    """The samples of a dataset."""

    ids: list[str]
    searched: SearchTexts
    """Ids and questions in lower case."""
    has_gold: Bools
    labels: dict[str, tuple[list[tuple[str, ...]], npt.NDArray[Any]]]
    """By name of a label, its distinct groups of values, and per sample the number of its group."""
    clusters: list[str] | None
    """``None`` if each sample is its own cluster."""

    def question(self, position: int) -> str:
        """The question of a sample in lower case, as far as it is searched."""
        return self.searched[position][len(self.ids[position].lower()) + 1 :]

    @property
    def nbytes(self) -> int:
        """About the size in memory."""
        return self.searched.nbytes + len(self.ids) * (80 + 2 * len(self.labels))


@dataclass(frozen=True, slots=True, eq=False)
class OutputColumns:
    """The outputs of a run; with repeats, the first that did not fail."""

    states: Bytes
    """Indices of ``ANSWERS``; refusals count as answered."""
    ranks: npt.NDArray[np.int32]
    """The rank of the first gold document; 0 for none."""
    dropped: Bools
    """Whether a step of the system returned a gold document, and the ranking has none."""
    timings: dict[str, Floats]
    searched: SearchTexts
    """Answers or errors of all repeats in lower case."""


class ScoreColumn:
    """The scores of one metric; floats with few distinct values are stored as codes."""

    def __init__(self, result: MetricResult, meta: MetricMeta) -> None:
        self.result, self.meta = result, meta
        values, status, codes, names = score_columns(result)
        self.reasons = list(names)
        self.status = status.astype(np.uint8)
        self.reason_codes = codes.astype(np.uint8 if len(names) <= 0x100 else np.uint16)
        table, numbers = np.unique(values, return_inverse=True)
        compact = len(table) <= _MAX_CODES
        self._table = table if compact else None
        self._values: npt.NDArray[Any] = numbers.reshape(-1).astype(np.uint16) if compact else values
        keys = result.scores.keys if isinstance(result.scores, Scores) else None
        self.spans = {row: key for row, key in enumerate(keys or ()) if isinstance(key, AnswerSpans) and key.spans}
        """The spans that the metric marks in answers, by position."""
        attributed = () if keys is None else result.details.causes
        self.causes = {str(name): code for code, name in enumerate(attributed, 1)}
        """The causes of wrong answers with their codes, where the metric attributes failures; 0 is none."""
        self.cause_codes = np.zeros(0, np.uint8)
        if self.causes:
            self.cause_codes = np.array([self.causes.get(key, 0) for key in keys or ()], np.uint8)
        self.result.scores = self.result.outcomes = None  # only the columns stay in memory

    @property
    def values(self) -> Floats:
        """The scores; NaN where there is none."""
        return self._values if self._table is None else self._table[self._values]

    def score_at(self, position: int) -> tuple[float | None, str]:
        """The score of one sample, and its outcome."""
        value = float(self._values[position] if self._table is None else self._table[self._values[position]])
        status = Status(int(self.status[position])).name.lower()
        reason = self.reasons[self.reason_codes[position]]
        return None if math.isnan(value) else value, f"{status}:{reason}" if reason else status


def score_columns(result: MetricResult) -> tuple[Floats, Bytes, npt.NDArray[Any], Sequence[str]]:
    """Values, statuses and reasons of a stored result; a user's metric may have outcomes of its own."""
    scores, outcomes = result.scores, result.outcomes
    assert isinstance(scores, Scores)
    if outcomes is None or isinstance(outcomes, Outcomes):
        return scores.values, scores.status, scores.reason_codes, scores.reason_names
    names = {"": 0}
    status, codes = np.zeros(len(scores), np.uint8), np.zeros(len(scores), np.uint16)
    for index, text in enumerate(outcomes):
        word, _, reason = text.partition(":")
        known = Status.__members__.get(word.upper())
        status[index] = Status.MEASURE_FAILED if known is None else known
        codes[index] = names.setdefault(reason if known is not None else text, len(names))
    return scores.values, status, codes, tuple(names)


class KnownValues:
    """Values by key, each computed once on first access. Threads wait only for the value that they need."""

    def __init__(self) -> None:
        self._values: dict[object, Any] = {}
        self._locks: dict[object, threading.RLock] = {}
        self._lock = threading.Lock()
        self._prepared: set[object] = set()

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def get(self, key: object, compute: Callable[[], T]) -> T:
        """The value of a key."""
        with self._lock:
            lock = self._locks.setdefault(key, threading.RLock())
        with lock:
            if key not in self._values:
                self._values[key] = compute()
            found: T = self._values[key]
            return found

    def prepare(self, key: object, read: Callable[[], object]) -> bool:
        """Whether the value of a key is known; else ``read`` computes it in a thread, which has begun once."""
        with self._lock:
            begins = key not in self._values and key not in self._prepared
            self._prepared.add(key)
        if begins:
            threading.Thread(target=_read_quietly, args=(read,), name="auepora-columns", daemon=True).start()
        return key in self._values


def _read_quietly(read: Callable[[], object]) -> None:
    # One at a time, so that requests meanwhile share the interpreter with one thread only. An error such as a deleted
    # run is raised again by the next access.
    with _READING, suppress(AueporaError):
        read()
    return_free_memory()


class RunColumns:
    """The columns of one stored run, each read on first access. Several threads may use it."""

    def __init__(
        self, store: RunStore, record: RunRecord, *, samples: Callable[[], SampleColumns] | None = None
    ) -> None:
        """``samples`` returns the samples of the dataset, where they may be known already."""
        self.store, self.record = store, record
        self._read_samples = partial(read_samples, store, record) if samples is None else samples
        self.results = {summary.name: summary for summary in result_summaries(store, record.run_id)}
        """The results by name, without scores."""
        self._computed: dict[str, ScoreColumn] = {}
        self._known = KnownValues()
        self._tables: dict[object, Any] = {}
        self._lock = threading.Lock()

    @property
    def samples(self) -> SampleColumns:
        """The samples of its dataset."""
        return self._known.get("samples", self._read_samples)

    def share_samples(self, samples: SampleColumns) -> None:
        """Use the samples of another run on the same dataset, unless they have been read."""
        self._known.get("samples", lambda: samples)

    def table_of(self, runs: Sequence[RunColumns], build: Callable[[Sequence[RunColumns]], T]) -> T:
        """The table of some runs, the last of which is this one. The last few are kept as long as this run."""
        key = tuple(id(run) for run in runs)
        with self._lock:
            table: T = self._tables.pop(key, None) or build(runs)
            self._tables[key] = table
            while len(self._tables) > _MAX_TABLES:
                del self._tables[next(iter(self._tables))]
            return table

    def prepare(self) -> None:
        """Read samples, outputs and refusals in a thread, unless that has been done or has begun."""
        self._known.prepare("refused", lambda: (self.outputs, self.refused))

    @property
    def outputs(self) -> OutputColumns:
        """Its outputs. Reading those of a large run takes seconds."""
        return self._known.get("outputs", lambda: _read_outputs(self.store, self.record, len(self.samples.ids)))

    def first_ranks(self, match: Match) -> npt.NDArray[np.int32]:
        """The rank of the first gold of each query, matched in this way; 0 for none."""
        if match == "id":
            return self.outputs.ranks
        return self._known.get(("ranks", match), lambda: self._match_ranks(match))

    def _match_ranks(self, match: Match) -> npt.NDArray[np.int32]:
        run = run_outputs(self.store, self.record, texts=match in TEXT_MATCHES)
        ranks = np.zeros(len(self.samples.ids), np.int32)
        for repeat in reversed(range(run.repeats)):  # the first output that did not fail counts
            for row, (sample, output) in enumerate(run.pairs(repeat)):
                if output is not None and output.error is None:
                    ranks[row] = first_gold_rank(sample, output, match=match).rank or 0
        return ranks

    @property
    def has_outputs(self) -> bool:
        """Whether the outputs have been read."""
        return "outputs" in self._known

    @property
    def refused(self) -> Bools:
        """Which answers are refusals."""
        return self._known.get("refused", self._read_refusals)

    def _read_refusals(self) -> Bools:
        refused, detector = np.zeros(len(self.samples.ids), np.bool_), RefusalDetector()
        sample = EvaluationSample("1", "")
        for position, _, packed in packed_outputs(self.store, self.record):
            if packed.error is None and packed.answer is not None and position < len(refused):
                output = SystemOutputs([], Response(packed.answer), refused=packed.refused)
                refused[position] |= detector.refused(sample, output) is True
        return refused

    def scores(self, name: str, match: Match | None = None) -> ScoreColumn | None:
        """The scores of a metric; ``None`` if the run has none per sample.

        They are computed again where gold is to be matched in another way and the run has what that takes.
        """
        if name in self._computed:
            return self._computed[name]
        return self._known.get(("scores", name, match), lambda: self._read_scores(name, match))

    def _read_scores(self, name: str, match: Match | None) -> ScoreColumn | None:
        if name not in self.results:
            return None
        result = self.results[name] if match is None else self.matched(name, match)
        if isinstance(result, str) or result is self.results[name]:
            result = result_with_scores(self.store, self.record.run_id, self.results[name])
        if not isinstance(result.scores, Scores) or len(result.scores) != self.record.num_samples:
            return None
        return ScoreColumn(result, lookup_metric(result, self.record, {}))

    def add_metric(self, metric: BatchMetric) -> None:
        """Compute a metric of answers on the stored outputs. It has the place of a stored one, and is not stored."""
        outputs = run_outputs(self.store, self.record, texts=True)
        (result,) = recompute(outputs, [metric], plan_conventions(self.record).match)
        self._computed[metric.name] = ScoreColumn(result, lookup_metric(result, self.record, {metric.name: metric}))
        self.results[metric.name] = result

    def matched_metric(self, name: str, match: Match) -> BatchMetric | str:
        """The metric of a result with gold matched in this way; why it cannot be."""
        return matched_metric(self.record, self.results[name], match, lambda: self._known.get("ways", self._read_ways))

    def _read_ways(self) -> Sequence[Match]:
        return supported_ways(run_outputs(self.store, self.record))

    def matched(self, name: str, match: Match) -> MetricResult | str:
        """A result of the run with gold matched in this way; why it cannot be."""
        result = self.results[name]
        return self._known.get(("matched", name, match), lambda: matched_result(self.store, self.record, result, match))

    @property
    def nbytes(self) -> int:
        """About the memory of its outputs and of some metrics, without its samples."""
        return 10_000 + self.record.num_samples * (min(200, _searched_length(self.record.num_samples)) + 50)


def _searched_length(count: int) -> int:
    """How many characters of each text are searched."""
    return min(MAX_SEARCHED_LENGTH, max(_MIN_SEARCHED_LENGTH, _SEARCHED_CHARACTERS // max(count, 1)))


def read_samples(store: RunStore, record: RunRecord) -> SampleColumns:
    """Read the samples of a run."""
    ids: list[str] = []
    searched: list[str] = []
    has_gold = bytearray()
    clusters: list[str] = []
    labels: dict[str, tuple[dict[tuple[str, ...], int], array[int]]] = {}
    length = _searched_length(record.num_samples)
    for place, row in enumerate(packed_samples(store, record)):
        ids.append(row.sample_id)
        searched.append(f"{row.sample_id}\n{row.query[:length]}".lower())
        has_gold.append(any(_is_relevant(document) for document in row.relevant_docs or ()))
        cluster = row.sample_id
        if row.cluster_id is not None or "variant_of" in row.labels:
            cluster = EvaluationSample(row.sample_id, "", labels=row.labels, cluster_id=row.cluster_id).cluster
        clusters.append(cluster)
        for name, value in row.labels.items():
            if name not in labels:
                if len(labels) == _MAX_LABELS:
                    continue
                labels[name] = {tuple(group_names(None)): 0}, array("l", [0]) * place
            groups, codes = labels[name]
            codes.extend([0] * (place - len(codes)))
            group = (value,) if isinstance(value, str) else tuple(group_names(value))
            codes.append(groups.setdefault(group, len(groups)))
    columns = {}
    for name, (groups, codes) in labels.items():
        codes.extend([0] * (len(ids) - len(codes)))
        columns[name] = list(groups), np.array(codes, np.uint16 if len(groups) <= _MAX_CODES else np.uint32)
    own = clusters == ids
    return SampleColumns(ids, SearchTexts(searched), np.array(has_gold, np.bool_), columns, None if own else clusters)


def _is_relevant(document: DocumentRow | str) -> bool:
    """Whether a gold document has a level above 0; a level that is not an integer counts as 1."""
    if isinstance(document, str) or "relevance" not in document.metadata:
        return True
    try:
        return parse_level(document.metadata["relevance"], document.doc_id, "") > 0
    except AueporaError:
        return True


def _read_outputs(store: RunStore, record: RunRecord, count: int) -> OutputColumns:
    states = np.full(count, MISSING, np.uint8)
    ranks = np.zeros(count, np.int32)
    dropped = np.zeros(count, np.bool_)
    timings: dict[str, Floats] = {}
    texts = [""] * count
    length = _searched_length(count)
    gold, expected = packed_samples(store, record), 0
    for position, _, packed in packed_outputs(store, record):
        if position >= count:
            continue
        text = (packed.answer if packed.error is None else packed.error) or ""
        if text and len(texts[position]) < length:
            texts[position] = (
                f"{texts[position]}\n{text[:length]}".lower() if texts[position] else text[:length].lower()
            )
        if packed.error is not None:
            states[position] = max(FAILED, states[position])
            continue
        if states[position] > FAILED:
            continue
        states[position] = output_state(packed)
        if position < expected:  # the next repeat
            gold, expected = packed_samples(store, record), 0
        for row in gold:
            expected += 1
            if expected > position:
                ranks[position] = first_rank(row.relevant_docs or (), packed)
                dropped[position] = not ranks[position] and _step_returned_gold(row.relevant_docs or (), packed)
                break
        for name, value in packed.timings.items():
            if name not in timings and len(timings) < _MAX_TIMINGS:
                timings[name] = np.full(count, np.nan)
            if name in timings and isinstance(value, (int, float)) and math.isfinite(value):
                timings[name][position] = value
    return OutputColumns(states, ranks, dropped, timings, SearchTexts(texts))


def output_state(packed: PackedOutput) -> int:
    """The state of an output, as an index of ``ANSWERS``."""
    if packed.error is not None:
        return FAILED
    if packed.answer is None:
        return NONE
    return ANSWERED if packed.answer.strip() else EMPTY


def first_rank(gold: Sequence[DocumentRow | str], packed: PackedOutput) -> int:
    """The rank of the first gold document; 0 if none was returned."""
    rows = [_as_row(document) for document in gold]
    if any(row.span is not None for row in rows):
        documents = [Document(row.doc_id, "", row.metadata, row.parent_id, row.span) for row in rows]
        try:
            sample = EvaluationSample("1", "", documents)
            return first_gold_rank(sample, SystemOutputs(list(packed.hits(None)))).rank or 0
        except AueporaError:
            pass  # a level that is not an integer
    wanted = gold_ids(gold)
    if wanted.isdisjoint(packed.ids):
        return 0
    return next(rank for rank, doc_id in enumerate(packed.ids, 1) if doc_id in wanted)


def gold_ids(gold: Sequence[DocumentRow | str]) -> set[str]:
    """The ids of the relevant documents."""
    relevant = [document for document in gold if _is_relevant(document)]
    return {_as_row(document).doc_id for document in relevant}


def _as_row(document: DocumentRow | str) -> DocumentRow:
    return DocumentRow(document) if isinstance(document, str) else document


def _step_returned_gold(gold: Sequence[DocumentRow | str], packed: PackedOutput) -> bool:
    """Whether a retrieval step lists a gold document: its id, or an object with its ``doc_id``."""
    ids = set()
    for step in packed.steps:
        listed = step.get("retrieved") if isinstance(step, Mapping) else None
        for document in listed if isinstance(listed, list) else ():
            doc_id = document.get("doc_id") if isinstance(document, Mapping) else document
            ids.add(str(doc_id))
    return bool(ids) and not gold_ids(gold).isdisjoint(ids)
