"""Does the answer answer what was asked: questions guessed from it, held against the one that was."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from ..core.batch import Batch
from ..core.errors import BadValueError
from ..core.registry import register
from ..core.resources import parse_use
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..features.embeddings import MODEL_ROUNDING, TextVectors, embed_texts, text_cosines
from ..judge.claims import require_structured_critic
from ..judge.critic import Critic, JudgeClient
from ..judge.prompting import Prompt, resolve_prompt
from ..judge.question_generation import GeneratedQuestions, generate_questions
from ..judge.ratings import Rating, RatingSet, critic_signature, require_critic, resolve_critic, run_repeats
from ..judge.sharing import SharedJudgeClient
from ..semantic.embedders import embedder_name, parse_embedder, require_embedder, resolve_embedder
from ..semantic.models import find_installed_model
from .answer_base import require_choice, require_count
from .repeated_judgements import RepeatedJudgementMetric
from .semantic_base import note_truncation

__all__ = ["ReverseQuestionRelevance"]


@dataclass(frozen=True, slots=True)
class _GuessedQuestions(Score):
    """In the place of a score: the questions from which it will follow."""

    each: tuple[GeneratedQuestions, ...] = ()
    asked: int = 0


@register("reverse_question_relevance")
@dataclass(frozen=True)
class ReverseQuestionRelevance(RepeatedJudgementMetric):
    r"""Mean cosine of the query's vector with those of questions that a judge guesses from the answer.

    .. math:: \frac{1}{n} \cdot \sum_i \text{cos}(v(\text{query}), v(q_i))

    The critic is shown the answer alone and writes `n` questions that it answers; an answer to the point leads back to
    what was asked, one that is incomplete or rambles does not. Whether it is true does not matter. `embed_fn` makes the
    vectors, as for `embedding_similarity`; without it the sentence model that is installed does, where there is one.
    An answer that is noncommittal, by the judge, scores 0, as in ragas' code; its paper has no such rule. The option
    `noncommittal` may be `skip`, which leaves such answers out, or `ignore`, which scores them like all others. ragas
    asks `n` times for one question, and an answer counts as noncommittal if any of the replies says so, in later
    versions if all do; here one reply gives all questions. An empty answer scores 0, and nobody is asked. A failed
    answer counts as -1, the worst a cosine can be.
    """

    # Critics need not be hashable; equality is enough to tell two metrics apart.
    critic: Any = field(default=None, hash=False)
    """Who guesses: a critic that answers with objects, or ``{use: NAME}`` in a plan."""
    embed_fn: Any = None
    """What makes the vectors; the sentence model that is installed unless told."""
    n: int = field(default=3, kw_only=True)
    """How many questions are guessed."""
    noncommittal: Literal["zero", "skip", "ignore"] = field(default="zero", kw_only=True)
    """What becomes of an answer that evades."""
    prompt: Any = field(default=None, kw_only=True)
    """Another prompt: the path of a file, or a ``Prompt``."""
    own_prompt: Prompt | None = field(init=False, repr=False, default=None)
    """That prompt, read."""

    range = (-1.0, 1.0)
    prompt_names: ClassVar[tuple[str, ...]] = ("reverse_questions",)
    target = TargetCategory.GENERATION_RELEVANCE
    python_options: ClassVar[frozenset[str]] = frozenset({"critic"})  # on the command line --judge-model names it
    reads: ClassVar[frozenset[str]] = frozenset({"response"})
    reference: ClassVar[str] = "Es et al. 2023 (RAGAS)"
    output_skips: ClassVar[frozenset[str]] = frozenset({"noncommittal"})
    skip_reasons: ClassVar[dict[str, str]] = {
        "empty_query": "the query has no text",
        "no_response": "no answer was asked for",
        "noncommittal": "the answer evades, and such answers are to be skipped",
    }

    def __post_init__(self) -> None:
        object.__setattr__(self, "critic", parse_use(self.critic))
        require_critic(self.critic)
        if self.embed_fn is not None:
            object.__setattr__(self, "embed_fn", parse_embedder(self.embed_fn))
        require_count("n", self.n)
        require_choice("noncommittal", self.noncommittal, ("zero", "skip", "ignore"))
        if self.prompt is not None:
            object.__setattr__(self, "own_prompt", resolve_prompt(self.prompt, otherwise=self.prompt_names[0]))
        super().__post_init__()

    @property
    def prompt_used(self) -> Prompt:
        """What the critic is asked with."""
        return self.own_prompt or resolve_prompt(None, otherwise=self.prompt_names[0])

    @property
    def count_names(self) -> tuple[str, ...]:
        """How many answers evade, and how many texts were longer than the embedder reads."""
        return "num_noncommittal", "num_truncated"

    @property
    def rounding(self) -> float:
        """What a model's last digits may come to."""
        return MODEL_ROUNDING

    def embedder(self) -> Any:
        """What makes the vectors, as an option: the one given, or the sentence model that is installed."""
        if self.embed_fn is not None:
            return self.embed_fn
        installed = find_installed_model()
        return None if installed is None else parse_embedder(installed)

    def require_ready(self) -> None:
        """Raise unless there is somebody to ask and something that makes vectors."""
        self._guesser()
        require_embedder(self._require_embedder())
        super().require_ready()

    def _require_embedder(self) -> Any:
        found = self.embedder()
        if found is None:
            raise BadValueError(
                f"metric '{self.name}' needs something that makes vectors: give embed_fn, such as "
                "{sentence_transformers: {model: PATH}}"
            )
        return found

    def _guesser(self) -> Critic:
        critic = resolve_critic(self.critic, self.name)
        require_structured_critic(critic, self.name, "questions")
        return critic

    def applies(self, sample: EvaluationSample) -> str | None:
        """There must be a question to come back to."""
        return None if sample.query.strip() else "empty_query"

    def signature_options(self) -> dict[str, str]:
        """Who guesses how many questions, what makes the vectors, and what becomes of answers that evade."""
        embedder = self.embedder()
        return {
            "critic": critic_signature(self.critic),
            "prompt": self.prompt_used.id,
            "embed": "none" if embedder is None else embedder_name(embedder),
            "n": str(self.n),
            **({} if self.noncommittal == "zero" else {"noncommittal": self.noncommittal}),
        }

    # --- asked on the loop of the judges ------------------------------------------------------------------------------

    async def ascore(self, batch: Batch, judge: JudgeClient) -> Scores:
        """Outcomes without the cosines, and the questions from which these will follow."""
        self._guesser()  # a mistake to be told at once, not sample by sample
        shared = SharedJudgeClient(batch, judge, self.name)
        outcomes = await asyncio.gather(
            *(
                self._ascore_checked(batch, sample, output, shared, answered=answered)
                for sample, output, answered in self.rows(batch)
            )
        )
        batch.feature(self._key, lambda _: outcomes)
        return Scores.from_list(list(outcomes))

    @property
    def _key(self) -> Hashable:
        return "reverse questions", self, self.active_conventions

    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient) -> Score:
        """The questions guessed from one answer."""
        assert output.response is not None  # an output without one is skipped before it gets here
        answer, critic = output.response.text, self._guesser()
        if not answer.strip():
            return Score(0.0)

        async def once(repeat: int) -> GeneratedQuestions:
            told = {"metric": self.name, "sample_id": sample.sample_id}
            return await generate_questions(
                judge, critic, answer, count=self.n, prompt=self.prompt_used, repeat=repeat, **told
            )

        came, asked = await run_repeats(judge, once)
        return _GuessedQuestions(0.0, each=tuple(came), asked=asked)

    # --- scored where all embedders are asked -------------------------------------------------------------------------

    def score(self, batch: Batch) -> Scores:
        """The mean cosine of each answer's questions with the query."""
        super().score(batch)  # asked now, where nobody did so ahead
        outcomes: Sequence[Score] = batch.known(self._key) or []
        rows = [
            self._texts(sample.query, outcome) if isinstance(outcome, _GuessedQuestions) else []
            for sample, outcome in zip(batch.samples, outcomes, strict=True)
        ]
        vectors = embed_texts(batch, resolve_embedder(self._require_embedder()), rows) if any(rows) else TextVectors({})
        scored = [
            self._settled(sample.query, outcome, vectors) if isinstance(outcome, _GuessedQuestions) else outcome
            for sample, outcome in zip(batch.samples, outcomes, strict=True)
        ]
        found = self.to_scores(scored)
        note_truncation(batch, self.name, self.counted(found, "num_truncated"))
        return found

    def _texts(self, query: str, guessed: _GuessedQuestions) -> list[str]:
        """What vectors are needed of: where answers that evade are not looked at, not of their questions."""
        each = [one for one in guessed.each if self.noncommittal == "ignore" or not one.noncommittal]
        return [query, *(question for one in each for question in one.questions)] if each else []

    def _settled(self, query: str, guessed: _GuessedQuestions, vectors: TextVectors) -> Score:
        ratings: list[Rating] = []
        for guess in guessed.each:
            if guess.noncommittal and self.noncommittal != "ignore":
                if self.noncommittal == "zero":
                    ratings.append(Rating((0.0,), counts=(1.0, 0.0)))
                continue
            cosines = text_cosines(vectors, [(query, one) for one in guess.questions])
            problem = next(filter(None, cosines.problems), None)
            if problem is not None:
                return Score.fail(problem)
            mean = math.fsum(cosines.values) / len(guess.questions)
            cut = sum(map(vectors.was_cut, {query, *guess.questions}))
            ratings.append(Rating((mean,), counts=(float(guess.noncommittal), float(cut))))
        if not ratings:
            return Score.skip("noncommittal")
        return self.scored(RatingSet(tuple(ratings), guessed.asked - len(guessed.each) + len(ratings)))
