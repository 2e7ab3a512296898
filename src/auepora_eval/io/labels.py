"""Human labels of answers, one JSON object per line, and nugget files, a query with its nuggets per line."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from ..core.types import EvaluationSample
from ..errors import AueporaError, AueporaWarning, BadValueError, DataFileError, DuplicateIdError, did_you_mean
from ..judge.nuggets import NUGGETS_KEY, NuggetTopic, parse_nuggets
from ..runtime.files import is_compressed, read_lines, translate_write_errors, write_lines
from .codec import LineError
from .problems import PUT_IN_QUOTES, Problems, quote_text, type_name
from .tables import read_records
from .values import parse_json

Provenance = Literal["human", "model", "corrected"]
"""The source of a label: a person, a model, or a person who corrected a model."""

LabelKey = tuple[str, str, str | None, str | None, bool, bool]
"""Sample, annotator, run, metric, whether it is an adjudication, and whether a person picked the sample."""

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
)
_TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    **dict.fromkeys(("adjudicated", "tuning", "chosen"), (bool, "true or false")),
    "probability": ((int, float), "a number"),
    "position": (int, "an integer"),
    "shown": (list, "a list of strings"),
}
"""The types of fields that are no strings, with their description."""
# Names that other tools use for these fields.
_FIELD_ALIASES = {
    "id": "sample_id",
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


@dataclass(frozen=True, slots=True)
class Label:
    """The label of one annotator for the answer to one sample."""

    sample_id: str
    label: str | float | bool
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

    def __post_init__(self) -> None:
        if isinstance(self.shown, list):
            object.__setattr__(self, "shown", tuple(self.shown))
        problem = next(_validation_errors(self), None)
        if problem is not None:
            raise BadValueError(f"the label of sample {self.sample_id!r}: {problem}")

    @property
    def value(self) -> float:
        """The label as a number: right is 1 and wrong is 0, as are true and false; numbers stay as they are."""
        return _VALUES[self.label] if isinstance(self.label, str) else float(self.label)

    @property
    def key(self) -> LabelKey:
        """The key that is unique in a file: an annotator labels an answer once."""
        return self.sample_id, self.annotator, self.run, self.metric, self.adjudicated, self.chosen

    def to_dict(self) -> dict[str, Any]:
        """Return the label as stored in a file; values of ``None`` are omitted, and ``chosen`` unless it is true."""
        values = {key: getattr(self, key) for key in _KEYS if key != "chosen" or self.chosen}
        return {key: value for key, value in values.items() if value is not None}


def read_labels(path: str | Path) -> list[Label]:
    """Read the labels of a file, in its order; an invalid line is an error that names file, line and field."""
    return [label for _, label in iter_labels(Path(path), Problems())]


def iter_labels(path: Path, problems: Problems) -> Iterator[tuple[int, Label]]:
    """Yield the labels of a file, each with its line; invalid ones are added to the problems."""
    seen: dict[LabelKey, int] = {}
    for number, line in read_lines(path):
        try:
            label = _parse_label(parse_json(line))
        except LineError as error:
            problems.add(path, number, str(error))
            continue
        before = seen.setdefault(label.key, number)
        if before != number:
            who = f"annotator {quote_text(label.annotator)}" if label.annotator else "the annotator, who is not named,"
            sample = quote_text(label.sample_id)
            message = f"{who} labelled sample {sample} already on line {before}; keep the one that counts"
            problems.add(path, number, message)
            continue
        yield number, label


def write_labels(path: str | Path, labels: Iterable[Label]) -> None:
    """Write the labels to a file, atomically."""
    write_lines(Path(path), map(_encode_label, labels))


def append_label(path: str | Path, label: Label) -> None:
    """Append one label to a file, which is created if needed; on return it is on disk."""
    path = Path(path)
    if is_compressed(path):
        raise DataFileError(path, None, "labels are added one by one, which a compressed file does not allow")
    line = _encode_label(label) + b"\n"
    with _locked_file(path, create=True) as file, translate_write_errors(path):
        size = os.fstat(file).st_size
        # An editor may have left the last line without a newline.
        if size and os.pread(file, 1, size - 1) != b"\n":
            line = b"\n" + line
        try:
            while line:
                line = line[os.write(file, line) :]
            os.fsync(file)
        except OSError:
            os.ftruncate(file, size)  # half a line would corrupt the following ones
            raise


def remove_label(path: str | Path, key: LabelKey) -> None:
    """Remove the label with that ``key`` from a file, atomically; all other lines are unchanged."""
    path = Path(path)
    with _locked_file(path, create=False):
        lines = [(_parse_label_line(path, number, line).key, line) for number, line in read_lines(path)]
        kept = [line.rstrip(b"\r\n") for one, line in lines if one != key]
        if len(kept) == len(lines):
            raise DataFileError(path, None, f"the label of sample {key[0]!r} is not there any more")
        write_lines(path, kept)


@contextmanager
def _locked_file(path: Path, *, create: bool) -> Iterator[int]:
    """Open and lock a file for appending, so that several annotators may share it."""
    while True:
        with translate_write_errors(path):
            file = os.open(path, os.O_RDWR | os.O_APPEND | (os.O_CREAT if create else 0), 0o666)
        try:
            _lock(file)
            # Another process may have replaced the file before this one got the lock.
            if path.exists() and os.path.samestat(os.fstat(file), path.stat()):
                yield file
                return
        finally:
            os.close(file)


def _lock(file: int) -> None:
    try:
        import fcntl
    except ImportError:  # not available on this platform
        return
    with suppress(OSError):  # not supported by every file system
        fcntl.flock(file, fcntl.LOCK_EX)


def _parse_label_line(path: Path, number: int, line: bytes) -> Label:
    try:
        return _parse_label(parse_json(line))
    except LineError as error:
        raise DataFileError(path, number, str(error)) from error


def _encode_label(label: Label) -> bytes:
    try:
        return msgspec.json.encode(label.to_dict())
    except UnicodeEncodeError as error:
        raise BadValueError(
            f"the label of sample {label.sample_id!r} cannot be written: it holds half of a surrogate pair"
        ) from error


def _parse_label(row: object) -> Label:
    if not isinstance(row, dict):
        raise LineError(f"each line must be one JSON object, not {type_name(row)}")
    for key in row:
        if key not in _KEYS:
            raise LineError(f"unknown field {quote_text(key)}{_unknown_key_hint(key)}")
    for key in ("sample_id", "label"):
        if row.get(key) is None:
            raise LineError(f"field {key!r} is missing")
    values = {key: value for key, value in row.items() if value is not None}
    if (problem := next(_type_errors(values), None)) is not None:
        raise LineError(problem)
    try:
        label = Label(**values)
    except BadValueError as error:
        raise LineError(str(error).partition(": ")[2]) from error
    return label


def _type_errors(row: Mapping[str, Any]) -> Iterator[str]:
    for key, value in row.items():
        if key == "label":
            continue
        expected, description = _TYPES.get(key, (str, "a string"))
        if isinstance(value, bool) != (expected is bool) or not isinstance(value, expected):
            quotes = PUT_IN_QUOTES if key == "sample_id" and type_name(value) == "a number" else ""
            yield f"field {key!r} must be {description}, not {type_name(value)}{quotes}"


def _validation_errors(label: Label) -> Iterator[str]:
    if not label.sample_id:
        yield "field 'sample_id' is empty; an id needs at least one character"
    value = label.label
    if isinstance(value, str):
        if value not in _VALUES:
            nearest = did_you_mean(value[:80], _VALUES, otherwise="; a scale is written in numbers")
            yield f"field 'label' is {quote_text(value)}, which is neither 'right' nor 'wrong'{nearest}"
    elif not isinstance(value, int | float):
        yield f"field 'label' must be 'right', 'wrong', true, false or a number, not {type_name(value)}"
    elif not _is_finite(value):
        yield "field 'label' must be a finite number"
    if label.provenance not in get_args(Provenance):
        known = get_args(Provenance)
        nearest = did_you_mean(str(label.provenance)[:80], known, otherwise=f"; known: {', '.join(known)}")
        yield f"field 'provenance' is {quote_text(str(label.provenance))}{nearest}"
    if label.at is not None and not _is_time(label.at):
        yield f"field 'at' is {quote_text(label.at)}, which is not a time; write it as 2030-01-31T12:00:00+00:00"
    yield from _draw_errors(label)


def _draw_errors(label: Label) -> Iterator[str]:
    """Errors in the fields that say how the sample was selected."""
    if label.probability is not None and not 0 < label.probability <= 1:
        yield f"field 'probability' is {label.probability}; an inclusion probability is above 0 and at most 1"
    if label.position is not None and label.position < 1:
        yield f"field 'position' is {label.position}; positions start at 1"
    if label.shown is not None and not all(isinstance(one, str) for one in label.shown):
        yield 'field \'shown\' must be a list of strings, such as ["documents", "reference"]'
    if label.chosen and label.draw is not None:
        yield "field 'chosen' is true and field 'draw' is given; a sample was picked by a person, or drawn at random"
    if label.draw is None and (label.probability is not None or label.position is not None):
        yield "field 'draw' is missing; a probability or a position belongs to a draw"
    if label.draw is not None and label.probability is None:
        yield "field 'probability' is missing; a label of a draw needs the inclusion probability of its sample"


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
