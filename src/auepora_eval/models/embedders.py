"""Embedders and pair scorers: a function, a local model, an import path or an endpoint."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.conventions import function_name
from ..core.registry import Use, parse_use, resolve
from ..errors import BadTypeError, BadValueError
from ..features.embeddings import EmbeddingBatch, EmbedFunction, InferenceFailure, cached_inference
from ..runtime.imports import import_object
from .encoding import TokenisedTexts, encodable, pad_batch, run_in_batches, token_budget, tokenise
from .endpoint import OpenAIEmbedder, encode_with_cache
from .loading import (
    LoadedModel,
    ModelSource,
    build_with_options,
    fingerprint,
    given_options,
    label_index,
    load_classifier,
    load_sentence_transformer,
)

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


def _table(rows: list[Any]) -> Sequence[Any]:
    """The rows as one array if none failed."""
    table: Any = rows if any(isinstance(row, InferenceFailure) for row in rows) else np.stack(rows)
    found: Sequence[Any] = table
    return found


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
            found: EmbeddingBatch = made.embed_batch(texts)
            return found
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
    found: EmbedFunction = parse_embedder(resolve(option, what=what), what=what)
    return found


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

Floats = npt.NDArray[np.float64]
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
        return tokenise(loaded, [one for one, _ in pairs], [other for _, other in pairs])

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
    probability: Floats = np.where(numbers >= 0, 1.0, small) / (1.0 + small)
    return probability


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
    config, own_config = (_read_config(folder / name) for name in ("config.json", "config_sentence_transformers.json"))
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


def _read_config(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def entailment_index(loaded: LoadedModel, label: str | None) -> int:
    """Index of the entailment label, by the label names in the model's config."""
    return label_index(loaded, label, "entail", "entailment", "name the one with entailment_label, or use an NLI model")
