"""Grounding by an NLI model: the proportion of answer sentences that the evidence entails."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.conventions import RankCutOff
from ..core.metrics_base import declare
from ..core.registry import register
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..features.embeddings import InferenceFailure
from ..features.texts import answers, evidence_texts
from ..judge.nli import Threshold, label_probability, select_premises
from ..models.embedders import PairModel, entailment_index, pair_logits
from ..models.loading import Device, Precision
from ..options import PositiveInt
from ..text.sentences import split_sentences
from .answer_base import AnswerMetric
from .semantic import note_truncation, problem_masks

Floats = npt.NDArray[np.float64]


@register("nli_grounding")
@dataclass(frozen=True)
class NliGrounding(AnswerMetric):
    r"""Share of the answer's sentences that the retrieved documents entail, by an NLI model.

    .. math:: |\{s \in \text{answer} : \text{evidence entails } s\}| / |\text{answer}|

    `model` is the path or hub name of any text pair classifier with a label for entailment, found by its name in the
    model's config (`entailment_label` sets it otherwise). Nothing is downloaded unless `allow_download` is true. With
    `evidence: each` a sentence is supported if any of the first `k` documents entails it by itself; with `evidence:
    joined` the documents are one text, which may entail more, but is often longer than the model reads: truncated texts
    are counted (`num_truncated`). It is deterministic and needs no API key, unlike a judge. A sentence without a claim,
    such as a refusal, is seldom entailed: compare with the refusal metrics. Nothing retrieved scores 0.
    """

    model: str
    evidence: Literal["each", "joined"] = field(default="each", kw_only=True)
    k: RankCutOff | None = field(default=None, kw_only=True)
    threshold: Threshold = field(default=0.5, kw_only=True)
    entailment_label: str | None = field(default=None, kw_only=True)
    device: Device = field(default="auto", kw_only=True)
    precision: Precision = field(default="float32", kw_only=True)
    batch_size: PositiveInt | None = field(default=None, kw_only=True, compare=False)
    revision: str | None = field(default=None, kw_only=True)
    allow_download: bool = field(default=False, kw_only=True, compare=False)

    target = TargetCategory.GENERATION_FAITHFULNESS
    metadata = declare(
        reads=frozenset({"response", "retrieved"}),
        output_skips=frozenset({"empty_answer", "no_text"}),
        stat_names=("num_truncated",),
        suggested=False,  # it needs a model, which the user names
        skip_reasons={
            **AnswerMetric.metadata.skip_reasons,
            "empty_answer": "the answer has no sentence",
            "no_text": "the documents have no text",
        },
        reference="Honovich et al. 2022 (TRUE)",
    )

    def __post_init__(self) -> None:
        if isinstance(self.model, os.PathLike):
            object.__setattr__(self, "model", os.fspath(self.model))
        super().__post_init__()
        _ = self.pair_model  # invalid options raise here, not when scoring

    @property
    def pair_model(self) -> PairModel:
        """The NLI model."""
        return PairModel.of(self)

    @property
    def worst_stats(self) -> Sequence[float] | None:
        """No truncation in a failed answer."""
        return (0.0,)

    @property
    def asks_models(self) -> bool:
        """True: it needs an NLI model."""
        return True

    def require_ready(self) -> None:
        """Raise unless the packages and the model are available, with a label for entailment."""
        entailment_index(self.pair_model.loaded(), self.entailment_label)

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether the documents have text."""
        return any(item.doc.text for item in output.retrieved[: self.k])

    def signature_options(self) -> dict[str, str]:
        """The model, the evidence and the threshold."""
        more: dict[str, Any] = {"evidence": self.evidence, "from": f"{self.threshold:g}"}
        if self.k is not None:
            more["k"] = str(self.k)
        if self.entailment_label is not None:
            more["label"] = self.entailment_label.replace("|", "/")
        return {**self.pair_model.signature_options(), **more}

    def score(self, batch: Batch) -> Scores:
        """The proportion of each answer's sentences."""
        retrieved = evidence_texts(batch, "retrieved", self.k)
        documents = retrieved.by_row()
        sentences = [split_sentences(answer) for answer in answers(batch)]
        rows = [select_premises(own, self.evidence) for own in documents]
        pairs_by_row = [
            [(text, one) for one in row_sentences for text in own]
            for row_sentences, own in zip(sentences, rows, strict=True)
        ]
        values, stats = np.zeros(len(batch)), np.zeros((len(batch), 1))
        problems: list[str | None] = [None] * len(batch)
        rows_with_pairs = [row for row, pairs in enumerate(pairs_by_row) if pairs]
        if rows_with_pairs:
            place = entailment_index(self.pair_model.loaded(), self.entailment_label)
            logits_by_pair = pair_logits(batch, self.pair_model, pairs_by_row)
            for row in rows_with_pairs:
                outcomes = [logits_by_pair[pair] for pair in pairs_by_row[row]]
                values[row], stats[row], problems[row] = self._supported_proportion(
                    outcomes, place, len(sentences[row])
                )
        note_truncation(batch, self.name, stats[:, 0])
        no_text = np.array([not own for own in documents], np.bool_) & ~retrieved.no_documents
        empty = np.array([not row_sentences for row_sentences in sentences], np.bool_)
        return self.outcome(
            batch,
            values,
            skip_answer={"empty_answer": empty, "no_text": no_text},
            fail=problem_masks(problems),
            stats=stats,
        )

    def _supported_proportion(
        self, outcomes: Sequence[tuple[Floats, bool] | InferenceFailure], place: int, sentences: int
    ) -> tuple[float, int, str | None]:
        """The proportion of supported sentences, the number of truncated pairs, and a failure reason."""
        found = [one for one in outcomes if not isinstance(one, InferenceFailure)]
        cut = sum(truncated for _, truncated in found)
        reason = next((one.reason for one in outcomes if isinstance(one, InferenceFailure)), None)
        if reason is not None:
            return 0.0, cut, reason
        probabilities = np.array([label_probability(logits, place) for logits, _ in found]).reshape(sentences, -1)
        supported = probabilities.max(axis=1) >= self.threshold
        return float(supported.mean()), cut, "not_a_number" if np.isnan(probabilities).any() else None

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """The plain definition, sentence by sentence and document by document."""
        sentences = split_sentences(answer)
        if not sentences:
            return Score.skip("empty_answer")
        texts = [item.doc.text for item in output.retrieved[: self.k]]
        own = [text for text in texts if text and text.strip()]
        if not own:
            return Score.skip("no_text") if texts else Score(0.0)
        place, supported = entailment_index(self.pair_model.loaded(), self.entailment_label), 0
        for sentence in sentences:
            logits = [
                self.pair_model.logits([(premise, sentence)])[0] for premise in select_premises(own, self.evidence)
            ]
            probabilities = [
                label_probability(one[0], place) for one in logits if not isinstance(one, InferenceFailure)
            ]
            supported += max(probabilities) >= self.threshold
        return Score(supported / len(sentences))
