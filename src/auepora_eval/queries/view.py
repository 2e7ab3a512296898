"""The view of one query: marks and ranks of gold, unsupported words, claims and judgements, as pages show them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

from ..core.conventions import Match
from ..core.scores import MarkedSpan
from ..core.types import Document, EvaluationSample, SystemOutputs, UnknownRanking
from ..errors import AueporaError
from ..features.matching import (
    MATCH_WORDS,
    GoldRank,
    GoldUnit,
    chunk_levels,
    first_rank,
    gold_ranks,
    gold_units,
    has_spans,
    merge_spans,
)
from ..features.rankings import parse_level
from ..store.rows import StoredJudgement
from ..text.sentences import sentence_spans
from ..text.tokenizers import plain_words

Ranges = list[tuple[int, int]]
"""Start and end (exclusive) positions, in ascending order."""


class Hit(NamedTuple):
    """How a retrieved document hits gold, and the level of it."""

    how: str
    """How gold was matched, such as ``by document``; empty if by its id."""
    level: int | None


Hits = dict[int, Hit]
"""Hits by rank."""

# --- gold passages and hits ------------------------------------------------------------------------------------------


class GoldMarks:
    """The gold of one sample, and the marks of retrieved documents."""

    def __init__(self, sample: EvaluationSample, match: Match = "id") -> None:
        """``match`` is the way of the run in which gold is matched. By span and text, the documents need texts."""
        self.match = match
        self.levels: dict[str, int] = {}
        self.annotated = sample.relevant_docs is not None
        self._parents: set[str] = set()
        self._passages: dict[str, list[tuple[int, int]]] = {}
        for document in sample.relevant_docs or ():
            level = relevance(document)
            self.levels[document.doc_id] = max(level, self.levels.get(document.doc_id, level))
            if level > 0:
                self._parents.add(document.parent)
                if document.span is not None:
                    self._passages.setdefault(document.parent, []).append(document.span)
        expected = sample.metadata.get("expected_doc_ids")
        if isinstance(expected, (list, tuple)):
            self._parents.update(doc_id for doc_id in expected if isinstance(doc_id, str))
        self._not_relevant = {document.doc_id for document in sample.candidate_docs or ()} - self.levels.keys()
        self._has_groups = bool(sample.relevant_groups)
        self._units: list[GoldUnit] = []
        if match != "id" or self._has_groups or has_spans(sample):
            with suppress(AueporaError):  # a level that is not an integer
                self._units = gold_units(sample, match)

    def ranks(self, documents: Sequence[Document]) -> dict[str, GoldRank]:
        """The hit of each retrieved gold document, at which its unit is found."""
        found: dict[str, GoldRank] = {}
        if not self._units:  # ids suffice
            for doc_id, rank in first_ranks(documents).items():
                if self.levels.get(doc_id, 0) > 0:
                    found[doc_id] = GoldRank(rank, "id")
        for unit, at in zip(self._units, gold_ranks(self._units, documents, self.match), strict=True):
            if at.rank is None:
                continue
            for passage in unit.passages:
                found[passage.doc_id] = first_rank([at, found.get(passage.doc_id, at)])
        return found

    def gold_ranks(self, documents: Sequence[Document]) -> dict[str, int]:
        """The rank of each retrieved gold document."""
        return {doc_id: at.rank for doc_id, at in self.ranks(documents).items() if at.rank is not None}

    def first_rank(self, documents: Sequence[Document]) -> int | None:
        """The rank of the first gold document."""
        return first_rank(self.ranks(documents).values()).rank

    def hits(self, documents: Sequence[Document]) -> Hits:
        """Every rank at which gold is found or a chunk is relevant. A chunk that is returned again is not again."""
        found: Hits = {}
        if self._has_groups or self.match != "id":
            levels = chunk_levels(self._units, documents, self.match)
            for rank in first_ranks(documents).values():
                if (level := levels[rank - 1]) is not None:
                    found[rank] = Hit(f"by {MATCH_WORDS[self.match]}".removeprefix("by id"), level)
        for doc_id, at in self.ranks(documents).items():
            assert at.rank is not None
            found[at.rank] = Hit(f"by {at.by}".removeprefix("by id"), self.levels[doc_id])
        return found

    def marks(self, documents: Sequence[Document]) -> list[str]:
        """Per position ``gold``, ``again`` (the same id), ``part`` (same document), ``not`` (judged so) or nothing."""
        return [mark for mark, _ in self.explained_marks(documents)]

    def explained_marks(self, documents: Sequence[Document]) -> list[tuple[str, Hit]]:
        """The mark of each document, how it was matched, and its level."""
        hits = self.hits(documents)
        seen: set[str] = set()
        explained = []
        for rank, document in enumerate(documents, 1):
            hit = Hit("", self.levels.get(document.doc_id))
            mark = "gold" if rank in hits else self._mark_without_hit(document, hit.level, document.doc_id in seen)
            explained.append((mark, hits.get(rank, hit)))
            seen.add(document.doc_id)
        return explained

    def _mark_without_hit(self, document: Document, level: int | None, is_again: bool) -> str:
        if level is not None and level > 0:  # another passage, or below a hit by span
            return "again" if is_again else "part"
        if level == 0 or document.doc_id in self._not_relevant:
            return "not"
        return "part" if document.parent in self._parents else ""

    def gold_passages(self, document: Document) -> Ranges:
        """The ranges of gold passages in the text of a document whose span in its parent is known."""
        passages = self._passages.get(document.parent)
        own = (0, len(document.text)) if document.parent == document.doc_id else None
        span = document.span or own
        if not passages or not document.text or span is None or span[1] - span[0] != len(document.text):
            return []  # no gold, an unknown place, or a text that does not match its span
        first, last = span
        if any(start <= first and last <= end for start, end in passages):
            return []  # the whole document is gold
        return [(start - first, end - first) for start, end in merge_spans(span, passages)]


def relevance(document: Document) -> int:
    """The relevance level of a gold document; 1 where it is not an integer."""
    metadata: Mapping[str, object] = document.metadata
    try:
        return parse_level(metadata.get("relevance", 1), document.doc_id, "")
    except AueporaError:
        return 1


def first_ranks(documents: Sequence[Document]) -> dict[str, int]:
    """The first rank of each id."""
    ranks: dict[str, int] = {}
    for rank, document in enumerate(documents, 1):
        ranks.setdefault(document.doc_id, rank)
    return ranks


# --- lines between two rankings ---------------------------------------------------------------------------------------

RANK_HEIGHT = 80
"""The height of a document in the drawing between two rankings."""


@dataclass(frozen=True, slots=True)
class GoldLine:
    """A gold document in two rankings: a line between its ranks, or one that ends where a run lost it."""

    first: int | None
    second: int | None

    @property
    def kind(self) -> str:
        """What becomes of the document: ``kept``, ``lost`` or ``found``."""
        if self.first is None:
            return "found"
        return "lost" if self.second is None else "kept"

    def path(self, rows: int) -> str:
        """The line in a drawing that is 48 wide; ranks that are not among the rows are at its lower edge."""
        start, end = _height(self.first or 0, rows), _height(self.second or 0, rows)
        paths = {"lost": f"M0 {start}H28", "found": f"M28 {end}H48"}
        return paths.get(self.kind, f"M0 {start}C24 {start} 24 {end} 48 {end}")

    def cross(self, rows: int) -> str:
        """The cross at the end of a lost document."""
        return f"M26 {_height(self.first or 0, rows) - 6}l12 12m0 -12l-12 12" if self.kind == "lost" else ""


def _height(rank: int, rows: int) -> int:
    return RANK_HEIGHT * rows if rank > rows else RANK_HEIGHT * rank - RANK_HEIGHT // 2


def gold_lines(first: Mapping[str, int], second: Mapping[str, int], rows: int) -> list[GoldLine]:
    """The lines between the ranks of gold in two rankings, of those with an end among the rows."""
    lines = [GoldLine(first.get(doc_id), second.get(doc_id)) for doc_id in dict.fromkeys([*first, *second])]
    return [line for line in lines if min(line.first or rows + 1, line.second or rows + 1) <= rows]


# --- ranges in UTF-16 -------------------------------------------------------------------------------------------------

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
    for is_unknown, group in groupby(tokens, key=lambda token: token[0] in unknown):
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
        self._places: list[tuple[int, int, int]] = []
        self._sizes: list[int] = []
        self._sentences_with: dict[str, list[int]] = {}
        for number, text in enumerate(texts):
            for start, end in sentence_spans(text[:_MAX_INDEXED_LENGTH]):
                words = frozenset(plain_words(text[start:end]))
                for word in words:
                    self._sentences_with.setdefault(word, []).append(len(self._places))
                self._places.append((number, start, end))
                self._sizes.append(len(words))

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
            claims |= {claim.strip(): [] for claim in reply["claims"] if isinstance(claim, str) and claim.strip()}
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
            claims.setdefault(statement, []).append(ClaimVerdict(row.metric, row.critic, label, why, source))
    return claims


def span_marks(answer: str, spans: Sequence[MarkedSpan]) -> list[tuple[int, int, float]]:
    """The ranges that a metric marks in an answer, with their probabilities."""
    ranges = utf16_ranges(answer, [(span.start, span.end) for span in spans])
    return [(start, end, span.probability) for (start, end), span in zip(ranges, spans, strict=True)]


# --- judgements ------------------------------------------------------------------------------------------------------

_MAX_RAW_LENGTH = 20_000


def judgement_fields(judgement: StoredJudgement, *, is_old: bool = False) -> dict[str, Any]:
    """A judgement, or its failure, with short keys. The raw reply is kept only where there is no parsed answer.

    ``is_old`` says that the metric has another signature by now.
    """
    body = dict(judgement.body)
    answer = body.get("answer")
    raw = body.get("raw") if judgement.reason is not None or not answer else None
    value = {
        "metric": judgement.metric,
        "critic": judgement.critic,
        "prompt": judgement.prompt_id,
        "repeat": judgement.repeat,
        "again": judgement.judge_repeat,
        "failed": judgement.reason,
        "old": is_old or None,
        "message": body.get("message"),
        "answer": _with_statements(answer, body.get("about")),
        "raw": raw[:_MAX_RAW_LENGTH] if isinstance(raw, str) else raw,
    }
    return drop_empty(value)


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


def drop_empty(value: dict[str, Any]) -> dict[str, Any]:
    """The fields with a value."""
    return {key: inner for key, inner in value.items() if inner is not None and inner != {} and inner != []}
