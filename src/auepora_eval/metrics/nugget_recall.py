"""Nugget recall: the facts of a good answer that an answer contains, as in the TREC RAG track."""

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
    r"""Share of a question's nuggets, the facts of a good answer, that the answer contains.

    .. math:: \sum_i w_i \cdot a_i \,/\, \sum_i w_i

    The nuggets are in the sample's `metadata["nuggets"]`, each with a `text` and an `importance`, vital or okay. A
    critic, or an NLI function, decides whether the answer supports each of them fully, partially or not, at most
    `at_a_time` in one request. With the `variant` `vital_strict` only vital nuggets count (w), and only full support (a
    = 1); with `vital` partial support counts half. `all_strict` and `all` count every nugget alike, `weighted_strict`
    and `weighted` an okay one as half a vital one. The details have the mean of every variant. A nugget given twice
    counts once, as vital if one of them is. An empty answer has none, and no judge is called; a refusal is judged as
    any answer.

    Variants that count only vital nuggets skip a question without any. The track's `nuggetizer` gives 0 to a question
    without vital nuggets, and counts a nugget on which the judge failed as missing; here such an answer is a failed
    measurement. A script for the track's early files adds 0.00001 to every number of nuggets, so that a question
    without okay nuggets lowers the mean over okay ones, and an answer that has all of them scores below 1.
    """

    variant: Literal["vital_strict", "vital", "all_strict", "all", "weighted_strict", "weighted"] = field(
        default="vital_strict", kw_only=True
    )
    at_a_time: int = field(default=10, kw_only=True)
    """The number of nuggets per request to a critic."""

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
        """Skips samples without nuggets that count."""
        nuggets = _nuggets(sample)
        if nuggets is None:
            return None  # a failed measurement, reported with the answer
        if not nuggets:
            return "no_nuggets"
        scores = nugget_scores([(one.importance, 0.0) for one in nuggets])
        return "no_vital_nuggets" if scores[self.variant] is None else None

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether there are nuggets."""
        return bool(_nuggets(sample))

    def known_outcome(self, sample: EvaluationSample, output: SystemOutputs) -> Score | VerdictResult | None:
        """Unreadable nuggets, and empty answers."""
        nuggets = _nuggets(sample)
        if nuggets is None:
            return Score.fail("bad_nuggets")
        assert output.response is not None  # outputs without a response are skipped before
        return None if output.response.text.strip() else _no_nuggets_found(nuggets)

    def failure_message(self, sample: EvaluationSample, output: SystemOutputs) -> str:
        """The problem in its nuggets."""
        try:
            sample_nuggets(sample)
        except AueporaError as error:
            return f"metadata.{error}"
        return ""

    async def count(self, sample: EvaluationSample, output: SystemOutputs, verify: Verify) -> VerdictResult:
        """Every variant from the verdicts on all nuggets."""
        nuggets, answer = _nuggets(sample) or [], output.response.text if output.response is not None else ""
        batches = [nuggets[start : start + self.at_a_time] for start in range(0, len(nuggets), self.at_a_time)]
        evidence = [Source("the answer", (answer,))]
        verdicts = await gather_all(verify(evidence, [one.text for one in batch]) for batch in batches)
        levels = [float(verdict.level) for batch in verdicts for verdict in batch]
        scores = nugget_scores([(one.importance, level) for one, level in zip(nuggets, levels, strict=True)])
        value = scores[self.variant]
        assert value is not None  # else the sample is skipped
        return VerdictResult(value, _nugget_counts(nuggets, scores))

    def add_input_steps(self, steps: DerivationBuilder, sample: EvaluationSample, output: SystemOutputs) -> None:
        """The nuggets and their importance."""
        rows = [(one.text, one.importance) for one in _nuggets(sample) or ()]
        steps.table("The nuggets of the question", ("nugget", "importance"), rows)

    async def ascore(self, batch: Batch, judge: JudgeClient) -> Scores:
        """One outcome per sample; a failed answer has none of the nuggets in every variant."""
        scores = await super().ascore(batch, judge)
        assert scores.stats is not None
        for row in np.flatnonzero(scores.status == Status.SYSTEM_FAILED).tolist():
            result = _no_nuggets_found(_nuggets(batch.samples[row]) or [])
            for name, value in zip(self.own_count_names, result.counts, strict=True):
                self.count_column(scores, name)[row] = value
        return scores

    @property
    def worst_stats(self) -> Sequence[float]:
        """NaN keeps the statistics that ``ascore`` set for failed answers."""
        return [math.nan] * len(super().worst_stats)

    def further_details(self, scores: Scores, clusters: npt.NDArray[np.intp] | None) -> dict[str, Any]:
        """The general details, and the mean of every variant over the samples that have it."""
        details = super().further_details(scores, clusters)
        means: dict[str, float | None] = {}
        for variant in VARIANTS:
            details.pop(variant)
            column = np.zeros(0) if scores.stats is None else self.count_column(scores, variant)[scores.counted]
            known = column[~np.isnan(column)]
            means[variant] = math.fsum(known) / len(known) if len(known) else None
        return {**details, "variants": means}

    def signature_options(self) -> dict[str, str]:
        """The judge, the batch size and the variant."""
        return {**super().signature_options(), "variant": self.variant, "at_a_time": str(self.at_a_time)}


def _nuggets(sample: EvaluationSample) -> list[Nugget] | None:
    """The nuggets of a sample, an empty list without the key; ``None`` if they are invalid."""
    try:
        return sample_nuggets(sample) or []
    except AueporaError:
        return None


def _no_nuggets_found(nuggets: Sequence[Nugget]) -> VerdictResult:
    """The result of an answer without any of the nuggets."""
    return VerdictResult(0.0, _nugget_counts(nuggets, nugget_scores([(one.importance, 0.0) for one in nuggets])))


def _nugget_counts(nuggets: Sequence[Nugget], scores: dict[str, float | None]) -> tuple[float, ...]:
    vital = sum(one.importance == "vital" for one in nuggets)
    values = (scores[variant] for variant in VARIANTS)
    return (len(nuggets), vital, len(nuggets) - vital, *(math.nan if one is None else one for one in values))
