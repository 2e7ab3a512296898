"""Figures of the source tree: ``python -m tools.structure`` and ``python -m tools.size``."""
