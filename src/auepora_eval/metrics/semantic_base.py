"""Base classes of the semantic metrics: compared texts, empty texts and truncation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.derivation import NO_CONTEXT, Cell, Derivation, DerivationBuilder, ExplainContext, format_number
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..features.embeddings import MODEL_ROUNDING
from ..features.texts import Role, answers, reference_texts
from .answer_base import ReferencedMetric, require_choice

__all__ = [
    "MODEL_ROUNDING",
    "Pair",
    "SemanticMetricBase",
    "TextPairMetric",
    "TextPairScores",
    "note_truncation",
    "problem_masks",
]

Floats = npt.NDArray[np.float64]
Pair = tuple[str, str]
"""The compared text, and the answer."""


@dataclass(frozen=True, slots=True)
class TextPairScores:
    """A model's scores of text pairs."""

    values: Floats
    problems: Sequence[str | None]
    """Per pair the failure reason, if any."""
    cut: Sequence[int]
    """Per pair the number of truncated texts."""


def problem_masks(problems: Sequence[str | None]) -> dict[str, npt.NDArray[np.bool_]]:
    """Masks of the unmeasured rows, by reason."""
    reasons = dict.fromkeys(filter(None, problems))
    return {reason: np.array([one == reason for one in problems], np.bool_) for reason in reasons}


def note_truncation(batch: Batch, metric: str, cut: Floats) -> None:
    """Note the samples with texts that the model truncated."""
    for row in np.flatnonzero(cut):
        batch.note(
            f"metric '{metric}': a text is longer than the model reads, and was truncated",
            batch.samples[int(row)].sample_id,
        )


@dataclass(frozen=True)
class SemanticMetricBase(ReferencedMetric):
    """A metric that compares an answer semantically with each reference (the best counts), or with the query."""

    compare_to: Literal["reference", "query"] = field(default="reference", kw_only=True)

    suggested: ClassVar[bool] = False  # it needs a model, which the user names

    def __post_init__(self) -> None:
        require_choice("compare_to", self.compare_to, ("reference", "query"))
        super().__post_init__()
        if self.compare_to == "query":
            object.__setattr__(self, "target", TargetCategory.GENERATION_RELEVANCE)

    @property
    def role(self) -> Role:
        """The text that answers are compared with."""
        return self.compare_to

    @property
    def rounding(self) -> float:
        """The rounding tolerance of a model."""
        return MODEL_ROUNDING

    def signature_options(self) -> dict[str, str]:
        """The text that answers are compared with."""
        return {} if self.compare_to == "reference" else {"to": "query"}


@dataclass(frozen=True)
class TextPairMetric(SemanticMetricBase):
    """A metric that scores each text pair with a model."""

    range = (-1.0, 1.0)
    stat_names: ClassVar[tuple[str, ...]] = ("num_truncated",)

    @property
    def worst_stats(self) -> Sequence[float] | None:
        """No truncation in a failed answer."""
        return (0.0,)

    @property
    def both_empty(self) -> float | None:
        """The value of two empty texts (one alone gives 0); ``None`` passes empty texts to the model."""
        return 1.0

    @abstractmethod
    def score_pairs(self, batch: Batch, rows: Sequence[Sequence[Pair]]) -> TextPairScores:
        """The model's scores of the pairs of all rows, concatenated."""

    def score(self, batch: Batch) -> Scores:
        """The highest value among each answer's pairs."""
        compared: list[list[str]] = [[] for _ in range(len(batch))]
        compared_texts = reference_texts(batch, self.role)
        for owner, text in zip(compared_texts.owners.tolist(), compared_texts.texts, strict=True):
            compared[owner].append(text)
        values, stats = np.zeros(len(batch)), np.zeros((len(batch), 1))
        rows: list[list[Pair]] = []
        for row, (answer, texts, output) in enumerate(zip(answers(batch), compared, batch.outputs, strict=True)):
            answered = output is not None and output.error is None and output.response is not None
            known, pairs = self._decide_empty(answer, texts) if answered else (0.0, [])
            values[row] = 0.0 if known is None else known
            rows.append(pairs)
        pair_scores = self.score_pairs(batch, rows)
        problems: list[str | None] = [None] * len(batch)
        start = 0
        for row, pairs in enumerate(rows):
            if pairs:
                row_slice = slice(start, start + len(pairs))
                problems[row] = next(filter(None, pair_scores.problems[row_slice]), None)
                values[row], stats[row] = pair_scores.values[row_slice].max(), sum(pair_scores.cut[row_slice])
                start += len(pairs)
        note_truncation(batch, self.name, stats[:, 0])
        return self.outcome(
            batch, values, skip=self.without_reference(batch), fail=problem_masks(problems), stats=stats
        )

    def _decide_empty(self, answer: str, texts: Sequence[str]) -> tuple[float | None, list[Pair]]:
        """The value if an empty text decides it, else the pairs for the model.

        Empty references do not count while there is another.
        """
        if self.both_empty is None:
            return None, [(text, answer) for text in texts]
        non_empty = [text for text in texts if text.strip()]
        if not answer.strip():
            return (0.0 if non_empty else self.both_empty), []
        return (None, [(text, answer) for text in non_empty]) if non_empty else (0.0, [])

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The compared texts, and the model's score of each pair."""
        answer = "" if output.response is None else output.response.text
        known, pairs = self._decide_empty(answer, self.compared_texts(sample))
        if known is not None:
            return DerivationBuilder().finish(
                f"One of the texts is empty, so that no model is asked: {format_number(known)}", known
            )
        pair_scores = self.score_pairs(Batch([sample], [output]), [pairs]) if around.may_call_models else None
        rows: list[tuple[Cell, ...]] = [
            (text, answer_text, None if pair_scores is None else float(pair_scores.values[row]))
            for row, (text, answer_text) in enumerate(pairs)
        ]
        steps = DerivationBuilder().table("The texts compared", (self.role, "answer", "the model says"), rows)
        if pair_scores is None:
            stored = "" if around.stored_score is None else f"; stored is {format_number(around.stored_score)}"
            return steps.finish(f"The model is not asked again{stored}", around.stored_score, general=True)
        best = float(pair_scores.values.max())
        return steps.finish_with_value("The best pair" if len(pairs) > 1 else "Its number", best)

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """The best pair, each scored by itself."""
        known, pairs = self._decide_empty(answer, self.compared_texts(sample))
        if known is not None:
            return Score(known)
        outcomes = []
        for pair in pairs:
            pair_scores = self.score_pairs(Batch([sample], [output]), [[pair]])
            if pair_scores.problems[0] is not None:
                return Score.fail(pair_scores.problems[0])
            outcomes.append(float(pair_scores.values[0]))
        return Score(max(outcomes))
