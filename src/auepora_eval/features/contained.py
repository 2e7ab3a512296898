"""Gold that is found as a text inside a chunk, as published scripts of benchmarks find it."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..core.derivation import add_outcome, add_table
from ..core.scores import Score
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
    sample: EvaluationSample, output: SystemOutputs, norm: TextNorm, *, cut: float, min_relevance: int
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
    for rank, item in enumerate(output.retrieved):
        chunk = normalized_text(item.doc.text, norm)
        here = {text for text in missing if rank < cut and text in chunk}
        missing -= here
        new.append(len(here))
    rows = ((rank, count) for rank, count in enumerate(new, start=1) if count)
    add_table(f"Gold texts found first at a rank, of {len(set(wanted))}", ("rank", "texts"), rows)
    return FoundTexts(len(wanted), len(set(wanted)), new)


def contained_value(measure: str, found: FoundTexts, k: int | None, divide_by: str) -> float:
    """A measure of the ranks at which gold texts are found."""
    ranks = [rank for rank, new in enumerate(found.new, start=1) if new]
    if not ranks:
        return add_outcome("No gold text is found", 0.0)
    if measure == "hit":
        return add_outcome("A gold text is found", 1.0)
    if measure == "reciprocal_rank":
        return add_outcome(f"1 / {ranks[0]}", 1.0 / ranks[0])
    total, so_far = 0.0, 0
    for rank in ranks:
        so_far += found.new[rank - 1]
        precision = 1 / rank if measure == "new_gold" else min(1.0, so_far / rank)
        total += found.new[rank - 1] * precision
    most = found.texts if k is None else min(found.texts, k)
    divisors = {"hits": found.found, "capped": most, "gold": found.texts}
    divisor = min(found.gold, k or found.gold) if measure == "new_gold" else divisors[divide_by]
    return add_outcome(f"{total} / {divisor}", total / divisor)


def text_score(metric: Any, sample: EvaluationSample, output: SystemOutputs) -> Score:
    """The outcome of one sample under a ranking metric with the option ``contains``."""
    if sample.relevant_docs is None:
        return Score.skip("no_gold")
    rules = metric.active_conventions
    found = find_texts(sample, output, metric.contains, cut=metric.cut, min_relevance=rules.min_relevance)
    if not found.gold and metric.skips_empty_gold(bool(sample.relevant_docs or sample.candidate_docs)):
        return Score.skip("empty_gold")
    measure = "new_gold" if getattr(metric, "new_gold", False) else metric.text_measure
    return Score(contained_value(measure, found, metric.max_rank, rules.ap))
