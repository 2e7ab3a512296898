"""The documents that a run retrieved for each sample, loaded from the store for a replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..core.errors import BadValueError
from ..core.types import EvaluationSample, RetrievedDocument, UnknownRanking
from ..store.records import RunRecord
from ..store.runs import RunStore
from .replay_system import ReplayContext

__all__ = ["stored_contexts"]


def stored_contexts(
    store: RunStore, record: RunRecord, samples: Sequence[EvaluationSample]
) -> tuple[dict[str, ReplayContext], list[str]]:
    """The documents of each sample, from the first repeat that has any, and notes on them."""
    missing = f"{record.run_id} has no output for this sample"
    found = {sample.sample_id: ReplayContext((), missing) for sample in samples}
    differing: set[str] = set()
    for row in store.outputs(record.run_id):
        known = found.get(row.sample_id)
        if known is None:
            continue
        if isinstance(row.output.retrieved, UnknownRanking) and row.output.error is None:
            raise BadValueError(
                f"{record.run_id} ({record.name}) has no 'retrieved' for sample '{row.sample_id}', so it cannot be "
                "replayed; let its system return its documents, and run it again"
            )
        if known.missing is not None:
            failed = row.output.error is not None and not row.output.retrieved
            why = f"{record.run_id} failed before it had documents: {row.output.error}" if failed else None
            found[row.sample_id] = ReplayContext(row.output.retrieved, why)
        elif row.output.error is None and _ids(row.output.retrieved) != _ids(known.retrieved):
            differing.add(row.sample_id)
    _require_texts(record, found)
    notes = []
    if without := [name for name, context in found.items() if context.missing is not None]:
        notes.append(
            f"run A has no documents for {len(without)} of {len(found)} samples, on which it failed (first: "
            f"'{without[0]}'): the replay fails there too, so what that cost counts as retrieval"
        )
    if differing:
        notes.append(f"run A's repeats differ in their documents on {len(differing)} samples; the first are replayed")
    if empty := sum(not item.doc.text for context in found.values() for item in context.retrieved):
        notes.append(f"{empty} of the replayed documents have an empty text")
    return found, notes


def _ids(retrieved: Sequence[RetrievedDocument]) -> list[str]:
    return [item.doc.doc_id for item in retrieved]


def _require_texts(record: RunRecord, contexts: Mapping[str, ReplayContext]) -> None:
    """Raise if a sample has documents and none of them has text."""
    for name, context in contexts.items():
        if context.retrieved and not any(item.doc.text for item in context.retrieved):
            raise BadValueError(
                f"{record.run_id} ({record.name}) has documents without their texts (sample '{name}': "
                f"'{context.retrieved[0].doc.doc_id}'), so it cannot be replayed; run its system again so that "
                "it returns documents with 'text'"
            )
