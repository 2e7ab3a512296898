"""What a server that speaks as OpenAI's does replied: the text, what it took, or why there is none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..core.errors import JudgeError
from .critic import Usage
from .lenient_json import replace_lone_surrogates
from .openai_errors import malformed_reply_error, status_error
from .parse import shorten

__all__ = ["ChatReply", "add_tokens", "decode_body", "parse_reply"]


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What the model said."""

    text: str
    usage: Usage
    logprobs: Any = None
    """Tokens with their probabilities, as they were sent."""


def decode_body(body: bytes, headers: Mapping[str, str], *, place: str, variable: str | None) -> dict[str, Any]:
    """A reply as JSON; ``JudgeError`` where it is none, or is an error that came with a good status."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise malformed_reply_error("the reply is no JSON", body.decode(errors="replace")) from None
    if not isinstance(found, dict):
        raise malformed_reply_error("the reply is no object", body.decode(errors="replace"))
    if found.get("error") and not found.get("choices"):
        error = found["error"]
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
        raise status_error(status, headers, body.decode(errors="replace"), place=place, variable=variable)
    return found


def parse_reply(reply: Mapping[str, Any], *, max_tokens: int | None) -> ChatReply:
    """What the model said, or why it said nothing that can be used."""
    usage = _usage(reply.get("usage"))
    choices = reply.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise add_tokens(malformed_reply_error("the reply has no message in it", json.dumps(reply)), usage)
    text, refusal, finish = _text(message.get("content")), _text(message.get("refusal")), choice.get("finish_reason")
    fault: tuple[str, str] | None = None
    if finish == "content_filter":
        fault = "content_filter", "the service's filter took the answer back"
    elif refusal.strip():
        fault = "refused", "the judge declined to judge"
    elif finish == "length":
        allowed = "the model's context" if max_tokens is None else f"max_tokens ({max_tokens})"
        fault = "cut_off", f"the answer is longer than {allowed} allows"
    elif not text.strip():
        fault = "empty_answer", "the judge said nothing"
    if fault is not None:
        raise add_tokens(JudgeError(*fault, raw=shorten(text or refusal)), usage)
    logprobs = choice.get("logprobs")
    return ChatReply(text, usage, logprobs.get("content") if isinstance(logprobs, dict) else None)


def add_tokens(error: JudgeError, usage: Usage) -> JudgeError:
    """The error, with what was spent counted in."""
    asked, told = error.tokens
    error.tokens = asked + usage.prompt_tokens, told + usage.completion_tokens
    return error


def _text(content: Any) -> str:
    """The text of a message, which may come in parts."""
    if isinstance(content, list):
        content = "".join(str(one.get("text") or "") for one in content if isinstance(one, dict))
    return replace_lone_surrogates(content) if isinstance(content, str) else ""


def _usage(found: Any) -> Usage:
    held = found if isinstance(found, dict) else {}
    counts = (held.get(name) for name in ("prompt_tokens", "completion_tokens"))
    return Usage(*(max(0, one) if isinstance(one, int) else 0 for one in counts))
