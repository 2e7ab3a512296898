"""The reading table: question, reference, answers with marked words, the ranks of gold, and documents on demand."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from itertools import chain
from typing import Any

from ..core.types import Document, UnknownRanking
from ..io.codec import DocumentRow, SampleRow
from ..queries.columns import RunColumns, gold_ids
from ..queries.marked_texts import (
    COMPARED_LENGTH,
    Mark,
    TextPart,
    content_words,
    difference_marks,
    reference_marks,
    split_marks,
)
from ..queries.rows import QueryRow, QuerySide, StoredQuery
from ..queries.view import GoldMarks
from ..store.records import plan_conventions
from ..store.runs import sample_at
from ..text.refusal import built_in_patterns, is_refusal
from .workbench import stored_output

SHOWN = COMPARED_LENGTH
"""The number of characters of a text that the table may show; lines are cut by the style sheet."""
DOTS = 10
"""The number of ranks that are drawn."""
MAX_DOCUMENTS = 50
_CUT_OFF = re.compile(r"@(\d+)")


# --- words -----------------------------------------------------------------------------------------------------------


def shorten_text(text: str) -> str:
    """The beginning of a text as one line."""
    line = " ".join(text[: 2 * SHOWN].split())
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}…"


def mark_words(text: str, words: Set[str], further: Sequence[Mark] = ()) -> list[TextPart]:
    """A text in parts: the words of the reference are marked, and there may be further marks."""
    return split_marks(text, 0, len(text), [*reference_marks(text, words), *further])


# --- rows ------------------------------------------------------------------------------------------------------------


def first_cut_off(runs: Sequence[RunColumns]) -> int | None:
    """The smallest cut-off of a metric of the runs, at which the ranks are divided."""
    primary = chain.from_iterable(run.record.plan.get("primary") or () for run in runs)
    chosen = _CUT_OFF.findall(" ".join([str(name) for name in primary]))
    found = [int(text) for text in _CUT_OFF.findall(" ".join(chain.from_iterable(run.results for run in runs)))]
    return int(chosen[0]) if chosen else min(found, default=None)


def read_row(row: QueryRow) -> dict[str, Any]:
    """The texts of a query in one run or in two."""
    sample = next(stored[0] for stored in row.stored if stored is not None)
    reference = shorten_text(" / ".join(_references(sample)[:3]))
    words = content_words(reference)
    texts = [shorten_text(_answer_text(stored)) for stored in row.stored]
    changed = difference_marks(texts)
    sides = []
    for number, (stored, side, text) in enumerate(zip(row.stored, row.sides, texts, strict=True)):
        parts = mark_words(text, words, changed[number])
        sides.append(_side(stored, side, parts, "AB"[number] if len(row.sides) > 1 else ""))
    labels = [str(value) for value in sample.labels.values()][:4]
    return {"question": shorten_text(sample.query), "reference": reference, "labels": labels, "sides": sides}


def _references(sample: SampleRow[DocumentRow]) -> list[str]:
    first = sample.reference_answer
    text = first if isinstance(first, str) or first is None else first.text
    return list(dict.fromkeys(reference for reference in (text, *sample.reference_answers) if reference))


def _answer_text(stored: StoredQuery | None) -> str:
    output = None if stored is None else stored[1]
    return "" if output is None or output.error is not None else output.answer or ""


def _side(stored: StoredQuery | None, side: QuerySide, answer: Sequence[TextPart], letter: str) -> dict[str, Any]:
    """What one run did with a query; ``problem`` says why there is no answer."""
    shown: dict[str, Any] = {"letter": letter, "answer": (), "is_refusal": False, "has_ranking": False}
    sample, output = (None, None) if stored is None else stored
    if sample is None or output is None:
        return shown | {"problem": "not in the dataset" if sample is None else "no output"}
    if output.error is not None:
        return shown | {"problem": f"failed: {shorten_text(output.error)}"}
    problem = "no answer was asked for" if output.answer is None else "" if answer else "empty answer"
    text = output.answer or ""
    is_declined = output.refused if output.refused is not None else is_refusal(text, built_in_patterns())
    shown |= {"answer": answer, "problem": problem, "is_refusal": is_declined and bool(answer)}
    if output.ranking_unknown or side.rank is None:
        return shown
    gold = gold_ids(sample.relevant_docs or ())
    ranks = {output.ids.index(doc_id) + 1 for doc_id in gold.intersection(output.ids)}
    ranks.update([side.rank] if side.rank else [])
    words = _rank_words(sorted(ranks), len(output.ids))
    return shown | {"gold_ranks": sorted(ranks), "rank_text": words, "has_ranking": True}


def _rank_words(ranks: Sequence[int], count: int) -> str:
    if not ranks:
        return f"no gold in {count}" if count else "nothing retrieved"
    listed = ", ".join(map(str, ranks[:4])) + ("…" if len(ranks) > 4 else "")
    return f"gold at rank {listed}"


def read_documents(run: RunColumns, position: int) -> list[dict[str, Any]]:
    """The retrieved documents of a query, with the words of the reference marked."""
    sample, output = sample_at(run.store, run.record, position), stored_output(run.store, run.record, position)
    if output is None or isinstance(output.retrieved, UnknownRanking):
        return []
    words = content_words(" ".join(sample.references[:3]))
    documents: list[Document] = [item.doc for item in output.retrieved]
    marks = GoldMarks(sample, plan_conventions(run.record).match).marks(documents)
    found = []
    for rank, (item, mark) in enumerate(zip(output.retrieved[:MAX_DOCUMENTS], marks, strict=False), 1):
        text = mark_words(shorten_text(item.doc.text), words)
        score = "" if item.score is None else f"{item.score:.3g}"
        found.append({"rank": rank, "id": item.doc.doc_id, "text": text, "is_gold": mark == "gold", "score": score})
    return found
