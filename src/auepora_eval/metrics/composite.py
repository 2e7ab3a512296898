"""Metrics over other metrics of the same sample: means, conditions, rules before another metric, edited answers."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import methodcaller
from typing import Annotated, Any, ClassVar, Literal

from ..core.batch import Batch
from ..core.conventions import SignatureOption
from ..core.derivation import add_outcome, add_step, quote_text
from ..core.metric_hooks import joins_repeats
from ..core.metric_metadata import declared_options
from ..core.metrics_base import BatchMetric, apply_failure_policy, declare, set_metadata, with_conventions
from ..core.reduce import Mean
from ..core.registry import ConfiguredMetric, metric, register
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, Response, SystemOutputs, TargetCategory, response_text
from ..errors import BadValueError
from ..features.texts import is_unanswerable
from ..options import NonEmpty, Phrases
from .wrappers import (
    FOLLOWED,
    WrapperMetric,
    as_batch_metric,
    inner_scores,
    inner_signature_options,
    is_paired_metric,
    score_rows,
)


@dataclass(frozen=True)
class CombinedMetric(ConfiguredMetric):
    """A metric that is computed from the scores of other metrics of the same sample."""

    target = TargetCategory.GENERATION_CORRECTNESS
    metadata = declare(suggested=False)
    part_options: ClassVar[tuple[str, ...]] = ("base",)
    """The options with another metric each."""

    @property
    def parts(self) -> Sequence[Any]:
        """The other metrics, as they were given."""
        return [getattr(self, option) for option in self.part_options]

    @abstractmethod
    def combined(self, sample: EvaluationSample, output: SystemOutputs, scores: Sequence[Score]) -> Score:
        """The outcome of a sample, given its outcomes under the other metrics."""

    def __post_init__(self) -> None:
        super().__post_init__()
        inner = self.inner_metrics()
        known = dict(self.metadata.skip_reasons)
        for part in inner:
            if is_paired_metric(part) or joins_repeats(part) or not isinstance(part.reducer, Mean):
                raise BadValueError(f"'{part.name}' is not a mean of scores of single samples; give another metric")
            known |= part.metadata.skip_reasons
        set_metadata(
            self,
            range=inner[0].range,
            reads=frozenset().union(*(part.metadata.reads for part in inner)),
            skip_reasons=known,
            output_skips=self.metadata.output_skips.union(*(part.metadata.output_skips for part in inner)),
        )

    def inner_metrics(self) -> Sequence[BatchMetric]:
        """The other metrics, under the active conventions."""
        return [with_conventions(as_batch_metric(metric(part)), self.active_conventions) for part in self.parts]

    def required_fields(self) -> list[str]:
        """The fields that any of them requires."""
        fields = [part.required_fields() for part in self.inner_metrics()]
        return list(dict.fromkeys(chain.from_iterable(fields)))

    def signature_options(self) -> dict[str, str]:
        """What the class declares, and the other metrics."""
        options = declared_options(self, self.metadata)
        for place, part in enumerate(self.inner_metrics(), start=1):
            options |= inner_signature_options(part, f"of{place}")
        return options

    def score(self, batch: Batch) -> Scores:
        """The outcomes by those of the other metrics."""
        columns = [score_rows(inner_scores(part, batch)) for part in self.inner_metrics()]
        rows = zip(batch.samples, batch.present_outputs(), zip(*columns, strict=True), strict=True)
        return Scores.from_list([self.combined(*row) for row in rows])

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """By the plain definitions of the other metrics."""
        scores: list[Score] = []
        for part in self.inner_metrics():
            score = part.reference(sample, output)
            if score is None:
                return None
            scores.append(score)
        return self.combined(sample, output, scores)


def unscored(scores: Sequence[Score]) -> Score | None:
    """The first outcome that is skipped, else the first without a score."""
    for status in (Status.SKIPPED, Status.SYSTEM_FAILED, Status.MEASURE_FAILED):
        for score in scores:
            if score.status is status:
                return score
    return None


@register("composite")
@dataclass(frozen=True)
class Composite(CombinedMetric):
    r"""Several metrics as one number: their weighted or harmonic mean, their lowest or highest, or their product.

    .. math:: \sum_i w_i m_i, \quad n / \sum_i m_i^{-1}, \quad \min_i m_i, \quad \max_i m_i, \quad \prod_i m_i

    `of` lists the metrics, and `weights` their weights, which are used as given (equal ones by default, with the sum
    1). Scores are combined sample by sample; a sample that one of them skips is skipped, and the harmonic mean is 0 if
    one of them is. The number hides which of the metrics changed: show them beside it.
    """

    of: Annotated[tuple[Any, ...], NonEmpty()] = ("exact_match", "token_f1")
    weights: tuple[float, ...] | None = field(default=None, metadata={"convert": tuple})
    mean: Literal["weighted", "harmonic", "min", "max", "product"] = "weighted"

    metadata = declare(
        examples=(
            "composite",
            {"composite": {"of": ["token_f1", "containment"], "weights": [0.6, 0.4]}},
            {"composite": {"of": ["token_precision", "token_recall"], "mean": "harmonic"}},
            {"composite": {"of": ["exact_match", "containment"], "mean": "min"}},
            {"composite": {"of": ["exact_match", "containment"], "mean": "max"}},
            {"composite": {"of": ["token_f1", "token_recall"], "mean": "product"}},
        ),
        signature={"mean": "mean", "weights": "weights"},
        option_help={
            "mean": "how the scores are combined",
            "weights": "the weight of each metric",
            **{f"of{place}": "one of the metrics that are combined" for place in range(1, 10)},
        },
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", tuple(metric(part) for part in self.of))
        super().__post_init__()
        if self.weights is not None and (len(self.weights) != len(self.of) or self.mean != "weighted"):
            raise BadValueError("'weights' gives one weight for each metric, and goes with 'mean: weighted'")
        lows, highs = zip(*(part.range for part in self.inner_metrics()), strict=True)
        object.__setattr__(self, "target", self.inner_metrics()[0].target)
        set_metadata(self, range=(self._mean(lows), self._mean(highs)))

    @property
    def parts(self) -> Sequence[Any]:
        """The metrics that are combined."""
        return self.of

    def _mean(self, values: Sequence[float]) -> float:
        match self.mean:
            case "weighted":
                weights = self.weights or (1 / len(values),) * len(values)
                return math.fsum(weight * value for weight, value in zip(weights, values, strict=True))
            case "harmonic":
                return len(values) / math.fsum(1 / value for value in values) if all(values) else 0.0
            case "min":
                return min(values)
            case "max":
                return max(values)
        return math.prod(values)

    def combined(self, sample: EvaluationSample, output: SystemOutputs, scores: Sequence[Score]) -> Score:
        """The mean, where all have a score."""
        missing = unscored(scores)
        if missing is not None:
            return missing
        return Score(add_outcome(f"Combined ({self.mean})", self._mean([score.value or 0.0 for score in scores])))


@register("conditioned")
@dataclass(frozen=True)
class Conditioned(CombinedMetric):
    r"""Another metric, where refusing decides first: a right refusal counts 1, a wrong one 0, as in MTRAG.

    .. math:: [\text{refused}] \;\text{if unanswerable, else}\; M \cdot [\text{not refused}]

    A question is unanswerable if `labels["answerable"]` is false or its scenario says so. An answer is a refusal if
    `refusal` gives it 1: by phrases (`refusal_rate`, the default) or by a judge (`llm_refusal`); a partial refusal is
    none. Of unanswerable questions `base` is not read.
    """

    base: Any = field(default="token_f1", metadata={"convert": metric})
    refusal: Any = field(default="refusal_rate", metadata={"convert": metric})

    part_options: ClassVar[tuple[str, ...]] = ("base", "refusal")
    metadata = declare(
        reference="Katsis et al. 2025 (MTRAG)",
        examples=("conditioned", {"conditioned": {"base": "token_recall", "refusal": "exact_match"}}),
        option_help={"of1": "the other metric", "of2": "what says whether the answer is a refusal"},
    )

    def combined(self, sample: EvaluationSample, output: SystemOutputs, scores: Sequence[Score]) -> Score:
        """1 or 0 where the question is unanswerable or the answer a refusal, else the other metric's outcome."""
        score, refusal = scores
        if refusal.status is not Status.SCORED:
            return refusal
        is_refusal = refusal.value == 1.0
        if is_unanswerable(sample):
            return Score(add_outcome("The question is unanswerable; refused", float(is_refusal)))
        if is_refusal:
            return Score(add_outcome("Refused, although there is an answer", 0.0))
        if score.value is None:
            return score
        return Score(add_outcome("Not refused; the other metric counts", score.value))


@register("truthfulness")
@dataclass(frozen=True)
class Truthfulness(CombinedMetric):
    r"""1 for a right answer, 0 for one that says it does not know, −1 for a wrong one: CRAG's score.

    .. math:: (\text{right} - \text{wrong}) / n

    An answer that contains one of `missing_phrases` counts 0; one that equals a reference counts 1, ignoring case. A
    reference that contains a word of `invalid_words` says that the question asks for what is not so: then, and only
    then, an answer with such a word is right. Any other answer is right if `base` gives 1; CRAG asks a judge here. A
    failed answer counts −1. `part` reports the proportion of right, missing or wrong answers instead.
    """

    base: Any = field(default="exact_match", metadata={"convert": metric})
    missing_phrases: Phrases = field(default=("i don't know",), metadata={"convert": tuple})
    invalid_words: Phrases = field(default=("invalid",), metadata={"convert": tuple})
    part: Literal["score", "accuracy", "missing", "hallucination"] = "score"

    metadata = declare(
        reference="Yang et al. 2024 (CRAG)",
        examples=(
            "truthfulness",
            {"truthfulness": {"missing_phrases": ["cats"], "base": "containment"}},
            {"truthfulness": {"part": "hallucination"}},
        ),
        signature={
            "missing_phrases": "missing_phrases",
            "invalid_words": "invalid_words",
            "part": SignatureOption("part", unless="score"),
        },
        option_help={
            "of1": "what compares all other answers with the reference",
            "missing_phrases": "phrases by which an answer says that it does not know",
            "invalid_words": "words by which it says that the question is invalid",
            "part": "the proportion of these answers",
        },
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        lowest = -1.0 if self.part == "score" else 0.0
        set_metadata(self, range=(lowest, 1.0), higher_is_better=self.part in ("score", "accuracy"))

    def _ruled(self, answer: str, references: Sequence[str]) -> float | None:
        """The value where the rules decide; ``None`` where ``base`` does."""
        if any(phrase in answer for phrase in self.missing_phrases):
            return 0.0
        if answer.strip() in [text.strip() for text in references]:
            return 1.0
        text = "\n".join(references)
        in_answer = any(word in answer for word in self.invalid_words)
        in_references = any(word in text for word in self.invalid_words)
        if not in_answer and not in_references:
            return None
        return 1.0 if in_answer and in_references else -1.0

    def combined(self, sample: EvaluationSample, output: SystemOutputs, scores: Sequence[Score]) -> Score:
        """By the rules, else by the other metric."""
        (judged,) = scores
        if judged.status in (Status.SKIPPED, Status.SYSTEM_FAILED):
            return judged
        value = self._ruled(response_text(output).lower(), [text.lower() for text in sample.references])
        if value is None and judged.status is not Status.SCORED:
            return judged
        if value is None:
            value = 1.0 if judged.value == 1.0 else -1.0
        wanted = {"accuracy": 1.0, "missing": 0.0, "hallucination": -1.0}
        shown = value if self.part == "score" else float(value == wanted[self.part])
        return Score(add_outcome("By rules, or by the other metric", shown))


@register("over_answered")
@dataclass(frozen=True)
class OverAnswered(CombinedMetric):
    r"""Another metric, on the samples whose answer is no refusal.

    .. math:: M(\{s : \text{no refusal}(s)\})

    An answer is a refusal if it contains one of `refusals`, as written. Report the proportion of refusals beside it:
    refusing what is hard raises this value.
    """

    base: Any = field(default="token_f1", metadata={"convert": metric})
    refusals: Phrases = field(default=("I don't know",), metadata={"convert": tuple})

    metadata = declare(
        output_skips=frozenset({"refused"}),
        skip_reasons={"refused": "the answer is a refusal"},
        examples=("over_answered", {"over_answered": {"base": "token_recall", "refusals": ["naïve cats"]}}),
        signature={"refusals": "refusals"},
        option_help={"of1": "the other metric", "refusals": "phrases of a refusal"},
    )

    def combined(self, sample: EvaluationSample, output: SystemOutputs, scores: Sequence[Score]) -> Score:
        """The other metric's outcome, unless the answer is a refusal."""
        (score,) = scores
        if score.status is not Status.SCORED or output.response is None:
            return score
        is_refusal = any(phrase in output.response.text for phrase in self.refusals)
        return Score.skip("refused") if is_refusal else score


# --- another metric on edited answers ---------------------------------------------------------------------------------

Edit = Literal["strip", "first_line", "remove_citations", "remove_blanks"]
_CITATIONS = re.compile(r" \[\d+"), re.compile(r"\[\d+"), re.compile(r" \|"), re.compile(r"\]")


def without_citations(text: str) -> str:
    """A text without the marks of citations, as ALCE's script deletes them.

    >>> without_citations("It froze in 1901 [1][2].")
    'It froze in 1901.'
    """
    for mark in _CITATIONS:
        text = mark.sub("", text)
    return text


def first_line(text: str) -> str:
    """The part of a text before its first line end."""
    return text.partition("\n")[0]


EDITS: Mapping[Edit, Callable[[str], str]] = {
    "strip": str.strip,
    "first_line": first_line,
    "remove_citations": without_citations,
    "remove_blanks": methodcaller("replace", " ", ""),
}


@register("edited_answer")
@dataclass(frozen=True)
class EditedAnswer(WrapperMetric):
    r"""Another metric on the answer after it was edited; the stored answer stays as it is.

    .. math:: M(\text{edit}(\text{answer}))

    `edits` are applied in their order: `strip` removes white space at both ends, `first_line` keeps what stands before
    the first line end, `remove_citations` deletes marks such as [1], and `remove_blanks` deletes blanks. The scripts of
    ALCE and of RGB (in Chinese) edit answers like this before they compare them. With `references: documents` the
    texts of the retrieved documents take the place of the reference answers: how extractive is the answer?
    """

    edits: Annotated[tuple[Edit, ...], NonEmpty()] = field(default=("strip",), metadata={"convert": tuple})
    references: Literal["own", "documents"] = "own"

    metadata = declare(
        reads=frozenset({"response"}),
        handles_failures=True,
        suggested=False,
        failure_note="as with the other metric",
        examples=(
            {"edited_answer": {"base": "containment", "edits": ["strip", "first_line", "remove_citations"]}},
            {"edited_answer": {"base": "rougeL_answer", "edits": ["remove_blanks"]}},
            {"edited_answer": {"base": "token_precision", "references": "documents"}},
        ),
        signature={"edits": "edits", "references": SignatureOption("references", unless="own")},
        option_help={
            "edits": "how answers are edited before they are scored",
            "references": "what answers are compared with",
        },
        follows_base=True,
        worst_of_base=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if is_paired_metric(self.inner):
            raise BadValueError(f"'{self.inner.name}' is computed from several samples together; give another base")
        self.copy_attributes(*FOLLOWED, "needs_all")

    def edited(self, output: SystemOutputs) -> SystemOutputs:
        """The output with its answer edited."""
        if output.response is None:
            return output
        text = output.response.text
        for name in self.edits:
            text = EDITS[name](text)
        return replace(output, response=replace(output.response, text=text))

    def compared(self, sample: EvaluationSample, output: SystemOutputs | None) -> EvaluationSample:
        """The sample with what its answer is compared with as references."""
        if self.references == "own" or output is None:
            return sample
        texts = [item.doc.text for item in output.retrieved if item.doc.text]
        first = Response(texts[0]) if texts else None
        return replace(sample, reference_answer=first, reference_answers=texts)

    def score(self, batch: Batch) -> Scores:
        """The wrapped metric's outcomes on the edited answers."""
        outputs = [output and self.edited(output) for output in batch.outputs]
        samples = [self.compared(*pair) for pair in zip(batch.samples, batch.outputs, strict=True)]
        return apply_failure_policy(self.inner, Batch(samples, outputs, memory=batch.memory))

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """The wrapped metric's outcome by its plain definition."""
        edited = self.edited(output)
        if edited.response is not None:
            add_step(f"Edited: {quote_text(edited.response.text)}")
        return self.inner.reference(self.compared(sample, output), edited)

    def further_details(self, scores: Scores, clusters: Any) -> dict[str, Any]:
        """The wrapped metric's details."""
        return self.inner.further_details(scores, clusters)
