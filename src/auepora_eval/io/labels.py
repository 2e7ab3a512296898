"""Human labels of answers: a journal of JSON lines. Nugget files: a query with its nuggets per line."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

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
from ..judge.nugget_lists import NUGGETS_KEY, NuggetTopic, parse_nuggets
from ..options import Ge, Gt, Le, first_problem, option_types
from ..runtime.files import read_lines, write_lines
from .codec import LineError
from .jsonl import Journal, encode_entry
from .problems import Problems, name_ids, quote_text
from .rows import row_values
from .tables import read_records

Provenance = Literal["human", "model", "corrected"]
"""The source of a label: a person, a model, or a person who corrected a model."""

EventName = Literal["retract", "skip", "close", "tuning", "shown", "claim", "release"]
"""What a line of a journal that is no label does."""

LabelId = Annotated[str, "a string in quotes"]
LabelValue = Annotated[str | float | bool, "'right', 'wrong', true, false or a finite number"]
Probability = Annotated[float, Gt(0), Le(1), "an inclusion probability, which is above 0 and at most 1"]
Position = Annotated[int, Ge(1), "an integer; positions start at 1"]

RIGHT, WRONG = "right", "wrong"
UNCLEAR = "cannot tell"
"""The label that counts as missing. A journal has it as the reason of a skip, before the comment if there is one."""
_VALUES = {RIGHT: 1.0, WRONG: 0.0}
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

    sample_id: LabelId
    label: LabelValue
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
    probability: Probability | None = None
    """The inclusion probability of the sample in that draw."""
    position: Position | None = None
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
        problem = _type_problem(self) or _label_problem(self)
        if problem:
            raise BadValueError(f"{_subject(self.sample_id)}{problem}")

    @property
    def value(self) -> float:
        """The label as a number: right is 1 and wrong is 0, as are true and false; numbers stay as they are."""
        return _VALUES[self.label] if isinstance(self.label, str) else float(self.label)

    @property
    def key(self) -> LabelKey:
        """What is unique in a file."""
        return LabelKey(
            self.sample_id,
            self.annotator,
            run=self.run,
            metric=self.metric,
            adjudicated=self.adjudicated,
            chosen=self.chosen,
            doc_id=self.doc_id,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the label as stored in a file; values of ``None`` are omitted, and ``chosen`` unless it is true."""
        values = {key: getattr(self, key) for key in _LABEL_KEYS if key != "chosen" or self.chosen}
        return {key: value for key, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class LabelEvent:
    """A line of a journal that is no label.

    ``retract`` takes back a label or a skip, ``skip`` records that the annotator gave no label, ``close`` ends
    labelling, and ``tuning`` makes a label one that was used to tune a prompt. ``shown`` records that a person saw the
    labels of others, ``claim`` that a name belongs to the browser with a secret, and ``release`` that it does not.
    """

    event: EventName
    key: LabelKey | None = None
    """The label or skip that it is about; ``None`` for ``close``, ``claim`` and ``release``."""
    by: str = ""
    """Who did it, if it is not the annotator of the key; the name that is claimed or released."""
    reason: str = ""
    at: str | None = None
    """The time, in ISO 8601."""
    id: str | None = None
    """The unique id of the submission."""
    claim: str = ""
    """The hash of the secret of a browser that claims a name."""

    def __post_init__(self) -> None:
        problem = _type_problem(self) or _time_problem(self.at)
        if problem:
            raise BadValueError(problem)
        if (self.key is None) != (self.event in ("close", "claim", "release")):
            raise BadValueError(f"event {self.event!r} {'needs a' if self.key is None else 'has no'} sample")

    @property
    def annotator(self) -> str:
        """The annotator of the label or skip."""
        return self.by if self.key is None else self.key.annotator

    @property
    def is_unclear(self) -> bool:
        """Whether the annotator chose *Cannot tell*."""
        return self.event == "skip" and self.reason.partition(": ")[0] == UNCLEAR

    @property
    def comment(self) -> str:
        """The comment of *Cannot tell*; empty for other events."""
        return self.reason.partition(": ")[2] if self.is_unclear else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the event as stored in a file, without empty values."""
        values = {"event": self.event, **({} if self.key is None else self.key._asdict())}
        values |= {"by": self.by, "reason": self.reason, "at": self.at, "id": self.id, "claim": self.claim}
        return {name: value for name, value in values.items() if value or name == "annotator"}


def unclear_reason(comment: str = "") -> str:
    """The reason of a skip that stands for *Cannot tell*."""
    return f"{UNCLEAR}: {comment}" if comment else UNCLEAR


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
    write_lines(Path(path), (LabelJournal.header(), *map(encode_entry, labels)))


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
        found: list[Label | LabelEvent] = []
        for entry in reversed(self.entries(annotator)):
            if found and (entry.id is None or entry.id != found[0].id):
                break
            found.insert(0, entry)
        return found

    def _clear(self) -> None:
        self._labels: dict[LabelKey, Label] = {}
        self._lines: dict[LabelKey, int] = {}
        self._skips: dict[LabelKey, LabelEvent] = {}
        self._by_annotator: dict[str, dict[LabelKey, Label | LabelEvent]] = {}
        self._tuning: set[LabelKey] = set()
        self.closed: LabelEvent | None = None
        """The event that ended labelling; ``None`` if it goes on."""
        self.claims: dict[str, str] = {}
        """The hash of the secret of the browser that claims a name, by name."""
        self.past_claims: dict[str, set[str]] = {}
        """All hashes with which a name was claimed, by name."""
        self.seen: set[LabelKey] = set()
        """The items of which a person saw the labels of others."""

    def _parse(self, row: Mapping[str, Any]) -> Label | LabelEvent:
        return _parse_event(row) if "event" in row else _parse_label(row)

    def _apply(self, number: int, entry: Label | LabelEvent) -> None:
        key = entry.key
        if key is None or (isinstance(entry, LabelEvent) and entry.event == "shown"):
            assert isinstance(entry, LabelEvent)
            self._apply_state(entry)
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

    def _apply_state(self, event: LabelEvent) -> None:
        """Apply an event that changes no label."""
        if event.key is not None:
            self.seen.add(event.key)
        elif event.event == "close":
            self.closed = self.closed or event
        elif event.event == "claim":
            self.claims[event.by] = event.claim
            self.past_claims.setdefault(event.by, set()).add(event.claim)
        else:
            self.claims.pop(event.by, None)

    def _describe_contradiction(self, entry: Label | LabelEvent, key: LabelKey) -> str:
        sample = f"sample {quote_text(key.sample_id)}"
        if isinstance(entry, LabelEvent) and entry.event != "skip":
            return f"event {entry.event!r}: there is no label of {sample} with these fields before it"
        who = f"annotator {quote_text(key.annotator)}" if key.annotator else "the annotator, who is not named,"
        return f"{who} labelled {sample} already on line {self._lines[key]}; keep the one that counts"

    def _check(self, entries: Sequence[Label | LabelEvent]) -> None:
        changed: dict[LabelKey, Label | LabelEvent | None] = {}
        for entry in entries:
            if self.closed and not (isinstance(entry, LabelEvent) and entry.event == "tuning"):
                raise ConflictError("labelling is closed")
            if entry.key is None or (isinstance(entry, LabelEvent) and entry.event == "shown"):
                continue
            before = changed[entry.key] if entry.key in changed else self.find(entry.key)
            if _contradicts(entry, before):
                raise ConflictError(_CONFLICTS["label" if isinstance(entry, Label) else entry.event])
            if isinstance(entry, Label) or entry.event == "skip":
                changed[entry.key] = entry
            elif entry.event == "retract":
                changed[entry.key] = None


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


_LABEL_KEYS = dict.fromkeys(Label.__dataclass_fields__)
_EVENT_KEYS = dict.fromkeys(("event", *LabelKey._fields, "by", "reason", "at", "id", "claim"))


def _parse_event(row: Mapping[str, Any]) -> LabelEvent:
    values = row_values(row, _EVENT_KEYS, aliases=_FIELD_ALIASES)
    fields = {key: values.pop(key) for key in LabelKey._fields if key in values}
    if fields and not fields.get("sample_id"):
        raise LineError("field 'sample_id' is missing")
    try:
        if fields:
            values["key"] = Label(label=0, **fields).key  # checks its fields
        return LabelEvent(**values)
    except BadValueError as error:
        raise LineError(str(error)) from error


def _parse_label(row: Mapping[str, Any]) -> Label:
    values = row_values(row, _LABEL_KEYS, ("sample_id", "label"), aliases=_FIELD_ALIASES)
    try:
        return Label(**values)
    except BadValueError as error:
        raise LineError(str(error).removeprefix(_subject(values["sample_id"]))) from error


def _subject(sample_id: object) -> str:
    return f"the label of sample {sample_id!r}: "


@cache
def _declared_fields(target: Any) -> list[tuple[str, Any, bool]]:
    """Name and default of each field, and whether any string fits: to check these would double the time of reading."""
    hints, defaults = option_types(target), target.__dataclass_fields__
    return [(name, defaults[name].default, hints[name] in (str, str | None, LabelId)) for name in hints]


def _type_problem(entry: Label | LabelEvent) -> str:
    """The first value that does not have its declared type; empty if all have."""
    kind: Any = type(entry)
    given = {
        name: value
        for name, default, is_text in _declared_fields(kind)
        if (value := getattr(entry, name)) is not default and not (is_text and type(value) is str)
    }
    wrong = first_problem(kind, given)
    return f"field {wrong[0]!r} {wrong[1]}" if wrong else ""


def _label_problem(label: Label) -> str:
    """What is invalid about values that have their types; empty if nothing is."""
    if not label.sample_id:
        return "field 'sample_id' is empty; an id needs at least one character"
    if isinstance(label.label, str) and label.label not in _VALUES:
        nearest = did_you_mean(label.label[:80], _VALUES, otherwise="; a scale is written in numbers")
        return f"field 'label' is {quote_text(label.label)}, which is neither 'right' nor 'wrong'{nearest}"
    if label.chosen and label.draw is not None:
        return "field 'chosen' is true and field 'draw' is given; a sample was picked by a person, or drawn at random"
    if label.draw is None and (label.probability is not None or label.position is not None):
        return "field 'draw' is missing; a probability or a position belongs to a draw"
    if label.draw is not None and label.probability is None:
        return "field 'probability' is missing; a label of a draw needs the inclusion probability of its sample"
    return _time_problem(label.at)


def _time_problem(text: str | None) -> str:
    try:
        datetime.fromisoformat(text or "2030-01-31")
    except ValueError:
        return f"field 'at' is {quote_text(str(text))}, which is not a time; write it as 2030-01-31T12:00:00+00:00"
    return ""


# --- nugget files: a query per line with its nuggets, as the TREC RAG track writes them ------------------------------
# ``{"qid": "q1", "query": "...", "nuggets": [{"text": "...", "importance": "vital"}]}``. If an answer was
# compared with them, each nugget has an ``assignment``, and the line names the answer (``run_id``, ``answer_text``).

_TOPIC_KEYS = ("qid", "query", "nuggets")


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
            message = f"{path}: qid {topic.qid!r} occurs twice; each question may come once"
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
        str(qid), tuple(nuggets), query, {key: value for key, value in values.items() if key not in _TOPIC_KEYS}
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
                raise DuplicateIdError(f"{self._where}: qid {topic.qid!r} occurs twice; each question may come once")
            self._by_id[topic.qid] = [replace(nugget, assignment=None).to_dict() for nugget in topic.nuggets]
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
        named = name_ids(self._unused)
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
