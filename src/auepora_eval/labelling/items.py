"""Items to label: question, answer and retrieved documents of a sample, read from the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.errors import BadValueError
from ..core.slices import parse_slices, require_slice_values
from ..features.gold_match import gold_documents, gold_ranks
from ..judge.ratings import question_frames
from .draw import SINGLE_STRATUM

if TYPE_CHECKING:
    from ..core.types import EvaluationSample, SystemOutputs
    from ..store.runs import RunStore

__all__ = ["LabelItem", "Population", "PreviousLabel", "ShownDocument", "build_item", "load_population", "read_items"]


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

    sample_id: str
    question: str
    answer: str
    evidence: tuple[ShownDocument, ...] = ()
    references: tuple[str, ...] = ()
    conversation: str = ""
    """The turns before the question."""
    previous_labels: tuple[PreviousLabel, ...] = ()


@dataclass(frozen=True, slots=True)
class Population:
    """The samples of a run with an answer, by stratum, and the number without one, by reason."""

    strata: Mapping[str, str]
    left_out: Mapping[str, int]


def load_population(store: RunStore, run_id: str, stratify: str | None = None) -> Population:
    """The population of a draw from this run: one answer per sample, the first of several repeats."""
    samples = store.samples(run_id, texts=False)
    reasons = {"no_output": len(samples), "failed": 0, "no_answer": 0}
    answered: list[EvaluationSample] = []
    for row in store.outputs(run_id, repeat=0, texts=False):
        reasons["no_output"] -= 1
        if row.output.error is not None:
            reasons["failed"] += 1
        elif row.output.response is None:
            reasons["no_answer"] += 1
        else:
            answered.append(samples[row.position])
    if not answered:
        why = ", ".join(f"{reason} {count}" for reason, count in reasons.items() if count) or "it has no samples"
        raise BadValueError(f"{run_id} has no answer to label: {why}")
    strata = dict.fromkeys((sample.sample_id for sample in answered), SINGLE_STRATUM)
    if stratify is not None:
        (slice_,) = parse_slices([stratify])
        require_slice_values([slice_], answered)
        # A sample is drawn once, so a combination of several labels is its own stratum.
        strata = {sample.sample_id: ", ".join(slice_.groups(sample)) for sample in answered}
    return Population(strata, {reason: count for reason, count in reasons.items() if count})


def read_items(
    store: RunStore,
    run_id: str,
    sample_ids: Sequence[str],
    previous_labels: Mapping[str, Iterable[PreviousLabel]] | None = None,
) -> tuple[LabelItem, ...]:
    """The items of these samples, in order."""
    wanted_ids = dict.fromkeys(sample_ids)
    samples = {sample.sample_id: sample for sample in store.samples(run_id) if sample.sample_id in wanted_ids}
    outputs = {row.sample_id: row.output for row in store.outputs(run_id, repeat=0) if row.sample_id in wanted_ids}
    return tuple(
        build_item(samples[one], outputs[one], (previous_labels or {}).get(one, ()))
        for one in sample_ids
        if one in samples and one in outputs
    )


def build_item(
    sample: EvaluationSample, output: SystemOutputs, previous_labels: Iterable[PreviousLabel] = ()
) -> LabelItem:
    """The item of one sample and its output."""
    gold = {doc.doc_id: doc for doc in sample.relevant_docs or ()}
    golds = gold_documents(sample)
    ranks = gold_ranks(golds, [hit.doc for hit in output.retrieved])
    by_span = {rank.rank: one.doc_id for one, rank in zip(golds, ranks, strict=True) if rank.by == "span"}
    evidence = [
        ShownDocument(hit.doc.doc_id, hit.doc.text, rank, hit.doc.doc_id in gold or rank in by_span)
        for rank, hit in enumerate(output.retrieved, start=1)
    ]
    shown_ids = {one.doc_id for one in evidence} | {*by_span.values()}
    evidence += [
        ShownDocument(doc.doc_id, doc.text, None, True) for doc in gold.values() if doc.doc_id not in shown_ids
    ]
    question = question_frames(sample)
    conversation = question["conversation"] if isinstance(question, Mapping) else ""
    answer = "" if output.response is None else output.response.text
    if not answer and output.response is not None and output.response.structured is not None:
        import json

        answer = json.dumps(output.response.structured, indent=2, ensure_ascii=False)
    return LabelItem(
        sample.sample_id,
        sample.query,
        answer,
        tuple(evidence),
        tuple(sample.references),
        conversation,
        tuple(previous_labels),
    )
