"""Draws of samples at an earlier path (re-exports ``labels.draws``)."""

from ..labels.draws import draw_comparison, draw_samples, read_draws, record_draw

__all__ = ["draw_comparison", "draw_samples", "read_draws", "record_draw"]
