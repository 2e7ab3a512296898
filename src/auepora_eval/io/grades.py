"""Relevance grades with their provenance, corrections of gold with their journal, and samples with such gold."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from ..core.grouping import group_pairs
from ..core.types import GOLD_BY, Document, EvaluationSample, Response
from ..errors import BadValueError, ConflictError, DataFileError, UnknownCorrectionError, did_you_mean
from ..features.rankings import HIGHEST_LEVEL
from ..options import NonEmpty
from ..runtime.files import append, open_for_appending, read_lines, read_part, translate_write_errors, write_lines
from .codec import LineError
from .jsonl import Journal, current_time
from .labels import Position, Probability, Provenance
from .rows import require_types, row_values
from .trec import judged_documents, judged_levels, load_qrels, save_qrels
from .values import errors_at

GradeKey = tuple[str, str]
"""Query and document."""
DocumentId = Annotated[str, NonEmpty(), "an id"]


@dataclass(frozen=True, slots=True)
class Grade:
    """How relevant a document is to a query, with the source of the grade."""

    sample_id: DocumentId
    doc_id: DocumentId
    grade: int
    by: Provenance = "human"
    model: str = ""
    """The model, if a model graded."""
    prompt: str = ""
    why: str = ""
    at: str | None = None
    model_grade: int | None = None
    """The grade of the model, if a person reviewed it."""
    mean: float | None = None
    """The value before rounding, if repeats or probabilities gave a fraction."""
    draw: str = ""
    """The id of the draw that selected the document for a person."""
    probability: Probability | None = None
    """The probability with which that draw selected it."""
    position: Position | None = None
    """Its position in the order of the draw, from 1."""
    shown: tuple[str, ...] = ()
    """What the person saw."""

    @property
    def key(self) -> GradeKey:
        """Query and document."""
        return self.sample_id, self.doc_id

    @property
    def grade_by_model(self) -> int | None:
        """The grade that a model gave, if any."""
        return self.grade if self.by == "model" else self.model_grade

    def to_dict(self) -> dict[str, Any]:
        """Return the line of the provenance file: without empty values."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in values.items() if value is not None and value not in ("", ())}


def merge_grade(before: Grade | None, label: Grade) -> Grade:
    """Merge a human grade with the one before: people override models, and later people override earlier ones.

    A person who agrees with the model makes the grade human; one who disagrees makes it corrected.
    """
    if before is None:
        return label
    if before.by != "model" and before.grade == label.grade and label.probability is None:
        return before  # the same grade as before
    model_grade = before.grade_by_model
    by: Provenance = "human" if model_grade is None or model_grade == label.grade else "corrected"
    return replace(label, by=by, model=before.model, prompt=before.prompt, model_grade=model_grade)


def provenance_path(qrels: str | Path) -> Path:
    """Return the path of the provenance file of a qrels file."""
    path = Path(qrels)
    return path.with_name(f"{path.name}.provenance.jsonl")


def read_grades(qrels: str | Path) -> dict[GradeKey, Grade]:
    """Read the grades of a qrels file and of its provenance file; either may be missing.

    The qrels take precedence, since people edit them. A grade that only the provenance file has was given before an
    interruption, when the qrels were not yet written. A negative level is not a grade.
    """
    path = Path(qrels)
    grades = _read_provenance(provenance_path(path))
    if path.exists() and path.stat().st_size:
        for query, levels in load_qrels(path).items():
            for doc, level in levels.items():
                before = grades.pop((query, doc), None)
                if before is not None and before.grade == level:  # unchanged: it may be the grade of the model
                    grades[query, doc] = before
                elif level >= 0:
                    grades[query, doc] = merge_grade(before, Grade(query, doc, level))
    return grades


def write_grades(qrels: str | Path, grades: Collection[Grade]) -> None:
    """Write both files, each atomically.

    The qrels are written first: after an interruption between the two, a human grade is still read as one.
    """
    levels: dict[str, dict[str, int]] = {}
    for grade in grades:
        levels.setdefault(grade.sample_id, {})[grade.doc_id] = grade.grade
    save_qrels((EvaluationSample(query, "", *judged_documents(each)) for query, each in levels.items()), qrels)
    write_lines(provenance_path(qrels), map(_encode_grade, grades))


class GradeLog(AbstractContextManager["GradeLog"]):
    """Appends grades to the provenance file as they arrive, so that none is lost by an interruption."""

    def __init__(self, qrels: str | Path) -> None:
        self._path = provenance_path(qrels)
        self._file: int | None = None

    def add(self, grade: Grade) -> None:
        """Append a grade; it is kept if this process is killed."""
        line = _encode_grade(grade) + b"\n"
        with translate_write_errors(self._path):
            if self._file is None:
                self._file = open_for_appending(self._path)
                size = os.fstat(self._file).st_size
                # A killed process may have left half a line.
                if size and read_part(self._file, size - 1, 1) != b"\n":
                    line = b"\n" + line
            append(self._file, line)

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def __exit__(self, *error: object) -> None:
        self.close()


def provenance_counts(grades: Iterable[Grade]) -> dict[str, int]:
    """Count grades by source, in the order model, corrected, human; sources without a grade are omitted."""
    counts = Counter(grade.by for grade in grades)
    return {by: counts[by] for by in ("model", "corrected", "human") if counts[by]}


def provenance_counts_by_query(qrels: str | Path) -> dict[str, dict[str, int]] | None:
    """Count the grades of each query by source; ``None`` if there is no provenance file."""
    if not provenance_path(qrels).exists():
        return None
    return {query: provenance_counts(grades) for query, grades in _grades_by_query(qrels).items()}


def _grades_by_query(qrels: str | Path) -> dict[str, list[Grade]]:
    return group_pairs((grade.sample_id, grade) for grade in read_grades(qrels).values())


def _encode_grade(grade: Grade) -> bytes:
    try:
        return msgspec.json.encode(grade.to_dict())
    except UnicodeEncodeError as error:
        where = f"query {grade.sample_id!r}, document {grade.doc_id!r}"
        raise BadValueError(f"the grade of {where} cannot be written: it holds half of a surrogate pair") from error


def _read_provenance(path: Path) -> dict[GradeKey, Grade]:
    """Read the provenance file. The last line of a document counts; a truncated line is skipped."""
    found: dict[GradeKey, Grade] = {}
    if not path.exists():
        return found
    for number, line in read_lines(path):
        grade = _decode_grade(path, number, line)
        if grade is not None:
            found[grade.key] = grade
    return found


_LINE_START = b'{"sample_id":'
_REQUIRED = ("sample_id", "doc_id", "grade", "by")


def _decode_grade(path: Path, number: int, line: bytes) -> Grade | None:
    try:
        row = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        if line.startswith(_LINE_START) or _LINE_START.startswith(line.strip()):
            return None  # the process that wrote it was killed
        raise DataFileError(
            path, number, "not JSON; a line is a grade with 'sample_id', 'doc_id', 'grade', 'by'"
        ) from None
    with errors_at(path, number):
        return make_grade(row, _REQUIRED)


def make_grade(row: object, required: Sequence[str] = ("sample_id", "doc_id", "grade")) -> Grade:
    """The grade of a row; a ``LineError`` names the first field that is missing or does not have its declared type."""
    values = row_values(row, None, required)
    require_types(Grade, values)
    fields = {name: values[name] for name in Grade.__dataclass_fields__ if name in values}
    return Grade(**fields | {"shown": tuple(values.get("shown", ()))})


# --- samples with these grades as their gold, and with their provenance ----------------------------------------------


def with_gold(samples: Iterable[EvaluationSample], qrels: str | Path) -> list[EvaluationSample]:
    """The samples with the graded documents of a qrels file as gold, and those of grade 0 as candidates.

    A sample that is not in the file has no gold. Existing documents of a sample keep their texts.

    Args:
        samples: The samples.
        qrels: A qrels file.

    Returns:
        New samples.

    Example:
        >>> [len(sample.relevant_docs) for sample in with_gold(samples, "qrels.txt")]
        [1, 1]
    """
    rows, by_query = list(samples), _grades_by_query(qrels)
    if rows and not any(sample.sample_id in by_query for sample in rows):
        raise BadValueError(f"'{qrels}' has no grade for any of the {len(rows)} samples; are the ids the same?")
    return [_with_grades(sample, by_query.get(sample.sample_id)) for sample in rows]


def _with_grades(sample: EvaluationSample, grades: Sequence[Grade] | None) -> EvaluationSample:
    metadata = {key: value for key, value in sample.metadata.items() if key != GOLD_BY}
    if grades is None:
        return replace(sample, relevant_docs=None, relevant_groups=[], candidate_docs=None, metadata=metadata)
    known = {document.doc_id: document for document in chain(sample.candidate_docs or (), sample.relevant_docs or ())}
    documents = [_graded(known.get(grade.doc_id) or Document(grade.doc_id), grade.grade) for grade in grades]
    relevant = [document for document, grade in zip(documents, grades, strict=True) if grade.grade > 0]
    others = [document for document, grade in zip(documents, grades, strict=True) if grade.grade == 0]
    return replace(
        sample,
        relevant_docs=relevant,
        relevant_groups=_groups_of(sample, relevant),
        candidate_docs=others or None,
        metadata={**metadata, GOLD_BY: provenance_counts(grades)},
    )


def _graded(document: Document, grade: GoldValue) -> Document:
    """The document with a grade; grade 0 is not stored."""
    rest = {key: value for key, value in document.metadata.items() if key != "relevance"}
    return replace(document, metadata={**rest, "relevance": grade} if grade else rest)


def _groups_of(sample: EvaluationSample, relevant: Sequence[Document] | None) -> list[list[str]]:
    """The groups of a sample without the documents that are no longer relevant."""
    ids = {document.doc_id for document in relevant or ()}
    groups = []
    for group in sample.relevant_groups:
        kept = [doc_id for doc_id in group if doc_id in ids]
        if kept:
            groups.append(kept)
    return groups


def gold_signature(qrels: str | Path) -> str:
    """The gold of a qrels file in a signature: two files with the same grades are the same gold."""
    levels = sorted((*key, grade.grade) for key, grade in read_grades(qrels).items())
    return f"qrels-{hashlib.sha256(repr(levels).encode()).hexdigest()[:8]}"


# --- corrections of gold and their journal ---------------------------------------------------------------------------

CorrectionKind = Literal["grade", "references", "invalid"]
"""A grade of a document, the reference answers of a sample, or that a sample is invalid."""

CorrectionState = Literal["open", "accepted", "withdrawn"]

GoldValue = int | bool | tuple[str, ...] | None
"""A grade (``None``: not judged), reference answers, or whether a sample is invalid."""

CorrectionTarget = tuple[str, str, str, str]
"""Dataset, sample, kind and document: what a correction changes."""


@dataclass(frozen=True, slots=True)
class Correction:
    """One change of the gold of a dataset, with its provenance."""

    id: str
    kind: CorrectionKind
    fingerprint: str
    """The dataset: the fingerprint of its samples."""
    sample_id: str
    before: GoldValue
    after: GoldValue
    doc_id: str = ""
    """The document, if the kind is ``grade``."""
    by: str = ""
    """The person who proposes it."""
    at: str = ""
    """The time of the proposal, in ISO 8601."""
    why: str = ""
    run: str = ""
    """The id of the run whose page showed the sample."""
    document: Mapping[str, Any] = field(default_factory=dict)
    """Text, parent and span of a document that the sample did not have before."""

    @property
    def target(self) -> CorrectionTarget:
        """What it changes; of two corrections with the same target the later one counts."""
        return self.fingerprint, self.sample_id, self.kind, self.doc_id

    def to_dict(self) -> dict[str, Any]:
        """The correction as a JSON object, without empty fields; ``before`` and ``after`` are always there."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        shown = {key: value for key, value in values.items() if key in ("before", "after") or value}
        return {"event": "propose", **shown}

    def describe(self) -> str:
        """The change in words: ``document 'd3': not judged -> grade 2``."""
        change = f"{describe_gold(self.kind, self.before)} -> {describe_gold(self.kind, self.after)}"
        return f"document {self.doc_id!r}: {change}" if self.kind == "grade" else change


def describe_gold(kind: CorrectionKind, value: GoldValue) -> str:
    """A value of gold in words."""
    if kind == "grade":
        return "not judged" if value is None else f"grade {value}"
    if kind == "invalid":
        return "invalid" if value else "valid"
    return " | ".join(value) if isinstance(value, tuple) and value else "no reference answer"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A correction with its present state."""

    correction: Correction
    state: CorrectionState = "open"
    decided_by: str = ""
    """Who accepted or withdrew it."""
    decided_at: str = ""
    reason: str = ""
    """Why it was withdrawn."""
    line: int = 0
    """The line of the journal that gave it this state."""

    def to_dict(self) -> dict[str, Any]:
        """The proposal as a JSON object."""
        shown = {key: value for key, value in self.correction.to_dict().items() if key != "event"}
        decided = {"decided_by": self.decided_by, "decided_at": self.decided_at, "reason": self.reason}
        return {**shown, "state": self.state, **{key: value for key, value in decided.items() if value}}


@dataclass(frozen=True, slots=True)
class CorrectionEvent:
    """A line of the journal that accepts or withdraws a proposal."""

    event: Literal["accept", "withdraw"]
    correction: str
    """The id of the proposal."""
    by: str = ""
    at: str = ""
    why: str = ""
    id: str | None = None
    """The unique id of the submission."""

    def to_dict(self) -> dict[str, Any]:
        """The event as a JSON object, without empty fields."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {key: value for key, value in values.items() if value}


class CorrectionLog(Journal[Correction | CorrectionEvent]):
    """The proposals in ``corrections.jsonl`` of a labels folder: an append-only journal that processes share."""

    format = "auepora-corrections"
    version = 1

    def __init__(self, folder: str | Path) -> None:
        super().__init__(Path(folder) / "corrections.jsonl")

    def proposals(
        self,
        fingerprint: str | None = None,
        *,
        state: CorrectionState | None = None,
        sample_id: str | None = None,
    ) -> list[Proposal]:
        """The proposals in their order: all, or those of a dataset, a state or a sample."""
        self.refresh()
        with self._mutex:
            known = list(self._proposals.values())
        return [
            proposal
            for proposal in known
            if fingerprint in (None, proposal.correction.fingerprint)
            and state in (None, proposal.state)
            and sample_id in (None, proposal.correction.sample_id)
        ]

    def accepted(self, fingerprint: str) -> list[Correction]:
        """The accepted corrections of a dataset, in the order in which they were accepted."""
        found = self.proposals(fingerprint, state="accepted")
        return [proposal.correction for proposal in sorted(found, key=attrgetter("line"))]

    def find(self, correction_id: str) -> Proposal:
        """The proposal with that id, or the only one whose id begins with it."""
        self.refresh()
        with self._mutex:
            return self._find(correction_id)

    def propose(self, correction: Correction) -> Proposal:
        """Append a proposal; on return it is on disk.

        An open proposal with the same target and value is returned instead. The same id with another content is a
        ``ConflictError``.
        """
        with self._locked():
            known = (proposal for proposal in self._proposals.values() if proposal.state == "open")
            same = (
                proposal
                for proposal in known
                if (proposal.correction.target, proposal.correction.after) == (correction.target, correction.after)
            )
            found = next(same, None)
            if found is not None:
                return found
            self.append(correction)
            return self._proposals[correction.id]

    def withdraw(self, correction_ids: Iterable[str], *, by: str, why: str = "") -> list[Proposal]:
        """Withdraw proposals, open or accepted; ``apply_corrections`` then restores the results of accepted ones."""
        return self._decide(correction_ids, "withdrawn", CorrectionEvent("withdraw", "", by, current_time(), why))

    def accept(self, correction_ids: Iterable[str], *, by: str) -> list[Proposal]:
        """Accept open proposals, all or none.

        ``ConflictError``: one was withdrawn, two change the same gold, or the gold has changed since the proposal.
        """
        return self._decide(correction_ids, "accepted", CorrectionEvent("accept", "", by, current_time()))

    def check_acceptance(self, correction_ids: Iterable[str]) -> None:
        """Raise ``ConflictError`` if these proposals cannot be accepted together; accepted ones are ignored."""
        self.refresh()
        with self._mutex:
            found = [self._find(correction_id) for correction_id in dict.fromkeys(correction_ids)]
            _check_acceptance(
                [proposal for proposal in found if proposal.state != "accepted"], self._proposals.values()
            )

    def _decide(self, ids: Iterable[str], state: CorrectionState, event: CorrectionEvent) -> list[Proposal]:
        """Append the event for each proposal that is not in this state yet."""
        with self._locked():
            names = list(dict.fromkeys(self._find(key).correction.id for key in ids))
            changed = [name for name in names if self._proposals[name].state != state]
            if state == "accepted":
                _check_acceptance([self._proposals[name] for name in changed], self._proposals.values())
            if changed:
                self.append(*(replace(event, correction=name) for name in changed))
            return [self._proposals[name] for name in names]

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the journal, with the content up to date; the folder is created if needed."""
        with translate_write_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.lock():
            self.refresh()
            yield

    def _find(self, text: str) -> Proposal:
        known = self._proposals
        if text in known:
            return known[text]
        matches = [proposal for name, proposal in known.items() if text and name.startswith(text)]
        if len(matches) == 1:
            return matches[0]
        problem = "several proposals have an id that begins with" if matches else "there is no proposal with the id"
        raise UnknownCorrectionError(f"{problem} {text[:80]!r}{did_you_mean(text, known)}")

    def _clear(self) -> None:
        self._proposals: dict[str, Proposal] = {}

    def _parse(self, row: Mapping[str, Any]) -> Correction | CorrectionEvent:
        try:
            if row.get("event") != "propose":
                return msgspec.convert(row, CorrectionEvent)
            correction = msgspec.convert({key: value for key, value in row.items() if key != "event"}, Correction)
            check_gold_value(correction.kind, correction.after)
            return correction
        except (msgspec.ValidationError, BadValueError) as error:
            raise LineError(f"not a proposal, an acceptance or a withdrawal: {error}") from error

    def _apply(self, number: int, entry: Correction | CorrectionEvent) -> None:
        if isinstance(entry, Correction):
            if entry.id in self._proposals:
                raise LineError(f"proposal {entry.id!r} occurs twice")
            self._proposals[entry.id] = Proposal(entry, line=number)
            return
        if entry.correction not in self._proposals:
            raise LineError(f"there is no proposal {entry.correction!r} before it")
        state: CorrectionState = "accepted" if entry.event == "accept" else "withdrawn"
        before = self._proposals[entry.correction]
        self._proposals[entry.correction] = Proposal(
            before.correction, state, entry.by, entry.at, entry.why, line=number
        )

    def _check(self, entries: Sequence[Correction | CorrectionEvent]) -> None:
        """Nothing: ``propose``, ``accept`` and ``withdraw`` check under the same lock."""


def _check_acceptance(changed: Sequence[Proposal], known: Iterable[Proposal]) -> None:
    """Raise unless all of these proposals can be accepted together."""
    proposals = list(known)
    accepted = sorted((proposal for proposal in proposals if proposal.state == "accepted"), key=attrgetter("line"))
    in_force = {proposal.correction.target: proposal.correction for proposal in accepted}
    # The first proposal about a target was made with the gold of the dataset.
    gold = {proposal.correction.target: proposal.correction.before for proposal in reversed(proposals)}
    gold |= {target: accepted_correction.after for target, accepted_correction in in_force.items()}
    targets: dict[CorrectionTarget, str] = {}
    for proposal in changed:
        correction = proposal.correction
        if proposal.state == "withdrawn":
            raise ConflictError(f"proposal {correction.id} was withdrawn; propose it again")
        first = targets.setdefault(correction.target, correction.id)
        if first != correction.id:
            raise ConflictError(
                f"proposals {first} and {correction.id} change the same gold of sample {correction.sample_id!r}; "
                "withdraw one of them"
            )
        value = gold[correction.target]
        if value != correction.before:
            other = in_force.get(correction.target)
            since = "an accepted one was withdrawn" if other is None else f"proposal {other.id} was accepted"
            raise ConflictError(
                f"proposal {correction.id} of sample {correction.sample_id!r} was made before {since}: the gold is now "
                f"{describe_gold(correction.kind, value)}; propose the change again"
            )


# --- samples with corrected gold -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CorrectedGold:
    """The gold of a dataset with corrections: one for each target."""

    by_sample: Mapping[str, tuple[Correction, ...]]

    @classmethod
    def of(cls, corrections: Iterable[Correction]) -> CorrectedGold:
        """The gold after these corrections, in their order; the last one of a target counts."""
        latest: dict[CorrectionTarget, Correction] = {}
        for correction in corrections:
            latest.pop(correction.target, None)
            latest[correction.target] = correction
        if len({fingerprint for fingerprint, *_ in latest}) > 1:
            raise BadValueError("these corrections belong to several datasets; apply those of one at a time")
        grouped = group_pairs((correction.sample_id, correction) for correction in latest.values())
        return cls({sample_id: tuple(some) for sample_id, some in grouped.items()})

    @property
    def corrections(self) -> list[Correction]:
        """The corrections that count."""
        every = chain.from_iterable(self.by_sample.values())
        return [correction for correction in every if correction.kind != "invalid" or correction.after]

    @property
    def kinds(self) -> frozenset[CorrectionKind]:
        """The kinds of corrections that count."""
        return frozenset(correction.kind for correction in self.corrections)

    @property
    def invalid(self) -> frozenset[str]:
        """The ids of invalid samples."""
        return frozenset(correction.sample_id for correction in self.corrections if correction.kind == "invalid")

    @property
    def signature(self) -> str | None:
        """The gold in a signature: the same for equal values, by any author; ``None`` without corrections."""
        values = sorted((item.sample_id, item.kind, item.doc_id, repr(item.after)) for item in self.corrections)
        text = repr(values).encode("utf-8", "surrogatepass")
        return f"{CORRECTED_GOLD}{hashlib.sha256(text).hexdigest()[:8]}" if values else None

    def correct(self, sample: EvaluationSample) -> EvaluationSample:
        """The sample with its corrected grades and reference answers; an invalid sample is returned as well."""
        for correction in self.by_sample.get(sample.sample_id, ()):
            if correction.kind == "grade":
                sample = _with_grade(sample, correction)
            elif correction.kind == "references":
                sample = _with_references(sample, correction.after)
        return sample


CORRECTED_GOLD = "corrections-"
"""How the gold of a signature begins if it has corrections."""


def _with_grade(sample: EvaluationSample, correction: Correction) -> EvaluationSample:
    """The sample with another grade of a document; grade 0 moves it to the candidates, which are not relevant."""
    doc_id, grade = correction.doc_id, correction.after
    relevant, candidates = sample.relevant_docs, sample.candidate_docs

    def with_grade(documents: list[Document] | None) -> list[Document]:
        found = list(documents or ())
        if all(document.doc_id != doc_id for document in found):
            listed = [document for document in (*(relevant or ()), *(candidates or ())) if document.doc_id == doc_id]
            found += listed or [_new_document(correction)]
        return [_with_new_grade(document, doc_id, grade) for document in found]

    counts = sample.metadata.get(GOLD_BY)
    if isinstance(counts, Mapping) and find_document(sample, doc_id) is None:
        sample = replace(sample, metadata={**sample.metadata, GOLD_BY: {**counts, "human": counts.get("human", 0) + 1}})
    if grade:
        return replace(sample, relevant_docs=with_grade(relevant))
    rest = None if relevant is None else [document for document in relevant if document.doc_id != doc_id]
    groups = _groups_of(sample, rest)
    return replace(sample, relevant_docs=rest, relevant_groups=groups, candidate_docs=with_grade(candidates))


def _with_new_grade(document: Document, doc_id: str, grade: GoldValue) -> Document:
    return _graded(document, grade) if document.doc_id == doc_id else document


def _new_document(correction: Correction) -> Document:
    """The document of a correction that the sample did not have."""
    values = correction.document
    span = values.get("span")
    place = None if span is None else (int(span[0]), int(span[1]))
    return Document(correction.doc_id, values.get("text", ""), {}, values.get("parent_id"), place)


def _with_references(sample: EvaluationSample, value: GoldValue) -> EvaluationSample:
    """The sample with other reference answers; what else is known about the first, such as its fields, is kept."""
    assert isinstance(value, tuple)
    first = sample.reference_answer
    metadata, structured = ({}, None) if first is None else (first.metadata, first.structured)
    answer = Response(value[0], structured, metadata)
    return replace(sample, reference_answer=answer, reference_answers=list(value[1:]))


def gold_value(sample: EvaluationSample, kind: CorrectionKind, doc_id: str = "") -> GoldValue:
    """The gold of a sample that a correction of that kind would change; a sample by itself is valid."""
    if kind == "grade":
        levels = judged_levels(sample) if sample.relevant_docs or sample.candidate_docs else {}
        level = levels.get(doc_id, -1)
        return level if level >= 0 else None
    return tuple(sample.references) if kind == "references" else False


def check_gold_value(kind: CorrectionKind, value: GoldValue | Sequence[str]) -> GoldValue:
    """The value as a correction has it; raises unless it fits the kind."""
    if kind == "grade":
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise BadValueError(f"a grade is an integer from 0 up, not {value!r:.40}")
        if value > HIGHEST_LEVEL:
            raise BadValueError(f"a grade is at most {HIGHEST_LEVEL}, not {value!r:.40}")
        return value
    if kind == "invalid":
        if not isinstance(value, bool):
            raise BadValueError(f"a sample is invalid (true) or valid (false), not {value!r:.40}")
        return value
    texts = value if isinstance(value, list | tuple) else ()
    found = tuple(dict.fromkeys(text for text in texts if isinstance(text, str) and text.strip()))
    if not found or len(found) < len(texts):
        raise BadValueError("reference answers are one or more different texts, none of them empty")
    return found


def find_document(sample: EvaluationSample, doc_id: str) -> Document | None:
    """The document among the relevant ones and the candidates of a sample."""
    listed = chain(sample.relevant_docs or (), sample.candidate_docs or ())
    return next((document for document in listed if document.doc_id == doc_id), None)
