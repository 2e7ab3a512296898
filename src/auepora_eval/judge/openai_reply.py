"""Replies of OpenAI-compatible servers: the text, the usage, or the failure."""

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
    """The model's reply."""

    text: str
    usage: Usage
    logprobs: Any = None
    """Token log-probabilities, as sent by the server."""


def decode_body(body: bytes, headers: Mapping[str, str], *, url: str, variable: str | None) -> dict[str, Any]:
    """The reply as JSON; ``JudgeError`` if it is not JSON, or is an error sent with a success status."""
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError):
        raise malformed_reply_error("the reply is no JSON", body.decode(errors="replace")) from None
    if not isinstance(reply, dict):
        raise malformed_reply_error("the reply is no object", body.decode(errors="replace"))
    if reply.get("error") and not reply.get("choices"):
        error = reply["error"]
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
        raise status_error(status, headers, body.decode(errors="replace"), url=url, variable=variable)
    return reply


def parse_reply(reply: Mapping[str, Any], *, max_tokens: int | None) -> ChatReply:
    """The model's reply; ``JudgeError`` if it cannot be used."""
    usage = _usage(reply.get("usage"))
    choices = reply.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise add_tokens(malformed_reply_error("the reply has no message in it", json.dumps(reply)), usage)
    text, refusal, finish = _text(message.get("content")), _text(message.get("refusal")), choice.get("finish_reason")
    failure: tuple[str, str] | None = None
    if finish == "content_filter":
        failure = "content_filter", "the service's filter took the answer back"
    elif refusal.strip():
        failure = "refused", "the judge declined to judge"
    elif finish == "length":
        allowed = "the model's context" if max_tokens is None else f"max_tokens ({max_tokens})"
        failure = "cut_off", f"the answer is longer than {allowed} allows"
    elif not text.strip():
        failure = "empty_answer", "the judge said nothing"
    if failure is not None:
        raise add_tokens(JudgeError(*failure, raw=shorten(text or refusal)), usage)
    logprobs = choice.get("logprobs")
    return ChatReply(text, usage, logprobs.get("content") if isinstance(logprobs, dict) else None)


def add_tokens(error: JudgeError, usage: Usage) -> JudgeError:
    """The error, with the tokens of a reply added."""
    prompt_tokens, completion_tokens = error.tokens
    error.tokens = prompt_tokens + usage.prompt_tokens, completion_tokens + usage.completion_tokens
    return error


def _text(content: Any) -> str:
    """The text of a message, which may be a list of parts."""
    if isinstance(content, list):
        content = "".join(str(one.get("text") or "") for one in content if isinstance(one, dict))
    return replace_lone_surrogates(content) if isinstance(content, str) else ""


def _usage(value: Any) -> Usage:
    counts_by_name = value if isinstance(value, dict) else {}
    counts = (counts_by_name.get(name) for name in ("prompt_tokens", "completion_tokens"))
    return Usage(*(max(0, one) if isinstance(one, int) else 0 for one in counts))
