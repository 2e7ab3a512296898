"""Rubrics per sample: the weighted score of an answer, and whether it satisfies all that is required."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.conventions import SignatureOption
from ..core.derivation import DerivationBuilder, format_number
from ..core.metrics_base import declare
from ..core.registry import register
from ..core.scores import Score
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory, response_text
from ..errors import AueporaError
from ..judge.critic import Critic
from ..judge.ratings import Rating, question_frames
from ..judge.rubrics import (
    Rubric,
    RubricItem,
    required_items,
    rubric_score,
    sample_rubric,
    scored_items,
    worst_rubric_score,
)
from ..judge.support import SupportVerdict, VerdictForm, VerdictLevel
from .judged_base import RepeatedJudgementMetric, exact_fraction, parse_critic
from .judged_statements import CheckedStatements, StatementEvaluation, VerdictMetric


class RubricLevel(VerdictLevel):
    """Whether what an item describes is true of an answer; the value is its weight."""

    MET = 1.0
    PARTLY = 0.5
    NOT_MET = 0.0


RUBRIC_FORM = VerdictForm("item", RubricLevel)


class RubricEvaluation(StatementEvaluation):
    """One judgement of an answer by the items of its rubric."""

    async def judge_items(self, critic: Critic, items: Sequence[RubricItem], *, per_item: bool) -> list[SupportVerdict]:
        """The verdict on each item: from one request for all, or one for each."""
        texts = [item.text for item in items]
        checked = CheckedStatements(texts, self.answer)
        self.checked.append(checked)
        checked.verdicts = await RUBRIC_FORM.ask(
            self._judge,
            critic,
            self._prompt,
            {"question": question_frames(self.sample), "answer": self.answer.texts[0]},
            texts,
            size=1 if per_item else len(texts),
            source_name=self.answer.name,
            **self._request_options,
        )
        return checked.verdicts


@dataclass(frozen=True)
class RubricMetric(VerdictMetric):
    """A metric over the verdicts on the items of a sample's rubric."""

    critic: Any = field(default=None, hash=False, metadata={"convert": parse_critic})
    """The judge: a critic, or ``{use: NAME}`` in a plan."""
    per_item: bool = field(default=False, kw_only=True)
    """Whether each item is a request of its own; by default one request has all items of a rubric."""

    target = TargetCategory.GENERATION_CORRECTNESS
    _own_counts: ClassVar[tuple[str, ...]] = ("num_items", "num_met", "num_partly", "num_not_met")
    _evaluation_type = RubricEvaluation
    metadata = declare(
        controls={"other_answer": False},  # a reference need not meet every item
        skip_reasons={"no_rubric": "the sample has no rubric", **VerdictMetric.metadata.skip_reasons},
        prompt_names=("rubric",),
        signature={"per_item": SignatureOption("per_item", unless=False)},
    )
    signature_options = RepeatedJudgementMetric.signature_options
    no_items_reason: ClassVar[str]
    """The skip reason of a rubric without items that count."""

    @staticmethod
    @abstractmethod
    def own_items(rubric: Sequence[RubricItem]) -> Rubric:
        """The items that this metric counts."""

    @abstractmethod
    def item_value(self, items: Sequence[RubricItem], levels: Sequence[float]) -> float:
        """The value of an answer from the levels of the counted items."""

    def _checker(self) -> Critic:
        """The resolved critic."""
        return self._resolved_critic()

    def applies(self, sample: EvaluationSample) -> str | None:
        """Skips samples without items that count."""
        rubric = _rubric(sample)
        if rubric is None:
            return None  # a failed measurement, reported with the answer
        return "no_rubric" if not rubric else None if self.own_items(rubric) else self.no_items_reason

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether there are items that count."""
        return bool(self.own_items(_rubric(sample) or ()))

    def _known_outcome(self, sample: EvaluationSample, output: SystemOutputs) -> Score | Rating | None:
        """Malformed rubrics, and empty answers: nothing is true of them."""
        rubric = _rubric(sample)
        if rubric is None:
            return Score.fail("bad_rubric")
        return None if response_text(output).strip() else self._rating(self.own_items(rubric), None)

    def failure_message(self, sample: EvaluationSample, output: SystemOutputs) -> str:
        """The problem in its rubric."""
        return self.sample_problem(sample)

    def sample_problem(self, sample: EvaluationSample) -> str:
        """The problem in its rubric; empty if there is none."""
        try:
            sample_rubric(sample)
        except AueporaError as error:
            return f"labels.{error}"
        return ""

    async def _rate(self, evaluation: StatementEvaluation) -> Rating:
        """The value from the verdicts. A single request has the items of both metrics, so that these share it."""
        assert isinstance(evaluation, RubricEvaluation)
        rubric = _rubric(evaluation.sample) or ()
        own = self.own_items(rubric)
        asked = own if self.per_item else rubric
        verdicts = await evaluation.judge_items(self._checker(), asked, per_item=self.per_item)
        by_item = dict(zip(asked, verdicts, strict=True))
        return self._rating(own, [by_item[item] for item in own])

    def level_of(self, verdict: SupportVerdict) -> float:
        """The level that counts."""
        return float(verdict.level)

    def _rating(self, items: Sequence[RubricItem], verdicts: Sequence[SupportVerdict] | None) -> Rating:
        """The value and counts; without verdicts nothing was asked, and no item is met."""
        levels = [verdict.level for verdict in verdicts or ()]
        counts = (len(items), *(levels.count(level) for level in RubricLevel))
        known = [float(RubricLevel.NOT_MET)] * len(items)
        if verdicts is not None:
            known = [self.level_of(verdict) for verdict in verdicts]
        return Rating((self.item_value(items, known),), counts=tuple(map(float, counts)))

    def _add_result_steps(self, steps: DerivationBuilder, evaluation: StatementEvaluation, rating: Rating) -> None:
        """Add the items with weight and verdict, and the formula."""
        own = self.own_items(_rubric(evaluation.sample) or ())
        by_text = {item.text: item for item in own}
        rows, levels = [], []
        for checked in evaluation.checked:
            for text, verdict in zip(checked.statements, checked.verdicts, strict=True):
                if text in by_text:
                    weight, level = format_number(float(by_text[text].weight)), self.level_of(verdict)
                    rows.append((text, weight, verdict.level.label, level, verdict.rationale))
                    levels.append(level)
        steps.table("The items of the rubric", ("item", "weight", "verdict", "s", "why"), rows)
        self.add_formula(steps, own, levels, rating.values[0])

    @abstractmethod
    def add_formula(
        self, steps: DerivationBuilder, items: Sequence[RubricItem], levels: Sequence[float], value: float
    ) -> None:
        """Add the step from the levels to the value."""


@register("rubric_score")
@dataclass(frozen=True)
class RubricScore(RubricMetric):
    r"""Weighted proportion of a sample's own rubric that the answer meets.

    .. math:: \sum_i w_i \cdot s_i \,/\, \sum_{w_i > 0} w_i

    The rubric is in the sample's `labels["rubric"]`, a list of objects with `item`, `weight` (1 by default) and
    `required`. The critic decides whether each item is met (s = 1), met partly (0.5) or not met (0); it sees neither
    weights nor what is required. An item with a negative weight describes a fault: it is met where the answer has the
    fault, and lowers the score. Scores are not clipped, so that an answer with more faults than merits is below 0.
    Items with `required: true` do not count here but in `rubric_required`, which uses the same requests.

    One request has all items of a rubric; with `per_item` each item is a request of its own. An empty answer meets
    nothing and has no fault: 0, and no judge is called. A failed answer counts at the worst value of its sample, the
    sum of the negative weights over that of the positive ones. A malformed rubric is a failed measurement
    (`bad_rubric`), and an error of `auepora validate`.
    """

    metadata = declare(
        range=(-math.inf, 1.0),
        skip_reasons={
            **RubricMetric.metadata.skip_reasons,
            "no_scored_items": "all items of its rubric are required ones, which do not count in the score",
        },
        failure_note="counts at the worst value of its sample: the sum of the negative weights over that of the "
        "positive ones",
    )
    no_items_reason: ClassVar[str] = "no_scored_items"
    own_items = staticmethod(scored_items)

    def level_of(self, verdict: SupportVerdict) -> float:
        """The expected level, from a judge that replies with probabilities."""
        return float(verdict.level) if verdict.expected is None else verdict.expected

    def item_value(self, items: Sequence[RubricItem], levels: Sequence[float]) -> float:
        """The weighted proportion."""
        return float(rubric_score(items, levels))

    def worst_in(self, batch: Batch) -> npt.NDArray[np.float64]:
        """The worst value of each sample; NaN without a valid rubric."""
        items = [scored_items(_rubric(sample) or ()) for sample in batch.samples]
        return np.array([float(worst_rubric_score(own)) if own else math.nan for own in items], dtype=np.float64)

    def add_formula(
        self, steps: DerivationBuilder, items: Sequence[RubricItem], levels: Sequence[float], value: float
    ) -> None:
        """The weighted sum over the positive weights."""
        products = "".join(
            f" {'+' if item.weight > 0 else '−'} {format_number(float(abs(item.weight)))} · {level:g}"
            for item, level in zip(items, levels, strict=True)
        )
        positive = [format_number(float(item.weight)) for item in items if item.weight > 0]
        fraction = str(exact_fraction(value))
        shown = format_number(value)
        steps.add_step(
            f"Weights times s over the sum of the positive weights: ({products.removeprefix(' + ').strip()}) / "
            f"({' + '.join(positive)}) = {fraction}{'' if fraction == shown else f' = {shown}'}",
            value,
        )


@register("rubric_required")
@dataclass(frozen=True)
class RubricRequired(RubricMetric):
    r"""Whether the answer satisfies every required item of its sample's rubric: 1 or 0.

    .. math:: \prod_{i \text{ required}} [s_i = 1 \text{ if } w_i > 0, \; s_i = 0 \text{ if } w_i < 0]

    The items of `labels["rubric"]` with `required: true`; the others count in `rubric_score`, which uses the same
    requests. An item must be met in full; one with a negative weight describes a fault that must be absent. Partly is
    not enough for either. An empty answer meets nothing and has no fault, and no judge is called. With `repeats` the
    score is the mean over all judgements.
    """

    metadata = declare(
        binary=True,
        skip_reasons={
            **RubricMetric.metadata.skip_reasons,
            "no_required_items": "no item of its rubric is required",
        },
        controls={},  # an answer to another question may well be polite, or lack a fault
    )
    no_items_reason: ClassVar[str] = "no_required_items"
    own_items = staticmethod(required_items)

    def item_value(self, items: Sequence[RubricItem], levels: Sequence[float]) -> float:
        """1 if all are satisfied, else 0."""
        return float(all(item.is_satisfied(level) for item, level in zip(items, levels, strict=True)))

    def add_formula(
        self, steps: DerivationBuilder, items: Sequence[RubricItem], levels: Sequence[float], value: float
    ) -> None:
        """How many are satisfied."""
        satisfied = sum(item.is_satisfied(level) for item, level in zip(items, levels, strict=True))
        steps.add_step(f"Required items that are satisfied: {satisfied} of {len(items)}", value)


def _rubric(sample: EvaluationSample) -> Rubric | None:
    """The rubric of a sample, empty without the label; ``None`` if it is malformed."""
    try:
        return sample_rubric(sample) or ()
    except AueporaError:
        return None
