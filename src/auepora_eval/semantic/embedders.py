"""Embedders: a function, a model, an import path or an endpoint, as plans and Python describe them."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..core.errors import BadTypeError, BadValueError, did_you_mean
from ..core.resources import Use, parse_use, resolve
from ..core.signature import function_name
from ..features.embeddings import EmbeddingBatch, EmbedFunction
from .endpoint import OpenAIEmbedder
from .models import LoadedModel
from .sentence_embedder import SentenceTransformerEmbedder, encode_texts

__all__ = [
    "EMBEDDER_KINDS",
    "ObjectEmbedder",
    "PythonEmbedder",
    "build_embedder",
    "embedder_name",
    "parse_embedder",
    "require_embedder",
    "resolve_embedder",
]


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
        module_name, _, name = path.partition(":")
        found: Any = _module(module_name)
        for part in name.split("."):
            if not hasattr(found, part):
                raise BadValueError(f"'{module_name}' has no '{name}'{did_you_mean(name, dir(found))}")
            found = getattr(found, part)
        if inspect.isclass(found) or args:
            found = found(**dict(args))
        _IMPORTED[path, key] = parse_embedder(found, what=f"python: {path}")
    return _IMPORTED[path, key]


def _module(name: str) -> Any:
    # The current directory, in addition to the plan's folder, which the runner adds.
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise BadValueError(f"there is no module '{error.name}' in {here}, nor is one installed") from None
        raise BadValueError(f"module '{name}' needs '{error.name}', which is not installed") from error
    except Exception as error:  # the user's code may raise anything
        raise BadValueError(f"importing '{name}' raised {type(error).__name__}: {error}") from error


EMBEDDER_KINDS: dict[str, Callable[..., Any]] = {
    "sentence_transformers": SentenceTransformerEmbedder,
    "openai_embeddings": OpenAIEmbedder,
}
"""Kinds of embedders that a plan can name."""


def build_embedder(kind: str, options: Mapping[str, Any] | None) -> Any:
    """The embedder of a kind, from its options; nothing is loaded and no call is made yet."""
    make = EMBEDDER_KINDS.get(kind)
    if make is None:
        raise BadValueError(f"there is no kind of embedder '{kind}'; there are {', '.join(EMBEDDER_KINDS)}")
    if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
        raise BadTypeError(f"{kind} takes options, such as {{model: ...}}, not {options!r:.80}")
    known = inspect.signature(make).parameters
    for name in options:
        if name not in known:
            raise BadValueError(
                f"{kind} has no option '{name}'{did_you_mean(name, known, otherwise=_options_hint(known))}"
            )
    if "model" not in options:
        raise BadValueError(f"{kind} needs its option 'model'")
    return make(**options)


def _options_hint(names: Mapping[str, object]) -> str:
    return f"; its options are: {', '.join(names)}"


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
