"""The text metrics in one place; each lives in a module of its family."""

from .generation_overlap import RougeLAnswer

__all__ = ["RougeLAnswer"]
