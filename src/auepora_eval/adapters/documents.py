"""A framework's documents as ours: ids, texts, scores, parents and spans, and metadata that any store can keep."""

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
    """A document as a framework has it, before it is checked."""

    doc_id: Any
    text: Any
    metadata: Mapping[Any, Any] | None
    score: Any = None
    parent_id: Any = None
    span: tuple[int, int] | None = None


class DocumentMapper:
    """Makes documents of what a framework returns, by the keys a user named; says once what is odd about them."""

    def __init__(
        self, read: Callable[[Any], FrameworkDocument], *, id_key: str | None = None, parent_key: str | None = None
    ) -> None:
        self._read, self._id_key, self._parent_key = read, id_key, parent_key
        self._said: set[str] = set()

    def to_ranking(self, items: Any, top_k: int | None = None) -> list[RetrievedDocument]:
        """The documents in their order, at most ``top_k`` of them; what is none is the system's failure."""
        if not isinstance(items, Iterable) or isinstance(items, (str, Mapping)):
            raise SystemCallError("bad_output", f"documents were expected, and a {type(items).__name__} came back")
        found = list(map(self._found, list(items)[:top_k]))
        documents = [(self.document(one), self._score(one.score)) for one in found]
        return [RetrievedDocument(document, score, rank) for rank, (document, score) in enumerate(documents, 1)]

    def _found(self, item: Any) -> FrameworkDocument:
        try:
            return self._read(item)
        except AttributeError as error:
            kind = type(item).__name__
            raise SystemCallError("bad_output", f"among the documents is a {kind}, which is none: {error}") from error

    def document(self, found: FrameworkDocument) -> Document:
        """One document."""
        metadata: dict[str, Any] = to_json_value(found.metadata or {})
        text = "" if found.text is None else str(found.text)
        parent = found.parent_id if self._parent_key is None else self._named(metadata, self._parent_key)
        return Document(
            self._id(found.doc_id, text, metadata),
            text,
            metadata,
            parent_id=None if parent is None else str(parent),
            span=found.span,
        )

    def _id(self, given: Any, text: str, metadata: Mapping[str, Any]) -> str:
        if self._id_key is not None:
            return str(self._named(metadata, self._id_key))
        for candidate in (given, *(metadata.get(key) for key in _ID_KEYS)):
            if candidate is not None and candidate != "":
                return str(candidate)
        self._say(
            "documents come without an id, so that each has a hash of its text for one; gold that names documents "
            "otherwise is never found (id_key='...' names the metadata that holds the id)"
        )
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def _named(self, metadata: Mapping[str, Any], key: str) -> Any:
        held = metadata.get(key)
        if held is None:
            there = ", ".join(sorted(metadata)) or "nothing"
            raise SystemCallError("bad_output", f"a document has no '{key}' in its metadata, which holds: {there:.500}")
        return held

    def _score(self, score: Any) -> float | None:
        if score is None:
            return None
        number = float(score)
        if math.isfinite(number):
            return number
        self._say(f"a document has {number} for a score, which is recorded as unknown")
        return None

    def _say(self, remark: str) -> None:
        if remark not in self._said:
            self._said.add(remark)
            warnings.warn(remark, AueporaWarning, stacklevel=2)


def span_from(start: Any, text: Any) -> tuple[int, int] | None:
    """Where a text stands in its parent, if it is known where it begins."""
    if isinstance(start, bool) or not isinstance(start, int) or start < 0 or not isinstance(text, str):
        return None
    return start, start + len(text)
