"""Vectors from an OpenAI-compatible endpoint, and the cache of vectors in a SQLite file."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from ..errors import BadValueError, StoreError
from ..features.embeddings import EmbeddingBatch, InferenceFailure
from ..net.client import MAX_REPLY_BYTES, HttpClient, check_headers, encode_json, parse_address, status_text
from ..net.retry import HttpRequestError, call_with_retries
from ..options import NonEmpty, NonNegativeInt, PositiveFloat, PositiveInt, check_options
from ..runtime.loop_thread import shared_loop
from ..runtime.secrets import Secrets, looks_like_secret
from .encoding import encodable
from .loading import given_options

# --- the cache of vectors, in a SQLite file that several processes may share -----------------------------------------

_TEXTS_PER_QUERY = 500
_BUSY_TIMEOUT_S = 60.0
"""Seconds to wait for another process that is writing."""
_TABLE = """
CREATE TABLE IF NOT EXISTS vectors (
    model TEXT NOT NULL, text BLOB NOT NULL, cut INTEGER NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (model, text)
) WITHOUT ROWID
"""


class VectorCache:
    """Vectors by model and text. Texts are stored as hashes, vectors as float32.

    The file is opened for each read and write, so that a cache may be used from any thread and process.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()

    def read(self, model: str, texts: Sequence[str]) -> dict[str, tuple[Any, bool]]:
        """The cached vectors, and whether each text was truncated."""
        if not self.path.exists():
            return {}
        by_hash = {_hash(text): text for text in texts}
        hashes = list(by_hash)
        found: dict[str, tuple[Any, bool]] = {}
        with self._open() as connection:
            for start in range(0, len(hashes), _TEXTS_PER_QUERY):
                hash_chunk = hashes[start : start + _TEXTS_PER_QUERY]
                placeholders = ",".join("?" * len(hash_chunk))
                # S608: only placeholders are interpolated here.
                query = f"SELECT text, cut, vector FROM vectors WHERE model = ? AND text IN ({placeholders})"  # noqa: S608
                for text, cut, vector in connection.execute(query, [model, *hash_chunk]):
                    found[by_hash[text]] = np.frombuffer(vector, dtype="<f4"), bool(cut)
        return found

    def write(self, model: str, texts: Sequence[str], vectors: Sequence[Any], cut: Sequence[bool]) -> None:
        """Store some vectors; entries that another process wrote meanwhile stay."""
        rows = [
            (model, _hash(text), int(was_truncated), np.asarray(vector, dtype="<f4").tobytes())
            for text, vector, was_truncated in zip(texts, vectors, cut, strict=True)
        ]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._open() as connection, connection:
            connection.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?, ?, ?)", rows)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=_BUSY_TIMEOUT_S)) as connection:
                connection.execute(_TABLE)
                yield connection
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                str(self.path), f"the vector cache cannot be used ({error}); delete the file or name another"
            ) from error


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def encode_with_cache(
    cache: str | None, model: str, texts: list[str], encode: Callable[[list[str]], EmbeddingBatch]
) -> EmbeddingBatch:
    """The vectors of some texts, from the cache if possible; new ones are stored."""
    if cache is None:
        return encode(texts)
    vector_cache = VectorCache(cache)
    known = vector_cache.read(model, texts)
    fresh = [text for text in dict.fromkeys(texts) if text not in known]
    encoded = encode(fresh) if fresh else EmbeddingBatch([], [])
    new = dict(zip(fresh, zip(encoded.rows, map(bool, encoded.cut), strict=True), strict=True))
    # Vectors with NaN are not cached: another attempt may succeed.
    valid = [text for text, (row, _) in new.items() if not isinstance(row, InferenceFailure) and np.isfinite(row).all()]
    if valid:
        vector_cache.write(model, valid, [new[text][0] for text in valid], [new[text][1] for text in valid])
    pairs = [known[text] if text in known else new[text] for text in texts]
    return EmbeddingBatch([row for row, _ in pairs], [cut for _, cut in pairs])


# --- the endpoint ----------------------------------------------------------------------------------------------------

_DEFAULT_URL = "https://api.openai.com/v1"
_TEXTS_PER_REQUEST = 256
_BYTES_PER_VECTOR = 100_000
"""Limit on the part of a reply that is about one text: some 8,000 numbers."""
_REJECTION_STATUSES = (400, 413, 422)
"""Statuses of a rejected input: a smaller request may succeed."""
_MAX_REJECTIONS = 20
"""After this many rejections in a row the endpoint rejects everything, and requests are no longer halved."""


@dataclass(frozen=True)
class OpenAIEmbedder:
    """Embeds texts with an OpenAI-compatible embeddings endpoint.

    The key is read from the environment variable named by ``api_key_env``; an endpoint of your own (``base_url``) may
    need none. With ``cache`` vectors are stored in that file, and a text is paid for once. If the endpoint rejects a
    request, its texts are sent in halves, so that one bad text does not fail the others. Texts without a vector after
    ``retries`` are failed measurements.
    """

    model: Annotated[str, NonEmpty()]
    base_url: str | None = field(default=None, kw_only=True)
    api_key_env: str = field(default="OPENAI_API_KEY", kw_only=True, compare=False)
    dimensions: PositiveInt | None = field(default=None, kw_only=True)
    batch_size: PositiveInt | None = field(default=None, kw_only=True, compare=False)
    timeout: PositiveFloat = field(default=60.0, kw_only=True, compare=False)
    retries: NonNegativeInt = field(default=3, kw_only=True, compare=False)
    cache: str | None = field(default=None, kw_only=True, compare=False)
    backoff = 0.5

    def __post_init__(self) -> None:
        if not isinstance(self.api_key_env, str) or not self.api_key_env.isidentifier():
            raise BadValueError("api_key_env must be the name of an environment variable, never the key itself")
        if looks_like_secret(self.api_key_env):
            raise BadValueError("api_key_env must name the environment variable that holds the key, not the key")
        if self.base_url is not None and not str(self.base_url).startswith(("http://", "https://")):
            raise BadValueError(
                f"base_url must be an address such as http://127.0.0.1:8000/v1, not {self.base_url!r:.80}"
            )
        check_options(self)

    @property
    def identity(self) -> str:
        """Identifies its vectors in signatures and caches."""
        where = [] if self.base_url is None else [Secrets(hide_passwords=True).text(self.base_url)]
        return " ".join([self.model, *map(str, filter(None, [self.dimensions])), *where]).replace("|", "/")

    def spec(self) -> dict[str, Any]:
        """The description in a plan."""
        return {"openai_embeddings": given_options(self)}

    def require_ready(self) -> None:
        """Raise unless the key is available; no call is made."""
        _EndpointCalls(self)

    def embed_batch(self, texts: list[str]) -> EmbeddingBatch:
        """The vectors of some texts; truncation by the endpoint is unknown."""
        return encode_with_cache(self.cache, self.identity, texts, self._embed)

    def __call__(self, texts: list[str]) -> Any:
        """The vectors of some texts, row by row."""
        rows = list(self.embed_batch(texts).rows)
        for row in rows:
            if isinstance(row, InferenceFailure):
                raise RuntimeError(row.message)
        return np.array(rows)

    def _embed(self, texts: list[str]) -> EmbeddingBatch:
        rows = shared_loop().run(_EndpointCalls(self).all_rows(texts)) if texts else []
        return EmbeddingBatch(rows, [False] * len(rows))


class _EndpointCalls:
    """The requests for one list of texts, split into halves after rejections."""

    def __init__(self, embedder: OpenAIEmbedder) -> None:
        key = os.environ.get(embedder.api_key_env, "").strip()
        if not key and embedder.base_url is None:
            raise BadValueError(
                f"the environment variable {embedder.api_key_env} is not set; it must hold the key of the endpoint"
            )
        if not (key.isascii() and key.isprintable()):
            raise BadValueError(f"what the environment variable {embedder.api_key_env} holds is no key")
        address = parse_address(embedder.base_url or os.environ.get("OPENAI_BASE_URL") or _DEFAULT_URL)
        headers, self._address_secrets = check_headers({}, address)
        self._headers = {"Authorization": f"Bearer {key or 'none'}"} | headers
        self._secrets = Secrets([key] if key else [])
        path, at, query = address.target.partition("?")
        self._target = f"{path.rstrip('/')}/embeddings{at}{query}"
        options = {} if embedder.dimensions is None else {"dimensions": embedder.dimensions}
        # As floats: not every endpoint supports base64.
        self._options = {"model": embedder.model, "encoding_format": "float", **options}
        self._embedder, self._client = embedder, HttpClient(address, timeout=embedder.timeout)
        self._rejections_left = _MAX_REJECTIONS

    async def all_rows(self, texts: list[str]) -> list[Any]:
        """A vector for each text, or an ``InferenceFailure``; the connections are closed afterwards."""
        size = self._embedder.batch_size or _TEXTS_PER_REQUEST
        try:
            return [
                row for start in range(0, len(texts), size) for row in await self._rows(texts[start : start + size])
            ]
        finally:
            await self._client.aclose()

    async def _rows(self, texts: list[str]) -> list[Any]:
        try:
            rows = await call_with_retries(lambda: self._request(texts), self._embedder)
        except HttpRequestError as error:
            if error.status in _REJECTION_STATUSES and self._rejections_left > 0:
                self._rejections_left -= 1
                if len(texts) > 1:
                    half = len(texts) // 2
                    return await self._rows(texts[:half]) + await self._rows(texts[half:])
            message = self._secrets.text(self._address_secrets.text(error.message))
            return [InferenceFailure("embed_failed", f"the endpoint gave no vectors ({message:.300})")] * len(texts)
        self._rejections_left = _MAX_REJECTIONS
        return rows

    async def _request(self, texts: list[str]) -> list[Any]:
        body = encode_json({"input": list(map(encodable, texts)), **self._options})
        limit = max(MAX_REPLY_BYTES, _BYTES_PER_VECTOR * len(texts))
        reply = await self._client.send("POST", self._target, self._headers, body, max_bytes=limit)
        content = " ".join(reply.body[:1000].decode(errors="replace").split())
        if not reply.is_success:
            message = reply.redirect_message(self._address_secrets) or f"{status_text(reply.status)}: {content}"
            raise HttpRequestError("status", message, retry_after=reply.retry_after, status=reply.status)
        try:
            items = json.loads(reply.body)["data"]
            vectors = {item["index"]: np.asarray(item["embedding"], dtype=np.float32) for item in items}
            return [vectors[place] for place in range(len(texts))]
        except (ValueError, LookupError, TypeError):
            raise HttpRequestError("bad_reply", f"the reply is not a vector for each text: {content}") from None
