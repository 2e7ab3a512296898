"""Support of citations as ALCE and the TREC RAG track count it, and nugget recall."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.conventions import SignatureOption
from ..core.derivation import DerivationBuilder
from ..core.metrics_base import declare
from ..core.registry import register
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory, response_text
from ..errors import AueporaError, BadTypeError
from ..judge.critic import JudgeClient
from ..judge.nugget_lists import Nugget, sample_nuggets
from ..judge.ratings import Rating, gather_all
from ..options import PositiveInt
from ..text.sentences import Citation, CitedSentence, Style, cited_sentences
from .judged_statements import Source, StatementEvaluation, VerdictMetric, document_sources, merge_sources

# --- measures over verdicts on citations and nuggets, as plain functions ---------------------------------------------


@dataclass(frozen=True, slots=True)
class SentenceSupport:
    """The support of one sentence by its citations."""

    citations: int = 0
    """The number of citations."""
    supported: bool = False
    """Whether all cited documents together support the sentence."""
    redundant: int = 0
    """Redundant citations: they alone do not support the sentence, and it is supported without them."""


def citation_recall(sentences: Sequence[SentenceSupport]) -> float:
    """The proportion of sentences that their citations support."""
    return sum(sentence.supported for sentence in sentences) / len(sentences)


def citation_precision(sentences: Sequence[SentenceSupport]) -> float:
    """The proportion of citations that belong to a supported sentence and are needed; 0 without citations."""
    cited = sum(sentence.citations for sentence in sentences)
    return (
        sum(sentence.citations - sentence.redundant for sentence in sentences if sentence.supported) / cited
        if cited
        else 0.0
    )


def citation_f1(sentences: Sequence[SentenceSupport]) -> float:
    """The harmonic mean of citation precision and recall."""
    precision, recall = citation_precision(sentences), citation_recall(sentences)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def weighted_precision(sentences: Sequence[Sequence[float]]) -> float:
    """The mean weight of the sentences with citations, each the mean weight of its citations; 0 without any."""
    means = [sum(weights) / len(weights) for weights in sentences if weights]
    return sum(means) / len(means) if means else 0.0


def weighted_recall(sentences: Sequence[Sequence[float]]) -> float:
    """The mean weight of all sentences; one without citations weighs 0."""
    return sum(sum(weights) / len(weights) for weights in sentences if weights) / len(sentences)


VARIANTS = ("vital_strict", "vital", "all_strict", "all", "weighted_strict", "weighted")
"""Variants of nugget recall: only vital nuggets, all alike, or okay ones at half weight; partial support counts 0
(strict) or 1/2."""


def nugget_scores(nuggets: Sequence[tuple[str, float]]) -> dict[str, float | None]:
    """Every variant from the importance of each nugget and its support: 1, 0.5 or 0.

    ``None`` for a variant without nuggets that count.

    >>> nugget_scores([("vital", 1.0), ("vital", 0.5), ("okay", 0.0)])["vital"]
    0.75
    """
    scores: dict[str, float | None] = {}
    for variant in VARIANTS:
        kind, _, strict = variant.partition("_")
        okay = {"vital": 0.0, "all": 1.0, "weighted": 0.5}[kind]
        weights = [1.0 if importance == "vital" else okay for importance, _ in nuggets]
        levels = [float(level == 1.0) if strict else float(level) for _, level in nuggets]
        total = sum(weights)
        supported = sum(weight * level for weight, level in zip(weights, levels, strict=True))
        scores[variant] = supported / total if total else None
    return scores


# --- whether cited documents support the sentences of an answer, as ALCE and the TREC RAG track count it -------------


@dataclass(frozen=True)
class CitationSupportMetric(VerdictMetric):
    """A metric over the sentences of an answer and their citations."""

    citations: Style = field(default="auto", kw_only=True)
    """Where citations are: `sentences` (a list in the output), `brackets` (`[1]`), `hash` (`[#1]`), `ids` (`[doc_id]`)
    in its text; `auto` uses the list if there is one, else any marker."""

    target = TargetCategory.GENERATION_FAITHFULNESS
    _own_counts: ClassVar[tuple[str, ...]] = ("num_sentences", "num_citations", "num_uncited", "num_out_of_range")
    metadata = declare(
        controls={},  # references have no citations
        reads=frozenset({"response", "retrieved"}),
        output_skips=frozenset({"refused", "whole_answer", "no_sentences"}),
        skip_reasons={
            "refused": "the system refused to answer, and says so in `refused`",
            "empty_answer": "the answer has no sentence",
            "no_sentences": "the list of sentences is asked for, and the answer has none",
            "whole_answer": "the answer cites as a whole, and none of its sentences does",
            "no_text": "a cited document has no text",
            **VerdictMetric.metadata.skip_reasons,
        },
        signature={"citations": "citations"},
    )

    def _known_outcome(self, sample: EvaluationSample, output: SystemOutputs) -> Score | Rating | None:
        """Skips, and answers in which no sentence cites a retrieved document."""
        if output.refused:
            return Score.skip("refused")
        try:
            sentences = self._sentences(output)
        except BadTypeError:
            return Score.fail("bad_citations")
        if sentences is None:
            return Score.skip("no_sentences")
        if not sentences:
            return Score.skip("empty_answer")
        if not any(sentence.citations for sentence in sentences) and output.citations:
            return Score.skip("whole_answer")
        judged = chain.from_iterable(self.judged_citations(sentence) for sentence in sentences)
        cited = [output.retrieved[citation.place].doc for citation in judged if citation.place is not None]
        if not all((document.text or "").strip() for document in cited):
            return Score.skip("no_text")
        if not cited:
            return Rating((0.0,), counts=_citation_counts(sentences))
        return None

    def failure_message(self, sample: EvaluationSample, output: SystemOutputs) -> str:
        """The problem in its list of sentences."""
        try:
            _ = None if output.response is None else self._sentences(output)
        except BadTypeError as error:
            return f"response.sentences: {error}"
        return ""

    async def _rate(self, evaluation: StatementEvaluation) -> Rating:
        """The value from the verdicts on all sentences."""
        sentences = self._sentences(evaluation.output) or ()
        value = await self.score_sentences(sentences, document_sources(evaluation.output.retrieved), evaluation)
        return Rating((value,), counts=_citation_counts(sentences))

    def _add_input_steps(
        self,
        steps: DerivationBuilder,
        sample: EvaluationSample,
        output: SystemOutputs,
        evaluations: Sequence[StatementEvaluation],
    ) -> None:
        """The answer, its sentences and their citations."""
        super()._add_input_steps(steps, sample, output, evaluations)
        ids = [item.doc.doc_id for item in output.retrieved]

        def cited_ids(citations: Sequence[Citation]) -> Iterator[str]:
            for citation in citations:
                yield f"{citation.written} (not there)" if citation.place is None else ids[citation.place]

        sentences = self._sentences(output) or ()
        rows = [(sentence.text, ", ".join(cited_ids(sentence.citations))) for sentence in sentences]
        steps.table("The sentences of the answer, and what they cite", ("sentence", "cites"), rows)

    def _sentences(self, output: SystemOutputs) -> tuple[CitedSentence, ...] | None:
        assert output.response is not None  # outputs without a response are skipped before
        ids = [item.doc.doc_id for item in output.retrieved]
        return cited_sentences(output.response.text, output.response.sentences, ids, self.citations)

    @abstractmethod
    def judged_citations(self, sentence: CitedSentence) -> Sequence[Citation]:
        """The citations of a sentence that a judge checks; none if the verdict is known."""

    @abstractmethod
    async def score_sentences(
        self, sentences: Sequence[CitedSentence], documents: Sequence[Source], evaluation: StatementEvaluation
    ) -> float:
        """The value of one answer with these retrieved documents."""


def _citation_counts(sentences: Sequence[CitedSentence]) -> tuple[float, ...]:
    cited = list(chain.from_iterable(sentence.citations for sentence in sentences))
    uncited = sum(not sentence.citations for sentence in sentences)
    return len(sentences), len(cited), uncited, sum(citation.place is None for citation in cited)


# --- ALCE ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AlceMetric(CitationSupportMetric):
    """An ALCE metric: are sentences supported by all their citations together, and is each citation needed."""

    asks_follow_ups: ClassVar[bool] = False
    at_most_citations: PositiveInt | None = field(default=3, kw_only=True)
    """How many citations of a sentence are checked; `null` for all."""

    metadata = declare(
        reference="Gao et al. 2023 (ALCE), section 3.3",
        signature={"at_most": SignatureOption("at_most_citations", words={None: "all"})},
    )

    def judged_citations(self, sentence: CitedSentence) -> Sequence[Citation]:
        """The first citations; none of a sentence that cites a document that was not retrieved."""
        if any(citation.place is None for citation in sentence.citations):
            return ()
        return sentence.citations[: self.at_most_citations]

    async def score_sentences(
        self, sentences: Sequence[CitedSentence], documents: Sequence[Source], evaluation: StatementEvaluation
    ) -> float:
        """The value from the support of each sentence."""
        return self.aggregate(
            await gather_all(self._supported(sentence, documents, evaluation) for sentence in sentences)
        )

    @staticmethod
    @abstractmethod
    def aggregate(sentences: Sequence[SentenceSupport]) -> float:
        """The value from the support of each sentence."""

    async def _supported(
        self, sentence: CitedSentence, documents: Sequence[Source], evaluation: StatementEvaluation
    ) -> SentenceSupport:
        places = [judged_citation.place for judged_citation in self.judged_citations(sentence)]
        cited = [documents[place] for place in places if place is not None]
        if not cited:
            return SentenceSupport(len(sentence.citations[: self.at_most_citations]))

        async def is_supported(evidence: Sequence[Source]) -> bool:
            (verdict,) = await evaluation.verify([sentence.text], merge_sources(evidence))
            return verdict.supported

        async def is_redundant(place: int) -> bool:
            if await is_supported([cited[place]]):
                return False
            return await is_supported(cited[:place] + cited[place + 1 :])

        if not await is_supported(cited):
            return SentenceSupport(len(cited))
        redundant = (
            await gather_all(map(is_redundant, range(len(cited)))) if self.asks_follow_ups and len(cited) > 1 else []
        )
        return SentenceSupport(len(cited), True, sum(redundant))


@register("citation_support_recall")
@dataclass(frozen=True)
class CitationSupportRecall(AlceMetric):
    r"""Proportion of the answer's sentences that the documents they cite support, taken together.

    .. math:: |\{s : C_s \ne \emptyset \wedge C_s \models s\}| \,/\, |S|

    S are the sentences of the answer and C_s the first `at_most_citations` documents that s cites. A critic, or an NLI
    function, decides whether these together fully support s; partial support is not enough. A sentence that cites
    nothing is not supported, nor is one that cites a document that was not retrieved (`[7]` of five). A document cited
    twice in a sentence counts once. An answer without any citation scores 0, and no judge is called; an answer with
    citations for the whole answer only, a refusal and an empty answer are skipped. The details count sentences,
    citations, sentences without any, and citations of missing documents (`num_out_of_range`).

    ALCE's script differs: it reads `[1, 2]` as `[1]`, `[0]` as the last document, reads only the first line of an
    answer, and has its own sentence splitter.
    """

    _formula_text: ClassVar[str] = "sentences that what they cite supports, over all sentences"
    aggregate = staticmethod(citation_recall)


@register("citation_support_precision")
@dataclass(frozen=True)
class CitationSupportPrecision(AlceMetric):
    r"""Proportion of the answer's citations that belong to a supported sentence and are needed there.

    .. math:: |\{(s, c) : C_s \models s \,\wedge\, c \text{ is needed}\}| \,/\, \sum_s |C_s|

    C_s are the first `at_most_citations` documents that sentence s cites. A citation is redundant if its document alone
    does not support s, and the others do so without it. Citations of an unsupported sentence do not count. An answer
    without any citation scores 0, and no judge is called. Documents are checked one by one only if several support a
    sentence, so a preview cannot know the number of requests. Skips and details are those of `citation_support_recall`.

    ALCE's script differs from its paper, and from this: if a sentence cites a missing document, it leaves all its
    citations out of the count. Here they count as wrong.
    """

    asks_follow_ups = True  # each citation is checked on its own, too

    _formula_text: ClassVar[str] = "citations of supported sentences that are needed there, over all citations"
    aggregate = staticmethod(citation_precision)


@register("citation_support_f1")
@dataclass(frozen=True)
class CitationSupportF1(AlceMetric):
    r"""The harmonic mean of `citation_support_precision` and `citation_support_recall`, answer by answer.

    .. math:: 2 P R \,/\, (P + R)

    It is 0 where both are. ALCE itself has no such number; others take the harmonic mean of the means over all answers,
    which is a different number.
    """

    asks_follow_ups = True  # each citation is checked on its own, too

    _formula_text: ClassVar[str] = "the harmonic mean of precision and recall"
    aggregate = staticmethod(citation_f1)


# --- TREC RAG --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrecMetric(CitationSupportMetric):
    """A metric of the TREC RAG track: a citation supports its sentence fully, partially or not."""

    judged: Literal["first", "all"] = field(default="first", kw_only=True)
    """Which citations of a sentence count: the `first`, as in the track, or the mean of `all`."""

    metadata = declare(
        reference="Thakur et al. 2025 (Support Evaluation for the TREC 2024 RAG Track)",
        signature={"judged": "judged"},
    )

    def judged_citations(self, sentence: CitedSentence) -> Sequence[Citation]:
        """The first one, or all."""
        return sentence.citations[:1] if self.judged == "first" else sentence.citations

    async def score_sentences(
        self, sentences: Sequence[CitedSentence], documents: Sequence[Source], evaluation: StatementEvaluation
    ) -> float:
        """The value from the weights of the citations."""

        async def weight(sentence: CitedSentence, citation: Citation) -> float:
            if citation.place is None:
                return 0.0
            (verdict,) = await evaluation.verify([sentence.text], documents[citation.place])
            return float(verdict.level)

        async def weights(sentence: CitedSentence) -> list[float]:
            return await gather_all(
                weight(sentence, judged_citation) for judged_citation in self.judged_citations(sentence)
            )

        return self.aggregate(await gather_all(map(weights, sentences)))

    @staticmethod
    @abstractmethod
    def aggregate(sentences: Sequence[Sequence[float]]) -> float:
        """The value from the weights of each sentence's citations."""


@register("weighted_support_precision")
@dataclass(frozen=True)
class WeightedSupportPrecision(TrecMetric):
    r"""How far citations support their sentences, over the sentences that cite: TREC RAG's weighted precision.

    .. math:: \sum_{s : C_s \ne \emptyset} w(s) \,/\, |\{s : C_s \ne \emptyset\}|

    w(s) is 1 if the first document that s cites supports it fully, 1/2 if partially, 0 if not, or if the document is
    missing. With `judged: all` it is the mean over all documents that s cites, each by itself. An answer without any
    citation scores 0, and no judge is called. Skips and details are those of `citation_support_recall`.

    The track's scripts leave out unjudged citations. Here a failed judgement makes the answer a failed measurement, and
    the mean gets bounds.
    """

    _formula_text: ClassVar[str] = "what citations weigh (full 1, partial 1/2, none 0), over the sentences that cite"
    aggregate = staticmethod(weighted_precision)


@register("weighted_support_recall")
@dataclass(frozen=True)
class WeightedSupportRecall(TrecMetric):
    r"""How far citations support the sentences of an answer, over all sentences: TREC RAG's weighted recall.

    .. math:: \sum_{s : C_s \ne \emptyset} w(s) \,/\, |S|

    The weights are those of `weighted_support_precision`; a sentence that cites nothing weighs 0. Neither the track nor
    this metric treats sentences that need no citation specially. Skips and details are those of
    `citation_support_recall`.
    """

    _formula_text: ClassVar[str] = "what citations weigh (full 1, partial 1/2, none 0), over all sentences"
    aggregate = staticmethod(weighted_recall)


# --- nugget recall: the facts of a good answer that an answer contains, as in the TREC RAG track ---------------------


@register("nugget_recall")
@dataclass(frozen=True)
class NuggetRecall(VerdictMetric):
    r"""Proportion of a question's nuggets, the facts of a good answer, that the answer contains.

    .. math:: \sum_i w_i \cdot a_i \,/\, \sum_i w_i

    The nuggets are in the sample's `metadata["nuggets"]`, each with a `text` and an `importance`, vital or okay. A
    critic, or an NLI function, decides whether the answer supports each of them fully, partially or not, at most
    `at_a_time` in one request. With the `variant` `vital_strict` only vital nuggets count (w), and only full support (a
    = 1); with `vital` partial support counts half. `all_strict` and `all` count every nugget alike, `weighted_strict`
    and `weighted` an okay one as half a vital one. The details have the mean of every variant. A nugget given twice
    counts once, as vital if one of them is. An empty answer has none, and no judge is called; a refusal is judged as
    any answer.

    Variants that count only vital nuggets skip a question without any. The track's `nuggetizer` gives 0 to a question
    without vital nuggets, and counts a nugget on which the judge failed as missing; here such an answer is a failed
    measurement. A script for the track's early files adds 0.00001 to every number of nuggets, so that a question
    without okay nuggets lowers the mean over okay ones, and an answer that has all of them scores below 1.
    """

    variant: Literal["vital_strict", "vital", "all_strict", "all", "weighted_strict", "weighted"] = field(
        default="vital_strict", kw_only=True
    )
    at_a_time: PositiveInt = field(default=10, kw_only=True)
    """The number of nuggets per request to a critic."""
    no_vital: Literal["skip", "zero"] = field(default="skip", kw_only=True)
    """What becomes of a question without nuggets that count: it is skipped, or scores 0."""

    target = TargetCategory.GENERATION_CORRECTNESS
    _own_counts: ClassVar[tuple[str, ...]] = ("num_nuggets", "num_vital", "num_okay", *VARIANTS)
    metadata = declare(
        controls={"other_answer": False},  # a reference need not have every nugget
        skip_reasons={
            "no_nuggets": "the sample has no nuggets",
            "no_vital_nuggets": "none of its nuggets is vital, and only these count",
            **VerdictMetric.metadata.skip_reasons,
        },
        reference="Pradeep et al. 2024 (AutoNuggetizer), TREC 2024 RAG track",
        signature={
            "variant": "variant",
            "at_a_time": "at_a_time",
            "no_vital": SignatureOption("no_vital", unless="skip"),
        },
        option_help={"no_vital:zero": "a question without nuggets that count scores 0"},
    )
    _formula_text: ClassVar[str] = "what the answer has of the nuggets that count, by weight, over all that count"

    def applies(self, sample: EvaluationSample) -> str | None:
        """Skips samples without nuggets that count."""
        nuggets = _nuggets(sample)
        if nuggets is None:
            return None  # a failed measurement, reported with the answer
        if not nuggets:
            return "no_nuggets"
        scores = nugget_scores([(nugget.importance, 0.0) for nugget in nuggets])
        return "no_vital_nuggets" if scores[self.variant] is None and self.no_vital == "skip" else None

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether there are nuggets."""
        return bool(_nuggets(sample))

    def _known_outcome(self, sample: EvaluationSample, output: SystemOutputs) -> Score | Rating | None:
        """Unreadable nuggets, and empty answers."""
        nuggets = _nuggets(sample)
        if nuggets is None:
            return Score.fail("bad_nuggets")
        return None if response_text(output).strip() else _no_nuggets_found(nuggets)

    def failure_message(self, sample: EvaluationSample, output: SystemOutputs) -> str:
        """The problem in its nuggets."""
        try:
            sample_nuggets(sample)
        except AueporaError as error:
            return f"metadata.{error}"
        return ""

    async def _rate(self, evaluation: StatementEvaluation) -> Rating:
        """Every variant from the verdicts on all nuggets."""
        nuggets = _nuggets(evaluation.sample) or []
        texts = [nugget.text for nugget in nuggets]
        batches = [texts[start : start + self.at_a_time] for start in range(0, len(texts), self.at_a_time)]
        verdicts = await gather_all(evaluation.verify(batch, evaluation.answer) for batch in batches)
        levels = [float(verdict.level) for verdict in chain.from_iterable(verdicts)]
        scores = nugget_scores([(nugget.importance, level) for nugget, level in zip(nuggets, levels, strict=True)])
        return Rating((scores[self.variant] or 0.0,), counts=_nugget_counts(nuggets, scores))

    def _add_input_steps(
        self,
        steps: DerivationBuilder,
        sample: EvaluationSample,
        output: SystemOutputs,
        evaluations: Sequence[StatementEvaluation],
    ) -> None:
        """The answer, the nuggets and their importance."""
        super()._add_input_steps(steps, sample, output, evaluations)
        rows = [(nugget.text, nugget.importance) for nugget in _nuggets(sample) or ()]
        steps.table("The nuggets of the question", ("nugget", "importance"), rows)

    async def ascore(self, batch: Batch, judge: JudgeClient) -> Scores:
        """One outcome per sample; a failed answer has none of the nuggets in every variant."""
        scores = await super().ascore(batch, judge)
        assert scores.stats is not None
        for row in np.flatnonzero(scores.status == Status.SYSTEM_FAILED).tolist():
            result = _no_nuggets_found(_nuggets(batch.samples[row]) or [])
            for name, value in zip(self._own_counts, result.counts, strict=True):
                self._columns.count(scores, name)[row] = value
        return scores

    @property
    def worst_stats(self) -> Sequence[float]:
        """NaN keeps the statistics that ``ascore`` set for failed answers."""
        return [math.nan] * len(super().worst_stats)

    def further_details(self, scores: Scores, clusters: npt.NDArray[np.intp] | None) -> dict[str, Any]:
        """The general details, and the mean of every variant over the samples that have it."""
        details = super().further_details(scores, clusters)
        means: dict[str, float | None] = {}
        for variant in VARIANTS:
            details.pop(variant)
            column = np.zeros(0) if scores.stats is None else self._columns.count(scores, variant)[scores.counted]
            known = column[~np.isnan(column)]
            means[variant] = math.fsum(known) / len(known) if len(known) else None
        return {**details, "variants": means}


def _nuggets(sample: EvaluationSample) -> list[Nugget] | None:
    """The nuggets of a sample, an empty list without the key; ``None`` if they are invalid."""
    try:
        return sample_nuggets(sample) or []
    except AueporaError:
        return None


def _no_nuggets_found(nuggets: Sequence[Nugget]) -> Rating:
    """The result of an answer without any of the nuggets."""
    scores = nugget_scores([(nugget.importance, 0.0) for nugget in nuggets])
    return Rating((0.0,), counts=_nugget_counts(nuggets, scores))


def _nugget_counts(nuggets: Sequence[Nugget], scores: dict[str, float | None]) -> tuple[float, ...]:
    vital = sum(nugget.importance == "vital" for nugget in nuggets)
    values = (scores[variant] for variant in VARIANTS)
    return (len(nuggets), vital, len(nuggets) - vital, *(math.nan if value is None else value for value in values))
