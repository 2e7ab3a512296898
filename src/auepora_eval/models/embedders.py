"""Embedders and pair scorers: a function, a local model, an import path or an endpoint; the cache of vectors."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np

from ..core.batch import Batch
from ..core.conventions import function_name
from ..core.registry import Use, parse_use, resolve
from ..errors import BadTypeError, BadValueError, StoreError
from ..features.embeddings import EmbeddingBatch, EmbedFunction, Floats, InferenceFailure, cached_inference
from ..net.client import MAX_REPLY_BYTES, HttpClient, check_headers, encode_json, parse_address, status_text
from ..net.retry import HttpRequestError, call_with_retries
from ..options import NonEmpty, NonNegativeInt, PositiveFloat, PositiveInt, check_options
from ..runtime.imports import import_object
from ..runtime.processes import shared_loop
from ..runtime.secrets import Secrets, looks_like_secret
from .encoding import TokenisedTexts, encodable, pad_batch, run_in_batches, token_budget, tokenise
from .loading import (
    LoadedModel,
    ModelSource,
    build_with_options,
    fingerprint,
    given_options,
    label_index,
    load_classifier,
    load_sentence_transformer,
    read_config,
)

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
    found = new | known
    return EmbeddingBatch([found[text][0] for text in texts], [found[text][1] for text in texts])


# --- vectors from an OpenAI-compatible endpoint ----------------------------------------------------------------------

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
            shown = Secrets(hide_passwords=True).text(str(self.base_url))
            raise BadValueError(f"base_url must be an address such as http://127.0.0.1:8000/v1, not {shown!r:.80}")
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
        body = encode_json({"input": [encodable(text) for text in texts], **self._options})
        reply = await self._client.send(
            "POST", self._target, self._headers, body, max_bytes=max(MAX_REPLY_BYTES, _BYTES_PER_VECTOR * len(texts))
        )
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


# --- sentence-transformers models ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SentenceTransformerEmbedder(ModelSource):
    """Embeds texts with a sentence-transformers model, loaded with the first text.

    ``model`` is the path of its folder or a hub name. Nothing is downloaded without ``allow_download``. The batch size
    depends on the length of the texts unless it is set. With ``cache`` vectors are stored in that file. Two embedders
    with the same model are equal: metrics that use either share their vectors.
    """

    cache: str | None = field(default=None, kw_only=True, compare=False)

    def spec(self) -> dict[str, Any]:
        """The description in a plan."""
        return {"sentence_transformers": given_options(self)}

    def require_ready(self) -> None:
        """Raise unless the packages and the model are available; loads the model."""
        self._loaded()

    def _loaded(self) -> LoadedModel:
        return load_sentence_transformer(self, purpose="embedding texts with a model")

    def embed_batch(self, texts: list[str]) -> EmbeddingBatch:
        """The vectors of some texts, and which of them were truncated."""
        if self.cache is None:
            return encode_texts(self._loaded(), texts, self.batch_size)
        # By fingerprint: a model of the same name may change.
        cache_key = f"{fingerprint(self.folder())} {self.precision}"
        return encode_with_cache(
            self.cache, cache_key, texts, lambda fresh: encode_texts(self._loaded(), fresh, self.batch_size)
        )

    def __call__(self, texts: list[str]) -> Any:
        """The vectors of some texts as an array; NaN rows for texts that did not fit into memory."""
        rows = self.embed_batch(texts).rows
        width = next((len(row) for row in rows if not isinstance(row, InferenceFailure)), 1)
        return np.array(
            [np.full(width, np.nan) if isinstance(row, InferenceFailure) else row for row in rows], np.float32
        )


def encode_texts(loaded: LoadedModel, texts: list[str], batch_size: int | None) -> EmbeddingBatch:
    """The vectors of some texts, computed in batches of similar length."""
    if not texts:
        return EmbeddingBatch([], [])
    if not _is_plain(loaded.model):
        return _encode_with_model(loaded, texts, batch_size)
    import torch

    # Tokenised once for batching, truncation and the model.
    tokens = tokenise(loaded, texts)

    def run(places: list[int]) -> Sequence[Any]:
        with torch.inference_mode():
            found = loaded.model(pad_batch(tokens, places, loaded))["sentence_embedding"]
        return list(found.float().cpu().numpy())

    rows = run_in_batches(tokens.lengths, run, tokens=token_budget(loaded.device), max_texts=batch_size)
    return EmbeddingBatch(_table(rows), tokens.cut)


def _table(rows: list[Any]) -> Any:
    """The rows as one array if none failed."""
    has_failures = any(isinstance(row, InferenceFailure) for row in rows)
    return rows if has_failures else np.stack(rows)


def _is_plain(model: Any) -> bool:
    """Whether the model is a plain transformer without prompts or preprocessing of its own."""
    first = model[0] if len(model) else None
    return (
        type(first).__name__ == "Transformer"
        and getattr(model, "tokenizer", None) is not None
        and hasattr(model.tokenizer, "pad_token_id")
        and not getattr(model, "default_prompt_name", None)
        and not getattr(first, "do_lower_case", False)
        and getattr(model, "truncate_dim", None) is None
    )


def _encode_with_model(loaded: LoadedModel, texts: list[str], batch_size: int | None) -> EmbeddingBatch:
    """Encode with the model's own ``encode``, for models that are not plain; truncation is unknown."""

    def run(places: list[int]) -> Sequence[Any]:
        some = [encodable(texts[place]) for place in places]
        return list(loaded.model.encode(some, batch_size=len(some), show_progress_bar=False, convert_to_numpy=True))

    rows = run_in_batches(
        list(map(len, texts)), run, tokens=4 * token_budget(loaded.device), max_texts=batch_size or 32
    )
    return EmbeddingBatch(_table(rows), [False] * len(texts))


# --- embedders as plans and Python describe them: a function, a model, an import path, an endpoint -------------------


@dataclass(frozen=True)
class ObjectEmbedder:
    """Embeds texts with a sentence-transformers model that is already loaded."""

    model: Any

    @cached_property
    def identity(self) -> str:
        """The model's name, if it has one, and a hash of the first numbers of each of its weights."""
        card = getattr(self.model, "model_card_data", None)
        name = getattr(card, "base_model", None) or type(self.model).__name__
        digest = hashlib.sha256()
        for part, weights in self.model.state_dict().items():
            digest.update(f"{part} {tuple(weights.shape)} {weights.flatten()[:16].tolist()}".encode())
        return f"{name}-{digest.hexdigest()[:8]}".replace("|", "/")

    def embed_batch(self, texts: list[str]) -> EmbeddingBatch:
        """The vectors of some texts, and which of them were truncated."""
        model = self.model.eval()  # in training mode dropout would be active
        device = str(getattr(model, "device", "cpu")).partition(":")[0]
        longest = int(getattr(model, "max_seq_length", None) or 512)
        return encode_texts(LoadedModel(model, getattr(model, "tokenizer", None), device, longest), texts, None)


@dataclass(frozen=True)
class PythonEmbedder:
    """Embeds texts with a function, class or object at an import path, such as ``my_app.vectors:embed``.

    A class, or a function with ``args``, is called with them and returns the embedder.
    """

    path: str
    args: tuple[tuple[str, Any], ...] = field(default=())

    def __post_init__(self) -> None:
        module, colon, name = self.path.partition(":") if isinstance(self.path, str) else ("", "", "")
        if not (colon and module and name):
            raise BadValueError(f"python: takes an import path, module:name, not {self.path!r:.80}")
        object.__setattr__(self, "args", tuple(dict(self.args).items()))

    @property
    def identity(self) -> str:
        """The path and its arguments."""
        return " ".join([self.path, *(f"{key}={value!r}" for key, value in self.args)]).replace("|", "/")

    def spec(self) -> dict[str, Any]:
        """The description in a plan."""
        return {"python": self.path, **({"args": dict(self.args)} if self.args else {})}

    def require_ready(self) -> None:
        """Raise unless it can be imported."""
        self._load()

    def embed_batch(self, texts: list[str]) -> EmbeddingBatch:
        """The vectors of some texts."""
        made = self._load()
        if hasattr(made, "embed_batch"):
            return cast("EmbeddingBatch", made.embed_batch(texts))
        rows = made(texts)
        return EmbeddingBatch(rows if hasattr(rows, "shape") else list(rows), [False] * len(texts))

    def _load(self) -> Any:
        return _import_embedder(self.path, self.args)


_IMPORTED: dict[tuple[str, str], Any] = {}


def _import_embedder(path: str, args: tuple[tuple[str, Any], ...]) -> Any:
    key = repr(args)
    if (path, key) not in _IMPORTED:
        found = import_object(path)
        if inspect.isclass(found) or args:
            found = found(**dict(args))
        _IMPORTED[path, key] = parse_embedder(found, what=f"python: {path}")
    return _IMPORTED[path, key]


EMBEDDER_KINDS: dict[str, Callable[..., Any]] = {
    "sentence_transformers": SentenceTransformerEmbedder,
    "openai_embeddings": OpenAIEmbedder,
}
"""Kinds of embedders that a plan can name."""


def build_embedder(kind: str, options: object) -> Any:
    """The embedder of a kind, from its options; nothing is loaded and no call is made yet."""
    make = EMBEDDER_KINDS.get(kind)
    if make is None:
        raise BadValueError(f"there is no kind of embedder '{kind}'; there are {', '.join(EMBEDDER_KINDS)}")
    return build_with_options(make, kind, options)


def parse_embedder(option: Any, *, what: str = "embed_fn") -> Any:
    """The embedder that an option describes.

    The option may be a function from texts to vectors, a sentence-transformers model or its path, or the
    description in a plan:
    ``{use: NAME}``, ``{python: module:name}``, ``{sentence_transformers: {model: ...}}``,
    ``{openai_embeddings: {model: ...}}``.
    """
    option = parse_use(option)
    if isinstance(option, (str, os.PathLike)):
        return SentenceTransformerEmbedder(os.fspath(option))
    if isinstance(option, Mapping):
        kind = next(iter(option), "")
        if kind == "python" and set(option) <= {"python", "args"}:
            args = option.get("args") or {}
            if not isinstance(args, Mapping):
                raise BadTypeError(f"{what}: args must be a mapping, not {args!r:.80}")
            return PythonEmbedder(option["python"], tuple(args.items()))
        if len(option) == 1:
            return build_embedder(kind, option[kind])
    if isinstance(option, Use) or hasattr(option, "embed_batch"):
        return option
    if getattr(option, "__name__", None) == "encode" and _is_model(owner := getattr(option, "__self__", None)):
        option = owner  # the bound method hides the model's identity and truncation
    if _is_model(option):
        return ObjectEmbedder(option)
    if inspect.iscoroutinefunction(option):
        raise BadTypeError(f"{what} is an async function; give a plain one, such as one that runs it by asyncio.run")
    if callable(option):
        return option
    raise BadTypeError(
        f"{what} must be a function from a list of texts to a vector for each, the path of a sentence-transformers "
        f"model, {{use: RESOURCE}}, {{python: module:name}}, {{sentence_transformers: {{model: PATH}}}} or "
        f"{{openai_embeddings: {{model: NAME}}}}; not {option!r:.80}"
    )


def _is_model(thing: Any) -> bool:
    """Whether it is a sentence-transformers model, without importing that package."""
    return all(hasattr(thing, name) for name in ("encode", "max_seq_length", "state_dict"))


def resolve_embedder(option: Any, *, what: str = "embed_fn") -> EmbedFunction:
    """The embedder that an option stands for, resources resolved."""
    return cast("EmbedFunction", parse_embedder(resolve(option, what=what), what=what))


def embedder_name(option: Any) -> str:
    """An embedder as a signature shows it."""
    if isinstance(option, Use):
        return option.name if option.thing is None else embedder_name(parse_embedder(option.thing))
    known = getattr(option, "identity", None)
    return known if isinstance(known, str) else function_name(option)


def require_embedder(option: Any, *, what: str = "embed_fn") -> None:
    """Raise unless an embedder is usable: its packages, model and key are available."""
    ready = getattr(resolve_embedder(option, what=what), "require_ready", None)
    if ready is not None:
        ready()


# --- text pairs scored by a sequence classifier: cross-encoders and NLI models ---------------------------------------

Pair = tuple[str, str]
PairLogits = Mapping[Pair, tuple[Floats, bool] | InferenceFailure]
"""Per pair the model's logits and whether a text was truncated."""


@dataclass(frozen=True)
class PairModel(ModelSource):
    """A sequence classifier for text pairs, with a logit for each label."""

    def loaded(self) -> LoadedModel:
        """The model in memory."""
        return load_classifier(self, purpose="scoring pairs of texts with a model")

    def encode(self, loaded: LoadedModel, pairs: Sequence[Pair]) -> TokenisedTexts:
        """The tokens of each pair, as the model reads it."""
        return tokenise(loaded, [text for text, _ in pairs], [other for _, other in pairs])

    def forward(self, loaded: LoadedModel, inputs: Mapping[str, Any]) -> Any:
        """The logits of a batch of pairs: a row per pair, a column per label."""
        return loaded.model(**inputs).logits

    def logits(self, pairs: list[Pair]) -> list[tuple[Floats, bool] | InferenceFailure]:
        """The logits of each pair, and whether a text was truncated."""
        import torch

        loaded = self.loaded()
        tokens = self.encode(loaded, pairs)

        def run(indices: list[int]) -> Sequence[Any]:
            with torch.inference_mode():
                found = self.forward(loaded, pad_batch(tokens, indices, loaded))
            return list(found.float().cpu().numpy().astype(np.float64))

        rows = run_in_batches(tokens.lengths, run, tokens=token_budget(loaded.device), max_texts=self.batch_size)
        return [
            row if isinstance(row, InferenceFailure) else (row, cut) for row, cut in zip(rows, tokens.cut, strict=True)
        ]


def pair_logits(batch: Batch, model: PairModel, rows: Sequence[Sequence[Pair]]) -> PairLogits:
    """The logits of every pair of each row of a batch; each distinct pair is computed once."""
    return cached_inference(batch, ("pairs", model), rows, model.logits, count_numbers=lambda found: len(found[0]))


def _sigmoid(numbers: Floats) -> Floats:
    # By sign, to avoid overflow.
    small = np.exp(-np.abs(numbers))
    return np.where(numbers >= 0, 1.0, small) / (1.0 + small)


ACTIVATIONS: dict[str, tuple[Callable[[Floats], Floats], tuple[float, float]]] = {
    "sigmoid": (_sigmoid, (0.0, 1.0)),
    "tanh": (np.tanh, (-1.0, 1.0)),
    "identity": (lambda numbers: numbers, (-np.inf, np.inf)),
}
"""Activations of a cross-encoder's single logit, with their ranges."""


def activation_name(source: ModelSource) -> str | None:
    """The activation in a cross-encoder's config; ``None`` if the model is not on this machine."""
    folder = _local_folder(source)
    if folder is None:
        return None
    config = read_config(folder / "config.json")
    own_config = read_config(folder / "config_sentence_transformers.json")
    nested = config.get("sentence_transformers")
    activation = own_config.get("activation_fn") or (
        nested.get("activation_fn") if isinstance(nested, Mapping) else None
    )
    activation = (
        activation or config.get("sbert_ce_default_activation_function") or "Sigmoid"
    )  # the default for a single logit
    name = str(activation).rpartition(".")[2].lower()
    if name not in ACTIVATIONS:
        raise BadValueError(
            f"the cross-encoder in {folder} has the activation {activation}, which is not supported; supported are "
            f"{', '.join(ACTIVATIONS)}"
        )
    return name


def _local_folder(source: ModelSource) -> Path | None:
    """The model's folder on this machine, without a network."""
    if source.is_local:
        return Path(source.model).expanduser()
    try:
        return ModelSource(source.model, revision=source.revision).folder()
    except (BadValueError, ImportError):
        return None


def entailment_index(loaded: LoadedModel, label: str | None) -> int:
    """Index of the entailment label, by the label names in the model's config."""
    return label_index(loaded, label, "entail", "entailment", "name the one with entailment_label, or use an NLI model")
