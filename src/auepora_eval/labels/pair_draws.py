"""Random draws of pairs of question and document to grade, and their record next to the grades."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import DataFileError
from ..io.grades import GradeKey
from ..runtime.files import read_bytes, write_lines
from .draws import draw_path

SHOWN = ("query", "history", "text")
"""What a person who grades a drawn document sees: neither the grade of the model nor the runs."""


@dataclass(frozen=True, slots=True)
class DrawnPair:
    """A document of the pool from which pairs were drawn."""

    sample_id: str
    doc_id: str
    best_rank: int
    """Its best rank in any pooled run, starting at 1."""
    probability: float
    """1 where a grade of a person was known before the draw; 0 where the document changes none of the metrics."""
    position: int | None = None
    """Its position in the order of grading, starting at 1; ``None`` if it was not drawn."""
    grade: int | None = None
    """The grade of a person that was known before the draw."""

    @property
    def key(self) -> GradeKey:
        """Query and document."""
        return self.sample_id, self.doc_id

    def to_dict(self) -> dict[str, Any]:
        """The pair as a record of the draw has it, without empty values."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in values.items() if value is not None}

    def graded_in_part(self, share: float) -> DrawnPair:
        """The pair where people graded a share of the draw alone; a grade that was known before stays certain."""
        return self if self.grade is not None else replace(self, probability=self.probability * share)


@dataclass(frozen=True, slots=True)
class PairDraw:
    """A random draw of pairs of query and document, fixed before the first grade."""

    seed: int
    n: int
    metrics: tuple[str, ...]
    min_relevance: int
    runs: tuple[str, ...]
    pairs: tuple[DrawnPair, ...]
    """All pairs of the pool, in the order of its queries."""

    @property
    def id(self) -> str:
        """The id of the draw: two draws with the same id have the same pairs, probabilities and order."""
        return f"pairs-{hashlib.sha256(repr(self).encode()).hexdigest()[:8]}"

    @property
    def order(self) -> list[DrawnPair]:
        """The drawn pairs in the order of grading."""
        return sorted((pair for pair in self.pairs if pair.position is not None), key=lambda drawn: drawn.position or 0)

    def to_dict(self) -> dict[str, Any]:
        """The draw as its file stores it."""
        return {
            "draw": self.id,
            "seed": self.seed,
            "n": self.n,
            "metrics": list(self.metrics),
            "min_relevance": self.min_relevance,
            "runs": list(self.runs),
            "shown": list(SHOWN),
            "pairs": [pair.to_dict() for pair in self.pairs],
        }


def write_pair_draw(record: Path, draw: PairDraw) -> None:
    """Write the record of a draw of pairs."""
    write_lines(record, [json.dumps(draw.to_dict(), indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace")])


def find_pair_draw(grades: str | Path) -> PairDraw | None:
    """The draw of pairs next to a file of grades; ``None`` if there is none, or a draw of answers to label."""
    record = draw_path(grades)
    return read_pair_draw(record) if record.exists() and b'"pairs"' in read_bytes(record) else None


def read_pair_draw(path: str | Path) -> PairDraw:
    """Read the record of a draw of pairs."""
    file = Path(path)
    try:
        row = json.loads(read_bytes(file))
        found = PairDraw(
            row["seed"],
            row["n"],
            metrics=tuple(row["metrics"]),
            min_relevance=row["min_relevance"],
            runs=tuple(row["runs"]),
            pairs=tuple(DrawnPair(**row_pair) for row_pair in row["pairs"]),
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        problem = f"is no record of a draw of pairs ({type(error).__name__}: {error})"
        raise DataFileError(file, None, problem) from error
    if found.id != row.get("draw"):
        raise DataFileError(file, None, "the record of the draw was changed after the draw; restore it")
    return found
