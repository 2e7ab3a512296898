"""Context quality by a judge: average precision of documents, and the proportion of needed sentences."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from ..core.metrics_base import RunInfo
from ..core.registry import register
from ..core.resources import parse_use
from ..core.scores import Score
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..judge.claims import require_structured_critic
from ..judge.critic import Critic, JudgeClient
from ..judge.document_judgements import judge_needed_sentences, judge_usefulness
from ..judge.prompting import Prompt, resolve_prompt
from ..judge.ratings import (
    Rating,
    RatingSet,
    critic_signature,
    gather_all,
    question_frames,
    require_critic,
    resolve_critic,
    run_repeats,
)
from ..text.sentences import split_sentences
from .answer_base import require_choice
from .claim_verdicts import average_precision, proportion
from .ranking import check_k
from .shared_judgements import SharedJudgementMixin

__all__ = ["JudgedContextPrecision", "JudgedContextRelevance"]


@dataclass(frozen=True)
class _JudgedContext(SharedJudgementMixin):
    """A metric over the first ``k`` retrieved documents, each judged by itself."""

    # Critics need not be hashable; metrics are compared by equality.
    critic: Any = field(default=None, hash=False)
    """The judge: a critic, or ``{use: NAME}`` in a plan."""
    k: int | None = field(default=None, kw_only=True)
    """How many of the returned documents count; all by default."""
    prompt: Any = field(default=None, kw_only=True)
    """A custom prompt: the path of a file, or a ``Prompt``."""
    own_prompt: Prompt | None = field(init=False, repr=False, default=None)
    """The custom prompt, loaded."""

    target = TargetCategory.RETRIEVAL_RELEVANCE
    python_options: ClassVar[frozenset[str]] = frozenset({"critic"})  # on the command line --judge-model names it
    reads: ClassVar[frozenset[str]] = frozenset({"retrieved"})
    skip_reasons: ClassVar[dict[str, str]] = {"no_text": "the documents have no text"}

    def __post_init__(self) -> None:
        object.__setattr__(self, "critic", parse_use(self.critic))
        require_critic(self.critic)
        check_k(self.k)
        if self.prompt is not None:
            object.__setattr__(self, "own_prompt", resolve_prompt(self.prompt, otherwise=self.prompt_names[0]))
        super().__post_init__()

    @property
    def prompt_used(self) -> Prompt:
        """The prompt in use."""
        return self.own_prompt or resolve_prompt(None, otherwise=self.prompt_names[0])

    def judging_critic(self) -> Critic:
        """The resolved critic."""
        return resolve_critic(self.critic, self.name)

    def require_ready(self) -> None:
        """Raise unless a judge is configured."""
        self.judging_critic()
        super().require_ready()

    def signature_options(self) -> dict[str, str]:
        """The judge and the prompt."""
        return {"critic": critic_signature(self.critic), "prompt": self.prompt_used.id}

    def run_signature_options(self, run: RunInfo) -> dict[str, str]:
        """The requested ``top_k``, if this metric reads more documents."""
        deep = self.k is None or (run.top_k is not None and run.top_k < self.k)
        return {"top_k": str(run.top_k)} if run.top_k is not None and deep else {}

    def require_judges(self) -> None:
        """Raise unless a judge is configured."""
        self.judging_critic()

    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient) -> Score:
        """The mean over the judgements of one sample."""
        texts = [(item.doc.doc_id, item.doc.text or "") for item in output.retrieved[: self.k]]
        if not texts:
            return Score(0.0)
        if not any(text.strip() for _, text in texts):
            return Score.skip("no_text")
        reason = self.skip_reason(sample, output)
        if reason is not None:
            return Score.skip(reason)

        async def once(repeat: int) -> Rating:
            return Rating((await self.value(texts, sample, output, judge, repeat),))

        ratings, requested = await run_repeats(judge, once)
        return self.score_ratings(RatingSet(tuple(ratings), requested))

    def skip_reason(self, sample: EvaluationSample, output: SystemOutputs) -> str | None:
        """The skip reason if the documents cannot be judged."""
        return None

    @abstractmethod
    async def value(
        self,
        texts: list[tuple[str, str]],
        sample: EvaluationSample,
        output: SystemOutputs,
        judge: JudgeClient,
        repeat: int,
    ) -> float:
        """The value of one judgement of all documents (id and text)."""

    def request_options(self, sample: EvaluationSample, repeat: int) -> dict[str, Any]:
        """Options of every request."""
        return {
            "question": question_frames(sample),
            "prompt": self.prompt_used,
            "metric": self.name,
            "sample_id": sample.sample_id,
            "repeat": repeat,
        }


@register("judged_context_precision", at="k")
@dataclass(frozen=True)
class JudgedContextPrecision(_JudgedContext):
    r"""Average precision of the first k retrieved documents, each judged useful or not for arriving at the answer.

    .. math:: \frac{1}{u} \cdot \sum_{i} [d_i \text{ is useful}] \cdot (\text{useful among } d_1, ..., d_i) / i

    u is the number of useful documents among those looked at, so it measures whether useful ones come first, not
    whether all were found. The critic judges each document by itself, given the question and the reference answer, or
    with `against: answer` the system's answer. A document without text is not useful. None useful, and nothing
    retrieved, scores 0. This is what ragas calls context precision (with `against: answer` context utilization; it adds
    1e-10 to u). RAGChecker's context precision is the share of relevant documents: `claim_context_precision`. `map`
    does the same with gold documents, and divides by all there are.
    """

    against: Literal["reference", "answer"] = field(default="reference", kw_only=True)
    """The answer that documents should be useful for."""

    prompt_names: ClassVar[tuple[str, ...]] = ("usefulness",)
    reference: ClassVar[str] = "ragas (context precision)"
    output_skips: ClassVar[frozenset[str]] = frozenset({"empty_answer"})
    skip_reasons: ClassVar[dict[str, str]] = {
        "no_reference": "the sample has no reference answer, or an empty one",
        "no_response": "documents should be useful for the answer, and none was asked for",
        "empty_answer": "documents should be useful for the answer, which is empty",
        **_JudgedContext.skip_reasons,
    }

    def __post_init__(self) -> None:
        require_choice("against", self.against, ("reference", "answer"))
        super().__post_init__()
        if self.against == "answer":
            object.__setattr__(self, "needs_response", True)
            object.__setattr__(self, "reads", frozenset({"response", "retrieved"}))

    def required_fields(self) -> list[str]:
        """A reference answer, unless documents are judged against the system's answer."""
        return ["reference_answer"] if self.against == "reference" else []

    def skip_reason(self, sample: EvaluationSample, output: SystemOutputs) -> str | None:
        """Skips samples without an answer text."""
        if self._answer(sample, output).strip():
            return None
        return "no_reference" if self.against == "reference" else "empty_answer"

    def _answer(self, sample: EvaluationSample, output: SystemOutputs) -> str:
        answer = sample.reference_answer if self.against == "reference" else output.response
        return "" if answer is None else answer.text

    async def value(
        self,
        texts: list[tuple[str, str]],
        sample: EvaluationSample,
        output: SystemOutputs,
        judge: JudgeClient,
        repeat: int,
    ) -> float:
        """The average precision."""
        critic, options = self.judging_critic(), self.request_options(sample, repeat)
        answer = self._answer(sample, output)
        useful = await gather_all(
            judge_usefulness(judge, critic, text, answer=answer, source_name=doc_id, **options)
            for doc_id, text in texts
        )
        return float(average_precision(useful))

    def signature_options(self) -> dict[str, str]:
        """The judge, and the answer compared with."""
        return {**super().signature_options(), "against": self.against}


@register("judged_context_relevance", at="k")
@dataclass(frozen=True)
class JudgedContextRelevance(_JudgedContext):
    r"""Share of the sentences in the first k retrieved documents that are needed to answer the question.

    .. math:: |\{s \in \text{documents} : s \text{ is needed}\}| / |\text{documents}|

    The definition of the RAGAS paper: the context should contain little besides the needed sentences. Sentences are
    split by rules and numbered, and the critic returns the numbers of the needed ones, document by document; it must be
    a structured critic. It needs neither reference nor answer. Nothing retrieved scores 0. ragas' code had the judge
    write the sentences down and divided the two sentence counts, whether or not those sentences occur in the documents;
    later versions use the mean of two grades of all documents together, from 0 to 2. A sentence that several documents
    repeat is needed in each.
    """

    prompt_names: ClassVar[tuple[str, ...]] = ("needed_sentences",)
    reference: ClassVar[str] = "Es et al. 2023 (RAGAS)"
    output_skips: ClassVar[frozenset[str]] = frozenset({"no_sentences"})
    skip_reasons: ClassVar[dict[str, str]] = {
        **_JudgedContext.skip_reasons,
        "empty_query": "the query has no text",
        "no_sentences": "the documents hold no sentence with a letter or a digit",
    }

    def judging_critic(self) -> Critic:
        """The resolved critic, which must return lists."""
        critic = super().judging_critic()
        require_structured_critic(critic, self.name, "sentences")
        return critic

    def applies(self, sample: EvaluationSample) -> str | None:
        """Skips empty queries."""
        return None if sample.query.strip() else "empty_query"

    def skip_reason(self, sample: EvaluationSample, output: SystemOutputs) -> str | None:
        """Skips documents without sentences."""
        texts = (item.doc.text or "" for item in output.retrieved[: self.k])
        return None if any(map(split_sentences, texts)) else "no_sentences"

    async def value(
        self,
        texts: list[tuple[str, str]],
        sample: EvaluationSample,
        output: SystemOutputs,
        judge: JudgeClient,
        repeat: int,
    ) -> float:
        """The proportion of needed sentences."""
        critic, options = self.judging_critic(), self.request_options(sample, repeat)
        marked = await gather_all(
            judge_needed_sentences(judge, critic, split_sentences(text), source_name=doc_id, **options)
            for doc_id, text in texts
        )
        return float(proportion([one for document in marked for one in document]))
