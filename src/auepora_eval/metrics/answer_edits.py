"""Other metrics on edited answers, and on the answers that are no refusals."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from ..core.batch import Batch
from ..core.conventions import without_separator
from ..core.derivation import (
    NO_CONTEXT,
    Derivation,
    DerivationBuilder,
    ExplainContext,
    add_outcome,
    add_step,
    quote_text,
)
from ..core.metrics_base import SampleMetric, apply_failure_policy, declare
from ..core.registry import ConfiguredMetric, register
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory, response_text
from ..errors import BadValueError
from ..options import NonEmpty
from ..text.refusal import built_in_patterns, is_refusal
from .wrappers import WrapperMetric, inner_derivation, inner_scores, is_paired_metric, prepend_steps

Edit = Literal["strip", "first_line", "remove_citations", "remove_blanks"]
"""``remove_citations``: `` [n``, ``[n``, `` |`` and ``]`` are deleted, in this order, as ALCE's script does."""
_CITATIONS = (re.compile(r" \[\d+"), re.compile(r"\[\d+"), re.compile(r" \|"), re.compile(r"\]"))
Phrases = Annotated[tuple[Annotated[str, NonEmpty()], ...], NonEmpty()]


def without_citations(text: str) -> str:
    """A text without the marks of citations.

    >>> without_citations("It froze in 1901 [1][2].")
    'It froze in 1901.'
    """
    for mark in _CITATIONS:
        text = mark.sub("", text)
    return text


def first_line(text: str) -> str:
    """The part of a text before its first line end."""
    return text.partition("\n")[0]


def without_blanks(text: str) -> str:
    """A text without blanks."""
    return text.replace(" ", "")


EDITS: Mapping[Edit, Callable[[str], str]] = {
    "strip": str.strip,
    "first_line": first_line,
    "remove_citations": without_citations,
    "remove_blanks": without_blanks,
}


@dataclass(frozen=True)
class _AnswerWrapper(WrapperMetric):
    """Another metric of the answer, of which some or all are changed."""

    metadata = declare(
        reads=frozenset({"response"}),
        handles_failures=True,
        suggested=False,
        failure_note="as with the other metric",
    )
    follows_base: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if is_paired_metric(self.inner):
            raise BadValueError(f"'{self.inner.name}' is computed from several samples together; give another base")
        self.copy_attributes("target", "reducer", "range", "higher_is_better", "binary", "stat_names", "needs_all")

    @property
    def worst(self) -> float | None:
        """The wrapped metric's worst value."""
        return self.inner.worst

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether the wrapped metric applies."""
        return self.inner.is_applicable(sample, output)

    def further_details(self, scores: Scores, clusters: Any) -> dict[str, Any]:
        """The wrapped metric's details."""
        return self.inner.further_details(scores, clusters)


@register("edited_answer")
@dataclass(frozen=True)
class EditedAnswer(_AnswerWrapper):
    r"""Another metric on the answer after it was edited; the stored answer stays as it is.

    .. math:: M(\text{edit}(\text{answer}))

    `edits` are applied in their order: `strip` removes white space at both ends, `first_line` keeps what stands before
    the first line end, `remove_citations` deletes marks such as [1], and `remove_blanks` deletes blanks. The scripts of
    ALCE and of RGB (in Chinese) edit answers like this before they compare them.
    """

    edits: Annotated[tuple[Edit, ...], NonEmpty()] = ("strip",)

    metadata = declare(
        examples=(
            {"edited_answer": {"base": "containment", "edits": ["strip", "first_line", "remove_citations"]}},
            {"edited_answer": {"base": "rougeL_answer", "edits": ["remove_blanks"]}},
        ),
        option_help={"edits": "how answers are edited before they are scored"},
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "edits", tuple(self.edits))
        super().__post_init__()

    def edited(self, output: SystemOutputs) -> SystemOutputs:
        """The output with its answer edited."""
        if output.response is None:
            return output
        text = output.response.text
        for name in self.edits:
            text = EDITS[name](text)
        return replace(output, response=replace(output.response, text=text))

    def score(self, batch: Batch) -> Scores:
        """The wrapped metric's outcomes on the edited answers."""
        outputs = [output and self.edited(output) for output in batch.outputs]
        return apply_failure_policy(self.inner, Batch(batch.samples, outputs, memory=batch.memory))

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """The wrapped metric's outcome by its plain definition."""
        return self.inner.reference(sample, self.edited(output))

    def explain(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The edited answer, then the wrapped metric's steps."""
        edited = self.edited(output)
        shown = "" if edited.response is None else edited.response.text
        steps = DerivationBuilder().add_step(f"After {', '.join(self.edits)} the answer is {quote_text(shown)}")
        return prepend_steps(steps, inner_derivation(self.inner, sample, edited, around))

    def signature_options(self) -> dict[str, str]:
        """The wrapped metric and the edits."""
        return {**super().signature_options(), "edits": ",".join(self.edits)}


def declines(answer: str, refusals: tuple[str, ...] | None) -> bool:
    """Whether an answer has one of these phrases; without any, whether it is a refusal by the built-in ones."""
    if refusals is None:
        return is_refusal(answer, built_in_patterns())
    return any(phrase in answer for phrase in refusals)


def _refusals_option(refusals: tuple[str, ...] | None) -> dict[str, str]:
    return {} if refusals is None else {"refusals": without_separator(",".join(refusals))}


@register("over_answered")
@dataclass(frozen=True)
class OverAnswered(_AnswerWrapper):
    r"""Another metric, on the samples whose answer is no refusal.

    .. math:: M(\{s : \text{no refusal}(s)\})

    An answer is a refusal if it contains one of `refusals`, as written; without the option, if it has one of the
    built-in phrases. Report `answer_rate` beside it: refusing what is hard raises this value.
    """

    refusals: Phrases | None = None

    metadata = declare(
        output_skips=frozenset({"refused"}),
        skip_reasons={"refused": "the answer is a refusal"},
        examples=(
            {"over_answered": {"base": "token_f1"}},
            {"over_answered": {"base": "token_recall", "refusals": ["naïve cats"]}},
        ),
        option_help={"refusals": "phrases of a refusal"},
    )

    def score(self, batch: Batch) -> Scores:
        """The wrapped metric's outcomes; refusals are skipped."""
        scores = inner_scores(self.inner, batch)
        refused = np.array([self._is_refused(output) for output in batch.outputs], np.bool_)
        answered = (scores.status == Status.SCORED) | (scores.status == Status.MEASURE_FAILED)
        return scores.replaced(refused & answered, Status.SKIPPED, "refused", np.nan)

    def _is_refused(self, output: SystemOutputs | None) -> bool:
        return output is not None and output.response is not None and declines(output.response.text, self.refusals)

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """The wrapped metric's outcome, if the answer is no refusal."""
        outcome = self.inner.reference(sample, output)
        if outcome is None or outcome.status is Status.SKIPPED or not self._is_refused(output):
            return outcome
        return Score.skip("refused")

    def explain(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """That the answer is no refusal, then the wrapped metric's steps."""
        steps = DerivationBuilder().add_step("The answer is no refusal")
        return prepend_steps(steps, inner_derivation(self.inner, sample, output, around))

    def signature_options(self) -> dict[str, str]:
        """The wrapped metric and the phrases."""
        return {**super().signature_options(), **_refusals_option(self.refusals)}


@register("answer_rate")
@dataclass(frozen=True)
class AnswerRate(ConfiguredMetric, SampleMetric):
    r"""Proportion of questions that the system answers instead of refusing.

    .. math:: 1 - |R| / n

    An answer is a refusal if it contains one of `refusals`, as written; without the option, if it has one of the
    built-in phrases or is empty. Unlike `over_refusal_rate` it counts all questions, answerable or not.
    """

    refusals: Phrases | None = None

    target = TargetCategory.NEGATIVE_REJECTION
    needs_response = True
    metadata = declare(
        reads=frozenset({"response"}),
        binary=True,
        suggested=False,
        skip_reasons={"no_response": "no answer was asked for"},
        examples=("answer_rate", {"answer_rate": {"refusals": ["cats"]}}),
        option_help={"refusals": "phrases of a refusal"},
    )

    def signature_options(self) -> dict[str, str]:
        """The phrases."""
        return _refusals_option(self.refusals)

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """Whether the answer is no refusal."""
        answer = response_text(output)
        add_step(f"The answer: {quote_text(answer)}")
        refused = declines(answer, self.refusals)
        return Score(add_outcome("It is a refusal" if refused else "It is no refusal", float(not refused)))
