"""Marks in the query browser: hits among documents, unsupported words and spans of an answer, gold passages in a text.

Positions in a text are UTF-16 code units, as in JavaScript.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby

from ...core.scores import MarkedSpan
from ...core.types import Document, EvaluationSample, SystemOutputs, UnknownRanking
from ...errors import AueporaError
from ...features.hits import GoldDocument, GoldRank, first_rank, gold_ranks, has_spans
from ...features.rankings import parse_level
from ...text.tokenizers import plain_words

Ranges = list[tuple[int, int]]
"""Start and end (exclusive) positions, in ascending order."""

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
    return missing, len(tokens), utf16_ranges(answer, ranges)


def span_marks(answer: str, spans: Sequence[MarkedSpan]) -> list[tuple[int, int, float]]:
    """The ranges that a metric marks in an answer, with their probabilities."""
    ranges = utf16_ranges(answer, [(one.start, one.end) for one in spans])
    return [(start, end, one.probability) for (start, end), one in zip(ranges, spans, strict=True)]


# --- gold passages and hits ------------------------------------------------------------------------------------------


class GoldMarks:
    """The gold of one sample, and the marks of retrieved documents."""

    def __init__(self, sample: EvaluationSample) -> None:
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
            self._parents.update(one for one in expected if isinstance(one, str))
        self._not_relevant = {one.doc_id for one in sample.candidate_docs or ()} - self.levels.keys()
        docs = sample.relevant_docs or ()
        self._with_spans = [
            GoldDocument(doc_id, level, tuple(one for one in docs if one.doc_id == doc_id))
            for doc_id, level in (self.levels.items() if has_spans(sample) else ())
            if level > 0
        ]

    def ranks(self, documents: Sequence[Document]) -> dict[str, GoldRank] | None:
        """The hit of each gold document, by id or by span; ``None`` where no gold has a span, so ids suffice."""
        if not self._with_spans:
            return None
        ranks = gold_ranks(self._with_spans, documents)
        return {one.doc_id: rank for one, rank in zip(self._with_spans, ranks, strict=True) if rank.rank is not None}

    def first_rank(self, documents: Sequence[Document]) -> int | None:
        """The rank of the first gold document."""
        ranks = self.ranks(documents)
        if ranks is not None:
            return first_rank(ranks.values()).rank
        return next((rank for rank, one in enumerate(documents, 1) if self.levels.get(one.doc_id, 0) > 0), None)

    def marks(self, documents: Sequence[Document], ranks: Mapping[str, GoldRank] | None = None) -> list[str]:
        """Per position ``gold``, ``again`` (the same id), ``part`` (same document), ``not`` (judged so) or nothing.

        ``ranks`` are those of the gold documents, where they have spans.
        """
        seen: set[str] = set()
        marks = []
        levels = self.levels
        ranks = self.ranks(documents) if ranks is None else ranks
        at = None if ranks is None else {one.rank for one in ranks.values()}
        for rank, document in enumerate(documents, 1):
            doc_id = document.doc_id
            level = levels.get(doc_id)
            if at is not None and rank in at:
                marks.append("gold")
            elif at is not None and level is not None and level > 0 and doc_id not in seen:
                marks.append("part")  # a gold id of another passage, or below a hit by span
            elif level is not None and level > 0:
                marks.append("again" if doc_id in seen else "gold")
            elif level == 0 or doc_id in self._not_relevant:
                marks.append("not")
            elif document.parent in self._parents:
                marks.append("part")
            else:
                marks.append("")
            seen.add(doc_id)
        return marks

    def passages_in(self, document: Document) -> Ranges:
        """The ranges of gold passages in the text of a document whose span in its parent is known."""
        passages = self._passages.get(document.parent)
        own = (0, len(document.text)) if document.parent == document.doc_id else None
        span = document.span or own
        if not passages or not document.text or span is None or span[1] - span[0] != len(document.text):
            return []  # no gold, an unknown place, or a text that does not match its span
        first, last = span
        if any(start <= first and last <= end for start, end in passages):
            return []  # the whole document is gold
        cut = sorted((max(start, first) - first, min(end, last) - first) for start, end in passages)
        return utf16_ranges(document.text, _merge_ranges(one for one in cut if one[0] < one[1]))


def relevance(document: Document) -> int:
    """The relevance level of a gold document; 1 where it is not an integer."""
    metadata: Mapping[str, object] = document.metadata
    try:
        return parse_level(metadata.get("relevance", 1), document.doc_id, "")
    except AueporaError:
        return 1


def _merge_ranges(ranges: Iterable[tuple[int, int]]) -> Ranges:
    merged: Ranges = []
    for start, end in ranges:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
