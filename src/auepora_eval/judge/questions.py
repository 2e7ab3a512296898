"""Questions to decision models: a request with one question, and questions about the same texts in one call."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import BadValueError, JudgeError
from .critic import Critic, Judgement, JudgeRequest, Question, QuestionKind
from .prompting import Frames, Prompt

SCORE = "score"
"""The key of the score in a reply with a single score."""
MAX_OPTIONS = 255
"""The most options of a question to a decision model."""
_MAX_LEVELS = 10
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def require_options(critic: object, options: Sequence[str], asked: str, metric: str) -> None:
    """Raise if a critic, or a member of a panel, chooses from options and there are none; ``asked`` is for messages."""
    judges = getattr(critic, "judges", (critic,))
    if any(decides(judge) for judge in judges) and not 2 <= len(options) <= MAX_OPTIONS:
        raise BadValueError(
            f"metric '{metric}' asks for {asked}, and a decision model chooses from 2 to {MAX_OPTIONS} options: set a "
            "scale such as '1-5', 'yes-no' or classes"
        )


def decides(critic: object) -> bool:
    """Whether a critic replies with a probability for each option, and writes no text."""
    return bool(getattr(critic, "decides", False))


def decision_request(
    prompt: Prompt,
    texts: Mapping[str, Frames],
    options: Sequence[str],
    values: Mapping[str, float],
    *,
    words: Mapping[str, str],
    about_frame: str = "",
) -> JudgeRequest:
    """A question to a decision model about texts; ``about_frame`` is the one that it is about, if they are many.

    ``values`` are those of the options, for the expected value; empty if they have none.
    """
    state, instructions = prompt.render_question({"form": "", **words}, texts)
    if about_frame:
        instructions += f'\n\nGive the verdict on what is in the frame "{about_frame}", and on nothing else.'
    kind = _question_kind(options)
    weighted = SCORE if values else None
    if kind == "predicate":
        options = ("no", "yes")
    shown = f"{state}\n\n[{kind}: {', '.join(options)}]\n{instructions}"
    return JudgeRequest(
        shown,
        {},
        prompt_id=prompt.id,
        state=state,
        questions=(Question(kind, instructions, tuple(options)),),
        label_values=values,
        weighted=weighted,
    )


def _question_kind(options: Sequence[str]) -> QuestionKind:
    if set(options) == {"no", "yes"}:
        return "predicate"
    is_scale = all(_NUMBER.fullmatch(option) for option in options) and sorted(options, key=float) == list(options)
    return "score" if is_scale and len(options) <= _MAX_LEVELS else "choice"


_BYTES_PER_TOKEN = 3
"""A low estimate for English, so that what is said to fit does."""


def estimate_tokens(num_bytes: int) -> int:
    """About how many tokens a text of this many bytes has, rather too many."""
    return math.ceil(num_bytes / _BYTES_PER_TOKEN)


def named_questions(request: JudgeRequest) -> dict[str, Question]:
    """The questions of a request by the names that they are sent with."""
    return {f"q{number}": question for number, question in enumerate(request.questions, 1)}


# --- answers ---------------------------------------------------------------------------------------------------------


def read_answer(answer: Mapping[str, Any], request: JudgeRequest, raw: str = "") -> Judgement:
    """The judgement of one question: its most probable option, and the expected value; ``JudgeError`` if it failed."""
    if "error" in answer:
        raise JudgeError(answer["error"], answer["message"], raw=raw)
    weighted = None
    if request.label_values:
        distribution, values = answer["probabilities"], request.label_values
        mean = math.fsum(values[option] * chance for option, chance in distribution.items())
        mean /= math.fsum(distribution.values())
        weighted = min(max(mean, min(values.values())), max(values.values()))  # rounding must not move it out
    return Judgement(answer, raw=raw, weighted=weighted, mass=answer.get("label_mass"))


def named_answer(reply: Judgement, group: JudgeRequest, request: JudgeRequest) -> Mapping[str, Any]:
    """What the reply to a group has about one of its questions."""
    (name,) = (name for name, question in named_questions(group).items() if question == request.questions[0])
    answer: Mapping[str, Any] = reply.answer["answers"][name]
    return answer


def answers_all(judgement: Judgement) -> bool:
    """Whether a reply has an answer to each of its questions."""
    return all("error" not in answer for answer in judgement.answer["answers"].values())


# --- questions about the same texts travel together ------------------------------------------------------------------

_MAX_QUESTIONS = 200
"""Questions per request."""
_REQUEST_TOKENS = 2
"""A request may have this many times the tokens of the texts and the longest question."""
_IDLE_TURNS = 20
"""Turns of the event loop without a further question after which all are there."""


@dataclass(slots=True, eq=False)
class _Group:
    """Requests with one question each, about the same texts."""

    limit: int
    """The most tokens of one request, as estimated."""
    closed: asyncio.Future[dict[Question, JudgeRequest]]
    """By question, the request that it travels in."""
    requests: dict[Question, JudgeRequest] = field(default_factory=dict)


class QuestionGroups:
    """Questions to decision models that were asked at the same time about the same texts. Belongs to one event loop.

    Metrics ask about all samples at once, without waiting for anything. So a group is complete when the loop has had
    no further question for some turns. It depends on what is asked only: a run that is resumed has the same groups.
    With ``separate`` each question is a group.
    """

    def __init__(self, *, separate: bool = False) -> None:
        self._separate = separate
        self._open: dict[tuple[int, str, int], _Group] = {}
        self._arrivals = 0
        self._closing: asyncio.Task[None] | None = None

    async def join(self, critic: Critic, request: JudgeRequest) -> JudgeRequest:
        """The request that a question travels in: with the others of its group, or itself if there are none."""
        max_tokens = getattr(critic, "max_state_tokens", None)
        if self._separate or max_tokens is None or len(request.questions) != 1:
            return request
        self._arrivals += 1
        loop = asyncio.get_running_loop()
        key = id(critic), request.state, request.repeat
        group = self._open.get(key)
        if group is None:
            group = self._open[key] = _Group(_REQUEST_TOKENS * max_tokens, loop.create_future())
        (question,) = request.questions
        group.requests.setdefault(question, request)
        if self._closing is None:
            self._closing = loop.create_task(self._close_when_idle())
        found = (await asyncio.shield(group.closed))[question]
        return found if len(found.questions) > 1 else request

    async def _close_when_idle(self) -> None:
        seen = -1
        while seen != self._arrivals:
            seen = self._arrivals
            for _ in range(_IDLE_TURNS):
                await asyncio.sleep(0)
        groups, self._open, self._closing = list(self._open.values()), {}, None
        for group in groups:
            if not group.closed.done():
                group.closed.set_result(_travel(group.requests, group.limit))


def _travel(requests: Mapping[Question, JudgeRequest], limit: int) -> dict[Question, JudgeRequest]:
    """By question, the request that it travels in; in an order that does not depend on who asked first."""
    by_question: dict[Question, JudgeRequest] = {}
    for part in _split(sorted(requests, key=lambda question: json.dumps(_sent(question))), requests, limit):
        request = together([requests[question] for question in part])
        by_question |= dict.fromkeys(part, request)
    return by_question


def _split(
    questions: Sequence[Question], requests: Mapping[Question, JudgeRequest], limit: int
) -> list[list[Question]]:
    """The questions in parts that fit into one request."""
    state = len(requests[questions[0]].state.encode(errors="replace"))
    parts: list[list[Question]] = [[]]
    size = state
    for question in questions:
        added = len(json.dumps(_sent(question)))
        is_full = estimate_tokens(size + added) > limit
        if parts[-1] and (is_full or len(parts[-1]) == _MAX_QUESTIONS):
            parts.append([])
            size = state
        parts[-1].append(question)
        size += added
    return parts


def _sent(question: Question) -> list[Any]:
    return [question.kind, question.instructions, list(question.options)]


def together(requests: Sequence[JudgeRequest]) -> JudgeRequest:
    """One request with the questions of all these, which are about the same texts."""
    first = requests[0]
    questions = tuple(request.questions[0] for request in requests)
    sent = [_sent(question) for question in questions]
    prompt = f"{first.state}\n\n{json.dumps(sent, ensure_ascii=False)}"
    return replace(first, prompt=prompt, questions=questions, weighted=None, label_values={}, prompt_id="", about={})
