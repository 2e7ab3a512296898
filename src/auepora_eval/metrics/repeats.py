"""Metrics of several answers to one question: pass@k, pass^k, and how often two answers agree."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from ..core.batch import Batch
from ..core.derivation import add_outcome, format_number
from ..core.metric_hooks import is_paired
from ..core.metrics_base import declare
from ..core.reduce import Mean
from ..core.registry import ConfiguredMetric, register
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..errors import BadValueError
from ..features.texts import RefusalDetector, is_unanswerable, refusals
from ..options import PositiveInt
from ..text.tokenizers import squad_words, without_wide_punctuation
from .wrappers import MetricOfMetric, inner_scores, require_in_range

# --- answers that pass: at least so much by another metric -----------------------------------------------------------


@dataclass(frozen=True)
class CorrectAnswers(MetricOfMetric):
    """A metric of answers that pass, which are those that another metric gives at least so much."""

    of: Any
    at_least: float | None = None

    base_role: ClassVar[str] = "of"
    base_option: ClassVar[str] = "of"
    metadata = declare(
        counts_system_failures=True,
        always_counts_failures=True,
        handles_failures=True,
        needs_all=True,
        suggested=False,
        signature={"at_least": "threshold"},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        inner = self.inner
        if is_paired(inner) or not isinstance(inner.reducer, Mean):
            raise BadValueError(f"'{inner.name}' is not a mean over samples, so it does not say which answers pass")
        if not inner.higher_is_better or not inner.metadata.has_direction:
            raise BadValueError(f"'of' needs a metric for which higher is better, which '{inner.name}' is not")
        if self.at_least is not None:
            require_in_range("at_least", self.at_least, inner)
        elif not inner.metadata.binary:
            raise BadValueError(
                f"the scores of '{inner.name}' are not only 0 and 1: say from which on an answer passes, at_least=0.5"
            )

    @property
    def threshold(self) -> float:
        """The score from which on an answer passes."""
        return 1.0 if self.at_least is None else self.at_least

    def score(self, batch: Batch) -> Scores:
        """Whether each answer passes: 1 or 0. One that is missing, failed or left out for what it says does not."""
        scores = inner_scores(self.inner, batch)
        passed = (scores.status == Status.SCORED) & (scores.values >= self.threshold)
        values = np.where(scores.counted, passed, np.nan)
        values[scores.status == Status.SYSTEM_FAILED] = 0.0
        scores = replace(scores, values=values, stats=None, keys=None)
        for reason in self.inner.metadata.output_skips:
            left_out = scores.with_reason(reason) & (scores.status == Status.SKIPPED)
            if left_out.any():
                scores = scores.replaced(left_out, Status.SCORED, "", 0.0)
        return scores

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """Whether an answer passes, by the plain definition of the other metric."""
        outcome = self.inner.reference(sample, output)
        if outcome is None or outcome.status is Status.MEASURE_FAILED:
            return outcome
        if outcome.value is None:
            return Score(0.0) if outcome.reason in self.inner.metadata.output_skips else outcome
        passed = outcome.value >= self.threshold
        verdict = "passes" if passed else "does not pass"
        return Score(add_outcome(f"{format_number(self.threshold)} is needed, so the answer {verdict}", float(passed)))


@dataclass(frozen=True)
class _PassMetric(CorrectAnswers):
    """Whether answers to a question pass, over all ways to choose ``k`` of them."""

    k: PositiveInt = field(kw_only=True)

    metadata = declare(failure_note="is an answer that does not pass")
    reducer = Mean(of_proportions=True)

    @staticmethod
    @abstractmethod
    def probability(passed: int, answers: int, k: int) -> float:
        """The value of a question by the number of answers that pass, the number of answers, and ``k``."""

    @property
    def repeats_needed(self) -> int:
        """As many answers as are drawn."""
        return self.k

    def join_repeats(self, parts: Sequence[Scores], means: Scores) -> Scores:
        """The probability of each question, by the number of its answers that pass.

        An answer that could not be measured is left out, where enough are left.
        """
        unmeasured = np.sum([part.status == Status.MEASURE_FAILED for part in parts], axis=0)
        passed = np.sum([part.values == 1 for part in parts], axis=0)
        values = np.full(len(means), math.nan)
        for row in np.flatnonzero(means.status != Status.SKIPPED).tolist():
            answers = len(parts) - int(unmeasured[row])
            if answers >= self.k:
                values[row] = self.probability(int(passed[row]), answers, self.k)
        lost = np.isnan(values) & (means.status != Status.SKIPPED)
        return replace(means, values=values).replaced(lost, Status.MEASURE_FAILED, "too_few_measured", math.nan)


@register("pass", at="k")
@dataclass(frozen=True)
class PassAtK(_PassMetric):
    r"""The probability that at least one of k answers to a question passes (pass@k).

    .. math:: 1 - \binom{n - c}{k} / \binom{n}{k}

    Of n answers to the question c pass: another metric, `of`, gives them `at_least` so much. The mean over all ways to
    draw k of the n answers, so it is unbiased, which 1 - (1 - c/n)^k is not. It needs k answers: `run.repeats` in a
    plan. An answer that failed, is missing or says nothing that the other metric could score does not pass. The
    interval is Wilson's, with the number of trials that gives the standard error over questions or clusters.
    """

    metadata = declare(
        reference="Chen et al. 2021 (Codex)",
        examples=({"pass@1": {"of": "exact_match"}}, {"pass@1": {"of": "token_f1", "at_least": 0.5}}),
    )

    @staticmethod
    def probability(passed: int, answers: int, k: int) -> float:
        """One less the proportion of draws in which none passes."""
        return 1 - math.comb(answers - passed, k) / math.comb(answers, k)


@register("pass_all", at="k")
@dataclass(frozen=True)
class PassAllAtK(_PassMetric):
    r"""The probability that all of k answers to a question pass (pass^k): how far the system can be relied on.

    .. math:: \binom{c}{k} / \binom{n}{k}

    Of n answers to the question c pass, as in `pass@k`, which describes `of`, `at_least`, failures and the interval.
    (c/n)^k would be too high, by .03 to .10 with three answers.
    """

    metadata = declare(
        reference="Yao et al. 2024 (tau-bench)",
        examples=({"pass_all@1": {"of": "exact_match"}}, {"pass_all@1": {"of": "token_f1", "at_least": 0.5}}),
    )

    @staticmethod
    def probability(passed: int, answers: int, k: int) -> float:
        """The proportion of draws in which all pass."""
        return math.comb(passed, k) / math.comb(answers, k)


# --- answers that agree ----------------------------------------------------------------------------------------------


@register("answer_agreement")
@dataclass(frozen=True)
class AnswerAgreement(ConfiguredMetric):
    r"""The proportion of pairs of answers to a question that are equal after normalisation.

    .. math:: \sum_a \binom{n_a}{2} / \binom{n}{2}

    :math:`n_a` of the n answers are a. Normalisation is that of `exact_match`. It needs two answers: `run.repeats` in a
    plan. An answer that failed, is missing or empty, or refuses, agrees with none, so that a system does not agree with
    itself by refusing. Questions that are marked unanswerable are left out. Answers that agree may all be wrong.
    """

    target = TargetCategory.DIVERSITY
    metadata = declare(
        reads=frozenset({"response"}),
        always_counts_failures=True,
        needs_all=True,
        suggested=False,
        skip_reasons={"unanswerable": "the sample is marked unanswerable"},
        failure_note="agrees with no other answer",
        signature={},
    )
    reducer = Mean(of_proportions=True)

    @property
    def repeats_needed(self) -> int:
        """Two answers can agree."""
        return 2

    def score(self, batch: Batch) -> Scores:
        """Whether there is an answer, and its normalised text as key."""
        refused = refusals(batch, RefusalDetector()).refused
        keys = [_normalized_answer(output) for output in batch.outputs]
        for row in np.flatnonzero(refused).tolist():
            keys[row] = None
        unanswerable = np.array([is_unanswerable(sample) for sample in batch.samples], dtype=np.bool_)
        return Scores.of([key is not None for key in keys], skip={"unanswerable": unanswerable}, keys=keys)

    def join_repeats(self, parts: Sequence[Scores], means: Scores) -> Scores:
        """The proportion of pairs that agree."""
        pairs = math.comb(len(parts), 2)
        columns = [part.keys or (None,) * len(part) for part in parts]
        values = []
        for answers in zip(*columns, strict=True):
            counts = Counter(answer for answer in answers if answer is not None)
            values.append(sum(math.comb(count, 2) for count in counts.values()) / pairs)
        agreeing = np.where(means.status == Status.SKIPPED, math.nan, np.array(values, dtype=np.float64))
        return replace(means, values=agreeing, keys=None)


def _normalized_answer(output: SystemOutputs | None) -> str | None:
    """The words of an answer, as ``exact_match`` compares them; ``None`` where there is no answer."""
    if output is None or output.error is not None or output.response is None:
        return None
    return " ".join(squad_words(without_wide_punctuation(output.response.text))) or None
