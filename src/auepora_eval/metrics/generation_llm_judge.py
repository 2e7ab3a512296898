"""Answers rated by an LLM judge: faithfulness to the evidence, and answer quality."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..core.conventions import RankCutOff, SignatureOption
from ..core.metrics_base import declare
from ..core.registry import Use, register
from ..core.scores import Score
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory, response_text
from ..errors import BadTypeError, BadValueError, did_you_mean
from ..features.texts import Source
from ..judge.critic import LLMCritic
from ..judge.prompting import built_in_prompt
from ..judge.ratings import SCORE, RatingPrompt, RatingScale, Scale, parse_scale, question_frames, returns_number_only
from ..options import NonNegativeFloat, problem_of
from .answer_base import EvidenceMetric
from .judged_base import RatingMetric

__all__ = ["LLMAnswerQuality", "LLMCritic", "LLMFaithfulnessScore"]

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_RESERVED_NAMES = ("rationale", "score")
"""Names that a reply uses for other fields."""
DIMENSIONS = ("relevance", "helpfulness", "clarity")
"""The default dimensions for structured critics."""


def number_scale(option: Any) -> str:
    """The scale of numbers that an option describes, as it is written in a spec."""
    return str(Scale.parse(option))


@register("llm_faithfulness")
@dataclass(frozen=True)
class LLMFaithfulnessScore(EvidenceMetric, RatingMetric):
    r"""How far the answer is supported by its evidence, as a language model judges it.

    .. math:: (x - \text{lowest}) / (\text{highest} - \text{lowest})

    The critic is shown the question, the answer and the evidence: what was retrieved (the first `k`), or the relevant
    documents (`evidence_source: relevant`). It answers with a number x on the `scale`, and perhaps why. An answer that
    states nothing, such as one that declines, counts as supported. Nothing retrieved scores 0, and nobody is asked.
    With `repeats` the score is the mean over all judgements, and the details tell how far they lie apart. A critic that
    gives no judgement that can be used makes the sample a failed measurement, never a number.
    """

    evidence_source: Source = "retrieved"
    scale: str | None = field(default="0-1", kw_only=True, metadata={"convert": number_scale})
    k: RankCutOff | None = field(default=None, kw_only=True)
    """How many of the returned documents count; all by default."""

    metadata = declare(
        reads=frozenset({"response", "retrieved"}),
        skip_reasons={
            **RatingMetric.metadata.skip_reasons,
            "empty_answer": "the answer is empty",
            "no_text": "the documents have no text",
            "no_gold": "the evidence is the relevant documents, and they are not annotated",
            "empty_gold": "the evidence is the relevant documents, and there is none",
        },
        prompt_names=("faithfulness",),
        signature={"evidence": "evidence_source", "k": "k"},
    )

    def question(self, sample: EvaluationSample, output: SystemOutputs) -> RatingPrompt | Score:
        """The question, the answer and its evidence."""
        answer = response_text(output)
        if not answer.strip():
            return Score.skip("empty_answer")
        texts = [document.text for document in self.evidence_documents(sample, output)]
        if not texts:
            return Score(0.0)
        evidence = [text for text in texts if text.strip()]
        if not evidence:
            return Score.skip("no_text")
        return RatingPrompt(
            self.prompts_used[0],
            {"question": question_frames(sample), "answer": answer, "evidence": evidence},
            self.rating_scale,
            rationale=self.rationale,
            metric=self.name,
            sample_id=sample.sample_id,
        )


def _signature_names(dimensions: Sequence[str]) -> str:
    """The dimensions in a signature: their names, and a digest of each custom description."""
    names = []
    for dimension in dimensions:
        name, colon, _ = dimension.partition(":")
        names.append(f"{name}={hashlib.sha256(dimension.encode()).hexdigest()[:6]}" if colon else name)
    return ",".join(names)


@register("llm_answer_quality")
@dataclass(frozen=True)
class LLMAnswerQuality(RatingMetric):
    r"""Quality of the answer for the user, rated by an LLM judge, dimension by dimension.

    .. math:: \sum_d w_d \cdot (x_d - \text{lowest}) / (\text{highest} - \text{lowest}) \;/\; \sum_d w_d

    The critic is shown the question and the answer, and gives each of the `dimensions` a number x on the `scale`. The
    prompt explains relevance, helpfulness, clarity, completeness, conciseness and coherence; others need a description,
    such as `tone: is it friendly?`. `aggregation` is `mean`, `weighted` (by `weights`) or `min`, the weakest dimension.
    The mean of each dimension is in the details. The default is relevance, helpfulness and clarity from 1 to 5, all in
    one request to a structured critic. A critic that returns a bare number gets one question instead, how well the
    answer addresses what was asked, from 0 to 1. Given dimensions are requested one by one if the critic returns a bare
    number or weighs labels by their probabilities. An empty answer scores 0, and no judge is called. With `repeats` the
    score is the mean over all judgements, and the details contain their spread.
    """

    dimensions: Any = None
    """The rated dimensions, by name or as ``name: description``."""
    weights: Any = None
    """The weights of the dimensions: numbers in their order, or by name."""
    aggregation: Literal["mean", "weighted", "min"] = "mean"
    scale: str | None = field(default=None, kw_only=True, metadata={"convert": number_scale})

    target = TargetCategory.GENERATION_RELEVANCE
    metadata = declare(
        prompt_names=("answer_quality",),
        signature={
            "question": SignatureOption("asks_one_question", unless=False, words={True: "one"}),
            "dimensions": SignatureOption("_judged_dimensions", unless=(), write=_signature_names),
            "aggregation": SignatureOption("aggregation", where=("asks_one_question", False)),
            "weights": "weights",
        },
    )

    def __post_init__(self) -> None:
        if self.dimensions is not None:
            object.__setattr__(self, "dimensions", _check_dimensions(self.dimensions))
        names = tuple(dimension.partition(":")[0] for dimension in self.dimensions or DIMENSIONS)
        object.__setattr__(self, "weights", None if self.weights is None else _check_weights(self.weights, names))
        if self.weights is not None and self.aggregation == "mean":
            object.__setattr__(self, "aggregation", "weighted")
        if (self.weights is not None) != (self.aggregation == "weighted"):
            raise BadValueError(
                "'aggregation: weighted' needs 'weights'"
                if self.weights is None
                else f"'weights' mean nothing with 'aggregation: {self.aggregation}'"
            )
        super().__post_init__()
        known = self._known_criteria()
        for name in names:
            if name not in known:
                known_names = f"; the prompt explains {', '.join(known)}" if known else ""
                hint = did_you_mean(name, known, otherwise=known_names)
                raise BadValueError(f"dimension '{name}': add a description, such as '{name}: is it ...?'{hint}")

    @property
    def asks_one_question(self) -> bool:
        """Whether the critic gets one question: it returns a bare number, and no option asks for dimensions."""
        critic = self.critic.thing if isinstance(self.critic, Use) else self.critic
        return self.dimensions is None and self.aggregation == "mean" and returns_number_only(critic)

    @property
    def rating_scale(self) -> RatingScale:
        """The given scale, else 0 to 1 for one question and 1 to 5 for dimensions."""
        default = "0-1" if self.asks_one_question else "1-5"
        return parse_scale(self.scale or default)

    @property
    def _judged_dimensions(self) -> tuple[str, ...]:
        return () if self.asks_one_question else self.dimensions or DIMENSIONS

    @property
    def _dimension_names(self) -> tuple[str, ...]:
        """The names of the rated dimensions."""
        return tuple(judged_dimension.partition(":")[0] for judged_dimension in self._judged_dimensions)

    def _known_criteria(self) -> dict[str, str]:
        """Descriptions by name: from the option, else the prompt, else built-in."""
        own = dict(
            judged_dimension.split(": ", 1) for judged_dimension in self._judged_dimensions if ": " in judged_dimension
        )
        built_in = {
            SCORE: "How well does the answer address what was asked?",
            **dict(built_in_prompt(self.metadata.prompt_names[0]).criteria),
        }
        return {**built_in, **dict(self.prompts_used[0].criteria), **own}

    def question(self, sample: EvaluationSample, output: SystemOutputs) -> RatingPrompt | Score:
        """The question and the answer."""
        answer = response_text(output)
        if not answer.strip():
            return Score(0.0)
        return RatingPrompt(
            self.prompts_used[0],
            {"question": question_frames(sample), "answer": answer},
            self.rating_scale,
            names=self._dimension_names or (SCORE,),
            criteria=self._known_criteria(),
            rationale=self.rationale,
            metric=self.name,
            sample_id=sample.sample_id,
        )

    def combine(self, values: Sequence[float]) -> float:
        """The (weighted) mean of the dimensions, or the smallest."""
        if self.aggregation == "min":
            return min(values)
        weights = self.weights or (1.0,) * len(values)
        return math.fsum(w * value for w, value in zip(weights, values, strict=True)) / math.fsum(weights)


def _check_dimensions(value: object) -> tuple[str, ...]:
    """Dimensions as ``name`` or ``name: description``, from a list of either, or from a mapping."""
    if isinstance(value, (str, Mapping)):
        value = [value]
    if not isinstance(value, Sequence):
        raise BadTypeError(f"dimensions must be a list of names, not {value!r:.80}")
    entries: list[str] = []
    for given in value:
        if isinstance(given, Mapping):
            entries += [f"{name}: {meaning}" if meaning else str(name) for name, meaning in given.items()]
        elif isinstance(given, str):
            entries.append(given)
        else:
            raise BadTypeError(f"a dimension is a name, or 'name: description', not {given!r:.80}")
    dimensions = []
    for entry in entries:
        name, _, meaning = (part.strip() for part in entry.partition(":"))
        if not _NAME.fullmatch(name) or name in _RESERVED_NAMES:
            raise BadValueError(f"a dimension cannot be called {name!r}: use lower case, digits and underscores")
        dimensions.append(f"{name}: {' '.join(meaning.split())}" if meaning else name)
    names = [dimension.partition(":")[0] for dimension in dimensions]
    if not names or len(set(names)) < len(names):
        raise BadValueError(f"dimensions must be one name or more, each once; not {names!r}")
    return tuple(dimensions)


def _check_weights(value: object, names: Sequence[str]) -> tuple[float, ...]:
    """One weight per dimension, in their order."""
    if isinstance(value, Mapping):
        if set(value) != set(names):
            raise BadValueError(f"weights must name every dimension once ({', '.join(names)}), not {list(value)!r}")
        value = [value[name] for name in names]
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != len(names):
        raise BadValueError(f"weights must be {len(names)} numbers, one per dimension, not {value!r:.80}")
    if problem := problem_of(tuple[NonNegativeFloat, ...], value):
        raise BadValueError(f"weights {problem}")
    if not any(value):
        raise BadValueError("one weight at least must be above 0")
    return tuple(map(float, value))
