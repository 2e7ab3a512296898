"""Expectations in the dataset: phrases an answer must or must not contain."""

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
    r"""1 if the answer contains every required phrase and no forbidden one.

    .. math:: [\,\forall m \in \text{must\_contain}: m \subseteq \text{answer}\,] \cdot
        [\,\forall f \in \text{forbidden}: f \nsubseteq \text{answer}\,]

    `metadata["must_contain"]` and `metadata["forbidden"]` are a string or a list of strings, searched anywhere in the
    answer, ignoring case and Unicode composition. Any run of white space is one blank, and so are both ends of the
    answer, so that `" no "` finds the word and not the beginning of `nothing`. White space alone is always contained,
    and ignored as a forbidden phrase. A sample without expectations scores 1. Every answer without an error is counted,
    a refusal too. Expectations of any other type are a failed measurement (`bad_expectation`).
    """

    target = TargetCategory.GENERATION_FAITHFULNESS
    binary: ClassVar[bool] = True
    counts_system_failures: ClassVar[bool] = False
    reads: ClassVar[frozenset[str]] = frozenset({"response"})
    skip_reasons: ClassVar[dict[str, str]] = {"no_response": "no answer was asked for"}

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether anything is expected; without expectations every answer would score 1."""
        return any(_expected_phrases(sample, key) != [] for key in ("must_contain", "forbidden"))

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """Whether the answer meets the expectations."""
        assert output.response is not None  # outputs without a response are skipped before
        required, forbidden = _expected_phrases(sample, "must_contain"), _expected_phrases(sample, "forbidden")
        if required is None or forbidden is None:
            return Score.fail("bad_expectation")
        answer = f" {casefold_text(output.response.text).strip()} "
        return Score(
            all(text in answer for text in required) and not any(text.strip() and text in answer for text in forbidden)
        )

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """Which of the required and forbidden phrases occur in the answer."""
        text = "" if output.response is None else output.response.text
        answer = f" {casefold_text(text).strip()} "
        steps = DerivationBuilder().add_step(f"The answer, with case and white space folded: {quote_text(answer)}")
        required, forbidden = (
            _expected_phrases(sample, "must_contain") or [],
            _expected_phrases(sample, "forbidden") or [],
        )
        rows = [("must contain", one, "yes" if one in answer else "no") for one in required]
        rows += [
            ("forbidden", one, "ignored" if not one.strip() else "yes" if one in answer else "no") for one in forbidden
        ]
        steps.table("What the sample expects", ("", "text", "in the answer"), rows)
        missing = [one for one in required if one not in answer]
        there = [one for one in forbidden if one.strip() and one in answer]
        if missing or there:
            return steps.finish(f"{len(missing)} missing, {len(there)} forbidden: 0", 0.0)
        return steps.finish("Nothing is missing and nothing forbidden is there: 1", 1.0)

    def signature_options(self) -> dict[str, str]:
        """None: the expectations are in the samples."""
        return {}


def _expected_phrases(sample: EvaluationSample, key: str) -> list[str] | None:
    """The normalised phrases under a key of the metadata; ``None`` if they are not strings."""
    if not isinstance(sample.metadata, Mapping):
        return None
    value = sample.metadata.get(key)
    if value is None:
        return []
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
        return None
    return [casefold_text(text) for text in texts]
