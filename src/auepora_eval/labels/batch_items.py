"""Items of a batch as annotators see them, read one at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from ..core.types import SystemOutputs
from ..errors import DataFileError, UnknownBatchError, UnknownRunError
from ..io.codec import decode_sample
from ..perturb.edits import hash_uniform
from ..runtime.files import read_bytes
from ..runtime.processes import gc_paused
from ..store.records import plan_conventions
from ..store.runs import RunStore, sample_at
from .batch import BatchEntry, LabelBatch
from .draws import Selection, draw_path, read_draws
from .items import LabelItem, ShownDocument, build_item
from .pair_draws import SHOWN, read_pair_draw


@dataclass(frozen=True, slots=True)
class ItemAnswer:
    """An answer with the documents that were retrieved for it."""

    text: str
    documents: tuple[ShownDocument, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchItem:
    """One item to label. In a blind batch it has no id; documents are known by their place."""

    number: int
    """From 1, in the order of labelling."""
    question: str
    answers: tuple[ItemAnswer, ...] = ()
    """One answer, or both of a comparison in random order; none where documents or drafts are labelled."""
    documents: tuple[ShownDocument, ...] = ()
    """The document to grade, or the relevant documents of a draft."""
    references: tuple[str, ...] = ()
    conversation: str = ""
    """The turns before the question."""
    shown: tuple[str, ...] = ()
    """What is shown beside question and answer, as labels record it."""

    @property
    def has_equal_answers(self) -> bool:
        """Whether both answers have the same text, so that one label is about both."""
        return len(self.answers) == 2 and self.answers[0].text.strip() == self.answers[1].text.strip()


class ItemReader:
    """Reads the items of a batch from the store, or from the file of drafts."""

    def __init__(self, batch: LabelBatch, store: RunStore) -> None:
        self.batch, self.store = batch, store

    def entry(self, number: int) -> BatchEntry:
        """The entry of an item; ``UnknownBatchError`` where there is none with this number."""
        if not 1 <= number <= len(self.batch.items):
            raise UnknownBatchError(f"there is no item {number}; this batch has items 1 to {len(self.batch.items)}")
        return self.batch.items[number - 1]

    def runs(self, number: int) -> tuple[str, ...]:
        """The runs of the answers, in the order in which they are shown."""
        batch, entry = self.batch, self.entry(number)
        runs = batch.answered_runs(entry)
        # With the id of the batch: an order that was revealed says nothing about that of the next batch.
        key = batch.id, entry.sample_id
        is_swapped = batch.purpose == "compare" and hash_uniform(batch.seed, "first answer", *key) >= 0.5
        return runs[::-1] if is_swapped else runs

    def read(self, number: int) -> BatchItem:
        """The item as annotators see it."""
        entry = self.entry(number)
        try:
            if self.batch.purpose == "drafts":
                return self._read_draft(number, entry)
            return self._read_grade(number, entry) if entry.doc_id is not None else self._read_answers(number, entry)
        except UnknownRunError as error:
            problem = "what this item shows was deleted from the store; labels that were given are kept"
            raise UnknownBatchError(problem) from error

    def _read_answers(self, number: int, entry: BatchEntry) -> BatchItem:
        places = dict(zip(self.batch.runs, entry.positions, strict=True))
        items = [self._read_item(run, places[run], entry.sample_id) for run in self.runs(number)]
        answers = tuple(ItemAnswer(item.answer, self._documents(item.evidence)) for item in items)
        first = items[0]
        references = first.references if "reference" in self.batch.shown else ()
        documents = list(chain.from_iterable(answer.documents for answer in answers))
        shown = {
            "documents": bool(documents),
            "relevance": any(document.gold for document in documents),
            "reference": bool(references),
        }
        return BatchItem(
            number,
            first.question,
            answers=answers,
            documents=(),
            references=references,
            conversation=first.conversation,
            shown=tuple(name for name, is_shown in shown.items() if is_shown),
        )

    def _read_item(self, run: str, position: int, sample_id: str) -> LabelItem:
        record = self.store.get(run)
        sample = sample_at(self.store, record, position)
        output = next(self.store.outputs(run, repeat=0, position=position), None)
        if sample.sample_id != sample_id or output is None:
            raise UnknownRunError("the dataset of the run is another one, or the answer was deleted")
        return build_item(sample, output.output, match=plan_conventions(record).match)

    def _documents(self, documents: Sequence[ShownDocument]) -> tuple[ShownDocument, ...]:
        """The documents as the batch shows them: without ids in a blind one, without marks of relevance by default."""
        if "documents" not in self.batch.shown:
            return ()
        if "relevance" not in self.batch.shown:
            documents = [replace(document, gold=False) for document in documents if document.rank is not None]
        return self._without_ids(documents)

    def _without_ids(self, documents: Sequence[ShownDocument]) -> tuple[ShownDocument, ...]:
        """The documents, in a blind batch without ids."""
        return tuple(replace(document, doc_id="") for document in documents) if self.batch.blind else tuple(documents)

    def _read_grade(self, number: int, entry: BatchEntry) -> BatchItem:
        found: LabelItem | None = None
        text = ""
        for run, position in zip(self.batch.runs, entry.positions, strict=True):
            if position < 0 or text:
                continue
            item = self._read_item(run, position, entry.sample_id)
            found = found or item
            text = next(
                (document.text for document in item.evidence if document.doc_id == entry.doc_id and document.text), ""
            )
        if found is None:
            raise UnknownRunError("no run has the sample")
        name = "" if self.batch.blind else str(entry.doc_id)
        document = ShownDocument(name, text, None, gold=False)
        return BatchItem(
            number,
            found.question,
            answers=(),
            documents=(document,),
            references=(),
            conversation=found.conversation,
            shown=SHOWN,
        )

    def _read_draft(self, number: int, entry: BatchEntry) -> BatchItem:
        sample = decode_sample(self.draft_line(entry))
        item = build_item(sample, SystemOutputs([]))
        return BatchItem(
            number,
            sample.query,
            answers=(),
            documents=self._without_ids(item.evidence),
            references=item.references,
            conversation=item.conversation,
            shown=("documents", "reference"),
        )

    def draft_line(self, entry: BatchEntry) -> bytes:
        """The line of a draft in its file."""
        return self._drafts[entry.positions[0]].rstrip(b"\r")

    @cached_property
    def _drafts(self) -> list[bytes]:
        return read_bytes(self.batch.drafts_file).split(b"\n")

    @cached_property
    def selections(self) -> Mapping[tuple[str, str | None], Selection]:
        """How each item was selected, by sample and document."""
        batch = self.batch
        if batch.draw is None:
            return {}
        with gc_paused():
            if batch.purpose == "grade":
                pairs = read_pair_draw(draw_path(batch.journal))
                if pairs.id == batch.draw:
                    return {pair.key: Selection(pairs.id, pair.probability, pair.position) for pair in pairs.order}
            else:
                for draw in read_draws(batch.journal).values():
                    if batch.draw in (draw.id, *draw.extends):
                        return {(sample_id, None): selection for sample_id, selection in draw.selections().items()}
        raise DataFileError(draw_path(batch.journal), None, "the record of the draw is missing; restore it")
