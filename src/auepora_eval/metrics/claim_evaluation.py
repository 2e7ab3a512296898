"""What is asked about the claims of one answer, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ..core.scores import Score
from ..core.types import EvaluationSample, SystemOutputs
from ..judge.claims import extract_claims
from ..judge.critic import Critic, JudgeClient
from ..judge.entailment import EntailmentFunction, NliModel
from ..judge.ratings import gather_all, question_frames
from ..judge.support import check_support
from ..text.sentences import split_sentences
from .claim_verdicts import supported_by_any
from .sources import CheckedStatements, Source, document_sources, merge_sources

if TYPE_CHECKING:
    from .claim_base import ClaimMetric

__all__ = ["ClaimEvaluation", "CountedProportion"]


@dataclass(frozen=True, slots=True)
class CountedProportion:
    """A share that was counted, and of what."""

    count: int
    of: int
    words: str
    """Of what: ``claims of the answer that the documents support, over all of them``."""


class ClaimEvaluation:
    """What is asked about the claims of one answer, in one of several judgements, and what came of it."""

    def __init__(
        self,
        metric: ClaimMetric,
        judge: JudgeClient,
        sample: EvaluationSample,
        output: SystemOutputs,
        repeat: int,
        *,
        lister: Critic | None = None,
        checker: Critic | EntailmentFunction | NliModel | None = None,
    ) -> None:
        """``lister`` and ``checker`` stand in for those of the metric, which need not be at hand then."""
        self.sample, self.output = sample, output
        self.counted: list[str] = []
        """The claims that the metric is about."""
        self.truncated = 0
        self.taken: list[tuple[Source, list[str]]] = []
        """Which texts were taken apart into what."""
        self.held: list[CheckedStatements] = []
        """What was held against what, in the order of asking."""
        self.shares: list[CountedProportion] = []
        """What was counted of it."""
        self._metric, self._judge, self._lister, self._checker = metric, judge, lister, checker
        self._told: dict[str, Any] = {"metric": metric.name, "sample_id": sample.sample_id, "repeat": repeat}

    @property
    def answer(self) -> Source:
        """What the system said."""
        return Source("the answer", ("" if self.output.response is None else self.output.response.text,))

    @property
    def reference(self) -> Source:
        """The first reference answer."""
        given = self.sample.reference_answer
        return Source("the reference", ("" if given is None else given.text,))

    @property
    def documents(self) -> list[Source]:
        """The documents that count."""
        return document_sources(self.output.retrieved[: getattr(self._metric, "k", None)])

    @property
    def without_text(self) -> bool:
        """Whether there are documents, but none has text."""
        return bool(self.documents) and not any(one.has_text for one in self.documents)

    async def claims(self, of: Source) -> list[str]:
        """The claims of a text."""
        (text,) = of.texts
        found = await self._claims(text, of.name)
        self.taken.append((of, found))
        return found

    async def _claims(self, text: str, named: str) -> list[str]:
        if self._metric.claims == "sentences":
            return list(dict.fromkeys(split_sentences(text)))
        return await extract_claims(
            self._judge,
            self._lister or self._metric.extractor(),
            text,
            question=question_frames(self.sample),
            prompt=self._metric.prompt_used("claims"),
            source_name=named,
            **self._told,
        )

    async def counted_claims(self, of: Source) -> list[str] | Score:
        """The claims that the metric is about; a skip where there are none, or no text to hold them against."""
        if self.without_text:
            return Score.skip("no_text")
        self.counted = await self.claims(of)
        return self.counted or Score.skip("no_reference_claims" if of == self.reference else "no_claims")

    async def both_claims(self) -> tuple[list[str], list[str]]:
        """The claims of the answer and those of the reference."""
        first, second = await gather_all([self.claims(self.answer), self.claims(self.reference)])
        return first, second

    async def supported(self, claims: Sequence[str], by: Source) -> list[bool]:
        """Which claims a source supports, its texts taken together."""
        held = CheckedStatements(claims, by)
        self.held.append(held)
        prompt, who = self._metric.prompt_used("support"), self._checker or self._metric.checker()
        held.verdicts = await check_support(
            self._judge, who, by.texts, claims, prompt=prompt, source_name=by.name, **self._told
        )
        self.truncated += sum(one.cut for one in held.verdicts)
        return [one.supported for one in held.verdicts]

    async def by_document(self, claims: Sequence[str]) -> list[list[bool]]:
        """Which claims each document supports by itself."""
        return await gather_all(self.supported(claims, document) for document in self.documents)

    async def in_context(self, claims: Sequence[str]) -> list[bool]:
        """Which claims the documents support: together, or one of them alone."""
        if getattr(self._metric, "evidence", "joined") == "joined":
            return await self.supported(claims, merge_sources(self.documents, "the documents"))
        return supported_by_any(await self.by_document(claims), len(claims))

    def share(self, value: Fraction, of: int, words: str) -> float:
        """A share as a number, noted with what it is of."""
        self.shares.append(CountedProportion(int(value * of), of, words))
        return float(value)
