"""Expectations written into the dataset: what an answer must contain, and what it must not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ..core.derivation import NO_CONTEXT, Derivation, DerivationBuilder, ExplainContext, quote_text
from ..core.metrics_base import SampleMetric
from ..core.registry import register
from ..core.scores import Score
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..text.casefolding import casefold_text
from .base import ConfiguredMetric

__all__ = ["Groundedness"]


@register("groundedness")
@dataclass(frozen=True)
class Groundedness(ConfiguredMetric, SampleMetric):
    r"""1 if the answer contains every text it must contain and none that is forbidden.

    .. math:: [\,\forall m \in \text{must\_contain}: m \subseteq \text{answer}\,] \cdot
        [\,\forall f \in \text{forbidden}: f \nsubseteq \text{answer}\,]

    `metadata["must_contain"]` and `metadata["forbidden"]` are a text or a list of texts, found anywhere in the answer
    whatever the case and Unicode composition; any run of white space is one blank, and so are the two ends of the
    answer, so that `" no "` finds the word and not the beginning of `nothing`. A text of nothing but white space is
    always contained, and as a forbidden one it is ignored. A sample that expects nothing is satisfied. Every answer
    without an error is counted, a refusal too. Expectations of any other type are a failed measurement
    (`bad_expectation`).
    """

    target = TargetCategory.GENERATION_FAITHFULNESS
    binary: ClassVar[bool] = True
    counts_system_failures: ClassVar[bool] = False
    reads: ClassVar[frozenset[str]] = frozenset({"response"})
    skip_reasons: ClassVar[dict[str, str]] = {"no_response": "no answer was asked for"}

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether anything is expected; without expectations every answer would be satisfied."""
        return any(_expected_phrases(sample, key) != [] for key in ("must_contain", "forbidden"))

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """Whether the answer meets the expectations."""
        assert output.response is not None  # an output without one is skipped before it gets here
        wanted, forbidden = _expected_phrases(sample, "must_contain"), _expected_phrases(sample, "forbidden")
        if wanted is None or forbidden is None:
            return Score.fail("bad_expectation")
        answer = f" {casefold_text(output.response.text).strip()} "
        return Score(
            all(text in answer for text in wanted) and not any(text.strip() and text in answer for text in forbidden)
        )

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """Which of the expected and forbidden texts stand in the answer."""
        text = "" if output.response is None else output.response.text
        answer = f" {casefold_text(text).strip()} "
        steps = DerivationBuilder().add_step(f"The answer, with case and white space folded: {quote_text(answer)}")
        wanted, forbidden = (
            _expected_phrases(sample, "must_contain") or [],
            _expected_phrases(sample, "forbidden") or [],
        )
        rows = [("must contain", one, "yes" if one in answer else "no") for one in wanted]
        rows += [
            ("forbidden", one, "ignored" if not one.strip() else "yes" if one in answer else "no") for one in forbidden
        ]
        steps.table("What the sample expects", ("", "text", "in the answer"), rows)
        missing = [one for one in wanted if one not in answer]
        there = [one for one in forbidden if one.strip() and one in answer]
        if missing or there:
            return steps.finish(f"{len(missing)} missing, {len(there)} forbidden: 0", 0.0)
        return steps.finish("Nothing is missing and nothing forbidden is there: 1", 1.0)

    def signature_options(self) -> dict[str, str]:
        """None: the samples hold all there is to choose."""
        return {}


def _expected_phrases(sample: EvaluationSample, key: str) -> list[str] | None:
    """The texts under a key of the metadata, as they are compared; ``None`` where they are not texts."""
    if not isinstance(sample.metadata, Mapping):
        return None
    held = sample.metadata.get(key)
    if held is None:
        return []
    texts = [held] if isinstance(held, str) else held
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
        return None
    return [casefold_text(text) for text in texts]
