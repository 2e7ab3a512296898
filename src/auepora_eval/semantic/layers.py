"""Where models keep their layers, and a model with the first of them alone."""

from __future__ import annotations

from typing import Any

from ..core.errors import BadValueError

__all__ = ["PREFIX_SPACE_MODELS", "keep_layers", "layer_count"]

PREFIX_SPACE_MODELS = frozenset({"gpt2", "roberta"})
"""Kinds of models whose first word is read as if a space stood before it, as every other word's is."""

_LAYERS_AT = (
    ("layer",),
    ("encoder", "layer"),
    ("encoder", "block"),
    ("transformer", "layer"),
    ("layers",),
    ("encoder", "layers"),
    ("block",),
)
"""Where models keep their layers."""


def layer_count(model: Any) -> int:
    """How many layers a model has."""
    if hasattr(getattr(model, "encoder", None), "albert_layer_groups"):
        return int(model.config.num_hidden_layers)
    holder, name = _layers_of(model)
    return len(getattr(holder, name))


def keep_layers(model: Any, count: int) -> Any:
    """The model with its first layers alone; what comes after the last, such as a norm, stays."""
    import torch

    if hasattr(model, "decoder") and hasattr(model, "encoder"):
        model = model.encoder
    layers = layer_count(model)
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= layers:
        raise BadValueError(f"num_layers must lie between 0 and the model's {layers}, not at {count!r}")
    if hasattr(getattr(model, "encoder", None), "albert_layer_groups"):
        model.encoder.config.num_hidden_layers = count  # the same layer, fewer times
        return model
    holder, name = _layers_of(model)
    setattr(holder, name, torch.nn.ModuleList(list(getattr(holder, name))[:count]))
    return model


def _layers_of(model: Any) -> tuple[Any, str]:
    for *path, name in _LAYERS_AT:
        holder = model
        for step in path:
            holder = getattr(holder, step, None)
        if hasattr(holder, name):
            return holder, name
    raise BadValueError(f"it is not known where a {type(model).__name__} keeps its layers; take another model")
