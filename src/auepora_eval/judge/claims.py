"""What a text claims, as statements that can be checked one by one."""

from __future__ import annotations

from ..core.errors import BadValueError, JudgeError
from .asking import one_number
from .critic import Critic, JudgeRequest, Judging
from .prompting import Frames, Prompt, built_in_prompt

__all__ = ["claims_of", "require_extractor", "require_lists"]

_FORM = 'Reply with one JSON object and nothing else: {"claims": ["<claim>", ...]}'
_SCHEMA = {
    "type": "object",
    "properties": {"claims": {"type": "array", "items": {"type": "string"}}},
    "required": ["claims"],
    "additionalProperties": False,
}


def require_extractor(critic: Critic, metric: str) -> None:
    """Raise unless a critic can list claims: one that gives a bare number cannot."""
    require_lists(critic, metric, "claims", ", or write 'claims: sentences', which takes each sentence for a claim")


def require_lists(critic: Critic, metric: str, what: str, otherwise: str = "") -> None:
    """Raise unless a critic can answer with a list."""
    if one_number(critic):
        raise BadValueError(
            f"metric '{metric}' has {what} listed by its critic, and this one gives a number alone: take a "
            f"StructuredCritic such as OpenAICritic{otherwise}"
        )


async def claims_of(
    judge: Judging,
    critic: Critic,
    text: str,
    *,
    question: Frames,
    metric: str,
    sample_id: str,
    repeat: int = 0,
    prompt: Prompt | None = None,
    named: str = "",
) -> list[str]:
    """The claims of a text, each once, in its order; none where it claims nothing.

    ``JudgeError`` where the critic gives no list. An empty text is not asked about. Metrics that ask through a
    ``SharedJudging`` have each text taken apart once. ``named`` is what the text is called where judgements are shown.
    """
    if not text.strip():
        return []
    require_extractor(critic, metric)
    used = prompt or built_in_prompt("claims")
    system, filled = used.filled(words={"form": _FORM}, question=question, text=text)
    request = JudgeRequest(
        prompt=filled,
        system=system,
        schema=_SCHEMA,
        prompt_id=used.id,
        repeat=repeat,
        metric=metric,
        sample_id=sample_id,
        metadata={"metric": metric, "sample_id": sample_id},
        about={"of": named},
    )
    answer = await judge.ask(critic, request)
    said = answer.answer.get("claims")
    if not isinstance(said, (list, tuple)) or not all(isinstance(one, str) for one in said):
        raise JudgeError(
            "unparseable", f"the judge gave {said!r:.80} where a list of claims was asked for", raw=answer.raw
        )
    return list(dict.fromkeys(one.strip() for one in said if one.strip()))
