"""Critic for OpenAI-compatible chat completion servers: vLLM, Ollama, llama.cpp, hosted services."""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Any, Literal, NoReturn

from ..errors import AueporaWarning, BadTypeError, BadValueError, JudgeError
from ..net.client import (
    Address,
    HttpClient,
    HttpReply,
    check_headers,
    encode_json,
    is_private_host,
    parse_address,
    status_text,
)
from ..net.retry import HttpRequestError
from ..options import NonEmpty, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, check_options
from ..runtime.secrets import ELLIPSIS, MIN_SECRET_LENGTH, REDACTED, Secrets
from .critic import Judgement, JudgeRequest, StructuredCritic, Usage
from .parse import read_answer, replace_lone_surrogates, shorten
from .ratings import ExpectedScore, expected_score, parse_logprobs, weighted_labels

# --- checks of the options, before anything is sent ------------------------------------------------------------------

_OWN_FIELDS = frozenset({
    "model", "messages", "temperature", "seed", "max_tokens", "max_completion_tokens", "response_format", "logprobs",
    "top_logprobs", "stream", "n",
})  # fmt: skip


def check_address(base_url: object, endpoint: str = "/chat/completions") -> Address:
    """The base URL of a server; a trailing endpoint path is removed."""
    if isinstance(base_url, str):
        before, at, query = base_url.partition("?")
        base_url = before.rstrip("/").removesuffix(endpoint) + at + query
    return parse_address(base_url)


def check_extra_body(extra: object) -> dict[str, Any]:
    """Additional fields of the request body, checked to be JSON."""
    if not isinstance(extra, Mapping):
        raise BadTypeError(f"extra must map names of fields to values, not be a {type(extra).__name__}")
    for name in extra:
        if name in _OWN_FIELDS:
            raise BadValueError(f"extra: '{name}' is an option of its own, or is not for judges; leave it out")
    try:
        body: dict[str, Any] = json.loads(json.dumps(dict(extra), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise BadValueError(f"extra is not JSON: {error}") from None
    return body


# --- errors of servers, translated to ``JudgeError`` with a reason and a remedy --------------------------------------

_EXCERPT = 300
_MASKED_KEY = re.compile(r"\S*\*{3,}\S*")
"""Services quote the first and last letters of a rejected key."""
_CONTEXT = re.compile(
    r"context.?(length|window|size)|exceed.{0,30}context|(prompt|input|message).{0,20}too (long|large)|too many tokens"
    r"|maximum.{0,40}tokens|reduce the length",
    re.IGNORECASE,
)
_FILTER = re.compile(
    r"content.?(filter|management|policy)|responsible.?ai|moderation|flagged|safety (system|setting)", re.IGNORECASE
)
_MODEL = re.compile(
    r"model.?not.?found|(invalid|unknown|no such) model|model\b.{0,80}\b(not found|not exist|not available)",
    re.IGNORECASE,
)
_QUOTA = re.compile(r"insufficient.?(quota|balance|credit|funds)|billing|exceeded your current quota", re.IGNORECASE)
_TRANSIENT_STATUSES = frozenset({408, 409, 425})


def status_error(
    status: int, body: str, *, url: str, variable: str | None, retry_after: float | None = None
) -> JudgeError:
    """The error for a reply with an error status."""
    server_message, searchable = extract_error_message(body), _searchable_text(body)
    message = f"{status_text(status)}{f': {server_message}' if server_message else ''}"
    if status == 401 or (status == 403 and not _FILTER.search(searchable)):
        hint = f"; is {variable} the right key for {url}?" if variable else ""
        return JudgeError("unauthorized", f"{message}{hint}", lasting=True)
    if status == 402 or (status == 429 and _QUOTA.search(searchable)):
        return JudgeError("rate_limited", f"{message}; what was paid for is used up", lasting=True)
    if status == 429:
        return JudgeError("rate_limited", message, retry=True, retry_after=retry_after)
    if status == 413 or _CONTEXT.search(searchable):
        return JudgeError("context_too_long", message)
    if (status >= 500 and status != 501) or status in _TRANSIENT_STATUSES:
        return JudgeError("server_error", message, retry=True, retry_after=retry_after)
    if _FILTER.search(searchable):
        return JudgeError("content_filter", message)
    if status == 404 or _MODEL.search(searchable):
        hint = f"; does {url} know the model, and does its address end as the server wants it, often in /v1?"
        return JudgeError("model_not_found", f"{message}{hint}", lasting=True)
    return JudgeError("bad_request", message)


def request_error(error: HttpRequestError, *, url: str) -> JudgeError:
    """The error for a request without a reply that can be used."""
    problems = {
        "connect_timeout": ("unreachable", f"{url} does not take connections in time"),
        "timeout": ("timeout", f"{url} did not answer in time"),
        "unreachable": ("unreachable", f"{url} cannot be reached ({error.message})"),
        "no_reply": ("server_error", f"{url} closed the connection in the middle of its reply"),
        "truncated": ("server_error", f"{url} closed the connection in the middle of its reply"),
    }
    reason, message = problems.get(error.reason) or ("server_error", _excerpt(error.message))
    return JudgeError(reason, message, retry=error.retry)


def malformed_reply_error(what: str, body: str) -> JudgeError:
    """The error for a reply that violates the protocol; a retry may help."""
    return JudgeError("server_error", f"{what}: {_excerpt(body)}", retry=True)


def extract_error_message(body: str) -> str:
    """The error message in a reply body, on one line, whatever its format."""
    found = _error_in(body)
    if isinstance(found, dict):
        found = next((found[key] for key in ("message", "detail") if found.get(key)), found)
    return _excerpt(found if isinstance(found, str) else json.dumps(found))


def _searchable_text(body: str) -> str:
    """The parts of an error that classify it: message and codes, without quoted parts of the prompt."""
    found = _error_in(body)
    if not isinstance(found, dict):
        return found[:_EXCERPT] if isinstance(found, str) else ""
    parts = [found.get(key) for key in ("message", "code", "type", "param", "detail")]
    inner = found.get("innererror")
    parts += [inner.get("code")] if isinstance(inner, dict) else []
    return " ".join(part[:_EXCERPT] for part in parts if isinstance(part, str))


def _error_in(body: str) -> Any:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return body
    return found["error"] if isinstance(found, dict) and found.get("error") else found


def _excerpt(text: str) -> str:
    line = _MASKED_KEY.sub(REDACTED, " ".join(text[: 4 * _EXCERPT].split()))
    return line[:_EXCERPT] + ELLIPSIS if len(line) > _EXCERPT or len(text) > 4 * _EXCERPT else line


# --- replies of servers: the text, the usage, or the failure ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChatReply:
    """The model's reply."""

    text: str
    usage: Usage
    logprobs: Any = None
    """Token log-probabilities, as sent by the server."""


def decode_reply(reply: HttpReply, *, url: str, variable: str | None, secrets: Secrets) -> dict[str, Any]:
    """The reply as JSON; ``JudgeError`` if it is an error, whatever its status, or not JSON."""
    redirect = reply.redirect_message(secrets)
    if redirect is not None:
        raise JudgeError("redirected", f"{redirect}: set base_url to it", lasting=True)
    text = reply.body.decode(errors="replace")
    if not reply.is_success:
        raise status_error(reply.status, text, url=url, variable=variable, retry_after=reply.retry_after)
    try:
        content = json.loads(reply.body)
    except (ValueError, RecursionError):
        raise malformed_reply_error("the reply is no JSON", text) from None
    if not isinstance(content, dict):
        raise malformed_reply_error("the reply is no object", text)
    if content.get("error") and not content.get("choices"):
        error = content["error"]
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
        raise status_error(status, text, url=url, variable=variable, retry_after=reply.retry_after)
    return content


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
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return replace_lone_surrogates(content) if isinstance(content, str) else ""


def _usage(value: Any) -> Usage:
    counts_by_name = value if isinstance(value, dict) else {}
    counts = (counts_by_name.get(name) for name in ("prompt_tokens", "completion_tokens"))
    return Usage(*(max(0, count) if isinstance(count, int) else 0 for count in counts))


# --- requests: messages, the schema, and fallbacks for what a server does not support --------------------------------

SchemaMode = Literal["auto", "json_schema", "json_object", "none"]
REVISION = 1
"""Part of cache keys: raise it when the body sent for the same request changes."""
_NEXT_MODE: dict[str, SchemaMode] = {"json_schema": "json_object", "json_object": "none"}
_MODE_NAMES = {"json_object": "the prompt and JSON mode", "none": "the prompt alone"}
_SCHEMA_ERROR = re.compile(r"response.?format|json.?(schema|object)|schema|grammar|structured|guided", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ServerCapabilities:
    """The request features to use, given what the server is known to reject."""

    schema: SchemaMode
    tokens_field: str = "max_tokens"
    logprobs: bool = False
    allow_fallback: bool = False

    def fallback_for(self, message: str) -> Fallback | None:
        """The fallback after a rejected request, or ``None``."""
        if "max_completion_tokens" in message and self.tokens_field == "max_tokens":
            return Fallback(replace(self, tokens_field="max_completion_tokens"))
        if self.logprobs and "logprobs" in message:
            loss = "tells no probabilities: scores are not weighted by them"
            return Fallback(replace(self, logprobs=False), {"logprobs": loss})
        if self.allow_fallback and self.schema in _NEXT_MODE:
            lower = _NEXT_MODE[self.schema]
            loss = f"takes no response_format by schema: answers are asked for by {_MODE_NAMES[lower]}"
            return Fallback(replace(self, schema=lower), {"schema": loss}, bool(_SCHEMA_ERROR.search(message)))
        return None


@dataclass(frozen=True, slots=True)
class Fallback:
    """A request with fewer features."""

    capabilities: ServerCapabilities
    losses: Mapping[str, str] = field(default_factory=dict)
    """What is lost by it, for a warning."""
    is_explicit: bool = True
    """Whether the server named this feature as the problem; if not, it may be another one."""


def build_messages(request: JudgeRequest, mode: SchemaMode) -> list[dict[str, str]]:
    """System and user message, with the schema in the prompt if it cannot be sent separately."""
    messages = [{"role": "system", "content": request.system}] if request.system else []
    prompt = request.prompt
    if mode != "json_schema":
        prompt = f"{prompt}\n\nAnswer with one JSON object. {_schema_instruction(request.schema)}"
    return [*messages, {"role": "user", "content": prompt}]


def repair_messages(answer: str, why: str, schema: Mapping[str, Any]) -> list[dict[str, str]]:
    """The messages that follow a reply that cannot be parsed."""
    instruction = (
        f"This answer cannot be used: {why}. Judge again, by the same instructions, and answer with nothing but one "
        f"JSON object. {_schema_instruction(schema)}"
    )
    return [{"role": "assistant", "content": shorten(answer)}, {"role": "user", "content": instruction}]


def response_format(schema: Mapping[str, Any], mode: SchemaMode) -> dict[str, Any] | None:
    """The ``response_format`` of a request."""
    if mode == "none":
        return None
    if mode == "json_object":
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": _json_schema(json.dumps(schema, default=dict))}


@lru_cache(maxsize=256)
def _json_schema(schema: str) -> dict[str, Any]:
    closed = close_schema(json.loads(schema))
    return {"name": "judgement", "schema": closed, "strict": _is_strict(closed)}


def close_schema(schema: Any) -> Any:
    """The schema with ``additionalProperties: false`` on every object that does not set it."""
    if isinstance(schema, Mapping):
        closed = {key: close_schema(inner) for key, inner in schema.items()}
        if "properties" in closed:
            closed.setdefault("additionalProperties", False)
        return closed
    return [close_schema(inner) for inner in schema] if isinstance(schema, (list, tuple)) else schema


def _is_strict(schema: Any) -> bool:
    """Whether a schema satisfies the rules of strict mode: nothing optional, nothing extra."""
    if isinstance(schema, Mapping):
        named = schema.get("properties")
        if isinstance(named, Mapping):
            if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(named):
                return False
        elif schema.get("type") == "object":
            return False
        return all(map(_is_strict, schema.values()))
    return all(map(_is_strict, schema)) if isinstance(schema, list) else True


def _schema_instruction(schema: Mapping[str, Any]) -> str:
    """The schema as a sentence; the example comes last, because small models copy what they saw last."""
    schema_json = json.dumps(schema, ensure_ascii=False, default=dict)
    return f"Its JSON schema is {schema_json}, so that it looks like this: {_example(schema)}"


def _example(schema: Any) -> str:
    """An example that fits a schema, with placeholders in angle brackets."""
    if not isinstance(schema, Mapping):
        return "<anything>"
    if "enum" in schema:
        return f"<{' or '.join(json.dumps(label, ensure_ascii=False) for label in schema['enum'])}>"
    kind = schema.get("type")
    if isinstance(schema.get("properties"), Mapping):
        return (
            "{"
            + ", ".join(f"{json.dumps(key)}: {_example(inner)}" for key, inner in schema["properties"].items())
            + "}"
        )
    if kind == "array":
        return f"[{_example(schema.get('items'))}, ...]"
    if kind in ("integer", "number"):
        what = "whole number" if kind == "integer" else "number"
        least, most = schema.get("minimum"), schema.get("maximum")
        return f"<{what}{'' if least is None or most is None else f' from {least} to {most}'}>"
    return {"string": '"<text>"', "boolean": "<true or false>"}.get(str(kind), "<anything>")


# --- the critic ------------------------------------------------------------------------------------------------------

_DEFAULT_URL = "https://api.openai.com/v1"
_TOP_LOGPROBS = 20
"""The maximum ``top_logprobs`` of most services."""
_REPAIRABLE = ("unparseable", "out_of_range")


class HttpCritic(StructuredCritic):
    """A judge behind an HTTP endpoint: its address, key and connections, and errors without secrets."""

    endpoint = "/chat/completions"
    """The path after the base URL."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None,
        api_key_env: str | None,
        headers: Mapping[str, str] | None,
        timeout: float | None,
    ) -> None:
        self.model, self.api_key_env = model, api_key_env
        self.timeout = None if timeout is None else float(timeout)
        address = base_url or os.environ.get("OPENAI_BASE_URL") or _DEFAULT_URL
        self._address = check_address(address, self.endpoint)
        self._headers, self._secrets = check_headers(headers or {}, self._address)

    def _reset(self) -> None:
        """Forget the connections, and what is known about the server."""
        self._client = HttpClient(self._address, timeout=self.timeout)
        self._warned: set[str] = set()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, base_url={self._address.shown!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in vars(self).items() if name not in ("_client", "_capabilities", "_warned")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._reset()

    def require_key(self) -> None:
        """Raise if the server needs a key and there is none."""
        self._key()

    async def judge(self, request: JudgeRequest) -> Judgement:
        """One judgement; ``JudgeError`` without the key or the headers on failure."""
        try:
            return await self._judge(request)
        except JudgeError as error:
            self._raise_without_secrets(error)

    @abstractmethod
    async def _judge(self, request: JudgeRequest) -> Judgement:
        """One judgement."""

    async def aclose(self) -> None:
        """Close the connections that were opened on the running loop."""
        await self._client.aclose()

    async def _post(self, body: dict[str, Any]) -> HttpReply:
        """The reply to a request."""
        path, at, query = self._address.target.partition("?")
        headers = {"Authorization": f"Bearer {self._key()}"}
        if any(name.lower() == "authorization" for name in self._headers):
            headers = {}
        try:
            return await self._client.send(
                "POST", f"{path.rstrip('/')}{self.endpoint}{at}{query}", headers | self._headers, encode_json(body)
            )
        except HttpRequestError as error:
            raise request_error(error, url=self._address.shown) from None

    async def _send(self, body: dict[str, Any]) -> dict[str, Any]:
        """The reply as JSON."""
        reply = await self._post(body)
        return decode_reply(reply, url=self._address.shown, variable=self.api_key_env, secrets=self._secrets)

    def _key(self) -> str:
        key = os.environ.get(self.api_key_env or "", "").strip()
        if key and not (key.isascii() and key.isprintable() and " " not in key):
            raise JudgeError(
                "no_key", f"what the environment variable {self.api_key_env} holds is no key", lasting=True
            )
        signed = any(name.lower() in ("authorization", "api-key", "x-api-key") for name in self._headers)
        if not key and not signed and not is_private_host(self._address.host):
            variable = self.api_key_env
            problem = f"the environment variable {variable} is not set" if variable else "api_key_env names no variable"
            raise JudgeError("no_key", f"{problem}, and {self._address.shown} asks for a key", lasting=True)
        return key or "none"

    def _raise_without_secrets(self, error: JudgeError) -> NoReturn:
        key = os.environ.get(self.api_key_env or "", "").strip()
        # The original error may quote what was sent, so it is kept neither as the cause nor as the context, and the
        # traceback would keep the reply in memory.
        for secrets in (self._secrets, Secrets([key] if len(key) >= MIN_SECRET_LENGTH else [])):
            if secrets:
                secrets.redact_error(error)
        error.__context__ = None
        raise error.with_traceback(None) from None


class OpenAICritic(HttpCritic):
    """Judges with a model behind an endpoint. The key is read from the environment variable named by ``api_key_env``.

    ``base_url`` is the server's, by default ``$OPENAI_BASE_URL`` or OpenAI's own; one on this machine or in its network
    needs no key. ``temperature``, ``seed`` and ``max_tokens`` are not sent if they are ``None``; a repeated judgement
    uses the next seed. ``schema`` selects how the schema is requested: ``json_schema``, ``json_object``, ``none`` (in
    the prompt only), or ``auto``, the first of these that the server supports. With ``logprobs`` a score may be an
    expected value. ``extra`` is added to the body; ``headers`` are sent as headers, treated as secret and not part of
    the cache key. A reply that cannot be parsed is followed by one repair request.

    Example:
        >>> OpenAICritic("local-model", base_url="http://127.0.0.1:8000/v1", api_key_env=None).name
        'openai:local-model'
    """

    calls_at_most = 2
    """Requests per question: one, and one to repair the reply."""

    def __init__(
        self,
        model: Annotated[str, NonEmpty()],
        *,
        base_url: str | None = None,
        api_key_env: str | None = "OPENAI_API_KEY",
        temperature: NonNegativeFloat | None = 0.0,
        seed: NonNegativeInt | None = 0,
        max_tokens: PositiveInt | None = 2048,
        schema: SchemaMode = "auto",
        logprobs: bool = False,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        timeout: PositiveFloat | None = 120.0,
    ) -> None:
        plain = {"model": model, "temperature": temperature, "seed": seed, "max_tokens": max_tokens}
        check_options(OpenAICritic, {**plain, "schema": schema, "timeout": timeout})
        super().__init__(model, base_url=base_url, api_key_env=api_key_env, headers=headers, timeout=timeout)
        self.schema, self.logprobs = schema, bool(logprobs)
        self.temperature = None if temperature is None else float(temperature)
        self.seed, self.max_tokens = seed, max_tokens
        self.extra = check_extra_body(extra or {})
        self.name = self._build_name()
        self._reset()

    def _reset(self) -> None:
        """Forget what is known about the server, and its connections."""
        super()._reset()
        auto = self.schema == "auto"
        self._capabilities = ServerCapabilities(
            "json_schema" if auto else self.schema, logprobs=self.logprobs, allow_fallback=auto
        )

    def _build_name(self) -> str:
        parts = [f"openai:{self.model}"]
        if self.temperature != 0:
            parts.append(f"temperature={self.temperature if self.temperature is not None else 'default'}")
        if self.schema != "auto":
            parts.append(f"schema={self.schema}")
        if self.logprobs:
            parts.append("weighted")
        if self.extra:
            parts.append(f"extra={hashlib.sha256(json.dumps(self.extra, sort_keys=True).encode()).hexdigest()[:8]}")
        return ",".join(parts).replace("|", "/")

    def cache_key(self, request: JudgeRequest) -> Mapping[str, Any]:
        """Everything that is sent besides the request, the key and the headers."""
        return {
            "critic": "openai",
            "revision": REVISION,
            "base_url": self._address.shown.rstrip("/"),
            "model": self.model,
            "temperature": self.temperature,
            "seed": self._seed(request),
            "max_tokens": self.max_tokens,
            "schema": self.schema,
            "logprobs": self.logprobs and request.weighted is not None,
            "extra": self.extra,
        }

    # --- a judgement ------------------------------------------------------------------------------------------------

    async def _judge(self, request: JudgeRequest) -> Judgement:
        first = await self._ask(request)
        try:
            return self._read(request, first, first.usage)
        except JudgeError as error:
            if error.reason not in _REPAIRABLE or not request.may_repair:
                raise add_tokens(error, first.usage) from None
            why = error.message
        try:
            second = await self._ask(request, repair_messages(first.text, why, request.schema))
        except JudgeError as error:
            error.calls += 1
            raise add_tokens(error, first.usage) from None
        usage = first.usage + second.usage
        try:
            return self._read(request, second, usage, repaired=True)
        except JudgeError as error:
            message = f"{error.message}; before that: {why}"
            both_replies = f"{shorten(first.text)}\n\n[asked again]\n\n{shorten(second.text)}"
            raise add_tokens(JudgeError(error.reason, message, raw=both_replies, calls=2), usage) from None

    def _read(self, request: JudgeRequest, reply: ChatReply, usage: Usage, *, repaired: bool = False) -> Judgement:
        parsed = read_answer(reply.text, request.schema)
        expected: ExpectedScore | None = None
        name = request.weighted
        if self.logprobs and name is not None and name in parsed.spans and (tokens := parse_logprobs(reply.logprobs)):
            labels = weighted_labels(request)
            expected = expected_score(tokens, reply.text, parsed.spans[name], labels) if labels else None
        return Judgement(
            parsed.answer,
            usage,
            raw=reply.text,
            weighted=None if expected is None else expected.value,
            mass=None if expected is None else expected.mass,
            repaired=repaired,
        )

    async def _ask(self, request: JudgeRequest, further: list[dict[str, str]] | None = None) -> ChatReply:
        """One reply; if the server rejects a request feature, try again without it."""
        capabilities = self._capabilities
        losses: dict[str, str] = {}
        first_error: JudgeError | None = None
        while True:
            try:
                reply = await self._send(self._body(request, further or [], capabilities))
            except JudgeError as error:
                fallback = capabilities.fallback_for(error.message) if error.reason == "bad_request" else None
                if fallback is None:
                    raise first_error or error from None
                losses |= fallback.losses
                capabilities, first_error = (
                    fallback.capabilities,
                    None if fallback.is_explicit else first_error or error,
                )
                continue
            if capabilities != self._capabilities:
                self._capabilities = capabilities
                self._warn(losses.values())
            return parse_reply(reply, max_tokens=self.max_tokens)

    def _warn(self, losses: Iterable[str]) -> None:
        for loss in losses:
            if loss not in self._warned:
                self._warned.add(loss)
                warnings.warn(f"the judge {self.model} at {self._address.shown} {loss}", AueporaWarning, stacklevel=2)

    def _seed(self, request: JudgeRequest) -> int | None:
        return None if self.seed is None else self.seed + request.repeat

    def _body(
        self, request: JudgeRequest, further: list[dict[str, str]], capabilities: ServerCapabilities
    ) -> dict[str, Any]:
        use_logprobs = capabilities.logprobs and request.weighted is not None
        body = {
            **self.extra,
            "model": self.model,
            "messages": [*build_messages(request, capabilities.schema), *further],
            "temperature": self.temperature,
            "seed": self._seed(request),
            capabilities.tokens_field: self.max_tokens,
            "response_format": response_format(request.schema, capabilities.schema),
            "logprobs": True if use_logprobs else None,
            "top_logprobs": _TOP_LOGPROBS if use_logprobs else None,
        }
        return {name: value for name, value in body.items() if value is not None}
