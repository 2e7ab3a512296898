"""Evaluation of the claims of one sample: extraction, verification and the counted proportions."""

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
    """A proportion, with its counts and label."""

    count: int
    of: int
    label: str
    """Label, such as ``claims of the answer that the documents support, over all of them``."""


class ClaimEvaluation:
    """The claims of one sample in one repeat of the judgement: extracts, verifies and counts them."""

    def __init__(
        self,
        metric: ClaimMetric,
        judge: JudgeClient,
        sample: EvaluationSample,
        output: SystemOutputs,
        repeat: int,
        *,
        extractor: Critic | None = None,
        checker: Critic | EntailmentFunction | NliModel | None = None,
    ) -> None:
        """``extractor`` and ``checker`` replace those of the metric, which then need not be available."""
        self.sample, self.output = sample, output
        self.scored_claims: list[str] = []
        """The claims that the score is about."""
        self.truncated = 0
        self.decomposed: list[tuple[Source, list[str]]] = []
        """The decomposed texts with their claims."""
        self.checked: list[CheckedStatements] = []
        """The verified statements, in the order of requests."""
        self.proportions: list[CountedProportion] = []
        """The proportions that make up the score."""
        self._metric, self._judge, self._extractor, self._checker = metric, judge, extractor, checker
        self._request_options: dict[str, Any] = {"metric": metric.name, "sample_id": sample.sample_id, "repeat": repeat}

    @property
    def answer(self) -> Source:
        """The answer of the system."""
        return Source("the answer", ("" if self.output.response is None else self.output.response.text,))

    @property
    def reference(self) -> Source:
        """The first reference answer."""
        reference = self.sample.reference_answer
        return Source("the reference", ("" if reference is None else reference.text,))

    @property
    def documents(self) -> list[Source]:
        """The documents that count as evidence."""
        return document_sources(self.output.retrieved[: getattr(self._metric, "k", None)])

    @property
    def documents_lack_text(self) -> bool:
        """Whether there are documents, but none has text."""
        return bool(self.documents) and not any(one.has_text for one in self.documents)

    async def extract_claims(self, of: Source) -> list[str]:
        """The claims of a text."""
        (text,) = of.texts
        claims = await self._extract(text, of.name)
        self.decomposed.append((of, claims))
        return claims

    async def _extract(self, text: str, name: str) -> list[str]:
        if self._metric.claims == "sentences":
            return list(dict.fromkeys(split_sentences(text)))
        return await extract_claims(
            self._judge,
            self._extractor or self._metric.extractor(),
            text,
            question=question_frames(self.sample),
            prompt=self._metric.prompt_used("claims"),
            source_name=name,
            **self._request_options,
        )

    async def extract_scored_claims(self, of: Source) -> list[str] | Score:
        """The claims that the score is about; a skip if there are none, or no text to compare them with."""
        if self.documents_lack_text:
            return Score.skip("no_text")
        self.scored_claims = await self.extract_claims(of)
        return self.scored_claims or Score.skip("no_reference_claims" if of == self.reference else "no_claims")

    async def extract_both(self) -> tuple[list[str], list[str]]:
        """The claims of the answer and those of the reference."""
        answer_claims, reference_claims = await gather_all(
            [self.extract_claims(self.answer), self.extract_claims(self.reference)]
        )
        return answer_claims, reference_claims

    async def check_support(self, claims: Sequence[str], by: Source) -> list[bool]:
        """Which claims a source supports, all its texts together."""
        statements = CheckedStatements(claims, by)
        self.checked.append(statements)
        prompt, verifier = self._metric.prompt_used("support"), self._checker or self._metric.checker()
        statements.verdicts = await check_support(
            self._judge, verifier, by.texts, claims, prompt=prompt, source_name=by.name, **self._request_options
        )
        self.truncated += sum(one.cut for one in statements.verdicts)
        return [one.supported for one in statements.verdicts]

    async def check_by_document(self, claims: Sequence[str]) -> list[list[bool]]:
        """Which claims each document supports by itself."""
        return await gather_all(self.check_support(claims, document) for document in self.documents)

    async def check_in_context(self, claims: Sequence[str]) -> list[bool]:
        """Which claims the documents support: together, or one of them alone."""
        if getattr(self._metric, "evidence", "joined") == "joined":
            return await self.check_support(claims, merge_sources(self.documents, "the documents"))
        return supported_by_any(await self.check_by_document(claims), len(claims))

    def add_proportion(self, value: Fraction, of: int, label: str) -> float:
        """Record a proportion with its label, and return it as a float."""
        self.proportions.append(CountedProportion(int(value * of), of, label))
        return float(value)
