"""Context quality and answer relevance by a judge: useful documents, needed sentences, reverse questions."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, Literal

from ..core.batch import Batch
from ..core.conventions import RankCutOff
from ..core.metrics_base import declare, set_metadata
from ..core.registry import register
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory, response_text
from ..errors import BadValueError, JudgeError
from ..features.embeddings import MODEL_ROUNDING, TextVectors, embed_texts, text_cosines
from ..judge.critic import SCORE, Critic, JudgeClient, Judgement, MemberReply, decides
from ..judge.prompting import Frames, Prompt
from ..judge.ratings import (
    UNIT_SCALE,
    Rating,
    ReplyForm,
    gather_all,
    object_schema,
    question_frames,
    returns_number_only,
    run_repeats,
)
from ..models.embedders import embedder_name, parse_embedder, require_embedder, resolve_embedder
from ..models.loading import find_installed_model
from ..options import PositiveInt
from ..text.sentences import split_sentences
from .judged_base import RepeatedJudgementMetric, average_precision, parse_critic, proportion

# --- retrieved documents: whether one is useful, and which of its sentences are needed -------------------------------

SENTENCES_PER_REQUEST = 60
"""Sentences in one request."""
_USEFULNESS = ReplyForm(
    'Reply with one JSON object and nothing else: {"why": "<why, in one sentence>", "useful": "yes" or "no"}',
    object_schema(why={"type": "string"}, useful={"type": "string", "enum": ["yes", "no"]}),
    "Reply with a number alone: 1 if it is useful, 0 if it is not.",
    {"yes": 1.0, "no": 0.0},
    lambda number: MemberReply({"useful": "yes" if _is_useful(number) else "no"}),
)
_SENTENCES_FORM = (
    'Reply with one JSON object and nothing else: {"needed": [<number>, ...]}, with the number of every sentence '
    "that is needed, or an empty list."
)


async def judge_usefulness(
    judge: JudgeClient,
    critic: Critic,
    document: str,
    *,
    question: Frames,
    answer: str,
    prompt: Prompt,
    metric: str,
    sample_id: str,
    repeat: int = 0,
    source_name: str = "",
) -> bool:
    """Whether a document helps to find the answer; one without text does not, and no call is made for it.

    From a critic that replies with a bare number, 1 means yes and 0 no; anything between is a failed judgement.
    """
    if not document.strip():
        return False
    request = _USEFULNESS.request(
        prompt,
        critic,
        {"question": question, "answer": answer, "document": document},
        metric=metric,
        sample_id=sample_id,
        repeat=repeat,
        about={"of": source_name},
    )
    judgement = await judge.ask(critic, request)
    if returns_number_only(critic):
        return _is_useful(UNIT_SCALE.normalise(judgement.answer.get("score")))
    key = SCORE if decides(critic) else "useful"
    word = judgement.answer.get(key)
    folded = word.strip().lower() if isinstance(word, str) else ""
    if folded not in ("yes", "no"):
        raise JudgeError("unparseable", f"the judge gave {word!r:.80} where yes or no was asked for", raw=judgement.raw)
    return folded == "yes"


def _is_useful(number: float) -> bool:
    if number not in (0.0, 1.0):
        raise JudgeError("unparseable", f"the judge gave {number!r} where 1 for yes or 0 for no was asked for")
    return number == 1.0


async def judge_needed_sentences(
    judge: JudgeClient,
    critic: Critic,
    sentences: Sequence[str],
    *,
    question: Frames,
    prompt: Prompt,
    metric: str,
    sample_id: str,
    repeat: int = 0,
    source_name: str = "",
) -> list[bool]:
    """Which sentences of a document are needed to answer a question, by a critic that replies with objects."""
    size = SENTENCES_PER_REQUEST
    parts = [sentences[start : start + size] for start in range(0, len(sentences), size)]

    requests = [
        ReplyForm(_SENTENCES_FORM, _sentences_schema(len(part))).request(
            prompt,
            critic,
            {
                "question": question,
                "sentences": {f"sentence {number}": sentence for number, sentence in enumerate(part, 1)},
            },
            metric=metric,
            sample_id=sample_id,
            repeat=repeat,
            about={"of": source_name, "sentences": list(part)},
        )
        for part in parts
    ]
    answers = await gather_all(judge.ask(critic, request) for request in requests)
    replies = zip(parts, answers, strict=True)
    return list(chain.from_iterable(_needed_flags(judgement, len(part)) for part, judgement in replies))


def _sentences_schema(count: int) -> dict[str, object]:
    return object_schema(needed={"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": count}})


def _needed_flags(judgement: Judgement, count: int) -> list[bool]:
    numbers = judgement.answer.get("needed")
    is_valid = isinstance(numbers, (list, tuple)) and all(
        isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= count for number in numbers
    )
    if not isinstance(numbers, (list, tuple)) or not is_valid:
        message = f"the judge gave {numbers!r:.80} where numbers of {count} sentences were asked for"
        raise JudgeError("unparseable", message, raw=judgement.raw)
    return [number in numbers for number in range(1, count + 1)]


# --- context precision and relevance: the judged documents of a ranking ----------------------------------------------


@dataclass(frozen=True)
class _JudgedContext(RepeatedJudgementMetric):
    """A metric over the first ``k`` retrieved documents, each judged by itself."""

    k: RankCutOff | None = field(default=None, kw_only=True)
    """How many of the returned documents count; all by default."""
    prompt: Any = field(default=None, kw_only=True, hash=False)
    """A custom prompt: the path of a file, or a ``Prompt``."""

    target = TargetCategory.RETRIEVAL_RELEVANCE
    metadata = declare(
        reads=frozenset({"retrieved"}),
        skip_reasons={"no_text": "the documents have no text"},
        reads_depth="k",
    )

    def _known_outcome(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """Nothing retrieved scores 0; documents that cannot be judged are skipped."""
        texts = [item.doc.text or "" for item in output.retrieved[: self.k]]
        if not texts:
            return Score(0.0)
        reason = self._skip_reason(sample, output) if any(text.strip() for text in texts) else "no_text"
        return None if reason is None else Score.skip(reason)

    def _skip_reason(self, sample: EvaluationSample, output: SystemOutputs) -> str | None:
        """The skip reason if the documents cannot be judged."""
        return None

    def _request_options(self, sample: EvaluationSample, repeat: int) -> dict[str, Any]:
        """Options of every request."""
        return {
            "question": question_frames(sample),
            "prompt": self.prompts_used[0],
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

    metadata = declare(
        output_skips=frozenset({"empty_answer"}),
        skip_reasons={
            "no_reference": "the sample has no reference answer, or an empty one",
            "no_response": "documents should be useful for the answer, and none was asked for",
            "empty_answer": "documents should be useful for the answer, which is empty",
            **_JudgedContext.metadata.skip_reasons,
        },
        reference="ragas (context precision)",
        prompt_names=("usefulness",),
        signature={"against": "against"},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.against == "answer":
            object.__setattr__(self, "needs_response", True)
            set_metadata(self, reads=frozenset({"response", "retrieved"}))

    def required_fields(self) -> list[str]:
        """A reference answer, unless documents are judged against the system's answer."""
        return ["reference_answer"] if self.against == "reference" else []

    def _skip_reason(self, sample: EvaluationSample, output: SystemOutputs) -> str | None:
        """Skips samples without an answer text."""
        if self._answer(sample, output).strip():
            return None
        return "no_reference" if self.against == "reference" else "empty_answer"

    def _answer(self, sample: EvaluationSample, output: SystemOutputs) -> str:
        answer = sample.reference_answer if self.against == "reference" else output.response
        return "" if answer is None else answer.text

    async def _judge_once(
        self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient, repeat: int
    ) -> tuple[None, Rating]:
        """The average precision."""
        critic, options = self._resolved_critic(), self._request_options(sample, repeat)
        answer = self._answer(sample, output)
        useful = await gather_all(
            judge_usefulness(judge, critic, item.doc.text or "", answer=answer, source_name=item.doc.doc_id, **options)
            for item in output.retrieved[: self.k]
        )
        return None, Rating((float(average_precision(useful)),))


@register("judged_context_relevance", at="k")
@dataclass(frozen=True)
class JudgedContextRelevance(_JudgedContext):
    r"""Proportion of the sentences in the first k retrieved documents that are needed to answer the question.

    .. math:: |\{s \in \text{documents} : s \text{ is needed}\}| / |\text{documents}|

    The definition of the RAGAS paper: the context should contain little besides the needed sentences. Sentences are
    split by rules and numbered, and the critic returns the numbers of the needed ones, document by document; it must be
    a structured critic. It needs neither reference nor answer. Nothing retrieved scores 0. ragas' code had the judge
    write the sentences down and divided the two sentence counts, whether or not those sentences occur in the documents;
    later versions use the mean of two grades of all documents together, from 0 to 2. A sentence that several documents
    repeat is needed in each.
    """

    metadata = declare(
        controls={"other_documents": False},  # most sentences of a gold document may not be needed
        output_skips=frozenset({"no_sentences"}),
        skip_reasons={
            **_JudgedContext.metadata.skip_reasons,
            "empty_query": "the query has no text",
            "no_sentences": "the documents hold no sentence with a letter or a digit",
        },
        reference="Es et al. 2023 (RAGAS)",
        prompt_names=("needed_sentences",),
    )

    _listed: ClassVar[str] = "sentences"

    def _skip_reason(self, sample: EvaluationSample, output: SystemOutputs) -> str | None:
        """Skips documents without sentences."""
        texts = (item.doc.text or "" for item in output.retrieved[: self.k])
        return None if any(map(split_sentences, texts)) else "no_sentences"

    async def _judge_once(
        self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient, repeat: int
    ) -> tuple[None, Rating]:
        """The proportion of needed sentences."""
        critic, options = self._resolved_critic(), self._request_options(sample, repeat)
        marked = await gather_all(
            judge_needed_sentences(
                judge, critic, split_sentences(item.doc.text or ""), source_name=item.doc.doc_id, **options
            )
            for item in output.retrieved[: self.k]
        )
        return None, Rating((float(proportion(list(chain.from_iterable(marked)))),))


# --- questions generated from an answer alone, to compare them with the original question ----------------------------


@dataclass(frozen=True, slots=True)
class GeneratedQuestions:
    """Questions that a judge generated from an answer."""

    questions: tuple[str, ...]
    noncommittal: bool
    """Whether the answer is evasive, or states that it does not know."""


async def generate_questions(
    judge: JudgeClient,
    critic: Critic,
    answer: str,
    *,
    count: int,
    prompt: Prompt,
    metric: str,
    sample_id: str,
    repeat: int = 0,
) -> GeneratedQuestions:
    """Generate exactly ``count`` questions; any other number is a failed judgement."""
    form = (
        f'Reply with one JSON object and nothing else: {{"noncommittal": true or false, "questions": ["<question>", '
        f"...]}}, with {count} question{'s' if count > 1 else ''}."
    )
    reply_form = ReplyForm(
        form,
        object_schema(
            noncommittal={"type": "boolean"},
            questions={"type": "array", "items": {"type": "string"}, "minItems": count, "maxItems": count},
        ),
    )
    request = reply_form.request(prompt, critic, {"answer": answer}, metric=metric, sample_id=sample_id, repeat=repeat)
    judgement = await judge.ask(critic, request)
    generated, evades = judgement.answer.get("questions"), judgement.answer.get("noncommittal")
    fits = isinstance(generated, (list, tuple)) and all(
        isinstance(question, str) and question.strip() for question in generated
    )
    if not isinstance(generated, (list, tuple)) or not fits or len(generated) != count or not isinstance(evades, bool):
        message = f"the judge gave {generated!r:.80} where {count} questions were asked for"
        if not isinstance(evades, bool):
            message = f"the judge gave {evades!r:.80} where true or false was asked for"
        raise JudgeError("unparseable", message, raw=judgement.raw)
    return GeneratedQuestions(tuple(question.strip() for question in generated), evades)


# --- answer relevance by reverse questions: generated from the answer and compared with the query --------------------


@dataclass(frozen=True, slots=True)
class _GuessedQuestions(Score):
    """A placeholder score with the generated questions from which it follows."""

    guesses: tuple[GeneratedQuestions, ...] = ()
    requested: int = 0


@register("reverse_question_relevance")
@dataclass(frozen=True)
class ReverseQuestionRelevance(RepeatedJudgementMetric):
    r"""Mean cosine of the query's vector with those of questions that a judge generates from the answer.

    .. math:: \frac{1}{n} \cdot \sum_i \text{cos}(v(\text{query}), v(q_i))

    The critic sees only the answer and writes `n` questions that it answers; those of a relevant answer are similar to
    the query. Whether the answer is true does not matter. `embed_fn` computes the vectors, as for
    `embedding_similarity`; the default is the installed sentence model, if there is one. An answer that the judge calls
    noncommittal scores 0, as in ragas' code; its paper has no such rule. The option `noncommittal` may be `skip`, which
    leaves such answers out, or `ignore`, which scores them like all others. ragas asks `n` times for one question, and
    an answer counts as noncommittal if any of the replies says so, in later versions if all do; here one reply contains
    all questions. An empty answer scores 0, and no judge is called. A failed answer counts as -1, the worst a cosine
    can be.
    """

    # Critics need not be hashable; metrics are compared by equality.
    critic: Any = field(default=None, hash=False, metadata={"convert": parse_critic})
    """The judge: a structured critic, or ``{use: NAME}`` in a plan."""
    embed_fn: Any = field(default=None, metadata={"convert": parse_embedder})
    """The embedder; the installed sentence model by default."""
    n: PositiveInt = field(default=3, kw_only=True)
    """The number of generated questions."""
    noncommittal: Literal["zero", "skip", "ignore"] = field(default="zero", kw_only=True)
    """The treatment of noncommittal answers."""
    prompt: Any = field(default=None, kw_only=True, hash=False)
    """A custom prompt: the path of a file, or a ``Prompt``."""

    metadata = declare(
        controls={},  # a cosine has no value from which on an answer is accepted
        output_skips=frozenset({"noncommittal"}),
        skip_reasons={
            "empty_query": "the query has no text",
            "no_response": "no answer was asked for",
            "noncommittal": "the answer evades, and such answers are to be skipped",
        },
        reference="Es et al. 2023 (RAGAS)",
        prompt_names=("reverse_questions",),
        range=(-1.0, 1.0),
    )
    _count_names = ("num_noncommittal", "num_truncated")
    """The numbers of noncommittal answers and of truncated texts."""
    rounding = MODEL_ROUNDING
    """The rounding tolerance of a model."""
    target = TargetCategory.GENERATION_RELEVANCE

    def embedder(self) -> Any:
        """The embedder option: the given one, or the installed sentence model."""
        if self.embed_fn is not None:
            return self.embed_fn
        installed = find_installed_model()
        return None if installed is None else parse_embedder(installed)

    def require_ready(self) -> None:
        """Raise unless a judge and an embedder are available."""
        super().require_ready()
        require_embedder(self._require_embedder())

    def _require_embedder(self) -> Any:
        found = self.embedder()
        if found is None:
            raise BadValueError(
                f"metric '{self.name}' needs an embedder: give embed_fn, such as "
                "{sentence_transformers: {model: PATH}}"
            )
        return found

    _listed: ClassVar[str] = "questions"

    def signature_options(self) -> dict[str, str]:
        """The judge, the number of questions, the embedder, and the treatment of noncommittal answers."""
        embedder = self.embedder()
        return {
            **super().signature_options(),
            "embed": "none" if embedder is None else embedder_name(embedder),
            "n": str(self.n),
            **({} if self.noncommittal == "zero" else {"noncommittal": self.noncommittal}),
        }

    # --- run on the event loop of the judges -----------------------------------------------------------------

    async def ascore(self, batch: Batch, judge: JudgeClient) -> Scores:
        """Outcomes without cosines, and the generated questions."""
        outcomes = await self._judge_batch(batch, judge)
        batch.feature(self._key, lambda _: outcomes)
        return Scores.from_list(outcomes)

    @property
    def _key(self) -> Hashable:
        return "reverse questions", self, self.active_conventions

    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient) -> Score:
        """The questions generated from one answer."""
        answer, critic = response_text(output), self._resolved_critic()
        if not answer.strip():
            return Score(0.0)

        async def once(repeat: int) -> GeneratedQuestions:
            request_options = {"metric": self.name, "sample_id": sample.sample_id}
            return await generate_questions(
                judge, critic, answer, count=self.n, prompt=self.prompts_used[0], repeat=repeat, **request_options
            )

        guesses, requested = await run_repeats(judge, once)
        return _GuessedQuestions(0.0, guesses=tuple(guesses), requested=requested)

    # --- run where all embedders run -------------------------------------------------------------------------

    def score(self, batch: Batch) -> Scores:
        """The mean cosine of each answer's questions with the query."""
        super().score(batch)  # judges now, unless it was done before
        outcomes: Sequence[Score] = batch.known(self._key) or []
        rows = [
            self._texts(sample.query, outcome) if isinstance(outcome, _GuessedQuestions) else []
            for sample, outcome in zip(batch.samples, outcomes, strict=True)
        ]
        vectors = embed_texts(batch, resolve_embedder(self._require_embedder()), rows) if any(rows) else TextVectors({})
        outcomes_with_cosines = [
            self._score_guesses(sample.query, outcome, vectors) if isinstance(outcome, _GuessedQuestions) else outcome
            for sample, outcome in zip(batch.samples, outcomes, strict=True)
        ]
        return self._with_columns(batch, outcomes_with_cosines)

    def _texts(self, query: str, guessed: _GuessedQuestions) -> list[str]:
        """The texts to embed; questions from noncommittal answers only if they are scored."""
        relevant = [guess for guess in guessed.guesses if self.noncommittal == "ignore" or not guess.noncommittal]
        return [query, *chain.from_iterable(guess.questions for guess in relevant)] if relevant else []

    def _score_guesses(self, query: str, guessed: _GuessedQuestions, vectors: TextVectors) -> Score:
        ratings: list[Rating] = []
        for guess in guessed.guesses:
            if guess.noncommittal and self.noncommittal != "ignore":
                if self.noncommittal == "zero":
                    ratings.append(Rating((0.0,), counts=(1.0, 0.0)))
                continue
            cosines = text_cosines(vectors, [(query, question) for question in guess.questions])
            problem = next(filter(None, cosines.problems), None)
            if problem is not None:
                return Score.fail(problem)
            mean = math.fsum(cosines.values) / len(guess.questions)
            cut = sum(map(vectors.was_cut, {query, *guess.questions}))
            ratings.append(Rating((mean,), counts=(float(guess.noncommittal), float(cut))))
        if not ratings:
            return Score.skip("noncommittal")
        return self._score(ratings, guessed.requested - len(guessed.guesses) + len(ratings))
