"""What a text claims, as statements that can be checked one by one."""

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
    """Raise unless a critic can list claims: one that gives a bare number cannot."""
    require_structured_critic(
        critic, metric, "claims", ", or write 'claims: sentences', which takes each sentence for a claim"
    )


def require_structured_critic(critic: Critic, metric: str, what: str, otherwise: str = "") -> None:
    """Raise unless a critic can answer with a list."""
    if returns_number_only(critic):
        raise BadValueError(
            f"metric '{metric}' has {what} listed by its critic, and this one gives a number alone: take a "
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
    system, filled = used.render(words={"form": _FORM}, question=question, text=text)
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
