"""Effect of false documents on answers: correct answers that become wrong, and repeated false answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.derivation import NO_CONTEXT, Derivation, DerivationBuilder, ExplainContext, format_number
from ..core.family import BASE_SKIPS, FamilyMetric, find_parents, with_family_keys
from ..core.metrics_base import SampleMetric
from ..core.registry import register
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..text.tokenizers import squad_words
from .base import ConfiguredMetric, signature_number
from .derivations_text import containment_steps
from .derivations_wrappers import add_inner_score_step
from .false_documents import has_false_documents, require_binary_base, wrong_answers
from .overlap import contains_any
from .wrappers import WrapperMetric, inner_scores

__all__ = ["MisleadingRate", "MistakeReappearanceRate"]

Mask = npt.NDArray[np.bool_]


@register("misleading_rate")
@dataclass(frozen=True)
class MisleadingRate(FamilyMetric, WrapperMetric):
    r"""How often false documents turn a right answer into a wrong one.

    .. math:: \frac{|\{s : \text{base right} \wedge s \text{ wrong}\}|}{|\{s : \text{base right}\}|}

    A sample with false documents (see `error_detection_rate`) names the same question without them in
    `labels["variant_of"]`. Right is a score of the base metric of at least `threshold`; pairs whose base question was
    answered wrongly are skipped. A system failure with the false documents counts as misled; a pair whose base question
    failed is left out. A refusal is not a right answer.
    """

    base: Any = "containment"
    threshold: float = 1.0

    target = TargetCategory.COUNTERFACTUAL_ROBUSTNESS
    higher_is_better = False
    binary: ClassVar[bool] = True
    counts_system_failures: ClassVar[bool] = True
    failure_note: ClassVar[str] = "counts as misled; a pair whose base question failed leaves the mean"
    needs_parents_only: ClassVar[bool] = True
    reads: ClassVar[frozenset[str]] = frozenset({"response"})
    reference: ClassVar[str] = "Liu et al. 2023 (RECALL)"
    skip_reasons: ClassVar[dict[str, str]] = {
        "no_false_documents": "nothing says that the documents are false",
        **BASE_SKIPS,
        "not_a_variant": 'the sample names no question without false documents in `labels["variant_of"]`',
        "base_false_documents": "the sample it is a variant of has false documents too",
        "base_skipped": "the base metric does not apply to the sample it is a variant of",
        "base_wrong": "the question was answered wrongly without false documents",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require_binary_base("misleading_rate", self.inner, self.threshold)

    def signature_options(self) -> dict[str, str]:
        """The definition of right."""
        return {**super().signature_options(), "threshold": signature_number(self.threshold)}

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether this is a question with false documents that names the one without."""
        return sample.labels.get("variant_of") is not None and has_false_documents(sample) is not False

    def score(self, batch: Batch) -> Scores:
        """The base metric's outcomes; whether documents are false is stored in the keys."""
        scores = replace(inner_scores(self.inner, batch), stats=None)
        return with_family_keys(scores, batch, [has_false_documents(sample) for sample in batch.samples])

    def pair_samples(self, scores: Scores) -> Scores:
        """Whether each question with false documents was answered wrongly, if it was right without."""
        if scores.keys is None:
            return scores
        n, status, right = len(scores), scores.status, scores.values >= self.threshold
        false = np.array([key.payload is not False for key in scores.keys], dtype=np.bool_)
        unusable = np.array([key.payload is None for key in scores.keys], dtype=np.bool_)
        family = find_parents(scores.keys, where=lambda key: key.payload is not False)
        rows, bases = family.variants[family.rows >= 0], family.rows[family.rows >= 0]

        def by_parent(condition: Mask) -> Mask:
            mask: Mask = np.zeros(n, np.bool_)
            mask[rows] = condition[bases] & (status[rows] != Status.SKIPPED)
            return mask

        failed = 1.0 if self.active_conventions.on_system_failure == "worst" else math.nan
        values = np.where(status == Status.SCORED, ~right, np.where(status == Status.SYSTEM_FAILED, failed, math.nan))
        # Without an answer to the base question the pair is unknown. Skips come last: if several outcomes apply to a
        # sample, a skip wins.
        outcomes: list[tuple[Mask, Status, str]] = [
            (unusable & (status == Status.SCORED), Status.MEASURE_FAILED, "bad_wrong_answer"),
            (by_parent(status == Status.SYSTEM_FAILED), Status.SYSTEM_FAILED, "base_failed"),
            (by_parent(status == Status.MEASURE_FAILED), Status.MEASURE_FAILED, "base_failed"),
            (by_parent(status == Status.SKIPPED), Status.SKIPPED, "base_skipped"),
            (by_parent((status == Status.SCORED) & ~right), Status.SKIPPED, "base_wrong"),
            (by_parent(false), Status.SKIPPED, "base_false_documents"),
            *((mask, Status.SKIPPED, reason) for reason, mask in family.skips(n).items()),
            (~false, Status.SKIPPED, "no_false_documents"),
        ]
        pairs = replace(scores, values=values)
        for mask, outcome, reason in outcomes:
            pairs = pairs.replaced(mask, outcome, reason, math.nan)
        return pairs

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """Whether the answer was right without the false documents, and with them."""
        base = around.find(str(sample.labels.get("variant_of")))
        if base is None:
            return super().derivation(sample, output, around)
        steps, inner = (
            DerivationBuilder().add_step(f"Right is {format_number(self.threshold)} or more of {self.inner.name}"),
            self.inner,
        )
        without = add_inner_score_step(steps, "Without false documents,", inner, *base, around)
        value = add_inner_score_step(steps, "With false documents,", inner, sample, output, around)
        if without is None or value is None:
            return steps.finish("It cannot be told here", around.stored_score, general=True)
        misled = value < self.threshold
        return steps.finish(
            f"Right without them, {'wrong' if misled else 'right'} with them: {int(misled)}", float(misled)
        )

    def reference_value(self, samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs]) -> float | None:
        """The proportion by the base metric's plain definition, for distinct ids without cycles."""
        scored, true_documents = {}, set()
        for sample, output in zip(samples, outputs, strict=True):
            outcome = self.inner.reference_score(sample, output)
            if outcome is None:
                return None
            scored[sample.sample_id] = outcome.value
            if has_false_documents(sample) is False:
                true_documents.add(sample.sample_id)
        total = wrong = 0
        for sample in samples:
            without, with_false = scored.get(str(sample.labels.get("variant_of"))), scored[sample.sample_id]
            if not has_false_documents(sample) or str(sample.labels.get("variant_of")) not in true_documents:
                continue
            if without is not None and without >= self.threshold and with_false is not None:
                total += 1
                wrong += with_false < self.threshold
        return wrong / total if total else math.nan


@register("mistake_reappearance_rate")
@dataclass(frozen=True)
class MistakeReappearanceRate(ConfiguredMetric, SampleMetric):
    r"""Share of answers that contain the false answer the documents give.

    .. math:: [\,\exists w \in \text{wrong answers}: \text{norm}(w) \subseteq \text{norm}(\text{answer})\,]

    `metadata["wrong_answer"]` is a string or a list of strings, searched in the answer after the normalisation of
    `exact_match`. An answer that names the false answer to reject it contains it too; a refusal or an empty answer does
    not. A false answer that is not a string is a failed measurement (`bad_wrong_answer`). RECALL counts edited words;
    this counts answers.
    """

    target = TargetCategory.COUNTERFACTUAL_ROBUSTNESS
    higher_is_better = False
    binary: ClassVar[bool] = True
    needs_response = True
    reads: ClassVar[frozenset[str]] = frozenset({"response"})
    reference: ClassVar[str] = "after Liu et al. 2023 (RECALL)"
    skip_reasons: ClassVar[dict[str, str]] = {
        "no_wrong_answer": 'the sample has no `metadata["wrong_answer"]`, or none with a word in it',
        "no_response": "no answer was asked for",
    }

    def signature_options(self) -> dict[str, str]:
        """The normalisation."""
        return {"norm": "squad"}

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether there is a false answer to search for."""
        return self.applies(sample) is None

    def applies(self, sample: EvaluationSample) -> str | None:
        """Skips samples without a false answer."""
        wrong = wrong_answers(sample)
        return None if wrong is None or any(map(squad_words, wrong)) else "no_wrong_answer"

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """Whether the answer contains it."""
        assert output.response is not None  # outputs without a response are skipped before
        wrong = wrong_answers(sample)
        if wrong is None:
            return Score.fail("bad_wrong_answer")
        return Score(contains_any(output.response.text, wrong, squad_words))

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """Which false answer occurs in the answer."""
        answer = "" if output.response is None else output.response.text
        found = bool(self.score_one(sample, output).value)
        rest = containment_steps(answer, [wrong_answers(sample) or []], squad_words, found)
        steps = DerivationBuilder().extend(Derivation(rest.steps[:-1], None))
        return steps.finish(f"{'A' if found else 'No'} false answer stands in it: {int(found)}", float(found))
