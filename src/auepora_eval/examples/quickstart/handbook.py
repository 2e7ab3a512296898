"""The bundled data: paths of its files, and the handbook split into chunks."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from ...core.types import Document

__all__ = ["CHUNKER_VERSION", "chapters", "corpus", "dataset_path", "plan_path"]

CHUNKER_VERSION = "handbook-1"
"""Version of the chunker; change it when the chunks change."""

_FOLDER = Path(__file__).parent
_PARAGRAPH = re.compile(r"^(?!#).+$", re.MULTILINE)  # a paragraph is one line; headings are not chunks


def dataset_path() -> Path:
    """The file of questions."""
    return _FOLDER / "questions.jsonl"


def plan_path(system: str) -> Path:
    """The plan for one of the systems, ``"bm25"`` or ``"baseline"``."""
    return _FOLDER / f"plan-{system}.yaml"


@cache
def chapters() -> dict[str, str]:
    """The text of each chapter by its name, in alphabetical order."""
    files = sorted((_FOLDER / "corpus").glob("*.md"))
    return {file.stem: file.read_text(encoding="utf-8") for file in files}


def corpus() -> list[Document]:
    """The handbook in chunks, one per paragraph: ``outcomes-3`` is the third paragraph of the chapter on outcomes."""
    return [
        Document(f"{chapter}-{number}", found.group(), parent_id=chapter, span=found.span())
        for chapter, text in chapters().items()
        for number, found in enumerate(_PARAGRAPH.finditer(text), 1)
    ]
