"""Rating prompts: send them to any kind of critic, repeat them, and parse the replies into ratings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..core.errors import BadTypeError, BadValueError, JudgeError
from ..core.resources import Use, resolve
from ..core.types import EvaluationSample
from .critic import Critic, JudgeClient, Judgement, JudgeRequest, LLMCritic, StructuredCritic, critic_name
from .prompting import Frames, Prompt
from .scale import Scale

__all__ = [
    "SCORE",
    "Rating",
    "RatingPrompt",
    "RatingSet",
    "critic_signature",
    "gather_all",
    "parse_rating",
    "question_frames",
    "request_ratings",
    "require_critic",
    "resolve_critic",
    "returns_number_only",
    "run_repeats",
    "supports_logprobs",
]

T = TypeVar("T")
SCORE = "score"
"""The key of the score in a reply with a single score."""


def returns_number_only(critic: object) -> bool:
    """Whether a critic replies with a bare number, so that each score needs its own request."""
    return isinstance(critic, LLMCritic) or bool(getattr(critic, "one_number", False))


def supports_logprobs(critic: object) -> bool:
    """Whether a critic reports token log-probabilities, so that a score can be an expected value."""
    return bool(getattr(critic, "logprobs", False))


def require_critic(critic: object) -> None:
    """Raise unless an option is a critic, a reference to one, or ``None``."""
    if critic is not None and not isinstance(critic, (LLMCritic, StructuredCritic, Use)):
        raise BadTypeError(f"critic must be an LLMCritic, a StructuredCritic or {{use: NAME}}, not {critic!r:.80}")


def resolve_critic(critic: object, metric: str) -> Critic:
    """The critic that an option stands for; raises if there is none."""
    resolved = resolve(critic, what=f"the critic of metric '{metric}'")
    if isinstance(resolved, (LLMCritic, StructuredCritic)):
        return resolved
    if resolved is None:
        raise BadValueError(
            f"metric '{metric}' needs a critic: pass critic=..., or in a plan "
            f"{{{metric}: {{critic: {{use: judge}}}}}} with the judge under 'resources', or on the command line "
            "--judge-model NAME"
        )
    raise BadTypeError(
        f"the critic of metric '{metric}' must be an LLMCritic or a StructuredCritic, not {resolved!r:.80}"
    )


def critic_signature(critic: object) -> str:
    """A critic as a signature shows it."""
    if isinstance(critic, Use):
        critic = critic.thing if critic.thing is not None else f"resource {critic.name}"
    name = "none" if critic is None else critic if isinstance(critic, str) else critic_name(critic)
    return name.replace("|", "/")


def question_frames(sample: EvaluationSample) -> Frames:
    """The query of a sample, preceded by the conversation so far if there is one."""
    if not sample.history:
        return sample.query
    return {"conversation": "\n".join(map(_format_turn, sample.history)), "question": sample.query}


def _format_turn(turn: Mapping[str, Any]) -> str:
    if isinstance(turn, Mapping) and set(turn) == {"role", "content"}:
        return f"{turn['role']}: {turn['content']}"
    return json.dumps(turn, ensure_ascii=False, default=str)


@dataclass(frozen=True, slots=True)
class RatingPrompt:
    """A prompt about one sample that asks for one number on the scale per name."""

    prompt: Prompt
    texts: Mapping[str, Frames]
    scale: Scale
    names: tuple[str, ...] = (SCORE,)
    criteria: Mapping[str, str] = field(default_factory=dict)
    """The meaning of each name, if the prompt has a slot for it."""
    rationale: bool = True
    metric: str = ""
    sample_id: str = ""

    def requests(self, critic: Critic, repeat: int) -> list[tuple[tuple[str, ...], JudgeRequest]]:
        """The requests to send, each with the names its reply covers: one for all names, or one per name.

        A critic that replies with a bare number, or with log-probabilities, is asked for one score at a time.
        """
        weighted = supports_logprobs(critic) and self.scale.is_integer
        if returns_number_only(critic) or weighted:
            return [((name,), self._request(critic, (name,), repeat, weighted=weighted)) for name in self.names]
        return [(self.names, self._request(critic, self.names, repeat, weighted=False))]

    def _request(self, critic: Critic, names: tuple[str, ...], repeat: int, *, weighted: bool) -> JudgeRequest:
        bare = returns_number_only(critic)
        fields = (SCORE,) if len(names) == 1 else names
        words = {"scale": self.scale.description, "form": self._bare_form() if bare else self._form(fields)}
        if "criteria" in self.prompt.slots:
            words["criteria"] = "\n".join(f"- {name}: {self.criteria[name]}" for name in names)
        system, text = self.prompt.render(words=words, **self.texts)
        metadata: dict[str, Any] = {"scale": str(self.scale), "metric": self.metric, "sample_id": self.sample_id}
        if names != (SCORE,):
            metadata["dimension"] = names[0] if len(names) == 1 else list(names)
        return JudgeRequest(
            # An LLMCritic gets a single string: the instructions must be in it.
            prompt=f"{system}\n\n{text}" if bare else text,
            system="" if bare else system,
            schema=self._schema(fields, rationale=self.rationale and not bare),
            prompt_id=self.prompt.id,
            weighted=SCORE if weighted else None,
            repeat=repeat,
            metric=self.metric,
            sample_id=self.sample_id,
            metadata=metadata,
        )

    def _bare_form(self) -> str:
        return f"Reply with the score alone, {self.scale.description}, and nothing else."

    def _form(self, fields: Sequence[str]) -> str:
        parts = [f'"{name}": <score>' for name in fields]
        if self.rationale:  # before the scores: what is written first shapes what follows
            parts.insert(0, '"rationale": "<why, in one or two sentences>"')
        return f"Reply with one JSON object and nothing else: {{{', '.join(parts)}}}"

    def _schema(self, fields: Sequence[str], *, rationale: bool) -> dict[str, Any]:
        properties: dict[str, Any] = {"rationale": {"type": "string"}} if rationale else {}
        properties |= dict.fromkeys(fields, self.scale.schema)
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }


@dataclass(frozen=True, slots=True)
class Rating:
    """One judgement of one sample: numbers between 0 and 1, in the order of the names."""

    values: tuple[float, ...]
    num_weighted: int = 0
    """How many of them are expected scores, weighted by probability."""
    num_unweighted: int = 0
    """How many should have been, but the probabilities were missing or covered too little."""
    masses: tuple[float, ...] = ()
    """Probability mass on the labels, where it was reported."""
    counts: tuple[float, ...] = ()
    """Counts that accompany the scores, such as the number of claims."""


@dataclass(frozen=True, slots=True)
class RatingSet:
    """The successful ratings of one sample."""

    ratings: tuple[Rating, ...]
    num_requested: int


async def request_ratings(judge: JudgeClient, critic: Critic, question: RatingPrompt) -> RatingSet:
    """Ask once per repeat of the session; ``JudgeError`` if every repeat failed."""

    async def once(repeat: int) -> Rating:
        requests = question.requests(critic, repeat)
        answers = await gather_all(judge.ask(critic, request) for _, request in requests)
        return parse_rating(requests, answers, question.scale)

    ratings, num_requested = await run_repeats(judge, once)
    return RatingSet(tuple(ratings), num_requested)


def parse_rating(
    requests: Sequence[tuple[tuple[str, ...], JudgeRequest]], answers: Sequence[Judgement], scale: Scale
) -> Rating:
    """The rating formed by the replies to these requests."""
    scores = [
        _parse_score(answer, SCORE if len(names) == 1 else name, request, scale)
        for (names, request), answer in zip(requests, answers, strict=True)
        for name in names
    ]
    return Rating(
        values=tuple(value for value, _, _ in scores),
        num_weighted=sum(weighted is True for _, weighted, _ in scores),
        num_unweighted=sum(weighted is False for _, weighted, _ in scores),
        masses=tuple(mass for _, _, mass in scores if mass is not None),
    )


async def gather_all(awaitables: Iterable[Awaitable[T]]) -> list[T]:
    """The results of all awaitables; if any failed, the first error, raised after all have finished."""
    outcomes = await asyncio.gather(*awaitables, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


def _parse_score(
    answer: Judgement, name: str, request: JudgeRequest, scale: Scale
) -> tuple[float, bool | None, float | None]:
    """A score between 0 and 1, whether it is weighted (``None`` if not requested), and the probability mass."""
    if request.weighted is None:
        return scale.normalise(answer.answer.get(name)), None, None
    if answer.weighted is not None:
        return scale.normalise(answer.weighted), True, answer.mass
    return scale.normalise(answer.answer.get(name)), False, answer.mass


async def run_repeats(judge: JudgeClient, once: Callable[[int], Awaitable[T]]) -> tuple[list[T], int]:
    """The results of one call per repeat and the number of calls; ``JudgeError`` if every call failed."""
    num_requested = judge.repeats
    outcomes = await asyncio.gather(*(once(repeat) for repeat in range(num_requested)), return_exceptions=True)
    results: list[T] = []
    errors: list[JudgeError] = []
    for outcome in outcomes:
        if isinstance(outcome, JudgeError):
            errors.append(outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            results.append(outcome)
    if not results:
        raise errors[0]
    return results, num_requested
