"""Vectors from an OpenAI-compatible endpoint."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.errors import BadTypeError, BadValueError, MissingDependencyError
from ..core.secrets import Secrets, looks_like_secret
from ..features.told import Lost
from ..features.vectors import Encoded
from .encoding import readable, require_batch_size
from .vector_cache import encoded_through

__all__ = ["OpenAIEmbedder"]

_TEXTS_AT_ONCE = 256


@dataclass(frozen=True)
class OpenAIEmbedder:
    """Makes vectors by asking an endpoint that speaks OpenAI's embeddings protocol.

    The key stands in the environment variable that ``api_key_env`` names; an endpoint of your own (``base_url``) may
    need none. With ``cache`` vectors are kept in that file, and a text is paid for once. Texts for which the endpoint
    gives no vector after ``retries`` are failed measurements.
    """

    model: str
    base_url: str | None = field(default=None, kw_only=True)
    api_key_env: str = field(default="OPENAI_API_KEY", kw_only=True, compare=False)
    dimensions: int | None = field(default=None, kw_only=True)
    batch_size: int | None = field(default=None, kw_only=True, compare=False)
    timeout: float = field(default=60.0, kw_only=True, compare=False)
    retries: int = field(default=3, kw_only=True, compare=False)
    cache: str | None = field(default=None, kw_only=True, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.model, str) or not self.model:
            raise BadTypeError(f"model must be the name of an embedding model, not {self.model!r:.80}")
        if not isinstance(self.api_key_env, str) or not self.api_key_env.isidentifier():
            raise BadValueError("api_key_env must be the name of an environment variable, never the key itself")
        if looks_like_secret(self.api_key_env):
            raise BadValueError("api_key_env must name the environment variable that holds the key, not the key")
        require_batch_size(self.batch_size)

    @property
    def identity(self) -> str:
        """What tells its vectors from others."""
        where = [] if self.base_url is None else [self.base_url]
        return " ".join([self.model, *map(str, filter(None, [self.dimensions])), *where]).replace("|", "/")

    def spec(self) -> dict[str, Any]:
        """How a plan names it."""
        fields = type(self).__dataclass_fields__
        given = {name: getattr(self, name) for name, one in fields.items() if getattr(self, name) != one.default}
        return {"openai_embeddings": given}

    def require_ready(self) -> None:
        """Raise unless the package and the key are at hand; nobody is asked."""
        self._client()

    def encoded(self, texts: list[str]) -> Encoded:
        """The vectors of some texts; which ones the endpoint cut is not known."""
        return encoded_through(self.cache, self.identity, texts, self._asked)

    def __call__(self, texts: list[str]) -> Any:
        """The vectors of some texts, row by row."""
        rows = list(self.encoded(texts).rows)
        for row in rows:
            if isinstance(row, Lost):
                raise RuntimeError(row.remark)
        return np.array(rows)

    def _asked(self, texts: list[str]) -> Encoded:
        rows: list[Any] = []
        if texts:
            client, key = self._client()
            size = self.batch_size or _TEXTS_AT_ONCE
            with client:
                for start in range(0, len(texts), size):
                    rows += self._some(client, texts[start : start + size], Secrets([key] if key else []))
        return Encoded(rows, [False] * len(rows))

    def _some(self, client: Any, texts: list[str], secrets: Secrets) -> list[Any]:
        options = {} if self.dimensions is None else {"dimensions": self.dimensions}
        try:
            # As numbers: not every endpoint knows the shorter form that the client would ask for.
            reply = client.embeddings.create(
                model=self.model, input=list(map(readable, texts)), encoding_format="float", **options
            )
            found = {item.index: np.asarray(item.embedding, dtype=np.float32) for item in reply.data}
            return [found[place] for place in range(len(texts))]
        except Exception as error:  # a network, a service and a reply can go wrong in any way
            said = secrets.text(f"{type(error).__name__}: {error}")
            return [Lost("embed_failed", f"the endpoint gave no vectors ({said:.300})")] * len(texts)

    def _client(self) -> tuple[Any, str | None]:
        try:
            import openai
        except ImportError as error:
            raise MissingDependencyError(
                "openai", purpose="an embeddings endpoint", install="'auepora-eval[openai]'"
            ) from error
        key = os.environ.get(self.api_key_env)
        if not key and self.base_url is None:
            raise BadValueError(
                f"the environment variable {self.api_key_env} is not set; it must hold the key of the endpoint"
            )
        client = openai.OpenAI(
            api_key=key or "none", base_url=self.base_url, timeout=self.timeout, max_retries=self.retries
        )
        return client, key
