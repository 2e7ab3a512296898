"""Generate questions from an answer alone, to compare them with the original question."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.errors import JudgeError
from .critic import Critic, JudgeClient, JudgeRequest
from .prompting import Prompt

__all__ = ["GeneratedQuestions", "generate_questions"]


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
    judgement = await judge.ask(critic, request)
    generated, evades = judgement.answer.get("questions"), judgement.answer.get("noncommittal")
    fits = isinstance(generated, (list, tuple)) and all(isinstance(one, str) and one.strip() for one in generated)
    if not isinstance(generated, (list, tuple)) or not fits or len(generated) != count or not isinstance(evades, bool):
        message = f"the judge gave {generated!r:.80} where {count} questions were asked for"
        if not isinstance(evades, bool):
            message = f"the judge gave {evades!r:.80} where true or false was asked for"
        raise JudgeError("unparseable", message, raw=judgement.raw)
    return GeneratedQuestions(tuple(one.strip() for one in generated), evades)
