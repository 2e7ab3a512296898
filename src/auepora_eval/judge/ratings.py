"""Rating prompts: scales, repeats, expected scores from token probabilities, and parsed ratings."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from numbers import Real
from typing import Any, ClassVar, TypeVar

from ..core.registry import Use, resolve
from ..core.types import EvaluationSample
from ..errors import BadOptionError, BadTypeError, BadValueError, JudgeError
from .critic import (
    SCORE as SCORE,
    Critic,
    JudgeClient,
    Judgement,
    JudgeRequest,
    LLMCritic,
    MemberForms,
    MemberReply,
    StructuredCritic,
    check_number,
    critic_name,
    decides,
    decision_request,
)
from .panel import Panel, gather_all as gather_all
from .prompting import Frames, Prompt

# --- rating scales: the range of a judge's numbers, and their normalisation to [0, 1] --------------------------------

_PATTERN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:-|\u2013|\.\.)\s*(\d+(?:\.\d+)?)\s*")


@dataclass(frozen=True, slots=True)
class Scale:
    """From the worst number to the best one.

    >>> Scale.parse("1-5").normalised(4)
    0.75
    """

    low: float
    high: float
    is_binary: ClassVar[bool] = False
    """Whether every score is 0 or 1."""
    unordered: ClassVar[tuple[str, ...]] = ()
    """The classes without values: a scale of numbers has none."""
    label_values: ClassVar[Mapping[str, float]] = {}
    """The value of each class: a scale of numbers has none."""

    @property
    def options(self) -> tuple[str, ...]:
        """What a judge chooses from, the worst first; five even steps of a continuous scale."""
        if not self.is_integer:
            return tuple(f"{self.low + (self.high - self.low) * step / 4:g}" for step in range(5))
        return tuple(str(number) for number in range(int(self.low), int(self.high) + 1))

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise BadValueError(f"a scale goes from a number to a larger one, not from {self.low!r} to {self.high!r}")

    @classmethod
    def parse(cls, text: object) -> Scale:
        """Read ``0-1``, ``1-5``, ``0-10`` or ``0-100``."""
        if not isinstance(text, str):
            raise _not_a_scale(text)
        return _parse(text)

    def __str__(self) -> str:
        return f"{self.low:g}-{self.high:g}"

    @property
    def is_integer(self) -> bool:
        """Whether answers are integers: on 1 to 5 they are labels, on 0 to 1 they are continuous."""
        return self.low.is_integer() and self.high.is_integer() and self.high - self.low > 1

    @property
    def description(self) -> str:
        """The scale in words, for a prompt."""
        if self.is_integer:
            return f"a whole number from {self.low:g} (worst) to {self.high:g} (best)"
        middle = f"{(self.low + self.high) / 2:g}"
        return f"a number from {self.low:g} (worst) to {self.high:g} (best), such as {middle} half way"

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of an answer."""
        if self.is_integer:
            return {"type": "integer", "minimum": int(self.low), "maximum": int(self.high)}
        return {"type": "number", "minimum": self.low, "maximum": self.high}

    def normalise(self, answer: object) -> float:
        """An answer mapped to [0, 1]: on a scale from 1 to 5, (x - 1) / 4.

        Anything but a number on the scale is a ``JudgeError``: a server once answered 1889 on a scale to 5.
        """
        if isinstance(answer, bool) or not isinstance(answer, Real) or not math.isfinite(answer):
            raise JudgeError("unparseable", f"the judge gave {answer!r:.80} where a number was asked for")
        value = float(answer)
        if not self.low <= value <= self.high:
            raise JudgeError("out_of_range", f"the judge gave {value!r} on a scale of {self}")
        return (value - self.low) / (self.high - self.low)

    @property
    def is_weightable(self) -> bool:
        """Whether a score can be an expected value over the labels, weighted by their probabilities."""
        return self.is_integer

    @property
    def conversion(self) -> str:
        """How a reply becomes a score, as a sentence without its full stop."""
        low, high = f"{self.low:g}", f"{self.high:g}"
        return f"Each number x on the scale from {low} to {high} is (x − {low}) / ({high} − {low})"


@lru_cache(maxsize=64)
def _parse(text: str) -> Scale:
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise _not_a_scale(text)
    return Scale(float(match[1]), float(match[2]))


def _not_a_scale(given: object) -> BadValueError:
    return BadValueError(f"a scale is written '0-1' or '1-5', from the worst number to the best; not {given!r:.80}")


YES_NO = "yes-no"
"""The scale with the classes ``no`` and ``yes``."""


@dataclass(frozen=True, slots=True)
class ClassScale:
    """Classes that a judge chooses from: with a value between 0 and 1 each, or unordered.

    >>> ClassScale.parse({"poor": 0, "fair": 0.5, "good": 1}).normalise("fair")
    0.5
    """

    labels: tuple[str, ...]
    values: tuple[float, ...] = ()
    """The value of each label; empty if the classes are unordered."""
    only: str = ""
    """The unordered class that has the value 1, where the others have 0."""

    @classmethod
    def parse(cls, option: object) -> ClassScale:
        """Read ``yes-no``, a mapping of classes to values, or a list of unordered classes."""
        if option == YES_NO:
            return cls(("no", "yes"), (0.0, 1.0))
        if isinstance(option, Mapping):
            labels = _check_labels(option)
            return cls(
                labels, tuple(_check_value(label, given) for label, given in zip(labels, option.values(), strict=True))
            )
        if isinstance(option, (list, tuple)):
            return cls(_check_labels(option))
        raise _not_a_scale(option)

    def __str__(self) -> str:
        if not self.values:
            return "/".join(self.labels)
        if self == ClassScale.parse(YES_NO):
            return YES_NO
        return ",".join(f"{label}={value:g}" for label, value in zip(self.labels, self.values, strict=True))

    @property
    def option(self) -> str | dict[str, float] | list[str]:
        """The scale as it is written in a plan."""
        text = str(self)
        if text == YES_NO:
            return text
        return dict(zip(self.labels, self.values, strict=True)) if self.values else list(self.labels)

    @property
    def is_binary(self) -> bool:
        """Whether every score is 0 or 1."""
        return set(self.values) <= {0.0, 1.0}

    @property
    def options(self) -> tuple[str, ...]:
        """What a judge chooses from."""
        return self.labels

    @property
    def unordered(self) -> tuple[str, ...]:
        """The classes, if they have no values."""
        return () if self.values else self.labels

    @property
    def description(self) -> str:
        """The classes in words, for a prompt."""
        *others, last = (f'"{label}"' for label in self.labels)
        return f"one of {', '.join(others)} or {last}"

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of an answer."""
        return {"type": "string", "enum": list(self.labels)}

    @property
    def is_weightable(self) -> bool:
        """Whether a score can be an expected value over the labels, weighted by their probabilities."""
        return bool(self.values)

    @property
    def label_values(self) -> Mapping[str, float]:
        """The value of each class; empty for unordered ones."""
        return dict(zip(self.labels, self.values, strict=False))

    @property
    def conversion(self) -> str:
        """How a reply becomes a score, as a sentence without its full stop."""
        if not self.values:
            return f"The class '{self.only}' is 1, any other is 0"
        return "Each class has its value: " + ", ".join(
            f"{label} {value:g}" for label, value in self.label_values.items()
        )

    def normalise(self, answer: object) -> float:
        """The value of a class, or an expected value between the smallest and the largest."""
        if isinstance(answer, str) and answer in self.labels:
            return self.values[self.labels.index(answer)] if self.values else float(answer == self.only)
        if isinstance(answer, (int, float)) and not isinstance(answer, bool) and self.values:
            return check_number(answer, min(self.values), max(self.values), "the judge gave")
        raise JudgeError("unparseable", f"the judge gave {answer!r:.80}, which is none of {', '.join(self.labels)}")

    def nearest_label(self, value: float) -> str:
        """The class whose value is nearest, and half way the lower one."""
        values = self.label_values
        return min(values, key=lambda label: (abs(values[label] - value), values[label]))


RatingScale = Scale | ClassScale


def parse_scale(option: object) -> RatingScale:
    """A scale of numbers (``1-5``) or of classes (``yes-no``, a mapping to values, a list of unordered classes)."""
    if option == YES_NO or isinstance(option, (Mapping, list, tuple)):
        return ClassScale.parse(option)
    try:
        return Scale.parse(option)
    except BadValueError:
        forms = "numbers such as '1-5', 'yes-no', classes such as {poor: 0, good: 1}, or a list of unordered classes"
        raise BadOptionError("scale", f"{option!r:.80} is not a scale: write {forms}") from None


def _check_labels(labels: Iterable[object]) -> tuple[str, ...]:
    # YAML reads a bare yes or no as a boolean.
    texts = tuple({True: "yes", False: "no"}[label] if isinstance(label, bool) else label for label in labels)
    for text in texts:
        if not isinstance(text, str) or not text.strip() or text != text.strip() or "\n" in text:
            raise BadOptionError("scale", f"a class is a name in one line, not {text!r:.80}")
    names = [str(text) for text in texts]
    if len(names) < 2 or len({name.casefold() for name in names}) < len(names):
        raise BadOptionError("scale", f"give two classes or more, each once, not {names!r:.80}")
    return tuple(names)


def _check_value(label: str, value: object) -> float:
    where = f"scale.{label}"
    if value is None:
        raise BadOptionError(where, f"the class '{label}' has no value; give each a number from 0 (worst) to 1 (best)")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise BadOptionError(where, f"the value of a class must be a number from 0 to 1, not {value!r:.80}")
    return float(value)


# --- ratings: prompts sent to any kind of critic, repeated, and their replies parsed ---------------------------------

T = TypeVar("T")


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


def object_schema(**properties: Any) -> dict[str, Any]:
    """The JSON schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


UNIT_SCALE = Scale(0.0, 1.0)
_BARE_SCHEMA = object_schema(score=UNIT_SCALE.schema)


@dataclass(frozen=True, slots=True)
class ReplyForm:
    """The form of a reply: an object or, from a critic that replies with a bare number, a number from 0 to 1."""

    instruction: str
    schema: Mapping[str, Any]
    bare_instruction: str = ""
    """The instruction for a bare number; empty if only objects are possible."""
    label_values: Mapping[str, float] = field(default_factory=dict)
    """The values of the labels in a reply, for the vote of a panel."""
    from_number: Callable[[float], MemberReply] | None = None
    """The object that a bare number stands for, for the vote of a panel."""

    def request(
        self,
        prompt: Prompt,
        critic: Critic,
        frames: Mapping[str, Frames],
        *,
        metric: str,
        sample_id: str,
        repeat: int = 0,
        words: Mapping[str, str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> JudgeRequest:
        """A request with this prompt; ``words`` are trusted texts, ``frames`` the judged ones."""
        if decides(critic):
            own: dict[str, Any] = {"metric": metric, "sample_id": sample_id, "repeat": repeat, "about": about or {}}
            values = self.label_values
            return replace(decision_request(prompt, frames, tuple(values), values, words=words or {}), **own)
        bare = bool(self.bare_instruction) and returns_number_only(critic)
        instruction = self.bare_instruction if bare else self.instruction
        system, text = prompt.render(words={"form": instruction, **(words or {})}, **frames)
        scale = {"scale": str(UNIT_SCALE)} if self.bare_instruction else {}
        options: dict[str, Any] = {
            "metric": metric,
            "sample_id": sample_id,
            "repeat": repeat,
            "words": words,
            "metadata": metadata,
            "about": about,
        }
        make = partial(self.request, prompt, frames=frames, **options)
        members = MemberForms(self._member_reply, partial(self._member_requests, make), self.label_values)
        return JudgeRequest(
            # An LLMCritic gets a single string: the instructions must be in it.
            prompt=f"{system}\n\n{text}" if bare else text,
            system="" if bare else system,
            schema=_BARE_SCHEMA if bare else self.schema,
            prompt_id=prompt.id,
            repeat=repeat,
            metric=metric,
            sample_id=sample_id,
            metadata={**scale, "metric": metric, "sample_id": sample_id, **(metadata or {})},
            about=about or {},
            forms=members if isinstance(critic, Panel) and not bare else None,
        )

    def decided(self, answer: Judgement) -> MemberReply:
        """The object that the answer of a decision model stands for."""
        (key,) = (name for name, inner in self.schema["properties"].items() if "enum" in inner)
        expected = {} if answer.weighted is None else {key: answer.weighted}
        return MemberReply({key: answer.answer[SCORE]}, expected)

    def _member_requests(self, make: Callable[..., JudgeRequest], critic: Critic) -> list[JudgeRequest]:
        """A request to a member of a panel: for an object, or for the bare number that stands for one."""
        needs_label = returns_number_only(critic) or decides(critic)
        serves = not needs_label or self.from_number is not None
        return [make(critic=critic)] if serves else []

    def _member_reply(self, critic: Critic, answers: Sequence[Judgement]) -> MemberReply:
        (answer,) = answers
        if decides(critic):
            return self.decided(answer)
        if not returns_number_only(critic):
            return MemberReply(answer.answer)
        assert self.from_number is not None
        return self.from_number(UNIT_SCALE.normalise(answer.answer.get(SCORE)))


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
    scale: RatingScale
    names: tuple[str, ...] = (SCORE,)
    criteria: Mapping[str, str] = field(default_factory=dict)
    """The meaning of each name, if the prompt has a slot for it."""
    only: str = ""
    """The one name whose score is used; requests about others alone are not made."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Trusted texts for further slots of the prompt."""
    rationale: bool = True
    metric: str = ""
    sample_id: str = ""

    @property
    def scored_names(self) -> tuple[str, ...]:
        """The names whose scores are used."""
        return (self.only,) if self.only else self.names

    def requests(self, critic: Critic, repeat: int) -> list[tuple[tuple[str, ...], JudgeRequest]]:
        """The requests to send, each with the names its reply covers: one for all names, or one per name.

        A critic that replies with a bare number, or with log-probabilities, is asked for one score at a time.
        """
        if self.is_split_for(critic):
            weighted = supports_logprobs(critic) and self.scale.is_weightable
            return [((name,), self._request(critic, (name,), repeat, weighted=weighted)) for name in self.scored_names]
        request = self._request(critic, self.names, repeat, weighted=False)
        if isinstance(critic, Panel):
            keys = frozenset((SCORE,) if len(self.names) == 1 else self.scored_names)
            forms = MemberForms(
                self._member_reply, partial(self._member_requests, repeat), self.scale.label_values, keys
            )
            request = replace(request, forms=forms)
        return [(self.names, request)]

    def is_split_for(self, critic: Critic) -> bool:
        """Whether a critic is asked for one score at a time."""
        split = returns_number_only(critic) or decides(critic)
        return split or (supports_logprobs(critic) and self.scale.is_weightable)

    def _decision(self, name: str, repeat: int) -> JudgeRequest:
        """The question to a decision model."""
        words = {**self.words, "scale": self.scale.description}
        if "criteria" in self.prompt.slots:
            words["criteria"] = f"- {name}: {self.criteria[name]}"
        values = self.scale.label_values
        if isinstance(self.scale, Scale):
            values = {option: float(option) for option in self.scale.options}
        own: dict[str, Any] = {
            "metric": self.metric,
            "sample_id": self.sample_id,
            "repeat": repeat,
            "metadata": {"metric": self.metric, "sample_id": self.sample_id},
        }
        return replace(decision_request(self.prompt, self.texts, self.scale.options, values, words=words), **own)

    def _request(self, critic: Critic, names: tuple[str, ...], repeat: int, *, weighted: bool) -> JudgeRequest:
        if decides(critic):
            return self._decision(names[0], repeat)
        bare = returns_number_only(critic)
        fields = (SCORE,) if len(names) == 1 else names
        form = self._bare_form() if bare else self._form(fields)
        # A critic that replies with a number gives the value of a class.
        replied = UNIT_SCALE if bare and isinstance(self.scale, ClassScale) else self.scale
        words = {**self.words, "scale": self.scale.description, "form": form}
        if "criteria" in self.prompt.slots:
            words["criteria"] = "\n".join(f"- {name}: {self.criteria[name]}" for name in names)
        system, text = self.prompt.render(words=words, **self.texts)
        metadata: dict[str, Any] = {"scale": str(replied), "metric": self.metric, "sample_id": self.sample_id}
        if names != (SCORE,):
            metadata["dimension"] = names[0] if len(names) == 1 else list(names)
        return JudgeRequest(
            # An LLMCritic gets a single string: the instructions must be in it.
            prompt=f"{system}\n\n{text}" if bare else text,
            system="" if bare else system,
            schema=self._schema(fields, replied, rationale=self.rationale and not bare),
            prompt_id=self.prompt.id,
            weighted=SCORE if weighted else None,
            label_values=self.scale.label_values if weighted else {},
            repeat=repeat,
            metric=self.metric,
            sample_id=self.sample_id,
            metadata=metadata,
        )

    def _bare_form(self) -> str:
        if isinstance(self.scale, ClassScale):
            meaning = ", ".join(f'{value:g} for "{label}"' for label, value in self.scale.label_values.items())
            return f"Reply with the number of the score alone, and nothing else: {meaning}."
        return f"Reply with the score alone, {self.scale.description}, and nothing else."

    def _form(self, fields: Sequence[str]) -> str:
        parts = [f'"{name}": <score>' for name in fields]
        if self.rationale:  # before the scores: what is written first shapes what follows
            parts.insert(0, '"rationale": "<why, in one or two sentences>"')
        return f"Reply with one JSON object and nothing else: {{{', '.join(parts)}}}"

    @staticmethod
    def _schema(fields: Sequence[str], scale: RatingScale, *, rationale: bool) -> dict[str, Any]:
        properties: dict[str, Any] = {"rationale": {"type": "string"}} if rationale else {}
        return object_schema(**properties, **dict.fromkeys(fields, scale.schema))

    def _member_requests(self, repeat: int, critic: Critic) -> list[JudgeRequest]:
        """The requests to a member of a panel: for all names at once, or one by one."""
        return [request for _, request in self.requests(critic, repeat)]

    def _member_reply(self, critic: Critic, answers: Sequence[Judgement]) -> MemberReply:
        if not self.is_split_for(critic):
            return MemberReply(answers[0].answer)
        scale = self.scale
        made: dict[str, Any] = {}
        expected: dict[str, float] = {}
        for name, answer in zip(self.scored_names, answers, strict=True):
            key = SCORE if len(self.names) == 1 else name
            made[key] = number = answer.answer.get(SCORE)
            if answer.weighted is not None:
                expected[key] = scale.normalise(answer.weighted)
            elif isinstance(scale, ClassScale) and not isinstance(number, str):  # the value of a class
                expected[key] = scale.normalise(number)
                made[key] = scale.nearest_label(expected[key])
        reasons = [answer.rationale for answer in answers if answer.rationale]
        return MemberReply({"rationale": reasons[0], **made} if reasons else made, expected)


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


async def request_rating(judge: JudgeClient, critic: Critic, question: RatingPrompt, repeat: int) -> Rating:
    """One rating; ``JudgeError`` if a request failed."""
    requests = question.requests(critic, repeat)
    answers = await gather_all(judge.ask(critic, request) for _, request in requests)
    return parse_rating(requests, answers, question.scale, only=question.only)


def parse_rating(
    requests: Sequence[tuple[tuple[str, ...], JudgeRequest]],
    answers: Sequence[Judgement],
    scale: RatingScale,
    *,
    only: str = "",
) -> Rating:
    """The rating formed by the replies to these requests, or the part of it with one name."""
    scores = [
        _parse_score(answer, SCORE if len(names) == 1 else name, request, scale)
        for (names, request), answer in zip(requests, answers, strict=True)
        for name in names
        if not only or name == only
    ]
    return Rating(
        values=tuple(value for value, _, _ in scores),
        num_weighted=sum(weighted is True for _, weighted, _ in scores),
        num_unweighted=sum(weighted is False for _, weighted, _ in scores),
        masses=tuple(mass for _, _, mass in scores if mass is not None),
    )


def _parse_score(
    answer: Judgement, name: str, request: JudgeRequest, scale: RatingScale
) -> tuple[float, bool | None, float | None]:
    """A score between 0 and 1, whether it is weighted (``None`` if not requested), and the probability mass."""
    if name in answer.values:  # voted on by a panel
        return answer.values[name], None, None
    if request.questions and isinstance(scale, ClassScale) and scale.only:
        return float(answer.answer["probabilities"][scale.only]), True, answer.mass
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


# --- expected scores: the mean of the labels, weighted by the token probabilities ------------------------------------

MIN_LABEL_MASS = 0.9
"""Minimum probability mass on the labels for their mean to be used."""
_ROUNDING = 1e-3
"""Probabilities are sent rounded: their sum may be above 1 by this much."""
_BLANKS = " \t\r\n▁Ġ"
"""White space around a token, also as tokenizers write it."""


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token of a reply with its log-probability and the alternatives at its position."""

    text: str
    logprob: float
    alternatives: tuple[tuple[str, float], ...] = ()
    """The most likely tokens at this position, possibly including itself, with their log-probabilities."""
    data: bytes | None = None
    """Its bytes, where it may be part of a character."""


@dataclass(frozen=True, slots=True)
class ExpectedScore:
    """A renormalised mean over labels, and the probability mass on them."""

    value: float | None
    """``None`` if the mass is below ``MIN_LABEL_MASS``."""
    mass: float


def weighted_labels(request: JudgeRequest) -> dict[str, float]:
    """The value of each label whose probability counts: the classes of a request, else the digits of its scale."""
    if request.label_values:
        return dict(request.label_values)
    inner = request.schema.get("properties", {}).get(request.weighted, {})
    return {str(label): float(label) for label in single_digit_labels(inner)}


def single_digit_labels(schema: Mapping[str, Any]) -> list[int]:
    """The labels of an integer scale if each is a single digit; else an empty list.

    The first token of a longer label is ambiguous: ``1`` may continue as ``10``.
    """
    minimum, maximum = schema.get("minimum"), schema.get("maximum")
    if isinstance(minimum, bool) or isinstance(maximum, bool):
        return []
    if not isinstance(minimum, (int, float)) or not isinstance(maximum, (int, float)):
        return []
    if minimum != int(minimum) or maximum != int(maximum) or not 0 <= minimum < maximum <= 9:
        return []
    return list(range(int(minimum), int(maximum) + 1))


def parse_logprobs(content: Any) -> list[TokenLogprob] | None:
    """The tokens of a reply's ``logprobs.content``; ``None`` if they violate the protocol."""
    if not isinstance(content, list) or not content:
        return None
    try:
        return [
            TokenLogprob(
                _text(token),
                _logprob(token),
                tuple((_text(other), _logprob(other)) for other in token.get("top_logprobs") or ()),
                bytes(token["bytes"]) if token.get("bytes") else None,
            )
            for token in content
        ]
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def expected_score(
    tokens: Sequence[TokenLogprob], text: str, span: tuple[int, int], labels: Mapping[str, float]
) -> ExpectedScore | None:
    """The expected value at the token that is the label at ``span`` of the text.

    ``None`` if no token is exactly that label, apart from blanks and quotes.
    """
    are_digits = all(map(str.isdigit, labels))
    token = _token_at(tokens, text, span, belongs=str.isdigit if are_digits else str.isalnum)
    blanks = _BLANKS if are_digits else f'{_BLANKS}"'  # a token may contain the quote before a class
    if token is None or token.text.strip(blanks) not in labels:
        return None
    others = token.alternatives
    if token.text not in {other for other, _ in others}:
        others = (*others, (token.text, token.logprob))
    known = [(other.strip(blanks), logprob) for other, logprob in others]
    weighted = [(labels[label], math.exp(logprob)) for label, logprob in known if label in labels]
    # Rounded: a mass of 0.9 could fall below it through the logarithms.
    mass = round(math.fsum(probability for _, probability in weighted), 12)
    if not 0 < mass <= 1 + _ROUNDING:
        return None
    mean = math.fsum(value * probability for value, probability in weighted) / mass
    # Rounding must not move the mean outside the labels.
    mean = min(max(mean, min(labels.values())), max(labels.values()))
    return ExpectedScore(mean if mass >= MIN_LABEL_MASS else None, min(mass, 1.0))


def _token_at(
    tokens: Sequence[TokenLogprob], text: str, span: tuple[int, int], belongs: Callable[[str], bool]
) -> TokenLogprob | None:
    """The single token that contains a span without the characters around the label, such as quotes."""
    start, end = span
    while start < end and not belongs(text[start]):
        start += 1
    while start < end and not belongs(text[end - 1]):
        end -= 1
    pieces = [token.text.encode(errors="replace") if token.data is None else token.data for token in tokens]
    reply_bytes, text_bytes = b"".join(pieces), text.strip().encode(errors="replace")
    if start == end or reply_bytes.count(text_bytes) != 1:
        return None  # the tokens do not match the text: positions are unknown
    lead = len(text) - len(text.lstrip())
    first = reply_bytes.index(text_bytes) + len(text[lead:start].encode(errors="replace"))
    last = first + len(text[start:end].encode(errors="replace"))
    at = 0
    for token, piece in zip(tokens, pieces, strict=True):
        if at <= first < at + len(piece):
            return token if last <= at + len(piece) else None
        at += len(piece)
    return None


def _text(token: Mapping[str, Any]) -> str:
    text = token["token"]
    if not isinstance(text, str):
        raise TypeError
    return text


def _logprob(token: Mapping[str, Any]) -> float:
    value = token["logprob"]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value) or value > _ROUNDING:
        raise ValueError
    return float(value)
