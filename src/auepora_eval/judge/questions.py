"""Questions to decision models: a request with one question, and questions about the same texts in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .critic import JudgeRequest, Question, QuestionKind
from .prompting import Frames, Prompt

SCORE = "score"
"""The key of the score in a reply with a single score."""
MAX_OPTIONS = 255
"""The most options of a question to a decision model."""
_MAX_LEVELS = 10


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
    **fields: Any,
) -> JudgeRequest:
    """A question to a decision model about texts; ``about_frame`` is the one that it is about, if they are many.

    ``values`` are those of the options, for the expected value; empty if they have none.
    """
    state, instructions = prompt.render_question(words={"form": "", **words}, **texts)
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
        **fields,
    )


def _question_kind(options: Sequence[str]) -> QuestionKind:
    if set(options) == {"no", "yes"}:
        return "predicate"
    is_scale = all(option.isdecimal() for option in options) and sorted(options, key=int) == list(options)
    return "score" if is_scale and len(options) <= _MAX_LEVELS else "choice"
