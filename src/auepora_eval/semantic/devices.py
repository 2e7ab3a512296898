"""Device and precision of a model."""

from __future__ import annotations

from typing import Any, Literal

from ..core.errors import BadValueError

__all__ = ["DEVICES", "PRECISIONS", "Device", "Precision", "require_device", "require_precision", "select_device"]

Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["float32", "float16", "bfloat16"]
DEVICES = ("auto", "cpu", "cuda")
PRECISIONS = ("float32", "float16", "bfloat16")


def require_device(device: object) -> None:
    """Raise unless it is a known device; its availability is checked when a model is loaded."""
    if device not in DEVICES:
        raise BadValueError(f"device must be one of {', '.join(DEVICES)}; not {device!r}")


def require_precision(precision: object) -> None:
    """Raise unless it is a known precision."""
    if precision not in PRECISIONS:
        raise BadValueError(f"precision must be one of {', '.join(PRECISIONS)}; not {precision!r}")


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
