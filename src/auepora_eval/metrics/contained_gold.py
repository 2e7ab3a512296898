"""Rankings in which gold is found as a text inside a retrieved chunk, as published scripts of benchmarks find it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import NamedTuple

from ..core.batch import Batch
from ..core.conventions import SignatureOption
from ..core.derivation import add_table
from ..core.metrics_base import declare
from ..core.scores import Score, Scores
from ..core.types import Document, EvaluationSample, SystemOutputs
from ..errors import BadValueError
from ..features.rankings import highest_levels
from ..text.norms import TextNorm, normalized_text
from .ranking import RankingMetric


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


@dataclass(frozen=True)
class ContainedGoldMetric(RankingMetric):
    """A ranking metric that can also look for gold texts inside the retrieved texts (``contains``)."""

    contains: TextNorm | None = field(default=None, kw_only=True)
    """How both texts are normalised; ``None``: gold is found as the conventions say."""
    metadata = declare(signature={"contains": SignatureOption("contains")})

    @abstractmethod
    def score_positions(self, batch: Batch) -> Scores:
        """The scores by the positions of gold, as the conventions match it."""

    @abstractmethod
    def contained_value(self, found: FoundTexts) -> float:
        """The value of one sample by the texts that are found."""

    def score(self, batch: Batch) -> Scores:
        """The scores by positions, or by contained texts."""
        if self.contains is None:
            return self.score_positions(batch)
        return Scores.from_list([self._score_texts(*pair) for pair in zip(batch.samples, batch.outputs, strict=True)])

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The plain definition."""
        return super().reference(sample, output) if self.contains is None else self._score_texts(sample, output)

    def _score_texts(self, sample: EvaluationSample, output: SystemOutputs | None) -> Score:
        if sample.relevant_docs is None:
            return Score.skip("no_gold")
        found = self._found_texts(sample, output)
        judged = bool(sample.relevant_docs or sample.candidate_docs)
        if not found.gold and self.skips_empty_gold(judged):
            return Score.skip("empty_gold")
        return Score(self.contained_value(found) if found.gold else 0.0)

    def _found_texts(self, sample: EvaluationSample, output: SystemOutputs | None) -> FoundTexts:
        levels = highest_levels(sample)
        wanted: list[str] = []
        for document in sample.relevant_docs or ():
            text = self._text(document)
            if not text:
                raise BadValueError(
                    f"sample '{sample.sample_id}': the gold document '{document.doc_id}' has no text, which "
                    "'match: contains' looks for"
                )
            if levels[document.doc_id] >= self.active_conventions.min_relevance:
                wanted.append(text)
        missing = set(wanted)
        new: list[int] = []
        for item in [] if output is None else output.retrieved:
            here = {text for text in missing if text in self._text(item.doc)}
            missing -= here
            new.append(len(here) if len(new) < self.cut else 0)
        rows = ((rank, count) for rank, count in enumerate(new, start=1) if count)
        add_table(f"Gold texts found first at a rank, of {len(set(wanted))}", ("rank", "texts"), rows)
        return FoundTexts(len(wanted), len(set(wanted)), new)

    def _text(self, document: Document) -> str:
        return normalized_text(document.text, self.contains or "none")
