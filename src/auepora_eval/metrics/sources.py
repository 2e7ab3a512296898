"""Texts that statements are extracted from or compared with, each with a display name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..core.types import RetrievedDocument
from ..judge.support import SupportVerdict

__all__ = ["CheckedStatements", "Source", "document_sources", "merge_sources"]


@dataclass(frozen=True, slots=True)
class Source:
    """One or several texts with a name."""

    name: str
    """Such as ``the answer``, or the id of a document."""
    texts: tuple[str, ...]

    @property
    def has_text(self) -> bool:
        """Whether any text is not blank."""
        return any(text.strip() for text in self.texts)


@dataclass(slots=True)
class CheckedStatements:
    """Statements verified against a source."""

    statements: Sequence[str]
    against: Source
    verdicts: list[SupportVerdict] = field(default_factory=list)
    """One per statement, once they are available."""


def document_sources(retrieved: Iterable[RetrievedDocument]) -> list[Source]:
    """One source per document, named by its id."""
    return [Source(item.doc.doc_id, (item.doc.text or "",)) for item in retrieved]


def merge_sources(sources: Iterable[Source], name: str = "") -> Source:
    """Merge several sources into one, with a name or all their names."""
    parts = list(sources)
    return Source(name or ", ".join(one.name for one in parts), tuple(text for one in parts for text in one.texts))
