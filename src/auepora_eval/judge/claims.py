"""Claim extraction: decompose a text into statements that can be checked one by one."""

from __future__ import annotations

from ..core.errors import BadValueError, JudgeError
from .critic import Critic, JudgeClient, JudgeRequest
from .prompting import Frames, Prompt, built_in_prompt
from .ratings import returns_number_only

__all__ = ["extract_claims", "require_extractor", "require_structured_critic"]

_FORM = 'Reply with one JSON object and nothing else: {"claims": ["<claim>", ...]}'
_SCHEMA = {
    "type": "object",
    "properties": {"claims": {"type": "array", "items": {"type": "string"}}},
    "required": ["claims"],
    "additionalProperties": False,
}


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
    prompt_used = prompt or built_in_prompt("claims")
    system, user_message = prompt_used.render(words={"form": _FORM}, question=question, text=text)
    request = JudgeRequest(
        prompt=user_message,
        system=system,
        schema=_SCHEMA,
        prompt_id=prompt_used.id,
        repeat=repeat,
        metric=metric,
        sample_id=sample_id,
        metadata={"metric": metric, "sample_id": sample_id},
        about={"of": source_name},
    )
    answer = await judge.ask(critic, request)
    claims = answer.answer.get("claims")
    if not isinstance(claims, (list, tuple)) or not all(isinstance(one, str) for one in claims):
        raise JudgeError(
            "unparseable", f"the judge gave {claims!r:.80} where a list of claims was asked for", raw=answer.raw
        )
    return list(dict.fromkeys(one.strip() for one in claims if one.strip()))
