"""Samples and outputs as bytes, with document texts stored once, keyed by their hash."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat as endlessly
from typing import Any

import msgspec

from ..core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, UnknownRanking
from ..errors import StoreError
from ..io.codec import (
    SAMPLE_DECODER,
    DocumentRow,
    Id,
    LineError,
    ResponseRow,
    SampleRow,
    decode_output,
    decode_sample,
    encode_output,
)
from ..runtime.secrets import Secrets
from .connect import Database, DatabaseConnection
from .schema import documents, insert_statement, placeholders

_DIGEST_BYTES = 16
_MAX_KEYS = 50_000
_MAX_KEYED_CHARACTERS = 8_000_000
_MAX_WRITTEN = 250_000
_MAX_CHARACTERS = 64_000_000
_CHUNK_SIZE = 500  # old versions of SQLite allow 999 values per statement
_INSERT = insert_statement(documents)


def block_deletions(connection: DatabaseConnection, *, and_writers: bool = False) -> None:
    """Block deletions of runs until the end of this transaction; with ``and_writers`` also writers of texts."""
    if connection.is_postgresql:  # SQLite has only one writer at a time
        mode = "SHARE ROW EXCLUSIVE" if and_writers else "ROW EXCLUSIVE"
        connection.execute(f"LOCK TABLE eval_documents IN {mode} MODE")


def text_key(data: bytes) -> str:
    """Return the key of a text: 22 characters."""
    digest = hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


class TextKeys:
    """Computes the keys of texts, and collects the texts to write. The empty text has an empty key.

    Keys are cached with their texts, since documents are repeated; the cache is bounded.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._keys: dict[str, str] = {}
        self._characters = 0
        self.texts: dict[str, str] = {}
        """The texts since ``clear``, by key."""

    def __call__(self, text: str) -> str:
        """Return the key of a text."""
        if text == "":
            return ""
        key = self._keys.get(text)
        if key is None:
            key = text_key(self._secrets.text(text).encode())
            if len(self._keys) >= _MAX_KEYS or self._characters + len(text) > _MAX_KEYED_CHARACTERS:
                self._keys.clear()
                self._characters = 0
            self._keys[text] = key
            self._characters += len(text)
        if key not in self.texts:
            self.texts[key] = self._secrets.text(text)
        return key

    def clear(self) -> None:
        """Drop the collected texts; the cache of keys is kept."""
        self.texts = {}


class KnownTexts:
    """The keys of texts that are already stored, so that they are not sent again.

    A deletion of runs may remove texts: it increments a counter that is compared in each transaction.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._new: list[str] = []
        self._deletions = -1

    def begin(self, connection: DatabaseConnection) -> None:
        """Call at the beginning of a transaction that writes texts."""
        self._new = []
        (deletions,) = connection.first("SELECT deletions FROM eval_schema") or (-1,)
        if deletions != self._deletions or len(self._known) > _MAX_WRITTEN:
            self._known, self._deletions = set(), deletions

    def write(self, connection: DatabaseConnection, texts: Mapping[str, str]) -> None:
        """Write the texts that are not stored yet, in a transaction that blocks deletions."""
        # In sorted order, so that two writers of the same texts cannot deadlock.
        new = sorted(texts.keys() - self._known)
        connection.execute_many(_INSERT, [(key, texts[key].encode()) for key in new])
        self._new += new

    def mark_committed(self) -> None:
        """Call after the transaction is committed."""
        self._known.update(self._new)
        self._new = []


class TextReader:
    """Reads texts by key in batches, with a bounded cache."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cache: dict[str, str] = {}
        self._characters = 0

    def read(self, connection: DatabaseConnection, keys: Iterable[str]) -> Mapping[str, str]:
        """Return the texts of these keys, by key."""
        requested = dict.fromkeys(keys)
        requested.pop("", None)
        if self._characters > _MAX_CHARACTERS:
            self._cache = {key: text for key, text in self._cache.items() if key in requested}
            self._characters = sum(map(len, self._cache.values()))
        missing = [key for key in requested if key not in self._cache]
        for start in range(0, len(missing), _CHUNK_SIZE):
            chunk = missing[start : start + _CHUNK_SIZE]
            query = f'SELECT hash, "text" FROM eval_documents WHERE hash IN {placeholders(chunk)}'
            for key, data in connection.rows(query, chunk):
                text = bytes(data).decode()
                self._cache[key] = text
                self._characters += len(text)
        absent = next((key for key in missing if key not in self._cache), None)
        if absent is not None:
            raise StoreError(self._database.label, f"is damaged: the text '{absent}' of a document is missing")
        self._cache[""] = ""
        return self._cache


# --- packed samples and outputs: compact JSON, with document texts stored separately ---------------------------------
# An output is stored as columns (all ids, all scores, ...), so that field names are not repeated. Packed data is
# decoded and compared: values that JSON does not restore exactly go through the codec of JSONL files, which normalises
# or rejects them.

TextKeyFunction = Callable[[str], str]
"""Returns the key of the text of a document."""


class PackedOutput(msgspec.Struct, omit_defaults=True, gc=False):
    """An output as columns. ``None`` for a column means the default for every document."""

    ids: list[Id] = msgspec.field(name="i", default_factory=list)
    scores: list[float | None] | None = msgspec.field(name="s", default=None)
    ranks: list[int] | None = msgspec.field(name="r", default=None)
    texts: list[str] | None = msgspec.field(name="x", default=None)
    metadata: list[dict[str, Any]] | None = msgspec.field(name="m", default=None)
    parents: list[str | None] | None = msgspec.field(name="p", default=None)
    spans: list[tuple[int, int] | None] | None = msgspec.field(name="c", default=None)
    answer: str | None = msgspec.field(name="a", default=None)
    structured: dict[str, Any] | None = msgspec.field(name="as", default=None)
    answer_metadata: dict[str, Any] = msgspec.field(name="am", default_factory=dict)
    sentences: list[dict[str, Any]] | None = msgspec.field(name="an", default=None)
    timings: dict[str, float] = msgspec.field(name="t", default_factory=dict)
    extra: dict[str, Any] = msgspec.field(name="e", default_factory=dict)
    error: str | None = msgspec.field(name="f", default=None)
    refused: bool | None = msgspec.field(name="d", default=None)
    citations: list[str] | None = msgspec.field(name="q", default=None)
    steps: list[dict[str, Any]] = msgspec.field(name="h", default_factory=list)
    usage: dict[str, Any] = msgspec.field(name="u", default_factory=dict)
    repeat: int = msgspec.field(name="n", default=0)
    sample_id: str | None = msgspec.field(name="id", default=None)
    """Only if it is not valid in a text column."""
    ranking_unknown: bool = msgspec.field(name="o", default=False)
    """Whether the ranking is unknown, in contrast to empty."""

    def hits(self, texts: Mapping[str, str] | None) -> Iterator[RetrievedDocument]:
        """Return the ranking, with the given texts of its documents."""
        count = len(self.ids)
        ranks = range(1, count + 1) if self.ranks is None else self.ranks
        scores = endlessly(None) if self.scores is None else self.scores
        keys = endlessly("") if self.texts is None or texts is None else (texts[key] for key in self.texts)
        parents = endlessly(None) if self.parents is None else self.parents
        spans = endlessly(None) if self.spans is None else self.spans
        metadata = ({} for _ in range(count)) if self.metadata is None else self.metadata
        documents = map(Document, self.ids, keys, metadata, parents, spans)
        return map(RetrievedDocument, documents, scores, ranks)


class _PackedSampleId(msgspec.Struct, gc=False):
    """The id of a packed sample; other fields are skipped."""

    sample_id: str


_ENCODER = msgspec.json.Encoder()
_OUTPUTS: msgspec.json.Decoder[PackedOutput] = msgspec.json.Decoder(PackedOutput)
_SAMPLE_IDS: msgspec.json.Decoder[_PackedSampleId] = msgspec.json.Decoder(_PackedSampleId)
_NO_METADATA: dict[str, Any] = {}


# --- outputs ---------------------------------------------------------------------------------------------------------


def pack_output(sample_id: str, output: SystemOutputs, key_of: TextKeyFunction) -> bytes:
    """Pack an output; ``LineError``: a value is not valid JSON."""
    try:
        response = output.response
        # Sentences and spans need the checks of the codec.
        if response is None or response.sentences is None:
            row = _to_columns(sample_id, output, key_of)
            if row.spans is None:
                data = _ENCODER.encode(row)
                if _OUTPUTS.decode(data) == row:
                    return data
    except Exception:  # noqa: S110 - the codec reports the problem
        pass
    try:
        plain = normalize_output(output, sample_id)
    except LineError as error:
        raise LineError(f"the output of sample {sample_id!r:.80}: {error}") from error
    return _ENCODER.encode(_to_columns(sample_id, plain, key_of))


def normalize_output(output: SystemOutputs, sample_id: str = "1") -> SystemOutputs:
    """Return a copy of plain types, as after writing and reading a file; ``LineError``: a value is not valid JSON."""
    plain = decode_output(encode_output(sample_id, output))[1]
    if isinstance(output.retrieved, UnknownRanking):
        plain.retrieved = UnknownRanking()
    return plain


def _to_columns(sample_id: str, output: SystemOutputs, key_of: TextKeyFunction) -> PackedOutput:
    hits, response = output.retrieved, output.response
    if not isinstance(hits, (list, tuple)):
        raise TypeError
    docs = [hit.doc for hit in hits]
    count = len(docs)
    ranks = [hit.rank for hit in hits]
    scores = [hit.score for hit in hits]
    if scores and type(scores[0]) is not float:
        import numpy as np

        for place, score in enumerate(scores):
            if isinstance(score, (np.floating, np.integer)):
                scores[place] = float(score)
    texts = [doc.text for doc in docs]
    metadata = [doc.metadata for doc in docs]
    parents = [doc.parent_id for doc in docs]
    spans = [doc.span for doc in docs]
    answer, structured, answer_metadata, sentences = None, None, _NO_METADATA, None
    if response is not None:
        answer, structured = response.text, response.structured
        answer_metadata, sentences = response.metadata, response.sentences
        if answer is None:
            raise TypeError  # an answer must have a text
    # Positional arguments are fastest. Columns are compared with the default: falsy values of other types are kept.
    return PackedOutput(
        [doc.doc_id for doc in docs],
        None if scores.count(None) == count else scores,
        None if ranks == list(range(1, count + 1)) else ranks,
        None if texts.count("") == count else [key_of(text) for text in texts],
        None if metadata.count(_NO_METADATA) == count else metadata,
        None if parents.count(None) == count else parents,
        None if spans.count(None) == count else spans,
        answer,
        structured,
        answer_metadata,
        sentences,
        output.timings,
        output.extra,
        output.error,
        output.refused,
        output.citations,
        output.steps,
        output.usage,
        output.repeat,
        sample_id if "\x00" in sample_id else None,
        isinstance(output.retrieved, UnknownRanking),
    )


def decode_packed(data: bytes) -> PackedOutput:
    """Decode the columns of an output."""
    return _OUTPUTS.decode(data)


def unpack_output(row: PackedOutput, texts: Mapping[str, str] | None) -> SystemOutputs:
    """Return the output of its columns; without ``texts`` its documents have empty texts."""
    response = None
    if row.answer is not None:
        response = Response(row.answer, row.structured, row.answer_metadata, row.sentences)
    return SystemOutputs(
        UnknownRanking() if row.ranking_unknown else list(row.hits(texts)),
        response,
        row.timings,
        row.extra,
        row.error,
        row.refused,
        row.citations,
        row.steps,
        row.usage,
        row.repeat,
    )


# --- samples ---------------------------------------------------------------------------------------------------------


def pack_sample(row: SampleRow[DocumentRow], line: bytes, key_of: TextKeyFunction) -> bytes:
    """Pack a sample: its JSON line with keys instead of document texts. Changes the row.

    ``line`` is the row as canonical JSON, which is used if there is no order of keys to preserve.
    """
    plain = not (row.labels or row.metadata or row.history)
    for doc in _documents(row):
        if doc.text:
            doc.text, plain = key_of(doc.text), False
        elif doc.metadata:
            plain = False
    answer = row.reference_answer
    if isinstance(answer, ResponseRow) and (answer.structured or answer.metadata):
        plain = False
    return line if plain else _ENCODER.encode(row)


def sample_text_keys(data: bytes) -> list[str]:
    """Return the keys of the texts that a packed sample references."""
    return [doc.text for doc in _documents(SAMPLE_DECODER.decode(data)) if doc.text]


def unpack_sample(data: bytes, texts: Mapping[str, str] | None) -> EvaluationSample:
    """Unpack a sample; without ``texts`` its documents have empty texts."""
    sample = decode_sample(data)
    for docs in (sample.relevant_docs, sample.candidate_docs):
        for doc in docs or ():
            if doc.text:
                doc.text = "" if texts is None else texts[doc.text]
    return sample


def decode_packed_sample(data: bytes) -> SampleRow[DocumentRow]:
    """Decode a packed sample; its documents have keys instead of texts."""
    return SAMPLE_DECODER.decode(data)


def packed_sample_id(data: bytes) -> str:
    """Return the id of a packed sample without decoding the rest."""
    return _SAMPLE_IDS.decode(data).sample_id


def _documents(row: SampleRow[DocumentRow]) -> Iterator[DocumentRow]:
    for docs in (row.relevant_docs, row.candidate_docs):
        for doc in docs or ():
            if isinstance(doc, DocumentRow):
                yield doc
