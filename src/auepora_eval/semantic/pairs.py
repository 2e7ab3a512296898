"""Scores of text pairs by a sequence classifier: cross-encoders and NLI models."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.errors import BadValueError
from ..features.model_cache import InferenceFailure, cached_inference
from .devices import Device, Precision
from .encoding import pad_batch, require_batch_size, run_in_batches, token_budget, tokenise
from .models import LoadedModel, ModelSource, load_classifier

__all__ = ["ACTIVATIONS", "PairModel", "activation_name", "entailment_index", "pair_logits"]

Floats = npt.NDArray[np.float64]
Pair = tuple[str, str]
PairLogits = Mapping[Pair, tuple[Floats, bool] | InferenceFailure]
"""Per pair the model's logits and whether a text was truncated."""


@dataclass(frozen=True)
class PairModel:
    """A sequence classifier for text pairs, with a logit for each label."""

    model: str
    device: Device = field(default="auto", kw_only=True)
    precision: Precision = field(default="float32", kw_only=True)
    batch_size: int | None = field(default=None, kw_only=True, compare=False)
    revision: str | None = field(default=None, kw_only=True)
    allow_download: bool = field(default=False, kw_only=True, compare=False)

    def __post_init__(self) -> None:
        require_batch_size(self.batch_size)
        object.__setattr__(self, "model", self.source.model)

    @classmethod
    def of(cls, options: Any) -> PairModel:
        """The model described by an object with options of these names."""
        return cls(
            options.model, **{name: getattr(options, name) for name in cls.__dataclass_fields__ if name != "model"}
        )

    @property
    def source(self) -> ModelSource:
        """The model with its device."""
        return ModelSource(
            self.model,
            device=self.device,
            precision=self.precision,
            revision=self.revision,
            allow_download=self.allow_download,
        )

    def loaded(self) -> LoadedModel:
        """The model in memory."""
        return load_classifier(self.source, purpose="scoring pairs of texts with a model")

    def logits(self, pairs: list[Pair]) -> list[tuple[Floats, bool] | InferenceFailure]:
        """The logits of each pair, and whether a text was truncated."""
        import torch

        loaded = self.loaded()
        tokens = tokenise(loaded, [one for one, _ in pairs], [other for _, other in pairs])

        def run(indices: list[int]) -> Sequence[Any]:
            with torch.inference_mode():
                found = loaded.model(**pad_batch(tokens, indices, loaded)).logits
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
    labels = {int(index): str(name) for index, name in loaded.model.config.id2label.items()}
    if label is not None:
        matches = [index for index, name in labels.items() if name.lower() == label.lower()]
        problem = f"has no label '{label}'"
    else:
        matches = [index for index, name in labels.items() if _means_entailment(name)]
        problem = "does not say which of its labels means entailment"
    if len(matches) != 1:
        raise BadValueError(
            f"the model {problem}; its labels are {', '.join(labels.values())}: name the one with entailment_label, or "
            "use an NLI model"
        )
    return matches[0]


def _means_entailment(label: str) -> bool:
    name = label.lower().replace("-", "_").replace(" ", "_")
    return name.startswith("entail")
