"""Human labels of answers: a journal of JSON lines. Nugget files: a query with its nuggets per line."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from ..core.types import EvaluationSample
from ..errors import (
    AueporaError,
    AueporaWarning,
    BadValueError,
    ConflictError,
    DataFileError,
    DuplicateIdError,
    did_you_mean,
)
from ..judge.nuggets import NUGGETS_KEY, NuggetTopic, parse_nuggets
from ..runtime.files import (
    read_lines,
    write_lines,
)
from .codec import LineError
from .jsonl import Journal, encode_entry
from .problems import PUT_IN_QUOTES, Problems, quote_text, type_name
from .tables import read_records

Provenance = Literal["human", "model", "corrected"]
"""The source of a label: a person, a model, or a person who corrected a model."""

EventName = Literal["retract", "skip", "close", "tuning"]
"""What a line of a journal that is no label does."""

_NO_TIME = ", which is not a time; write it as 2030-01-31T12:00:00+00:00"
_PROVENANCES = get_args(Provenance)
RIGHT, WRONG = "right", "wrong"
_VALUES = {RIGHT: 1.0, WRONG: 0.0}
_KEYS = (
    "sample_id",
    "label",
    "annotator",
    "run",
    "metric",
    "provenance",
    "adjudicated",
    "tuning",
    "comment",
    "at",
    "draw",
    "probability",
    "position",
    "shown",
    "chosen",
    "id",
    "doc_id",
)
_KEY_SET = frozenset(_KEYS)
_STRING: tuple[tuple[type, ...], str] = (str,), "a string"
_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(("adjudicated", "tuning", "chosen"), ((bool,), "true or false")),
    "probability": ((int, float), "a number"),
    "position": ((int,), "an integer"),
    "shown": ((list,), "a list of strings"),
    "label": ((str, int, float, bool, list, dict), ""),  # checked with the values
}
"""The types of fields that are no strings, with their description."""
# Names that other tools use for these fields.
_FIELD_ALIASES = {
    "query_id": "sample_id",
    "question_id": "sample_id",
    "score": "label",
    "rating": "label",
    "verdict": "label",
    "rater": "annotator",
    "user": "annotator",
    "by": "annotator",
    "run_id": "run",
    "source": "provenance",
    "note": "comment",
    "time": "at",
    "timestamp": "at",
    "created_at": "at",
    "weight": "probability",
}


class LabelKey(NamedTuple):
    """What is unique in a file: an annotator labels an answer, or a document, once."""

    sample_id: str
    annotator: str
    run: str | None = None
    metric: str | None = None
    adjudicated: bool = False
    chosen: bool = False
    """Whether a person picked the sample."""
    doc_id: str | None = None


@dataclass(frozen=True, slots=True)
class Label:
    """The label of one annotator for the answer to one sample."""

    sample_id: str
    label: str | int | float | bool
    """``"right"`` or ``"wrong"``, true or false, or a number on a scale."""
    annotator: str = ""
    run: str | None = None
    """The id of the run that gave the answer."""
    metric: str | None = None
    """The metric it is compared with, if it concerns one metric alone."""
    provenance: Provenance = "human"
    adjudicated: bool = False
    """Whether it is an adjudication, which replaces the labels of the annotators."""
    tuning: bool = False
    """Whether it was used to tune a judge's prompt, and so cannot be used to calibrate the judge."""
    comment: str = ""
    at: str | None = None
    """The time of the label, in ISO 8601."""
    draw: str | None = None
    """The id of the draw that selected the sample."""
    probability: float | None = None
    """The inclusion probability of the sample in that draw."""
    position: int | None = None
    """The position of the sample in the order of the draw, from 1."""
    shown: tuple[str, ...] | None = None
    """What the annotator saw beside question and answer, such as ``documents`` or ``reference``."""
    chosen: bool = False
    """Whether a person picked the sample; such a label is kept and shown, and nothing is estimated from it."""
    id: str | None = None
    """The unique id of the submission; the labels of one submission share it."""
    doc_id: str | None = None
    """The document, if the label is a grade of a document."""

    def __post_init__(self) -> None:
        if isinstance(self.shown, list):
            object.__setattr__(self, "shown", tuple(self.shown))
        problem = _value_problem(self)
        if problem is not None:
            raise BadValueError(f"the label of sample {self.sample_id!r}: {problem}")

    @property
    def value(self) -> float:
        """The label as a number: right is 1 and wrong is 0, as are true and false; numbers stay as they are."""
        return _VALUES[self.label] if isinstance(self.label, str) else float(self.label)

    @property
    def key(self) -> LabelKey:
        """What is unique in a file."""
        return LabelKey(
            self.sample_id, self.annotator, self.run, self.metric, self.adjudicated, self.chosen, self.doc_id
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the label as stored in a file; values of ``None`` are omitted, and ``chosen`` unless it is true."""
        values = {key: getattr(self, key) for key in _KEYS if key != "chosen" or self.chosen}
        return {key: value for key, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class LabelEvent:
    """A line of a journal that is no label.

    ``retract`` takes back a label or a skip, ``skip`` records that the annotator gave no label, ``close`` ends
    labelling, and ``tuning`` makes a label one that was used to tune a prompt.
    """

    event: EventName
    key: LabelKey | None = None
    """The label or skip that it is about; ``None`` for ``close``."""
    by: str = ""
    """Who did it, if it is not the annotator of the key."""
    reason: str = ""
    at: str | None = None
    """The time, in ISO 8601."""
    id: str | None = None
    """The unique id of the submission."""

    def __post_init__(self) -> None:
        if (self.key is None) != (self.event == "close"):
            raise BadValueError(f"event {self.event!r} {'needs a' if self.key is None else 'has no'} sample")
        if self.at is not None and not _is_time(self.at):
            raise BadValueError(f"field 'at' is {quote_text(self.at)}{_NO_TIME}")

    @property
    def annotator(self) -> str:
        """The annotator of the label or skip."""
        return self.by if self.key is None else self.key.annotator

    def to_dict(self) -> dict[str, Any]:
        """Return the event as stored in a file, without empty values."""
        values = {"event": self.event, **({} if self.key is None else self.key._asdict())}
        values |= {"by": self.by, "reason": self.reason, "at": self.at, "id": self.id}
        return {name: one for name, one in values.items() if one or name == "annotator"}


def current_time() -> str:
    """The time of a line that is written now, in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_labels(path: str | Path) -> list[Label]:
    """Read the labels in force of a file, in its order; an invalid line is an error that names file, line and field.

    A label that was retracted is not among them. A line that was cut off is skipped with a warning.
    """
    return [label for _, label in iter_labels(Path(path), Problems())]


def iter_labels(path: Path, problems: Problems) -> Iterator[tuple[int, Label]]:
    """Yield the labels in force of a file, each with its line; invalid lines are added to the problems."""
    journal = LabelJournal(path)
    for number, line in read_lines(path):
        try:
            journal.read_line(number, line)
        except DataFileError as error:
            problems.add(path, number, error.problem)
    yield from journal.numbered_labels()


def write_labels(path: str | Path, labels: Iterable[Label]) -> None:
    """Write the labels to a file, atomically."""
    write_lines(Path(path), (LabelJournal.header(), *map(_encode_entry, labels)))


# --- a journal: an append-only file of JSON lines that several threads and processes share ---------------------------

_MTIME_STEP = 50_000_000
"""Nanoseconds. Two writes within one step of the clock of a file system may leave the same time."""


class JournalEntry(Protocol):
    """A line of a journal."""

    @property
    def id(self) -> str | None:
        """The unique id of the submission; the lines of one submission share it."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the line."""


EntryT = TypeVar("EntryT", bound=JournalEntry)


class Journal(ABC, Generic[EntryT]):
    """An append-only file of JSON objects, one per line, and its content in memory.

    Several threads and processes may share the file. ``refresh`` reads what was appended, and reads all again if the
    part that was read before has changed. A subclass defines the format and applies each line to its content.
    """

    format: ClassVar[str]
    version: ClassVar[int]
    may_be_missing: ClassVar[bool] = True
    """Whether a missing file is an empty one; else it is an error."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._mutex = RLock()
        self._file: int | None = None  # while it is locked
        self._is_directory_synced = False
        self._stamp: tuple[int, int, int] | None = None
        self._restart()

    @abstractmethod
    def _clear(self) -> None:
        """Make the content empty."""

    @abstractmethod
    def _parse(self, row: Mapping[str, Any]) -> EntryT:
        """Return the entry of a line; an invalid one is a ``LineError``."""

    def _decode(self, line: bytes) -> EntryT | None:
        """Return the entry of a valid line, if there is a fast decoder; ``None`` to parse it."""
        return None

    @abstractmethod
    def _apply(self, number: int, entry: EntryT) -> None:
        """Apply an entry to the content; one that contradicts earlier lines is a ``LineError``."""

    @abstractmethod
    def _check(self, entries: Sequence[EntryT]) -> None:
        """Raise a ``ConflictError`` if the entries must not be appended to the content."""

    @classmethod
    def header(cls) -> bytes:
        """Return the first line of a new file."""
        return msgspec.json.encode({"format": cls.format, "version": cls.version})

    def refresh(self) -> None:
        """Read what was appended since the last call. A missing file is empty."""
        with self._mutex:
            before, data, stamp = self._submissions, b"", (0, 0, 0)
            if not self.may_be_missing or os.path.exists(self.path):
                with open_bytes(self.path) as file:
                    status = self.path.stat()
                    stamp = status.st_ino, status.st_size, status.st_mtime_ns
                    if stamp == self._stamp:
                        return
                    data = file.read()
            if not self._is_unchanged(data):
                self._restart()
            with gc_paused():
                self._extend(data[self._size :])
            if time.time_ns() - stamp[2] > _MTIME_STEP:
                self._stamp = stamp
            if before is not self._submissions and (lost := len(before.keys() - self._submissions.keys())):
                message = f"{self.path}: was edited, replaced or deleted; submissions that it has lost: {lost}"
                warnings.warn(message, AueporaWarning, stacklevel=2)

    def append(self, *entries: EntryT, check: Callable[[Self], None] | None = None) -> bool:
        """Append the entries in one write; on return they are on disk. ``False`` if all were there already.

        An entry whose submission id is in the file with the same content is not written again; another content is a
        ``ConflictError``. ``check`` is called under the lock, with the content up to date, and raises if the entries
        must not be written. Nothing is written on any error.
        """
        lines = [_encode_entry(one) for one in entries]
        if max(map(len, lines), default=0) > max_line_size():
            raise DataFileError(self.path, None, limit_message("the line"))
        with self.lock() as file:
            self.refresh()
            new = [number for number, one in enumerate(entries) if not self._is_stored(one, entries)]
            if not new:
                return False
            self._check([entries[number] for number in new])
            if check is not None:
                check(self)
            with translate_write_errors(self.path):
                self._write(file, [lines[number] for number in new])
        return True

    def submission(self, submission_id: str) -> list[EntryT]:
        """Return the entries with this submission id, in force or not; empty if it is unknown."""
        with self._mutex:
            return list(self._submissions.get(submission_id, ()))

    @contextmanager
    def lock(self) -> Iterator[int]:
        """Lock the file, which is created if it may be missing. Calls may nest."""
        if is_compressed(self.path):
            raise DataFileError(self.path, None, "lines are added one by one, which a compressed file does not allow")
        with self._mutex:
            if self._file is not None:
                yield self._file
                return
            with locked_file(self.path, create=self.may_be_missing) as file:
                self._file = file
                try:
                    yield file
                finally:
                    self._file = None

    def read_line(self, number: int, line: bytes) -> None:
        """Apply a line of the file. One that was cut off is skipped with a warning."""
        line = line.strip()
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if not line:
            return
        try:
            entry = self._decode(line) or self._parse_line(number, line)
            if entry is None:
                return
            self._apply(number, entry)
        except LineError as error:
            raise DataFileError(self.path, number, str(error)) from error
        if entry.id is not None:
            self._submissions.setdefault(entry.id, []).append(entry)

    def _parse_line(self, number: int, line: bytes) -> EntryT | None:
        try:
            row = parse_json(line)
        except LineError:
            if not _is_cut_off(line):
                raise
            warnings.warn(f"{self.path}:{number}: the line was cut off and is skipped", AueporaWarning, stacklevel=2)
            return None
        if not isinstance(row, dict):
            raise LineError(f"each line must be one JSON object, not {type_name(row)}")
        if "format" in row:
            self._check_header(row)
            return None
        return self._parse(row)

    def _restart(self) -> None:
        self._size = self._checksum = self._line = 0  # of the part that was read
        self._is_line_open = False  # whether that part ends within a line
        self._stamp = None  # inode, size and time, if they identify the content
        self._submissions: dict[str, list[EntryT]] = {}
        self._clear()

    def _extend(self, data: bytes) -> None:
        """Read the next part of the file. A last line without a line break is read if it is complete."""
        *lines, last = data.split(b"\n")
        size, limit = 0, max_line_size()
        try:
            for line in lines:
                if len(line) > limit:
                    raise DataFileError(self.path, self._line + 1, limit_message("the line"))
                self.read_line(self._line + 1, line)
                self._line += 1
                size += len(line) + 1
            if not _is_cut_off(last):
                self.read_line(self._line + 1, last)
                size += len(last)
        finally:
            self._checksum = zlib.crc32(memoryview(data)[:size], self._checksum)
            self._size += size
            if size:
                self._is_line_open = data[size - 1 : size] != b"\n"

    def _is_unchanged(self, data: bytes) -> bool:
        """Whether the file still begins with the part that was read."""
        size = self._size
        if self._is_line_open and data[size : size + 1].strip():
            return False
        return len(data) >= size and zlib.crc32(memoryview(data)[:size]) == self._checksum

    def _is_stored(self, entry: EntryT, entries: Sequence[EntryT]) -> bool:
        """Whether the file has this entry of a submission; an interrupted write may have left a part of the entries."""
        before = [] if entry.id is None else [_content(one) for one in self.submission(entry.id)]
        if not before or _content(entry) in before:
            return bool(before)
        contents = [_content(one) for one in entries]
        if any(one not in contents for one in before):
            raise ConflictError("this submission was saved before, with another content")
        return False

    def _write(self, file: int, lines: Iterable[bytes]) -> None:
        size = os.fstat(file).st_size
        data = b"".join(line + b"\n" for line in lines)
        if not size:
            data = self.header() + b"\n" + data
        elif os.pread(file, 1, size - 1) != b"\n":  # an editor, or a process that was killed
            data = b"\n" + data
        try:
            written = 0
            while written < len(data):
                written += os.write(file, memoryview(data)[written:])
            os.fsync(file)
        except OSError:
            os.ftruncate(file, size)  # half a line would be left
            raise
        if not is_file_at(file, self.path):
            raise DataFileError(self.path, None, "cannot be written: it was deleted or replaced; try again")
        if not self._is_directory_synced:
            sync_directory(self.path.parent)
            self._is_directory_synced = True
        self._extend(os.pread(file, size - self._size, self._size) + data)

    def _check_header(self, row: Mapping[str, Any]) -> None:
        version = row.get("version")
        if row["format"] != self.format:
            raise LineError(f"field 'format' is {quote_text(str(row['format']))}, not {self.format!r}")
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise LineError(f"field 'version' must be a number from 1 up, not {type_name(version)}")
        if version > self.version:
            raise LineError(
                f"version {version} of the format is newer than {self.version}, the last one that is known here; "
                "install a newer auepora_eval"
            )


def _is_cut_off(line: bytes) -> bool:
    """Whether the line is a JSON object that ends early, as after a crash; some file systems leave zeros."""
    line = line.strip()
    content = line.rstrip(b"\0")
    if not content.startswith(b"{"):
        return not content and bool(line)
    try:
        msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        message = str(error)
        return "truncated" in message or ("invalid number" in message and content.endswith((b"-", b".", b"e", b"+")))
    except (ValueError, RecursionError):
        return False
    return len(content) < len(line)


def _content(entry: JournalEntry) -> dict[str, Any]:
    return {name: one for name, one in entry.to_dict().items() if name != "at"}


def _encode_entry(entry: JournalEntry) -> bytes:
    try:
        return msgspec.json.encode(entry.to_dict())
    except UnicodeEncodeError as error:  # without the id of the sample, for annotators who label blind
        raise BadValueError("the line cannot be written: a text in it has half of a surrogate pair") from error


# --- the journal of labels -------------------------------------------------------------------------------------------


class LabelJournal(Journal[Label | LabelEvent]):
    """The labels and skips of a file, as they are in force.

    A retraction removes a label or a skip, and the same answer may be labelled again. A label replaces the skip of the
    same answer.
    """

    format = "auepora-labels"
    version = 2

    @property
    def labels(self) -> list[Label]:
        """The labels in force, in the order of the file."""
        with self._mutex:
            return list(self._labels.values())

    @property
    def skips(self) -> dict[LabelKey, LabelEvent]:
        """The skips in force, in the order of the file."""
        with self._mutex:
            return dict(self._skips)

    @property
    def closed(self) -> LabelEvent | None:
        """The event that ended labelling; ``None`` if it goes on."""
        return self._closed

    def numbered_labels(self) -> Iterator[tuple[int, Label]]:
        """The labels in force, each with its line."""
        return ((self._lines[key], label) for key, label in self._labels.items())

    def find(self, key: LabelKey) -> Label | LabelEvent | None:
        """Return the label or the skip with this key; ``None`` if there is none in force."""
        with self._mutex:
            return self._by_annotator.get(key.annotator, {}).get(key)

    def entries(self, annotator: str) -> list[Label | LabelEvent]:
        """Return the labels and skips of the annotator that are in force, in the order of the file."""
        with self._mutex:
            return list(self._by_annotator.get(annotator, {}).values())

    def last(self, annotator: str) -> list[Label | LabelEvent]:
        """Return the labels and skips of the annotator's last submission that are in force; empty if there is none."""
        with self._mutex:
            found: list[Label | LabelEvent] = []
            for one in reversed(self._by_annotator.get(annotator, {}).values()):
                if found and (one.id is None or one.id != found[0].id):
                    break
                found.insert(0, one)
            return found

    def _clear(self) -> None:
        self._labels: dict[LabelKey, Label] = {}
        self._lines: dict[LabelKey, int] = {}
        self._skips: dict[LabelKey, LabelEvent] = {}
        self._by_annotator: dict[str, dict[LabelKey, Label | LabelEvent]] = {}
        self._tuning: set[LabelKey] = set()
        self._closed: LabelEvent | None = None

    def _decode(self, line: bytes) -> Label | None:
        try:
            _FIELD_NAMES.decode(line)
            return _LABEL.decode(line)
        except (ValueError, RecursionError):
            return None

    def _parse(self, row: Mapping[str, Any]) -> Label | LabelEvent:
        return _parse_event(row) if "event" in row else _parse_label(row)

    def _apply(self, number: int, entry: Label | LabelEvent) -> None:
        key = entry.key
        if key is None:
            assert isinstance(entry, LabelEvent)
            self._closed = self._closed or entry
            return
        own = self._by_annotator.setdefault(key.annotator, {})
        before = own.get(key)
        if _contradicts(entry, before):
            raise LineError(self._describe_contradiction(entry, key))
        if isinstance(entry, LabelEvent) and entry.event == "tuning":
            self._tuning.add(key)
            self._labels[key] = own[key] = replace(self._labels[key], tuning=True)
            return
        if before is not None:
            for entries in (self._labels, self._skips, own):
                entries.pop(key, None)
        if isinstance(entry, Label):
            self._labels[key] = own[key] = (
                replace(entry, tuning=True) if self._tuning and key in self._tuning else entry
            )
            self._lines[key] = number
        elif entry.event == "skip":
            self._skips[key] = own[key] = entry

    def _describe_contradiction(self, entry: Label | LabelEvent, key: LabelKey) -> str:
        sample = f"sample {quote_text(key.sample_id)}"
        if isinstance(entry, LabelEvent) and entry.event != "skip":
            return f"event {entry.event!r}: there is no label of {sample} with these fields before it"
        who = f"annotator {quote_text(key.annotator)}" if key.annotator else "the annotator, who is not named,"
        return f"{who} labelled {sample} already on line {self._lines[key]}; keep the one that counts"

    def _check(self, entries: Sequence[Label | LabelEvent]) -> None:
        changed: dict[LabelKey, Label | LabelEvent | None] = {}
        for one in entries:
            if self._closed and not (isinstance(one, LabelEvent) and one.event == "tuning"):
                raise ConflictError("labelling is closed")
            if one.key is None:
                continue
            before = changed[one.key] if one.key in changed else self.find(one.key)
            if _contradicts(one, before):
                raise ConflictError(_CONFLICTS["label" if isinstance(one, Label) else one.event])
            if isinstance(one, Label) or one.event == "skip":
                changed[one.key] = one
            elif one.event == "retract":
                changed[one.key] = None


_LABEL = msgspec.json.Decoder(Label)
# The decoder of a dataclass accepts unknown fields.
_FIELD_NAMES = msgspec.json.Decoder(
    msgspec.defstruct(
        "_FieldNames", [(key, msgspec.Raw, msgspec.Raw(b"")) for key in _KEYS], forbid_unknown_fields=True
    )
)

# No ids: these messages are shown to annotators who label blind.
_CONFLICTS = {
    "label": "this annotator has labelled it already; undo that label to change it",
    "skip": "this annotator has labelled it already",
    "retract": "the label is not there any more",
    "tuning": "the label is not there any more",
}


def _contradicts(entry: Label | LabelEvent, before: Label | LabelEvent | None) -> bool:
    """Whether the entry contradicts the label or skip that is in force."""
    if isinstance(entry, Label) or entry.event == "skip":
        return isinstance(before, Label)
    return before is None or (entry.event == "tuning" and not isinstance(before, Label))


_EVENT_KEYS = ("event", *LabelKey._fields, "by", "reason", "at", "id")


def _parse_event(row: Mapping[str, Any]) -> LabelEvent:
    if row["event"] not in get_args(EventName):
        known = get_args(EventName)
        nearest = did_you_mean(str(row["event"])[:80], known, otherwise=f"; known: {', '.join(known)}")
        raise LineError(f"field 'event' is {quote_text(str(row['event']))}{nearest}")
    for key in row:
        if key not in _EVENT_KEYS:
            hint = did_you_mean(key[:80], _EVENT_KEYS, otherwise=f"; known fields: {', '.join(_EVENT_KEYS)}")
            raise LineError(f"unknown field {quote_text(key)}{hint}")
    values = _typed_values(row)
    fields = {key: values.pop(key) for key in LabelKey._fields if key in values}
    if fields and not fields.get("sample_id"):
        raise LineError("field 'sample_id' is missing")
    try:
        return LabelEvent(key=LabelKey(**{"annotator": "", **fields}) if fields else None, **values)
    except BadValueError as error:
        raise LineError(str(error)) from error


def _parse_label(row: Mapping[str, Any]) -> Label:
    if not row.keys() <= _KEY_SET:
        key = next(key for key in row if key not in _KEY_SET)
        raise LineError(f"unknown field {quote_text(key)}{_unknown_key_hint(key)}")
    for key in ("sample_id", "label"):
        if row.get(key) is None:
            hint = "; 'id' is the id of a submission" if key == "sample_id" and "id" in row else ""
            raise LineError(f"field {key!r} is missing{hint}")
    values = _typed_values(row)
    try:
        return Label(**values)
    except BadValueError as error:
        raise LineError(str(error).partition(": ")[2]) from error


def _typed_values(row: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are not null; one of another type is a ``LineError``."""
    values = {key: value for key, value in row.items() if value is not None}
    for key, value in values.items():
        expected, description = _TYPES.get(key, _STRING)
        if type(value) not in expected:
            quotes = PUT_IN_QUOTES if key == "sample_id" and type_name(value) == "a number" else ""
            raise LineError(f"field {key!r} must be {description}, not {type_name(value)}{quotes}")
    return values


def _value_problem(label: Label) -> str | None:
    """The first invalid value of a label; ``None`` if all are valid."""
    if not label.sample_id:
        return "field 'sample_id' is empty; an id needs at least one character"
    value = label.label
    if isinstance(value, str):
        if value not in _VALUES:
            nearest = did_you_mean(value[:80], _VALUES, otherwise="; a scale is written in numbers")
            return f"field 'label' is {quote_text(value)}, which is neither 'right' nor 'wrong'{nearest}"
    elif not isinstance(value, int | float):
        return f"field 'label' must be 'right', 'wrong', true, false or a number, not {type_name(value)}"
    elif not _is_finite(value):
        return "field 'label' must be a finite number"
    if label.provenance not in _PROVENANCES:
        known = ", ".join(_PROVENANCES)
        nearest = did_you_mean(str(label.provenance)[:80], _PROVENANCES, otherwise=f"; known: {known}")
        return f"field 'provenance' is {quote_text(str(label.provenance))}{nearest}"
    if label.at is not None and not _is_time(label.at):
        return f"field 'at' is {quote_text(label.at)}{_NO_TIME}"
    return _draw_problem(label)


def _draw_problem(label: Label) -> str | None:
    """The first invalid value of the fields that say how the sample was selected."""
    if label.probability is not None and not 0 < label.probability <= 1:
        return f"field 'probability' is {label.probability}; an inclusion probability is above 0 and at most 1"
    if label.position is not None and label.position < 1:
        return f"field 'position' is {label.position}; positions start at 1"
    if label.shown is not None and not {*map(type, label.shown)} <= {str}:
        return 'field \'shown\' must be a list of strings, such as ["documents", "reference"]'
    if label.chosen and label.draw is not None:
        return "field 'chosen' is true and field 'draw' is given; a sample was picked by a person, or drawn at random"
    if label.draw is None and (label.probability is not None or label.position is not None):
        return "field 'draw' is missing; a probability or a position belongs to a draw"
    if label.draw is not None and label.probability is None:
        return "field 'probability' is missing; a label of a draw needs the inclusion probability of its sample"
    return None


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _unknown_key_hint(key: str) -> str:
    meant = _FIELD_ALIASES.get(key.lower())
    if meant is not None:
        return f"; did you mean {meant!r}?"
    return did_you_mean(key[:80], _KEYS, otherwise=f"; known fields: {', '.join(_KEYS)}")


# --- nugget files: a query per line with its nuggets, as the TREC RAG track writes them ------------------------------
# ``{"qid": "q1", "query": "...", "nuggets": [{"text": "...", "importance": "vital"}]}``. If an answer was
# compared with them, each nugget has an ``assignment``, and the line names the answer (``run_id``, ``answer_text``).

_TOPIC_KEYS = ("qid", "query", "nuggets")
_MAX_NAMED = 3  # how many unknown ids a message names


def iter_nuggets(path: str | Path, problems: Problems | None = None) -> Iterator[NuggetTopic]:
    """Yield the topics of a file."""
    path, found = Path(path), problems or Problems()
    for record in read_records(path, found):
        try:
            yield _parse_topic(record.values)
        except LineError as error:
            found.add_all(path, record.line, error.messages, record=record.record)


def read_nuggets(path: str | Path) -> list[NuggetTopic]:
    """Read the topics of a file; each combination of query and run must be unique."""
    topics: list[NuggetTopic] = []
    seen: set[tuple[str, str]] = set()
    for topic in iter_nuggets(path):
        key = topic.qid, str([topic.extra.get(name) for name in ("run_id", "docid")])
        if key in seen:
            message = f"{path}: qid {topic.qid!r} comes twice; each question may come once"
            raise DuplicateIdError(message, path=path)
        seen.add(key)
        topics.append(topic)
    if not topics:
        raise DataFileError(Path(path), None, "there are no nuggets in it")
    return topics


def _parse_topic(values: dict[str, Any]) -> NuggetTopic:
    qid, query = values.get("qid"), values.get("query", "")
    if isinstance(qid, bool) or not isinstance(qid, (str, int)) or qid == "":
        raise LineError("field 'qid' is missing" if qid is None else f"field 'qid' is {qid!r:.40}, not an id")
    if not isinstance(query, str):
        raise LineError(f"field 'query' is {query!r:.40}, not a string")
    if "nuggets" not in values:
        raise LineError("field 'nuggets' is missing")
    try:
        nuggets = parse_nuggets(values["nuggets"])
    except AueporaError as error:
        raise LineError(str(error)) from error
    return NuggetTopic(
        str(qid), tuple(nuggets), query, {key: one for key, one in values.items() if key not in _TOPIC_KEYS}
    )


def write_nuggets(topics: Iterable[NuggetTopic], path: str | Path) -> None:
    """Write a topic per line, with the assignments if there are any."""
    write_lines(Path(path), (msgspec.json.encode(topic.to_dict()) for topic in topics))


class NuggetsById:
    """The nuggets of a file or a list by sample id; ``unused`` reports the ids without a sample."""

    def __init__(self, nuggets: str | Path | Iterable[NuggetTopic]) -> None:
        self._where = nuggets if isinstance(nuggets, (str, Path)) else "the nuggets"
        topics = read_nuggets(nuggets) if isinstance(nuggets, (str, Path)) else nuggets
        self._by_id: dict[str, list[dict[str, str]]] = {}
        for topic in topics:
            if topic.qid in self._by_id:
                raise DuplicateIdError(f"{self._where}: qid {topic.qid!r} comes twice; each question may come once")
            self._by_id[topic.qid] = [replace(one, assignment=None).to_dict() for one in topic.nuggets]
        self._unused = dict.fromkeys(self._by_id)

    def attach(self, sample: EvaluationSample) -> EvaluationSample:
        """Return the sample with the nuggets of its id instead of its own; unchanged if there are none."""
        nuggets = self._by_id.get(sample.sample_id)
        self._unused.pop(sample.sample_id, None)
        return sample if nuggets is None else replace(sample, metadata={**sample.metadata, NUGGETS_KEY: nuggets})

    def unused(self) -> tuple[str, bool]:
        """Return a message about nuggets that belong to no sample, and whether none belongs to one."""
        if not self._unused:
            return "", False
        more = len(self._unused) - _MAX_NAMED
        named = ", ".join(map(repr, list(self._unused)[:_MAX_NAMED])) + (f" and {more} more" if more > 0 else "")
        if len(self._unused) == len(self._by_id):
            return f"no qid is the id of a sample; there are {named}", True
        return f"no sample has the qid {named}", False

    def report(self) -> None:
        """Warn about nuggets that belong to no sample, after all samples; an error if none belongs to one."""
        message, all_unused = self.unused()
        if all_unused:
            raise BadValueError(f"{self._where}: {message}")
        if message:
            warnings.warn(f"{self._where}: {message}", AueporaWarning, stacklevel=2)


def with_nuggets(
    samples: Iterable[EvaluationSample], nuggets: str | Path | Iterable[NuggetTopic]
) -> Iterator[EvaluationSample]:
    """Yield the samples with the nuggets of their ids instead of their own; other samples are unchanged.

    ``assignment`` belongs to an answer, not to the query, and is dropped. It is an error if no nuggets belong to a
    sample, and a warning if some do not.
    """
    known = NuggetsById(nuggets)
    yield from map(known.attach, samples)
    known.report()
