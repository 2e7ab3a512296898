"""Gold that is found as a text inside a chunk, as published scripts of benchmarks find it."""

from __future__ import annotations

from typing import NamedTuple

from ..core.types import EvaluationSample, SystemOutputs
from ..errors import BadValueError
from ..text.norm_names import TextNorm
from ..text.norms import normalized_text
from .rankings import highest_levels


class FoundTexts(NamedTuple):
    """Which gold texts the ranks of one sample contain."""

    gold: int
    """The number of gold items."""
    texts: int
    """The number of different gold texts."""
    new: list[int]
    """By rank how many texts are found there first."""

    @property
    def found(self) -> int:
        """How many texts are found."""
        return sum(self.new)


def find_texts(
    sample: EvaluationSample, output: SystemOutputs | None, norm: TextNorm, *, cut: float, min_relevance: int
) -> FoundTexts:
    """The gold texts that the retrieved texts contain, both normalised, up to a rank."""
    levels = highest_levels(sample)
    wanted: list[str] = []
    for document in sample.relevant_docs or ():
        text = normalized_text(document.text, norm)
        if not text:
            raise BadValueError(
                f"sample '{sample.sample_id}': the gold document '{document.doc_id}' has no text, which "
                "'match: contains' looks for"
            )
        if levels[document.doc_id] >= min_relevance:
            wanted.append(text)
    missing = set(wanted)
    new: list[int] = []
    retrieved = output.retrieved if output is not None else []
    for rank, item in enumerate(retrieved):
        chunk = normalized_text(item.doc.text, norm)
        here = {text for text in missing if rank < cut and text in chunk}
        missing -= here
        new.append(len(here))
    return FoundTexts(len(wanted), len(set(wanted)), new)
