"""Critic for OpenAI-compatible chat completion servers: vLLM, Ollama, llama.cpp, hosted services."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, get_args
from urllib.parse import parse_qsl
from weakref import WeakKeyDictionary

from ..core.errors import AueporaWarning, BadValueError, JudgeError
from ..core.secrets import MIN_SECRET_LENGTH, Secrets
from ..systems.addresses import check_headers
from .connections import bypasses_proxy, make_http_client
from .critic import Judgement, JudgeRequest, StructuredCritic, Usage
from .openai_checks import check_address, check_extra_body, check_integer, check_number, is_private_host, require_openai
from .openai_errors import connection_error, missing_key_error, status_error
from .openai_reply import ChatReply, add_tokens, decode_body, parse_reply
from .openai_request import REVISION, SchemaMode, ServerCapabilities, build_messages, repair_messages, response_format
from .parse import read_answer, shorten
from .probabilities import ExpectedScore, expected_score, parse_logprobs, single_digit_labels

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAICritic"]

_DEFAULT_URL = "https://api.openai.com/v1"
_TOP_LOGPROBS = 20
"""The maximum ``top_logprobs`` of most services."""
_REPAIRABLE = ("unparseable", "out_of_range")


class OpenAICritic(StructuredCritic):
    """Judges with a model behind an endpoint. The key is read from the environment variable named by ``api_key_env``.

    ``base_url`` is the server's, by default ``$OPENAI_BASE_URL`` or OpenAI's own; one on this machine or in its network
    needs no key. ``temperature``, ``seed`` and ``max_tokens`` are not sent if they are ``None``; a repeated judgement
    uses the next seed. ``schema`` selects how the schema is requested: ``json_schema``, ``json_object``, ``none`` (in
    the prompt only), or ``auto``, the first of these that the server supports. With ``logprobs`` a score may be an
    expected value. ``extra`` is added to the body; ``headers`` are sent as headers, treated as secret and not part of
    the cache key. A reply that cannot be parsed is followed by one repair request.
    """

    calls_at_most = 2
    """Requests per question: one, and one to repair the reply."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key_env: str | None = "OPENAI_API_KEY",
        temperature: float | None = 0.0,
        seed: int | None = 0,
        max_tokens: int | None = 2048,
        schema: SchemaMode = "auto",
        logprobs: bool = False,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        timeout: float | None = 120.0,
    ) -> None:
        require_openai()
        if not isinstance(model, str) or not model.strip():
            raise BadValueError(f"model must be the name of a model, not {model!r:.80}")
        if schema not in get_args(SchemaMode):
            raise BadValueError(f"schema must be one of {', '.join(get_args(SchemaMode))}, not {schema!r:.80}")
        self.model, self.schema, self.logprobs, self.api_key_env = model, schema, bool(logprobs), api_key_env
        self.temperature = check_number("temperature", temperature)
        self.seed = check_integer("seed", seed, minimum=0)
        self.max_tokens = check_integer("max_tokens", max_tokens, minimum=1)
        self.timeout = check_number("timeout", timeout, positive=True)
        self.extra = check_extra_body(extra or {})
        self._address = check_address(base_url or os.environ.get("OPENAI_BASE_URL") or _DEFAULT_URL)
        self._headers, self._secrets = check_headers(headers or {}, self._address)
        self.name = self._build_name()
        self._reset()

    def _reset(self) -> None:
        """Forget what is known about the server, and its connections."""
        auto = self.schema == "auto"
        self._capabilities = ServerCapabilities(
            "json_schema" if auto else self.schema, logprobs=self.logprobs, allow_fallback=auto
        )
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncOpenAI] = WeakKeyDictionary()
        self._warned: set[str] = set()

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

    def __repr__(self) -> str:
        return f"OpenAICritic({self.model!r}, base_url={self._address.shown!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in vars(self).items() if name not in ("_clients", "_capabilities", "_warned")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._reset()

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

    def require_key(self) -> None:
        """Raise if the server needs a key and there is none."""
        self._key()

    async def judge(self, request: JudgeRequest) -> Judgement:
        """One judgement; a reply that cannot be parsed is followed by one repair request."""
        try:
            return await self._judge(request)
        except JudgeError as error:
            self._raise_without_secrets(error)

    async def aclose(self) -> None:
        """Close the connections that were opened on the running loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

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
            labels = single_digit_labels(request.schema.get("properties", {}).get(name, {}))
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

    # --- the wire ---------------------------------------------------------------------------------------------------

    async def _send(self, body: dict[str, Any]) -> dict[str, Any]:
        """The reply as JSON."""
        client = self._client()
        import httpx2
        import openai

        url, variable = self._address.shown, self.api_key_env
        try:
            reply = await client.post("/chat/completions", body=body, cast_to=httpx2.Response)
        except openai.APIStatusError as error:
            response = error.response
            judge_error = status_error(error.status_code, response.headers, response.text, url=url, variable=variable)
            raise judge_error from None
        except openai.OpenAIError as error:
            raise connection_error(error, url=url) from None
        except httpx2.HTTPError as error:
            raise connection_error(error, url=url) from None
        return decode_body(reply.content, reply.headers, url=url, variable=variable)

    def _client(self) -> AsyncOpenAI:
        """The client of the running loop, created on first use."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = self._new_client()
        return client

    def _new_client(self) -> AsyncOpenAI:
        import openai

        return openai.AsyncOpenAI(
            api_key=self._key(),
            base_url=self._address.shown,
            default_query=dict(parse_qsl(self._address.query)),
            default_headers=self._headers,
            timeout=self.timeout,
            max_retries=0,  # the session retries
            http_client=make_http_client(self.timeout) if self._is_direct() else None,
        )

    def _is_direct(self) -> bool:
        """Whether no proxy is used; private hosts never need one."""
        return is_private_host(self._address.host) or bypasses_proxy(self._address.host)

    def _key(self) -> str:
        key = os.environ.get(self.api_key_env or "", "").strip()
        if key and not (key.isascii() and key.isprintable() and " " not in key):
            raise JudgeError(
                "no_key", f"what the environment variable {self.api_key_env} holds is no key", lasting=True
            )
        signed = any(name.lower() in ("authorization", "api-key", "x-api-key") for name in self._headers)
        if not key and not signed and not is_private_host(self._address.host):
            raise missing_key_error(self.api_key_env, self._address.shown)
        return key or "none"

    def _raise_without_secrets(self, error: JudgeError) -> NoReturn:
        key = os.environ.get(self.api_key_env or "", "").strip()
        # The original error may quote what was sent, so it is not kept as the cause.
        for secrets in (self._secrets, Secrets([key] if len(key) >= MIN_SECRET_LENGTH else [])):
            if secrets:
                secrets.redact_error(error)
        raise error from None
