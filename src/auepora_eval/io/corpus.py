"""A corpus: samples and outputs reference documents by id, and their texts are read from one file on demand.

A corpus is JSONL, a document per line: ``doc_id`` (or ``_id``, as BEIR writes it), ``text``, and optionally ``title``,
``metadata``, ``parent_id``, ``span``. A title is put before the text, on a line of its own. Other keys are not read.
"""

from __future__ import annotations

import codecs
import threading
import warnings
import weakref
from array import array
from collections.abc import Iterable, Iterator, KeysView
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Annotated, Any, NamedTuple, TypeVar

import msgspec

from ..core.types import Document, EvaluationSample, RetrievedDocument, SystemOutputs
from ..errors import AueporaWarning, DataFileError, DuplicateIdError
from ..runtime.files import is_compressed, open_lines, read_head
from .problems import BAD_SPAN, Problems, RowSchema, decoding_problem, find_struct_problems, name_ids, quote_text
from .values import warn_repeated_keys

ItemT = TypeVar("ItemT", EvaluationSample, SystemOutputs)
_Id = Annotated[str, msgspec.Meta(min_length=1)]


class LinePosition(NamedTuple):
    """The position of a line in a file."""

    offset: int
    line: int


def iter_placed_lines(path: Path) -> Iterator[tuple[LinePosition, bytes]]:
    """Yield the lines of a file that are not blank, each with its position; a byte order mark is skipped."""
    end = 0
    with open_lines(path) as file:
        for number, line in enumerate(file, start=1):
            end += len(line)
            content = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            if content and not content.isspace():
                yield LinePosition(end - len(content), number), content


class _CorpusRow(msgspec.Struct, gc=False):
    """A line of the corpus."""

    text: str
    doc_id: _Id | None = None
    beir_id: _Id | None = msgspec.field(default=None, name="_id")
    title: str | None = None
    metadata: dict[str, Any] | None = None
    parent_id: str | None = None
    span: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.span is not None and not 0 <= self.span[0] <= self.span[1]:
            raise ValueError(BAD_SPAN)

    @property
    def id(self) -> str:
        """The id, under either name; empty if there is none."""
        return self.doc_id or self.beir_id or ""


_DECODER: msgspec.json.Decoder[_CorpusRow] = msgspec.json.Decoder(_CorpusRow)
_SHAPE = RowSchema("samples", {"": _CorpusRow.__struct_fields__}, "outputs", ())


class Corpus(AbstractContextManager["Corpus"]):
    """The documents of a file by id. While a document is in use, every lookup returns the same object."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.note: str | None = None
        """A message for the user, such as that the texts are in memory."""
        self._indexes: dict[str, int] = {}
        self._offsets = array("Q")  # start and end of the line of each document
        self._documents: list[Document] = []  # all documents of a compressed file, which cannot be read at an offset
        self._alive: weakref.WeakValueDictionary[str, Document] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None

    @classmethod
    def open(cls, path: str | Path, problems: Problems | None = None) -> Corpus:
        """Read the file once to index its lines; problems of any line are reported now, not later."""
        corpus = cls(Path(path))
        corpus._index(problems or Problems())
        return corpus

    @property
    def ids(self) -> KeysView[str]:
        """The ids of all documents, in the order of the file; the ``corpus_ids`` of ``citation_coverage``."""
        return self._indexes.keys()

    def __len__(self) -> int:
        return len(self._indexes)

    def __contains__(self, doc_id: object) -> bool:
        return doc_id in self._indexes

    def __iter__(self) -> Iterator[str]:
        return iter(self._indexes)

    def __getitem__(self, doc_id: str) -> Document:
        """Return the document, read from the file unless it is in use; ``KeyError`` if the id is unknown."""
        index = self._indexes[doc_id]
        if self._documents:
            return self._documents[index]
        with self._lock:
            found = self._alive.get(doc_id)
            if found is None:
                found = self._alive[doc_id] = self._read(doc_id, index)
        return found

    def get(self, doc_id: str) -> Document | None:
        """Return the document, or ``None`` if the id is unknown."""
        return self[doc_id] if doc_id in self._indexes else None

    def complete(self, document: Document) -> Document | None:
        """Return the replacement of a document without text; ``None`` if its id is unknown.

        This is the shared document, or a new one with its text if the given one has fields of its own, such as its
        relevance for a query.
        """
        shared = self.get(document.doc_id)
        if shared is None or not (document.metadata or document.parent_id is not None or document.span is not None):
            return shared
        completed = Document(
            document.doc_id,
            shared.text,
            {**shared.metadata, **document.metadata},
            shared.parent_id if document.parent_id is None else document.parent_id,
            shared.span if document.span is None else document.span,
        )
        # Keeps the shared document alive, so that the next lookup returns the same text.
        completed.__dict__["_shared"] = shared
        return completed

    def close(self) -> None:
        """Close the file. Documents already returned stay valid."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _index(self, problems: Problems) -> None:
        keep_documents = is_compressed(self.path)
        read_head(self.path)  # reports files in other encodings
        for place, line in iter_placed_lines(self.path):
            row = self._checked(line, place.line, problems)
            if row is None:
                continue
            self._indexes[row.id] = len(self._indexes)
            self._offsets.extend((place.offset, place.offset + len(line)))
            if keep_documents:
                self._documents.append(_document(row))
        if not self._indexes and not problems.found:
            problems.add(self.path, None, "the file is empty; each line must be one document")
        if keep_documents and self._documents:
            self.note = f"{self.path} is compressed: its {len(self):,} documents are kept in memory"

    def _checked(self, line: bytes, number: int, problems: Problems) -> _CorpusRow | None:
        try:
            row = _DECODER.decode(line)
        except (ValueError, RecursionError) as error:
            first = decoding_problem(line, error, _SHAPE)
            problems.add_all(self.path, number, find_struct_problems(line, _CorpusRow, _SHAPE, first)[0])
            return None
        warn_repeated_keys(self.path, number, line, problems)
        if not row.id:
            problems.add(self.path, number, "field 'doc_id' (or '_id') is missing")
        elif row.id in self._indexes:
            message = f"doc_id {quote_text(row.id)} occurs twice; each document may come once"
            problems.add(self.path, number, message, kind=DuplicateIdError)
        else:
            return row
        return None

    def _read(self, doc_id: str, index: int) -> Document:
        start, end = self._offsets[2 * index], self._offsets[2 * index + 1]
        try:
            if self._file is None:
                self._file = self.path.open("rb")
                weakref.finalize(self, self._file.close)
            self._file.seek(start)
            row = _DECODER.decode(self._file.read(end - start))
        except OSError as error:
            raise DataFileError(self.path, None, f"cannot be read: {error.strerror or error}") from error
        except (ValueError, RecursionError):
            row = None
        if row is None or row.id != doc_id:
            raise DataFileError(self.path, None, "has changed since it was opened; open the corpus again")
        return _document(row)


def _document(row: _CorpusRow) -> Document:
    metadata = row.metadata or {}
    metadata.pop("relevance", None)  # relevance belongs to a pair of query and document
    if row.title:
        metadata["title"] = row.title
        return Document(
            row.id, f"{row.title}\n{row.text}" if row.text else row.title, metadata, row.parent_id, row.span
        )
    return Document(row.id, row.text, metadata, row.parent_id, row.span)


class CorpusJoin:
    """Adds the texts of a corpus to samples and outputs, and counts the ids that the corpus lacks."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self.unknown: dict[str, int] = {}
        """Ids that the corpus lacks, with how often each occurred."""

    def fill_sample(self, sample: EvaluationSample) -> EvaluationSample:
        """Return the sample with texts for its documents."""
        relevant = None if sample.relevant_docs is None else [self._complete(doc) for doc in sample.relevant_docs]
        candidates = None if sample.candidate_docs is None else [self._complete(doc) for doc in sample.candidate_docs]
        return replace(sample, relevant_docs=relevant, candidate_docs=candidates)

    def fill_output(self, output: SystemOutputs) -> SystemOutputs:
        """Return the output with texts for its retrieved documents."""
        ranking = [RetrievedDocument(self._complete(item.doc), item.score, item.rank) for item in output.retrieved]
        return replace(output, retrieved=ranking)

    def report(self, *, stacklevel: int = 2) -> None:
        """Warn about documents that stay without text because the corpus lacks them."""
        if not self.unknown:
            return
        count = len(self.unknown)
        what, stay = ("1 document is", "stays") if count == 1 else (f"{count} documents are", "stay")
        message = f"{what} not in the corpus {self.corpus.path} and {stay} without text: {name_ids(self.unknown)}"
        warnings.warn(message, AueporaWarning, stacklevel=stacklevel + 1)

    def _complete(self, document: Document) -> Document:
        if document.text:
            return document
        found = self.corpus.complete(document)
        if found is None:
            self.unknown[document.doc_id] = self.unknown.get(document.doc_id, 0) + 1
            return document
        return found


def with_texts(items: Iterable[ItemT], corpus: Corpus) -> list[ItemT]:
    """Return samples or outputs whose documents have the texts of the corpus; the given ones are not changed.

    Documents that the corpus lacks stay as they are, and a warning counts them.
    """
    join = CorpusJoin(corpus)
    filled: list[Any] = []
    for item in items:
        if isinstance(item, EvaluationSample):
            filled.append(join.fill_sample(item))
        else:
            filled.append(join.fill_output(item))
    join.report()
    return filled
