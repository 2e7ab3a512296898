"""The journal of a batch: its labels and skips by item, and what each annotator can still label."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain

from ..errors import ConflictError
from ..io.jsonl import current_time
from ..io.labels import Label, LabelEvent, LabelJournal, LabelKey
from .agreement import decided_label
from .batch import LabelBatch


class BatchJournal(LabelJournal):
    """The journal of a batch, with its labels and skips by item."""

    def __init__(self, batch: LabelBatch) -> None:
        self._batch = batch
        self.may_be_missing = batch.is_session  # others are created with the batch
        self._numbers: dict[tuple[str, str | None, str | None], int] = {}
        for number, entry in enumerate(batch.items, start=1):
            for run in batch.answered_runs(entry) or (None,):
                self._numbers[entry.sample_id, entry.doc_id, run] = number
        super().__init__(batch.journal)

    def number(self, key: LabelKey | None) -> int | None:
        """The number of the item that a label is about; ``None`` if it is about something else."""
        batch = self._batch
        if key is None or (key.metric, key.chosen) != (batch.metric, batch.is_chosen):
            return None
        if batch.adjudicates and not key.adjudicated:
            return None
        return self._numbers.get((key.sample_id, key.doc_id, key.run))

    def entries(self, annotator: str) -> list[Label | LabelEvent]:
        """The labels and skips of items that an annotator has in force, in the order of the file."""
        return [entry for entry in super().entries(annotator) if self.number(entry.key) is not None]

    def _clear(self) -> None:
        super()._clear()
        self.item_labels: dict[int, dict[str, dict[LabelKey, Label]]] = {}
        """Labels by item and annotator."""
        self.adjudications: dict[int, dict[LabelKey, Label]] = {}
        self.skipped: dict[str, dict[int, LabelEvent]] = {}
        """Skips by annotator and item."""
        self._full: set[int] = set()
        """Items with labels of as many annotators as wanted."""
        self.own_items: dict[str, set[int]] = {}
        """Items that an annotator has labelled or skipped."""

    def _apply(self, number: int, entry: Label | LabelEvent) -> None:
        super()._apply(number, entry)
        if isinstance(entry, LabelEvent) and entry.event == "shown":
            return
        key = entry.key
        item = None if key is None else self.number(key)
        if key is None or item is None:
            return
        found, name = self.find(key), key.annotator
        by_name = self.item_labels.setdefault(item, {})
        is_decision = key.adjudicated and not self._batch.adjudicates
        labels = self.adjudications.setdefault(item, {}) if is_decision else by_name.setdefault(name, {})
        labels.pop(key, None)
        by_model = self._batch.provenance == "model"
        if isinstance(found, Label) and (found.provenance == "model") == by_model:
            labels[key] = found
        if is_decision:
            return
        if not labels:
            del by_name[name]
        self.skipped.get(name, {}).pop(item, None)
        if isinstance(found, LabelEvent):
            self.skipped.setdefault(name, {})[item] = found
        own = self.own_items.setdefault(name, set())
        (own.discard if self.is_open(item, name) else own.add)(item)
        (self._full.add if len(by_name) >= self._batch.annotators else self._full.discard)(item)

    def is_open(self, number: int, name: str) -> bool:
        """Whether an annotator has neither labelled nor skipped an item."""
        if number in self.skipped.get(name, ()):
            return False
        return len(self.item_labels.get(number, {}).get(name, ())) < self._batch.answers

    def unclear_items(self, name: str) -> set[int]:
        """The items of which an annotator cannot say what is right."""
        return {number for number, skip in self.skipped.get(name, {}).items() if skip.is_unclear}

    def has_place(self, number: int, name: str, busy: Collection[str] = ()) -> bool:
        """Whether an item needs one more annotator, not counting those who have labelled it or are ``busy`` with it."""
        labels = self.item_labels.get(number, {})
        finished = [annotator for annotator in labels if annotator != name]
        working = [annotator for annotator in busy if annotator not in labels and self.is_open(number, annotator)]
        return len(finished) + len(working) < self._batch.annotators

    def open_items(self, name: str) -> Iterator[int]:
        """The items that an annotator can label, now or when others have given back their leases; in order."""
        own = self.own_items.get(name, set())
        for number in range(1, len(self._batch.items) + 1):
            if number not in own and (number not in self._full or self.has_place(number, name)):
                yield number

    def complete_labels(self, number: int) -> dict[str, dict[LabelKey, Label]]:
        """The labels of an item by annotator, of those who have labelled all its answers."""
        return {
            name: labels
            for name, labels in self.item_labels.get(number, {}).items()
            if len(labels) == self._batch.answers
        }

    def differs(self, number: int) -> bool:
        """Whether two annotators labelled an item differently."""
        if len(self.item_labels.get(number, ())) < 2:
            return False
        by_name = self.complete_labels(number).values()
        return len({_values_by_run(labels) for labels in by_name}) > 1

    def new_entries(self, number: int, name: str, labels: Sequence[Label]) -> Sequence[Label | LabelEvent]:
        """What to append for the labels of an item, without those that the journal has; all if it has all of them.

        The terminal labels the two answers of a comparison one by one: the label of one alone may be replaced.
        """
        new: list[Label | LabelEvent] = []
        is_partial = len(self.item_labels.get(number, {}).get(name, ())) < len(labels)
        for label in labels:
            before = self.find(label.key) if len(labels) > 1 else None
            if isinstance(before, Label) and before.id != label.id:
                if before.label == label.label:
                    continue
                new += [LabelEvent("retract", label.key, at=current_time())] if is_partial else []
            new.append(label)
        return new or labels

    def is_accepted(self, number: int) -> bool:
        """Whether a draft was accepted by adjudication, or by more annotators than rejected it."""
        return decided_label(self.all_labels(number), by_majority=True) == "right"

    def all_labels(self, number: int) -> list[Label]:
        """The labels of an item, adjudications last."""
        by_name = (*self.item_labels.get(number, {}).values(), self.adjudications.get(number, {}))
        return list(chain.from_iterable(labels.values() for labels in by_name))

    def needs_adjudication(self, number: int) -> bool:
        """Whether two annotators labelled an item differently, and nobody has decided between them."""
        return self.differs(number) and not self.adjudications.get(number)

    def adjudication_problem(self, number: int, name: str, others: Collection[str] = ()) -> str | None:
        """Why a person must not see the labels of others for an item and decide; ``None`` if they may.

        ``others`` are the names that the browser of this person has used.
        """
        labels = self.item_labels.get(number, {})
        if not self.differs(number):
            return "the annotators agree on this item; there is nothing to adjudicate"
        skipped = sum(number in items for items in self.skipped.values())
        if len(self.complete_labels(number)) + skipped < self._batch.annotators:
            return "labels of this item are missing; it is adjudicated when all are there"
        if name in labels:
            return "you have labelled this item; another person must decide"
        if any(other in labels for other in others):
            return "this browser has labelled this item under another name; another person must decide"
        if any(key.annotator != name for key in self.adjudications.get(number, ())):
            return "another person has decided this item already"
        return None

    def check_adjudication(self, number: int, name: str, others: Collection[str] = ()) -> None:
        """Raise ``ConflictError`` where a person must not decide."""
        problem = self.adjudication_problem(number, name, others)
        if problem is not None:
            raise ConflictError(problem)


def _values_by_run(labels: Mapping[LabelKey, Label]) -> frozenset[tuple[str | None, float]]:
    return frozenset((label.run, label.value) for label in labels.values())
