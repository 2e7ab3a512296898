"""Requests that extract or judge: claims of a text, questions from an answer, usefulness of documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import BadValueError, JudgeError
from .critic import Critic, JudgeClient, Judgement, MemberReply
from .prompting import Frames, Prompt, built_in_prompt
from .ratings import UNIT_SCALE, ReplyForm, gather_all, object_schema, returns_number_only

_CLAIMS = ReplyForm(
    'Reply with one JSON object and nothing else: {"claims": ["<claim>", ...]}',
    object_schema(claims={"type": "array", "items": {"type": "string"}}),
)


def require_extractor(critic: Critic, metric: str) -> None:
    """Raise unless a critic can list claims; one that replies with a bare number cannot."""
    require_structured_critic(
        critic, metric, "claims", ", or set 'claims: sentences', which treats each sentence as a claim"
    )


def require_structured_critic(critic: Critic, metric: str, what: str, otherwise: str = "") -> None:
    """Raise unless a critic can reply with a list."""
    if returns_number_only(critic):
        raise BadValueError(
            f"metric '{metric}' needs a critic that lists {what}, and this one replies with a number only: use a "
            f"StructuredCritic such as OpenAICritic{otherwise}"
        )


async def extract_claims(
    judge: JudgeClient,
    critic: Critic,
    text: str,
    *,
    question: Frames,
    metric: str,
    sample_id: str,
    repeat: int = 0,
    prompt: Prompt | None = None,
    source_name: str = "",
) -> list[str]:
    """The distinct claims of a text, in order; none if it claims nothing.

    ``JudgeError`` if the reply is not a list. No call is made for an empty text. Metrics that share a
    ``SharedJudging`` decompose each text once. ``source_name`` names the text where judgements are shown.
    """
    if not text.strip():
        return []
    require_extractor(critic, metric)
    request = _CLAIMS.request(
        prompt or built_in_prompt("claims"),
        critic,
        {"question": question, "text": text},
        metric=metric,
        sample_id=sample_id,
        repeat=repeat,
        about={"of": source_name},
    )
    answer = await judge.ask(critic, request)
    claims = answer.answer.get("claims")
    if not isinstance(claims, (list, tuple)) or not all(isinstance(one, str) for one in claims):
        raise JudgeError(
            "unparseable", f"the judge gave {claims!r:.80} where a list of claims was asked for", raw=answer.raw
        )
    return list(dict.fromkeys(one.strip() for one in claims if one.strip()))


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
    questions = {"type": "array", "items": {"type": "string"}, "minItems": count, "maxItems": count}
    reply_form = ReplyForm(form, object_schema(noncommittal={"type": "boolean"}, questions=questions))
    request = reply_form.request(prompt, critic, {"answer": answer}, metric=metric, sample_id=sample_id, repeat=repeat)
    judgement = await judge.ask(critic, request)
    generated, evades = judgement.answer.get("questions"), judgement.answer.get("noncommittal")
    fits = isinstance(generated, (list, tuple)) and all(isinstance(one, str) and one.strip() for one in generated)
    if not isinstance(generated, (list, tuple)) or not fits or len(generated) != count or not isinstance(evades, bool):
        message = f"the judge gave {generated!r:.80} where {count} questions were asked for"
        if not isinstance(evades, bool):
            message = f"the judge gave {evades!r:.80} where true or false was asked for"
        raise JudgeError("unparseable", message, raw=judgement.raw)
    return GeneratedQuestions(tuple(one.strip() for one in generated), evades)


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
    word = judgement.answer.get("useful")
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
            {"question": question, "sentences": {f"sentence {number}": one for number, one in enumerate(part, 1)}},
            metric=metric,
            sample_id=sample_id,
            repeat=repeat,
            about={"of": source_name, "sentences": list(part)},
        )
        for part in parts
    ]
    answers = await gather_all(judge.ask(critic, request) for request in requests)
    return [one for part, judgement in zip(parts, answers, strict=True) for one in _needed_flags(judgement, len(part))]


def _sentences_schema(count: int) -> dict[str, object]:
    return object_schema(needed={"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": count}})


def _needed_flags(judgement: Judgement, count: int) -> list[bool]:
    numbers = judgement.answer.get("needed")
    is_valid = isinstance(numbers, (list, tuple)) and all(
        isinstance(one, int) and not isinstance(one, bool) and 1 <= one <= count for one in numbers
    )
    if not isinstance(numbers, (list, tuple)) or not is_valid:
        message = f"the judge gave {numbers!r:.80} where numbers of {count} sentences were asked for"
        raise JudgeError("unparseable", message, raw=judgement.raw)
    return [number in numbers for number in range(1, count + 1)]
