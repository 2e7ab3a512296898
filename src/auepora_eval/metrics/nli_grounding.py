"""Is the answer backed by the documents: its sentences that the evidence entails, by a model of entailment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.registry import register
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..features.model_cache import InferenceFailure
from ..features.texts import answers, evidence_texts
from ..judge.entailment import require_threshold
from ..semantic.devices import Device, Precision
from ..semantic.pairs import PairModel, entailment_index, pair_logits
from ..text.sentences import split_sentences
from .answer_base import AnswerMetric, require_choice
from .ranking import check_k
from .semantic_base import note_truncation, problem_masks

__all__ = ["NliGrounding"]

Floats = npt.NDArray[np.float64]


@register("nli_grounding")
@dataclass(frozen=True)
class NliGrounding(AnswerMetric):
    r"""Share of the answer's sentences that the retrieved documents entail, by a model of entailment.

    .. math:: |\{s \in \text{answer} : \text{evidence entails } s\}| / |\text{answer}|

    `model` is the path or hub name of any classifier of pairs of texts with a label for entailment, found by its name
    in the model's config (`entailment_label` names it where that says nothing). Nothing is downloaded unless
    `allow_download` is true. With `evidence: each` a sentence is backed if any of the first `k` documents entails it by
    itself; with `evidence: joined` the documents are one text, which finds what only several say together, but is
    soon longer than the model reads: what is cut is counted (`num_truncated`). No key and no chance is involved: it
    stands between the words of `support_density` and a judge. A sentence that claims nothing, such as a refusal, is
    seldom entailed: read this beside the refusals. Nothing retrieved scores 0.
    """

    model: str
    evidence: Literal["each", "joined"] = field(default="each", kw_only=True)
    k: int | None = field(default=None, kw_only=True)
    threshold: float = field(default=0.5, kw_only=True)
    entailment_label: str | None = field(default=None, kw_only=True)
    device: Device = field(default="auto", kw_only=True)
    precision: Precision = field(default="float32", kw_only=True)
    batch_size: int | None = field(default=None, kw_only=True, compare=False)
    revision: str | None = field(default=None, kw_only=True)
    allow_download: bool = field(default=False, kw_only=True, compare=False)

    target = TargetCategory.GENERATION_FAITHFULNESS
    suggested: ClassVar[bool] = False  # it needs a model, which the user names
    reads: ClassVar[frozenset[str]] = frozenset({"response", "retrieved"})
    stat_names: ClassVar[tuple[str, ...]] = ("num_truncated",)
    output_skips: ClassVar[frozenset[str]] = frozenset({"empty_answer", "no_text"})
    skip_reasons: ClassVar[dict[str, str]] = {
        **AnswerMetric.skip_reasons,
        "empty_answer": "the answer has no sentence",
        "no_text": "the documents have no text",
    }
    reference: ClassVar[str] = "Honovich et al. 2022 (TRUE)"

    def __post_init__(self) -> None:
        if isinstance(self.model, os.PathLike):
            object.__setattr__(self, "model", os.fspath(self.model))
        require_choice("evidence", self.evidence, ("each", "joined"))
        check_k(self.k)
        require_threshold(self.threshold)
        super().__post_init__()
        _ = self.pair_model  # an option that cannot be meant is told here, not when scoring

    @property
    def pair_model(self) -> PairModel:
        """What reads the pairs."""
        return PairModel.of(self)

    @property
    def worst_stats(self) -> Sequence[float] | None:
        """Of a failed answer nothing was cut."""
        return (0.0,)

    @property
    def asks_models(self) -> bool:
        """A model of entailment."""
        return True

    def require_ready(self) -> None:
        """Raise unless the packages and the model are at hand, and it knows entailment."""
        entailment_index(self.pair_model.loaded(), self.entailment_label)

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether the documents have text."""
        return any(item.doc.text for item in output.retrieved[: self.k])

    def signature_options(self) -> dict[str, str]:
        """The model, what it reads at a time, and from where on a sentence counts as entailed."""
        more: dict[str, Any] = {"evidence": self.evidence, "from": f"{self.threshold:g}"}
        if self.k is not None:
            more["k"] = str(self.k)
        if self.entailment_label is not None:
            more["label"] = self.entailment_label.replace("|", "/")
        return {**self.pair_model.source.signature_options(), **more}

    def score(self, batch: Batch) -> Scores:
        """The share of each answer's sentences."""
        found = evidence_texts(batch, "retrieved", self.k)
        documents: list[list[str]] = [[] for _ in range(len(batch))]
        for owner, use in zip(found.owners.tolist(), found.uses.tolist(), strict=True):
            if found.texts[use].strip():
                documents[owner].append(found.texts[use])
        sentences = [split_sentences(answer) for answer in answers(batch)]
        rows = [self._premises(own) for own in documents]
        asked = [[(text, one) for one in said for text in own] for said, own in zip(sentences, rows, strict=True)]
        values, stats = np.zeros(len(batch)), np.zeros((len(batch), 1))
        problems: list[str | None] = [None] * len(batch)
        rows_asked = [row for row, pairs in enumerate(asked) if pairs]
        if rows_asked:
            place = entailment_index(self.pair_model.loaded(), self.entailment_label)
            told = pair_logits(batch, self.pair_model, asked)
            for row in rows_asked:
                outcomes = [told[pair] for pair in asked[row]]
                values[row], stats[row], problems[row] = self._share_backed(outcomes, place, len(sentences[row]))
        note_truncation(batch, self.name, stats[:, 0])
        no_text = np.array([not own for own in documents], np.bool_) & ~found.no_documents
        empty = np.array([not said for said in sentences], np.bool_)
        return self.outcome(
            batch,
            values,
            skip_answer={"empty_answer": empty, "no_text": no_text},
            fail=problem_masks(problems),
            stats=stats,
        )

    def _share_backed(
        self, outcomes: Sequence[tuple[Floats, bool] | InferenceFailure], place: int, sentences: int
    ) -> tuple[float, int, str | None]:
        """The share of sentences, of which each has as many pairs; how many pairs were cut; why there is no share."""
        found = [one for one in outcomes if not isinstance(one, InferenceFailure)]
        cut = sum(was for _, was in found)
        lost = next((one.reason for one in outcomes if isinstance(one, InferenceFailure)), None)
        if lost is not None:
            return 0.0, cut, lost
        shares = np.array([_label_probability(logits, place) for logits, _ in found]).reshape(sentences, -1)
        backed = shares.max(axis=1) >= self.threshold
        return float(backed.mean()), cut, "not_a_number" if np.isnan(shares).any() else None

    def _premises(self, documents: list[str]) -> list[str]:
        return ["\n".join(documents)] if self.evidence == "joined" and documents else list(dict.fromkeys(documents))

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """The share by definition, sentence by sentence and document by document."""
        sentences = split_sentences(answer)
        if not sentences:
            return Score.skip("empty_answer")
        texts = [item.doc.text for item in output.retrieved[: self.k]]
        own = [text for text in texts if text and text.strip()]
        if not own:
            return Score.skip("no_text") if texts else Score(0.0)
        place, backed = entailment_index(self.pair_model.loaded(), self.entailment_label), 0
        for sentence in sentences:
            told = [self.pair_model.logits([(premise, sentence)])[0] for premise in self._premises(own)]
            shares = [_label_probability(one[0], place) for one in told if not isinstance(one, InferenceFailure)]
            backed += max(shares) >= self.threshold
        return Score(backed / len(sentences))


def _label_probability(logits: Floats, place: int) -> float:
    """The probability of one label: the softmax of all."""
    weights = np.exp(logits - logits.max())
    return float(weights[place] / weights.sum())
