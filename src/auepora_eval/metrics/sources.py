"""Texts that statements are taken from, or held against, with the name by which they are shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..core.types import RetrievedDocument
from ..judge.support import SupportVerdict

__all__ = ["CheckedStatements", "Source", "document_sources", "merge_sources"]


@dataclass(frozen=True, slots=True)
class Source:
    """A text, or several taken together."""

    name: str
    """Such as ``the answer``, or the id of a document."""
    texts: tuple[str, ...]

    @property
    def has_text(self) -> bool:
        """Whether there is anything to read in it."""
        return any(text.strip() for text in self.texts)


@dataclass(slots=True)
class CheckedStatements:
    """Statements that were held against something."""

    statements: Sequence[str]
    against: Source
    verdicts: list[SupportVerdict] = field(default_factory=list)
    """One per statement, once they have come."""


def document_sources(retrieved: Iterable[RetrievedDocument]) -> list[Source]:
    """Each document by its id."""
    return [Source(item.doc.doc_id, (item.doc.text or "",)) for item in retrieved]


def merge_sources(sources: Iterable[Source], name: str = "") -> Source:
    """Several as one: by a name, or by all of theirs."""
    each = list(sources)
    return Source(name or ", ".join(one.name for one in each), tuple(text for one in each for text in one.texts))
