"""Documents that say what is false: whether an answer says so, and whether it is right all the same."""

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
"""The words that say the documents are wrong: those RGB's script looks for, and the sentence its paper asks for."""


def wrong_answers(sample: EvaluationSample) -> list[str] | None:
    """The false answers that the documents of a sample give, none of them blank; ``None`` where they are not texts."""
    if sample.metadata is None:
        return []
    if not isinstance(sample.metadata, Mapping):
        return None
    held = sample.metadata.get("wrong_answer")
    texts = [] if held is None else [held] if isinstance(held, str) else held
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
        return None
    return [text for text in texts if text.strip()]


def has_false_documents(sample: EvaluationSample) -> bool | None:
    """Whether a sample was asked with false documents; ``None`` where its false answer is of no use."""
    wrong = wrong_answers(sample)
    return None if wrong is None else bool(wrong) or "false_documents" in sample.scenarios


def require_binary_base(who: str, base: BatchMetric, threshold: object) -> None:
    """Raise unless a base metric has a score per sample that tells right from wrong by being at least ``threshold``."""
    if is_paired_metric(base) or isinstance(base.reducer, ComputedReducer) or not base.higher_is_better:
        raise BadValueError(
            f"{who} asks of each answer whether it is right, which '{base.name}' does not tell; take a metric with a "
            "score per sample, higher for better, such as containment or exact_match"
        )
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float)) or not math.isfinite(threshold):
        raise BadValueError(f"threshold must be a number, from which on a score is right; not {threshold!r}")
    require_in_range("threshold", threshold, base)


@register("error_detection_rate")
@dataclass(frozen=True)
class ErrorDetectionRate(ConfiguredMetric, SampleMetric):
    r"""Share of answers that say the documents are wrong, where they are.

    .. math:: [\,\exists c \in \text{cues}: c \subseteq \text{answer}\,]

    Documents are false where `metadata["wrong_answer"]` is there (a text or a list of texts), or where
    `labels["scenario"]` is `has_false_documents`. An answer says so by a phrase that the prompt demands: `cues`, found
    anywhere in it whatever the case, white space and kind of apostrophe. `cues="rgb_script"` are the words RGB's script
    looks for, `cues="rgb_paper"` the whole sentence its paper asks for; give the words of your own prompt as a list.
    A `judge`, a function of sample and output that is true where the answer says so, takes their place. A refusal or an
    empty answer says nothing of the kind. A false answer that is no text is a failed measurement (`bad_wrong_answer`),
    and so is a verdict that is neither true nor false (`judge_unparseable`).
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
            raise BadValueError("give cues or a judge: a judge takes the place of the cues")
        super().__post_init__()

    def signature_options(self) -> dict[str, str]:
        """How it is told that an answer says so."""
        if self.judge is not None:
            return {"judge": function_name(self.judge, module=False)}
        named = next((name for name, phrases in CUES.items() if phrases == self.cues), None)
        return {"cues": named or " + ".join(map(normalize_text, self.cues)).replace("|", "/")}

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether the documents are false."""
        return has_false_documents(sample) is not False

    def applies(self, sample: EvaluationSample) -> str | None:
        """Only false documents can be found out."""
        return "no_false_documents" if has_false_documents(sample) is False else None

    def score(self, batch: Batch) -> Scores:
        """Once for all metrics that ask in the same way: a judge may be slow."""
        key = ("error_detection", self.cues, id(self.judge), self.active_conventions.missing)
        return batch.feature(key, lambda b: SampleMetric.score(self, b))

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """Whether the answer says that the documents are wrong."""
        assert output.response is not None  # an output without one is skipped before it gets here
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
        """Which cue stands in the answer."""
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
    of detection and correction. `insufficient` says what becomes of a detecting answer that also says "insufficient
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
        """The question whether an answer says that the documents are wrong."""
        return with_conventions(ErrorDetectionRate(self.cues, self.judge), self.active_conventions)

    def signature_options(self) -> dict[str, str]:
        """What is detected, what is right, and among which samples."""
        return {
            "over": self.over,
            **self.detection.signature_options(),
            **super().signature_options(),
            "threshold": signature_number(self.threshold),
            "insufficient": self.insufficient,
        }

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether the documents are false, and there is work for the base metric."""
        return self.detection.is_applicable(sample, output) and self.inner.is_applicable(sample, output)

    def score(self, batch: Batch) -> Scores:
        """Detected and right; who is not detected is skipped, or wrong."""
        detected, base = self.detection.score(batch), inner_scores(self.inner, batch)
        found = detected.values == 1
        right = (base.status == Status.SCORED) & (base.values >= self.threshold)
        if self.insufficient != "judged":
            declined = np.array([declares_insufficient(output) for output in batch.outputs], dtype=np.bool_)
            right = np.where(declined & (base.status == Status.SCORED), self.insufficient == "rgb_script", right)
        # Why the question does not apply to a sample goes before what lies in its answer.
        asked, skipped = _masks_by_reason(detected, Status.SKIPPED), base.status == Status.SKIPPED
        nothing_false = asked.pop("no_false_documents", np.zeros(len(batch), np.bool_))
        unanswered = {reason: mask & ~skipped for reason, mask in asked.items()}
        skip = _merge_masks({"no_false_documents": nothing_false}, _masks_by_reason(base, Status.SKIPPED), unanswered)
        if self.over == "detected":
            skip["not_detected"] = (detected.status == Status.SCORED) & ~found
        unmeasured = {reason: mask & found for reason, mask in _masks_by_reason(base, Status.MEASURE_FAILED).items()}
        fail = _merge_masks(_masks_by_reason(detected, Status.MEASURE_FAILED), unmeasured)
        return Scores.of((found & right).astype(np.float64), skip=skip, fail=fail)

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
        """Whether the answer says that documents are wrong, and whether it is right."""
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
    """Per reason which samples have this outcome."""
    return {name: scores.with_reason(name) & (scores.status == status) for name in scores.reason_names if name}


def _merge_masks(*masks: Mapping[str, Mask]) -> dict[str, Mask]:
    """Masks by reason from several sources, in their order."""
    united: dict[str, Mask] = {}
    for one in masks:
        for reason, mask in one.items():
            united[reason] = mask | united[reason] if reason in united else mask
    return united
