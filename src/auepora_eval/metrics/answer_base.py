"""Base classes of metrics over answers: skips, and the texts an answer is compared with."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.metrics_base import BatchMetric, SampleMetric, declare, set_metadata
from ..core.registry import ConfiguredMetric
from ..core.scores import Score, Scores
from ..core.types import Document, EvaluationSample, SystemOutputs, TargetCategory
from ..errors import BadValueError
from ..features.texts import Integers, Mask, Role, Source, has_empty_reference, no_response, reference_texts

Floats = npt.NDArray[np.float64]
SkipMasks = Mapping[str, Mask]
"""Per reason which rows are skipped."""


def overlap_scores(common: Integers, given: Integers, wanted: Integers) -> tuple[Floats, Floats, Floats]:
    """F1, precision and recall of each pair, bit for bit equal to those of ``Overlap``."""
    some = np.maximum(common, 1)
    precision, recall = some / np.maximum(given, 1), some / np.maximum(wanted, 1)
    f1 = 2 * precision * recall / (precision + recall)
    found = common > 0
    return np.where(found, f1, 0.0), np.where(found, precision, 0.0), np.where(found, recall, 0.0)


@dataclass(frozen=True)
class AnswerMetric(ConfiguredMetric):
    """A metric of the answer."""

    metadata = declare(
        reads=frozenset({"response"}),
        skip_reasons={"no_response": "no answer was asked for"},
    )

    def outcome(
        self,
        batch: Batch,
        values: Floats,
        *,
        skip: SkipMasks | None = None,
        skip_answer: SkipMasks | None = None,
        fail: SkipMasks | None = None,
        stats: Floats | None = None,
    ) -> Scores:
        """The scores of a batch: ``skip`` has reasons in the sample, ``skip_answer`` reasons in the answer.

        ``fail`` has the rows that could not be measured.
        """
        # In this order: a failed output on a sample the metric does not apply to is a skip.
        return Scores.of(
            values,
            skip={**(skip or {}), "no_response": no_response(batch), **(skip_answer or {})},
            fail=fail,
            stats=stats,
        )

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """The outcome of one answered sample by the plain definition."""
        reason = self.skips(sample)
        if reason is not None:
            return Score.skip(reason)
        if output.response is None:
            return Score.skip("no_response")
        return self.score_plain(sample, output, output.response.text)

    def skips(self, sample: EvaluationSample) -> str | None:
        """The skip reason of a sample the metric does not apply to, else ``None``."""
        return None

    @abstractmethod
    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """The outcome of an answer by its plain definition."""


@dataclass(frozen=True)
class AnnotatedMetric(ConfiguredMetric, SampleMetric):
    """A metric of samples with a certain annotation, which ``applies`` looks for."""

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether the sample has the annotation."""
        return self.applies(sample) is None


class EvidenceMetric(BatchMetric):
    """A metric of an answer and its evidence: the first ``k`` retrieved documents, or the relevant ones."""

    evidence_source: Source = "retrieved"
    k: int | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.evidence_source == "relevant":
            if self.k is not None:
                raise BadValueError("'k' counts retrieved documents; it means nothing with 'evidence_source: relevant'")
            set_metadata(self, reads=frozenset({"response"}))

    def required_fields(self) -> list[str]:
        """Relevant documents where they are the evidence."""
        return ["relevant_docs"] if self.evidence_source == "relevant" else []

    def evidence_documents(self, sample: EvaluationSample, output: SystemOutputs) -> list[Document]:
        """The documents that are the evidence for an answer."""
        if self.evidence_source == "relevant":
            return list(sample.relevant_docs or [])
        return [item.doc for item in output.retrieved[: self.k]]

    def skips(self, sample: EvaluationSample) -> str | None:
        """Skips samples without relevant documents, if these are the evidence."""
        if self.evidence_source == "relevant" and not sample.relevant_docs:
            return "no_gold" if sample.relevant_docs is None else "empty_gold"
        return None


@dataclass(frozen=True)
class ReferencedMetric(AnswerMetric):
    """A metric that compares the answer with reference answers."""

    target = TargetCategory.GENERATION_CORRECTNESS
    metadata = declare(
        skip_reasons={
            "no_reference": "the sample has no reference answer",
            "empty_reference": "the reference is empty, and the question is not marked unanswerable",
            **AnswerMetric.metadata.skip_reasons,
        },
    )

    @property
    def role(self) -> Role:
        """The texts that answers are compared with."""
        return "reference"

    def required_fields(self) -> list[str]:
        """A reference answer, unless answers are compared with the query."""
        return ["reference_answer"] if self.role == "reference" else []

    def without_reference(self, batch: Batch) -> dict[str, Mask]:
        """The rows without a reference, and those with an empty one that is no answer either."""
        compared = reference_texts(batch, self.role)
        masks = {"no_reference": np.bincount(compared.owners, minlength=len(batch)) == 0}
        if self.role == "reference" and not all(map(str.strip, compared.texts)):
            masks["empty_reference"] = np.array(list(map(has_empty_reference, batch.samples)), np.bool_)
        return masks

    def skips(self, sample: EvaluationSample) -> str | None:
        """A sample without a reference, or with an empty one that is no answer either, is skipped."""
        if self.role == "query":
            return None
        if sample.reference_answer is None:
            return "no_reference"
        return "empty_reference" if has_empty_reference(sample) else None

    def compared_texts(self, sample: EvaluationSample) -> list[str]:
        """The texts that the answer of this sample is compared with."""
        return sample.references if self.role == "reference" else [sample.query]


@dataclass(frozen=True)
class ComparedMetric(ReferencedMetric):
    """A metric that compares the answer with reference answers (the best counts), or with the query."""

    compare_to: Literal["reference", "query"] = field(default="reference", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        # Name and target depend on ``compare_to``, not on the class.
        plain = self.name.removesuffix("_answer").removesuffix("_query")
        if self.compare_to == "query":
            object.__setattr__(self, "target", TargetCategory.GENERATION_RELEVANCE)
            object.__setattr__(self, "name", f"{plain}_query")
        elif plain != self.name:
            object.__setattr__(self, "target", TargetCategory.GENERATION_CORRECTNESS)
            object.__setattr__(self, "name", f"{plain}_answer")

    @property
    def role(self) -> Role:
        """The texts that answers are compared with."""
        return self.compare_to
