"""The queue of a batch, from which several annotators label its items."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec

from ..errors import BadValueError, ConflictError, DataFileError, StoreError, UnknownBatchError
from ..io.jsonl import current_time
from ..io.labels import Label, LabelEvent, LabelJournal, LabelKey
from ..runtime.files import write_lines
from ..store.runs import RunStore
from .batch import LabelBatch
from .batch_items import BatchItem, ItemReader
from .batch_journal import BatchJournal
from .draws import Selection
from .items import PreviousLabel
from .names import NameClaims, check_annotator, check_name, check_text

LEASE_S = 600.0
"""Seconds for which an item stays with an annotator, from the last time the page was opened or renewed."""


# --- the queue -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Submission:
    """The result of sending a label or a skip."""

    outcome: Literal["saved", "already saved", "conflict"]
    number: int
    message: str = ""
    """Why it was not saved."""


@dataclass(frozen=True, slots=True)
class AnnotatorProgress:
    """The progress of one annotator."""

    labelled: int = 0
    unclear: int = 0
    skipped: int = 0
    """Without those that the annotator cannot tell."""
    adjudicated: int = 0
    remaining: int = 0
    """Items that this annotator can label now or later, skipped ones left out."""
    waiting: int = 0
    """Those of them that other annotators are labelling at present."""
    is_claimed: bool = False
    """Whether the name belongs to a browser."""


@dataclass(frozen=True, slots=True)
class SkippedItem:
    """An item that an annotator skipped, or cannot tell."""

    number: int
    annotator: str
    reason: str
    at: str | None = None
    is_unclear: bool = False

    @property
    def description(self) -> str:
        """What the annotator did, in words."""
        return f"{self.annotator} cannot tell" if self.is_unclear else f"skipped by {self.annotator}"


@dataclass(frozen=True, slots=True)
class ItemDisagreement:
    """An item that annotators labelled differently."""

    number: int
    labels: tuple[PreviousLabel, ...]
    """The annotators are numbered."""
    adjudicated: bool
    problem: str | None = None
    """Why the person who asks must not decide it."""


@dataclass(frozen=True, slots=True)
class RevealedItem:
    """An item of a closed batch, with what was hidden."""

    number: int
    sample_id: str
    doc_id: str | None
    runs: tuple[str, ...]
    """Ids of the runs, in the order in which the answers were shown."""
    labels: tuple[Label, ...]


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """The progress of a batch."""

    items: int
    complete: int
    """Items with as many labels as wanted."""
    labels: int
    """Labels of annotators, without adjudications; both labels of a comparison count as one."""
    wanted: int
    annotators: Mapping[str, AnnotatorProgress]
    """By name, in order of the first label or skip."""
    skipped: tuple[SkippedItem, ...]
    disagreements: int
    """Items to adjudicate."""
    closed: LabelEvent | None
    """Who closed the batch, and when."""
    counts: Mapping[int, int]
    """The number of annotators who have labelled each item that has a label."""

    @property
    def num_unclear(self) -> int:
        """The number of items that an annotator cannot tell."""
        return len({skip.number for skip in self.skipped if skip.is_unclear})

    @property
    def num_skipped(self) -> int:
        """The number of items that an annotator skipped for another reason."""
        return len({skip.number for skip in self.skipped if not skip.is_unclear})


Leases = dict[tuple[int, str], float]
"""The end of each lease by item and annotator."""


class _LeaseFile:
    """The leases of a batch in a small file. It may be lost: then two annotators may get the same item."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path, self._clock = path, clock

    def read(self) -> Leases:
        """The leases in force; none where the file is missing or was cut off."""
        try:
            rows = msgspec.json.decode(self._path.read_bytes(), type=list[tuple[int, str, float]])
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return {}
        now = self._clock()  # the clocks of two machines may differ
        return {(number, name): end for number, name, end in rows if now < end <= now + 2 * LEASE_S}

    def assign(self, leases: Leases, name: str, number: int | None) -> None:
        """Make this item the only one that an annotator has, from now on; ``None``: the annotator has none."""
        kept = {key: end for key, end in leases.items() if key[1] != name}
        if number is not None:
            kept[number, name] = self._clock() + LEASE_S
        with suppress(OSError):  # without a lease labels are saved, too
            self._path.write_bytes(msgspec.json.encode([[*key, end] for key, end in kept.items()]))


def _busy_annotators(leases: Leases, name: str) -> dict[int, set[str]]:
    """The other annotators with a lease, by item."""
    found: dict[int, set[str]] = {}
    for number, who in leases:
        if who != name:
            found.setdefault(number, set()).add(who)
    return found


def _decisions(journal: BatchJournal) -> list[LabelKey]:
    """The key of an adjudication of each item."""
    return [next(iter(labels)) for labels in journal.adjudications.values() if labels]


def _annotator_progress(journal: BatchJournal, name: str, leases: Leases) -> AnnotatorProgress:
    busy = _busy_annotators(leases, name)
    numbers = list(journal.open_items(name))
    unclear = len(journal.unclear_items(name))
    return AnnotatorProgress(
        labelled=len(journal.own_items.get(name, ())) - len(journal.skipped.get(name, ())),
        unclear=unclear,
        skipped=len(journal.skipped.get(name, ())) - unclear,
        adjudicated=sum(key.annotator == name for key in _decisions(journal)),
        remaining=len(numbers),
        waiting=sum(number in busy and not journal.has_place(number, name, busy[number]) for number in numbers),
        is_claimed=name in journal.claims,
    )


class LabelQueue:
    """The items of a batch, handed out to annotators. One per batch and server; threads may share it.

    Several servers on several machines may share the folder of the batch. An item is leased to an annotator while it is
    labelled, so that two do not label the same one; a lease that has expired, or that was lost, loses no label.
    """

    def __init__(
        self,
        batch: LabelBatch,
        store: RunStore,
        *,
        clock: Callable[[], float] = time.time,
        selections: Mapping[tuple[str, str | None], Selection] | None = None,
    ) -> None:
        self.batch = batch
        self._items = ItemReader(batch, store)
        if selections is not None:
            self._items.selections = selections
        self._journal = BatchJournal(batch)
        self.claims = NameClaims(self._journal, batch.id)
        leases = Path(os.devnull) if batch.is_session else batch.file(".leases.json")
        self._leases = _LeaseFile(leases, clock)
        self._mutex = threading.RLock()
        self._read_items: dict[int, tuple[tuple[str, ...], bool]] = {}
        """What is shown of an item, and whether its answers are equal."""

    @property
    def is_closed(self) -> bool:
        """Whether labelling has ended."""
        with self._public_errors(), self._reading():
            return self._journal.closed is not None

    def claim(self, annotator: str, secret: str) -> None:
        """Make a name that of the browser with this secret; ``ConflictError`` where it is that of another one."""
        with self._public_errors(), self._mutex:
            self.claims.require(check_annotator(annotator), secret)

    def is_free_for(self, annotator: str, secret: str) -> bool:
        """Whether the browser with this secret may use a name."""
        with self._public_errors(), self._reading():
            return self.claims.is_free_for(check_annotator(annotator), secret)

    def record_shown_labels(self, annotator: str, number: int, others: Collection[str] = ()) -> None:
        """Record that a person sees the labels of others; ``ConflictError`` where they must not decide the item."""
        name = check_annotator(annotator)
        with self._public_errors(), self._writing():
            self._journal.check_adjudication(number, name, others)
            key = self._keys(number, name, adjudicated=True)[0]
            if key not in self._journal.seen:
                self._journal.append(LabelEvent("shown", key, reason="labels", at=current_time()))

    def item(self, number: int) -> BatchItem:
        """The item with this number; ``UnknownBatchError`` where it is not there or its run was deleted."""
        with self._public_errors():
            found = self._items.read(number)
        self._read_items[number] = found.shown, found.has_equal_answers
        return found

    def next(self, annotator: str) -> int | None:
        """Lease the next item to an annotator: its number, or ``None`` where nothing is left for them now.

        An annotator who has a lease gets the same item again.
        """
        name = check_annotator(annotator)
        state = self._reading() if self.batch.is_session else self._writing()  # a session has no leases
        with self._public_errors(), state:
            journal, leases = self._journal, self._leases.read()
            if journal.closed is not None:
                return None
            assert self._items.selections is not None  # read before the first label
            own = (number for number, who in leases if who == name)
            found = next((number for number in own if journal.is_open(number, name)), None)
            if found is None:
                busy = _busy_annotators(leases, name)
                numbers = journal.open_items(name)
                free = (number for number in numbers if journal.has_place(number, name, busy.get(number, ())))
                found = next(free, None)
            self._leases.assign(leases, name, found)
        return found

    def renew(self, annotator: str, number: int) -> None:
        """Extend the lease of an item that is still shown to an annotator; ``ConflictError`` after closing."""
        name = check_annotator(annotator)
        self._items.entry(number)
        with self._public_errors(), self._writing():
            if self._journal.closed is not None:
                raise ConflictError("labelling is closed")
            if self._journal.is_open(number, name):  # not in an old tab
                self._leases.assign(self._leases.read(), name, number)

    def submit(
        self,
        annotator: str,
        number: int,
        values: Sequence[str],
        *,
        comment: str = "",
        submission: str,
        adjudicated: bool = False,
        others: Collection[str] = (),
        hidden: Collection[str] = (),
    ) -> Submission:
        """Save the label of an item; it is on disk on return. ``values`` are names of choices, or grades.

        A repeated call with the same ``submission`` saves once, also when the lease has expired; it may be empty.
        ``others`` are further names of the same browser, and ``hidden`` parts of the item that were not shown.
        """
        name, labels = check_annotator(annotator), self.batch.parse_values(values)
        check_text(comment, "comment")
        with self._public_errors():
            shown = tuple(part for part in self._shown(number, adjudicated=adjudicated) if part not in hidden)
            keys = self._keys(number, name, adjudicated=adjudicated)
            selection = self._items.selections.get((keys[0].sample_id, keys[0].doc_id), Selection())
            _, has_equal_answers = self._read_items.get(number, ((), False))
        if has_equal_answers and len(set(labels)) > 1:
            raise BadValueError("label: both answers have the same text, so that they get the same label")
        given = Label(
            **keys[0]._asdict(),
            label=labels[0],
            provenance=self.batch.provenance,
            tuning=self.batch.tuning,
            comment=comment,
            at=current_time(),
            draw=selection.draw,
            probability=selection.probability,
            position=selection.position,
            shown=shown,
            id=_submission_id(submission),
        )
        entries = [replace(given, run=key.run, label=label) for key, label in zip(keys, labels, strict=True)]
        check = (lambda _: self._journal.check_adjudication(number, name, others)) if adjudicated else None
        seen_by = {self._keys(number, annotator, adjudicated=True)[0] for annotator in (name, *others)}
        with self._public_errors(), self._writing():
            if seen_by & self._journal.seen and not adjudicated:
                entries = [replace(label, shown=(*(label.shown or ()), "labels")) for label in entries]
            return _append(self._journal, number, *self._journal.new_entries(number, name, entries), check=check)

    def skip(self, annotator: str, number: int, reason: str, *, submission: str) -> Submission:
        """Record that an annotator gives no label to an item; it goes to others, and not to this one again."""
        name = check_annotator(annotator)
        check_text(reason, "reason")
        events = [
            LabelEvent("skip", key, reason=reason, at=current_time(), id=_submission_id(submission))
            for key in self._keys(number, name)
        ]
        with self._public_errors(), self._writing():
            labelled = self._journal.item_labels.get(number, {}).get(name, {})
            new = [event for event in events if event.key not in labelled or len(events) == 1]
            return _append(self._journal, number, *new)

    def undo(self, annotator: str, *, submission: str = "") -> int | None:
        """Retract the last label or skip of an annotator: the number of its item, which is leased again.

        ``None`` where there is nothing to undo. A repeated call with the same ``submission`` retracts once.
        """
        name, by = check_annotator(annotator), _submission_id(submission)
        with self._public_errors(), self._writing():
            before = [] if by is None else self._journal.submission(by)
            if not before and self._journal.closed is not None:
                raise ConflictError("labelling is closed")
            entries = before or self._journal.last(name)
            number = self._journal.number(entries[0].key) if entries else None
            if number is None or before:
                return number
            at = current_time()
            self._journal.append(*(LabelEvent("retract", entry.key, at=at, id=by) for entry in entries))
            if self._journal.is_open(number, name) and not any(
                entry.key and entry.key.adjudicated for entry in entries
            ):
                self._leases.assign(self._leases.read(), name, number)
        return number

    def close(self, by: str) -> None:
        """End labelling: from now on nothing is saved or undone. Of drafts, the accepted ones are written."""
        check_text(by, "by")
        with self._writing():
            if self.batch.purpose == "grade" and any(map(self._journal.needs_adjudication, self._journal.item_labels)):
                raise ConflictError("some documents have different grades: adjudicate them, then close the batch")
            if self._journal.closed is None and self.batch.purpose == "drafts":
                accepted = (
                    item for number, item in enumerate(self.batch.items, 1) if self._journal.is_accepted(number)
                )
                write_lines(self.batch.accepted_file, map(self._items.draft_line, accepted))
            self._journal.append(LabelEvent("close", by=by, at=current_time()))

    def progress(self) -> BatchProgress:
        """The progress of all annotators; for the organiser, since it contains their names."""
        with self._reading():
            journal, leases = self._journal, self._leases.read()
            counts = {label: count for label in journal.item_labels if (count := len(journal.complete_labels(label)))}
            names = dict.fromkeys(name for name, items in journal.own_items.items() if items)
            skipped: list[SkippedItem] = []
            for name, skips in journal.skipped.items():
                for number, skip in sorted(skips.items()):
                    skipped.append(SkippedItem(number, name, skip.reason, skip.at, skip.is_unclear))
            names |= dict.fromkeys(key.annotator for key in _decisions(journal))
            names |= dict.fromkeys(journal.claims)
            return BatchProgress(
                items=len(self.batch.items),
                complete=sum(count >= self.batch.annotators for count in counts.values()),
                labels=sum(counts.values()),
                wanted=len(self.batch.items) * self.batch.annotators,
                annotators={name: _annotator_progress(journal, name, leases) for name in names},
                skipped=tuple(skipped),
                disagreements=sum(map(journal.needs_adjudication, counts)),
                closed=journal.closed,
                counts=counts,
            )

    def annotator_progress(self, annotator: str) -> AnnotatorProgress:
        """The progress of one annotator."""
        name = check_annotator(annotator)
        with self._public_errors(), self._reading():
            return _annotator_progress(self._journal, name, self._leases.read())

    def own_entries(self, annotator: str) -> dict[int, Label | LabelEvent]:
        """The last label or skip of an annotator in force for each item, in the order in which they were given."""
        with self._public_errors(), self._reading():
            entries = self._journal.entries(check_annotator(annotator))
            return {number: entry for entry in entries if (number := self._journal.number(entry.key)) is not None}

    def skipped_items(self, annotator: str) -> list[int]:
        """The numbers of the items that an annotator has skipped; those that they cannot tell are answered."""
        with self._public_errors(), self._reading():
            return sorted(self._journal.skipped.get(annotator, {}).keys() - self._journal.unclear_items(annotator))

    def disagreements(self, adjudicator: str = "", others: Collection[str] = ()) -> list[ItemDisagreement]:
        """The items that annotators labelled differently, with their labels."""
        with self._public_errors(), self._reading():
            names = dict.fromkeys(label.annotator for label in self._journal.labels if not label.adjudicated)
            places = {name: place for place, name in enumerate(names, start=1)}
            found = []
            for number in sorted(filter(self._journal.differs, self._journal.item_labels)):
                labels = sorted(
                    (places[name], self._format(number, each), next(iter(each.values())).comment)
                    for name, each in self._journal.complete_labels(number).items()
                )
                shown = tuple(PreviousLabel(f"annotator {place}", label, comment) for place, label, comment in labels)
                is_decided = bool(self._journal.adjudications.get(number))
                problem = self._journal.adjudication_problem(number, adjudicator, others)
                found.append(ItemDisagreement(number, shown, is_decided, problem))
            return found

    def reveal(self) -> Iterator[RevealedItem]:
        """Yield all items with their runs and labels; ``ConflictError`` before the batch is closed."""
        if not self.is_closed:
            raise ConflictError("runs and labels are shown when the batch is closed")
        for number, entry in enumerate(self.batch.items, start=1):
            labels = tuple(self._journal.all_labels(number))
            yield RevealedItem(number, entry.sample_id, entry.doc_id, self._items.runs(number), labels)

    # --- parts -------------------------------------------------------------------------------------------------------

    def _keys(self, number: int, name: str, *, adjudicated: bool = False) -> list[LabelKey]:
        """The keys of the labels of an item, in the order in which its answers are shown."""
        entry, batch = self._items.entry(number), self.batch
        shared = batch.metric, adjudicated or batch.adjudicates, batch.is_chosen, entry.doc_id
        return [LabelKey(entry.sample_id, name, run, *shared) for run in self._items.runs(number) or (None,)]

    def _shown(self, number: int, *, adjudicated: bool) -> tuple[str, ...]:
        """What was shown of an item, as labels record it."""
        if number not in self._read_items:
            try:
                self.item(number)
            except UnknownBatchError:
                self._items.entry(number)
                return self.batch.shown  # the run was deleted while the page was open: the label is kept
        shown, _ = self._read_items[number]
        return (*shown, "labels") if adjudicated or self.batch.adjudicates else shown

    def _format(self, number: int, labels: Mapping[LabelKey, Label]) -> str:
        """The labels of an annotator for an item in words."""
        by_run = {label.run: label for label in labels.values()}
        return self.batch.describe(tuple(by_run[key.run].label for key in self._keys(number, "") if key.run in by_run))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Read what is new in the journal; other threads wait until it has been used."""
        with self._mutex:
            self._journal.refresh()
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Lock the journal and read what is new in it; other threads and processes wait."""
        with self._mutex, self._journal.lock():
            self._journal.refresh()
            yield

    def _public_errors(self) -> AbstractContextManager[None]:
        return public_errors(is_blind=self.batch.blind and not self.batch.is_session)


def _submission_id(submission: str) -> str | None:
    """What labels and events of a call are stored with: its id, which a terminal does not need."""
    return check_name(submission, "submission") if submission else None


def _append(
    journal: LabelJournal,
    number: int,
    *entries: Label | LabelEvent,
    check: Callable[[LabelJournal], None] | None = None,
) -> Submission:
    """Append what was sent for an item."""
    try:
        is_new = journal.append(*entries, check=check)
    except ConflictError as error:
        return Submission("conflict", number, str(error))
    return Submission("saved" if is_new else "already saved", number)


@contextmanager
def public_errors(*, is_blind: bool) -> Iterator[None]:
    """Leave names of files and stores, and ids, out of errors that annotators of a blind batch see."""
    try:
        yield
    except DataFileError as error:
        if not is_blind:
            raise
        is_access = error.problem.startswith(("cannot be", "no such file"))
        problem = error.problem if is_access else "it is damaged; the page of the batch has the details"
        raise DataFileError("the label file", error.line, problem) from error
    except StoreError as error:
        raise StoreError("of this batch", error.problem) if is_blind else error from error
