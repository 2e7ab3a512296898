"""Critic for decision models: typed questions about texts, answered by a probability for each option and no text."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from ..errors import BadValueError, JudgeError
from ..net.client import HttpReply, status_text
from ..options import NonEmpty, PositiveFloat, PositiveInt, check_options, is_number
from .critic import SCORE, Judgement, JudgeRequest, Question, Usage, estimate_tokens, named_questions, read_answer
from .openai import HttpCritic, add_tokens, decode_reply, extract_error_message
from .parse import shorten

# --- wire formats: the body of a request, and the answers of a reply by the names of the questions -------------------

Api = Literal["openai", "systemone"]
REVISION = 1
"""Part of cache keys: raise it when the body sent for the same request changes."""
MIN_LABEL_MASS = 0.5
"""Minimum probability of all options together before the server rescaled them, where it reports it."""
_TOLERANCE, _LONG_TOLERANCE = 1e-3, 1e-2
"""How far probabilities may be from a sum of 1: up to ten options, and beyond."""
_FEW_OPTIONS = 10
_TWICE = object()
"""Stands for the value of a name that occurs twice in a JSON object."""


@dataclass(frozen=True, slots=True)
class _WireFormat(ABC):
    """One of the formats: the names of types and fields that differ."""

    endpoint: str
    kinds: Mapping[str, str]
    predicate_key: str
    """The field with the probability of a predicate."""
    container: type[Any]
    """Of the answers, and of the probabilities of an answer."""

    @abstractmethod
    def body(self, model: str, request: JudgeRequest) -> dict[str, Any]:
        """The body of a request."""

    def answers(self, reply: Mapping[str, Any]) -> dict[str, Any]:
        """The answers by name; those without a name belong to no question."""
        found = reply.get("answers")
        if not isinstance(found, self.container):
            kind = "list" if self.container is list else "mapping"
            raise JudgeError("unparseable", f"the reply has no {kind} of answers")
        return self.by_name(found)

    def by_name(self, found: Any) -> dict[str, Any]:
        """The answers by name."""
        return dict(found)

    def probabilities(self, answer: Mapping[str, Any], question: Question) -> list[tuple[Any, Any]]:
        """The options of an answer with their probabilities, as they were sent; a level is named by its index."""
        if question.kind == "predicate":
            return _two_sides(answer.get(self.predicate_key), question)
        found = answer.get("probabilities")
        pairs = self.pairs(found) if isinstance(found, self.container) else []
        # A level is named by its index.
        levels = {str(index): level for index, level in enumerate(question.options)} if question.kind == "score" else {}
        return [(levels.get(str(name), name), probability) for name, probability in pairs]

    @abstractmethod
    def pairs(self, found: Any) -> list[tuple[Any, Any]]:
        """Values with their probabilities."""


class _OpenAIFormat(_WireFormat):
    """``POST /v1/decisions``: questions and answers are lists."""

    def body(self, model: str, request: JudgeRequest) -> dict[str, Any]:
        """The body of a request."""
        questions: list[dict[str, Any]] = []
        for name, question in named_questions(request).items():
            row: dict[str, Any] = {"type": question.kind, "name": name, "instructions": question.instructions}
            if question.kind in _OPTION_KEYS:
                options, option = _OPTION_KEYS[question.kind]
                row[options] = [{option: text} for text in question.options]
            questions.append(row)
        return {"model": model, "input": request.state, "questions": questions}

    def by_name(self, found: Any) -> dict[str, Any]:
        """The answers by name."""
        return _pairs_to_dict([(row.get("name"), row) for row in found if isinstance(row, dict)])

    def pairs(self, found: Any) -> list[tuple[Any, Any]]:
        """Values with their probabilities."""
        return [(row.get("value"), row.get("probability")) for row in found if isinstance(row, dict)]


class _SystemOneFormat(_WireFormat):
    """``POST /v1/systemone``: questions and answers are mappings."""

    def body(self, model: str, request: JudgeRequest) -> dict[str, Any]:
        """The body of a request."""
        questions: dict[str, dict[str, Any]] = {}
        for name, question in named_questions(request).items():
            row: dict[str, Any] = {"type": self.kinds[question.kind], "instructions": question.instructions}
            if question.kind in _OPTION_KEYS:
                row["criteria"] = (
                    dict.fromkeys(question.options) if question.kind == "choice" else list(question.options)
                )
            questions[name] = row
        return {"model": model, "state": request.state, "questions": questions}

    def pairs(self, found: Any) -> list[tuple[Any, Any]]:
        """Values with their probabilities."""
        return list(found.items())


_OPTION_KEYS = {"choice": ("choices", "value"), "score": ("levels", "label")}
"""The fields of the options, and of one option, by kind of question."""
_OWN_NAMES = {kind: kind for kind in ("predicate", "choice", "score")}
FORMATS: dict[Api, _WireFormat] = {
    "openai": _OpenAIFormat("/decisions", _OWN_NAMES, "probability", list),
    "systemone": _SystemOneFormat("/systemone", {**_OWN_NAMES, "predicate": "noul"}, "noul", dict),
}


def _two_sides(probability: Any, question: Question) -> list[tuple[Any, Any]]:
    """A predicate has one number: that of its true option."""
    false, true = question.options
    if not is_number(probability):
        return [(true, probability)]
    return [(false, 1 - probability), (true, probability)]


def _pairs_to_dict(pairs: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
    """The pairs as a dictionary, in which a name that occurs twice has no value."""
    found: dict[Any, Any] = {}
    for name, value in pairs:
        key = str(name)
        found[key] = _TWICE if key in found else value
    return found


# --- answers: a distribution over the options, or why it cannot be used ----------------------------------------------


def read_distribution(wire: _WireFormat, answer: Any, question: Question) -> dict[str, float]:
    """The probability of each option of a question; ``JudgeError`` if it cannot be used. Nothing is rescaled."""
    if answer is _TWICE:
        raise JudgeError("duplicate_name", "the reply has two answers with the name of this question")
    if not isinstance(answer, dict):
        raise JudgeError("missing_answer", "the reply has no answer with the name of this question")
    refusal = answer.get("refusal")
    if answer.get("type") == "refusal" or refusal:
        shown = f": {refusal!s:.200}" if refusal else ""
        raise JudgeError("refused", f"the judge declined to answer this question{shown}")
    kind = wire.kinds[question.kind]
    if answer.get("type", kind) != kind:
        raise JudgeError("unparseable", f"the answer is of type {answer['type']!r:.40}, and the question was a {kind}")
    mass = answer.get("label_mass")
    if mass is not None and not (is_number(mass) and mass >= MIN_LABEL_MASS):
        raise JudgeError(
            "label_mass", f"the options have the probability {mass!r:.40} together: the model would say something else"
        )
    return _check_distribution(_pairs_to_dict(wire.probabilities(answer, question)), question.options)


def _check_distribution(found: Mapping[Any, Any], options: Sequence[str]) -> dict[str, float]:
    for option in options:
        if option not in found:
            raise JudgeError("missing_option", f"the answer has no probability for {option!r:.80}")
    for option, value in found.items():
        if value is _TWICE:
            raise JudgeError("duplicate_name", f"the answer has two probabilities for {option!r:.80}")
        if option not in options:
            raise JudgeError("unknown_option", f"the answer has a probability for {option!r:.80}, which is no option")
        if not is_number(value) or math.isnan(value):
            raise JudgeError("not_a_probability", f"the probability of {option!r:.80} is {value!r:.40}")
        if not 0 <= value <= 1:
            raise JudgeError("not_a_probability", f"the probability of {option!r:.80} is {value!r:.40}, beyond 0 to 1")
    total = math.fsum(found.values())
    tolerance = _TOLERANCE if len(options) <= _FEW_OPTIONS else _LONG_TOLERANCE
    if abs(total - 1) > tolerance * (1 + 1e-9):
        raise JudgeError("sum_not_one", f"the probabilities of the options sum to {total:.6g}, not to 1")
    return {option: float(found[option]) for option in options}


# --- the critic ------------------------------------------------------------------------------------------------------


class DecisionCritic(HttpCritic):
    """Judges with a decision model, which replies with a probability for each option and writes no text.

    ``api`` is the format of the server: ``openai`` (``POST /v1/decisions``) or ``systemone`` (``POST /v1/systemone``).
    ``base_url`` is the server's; without it, and with ``api: openai``, ``$OPENAI_BASE_URL`` or OpenAI's own. The key is
    read from the environment variable named by ``api_key_env``. Texts and questions of more than ``max_tokens``,
    estimated from their length, are not sent; questions about the same texts travel in one request up to twice that.

    Example:
        >>> DecisionCritic("local-model", base_url="http://127.0.0.1:8000", api="systemone", api_key_env=None).name
        'decisions:local-model,api=systemone'
    """

    decides = True
    """Replies with probabilities and writes no text."""

    def __init__(
        self,
        model: Annotated[str, NonEmpty()],
        *,
        base_url: str | None = None,
        api: Api = "openai",
        api_key_env: str | None = "OPENAI_API_KEY",
        max_tokens: PositiveInt = 32_000,
        headers: Mapping[str, str] | None = None,
        timeout: PositiveFloat | None = 120.0,
    ) -> None:
        given = {"model": model, "api": api, "max_tokens": max_tokens, "timeout": timeout}
        check_options(DecisionCritic, given)
        if api == "systemone" and base_url is None:
            raise BadValueError("'api: systemone' needs base_url, the address of the server")
        self.api, self.max_state_tokens = api, max_tokens
        self._wire = FORMATS[api]
        self.endpoint = self._wire.endpoint
        super().__init__(model, base_url=base_url, api_key_env=api_key_env, headers=headers, timeout=timeout)
        suffix = "" if api == "openai" else f",api={api}"
        self.name = f"decisions:{model}{suffix}".replace("|", "/")
        self._reset()

    def cache_key(self, request: JudgeRequest) -> Mapping[str, Any]:
        """Everything that is sent besides the request, the key and the headers."""
        return {
            "critic": "decisions",
            "revision": REVISION,
            "base_url": self._address.shown.rstrip("/"),
            "model": self.model,
            "api": self.api,
        }

    async def _judge(self, request: JudgeRequest) -> Judgement:
        """The answer to one question; of several, an answer with those to each, or why there is none."""
        if not request.questions:
            raise JudgeError("no_options", "a decision model replies with options, and this request has none", calls=0)
        self._check_size(request)
        reply, raw = await self._decide(request)
        usage = _read_usage(reply.get("usage"))
        try:
            answers = self._read(reply, request)
        except JudgeError as error:
            error.raw = raw
            raise add_tokens(error, usage) from None
        if len(request.questions) > 1:
            return Judgement({"answers": answers}, usage, raw=raw)
        (answer,) = answers.values()
        try:
            return replace(read_answer(answer, request, raw), usage=usage)
        except JudgeError as error:
            raise add_tokens(error, usage) from None

    def _check_size(self, request: JudgeRequest) -> None:
        longest = max(len(question.instructions) for question in request.questions)
        tokens = estimate_tokens(len(request.state.encode(errors="replace")) + longest)
        if tokens > self.max_state_tokens:
            raise JudgeError(
                "context_too_long",
                f"the texts and the longest question have about {tokens:,} tokens, and max_tokens is "
                f"{self.max_state_tokens:,}",
                calls=0,
            )

    def _read(self, reply: Mapping[str, Any], request: JudgeRequest) -> dict[str, dict[str, Any]]:
        """By the name of each question, what is stored of its answer, or the failure."""
        served = " ".join(str(reply.get("model") or "").split())[:100]
        questions = named_questions(request)
        sent = self._wire.answers(reply)
        answers: dict[str, dict[str, Any]] = {}
        for name, question in questions.items():
            answer = sent.get(name)
            try:
                distribution = read_distribution(self._wire, answer, question)
            except JudgeError as error:
                answers[name] = {"error": error.reason, "message": error.message}
                continue
            likeliest = max(distribution, key=distribution.__getitem__)
            score = json.loads(likeliest) if question.kind == "score" else likeliest
            answers[name] = {SCORE: score, "probabilities": distribution, "served_model": served}
            if isinstance(answer, dict) and answer.get("label_mass") is not None:
                answers[name]["label_mass"] = answer["label_mass"]
        return answers

    async def _decide(self, request: JudgeRequest) -> tuple[dict[str, Any], str]:
        """The reply as JSON and as text."""
        reply = await self._post(self._wire.body(self.model, request))
        self._require_endpoint(reply)
        decode_reply(reply, url=self._address.shown, variable=self.api_key_env, secrets=self._secrets)
        text = reply.body.decode(errors="replace")
        return json.loads(text, object_pairs_hook=_pairs_to_dict), shorten(text)

    def _require_endpoint(self, reply: HttpReply) -> None:
        """Raise if the server, or this model of it, does not answer such requests."""
        if reply.status not in (404, 405, 501):
            return
        message = extract_error_message(reply.body.decode(errors="replace"))
        other = "systemone" if self.api == "openai" else "openai"
        reason = "model_not_found" if reply.status == 404 else "not_supported"
        raise JudgeError(
            reason,
            f"{status_text(reply.status)} ({message or 'no message'}); {self._address.shown}{self.endpoint} does not "
            f"answer for model {self.model}: check base_url (often ending in /v1) and model, or set api: {other}",
            lasting=True,
        )


def _read_usage(value: Any) -> Usage:
    usage = value if isinstance(value, dict) else {}
    count, generated = usage.get("input_tokens"), usage.get("output_tokens")
    if not (isinstance(count, int) and count >= 0):
        return Usage()
    return Usage(count, max(0, generated)) if isinstance(generated, int) else Usage(count)
