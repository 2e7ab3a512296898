"""Whether cited documents support the sentences of an answer, as ALCE and the TREC RAG track count it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from ..core.derivation import DerivationBuilder
from ..core.errors import BadTypeError
from ..core.registry import register
from ..core.scores import Score
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..judge.ratings import gather_all
from ..text.citation_marks import STYLES, Citation, CitedSentence, Style, cited_sentences
from .answer_base import require_choice, require_count
from .sources import Source, document_sources
from .support_proportions import (
    SentenceSupport,
    citation_f1,
    citation_precision,
    citation_recall,
    weighted_precision,
    weighted_recall,
)
from .verdict_base import VerdictMetric, VerdictResult, Verify

__all__ = [
    "CitationSupportF1",
    "CitationSupportPrecision",
    "CitationSupportRecall",
    "WeightedSupportPrecision",
    "WeightedSupportRecall",
]


@dataclass(frozen=True)
class CitationSupportMetric(VerdictMetric):
    """A metric over the sentences of an answer and their citations."""

    citations: Style = field(default="auto", kw_only=True)
    """Where citations are: `sentences` (a list in the output), `brackets` (`[1]`), `hash` (`[#1]`), `ids` (`[doc_id]`)
    in its text; `auto` uses the list if there is one, else any marker."""

    target = TargetCategory.GENERATION_FAITHFULNESS
    own_count_names: ClassVar[tuple[str, ...]] = ("num_sentences", "num_citations", "num_uncited", "num_out_of_range")
    reads: ClassVar[frozenset[str]] = frozenset({"response", "retrieved"})
    output_skips: ClassVar[frozenset[str]] = frozenset({"refused", "whole_answer", "no_sentences"})
    skip_reasons: ClassVar[dict[str, str]] = {
        "refused": "the system refused to answer, and says so in `refused`",
        "empty_answer": "the answer has no sentence",
        "no_sentences": "the list of sentences is asked for, and the answer has none",
        "whole_answer": "the answer cites as a whole, and none of its sentences does",
        "no_text": "a cited document has no text",
        **VerdictMetric.skip_reasons,
    }

    def __post_init__(self) -> None:
        require_choice("citations", self.citations, STYLES)
        super().__post_init__()

    def known_outcome(self, sample: EvaluationSample, output: SystemOutputs) -> Score | VerdictResult | None:
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
        if not any(one.citations for one in sentences) and output.citations:
            return Score.skip("whole_answer")
        judged = [one for sentence in sentences for one in self.judged_citations(sentence)]
        if any(not (output.retrieved[one.place].doc.text or "").strip() for one in judged if one.place is not None):
            return Score.skip("no_text")
        if all(one.place is None for one in judged):
            return VerdictResult(0.0, _citation_counts(sentences))
        return None

    def failure_message(self, sample: EvaluationSample, output: SystemOutputs) -> str:
        """The problem in its list of sentences."""
        try:
            _ = None if output.response is None else self._sentences(output)
        except BadTypeError as error:
            return f"response.sentences: {error}"
        return ""

    async def count(self, sample: EvaluationSample, output: SystemOutputs, verify: Verify) -> VerdictResult:
        """The value from the verdicts on all sentences."""
        sentences = self._sentences(output) or ()
        return VerdictResult(
            await self.value(sentences, document_sources(output.retrieved), verify), _citation_counts(sentences)
        )

    def add_input_steps(self, steps: DerivationBuilder, sample: EvaluationSample, output: SystemOutputs) -> None:
        """The sentences and their citations."""
        ids = [item.doc.doc_id for item in output.retrieved]
        rows = [
            (
                sentence.text,
                ", ".join(f"{one.written} (not there)" if one.place is None else ids[one.place] for one in cited),
            )
            for sentence in self._sentences(output) or ()
            for cited in [sentence.citations]
        ]
        steps.table("The sentences of the answer, and what they cite", ("sentence", "cites"), rows)

    def _sentences(self, output: SystemOutputs) -> tuple[CitedSentence, ...] | None:
        assert output.response is not None  # outputs without a response are skipped before
        ids = [item.doc.doc_id for item in output.retrieved]
        return cited_sentences(output.response.text, output.response.sentences, ids, self.citations)

    @abstractmethod
    def judged_citations(self, sentence: CitedSentence) -> Sequence[Citation]:
        """The citations of a sentence that a judge checks; none if the verdict is known."""

    @abstractmethod
    async def value(self, sentences: Sequence[CitedSentence], documents: Sequence[Source], verify: Verify) -> float:
        """The value of one answer with these retrieved documents."""

    def signature_options(self) -> dict[str, str]:
        """The judge and the citation style."""
        return {**super().signature_options(), "citations": self.citations}


def _citation_counts(sentences: Sequence[CitedSentence]) -> tuple[float, ...]:
    cited = [one for sentence in sentences for one in sentence.citations]
    uncited = sum(not sentence.citations for sentence in sentences)
    return len(sentences), len(cited), uncited, sum(one.place is None for one in cited)


# --- ALCE ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AlceMetric(CitationSupportMetric):
    """An ALCE metric: are sentences supported by all their citations together, and is each citation needed."""

    at_most_citations: int | None = field(default=3, kw_only=True)
    """How many citations of a sentence are checked; `null` for all."""

    reference: ClassVar[str] = "Gao et al. 2023 (ALCE), section 3.3"
    checks_each_citation: ClassVar[bool] = False
    """Whether each citation is checked on its own too."""

    def __post_init__(self) -> None:
        if self.at_most_citations is not None:
            require_count("at_most_citations", self.at_most_citations)
        super().__post_init__()

    def judged_citations(self, sentence: CitedSentence) -> Sequence[Citation]:
        """The first citations; none of a sentence that cites a document that was not retrieved."""
        if any(one.place is None for one in sentence.citations):
            return ()
        return sentence.citations[: self.at_most_citations]

    async def value(self, sentences: Sequence[CitedSentence], documents: Sequence[Source], verify: Verify) -> float:
        """The value from the support of each sentence."""
        return self.aggregate(await gather_all(self._supported(one, documents, verify) for one in sentences))

    @abstractmethod
    def aggregate(self, sentences: Sequence[SentenceSupport]) -> float:
        """The value from the support of each sentence."""

    async def _supported(self, sentence: CitedSentence, documents: Sequence[Source], verify: Verify) -> SentenceSupport:
        places = [one.place for one in self.judged_citations(sentence)]
        cited = [documents[place] for place in places if place is not None]
        if not cited:
            return SentenceSupport(len(sentence.citations[: self.at_most_citations]))

        async def is_supported(evidence: Sequence[Source]) -> bool:
            (verdict,) = await verify(evidence, [sentence.text])
            return verdict.supported

        async def is_redundant(place: int) -> bool:
            if await is_supported([cited[place]]):
                return False
            return await is_supported(cited[:place] + cited[place + 1 :])

        if not await is_supported(cited):
            return SentenceSupport(len(cited))
        redundant = (
            await gather_all(map(is_redundant, range(len(cited))))
            if self.checks_each_citation and len(cited) > 1
            else []
        )
        return SentenceSupport(len(cited), True, sum(redundant))

    def signature_options(self) -> dict[str, str]:
        """The judge, the citation style and the number of citations."""
        return {**super().signature_options(), "at_most": str(self.at_most_citations or "all")}


@register("citation_support_recall")
@dataclass(frozen=True)
class CitationSupportRecall(AlceMetric):
    r"""Share of the answer's sentences that the documents they cite support, taken together.

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

    formula_text: ClassVar[str] = "sentences that what they cite supports, over all sentences"

    def aggregate(self, sentences: Sequence[SentenceSupport]) -> float:
        """The proportion of supported sentences."""
        return citation_recall(sentences)


@register("citation_support_precision")
@dataclass(frozen=True)
class CitationSupportPrecision(AlceMetric):
    r"""Share of the answer's citations that belong to a supported sentence and are needed there.

    .. math:: |\{(s, c) : C_s \models s \,\wedge\, c \text{ is needed}\}| \,/\, \sum_s |C_s|

    C_s are the first `at_most_citations` documents that sentence s cites. A citation is redundant if its document alone
    does not support s, and the others do so without it. Citations of an unsupported sentence do not count. An answer
    without any citation scores 0, and no judge is called. Documents are checked one by one only if several support a
    sentence, so a preview cannot know the number of requests. Skips and details are those of `citation_support_recall`.

    ALCE's script differs from its paper, and from this: if a sentence cites a missing document, it leaves all its
    citations out of the count. Here they count as wrong.
    """

    checks_each_citation: ClassVar[bool] = True
    asks_follow_ups = True

    formula_text: ClassVar[str] = "citations of supported sentences that are needed there, over all citations"

    def aggregate(self, sentences: Sequence[SentenceSupport]) -> float:
        """The proportion of needed citations."""
        return citation_precision(sentences)


@register("citation_support_f1")
@dataclass(frozen=True)
class CitationSupportF1(AlceMetric):
    r"""The harmonic mean of `citation_support_precision` and `citation_support_recall`, answer by answer.

    .. math:: 2 P R \,/\, (P + R)

    It is 0 where both are. ALCE itself has no such number; others take the harmonic mean of the means over all answers,
    which is a different number.
    """

    checks_each_citation: ClassVar[bool] = True
    asks_follow_ups = True

    formula_text: ClassVar[str] = "the harmonic mean of precision and recall"

    def aggregate(self, sentences: Sequence[SentenceSupport]) -> float:
        """The harmonic mean of both."""
        return citation_f1(sentences)


# --- TREC RAG --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrecMetric(CitationSupportMetric):
    """A metric of the TREC RAG track: a citation supports its sentence fully, partially or not."""

    judged: Literal["first", "all"] = field(default="first", kw_only=True)
    """Which citations of a sentence count: the `first`, as in the track, or the mean of `all`."""

    reference: ClassVar[str] = "Thakur et al. 2025 (Support Evaluation for the TREC 2024 RAG Track)"

    def __post_init__(self) -> None:
        require_choice("judged", self.judged, ("first", "all"))
        super().__post_init__()

    def judged_citations(self, sentence: CitedSentence) -> Sequence[Citation]:
        """The first one, or all."""
        return sentence.citations[:1] if self.judged == "first" else sentence.citations

    async def value(self, sentences: Sequence[CitedSentence], documents: Sequence[Source], verify: Verify) -> float:
        """The value from the weights of the citations."""

        async def weight(sentence: CitedSentence, citation: Citation) -> float:
            if citation.place is None:
                return 0.0
            (verdict,) = await verify([documents[citation.place]], [sentence.text])
            return float(verdict.level)

        async def weights(sentence: CitedSentence) -> list[float]:
            return await gather_all(weight(sentence, one) for one in self.judged_citations(sentence))

        return self.aggregate(await gather_all(map(weights, sentences)))

    @abstractmethod
    def aggregate(self, sentences: Sequence[Sequence[float]]) -> float:
        """The value from the weights of each sentence's citations."""

    def signature_options(self) -> dict[str, str]:
        """The judge, the citation style, and which citations count."""
        return {**super().signature_options(), "judged": self.judged}


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

    formula_text: ClassVar[str] = "what citations weigh (full 1, partial 1/2, none 0), over the sentences that cite"

    def aggregate(self, sentences: Sequence[Sequence[float]]) -> float:
        """Over the sentences that cite."""
        return weighted_precision(sentences)


@register("weighted_support_recall")
@dataclass(frozen=True)
class WeightedSupportRecall(TrecMetric):
    r"""How far citations support the sentences of an answer, over all sentences: TREC RAG's weighted recall.

    .. math:: \sum_{s : C_s \ne \emptyset} w(s) \,/\, |S|

    The weights are those of `weighted_support_precision`; a sentence that cites nothing weighs 0. Neither the track nor
    this metric treats sentences that need no citation specially. Skips and details are those of
    `citation_support_recall`.
    """

    formula_text: ClassVar[str] = "what citations weigh (full 1, partial 1/2, none 0), over all sentences"

    def aggregate(self, sentences: Sequence[Sequence[float]]) -> float:
        """Over all sentences."""
        return weighted_recall(sentences)
