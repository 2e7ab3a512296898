"""Putting a question to a critic, whichever kind it is, as often as a session wants, and reading the answers."""

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
"""What the number is called where one is asked for."""


def returns_number_only(critic: object) -> bool:
    """Whether a critic gives a bare number, so that each number is asked for by itself."""
    return isinstance(critic, LLMCritic) or bool(getattr(critic, "one_number", False))


def supports_logprobs(critic: object) -> bool:
    """Whether a critic can weigh the labels of a scale by their probabilities."""
    return bool(getattr(critic, "logprobs", False))


def require_critic(critic: object) -> None:
    """Raise unless an option is a critic, stands for one, or is still open."""
    if critic is not None and not isinstance(critic, (LLMCritic, StructuredCritic, Use)):
        raise BadTypeError(f"critic must be an LLMCritic, a StructuredCritic or {{use: NAME}}, not {critic!r:.80}")


def resolve_critic(critic: object, metric: str) -> Critic:
    """The critic itself, for scoring."""
    found = resolve(critic, what=f"the critic of metric '{metric}'")
    if isinstance(found, (LLMCritic, StructuredCritic)):
        return found
    if found is None:
        raise BadValueError(
            f"metric '{metric}' needs somebody to ask: give it critic=..., or in a plan "
            f"{{{metric}: {{critic: {{use: judge}}}}}} with the judge under 'resources', or on the command line "
            "--judge-model NAME"
        )
    raise BadTypeError(f"the critic of metric '{metric}' must be an LLMCritic or a StructuredCritic, not {found!r:.80}")


def critic_signature(critic: object) -> str:
    """A critic in a signature."""
    if isinstance(critic, Use):
        critic = critic.thing if critic.thing is not None else f"resource {critic.name}"
    name = "none" if critic is None else critic if isinstance(critic, str) else critic_name(critic)
    return name.replace("|", "/")


def question_frames(sample: EvaluationSample) -> Frames:
    """What was asked, and before it the conversation so far where there is one."""
    if not sample.history:
        return sample.query
    return {"conversation": "\n".join(map(_format_turn, sample.history)), "question": sample.query}


def _format_turn(turn: Mapping[str, Any]) -> str:
    if isinstance(turn, Mapping) and set(turn) == {"role", "content"}:
        return f"{turn['role']}: {turn['content']}"
    return json.dumps(turn, ensure_ascii=False, default=str)


@dataclass(frozen=True, slots=True)
class RatingPrompt:
    """What is asked about one sample: for each name a number on the scale."""

    prompt: Prompt
    texts: Mapping[str, Frames]
    scale: Scale
    names: tuple[str, ...] = (SCORE,)
    criteria: Mapping[str, str] = field(default_factory=dict)
    """What each name means, where the prompt has a slot for it."""
    rationale: bool = True
    metric: str = ""
    sample_id: str = ""

    def requests(self, critic: Critic, repeat: int) -> list[tuple[tuple[str, ...], JudgeRequest]]:
        """The requests to send, each with the names its answer is about: one for all, or one for each.

        A bare number is one number, and a judge that tells probabilities weighs one number at a time.
        """
        weighted = supports_logprobs(critic) and self.scale.whole
        if returns_number_only(critic) or weighted:
            return [((name,), self._request(critic, (name,), repeat, weighted=weighted)) for name in self.names]
        return [(self.names, self._request(critic, self.names, repeat, weighted=False))]

    def _request(self, critic: Critic, names: tuple[str, ...], repeat: int, *, weighted: bool) -> JudgeRequest:
        bare = returns_number_only(critic)
        fields = (SCORE,) if len(names) == 1 else names
        words = {"scale": self.scale.words, "form": self._bare_form() if bare else self._form(fields)}
        if "criteria" in self.prompt.slots:
            words["criteria"] = "\n".join(f"- {name}: {self.criteria[name]}" for name in names)
        system, text = self.prompt.render(words=words, **self.texts)
        told: dict[str, Any] = {"scale": str(self.scale), "metric": self.metric, "sample_id": self.sample_id}
        if names != (SCORE,):
            told["dimension"] = names[0] if len(names) == 1 else list(names)
        return JudgeRequest(
            # A critic of the small kind is handed one text: the instructions must be in it.
            prompt=f"{system}\n\n{text}" if bare else text,
            system="" if bare else system,
            schema=self._schema(fields, rationale=self.rationale and not bare),
            prompt_id=self.prompt.id,
            weighted=SCORE if weighted else None,
            repeat=repeat,
            metric=self.metric,
            sample_id=self.sample_id,
            metadata=told,
        )

    def _bare_form(self) -> str:
        return f"Reply with the score alone, {self.scale.words}, and nothing else."

    def _form(self, fields: Sequence[str]) -> str:
        shown = [f'"{name}": <score>' for name in fields]
        if self.rationale:  # before the scores: what is written first shapes what follows
            shown.insert(0, '"rationale": "<why, in one or two sentences>"')
        return f"Reply with one JSON object and nothing else: {{{', '.join(shown)}}}"

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
    """How many of them are means weighted by probability."""
    num_unweighted: int = 0
    """How many should have been, but the probabilities covered too little or were not told."""
    masses: tuple[float, ...] = ()
    """How much probability fell on the labels, where it was told."""
    counts: tuple[float, ...] = ()
    """What is counted beside the numbers, such as claims."""


@dataclass(frozen=True, slots=True)
class RatingSet:
    """The judgements of one sample that came, of those asked for."""

    each: tuple[Rating, ...]
    asked: int


async def request_ratings(judge: JudgeClient, critic: Critic, question: RatingPrompt) -> RatingSet:
    """Ask as often as the session repeats; ``JudgeError`` where no judgement came."""

    async def once(repeat: int) -> Rating:
        requests = question.requests(critic, repeat)
        answers = await gather_all(judge.ask(critic, request) for _, request in requests)
        return parse_rating(requests, answers, question.scale)

    came, asked = await run_repeats(judge, once)
    return RatingSet(tuple(came), asked)


def parse_rating(
    requests: Sequence[tuple[tuple[str, ...], JudgeRequest]], answers: Sequence[Judgement], scale: Scale
) -> Rating:
    """The rating that the answers to these requests make together."""
    read = [
        _parse_score(answer, SCORE if len(names) == 1 else name, request, scale)
        for (names, request), answer in zip(requests, answers, strict=True)
        for name in names
    ]
    return Rating(
        values=tuple(value for value, _, _ in read),
        num_weighted=sum(weighted is True for _, weighted, _ in read),
        num_unweighted=sum(weighted is False for _, weighted, _ in read),
        masses=tuple(mass for _, _, mass in read if mass is not None),
    )


async def gather_all(waiting: Iterable[Awaitable[T]]) -> list[T]:
    """What becomes of all of these; the first error where there is one, once none is under way any more."""
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


def _parse_score(
    answer: Judgement, name: str, request: JudgeRequest, scale: Scale
) -> tuple[float, bool | None, float | None]:
    """A number between 0 and 1, whether it is weighted where that was asked for, and the mass."""
    if request.weighted is None:
        return scale.normalise(answer.answer.get(name)), None, None
    if answer.weighted is not None:
        return scale.normalise(answer.weighted), True, answer.mass
    return scale.normalise(answer.answer.get(name)), False, answer.mass


async def run_repeats(judge: JudgeClient, once: Callable[[int], Awaitable[T]]) -> tuple[list[T], int]:
    """What came of asking once per repeat, and how often was asked; ``JudgeError`` where nothing came."""
    asked = judge.repeats
    outcomes = await asyncio.gather(*(once(repeat) for repeat in range(asked)), return_exceptions=True)
    came: list[T] = []
    lost: list[JudgeError] = []
    for outcome in outcomes:
        if isinstance(outcome, JudgeError):
            lost.append(outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            came.append(outcome)
    if not came:
        raise lost[0]
    return came, asked
