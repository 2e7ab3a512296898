"""Queries of the browser as typed columns and JSON with short keys, packed into compressed blocks."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, groupby
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ...compare.columns import Bytes, score_columns
from ...compare.pairing import lookup_metric
from ...compare.types import QueryComparison
from ...core.results import Results, to_json_value
from ...core.scores import MarkedSpan, marked_answers
from ...core.slices import Rows, group_names
from ...core.targets import TARGETS
from ...core.types import Document, EvaluationSample, MetricResult, SystemOutputs, TargetCategory, UnknownRanking
from ...store.records import RunRecord, StoredOutput, plain_value, plan_conventions
from ...store.rows import StoredJudgement
from ...text.sentences import sentence_spans
from ...text.tokenizers import plain_words
from .gold_marks import GoldMarks, Ranges, relevance

# --- marks: unsupported words and spans of an answer -----------------------------------------------------------------

_TOKEN = re.compile(r"\S+")
_NON_BMP = re.compile("[\U00010000-\U0010ffff]")


def utf16_ranges(text: str, ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Convert character ranges to UTF-16 ranges: characters outside the BMP take two units."""
    if text.isascii():
        return list(ranges)
    wide = [match.start() for match in _NON_BMP.finditer(text)]
    return [(start + bisect_left(wide, start), end + bisect_left(wide, end)) for start, end in ranges]


# --- unsupported words -----------------------------------------------------------------------------------------------


@lru_cache(maxsize=1 << 16)
def _word(token: str) -> str:
    """A white-space token as a normalised word; empty where it is only punctuation."""
    return "".join(plain_words(token))


def word_support(output: SystemOutputs) -> tuple[int, int, Ranges] | None:
    """``unsupported_words`` with UTF-16 ranges."""
    support = unsupported_words(output)
    if support is None or output.response is None:
        return None
    missing, count, ranges = support
    return missing, count, utf16_ranges(output.response.text, ranges)


def unsupported_words(output: SystemOutputs) -> tuple[int, int, Ranges] | None:
    """How many words of an answer occur in no document, as ``support_density`` counts them, of how many, and where.

    Adjacent words are one range.
    ``None`` where it is unknown: no answer, a failure, documents without text.
    """
    if output.response is None or output.error is not None or isinstance(output.retrieved, UnknownRanking):
        return None
    texts = [item.doc.text for item in output.retrieved]
    if texts and not any(texts):
        return None
    answer = output.response.text
    tokens = [(word, *token.span()) for token in _TOKEN.finditer(answer) if (word := _word(token[0]))]
    unknown = {word for word, _, _ in tokens}.difference(plain_words("\n".join(texts)))
    ranges: Ranges = []
    missing = 0
    for is_unknown, group in groupby(tokens, key=lambda one: one[0] in unknown):
        words = list(group)
        if is_unknown:
            missing += len(words)
            ranges.append((words[0][1], words[-1][2]))
    return missing, len(tokens), ranges


# --- the sentence of some texts that is closest to a statement -------------------------------------------------------

_MAX_INDEXED_LENGTH = 20_000


class ClosestSentence(NamedTuple):
    """The place of a sentence, and how many of the words of a statement it has."""

    text: int
    """The index of its text."""
    start: int
    end: int
    shared: int
    words: int
    """The number of distinct words of the statement."""


class SentenceIndex:
    """The sentences of some texts by their words."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._places = [
            (number, start, end)
            for number, text in enumerate(texts)
            for start, end in sentence_spans(text[:_MAX_INDEXED_LENGTH])
        ]
        self._sizes: list[int] = []
        self._sentences_with: dict[str, list[int]] = {}
        for index, (number, start, end) in enumerate(self._places):
            words = frozenset(plain_words(texts[number][start:end]))
            self._sizes.append(len(words))
            for word in words:
                self._sentences_with.setdefault(word, []).append(index)

    def closest(self, statement: str) -> ClosestSentence | None:
        """The sentence that shares most words with a statement; a word counts less the more sentences have it.

        ``None`` where no sentence shares a word.
        """
        words = frozenset(plain_words(statement))
        weights: dict[int, float] = {}
        shared: Counter[int] = Counter()
        for word in words:
            sentences = self._sentences_with.get(word, ())
            shared.update(sentences)
            for index in sentences:
                weights[index] = weights.get(index, 0.0) + 1 / len(sentences)
        if not weights:
            return None
        best = max(weights, key=lambda index: (round(weights[index], 9), -self._sizes[index], -index))
        return ClosestSentence(*self._places[best], shared[best], len(words))


# --- claims of an answer ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """What one judge says about a claim."""

    metric: str
    critic: str
    label: str
    rationale: str
    source: str = ""
    """What the claim was compared with, such as "the documents"."""


def judged_claims(judgements: Iterable[StoredJudgement], repeat: int, answer: str) -> dict[str, list[ClaimVerdict]]:
    """The claims of an answer with their verdicts: those that a judge extracted, or sentences that it verified."""
    rows = [row for row in judgements if row.repeat == repeat and row.reason is None]
    claims: dict[str, list[ClaimVerdict]] = {}
    for row in rows:
        about, reply = row.body.get("about") or {}, row.body.get("answer") or {}
        if about.get("of") == "the answer" and isinstance(reply.get("claims"), list):
            claims |= {one.strip(): [] for one in reply["claims"] if isinstance(one, str) and one.strip()}
    for row in rows:
        about, reply = row.body.get("about") or {}, row.body.get("answer") or {}
        statements, verdicts = about.get("statements"), reply.get("verdicts")
        if not isinstance(statements, list) or not isinstance(verdicts, list) or about.get("of") == "the answer":
            continue
        by_number = {verdict.get("number"): verdict for verdict in verdicts if isinstance(verdict, dict)}
        for number, statement in enumerate(statements, 1):
            if not isinstance(statement, str) or (statement not in claims and statement not in answer):
                continue
            verdict = by_number.get(number, {})
            label = str(verdict.get("verdict", "no verdict"))
            why, source = str(verdict.get("why", "")), str(about.get("of") or "")
            one = ClaimVerdict(row.metric, row.critic, label, why, source)
            claims.setdefault(statement, []).append(one)
    return claims


def span_marks(answer: str, spans: Sequence[MarkedSpan]) -> list[tuple[int, int, float]]:
    """The ranges that a metric marks in an answer, with their probabilities."""
    ranges = utf16_ranges(answer, [(span.start, span.end) for span in spans])
    return [(start, end, span.probability) for (start, end), span in zip(ranges, spans, strict=True)]


# --- compressed blocks of JSON, as base64; document texts are stored once --------------------------------------------

MIME = "application/octet-stream;base64"
"""The type of a script element that a browser neither runs nor shows."""
_LEVEL = 4  # 3 % larger than the default 6, in two thirds of its time
_GZIP = 31  # zlib's code for a 32 KiB window with a gzip header; it has no timestamp, so equal data gives equal text


def compress_block(data: bytes) -> str:
    """Compress bytes with gzip and encode them in base64."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return base64.b64encode(packer.compress(data) + packer.flush()).decode()


def json_bytes(value: Any) -> bytes:
    """A value as JSON; other types are written as strings, NaN as null."""
    try:
        return msgspec.json.encode(value, enc_hook=plain_value)
    except (UnicodeEncodeError, TypeError, ValueError):  # lone surrogates, or keys that are not strings
        return json.dumps(to_json_value(value)).encode()


class BlockWriter:
    """Writes values in blocks, limited by their number and their size in bytes.

    Each block is a JSON array under ``<prefix>-<number>``; ``starts`` has the index of its first value.
    """

    def __init__(
        self, prefix: str, put: Callable[[str, str], None], *, most: int = 128, most_bytes: int = 262_144
    ) -> None:
        self._prefix, self._put = prefix, put
        self._most, self._most_bytes = most, most_bytes
        self._pending: list[bytes] = []
        self._bytes = 0
        self._first = 0
        self.starts: list[int] = []

    def __len__(self) -> int:
        return self._first + len(self._pending)

    def add(self, data: bytes) -> int:
        """Add a value that is JSON already; returns its number."""
        if self._pending and (len(self._pending) >= self._most or self._bytes + len(data) > self._most_bytes):
            self.flush()
        self._pending.append(data)
        self._bytes += len(data)
        return len(self) - 1

    def flush(self) -> None:
        """Write the pending values as a block."""
        if not self._pending:
            return
        self._put(f"{self._prefix}-{len(self.starts)}", compress_block(b"[" + b",".join(self._pending) + b"]"))
        self.starts.append(self._first)
        self._first += len(self._pending)
        self._pending, self._bytes = [], 0


class DocumentTexts:
    """Deduplicated document texts in blocks, in order of first use, so that neighbours stay together."""

    def __init__(self, blocks: BlockWriter) -> None:
        self._blocks = blocks
        self._numbers: dict[bytes, int] = {}

    def __call__(self, text: str) -> int:
        """The number of a text; -1 for the empty one."""
        if not text:
            return -1
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if key not in self._numbers:
            self._numbers[key] = self._blocks.add(json_bytes(text))
        return self._numbers[key]

    def __len__(self) -> int:
        return len(self._numbers)


# --- one query as JSON with short keys: the sample, each run's outputs, and the judgements ---------------------------

NumberOf = Callable[[str], int]
"""Maps a document text to its number."""

MAX_CANDIDATES = 200
"""The number of irrelevant candidates listed; all of them are counted."""
_MAX_RAW_LENGTH = 20_000


def sample_json(sample: EvaluationSample, number_of: NumberOf) -> bytes:
    """A sample as JSON."""
    reference = sample.reference_answer
    gold_ids = {document.doc_id for document in sample.relevant_docs or ()}
    others = [document for document in sample.candidate_docs or () if document.doc_id not in gold_ids]
    return json_bytes(
        _drop_empty(
            {
                "id": sample.sample_id,
                "q": sample.query,
                "history": sample.history,
                "labels": sample.labels,
                "metadata": sample.metadata,
                "cluster": None if sample.cluster == sample.sample_id else sample.cluster,
                "refs": sample.references,
                "structured": None if reference is None else reference.structured,
                "others": [[other.doc_id, number_of(other.text)] for other in others[:MAX_CANDIDATES]],
                "others_count": len(others),
                "groups": sample.relevant_groups,
            }
        )
        # ``null`` means not annotated, an empty list annotated without gold.
        | {
            "gold": None
            if sample.relevant_docs is None
            else [_gold(doc_id, number_of) for doc_id in sample.relevant_docs]
        }
    )


def _gold(document: Document, number_of: NumberOf) -> list[Any]:
    metadata = {key: value for key, value in document.metadata.items() if key != "relevance"}
    text = number_of(document.text)
    return _strip_trailing_none(
        [document.doc_id, text, relevance(document), document.parent_id, document.span, metadata or None]
    )


def output_json(
    output: SystemOutputs,
    gold: GoldMarks,
    number_of: NumberOf,
    spans: Iterable[tuple[str, Sequence[MarkedSpan]]] = (),
) -> bytes:
    """An output as JSON, with its marks; ``spans`` are those of its answer, by metric."""
    response = output.response
    documents = [item.doc for item in output.retrieved]
    ranks = gold.gold_ranks(documents)
    value = _drop_empty(
        {
            "error": output.error,
            "refused": output.refused,
            "timings": output.timings,
            "usage": output.usage,
            "steps": output.steps,
            "extra": output.extra,
            "unsaid": isinstance(output.retrieved, UnknownRanking) or None,
            # by span or otherwise: gold that is found at a document of another id
            "by_span": {doc_id: rank for doc_id, rank in ranks.items() if documents[rank - 1].doc_id != doc_id},
        }
    )
    value["docs"] = [
        _strip_trailing_none(
            [
                item.doc.doc_id,
                number_of(item.doc.text),
                item.score,
                mark,
                hit.level,
                item.doc.parent_id,
                item.doc.span,
                utf16_ranges(item.doc.text, gold.gold_passages(item.doc)) or None,
                item.doc.metadata or None,
                hit.how or None,
            ]
        )
        for item, (mark, hit) in zip(output.retrieved, gold.explained_marks(documents), strict=True)
    ]
    if output.citations is not None:
        value["citations"] = output.citations
    if response is not None:
        value["answer"] = response.text
        value["support"] = word_support(output)
        value |= _drop_empty(
            {
                "spans": [[name, span_marks(response.text, marked)] for name, marked in spans if marked],
                "structured": response.structured,
                "answer_metadata": response.metadata,
                "sentences": response.sentences,
            }
        )
    return json_bytes(value)


def judgement_fields(one: StoredJudgement, *, is_old: bool = False) -> dict[str, Any]:
    """A judgement, or its failure, with short keys. The raw reply is kept only where there is no parsed answer.

    ``is_old`` says that the metric has another signature by now.
    """
    body = dict(one.body)
    answer = body.get("answer")
    raw = body.get("raw") if one.reason is not None or not answer else None
    value = {
        "metric": one.metric,
        "critic": one.critic,
        "prompt": one.prompt_id,
        "repeat": one.repeat,
        "again": one.judge_repeat,
        "failed": one.reason,
        "old": is_old or None,
        "message": body.get("message"),
        "answer": _with_statements(answer, body.get("about")),
        "raw": raw[:_MAX_RAW_LENGTH] if isinstance(raw, str) else raw,
    }
    return _drop_empty(value)


def _with_statements(answer: Any, about: Any) -> Any:
    """The answer of a judge, with the text of each statement in place of its number."""
    verdicts = answer.get("verdicts") if isinstance(answer, Mapping) else None
    statements = about.get("statements") if isinstance(about, Mapping) else None
    if not isinstance(verdicts, list) or not isinstance(statements, list):
        return answer
    texts = dict(enumerate(statements, 1))

    def shown(verdict: Any) -> Any:
        number = verdict.get("number") if isinstance(verdict, Mapping) else None
        if not isinstance(number, int) or number not in texts:
            return verdict
        return {"statement": texts[number], **{key: value for key, value in verdict.items() if key != "number"}}

    return {**answer, "verdicts": [shown(verdict) for verdict in verdicts]}


def query_json(samples: Sequence[bytes], sides: Iterable[tuple[int, Sequence[bytes], Sequence[bytes]] | None]) -> bytes:
    """One query: its samples (one, unless the runs have different datasets), and per run the sample index, the outputs
    of all repeats, and the judgements."""
    runs_json = [
        b"null" if side is None else b"[%d,%b,%b]" % (side[0], _array(side[1]), _array(side[2])) for side in sides
    ]
    return b'{"samples":%b,"runs":%b}' % (_array(samples), _array(runs_json))


def _array(values: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(values) + b"]"


def _drop_empty(value: dict[str, Any]) -> dict[str, Any]:
    return {key: inner for key, inner in value.items() if inner is not None and inner != {} and inner != []}


def _strip_trailing_none(values: list[Any]) -> list[Any]:
    """The values without trailing ``None``."""
    while values and values[-1] is None:
        values.pop()
    return values


# --- the stored data of one run --------------------------------------------------------------------------------------

NOT_ASKED, UNANSWERED, ANSWERED, FAILED = range(4)
"""The state of a query in a run: not in its dataset, no output stored, an output, only failures."""
MAX_SEARCHED_LENGTH = 5_000
"""The number of characters of a question or answer that are searched."""


@dataclass(frozen=True, slots=True, eq=False)
class ListedRun:
    """One run with those of its queries that are in the list."""

    record: RunRecord
    results: Results
    size: int
    """The number of its samples, listed or not."""
    samples: Sequence[EvaluationSample]
    """The listed samples; documents have texts only where gold is matched by them."""
    positions: Rows
    """The position of each listed sample in the dataset of the run."""
    rows: Rows
    """The row of each listed sample in the list."""

    @property
    def sample_results(self) -> list[MetricResult]:
        """The results with a score per sample."""
        return [result for result in self.results if result.scores is not None and len(result.scores) == self.size]

    def spread(self, values: npt.NDArray[Any], count: int, fill: float) -> npt.NDArray[Any]:
        """Values of the listed samples as a column of the list; ``fill`` for the others."""
        column = np.full(count, fill, values.dtype)
        column[self.rows] = values
        return column


class RunPacker:
    """Packs the outputs and judgements of one run; document texts go to ``number_of`` and are not kept."""

    def __init__(self, run: ListedRun, number_of: NumberOf) -> None:
        self.run = run
        self._number_of = number_of
        self._indices = {position: index for index, position in enumerate(run.positions.tolist())}
        count = len(self._indices)
        self.outputs: list[list[bytes]] = [[] for _ in range(count)]
        """Per listed sample the outputs as JSON, repeat by repeat; ``null`` where one is missing."""
        self.judgements: list[list[bytes]] = [[] for _ in range(count)]
        self.states = np.full(count, UNANSWERED, np.uint8)
        self.first_hits = np.full(count, np.nan)
        """The rank of the first hit of the first answer; NaN where there is none."""
        self.answers = [""] * count
        """The starts of the answers, for the search."""
        self._spans = marked_answers(run.results)
        self._match = plan_conventions(run.record).match

    @property
    def positions(self) -> Container[int] | None:
        """The positions to read; ``None`` for all."""
        return None if len(self._indices) == self.run.size else self._indices

    def add_output(self, row: StoredOutput) -> None:
        """Add the next stored output."""
        index = self._indices.get(row.position)
        if index is None:
            return
        output, gold = row.output, GoldMarks(self.run.samples[index], self._match)
        repeats = self.outputs[index]
        repeats += [b"null"] * (row.repeat - len(repeats))
        keys = ((name, keys[row.position]) for name, keys in self._spans.items())
        spans = [(name, key.of_repeat(row.repeat)) for name, key in keys if key is not None]
        repeats.append(output_json(output, gold, self._number_of, spans))
        if output.error is None:
            if self.states[index] != ANSWERED:
                rank = gold.first_rank([item.doc for item in output.retrieved])
                self.first_hits[index] = np.nan if rank is None else rank
            self.states[index] = ANSWERED
        elif self.states[index] == UNANSWERED:
            self.states[index] = FAILED
        text = (output.response.text if output.response is not None else output.error or "")[:MAX_SEARCHED_LENGTH]
        self.answers[index] = f"{self.answers[index]}\n{text}" if self.answers[index] else text

    def add_judgements(self, judgements: Iterable[StoredJudgement]) -> None:
        """Add the stored judgements of the run."""
        current = {result.name: result.signature for result in self.run.results}
        for judgement in judgements:
            index = self._indices.get(judgement.position)
            if index is not None:
                is_old = current.get(judgement.metric, judgement.signature) != judgement.signature
                self.judgements[index].append(json_bytes(judgement_fields(judgement, is_old=is_old)))


# --- the list of queries as typed columns: ids, questions, scores and outcomes ---------------------------------------

ABSENT = 255
"""The outcome of a query that is not in a run."""
MAX_START_LENGTH = 200
"""The number of characters of a question in the list."""
MAX_VALUES, MAX_LABELS = 80, 16
_MAX_DEFAULT_METRICS = 3
_T = TargetCategory
_DEFAULT_TARGETS = (_T.RETRIEVAL_RELEVANCE, _T.GENERATION_CORRECTNESS, _T.GENERATION_FAITHFULNESS)
KINDS = ("Win", "Loss", "Draw", "Regression")


class ColumnBuffer:
    """A byte buffer of columns; each is described by its type, offset and length."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def put(self, column: npt.NDArray[Any]) -> dict[str, Any]:
        """Append a column and return its description; floats with few distinct values become codes with a table."""
        if column.dtype == np.float64:
            values, codes = np.unique(column, return_inverse=True)
            if len(values) <= 0xFFFF and len(values) * 2 < max(len(column), 64):
                # NaN is last, and JSON has none: it is the code after the others.
                table = [value for value in values.tolist() if value == value]
                return {**self.put(_compact_codes(codes.reshape(-1), len(values))), "table": table}
        kind = {"float64": "f8", "uint8": "u1", "uint16": "u2"}[column.dtype.name]
        data = np.ascontiguousarray(column, dtype=f"<{kind}").tobytes()
        data += b"\x00" * (-len(data) % 8)
        description = {"type": kind, "at": self._size, "count": len(column)}
        self._parts.append(data)
        self._size += len(data)
        return description

    def data(self) -> bytes:
        """The bytes of all columns."""
        return b"".join(self._parts)


def _compact_codes(codes: npt.NDArray[Any], different: int) -> npt.NDArray[Any]:
    return codes.astype(np.uint8 if different <= 0x100 else np.uint16)


def run_columns(packer: RunPacker, count: int, columns: ColumnBuffer) -> dict[str, Any]:
    """The header of a run, and the columns of its query states."""
    run, record = packer.run, packer.run.record
    return {
        "id": record.run_id,
        "name": record.name,
        "dataset": record.dataset_name,
        "created": record.created_at.isoformat(timespec="seconds"),
        "repeats": record.repeats,
        "states": columns.put(run.spread(packer.states, count, NOT_ASKED)),
        "first_hits": columns.put(run.spread(packer.first_hits, count, np.nan)),
    }


def first_hit_kinds(per_query: Sequence[QueryComparison], rows: Mapping[str, int]) -> Bytes | None:
    """The comparison kind of each query's first expected chunk between two runs, 1 to 4, or 0 for none.

    ``None`` where no query is compared by it.
    """
    if not per_query:
        return None
    kinds = np.zeros(len(rows), np.uint8)
    for one in per_query:
        kinds[rows[one.query_id]] = KINDS.index(one.kind.value) + 1
    return kinds


# --- labels ----------------------------------------------------------------------------------------------------------


LabelGroups = tuple[str, list[tuple[str, ...]], npt.NDArray[Any]]
"""The name of a label, its distinct groups of values, and for each sample the number of its group."""


def label_groups(samples: Sequence[EvaluationSample]) -> list[LabelGroups]:
    """The labels with few distinct values. A sample may have several values of one label."""
    names = dict.fromkeys(str(name) for sample in samples for name in sample.labels)
    found: list[LabelGroups] = []
    for name in names:
        if len(found) == MAX_LABELS:
            break
        groups = [tuple(group_names(sample.labels.get(name))) for sample in samples]
        distinct = {group: code for code, group in enumerate(dict.fromkeys(groups))}
        values = set(chain.from_iterable(distinct))
        if len(values) > MAX_VALUES or len(distinct) > 0xFFFF or not values:
            continue
        codes = np.fromiter((distinct[group] for group in groups), np.uint16, len(groups))
        found.append((name, list(distinct), _compact_codes(codes, len(distinct))))
    return found


def label_columns(samples: Sequence[EvaluationSample], columns: ColumnBuffer) -> list[dict[str, Any]]:
    """The columns of labels, for filters."""
    return [
        {"name": name, "groups": groups, "codes": columns.put(codes)} for name, groups, codes in label_groups(samples)
    ]


# --- metrics ---------------------------------------------------------------------------------------------------------


def metric_columns(runs: Sequence[ListedRun], count: int, columns: ColumnBuffer) -> list[Any]:
    """The columns of every metric with scores per sample in any of the runs."""
    results_by_name: dict[str, list[MetricResult | None]] = {}
    for number, run in enumerate(runs):
        for result in run.sample_results:
            results_by_name.setdefault(result.name, [None] * len(runs))[number] = result
    entries: list[dict[str, Any]] = []
    for name, results in results_by_name.items():
        number, result = next((index, result) for index, result in enumerate(results) if result is not None)
        definition = lookup_metric(result, runs[number].record, {})
        signatures = {result.signature for result in results if result is not None}
        entries.append(
            {
                "name": name,
                "target": TARGETS[result.target].title,
                "higher": definition.higher_score_is_better,
                "rounding": definition.rounding,
                # Scores with different signatures are not subtracted.
                "comparable": len(signatures) == 1,
                "runs": [
                    None if result is None else _scores(result, run, count, columns)
                    for result, run in zip(results, runs, strict=True)
                ],
            }
        )
    # By target, as in the whole report; within a target in the order of the run.
    titles = [target.title for target in TARGETS.values()]
    entries.sort(key=lambda one: titles.index(one["target"]))
    for name in _default_metrics(runs, entries):
        next(entry for entry in entries if entry["name"] == name)["shown"] = True
    return entries


def _default_metrics(runs: Sequence[ListedRun], entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """The metrics whose columns are shown initially: the plan's primary ones, else one per target."""
    names = [entry["name"] for entry in entries]
    listed = runs[0].record.plan.get("primary") if runs else None
    primary = [name for name in listed if name in names] if isinstance(listed, list) else []
    first = {entry["target"]: entry["name"] for entry in reversed(entries)}
    default_titles = [TARGETS[target].title for target in _DEFAULT_TARGETS]
    by_target = [first[title] for title in dict.fromkeys([*default_titles, *first]) if title in first]
    return (primary or by_target)[:_MAX_DEFAULT_METRICS]


def _scores(result: MetricResult, run: ListedRun, count: int, columns: ColumnBuffer) -> dict[str, Any]:
    values, status, codes, names = score_columns(result)
    entry: dict[str, Any] = {"signature": result.signature}
    entry["values"] = columns.put(run.spread(values[run.positions], count, np.nan))
    all_status = run.spread(status[run.positions], count, ABSENT)
    if all_status.any():
        entry["status"] = columns.put(all_status)
    if codes.any():
        all_codes = run.spread(codes[run.positions].astype(np.uint16), count, 0)
        entry["reasons"] = columns.put(_compact_codes(all_codes, len(names)))
        entry["names"] = list(names)
    return entry
