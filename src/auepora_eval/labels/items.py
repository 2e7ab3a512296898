"""Items to label: question, answer and retrieved documents of a sample, read from the store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..core.conventions import Match
from ..core.slices import parse_slices, require_slice_values
from ..core.types import EvaluationSample, SystemOutputs
from ..errors import BadValueError
from ..judge.ratings import question_frames
from ..queries.view import GoldMarks
from ..store.runs import RunStore, iter_samples, packed_outputs
from .draws import SINGLE_STRATUM


@dataclass(frozen=True, slots=True)
class ShownDocument:
    """A retrieved document, or a relevant one that was not retrieved."""

    doc_id: str
    text: str
    rank: int | None
    """``None`` for a relevant document that was not retrieved."""
    gold: bool


@dataclass(frozen=True, slots=True)
class PreviousLabel:
    """An earlier annotator's label, shown for adjudication."""

    annotator: str
    label: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class LabelItem:
    """One answer to label."""

    question: str
    answer: str
    evidence: tuple[ShownDocument, ...] = ()
    references: tuple[str, ...] = ()
    conversation: str = ""
    """The turns before the question."""


@dataclass(frozen=True, slots=True)
class Population:
    """The samples of a run with an answer, by stratum, and the number without one, by reason."""

    strata: Mapping[str, str]
    left_out: Mapping[str, int]


def load_population(store: RunStore, run_id: str, stratify: str | None = None) -> Population:
    """The population of a draw from this run: one answer per sample, the first of several repeats."""
    ids = store.sample_ids(run_id)
    reasons = {"no_output": len(ids), "failed": 0, "no_answer": 0}
    answered: list[int] = []
    for position, repeat, output in packed_outputs(store, store.get(run_id)):
        if repeat:
            break  # they are ordered by repeat
        reasons["no_output"] -= 1
        if output.error is not None:
            reasons["failed"] += 1
        elif output.answer is None:
            reasons["no_answer"] += 1
        else:
            answered.append(position)
    if not answered:
        why = ", ".join(f"{reason} {count}" for reason, count in reasons.items() if count) or "it has no samples"
        raise BadValueError(f"{run_id} has no answer to label: {why}")
    strata = dict.fromkeys((ids[position] for position in answered), SINGLE_STRATUM)
    if stratify is not None:
        (slice_,) = parse_slices([stratify])
        samples = list(iter_samples(store, run_id, texts=False, positions=frozenset(answered)))
        require_slice_values([slice_], samples)
        # A sample is drawn once, so a combination of several labels is its own stratum.
        strata = {sample.sample_id: ", ".join(slice_.groups(sample)) for sample in samples}
    return Population(strata, {reason: count for reason, count in reasons.items() if count})


def answer_text(text: str, structured: Mapping[str, Any] | None) -> str:
    """The text of an answer; of a structured answer without text its values."""
    if text or structured is None:
        return text
    return json.dumps(structured, indent=2, ensure_ascii=False)


def build_item(sample: EvaluationSample, output: SystemOutputs, *, match: Match = "id") -> LabelItem:
    """The item of one sample and its output; ``match`` is the way in which the run matches gold."""
    gold = {doc.doc_id: doc for doc in sample.relevant_docs or ()}
    marks = GoldMarks(sample, match)
    documents = [hit.doc for hit in output.retrieved]
    by_id = gold.keys() if match == "id" else set()
    evidence = [
        ShownDocument(doc.doc_id, doc.text, rank, mark == "gold" or doc.doc_id in by_id)
        for rank, (doc, mark) in enumerate(zip(documents, marks.marks(documents), strict=True), start=1)
    ]
    shown_ids = marks.gold_ranks(documents).keys() | {
        document.doc_id for document in evidence if document.doc_id in by_id
    }
    evidence += [
        ShownDocument(doc.doc_id, doc.text, None, True) for doc in gold.values() if doc.doc_id not in shown_ids
    ]
    question = question_frames(sample)
    conversation = question["conversation"] if isinstance(question, Mapping) else ""
    response = output.response
    return LabelItem(
        sample.query,
        answer="" if response is None else answer_text(response.text, response.structured),
        evidence=tuple(evidence),
        references=tuple(sample.references),
        conversation=conversation,
    )
