"""Robustness to false documents: whether an answer reports them, and whether it is still correct."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.derivation import NO_CONTEXT, Derivation, DerivationBuilder, ExplainContext, format_number, quote_text
from ..core.errors import BadValueError
from ..core.metrics_base import BatchMetric, SampleMetric, with_conventions
from ..core.registry import register
from ..core.scores import Score, Scores, Status
from ..core.signature import function_name
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..features.refusals import RefusalJudge
from ..text.refusal import normalize_text
from .answer_base import require_choice
from .base import ConfiguredMetric, signature_number
from .context_noise import declares_insufficient
from .derivations_wrappers import inner_derivation, inner_score
from .refusal_base import require_judge
from .wrappers import ComputedReducer, WrapperMetric, inner_scores, is_paired_metric, require_in_range

__all__ = [
    "CUES",
    "ErrorCorrectionRate",
    "ErrorDetectionRate",
    "has_false_documents",
    "require_binary_base",
    "wrong_answers",
]

Mask = npt.NDArray[np.bool_]
CUES: dict[str, tuple[str, ...]] = {
    "rgb_script": ("factual errors", "事实性错误"),
    "rgb_paper": ("There are factual errors in the provided documents.",),
}
"""Phrases that report wrong documents: those RGB's script searches, and the sentence its paper asks for."""


def wrong_answers(sample: EvaluationSample) -> list[str] | None:
    """The non-blank false answers in the documents of a sample; ``None`` if they are not strings."""
    if sample.metadata is None:
        return []
    if not isinstance(sample.metadata, Mapping):
        return None
    value = sample.metadata.get("wrong_answer")
    texts = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
        return None
    return [text for text in texts if text.strip()]


def has_false_documents(sample: EvaluationSample) -> bool | None:
    """Whether a sample has false documents; ``None`` if its false answer is invalid."""
    wrong = wrong_answers(sample)
    return None if wrong is None else bool(wrong) or "false_documents" in sample.scenarios


def require_binary_base(metric_name: str, base: BatchMetric, threshold: object) -> None:
    """Raise unless a base metric has a score per sample, and ``threshold`` separates right from wrong."""
    if is_paired_metric(base) or isinstance(base.reducer, ComputedReducer) or not base.higher_is_better:
        raise BadValueError(
            f"{metric_name} needs a base that scores each answer as right or wrong, not '{base.name}'; take a "
            "metric with a score per sample, higher for better, such as containment or exact_match"
        )
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float)) or not math.isfinite(threshold):
        raise BadValueError(f"threshold must be a finite number, not {threshold!r}")
    require_in_range("threshold", threshold, base)


@register("error_detection_rate")
@dataclass(frozen=True)
class ErrorDetectionRate(ConfiguredMetric, SampleMetric):
    r"""Share of answers that say the documents are wrong, where they are.

    .. math:: [\,\exists c \in \text{cues}: c \subseteq \text{answer}\,]

    Documents are false if `metadata["wrong_answer"]` is given (a string or a list of strings), or if
    `labels["scenario"]` is `false_documents`. An answer reports them by a phrase that the prompt asks for: `cues`,
    searched anywhere in it, ignoring case, white space and the kind of apostrophe. `cues="rgb_script"` are the phrases
    RGB's script searches, `cues="rgb_paper"` the whole sentence its paper asks for; give the phrases of your own prompt
    as a list. A `judge`, a function of sample and output that returns true if the answer reports them, replaces the
    cues. A refusal or an empty answer does not report them. A false answer that is not a string is a failed measurement
    (`bad_wrong_answer`), and so is a verdict that is neither true nor false (`judge_unparseable`).
    """

    cues: tuple[str, ...] = CUES["rgb_script"]
    judge: RefusalJudge | None = field(default=None, hash=False)  # it need not be hashable

    target = TargetCategory.COUNTERFACTUAL_ROBUSTNESS
    binary: ClassVar[bool] = True
    needs_response = True
    reads: ClassVar[frozenset[str]] = frozenset({"response"})
    reference: ClassVar[str] = "Chen et al. 2024 (RGB)"
    skip_reasons: ClassVar[dict[str, str]] = {
        "no_false_documents": "nothing says that the documents are false",
        "no_response": "no answer was asked for",
    }

    def __post_init__(self) -> None:
        object.__setattr__(self, "cues", _check_cues(self.cues))
        require_judge(self.judge)
        if self.judge is not None and self.cues != CUES["rgb_script"]:
            raise BadValueError("give cues or a judge, not both: a judge replaces the cues")
        super().__post_init__()

    def signature_options(self) -> dict[str, str]:
        """The cues or the judge."""
        if self.judge is not None:
            return {"judge": function_name(self.judge, module=False)}
        named = next((name for name, phrases in CUES.items() if phrases == self.cues), None)
        return {"cues": named or " + ".join(map(normalize_text, self.cues)).replace("|", "/")}

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether the documents are false."""
        return has_false_documents(sample) is not False

    def applies(self, sample: EvaluationSample) -> str | None:
        """Skips samples without false documents."""
        return "no_false_documents" if has_false_documents(sample) is False else None

    def score(self, batch: Batch) -> Scores:
        """Cached for all metrics with the same cues or judge: a judge may be slow."""
        key = ("error_detection", self.cues, id(self.judge), self.active_conventions.missing)
        return batch.feature(key, lambda b: SampleMetric.score(self, b))

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """Whether the answer reports wrong documents."""
        assert output.response is not None  # outputs without a response are skipped before
        if has_false_documents(sample) is None:
            return Score.fail("bad_wrong_answer")
        if self.judge is not None:
            verdict = self.judge(sample, output)
            return Score(verdict) if isinstance(verdict, (bool, np.bool_)) else Score.fail("judge_unparseable")
        answer = normalize_text(output.response.text)
        return Score(any(normalize_text(cue) in answer for cue in self.cues))

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """Which cues occur in the answer."""
        text = "" if output.response is None else output.response.text
        answer, found = normalize_text(text), bool(self.score_one(sample, output).value)
        steps = DerivationBuilder().add_step(
            f"False answers its documents give: {', '.join(wrong_answers(sample) or ()) or 'marked'}"
        )
        steps.add_step(f"The answer: {quote_text(text)}")
        if self.judge is None:
            rows = [(cue, "yes" if normalize_text(cue) in answer else "no") for cue in self.cues]
            steps.table("Phrases by which an answer says that documents are wrong", ("phrase", "in the answer"), rows)
        else:
            steps.add_step(f"The judge {function_name(self.judge, module=False)} was asked whether it says so")
        return steps.finish(f"The answer {'says' if found else 'does not say'} so: {int(found)}", float(found))


def _check_cues(given: object) -> tuple[str, ...]:
    if isinstance(given, str) and given in CUES:
        return CUES[given]
    phrases = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else ()
    if not phrases or not all(isinstance(cue, str) and cue.strip() for cue in phrases):
        raise BadValueError(f"cues must be a list of phrases, or one of {', '.join(CUES)}; not {given!r:.80}")
    return phrases


@register("error_correction_rate")
@dataclass(frozen=True)
class ErrorCorrectionRate(WrapperMetric):
    r"""How often an answer that says the documents are wrong gives the right answer itself.

    .. math:: \frac{|\{s : s \text{ detected} \wedge s \text{ right}\}|}{|\{s : s \text{ detected}\}|}

    Detected is what `error_detection_rate` counts, with the same `cues` or `judge`; right is a score of the base metric
    of at least `threshold`. With `over="all"` the share is among all samples with false documents, which is the product
    of detection and correction. `insufficient` sets the score of a detecting answer that also contains "insufficient
    information": it is `judged` like any other; it counts as right (`rgb_script`), as the main script of RGB has it; or
    as wrong (`rgb_fact_script`), as its script with a judge does.
    """

    base: Any = "containment"
    over: Literal["detected", "all"] = "detected"
    cues: tuple[str, ...] = CUES["rgb_script"]
    judge: RefusalJudge | None = field(default=None, hash=False)  # it need not be hashable
    threshold: float = 1.0
    insufficient: Literal["judged", "rgb_script", "rgb_fact_script"] = "judged"

    target = TargetCategory.COUNTERFACTUAL_ROBUSTNESS
    binary: ClassVar[bool] = True
    counts_system_failures: ClassVar[bool] = True
    reads: ClassVar[frozenset[str]] = frozenset({"response"})
    output_skips: ClassVar[frozenset[str]] = frozenset({"not_detected"})
    reference: ClassVar[str] = "Chen et al. 2024 (RGB)"
    skip_reasons: ClassVar[dict[str, str]] = {
        **ErrorDetectionRate.skip_reasons,
        "not_detected": 'the answer does not say that the documents are wrong (`over="detected"`)',
    }

    def __post_init__(self) -> None:
        require_choice("over", self.over, ("detected", "all"))
        require_choice("insufficient", self.insufficient, ("judged", "rgb_script", "rgb_fact_script"))
        object.__setattr__(self, "cues", ErrorDetectionRate(self.cues, self.judge).cues)
        super().__post_init__()
        require_binary_base("error_correction_rate", self.inner, self.threshold)

    @property
    def detection(self) -> ErrorDetectionRate:
        """The metric that detects reports of wrong documents."""
        return with_conventions(ErrorDetectionRate(self.cues, self.judge), self.active_conventions)

    def signature_options(self) -> dict[str, str]:
        """The definitions of detected and right, and the denominator."""
        return {
            "over": self.over,
            **self.detection.signature_options(),
            **super().signature_options(),
            "threshold": signature_number(self.threshold),
            "insufficient": self.insufficient,
        }

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether the documents are false, and the base metric applies."""
        return self.detection.is_applicable(sample, output) and self.inner.is_applicable(sample, output)

    def score(self, batch: Batch) -> Scores:
        """Detected and right; undetected samples are skipped, or wrong."""
        detected, base = self.detection.score(batch), inner_scores(self.inner, batch)
        is_detected = detected.values == 1
        right = (base.status == Status.SCORED) & (base.values >= self.threshold)
        if self.insufficient != "judged":
            declined = np.array([declares_insufficient(output) for output in batch.outputs], dtype=np.bool_)
            right = np.where(declined & (base.status == Status.SCORED), self.insufficient == "rgb_script", right)
        # Reasons in the sample go before reasons in the answer.
        detection_skips, skipped = _masks_by_reason(detected, Status.SKIPPED), base.status == Status.SKIPPED
        no_false_documents = detection_skips.pop("no_false_documents", np.zeros(len(batch), np.bool_))
        answer_skips = {reason: mask & ~skipped for reason, mask in detection_skips.items()}
        skip = _merge_masks(
            {"no_false_documents": no_false_documents}, _masks_by_reason(base, Status.SKIPPED), answer_skips
        )
        if self.over == "detected":
            skip["not_detected"] = (detected.status == Status.SCORED) & ~is_detected
        unmeasured = {
            reason: mask & is_detected for reason, mask in _masks_by_reason(base, Status.MEASURE_FAILED).items()
        }
        fail = _merge_masks(_masks_by_reason(detected, Status.MEASURE_FAILED), unmeasured)
        return Scores.of((is_detected & right).astype(np.float64), skip=skip, fail=fail)

    def reference_score(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """By the plain definitions of detection and of the base metric."""
        detected, outcome = self.detection.reference_score(sample, output), self.inner.reference_score(sample, output)
        if detected is None or outcome is None:
            return None
        if has_false_documents(sample) is False:
            return Score.skip("no_false_documents")
        for one in (outcome, detected):
            if one.status is Status.SKIPPED:
                return one
        if detected.status is not Status.SCORED:
            return detected
        if detected.value != 1:
            return Score.skip("not_detected") if self.over == "detected" else Score(0.0)
        if outcome.status is not Status.SCORED:
            return outcome
        if self.insufficient != "judged" and declares_insufficient(output):
            return Score(self.insufficient == "rgb_script")
        assert outcome.value is not None
        return Score(outcome.value >= self.threshold)

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """Whether the answer reports wrong documents, and whether it is right."""
        detected = self.detection.derivation(sample, output, around)
        steps = DerivationBuilder().extend(detected)
        if detected.value != 1:
            return steps.finish("Not detected counts as 0 among all", 0.0)
        if self.insufficient != "judged" and declares_insufficient(output):
            right = self.insufficient == "rgb_script"
            return steps.finish(
                f"It also says that information is insufficient: {int(right)} by that rule", float(right)
            )
        steps.extend(inner_derivation(self.inner, sample, output, around))
        _, value = inner_score(self.inner, sample, output, around)
        if value is None:
            return steps.finish("It is not known here whether the answer is right", around.stored_score, general=True)
        right = value >= self.threshold
        return steps.finish(
            f"Right is {format_number(self.threshold)} or more, and it is {format_number(value)}: {int(right)}",
            float(right),
        )


def _masks_by_reason(scores: Scores, status: Status) -> dict[str, Mask]:
    """Masks of the samples with this status, by reason."""
    return {name: scores.with_reason(name) & (scores.status == status) for name in scores.reason_names if name}


def _merge_masks(*masks: Mapping[str, Mask]) -> dict[str, Mask]:
    """The union of masks by reason, in their order."""
    merged: dict[str, Mask] = {}
    for one in masks:
        for reason, mask in one.items():
            merged[reason] = mask | merged[reason] if reason in merged else mask
    return merged
