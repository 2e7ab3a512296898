"""Models truncated to their first layers."""

from __future__ import annotations

from typing import Any

from ..core.errors import BadValueError

__all__ = ["PREFIX_SPACE_MODELS", "keep_layers", "layer_count"]

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
