"""Which of the facts that a good answer holds an answer has: nuggets, as the TREC RAG track counts them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.derivation import DerivationBuilder
from ..core.errors import AueporaError
from ..core.registry import register
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..judge.critic import JudgeClient
from ..judge.nuggets import Nugget, sample_nuggets
from ..judge.ratings import gather_all
from .answer_base import require_choice, require_count
from .sources import Source
from .support_proportions import VARIANTS, nugget_scores
from .verdict_base import VerdictMetric, VerdictResult, Verify

__all__ = ["NuggetRecall"]

_COUNT_NAMES = ("num_nuggets", "num_vital", "num_okay")


@register("nugget_recall")
@dataclass(frozen=True)
class NuggetRecall(VerdictMetric):
    r"""Share of a question's nuggets, the facts a good answer holds, that the answer has.

    .. math:: \sum_i w_i \cdot a_i \,/\, \sum_i w_i

    The nuggets are in the sample's `metadata["nuggets"]`, each with a `text` and an `importance`, vital or okay. A
    critic, or a function of entailment, says whether the answer supports each of them: in full, in part or not at all,
    at most `at_a_time` in one question. With the `variant` `vital_strict` only vital nuggets count (w), and only those
    that are there in full (a = 1); with `vital` one that is there in part counts half. `all_strict` and `all` count
    every nugget alike, `weighted_strict` and `weighted` an okay one as half a vital one. The details have the mean of
    every variant. A nugget given twice counts once, as a vital one if it is that once. An empty answer has none, and
    nobody is asked; a refusal is judged as any answer.

    Where a question has no vital nugget there is nothing to divide by, and the variants that count only these skip it;
    where it has no okay one, all of them count what there is. The track's `nuggetizer` gives 0 to a question without
    vital nuggets, and counts a nugget that the judge failed on as not there; here such an answer is a failed
    measurement. A script for the track's early files adds 0.00001 to every number of nuggets, so that a question
    without okay nuggets lowers the mean over okay ones, and an answer that has all of them scores below 1.
    """

    variant: Literal["vital_strict", "vital", "all_strict", "all", "weighted_strict", "weighted"] = field(
        default="vital_strict", kw_only=True
    )
    at_a_time: int = field(default=10, kw_only=True)
    """How many nuggets one question to a critic is about."""

    target = TargetCategory.GENERATION_CORRECTNESS
    own_count_names: ClassVar[tuple[str, ...]] = (*_COUNT_NAMES, *VARIANTS)
    skip_reasons: ClassVar[dict[str, str]] = {
        "no_nuggets": "the sample has no nuggets",
        "no_vital_nuggets": "none of its nuggets is vital, and only these count",
        **VerdictMetric.skip_reasons,
    }
    formula_text: ClassVar[str] = "what the answer has of the nuggets that count, by weight, over all that count"
    reference: ClassVar[str] = "Pradeep et al. 2024 (AutoNuggetizer), TREC 2024 RAG track"

    def __post_init__(self) -> None:
        require_choice("variant", self.variant, VARIANTS)
        require_count("at_a_time", self.at_a_time)
        super().__post_init__()

    def applies(self, sample: EvaluationSample) -> str | None:
        """To samples with nuggets that count."""
        nuggets = _nuggets(sample)
        if nuggets is None:
            return None  # told as a failed measurement, once there is an answer
        if not nuggets:
            return "no_nuggets"
        scores = nugget_scores([(one.importance, 0.0) for one in nuggets])
        return "no_vital_nuggets" if scores[self.variant] is None else None

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether there are nuggets."""
        return bool(_nuggets(sample))

    def known_outcome(self, sample: EvaluationSample, output: SystemOutputs) -> Score | VerdictResult | None:
        """Nuggets that cannot be read, and empty answers."""
        nuggets = _nuggets(sample)
        if nuggets is None:
            return Score.fail("bad_nuggets")
        assert output.response is not None  # an output without one is skipped before it gets here
        return None if output.response.text.strip() else _no_nuggets_found(nuggets)

    def failure_message(self, sample: EvaluationSample, output: SystemOutputs) -> str:
        """What is wrong with its nuggets."""
        try:
            sample_nuggets(sample)
        except AueporaError as error:
            return f"metadata.{error}"
        return ""

    async def count(self, sample: EvaluationSample, output: SystemOutputs, verify: Verify) -> VerdictResult:
        """Every variant from the verdicts on all nuggets."""
        nuggets, answer = _nuggets(sample) or [], output.response.text if output.response is not None else ""
        parts = [nuggets[start : start + self.at_a_time] for start in range(0, len(nuggets), self.at_a_time)]
        by = [Source("the answer", (answer,))]
        verdicts = await gather_all(verify(by, [one.text for one in part]) for part in parts)
        levels = [float(verdict.level) for part in verdicts for verdict in part]
        scores = nugget_scores([(one.importance, level) for one, level in zip(nuggets, levels, strict=True)])
        value = scores[self.variant]
        assert value is not None  # else the sample is skipped
        return VerdictResult(value, _counts(nuggets, scores))

    def add_input_steps(self, steps: DerivationBuilder, sample: EvaluationSample, output: SystemOutputs) -> None:
        """The nuggets, and what they weigh."""
        rows = [(one.text, one.importance) for one in _nuggets(sample) or ()]
        steps.table("The nuggets of the question", ("nugget", "importance"), rows)

    async def ascore(self, batch: Batch, judge: JudgeClient) -> Scores:
        """One outcome per sample; an answer that was not given has none of the nuggets, whichever way they count."""
        scores = await super().ascore(batch, judge)
        assert scores.stats is not None
        for row in np.flatnonzero(scores.status == Status.SYSTEM_FAILED).tolist():
            lost = _no_nuggets_found(_nuggets(batch.samples[row]) or [])
            for name, value in zip(self.own_count_names, lost.counts, strict=True):
                self.counted(scores, name)[row] = value
        return scores

    @property
    def worst_stats(self) -> Sequence[float]:
        """Of an answer that was not given what ``ascore`` says."""
        return [math.nan] * len(super().worst_stats)

    def further_details(self, scores: Scores, clusters: npt.NDArray[np.intp] | None) -> dict[str, Any]:
        """The mean of every variant over the samples that have it, beside what is told of any such metric."""
        details = super().further_details(scores, clusters)
        means: dict[str, float | None] = {}
        for variant in VARIANTS:
            details.pop(variant)
            column = np.zeros(0) if scores.stats is None else self.counted(scores, variant)[scores.counted]
            there = column[~np.isnan(column)]
            means[variant] = math.fsum(there) / len(there) if len(there) else None
        return {**details, "variants": means}

    def signature_options(self) -> dict[str, str]:
        """Who judges how many at a time, and what counts."""
        return {**super().signature_options(), "variant": self.variant, "at_a_time": str(self.at_a_time)}


def _nuggets(sample: EvaluationSample) -> list[Nugget] | None:
    """The nuggets of a sample, none where it has no such key; ``None`` where they cannot be read."""
    try:
        return sample_nuggets(sample) or []
    except AueporaError:
        return None


def _no_nuggets_found(nuggets: Sequence[Nugget]) -> VerdictResult:
    """What comes of an answer that has none of them."""
    return VerdictResult(0.0, _counts(nuggets, nugget_scores([(one.importance, 0.0) for one in nuggets])))


def _counts(nuggets: Sequence[Nugget], scores: dict[str, float | None]) -> tuple[float, ...]:
    vital = sum(one.importance == "vital" for one in nuggets)
    values = (scores[variant] for variant in VARIANTS)
    return (len(nuggets), vital, len(nuggets) - vital, *(math.nan if one is None else one for one in values))
