"""Which questions an answer answers, guessed from the answer alone."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.errors import JudgeError
from .critic import Critic, JudgeClient, JudgeRequest
from .prompting import Prompt

__all__ = ["GeneratedQuestions", "generate_questions"]


@dataclass(frozen=True, slots=True)
class GeneratedQuestions:
    """What a judge makes of an answer whose question it does not know."""

    questions: tuple[str, ...]
    noncommittal: bool
    """Whether the answer evades, or says that it does not know."""


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
    """As many questions as are wanted; any other number is no judgement."""
    form = (
        f'Reply with one JSON object and nothing else: {{"noncommittal": true or false, "questions": ["<question>", '
        f"...]}}, with {count} question{'s' if count > 1 else ''}."
    )
    questions = {"type": "array", "items": {"type": "string"}, "minItems": count, "maxItems": count}
    system, text = prompt.render(words={"form": form}, answer=answer)
    request = JudgeRequest(
        prompt=text,
        system=system,
        schema={
            "type": "object",
            "properties": {"noncommittal": {"type": "boolean"}, "questions": questions},
            "required": ["noncommittal", "questions"],
            "additionalProperties": False,
        },
        prompt_id=prompt.id,
        repeat=repeat,
        metric=metric,
        sample_id=sample_id,
        metadata={"metric": metric, "sample_id": sample_id},
    )
    said = await judge.ask(critic, request)
    given, evades = said.answer.get("questions"), said.answer.get("noncommittal")
    fits = isinstance(given, (list, tuple)) and all(isinstance(one, str) and one.strip() for one in given)
    if not isinstance(given, (list, tuple)) or not fits or len(given) != count or not isinstance(evades, bool):
        told = f"the judge gave {given!r:.80} where {count} questions were asked for"
        if not isinstance(evades, bool):
            told = f"the judge gave {evades!r:.80} where true or false was asked for"
        raise JudgeError("unparseable", told, raw=said.raw)
    return GeneratedQuestions(tuple(one.strip() for one in given), evades)
