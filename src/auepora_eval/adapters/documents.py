"""Conversion of a framework's documents: ids, texts, scores, parents, spans, and JSON metadata."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..core.errors import AueporaWarning, SystemCallError
from ..core.results import to_json_value
from ..core.types import Document, RetrievedDocument

__all__ = ["DocumentMapper", "FrameworkDocument", "span_from"]

_ID_KEYS = ("id", "doc_id", "source")


class FrameworkDocument(NamedTuple):
    """The fields of a framework's document, unchecked."""

    doc_id: Any
    text: Any
    metadata: Mapping[Any, Any] | None
    score: Any = None
    parent_id: Any = None
    span: tuple[int, int] | None = None


class DocumentMapper:
    """Converts a framework's documents, with the user's metadata keys; warns once about each problem."""

    def __init__(
        self, read: Callable[[Any], FrameworkDocument], *, id_key: str | None = None, parent_key: str | None = None
    ) -> None:
        self._read, self._id_key, self._parent_key = read, id_key, parent_key
        self._warned: set[str] = set()

    def to_ranking(self, items: Any, top_k: int | None = None) -> list[RetrievedDocument]:
        """The ranking, at most ``top_k`` documents; anything else is a failure of the system."""
        if not isinstance(items, Iterable) or isinstance(items, (str, Mapping)):
            raise SystemCallError("bad_output", f"documents were expected, and a {type(items).__name__} came back")
        read = list(map(self._read_item, list(items)[:top_k]))
        documents = [(self.document(one), self._score(one.score)) for one in read]
        return [RetrievedDocument(document, score, rank) for rank, (document, score) in enumerate(documents, 1)]

    def _read_item(self, item: Any) -> FrameworkDocument:
        try:
            return self._read(item)
        except AttributeError as error:
            kind = type(item).__name__
            raise SystemCallError("bad_output", f"among the documents is a {kind}, which is none: {error}") from error

    def document(self, raw: FrameworkDocument) -> Document:
        """One document."""
        metadata: dict[str, Any] = to_json_value(raw.metadata or {})
        text = "" if raw.text is None else str(raw.text)
        parent = raw.parent_id if self._parent_key is None else self._metadata_value(metadata, self._parent_key)
        return Document(
            self._id(raw.doc_id, text, metadata),
            text,
            metadata,
            parent_id=None if parent is None else str(parent),
            span=raw.span,
        )

    def _id(self, given: Any, text: str, metadata: Mapping[str, Any]) -> str:
        if self._id_key is not None:
            return str(self._metadata_value(metadata, self._id_key))
        for candidate in (given, *(metadata.get(key) for key in _ID_KEYS)):
            if candidate is not None and candidate != "":
                return str(candidate)
        self._warn(
            "documents have no id, so a hash of their text is used; gold with other ids is "
            "never matched (id_key='...' names the metadata key of the id)"
        )
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def _metadata_value(self, metadata: Mapping[str, Any], key: str) -> Any:
        value = metadata.get(key)
        if value is None:
            keys = ", ".join(sorted(metadata)) or "nothing"
            raise SystemCallError("bad_output", f"a document has no '{key}' in its metadata, which holds: {keys:.500}")
        return value

    def _score(self, score: Any) -> float | None:
        if score is None:
            return None
        number = float(score)
        if math.isfinite(number):
            return number
        self._warn(f"a document has the score {number}, which is recorded as unknown")
        return None

    def _warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            warnings.warn(message, AueporaWarning, stacklevel=2)


def span_from(start: Any, text: Any) -> tuple[int, int] | None:
    """The span of a text in its parent; ``None`` if its start is unknown."""
    if isinstance(start, bool) or not isinstance(start, int) or start < 0 or not isinstance(text, str):
        return None
    return start, start + len(text)
