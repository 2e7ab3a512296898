"""Corrections of gold at an earlier path (re-exports ``grades.corrections``)."""

from ..grades.corrections import make_correction, preview_corrections

__all__ = ["make_correction", "preview_corrections"]
